"""A population: the users of a snapshot, in a window, as a view shows them, for an audience.

Every answer and decision is computed from one, whoever keeps the rows: rows are read into memory
where they fit, and spectra are asked of their keeper by query where they do not.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fpmonitor.account import Kind
from fpmonitor.disclosure import (
    Audience,
    ToldSpectra,
    check_users,
    may_name,
    publishable_coverage,
    publishable_part,
    told_spectra,
)
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.estimate.looks import design_size
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.estimate.strata import draw_by_shares, expected_users
from fpmonitor.policy import PLAIN_DRAWS, Drawn, SampleModel, Strata, universe_of
from fpmonitor.population.browsers import (
    BROWSER_FAMILY,
    OPERATING_SYSTEM,
    SYSTEMS,
    UNKNOWN,
    BrowserGroups,
    joined_kind,
    signs_of,
    systems_of_rows,
)
from fpmonitor.population.changes import recoding_of
from fpmonitor.population.evidence import Lack, Seen, find_lack
from fpmonitor.population.exposure_index import ExposureIndex
from fpmonitor.population.held_values import HeldValues
from fpmonitor.population.kept_spectra import KeptSpectra
from fpmonitor.population.memory import MemorySource, joined_kinds
from fpmonitor.population.recoding import ABSENT, Recoding, own_codes_of_absent
from fpmonitor.population.sample import CertifiedSample, HeldUsers, UserSource
from fpmonitor.population.snapshot import (
    Days,
    Snapshot,
    SpectrumQueries,
    ValueSource,
    check_values_kept,
    words_of_rows,
)
from fpmonitor.population.views import View
from fpmonitor.population.volatile import (
    Volatility,
    may_be_contradicted,
    may_be_masked,
    returned_with,
    volatility_of,
)
from fpmonitor.question import Question
from fpmonitor.refusals import kind_of
from fpmonitor.spectrum import CountSpectrum, SpectrumSource
from fpmonitor.store.digests import keyed_digest
from fpmonitor.store.snapshot import Window
from fpmonitor.store.transforms import Transform
from fpmonitor.unit import Unit, check_limits, weakest
from fpmonitor.vocabulary import FAMILIES, columns_of, meaning, split_names

Engine = Literal["auto", "memory", "duckdb"]
_MOST_TEXTS = 1_000  # different values, up to which they are looked at: errors are of few kinds


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Selected:
    """Users who were drawn: one of each cluster, by the shares of strata, or both.

    Attributes
    ----------
    sample
        What they were drawn by; of the strata that are left out there nobody was drawn.
    rows
        Rows of the snapshot, increasing.
    drawn
        How many they are.
    """

    sample: SampleModel
    rows: NDArray[np.intp]
    drawn: Drawn


class Population:
    """Users that questions are asked of.

    Parameters
    ----------
    snapshot
        One row a user.
    window
        What the snapshot was taken of; noted in decisions.
    view
        How the users are looked at: volatile values, automation, coarser values.
    audience
        Whom answers are for.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        window: Window | None = None,
        view: View | None = None,
        audience: Audience = Audience.OWNER,
    ) -> None:
        self.snapshot = snapshot
        self.window = window or Window()
        self.view = view or View()
        self.audience = audience
        self._unobserved: tuple[str, ...] = ()
        self._present: tuple[str, ...] = ()
        self._absent_alone = False
        self.selected: Selected | None = None

    # ---- Who they are

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted, as the log calls them."""
        return tuple(sorted({*self.snapshot.apis, *self._unobserved}))

    @cached_property
    def means(self) -> Mapping[str, str]:
        """What the log calls an API -> the API of the vocabulary, for those that are known."""
        said = self.snapshot.said
        found = {name: meaning(name, said) for name in self.snapshot.apis}
        return {name: api for name, api in found.items() if api}

    def names(self, apis: Iterable[str]) -> dict[str, str]:
        """Return what decisions note of some names in the log: see `Decision.names`."""
        said = self.snapshot.said
        found = {name: said.get(name, self.means.get(name, name)) for name in apis}
        return {name: api for name, api in found.items() if api != name}

    def named(self, apis: Iterable[str]) -> tuple[str, ...]:
        """Return what the log calls some APIs, each once; they may be named as in the vocabulary.

        Where the log has several columns of an API, it is all of them.

        Raises
        ------
        UnknownNameError
            One was never observed; the message lists the nearest names that may be told.
        InputError
            A name that may mean several APIs.
        """
        found: dict[str, None] = {}
        for api in apis:
            columns = [api] if api in self.apis else columns_of(api, self.means)
            if not columns:
                raise self._unknown(api)
            found |= dict.fromkeys(columns)
        return tuple(found)

    def _unknown(self, api: str) -> UnknownNameError:
        # A name comes from a log, where a client may have put anything.
        others = self.apis if self.audience is Audience.OWNER else ()
        return UnknownNameError("API", api, {*self.means.values(), *others})

    @cached_property
    def unit(self) -> Unit:
        """What each of them is: where logs differ, what all can be taken for."""
        return weakest(self.snapshot.units)

    @cached_property
    def users(self) -> int:
        """Number of users, `m`."""
        if self.selected is not None:
            return len(self.selected.rows)
        if not self._present:
            return self.snapshot.users - self.dropped
        if self.snapshot.in_memory(1):
            return len(self._rows) if self._rows is not None else self.snapshot.users
        return self._queries.users

    @property
    def drawn(self) -> Drawn | None:
        """How many count where some were drawn; None where all do."""
        return None if self.selected is None else self.selected.drawn

    @cached_property
    def digest(self) -> str:
        """Digest of the users' values; the same users seen otherwise are other data."""
        parts = [self.snapshot.digest]
        if self._recoding.description:
            parts.append(self._recoding.description)
        if self._present:
            parts.append(f"present:{','.join(sorted(self._present))}")
        if self._absent_alone:
            parts.append("absent:alone")
        if self.selected is not None:
            parts.append(f"drawn by values:{self.selected.sample!r}")
        return "/".join(parts)

    @property
    def seal(self) -> str:
        """The digest as it may leave, keyed: who knows all users but one cannot guess that one."""
        return keyed_digest(self.digest, self.snapshot.key)

    @property
    def _stored(self) -> str:
        """What all draws follow from: the users as they are stored, and no view of them.

        A view that costs no weight, as a `--what-if` on an API that is no candidate, would be a
        free draw more.
        """
        return self.snapshot.digest

    @property
    def dropped(self) -> int:
        """Users that the view leaves out because they look automated."""
        return self._recoding.users_dropped if self.view.drop_automation else 0

    def volatile(self, k: int) -> frozenset[str]:
        """APIs that browsers of some users randomise by design; for others, of at least k users."""
        least = 1 if self.audience is Audience.OWNER else k
        return frozenset(
            api
            for api, known in self._volatility.items()
            if self._groups.users[known.groups].sum() >= least
        )

    @property
    def may_be_contradicted(self) -> bool:
        """Whether what the view masks follows from who came back."""
        return self.view.volatile != "raw" and may_be_contradicted(self.snapshot, self._groups)

    def masked(self, apis: Iterable[str], k: int) -> tuple[str, ...]:
        """Those of some APIs whose volatile values the view masks, sorted; see `volatile`."""
        if self.view.volatile == "raw":
            return ()
        return tuple(sorted(self.volatile(k).intersection(apis)))

    def changes(self, k: int) -> dict[str, float]:
        """Share of the users who came back with an API whose value had changed.

        Others are told where at least k of them had, and k had not.
        """
        found = returned_with(self.snapshot.repeats(self._groups))
        return {
            api: returned.changed / returned.users
            for api, returned in found.items()
            if self.audience is Audience.OWNER
            or publishable_part(returned.changed, returned.users, k, self.audience) is not None
        }

    @property
    def visits(self) -> int | None:
        """Visits of the users; null for others, as those of few who came back would show in it."""
        return self.snapshot.visits if self.audience is Audience.OWNER else None

    def days(self, k: int) -> Days | None:
        """First and last day (UTC) with a visit; for others, with visits of at least k users."""
        return self.snapshot.days(1 if self.audience is Audience.OWNER else k)

    @property
    def signs(self) -> dict[str, int]:
        """Count the users that look automated by what gives them away, before any is left out."""
        groups = self._groups
        return {
            sign: int(groups.users[shown].sum()) for sign, shown in signs_of(groups.traits).items()
        }

    @property
    def automated(self) -> int:
        """Users that show any sign, before any is left out."""
        return int(self._groups.users[self._groups.automated].sum())

    def seen_by(self, view: View) -> Population:
        """Return the same users as another view shows them."""
        other = Population(self.snapshot, window=self.window, view=view, audience=self.audience)
        return other.with_unobserved(self._unobserved)

    def without_few(self, k: int) -> Population:
        """Return the users whom answers with this threshold mean.

        For others the view leaves out those that look automated only where they are at least k, and
        the rest as well: the number of users is told.
        """
        if self.audience is Audience.OWNER or not self.view.drop_automation:
            return self
        if publishable_part(self.dropped, self.snapshot.users, k, self.audience) is not None:
            return self
        return self.seen_by(replace(self.view, drop_automation=False))

    def with_all(self, apis: Sequence[str], *, least: int = 1) -> Self:
        """Return those users who have an observation of every one of some APIs.

        Raises
        ------
        UndecidableError
            Fewer have than `least`.
        UnknownNameError
            An API that was never observed.
        """
        self.check_names(apis)
        other = self._copied()
        other._present = tuple(dict.fromkeys((*self._present, *apis)))  # noqa: SLF001 -- its own class
        if other.users < least:
            number = "no user has" if least == 1 else f"fewer than {least} users have"
            raise UndecidableError(
                f"{number} an observation of all {len(apis)} APIs",
                hint="leave --missing at `value`, or name fewer APIs",
            )
        return other

    def with_unobserved(self, apis: Iterable[str]) -> Self:
        """Return the same users, of whom nobody has a value of some APIs that their log lacks."""
        other = self._copied()
        other._unobserved = tuple(apis)  # noqa: SLF001 -- its own class
        return other

    def with_absent_alone(self) -> Self:
        """Return the same users, of whom who lacks a value of a set shares it with nobody."""
        other = self._copied()
        other._absent_alone = True  # noqa: SLF001 -- its own class
        return other

    def one_of_each(self, cluster: str, k: int) -> Self:
        """Return one user of each cluster, drawn; who has no value is in none with others.

        Raises
        ------
        UndecidableError
            The rows are not in memory; for others, fewer than k users would be left out.
        InputError
            Values that are kept as digests.
        UnknownNameError
            What tells clusters was never observed.
        """
        position, called = self.kinds(cluster, "cluster")
        order = self.by_values[self._generator("cluster").permutation(self.users)]
        _, first = np.unique(position[order], return_index=True)
        alone = np.array([name is None for name in called])[position]
        kept = np.union1d(order[first], np.flatnonzero(alone))
        if self.audience is not Audience.OWNER and self.users - kept.size < k:
            raise UndecidableError(
                f"cluster: all but fewer than {k} users are the only one of their {cluster}",
                hint="leave --cluster away",
            )
        return self._only(kept, SampleModel(cluster=cluster))

    def drawn_by(self, strata: Strata, k: int) -> Self:
        """Return as many users as can be drawn by the shares of strata, nobody twice.

        The draw follows from the data, so nobody can draw again. How many it has tells the size of
        a stratum, which others are told from k on: a stratum of fewer is left out for them, as one
        without users is for all.

        Raises
        ------
        UndecidableError
            No stratum has users, or the rows are not in memory.
        InputError
            Users in no stratum, or values that are kept as digests.
        UnknownNameError
            What tells the strata was never observed.
        """
        position = self._strata_of(strata)
        names = list(strata.shares)
        sizes = np.bincount(position, minlength=len(names))
        least = 1 if self.audience is Audience.OWNER else k
        few = [name for name, size in zip(names, sizes, strict=True) if size < least]
        if {*few, *strata.left_out} >= {*names}:
            raise UndecidableError(
                f"strata: of each {'nobody was' if least == 1 else f'fewer than {k} users were'} "
                "observed, or it is left out",
                hint="compare the names of the shares with the values of the log",
            )
        strata = strata.without(few)
        shares = np.array(list(strata.drawn().values()))
        strata = replace(strata, expected=expected_users(sizes, shares))
        order = self.by_values
        kept, binding = draw_by_shares(position[order], shares, self._generator("strata"))
        before = PLAIN_DRAWS if self.selected is None else self.selected.sample
        return self._only(np.sort(order[kept]), replace(before, strata=strata), names[binding])

    def divided(self, share: float) -> tuple[Self, Self]:
        """Divide the users, in no order, into a share of them and the rest.

        What share a user is in does not follow from values, but the draw follows from the data, so
        nobody can draw again.

        Raises
        ------
        UndecidableError
            The rows are not in memory.
        """
        if not self.snapshot.in_memory(1):
            raise UndecidableError(
                "levels: the users do not fit into memory", hint="ask of a window of fewer users"
            )
        order = self.by_values[self._generator("divided").permutation(self.users)]
        first = int(share * self.users)
        before = PLAIN_DRAWS if self.selected is None else self.selected.sample
        return (
            self._only(np.sort(order[:first]), before),
            self._only(np.sort(order[first:]), before),
        )

    def searched_and_rest(
        self, users: int, apis: Sequence[str]
    ) -> tuple[SpectrumSource, ValueSource]:
        """Divide the users, in no order, into some to search among and all others.

        The draw follows from the data, as the hash by which values of the others are kept, so
        nobody can draw again.

        Raises
        ------
        InputError
            Fewer than two users are asked for, or fewer than two are left.
        UnknownNameError
            An API that was never observed.
        """
        if not 2 <= users <= self.users - 2:
            raise InputError(
                f"search-users: must be 2 to {self.users - 2:,}, got {users:,}",
                hint="all others are tested on",
            )
        self.check_names(apis)
        secret = keyed_digest(self._stored, self.snapshot.key)
        if not self.snapshot.in_memory(len(apis)):
            seed = seed_of("searched", secret)
            return self._queries.selected(apis).searched_and_rest(users, seed)
        first, rest = self.divided(users / self.users)
        return (
            MemorySource(apis, [first.column(api) for api in apis]),
            HeldValues(
                source=MemorySource(apis, [rest.column(api) for api in apis]),
                secret=f"values {secret}",
            ),
        )

    def _generator(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng(seed_of(purpose, self._stored))

    @cached_property
    def by_values(self) -> NDArray[np.intp]:
        """Positions of the users in an order that is none of time, nor follows from their rows.

        It follows from their values alone, so the same users are drawn whoever keeps the rows. Who
        stands where among those of equal values makes no difference.
        """
        words = self._words if self._rows is None else self._words[self._rows]
        return np.argsort(words, kind="stable")

    def _only(
        self, kept: NDArray[np.intp], sample: SampleModel, binding: str | None = None
    ) -> Self:
        """Return the users at some positions, and note what they were drawn by."""
        strata = sample.strata
        drawn = Drawn(
            users=len(kept),
            observed=self.users if self.drawn is None else self.drawn.observed,
            cluster=sample.cluster,
            binding=binding,
            unobserved=None if strata is None else strata.departure().unobserved,
        )
        rows = np.arange(self.snapshot.users) if self._rows is None else self._rows
        other = self._copied()
        other.selected = Selected(sample=sample, rows=rows[kept], drawn=drawn)
        return other

    def _strata_of(self, strata: Strata) -> NDArray[np.intp]:
        """Position of the stratum of each user; errors as of `drawn_by`."""
        places = {name: place for place, name in enumerate(strata.shares)}
        kind, called = self.kinds(strata.by, told_brave=any("brave" in name for name in places))
        rest = places.get("other", -1)
        place = [rest if name is None else places.get(name, rest) for name in called]
        found_at = np.array(place, dtype=np.intp)[kind]
        if (found_at < 0).any():
            lost = [str(name) for name, at in zip(called, place, strict=True) if at < 0]
            named = f", as {', '.join(lost[:3])}" if self.audience is Audience.OWNER else ""
            raise InputError(
                f"strata: some users are in none{named}",
                hint="name all values, or add `other` with the share of all the rest",
            )
        return found_at

    def kinds(
        self, by: str, what: str = "strata", *, told_brave: bool = True
    ) -> tuple[NDArray[np.intp], list[str | None]]:
        """Tell users apart by columns: position of each one's kind, and what the kinds are called.

        Parameters
        ----------
        by
            Columns separated by commas, or `browser family` and `operating system`; a kind is
            called by the values of all, and null where a user lacks one.
        what
            What errors are about.
        told_brave
            Whether Brave, whose user agent is that of Chrome, is a family of its own.

        Raises
        ------
        UnknownNameError
            A column that was never observed.
        InputError
            No column is named, or values are kept as digests.
        UndecidableError
            The rows are not in memory.
        """
        columns = split_names(by)
        if not columns:
            raise InputError(f"{what}: name what tells them", hint="a column, or browser family")
        if not self.snapshot.in_memory(1):
            raise UndecidableError(
                f"{what}: the users do not fit into memory", hint="ask of a window of fewer users"
            )
        check_values_kept(self.snapshot, what)
        found = [self._values_by(column, told_brave=told_brave) for column in columns]
        kinds, told = joined_kinds([codes for codes, _ in found])
        return kinds, [
            joined_kind([texts.get(code) for (_, texts), code in zip(found, codes, strict=True)])
            for codes in told
        ]

    def _values_by(
        self, column: str, *, told_brave: bool
    ) -> tuple[NDArray[np.int64], Mapping[int, str | None]]:
        """Code of each user by one column of `kinds`, and what codes stand for."""
        texts: dict[int, str | None]
        if column == BROWSER_FAMILY and self._groups.rows is not None:
            texts = dict(enumerate(FAMILIES))
            if not told_brave:
                texts[FAMILIES.index("brave")] = "chromium"
            codes = self._groups.family[self._groups.rows].astype(np.int64)
        elif column == OPERATING_SYSTEM:
            texts = dict(enumerate(SYSTEMS))
            codes = systems_of_rows(self.snapshot).astype(np.int64)
        else:
            found = self.named([column])
            if len(found) > 1:
                raise InputError(f"strata: {column} may be any of {', '.join(found)}")
            texts = {
                code: text if status == "value" else None
                for code, (status, text) in self.snapshot.values(found[0]).items()
            }
            codes = self.snapshot.codes(found)[0].astype(np.int64)
        if (codes == UNKNOWN).all():
            raise InputError(
                f"strata: the {column} of no user is known", hint="the user agent tells it"
            )
        return codes if self._rows is None else codes[self._rows], texts

    def _copied(self) -> Self:
        """Copy without what was found out about these users."""
        other = copy.copy(self)
        for name in ("users", "digest", "by_values", "_counted", "_rows", "_queries"):
            other.__dict__.pop(name, None)
        return other

    def asked(self, question: Question, apis: Iterable[str]) -> Population:
        """Return the users whom a question about some APIs means.

        By shares they are drawn once: those who were drawn are meant as they are. Where `missing`
        is `drop`, others are told of all users unless at least k of them lack some.

        Raises
        ------
        UnknownNameError
            An API that was never observed.
        InputError
            One of them tells clusters; or limits are asked for of rows that may be no users.
        UndecidableError
            `missing` is `drop`, and nobody has all of them; for others, fewer than k.
        """
        if not question.counted:
            check_limits(self.snapshot.units, rows_are_users=question.sample.rows_are_users)
        wanted = sorted(self.named(apis))
        users = self.without_few(question.k)
        sample = question.sample
        if not self._clusters(sample).isdisjoint(wanted):
            raise InputError(
                f"cluster: no two of those drawn share a value of {sample.cluster}",
                hint="name APIs without it",
            )
        if users.selected is None:
            if question.missing == "drop" and wanted:
                users = users._having(wanted, question.k)  # noqa: SLF001 -- its own class
            if sample.cluster is not None:
                users = users.one_of_each(sample.cluster, question.k)
            if sample.strata is not None:
                users = users.drawn_by(sample.strata, question.k)
        return users.with_absent_alone() if question.missing == "exposed" else users

    def _having(self, apis: Sequence[str], k: int) -> Population:
        if self.audience is Audience.OWNER:
            return self.with_all(apis)
        having = self.with_all(apis, least=k)
        return self if self.users - having.users < k else having

    def question(self, question: Question) -> Question:
        """Return a question as it is asked of these users: how many, and whom nobody observed.

        A population that nobody named is as large as they are. Neither a draw by shares nor whoever
        added rows may choose among tests by it: then it is one that follows from their design.
        """
        sample = self.model(question.sample)
        expected = None if self.selected is None else sample.expected(self.users)
        if sample.fake_share:
            share = sample.fake_share
            expected = math.floor(design_size(self.users, share) * (1 - share))
        users = self.users if expected is None else max(expected, question.k)
        return replace(question.among(users), sample=sample)

    def model(self, sample: SampleModel) -> SampleModel:
        """Return how these users may differ, with the strata of whom nobody was drawn left out."""
        if self.selected is None:
            return sample
        return replace(sample, strata=self.selected.sample.strata)

    def askable_apis(self, question: Question) -> tuple[str, ...]:
        """Observed APIs whose names may be told, without those that tell clusters."""
        clusters = self._clusters(question.sample)
        return tuple(api for api in self.publishable_apis(question.k) if api not in clusters)

    def _clusters(self, sample: SampleModel) -> set[str]:
        """Return what the log calls the columns that tell clusters."""
        names = set(split_names(sample.cluster or "")) - {BROWSER_FAMILY, OPERATING_SYSTEM}
        return set(self.named(names))

    def check_names(self, apis: Iterable[str]) -> None:
        """Refuse what the log does not call an API; errors as of `named`."""
        for api in apis:
            if api not in self.apis:
                raise self._unknown(api)

    # ---- What they have

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

    def lacks(self, apis: Iterable[str], k: int) -> dict[str, Lack]:
        """Find those of some APIs about which these users are no evidence: see `find_lack`.

        Values count as they were logged: what a view makes coarser was seen all the same.
        """
        wanted = self.named(apis)
        counted = [api for api in wanted if api not in self._unobserved]
        seen: dict[str, list[Seen]] = {api: [] for api in wanted}
        if self.snapshot.in_memory(1):
            seen |= {api: self._seen(api, self._code_counts(api)) for api in counted}
        else:
            seen |= self._seen_by_queries(counted)
        found = {api: find_lack(seen[api], k, self.means.get(api, "")) for api in wanted}
        return {api: lack for api, lack in found.items() if lack is not None}

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
        asked = [api for api in apis if api not in shown]
        spectra = dict(zip(asked, self._queries.spectra([[api] for api in asked]), strict=True))
        many = {api for api in asked if spectra[api].support > _MOST_TEXTS}
        having = self._queries.users_of_apis() if shown or many else {}
        seen = {api: [Seen(1, values=having[api])] for api in shown}
        for api in many:
            groups = zip(spectra[api].counts.tolist(), spectra[api].values.tolist(), strict=True)
            absent = self.users - having[api]
            seen[api] = [Seen(users, values=n - (users == absent)) for users, n in groups]
        few = [api for api in asked if api not in many]
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
        told = set(self.publishable_apis(k))
        return {api: sources for api, sources in mixed.items() if api in told}

    # ---- How they are counted

    def column(self, api: str) -> NDArray[np.integer[Any]]:
        """Code of each user, 0 where absent, or where absent ones are alone a code of one's own."""
        shown = self._shown(api)
        return own_codes_of_absent(shown) if self._absent_alone else shown

    @property
    def people(self) -> NDArray[np.int64] | None:
        """Number of each user, by which windows know them again; None where it is not known."""
        people = getattr(self.snapshot, "people", None)
        return people if people is None or self._rows is None else people[self._rows]

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

    @property
    def view_description(self) -> str:
        """Words that name what the view changes of these users' values; empty for nothing."""
        return self._recoding.description

    def _shown(self, api: str) -> NDArray[np.integer[Any]]:
        self.check_names([api])
        shown = self._codes(api)
        return shown if self._rows is None else shown[self._rows]

    def _codes(self, api: str) -> NDArray[np.integer[Any]]:
        """Return the codes of all rows, as the view changes them."""
        if api in self._unobserved:
            return np.full(self.snapshot.users, ABSENT, dtype=np.uint8)
        return self._recoding.column(api, self.snapshot.codes([api])[0])

    def source(
        self, apis: Sequence[str], engine: Engine = "auto"
    ) -> MemorySource | SpectrumQueries:
        """Return what counts groups: rows in memory if they have room, else queries."""
        self.check_names(apis)
        held = {*apis}.difference(self._unobserved)  # the others take next to no room
        in_memory = self.selected is not None or self.snapshot.in_memory(len(held))
        if engine == "memory" or (engine == "auto" and in_memory):
            return MemorySource(apis, [self.column(api) for api in apis])
        return self._queries.selected(apis)

    def source_among(self, rows: NDArray[np.bool_], apis: Sequence[str]) -> MemorySource | None:
        """Count the groups of those users only who are in some rows of the snapshot, in memory.

        Parameters
        ----------
        rows
            bool, one for each row of the snapshot; None is returned where nobody is left.
        apis
            As of `source`.
        """
        kept = rows if self._rows is None else rows[self._rows]
        if not kept.any():
            return None
        return MemorySource(apis, [self.column(api)[kept] for api in apis])

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`, as it is."""
        return self.source(sorted(set(apis))).spectrum(apis)

    def told(self, apis: Sequence[str], k: int) -> ToldSpectra:
        """Return what the audience is told of the count spectrum of a set."""
        return told_spectra(self.spectrum(apis), k, self.audience)

    def sample(
        self,
        question: Question,
        sets: Iterable[Sequence[str]],
        *,
        given: Sequence[str] = (),
        chosen: bool = False,
    ) -> CertifiedSample:
        """Return the users of one question about some sets, with limits.

        Parameters
        ----------
        question
            What is asked.
        sets
            All that is asked for; together they name the APIs that a user must have.
        given
            APIs that make cohorts, among those of the sets.
        chosen
            Whether the limits of all sets hold together, whichever are named after looking; else
            each holds for a set that was named before.
        """
        together = sorted({api for apis in sets for api in (*apis, *given)})
        users = self.asked(question, together)
        check_users(users.users, question.k, self.audience)
        question = users.question(question)
        said = self.snapshot.said
        return CertifiedSample(
            question,
            users._held(together, given),  # noqa: SLF001 -- its own class
            digest=users.digest,
            seal=users.seal,
            audience=self.audience,
            masked=self.masked(together, question.k),
            growing=[api for api in together if may_be_masked([api], self.view, said)],
            universe=universe_of(len(self.apis)) if chosen else None,
            drawn=users.drawn,
        )

    def index(
        self,
        question: Question,
        candidates: Sequence[str],
        *,
        kept: KeptSpectra | None = None,
        sets: Iterable[Sequence[str]] = (),
    ) -> ExposureIndex:
        """Hold the users in memory: exposure of any set of the candidates in milliseconds.

        Parameters
        ----------
        question, candidates
            What is asked, and the APIs that may be asked for.
        kept
            Follows these users from call to call: the spectra of `sets` are then known at once.
        sets
            Of the candidates.
        """
        named = self.named(candidates)
        sample = self.sample(question, [named])
        if isinstance(sample.source, HeldUsers):
            if kept is not None:
                users = self.asked(question, named)
                columns = {api: users.column(api) for api in sample.source.apis}
                wanted = {tuple(sorted(self.named(apis))): None for apis in sets}
                sample.know(kept.follow(columns, filter(None, wanted)))
            merged = sample.source.source.restricted(sample.source.apis)
            sample.source = HeldUsers(source=merged, codes={})
        return ExposureIndex(sample, self.means)

    def _held(self, apis: Sequence[str], given: Sequence[str]) -> UserSource:
        source = self.source(apis)
        if not isinstance(source, MemorySource):
            return source
        return HeldUsers(source=source, codes={api: np.unique(self.column(api)) for api in given})

    # ---- What is found out once

    @cached_property
    def _volatility(self) -> dict[str, Volatility]:
        return volatility_of(self.snapshot, self._groups)

    @cached_property
    def _groups(self) -> BrowserGroups:
        return self.snapshot.browser_groups()

    @cached_property
    def _counted(self) -> dict[str, int]:
        return {}

    @cached_property
    def _words(self) -> NDArray[np.uint64]:
        return words_of_rows(self.snapshot)

    @cached_property
    def _transforms(self) -> dict[str, Transform]:
        """What the view makes of values, by what the log calls the API, where it has any."""
        return {
            name: transform
            for api, transform in self.view.transforms.items()
            for name in self.named([api])
            if name not in self._unobserved
        }

    @cached_property
    def _recoding(self) -> Recoding:
        view = replace(self.view, transforms=self._transforms)
        return recoding_of(self.snapshot, view, self._groups, self._volatility)

    @cached_property
    def _rows(self) -> NDArray[np.intp] | None:
        """Rows of the users that are meant; None for all."""
        if self.selected is not None:
            return self.selected.rows
        groups, dropped = self._groups.rows, self._recoding.dropped
        kept = None if groups is None or not dropped.any() else ~dropped[groups]
        for api in self._present:
            present = self._codes(api) != ABSENT
            kept = present if kept is None else kept & present
        return None if kept is None else np.flatnonzero(kept)

    @cached_property
    def _queries(self) -> SpectrumQueries:
        if self.selected is not None:
            raise InputError("users are drawn in memory", hint="leave --engine at `auto`")
        queries = self.snapshot.queries(self._recoding, self._present)
        return queries.with_absent_alone() if self._absent_alone else queries
