"""Proves that the tests of a decision file are those of its question."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from flint import arb, ctx

from fpmonitor.proof.declared import check_declared, scores_share
from fpmonitor.proof.design import DesignProof, check_proof, designs_of
from fpmonitor.proof.numbers import (
    NEVER,
    PRECISION,
    REFUSED,
    Answer,
    Deviation,
    Finding,
    Group,
    exact,
    ratio,
    require,
    whole_number,
)
from fpmonitor.proof.verdicts import VERDICTS, check_sets, largest_of, tested_level, users_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

UNIVERSE = 1000  # APIs that may ever be asked for, at least, for any choice
LEAST_TERM = 1e-12  # of a sum whose terms are all positive
SEARCH_SHARE = 0.2  # of the level, for users who are searched where others confirm
WORD_BITS = 64
ROUNDED = 1e-12


def check_average(side: dict[str, Any], policy: dict[str, Any], delta: float) -> str:
    """Prove that sets with the average of a file keep the budget in all but few populations.

    Args:
        side: What allows, as a parser of JSON returns it; its budget is the average.
        policy: The question.
        delta: Tolerated probability that one of the sets does not keep it.

    Returns:
        str: What is not proved, or the empty string.
    """
    with ctx.workprec(PRECISION):
        try:
            if not _allows_nothing(side):
                # The first design fills the form: line, mean and score of the average are its own.
                _prove_average({**side, **designs_of(side)[0]}, policy, delta)
        except REFUSED as error:
            return str(error) or type(error).__name__
    return ""


def _allows_nothing(side: dict[str, Any]) -> bool:
    if "nats" in side:
        return all(nats >= NEVER for nats in side["nats"][1:])
    return all(limit < 0 for limit in side["limits"][1:])


def _prove_average(side: dict[str, Any], policy: dict[str, Any], delta: float) -> None:
    given, users, k = side["average"], whole_number(side["population"]), whole_number(side["k"])
    line = {name: given[name] for name in ("slope", "intercept")}
    # the score of a group of fewer than k users is their number, times the tilt
    small = {"sign": 1, "mean": users, "starts": [1, k], "phi": [given["tilt"]], "factors": [1, 1]}
    small["capped"] = False
    moments = DesignProof(side | line | small)
    moments.line()
    tilt = exact(given["tilt"])
    require(holds=bool(tilt > 0), what="average: tilt")
    at = (arb(users).log() * users - users - arb(users + 1).lgamma()).exp()
    total = at
    for step, change in ((-1, -tilt), (1, -tilt * (k - 1))):
        term, number, factor = at, users, change.exp()
        # Terms are positive, and fewer of them make A smaller, which is the safe side.
        while number > 0 and term > total * exact(LEAST_TERM):
            term *= factor * (arb(number) / users if step < 0 else arb(users) / (number + 1))
            number += step
            total += term
    # As the decimal that was written: 0.29 of 100 are 29.
    too_many = math.floor(Fraction(repr(policy["budget"])) * users) + 1
    apis = len(policy["candidates"])
    nats = (arb(math.comb(apis, apis // 2)) / exact(delta)).log()
    average = moments.budget + ratio(Deviation.of(policy.get("sample", {})).unobserved)
    reached = tilt * too_many - moments.slope * average - moments.intercept + total.log()
    require(holds=bool(reached >= nats), what="average")


def check_proofs(content: dict[str, Any]) -> Iterator[Finding]:
    """Prove both sides of a decision file, and that they are of its question.

    Args:
        content: The file, as a parser of JSON returns it: one that is a decision.
    """
    policy, chains = content["policy"], _chains_of(content)
    realised = bool(policy.get("realised"))
    level, told = tested_level(content), content.get("level") or policy["delta"]
    confirmed = content.get("confirmation")
    largest = largest_of(content) if chains is None else sum(chains)
    # Of the level of the question a search has a fifth, and the users who confirm the rest.
    share = told / policy["delta"] / (1 if confirmed is None else SEARCH_SHARE)
    for side, sign in (("allow", -1), ("block", 1)):
        question = {
            "sign": sign,
            "k": policy["k"],
            "population": policy["population"],
            # Of each design: one for more users asks less of the data than these can give.
            "users": users_of(content),
            "universe": content.get("universe") or largest,
            "delta": (level / 2 if realised and sign < 0 else level) * scores_share(content),
            "value_share": None,  # all values of the users were counted
            "first_names": content.get("first_names"),
        }
        proof = content["proof"][side]
        # Limits of larger sets than there are would be read by nobody, and their proof takes long.
        few = len(proof.get("nats") or proof.get("limits", [])) <= largest + 1
        once = bool(content.get("design"))
        reason = (
            check_proof(proof, question, policy, once=once, chains=chains)
            if few
            else "limits: number"
        )
        noted = content.get("first_names")
        # other conditions have the levels of all names, and all share delta
        conditioned = policy.get("cohorts") or policy.get("links")
        if not reason and noted and (noted < largest or conditioned):
            reason = "another question: names of the first log"
        if not reason and not _is_share(share, content):
            reason = "another question: level"
        yield Finding(f"proof of {side}", (), "not proved" if reason else "proved", reason)
    yield from check_declared(content)
    if realised:
        reason = check_average(content["proof"]["allow"], policy, level / 2)
        answer: Answer = "not proved" if reason else "proved"
        yield Finding("average of a realised share", (), answer, reason)
    if confirmed is not None:
        yield from _confirmed(content, confirmed, Fraction(level) / Fraction(SEARCH_SHARE))


def _chains_of(content: Mapping[str, Any]) -> list[int] | None:
    """Return how many levels each component has above its lowest; null for API sets."""
    components = content.get("components")
    if not components:
        return None
    return [whole_number(each["most"]) - whole_number(each["least"]) for each in components]


def _confirmed(
    content: dict[str, Any], confirmed: dict[str, Any], whole: Fraction
) -> Iterator[Finding]:
    """Prove the tests of chains of sets on users who were not searched.

    `whole` is the level of the question, of which the search had a share.
    """
    policy, level = content["policy"], confirmed["level"]
    users = content["data"]["users"] - confirmed["searched"]
    # What two kept values may have the same word for, at most.
    alike = Fraction(users**2, 2 ** (WORD_BITS + 1 + level))
    rest = whole * (1 - Fraction(SEARCH_SHARE))
    most = float(rest / max(len(confirmed["chains"]), 1) - alike) * (1 + ROUNDED)
    for side, sign in (("allow", -1), ("block", 1)):
        proof = confirmed["proof"][side]
        question = {
            "sign": sign,
            "k": policy["k"],
            "population": policy["population"],
            "universe": 1,
            "users": users,
            "value_share": 0.5**level if level else None,
        }
        reason = check_proof(proof, question, policy, once=True)
        if not reason and not proof["delta"] <= most:
            reason = "another question: level"
        answer: Answer = "not proved" if reason else "proved"
        yield Finding(f"proof of {side} by the others", (), answer, reason)


def _is_share(share: float, content: dict[str, Any]) -> bool:
    """Whether a question may have a share of delta: whole, by its view, or as registered."""
    weight, universe = content.get("view_weight"), content.get("universe")
    if universe is not None and (weight is None or universe < UNIVERSE):
        return False
    if weight is not None:
        return weight <= 1 / 2 and any(math.isclose(share, weight / n) for n in (1, 2))
    if not content.get("registered"):
        return math.isclose(share, 1)
    registered = 1 / max(2 * share, 1e-9)
    # Registered questions share a half evenly, so its share is 1 / (2 r) for a whole number r.
    return 1 <= round(registered) < 1e8 and math.isclose(registered, round(registered))


def check_tolerance(
    content: dict[str, Any],
    tests: Iterable[tuple[float, dict[str, dict[str, Any]]]],
    groups: Mapping[tuple[str, ...], Iterable[Group]] | None,
) -> Iterator[Finding]:
    """Prove the biases of the sample that a decision file says its allowed sets tolerate.

    Args:
        content: The file, as a parser of JSON returns it.
        tests: Each bias of the list that was tried, and the proof of a decision with it.
        groups: As of `check_sets`; None to prove the tests alone.
    """
    policy, tolerances = content["policy"], content.get("bias_tolerated") or []
    sample = policy.get("sample", {})
    known = {sample.get("bias", 1.0)}
    for bias, proof in tests:
        known.add(bias)
        sets = [
            apis for apis, most in zip(content["allow"], tolerances, strict=True) if most >= bias
        ]
        biased = content | {
            "policy": policy | {"sample": sample | {"bias": bias}},
            "proof": proof,
            "allow": sets,
            "block": [],
            "undecided": [],
        }
        # The first finding is that of allowing: a bias is tolerated by allowed sets alone.
        found = [next(check_proofs(biased))]
        if groups is not None:
            # What is said of unions is not said of another bias.
            found += [one for one in check_sets(biased, groups) if one.claim in VERDICTS]
        yield from (one._replace(claim=f"{one.claim}, bias {bias:g}") for one in found)
    if not known.issuperset(tolerances):
        yield Finding("bias tolerated", (), "not proved", "a bias that was not tried")
