"""One line per API: who has it, how many values, entropy and exposure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fpmonitor.disclosure import most_exposing, publishable_part
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.results import Result

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOverview(Result):
    """What was observed of one API; null where fewer than k users have it.

    Attributes
    ----------
    api
        Its name.
    users
        Users with an observation of it.
    coverage
        The same as a share of all users.
    values
        Distinct values, absent not counted.
    entropy_bits
        Shannon entropy over all users, absent a value of its own, bits.
    exposure
        Share of all users in groups smaller than k, absent a value of its own; that of k - 1 users
        where they are fewer, but not none.
    volatile
        Whether its value changes between visits of one user by design; null when not known.
    """

    api: str
    users: int | None
    coverage: float | None
    values: int | None
    entropy_bits: float | None
    exposure: float | None
    volatile: bool | None

    def to_json(self) -> dict[str, Any]:
        """Return the line as the CLI prints it."""
        return asdict(self)


def overview_of_api(
    api: str,
    spectrum: CountSpectrum,
    *,
    absent: int,
    volatile: bool | None = None,
    k: int,
    show_counts_below_k: bool = False,
) -> ApiOverview:
    """Describe one API.

    Parameters
    ----------
    api
        Its name.
    spectrum
        Its count spectrum over all users, absent a value of its own.
    absent
        Users without an observation of it.
    volatile
        Whether some browsers change its value by design; null when not known.
    k
        Counts of users below it are not shown.
    show_counts_below_k
        Show them all the same.
    """
    users = spectrum.users - absent
    shown = show_counts_below_k or publishable_part(users, spectrum.users, k) is not None
    told = spectrum if show_counts_below_k else most_exposing(spectrum, k)
    return ApiOverview(
        api=api,
        users=users if shown else None,
        coverage=users / spectrum.users if shown else None,
        values=spectrum.support - (absent > 0) if users >= k or shown else None,
        entropy_bits=entropy_bits(told) if users >= k or shown else None,
        exposure=empirical_exposure(told, k) if users >= k or shown else None,
        volatile=volatile,
    )
