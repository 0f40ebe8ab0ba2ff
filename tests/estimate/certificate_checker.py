"""Prove the certificate of a decision again, in ball arithmetic, without the product.

    python certificate_checker.py decision.json ...

A proof says: for the score `S = sum_v c_v w(c_v)` of `m` users the limit of each size of set is on
the safe side. All that this rests on is proved here from the numbers in the file alone, each taken
as the exact number that it is; theorems and names are those of docs/certificate.md:

* line: `ln E exp(sign phi(C)) <= p (slope F(p) + intercept)` for `C ~ Poisson(mean p)`, all p <= 1;
* clock: `factor * sum_i w_i P(Bin(m, f_i) = r) <= P(Poisson(mean) = r)` for all r <= m;
* table: `scale w(c) c` is on the safe side of `sum_i w_i sign ln E exp(sign phi(Bin(c, f_i)))`;
* limits: from the line at the budget, the levels of all sizes, the factor and what is charged.

Shares no code with fpmonitor. Exit status 0 only if every proof is complete: a step that can
neither be proved nor refuted with the work that is allowed counts as failed.
"""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from flint import arb, ctx, fmpq

PRECISION = 160  # bits
MOST_POINTS = 40_000
FAR = 90.0  # nats: what is left out of a sum is that much smaller than 1
WIDEST_TABLE = 30_000_000  # operations


class NotProvedError(Exception):
    """A step of the proof is false, or could not be shown."""


class Point(NamedTuple):
    """What is known at one mean: the moment, the exposure, and the mean of the dents."""

    mean: arb
    moment: arb
    exposure: arb
    dents: arb


def exact(number: float) -> arb:
    """Ball of radius zero around a number of the file."""
    return arb(fmpq(*float(number).as_integer_ratio()))


def require(*, holds: bool, what: str) -> None:
    if not holds:
        raise NotProvedError(what)


