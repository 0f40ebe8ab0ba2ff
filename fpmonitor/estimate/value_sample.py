"""A sample of values in place of users: few of the values, chosen by a secret hash, but all users.

A value is kept where a keyed word of it is below a threshold, which has probability `2^-level`, and
all its users are counted. Small groups stay whole, so limits stay sharp where a sample of users
would break them up. Theorem and proofs: docs/certificate.md, section 19.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.exposure import exposure_probability, subsample_exposure_probability
from fpmonitor.estimate.limits import Limits, exposure_limits
from fpmonitor.estimate.looks import Criteria, Drawing, decision_criteria

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum

LAST_LEVEL = 40
ENTRIES = 1_000_000  # values to keep at most, where nobody says how many
WORD_BITS = 64
_PLANNED = Fraction(3, 4)  # of delta, for the level that was planned
_NEXT = Fraction(1, 4)  # of the level before, for each above it


def planned_level(users: int, entries: int) -> int:
    """Return the first level at which no more values than `entries` are expected, by users alone.

    Raises:
        PolicyError: `entries` is not a positive whole number.
    """
    if entries < 1:
        raise PolicyError("entries", f"must be a positive whole number, got {entries}")
    return min(max((max(users, 1) - 1) // entries, 0).bit_length(), LAST_LEVEL)


def level_share(level: int, planned: int | None = None) -> float:
    """Share of delta that the tests at a level have.

    Args:
        level: Values are kept with probability `2^-level`.
        planned: The level that was planned before the values were seen, if they may have raised it:
            any rule may choose the level then. None where the level was fixed.

    Raises:
        InputError: A level below the one that was planned, or no level.
    """
    if not 0 <= level <= LAST_LEVEL:
        raise InputError(f"level: must be 0 to {LAST_LEVEL}, got {level}")
    if planned is None:
        return 1.0
    if level < planned:
        raise InputError(f"level: {level} is below the {planned} that was planned")
    return float(_PLANNED * _NEXT ** (level - planned))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ValueLimits:
    """Limits of the exposure of a set, from the users of the values that are kept."""

    limits: Limits  # Of one set that was fixed before the values were chosen.
    k: int
    population: int
    level: int

    def of(self, spectrum: CountSpectrum | None) -> tuple[float, float]:
        """Lower and upper limit, shares; None where no value is kept."""
        if spectrum is not None:
            return self.limits.of(spectrum)
        # No value kept is a score of 0, which rules out large exposures.
        return self.limits.of_part(None, math.log(self.limits.bases / self.limits.delta))

    def estimate(self, spectrum: CountSpectrum | None) -> float:
        """Estimated exposure, a share: unbiased for a population of up to `m`, else plug-in.

        Nothing is said of how far it may be off.
        """
        if spectrum is None:
            return 0.0
        users = self.limits.users
        if self.population <= users:
            exposed = subsample_exposure_probability(
                spectrum.counts, k=self.k, population=self.population, users=users
            )
        else:
            exposed = exposure_probability(
                spectrum.counts / users, k=self.k, population=self.population
            )
        return min(float(exposed @ spectrum.members) * 2.0**self.level / users, 1.0)


def value_limits(
    *,
    users: int,
    k: int,
    population: int,
    delta: float,
    level: int,
    planned: int | None = None,
    tests: int = 1,
) -> ValueLimits:
    """Limits of the exposure of a set by the spectrum of the values that are kept.

    Args:
        users: `m`, users that the values were chosen from, exactly.
        delta: Tolerated probability that any of the upper limits is wrong, and that any lower one
            is.
        tests: Number of sets whose limits hold together, fixed before the values were chosen.
    """
    limits = exposure_limits(
        users=users,
        k=k,
        population=population,
        delta=_delta_of_test(delta, users, level, planned, tests),
        drawing=Drawing(expected=users, value_share=0.5**level),
    )
    return ValueLimits(limits=limits, k=k, population=population, level=level)


def value_criteria(
    *,
    users: int,
    k: int,
    population: int,
    budget: float,
    delta: float,
    level: int,
    planned: int | None = None,
    tests: int = 1,
) -> Criteria:
    """Return tests of sets that were fixed before the values were chosen, each as of one API.

    Parameters as of `value_limits`; `budget` is `Q*`, a share of the users.
    """
    return decision_criteria(
        users=users,
        k=k,
        population=population,
        budget=budget,
        delta=_delta_of_test(delta, users, level, planned, tests),
        universe=1,
        drawing=Drawing(expected=users, value_share=0.5**level),
    )


def _delta_of_test(delta: float, users: int, level: int, planned: int | None, tests: int) -> float:
    """Return what is left of delta for each test, where two kept values may have one word."""
    if tests < 1:
        raise PolicyError("tests", f"must be a positive whole number, got {tests}")
    share = delta * level_share(level, planned) / tests
    # m^2 theta / 2^65 of docs/certificate/values.md.
    alike = users * users * 0.5 ** (WORD_BITS + 1 + level)
    # At least half of delta must be left, or the tests would say next to nothing.
    if not alike < share / 2:
        raise PolicyError(
            "delta", f"is too small for words of {WORD_BITS} bits of so many users' values"
        )
    return share - alike
