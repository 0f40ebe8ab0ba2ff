"""The certificate is valid for every value probability, sharp, and never too safe."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.certificate import (
    THINNING_SHARE,
    certificate,
)
from fpmonitor.estimate.chernoff import TailBound, sharpest_bound
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.poisson import poisson_laws, useful_mean
from fpmonitor.estimate.thinning import thinning_mean
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.margins import Sign

SIZES = [  # users, k, population, budget
    (300, 5, 150, 0.1),
    (2_000, 3, 2_000, 0.003),
    (2_000, 10, 200_000, 0.05),
    (50_000, 300, 50_000, 0.02),
    (50_000, 2, 1_000, 0.01),
    (1_000, 1_000, 1_000, 0.05),
]
EXTREME = [
    (2, 10**6, 10**10, 0.001),
    (10**8, 2, 10**10, 1e-6),
    (10**8, 10**6, 10**8, 0.05),
    (10**8, 10**6, 10**6, 0.99),
    (10**8, 2, 2, 0.01),
    (10, 500, 1000, 0.3),
]


@functools.cache
def bounds_of(
    size: tuple[int, int, int, float], delta: float = 0.05, *, monotone: bool = True
) -> list[TailBound]:
    users, k, population, budget = size
    mean = thinning_mean(users, THINNING_SHARE * delta)
    mean = useful_mean(mean, k=k, population=population, budget=budget)
    laws = poisson_laws(mean=mean, k=k, population=population, budget=budget)
    signs: tuple[Sign, Sign] = (-1, 1)
    return [
        sharpest_bound(laws, sign=sign, budget=budget, log_term=-math.log(delta), monotone=monotone)
        for sign in signs
    ]


def log_moments(bound: TailBound, tilt: float, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """`ln E exp(sign tilt C h(C)) / (mu p)`, by summing the Poisson law of every count."""
    counts = np.arange(1, bound.weights.size)
    excess = np.expm1(bound.sign * tilt * counts * bound.weights[1:])
    used = np.flatnonzero(excess)
    law = stats.poisson.pmf(counts[used], (bound.mean * p)[:, np.newaxis])
    moment = np.maximum(law @ excess[used], 1e-13 - 1)
    return np.log1p(moment) / (bound.mean * p)


@pytest.mark.parametrize(
    ("size", "monotone"), [*((size, True) for size in SIZES), (SIZES[2], False)]
)
def test_the_moment_bound_holds_between_the_grid_points(
    size: tuple[int, int, int, float], monotone: bool
) -> None:
    _, k, population, _ = size
    threshold = k / population
    rng = np.random.default_rng(7)
    p = np.concatenate(
        [
            np.exp(rng.uniform(np.log(1e-7 * threshold), 0, 300)),
            np.clip(threshold * np.exp(rng.uniform(-1, 1, 300)), 0, 1),
            1 - np.exp(rng.uniform(-16, 0, 50)),
            [threshold, 1.0],
        ]
    )
    exposure = exposure_probability(p, k=k, population=population)
    for bound in bounds_of(size, monotone=monotone):
        for tilt, envelope in list(zip(bound.tilts, bound.envelopes, strict=True))[::8]:
            allowed = np.interp(exposure, *envelope)
            assert np.all(log_moments(bound, tilt, p) <= allowed + 1e-15), (bound.sign, tilt)


def test_the_moment_bound_is_tight_somewhere() -> None:
    bound = bounds_of((2_000, 10, 200_000, 0.05))[0]
    p = np.geomspace(1e-6, 1, 4000)
    exposure = exposure_probability(p, k=10, population=200_000)
    for tilt, envelope in zip(bound.tilts[10:30:5], bound.envelopes[10:30:5], strict=True):
        gap = np.interp(exposure, *envelope) - log_moments(bound, tilt, p)
        assert gap.min() < 1e-3 * np.abs(envelope[1]).max()


@pytest.mark.parametrize("size", SIZES)
def test_weights_make_the_score_grow_with_the_api_set(size: tuple[int, int, int, float]) -> None:
    for bound in bounds_of(size, monotone=True):
        assert np.all(np.diff(bound.weights) <= 0)
        assert bound.weights[0] == bound.weights[1] == 1
        assert bound.weights[-1] == 0


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    delta=st.sampled_from([1e-9, 0.05]),
)
@settings(deadline=None, max_examples=40)
def test_limits_are_shares_in_order_and_widen_with_smaller_delta(
    counts: list[int], delta: float
) -> None:
    spectrum = CountSpectrum.from_counts(counts)
    limits, wider = CERTIFICATES[delta], CERTIFICATES[1e-9]
    lower, upper = limits.lower(spectrum), limits.upper(spectrum)
    assert 0 <= lower <= upper <= 1
    assert wider.upper(spectrum) >= upper - 0.05  # other weights: not exactly nested
    assert wider.lower(spectrum) <= lower + 0.05


CERTIFICATES = {
    delta: certificate(users=2_500, k=5, population=2_500, delta=delta) for delta in (1e-9, 0.05)
}


@pytest.mark.parametrize(("size", "delta"), list(zip(EXTREME, [0.3, 1e-9] * 3, strict=True)))
def test_extreme_sizes_give_limits_that_are_numbers(
    size: tuple[int, int, int, float], delta: float
) -> None:
    users, k, population, budget = size
    limits = certificate(users=users, k=k, population=population, delta=delta, budget=budget)
    for counts in ([1], [users], [users // 2, users // 2], [1] * min(users, 500)):
        spectrum = CountSpectrum.from_counts(counts)
        assert 0 <= limits.lower(spectrum) <= limits.upper(spectrum) <= 1


def test_few_users_prove_nothing() -> None:
    limits = certificate(users=2, k=2, population=100, delta=0.01)
    for counts in ([1], [2], [1, 1]):
        spectrum = CountSpectrum.from_counts(counts)
        assert limits.upper(spectrum) == pytest.approx(1, abs=0.01)
        assert limits.lower(spectrum) < 0.5


def test_users_that_are_all_alike_are_safe_and_all_different_are_exposed() -> None:
    limits = certificate(users=100_000, k=10, population=1_000_000, delta=0.05)
    kept = int(limits.mean)
    assert limits.upper(CountSpectrum.from_counts([kept])) < 0.001
    assert limits.lower(CountSpectrum.from_mapping({1: kept})) > 0.9


def test_a_spectrum_of_more_users_than_observed_is_refused() -> None:
    with pytest.raises(InputError, match="users"):
        CERTIFICATES[0.05].upper(CountSpectrum.from_counts([2_501]))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("users", 1),
        ("users", 2.5),
        ("k", 1),
        ("population", 4),
        ("delta", 0.0),
        ("delta", 1.0),
        ("budget", 0.0),
        ("budget", math.nan),
    ],
)
def test_bad_arguments_are_named(argument: str, value: float) -> None:
    question = {"users": 100, "k": 5, "population": 100, "budget": 0.1, "delta": 0.05}
    with pytest.raises(PolicyError) as caught:
        certificate(**{**question, argument: value})  # type: ignore[arg-type]
    assert caught.value.argument == argument
