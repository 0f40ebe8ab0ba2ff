"""Proves a decision file again from the file alone: in ball arithmetic, without other code of ours.

A proof in a decision file holds designs, with weights `share` that add up to 1 at most. Each has a
score `S_i = sum_v c_v w_i(c_v)` of `m` users, and says: `exp(sign S_i - price_i)` is an e-value. So
is their weighted sum, which decides a set where it reaches what the level of its size asks for.
All that this rests on is proved here from the numbers in the file, each taken as the exact number
that it is; theorems and names are those of docs/certificate.md:

* line: `ln E exp(sign phi(C)) <= p (slope F(p) + intercept)` for `C ~ Poisson(mean p)`, all p <= 1,
  where `p F(p)` is the worst of all shares between two `factors` times p, at most the budget where
  the design is `capped`, and `C` is 0 but for a `value_share` of the values where only these are
  looked at;
* clock: `factor * sum_i w_i P(Bin(m, f_i) = r) <= P(Poisson(mean) = r)` for all r <= m;
* table: `scale w(c) c` is on the safe side of `sum_i w_i sign ln E exp(sign phi(Bin(c, f_i)))`;
* levels: `nats` of each size, from delta, the bases and the number of sets; in files of before the
  `limits` of the score of the one design, from the line at the budget, the factor and what is
  charged besides;
* average: where a realised share is promised, that most populations of the average keep it;
* question: the proof is of the question and the number of users that the file names.

Count spectra then give every verdict. A step that can neither be proved nor refuted with the work
that is allowed counts as not proved. What no file can show is that its numbers were fixed before
the users were seen: they follow from the question, and `decide` finds them again.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from flint import arb, arb_poly, ctx, fmpq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Answer = Literal["proved", "not proved", "cannot tell"]
Group = tuple[int, int, int]  # so many users (last) are in groups of so few to so many

PRECISION = 128  # bits, and as many more as moments near 0 lose
BITS_A_NAT = 1.5
COARSE = 64  # bits, where all terms are positive
NEVER = 1e300  # nats that nothing reaches
UNIVERSE = 1000  # APIs that may ever be asked for, at least, for any choice
DESIGN_SIZES = 2
EXPECTED, OTHERWISE = 17 / 16, 17  # of users who are looked at once: the number expected, or else
FREE_FROM = 1.7  # times the mean: of fewer, blocking weights always fall with the group
DRAWS = 16  # of one visit of each user
KEPT = 0.9  # of the number expected, that its design keeps
LOOKS = 2
BASES = 42
FINE_FROM, FINE_BASES = 73_895, 92  # from so many users on each base has a smaller share of delta
MOST_POINTS = 40_000
MOST_NUMBERS = 1_000_000
MOST_FACTOR = 10_000
WIDEST_TABLE = 6_000_000_000  # products
WIDEST_CLOCK = 10_000_000  # products
FAR = 90.0  # nats: what is left out of a sum is that much smaller than all of it
LEAST_TERM = 1e-12  # of a sum whose terms are all positive
DEEPEST = 1_000.0  # nats: a score that no sum here is prepared for
SEARCH_SHARE = 0.2  # of the level, for users who are searched where others confirm
WORD_BITS = 64
ROUNDED = 1e-12
ROUNDED_TEST = 1e-8  # of a sum of e-values in floating point, nats and relative
LISTED = 1023  # sets that are not allowed, up to which a search blocks all that it can


class NotProvedError(Exception):
    """A step of the proof is false, or could not be shown."""


_REFUSED = (NotProvedError, ArithmeticError, LookupError, TypeError, ValueError)


class Point(NamedTuple):
    """What is known at one mean: the moment, the exposure, and the mean of the dents."""

    mean: arb
    moment: arb
    exposure: arb
    dents: arb


class Finding(NamedTuple):
    """An answer about one claim of a decision file, on the set `apis` where it is on one."""

    claim: str
    apis: tuple[str, ...]
    answer: Answer
    reason: str = ""


def _exact(number: float) -> arb:
    """Ball of radius zero around a number of the file."""
    return arb(fmpq(*float(number).as_integer_ratio()))


def _ratio(number: Fraction) -> arb:
    """Ball around a rational number."""
    return arb(fmpq(number.numerator, number.denominator))


def _whole(number: object) -> int:
    _require(holds=type(number) is int, what="form")
    return int(str(number))


def _factors_of(content: Mapping[str, Any]) -> tuple[arb, arb]:
    """Least and largest factor from shares of the users to those of the population."""
    if "factors" in content:
        least, most = content["factors"]
        return _exact(least), _exact(most)
    bias = _exact(content.get("bias", 1.0))  # as files of before say it
    return 1 / bias, bias


class _Deviation(NamedTuple):
    """How a population may differ from the law of the users: factors, and the share of unobserved.

    Each number is what the policy says, exactly.
    """

    least: Fraction
    most: Fraction
    unobserved: Fraction
    fakes: Fraction

    @classmethod
    def of(cls, sample: Mapping[str, Any]) -> _Deviation:
        """Read the part of a policy that says it."""
        bias, strata = Fraction(sample.get("bias", 1)), sample.get("strata")
        fakes = Fraction(repr(sample.get("fake_share", 0)))
        _require(holds=not fakes or sample.get("cluster") is None, what="fakes among clusters")
        if strata is None:
            return cls(1 / bias, bias, Fraction(0), fakes)
        _require(holds=not fakes, what="fakes among strata")
        shares = {
            name: [Fraction(end) for end in (share if isinstance(share, list) else [share] * 2)]
            for name, share in strata["shares"].items()
        }
        lows, highs = (sum(side, Fraction(0)) for side in zip(*shares.values(), strict=True))
        if lows == highs:  # rounded shares
            shares = {name: [low / lows, low / lows] for name, (low, _) in shares.items()}
        else:
            for name, (low, high) in shares.items():
                least = max(low, 1 - (highs - high))
                shares[name] = [least, max(least, min(high, 1 - (lows - low)))]
        out = set(strata.get("left_out", ()))
        counted = [ends for name, ends in shares.items() if name not in out]
        most = sum((high for _, high in counted), Fraction(0))
        least = most * min(low / high for low, high in counted)
        unobserved = sum((high for name, (_, high) in shares.items() if name in out), Fraction(0))
        unobserved = min(unobserved, 1 - sum((low for low, _ in counted), Fraction(0)))
        if lows == highs and not out:
            least = most = Fraction(1)
        return cls(least / bias, most * bias, unobserved, fakes)


def _require(*, holds: bool, what: str) -> None:
    if not holds:
        raise NotProvedError(what)


class _Shared(NamedTuple):
    """What the designs of one side have in common, by mean and by cell; and the means in order."""

    exposures: dict[float, arb]
    bends: dict[tuple[float, float], arb]
    means: list[float]

    def near(self, low: float, high: float) -> float:
        """Return the largest mean that is known in the upper half of a cell, or its end."""
        place = bisect_right(self.means, high) - 1
        return self.means[place] if place >= 0 and self.means[place] > (low + high) / 2 else high


class _Proof:
    """One design of one side of a decision: `sign` -1 allows, +1 blocks."""

    def __init__(self, content: dict[str, Any], shared: _Shared | None = None) -> None:
        self.content = content
        self.sign = _whole(content["sign"])
        self.k, self.population = _whole(content["k"]), _whole(content["population"])
        self.users, self.budget = _whole(content["users"]), _exact(content["budget"])
        self.top, self.mean = float(content["mean"]), _exact(content["mean"])
        self.starts = [_whole(start) for start in content["starts"]]
        self.weights = [_exact(weight) for weight in content["phi"]]
        self.slope, self.intercept = _exact(content["slope"]), _exact(content["intercept"])
        self.shares = [_exact(share) for share in content["clock"]["shares"]]
        self.mixture = [_exact(weight) for weight in content["clock"]["weights"]]
        self.log_factor = _exact(content["clock"]["log_factor"])
        self.table = [_exact(weight) for weight in content["weights"]]
        self.scale, self.charge = _exact(content["scale"]), _exact(content["charge"])
        self.delta, self.bases = _exact(content["delta"]), _exact(content["bases"])
        self.universe = _whole(content["universe"])
        self.least, self.most = _factors_of(content)
        fakes = content.get("fakes", {"rows": self.users, "most": 0})
        self.rows, self.fakes = _whole(fakes["rows"]), _whole(fakes["most"])
        self.kept = arb(1)  # of the users that the score is designed for, at least
        if "fakes" in content:
            self.kept = (self.rows - self.fakes) * self.shares[0] / self.mean
        self.share = _exact(content.get("share", 1))  # of the sum over designs
        self.seen = _exact(content.get("value_share", 1))  # chance of a value to be looked at
        self.end = self.starts[-1]
        _require(
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
        whole = sum(self.mixture, arb(0))
        self.mixture = [weight / whole for weight in self.mixture]
        ends = zip(self.weights, self.starts[1:], strict=True)
        deepest = max(float(abs(weight * (stop - 1)).upper()) for weight, stop in ends)
        _require(holds=deepest <= DEEPEST, what="score: too large")
        self.precision = PRECISION + math.ceil(BITS_A_NAT * deepest)
        ctx.prec = self.precision
        self.phi = [arb(0)] * (self.end + 1)
        for weight, start, stop in zip(self.weights, self.starts, self.starts[1:], strict=False):
            for count in range(start, stop):
                self.phi[count] = self.sign * weight * count
        self.f = [value.exp() for value in self.phi] + [arb(1), arb(1)]
        self.excess = [value.expm1() for value in self.phi]
        self.largest = max(float(abs(value).upper()) for value in self.excess)
        self.capped = bool(content.get("capped", False))
        _require(holds=not self.capped or self.sign < 0, what="form")
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
        self.known: dict[float, Point] = {}
        self.shared = _Shared({}, {}, []) if shared is None else shared
        self.peak = self._most_exposed() if self.least != self.most else arb(1)

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
            fewest = EXPECTED if self.top == KEPT * expected else OTHERWISE * fewest
        elif sample.get("look") is not None:  # each half of delta has its looks
            _require(holds=sample["look"] in {"first", "later"}, what="form")
            fewest = LOOKS if sample["look"] == "first" else LOOKS * fewest
        _require(holds=bool(self.bases >= fewest), what="form")

    def of_weights(self) -> None:
        """Prove what the side says of its weights: larger groups never weigh more, or they may."""
        falls = all(a >= b for a, b in pairwise([*self.table[1:], _exact(0)]))
        told = self.content["monotone"]
        denied = falls and not told and (self.sign < 0 or self.population <= FREE_FROM * self.mean)
        _require(holds=isinstance(told, bool) and told <= falls and not denied, what="monotone")

    def _dent(self, count: int) -> arb:
        return 2 * self.f[count + 1] - self.f[count] - self.f[count + 2]

    # --- line ---

    def line(self) -> None:
        """Prove the line on cells that are halved until the lemma applies to each."""
        _require(holds=bool(self.sign * self.slope >= 0), what="sign of the slope")
        ctx.prec = self.precision
        smallest = 1e-3 * min(1.0, self.top / self.population)
        while not self._first_cell(_exact(smallest)):
            smallest /= 8
            _require(holds=smallest > 1e-80, what="line near 0")
        low, step = self._point(smallest), 0.5
        here = smallest
        while here < self.top:
            end = min(max(here * (1 + step), (math.sqrt(here) + step / 5) ** 2), self.top)
            ahead = [self.shared.near(here, end)]
            high = [self._point(ahead[-1])]
            while high:
                if self._cell(low, high[-1]):
                    low, here = high.pop(), ahead.pop()
                    continue
                step = max(step * 0.8, 1e-3)
                middle = (here + ahead[-1]) / 2 if here > 1 else math.sqrt(here * ahead[-1])
                _require(holds=here < middle < ahead[-1], what=f"line at a mean of {here}")
                ahead.append(middle)
                high.append(self._point(middle))
            step = min(step * 1.2, 1.0)

    def _point(self, mean: float) -> Point:
        found = self.known.get(mean)
        if found is not None:
            return found
        _require(holds=len(self.known) < MOST_POINTS, what="line: too many cells")
        ball = _exact(mean)
        none = (-ball).exp()
        excess = self.seen * none * self.excess_of(ball)
        with ctx.workprec(COARSE):
            dents = self.seen * none * self.dents_of(ball)
        _require(holds=bool(1 + excess > 0), what=f"moment at a mean of {mean}")
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

    def _most_exposed(self) -> arb:
        """Upper limit of `p F(p)`, which is concave up to k/n and falls from there on."""
        low, high = 0.0, self.k / self.population
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._slope(arb(middle)) > 0 else (low, middle)
        p = arb(low)
        return p * self._exposed(p) + abs(self._slope(p)) * self.k / self.population

    def _slope(self, p: arb) -> arb:
        """Slope of `p F(p)`, positive up to one share; -1 for what is negative beyond k/n.

        It falls up to k/n, and rises from there to where it is not positive, at 1.
        """
        if not p * self.population < self.k:
            return arb(-1)
        return self._exposed(p) - (self.k - 1) * self._on_the_border(p)

    def _on_the_border(self, p: arb) -> arb:
        """Probability of k - 1 among n - 1."""
        n, k = self.population, self.k
        ways = arb(n).lgamma() - arb(k).lgamma() - arb(n - k + 1).lgamma()
        return (ways + (k - 1) * p.log() + (n - k) * (1 - p).log()).exp()

    def _exposed(self, p: arb) -> arb:
        """Probability `F(p)` of a user with a value of probability p to be exposed."""
        if not p < 1:
            return arb(1 if self.k > self.population else 0)
        gap = self.population * p - self.k
        if gap > 30 * self.k + 3000:  # Chernoff
            return arb(0.5, 0.5) * (-gap * gap / (2 * self.population * p)).exp()
        hidden = p.beta_lower(arb(self.k - 1), arb(self.population - self.k + 1), 1)
        return (1 - hidden).max(arb(0)).min(arb(1))

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
        total += 2 * factor * mean / count * _exact(self.largest)
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
        _require(holds=(high - low) * len(peaks) <= WIDEST_CLOCK, what="clock: too wide")
        # beyond, every ratio of a binomial to the Poisson probability falls
        for kept, outwards in ((low, -1), (high, 1)):
            for f in self.shares if 0 < kept < m else ():
                step = (m - kept) * f / ((1 - f) * self.mean)
                _require(holds=bool(step > 1 if outwards < 0 else step < 1), what="clock: range")
        lead = arb(m + 1).lgamma() - arb(m - low + 1).lgamma() - low * self.mean.log() + self.mean
        terms = [
            weight * (lead + low * f.log() + (m - low) * (1 - f).log()).exp()
            for weight, f in zip(self.mixture, self.shares, strict=True)
        ]
        odds = [f / ((1 - f) * self.mean) for f in self.shares]
        most = (-self.log_factor).exp()
        for kept in range(low, high + 1):
            _require(holds=bool(sum(terms, arb(0)) <= most), what=f"clock at {kept}")
            terms = [term * (m - kept) * odd for term, odd in zip(terms, odds, strict=True)]

    def _one_thinning(self) -> None:
        """Prove the clock of one share for all numbers of users that there may be."""
        [share] = self.shares
        left = (self.rows - self.fakes) * (1 - share)
        _require(holds=bool(share * self.users <= self.mean) and bool(left >= 2), what="clock")
        most = (1 - share).rsqrt() * (arb(3) / (4 * left)).exp()
        _require(holds=bool(most <= (-self.log_factor).exp()), what="clock")

    # --- table ---

    def tabulated(self) -> None:
        """Prove the weights of all counts, and what is charged for the rest."""
        counts = len(self.table) - 1
        work = counts * self.end * len(self.shares)
        _require(holds=work <= WIDEST_TABLE, what="table: too wide")
        known = min(counts, self.users + 1)
        ctx.prec = self.precision
        logarithms = [arb(0)] * known
        for f, weight in zip(self.shares, self.mixture, strict=True):
            moments = self._thinned_moments(f, known)
            with ctx.workprec(PRECISION):
                for count, moment in enumerate(moments):
                    logarithms[count] += weight * moment.log()
        worst = arb(0)
        for count in range(1, known):
            score = self.scale * self.table[count] * count
            worst = worst.max((self.sign * score - logarithms[count]) / count)
        rest = self.users * worst
        if counts <= self.users:
            for f in self.shares:
                kept = counts * f
                _require(holds=bool(kept > self.end), what="table: too short")
                gap = kept - self.end
                missed = (-gap * gap / (2 * kept)).exp()
                tail = -(1 - missed).log() * self.users / counts
                _require(holds=bool(rest + tail <= self.charge), what="table: larger counts")
        _require(holds=bool(rest <= self.charge), what="table: a weight is on the unsafe side")

    def _thinned_moments(self, share: arb, counts: int) -> list[arb]:
        """`E f(Bin(c, share))` for all c below `counts`, by one product of two polynomials."""
        inverse = [arb(1)]  # of the factorials
        for count in range(1, counts):
            inverse.append(inverse[-1] / count)
        lost, kept = [arb(1)], [arb(1)]
        for _ in range(1, counts):
            lost.append(lost[-1] * (1 - share))
            kept.append(kept[-1] * share)
        stays = zip(kept, inverse, self.excess, strict=False)
        product = arb_poly([a * b for a, b in zip(lost, inverse, strict=True)]) * arb_poly(
            [a * b * c for a, b, c in stays]
        )
        return [1 + product[count] / inverse[count] for count in range(counts)]

    # --- limits ---

    def price(self) -> arb:
        """Return what is taken from the score for a logarithm of an e-value at the budget."""
        bound = self.slope * self.budget + self.intercept
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
        _require(holds=1 < len(limits) <= self.universe + 1, what="limits: number")
        if self.sign < 0:  # what an allowed set stands for is allowed with it
            falling = limits if nats is None else [-each for each in nats]
            for name, numbers in (("weights", self.content["weights"]), ("limits", falling)):
                holds = all(a >= b for a, b in pairwise(numbers))
                _require(holds=holds, what=f"{name}: must not increase")
            _require(holds=self.content["weights"][-1] >= 0, what="weights: negative")
        price = self.price()
        for size, limit in enumerate(limits[1:], 1):
            asked = (arb(self.bases) * self._numbers(size, chains) / self.delta).log()
            if nats is not None:
                _require(holds=bool(asked <= _exact(limit)), what=f"limit of {size} APIs")
                continue
            reached = self.scale * _exact(limit)
            safe = reached <= -(asked + price) if self.sign < 0 else reached >= asked + price
            # a limit that no score can meet decides nothing
            idle = limit < 0 if self.sign < 0 else limit >= self.rows
            _require(holds=bool(safe) or idle, what=f"limit of {size} APIs")

    def _numbers(self, size: int, chains: Sequence[int] | None) -> arb:
        """Count them so that half of delta is for all names, half for those of the first log."""
        noted = self.content.get("first_names")
        if noted is None or chains is not None:
            return arb(self._sets(size, self.universe, chains))
        shares, first = [Fraction(1, self._sets(size, self.universe, None))], _whole(noted)
        if size <= first:
            shares.append(Fraction(1, self._sets(size, min(first, self.universe), None)))
        return _ratio(2 / sum(shares, Fraction(0)))

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
        said = _Deviation.of(policy.get("sample", {}))
        factors = self.least <= _ratio(said.least) and self.most >= _ratio(said.most)
        _require(holds=bool(factors), what="another question: factors")
        self._of_rows(said.fakes)
        budget, unobserved = _exact(policy["budget"]), _ratio(said.unobserved)
        if self.sign < 0:  # the average behind a realised share is proved by itself
            reached = policy.get("realised") or self.budget <= budget - unobserved
        else:
            p = arb(self.k) / self.population
            fall = (self.k - 1) * self._on_the_border(p) - self._exposed(p)
            hidden = unobserved + self.most * (1 - self.kept)
            reached = self.budget >= budget + fall * hidden
        _require(holds=bool(reached) or self.idle, what="another question: budget")

    def _of_rows(self, share: Fraction) -> None:
        """Prove that rows which are no users have at most two scores to choose from."""
        enough = self.fakes >= math.floor(share * self.rows)
        _require(holds=enough and bool(share) == ("fakes" in self.content), what="fakes")
        if not share:
            return
        step = -(-_exact(float(share))).log1p() * (1 + arb(10) ** -9)
        number = math.ceil(float(arb(self.rows).log() / step))
        last, first = (step * number).exp(), (step * (number - 1)).exp()
        designed = first < self.rows and self.rows <= last and last.ceil() == self.users
        _require(holds=bool(designed), what="fakes: another design")

    def check(self, chains: Sequence[int] | None) -> None:
        """Prove it all; `chains` as of `check_proof`."""
        self.limits(chains)
        self.clock()
        self.tabulated()
        self.line()


def check_proof(
    content: dict[str, Any],
    asked: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    *,
    once: bool = False,
    chains: Sequence[int] | None = None,
) -> str:
    """Prove one side of a decision; return what is not proved, or the empty string.

    Parameters
    ----------
    content
        The side, as a parser of JSON returns it.
    asked
        Members that it must have: those of the question that it should be of.
    policy
        What its budget, and what it says of the sample must be enough for.
    once
        Whether users were looked at once.
    chains
        Of level vectors: how many levels each component has above its lowest.
    """
    with ctx.workprec(PRECISION):
        try:
            shared = _Shared({}, {}, [])
            for design in _designs_of(content):
                for name, value in (asked or {}).items():
                    _require(holds=design.get(name) == value, what=f"another question: {name}")
                proof = _Proof(design, shared)
                proof.of_looks((policy or {}).get("sample", {}), once=once)
                if policy is not None:
                    proof.of_policy(policy)
                proof.check(chains)
                proof.of_weights()
        except _REFUSED as error:
            return str(error) or type(error).__name__
    return ""


_OF_ALL = ("sign", "monotone", "k", "population", "budget", "users")
_OF_SIDE = ("delta", "bases", "universe", "nats", "first_names")


def _designs_of(content: dict[str, Any]) -> list[dict[str, Any]]:
    """List the designs of a side, each with what is told of all; a file of before has one."""
    if "designs" not in content:
        return [content]
    told = {name: content.get(name) for name in _OF_SIDE}
    designs = [{**design, **told} for design in content["designs"]]
    _require(holds=bool(designs), what="form")
    for design in designs:
        alike = all(design[name] == content[name] for name in _OF_ALL)
        alike = alike and all(
            design.get(name) == designs[0].get(name) for name in ("mean", "factors", "value_share")
        )
        _require(holds=alike and design["share"] > 0, what="form")
    total = sum((_exact(design["share"]) for design in designs), arb(0))
    _require(holds=bool(total <= 1), what="weights of the designs")
    return designs


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


def check_average(side: dict[str, Any], policy: dict[str, Any], delta: float) -> str:
    """Prove that sets with the average of a file keep the budget in all but few populations.

    Parameters
    ----------
    side
        What allows, as a parser of JSON returns it; its budget is the average.
    policy
        The question.
    delta
        Tolerated probability that one of the sets does not keep it.

    Returns
    -------
    str
        What is not proved, or the empty string.
    """
    with ctx.workprec(PRECISION):
        try:
            if not _allows_nothing(side):
                _prove_average({**side, **_designs_of(side)[0]}, policy, delta)
        except _REFUSED as error:
            return str(error) or type(error).__name__
    return ""


def _allows_nothing(side: dict[str, Any]) -> bool:
    if "nats" in side:
        return all(nats >= NEVER for nats in side["nats"][1:])
    return all(limit < 0 for limit in side["limits"][1:])


def _prove_average(side: dict[str, Any], policy: dict[str, Any], delta: float) -> None:
    given, users, k = side["average"], _whole(side["population"]), _whole(side["k"])
    line = {name: given[name] for name in ("slope", "intercept")}
    # the score of a group of fewer than k users is their number, times the tilt
    small = {"sign": 1, "mean": users, "starts": [1, k], "phi": [given["tilt"]], "factors": [1, 1]}
    small["capped"] = False
    moments = _Proof(side | line | small)
    moments.line()
    tilt = _exact(given["tilt"])
    _require(holds=bool(tilt > 0), what="average: tilt")
    at = (arb(users).log() * users - users - arb(users + 1).lgamma()).exp()
    kept = at
    for step, change in ((-1, -tilt), (1, -tilt * (k - 1))):
        term, number, factor = at, users, change.exp()
        while number > 0 and term > kept * _exact(LEAST_TERM):
            term *= factor * (arb(number) / users if step < 0 else arb(users) / (number + 1))
            number += step
            kept += term
    too_many = math.floor(Fraction(repr(policy["budget"])) * users) + 1
    apis = len(policy["candidates"])
    nats = (arb(math.comb(apis, apis // 2)) / _exact(delta)).log()
    average = moments.budget + _ratio(_Deviation.of(policy.get("sample", {})).unobserved)
    reached = tilt * too_many - moments.slope * average - moments.intercept + kept.log()
    _require(holds=bool(reached >= nats), what="average")


def check_proofs(content: dict[str, Any]) -> Iterator[Finding]:
    """Prove both sides of a decision file, and that they are of its question.

    Parameters
    ----------
    content
        The file, as a parser of JSON returns it: one that is a decision.
    """
    policy, chains = content["policy"], _chains_of(content)
    realised = bool(policy.get("realised"))
    level = content.get("level") or policy["delta"]
    confirmed = content.get("confirmation")
    largest = len(policy["candidates"]) if chains is None else sum(chains)
    rows = _users_of(content)
    share = level / policy["delta"] / (1 if confirmed is None else SEARCH_SHARE)
    for side, sign in (("allow", -1), ("block", 1)):
        asked = {
            "sign": sign,
            "k": policy["k"],
            "population": policy["population"],
            "universe": content.get("universe") or largest,
            "delta": level / 2 if realised and sign < 0 else level,
            "value_share": None,  # all values of the users were counted
            "first_names": content.get("first_names"),
        }
        proof = content["proof"][side]
        first = (proof.get("designs") or [proof])[0]
        if first.get("fakes", {"rows": proof["users"]}).get("rows") != rows:
            asked["users"] = rows
        few = len(proof.get("nats") or proof.get("limits", [])) <= largest + 1
        once = bool(content.get("design"))
        reason = (
            check_proof(proof, asked, policy, once=once, chains=chains) if few else "limits: number"
        )
        noted = content.get("first_names")
        # conditions on cohorts have the levels of all names, and both share delta
        if not reason and noted and (noted < len(policy["candidates"]) or policy.get("cohorts")):
            reason = "another question: names of the first log"
        if not reason and not _is_share(share, content):
            reason = "another question: level"
        yield Finding(f"proof of {side}", (), "not proved" if reason else "proved", reason)
    if realised:
        reason = check_average(content["proof"]["allow"], policy, level / 2)
        answer: Answer = "not proved" if reason else "proved"
        yield Finding("average of a realised share", (), answer, reason)
    if confirmed is not None:
        yield from _confirmed(content, confirmed, Fraction(level) / Fraction(SEARCH_SHARE))


def _chains_of(content: Mapping[str, Any]) -> list[int] | None:
    """Return how many levels each component has above its lowest; null for API sets."""
    components = content.get("components")
    if components is None:
        return None
    return [_whole(each["most"]) - _whole(each["least"]) for each in components]


def _users_of(content: Mapping[str, Any]) -> int:
    """Return the users by whom the listed sets were judged."""
    confirmed = content.get("confirmation")
    if confirmed is not None:
        return _whole(confirmed["searched"])
    data = content if "components" in content else content["data"]
    return _whole(data["users"])


def listed(content: Mapping[str, Any], verdict: str) -> list[tuple[tuple[str, ...], int]]:
    """List the sets of a verdict and their sizes; level vectors as NAME=LEVEL, and their ranks."""
    if "components" not in content:
        return [(tuple(apis), len(apis)) for apis in content[verdict]]
    least = {each["name"]: _whole(each["least"]) for each in content["components"]}

    def rank(levels: Mapping[str, int]) -> int:
        above = sum(max(_whole(level) - least[name], 0) for name, level in levels.items())
        return max(above, int(any(least.values())))

    return [
        (tuple(f"{name}={level}" for name, level in levels.items()), rank(levels))
        for levels in content[verdict]
    ]


def _confirmed(
    content: dict[str, Any], confirmed: dict[str, Any], whole: Fraction
) -> Iterator[Finding]:
    """Prove the tests of chains of sets on users who were not searched.

    `whole` is the level of the question, of which the search had a share.
    """
    policy, level = content["policy"], confirmed["level"]
    users = content["data"]["users"] - confirmed["searched"]
    # What two kept values may have the same word for, at most.
    alike = Fraction(users**2, 2 ** (WORD_BITS + 1 + level))
    rest = whole * (1 - Fraction(SEARCH_SHARE))
    most = float(rest / max(len(confirmed["chains"]), 1) - alike) * (1 + ROUNDED)
    for side, sign in (("allow", -1), ("block", 1)):
        proof = confirmed["proof"][side]
        asked = {
            "sign": sign,
            "k": policy["k"],
            "population": policy["population"],
            "universe": 1,
            "users": users,
            "value_share": 0.5**level if level else None,
        }
        reason = check_proof(proof, asked, policy, once=True)
        if not reason and not proof["delta"] <= most:
            reason = "another question: level"
        answer: Answer = "not proved" if reason else "proved"
        yield Finding(f"proof of {side} by the others", (), answer, reason)


def _is_share(share: float, content: dict[str, Any]) -> bool:
    """Whether a question may have a share of delta: whole, by its view, or as registered."""
    weight, universe = content.get("view_weight"), content.get("universe")
    if universe is not None and (weight is None or universe < UNIVERSE):
        return False
    if weight is not None:
        return weight <= 1 / 2 and any(math.isclose(share, weight / n) for n in (1, 2))
    if not content.get("registered"):
        return math.isclose(share, 1)
    registered = 1 / max(2 * share, 1e-9)
    return 1 <= round(registered) < 1e8 and math.isclose(registered, round(registered))


def check_sets(
    content: dict[str, Any],
    groups: Mapping[tuple[str, ...], Iterable[Group]],
    others: Mapping[tuple[str, ...], Iterable[Group]] | None = None,
    *,
    keeps: Callable[[tuple[str, ...], int], _Range] | None = None,
) -> Iterator[Finding]:
    """Find the verdict on every listed set of a decision file again.

    Parameters
    ----------
    content
        The file, as a parser of JSON returns it.
    groups
        Count spectra of the sets: how many users are in groups of how many, or of few to many.
    others
        Where some users were searched, whose spectra these are: those of the sets of each chain
        among all others.
    keeps
        Whether a set of a size keeps what else is asked of it: see `proof_cohorts`.
    """
    allow, block = (content["proof"][side] for side in ("allow", "block"))
    users, refused = _users_of(content), len(content["block"]) + len(content["undecided"])
    # The mean over draws of one visit of each user: see docs/certificate/visits.md.
    draws = DRAWS if content["policy"].get("visits") in {"visit", "both"} else 1
    tests = _Test(allow, draws), _Test(block, draws)
    confirmed = _Chains(content, others)
    for side, sets in (("confirmed", confirmed.within), ("refuted", confirmed.above)):
        for apis, holds in sets.items():
            yield Finding(side, apis, holds.answer)
    for verdict in ("allow", "block", "undecided"):
        for apis, size in listed(content, verdict):
            spectrum = [*groups[apis]]
            known = all(0 < least <= most and inside > 0 for least, most, inside in spectrum)
            if not known or sum(inside for _, _, inside in spectrum) != users * draws:
                yield Finding(verdict, apis, "not proved", "not a spectrum of the users")
                continue
            if size >= min(len(test.limits) for test in tests):
                yield Finding(verdict, apis, "not proved", "no limit for so many APIs")
                continue
            outside = tests[0].above(spectrum, size).without(confirmed.allows(apis))
            if keeps is not None:
                kept = keeps(apis, size)
                outside = outside.beside(_Range(not kept.perhaps, not kept.surely))
            blocked = tests[1].above(spectrum, size).beside(confirmed.blocks(apis))
            if not (content["complete"] and refused <= LISTED):
                undecided = outside  # it may be that nobody tried to block it
            else:
                undecided = outside.without(blocked)
            within = _Range(not outside.perhaps, not outside.surely)
            holds = {"allow": within, "block": blocked, "undecided": undecided}[verdict]
            yield Finding(verdict, apis, holds.answer)


class _Chains:
    """What the tests of chains of nested sets found, on users who were not searched.

    `within` and `above` say of each set that the file calls confirmed, or refuted, whether it is.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        groups: Mapping[tuple[str, ...], Iterable[Group]] | None,
    ) -> None:
        self.within: dict[tuple[str, ...], _Range] = {}
        self.above: dict[tuple[str, ...], _Range] = {}
        told = content.get("confirmation")
        if told is None or groups is None:
            return
        chains = [[tuple(apis) for apis in chain] for chain in told["chains"]]
        tested = {
            side: {apis: test.above([*groups[apis]], 1) for chain in chains for apis in chain}
            for side, test in ((side, _Test(told["proof"][side])) for side in ("allow", "block"))
        }
        passed = {apis: _Range(not r.perhaps, not r.surely) for apis, r in tested["allow"].items()}
        self.within = _up_to(told["confirmed"], chains, passed)
        self.above = _up_to(told["refuted"], [c[::-1] for c in chains], tested["block"])

    def allows(self, apis: Iterable[str]) -> _Range:
        """Whether a set is within one that is confirmed."""
        found = [r for larger, r in self.within.items() if set(apis) <= set(larger)]
        return _Range(any(r.surely for r in found), any(r.perhaps for r in found))

    def blocks(self, apis: Iterable[str]) -> _Range:
        """Whether a set holds one that is refuted."""
        found = [r for smaller, r in self.above.items() if set(smaller) <= set(apis)]
        return _Range(any(r.surely for r in found), any(r.perhaps for r in found))


