"""A source of spectra as an audience is told them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fpmonitor.disclosure import Audience, told_spectra
from fpmonitor.errors import UndecidableError
from fpmonitor.estimate.thinning import seed_of, thinned_spectrum
from fpmonitor.population.sample import digest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.population.memory import MemorySource
    from fpmonitor.population.snapshot import SpectrumQueries
    from fpmonitor.spectrum import CountSpectrum

Which = Literal["most", "least"]


@dataclass(frozen=True, slots=True, eq=False)
class ToldSource:
    """What others are told of spectra; it thins what is told, by draws that follow from it alone.

    Attributes
    ----------
    source
        The spectra as they are.
    k
        Anonymity threshold, users.
    which
        The most or the least exposing case.
    thinning
        Mean and seed of the thinning; None where all users count.
    """

    source: MemorySource | SpectrumQueries
    k: int
    which: Which
    thinning: tuple[float, int] | None = None

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self.source.apis

    @property
    def users(self) -> int:
        """Number of users, before a thinning."""
        return self.source.users

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`, as it is told.

        Raises
        ------
        UndecidableError
            The thinning keeps nobody.
        """
        told = told_spectra(self.source.spectrum(apis), self.k, Audience.OTHERS)
        spectrum = told.most if self.which == "most" else told.least
        if self.thinning is None:
            return spectrum
        mean, seed = self.thinning
        drawn = seed_of("told", str(seed), digest_of(spectrum))
        thinned = thinned_spectrum(spectrum, mean=mean, most=spectrum.users, seed=drawn)
        if thinned is None:
            raise UndecidableError(f"{self.users} users are too few to decide anything")
        return thinned

    def thinned(self, *, mean: float, seed: int) -> ToldSource:
        """Thin what is told of each set."""
        return ToldSource(self.source, self.k, self.which, (mean, seed))
