"""What a curator knows from some marginals, and the limits that follow for any API set.

A requested set is known by its counts, a randomised one by the limits of its values' shares. Any
other set is composed of disjoint known ones: users outside the kept values of a part count as
exposed, and fewer than `k` users can be exposed on each remaining joint value. All limits are upper
limits, for every joint distribution with these marginals. Statements and proofs:
docs/private-selection.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.composition import (
    CompositionBound,
    MarginalDistribution,
    SizedTails,
    best_sizes,
    join_size,
    observed_threshold,
    ranked_tails,
    sharpened_composition,
    theorem2_composition,
    theorem3_composition,
)
from fpmonitor.estimate.entropy import chow_liu_upper_bits, entropy_bits
from fpmonitor.estimate.exposure import most_exposed
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.private.counts import (
    ApiSet,
    Counts,
    Tuples,
    check_study_counts,
    counts_digest,
    split_spectrum,
    with_projections,
)
from fpmonitor.private.joining import chain_of_parts, count_joined
from fpmonitor.private.randomised import (
    RandomisedAnswers,
    RandomisedApi,
    estimate,
    ranked_values,
    with_parts,
)
from fpmonitor.private.tokens import REDACTED, fitting
from fpmonitor.private.wire import token_limit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from fpmonitor.private.study import Study
    from fpmonitor.spectrum import CountSpectrum

Setting = Literal["fixed", "statistical"]

_LEVELS = ("marginals", "pairs", "triples")
_MOST_POINTS = 2000
# Shares of the budget that the parts of a join leave out together; with 0 all values are kept.
_TAIL_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Upper limit of the exposure of an API set, and the rule that it comes from."""

    upper: float  # Share of the users; 1 says nothing.
    # `count`: the set was requested; `certificate`: it was, and the limit is for a population;
    # `randomised`: of an API with randomised answers, 1 for the observed users themselves; `top-r`,
    # `theorem 2`, `theorem 3`, `sharpened theorem 2`: composed of single APIs; `blocks`: of
    # disjoint requested sets; `join`: of overlapping ones, joint values counted; `join size`: of
    # overlapping ones, the number of joint values bounded.
    rule: str


@dataclass(frozen=True, slots=True, eq=False)
class ParetoFront:
    """Trade-off of disjoint parts: more joint values kept, or more users outside them."""

    sizes: NDArray[np.float64]  # float64, increasing: joint values that remain.
    tails: NDArray[np.float64]  # float64, same shape, decreasing: share of the users outside.
    whole: bool = True  # Whether it has all points; of very many, some are dropped.

    def joined(self, offer: SizedTails, *, cell: float, most: float) -> ParetoFront:
        """Add a part; keep the undominated points with at most `most` exposed users."""
        own = best_points(offer.sizes, offer.tails, cell=cell, most=most, whole=self.whole)
        sizes = np.multiply.outer(self.sizes, own.sizes).ravel()
        tails = np.add.outer(self.tails, own.tails).ravel()
        return best_points(sizes, tails, cell=cell, most=most, whole=own.whole)

    def exposure(self, cell: float) -> float:
        """Return the smallest bound of a point; infinite without points."""
        return float(np.min(self.tails + cell * self.sizes, initial=math.inf))


NOTHING_YET = ParetoFront(np.ones(1), np.zeros(1))


def best_points(
    sizes: NDArray[np.float64],
    tails: NDArray[np.float64],
    *,
    cell: float,
    most: float,
    whole: bool = True,
) -> ParetoFront:
    """Keep the undominated points within `most`; of very many, evenly spread ones.

    Every point is valid: dropping some costs sharpness, never correctness.
    """
    # Further parts only add to both terms: what is above the budget stays above.
    within = tails + cell * sizes <= most
    sizes, tails = sizes[within], tails[within]
    order = np.lexsort((tails, sizes))
    sizes, tails = sizes[order], tails[order]
    better = np.append(np.inf, np.minimum.accumulate(tails)[:-1]) > tails
    sizes, tails = sizes[better], tails[better]
    if sizes.size > _MOST_POINTS:
        chosen = np.unique(np.linspace(0, sizes.size - 1, _MOST_POINTS).astype(np.int64))
        return ParetoFront(sizes[chosen], tails[chosen], whole=False)
    return ParetoFront(sizes, tails, whole)


