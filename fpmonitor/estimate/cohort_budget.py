"""A budget for every cohort: users who share values that sites see in any case.

A cohort K has the exposure `Q_K = sum_{v in K} p_v F(p_v) / P(K)`, with groups among all users. Is
it at most a budget `q` for all cohorts of at least a share s? For one design, whose line is
`ln E exp(-phi(C)) <= p (a F(p) + b)` for `C ~ Poisson(M p)`, put `mu >= M + a q + b` and
`e^t = M / mu`. Then `exp(t N_K - sum_{v in K} phi(c_v))` has a mean of at most 1 among Poisson(mu)
users wherever `Q_K >= q`, whatever the share of K is: no share of it need be known. Designs for
several shares are added up, with one more that rules out cohorts of s of whom few were seen.

Sets keep any number of such conditions at the price of one: the law alone names the one that is
broken. Proofs: docs/certificate/people.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.averaging import Clock, averaged, clock, design_base
from fpmonitor.estimate.criterion import Criterion
from fpmonitor.estimate.looks import PLAIN_DRAWING, Drawing, base_cells, level_terms
from fpmonitor.estimate.poisson import ExposureFunction
from fpmonitor.spectrum import CohortSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.averaging import AveragedScore, Base
    from fpmonitor.estimate.looks import Serving
    from fpmonitor.policy import CohortBudget
    from fpmonitor.spectrum import CountSpectrum

_SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)  # of cohorts that designs are made for
_SAME_SHARE = 1.01
_DESIGN_SIZE = 3  # APIs of the sets that are decided sharpest: one design for all, or LYM breaks
_ROUNDING = 1e-9  # relative
_TILTS = np.geomspace(1e-3, 10, 200)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CohortPart:
    """A design for cohorts of a share, at one number of users."""

    score: AveragedScore  # Its weights by count: those of thinnings that are tilted by `e^t`.
    mean: float  # `mu`, mean number of users of a thinning, which the budget has lowered.
    thinnings: Clock  # Of as many users.
    by_user: float  # What a user of the cohort adds, nats, at most.

    @classmethod
    def of(cls, base: Base, *, users: int) -> CohortPart:
        """Lower the mean of a base, and tilt its thinnings back."""
        # mu >= M + a q + b of docs/certificate/people.md; the bound, a q + b, is negative.
        mean = base.mean + base.bound
        mean += _ROUNDING * abs(mean)  # a larger one is as good
        growth = base.mean / mean - 1
        thinnings = clock(users, mean)
        # 1 - f + f e^t, with e^t - 1 = growth: what tilting a binomial of one user divides by.
        normalisers = 1 + thinnings.shares * growth
        tilted = Clock(
            shares=thinnings.shares * (1 + growth) / normalisers,
            weights=thinnings.weights,
            log_factor=thinnings.log_factor,
        )
        by_user = float(thinnings.weights @ np.log(normalisers))
        return cls(
            score=averaged(base, users=users, thinnings=tilted),
            mean=mean,
            thinnings=thinnings,
            # Always downwards: what users add is evidence for the cohort.
            by_user=by_user - _ROUNDING * abs(by_user),
        )

    @property
    def constant(self) -> float:
        """What the logarithm of the e-value is without users, nats."""
        return self.thinnings.log_factor - self.score.charge

    def to_json(self, share: float) -> dict[str, Any]:
        """Tell all that the theorem needs: numbers without loss."""
        return {
            **self.score.to_json(),
            "clock": self.thinnings.to_json(),
            "lowered": self.mean,
            "by_user": self.by_user,
            "share": share,
        }


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UnseenCohorts:
    """What rules out cohorts of a share of whom few were seen, or nobody."""

    mean: float  # Mean number of users of a thinning.
    thinnings: Clock  # Of as many users.
    tilt: float  # `h`: a user of the cohort counts `exp(-h)`.
    by_user: float  # What a user of the cohort adds, nats, negative.
    bonus: float  # What the share of the cohort adds, nats.

    @classmethod
    def of(cls, mean: float, *, users: int, least_share: float, log_term: float) -> UnseenCohorts:
        """Choose the tilt that exempts the largest cohorts."""
        bonuses = least_share * mean * -np.expm1(-_TILTS)
        # A cohort of N users passes by this part alone while h N is below the bonus less the price.
        tilt = float(_TILTS[((bonuses - log_term) / _TILTS).argmax()])
        thinnings = clock(users, mean)
        by_user = float(thinnings.weights @ np.log1p(thinnings.shares * math.expm1(-tilt)))
        bonus = -least_share * mean * math.expm1(-tilt)
        return cls(
            mean=mean,
            thinnings=thinnings,
            tilt=tilt,
            by_user=by_user - _ROUNDING * abs(by_user),
            bonus=bonus - _ROUNDING * bonus,
        )

    @property
    def constant(self) -> float:
        """What the logarithm of the e-value is without users, nats."""
        return self.thinnings.log_factor + self.bonus

    def to_json(self, share: float) -> dict[str, Any]:
        """Tell all that the theorem needs: numbers without loss."""
        return {
            "mean": self.mean,
            "clock": self.thinnings.to_json(),
            "tilt": self.tilt,
            "by_user": self.by_user,
            "bonus": self.bonus,
            "share": share,
        }


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CohortTest:
    """A condition of sets: no cohort of a least share is above its budget.

    It passes for a set where its score is at most the limit of the size, as a `Criterion`; larger
    sets have larger scores.
    """

    parts: tuple[CohortPart, ...]  # Designs, each with the weight of all.
    unseen: UnseenCohorts  # What rules out cohorts of whom few were seen.
    least_share: float  # Share of all users from which on a cohort counts.
    worst_share: bool  # Whether any cohorts count that have it together.
    log_terms: NDArray[np.float64]  # float64, evidence that sets of each size need, nats.
    largest: None = None

    @property
    def limits(self) -> NDArray[np.float64]:
        """Limit of the score by size of the set, also of the one without any API."""
        return -self.log_terms

    @property
    def share(self) -> float:
        """Weight of each design."""
        return (1 - _ROUNDING) / (len(self.parts) + 1)

    def score(self, spectrum: CountSpectrum) -> float:
        """Return the evidence for the worst cohort, or cohorts, nats, with its sign turned."""
        if not self.worst_share:
            return -float(self.evidence(spectrum).min())
        # Without the cohort that nobody saw: it adds nothing to any union.
        added = self._added(spectrum)[:, :-1]
        found = evidence_together(self._constants + math.log(self.share), added)
        return _ROUNDING * (1 + abs(found)) - found

    def evidence(self, spectrum: CountSpectrum) -> NDArray[np.float64]:
        """Return the evidence for each cohort seen, and last for one that was not, nats."""
        nats = self._constants[:, None] + self._added(spectrum)
        found = scipy.special.logsumexp(nats, axis=0) + math.log(self.share)
        return np.asarray(found - _ROUNDING * np.abs(found))

    @property
    def _constants(self) -> NDArray[np.float64]:
        """What each design has without users, nats, that for cohorts unseen first."""
        return np.array([self.unseen.constant, *(part.constant for part in self.parts)])

    def _added(self, spectrum: CountSpectrum) -> NDArray[np.float64]:
        """Return what the users of each cohort add to each design, nats; of one unseen nothing."""
        if not isinstance(spectrum, CohortSpectrum):
            raise InputError(
                "given: these counts hold no cohorts", hint="ask as the owner of a database"
            )
        users = np.append(spectrum.cohort_users, 0.0)
        nats = [self.unseen.by_user * users]
        for part in self.parts:
            weights = part.score.weights
            by_entry = weights.take(spectrum.sizes, mode="clip") * spectrum.members_of
            lost = part.score.scale * np.append(
                np.bincount(spectrum.cohorts, by_entry, minlength=len(users) - 1), 0.0
            )
            # Rounding is taken off both sums, as their difference may be far smaller than either.
            gained = part.by_user * users
            nats.append(gained - lost - _ROUNDING * (gained + lost))
        return np.array(nats)

    def holds(self, spectrum: CountSpectrum, size: int) -> bool:
        """Whether no cohort of a set of `size` APIs is above the budget."""
        return bool(self.score(spectrum) <= self.limits[size])

    def check_decides(self, users: int) -> None:
        """Refuse a least share of which nothing can be allowed, as nobody of it need be seen.

        Raises:
            UndecidableError: So few users cannot tell such cohorts from absent ones.
        """
        nats = scipy.special.logsumexp(self._constants)
        if nats + math.log(self.share) >= self.log_terms[1]:
            return
        # The bonus alone must reach the evidence of one API, as such a cohort has no users.
        needed = self.log_terms[1] - math.log(self.share) - self.unseen.thinnings.log_factor
        needed *= users / self.unseen.mean / self.least_share
        raise UndecidableError(
            f"cohorts of {100 * self.least_share:.6g} % cannot be told apart from absent ones "
            f"below about {float(f'{needed:.2g}'):,.0f} users",
            hint=f"{users:,} were seen: a larger --least-share, or more users",
        )

    def to_json(self) -> dict[str, Any]:
        """Tell all from which a stranger can prove the test again, and of which question it is."""
        return {
            "least_share": self.least_share,
            "worst_share": self.worst_share,
            "parts": [part.to_json(self.share) for part in self.parts],
            "unseen": self.unseen.to_json(self.share),
        }


# What sets must keep, and are searched by: a score that grows with the set, and limits by its size.
Condition = Criterion | CohortTest


def evidence_together(constants: NDArray[np.float64], added: NDArray[np.float64]) -> float:
    """Return evidence that any cohorts have together at least, whichever they are, nats.

    With weights w of sum 1 the logarithm of the sum of the designs is at least `sum w (constant +
    added) - sum w ln w`, which is linear in the cohorts: those that lower it are taken one by one.
    Any weights hold. The best ones follow from the shares of the cohorts, each from 0 to 1, of
    which that logarithm is least, a convex problem.

    Args:
        constants: What each design has without users.
        added: What each cohort adds to each design, of shape (designs, cohorts).
    """
    lowering = added[:, (added < 0).any(axis=0)]
    weights = scipy.special.softmax(constants)
    if lowering.size:

        def together(shares: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            told = constants + lowering @ shares
            return float(scipy.special.logsumexp(told)), scipy.special.softmax(told) @ lowering

        half = np.full(lowering.shape[1], 0.5)
        bounds, options = [(0, 1)] * len(half), {"ftol": 1e-13, "gtol": 1e-9}
        solved = scipy.optimize.minimize(
            together, half, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        weights = scipy.special.softmax(constants + lowering @ solved.x)
    # The bound holds for any weights, so a solver that stops early costs sharpness only.
    lowered = np.minimum(weights @ lowering, 0.0).sum()
    return float(weights @ constants + scipy.special.entr(weights).sum() + lowered)


def cohort_test(
    wanted: CohortBudget,
    *,
    users: int,
    k: int,
    population: int,
    delta: float,
    universe: int,
    drawing: Drawing = PLAIN_DRAWING,
) -> CohortTest:
    """Design the test of all cohorts, at the levels that the test of all users has.

    Args:
        wanted: Budget of each cohort, and the least share of one.
        k, population: Anonymity threshold and `n`, users of all cohorts.
        delta, universe, drawing: Those of `looks.decision_criteria` for allowing: what other
            conditions sets must keep, and how many cohorts there are, changes nothing.

    Raises:
        UndecidableError: Too few users for any test.
    """
    serving, _, _ = drawing.serving(users)
    if serving is None:
        raise UndecidableError(f"given: {users} users are too few for cohorts")
    log_terms = math.log(serving.bases) + level_terms(delta, universe, drawing.first)[0]
    log_terms = log_terms * (1 + _ROUNDING)
    parts, unseen = _designs(
        serving,
        ExposureFunction(k, population),
        wanted,
        float(log_terms[min(_DESIGN_SIZE, universe)]),
        users,
    )
    return CohortTest(
        parts=parts,
        unseen=unseen,
        least_share=wanted.least_share,
        worst_share=wanted.worst_share,
        log_terms=log_terms,
    )


@lru_cache(maxsize=16)
def _designs(
    serving: Serving,
    function: ExposureFunction,
    wanted: CohortBudget,
    log_term: float,
    users: int,
) -> tuple[tuple[CohortPart, ...], UnseenCohorts]:
    """Design for cohorts of several shares; they follow from the question alone."""
    budget, least_share = wanted.budget, wanted.least_share
    shares = [share for share in _SHARES if share >= least_share]
    if shares[-1] > least_share * _SAME_SHARE:
        shares.append(least_share)
    cells, kept_share = base_cells(serving, function, budget)
    # Each part has an equal share of the sum, and so must bring as much more.
    log_term += math.log(len(shares) + 1)
    parts = []
    for share in shares:
        base = design_base(
            cells,
            sign=-1,
            budget=budget,
            # The evidence for a cohort is about its share of that for all users.
            log_term=log_term / share,
            share=kept_share,
            # Conditions are free with monotone tests only: docs/certificate/people.md.
            monotone=True,
        )
        if base.bound < 0:  # else it tells nothing
            part = CohortPart.of(base, users=users)
            if math.isfinite(part.constant):
                parts.append(part)
    unseen = UnseenCohorts.of(serving.mean, users=users, least_share=least_share, log_term=log_term)
    return tuple(parts), unseen
