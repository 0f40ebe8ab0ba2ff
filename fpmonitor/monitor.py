"""The monitor: everything the command line does, for programs and notebooks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from fpmonitor.decide.decision import decide, recheck
from fpmonitor.engine.duckdb import DuckDBSource
from fpmonitor.engine.memory import MemorySource
from fpmonitor.errors import InputError
from fpmonitor.estimate.certificate import certificate
from fpmonitor.estimate.thinning import dropped_positions, seed_of
from fpmonitor.logs import ColumnMap, log_files
from fpmonitor.policy import Policy, check_share, check_threshold
from fpmonitor.report.apis import ApiOverview, overview_of_api
from fpmonitor.report.exposure import ExposureReport, report_exposure
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import BatchReport, choose_collector, ingest
from fpmonitor.store.snapshot import (
    Snapshot,
    Window,
    read_codes,
    read_words,
    restrict_to_present,
    take_snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from fpmonitor.decide.decision import Decision, Missing, Setting, Verdict
    from fpmonitor.decide.search import ApiSet


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record of an ingested log that was not stored."""

    source: str
    line: int | None
    reason: str
    excerpt: str


class Monitor:
    """A database of observations, and the questions that can be asked of it.

    Parameters
    ----------
    path
        The database file.
    create
        Make the file when it is not there.
    window
        Restrict all questions to observations of this time.

    Raises
    ------
    StoreError
        The file cannot be opened as a database of fpmonitor.
    """

    def __init__(self, path: Path, *, create: bool = False, window: Window | None = None) -> None:
        self._database = Database(path, create=create)
        self._window = window or Window()

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def ingest(
        self,
        paths: Sequence[str],
        *,
        collector: str | None = None,
        column_map: ColumnMap | None = None,
        progress: Callable[[str, str], None] = lambda _source, _stage: None,
    ) -> list[BatchReport]:
        """Store logs: files, folders, glob patterns, or `-` for standard input.

        All logs are recognised before the first is stored.

        Raises
        ------
        InputError
            A path that is not there, or a log that no collector recognises.
        """
        column_map = column_map or ColumnMap()
        with log_files(paths) as logs:
            recognised = [(log, choose_collector(log, column_map, collector)) for log in logs]
            return [
                ingest(
                    self._database,
                    log,
                    reader,
                    column_map,
                    progress=partial(progress, log.label),
                )
                for log, reader in recognised
            ]

    def rejects(self, *, most: int = 100) -> list[RejectedRecord]:
        """List records that were not stored, the first of each batch."""
        return [RejectedRecord(*row) for row in self._database.rows("report/rejects", most=most)]

    def snapshot(self, *, missing: Missing = "value", apis: Sequence[str] = ()) -> Snapshot:
        """Latest value of every API of every user.

        Parameters
        ----------
        missing
            `value`: absent is a value like others; `drop`: only users with all of `apis`.
        apis
            See `missing`.

        Raises
        ------
        UndecidableError
            No user is left.
        UnknownNameError
            No observation of one of `apis`.
        """
        snapshot = take_snapshot(self._database, self._window)
        for api in apis:
            snapshot.column(api)
        if missing == "drop" and apis:
            return restrict_to_present(self._database, snapshot, apis)
        return snapshot

    def apis(self, *, k: int = 10, show_counts_below_k: bool = False) -> list[ApiOverview]:
        """Overview of every API, the most exposing first."""
        snapshot = self.snapshot()
        source = DuckDBSource(self._database, snapshot)
        overview = []
        for api in snapshot.apis:
            fragments = {"snapshot": snapshot.table, "column": snapshot.column(api)}
            absent = self._database.rows("snapshot/absent_users", fragments=fragments)[0][0]
            overview.append(
                overview_of_api(
                    api,
                    source.spectrum([api]),
                    absent=absent,
                    k=k,
                    show_counts_below_k=show_counts_below_k,
                )
            )
        return sorted(overview, key=lambda line: (-(line.exposure or 0), line.api))

    def exposure(
        self,
        sets: Iterable[Sequence[str]],
        *,
        k: int,
        population: int | None = None,
        delta: float = 0.05,
        missing: Missing = "value",
    ) -> list[ExposureReport]:
        """Exposure of API sets, each limit holding for its set alone.

        Parameters
        ----------
        sets
            The API sets.
        k, population
            Anonymity threshold and `n`, users; `n` is the number of observed users by default.
        delta
            Tolerated probability of error of each limit, in (0, 1).
        missing
            See `snapshot`; all sets together name the APIs that a user must have.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            A number out of range, an API never observed, no user left.
        """
        wanted = [tuple(sorted(set(apis))) for apis in sets]
        if not all(wanted):
            raise InputError("exposure: name at least one API for each set")
        check_share("delta", delta)
        check_threshold(k, max(k, 2) if population is None else population)
        together = sorted({api for apis in wanted for api in apis})
        snapshot = self.snapshot(missing=missing, apis=together)
        population = snapshot.users if population is None else population
        check_threshold(k, population)
        table = certificate(users=snapshot.users, k=k, population=population, delta=delta)
        question = json.dumps([k, population, delta])
        dropped = dropped_positions(
            read_words(self._database, snapshot),
            mean=table.mean,
            seed=seed_of(question, snapshot.digest),
        )
        full = DuckDBSource(self._database, snapshot)
        thinned = DuckDBSource(self._database, snapshot, dropped)
        return [
            report_exposure(
                apis,
                full.spectrum(apis),
                thinned.spectrum(apis),
                table,
                k=k,
                population=population,
            )
            for apis in wanted
        ]

    def decide(
        self,
        *,
        k: int,
        budget: float,
        population: int | None = None,
        delta: float = 0.05,
        candidates: Sequence[str] | None = None,
        setting: Setting = "population",
        missing: Missing = "value",
        weights: Mapping[str, float] | None = None,
        must: Iterable[str] = (),
        never: Iterable[str] = (),
        time_limit: float | None = None,
        max_size: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Decision:
        """Decide all subsets of the candidates; arguments as in `decide.decision.decide`.

        Parameters
        ----------
        population
            `n`, users; the number of observed users by default.
        candidates
            The APIs to decide on; all that were observed by default.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            A number out of range, an API never observed, no user left.
        """
        chosen = self.snapshot().apis if candidates is None else candidates
        snapshot = self.snapshot(missing=missing, apis=chosen)
        exact = setting == "sample"
        policy = Policy(
            k=k,
            population=snapshot.users if exact or population is None else population,
            budget=budget,
            delta=None if exact else delta,
            candidates=tuple(chosen),
        )
        return decide(
            self._source(snapshot, policy.candidates),
            policy,
            words=read_words(self._database, snapshot),
            digest=snapshot.digest,
            setting=setting,
            missing=missing,
            weights=weights,
            must=must,
            never=never,
            time_limit=time_limit,
            max_size=max_size,
            progress=progress,
        )

    def check(self, decision: Decision) -> dict[ApiSet, Verdict]:
        """Test every set on the allow list of a decision again, on the data of now.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            The data of now lack a candidate, or hold too few users.
        """
        candidates = decision.policy.candidates
        snapshot = self.snapshot(missing=decision.missing, apis=candidates)
        return recheck(
            decision,
            self._source(snapshot, candidates),
            words=read_words(self._database, snapshot),
            digest=snapshot.digest,
        )

    def _source(self, snapshot: Snapshot, apis: Sequence[str]) -> MemorySource:
        return MemorySource(apis, read_codes(self._database, snapshot, apis))
