"""Line charts as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 400, 70, 130, 40, 55
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")


@dataclass(frozen=True, slots=True)
class Line:
    """A named line; points that are not finite are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float]

    def points(self) -> list[tuple[float, float]]:
        """Finite points."""
        pairs = zip(self.x, self.y, strict=True)
        return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


def line_chart(lines: Sequence[Line], *, title: str, x_label: str, y_label: str) -> str:
    """SVG document of lines on linear axes; at least one line must have a point."""
    points = [point for line in lines for point in line.points()]
    x_ends, y_ends = (_ends([point[axis] for point in points]) for axis in (0, 1))
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
    font = 'font-family="sans-serif" font-size="12"'
    turned = f'transform="translate(16 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {font}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{middle}" y="22" text-anchor="middle" font-size="14">{escape(title)}</text>',
        f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f"<text {turned}>{escape(y_label)}</text>",
        *_axes(x_ends, y_ends),
    ]
    for number, line in enumerate(lines):
        parts += _drawn(number, line, x_ends, y_ends)
    return "\n".join([*parts, "</svg>", ""])


def _ends(numbers: Sequence[float]) -> tuple[float, float]:
    low, high = min(numbers), max(numbers)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _place(number: float, ends: tuple[float, float], start: float, stop: float) -> float:
    return start + (number - ends[0]) / (ends[1] - ends[0]) * (stop - start)


def _across(x: float, ends: tuple[float, float]) -> float:
    return _place(x, ends, _LEFT, _WIDTH - _RIGHT)


def _up(y: float, ends: tuple[float, float]) -> float:
    return _place(y, ends, _HEIGHT - _BOTTOM, _TOP)


def _ticks(ends: tuple[float, float]) -> list[float]:
    """Round numbers within the ends, about five."""
    rough = (ends[1] - ends[0]) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(ends[0] / step - 1e-9)
    return [n * step for n in range(first, math.floor(ends[1] / step + 1e-9) + 1)]


def _axes(x_ends: tuple[float, float], y_ends: tuple[float, float]) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="black"/>',
    ]
    for tick in _ticks(x_ends):
        x = _across(tick, x_ends)
        parts.append(f'<path d="M{x:.1f} {bottom}v5" stroke="black"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:.6g}</text>')
    for tick in _ticks(y_ends):
        y = _up(tick, y_ends)
        parts.append(f'<path d="M{_LEFT} {y:.1f}h-5" stroke="black"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:.6g}</text>')
    return parts


def _drawn(
    number: int, line: Line, x_ends: tuple[float, float], y_ends: tuple[float, float]
) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    path = " ".join(f"{_across(x, x_ends):.1f},{_up(y, y_ends):.1f}" for x, y in line.points())
    level, right = _TOP + 14 + 18 * number, _WIDTH - _RIGHT + 12
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        f'<path d="M{right} {level - 4}h20" stroke="{colour}" stroke-width="2"/>',
        f'<text x="{right + 26}" y="{level}">{escape(line.name)}</text>',
    ]
