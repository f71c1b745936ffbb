"""Encodings of texts: their names, and which one a file that does not say it has."""

from __future__ import annotations

import codecs
import encodings
import pkgutil
import re
import unicodedata
from collections import Counter
from encodings.aliases import aliases
from functools import cache
from pathlib import Path
from typing import NamedTuple

from service.errors import Fault, InvalidRequest
from service.rows.faults import warning

BLOCK_BYTES = 1024 * 1024
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks."""
HINT = "say which it is with `encoding`, or save the file as UTF-8"

_NOT_OFFERED = (
    *("aliases", "charmap", "undefined", "mbcs", "oem"),  # of Python itself, and of Windows
    *("base64_codec", "bz2_codec", "hex_codec", "quopri_codec"),  # of bytes
    *("rot_13", "uu_codec", "zlib_codec"),
    *("idna", "punycode", "unicode_escape", "raw_unicode_escape"),  # of names and source code
    "utf_7",  # keeps all of a sequence that does not end, and looks through it again
)
_NAME = re.compile("[a-zA-Z0-9_. :-]{1,40}")
SAMPLE_BYTES = 16 * 1024
"""Of different cells that are not ASCII: what a guess is made from."""
_CELL_BYTES = 4096
_DELIMITERS = bytes.maketrans(b',;\t"\r', b"\n\n\n\n\n")
"""No character of several bytes has one of them; `|` may be in one."""
_ASCII = frozenset(range(128))
_DIGITS = b"0123456789.,"
_WESTERN = "windows-1252"
_CLOSE = 0.8
"""A western text is as likely as another one with this share of its score."""
_MOST_LIKELY = 24
_FEW_BYTES = 2
"""With as many different ones that are not ASCII, such as the sign of the euro, it is likelier."""
_LEAST_PLAUSIBLE = 0.5
_WRONG = re.compile("[\udc80-\udcff]+")
"""Bytes that are not UTF-8, as they are decoded with `surrogateescape`."""
_WORD = re.compile(r"[^\x00-@\[-`{-\x7f\s’]+")
_AROUND_WORDS = "“”„‘’«»‹›…–—€£¥¤§°±²³µ"
_WITH_LATIN = {"LATIN", "COMBINING", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH"}
"""First words of the names of characters that may be in a word of Latin letters."""


class Decoded(NamedTuple):
    """A text file in UTF-8."""

    path: Path
    encoding: str
    warnings: list[dict[str, str]]


@cache
def _names() -> frozenset[str]:
    names = {one.name for one in pkgutil.iter_modules(encodings.__path__)}
    return frozenset(names.difference(_NOT_OFFERED))


def is_text_codec(name: str) -> bool:
    """Whether Python has an encoding of texts of this name."""
    if not _NAME.fullmatch(name):
        return False
    module = encodings.normalize_encoding(name).lower()
    return aliases.get(module, module) in _names()


def said_by_mark(head: bytes) -> str | None:
    """The encoding that a byte order mark says."""
    return next((encoding for mark, encoding in MARKS if head.startswith(mark)), None)


def marked(head: bytes) -> str | None:
    """What a byte order mark says. UTF-16 is known without one, too, by its many NUL bytes."""
    if (encoding := said_by_mark(head)) is not None:
        return encoding
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if 4 * head[first::2].count(0) > len(head) > 1 and 0 not in head[1 - first :: 2]:
            return encoding
    return None


def as_utf8(path: Path, given: str | None, new: Path) -> Decoded:
    """The file in UTF-8, at `new` if it is in another encoding: the one `given`, or a guess.

    Raises InvalidRequest.
    """
    with path.open("rb") as file:
        head = file.read(SAMPLE_BYTES)
    encoding = given or marked(head[:1024]) or "utf-8"
    warnings = []
    if encoding == "utf-8":
        if given is not None or _is_utf8(path):
            return Decoded(path, encoding, [])
        if b"\0" in head:
            raise _unreadable("the file is not text: it has NUL bytes", HINT)
        _check_not_mixed(path)
        encoding, warning = _guess(list(_cells(path)))
        warnings.append(warning)
    elif given is not None:
        warnings += _read_as_other(_cells(path), given)
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with path.open("rb") as file, new.open("wb") as out:
            while block := file.read(BLOCK_BYTES):
                out.write(decoder.decode(block).encode())
            out.write(decoder.decode(b"", final=True).encode())
    except UnicodeError:  # also UTF-16 and UTF-32 without a byte order mark
        raise _unreadable(f"the text is not in the encoding {encoding}", HINT) from None
    return Decoded(new, encoding, warnings)


def _unreadable(what: str, hint: str) -> InvalidRequest:
    fault = Fault(code="bad-encoding", message=what, hint=hint)
    return InvalidRequest("bad-encoding", f"{what}; {hint}", (fault,))


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                if decoder.getstate()[0] or not block.isascii():
                    decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _check_not_mixed(path: Path) -> None:
    """Raises InvalidRequest for a text that is not UTF-8, if most of its characters that are not
    ASCII would be: rows of two encodings."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    n_others = n_wrong = 0
    line, first = 1, 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            text = decoder.decode(block)
            if not first and (wrong := _WRONG.search(text)):
                first = line + text.count("\n", 0, wrong.start())
            line += text.count("\n")
            n_wrong += len(text) - len(_WRONG.sub("", text))
            n_others += len(text) - len(text.encode("ascii", "ignore"))
    if n_others - n_wrong < n_wrong:
        return
    message = f"line {first} is not UTF-8, but most of the text is: the file mixes encodings"
    raise _unreadable(message, "save it as UTF-8, or say which one it is with `encoding`")


