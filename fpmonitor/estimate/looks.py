"""What is certified at any look, whichever APIs are chosen after looking.

A sequence of bases, fixed before the first user, serves growing numbers of users; each has its
share of delta, and holds at every number of users that it serves. So a statement made here stays
valid when it is asked for again and again while users come in, until it pleases. The levels of the
sets count all sets of all APIs that may ever be asked for; which candidates are named changes
neither weights nor limits. Theorems and proofs: docs/certificate.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from fpmonitor.errors import PolicyError
from fpmonitor.estimate.averaging import Fakes
from fpmonitor.estimate.criterion import Criterion, Refutation, Score
from fpmonitor.estimate.linking import function_of
from fpmonitor.estimate.margins import Cells
from fpmonitor.estimate.mixture import design_menu, design_others
from fpmonitor.estimate.poisson import ExposureFunction, poisson_laws, useful_mean
from fpmonitor.policy import NO_DEPARTURE, UNIVERSE, check_sample, check_share, check_threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.estimate.averaging import Base
    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.estimate.mixture import Menu, Mixture
    from fpmonitor.policy import Departure, Look, SampleModel

DESIGN_SIZES = 2  # that those who add rows can choose from, see `design_size`
EXPECTED, OTHERWISE = 17 / 16, 17  # of one look: delta by the share of the number expected, or else
LOOKS = 2  # halves of delta: for the first look, and for all later ones
BASES = 42  # equal shares of delta, of which each of the first bases has one
LARGEST_BLOCKED = 3  # APIs of the sets that are found above the budget by themselves
_SIDES: tuple[Sign, Sign] = (-1, 1)  # allowing, blocking
_FIRST_MEAN, _RATIO, _COARSE = 20.0, 1.5, 20
_FINE_RATIO, _FINE = 1.2, 48  # from there to half a billion users; the last one serves all others
# 20 / 42 + 48 / 92 < 1: docs/certificate/every-look.md.
_FINE_BASES = math.ceil(BASES * _FINE / (BASES - _COARSE))  # they share what is left
_LARGEST_SHARE = 0.9  # of the users, that a base keeps when its turn begins
_LARGEST_OF_ONE_LOOK = 0.95
_LARGEST_OF_FIRST_LOOK = 0.97
_LARGEST_OF_VALUES = 0.98  # what the choice of values leaves uncertain, users do not make worse
_KEPT_BESIDE_FAKES = 0.75  # fewer would add a little for a share above 0.02, more below
_FEWEST_BESIDE_FAKES = 20
_DESIGN_SIZE = 3  # APIs of the sets that are decided sharpest
_FREE_FROM = 1.7  # times the mean of a base: free weights block larger populations far better
SHARPEST = 0.01  # budget from which on the largest counts that matter are those of this one
_LEAST_SHARPNESS = 0.01  # of the budget; what certifies less is of no use
_NATS_ROUNDING = 1e-12  # relative
_NEVER = 1e300  # nats that nothing reaches, in files
_MOST = 0.99  # of the users: nothing is found above it
_LARGEST_COUNT = 5000  # of a value at the threshold among the users of a base


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Criteria:
    """Tests of API sets on spectra of all observed users.

    With probability at least `1 - delta`, no set that `allow` holds for is above the budget, at any
    look and for any choice among the universe. With probability at least `1 - delta`, no set is
    within the budget that holds a set for which `block` does not hold or which `refute` refutes.

    Attributes:
        allow: A set is certified within the budget when its score is at most the limit of its size.
        block: A set of few APIs is certified above the budget when its score exceeds the limit; it
            always holds where the score of `refute` is not monotone.
        refute: The same for sets of any size, one by one, by weights that need not be monotone.
        allowing, blocking: The scores of which the tests are made; None for users too few for any
            base.
        bases: Number of equal shares of delta, of which these scores have one.
        deltas, universe, first: Tolerated probabilities of error, of allowing and of blocking, and
            the number of APIs that may be asked for (of levels the largest rank), and of the names
            of the first log: as of `decision_criteria` and `Drawing`.
        log_terms: Evidence that sets of each size need to be allowed, and to be blocked, nats;
            infinite where none is enough.
    """

    allow: Criterion
    block: Criterion
    refute: Refutation
    allowing: Mixture | None
    blocking: Mixture | None
    bases: float
    deltas: tuple[float, float]
    universe: int
    first: int | None
    log_terms: tuple[NDArray[np.float64], NDArray[np.float64]]

    def proofs(self, candidates: int) -> dict[str, dict[str, Any]]:
        """Tell all from which a stranger can prove the tests again, for JSON.

        By `allow` and `block`; empty where nothing is certified. With the spectrum of a set they
        give its verdict: docs/certificate.md.

        Args:
            candidates: Number of APIs of the largest set whose limit is told.
        """
        tests = (
            ("allow", self.allowing, self.log_terms[0], self.deltas[0]),
            ("block", self.blocking, self.log_terms[1], self.deltas[1]),
        )
        return {
            name: {
                **mixture.to_json(),
                "delta": delta,
                "bases": self.bases,
                "universe": self.universe,
                **({} if self.first is None else {"first_names": self.first}),
                "nats": np.minimum(nats[: candidates + 1], _NEVER).tolist(),
            }
            for name, mixture, nats, delta in tests
            if mixture is not None and not mixture.is_empty
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How users were drawn and are looked at; by default all by one law, at every look.

    Attributes:
        departure: How the population may differ from the law of the observed users.
        first: How many names the first log had that was stored, where all candidates are among
            them, and 0 where one is not: half of delta is for sets of these. Null: all of it is for
            all names.
    """

    departure: Departure = NO_DEPARTURE
    expected: int | None = None
    value_share: float = 1.0
    look: Look | None = None
    first: int | None = None

    @classmethod
    def of(cls, sample: SampleModel, users: int, first: int | None = None) -> Self:
        """Return how so many users of a sample were drawn and are looked at."""
        return cls(
            departure=sample.departure,
            expected=sample.expected(users),
            look=sample.look,
            first=first,
        )

    def serving(self, users: int) -> tuple[Serving | None, int, Fakes | None]:
        """Return what serves so many users: see `serving_of`."""
        return serving_of(users, self.departure.fakes, self.expected, self.value_share, self.look)


