"""Lists that are made again from those of before are the lists of a search from nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import chain, combinations
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.answers.spectra import departures_of_tests
from fpmonitor.decide.deciding import judging
from fpmonitor.decide.decision import ApiSet, Decision
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.refresh import border_sets, refreshed
from fpmonitor.policy import Policy
from fpmonitor.population.disclosed import DisclosedSource
from fpmonitor.population.kept_spectra import KeptSpectra
from fpmonitor.population.memory import MemorySource
from fpmonitor.serve.lists import CurrentLists, UsersOfNow
from tests.decided import decide_on as decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.spectrum import CountSpectrum

USERS, APIS = 1200, tuple("abcdef")
POLICY = Policy(k=10, population=USERS, budget=0.3, delta=0.05, candidates=APIS)
SETS = [*chain.from_iterable(combinations(APIS, size) for size in range(1, 7))]


def test_lists_of_users_of_now_are_those_of_a_search_from_nothing() -> None:
    lost = freed = stayed = above = 0
    for seed in range(10):
        rng, policy = np.random.default_rng(seed), replace(POLICY, budget=(0.3, 0.1)[seed % 2])
        device = rng.integers(0, 30, USERS)
        columns = {
            api: np.where(rng.random(USERS) < 0.9, device % values, rng.integers(0, values, USERS))
            for api, values in zip(APIS, rng.choice([2, 3, 5, 8, 20, 60], 6), strict=True)
        }
        before = decide(MemorySource(APIS, [*columns.values()]), policy, seal="", universe=6)
        kept = KeptSpectra()
        kept.follow(columns, border_sets(before))
        others = 1190 if seed == 9 else 150  # come in the place of some, and are alike or are not
        gone = rng.choice(USERS, others, replace=False)
        value = 0 if seed == 9 else rng.integers(0, 2)
        now = {
            api: np.r_[np.delete(codes, gone), rng.integers(0, 1 + value * codes.max(), others)]
            for api, codes in columns.items()
        }
        source = MemorySource(APIS, [*now.values()])
        known = kept.follow(now, border_sets(before))
        users = DisclosedSource(source, 10, known)
        judge = judging(before, USERS)
        found = refreshed(before, users, tests=judge, seal="now", effort=Effort())
        expected = decide(source, policy, seal="now", universe=6)
        assert (found.complete, found.digest) == (True, "now")
        for apis in SETS:
            was, told = before.verdict(apis)[0], found.verdict(apis)[0]
            wanted = "block" if was == "block" else expected.verdict(apis)[0]
            assert (told == "allow") == (wanted == "allow"), (seed, apis)
            assert told != "undecided" or wanted != "allow"
            assert wanted != "block" or told in {"block", "undecided"}
            lost += was == "allow" != told
            freed += was == "undecided" and told == "allow"
            above += was != "block" and told == "block"
            stayed += was == "block" and expected.verdict(apis)[0] == "allow"
        assert {*found.recommended} <= {*before.recommended}
        assert found.verdict(found.recommended)[0] == "allow"
        assert len({*found.block, *found.undecided}) == len(found.block) + len(found.undecided)
        assert not any({*allow} >= {*block} for allow in found.allow for block in found.block)
    assert min(lost, freed, stayed, above) > 0


def test_what_one_visit_left_undecided_no_user_of_now_allows() -> None:
    """Services read no visits: last values of now can take away from such lists alone."""
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, values, USERS) for values in (2, 3, 2, 3, 2, 2)]
    source = MemorySource(APIS, columns)
    before = decide(source, replace(POLICY, budget=0.3), seal="", universe=6)
    visits = replace(before.policy, visits="last+visit")
    undecided = tuple((api,) for api in APIS[1:])
    held = replace(before, policy=visits, allow=((APIS[0],),), undecided=undecided)
    held = replace(held, recommended=(APIS[0],))
    users = DisclosedSource(source, 10)
    for decision, allowed in ((before, True), (held, False)):
        judge = judging(decision.by_last_values, USERS)
        found = refreshed(decision, users, tests=judge, seal="now", effort=Effort())
        assert (found.verdict([APIS[1]])[0] == "allow") == allowed
        assert found.verdict([APIS[0]])[0] == "allow"


def test_what_too_few_users_took_from_a_list_comes_back_with_more_of_them() -> None:
    """Where visits count, too: such lists are made of the file, not of those made before."""
    rng = np.random.default_rng(3)
    columns = {api: rng.integers(0, 2, USERS) for api in APIS}
    before = decide(MemorySource(APIS, [*columns.values()]), POLICY, seal="", universe=6)
    before = replace(before, policy=replace(before.policy, visits="last+visit"))
    lists = CurrentLists(before, lambda _: None)
    told = []
    for users in (25, USERS):
        some = {api: codes[:users] for api, codes in columns.items()}
        source = MemorySource(APIS, [*some.values()])
        now = UsersOfNow(source=source, columns=some, seal=str(users), read=0.0)
        lists._take(lists._made(now, Effort()))
        told.append(lists.decision.verdict(APIS[:1])[0])
    assert (before.verdict(APIS[:1])[0], *told) == ("allow", "undecided", "allow")


def test_lists_of_users_of_now_name_no_days_of_those_before() -> None:
    rng = np.random.default_rng(3)
    columns = {api: rng.integers(0, 2, USERS) for api in APIS}
    source = MemorySource(APIS, [*columns.values()])
    before = replace(
        decide(source, POLICY, seal="", universe=6), days=(date(2026, 1, 1), date(2026, 1, 7))
    )
    before = replace(before, proof=judging(before, source).proof)
    assert (before.proof or {})["allow"]["days"] == ["2026-01-01", "2026-01-07"]
    now = UsersOfNow(source=source, columns=columns, seal="now", read=0.0)
    made = CurrentLists(before, lambda _: None)._made(now, Effort())
    for decision in (before, made):
        read = Decision.from_json(decision.to_json())
        assert [one for one in departures_of_tests(read) if one.reason] == []
    assert (made.days, "days" in (made.proof or {})["allow"]) == (None, False)


def test_lists_of_a_stopped_search_hold_what_is_proven_of_the_users_of_now() -> None:
    """Listed sets are judged again, of what was recommended a part is left, and nothing is open."""
    changed = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        device = rng.integers(0, 30, USERS)
        columns = [
            np.where(rng.random(USERS) < 0.9, device % values, rng.integers(0, values, USERS))
            for values in (2, 3, 5, 8, 20, 60)
        ]
        before = decide(MemorySource(APIS, columns), POLICY, seal="", universe=6)
        few = before.allow[:2]
        stopped = replace(before, complete=False, allow=few, undecided=before.undecided[:2])
        gone = rng.choice(USERS, 300, replace=False)
        now = [np.r_[np.delete(codes, gone), rng.integers(0, 9, 300)] for codes in columns]
        source = MemorySource(APIS, now)
        users = DisclosedSource(source, 10)
        judge = judging(before, USERS)
        found = refreshed(stopped, users, tests=judge, seal="now", effort=Effort())
        assert (found.complete, found.digest, found.users) == (False, "now", USERS)
        for apis in SETS:
            told = found.verdict(apis)[0]
            is_allowed = judge.verdict(apis, users.spectrum(apis)) == "allow"
            was_blocked = before.verdict(apis)[0] == "block"
            assert told != "allow" or is_allowed, apis
            assert told not in {"block", "undecided"} or was_blocked or not is_allowed, apis
        assert all(found.verdict(apis)[0] != "unknown" for apis in border_sets(stopped))
        assert {*found.recommended} <= {*before.recommended}
        part = DisclosedSource(source, 10).spectrum(found.recommended)
        assert judge.verdict(found.recommended, part) == "allow"
        assert found.recommended or not before.recommended
        changed += found.recommended != before.recommended
    assert changed


def test_lists_that_are_told_to_end_while_sets_are_blocked_end_there() -> None:
    rng = np.random.default_rng(3)
    codes = [rng.integers(0, values, USERS) for values in (2, 3, 5, 8, 20, 60)]
    source = MemorySource(APIS, codes)
    before = replace(decide(source, POLICY, seal="", universe=6), block=())
    effort, asked = Effort(), list[ApiSet]()

    class Ending(DisclosedSource):
        """Ends the effort when the first set is tested for being above the budget."""

        def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
            if self.is_least:
                effort.stopped = True
                asked.append(tuple(apis))
            return super().spectrum(apis)

    judge = judging(before, USERS)
    found = refreshed(before, Ending(source, 10), tests=judge, seal="now", effort=effort)
    assert (len(asked), found.complete) == (1, False)
    assert len({*found.block, *found.undecided}) > 1
    assert {*found.allow} == {*before.allow}
