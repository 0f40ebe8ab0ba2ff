"""The exposure curve of one API set with its confidence band."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.disclosure import least_exposing, most_exposing
from fpmonitor.estimate.exposure import exposure_curve, gamma_dkw, limits_within
from fpmonitor.policy import MAX_POPULATION, check_threshold
from fpmonitor.results import Result

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Exposure at one threshold.

    Attributes
    ----------
    threshold
        Users: those in smaller groups are exposed (strict).
    share
        The threshold as a share `t` of the observed users.
    empirical
        Share of the observed users in groups smaller than the threshold.
    lower, upper
        Limits of `Q(t)`, the share of the population whose value has probability below `t`.
    """

    threshold: int
    share: float
    empirical: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveReport(Result):
    """Exposure curve of an API set, wherever it steps.

    Attributes
    ----------
    apis
        The set.
    users
        Observed users.
    delta
        Tolerated probability that any limit at any threshold fails.
    points
        Increasing in the threshold; between two points the curve is that of the later one.
    """

    apis: tuple[str, ...]
    users: int
    delta: float
    points: tuple[CurvePoint, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each point."""
        return [asdict(point) for point in self.points]

    def to_json(self) -> dict[str, Any]:
        """Return the curve as the CLI prints it."""
        return asdict(self)


def report_curve(
    apis: tuple[str, ...],
    spectrum: CountSpectrum,
    *,
    k: int,
    delta: float,
    show_counts_below_k: bool = False,
) -> CurveReport:
    """Exposure curve with limits that hold at all thresholds together.

    Where 1 to k - 1 users are in groups smaller than k, the curve is the most exposing one, with
    the lower limits of the least exposing.

    Parameters
    ----------
    apis
        The set.
    spectrum
        Its count spectrum.
    k
        Smallest threshold that is shown: smaller ones would tell how many users are in groups of
        each size below it.
    delta
        Tolerated probability that any limit fails, in (0, 1).
    show_counts_below_k
        Show all thresholds.

    Raises
    ------
    PolicyError
        A number is out of its range.
    """
    check_threshold(k, MAX_POPULATION)
    curve = least = exposure_curve(spectrum)
    if not show_counts_below_k:
        curve = exposure_curve(most_exposing(spectrum, k))
        least = exposure_curve(least_exposing(spectrum, k))
    thresholds = np.union1d(curve.thresholds, [k])
    if not show_counts_below_k:
        thresholds = thresholds[thresholds >= k]
    shares = thresholds / spectrum.users
    gamma = gamma_dkw(spectrum.users, delta)
    lower, upper = limits_within(least, gamma, shares)[0], limits_within(curve, gamma, shares)[1]
    empirical = curve.exposure[curve.position(thresholds)]
    columns = (thresholds, shares, empirical, lower, upper)
    return CurveReport(
        apis=apis,
        users=spectrum.users,
        delta=delta,
        points=tuple(
            CurvePoint(threshold=c, share=t, empirical=q, lower=low, upper=high)
            for c, t, q, low, high in zip(*(column.tolist() for column in columns), strict=True)
        ),
    )
