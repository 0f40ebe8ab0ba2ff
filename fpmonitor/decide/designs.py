"""Levels designed from some of the users, to be certified on the others.

A design is a path of maps from coarse to fine: of all maps that show as little, each is meant to
show most. Only the certificate on users that it was not made from promises anything.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.policy import disclosed_from
from fpmonitor.population.level_source import kinds_of
from fpmonitor.population.levels import LARGEST, LEAST_STEP, Component, LevelMap, Value, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.policy import Policy
    from fpmonitor.population.population import Population

# What an exposed user costs, in users of whom nothing is shown; from coarse to fine.
_PRICES = np.geomspace(10, 0.03, 24)
_MOST_USERS = 10_000  # more make a design slower, and hardly better
_DIGITS = 4  # of a number, in steps below the largest
_MOST_EDGES, _MOST_COMBINED, _MOST_TOGETHER = 1000, 900, 500  # candidates for a design
_ADDITIONS, _REMOVALS = 25, 12  # changes of a list of sizes that are tried, the best ones first
_LEAST_GAIN = 1e-9


@dataclass(frozen=True, slots=True)
class Designed:
    """A map, and the share of the users from whom it was made that is expected to be exposed."""

    level: LevelMap
    exposed: float


def design(components: Sequence[Component], users: Population, policy: Policy) -> list[Component]:
    """Return the components with a map in place of each design.

    Args:
        components: With APIs called as in the log.
        users: From whom levels are designed; nothing is promised of them.
        policy: Its population, `k` and budget say who counts as exposed, and how many may be.
    """
    return [
        replace(component, levels=tuple(_finest(component, users, policy)))
        for component in components
    ]


def alternatives(component: Component, users: Population, policy: Policy) -> list[Component]:
    """Return a component with one level, a design, at all maps of its path, from coarse to fine.

    Parameters as of `design`.
    """
    found = path(component.levels[0], _held(component, users), policy)
    maps = dict.fromkeys(each.level for each in found)
    return [replace(component, levels=(level,)) for level in maps]


def path(
    level: LevelMap, value_counts: Mapping[tuple[Value, ...], int], policy: Policy
) -> list[Designed]:
    """Return maps of a design from coarse to fine.

    Args:
        level: With a design.
        value_counts: Values of a component, and how many of the users it is made from have them.

    Raises:
        InputError: Too few of these users have what the design needs.
    """
    wanted, cost = level.design, _Cost(sum(value_counts.values()), policy)
    if wanted is None:
        raise InputError(f"levels: {level.words} is not a design")
    if wanted.frequent is not None:
        found = _frequent(value_counts, wanted.frequent, cost)
    else:
        numbers, counts = _numbers(value_counts)
        if counts.sum() < cost.k:
            raise InputError(
                f"levels: {level.words} cannot be designed: fewer than {cost.k} of the users "
                "who were drawn for that have numbers",
                hint="a larger --design-share",
            )
        if wanted.buckets is not None:
            found = _buckets(numbers[:, 0], counts, wanted.buckets, cost)
        else:
            found = _sizes(numbers, counts, wanted.sizes or 1, cost)
    maps = [replace(each, level=_named(each.level, level.name)) for each in found]
    if not maps:
        raise InputError(
            f"levels: {level.words} cannot be designed: nothing that may be shown is common to "
            f"{cost.k} of the users who were drawn for that",
            hint="a larger --design-share",
        )
    return maps


def _finest(component: Component, users: Population, policy: Policy) -> Iterator[LevelMap]:
    """Yield its maps; a design becomes the finest of its path that exposes as few as it says."""
    if not component.designed:
        yield from component.levels
        return
    value_counts = _held(component, users)
    for level in component.levels:
        chosen = level
        if level.design is not None:
            most = policy.budget / 2 if level.design.exposed is None else level.design.exposed
            found = path(level, value_counts, policy)
            chosen = ([each for each in found if each.exposed <= most] or found[:1])[-1].level
        yield chosen
        shown: dict[tuple[Value, ...], int] = defaultdict(int)
        for each, count in value_counts.items():
            shown[chosen.shown(each)] += count
        value_counts = shown


def _held(component: Component, users: Population) -> Mapping[tuple[Value, ...], int]:
    """Values of a component, and how many of the users have them; of many users some count."""
    kinds, values = kinds_of(users, component)
    # Every n-th in an order by values: rows may follow time.
    some = kinds[users.by_values[:: -(-len(kinds) // _MOST_USERS) or 1]]
    counts = np.bincount(some, minlength=len(values))
    return dict(zip(values, counts.tolist(), strict=True))


class _Cost:
    """Expected exposed users of groups of design users.

    Of a group of c the others are like the other c - 1 here: c F((c - 1) / D).
    """

    def __init__(self, users: int, policy: Policy) -> None:
        self.users, self.k = users, disclosed_from(policy.k)
        sizes = np.arange(users + 1)
        # The user itself tells nothing of how many others share its value.
        alike = np.maximum(sizes - 1, 0) / max(users, 1)
        self.exposed: NDArray[np.float64] = sizes * exposure_probability(
            alike, k=policy.k, population=policy.population
        )


def _named(level: LevelMap, name: str | None) -> LevelMap:
    return LevelMap(name=name, edges=level.edges, sizes=level.sizes, top=level.top)


def _numbers(
    values: Mapping[tuple[Value, ...], int],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows of numbers, increasing, and how many users have each; what is no number is left out."""
    row_counts: dict[tuple[float, ...], int] = defaultdict(int)
    for texts, count in values.items():
        numbers = [number_of(text) if isinstance(text, str) else None for text in texts]
        row = tuple(float(number) for number in numbers if number is not None)
        if count and len(row) == len(texts):
            row_counts[row] += count
    ordered = sorted(row_counts)
    width = len(ordered[0]) if ordered else 1
    rows = np.array(ordered, dtype=np.float64).reshape(-1, width)
    return rows, np.array([row_counts[each] for each in ordered], dtype=np.int64)


