"""Random texts of many scripts, with what breaks tokenizers."""

from __future__ import annotations

import unicodedata

import numpy as np

SCRIPTS = {
    "Latin": (0x41, 0x24F),
    "Greek": (0x370, 0x3FF),
    "Cyrillic": (0x400, 0x4FF),
    "Armenian": (0x531, 0x586),
    "Hebrew": (0x5B0, 0x5EA),
    "Arabic": (0x610, 0x66F),
    "Devanagari": (0x900, 0x97F),
    "Bengali": (0x980, 0x9FE),
    "Tamil": (0xB82, 0xBFA),
    "Thai": (0xE01, 0xE5B),
    "Georgian": (0x10A0, 0x10FF),
    "Hangul": (0x1100, 0x11FF),
    "Ethiopic": (0x1200, 0x137C),
    "Kana": (0x3041, 0x30FF),
    "Han": (0x4E00, 0x4E80),
}
EXTRAS = (
    *("1", "42", "a1", "_", "a_b", "__", "x", "I", "don't", "e-mail", "A.B", "(", "…", "ẞß", "İI"),
    *("\u00b2", "\u0663\u0664", "\uff21\uff11", "\ufb01n", "\u00b4", "e\u0301", "\u0301", "\u00c5"),
    *("\U0001f600", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea"),
    *(
        "\u202eabc",
        "a\u200bb",
        "\x00",
        "a\x00b",
        "\ufeff",
        "ΟΔΟΣ",
        "\U0001d400\U0001d401",
        "\ue000",
    ),
)
"""Digits, underscores, marks, compatibility forms, emoji, directions, what has no width, NUL."""
BLANKS = (" ",) * 12 + ("  ", "\t", "\n", "\r\n", "\u00a0", "\u2028", "\u3000", "\x1c", "\x85", "")


def strange_texts(n: int, seed: int = 0) -> list[str]:
    """Of few words from one or two scripts, extras among them; some are empty or blank."""
    random = np.random.default_rng(seed)
    words = list(_words())
    texts = []
    for _ in range(n):
        scripts = random.integers(0, len(words), 2)
        parts = []
        for _ in range(random.integers(0, 8)):
            own = EXTRAS if random.random() < 0.2 else words[scripts[random.integers(0, 2)]]
            parts.append(own[min(random.geometric(0.03), len(own)) - 1])
            parts.append(BLANKS[random.integers(0, len(BLANKS))])
        texts.append("".join(parts))
    return texts


def _words() -> list[list[str]]:
    """For each script 200 words."""
    random = np.random.default_rng(1)
    found = []
    for low, high in SCRIPTS.values():
        known = [chr(point) for point in range(low, high + 1) if unicodedata.name(chr(point), "")]
        sizes = random.integers(1, 9, 200)
        found.append(
            ["".join(known[k] for k in random.integers(0, len(known), size)) for size in sizes]
        )
    return found
