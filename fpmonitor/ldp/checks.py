"""Checks of arguments: each error names the argument."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import PolicyError

MIN_EPSILON, MAX_EPSILON = 1e-12, 30.0  # below, no double tells two reports apart
# 400 MB of doubles.
MAX_MATRIX_CELLS = 50_000_000


def check_whole_number(argument: str, value: object, *, least: int, most: int) -> None:
    """Check a whole number.

    Raises:
        PolicyError: It is not, or is out of range; the error names `argument`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PolicyError(argument, f"must be a whole number from {least} to {most}, got {value!r}")


def check_epsilon(epsilon: float) -> None:
    """Check an LDP level.

    Raises:
        PolicyError: `epsilon`: not from 1e-12 to 30.
    """
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        limits = f"{MIN_EPSILON:g} to {MAX_EPSILON:g}"
        raise PolicyError("epsilon", f"must be a number from {limits}, got {epsilon}")


def check_values(values: int) -> None:
    """Check a number of values."""
    check_whole_number("values", values, least=2, most=10**7)


def check_codes(codes: ArrayLike, values: int, argument: str = "codes") -> NDArray[np.int64]:
    """Return numbers of values as int64, shape (users,).

    Raises:
        PolicyError: Not a list of whole numbers from 0 to `values - 1`; the error names `argument`.
    """
    array = np.asarray(codes)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise PolicyError(argument, "must be a list of whole numbers")
    if array.size and not (array.min() >= 0 and array.max() < values):
        raise PolicyError(argument, f"must lie between 0 and {values - 1}")
    return array.astype(np.int64)


def check_counts(
    argument: str, counts: ArrayLike, length: int, *, most: int | None = None
) -> NDArray[np.int64]:
    """Return numbers of users as int64, shape (length,).

    Raises:
        PolicyError: Not `length` whole numbers from 0 to `most`; the error names `argument`.
    """
    users = np.asarray(counts)
    if users.shape != (length,) or not np.issubdtype(users.dtype, np.integer):
        raise PolicyError(argument, f"must be {length} whole numbers")
    if users.min() < 0 or (most is not None and users.max() > most):
        raise PolicyError(argument, f"must lie between 0 and {most if most is not None else 'n'}")
    return users.astype(np.int64)


def check_cells(reports: float, values: int) -> None:
    """Check that a matrix is not too large."""
    if reports * values > MAX_MATRIX_CELLS:
        raise PolicyError("values", f"the matrix of all reports on {values:,} values is too large")


def check_bits(reports: ArrayLike, values: int) -> NDArray[np.bool_]:
    """Return reports of a bit for each value, shape (users, values)."""
    bits = np.asarray(reports)
    if bits.ndim != 2 or bits.shape[1] != values or not np.isin(bits, (0, 1)).all():
        raise PolicyError("reports", f"must be bits of shape (users, {values})")
    return bits.astype(np.bool_)
