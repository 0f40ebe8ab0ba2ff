"""What marginals alone can promise about the exposure of an API set.

The curator knows the distribution of each API, perhaps of each pair, but not the joint
distribution. Every bound here holds for all joint distributions with those marginals.

Source: Bravo-Hermsdorff, Busa-Fekete, Gunderson, Munoz Medina, Syed (2022), "Statistical
anonymity: Quantifying reidentification risks without reidentifying users", sections 6 and 8.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import scipy

from fpmonitor.errors import InputError
from fpmonitor.estimate.allocation import Pieces, least_sum
from fpmonitor.estimate.exposure import most_exposed
from fpmonitor.policy import check_share, check_threshold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum

_Known = TypeVar("_Known")

_MULTIPLIERS = 24
# Covers the rounding of a product of thresholds: the bound is for a slightly larger threshold.
_ROUNDING = 1 + 1e-12
# Of a product of thresholds: what it lacks for the asked one, or exceeds 1 by.
_FACTOR = Pieces(highest=np.zeros(1), offset=np.zeros(1), weight=np.ones(1))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalDistribution:
    """Distribution of the values of one API or one pair of APIs."""

    # float64, shape (s,), increasing: the distinct probabilities, positive, summing to 1 with their
    # multiplicities.
    probabilities: NDArray[np.float64]
    values: NDArray[np.int64]  # int64, same shape: how many values have each probability.

    @classmethod
    def from_spectrum(cls, spectrum: CountSpectrum) -> MarginalDistribution:
        """Distribution of a user picked from the observed ones."""
        return cls(probabilities=spectrum.counts / spectrum.users, values=spectrum.values)

    @property
    def support(self) -> int:
        """Number of values."""
        return int(self.values.sum())

    def pieces(self, *, weight: float = 0.0) -> Pieces:
        """`Q(t) + weight t`, with `Q` the share of users on values of probability below `t`.

        Thresholds above all probabilities, where everybody is exposed, are left out.
        """
        mass = np.append(0.0, np.cumsum(self.probabilities * self.values)[:-1])
        return Pieces(
            highest=np.minimum(np.log(self.probabilities), 0),
            offset=mass,
            weight=np.full(mass.size, weight),
        )

    def sharpened_pieces(self) -> Pieces:
        """`sum_v min(p_v, t (1 - p_v) / (1 - t))`."""
        # A probability may be rounded above 1, and its odds are huge.
        complements = np.maximum(1 - self.probabilities, 0) * self.values
        frequent = np.cumsum(complements[::-1])[::-1].astype(np.float64)
        return replace(self.pieces(), weight=frequent, growth="odds")

    def tails(self, *, tied: bool = False) -> SizedTails:
        """Probability outside of the `r` most frequent values, for every `r` from 1.

        With `tied`, only for the `r` that keep all or none of the values of equal probability.
        """
        times = np.ones_like(self.values) if tied else self.values[::-1]
        group_sizes = self.values[::-1] if tied else np.ones(self.support, dtype=np.int64)
        shares = np.repeat(self.probabilities[::-1], times) * group_sizes
        return SizedTails(
            sizes=np.cumsum(group_sizes).astype(np.float64),
            tails=np.append(np.cumsum(shares[::-1])[::-1][1:], 0.0),
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SizedTails:
    """Sets of values on offer: how many each keeps, and how much it may leave out."""

    sizes: NDArray[np.float64]  # float64, shape (s,), increasing, at least 1: values kept.
    # float64, same shape: upper limits of the probability outside of the kept values.
    tails: NDArray[np.float64]

    def cheapest(self, costs: NDArray[np.float64]) -> int:
        """Position that minimises the tail plus a cost of each size."""
        return int(np.argmin(self.tails + costs))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionBound:
    """Upper bound on the exposure of an API set, and where it comes from."""

    upper: float  # Share of the users; 1 says nothing.
    rule: str  # `theorem 2`, `theorem 3`, `sharpened theorem 2`, `top-r` or `join size`.
    # The free parameters at their best: `t` thresholds per API, `c` the extra factor, `r` values
    # kept per marginal, `cover` the weights of the marginals.
    parameters: Mapping[str, tuple[float, ...]]


def best_composition(
    marginals: Sequence[MarginalDistribution],
    *,
    threshold: float,
    pairs: Mapping[tuple[int, int], MarginalDistribution] | None = None,
) -> CompositionBound:
    """Smallest of the bounds of `composition_bounds`; same arguments."""
    bounds = composition_bounds(marginals, threshold=threshold, pairs=pairs)
    return min(bounds, key=lambda bound: bound.upper)


def composition_bounds(
    marginals: Sequence[MarginalDistribution],
    *,
    threshold: float,
    pairs: Mapping[tuple[int, int], MarginalDistribution] | None = None,
) -> tuple[CompositionBound, ...]:
    """Bounds of the joint exposure `Q_J(T)` by every rule, marginals known exactly.

    The fixed setting: a distribution, or the database itself with `observed_threshold`.

    Args:
        marginals: Distribution of each API, at least one.
        threshold: `T`, in (0, 1).
        pairs: Distributions of pairs of APIs `(i, j)`, positions in `marginals`, for the join-size
            rule.
    """
    bounds = [
        theorem2_composition(marginals, threshold=threshold),
        theorem3_composition(marginals, threshold=threshold),
        sharpened_composition(marginals, threshold=threshold),
        top_r_composition(marginals, threshold=threshold),
    ]
    if pairs:
        known = _with_pairs(marginals, pairs)
        tails = {apis: law.tails() for apis, law in known.items()}
        # Exposed joint values have less than T each: T takes the place of the largest p F(p).
        bounds.append(join_size(tails, threshold))
    return tuple(bounds)


def observed_threshold(k: int, users: int) -> float:
    """`T` for the share of `users` observed users that are in groups of fewer than `k >= 2`.

    Notes:
        A group of fewer than `k` has at most `k - 1` users: the share is `Q_J(T)` for every `T`
        above `(k - 1) / m` up to `k / m`. The bounds grow with `T`, so that the smallest is the
        best.
    """
    return (k - 1) / users * (1 + 1e-9)


def theorem2_composition(
    marginals: Sequence[MarginalDistribution], *, threshold: float
) -> CompositionBound:
    """Bound the joint exposure by thresholds whose product is `threshold`.

    Arguments as in `composition_bounds`.

    Notes:
        "Statistical anonymity", Theorem 2: `Q_J(prod t_j) <= sum_j Q_j(t_j) + sum t_j |V_j|`, the
        last sum over all APIs but one. Minimised over the thresholds and the API left out.
    """
    slack = [law.pieces(weight=law.support) for law in marginals]
    return _best_pivot(marginals, slack, threshold, "theorem 2")


def sharpened_composition(
    marginals: Sequence[MarginalDistribution], *, threshold: float
) -> CompositionBound:
    """Bound the joint exposure as Theorem 2 does, before its proof rounds up.

    Arguments as in `composition_bounds`.

    Notes:
        "Statistical anonymity", the middle step of the proof of Theorem 2 (Lemma 11, where `< q` in
        print must be `<= q`): `Q_j(t_j) + t_j |V_j|` becomes `sum_v min(p_v, t (1 - p_v) / (1 -
        t))`. Never above Theorem 2.
    """
    slack = [law.sharpened_pieces() for law in marginals]
    return _best_pivot(marginals, slack, threshold, "sharpened theorem 2")


def theorem3_composition(
    marginals: Sequence[MarginalDistribution], *, threshold: float
) -> CompositionBound:
    """Bound the joint exposure by thresholds and a factor `c` whose product is `threshold`.

    Arguments as in `composition_bounds`.

    Notes:
        "Statistical anonymity", Theorem 3: `Q_J(c prod t_j) <= sum_j Q_j(t_j) + c`. Theorem 4 shows
        that the slack is needed; its printed construction only reaches equality without slack.
    """
    _check_composition(marginals, threshold)
    total = math.log(threshold * _ROUNDING)
    best = least_sum([*(law.pieces() for law in marginals), _FACTOR], total)
    *t, c = map(math.exp, best.arguments)
    return CompositionBound(
        upper=best.value, rule="theorem 3", parameters={"t": tuple(t), "c": (c,)}
    )


def top_r_composition(
    marginals: Sequence[MarginalDistribution], *, threshold: float
) -> CompositionBound:
    """Bound the joint exposure by keeping the most frequent values of each API.

    Arguments as in `composition_bounds`.

    Notes:
        Sharpens Theorem 3 of "Statistical anonymity" and is never above it or Theorem 2 at their
        best: users outside of the kept `r_j` values count as exposed, and of the at most `prod r_j`
        joint values that remain each exposed one carries less than `T`: `Q_J(T) <= sum_j
        tail_j(r_j) + T prod r_j`. Among values of equal probability that is linear in each `r_j`,
        hence least where all of them or none are kept.
    """
    _check_composition(marginals, threshold)
    return best_sizes([law.tails(tied=True) for law in marginals], threshold)


def best_sizes(offers: Sequence[SizedTails], cell: float) -> CompositionBound:
    """Least sum of tails plus `cell` times the number of joint values that remain: top-r.

    Args:
        offers: Sets of values on offer for each API.
        cell: What one joint value adds to the exposure at most, a share above 0.
    """
    pieces = [
        Pieces(
            highest=-np.log(offer.sizes[::-1]),
            offset=offer.tails[::-1],
            weight=np.zeros(offer.sizes.size),
        )
        for offer in offers
    ]
    best = least_sum([*pieces, _FACTOR], math.log(cell))
    # The last argument is of `_FACTOR`, the joint values beyond those that fit.
    sizes = tuple(float(round(math.exp(-u))) for u in best.arguments[:-1])
    return CompositionBound(upper=best.value, rule="top-r", parameters={"r": sizes})


def composition_from_sample(
    spectra: Sequence[CountSpectrum],
    *,
    k: int,
    population: int,
    delta: float,
    rng: np.random.Generator,
    pairs: Mapping[tuple[int, int], CountSpectrum] | None = None,
) -> CompositionBound:
    """Upper limit of the statistical exposure `Q(n, k)` of a set from samples of its marginals.

    The statistical setting: holds with probability at least `1 - delta` over the samples, for any
    joint distribution and any population size.

    Args:
        spectra: Spectrum of each API, from at least 2 users each.
        delta: Tolerated probability that the limit fails, in (0, 1); shared evenly by the
            marginals.
        rng: Splits each sample in two: one half ranks the values, the other bounds the tails.
            Derive its seed from the data, so that nobody can draw until the answer pleases.
        pairs: Spectra of pairs of APIs, positions in `spectra`, for the join-size rule.

    Notes:
        The rule is top-r (join size with pairs), in the form
        `Q(n, k) <= sum_j P(value not kept) + max p F(p) * kept joint values`: each joint value adds
        `p F(p)` at most. It is never above Theorems 2 and 3.
    """
    check_threshold(k, population)
    check_share("delta", delta)
    _check_composition(spectra, 0.5)
    known = _with_pairs(spectra, pairs or {})
    tails = {
        apis: sampled_tails(spectrum, delta=delta / len(known), rng=rng)
        for apis, spectrum in known.items()
    }
    cell = most_exposed(k, population)
    return join_size(tails, cell) if pairs else best_sizes([*tails.values()], cell)


def sampled_tails(
    spectrum: CountSpectrum, *, delta: float, rng: np.random.Generator, least: int = 1
) -> SizedTails:
    """Upper limits of the probability outside of `r` values, for a grid of `r` together.

    Args:
        spectrum: Spectrum of a sample of at least 2 users.
        delta: Tolerated probability that any limit fails, in (0, 1).
        least: Users of the ranking half that a value must have to be kept: what happened to values
            of fewer users makes no difference then.

    Raises:
        InputError: The spectrum is of a single user.

    Notes:
        Clopper and Pearson (1934), "The use of confidence or fiducial limits illustrated in the
        case of the binomial", on users that had no part in the ranking, with a union bound over the
        grid. Tossing a coin for every user of the spectrum has the distribution of tossing it for
        the users.
    """
    if spectrum.users < 2:
        raise InputError("spectrum: one user says nothing about a population")
    # In random order, or the held out half would have a say in the rank of equals.
    counts = rng.permutation(np.repeat(spectrum.counts, spectrum.values))
    return ranked_tails(counts, delta=delta, rng=rng, least=least)[1]


def ranked_tails(
    counts: NDArray[np.int64], *, delta: float, rng: np.random.Generator, least: int = 1
) -> tuple[NDArray[np.intp], SizedTails]:
    """Rank values by one half of a sample, and bound what each number of them leaves out.

    Args:
        counts: int64, shape (s,): users of each value, in an order that has nothing to do with
            them.

    Returns:
        Positions of the values from the most frequent on, and the tails outside of the first ones.
    """
    check_share("delta", delta)
    # One half ranks, the other bounds: the one that ranks would miss what it left out by luck.
    ranking = rng.binomial(counts, 0.5)
    order = np.argsort(-ranking, kind="stable")
    held_out = (counts - ranking)[order]
    seen = int(np.count_nonzero(ranking >= least))
    if not seen:
        return order, SizedTails(sizes=np.ones(1), tails=np.ones(1))
    # Few sizes, as they share delta: the best one is chosen after looking.
    sizes = np.unique(np.geomspace(1, seen, 4 * seen.bit_length()).round())
    users = int(held_out.sum())
    outside = users - np.cumsum(held_out)[sizes.astype(np.int64) - 1]
    tails = np.ones(sizes.shape)
    some = outside < users
    tails[some] = scipy.special.betaincinv(
        outside[some] + 1, users - outside[some], 1 - delta / sizes.size
    )
    return order, SizedTails(sizes=sizes, tails=tails)


def _check_composition(marginals: Sequence[object], threshold: float) -> None:
    check_share("threshold", threshold)
    if not marginals:
        raise InputError("marginals: name at least one API")


def _with_pairs(
    singles: Sequence[_Known], pairs: Mapping[tuple[int, int], _Known]
) -> dict[tuple[int, ...], _Known]:
    """Marginals by the APIs that each of them is about."""
    if any(not 0 <= api < len(singles) for pair in pairs for api in pair):
        raise InputError(f"pairs: positions must be below {len(singles)}")
    known: dict[tuple[int, ...], _Known] = {(api,): single for api, single in enumerate(singles)}
    return known | dict(pairs)


def _best_pivot(
    marginals: Sequence[MarginalDistribution],
    slack: Sequence[Pieces],
    threshold: float,
    rule: str,
) -> CompositionBound:
    """Best bound over the API that is spared the slack."""
    _check_composition(marginals, threshold)
    total = math.log(threshold * _ROUNDING)
    best = min(
        least_sum([*slack[:pivot], law.pieces(), *slack[pivot + 1 :]], total)
        for pivot, law in enumerate(marginals)
    )
    factors = tuple(map(math.exp, best.arguments))
    return CompositionBound(upper=best.value, rule=rule, parameters={"t": factors})


def join_size(known: Mapping[tuple[int, ...], SizedTails], cell: float) -> CompositionBound:
    """Sum of tails plus `cell` times the number of joint values that remain, for good sizes.

    Args:
        known: Tails by the APIs that each is about, numbered from 0; every API stands in one of
            them.
        cell: What one joint value adds to the exposure at most, a share.

    Notes:
        Joint values whose projections lie in sets of `r_e` values number at most `prod r_e^x_e` for
        any weights `x` that cover every API at least once (Atserias, Grohe, Marx 2008, "Size bounds
        and query plans for relational joins"). Marginals of weight 0 are not used.
    """
    apis, offers = list(known), list(known.values())
    candidates = []
    # Each cover and choice of sizes gives a bound that holds; several prices only find a good one.
    for multiplier in np.geomspace(cell, 1, _MULTIPLIERS):
        chosen = [offer.cheapest(multiplier * np.log(offer.sizes)) for offer in offers]
        costs = [
            float(offer.tails[at] + multiplier * np.log(offer.sizes[at]))
            for offer, at in zip(offers, chosen, strict=True)
        ]
        cover = _fractional_cover(apis, costs)
        candidates.append((*_descend(offers, cover, cell, chosen), tuple(cover)))
    upper, sizes, weights = min(candidates)
    return CompositionBound(
        upper=min(upper, 1.0), rule="join size", parameters={"r": sizes, "cover": weights}
    )


def _fractional_cover(apis: Sequence[tuple[int, ...]], costs: Sequence[float]) -> list[float]:
    """Weights of least cost that cover every API with a total of at least 1."""
    covers = np.zeros((1 + max(max(part) for part in apis), len(apis)))
    for column, part in enumerate(apis):
        covers[list(part), column] = 1
    solution = scipy.optimize.linprog(
        costs, A_ub=-covers, b_ub=-np.ones(len(covers)), method="highs"
    )
    if not solution.success:
        raise ArithmeticError(f"fractional cover: {solution.message}")
    weights = np.where(solution.x > 1e-9, solution.x, 0)
    # The solver covers up to its tolerance only.
    return [float(weight) for weight in weights / min(float((covers @ weights).min()), 1.0)]


def _descend(
    offers: Sequence[SizedTails], cover: Sequence[float], cell: float, chosen: Sequence[int]
) -> tuple[float, tuple[float, ...]]:
    """Improve one size at a time until none improves; give the bound and the sizes."""
    position = list(chosen)
    bound = math.inf
    while True:
        for i, offer in enumerate(offers):
            if cover[i]:
                others = _joint_values(offers, cover, position, skip=i)
                position[i] = offer.cheapest(cell * others * offer.sizes ** cover[i])
        outside = math.fsum(
            float(offer.tails[at])
            for offer, weight, at in zip(offers, cover, position, strict=True)
            if weight
        )
        improved = outside + cell * _joint_values(offers, cover, position)
        if not improved < bound:
            return improved, tuple(
                float(offer.sizes[at]) for offer, at in zip(offers, position, strict=True)
            )
        bound = improved


def _joint_values(
    offers: Sequence[SizedTails],
    cover: Sequence[float],
    position: Sequence[int],
    skip: int | None = None,
) -> float:
    """Largest possible number of joint values of the kept ones, at most about 10^260."""
    logarithm = math.fsum(
        weight * math.log(offer.sizes[at])
        for i, (offer, weight, at) in enumerate(zip(offers, cover, position, strict=True))
        if i != skip
    )
    return math.exp(min(logarithm, 600))
