"""What scripts expose of a population, and what a decision takes from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fpmonitor.answers.decide import called_as, question_of
from fpmonitor.answers.demand import observed_apis, unobserved_apis
from fpmonitor.answers.rank import basis_of, places_of
from fpmonitor.errors import InputError
from fpmonitor.estimate.exposure import plug_in_exposure, unbiased_exposure
from fpmonitor.results import Result
from fpmonitor.safe_files import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.answers.rank import Basis
    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.population.population import Population
    from fpmonitor.population.sample import CertifiedSample
    from fpmonitor.store.demand import Reads

_FINGERPRINTING = "Fingerprinting"  # how the categories of Disconnect begin that mean it


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptExposure:
    """An API set as the log calls it, and its exposure.

    Attributes:
        apis: The set.
        plug_in, lower, upper: Estimate and limits of its statistical exposure, shares; `upper` is
            null where the script also reads what the log lacks.
    """

    apis: ApiSet
    plug_in: float
    lower: float
    upper: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLine(Result):
    """What one script, or one host of scripts, exposes.

    Attributes:
        script, sites, apis: Name, sites on which it was seen, and API -> on how many of them it is
            read.
        unobserved: Those that the population log lacks.
        verdict: `block` where the exposure of what is read is above the budget of the decision,
            `allow` where it is within, `undecided` where the limits cannot tell.
        reads, beyond, left: The observed ones; those outside the recommended set; and those that
            the decision does not block, some of which may be no candidates.
        taken: What it blocks, and by how much that lowers the exposure.
        exposure: Of what is read: see `ScriptReport.basis`.
        place, place_before: Scripts that expose more, plus one, now and in an earlier crawl; null
            for a script that was not there.
        listed: Categories of fingerprinting that the host is in by another list; null where none
            was given.
    """

    script: str
    sites: tuple[str, ...]
    apis: Mapping[str, int]
    unobserved: ApiSet
    verdict: Verdict
    reads: ScriptExposure
    beyond: ScriptExposure
    left: ScriptExposure
    taken: ScriptExposure
    exposure: float
    place: int
    place_before: int | None = None
    listed: tuple[str, ...] | None = None

    @property
    def host(self) -> str:
        """Host that serves the script."""
        return self.script.partition("/")[0]

    @property
    def is_foreign(self) -> bool:
        """Whether it was seen on a site of which the host is neither a part nor the whole."""
        return any(not _related(self.host, site) for site in self.sites)

    def to_json(self) -> dict[str, Any]:
        """Return the line as the CLI prints it."""
        return asdict(self) | {"sites": len(self.sites), "apis": list(self.apis)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """How far two crawls rank scripts alike.

    Attributes:
        common, new, gone: Scripts in both crawls, and in one alone.
        kendall_tau: Rank correlation of the exposures of the common ones (tau-b, which allows for
            ties), from -1 to 1; null where one crawl does not tell them apart.
    """

    common: int
    new: int
    gone: int
    kendall_tau: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far a list of hosts that fingerprint agrees with the verdict `block`.

    Attributes:
        both, ours, theirs, neither: Hosts of scripts seen on sites of others: blocked and listed,
            one of both alone, or neither.
        kappa: Cohen's: 1 for full agreement, 0 for that of chance; null where all hosts are alike.
    """

    both: int
    ours: int
    theirs: int
    neither: int
    kappa: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReport(Result):
    """What scripts expose; the limits of all of them hold together.

    Attributes:
        k, population, budget, delta, users: The question of the decision, and the observed users.
        basis: What scripts are ranked by: the unbiased estimate, or for a population above the
            observed users the upper limit, as in `rank`; of the APIs that the log knows.
        scripts: The most exposing first.
        weights: API that scripts read and the log knows -> exposure of it alone, on the same basis.
        stability, agreement: Comparisons with an earlier crawl and with a list of hosts, where
            asked for.
    """

    k: int
    population: int
    budget: float
    delta: float
    users: int
    basis: Basis
    scripts: tuple[ScriptLine, ...]
    weights: Mapping[str, float]
    stability: Stability | None = None
    agreement: Agreement | None = None


