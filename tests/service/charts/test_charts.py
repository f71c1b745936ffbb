"""Charts as SVG and CSV: any values and any names."""

from __future__ import annotations

import csv
import io
import math
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from service import charts
from service.charts import svg, views
from service.charts.chart import (
    Axis,
    Chart,
    Guide,
    Mark,
    Panel,
    Scaling,
    Series,
    length,
    plain,
)
from service.charts.palette import LIGHT
from service.charts.scales import scale, text

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<b>&amp;\"'😀\x00\x1b\u202e]]>" + 200 * "x"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf", re.I)
VALUES: dict[str, list[float]] = {
    "none": [],
    "one": [3.0],
    "equal": [7.0] * 5,
    "zeros": [0.0] * 5,
    "steep": [1.0, 1e100, 1e300],
    "beyond": [-1.7e308, 0.0, 1.7e308],
    "tiny": [0.0, 5e-324, 1e-320],
    "close": [1.0, 1.0 + 1e-15, 1.0 + 2e-15],
    "gaps": [math.nan, 1.0, math.inf, 2.0, -math.inf, 3.0, 4.0],
    "negative": [-3.0, -2.0, -1.0],
    "far": [1e16, 1e16 + 2, 1e16 + 4],
}


def chart(x: Any, y: Any, mark: Mark = "line", kind: Scaling = "linear", name: str = "a") -> Chart:
    series = Series(x, y, name, 0, mark)
    return Chart("Title", "Caption", Axis("x", kind), [Panel(Axis("y", kind), [series])])


def numbers_of(root: ElementTree.Element) -> list[float]:
    """All numbers of the elements' attributes, names and colors aside."""
    written = (
        value
        for element in root.iter()
        for name, value in element.items()
        if name in ("d", "x", "y", "width", "height", "viewBox", "transform")
    )
    return [float(number) for value in written for number in NUMBER.findall(value)]


@pytest.mark.parametrize("kind", ["linear", "log"])
@pytest.mark.parametrize("mark", ["line", "marked", "steps", "dots", "squares", "area"])
@pytest.mark.parametrize("values", VALUES)
def test_any_values_are_drawn(values: str, mark: Mark, kind: Scaling) -> None:
    """As XML with finite numbers, within a few widths of the picture, in a page and in a file."""
    drawn = chart(VALUES[values], VALUES[values][::-1], mark, kind)
    for page in (True, False):
        root = ElementTree.fromstring(svg.write(drawn, page=page))
        numbers = numbers_of(root)
        assert all(math.isfinite(number) and abs(number) <= 4000 for number in numbers)
        assert ("no points yet" in "".join(root.itertext())) == (not VALUES[values])


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("kind", ["linear", "log"])
def test_ticks_cover_the_data(values: str, kind: Scaling) -> None:
    """From below the smallest to above the largest value, and the ticks are few and ascending."""
    known = np.array(VALUES[values])
    shown = scale(Axis("x", kind), known, 0.0, 100.0, whole=True)
    known = known[np.isfinite(known) & ((known > 0) | (kind == "linear"))]
    if len(known):
        places = shown.at(known)
        assert np.all((places >= -0.5) & (places <= 100.5))
        assert 1 <= len(shown.ticks) <= 12
    ticks = [value for value, _ in shown.ticks]
    assert ticks == sorted(ticks)
    assert all(label for _, label in shown.ticks)


def test_logarithmic_ticks_are_powers() -> None:
    """The others have no label; if powers are fewer than two, some others have."""
    wide = scale(Axis("x", "log"), np.array([3e-3, 200.0]), 0.0, 1.0, whole=True)
    assert [label for _, label in wide.ticks] == ["0.001", "0.01", "0.1", "1", "10", "100", "1,000"]
    narrow = scale(Axis("x", "log"), np.array([2.0, 7.0]), 0.0, 1.0)
    assert [label for _, label in narrow.ticks] == ["2", "5"]
    huge = scale(Axis("x", "log"), np.array([1.0, 1e300]), 0.0, 1.0)
    assert [label for _, label in huge.ticks] == [
        "1",
        *(f"10{n}⁰" for n in ("⁵", "¹⁰", "¹⁵", "²⁰", "²⁵", "³⁰")),
    ]


@pytest.mark.parametrize(
    ("value", "percent", "expected"),
    [
        (0.0, False, "0"),
        (1234.5, False, "1,234"),
        (-0.25, False, "−0.25"),
        (1e300, False, "10³⁰⁰"),
        (-2.5e-9, False, "−2.5·10⁻⁹"),
        (0.001, True, "0.1 %"),
        (1.0, True, "100 %"),
        (1e-9, True, "10⁻⁷ %"),
    ],
)
def test_values_as_text(value: float, percent: bool, expected: str) -> None:
    assert text(value, None, percent) == expected