def _cells(path: Path) -> Counter[bytes]:
    """The different cells that are not ASCII, as far as a guess needs them; those that differ in
    digits only are counted as one."""
    cells: dict[bytes, bytes] = {}
    counts: Counter[bytes] = Counter()
    size, rest = 0, b""
    with path.open("rb") as file:
        while size < SAMPLE_BYTES and (block := file.read(BLOCK_BYTES)):
            *whole, rest = (rest + block).translate(_DELIMITERS).split(b"\n")
            for cell in [*whole, rest] if len(block) < BLOCK_BYTES else whole:
                if not cell.isascii():
                    cell = cells.setdefault(cell.translate(None, _DIGITS), cell[:_CELL_BYTES])
                    counts[cell] += 1
                    size += len(cell) if counts[cell] == 1 else 0
            rest = rest[:_CELL_BYTES]
    return counts


def _guess(cells: list[bytes]) -> tuple[str, dict[str, str]]:
    """The most likely encoding, and the warning that it is a guess. Raises InvalidRequest.

    Detectors are made for prose. Of a few short cells they know little: what is read has to look
    like words, too.
    """
    from chardet import detect_all  # here: few files need it

    scores: dict[str, float] = {}
    texts: dict[str, list[str]] = {}
    found = detect_all(b"\n".join(cells), ignore_threshold=True, prefer_superset=False)
    for one in found[:_MOST_LIKELY]:
        name = (one["encoding"] or "").lower()
        name = _WESTERN if name == "iso-8859-1" else name
        text = _words_of(cells, name)
        share = _share_of_words("\n".join(text)) if text else 0.0
        if share >= _LEAST_PLAUSIBLE:
            texts[name] = text
            scores[name] = max(scores.get(name, 0.0), one["confidence"] * share**4)
    if not scores:
        what = "the text is neither UTF-8 nor in another encoding in which its cells are words"
        raise _unreadable(what, HINT)
    likely = sorted(scores, key=lambda name: -scores[name])
    close = 0.0 if len(set(b"".join(cells)) - _ASCII) <= _FEW_BYTES else _CLOSE
    western = _words_of(cells, _WESTERN)
    if western == texts[likely[0]] or scores.get(_WESTERN, -1.0) >= close * scores[likely[0]]:
        likely, texts[_WESTERN] = [_WESTERN, *likely], western
    best = likely[0]
    other = next((one for one in likely if texts[one][:3] != texts[best][:3]), None)
    message = f"the encoding {best} is a guess: it reads {_shown(texts[best])}"
    if other is not None:
        message += f"; {other} would read {_shown(texts[other])}"
    hint = "if that is wrong, say which one it is with `encoding`"
    return best, warning("guessed-encoding", f"{message}; {hint}")


def _words_of(cells: list[bytes], encoding: str) -> list[str]:
    """The parts of the cells that are not ASCII; none if the encoding cannot read all cells."""
    try:
        decoded = [cell.decode(encoding) for cell in cells] if is_text_codec(encoding) else []
    except UnicodeError:
        return []
    return [one for cell in decoded for one in cell.split("|") if not one.isascii()]


def _read_as_other(cells: Counter[bytes], encoding: str) -> list[dict[str, str]]:
    """A warning about cells that are UTF-8, in a file that is read in another encoding."""
    both: list[tuple[str, str]] = []
    count = 0
    for cell, times in cells.items():
        try:
            right, wrong = cell.decode(), cell.decode(encoding)
        except UnicodeError:
            continue
        if right != wrong:
            both.append((right, wrong))
            count += times
    if not both:
        return []
    right, wrong = both[0]
    message = f"{count:,} cells look like UTF-8 that was read as {encoding}"
    message += f": {right[:32]!r} as {wrong[:32]!r}"
    return [warning("mixed-encodings", message)]


def _shown(texts: list[str]) -> str:
    return ", ".join(repr(text.strip()[:32]) for text in texts[:3])


def _share_of_words(text: str) -> float:
    """How many of the words that are not ASCII are written as words are."""
    words = [word.strip(_AROUND_WORDS) for word in _WORD.findall(text) if not word.isascii()]
    return sum(map(_is_word, words)) / len(words) if words else 1.0


def _is_word(word: str) -> bool:
    """Whether all are letters of one script, and no small letter is before a capital one."""
    letters = [one for one in word if unicodedata.category(one)[0] != "M"]
    scripts = {unicodedata.name(one, "?").split(" ")[0] for one in word}
    mixed = "LATIN" in scripts and not scripts <= _WITH_LATIN
    cased = word[1:] == word[1:].lower() or word == word.upper()
    return all(map(str.isalpha, letters)) and not mixed and cased
