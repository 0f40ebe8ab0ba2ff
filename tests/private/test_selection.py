"""Selection: no promise below the truth, the best set found, and nothing promised above budget."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fpmonitor.cli import run
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.private import knowledge as knowledge_module
from fpmonitor.private import selection as selection_module
from fpmonitor.private.client import reports_for
from fpmonitor.private.counts import split_spectrum
from fpmonitor.private.files import content_digest
from fpmonitor.private.folder import make_pilot
from fpmonitor.private.group import SealedChannel
from fpmonitor.private.joining import chain_of_parts, count_joined
from fpmonitor.private.knowledge import Knowledge, ParetoFront, Promise, best_points
from fpmonitor.private.selection import (
    PromisedSet,
    Selection,
    compare_with_joint,
    describe,
    heaviest_set,
    select_values,
    utility_of,
)
from fpmonitor.private.study import CollectionRequest, Study, check_ask, first_ask
from fpmonitor.safe_files import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.private.counts import ApiSet, Counts
    from fpmonitor.private.knowledge import Setting

NAMES = ("a", "b", "c", "d", "e")
ROUNDING = 1e-9


def study_of(apis: Sequence[str], **numbers: float) -> Study:
    terms = {"population": 1000, "k": 3, "budget": 0.2, "largest_set": len(apis)} | numbers
    return Study(name="test", apis=tuple(apis), minimum_batch=2, **terms)  # type: ignore[arg-type]


def subsets(apis: Sequence[str], largest: int | None = None) -> list[ApiSet]:
    return [
        one
        for size in range(1, (largest or len(apis)) + 1)
        for one in itertools.combinations(apis, size)
    ]


def counts_of(rows: np.ndarray, apis: Sequence[str], sets: Iterable[ApiSet]) -> Counts:
    return {
        one: Counter(
            tuple(f"={value}" for value in row)
            for row in rows[:, [apis.index(api) for api in one]].tolist()
        )
        for one in sets
    }


def exposed_share(rows: np.ndarray, places: Sequence[int], k: int) -> float:
    sizes = np.unique(rows[:, places], axis=0, return_counts=True)[1]
    return float(sizes[sizes < k].sum() / len(rows))


@st.composite
def tables(draw: st.DrawFn, most_apis: int = 4) -> np.ndarray:
    """Rows of users: skewed values, and columns that depend on each other."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    users, apis = draw(st.integers(6, 80)), draw(st.integers(2, most_apis))
    values = rng.geometric(rng.uniform(0.2, 0.9, apis), (users, apis))
    copied = rng.random((users, apis)) < rng.uniform(0, 0.9)
    return np.where(copied, values[:, :1], values).clip(max=6)


@settings(deadline=None, max_examples=12)
@given(tables(), st.integers(2, 5), st.integers(1, 3), st.integers(0, 2**32))
def test_no_promise_of_the_observed_users_is_below_the_truth(
    rows: np.ndarray, k: int, level: int, seed: int
) -> None:
    apis = NAMES[: rows.shape[1]]
    known = subsets(apis, min(level, len(apis)))
    counts = dict(counts_of(rows, apis, known))
    lost = known[seed % len(known)]
    if len(lost) > 1:  # some messages never arrived
        counts[lost] = Counter(dict(list(counts[lost].items())[1:]))
    knowledge = Knowledge(study_of(apis, k=k), counts, "fixed")
    for one in subsets(apis):
        truth = exposed_share(rows, [apis.index(api) for api in one], k)
        for promise in knowledge.rules(one, beaten=True):
            assert promise.upper >= truth - ROUNDING, (one, promise)


@settings(deadline=None, max_examples=30)
@given(tables(), st.integers(1, 2), st.booleans(), st.integers(0, 2**32))
def test_the_search_finds_what_trying_all_sets_finds(
    rows: np.ndarray, level: int, weighted: bool, seed: int
) -> None:
    apis = NAMES[: rows.shape[1]]
    rng = np.random.default_rng(seed)
    terms = study_of(apis, k=2, budget=float(rng.uniform(0.05, 0.6)))
    weights = dict(zip(apis, rng.integers(0, 5, len(apis)).tolist(), strict=True))
    weights = weights if weighted else None
    knowledge = Knowledge(terms, counts_of(rows, apis, subsets(apis, level)), "fixed")
    chosen, best = heaviest_set(knowledge, weights)
    most = max(
        (utility_of(one, weights) for one in subsets(apis) if knowledge.is_promised(one)), default=0
    )
    assert best
    assert utility_of(chosen, weights) >= most
    assert knowledge.promise(chosen).upper <= terms.budget


