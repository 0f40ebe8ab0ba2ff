"""CSV files of stochastic matrices, a row for each report, and of priors that are points."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.ldp.mechanisms import StochasticMatrix
from fpmonitor.ldp.point_priors import PointPrior
from fpmonitor.safe_files import read_text

MAX_MATRIX_BYTES = 64_000_000
NAMES_HINT = (
    "rows are reports, columns are values; a first line may name these, for example "
    "=24,=30,redacted"
)


def read_matrix(path: Path) -> tuple[StochasticMatrix, tuple[str, ...] | None]:
    """Read a matrix of probabilities, and the names of its columns if the first line has them.

    Raises:
        InputError: The file cannot be read, is not a matrix of numbers, or a column is not a
            distribution.
    """
    text = read_text(path, "mechanism", most=MAX_MATRIX_BYTES)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        names = tuple(rows.pop(0)) if rows and not any(map(_is_number, rows[0])) else None
        cells = np.array([[float(cell) for cell in row] for row in rows])
    except (ValueError, csv.Error) as error:
        raise InputError(
            f"mechanism {path}: not a matrix of numbers ({error})",
            hint=NAMES_HINT,
        ) from error
    matrix = _checked(path, cells)
    if names is not None and len(names) != matrix.values:
        raise InputError(f"mechanism {path}: {len(names)} names for {matrix.values} columns")
    return matrix, names


def read_points(path: Path) -> PointPrior:
    """Read a prior of finitely many distributions: a line each, its weight and its probabilities.

    Raises:
        InputError: The file cannot be read, or is no such prior.
    """
    hint = "a line for each distribution: its weight, and the probability of each value"
    text = read_text(path, "prior", most=MAX_MATRIX_BYTES)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        cells = np.array([[float(cell) for cell in row] for row in rows])
        return PointPrior(cells[:, 0], cells[:, 1:])
    except (ValueError, IndexError, csv.Error) as error:
        raise InputError(f"prior {path}: not rows of numbers ({error})", hint=hint) from error
    except PolicyError as error:
        raise InputError(f"{path}: {error.message}", hint=hint) from error


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _checked(path: Path, cells: NDArray[np.float64]) -> StochasticMatrix:
    try:
        return StochasticMatrix(cells)
    except PolicyError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from error