def report_scripts(
    population: Population,
    decision: Decision,
    scripts: Sequence[Reads],
    *,
    before: Sequence[Reads] = (),
    listed: Mapping[str, Sequence[str]] | None = None,
) -> ScriptReport:
    """Estimate what scripts expose, and what a decision takes from them, the worst first.

    Args:
        population: The users of now, seen as the decision saw its own.
        decision: Its policy is the question.
        scripts, before: What scripts read, and what they read in an earlier crawl.
        listed: Host -> categories of another list, for hosts that fingerprint.
    """
    decision = called_as(decision, population)
    policy, means = decision.policy, population.means
    known = population.publishable_apis(policy.k)
    observed = {reads.name: observed_apis(reads.apis, known, means) for reads in scripts}
    earlier = {reads.name: observed_apis(reads.apis, known, means) for reads in before}
    read = sorted({api for reads in scripts for api in reads.apis})
    alone = {api: apis for api in read if (apis := observed_apis((api,), known, means))}
    parts = {name: _parts(apis, decision) for name, apis in observed.items()}
    sets = {*chain.from_iterable(parts.values()), *earlier.values(), *alone.values()}
    # The worst script is chosen by looking: limits of all of them hold together.
    sample = population.sample(question_of(decision), [policy.candidates, *sets], chosen=True)
    sample.ask(sets)
    lines = [
        _line(
            sample,
            reads,
            parts[reads.name],
            unobserved=unobserved_apis(reads.apis, known, means),
            budget=policy.budget,
            listed=listed,
        )
        for reads in scripts
    ]
    now = {line.script: line.exposure for line in lines}
    then = {name: _exposure(sample, apis) for name, apis in earlier.items()}
    places, places_before = _places(now), _places(then)
    lines = [
        replace(line, place=places[line.script], place_before=places_before.get(line.script))
        for line in lines
    ]
    return ScriptReport(
        k=policy.k,
        population=sample.question.users,
        budget=policy.budget,
        delta=sample.question.delta,
        users=sample.users,
        basis=basis_of(sample.question, sample.users),
        scripts=tuple(sorted(lines, key=lambda line: (line.place, -len(line.sites), line.script))),
        weights={api: _exposure(sample, apis) for api, apis in alone.items()},
        stability=_stability(now, then) if before else None,
        agreement=None if listed is None else _agreement(lines),
    )


def _line(
    sample: CertifiedSample,
    reads: Reads,
    parts: tuple[ApiSet, ApiSet, ApiSet],
    *,
    unobserved: tuple[str, ...],
    budget: float,
    listed: Mapping[str, Sequence[str]] | None,
) -> ScriptLine:
    """Tell of one script what it exposes; its place follows from those of all."""
    whole, beyond, left = (_exposed(sample, part, whole=not unobserved) for part in parts)
    return ScriptLine(
        script=reads.name,
        sites=reads.sites,
        apis=reads.apis,
        unobserved=unobserved,
        verdict=_verdict(whole, budget),
        reads=whole,
        beyond=beyond,
        left=left,
        taken=_taken(whole, left),
        exposure=_exposure(sample, whole.apis),
        place=0,
        listed=None if listed is None else _categories(reads.name, listed),
    )


def _parts(apis: Iterable[str], decision: Decision) -> tuple[ApiSet, ApiSet, ApiSet]:
    """Divide what a script reads: all, what is not recommended, and what it is left."""
    read, recommended = set(apis), set(decision.recommended)
    left = read - (set(decision.policy.candidates) - recommended)
    return tuple(sorted(read)), tuple(sorted(read - recommended)), tuple(sorted(left))


def listed_hosts(content: Any) -> dict[str, list[str]]:
    """Return host -> its categories of fingerprinting in Disconnect's `services.json`, as parsed.

    Raises:
        InputError: It has another form, or no such category.
    """
    listed: dict[str, list[str]] = {}
    services = typed(content, _Services, "Disconnect's services.json")
    for category, companies in services.categories.items():
        if not category.startswith(_FINGERPRINTING):
            continue
        for company in companies:
            # Beside the hosts of an address stand marks such as `"dnt": "eff"`.
            members = [member for one in company.values() for member in one.values()]
            for host in (host for hosts in members if isinstance(hosts, list) for host in hosts):
                listed.setdefault(str(host), []).append(category)
    if not listed:
        raise InputError(
            "Disconnect's services.json: no category of fingerprinting",
            hint="hand in the list of trackers, which has FingerprintingInvasive",
        )
    return listed


class _Services(msgspec.Struct):
    categories: dict[str, list[dict[str, dict[str, Any]]]]