def _tellable(
    rows: NDArray[np.float64], counts: NDArray[np.int64], most: int, k: int
) -> list[tuple[float, ...]]:
    """Rows of numbers that a design may show: those of k users, or the round numbers below others.

    A design is handed on, so it shows no numbers that are known from fewer than k users: these are
    taken together, by ever larger steps, until there are k. Nor do steps follow from what fewer
    than k users have.
    """
    left: dict[tuple[float, ...], int] = defaultdict(int)
    for row, count in zip(map(tuple, rows.tolist()), counts.tolist(), strict=True):
        left[row] += count
    found: dict[tuple[float, ...], int] = defaultdict(int)
    largest = np.abs(rows).max(axis=1)
    order = np.argsort(-largest)
    reached = largest[order][np.searchsorted(np.cumsum(counts[order]), k)]  # by k users
    for step in (None, *_steps(float(reached))):
        together: dict[tuple[float, ...], list[tuple[float, ...]]] = defaultdict(list)
        for row in left:
            lowest = row if step is None else tuple(_rounded_down(each, step) for each in row)
            together[lowest].append(row)
        for lowest, alike in together.items():
            users = sum(left[row] for row in alike)
            if users >= k:
                found[lowest] += users
                for row in alike:
                    del left[row]
    return sorted(sorted(found, key=lambda row: -found[row])[:most])


def _steps(largest: float) -> list[Decimal]:
    """Return steps of 1, 2, 5, 10, ... from three places below the first digit of a number on."""
    first = Decimal(repr(largest)).adjusted() if largest else 0
    places = range(first - _DIGITS + 1, first + 1)
    return [Decimal(factor).scaleb(place) for place in places for factor in (1, 2, 5)]


@lru_cache(maxsize=100_000)
def _rounded_down(number: float, step: Decimal) -> float:
    return float((Decimal(repr(number)) / step).to_integral_value(ROUND_FLOOR) * step)


