"""Users who keep their values, and come with frequencies that go with these.

* `frequency`: how often they come, on 1 to 95 % of the days, goes with their values;
* `weekdays`: some values come on workdays, others at weekends;
* `seasons`: the odds of all rise and fall with the year; cohorts stay away for weeks and return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PANELS = ("frequency", "weekdays", "seasons")


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

    def came(self, day: int) -> NDArray[np.intp]:
        """Draw who comes on a day."""
        odds = self._odds
        if self.kind != "frequency":
            odds = odds + self._weekend * (day % 7 >= 5)
        if self.kind == "seasons":
            odds = odds + 0.8 * np.sin(2 * np.pi * day / 365)
            odds = np.where(self._cohort == day // 25 % 11, -np.inf, odds)
        return np.flatnonzero(self.rng.random(self.users) < 1 / (1 + np.exp(-odds)))
