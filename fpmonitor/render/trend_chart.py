"""The trend as a picture: exposure with its limits over time, users below, changes marked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from fpmonitor.answers.trend import TrendLine, TrendReport, TrendWindow

_WIDTH, _LEFT, _RIGHT = 900, 84, 24
_TOP, _PLOT, _GAP, _USERS = 84, 260, 34, 60
_LEGEND_ROW = 18
_MOST_SETS = 8
_LETTERS_A_ROW = 118
# Okabe and Ito (2008): colours that all kinds of colour vision tell apart.
_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#56b4e9", "#e69f00", "#8a6d00", "#777777"),
)
_STYLE = """
text{font:13px system-ui,sans-serif;fill:#222}.title{font-size:16px;font-weight:600}
.small{font-size:11.5px;fill:#555}.grid{stroke:#ddd}.bar{fill:#b8c4ce}
.alarm{stroke:#b00020;stroke-dasharray:4 3}.alarm-text{fill:#b00020;font-size:12px}
.page{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.small{fill:#aaa}.grid{stroke:#444}
.bar{fill:#51606d}.page{fill:#16191d}.alarm{stroke:#ff6b7f}.alarm-text{fill:#ff6b7f}}
"""


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where times and shares lie on the page."""

    begin: float
    end: float
    most: float

    def x(self, window: TrendWindow) -> float:
        """Middle of a window."""
        middle = (window.since.timestamp() + window.until.timestamp()) / 2
        span = max(self.end - self.begin, 1)
        return _LEFT + (middle - self.begin) / span * (_WIDTH - _LEFT - _RIGHT)

    def y(self, share: float) -> float:
        return _TOP + (1 - share / self.most) * _PLOT


def draw_trend(report: TrendReport) -> str:
    """Draw the exposure of every set (the eight most exposing ones) as an SVG document."""
    windows = [window for window in report.windows if window.users is not None]
    sets = _most_exposing(windows)
    shares = [line.upper for window in windows for line in window.sets if line.apis in sets]
    frame = _Frame(
        min(window.since.timestamp() for window in windows),
        max(window.until.timestamp() for window in windows),
        _round_up(max(shares)),
    )
    marks = [
        *_share_axis(frame),
        *_time_axis(frame, windows),
        *_users(frame, windows),
        *_alarms(frame, windows, report),
    ]
    for i, apis in enumerate(sets):
        marks += _curve(frame, windows, apis, _COLOURS[i])
    bottom = _TOP + _PLOT + _GAP + _USERS + 34
    legend = [row for i, apis in enumerate(sets) for row in _legend(i, apis, bottom)]
    return _document(report, [*marks, *legend], bottom + _LEGEND_ROW * len(sets) + 10)


def _most_exposing(windows: Sequence[TrendWindow]) -> list[tuple[str, ...]]:
    largest: dict[tuple[str, ...], float] = {}
    for window in windows:
        for line in window.sets:
            largest[line.apis] = max(largest.get(line.apis, 0), line.plug_in)
    return sorted(largest, key=lambda apis: -largest[apis])[:_MOST_SETS]


def _round_up(share: float) -> float:
    """Return the end of the axis: 1, 2 or 5 times a power of ten, at most 1."""
    unit = 10.0 ** math.floor(math.log10(max(share, 1e-6)))
    return min(next(unit * step for step in (1, 2, 5, 10) if unit * step >= share), 1.0)


def _document(report: TrendReport, marks: Sequence[str], height: float) -> str:
    title = f"Share of users in groups of fewer than {report.k}, by {report.period}"
    changes = len({alarm.since for alarm in report.alarms})
    found = "no change of the users was found"
    if changes:
        found = f"the users changed in {changes} of {len(report.windows)} windows (dashed)"
    subtitle = f"population {report.population:,}; shaded: limits, each {1 - report.delta:.4g} sure"
    size = f'viewBox="0 0 {_WIDTH} {height:.0f}"'
    label = quoteattr(f"{title}: {found}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={label}>',
            f"<style>{_STYLE}</style>",
            '<rect class="page" width="100%" height="100%"/>',
            f'<text class="title" x="{_LEFT}" y="26">{escape(title)}</text>',
            f'<text class="small" x="{_LEFT}" y="45">{escape(found)}; {escape(subtitle)}</text>',
            *marks,
            "</svg>",
            "",
        ]
    )


def _share_axis(frame: _Frame) -> Iterator[str]:
    for i in range(5):
        share = frame.most * i / 4
        y = frame.y(share)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 8, y + 4, f"{100 * share:.3g} %", anchor="end", kind="small")


def _time_axis(frame: _Frame, windows: Sequence[TrendWindow]) -> Iterator[str]:
    """Name the beginnings of some windows, so far apart that their names do not touch."""
    base = _TOP + _PLOT + _GAP + _USERS
    last = -math.inf
    for window in windows:
        x = min(max(frame.x(window), _LEFT + 34), _WIDTH - _RIGHT - 34)
        if x - last >= 84:
            yield _text(x, base + 16, f"{window.since:%Y-%m-%d}", anchor="middle", kind="small")
            last = x


def _users(frame: _Frame, windows: Sequence[TrendWindow]) -> Iterator[str]:
    base = _TOP + _PLOT + _GAP + _USERS
    most = max(window.users or 0 for window in windows)
    width = max(min((_WIDTH - _LEFT - _RIGHT) / max(len(windows), 12) * 0.8, 30), 0.6)
    yield _text(_LEFT - 8, base - _USERS + 10, f"{most:,}", anchor="end", kind="small")
    yield _text(_LEFT - 8, base, "users", anchor="end", kind="small")
    for window in windows:
        height = _USERS * (window.users or 0) / most
        x = min(max(frame.x(window) - width / 2, _LEFT), _WIDTH - _RIGHT - width)
        yield (
            f'<rect class="bar" x="{x:.1f}" y="{base - height:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"><title>{window.since:%Y-%m-%d}: {window.users:,} users</title>'
            "</rect>"
        )


def _alarms(frame: _Frame, windows: Sequence[TrendWindow], report: TrendReport) -> Iterator[str]:
    """Mark where the users changed by a dashed line; in words where there is room for words."""
    apis_of: dict[datetime, set[str]] = {}
    for alarm in report.alarms:
        apis_of.setdefault(alarm.since, set()).update(alarm.apis)
    last = -math.inf
    for window in windows:
        if window.since not in apis_of:
            continue
        x, names = frame.x(window), ", ".join(sorted(apis_of[window.since]))
        yield (
            f'<line class="alarm" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 10}" '
            f'y2="{_TOP + _PLOT}"><title>{window.since:%Y-%m-%d}: {escape(names)}</title></line>'
        )
        if x - last >= 90:
            anchor = "end" if x > _WIDTH - 160 else "middle"
            yield _text(x, _TOP - 14, "users changed", anchor=anchor, kind="alarm-text")
            last = x


def _curve(
    frame: _Frame, windows: Sequence[TrendWindow], apis: tuple[str, ...], colour: str
) -> Iterator[str]:
    points = [
        (frame.x(window), window, line)
        for window in windows
        for line in window.sets
        if line.apis == apis
    ]
    up = [f"{x:.1f},{frame.y(line.upper):.1f}" for x, _, line in points]
    down = [f"{x:.1f},{frame.y(line.lower):.1f}" for x, _, line in reversed(points)]
    middle = " ".join(f"{x:.1f},{frame.y(_estimate(line)):.1f}" for x, _, line in points)
    yield f'<polygon points="{" ".join(up + down)}" fill="{colour}" fill-opacity="0.18"/>'
    yield f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>'
    if len(points) > 80:
        return
    for x, window, line in points:
        label = (
            f"{window.since:%Y-%m-%d}, {', '.join(apis)}: {100 * line.lower:.2f} % to "
            f"{100 * line.upper:.2f} %"
        )
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{frame.y(line.lower):.1f}" '
            f'y2="{frame.y(line.upper):.1f}" stroke="{colour}"/>'
            f'<circle cx="{x:.1f}" cy="{frame.y(_estimate(line)):.1f}" r="3.5" fill="{colour}">'
            f"<title>{escape(label)}</title></circle>"
        )


def _estimate(line: TrendLine) -> float:
    return line.plug_in if line.unbiased is None else line.unbiased


def _legend(row: int, apis: tuple[str, ...], top: float) -> Iterator[str]:
    y = top + 12 + row * _LEGEND_ROW
    names = ", ".join(apis)
    short = names if len(names) <= _LETTERS_A_ROW else names[: _LETTERS_A_ROW - 1] + "…"
    yield f'<rect x="{_LEFT}" y="{y - 9}" width="18" height="8" fill="{_COLOURS[row]}"/>'
    yield _text(_LEFT + 26, y, short, anchor="start", kind="small")


def _text(x: float, y: float, text: str, *, anchor: str, kind: str) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )
