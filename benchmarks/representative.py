"""Samples that are not the population: how often is a decision on one wrong, and what does it cost?

    python benchmarks/representative.py bias [--runs 1000]    # simulated, with and without --bias
    python benchmarks/representative.py strata [--runs 1000]  # the same for --strata
    python benchmarks/representative.py fakes [--runs 1000]   # prices and simulated --fake-share
    python benchmarks/representative.py together [--runs 1000]  # several assumptions at once
    python benchmarks/representative.py one_population [--runs 1000]  # the same, with --realised
    python benchmarks/representative.py clusters [--runs 1000]  # several ids of exposed users
    python benchmarks/representative.py prices                # certified shares by the bias
    python benchmarks/representative.py drawn                 # users drawn by shares
    python benchmarks/representative.py browsers RELEASE ... [--runs 20]    # needs npm

`browsers` takes each release of the npm package user-agents (a row a browser, a member an
attribute), and then all of them together, for a whole population, with shares of 5 % phones and
95 % others, and observes as many of both as 40 to 60. It decides on all sets of eight attributes
and counts those allowed that are above the budget. Packages are fetched and not kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from certificate import exposure_at_limit, reference_law
from useragent_study import npm, read

from fpmonitor.decide.deciding import decide
from fpmonitor.decide.decision import Decision
from fpmonitor.estimate.exposure import exposure_probability, statistical_exposure
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.estimate.realised import average_budget
from fpmonitor.estimate.strata import draw_by_shares, expected_users
from fpmonitor.policy import PLAIN_DRAWS, Policy, SampleModel, Strata
from fpmonitor.population.memory import MemorySource
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from fpmonitor.estimate.criterion import Criterion

K, BUDGET, DELTA = 10, 0.05, 0.05
USERS = 5000
COMMON, RARE = 20, 200_000
BUDGETS = (0.02, 0.05, 0.1, 0.2, 0.3)  # for real browsers
PHONES = 0.05  # of the population; 0.4 of the sample


def allow(users: int, sample: SampleModel = PLAIN_DRAWS, *, realised: bool = False):
    """Test of one set that was fixed beforehand, for a population of 5,000 or for its average."""
    question = {"k": K, "population": USERS, "budget": BUDGET, "delta": DELTA}
    if realised:
        average = average_budget(**question | {"delta": DELTA / 2}, candidates=1)
        question |= {"budget": (average.exposure, BUDGET), "delta": (DELTA / 2, DELTA)}
    return decision_criteria(
        users=users, universe=1, **question, drawing=Drawing.of(sample, users)
    ).allow


def expecting(strata: Strata, sizes: np.ndarray) -> Strata:
    """Return strata of whom so many users are observed."""
    shares = np.array(list(strata.drawn().values()))
    seen = np.append(sizes, np.zeros(shares.size - len(sizes), dtype=int))
    return replace(strata, expected=expected_users(seen, shares))


def spectrum_of(values: np.ndarray) -> CountSpectrum:
    """Count spectrum of the values of users."""
    return CountSpectrum.from_counts(np.unique(values, return_counts=True)[1])


def biased_laws(
    multiple: float | None, bias: float, way: str, excess: float = 1.001
) -> tuple[np.ndarray, np.ndarray]:
    """Law of a population just above the budget, and of a sample that hides or enlarges it.

    Exposed users have values of `multiple` of k/n, or none that two of them share.
    """
    p = 1.005 * BUDGET / RARE if multiple is None else multiple * K / USERS
    exposed = float(exposure_probability(p, k=K, population=USERS))
    values = int(np.ceil(excess * BUDGET / exposed / p))
    there = np.append(np.full(values, p), 1 - values * p)
    if there[-1] <= 0:
        raise ValueError("the values take all users")
    factor = 1 / bias if way == "hidden" else bias
    here = np.append(np.full(values, p * factor), 1 - values * p * factor)
    return there, here


def simulate_bias(runs: int, rng: np.random.Generator) -> None:
    """Allowed though above the budget, without and with the bias."""
    print("| G | values | sample | exposure | plain allows | with G |\n|---|---|---|---|---|---|")
    for bias, multiple, way in itertools.product(
        (1.25, 2.0), (None, 0.5, 0.8, 1.0, 1.3), ("hidden", "enlarged")
    ):
        try:
            there, here = biased_laws(multiple, bias, way)
        except ValueError:
            continue
        if here[-1] <= 0:
            continue
        shares = np.append(here / there, there / here)
        inside = shares.max() <= bias * (1 + 1e-9)
        tests = allow(USERS), allow(USERS, SampleModel(bias=bias))
        found = np.zeros(2)
        for _ in range(runs):
            spectrum = CountSpectrum.from_counts(rng.multinomial(USERS, here))
            found += [test.holds(spectrum, 1) for test in tests]
        truth = statistical_exposure(there, k=K, population=USERS)
        named = "rare" if multiple is None else f"{multiple} k/n"
        outside = "" if inside else " (its common value differs by more)"
        plain, biased = found / runs
        print(f"| {bias} | {named} | {way}{outside} | {truth:.4f} | {plain:.1%} | {biased:.1%} |")


def simulate_strata(runs: int, rng: np.random.Generator) -> None:
    """Allowed though above the budget, of all users and of those drawn by shares."""
    print("| sample | population | bias within | plain allows | by shares | by shares, with bias |")
    print("|---|---|---|---|---|---|")
    for observed, share, bias in ((0.4, 0.1, 1.0), (0.9, 0.5, 1.0), (0.8, 0.2, 1.25)):
        exposed = 1.005 * BUDGET / (1 - share)
        rare = exposed / bias
        laws = (
            np.append(np.full(COMMON, 1 / COMMON), np.zeros(RARE)),
            np.append(np.full(COMMON, (1 - rare) / COMMON), np.full(RARE, rare / RARE)),
        )
        sizes = np.array([round(observed * USERS), round((1 - observed) * USERS)])
        strata = np.repeat([0, 1], sizes)
        known = expecting(Strata(by="", shares={"a": share, "b": 1 - share}), sizes)
        found = np.zeros(3)
        for _ in range(runs):
            values = np.concatenate(
                [
                    rng.choice(COMMON + RARE, size, p=law)
                    for size, law in zip(sizes, laws, strict=True)
                ]
            )
            kept, _ = draw_by_shares(strata, np.array([share, 1 - share]), rng)
            drawn = spectrum_of(values[kept])
            found += [
                allow(USERS).holds(spectrum_of(values), 1),
                allow(len(kept), SampleModel(strata=known)).holds(drawn, 1),
                allow(len(kept), SampleModel(strata=known, bias=bias)).holds(drawn, 1),
            ]
        plain, by_shares, both = found / runs
        print(
            f"| {observed:.0%} / {1 - observed:.0%} | {share:.0%} / {1 - share:.0%} | {bias} "
            f"| {plain:.1%} | {by_shares:.1%} | {both:.1%} |"
        )


def with_fakes(counts: np.ndarray, weights: np.ndarray, fakes: int) -> np.ndarray:
    """Counts with rows added one by one where the score of a group falls most by one more."""
    scores = np.arange(weights.size) * weights
    falls = np.append(scores[:-1] - scores[1:], 0.0)
    falls[0] = -np.inf
    counts = counts.copy()
    for _ in range(fakes):
        counts[np.argmax(falls[np.minimum(counts, falls.size - 1)])] += 1
    return counts


def fakes(runs: int, rng: np.random.Generator) -> None:
    """Certified shares by the share of rows that are no users, and sets that they hide."""
    shares = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05)
    print("| m | n | k | none |", " | ".join(f"{share:.2%}" for share in shares), "|")
    for users, population, k in ((10**5, 10**5, 10), (10**6, 10**5, 10), (10**5, 10**6, 50)):
        means, exposure = reference_law(users, k, population)
        found = []
        for share in (0.0, *shares):
            test = decision_criteria(
                users=users,
                k=k,
                population=population,
                budget=BUDGET,
                delta=DELTA,
                universe=1,
                drawing=Drawing(departure=SampleModel(fake_share=share).departure),
            ).allow
            reached = exposure_at_limit(test, users, means, exposure) or 0.0
            found.append(f"{max(reached, 0) / BUDGET:.1%}")
        print(f"| {users:,} | {population:,} | {k} |", " | ".join(found), "|", flush=True)
    print("| values | rows added | plain allows | with --fake-share |\n|---|---|---|---|")
    for multiple, added in itertools.product((0.6, 0.8, 1.0), (50, 100, 250)):
        law, _ = biased_laws(multiple, 1.0, "hidden")
        sample = SampleModel(fake_share=added / (USERS + added) + 1e-6)
        tests = allow(USERS + added), allow(USERS + added, sample)
        allowed = np.zeros(2)
        for _ in range(runs):
            users = rng.multinomial(USERS, law)
            allowed += [
                test.holds(
                    CountSpectrum.from_counts(with_fakes(users, test.score.weights[0], added)), 1
                )
                for test in tests
            ]
        plain, robust = allowed / runs
        print(f"| {multiple} k/n | {added} of {USERS + added} | {plain:.1%} | {robust:.1%} |")


def holds_with_fakes(test: Criterion, users: np.ndarray, added: int) -> bool:
    """Whether a set is allowed with rows that were added where the first score falls most."""
    rows = with_fakes(users, test.score.weights[0], added)
    return test.holds(CountSpectrum.from_counts(rows), 1)


def together(runs: int, rng: np.random.Generator) -> None:
    """Several ways at once in which a sample hides that a set is above the budget."""
    print("| what hides it | plain allows | with all that is assumed |\n|---|---|---|")
    added, absent = 50, 0.3
    for bias, multiple in ((1.5, None), (1.25, 0.8)):
        fake = SampleModel(bias=bias, fake_share=added / (USERS + added) + 1e-6)
        _, here = biased_laws(multiple, bias, "hidden" if multiple is None else "enlarged")
        tests = allow(USERS + added), allow(USERS + added, fake)
        found = np.zeros(2)
        for _ in range(runs):
            users = rng.multinomial(USERS, here)
            found += [
                test.holds(
                    CountSpectrum.from_counts(with_fakes(users, test.score.weights[0], added)), 1
                )
                for test in tests
            ]
        named = "rare values" if multiple is None else f"values at {multiple} k/n"
        print(f"| bias {bias} and {added} rows added, {named} |", *_shares(found / runs))
    # a stratum of common values, one of rare ones of which some are hidden, one never observed
    unseen, common, exposed = 0.01, 0.2, 1.005 * BUDGET
    for limits in (False, True):
        share = (common, 1 - common - unseen, unseen)
        known = {"a": share[0], "b": share[1], "c": share[2]}
        if limits:
            known |= {"a": (0.9 * share[0], 1.1 * share[0]), "b": (0.97 * share[1], 0.99)}
        strata = Strata(by="", shares=known, left_out=("c",))
        rare = (exposed - unseen) / share[1] / bias  # of the observed users of the second stratum
        sizes = np.array([round(0.8 * USERS), round(0.2 * USERS)])
        strata = expecting(strata, sizes)
        where, drawn = np.repeat([0, 1], sizes), np.array(list(strata.drawn().values()))
        laws = (
            np.append(np.full(COMMON, 1 / COMMON), np.zeros(RARE)),
            np.append(np.full(COMMON, (1 - rare) / COMMON), np.full(RARE, rare / RARE)),
        )
        found = np.zeros(2)
        for _ in range(runs):
            values = np.concatenate(
                [rng.choice(COMMON + RARE, m, p=law) for m, law in zip(sizes, laws, strict=True)]
            )
            lost = (values >= COMMON) & (rng.random(values.size) < absent)
            told = np.where(lost, -1, values)
            alone = np.where(lost, COMMON + RARE + np.arange(values.size), values)
            kept, _ = draw_by_shares(where, drawn, rng)
            found += [
                allow(USERS).holds(spectrum_of(told), 1),
                allow(len(kept), SampleModel(bias=bias, strata=strata)).holds(
                    spectrum_of(alone[kept]), 1
                ),
            ]
        print(
            "| strata"
            + " within limits" * limits
            + f", one of them unseen, bias {bias} within, exposed values absent |",
            *_shares(found / runs),
        )


def one_population(runs: int, rng: np.random.Generator) -> None:
    """How often a set is allowed and more of one population are exposed than the budget."""
    print("| what hides it | plain | with all that is assumed |\n|---|---|---|")
    added, absent, unseen, common = 250, 0.3, 0.01, 0.2
    for bias in (1.0, 1.25):
        sample = SampleModel(bias=bias, fake_share=added / (USERS + added) + 1e-6)
        there, here = biased_laws(0.8, bias, "enlarged", 1.15)
        tests = allow(USERS + added), allow(USERS + added, sample, realised=True)
        found = np.zeros(2)
        for _ in range(runs):
            users = rng.multinomial(USERS, here)
            above = exposed_in(rng.multinomial(USERS, there)) > BUDGET
            found += [
                above
                and test.holds(
                    CountSpectrum.from_counts(with_fakes(users, test.score.weights[0], added)), 1
                )
                for test in tests
            ]
        print(
            f"| bias {bias:g} and {added} rows added, values at 0.8 k/n |", *_shares(found / runs)
        )
    bias, exposed = 1.25, 1.2 * BUDGET
    strata = Strata(
        by="", shares={"a": common, "b": 1 - common - unseen, "c": unseen}, left_out=("c",)
    )
    rare = (exposed - unseen) / (1 - common - unseen) / bias
    sizes = np.array([round(0.8 * USERS), round(0.2 * USERS)])
    strata = expecting(strata, sizes)
    where, drawn = np.repeat([0, 1], sizes), np.array(list(strata.drawn().values()))
    law = np.append(np.full(COMMON, (1 - rare) / COMMON), np.full(RARE, rare / RARE))
    there = np.append(np.full(COMMON, (1 - exposed) / COMMON), np.full(RARE, exposed / RARE))
    found = np.zeros(2)
    for _ in range(runs):
        values = np.concatenate(
            [rng.choice(COMMON, sizes[0]), rng.choice(law.size, sizes[1], p=law)]
        )
        lost = (values >= COMMON) & (rng.random(values.size) < absent)
        alone = np.where(lost, law.size + np.arange(values.size), values)
        kept, _ = draw_by_shares(where, drawn, rng)
        sample = SampleModel(bias=bias, strata=strata)
        if exposed_in(rng.multinomial(USERS, there)) > BUDGET:
            found += [
                allow(USERS).holds(spectrum_of(np.where(lost, -1, values)), 1),
                allow(len(kept), sample, realised=True).holds(spectrum_of(alone[kept]), 1),
            ]
    print("| strata, one unseen, bias 1.25 within, exposed values absent |", *_shares(found / runs))
    # the same users, of whom the exposed ones have several ids
    strata = expecting(Strata(by="", shares={"a": common, "b": 1 - common}), sizes)
    drawn = np.array(list(strata.drawn().values()))
    rare = exposed / (1 - common) / bias
    law = np.append(np.full(COMMON, (1 - rare) / COMMON), np.full(RARE, rare / RARE))
    sample = SampleModel(bias=bias, strata=strata, cluster="person")
    for ids in (2, 40):
        found = np.zeros(2)
        for _ in range(runs):
            persons = np.concatenate(
                [rng.choice(COMMON, sizes[0]), rng.choice(law.size, sizes[1], p=law)]
            )
            rows = np.repeat(persons, np.where(persons >= COMMON, ids, 1))
            kept, _ = draw_by_shares(where, drawn, rng)
            if exposed_in(rng.multinomial(USERS, there)) > BUDGET:
                found += [
                    allow(len(rows)).holds(spectrum_of(rows), 1),
                    allow(len(kept), sample, realised=True).holds(spectrum_of(persons[kept]), 1),
                ]
        print(
            f"| strata, bias 1.25 within, {ids} ids of each exposed user |", *_shares(found / runs)
        )


def exposed_in(counts: np.ndarray) -> float:
    """Share of the users of one population in groups of fewer than k."""
    return counts[counts < K].sum() / counts.sum()


def clusters(runs: int, rng: np.random.Generator) -> None:
    """Exposed users with several ids, as they come and one of each."""
    print("| ids of an exposed user | plain allows | one of each |\n|---|---|---|")
    law, _ = biased_laws(0.8, 1.0, "hidden")
    for ids in (2, 3, 5):
        found = np.zeros(2)
        for _ in range(runs):
            persons = rng.choice(law.size, USERS, p=law)
            rows = np.repeat(persons, np.where(persons < law.size - 1, ids, 1))
            found += [
                allow(len(rows)).holds(spectrum_of(rows), 1),
                allow(USERS, SampleModel(cluster="person")).holds(spectrum_of(persons), 1),
            ]
        print(f"| {ids} |", *_shares(found / runs))


def _shares(found: np.ndarray) -> tuple[str, ...]:
    return tuple(f"{share:.1%} |" for share in found)


def prices() -> None:
    """Certified share of the budget, one set fixed beforehand, at every look and at one."""
    factors = (1, 1.05, 1.1, 1.25, 1.5, 2, 3, 5)
    print("| m | n | k | looks |", " | ".join(map(str, factors)), "|")
    asked = ((10**5, 10**5, 10), (10**6, 10**5, 10), (10**5, 10**6, 50))
    for (users, population, k), once in itertools.product(asked, (False, True)):
        means, exposure = reference_law(users, k, population)
        shares = []
        for bias in factors:
            test = decision_criteria(
                users=users,
                k=k,
                population=population,
                budget=BUDGET,
                delta=DELTA,
                universe=1,
                drawing=Drawing(
                    departure=SampleModel(bias=float(bias)).departure,
                    expected=users if once else None,
                ),
            ).allow
            reached = exposure_at_limit(test, users, means, exposure) or 0.0
            shares.append(f"{reached / BUDGET:.1%}")
        looks = "one" if once else "every"
        print(
            f"| {users:,} | {population:,} | {k} | {looks} |", " | ".join(shares), "|", flush=True
        )


def drawn(runs: int, rng: np.random.Generator) -> None:
    """Users drawn of 100,000, and the certified share of the budget with them."""
    users, population, k = 100_000, 100_000, 10
    exact = ((0.5, 0.5), (0.6, 0.5), (0.75, 0.5), (0.9, 0.5), (0.4, 0.05))
    asked = [(observed, {"a": share, "b": 1 - share}, ()) for observed, share in exact]
    asked += [
        (0.5, {"a": (0.5 - w, 0.5 + w), "b": (0.5 - w, 0.5 + w)}, ()) for w in (0.01, 0.05, 0.1)
    ]
    asked += [(few / users, {"a": 0.01, "b": 0.99}, ()) for few in (20, 200, 1000)]
    asked += [(0.0, {"a": share, "b": 1 - share}, ("a",)) for share in (0.001, 0.01, 0.03)]
    print("| sample | population | users drawn | certified |\n|---|---|---|---|")
    for observed, said, left_out in asked:
        strata = (np.arange(users) >= observed * users).astype(np.intp)
        known = Strata(by="", shares=said, left_out=left_out)
        shares = np.array(list(known.drawn().values()))
        sizes = [len(draw_by_shares(strata, shares, rng)[0]) for _ in range(runs)]
        middle = int(np.median(sizes))
        means, exposure = reference_law(middle, k, population)
        question = {"k": k, "population": population, "budget": BUDGET, "delta": DELTA}
        test = decision_criteria(
            users=middle,
            **question,
            universe=1,
            drawing=Drawing(
                departure=known.departure(),
                expected=expecting(known, np.bincount(strata, minlength=2)).expected,
            ),
        ).allow
        reached = exposure_at_limit(test, middle, means, exposure) or 0.0
        limits = " / ".join(
            f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
            for low, high in known.limits.values()
        )
        print(
            f"| {observed:.4g} / {1 - observed:.4g} | {limits} | {middle:,} "
            f"| {max(reached, 0) / BUDGET:.1%} |"
        )


def release(version: str, cache: Path) -> pl.DataFrame:
    """Rows of a release of user-agents, all attributes as text; those of `connection` by itself."""
    document = read(
        npm(cache, f"user-agents@{version}"), "user-agents.json.gz", "dist/user-agents.json"
    )
    rows = []
    for browser in json.loads(document):
        nested = {
            f"connection.{key}": at for key, at in (browser.pop("connection", None) or {}).items()
        }
        rows.append({key: json.dumps(at) for key, at in (browser | nested).items()})
    return pl.DataFrame(rows, infer_schema_length=None).drop("weight")


def browsers(named: str, frame: pl.DataFrame, runs: int, rng: np.random.Generator) -> None:
    """Sets of real attributes that are allowed though above the budget, by both ways to observe."""
    phone = (frame["deviceCategory"] == '"mobile"').to_numpy()
    codes = {
        name: frame[name].fill_null("").rank("dense").to_numpy().astype(int) - 1
        for name in frame.columns
        if name != "deviceCategory" and 1 < frame[name].n_unique() < frame.height / 2
    }
    names = sorted(sorted(codes, key=lambda name: -int(codes[name].max()))[:8])
    shares = np.array([PHONES, 1 - PHONES])
    weight = np.where(phone, PHONES / phone.sum(), (1 - PHONES) / (~phone).sum())

    def truth(apis: tuple[str, ...]) -> float:
        """Exposure of a set in a population with these shares."""
        tuples = np.stack([codes[name] for name in apis], axis=1)
        _, value = np.unique(tuples, axis=0, return_inverse=True)
        return statistical_exposure(np.bincount(value, weight), k=K, population=USERS)

    wrong, allowed = np.zeros((len(BUDGETS), 2), dtype=int), np.zeros((len(BUDGETS), 2), dtype=int)
    for _ in range(runs):
        sizes = (2 * USERS, 3 * USERS)  # 40 of 100 are phones
        users = np.concatenate(
            [
                rng.choice(np.flatnonzero(phone == which), size)
                for which, size in zip((True, False), sizes, strict=True)
            ]
        )
        known = expecting(Strata(by="", shares={"a": PHONES, "b": 1 - PHONES}), np.array(sizes))
        kept, _ = draw_by_shares(np.repeat([0, 1], sizes), shares, rng)
        by_shares = SampleModel(strata=known)
        for place, (rows, sample) in enumerate(((users, PLAIN_DRAWS), (users[kept], by_shares))):
            source = MemorySource(names, [codes[name][rows] for name in names])
            for row, budget in enumerate(BUDGETS):
                policy = Policy(
                    k=K,
                    population=USERS,
                    budget=budget,
                    delta=DELTA,
                    candidates=tuple(names),
                    sample=sample,
                )
                listed = decide(source, Decision.begun(policy)).allow
                wrong[row, place] += any(truth(apis) > budget for apis in listed)
                allowed[row, place] += len(listed)
    for budget, mistaken, sets in zip(BUDGETS, wrong, allowed / runs, strict=True):
        print(
            f"| {named} | {budget:.0%} | {mistaken[0]} of {runs} | {mistaken[1]} of {runs} "
            f"| {sets[0]:.1f} | {sets[1]:.1f} |",
            flush=True,
        )


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    made = {
        "bias": simulate_bias,
        "strata": simulate_strata,
        "fakes": fakes,
        "together": together,
        "one_population": one_population,
        "clusters": clusters,
        "drawn": drawn,
    }
    parser.add_argument("what", choices=[*made, "prices", "browsers"])
    parser.add_argument("releases", nargs="*")
    parser.add_argument("--runs", type=int, default=100)
    asked = parser.parse_args()
    rng = np.random.default_rng(7)
    if asked.what in made:
        made[asked.what](asked.runs, rng)
    elif asked.what == "prices":
        prices()
    else:
        print(
            "| users | budget | wrong: as observed | wrong: by shares | sets allowed | by shares |"
        )
        print("|---|---|---|---|---|---|")
        with tempfile.TemporaryDirectory() as scratch:
            frames = {version: release(version, Path(scratch)) for version in asked.releases}
        if len(frames) > 1:
            frames["together"] = pl.concat(frames.values(), how="diagonal")
        for named, frame in frames.items():
            browsers(named, frame, asked.runs, rng)


if __name__ == "__main__":
    main()
