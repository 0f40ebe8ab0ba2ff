"""A simulated year of `watch --by day`: which event is told on which day, and false alarms.

`python benchmarks/year.py` writes a log a day for `--days` days (365 by default), each of `--users`
users, and lets a watch look at the end of each. Known events happen on known days: see `EVENTS`. It
prints each event with its day, the day of the first notice that names it, and what a day's look
took at the beginning and at the end. `--null N` lives N years without any event instead, and counts
the notices after the first: each would be a false alarm; it goes on where it was stopped. JSON goes
to stdout.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor import monitor, watch
from fpmonitor.monitor import Monitor
from fpmonitor.watch import Watch, WatchSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.store.watching import Notice

START = datetime(2026, 1, 1, tzinfo=UTC)
# What happens, on which day, and the day at whose end it can be known.
EVENTS = {
    "refused": (12, 12),
    "no logs": (16, 17),
    "appeared": (20, 20),
    "violated": (24, 24),
    "holds": (25, 25),
    "future": (30, 30),
    "decide again": (24, 24),  # the wave is no population that was decided on
    "vanished": (36, 36),
}


class Clock(datetime):
    """The time of the simulation."""

    today = START

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.today.astimezone(tz)


class Year:
    """A population, the logs of its days, and a watch over them."""

    def __init__(self, folder: Path, users: int, seed: int, *, quiet: bool) -> None:
        self._folder, self._users, self._quiet = folder, users, quiet
        self._rng = np.random.default_rng(seed)
        self.told: list[tuple[int, dict[str, Any]]] = []
        self._day = 0
        decided = self._log(-1, folder / "decided.parquet")
        with Monitor(folder / "decided.duckdb", create=True) as made:
            made.ingest([str(decided)])
            decision = made.decide(k=10, population=users, budget=0.05)
        assert [len(apis) for apis in decision.allow] == [3], "all are allowed together"
        self._incoming = folder / "in"
        self._incoming.mkdir()
        settings = WatchSettings(
            folder=self._incoming,
            database=folder / "watched.duckdb",
            decision=decision,
            by="day",
            new_users=True,
            settle=0,
        )
        self._watch = Watch(settings, deliver=[self._deliver])

    def _deliver(self, notice: Notice) -> None:
        self.told.append((self._day, notice.body))

    def _values(self, day: int) -> dict[str, np.ndarray[Any, Any]]:
        """Values of the users of a day; a share moves from one zoom to another in the year."""
        rng, users = self._rng, self._users
        drift = 0.0 if self._quiet else 0.0005 * max(day, 0)
        values = {
            "A.size": rng.choice(3, users),
            "A.depth": rng.choice(2, users, p=(0.7, 0.3)),
            "A.zoom": rng.choice(3, users, p=(0.6 - drift, 0.2, 0.2 + drift)),
        }
        if self._quiet:
            return values
        if day == EVENTS["violated"][0]:  # bots, each with a size of its own
            bots = users // 3
            values["A.size"][:bots] = 1000 + np.arange(bots)
        if day >= EVENTS["appeared"][0]:
            values["A.new"] = rng.choice(2, users)
        if day >= EVENTS["vanished"][0]:
            del values["A.depth"]
        return values

    def _log(self, day: int, path: Path, *, at: datetime | None = None) -> Path:
        moment = at or START + timedelta(days=day, hours=12)
        names = [f"{day}/{user}" for user in range(self._users)]
        columns: Mapping[str, Any] = {"user": names, "time": [moment] * self._users}
        pl.DataFrame({**columns, **self._values(day)}).write_parquet(path)
        return path

    def live(self, day: int) -> float:
        """Live a day, and look at its end; return the processor's seconds of the look."""
        self._day = day
        is_silent = not self._quiet and day == EVENTS["no logs"][0]
        if not is_silent:
            self._log(day, self._incoming / f"{day:03}.parquet")
        if not self._quiet:
            self._accidents(day)
        Clock.today = START + timedelta(days=day + 1, hours=3)
        started = time.process_time()
        self._watch.step()
        return time.process_time() - started

    def _accidents(self, day: int) -> None:
        broken = self._incoming / "broken.jsonl"
        if day == EVENTS["refused"][0]:
            broken.write_text("[1, 2]\n", encoding="utf-8")
        elif broken.exists():
            broken.unlink()
        if day == EVENTS["future"][0]:
            self._log(day, self._incoming / "clock.parquet", at=datetime(2099, 1, 1, tzinfo=UTC))


def names(body: Mapping[str, Any]) -> set[str]:
    """What a notice tells: its state where that changed, and what is in the way."""
    told = {problem["kind"] for problem in body["problems"]}
    if body["state"] != body["was"]:
        told.add(body["state"])
    return told


def events(days: int, users: int) -> dict[str, Any]:
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        year = Year(Path(folder), users, 1, quiet=False)
        for day in range(days):
            seconds.append(year.live(day))
    tenth = max(1, days // 10)
    heard = [(at, names(body)) for at, body in year.told]
    found = {
        event: {
            "day": day,
            "known": known,
            "told": min((at for at, told in heard if at >= day and event in told), default=None),
        }
        for event, (day, known) in EVENTS.items()
    }
    [wave] = [body for at, body in year.told if at == EVENTS["violated"][0]]
    return {
        "days": days,
        "users_a_day": users,
        "events": found,
        "causes_of_the_wave": wave["causes"],
        "notices": [(at, sorted(told)) for at, told in heard],
        "seconds_of_a_look": {
            "first_tenth": round(statistics.median(seconds[:tenth]), 2),
            "last_tenth": round(statistics.median(seconds[-tenth:]), 2),
        },
    }


def null_years(years: int, days: int, users: int, done: Path) -> dict[str, Any]:
    """Live years without events; those that `done` holds, one a line, are not lived again."""
    question = {"days": days, "users": users}
    lived = []
    if done.exists():
        found = map(json.loads, done.read_text(encoding="utf-8").splitlines())
        lived = [year for year in found if question.items() <= year.items()]
    for seed in range(len(lived), years):
        with tempfile.TemporaryDirectory() as folder:
            year = Year(Path(folder), users, seed, quiet=True)
            for day in range(days):
                year.live(day)
        told = [(day, sorted(names(body))) for day, body in year.told[1:]]
        lived.append({**question, "seed": seed, "told": told})
        with done.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lived[-1]) + "\n")
    false = [len(year["told"]) for year in lived]
    return {
        "years": len(lived),
        **question,
        "false_alarms": sum(false),
        "told": [year["told"] for year in lived if year["told"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--users", type=int, default=1500, help="of each day")
    parser.add_argument("--null", type=int, default=0, help="years without events instead")
    parser.add_argument(
        "--done", type=Path, default=Path("null-years.jsonl"), help="keeps the null years lived"
    )
    given = parser.parse_args()
    for module in (watch, monitor):
        module.datetime = Clock  # type: ignore[attr-defined]
    if given.null:
        found = null_years(given.null, given.days, given.users, given.done)
    else:
        found = events(given.days, given.users)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
