"""Figures of what was measured, each with its data as a table: for reports and notebooks.

A notebook shows a figure by itself: `figures.of_trust(report)` at the end of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.decide.guarantee import draws
from fpmonitor.errors import shortened, some_of
from fpmonitor.policy import DOWN, UP, sureness
from fpmonitor.render.answers import drawn_note, followed_table, masked_note, sample_note
from fpmonitor.render.charts import (
    MOST_SERIES,
    Axes,
    Series,
    line_chart,
    matrix_chart,
    range_chart,
    scatter_chart,
)
from fpmonitor.render.decisions import conflicts
from fpmonitor.render.numbers import at_most, percent, share_told
from fpmonitor.render.svg import standalone
from fpmonitor.render.tables import Table, columns, thinned
from fpmonitor.store.windows import PARTS
from fpmonitor.unit import Unit, spoken

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fpmonitor.answers.curve import CurveReport
    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.answers.rank import Ranking
    from fpmonitor.answers.trend import TrendLine, TrendReport, TrendWindow
    from fpmonitor.decide.decision import Decision

_MOST_POINTS = 300
_FAR = 3.0  # an entropy reading that is off by this factor stands out
_MOST_ROWS = 40
_NAMED = 8  # APIs of a set in a title
_MOST_NAMES = 60  # of a matrix, those with the most conflicts
_LONGEST_NAME = 20  # of a batch, below an axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart and the table of its data."""

    note: str  # How to read it.
    svg: str  # The chart; colours come from the page (`svg.chart_style` has them for a file).
    table: Table  # The data, under the figure's title.

    @property
    def title(self) -> str:
        """What the figure shows."""
        return self.table.title

    def of(self, unit: Unit) -> Figure:
        """Return the same in words for visitors or rows."""
        note, svg = spoken(self.note, unit), spoken(self.svg, unit)
        return Figure(note=note, svg=svg, table=self.table.of_unit(unit))

    @property
    def file(self) -> str:
        """The chart as an SVG file, with its note as its description."""
        return standalone(self.svg, self.note)

    def _repr_svg_(self) -> str:
        return self.file


def of_exposures(
    reports: Sequence[ExposureReport],
    *,
    title: str,
    budget: float | None = None,
    beyond: Collection[str] = (),
    remark: str = "",
) -> Figure:
    """Draw the limits of some sets, the highest upper limit first.

    Args:
        reports: At least one, all for one k and population.
        budget: Drawn as a line.
        beyond: APIs that all sets hold, which need no mention.
        remark: Added to the note.
    """
    names = {
        report.apis: " + ".join(api for api in report.apis if api not in beyond)
        for report in reports
    }
    ordered = sorted(reports, key=lambda report: (-report.upper, report.apis))[:_MOST_ROWS]
    first = ordered[0]
    more = len(reports) - len(ordered)
    left_out = f" The first {len(ordered)} of {len(reports)} are drawn." if more else ""
    line = "" if budget is None else f" The dashed line is the budget, {percent(budget)}."
    hollow = " Hollow dots: at most this much." if any(r.suppressed for r in ordered) else ""
    return Figure(
        note=(
            f"Share of the users in groups of fewer than {first.k}, in a population of "
            f"{first.population:,}. Bars are limits of the average over populations, each wrong "
            f"with probability at most {first.delta:g}; dots are unbiased estimates.{hollow}"
            f"{sample_note(first.sample, first.drawn)}{line}{left_out}{remark}"
            f"{masked_note(api for r in reports for api in r.masked)}"
        ),
        svg=range_chart(
            [
                (names[report.apis], report.lower, report.upper, report.unbiased)
                for report in ordered
            ],
            title=title,
            x_label="exposure",
            budget=budget,
            hollow=[names[report.apis] for report in ordered if report.suppressed],
        ),
        table=Table.of(
            ordered,
            title=title,
            columns=[
                *columns("text", ("APIs", lambda report: names[report.apis])),
                *columns("short share", "lower"),
                *columns("text", ("estimate", _estimate_told)),
                *columns("short share", "upper"),
                *columns("decimal", ("entropy, bits", "entropy_bits")),
                *columns("text", ("values", _values_told)),
            ],
        ),
    )


