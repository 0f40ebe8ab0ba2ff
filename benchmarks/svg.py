"""Small line charts as SVG: exposure, a share, against a number of users."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Numbers = Sequence[float]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 440, 62, 250, 44, 52
COLOURS = ("#111111", "#d1495b", "#00798c", "#edae49", "#66a182", "#7b4fa3", "#8d6e63", "#2e4057")


@dataclass
class Chart:
    """One chart; x is drawn on a logarithmic axis if asked for, y from 0 to 1."""

    title: str
    x_label: str
    x_range: tuple[float, float]
    logarithmic: bool = False
    parts: int = 4
    shapes: list[str] = field(default_factory=list)
    names: list[tuple[str, str, str]] = field(default_factory=list)

    def lines(self, name: str, x: Numbers, *ys: Numbers, dashed: bool = False) -> None:
        """One or more lines of one colour."""
        style = ' stroke-width="2"' + ' stroke-dasharray="6 4"' * dashed
        for y in ys:
            points = self._points(zip(x, y, strict=True))
            colour = f'fill="none" stroke="{self._colour}"'
            self.shapes.append(f'<polyline points="{points}" {colour}{style}/>')
        self.names.append((name, self._colour, style))

    def band(self, name: str, x: Numbers, low: Numbers, high: Numbers) -> None:
        """Area between two lines."""
        points = self._points([*zip(x, high, strict=True), *zip(x[::-1], low[::-1], strict=True)])
        fill = f'fill="{self._colour}" fill-opacity="0.18"'
        self.shapes.insert(0, f'<polygon points="{points}" {fill}/>')
        self.names.append((name, self._colour, ' stroke-opacity="0.35" stroke-width="9"'))

    @property
    def _colour(self) -> str:
        return COLOURS[len(self.names) % len(COLOURS)]

    def _points(self, points: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{self._x(x):.1f},{_y(y):.1f}" for x, y in points)

    def text(self) -> str:
        """The whole SVG document."""
        marks = [self._x_tick(x) for x in self._ticks()] + [_y_tick(i / 5) for i in range(6)]
        legend = [self._legend(i, *name) for i, name in enumerate(self.names)]
        middle = (LEFT + WIDTH - RIGHT) / 2
        label = f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{self.x_label}</text>'
        title = f'<text x="{LEFT}" y="24" font-size="15">{escape(self.title)}</text>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        head += ' font-family="sans-serif" font-size="12">'
        head += '<rect width="100%" height="100%" fill="#fff"/>'
        return "\n".join([head, title, label, *marks, *self.shapes, *legend, "</svg>"]) + "\n"

    def _x(self, x: float) -> float:
        scale = math.log if self.logarithmic else float
        low, high = (scale(end) for end in self.x_range)
        return LEFT + (scale(x) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def _ticks(self) -> list[float]:
        low, high = self.x_range
        if self.logarithmic:
            return [10.0**e for e in range(math.ceil(math.log10(low)), int(math.log10(high)) + 1)]
        return [low + i * (high - low) / self.parts for i in range(self.parts + 1)]

    def _x_tick(self, x: float) -> str:
        at, bottom = self._x(x), HEIGHT - BOTTOM
        line = f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}" stroke="#ddd"/>'
        number = f"{x:,.0f}" if x >= 10_000 else f"{x:.0f}"  # years have no comma
        return line + f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{number}</text>'

    def _legend(self, row: int, name: str, colour: str, style: str) -> str:
        x, y = WIDTH - RIGHT + 16, TOP + 12 + 22 * row
        key = f'<line x1="{x}" x2="{x + 28}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}"'
        return f'{key}{style}/><text x="{x + 36}" y="{y}">{escape(name)}</text>'


def _y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)


def _y_tick(share: float) -> str:
    at = f'y1="{_y(share):.1f}" y2="{_y(share):.1f}"'
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" {at} stroke="#ddd"/>'
    label = f'<text x="{LEFT - 8}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    return line + label
