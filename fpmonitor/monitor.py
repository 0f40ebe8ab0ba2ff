"""The monitor: everything the command line does, for programs and notebooks."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import polars as pl

from fpmonitor.answers.apis import ApiOverview, overview_of_api
from fpmonitor.answers.automation import AutomationReport, report_automation
from fpmonitor.answers.check import CheckReport
from fpmonitor.answers.curve import CurveReport, report_curve
from fpmonitor.answers.demand import DemandLine, observed_apis, unobserved_apis
from fpmonitor.answers.exposure import ExposureReport, report_exposure
from fpmonitor.answers.findings import Findings, gather_findings
from fpmonitor.answers.rank import Ranking, rank_sets
from fpmonitor.answers.sets import (
    declared_supports,
    report_sets,
    sets_up_to,
    sorted_sets,
    with_volatile_excluded,
)
from fpmonitor.answers.trend import Against, TrendReport, report_trend
from fpmonitor.decide.deciding import decide, recheck
from fpmonitor.decide.horizon import identity_of, share_delta, slot_of
from fpmonitor.disclosure import check_users, masked_text, may_name, publishable_count
from fpmonitor.errors import UndecidableError
from fpmonitor.logs import ColumnMap, log_files
from fpmonitor.policy import Policy, check_share, check_threshold
from fpmonitor.population.duckdb import DuckDBSource
from fpmonitor.population.exposure_index import ExposureIndex, make_exposure_index
from fpmonitor.population.memory import MemorySource, has_room_for
from fpmonitor.population.sample import CertifiedSample, take_sample, thin_users
from fpmonitor.release.audit import ReleaseAudit, audit_release, record_words, weights_of_rows
from fpmonitor.release.estimated import EstimatedGuarantee, estimated_guarantee
from fpmonitor.release.histogram import (
    Mechanism,
    Release,
    check_origin,
    group_of_users,
    make_release,
    read_values,
)
from fpmonitor.release.query_audit import QueryAuditor, QueryPolicy, QueryVerdict
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.answers import (
    AnsweredReader,
    add_answered,
    forget_reader,
    list_readers,
    read_answered,
)
from fpmonitor.store.browsers import read_automation
from fpmonitor.store.checks import number_check
from fpmonitor.store.database import Database
from fpmonitor.store.demand import (
    By,
    DemandReport,
    choose_demand_collector,
    read_demand,
    read_sites,
    store_demand,
)
from fpmonitor.store.digests import keep_digests_only, refuse_digests, values_are_digested
from fpmonitor.store.ingest import BatchReport, choose_collector, ingest, list_batches
from fpmonitor.store.snapshot import (
    ABSENT,
    Snapshot,
    Window,
    read_codes,
    read_user_hashes,
    restrict_to_present,
    take_snapshot,
)
from fpmonitor.store.transfer import Export, ImportReport, Manifest, export_data, import_data
from fpmonitor.store.upkeep import Verification, forget_before, forget_user, verify
from fpmonitor.store.views import View, Viewed, look
from fpmonitor.store.windows import Period, count_timeless, list_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from fpmonitor.answers.trust import Knowledge
    from fpmonitor.decide.decision import ApiSet, Decision, Missing, Setting, Verdict
    from fpmonitor.export.coverage import Coverage


Engine = Literal["auto", "memory", "duckdb"]


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record of an ingested log that was not stored."""

    source: str
    line: int | None
    reason: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class AskedQueries:
    """Whether counts are answered; how many different ones the reader has had, and may have."""

    verdict: QueryVerdict
    answered: int
    limit: int


