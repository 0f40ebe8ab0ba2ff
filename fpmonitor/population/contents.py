"""What users have: who has which API, values, and spectra of sets of APIs."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from fpmonitor.disclosure import (
    Audience,
    check_users,
    disclosed_spectra,
    may_name,
    publishable_coverage,
)
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.policy import disclosed_from
from fpmonitor.population.beside import (
    PATH,
    USERS,
    VISIT,
    SourceBeside,
    days_in_words,
    units_beside,
)
from fpmonitor.population.disclosed import disclosed_to
from fpmonitor.population.draws import Draws
from fpmonitor.population.evidence import Lack, Seen, find_lack
from fpmonitor.population.memory import CohortSource, MemorySource, kinds_of_rows
from fpmonitor.population.pairs import pairs_after, star_source
from fpmonitor.population.visits import PathSource, VisitSource, visits_of_set, with_values
from fpmonitor.refusals import kind_of
from fpmonitor.store.snapshot import ABSENT
from fpmonitor.vocabulary import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.account import Kind
    from fpmonitor.population.snapshot import SpectrumQueries
    from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra, SpectrumSource
    from fpmonitor.store.visits import VisitRows

Engine = Literal["auto", "memory", "duckdb"]
_MOST_TEXTS = 1_000  # different values, up to which they are looked at: errors are of few kinds


class Contents(Draws):
    """Users, and what is counted of their values."""

    def users_of_apis(self) -> dict[str, int]:
        """Count for each API the users with an observation of it."""
        if self._recoding.dropped.any() or self._present or self.selected is not None:
            if self.snapshot.in_memory(1):
                return self._counts_of(self.apis)
            return dict(self._queries.users_of_apis())
        counts = dict(self.snapshot.users_of_apis())
        for api, change in self._recoding.changes.items():
            if change.codes is not None and not change.codes.any():
                counts[api] = 0
        return counts

    def members(self, k: int) -> Mapping[Kind, int]:
        """Count the members of the logs by what they were taken for; others are told none.

        A member that one user has in many records would show among them, and so would one user
        whose value makes an API of a constant.
        """
        return {} if self.audience is Audience.OTHERS else self.snapshot.members(k)

    def coverage(self, apis: Iterable[str], k: int) -> dict[str, float | None]:
        """Tell which share of the users has each API: `disclosure.publishable_coverage`."""
        wanted = sorted(self.named(apis))
        counts = self._counts_of(wanted) if self.snapshot.in_memory(1) else self.users_of_apis()
        return {api: publishable_coverage(counts.get(api, 0), self.users, k) for api in wanted}

    def _counts_of(self, apis: Iterable[str]) -> dict[str, int]:
        """Count in memory, each API once."""
        for api in apis:
            if api not in self._counted:
                self._counted[api] = int(np.count_nonzero(self._shown(api) != ABSENT))
        return {api: self._counted[api] for api in apis}

    @cached_property
    def _counted(self) -> dict[str, int]:
        return {}

    def lacks(self, apis: Iterable[str], k: int) -> dict[str, Lack]:
        """Find those of some APIs about which these users are no evidence: see `find_lack`.

        Values count as they were logged: what a view makes coarser was seen all the same.
        """
        seen = self.seen(apis)
        found = {api: find_lack(one, k, self.means.get(api, "")) for api, one in seen.items()}
        return {api: lack for api, lack in found.items() if lack is not None}

    def seen(self, apis: Iterable[str]) -> dict[str, list[Seen]]:
        """Count who shares a value of some APIs, as `lacks` judges it."""
        wanted = self.named(apis)
        counted = [api for api in wanted if api not in self._unobserved]
        seen: dict[str, list[Seen]] = {api: [] for api in wanted}
        if self.snapshot.in_memory(1):
            return seen | {api: self._seen(api, self._code_counts(api)) for api in counted}
        return seen | self._seen_by_queries(counted)

    def _code_counts(self, api: str) -> dict[int, int]:
        [codes] = self.snapshot.codes([api])
        counts = np.bincount(codes if self._rows is None else codes[self._rows])
        return {code: int(counts[code]) for code in np.flatnonzero(counts).tolist()}

    def _seen_by_queries(self, apis: Sequence[str]) -> dict[str, list[Seen]]:
        """Count who shares a value of some APIs, all of them in few queries: each reads the users.

        Queries know what a view shows; where it changes an API, that tells who has a value and
        nothing else.
        """
        shown = {api for api in apis if api in self._recoding.changes}
        unchanged_apis = [api for api in apis if api not in shown]
        spectra = dict(
            zip(
                unchanged_apis,
                self._queries.spectra([[api] for api in unchanged_apis]),
                strict=True,
            )
        )
        many = {api for api in unchanged_apis if spectra[api].support > _MOST_TEXTS}
        having = self._queries.users_of_apis() if shown or many else {}
        seen = {api: [Seen(1, values=having[api])] for api in shown}
        for api in many:
            groups = zip(spectra[api].counts.tolist(), spectra[api].values.tolist(), strict=True)
            # Absent users are a group of the spectrum, too, and no value.
            absent = self.users - having[api]
            seen[api] = [Seen(users, values=n - (users == absent)) for users, n in groups]
        few = [api for api in unchanged_apis if api not in many]
        counts = self._queries.users_of_codes(few)
        return seen | {api: self._seen(api, counts[api]) for api in few}

    def _seen(self, api: str, counts: Mapping[int, int]) -> list[Seen]:
        """Tell who shares a value, as it was logged, by the users of each code."""
        present = {code: users for code, users in counts.items() if code != ABSENT}
        if len(present) > _MOST_TEXTS:
            sizes, values = np.unique([*present.values()], return_counts=True)
            pairs = zip(sizes.tolist(), values.tolist(), strict=True)
            return [Seen(users, values=number) for users, number in pairs]
        texts = self.snapshot.values(api)
        return [Seen(users, kind_of(*texts[code])) for code, users in present.items()]

    def publishable_apis(self, k: int) -> tuple[str, ...]:
        """Observed APIs whose names may be told: see `disclosure.may_name`."""
        counts = self.users_of_apis()
        return tuple(api for api in self.apis if may_name(counts.get(api, 0), k, self.audience))

    def value_texts(self, api: str) -> dict[int, str | None]:
        """Return what codes stand for; a status in brackets where it is no value."""
        if api in self._told:
            return dict(self._told[api][1])
        return {
            code: text if status == "value" else f"({status})"
            for code, (status, text) in self.snapshot.values(api).items()
        }

    def mixed_sources(self, k: int) -> dict[str, list[str]]:
        """APIs whose values come from several sources, and which these are.

        Libraries and their versions shape values, so that pooled values may differ in one browser.
        A source of fewer than k users is not named.
        """
        mixed = self.snapshot.mixed_sources(k)
        if not mixed:
            return {}
        publishable = set(self.publishable_apis(k))
        return {api: sources for api, sources in mixed.items() if api in publishable}

    def values(self, api: str) -> Mapping[int, str]:
        """Return the values that codes of `column` stand for, where they stand for one."""
        if api in self._unobserved:
            return {}
        seen = set(np.unique(self._shown(api)).tolist())
        return {
            code: text
            for code, (status, text) in self.snapshot.values(api).items()
            if code in seen and status == "value" and text is not None
        }

    def shown_values(self, api: str) -> dict[int, tuple[str, str | None]]:
        """Return status and text that codes of `column` stand for, as the view shows them.

        A text that all randomised values of a browser family count as is of the status `token`.
        """
        found = {code: value for code, value in self.snapshot.values(api).items() if code}
        change = self._recoding.changes.get(api)
        if change is None:
            return found
        transform = self._transforms.get(api)
        if transform is not None and change.codes is not None:
            found = {
                code: (status, transform(text) if status == "value" and text is not None else text)
                for code, (status, text) in found.items()
                if change.codes[code] == code
            }
        names = ("unknown", *FAMILIES)
        tokens = {change.tokens + at: ("token", family) for at, family in enumerate(names)}
        return found | tokens

    def source(
        self, apis: Sequence[str], engine: Engine = "auto"
    ) -> MemorySource | PathSource | SpectrumQueries | SourceBeside:
        """Return what counts groups, as they are: rows in memory if they have room, else queries.

        Where units beside the users' values are asked of, those of the same users as well.
        """
        if self._by_units:
            self._check_owner()
        return cast("MemorySource", self._counted_by(apis, engine))

    def told_source(
        self, apis: Sequence[str], k: int, *, sets: Sequence[Sequence[str]] = ()
    ) -> SpectrumSource:
        """Return what the audience is told of the groups that `source` counts.

        Args:
            apis, k: The APIs that are asked of, and the threshold.
            sets: Of these; counted at once, for all cases that are told of.
        """
        source = self._counted_by(apis, least=self._least_told(k))
        for users in units_beside(source).values():
            check_users(users, k, self.audience)
        return disclosed_to(self.audience, source, k, sets=sets)

    def told_among(
        self, rows: NDArray[np.bool_], apis: Sequence[str], k: int
    ) -> SpectrumSource | None:
        """Return what the audience is told of those users only who are in some rows, in memory.

        By what counts as a value of a user.

        Args:
            rows: bool, one for each row of the snapshot; None is returned where nobody is left.
            apis, k: As of `told_source`.
        """
        is_counted = rows if self._rows is None else rows[self._rows]
        if not is_counted.any():
            return None
        parts: dict[str, SpectrumSource] = {}
        if self._visits != "last":
            visits = self._visit_rows(apis, among=rows)
            parts = self._by_visits(visits, apis, self._least_told(k))
        if USERS not in parts:
            parts[USERS] = MemorySource(apis, [self.column(api)[is_counted] for api in apis])
        return disclosed_to(self.audience, _beside(parts), k)

    def _least_told(self, k: int) -> int:
        return 1 if self.audience is Audience.OWNER else disclosed_from(k)

    @property
    def _by_units(self) -> bool:
        return self._visits != "last" or bool(self._after)

    def _counted_by(
        self, apis: Sequence[str], engine: Engine = "auto", *, least: int = 1
    ) -> SpectrumSource:
        self.check_names(apis)
        apis = sorted({*apis})
        parts: dict[str, SpectrumSource] = {}
        if self._by_units:
            visits = self._visit_rows(apis)
            parts = self._by_visits(visits, apis, least) | self._by_pairs(visits, apis)
        if USERS not in parts:
            parts[USERS] = self._by_values(apis, engine)
        return _beside(parts)

    def _by_values(self, apis: Sequence[str], engine: Engine) -> MemorySource | SpectrumQueries:
        # The others take no room.
        columns = {*apis, *self._given}.difference(self._unobserved, self._told)
        in_memory = self.selected is not None or self.snapshot.in_memory(len(columns))
        if self._given:
            if not in_memory or engine == "duckdb":
                raise UndecidableError(
                    "given: cohorts are counted in memory, where the users do not fit",
                    hint="ask of a window of fewer users, or without --given",
                )
            cohorts = kinds_of_rows([self.column(each) for each in self._given])
            return CohortSource(apis, [self.column(api) for api in apis], always=cohorts)
        if engine == "memory" or (engine == "auto" and in_memory):
            return MemorySource(apis, [self.column(api) for api in apis])
        return self._queries.selected(apis)

    def _by_visits(
        self, visits: VisitRows, apis: Sequence[str], least: int
    ) -> dict[str, SpectrumSource]:
        """Return what counts visits; who has none that brought a value of these APIs is left out.

        Where fewer than `least` users have one, or lack one, all count.
        """
        if self._visits == "last":
            return {}
        if self._visits == "last+visit":
            return {VISIT: VisitSource(visits_of_set(visits, apis))}
        having = with_values(visits, apis, whole=False)
        users, lacking = len(having.starts), len(visits.starts) - len(having.starts)
        # Else others would see in the number of users how many of the few have a value.
        all_count = users < least or 0 < lacking < least
        visits = visits_of_set(visits, apis) if all_count else having
        paths = PathSource(visits, self.snapshot.key)
        if self._visits == "path":
            return {USERS: paths}
        beside: dict[str, SpectrumSource] = {PATH: paths} if self._visits == "both" else {}
        return {USERS: VisitSource(visits), **beside}

    def _by_pairs(self, visits: VisitRows, apis: Sequence[str]) -> dict[str, SpectrumSource]:
        """Return what counts those who came back after some days, by what has not changed."""
        if not self._after:
            return {}
        found = pairs_after(visits, apis, self._after, whole=False, option="after")
        return {
            days_in_words(each.days): star_source(each, apis, self.means, self.snapshot)
            for each in found
        }

    def visit_rows(self, apis: Sequence[str]) -> VisitRows:
        """Return all visits of these users, with the values of some APIs as the view shows them."""
        self._check_owner()
        return self._visit_rows(apis)

    def _check_owner(self) -> None:
        if self.audience is not Audience.OWNER:
            raise InputError("visits: are for the owner of the database", hint="omit --for-others")

    def _visit_rows(
        self, apis: Sequence[str], *, among: NDArray[np.bool_] | None = None
    ) -> VisitRows:
        reader = getattr(self.snapshot, "visit_rows", None)
        if reader is None:
            raise InputError("visits: only a database keeps them", hint="ingest the logs into one")
        # Rounded up: room is asked for by columns of all users, and visits fill as many more.
        visits_of_each = -(-self.snapshot.visits // max(self.snapshot.users, 1))
        if not self.snapshot.in_memory(len(apis) * visits_of_each):
            raise UndecidableError(
                "visits: the users do not fit into memory", hint="ask of a window of fewer users"
            )
        found: VisitRows = reader([api for api in apis if api not in self._unobserved])
        nothing = np.zeros(len(found.rows), dtype=np.int64)
        codes = {**found.codes, **{api: nothing for api in apis if api in self._unobserved}}
        shown = {api: self._recoding.column(api, codes, found.rows) for api, codes in codes.items()}
        found = replace(found, codes=shown)
        if self._rows is None and among is None:
            return found
        is_selected = np.zeros(self.snapshot.users, dtype=np.bool_)
        is_selected[slice(None) if self._rows is None else self._rows] = True
        return found.only((is_selected if among is None else is_selected & among)[found.rows])

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`, as it is."""
        return self.source(sorted(set(apis))).spectrum(apis)

    def disclosed(self, apis: Sequence[str], k: int) -> DisclosedSpectra:
        """Return what the audience is told of the count spectrum of a set."""
        return disclosed_spectra(self.spectrum(apis), k, self.audience)


def _beside(parts: Mapping[str, SpectrumSource]) -> SpectrumSource:
    """Return the source of the users' values, with those of other units beside it."""
    return parts[USERS] if len(parts) == 1 else SourceBeside(parts)
