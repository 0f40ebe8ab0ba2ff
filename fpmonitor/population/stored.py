"""Snapshots of the DuckDB file, as a population asks for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.population.duckdb import DuckDBSource
from fpmonitor.population.memory import has_room_for
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import MemorySnapshot, Returned, Snapshot
from fpmonitor.sql import statement
from fpmonitor.store.digests import data_key, values_are_digested
from fpmonitor.store.names import said_names
from fpmonitor.store.snapshot import (
    ABSENT,
    Window,
    api_columns,
    kinds_of_members,
    read_codes,
    take_snapshot,
    units_of,
    users_of_rows,
)
from fpmonitor.store.visits import read_visits
from fpmonitor.store.windows import read_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.account import Kind
    from fpmonitor.population.browsers import BrowserGroups, Codes
    from fpmonitor.population.recoding import Recoding
    from fpmonitor.population.snapshot import Days, Repeats
    from fpmonitor.store.database import Database
    from fpmonitor.store.followed import Follower
    from fpmonitor.store.snapshot import SnapshotTable as Table
    from fpmonitor.store.visits import VisitRows
    from fpmonitor.store.windows import Span
    from fpmonitor.unit import Unit


@dataclass(frozen=True, slots=True, eq=False)
class StoredSnapshot(Snapshot):
    """A snapshot in a table of the database."""

    database: Database
    table: Table  # Its rows.
    window: Window  # What it was taken of.

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted."""
        return self.table.apis

    @property
    def said(self) -> Mapping[str, str]:
        """What the user said that columns hold."""
        return said_names(self.database)

    @property
    def users(self) -> int:
        """Number of rows."""
        return self.table.users

    @property
    def visits(self) -> int:
        """Visits of the window."""
        return self.table.visits

    def came_back(self) -> int:
        """Count the users with several visits; of one session of a page all are one."""
        if self.visits <= self.users:
            return 0
        [(users,)] = self.database.rows("snapshot/came_back", **self.window.bounds)
        return int(users)

    @property
    def forgotten_on(self) -> date | None:
        """The last day on which visits were forgotten."""
        found = self.database.rows("checks/forgotten_on")
        return date.fromisoformat(found[0][0]) if found else None

    @property
    def digest(self) -> str:
        """Digest of the rows' values."""
        return self.table.digest

    @property
    def key(self) -> str:
        """Key of the digests that leave."""
        return data_key(self.database)

    @property
    def values_are_digested(self) -> bool:
        """Whether the database keeps digests of values instead of values."""
        return values_are_digested(self.database)

    @property
    def units(self) -> Sequence[Unit | None]:
        """Who the rows are, of each log."""
        return units_of(self.database, self.window)

    def members(self, k: int) -> dict[Kind, int]:
        """Count the members of the logs by what they were taken for."""
        return kinds_of_members(self.database, k)

    def in_memory(self, apis: int) -> bool:
        """Whether the machine has room for so many columns."""
        return has_room_for(self.users, apis)

    def codes(self, apis: Sequence[str]) -> list[Codes]:
        """Codes of some APIs."""
        return read_codes(self.database, self.table, apis)

    def values(self, api: str) -> Mapping[int, tuple[str, str | None]]:
        """Status and text that each code of an API stands for."""
        return status_and_texts(self.database, api)

    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the rows in which it is not absent."""
        return DuckDBSource(self.database, self.table).users_of_apis()

    def repeats(self, groups: BrowserGroups) -> Repeats:
        """Who came back, by API and browser."""
        if self.visits == self.users or groups.rows is None:
            return {}
        [(sessions,)] = self.database.rows("snapshot/any_sessions")
        statement_name = "snapshot/told_in_sessions" if sessions else "snapshot/told_in_visits"
        repeats = self.database.arrays(
            "snapshot/repeats", fragments={"told": statement(statement_name)}, **self.window.bounds
        )
        users = users_of_rows(self.database, self.window, self.users)
        # Rows are in the order of user numbers.
        group = groups.rows[np.searchsorted(users, np.asarray(repeats["user_id"]))]
        counts = (
            pl.DataFrame(
                {
                    "api": np.asarray(repeats["api_id"]),
                    "family": groups.family[group],
                    "version": groups.version[group],
                    "changed": np.asarray(repeats["changed"], dtype=np.bool_),
                    "kept": np.asarray(repeats["kept"], dtype=np.bool_),
                }
            )
            .group_by("api", "family", "version")
            .agg(pl.len(), pl.col("changed", "kept").sum())
        )
        apis = {int(column.removeprefix("a")): api for api, column in self.table.columns.items()}
        found: dict[str, dict[tuple[int, int], Returned]] = {}
        for api_id, family, version, count, changed, kept_users in counts.rows():
            found.setdefault(apis[api_id], {})[family, version] = Returned(
                users=count, changed=changed, kept=kept_users
            )
        return found

    def visit_rows(self, apis: Sequence[str]) -> VisitRows:
        """All visits of the rows, with the values of some APIs."""
        return read_visits(self.database, self.table, self.window, apis)

    def queries(self, recoding: Recoding, present: Sequence[str]) -> DuckDBSource:
        """Spectra by query, of a temporary table where the view changes the rows."""
        table = self.table
        if recoding.changes or recoding.dropped.any():
            table = _restated(self.database, table, recoding)
        if present:
            table = _present(self.database, table, present)
        return DuckDBSource(self.database, table)

    def mixed_sources(self, k: int) -> Mapping[str, list[str]]:
        """APIs whose values come from several sources of at least k users, and these sources."""
        if self.window.source is not None or len(self.database.rows("report/sources")) < 2:
            return {}
        return dict(self.database.rows("report/mixed_sources", k=k))

    def days(self, least: int) -> Days | None:
        """First and last day with visits of so many users."""
        [(first, last)] = self.database.rows("report/days", least=least, **self.window.bounds)
        return None if first is None else (first, last)


@dataclass(frozen=True, slots=True, eq=False)
class FollowedSnapshot(StoredSnapshot):
    """A snapshot whose rows are in memory and in no table."""

    rows: Mapping[str, Codes]  # Column -> codes.
    people: NDArray[np.int64]  # Number of the user of each row, by which windows know them again.

    def codes(self, apis: Sequence[str]) -> list[Codes]:
        """Codes of some APIs."""
        return [self.rows[self.table.column_of(api)] for api in apis]

    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the rows in which it is not absent."""
        return {
            api: int(np.count_nonzero(self.rows[column]))
            for api, column in self.table.columns.items()
        }

    def queries(self, recoding: Recoding, present: Sequence[str]) -> DuckDBSource:
        """Refuse: rows in memory are counted there."""
        raise NotImplementedError


