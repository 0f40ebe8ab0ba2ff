"""Commands on local differential privacy; `private.commands.ldp` adds those on collection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fpmonitor.cli.options import DELTA, QUIET, Exposure, share
from fpmonitor.cli.output import Shown, emit, note, progress_line
from fpmonitor.cli.users import StoredUsers
from fpmonitor.errors import PolicyError, UnknownNameError
from fpmonitor.ldp.matrix_file import read_matrix, read_points
from fpmonitor.ldp.mechanisms import (
    LocalHash,
    Mechanism,
    RandomisedResponse,
    StochasticMatrix,
    UnaryEncoding,
)
from fpmonitor.ldp.optimal import optimal_matrix
from fpmonitor.ldp.optimal_users import best_for_users
from fpmonitor.ldp.planner import (
    OF_SETS,
    PROTOCOLS,
    TRADE_OFF_EPSILONS,
    ApiPlan,
    ComparedMechanism,
    compare_at_equal_terms,
    compare_protocols_of_sets,
    fewest_users,
    most_telling,
    needs_no_answers,
    participations_of,
    plan_api,
    trade_off_curves,
)
from fpmonitor.ldp.priors import DirichletPrior, prior_of
from fpmonitor.ldp.reports import estimate_values, read_reports
from fpmonitor.ldp.summary import Metrics, metrics_of, metrics_of_points
from fpmonitor.policy import per_cent, upward
from fpmonitor.render import store
from fpmonitor.render.figures import of_trade_offs
from fpmonitor.vocabulary import split_names

app = typer.Typer()

PRIOR = Annotated[
    str, typer.Option("--prior", help="Prior of the distribution: jeffreys, or dirichlet:A,B,...")
]
VALUES = Annotated[int | None, typer.Option("--values", help="Number of values.")]
EPSILON = Annotated[float | None, typer.Option("--epsilon", help="LDP level, nats.")]
MATRIX = Annotated[
    Path | None, typer.Option(help="Write the matrix to this file.", metavar="FILE.csv")
]
SEED = Annotated[int, typer.Option("--seed", help="Seed of Monte Carlo integrals.", min=0)]


@app.command("metrics")
def metrics(
    *,
    mechanism: Annotated[
        str, typer.Option(help="grr, rappor, oue, blh, lh, ss, hr, or a CSV file with a matrix.")
    ],
    values: VALUES = None,
    epsilon: EPSILON = None,
    hash_range: Annotated[
        int | None, typer.Option(help="Number of hash values of lh.", show_default="e^epsilon + 1")
    ] = None,
    prior: Annotated[
        str,
        typer.Option(
            help="Prior of the distribution: jeffreys, dirichlet:A,B,..., or a CSV file with a "
            "line for each possible distribution: its weight, and the probability of each value.",
            metavar="jeffreys|dirichlet:A,B,...|FILE.csv",
        ),
    ] = "jeffreys",
    users: Annotated[
        int | None, typer.Option(help="Add the utilities for this number of users.")
    ] = None,
    matrix: MATRIX = None,
    seed: SEED = 0,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """Show the privacy and the utility of a mechanism, in nats and shares."""
    made = _mechanism(mechanism, values, epsilon, hash_range)
    if matrix is not None:
        _write_matrix(made, matrix)
    if prior.endswith(".csv"):
        found = metrics_of_points(made, read_points(Path(prior)), users=users)
    else:
        found = metrics_of(
            made, prior_of(_alpha(prior), made.values), users=users, rng=np.random.default_rng(seed)
        )
    _tell_errors(found, quiet=quiet)
    shown.show(store.metrics_output(found.to_json()))


@app.command("reports")
def reports(
    *,
    file: Annotated[
        Path,
        typer.Argument(help="CSV: the number or the bits of a report, and how many users sent it."),
    ],
    mechanism: Annotated[
        str, typer.Option(help="grr, rappor, oue, blh, hr, or a CSV file with a matrix.")
    ],
    values: VALUES = None,
    epsilon: EPSILON = None,
    prior: PRIOR = "jeffreys",
    delta: DELTA = 0.05,
    draws: Annotated[int, typer.Option(help="Draws from the posterior; 0 for none.", min=0)] = 1000,
    seed: SEED = 0,
    shown: Shown,
) -> None:
    """Estimate the share of each value from randomised reports that were collected elsewhere."""
    made = _mechanism(mechanism, values, epsilon, None)
    if not isinstance(made, RandomisedResponse | UnaryEncoding | StochasticMatrix):
        raise PolicyError("mechanism", f"{mechanism}: its reports cannot be told in a line of CSV")
    found = estimate_values(
        made,
        prior_of(_alpha(prior), made.values),
        read_reports(file, made),
        delta=delta,
        draws=draws,
        rng=np.random.default_rng(seed),
    )
    shown.show(store.listing(found, digits=5))


def _tell_errors(found: Metrics, *, quiet: bool) -> None:
    """Note on stderr what is missing, and the standard errors of Monte Carlo."""
    if found.obstacle:
        note(f"no utilities for this number of users: {found.obstacle}", quiet=quiet)
    if math.isnan(found.tally_utility_error):
        note("tally_utility: in the Gaussian limit of many users", quiet=quiet)
    elif found.tally_utility_error:
        error = found.tally_utility_error
        note(f"tally_utility: standard error {error:.2g} beyond the distribution", quiet=quiet)
    for name in ("asymptotic_utility", "digit_utility"):
        error = getattr(found, f"{name}_error")
        if error:
            note(f"{name}: by Monte Carlo, standard error {error:.2g} nats", quiet=quiet)


def _mechanism(
    name: str, values: int | None, epsilon: float | None, hash_range: int | None
) -> Mechanism:
    """Return the mechanism that the options name; refuse options that make no sense with it."""
    if hash_range is not None and name != "lh":
        raise PolicyError("hash-range", "is for --mechanism lh only")
    if name.endswith(".csv"):
        return _matrix(Path(name), values, epsilon)
    if name not in {*PROTOCOLS, *OF_SETS, "lh"}:
        raise UnknownNameError("mechanism", name, [*PROTOCOLS, *OF_SETS, "lh", "FILE.csv"])
    if values is None:
        raise PolicyError("values", f"--mechanism {name} needs the number of values")
    if epsilon is None:
        raise PolicyError("epsilon", f"--mechanism {name} needs an LDP level")
    if name == "lh":
        return LocalHash(values, epsilon, hash_range or 0)
    return (PROTOCOLS | OF_SETS)[name](values, epsilon)


def _matrix(path: Path, values: int | None, epsilon: float | None) -> StochasticMatrix:
    """Return the matrix of a CSV file: rows are reports, columns are values."""
    made, _ = read_matrix(path)
    if values is not None and values != made.values:
        raise PolicyError("values", f"{path} has {made.values} columns, not {values}")
    if epsilon is not None:
        raise PolicyError("epsilon", "a matrix has its own LDP level")
    return made


def _alpha(prior: str) -> list[float] | None:
    """Return the parameters of the prior that an option names, None for Jeffreys'."""
    if prior == "jeffreys":
        return None
    kind, _, parameters = prior.partition(":")
    unreadable = PolicyError(
        "prior", f"cannot read {prior!r}", hint="jeffreys, or for example dirichlet:2,2,2"
    )
    if kind != "dirichlet":
        raise unreadable
    try:
        return [float(parameter) for parameter in parameters.split(",")]
    except ValueError as error:
        raise unreadable from error


