"""Texts that the user takes for a missing value."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from fpmonitor.sql import quote_text

if TYPE_CHECKING:
    from fpmonitor.logs.column_map import ColumnMap


@cache
def json_texts(texts: frozenset[str]) -> frozenset[str]:
    """Return the forms in JSON of values with these texts: strings, numbers and words."""
    strings = {json.dumps(text, ensure_ascii=False) for text in texts}
    scalars = {text for text in texts if _is_scalar(text)}
    # A -1 that stands for missing is written as -1.0 where the column has fractions.
    whole = {f"{text}.0" for text in scalars if text.removeprefix("-").isdigit()}
    return frozenset(strings | scalars | whole)


def _is_scalar(text: str) -> bool:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return not isinstance(content, dict | list | str)


def present(expression: str, column_map: ColumnMap, *, json: bool) -> str:
    """Return SQL for a value of a log, null where its text is one that the user takes for absent.

    Args:
        expression: SQL of its text.
        column_map: Says which texts those are.
        json: Whether the text is JSON.
    """
    texts = json_texts(column_map.absent) if json else column_map.absent
    if not texts:
        return expression
    listed = ", ".join(quote_text(text) for text in sorted(texts))
    return f"CASE WHEN {expression} NOT IN ({listed}) THEN {expression} END"