class Knowledge:
    """Counts of some API sets, and the limits that follow in one setting.

    Args:
        counts: Number of reports by tuple of tokens, for each API set, with every single API. A
            report with a redacted token counts as exposed.
        randomised: Randomised answers on sets that have no counts. They say nothing of the observed
            users themselves.
        setting: `fixed`: the observed users themselves, without error. `statistical`: a population
            of `study.population` users, of which the observed ones are independent draws; all
            limits together hold with probability `1 - study.delta`, whatever was requested and
            redacted in later rounds because of the answers of earlier ones.

    Raises:
        InputError: A single API is missing, or a set is unknown or too large for the study; or a
            token is not a report of its randomisation.
        UndecidableError: There are fewer than 2 reports, or fewer than `k` on a randomised API.
    """

    def __init__(
        self,
        study: Study,
        counts: Counts,
        setting: Setting,
        randomised: Mapping[ApiSet, RandomisedAnswers] | None = None,
    ) -> None:
        self.study = study
        self.setting: Setting = setting
        self.counts = with_projections(counts)
        self._randomised = {
            apis: answers
            for apis, answers in with_parts(randomised or {}).items()
            if apis not in self.counts
        }
        # APIs of which only randomised answers are known.
        self.randomised = frozenset(apis[0] for apis in self._randomised if len(apis) == 1)
        check_study_counts(study, self.counts, self.randomised)
        # At half of each set's share of delta; the other half is for its tails.
        self.estimates: dict[ApiSet, RandomisedApi] = {
            apis: estimate(study, ask, apis, tuples, delta=self._delta(len(apis)) / 2)
            for apis, (ask, tuples) in self._randomised.items()
        }
        self._known = {*self.counts, *self.estimates}
        # Who answered a plain request is missing from no randomised one: it has users of its own.
        numbers = [sum(tuples.values()) for tuples in self.counts.values()]
        answering = [found.users for found in self.estimates.values()]
        self.users = max(numbers, default=0) or max(answering, default=0)
        if self.users < 2:
            raise UndecidableError("at least 2 reports are needed")
        self.population = self.users if setting == "fixed" else study.population
        # What one joint value exposes at most: of the users, or on average over populations.
        self.cell = (
            (study.k - 1) / self.users
            if setting == "fixed"
            else most_exposed(study.k, study.population)
        )
        self._spectra: dict[ApiSet, CountSpectrum] = {}
        self._rankings: dict[ApiSet, tuple[list[tuple[str, ...]], SizedTails]] = {}
        self._limits: dict[ApiSet, Promise] = {}
        self._fronts: dict[ApiSet, ParetoFront] = {}

    @property
    def level(self) -> str:
        """What is known of the joint distribution: `marginals`, `pairs`, `triples`, `sets of 4`."""
        return knowledge_name(self.largest)

    @property
    def asked(self) -> Collection[ApiSet]:
        """Sets with counts or randomised answers, including those that follow from larger ones."""
        return self._known

    def spectrum(self, apis: ApiSet) -> CountSpectrum:
        """Return the spectrum of a known set; a redacted or missing report is its own value."""
        if apis not in self._spectra:
            self._spectra[apis] = split_spectrum(self.counts[apis], self.users)
        return self._spectra[apis]

    def tails(self, apis: ApiSet) -> SizedTails:
        """Return what each number of kept values of a known set leaves out."""
        return self._ranking(apis)[1]

    def _ranking(self, apis: ApiSet) -> tuple[list[tuple[str, ...]], SizedTails]:
        """Return the tuples of a known set, most frequent first, none redacted; and their tails.

        A value that is too long for a set is sent as its digest, for a smaller set perhaps in full:
        here it has one name, by which overlapping sets are joined.
        """
        if apis not in self._rankings:
            if apis in self.counts:
                named = sorted(tokens for tokens in self.counts[apis] if REDACTED not in tokens)
                rank = self._fixed_ranking if self.setting == "fixed" else self._sampled_ranking
                ranked, tails = rank(apis, named)
            else:
                ranked, tails = self._estimated_ranking(apis)
            # The largest sets have the least room for a token, and every token has that form.
            largest = self.study.apis[: self.study.largest_set]
            limit = token_limit(self.study.report_bytes, largest)
            names = [
                tuple(fitting(token, limit, self.study.id) for token in tokens) for tokens in ranked
            ]
            self._rankings[apis] = names, tails
        return self._rankings[apis]

    def _estimated_ranking(self, apis: ApiSet) -> tuple[list[tuple[str, ...]], SizedTails]:
        if self.setting == "fixed":
            # Randomised answers show nothing of the observed users: all are outside.
            return [], SizedTails(sizes=np.ones(1), tails=np.ones(1))
        answers = self._randomised[apis]
        return ranked_values(
            self.study,
            apis,
            answers,
            delta=self._delta(len(apis)) / 2,
            rng=self._coins(apis, answers[1]),
        )

    def _coins(self, apis: ApiSet, tuples: Tuples) -> np.random.Generator:
        """Return what splits the answers on a set: equal for equal answers."""
        seed = seed_of("tails", self.study.id.hex(), counts_digest(apis, tuples))
        return np.random.default_rng(seed)

    def _fixed_ranking(
        self, apis: ApiSet, named: list[tuple[str, ...]]
    ) -> tuple[list[tuple[str, ...]], SizedTails]:
        counts = self.counts[apis]
        return sorted(named, key=lambda tokens: -counts[tokens]), self._distribution(apis).tails()

    def _sampled_ranking(
        self, apis: ApiSet, named: list[tuple[str, ...]]
    ) -> tuple[list[tuple[str, ...]], SizedTails]:
        counts = np.array([self.counts[apis][tokens] for tokens in named], dtype=np.int64)
        alone = np.ones(self.users - counts.sum(), dtype=np.int64)
        order, tails = ranked_tails(
            np.concatenate([counts, alone]),
            delta=self._delta(len(apis)) / 2,
            rng=self._coins(apis, self.counts[apis]),
            # Later rounds may withhold what fewer than k users had in earlier ones.
            least=1 if len(apis) == 1 else self.study.k,
        )
        return [named[place] for place in order if place < len(named)], tails

    def _distribution(self, apis: ApiSet) -> MarginalDistribution:
        return MarginalDistribution.from_spectrum(self.spectrum(apis))

    def _delta(self, size: int) -> float:
        """Return the share of delta of a set of a size: all limits hold, whatever is requested."""
        return self.study.delta / self.study.largest_set / math.comb(len(self.study.apis), size)

    def limit(self, apis: ApiSet) -> Promise:
        """Return the upper limit of a known set by its own counts."""
        if apis not in self._limits:
            self._limits[apis] = self._find_limit(apis)
        return self._limits[apis]

    def _find_limit(self, apis: ApiSet) -> Promise:
        if apis not in self.counts:
            upper = 1.0 if self.setting == "fixed" else self.estimates[apis].upper
            return Promise(upper=upper, rule="randomised")
        spectrum = self.spectrum(apis)
        if self.setting == "fixed":
            return Promise(upper=spectrum.users_below(self.study.k) / self.users, rule="count")
        delta = self._delta(len(apis)) / 2
        _, upper = certified_limits(self.study, spectrum, delta=delta)
        return Promise(upper=upper, rule="certificate")

    def is_above(self, apis: ApiSet) -> bool:
        """Whether a known set exposes more than the budget, by its own answers.

        In a population all that is said so holds together with probability `1 - study.delta`. Lost
        and redacted answers count as exposed elsewhere, so that a set with some is never above.
        """
        budget = self.study.budget
        if apis not in self.counts:
            return self.setting == "statistical" and self.estimates[apis].lower > budget
        tuples = self.counts[apis]
        if sum(tuples.values()) < self.users or any(REDACTED in tokens for tokens in tuples):
            return False
        if self.setting == "fixed":
            return self.limit(apis).upper > budget
        delta = self._delta(len(apis))
        return certified_limits(self.study, self.spectrum(apis), delta=delta)[0] > budget

    def front(self, apis: ApiSet) -> ParetoFront:
        """Return the best compositions of a set from disjoint known ones, within the budget."""
        if not apis:
            return NOTHING_YET
        if apis not in self._fronts:
            self._fronts[apis] = self._find_front(apis, self.study.budget)
        return self._fronts[apis]

    def _find_front(self, apis: ApiSet, most: float) -> ParetoFront:
        ways = [
            self.front(tuple(api for api in apis if api not in part)).joined(
                self.tails(part), cell=self.cell, most=most
            )
            for part in self._parts(apis)
        ]
        if len(ways) == 1:
            return ways[0]
        return best_points(
            np.concatenate([way.sizes for way in ways]),
            np.concatenate([way.tails for way in ways]),
            cell=self.cell,
            most=most,
            whole=all(way.whole for way in ways),
        )

    def _parts(self, apis: ApiSet) -> list[ApiSet]:
        """Return the known sets within `apis` that contain its first API."""
        # One part of each composition does: so none is tried once for each order of its parts.
        return [
            (apis[0], *others)
            for size in range(min(len(apis), self.largest))
            for others in itertools.combinations(apis[1:], size)
            if (apis[0], *others) in self._known
        ]

    @property
    def largest(self) -> int:
        """Number of APIs in the largest known set."""
        return max(map(len, self._known))

    def is_promised(self, apis: ApiSet) -> bool:
        """Whether the set is within the budget by its own counts, or composed of disjoint sets."""
        if apis in self._known and self.limit(apis).upper <= self.study.budget:
            return True
        # A front has only points within the budget.
        return bool(self.front(apis).sizes.size)

    def promise(self, apis: ApiSet) -> Promise:
        """Return the smallest upper limit of a set by any rule."""
        return min(self.rules(apis), key=lambda promise: promise.upper)

    def rules(self, apis: ApiSet, *, beaten: bool = False) -> list[Promise]:
        """Return the upper limits of a set by every rule that applies.

        Args:
            apis: Sorted; none: no value is exposed.
            beaten: Also by rules that cannot be the best: theorems 2 and 3, and any other beside a
                count.

        Raises:
            InputError: An API that the study does not have.
        """
        if not set(apis) <= set(self.study.apis):
            raise InputError("selection: names an API that the study does not have")
        if not apis:
            return [Promise(upper=0.0, rule="count")]
        # No group reaches k.
        if self.users < self.study.k and self.setting == "fixed":
            return [Promise(upper=1.0, rule="count")]
        found = [self.limit(apis)] if apis in self._known else []
        if apis in self.counts and self.setting == "fixed" and not beaten:
            return found  # nothing is sharper than the count
        found += self._composed(apis)
        if self.setting == "fixed" and self.randomised.isdisjoint(apis):
            names = [sharpened_composition]
            names += [theorem2_composition, theorem3_composition] if beaten else []
            distributions = [self._distribution((api,)) for api in apis]
            threshold = observed_threshold(self.study.k, self.users)
            bounds = [name(distributions, threshold=threshold) for name in names]
            found += map(_promise_of, bounds)
        return found

    def _composed(self, apis: ApiSet) -> list[Promise]:
        """Return the limits of a set composed of known ones."""
        place = {api: position for position, api in enumerate(apis)}
        known: dict[tuple[int, ...], SizedTails] = {
            tuple(place[api] for api in one): self.tails(one)
            for one in self._known
            if set(one) <= set(apis)
        }
        # Single APIs are always known.
        overlaps = len(known) > len(apis)
        blocks = self.front(apis).exposure(self.cell)
        found = [Promise(upper=min(blocks, 1.0), rule="blocks" if overlaps else "top-r")]
        if overlaps:
            found.append(_promise_of(join_size(known, self.cell)))
            found.append(Promise(upper=self._joined(apis), rule="join"))
        # The front has no point within the budget: the limit above it is found without one.
        if math.isinf(blocks):
            singles = [self.tails((api,)) for api in apis]
            found.append(_promise_of(best_sizes(singles, self.cell)))
        return found

    def _joined(self, apis: ApiSet) -> float:
        """Return the limit by counting joint values whose parts are all kept; 1 above the budget.

        Each part leaves out the same share; several shares are tried.
        """
        parts = [one for one in self._known if set(one) <= set(apis)]
        chain = chain_of_parts(apis, parts, self._bits)
        rankings = [self._ranking(part) for part in chain]
        best = 1.0
        for share in _TAIL_SHARES:
            most = share * self.study.budget / len(chain)
            part_tuples, outside = [], 0.0
            for part, (named, tails) in zip(chain, rankings, strict=True):
                # What is redacted has no name to be joined by, and stays outside.
                usable = tails.tails[tails.sizes <= max(len(named), 1)]
                # The first size that leaves out little enough, or else the largest one.
                at = int(np.argmax(usable <= max(most, usable.min())))
                part_tuples.append((part, named[: int(tails.sizes[at])]))
                outside += float(usable[at]) if named else 1.0
            joined = count_joined(part_tuples, int((self.study.budget - outside) / self.cell))
            if joined is not None:
                best = min(best, outside + self.cell * joined)
        return best

    def _bits(self, apis: ApiSet) -> float:
        if apis in self._known and apis not in self.counts:
            return math.log2(len(self.estimates[apis].values))
        return entropy_bits(self.spectrum(apis)) if apis else 0.0

    def entropy_upper_bits(self, apis: ApiSet) -> float:
        """Return an upper bound of the joint entropy of the observed users, bits."""
        if not apis:
            return 0.0
        if not self.randomised.isdisjoint(apis):
            return math.log2(self.users)
        singles = [self.spectrum((api,)) for api in apis]
        pairs = {
            (i, j): self.spectrum((apis[i], apis[j]))
            for i, j in itertools.combinations(range(len(apis)), 2)
            if (apis[i], apis[j]) in self.counts
            # Not so when other users answered in later rounds.
            and self.spectrum((apis[i], apis[j])).support
            >= max(singles[i].support, singles[j].support)
        }
        return min(chow_liu_upper_bits(singles, pairs), math.log2(self.users))


def _promise_of(bound: CompositionBound) -> Promise:
    return Promise(upper=bound.upper, rule=bound.rule)


def knowledge_name(size: int) -> str:
    """Return the name of the knowledge of all sets of up to `size` APIs."""
    return _LEVELS[size - 1] if size <= len(_LEVELS) else f"sets of {size}"


def certified_limits(study: Study, spectrum: CountSpectrum, *, delta: float) -> tuple[float, float]:
    """Return the lower and upper limit of the exposure in the population, shares.

    The upper limit does not fall where groups are split, so that it holds with redacted values.

    Args:
        study: `population` and `k`.
        spectrum: Of all users, at least 2.
        delta: Tolerated error probability of each limit.
    """
    limits = exposure_limits(
        users=spectrum.users, k=study.k, population=study.population, delta=delta, growing=True
    )
    return limits.of(spectrum)