def _frequent(
    values: Mapping[tuple[Value, ...], int], most: int, cost: _Cost
) -> Iterator[Designed]:
    """Yield lists of the most frequent values of k users or more, each of twice as many."""
    frequent_values = sorted(
        (
            (count, str(value))
            for (value,), count in values.items()
            if count >= cost.k and isinstance(value, str)
        ),
        key=lambda entry: (-entry[0], entry[1]),
    )[:most]
    total = sum(values.values())
    number = 1
    while frequent_values:
        listed = frequent_values[:number]
        groups = [count for count, _ in listed]
        groups.append(total - sum(groups))
        exposed = float(cost.exposed[groups].sum()) / cost.users
        yield Designed(LevelMap(top=tuple(sorted(text for _, text in listed))), exposed)
        if number >= len(frequent_values):
            return
        number *= 2


def _buckets(
    values: NDArray[np.float64], counts: NDArray[np.int64], most: int, cost: _Cost
) -> Iterator[Designed]:
    """Yield edges of at most so many buckets, the best of each price, by dynamic programming.

    A user loses the share of the number by which the edge below is smaller; who is below all edges
    loses all.
    """
    tellable = _tellable(values[:, None], counts, _MOST_EDGES, cost.k)
    edges = np.array([edge for (edge,) in tellable if abs(edge) < LARGEST])
    if not edges.size:
        return
    at = np.append(np.searchsorted(values, edges), len(values))
    # Losses are shares of the number, and 0 has none.
    size = np.where(values == 0, 1.0, np.abs(values))

    def until(summands: NDArray[Any]) -> NDArray[np.float64]:
        return np.append(0.0, np.cumsum(summands, dtype=np.float64)).take(at)

    users, inverse, signed_users = (
        until(counts),
        until(counts / size),
        until(counts * values / size),
    )
    bucket_users = users - users[:-1, None]
    lost = signed_users - signed_users[:-1, None] - edges[:, None] * (inverse - inverse[:-1, None])
    exposed = cost.exposed[np.maximum(bucket_users, 0).astype(np.intp)]
    below = users[:-1]
    exposed_below = cost.exposed[below.astype(np.intp)]
    # A bucket begins at one edge and ends at a larger one, or has no end.
    ahead = np.arange(len(edges) + 1) > np.arange(len(edges))[:, None]
    for price in _PRICES:
        bucket = np.where(ahead, lost + price * exposed, np.inf)
        rest = np.append(np.full(len(edges), np.inf), 0.0)
        chosen: list[NDArray[np.intp]] = []
        while len(chosen) < most:
            costs = bucket + rest
            longer = np.append(costs.min(axis=1), 0.0)
            # One bucket more costs less nowhere, so no more of them will.
            if (longer == rest).all():
                break
            chosen.append(costs.argmin(axis=1))
            rest = longer
        place = int((below + price * exposed_below + rest[:-1]).argmin())
        among, listed = exposed_below[place], list[float]()
        for ends in reversed(chosen):
            if place < len(edges):
                listed.append(float(edges[place]))
                among += exposed[place, ends[place]]
                place = int(ends[place])
        yield Designed(LevelMap(edges=tuple(listed)), float(among) / cost.users)


def _sizes(
    numbers: NDArray[np.float64], counts: NDArray[np.int64], most: int, cost: _Cost
) -> Iterator[Designed]:
    """Yield lists of at most so many sizes, one of each price, each made from the one before.

    A user loses the share of the area, or of the product of all numbers, that the size shown lacks.
    """
    most_sides = int(_MOST_COMBINED ** (1 / numbers.shape[1]))
    sides = [
        [side for (side,) in _tellable(column[:, None], counts, most_sides, cost.k)]
        for column in numbers.T
    ]
    whole = {*_tellable(numbers, counts, _MOST_TOGETHER, cost.k)}
    listed = np.array(
        sorted(
            size
            for size in {*whole, *product(*sides)}
            if all(LEAST_STEP <= side < LARGEST for side in size)
        )
    )
    if not listed.size:
        return
    combined = np.array([size not in whole for size in map(tuple, listed.tolist())])
    fitting = _Fitting(listed, combined, numbers, counts, cost)
    chosen: list[int] = []
    for price in _PRICES:
        chosen = fitting.improved(chosen, float(price), most)
        sizes = sorted(tuple(size) for size in listed[chosen].tolist())
        if sizes:
            yield Designed(LevelMap(sizes=tuple(sizes)), fitting.exposed(chosen) / cost.users)


