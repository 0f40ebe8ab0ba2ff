"""The statements of `queries/` in the dialect of another engine.

They are written for DuckDB; sqlglot translates them. What it does not know is a
function of ours here, with its text in each dialect.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from fpmonitor.errors import InputError, install, reason_of

if TYPE_CHECKING:
    from types import ModuleType

OWN = "own"  # DuckDB with `macros`, which takes statements as they are written
_TEXT_ORDER = "text_order"  # a value as a text that is ordered by its bytes, not as in a language
_FUNCTIONS = {
    "hex_number": {  # whole number of up to 8 hexadecimal digits
        "duckdb": "CAST('0x' || {0} AS BIGINT)",
        "spark": "CAST(conv({0}, 16, 10) AS BIGINT)",
        "bigquery": "CAST(CONCAT('0x', {0}) AS INT64)",
    },
    "count_bytes": {
        "duckdb": "strlen({0})",
        "spark": "octet_length({0})",
        "bigquery": "BYTE_LENGTH({0})",
    },
}


@cache
def sqlglot(extra: str = "warehouse") -> ModuleType:
    """Import sqlglot, or say which extra has it, and what else the caller needs."""
    try:
        import sqlglot as module  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise needs_extra("sqlglot", extra) from error
    return module


def needs_extra(module: str, extra: str = "spark") -> InputError:
    """Return the error for a package of an extra that is not installed."""
    return InputError(
        f"other engines need the package {module}, which is not installed", hint=install(extra)
    )


def macros() -> list[str]:
    """Return statements that let DuckDB know the functions of ours."""
    return [
        f"CREATE OR REPLACE TEMP MACRO {name}(x) AS {texts['duckdb'].format('x')}"
        for name, texts in _FUNCTIONS.items()
    ]


def transpile(text: str, dialect: str, *, pretty: bool = False) -> str:
    """Return a DuckDB statement, whose names are quoted, in another dialect of sqlglot, or `OWN`.

    For people it is written over several lines (`pretty`).

    Raises
    ------
    InputError
        A dialect that sqlglot does not know, or that lacks a function of ours.
    """
    if dialect == OWN:
        return text
    try:
        tree = sqlglot().parse_one(text, read="duckdb")
        # Inner nodes first, so that the arguments of a function are translated before it is text.
        for node in list(tree.walk())[::-1]:
            translated = _translated(node, dialect)
            if translated is not node:
                node.replace(translated)
        return str(tree.sql(dialect=dialect, comments=False, pretty=pretty))
    except ValueError as error:
        reason = reason_of(error)
        raise InputError(f"cannot translate a statement to {dialect}: {reason}") from error


def _translated(node: Any, dialect: str) -> Any:
    """Return a node of a statement in a dialect, as far as sqlglot does not do it by itself."""
    nodes = sqlglot().exp
    if isinstance(node, nodes.Anonymous) and node.name.lower() == _TEXT_ORDER:
        text = nodes.cast(node.expressions[0].copy(), "varchar")
        bytewise = nodes.Identifier(this="C", quoted=True)
        return nodes.Collate(this=text, expression=bytewise) if dialect == "postgres" else text
    if isinstance(node, nodes.Anonymous) and node.name.lower() in _FUNCTIONS:
        texts = _FUNCTIONS[node.name.lower()]
        if dialect not in texts:
            raise InputError(f"the dialect {dialect} has no known text for {node.name.lower()}")
        arguments = [argument.sql(dialect=dialect) for argument in node.expressions]
        return sqlglot().parse_one(texts[dialect].format(*arguments), read=dialect)
    if isinstance(node, nodes.BitwiseXor):
        # DuckDB's xor(a, b) becomes a ^ b, and sqlglot forgets what binds closer.
        return nodes.paren(node.copy(), copy=False)
    return node
