"""From a decision to one action per API."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal

from fpmonitor.export.controls import BELIEVED
from fpmonitor.export.effect import tellers
from fpmonitor.population.evidence import lack_in_words
from fpmonitor.vocabulary import is_known

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision
    from fpmonitor.export.controls import Product


Outcome = Literal["exposed", "withheld", "no evidence"]
_NEVER = "left out by --never"


@dataclass(frozen=True, slots=True)
class ApiAction:
    """What a product does with one API, and why."""

    api: str  # What the log calls it.
    # outcome, reason: What becomes of it, and why.
    outcome: Outcome
    reason: str
    means: str  # API of the vocabulary, which products know; `api` where nobody knows it.

    @property
    def is_withheld(self) -> bool:
        """Whether sites shall not read it; where there is no evidence, too."""
        return self.outcome != "exposed"


def api_actions(
    decision: Decision, product: Product = BELIEVED, *, by_information: bool = False
) -> list[ApiAction]:
    """Return one action per candidate: the recommended set is exposed, all others withheld.

    One site may read subsets of one allowed set only, so a list without state must keep to one.
    `by_information` also withholds APIs that are no candidates and tell what a withheld one tells
    in a product.
    """
    actions = [_action(decision, api) for api in decision.policy.candidates]
    if by_information:
        actions += [
            ApiAction(name, "withheld", f"reveals what {', '.join(apis)} reveals", name)
            for name, apis in told_elsewhere(decision, product).items()
        ]
    return actions


def told_elsewhere(decision: Decision, product: Product = BELIEVED) -> dict[str, list[str]]:
    """Return API that is no candidate -> the blocked candidates that it tells as well, sorted.

    As it was found in a product; without one, or where nobody looked, as the vocabulary says.
    """
    candidates_by_api: dict[str, list[str]] = {}
    for api, found in tellers(decision.policy.candidates, decision.means, product).items():
        if api in decision.recommended:
            continue
        for name in {one if isinstance(one, str) else one[2] for one in found}:
            if is_known(name) and not product.lacks(name):
                candidates_by_api.setdefault(name, []).append(api)
    return {name: sorted(apis) for name, apis in sorted(candidates_by_api.items())}


def _action(decision: Decision, api: str) -> ApiAction:
    means = decision.means(api)
    if api in decision.recommended:
        return ApiAction(api, "exposed", "in the recommended set", means)
    if api in decision.no_evidence:
        lack = lack_in_words(decision.no_evidence[api], decision.policy.k)
        return ApiAction(api, "no evidence", f"no evidence: {lack}", means)
    verdict, _ = decision.verdict([api])
    if verdict == "block":
        return ApiAction(api, "withheld", "above the budget alone", means)
    if verdict in {"undecided", "unknown"}:
        reason = "undecided alone" if verdict == "undecided" else "no listed set settles it"
        return ApiAction(api, "withheld", _NEVER if _was_left_out(decision, api) else reason, means)
    together, because = decision.verdict([*decision.recommended, api])
    if together == "block":
        reason = f"above the budget together with {_others(because, api)}"
        return ApiAction(api, "withheld", reason, means)
    return ApiAction(api, "withheld", "undecided together with the recommended set", means)


def _was_left_out(decision: Decision, api: str) -> bool:
    if decision.search is not None:
        return api in decision.search.never
    # Beside an allowed set, each API that was searched is listed with it or its parts.
    listed = chain(*decision.allow, *decision.block, *decision.undecided)
    return decision.complete and bool(decision.allow) and api not in listed


def _others(apis: tuple[str, ...], api: str) -> str:
    return ", ".join(other for other in apis if other != api) or "the recommended set"
