"""The monitor: a database of observations, for programs and notebooks.

It opens the file, stores logs, and hands out populations; `answers` computes from them. The
questions asked most often are methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from fpmonitor.answers.apis import ApiOverview, list_apis
from fpmonitor.answers.check import CheckReport, report_check
from fpmonitor.answers.curve import CurveReport, report_curve
from fpmonitor.answers.decide import question_of, with_all_candidates
from fpmonitor.answers.demand import DemandLine, report_demand
from fpmonitor.answers.exposure import ExposureDetails, ExposureReport, report_exposures
from fpmonitor.answers.findings import Findings, gather_findings
from fpmonitor.answers.ledger import Ledger
from fpmonitor.answers.questions import decide_and_list
from fpmonitor.answers.rank import Ranking, rank_sets
from fpmonitor.answers.renewal import find_renewal, share_of_false_moves
from fpmonitor.answers.sets import check_named_sets
from fpmonitor.answers.trend import Against, TrendReport, report_trend
from fpmonitor.answers.window_check import Confirmed, check_window, count_confirmed, longer_windows
from fpmonitor.closing import Closing
from fpmonitor.collectors.choosing import recognised
from fpmonitor.decide.asked import DecideQuestion, asking
from fpmonitor.decide.decision import Decision
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.export.coverage import Coverage
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import log_files
from fpmonitor.logs.frames import Frame, LazyFrame, frame_log
from fpmonitor.logs.log_file import LogFile
from fpmonitor.masking import masked_text
from fpmonitor.policy import PLAIN_DRAWS, Look, SampleModel, disclosed_from
from fpmonitor.population.exposure_index import ExposureIndex
from fpmonitor.population.population import Population
from fpmonitor.population.stored import stored_snapshot
from fpmonitor.population.views import View
from fpmonitor.population.windows import Windows
from fpmonitor.question import Missing, Question
from fpmonitor.results import Answers
from fpmonitor.store.batches import BatchReport, list_batches
from fpmonitor.store.database import Database
from fpmonitor.store.demand import (
    By,
    DemandReport,
    demand_logs,
    read_demand,
    read_sites,
    store_demand,
)
from fpmonitor.store.digests import keep_digests_only
from fpmonitor.store.files import NO_PATIENCE, Patience
from fpmonitor.store.followed import Follower
from fpmonitor.store.ingest import ingest_all
from fpmonitor.store.looks import first_names, note_look
from fpmonitor.store.snapshot import Window, units_of
from fpmonitor.store.windows import Division, LeftOut, Period
from fpmonitor.unit import Unit, weakest


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record of an ingested log that was not stored."""

    source: str
    line: int | None
    reason: str
    excerpt: str


