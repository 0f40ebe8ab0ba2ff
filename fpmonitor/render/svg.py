"""SVG charts whose colours follow the page: a band, points, and bars with limits.

Everything is drawn in `currentColor` and in classes of a style sheet, so that light, dark and print
need no charts of their own. Alone, as a file, a chart brings its own few rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 680, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 14, 48
_ROW = 30
STYLE = (
    "svg{font:12px system-ui,sans-serif;color:#1b1f24;background:#fff}"
    ".grid{stroke:currentColor;stroke-opacity:.15}.axis{stroke:currentColor;stroke-opacity:.6}"
    ".band{fill:#0969da;fill-opacity:.18}.line{fill:none;stroke:#0969da;stroke-width:2}"
    ".dot{fill:#0969da}.dot.far{fill:#bc4c00}.range{stroke:#0969da;stroke-width:9;stroke-opacity:.3}"
    ".budget{stroke:#cf222e;stroke-dasharray:5 4;stroke-width:1.5}text{fill:currentColor}"
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers to places; logarithmic scales leave out what is not positive."""

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
        """Numbers for the grid."""
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            tens = [10.0**power for power in range(first, last + 1)]
            return [ten for ten in tens if self.low <= ten <= self.high]
        step = _nice((self.high - self.low) / 5)
        first_step = math.ceil(self.low / step - 1e-9)
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        ticks = [(first_step + i) * step for i in range(count)]
        return [tick for tick in ticks if tick <= self.high * (1 + 1e-9)]


def _nice(step: float) -> float:
    if step <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def percent_label(share: float) -> str:
    """Share as a short label, per cent."""
    return f"{100 * share:.3g} %"


def number_label(number: float) -> str:
    """Return a number as a short label."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def band_chart(
    x: Sequence[float],
    middle: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    title: str,
    x_label: str,
    y_label: str,
    logarithmic: bool = False,
) -> str:
    """Draw a line within a band; `middle`, `lower` and `upper` are shares."""
    across = Scale(min(x), max(x), _LEFT, WIDTH - _RIGHT, logarithmic)
    down = Scale(0, max(*upper, 1e-9), HEIGHT - _BOTTOM, _TOP)
    edge = [
        *zip(x, upper, strict=True),
        *reversed(list(zip(x, lower, strict=True))),
    ]
    parts = [
        *_axes(across, down, x_label, y_label),
        f'<polygon class="band" points="{_points(across, down, edge)}"/>',
        (
            f'<polyline class="line" points="'
            f'{_points(across, down, list(zip(x, middle, strict=True)))}"/>'
        ),
    ]
    return _document(title, parts, HEIGHT)


def scatter_chart(
    points: Sequence[tuple[float, float, str, bool]],
    *,
    title: str,
    x_label: str,
    y_label: str,
) -> str:
    """Draw points `(x, share, name, stands out)`, with their names to hover over."""
    across = Scale(0, max(*(x for x, *_ in points), 1e-09) * 1.05, _LEFT, WIDTH - _RIGHT)
    down = Scale(0, max(*(y for _, y, *_ in points), 1e-09) * 1.05, HEIGHT - _BOTTOM, _TOP)
    parts = _axes(across, down, x_label, y_label)
    for x, y, name, stands_out in points:
        kind = "dot far" if stands_out else "dot"
        parts.append(
            f'<circle class="{kind}" cx="{across(x)}" cy="{down(y)}" r="4">'
            f"<title>{escape(name)}</title></circle>"
        )
    return _document(title, parts, HEIGHT)


def range_chart(
    rows: Sequence[tuple[str, float, float, float | None]],
    *,
    title: str,
    x_label: str,
    budget: float | None = None,
) -> str:
    """Draw ranges `(name, lower, upper, estimate)` of shares, one below the other."""
    left = 260
    height = _TOP + _ROW * len(rows) + _BOTTOM
    top = max(*(upper for _, _, upper, _ in rows), 1.3 * (budget or 0), 1e-09)
    across = Scale(0, top, left, WIDTH - _RIGHT)
    parts = [
        f'<line class="grid" x1="{across(tick)}" x2="{across(tick)}" y1="{_TOP}" '
        f'y2="{height - _BOTTOM}"/><text x="{across(tick)}" y="{height - _BOTTOM + 18}" '
        f'text-anchor="middle">{percent_label(tick)}</text>'
        for tick in across.ticks()
    ]
    for place, (name, lower, upper, estimate) in enumerate(rows):
        y = _TOP + _ROW * place + _ROW / 2
        shown = name if len(name) <= 28 else f"…{name[-27:]}"
        parts.append(
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(shown)}'
            f"<title>{escape(name)}</title></text>"
            f'<line class="range" x1="{across(lower)}" x2="{across(upper)}" y1="{y}" y2="{y}"/>'
        )
        if estimate is not None:
            parts.append(f'<circle class="dot" cx="{across(min(estimate, top))}" cy="{y}" r="4"/>')
    if budget is not None:
        parts.append(
            f'<line class="budget" x1="{across(budget)}" x2="{across(budget)}" y1="{_TOP - 6}" '
            f'y2="{height - _BOTTOM}"/>'
        )
    middle = (left + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>'
    )
    return _document(title, parts, height)


def _axes(across: Scale, down: Scale, x_label: str, y_label: str) -> list[str]:
    parts = []
    for tick in down.ticks():
        y = down(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{percent_label(tick)}</text>'
        )
    base = HEIGHT - _BOTTOM
    for tick in across.ticks():
        x = across(tick)
        parts.append(
            f'<line class="axis" x1="{x}" x2="{x}" y1="{base}" y2="{base + 5}"/>'
            f'<text x="{x}" y="{base + 18}" text-anchor="middle">{number_label(tick)}</text>'
        )
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts += [
        f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>',
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>',
        (
            f'<text transform="translate(14 {(base + _TOP) / 2}) rotate(-90)" text-anchor="middle">'
            f"{escape(y_label)}</text>"
        ),
    ]
    return parts


def _points(across: Scale, down: Scale, points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{across(x)},{down(y)}" for x, y in points)


def _document(title: str, parts: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def standalone(svg: str) -> str:
    """Chart as a file of its own, with its rules."""
    head, _, rest = svg.partition(">")
    return f"{head}><style>{STYLE}</style>{rest}\n"
