"""Colors and fonts of all charts: those of the dashboard's style sheet, light and dark."""

from __future__ import annotations

from typing import Literal, TypeAlias

Role: TypeAlias = Literal["cost", "bound", "gap", "ink", "soft", "line", "faint", "card"]
"""What a line or an area is, where it is not a class."""

# Okabe and Ito's colors, which color-blind people can distinguish, and four more.
COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    *("#8c564b", "#7f7f7f", "#bcbd22", "#5e3c99"),
)
CARD, INK, SOFT, LINE = "#ffffff", "#1c2126", "#5a636d", "#e3e5e6"
FAINT = "#9aa3ab"

_ROLES: dict[Role, str] = {
    "cost": COLORS[0],
    "bound": COLORS[1],
    "gap": COLORS[2],
    "ink": INK,
    "soft": SOFT,
    "line": LINE,
    "faint": FAINT,
    "card": CARD,
}
_VARIABLES = {color: f"var(--k{i})" for i, color in enumerate(COLORS)} | {
    _ROLES[role]: f"var(--{role})" for role in ("ink", "soft", "line", "faint", "card")
}


def paint(color: int | Role, *, page: bool) -> str:
    """The color of a class by its number, or of a role: as a number in a file, and as a variable of
    the style sheet in a page."""
    value = COLORS[color % len(COLORS)] if isinstance(color, int) else _ROLES[color]
    return _VARIABLES[value] if page else value


FONT = (
    "-apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', 'Liberation Sans', Arial, "
    "sans-serif"
)

DARK = {
    **dict(
        zip(
            COLORS,
            (
                *("#4aa3dd", "#f08743", "#35c79b", "#dd9abf", "#f0b733", "#83cbf2"),
                *("#b98477", "#a3a3a3", "#d3d44f", "#9a7bd0"),
            ),
            strict=True,
        )
    ),
    CARD: "#1a1f23",
    INK: "#e6e9eb",
    SOFT: "#9fa9b2",
    LINE: "#2d343a",
    FAINT: "#66707a",
}
"""The color of each in dark mode."""

DARK_STYLE = "<style>@media (prefers-color-scheme: dark) {{{}}}</style>".format(
    "".join(
        f'[{name}="{light}"]{{{name}:{dark}}}'
        for light, dark in DARK.items()
        for name in ("fill", "stroke")
    )
)
"""For an SVG whose colors are attributes: a rule has priority over them, and a program without dark
mode shows them as they are."""
