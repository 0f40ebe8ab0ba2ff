"""What is read of a folder of a snapshot, which anybody may have written: checked before use."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_HINT = "take the snapshot again"


class Named(dict[int, tuple[str, str | None]]):
    """Status and text by code; asked for a code that the folder does not explain, an error."""

    def __init__(self, folder: str, values: Mapping[int, tuple[str, str | None]]) -> None:
        super().__init__(values)
        self._folder = folder

    def __missing__(self, code: int) -> tuple[str, str | None]:
        raise StoreError(f"{self._folder} lacks a value that users have", hint=_HINT)


def whole_numbers(folder: str, column: pl.Series, *, most: int) -> NDArray[np.uint64]:
    """Numbers of a column, all of which must be from 0 to `most`.

    Raises
    ------
    StoreError
        They are not.
    """
    if column.dtype.is_numeric() and not column.null_count():
        with suppress(pl.exceptions.PolarsError):  # not finite, or of more bits
            numbers = column.cast(pl.Int64).to_numpy()
            if not len(numbers) or (numbers.min() >= 0 and numbers.max() <= most):
                return numbers.astype(np.uint64)
    raise StoreError(f"{folder} holds numbers that no snapshot has", hint=_HINT)


def texts(folder: str, column: pl.Series) -> list[str]:
    """Texts of a column; `StoreError` where it holds something else."""
    if column.dtype != pl.String or column.null_count():
        raise StoreError(f"{folder} holds values that no snapshot has", hint=_HINT)
    return column.to_list()
