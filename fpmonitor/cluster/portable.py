"""Spectra counted by other engines, many sets in one statement.

The statements are written for DuckDB; sqlglot says them in another dialect.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fpmonitor.errors import InputError, StoreError, UnknownNameError
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.sql import quote_name, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray


SETS_A_STATEMENT = 20


class Engine(Protocol):
    """What a spectrum needs of an engine: the name of its dialect, and answers."""

    @property
    def dialect(self) -> str:
        """As sqlglot names it."""

    def arrays(self, text: str) -> Mapping[str, NDArray[Any]]:
        """Columns that a query in the engine's dialect returns."""


@cache
def sqlglot() -> ModuleType:
    """Import sqlglot, or say which extra has it."""
    try:
        import sqlglot as module  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise needs_extra("sqlglot") from error
    return module


def needs_extra(module: str) -> InputError:
    """Error for a package of the extra that is not there."""
    return InputError(
        f"other engines need the package {module}, which is not installed",
        hint="pip install 'fpmonitor[spark]'",
    )


def transpile(text: str, dialect: str) -> str:
    """Return a DuckDB statement in another dialect.

    Parameters
    ----------
    text
        One statement; names quoted as DuckDB quotes them.
    dialect
        As sqlglot names it: `spark`, `bigquery`, ...

    Raises
    ------
    InputError
        A dialect that sqlglot does not know.
    """
    try:
        tree = sqlglot().parse_one(text, read="duckdb")
        return str(tree.sql(dialect=dialect, comments=False))
    except ValueError as error:
        reason = str(error).split("\n", 1)[0]
        raise InputError(f"cannot say a statement in {dialect}: {reason}") from error


def spectra_statement(relation: str, sets: Sequence[Sequence[str]], dialect: str) -> str:
    """One statement that counts the groups of many sets of columns: `place, users, tuples`.

    UNION ALL of `spectrum/of_set`: GROUPING SETS is slower on most engines, by twice on Spark.

    Parameters
    ----------
    relation
        Table with a row a user.
    sets
        Columns of each set, at least one, quoted as DuckDB quotes them.
    dialect
        Of the engine.
    """
    exp = sqlglot().exp
    branches = []
    for place, columns in enumerate(sets):
        text = statement("spectrum/of_set", snapshot=relation, columns=", ".join(columns))
        counted = sqlglot().parse_one(text, read="duckdb")
        counted.set("order", None)
        inner = counted.find(exp.Subquery)
        inner.set("alias", exp.TableAlias(this=exp.to_identifier("groups_of_set")))
        branches.append(counted.select(f"{place} AS place"))
    union = branches[0] if len(branches) == 1 else exp.union(*branches, distinct=False)
    return str(union.sql(dialect=dialect, comments=False))


class EngineSource:
    """Spectrum source over a table of an engine, with a row a user and a column an API.

    Every answer is checked: the users of each spectrum must be those of the table. An engine that
    reads a quoted name as a piece of text would otherwise return one large group and no error.

    Parameters
    ----------
    engine
        Answers the statements.
    relation
        Name of the table, quoted as DuckDB quotes names.
    columns
        API -> its column, a plain name.
    users
        Rows of the table.
    """

    def __init__(
        self, engine: Engine, relation: str, columns: Mapping[str, str], users: int
    ) -> None:
        self._engine, self._relation, self._columns = engine, relation, columns
        self.users = users
        self.apis: tuple[str, ...] = tuple(sorted(columns))
        self._known: dict[tuple[str, ...], CountSpectrum] = {}

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`; errors as in `spectra`."""
        return self.spectra([apis])[0]

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[CountSpectrum]:
        """Count spectra of many sets, asked for in as few statements as the engine likes.

        Raises
        ------
        UnknownNameError
            The table lacks an API.
        StoreError
            The engine does not answer, or its answer does not count every user once.
        """
        wanted = [tuple(sorted(set(apis))) for apis in sets]
        for api in {api for apis in wanted for api in apis}:
            if api not in self._columns:
                raise UnknownNameError("API", api, self.apis)
        unknown = sorted({apis for apis in wanted if apis and apis not in self._known})
        for start in range(0, len(unknown), SETS_A_STATEMENT):
            self._ask(unknown[start : start + SETS_A_STATEMENT])
        everyone = CountSpectrum.from_counts([self.users])
        return [self._known[apis] if apis else everyone for apis in wanted]

    def _ask(self, sets: Sequence[tuple[str, ...]]) -> None:
        columns = [[quote_name(self._columns[api]) for api in apis] for apis in sets]
        text = spectra_statement(self._relation, columns, self._engine.dialect)
        answer = self._engine.arrays(text)
        place, users, tuples = (
            np.asarray(answer[name], dtype=np.int64) for name in ("place", "users", "tuples")
        )
        order = np.lexsort((users, place))
        place, users, tuples = place[order], users[order], tuples[order]
        starts = np.searchsorted(place, np.arange(len(sets) + 1))
        for apis, start, end in zip(sets, starts[:-1], starts[1:], strict=True):
            counted = int(users[start:end] @ tuples[start:end])
            if counted != self.users:
                raise StoreError(
                    f"the engine counted {counted:,} of {self.users:,} users of a set of "
                    f"{len(apis)} APIs",
                    hint="the table was changed meanwhile: take the snapshot again",
                )
            self._known[apis] = CountSpectrum(users[start:end], tuples[start:end])
