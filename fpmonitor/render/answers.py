"""Answers on the exposure of users, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fpmonitor.decide.guarantee import (
    FIRST_LOOK,
    draws,
    limits,
    unobserved,
    who_was_drawn,
)
from fpmonitor.errors import shortened, some_of
from fpmonitor.policy import DOWN, UP, per_cent, sureness
from fpmonitor.render.check_files import check_sentences, named_set
from fpmonitor.render.forecasts import forecast_table
from fpmonitor.render.numbers import at_most, between, count, decimal, percent, share_told
from fpmonitor.render.output import Output
from fpmonitor.render.tables import Table, TableColumn, columns, thinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fpmonitor.answers.apis import ApiOverview
    from fpmonitor.answers.automation import AutomationReport
    from fpmonitor.answers.check import CheckReport
    from fpmonitor.answers.cohorts import Cohort, CohortReport
    from fpmonitor.answers.compare import ComparedDecision, ComparedSet
    from fpmonitor.answers.counts import CountsExposure
    from fpmonitor.answers.curve import CurveReport
    from fpmonitor.answers.demand import DemandLine
    from fpmonitor.answers.exposure import EntropyLine, ExposureReport
    from fpmonitor.answers.panel import MovedValue
    from fpmonitor.answers.rank import RankedSet, Ranking
    from fpmonitor.answers.scripts import ScriptReport
    from fpmonitor.answers.trend import ChangeAlarm, TrendReport
    from fpmonitor.answers.trust import TrustLevel
    from fpmonitor.policy import Drawn, SampleModel
    from fpmonitor.render.tables import Cell

_SHOWN_SETS = 40
_SHOWN_POINTS = 30
_SHOWN_COHORTS = 20
_SHOWN_VALUES = 3
_LONGEST_VALUE = 60
_SMALLEST_P = 1e-99
_INTERVAL = ("lower", "upper", "width")
_WHOLE = 99.5  # factors are whole numbers from here on
WORDS_OF_APIS = (
    "Coverage: share of the users who have a value. Changes between visits: share of those who "
    "came back whose value had changed."
)
_BAR, _SHORT_BAR = 24, 13  # letters; with one column more a table still fits 80
_ESTIMATES = (
    "`plug-in`: the observed shares taken for those of the population; `unbiased`: right on "
    "average, and only for populations up to the observed users; `bits`: entropy."
)
_OFF_BY = (
    "`off by`: how far that overstates the group of the median user, of the worst 5 % of the "
    "users, of the worst 1 %."
)
# Members of an exposure that CSV can hold one of, and the options that ask for them.
_DETAILS = {
    **{name: name for name in ("bounds", "trust", "entropies", "followed")},
    "cohorts": "given",
}


def exposures(reports: Sequence[ExposureReport]) -> Output:
    """Exposure of some sets, and all that was asked for beside it.

    As CSV, a row is a set, or a line of the one detail that was asked for.
    """
    rows: list[Mapping[str, Any]] = [report.to_json() for report in reports]
    details = [member for member in _DETAILS if member in rows[0]]
    no_csv = ("", "")
    if len(details) > 1:
        options = ", ".join(f"--{_DETAILS[member]}" for member in details)
        no_csv = (f"CSV can hold only one of {options}", "ask for one of them, or for JSON")
    # CSV would join two numbers by a comma, and nobody could tell which is which.
    lines = [{**row, "paper": _named_ends(row["paper"])} for row in rows]
    if len(details) == 1:
        lines = [{"apis": row["apis"]} | line for row in rows for line in row[details[0]]]
    tables = [table for report in reports for table in _detail_tables(report)]
    if reports[0].entropies:
        tables.insert(0, _reading_table(reports))
    if reports[0].realised is not None:
        tables.insert(0, _realised_table(reports))
    if reports[0].followed:
        tables[:0] = map(followed_table, reports)
    if reports[0].forecast is not None:
        tables.append(forecast_table(reports))
    # What sites see comes before values that may come from several visits.
    first = [visit_table(reports)] if any(report.visits for report in reports) else []
    tables = [*first, _exposure_table(reports), *tables]
    return Output(tables=tables, rows=lines, document=rows, no_csv=no_csv)


def _named_ends(bounds: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    return {name: {"lower": lower, "upper": upper} for name, (lower, upper) in bounds.items()}


def masked_note(apis: Iterable[str]) -> str:
    """Say which APIs are not read as logged, after another sentence; empty where all are."""
    names = sorted(set(apis))
    return f" Masked, as browsers randomise them by design: {', '.join(names)}." if names else ""


def _exposure_table(reports: Sequence[ExposureReport]) -> Table:
    first, widest = reports[0], max(report.upper for report in reports)
    return Table(
        title=(
            f"Share of users in groups of fewer than {first.k}, in a population of "
            f"{first.population:,}{', by last values' * any(r.visits for r in reports)}"
        ),
        caption=(
            f"{linked_note(reports)} {in_short_limits(reports)}"
            f"{drawn_note(first.drawn)}{masked_note(api for r in reports for api in r.masked)}"
        ),
        columns=[
            *columns("text", "API set"),
            *columns("share", "observed", "lower", "upper"),
            *columns("share", *(["linkable"] if len(reports) > 1 else [])),
            TableColumn(f"0 to {percent(widest, 2, away=UP)}", "bar"),
        ],
        rows=[_exposure_row(report, widest, several=len(reports) > 1) for report in reports],
    )


def linked_note(reports: Sequence[ExposureReport]) -> str:
    """Say how many users can be recognised at most, whatever a site does with the values."""
    users = f"{reports[0].population:,} users, on average"
    if len(reports) > 1:
        return (
            "`linkable`: with these APIs alone, no method links the visits of a larger share of "
            f"{users}."
        )
    most = percent(reports[0].linked.upper, 2, away=UP)
    return f"No method that uses these APIs alone links the visits of more than {most} of {users}."


def _reading_table(reports: Sequence[ExposureReport]) -> Table:
    """Estimates without a promise, and what entropy would have said."""
    return Table(
        title="Other estimates, and the entropy reading",
        caption=f"{_ESTIMATES} `n/2^H`: group size by the entropy reading. {_OFF_BY}",
        columns=[
            *columns("text", "API set"),
            *columns("count", "values", spare=True),
            *columns("share", "plug-in", spare=True),
            *columns("share", "unbiased"),
            *columns("decimal", "bits"),
            *columns("decimal", "n/2^H", digits=0),
            *columns("right", "off by", spare=True),
            *columns("right", "worst 5 %", "worst 1 %"),
        ],
        rows=[
            (
                _called(report),
                report.values,
                *_estimates(report, "plug_in", "unbiased"),
                report.entropy_bits,
                report.naive_group_size,
                *_factors(report),
            )
            for report in reports
        ],
    )


def drawn_note(drawn: Drawn | None) -> str:
    """Say how many users were drawn by shares, after another sentence."""
    return "" if drawn is None else f" {who_was_drawn(drawn)}"


def sample_note(sample: SampleModel, drawn: Drawn | None) -> str:
    """Say how users may differ from the population, after another sentence; empty for draws."""
    if not sample.options:
        return ""
    said = f" Limits hold if the observed users and those of the population are {draws(sample)}."
    return f"{said} {unobserved(sample)}".rstrip() + drawn_note(drawn)


def in_short_limits(reports: Sequence[ExposureReport]) -> str:
    """Say what limits of sets promise, for the screen; `docs/certificate/sentences.md` has all."""
    report, sample = reports[0], reports[0].sample
    by_visits = [found for each in reports if (found := each.visits) is not None]
    # Who comes back has other last values.
    returned = any(found.visits > found.users for found in by_visits)
    is_once = sample.looked_at_once or returned
    looks = "It holds for one look." if is_once else "Rerun it as users arrive."
    if sample.look == "first":
        looks = f"{FIRST_LOOK} {looks}"
    return (
        f"Each limit is {sureness(report.delta, times=100)} % sure, for a set named before "
        f"looking. {looks} It limits the average over populations of {report.population:,} users. "
        f"Assumes the {report.users:,} observed users and theirs are {draws(sample)}. "
        f"{unobserved(sample)}"
    ).rstrip()


def counts_exposure(found: CountsExposure) -> Output:
    """Return the exposure that follows from group sizes alone."""
    table = Table.of(
        [found],
        title=(
            f"Share of users in groups of fewer than {found.k}, in a population of "
            f"{found.population:,}"
        ),
        caption=limits(population=found.population, users=found.users, delta=found.delta),
        columns=[
            *columns("count", "values"),
            *columns("share", ("observed", "empirical"), "plug-in", "unbiased", "lower", "upper"),
        ],
    )
    return Output(tables=[table], rows=found.rows())


def _exposure_row(report: ExposureReport, widest: float, *, several: bool) -> tuple[Cell, ...]:
    return (
        _called(report),
        *_estimates(report, "empirical"),
        report.lower,
        report.upper,
        *([f"≤ {percent(report.linked.upper, 2, away=UP)}"] if several else []),
        bar(
            report.lower,
            report.empirical,
            report.upper,
            widest,
            letters=_SHORT_BAR if several else _BAR,
        ),
    )


def _called(report: ExposureReport) -> list[str]:
    return [*report.apis, *([f"given {', '.join(report.given)}"] if report.given else [])]


def _estimates(report: ExposureReport, *members: str) -> list[Cell]:
    shares = (getattr(report, member) for member in members)
    return [
        None if share is None else share_told(share, 2, suppressed=report.suppressed)
        for share in shares
    ]


def bar(lower: float, found: float, upper: float, widest: float, *, letters: int = _BAR) -> str:
    """Draw limits on a line from 0 to the widest, and the observed share where it is between them.

    Of a population that is not as large as the observed users it may be far outside.
    """
    at = [min(int(letters * share / (widest or 1)), letters - 1) for share in (lower, found, upper)]
    line = ["·"] * at[0] + ["─"] * (at[2] - at[0] + 1) + ["·"] * (letters - 1 - at[2])
    line[at[0]], line[at[2]] = "├", "┤"
    if lower <= found <= upper:
        line[at[1]] = "●"
    return "".join(line)


def _factors(line: ExposureReport | RankedSet) -> tuple[Cell, ...]:
    factors = (
        line.misleading_factor,
        line.misleading_factor_worst_5,
        line.misleading_factor_worst_1,
    )
    # `.2g` writes 100 as 1e+02.
    return tuple(f"{factor:.2g}×" if factor < _WHOLE else f"{factor:,.0f}×" for factor in factors)


def _detail_tables(report: ExposureReport) -> Iterator[Table]:
    given = f" given {', '.join(report.given)}" if report.given else ""
    of = ", ".join(report.apis) + given
    if report.bounds:
        yield _bounds_table(of, report)
    if report.trust:
        yield _trust_table(of, report.trust)
    if report.cohorts is not None:
        yield _cohort_table(of, report.given, report.cohorts, report.delta)
    if report.entropies:
        yield _entropy_table(of, report.entropies)


def _realised_table(reports: Sequence[ExposureReport]) -> Table:
    first = reports[0]
    return Table.of(
        reports,
        title=f"Share of the users of one population of {first.population:,}",
        caption=(
            f"Each limit holds with probability {sureness(first.delta)} for the share in one "
            "population, which varies about the average."
        ),
        columns=[
            *columns("text", ("API set", lambda report: ", ".join(report.together))),
            *columns("share", ("at least", "realised.lower"), ("at most", "realised.upper")),
        ],
    )


def visit_table(reports: Sequence[ExposureReport]) -> Table:
    """Show what one visit exposes, and what all visits of a user do."""
    first = reports[0]
    days = max((r.visits.days or 0 for r in reports if r.visits), default=0)
    rows: list[tuple[Cell, ...]] = []
    for report in reports:
        if (found := report.visits) is None:
            continue
        for name, of in (("one visit", found.visit), ("all visits", found.path)):
            rows.append((_called(report), name, of.empirical, of.lower, of.upper))
    seen = (
        "`one visit`: whole tuples, one of each user. `all visits`: what a site sees that knows "
        f"its {first.population:,} users again, values in their order."
    )
    return Table(
        title=(
            f"Share of users in groups of fewer than {first.k}, by one visit and by all visits of "
            f"{days:,.0f} days"
        ),
        caption=" ".join(filter(None, [*map(_visits_note, reports), seen])),
        columns=[
            *columns("text", "API set", "seen"),
            *columns("share", "observed", "lower", "upper"),
        ],
        rows=rows,
    )


def followed_table(report: ExposureReport) -> Table:
    """Show for how long users can be followed."""
    lines = report.followed
    more = [f"{line.days:g}" for line in lines if line.half == "more"]
    fewer = [f"{line.days:g}" for line in lines if line.half == "fewer"]
    half = "".join(
        f" After {days[place]} days the same value links {word} than half of those linked at once."
        for days, place, word in ((more, -1, "more"), (fewer, 0, "fewer"))
        if days
    )
    seen = "" if report.days is None else f" from {report.days[0]} to {report.days[1]}"
    rows: list[tuple[Cell, ...]] = [
        (
            f"{line.days:g} days",
            line.returned,
            line.kept,
            f"{percent(line.same_lower, 2, away=DOWN)} to {percent(line.same_upper, 2, away=UP)}",
            f"≤ {percent(line.parts_upper, 2, away=UP)}",
            f"≤ {percent(line.any_upper, 2, away=UP)}",
        )
        for line in lines
    ]
    return Table(
        title=f"Linked later: {', '.join(report.apis)}",
        caption=(
            f"Share linked of {report.population:,} users who come back, on average. A site looks "
            "for the same value, for parts that stayed (an API; of a user agent also family, "
            "version, system), or uses any method."
            f"{half} All upper limits hold together with probability {sureness(report.delta)}, and "
            "so do all lower ones. This takes days chosen before looking, and users like those who "
            f"came back. They were seen{seen}: on days without a release more can be linked."
        ),
        columns=[
            *columns("text", "after"),
            *columns("count", "came back"),
            *columns("share", "kept all"),
            *columns("right", "same value", "same parts", "any method"),
        ],
        rows=rows,
    )


def _visits_note(report: ExposureReport) -> str:
    """Say which API makes all visits expose half as much again, or more; empty where none does."""
    found = report.visits
    if found is None or not found.is_noted or not found.changing:
        return ""
    api, share = next(iter(found.changing.items()))
    return (
        f"{api} changes between the visits of {percent(share)} of those who came back: "
        f"{percent(found.visit.empirical)} are exposed at one visit, "
        f"{percent(found.path.empirical)} by all."
    )


def _bounds_table(of: str, report: ExposureReport) -> Table:
    floor = report.theorem6_floor
    support = "not declared" if report.support is None else f"{report.support:,}"
    return Table.of(
        report.bounds,
        title=f"Bounds: {of}",
        caption=(
            f"Possible values: {support}. Theorem 6: no estimator of the whole curve has a "
            f"worst-case error below {'–' if floor is None else f'{floor:.2g}'}, however large "
            "the sample."
        ),
        columns=[
            *columns("text", "bound", ("of", "concerns")),
            *columns("text", ("why it says nothing", "interval.reason"), spare=True),
            *columns("share", *((name, f"interval.{name}") for name in _INTERVAL)),
        ],
    )


def _trust_table(of: str, levels: Sequence[TrustLevel]) -> Table:
    return Table.of(
        levels,
        title=f"Price of trust: {of}",
        caption=(
            "`upper` limits the average exposure over populations, with probability 1 - delta, "
            "whatever the joint distribution; `observed` bounds the share among the observed "
            "users; `bits` their entropy."
        ),
        columns=[
            *columns("text", ("known", "knowledge"), "rule", ("rule (observed)", "observed_rule")),
            *columns("share", "upper", ("observed", "observed_upper")),
            *columns("decimal", ("bits", "entropy_upper_bits")),
        ],
    )


def _cohort_table(of: str, given: Sequence[str], report: CohortReport, delta: float) -> Table:
    others = report.others
    caption = (
        f"All upper limits, of averages over populations, hold together with probability "
        f"{sureness(delta)}; so do the lower. "
    )
    if len(report.cohorts) > _SHOWN_COHORTS:
        caption += f"The {_SHOWN_COHORTS} highest of {len(report.cohorts):,} cohorts. "
    if others is not None:
        caption += (
            f"Others: {others.cohorts:,} cohorts of {others.users:,} users together, "
            f"{percent(others.empirical, 2)} observed in small groups. "
        )
    caption += f"The set adds {report.conditional_entropy_bits:.2f} bits."
    return Table(
        title=f"By cohort: {of}",
        caption=caption,
        columns=[
            *columns("text", *given),
            *columns("count", "users"),
            *columns("share", "observed", "lower", "upper"),
        ],
        rows=list(map(_cohort_row, report.cohorts[:_SHOWN_COHORTS])),
    )


def _cohort_row(cohort: Cohort) -> tuple[Cell, ...]:
    values = ("(absent)" if value is None else value for value in cohort.given.values())
    return (*values, cohort.users, cohort.empirical, cohort.lower, cohort.upper)


def _entropy_table(of: str, lines: Sequence[EntropyLine]) -> Table:
    return Table.of(
        lines,
        title=f"Entropy: {of}",
        columns=[
            *columns("text", "measure", "estimator", "unit"),
            *columns("decimal", "value", digits=4),
        ],
    )


def ranking(found: Ranking) -> Output:
    """Return sets by entropy and by exposure."""
    basis = "unbiased estimate, without a promise."
    if found.basis == "upper":
        promise = limits(
            population=found.population,
            users=found.users,
            delta=found.delta,
            together=True,
            sample=found.sample,
        )
        basis = f"upper limit. {promise}"
    basis += drawn_note(found.drawn)
    shown = [
        *columns("text", ("API set", lambda line: ", ".join(line.apis))),
        *columns("share", "exposure"),
        *columns("count", ("place", "place_by_exposure")),
        *columns("decimal", ("bits", "entropy_bits")),
        *columns("count", ("place", "place_by_entropy")),
        *columns(
            "right",
            ("places", lambda line: f"{line.places_apart:+d}" if line.places_apart else "0"),
            spare=True,
        ),
        *columns("decimal", ("n/2^H", "naive_group_size"), digits=0, spare=True),
        *columns("right", ("off by", lambda line: _factors(line)[0]), spare=True),
        *columns(
            "right",
            ("worst 5 %", lambda line: _factors(line)[1]),
            ("worst 1 %", lambda line: _factors(line)[2]),
        ),
    ]
    table = Table(
        title=(
            f"Share of users in groups of fewer than {found.k}, in a population of "
            f"{found.population:,}, against entropy"
        ),
        caption=(
            f"{found.users:,} observed users. Exposure: {basis} Of {found.pairs:,} pairs of "
            f"sets that differ, entropy orders {found.disagreeing_pairs:,} the other way. "
            "`places`: how much higher the set ranks by exposure than by entropy. `n/2^H`: "
            f"group size by the entropy reading. {_OFF_BY}{masked_note(found.masked)}"
        ),
        columns=shown,
        rows=[[column.cell(line) for column in shown] for line in found.sets[:_SHOWN_SETS]]
        + _more(len(found.sets)),
    )
    return Output(tables=[table], rows=found.rows(), document=found.to_json())


def _more(number: int, *cells: Cell, shown: int = _SHOWN_SETS) -> list[Sequence[Cell]]:
    """Return a row that says, after other cells, how many rows are left out, if any."""
    left_out = number - shown
    return [(*cells, f"... and {left_out:,} more: --format csv")] if left_out > 0 else []


def curve_output(report: CurveReport) -> Output:
    """Return the whole exposure curve of a set."""
    points, step = thinned(report.points, _SHOWN_POINTS)
    counted = "observed users" if report.drawn is None else "users drawn"
    left_out = (
        f" One point of {step}, and the last, is shown: --format csv for all." if step > 1 else ""
    )
    table = Table.of(
        points,
        title=f"Exposure curve: {', '.join(report.apis)}",
        caption=(
            f"{report.users:,} observed users. Lower and upper limit the share of the population "
            "whose value is rarer than the threshold. All limits hold together with probability "
            f"{sureness(report.delta)}, if its users and the {counted} are {draws(report.sample)}."
            f"{drawn_note(report.drawn)}{left_out}{masked_note(report.masked)}"
        ),
        columns=[
            *columns("count", ("groups below", "threshold")),
            *columns("share", "share", digits=4),
            *columns("share", ("observed", "empirical"), "lower", "upper"),
        ],
    )
    return Output(
        tables=[table],
        rows=report.rows(),
        document=report.to_json(),
    )


def names_output(lines: Sequence[ApiOverview]) -> list[TableColumn]:
    """Return the column of names, and of what they are where that differs."""
    differs = any(line.means != line.api for line in lines)
    return columns("text", ("API", "api"), *([("known as", "means")] if differs else []))


def overview(lines: Sequence[ApiOverview], k: int) -> Output:
    """Return every API alone."""
    few = any(line.suppressed for line in lines)
    table = Table.of(
        lines,
        title=f"APIs, by the share of observed users in groups of fewer than {k}",
        caption=WORDS_OF_APIS,
        columns=[
            *names_output(lines),
            *columns("count", "users"),
            *columns("share", "coverage", digits=1),
            *(columns("text", ("values", values_told)) if few else columns("count", "values")),
            *columns("decimal", ("entropy, bits", "entropy_bits"), digits=3),
            *(
                columns("text", ("exposure", exposure_told))
                if few
                else columns("share", "exposure")
            ),
            *columns("short share", ("changes between visits", "changes"), spare=True),
        ],
    )
    return Output(tables=[table], rows=[line.to_json() for line in lines])


def values_told(line: ApiOverview) -> str:
    """Return how many values an API has, or at most has."""
    return at_most(count(line.values), suppressed=line.suppressed)


def exposure_told(line: ApiOverview) -> str:
    """Return the share of the users whom an API exposes, or at most exposes."""
    return share_told(line.exposure, suppressed=line.suppressed)


def demand_output(lines: Sequence[DemandLine], k: int) -> Output:
    """Return the sets that scripts read, and what they expose."""
    rows = [line.to_json() for line in lines]
    table = Table.of(
        lines,
        title=f"What scripts read together, and the users that it puts in groups of fewer than {k}",
        caption="Without an upper limit: the population log lacks an API of the set."
        + next((sample_note(e.sample, e.drawn) for e in (x.exposure for x in lines) if e), "")
        + masked_note(api for row in rows for api in row["masked"]),
        columns=[
            *columns("text", ("API set", "apis")),
            *columns("count", "scripts", "sites"),
            *columns("share", *((name, _limit(name)) for name in ("lower", "plug-in", "upper"))),
        ],
    )
    return Output(tables=[table], rows=rows)


def _limit(name: str) -> Callable[[DemandLine], float | None]:
    return lambda line: line.to_json()[name.replace("-", "_")]


def scripts_output(report: ScriptReport) -> Output:
    """Return what scripts expose, against an earlier crawl and another list where asked for."""
    table = Table.of(
        report.scripts,
        title=f"What scripts expose: users in groups of fewer than {report.k} by what they read",
        caption="`plug-in`: an estimate; `beyond`: that of what is beyond the recommended set; "
        "`left`: what stays under the decision; `taken`: what it takes away at least. Limits of "
        "all scripts hold together; without an upper one the population log lacks an API that is "
        "read.",
        columns=[
            *columns("text", "script"),
            *columns("count", ("sites", lambda line: len(line.sites))),
            *columns("verdict", "verdict"),
            *columns(
                "share",
                ("lower", "reads.lower"),
                ("plug-in", "reads.plug_in"),
                ("upper", "reads.upper"),
                ("beyond", "beyond.plug_in"),
                ("left, upper", "left.upper"),
                ("taken", "taken.lower"),
            ),
            *(columns("count", "place", ("before", "place_before")) if report.stability else []),
            *(columns("text", "listed") if report.agreement else []),
        ],
    )
    tables = [table]
    if found := report.stability:
        tables.append(
            Table(
                title="Against the earlier crawl",
                columns=columns("text", "", "scripts"),
                rows=[
                    ("in both", count(found.common)),
                    ("new", count(found.new)),
                    ("gone", count(found.gone)),
                    ("rank correlation (tau-b)", decimal(found.kendall_tau, 2)),
                ],
            )
        )
    if agreed := report.agreement:
        tables.append(
            Table(
                title="Against the other list, hosts seen on sites of others",
                columns=columns("text", "", "listed", "not listed"),
                rows=[
                    ("above the budget", count(agreed.both), count(agreed.ours)),
                    ("others", count(agreed.theirs), count(agreed.neither)),
                    ("Cohen's kappa", decimal(agreed.kappa, 2)),
                ],
            )
        )
    document = report.to_json()
    return Output(tables=tables, rows=document["scripts"], document=document)


def automation_output(report: AutomationReport) -> Output:
    """Users that look automated, and exposure without them."""
    signs = [("any sign", report.automated), *report.signs.items()]
    shares = [
        (
            f"exposure of {', '.join(apis)}",
            f"{percent(everybody, 2)}, without automation {percent(human, 2)}",
        )
        for apis, (everybody, human) in report.exposures.items()
    ]
    table = Table(
        title="Users that look automated",
        caption=f"Robots by {report.robots_by}.{masked_note(report.masked)}",
        columns=columns("text", "", "users"),
        rows=[
            ("observed", count(report.users)),
            *((name, count(users)) for name, users in signs),
            *shares,
        ],
    )
    document = report.to_json()
    row = {name: cell for name, cell in document.items() if name != "exposure"}
    # A row a set, as no cell of CSV can hold several shares.
    rows = [row | each for each in document["exposure"]] or [document]
    return Output(tables=[table], rows=rows, document=document)


def trend_output(report: TrendReport) -> Output:
    """Exposure from window to window: what changed in one sentence, a line a window, the rest."""
    return Output(
        preface=(_trend_summary(report),),
        tables=[_window_table(report), _alarm_table(report), _trend_table(report)],
        rows=report.rows(),
        document=report.to_json(),
    )


def _trend_summary(report: TrendReport) -> str:
    """Say how many windows there are, and in which the users changed."""
    first, last = report.windows[0].name, report.windows[-1].name
    if len(report.windows) == 1:
        return f"One window by {report.division}, {first}: there is none to compare it with."
    said = f"{len(report.windows):,} windows by {report.division}, {first} to {last}."
    against = f"against the {report.against} window"
    changed = list(dict.fromkeys(alarm.window for alarm in report.alarms))
    if not changed:
        return f"{said} In none did the users change {against}, as far as can be told."
    if report.against == "first":
        spells = _spells(report)
        named = [f"{', '.join(alarm.apis)} {_spell(report, alarm, end)}" for alarm, end in spells]
        named = list(dict.fromkeys(named))
        spelt = some_of(named, _SHOWN_VALUES, between="; ", last="; and")
        return f"{said} The users differ from those of the first: {spelt}."
    apis = sorted({api for alarm in report.alarms for api in alarm.apis})
    return (
        f"{said} In {len(changed):,} the users changed {against}: "
        f"{some_of(changed, _SHOWN_VALUES, last=', and')}, in {', '.join(apis)}."
    )


def _spells(report: TrendReport) -> list[tuple[ChangeAlarm, str]]:
    """Return each change where it was first seen, and the last window without a break of it.

    Against the previous window, each change is one of its own.
    """
    place = {name: number for number, name in enumerate(report.judged)}
    found: dict[tuple[object, ...], list[tuple[ChangeAlarm, str]]] = {}
    for alarm in report.alarms:
        same = found.setdefault((alarm.apis, alarm.compared), [])
        # Against the first window a change that lasts is found in each one: a spell is told once.
        if report.against == "first" and same and place[same[-1][1]] == place[alarm.window] - 1:
            same[-1] = (same[-1][0], alarm.window)
        else:
            same.append((alarm, alarm.window))
    spells = [spell for same in found.values() for spell in same]
    return sorted(spells, key=lambda spell: place[spell[0].window])


def _spell(report: TrendReport, alarm: ChangeAlarm, end: str) -> str:
    """Say how long a change lasts, by the names of windows."""
    if report.against == "previous":
        return alarm.window
    if end == report.judged[-1]:
        return f"since {alarm.window}, still so"
    return alarm.window if end == alarm.window else f"{alarm.window} to {end}"


def _window_table(report: TrendReport) -> Table:
    rows: list[Sequence[Cell]] = []
    for window in report.windows:
        alarms = [alarm for alarm in report.alarms if alarm.window == window.name]
        changed = sorted({", ".join(alarm.apis) for alarm in alarms})
        if not window.sets:
            rows.append((window.name, f"fewer than {report.k}"))
            continue
        most = max(window.sets, key=lambda line: (line.plug_in, line.upper))
        rows.append(
            (
                window.name,
                count(window.users),
                ", ".join(most.apis),
                f"{between(most.lower, most.upper)}",
                changed or None,
            )
        )
    return Table(
        title=f"By {report.division}",
        columns=[
            *columns("text", report.division),
            *columns("right", "users"),
            *columns("text", "most exposing set"),
            *columns("right", "exposes"),
            *columns("text", "changed"),
        ],
        rows=rows,
    )


def _trend_table(report: TrendReport) -> Table:
    changed = {(alarm.window, alarm.apis) for alarm in report.alarms}
    rows: list[Sequence[Cell]] = []
    sections = []
    for window in report.windows:
        start: Cell = window.name
        for line in window.sets:
            mark = "!" if (window.name, line.apis) in changed else ""
            shares = (line.plug_in, line.unbiased, line.lower, line.upper)
            rows.append(
                (start, ", ".join(line.apis), line.values, line.entropy_bits, *shares, mark)
            )
            start = ""
        sections.append(len(rows) - 1)
    return Table(
        title=(
            f"Share of users in groups of fewer than {report.k}, in a population of "
            f"{report.population:,}, by {report.division}"
        ),
        caption=(
            f"{_ESTIMATES} Each limit holds with probability {sureness(report.delta)}, for the "
            "average over populations, its window and set alone. An ! marks users who changed "
            "against the window they are compared with."
            f"{masked_note(report.masked)}"
        ),
        columns=[
            *columns("text", report.division, "API set"),
            *columns("count", "values", spare=True),
            *columns("decimal", "bits", spare=True),
            *columns("share", "plug-in", spare=True),
            *columns("share", "unbiased", "lower", "upper"),
            *columns("verdict", "!"),
        ],
        rows=rows,
        sections=frozenset(sections),
    )


def _alarm_table(report: TrendReport) -> Table:
    rows: list[Sequence[Cell]] = []
    for alarm, end in _spells(report):
        values = [_moved_value(value, report.k) for value in alarm.values[:_SHOWN_VALUES]]
        more = ["..."] if len(alarm.values) > _SHOWN_VALUES else []
        p_value = f"{alarm.p_value:.1g}" if alarm.p_value > _SMALLEST_P else f"< {_SMALLEST_P:.0e}"
        rows.append(
            (
                _spell(report, alarm, end),
                ", ".join(alarm.apis),
                alarm.compared,
                percent(alarm.moved, 2) if alarm.moved else "cannot tell",
                p_value,
                values + more,
            )
        )
    return Table(
        title=f"What changed against the {report.against} window",
        caption=(
            f"{report.tests:,} tests; if all windows are draws from one distribution, any of them "
            f"alarms with probability {report.false_alarms:.6g} at most. `moved` "
            "estimates the users that moved; a value is named where at least "
            f"{report.k} users have it now."
        ),
        columns=columns(
            "text",
            report.division,
            "API set",
            "changed",
            "moved",
            "p-value",
            "values that changed for sure",
        ),
        rows=rows or [("–", "no alarm")],
    )


def _moved_value(value: MovedValue, k: int) -> str:
    if value.of_api is not None:
        return f"the API {value.of_api}"
    named = "(a value that few users have now)"
    if value.value is not None:
        named = shortened(value.value, _LONGEST_VALUE)
    return f"{named}: {_moved(value.before, k)} to {_moved(value.after, k)}"


def _moved(share: float | None, k: int) -> str:
    return f"fewer than {k} users" if share is None else percent(share, 2)


def check_output(report: CheckReport) -> Output:
    """Return current verdicts on the allow list of a decision, with limits and the budget."""
    policy = report.decision.policy
    if len(report.verdicts) == 1:
        [(_, _, said)] = check_sentences(report, figures=". Limits: {}")
        notes = f"{drawn_note(report.drawn)}{masked_note(report.masked)}"
        line = f"{report.outcome}: {said}{notes and '.' + notes}"
        return Output(tables=[], rows=report.rows(), preface=[line])
    what = "as counted" if report.exact else _LIMITS_OF_CHECK
    table = Table(
        title=(
            f"{report.outcome} (budget {per_cent(policy.budget)} %): share of users in groups of "
            f"fewer than {policy.k}"
        ),
        caption=(
            f"`at least`, `at most`: {what}.{drawn_note(report.drawn)}{_lacking_note(report)}"
            f"{masked_note(report.masked)}"
        ),
        columns=[
            TableColumn("now", "check"),
            TableColumn("left readable by the list" if report.of_list else "set on the allow list"),
            *columns("share", "at least", "at most"),
        ],
        rows=_first_to_look_at(report),
    )
    return Output(tables=[table], rows=report.rows())


def _first_to_look_at(report: CheckReport) -> list[Sequence[Cell]]:
    """Rows of a check, those that do not hold first: all of these, and some that do."""
    rows: list[Sequence[Cell]] = [
        (verdict, named_set(apis), *report.limits[apis])
        for apis, verdict in sorted(
            report.verdicts.items(), key=lambda found: _URGENT_FIRST.index(found[1])
        )
    ]
    shown = max(_SHOWN_SETS, sum(verdict != "allow" for verdict in report.verdicts.values()))
    return rows[:shown] + _more(len(rows), "allow", shown=shown)


_URGENT_FIRST = ("block", "undecided", "allow")
_LIMITS_OF_CHECK = (
    "limits of the average over populations, for all sets of this check together; the verdicts are "
    "tests against the budget alone, sharper near it and stricter where windows share delta"
)


def _lacking_note(report: CheckReport) -> str:
    few = ", ".join(report.lacking)
    return few and f" Fewer than {report.decision.policy.k} users have a value of {few}."


def comparison_output(compared: Sequence[ComparedSet], *, population: int, k: int) -> Output:
    """Exposure before and after."""
    used = " or ".join(sorted({line.estimator for line in compared}, reverse=True))
    table = Table(
        title=f"Share of users in groups of fewer than {k}, in a population of {population:,}",
        caption=(
            f"`before` and `after`: {used} estimate, of the same kind in a line. `at least`, `at "
            "most`: limits of the difference; `more` and `less` are certain up to both deltas. "
            "What moved most comes first."
            + "".join(
                sample_note(line.before.sample, line.before.drawn) + drawn_note(line.after.drawn)
                for line in compared[:1]
            )
            + masked_note(api for line in compared for api in line.to_json()["masked"])
        ),
        columns=[
            *columns("text", "API set"),
            *columns("share", "before", "after"),
            *columns("right", "difference", spare=True),
            *columns("right", "at least", "at most", "exposed"),
        ],
        rows=[
            (
                ", ".join(line.before.apis),
                *line.estimates,
                *(
                    percent(share, 2, signed=True, away=away)
                    for share, away in zip(_differences(line), ("", DOWN, UP), strict=True)
                ),
                line.change,
            )
            for line in compared
        ],
    )
    return Output(tables=[table], rows=[line.to_json() for line in compared])


def _differences(line: ComparedSet) -> tuple[float, float, float]:
    """Return the difference of the estimates as they are shown, so that they add up; its limits."""
    before, after = (round(share, 4) for share in line.estimates)
    return after - before, line.lower, line.upper


def compared_decisions(lines: Sequence[ComparedDecision]) -> Output:
    """Return the sets on which two decisions differ."""
    changed = [line for line in lines if line.before != line.after]
    shown: list[Sequence[Cell]] = [
        (", ".join(line.apis), line.before, line.after) for line in changed[:_SHOWN_SETS]
    ]
    table = Table(
        title="Sets on which two decisions differ",
        caption=f"{len(lines) - len(changed):,} other listed sets get the same verdict.",
        columns=columns("text", "API set", "before", "after"),
        rows=shown + _more(len(changed)),
    )
    return Output(tables=[table], rows=[line.to_json() for line in lines])
