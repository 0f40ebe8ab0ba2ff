"""Proves what a decision file says of cohorts, links and visits, beside the tests of all users.

For each design the line is proved as elsewhere, at the mean M. The file names a lowered mean mu, at
which the clock is proved, and what a user of the cohort adds. With `e^t = M / mu` and thinnings f:

* lowered: `mu >= M + slope q + intercept`, q the budget of a cohort;
* table: as elsewhere, by the thinnings `f e^t / (1 - f + f e^t)`;
* by_user: at most `sum_i w_i ln(1 - f_i + f_i e^t)`;
* unseen: with a tilt h, by_user is at most `sum_i w_i ln(1 - f_i (1 - e^-h))`, and the bonus at
  most `s mu (1 - e^-h)`, s the least share of a cohort.

Links have a side each time, whose lines are of the share of users who can be linked, and whose
spectra are those of users who came back then: of values that have not changed.

A set keeps the budget of its cohorts where for each of them, and for one of whom nobody was seen,
the weighted sum of `exp(log_factor - charge + by_user N - scale S)` reaches what its size asks for.

Cohorts that count together (`worst_share`) keep it where there are weights w of sum 1 for which
`sum w (ln share + log_factor - charge) - sum w ln w` and, of each cohort K that lowers it,
`sum w (by_user N_K - scale S_K)` reach it together: the sum of the designs of any cohorts is not
below that.
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from flint import arb, ctx

from fpmonitor.proof.design import DesignProof, LinkedProof, Shared, check_proof
from fpmonitor.proof.numbers import (
    PRECISION,
    REFUSED,
    ROUNDED_TEST,
    Deviation,
    Finding,
    Group,
    exact,
    ratio,
    require,
)
from fpmonitor.proof.verdicts import (
    DRAWS,
    Range,
    Test,
    draws_of,
    largest_of,
    sums,
    tested_level,
    users_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

# Of one part: its weight, what there is without users, what a user adds, scale, weights by count.
_Share = tuple[arb, arb, arb, arb, list[float]]
_OF_SIDE = ("delta", "bases", "universe", "nats", "k", "population", "users")


class _Part(DesignProof):
    """One design for cohorts."""

    def __init__(self, content: dict[str, Any], shared: Shared | None = None) -> None:
        super().__init__(content, shared)
        self.lowered = exact(content["lowered"])
        self.by_user = exact(content["by_user"])
        self.constant = self.log_factor - self.charge
        bound = self.slope * self.budget + self.intercept
        # mu >= M + a q + b; a smaller budget than was asked has a smaller bound, so it proves more.
        reached = self.lowered < self.mean and self.lowered >= self.mean + bound
        plain = self.least == self.most == 1 and self.seen == 1 and "fakes" not in content
        require(holds=self.sign < 0 and plain and not self.capped, what="form")
        require(holds=bool(reached), what="lowered mean")
        self.full, self.growth = self.mean, self.mean / self.lowered
        self.plain = self.shares
        self.grown = [1 - f + f * self.growth for f in self.plain]

    def prove(self) -> None:
        """Prove it all."""
        # Conditions are free with monotone tests only: docs/certificate/people.md.
        falls = all(a >= b for a, b in pairwise(self.table))
        require(holds=falls and self.content["monotone"] is True, what="monotone")
        parts = zip(self.mixture, self.grown, strict=True)
        most = sum((weight * share.log() for weight, share in parts), arb(0))
        require(holds=bool(self.by_user <= most), what="what a user of the cohort adds")
        # The clock is of the plain thinnings at mu, table and line of the tilted ones at M.
        self.mean = self.lowered
        self.clock()
        self.mean = self.full
        tilted = zip(self.plain, self.grown, strict=True)
        self.shares = [f * self.growth / share for f, share in tilted]
        self.tabulated()
        self.line()


class _Unseen(DesignProof):
    """What rules out cohorts of whom few were seen: a design without a score."""

    def __init__(self, unseen: dict[str, Any], side: dict[str, Any], least_share: float) -> None:
        # A score of nothing: the clock alone is asked of it.
        nothing = {"starts": [1, 2], "phi": [0.0], "slope": 0.0, "intercept": 0.0}
        weightless = {"weights": [0.0, 0.0], "scale": 1.0, "charge": 0.0}
        super().__init__({**side, **unseen, **nothing, **weightless})
        self.by_user, bonus = exact(unseen["by_user"]), exact(unseen["bonus"])
        self.constant = self.log_factor + bonus
        lost = 1 - (-exact(unseen["tilt"])).exp()
        require(holds=bool(lost > 0), what="form")
        parts = zip(self.mixture, self.shares, strict=True)
        most = sum((weight * (1 - f * lost).log() for weight, f in parts), arb(0))
        require(holds=bool(self.by_user <= most), what="what a user of a small cohort takes")
        granted = exact(least_share) * self.mean * lost
        require(holds=bool(bonus <= granted), what="least share")


def _parts_of(content: Mapping[str, Any]) -> tuple[list[_Part], _Unseen]:
    """Read what the file tells of cohorts; numbers are proved later."""
    wanted, side = content["policy"]["cohorts"], content["proof"]["allow"]
    cohorts = side["cohorts"]
    of = (
        ("given", wanted["given"]),
        ("least_share", wanted["least_share"]),
        ("worst_share", False),
    )
    for name, usual in of:
        asked = wanted.get(name, usual)
        # Files of before do not tell it.
        require(holds=cohorts.get(name, asked) == asked, what=f"another question: {name}")
    shared = Shared({}, {}, [])
    same = {name: side[name] for name in _OF_SIDE}
    for part in cohorts["parts"]:
        alike = all(part[name] == side[name] for name in ("k", "population", "users"))
        require(holds=alike and part["share"] > 0, what="another question")
        # A smaller one is harder to keep.
        require(holds=part["budget"] <= wanted["budget"], what="another question: budget")
    # Points of lines are shared by their means, which says nothing of a share unless M is one.
    means = {part["mean"] for part in cohorts["parts"]}
    require(holds=len(means) <= 1 and cohorts["unseen"]["share"] > 0, what="form")
    parts = [_Part({**part, **same}, shared) for part in cohorts["parts"]]
    alone = {**same, "sign": -1, "monotone": True, "budget": wanted["budget"]}
    unseen = _Unseen(cohorts["unseen"], alone, wanted["least_share"])
    total = sum((part.share for part in parts), unseen.share)
    require(holds=bool(total <= 1), what="weights of the designs")
    return parts, unseen


def check_conditions(content: Mapping[str, Any]) -> Iterable[Finding]:
    """Prove the tests of cohorts and links of a decision file, where it has some."""
    yield from _check_cohorts(content)
    yield from _check_links(content)


def _require_plain_draws(policy: Mapping[str, Any]) -> None:
    """Go on where the users are draws from the population: tests of conditions allow no bias."""
    is_plain = Deviation.of(policy.get("sample", {})) == Deviation.of({})
    # The test of a cohort is of its average, too, and nothing here bounds how it is realised.
    require(holds=is_plain and not policy.get("realised"), what="another question: sample")


def _check_links(content: Mapping[str, Any]) -> Iterable[Finding]:
    policy, link_proofs = content["policy"], content["proof"]["allow"].get("links")
    links = policy.get("links")
    # Tests without a question are refused, too: a reader might take them for a promise.
    if links is None and link_proofs is None:
        return
    after = None if links is None else links.get("after") or [None]
    if link_proofs is None or [each.get("after") for each in link_proofs] != after:
        yield Finding("proof of links", (), "not proved", "another question: days")
        return
    level, other = tested_level(content), ""
    try:
        _require_plain_draws(policy)
        require(holds=policy.get("sample", {}).get("cluster") is None, what="links of clusters")
    except REFUSED as error:
        other = str(error) or type(error).__name__
    for side in link_proofs:
        wanted = {
            "sign": -1,
            "k": 2,
            "population": policy["population"],
            "universe": content.get("universe") or largest_of(content),
            "delta": level,
            "value_share": None,
            "first_names": None,
        }
        if side["after"] is None:
            wanted["users"] = users_of(content)
        reason = "limits: number"
        if len(side["nats"]) <= largest_of(content) + 1:
            reason = check_proof(side, wanted, {"budget": links["budget"]}, kind=LinkedProof)
        reason = reason or other
        of = "links" if side["after"] is None else f"links after {side['after']:g} days"
        yield Finding(f"proof of {of}", (), "not proved" if reason else "proved", reason)


def _check_cohorts(content: Mapping[str, Any]) -> Iterable[Finding]:
    cohorts = content["policy"].get("cohorts")
    if cohorts is None and "cohorts" not in content["proof"]["allow"]:
        return
    reason = ""
    with ctx.workprec(PRECISION):
        try:
            require(holds=cohorts is not None, what="another question: no cohorts")
            _require_plain_draws(content["policy"])
            parts, unseen = _parts_of(content)
            sample = content["policy"].get("sample", {})
            for part in (*parts, unseen):
                part.of_looks(sample, once=False)
            for part in parts:
                part.prove()
            unseen.clock()
        except REFUSED as error:
            reason = str(error) or type(error).__name__
    yield Finding("proof of cohorts", (), "not proved" if reason else "proved", reason)


def _together(groups: Iterable[Group]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for least, most, users in groups:
        found[least, most] = found.get((least, most), 0) + users
    return found


class Conditions:
    """What the file finds out of cohorts, links and paths; all is kept where nothing was asked."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.nats: Sequence[float] = content["proof"]["allow"].get("nats", [])
        self.parts: list[_Share] = []
        self.is_asked = content["policy"].get("cohorts") is not None
        self.together = self.is_asked and content["policy"]["cohorts"].get("worst_share", False)
        policy, side = content["policy"], content["proof"]["allow"]
        # By the name of the unit: its test, and the users or draws whose groups there must be.
        self.beside: dict[str, tuple[Test, int]] = {}
        users, draws = users_of(content), draws_of(policy)
        if policy.get("visits") == "both":
            self.beside["path"] = Test(side), users
        if policy.get("visits") == "last+visit":
            self.beside["visit"] = Test(side, DRAWS), users * DRAWS
        for one in side.get("links", []):
            if one["after"] is None:
                self.beside["users"] = Test(one, draws, LinkedProof), users * draws
            else:
                name = f"{one['after']:.10g}d"
                self.beside[name] = Test(one, kind=LinkedProof), one["users"]
        if not self.is_asked:
            return
        with ctx.workprec(PRECISION):
            try:
                designs, unseen = _parts_of(content)
            except REFUSED:
                return
            parts: list[_Part | _Unseen] = [*designs, unseen]
            self.parts = [
                (one.share, one.constant, one.by_user, one.scale, one.content["weights"])
                for one in parts
            ]

    def keep(
        self,
        size: int,
        *,
        whole: Iterable[Group],
        cohorts: Sequence[Sequence[Group]],
        beside: Mapping[str, Sequence[Group]],
    ) -> Range:
        """Whether a set of a size keeps the budget of all its cohorts, and of all other units.

        Args:
            size: Number of APIs.
            whole, cohorts, beside: Groups of all users, of each cohort, and of other units.
        """
        kept = Range(surely=True, perhaps=True)
        for name, (test, users) in self.beside.items():
            groups = [*whole] if name == "users" else beside.get(name, ())
            # Groups that leave somebody out could hide those who are linked.
            if sum(inside for _, _, inside in groups) != users:
                return Range(surely=False, perhaps=False)
            above = test.above(groups, size)
            kept = kept.without(above)
        if not self.is_asked:
            return kept
        # Cohorts must be all of the users, each once: else the worst off could be left out.
        if not self.parts or _together(chain(*cohorts)) != _together(whole):
            return Range(surely=False, perhaps=False)
        if self.together:
            found = [kept, self._keep_together(cohorts, size)]
        else:
            # The last one, without users, is a cohort of whom nobody was seen.
            found = [kept, *(self._keeps(groups, size) for groups in (*cohorts, ()))]
        return Range(all(each.surely for each in found), all(each.perhaps for each in found))

    def _keeps(self, groups: Sequence[Group], size: int) -> Range:
        with ctx.workprec(PRECISION):
            low, high = arb(0), arb(0)
            for part in self.parts:
                share, constant, *_ = part
                least, most = self._added(part, groups)
                low += share * (constant + least).exp()
                high += share * (constant + most).exp()
            threshold = exact(self.nats[size])
            rounding = ROUNDED_TEST * (1 + threshold + abs(high.log()))
            # What a test in floating point leaves open, it does not decide.
            return Range(bool(low.log() >= threshold), bool(high.log() >= threshold + rounding))

    def _keep_together(self, cohorts: Sequence[Sequence[Group]], size: int) -> Range:
        with ctx.workprec(PRECISION):
            constants = [share.log() + constant for share, constant, *_ in self.parts]
            told = [[self._added(part, groups) for part in self.parts] for groups in cohorts]
            middle = np.array([[float(low.mid()) for low, _ in ends] for ends in told])
            shares = _least_together(
                np.array([float(each.mid()) for each in constants]),
                middle.reshape(len(told), len(constants)),
            )
            # Of shares of cohorts no weights show more than their sum; and its parts are weights.
            taken = [*zip([exact(float(each)) for each in shares], told, strict=True)]
            logs = [
                sum((share * ends[place][1] for share, ends in taken), constant)
                for place, constant in enumerate(constants)
            ]
            high = sum((each.exp() for each in logs), arb(0)).log()
            weights = [exact(float((each - high).exp().mid())) for each in logs]
            total = sum(weights, arb(0))
            weights = [each / total for each in weights]
            low = sum((-w * w.log() for w in weights if w > 0), arb(0))
            low += sum((w * each for w, each in zip(weights, constants, strict=True)), arb(0))
            for ends in told:
                added = sum((w * one[0] for w, one in zip(weights, ends, strict=True)), arb(0))
                low += arb(0) if added >= 0 else added
            threshold = exact(self.nats[size])
            rounding = ROUNDED_TEST * (1 + threshold + abs(high))
            return Range(bool(low >= threshold), bool(high >= threshold + rounding))

    @staticmethod
    def _added(part: _Share, groups: Sequence[Group]) -> tuple[arb, arb]:
        """Return what the users of a cohort add to a part, at least and at most."""
        _, _, by_user, scale, weights = part
        users = sum(inside for _, _, inside in groups)
        least, most = (scale * ratio(each) for each in sums(weights, groups))
        return by_user * users - most, by_user * users - least


def _least_together(
    constants: NDArray[np.float64], added: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Shares of the cohorts, from 0 to 1, of which the sum of the designs is nearly the least."""

    def together(shares: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        told = constants + shares @ added
        return float(scipy.special.logsumexp(told)), added @ scipy.special.softmax(told)

    half = np.full(len(added), 0.5)
    if not len(half):
        return half
    bounds, options = [(0, 1)] * len(half), {"ftol": 1e-13, "gtol": 1e-9}
    solved = scipy.optimize.minimize(
        together, half, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return np.asarray(np.clip(solved.x, 0, 1))
