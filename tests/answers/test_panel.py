"""Users of two windows as a panel: who keeps its values is never said to have changed them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fpmonitor.answers.panel import PanelFinding, WindowUsers, compare
from fpmonitor.disclosure import Audience

TABLES = [("platform",), ("size",)]
DAYS = 7 * 52


def window(people: Any, columns: dict[str, Any]) -> WindowUsers:
    return WindowUsers(people=people, columns=columns, texts=lambda _api: {})


class Panel:
    """Users of whom each keeps its values, and comes as often as goes with them.

    Odds of a day follow from the user (1 to 95 % of the days), the weekday and the season, and
    cohorts that have nothing to do with the values stay away for weeks.
    """

    def __init__(self, seed: int, users: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        platform = rng.choice(4, users, p=(0.5, 0.3, 0.15, 0.05))
        self.columns = {"platform": platform, "size": rng.geometric(0.05, users) + 40 * platform}
        share = np.clip(rng.beta(0.6, 1.4, users) + 0.08 * platform, 0.01, 0.95)
        self.odds = np.log(share / (1 - share))
        self.weekend = -1.0 * (platform == 0) + 0.6 * (platform == 1)
        self.cohort = rng.integers(5, size=users)

    def day(self, day: int, **changed: Any) -> WindowUsers:
        odds = self.odds + 0.8 * np.sin(2 * np.pi * day / 364) + self.weekend * (day % 7 >= 5)
        away = self.cohort == day // 30 % 9
        came = self.rng.random(len(odds)) < np.where(away, 0, 1 / (1 + np.exp(-odds)))
        columns = self.columns | changed
        return window(
            np.flatnonzero(came) + 17, {api: codes[came] for api, codes in columns.items()}
        )


def compared(
    before: WindowUsers, after: WindowUsers, audience: Audience = Audience.OWNER
) -> dict[tuple[str, str], PanelFinding]:
    found = compare(before, after, TABLES, rarity_of=TABLES, k=10, audience=audience)
    return {(one.compared, one.apis[0]): one for one in found}


@pytest.mark.long
@pytest.mark.parametrize("audience", Audience)
def test_who_keeps_a_value_is_said_to_move_no_more_often_than_stated(audience: Audience) -> None:
    """Four years of each audience: a day is compared with one of the same weekday."""
    smallest: dict[tuple[str, str], list[float]] = {}
    for seed in range(4):
        panel = Panel(seed, 1500)
        for _ in range(60):
            earlier = int(panel.rng.integers(DAYS // 2))
            later = earlier + 7 * int(panel.rng.integers(1, DAYS // 14))
            found = compared(panel.day(earlier), panel.day(later), audience)
            for name, one in found.items():
                smallest.setdefault(name, []).append(one.p_value)
    for (what, _), p_values in smallest.items():
        assert len(p_values) == 240
        assert what != "changed" or min(p_values) == 1
        for level in (0.01, 0.05, 0.2):
            most = 240 * level + 3 * np.sqrt(240 * level) + 1
            assert sum(p_value <= level for p_value in p_values) <= most


def test_a_season_that_halves_how_often_everybody_comes_moves_nobody() -> None:
    rng, p_values = np.random.default_rng(5), []
    for _ in range(60):
        platform = rng.choice(2, 4000)
        share = np.where(platform, 0.9, 0.2)
        windows = []
        for season in (1, 0.5):
            came = rng.random(4000) < season * share
            columns = {"platform": platform[came], "size": platform[came]}
            windows.append(
                WindowUsers(people=np.flatnonzero(came), columns=columns, texts=lambda _api: {})
            )
        p_values.append(compared(windows[0], windows[1])["values", "platform"].p_value)
    assert min(p_values) > 1e-3


@pytest.mark.parametrize("audience", Audience)
def test_changes_and_others_who_come_are_told_apart(audience: Audience) -> None:
    panel = Panel(8, 6000)
    released = np.where(panel.rng.random(6000) < 0.3, 900, panel.columns["size"])
    changed = compared(panel.day(3), panel.day(10, size=released), audience)
    assert changed["changed", "size"].p_value < 1e-9
    assert changed["changed", "size"].moved == pytest.approx(0.3, abs=0.06)
    assert changed["changed", "platform"].p_value == 1
    before = panel.day(3)
    panel.odds[panel.columns["platform"] == 2] -= 6  # they stay away
    gone = compared(before, panel.day(10), audience)
    assert gone["changed", "platform"].p_value == 1
    assert gone["values", "platform"].p_value < 1e-9


@pytest.mark.parametrize("audience", Audience)
def test_a_small_release_is_named_beside_a_large_one(audience: Audience) -> None:
    """A release has a text for each system; its end is no text at all, and neither hides another.

    Texts 0 to 11 became 100 to 111 of nearly all, and of 20 to 22 one in twelve became 120 to 122.
    """
    rng, people = np.random.default_rng(4), np.arange(24_000)
    before = np.where(rng.random(len(people)) < 0.9, rng.integers(12, size=len(people)), 0)
    small = rng.random(len(people)) < 0.1
    before[small] = 20 + rng.integers(3, size=small.sum())
    after = before.copy()
    after[~small & (rng.random(len(people)) < 0.95)] += 100
    after[small & (rng.random(len(people)) < 1 / 12)] += 100
    platform = np.zeros(len(people), dtype=int)
    windows = [
        WindowUsers(
            people=people,
            columns={"platform": platform, "size": texts},
            texts=lambda _api: {code: str(code) for code in range(200)},
        )
        for texts in (before, after)
    ]
    changed = compared(windows[0], windows[1], audience)["changed", "size"]
    named = {one.value for one in changed.values if one.grew}
    assert {"120", "121", "122"} <= named
    assert len(changed.values) <= 50


def test_users_who_alternate_are_no_change_and_those_who_agree_are() -> None:
    rng, users = np.random.default_rng(2), 4000
    nobody = {"platform": np.zeros(users, dtype=int)}
    people = np.arange(users)
    p_values = []
    for _ in range(200):
        two = rng.integers(3, size=(2, users))
        windows = [
            WindowUsers(people=people, columns=nobody | {"size": two[i]}, texts=lambda _api: {})
            for i in (0, 1)
        ]
        p_values.append(compared(windows[0], windows[1])["changed", "size"].p_value)
    assert sum(p_value <= 0.05 for p_value in p_values) <= 20
    few = np.where(people < 9, 7, 3)
    windows = [window(people, nobody | {"size": sizes}) for sizes in (np.full(users, 3), few)]
    told = compared(windows[0], windows[1], Audience.OTHERS)["changed", "size"]
    assert (told.p_value, told.moved) == (1, 0)


def test_lacking_an_api_is_no_value_that_is_gone_and_digests_are_no_names() -> None:
    """At a rollout nobody lacks it any more; long values are kept as digests."""
    had, has = np.zeros(3000, dtype=np.int64), np.full(3000, 2)
    had[240:], long = 2, "sha256:" + "0" * 32 + ":5000"

    def users(people: Any, codes: Any) -> WindowUsers:
        return WindowUsers(people=people, columns={"a": codes}, texts=lambda _: {1: long, 2: "x"})

    for code, gone in ((0, False), (1, True)):
        before = users(np.arange(3000), np.where(had == 0, code, had))
        found, *_ = compare(
            before,
            users(np.arange(5000, 8000), has),
            [("a",)],
            rarity_of=(),
            k=10,
            audience=Audience.OWNER,
        )
        assert found.p_value < 1e-6
        assert (found.gone, found.lost) == (gone, ())
