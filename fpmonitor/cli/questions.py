"""Commands that ask: exposure, decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fpmonitor.answers.counted import counted_exposures
from fpmonitor.answers.decide import decide_sets
from fpmonitor.answers.demand import weigh_by_demand
from fpmonitor.answers.exposure import report_exposures
from fpmonitor.answers.trust import Knowledge
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.options import (
    COUNTER,
    DB,
    DEFAULT_DB,
    DELTA,
    ENGINE,
    FORMAT,
    MISSING,
    OUTPUT,
    POPULATION,
    QUIET,
    SINCE,
    SNAPSHOT,
    UNTIL,
    K,
    OutputFormat,
    split_names,
)
from fpmonitor.cli.output import (
    note,
    progress_line,
    show,
)
from fpmonitor.cli.readers import DEFAULT_LIMIT, QUERY_LIMIT, READER, ask
from fpmonitor.cli.views import (
    DROP_AUTOMATION,
    SOURCE,
    VOLATILE,
    WHAT_IF,
    note_coverage,
    note_view,
    view_of,
)
from fpmonitor.decide.decision import Setting, read_decision
from fpmonitor.errors import InputError
from fpmonitor.estimate.certificate import averages_by_size
from fpmonitor.question import Question
from fpmonitor.render import answers, decisions
from fpmonitor.render.numbers import percent
from fpmonitor.safe_files import read_toml
from fpmonitor.store.demand import read_sites
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.decide.decision import Decision
    from fpmonitor.monitor import Monitor
    from fpmonitor.policy import Policy
    from fpmonitor.population.population import Population

EXIT_LOST = 3  # as where a check cannot tell
_MAX_WEIGHT = 1e15

GIVEN = Annotated[
    str,
    typer.Option(
        "--given",
        help="APIs that cannot be hidden: also show the exposure within each cohort of their"
        " values.",
    ),
]
BOUNDS = Annotated[
    bool, typer.Option("--bounds", help="Compare the certificate with the published bounds.")
]
SUPPORT = Annotated[
    list[int] | None,
    typer.Option(
        "--support",
        help="Number of possible values, if known before looking at the data; repeat for each set.",
    ),
]
TRUST = Annotated[
    Knowledge | None,
    typer.Option(
        "--trust",
        help="Price of trust: what can be guaranteed from single APIs, pairs or joint data, "
        "up to this level.",
    ),
]
ENTROPIES = Annotated[
    bool, typer.Option("--entropies", help="Show all measures and estimators of entropy.")
]


def exposure(
    apis: Annotated[
        list[str],
        typer.Option(
            "--apis", help="APIs read together, separated by commas; repeat for further sets."
        ),
    ],
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    missing: MISSING = "value",
    given: GIVEN = "",
    bounds: BOUNDS = False,
    support: SUPPORT = None,
    trust: TRUST = None,
    entropies: ENTROPIES = False,
    volatile: VOLATILE = "shared",
    drop_automation: DROP_AUTOMATION = False,
    what_if: WHAT_IF = None,
    source: SOURCE = None,
    reader: READER = None,
    query_limit: QUERY_LIMIT = DEFAULT_LIMIT,
    snapshot: SNAPSHOT = None,
    engine: ENGINE = None,
    db: DB = DEFAULT_DB,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Estimate the exposure of API sets, with finite-sample confidence limits."""
    view = view_of(volatile, drop_automation, what_if)
    with open_monitor(
        db, snapshot=snapshot, engine=engine, window=Window(since, until, source), view=view
    ) as monitor:
        users = monitor.population()
        note_view(users, k)
        question = Question(k, population, delta, missing)
        sets = [split_names(names) for names in apis]
        named = {api for names in sets for api in names}
        note_coverage(users.coverage(named, k), k, missing=missing)
        reports = report_exposures(
            users,
            question,
            sets,
            given=split_names(given),
            bounds=bounds,
            supports=support or (),
            trust=trust,
            entropies=entropies,
        )
        ask(monitor, reader, query_limit, counted_exposures(reports, question))
    show(answers.exposures(reports), output_format, output)