PLAIN_DRAWING = Drawing()


def decision_criteria(
    *,
    users: int,
    k: int | None,
    population: int,
    budget: float | tuple[float, float],
    delta: float | tuple[float, float],
    universe: int | Sequence[int] = UNIVERSE,
    drawing: Drawing = PLAIN_DRAWING,
    whole_menu: bool = True,
) -> Criteria:
    """Criteria for all sets of the APIs that may ever be asked for, at every look.

    The empty set, which one value of all users describes, is always allowed.

    Args:
        users: `m`, observed users, at least 2.
        k, population: Anonymity threshold and `n`, users. Without a threshold the exposure is the
            share of the users whose visits can be linked: see `linking`.
        budget: `Q*`, the largest tolerated exposure, in (0, 1); of allowing and of blocking, where
            these differ. With one of 0 nothing is allowed.
        delta: Tolerated probability that any allowed set is above the budget, ever; and of the same
            size, that any blocked set is within it; in (0, 1). Each by itself, where they differ.
        universe: `D`, number of APIs that may be asked for, at least 1. For a question that was
            fixed before the data were seen, the number of its candidates. For level vectors in
            place of sets how many levels each component has above its lowest, all fixed before the
            data were seen: the size of a vector is then its rank, the sum of its levels.
        drawing: How the users were drawn, and at which looks the tests hold.
        whole_menu: Design all tests of the menu, or the first alone: a tenth of the time, for
            forecasts.
    """
    check_sample(users)
    check_threshold(2 if k is None else k, population)
    (within, above), deltas = _both(budget), _both(delta)
    check_share("budget", above)
    largest = _largest(deltas, universe)
    names = largest, drawing.first
    serving, size, fakes = drawing.serving(users)
    bases = BASES if serving is None else serving.bases
    allow, block = (math.log(bases) + terms_of(each, universe, drawing.first) for each in deltas)
    terms = allow[0], block[1]
    if serving is None:
        return _criteria((None, None), terms, bases, deltas, names)
    designed = _DESIGN_SIZE if isinstance(universe, int) else largest
    nats = float(terms[0][min(designed, largest)]), float(terms[1][1])
    # Who is not observed may all be exposed, or be whom others hide among.
    function = function_of(k, population, drawing.departure.factors)
    within -= drawing.departure.unobserved
    beyond = above + hidden_exposure(drawing.departure, function, size)
    least = _LEAST_SHARPNESS * above
    ends = max(within, least), min(beyond, _MOST)
    menus = (
        _menu(serving, function, most, sign=sign, log_term=term, whole=whole_menu)
        for most, sign, term in zip(ends, _SIDES, nats, strict=True)
    )
    tests = tuple(menu.averaged(users=size, fakes=fakes) for menu in menus)
    if within < least:
        terms = np.full(terms[0].size, math.inf), terms[1]
    if beyond >= _MOST:
        terms = terms[0], np.full(terms[1].size, math.inf)
    return _criteria(tests, terms, bases, deltas, names)


