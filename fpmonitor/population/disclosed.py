"""A source of spectra as an audience is told them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fpmonitor.disclosure import Audience, disclosed_spectra
from fpmonitor.population.beside import SourceBeside
from fpmonitor.population.visits import VisitSource
from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra, SpectrumSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
        told = self.disclosed(apis)
        return told.least if self.is_least else told.most

    def disclosed(self, apis: Sequence[str]) -> DisclosedSpectra:
        """Return what is told of a set."""
        spectrum = self.known.get(tuple(sorted(set(apis)))) or self.source.spectrum(apis)
        return disclosed_spectra(spectrum, self.k, Audience.OTHERS)


@dataclass(frozen=True, slots=True, eq=False)
class DisclosedDraws(SpectrumSource):
    """Draws of one visit of each user, each told as the values of users are.

    Counted together, one exposed user would be as many as the draws that find it.
    """

    draws: tuple[DisclosedSource, ...]

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self.draws[0].apis

    @property
    def users(self) -> int:
        """Number of users."""
        return self.draws[0].users

    @property
    def least(self) -> DisclosedDraws | None:
        """What is told in the least exposing case; null for itself."""
        least = tuple(found for each in self.draws if (found := each.least) is not None)
        return DisclosedDraws(least) if least else None

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of all draws, as it is told."""
        return CountSpectrum.together(each.spectrum(apis) for each in self.draws)


def disclosed_to(
    audience: Audience, source: SpectrumSource, k: int, *, sets: Sequence[Sequence[str]] = ()
) -> SpectrumSource:
    """Return the spectra as an audience is told them, those of each unit and of each draw.

    Those of some `sets` are counted at once, for the most and the least exposing case together.
    """
    if audience is Audience.OWNER:
        return source
    if isinstance(source, SourceBeside):
        parts = source.parts.items()
        return SourceBeside(
            {name: disclosed_to(audience, each, k, sets=sets) for name, each in parts}
        )
    if isinstance(source, VisitSource):
        return DisclosedDraws(tuple(_disclosed(each, k, sets) for each in source.draws))
    return _disclosed(source, k, sets)


def _disclosed(source: SpectrumSource, k: int, sets: Sequence[Sequence[str]]) -> DisclosedSource:
    # Where the least case has a source of its own, its spectra are others.
    counted = sets if source.least is None else ()
    keys = (tuple(sorted(set(apis))) for apis in counted)
    return DisclosedSource(source, k, dict(zip(keys, source.spectra(counted), strict=True)))


def told_parts(source: SpectrumSource, apis: Sequence[str]) -> list[DisclosedSpectra]:
    """Return what is told of a set, of each draw by itself where these are told apart."""
    if isinstance(source, DisclosedDraws):
        return [each.disclosed(apis) for each in source.draws]
    told = source.disclosed(apis)
    if told is None:
        told = DisclosedSpectra.all_of(source.spectrum(apis))
    return [told]