def decide(
    budget: Annotated[
        float, typer.Option("--budget", help="Largest tolerated exposure, as a share of the users.")
    ],
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    candidates: Annotated[
        str | None,
        typer.Option(
            "--candidates", help="APIs to decide on, separated by commas.", show_default="all"
        ),
    ] = None,
    setting: Annotated[
        Setting,
        typer.Option(
            "--setting",
            help="Certify the exposure of a population, or count the observed users only.",
        ),
    ] = "population",
    realised: Annotated[
        bool,
        typer.Option(
            "--realised",
            help="Keep the share of exposed users of the population itself within the budget, not "
            "only its average over populations; allows less.",
        ),
    ] = False,
    missing: MISSING = "value",
    must: Annotated[str, typer.Option("--must", help="APIs that every set must contain.")] = "",
    never: Annotated[str, typer.Option("--never", help="APIs that no set may contain.")] = "",
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            help="TOML file with the utility of each API; or `demand`, the number of sites that "
            "read it.",
            metavar="FILE|demand",
        ),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", help="Seconds after which the search stops.")
    ] = None,
    forecast: Annotated[
        bool,
        typer.Option(
            "--forecast", help="Estimate how many users would decide each undecided set (slow)."
        ),
    ] = False,
    max_size: Annotated[
        int | None, typer.Option("--max-size", help="Only search sets of at most this many APIs.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Continue the search of this decision, which was stopped early.",
            metavar="DECISION.json",
        ),
    ] = None,
    engine: COUNTER = "auto",
    volatile: VOLATILE = "shared",
    drop_automation: DROP_AUTOMATION = False,
    what_if: WHAT_IF = None,
    source: SOURCE = None,
    snapshot: SNAPSHOT = None,
    db: DB = DEFAULT_DB,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
    quiet: QUIET = False,
) -> int:
    """Classify API sets as allowed, blocked or undecided for an exposure budget."""
    known = None if resume is None else read_decision(resume)
    view = view_of(volatile, drop_automation, what_if)
    with (
        open_monitor(
            db, snapshot=snapshot, engine=engine, window=Window(since, until, source), view=view
        ) as monitor,
        progress_line(quiet) as progress,
    ):
        progress("preparing")
        names = None if candidates is None else split_names(candidates)
        users = monitor.population()
        if not quiet:
            note_view(users, k)
        decision = decide_sets(
            users,
            Question(k, population, delta, missing),
            budget=budget,
            **_counting(monitor, engine),
            candidates=names,
            setting=setting,
            realised=realised,
            weights=_weights(monitor, users, weights),
            must=split_names(must),
            never=split_names(never),
            time_limit=time_limit,
            max_size=max_size,
            forecast=forecast,
            progress=lambda evaluated: progress(f"{evaluated:,} sets evaluated"),
            known=known,
        )
        note_coverage(decision.coverage or {}, k, missing=missing, quiet=quiet)
    if realised:
        _note_price(decision.policy, quiet=quiet)
    emit_decision(decision, output_format, output, quiet=quiet)
    if not monitor.lost:
        return 0
    note("the engine was lost: the decision holds what was proven; go on with --resume")
    return EXIT_LOST


def _note_price(policy: Policy, *, quiet: bool) -> None:
    """Note on stderr what it costs to keep a realised share within the budget."""
    averages = averages_by_size(
        k=policy.k,
        population=policy.population,
        budget=policy.budget,
        delta=policy.delta or 1,
        candidates=len(policy.candidates),
    )
    note(
        f"--realised: on average at most {percent(averages[1], 2)} of the users may be exposed by "
        f"one API, and {percent(averages[-1], 2)} by a larger set, so that it is at most "
        f"{percent(policy.budget, 2)} in a population of {policy.population:,}",
        quiet=quiet,
    )


def _counting(monitor: Monitor, engine: str) -> dict[str, Any]:
    """Arguments of `decide_sets` that say what counts, and what a decision notes of it."""
    chosen = "auto" if engine.startswith("sc://") else engine
    return {"engine": chosen, "engine_name": monitor.counter}


def emit_decision(
    decision: Decision, output_format: OutputFormat | None, output: Path | None, *, quiet: bool
) -> None:
    """Write a decision in the chosen format; if it goes to a file, also show it on stderr."""
    shown = decisions.decision(decision)
    show(shown, output_format, output)
    if output is not None:
        note(f"{shown.text('table', to_file=True)}written to {output}", quiet=quiet)


def _weights(
    monitor: Monitor, users: Population, weights: str | None
) -> Mapping[str, float] | None:
    if weights != "demand":
        return None if weights is None else read_weights(Path(weights))
    return weigh_by_demand(users, read_sites(monitor.database))


def read_weights(path: Path) -> Mapping[str, float]:
    """Read the utility of each API from a TOML file."""
    hint = 'one line per API, for example "Navigator.language" = 2'
    content = read_toml(path, "weights", hint=hint)
    for api, weight in content.items():
        if type(weight) not in {int, float} or not 0 <= weight <= _MAX_WEIGHT:
            raise InputError(
                f"weights {path}: the weight of {api!r} is not a number from 0 to {_MAX_WEIGHT:g}",
                hint=hint,
            )
    return {api: float(weight) for api, weight in content.items()}
