"""The monitor of users that a distributed engine holds: questions and answers of `Monitor`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, cast

from fpmonitor.decide.decision import decide, recheck
from fpmonitor.disclosure import may_name
from fpmonitor.engine.folder import FolderStore, is_store
from fpmonitor.engine.spark import SparkEngine
from fpmonitor.engine.spark_files import format_of
from fpmonitor.errors import InputError
from fpmonitor.estimate.certificate import certificate
from fpmonitor.estimate.thinning import seed_of
from fpmonitor.logs import excerpt
from fpmonitor.policy import Policy, check_share, check_threshold
from fpmonitor.report.check import CheckReport
from fpmonitor.report.exposure import (
    ExposureReport,
    report_bounds,
    report_entropies,
    report_exposure,
)
from fpmonitor.report.sample import Sample
from fpmonitor.spectrum import CountSpectrum, spectra_of
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    import polars as pl

    from fpmonitor.decide.decision import Decision, Missing, Setting, Verdict
    from fpmonitor.decide.search import ApiSet
    from fpmonitor.engine.duckdb import DuckDBSource
    from fpmonitor.engine.folder import RemoteSnapshot
    from fpmonitor.engine.spark_files import FileFormat
    from fpmonitor.logs import ColumnMap
    from fpmonitor.store.ingest import BatchReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePrice:
    """What the certificate can prove at best with all users and with a sample of them.

    Attributes
    ----------
    users, sampled
        Numbers of users.
    limit, limit_of_sample
        Upper limit of the exposure of a set whose users all share one value: the smallest limit
        that the certificate can give, a share of the population.
    """

    users: int
    sampled: int
    limit: float
    limit_of_sample: float


class RemoteMonitor:
    """A store in a folder of a distributed engine, and the questions that can be asked of it.

    Parameters
    ----------
    url
        Address of a server of Spark Connect, `sc://host:port`.
    folder
        The store, as the engine names it: a path, `s3a://bucket/folder`, ...
    create
        Make the store when it is not there.
    window
        Restrict all questions to observations of this time and source.

    Raises
    ------
    InputError
        The extra `spark` is missing, the address is none, or the folder holds no store.
    EngineLostError
        Nobody answers at the address.
    """

    def __init__(
        self, url: str, folder: str, *, create: bool = False, window: Window | None = None
    ) -> None:
        self._engine = SparkEngine(url)
        self._window = window
        self._batch: str | None = None
        try:
            self._store = FolderStore(self._engine, folder, create=create)
        except BaseException:
            self._engine.close()
            raise

    @classmethod
    def of_source(
        cls, url: str, source: str, *, store: str | None = None, window: Window | None = None
    ) -> Self:
        """Open a store, or logs: these are stored first, and all questions are about them alone.

        Parameters
        ----------
        url
            Address of a server of Spark Connect.
        source
            Folder of a store, or files or a table of logs, as the engine names them.
        store
            Where logs are stored; `<source>.fpmonitor` by default.
        window
            Restrict all questions to observations of this time and source.

        Raises
        ------
        InputError
            Nothing is there, or a table is named and no store.
        EngineLostError
            Nobody answers at the address.
        """
        with SparkEngine(url) as engine:
            if is_store(engine, source):
                return cls(url, source, window=window)
            form = format_of([source])
            engine.define_files("batch_files", [source], form)
        if store is None and form == "table":
            raise InputError(
                f"{excerpt(source)}: no folder beside a table", hint="name a folder with --store"
            )
        store = store or f"{source.rstrip('/')}.fpmonitor"
        monitor = cls(url, store, create=True, window=window)
        try:
            monitor._batch = monitor._store.ingest([source]).digest
        except BaseException:
            monitor.close()
            raise
        return monitor

    def close(self) -> None:
        """End the session on the engine."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._engine.__exit__(kind, error, traceback)

    def ingest(
        self,
        paths: Sequence[str],
        column_map: ColumnMap | None = None,
        form: FileFormat | None = None,
    ) -> BatchReport:
        """Store one batch of files or a table; see `FolderStore.ingest`."""
        return self._store.ingest(paths, column_map, form).report

    def batches(self) -> list[BatchReport]:
        """List the batches that are stored, in the order of ingest."""
        return self._store.batches()

    def snapshot(self, *, missing: Missing = "value", apis: Sequence[str] = ()) -> RemoteSnapshot:
        """Latest value of every API of every user; arguments and errors as of `Monitor`."""
        snapshot = self._store.snapshot(self._window, batch=self._batch)
        if missing == "drop" and apis:
            return self._store.present(snapshot, apis)
        return snapshot

    def told_apis(self, *, k: int = 10) -> tuple[str, ...]:
        """Observed APIs whose names may be told, as of `Monitor.told_apis`."""
        found = self.snapshot()
        return tuple(a for a in found.apis if may_name(a, found.seen[a], found.users, k))

    @property
    def lost(self) -> bool:
        """Whether the engine was lost; a decision made then holds what is proven."""
        return self._engine.lost

    def exposure(
        self,
        sets: Iterable[Sequence[str]],
        *,
        k: int,
        population: int | None = None,
        delta: float = 0.05,
        missing: Missing = "value",
        bounds: bool = False,
        entropies: bool = False,
    ) -> list[ExposureReport]:
        """Exposure of API sets; arguments, errors and answers as of `Monitor.exposure`."""
        wanted = [tuple(sorted(set(apis))) for apis in sets]
        if not all(wanted):
            raise InputError("sets: name at least one API for each set")
        check_share("delta", delta)
        check_threshold(k, max(k, 2) if population is None else population)
        snapshot = self.snapshot(missing=missing, apis=sorted({a for s in wanted for a in s}))
        sample = self._sample(snapshot, k, population, delta)
        spectra_of(sample.full, wanted)  # all at once: the questions below find them answered
        if sample.thinned.users:
            spectra_of(sample.thinned, wanted)
        reports = []
        for apis in wanted:
            report = report_exposure(sample, apis)
            if bounds:
                report = replace(report, bounds=report_bounds(sample, report))
            if entropies:
                report = replace(report, entropies=report_entropies(sample, report))
            reports.append(report)
        return reports

    def _sample(
        self, snapshot: RemoteSnapshot, k: int, population: int | None, delta: float
    ) -> Sample:
        population = snapshot.users if population is None else population
        limits = certificate(users=snapshot.users, k=k, population=population, delta=delta)
        seed = seed_of(json.dumps([k, population, delta]), snapshot.digest)
        full = self._store.source(snapshot)
        return Sample(
            k=k,
            population=population,
            certificate=limits,
            # Only cohorts ask for more than spectra, and they are not offered here.
            full=cast("DuckDBSource", full),
            thinned=cast("DuckDBSource", full.thinned(mean=limits.mean, seed=seed)),
            digest=snapshot.digest,
        )

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
        forecast: bool = False,
        known: Decision | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Decision:
        """Decide all subsets of the candidates; arguments and answer as of `Monitor.decide`.

        When the engine is lost on the way, the decision holds what is proven, is not complete, and
        `lost` tells so.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            A number out of range, an API never observed, no user left.
        InputError
            `known` answers another question, or was made of other data.
        EngineLostError
            The engine was lost before anything was proven.
        """
        chosen = self.told_apis(k=k) if candidates is None else candidates
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
            self._store.source(snapshot, policy.candidates),
            policy,
            words=None,
            digest=snapshot.digest,
            setting=setting,
            missing=missing,
            weights=weights,
            must=must,
            never=never,
            time_limit=time_limit,
            max_size=max_size,
            forecast=forecast,
            progress=progress,
            log_source=None if self._window is None else self._window.source,
            engine=self._engine.url,
            known=known,
        )

    def check(self, decision: Decision) -> dict[ApiSet, Verdict]:
        """Test every set on the allow list of a decision again, on the data of now.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            The data of now lack a candidate, or hold too few users.
        EngineLostError
            The engine was lost.
        """
        candidates = decision.policy.candidates
        snapshot = self.snapshot(missing=decision.missing, apis=candidates)
        source = self._store.source(snapshot, candidates)
        return recheck(decision, source, words=None, digest=snapshot.digest)

    def check_report(self, decision: Decision) -> CheckReport:
        """Check a decision as `check` does, and say on whom; errors as there."""
        window = self._window or Window()
        snapshot = self.snapshot(missing=decision.missing, apis=decision.policy.candidates)
        return CheckReport(
            decision=decision,
            verdicts=self.check(decision),
            users=snapshot.users if snapshot.users >= decision.policy.k else None,
            since=window.since,
            until=window.until,
            place=None,
        )

    def sample(self, users: int) -> pl.DataFrame:
        """Draw users uniformly as a long log; the same number gives the same users.

        Raises
        ------
        InputError
            More users than there are, or none.
        """
        snapshot = self.snapshot()
        return self._store.sample(
            snapshot, users, seed=seed_of("sample", str(users), snapshot.digest)
        )

    def price_of_sample(
        self, users: int, *, k: int = 10, population: int | None = None, delta: float = 0.05
    ) -> SamplePrice:
        """Say what the certificate loses when it sees a sample only."""
        everyone = self.snapshot().users
        population = everyone if population is None else population

        def smallest(number: int) -> float:
            limits = certificate(users=number, k=k, population=population, delta=delta)
            return limits.upper(CountSpectrum.from_counts([number]))

        return SamplePrice(
            users=everyone,
            sampled=users,
            limit=smallest(everyone),
            limit_of_sample=smallest(users),
        )
