"""Deciding: the border search with the certificate, and the test of an old decision on new data."""

from __future__ import annotations

import json
import math
import time
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from fpmonitor.decide.decision import Decision
from fpmonitor.decide.guarantee import Terms, guarantee
from fpmonitor.decide.search import Borders, search
from fpmonitor.decide.utility import recommend, weight_bound
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.certificate import decision_criteria
from fpmonitor.estimate.criterion import Criterion
from fpmonitor.estimate.sample_size import users_needed
from fpmonitor.estimate.thinning import dropped_positions, seed_of
from fpmonitor.population.views import View
from fpmonitor.safe_files import untyped
from fpmonitor.spectrum import SpectrumSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.decide.decision import ApiSet, Setting, Verdict
    from fpmonitor.policy import Policy
    from fpmonitor.question import Missing


class UserSource(SpectrumSource, Protocol):
    """A source with one row a user, some of which can be left out."""

    def without(self, dropped: NDArray[np.int64]) -> SpectrumSource:
        """Leave out users by the positions of their rows."""


@runtime_checkable
class ThinningSource(SpectrumSource, Protocol):
    """A source that thins its users itself, as they are too many to have their words here."""

    def thinned(self, *, mean: float, seed: int) -> SpectrumSource:
        """Keep the users that `dropped_positions` keeps."""


def decide(
    source: UserSource | ThinningSource,
    policy: Policy,
    *,
    words: NDArray[np.uint64] | None,
    digest: str,
    seal: str,
    setting: Setting = "population",
    missing: Missing = "value",
    coverage: Mapping[str, float | None] | None = None,
    weights: Mapping[str, float] | None = None,
    must: Iterable[str] = (),
    never: Iterable[str] = (),
    time_limit: float | None = None,
    max_size: int | None = None,
    forecast: bool = False,
    progress: Callable[[int], None] | None = None,
    view: View | None = None,
    log_source: str | None = None,
    known: Decision | None = None,
    engine: str | None = None,
) -> Decision:
    """Decide all subsets of the policy's candidates.

    Parameters
    ----------
    source
        The observed users, one row each, over the candidates.
    policy
        The question; in the setting `sample` its population is the number of users, its delta null.
    words
        uint64, a pseudo-random word per user, in the order of the rows of the source; None for a
        source that thins its users itself.
    digest
        Digest of the data; with the policy it fixes the draw of the thinning.
    seal
        The digest as the decision may tell it.
    setting, missing, coverage
        See `Decision`; `missing` and `coverage` are noted only.
    weights
        Utility of each API, 1 where not named.
    must, never
        Only sets with all of `must` and none of `never` are searched.
    time_limit, max_size
        Seconds and number of APIs at which the search stops; what is proven stays valid.
    forecast
        Say for each undecided set how many users would decide it.
    progress
        Called now and then with the number of sets evaluated so far.
    view, log_source, engine
        See `view`, `source` and `engine` of `Decision`; noted only.
    known
        An earlier decision of the same question on the same data, perhaps not complete: what it
        proves is not computed again.

    Raises
    ------
    InputError
        `known` answers another question, or was made of other data; a forecast is wanted for a
        realised share.
    PolicyError
        The policy asks more than the data can carry, for example fewer than two users.
    UndecidableError
        So few users that the thinning keeps none.
    """
    started = time.perf_counter()
    must, never, weights = sorted(set(must)), set(never), weights or {}
    if forecast and policy.realised:
        raise InputError(
            "forecast: not for the users of one population",
            hint="leave --forecast or --realised away",
        )
    proven = None if known is None else _proven(known, policy, setting, missing, seal)
    kept, allow, block = _tests(source, policy, words=words, digest=digest, setting=setting)
    borders = search(
        kept,
        allow=allow,
        block=block,
        must=must,
        never=never,
        time_limit=time_limit,
        max_size=max_size,
        progress=progress,
        known=proven,
    )
    best = recommend(borders.allow, weights=weights)
    undecided = _without_empty(borders.undecided)
    terms = Terms(
        policy=policy,
        setting=setting,
        missing=missing,
        users=source.users,
        coverage=coverage or {},
    )
    return Decision(
        policy=policy,
        setting=setting,
        missing=missing,
        users=source.users,
        digest=seal,
        guarantee=guarantee(terms),
        coverage=coverage,
        allow=_without_empty(borders.allow),
        block=_without_empty(borders.block),
        undecided=undecided,
        recommended=best.apis,
        utility=best.weight,
        utility_bound=best.weight
        if borders.complete
        else _utility_bound(borders, policy, weights, must=must, never=never),
        complete=borders.complete,
        evaluated=borders.evaluated,
        users_needed=_forecast(kept, policy, source.users, undecided) if forecast else None,
        seconds=round(time.perf_counter() - started, 3),
        view=view or View(),
        source=log_source,
        engine=engine,
    )


