"""What the page asks of logs and of the database; opened for each question, and closed again."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from fpmonitor.answers.crowds import shared_crowds
from fpmonitor.answers.decide import users_meant
from fpmonitor.answers.exposure import ExposureDetails, report_exposures
from fpmonitor.answers.preview import limits_of_left
from fpmonitor.answers.withheld import Withheld, explain_withheld
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import FpmonitorError, InputError, UndecidableError
from fpmonitor.estimate.entropy import entropy_bits, naive_group_size
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.export.exporter import Exporter, ExportOptions, ExportResult, PlainExporter
from fpmonitor.export.visitor_page import VisitorPage
from fpmonitor.monitor import Monitor
from fpmonitor.planning import map_text, plan_logs
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
from fpmonitor.population.evidence import Seen, find_lack, lack_in_words
from fpmonitor.render.output import to_json
from fpmonitor.safe_files import write_bytes
from fpmonitor.store.files import NO_PATIENCE, Patience, state_of_database
from fpmonitor.store.followed import Follower
from fpmonitor.ui.asked import DEFAULT_K, PageQuestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.answers.apis import ApiOverview
    from fpmonitor.answers.cohorts import CohortReport
    from fpmonitor.decide.decision import Decision
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.policy import SampleModel
    from fpmonitor.population.exposure_index import ExposureIndex, IndexedExposure
    from fpmonitor.question import Question
    from fpmonitor.store.accounts import Judged
    from fpmonitor.store.batches import BatchReport
    from fpmonitor.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the database holds."""

    batches: tuple[BatchReport, ...]  # The logs that were stored.
    unit: Unit
    users: int  # How many; 0 before the first log.
    apis: tuple[ApiOverview, ...]  # Every API alone, the most exposing first.
    lacks: Mapping[str, str]  # API -> why the users are no evidence of how it divides them.


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """Exposure of the ticked APIs."""

    apis: tuple[str, ...]  # What was ticked, as the log calls it, sorted.
    # Estimate and limits, shares; null where its tests are still to be designed.
    exposure: IndexedExposure | None
    observed: float  # Share of the observed users in groups smaller than k.
    # users, values: Observed users, and different combinations of values.
    users: int
    values: int
    # alone, in_few: Combinations of one user each, and of 2 to k - 1 users each.
    alone: int
    in_few: int
    # bits, by_entropy: Plug-in entropy of the users, and the size of a crowd that it suggests,
    # users.
    bits: float
    by_entropy: float
    unit: Unit
    no_evidence: Mapping[str, str]  # API -> why the users are no evidence of how it divides them.
    # The same within each group of the users; null where no group was asked for.
    cohorts: CohortReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The users in memory, whatever is asked of them."""

    index: ExposureIndex
    unit: Unit
    seen: Mapping[str, list[Seen]]
    designed: set[tuple[Question, bool]] = field(default_factory=set)

    def lacks(self, apis: Sequence[str], k: int) -> dict[str, str]:
        """Say of which APIs they are no evidence, and why."""
        means = self.index.means
        found = {api: find_lack(self.seen[api], k, means.get(api, "")) for api in apis}
        return {api: lack_in_words(lack, k) for api, lack in found.items() if lack is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One list of a decision."""

    # name, about: The format, and what it is for.
    name: str
    about: str
    result: ExportResult | None  # The list; null where it cannot be written.
    problem: str = ""  # Why it cannot.
    # Ordinary pages that stop beside its controls, as they were tried in the product.
    breaks: tuple[str, ...] = ()