def _estimate_told(report: ExposureReport) -> str:
    return share_told(report.unbiased, suppressed=report.suppressed)


def _values_told(report: ExposureReport) -> str:
    return at_most(f"{report.values:,}", suppressed=report.suppressed)


def of_curve(curve: CurveReport) -> Figure:
    """Draw the whole exposure curve of a set, with the band that holds everywhere."""
    points, _ = thinned(curve.points, _MOST_POINTS)
    title = f"Exposure curve: {_set_name(curve.apis)}"
    return Figure(
        note=(
            "Share of the users whose value is rarer than a threshold. The band holds at all "
            f"thresholds together with probability {sureness(curve.delta)}, if the users and those "
            f"of the population are {draws(curve.sample)}.{drawn_note(curve.drawn)}"
            f"{masked_note(curve.masked)}"
        ),
        svg=line_chart(
            [
                Series(
                    name=title,
                    x=[float(point.threshold) for point in points],
                    y=[point.empirical for point in points],
                    lower=[point.lower for point in points],
                    upper=[point.upper for point in points],
                )
            ],
            title=title,
            axes=Axes(
                x="threshold, users among those observed",
                y="share of the users",
                shares=True,
                logarithmic=True,
            ),
        ),
        table=Table.of(
            thinned(points, _MOST_ROWS)[0],
            title=title,
            columns=[
                *columns("count", ("groups below", "threshold")),
                *columns("short share", ("observed", "empirical"), "lower", "upper"),
            ],
        ),
    )


def _set_name(apis: Sequence[str]) -> str:
    """Name a set in a title, by so many of its APIs that it stays one."""
    return some_of(apis, _NAMED, between=" + ", last=" +")


def _factor(factor: float) -> str:
    return f"{factor:.3g}" if factor < 1000 else f"{factor:,.0f}"


def of_ranking(ranking: Ranking) -> Figure:
    """Draw exposure against entropy: where the usual reading misleads, and by which factor."""
    sets = ranking.sets[:_MOST_POINTS]
    title = "Exposure against entropy"
    basis = "unbiased estimate" if ranking.basis == "unbiased" else "upper limit"
    worst = sorted(sets, key=lambda line: -line.misleading_factor_worst_1)[:_MOST_ROWS]
    return Figure(
        note=(
            f"Each dot is an API set: its entropy, and its exposure ({basis}). One entropy goes "
            f"with many exposures: of {ranking.pairs:,} pairs of sets, entropy orders "
            f"{ranking.disagreeing_pairs:,} the other way. Orange: n/2^H overstates the group of "
            f"the worst 1 % of the users by a factor of {_FAR:g} or more; the most, "
            f"{_factor(worst[0].misleading_factor_worst_1)}, for {' + '.join(worst[0].apis)}."
            f"{sample_note(ranking.sample, ranking.drawn)}{masked_note(ranking.masked)}"
        ),
        svg=scatter_chart(
            [
                (
                    line.entropy_bits,
                    line.exposure,
                    (
                        f"{' + '.join(line.apis)}: {line.entropy_bits:.2f} bits, "
                        f"{percent(line.exposure)}, off by {_factor(line.misleading_factor)} for "
                        f"the median user, {_factor(line.misleading_factor_worst_5)} for the "
                        f"worst 5 %, {_factor(line.misleading_factor_worst_1)} for the worst 1 %"
                    ),
                    "far" if line.misleading_factor_worst_1 >= _FAR else "s0",
                )
                for line in sets
            ],
            title=title,
            x_label="entropy, bits",
            y_label="exposure",
        ),
        table=Table.of(
            worst,
            title=title,
            columns=[
                *columns("text", ("APIs", lambda line: " + ".join(line.apis))),
                *columns("decimal", ("entropy, bits", "entropy_bits")),
                *columns("short share", "exposure"),
                *columns("decimal", ("n/2^H", "naive_group_size"), digits=0),
                *columns(
                    "significant",
                    ("off by, median user", "misleading_factor"),
                    ("worst 5 %", "misleading_factor_worst_5"),
                    ("worst 1 %", "misleading_factor_worst_1"),
                ),
            ],
        ),
    )


