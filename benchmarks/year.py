"""A simulated year: which event which command tells on which day, and false alarms.

`python benchmarks/year.py` writes a log a day for `--days` days (365 by default) of a panel of
users who come with any frequency, other ones at weekends, some `--users` of them a day. It lets a
`watch --by day` look at the end of each, and runs `check` and `trend`. Known events happen on known
days: see `EVENTS`. It prints each event with its day and the day on which each command first names
it, all that they said, and what a look of the watch took at the beginning and at the end. Two usual
rules see the same logs as they come: a column is told whose Jensen-Shannon distance is 0.1 or more,
from the first two weeks (`reference`, the default of Evidently) or from the day a week before
(`same weekday`). JSON goes to stdout.

`--null N` lives N years without any event instead, and goes on where it was stopped. Each has one
of the panels of `panel.py`, one of `LAWS`, whose true exposure is a stated share of the budget, and
one of `SCHEDULES` of looks. It counts the years in which the watch said something false, beside the
share that is stated:

* a set was said to be above the budget that is within it, or the other way round: delta of the
  years at most, as all such verdicts of a year are wrong;
* an alarm, though no day is above the budget: days / 3,650 of the years at most;
* users who keep their values were said to have moved: 1 of 100 years at most;
* a log was said to be broken, which none is.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import math
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from panel import PANELS, Panel
from scipy.optimize import brentq
from scipy.spatial.distance import jensenshannon
from scipy.stats import binom

from fpmonitor import monitor, watch
from fpmonitor.answers.check import RUN_LENGTH
from fpmonitor.answers.renewal import FALSE_MOVES
from fpmonitor.monitor import Monitor
from fpmonitor.store.upkeep import forget_batch, forget_user
from fpmonitor.watch import Watch, WatchSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fpmonitor.answers.check import CheckReport
    from fpmonitor.decide.decision import Decision
    from fpmonitor.store.watching import Notice

AGENT = "Navigator.userAgent"
BROWSERS = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/{}.0.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/139.0.0.0 Safari/537.36",
)
START = datetime(2026, 1, 1, tzinfo=UTC)
COMMANDS = ("watch", "check", "trend")
RULES = ("reference", "same weekday")
REFERENCE, FAR = 14, 0.1  # days; Jensen-Shannon distance


@dataclass(frozen=True)
class Event:
    """What happens on a day, the day at whose end it can be known, and what each command calls it.

    Null where a command has nothing to say of it.
    """

    day: int
    known: int
    watch: str | None
    check: str | None = None
    trend: str | None = None

    @property
    def column(self) -> str | None:
        """What a rule about columns would say."""
        api = (self.trend or "").rpartition(" ")[2]
        return f"changed {api}" if "." in api else None


EVENTS = {
    "a file that cannot be read": Event(12, 12, "refused"),
    "a day without logs": Event(16, 17, "no logs", "an older day", "a gap"),
    "an API that the decision does not know": Event(
        20, 20, "appeared", "unknown A.new", "appeared A.new"
    ),
    "a wave of bots": Event(24, 24, "cause A.size", "violated", "changed A.size"),
    "its browsers": Event(24, 24, "harmless without automation", None, "changed " + AGENT),
    "the wave is over": Event(25, 25, "holds", "holds", "changed A.size"),
    "a file of the year 2099": Event(30, 30, "future", "left out", "2099"),
    "an API of the list is gone": Event(36, 36, "vanished", "lacks A.depth", "vanished A.depth"),
    "a browser release": Event(45, 45, "moved " + AGENT, "moved " + AGENT, "changed " + AGENT),
    "half a log comes a day late": Event(61, 61, None),
    "a log comes again": Event(70, 70, None),
    "values are cut short": Event(74, 74, "fault", None, "changed " + AGENT),
    "and are mended": Event(76, 76, "mended", None, None),
    "a log is wrong": Event(79, 79, "violated", "violated", "changed A.size"),
    "and is corrected": Event(80, 80, "corrected", "holds", None),
    "users are forgotten, and arrive again": Event(90, 90, None),
    "an API comes under another name": Event(
        100, 100, "vanished and appeared", "lacks A.zoom", "vanished A.zoom"
    ),
    "clocks go back an hour": Event(110, 110, None),
    "users move slowly from here on": Event(120, 120, "moved A.zoom2", "moved A.zoom2", None),
}
DRIFT = 0.001  # of the users, a day
OFTEN = 3  # times as many users as come on a day
K, BUDGET, DELTA = 10, 0.05, 0.05
# Law of a null year -> true exposure of the pair of APIs over the budget, and the mean number of
# users of a rare value. What is within is refuted best by values of their own, and what is above
# passes best with values of 0.65 k. The last law passes on some days, and on others cannot be told.
LAWS = {
    "within, values of their own": (0.999, 0.0),
    "within, shared values": (0.999, 0.65 * K),
    "above, shared values": (1.001, 0.65 * K),
    "near, values of their own": (0.35, 0.0),
}
# Whether the watch looks at the end of each day or week, or at random: at the end of one day of
# five, and at that of one of ten twice, after each half of its logs.
SCHEDULES = ("daily", "weekly", "random")


class Clock(datetime):
    """The time of the simulation."""

    today = START

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return cls.today.astimezone(tz)


class Rules:
    """What two usual rules tell of the logs of a day."""

    def __init__(self) -> None:
        self._days: list[dict[str, Counter[str]]] = []

    def look(self, logs: Iterable[Path]) -> dict[str, set[str]]:
        """Read what has come on a day; columns that it lacks count as one value."""
        today: dict[str, Counter[str]] = defaultdict(Counter)
        for frame in map(pl.read_parquet, logs):
            for api in {*frame.columns, *today, *(self._days or [{}])[0]} - {"user", "time"}:
                values = frame[api] if api in frame.columns else ["absent"] * frame.height
                today[api].update(map(str, values))
        reference: dict[str, Counter[str]] = defaultdict(Counter)
        for day in self._days[:REFERENCE]:
            for api, values in day.items():
                reference[api].update(values)
        before = {"reference": reference, "same weekday": (self._days or [{}])[-7:][0]}
        is_known = len(self._days) >= REFERENCE
        self._days.append(today)
        return {
            rule: {
                f"changed {api}"
                for api, values in today.items()
                if is_known and _distance(before[rule].get(api, Counter()), values) >= FAR
            }
            for rule in RULES
        }


def _distance(before: Counter[str], after: Counter[str]) -> float:
    """Jensen-Shannon distance, natural logarithm; 0 where there is nothing to compare."""
    if not before or not after:
        return 0.0
    names = sorted({*before, *after})
    return float(jensenshannon([before[name] for name in names], [after[name] for name in names]))


class Year:
    """A population, the logs of its days, and an engineer who reads what is said of them.

    The engineer decides again on other users of the day when a notice says so, takes away what
    cannot be read, and forgets what has a time of the future.
    """

    def __init__(self, folder: Path, users: int) -> None:
        self._folder, self._users = folder, users
        self._rng = np.random.default_rng(1)
        self._panel = Panel("weekdays", OFTEN * users, self._rng)
        number = self._panel.users
        self._own = {name: self._rng.choice(2, number) for name in ("A.size", "A.depth", AGENT)}
        self._own["A.new"] = self._rng.choice(2, number)
        self._own["A.zoom"] = self._rng.random(number)
        self._came: dict[int, np.ndarray[Any, Any]] = {}
        self._database = folder / "watched.duckdb"
        self._incoming = folder / "in"
        self._incoming.mkdir()
        self._day = 0
        self.notices: list[tuple[int, dict[str, Any]]] = []
        self.said: dict[str, list[set[str]]] = {name: [] for name in (*COMMANDS, *RULES)}
        self._rules = Rules()
        self.decided: list[int] = []
        self._decide(0)

    def _decide(self, day: int) -> None:
        """Decide on users of a day who are in no log, and watch the decision from now on."""
        path = self._folder / f"decided-{day}"
        log = self._log(day, path.with_suffix(".parquet"), name="decided ")
        with Monitor(path, create=True) as made:
            made.ingest([str(log)])
            self._decision = made.decide(
                k=K, population=self._users, budget=BUDGET, delta=DELTA, assume=[AGENT]
            )
        assert [{*apis} for apis in self._decision.allow] == [{*self._values(day)}]
        self.decided.append(day)
        settings = WatchSettings(
            folder=self._incoming,
            database=self._database,
            decision=self._decision,
            file=self._folder / "decision.json",
            by="day",
            new_users=True,
            settle=0,
        )
        self._watch = Watch(settings, deliver=[self._deliver])

    def _deliver(self, notice: Notice) -> None:
        self.notices.append((self._day, dict(notice.body)))

    def _users_of(self, day: int) -> np.ndarray[Any, Any]:
        """Numbers of the users who come on a day, the same whenever its log is written."""
        if day not in self._came:
            self._came[day] = self._panel.came(day)
        return self._came[day]

    def _values(self, day: int) -> dict[str, np.ndarray[Any, Any]]:
        """Values of the users of a day."""
        came = self._users_of(day)
        own = {name: values[came] for name, values in self._own.items()}
        drift = DRIFT * max(day - happens("users move slowly from here on"), 0)
        release = 141 if day >= happens("a browser release") else 140
        agents = np.array([BROWSERS[0].format(release), BROWSERS[1]])
        values = {
            "A.size": own["A.size"],
            "A.depth": own["A.depth"],
            "A.zoom": (own["A.zoom"] < 0.5 + drift).astype(int),
            AGENT: agents[own[AGENT]],
        }
        if day >= happens("an API that the decision does not know"):
            values["A.new"] = own["A.new"]
        if day >= happens("an API of the list is gone"):
            del values["A.depth"]
        if day >= happens("an API comes under another name"):
            values["A.zoom2"] = values.pop("A.zoom")
        return values

    def _log(
        self,
        day: int,
        path: Path,
        *,
        name: str = "u",
        at: datetime | None = None,
        users: slice = slice(None),
        wrong: bool = False,
        cut: bool = False,
    ) -> Path:
        moment = at or START + timedelta(days=day, hours=12)
        came = self._users_of(day)
        columns: dict[str, Any] = {"user": [f"{name}{user}" for user in came]}
        columns |= {"time": [moment] * len(came)} | self._values(day)
        if wrong:  # a size for each user
            columns["A.size"] = 1000 + came
        if cut:
            columns[AGENT] = [agent[:40] for agent in columns[AGENT]]
        pl.DataFrame(columns)[users].write_parquet(path)
        return path

    def _wave(self, day: int, path: Path) -> None:
        """Write a log of bots, each with a size of its own."""
        bots = self._users // 3
        columns: dict[str, Any] = {api: values[:bots] for api, values in self._values(day).items()}
        columns |= {"A.size": 1000 + np.arange(bots), AGENT: [BROWSERS[2]] * bots}
        columns["user"] = [f"bot{bot}" for bot in range(bots)]
        columns["time"] = [START + timedelta(days=day, hours=13)] * bots
        pl.DataFrame(columns).write_parquet(path)

    def live(self, day: int) -> float:
        """Live a day, and look at its end; return the processor's seconds of the watch."""
        self._day, heard, known = day, len(self.notices), {*self._incoming.glob("*.parquet")}
        self._happens(day)
        come = {*self._incoming.glob("*.parquet")} - known
        for rule, said in self._rules.look(sorted(come)).items():
            self.said[rule].append(said)
        Clock.today = START + timedelta(days=day + 1, hours=3)
        started = time.process_time()
        self._watch.step()
        seconds = time.process_time() - started
        if day == happens("clocks go back an hour"):
            Clock.today -= timedelta(hours=1)
            self._watch.step()
        if day == happens("users are forgotten, and arrive again"):
            with Monitor(self._database) as monitor:
                assert [b.stored for b in monitor.batches() if "returned" in b.source] == [0]
        said = set().union(*(words(body) for _, body in self.notices[heard:]))
        self.said["watch"].append(said)
        with Monitor(self._database) as monitor:
            self.said["check"].append(self._check(monitor))
            self.said["trend"].append(self._trend(monitor))
            if "future" in said:
                [source] = [b.source for b in monitor.batches() if "clock" in b.source]
                forget_batch(monitor.database, source)
                (self._incoming / "clock.parquet").unlink()
        if said & {"appeared", "vanished"} or any(word.startswith("moved") for word in said):
            self._decide(day)
        return seconds

    def _happens(self, day: int) -> None:
        today = self._incoming / f"{day:03}.parquet"
        late = happens("half a log comes a day late")
        wrong = happens("a log is wrong")
        if day != happens("a day without logs"):
            first = slice(None, self._users // 2 if day == late - 1 else None)
            cut = happens("values are cut short")
            self._log(day, today, users=first, wrong=day == wrong, cut=cut <= day <= cut + 1)
        if day == happens("a wave of bots"):
            self._wave(day, self._incoming / "wave.parquet")
        if day == happens("and are mended"):
            for broken_day in (day - 2, day - 1):
                self._log(broken_day, self._incoming / f"mended-{broken_day}.parquet")
        if day == late:
            path = self._incoming / "late.parquet"
            self._log(day - 1, path, users=slice(self._users // 2, None))
        broken = self._incoming / "broken.jsonl"
        if day == happens("a file that cannot be read"):
            broken.write_text("[1, 2]\n", encoding="utf-8")
        elif broken.exists():
            broken.unlink()
        if day == happens("a file of the year 2099"):
            self._log(day, self._incoming / "clock.parquet", at=datetime(2099, 1, 1, tzinfo=UTC))
        if day == happens("a log comes again"):
            shutil.copy(self._incoming / f"{day - 1:03}.parquet", self._incoming / "again.parquet")
        if day == wrong + 1:
            self._log(wrong, self._incoming / "corrected.parquet")
        if day == happens("users are forgotten, and arrive again"):
            with Monitor(self._database) as monitor:
                for user in self._users_of(day - 1)[:20]:
                    assert forget_user(monitor.database, f"u{user}") >= 1
            self._log(day - 1, self._incoming / "returned.parquet", users=slice(20))

    def _check(self, monitor: Monitor) -> set[str]:
        report = monitor.check(self._decision, by="day", new_users=True)
        assert report.renewal is not None
        assert report.since is not None
        said = {report.outcome, *(f"lacks {api}" for api in report.lacking)}
        said |= {f"unknown {api}" for api in report.renewal.unknown}
        said |= {f"moved {one.api}" for one in report.renewal.moved or ()}
        if any("future" in window.why for window in report.left_out):
            said.add("left out")
        if (report.since - START.replace(tzinfo=None)).days < self._day:
            said.add("an older day")
        return said

    def _trend(self, monitor: Monitor) -> set[str]:
        report = monitor.trend([(api,) for api in monitor.windows("day").apis], by="day", k=K)
        days = [window.name for window in report.windows]
        today = f"{START + timedelta(days=self._day):%Y-%m-%d}"
        said = {"2099"} if "2099-01-01" in days else set()
        if f"{START + timedelta(days=max(self._day - 1, 0)):%Y-%m-%d}" not in days:
            said.add("a gap")
        for alarm in report.alarms:
            if alarm.window == today and alarm.compared != "rarity":
                became = {value.of_api for value in alarm.values} - {None}
                said.add(f"{(*became, 'changed')[0]} {alarm.apis[0]}")
        return said


def happens(event: str) -> int:
    return EVENTS[event].day


def names(body: Mapping[str, Any]) -> set[str]:
    """What a notice tells: its state where that changed, and what is in the way."""
    told = {problem["kind"] for problem in body["problems"]}
    if body["state"] != body["was"]:
        told.add(body["state"])
    return told


def words(body: Mapping[str, Any]) -> set[str]:
    """What a notice tells, with APIs and causes, but for the state that a watch begins with."""
    told = names(body) - ({body["state"]} if body["was"] is None else set())
    told |= {f"cause {cause['api']}" for cause in body["causes"]}
    if body["corrected"]:
        told.add("corrected")
    if body["mended"]:
        told.add("mended")
    if told >= {"vanished", "appeared"}:
        told.add("vanished and appeared")
    for change in body["changed"]:
        without = change["without_automation"]
        if change["now"] == "block" and without and without[0] < BUDGET < change["lower"]:
            told.add("harmless without automation")
    if "decide again" in told and body["renewal"]["moved"]:
        told |= {f"moved {one['api']}" for one in body["renewal"]["moved"]}
    return told


def events(days: int, users: int) -> dict[str, Any]:
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        year = Year(Path(folder), users)
        for day in range(days):
            seconds.append(year.live(day))
    tenth = max(1, days // 10)
    found = {
        name: {
            "day": event.day,
            "known": event.known,
            **{
                command: first_day(
                    year.said[command],
                    getattr(event, command),
                    event.day,
                    lasts=command == "check",
                )
                for command in COMMANDS
            },
            **{
                rule: first_day(year.said[rule], event.column, event.day, lasts=True)
                for rule in RULES
            },
        }
        for name, event in EVENTS.items()
    }
    [wave] = [body for at, body in year.notices if at == happens("a wave of bots")]
    return {
        "days": days,
        "users_a_day": users,
        "events": found,
        "causes_of_the_wave": wave["causes"],
        "limits_of_the_wave": wave["changed"],
        "decided_again": year.decided[1:],
        "notices": [(at, sorted(words(body))) for at, body in year.notices],
        "said": {
            command: [(day, sorted(said)) for day, said in enumerate(year.said[command])]
            for command in ("check", "trend", *RULES)
        },
        "seconds_of_a_look": {
            "first_tenth": round(statistics.median(seconds[:tenth]), 2),
            "last_tenth": round(statistics.median(seconds[-tenth:]), 2),
        },
    }


def first_day(said: list[set[str]], word: str | None, since: int, *, lasts: bool) -> int | None:
    """First day from which on a command said a word; where it lasts, also not on the day before."""
    for day in range(since, len(said)):
        if word in said[day] and not (lasts and word in said[day - 1]):
            return day
    return None


class NullYear:
    """A panel of one law, who come in two APIs, and a watch that looks at them by a schedule."""

    def __init__(self, folder: Path, users: int, seed: int) -> None:
        self._folder, self._users = folder, users
        laws, self.schedule = list(LAWS), SCHEDULES[seed // len(LAWS) % len(SCHEDULES)]
        self.law = laws[seed % len(laws)]
        self._rng = np.random.default_rng(seed)
        self.panel = PANELS[seed % len(PANELS)]
        self._panel = Panel(self.panel, OFTEN * users, self._rng)
        self._own = self._values_of_all(*rare_values(*LAWS[self.law], users=users))
        self.told: list[tuple[int, list[str]]] = []
        self.outcomes: Counter[str] = Counter()
        self.alarms = 0
        self._day = 0
        self._incoming = folder / "in"
        self._incoming.mkdir()
        decision = self._decision()
        settings = WatchSettings(
            folder=self._incoming,
            database=folder / "watched.duckdb",
            decision=decision,
            file=folder / "decision.json",
            by="day",
            new_users=True,
            settle=0,
        )
        self._watch = Watch(settings, deliver=[self._deliver], checked=self._checked)

    def _decision(self) -> Decision:
        """Allow the pair, by users of whom none is exposed."""
        path = self._folder / "decided.parquet"
        codes = self._rng.choice(3, self._users)
        pl.DataFrame(
            {
                "user": [f"decided {user}" for user in range(self._users)],
                "A.size": codes,
                "A.depth": codes % 2,
            }
        ).write_parquet(path)
        with Monitor(self._folder / "decided.duckdb", create=True) as made:
            made.ingest([str(path)])
            decision = made.decide(k=K, population=self._users, budget=BUDGET, delta=DELTA)
        assert [len(apis) for apis in decision.allow] == [2], "both are allowed together"
        return decision

    def _deliver(self, notice: Notice) -> None:
        self.told.append((self._day, sorted(names(notice.body))))

    def _checked(self, report: CheckReport) -> None:
        self.outcomes[report.outcome] += 1
        self.alarms += report.alarm is not None and report.alarm.raised

    def live(self, days: int) -> None:
        """Live the days; the logs since the last look come with the next."""
        since = 0
        for self._day in range(days):
            looks = {"daily": 1, "weekly": int(self._day % 7 == 6)}.get(self.schedule)
            if looks is None:
                looks = int(self._rng.choice(3, p=(0.7, 0.2, 0.1)))
            if not looks:
                continue
            for look in range(looks):
                self._log(since, looks, look)
                # The day is over: what the second look finds of it is late.
                Clock.today = START + timedelta(days=self._day + 1, hours=3 + look)
                self._watch.step()
            since = self._day + 1

    def _values_of_all(self, share: float, values: int) -> pl.DataFrame:
        """Draw what each user has: neither API alone tells a rare value, only the pair does."""
        rng, number = self._rng, self._panel.users
        rare = rng.random(number) < share
        own = rng.integers(values, size=number) if values else np.arange(number)
        common = -1 - np.minimum(self._panel.columns["platform"], 2)  # which goes with visits
        columns = {
            "A.size": np.where(rare, own // 3, common),
            "A.depth": np.where(rare, own % 3, 0),
        }
        return pl.DataFrame({"user": np.arange(number)} | columns)

    def _log(self, since: int, parts: int, part: int) -> None:
        """Write one of the parts of the logs of all days since then."""
        days = [
            self._own[self._came(day)].with_columns(
                pl.lit(START + timedelta(days=day, hours=12)).alias("time")
            )
            for day in range(since, self._day + 1)
        ]
        frame = pl.concat(days).filter(pl.col("user") % parts == part)
        frame.write_parquet(self._incoming / f"{self._day:03}-{part}.parquet")

    @functools.cache  # noqa: B019 -- a year is lived once
    def _came(self, day: int) -> np.ndarray[Any, Any]:
        return self._panel.came(day)

    @property
    def wrong(self) -> int:
        """Checks whose verdict is false."""
        return self.outcomes["holds" if self.law.startswith("above") else "violated"]

    def lived(self) -> dict[str, Any]:
        false_alarms = 0 if self.law.startswith("above") else self.alarms
        return {
            "law": self.law,
            "panel": self.panel,
            "schedule": self.schedule,
            "outcomes": dict(self.outcomes),
            "wrong": self.wrong,
            "false_alarms": false_alarms,
            "moved": sum("decide again" in told for _, told in self.told),
            "broken": sum("fault" in told for _, told in self.told),
            "told": self.told,
        }


def rare_values(exposure: float, mean: float, *, users: int) -> tuple[float, int]:
    """Share of the users who have rare values, and number of these; 0 for values of their own.

    Other users are many of each value, so that the exposure, a multiple of the budget, is theirs.
    """
    if not mean:
        return exposure * BUDGET, 0

    def exposed(each: float) -> float:  # expected users of a value who are exposed
        return each * float(binom.cdf(K - 2, users - 1, each / users))

    wanted = exposure * BUDGET * users
    number = math.ceil(wanted / exposed(mean))
    each = brentq(lambda each: number * exposed(each) - wanted, 0, mean)
    return number * each / users, number


def null_years(years: int, days: int, users: int, done: Path) -> dict[str, Any]:
    """Live years without events; those that `done` holds, one a line, are not lived again."""
    question = {"days": days, "users": users}
    lived = []
    if done.exists():
        found = map(json.loads, done.read_text(encoding="utf-8").splitlines())
        lived = [year for year in found if question.items() <= year.items()]
    for seed in range(len(lived), years):
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            year = NullYear(Path(folder), users, seed)
            year.live(days)
        seconds = round(time.process_time() - started, 1)
        lived.append({**question, "seed": seed, **year.lived(), "seconds": seconds})
        with done.open("a", encoding="utf-8") as file:
            file.write(json.dumps(lived[-1]) + "\n")
    return {**question, **summary(lived, days)}


def summary(lived: list[dict[str, Any]], days: int) -> dict[str, Any]:
    """Years with something false beside the share that is stated, by law and by schedule."""
    stated = {"wrong": DELTA, "false_alarms": days / RUN_LENGTH, "moved": FALSE_MOVES, "broken": 0}

    def counted(years: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "years": len(years),
            "checks": sum(sum(year["outcomes"].values()) for year in years),
            **{f"years_with_{what}": sum(bool(year[what]) for year in years) for what in stated},
            "most_notices": max((len(year["told"]) for year in years), default=0),
        }

    return {
        "stated_shares_of_the_years": {what: round(share, 3) for what, share in stated.items()},
        **counted(lived),
        **{
            name: counted(
                [year for year in lived if name in {year["law"], year["panel"], year["schedule"]}]
            )
            for name in (*LAWS, *PANELS, *SCHEDULES)
        },
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
    for module in (watch, monitor, importlib.import_module("fpmonitor.answers.decide")):
        module.datetime = Clock  # type: ignore[attr-defined]
    if given.null:
        found = null_years(given.null, given.days, given.users, given.done)
    else:
        found = events(given.days, given.users)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
