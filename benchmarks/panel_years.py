"""Years of users who keep their values: what is said falsely of them, beside two usual rules.

`python benchmarks/panel_years.py --years 40` lives years of the panels of `panel.py` in turn.

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

import numpy as np
from panel import PANELS, Panel
from scipy.spatial.distance import jensenshannon

from fpmonitor.answers.ledger import compare_windows
from fpmonitor.answers.panel import WindowUsers
from fpmonitor.answers.renewal import FALSE_MOVES
from fpmonitor.decide.evidence import needed_evidence
from fpmonitor.disclosure import Audience

DECIDED = 14  # days that were decided on
ALARM = 0.1


def users_of(panel: Panel, day: int) -> WindowUsers:
    """Return the users who come on a day."""
    came = panel.came(day)
    columns = {api: codes[came] for api, codes in panel.columns.items()}
    return WindowUsers(people=came, columns=columns, texts=lambda _api: {})


def change(panel: Panel, share: float) -> None:
    """Let a share of the users have another screen from now on."""
    changed = panel.rng.random(panel.users) < share
    panel.columns["screen"] = np.where(changed, 999, panel.columns["screen"])


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
    decided = [users_of(panel, day) for day in range(DECIDED)]
    week = decided[-7:]
    said: dict[str, list[int]] = {"fpmonitor": [], "evidently": [], "same weekday": []}
    for day in range(DECIDED, days):
        if moved and day == days // 2:
            change(panel, moved)
        now, before = users_of(panel, day), decided[7 + day % 7]
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