def _both(value: float | tuple[float, float]) -> tuple[float, float]:
    """Return what allowing and blocking have, each by itself or alike."""
    return value if isinstance(value, tuple) else (value, value)


def _largest(deltas: tuple[float, ...], universe: int | Sequence[int]) -> int:
    """Return the size of the largest sets, or the rank of the largest level vector, once checked.

    Raises:
        PolicyError: It is 0; or a delta is no share.
    """
    for share in deltas:
        check_share("delta", share)
    largest = universe if isinstance(universe, int) else sum(universe)
    if largest < 1:
        raise PolicyError("universe", f"must be at least one API, got {largest}")
    return largest


def _criteria(
    mixtures: tuple[Mixture | None, ...],
    terms: tuple[NDArray[np.float64], ...],
    bases: float,
    deltas: tuple[float, float],
    names: tuple[int, int | None],
) -> Criteria:
    """Make the tests of mixtures for the evidence that each size needs."""
    # The file tells these numbers, and whoever proves them again may round otherwise.
    allow_terms, block_terms = (nats * (1 + _NATS_ROUNDING) for nats in terms)
    tests = []
    for mixture, nats in zip(mixtures, (allow_terms, block_terms), strict=True):
        score = Score(np.ones((1, 2))) if mixture is None else Score.of(mixture)
        none = mixture is None or mixture.is_empty
        tests.append((score, np.full(nats.size, math.nan) if none else score.limits_of(nats)))
    (allows, most), (refutes, limits) = tests
    most = np.maximum(np.nan_to_num(most, nan=-1.0), -1.0)  # no score is negative
    most[0] = math.inf
    block, refute = blocking_tests(refutes, np.nan_to_num(limits, nan=math.inf, posinf=math.inf))
    return Criteria(
        allow=Criterion(allows, most),
        block=block,
        refute=refute,
        allowing=mixtures[0],
        blocking=mixtures[1],
        bases=bases,
        deltas=deltas,
        universe=names[0],
        first=names[1],
        log_terms=(allow_terms, block_terms),
    )


def blocking_tests(score: Score, limits: NDArray[np.float64]) -> tuple[Criterion, Refutation]:
    """Make `block` and `refute` of `Criteria` from the limits by size; that of 0 is never met."""
    limits = limits.copy()
    limits[0] = math.inf
    # The search needs one limit for all sizes it looks for; sets of up to three share their level.
    constant = np.full(limits.size, math.inf)
    if score.monotone:
        constant[1:] = limits[1]
    refute = Refutation(score, limits, monotone=score.monotone)
    plain = score if score.monotone else Score(np.ones((1, 2)))
    return Criterion(plain, constant, LARGEST_BLOCKED), refute


