"""What the counts of one value may do, for every probability the value may have.

After thinning, the count of a value with probability `p` is Poisson with mean `lambda = mu p`. The
certificate needs the moment `E exp(t C h(C))` of its score for every `p` in (0, 1], next to the
exposure probability `F(p)`. This module tabulates what both need on a grid of `p`; `margins` proves
what lies between the grid points.

Where only some values are looked at, each with the same probability and independently of the users,
the count that is seen of a value is 0 or `C`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from fpmonitor.estimate.exposure import Sign, biased_exposure, steepest_fall
from fpmonitor.estimate.saddle_point import log_binomial, log_poisson
from fpmonitor.policy import AS_OBSERVED, Factors

USERS_PER_MEMBER = 1000  # more sampled users per user of the population add nothing
_DANGEROUS = 1 - 1e-4  # exposure probabilities above this count as 1 in the choice of weights,
_HARMLESS = 1e-3  # below this share of the budget as 0
_FREE_BINS = 80
_FLAT_BIN_RATIO, _FINE_BIN_RATIO = 1.1, 1.03  # the chord of `exp` over a wide bin costs nats
_FEWEST_NATS, _MOST_NATS = 18.0, 250.0  # 6 and 22 standard deviations
_COARSE_STEP = 0.03  # of ln p
_ROOT_STEP = 0.017  # of sqrt(lambda), whose standard deviation is 0.5
_MAX_ROOT_POINTS = 1800
_EXPOSURE_POINTS = 721
_SMALLEST_STEP = 1e-9  # of ln p; closer grid points would make differences meaningless
_TAIL_SDS = 6.0
# Far from underflow. Where it was 1e-9, weights of a score that is worth more than 20 nats a value
# did not converge.
SMALLEST_MOMENT = 1e-250


@dataclass(frozen=True, slots=True)
class ExposureFunction:
    """Probability of a user to be exposed, by the share of the user's value in the sample."""

    # k, population: Anonymity threshold and `n`, users.
    k: int
    population: int
    # Least and largest factor by which a share of the population may differ from that of the
    # sample.
    factors: Factors = AS_OBSERVED

    def at(self, p: NDArray[np.float64]) -> dict[Sign, NDArray[np.float64]]:
        """For each sign the `biased_exposure` at shares `p`."""
        worst, least = (
            biased_exposure(
                p, k=self.k, population=self.population, factors=self.factors, sign=sign
            )
            for sign in (-1, 1)
        )
        return {-1: worst, 1: least}

    def quantile(self, exposure: float) -> float:
        """Share in the population of a value whose users are exposed with this probability."""
        return float(scipy.special.betainccinv(self.k - 1, self.population - self.k + 1, exposure))

    def bend(
        self, low: NDArray[np.float64], high: NDArray[np.float64], sign: Sign
    ) -> NDArray[np.float64]:
        """How far `p F` may be beyond its chord between neighbouring shares; infinite: not known.

        `(p F)'' = (k - 1) b (n p - k) / (p (1 - p))`, `b` the probability of `k - 1` hits in
        `n - 1`.
        """
        n, k = self.population, self.k
        # p F is concave below k/n, where it may be above a chord, and convex beyond.
        pull = np.maximum(k - n * low if sign < 0 else n * high - k, 0)
        smooth = (pull > 0) & (high < 1)
        low, high = low[smooth], high[smooth]
        # Where b is largest, or the end of the cell that is nearest to it.
        at = np.clip((k - 1) / (n - 1), low, high)
        edge = np.maximum(1 / (low * (1 - low)), 1 / (high * (1 - high)))
        second = (k - 1) * np.exp(log_binomial(k - 1, n - 1, at)) * pull[smooth] * edge
        bend = np.where(pull > 0, np.inf, 0.0)
        bend[smooth] = (high - low) ** 2 / 8 * second * (1 + 1e-6)
        return bend

    @property
    def steepest_fall(self) -> float:
        """Most that the exposed users `p F(p)` fall by one more user with the value."""
        return steepest_fall(self.k, self.population)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PoissonLaws:
    """Distributions of the count that is seen of one value, for a grid of its probability.

    Counts are gathered in bins with one weight each. A bin of several counts is replaced by its two
    end points, with the same probability and the same mean: exact for the mean score, and an upper
    bound for the mean of a convex function of the count, such as `exp(t h c)`.
    """

    mean: float  # `mu`, mean number of kept users.
    function: ExposureFunction
    # float64, shape (P,), increasing from 0 to `mu`: means `lambda = mu p`, users.
    means: NDArray[np.float64]
    # For each sign, float64, shape (P,): `function.at(means / mu)`.
    exposure: dict[Sign, NDArray[np.float64]]
    atoms: NDArray[np.float64]  # float64, shape (A,): counts that carry the probability, users.
    # intp, shape (A,): index of the free weight that holds at each atom.
    weight_of_atom: NDArray[np.intp]
    # float64, shape (P, A): probability of each atom divided by `lambda`; the limit in row 0.
    rates: NDArray[np.float64]
    # int64, shape (W + 1,): free weight `j` holds for counts `starts[j] <= c < starts[j + 1]`; from
    # the last start on the weight is 0.
    starts: NDArray[np.int64]
    # Probability of a value to be looked at, in (0, 1]; all other values are seen by nobody.
    value_share: float = 1.0

    @property
    def unweighted(self) -> NDArray[np.float64]:
        """Probability of the counts without a weight, 0 and the large ones, shape (P,)."""
        large: NDArray[np.float64] = scipy.special.pdtrc(self.starts[-1] - 1, self.means)
        return 1 - self.value_share + self.value_share * (np.exp(-self.means) + large)


