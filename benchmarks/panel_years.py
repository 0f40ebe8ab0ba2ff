"""Years of users who keep their values: what is said falsely of them, beside two usual rules.

`python benchmarks/panel_years.py --years 40` lives years of three panels in turn, whose users come
on 1 to 95 % of the days:

* `frequency`: how often they come goes with their values;
* `weekdays`: some values come on workdays, others at weekends;
* `seasons`: the odds of all rise and fall with the year; cohorts stay away for weeks and return.

Each day of a year is compared with the last day of its weekday of the two weeks that were decided
on, at its share of 1 %, as `check --by day` does. JSON tells the years in which anything was said,
and of the same days the years and days in which two rules would have raised an alarm:

* `evidently`: the Jensen-Shannon distance of a column from the two weeks is 0.1 or more (default of
  Evidently 0.7 for categorical columns);
* `same weekday`: that distance from the same weekday of the week before.

`--moved 0.01` lets so many users, for good, change a value in the middle of each year, and tells
the days until each rule speaks.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import jensenshannon

from fpmonitor.answers.panel import WindowUsers
from fpmonitor.answers.renewal import FALSE_MOVES
from fpmonitor.answers.trend import compare_windows
from fpmonitor.decide.evidence import needed_evidence
from fpmonitor.disclosure import Audience

if TYPE_CHECKING:
    from numpy.typing import NDArray

DECIDED = 14  # days that were decided on
PANELS = ("frequency", "weekdays", "seasons")
ALARM = 0.1


@dataclass
class Panel:
    """Users, what they have, and how often they come."""

    kind: str
    users: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        rng, users = self.rng, self.users
        platform = rng.choice(4, users, p=(0.5, 0.3, 0.15, 0.05))
        self.columns: dict[str, NDArray[np.int64]] = {
            "platform": platform,
            "language": rng.choice(12, users),
            "screen": rng.geometric(0.04, users) + 40 * platform,
        }
        share = np.clip(rng.beta(0.6, 1.6, users) + 0.06 * platform, 0.01, 0.95)
        self._odds = np.log(share / (1 - share))
        workdays = rng.choice((-0.3, 1.2), users) * (platform == 0)
        self._weekend = 0.8 * (platform == 1) - workdays
        self._cohort = rng.integers(8, size=users)

    def day(self, day: int) -> WindowUsers:
        odds = self._odds
        if self.kind != "frequency":
            odds = odds + self._weekend * (day % 7 >= 5)
        if self.kind == "seasons":
            odds = odds + 0.8 * np.sin(2 * np.pi * day / 365)
            odds = np.where(self._cohort == day // 25 % 11, -np.inf, odds)
        came = self.rng.random(self.users) < 1 / (1 + np.exp(-odds))
        columns = {api: codes[came] for api, codes in self.columns.items()}
        return WindowUsers(people=np.flatnonzero(came), columns=columns, texts=lambda _api: {})

    def change(self, share: float) -> None:
        """Let a share of the users have another screen from now on."""
        changed = self.rng.random(self.users) < share
        self.columns["screen"] = np.where(changed, 999, self.columns["screen"])


def distances(before: list[WindowUsers], after: WindowUsers) -> float:
    """Largest Jensen-Shannon distance of a column, natural logarithm."""
    found = 0.0
    for api, codes in after.columns.items():
        earlier = np.concatenate([window.columns[api] for window in before])
        size = int(max(earlier.max(), codes.max())) + 1
        found = max(
            found,
            float(
                jensenshannon(
                    np.bincount(earlier, minlength=size), np.bincount(codes, minlength=size)
                )
            ),
        )
    return found


def live(seed: int, days: int, users: int, moved: float) -> dict[str, object]:
    kind = PANELS[seed % len(PANELS)]
    panel = Panel(kind, users, np.random.default_rng(seed))
    decided = [panel.day(day) for day in range(DECIDED)]
    week = decided[-7:]
    said: dict[str, list[int]] = {"fpmonitor": [], "evidently": [], "same weekday": []}
    for day in range(DECIDED, days):
        if moved and day == days // 2:
            panel.change(moved)
        now, before = panel.day(day), decided[7 + day % 7]
        place = day - DECIDED + 1
        level = math.exp(-needed_evidence(FALSE_MOVES, place=place, successes=0))
        alarms = compare_windows(before, now, k=10, false_alarms=level, audience=Audience.OTHERS)
        rules = {
            "fpmonitor": bool(alarms),
            "evidently": distances(decided, now) >= ALARM,
            "same weekday": distances([week[day % 7]], now) >= ALARM,
        }
        week[day % 7] = now
        for rule, is_told in rules.items():
            said[rule] += [day] if is_told else []
    return {"seed": seed, "panel": kind, "said": said}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=40)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--users", type=int, default=5000)
    parser.add_argument("--moved", type=float, default=0.0)
    given = parser.parse_args()
    lived = [live(seed, given.days, given.users, given.moved) for seed in range(given.years)]
    rules = ("fpmonitor", "evidently", "same weekday")
    found = {}
    for rule in rules:
        told = [year["said"][rule] for year in lived]  # type: ignore[index]
        changed = given.days // 2 if given.moved else given.days
        false = [[day for day in days if day < changed] for days in told]
        found[rule] = {
            "years_with_a_false_statement": sum(map(bool, false)),
            "days_with_one": sum(map(len, false)),
        }
        if given.moved:
            delays = [min((d for d in days if d >= changed), default=None) for days in told]
            true = [d - changed for d in delays if d is not None]
            found[rule] |= {
                "years_in_which_it_was_told": len(true),
                "days_until_then": statistics.median(true) if true else None,
            }
    asked = {name: getattr(given, name) for name in ("years", "days", "users", "moved")}
    json.dump(asked | {"stated_share_of_years": FALSE_MOVES} | found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