@app.command("compare")
def compare_mechanisms(
    *,
    values: Annotated[int, typer.Option(help="Number of values.")],
    users: Annotated[int, typer.Option(help="Number of users who report.")],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="LDP level of all mechanisms: equal worst-case privacy.", show_default="1"
        ),
    ] = None,
    privacy: Annotated[
        float | None, typer.Option(help="Average privacy of all mechanisms, a share.")
    ] = None,
    utility: Annotated[
        float | None, typer.Option(help="Effective participation of all mechanisms, a share.")
    ] = None,
    prior: PRIOR = "jeffreys",
    seed: SEED = 0,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw utility against average privacy to this file.", metavar="FILE.svg"),
    ] = None,
    shown: Shown,
) -> None:
    """Compare mechanisms at equal worst-case privacy, average privacy or utility."""
    if epsilon is privacy is utility is None:
        epsilon = 1.0
    alpha = _alpha(prior)
    rows = compare_at_equal_terms(
        values, users, epsilon=epsilon, privacy=privacy, utility=utility, alpha=alpha, seed=seed
    )
    if epsilon is not None:
        rows += compare_protocols_of_sets(values, users, epsilon, alpha=alpha, seed=seed)
    if plot is not None:
        curves = trade_off_curves(prior_of(alpha, values), TRADE_OFF_EPSILONS, seed=seed)
        emit(of_trade_offs(curves, values).file, plot)
    _warn_of_levels(rows)
    listed = [asdict(row) for row in rows]
    title = f"{values} values, {users:,} users"
    spare = (
        *("hash_range", "worst_case_privacy", "asymptotic_utility", "asymptotic_utility_error"),
        "participation",
    )
    shown.show(store.listing(listed, title=title, digits=5, spare=spare))


