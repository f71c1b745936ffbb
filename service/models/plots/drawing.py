"""Style and SVG output of the plots: small, and the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from service.errors import NotFound
from service.models.plots.palette import CARD, COLORS, DARK_STYLE, FONT, INK, LINE
from service.storage.database.tables import ModelVersion

SHOWN_CLASSES = 10
"""More classes have no distinct colors and no legend."""

MEASURED = "DejaVu Sans"
"""The font that comes with matplotlib. It is wider than those that are shown, so texts fit."""

_STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # names from callers can contain dollar signs
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "svm-service",  # ids of elements depend only on the picture
    "path.simplify_threshold": 0.2,
    "font.family": "sans-serif",
    "font.sans-serif": [MEASURED],
    "font.size": 9,
    "figure.facecolor": CARD,  # readable on any background
    "axes.facecolor": CARD,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with a title and a description as text."""

    figure: Figure
    title: str
    description: str = ""
    dataset_id: str | None = None
    """The dataset whose data it shows."""

    def describe(self, description: str, dataset_id: str | None = None) -> Picture:
        """The finished picture."""
        return replace(self, description=description, dataset_id=dataset_id)


def unavailable(why: str) -> NotFound:
    """The error for a plot that is not possible."""
    return NotFound("plot-unavailable", why)


def axes(
    version: ModelVersion,
    what: str,
    rows: int = 1,
    size: tuple[float, float] = (5.2, 4.0),
    **options: Any,
) -> tuple[Picture, list[Axes]]:
    """A picture of `what` of the version, with `rows` axes below each other and one title."""
    title = f"{what} of {version.model_name} version {version.version}"
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasSVG(figure)
    grid = figure.subplots(rows, 1, squeeze=False, **options)
    column: list[Axes] = list(grid[:, 0])
    column[0].set_title(plain(title))
    return Picture(figure, title), column


def color(code: int) -> str:
    """The color of a class, by its number."""
    return COLORS[code % len(COLORS)]


def plain(text: str, most: int = 60) -> str:
    """Text from a caller: shortened, without characters that XML cannot contain."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def dots(ax: Axes, points: npt.NDArray[Any], color: str, size: float, *, square: bool) -> None:
    """Points (n, 2) as one path: a fifth of the bytes of markers.

    Each is a line of length 0, so that only its caps are visible.
    """
    ends = np.repeat(points, 2, axis=0)
    codes = np.tile([Path.MOVETO, Path.LINETO], len(points))
    path = Path(ends, codes)
    path.should_simplify = False
    shape = PathPatch(
        path,
        facecolor="none",
        edgecolor=color,
        linewidth=size,
        capstyle="projecting" if square else "round",
    )
    ax.add_patch(shape)


def thin_out(values: npt.NDArray[Any], most: int = 250) -> npt.NDArray[Any]:
    """At most `most` rows, evenly spread, with the first and the last."""
    if len(values) <= most:
        return values
    chosen = np.linspace(0, len(values) - 1, most).astype(np.int64)
    subset: npt.NDArray[Any] = values[chosen]
    return subset


def names_of(classes: Sequence[Any]) -> list[str]:
    """Labels for a legend."""
    return [plain(str(label), 24) for label in classes]


def style() -> Any:
    """A context in which figures are made and written."""
    return mpl.rc_context(_STYLE)


def write(picture: Picture) -> bytes:
    """The picture as SVG, with its title and description."""
    file = io.BytesIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    picture.figure.savefig(file, format="svg", metadata=nothing)
    svg = file.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    # Round to a hundredth of a point, in attributes only, not in texts.
    svg = re.sub(r"<[a-z][^>]*>", lambda tag: _DECIMALS.sub(_round, tag[0]), svg)
    svg = re.sub(r'style="([^"]*)"', _as_attributes, svg)
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    opening, rest = svg.split(">", 1)
    texts = f"<title>{escape(picture.title)}</title>\n<desc>{escape(picture.description)}</desc>\n"
    texts += f"{DARK_STYLE}\n"
    return f'{opening} role="img">\n{texts}{rest.lstrip()}'.encode()


def _as_attributes(style: re.Match[str]) -> str:
    """A style with its colors as attributes, and with the fonts of the dashboard."""
    colors = "".join(f' {name}="{value}"' for name, value in _COLOR.findall(style[1]))
    rest = _COLOR.sub("", style[1]).replace(f"'{MEASURED}', sans-serif", FONT).strip("; ")
    return f'style="{rest}"{colors}' if rest else colors.strip()


_COLOR = re.compile(r"\b(fill|stroke): (#[0-9a-f]{6})(?:; |$)")
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")


def _round(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