@pytest.mark.parametrize("seed", range(12))
def test_among_many_apis_the_search_misses_no_heavier_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    apis = tuple("abcdefg")
    counts = {
        (api,): {
            (f"={value}",): int(users)
            for value, users in enumerate(rng.multinomial(2000, rng.dirichlet(np.full(size, 0.5))))
            if users
        }
        for api, size in zip(apis, rng.integers(2, 25, 7), strict=True)
    }
    weights = dict(zip(apis, rng.integers(1, 30, 7).tolist(), strict=True))
    knowledge = Knowledge(study_of(apis, k=5, budget=0.15, largest_set=1), counts, "fixed")
    chosen, best = heaviest_set(knowledge, weights)
    promised = [one for one in subsets(apis) if knowledge.is_promised(one)]
    assert best
    assert utility_of(chosen, weights) >= max(utility_of(one, weights) for one in promised)


def test_the_shares_of_delta_of_all_sets_add_up_to_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[float] = []
    for module, name in (
        (knowledge_module, "ranked_tails"),
        (knowledge_module, "certified_limits"),
    ):
        spend = getattr(module, name)

        def noted(
            *arguments: object, delta: float, spend: object = spend, **others: object
        ) -> object:
            spent.append(delta)
            return spend(*arguments, delta=delta, **others)  # type: ignore[operator]

        monkeypatch.setattr(module, name, noted)
    rows = np.random.default_rng(2).geometric(0.5, (90, 4))
    apis = NAMES[:4]
    study = study_of(apis, largest_set=3, delta=0.08)
    knowledge = Knowledge(study, counts_of(rows, apis, subsets(apis, 3)), "statistical")
    for one in subsets(apis, 3):
        knowledge.tails(one)
        knowledge.limit(one)
    assert sum(spent) == pytest.approx(0.08)