def terms_of(delta: float, universe: int | Sequence[int], first: int | None) -> NDArray[np.float64]:
    """`ln(1 / level)` of sets, or of level vectors: see `level_terms` and `vector_terms`."""
    if isinstance(universe, int):
        return np.array(level_terms(delta, universe, first))
    return np.array(vector_terms(delta, universe))


def level_terms(
    delta: float, universe: int, first: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`ln(1 / level)` of the sets of each size from 0, for allowing and for blocking.

    Those for blocking are alike for the sets of few APIs, which share half of delta. `first` as of
    `Drawing`.

    Notes:
        An allowed set above the budget has a subset that is minimal among the sets above the
        budget, and is allowed too. Those minimal sets form an antichain, so by the inequality of
        Lubell (1966), Yamamoto and Meshalkin their `1 / C(D, size)` add up to at most 1: it
        suffices to test a set at `delta / C(D, size)`. The limits must not increase with the size,
        so the largest binomial coefficient up to the size stands there. Blocking is a union over
        all sets: half of delta for those of few APIs, alike; the rest for larger ones. What holds a
        set above the budget is above it.
    """
    if first is not None:  # a half for all names, and one for those of the first log
        within, above = level_terms(delta / 2, universe)
        if first:
            own = level_terms(delta / 2, min(first, universe))
            end = own[0].size
            for terms, others in zip((within, above), own, strict=True):
                terms[:end] = -np.logaddexp(-terms[:end], -others)
            within[end:] = np.maximum(within[end:], within[end - 1])  # no set is so large
        return within, above
    # C(D, s) falls beyond D / 2, and limits must not increase: docs/certificate/any-choice.md.
    middle, few = universe // 2, min(LARGEST_BLOCKED, universe)
    sets = _log_numbers_of_sets(universe)
    allow = [sets[min(size, middle)] for size in range(universe + 1)]
    small = math.log(sum(math.comb(universe, size) for size in range(1, few + 1)))
    later = [
        # 1 / ((s - 3)(s - 2)) adds up to 1 over all larger sizes.
        math.log((size - few) * (size - few + 1)) + sets[size]
        for size in range(few + 1, universe + 1)
    ]
    whole = -math.log(delta)
    return whole + np.array(allow), whole + math.log(2) + np.array([small] * (few + 1) + later)


def vector_terms(
    delta: float, chains: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`ln(1 / level)` of the level vectors of each rank from 0, for allowing and for blocking.

    Blocking is a union over all vectors, alike.

    Notes:
        Level vectors are points of a product of chains, where the numbers of vectors of each rank
        stand in place of the binomial coefficients (normalised matching: Hsieh, Kleitman 1973).
    """
    numbers = vectors_of_ranks(chains)
    # The largest number up to the rank, so that limits do not increase: docs/certificate/levels.md.
    allow = [math.log(vectors) for vectors in accumulate(numbers, max)]
    block = [math.log(sum(numbers))] * len(numbers)
    return -math.log(delta) + np.array(allow), -math.log(delta) + np.array(block)


def vectors_of_ranks(chains: Sequence[int]) -> list[int]:
    """Count the level vectors of each rank: coefficients of the product of `1 + z + ... + z^L`."""
    numbers = [1]
    for length in chains:
        # Sums over a window of L + 1 coefficients, as differences of running sums.
        sums = [*accumulate(numbers + [0] * length)]
        numbers = [
            total - (sums[rank - length - 1] if rank > length else 0)
            for rank, total in enumerate(sums)
        ]
    return numbers


@lru_cache(maxsize=8)
def _log_numbers_of_sets(universe: int) -> list[float]:
    numbers = accumulate(
        # Whole numbers: C(1000, 500) is 1e299, and of more names no float holds it.
        range(universe),
        lambda sets, size: sets * (universe - size) // (size + 1),
        initial=1,
    )
    return [math.log(sets) for sets in numbers]


def design_size(rows: int, share: float) -> int:
    """Return the number of users that scores for so many rows are designed for.

    Of a fixed list, so that whoever adds up to that share of all rows has two of it to choose from.

    Args:
        rows: `m`, users and others.
        share: Of the rows that are no users, at most, in (0, 1).
    """
    step = -math.log1p(-share) * (1 + 1e-9)  # rounding must not let in a third
    return math.ceil(math.exp(step * math.ceil(math.log(rows) / step)))


def hidden_exposure(departure: Departure, function: ExposureFunction, size: int) -> float:
    """How far the exposure may be below that of the users that a score is designed for, a share.

    Who is not observed may be whom others hide among, and so may users that rows stand in for.
    """
    factors, unobserved, share = departure
    # 1 - theta: users are 1 - eps of the rows, and rows 1 - eps of the size, less its rounding up.
    missing = 1 - (1 - share) ** 2 * (1 - 2 / size) if share else 0.0
    return function.steepest_fall * (unobserved + factors[1] * missing)


class Serving(NamedTuple):
    """The base that serves a number of users.

    `mean` users of a thinning at most, the next base has `ratio` times as many, and one of `bases`
    equal shares of delta is its own. Of the rows at most the share `fakes` is no users; of the
    values the share `values` is looked at. Of the users it keeps the share `most` at first.
    """

    mean: float
    ratio: float
    bases: float
    fakes: float = 0.0
    values: float = 1.0
    most: float = _LARGEST_SHARE


def serving_of(
    users: int,
    share: float,
    expected: int | None = None,
    value_share: float = 1.0,
    look: Look | None = None,
) -> tuple[Serving | None, int, Fakes | None]:
    """Return what serves observed users: base, number that it is designed for, and the fakes.

    Args:
        users: All that are observed.
        share: Of them that are no users, at most.
        expected: Where they are looked at once, the number that is served best: nothing that it
            follows from tells values. None: every look.
        value_share: Share of the values that are looked at, in (0, 1], chosen by a secret hash; of
            those the users are all counted. Below 1 it is one look, at a number of users that is
            known.
        look: Half of delta is for the first look at the users of a database, by a base of its own,
            and half for all later ones; null: all of it for every look. Only where neither they are
            looked at once, nor some may be no users.

    Raises:
        PolicyError: A share out of its range, or of values of rows that may be no users.
    """
    if value_share != 1:
        check_share("value_share", value_share)
        if share:
            raise PolicyError("fake_share", "has no limits where only some values are looked at")
        # One look at a known number of users: no share of delta is for other looks.
        mean = _LARGEST_OF_VALUES * users
        few = mean < _FIRST_MEAN
        one = Serving(mean, 1.0, 1.0, values=value_share, most=_LARGEST_OF_VALUES)
        return None if few else one, users, None
    if not share:
        at = _of_looks(users, look) if expected is None else _of_one_look(users, expected)
        return at, users, None
    fakes, size = Fakes.of(users, share), design_size(users, share)
    # Fewer, and the lemma of docs/certificate/fakes.md does not hold for the thinning.
    few = users - fakes.most < _FEWEST_BESIDE_FAKES
    return (
        None
        if few
        else Serving(_KEPT_BESIDE_FAKES * size, 1.0, DESIGN_SIZES, share, most=_KEPT_BESIDE_FAKES),
        size,
        fakes,
    )


def _of_looks(users: int, look: Look | None) -> Serving | None:
    """Return the base of the first look, of a later one, or of every look.

    The number of users at the first look does not follow from what they returned, so one test of
    it is enough, and it keeps nearly all users (docs/certificate/first-look.md).
    """
    if look == "first":
        mean = _LARGEST_OF_FIRST_LOOK * users
        few = mean < _FIRST_MEAN
        return None if few else Serving(mean, 1.0, LOOKS, most=_LARGEST_OF_FIRST_LOOK)
    base = base_of(users)
    if base is None or look is None:
        return base
    # The first look has the other half, whether its answer was seen or not.
    return base._replace(bases=LOOKS * base.bases)


def _of_one_look(users: int, expected: int) -> Serving | None:
    """Return the base of the number that was expected; with fewer, one of those of every look."""
    mean = _LARGEST_SHARE * expected
    # Else fewer were drawn than expected, and a thinning must keep fewer than there are.
    if mean >= _FIRST_MEAN and mean <= _LARGEST_OF_ONE_LOOK * users:
        return Serving(mean, 1.0, EXPECTED)
    base = base_of(users)
    return None if base is None else base._replace(bases=OTHERWISE * base.bases)


def base_of(users: int) -> Serving | None:
    """Return the base that serves a number of users; None for too few."""
    # Base and level follow from the number of users alone, or each look could choose its own.
    first, ratio, bases = _FIRST_MEAN, _RATIO, BASES
    most = _LARGEST_SHARE * users
    if most >= first * ratio**_COARSE:
        first, ratio, bases = first * ratio**_COARSE, _FINE_RATIO, _FINE_BASES
    elif most < first:
        return None
    position = math.floor(math.log(most / first) / math.log(ratio))
    # Beyond half a billion users the last base serves, at one mean: still valid, less sharp.
    return Serving(first * ratio ** min(position, _FINE - 1), ratio, bases)


def base_cells(serving: Serving, function: ExposureFunction, budget: float) -> tuple[Cells, float]:
    """Return the counts that a base sees, and the share of the users that it keeps.

    The share is that in the middle of its use. Both follow from the question alone.
    """
    cells = design_cells(serving.mean, function, budget, serving.values)
    # Geometric mean of the share kept at first, and of that when the next base takes over.
    middle = serving.most / math.sqrt(serving.ratio)
    return cells, middle * cells.laws.mean / serving.mean


# All scores of a question see the same, and those of its limits others: 45 ms and 1.6 MB each, a
# second and 18 MB where k is a tenth of a million.
@lru_cache(maxsize=4)
def design_cells(
    full: float, function: ExposureFunction, budget: float, value_share: float = 1.0
) -> Cells:
    """Return the counts that a design of `full` users sees, or of as few as say the same."""
    mean = useful_mean(full, function, budget, _LARGEST_COUNT)
    return Cells.of(poisson_laws(mean, function, budget, value_share))


@lru_cache(maxsize=64)
def _menu(
    serving: Serving,
    function: ExposureFunction,
    budget: float,
    *,
    sign: Sign,
    log_term: float,
    whole: bool,
) -> Menu:
    """Design the tests of a base; they follow from the question alone."""
    cells, asked = _designed_for(serving, function, budget, sign)
    others = _others(serving, function, budget, sign=sign) if whole else ()
    return design_menu(cells, log_term=log_term, others=others, **asked)


# Apart from the menu: nine tenths of its time, and questions at other levels have the same.
@lru_cache(maxsize=64)
def _others(
    serving: Serving, function: ExposureFunction, budget: float, *, sign: Sign
) -> tuple[Base, ...]:
    cells, asked = _designed_for(serving, function, budget, sign)
    return design_others(cells, **asked)


def _designed_for(
    serving: Serving, function: ExposureFunction, budget: float, sign: Sign
) -> tuple[Cells, dict[str, Any]]:
    """Return what all designs of a side have in common."""
    cells, share = base_cells(serving, function, min(budget, SHARPEST))
    return cells, {
        "sign": sign,
        "budget": budget,
        "share": share,
        "monotone": sign < 0 or function.population <= _FREE_FROM * cells.laws.mean,
        "fakes": serving.fakes if sign < 0 else 0.0,
    }
