"""The headline of a list: how much of what it withholds is hidden, and what a site still reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.export.controls import BELIEVED
from fpmonitor.export.effect import left_readable, left_unchanged
from fpmonitor.policy import DOWN, UP, as_written, per_cent, rounded
from fpmonitor.vocabulary import base_api, known_apis

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from fpmonitor.decide.decision import Decision, Verdict
    from fpmonitor.export.controls import Control, Product


def between_shares(limits: tuple[float, float]) -> str:
    """Write limits of a share in per cent, to two digits: the lower one down, the upper one up."""
    low, high = (
        f"{rounded(100 * as_written(limit), away, digits=2):f}"
        for limit, away in zip(limits, (DOWN, UP), strict=True)
    )
    return high if low == high else f"{low} to {high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One number and one verdict on a list."""

    # hidden, withheld: APIs that the product hides, by every name that tells the same, of those
    # that the list withholds.
    hidden: int
    withheld: int
    left: tuple[str, ...]  # Candidates that stay readable.
    verdict: Verdict  # What the decision says of reading `left`.
    budget: float  # Its budget.
    # Of the exposure of what stays readable, in [0, 1]; null where no users were asked.
    limits: tuple[float, float] | None
    # How much of all that pages can read the list is about.
    scope: str
    # The same for what the product can reach: answers to the scripts of pages, frames and workers;
    # null where it reaches all.
    near: Headline | None = None
    # Of what `near` calls hidden, the APIs that layout or drawing tell, sorted.
    laid_out: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all that is withheld is hidden."""
        return self.hidden == self.withheld

    @property
    def keeps_promise(self) -> bool:
        """Whether what stays readable is a set that the decision allows."""
        return self.verdict == "allow"

    @property
    def text(self) -> str:
        """Say the number and the verdict."""
        number = f"{self.hidden:,} of {self.withheld:,} withheld APIs are hidden"
        if self.is_whole and self.keeps_promise:
            return f"{number}."
        return f"{number}: a site still reads sets that {self._exposure}."

    @property
    def texts(self) -> tuple[str, ...]:
        """Say it, and beside it what holds within reach of the product."""
        if self.near is None:
            return (self.text,)
        near = (
            f"From what APIs answer to the page's own scripts, frames and workers, {self.near.text}"
        )
        if not self.laid_out:
            return (self.text, near)
        opening = f"Layout and drawing still reveal {len(self.laid_out):,} of them: "
        return (self.text, near, f"{opening}{', '.join(self.laid_out)}.")

    @property
    def _exposure(self) -> str:
        budget = f"{per_cent(self.budget)} % of the users"
        if self.limits is not None:
            return f"expose {between_shares(self.limits)} % of the users"
        if self.verdict == "allow":
            return f"expose at most {budget}"
        if self.verdict == "block":
            return f"expose more than {budget}"
        if self.verdict == "no evidence":
            return "hold APIs without evidence"
        return f"are not certified to expose at most {budget}"


def scope_of(decision: Decision, product: Product = BELIEVED) -> str:
    """Say how much of all that pages can read in a product a list of a decision is about."""
    about, readable = _counts(decision, product)
    joined = [each.digest[:12] for each in decision.union_with if each.verdict == "allow"]
    said = (
        f"This list covers {about:,} of the {readable:,} known APIs that this product lets pages "
        "read. Its budget is for this list alone, without the list of another decision."
    )
    if joined:  # other allowed sets, which gates have, were not tested with any
        one = ", but of only one of these" * (len(joined) > 1)
        said += f" Its recommended set may be read with that of {' or '.join(joined)}{one}."
    return said


def _counts(decision: Decision, product: Product) -> tuple[int, int]:
    """Count the APIs that a list is about, and those that the product lets pages read."""
    has = {api for api in known_apis() if not product.lacks(api)}
    meant = {decision.means(api) for api in decision.policy.candidates}
    return len({api if api in has else base_api(api) for api in meant} & has), len(has)


def headline_of(
    decision: Decision,
    withheld: Mapping[str, bool],
    controls: Collection[Control],
    product: Product,
    measure: Callable[[tuple[str, ...], tuple[str, ...]], tuple[float, float]] | None,
) -> Headline:
    """Judge a list by the controls that are in force with it.

    Args:
        decision, withheld: What is carried out, and of each API that is withheld whether a control
            hides it.
        controls, product: All controls in force, those of the product itself included; what is
            known of the product.
        measure: Limits of the exposure of what stays readable at most, and at least; null without
            users.
    """
    candidates = decision.policy.candidates
    left = left_readable(candidates, controls, product, decision.means)
    least = left_unchanged(candidates, controls, product, decision.means)
    return Headline(
        hidden=sum(enforced and api not in left for api, enforced in withheld.items()),
        withheld=len(withheld),
        left=left,
        verdict=decision.verdict(left)[0],
        budget=decision.policy.budget,
        limits=None if measure is None else measure(left, least),
        scope=scope_of(decision, product),
    )
