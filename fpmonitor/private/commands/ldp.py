"""The group `ldp` with its command on private collection: ask for randomised answers."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.context import open_database
from fpmonitor.cli.ldp import app
from fpmonitor.cli.options import DB, DEFAULT_DB, FORMAT, QUIET, share
from fpmonitor.cli.output import emit, note, progress_line, show
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.ldp.matrix_file import NAMES_HINT, read_matrix
from fpmonitor.ldp.planner import ApiPlan, needs_no_answers
from fpmonitor.ldp.shuffling import shuffled_epsilon
from fpmonitor.policy import upward
from fpmonitor.private.commands import tables
from fpmonitor.private.commands.options import EPOCH, STUDY
from fpmonitor.private.matrix_ask import foresee_matrix, matrix_randomisation
from fpmonitor.private.randomised import (
    listed_values,
    plan_randomisation,
    randomised_ask,
)
from fpmonitor.private.study import Randomisation, Study
from fpmonitor.private.table import count_reports, read_tokens
from fpmonitor.private.tokens import is_token
from fpmonitor.store.snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fpmonitor.ldp.mechanisms import StochasticMatrix

    # File, matrix, and what its columns are; null where the file does not name them.
    _Given = tuple[Path, StochasticMatrix, tuple[str, ...] | None]

# Far below one in the users of any study that a shuffler serves.
_SHUFFLED_DELTA = 1e-9
# Nats: from 17.2 on 10^10 users hide nothing, and two APIs together may have more than 30.
_MOST_HIDDEN = 18.0


ACCURACY = Annotated[
    float | None,
    typer.Option(
        "--accuracy",
        help="Wanted accuracy of the exposure, half the width of its interval; plans every API "
        "without --matrix.",
    ),
]
BUDGET = Annotated[
    float | None,
    typer.Option(
        "--budget",
        help="Instead: exposure that the answers on each API are to prove.",
        parser=share,
        show_default="of the study",
        metavar="SHARE",
    ),
]
PAIRS = Annotated[
    bool,
    typer.Option(
        "--pairs",
        help="Request each two APIs together, which costs no more epsilon and shows more of sets; "
        "for a study with --largest-set 2 or more.",
    ),
]
MATRIX = Annotated[
    list[str] | None,
    typer.Option(
        "--matrix",
        help="Randomise an API with this matrix: a row per report, a column per value; the "
        "first line may name the values. May be repeated.",
        metavar="API=FILE.csv",
    ),
]
USERS = Annotated[
    int | None,
    typer.Option(
        "--users", help="Number of users who will answer.", show_default="the observed users", min=1
    ),
]
OUTPUT = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the request to this file.")
]


@app.command("ask")
def ask(
    study: STUDY,
    accuracy: ACCURACY = None,
    budget: BUDGET = None,
    pairs: PAIRS = False,
    matrix: MATRIX = None,
    users: USERS = None,
    epoch: EPOCH = 1,
    db: DB = DEFAULT_DB,
    output_format: FORMAT = None,
    output: OUTPUT = None,
    quiet: QUIET = False,
) -> None:
    """Plan round 1 of a study with randomised answers, from a database of plain observations.

    By default each API gets the least epsilon with which --users answers are expected to prove the
    budget of the study. Matrices that name their columns need no database.
    """
    terms = Study.read(study)
    if accuracy is not None and budget is not None:
        raise InputError("ldp ask: give --accuracy, or --budget")
    matrices = _matrices(matrix or [], terms)
    if accuracy is None and budget is None and not matrices:
        budget = terms.budget
    is_planned = accuracy is not None or budget is not None
    needs_users = is_planned or any(values is None for _, _, values in matrices.values())
    tokens_by_api, observed = _held(db, terms) if needs_users else ({}, 0)
    answering = observed if users is None else users
    plans: dict[str, tuple[ApiPlan, Randomisation | None]] = {
        api: _matrix_plan(api, given, tokens_by_api.get(api), terms, answering)
        for api, given in matrices.items()
    }
    left = sorted(set(terms.apis) - set(plans)) if is_planned else []
    planned = partial(
        plan_randomisation,
        study=terms,
        users=answering,
        accuracy=accuracy,
        budget=budget,
        joined=pairs,
    )
    with progress_line(quiet) as progress:
        plans |= _plans(planned, {api: tokens_by_api[api] for api in left}, progress)
    chosen = {api: plan for api, (_, plan) in plans.items() if plan is not None}
    question = randomised_ask(terms, chosen, epoch=epoch, size=1 + pairs) if chosen else None
    show(tables.plans([asdict(plans[api][0]) for api in sorted(plans)]), output_format, None)
    if question is None:
        raise UndecidableError(
            "no mechanism is accurate enough for any API",
            hint=f"use more --users, or a larger --{'budget' if accuracy is None else 'accuracy'}",
        )
    note(_spent(terms, chosen, question.sets, answering), quiet=quiet)
    within = accuracy if budget is None else budget / 2
    if within is not None and (trivial := _trivial(terms, chosen, within)):
        note(
            "so few values expose next to nobody, whatever epsilon is: answers show only how many "
            f"users have values that are not listed: {', '.join(trivial)}",
            quiet=quiet,
        )
    if output is not None:
        emit(question.to_bytes().decode(), output)


def _trivial(study: Study, chosen: Mapping[str, Randomisation], accuracy: float) -> list[str]:
    """Return the APIs of so few values that any answers reach the accuracy."""
    return [
        api
        for api, plan in chosen.items()
        if needs_no_answers(
            len(plan.values) - 1, k=study.k, population=study.population, accuracy=accuracy
        )
    ]


def _spent(
    study: Study,
    chosen: Mapping[str, Randomisation],
    sets: Sequence[tuple[str, ...]],
    users: int,
) -> str:
    """Say what the answers of a user tell: all of them, and the most telling one when mixed."""
    levels = [plan.level for plan in chosen.values()]
    answer = max(sum(chosen[api].level for api in apis) for apis in sets)
    named = f"{len(chosen)} of {len(study.apis)} APIs are requested; epsilon of a user: "
    if math.inf in levels:
        return named + "infinite, as a report excludes a value"
    is_hidden = users > 0 and answer <= _MOST_HIDDEN
    shuffled = shuffled_epsilon(answer, users, _SHUFFLED_DELTA) if is_hidden else math.inf
    hidden = ""
    if shuffled < answer:
        # Batches leave while users still answer: who knows when one did has a smaller crowd.
        batch = shuffled_epsilon(answer, study.minimum_batch, _SHUFFLED_DELTA)
        hidden = (
            f". The curator, without the shuffler's help: at most {upward(shuffled, 2)} an answer, "
            f"among {users:,} users (delta {_SHUFFLED_DELTA:.0e}); where it knows when a user "
            f"answered, {upward(batch, 2)}, among some {study.minimum_batch:,} of a batch"
        )
    # Answers that share a report are no mechanisms of their own: their levels do not add up.
    if hidden and len(sets) > 1 and max(map(len, sets)) > 1:
        hidden += f"; its {len(sets)} answers share reports, and are bounded by the sum alone"
    return f"{named}{upward(sum(levels), 3)} in all{hidden}"


def _plans(
    planned: Callable[[str, dict[str, int]], tuple[ApiPlan, Randomisation | None]],
    tokens_by_api: Mapping[str, dict[str, int]],
    progress: Callable[[str], None],
) -> dict[str, tuple[ApiPlan, Randomisation | None]]:
    """Plan each API; those of which too little is known are told, and the others requested."""
    plans = {}
    for api, tokens in tokens_by_api.items():
        progress(api)
        try:
            plans[api] = planned(api, tokens)
        except UndecidableError as error:
            note(str(error))
    return plans


def _matrices(options: Sequence[str], study: Study) -> dict[str, _Given]:
    """Matrices by the APIs that they are for."""
    found = {}
    for option in options:
        api, _, name = option.rpartition("=")
        if not api or not name:
            raise InputError(f"--matrix {option}: must name an API and a file", hint="API=FILE.csv")
        if api not in study.apis:
            raise UnknownNameError("API of the study in --matrix", api, study.apis)
        path = Path(name)
        matrix, values = read_matrix(path)
        if values is not None and not all(map(is_token, values)):
            raise InputError(f"mechanism {path}: the first line is not tokens", hint=NAMES_HINT)
        found[api] = path, matrix, values
    return found


def _matrix_plan(
    api: str, given: _Given, tokens: Mapping[str, int] | None, study: Study, users: int
) -> tuple[ApiPlan, Randomisation]:
    """Plan an API by its matrix; the columns are those of the file, or of the database."""
    path, matrix, named = given
    values = named or listed_values(api, tokens or {}, study=study)
    if len(values) != matrix.values:
        raise InputError(
            f"{path}: {matrix.values} columns for {len(values)} values of {api}, those "
            f"of k = {study.k} users or more and one for all others",
            hint="name the columns in a first line, as =24,=30,redacted",
        )
    plan = matrix_randomisation(matrix, values, study=study)
    return foresee_matrix(api, plan, study=study, tokens=tokens, users=users), plan


def _held(db: Path, study: Study) -> tuple[dict[str, dict[str, int]], int]:
    """Users by their tokens, for each API of the study; and all users."""
    with open_database(db) as database:
        table = read_tokens(database, take_snapshot(database), study.apis)
    counts = count_reports(table, [(api,) for api in study.apis])
    return {
        api: {token: users for (token,), users in counts[(api,)].items()} for api in study.apis
    }, len(table)
