"""Users who are drawn: one of each cluster, by the shares of strata, to search among."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.estimate.strata import draw_by_shares, expected_users
from fpmonitor.policy import PLAIN_DRAWS, Drawn, SampleModel, Strata
from fpmonitor.population.browsers import (
    BROWSER_FAMILY,
    KINDS,
    OPERATING_SYSTEM,
    SYSTEMS,
    UNKNOWN,
    joined_kind,
    systems_of_rows,
)
from fpmonitor.population.kept_values import ChosenValues, kept_in_memory
from fpmonitor.population.memory import MemorySource, joined_kinds
from fpmonitor.population.people import People, Selected
from fpmonitor.population.snapshot import check_values_kept, words_of_rows
from fpmonitor.store.digests import keyed_digest
from fpmonitor.vocabulary import FAMILIES, columns_of, split_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.spectrum import SpectrumSource


class Draws(People):
    """Users, of whom some can be drawn; draws follow from the data, so nobody can draw again."""

    def one_of_each(self, cluster: str, k: int) -> Self:
        """Return one user of each cluster, drawn; who has no value is in none with others.

        Raises:
            UndecidableError: The rows are not in memory; for others, fewer than k users would be
                left out.
            InputError: Values that are kept as digests.
            UnknownNameError: What tells clusters was never observed.
        """
        position, called = self.kinds(cluster, "cluster")
        # The draw is one of places in this order, so the same users in other rows are drawn alike.
        order = self.by_values[self._generator("cluster").permutation(self.users)]
        _, first = np.unique(position[order], return_index=True)
        alone = np.array([name is None for name in called])[position]
        chosen_users = np.union1d(order[first], np.flatnonzero(alone))
        # The number of those left out is the difference of two numbers that are told.
        if self.audience is not Audience.OWNER and self.users - chosen_users.size < k:
            raise UndecidableError(
                f"cluster: all but fewer than {k} users are the only one of their {cluster}",
                hint="omit --cluster",
            )
        return self._only(chosen_users, SampleModel(cluster=cluster))

    def drawn_by(self, strata: Strata, k: int) -> Self:
        """Return as many users as can be drawn by the shares of strata, nobody twice.

        The draw follows from the data, so nobody can draw again. How many it has tells the size of
        a stratum, which others are told from k on: a stratum of fewer is left out for them, as one
        without users is for all.

        Raises:
            UndecidableError: No stratum has users, or the rows are not in memory.
            InputError: Users in no stratum, or values that are kept as digests.
            UnknownNameError: What tells the strata was never observed.
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
        # After the few were left out: theirs are 0, and nobody draws them.
        shares = np.array(list(strata.drawn().values()))
        strata = replace(strata, expected=expected_users(sizes, shares))
        order = self.by_values
        drawn_places, binding = draw_by_shares(position[order], shares, self._generator("strata"))
        before = PLAIN_DRAWS if self.selected is None else self.selected.sample
        return self._only(
            np.sort(order[drawn_places]), replace(before, strata=strata), names[binding]
        )

    def divided(self, share: float) -> tuple[Self, Self]:
        """Divide the users, in no order, into a share of them and the rest: see `divided_at`."""
        return self.divided_at(int(share * self.users))

    def divided_at(self, first: int) -> tuple[Self, Self]:
        """Divide the users, in no order, into so many and the rest.

        Who is among the first does not follow from values, but the draw follows from the data, so
        nobody can draw again.

        Raises:
            UndecidableError: The rows are not in memory.
        """
        if not self.snapshot.in_memory(1):
            raise UndecidableError(
                "the users do not fit into memory, where they are divided",
                hint="ask of a window of fewer users",
            )
        order = self.by_values[self._generator("divided").permutation(self.users)]
        before = PLAIN_DRAWS if self.selected is None else self.selected.sample
        return (
            self._only(np.sort(order[:first]), before),
            self._only(np.sort(order[first:]), before),
        )

    def searched_and_rest(
        self, users: int, apis: Sequence[str], engine: str | None = None
    ) -> tuple[SpectrumSource, ChosenValues]:
        """Divide the users, in no order, into some to search among and all others.

        The draw follows from the data, as the hash by which values of the others are kept, so
        nobody can draw again.

        Args:
            users, apis: How many to search among, and of which APIs.
            engine: What divided them for a decision that is looked at again, whose machine may have
                had other room: queries divide by another rule. Null for a new decision.

        Raises:
            UndecidableError: They were divided in memory, where they do not fit here.
            InputError: Fewer than two users are asked for, or fewer than two are left.
            UnknownNameError: An API that was never observed.
        """
        if not 2 <= users <= self.users - 2:
            raise InputError(
                f"search-users: must be 2 to {self.users - 2:,}, got {users:,}",
                hint="all others are tested on",
            )
        self.check_names(apis)
        # Keyed: whoever made up the values could else know which of them are kept.
        secret = keyed_digest(self._stored, self.snapshot.key)
        in_memory = self.snapshot.in_memory(len(apis)) if engine is None else engine == "memory"
        if not in_memory:
            seed = seed_of("searched", secret)
            return self._queries.selected(apis).searched_and_rest(users, seed)
        # By their number: 14 / 55 of 55 users are 13 when rounded, and an audit would find others.
        first, rest = self.divided_at(users)
        return (
            MemorySource(apis, [first.column(api) for api in apis]),
            kept_in_memory(
                MemorySource(apis, [rest.column(api) for api in apis]), f"values {secret}"
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
        # Drawn by their rows, the same users in another order were others, and `gate --db` would
        # have judged a decision on users whom it was not made of.
        words = self._words if self._rows is None else self._words[self._rows]
        return np.argsort(words, kind="stable")

    @cached_property
    def _words(self) -> NDArray[np.uint64]:
        return words_of_rows(self.snapshot)

    def _only(
        self, chosen_users: NDArray[np.intp], sample: SampleModel, binding: str | None = None
    ) -> Self:
        """Return the users at some positions, and note what they were drawn by."""
        strata = sample.strata
        # By strata one of each cluster may be drawn: of how many tells the draw before.
        drawn = Drawn(
            users=len(chosen_users),
            observed=self.users if self.drawn is None else self.drawn.observed,
            cluster=sample.cluster,
            binding=binding,
            unobserved=None if strata is None else strata.departure().unobserved,
        )
        rows = np.arange(self.snapshot.users) if self._rows is None else self._rows
        other = self._copied()
        other.selected = Selected(sample=sample, rows=rows[chosen_users], drawn=drawn)
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

        Args:
            by: Columns separated by commas, or `browser family` and `operating system`; a kind is
                called by the values of all, and null where a user lacks one.
            what: What errors are about.
            told_brave: Whether Brave, whose user agent is that of Chrome, is a family of its own.

        Raises:
            UnknownNameError: A column that was never observed.
            InputError: No column is named, or values are kept as digests.
            UndecidableError: The rows are not in memory.
        """
        columns = split_names(by)
        if not columns:
            raise InputError(f"{what}: name what defines them", hint="a column, or browser family")
        found = [self._values_by(column, what, told_brave=told_brave) for column in columns]
        rows = slice(None) if self._rows is None else self._rows
        kinds, kind_codes = joined_kinds([codes[rows] for codes, _ in found])
        return kinds, [
            joined_kind([texts.get(code) for (_, texts), code in zip(found, codes, strict=True)])
            for codes in kind_codes
        ]

    def with_kinds(self, given: Sequence[str]) -> tuple[Self, tuple[str, ...]]:
        """Return the users with columns for `family` and `system`, and what the log calls others.

        Both follow from the user agent and brands, which sites see in any case. A column of the log
        that is called so comes first.
        """
        added = {
            KINDS[name]: self._values_by(KINDS[name], "given", told_brave=True)
            for name in given
            if name in KINDS and name not in self.apis and not columns_of(name, self.means)
        }
        if not added:
            return self, self.named(given)
        other = self._copied()
        other._told = {**self._told} | {  # noqa: SLF001 -- its own class
            # From 0 on, as codes are: 0 is absent, and unknown is that.
            name: (codes - UNKNOWN, {code - UNKNOWN: text for code, text in texts.items()})
            for name, (codes, texts) in added.items()
        }
        return other, other.named(KINDS.get(name, name) for name in given)

    def _values_by(
        self, column: str, what: str, *, told_brave: bool
    ) -> tuple[NDArray[np.int64], Mapping[int, str | None]]:
        """Code of each row by one column of `kinds`, and what codes stand for; errors as there."""
        if not self.snapshot.in_memory(1):
            raise UndecidableError(
                f"{what}: the users do not fit into memory", hint="ask of a window of fewer users"
            )
        check_values_kept(self.snapshot, what)
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
                raise InputError(f"{what}: {column} may be any of {', '.join(found)}")
            texts = {
                code: text if status == "value" else None
                for code, (status, text) in self.snapshot.values(found[0]).items()
            }
            codes = self.snapshot.codes(found)[0].astype(np.int64)
        if (codes == UNKNOWN).all():
            raise InputError(
                f"{what}: the {column} of no user is known", hint="it follows from the user agent"
            )
        return codes, texts
