"""Every chart: lines within bands, points, and ranges with their estimates.

Charts know numbers and names only. What a figure of an answer shows is said in `figures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from fpmonitor.errors import shortened
from fpmonitor.render.numbers import between, label, percent, share_told
from fpmonitor.render.svg import (
    Scale,
    axis_end,
    line,
    points,
    svg_document,
    tag,
    text,
    tooltip,
)

WIDTH = 680
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 14, 48
_PLOT, _LOW_PLOT = 278, 160
_BARS, _BARS_GAP = 50, 24
_LEGEND_ROW = 18
_HEADING_ROW = 20
_ROW, _LETTERS = 30, 54
_LETTERS_A_ROW = 90
_MOST_DOTS = 80
_LETTER = 9  # room for a letter, also where a page enlarges ticks
_NAMED_EDGE = 24  # half a bar
MOST_SERIES = 8  # colours of `chart.css`


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A named line, within a band if it has limits; points that are not finite are left out."""

    name: str  # For the legend.
    # x, y, lower, upper: Places and heights.
    x: Sequence[float]
    y: Sequence[float]
    lower: Sequence[float] = ()
    upper: Sequence[float] = ()
    # What is shown under the pointer, one for each point, which is then drawn as a dot.
    notes: Sequence[str] = ()

    def line(self) -> list[tuple[float, float]]:
        """Finite points."""
        pairs = zip(self.x, self.y, strict=True)
        return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What the axes of a chart say."""

    x: str
    y: str
    shares: bool = False  # Heights are shares, from 0 on; else the axis holds what there is.
    logarithmic: bool = False  # Whether positive `x` are spread by their logarithms.
    # Places on the horizontal axis with their names, in place of round numbers.
    names: Sequence[tuple[float, str]] = ()


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    axes: Axes,
    heading: Sequence[str] = (),
    budget: float | None = None,
    marks: Sequence[tuple[float, str, str]] = (),
    bars: Series | None = None,
    low: bool = False,
) -> str:
    """Draw lines on common axes.

    Args:
        series: At least one of them has a point; at most `MOST_SERIES` have a colour of their own.
        title: Name of the chart for those who cannot see it.
        heading: Lines above the chart, the first one as a title.
        budget: Height of a dashed line.
        marks: Dashed lines down `(x, word above, note under the pointer)`.
        bars: Heights below the chart, with the name of what they count and a note each.
        low: Draw a chart of small height.
    """
    drawn = [point for one in series for point in one.line()]
    top = _TOP + _HEADING_ROW * len(heading) + (_HEADING_ROW if marks else 0)
    base = top + (_LOW_PLOT if low else _PLOT)
    foot = base + (_BARS_GAP + _BARS if bars else 0)
    at = [x for x, _ in drawn]
    # Bars of the first and the last window reach half their width beyond their places.
    edge = _NAMED_EDGE if axes.names else 0
    across = Scale(min(at), max(at), _LEFT + edge, WIDTH - _RIGHT - edge, axes.logarithmic)
    down = _heights(series, budget, base, top, shares=axes.shares)
    parts = [
        *_heading(heading),
        *_height_axis(down, axes.y, percent if axes.shares else label),
        *_place_axis(across, base, foot, axes.x, axes.names),
        *([] if bars is None else _bars(bars, across, base + _BARS_GAP)),
        *_marks(marks, across, down),
    ]
    for number, one in enumerate(series):
        # Colours come from the class, so that a page may be dark or printed.
        parts.append(tag("g", *_series(one, across, down), class_=f"s{number % MOST_SERIES}"))
    if budget is not None:
        parts.append(line(_LEFT, down(budget), WIDTH - _RIGHT, down(budget), class_="budget"))
    end = foot + _BOTTOM
    if len(series) > 1:
        parts += _legend(series, end)
        end += _LEGEND_ROW * len(series)
    return svg_document(title, parts, WIDTH, end)


def _heights(
    series: Sequence[Series], budget: float | None, base: float, top: float, *, shares: bool
) -> Scale:
    heights = [y for one in series for _, y in one.line()]
    # Bands may rise above all lines, and must not be cut off.
    heights += [upper for one in series for upper in one.upper]
    if shares:
        return Scale(0, axis_end(max(*heights, budget or 0)), base, top)
    low, high = min(heights), max(heights)
    return Scale(low, high, base, top) if high > low else Scale(low - 0.5, high + 0.5, base, top)


def _heading(lines: Sequence[str]) -> Iterator[str]:
    for row, content in enumerate(lines):
        kind = "small" if row else "heading"
        yield text(_LEFT, _HEADING_ROW * (row + 1), content, class_=kind)


def _height_axis(down: Scale, name: str, written: Callable[[float], str]) -> Iterator[str]:
    for tick in down.ticks():
        y = down(tick)
        yield line(_LEFT, y, WIDTH - _RIGHT, y, class_="grid")
        yield text(_LEFT - 6, y + 4, written(tick), text_anchor="end", class_="tick")
    middle = (down.start + down.stop) / 2
    turn = f"translate(14 {middle:g}) rotate(-90)"
    yield tag("text", escape(name), transform=turn, text_anchor="middle")


def _place_axis(
    across: Scale, base: float, foot: float, name: str, named: Sequence[tuple[float, str]]
) -> Iterator[str]:
    yield line(_LEFT, base, WIDTH - _RIGHT, base, class_="axis")
    last = -math.inf
    for place, word in named or [(tick, label(tick)) for tick in across.ticks()]:
        x = across(place)
        yield line(x, foot, x, foot + 5, class_="axis")
        room = _LETTER * len(word)
        shown = _inside(x, room) if named else x
        if shown - last > (room if named else 0):
            yield text(shown, foot + 18, word, text_anchor="middle", class_="tick")
            last = shown
    yield text((_LEFT + WIDTH - _RIGHT) / 2, foot + _BOTTOM - 8, name, text_anchor="middle")


def _series(one: Series, across: Scale, down: Scale) -> Iterator[str]:
    lower = [(across(x), down(y)) for x, y in zip(one.x, one.lower, strict=False)]
    upper = [(across(x), down(y)) for x, y in zip(one.x, one.upper, strict=False)]
    middle = [(across(x), down(y)) for x, y in one.line()]
    if upper:
        yield tag("polygon", class_="band", points=points([*upper, *reversed(lower)]))
    yield tag("polyline", class_="line", points=points(middle))
    # So many dots would hide the line, and none could be pointed at.
    if not one.notes or len(middle) > _MOST_DOTS:
        return
    for place, note in enumerate(one.notes):
        if upper:
            yield line(*lower[place], *upper[place], class_="limits")
        x, y = middle[place]
        yield tag("circle", tooltip(note), class_="dot", cx=x, cy=y, r=3.5)


def _marks(marks: Sequence[tuple[float, str, str]], across: Scale, down: Scale) -> Iterator[str]:
    """Draw marks, with words where there is room for words."""
    last = -math.inf
    for place, word, note in marks:
        x = across(place)
        yield line(x, down.stop - 8, x, down.start, tooltip(note), class_="mark")
        room = _LETTER * len(word)
        shown = _inside(x, room)
        if shown - last > room:
            yield text(shown, down.stop - 12, word, text_anchor="middle", class_="small")
            last = shown


def _inside(x: float, room: float) -> float:
    """Middle of a word at `x`, moved so that the word ends within the chart."""
    # Letters are about 0.7 of the room that is kept for them, half of which is on either side.
    return min(max(x, _LEFT + 0.35 * room), WIDTH - _RIGHT - 0.35 * room)


def _bars(bars: Series, across: Scale, top: float) -> Iterator[str]:
    most = max(bars.y)
    base = top + _BARS
    # At least twelve places, else three windows would be three walls.
    width = max(min((WIDTH - _LEFT - _RIGHT) / max(len(bars.x), 12) * 0.8, 30), 0.6)
    yield text(_LEFT - 6, top + 10, label(most), text_anchor="end", class_="tick")
    yield text(_LEFT - 6, base, bars.name, text_anchor="end", class_="tick")
    yield line(_LEFT, base, WIDTH - _RIGHT, base, class_="axis")
    for place, height, note in zip(bars.x, bars.y, bars.notes, strict=True):
        x = min(max(across(place) - width / 2, _LEFT), WIDTH - _RIGHT - width)
        tall = _BARS * height / most
        yield tag("rect", tooltip(note), class_="bar", x=x, y=base - tall, width=width, height=tall)


def _legend(series: Sequence[Series], top: float) -> Iterator[str]:
    for row, one in enumerate(series):
        y = top + 4 + row * _LEGEND_ROW
        swatch = line(_LEFT, y, _LEFT + 18, y, class_="line")
        yield tag("g", swatch, class_=f"s{row % MOST_SERIES}")
        yield text(_LEFT + 26, y + 4, shortened(one.name, _LETTERS_A_ROW), class_="small")


def scatter_chart(
    dots: Sequence[tuple[float, float, str, str]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    budget: float | None = None,
) -> str:
    """Draw dots `(x, share, name, class)`, with their names to hover over.

    Dots of the class `far` stand out from those of series (`s0`, `s1`, ...). A budget is the
    height of a dashed line.
    """
    base = _TOP + _PLOT
    across = Scale(0, max(*(x for x, *_ in dots), 1e-9) * 1.05, _LEFT, WIDTH - _RIGHT)
    down = Scale(0, max(*(y for _, y, *_ in dots), budget or 1e-9) * 1.05, base, _TOP)
    parts = [
        *_height_axis(down, y_label, percent),
        *_place_axis(across, base, base, x_label, ()),
    ]
    for x, y, name, class_ in dots:
        drawn = tag("circle", tooltip(name), class_="dot", cx=across(x), cy=down(y), r=4)
        parts.append(tag("g", drawn, class_=class_))
    if budget is not None:
        parts.append(line(_LEFT, down(budget), WIDTH - _RIGHT, down(budget), class_="budget"))
    return svg_document(title, parts, WIDTH, base + _BOTTOM)


def matrix_chart(
    names: Sequence[str], cells: Mapping[tuple[int, int], tuple[str, str]], *, title: str
) -> str:
    """Draw cells `(row, column) -> (class, what the pointer shows)` of pairs of names."""
    letters = min(max(map(len, names)), _LETTERS)
    left = _RIGHT + letters * _LETTER
    side = min(_ROW, (WIDTH - left - _RIGHT) / len(names))
    parts = []
    for place, name in enumerate(names):
        y = _TOP + side * (place + 0.5)
        size = min(12.0, side)
        shown = _end_of(name, letters)
        parts.append(
            text(left - 8, y + size / 3, shown, hover=name, text_anchor="end", font_size=size)
        )
        parts.append(line(left, y, left + side * len(names), y, class_="grid"))
    for (row, column), (class_, hover) in sorted(cells.items()):
        x, y = left + side * column, _TOP + side * row
        parts.append(
            tag("rect", tooltip(hover), class_=class_, x=x, y=y, width=side - 1, height=side - 1)
        )
    return svg_document(title, parts, WIDTH, _TOP + side * len(names) + _RIGHT)


def _end_of(name: str, letters: int) -> str:
    # The member at the end tells APIs apart, and not the interface at the beginning.
    return name if len(name) <= letters else f"…{name[1 - letters :]}"


def range_chart(
    rows: Sequence[tuple[str, float, float, float | None]],
    *,
    title: str,
    x_label: str,
    budget: float | None = None,
    hollow: Collection[str] = (),
) -> str:
    """Draw ranges `(name, lower, upper, estimate)` of shares, one below the other.

    Without any name, the ranges take the whole width. Estimates of the names in `hollow` are at
    most what is drawn.
    """
    letters = min(max(len(name) for name, *_ in rows), _LETTERS)
    left = _RIGHT + letters * _LETTER
    base = _TOP + _ROW * len(rows)
    # Room behind the budget, so that what is within is seen to be.
    top = max(*(upper for _, _, upper, _ in rows), 1.3 * (budget or 0), 1e-9)
    across = Scale(0, top, left, WIDTH - 2 * _RIGHT)
    parts = []
    for tick in across.ticks():
        x = across(tick)
        parts.append(line(x, _TOP, x, base, class_="grid"))
        parts.append(text(x, base + 18, percent(tick), text_anchor="middle", class_="tick"))
    for place, (name, lower, upper, estimate) in enumerate(rows):
        y = _TOP + _ROW * place + _ROW / 2
        if name:
            shown = _end_of(name, letters)
            parts.append(text(left - 8, y + 4, shown, hover=name, text_anchor="end"))
        # A range of no width is drawn a point wide, to be seen at all.
        drawn = [line(across(lower), y, max(across(upper), across(lower) + 1), y, class_="range")]
        if estimate is not None:
            kind = "dot hollow" if name in hollow else "dot"
            drawn.append(tag("circle", class_=kind, cx=across(min(estimate, top)), cy=y, r=4))
        estimate_text = share_told(estimate, suppressed=name in hollow)
        note = f"{name}: {between(lower, upper)}, estimate {estimate_text}".removeprefix(": ")
        parts.append(tag("g", tooltip(note), *drawn, class_="s0"))
    if budget is not None:
        parts.append(line(across(budget), _TOP - 6, across(budget), base, class_="budget"))
    parts.append(text((left + WIDTH - _RIGHT) / 2, base + 40, x_label, text_anchor="middle"))
    return svg_document(title, parts, WIDTH, base + _BOTTOM)
