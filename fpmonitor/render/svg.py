"""SVG by elements, scales with round ticks, and the style sheet of charts.

Everything is drawn in `currentColor` and in classes of `chart.css`, so that light, dark and print
need no charts of their own. A page includes the style sheet; a file of its own brings it along.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources

Place = tuple[float, float]
_FILE_STYLE = (
    "svg{color:#1b1f24;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}"
)


def tag(name: str, *content: str, **attributes: str | float) -> str:
    """Return an element; `class_` is the attribute class, and underscores are hyphens.

    Content is markup, whose text must be escaped; attributes are escaped, and numbers among them
    are rounded to a tenth.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    inside = "".join(content)
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{round(value, 1):g}"


def text(x: float, y: float, content: str, *, hover: str = "", **attributes: str | float) -> str:
    """Return a line of text; `hover` is shown under the pointer."""
    return tag("text", escape(content), tooltip(hover), x=x, y=y, **attributes)


def tooltip(content: str) -> str:
    """Return what is shown under the pointer; nothing for an empty text."""
    return tag("title", escape(content)) if content else ""


def line(x1: float, y1: float, x2: float, y2: float, *content: str, class_: str) -> str:
    """Return a straight line."""
    return tag("line", *content, class_=class_, x1=x1, y1=y1, x2=x2, y2=y2)


def points(places: Iterable[Place]) -> str:
    """Return the points of a polyline or polygon."""
    return " ".join(f"{round(x, 1):g},{round(y, 1):g}" for x, y in places)


def svg_document(title: str, parts: Iterable[str], width: float, height: float) -> str:
    """Return a chart for a page: an image with a name."""
    return tag(
        "svg",
        tooltip(title),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        class_="chart",
        role="img",
        aria_label=title,
    )


@cache
def chart_style() -> str:
    """Return the style sheet of charts."""
    return (resources.files("fpmonitor.render") / "chart.css").read_text(encoding="utf-8").strip()


def standalone(svg: str, description: str = "") -> str:
    """Return a chart as a file of its own, with its style sheet and a description."""
    # Attributes are escaped, so the first `>` ends the tag of the chart.
    head, _, rest = svg.partition(">")
    style = f"<style>{chart_style()}{_FILE_STYLE}</style>"
    return f"{head}>{style}<desc>{escape(description)}</desc>{rest}\n"


def round_up(number: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is not below a positive number."""
    power = 10.0 ** math.floor(math.log10(number))
    # For rounding: the product of a step and a power may be a little below the step itself.
    return next(step * power for step in (1, 2, 5, 10) if step * power >= number * (1 - 1e-9))


def axis_end(share: float) -> float:
    """Return the round end of an axis of shares from 0, at most 1."""
    return min(round_up(max(share, 1e-6)), 1.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps numbers to positions; where both ends are equal, to the middle."""

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False

    def __call__(self, number: float) -> float:
        """Place of a number, to a tenth."""
        low, high, at = self.low, self.high, number
        if self.logarithmic:
            low, high, at = math.log10(low), math.log10(high), math.log10(number)
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.stop - self.start), 1)

    def ticks(self) -> list[float]:
        """About five round numbers within the ends; powers of ten if logarithmic."""
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            tens = [10.0**power for power in range(first, last + 1)]
            return [ten for ten in tens if self.low <= ten <= self.high]
        if self.high <= self.low:
            return [self.low]
        step = round_up((self.high - self.low) / 5)
        # An end that is a round number has a tick, though rounding may put it just outside.
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]