def of_tolerance(decision: Decision) -> Figure | None:
    """Draw which share of the allow list outlasts a bias; null where none was tried.

    Each factor of the decision holds up to itself, so the line falls behind it.
    """
    sets = sorted(
        zip(decision.allow, decision.bias_tolerated or (), strict=False),
        key=lambda entry: (-entry[1], entry[0]),
    )
    assumed = decision.policy.sample.bias
    factors = [bias for _, bias in sets]
    if max(factors, default=assumed) == assumed:
        return None
    x, y = [assumed], [1.0]
    for factor in sorted(set(factors)):
        # Two points at each factor: a set holds up to its own, so the line falls in steps.
        x += [factor, factor]
        y += [y[-1], sum(bias > factor for bias in factors) / len(factors)]
    marks = [
        (bias, "recommended", f"{' + '.join(apis)}: up to {bias:g}")
        for apis, bias in sets
        if apis == decision.recommended
    ]
    title = "What stays allowed if the sample is biased"
    return Figure(
        note=(
            "Share of the sets on the allow list that stay allowed up to a bias. That is how often "
            "more, or less, any kind of user may come among the observed users than in the "
            f"population. All of it holds together with probability "
            f"{sureness(decision.policy.delta or 0)}."
        ),
        svg=line_chart(
            [Series(name=title, x=x, y=y)],
            title=title,
            axes=Axes(x="bias, a factor", y="share of the allow list", shares=True),
            marks=marks,
            low=True,
        ),
        table=Table(
            title=title,
            columns=[*columns("text", "APIs"), *columns("decimal", "bias up to")],
            rows=[(" + ".join(apis), bias) for apis, bias in sets[:_MOST_ROWS]],
        ),
    )


def of_conflicts(decision: Decision) -> Figure | None:
    """Draw the pairs of APIs that are not allowed; null where the search was for all sets."""
    table = conflicts(decision)
    if decision.utility_possible is None or not table.rows:
        return None
    names = [str(row[0]) for row in table.rows[:_MOST_NAMES]]
    place = {name: row for row, name in enumerate(names)}
    cells = {}
    for class_, word, sets in (
        ("dot", "blocked", decision.block),
        ("band", "undecided", decision.undecided),
    ):
        for apis in sets:
            if len(apis) <= 2 and place.keys() >= {*apis}:
                one, other = place[apis[0]], place[apis[-1]]
                cell = class_, f"{' + '.join(apis)}: {word}"
                cells[one, other] = cells[other, one] = cell
    left_out = len(table.rows) - len(names)
    return Figure(
        note=(
            "Full: blocked, pale: undecided, both as far as listed; on the diagonal, APIs that are "
            "not allowed even alone. Pairs only: what is empty need not be allowed all together."
            + (f" {left_out} APIs with fewer conflicts are left out." if left_out else "")
        ),
        svg=matrix_chart(names, cells, title=table.title),
        table=table,
    )


def of_trust(report: ExposureReport) -> Figure:
    """Show what marginals, pairs and the joint distribution can each guarantee for one set.

    The report is one with `trust="joint"`.
    """
    levels = report.trust or ()
    title = f"Price of trust: {_set_name(report.apis)}"
    return Figure(
        note=(
            "The limit that can be guaranteed when the APIs are known one by one, in pairs, or all "
            "together. The less is known of the joint distribution, the higher the limit."
            f"{sample_note(report.sample, report.drawn)}{masked_note(report.masked)}"
        ),
        svg=range_chart(
            [(level.knowledge, 0.0, level.upper, level.observed_upper) for level in levels],
            title=title,
            x_label="upper limit of the exposure; dots: of the observed users",
        ),
        table=Table.of(
            levels,
            title=title,
            columns=[
                *columns("text", ("known", "knowledge")),
                *columns("short share", ("upper limit", "upper")),
                *columns("text", ("by", "rule")),
                *columns("short share", ("observed at most", "observed_upper")),
                *columns("decimal", ("entropy at most, bits", "entropy_upper_bits")),
            ],
        ),
    )


