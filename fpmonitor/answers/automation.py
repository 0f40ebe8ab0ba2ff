"""Users that look automated: how many, by which sign, and what they do to the exposure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fpmonitor.disclosure import most_exposing, publishable_count, publishable_total
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.results import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationReport(Result):
    """What looks automated among the observed users; counts below k are null.

    Attributes
    ----------
    users
        Observed users.
    automated
        Those that show any sign; null also where the count of one sign is.
    share
        The same as a share of the observed users.
    signs
        Sign -> users that show it; one user may show several.
    exposures
        API set -> share of the users in groups smaller than k, with and without the automated;
        null where nobody is left.
    """

    users: int
    automated: int | None
    share: float | None
    signs: Mapping[str, int | None]
    exposures: Mapping[tuple[str, ...], tuple[float, float | None]]

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        return {
            "users": self.users,
            "automated": self.automated,
            "share": self.share,
            "signs": dict(self.signs),
            "exposure": [
                {"apis": list(apis), "all": everybody, "without_automation": human}
                for apis, (everybody, human) in self.exposures.items()
            ],
        }


def report_automation(
    signs: Mapping[str, int],
    *,
    users: int,
    automated: int,
    exposures: Mapping[tuple[str, ...], tuple[CountSpectrum, CountSpectrum | None]],
    k: int,
    show_counts_below_k: bool = False,
) -> AutomationReport:
    """Describe the users that look automated.

    Parameters
    ----------
    signs
        Sign -> users that show it.
    users, automated
        Observed users, and those that show any sign.
    exposures
        API set -> its count spectrum over all users, and over those that show no sign.
    k
        Anonymity threshold; counts of users below it, other than none, are not shown.
    show_counts_below_k
        Show them all the same.
    """
    least = 0 if show_counts_below_k else k
    visible = publishable_total(automated, [*signs.values(), users - automated], least)
    return AutomationReport(
        users=users,
        automated=visible,
        share=None if visible is None else visible / users,
        signs={sign: publishable_count(count, least) for sign, count in signs.items()},
        exposures={
            apis: (
                _told_exposure(everybody, k, least),
                None if human is None else _told_exposure(human, k, least),
            )
            for apis, (everybody, human) in exposures.items()
        },
    )


def _told_exposure(spectrum: CountSpectrum, k: int, least: int) -> float:
    return empirical_exposure(most_exposing(spectrum, k) if least else spectrum, k)
