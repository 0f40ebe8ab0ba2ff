"""Where the possible values are declared, their shares have exact limits, at every look."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.estimate.declared import (
    Looked,
    _log_sets,
    declared_limits,
    declared_share_limits,
    share_limits_once,
)
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing
from fpmonitor.spectrum import CountSpectrum
from tests.asked import answer_of
from tests.stored import stored

LAWS = {
    "two tiers": [0.22, 0.78],
    "four tiers": [0.028, 0.194, 0.604, 0.174],
    "one tier just unsafe": [0.0995, 0.3005, 0.6],
    "twenty alike": [0.05] * 20,
    "rare ones unseen": [0.9, 0.0999, *[0.00001] * 10],
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("k", "population"), [(5, 1_000), (200, 2_000), (10_000, 100_000)])
def test_limits_hold_at_all_looks(law: str, k: int, population: int) -> None:
    """At a tenth of these looks alone a limit for one look would miss more often."""
    shares = np.array(LAWS[law])
    truth = statistical_exposure(shares, k=k, population=population)
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        counts, wrong = np.zeros(shares.size, dtype=np.int64), False
        for more in (50, 50, 100, 200, 400, 800):
            counts += rng.multinomial(more, shares)
            lower, upper = declared_limits(
                CountSpectrum.from_counts(counts),
                shares.size,
                k=k,
                population=population,
                looked=Looked(0.05),
            )
            wrong |= not lower <= truth <= upper
        missed += wrong
    assert missed <= 5


def test_ruling_out_a_share_is_an_e_value() -> None:
    """Its mean over all counts is at most 1: what the proof rests on."""
    users, share = 40, 0.3
    counts = np.arange(users + 1)
    lower, upper = declared_share_limits(counts, users, math.log(20))
    missed = (share < lower) | (share > upper)
    chances = [math.comb(users, c) * share**c * (1 - share) ** (users - c) for c in counts.tolist()]
    assert np.array(chances)[missed].sum() <= 1 / 20
    assert missed.any()
    assert np.all(lower <= counts / users)
    assert np.all(counts / users <= upper)
    least, most = share_limits_once(counts, users, math.log(20))
    missed_once = (share < least) | (share > most)
    assert np.array(chances)[missed_once].sum() <= 1 / 20
    assert missed_once.sum() > missed.sum()  # one look is sharper


@pytest.mark.parametrize("law", LAWS)
def test_limits_of_one_look_hold(law: str) -> None:
    shares, wrong = np.array(LAWS[law]), 0
    truth = statistical_exposure(shares, k=200, population=2_000)
    for seed in range(200):
        counts = np.random.default_rng(seed).multinomial(800, shares)
        lower, upper = declared_limits(
            CountSpectrum.from_counts(counts),
            shares.size,
            k=200,
            population=2_000,
            looked=Looked(0.05, once=True),
        )
        wrong += not lower <= truth <= upper
    assert wrong <= 14


def test_nobody_counts_for_each_value_that_nobody_had() -> None:
    """Of 200 values two were seen: the others share what 5,000 users can have missed together."""
    seen = CountSpectrum.from_mapping({2_000: 1, 3_000: 1})
    for once in (False, True):
        asked = {"k": 1_000, "population": 10_000, "looked": Looked(0.05, once=once)}
        _, upper = declared_limits(seen, 200, **asked)
        assert 0 < upper < 0.01  # one by one they were 0.26
        _, closed = declared_limits(seen, 2, **asked)
        _, others = declared_limits(seen, 2, **asked, others=True)
        assert closed < 1e-6 < others < upper


def test_extremes_inside_an_interval_count() -> None:
    """`p F(p)` has its peak between the limits of the one value: both ends miss it."""
    seen = CountSpectrum.from_mapping({100: 1, 900: 1})
    _, upper = declared_limits(seen, 2, k=100, population=1_000, looked=Looked(0.05))
    rare = np.linspace(0.05, 0.15, 1_001)
    worst = max(
        statistical_exposure(np.array([p, 1 - p]), k=100, population=1_000) for p in rare.tolist()
    )
    assert upper >= worst - 1e-9


def test_more_values_than_declared_are_refused() -> None:
    seen = CountSpectrum.from_mapping({10: 3})
    with pytest.raises(InputError, match="support: 2 is smaller"):
        declared_limits(seen, 2, k=5, population=100, looked=Looked(0.05))


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    tiers = np.repeat(["a", "b", "c"], [300, 700, 1_000]).tolist()
    rows = [{"tier": tier, "colour": f"c{i % 7}"} for i, tier in enumerate(tiers)]
    return stored(tmp_path_factory.mktemp("declared"), rows)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[float, float]:
    [found] = answer_of(capsys, "exposure", *arguments)
    return found["lower"], found["upper"]


@pytest.mark.long
def test_a_declared_support_is_sharper_by_the_command(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["--db", db, "--apis", "tier", "--k", "10%", "-n", "100K"]
    plain = asked(capsys, *question)
    declared = asked(capsys, *question, "--support", "3")
    assert declared[0] == plain[0] == 0
    assert declared[1] < 0.001
    assert plain[1] > 0.007


def test_scores_have_the_rest_of_delta(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A support that says nothing leaves the limits of scores, at three quarters of delta."""
    arguments = ["--db", db, "--apis", "tier,colour", "--k", "5", "-n", "2000"]
    declared = asked(capsys, *arguments, "--support", str(10**9))
    limits = exposure_limits(
        users=2_000, k=5, population=2_000, delta=0.0375, drawing=Drawing(look="first")
    )
    counts = [
        sum(i % 7 == colour for i in range(start, end))
        for start, end in ((0, 300), (300, 1_000), (1_000, 2_000))
        for colour in range(7)
    ]
    assert declared == pytest.approx(limits.of(CountSpectrum.from_counts(np.array(counts)), 2))


@pytest.mark.parametrize("seen", [1, 2, 20, 100])
@pytest.mark.parametrize("values", [10**6, 10**12, 2**60, 10**30])
def test_every_set_of_values_that_nobody_had_has_its_level(values: int, seen: int) -> None:
    exact = math.log(math.comb(values, seen) * (values + 1))
    assert _log_sets(values, values - seen) == pytest.approx(exact, rel=1e-9)


def test_any_number_of_possible_values_has_an_answer(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["--db", db, "--apis", "tier,colour", "--k", "5", "-n", "2000", "--bounds"]
    many = asked(capsys, *question, "--support", str(10**20))
    assert many == pytest.approx(asked(capsys, *question, "--support", str(10**9)))
    for refused in (["--support", "9" * 400], ["--users-for", "1e-200"]):
        assert run(["exposure", *question, *refused]) == 2
        assert "must be at" in capsys.readouterr().err


def test_biased_samples_have_no_exact_limits(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["--db", db, "--apis", "tier", "-n", "100K", "--bias", "1.5"]
    assert asked(capsys, *question, "--support", "3") == asked(capsys, *question)
