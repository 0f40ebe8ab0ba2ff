"""A source of spectra as an audience is told them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fpmonitor.disclosure import Audience, disclosed_spectra
from fpmonitor.spectrum import SpectrumSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, eq=False)
class DisclosedSource(SpectrumSource):
    """What others are told of spectra: the most exposing case, and the `least` exposing one."""

    source: SpectrumSource  # The spectra as they are.
    k: int  # Anonymity threshold, users.
    # Spectra of some sets, sorted, that were counted elsewhere.
    known: Mapping[tuple[str, ...], CountSpectrum] = field(default_factory=dict)
    is_least: bool = False

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self.source.apis

    @property
    def users(self) -> int:
        """Number of users."""
        return self.source.users

    @property
    def least(self) -> DisclosedSource | None:
        """What is told in the least exposing case; null for itself."""
        if self.is_least:
            return None
        return replace(self, source=self.source.least or self.source, is_least=True)

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`, as it is told."""
        spectrum = self.known.get(tuple(sorted(set(apis)))) or self.source.spectrum(apis)
        spectra = disclosed_spectra(spectrum, self.k, Audience.OTHERS)
        return spectra.least if self.is_least else spectra.most


def disclosed_to(
    audience: Audience, source: SpectrumSource, k: int, *, sets: Sequence[Sequence[str]] = ()
) -> SpectrumSource:
    """Return the spectra as an audience is told them.

    Those of some `sets` are counted at once, for the most and the least exposing case together.
    """
    if audience is Audience.OWNER:
        return source
    counted = sets if source.least is None else ()
    keys = (tuple(sorted(set(apis))) for apis in counted)
    return DisclosedSource(source, k, dict(zip(keys, source.spectra(counted), strict=True)))
