"""The policy: the numbers of one question about exposure."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple, Self

from fpmonitor.errors import InputError, PolicyError, UnknownNameError
from fpmonitor.results import Members

HIDE_BELOW, LEAST_HIDDEN = 10, 2  # users: what is hidden by default, and at least
HIDE_BELOW_VARIABLE = "FPMONITOR_HIDE_BELOW"  # of the environment: processes below hide the same
MAX_POPULATION = 10**10
MAX_BIAS = 100
MOST_DAYS = 36_500  # between two visits
DRAWS = 16  # of a visit of each user, whose scores are averaged
MIN_FAKES, MAX_FAKES = 1e-6, 0.5
EXACT_PART = 0.25  # of delta, for exact limits where values were declared; scores have the rest
UNIVERSE = 1000  # APIs that may ever be asked for, whatever a database holds
_LEAST_SHARE = 1e-300  # a part of a smaller one may be 0, which has no logarithm
_ROUNDED_SHARES = 1e-6
_ROUNDED = 1e-9  # relative: what tests reckon with is a little more than what is said

Factors = tuple[float, float]
AS_OBSERVED: Factors = (1.0, 1.0)
DOWN, UP = ROUND_FLOOR, ROUND_CEILING  # how a lower and an upper limit are rounded


def disclosed_from(k: int) -> int:
    """Users from whom on a group may be told of: k, and never more than the number to hide below.

    How few users are recognised in an answer does not depend on how large safe groups are to be: a
    tenth of a million is a fair demand on a tier, and no reason to hide one of 50,000. Where k is
    smaller, whoever asks has said that so few are no secret, and every answer about groups of fewer
    than k users tells of k. The number is one for the whole process, so that no answer forgets it:
    `--hide-below`, which sets `HIDE_BELOW_VARIABLE`; 10 by default.
    """
    return min(k, _hidden_below(os.environ.get(HIDE_BELOW_VARIABLE)))


@lru_cache(maxsize=4)
def _hidden_below(said: str | None) -> int:
    if said is None:
        return HIDE_BELOW
    if not (said.isascii() and said.isdigit() and LEAST_HIDDEN <= int(said) <= MAX_POPULATION):
        raise PolicyError(HIDE_BELOW_VARIABLE, f"must be at least {LEAST_HIDDEN} users")
    return int(said)


# The 28 digits of the default context would round a delta of 1e-30 away.
_EXACT = Context(prec=400)


def as_written(number: float) -> Decimal:
    """Return a number by its shortest decimals: a product of floats makes 7 % a little more."""
    return Decimal(repr(float(number)))


def rounded(
    number: Decimal, rounding: str, *, digits: int = 3, places: int | None = None
) -> Decimal:
    """Round a limit `DOWN` or `UP`: to the nearest, a sentence may promise more than holds.

    To so many significant digits, without zeros at the end, or to so many decimals.
    """
    if places is not None:
        return number.quantize(Decimal(1).scaleb(-places), rounding)
    return Context(prec=digits, rounding=rounding).plus(number).normalize()


def upward(number: float, digits: int) -> str:
    """Write a number that is not exceeded, such as an epsilon, to so many digits: rounded up."""
    # Of twelve digits: 0.1 and 0.2 are 0.3 together, and a little more as floats.
    exact = as_written(float(f"{number:.12g}"))
    return f"{float(rounded(exact, UP, digits=digits)):.{digits}g}"


def per_cent(share: float) -> str:
    """Write a share of a policy per cent, as it was given and without the sign."""
    # Rounded to six digits it would be another budget than the one that was tested.
    return f"{(100 * as_written(share)).normalize():f}"


def sureness(delta: float, *, times: int = 1) -> str:
    """Write `1 - delta` as it is; `times` is 100 for per cent."""
    # Six digits of 1 - 1e-8 are 1, and nothing here holds with probability 1.
    left = _EXACT.subtract(1, as_written(delta))
    return f"{_EXACT.multiply(times, left).normalize(_EXACT):f}"


def universe_of(apis: int) -> int:
    """APIs that may ever be asked for, where a collection records so many.

    The same number for all collections but the largest, so that it does not follow from data.
    """
    return max(UNIVERSE, int(10 ** math.ceil(math.log10(max(apis, 1)))))


def check_threshold(k: int, population: int) -> None:
    """Check anonymity threshold `k` against population `n`, both numbers of users.

    Raises:
        PolicyError: Not whole numbers, k < 2, n < k, or above what the numerics are tested for.
    """
    for argument, value in (("k", k), ("population", population)):
        # True would pass for k = 1, and a float for a number that arithmetic with n rounds.
        if isinstance(value, bool) or not isinstance(value, int):
            raise PolicyError(argument, f"must be a whole number, got {value!r}")
    if k < 2:
        raise PolicyError("k", f"must be at least 2, got {k}", hint="k = 2 asks for unique users")
    if population < k:
        raise PolicyError(
            "population",
            f"must be at least k = {k}, got {population}",
            hint="in a population smaller than k every user is exposed",
        )
    if population > MAX_POPULATION:
        raise PolicyError("population", f"must be at most {MAX_POPULATION}, got {population}")


def check_sample(users: int) -> None:
    """Check a number of observed users from whom a population is to be judged.

    Raises:
        PolicyError: Not a whole number of at least 2.
    """
    if isinstance(users, bool) or not isinstance(users, int):
        raise PolicyError("users", f"must be a whole number, got {users!r}")
    if users < 2:
        raise PolicyError("users", f"must be at least 2, got {users}")


def check_share(argument: str, value: float) -> None:
    """Check that a share lies strictly between 0 and 1.

    Raises:
        PolicyError: It does not; the error names `argument`.
    """
    if not (math.isfinite(value) and 0 < value < 1):
        raise PolicyError(argument, f"must lie strictly between 0 and 1, got {value}")
    if value < _LEAST_SHARE:
        raise PolicyError(argument, f"must be at least {_LEAST_SHARE:g}, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strata(Members):
    """Known shares of parts of the population.

    Raises:
        PolicyError: Fewer than two strata, a share that is none, shares that do not add up to 1 or
            limits within which none do, a stratum left out that has no share, or all of them.
    """

    RARE: ClassVar[str] = "left_out expected"

    # What tells the stratum of a user: an API as the log or the vocabulary calls it, or `browser
    # family`.
    by: str
    # Value -> share of the population, or lower and upper limit of it; `other` stands for all other
    # values, and for none.
    shares: Mapping[str, float | tuple[float, float]]
    # Strata of whom no user counts; all of theirs in the population are taken to be exposed.
    left_out: tuple[str, ...] = ()
    # So many users can nearly surely be drawn, by the sizes of the strata alone: tests are sharpest
    # there. None before a draw, and in files of before.
    expected: int | None = None

    def __post_init__(self) -> None:
        if len(self.shares) < 2:
            raise PolicyError("strata", "name at least two, each with its share")
        for name, (low, high) in self.limits.items():
            for share in (low, high):
                check_share(f"share of {name!r}", share)
            if low > high:
                raise PolicyError(f"share of {name!r}", f"{low} to {high} is empty")
        least, most = (math.fsum(side) for side in zip(*self.limits.values(), strict=True))
        # Shares are written rounded; limits need no room but for the rounding of their sum.
        rounded = _ROUNDED_SHARES if least == most else _ROUNDED / 2
        if least > 1 + rounded or most < 1 - rounded:
            total = f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}"
            raise PolicyError("strata", f"shares must add up to 1, got {total}")
        for name in self.left_out:
            if name not in self.shares:
                raise PolicyError("strata", f"{name!r} is left out, but has no share")
        # in any other order they would be another draw
        object.__setattr__(self, "shares", dict(sorted(self.shares.items())))
        object.__setattr__(self, "left_out", tuple(sorted(set(self.left_out))))
        if len(self.left_out) == len(self.shares):
            raise PolicyError("strata", "all are left out, and nobody is left to ask")

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """Value -> lower and upper limit of its share."""
        return {
            name: share if isinstance(share, tuple) else (share, share)
            for name, share in self.shares.items()
        }

    @property
    def exact(self) -> bool:
        """Whether all shares are numbers, and none limits."""
        return all(low == high for low, high in self.limits.values())

    def without(self, names: Iterable[str]) -> Self:
        """Return the same shares, with more strata left out."""
        return replace(self, left_out=(*self.left_out, *names))

    def drawn(self) -> dict[str, float]:
        """Value -> share of it among those who are drawn; these add up to 1.

        By the upper limits: then no share of the population is far above that among the drawn.
        """
        out = set(self.left_out)
        highs = {name: 0.0 if name in out else high for name, (_, high) in self._known()}
        total = math.fsum(highs.values())
        return {name: high / total for name, high in highs.items()}

    def departure(self) -> Departure:
        """How the population may differ from independent draws by the shares of `drawn`."""
        known, out = dict(self._known()), set(self.left_out)
        most = math.fsum(high for name, (_, high) in known.items() if name not in out)
        # A share p is drawn as high / most, and p by that lies between most * low / high and most.
        least = most * min(low / high for name, (low, high) in known.items() if name not in out)
        lows = math.fsum(low for name, (low, _) in known.items() if name not in out)
        # eta of docs/certificate/strata.md.
        unobserved = min(math.fsum(known[name][1] for name in out), 1 - lows) if out else 0.0
        # Draws by the shares themselves: exactly the population, though quotients may round.
        as_observed = self.exact and not out
        return Departure(AS_OBSERVED if as_observed else (least, most), unobserved)

    def _known(self) -> Iterator[tuple[str, tuple[float, float]]]:
        """Limits of each share, as narrow as the limits of the others make them."""
        lows, highs = (math.fsum(side) for side in zip(*self.limits.values(), strict=True))
        for name, (low, high) in self.limits.items():
            if lows == highs:
                # Exact shares that add up to 1 but for rounding.
                yield name, (low / lows, low / lows)
            else:
                # All others together have at least their lower limits and at most their upper.
                least = max(low, 1 - (highs - high))
                yield name, (least, max(least, min(high, 1 - (lows - low))))


class Departure(NamedTuple):
    """What tests reckon with, of how the population may differ from the observed users.

    Attributes:
        factors: The least and the largest factor from the share of a kind of user among the
            observed to that in the population, without those who were not observed.
        unobserved: Share of the population of whom nobody is observed.
        fakes: Share of the observed rows that are no users, at most.
    """

    factors: Factors = AS_OBSERVED
    unobserved: float = 0.0
    fakes: float = 0.0


NO_DEPARTURE = Departure()


# Whether users are looked at for the first time, or later; null where nothing keeps count, so that
# any look may be any.
Look = Literal["first", "later"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleModel(Members):
    """How the observed users may differ from independent draws from the population.

    Attributes:
        bias: Factor by which the share of any kind of user in the population may differ from that
            among those observed, in [1, 100]; within each stratum where there are some.
        strata: What shares of the population are known; null: none, and those observed count as
            they come.
        fake_share: Share of those observed that are no users but were added by somebody who may
            know all values, at most; 0 or in [0.000001, 0.5].
        cluster: Column that tells which of those observed came together, such as a household: one
            of each counts. Null: they came one by one.
        rows_are_users: Whether each row is taken for a user where the logs do not name the users.
        look: Which look at the users of a database it is, see `store.looks`; null where nothing
            keeps count, and in files of before.

    Raises:
        PolicyError: A number is out of its range, or strata or clusters go with added users.
    """

    RARE: ClassVar[str] = "strata fake_share cluster rows_are_users look"

    bias: float = 1.0
    strata: Strata | None = None
    fake_share: float = 0.0
    cluster: str | None = None
    rows_are_users: bool = False
    look: Look | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.bias <= MAX_BIAS:
            raise PolicyError(
                "bias",
                f"must lie between 1 and {MAX_BIAS}, got {self.bias}",
                hint="it is a factor: 1.25 if shares may be up to a quarter higher or a fifth "
                "lower than observed",
            )
        if self.fake_share and not MIN_FAKES <= self.fake_share <= MAX_FAKES:
            raise PolicyError(
                "fake_share",
                f"must be 0 or lie between {MIN_FAKES:f} and {MAX_FAKES}, got {self.fake_share}",
                hint="it is a share: 0.01 if one in a hundred may be no user",
            )
        if self.fake_share and self.strata is not None:
            raise PolicyError(
                "fake_share",
                "nothing is proved of strata: who adds users decides who is drawn",
                hint="omit --strata or --fake-share",
            )
        if self.fake_share and self.cluster is not None:
            raise PolicyError(
                "fake_share",
                "nothing is proved of clusters: who adds a row to one may take its user's place",
                hint="omit --cluster or --fake-share",
            )

    @property
    def options(self) -> tuple[str, ...]:
        """What is assumed, as the command line calls it."""
        assumed = {
            "bias": self.bias != 1,
            "strata": self.strata is not None,
            "fake-share": self.fake_share > 0,
            "cluster": self.cluster is not None,
            "rows-are-users": self.rows_are_users,
        }
        return tuple(name for name, given in assumed.items() if given)

    @property
    def is_plain(self) -> bool:
        """Whether all who are observed count, as they came."""
        return not {*self.options} - {"rows-are-users"}

    def check_plain_draws(self, what: str) -> None:
        """Check that those who count are independent draws from the population themselves.

        Raises:
            InputError: They are not: `what` has no limits for them.
        """
        # Draws by exact shares of all strata are draws from the population.
        exact = self.strata is None or self.strata.departure() == NO_DEPARTURE
        harmless = {"cluster", "rows-are-users", *["strata"] * exact}
        differs = [name for name in self.options if name not in harmless]
        if differs:
            named = ", ".join(f"--{name}" for name in differs)
            shares = " whose shares are not exact and of all" * ("strata" in differs)
            raise InputError(
                f"{what} has no limits with {named}{shares}",
                hint="`decide`, and `exposure` of sets by themselves, have them",
            )

    @property
    def looked_at_once(self) -> bool:
        """Whether what is said holds for one look only, and not for all while users come in."""
        return self.strata is not None or self.cluster is not None or self.fake_share > 0

    def expected(self, users: int) -> int | None:
        """Users for whom tests of so many are sharpest; None where they hold at every look."""
        if self.strata is not None:
            return self.strata.expected
        return None if self.cluster is None else users

    @property
    def departure(self) -> Departure:
        """What tests reckon with."""
        departure = NO_DEPARTURE if self.strata is None else self.strata.departure()
        # No rounding where nothing departs: factors are 1, and tests those of plain draws.
        if departure == NO_DEPARTURE and self.bias == 1:
            return departure._replace(fakes=self.fake_share)
        (least, most), unobserved, _ = departure
        factors = least / self.bias * (1 - _ROUNDED), most * self.bias * (1 + _ROUNDED)
        return Departure(factors, unobserved and unobserved + _ROUNDED, self.fake_share)


PLAIN_DRAWS = SampleModel()
_LEAST_LEVEL = 1e-200  # share that a choice of a menu has; no data decide below


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """How many users count where one of each cluster was drawn, or some by the shares of strata.

    Attributes:
        users, observed: Those who were drawn, and those of whom.
        cluster: What tells clusters; null without.
        binding: Stratum that had no user left: with more of them more could be drawn; null without
            strata.
        unobserved: Share of the population of whose strata nobody was drawn; null without strata.
    """

    users: int
    observed: int
    cluster: str | None
    binding: str | None
    unobserved: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortBudget(Members):
    """What no cohort may be above: users who share values that sites see in any case.

    Attributes:
        given: What tells cohorts, sorted, as the log calls it: APIs, `browser family`, `operating
            system`.
        budget: Largest tolerated share of a cohort's users, in (0, 1).
        least_share: Share of all users from which on a cohort must keep it, in (0, 1).
        worst_share: Whether any cohorts that together have that share must keep it together, and
            not each cohort that has it alone.
        menu: What may be chosen from after looking, sorted; empty where `given` was fixed.

    Raises:
        PolicyError: A share is out of its range, nothing tells cohorts, or what is not of the menu.
    """

    RARE: ClassVar[str] = "worst_share menu"

    given: tuple[str, ...]
    budget: float
    least_share: float
    worst_share: bool = False
    menu: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_share("budget_each", self.budget)
        check_share("least_share", self.least_share)
        if not self.given:
            raise PolicyError("given", "name what defines cohorts")
        object.__setattr__(self, "given", tuple(sorted(set(self.given))))
        object.__setattr__(self, "menu", tuple(sorted(set(self.menu))))
        if self.menu and (strange := sorted({*self.given} - {*self.menu})):
            raise PolicyError("given", f"{strange[0]} is not of the menu", hint="name it there")
        if self.level_share < _LEAST_LEVEL:
            raise PolicyError("given_menu", "no data decide with so large a menu")

    @property
    def level_share(self) -> float:
        """Share of the level that these have of all that may be chosen from the menu.

        All choices of g have `1/(g (g+1))` together: docs/certificate/people.md.
        """
        if not self.menu:
            return 1.0
        few = len(self.given)
        return 1 / (few * (few + 1) * math.comb(len(self.menu), few))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBudget:
    """How many users may be linked from one visit to another, by what a set shows of both.

    Attributes:
        budget: Largest tolerated share of those who come back, in (0, 1).
        after: Days between the visits, increasing: of sites that compare values, or any parts of
            them. None: of any site, whatever it knows, after any time.

    Raises:
        PolicyError: A share or a number of days is out of its range.
    """

    budget: float
    after: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_share("link_budget", self.budget)
        for days in self.after:
            if not 0 < days <= MOST_DAYS:
                raise PolicyError("after", f"must be days from 0 to {MOST_DAYS:,}, got {days!r}")
        object.__setattr__(self, "after", tuple(sorted({float(days) for days in self.after})))


# What counts as a user's value where a log has several visits: the last value of each API, also the
# whole tuple of one visit, that alone, all visits in their order, or each of the latter two.
Visits = Literal["last", "last+visit", "visit", "path", "both"]
# What must keep the budget by itself, and how often it is drawn of each user.
_UNITS: Mapping[Visits, Mapping[str, int]] = {
    "last": {"last": 1},
    "last+visit": {"last": 1, "visit": DRAWS},
    "visit": {"visit": DRAWS},
    "path": {"path": 1},
    "both": {"visit": DRAWS, "path": 1},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Members):
    """What must hold, for whom, and how sure one must be.

    Attributes:
        k: Anonymity threshold, users: a user is exposed in a group of fewer than `k`.
        population: `n`, users that sites will see.
        budget: `Q*`, the largest tolerated exposure, a share of the users in (0, 1).
        delta: The tolerated probability that the guarantee fails, in (0, 1); null when the observed
            users are the population, and nothing is estimated.
        candidates: The APIs that the decision ranges over, sorted, without repetition.
        realised: Whether the budget is for the users of one population, and not for the average
            over populations.
        sample: How the observed users may differ from the population.
        cohorts: What no cohort may be above; then sites see what tells cohorts with every set. Null
            where nothing is asked of cohorts.
        links: How many users may be linked; null where nothing is asked of it.
        visits: What counts as a value of a user: see `Visits`.

    Raises:
        PolicyError: A number is out of its range, there is no candidate or none beside what tells
            cohorts, or nothing is estimated that could differ.
    """

    RARE: ClassVar[str] = "sample cohorts links visits"

    k: int
    population: int
    budget: float
    delta: float | None
    candidates: tuple[str, ...]
    realised: bool = False
    sample: SampleModel = PLAIN_DRAWS
    cohorts: CohortBudget | None = None
    links: LinkBudget | None = None
    visits: Visits = "last"

    def __post_init__(self) -> None:
        check_threshold(self.k, self.population)
        check_share("budget", self.budget)
        if self.delta is not None:
            check_share("delta", self.delta)
        assumed = (*["realised"] * self.realised, *self.sample.options)
        if assumed and self.delta is None:
            raise PolicyError(
                assumed[0],
                "the observed users are counted themselves, and represent no others",
                hint=f"omit --{assumed[0]}, or --setting sample",
            )
        if not self.candidates:
            raise PolicyError("candidates", "name at least one API")
        # In one order: digests, draws and files follow from it.
        object.__setattr__(self, "candidates", tuple(sorted(set(self.candidates))))
        if self.cohorts is not None and (both := {*self.cohorts.given} & {*self.candidates}):
            raise PolicyError("given", f"{min(both)} is a candidate, too")

    @property
    def has_conditions(self) -> bool:
        """Whether sets must keep more than the budget of all users, at the levels of all names."""
        return self.cohorts is not None or self.links is not None

    @property
    def draws(self) -> int:
        """How often a visit of each user is drawn, as one of them must keep the budget; else 1."""
        return next(iter(self.units.values()))

    @property
    def by_visits(self) -> bool:
        """Whether users count by what their visits showed, and not only by their last values."""
        return self.visits != "last" or self.needs_whole_records

    @property
    def units(self) -> Mapping[str, int]:
        """All that must keep the budget by itself, of what `visits` may be -> draws of each user.

        The first one is what `population.beside` calls the users' values.
        """
        return _UNITS[self.visits]

    @property
    def needs_whole_records(self) -> bool:
        """Whether nothing is said of users who come back later, as they have other records then."""
        follows = self.links is not None and bool(self.links.after)
        return self.visits not in {"last", "last+visit"} or follows

    def check_candidates(self, apis: Iterable[str]) -> None:
        """Check that APIs are candidates of this policy.

        Raises:
            UnknownNameError: One is not; the message lists the nearest.
        """
        for api in sorted(set(apis) - set(self.candidates)):
            raise UnknownNameError("candidate", api, self.candidates)
