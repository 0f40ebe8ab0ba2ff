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
    search = _Search(hiders)
    # The largest first: beside them little has to be hidden, and a low price cuts off the rest.
    for allowed in sorted([*decision.allow, ()], key=len, reverse=True):
        blocked = chain(*(needed[api] for api in candidates if api not in allowed))
        # What the same controls hide, is hidden together.
        alike = {hiders[one]: one for one in dict.fromkeys(blocked)}
        search.hide(list(alike.values()), ())
    if search.best is None:
        return None
    return plan_of(decision, sorted(search.best, key=controls.index), product)


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


class _Search:
    """Branch and bound over controls; prices only grow, so that a costly start is given up."""

    def __init__(self, hiders: Mapping[Teller, Sequence[Control]]) -> None:
        self.best: tuple[Control, ...] | None = None
        self._hiders = hiders
        self._price: _Price | None = None

    def hide(self, apis: Sequence[Teller], chosen: tuple[Control, ...]) -> None:
        """Complete the controls `chosen` so that they hide all of `apis`, if that is cheaper."""
        price = _price_of(chosen)
        if self._price is not None and price >= self._price:
            return
        open_apis = [api for api in apis if not set(self._hiders[api]) & set(chosen)]
        if not open_apis:
            self.best, self._price = chosen, price
            return
        # Where there is least choice the search branches least.
        hardest = min(open_apis, key=lambda api: len(self._hiders[api]))
        for control in sorted(self._hiders[hardest], key=lambda c: _price_of((*chosen, c))):
            self.hide(open_apis, (*chosen, control))


def _price_of(controls: Sequence[Control]) -> _Price:
    return len(_changed(controls)), len(controls)