class Proof:
    """One side of a decision: `sign` -1 allows, +1 blocks."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.sign = int(content["sign"])
        self.k, self.population = int(content["k"]), int(content["population"])
        self.users, self.budget = int(content["users"]), exact(content["budget"])
        self.top, self.mean = float(content["mean"]), exact(content["mean"])
        self.starts = [int(start) for start in content["starts"]]
        self.weights = [exact(weight) for weight in content["phi"]]
        self.slope, self.intercept = exact(content["slope"]), exact(content["intercept"])
        self.shares = [exact(share) for share in content["clock"]["shares"]]
        mixture = [exact(weight) for weight in content["clock"]["weights"]]
        self.mixture = [weight / sum(mixture, arb(0)) for weight in mixture]
        self.log_factor = exact(content["clock"]["log_factor"])
        self.table = [exact(weight) for weight in content["weights"]]
        self.scale, self.charge = exact(content["scale"]), exact(content["charge"])
        self.end = self.starts[-1]
        require(
            holds=self.sign in {-1, 1}
            and 2 <= self.k <= self.population
            and self.starts[0] == 1
            and all(a < b for a, b in zip(self.starts, self.starts[1:], strict=False))
            and len(self.weights) == len(self.starts) - 1
            and all(0 < share < 1 for share in self.shares)
            and all(weight > 0 for weight in self.mixture)
            and self.table[-1] == 0,
            what="form",
        )
        self.phi = [arb(0)] * (self.end + 1)
        for weight, start, stop in zip(self.weights, self.starts, self.starts[1:], strict=False):
            for count in range(start, stop):
                self.phi[count] = self.sign * weight * count
        self.f = [value.exp() for value in self.phi] + [arb(1), arb(1)]
        self.excess = [value.expm1() for value in self.phi]
        self.largest = max(float(abs(value).upper()) for value in self.excess)
        self.far = FAR + math.log(max(self.largest, 1.0))
        borders = {start + step for start in self.starts[1:] for step in (-2, -1)}
        self.dents = {
            count: dent
            for count in sorted(borders)
            if count >= 0 and not (dent := self._dent(count)) <= 0
        }
        self.points = 0

    def _dent(self, count: int) -> arb:
        return 2 * self.f[count + 1] - self.f[count] - self.f[count + 2]

    # --- line ---

    def line(self) -> None:
        """Prove the line on cells that are halved until the lemma applies to each."""
        require(holds=bool(self.sign * self.slope >= 0), what="sign of the slope")
        smallest = 1e-3 * min(1.0, self.top / self.population)
        while not self._first_cell(exact(smallest)):
            smallest /= 8
            require(holds=smallest > 1e-80, what="line near 0")
        low, step = self._point(smallest), 0.5
        here = smallest
        while here < self.top:
            ahead = [min(max(here * (1 + step), (math.sqrt(here) + step / 5) ** 2), self.top)]
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
        self.points += 1
        require(holds=self.points <= MOST_POINTS, what="line: too many cells")
        ball = exact(mean)
        excess, dents = self._expectations(ball, mean)
        moment, exposure = 1 + excess, self._exposure(ball)
        require(holds=bool(moment > 0), what=f"moment at a mean of {mean}")
        return Point(ball, moment, exposure, dents)

    def _expectations(self, mean: arb, near: float) -> tuple[arb, arb]:
        """`E f(C) - 1`, and the mean of the dents; what is left out is in the ball."""
        reach = math.sqrt(2 * self.far * near)
        low = max(1, math.floor(near - reach))
        high = min(self.end - 1, math.ceil(near + reach + self.far))
        total, dents = arb(0), arb(0)
        if low <= high:
            probability = (mean.log() * low - mean - arb(low + 1).lgamma()).exp()
            if low == 1 and 0 in self.dents:
                dents += (-mean).exp() * self.dents[0]
            for count in range(low, high + 1):
                total += probability * self.excess[count]
                if count in self.dents:
                    dents += probability * self.dents[count]
                probability *= mean / (count + 1)
        left = arb(0)
        if low > 1:
            gap = mean - low
            left += (-gap * gap / (2 * mean)).exp()
        if high < self.end - 1:
            gap = high + 1 - mean
            left += (-gap * gap / (2 * (mean + gap / 3))).exp()
        total += arb(0, (left * exact(self.largest)).upper())
        deepest = max((dent for dent in self.dents.values()), key=float, default=arb(0))
        dents += left * abs(deepest) * 2
        return total, dents.max(arb(0))

    def _exposure(self, mean: arb) -> arb:
        p = mean / self.mean
        if not p < 1:
            return arb(1 if self.k > self.population else 0)
        gap = self.population * p - self.k
        if gap > 30 * self.k + 3000:  # Chernoff
            return arb(0.5, 0.5) * (-gap * gap / (2 * self.population * p)).exp()
        hidden = p.beta_lower(arb(self.k - 1), arb(self.population - self.k + 1), 1)
        return (1 - hidden).max(arb(0)).min(arb(1))

    def _cell(self, low: Point, high: Point) -> bool:
        """Whether both corrected corners of a cell are below the line."""
        x, y = low.mean, high.mean
        width, ratio = y - x, (y / x).log()
        rise = width * width / 8 * low.dents.max(high.dents) * (y * ratio * ratio / 8).exp()
        left, right = low.moment + rise, high.moment + rise
        change, least = right - left, left.min(right)
        bend = change * change / (8 * least * least)
        slack = self.sign * self._slack(low, high)
        return all(
            bool(
                value.log() + bend <= (self.slope * (t - slack) + self.intercept * mean) / self.mean
            )
            for value, mean, t in (
                (left, x, x * low.exposure),
                (right, y, y * high.exposure),
            )
        )

    def _slack(self, low: Point, high: Point) -> arb:
        """How far `mean * F` may be beyond its chord on the side that matters."""
        p, q = low.mean / self.mean, high.mean / self.mean
        n, k = self.population, self.k
        box = high.mean * (low.exposure - high.exposure).max(arb(0))
        pull = k - n * p if self.sign < 0 else n * q - k
        if pull <= 0:
            return arb(0)
        if not q < 1:
            return box
        mode = arb(k - 1) / (n - 1)
        at = p if mode <= p else q if mode >= q else mode
        log_peak = arb(n).lgamma() - arb(k).lgamma() - arb(n - k + 1).lgamma()
        log_peak += (k - 1) * at.log() + (n - k) * (1 - at).log()
        edge = (1 / (p * (1 - p))).max(1 / (q * (1 - q)))
        curved = (k - 1) * log_peak.exp() * pull.max(arb(0)) * edge * (q - p) * (q - p) / 8
        return (self.mean * curved).min(box)

    def _first_cell(self, mean: arb) -> bool:
        """Whether the line holds for all means up to this one: `ln E f <= E f - 1`."""
        single = self.excess[1]
        total = single.max(single * (-mean).exp())
        factor, count = arb(1), 2
        while count < min(self.end, 40):
            factor *= mean / count
            total += factor * self.excess[count].max(arb(0))
            count += 1
        total += 2 * factor * mean / count * exact(self.largest)
        exposure = arb(1) if self.sign < 0 else self._exposure(mean)
        return bool(total * self.mean <= self.slope * exposure + self.intercept)

    # --- clock ---

    def clock(self) -> None:
        """Prove the clock at every number that can be the worst one."""
        m = self.users
        peaks = [float((m - self.mean * (1 - f) / f).mid()) for f in self.shares]
        low = max(math.floor(min(peaks)) - 3, 0)
        high = min(math.ceil(max(peaks)) + 3, m)
        # beyond, every ratio of a binomial to the Poisson probability falls
        for kept, outwards in ((low, -1), (high, 1)):
            for f in self.shares if 0 < kept < m else ():
                step = (m - kept) * f / ((1 - f) * self.mean)
                require(holds=bool(step > 1 if outwards < 0 else step < 1), what="clock: range")
        lead = arb(m + 1).lgamma() - arb(m - low + 1).lgamma() - low * self.mean.log() + self.mean
        terms = [
            weight * (lead + low * f.log() + (m - low) * (1 - f).log()).exp()
            for weight, f in zip(self.mixture, self.shares, strict=True)
        ]
        odds = [f / ((1 - f) * self.mean) for f in self.shares]
        most = (-self.log_factor).exp()
        for kept in range(low, high + 1):
            require(holds=bool(sum(terms, arb(0)) <= most), what=f"clock at {kept}")
            terms = [term * (m - kept) * odd for term, odd in zip(terms, odds, strict=True)]

    # --- table ---

    def tabulated(self) -> None:
        """Prove the weights of all counts, and what is charged for the rest."""
        counts = len(self.table) - 1
        work = counts * self.end * len(self.shares)
        require(holds=work <= WIDEST_TABLE, what="table: too wide to be checked")
        columns = [[value.exp() for value in self.phi] for _ in self.shares]
        worst = arb(0)
        for count in range(1, min(counts, self.users + 1)):
            logarithm = arb(0)
            for place, f in enumerate(self.shares):
                column, stays = columns[place], 1 - f
                for j in range(min(self.end, counts - count)):
                    column[j] = stays * column[j] + f * column[j + 1]
                logarithm += self.mixture[place] * column[0].log()
            score = self.scale * self.table[count] * count
            beyond = self.sign * (score - self.sign * logarithm)
            worst = worst.max(beyond / count)
        rest = self.users * worst
        if counts <= self.users:
            for f in self.shares:
                kept = counts * f
                require(holds=bool(kept > self.end), what="table: too short")
                gap = kept - self.end
                missed = (-gap * gap / (2 * kept)).exp()
                tail = -(1 - missed).log() * self.users / counts
                require(holds=bool(rest + tail <= self.charge), what="table: larger counts")
        require(holds=bool(rest <= self.charge), what="table: a weight is on the unsafe side")

    # --- limits ---

    def limits(self) -> None:
        """Prove the limit of every size of set."""
        delta, bases = exact(self.content["delta"]), int(self.content["bases"])
        universe = int(self.content["universe"])
        few = min(3, universe)
        small = sum(math.comb(universe, size) for size in range(1, few + 1))
        bound = self.slope * self.budget + self.intercept
        for size, limit in enumerate(self.content["limits"][1:], 1):
            if self.sign < 0:
                sets = math.comb(universe, min(size, universe // 2))
            elif size <= few:
                sets = 2 * small
            else:
                sets = 2 * (size - few) * (size - few + 1) * math.comb(universe, size)
            price = (arb(bases) * arb(sets) / delta).log() - self.log_factor + self.charge
            reached = self.scale * exact(limit)
            safe = reached <= -(bound + price) if self.sign < 0 else reached >= bound + price
            # a limit that no score can meet decides nothing
            idle = limit < 0 if self.sign < 0 else limit >= self.users
            require(holds=bool(safe) or idle, what=f"limit of {size} APIs")

    def check(self) -> None:
        self.limits()
        self.clock()
        self.tabulated()
        self.line()


def score(weights: list[float], spectrum: dict[str, int]) -> Fraction:
    """Score of a count spectrum, exactly."""
    last = len(weights) - 1
    return sum(
        (Fraction(weights[min(int(c), last)]) * int(c) * n for c, n in spectrum.items()),
        Fraction(0),
    )


def check(content: dict[str, Any]) -> str:
    """Answer `proved`, or which step is not."""
    ctx.prec = PRECISION
    try:
        Proof(content).check()
    except (NotProvedError, ArithmeticError, KeyError, TypeError, ValueError) as error:
        return f"not proved: {error}"
    return "proved"


def main(paths: list[str]) -> int:
    failed = False
    for path in paths:
        proofs = json.loads(Path(path).read_text(encoding="utf-8")).get("proof") or {}
        for name, content in proofs.items():
            answer = check(content)
            print(f"{path}: {name}: {answer}")  # noqa: T201 a program
            failed |= answer != "proved"
        failed |= not proofs
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