class Monitor(Closing):
    """A database of observations, and the questions that can be asked of it.

    Args:
        path: The database file.
        create: Make the file when it is not there.
        window: Restrict all questions to observations of this time and source.
        view: How all questions look at the users: volatile values, automation, coarser values.
        audience: Whom the answers are for: the owner of the data, or others.
        key_file: Holds the key of an encrypted database.
        patience: How long to wait for a database that another process has open.
        kept: Whether the file is there for the next question; else nobody can count the looks at
            its users.

    Attributes:
        database: The open file, for what is no question: `store` and `release` take it.
        listing: Where the questions that are decided are listed; null where nothing keeps them.
        follower: Null; or what holds the users in memory from one monitor of the file to the next,
            as long as nobody else changes it: see `store.followed`.

    Raises:
        StoreError: The file cannot be opened as a database of fpmonitor.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = False,
        window: Window | None = None,
        view: View | None = None,
        audience: Audience = Audience.OWNER,
        key_file: Path | None = None,
        patience: Patience = NO_PATIENCE,
        kept: bool = True,
    ) -> None:
        self.database = Database(Path(path), create=create, key_file=key_file, patience=patience)
        self.listing: Database | None = self.database
        self.window = window or Window()
        self.view = view or View()
        self.audience = audience
        self.follower: Follower | None = None
        self.kept = kept

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    @property
    def name(self) -> str:
        """What the data are called."""
        return self.database.path.name

    @property
    def unit(self) -> Unit:
        """What is counted: users, visitors or rows, by the logs that are asked."""
        return weakest(units_of(self.database, self.window))

    @property
    def counter(self) -> str:
        """What decisions note where queries counted."""
        return "duckdb"

    # ---- What is stored

    def ingest(
        self,
        logs: str | Path | Sequence[object] | Frame | LazyFrame,
        *,
        name: str = "frame",
        collector: str | None = None,
        column_map: ColumnMap | None = None,
        digest_values: bool = False,
        allow_network: bool = False,
        progress: Callable[[str, str], None] = lambda _source, _stage: None,
    ) -> list[BatchReport]:
        """Store logs: files, folders, glob patterns, `-` for standard input, or a frame.

        All logs are recognised before the first is stored. A frame is stored as the Parquet file of
        its rows would be; the same one again adds nothing.

        Args:
            logs: One path or several, or logs that were found; or a frame of Polars (also lazy),
                pandas, pyarrow, or anything else with the Arrow C stream: columns as of a Parquet
                log.
            name: What the batch of a frame is called.
            collector, column_map: The source of the logs, and which of their columns hold what;
                left out: by their shape.
            digest_values: Keep digests of values instead of values, in this database for ever.
            allow_network: Whether DuckDB may fetch paths that are addresses, with its extension
                `httpfs`.

        Raises:
            InputError: A path that is not there, a log that no collector recognises (as one that
                names no users), or a database with values in the clear that is to keep digests.
        """
        column_map = column_map or ColumnMap()
        with _opened(logs, name, allow_network=allow_network) as files:
            known = [recognised(log, column_map, collector) for log in files]
            # Before the first value: a database that holds some in the clear refuses, and stores
            # nothing.
            if digest_values:
                keep_digests_only(self.database)
            stored = ingest_all(self.database, known, progress=progress)
            return [report for reports in stored for report in reports]

    def store_demand(
        self, paths: Sequence[str], *, collector: str | None = None
    ) -> list[DemandReport]:
        """Store logs of API calls: files, folders, glob patterns, or `-` for standard input."""
        with demand_logs(paths, collector) as logs:
            return [store_demand(self.database, log, reader) for log, reader in logs]

    def batches(self) -> list[BatchReport]:
        """List the logs that were stored, in the order of ingest; for others without accounts.

        An account names members that few users have.
        """
        reports = list_batches(self.database)
        if self.audience is Audience.OTHERS:
            return [replace(report, account=None) for report in reports]
        return reports

    def rejects(self, *, most: int = 100) -> list[RejectedRecord]:
        """List records that were not stored, the first of each batch; excerpts show their form."""
        return [
            RejectedRecord(source, line, reason, masked_text(excerpt or ""))
            for source, line, reason, excerpt in self.database.rows("report/rejects", most=most)
        ]

    def observations(self) -> list[tuple[int, str, str, str | None, str | None]]:
        """Everything that is stored: number of the user, API, status, source, value.

        Large values stand as digest and length, and users as numbers of this database.
        """
        return self.database.rows("report/observations")

    # ---- Who is asked

    def population(
        self,
        *,
        window: Window | None = None,
        view: View | None = None,
        audience: Audience | None = None,
    ) -> Population:
        """Return the users that are asked; what is left out is as the monitor was made with."""
        window = window or self.window
        return Population(
            stored_snapshot(self.database, window, self.follower),
            window=window,
            view=view or self.view,
            audience=audience or self.audience,
            look=self._look(window),
            first_names=first_names(self.database) if self.kept else None,
        )

    def _look(self, window: Window) -> Look | None:
        """Note a look at the users; those of a window are looked at as before, whenever that is."""
        # Noted also for a window: who looks at a part of the users has looked at them.
        look = note_look(self.database) if self.kept else None
        return None if any(window.bounds.values()) else look

    def population_as(
        self,
        decision: Decision,
        *,
        window: Window | None = None,
        audience: Audience | None = None,
    ) -> Population:
        """Return the users of now, seen as a decision saw its own.

        Args:
            decision: Its view, its source and its candidates count: one that no log holds now is
                absent.
        """
        window = window or self.window
        window = replace(window, source=decision.source or window.source)
        users = self.population(window=window, view=decision.view, audience=audience)
        return with_all_candidates(users, decision)

    def windows(
        self,
        division: Division,
        *,
        window: Window | None = None,
        view: View | None = None,
        audience: Audience | None = None,
    ) -> Windows:
        """Return the windows of the users, for `answers.trend`."""
        return Windows(
            database=self.database,
            division=division,
            window=window or self.window,
            view=view or self.view,
            audience=audience or self.audience,
        )

    # ---- What is asked most often

    def exposure(
        self,
        sets: Iterable[Sequence[str]],
        *,
        k: int = 10,
        population: int | None = None,
        delta: float = 0.05,
        missing: Missing = "value",
        sample: SampleModel = PLAIN_DRAWS,
        **details: Any,
    ) -> Answers[ExposureReport]:
        """Estimate the exposure of API sets: see `answers.exposure.ExposureDetails`."""
        question, wanted = Question(k, population, delta, missing, sample), check_named_sets(sets)
        return Answers(
            report_exposures(self.population(), question, wanted, ExposureDetails(**details))
        )

    def index(
        self,
        candidates: Sequence[str],
        *,
        k: int,
        population: int | None = None,
        delta: float = 0.05,
        missing: Missing = "value",
        sample: SampleModel = PLAIN_DRAWS,
    ) -> ExposureIndex:
        """Hold the users in memory: exposure of any set of the candidates in milliseconds."""
        question = Question(k, population, delta, missing, sample)
        return self.population().index(question, candidates)

    def rank(
        self,
        sets: Iterable[Sequence[str]] = (),
        *,
        size: int = 1,
        candidates: Sequence[str] | None = None,
        k: int = 10,
        population: int | None = None,
        delta: float = 0.05,
        missing: Missing = "value",
        sample: SampleModel = PLAIN_DRAWS,
    ) -> Ranking:
        """Rank API sets by entropy and by exposure: see `answers.rank.rank_sets`."""
        question = Question(k, population, delta, missing, sample)
        return rank_sets(self.population(), question, sets, size=size, candidates=candidates)

    def curve(
        self,
        apis: Sequence[str],
        *,
        k: int = 10,
        delta: float = 0.05,
        missing: Missing = "value",
        sample: SampleModel = PLAIN_DRAWS,
        show_counts_below_k: bool = False,
    ) -> CurveReport:
        """Draw the exposure curve of one API set: see `answers.curve.report_curve`."""
        question = Question(k, delta=delta, missing=missing, sample=sample)
        return report_curve(
            self.population(), question, apis, show_counts_below_k=show_counts_below_k
        )

    def apis(self, *, k: int = 10, show_counts_below_k: bool = False) -> Answers[ApiOverview]:
        """Describe every API whose name may be told: see `answers.apis.list_apis`."""
        users = self.population()
        return Answers(list_apis(users, k=k, show_counts_below_k=show_counts_below_k))

    def trend(
        self,
        sets: Iterable[Sequence[str]] = (),
        *,
        by: Division = "week",
        k: int = 10,
        population: int | None = None,
        delta: float = 0.05,
        rows_are_users: bool = False,
        against: Against = "previous",
        false_alarms: float = 0.01,
    ) -> TrendReport:
        """Follow exposure over windows: see `answers.trend.report_trend`."""
        sample = SampleModel(rows_are_users=rows_are_users)
        return report_trend(
            self.windows(by),
            Question(k, population, delta, sample=sample),
            [*sets],
            against=against,
            false_alarms=false_alarms,
        )

    def demand(
        self,
        by: By = "script",
        *,
        k: int = 10,
        population: int | None = None,
        delta: float = 0.05,
        sample: SampleModel = PLAIN_DRAWS,
        most: int = 50,
    ) -> list[DemandLine]:
        """List API sets that scripts really read, those of the most sites, with their exposure."""
        question = Question(k, population, delta, sample=sample)
        demands = read_demand(self.database, by, most=most)
        # Without users demand is listed all the same, where `population` would refuse.
        has_users = self.database.rows("snapshot/last_batch")[0][0] > 0
        return report_demand(self.population() if has_users else None, question, demands)

    @asking(DecideQuestion)
    def decide(self, decide_question: DecideQuestion) -> Decision:
        """Decide all subsets of the candidates, and list the question: see `DecideQuestion`."""
        return decide_and_list(
            self.listing, self.population(), decide_question, counter=self.counter
        )

    def check(
        self,
        decision: Decision,
        *,
        by: Period | None = None,
        until: datetime | None = None,
        new_users: bool = False,
    ) -> CheckReport:
        """Test every set on the allow list of a decision on the users of now.

        Args:
            by: Look at the newest calendar window of this length only that is over.
            until: With `by`: the newest that is over then; null for now.
            new_users: The list was decided on none of the users of this database.

        Raises:
            InputError: The decision is about levels.
        """
        if decision.components:
            raise InputError("check: the decision is about levels", hint="name one about sets")
        decision = decision.with_unions_listed()
        report = self._checked(decision, by=by, until=until, new_users=new_users)
        if self.audience is Audience.OTHERS:  # a single visit would show
            return replace(report, new_users=None, left_out=())
        return report

    def _checked(
        self, decision: Decision, *, by: Period | None, until: datetime | None, new_users: bool
    ) -> CheckReport:
        left_out: tuple[LeftOut, ...] = ()
        origin = since = None
        if by is None:
            users = self.population_as(decision)
        else:
            ledger = ledger_of(self, decision, by, until=until)
            # The newest window numbers a new list: limits of the question must not move its
            # calendar.
            users, left_out = first, _ = ledger.newest()
            if ledger.limits.since or ledger.limits.until:
                first, _ = ledger.newest(Window(source=ledger.limits.source))
            origin, since = first.window.since, ledger.beside(users)
        faults = {} if since is None else since.faults()
        has_limits = by or users.window.since or users.window.until
        # Any part of the users might have been asked for, so its check has a share of delta.
        is_one_of_many = has_limits or new_users
        if decision.policy.delta is not None and decision.allow and is_one_of_many:
            report = check_window(
                users,
                decision,
                database=self.database,
                period=by,
                origin=origin,
                new_users=new_users,
                faulty=faults.keys(),
            )
        else:
            report = report_check(users, decision, beside=True, faulty=faults.keys())
        sources = {} if since is None else since.sources()
        renewal = find_renewal(
            users,
            decision,
            others=report.others,
            vanished=report.vanished,
            compared=None if since is None else since.moved(report.origin, share_of_false_moves),
            faults=faults.keys(),
            now=datetime.now(UTC),
        )
        return replace(
            report,
            period=by,
            left_out=left_out,
            faults=faults,
            broken_first=None if since is None else since.broken_first(),
            sources=sources,
            source_users={} if since is None else since.source_users(users.users),
            faulty_sources={} if since is None else since.faulty_sources(faults),
            renewal=renewal,
        )

    def findings(
        self,
        decision: Decision,
        *,
        coverage: Coverage,
        pairs: bool = True,
        progress: Callable[[str], None] = lambda _stage: None,
    ) -> Findings:
        """Gather all that a report on a decision tells to others, from the users of now.

        Args:
            decision: The question and its answer; the users are looked at as it did.
            coverage: What export formats can carry out.
            pairs: Rank pairs of candidates besides the candidates.
            progress: Called with what is being measured.
        """
        users = self.population_as(decision, audience=Audience.OTHERS)
        return gather_findings(
            users,
            decision,
            name=self.name,
            coverage=coverage,
            pairs=pairs,
            progress=progress,
            **self._kept_beside(users, decision),
        )

    def _kept_beside(self, users: Population, decision: Decision) -> dict[str, Any]:
        """Arguments of `gather_findings` that not every keeper of users has."""
        found: dict[str, Any] = {}
        if not decision.view.transforms:
            found["windows"] = self.windows(
                "week", window=users.window, view=decision.view, audience=Audience.OTHERS
            )
        if read_sites(self.database):
            read = read_demand(self.database, "script", most=50)
            found["demand"] = report_demand(users, question_of(decision), read)
        return found


def ledger_of(
    monitor: Monitor, decision: Decision, by: Period, *, until: datetime | None = None
) -> Ledger:
    """Return the calendar windows of a monitor, as a decision looks at their users.

    Only those that are over until a moment are checked; until now by default.
    """
    limits = monitor.window if until is None else replace(monitor.window, until=until)
    return Ledger(
        database=monitor.database,
        period=by,
        decision=decision,
        limits=replace(limits, source=decision.source or monitor.window.source),
        # As times are stored: UTC without a zone.
        now=datetime.now(UTC).replace(tzinfo=None),
        audience=monitor.audience,
        population=lambda window: monitor.population_as(decision, window=window),
    )


def windows_that_decide(
    monitor: Monitor, decision: Decision, by: Period | None, *, new_users: bool = False
) -> str | None:
    """Say which windows confirm more sets than those of a length do: see `longer_windows`."""
    policy, found = decision.policy, list[Confirmed]()
    if policy.delta is None or policy.realised or decision.rests_on_file:
        return None
    for period in get_args(Period) if decision.allow else ():
        # Windows whose logs lack an API of the list can confirm nothing.
        with suppress(UndecidableError, UnknownNameError):
            users, _ = ledger_of(monitor, decision, period).newest()
            one = count_confirmed(users, decision, period, new_users=new_users)
            if monitor.audience is Audience.OWNER or one.users >= disclosed_from(policy.k):
                found.append(one)
    return longer_windows(found, by)


@contextmanager
def _opened(
    logs: str | Path | Sequence[object] | Frame | LazyFrame,
    name: str,
    *,
    allow_network: bool,
) -> Iterator[list[LogFile]]:
    if isinstance(logs, str | Path):
        logs = [logs]
    if isinstance(logs, Sequence):
        found = [log for log in logs if isinstance(log, LogFile)]
        paths = [str(path) for path in logs if not isinstance(path, LogFile)]
        with log_files(paths, allow_network=allow_network) as files:
            yield found + files
        return
    with frame_log(logs, name) as log:
        yield [log]
