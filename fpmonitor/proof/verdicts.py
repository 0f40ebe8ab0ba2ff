"""Finds the verdict on every listed set of a decision file again, by count spectra."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from flint import arb, ctx

from fpmonitor.proof.design import DesignProof, designs_of
from fpmonitor.proof.numbers import (
    PRECISION,
    REFUSED,
    ROUNDED_TEST,
    Answer,
    Finding,
    Group,
    exact,
    ratio,
    require,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

VERDICTS = ("allow", "block", "undecided")  # of listed sets
DRAWS = 16  # of one visit of each user
LISTED = 1023  # sets that are not allowed, up to which a search blocks all that it can


class Range(NamedTuple):
    """Whether something holds for the least, and for the most that a pooled spectrum may be."""

    surely: bool
    perhaps: bool

    def without(self, other: Range) -> Range:
        """Whether this holds and the other does not."""
        return Range(self.surely and not other.perhaps, self.perhaps and not other.surely)

    def beside(self, other: Range) -> Range:
        """Whether one of the two holds."""
        return Range(self.surely or other.surely, self.perhaps or other.perhaps)

    @property
    def answer(self) -> Answer:
        """What an audit answers."""
        return "proved" if self.surely else "cannot tell" if self.perhaps else "not proved"


class Test:
    """What a side of a file finds out of a set, by its spectrum."""

    def __init__(
        self, proof: dict[str, Any], draws: int = 1, kind: type[DesignProof] = DesignProof
    ) -> None:
        self.sign, self.draws = proof["sign"], draws
        self.limits: list[float] = proof.get("nats") or proof["limits"]
        self.plain = None if "designs" in proof else proof["weights"]
        self.designs: list[tuple[arb, arb, arb, list[float]]] = []
        self.is_whole = True
        with ctx.workprec(PRECISION):
            try:
                for content in [] if self.plain is not None else designs_of(proof):
                    one = kind(content)
                    of = one.share, one.sign * one.scale, one.price(), content["weights"]
                    self.designs.append(of)
            except REFUSED:
                self.is_whole = False

    def above(self, groups: Sequence[Group], size: int) -> Range:
        """Whether a set is not allowed by the side that allows, or blocked by the other one."""
        if not self.is_whole:
            # A side that cannot be read proves nothing: no set is allowed, and none is blocked.
            return Range(self.sign < 0, self.sign < 0)
        if self.plain is not None:
            points, limit = self._means(self.plain, groups), Fraction(self.limits[size])
            return Range(points[0] > limit, points[1] > limit)
        with ctx.workprec(PRECISION):
            least, most = arb(0), arb(0)
            for share, scale, price, weights in self.designs:
                # For sign -1 the larger score is the smaller evidence.
                nats = sorted(
                    (scale * ratio(each) - price for each in self._means(weights, groups)),
                    key=float,
                )
                least += share * nats[0].exp()
                most += share * nats[1].exp()
            threshold, low, high = exact(self.limits[size]), least.log(), most.log()
            # what a test in floating point leaves open, it does not decide
            rounding = ROUNDED_TEST * (1 + threshold + abs(high))
            if self.sign > 0:
                return Range(bool(low >= threshold), not high < threshold)
            return Range(bool(high < threshold + rounding), not low >= threshold)

    def _means(
        self, weights: Sequence[float], groups: Sequence[Group]
    ) -> tuple[Fraction, Fraction]:
        least, most = sums(weights, groups)
        return least / self.draws, most / self.draws


def sums(weights: Sequence[float], groups: Sequence[Group]) -> tuple[Fraction, Fraction]:
    """Least and largest sum of weights over the users, where groups are known to be of a range."""
    low = high = Fraction(0)
    last = len(weights) - 1
    for fewest, most, users in groups:
        # A pooled group may be of any size between: the extremes of all of these weights.
        part = weights[min(fewest, last) : min(most, last) + 1]
        low += Fraction(min(part)) * users
        high += Fraction(max(part)) * users
    return low, high


def users_of(content: Mapping[str, Any]) -> int:
    """Return the users by whom the listed sets were judged."""
    confirmed = content.get("confirmation")
    if confirmed is not None:
        return whole_number(confirmed["searched"])
    data = content.get("data", content)  # of levels, files of before told it beside the rest
    return whole_number(data["users"])


def listed(content: Mapping[str, Any], verdict: str) -> list[tuple[tuple[str, ...], int]]:
    """List the sets of a verdict and their sizes; level vectors as NAME=LEVEL, and their ranks."""
    if not content.get("components"):
        return [(tuple(apis), len(apis)) for apis in content[verdict]]
    least = {each["name"]: whole_number(each["least"]) for each in content["components"]}

    def rank(levels: Mapping[str, int]) -> int:
        above = sum(max(whole_number(level) - least[name], 0) for name, level in levels.items())
        return max(above, int(any(least.values())))

    return [
        (tuple(f"{name}={level}" for name, level in levels.items()), rank(levels))
        for levels in content[verdict]
    ]


def unions_of(content: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """List the verdict on each union with the set of another decision, and the union."""
    recommended = content.get("recommended") or ()
    return [
        (each["verdict"], tuple(sorted({*recommended, *each["apis"]})))
        for each in content.get("union_with", ())
    ]


def largest_of(content: Mapping[str, Any]) -> int:
    """Return of how many APIs the largest set is, with those of other decisions."""
    others = [api for each in content.get("union_with", ()) for api in each["apis"]]
    return len({*content["policy"]["candidates"], *others})


def tested_level(content: Mapping[str, Any]) -> float:
    """Return the level of all tests; what tells cohorts has a share of it where others might."""
    policy = content["policy"]
    level: float = content.get("level") or policy["delta"]
    cohorts = policy.get("cohorts") or {}
    few, most = len({*cohorts.get("given", ())}), len({*cohorts.get("menu", ())})
    if not most:
        return level
    chosen = {*cohorts["given"]} <= {*cohorts["menu"]} and few > 0
    require(holds=chosen, what="another question: the menu of cohorts")
    return level * (1 / (few * (few + 1) * math.comb(most, few)))


def draws_of(policy: Mapping[str, Any]) -> int:
    """Return over how many draws of one visit of each user scores are means: see visits.md."""
    return DRAWS if policy.get("visits") in {"visit", "both"} else 1


def check_sets(
    content: dict[str, Any],
    groups: Mapping[tuple[str, ...], Iterable[Group]],
    others: Mapping[tuple[str, ...], Iterable[Group]] | None = None,
    *,
    keeps: Callable[[tuple[str, ...], int], Range] | None = None,
    declared: Callable[[tuple[str, ...], list[Group]], tuple[Range, Range]] | None = None,
) -> Iterator[Finding]:
    """Find the verdict on every listed set of a decision file again.

    Args:
        content: The file, as a parser of JSON returns it.
        groups: Count spectra of the sets: how many users are in groups of how many, or of few to
            many.
        others: Where some users were searched, whose spectra these are: those of the sets of each
            chain among all others.
        keeps: Whether a set of a size keeps what else is asked of it: see `conditions`.
        declared: Whether exact limits allow, and block, a vector with a spectrum: see `declared`.
    """
    allow, block = (content["proof"][side] for side in ("allow", "block"))
    users, refused = users_of(content), len(content["block"]) + len(content["undecided"])
    draws = draws_of(content["policy"])
    tests = Test(allow, draws), Test(block, draws)
    confirmed = _Chains(content, others)
    for side, sets in (("confirmed", confirmed.within), ("refuted", confirmed.above)):
        for apis, holds in sets.items():
            yield Finding(side, apis, holds.answer)
    claims = [(one, one, *told) for one in VERDICTS for told in listed(content, one)]
    claims += [(f"union: {one}", one, apis, len(apis)) for one, apis in unions_of(content)]
    for claim, verdict, apis, size in claims:
        if verdict not in VERDICTS:
            yield Finding(claim, apis, "cannot tell", "it was not tested")
            continue
        spectrum = [*groups.get(apis, ())]  # none of a set that the file names otherwise
        known = all(0 < least <= most and inside > 0 for least, most, inside in spectrum)
        if not known or sum(inside for _, _, inside in spectrum) != users * draws:
            yield Finding(claim, apis, "not proved", "not a spectrum of the users")
            continue
        if size >= min(len(test.limits) for test in tests):
            yield Finding(claim, apis, "not proved", "no limit for so many APIs")
            continue
        # Not allowed by the users searched, unless others confirmed a set that holds it.
        outside = tests[0].above(spectrum, size).without(confirmed.allows(apis))
        if keeps is not None:
            keeping = keeps(apis, size)
            outside = outside.beside(Range(not keeping.perhaps, not keeping.surely))
        blocked = tests[1].above(spectrum, size).beside(confirmed.blocks(apis))
        if declared is not None:
            allowed, refuted = declared(apis, spectrum)
            outside, blocked = outside.without(allowed), blocked.beside(refuted)
        is_tried = claim != verdict or (content["complete"] and refused <= LISTED)
        # Of what is listed it may be that nobody tried to block it.
        undecided = outside.without(blocked) if is_tried else outside
        within = Range(not outside.perhaps, not outside.surely)
        holds = {"allow": within, "block": blocked, "undecided": undecided}[verdict]
        yield Finding(claim, apis, holds.answer)


class _Chains:
    """What the tests of chains of nested sets found, on users who were not searched.

    `within` and `above` say of each set that the file calls confirmed, or refuted, whether it is.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        groups: Mapping[tuple[str, ...], Iterable[Group]] | None,
    ) -> None:
        self.within: dict[tuple[str, ...], Range] = {}
        self.above: dict[tuple[str, ...], Range] = {}
        confirmation = content.get("confirmation")
        if confirmation is None or groups is None:
            return
        chains = [[tuple(apis) for apis in chain] for chain in confirmation["chains"]]
        tested = {
            side: {apis: test.above([*groups[apis]], 1) for chain in chains for apis in chain}
            for side, test in (
                (side, Test(confirmation["proof"][side])) for side in ("allow", "block")
            )
        }
        passed = {apis: Range(not r.perhaps, not r.surely) for apis, r in tested["allow"].items()}
        self.within = _up_to(confirmation["confirmed"], chains, passed)
        self.above = _up_to(confirmation["refuted"], [c[::-1] for c in chains], tested["block"])

    def allows(self, apis: Iterable[str]) -> Range:
        """Whether a set is within one that is confirmed."""
        found = [r for larger, r in self.within.items() if set(apis) <= set(larger)]
        return Range(any(r.surely for r in found), any(r.perhaps for r in found))

    def blocks(self, apis: Iterable[str]) -> Range:
        """Whether a set holds one that is refuted."""
        found = [r for smaller, r in self.above.items() if set(smaller) <= set(apis)]
        return Range(any(r.surely for r in found), any(r.perhaps for r in found))


def _up_to(
    passing: Iterable[Iterable[str]],
    chains: Iterable[Sequence[tuple[str, ...]]],
    passed: Mapping[tuple[str, ...], Range],
) -> dict[tuple[str, ...], Range]:
    """Whether each set comes in a chain, after none but such as passed, and passed itself."""
    found = {}
    for apis in map(tuple, passing):
        runs = [
            [passed[each] for each in chain[: chain.index(apis) + 1]]
            for chain in chains
            if apis in chain
        ]
        found[apis] = Range(
            any(all(each.surely for each in run) for run in runs),
            any(all(each.perhaps for each in run) for run in runs),
        )
    return found