def test_hostile_names_are_text() -> None:
    """Markup stays text, control characters are replaced, long names are shortened."""
    axis = Axis(HOSTILE, names=[HOSTILE, "b"])
    series = [Series([0, 1], [1.0, 2.0], HOSTILE, k, "marked") for k in range(30)]
    panel = Panel(Axis(HOSTILE), series, [Guide(1.0, HOSTILE)])
    cells = Series([0, 1], [0, 1], mark="cells", shades=[1.0, 0.1], texts=[HOSTILE, "2"])
    matrix = Panel(Axis(HOSTILE, names=[HOSTILE, "b"], reverse=True), [cells])
    for page in (True, False):
        written = svg.write(Chart(HOSTILE, HOSTILE, axis, [panel, matrix]), page=page)
        root = ElementTree.fromstring(written)
        assert not list(root.iter(f"{SVG}b"))
        assert len(written) < 60_000
        texts = [element.text or "" for element in root.iter(f"{SVG}text")]
        assert any(one.startswith("<b>&amp;\"'😀") for one in texts)
        assert all(len(one) <= 160 for one in texts)
    rows = list(csv.reader(io.StringIO(charts.write(Chart("t", "c", axis, [panel]), "csv"))))
    assert rows[1] == [HOSTILE, HOSTILE, "1"]


def test_same_bytes_each_time() -> None:
    drawn = [chart(np.arange(9.0), np.arange(9.0) ** 2, "marked") for _ in range(2)]
    for format in ("svg", "csv"):
        assert len({charts.write(one, format) for one in drawn}) == 1


