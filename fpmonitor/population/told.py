"""A source of spectra as an audience is told them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fpmonitor.disclosure import Audience, told_spectra

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

Which = Literal["most", "least"]


@dataclass(frozen=True, slots=True, eq=False)
class ToldSource:
    """What others are told of spectra."""

    source: SpectrumSource  # The spectra as they are.
    k: int  # Anonymity threshold, users.
    which: Which  # The most or the least exposing case.
    # Spectra of some sets, sorted, that were counted elsewhere.
    known: Mapping[tuple[str, ...], CountSpectrum] = field(default_factory=dict)

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
        spectrum = self.known.get(tuple(sorted(set(apis)))) or self.source.spectrum(apis)
        told = told_spectra(spectrum, self.k, Audience.OTHERS)
        return told.most if self.which == "most" else told.least
