"""Charts: round ticks, places in order and inside the frame, names as text."""

from __future__ import annotations

from fractions import Fraction
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpmonitor.policy import DOWN, UP, sureness
from fpmonitor.render.charts import (
    WIDTH,
    Axes,
    Series,
    line_chart,
    range_chart,
    scatter_chart,
)
from fpmonitor.render.numbers import (
    between,
    count,
    decimal,
    label,
    percent,
    share_told,
    significant,
)
from fpmonitor.render.svg import Scale, axis_end, round_up, standalone

HOSTILE = 'x"><script>alert(1)</script>'


def places(element: ET.Element) -> list[tuple[float, float]]:
    pairs = (point.split(",") for point in element.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


def only(root: ET.Element, kind: str) -> list[ET.Element]:
    return root.findall(f".//*[@class='{kind}']")


def history(budget: float | None = None) -> ET.Element:
    hours = [0.0, 1.0, 2.0, 3.0]
    series = Series(
        name="a",
        x=hours,
        y=[0.02 + 0.01 * hour for hour in hours],
        lower=[0.01] * 4,
        upper=[0.06] * 4,
        notes=["note"] * 4,
    )
    drawn = line_chart(
        [series],
        title="t",
        axes=Axes(x="x", y="y", shares=True),
        low=True,
        budget=budget,
    )
    return ET.fromstring(drawn)


def test_a_band_holds_its_line_inside_the_frame() -> None:
    root = history(budget=0.03)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    [band], [line] = only(root, "band"), only(root, "line")
    assert len(places(band)) == 8
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places(band))
    upper, lower = places(band)[0], places(band)[-1]
    assert upper[1] < places(line)[0][1] < lower[1]
    assert [x for x, _ in places(line)] == sorted({x for x, _ in places(line)})
    [budget] = only(root, "budget")
    assert upper[1] < float(budget.attrib["y1"]) < lower[1]
    assert len(only(root, "dot")) == 4
    assert only(history(), "budget") == []


def test_a_single_point_stands_in_the_middle() -> None:
    drawn = line_chart(
        [Series(name="a", x=[5.0], y=[0.1])],
        title="t",
        axes=Axes(x="x", y="y", shares=True),
    )
    [(x, _)] = places(only(ET.fromstring(drawn), "line")[0])
    assert 0.4 * WIDTH < x < 0.6 * WIDTH


def test_points_that_are_not_finite_are_left_out_and_many_lines_have_a_legend() -> None:
    series = [
        Series(name=HOSTILE, x=[0.0, 1.0, 2.0], y=[1.0, float("nan"), -4.0]),
        Series(name="b", x=[0.0, float("inf")], y=[0.5, 0.5]),
    ]
    root = ET.fromstring(
        line_chart(
            series,
            title=HOSTILE,
            axes=Axes(x="x", y="y"),
        )
    )
    lines = root.findall(".//{*}polyline")
    assert [len(places(line)) for line in lines] == [2, 1]
    assert HOSTILE in {text.text for text in root.findall(".//{*}text")}
    assert root.attrib["aria-label"] == HOSTILE


def test_marks_and_bars_name_what_they_show() -> None:
    x = [float(day) for day in range(60)]
    drawn = line_chart(
        [Series(name="a", x=x, y=[0.1] * 60)],
        title="t",
        axes=Axes(x="x", y="y", shares=True, names=[(day, f"2026-01-{day:02.0f}") for day in x]),
        marks=[(day, "users changed", HOSTILE) for day in x[:20]],
        bars=Series(x=x, y=x, notes=["n"] * 60, name="users"),
    )
    root = ET.fromstring(drawn)
    marks = only(root, "mark")
    assert len(marks) == 20
    assert marks[0][0].text == HOSTILE
    words = [text for text in root.findall(".//{*}text") if text.text == "users changed"]
    assert len(words) == 2, "where there is room"
    bars = only(root, "bar")
    assert len(bars) == 60
    assert all(0 <= float(bar.attrib["x"]) <= WIDTH for bar in bars)


def test_ranges_are_ordered_and_end_before_the_edge() -> None:
    rows = [(HOSTILE, 0.01, 0.2, 0.3), ("b", 0.0, 0.0, None)]
    root = ET.fromstring(range_chart(rows, title="t", x_label="x", budget=0.1))
    wide, narrow = only(root, "range")
    [dot], [budget] = only(root, "dot"), only(root, "budget")
    at = [float(wide.attrib["x1"]), float(budget.attrib["x1"]), float(wide.attrib["x2"])]
    assert at == sorted(at)
    assert float(dot.attrib["cx"]) <= WIDTH
    assert float(narrow.attrib["x2"]) > float(narrow.attrib["x1"]), "seen, though it is empty"


