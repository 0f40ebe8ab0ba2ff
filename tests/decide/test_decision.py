"""The decision: its promise against the law that the fixture logs were drawn from, and its file."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpmonitor.decide.deciding import exact_criterion
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError, PolicyError, UndecidableError, UnknownNameError
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.monitor import Monitor
from fpmonitor.policy import Policy
from fpmonitor.render.decisions import decision as decision_output
from fpmonitor.spectrum import CountSpectrum
from tests.decided import decided

if TYPE_CHECKING:
    from conftest import FixtureDistribution

LOGS = str(Path(__file__).parents[2] / "fixtures" / "logs")
CANDIDATES = (
    "Navigator.hardwareConcurrency",
    "Navigator.maxTouchPoints",
    "Navigator.userAgent",
    "Screen.height",
    "Screen.width",
    "WebGLRenderingContext.getParameter#UNMASKED_RENDERER_WEBGL",
    "Window.devicePixelRatio",
)
PAIR = ("Screen.width", "Window.devicePixelRatio")


@pytest.fixture(scope="module")
def database(fixture_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(fixture_database, tmp_path_factory.mktemp("decision")))


@pytest.mark.parametrize(
    ("population", "budget"), [(10_000, 0.05), (20_000, 0.05), (20_000, 0.1), (1_000_000, 0.02)]
)
def test_allowed_sets_are_within_the_budget_and_blocked_ones_above_it(
    database: Path, fixture_law: FixtureDistribution, population: int, budget: float
) -> None:
    with Monitor(database) as monitor:
        decision = monitor.decide(k=10, population=population, budget=budget, candidates=CANDIDATES)
    assert decision.complete
    assert decision.allow
    for apis in decision.allow:
        assert fixture_law.true_exposure(apis, 10, population) <= budget, apis
    for apis in decision.block:
        assert fixture_law.true_exposure(apis, 10, population) > budget, apis


@pytest.mark.long
def test_limits_of_single_sets_enclose_the_truth(
    database: Path, fixture_law: FixtureDistribution
) -> None:
    sets = [(api,) for api in CANDIDATES] + [CANDIDATES[:2], CANDIDATES[:4], CANDIDATES]
    for population in (5_000, 20_000, 500_000):
        with Monitor(database) as monitor:
            reports = monitor.exposure(sets, k=10, population=population, delta=0.001)
        for report in reports:
            truth = fixture_law.true_exposure(report.apis, 10, population)
            assert report.lower <= truth <= report.upper, (report.apis, population)


def test_unbiased_estimate_is_near_the_truth(
    database: Path, fixture_law: FixtureDistribution
) -> None:
    with Monitor(database) as monitor:
        reports = monitor.exposure([(api,) for api in CANDIDATES], k=10, population=10_000)
    for report in reports:
        truth = fixture_law.true_exposure(report.apis, 10, 10_000)
        assert report.unbiased == pytest.approx(truth, abs=0.01)


def test_verdict_of_every_subset_follows_from_the_lists(database: Path) -> None:
    with Monitor(database) as monitor:
        decision = monitor.decide(k=10, population=20_000, budget=0.05, candidates=CANDIDATES)
    for mask in range(1, 2 ** len(CANDIDATES)):
        apis = {api for i, api in enumerate(CANDIDATES) if mask >> i & 1}
        allowed = any(apis <= set(members) for members in decision.allow)
        blocked = any(apis >= set(members) for members in decision.block)
        assert not (allowed and blocked)
        verdict, because = decision.verdict(apis)
        assert verdict == ("allow" if allowed else "block" if blocked else "undecided")
        assert because or verdict == "undecided"


def test_more_users_decide_more(database: Path, tmp_path: Path) -> None:
    with Monitor(database) as monitor:
        many = monitor.decide(k=10, population=20_000, budget=0.05, candidates=CANDIDATES)
    with Monitor(tmp_path / "few.duckdb", create=True) as monitor:
        monitor.ingest([f"{LOGS}/browsers-1.jsonl.gz"])
        few = monitor.decide(k=10, population=20_000, budget=0.05, candidates=CANDIDATES)
    allowed_by_many = sum(many.verdict(apis)[0] == "allow" for apis in few.allow)
    assert allowed_by_many == len(few.allow)
    assert max(map(len, many.allow)) >= max(map(len, few.allow), default=0)


def test_decision_survives_its_file(database: Path, tmp_path: Path) -> None:
    with Monitor(database) as monitor:
        decision = monitor.decide(k=10, budget=0.05, candidates=CANDIDATES, setting="sample")
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(decision.to_json()))
    assert read_decision(path) == decision


@pytest.mark.parametrize("member", ["policy", "allow", "setting", "data", "complete"])
def test_a_decision_without_a_member_is_refused(database: Path, member: str) -> None:
    with Monitor(database) as monitor:
        content: dict[str, Any] = monitor.decide(
            k=10, budget=0.05, candidates=CANDIDATES[:2], setting="sample"
        ).to_json()
    del content[member]
    with pytest.raises(InputError, match=member):
        Decision.from_json(content)


def test_gate_refuses_an_api_that_was_no_candidate(database: Path) -> None:
    with Monitor(database) as monitor:
        decision = monitor.decide(k=10, budget=0.05, candidates=CANDIDATES[:2], setting="sample")
    with pytest.raises(UnknownNameError, match="Screen"):
        decision.verdict(["Screen.height"])


def test_forecast_names_more_users_for_every_undecided_set(database: Path) -> None:
    with Monitor(database) as monitor:
        decision = monitor.decide(
            k=10, population=20_000, budget=0.05, candidates=PAIR, forecast=True
        )
    assert decision.users_needed is not None
    assert len(decision.users_needed) == len(decision.undecided) > 0
    assert all(needed is None or needed > 20_000 for needed in decision.users_needed)
    assert decision.users_range is not None
    assert len(decision.users_range) == len(decision.undecided)
    for low, high in decision.users_range:
        assert low is None or 20_000 < low <= (high or 10**8)
    assert Decision.from_json(decision.to_json()) == decision
    shown = " ".join(decision_output(decision).text("table").split())
    assert "if one looks as they come in (all looks are covered)" in shown
    with pytest.raises(InputError, match="users_range"):
        Decision.from_json(decision.to_json() | {"users_range": []})


def test_two_users_cannot_decide(tmp_path: Path) -> None:
    log = tmp_path / "two.csv"
    log.write_text("user,a\nu,1\nw,2\n")
    with Monitor(tmp_path / "two.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        with pytest.raises(UndecidableError, match="too few"):
            monitor.decide(k=10, population=1000, budget=0.05, delta=0.05)


def test_weights_choose_the_recommended_set(database: Path) -> None:
    with Monitor(database) as monitor:
        decision = monitor.decide(
            k=10,
            population=20_000,
            budget=0.05,
            candidates=CANDIDATES,
            weights={"Screen.width": 100.0},
        )
    assert "Screen.width" in decision.recommended


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    k=st.integers(2, 12),
    percent=st.integers(1, 99),
)
def test_exact_criterion_compares_whole_users_with_the_written_budget(
    counts: list[int], k: int, percent: int
) -> None:
    spectrum = CountSpectrum.from_counts(counts)
    if spectrum.users < k:
        return
    policy = Policy(
        k=k, population=spectrum.users, budget=percent / 100, delta=None, candidates=("a",)
    )
    exposed = spectrum.users_below(k)
    within = exposed * 100 <= percent * spectrum.users
    assert exact_criterion(policy, spectrum.users).holds(spectrum, 1) is within
    assert empirical_exposure(spectrum, k) == exposed / spectrum.users


def test_an_exact_criterion_is_no_longer_than_its_users() -> None:
    """A decision of somebody else may ask for a k of 10^10, and a table of it takes 80 GB."""
    policy = Policy(k=10**10, population=10**10, budget=0.5, delta=None, candidates=("a",))
    spectrum = CountSpectrum.from_counts([3, 1])
    assert not exact_criterion(policy, 4).holds(spectrum, 1)


@pytest.mark.parametrize(
    ("numbers", "argument"),
    [
        ({"k": 1}, "k"),
        ({"k": True}, "k"),
        ({"population": 5}, "population"),
        ({"budget": 0.0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 1e-320}, "delta"),
        ({"candidates": ()}, "candidates"),
    ],
)
def test_policy_names_the_number_that_is_out_of_range(
    numbers: dict[str, Any], argument: str
) -> None:
    good: dict[str, Any] = {
        "k": 10,
        "population": 100,
        "budget": 0.1,
        "delta": 0.05,
        "candidates": ("a",),
    }
    with pytest.raises(PolicyError) as raised:
        Policy(**{**good, **numbers})
    assert raised.value.argument == argument


def test_a_list_of_before_allows_nothing_on_users_of_now() -> None:
    made = decided("abcd", allow=["ab", "ac"], block=["ad"], undecided=["bc"])
    asked: list[tuple[str, ...]] = []

    def answer(apis: str, verdict: str, *, only_listed: bool = False) -> tuple[str, list[str]]:
        def judge(members: tuple[str, ...]) -> Any:
            asked.append(members)
            return verdict

        told = made.answer_of_now(apis, judge, users=77, only_listed=only_listed)
        assert ("77 users" in told["reason"]) == (told["verdict"] == "undecided")
        return told["verdict"], told["because"]

    assert answer("a", "undecided") == ("undecided", ["a"])
    assert answer("bc", "allow") == ("allow", ["b", "c"])
    assert answer("a", "allow", only_listed=True) == ("allow", ["a", "b"])
    assert answer("a", "undecided", only_listed=True) == ("unknown", [])
    assert answer("bc", "allow", only_listed=True) == ("unknown", [])
    assert asked == [("a",), ("b", "c"), ("a", "b"), ("a", "b"), ("a", "c")]
    assert answer("abd", "allow") == ("block", ["a", "d"])  # that holds at every look
    assert answer("", "block")[0] == "allow"
    exact = replace(made, setting="sample")  # of other users
    assert exact.answer_of_now("ad", lambda _: "allow", users=77)["verdict"] == "allow"
