"""Expected logarithms of linear forms of a Dirichlet distribution, by one-dimensional integrals.

Write the distribution `P` as independent gamma variables `G` over their sum `S`. For a linear form
`L = w.P` the sum `W = w.G = S L` has the Laplace transform `Phi(t) = prod (1 + w_x t)^-alpha_x`,
and `S` has `(1 + t)^-A` with `A = sum alpha`. As `S` and `L` are independent, Frullani's integral
gives

    E log L   = int ((1 + t)^-A - Phi(t)) dt / t
    E L log L = int (E L (1 + t)^(-A-1) + Phi'(t) / A) dt / t

by the trapezoidal rule in `log t`, which converges geometrically. `Phi` may also average over
random weights: independent bits keep it a product. "LDP metrics", Table 10.2, has integrals of
`a - 1` dimensions for a general prior, and Beta integrals for symmetric ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Integrand = Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]

_STEP = 0.3  # error about exp(-pi^2 / step) = 5e-15
_BLOCK = 24
_NEGLIGIBLE = 1e-17
# e^709 is the largest double.
_LAST_LOG = 680.0
_BLOCK_CELLS = 30_000  # stays in the cache


def expected_logs(weights: NDArray[np.float64], alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """`E log (w.P)` of each row of weights, `P` Dirichlet.

    Args:
        weights: Shape (r, a), not negative, each row with a positive entry.
        alpha: Parameters of the Dirichlet distribution, shape (a,), positive.

    Returns:
        float64, shape (r,), nats, to about 1e-12.
    """
    total = alpha.sum()

    def parts(rows: NDArray[np.float64]) -> Integrand:
        def at(t: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            transform = _transform(1 + rows[:, :, None] * t, alpha)
            return np.exp(-total * np.log1p(t))[None, :], transform

        return at

    scales, unit, inverse = _distinct_rows(weights, alpha)
    found = _over_rows(unit, parts, total)
    # E log(s L) = log s + E log L.
    return np.asarray(found[inverse] + np.log(scales), dtype=np.float64)


def expected_xlogx(weights: NDArray[np.float64], alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """`E (w.P) log (w.P)` of each row of weights; arguments, result, errors as `expected_logs`."""
    total = alpha.sum()

    def parts(rows: NDArray[np.float64]) -> Integrand:
        mean = rows @ alpha / total

        def at(t: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            factors = 1 + rows[:, :, None] * t
            transform = _transform(factors, alpha)
            slope = ((rows * alpha / total)[:, None, :] @ np.reciprocal(factors))[:, 0, :]
            return np.outer(mean, np.exp(-(total + 1) * np.log1p(t))), transform * slope

        return at

    scales, unit, inverse = _distinct_rows(weights, alpha)
    found = _over_rows(unit, parts, total)[inverse]
    means = weights @ alpha / total
    # E s L log(s L) = s E L log L + E(s L) log s.
    return np.asarray(scales * found + means * np.log(scales), dtype=np.float64)


def expected_xlogx_of_bits(
    high: float, low: float, probability: float, alpha: NDArray[np.float64]
) -> float:
    """`E L log L` for `L = w.P` with independent random weights, `P` Dirichlet.

    Args:
        high, low: The two weights; `probability * high + (1 - probability) * low` must be 1.
        probability: That a weight is `high`, in (0, 1).
        alpha: Parameters of the Dirichlet distribution, shape (a,), positive.
    """
    total = alpha.sum()
    distinct, multiplicities = np.unique(alpha, return_counts=True)

    def at(t: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        log_high = -np.outer(distinct, np.log1p(high * t))
        log_low = -np.outer(distinct, np.log1p(low * t))
        factor = probability * np.exp(log_high) + (1 - probability) * np.exp(log_low)
        slope = probability * high * np.exp(log_high) / (1 + high * t)
        slope += (1 - probability) * low * np.exp(log_low) / (1 + low * t)
        transform = np.exp(multiplicities @ np.log(factor))
        falling = transform * ((multiplicities * distinct) @ (slope / factor)) / total
        return np.exp(-(total + 1) * np.log1p(t))[None, :], falling[None, :]

    return float(_log_trapezoid(at, total * max(high, 1.0))[0])


def _over_rows(
    rows: NDArray[np.float64],
    parts: Callable[[NDArray[np.float64]], Integrand],
    total: float,
) -> NDArray[np.float64]:
    """Integrate for each row, a block of rows at a time."""
    size = max(1, _BLOCK_CELLS // (rows.shape[1] * _BLOCK))
    return np.concatenate(
        [
            _log_trapezoid(parts(rows[start : start + size]), total)
            for start in range(0, len(rows), size)
        ]
    )


def _log_trapezoid(integrand: Integrand, scale: float) -> NDArray[np.float64]:
    """Integral over `d log t` of a difference of two falling functions that vanishes like `t`."""
    first = 0.5 * math.log(_NEGLIGIBLE) - math.log1p(scale)
    plus, minus = integrand(np.exp(np.array([first])))
    # Left of the first node the integrand is linear in t up to its own square.
    total = _STEP / math.expm1(_STEP) * (plus - minus)[:, 0]
    steps = np.arange(_BLOCK) * _STEP
    for block in range(int((_LAST_LOG - first) / (_BLOCK * _STEP))):
        plus, minus = integrand(np.exp(first + block * _BLOCK * _STEP + steps))
        total = total + _STEP * (plus - minus).sum(axis=1)
        if max(plus[:, -1].max(), minus[:, -1].max()) < _NEGLIGIBLE:
            return np.asarray(total, dtype=np.float64)
    raise PolicyError(
        "prior",
        "is too close to the corners of the simplex for double precision",
        hint="use larger parameters",
    )


def _distinct_rows(
    weights: NDArray[np.float64], alpha: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Scale rows to a largest weight of 1, and merge those that differ by a symmetry of the prior.

    Returns the scales (r,), the distinct rows, and for each row the number of its distinct one.
    """
    scales = weights.max(axis=1)
    unit = weights / scales[:, None]
    for parameter in np.unique(alpha):
        alike = np.flatnonzero(alpha == parameter)
        unit[:, alike] = np.sort(unit[:, alike], axis=1)
    rows, inverse = np.unique(unit, axis=0, return_inverse=True)
    return scales, rows, inverse.reshape(-1)


def _transform(factors: NDArray[np.float64], alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """`prod_x factor_x^-alpha_x` over the middle axis, with few logarithms."""
    chunk = 8 if factors.max() < 1e30 else 1  # eight factors stay finite together
    log_transform = np.zeros((factors.shape[0], factors.shape[2]))
    for parameter in np.unique(alpha):
        alike = factors[:, alpha == parameter] if alpha.max() > alpha.min() else factors
        products = np.multiply.reduceat(alike, np.arange(0, alike.shape[1], chunk), axis=1)
        log_transform -= parameter * np.log(products).sum(axis=1)
    return np.exp(log_transform)