def test_files_have_colors_and_pages_variables() -> None:
    """A file is readable without rules, and has a title in the picture; a page has a class."""
    drawn = chart([1.0, 2.0], [3.0, 4.0])
    file, page = svg.write(drawn, page=False), svg.write(drawn, page=True)
    assert f'stroke="{LIGHT["k0"]}"' in file
    assert set(re.findall(r'(?:fill|stroke)="(#\w+)"', file)) <= set(LIGHT.values())
    assert "<style>" in file
    assert ">Title</text>" in file
    assert "#" not in page
    assert "<style>" not in page
    assert 'stroke="var(--k0)"' in page
    for written in (file, page):
        root = ElementTree.fromstring(written)
        assert root.get("role") == "img"
        assert [child.tag for child in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
        assert root[1].text == "Caption"


def test_points_are_those_of_the_chart() -> None:
    """All digits; without a value for what is not finite, and bars with both edges."""
    rows = charts.write(chart([0.1, 2.0, 3.0], [1 / 3, math.nan, -1e300]), "csv").splitlines()
    assert rows == ["series,x,y", "a,0.1,0.3333333333333333", "a,2,", "a,3,-1e+300"]
    bars = charts.write(chart([0.0, 0.5, 1.0], [3, 4], "bars"), "csv").splitlines()
    assert bars == ["series,x from,to,y", "a,0,0.5,3", "a,0.5,1,4"]


def test_points_of_a_matrix_are_its_cells() -> None:
    """With full names, of which two differ in their middle, and numbers that programs read."""
    names = [f"{'a' * 20}{middle}{'b' * 20}" for middle in "xy"]
    counts = ["1,234", "0", "5", "6"]
    cells = Series([0, 1, 0, 1], [0, 0, 1, 1], mark="cells", shades=[0.1] * 4, texts=counts)
    panel = Panel(Axis("true class", names=names), [cells])
    matrix = Chart("t", "c", Axis("predicted class", names=names), [panel])
    one, other = names
    assert charts.write(matrix, "csv").splitlines() == [
        "true class,predicted class,rows",
        f"{one},{one},1234",
        f"{one},{other},0",
        f"{other},{one},5",
        f"{other},{other},6",
    ]


def test_points_of_any_name_are_read_back() -> None:
    """Also of a class with a lone carriage return, which Python leaves without quotes."""
    for name in ("a,b", "one\rline", "two\r\nlines", '"'):
        named = Chart("t", "c", Axis("x"), [Panel(Axis("y"), [Series([1.0], [2.0], name)])])
        text = io.StringIO(charts.write(named, "csv"), newline="")
        assert list(csv.reader(text)) == [["series", "x", "y"], [name, "1", "2"]]


def test_points_of_curves_are_without_guides() -> None:
    """The diagonal of a ROC is not data; classes with long names have different ones."""
    classes = [f"{'a' * 20}{middle}{'b' * 20}" for middle in "xyz"]
    curves = {k: ([0.0, 1.0], [0.5, 1.0], 0.75) for k in range(3)}
    rows = charts.write(views.roc("t", curves, classes), "csv").splitlines()
    assert rows[0] == "series,false positive rate,true positive rate"
    assert [row.split(" (area")[0] for row in rows[1::2]] == classes
    assert len(rows) == 7


def test_bars_are_stacked_from_zero() -> None:
    """The axis has room for the sums, and begins at zero."""
    edges = [0.0, 1.0, 2.0]
    series = [Series(edges, [5, 20], "a", 0, "bars"), Series(edges, [30, 1], "b", 1, "bars")]
    drawn = svg.write(Chart("t", "c", Axis("x"), [Panel(Axis("rows"), series)]), page=False)
    root = ElementTree.fromstring(drawn)
    assert {"0", "10", "20", "30", "40"} <= {one.text for one in root.iter(f"{SVG}text")}


def test_names_are_at_the_ends_of_lines_or_in_a_legend() -> None:
    """Beside the lines if they are few and short; else below, twelve of them at most."""
    few = svg.write(learning(np.linspace(1, 0.1, 20)), page=False)
    legend = views.roc("ROC", {k: ([0, 1], [0, 1], 0.5) for k in range(3)}, ["setosa", "b", "c"])
    for drawn, below in ((few, False), (svg.write(legend, page=False), True)):
        root = ElementTree.fromstring(drawn)
        [axis] = [
            one for one in root.iter(f"{SVG}text") if one.text in ("epoch", "false positive rate")
        ]
        [name] = [
            one for one in root.iter(f"{SVG}text") if one.text in ("bound", "setosa (area 0.5000)")
        ]
        assert (float(name.get("y", 0)) > float(axis.get("y", 0))) == below


def learning(primal: Any) -> Chart:
    epochs = list(range(1, len(primal) + 1))
    points: dict[str, list[Any]] = {
        "epoch": epochs,
        "updates": epochs,
        "elapsed_s": [0.1 * epoch for epoch in epochs],
        "primal": list(primal),
        "dual": [0.05] * len(epochs),
    }
    return views.learning_curve("Learning curve", points, "epoch")


def test_diverging_training_is_drawn_by_its_powers() -> None:
    """From 1 to 1e300; an ordinary training has a linear axis."""
    assert learning(np.geomspace(1, 1e300, 20)).panels[0].y.scale == "log"
    assert learning(np.geomspace(1, 0.1, 20)).panels[0].y.scale == "linear"
    assert learning([]).panels[0].y.scale == "linear"


def test_many_points_stay_small() -> None:
    """A line of many thousand points is simplified, and looks the same."""
    x = np.linspace(0, 1, 50_000)
    assert len(svg.write(chart(x, x), page=False)) < 5_000
    assert len(svg.write(chart(x, np.sin(20 * x)), page=False)) < 20_000


def test_long_names_keep_both_of_their_ends() -> None:
    """Within a width, in which wide characters count twice."""
    assert plain("short", 5) == "short"
    assert plain("the kind of flowers number 7", 14) == "the kind…er 7"
    assert length(plain("第三の種類はとても長い名前", 14)) <= 14
    matrix = Series([0, 1], [0, 1], mark="cells", shades=[1.0, 1.0])
    names = ["a very long name of a class, the first", "a very long name of a class, the last"]
    panel = Panel(Axis("true", names=names, reverse=True), [matrix])
    root = ElementTree.fromstring(
        svg.write(Chart("t", "c", Axis("predicted", names=names), [panel]), page=True)
    )
    _, axes = root.iter(f"{SVG}svg")
    assert float(axes.get("width", 0)) > svg.WIDTH / 2


def test_epochs_have_no_ticks_between_them() -> None:
    shown = scale(views.against("epoch"), np.array([1.0, 3.0]), 0.0, 100.0)
    assert [label for _, label in shown.ticks] == ["1", "2", "3"]


def test_the_worst_of_many_classes_are_named() -> None:
    """The others are thin lines."""
    rates = {k: ([0.0, 1.0], [0.0, 1.0], 1 - k / 100) for k in range(12)}
    names = [f"class {k}" for k in range(12)]
    for drawn in (
        views.roc("t", rates, names),
        views.precision_recall("t", rates, names, [5] * 12),
    ):
        named = {one.name.partition(" (")[0] for one in drawn.panels[0].series if one.name}
        assert named == {"class 9", "class 10", "class 11"}
        assert "smallest areas" in drawn.caption


def test_reliability_has_bins_and_intervals() -> None:
    """Bars are the bins, from the first that has rows; a perfect bin of few rows is not certain."""
    drawn = views.reliability("t", [(4, 0.55, 1.0), (96, 0.99, 0.99)], 0.04)
    above, below = drawn.panels
    assert list(below.series[0].y) == [4, 0, 0, 0, 0, 0, 96]
    assert below.series[0].x[0] == drawn.x.low == pytest.approx(8 / 15)
    low, high = above.series[1].y[:2]
    assert low < 0.6
    assert high == pytest.approx(1.0)
    wider = views.reliability("t", [(4, 0.55, 1.0), (96, 0.99, 0.99)], 0.04, effective=0.25)
    assert wider.panels[0].series[1].y[0] < low


def test_margins_of_many_classes_end_nowhere() -> None:
    """The decision value minus another one has no margin at 1."""
    edges = [-1.0, 0.0, 2.0]
    for binary, names in ((True, ["boundary", "margin"]), (False, ["boundary"])):
        drawn = views.margins("t", "c", edges, {"a": (0, [1, 2])}, binary=binary)
        assert [guide.label for guide in drawn.panels[0].guides] == names
