"""What the dashboard shows: whether the allow list holds, counts, and what needs attention."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from fpmonitor.answers.check import CheckReport, report_check
from fpmonitor.answers.decide import question_of
from fpmonitor.errors import FpmonitorError, UndecidableError, UnitError, UnknownNameError
from fpmonitor.policy import disclosed_from
from fpmonitor.question import Question
from fpmonitor.render.decisions import data_of
from fpmonitor.render.numbers import percent
from fpmonitor.safe_files import write_bytes
from fpmonitor.serve.metrics import in_hundreds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fpmonitor.answers.apis import ApiOverview
    from fpmonitor.decide.decision import Decision
    from fpmonitor.monitor import Monitor
    from fpmonitor.population.exposure_index import ExposureIndex, IndexedExposure
    from fpmonitor.unit import Unit

Level = Literal["warn", "note"]
DEFAULT_K = 10
_REJECTED_SHARE = 0.01
_CHANGED_SHARE = 0.1
_MOST_READINGS = 20_000  # of the recommended set; of more, every second one is kept
_MOST_TESTED = 20_000_000  # users times sets; a few seconds, in which nothing is stored


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs attention; `warn` where what is shown may be wrong."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Exposure of the recommended set at one time."""

    time: datetime  # UTC.
    # apis, k, population: The set, and what was asked of it.
    apis: tuple[str, ...]
    k: int
    population: int
    users: int  # Observed users, at least k.
    # estimate, lower, upper: Shares: unbiased estimate for the population, null for one above the
    # number of users, and the limits of the certificate.
    estimate: float | None
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All that the dashboard shows of one state of the database."""

    made: datetime  # UTC.
    # question, budget: What was asked, and the tolerated exposure, a share; null without a
    # decision.
    question: Question
    budget: float | None
    users: int | None  # Observed users; null when fewer than k.
    # What the data are called, how much there is, and of which days; empty when fewer than k.
    data: str
    # records, rejected: Records that were stored and rejected, in hundreds as of `/metrics`.
    records: int
    rejected: int
    apis: tuple[ApiOverview, ...]  # A line for each observed API.
    # Users in memory; null when fewer than k, or when a candidate was never observed.
    explorer: ExposureIndex | None
    recommended: IndexedExposure | None  # Exposure of the recommended set; null without one.
    # The allow list, tested on all users of now; null where that is not possible.
    check: CheckReport | None
    alerts: tuple[Alert, ...]  # The worst first.
    unit: Unit = "user"  # What is counted: users, visitors or rows.

    @property
    def reading(self) -> Measurement | None:
        """Exposure of the recommended set now; null without one."""
        if self.recommended is None or self.explorer is None:
            return None
        return Measurement(
            time=self.made,
            apis=self.recommended.apis,
            k=self.explorer.k,
            population=self.explorer.population,
            users=self.explorer.users,
            estimate=self.recommended.unbiased,
            lower=self.recommended.lower,
            upper=self.recommended.upper,
        )


def asked_of(decision: Decision | None) -> Question:
    """Ask what the decision asked; without one, of all APIs with the usual k."""
    return Question(DEFAULT_K) if decision is None else question_of(decision)


def take_overview(monitor: Monitor, decision: Decision | None) -> Overview:
    """Look at the database as it is now."""
    decision = None if decision is None else decision.with_unions_listed()
    question = asked_of(decision)
    batches = monitor.batches()
    explorer, problem = _hold_users(monitor, decision, question)
    shown = explorer is not None
    data = (
        ""
        if explorer is None
        else data_of(monitor.name, monitor.population(), users=_observed(explorer), k=question.k)
    )
    recommended = (
        explorer.explore(decision.recommended)
        if explorer is not None and decision is not None and decision.recommended
        else None
    )
    check, failure = _check(monitor, decision) if shown else (None, None)
    alerts = [
        *(alert for alert in (problem, failure) if alert),
        *_alerts_of_decision(decision, explorer),
        *_alerts_of_batches(sum(b.read for b in batches), sum(b.rejected for b in batches)),
    ]
    apis = tuple(monitor.apis(k=question.k)) if shown else ()
    alerts += _alerts_of_changes(apis, () if decision is None else decision.recommended)
    if check is not None and check.visits_unread:
        alerts.append(Alert("note", "Visits are too many to read: last values alone were tested."))
    return Overview(
        made=datetime.now(UTC),
        question=question,
        budget=None if decision is None else decision.policy.budget,
        users=None if explorer is None else _observed(explorer),
        data=data,
        records=in_hundreds(sum(batch.stored for batch in batches)),
        rejected=in_hundreds(sum(batch.rejected for batch in batches), up=True),
        apis=apis,
        explorer=explorer,
        recommended=recommended,
        check=check,
        alerts=tuple(sorted(alerts, key=lambda alert: ("warn", "note").index(alert.level))),
        unit=monitor.unit,
    )


def _hold_users(
    monitor: Monitor, decision: Decision | None, question: Question
) -> tuple[ExposureIndex | None, Alert | None]:
    try:
        users = monitor.population() if decision is None else monitor.population_as(decision)
        few = Alert(
            "note", f"Fewer than {disclosed_from(question.k)} users so far: nothing is shown."
        )
        if users.users < disclosed_from(question.k):
            return None, few
        candidates = (
            users.publishable_apis(question.k) if decision is None else decision.policy.candidates
        )
        if users.for_question(question, candidates).users < disclosed_from(question.k):
            return None, few
        return users.index(question, candidates), None
    except UnitError as error:
        return None, Alert("warn", f"Limits are not shown: {error}.")
    except UndecidableError:
        return None, Alert("note", "No observation has been stored yet.")
    except UnknownNameError as error:
        return None, Alert("warn", f"The decision's data and these differ: {error}.")


def _check(monitor: Monitor, decision: Decision | None) -> tuple[CheckReport | None, Alert | None]:
    """Test the allow list on all users: however often they grow, that has the decision's delta."""
    if decision is None:
        return None, None
    try:
        users = monitor.population_as(decision)
        if users.users * len(decision.allow) > _MOST_TESTED:
            text = (
                f"{len(decision.allow):,} sets are too many to test here: `fpmonitor check` does."
            )
            return None, Alert("note", text)
        return report_check(users, decision), None
    except FpmonitorError as error:
        return None, Alert("warn", f"The allow list cannot be tested: {error}.")


