"""Spectra of the users, and of other units of the same users beside them, by name.

A condition of sets may be about another unit than the users' values: all visits of each of them, or
pairs of visits some days apart. Each has a source of its own over the same APIs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fpmonitor.errors import InputError
from fpmonitor.spectrum import CountSpectrum, SpectrumSource

if TYPE_CHECKING:
    from fpmonitor.policy import Policy
    from fpmonitor.population.memory import MemorySource

USERS, PATH, VISIT = "users", "path", "visit"


def draws_by_unit(policy: Policy) -> dict[str, int]:
    """Return the units that must keep the budget, the users' values first -> draws of each user."""
    _, *others = policy.units.items()
    return {USERS: policy.draws, **dict(others)}


def days_in_words(days: float) -> str:
    """Name the pairs of visits so many days apart, as the option does."""
    return f"{days:.10g}d"


@dataclass(frozen=True, slots=True, eq=False)
class SpectrumBeside(CountSpectrum):
    """The spectrum of the users' values, and those of the other units."""

    parts: Mapping[str, CountSpectrum]

    @classmethod
    def of(cls, parts: Mapping[str, CountSpectrum]) -> SpectrumBeside:
        """Put spectra of one set beside each other."""
        return cls(parts[USERS].counts, parts[USERS].values, parts)


@dataclass(frozen=True, eq=False)
class SourceBeside(SpectrumSource):
    """A source of the users' values, and those of the other units."""

    parts: Mapping[str, SpectrumSource]

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self.parts[USERS].apis

    @property
    def users(self) -> int:
        """Number of users."""
        return self.parts[USERS].users

    def selected(self, apis: Sequence[str]) -> SourceBeside:
        """Return what counts fewer APIs, of the same visits; paths are never asked for."""
        parts = self.parts.items()
        return SourceBeside(
            {name: cast("MemorySource", each).selected(apis) for name, each in parts}
        )

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectra of the tuples of the values of `apis`."""
        return SpectrumBeside.of({name: each.spectrum(apis) for name, each in self.parts.items()})

    @property
    def least(self) -> SourceBeside | None:
        """What is told of each unit in the least exposing case; null where all is told."""
        least = {name: each.least for name, each in self.parts.items()}
        if not any(least.values()):
            return None
        # A unit of which all is told is the same in either case.
        return SourceBeside({name: least[name] or each for name, each in self.parts.items()})

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[CountSpectrum]:
        """Count spectra of the sets, in their order."""
        wanted = [*sets]
        spectra_of_parts = [each.spectra(wanted) for each in self.parts.values()]
        return [
            SpectrumBeside.of(dict(zip(self.parts, found, strict=True)))
            for found in zip(*spectra_of_parts, strict=True)
        ]


def unit_source(source: SpectrumSource, name: str) -> SpectrumSource:
    """Return the source of a unit.

    Raises:
        InputError: These counts do not tell it.
    """
    if isinstance(source, SourceBeside) and name in source.parts:
        return source.parts[name]
    if name == USERS:
        return source
    raise _unknown(name)


def unit_spectrum(spectrum: CountSpectrum, name: str) -> CountSpectrum:
    """Return the spectrum of a unit; errors as of `unit_source`."""
    if isinstance(spectrum, SpectrumBeside) and name in spectrum.parts:
        return spectrum.parts[name]
    if name == USERS:
        return spectrum
    raise _unknown(name)


def units_beside(source: SpectrumSource) -> dict[str, int]:
    """Count the users of each unit beside the users' values."""
    parts = source.parts if isinstance(source, SourceBeside) else {}
    return {name: each.users for name, each in parts.items() if name != USERS}


def _unknown(name: str) -> InputError:
    return InputError(
        f"these counts do not tell visits ({name})", hint="ask of a database, as its owner"
    )
