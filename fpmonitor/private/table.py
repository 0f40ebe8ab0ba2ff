"""Users whose values are known, for simulations: their tokens and their reports."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import polars as pl

from fpmonitor.errors import InputError
from fpmonitor.private.tokens import ABSENT, REDACTED, token_of
from fpmonitor.store.snapshot import SnapshotTable, read_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from fpmonitor.private.counts import ApiSet, Tuples
    from fpmonitor.private.study import RedactionRule
    from fpmonitor.store.database import Database


def read_tokens(database: Database, snapshot: SnapshotTable, apis: Sequence[str]) -> pl.DataFrame:
    """Return the tokens of all users of a snapshot: a row each, a text column per API, no null."""

    def written(_: str, status: str, text: str | None) -> str:
        return token_of(status, text or "")

    return read_texts(database, snapshot, apis, written, absent=ABSENT)


def count_reports(table: pl.DataFrame, sets: Iterable[Sequence[str]]) -> dict[ApiSet, Tuples]:
    """Count the tuples of tokens of each sorted set, as a curator counts the reports of all users.

    The table has a row per user and a text column per API.

    Raises:
        InputError: The table lacks an API.
    """
    counts: dict[ApiSet, Tuples] = {}
    for apis in sets:
        if not set(apis) <= set(table.columns):
            raise InputError("simulation: a set names an API that the table lacks")
        grouped = table.group_by(list(apis)).len()
        *columns, sizes = (column.to_list() for column in grouped.get_columns())
        counts[tuple(apis)] = Counter(dict(zip(zip(*columns, strict=True), sizes, strict=True)))
    return counts


def redact_table(
    table: pl.DataFrame,
    rules: Mapping[str, RedactionRule],
    rng: np.random.Generator | None = None,
) -> pl.DataFrame:
    """Return the tokens of users after redaction; `rng` draws covers, where a rule has one.

    The table has a row per user and a text column per API; rules for other APIs are ignored.

    Raises:
        InputError: A rule has a cover, and there is no generator.
    """
    columns = []
    for api in sorted(rules.keys() & set(table.columns)):
        is_shown = pl.col(api).is_in(sorted(rules[api].keep))
        if rules[api].cover:
            if rng is None:
                raise InputError("redaction: a rule with a cover needs a generator")
            uncovered = rng.random(len(table)) >= rules[api].cover
            is_shown &= pl.lit(pl.Series("uncovered", uncovered))
        columns.append(pl.when(is_shown).then(pl.col(api)).otherwise(pl.lit(REDACTED)).alias(api))
    return table.with_columns(columns)
