"""A Gaussian copula of the attributes, averaged over users of the sample.

As in Rocher, Hendrickx and de Montjoye 2019, "Estimating the success of re-identifications in
incomplete datasets using generative models": shares of single attributes as observed, dependence by
correlations of normal scores. The probability of a user's value is the mass of a box, integrated by
sequential conditioning (Geweke, Hajivassiliou and Keane). One attribute alone is the plug-in.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from fpmonitor.estimate.exposure import exposure_probability

NAME = "copula average"
PROMISES = False
_USERS, _POINTS, _EDGE = 400, 200, 1e-12


def answer(sample):
    rng = np.random.default_rng(0)
    weights = sample.counts / sample.users
    low, high = (np.empty(sample.codes.shape) for _ in range(2))
    for j, codes in enumerate(sample.codes.T):
        shares = np.bincount(codes, weights)
        ends = np.cumsum(shares)
        low[:, j], high[:, j] = (ends - shares)[codes], ends[codes]
    scores = ndtri(np.clip((low + high) / 2, _EDGE, 1 - _EDGE))
    chosen = rng.choice(weights.size, _USERS, p=weights / weights.sum())
    shares = _box(low[chosen], high[chosen], _correlation(scores, weights), rng)
    exposed = exposure_probability(shares, k=sample.k, population=sample.population)
    return None, float(exposed.mean()), None


def _correlation(scores, weights):
    centred = scores - weights @ scores
    covariance = (centred * weights[:, np.newaxis]).T @ centred
    spread = np.sqrt(np.maximum(np.diag(covariance), _EDGE))
    found = covariance / np.outer(spread, spread)
    np.fill_diagonal(found, 1.0)
    values, vectors = np.linalg.eigh(found)
    found = (vectors * np.maximum(values, 1e-3)) @ vectors.T
    scale = np.sqrt(np.diag(found))
    return found / np.outer(scale, scale)


def _box(low, high, correlation, rng):
    """Mass of boxes: ends as shares of each attribute, shape (users, attributes)."""
    factor = np.linalg.cholesky(correlation)
    users, attributes = low.shape
    ends = [ndtri(np.clip(end, _EDGE, 1 - _EDGE))[:, np.newaxis, :] for end in (low, high)]
    mass = np.ones((users, _POINTS))
    drawn = np.zeros((users, _POINTS, attributes))
    for j in range(attributes):
        shift = drawn[:, :, :j] @ factor[j, :j]
        below, above = (ndtr((end[:, :, j] - shift) / factor[j, j]) for end in ends)
        mass *= np.maximum(above - below, 0)
        point = below + rng.random((users, _POINTS)) * (above - below)
        drawn[:, :, j] = ndtri(np.clip(point, _EDGE, 1 - _EDGE))
    return np.clip(mass.mean(axis=1), 1e-300, 1.0)