def _up_to(
    told: Iterable[Iterable[str]],
    chains: Iterable[Sequence[tuple[str, ...]]],
    passed: Mapping[tuple[str, ...], _Range],
) -> dict[tuple[str, ...], _Range]:
    """Whether each set comes in a chain, after none but such as passed, and passed itself."""
    found = {}
    for apis in map(tuple, told):
        runs = [
            [passed[each] for each in chain[: chain.index(apis) + 1]]
            for chain in chains
            if apis in chain
        ]
        found[apis] = _Range(
            any(all(each.surely for each in run) for run in runs),
            any(all(each.perhaps for each in run) for run in runs),
        )
    return found


def check_tolerance(
    content: dict[str, Any],
    tests: Iterable[tuple[float, dict[str, dict[str, Any]]]],
    groups: Mapping[tuple[str, ...], Iterable[Group]] | None,
) -> Iterator[Finding]:
    """Prove the biases of the sample that a decision file says its allowed sets tolerate.

    Parameters
    ----------
    content
        The file, as a parser of JSON returns it.
    tests
        Each bias of the list that was tried, and the proof of a decision with it.
    groups
        As of `check_sets`; None to prove the tests alone.
    """
    policy, told = content["policy"], content.get("bias_tolerated") or []
    sample = policy.get("sample", {})
    known = {sample.get("bias", 1.0)}
    for bias, proof in tests:
        known.add(bias)
        sets = [apis for apis, most in zip(content["allow"], told, strict=True) if most >= bias]
        biased = content | {
            "policy": policy | {"sample": sample | {"bias": bias}},
            "proof": proof,
            "allow": sets,
            "block": [],
            "undecided": [],
        }
        found = [next(check_proofs(biased))]
        if groups is not None:
            found += check_sets(biased, groups)
        yield from (one._replace(claim=f"{one.claim}, bias {bias:g}") for one in found)
    if not known.issuperset(told):
        yield Finding("bias tolerated", (), "not proved", "a bias that was not tried")


