"""Commands of `audit` on singling out: its baseline, and the attacks."""

from __future__ import annotations

import io
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer

from fpmonitor.cli.context import open_database
from fpmonitor.cli.output import Shown
from fpmonitor.cli.users import WHAT_IF, StoredUsers, declared_transforms
from fpmonitor.errors import InputError, PolicyError, reason_of
from fpmonitor.release import singling_out
from fpmonitor.release.examples import example_attacks
from fpmonitor.release.histogram import read_release
from fpmonitor.release.stored import attack_records, attack_release
from fpmonitor.render import store
from fpmonitor.safe_files import read_bytes
from fpmonitor.vocabulary import split_names

EXIT_FAILED = 1
EXIT_UNTESTED = 3
_EXITS = {
    "singles out": EXIT_FAILED,
    "gives values away": EXIT_FAILED,
    "could not be tested": EXIT_UNTESTED,
}

USERS = Annotated[int, typer.Option("--users", "-n", help="Number of users in the release.")]
WEIGHT = Annotated[
    float | None,
    typer.Option("--weight", "-w", help="Largest weight of a predicate.", show_default="1/(100 n)"),
]
CONTROL = Annotated[
    Path | None,
    typer.Option("--control", help="Database of other users, for the weights of predicates."),
]
TRIALS = Annotated[int, typer.Option("--trials", help="Number of runs of the attack.", min=1)]
SEED = Annotated[int, typer.Option("--seed", help="Seed of the random draws.", min=0)]


def baseline(
    *,
    users: USERS,
    weight: Annotated[float, typer.Option("--weight", "-w", help="Weight of a predicate.")],
    counts: Annotated[
        int | None, typer.Option(help="Also bound it after this many exact counts.", min=0)
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of a differentially private release, in nats.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta of the release.", show_default="0")
    ] = None,
    min_entropy: Annotated[
        float | None,
        typer.Option(
            help="Min-entropy of a record, in bits: which success predicates of such a weight can "
            "reach."
        ),
    ] = None,
    shown: Shown,
) -> None:
    """Compute the chance of singling out without a release, and its bound after a private one."""
    if delta is not None and epsilon is None:
        raise PolicyError("epsilon", "is missing", hint="--delta needs --epsilon")
    answer: dict[str, float | None] = {
        "baseline": singling_out.isolation_baseline(users, weight),
        "largest_up_to_weight": singling_out.best_baseline(users, weight),
        "largest_from_weight_on": singling_out.best_baseline_above(users, weight),
        "count_bound": None,
        "dp_bound": None,
        "dp_bound_from_weight_on": None,
        "reached": None,
    }
    if counts is not None:
        answer["count_bound"] = singling_out.count_bound(users, weight, counts=counts)
    if epsilon is not None:
        spent = delta or 0.0
        answer["dp_bound"] = singling_out.dp_bound(users, weight, epsilon=epsilon, delta=spent)
        answer["dp_bound_from_weight_on"] = singling_out.dp_bound_above(
            users, weight, epsilon=epsilon, delta=spent
        )
    if min_entropy is not None:
        answer["reached"] = singling_out.reached_baseline(users, weight, min_entropy)
    shown.show(store.members(answer))


def examples(*, trials: TRIALS = 1000, seed: SEED = 0, shown: Shown) -> None:
    """Run the attacks of the source paper on its example releases, beside their exact success."""
    rows = example_attacks(trials, rng=np.random.default_rng(seed))
    shown.show(store.listing(rows, title="Attacks on the examples of the paper"))


def pseudonymous(
    *,
    apis: Annotated[str, typer.Option(help="Columns of the table, separated by commas.")],
    weight: WEIGHT = None,
    control: CONTROL = None,
    what_if: WHAT_IF = None,
    users: StoredUsers,
    shown: Shown,
) -> None:
    """Attack a table of all records under pseudonyms: how many users it singles out at once."""
    with (
        open_database(users.db) as database,
        nullcontext() if control is None else open_database(control) as others,
    ):
        found = attack_records(
            database,
            split_names(apis),
            window=users.window,
            transforms=declared_transforms(what_if),
            weight=weight,
            control=others,
        )
    shown.show(store.members(asdict(found)))


def attack(
    *,
    release_file: Annotated[
        Path, typer.Option("--release", help="Table written by `fpmonitor release`.")
    ],
    users: StoredUsers,
    weight: WEIGHT = None,
    trials: TRIALS = 1000,
    control: CONTROL = None,
    distribution: Annotated[
        Path | None,
        typer.Option(
            help="One more distribution of a fresh record: a CSV or Parquet file with a column "
            "for each API and `weight`.",
            show_default="shares of the users, and independent APIs",
            metavar="FILE",
        ),
    ] = None,
    seed: SEED = 0,
    shown: Shown,
) -> int:
    """Attack a release, to test whether it singles out users more often than chance.

    Exit code 0: within chance, 1: it singles out or gives values away, 3: nothing could be tested.
    """
    made = read_release(release_file)
    with (
        open_database(users.db) as database,
        nullcontext() if control is None else open_database(control) as others,
    ):
        outcome = attack_release(
            database,
            made,
            window=users.window,
            weight=weight,
            trials=trials,
            seed=seed,
            control=others,
            distribution=None if distribution is None else _table(distribution),
        )
    shown.show(store.attacks(outcome))
    return _EXITS.get(outcome.verdict, 0)


def _table(path: Path) -> pl.DataFrame:
    hint = "a CSV or Parquet file; independent APIs are always among the distributions"
    content = io.BytesIO(read_bytes(path, "distribution", hint=hint))
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(content)
        # Values are texts: 007 is not 7.
        return pl.read_csv(content, infer_schema=False)
    except (ValueError, pl.exceptions.PolarsError) as error:
        reason = reason_of(error)
        raise InputError(f"distribution {path}: not readable ({reason})", hint=hint) from error
