"""Confirming on other users what a search among some of them could not certify.

A few users are searched as always. Sets that these leave open are then tested on all the others, by
few of the values and all of their users; as the others had no part in choosing the sets, only those
that are tested cost anything. Theorem and proof: docs/certificate.md, section 19.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain, takewhile
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.decide.deciding import decide, recommended_of, tests_of, without_empty
from fpmonitor.decide.decision import ApiSet, Confirmation, Decision
from fpmonitor.decide.effort import INTERRUPTS, Effort
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.search import Borders, Sought, largest, search, smallest
from fpmonitor.decide.utility import weight_bound
from fpmonitor.decide.view_weight import SEARCH_SHARE
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.saddle_point import log_poisson
from fpmonitor.estimate.value_sample import ENTRIES, planned_level, value_criteria

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fpmonitor.decide.deciding import Tests
    from fpmonitor.estimate.criterion import Score
    from fpmonitor.estimate.looks import Criteria
    from fpmonitor.policy import Policy
    from fpmonitor.population.kept_values import ChosenValues
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

CHAINS = 12
_LONGEST = 6  # sets of a chain
_HOPELESS = 1.5  # times the budget, as the users searched have it: not tested
_LIKELY = 0.8  # of the budget: what is within such a set needs no chain of its own
_RAREST = 0.1  # users of the population: the law that scores are compared with begins there
_VALUES = 1000  # of that law


def tests_of_others(found: Decision, users: int, chains: int) -> tuple[Criteria, int]:
    """Return the tests of chains on users who were not searched, and the level of their values."""
    # By the number of users alone: a level chosen by the values would cost a share of delta.
    level = planned_level(users, ENTRIES)
    criteria = value_criteria(
        users=users,
        k=found.policy.k,
        population=found.policy.population,
        budget=found.policy.budget,
        delta=(found.level or 0.0) / SEARCH_SHARE * (1 - SEARCH_SHARE),
        level=level,
        tests=max(chains, 1),
    )
    return criteria, level


def confirm(
    found: Decision,
    searched: SpectrumSource,
    rest: ChosenValues,
    *,
    chains: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Decision:
    """Return what a search and tests of what it left open decide together.

    Args:
        found: What was decided of the users searched, at `SEARCH_SHARE` of the level of the
            question.
        searched, rest: These users, and all others.
        chains: Number of chains of nested sets that are tested; by default `CHAINS`.
        progress: Told now and then in words how far it is.
    """
    began, progress = time.perf_counter(), progress or (lambda _text: None)
    progress("choosing the sets to confirm")
    nested = _chains(found, searched, chains or CHAINS)
    sets = {apis for one in nested for apis in one}
    progress(f"confirming {len(sets)} sets on {rest.users:,} users")
    conclusion = on_others(found, searched.users, rest, nested)
    return _concluded(
        replace(
            found,
            users=searched.users + rest.users,
            evaluated=found.evaluated + len(sets),
            seconds=round(found.seconds + time.perf_counter() - began, 3),
            confirmation=conclusion,
        ),
        searched,
        progress,
    )


def searched_again(
    decision: Decision, searched: SpectrumSource, rest: ChosenValues, *, chains: int
) -> Decision:
    """Decide again as `decision` was: by a search, and tests of so many chains on the others."""
    begun = replace(
        decision, allow=(), block=(), undecided=(), recommended=(), confirmation=None, proof=None
    )
    return confirm(decide(searched, begun), searched, rest, chains=chains)


def on_others(
    found: Decision, searched: int, rest: ChosenValues, nested: Sequence[Sequence[ApiSet]]
) -> Confirmation:
    """Test chains of sets on the users of whom the search saw none; it saw `searched`."""
    criteria, level = tests_of_others(found, rest.users, len(nested))
    sets = sorted(set(chain.from_iterable(nested)))
    spectra = dict(zip(sets, rest.kept_spectra(sets, level), strict=True))
    most, least = float(criteria.allow.limits[1]), float(criteria.refute.limits[1])
    within = {apis for apis in sets if _points(criteria.allow.score, spectra[apis]) <= most}
    above = {apis for apis in sets if _points(criteria.refute.score, spectra[apis]) > least}
    # A test counts only where all before it in its chain came out alike: an error needs that the
    # first set that is otherwise comes out wrongly.
    confirmed = {apis for sets in nested for apis in takewhile(within.__contains__, sets)}
    refuted = {apis for sets in nested for apis in takewhile(above.__contains__, sets[::-1])}
    return Confirmation(
        searched=searched,
        level=level,
        chains=tuple(map(tuple, nested)),
        confirmed=tuple(largest(confirmed)),
        refuted=tuple(smallest(refuted)),
        proof=criteria.proofs(1),
    )


@INTERRUPTS.held()
def _concluded(
    found: Decision, searched: SpectrumSource, progress: Callable[[str], None]
) -> Decision:
    """Search what follows from what was confirmed; an interrupt ends it with what is proven."""
    began, tests = time.perf_counter(), tests_of(found, searched.users)
    borders = borders_with_others(found, searched, tests, progress)
    best = recommended_of(borders.allow, searched, tests.allow, weights=found.weights)
    bound = utility = found.lattice.utility_of(best)
    if not borders.complete:
        refused = [*borders.block, *borders.undecided]
        bound = weight_bound(found.evident, refused, Sought(weights=found.weights))
    decided = replace(
        found,
        allow=without_empty(borders.allow),
        block=without_empty(borders.block),
        undecided=without_empty(borders.undecided),
        users_possible=None,
        recommended=best,
        utility=utility,
        utility_bound=bound,
        complete=borders.complete,
        evaluated=found.evaluated + borders.evaluated,
        seconds=round(found.seconds + time.perf_counter() - began, 3),
    )
    return replace(decided, guarantee=guarantee(decided))


def borders_with_others(
    found: Decision,
    searched: SpectrumSource,
    tests: Tests,
    progress: Callable[[str], None] | None = None,
) -> Borders:
    """Search on from the lists of a decision and what others confirmed, by the users searched."""
    tested = found.confirmation
    confirmed, refuted = ((), ()) if tested is None else (tested.confirmed, tested.refuted)
    known = Borders(
        allow=[*found.allow, *confirmed],
        block=[*found.block, *refuted],
        undecided=[],
        complete=False,
        evaluated=0,
    )
    borders = search(
        searched,
        allow=tests.allow,
        block=tests.block,
        refute=tests.refute,
        sought=Sought(never=found.no_evidence),
        known=known,
        effort=Effort.of(None, progress),
    )
    # What others confirmed settles what the users searched leave open.
    allowed = [{*apis} for apis in borders.allow]
    left = [apis for apis in borders.undecided if not any(map({*apis}.issubset, allowed))]
    return replace(borders, undecided=left)


def _chains(found: Decision, searched: SpectrumSource, number: int) -> list[list[ApiSet]]:
    """Nested sets to test, increasing: from the sets that were nearly allowed upwards."""
    score = tests_of(found, searched.users).allow.score
    at_budget = _score_at_budget(score, searched.users, found.policy)

    def used(apis: Collection[str]) -> tuple[float, ApiSet]:
        """Tell about how much of the budget a set uses, and name it."""
        ordered = tuple(sorted(apis))
        return score(searched.spectrum(ordered)) / at_budget, ordered

    made: list[list[ApiSet]] = []
    hoped: list[ApiSet] = []
    blocked = [{*apis} for apis in found.block]
    # By the users searched alone, in an order without ties, so that an audit finds the same chains.
    for share, least in sorted(map(used, found.undecided)):
        if len(made) == number:
            break
        if share > _HOPELESS or any({*least} <= {*apis} for apis in hoped):
            continue
        sets = [least]
        hoped += [least] if share <= _LIKELY else []
        while len(sets) < _LONGEST:
            last = {*sets[-1]}
            larger = [
                last | {api}
                for api in sorted({*found.evident} - last)
                if not any(apis <= last | {api} for apis in blocked)
            ]
            if not larger:
                break
            more, nearest = min(map(used, larger))
            if more > _HOPELESS:
                break
            sets.append(nearest)
            hoped += [nearest] if more <= _LIKELY else []
        made.append(sets)
    return made


def _score_at_budget(score: Score, users: int, policy: Policy) -> float:
    """Score of the mean of sets whose exposure is the budget, values of all frequencies alike.

    Nothing rests on it: it tells which sets are worth a test.
    """
    p = np.geomspace(_RAREST / policy.population, 1, _VALUES)
    exposed = exposure_probability(p, k=policy.k, population=policy.population).mean()
    # Not by `scipy.stats`, whose objects cost the service 15 ms at the 99th percentile of verdicts.
    chances = np.exp(log_poisson(np.arange(score.weights.shape[1] - 1), users * p[:, np.newaxis]))
    others = 1 - chances.sum(axis=1)  # in the group of a user
    by_user = chances @ score.weights[:, 1:].T + np.outer(others, score.weights[:, -1])
    sums = users * by_user.mean(axis=0) * policy.budget / float(exposed)
    return max(float(score.of_sums(sums)), 1e-9)


def _points(score: Score, spectrum: CountSpectrum | None) -> float:
    nobody = np.zeros(len(score.weights))
    return float(score.of_sums(nobody)) if spectrum is None else score(spectrum)
