"""The best of many APIs: proven against all borders, and its bound holds whenever it is stopped."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest

from fpmonitor.decide import best as best_module
from fpmonitor.decide import deciding
from fpmonitor.decide.best import BestSet, best_set
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.files import read_decision
from fpmonitor.decide.refinement import refinement_of
from fpmonitor.decide.search import Closures, Sought, search
from fpmonitor.decide.utility import recommend
from fpmonitor.errors import InputError
from fpmonitor.estimate.criterion import Criterion, Score
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.export.lists import api_actions
from fpmonitor.policy import Policy
from fpmonitor.population.memory import MemorySource
from fpmonitor.render.decisions import decision as decision_output
from fpmonitor.render.figures import of_conflicts
from tests.decided import decide_on as decide

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


def devices(seed: int, *, columns: int, rows: int) -> MemorySource:
    """Columns that follow a device, each with noise of its own."""
    rng = np.random.default_rng(seed)
    device = (rng.pareto(0.8, rows) + 1).astype(int) % 40
    codes = [
        np.where(
            rng.random(rows) < rng.uniform(0.6, 1),
            device * int(rng.integers(1, 99)) % values,
            rng.integers(0, values, rows),
        )
        for values in rng.choice([1, 2, 2, 3, 4, 6, 10, 30], columns)
    ]
    return MemorySource([f"a{place:02d}" for place in range(columns)], codes)


def question(seed: int) -> tuple[MemorySource, Criterion, dict[str, float]]:
    """Eleven columns, limits that fall with the size, and weights of which some are 0."""
    source, rng = devices(seed, columns=11, rows=1500), np.random.default_rng(seed)
    weights = np.r_[1, np.sort(rng.random(9))[::-1], 0]
    weights[1] = 1
    limits = np.sort(rng.uniform(0.03, 0.3) * 1500 * (1 - 0.7 * rng.random(12)))[::-1]
    utility = rng.choice([0.0, 0.1, 1, 1, 2, 3.5, 7], 11)
    return (
        source,
        Criterion(Score(weights), limits),
        dict(zip(source.apis, utility.tolist(), strict=True)),
    )


def best_of(
    question: tuple[MemorySource, Criterion, dict[str, float]],
    effort: Effort,
    *,
    must: Collection[str] = (),
    never: Collection[str] = (),
    **asked: Any,
) -> BestSet:
    source, criterion, utility = question
    limits = criterion.limits.tolist()
    sought = Sought(weights=utility, must=must, never=never)
    return best_set(source, criterion, limits, sought=sought, effort=effort, **asked)


@pytest.mark.parametrize(
    ("must", "plain"), [((), 0), ((), 2500), (("a03",), 0), (("a01", "a06"), 9)]
)
def test_the_best_set_is_the_one_of_the_complete_borders(
    must: tuple[str, ...], plain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(best_module, "_PLAIN", plain)
    monkeypatch.setattr(best_module, "_PATIENCE", plain)
    for seed in range(12):
        source, criterion, utility = question(seed)
        never = {"a05"} if seed % 2 else set[str]()
        borders = search(
            source, allow=criterion, block=criterion, sought=Sought(must=must, never=never)
        )
        truth = math.fsum(utility[api] for api in recommend(borders.allow, weights=utility))
        effort = Effort.of(3600)  # with an end, so that harder targets may wait
        best = best_of((source, criterion, utility), effort, must=must, never=never)
        if not borders.allow:
            assert (best.sets, best.bound) == ([], 0)
            continue
        assert best.proven, seed
        assert math.fsum(utility[api] for api in best.sets[0]) == best.bound == truth, seed
        for apis in best.sets:
            assert set(must) <= set(apis) <= set(source.apis) - never
            assert criterion.holds(source.spectrum(apis), len(apis))
        for apis in best.refused:
            assert not criterion.holds(source.spectrum(apis), len(apis))


def test_the_bound_holds_wherever_the_search_is_stopped() -> None:
    source, criterion, _ = asked = question(4)
    truth = best_of(asked, Effort()).bound
    bounds, stopped = list[float](), True
    while stopped:
        words = itertools.count(-5 * len(bounds) - 5)

        def interrupt(_: str, words: Iterator[int] = words) -> None:
            if next(words) == 0:
                raise KeyboardInterrupt

        effort = Effort(progress=interrupt)
        part = best_of(asked, effort)
        stopped = effort.stopped
        bounds.append(part.bound)
        for apis in part.sets:
            assert criterion.holds(source.spectrum(apis), len(apis))
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == truth
    assert len(set(bounds)) >= 3


def test_a_search_goes_on_where_it_was_stopped() -> None:
    source, criterion, utility = question(4)
    asked = source, criterion, {api: float(round(weight)) for api, weight in utility.items()}
    whole = best_of(asked, Effort())
    part, bounds = None, list[float]()
    while part is None or (not part.proven and len(bounds) < 50):
        words = itertools.count(-90)

        def interrupt(_: str, words: Iterator[int] = words) -> None:
            if next(words) == 0:
                raise KeyboardInterrupt

        known, reached = ((), None) if part is None else (part.sets, part.reached)
        part = best_of(asked, Effort(progress=interrupt), known=known, reached=reached)
        bounds.append(part.bound)
    assert bounds == sorted(bounds, reverse=True)
    assert (len(bounds) > 1, bounds[-1]) == (True, whole.bound)
    assert part.evaluated < whole.evaluated
    done = best_of(asked, Effort(), known=whole.sets, reached=whole.reached)
    assert done.proven
    assert done.evaluated <= 11 + 55  # APIs alone and pairs


def test_more_than_25_candidates_are_recommended_a_set_and_two_bounds(tmp_path: Path) -> None:
    source = devices(1, columns=30, rows=4_000)
    policy = Policy(k=10, population=4_000, budget=0.05, delta=0.05, candidates=tuple(source.apis))
    decision = decide(source, policy, seal="", time_limit=1.2)
    criteria = decision_criteria(
        users=4_000, k=10, population=4_000, budget=0.05, delta=0.05, universe=30
    )
    assert criteria.allow.holds(source.spectrum(decision.recommended), len(decision.recommended))
    assert decision.utility == len(decision.recommended)
    assert decision.utility_bound is not None
    assert decision.utility_possible is not None
    assert decision.utility <= decision.utility_bound <= decision.utility_possible <= 30
    told = decision_output(decision).preface[1]
    assert told.startswith(f"The recommended set weighs {decision.utility:g}")
    assert told.endswith(
        f"no set within the budget weighs more than {decision.utility_possible:g}."
    )
    pairs = decision_output(decision).tables[-1]
    assert "pairs only" in pairs.caption
    hardest, number, partners = next(row for row in pairs.rows if row[1])
    refused = [apis for apis in decision.block + decision.undecided if hardest in apis]
    assert number == sum(len(apis) == 2 for apis in refused)
    assert all(tuple(sorted((hardest, one))) in refused for one in str(partners).split(", "))
    figure = of_conflicts(decision)
    assert figure is not None
    shown = {
        tuple(str(title.text).split(": ")[0].split(" + "))
        for title in ElementTree.fromstring(figure.svg).findall(".//{*}title")
    }
    assert shown >= {apis for apis in refused if len(apis) <= 2}
    differing = decision_output(decision).tables[-2]
    assert differing.rows[0][2] == ", ".join(decision.recommended)
    assert all(tuple(str(row[2]).split(", ")) in decision.allow for row in differing.rows)
    assert max(map(len, (decision.allow, decision.block, decision.undecided))) <= 500
    file = tmp_path / "decision.json"
    file.write_text(json.dumps(decision.to_json()))
    known = read_decision(file)
    assert known == decision
    assert known.search is not None
    cut = decide(source, policy, seal="", time_limit=0.8, max_sets=3, known=known)
    assert cut.utility_bound is not None
    assert decision.utility <= cut.utility_bound <= decision.utility_bound
    assert {len(cut.allow), len(cut.block), len(cut.undecided)} == {3}
    assert not cut.complete
    assert cut.recommended in cut.allow
    with pytest.raises(InputError, match="both must and must not"):
        decide(source, policy, seal="", must=["a03"], never=["a03"])
    with pytest.raises(InputError, match="weight of a03"):
        decide(source, policy, seal="", weights={"a03": -1.0})
    part = decide(source, policy, seal="", time_limit=0)
    assert (part.complete, part.utility_bound, part.utility_possible) == (False, 30, 30)


@pytest.mark.long
def test_cut_lists_settle_each_api_and_say_of_none_what_they_do_not_hold() -> None:
    source = devices(1, columns=30, rows=4_000)
    policy = Policy(k=10, population=4_000, budget=0.05, delta=0.05, candidates=tuple(source.apis))
    left_out = source.apis[7]
    decision = decide(source, policy, seal="", time_limit=1.2, max_sets=40, never=[left_out])
    assert not decision.complete
    tests = decision_criteria(
        users=4_000, k=10, population=4_000, budget=0.05, delta=0.05, universe=30
    )
    reasons = {entry.api: entry.reason for entry in api_actions(decision)}
    assert reasons.pop(left_out) == "left out by --never"
    for api, reason in reasons.items():
        allowed = tests.allow.holds(source.spectrum([api]), 1)
        assert (decision.verdict([api])[0] == "allow") == allowed
        assert ("alone" in reason) != allowed
    nothing = replace(decision, allow=(), block=(), undecided=())  # as of one stopped at once
    assert "are allowed" not in decision_output(nothing).tables[-1].caption
    few = decide(source, policy, seal="", time_limit=1.2, max_sets=1)
    said = {entry.reason for entry in api_actions(few) if few.verdict([entry.api])[0] == "unknown"}
    assert said == {"no listed set settles it"}


@pytest.mark.long
def test_pairs_that_are_not_allowed_are_listed_beyond_the_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deciding, "_LISTED", 5)
    source = devices(3, columns=30, rows=4_000)
    policy = Policy(k=10, population=4_000, budget=0.01, delta=0.05, candidates=tuple(source.apis))
    decision = decide(source, policy, seal="", time_limit=1.2)
    tests = decision_criteria(
        users=4_000, k=10, population=4_000, budget=0.01, delta=0.05, universe=30
    )
    alone = [api for api in source.apis if tests.allow.holds(source.spectrum([api]), 1)]
    refused = [
        pair
        for pair in itertools.combinations(alone, 2)
        if not tests.allow.holds(source.spectrum(pair), 2)
    ]
    assert len(refused) > 5
    assert {*refused} <= {*decision.block, *decision.undecided}


def test_a_doll_is_made_where_it_can_lower_the_bound() -> None:
    """Ends that meet: one doll more lowers it at the first end, at the last one it takes three."""
    source = devices(0, columns=6, rows=100)
    criterion = Criterion(Score(np.array([1.0, 1, 0])), np.full(7, 100.0))
    root = refinement_of(source, criterion, source.apis, [])
    alone = Closures([1 << column for column in range(6)])
    found = best_module._Search(
        root, 0, closures=alone, limits=[100.0] * 7, weights=[1] * 6, scale=1, effort=Effort()
    )
    order = [*range(6)]
    found._dolls = [
        best_module._Dolls(found, order, [0, 1, 1, 1]),
        best_module._Dolls(found, order[::-1], [0, 1, 2, 3]),
    ]
    assert found._joining() == 4
    assert [found._needed(ends) for ends in found._dolls] == [1, 3]
