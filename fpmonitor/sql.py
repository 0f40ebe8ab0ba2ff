"""SQL statements from `queries/`, and the quoting of names that stand in them."""

from __future__ import annotations

import glob
import re
from functools import cache
from importlib import resources
from pathlib import Path

_HOLE = re.compile(r"\{([a-z_]+)\}")
_SHARED = re.compile(r"\{([a-z_]+/[a-z_]+)\}")


@cache
def _text(name: str) -> str:
    text = (resources.files("fpmonitor.queries") / f"{name}.sql").read_text(encoding="utf-8")
    return _SHARED.sub(lambda shared: _text(shared.group(1)).rstrip(), text)


def statement(name: str, **fragments: str) -> str:
    """Read the statement `queries/<name>.sql` with its holes `{word}` filled.

    Holes take quoted names or statements only; values are bound as `$name` when it runs. A hole
    `{folder/name}` takes the text of that file, for what several statements share.
    """
    return _HOLE.sub(lambda hole: fragments[hole.group(1)], _text(name))


def parameters_of(name: str) -> set[str]:
    """Names of the values that the statement `queries/<name>.sql` wants bound."""
    return set(re.findall(r"\$([a-z_]+)", _text(name)))


def schema_statements(version: int) -> list[str]:
    """Statements that lead a database from schema `version - 1` to `version`, in order."""
    folder = resources.files("fpmonitor.queries") / "schema" / str(version)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [_text(f"schema/{version}/{name.removesuffix('.sql')}") for name in names]


def quote_name(name: str) -> str:
    """Quote an identifier for DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def quote_path(path: Path) -> str:
    """Quote the path of one file, where DuckDB would take `*`, `?` and `[` as a pattern."""
    return quote_text(glob.escape(str(path)))


def quote_text(text: str) -> str:
    """Quote a string for DuckDB, where a parameter cannot stand."""
    return "'" + text.replace("'", "''") + "'"