def poisson_laws(
    mean: float, function: ExposureFunction, budget: float, value_share: float = 1.0
) -> PoissonLaws:
    """Tabulate the distributions of the count that is seen of one value.

    Args:
        mean: `mu`, mean number of kept users, at most `useful_mean`.
        budget: `Q*`, a share; values with an exposure probability far below it get weight 0.
    """
    first, end = _decisive_counts(mean, function, budget)
    means = _grid_of_means(mean, function, first, end)
    ratio = _FINE_BIN_RATIO if sees_far(mean, function) else _FLAT_BIN_RATIO
    low = np.concatenate([_flat_bins(first, ratio), _free_bins(first, end)])
    high = np.append(low[1:], end) - 1
    at_low, at_high = _bin_rates(means, low, high)
    wide = high > low
    flat_bins = int((low < first).sum())
    # All flat bins have weight 0, of the surely exposed; each free bin has its own.
    weight = np.maximum(np.arange(low.size) - max(flat_bins - 1, 0), 0)
    return PoissonLaws(
        mean=mean,
        function=function,
        means=means,
        exposure=function.at(means / mean),
        atoms=np.concatenate([low, high[wide]]).astype(np.float64),
        weight_of_atom=np.concatenate([weight, weight[wide]]),
        rates=value_share * np.hstack([at_low, at_high[:, wide]]),
        starts=np.append(low[np.unique(weight, return_index=True)[1]], end),
        value_share=value_share,
    )


