"""Visits as coded users, on a distributed engine: dictionary, codes, latest values, words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from fpmonitor.cluster.folder_ingest import NO_TEXT, SEPARATOR, visit_column
from fpmonitor.errors import UnknownNameError
from fpmonitor.sql import statement
from fpmonitor.store.snapshot import ABSENT
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.cluster.portable import SqlEngine

_APIS_A_STATEMENT = 40  # each is a join, and engines plan joins slowly when there are many
_HALF = 4294967296


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSnapshot:
    """A table on the engine with a row a user and an integer column an API.

    Attributes
    ----------
    identity
        Names it among all snapshots of its folder.
    folder
        Where it lies: dictionary, codes of the visits, users.
    relation
        Name of the table in the statements of the session.
    columns
        API -> its column; the code 0 is absent.
    seen
        API -> users with an observation of it, of all users of the snapshot.
    users
        Rows.
    visits
        Visits behind them.
    digest
        Digest of the multiset of the rows' values, as of `store.snapshot.Snapshot`.
    """

    identity: str
    folder: str
    relation: str
    columns: Mapping[str, str]
    seen: Mapping[str, int]
    users: int
    visits: int
    digest: str

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted."""
        return tuple(sorted(self.columns))

    def column(self, api: str) -> str:
        """Return the column of an API.

        Raises
        ------
        UnknownNameError
            There is none; the message lists the nearest names.
        """
        if api not in self.columns:
            raise UnknownNameError("API", api, self.columns.keys() & known_apis().keys())
        return self.columns[api]

    def number(self, api: str) -> int:
        """Return the number of an API in the dictionary; errors as of `column`."""
        return int(self.column(api).removeprefix("a"))


def write_coded_users(
    engine: SqlEngine, apis: Sequence[str], path: str
) -> tuple[dict[str, str], int]:
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
    API -> its column in `users/`, where the two halves of the word of the user stand as well; and
    the number of visits.
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
        engine.define_query(latest, "remote/latest", newest=", ".join(map(latest_code, names)))
    summed = _write_sums(engine, names, latest, path)
    engine.define("coded", engine.text_of("remote/whole", relation=summed))
    engine.write(_worded_users(engine, ", ".join(names)), f"{path}/users")
    return columns, int(visits)


def define_dictionary(engine: SqlEngine, snapshot: RemoteSnapshot) -> None:
    """Let `dictionary` stand for the values of a snapshot in the statements of the session."""
    engine.define_files("dictionary", [f"{snapshot.folder}/dictionary"])


def define_visits(engine: SqlEngine, snapshot: RemoteSnapshot) -> None:
    """Let `coded_visit` stand for the visits of a snapshot in the statements of the session."""
    last = _chunks(len(snapshot.columns))[-1].start
    engine.define_files("coded_visit", [f"{snapshot.folder}/codes{last}"])


def values_of(engine: SqlEngine, snapshot: RemoteSnapshot, api: str) -> pl.DataFrame:
    """Values of one API in the visits of a snapshot: `code`, `status`, `text` (null: none)."""
    define_dictionary(engine, snapshot)
    number = str(snapshot.number(api))
    parts = pl.col("cell").str.splitn(SEPARATOR, 2)
    return (
        engine.rows(
            "remote/values_of_api", columns="code, cell", relation="dictionary", number=number
        )
        .sort("code")
        .select("code", parts.struct[0].alias("status"), parts.struct[1].alias("text"))
        .with_columns(pl.when(pl.col("text") != NO_TEXT).then("text").alias("text"))
    )


def count_seen(engine: SqlEngine, relation: str, columns: Mapping[str, str]) -> dict[str, int]:
    """Users of a relation with an observation of each API, by its column."""
    counts = ", ".join(
        f"count(CASE WHEN {column} <> {ABSENT} THEN 1 END) AS {column}"
        for column in columns.values()
    )
    seen = engine.rows("snapshot/users_of_apis", counts=counts, snapshot=relation).row(0)
    return dict(zip(columns, map(int, seen), strict=True))


def values_join(relation: str, number: int, columns: str, alias: str, condition: str) -> str:
    """Join of the rows of a relation that are of one API."""
    of_api = statement(
        "remote/values_of_api", columns=columns, relation=relation, number=str(number)
    )
    return f"LEFT JOIN ({of_api}) AS {alias} ON {condition}"


def latest_code(column: str) -> str:
    """Column of `remote/latest`: the code in the latest visit that has one."""
    return (
        f"(max(CASE WHEN {column} <> 0 THEN place * {_HALF} + {column} ELSE 0 END) "
        f"& {_HALF - 1})::INTEGER AS {column}"
    )


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
            values_join(
                "dictionary", i, "cell, code", f"d{i}", f"d{i}.cell = visit.{visit_column(apis[i])}"
            )
            for i in chunk
        )
        text = engine.text_of(
            "remote/codes", visits=relation, columns=", ".join(columns), joins=joins
        )
        engine.write(text, f"{path}/codes{chunk.start}")
        relation = f"coded_visit{chunk.start}"
        engine.define_files(relation, [f"{path}/codes{chunk.start}"])
    engine.define("coded_visit", engine.text_of("remote/whole", relation=relation))


def _write_sums(engine: SqlEngine, names: Sequence[str], users: str, path: str) -> str:
    """Return the relation of users with the sums of the words of their values."""
    relation = users
    for chunk in _chunks(len(names)):
        first, last = chunk.start == 0, chunk.stop == len(names)
        joins = " ".join(
            values_join("dictionary", i, "code, high, low", f"d{i}", f"d{i}.code = coded_user.a{i}")
            for i in chunk
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
