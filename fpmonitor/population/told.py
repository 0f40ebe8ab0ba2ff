"""A source of spectra as an audience is told them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fpmonitor.disclosure import Audience, told_spectra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.population.memory import MemorySource
    from fpmonitor.population.snapshot import SpectrumQueries
    from fpmonitor.spectrum import CountSpectrum

Which = Literal["most", "least"]


@dataclass(frozen=True, slots=True, eq=False)
class ToldSource:
    """What others are told of spectra.

    Attributes
    ----------
    source
        The spectra as they are.
    k
        Anonymity threshold, users.
    which
        The most or the least exposing case.
    """

    source: MemorySource | SpectrumQueries
    k: int
    which: Which

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self.source.apis

    @property
    def users(self) -> int:
        """Number of users."""
        return self.source.users

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`, as it is told."""
        told = told_spectra(self.source.spectrum(apis), self.k, Audience.OTHERS)
        return told.most if self.which == "most" else told.least