def _warn_of_levels(rows: Sequence[ComparedMechanism]) -> None:
    """Note on stderr that the best mechanism promises least in the worst case, where it does."""
    known = [row for row in rows if row.epsilon is not None and row.participation is not None]
    if not known:
        return
    best = max(known, key=lambda row: row.participation or 0.0)
    level, least = best.epsilon or 0.0, min(row.epsilon or 0.0 for row in known)
    # Levels that are found by search differ by rounding.
    if level > 1.001 * least:
        note(
            f"{best.mechanism} is the most informative here, with epsilon {upward(level, 3)}; "
            f"another one needs {upward(least, 3)} only. Users are promised epsilon: compare with "
            "--epsilon, too"
        )


@app.command("optimal")
def optimal(
    *,
    values: Annotated[
        int,
        typer.Option(help="Number of values: at most 12, or 6 where the prior distinguishes them."),
    ],
    epsilon: EPSILON = None,
    privacy: Annotated[
        float | None, typer.Option(help="Instead of --epsilon: average privacy of all, a share.")
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="Find the best for this number of users, by U^distr.")
    ] = None,
    prior: PRIOR = "jeffreys",
    matrix: MATRIX = None,
    seed: SEED = 0,
    shown: Shown,
) -> None:
    """Find the matrix that tells most at equal privacy, and compare it with the protocols."""
    alpha = _alpha(prior)
    of_values = prior_of(alpha, values)
    rng = np.random.default_rng(seed)
    of_many, weights = optimal_matrix(of_values, epsilon, privacy=privacy, rng=rng)
    protocols: dict[str, Mechanism] = {}
    for row in compare_at_equal_terms(
        values, 1, epsilon=epsilon, privacy=privacy, alpha=alpha, seed=seed
    ):
        if row.mechanism in PROTOCOLS and row.epsilon is not None:
            protocols[row.mechanism] = PROTOCOLS[row.mechanism](values, row.epsilon)
    made: dict[str, Mechanism] = {"best": of_many} | protocols
    found = None
    if users is not None:
        others = [of_many, *protocols.values()]
        found = best_for_users(of_values, users, epsilon, privacy=privacy, others=others, rng=rng)
        if found is None:
            note(f"best: for many users; {users} of {values} values are too many to search")
        else:
            made = {"best": found.matrix, "many users": of_many} | protocols
    if matrix is not None:
        _write_matrix(made["best"], matrix)
    rows = _compared(made, of_values, users, seed)
    sizes = {size: float(weight) for size, weight in enumerate(weights, start=1) if weight}
    title = "Sets of " + ", ".join(f"{size} ({weight:.3g})" for size, weight in sizes.items())
    document: dict[str, object] = {"sizes": sizes, "mechanisms": rows}
    if found is not None:
        document |= {"reports": found.reports, "proved": found.proved}
        how = "proved" if found.proved else f"of those found with up to {found.reports} reports"
        title = f"Best for {users} users ({how}), best for many users, protocols"
    shown.show(store.listing(rows, title=title, digits=5, document=document))


def _write_matrix(mechanism: Mechanism, path: Path) -> None:
    lines = (",".join(map(repr, row)) + "\n" for row in mechanism.matrix().tolist())
    emit("".join(lines), path)


