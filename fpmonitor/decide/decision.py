"""The decision: which API sets are allowed, which are blocked, and what is guaranteed.

A decision file alone answers a gate, so this module needs neither numbers nor a database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec

from fpmonitor.account import Kind
from fpmonitor.decide.coherence import contradiction
from fpmonitor.decide.lattice import ApiSet as ApiSet  # noqa: PLC0414 -- for all rooms
from fpmonitor.decide.lattice import Lattice
from fpmonitor.errors import InputError
from fpmonitor.policy import AS_OBSERVED, EXACT_PART, MAX_BIAS, Drawn, Factors, Policy, per_cent
from fpmonitor.population.evidence import Lack, lack_in_words
from fpmonitor.population.levels import Component, check_components
from fpmonitor.population.views import View
from fpmonitor.question import Missing
from fpmonitor.results import Result
from fpmonitor.safe_files import typed, untyped
from fpmonitor.unit import Unit, spoken
from fpmonitor.vocabulary import columns_of, meaning

# not-a-number is within no limits
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Factor = Annotated[float, msgspec.Meta(ge=1, le=MAX_BIAS)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Setting = Literal["population", "sample"]
Verdict = Literal["allow", "block", "undecided", "no evidence", "unknown"]
Proof = dict[str, dict[str, Any]]
STOPPED_EARLY = "The search was stopped early: more may be allowed."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How far the search for the best set came; weights are those beside the APIs that must be.

    Attributes:
        bound: Weight that no passing set exceeds.
        target: Only sets that weigh more were searched.
        order: APIs of which such sets consist, the most exposing first.
        first, last: Weight that no such set of none, the first, the first two... of `order`
            exceeds, as far as is known; and of its end.
    """

    bound: _Count
    target: _Count
    order: ApiSet
    first: tuple[_Count, ...]
    last: tuple[_Count, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSearch:
    """What the best set was searched by, and how far that came; null where weights are not whole.

    `weights` are 1 where not named; `allow` is for the sets that are allowed, `possible` for those
    within the budget.
    """

    weights: Mapping[str, _Amount]
    must: ApiSet
    never: ApiSet
    allow: Reached | None = None
    possible: Reached | None = None

    def same(self, other: BestSearch) -> bool:
        """Whether the same sets were searched by the same weights."""
        return (self.weights, self.must, self.never) == (other.weights, other.must, other.never)

    def __post_init__(self) -> None:
        for reached in filter(None, (self.allow, self.possible)):
            for dolls in (reached.first, reached.last):
                if not 0 < len(dolls) <= len(reached.order) + 1:
                    raise ValueError("`search`: weights of too few or too many sets")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """How many sets were found where the lists hold fewer.

    Attributes:
        allow, block, undecided: Sets that each list would hold.
        searched: Whether the search went to its end, so that these are all.
    """

    allow: _Count
    block: _Count
    undecided: _Count
    searched: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What was tested on users of whom the search saw none.

    Attributes:
        searched: Users that were searched; all others were tested on.
        level: A value counted with probability `2^-level`, then with all of its users.
        chains: Nested sets, increasing, that were tested.
        confirmed, refuted: Maximal sets that were found within the budget; minimal ones that were
            found above it.
        proof: As of `Decision`, for the tests of one set on the other users.
    """

    searched: _Count
    level: Annotated[int, msgspec.Meta(ge=0, le=62)]
    chains: tuple[tuple[ApiSet, ...], ...]
    confirmed: tuple[ApiSet, ...]
    refuted: tuple[ApiSet, ...]
    proof: Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class ByVisits:
    """Share of the observed users in groups smaller than k, where last values show far fewer.

    Attributes:
        visit: By one visit of each user, drawn: the mean over draws.
        path: By all visits of each user in their order, repeats left out.
    """

    visit: _Share
    path: _Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a decision is about, of all that pages can read.

    Attributes:
        about: APIs of the vocabulary that the candidates are, sorted.
        vocabulary: How many APIs it knew on the day of the decision.
        others: What is promised of APIs that are no candidates, alone or beside a set: nothing.
        window_days: Days of the visits that are a user's value; null where not all visits are.
    """

    about: ApiSet
    vocabulary: _Count
    others: Literal["not covered"] = "not covered"
    window_days: _Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionWith:
    """The recommended set of another decision, tested together with that of this one.

    Attributes:
        digest: SHA-256 of the other decision's file.
        apis: What it recommends, as the log calls it, without what tells cohorts.
        verdict: On all of both; `unknown` where an interrupt came before the test.
    """

    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    apis: ApiSet
    verdict: Literal["allow", "block", "undecided", "unknown"] = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsKnown:
    """What was known of users of whom nobody saw a whole record: see docs/private-selection.md.

    Attributes:
        largest: Largest number of APIs that were seen together.
        randomised: APIs whose answers users randomised.
    """

    largest: Annotated[int, msgspec.Meta(ge=1)]
    randomised: ApiSet = ()


@dataclass(frozen=True, slots=True)
class DesignPart:
    """From whom levels were designed: the guarantee is of the other users' decision.

    Attributes:
        share, users: Share of the users who were observed, and how many these are.
        tried: Designs that were tested, from coarse to fine, until one failed.
        by: What the draw of these users follows: their values; in files of before the order of
            rows.
    """

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    users: int
    tried: int
    by: Literal["values", "rows"] = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Result):
    """The answer to a policy, as it stands in a decision file.

    Attributes:
        policy: The question.
        components: What is shown at levels, of which sets then consist, as `screen=2`: see
            `Lattice`; the candidates of the policy are their APIs. Empty where sets are of APIs.
        setting: `population`: certified for a population of `policy.population`; `sample`: exact,
            for the observed users alone.
        missing: Whether absent was a value, exposed its user, or users lacking a candidate were
            left out.
        users: Observed users.
        unit: What each of them is: see `fpmonitor.unit`; a user in files of before.
        digest: Digest of the data that was decided on, keyed by whoever keeps them.
        days: First and last day (UTC) of these data with visits of at least k users; null where no
            visit has a time, and in files of before.
        account: How many members of the logs were taken for what; empty where nobody knows.
        made: Day (UTC) of the decision; null in files of before.
        guarantee: What holds, in one sentence.
        allow, block, undecided: Maximal allowed sets; minimal blocked sets; minimal sets that are
            neither. Every set that contains no blocked or undecided one is within an allowed one,
            if `complete`. Of levels nothing at all is allowed where `allow` is empty.
        recommended: The allowed set of the greatest utility, empty when no API is allowed.
        must, never: Only sets with all of `must` and none of `never` were searched; empty in files
            of before.
        complete: Whether the search went to its end, and the lists hold all it found; if not, what
            they hold is proven.
        cut: How many sets were found where the lists were cut; null elsewhere, and in files of
            before.
        evaluated: Number of sets whose exposure was computed.
        seconds: Wall time.
        users_possible: For each of the first undecided sets, from how many users on any test could
            decide it, about; null for more than 100 million, and as a whole where nothing is
            estimated.
        users_needed, users_range: For each undecided set a forecast of the observed users at which
            it is decided if one looks as they come in: on average, and what they are below and
            above in one case of ten each; null for more than 100 million, and as a whole when it
            was not asked for or was interrupted.
        bias_tolerated: For each allowed set the largest factor, of a fixed list, by which the
            shares of all kinds of users may differ between the observed users and the population;
            null when it was not asked for or was interrupted.
        observed, binding_stratum: Where users were drawn, one of each cluster or by the shares of
            strata: of how many, and the stratum that had none left, so that more of it would be
            more to decide on. Null elsewhere.
        unobserved_share: Share of the population in strata of whom nobody was drawn, which counts
            as exposed; null where users were not drawn by shares.
        view, source: How the users were looked at, and the one source whose observations counted,
            null for all.
        masked: Candidates whose volatile values the view masked; null in files of before, which do
            not say.
        weights: Utility of each API, 1 where not named.
        wishes: Digest of `wished`, keyed as that of the data; empty where nothing was, and in files
            of before.
        utility, utility_bound: Total weight of `recommended`, and one that no allowed set exceeds;
            equal if `complete`.
        utility_possible: Weight that no set within the budget exceeds, with the probability of the
            guarantee: what it is above `utility_bound` is what more users might allow. Null where
            the search of sets went to its end, and in files of before.
        search: What the best of many APIs, or of levels, was searched by, and how far that came;
            null where it was not, or came to its end.
        engine: What counted the groups: `memory`, `duckdb`, or the address of another engine.
        universe: Number of APIs of which sets may be chosen after looking; null where the question
            is taken to have been fixed before the users were seen, and for observed users alone.
        first_names: Number of names in the first log that the database stored, where all candidates
            are among them, and 0 where one is not; null where nothing noted them, and without a
            universe.
        level, registered, view_weight: Share of delta that the tests of each side have together,
            whether for a question that was registered before the first user was stored, and the
            share that the view has by its name: see `Level`. Null for observed users alone, for
            levels, whose question is fixed, and in files of before.
        proof: For `allow` and `block` all that a stranger needs to prove the limits again and to
            find each verdict from a count spectrum: docs/outputs.md; limits of levels are by the
            sum of the levels above the lowest. Null for observed users alone, and in files of
            before; empty where too few users prove nothing.
        confirmation: What was tested on other users than those that were searched; null where all
            were searched.
        asked_before: Other questions that were asked of these users before, as far as their
            database knows; 0 in files of before, and where the question was registered.
        names: Candidate -> the API of the vocabulary that it is, where it is called otherwise;
            empty where the user said that it is none.
        no_evidence, assumed: Candidate -> why the users are no evidence of how it divides them: it
            is in no set, and those that were taken in all the same.
        coverage: Candidate -> share of the users with a value of it: 1 where fewer than k lack it,
            null where fewer than k have it; null as a whole in files of before.
        design: From whom levels were designed; null where none were.
        declared: Component -> its levels at which all users showed a declared value, whose vectors
            were also tested by exact limits; null where none were.
        by_visits: What visits show of the recommended set, where last values count and show far
            fewer; null elsewhere, where nobody looked, and in files of before.
        came_back: Whether users came back, at least 1 % and k, and last values alone count; false
            in files of before.
        parts: What the limits follow from where nobody saw a whole record, in private collection;
            null elsewhere.
        scope: What it is about, of all that pages can read; null in files of before.
        union_with: Sets of other decisions that were tested together with `recommended`.
    """

    policy: Policy
    components: tuple[Component, ...] = ()
    setting: Setting
    missing: Missing
    source: str | None = None
    view: View = field(default_factory=View)
    masked: tuple[str, ...] | None = None
    users: _Count
    unit: Unit = "user"
    digest: str
    days: tuple[date, date] | None = None
    made: date | None = None
    coverage: Mapping[str, _Share | None] | None = None
    account: Mapping[Kind, _Count] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    no_evidence: Mapping[str, Lack] = field(default_factory=dict)
    assumed: Mapping[str, Lack] = field(default_factory=dict)
    guarantee: str
    allow: tuple[ApiSet, ...]
    block: tuple[ApiSet, ...]
    undecided: tuple[ApiSet, ...]
    users_possible: tuple[_Count | None, ...] | None = None
    users_needed: tuple[_Count | None, ...] | None = None
    users_range: tuple[tuple[_Count | None, _Count | None], ...] | None = None
    observed: _Count | None = None
    binding_stratum: str | None = None
    unobserved_share: _Share | None = None
    bias_tolerated: tuple[_Factor, ...] | None = None
    recommended: ApiSet
    must: ApiSet = ()
    never: ApiSet = ()
    weights: Mapping[str, _Amount] = field(default_factory=dict)
    wishes: str = ""
    utility: _Amount | None = None
    utility_bound: _Amount | None = None
    utility_possible: _Amount | None = None
    complete: bool
    cut: Cut | None = None
    evaluated: _Count
    seconds: _Amount
    search: BestSearch | None = None
    engine: str | None = None
    universe: _Count | None = None
    first_names: _Count | None = None
    level: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    registered: bool = False
    view_weight: _Share | None = None
    asked_before: _Count = 0
    proof: Proof | None = None
    confirmation: Confirmation | None = None
    design: DesignPart | None = None
    declared: Mapping[str, tuple[_Count, ...]] | None = None
    by_visits: ByVisits | None = None
    came_back: bool = False
    parts: PartsKnown | None = None
    scope: Scope | None = None
    union_with: tuple[UnionWith, ...] = ()

    @property
    def asked(self) -> ApiSet:
        """The candidates, and what else the sets of other decisions hold that were tested."""
        others = chain(*(each.apis for each in self.union_with))
        return tuple(dict.fromkeys([*self.policy.candidates, *others]))

    @property
    def window_days(self) -> int | None:
        """Days of the visits that are a user's value; null where not all are, or of no time."""
        if self.policy.visits not in {"path", "both"} or self.days is None:
            return None
        return (self.days[1] - self.days[0]).days + 1

    def union(self, other: ApiSet) -> ApiSet:
        """Return what a site reads that has the recommended set and another one."""
        return tuple(sorted({*self.recommended, *other}))

    def with_unions_listed(self) -> Self:
        """Return the decision with each union that was tested as one more set of its lists.

        What gates and checks answer by: a union is a set as all others, if of more candidates.
        None is allowed that holds a set that is not.
        """
        if not self.union_with:
            return self
        refused = [{*apis} for apis in (*self.block, *self.undecided)]
        unions: dict[str, list[ApiSet]] = {name: [] for name in _LISTS}
        for one in self.union_with:
            if one.verdict != "unknown":
                read = self.union(one.apis)
                is_open = one.verdict == "allow" and any(map({*read}.issuperset, refused))
                unions["undecided" if is_open else one.verdict].append(read)
        allow, block, undecided = (
            tuple(dict.fromkeys([*getattr(self, name), *unions[name]])) for name in _LISTS
        )
        more = len(self.asked) > len(self.policy.candidates)
        return replace(
            self,
            policy=replace(self.policy, candidates=self.asked),
            complete=self.complete and not more,
            union_with=(),
            allow=allow,
            block=block,
            undecided=undecided,
        )

    @property
    def lattice(self) -> Lattice:
        """The sets that it is about."""
        return Lattice(self.components, self.weights)

    @property
    def has_recommended(self) -> bool:
        """Whether a set is recommended: of APIs at least none of them, of levels an allowed one."""
        return not self.components or bool(self.allow)

    def recommended_levels(self) -> list[tuple[Component, int]]:
        """Return each component with its recommended level.

        Raises:
            InputError: No vector is allowed.
        """
        if not self.has_recommended:
            raise InputError("no level vector is allowed", hint="a larger --budget")
        return self.lattice.levels(self.recommended)

    @property
    def wished(self) -> str:
        """What was asked beside the policy, in words of its own; empty for nothing.

        Of levels also the day: the database lists questions about sets alone.
        """
        wishes = {
            "weights": dict(self.weights),
            "components": untyped((self.components, self.made)) if self.components else (),
            "must": sorted(self.must),
            "never": sorted(self.never),
        }
        if self.scope is not None:  # files of before have none, and sealed none
            wishes["scope"] = untyped(self.scope)
        if self.policy.cohorts is not None and self.policy.cohorts.menu:
            wishes["menu"] = self.policy.cohorts.menu
        if self.union_with:
            wishes["union_with"] = [(each.digest, each.apis) for each in self.union_with]
        return json.dumps(wishes, sort_keys=True) if any(wishes.values()) else ""

    @classmethod
    def begun(
        cls,
        policy: Policy,
        setting: Setting = "population",
        missing: Missing = "value",
        *,
        digest: str = "",
        universe: int | None = None,
    ) -> Self:
        """Return what is asked of some data, before any set is decided."""
        return cls(
            policy=policy,
            setting=setting,
            missing=missing,
            users=0,
            digest=digest,
            universe=universe,
            guarantee="",
            allow=(),
            block=(),
            undecided=(),
            recommended=(),
            complete=False,
            evaluated=0,
            seconds=0.0,
        )

    @property
    def is_exact(self) -> bool:
        """Whether the observed users are counted, and nothing is estimated."""
        return self.setting == "sample" or self.policy.delta is None

    @property
    def tested_at(self) -> float | None:
        """Share of delta of its tests; that of files of before is the whole."""
        level = None if self.is_exact else self.level or self.policy.delta
        cohorts = self.policy.cohorts
        return level if level is None or cohorts is None else level * cohorts.level_share

    @property
    def scored_at(self) -> float | None:
        """Share of delta of its scores, beside exact limits or alone."""
        level = self.tested_at
        return level if level is None or self.declared is None else level * (1 - EXACT_PART)

    @property
    def looked_at_once(self) -> bool:
        """Whether its tests are for the users that were decided on, and for no look at others."""
        told_once = any(part is not None for part in (self.confirmation, self.design, self.parts))
        told_once |= self.policy.needs_whole_records
        return self.policy.sample.looked_at_once or told_once

    def at_later_look(self) -> Self:
        """Return the same decision, whose question is asked of users who came since."""
        sample = self.policy.sample
        if sample.look is None:
            return self
        return replace(self, policy=replace(self.policy, sample=replace(sample, look="later")))

    @property
    def follows_from_candidates(self) -> bool:
        """Whether candidates choose the users, or their visits, so that they were fixed before.

        Visits count that brought a candidate, and users who lack one may be left out.
        """
        return self.missing == "drop" or self.policy.needs_whole_records

    @property
    def rests_on_file(self) -> bool:
        """Whether its lists alone answer, and no count of users of now: see `--given`."""
        return self.looked_at_once or self.policy.has_conditions

    @property
    def by_last_values(self) -> Self:
        """Return the same decision as users of now test it of whom nobody reads all visits.

        They can take away from its lists alone: what a visit left undecided stays so.
        """
        if self.policy.visits != "last+visit":
            return self
        return replace(self, policy=replace(self.policy, visits="last"))

    @property
    def unlisted(self) -> str:
        """Say why the lists may not hold all sets; the empty string where they do."""
        if self.complete:
            return ""
        if self.cut is None:
            begun = self.evaluated or self.allow or self.block or self.undecided
            return STOPPED_EARLY if begun else "The search was stopped before it began."
        words = {"allow": "allowed", "block": "blocked", "undecided": "undecided"}
        lists = {name: (len(getattr(self, name)), getattr(self.cut, name)) for name in words}
        list_sizes = " and ".join(
            f"{few:,} of {all_of_them:,} {words[name]} sets"
            for name, (few, all_of_them) in lists.items()
            if few < all_of_them
        )
        return f"The lists hold {list_sizes}." + f" {STOPPED_EARLY}" * (not self.cut.searched)

    @property
    def evident(self) -> tuple[str, ...]:
        """The candidates that sets are made of."""
        return tuple(api for api in self.policy.candidates if api not in self.no_evidence)

    @property
    def about(self) -> ApiSet:
        """The APIs of the vocabulary that the candidates are, sorted."""
        return tuple(sorted({*map(self.means, self.policy.candidates)}))

    @property
    def not_to_join(self) -> str:
        """Say of which set of another decision nothing follows from the tests; empty for none.

        What is no candidate may be joined as any API may be chosen after looking, and only where
        the users do not follow from which APIs are candidates. Nobody knows whether the other list
        changes values as the question does.
        """
        candidates = {*self.policy.candidates}
        whys = {
            "was fixed before the users were seen": self.universe is None,
            "leaves out users who lack a candidate": self.missing == "drop",
            "is of visits": self.policy.needs_whole_records,
            "is of a realised share": self.policy.realised,
        }
        joined = [api for each in self.union_with for api in each.apis]
        for api in joined:
            if api in self.view.transforms:
                return f"{api}, and the question changes its values"
        for api in [api for api in joined if api not in candidates]:
            for why, holds in whys.items():
                if holds:
                    return f"{api}, which is no candidate, and the question {why}"
        searched = self.union_with and self.confirmation is not None
        return "sets that were not tested on all users" if searched else ""

    def means(self, candidate: str) -> str:
        """Return the API of the vocabulary that a candidate is, or its own name for none."""
        return meaning(candidate, self.names) or candidate

    def named(self, apis: Iterable[str]) -> set[str]:
        """Return the candidates that are read with APIs, which may be named as in the vocabulary.

        Of levels: those of COMPONENT=LEVEL, with all coarser ones.
        """
        if self.components:
            return self.lattice.named(apis)
        candidates, found = self.policy.candidates, set[str]()
        means = {name: self.means(name) for name in candidates}
        for api in apis:
            found |= {api} if api in candidates else {*columns_of(api, means)} or {api}
        self.policy.check_candidates(found)
        return found

    def with_delta(self, delta: float) -> Decision:
        """Return the decision with another delta, of which its tests have the same share."""
        level = self.level and self.level * (delta / (self.policy.delta or 1))
        return replace(self, policy=replace(self.policy, delta=delta), level=level)

    def verdict(self, apis: Iterable[str]) -> tuple[Verdict, ApiSet]:
        """Verdict on reading `apis`, and the listed set that settles it (empty when none does).

        It is `unknown` where the lists do not settle it, and do not hold all sets.
        """
        requested_apis, lattice = self.named(apis), self.lattice
        # Blocked first: where nothing contradicts, the order tells only which set is named.
        for blocked in self.block:
            if requested_apis >= set(blocked):
                return "block", blocked
        if lacking := requested_apis & self.no_evidence.keys():
            return "no evidence", tuple(sorted(lacking))
        for allowed in self.allow:
            if requested_apis <= lattice.closed(allowed):
                return "allow", allowed
        for open_set in self.undecided:
            if requested_apis >= set(open_set):
                return "undecided", open_set
        if not requested_apis:
            return "allow", ()
        return "undecided" if self.complete else "unknown", ()

    def answer(
        self, apis: Iterable[str], judge: Callable[[ApiSet], Verdict] | None = None
    ) -> dict[str, Any]:
        """Return what a gate answers on reading `apis`: the verdict, the set that settles it, why.

        A set that is unknown is asked of `judge`, where there is one: see `deciding.judging`.
        """
        if self.union_with:
            return self.with_unions_listed().answer(apis, judge)
        verdict, because = self.verdict(apis)
        if verdict == "unknown" and judge is not None:
            because = tuple(sorted(self.named(apis)))
            verdict = judge(because)
        return self._told(verdict, because, self.users)

    def gate(self, have: Iterable[str], want: Iterable[str] = ()) -> dict[str, Any]:
        """Return whether a site that has read some APIs may read others: see `answer`.

        Raises:
            InputError: A name where a list of names is meant.
        """
        for name, apis in (("have", have), ("want", want)):
            # A name is a sequence of letters, each of which would be an API that is not known.
            if isinstance(apis, str):
                raise InputError(f"{name}: did you mean [{apis!r}]?")
        return self.answer([*have, *want])

    def export(self, to: str, path: str | Path | None = None, **options: Any) -> str:
        """Return the decision as a list of a product, such as `ublock`, and write it to a path.

        Args:
            to: Name of the format.
            path: File, or folder of a list of several files; null writes nothing.
            options: See `export.exporter.ExportOptions`.
        """
        return str(self.do("export", to, path, **options))

    def report(self, path: str | Path, log: Any = None) -> None:
        """Write a report on the decision as HTML.

        Args:
            path: File.
            log: Log or monitor with the users; null for the log that was decided on, while it is
                open.
        """
        self.do("report", path, log)

    def answer_of_now(
        self,
        apis: Iterable[str],
        judge: Callable[[ApiSet], Verdict],
        *,
        users: int,
        only_listed: bool = False,
    ) -> dict[str, Any]:
        """Return what a gate answers on users of now, who are not those that were decided on.

        Nothing is allowed by the list: `judge` judges it anew. What is blocked for a population
        stays blocked, as that holds at every look.

        Args:
            users: How many there are now.
            only_listed: Judge allowed sets of the list that hold `apis`, and no others: what they
                do not settle is unknown.
        """
        verdict, because = self.verdict(apis)
        stays = verdict == "no evidence" or (verdict == "block" and self.setting == "population")
        if stays or not self.named(apis):
            return self._told(verdict, because, self.users)
        requested_apis = tuple(sorted(self.named(apis)))
        if not only_listed:
            return self._told(judge(requested_apis), requested_apis, users)
        for allowed in self.allow:
            if {*requested_apis} <= self.lattice.closed(allowed) and judge(allowed) == "allow":
                return self._told("allow", allowed, users)
        return self._told("unknown", (), users)

    def _told(self, verdict: Verdict, because: ApiSet, users: int) -> dict[str, Any]:
        reason = spoken(self._reason(verdict, because, users), self.unit)
        return {"verdict": verdict, "because": self.lattice.told(because), "reason": reason}

    def _reason(self, verdict: Verdict, because: ApiSet, users: int) -> str:
        names, budget = (
            ", ".join(self.lattice.spelled(because)),
            f"{per_cent(self.policy.budget)} %",
        )
        if verdict == "allow":
            return f"within the allowed set {names}" if because else "nothing is read"
        if verdict == "block":
            return f"{names}: exposes more than {budget} of the users"
        if verdict == "no evidence":
            lacks = (
                f"no evidence about {api}: {lack_in_words(self.no_evidence[api], self.policy.k)}"
                for api in because
            )
            return "; ".join(lacks)
        if not because:
            settled = "no listed set settles it"
            others = f"{settled}, and not all sets are listed; gate --db asks the users"
            return settled if self.complete else others
        needed = dict(zip(self.undecided, self.users_needed or (), strict=False)).get(because)
        more = "more would" if needed is None or needed <= users else f"about {needed:,} would"
        if self.policy.visits == "last+visit":
            budget += " by last values or by one visit"
        if (cohorts := self.policy.cohorts) is not None:
            budget += f", or over {per_cent(cohorts.budget)} % of a cohort"
        if (links := self.policy.links) is not None:
            budget += f", or lets over {per_cent(links.budget)} % be linked"
        return f"{names}: {users:,} users do not tell whether it exposes over {budget}; {more}"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each listed set with its verdict, the recommended one first."""
        listed = (
            ("recommended", (self.recommended,) if self.has_recommended else ()),
            ("allow", self.allow),
            ("block", self.block),
            ("undecided", self.undecided),
            ("no evidence", [(api,) for api in sorted(self.no_evidence)]),
        )
        return [
            {"verdict": word}
            | {component.name: level for component, level in self.lattice.levels(apis)}
            | ({} if self.components else {"apis": list(apis)})
            for word, sets in listed
            for apis in sets
        ]

    @property
    def all_observed(self) -> int:
        """Users who were observed, with those from whom levels were designed or who were left."""
        return self.observed or self.users + (0 if self.design is None else self.design.users)

    @property
    def drawn(self) -> Drawn | None:
        """How many users count where some were drawn; None where all do."""
        if self.observed is None:
            return None
        return Drawn(
            users=self.users,
            observed=self.observed,
            cluster=self.policy.sample.cluster,
            binding=self.binding_stratum,
            unobserved=self.unobserved_share,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the decision as it stands in a decision file."""
        content = {
            name: value
            for name, value in untyped(self).items()
            if (value is not None or name in _NULL) and (value or name not in _WHERE_ANY)
        }
        if self.unit == "user":
            del content["unit"]
        content["policy"] = untyped(self.policy.to_json())
        for name in _LISTS if self.components else ():
            content[name] = [*map(self.lattice.told, getattr(self, name))]
        if self.components:
            told = self.lattice.told(self.recommended) if self.has_recommended else None
            content["recommended"] = told
        for component, entry in zip(self.components, content.get("components", ()), strict=True):
            entry["shows"] = component.shows
        question = {name: content.pop(name) for name in ("policy", "setting", "missing")}
        view = {"source": content.pop("source"), **content.pop("view")}
        masked = content.pop("masked")
        view |= {} if masked is None else {"masked": masked}
        data = {name: content.pop(name) for name in _OF_DATA if name in content}
        return {**question, "view": view, "data": data, **content}

    @classmethod
    def from_json(cls, content: Any) -> Decision:
        """Read what `to_json` gave, now or before; other members are passed over.

        Of levels what a version of before gave is to be read by `as_now`.

        Raises:
            InputError: Not a decision: a member is missing, of the wrong kind or out of its range.
            PolicyError: A number of its policy is out of range.
        """
        if isinstance(content, dict) and content.get("components"):
            content = content | _in_words(content)
        parts = typed(content, _Parts, _NAME)
        view = parts.view or {}
        seen = {"view": view, **{name: view.get(name) for name in _OF_VIEW}}
        # Members stand a floor deeper in the file than here; the flat ones are read once.
        decision = typed(content | seen | msgspec.structs.asdict(parts.data), cls, _NAME)
        lattice, lists = decision.lattice, {name: getattr(decision, name) for name in _LISTS}
        sets = [*chain(*lists.values()), decision.recommended, decision.must, decision.never]
        apis = [decision.masked or (), decision.names, decision.coverage or ()]
        apis += [decision.parts.randomised] if decision.parts is not None else []
        if decision.confirmation is not None:
            tested = decision.confirmation
            sets += [*chain(*tested.chains), *tested.confirmed, *tested.refuted]
        if decision.search is not None:
            reached = (decision.search.allow, decision.search.possible)
            sets += [part.order for part in reached if part is not None]
        lacking = decision.no_evidence.keys()
        candidates = {*decision.asked}
        known = lattice.utilities.keys() if decision.components else candidates
        named = {*chain(*apis)} | lacking | decision.assumed.keys()
        strangers = sorted(({*chain(*sets)} - known) | (named - candidates))
        if strangers:
            raise InputError(f"not {_NAME}: {strangers[0]!r} is not a candidate")
        members = {*chain(*chain(*lists.values()), decision.recommended)}
        if overlap := sorted(lacking & members):
            raise InputError(f"not {_NAME}: {overlap[0]!r} is in a set, and in `no_evidence`")
        contradicted = contradiction(
            {name: [*map(lattice.closed, sets)] for name, sets in lists.items()},
            lattice.closed(decision.recommended),
        )
        if contradicted:
            raise InputError(f"not {_NAME}: {contradicted}", hint="decide again")
        for name, listed in (
            ("users_needed", "undecided"),
            ("users_range", "undecided"),
            ("bias_tolerated", "allow"),
        ):
            entries = getattr(decision, name)
            if entries is not None and len(entries) != len(getattr(decision, listed)):
                raise InputError(f"not {_NAME}: `{name}` is not as long as `{listed}`")
        _check_beside(decision)
        if parts.proof and len(parts.proof) != 2:
            raise InputError(f"not {_NAME}: `proof` lacks a side")
        return decision


