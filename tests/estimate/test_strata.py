"""Users drawn by known shares: of the population's law, nobody twice, as many as there are."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.estimate.strata import draw_by_shares
from fpmonitor.spectrum import CountSpectrum

M = N = 10_000
K, BUDGET, DELTA = 10, 0.05, 0.05
RUNS = 100


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), min_size=2, max_size=5), st.integers(0, 2**32))
def test_users_are_drawn_once_until_a_stratum_has_none_left(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(len(sizes)))
    strata = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    kept, binding = draw_by_shares(strata, shares, rng)
    assert np.array_equal(kept, np.unique(kept))
    drawn = np.bincount(strata[kept], minlength=len(sizes))
    assert drawn[binding] == sizes[binding]


def test_so_many_users_are_drawn_as_the_scarcest_stratum_allows() -> None:
    rng = np.random.default_rng(7)
    for over, share in ((0.6, 0.5), (0.75, 0.5), (0.9, 0.5)):
        strata = (np.arange(100_000) >= over * 100_000).astype(np.intp)
        kept, binding = draw_by_shares(strata, np.array([share, 1 - share]), rng)
        assert binding == 1
        assert abs(len(kept) / ((1 - over) * 100_000 / (1 - share)) - 1) < 0.03


def test_a_stratum_that_is_rare_in_the_sample_alone_is_allowed_without_its_share_only() -> None:
    """One in ten of the population, and four in ten of the sample, share the common values."""
    common, rare = 20, 200_000
    within = np.concatenate([np.full(common, 1 / common), np.zeros(rare)])
    shares = np.array([0.9, 0.1])  # of the common values, of those that are partly rare
    exposed = 1.005 * BUDGET / shares[1]
    other = np.concatenate([np.full(common, (1 - exposed) / common), np.full(rare, exposed / rare)])
    laws = np.array([within, other])
    assert BUDGET < statistical_exposure(shares @ laws, k=K, population=N) < 1.02 * BUDGET
    sizes = (M * np.array([0.98, 0.02])).astype(int)
    strata = np.repeat([0, 1], sizes)
    rng = np.random.default_rng(7)
    plain, stratified = [], []
    for _ in range(RUNS):
        values = np.concatenate(
            [rng.choice(laws.shape[1], size, p=law) for size, law in zip(sizes, laws, strict=True)]
        )
        kept, _ = draw_by_shares(strata, shares, rng)
        for users, allowed in ((values, plain), (values[kept], stratified)):
            counts = np.unique(users, return_counts=True)[1]
            test = decision_criteria(
                users=len(users),
                k=K,
                population=N,
                budget=BUDGET,
                delta=DELTA,
                universe=1,
            ).allow
            allowed.append(test.holds(CountSpectrum.from_counts(counts), 1))
    assert np.mean(plain) > 0.9
    assert np.mean(stratified) <= DELTA
