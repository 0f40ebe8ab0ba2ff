"""The evidence of one window about a decision, and how windows without end share delta.

A window passes when its e-value reaches `1 / (delta share (1 + passes))`, with shares that add up
to 1. Of all passes, on average at most delta are then wrong, however much the windows have in
common (e-LOND: Xu and Ramdas 2023).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fpmonitor.estimate.evalues import log_mean, log_share, window_test
from fpmonitor.estimate.looks import level_terms
from fpmonitor.population.beside import USERS, draws_by_unit, unit_spectrum

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.estimate.evalues import WindowTest
    from fpmonitor.policy import Policy
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

_USUAL_TERM = 5.0  # nats that a window needs beyond delta; only sharpness depends on it
_DESIGN_SIZE = 3  # APIs of the sets that are tested sharpest
_EARLIER = 0.1  # share of delta of the windows before the first that was checked


def identity_of(decision: Decision) -> str:
    """Digest of what a decision says: its policy and its lists, whenever and of which days."""
    content = decision.to_json()
    # What is told beside the question and its lists: the same list decided again is the same.
    content["data"].pop("days", None)
    side = (content.get("proof") or {}).get("allow", {})
    for test in (side, *side.get("links", ())):
        test.pop("days", None)
    for name in ("seconds", "evaluated", "made"):
        content.pop(name, None)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence about every set of a list, nats, after the price of their choice."""

    # Its least exponential is an e-value for "some set is above the budget".
    within: tuple[float, ...]
    # Its largest exponential is an e-value for "all sets are within the budget".
    above: tuple[float, ...]

    def lowered(self, other: Evidence) -> Evidence:
        """Return the least of both, set by set."""
        return Evidence(
            within=tuple(map(min, self.within, other.within)),
            above=tuple(map(min, self.above, other.above)),
        )

    def joined(self, other: Evidence, price: float) -> Evidence:
        """Return this evidence, and after it that about other sets at a price, nats."""
        return Evidence(
            within=(*self.within, *(found - price for found in other.within)),
            above=(*self.above, *other.above),
        )

    def split(self, number: int) -> tuple[Evidence, Evidence]:
        """Return the evidence about the first sets, and about the others."""
        return (
            Evidence(within=self.within[:number], above=self.above[:number]),
            Evidence(within=self.within[number:], above=self.above[number:]),
        )

    def verdicts(
        self, sets: tuple[ApiSet, ...], terms: tuple[float, float]
    ) -> dict[ApiSet, Verdict]:
        """Verdict on each set, by the evidence that each side needs, nats."""
        passes, violates = terms
        return {
            apis: "allow" if within >= passes else "block" if above >= violates else "undecided"
            for apis, within, above in zip(sets, self.within, self.above, strict=True)
        }


def weigh(
    decision: Decision, source: SpectrumSource, *, new_users: bool, by_any: bool = True
) -> Evidence:
    """Weigh every set on the allow list of a decision on the users of one window.

    Args:
        new_users: Whether the list was decided on none of these users; it then has no price.
        by_any: Whether a set is above the budget that is so by any unit that must keep it; by the
            first one alone as decisions block sets.
    """
    policy, sets = decision.policy, decision.allow
    delta_term = _USUAL_TERM - math.log(policy.delta or 1.0)
    if new_users:
        # "Some set is above" costs nothing where users had no part in the list; "none is" does.
        prices = [(0.0, math.log(len(sets)))] * len(sets)
        usual = (0.0, math.log(_DESIGN_SIZE))
    else:
        allow, block = prices_of_choice(decision)
        prices = [(float(allow[len(apis)]), float(block[len(apis)])) for apis in sets]
        # For blocking, sets of one to three APIs have one level.
        usual = (float(allow[min(_DESIGN_SIZE, len(allow) - 1)]), float(block[1]))
    test = window_test(
        users=source.users,
        k=policy.k,
        population=policy.population,
        budget=policy.budget,
        log_terms=(delta_term + usual[0], delta_term + usual[1]),
        monotone=source.least is not None,
        factors=policy.sample.departure.factors,
    )
    units = tests_by_unit(policy, test)
    found = source.spectra(sets)
    lowest = found if source.least is None else source.least.spectra(sets)
    return Evidence(
        # One set breaks one condition or more, and which follows from no user.
        within=tuple(
            min(each.log_within(unit_spectrum(spectrum, name)) for name, each in units.items())
            - price
            for spectrum, (price, _) in zip(found, prices, strict=True)
        ),
        above=tuple(
            log_above(units if by_any else {USERS: units[USERS]}, spectrum) - price
            for spectrum, (_, price) in zip(lowest, prices, strict=True)
        ),
    )


def tests_by_unit(policy: Policy, test: WindowTest) -> dict[str, WindowTest]:
    """Return the test of each unit that must keep the budget."""
    return {unit: replace(test, draws=draws) for unit, draws in draws_by_unit(policy).items()}


def log_above(units: Mapping[str, WindowTest], spectrum: CountSpectrum) -> float:
    """Evidence that a set is above the budget by some unit, nats.

    The mean of e-values is one, however much the units have in common.
    """
    return log_mean([test.log_above(unit_spectrum(spectrum, name)) for name, test in units.items()])


def prices_of_choice(decision: Decision) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Evidence that the choice among all sets of each size from 0 costs, nats: within, above.

    Whoever chose the list by these users could have chosen another view of them as well. A window
    is one look: it needs no share of the bases.
    """
    policy = decision.policy
    delta = policy.delta or 1.0
    universe = decision.universe or len(policy.candidates)
    # The level already holds the weight of the view, which could have been chosen, too.
    allow, block = level_terms(decision.level or delta, universe)
    return allow + math.log(delta), block + math.log(delta)


def needed_evidence(delta: float, *, place: int, successes: int) -> float:
    """Evidence that a window needs, nats.

    Args:
        delta: Tolerated share of wrong outcomes among all of this kind, on average.
        place: Place of the window by the calendar: 0 for the first that was checked, negative
            before it. So the shares of delta do not follow from which windows are chosen.
        successes: Outcomes of this kind so far.
    """
    if place < 0:
        # Logs of earlier days may come late: without a share of theirs they could never be judged.
        share = math.log(_EARLIER) + log_share(-place)
    else:
        share = math.log1p(-_EARLIER) + log_share(place + 1)
    return -math.log(delta) - share - math.log1p(successes)