def of_followed(report: ExposureReport) -> Figure:
    """Draw who can be linked at once, and who still after some days, within limits.

    For a report that tells of some days; nothing is drawn of days after which nobody came back.
    """
    lines = [line for line in report.followed if line.returned > 1]
    now = report.linked.lower, report.linked.upper
    # At once, a site links what is linkable at all: the same limits as without days.
    days = [0.0, *(line.days for line in lines)]
    table = followed_table(report)
    bands = (
        ("any method", [(line.any_lower, line.any_upper) for line in lines]),
        ("same value", [(line.same_lower, line.same_upper) for line in lines]),
    )
    series = [
        Series(
            name=name,
            x=days,
            y=[(low + high) / 2 for low, high in (now, *limits)],
            lower=[low for low, _ in (now, *limits)],
            upper=[high for _, high in (now, *limits)],
            notes=[
                f"{name}, {day:g} days: {percent(low, 2, away=DOWN)} to {percent(high, 2, away=UP)}"
                for day, (low, high) in zip(days, (now, *limits), strict=True)
            ],
        )
        for name, limits in bands
    ]
    series.append(
        Series(
            name="parts that stayed, at most",
            x=days,
            y=[now[1], *(line.parts_upper for line in lines)],
        )
    )
    return Figure(
        note=table.caption,
        svg=line_chart(
            series,
            title=f"{table.title}: share of users who come back",
            axes=Axes(
                x="days after the first visit",
                y="linked",
                shares=True,
                names=[(day, f"{day:g}" if day else "today") for day in days],
            ),
        ),
        table=table,
    )


def of_trend(trend: TrendReport, *, headed: bool = False) -> Figure:
    """Draw exposure from window to window: the most exposing sets, the users, what changed.

    At least one window has users. `headed` writes title and note into the chart, for a file of its
    own.
    """
    windows = [window for window in trend.windows if window.users is not None and window.sets]
    shown = _most_exposing(windows)
    title = f"Exposure by {trend.division}"
    said = _changes(trend)
    note = (
        f"Share of the users in groups of fewer than {trend.k}, in a population of "
        f"{trend.population:,}. {said} Each limit, of the average over populations, is wrong with "
        f"probability at most {trend.delta:g}, for its window and set alone."
        f"{masked_note(trend.masked)}"
    )
    # By name: sources and batches begin at no time, so that all of them would be one.
    changed = len({alarm.window for alarm in trend.alarms})
    described = (
        f"population {trend.population:,}; shaded: limits, each {sureness(trend.delta)} sure; "
        f"users changed in {changed} of {len(trend.windows)} windows"
    )
    lines = [(window, line) for window in windows for line in window.sets if line.apis in shown]
    places = {window.name: _place(trend, window) for window in windows}
    return Figure(
        note=note,
        svg=line_chart(
            [_trend_series(apis, lines, places) for apis in shown],
            title=f"{title}: {said}",
            axes=Axes(
                x=_window_word(trend),
                y="exposure",
                shares=True,
                names=[
                    (places[window.name], shortened(window.name, _LONGEST_NAME))
                    for window in windows
                ],
            ),
            heading=(
                (
                    f"Share of users in groups of fewer than {trend.k}, by {trend.division}",
                    described,
                )
                if headed
                else ()
            ),
            marks=_trend_marks(trend, places),
            bars=Series(
                x=list(places.values()),
                y=[window.users or 0 for window in windows],
                notes=[f"{window.name}: {window.users:,} users" for window in windows],
                name="users",
            ),
        ),
        table=_trend_table(trend, title, lines),
    )


