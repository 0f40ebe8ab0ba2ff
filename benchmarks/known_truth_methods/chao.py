"""Chao1: how many values are unseen, and what share of the users they have, put in evenly.

Chao and Jost 2015, "Estimating diversity and entropy profiles via discovery rates of new species":
observed shares are shrunk by `1 - lambda (1 - c/m)^m`, so that they leave room for unseen values.
"""

import math

import numpy as np

from fpmonitor.estimate.exposure import exposure_probability

NAME = "Chao"
PROMISES = False


def answer(sample):
    counts, values = sample.spectrum.counts, sample.spectrum.values
    users = sample.users
    once, twice = (int(values[counts == c].sum()) for c in (1, 2))
    if twice:
        unseen = (users - 1) / users * once**2 / (2 * twice)
        rare = (users - 1) * once / ((users - 1) * once + 2 * twice)
    else:
        unseen = (users - 1) / users * once * (once - 1) / 2
        rare = (users - 1) * (once - 1) / ((users - 1) * (once - 1) + 2) if once else 0.0
    missing = once / users * rare
    shares = counts / users
    left = (shares * (1 - shares) ** users) @ values
    shrunk = shares * (1 - (missing / left if left > 0 else 0.0) * (1 - shares) ** users)
    exposed = exposure_probability(shrunk, k=sample.k, population=sample.population)
    total = float((shrunk * exposed) @ values)
    if unseen >= 1 and missing > 0:
        each = min(missing / math.ceil(unseen), 1.0)
        total += missing * float(
            exposure_probability(np.array([each]), k=sample.k, population=sample.population)[0]
        )
    return None, min(total, 1.0), None