def _exposure(sample: CertifiedSample, apis: ApiSet) -> float:
    question, unbiased = sample.question, None
    if basis_of(question, sample.users) == "unbiased":
        spectrum = sample.disclosed(apis).most
        unbiased = unbiased_exposure(spectrum, k=question.k, population=question.users)
    return _limits(sample, apis)[1] if unbiased is None else unbiased


def _limits(sample: CertifiedSample, apis: ApiSet) -> tuple[float, float]:
    """Limits of a set; the empty one exposes nobody."""
    return sample.limits(apis) if apis else (0.0, 0.0)


def _exposed(sample: CertifiedSample, apis: ApiSet, *, whole: bool) -> ScriptExposure:
    question, (lower, upper) = sample.question, _limits(sample, apis)
    plug_in = plug_in_exposure(sample.disclosed(apis).most, k=question.k, population=question.users)
    return ScriptExposure(apis=apis, plug_in=plug_in, lower=lower, upper=upper if whole else None)


def _taken(reads: ScriptExposure, left: ScriptExposure) -> ScriptExposure:
    """Return by how much exposure falls; what the log lacks could make all of it stay."""
    whole = reads.upper is not None and left.upper is not None
    apis = tuple(api for api in reads.apis if api not in left.apis)
    lower, upper = 0.0, None
    if whole:
        lower = max(0.0, reads.lower - (left.upper or 0.0))
        # Interval arithmetic: each end is wrong only where one of two limits is.
        upper = max(0.0, (reads.upper or 0.0) - left.lower) if apis else 0.0
    return ScriptExposure(apis=apis, plug_in=reads.plug_in - left.plug_in, lower=lower, upper=upper)


def _verdict(reads: ScriptExposure, budget: float) -> Verdict:
    if reads.lower > budget:
        return "block"
    return "undecided" if reads.upper is None or reads.upper > budget else "allow"


def _places(exposures: Mapping[str, float]) -> dict[str, int]:
    """Scripts that expose more, plus one, as `rank_sets` has places of sets."""
    places = places_of(np.array([*exposures.values()]))
    return dict(zip(exposures, places.tolist(), strict=True))


def _stability(now: Mapping[str, float], then: Mapping[str, float]) -> Stability:
    from scipy.stats import kendalltau  # noqa: PLC0415 -- slow to load

    common = sorted(now.keys() & then.keys())
    tau = None
    pairs = [(round(now[name], 12), round(then[name], 12)) for name in common]
    # Of ties alone SciPy returns not-a-number, which no JSON can hold.
    if all(len({pair[side] for pair in pairs}) > 1 for side in (0, 1)):
        tau = float(kendalltau(*zip(*pairs, strict=True)).statistic)
    return Stability(
        common=len(common),
        new=len(now) - len(common),
        gone=len(then) - len(common),
        kendall_tau=tau,
    )


def _related(host: str, site: str) -> bool:
    """Whether a host and the host of a page belong together, as far as their names tell."""
    # `cdn.a.example` belongs to `www.a.example`, though neither ends in the other.
    site = site.removeprefix("www.")
    return host == site or host.endswith(f".{site}") or site.endswith(f".{host}")


def _categories(script: str, listed: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Categories of a host, or of a domain that it is part of."""
    parts = script.partition("/")[0].split(".")
    above = (".".join(parts[start:]) for start in range(len(parts)))
    return tuple(sorted({category for host in above for category in listed.get(host, ())}))


def _agreement(lines: Sequence[ScriptLine]) -> Agreement:
    # Lists of hosts are about third parties; a site's own script is in none.
    foreign = [line for line in lines if line.is_foreign]
    blocked = {line.host for line in foreign if line.verdict == "block"}
    named = {line.host for line in foreign if line.listed}
    hosts = len({line.host for line in foreign})
    both, either = len(blocked & named), len(blocked | named)
    # Cohen (1960) in whole numbers: multiplied by the square of the hosts, no division comes before
    # the last.
    same, total = (both + hosts - either) * hosts, hosts * hosts
    by_chance = len(blocked) * len(named) + (hosts - len(blocked)) * (hosts - len(named))
    return Agreement(
        both=both,
        ours=len(blocked - named),
        theirs=len(named - blocked),
        neither=hosts - either,
        kappa=None if by_chance == total else (same - by_chance) / (total - by_chance),
    )
