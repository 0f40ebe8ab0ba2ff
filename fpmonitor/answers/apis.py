"""One line per API: who has it, how many values, entropy and exposure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fpmonitor.disclosure import Audience, may_count_below, may_name, publishable_part
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.population.population import Population
from fpmonitor.results import Result
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.unit import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOverview(Result):
    """What was observed of one API; null where fewer than k users have it.

    Attributes:
        api: What the log calls it.
        users: Users with an observation of it; others are told that all have it where fewer than k
            lack it.
        coverage: The same as a share of all users.
        values: Distinct values, absent not counted; for others as many as can be, absent counted.
        entropy_bits: Shannon entropy over all users, absent a value of its own, bits.
        exposure: Share of all users in groups smaller than k, absent a value of its own; others are
            told that of k - 1 users where they are fewer.
        volatile: Whether browsers of some users randomise it by design, and no data contradict
            that.
        changes: Share of the users who came back whose value had changed; null where none did, and
            for others where fewer than k had or had not.
        means: What the vocabulary calls it; null where nobody knows.
        suppressed: Whether fewer than k users are exposed, and others are not told how many:
            `values`, entropy and exposure are then those of k - 1 users.
        unit: What was counted: see `fpmonitor.unit`.
    """

    RARE: ClassVar[str] = "suppressed unit"

    api: str
    users: int | None
    coverage: float | None
    values: int | None
    entropy_bits: float | None
    exposure: float | None
    volatile: bool = False
    changes: float | None = None
    means: str | None = None
    suppressed: bool = False
    unit: Unit = "user"


def list_apis(
    population: Population, *, k: int = 10, show_counts_below_k: bool = False
) -> list[ApiOverview]:
    """Describe every API whose name may be told, the most exposing first.

    Args:
        k: Anonymity threshold; counts of fewer users are not shown.
        show_counts_below_k: Show them all the same, to the owner.
    """
    unsafe = may_count_below(population.audience, wanted=show_counts_below_k)
    # Users whom the view leaves out come back where they, or the others, are fewer than k.
    population = population.without_few(k)
    volatile, changes = population.volatile(k), population.changes(k)
    lines = [
        replace(
            _overview(population, api, users, k=k, unsafe=unsafe),
            volatile=api in volatile,
            changes=changes.get(api),
        )
        for api, users in population.users_of_apis().items()
        if may_name(users, k, population.audience)
    ]
    # Null is of APIs of few users: last, and by name among equals.
    return sorted(lines, key=lambda line: (-(line.exposure or 0), line.api))


def _overview(population: Population, api: str, users: int, *, k: int, unsafe: bool) -> ApiOverview:
    everybody, audience = population.users, population.audience
    has_k = unsafe or users >= k
    shown = users if unsafe else publishable_part(users, everybody, k)
    if audience is Audience.OTHERS:
        # The same where all have it and where fewer than k lack it.
        shown = users if everybody - users >= k else everybody
    spectra = population.disclosed([api], k)
    spectrum = spectra.most
    return ApiOverview(
        api=api,
        means=population.means.get(api),
        users=shown,
        coverage=None if shown is None else shown / everybody,
        values=_values(spectrum, everybody - users, audience)
        if has_k or shown is not None
        else None,
        entropy_bits=entropy_bits(spectrum) if has_k or shown is not None else None,
        exposure=empirical_exposure(spectrum, k) if has_k or shown is not None else None,
        suppressed=spectra.suppressed and audience is Audience.OTHERS,
        unit=population.unit,
    )


def _values(spectrum: CountSpectrum, absent: int, audience: Audience) -> int:
    """Count distinct values without absent; others are not told whether anybody lacks the API."""
    # Others are told all as having the API where fewer than k lack it: absent is one value more.
    return spectrum.support - (absent > 0 and audience is Audience.OWNER)
