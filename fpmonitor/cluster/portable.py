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

# A value as a text that is ordered by its bytes, not as in a language.
_TEXT_ORDER = {
    "clickhouse": "CAST({0} AS Nullable(String))",
    "postgres": 'CAST({0} AS VARCHAR) COLLATE "C"',
    "": "CAST({0} AS VARCHAR)",
}
_FIRST_DIGITS = "substr(sha2({0}, 256), 1, 8)"
# The first 32 bits of SHA-256 of a text, as a whole number.
_HASH_NUMBER = {
    "bigquery": "CAST(CONCAT('0x', SUBSTR(TO_HEX(SHA256({0})), 1, 8)) AS INT64)",
    "clickhouse": "CAST(reinterpretAsUInt32(reverse(substring(SHA256({0}), 1, 4))) "
    "AS Nullable(Int64))",
    "databricks": f"CAST(conv({_FIRST_DIGITS}, 16, 10) AS BIGINT)",
    "duckdb": "CAST('0x' || substr(sha256({0}), 1, 8) AS BIGINT)",
    "postgres": "CAST(CAST('x' || substr(encode(sha256(convert_to({0}, 'UTF8')), 'hex'), 1, 8) "
    "AS BIT(32)) AS BIGINT)",
    "snowflake": f"TO_NUMBER({_FIRST_DIGITS}, 'XXXXXXXX')",
    "spark": f"CAST(conv({_FIRST_DIGITS}, 16, 10) AS BIGINT)",
    "trino": "from_base(substr(to_hex(sha256(to_utf8({0}))), 1, 8), 16)",
}
_FUNCTIONS = {"text_order": _TEXT_ORDER, "hash_number": _HASH_NUMBER}


@cache
def sqlglot() -> ModuleType:
    """Import sqlglot, or say which extra has it."""
    try:
        import sqlglot as module  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise needs_extra("sqlglot", "warehouse") from error
    return module


def needs_extra(module: str, extra: str = "spark") -> InputError:
    """Return the error for a package of an extra that is not installed."""
    return InputError(
        f"other engines need the package {module}, which is not installed", hint=install(extra)
    )


def macros() -> list[str]:
    """Return statements that let DuckDB know the functions of ours."""
    return [
        f"CREATE OR REPLACE TEMP MACRO {name}(x) AS {_text_in(name, 'duckdb').format('x')}"
        for name in _FUNCTIONS
    ]


def _text_in(name: str, dialect: str) -> str:
    texts = _FUNCTIONS[name]
    return texts.get(dialect) or texts[""]


def transpile(text: str, dialect: str, *, pretty: bool = False) -> str:
    """Return a DuckDB statement, whose names are quoted, in another dialect of sqlglot.

    For people it is written over several lines (`pretty`).

    Raises:
        InputError: A dialect that sqlglot does not know, or no statement.
    """
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
    """Return a node of a statement in a dialect, where it is a function of ours."""
    nodes = sqlglot().exp
    if not isinstance(node, nodes.Anonymous) or node.name.lower() not in _FUNCTIONS:
        return node
    [argument] = (each.sql(dialect=dialect) for each in node.expressions)
    text = _text_in(node.name.lower(), dialect).format(argument)
    return sqlglot().parse_one(text, read=dialect)
