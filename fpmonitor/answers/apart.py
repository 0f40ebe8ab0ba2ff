"""What the sets of several decisions expose together, where no database has all of their users.

Nothing that is known of each set by itself limits the exposure of both together but how few values
each has: users have few joint values of sets of few values, and each adds `max p F(p)` at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.answers.decide import called_as, users_meant
from fpmonitor.disclosure import check_users
from fpmonitor.errors import InputError
from fpmonitor.estimate.composition import composition_from_sample
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.population.beside import USERS, unit_source
from fpmonitor.population.disclosed import DisclosedDraws, told_parts
from fpmonitor.population.sample import spectra_digest
from fpmonitor.population.visits import VisitSource
from fpmonitor.results import Result
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.population.population import Population


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionBound(Result):
    """Upper limit of what recommended sets of several decisions expose together.

    Attributes:
        apis: All of them, as the vocabulary calls them.
        upper: Share of n users in groups smaller than k, on average, at most; with probability
            `1 - delta`, whichever joint distribution the values have, and whichever sets were
            chosen after looking.
        kept: How many values of each set count as such; users with others count as exposed.
        users: Those who were observed, of each set.
        budget: The smallest budget of the decisions.
        k, population, delta: The question.
    """

    apis: tuple[str, ...]
    upper: float
    kept: tuple[int, ...]
    users: tuple[int, ...]
    budget: float
    k: int
    population: int
    delta: float

    @property
    def is_within(self) -> bool:
        """Whether all sets together are surely within the budget."""
        return self.upper <= self.budget


def bound_union(parts: Sequence[tuple[Population, Decision]]) -> UnionBound:
    """Bound what the recommended sets of decisions expose together: see `composition_from_sample`.

    An API of several sets counts with the first that has it: the others add what is beyond.

    Args:
        parts: Each decision, and users as it saw its own; these may be others than those of the
            other decisions, and of the same population.

    Raises:
        InputError: Questions differ, one has no such limit, or a set adds nothing.
    """
    first = parts[0][1].policy
    seen: set[str] = set()
    spectra, observed = list[CountSpectrum](), list[int]()
    for users, decision in parts:
        _check(decision, parts[0][1])
        apis = decision.recommended
        beyond = tuple(api for api in apis if decision.means(api) not in seen)
        if not beyond:
            raise InputError("union: a decision recommends nothing to add", hint="omit it")
        # By what the vocabulary calls them: two logs may have one API under two names.
        seen |= {decision.means(api) for api in beyond}
        spectrum = _spectrum(users, decision, beyond)
        spectra.append(spectrum)
        observed.append(spectrum.users)
    delta = min(decision.policy.delta or 1.0 for _, decision in parts)
    found = composition_from_sample(
        spectra,
        k=first.k,
        population=first.population,
        # The least share of all, since each set may have been the one that looked safest.
        delta=delta * min(_share_of_sets(decision) for _, decision in parts),
        # The seed follows from the counts alone, so the same users give the same limit again.
        rng=np.random.default_rng(seed_of("union", spectra_digest(*spectra))),
    )
    return UnionBound(
        apis=tuple(sorted(seen)),
        upper=min(found.upper, 1.0),
        kept=tuple(int(each) for each in found.parameters["r"]),
        users=tuple(observed),
        budget=min(decision.policy.budget for _, decision in parts),
        k=first.k,
        population=first.population,
        delta=delta,
    )


def _share_of_sets(decision: Decision) -> float:
    """Return the share of delta of a set of this size: sets were chosen by looking at these users.

    Those of all sizes s have `1 / (s (s + 1))` together, and each of a size as much as the others.
    """
    size = len(decision.recommended)
    most = max(decision.universe or 0, len(decision.policy.candidates))
    return 1 / (size * (size + 1) * math.comb(most, size))


def _check(decision: Decision, first: Decision) -> None:
    """Refuse decisions whose sets have no joint values of one question."""
    policy, asked = decision.policy, (first.policy.k, first.policy.population)
    if (policy.k, policy.population) != asked:
        raise InputError(
            "union: the decisions ask for other k or populations",
            hint="decide both with one --k and one --population",
        )
    view = decision.view
    whys = {
        "counts its users": decision.is_exact,
        "is about levels": bool(decision.components),
        "is of a realised share": policy.realised,
        "is of all visits of a user": policy.visits in {"path", "both"},
        f"is of {decision.missing} where values are missing": decision.missing != "value",
        "changes values": bool(view.transforms),
        "takes values that browsers randomise in another way": view.volatile != first.view.volatile,
        "goes by another unit": policy.draws != first.policy.draws,
    }
    for why, holds in whys.items():
        if holds:
            hint = "by one --unit" if "unit" in why else "without that option"
            raise InputError(f"union: a decision {why}", hint=f"decide both {hint}")
    policy.sample.check_plain_draws("union")


def _spectrum(users: Population, decision: Decision, apis: ApiSet) -> CountSpectrum:
    """Count the groups of one value of each user, as it is told; of a visit by one draw.

    Where last values must keep the budget, and a visit does, too, these are counted.
    """
    called = called_as(decision, users)
    named = users.named([api if api in users.apis else decision.means(api) for api in apis])
    asked = users_meant(users, called)
    check_users(asked.users, decision.policy.k, asked.audience)
    source = asked.told_source(called.policy.candidates, decision.policy.k)
    users_of = unit_source(source, USERS)
    if isinstance(users_of, VisitSource | DisclosedDraws):
        # One draw is a sample of users. All 16 counted as further users gave a third of the limit.
        users_of = users_of.draws[0]
    return told_parts(users_of, named)[0].most
