"""A forecast is shown where it was right about the observed users; what is new next has limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.stats import betabinom

from fpmonitor.cli import run
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.estimate.forecast import back_test, expected_exposure, fit_power_law
from fpmonitor.estimate.unseen import unseen_share
from fpmonitor.spectrum import CountSpectrum
from tests.asked import answer_of
from tests.stored import stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

K, POPULATION = 10, 20_000


def zipf(values: int, power: float) -> NDArray[np.float64]:
    shares = np.arange(1.0, values + 1) ** -power
    return shares / shares.sum()


LAWS: dict[str, NDArray[np.float64]] = {
    "zipf": zipf(20_000, 1.2),
    "steep": zipf(300, 2),
    "few values": np.array([0.6, 0.3, 0.1]),
    "geometric": np.exp(-np.arange(200) / 20) / np.exp(-np.arange(200) / 20).sum(),
    "common and rare": np.append(np.full(4, 0.2), np.full(4_000, 0.2 / 4_000)),
}


def drawn(law: str, users: int, seed: int) -> CountSpectrum:
    return CountSpectrum.from_counts(np.random.default_rng(seed).multinomial(users, LAWS[law]))


@pytest.mark.parametrize("law", ["zipf", "steep", "few values"])
def test_a_forecast_that_passed_is_near_the_truth(law: str) -> None:
    """Nothing of this is promised; a model that is far off here would be of no use."""
    truth = statistical_exposure(LAWS[law], k=K, population=POPULATION)
    for seed in range(5):
        seen = drawn(law, 2_000, seed)
        test = back_test(seen, k=K, population=POPULATION, rng=np.random.default_rng(seed))
        assert test is not None
        assert test.fitted == 200
        assert test.passed
        said = expected_exposure(seen, fit_power_law(seen), k=K, population=POPULATION)
        assert said == pytest.approx(truth, abs=0.03)


def test_a_law_that_no_power_law_explains_has_no_forecast() -> None:
    """Groups of exactly k look rare in a tenth of the users; tails of a geometric law are light."""
    for seen in (CountSpectrum.from_mapping({K: 800, 4_000: 1}), drawn("geometric", 2_000, 0)):
        test = back_test(seen, k=K, population=POPULATION, rng=np.random.default_rng(0))
        assert test is not None
        assert not test.passed


def test_a_population_too_large_for_a_test_has_none() -> None:
    """A test has to reach as far as the forecast: from m to n as from a part to m."""
    seen = drawn("zipf", 2_000, 1)
    rng = np.random.default_rng(1)
    assert back_test(seen, k=K, population=20_000, rng=rng) is not None
    assert back_test(seen, k=K, population=21_000, rng=rng) is None
    larger = back_test(drawn("zipf", 20_000, 1), k=K, population=1_000_000, rng=rng)
    assert larger is not None
    assert larger.fitted == 400


def test_the_expectation_is_that_of_the_process() -> None:
    """Against the sum over beta-binomial counts, value by value and for the unseen ones."""
    seen, law = CountSpectrum.from_mapping({1: 7, 3: 2, 40: 1}), (0.3, 2.0)
    users, values, others = 53, 10, 499
    pairs = zip(seen.counts.tolist(), seen.values.tolist(), strict=True)
    masses = [(0, 2 + 0.3 * values), *((c, (c - 0.3) * many) for c, many in pairs)]
    expected = sum(
        mass / (users + 2) * betabinom.cdf(K - 2, others, count + 1 - 0.3, 2 + users - count + 0.3)
        for count, mass in masses
    )
    said = expected_exposure(seen, law, k=K, population=others + 1)
    assert said == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("law", LAWS)
def test_what_the_next_users_show_stays_within_its_limits_at_every_look(law: str) -> None:
    shares, misses = LAWS[law], 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        counts = np.zeros(shares.size, dtype=np.int64)
        wrong = False
        for more in (500, 500, 1_000, 2_000):
            counts += rng.multinomial(more, shares)
            found = unseen_share(CountSpectrum.from_counts(counts), delta=0.05)
            wrong |= not found.lower <= shares[counts == 0].sum() <= found.upper
        misses += wrong
    assert misses <= 4


def test_limits_of_what_is_new_say_something() -> None:
    found = unseen_share(drawn("zipf", 100_000, 3), delta=0.05)
    assert found.estimate == pytest.approx(LAWS["zipf"] @ (1 - LAWS["zipf"]) ** 100_000, abs=0.01)
    assert found.upper - found.lower < 0.04
    alone = unseen_share(CountSpectrum.from_mapping({2_000: 1}), delta=0.05)
    assert alone.lower == 0
    assert 0 < alone.upper < 0.15


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(2)
    names = rng.choice(LAWS["zipf"].size, 2_500, p=LAWS["zipf"])
    rows = [{"colour": f"c{name}", "size": "xl"} for name in names]
    return stored(tmp_path_factory.mktemp("forecast"), rows)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, float | None]:
    return dict(answer_of(capsys, "exposure", *arguments)[0])


def test_the_command_labels_a_model_as_no_promise(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["--db", db, "--apis", "colour", "-n", "25000"]
    told = asked(capsys, *question, "--forecast")
    assert told["forecast"] is not None
    assert told["forecast_fitted"] == 250
    assert told["unseen_lower"] <= told["unseen"] <= told["unseen_upper"]  # type: ignore[operator]
    plain = asked(capsys, *question)
    assert {name: told[name] for name in plain} == plain
    assert run(["exposure", *question, "--forecast", "--format", "table"]) == 0
    assert "not promised" in capsys.readouterr().out
    far = asked(capsys, "--db", db, "--apis", "colour", "-n", "10M", "--forecast")
    assert far["forecast"] is None
    assert far["unseen"] is not None


@pytest.mark.parametrize(
    ("before", "more"),
    [(["--for-others"], []), ([], ["--bias", "1.2"]), ([], ["--missing", "exposed"])],
)
def test_a_forecast_is_refused_where_it_would_tell_or_mislead(
    db: str, before: list[str], more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["exposure", "--db", db, "--apis", "colour", "--forecast", *more]
    assert run([*before, *arguments]) == 2
    assert "--forecast" in capsys.readouterr().err
