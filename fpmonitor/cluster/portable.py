"""The statements of `queries/` on other engines, and spectra asked of them many sets at a time.

The statements are written for DuckDB; sqlglot says them in another dialect. What it does not know
of stands here as a function of ours with its text in each dialect. Values are put in as literals
by sqlglot's own quoting, since engines differ in how they bind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from fpmonitor.errors import InputError, StoreError, UnknownNameError
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.sql import quote_name, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    import polars as pl
    from numpy.typing import NDArray

    from fpmonitor.cluster.spark_files import FileFormat
    from fpmonitor.logs import ColumnMap

SETS_A_STATEMENT = 20
_FUNCTIONS = {
    "hex_number": {  # whole number of up to 8 hexadecimal digits
        "duckdb": "CAST('0x' || {0} AS BIGINT)",
        "spark": "CAST(conv({0}, 16, 10) AS BIGINT)",
        "clickhouse": "toInt64(reinterpretAsUInt32(reverse(unhex({0}))))",
    },
    "count_bytes": {
        "duckdb": "strlen({0})",
        "spark": "octet_length({0})",
        "clickhouse": "length({0})",
    },
    "microseconds": {  # since 1970, of a time
        "duckdb": "epoch_us({0})",
        "spark": "unix_micros(CAST({0} AS TIMESTAMP))",
        "clickhouse": "toUnixTimestamp64Micro(toDateTime64({0}, 6, 'UTC'))",
    },
}


class Engine(Protocol):
    """What a spectrum needs of an engine: the name of its dialect, and answers."""

    @property
    def dialect(self) -> str:
        """As sqlglot names it."""

    def arrays(self, text: str) -> Mapping[str, NDArray[Any]]:
        """Columns that a query in the engine's dialect returns."""


class SqlEngine(ABC):
    """A session on an engine in which the statements of a store run, in the engine's own dialect.

    Attributes
    ----------
    dialect
        As sqlglot names it.
    """

    dialect: ClassVar[str]

    @abstractmethod
    def frame(self, text: str) -> pl.DataFrame:
        """Rows that a query in the engine's dialect returns."""

    @abstractmethod
    def define(self, name: str, text: str) -> None:
        """Let `name` stand for a query in the statements of this session."""

    @abstractmethod
    def define_rows(self, name: str, rows: pl.DataFrame) -> None:
        """Let `name` stand for some rows in the statements of this session."""

    @abstractmethod
    def define_files(
        self,
        name: str,
        paths: Sequence[str],
        form: FileFormat = "parquet",
        column_map: ColumnMap | None = None,
    ) -> dict[str, str]:
        """Let `name` stand for what was written at some paths, or for logs; columns and types."""

    @abstractmethod
    def schema_of(self, paths: Sequence[str]) -> dict[str, str]:
        """Columns and types of what was written at some paths; empty when nothing is there."""

    @abstractmethod
    def write(self, text: str, folder: str, *, add: bool = False) -> None:
        """Write what a query returns at a path, in place of what is there or beside it."""

    def arrays(self, text: str) -> Mapping[str, NDArray[Any]]:
        """Columns that a query in the engine's dialect returns."""
        return {column.name: column.to_numpy() for column in self.frame(text).get_columns()}

    def translated(self, text: str, values: Mapping[str, Any] | None = None) -> str:
        """Say a statement of DuckDB in the dialect, with what its parameters stand for."""
        return transpile(text, self.dialect, **(values or {}))

    def text_of(self, query: str, values: Mapping[str, Any] | None = None, **holes: str) -> str:
        """Statement `queries/<query>.sql` in the dialect, its holes and parameters filled."""
        return self.translated(statement(query, **holes), values)

    def rows(
        self, query: str, values: Mapping[str, Any] | None = None, **holes: str
    ) -> pl.DataFrame:
        """Rows that `queries/<query>.sql` returns."""
        return self.frame(self.text_of(query, values, **holes))

    def define_query(
        self, name: str, query: str, values: Mapping[str, Any] | None = None, **holes: str
    ) -> None:
        """Let `name` stand for `queries/<query>.sql` in the statements of this session."""
        self.define(name, self.text_of(query, values, **holes))


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


def portable_statement(
    name: str, dialect: str, *, fragments: Mapping[str, str] | None = None, **values: Any
) -> str:
    """Return the statement `queries/<name>.sql` in another dialect; see `transpile`."""
    return transpile(statement(name, **(fragments or {})), dialect, **values)


def transpile(text: str, dialect: str, **values: Any) -> str:
    """Say a DuckDB statement in another dialect.

    Parameters
    ----------
    text
        One statement; names quoted as DuckDB quotes them.
    dialect
        As sqlglot names it: `spark`, `clickhouse`, `bigquery`, ...
    values
        What its parameters `$word` stand for: text, numbers, None.

    Raises
    ------
    InputError
        A dialect that sqlglot does not know, or that lacks a function of ours.
    """
    try:
        tree = sqlglot().parse_one(text, read="duckdb")
        return str(_translated(tree, dialect, values).sql(dialect=dialect, comments=False))
    except ValueError as error:
        reason = str(error).split("\n", 1)[0]
        raise InputError(f"cannot say a statement in {dialect}: {reason}") from error


def _translated(tree: Any, dialect: str, values: Mapping[str, Any]) -> Any:
    # Inner nodes first, so that the arguments of a function are translated before it becomes text.
    for node in list(tree.walk())[::-1]:
        translated = _node(node, dialect, values)
        if translated is not node:
            node.replace(translated)
    return tree


def _node(node: Any, dialect: str, values: Mapping[str, Any]) -> Any:
    """Say one node of a statement in a dialect, as far as sqlglot does not do it by itself."""
    nodes = sqlglot().exp
    if isinstance(node, nodes.Placeholder):
        return nodes.convert(values[node.name])
    if isinstance(node, nodes.Anonymous) and node.name.lower() in _FUNCTIONS:
        return _of_dialect(node, dialect)
    if dialect == "clickhouse":
        return _node_of_clickhouse(node)
    if isinstance(node, nodes.BitwiseXor):
        # DuckDB's xor(a, b) becomes a ^ b, and sqlglot forgets what binds closer.
        return nodes.paren(node.copy(), copy=False)
    return node


def _node_of_clickhouse(node: Any) -> Any:
    nodes = sqlglot().exp
    operators = {
        nodes.BitwiseXor: "bitXor",
        nodes.BitwiseAnd: "bitAnd",
        nodes.BitwiseOr: "bitOr",
        nodes.BitwiseRightShift: "bitShiftRight",
    }
    if type(node) in operators:
        return nodes.func(operators[type(node)], node.this, node.expression)
    if isinstance(node, nodes.SHA2):
        return nodes.func("lower", nodes.func("hex", nodes.func("SHA256", node.this)))
    if _is_selected_column(node):
        return nodes.alias_(node.copy(), node.name, quoted=True)  # it would be called `t.a`
    return node


def _is_selected_column(node: Any) -> bool:
    nodes = sqlglot().exp
    return (
        isinstance(node, nodes.Column)
        and isinstance(node.parent, nodes.Select)
        and node.arg_key == "expressions"
        and bool(node.table)
        and not isinstance(node.this, nodes.Star)
    )


def _of_dialect(node: Any, dialect: str) -> Any:
    texts = _FUNCTIONS[node.name.lower()]
    if dialect not in texts:
        raise InputError(f"the dialect {dialect} has no known text for {node.name.lower()}")
    arguments = [argument.sql(dialect=dialect) for argument in node.expressions]
    return sqlglot().parse_one(texts[dialect].format(*arguments), read=dialect)


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