def test_the_share_of_delta_of_a_chosen_set_makes_up_for_all_that_might_have_been(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent: list[float] = []

    def noted(*_: object, delta: float, **__: object) -> tuple[float, float]:
        spent.append(delta)
        return 0.0, 1.0

    monkeypatch.setattr(selection_module, "certified_limits", noted)
    apis = NAMES[:4]
    study = study_of(apis, largest_set=1, delta=0.08)
    nothing = Promise(upper=1.0, rule="top-r")
    for one in subsets(apis):
        promised = PromisedSet(apis=one, fixed=nothing, statistical=nothing, entropy_upper_bits=1)
        compare_with_joint(study, promised, {("=1",) * len(one): 50})
    assert sum(spent) == pytest.approx(0.08)


@settings(deadline=None, max_examples=20)
@given(tables(), st.integers(0, 2**32))
def test_joined_parts_have_the_joint_values_that_trying_all_finds(
    rows: np.ndarray, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    apis = NAMES[: rows.shape[1]]
    parts = [apis[at : at + 2] for at in range(len(apis) - 1)]
    kept = [
        (part, [t for t in tuples if rng.random() < 0.8])
        for part, tuples in counts_of(rows, apis, parts).items()
    ]
    possible = itertools.product(*({f"={value}" for value in column} for column in rows.T))
    joined = sum(
        all(tuple(row[apis.index(api)] for api in part) in tuples for part, tuples in kept)
        for row in possible
    )
    assert count_joined(kept, 10**6) == joined
    assert count_joined(kept, joined - 1) is None


def test_a_chain_of_parts_covers_the_set_and_prefers_parts_that_add_little() -> None:
    bits = {
        **{(api,): 2.0 for api in "abc"},
        ("a", "b"): 2.0,
        ("a", "c"): 4.0,
        ("b", "c"): 2.5,
        (): 0.0,
    }
    parts = [part for part in bits if part]
    assert chain_of_parts(("a", "b", "c"), parts, bits.__getitem__) == [("a", "b"), ("b", "c")]


def test_the_front_holds_the_best_way_to_keep_values() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        rows = rng.geometric(0.35, (60, 3)).clip(max=6)
        terms = study_of(NAMES[:3], k=2, budget=0.99)
        knowledge = Knowledge(terms, counts_of(rows, NAMES, subsets(NAMES[:3], 1)), "fixed")
        shares = [np.sort(np.unique(c, return_counts=True)[1] / 60)[::-1] for c in rows.T]
        by_hand = min(
            sum(1 - one[:r].sum() for one, r in zip(shares, kept, strict=True))
            + knowledge.cell * math.prod(kept)
            for kept in itertools.product(*(range(1, one.size + 1) for one in shares))
        )
        if by_hand <= 0.99:
            found = knowledge.front(NAMES[:3]).exposure(knowledge.cell)
            assert found == pytest.approx(by_hand, abs=1e-12)


def test_points_left_out_for_being_many_are_admitted() -> None:
    sizes = np.arange(1.0, 5001)
    front = best_points(sizes, 1 - sizes / 6000, cell=1e-9, most=1.0)
    assert isinstance(front, ParetoFront)
    assert not front.whole
    assert front.sizes.size <= 2000
    assert {front.sizes[0], front.sizes[-1]} == {1.0, 5000.0}


JOINT = np.random.default_rng(5).dirichlet(np.full(36, 0.25)).reshape(4, 3, 3)


@pytest.mark.long
def test_all_promises_of_a_population_hold_together() -> None:
    """300 users, delta of 20 %: in as many runs may any promise of any set be below the truth."""
    apis = NAMES[:3]
    terms = study_of(apis, population=900, k=3, delta=0.2, budget=0.3, largest_set=2)
    rng = np.random.default_rng(7)
    truth = {
        one: statistical_exposure(
            JOINT.sum(tuple(set(range(3)) - {apis.index(api) for api in one})).ravel(),
            k=3,
            population=900,
        )
        for one in subsets(apis)
    }
    failed, sharp, runs = 0, 0, 50
    for _ in range(runs):
        drawn = rng.choice(36, 300, p=JOINT.ravel())
        rows = np.column_stack(np.unravel_index(drawn, JOINT.shape))
        knowledge = Knowledge(terms, counts_of(rows, apis, subsets(apis, 2)), "statistical")
        promises = {one: knowledge.limit(one).upper for one in knowledge.asked}
        promises[apis] = knowledge.promise(apis).upper
        failed += any(promises[one] < truth[one] for one in truth)
        sharp += promises[apis] < 0.9
    assert stats.binom.sf(failed - 1, runs, 0.2) > 1e-3
    assert sharp > runs / 2


def test_the_order_in_which_counts_arrive_changes_nothing() -> None:
    rows = np.random.default_rng(2).geometric(0.5, (90, 3))
    counts = counts_of(rows, NAMES, subsets(NAMES[:3], 2))
    turned = {
        one: dict(reversed(list(tuples.items()))) for one, tuples in reversed(list(counts.items()))
    }
    for setting in ("fixed", "statistical"):
        terms = study_of(NAMES[:3], largest_set=2)
        assert select_values(terms, counts, setting=setting) == select_values(
            terms, turned, setting=setting
        )


def test_a_redacted_and_a_missing_report_are_values_of_their_own() -> None:
    spectrum = split_spectrum({("=x", "=y"): 4, ("redacted", "=y"): 3, ("=x", "redacted"): 2}, 10)
    assert dict(zip(spectrum.counts.tolist(), spectrum.values.tolist(), strict=True)) == {
        1: 6,
        4: 1,
    }


def test_the_joint_of_the_analyst_stands_beside_the_promise() -> None:
    apis = NAMES[:3]
    terms = study_of(apis, population=900, k=3, largest_set=1)
    rng = np.random.default_rng(11)
    rows = np.column_stack(np.unravel_index(rng.choice(36, 600, p=JOINT.ravel()), JOINT.shape))
    counts = counts_of(rows, apis, subsets(apis))
    marginals = {one: counts[one] for one in subsets(apis, 1)}
    both = {one: Knowledge(terms, marginals, one) for one in ("fixed", "statistical")}
    found = compare_with_joint(terms, describe(both, ("a", "b")), counts["a", "b"])
    assert found.empirical == exposed_share(rows, [0, 1], 3)
    assert found.empirical <= found.fixed.upper
    truth = statistical_exposure(JOINT.sum(2).ravel(), k=3, population=900)
    assert found.lower <= truth <= found.upper < 1
    assert found.apis == ("a", "b")
    with pytest.raises(UndecidableError, match="reports"):
        compare_with_joint(terms, found, {("=1", "=2"): 1})


def test_counts_that_do_not_fit_the_study_are_refused() -> None:
    rows = np.random.default_rng(3).geometric(0.5, (20, 3))
    terms = study_of(NAMES[:3], largest_set=1)
    singles = counts_of(rows, NAMES, subsets(NAMES[:3], 1))
    with pytest.raises(InputError, match="2 APIs together"):
        select_values(terms, counts_of(rows, NAMES, subsets(NAMES[:3], 2)))
    with pytest.raises(InputError, match="nothing for c"):
        select_values(terms, {one: singles[one] for one in [("a",), ("b",)]})
    with pytest.raises(InputError, match="out of order"):
        select_values(study_of(NAMES[:3]), {**singles, ("b", "a"): {("=1", "=1"): 20}})
    with pytest.raises(InputError, match="setting"):
        select_values(terms, singles, setting="both")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="weight of a"):
        select_values(terms, singles, setting="fixed", weights={"a": -1})
    with pytest.raises(UndecidableError, match="at least 2 reports"):
        select_values(terms, {(api,): {} for api in terms.apis})


def pilot_of(folder: Path, terms: Study, holders: Sequence[Mapping[str, str]]) -> Path:
    """A pilot after round 1."""
    study = make_pilot(folder / "pilot", terms)
    channel = SealedChannel(folder / "pilot")
    channel(first_ask(study), holders)
    channel.close()
    return folder / "pilot"


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pilot after round 1 of 60 users."""
    rng = np.random.default_rng(4)
    terms = Study(
        name="t", apis=NAMES[:3], population=5000, k=2, budget=0.25, largest_set=2,
        minimum_batch=20,
    )  # fmt: skip
    holders = [
        {api: f"={value}" for api, value in zip(terms.apis, row, strict=True)}
        for row in rng.geometric(0.7, (60, 3)).clip(max=3).tolist()
    ]
    return pilot_of(tmp_path_factory.mktemp("stores"), terms, holders)


@pytest.mark.parametrize("reader", ["analyst", "curator"])
def test_the_command_writes_an_ask_that_users_may_answer(
    pilot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], reader: str
) -> None:
    ask = tmp_path / "ask.json"
    arguments = ["--setting", "fixed", "--next", reader, "-o", str(ask)]
    code = run(["private", "select", str(pilot), *arguments])
    printed = json.loads(capsys.readouterr().out)
    assert code == 0
    assert printed["level"] == "marginals"
    assert printed["recommended"]["fixed"]["upper"] <= 0.25
    rules = {one["rule"]: one["upper"] for one in printed["rules"]["fixed"]}
    assert {"top-r", "theorem 2", "theorem 3", "sharpened theorem 2"} <= rules.keys()
    assert min(rules.values()) == printed["recommended"]["fixed"]["upper"]
    written = CollectionRequest.read(ask)
    study = Study.read(pilot / "study.json")
    check_ask(study, written)
    assert (written.round, written.recipient) == (2, reader)
    if reader == "analyst":
        assert written.sets == (tuple(printed["recommended"]["apis"]),)
        assert written.promise is not None
        assert written.promise.digest == content_digest(typed(printed, Selection, "selection"))
        assert written.promise.upper == printed["recommended"]["fixed"]["upper"]
    else:
        assert {len(one) for one in written.sets} == {2}
        assert set(written.redact) <= set(study.apis)


def test_a_budget_that_nothing_meets_ends_with_3_and_no_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = Study(name="t", apis=("a",), population=50, k=9, budget=0.001, minimum_batch=2)
    pilot = pilot_of(tmp_path, terms, [{"a": f"={user % 7}"} for user in range(30)])
    ask = tmp_path / "ask.json"
    for reader in ("analyst", "curator"):
        assert run(["private", "select", str(pilot), "--next", reader, "-o", str(ask)]) == 3
        printed, said = capsys.readouterr()
        assert json.loads(printed)["recommended"]["apis"] == []
        assert "nothing left to request" in said
    assert not ask.exists()


def test_an_epoch_without_counts_is_an_error(
    pilot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = tmp_path / "ask.json"
    assert run(["private", "select", str(pilot), "-o", str(ask), "--epoch", "9"]) == 2
    assert "answers lie in epoch 1 (" in (said := capsys.readouterr().err)
    assert "none in epoch 9" in said
    assert not ask.exists()


def test_select_finds_the_epoch_that_has_answers_or_names_those_that_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = Study(
        name="t", apis=NAMES[:2], population=5000, k=2, budget=0.9, minimum_batch=20
    )  # fmt: skip
    study = make_pilot(tmp_path / "pilot", terms)
    holders = [dict.fromkeys(terms.apis, f"={number % 3}") for number in range(60)]
    channel = SealedChannel(tmp_path / "pilot")
    command = ["private", "select", str(tmp_path / "pilot"), "--setting", "fixed"]
    assert run(command) == 2
    assert "the curator has no answers" in capsys.readouterr().err
    channel(first_ask(study, epoch=7), holders)
    assert run(command) == 0  # epoch 1 was asked, and nobody answered
    assert json.loads(capsys.readouterr().out)["recommended"]["fixed"]["upper"] <= 0.9
    channel(first_ask(study, epoch=8), holders[:40])
    assert run(command) == 2
    said = capsys.readouterr().err
    assert "epoch 7 (120 messages), epoch 8 (80 messages)" in said
    assert run([*command, "--epoch", "8"]) == 0
    first = tmp_path / "pilot" / "round-1.json"
    before = first.read_bytes()
    assert run([*command, "--epoch", "8", "-o", str(first)]) == 2
    assert "holds round 1 of epoch 1" in capsys.readouterr().err
    assert first.read_bytes() == before, "the request of another round is not written over"
    for _ in range(2):  # the request of one round may be written again
        assert run([*command, "--epoch", "8", "-o", str(tmp_path / "next.json")]) == 0
    channel.close()
    # An epoch that the store does not know begins with the first request, of the same study.
    opened = tmp_path / "epoch-9.json"
    first_of = [*command[:3], "--epoch", "9", "--next", "curator", "-o", str(opened)]
    for unused in (*("--decision", "--weights", "--redact", "--round"), "--setting"):
        assert run([*first_of, unused, "fixed" if unused == "--setting" else "9"]) == 2
        said = capsys.readouterr().err
        assert f"epoch 9 is new and has no answers for {unused};" in said
        assert "epochs that were asked: 1, 7, 8" in said
        assert not opened.exists()
    assert run(first_of) == 0
    assert "epoch 9 is a new collection" in capsys.readouterr().err
    assert opened.read_bytes() == first_ask(study, epoch=9).to_bytes()


@pytest.mark.parametrize("setting", ["fixed", "statistical"])
def test_long_values_are_joined_by_one_name_whatever_the_size_of_the_sets(setting: Setting) -> None:
    """They are sent as digests in sets of three, and in full in pairs."""
    study = Study(
        name="t", apis=NAMES[:4], population=2000, k=5, budget=0.6, largest_set=3
    )  # fmt: skip
    sets = (*((api,) for api in NAMES[:4]), ("a", "b", "c"), ("b", "d"))
    ask = CollectionRequest(
        study=study.id.hex(), epoch=1, round=1, recipient="curator", sets=sets
    )  # fmt: skip
    counts: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {apis: Counter() for apis in sets}
    rows = Counter[tuple[str, ...]]()
    for number in range(2000):
        long = f"={number % 40}" + "x" * 400
        values = ("=" + str(number % 2), long, f"={number % 40}", f"={number // 40 % 12}")
        user = dict(zip(NAMES, values, strict=False))
        rows[tuple(user.values())] += 1
        for index, tokens in reports_for(study, ask, user):
            counts[sets[index]][tokens] += 1
    known = Knowledge(study, counts, setting)
    kept = [one for one in known.rules(NAMES[:4]) if one.rule == "join"]
    assert {len(one) for one in counts["a", "b", "c"]} == {3}
    assert any(token.startswith("#") for _, token, _ in counts["a", "b", "c"])
    assert not any(token.startswith("#") for token, _ in counts["b", "d"])
    exposed = sum(users for users in rows.values() if users < study.k) / 2000
    assert exposed > 0.5
    assert [one.upper >= exposed for one in kept] == [True]


def test_selection_needs_no_cryptography() -> None:
    code = "import sys, fpmonitor.private.selection; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