def log_moments(excess: NDArray[np.float64], moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """`ln E f(C)`, of any shape, from both `E f(C) - 1` and `E f(C)`: each has lost digits."""
    direct = np.log(np.maximum(moments, SMALLEST_MOMENT))
    # `np.where` computes both: the clip keeps log1p from -1 and its warnings.
    return np.where(excess > -0.5, np.log1p(np.maximum(excess, -0.5)), direct)


def small_group_laws(k: int, population: int) -> PoissonLaws:
    """Tabulate the number of the population's users with one value, where it is below k.

    All these counts share one weight. Parameters as of `poisson_laws`.
    """
    low = _free_bins(1, k)
    high = np.append(low[1:], k) - 1
    function = ExposureFunction(k, population)
    means = _grid_of_means(float(population), function, 1, k)
    at_low, at_high = _bin_rates(means, low, high)
    wide = high > low
    atoms = np.concatenate([low, high[wide]]).astype(np.float64)
    return PoissonLaws(
        mean=float(population),
        function=function,
        means=means,
        exposure=function.at(means / population),
        atoms=atoms,
        weight_of_atom=np.zeros(atoms.size, dtype=np.intp),
        rates=np.hstack([at_low, at_high[:, wide]]),
        starts=np.array([1, k]),
    )


def useful_mean(
    mean: float, function: ExposureFunction, budget: float, largest_count: float
) -> float:
    """Mean number of users worth keeping: `mean`, or less where more would not sharpen anything."""
    # By the least factor: such a share of the sample may be a smaller one of the population.
    harmless = min(function.quantile(_HARMLESS * budget) / function.factors[0], 1.0)
    return min(mean, float(USERS_PER_MEMBER) * function.population, largest_count / harmless)


def tail_nats(mean: float, function: ExposureFunction) -> float:
    """How unlikely counts must be for the weights to end before them, nats.

    No line that bounds a score is steeper than these nats times `n / k`, whatever the weights are:
    with `exp(-nats)` a value of probability k/n has such a count (docs/certificate/weights.md).
    Large groups are told apart by more: with 18 nats, four tiers of 3 to 60 % had an upper limit of
    0.35 where the truth was 0.03.
    """
    share = function.k / function.population
    return min(max(_FEWEST_NATS, 0.35 * mean * share * min(1.0, 20 * share)), _MOST_NATS)


def sees_far(mean: float, function: ExposureFunction) -> bool:
    """Whether k of n are so many users that the weights end later than elsewhere."""
    return tail_nats(mean, function) > _FEWEST_NATS


def _decisive_counts(mean: float, function: ExposureFunction, budget: float) -> tuple[int, int]:
    """First count that may come from a value that is not surely exposed, end of those that may."""
    least, most = function.factors
    deviations = math.sqrt(2 * tail_nats(mean, function))
    dangerous = mean * min(function.quantile(_DANGEROUS) / most, 1.0)
    harmless = mean * min(function.quantile(_HARMLESS * budget) / least, 1.0)
    first = math.floor(dangerous - deviations * math.sqrt(dangerous))
    end = math.ceil(harmless + deviations * math.sqrt(harmless)) + 4
    return max(first, 1), end


def _flat_bins(first: int, ratio: float) -> NDArray[np.int64]:
    """Start counts of the bins of 1 to `first - 1`, which share one weight."""
    starts = []
    count = 1
    while count < first:
        starts.append(count)
        # 1 times the ratio, rounded down, is 1 again.
        count = max(count + 1, int(count * ratio))
    return np.array(starts, dtype=np.int64)


def _free_bins(first: int, end: int) -> NDArray[np.int64]:
    """Start counts of the bins of `first` to `end - 1`, each with a weight of its own."""
    edges = np.geomspace(first, end, _FREE_BINS + 1)[:-1]
    singles = np.arange(first, min(end, first + _FREE_BINS))
    wide_enough = edges[np.append(np.diff(edges), np.inf) > 1].astype(np.int64)
    if not wide_enough.size:
        return singles.astype(np.int64)
    return np.unique(np.concatenate([singles[singles < wide_enough[0]], wide_enough]))


def _grid_of_means(
    mean: float, function: ExposureFunction, first: int, end: int
) -> NDArray[np.float64]:
    """Means of the table: fine where the score or the exposure changes."""
    smallest = 1e-5 * min(1.0, mean / function.population)
    coarse = np.geomspace(smallest, mean, math.ceil(math.log(mean / smallest) / _COARSE_STEP) + 2)
    low = math.sqrt(max(first - _TAIL_SDS * math.sqrt(first), 0.05))
    high = math.sqrt(end + _TAIL_SDS * math.sqrt(end))
    step = max(_ROOT_STEP, (high - low) / _MAX_ROOT_POINTS)
    counting = np.arange(low, high + step, step) ** 2
    # F falls from 1 to 0 between these shares: the rest of the grid need not follow it.
    steepest = mean * np.geomspace(
        function.quantile(1 - 1e-7), function.quantile(1e-7), _EXPOSURE_POINTS
    )
    # a biased exposure moves where a share is that far from these
    steep = [steepest / factor for factor in {*function.factors}]
    means = np.unique(np.concatenate([coarse, counting, *steep]))
    # The largest mean is that of p = 1, and must be a grid point itself.
    means = means[(means >= smallest) & (means < mean)]
    apart = np.diff(np.append(means, mean)) > _SMALLEST_STEP * means
    return np.concatenate([[0.0], means[apart], [mean]])


def _bin_rates(
    means: NDArray[np.float64], low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities, divided by the mean, that bins put on their end points; shape (P, bins) each.

    The bin keeps its probability and its mean count.
    """
    column = means[1:, np.newaxis]
    at_low = np.exp(log_poisson(low, column)) / column
    at_high = np.zeros_like(at_low)
    wide = high > low
    first, last = low[wide], high[wide]
    # Two ends, with the bin's probability and mean: two equations.
    probability = _poisson_between(first, last, column) / column
    members = _poisson_between(first - 1, last - 1, column)  # E C 1{C in bin} / lambda
    at_low[:, wide] = np.maximum(last * probability - members, 0) / (last - first)
    at_high[:, wide] = np.maximum(members - first * probability, 0) / (last - first)
    at_zero = (low == 1).astype(np.float64)
    return np.vstack([at_zero, at_low]), np.vstack([np.zeros(low.size), at_high])


def _poisson_between(
    first: NDArray[np.int64], last: NDArray[np.int64], means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`P(first <= Poisson(mean) <= last)`, from the nearer tail; `first` may be 0."""
    # The far tail is near 1 there, and differences of it lose all digits.
    below = first <= means
    near, far = np.zeros((2, *below.shape))
    for tail, end, beyond, where in (
        (scipy.special.pdtr, last, first - 1, below),
        (scipy.special.pdtrc, first - 1, last, ~below),
    ):
        tail(np.maximum(end, 0), means, out=near, where=where)
        tail(np.maximum(beyond, 0), means, out=far, where=where & (beyond >= 0))
    between: NDArray[np.float64] = np.maximum(near - far, 0)
    return between