class _Fitting:
    """Which of some sizes users see when only a few of them are listed.

    Those that are `combined` of what different users have are listed only where k users see them.
    """

    def __init__(
        self,
        listed: NDArray[np.float64],
        combined: NDArray[np.bool_],
        numbers: NDArray[np.float64],
        counts: NDArray[np.int64],
        cost: _Cost,
    ) -> None:
        whole = np.where((numbers > 0).all(axis=1), numbers.prod(axis=1), np.inf)
        shown = listed.prod(axis=1)[:, None] / whole
        fits = np.array([(size <= numbers).all(axis=1) for size in listed])
        # Half of the memory, and no promise rests on a design.
        self._shown = np.where(fits, shown, 0.0).astype(np.float32)
        self._lacked = np.empty_like(self._shown)  # the one large array, made once
        self._combined, self._counts, self._cost = combined, counts, cost

    def improved(self, chosen: list[int], price: float, most: int) -> list[int]:
        """Add and drop sizes, always the one that pays most, as long as that pays."""
        while True:
            shown, size = self._seen(chosen)
            now = self._total(shown, size, price)
            changes = [
                (self._total(*self._with(shown, size, other), price), [*chosen, other])
                for other in (self._additions(shown) if len(chosen) < most else ())
            ]
            users_of_sizes = self._held(size)[1:]
            for dropped in sorted(chosen, key=lambda each: users_of_sizes[each])[:_REMOVALS]:
                rest = [each for each in chosen if each != dropped]
                changes.append((self._total(*self._seen(rest), price), rest))
            best = min(changes, key=lambda change: change[0], default=None)
            if best is None or best[0] > now - _LEAST_GAIN:
                return chosen
            chosen = best[1]

    def exposed(self, chosen: list[int]) -> float:
        """Return the expected exposed users."""
        return self._exposed(self._held(self._seen(chosen)[1]))

    def _seen(self, chosen: list[int]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return what share each user is shown, and which size; -1 where none fits."""
        if not chosen:
            return np.zeros(len(self._counts)), np.full(len(self._counts), -1)
        shown = self._shown[chosen]
        largest, best = shown.max(axis=0), np.array(chosen)[shown.argmax(axis=0)]
        return largest, np.where(largest > 0, best, -1)

    def _with(
        self, shown: NDArray[np.float64], size: NDArray[np.intp], other: int
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        more = self._shown[other] > shown
        return np.where(more, self._shown[other], shown), np.where(more, other, size)

    def _additions(self, shown: NDArray[np.float64]) -> list[int]:
        """Sizes that would show most of what is not shown yet."""
        np.subtract(self._shown, shown, out=self._lacked, casting="same_kind")
        np.maximum(self._lacked, 0, out=self._lacked)
        gains = self._lacked @ self._counts.astype(np.float32)
        gains[self._combined & ((self._lacked > 0) @ self._counts < self._cost.k)] = 0
        return [int(each) for each in np.argsort(-gains)[:_ADDITIONS] if gains[each] > 0]

    def _held(self, size: NDArray[np.intp]) -> NDArray[np.intp]:
        """Count the users whom no size fits, and then those who see each."""
        users_of_sizes = np.bincount(size + 1, self._counts, minlength=len(self._shown) + 1)
        return users_of_sizes.astype(np.intp)

    def _total(self, shown: NDArray[np.float64], size: NDArray[np.intp], price: float) -> float:
        users_of_sizes = self._held(size)
        rare = (users_of_sizes[1:] > 0) & (users_of_sizes[1:] < self._cost.k) & self._combined
        if rare.any():
            return math.inf
        return float((1 - shown) @ self._counts) + price * self._exposed(users_of_sizes)

    def _exposed(self, users_of_sizes: NDArray[np.intp]) -> float:
        return float(self._cost.exposed[users_of_sizes].sum())
