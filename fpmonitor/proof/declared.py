"""Proves what a decision file says of level vectors with declared values: exact limits.

* vectors: the file's components say how many values each level may show; those of the vectors with
  the fewest are as many as the file says, and share a quarter of the level;
* scores: these have the other three quarters;
* limits: a share is beyond its limit where its e-value, or at one look its tail, is too rare; the
  exposure is between what these limits leave.

What the file alone cannot show is that no user showed another value at the levels that it names:
`audit certificate --db` looks.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

import scipy
from flint import arb, ctx

from fpmonitor.proof.exposing import Exposing
from fpmonitor.proof.numbers import (
    PRECISION,
    REFUSED,
    ROUNDED_TEST,
    Finding,
    Group,
    exact,
    require,
    whole_number,
)
from fpmonitor.proof.verdicts import Range, tested_level, users_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Finder = Callable[[Sequence[str], Sequence[Group]], tuple[Range, Range]]

DECLARED, UNSEEN = 0.25, 0.1  # shares: of the level, and of that for values that nobody had
MOST_VALUES, MOST_VECTORS = 300, 255
NO_VALUES, MORE = 2, 2  # absent and undefined; below all edges, and what fits no edge
HALVINGS = 60
WIDER = 1e-12  # than found in floating point


def scores_share(content: Mapping[str, Any]) -> float:
    """Return the share of the level that a file leaves to its scores."""
    return 1 - DECLARED if "declared" in content["proof"]["allow"] else 1


def check_declared(content: Mapping[str, Any]) -> Iterator[Finding]:
    """Prove the tests of declared values of a decision file, where it has some."""
    told = content["proof"]["allow"].get("declared")
    if told is None and content.get("declared") is None:
        return
    reason = ""
    try:
        require(holds=told is not None, what="another question: declared")
        DeclaredProof(content)
    except REFUSED as error:
        reason = str(error) or type(error).__name__
    yield Finding("proof of declared values", (), "not proved" if reason else "proved", reason)


def finder(content: Mapping[str, Any]) -> Finder | None:
    """Return what finds verdicts of vectors by exact limits; null where a file has none proved."""
    if [finding.answer for finding in check_declared(content)] != ["proved"]:
        return None
    return DeclaredProof(content).find


class DeclaredProof(Exposing):
    """Exact limits of the vectors of a file whose values were declared."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        policy, told = content["policy"], content["proof"]["allow"]["declared"]
        self.k, self.population = whole_number(policy["k"]), whole_number(policy["population"])
        self.users, self.budget = users_of(content), exact(policy["budget"])
        self.components = {each["name"]: each for each in content["components"]}
        self.levels = {name: set(levels) for name, levels in content["declared"].items()}
        self.most, vectors = _tested(content["components"])
        sample, self.once = policy.get("sample", {}), told["once"]
        look = sample.get("look")
        # Exact limits are of plain draws: see docs/certificate/declared.md, "Beside scores".
        is_plain = sample.get("bias", 1) == 1 and not sample.get("fake_share", 0)
        is_plain &= sample.get("strata") is None and sample.get("cluster") is None
        is_plain &= not policy.get("realised") and policy.get("visits", "last") == "last"
        require(holds=is_plain and content["missing"] != "exposed", what="declared: other users")
        # The vectors share their part of delta, so a file with fewer would give each too much.
        require(holds=told["vectors"] == vectors > 0, what="declared: vectors")
        may_once = content.get("design") is not None or look == "first"
        require(holds=isinstance(self.once, bool) and self.once <= may_once, what="declared: once")
        # The first look and all later ones have a half each.
        most = tested_level(content) * DECLARED / (1 if look is None else 2) / vectors
        require(holds=0 < told["delta"] <= most, what="declared: level")
        self.delta = exact(told["delta"])

    def find(self, apis: Sequence[str], groups: Sequence[Group]) -> tuple[Range, Range]:
        """Return whether a vector is allowed, and whether it is blocked, by its exact limits."""
        nothing, unknown = Range(surely=False, perhaps=False), Range(surely=False, perhaps=True)
        support = self._support(apis)
        if support is None:
            return nothing, nothing
        counts = Counter[int]()
        for least, most, inside in groups:
            if least != most:  # pooled
                return unknown, unknown
            counts[least] += inside // least
        # More values than were declared: a level that somebody showed another value at.
        if counts.total() > support:
            return nothing, nothing
        with ctx.workprec(PRECISION):
            lower, upper = self._limits(counts, support)
            slack = exact(ROUNDED_TEST)
            return (
                Range(bool(upper <= self.budget), bool(upper + slack <= self.budget)),
                Range(bool(lower > self.budget), bool(lower - slack > self.budget)),
            )

    def _support(self, apis: Sequence[str]) -> int | None:
        support, shown = 1, dict[str, int]()
        for word in apis:
            name, _, text = word.rpartition("=")
            shown[name] = max(int(text), shown.get(name, 0))
        for name, component in self.components.items():
            level = shown.get(name, 0)
            values = _values(component, level)
            if values is None or (level and level not in self.levels.get(name, ())):
                return None
            support *= values
        # Only vectors that were counted in have a part of delta.
        return support if 1 < support <= self.most else None

    def _limits(self, counts: Mapping[int, int], support: int) -> tuple[arb, arb]:
        """Return limits of the exposure that are beyond those of the theorem."""
        nats = (support / (self.delta * exact(1 - UNSEEN))).log()
        unseen = support - sum(counts.values())
        sets = arb(math.comb(support, unseen)) * (support + 1) / (self.delta * exact(UNSEEN))
        _, together = self._shares(0, sets.log())
        least = most = arb(0)
        safest, safe = arb(0), arb(0)
        for count, values in counts.items():
            low, high = self._shares(count, nats)
            at = low * self._exposed(low), high * self._exposed(high)
            # p F(p) rises up to one share and falls beyond it: largest there, or at the nearer end.
            falls = at[0] if self._slope(low) <= 0 else self._peak
            top = at[1] if self._slope(high) >= 0 else falls
            least += values * at[0].min(at[1])
            most += values * top
            safest += values * (low - at[0])
            safe += values * (high - at[1])
        # Both lines of docs/certificate/declared.md, by values with the same count together.
        return least.max(1 - together - safe), (most + together).min(1 - safest)

    @cached_property
    def _peak(self) -> arb:
        return self._most_exposed()

    def _shares(self, count: int, nats: arb) -> tuple[arb, arb]:
        """Limits of a share, proved to be beyond those of the level."""
        find = self._tails if self.once else self._evidence
        low = find(count, nats, upper=False) if count else 0.0
        return exact(low), exact(find(count, nats, upper=True) if count < self.users else 1.0)

    def _tails(self, count: int, nats: arb, *, upper: bool) -> float:
        """Find a share at which a count so far off has half of the level: Clopper and Pearson."""
        tail, rest = (-nats).exp() / 2, self.users - count
        a, b = (rest, count + 1) if upper else (count, rest + 1)
        found = float(scipy.special.betaincinv(a, b, float(tail)))
        # SciPy finds the share, the ball proves it; where that fails by rounding, a wider one.
        for wider in (WIDER, 1e-9, 1e-6):
            q = found * (1 - wider)
            if q > 0 and exact(q).beta_lower(arb(a), arb(b), 1) <= tail:
                return math.nextafter(1 - q, 2) if upper else q
        return float(upper)

    def _evidence(self, count: int, nats: arb, *, upper: bool) -> float:
        """Find a share that the mixture rules out, by halving."""
        out, possible = float(upper), count / self.users
        half, c, rest = exact(0.5), arb(count), arb(self.users - count)
        # ln B(c + 1/2, m - c + 1/2); B(1/2, 1/2) is pi.
        level = (c + half).lgamma() + (rest + half).lgamma() - arb(self.users + 1).lgamma()
        level -= arb.pi().log() + nats
        for _ in range(HALVINGS):
            middle = (out + possible) / 2
            p = exact(middle)
            likely = (c * p.log() if count else arb(0)) + rest * (1 - p).log()
            # `out` is proved at each step, so too few steps give a limit that is wider.
            out, possible = (middle, possible) if likely <= level else (out, middle)
        return out


def _values(component: Mapping[str, Any], level: int) -> int | None:
    """Count the values that a component may show at a level; None where there is no end."""
    if not level:
        return 1
    shows = component["levels"][-level]
    if shows.get("sizes"):
        return len(shows["sizes"]) + 1
    if shows.get("top"):
        each = len({*shows["top"], "other"})
    elif shows.get("edges") and shows.get("regex") is None:
        each = len(shows["edges"]) + MORE
    else:
        return None
    return int((each + NO_VALUES) ** len(component["apis"]))


def _tested(components: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return the most values of a vector that is tested, and how many vectors have no more."""
    # Number of values -> vectors that have so many; to list all vectors would take too long.
    numbers = {1: 1}
    for component in components:
        more = Counter[int]()
        for level in range(whole_number(component["least"]), whole_number(component["most"]) + 1):
            values = _values(component, level)
            for known, vectors in numbers.items():
                if values is not None and known * values <= MOST_VALUES:
                    more[known * values] += vectors
        numbers = dict(more)
    numbers.pop(1, None)
    most, total = 0, 0
    for values, vectors in sorted(numbers.items()):
        if total + vectors > MOST_VECTORS:
            break
        most, total = values, total + vectors
    return most, total
