"""Who the users of a population are: their names, rows and values, as a view shows them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fpmonitor.disclosure import Audience, publishable_part
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.policy import disclosed_from
from fpmonitor.population.beside import days_in_words
from fpmonitor.population.browsers import NO_GROUPS, BrowserGroups, signs_of
from fpmonitor.population.changes import recoding_of
from fpmonitor.population.recoding import Recoding, own_codes_of_absent
from fpmonitor.population.views import View
from fpmonitor.population.visits import MOST_CELLS
from fpmonitor.population.volatile import (
    Volatility,
    may_be_contradicted,
    may_be_masked,
    may_be_volatile,
    returned_with,
    volatility_of,
)
from fpmonitor.store.digests import keyed_digest
from fpmonitor.store.snapshot import ABSENT, Window
from fpmonitor.unit import Unit, weakest
from fpmonitor.vocabulary import columns_of, meaning

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from fpmonitor.policy import Drawn, Look, SampleModel, Visits
    from fpmonitor.population.snapshot import Days, Snapshot, SpectrumQueries
    from fpmonitor.store.looks import FirstNames
    from fpmonitor.store.transforms import Transform

_CAME_BACK = 0.01  # of the users, that decisions speak of them


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Selected:
    """Users who were drawn: one of each cluster, by the shares of strata, or both."""

    # What they were drawn by; of the strata that are left out there nobody was drawn.
    sample: SampleModel
    rows: NDArray[np.intp]  # Rows of the snapshot, increasing.
    drawn: Drawn  # How many they are.


class People:
    """Users of a snapshot, in a window, as a view shows them, for an audience: see `Population`."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        window: Window | None = None,
        view: View | None = None,
        audience: Audience = Audience.OWNER,
        look: Look | None = None,
        first_names: FirstNames | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.window = window or Window()
        self.view = view or View()
        self.audience = audience
        self.look = look
        self.first_names = first_names
        self._unobserved: tuple[str, ...] = ()
        self._present: tuple[str, ...] = ()
        self._absent_alone = False
        self._given: tuple[str, ...] = ()  # what sites see with every set
        self._visits: Visits = "last"
        self._after: tuple[float, ...] = ()  # days after which those who come back are asked of
        # What the values tell besides: name -> code of each row, and what codes stand for.
        self._told: Mapping[str, tuple[NDArray[np.int64], Mapping[int, str | None]]] = {}
        self.selected: Selected | None = None

    def first_of(self, apis: Iterable[str]) -> int | None:
        """Count the names in the first log where all of some APIs are among them, else 0.

        Null where nothing noted them. For others 0, a stricter test: limits would tell how many
        names there are that few users have.
        """
        if self.first_names is None:
            return None
        return self.first_names.of(apis) if self.audience is Audience.OWNER else 0

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted, as the log calls them."""
        return tuple(sorted({*self.snapshot.apis, *self._unobserved, *self._told}))

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

        Raises:
            UnknownNameError: One was never observed; the message lists the nearest names that may
                be told.
            InputError: A name that may mean several APIs.
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

    def check_names(self, apis: Iterable[str]) -> None:
        """Refuse what the log does not call an API; errors as of `named`."""
        for api in apis:
            if api not in self.apis:
                raise self._unknown(api)

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
        # Whatever changes who or what is counted is a part.
        parts = [self.snapshot.digest]
        if self._recoding.description:
            parts.append(self._recoding.description)
        if self._present:
            parts.append(f"present:{','.join(sorted(self._present))}")
        if self._absent_alone:
            parts.append("absent:alone")
        if self._given:
            parts.append(f"given:{','.join(sorted(self._given))}")
        if self._visits != "last":  # more visits leave last values as they were
            parts += [f"visits:{self._visits}", f"{self.snapshot.visits}"]
        if self._after:
            parts.append(f"after:{','.join(map(days_in_words, self._after))}")
        if self.selected is not None:
            parts.append(f"drawn by values:{self.selected.sample!r}")
        return "/".join(parts)

    @property
    def seal(self) -> str:
        """The digest as it may leave, keyed: who knows all users but one cannot guess that one."""
        return self.sealed(self.digest)

    def sealed(self, text: str) -> str:
        """Return the digest of a text as that of the users may leave; of no text none."""
        return keyed_digest(text, self.snapshot.key) if text else ""

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
        if not may_be_masked(self.snapshot.apis, self.view, self.snapshot.said):
            return False
        return may_be_contradicted(self.snapshot, self._groups)

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

    def came_back(self, k: int) -> bool:
        """Whether users came back: so many as may be told of, and no accident."""
        least = max(_CAME_BACK * self.snapshot.users, disclosed_from(k))
        return self.snapshot.came_back() >= least

    def can_read_visits(self, apis: int, draws: int = 1) -> bool:
        """Whether visits, or draws of one of each user, are few enough to be read unasked."""
        rows = max(self.snapshot.visits, draws * self.snapshot.users)
        return rows * apis <= MOST_CELLS and self.snapshot.in_memory(apis)

    def days(self, k: int) -> Days | None:
        """First and last day (UTC) with a visit; for others, with visits of at least k users."""
        return self.snapshot.days(1 if self.audience is Audience.OWNER else disclosed_from(k))

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

    def seen_by(self, view: View) -> Self:
        """Return the same users as another view shows them."""
        other = type(self)(
            self.snapshot,
            window=self.window,
            view=view,
            audience=self.audience,
            # Another view is no other look: what it is tested by shares the same delta.
            look=self.look,
            first_names=self.first_names,
        )
        other._told = self._told  # noqa: SLF001 -- its own class
        return other.with_unobserved(self._unobserved)

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

    def _copied(self) -> Self:
        """Copy without what was found out about these users."""
        other = copy.copy(self)
        # Words of rows, groups and what is volatile are of the snapshot, and stay known.
        for name in ("users", "digest", "by_values", "_counted", "_rows", "_queries"):
            other.__dict__.pop(name, None)
        return other

    @property
    def view_description(self) -> str:
        """Words that name what the view changes of these users' values; empty for nothing."""
        return self._recoding.description

    def column(self, api: str) -> NDArray[np.integer[Any]]:
        """Code of each user, 0 where absent, or where absent ones are alone a code of one's own."""
        shown = self._shown(api)
        return own_codes_of_absent(shown) if self._absent_alone else shown

    @property
    def people(self) -> NDArray[np.int64] | None:
        """Number of each user, by which windows know them again; None where it is not known."""
        people = getattr(self.snapshot, "people", None)
        return people if people is None or self._rows is None else people[self._rows]

    def _shown(self, api: str) -> NDArray[np.integer[Any]]:
        self.check_names([api])
        shown = self._codes(api)
        return shown if self._rows is None else shown[self._rows]

    def _codes(self, api: str) -> NDArray[np.integer[Any]]:
        """Return the codes of all rows, as the view changes them."""
        if api in self._told:
            return self._told[api][0]
        if api in self._unobserved:
            return np.full(self.snapshot.users, ABSENT, dtype=np.uint8)
        return self._recoding.column(api, self.snapshot.codes([api])[0])

    @cached_property
    def _volatility(self) -> dict[str, Volatility]:
        snapshot = self.snapshot
        is_possible = may_be_volatile(snapshot.apis, snapshot.said)
        return volatility_of(snapshot, self._groups) if is_possible else {}

    @cached_property
    def _groups(self) -> BrowserGroups:
        """Users by browser; to find them reads all rows of several APIs."""
        return self.snapshot.browser_groups()

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
        needs_groups = view.transforms or view.drop_automation or self._volatility
        groups = self._groups if needs_groups else NO_GROUPS
        return recoding_of(self.snapshot, view, groups, self._volatility)

    @cached_property
    def _rows(self) -> NDArray[np.intp] | None:
        """Rows of the users that are meant; None for all."""
        if self.selected is not None:
            return self.selected.rows
        groups, dropped = self._recoding.groups.rows, self._recoding.dropped
        is_included = None if groups is None or not dropped.any() else ~dropped[groups]
        for api in self._present:
            present = self._codes(api) != ABSENT
            is_included = present if is_included is None else is_included & present
        return None if is_included is None else np.flatnonzero(is_included)

    @cached_property
    def _queries(self) -> SpectrumQueries:
        if self.selected is not None:
            raise InputError("users are drawn in memory", hint="leave --engine at `auto`")
        queries = self.snapshot.queries(self._recoding, self._present)
        return queries.with_absent_alone() if self._absent_alone else queries
