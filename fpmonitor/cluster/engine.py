"""What is asked of a distributed engine of any maker: rows, views of a session, one write.

All questions are SQL of ours, translated to the engine's dialect: a snapshot makes coded users of
a table (`cluster.snapshot`); spectra count named sets of them, and a sample draws some
(`cluster.folder`). Only counts, values of few APIs, and rows that fit into memory leave the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from fpmonitor.cluster.portable import transpile
from fpmonitor.errors import InputError, StoreError, excerpt
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.sql import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

SETS_A_STATEMENT = 20
# Scheme of an address -> `module:class`, which is made with the address.
ENGINES = {"sc": "fpmonitor.cluster.spark:SparkEngine"}
# Schemes of what answers `scale sql`, and takes no snapshots: with a driver after a plus.
WAREHOUSES = frozenset(
    ("bigquery", "clickhouse", "clickhousedb", "databricks", "duckdb", "postgresql", "snowflake")
) | {"trino"}


class Engine(Protocol):
    """A session on an engine."""

    @property
    def lost(self) -> bool:
        """Whether the server stopped answering."""

    def close(self) -> None:
        """End the session."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...

    @property
    def address(self) -> str:
        """Where the engine is, without anything secret."""

    @property
    def dialect(self) -> str:
        """The name of its SQL, as sqlglot knows it."""

    def frame(self, text: str) -> pl.DataFrame:
        """Return the rows of a query.

        Raises
        ------
        EngineLostError
            The server no longer answers.
        StoreError
            The engine refuses.
        """

    def define_table(self, name: str, table: str) -> Mapping[tuple[str, ...], str]:
        """Let `name` stand for a table, a query or files of Parquet; its columns and their types.

        A column is named by its path: one name, or several that lead to a field of a struct. Types
        are named as Spark names them.

        Raises
        ------
        InputError
            It does not exist, or has no column.
        """

    def define_rows(self, name: str, rows: pl.DataFrame) -> None:
        """Let `name` stand for rows that are sent there."""

    def define(self, name: str, text: str) -> None:
        """Let `name` stand for a query."""

    def write(self, text: str, folder: str, *, add: bool = False) -> None:
        """Write the rows of a query into a folder of Parquet files."""


def check_address(address: str) -> None:
    """Check that an address is one of an engine or of a warehouse, by its scheme.

    Raises
    ------
    InputError
        It is not.
    """
    scheme, separator, _ = address.partition("://")
    if not separator or scheme.partition("+")[0] not in {*ENGINES, *WAREHOUSES}:
        raise InputError(
            f"--engine: {excerpt(address.rpartition('@')[2])!r} is not an engine",
            hint="a server looks like sc://HOST:PORT, a warehouse postgresql://HOST/DB",
        )


def open_engine(address: str) -> Engine:
    """Open a session on the engine at an address such as `sc://HOST:PORT`.

    Raises
    ------
    InputError
        It is none that takes or reads snapshots.
    """
    check_address(address)
    if address.partition("://")[0] not in ENGINES:
        raise InputError(
            "--engine: a warehouse takes no snapshots",
            hint="ask it by `fpmonitor scale sql --to FOLDER`, and decide with --spectra FOLDER",
        )
    module, _, name = ENGINES[address.partition("://")[0]].partition(":")
    engine: Engine = getattr(import_module(module), name)(address)
    return engine


def rows(engine: Engine, query: str, **holes: str) -> pl.DataFrame:
    """Return the rows of `queries/<query>.sql` on an engine."""
    return engine.frame(transpile(statement(query, **holes), engine.dialect))


def union(texts: Sequence[str]) -> str:
    """Return one statement for the rows of several."""
    return " UNION ALL ".join(texts)


def count_spectra(
    engine: Engine, relations: Sequence[tuple[str, Sequence[str]]], users: int
) -> list[CountSpectrum]:
    """Count the groups of users of many sets of columns.

    `UNION ALL` of one statement per set: `GROUPING SETS` is slower on most engines, by twice on
    Spark. Every answer is checked: an engine that reads a quoted name as a piece of text would
    otherwise return one large group and no error.

    A relation has one row for each of the `users`; one or more of its columns are counted.

    Raises
    ------
    EngineLostError
        The server does not answer.
    StoreError
        An answer does not count every user once.
    """
    spectra: list[CountSpectrum] = []
    for spectrum in count_parts(engine, relations):
        counted = 0 if spectrum is None else spectrum.users
        if spectrum is None or counted != users:
            raise StoreError(
                f"the engine at {engine.address} counted {counted:,} of {users:,} users",
                hint="were files of the snapshot changed? take it again in a new folder",
            )
        spectra.append(spectrum)
    return spectra


def count_parts(
    engine: Engine, relations: Sequence[tuple[str, Sequence[str]]]
) -> list[CountSpectrum | None]:
    """Count the groups of some users of many sets of columns; None where a relation has no row."""
    spectra: list[CountSpectrum | None] = []
    for start in range(0, len(relations), SETS_A_STATEMENT):
        part = relations[start : start + SETS_A_STATEMENT]
        texts = [
            statement(
                "cluster/spectrum", place=str(place), rows=relation, columns=", ".join(columns)
            )
            for place, (relation, columns) in enumerate(part)
        ]
        found = engine.frame(transpile(union(texts), engine.dialect))
        place, counts, tuples = (
            found[name].to_numpy().astype(np.int64) for name in ("place", "users", "tuples")
        )
        for number in range(len(part)):
            inside = np.flatnonzero(place == number)
            order = inside[np.argsort(counts[inside])]
            spectra.append(CountSpectrum(counts[order], tuples[order]) if order.size else None)
    return spectra