def _observed(explorer: ExposureIndex) -> int:
    return explorer.users if explorer.drawn is None else explorer.drawn.observed


def _alerts_of_decision(decision: Decision | None, explorer: ExposureIndex | None) -> list[Alert]:
    if decision is None:
        return [Alert("note", "No decision is loaded: exposure is shown, verdicts are not.")]
    if explorer is None or explorer.seal == decision.digest:
        return []
    text = (
        f"The decision rests on {decision.observed or decision.users:,} users, "
        f"{_observed(explorer):,} are observed now: decide again."
    )
    return [Alert("note", text)]


def _alerts_of_changes(apis: Sequence[ApiOverview], recommended: Sequence[str]) -> list[Alert]:
    shown = [line for line in apis if line.api in recommended]
    alerts = [
        Alert("note", f"{line.api} changes between visits: {percent(line.changes)} of the users.")
        for line in shown
        if line.changes is not None and line.changes >= _CHANGED_SHARE and not line.volatile
    ]
    if masked := [line.api for line in shown if line.volatile]:
        text = f"Some browsers randomise these by design: {', '.join(sorted(masked))}."
        alerts.append(Alert("note", text))
    return alerts


def _alerts_of_batches(read: int, rejected: int) -> list[Alert]:
    if rejected <= _REJECTED_SHARE * read:
        return []
    # The share itself would tell the exact number.
    return [Alert("warn", f"More than {percent(_REJECTED_SHARE)} of all records were rejected.")]


class History:
    """Readings of the recommended set, in a file of JSON lines.

    Of more than `most` readings, an even selection is shown.
    """

    def __init__(self, path: Path, *, most: int = 200) -> None:
        self._path = path
        self._most = most
        self._readings = _read_history(path) if path.exists() else []

    def add(self, reading: Measurement) -> None:
        """Keep a reading."""
        self._readings.append(reading)
        # A dashboard that stays open adds one with each batch: 17,000 a day, all read at a start.
        if len(self._readings) > _MOST_READINGS:
            self._readings = self._readings[::-2][::-1]
            write_bytes(self._path, map(_line, self._readings))
            return
        with self._path.open("ab") as file:
            file.write(_line(reading))

    def readings(self, now: Measurement) -> Sequence[Measurement]:
        """Return the readings of the same question as now in the order of time, the last always."""
        same = [
            reading
            for reading in self._readings
            if (reading.apis, reading.k, reading.population) == (now.apis, now.k, now.population)
        ]
        # Counted from the end, so that the last is always among them.
        step = -(-len(same) // self._most) or 1
        return same[::-step][::-1]


def _line(reading: Measurement) -> bytes:
    # A line of its own also behind one that a crash cut short.
    return b"\n" + msgspec.json.encode(reading)


def _read_history(path: Path) -> list[Measurement]:
    """Read what was kept; a line that a crash cut short is left out."""
    readings = []
    # Bytes: half of a character at the end is no error here, and names may hold what `splitlines`
    # takes for the end of a line, such as U+2028.
    for line in path.read_bytes().split(b"\n"):
        with suppress(msgspec.DecodeError):
            readings.append(msgspec.json.decode(line, type=Measurement))
    return readings
