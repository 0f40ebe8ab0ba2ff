"""Figures of what was measured, each with its data as a table: for reports and notebooks.

A notebook shows a figure by itself: `figures.of_trust(report)` at the end of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from fpmonitor.render.svg import (
    band_chart,
    percent_label,
    range_chart,
    scatter_chart,
    standalone,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fpmonitor.answers.curve import CurveReport
    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.answers.rank import Ranking
    from fpmonitor.answers.trend import TrendReport

_MOST_POINTS = 300
_FAR = 3.0  # an entropy reading that is off by so much stands out
_MOST_ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart and the table of its data.

    Attributes
    ----------
    title, note
        What it shows, and how to read it.
    svg
        The chart; colours come from the page (`svg.STYLE` has them for a file).
    columns, rows
        The data as text.
    """

    title: str
    note: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def _repr_svg_(self) -> str:
        return standalone(self.svg)

    def table_html(self) -> str:
        """Return the data as a table of HTML."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        body = "".join(
            '<tr><th scope="row">'
            + escape(row[0])
            + "</th>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self.rows
        )
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


def of_exposures(
    reports: Sequence[ExposureReport],
    *,
    title: str,
    budget: float | None = None,
    beyond: Collection[str] = (),
    remark: str = "",
) -> Figure:
    """Limits of some sets, the highest upper limit first.

    Parameters
    ----------
    reports
        At least one, all for one k and population.
    budget
        Drawn as a line.
    beyond
        APIs that all sets hold, which need no mention.
    remark
        Added to the note.
    """
    names = {
        report.apis: " + ".join(api for api in report.apis if api not in beyond)
        for report in reports
    }
    ordered = sorted(reports, key=lambda report: (-report.upper, report.apis))[:_MOST_ROWS]
    first = ordered[0]
    rows = [(names[report.apis], report.lower, report.upper, report.unbiased) for report in ordered]
    more = len(reports) - len(ordered)
    left_out = f" The first {len(ordered)} of {len(reports)} are drawn." if more else ""
    line = "" if budget is None else f" The dashed line is the budget, {percent_label(budget)}."
    return Figure(
        title=title,
        note=(
            f"Share of the users in groups of fewer than {first.k}, in a population of "
            f"{first.population:,}: bars are limits, each wrong with probability at most "
            f"{first.delta:g}; dots are unbiased estimates.{line}{left_out}{remark}"
        ),
        svg=range_chart(rows, title=title, x_label="exposure", budget=budget),
        columns=("APIs", "lower", "estimate", "upper", "entropy, bits", "values"),
        rows=tuple(
            (
                names[report.apis],
                percent_label(report.lower),
                "–" if report.unbiased is None else percent_label(report.unbiased),
                percent_label(report.upper),
                f"{report.entropy_bits:.2f}",
                f"{report.values:,}",
            )
            for report in ordered
        ),
    )


def of_curve(curve: CurveReport) -> Figure:
    """Whole exposure curve of a set, with the band that holds everywhere."""
    step = -(-len(curve.points) // _MOST_POINTS)
    points = curve.points[::step]
    title = f"Exposure curve: {' + '.join(curve.apis)}"
    return Figure(
        title=title,
        note=(
            "Share of the users whose value is rarer than a threshold. The band holds at all "
            f"thresholds together with probability {1 - curve.delta:g}."
        ),
        svg=band_chart(
            [float(point.threshold) for point in points],
            [point.empirical for point in points],
            [point.lower for point in points],
            [point.upper for point in points],
            title=title,
            x_label="threshold, users among those observed",
            y_label="share of the users",
            logarithmic=True,
        ),
        columns=("groups below", "observed", "lower", "upper"),
        rows=tuple(
            (
                f"{point.threshold:,}",
                percent_label(point.empirical),
                percent_label(point.lower),
                percent_label(point.upper),
            )
            for point in points[:: -(-len(points) // _MOST_ROWS)]
        ),
    )


def of_ranking(ranking: Ranking) -> Figure:
    """Exposure against entropy: where the usual reading misleads, and by which factor."""
    sets = ranking.sets[:_MOST_POINTS]
    title = "Exposure against entropy"
    basis = "unbiased estimate" if ranking.basis == "unbiased" else "upper limit"
    worst = sorted(sets, key=lambda line: -line.misleading_factor)[:_MOST_ROWS]
    return Figure(
        title=title,
        note=(
            f"Each dot is an API set: its entropy, and its exposure ({basis}). One entropy goes "
            f"with many exposures: of {ranking.pairs:,} pairs of sets, entropy orders "
            f"{ranking.disagreeing_pairs:,} the other way. Orange: n/2^H overstates the group of a "
            f"typical user by a factor of {_FAR:g} or more; the most, "
            f"{worst[0].misleading_factor:.2g}, for {' + '.join(worst[0].apis)}."
        ),
        svg=scatter_chart(
            [
                (
                    line.entropy_bits,
                    line.exposure,
                    (
                        f"{' + '.join(line.apis)}: {line.entropy_bits:.2f} bits, "
                        f"{percent_label(line.exposure)}, off by {line.misleading_factor:.2g}"
                    ),
                    line.misleading_factor >= _FAR,
                )
                for line in sets
            ],
            title=title,
            x_label="entropy, bits",
            y_label="exposure",
        ),
        columns=("APIs", "entropy, bits", "exposure", "n/2^H", "off by a factor of"),
        rows=tuple(
            (
                " + ".join(line.apis),
                f"{line.entropy_bits:.2f}",
                percent_label(line.exposure),
                f"{line.naive_group_size:,.0f}",
                f"{line.misleading_factor:.2g}",
            )
            for line in worst
        ),
    )


def of_trust(report: ExposureReport) -> Figure:
    """Show what marginals, pairs and the joint law can each promise for one set.

    Parameters
    ----------
    report
        Made with `trust="joint"`.
    """
    levels = report.trust or ()
    title = f"Price of trust: {' + '.join(report.apis)}"
    return Figure(
        title=title,
        note=(
            "What one can promise who knows the APIs one by one, in pairs, or all together: the "
            "less is known of the joint law, the higher the limit."
        ),
        svg=range_chart(
            [(level.knowledge, 0.0, level.upper, level.observed_upper) for level in levels],
            title=title,
            x_label="upper limit of the exposure; dots: of the observed users",
        ),
        columns=("known", "upper limit", "by", "observed at most", "entropy at most, bits"),
        rows=tuple(
            (
                level.knowledge,
                percent_label(level.upper),
                level.rule,
                percent_label(level.observed_upper),
                f"{level.entropy_upper_bits:.2f}",
            )
            for level in levels
        ),
    )


def of_trend(trend: TrendReport) -> Figure:
    """Exposure of one set from window to window; at least one window has users."""
    windows = [window for window in trend.windows if window.users is not None and window.sets]
    lines = [window.sets[0] for window in windows]
    first = windows[0].since
    changed = sorted({f"{alarm.since:%Y-%m-%d}" for alarm in trend.alarms})
    said = (
        f"The users changed, beyond chance, in the windows from {', '.join(changed)}."
        if changed
        else "No window differs from the one before by more than chance."
    )
    estimates = [line.plug_in if line.unbiased is None else line.unbiased for line in lines]
    title = f"Exposure by {trend.period}"
    return Figure(
        title=title,
        note=f"{' + '.join(lines[0].apis)}. {said} Each band holds for its window alone.",
        svg=band_chart(
            [(window.since - first).total_seconds() / 86400 for window in windows],
            estimates,
            [line.lower for line in lines],
            [line.upper for line in lines],
            title=title,
            x_label=f"days after {first:%Y-%m-%d}",
            y_label="exposure",
        ),
        columns=(f"{trend.period} from", "users", "lower", "estimate", "upper", "entropy, bits"),
        rows=tuple(
            (
                f"{window.since:%Y-%m-%d}",
                f"{window.users:,}",
                percent_label(line.lower),
                percent_label(estimate),
                percent_label(line.upper),
                f"{line.entropy_bits:.2f}",
            )
            for window, line, estimate in zip(windows, lines, estimates, strict=True)
        ),
    )