def stored_snapshot(
    database: Database, window: Window, follower: Follower | None = None
) -> StoredSnapshot:
    """Take a snapshot of a window.

    With a follower, and where the users fit into memory, it is in no table of the database.
    """
    if follower is not None:
        [(users,)] = database.rows("snapshot/size", fragments={"snapshot": "user"})
        if has_room_for(users, len(api_columns(database))):
            table, coded = follower.read(database, window)
            return FollowedSnapshot(database, table, window, coded.codes, coded.users)
    return StoredSnapshot(database, take_snapshot(database, window), window)


def stored_names(
    database: Database, apis: Iterable[str], window: Window | None = None
) -> tuple[str, ...]:
    """Return what the logs call some APIs."""
    return Population(stored_snapshot(database, window or Window())).named(apis)


def status_and_texts(database: Database, api: str) -> dict[int, tuple[str, str | None]]:
    """Status and text that each code of an API stands for."""
    rows = database.rows("report/value_texts", api=api)
    return {code: (status, text) for code, status, text in rows}


def window_snapshot(
    database: Database, span: Span, apis: Sequence[str], repeats: Callable[[], Repeats]
) -> MemorySnapshot:
    """Users of a calendar window, with some APIs; codes mean the same in every window."""
    people, codes = read_window(database, span, apis)
    return MemorySnapshot(
        columns=codes,
        people=people,
        texts=lambda api: status_and_texts(database, api),
        said=said_names(database),
        values_are_digested=values_are_digested(database),
        returned=repeats,
    )


def _restated(database: Database, table: Table, recoding: Recoding) -> Table:
    """Write the columns that a view changes, of the users that it keeps, into a temporary table."""
    rows = recoding.groups.rows
    positions = np.arange(table.users) if rows is None else np.flatnonzero(~recoding.dropped[rows])
    frame = {"position": positions}
    for api in recoding.changes:
        [codes] = read_codes(database, table, [api])
        frame[table.columns[api]] = recoding.column(api, codes)[positions].astype(np.int64)
    replaced = ", ".join(
        f"changed.{table.column(api)} AS {table.column(api)}" for api in sorted(recoding.changes)
    )
    name = f"{table.table}_view"
    with database.frame("changed", pl.DataFrame(frame)):
        database.run(
            "snapshot/view",
            fragments={
                "view": name,
                "snapshot": table.table,
                "changes": f"REPLACE ({replaced})" if replaced else "",
            },
        )
    return replace(table, table=name, users=len(positions))


def _present(database: Database, table: Table, apis: Sequence[str]) -> Table:
    """Write the users that have an observation of every one of `apis` into a temporary table."""
    present = " AND ".join(f"{table.column(api)} <> {ABSENT}" for api in apis)
    name = f"{table.table}_present"
    database.run(
        "snapshot/restrict",
        fragments={"restricted": name, "snapshot": table.table, "present": present},
    )
    users = database.rows("snapshot/size", fragments={"snapshot": name})[0][0]
    return replace(table, table=name, users=users)