def _proven(
    known: Decision, policy: Policy, setting: Setting, missing: Missing, seal: str
) -> Borders:
    """Return what an earlier decision proves.

    Raises
    ------
    InputError
        It answers another question, or was made of other data.
    """
    differing = [
        name
        for name, before, now in (
            *(
                (name, getattr(known.policy, name), getattr(policy, name))
                for name in ("k", "population", "budget", "delta", "realised")
            ),
            ("candidates", set(known.policy.candidates), set(policy.candidates)),
            ("setting", known.setting, setting),
            ("missing", known.missing, missing),
            ("data", known.digest, seal),
        )
        if before != now
    ]
    if differing:
        raise InputError(
            f"resume: the decision file differs in {', '.join(differing)}",
            hint="only the same question on the same data can be resumed",
        )
    return Borders(
        allow=list(known.allow),
        block=list(known.block),
        undecided=list(known.undecided),
        complete=known.complete,
        evaluated=known.evaluated,
    )


def _utility_bound(
    borders: Borders,
    policy: Policy,
    weights: Mapping[str, float],
    *,
    must: Sequence[str],
    never: Collection[str],
) -> float:
    """Weight that no allowed set exceeds, by what an incomplete search has refused."""
    candidates = [api for api in policy.candidates if api not in never]
    return weight_bound(
        candidates, [*borders.block, *borders.undecided], weights=weights, must=must
    )


def _forecast(
    source: SpectrumSource, policy: Policy, users: int, undecided: Iterable[ApiSet]
) -> tuple[int | None, ...]:
    """Users that would decide each set; nothing is undecided where nothing is estimated."""
    if policy.delta is None:
        return ()
    return tuple(
        users_needed(
            source.spectrum(apis),
            len(apis),
            users=users,
            k=policy.k,
            population=policy.population,
            budget=policy.budget,
            delta=policy.delta,
            candidates=len(policy.candidates),
        )
        for apis in undecided
    )


def recheck(
    decision: Decision,
    source: UserSource | ThinningSource,
    *,
    words: NDArray[np.uint64] | None,
    digest: str,
    least: ThinningSource | None = None,
) -> dict[ApiSet, Verdict]:
    """Test every set on the allow list of a decision again, on the current users.

    Parameters
    ----------
    decision
        The decision; its policy and setting are kept.
    source, words, digest
        The current users, as in `decide`.
    least
        What sets are found above the budget by, where it is not `source`.

    Raises
    ------
    PolicyError
        The policy asks more than the current data can carry.
    """
    kept, allow, block = _tests(
        source, decision.policy, words=words, digest=digest, setting=decision.setting
    )
    lowest = kept
    if least is not None:
        lowest, _, _ = _tests(
            least, decision.policy, words=None, digest=digest, setting=decision.setting
        )
    verdicts: dict[ApiSet, Verdict] = {}
    for apis in decision.allow:
        if allow.holds(kept.spectrum(apis), len(apis)):
            verdicts[apis] = "allow"
        else:
            is_open = block.holds(lowest.spectrum(apis), len(apis))
            verdicts[apis] = "undecided" if is_open else "block"
    return verdicts


def _tests(
    source: UserSource | ThinningSource,
    policy: Policy,
    *,
    words: NDArray[np.uint64] | None,
    digest: str,
    setting: Setting,
) -> tuple[SpectrumSource, Criterion, Criterion]:
    """Users to test on, and the criteria to allow and to block by."""
    if setting == "sample" or policy.delta is None:
        criterion = exact_criterion(policy, source.users)
        return source, criterion, criterion
    criteria = decision_criteria(
        users=source.users,
        k=policy.k,
        population=policy.population,
        budget=policy.budget,
        delta=policy.delta,
        candidates=len(policy.candidates),
        realised=policy.realised,
    )
    asked = untyped(policy)
    if not policy.realised:  # as policies of before have it
        del asked["realised"]
    seed = seed_of(json.dumps(asked, sort_keys=True), digest)
    kept = _thinned(source, words, mean=criteria.mean, seed=seed)
    if kept is None or not kept.users:
        raise UndecidableError(f"{source.users} users are too few to decide anything")
    return kept, criteria.allow, criteria.block


def _thinned(
    source: UserSource | ThinningSource,
    words: NDArray[np.uint64] | None,
    *,
    mean: float,
    seed: int,
) -> SpectrumSource | None:
    """Users that the thinning keeps; None when that is nobody."""
    if isinstance(source, ThinningSource):
        return source.thinned(mean=mean, seed=seed)
    if words is None:
        raise InputError("decide: a source that cannot thin its users needs their words")
    dropped = dropped_positions(words, mean=mean, seed=seed)
    return None if len(dropped) == len(words) else source.without(dropped)


def exact_criterion(policy: Policy, users: int) -> Criterion:
    """Count the users in groups smaller than k; the limit is the whole number within the budget."""
    weights = np.ones(policy.k + 1)
    weights[policy.k] = 0
    # The budget is the decimal number that was written: 0.29 of 100 users are 29, not 28.
    limit = math.floor(Fraction(repr(policy.budget)) * users)
    return Criterion(weights, np.full(len(policy.candidates) + 1, float(limit)))


def _without_empty(sets: Iterable[ApiSet]) -> tuple[ApiSet, ...]:
    return tuple(apis for apis in sets if apis)
