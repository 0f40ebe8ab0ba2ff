"""Files of stochastic matrices: CSV, a row for each report, a column for each value."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.ldp.mechanisms import StochasticMatrix
from fpmonitor.safe_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

MAX_MATRIX_BYTES = 64_000_000


def read_matrix(
    path: Path, is_name: Callable[[str], bool] = lambda _: False
) -> tuple[StochasticMatrix, tuple[str, ...] | None]:
    """Read a matrix, and the names of its columns where the first line has them.

    Parameters
    ----------
    path
        The file, CSV of probabilities.
    is_name
        Tells the names of values from numbers.

    Raises
    ------
    InputError
        The file cannot be read, is no matrix of numbers, or its columns are no laws.
    """
    text = read_text(path, "mechanism", most=MAX_MATRIX_BYTES)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        names = tuple(rows.pop(0)) if rows and all(map(is_name, rows[0])) else None
        cells = np.array([[float(cell) for cell in row] for row in rows])
    except (ValueError, csv.Error) as error:
        raise InputError(
            f"mechanism {path}: not a matrix of numbers ({error})",
            hint="rows are reports, columns are values; a first line may name these, for example "
            "=24,=30,redacted",
        ) from error
    matrix = _checked(path, cells)
    if names is not None and len(names) != matrix.values:
        raise InputError(f"mechanism {path}: {len(names)} names for {matrix.values} columns")
    return matrix, names


def _checked(path: Path, cells: NDArray[np.float64]) -> StochasticMatrix:
    try:
        return StochasticMatrix(cells)
    except PolicyError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from error
