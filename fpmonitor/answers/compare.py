"""Two populations side by side: exposure in both, and what the difference can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fpmonitor.population.sample import sample_members
from fpmonitor.results import Result
from fpmonitor.unit import Unit, weakest

if TYPE_CHECKING:
    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.decide.decision import Decision, Verdict

Estimator = Literal["unbiased", "plug-in"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSet(Result):
    """One API set in two populations.

    Attributes:
        before, after: Exposure in both, with limits.
        estimator: `unbiased`; `plug-in` where one of the populations is larger than its users.
        estimates: Of both by this estimator, before and after, shares.
        lower, upper: Limits of the difference of the exposures, each wrong with probability at most
            twice the delta of one limit.
    """

    before: ExposureReport
    after: ExposureReport
    estimator: Estimator
    estimates: tuple[float, float]
    lower: float
    upper: float

    @property
    def difference(self) -> float:
        """After minus before, of the estimates."""
        return self.estimates[1] - self.estimates[0]

    @property
    def unit(self) -> Unit:
        """What was counted in both."""
        return weakest([self.before.unit, self.after.unit])

    @property
    def change(self) -> str:
        """`more` or `less` exposed for sure, else `cannot tell`."""
        if self.lower > 0:
            return "more"
        return "less" if self.upper < 0 else "cannot tell"

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as the CLI prints it."""
        sides = {
            f"{name}_{side}": getattr(report, name)
            for side, report in (("before", self.before), ("after", self.after))
            for name in ("users", "lower", "unbiased", "upper", "entropy_bits")
        } | {
            f"{name}_{side}": value
            for side, report in (("before", self.before), ("after", self.after))
            for name, value in sample_members(report.sample, report.drawn).items()
        }
        return {
            "apis": list(self.before.apis),
            **sides,
            "estimator": self.estimator,
            "estimate_before": self.estimates[0],
            "estimate_after": self.estimates[1],
            "difference": self.difference,
            "difference_lower": self.lower,
            "difference_upper": self.upper,
            "change": self.change,
            "masked": sorted({*self.before.masked, *self.after.masked}),
        }


def compare_sets(before: ExposureReport, after: ExposureReport) -> ComparedSet:
    """Compare one set in two populations that were asked the same question."""
    # One kind for both: against an unbiased estimate the bias of a plug-in one looks like a change.
    estimator: Estimator = "unbiased"
    first, second = before.unbiased, after.unbiased
    if first is None or second is None:
        estimator, first, second = "plug-in", before.plug_in, after.plug_in
    return ComparedSet(
        before=before,
        after=after,
        estimator=estimator,
        estimates=(first, second),
        # Wrong only where one of two limits is, hence twice delta, also where users are in both.
        lower=after.lower - before.upper,
        upper=after.upper - before.lower,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedDecision(Result):
    """What one API set gets by two decisions; null where one does not decide on it."""

    apis: tuple[str, ...]
    before: Verdict | None
    after: Verdict | None


def compare_decisions(before: Decision, after: Decision) -> list[ComparedDecision]:
    """Compare two decisions, of other policies, times or users, on every set that either lists.

    Lines that differ come first, the smallest sets first.
    """
    listed = {
        apis
        for decision in (before, after)
        for apis in (
            *((api,) for api in decision.policy.candidates),
            *decision.allow,
            *decision.block,
            *decision.undecided,
        )
    }
    lines = [
        ComparedDecision(apis=apis, before=_verdict(before, apis), after=_verdict(after, apis))
        for apis in listed
    ]
    return sorted(lines, key=lambda line: (line.before == line.after, len(line.apis), line.apis))


def _verdict(decision: Decision, apis: tuple[str, ...]) -> Verdict | None:
    if not set(apis) <= set(decision.policy.candidates):
        return None
    return decision.verdict(apis)[0]
