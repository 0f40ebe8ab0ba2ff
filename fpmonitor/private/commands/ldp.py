"""The group `ldp` with its commands on private collection: ask for randomised answers, estimate."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.context import open_database
from fpmonitor.cli.ldp import app
from fpmonitor.cli.options import DB, DEFAULT_DB, FORMAT, QUIET
from fpmonitor.cli.output import Shown, emit, note, progress_line, show
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.ldp.matrix_file import NAMES_HINT, read_matrix
from fpmonitor.ldp.planner import ApiPlan, needs_no_answers
from fpmonitor.ldp.shuffling import shuffled_epsilon
from fpmonitor.private.commands import tables
from fpmonitor.private.commands.options import ASK, CURATOR_FOLDER, EPOCH, STUDY, folder_of
from fpmonitor.private.matrix_ask import foresee_matrix, matrix_randomisation
from fpmonitor.private.randomised import (
    RandomisedApi,
    estimate,
    listed_values,
    plan_randomisation,
    randomised_ask,
)
from fpmonitor.private.store import RoleStore, read_counts
from fpmonitor.private.study import CollectionRequest, Randomisation, Study
from fpmonitor.private.table import count_reports, read_tokens
from fpmonitor.private.tokens import is_token
from fpmonitor.render.output import Output
from fpmonitor.safe_files import untyped
from fpmonitor.store.snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.ldp.mechanisms import StochasticMatrix

# Far below one in the users of any study that a shuffler serves.
_SHUFFLED_DELTA = 1e-9


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix that was given for an API; `values` are null where the file does not name them."""

    path: Path
    matrix: StochasticMatrix
    values: tuple[str, ...] | None


ACCURACY = Annotated[
    float | None,
    typer.Option(
        "--accuracy",
        help="Wanted accuracy of the exposure, half the width of its interval; plans every API "
        "without --matrix.",
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
    matrix: MATRIX = None,
    users: USERS = None,
    epoch: EPOCH = 1,
    db: DB = DEFAULT_DB,
    output_format: FORMAT = None,
    output: OUTPUT = None,
    quiet: QUIET = False,
) -> None:
    """Plan round 1 of a study with randomised answers, from a database of plain observations.

    Matrices that name their columns need no database.
    """
    terms = Study.read(study)
    matrices = _matrices(matrix or [], terms)
    if accuracy is None and not matrices:
        raise InputError("ldp ask: give --accuracy, or --matrix for some APIs")
    is_named = all(one.values is not None for one in matrices.values())
    tokens_by_api, observed = ({}, 0) if accuracy is None and is_named else _held(db, terms)
    answering = observed if users is None else users
    plans: dict[str, tuple[ApiPlan, Randomisation | None]] = {
        api: _matrix_plan(api, one, tokens_by_api.get(api), terms, answering)
        for api, one in matrices.items()
    }
    if accuracy is not None:
        with progress_line(quiet) as progress:
            for api in sorted(set(terms.apis) - set(plans)):
                progress(api)
                plans[api] = plan_randomisation(
                    api, tokens_by_api[api], study=terms, users=answering, accuracy=accuracy
                )
    chosen = {api: plan for api, (_, plan) in plans.items() if plan is not None}
    question = randomised_ask(terms, chosen, epoch=epoch) if chosen else None
    rows = [asdict(plans[api][0]) for api in sorted(plans)]
    show(tables.plans(rows), output_format, None)
    if question is None:
        raise UndecidableError(
            "no mechanism is accurate enough for any API",
            hint="use more --users, or a larger --accuracy",
        )
    note(_spent(terms, chosen, answering), quiet=quiet)
    trivial = [
        api
        for api, plan in chosen.items()
        if accuracy is not None
        and needs_no_answers(
            len(plan.values) - 1, k=terms.k, population=terms.population, accuracy=accuracy
        )
    ]
    if trivial:
        named = ", ".join(trivial)
        note(
            "so few values expose next to nobody, whatever epsilon is: answers show only how many "
            f"users have values that are not listed: {named}",
            quiet=quiet,
        )
    if output is not None:
        emit(question.to_bytes().decode(), output)


def _spent(study: Study, chosen: Mapping[str, Randomisation], users: int) -> str:
    levels = [plan.level for plan in chosen.values()]
    named = f"{len(chosen)} of {len(study.apis)} APIs are requested; epsilon of a user: "
    if math.inf in levels:
        return named + "infinite, as a report excludes a value"
    shuffled = shuffled_epsilon(max(levels), users, _SHUFFLED_DELTA) if users else math.inf
    hidden = (
        ""
        if shuffled >= max(levels)
        else f". The curator, without the shuffler's help: at most {shuffled:.2g} an API, among "
        f"{users:,} users (delta {_SHUFFLED_DELTA:.0e})"
    )
    return f"{named}{sum(levels):.3g} in all{hidden}"


def _matrices(options: Sequence[str], study: Study) -> dict[str, _Matrix]:
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
        found[api] = _Matrix(path, matrix, values)
    return found


def _matrix_plan(
    api: str, given: _Matrix, tokens: Mapping[str, int] | None, study: Study, users: int
) -> tuple[ApiPlan, Randomisation]:
    """Plan an API by its matrix; the columns are those of the file, or of the database."""
    values = given.values or listed_values(api, tokens or {}, study=study)
    if len(values) != given.matrix.values:
        raise InputError(
            f"{given.path}: {given.matrix.values} columns for {len(values)} values of {api}, those "
            f"of k = {study.k} users or more and one for all others",
            hint="name the columns in a first line, as =24,=30,redacted",
        )
    plan = matrix_randomisation(given.matrix, values, study=study)
    return foresee_matrix(api, plan, study=study, tokens=tokens, users=users), plan


def _held(db: Path, study: Study) -> tuple[dict[str, dict[str, int]], int]:
    """Users by their tokens, for each API of the study; and all users."""
    with open_database(db) as database:
        table = read_tokens(database, take_snapshot(database), study.apis)
    counts = count_reports(table, [(api,) for api in study.apis])
    return {
        api: {token: users for (token,), users in counts[(api,)].items()} for api in study.apis
    }, len(table)


@app.command("estimate")
def estimates(*, folder: CURATOR_FOLDER, ask_file: ASK, shown: Shown) -> None:
    """Estimate the frequencies and the exposure of each API from randomised answers."""
    role, question = folder_of(folder, "curator"), CollectionRequest.read(ask_file)
    terms = role.study
    if not question.randomise:
        raise InputError(
            f"{ask_file}: the request randomises nothing", hint="see `fpmonitor private select`"
        )
    with RoleStore(role.store, terms, "curator") as opened:
        if question.id not in opened.asks:
            raise InputError(f"{role.store}: holds no answers to this request")
        counts = read_counts(opened, question)
    found = [
        estimate(terms, question, api, counts[(api,)], delta=terms.delta / len(question.randomise))
        for api in sorted(question.randomise)
    ]
    answer = Output(
        tables=[tables.estimates_table(found, terms)],
        rows=[row for one in found for row in _rows(one)],
        document=untyped(found),
    )
    shown.show(answer)


def _rows(found: RandomisedApi) -> list[dict[str, object]]:
    """Return a row for each value, with the members of its API in front."""
    shared = {name: value for name, value in asdict(found).items() if name != "values"}
    return [
        {**shared, "token": one.token, "share": one.share, "least": one.lower, "most": one.upper}
        for one in found.values
    ]
