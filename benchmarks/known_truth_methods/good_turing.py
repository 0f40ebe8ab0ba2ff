"""Good-Turing: the share of users whose value was seen at most t + 1 times, themselves included.

On average that is the probability `A` that the next user has a value that m - 1 others were seen to
have at most t times. One user more or less changes the share by at most (t + 2) / m, so McDiarmid's
inequality limits A; and `Q <= A max_p F(p) / P(Bin(m - 1, p) <= t)`. t follows from m, n and k
alone: the one for which an exposure of 5 % that is observed gives the lowest limit.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import bdtr

from fpmonitor.estimate.exposure import exposure_probability

NAME = "Good-Turing"
PROMISES = True
_USUAL = 0.05


def answer(sample):
    users = sample.users
    rare = round((sample.k - 1) * users / sample.population)  # as rare as the exposed values
    estimate = sample.spectrum.users_below(rare + 2) / users
    t, ratio = _threshold(users, sample.k, sample.population, sample.delta)
    seen = sample.spectrum.users_below(t + 2) / users
    return None, estimate, min(ratio * (seen + _margin(t, users, sample.delta)), 1.0)


def _margin(t, users, delta):
    return (t + 2) * math.sqrt(math.log(1 / delta) / (2 * users))


@lru_cache
def _threshold(users, k, population, delta):
    p = np.geomspace(1e-3 / population, 1, 4000)
    exposed = exposure_probability(p, k=k, population=population)
    most = max(4, math.ceil(4 * k * users / population))
    found = []
    for t in sorted({int(t) for t in np.geomspace(1, most + 1, 60)}):
        seen = bdtr(t - 1, users - 1, p)
        matters = exposed > 1e-12
        with np.errstate(divide="ignore"):
            ratio = float((exposed[matters] / seen[matters]).max())
        found.append((ratio * (_USUAL + _margin(t - 1, users, delta)), t - 1, ratio))
    _, t, ratio = min(found)
    return t, ratio
