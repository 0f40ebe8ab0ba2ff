"""Users that look automated: how many, by which sign, and what they do to the exposure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.answers.sets import sorted_sets
from fpmonitor.disclosure import Audience, may_count_below, publishable_count, publishable_total
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.population.robots import robots_list
from fpmonitor.population.snapshot import check_values_kept
from fpmonitor.results import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.population.population import Population
    from fpmonitor.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationReport(Result):
    """What looks automated among the observed users; counts below k are null.

    Attributes:
        users: Observed users.
        automated: Those that show any sign; null also where the count of one sign is.
        share: The same as a share of the observed users.
        signs: Sign -> users that show it; one user may show several.
        exposures: API set -> share of the users in groups smaller than k, with and without the
            automated; null where nobody is left, and for others where it is not told how many were
            left out.
        masked: APIs of the sets whose volatile values the view masks.
        robots_by: The list by which user agents are those of robots, and its date.
        unit: What was counted: see `fpmonitor.unit`.
    """

    JSON: ClassVar[str] = "users automated share signs exposure=compared masked robots_by unit"
    RARE: ClassVar[str] = "unit"

    users: int
    automated: int | None
    share: float | None
    signs: Mapping[str, int | None]
    exposures: Mapping[tuple[str, ...], tuple[float, float | None]]
    masked: tuple[str, ...] = ()
    robots_by: str = ""
    unit: Unit = "user"

    @property
    def compared(self) -> list[dict[str, Any]]:
        """Exposure of each set, with and without the automated, as the CLI prints it."""
        return [
            {"apis": apis, "all": everybody, "without_automation": human}
            for apis, (everybody, human) in self.exposures.items()
        ]


def report_automation(
    population: Population,
    sets: Iterable[Sequence[str]] = (),
    *,
    k: int = 10,
    show_counts_below_k: bool = False,
) -> AutomationReport:
    """Describe the users that look automated, and what leaving them out does to some API sets.

    Args:
        population: The users; those that its view would leave out are counted.
        k: Anonymity threshold; counts of fewer users are not shown.
        show_counts_below_k: Show them all the same, to the owner.
    """
    check_values_kept(population.snapshot, "automation")
    audience = population.audience
    unsafe = may_count_below(audience, wanted=show_counts_below_k)
    least = 0 if unsafe else k
    # Signs are counted among all, also where the question leaves automation out.
    everybody = population.seen_by(replace(population.view, drop_automation=False))
    users, signs = everybody.users, everybody.signs
    automated = everybody.automated
    # Signs overlap: the total less those that are told would bound one that is hidden.
    visible = publishable_total(automated, [*signs.values(), users - automated], least, audience)
    human = None
    # Without its users' number, the exposure of the others is not told either: it divides by it.
    if automated < users and (audience is Audience.OWNER or visible is not None):
        human = population.seen_by(replace(population.view, drop_automation=True))
    wanted = sorted_sets(population.named(apis) for apis in sets)
    return AutomationReport(
        users=users,
        automated=visible,
        share=None if visible is None else visible / users,
        signs={sign: publishable_count(count, least, audience) for sign, count in signs.items()},
        exposures={
            apis: (
                empirical_exposure(everybody.disclosed(apis, k).most, k),
                None if human is None else empirical_exposure(human.disclosed(apis, k).most, k),
            )
            for apis in wanted
        },
        masked=everybody.masked({api for apis in wanted for api in apis}, k),
        robots_by=robots_list(),
        unit=population.unit,
    )