def _check_scope(decision: Decision) -> None:
    """Refuse what a decision cannot be about, alone or with others."""
    if (scope := decision.scope) is not None:
        if scope.about != decision.about:
            raise InputError(f"not {_NAME}: `scope.about` is not what its candidates are")
        if scope.vocabulary < len(scope.about):
            raise InputError(f"not {_NAME}: `scope.vocabulary` is fewer than `scope.about`")
        if scope.window_days != decision.window_days:
            raise InputError(f"not {_NAME}: `scope.window_days` is not as long as `days`")
    elif decision.union_with or (decision.policy.cohorts and decision.policy.cohorts.menu):
        raise InputError(f"not {_NAME}: `scope` is lacking, which all with unions or a menu have")
    if wanting := decision.not_to_join:
        raise InputError(f"not {_NAME}: `union_with` has {wanting}")


def _check_conditions(decision: Decision) -> None:
    """Refuse a promise to cohorts, or of links, that is not the one whose test the file holds."""
    side = (decision.proof or {}).get("allow", {})
    told, asked = side.get("cohorts"), decision.policy.cohorts
    if told is not None and asked is None:
        raise InputError(f"not {_NAME}: `policy.cohorts` is lacking, and `proof` is of cohorts")
    if told is not None and asked is not None:
        for name in ("given", "least_share", "worst_share"):
            value = getattr(asked, name)
            value = list(value) if name == "given" else value
            if told.get(name, value) != value:  # files of before do not tell it
                raise InputError(f"not {_NAME}: `policy.cohorts.{name}` is not what `proof` is of")
    days = [*map(str, decision.days or ())]
    for test in (side, *side.get("links", ())):
        if test.get("days", days) != days:  # nor do they tell these
            raise InputError(f"not {_NAME}: `data.days` are not those that `proof` is of")


