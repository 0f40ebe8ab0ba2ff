"""The monitor of users that a distributed engine holds: questions and answers of `Monitor`."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from fpmonitor.answers.apis import ApiOverview, overview_of_api
from fpmonitor.answers.automation import AutomationReport, report_automation
from fpmonitor.answers.check import CheckReport
from fpmonitor.answers.curve import CurveReport, report_curve
from fpmonitor.answers.exposure import ExposureReport, report_exposure
from fpmonitor.answers.findings import gather_findings
from fpmonitor.answers.rank import Ranking, rank_sets
from fpmonitor.answers.sets import (
    declared_supports,
    report_sets,
    sets_up_to,
    sorted_sets,
    with_volatile_excluded,
)
from fpmonitor.cluster.folder import FolderStore, is_store
from fpmonitor.cluster.folder_ingest import is_export
from fpmonitor.cluster.folder_snapshot import values_of
from fpmonitor.cluster.folder_views import SnapshotViews
from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.cluster.spark_files import format_of
from fpmonitor.decide.decision import decide, recheck
from fpmonitor.disclosure import check_users, may_name, publishable_count
from fpmonitor.errors import InputError
from fpmonitor.estimate.thinning import seed_of
from fpmonitor.logs import excerpt
from fpmonitor.policy import Policy, check_share, check_threshold
from fpmonitor.population.sample import CertifiedSample, certificate_of
from fpmonitor.spectrum import CountSpectrum, spectra_of
from fpmonitor.store.browsers import signs_of
from fpmonitor.store.snapshot import Window
from fpmonitor.store.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    import polars as pl

    from fpmonitor.answers.trust import Knowledge
    from fpmonitor.cluster.folder_snapshot import RemoteSnapshot
    from fpmonitor.cluster.folder_views import RemoteViewed
    from fpmonitor.cluster.spark_files import FileFormat
    from fpmonitor.decide.decision import Decision, Missing, Setting, Verdict
    from fpmonitor.decide.search import ApiSet
    from fpmonitor.export.coverage import Coverage
    from fpmonitor.logs import ColumnMap
    from fpmonitor.render.html import Findings
    from fpmonitor.store.ingest import BatchReport

# What the page cannot tell of such users, while it tells it of a database.
UNTOLD = (
    "These users are held by a distributed engine: exposure over time, what scripts read, and "
    "which records were rejected are told of a database file only."
)


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
    view
        How all questions look at the users: volatile values, automation, coarser values.

    Raises
    ------
    InputError
        The extra `spark` is missing, the address is none, or the folder holds no store.
    EngineLostError
        Nobody answers at the address.
    """

    def __init__(
        self,
        url: str,
        folder: str,
        *,
        create: bool = False,
        window: Window | None = None,
        view: View | None = None,
    ) -> None:
        self._engine = SparkEngine(url)
        self._window = window or Window()
        self._view = view or View()
        self._views = SnapshotViews(self._engine)
        self._batch: str | None = None
        try:
            self._store = FolderStore(self._engine, folder, create=create)
        except BaseException:
            self._engine.close()
            raise

    @classmethod
    def of_source(
        cls,
        url: str,
        source: str,
        *,
        store: str | None = None,
        window: Window | None = None,
        view: View | None = None,
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
        window, view
            As of a monitor.

        Raises
        ------
        InputError
            Nothing is there, or a table is named and no store.
        EngineLostError
            Nobody answers at the address.
        """
        with SparkEngine(url) as engine:
            if is_store(engine, source):
                return cls(url, source, window=window, view=view)
            form = format_of([source])
            if not is_export(engine, [source]):
                engine.define_files("batch_files", [source], form)
        if store is None and form == "table":
            raise InputError(
                f"{excerpt(source)}: no folder beside a table", hint="name a folder with --store"
            )
        store = store or f"{source.rstrip('/')}.fpmonitor"
        monitor = cls(url, store, create=True, window=window, view=view)
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
        return self._snapshot(missing, apis, self._view)

    def _snapshot(self, missing: Missing, apis: Sequence[str], view: View) -> RemoteSnapshot:
        snapshot = self._look(view).snapshot
        if missing == "drop" and apis:
            return self._store.present(snapshot, apis)
        return snapshot

    def _logged(self) -> RemoteSnapshot:
        """Users as they were logged, without any view."""
        return self._store.snapshot(self._window, batch=self._batch)

    def _look(self, view: View) -> RemoteViewed:
        return self._views.look(self._logged(), view)

    @property
    def view(self) -> View:
        """How all questions look at the users."""
        return self._view

    @property
    def dropped(self) -> int:
        """Users that the view leaves out because they look automated."""
        return self._look(self._view).dropped

    # Values are never kept by their digests alone on an engine.
    values_are_digested = False

    def mixed_sources(self, *, k: int = 10) -> dict[str, list[str]]:
        """APIs whose values come from several sources; as of `Monitor.mixed_sources`."""
        if self._window.source is not None:
            return {}
        told = set(self.publishable_apis(k=k))
        mixed = self._store.mixed_sources(k=k, batch=self._batch)
        return {api: sources for api, sources in mixed.items() if api in told}

    def publishable_apis(self, *, k: int = 10) -> tuple[str, ...]:
        """Observed APIs whose names may be told, as of `Monitor.publishable_apis`."""
        found = self.snapshot()
        return tuple(a for a in found.apis if may_name(a, found.seen[a], found.users, k))

    def apis(self, *, k: int = 10) -> list[ApiOverview]:
        """Overview of every API whose name may be told; as of `Monitor.apis`."""
        snapshot, told = self.snapshot(), self.publishable_apis(k=k)
        volatile = self._views.volatile(self._logged())
        spectra = self._store.source(snapshot).spectra([[api] for api in told])
        overview = [
            overview_of_api(
                api,
                spectrum,
                absent=snapshot.users - snapshot.seen[api],
                volatile=volatile[api],
                k=k,
            )
            for api, spectrum in zip(told, spectra, strict=True)
        ]
        return sorted(overview, key=lambda line: (-(line.exposure or 0), line.api))

    def automation(self, *, k: int = 10) -> AutomationReport:
        """Users that look automated, by sign; as of `Monitor.automation`."""
        groups = self._views.groups(self._logged())
        signs = signs_of(groups.traits)
        return report_automation(
            {sign: int(groups.users[rows].sum()) for sign, rows in signs.items()},
            users=int(groups.users.sum()),
            automated=int(groups.users[groups.automated].sum()),
            exposures={},
            k=k,
        )

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
        given: Sequence[str] = (),
        bounds: bool = False,
        supports: Sequence[int] = (),
        trust: Knowledge | None = None,
        entropies: bool = False,
    ) -> list[ExposureReport]:
        """Exposure of API sets; arguments, errors and answers as of `Monitor.exposure`."""
        wanted = sorted_sets(sets)
        declared = declared_supports(supports, wanted)
        cohort = tuple(dict.fromkeys(given))
        together = [tuple(sorted({*apis, *cohort})) for apis in wanted]
        sample = self._sample(together, k, population, delta, missing)
        if trust is not None:
            spectra_of(sample.full, _parts(together, trust))
        reports = report_sets(
            sample,
            wanted,
            supports=declared,
            given=cohort,
            texts={api: self._value_texts(api) for api in cohort},
            bounds=bounds,
            trust=trust,
            entropies=entropies,
            show_counts_below_k=False,
        )
        if self._view.volatile != "shared":
            return reports
        verdicts = self._views.volatile(self._logged())
        if not any(verdicts[api] for apis in together for api in apis):
            return reports
        view = replace(self._view, volatile="left-out")
        left_out = self._sample(together, k, population, delta, missing, view=view)
        return with_volatile_excluded(reports, verdicts, left_out, show_counts_below_k=False)

    def _value_texts(self, api: str) -> dict[int, str | None]:
        """Return what value numbers stand for; a status in brackets where it is no value."""
        rows = values_of(self._engine, self._logged(), api).rows()
        return {code: text if status == "value" else f"({status})" for code, status, text in rows}

    def _sample(
        self,
        sets: Sequence[tuple[str, ...]],
        k: int,
        population: int | None,
        delta: float,
        missing: Missing,
        *,
        view: View | None = None,
    ) -> CertifiedSample:
        """Thin the users for one question, and ask for all spectra of some sets at once."""
        check_share("delta", delta)
        check_threshold(k, max(k, 2) if population is None else population)
        apis = sorted({api for names in sets for api in names})
        snapshot = self._snapshot(missing, apis, view or self._view)
        check_users(snapshot.users, k)
        population = snapshot.users if population is None else population
        limits = certificate_of(snapshot.users, k, population, delta)
        seed = seed_of(json.dumps([k, population, delta]), snapshot.digest)
        full = self._store.source(snapshot)
        thinned = full.thinned(mean=limits.mean, seed=seed)
        for source in (full, thinned) if thinned.users else (full,):
            source.spectra(sets)  # what is asked for below is then known
        return CertifiedSample(
            k=k,
            population=population,
            certificate=limits,
            full=full,
            thinned=thinned,
            digest=snapshot.digest,
        )

    def preview(
        self, decision: Decision, sets: Iterable[Sequence[str]], *, delta: float = 0.05
    ) -> list[ExposureReport]:
        """Exposure of subsets of a decision's candidates; as of `Monitor.preview`."""
        policy = decision.policy
        wanted = [tuple(sorted(set(apis))) for apis in sets]
        asked = self._as_decided(decision)
        sample = asked._sample(  # noqa: SLF001 -- its own class
            [policy.candidates, *wanted],
            policy.k,
            policy.population,
            policy.delta or delta,
            decision.missing,
        )
        return [report_exposure(sample, apis) for apis in wanted]

    def _as_decided(self, decision: Decision) -> Self:
        """Look at the users of this window as a decision did; both close together."""
        other = copy.copy(self)
        other._window = replace(self._window, source=decision.source or self._window.source)  # noqa: SLF001 -- its own class
        other._view = decision.view  # noqa: SLF001
        return other

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
    ) -> Ranking:
        """Rank API sets by entropy and by exposure; as of `Monitor.rank`."""
        wanted = sorted_sets(sets)
        if not wanted:
            chosen = self.publishable_apis(k=k) if candidates is None else sorted(set(candidates))
            wanted = sets_up_to(size, chosen)
        sample = self._sample(wanted, k, population, delta, missing)
        check_threshold(k, sample.population)
        return rank_sets(
            wanted,
            sample.full,
            k=k,
            population=sample.population,
            upper_limit=lambda apis: sample.limits(apis)[1],
        )

    def curve(
        self, apis: Sequence[str], *, k: int = 10, delta: float = 0.05, missing: Missing = "value"
    ) -> CurveReport:
        """Whole exposure curve of one API set; as of `Monitor.curve`."""
        [wanted] = sorted_sets([apis])
        snapshot = self.snapshot(missing=missing, apis=wanted)
        check_users(snapshot.users, k)
        spectrum = self._store.source(snapshot).spectrum(wanted)
        return report_curve(wanted, spectrum, k=k, delta=delta)

    def findings(self, decision: Decision, *, coverage: Coverage, pairs: bool = True) -> Findings:
        """Gather all that a report on a decision tells; as of `Monitor.findings`.

        Exposure over time and what scripts read are not told, and the report says so.
        """
        asked = self._as_decided(decision)
        return gather_findings(
            asked,
            decision,
            coverage=coverage,
            pairs=pairs,
            visits=asked._logged().visits,  # noqa: SLF001 -- its own class
            automation=asked.automation(k=decision.policy.k),
            untold=[UNTOLD],
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
        chosen = self.publishable_apis(k=k) if candidates is None else candidates
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
            view=self._view,
            log_source=self._window.source,
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
        asked = self._as_decided(decision)
        snapshot = asked.snapshot(missing=decision.missing, apis=candidates)
        source = self._store.source(snapshot, candidates)
        return recheck(decision, source, words=None, digest=snapshot.digest)

    def check_report(self, decision: Decision) -> CheckReport:
        """Check a decision as `check` does, and say on whom; errors as there."""
        users = self._as_decided(decision)._logged().users  # noqa: SLF001 -- its own class
        return CheckReport(
            decision=decision,
            verdicts=self.check(decision),
            users=publishable_count(users, decision.policy.k),
            since=self._window.since,
            until=self._window.until,
            place=None,
        )

    def sample(self, users: int) -> pl.DataFrame:
        """Draw users uniformly as a long log; the same number gives the same users.

        Raises
        ------
        InputError
            More users than there are, or none.
        """
        snapshot = self._logged()
        return self._store.sample(
            snapshot, users, seed=seed_of("sample", str(users), snapshot.digest)
        )

    def price_of_sample(
        self, users: int, *, k: int = 10, population: int | None = None, delta: float = 0.05
    ) -> SamplePrice:
        """Say what the certificate loses when it sees a sample only."""
        everyone = self._logged().users
        population = everyone if population is None else population

        def smallest(number: int) -> float:
            limits = certificate_of(number, k, population, delta)
            return limits.upper(CountSpectrum.from_counts([number]))

        return SamplePrice(
            users=everyone,
            sampled=users,
            limit=smallest(everyone),
            limit_of_sample=smallest(users),
        )


def _parts(sets: Sequence[tuple[str, ...]], trust: Knowledge) -> list[tuple[str, ...]]:
    """APIs of some sets, and their pairs where these are known: what a promise is composed of."""
    sizes = (1,) if trust == "marginals" else (1, 2)
    return [part for apis in sets for size in sizes for part in itertools.combinations(apis, size)]
