"""Visits as coded users, on a distributed engine: dictionary, codes, latest values, words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from fpmonitor.engine.folder_ingest import visit_column
from fpmonitor.store.sql import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.engine.portable import SqlEngine

_APIS_A_STATEMENT = 40  # each is a join, and engines plan joins slowly when there are many
_HALF = 4294967296


def write_coded_users(engine: SqlEngine, apis: Sequence[str], path: str) -> dict[str, str]:
    """Write the users of the view `visits`: `dictionary/`, `codes*/` and `users/` below a path.

    Parameters
    ----------
    engine
        Its session holds the view.
    apis
        All APIs of the visits, sorted.
    path
        Folder of the snapshot, as the engine names it.

    Returns
    -------
    API -> its column in `users/`, where the two halves of the word of the user stand as well.
    """
    columns = {api: f"a{number}" for number, api in enumerate(apis)}
    _write_dictionary(engine, apis, f"{path}/dictionary")
    _write_codes(engine, apis, path)
    names = list(columns.values())
    visits, users = engine.rows("remote/count_visits").row(0)
    if visits == users:
        latest = "coded_visit"
    else:
        latest = "latest"
        newest = ", ".join(
            f"(max(CASE WHEN {name} <> 0 THEN place * {_HALF} + {name} ELSE 0 END) "
            f"& {_HALF - 1})::INTEGER AS {name}"
            for name in names
        )
        engine.define_query(latest, "remote/latest", newest=newest)
    summed = _write_sums(engine, names, latest, path)
    engine.define("coded", engine.text_of("remote/whole", relation=summed))
    engine.write(_worded_users(engine, ", ".join(names)), f"{path}/users")
    return columns


def _chunks(number: int) -> list[range]:
    return [
        range(start, min(number, start + _APIS_A_STATEMENT))
        for start in range(0, number, _APIS_A_STATEMENT)
    ]


def _write_dictionary(engine: SqlEngine, apis: Sequence[str], folder: str) -> None:
    engine.define_rows("api_number", pl.DataFrame({"number": range(len(apis)), "api": apis}))
    for chunk in _chunks(len(apis)):
        seen = " UNION ALL ".join(
            statement("remote/cells_of_api", number=str(i), column=visit_column(apis[i]))
            for i in chunk
        )
        engine.write(engine.text_of("remote/dictionary", seen=seen), folder, add=chunk.start > 0)
    engine.define_files("dictionary", [folder])


def _write_codes(engine: SqlEngine, apis: Sequence[str], path: str) -> None:
    """Write the visits with codes for values, as many APIs at a time as go in one statement."""
    relation = "visits"
    for chunk in _chunks(len(apis)):
        columns = [
            *('visit."user"', "visit.moment", "visit.batch"),
            *(f"visit.a{i}" for i in range(chunk.start)),
            *(f"COALESCE(d{i}.code, 0) AS a{i}" for i in chunk),
            *(f"visit.{visit_column(api)}" for api in apis[chunk.stop :]),
        ]
        joins = " ".join(
            _values_join(i, "cell, code", f"d{i}.cell = visit.{visit_column(apis[i])}")
            for i in chunk
        )
        text = engine.text_of(
            "remote/codes", visits=relation, columns=", ".join(columns), joins=joins
        )
        engine.write(text, f"{path}/codes{chunk.start}")
        relation = f"coded_visit{chunk.start}"
        engine.define_files(relation, [f"{path}/codes{chunk.start}"])
    engine.define("coded_visit", engine.text_of("remote/whole", relation=relation))


def _values_join(number: int, columns: str, condition: str) -> str:
    values = statement("remote/values_of_api", columns=columns, number=str(number))
    return f"LEFT JOIN ({values}) AS d{number} ON {condition}"


def _write_sums(engine: SqlEngine, names: Sequence[str], users: str, path: str) -> str:
    """Give the relation of users with the sums of the words of their values."""
    relation = users
    for chunk in _chunks(len(names)):
        first, last = chunk.start == 0, chunk.stop == len(names)
        joins = " ".join(
            _values_join(i, "code, high, low", f"d{i}.code = coded_user.a{i}") for i in chunk
        )
        high, low = (
            " + ".join(
                [
                    *([] if first else [f"coded_user.{half}"]),
                    *(f"COALESCE(d{i}.{half}, 0)" for i in chunk),
                ]
            )
            for half in ("high", "low")
        )
        text = statement(
            "remote/value_words",
            columns=", ".join(f"coded_user.{name}" for name in names),
            users=relation,
            high=high,
            low=low,
            joins=joins,
            seen=f"greatest({', '.join(['0', *(f'coded_user.{name}' for name in names)])})",
        )
        relation = f"summed{chunk.start}"
        if last:
            text = statement("remote/whole_words", columns=", ".join(names), words=text)
            engine.define(relation, engine.translated(text))
        else:
            engine.write(engine.translated(text), f"{path}/words{chunk.start}")
            engine.define_files(relation, [f"{path}/words{chunk.start}"])
    return relation


def _worded_users(engine: SqlEngine, names: str) -> str:
    """Statement of the codes and the word of each user of the view `coded`."""
    counted = statement("remote/occurrences", columns=names)
    mixed = statement("remote/mix", keep=f"{names}, occurrence", words=counted)
    summed = statement("remote/add_occurrence", columns=names, words=mixed)
    return engine.text_of("remote/mix", keep=names, words=summed)