def test_names_of_ranges_are_whole_where_they_fit() -> None:
    name = "Navigator.hardwareConcurrency + Screen.height"
    root = ET.fromstring(range_chart([(name, 0.1, 0.2, None)], title="t", x_label="x"))
    assert name in [text.text for text in root.findall(".//{*}text")]


def test_scattered_dots_stand_out_if_they_should() -> None:
    dots = [(1.0, 0.1, "a", "far"), (2.0, 0.2, "b", "s0"), (0.0, 0.0, "c", "s0")]
    root = ET.fromstring(scatter_chart(dots, title="t", x_label="x", y_label="y", budget=0.3))
    assert [len(only(root, kind)) for kind in ("far", "s0", "budget")] == [1, 2, 1]


def test_a_file_brings_its_style() -> None:
    drawn = standalone(range_chart([("a", 0.1, 0.2, None)], title="t", x_label="x"))
    style = ET.fromstring(drawn).find("{*}style")
    assert style is not None
    assert ".chart .range" in (style.text or "")


@pytest.mark.parametrize(
    ("number", "rounded"),
    [(0.03, 0.05), (0.05, 0.05), (0.051, 0.1), (1, 1), (1.2, 2), (70, 100), (3e-7, 5e-7)],
)
def test_steps_are_1_2_or_5(number: float, rounded: float) -> None:
    assert round_up(number) == pytest.approx(rounded)


@pytest.mark.parametrize(
    ("share", "end"), [(0, 1e-6), (0.03, 0.05), (0.05, 0.05), (0.051, 0.1), (0.7, 1), (1, 1)]
)
def test_axes_of_shares_end_at_round_shares(share: float, end: float) -> None:
    assert axis_end(share) == pytest.approx(end)


def test_ticks_are_round_and_few() -> None:
    assert Scale(0, 0.05, 0, 1).ticks() == pytest.approx([0, 0.01, 0.02, 0.03, 0.04, 0.05])
    assert Scale(-4.8, 0.5, 0, 1).ticks() == pytest.approx([-4, -2, 0])
    assert Scale(8, 1200, 0, 1, logarithmic=True).ticks() == [10, 100, 1000]
    assert Scale(3, 3, 0, 1).ticks() == [3]
    for high in (1e-6, 0.37, 1, 9, 123, 4e9):
        assert 3 <= len(Scale(0, high, 0, 1).ticks()) <= 6


@pytest.mark.parametrize(
    ("share", "short"),
    [(0, "0 %"), (1, "100 %"), (0.05, "5 %"), (0.12345, "12.3 %"), (3e-9, "0.0000003 %")],
)
def test_shares_have_three_digits_and_no_exponent(share: float, short: str) -> None:
    assert percent(share) == short


def test_numbers_are_written_one_way() -> None:
    assert percent(0.12345, 2) == "12.35 %"
    assert [percent(None), count(None), decimal(None), significant(None)] == ["–"] * 4
    assert count(1234567) == "1,234,567"
    assert decimal(1234.5) == "1,234.50"
    assert significant(0.0012345) == "0.00123"
    assert [label(number) for number in (12000, 0.25, -2)] == ["12,000", "0.25", "-2"]


def exact(number: float | str) -> Fraction:
    return Fraction(str(number).replace(",", ""))


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([None, 0, 1, 2]))
def test_no_limit_is_written_closer_than_it_is(
    one: float, other: float, decimals: int | None
) -> None:
    """What is said to be at least so much is, and what is said to be at most so much."""
    low, high = sorted((one, other))
    ends = between(low, high).removesuffix(" %").split(" to ")
    assert exact(ends[0]) <= 100 * exact(low)
    assert exact(ends[-1]) >= 100 * exact(high)
    shown = [
        exact(percent(low, decimals, away=away).removesuffix(" %")) - 100 * exact(low)
        for away in (DOWN, UP)
    ]
    assert shown[0] <= 0 <= shown[1]
    assert exact(decimal(1e4 * low, away=DOWN)) <= exact(1e4 * low)
    assert exact(decimal(1e4 * low, away=UP)) >= exact(1e4 * low)


def test_limits_keep_the_digits_that_they_have() -> None:
    assert between(0.07, 0.07) == "7.0 %"
    assert between(0.0312, 0.0588) == "3.1 to 5.9 %"
    assert between(0.0, 0.0) == "0 %"
    assert percent(0.00004, 2, away=UP) == "0.01 %", "at most 0.00 % would be nobody"
    assert share_told(9e-6, 2, suppressed=True) == "≤ 0.01 %", "what others are told of nine"
    assert share_told(0.012349, suppressed=True) == "≤ 1.24 %"
    assert sureness(1e-30) == "0." + 30 * "9", "nothing holds with probability 1"
    assert percent(0.05, away=UP) == percent(0.05, away=DOWN) == "5 %"
    assert percent(-0.12345, 2, signed=True, away=DOWN) == "-12.35 %"
