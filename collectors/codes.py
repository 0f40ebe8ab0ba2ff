"""Codes that stand for texts which repeat, given by Polars while it reads a log in batches."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import polars as pl

from fpmonitor.logs.contract import InexactReadingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAX_HELD_BYTES = 1 << 26
_FREE_BYTES = 1 << 22
_WORTHWHILE = 4  # texts must repeat this often to be worth it, by their bytes


def joined(frames: Iterable[pl.DataFrame], parts: int) -> Iterator[pl.DataFrame]:
    """Put so many frames together as one, whose parts DuckDB reads with several threads."""
    rest = iter(frames)
    while some := list(islice(rest, parts)):
        yield pl.concat(some)


class Codes:
    """A code (UInt32, from 0 in each column) for each text of some columns."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._categories = {column: pl.Categories.random() for column in columns}
        # Polars forgets categories that no series has any more.
        self._kept = [pl.Series(dtype=pl.Categorical(c)) for c in self._categories.values()]

    def dtype(self, column: str) -> pl.Categorical:
        """Type of the column in Polars; its physical values are the codes."""
        return pl.Categorical(self._categories[column])

    def texts(self, column: str) -> pl.Series:
        """Texts (String) of the codes 0, 1, ... that were given so far."""
        return self._categories[column].to_series().alias(column)

    def table(self, column: str) -> pl.DataFrame:
        """Codes that were given so far (column `code`) and their texts (a column of its name)."""
        texts = self.texts(column)
        return pl.DataFrame([pl.Series("code", range(len(texts)), dtype=pl.UInt32), texts])

    def check_they_repeat(self, seen: int) -> None:
        """Check that the texts are few, after so many bytes of the log.

        Raises
        ------
        InexactReadingError
            They are not: holding them all may take more memory than there is.
        """
        held = sum(int(self.texts(column).str.len_bytes().sum()) for column in self._categories)
        if held > min(max(_FREE_BYTES, seen // _WORTHWHILE), _MAX_HELD_BYTES):
            raise InexactReadingError
