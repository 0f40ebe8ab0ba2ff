"""Answers for pitman_yor.py, a line of JSON each: null where the fit fails."""

import json
import sys
import warnings
from functools import lru_cache

import numpy as np
from dataless import DatalessError, PYPExtrapolation
from scipy.special import gammaln

warnings.filterwarnings("ignore")


def told_apart(counts, values, sizes):
    """Distinct values by users, in subsamples of so many."""
    users = int(counts @ values)
    found = []
    for size in sizes:
        others = users - counts
        out = np.where(
            others >= size,
            np.exp(
                gammaln(others + 1)
                - gammaln(np.maximum(others - size, 0) + 1)
                - gammaln(users + 1)
                + gammaln(users - size + 1)
            ),
            0.0,
        )
        found.append(float((1 - out) @ values) / size)
    return np.clip(found, 0, 1)


@lru_cache(maxsize=1)  # several populations are asked of the same users
def fitted(counts, values):
    counts, values = np.array(counts, float), np.array(values, float)
    sizes = np.unique(np.geomspace(10, counts @ values, 12).astype(int))
    return PYPExtrapolation(sizes, correctness=told_apart(counts, values, sizes))._get_model()


for line in sys.stdin:
    asked = json.loads(line)
    try:
        model = fitted(tuple(asked["counts"]), tuple(asked["values"]))
        share = float(model.kanon_violations(asked["population"], asked["k"]))
        share = share if np.isfinite(share) else None
    except (DatalessError, ValueError, ArithmeticError):
        share = None
    print(json.dumps(share), flush=True)