class Monitor:
    """A database of observations, and the questions that can be asked of it.

    Parameters
    ----------
    path
        The database file.
    create
        Make the file when it is not there.
    window
        Restrict all questions to observations of this time and source.
    view
        How all questions look at the users: volatile values, automation, coarser values.

    Raises
    ------
    StoreError
        The file cannot be opened as a database of fpmonitor.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        window: Window | None = None,
        view: View | None = None,
    ) -> None:
        self._database = Database(path, create=create)
        self._window = window or Window()
        self._view = view or View()

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
        digest_values: bool = False,
        progress: Callable[[str, str], None] = lambda _source, _stage: None,
    ) -> list[BatchReport]:
        """Store logs: files, folders, glob patterns, or `-` for standard input.

        All logs are recognised before the first is stored.

        Parameters
        ----------
        digest_values
            Keep digests of values instead of values, in this database for ever.

        Raises
        ------
        InputError
            A path that is not there, a log that no collector recognises, or a database with values
            in the clear that is to keep digests.
        """
        column_map = column_map or ColumnMap()
        with log_files(paths) as logs:
            recognised = [(log, choose_collector(log, column_map, collector)) for log in logs]
            if digest_values:
                keep_digests_only(self._database)
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

    def store_demand(
        self, paths: Sequence[str], *, collector: str | None = None
    ) -> list[DemandReport]:
        """Store logs of API calls: files, folders, glob patterns, or `-` for standard input.

        Raises
        ------
        InputError
            A path that is not there, or a log that no demand collector recognises.
        """
        with log_files(paths) as logs:
            recognised = [(log, choose_demand_collector(log, collector)) for log in logs]
            return [store_demand(self._database, log, reader) for log, reader in recognised]

    def demand(
        self,
        by: By = "script",
        *,
        k: int = 10,
        population: int | None = None,
        delta: float = 0.05,
        most: int = 50,
    ) -> list[DemandLine]:
        """List API sets that scripts really read, with their exposure, the most exposing first.

        Parameters
        ----------
        by
            Together by one script on one site, or by all scripts of a site.
        k, population, delta
            As in `exposure`; without observations of users, exposures are null.
        most
            How many sets, those of the most sites.

        Raises
        ------
        PolicyError
            A number out of range.
        """
        check_share("delta", delta)
        check_threshold(k, max(k, 2) if population is None else population)
        demands = read_demand(self._database, by, most=most)
        has_users = self._database.rows("snapshot/last_batch")[0][0] > 0
        known = self.publishable_apis(k=k) if has_users else ()
        observed = [observed_apis(demand.apis, known) for demand in demands]
        distinct = sorted({apis for apis in observed if apis})
        reports = (
            self.exposure(distinct, k=k, population=population, delta=delta) if distinct else []
        )
        exposure_of = dict(zip(distinct, reports, strict=True))
        lines = [
            DemandLine(
                demand=demand,
                observed=apis,
                unobserved=unobserved_apis(demand.apis, known),
                exposure=exposure_of.get(apis),
            )
            for demand, apis in zip(demands, observed, strict=True)
        ]
        return sorted(lines, key=lambda line: -line.exposure.plug_in if line.exposure else 1.0)

    def demand_weights(self) -> dict[str, float]:
        """Weigh each observed API by the number of sites on which scripts read it.

        Raises
        ------
        UndecidableError
            No log of API calls was stored.
        """
        sites = read_sites(self._database)
        if not sites:
            raise UndecidableError(
                "no log of API calls to weigh by", hint="store one with `fpmonitor demand LOG...`"
            )
        known = self.publishable_apis()
        weights = dict.fromkeys(known, 0.0)
        for api, number in sites.items():
            for observed in observed_apis((api,), known):
                weights[observed] = max(weights[observed], float(number))
        return weights

    def batches(self) -> list[BatchReport]:
        """List the logs that were stored, in the order of ingest."""
        return list_batches(self._database)

    @property
    def values_are_digested(self) -> bool:
        """Whether the database keeps digests of values instead of values."""
        return values_are_digested(self._database)

    def rejects(self, *, most: int = 100) -> list[RejectedRecord]:
        """List records that were not stored, the first of each batch; excerpts show their form."""
        return [
            RejectedRecord(source, line, reason, masked_text(excerpt))
            for source, line, reason, excerpt in self._database.rows("report/rejects", most=most)
        ]

    def observations(self) -> list[tuple[int, str, str, str | None, str | None]]:
        """Everything that is stored: number of the user, API, status, source, value.

        Large values stand as digest and length, and users as numbers of this database.
        """
        return self._database.rows("report/observations")

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
        return self._snapshot(missing, apis, self._view)

    def _snapshot(self, missing: Missing, apis: Sequence[str], view: View) -> Snapshot:
        snapshot = self._look(view).snapshot
        for api in apis:
            snapshot.column(api)
        if missing == "drop" and apis:
            return restrict_to_present(self._database, snapshot, apis)
        return snapshot

    def _look(self, view: View) -> Viewed:
        snapshot = take_snapshot(self._database, self._window)
        return look(self._database, snapshot, view, self._window)

    @property
    def view(self) -> View:
        """How all questions look at the users."""
        return self._view

    @property
    def dropped(self) -> int:
        """Users that the view leaves out because they look automated."""
        return self._look(self._view).dropped

    def ask(self, reader: str, queries: Iterable[str], *, limit: str = "log2") -> AskedQueries:
        """Decide whether a reader may have exact counts answered, and remember them if so.

        Parameters
        ----------
        reader
            Who asks.
        queries
            Texts that name the counts, equal for equal counts of equal users; the users that they
            are of are added here.
        limit
            `log2` of the users, or a number: different counts of which one reader may have
            the answers. Counts asked again are answered again.

        Raises
        ------
        PolicyError
            The limit is neither.
        """
        snapshot = self.snapshot()
        policy = QueryPolicy.from_text(limit, snapshot.users)
        named = [f"{snapshot.digest} {query}" for query in queries]
        known = read_answered(self._database, reader)
        auditor = QueryAuditor(policy, {(reader, ""): set(known)})
        verdict = auditor.ask(reader, "", named)
        fresh = auditor.answered[reader, ""] - known
        if fresh:
            now = datetime.now(UTC).replace(tzinfo=None)
            with self._database.transaction():
                add_answered(self._database, reader, fresh, at=now)
        return AskedQueries(verdict, len(known) + len(fresh), policy.refuse_above)

    def verify(self) -> Verification:
        """Read the whole database: what it says, and what in it contradicts itself.

        Raises
        ------
        StoreError
            A part of the file cannot be read.
        """
        return verify(self._database)

    def export_data(self, folder: Path) -> Manifest:
        """Write all data into a new folder of Parquet files, as secret as the database.

        Raises
        ------
        StoreError
            The folder is there already or cannot be written, or the database cannot be read.
        """
        return export_data(self._database, folder)

    def import_data(self, export: Export) -> ImportReport:
        """Store what an export holds and what is not there yet, in one transaction.

        Parameters
        ----------
        export
            As `store.transfer.read_export` gives it for a folder.

        Raises
        ------
        InputError
            The export has another key of user digests, or is not sound.
        StoreError
            The database cannot be written; nothing is stored.
        """
        return import_data(self._database, export)

    def forget_before(self, before: datetime) -> int:
        """Forget all visits before a time (UTC); how many. `store.upkeep.compact` erases them."""
        return forget_before(self._database, before)

    def forget_user(self, user: str) -> int:
        """Forget the user with an id; how many visits. `store.upkeep.compact` erases them."""
        return forget_user(self._database, user)

    def readers(self) -> list[AnsweredReader]:
        """List who has had exact counts answered, and how many."""
        return list_readers(self._database)

    def forget_reader(self, reader: str) -> None:
        """Forget what a reader has had answered: only if the users are others now."""
        with self._database.transaction():
            forget_reader(self._database, reader)

    def histogram_guarantee(
        self,
        apis: Sequence[str],
        *,
        k: int,
        epsilon: float,
        users: int | None = None,
        known: int = 0,
        alpha: float = 0.05,
    ) -> EstimatedGuarantee:
        """Privacy under partial knowledge of a histogram, for the law that the users here tell.

        Parameters
        ----------
        apis
            Columns of the histogram.
        users
            Users in the release; the observed ones by default.
        k, epsilon, known, alpha
            As in `release.estimated.estimated_guarantee`.

        Raises
        ------
        InputError, PolicyError, UnknownNameError, UndecidableError
            A number out of range, an API never observed, nobody with a value.
        """
        [wanted] = sorted_sets([apis])
        snapshot = take_snapshot(self._database, self._window)
        values = read_values(self._database, snapshot, wanted, self._view.transforms)
        present = values.filter(~pl.all_horizontal(pl.all().is_null()))
        groups = present.group_by(wanted).len()["len"].to_numpy()
        return estimated_guarantee(
            CountSpectrum.from_counts(groups),
            len(values) - len(present),
            release_users=len(values) if users is None else users,
            k=k,
            epsilon=epsilon,
            known=known,
            alpha=alpha,
        )

    def mixed_sources(self, *, k: int = 10) -> dict[str, list[str]]:
        """APIs whose values come from several sources, and which these are.

        Libraries and their versions shape values, so that pooled values may differ in one browser.
        A source of fewer than k users is not named.
        """
        if self._window.source is not None or len(self._database.rows("report/sources")) < 2:
            return {}
        told = set(self.publishable_apis(k=k))
        mixed = self._database.rows("report/mixed_sources", k=k)
        return {api: sources for api, sources in mixed if api in told}

    def publishable_apis(self, *, k: int = 10) -> tuple[str, ...]:
        """Observed APIs whose names may be told: see `disclosure.may_name`."""
        snapshot = self.snapshot()
        counts = self._users_of_apis(snapshot)
        return tuple(api for api in snapshot.apis if may_name(api, counts[api], snapshot.users, k))

    def _users_of_apis(self, snapshot: Snapshot) -> dict[str, int]:
        counts = ", ".join(
            f"count(*) FILTER ({snapshot.column(api)} <> {ABSENT})" for api in snapshot.apis
        )
        fragments = {"counts": counts, "snapshot": snapshot.table}
        [found] = self._database.rows("snapshot/users_of_apis", fragments=fragments)
        return dict(zip(snapshot.apis, found, strict=True))

    def automation(
        self, sets: Iterable[Sequence[str]] = (), *, k: int = 10, show_counts_below_k: bool = False
    ) -> AutomationReport:
        """Users that look automated, by sign, and what leaving them out does to some API sets.

        Raises
        ------
        InputError
            The database keeps digests of values.
        """
        refuse_digests(self._database, "automation")
        snapshot = self._look(replace(self._view, drop_automation=False)).snapshot
        signs = read_automation(self._database, take_snapshot(self._database, self._window))
        human = np.flatnonzero(~np.any(list(signs.values()), axis=0))
        source = DuckDBSource(self._database, snapshot)
        kept = DuckDBSource(self._database, snapshot, np.setdiff1d(np.arange(source.users), human))
        wanted = sorted_sets(sets)
        return report_automation(
            {sign: int(rows.sum()) for sign, rows in signs.items()},
            users=source.users,
            automated=source.users - len(human),
            exposures={
                apis: (source.spectrum(apis), kept.spectrum(apis) if len(human) else None)
                for apis in wanted
            },
            k=k,
            show_counts_below_k=show_counts_below_k,
        )

    def apis(self, *, k: int = 10, show_counts_below_k: bool = False) -> list[ApiOverview]:
        """Overview of every API whose name may be told, the most exposing first."""
        viewed = self._look(self._view)
        snapshot = viewed.snapshot
        source = DuckDBSource(self._database, snapshot)
        overview = []
        for api, users in self._users_of_apis(snapshot).items():
            if not (show_counts_below_k or may_name(api, users, snapshot.users, k)):
                continue
            overview.append(
                overview_of_api(
                    api,
                    source.spectrum([api]),
                    absent=snapshot.users - users,
                    volatile=viewed.volatile[api],
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
        given: Sequence[str] = (),
        bounds: bool = False,
        supports: Sequence[int] = (),
        trust: Knowledge | None = None,
        entropies: bool = False,
        show_counts_below_k: bool = False,
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
        given
            APIs that cannot be hidden: exposure of each set together with them, and by cohort, the
            users that share their values.
        bounds
            Put the certificate and all bounds of "Statistical anonymity" side by side.
        supports
            Number of values that users can have, one for each set, declared beforehand.
        trust
            What the marginals, the pairs and the joint law can each promise, up to this level.
        entropies
            Every measure and estimator of the entropy.
        show_counts_below_k
            Tell fewer than k exposed users as they are, not as k - 1.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            A number out of range, an API never observed, no user left.
        InputError
            An empty set, or supports that do not fit.
        """
        wanted = sorted_sets(sets)
        declared = declared_supports(supports, wanted)
        cohort = tuple(dict.fromkeys(given))
        sample = self._sample([*wanted, cohort], k, population, delta, missing)
        reports = report_sets(
            sample,
            wanted,
            supports=declared,
            given=cohort,
            texts={api: self._value_texts(api) for api in cohort},
            bounds=bounds,
            trust=trust,
            entropies=entropies,
            show_counts_below_k=show_counts_below_k,
        )
        return self._beside_volatile(reports, missing, show_counts_below_k=show_counts_below_k)

    def explorer(
        self,
        candidates: Sequence[str],
        *,
        k: int,
        population: int | None = None,
        delta: float = 0.05,
        missing: Missing = "value",
    ) -> ExposureIndex:
        """Hold the users in memory: exposure of any set of the candidates in milliseconds.

        Parameters
        ----------
        candidates
            The APIs that may be asked for.
        k, population, delta, missing
            As in `exposure`; `missing` looks at all candidates together.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            A number out of range, an API never observed, no user left.
        InputError
            No candidate.
        """
        [wanted] = sorted_sets([candidates])
        check_share("delta", delta)
        check_threshold(k, max(k, 2) if population is None else population)
        snapshot = self.snapshot(missing=missing, apis=wanted)
        population = snapshot.users if population is None else population
        limits, dropped = thin_users(
            self._database, snapshot, k=k, population=population, delta=delta
        )
        return make_exposure_index(
            wanted,
            read_codes(self._database, snapshot, wanted),
            dropped,
            k=k,
            population=population,
            certificate=limits,
            digest=snapshot.digest,
        )

    def _beside_volatile(
        self, reports: list[ExposureReport], missing: Missing, *, show_counts_below_k: bool
    ) -> list[ExposureReport]:
        """Put the exposure without the volatile APIs beside the one where they share a token."""
        verdicts = self._look(self._view).volatile
        together = {api for report in reports for api in (*report.apis, *report.given)}
        if self._view.volatile != "shared" or not any(verdicts[api] for api in together):
            return reports
        first, sets = reports[0], [(*report.apis, *report.given) for report in reports]
        view = replace(self._view, volatile="left-out")
        sample = self._sample(sets, first.k, first.population, first.delta, missing, view=view)
        return with_volatile_excluded(
            reports, verdicts, sample, show_counts_below_k=show_counts_below_k
        )

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
        """Rank API sets by entropy and by exposure, to show where the two orders disagree.

        Parameters
        ----------
        sets
            The API sets; when there is none, all sets of up to `size` of the candidates.
        size, candidates
            See `sets`; all of `publishable_apis` by default.
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
        InputError
            No set, or an empty one.
        """
        wanted = sorted_sets(sets)
        if not wanted:
            chosen = self.publishable_apis(k=k) if candidates is None else sorted(set(candidates))
            wanted = sets_up_to(size, chosen)
        together = sorted({api for apis in wanted for api in apis})
        snapshot = self.snapshot(missing=missing, apis=together)
        population = snapshot.users if population is None else population
        check_users(snapshot.users, k)
        check_threshold(k, population)
        source = self._source(snapshot, together)
        if population <= snapshot.users:
            return rank_sets(wanted, source, k=k, population=population)
        sample = self._sample(wanted, k, population, delta, missing)

        def upper_limit(apis: Sequence[str]) -> float:
            return sample.limits(apis)[1]

        return rank_sets(wanted, source, k=k, population=population, upper_limit=upper_limit)

    def curve(
        self,
        apis: Sequence[str],
        *,
        k: int = 10,
        delta: float = 0.05,
        missing: Missing = "value",
        show_counts_below_k: bool = False,
    ) -> CurveReport:
        """Whole exposure curve of one API set, with limits that hold at all thresholds together.

        Parameters
        ----------
        apis
            The set.
        k
            Smallest threshold that is shown, users.
        delta
            Tolerated probability that any limit fails, in (0, 1).
        missing
            See `snapshot`.
        show_counts_below_k
            Show all thresholds.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            A number out of range, an API never observed, no user left.
        InputError
            No API is named.
        """
        [wanted] = sorted_sets([apis])
        snapshot = self.snapshot(missing=missing, apis=wanted)
        if not show_counts_below_k:
            check_users(snapshot.users, k)
        spectrum = DuckDBSource(self._database, snapshot).spectrum(wanted)
        return report_curve(
            wanted, spectrum, k=k, delta=delta, show_counts_below_k=show_counts_below_k
        )

    def trend(
        self,
        sets: Iterable[Sequence[str]] = (),
        *,
        by: Period = "week",
        k: int = 10,
        population: int | None = None,
        delta: float = 0.05,
        against: Against = "previous",
        false_alarms: float = 0.01,
        progress: Callable[[str], None] = lambda _stage: None,
    ) -> TrendReport:
        """Follow exposure over calendar windows, and test whether their users changed.

        Parameters
        ----------
        sets
            The API sets; every observed API alone by default.
        by
            Length of the windows, which are cut at midnight UTC.
        k, population, delta
            As in `exposure`; the population is the median window's number of users by default.
        against
            The window that each is compared with.
        false_alarms
            Tolerated probability of any false alarm, all windows and sets together, in (0, 1).
        progress
            Called with what is being done.

        Raises
        ------
        PolicyError, UnknownNameError, InputError
            A number out of range, an API never observed, an empty set, a view with transforms.
        UndecidableError
            No visit has a time, or no window has k users.
        """
        wanted = sorted_sets(sets) or [(api,) for api in self.publishable_apis(k=k)]
        return report_trend(
            self._database,
            wanted,
            period=by,
            window=self._window,
            view=self._view,
            k=k,
            population=population,
            delta=delta,
            against=against,
            false_alarms=false_alarms,
            value_texts=self._value_texts,
            progress=progress,
        )

    @property
    def timeless(self) -> int:
        """Visits without a time, which no window of `trend` holds."""
        return count_timeless(self._database)

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
        progress: Callable[[int], None] | None = None,
        known: Decision | None = None,
        engine: Engine = "auto",
    ) -> Decision:
        """Decide all subsets of the candidates; arguments as in `decide.decision.decide`.

        Parameters
        ----------
        population
            `n`, users; the number of observed users by default.
        candidates
            The APIs to decide on; all of `publishable_apis` by default.
        engine
            What counts the groups: rows in memory, queries of DuckDB, or rows if they have room.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            A number out of range, an API never observed, no user left.
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
        counter = self._counter(snapshot, policy.candidates, engine)
        return decide(
            counter,
            policy,
            words=read_user_hashes(self._database, snapshot),
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
            known=known,
            engine="memory" if isinstance(counter, MemorySource) else "duckdb",
        )

    def check(self, decision: Decision) -> dict[ApiSet, Verdict]:
        """Test every set on the allow list of a decision again, on the data of now.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            The data of now lack a candidate, or hold too few users.
        """
        asked = self._as_decided(decision)
        candidates = decision.policy.candidates
        snapshot = asked.snapshot(missing=decision.missing, apis=candidates)
        return recheck(
            decision,
            asked._counter(snapshot, candidates, "auto"),  # noqa: SLF001 -- its own class
            words=read_user_hashes(self._database, snapshot),
            digest=snapshot.digest,
        )

    def _as_decided(self, decision: Decision) -> Monitor:
        """Look at the users of this window as a decision did."""
        source = decision.source or self._window.source
        other = self.within(replace(self._window, source=source))
        other._view = decision.view  # noqa: SLF001 -- its own class
        return other

    def check_report(
        self, decision: Decision, *, horizon: int | None = None, by: Period | None = None
    ) -> CheckReport:
        """Check a decision as `check` does, and say on whom and among how many checks.

        Parameters
        ----------
        decision
            The decision.
        horizon
            Number of checks that share the decision's delta; each look at other data is one, and is
            counted in the database.
        by
            Look at the newest calendar window of this length only.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            As in `check`; the horizon is out of range; no visit has a time.
        """
        asked = self if by is None else self.within(self.newest_window(by))
        snapshot = take_snapshot(asked._database, asked._window)  # noqa: SLF001 -- its own class
        place = None
        tested = decision
        if horizon is not None:
            tested = share_delta(decision, horizon)
            number = number_check(
                self._database,
                decision=identity_of(decision),
                horizon=horizon,
                digest=snapshot.digest,
            )
            place = slot_of(number, tested, horizon)
        return CheckReport(
            decision=decision,
            verdicts=asked.check(tested),
            users=publishable_count(snapshot.users, decision.policy.k),
            since=asked._window.since,  # noqa: SLF001
            until=asked._window.until,  # noqa: SLF001
            place=place,
        )

    def newest_window(self, by: Period) -> Window:
        """Return the newest calendar window that holds a visit.

        Raises
        ------
        UndecidableError
            No visit has a time.
        """
        return list_spans(self._database, by, self._window)[-1].window

    def within(self, window: Window) -> Monitor:
        """Return this monitor for another window; both close together."""
        other = copy.copy(self)
        other._window = window  # noqa: SLF001 -- its own class
        return other

    def preview(
        self, decision: Decision, sets: Iterable[Sequence[str]], *, delta: float = 0.05
    ) -> list[ExposureReport]:
        """Exposure of what lists would leave readable of a decision's candidates.

        Parameters
        ----------
        decision
            Its policy is the question; the users are those of now.
        sets
            Subsets of its candidates; the empty set exposes nobody.
        delta
            Tolerated probability of error of each limit, if the policy names none, in (0, 1).

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            The data of now lack a candidate, or hold too few users.
        """
        policy = decision.policy
        sample = self._as_decided(decision)._sample(  # noqa: SLF001 -- its own class
            [policy.candidates],
            policy.k,
            policy.population,
            policy.delta or delta,
            decision.missing,
        )
        return [report_exposure(sample, sorted(set(apis))) for apis in sets]

    def findings(self, decision: Decision, *, coverage: Coverage, pairs: bool = True) -> Findings:
        """Gather all that a report on a decision tells, from the users of now.

        Parameters
        ----------
        decision
            The question and its answer; the users are looked at as it did.
        coverage
            What export formats can carry out.
        pairs
            Rank pairs of candidates besides the candidates.

        Raises
        ------
        PolicyError, UnknownNameError, UndecidableError
            The data of now lack a candidate, or hold too few users.
        """
        asked, policy = self._as_decided(decision), decision.policy
        question: dict[str, Any] = {
            "k": policy.k,
            "population": policy.population,
            "delta": policy.delta or 0.05,
        }
        has_demand = bool(read_sites(self._database))
        return gather_findings(
            asked,
            decision,
            coverage=coverage,
            pairs=pairs,
            visits=take_snapshot(self._database, asked._window).visits,  # noqa: SLF001
            automation=None if self.values_are_digested else asked.automation(k=policy.k),
            demand=asked.demand(**question) if has_demand else [],
            trend=asked._trend_of(decision.recommended, policy),  # noqa: SLF001
        )

    def _trend_of(self, apis: ApiSet, policy: Policy) -> TrendReport | None:
        """Follow a set by week; null without two weeks, or where trends cannot be told."""
        if not apis or self._view.transforms:
            return None
        try:
            found = self.trend(
                [apis],
                by="week",
                k=policy.k,
                population=policy.population,
                delta=policy.delta or 0.05,
            )
        except UndecidableError:
            return None
        return found if sum(bool(window.sets) for window in found.windows) > 1 else None

    def release(
        self,
        apis: Sequence[str],
        *,
        k: int,
        mechanism: Mechanism = "histogram",
        budget: float = 0.05,
        made: datetime | None = None,
    ) -> Release:
        """Make a k-anonymous table of the values of some APIs, and its manifest.

        Values are taken as they were logged; of the view only its transforms count.

        Parameters
        ----------
        apis
            The columns of the table.
        k, mechanism, budget
            As in `release.histogram.make_release`.
        made
            Date of the manifest; now by default.

        Raises
        ------
        InputError, PolicyError, UnknownNameError, UndecidableError
            As in `release.histogram.make_release` and `read_values`; or the database keeps digests
            of values.
        """
        refuse_digests(self._database, "release")
        [wanted] = sorted_sets([apis])
        snapshot = take_snapshot(self._database, self._window)
        return make_release(
            read_values(self._database, snapshot, wanted, self._view.transforms),
            k=k,
            transforms=self._view.transforms,
            digest=snapshot.digest,
            made=made or datetime.now(UTC),
            mechanism=mechanism,
            budget=budget,
        )

    def audit_release(
        self,
        release: Release,
        *,
        weight: float | None = None,
        trials: int = 1000,
        seed: int = 0,
        control: Monitor | None = None,
    ) -> ReleaseAudit:
        """Attack a release of these users, to see whether it singles them out.

        Parameters
        ----------
        release
            Made of this database and window.
        weight, trials
            As in `release.audit.audit_release`.
        seed
            Of the attacks' draws.
        control
            Other users, to estimate the weights of predicates from; these users by default.

        Raises
        ------
        InputError, PolicyError
            The release was made of other data, or a number is out of its range.
        """
        snapshot = take_snapshot(self._database, self._window)
        values = self.released_values(release)
        check_origin(release, values, snapshot.digest)
        others = values if control is None else control.released_values(release)
        return audit_release(
            group_of_users(release, values),
            record_words(self._database, snapshot),
            weights_of_rows(group_of_users(release, others), len(release.table)),
            weight=weight,
            trials=trials,
            rng=np.random.default_rng(seed),
        )

    def released_values(self, release: Release) -> pl.DataFrame:
        """Values of all users here, made coarser as the manifest of a release says."""
        snapshot = take_snapshot(self._database, self._window)
        manifest = release.manifest
        return read_values(self._database, snapshot, manifest.policy.apis, manifest.transforms)

    def _sample(
        self,
        sets: Sequence[Sequence[str]],
        k: int,
        population: int | None,
        delta: float,
        missing: Missing,
        *,
        view: View | None = None,
    ) -> CertifiedSample:
        check_share("delta", delta)
        check_threshold(k, max(k, 2) if population is None else population)
        together = sorted({api for apis in sets for api in apis})
        snapshot = self._snapshot(missing, together, view or self._view)
        check_users(snapshot.users, k)
        population = snapshot.users if population is None else population
        return take_sample(self._database, snapshot, k=k, population=population, delta=delta)

    def _value_texts(self, api: str) -> dict[int, str | None]:
        """Return what value numbers stand for; a status in brackets where it is no value."""
        rows = self._database.rows("report/value_texts", api=api)
        return {code: text if status == "value" else f"({status})" for code, status, text in rows}

    def _counter(
        self, snapshot: Snapshot, apis: Sequence[str], engine: Engine
    ) -> MemorySource | DuckDBSource:
        has_room = engine == "auto" and has_room_for(snapshot.users, len(apis))
        if has_room or engine == "memory":
            return self._source(snapshot, apis)
        return DuckDBSource(self._database, snapshot).selected(apis)

    def _source(self, snapshot: Snapshot, apis: Sequence[str]) -> MemorySource:
        return MemorySource(apis, read_codes(self._database, snapshot, apis))
