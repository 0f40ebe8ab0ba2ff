"""Proves one design of a decision file: its line, clock, table and levels."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from flint import arb, arb_poly, ctx

from fpmonitor.proof.exposing import Exposing
from fpmonitor.proof.numbers import (
    NEVER,
    PRECISION,
    REFUSED,
    Deviation,
    exact,
    ratio,
    require,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

BITS_A_NAT = 1.5
COARSE = 64  # bits, where all terms are positive
DESIGN_SIZES = 2
EXPECTED, OTHERWISE = 17 / 16, 17  # of users who are looked at once: the number expected, or else
FREE_FROM = 1.7  # times the mean: of fewer, blocking weights always fall with the group
KEPT = 0.9  # of the number expected, that its design keeps
# Of a value of which so small a share of the budget is exposed, no more users are kept than this.
LARGEST_COUNT, HARMLESS, SHARPEST = 5000, 1e-3, 0.01
USERS_PER_MEMBER = 1000  # more users for each one of the population add nothing
NEARLY = 1 + 1e-3  # how the decision found that share, in floating point
LOOKS = 2
BASES = 42
FINE_FROM, FINE_BASES = 73_895, 92  # from so many users on each base has a smaller share of delta
MOST_POINTS = 40_000
MOST_NUMBERS = 1_000_000
MOST_FACTOR = 10_000
WIDEST_TABLE = 6_000_000_000  # products
WIDEST_CLOCK = 10_000_000  # products
ROUNDING = 2.0**-53
TOGETHER = 128  # steps of a mean
SMALLEST, SMALLEST_SHARE = 1e-280, 1e-15  # of numbers that no product takes out of range
DEEPEST = 1_000.0  # nats: a score that no sum here is prepared for


class Point(NamedTuple):
    """What is known at one mean: the moment, the exposure, and the mean of the dents."""

    mean: arb
    moment: arb
    exposure: arb
    dents: arb


def _factors_of(content: Mapping[str, Any]) -> tuple[arb, arb]:
    """Least and largest factor from shares of the users to those of the population."""
    if "factors" in content:
        least, most = content["factors"]
        return exact(least), exact(most)
    bias = exact(content.get("bias", 1.0))  # as files of before say it
    return 1 / bias, bias


class Shared(NamedTuple):
    """What the designs of one side have in common, by mean and by cell; and the means in order."""

    exposures: dict[float, arb]
    bends: dict[tuple[float, float], arb]
    means: list[float]

    def near(self, low: float, high: float) -> float:
        """Return the largest mean that is known in the upper half of a cell, or its end."""
        place = bisect_right(self.means, high) - 1
        return self.means[place] if place >= 0 and self.means[place] > (low + high) / 2 else high


class DesignProof(Exposing):
    """One design of one side of a decision: `sign` -1 allows, +1 blocks."""

    FUNCTION: str | None = None  # what a file calls the exposure that its line is made for

    def __init__(self, content: dict[str, Any], shared: Shared | None = None) -> None:
        self.content = content
        self.sign = whole_number(content["sign"])
        self.k, self.population = whole_number(content["k"]), whole_number(content["population"])
        self.users, self.budget = whole_number(content["users"]), exact(content["budget"])
        self.top, self.mean = float(content["mean"]), exact(content["mean"])
        self.starts = [whole_number(start) for start in content["starts"]]
        self.weights = [exact(weight) for weight in content["phi"]]
        self.slope, self.intercept = exact(content["slope"]), exact(content["intercept"])
        self.shares = [exact(share) for share in content["clock"]["shares"]]
        self.mixture = [exact(weight) for weight in content["clock"]["weights"]]
        self.log_factor = exact(content["clock"]["log_factor"])
        self.table = [exact(weight) for weight in content["weights"]]
        self.scale, self.charge = exact(content["scale"]), exact(content["charge"])
        self.delta, self.bases = exact(content["delta"]), exact(content["bases"])
        self.universe = whole_number(content["universe"])
        self.least, self.most = _factors_of(content)
        fakes = content.get("fakes", {"rows": self.users, "most": 0})
        self.rows, self.fakes = whole_number(fakes["rows"]), whole_number(fakes["most"])
        self.kept = arb(1)  # of the users that the score is designed for, at least
        if "fakes" in content:
            self.kept = (self.rows - self.fakes) * self.shares[0] / self.mean
        self.share = exact(content.get("share", 1))  # of the sum over designs
        self.seen = exact(content.get("value_share", 1))  # chance of a value to be looked at
        self.end = self.starts[-1]
        self.capped = bool(content.get("capped", False))
        self._check_form()
        # Weights of the file add up to 1 but for rounding; the theorem needs exactly 1.
        whole = sum(self.mixture, arb(0))
        self.mixture = [weight / whole for weight in self.mixture]
        self._tabulate()
        self.known: dict[float, Point] = {}
        self.shared = Shared({}, {}, []) if shared is None else shared
        self.peak = self._most_exposed() if self.least != self.most else arb(1)

    def _check_form(self) -> None:
        """Refuse numbers that no design has."""
        content = self.content
        require(holds=content.get("function") == self.FUNCTION, what="another question: function")
        require(holds=not self.capped or self.sign < 0, what="form")
        require(
            holds=self.sign in {-1, 1}
            and 2 <= self.k <= self.population
            and 0 < self.budget < 1
            and 0 < self.delta < 1
            and 0 < self.least <= self.most <= MOST_FACTOR
            and self.least * MOST_FACTOR >= 1
            and (self.bases > 1 or (self.bases == 1 and "value_share" in content))
            and 0 < self.seen <= 1
            and not ("fakes" in content and "value_share" in content)
            and 0 <= self.fakes < self.rows <= self.users
            and ("fakes" in content or self.rows == self.users)
            and self.top > 0
            and self.scale > 0
            and self.starts[0] == 1
            and all(a < b for a, b in pairwise(self.starts))
            and max(self.end, len(self.table)) <= MOST_NUMBERS
            and len(self.weights) == len(self.starts) - 1
            and len(self.shares) == len(self.mixture) > 0
            and all(0 < share < 1 for share in self.shares)
            and all(weight > 0 for weight in self.mixture)
            and len(self.table) > 1
            and self.table[-1] == 0,
            what="form",
        )

    def _tabulate(self) -> None:
        """Compute by count what the proofs sum over, as precisely as the deepest weight needs."""
        ends = zip(self.weights, self.starts[1:], strict=True)
        deepest = max(float(abs(weight * (stop - 1)).upper()) for weight, stop in ends)
        # The precision grows with it, and a hostile file may ask for any.
        require(holds=deepest <= DEEPEST, what="score: too large")
        self.precision = PRECISION + math.ceil(BITS_A_NAT * deepest)
        ctx.prec = self.precision
        self.phi = [arb(0)] * (self.end + 1)
        for weight, start, stop in zip(self.weights, self.starts, self.starts[1:], strict=False):
            for count in range(start, stop):
                self.phi[count] = self.sign * weight * count
        self.f = [value.exp() for value in self.phi] + [arb(1), arb(1)]
        self.excess = [value.expm1() for value in self.phi]
        self.largest = max(float(abs(value).upper()) for value in self.excess)
        # Within a bin f is geometric, hence convex: only steps of the weight bend the moment down.
        borders = {start + step for start in self.starts[1:] for step in (-2, -1)}
        self.dents = {
            count: dent
            for count in sorted(borders)
            if count >= 0 and not (dent := self._dent(count)) <= 0
        }
        inverse, moment, dents = arb(1), [], []
        for count in range(self.end):
            moment.append(self.excess[count] * inverse)
            dents.append(self.dents.get(count, arb(0)).max(arb(0)) * inverse)
            inverse /= count + 1
        self.excess_of, self.dents_of = arb_poly(moment), arb_poly(dents)

    def of_looks(self, sample: Mapping[str, Any], *, once: bool) -> None:
        """Prove that enough of delta is left to the other designs that might have come."""
        fewest: float = BASES if self.users < FINE_FROM else FINE_BASES
        drawn: int = (sample.get("strata") or {}).get("expected") or 0
        if "fakes" in self.content:
            fewest = DESIGN_SIZES
        elif "value_share" in self.content:
            fewest = 1  # one look at a known number of users
        elif once or sample.get("cluster") or drawn:
            expected = drawn if drawn and not once else self.users
            fewest = EXPECTED if self._is_mean_of(expected) else OTHERWISE * fewest
        elif sample.get("look") is not None:  # each half of delta has its looks
            require(holds=sample["look"] in {"first", "later"}, what="form")
            fewest = LOOKS if sample["look"] == "first" else LOOKS * fewest
        # More bases than there are is a smaller level, which proves more.
        require(holds=bool(self.bases >= fewest), what="form")

    def _is_mean_of(self, expected: int) -> bool:
        """Whether a base for so many users has this mean, all of them or as few as say the same."""
        if self.top == KEPT * expected:
            return True
        # Where k of n are many users, so many of a value that is hardly exposed are enough.
        exposed = self._exposed(LARGEST_COUNT / self.mean * self.least)
        harmless = exact(HARMLESS) * self.budget.min(exact(SHARPEST))
        # One mean: whoever could choose among several would have nearly all of delta for each.
        are_enough = bool(exposed * NEARLY >= harmless and exposed <= harmless * NEARLY)
        return self.top < KEPT * expected and (
            are_enough or self.top == USERS_PER_MEMBER * self.population
        )

    def of_weights(self) -> None:
        """Prove what the side says of its weights: larger groups never weigh more, or they may."""
        falls = all(a >= b for a, b in pairwise([*self.table[1:], exact(0)]))
        claims_monotone = self.content["monotone"]
        denied = (
            falls
            and not claims_monotone
            and (self.sign < 0 or self.population <= FREE_FROM * self.mean)
        )
        require(
            holds=isinstance(claims_monotone, bool) and claims_monotone <= falls and not denied,
            what="monotone",
        )

    def _dent(self, count: int) -> arb:
        return 2 * self.f[count + 1] - self.f[count] - self.f[count + 2]

    # --- line ---

    def line(self) -> None:
        """Prove the line on cells that are halved until the lemma applies to each."""
        require(holds=bool(self.sign * self.slope >= 0), what="sign of the slope")
        ctx.prec = self.precision
        smallest = 1e-3 * min(1.0, self.top / self.population)
        # The first cell covers all smaller means, down to 0, so it may be as small as it has to be.
        while not self._first_cell(exact(smallest)):
            smallest /= 8
            require(holds=smallest > 1e-80, what="line near 0")
        low, step = self._point(smallest), 0.5
        here = smallest
        while here < self.top:
            # By a share, or by a part of the standard deviation: a half in the root of the mean.
            end = min(max(here * (1 + step), (math.sqrt(here) + step / 5) ** 2), self.top)
            ahead = [self.shared.near(here, end)]
            high = [self._point(ahead[-1])]
            while high:
                if self._cell(low, high[-1]):
                    low, here = high.pop(), ahead.pop()
                    continue
                step = max(step * 0.8, 1e-3)
                middle = (here + ahead[-1]) / 2 if here > 1 else math.sqrt(here * ahead[-1])
                require(holds=here < middle < ahead[-1], what=f"line at a mean of {here}")
                ahead.append(middle)
                high.append(self._point(middle))
            step = min(step * 1.2, 1.0)

    def _point(self, mean: float) -> Point:
        found = self.known.get(mean)
        if found is not None:
            return found
        require(holds=len(self.known) < MOST_POINTS, what="line: too many cells")
        ball = exact(mean)
        none = (-ball).exp()
        excess = self.seen * none * self.excess_of(ball)
        with ctx.workprec(COARSE):
            dents = self.seen * none * self.dents_of(ball)
        require(holds=bool(1 + excess > 0), what=f"moment at a mean of {mean}")
        point = Point(ball, 1 + excess, self._exposure_at(mean, ball), dents)
        self.known[mean] = point
        return point

    def _exposure_at(self, mean: float, ball: arb) -> arb:
        if mean not in self.shared.exposures:
            with ctx.workprec(PRECISION):
                self.shared.exposures[mean] = self._exposure(ball)
            insort(self.shared.means, mean)
        return self.shared.exposures[mean]

    def _exposure(self, mean: arb) -> arb:
        """Worst share that is exposed by the share of a value: its limit on the unsafe side."""
        p, least, most = mean / self.mean, self.least, self.most
        if least == most:
            return most * self._exposed(p * most)
        if self.sign > 0:
            return (least * self._exposed(p * least)).min(most * self._exposed(p * most))
        if self._slope(p * most) >= 0:
            return most * self._exposed(p * most)
        if self._slope(p * least) <= 0:
            return least * self._exposed(p * least)
        return self.peak / p

    def _cell(self, low: Point, high: Point) -> bool:
        """Whether both corrected corners of a cell are below the line."""
        with ctx.workprec(PRECISION):
            return self._is_below(low, high)

    def _is_below(self, low: Point, high: Point) -> bool:
        x, y = low.mean, high.mean
        width, ratio = y - x, (y / x).log()
        rise = width * width / 8 * low.dents.max(high.dents) * (y * ratio * ratio / 8).exp()
        left, right = low.moment + rise, high.moment + rise
        change, least = right - left, left.min(right)
        bend = change * change / (8 * least * least)
        # The slack is of the exposure alone, which all designs of a side have in common.
        key = float(x.mid()), float(y.mid())
        if key not in self.shared.bends:
            self.shared.bends[key] = self._slack(low, high)
        slack = self.sign * self.shared.bends[key]
        ends = ((left.log() + bend, x), (right.log() + bend, y))
        exposed = (x * low.exposure - slack, y * high.exposure - slack)
        # `mean p F(p)` counts as that of the budget at most; then it is below it in all of the cell
        most = self.mean * self.budget
        return any(
            all(
                bool(value <= (self.slope * t + self.intercept * mean) / self.mean)
                for (value, mean), t in zip(ends, parts, strict=True)
            )
            for parts in (exposed, *[(most, most)] * self.capped)
        )

    def _slack(self, low: Point, high: Point) -> arb:
        """How far `mean * F` may be beyond its chord on the side that matters."""
        box = high.mean * (low.exposure - high.exposure).max(arb(0))
        p, q = low.mean / self.mean, high.mean / self.mean
        bends = self._bend(p * self.most, q * self.most, box)
        if self.least != self.most:
            bends = bends.max(self._bend(p * self.least, q * self.least, box))
        return bends.min(box)

    def _bend(self, p: arb, q: arb, box: arb) -> arb:
        """How far `mean * F` may be beyond its chord between two shares, or `box`."""
        n, k = self.population, self.k
        pull = k - n * p if self.sign < 0 else n * q - k
        if pull <= 0:
            return arb(0)
        if not q < 1:
            return box
        mode = arb(k - 1) / (n - 1)
        at = p if mode <= p else q if mode >= q else mode
        edge = (1 / (p * (1 - p))).max(1 / (q * (1 - q)))
        curved = (k - 1) * self._on_the_border(at) * pull.max(arb(0)) * edge
        return self.mean * curved * (q - p) * (q - p) / 8

    def _first_cell(self, mean: arb) -> bool:
        """Whether the line holds for all means up to this one: `ln E f <= E f - 1`."""
        single = self.excess[1]
        total = single.max(single * (-mean).exp())
        factor, count = arb(1), 2
        while count < min(self.end, 40):
            factor *= mean / count
            total += factor * self.excess[count].max(arb(0))
            count += 1
        # What is left of the series, by a geometric one of ratio below a half.
        total += 2 * factor * mean / count * exact(self.largest)
        exposure = self.most if self.sign < 0 else self._exposure(mean)
        return bool(self.seen * total * self.mean <= self.slope * exposure + self.intercept)

    # --- clock ---

    def clock(self) -> None:
        """Prove the clock at every number that can be the worst one."""
        if "fakes" in self.content:
            self._one_thinning()
            return
        m = self.users
        peaks = [float((m - self.mean * (1 - f) / f).mid()) for f in self.shares]
        low = max(math.floor(min(peaks)) - 3, 0)
        high = min(math.ceil(max(peaks)) + 3, m)
        require(holds=(high - low) * len(peaks) <= WIDEST_CLOCK, what="clock: too wide")
        # beyond, every ratio of a binomial to the Poisson probability falls
        for remaining, outwards in ((low, -1), (high, 1)):
            for f in self.shares if 0 < remaining < m else ():
                step = (m - remaining) * f / ((1 - f) * self.mean)
                require(holds=bool(step > 1 if outwards < 0 else step < 1), what="clock: range")
        # From one r to the next the ratio changes by a factor, so logarithms are taken once.
        lead = arb(m + 1).lgamma() - arb(m - low + 1).lgamma() - low * self.mean.log() + self.mean
        terms = [
            weight * (lead + low * f.log() + (m - low) * (1 - f).log()).exp()
            for weight, f in zip(self.mixture, self.shares, strict=True)
        ]
        odds = [f / ((1 - f) * self.mean) for f in self.shares]
        most = (-self.log_factor).exp()
        for remaining in range(low, high + 1):
            require(holds=bool(sum(terms, arb(0)) <= most), what=f"clock at {remaining}")
            terms = [term * (m - remaining) * odd for term, odd in zip(terms, odds, strict=True)]

    def _one_thinning(self) -> None:
        """Prove the clock of one share for all numbers of users that there may be."""
        # The lemma of docs/certificate/fakes.md, at the fewest users there may be.
        [share] = self.shares
        left = (self.rows - self.fakes) * (1 - share)
        require(holds=bool(share * self.users <= self.mean) and bool(left >= 2), what="clock")
        most = (1 - share).rsqrt() * (arb(3) / (4 * left)).exp()
        require(holds=bool(most <= (-self.log_factor).exp()), what="clock")

    # --- table ---

    def tabulated(self) -> None:
        """Prove the weights of all counts, and what is charged for the rest."""
        counts = len(self.table) - 1
        # A hostile file may ask for years of work.
        work = counts * self.end * len(self.shares)
        require(holds=work <= WIDEST_TABLE, what="table: too wide")
        known = min(counts, self.users + 1)
        ctx.prec = self.precision
        tail = arb(0)
        for f in self.shares if counts <= self.users else ():
            # Chernoff: larger groups are thinned below the last weight so rarely.
            expected = counts * f
            require(holds=bool(expected > self.end), what="table: too short")
            gap = expected - self.end
            missed = (-gap * gap / (2 * expected)).exp()
            tail = tail.max(-(1 - missed).log() * self.users / counts)
        most = (self.charge - tail) / self.users  # that a weight may be on the unsafe side
        require(holds=bool(most >= 0), what="table: larger counts")
        for count in self._doubtful(known, float(most.lower())):
            score = self.scale * self.table[count] * count
            safe = self.sign * score - self._logarithm(count) <= most * count
            require(holds=bool(safe), what="table: a weight is on the unsafe side")

    def _doubtful(self, known: int, most: float) -> list[int]:
        """List counts below `known` of which double precision does not show that they are safe.

        Balls take ten times as long, for thousands of counts.
        """
        f = np.array([float(value) for value in self.f[: self.end + 1]])
        chances = [(float(share), float(1 - share)) for share in self.shares]
        in_range = f.min() > SMALLEST and f.max() < min(1, f.min()) / SMALLEST
        if not in_range or min(map(min, chances)) < SMALLEST_SHARE:
            return list(range(1, known))
        logarithms = np.log([_means_left(f, kept, lost, known) for kept, lost in chances])
        mean = np.array([float(weight) for weight in self.mixture]) @ logarithms
        largest = np.abs(logarithms).max(axis=0)
        at = np.arange(known)
        scores = self.sign * float(self.scale) * at * [float(one) for one in self.table[:known]]
        lossy = 12 * at + 16 + 2 * (len(chances) + 20) * largest
        lossy += 8 * np.abs(scores) + 8 * at * most
        # What doubles may lose counts against the file, so what is safe here is safe.
        are_safe = scores - mean + ROUNDING * lossy <= at * most
        return [count for count in range(1, known) if not are_safe[count]]

    def _logarithm(self, count: int) -> arb:
        """`ln E f(Bin(count, share))`, averaged over the shares of the clock."""
        total = arb(0)
        for share, weight in zip(self.shares, self.mixture, strict=True):
            odds, moment = share / (1 - share), arb(1)
            term = (1 - share) ** count
            for hit in range(min(count, self.end - 1) + 1):
                moment += term * self.excess[hit]
                term *= odds * (count - hit) / (hit + 1)
            total += weight * moment.log()
        return total

    # --- limits ---

    def price(self) -> arb:
        """Return what is taken from the score for a logarithm of an e-value at the budget."""
        bound = self.slope * self.budget + self.intercept
        # The formulas of docs/certificate/fakes.md; without added rows `kept` is 1.
        rest = bound if self.sign < 0 else self.intercept
        bound += (1 - self.kept) * (-rest).max(arb(0))
        scores = [count * weight for count, weight in enumerate(self.table)]
        step = max((self.sign * (b - a) for a, b in pairwise(scores)), key=float)
        moved = self.fakes * self.scale * step.max(arb(0))
        return bound + self.charge - self.log_factor + moved

    def limits(self, chains: Sequence[int] | None) -> None:
        """Prove what every size of set, or every rank of level vectors, is tested by."""
        nats = self.content.get("nats")
        limits = self.content["limits"] if nats is None else nats
        require(holds=1 < len(limits) <= self.universe + 1, what="limits: number")
        if self.sign < 0:  # what an allowed set stands for is allowed with it
            falling = limits if nats is None else [-each for each in nats]
            for name, numbers in (("weights", self.content["weights"]), ("limits", falling)):
                holds = all(a >= b for a, b in pairwise(numbers))
                require(holds=holds, what=f"{name}: must not increase")
            require(holds=self.content["weights"][-1] >= 0, what="weights: negative")
        price = self.price()
        for size, limit in enumerate(limits[1:], 1):
            threshold = (arb(self.bases) * self._numbers(size, chains) / self.delta).log()
            if nats is not None:
                require(holds=bool(threshold <= exact(limit)), what=f"limit of {size} APIs")
                continue
            reached = self.scale * exact(limit)
            safe = (
                reached <= -(threshold + price) if self.sign < 0 else reached >= threshold + price
            )
            # a limit that no score can meet decides nothing
            idle = limit < 0 if self.sign < 0 else limit >= self.rows
            require(holds=bool(safe) or idle, what=f"limit of {size} APIs")

    def _numbers(self, size: int, chains: Sequence[int] | None) -> arb:
        """Count them so that half of delta is for all names, half for those of the first log."""
        noted = self.content.get("first_names")
        if noted is None or chains is not None:
            return arb(self._sets(size, self.universe, chains))
        shares, first = [Fraction(1, self._sets(size, self.universe, None))], whole_number(noted)
        if size <= first:
            shares.append(Fraction(1, self._sets(size, min(first, self.universe), None)))
        return ratio(2 / sum(shares, Fraction(0)))

    def _sets(self, size: int, universe: int, chains: Sequence[int] | None) -> int:
        """Count the sets that share delta, as those of a size count them."""
        if chains is not None:
            vectors = _vectors_of_ranks(chains)
            return max(vectors[: size + 1]) if self.sign < 0 else sum(vectors)
        if self.sign < 0:
            return math.comb(universe, min(size, universe // 2))
        few = min(3, universe)
        if size <= few:
            return 2 * sum(math.comb(universe, each) for each in range(1, few + 1))
        # Half of delta is for sets of up to three; of the rest a size has 1/((s-3)(s-2)).
        return 2 * (size - few) * (size - few + 1) * math.comb(universe, size)

    @property
    def idle(self) -> bool:
        """Whether nothing is decided by this side."""
        if "nats" in self.content:
            return all(nats >= NEVER for nats in self.content["nats"][1:])
        limits = self.content["limits"][1:]
        return all(limit < 0 if self.sign < 0 else limit >= self.rows for limit in limits)

    def of_policy(self, policy: Mapping[str, Any]) -> None:
        """Prove that factors and budget cover what a policy says of the sample."""
        said = Deviation.of(policy.get("sample", {}))
        factors = self.least <= ratio(said.least) and self.most >= ratio(said.most)
        require(holds=bool(factors), what="another question: factors")
        self._of_rows(said.fakes)
        budget, unobserved = exact(policy["budget"]), ratio(said.unobserved)
        if self.sign < 0:  # the average behind a realised share is proved by itself
            reached = policy.get("realised") or self.budget <= budget - unobserved
        else:
            p = arb(self.k) / self.population
            # L of docs/certificate/strata.md: whom nobody observed may be whom others hide among.
            fall = (self.k - 1) * self._on_the_border(p) - self._exposed(p)
            hidden = unobserved + self.most * (1 - self.kept)
            reached = self.budget >= budget + fall * hidden
        require(holds=bool(reached) or self.idle, what="another question: budget")

    def _of_rows(self, share: Fraction) -> None:
        """Prove that rows which are no users have at most two scores to choose from."""
        enough = self.fakes >= math.floor(share * self.rows)
        require(holds=enough and bool(share) == ("fakes" in self.content), what="fakes")
        if not share:
            return
        # The list of docs/certificate/fakes.md, and that the size is its first one from m on.
        step = -(-exact(float(share))).log1p() * (1 + arb(10) ** -9)
        number = math.ceil(float(arb(self.rows).log() / step))
        last, first = (step * number).exp(), (step * (number - 1)).exp()
        designed = first < self.rows and self.rows <= last and last.ceil() == self.users
        require(holds=bool(designed), what="fakes: another design")

    def check(self, chains: Sequence[int] | None) -> None:
        """Prove it all; `chains` as of `check_proof`."""
        self.limits(chains)
        self.clock()
        self.tabulated()
        self.line()


class LinkedProof(DesignProof):
    """One design for the share of users who can be linked: `F_1(p) = (1 - (1-p)^n) / (n p)`.

    `p F_1` is concave, so it is above its chords alone, by at most `(q-p)^2/8 (n-1) (1-p)^(n-2)`.
    """

    FUNCTION = "linked"

    def _exposed(self, p: arb) -> arb:
        # `not <`: also where the ball of p holds 1, at which the logarithm has no number.
        if not p < 1:
            return arb(1) / self.population
        return -((-p).log1p() * self.population).expm1() / (self.population * p)

    def _bend(self, p: arb, q: arb, box: arb) -> arb:
        if self.sign > 0:
            return arb(0)
        steepest = (self.population - 1) * (1 - p) ** (self.population - 2)
        return (self.mean * steepest * (q - p) * (q - p) / 8).min(box)


def check_proof(
    content: dict[str, Any],
    question: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    *,
    once: bool = False,
    chains: Sequence[int] | None = None,
    kind: type[DesignProof] = DesignProof,
) -> str:
    """Prove one side of a decision; return what is not proved, or the empty string.

    Args:
        content: The side, as a parser of JSON returns it.
        question: Members that it must have: those of the question that it should be of.
        policy: What its budget, and what it says of the sample must be enough for.
        once: Whether users were looked at once.
        chains: Of level vectors: how many levels each component has above its lowest.
        kind: Of which exposure its lines are.
    """
    with ctx.workprec(PRECISION):
        try:
            shared = Shared({}, {}, [])
            for design in designs_of(content):
                # Where rows may be no users a design is for more; of each, as they have their own.
                said = design | {"users": design.get("fakes", {"rows": design["users"]})["rows"]}
                for name, value in (question or {}).items():
                    require(holds=said.get(name) == value, what=f"another question: {name}")
                proof = kind(design, shared)
                proof.of_looks((policy or {}).get("sample", {}), once=once)
                if policy is not None:
                    proof.of_policy(policy)
                proof.check(chains)
                proof.of_weights()
        except REFUSED as error:
            return str(error) or type(error).__name__
    return ""


_OF_ALL = ("sign", "monotone", "k", "population", "budget", "users")
_OF_SIDE = ("delta", "bases", "universe", "nats", "first_names", "function")


def designs_of(content: dict[str, Any]) -> list[dict[str, Any]]:
    """List the designs of a side, each with what is told of all; a file of before has one."""
    if "designs" not in content:
        return [content]
    common = {name: content.get(name) for name in _OF_SIDE}
    designs = [{**design, **common} for design in content["designs"]]
    require(holds=bool(designs), what="form")
    for design in designs:
        alike = all(design[name] == content[name] for name in _OF_ALL)
        # Points of lines are shared among designs, which holds for one mean and one function alone.
        alike = alike and all(
            design.get(name) == designs[0].get(name) for name in ("mean", "factors", "value_share")
        )
        require(holds=alike and design["share"] > 0, what="form")
    total = sum((exact(design["share"]) for design in designs), arb(0))
    require(holds=bool(total <= 1), what="weights of the designs")
    return designs


def _means_left(
    f: NDArray[np.float64], share: float, lost: float, known: int
) -> NDArray[np.float64]:
    """`E f(Bin(c, share))` for c below `known`; f is 1 from its end on.

    It is what is left of f after c steps, each of which takes the mean of neighbours by the share.
    So many steps together are sums of products with their chances. All is positive: a chance loses
    four roundings a step at most, and a sum one for each of its terms. A chance too small for a
    double is lost, too: times the largest f that is 1e-40 of the least.
    """
    block = min(TOGETHER, known)
    chances = np.zeros((block + 1, block + 1))
    chances[0, 0] = 1.0
    for steps in range(block):
        chances[steps + 1] = lost * chances[steps]
        chances[steps + 1, 1:] += share * chances[steps, :-1]
    left, found = f, []
    for done in range(0, known, block):
        left = np.append(left[: known - done + 1], np.ones(block))  # what is cut off is not needed
        found.append(chances[:-1] @ left[: block + 1])
        left = np.convolve(left, chances[-1, ::-1], "valid")
    return np.concatenate(found)[:known]


def _vectors_of_ranks(chains: Sequence[int]) -> list[int]:
    """Count level vectors by the sum of their levels: each chain multiplies by 1 + z + z^2 + ..."""
    numbers = [1]
    for length in chains:
        longer = [0] * (len(numbers) + length)
        for rank, number in enumerate(numbers):
            for level in range(length + 1):
                longer[rank + level] += number
        numbers = longer
    return numbers
