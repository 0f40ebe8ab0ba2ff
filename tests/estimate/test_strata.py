"""Users drawn by known shares: of the population's law, nobody twice, as many as there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.estimate.exposure import biased_exposure, statistical_exposure, steepest_fall
from fpmonitor.estimate.looks import Drawing, decision_criteria, serving_of
from fpmonitor.estimate.strata import draw_by_shares, expected_users
from fpmonitor.policy import NO_DEPARTURE, Strata
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


@pytest.mark.long
def test_so_many_users_are_drawn_as_the_scarcest_stratum_allows() -> None:
    rng = np.random.default_rng(7)
    for over, share in ((0.6, 0.5), (0.75, 0.5), (0.9, 0.5)):
        strata = (np.arange(100_000) >= over * 100_000).astype(np.intp)
        kept, binding = draw_by_shares(strata, np.array([share, 1 - share]), rng)
        assert binding == 1
        assert abs(len(kept) / ((1 - over) * 100_000 / (1 - share)) - 1) < 0.03


@pytest.mark.parametrize("expected", [5, 400, 99_000])
def test_all_that_may_serve_a_draw_has_delta_once(expected: int) -> None:
    """Whatever number is drawn; and the number that was expected has next to all of it."""
    numbers = np.unique(np.geomspace(2, 10**10, 4000).astype(int)).tolist()
    served = {serving_of(users, 0.0, expected)[0] for users in numbers} - {None}
    assert sum(1 / serving.bases for serving in served if serving) <= 1
    if expected > 23:
        serving, users, _ = serving_of(expected, 0.0, expected)
        assert (serving.bases, users) == (17 / 16, expected)  # type: ignore[union-attr]


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=5), st.integers(0, 2**32))
def test_as_many_as_are_expected_can_nearly_always_be_drawn(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(len(sizes)))
    expected = expected_users(np.array(sizes), shares)
    most = min(size / share for size, share in zip(sizes, shares, strict=True))
    assert expected <= max(most, 1)
    if min(sizes) > 10_000:
        assert expected > 0.97 * most
    wanted = rng.multinomial(expected, shares, size=200)
    assert expected < 20 or (wanted <= np.array(sizes)).all(axis=1).mean() > 0.6


@pytest.mark.long
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


def shares_of(weights: np.ndarray, wide: float, left_out: int) -> Strata:
    """Limits around the shares of strata; nobody counts of the first ones."""
    ends = np.array([weights / (1 + wide), np.minimum(weights * (1 + wide), 0.999)]).T
    shares = {str(stratum): tuple(limits) for stratum, limits in enumerate(ends.tolist())}
    return Strata(by="kind", shares=shares, left_out=tuple(list(shares)[:left_out]))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 4), st.sampled_from([0.0, 0.02, 0.3]), st.integers(0, 1), st.integers(0, 2**32)
)
def test_no_population_within_the_limits_of_the_shares_exposes_more_or_fewer(
    strata: int, wide: float, left_out: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    within = rng.dirichlet(np.full(30, rng.choice([0.05, 1.0])), strata)
    if rng.random() < 0.5:  # values of about k/n, where the exposure falls at its steepest
        within = np.full((strata, 900), 1 / 900)
    weights = rng.dirichlet(np.ones(strata)) * 0.9 + 0.1 / strata
    shares = shares_of(weights / (1 + wide) ** rng.uniform(-1, 1, strata), wide * 1.5, left_out)
    known = np.array(list(shares.limits.values()))
    weights = np.clip(weights / weights.sum(), *known.T)
    if abs(weights.sum() - 1) > 1e-9:
        return
    truth = statistical_exposure(weights @ within, k=K, population=N)
    drawn = np.array(list(shares.drawn().values())) @ within
    factors, unobserved, _ = shares.departure()
    most, least = (
        float(drawn @ biased_exposure(drawn, k=K, population=N, factors=factors, sign=sign))
        for sign in (-1, 1)
    )
    assert least - steepest_fall(K, N) * unobserved - 1e-9 <= truth <= most + unobserved + 1e-9


@pytest.mark.long
@pytest.mark.parametrize(
    ("shares", "left_out", "drawn"),
    [
        ({"common": 0.948, "rare": 0.032, "unseen": 0.02}, ("unseen",), 0.032 / 0.98),
        ({"common": (0.449, 0.949), "rare": 0.051, "other": (0.0005, 0.5)}, (), 0.034),
    ],
)
def test_whom_nobody_observes_and_what_shares_may_be_keep_a_set_from_being_allowed(
    shares: dict[str, object], left_out: tuple[str, ...], drawn: float
) -> None:
    """Two in a hundred are never observed; or there are more rare values than among those drawn."""
    known = Strata(by="kind", shares=shares, left_out=left_out)  # type: ignore[arg-type]
    assert known.drawn()["rare"] == pytest.approx(drawn, rel=1e-3)
    rare = 0.052 if left_out else 0.051
    there, here = (
        np.append(np.full(20, (1 - share) / 20), np.full(200_000, share / 200_000))
        for share in (rare, drawn)
    )
    assert BUDGET < statistical_exposure(there, k=K, population=N) < 1.05 * BUDGET
    plain, bounded = (
        decision_criteria(
            users=M,
            k=K,
            population=N,
            budget=BUDGET,
            delta=DELTA,
            universe=1,
            drawing=Drawing(departure=departure),
        ).allow
        for departure in (NO_DEPARTURE, known.departure())
    )
    rng = np.random.default_rng(7)
    spectra = [CountSpectrum.from_counts(rng.multinomial(M, here)) for _ in range(RUNS)]
    assert np.mean([plain.holds(each, 1) for each in spectra]) > 0.9
    assert np.mean([bounded.holds(each, 1) for each in spectra]) <= DELTA