class Desk:
    """Logs that are looked at, one database, and the decision beside it.

    Args:
        logs: Paths, as of `Monitor.ingest`; nothing is stored before `store`.
        db: The database file, which need not be there.
    """

    def __init__(
        self,
        logs: Sequence[str],
        db: Path,
        *,
        key_file: Path | None = None,
        patience: Patience = NO_PATIENCE,
    ) -> None:
        self.logs, self.db = tuple(logs), db
        self.decision_file = db.with_name(f"{db.stem}.decision.json")
        self._key_file, self._patience = key_file, patience
        self._lock = threading.RLock()
        self._follower = Follower()
        self._followed: object = None  # state of the file that it has read
        self._indexes: dict[tuple[object, SampleModel], _Held] = {}  # one for each way to take rows
        self._stored: tuple[object, Stored | None] | None = None

    @contextmanager
    def _monitor(self, *, create: bool = False) -> Iterator[Monitor]:
        # One at a time: a process opens a DuckDB file once.
        with self._lock:
            before = state_of_database(self.db)
            # Somebody wrote since the users were read: they are read anew.
            if before != self._followed:
                self._follower = Follower()
            self._followed = None
            with Monitor(
                self.db, create=create, key_file=self._key_file, patience=self._patience
            ) as monitor:
                monitor.follower = self._follower
                yield monitor
            # What wrote anything is read anew: another program may have written after it.
            self._followed = before if before == state_of_database(self.db) else None

    def warm(self) -> None:
        """Read the users before anybody asks, so that the first tick is answered as the next."""
        # Nobody asked for it: what is wrong is said to the first who asks.
        with suppress(FpmonitorError, OSError):
            stored = self.stored(DEFAULT_K)
            if stored is not None and stored.apis:
                self.explore(PageQuestion(apis=(stored.apis[0].api,)))

    # ---- Is this column the API, and is a row a user?

    def plan(self, column_map: ColumnMap) -> dict[str, Judged]:
        """Tell of each log what its members are, and store nothing; errors as of `plan_logs`."""
        return plan_logs(self.logs, column_map)

    def store(self, column_map: ColumnMap) -> list[BatchReport]:
        """Store the logs as they were planned; errors as of `Monitor.ingest`."""
        with self._monitor(create=True) as monitor:
            return monitor.ingest(self.logs, column_map=column_map)

    def map_text(self, column_map: ColumnMap) -> str:
        """Return the column map by which `fpmonitor ingest` reads so."""
        return map_text(self.plan(column_map))

    def stored(self, k: int) -> Stored | None:
        """Return what the database holds; null before the first log."""
        if not self.db.exists():
            return None
        state = state_of_database(self.db), k
        with self._lock:
            if self._stored is None or self._stored[0] != state:
                with self._monitor() as monitor:
                    self._stored = state, _stored(monitor, k)
            return self._stored[1]

    # ---- What does a set expose?

    def explore(self, page_question: PageQuestion, *, at_once: bool = False) -> Explored:
        """Measure the ticked APIs; errors as of `ExposureIndex.explore`.

        With `at_once` limits are left out where the tests of this question are still to be
        designed, or groups are asked for, which takes up to a second: what was counted is there in
        milliseconds.
        """
        question = page_question.question()
        entry = self._held(question)
        index = entry.index.asking(question)
        apis, spectrum = index.counted(page_question.apis)
        # Tests are designed once for a question; for APIs that may be masked they are others.
        design = question, index.sample.growing.isdisjoint(apis)
        waits = at_once and (bool(page_question.given) or design not in entry.designed)
        exposure = None if waits else index.explore(apis)
        if not waits:
            entry.designed.add(design)
        few = spectrum.counts < index.k
        bits = entropy_bits(spectrum)
        return Explored(
            apis=apis,
            cohorts=self._cohorts(page_question, apis)
            if page_question.given and not waits
            else None,
            exposure=exposure,
            observed=empirical_exposure(spectrum, index.k),
            unit=entry.unit,
            no_evidence=entry.lacks(apis, index.k),
            users=index.users,
            values=int(spectrum.values.sum()),
            alone=int(spectrum.values[spectrum.counts == 1].sum()),
            in_few=int(spectrum.values[few & (spectrum.counts > 1)].sum()),
            bits=bits,
            by_entropy=naive_group_size(bits, index.population),
        )

    def alone(self, page_question: PageQuestion) -> dict[str, float | None]:
        """Share of the observed users whom each API exposes alone; null without evidence."""
        question = page_question.question()
        entry = self._held(question)
        index = entry.index.asking(question)
        index.sample.ask([api] for api in index.apis)
        lacks = entry.lacks(index.apis, index.k)
        exposed = {api: empirical_exposure(index.counted([api])[1], index.k) for api in index.apis}
        return {api: None if api in lacks else share for api, share in exposed.items()}

    def _cohorts(self, page_question: PageQuestion, apis: Sequence[str]) -> CohortReport | None:
        with self._monitor() as monitor:
            details = ExposureDetails(given=[page_question.given])
            [report] = report_exposures(
                monitor.population(), page_question.question(), [apis], details
            )
            return report.cohorts

    def _held(self, question: Question) -> _Held:
        """Hold the users whom a question takes as long as nobody writes to the file."""
        if not self.db.exists():
            raise InputError("no log is stored yet", hint="store one on this page first")
        state = state_of_database(self.db), question.sample
        if (found := self._indexes.get(state)) is not None:
            return found
        with self._lock:
            state = state_of_database(self.db), question.sample
            if (found := self._indexes.get(state)) is not None:  # read while this one waited
                return found
            with self._monitor() as monitor:
                users = monitor.population()
                apis = users.askable_apis(question)
                entry = _Held(
                    index=users.index(question, apis),
                    unit=monitor.unit,
                    seen=users.seen(apis),
                )
            # What was read of an earlier state of the file leaves the memory.
            alive = {key: one for key, one in self._indexes.items() if key[0] == state[0]}
            self._indexes = alive | {state: entry}
            return entry

    # ---- Which question, and what follows?

    def decide(self, page_question: PageQuestion) -> Decision:
        """Decide the ticked APIs, list the question, and write the decision beside the database.

        Errors are those of `Monitor.decide`.
        """
        question = page_question.question()
        with self._monitor() as monitor:
            decision = monitor.decide(
                k=question.k,
                budget=page_question.budget,
                population=question.population,
                delta=question.delta,
                sample=question.sample,
                candidates=page_question.apis or None,
            )
        write_bytes(self.decision_file, [to_json(decision.to_json()).encode()])
        return decision

    def decision(self) -> Decision | None:
        """Return the decision beside the database; null where there is none."""
        if not self.decision_file.exists():
            return None
        return read_credible_decision(self.decision_file, read_decision)

    def lists(self, decision: Decision) -> tuple[list[Listed], bool]:
        """Write the decision for every product, with the limits of what stays readable.

        Also tell whether it was made on the users as they are now.
        """
        exporters: dict[str, Exporter] = {
            name: load_plugin(EXPORTERS, name) for name in plugin_names(EXPORTERS)
        }
        with self._monitor() as monitor:
            users = monitor.population_as(decision)
            options = ExportOptions(measure=limits_of_left(users, decision))
            listed = [
                _listed(name, exporter, decision, options)
                for name, exporter in exporters.items()
                # What programs do with a plain list is up to them: no page can say what it leaves.
                if not isinstance(exporter, PlainExporter)
            ]
            # What hides most comes first.
            listed.sort(key=_hidden, reverse=True)
            return listed, users_meant(users, decision).seal == decision.digest

    def withheld(self, decision: Decision) -> tuple[Withheld, ...]:
        """Tell why APIs are withheld, and what would change that."""
        with self._monitor() as monitor:
            return explain_withheld(monitor.population_as(decision), decision)

    def list_of(self, decision: Decision, name: str) -> ExportResult:
        """Write one list; errors as of its exporter, and of a name that there is not."""
        exporter: Exporter = load_plugin(EXPORTERS, name)
        if not isinstance(exporter, VisitorPage):
            return exporter.export(decision, ExportOptions())
        with self._monitor() as monitor:
            crowds = partial(shared_crowds, monitor.population_as(decision), decision)
            return exporter.export(decision, ExportOptions(crowds=crowds))


def _stored(monitor: Monitor, k: int) -> Stored | None:
    batches = tuple(monitor.batches())
    if not batches:
        return None
    try:
        users = monitor.population()
    except UndecidableError:
        return Stored(batches=batches, unit=monitor.unit, users=0, apis=(), lacks={})
    apis = tuple(monitor.apis(k=k))
    lacks = users.lacks([line.api for line in apis], k)
    return Stored(
        batches=batches,
        unit=monitor.unit,
        users=users.users,
        apis=apis,
        lacks={api: lack_in_words(lack, k) for api, lack in lacks.items()},
    )


def _hidden(one: Listed) -> int:
    headline = None if one.result is None else one.result.headline
    return -1 if headline is None else headline.hidden


def _listed(name: str, exporter: Exporter, decision: Decision, options: ExportOptions) -> Listed:
    try:
        result = exporter.export(decision, options)
    except FpmonitorError as error:
        return Listed(name=name, about=exporter.summary, result=None, problem=str(error))
    breaks = sorted({page for verdict in result.verdicts for page in verdict.breaks})
    return Listed(
        name=name,
        about=exporter.summary,
        result=replace(result, text=""),
        breaks=tuple(breaks),
    )
