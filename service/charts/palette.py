"""Colors and fonts of all charts: those of the dashboard's style sheet, light and dark."""

from __future__ import annotations

from typing import Literal, TypeAlias

Role: TypeAlias = Literal["cost", "bound", "gap", "ink", "soft", "line", "faint", "card"]
"""What a line or an area is, where it is not a class."""

CLASSES = 10
# Okabe and Ito's colors, which color-blind people can distinguish, and four more.
_NAMES = [*(f"k{k}" for k in range(CLASSES)), "card", "ink", "soft", "line", "faint"]
_LIGHT = (
    "#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9 #8c564b #7f7f7f #bcbd22 #5e3c99 "
    "#ffffff #1c2126 #5a636d #e3e5e6 #9aa3ab"
)
_DARK = (
    "#4aa3dd #f08743 #35c79b #dd9abf #f0b733 #83cbf2 #b98477 #a3a3a3 #d3d44f #9a7bd0 "
    "#1a1f23 #e6e9eb #9fa9b2 #2d343a #66707a"
)
LIGHT, DARK = (dict(zip(_NAMES, one.split(), strict=True)) for one in (_LIGHT, _DARK))
"""By the names of the style sheet's variables: `k0` to `k9` are of classes."""
_SAME: dict[int | Role, str] = {"cost": "k0", "bound": "k1", "gap": "k2"}
FONT = (
    "-apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', 'Liberation Sans', Arial, "
    "sans-serif"
)


def paint(color: int | Role, *, page: bool) -> str:
    """The color of a class by its number, or of a role: as a number in a file, and as a variable of
    the style sheet in a page."""
    name = f"k{color % CLASSES}" if isinstance(color, int) else _SAME.get(color, color)
    return f"var(--{name})" if page else LIGHT[name]


DARK_STYLE = "<style>@media (prefers-color-scheme: dark) {{{}}}</style>".format(
    "".join(
        f'[{attribute}="{color}"]{{{attribute}:{DARK[name]}}}'
        for name, color in LIGHT.items()
        for attribute in ("fill", "stroke")
    )
)
"""For an SVG whose colors are attributes: a rule has priority over them, and a program without dark
mode shows them as they are."""
