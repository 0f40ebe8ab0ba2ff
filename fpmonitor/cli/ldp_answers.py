"""Commands on randomised answers of private collection: what to ask, and what the answers tell."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fpmonitor.cli.options import DB, DEFAULT_DB, FORMAT, OUTPUT, QUIET
from fpmonitor.cli.output import emit, emit_rows, note, percent, plain, progress_line
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.private.randomised import estimate, plan_randomisation, randomised_ask
from fpmonitor.private.store import Store, read_counts
from fpmonitor.private.study import read_ask, read_study
from fpmonitor.private.table import count_reports, read_tokens
from fpmonitor.store.database import Database
from fpmonitor.store.snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.private.randomised import RandomisedApi
    from fpmonitor.private.study import Study

STUDY = Annotated[Path, typer.Option("--study", help="The study.", metavar="FILE")]


def ask(
    study: STUDY,
    accuracy: Annotated[
        float,
        typer.Option("--accuracy", help="Wanted accuracy of the exposure: half the limits' gap."),
    ],
    users: Annotated[
        int | None, typer.Option("--users", help="Users who will answer. [default: as observed]")
    ] = None,
    epoch: Annotated[int, typer.Option("--epoch", help="Which collection.", min=0)] = 1,
    db: DB = DEFAULT_DB,
    output_format: FORMAT = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the ask to this file.", metavar="FILE"),
    ] = None,
    quiet: QUIET = False,
) -> None:
    """Plan round 1 of a study with randomised answers, from a database without randomisation."""
    terms = read_study(study)
    held, observed = _held(db, terms)
    plans = {}
    rows = []
    with progress_line(quiet) as progress:
        for api in terms.apis:
            progress(api)
            found, plans[api] = plan_randomisation(
                api,
                held[api],
                study=terms,
                users=observed if users is None else users,
                accuracy=accuracy,
            )
            rows.append(asdict(found))
    emit_rows(rows, table=lambda: _plans_table(rows), wanted=output_format, output=None)
    chosen = {api: plan for api, plan in plans.items() if plan is not None}
    if not chosen:
        raise UndecidableError(
            "no mechanism is accurate enough for any API",
            hint="more --users, or a larger --accuracy",
        )
    spent = sum(plan.epsilon for plan in chosen.values())
    note(
        f"{len(chosen)} of {len(plans)} APIs are asked for; epsilon of a user: {spent:.3g} in all",
        quiet=quiet,
    )
    if output is not None:
        emit(randomised_ask(terms, chosen, epoch=epoch).to_bytes().decode(), output)


def _held(db: Path, study: Study) -> tuple[dict[str, dict[str, int]], int]:
    """Users by their tokens, for each API of the study; and all users."""
    with Database(db) as database:
        table = read_tokens(database, take_snapshot(database), study.apis)
    counts = count_reports(table, [(api,) for api in study.apis])
    return {
        api: {token: held for (token,), held in counts[(api,)].items()} for api in study.apis
    }, len(table)


def _plans_table(rows: Sequence[Mapping[str, object]]) -> Table:
    table = Table(title="How each API is randomised")
    for position, name in enumerate(("API", "values", "mechanism", "epsilon", "accuracy")):
        table.add_column(name, justify="right" if position else "left")
    for row in rows:
        members = (row[name] for name in ("api", "values", "mechanism", "epsilon", "accuracy"))
        table.add_row(*map(_cell, members))
    return table


def estimates(
    store: Annotated[
        Path,
        typer.Argument(help="The curator's store.", metavar="STORE", exists=True, dir_okay=False),
    ],
    study: STUDY,
    ask_file: Annotated[Path, typer.Option("--ask", help="The ask.", metavar="FILE")],
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Tell frequencies and exposure of each API from the randomised answers to an ask."""
    terms, question = read_study(study), read_ask(ask_file)
    if not question.randomise:
        raise InputError(
            f"{ask_file}: the ask randomises nothing", hint="see `fpmonitor private select`"
        )
    with Store(store, terms, "recipient") as opened:
        if question.id not in opened.asks:
            raise InputError(f"{store}: holds no answers to this ask")
        counts = read_counts(opened, question)
    found = [
        estimate(terms, question, api, counts[(api,)], delta=terms.delta / len(question.randomise))
        for api in sorted(question.randomise)
    ]
    emit_rows(
        [row for one in found for row in _rows(one)],
        table=lambda: _estimates_table(found, terms),
        wanted=output_format,
        output=output,
        document=[one.to_json() for one in found],
    )


def _rows(found: RandomisedApi) -> list[dict[str, object]]:
    """Give a row for each value, with the members of its API in front."""
    shared = {name: value for name, value in found.to_json().items() if name != "values"}
    return [
        {**shared, "token": one.token, "share": one.share, "least": one.lower, "most": one.upper}
        for one in found.values
    ]


def _estimates_table(found: Sequence[RandomisedApi], study: Study) -> Table:
    table = Table(
        title=f"Exposure among {study.population:,} users, k = {study.k}",
        caption=f"all limits hold together with probability {1 - study.delta:g}",
        caption_justify="left",
    )
    for position, name in enumerate(
        ("API", "mechanism", "epsilon", "users", "at least", "at most")
    ):
        table.add_column(name, justify="right" if position else "left")
    for one in found:
        table.add_row(
            plain(one.api), one.mechanism, f"{one.epsilon:.3g}", f"{one.users:,}",
            percent(one.lower), percent(one.upper),
        )  # fmt: skip
    return table


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else plain(str(value))
