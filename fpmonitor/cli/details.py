"""What `fpmonitor exposure` was asked for beside the exposure: tables, and rows for CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from fpmonitor.cli.output import percent, plain
from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.answers.cohorts import Cohort, CohortReport
    from fpmonitor.answers.exposure import BoundsReport, EntropyLine, ExposureReport
    from fpmonitor.answers.trust import TrustLevel

_SHOWN_COHORTS = 20
_DETAILS = {"bounds": "bounds", "trust": "trust", "entropies": "entropies", "cohorts": "given"}


def exposure_rows(reports: Sequence[ExposureReport]) -> list[Mapping[str, Any]]:
    """Rows for CSV: one a set, or one a line of the detail that was asked for.

    Raises
    ------
    InputError
        Several details were asked for, which have different columns.
    """
    rows: list[Mapping[str, Any]] = [report.to_json() for report in reports]
    details = [member for member in _DETAILS if member in rows[0]]
    if len(details) > 1:
        options = ", ".join(f"--{_DETAILS[member]}" for member in details)
        raise InputError(
            f"CSV can hold only one of {options}", hint="ask for one of them, or for JSON"
        )
    if not details:
        return rows
    return [{"apis": row["apis"]} | line for row in rows for line in row[details[0]]]


def exposure_details(report: ExposureReport) -> Iterator[Table]:
    """Tables of all that was asked for."""
    given = f" given {', '.join(report.given)}" if report.given else ""
    of = ", ".join(report.apis) + given
    if report.bounds is not None:
        yield _bounds_table(of, report.bounds)
    if report.trust:
        yield _trust_table(of, report.trust)
    if report.cohorts is not None:
        yield _cohort_table(of, report.given, report.cohorts, report.delta)
    if report.entropies:
        yield _entropy_table(of, report.entropies)


def _bounds_table(of: str, report: BoundsReport) -> Table:
    floor = report.theorem6_floor
    support = "not declared" if report.support is None else f"{report.support:,}"
    table = _table(
        f"Bounds: {of}",
        f"Possible values: {support}. Theorem 6: no estimator of the whole curve has a worst-case "
        f"error below {'–' if floor is None else f'{floor:.2g}'}.",
        text=["bound", "of", "why it says nothing"],
        numbers=["lower", "upper", "width"],
    )
    for line in report.bounds:
        interval = line.interval
        table.add_row(
            *(plain(text) for text in (line.bound, line.concerns, interval.reason)),
            *(percent(share) for share in (interval.lower, interval.upper, interval.width)),
        )
    return table


def _trust_table(of: str, levels: Sequence[TrustLevel]) -> Table:
    table = _table(
        f"Price of trust: {of}",
        "`upper` limits the statistical exposure, with probability 1 - delta, whatever the joint "
        "law; `observed` bounds the share among the observed users; `bits` their entropy.",
        text=["known", "rule", "rule (observed)"],
        numbers=["upper", "observed", "bits"],
    )
    for level in levels:
        table.add_row(
            level.knowledge,
            level.rule,
            level.observed_rule,
            percent(level.upper),
            percent(level.observed_upper),
            f"{level.entropy_upper_bits:.2f}",
        )
    return table


def _cohort_table(of: str, given: Sequence[str], report: CohortReport, delta: float) -> Table:
    others = report.others
    caption = f"All upper limits hold together with probability {1 - delta:.6g}; so do the lower. "
    if len(report.cohorts) > _SHOWN_COHORTS:
        caption += f"The {_SHOWN_COHORTS} highest of {len(report.cohorts):,} cohorts. "
    if others is not None:
        caption += (
            f"Others: {others.cohorts:,} cohorts of {others.users:,} users together, "
            f"{percent(others.empirical)} observed in small groups. "
        )
    caption += f"The set adds {report.conditional_entropy_bits:.2f} bits."
    table = _table(
        f"By cohort: {of}", caption, text=given, numbers=["users", "observed", "lower", "upper"]
    )
    for cohort in report.cohorts[:_SHOWN_COHORTS]:
        table.add_row(*_cohort_cells(cohort))
    return table


def _cohort_cells(cohort: Cohort) -> Iterator[str]:
    for text in cohort.given.values():
        yield "(absent)" if text is None else plain(text)
    yield f"{cohort.users:,}"
    yield from (percent(share) for share in (cohort.empirical, cohort.lower, cohort.upper))


def _entropy_table(of: str, lines: Sequence[EntropyLine]) -> Table:
    table = _table(f"Entropy: {of}", "", text=["measure", "estimator", "unit"], numbers=["value"])
    for line in lines:
        table.add_row(line.measure, line.estimator, line.unit, f"{line.value:.4f}")
    return table


def _table(title: str, caption: str, *, text: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=plain(title), caption=plain(caption) or None, caption_justify="left")
    for name in text:
        table.add_column(plain(name), overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right")
    return table
