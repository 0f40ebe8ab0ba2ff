"""Shuffled reports: the published level is never below the exact one of the hardest mechanism."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from fpmonitor.errors import PolicyError
from fpmonitor.ldp.shuffling import shuffled_epsilon


def exact_delta(local: float, users: int, level: float) -> float:
    """Hockey-stick divergence of binary randomised response on 1,0,...,0 and 0,0,...,0, shuffled.

    What is seen is the number of ones: a user with 1 among the others, who all have 0.
    """
    keep = np.exp(local) / (1 + np.exp(local))
    ones = np.arange(users + 1)
    others = scipy.stats.binom.pmf(np.arange(users), users - 1, 1 - keep)
    padded = [np.append(others, 0), np.insert(others, 0, 0)]
    one = keep * padded[1] + (1 - keep) * padded[0]
    zero = (1 - keep) * padded[1] + keep * padded[0]
    assert ones.size == one.size
    return float(
        max(
            np.maximum(one - np.exp(level) * zero, 0).sum(),
            np.maximum(zero - np.exp(level) * one, 0).sum(),
        )
    )


@pytest.mark.parametrize("users", [2_000, 20_000, 200_000])
@pytest.mark.parametrize("local", [0.2, 1.0, 2.0, 4.0])
def test_the_level_covers_randomised_response_exactly(local: float, users: int) -> None:
    delta = 1e-6
    level = shuffled_epsilon(local, users, delta)
    assert exact_delta(local, users, level) <= delta


def test_the_level_is_worth_having_and_grows_with_epsilon_and_falls_with_users() -> None:
    levels = [shuffled_epsilon(local, 100_000, 1e-6) for local in np.linspace(0.1, 5, 30)]
    assert levels == sorted(levels)
    assert levels[5] < 0.2
    fewer = [shuffled_epsilon(2.0, users, 1e-6) for users in (10, 1_000, 10_000, 10**6)]
    assert fewer == sorted(fewer, reverse=True)
    assert fewer[0] == 2.0, "few users hide nobody"


@pytest.mark.parametrize(
    ("epsilon", "users", "delta"), [(0.0, 10, 0.1), (1.0, 0, 0.1), (1.0, 10, 0.0)]
)
def test_numbers_out_of_range_are_refused(epsilon: float, users: int, delta: float) -> None:
    with pytest.raises(PolicyError):
        shuffled_epsilon(epsilon, users, delta)