def _trend_table(
    trend: TrendReport, title: str, lines: Sequence[tuple[TrendWindow, TrendLine]]
) -> Table:
    return Table(
        title=title,
        columns=[
            *columns("text", _window_word(trend), "APIs"),
            *columns("count", "users"),
            *columns("short share", "lower", "estimate", "upper"),
            *columns("decimal", "entropy, bits"),
        ],
        rows=[
            (
                window.name,
                " + ".join(line.apis),
                window.users,
                line.lower,
                _estimate(line),
                line.upper,
                line.entropy_bits,
            )
            for window, line in lines
        ],
    )


def _changes(trend: TrendReport) -> str:
    changed = list(dict.fromkeys(alarm.window for alarm in trend.alarms))
    if not changed:
        other = "one before" if trend.against == "previous" else "first"
        return f"No window differs from the {other} by more than chance."
    return f"The users changed, beyond chance, in the windows {', '.join(changed)}."


def _window_word(trend: TrendReport) -> str:
    return trend.division if trend.division in PARTS else f"{trend.division} from"


def _place(trend: TrendReport, window: TrendWindow) -> float:
    """Where a window is drawn: by time where it has one, else by its turn."""
    if trend.division in PARTS or window.since is None:
        return float(trend.windows.index(window))
    return window.since.timestamp()


def _most_exposing(windows: Sequence[TrendWindow]) -> list[tuple[str, ...]]:
    largest: dict[tuple[str, ...], float] = {}
    for window in windows:
        for line in window.sets:
            largest[line.apis] = max(largest.get(line.apis, 0), line.plug_in)
    return sorted(largest, key=lambda apis: -largest[apis])[:MOST_SERIES]


def _estimate(line: TrendLine) -> float:
    return line.plug_in if line.unbiased is None else line.unbiased


def _trend_series(
    apis: tuple[str, ...],
    lines: Sequence[tuple[TrendWindow, TrendLine]],
    places: Mapping[str, float],
) -> Series:
    own_lines = [(window, line) for window, line in lines if line.apis == apis]
    return Series(
        name=", ".join(apis),
        x=[places[window.name] for window, _ in own_lines],
        y=[_estimate(line) for _, line in own_lines],
        lower=[line.lower for _, line in own_lines],
        upper=[line.upper for _, line in own_lines],
        notes=[
            f"{window.name}, {', '.join(apis)}: {percent(line.lower, away=DOWN)} to "
            f"{percent(line.upper, away=UP)}"
            for window, line in own_lines
        ],
    )


def _trend_marks(trend: TrendReport, places: Mapping[str, float]) -> list[tuple[float, str, str]]:
    apis_of: dict[str, set[str]] = {}
    for alarm in trend.alarms:
        apis_of.setdefault(alarm.window, set()).update(alarm.apis)
    return [
        (place, "users changed", f"{name}: {', '.join(sorted(apis_of[name]))}")
        for name, place in places.items()
        if name in apis_of
    ]


def of_trade_offs(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], values: int
) -> Figure:
    """Draw the utility of mechanisms against their privacy ("LDP metrics", Figure 3).

    `curves` are average privacy and asymptotic utility of each mechanism, by epsilon; `values` is
    how many values a user can have.
    """
    title = f"Utility against privacy, {values} values"
    return Figure(
        note="Asymptotic utility that a mechanism has at an average privacy.",
        svg=line_chart(
            [
                Series(name=name, x=privacy, y=utility)
                for name, (privacy, utility) in curves.items()
            ],
            title=title,
            axes=Axes(x="average privacy", y="asymptotic utility, nats"),
            heading=(title,),
        ),
        table=Table(
            title=title,
            columns=[
                *columns("text", "mechanism"),
                *columns("significant", "average privacy", "asymptotic utility, nats", digits=4),
            ],
            rows=[
                (name, *point) for name, both in curves.items() for point in zip(*both, strict=True)
            ],
        ),
    )
