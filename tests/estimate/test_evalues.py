"""E-values of windows: their mean, the share of wrong passes without end, and false alarms."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import special, stats

from fpmonitor.decide.evidence import needed_evidence
from fpmonitor.estimate.evalues import (
    WindowTest,
    go_on,
    log_best,
    log_mean,
    log_share,
    taken_in,
    window_test,
)
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

K, POPULATION, BUDGET, DELTA = 10, 2000, 0.05, 0.05
USERS = 2000


def e_values(users: int = USERS, population: int = POPULATION) -> WindowTest:
    return window_test(users=users, k=K, population=population, budget=BUDGET, log_terms=(8.0, 8.0))


def spectrum_of(rng: np.random.Generator, rare: int, users: int = USERS) -> CountSpectrum:
    """So many users with values of their own, and values of many users."""
    common = rng.multinomial(users - rare, np.full(6, 1 / 6))
    return CountSpectrum.from_counts(np.concatenate([np.ones(rare, dtype=np.int64), common]))


def test_the_shares_of_all_windows_add_up_to_one() -> None:
    far = 10**6
    rest = 1 / (2.11 * math.log(far))  # the integral from `far` on is above the sum from there
    total = math.fsum(math.exp(log_share(number)) for number in range(1, far - 1))
    assert 0.99 < total + rest <= 1
    both = math.fsum(
        math.exp(-needed_evidence(1.0, place=place, successes=0)) for place in range(-9999, 10000)
    )
    assert 0.9 < both <= 1


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("population", [POPULATION, 20 * POPULATION])
def test_the_mean_of_an_e_value_is_at_most_one_at_the_budget(ratio: float, population: int) -> None:
    rng = np.random.default_rng(4)
    test = e_values(population=population)
    p = ratio * K / population
    exposed = float(exposure_probability(np.array([p]), k=K, population=population)[0])
    # Values at the threshold as far as they go, and values of one user each for the rest.
    values = min(math.floor(BUDGET / (p * exposed)), math.floor(0.9 / p))
    rare = BUDGET - values * p * exposed
    law = np.append(np.full(values, p), [rare, 1 - values * p - rare])
    within, above = [], []
    for _ in range(400):
        counts = rng.multinomial(USERS, law)
        alone = np.ones(counts[values], dtype=np.int64)
        spectrum = CountSpectrum.from_counts(np.concatenate([counts[:values], alone, counts[-1:]]))
        within.append(math.exp(test.log_within(spectrum)))
        above.append(math.exp(test.log_above(spectrum)))
    for values_of_e in (within, above):
        spread = np.std(values_of_e) / math.sqrt(len(values_of_e))
        assert np.mean(values_of_e) <= 1 + 4 * spread


@pytest.mark.long
def test_an_e_value_is_nowhere_above_the_average_over_all_thinnings() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        counts = rng.integers(1, 12, rng.integers(5, 20)).tolist()
        users = sum(counts)
        if users < 23:
            continue
        test = window_test(users=users, k=3, population=50, budget=0.3, log_terms=(3.0, 3.0))
        spectrum = CountSpectrum.from_counts(np.array(counts))
        for scored, log_e in (
            (test.within, test.log_within(spectrum)),
            (test.above, test.log_above(spectrum)),
        ):
            assert scored is not None
            base = scored.base
            phi = np.zeros(users + 1)
            known = base.phi()[: users + 1]
            phi[: known.size] = known
            poly = np.ones(1)
            for count in counts:
                chosen = special.binom(count, np.arange(count + 1))
                poly = np.convolve(poly, chosen * np.exp(base.sign * phi[: count + 1]))
            r = np.arange(users + 1)
            weights = stats.poisson.pmf(r, base.mean) / special.binom(users, r)
            assert log_e <= math.log(weights @ poly) - base.bound + 1e-9


def test_of_passes_without_end_few_are_wrong_and_good_windows_pass() -> None:
    rng = np.random.default_rng(6)
    test = e_values()
    pools = {
        exposure: np.array(
            [
                test.log_within(spectrum_of(rng, rare))
                for rare in rng.binomial(USERS, exposure * BUDGET, 300)
            ]
        )
        for exposure in (0.4, 1.001)
    }
    shares, found = [], []
    for _ in range(20):
        bad = rng.random(2000) < 0.3
        evidence = np.where(bad, rng.choice(pools[1.001], 2000), rng.choice(pools[0.4], 2000))
        passes = wrong = 0
        for place, (nats, is_bad) in enumerate(zip(evidence, bad, strict=True)):
            if nats >= needed_evidence(DELTA, place=place, successes=passes):
                passes, wrong = passes + 1, wrong + int(is_bad)
        shares.append(wrong / max(passes, 1))
        found.append((passes - wrong) / (~bad).sum())
    assert np.mean(shares) <= DELTA
    assert np.mean(found) > 0.9


def test_the_best_looking_of_many_windows_passes_no_more_often() -> None:
    """By the order of asking the best window would be the first; by the calendar it is not."""
    rng = np.random.default_rng(7)
    test = e_values()
    wrong = {"order": 0, "calendar": 0}
    for _ in range(300):
        rare = rng.binomial(USERS, 1.001 * BUDGET, 200)
        best = int(rare.argmin())
        nats = test.log_within(spectrum_of(rng, int(rare[best])))
        wrong["order"] += nats >= needed_evidence(DELTA, place=0, successes=0)
        wrong["calendar"] += nats >= needed_evidence(DELTA, place=best, successes=0)
    assert wrong["order"] > 2 * DELTA * 300
    assert wrong["calendar"] <= DELTA * 300


def test_runs_raise_no_alarm_within_the_budget_and_find_what_no_window_shows() -> None:
    rng = np.random.default_rng(8)
    users = 300
    test = e_values(users=users, population=1000)

    def pool(exposure: float) -> NDArray[np.float64]:
        drawn = rng.binomial(users, exposure * BUDGET, 500)
        return np.array([test.log_above(spectrum_of(rng, int(rare), users)) for rare in drawn])

    def windows_to_alarm(evidence: NDArray[np.float64], threshold: float) -> int:
        run = [0.0]
        for number, nats in enumerate(rng.choice(evidence, 300), start=1):
            run = go_on(run, [float(nats)])
            if log_mean(run) >= math.log(threshold):
                return number
        return 300

    within, above = pool(1.0), pool(1.5)
    assert np.mean([windows_to_alarm(within, 20) for _ in range(40)]) > 20
    assert np.mean([windows_to_alarm(above, 3650) for _ in range(40)]) < 30
    # No window of these is by itself as improbable as that.
    assert max(above) < math.log(3650 / DELTA)


def test_evidence_of_windows_is_taken_from_runs_and_added_up_from_the_best_of_them_on() -> None:
    rng = np.random.default_rng(9)
    evidence = rng.normal(0, 3, (40, 5))
    runs = [[0.0] * 5]
    for window in evidence:
        runs.append(go_on(runs[-1], list(window)))
    found = [taken_in(run, before) for before, run in itertools.pairwise(runs)]
    assert np.allclose(found, evidence, atol=1e-6)
    assert (np.array(found) < evidence).all()
    prices = [math.log(5)] * 5
    of_starts = [log_mean(list(evidence[start:].sum(axis=0))) for start in range(40)]
    assert log_best(evidence.tolist(), prices) == pytest.approx(max(of_starts))
    assert log_best(evidence.tolist(), prices) <= log_mean(runs[-1])


def test_users_who_come_again_raise_no_more_alarms_where_their_windows_are_not_added_up() -> None:
    """All users are forgotten after two windows, and come again."""
    rng = np.random.default_rng(10)
    test = window_test(users=USERS, k=K, population=POPULATION, budget=BUDGET, log_terms=(2.0, 2.0))
    rare = rng.binomial(USERS, BUDGET, 500)
    pool = np.array([test.log_above(spectrum_of(rng, int(number))) for number in rare])
    limit, windows, runs, kept = 20.0, 160, 60, 2
    alarms = {"all": 0, "not forgotten": 0}
    for _ in range(runs):
        evidence = np.tile(rng.choice(pool, kept), windows // kept)
        run, starts = [0.0], set()
        for last, nats in enumerate(evidence, start=1):
            run = go_on(run, [float(nats)])
            known = evidence[max(0, last - kept) : last, None].tolist()
            if log_best(known, [0.0]) >= math.log(limit):
                sums = np.cumsum(known[::-1])
                starts.add(last - 1 - int(sums.argmax()))
            alarms["all"] += log_mean(run) >= math.log(limit)
        alarms["not forgotten"] += len(starts)
    assert alarms["all"] > runs * windows / limit
    assert alarms["not forgotten"] <= runs * windows / limit


def test_too_few_users_are_no_evidence() -> None:
    test = e_values(users=22)
    spectrum = CountSpectrum.from_counts([22])
    assert test.log_within(spectrum) < -1e6
    assert test.log_above(spectrum) < -1e6
