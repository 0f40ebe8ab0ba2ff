"""The cheapest list of controls after which a site can read no more than an allowed set."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from fpmonitor.export.effect import left_readable, still_told, tellers
from fpmonitor.export.enforce import changed_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.decide.decision import Decision, Verdict
    from fpmonitor.export.controls import Control, Product
    from fpmonitor.export.effect import Teller

    _Price = tuple[int, int]
    _Priced = tuple[_Price, tuple[Control, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Controls, and what they leave."""

    controls: tuple[Control, ...]  # In the order of the table.
    left: tuple[str, ...]  # Candidates that stay readable, all together; the verdict is on them.
    changed: tuple[str, ...]  # All APIs that the controls change, candidates or not: the price.
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the CLI prints it."""
        return {
            "verdict": self.verdict,
            "controls": [control.name for control in self.controls],
            "left": list(self.left),
            "changed": list(self.changed),
        }


def cheapest_plan(decision: Decision, controls: Sequence[Control], product: Product) -> Plan | None:
    """Plan after which the decision allows all that is left; null when there is none.

    The price is the number of APIs that are changed, then the number of controls; no other plan of
    these controls costs less. What is left is within an allowed set, so that the guarantee of the
    decision, which holds for all its sets at once, holds for the plan that was picked among many.
    """
    candidates, means = decision.policy.candidates, decision.means
    tellers_by_api = tellers(candidates, means, product)
    needed = {
        api: still_told([means(api), *tellers_by_api[api]], (), product) for api in candidates
    }
    hiders = {
        one: tuple(c for c in controls if not still_told([one], [c], product))
        for one in chain(*needed.values())
    }
    best: _Priced | None = None
    # The largest first: beside them little has to be hidden, and a low price cuts off the rest.
    for allowed in sorted([*decision.allow, ()], key=len, reverse=True):
        blocked = chain(*(needed[api] for api in candidates if api not in allowed))
        # What the same controls hide, is hidden together.
        alike = {hiders[one]: one for one in dict.fromkeys(blocked)}
        best = _completed((), list(alike.values()), hiders, best)
    if best is None:
        return None
    return plan_of(decision, sorted(best[1], key=controls.index), product)


def plan_of(decision: Decision, controls: Iterable[Control], product: Product) -> Plan:
    """Say what given controls leave of a decision's candidates."""
    controls = tuple(controls)
    left = left_readable(decision.policy.candidates, controls, product, decision.means)
    return Plan(
        controls=controls,
        left=left,
        changed=tuple(sorted(_changed(controls))),
        verdict=decision.verdict(left)[0],
    )


def _changed(controls: Iterable[Control]) -> list[str]:
    controls = tuple(controls)
    return changed_by(controls, {api for control in controls for api in control.effects})


def _completed(
    chosen: tuple[Control, ...],
    open_apis: Sequence[Teller],
    hiders: Mapping[Teller, Sequence[Control]],
    best: _Priced | None,
) -> _Priced | None:
    """Complete the controls `chosen` so that they hide all that is open, if cheaper than the best.

    Branch and bound: prices only grow, so that a costly start is given up.
    """
    price = _price_of(chosen)
    if best is not None and price >= best[0]:
        return best
    if not open_apis:
        return price, chosen
    # Where there is least choice the search branches least.
    hardest = min(open_apis, key=lambda api: len(hiders[api]))
    for control in sorted(hiders[hardest], key=lambda one: _price_of((*chosen, one))):
        left = [api for api in open_apis if control not in hiders[api]]
        best = _completed((*chosen, control), left, hiders, best)
    return best


def _price_of(controls: Sequence[Control]) -> _Price:
    return len(_changed(controls)), len(controls)