class _Range(NamedTuple):
    """Whether something holds for the least, and for the most that a pooled spectrum may be."""

    surely: bool
    perhaps: bool

    def without(self, other: _Range) -> _Range:
        """Whether this holds and the other does not."""
        return _Range(self.surely and not other.perhaps, self.perhaps and not other.surely)

    def beside(self, other: _Range) -> _Range:
        """Whether one of the two holds."""
        return _Range(self.surely or other.surely, self.perhaps or other.perhaps)

    @property
    def answer(self) -> Answer:
        return "proved" if self.surely else "cannot tell" if self.perhaps else "not proved"


class _Test:
    """What a side of a file finds out of a set, by its spectrum."""

    def __init__(self, proof: dict[str, Any], draws: int = 1) -> None:
        self.sign, self.draws = proof["sign"], draws
        self.limits: list[float] = proof.get("nats") or proof["limits"]
        self.plain = None if "designs" in proof else proof["weights"]
        self.designs: list[tuple[arb, arb, arb, list[float]]] = []
        self.is_whole = True
        with ctx.workprec(PRECISION):
            try:
                for content in [] if self.plain is not None else _designs_of(proof):
                    one = _Proof(content)
                    of = one.share, one.sign * one.scale, one.price(), content["weights"]
                    self.designs.append(of)
            except _REFUSED:
                self.is_whole = False

    def above(self, groups: Sequence[Group], size: int) -> _Range:
        """Whether a set is not allowed by the side that allows, or blocked by the other one."""
        if not self.is_whole:
            return _Range(self.sign < 0, self.sign < 0)
        if self.plain is not None:
            points, limit = self._means(self.plain, groups), Fraction(self.limits[size])
            return _Range(points[0] > limit, points[1] > limit)
        with ctx.workprec(PRECISION):
            least, most = arb(0), arb(0)
            for share, scale, price, weights in self.designs:
                nats = sorted(
                    (scale * _ratio(each) - price for each in self._means(weights, groups)),
                    key=float,
                )
                least += share * nats[0].exp()
                most += share * nats[1].exp()
            asked, low, high = _exact(self.limits[size]), least.log(), most.log()
            # what a test in floating point leaves open, it does not decide
            rounding = ROUNDED_TEST * (1 + asked + abs(high))
            if self.sign > 0:
                return _Range(bool(low >= asked), not high < asked)
            return _Range(bool(high < asked + rounding), not low >= asked)

    def _means(
        self, weights: Sequence[float], groups: Sequence[Group]
    ) -> tuple[Fraction, Fraction]:
        least, most = _sums(weights, groups)
        return least / self.draws, most / self.draws


def _sums(weights: Sequence[float], groups: Sequence[Group]) -> tuple[Fraction, Fraction]:
    """Least and largest sum of weights over the users, where groups are known to be of a range."""
    low = high = Fraction(0)
    last = len(weights) - 1
    for fewest, most, users in groups:
        part = weights[min(fewest, last) : min(most, last) + 1]
        low += Fraction(min(part)) * users
        high += Fraction(max(part)) * users
    return low, high