def _check_beside(decision: Decision) -> None:
    """Refuse what cannot stand beside the lists, and a weight above what no set exceeds."""
    for name in _OF_SETS if decision.components else ():
        if getattr(decision, name):
            raise InputError(f"not {_NAME}: `{name}` is said of sets alone, and not of levels")
    if decision.complete and decision.search is not None:
        raise InputError(f"not {_NAME}: `search` is of one that was stopped, and it is `complete`")
    lattice, left_out = decision.lattice, {*decision.never, *decision.no_evidence}
    if both := sorted(left_out & lattice.closed({*decision.must, *lattice.lowest})):
        raise InputError(f"not {_NAME}: no set is with `must` and without {both[0]!r}")
    sample = decision.policy.sample
    if decision.observed is not None and not (sample.cluster or sample.strata):
        raise InputError(f"not {_NAME}: `observed` is more users than decided, and none drawn")
    if decision.days is not None and decision.days[0] > decision.days[1]:
        raise InputError(f"not {_NAME}: `days` end before they begin")
    _check_scope(decision)
    _check_conditions(decision)
    for name in ("utility_bound", "utility_possible"):
        most = getattr(decision, name)
        if most is not None and (decision.utility or 0) > most * (1 + 1e-9):
            raise InputError(f"not {_NAME}: `utility` is more than `{name}`")