def _compared(
    made: dict[str, Mechanism], prior: DirichletPrior, users: int | None, seed: int
) -> list[dict[str, object]]:
    """Return a row for each mechanism; its distribution utility where users are given."""
    rows: list[dict[str, object]] = []
    for name, mechanism in made.items():
        # The same draws for each, so that rows differ by their mechanisms alone.
        found = metrics_of(mechanism, prior, users=users, rng=np.random.default_rng(seed))
        rows.append(
            {
                "mechanism": name,
                "participation": found.participation,
                "asymptotic_utility": found.asymptotic_utility,
                "average_privacy": found.average_privacy,
                "ldp": found.ldp,
            }
            | ({} if users is None else {"distribution_utility": found.distribution_utility})
        )
    return rows


_OF_USERS = ("api", "values", "mechanism", "epsilon", "hash_range", "users")


ACCURACY = Annotated[
    float | None,
    typer.Option(
        "--accuracy", help="Wanted accuracy of the exposure: half the width of its interval."
    ),
]
PLAN_COLLECTION_EPSILON = Annotated[
    float | None,
    typer.Option("--epsilon", help="Instead: LDP level of the most informative mechanism."),
]
BUDGET = Annotated[
    float | None,
    typer.Option(
        "--budget",
        help="With --epsilon: show how many users prove the API within this exposure.",
        parser=share,
        metavar="SHARE",
    ),
]
USERS = Annotated[
    int | None,
    typer.Option(
        "--users", help="Number of users who will report.", show_default="the observed users"
    ),
]
CANDIDATES = Annotated[
    str | None, typer.Option("--candidates", help="Plan for these APIs.", show_default="all")
]


@app.command("plan")
def plan_collection(
    *,
    accuracy: ACCURACY = None,
    epsilon: PLAN_COLLECTION_EPSILON = None,
    budget: BUDGET = None,
    users: USERS = None,
    question_options: Exposure,
    candidates: CANDIDATES = None,
    stored: StoredUsers,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """Choose the mechanism of each API, for a wanted accuracy of its exposure or an LDP level."""
    if (accuracy is None) == (epsilon is None):
        raise PolicyError("accuracy", "give one of --accuracy and --epsilon")
    if budget is not None and epsilon is None:
        raise PolicyError("budget", "needs --epsilon")
    with stored.open() as monitor, progress_line(quiet) as progress:
        observed = monitor.population()
        names = (
            observed.publishable_apis(question_options.k)
            if candidates is None
            else observed.named(split_names(candidates))
        )
        population = (
            observed.users if question_options.population is None else question_options.population
        )
        plans: list[ApiPlan] = []
        for api in names:
            progress(api)
            spectrum = observed.spectrum([api])
            if epsilon is not None and budget is not None:
                found = fewest_users(
                    api,
                    spectrum,
                    epsilon=epsilon,
                    k=question_options.k,
                    population=population,
                    budget=budget,
                    delta=question_options.delta,
                )
            elif accuracy is None:
                found = most_telling(api, spectrum.support, epsilon or 0.0)
            else:
                found = plan_api(
                    api,
                    spectrum,
                    users=observed.users if users is None else users,
                    k=question_options.k,
                    population=population,
                    accuracy=accuracy,
                    delta=question_options.delta,
                )
            plans.append(found)
    if accuracy is not None:
        _note_trivial(plans, question_options.k, population, accuracy, quiet=quiet)
    rows = [_planned(plan, of_users=budget is not None) for plan in plans]
    title = "Mechanisms for the wanted accuracy" if epsilon is None else "Most informative ones"
    if budget is not None:
        title = f"Users whose answers prove an exposure of at most {per_cent(budget)} %"
    shown.show(store.listing(rows, title=title, digits=5))


def _planned(plan: ApiPlan, *, of_users: bool) -> dict[str, Any]:
    """Return the row of a plan: for a number of users, or with what taking part would change."""
    row = asdict(plan)
    if of_users:
        return {name: row[name] for name in _OF_USERS}
    row.pop("users")
    return row | participations_of(plan)


def _note_trivial(
    plans: Sequence[ApiPlan], k: int, population: int, accuracy: float, *, quiet: bool
) -> None:
    """Note on stderr of which APIs nobody need answer."""
    trivial = [
        plan.api
        for plan in plans
        if plan.epsilon
        and needs_no_answers(plan.values, k=k, population=population, accuracy=accuracy)
    ]
    if trivial:
        named = ", ".join(trivial)
        note(f"any epsilon will do, as so few values expose next to nobody: {named}", quiet=quiet)