def _in_words(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lists of a file about levels as words of these, `screen=2`.

    Raises:
        InputError: Components that cannot be, or a level that there is not.
    """
    components = typed(content["components"], tuple[Component, ...], _NAME)
    check_components(components)
    for component, entry in zip(components, content["components"], strict=True):
        if entry.get("shows", component.shows) != component.shows:
            raise InputError(f"not {_NAME}: `shows` is not what {component.name} shows")
    if any(component.designed for component in components):
        raise InputError(f"not {_NAME}: a level is still to be designed")
    lattice, found = Lattice(components), dict[str, Any]()
    for name in {*_LISTS} & content.keys():
        found[name] = [*map(lattice.read, typed(content[name], list[dict[str, int]], _NAME))]
    recommended = typed(content.get("recommended") or {}, dict[str, int], _NAME)
    return found | {"recommended": lattice.read(recommended)}


def as_now(content: Any) -> Any:
    """Return a parsed file as it is written now: of levels, older ones told all on one floor."""
    if not isinstance(content, dict) or not content.get("components") or "data" in content:
        return content
    rest: dict[str, Any] = {"universe": None, "level": None, "engine": None}
    rest |= {"registered": False, "view_weight": None}
    rest |= {name: value for name, value in content.items() if value or name != "names"}
    view = typed(rest.pop("view", {}), dict[str, Any], _NAME)
    if said := rest.pop("drawn", None):
        drawn = typed(said, Drawn, _NAME)
        rest |= {"observed": drawn.observed, "binding_stratum": drawn.binding}
        rest |= {"unobserved_share": drawn.unobserved}
    view |= {"source": rest.pop("source", None), "masked": rest.pop("masked", [])}
    data = {name: rest.pop(name) for name in _OF_DATA if name in rest}
    return {**rest, "view": view, "data": data}


_NAME, _OF_VIEW = "a decision", ("source", "masked")
_LISTS = ("allow", "block", "undecided")
# What no decision about levels has: its question is fixed before users are seen.
_OF_SETS = (
    *("users_needed", "users_range", "bias_tolerated", "universe", "first_names", "level"),
    *("registered", "view_weight", "asked_before", "confirmation", "by_visits", "parts"),
    "union_with",
)
# Members that a file has also where they are null; files without the others are of before.
_NULL = (
    *("source", "masked", "utility", "utility_bound", "engine", "universe", "level"),
    *("view_weight", "proof"),
)
_WHERE_ANY = (
    *("components", "account", "names", "no_evidence", "assumed", "must", "never"),
    *("asked_before", "weights", "wishes", "came_back", "union_with"),
)
_OF_DATA = ("users", "unit", "digest", "days", "account")


class _Data(msgspec.Struct):
    users: _Count
    digest: str
    unit: Unit = "user"
    days: tuple[date, date] | None = None
    account: dict[Kind, _Count] = {}


_Numbers = Annotated[list[float], msgspec.Meta(min_length=2)]


class _ProofDesign(msgspec.Struct):
    share: float
    weights: _Numbers
    factors: Factors = AS_OBSERVED


class ProofSide(msgspec.Struct):
    """What tests are made of, as it stands in a file; in one of before there is a single design."""

    monotone: bool
    designs: Annotated[list[_ProofDesign], msgspec.Meta(min_length=1)] | None = None
    nats: _Numbers | None = None
    weights: _Numbers | None = None
    limits: _Numbers | None = None
    factors: Factors = AS_OBSERVED
    links: list[_LinkSide] = []
    cohorts: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        whole = (self.designs and self.nats) or (self.weights and self.limits)
        if not whole:
            raise ValueError("Object missing `designs` or `nats`")


class _LinkSide(ProofSide, kw_only=True):
    sign: int
    users: _Count
    after: float | None = None


class _Parts(msgspec.Struct):
    """What stands a floor deeper in a file."""

    data: _Data
    proof: dict[Literal["allow", "block"], ProofSide] | None = None
    view: dict[str, Any] | None = None
