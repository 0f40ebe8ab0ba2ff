"""Who pays, at which visits and for how long, by the commands on rows of real browsers.

    python -P benchmarks/people.py TABLE.parquet [cohorts] [panel] [--users 10000] [--sample 1]

TABLE holds rows of the npm package `user-agents`, a row each: it is taken for the distribution.
`cohorts` draws users and counts of 256 sets those within a set that `decide` allows, without and
with budgets of cohorts of several sizes, beside those that truly are. It names the cohorts that are
nearest to failing where nobody in them is exposed. `--population` is n, the users by default.
`panel` makes users who come again: browsers update in stages, phones are turned, windows resized,
networks vary, devices are replaced. It prints what `exposure` says of visits and of links, and what
a link budget allows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.cli import run
from fpmonitor.estimate.cohort_budget import cohort_test
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import Drawing
from fpmonitor.policy import CohortBudget
from fpmonitor.population.browsers import USER_AGENTS, browser_of, system_of
from fpmonitor.spectrum import CohortSpectrum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

AGENT = "userAgent"
OTHERS = (
    *(AGENT, "platform", "pluginsLength", "screenWidth", "screenHeight", "deviceCategory"),
    *("connection.effectiveType", "connection.rtt"),
)
SETS = [frozenset(chosen) for size in range(9) for chosen in combinations(OTHERS, size)]
BUDGET, K = 0.05, 10
QUESTIONS = ((0.2, 0.05), (0.2, 0.01), (0.1, 0.02))  # budget of each cohort, and its least share
SHOWN = (AGENT, f"{AGENT},screenWidth,screenHeight", f"{AGENT},connection.rtt")
DAYS = 98  # of a panel; a release each four weeks
TURNED, RESIZED, VARIES, REPLACED = 0.15, 0.3, 0.7, 900  # shares of visits; days
_MAJOR = re.compile(r"(Chrome|CriOS|Firefox|FxiOS|Version|rv:)(/?)(\d+)")


def main() -> None:
    parser = argparse.ArgumentParser(description="Cohorts, visits and links of real rows.")
    parser.add_argument("table", type=Path)
    parser.add_argument("parts", nargs="*", default=["cohorts", "panel"])
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--population", type=int)
    parser.add_argument("--sample", type=int, default=1)
    asked = parser.parse_args()
    rows = pl.read_parquet(asked.table).select(AGENT, *SIZES, *OTHERS[1:]).cast(pl.String)
    rows = rows.select(pl.all().fill_null(""))
    population = asked.population or asked.users
    found = {
        name: globals()[name](rows, asked.users, population, np.random.default_rng(asked.sample))
        for name in asked.parts
    }
    print(json.dumps(found, indent=1))


SIZES = ("viewportWidth", "viewportHeight")


def command(*words: str) -> Any:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        run(list(words))
    return json.loads(told.getvalue() or "null")


def stored(folder: str, frame: pl.DataFrame) -> str:
    log, database = str(Path(folder) / "log.parquet"), str(Path(folder) / "log.duckdb")
    frame.write_parquet(log)
    with contextlib.redirect_stdout(io.StringIO()):
        run(["ingest", log, "--db", database, "-q", "--as", f"{AGENT}=Navigator.userAgent"])
    return database


def allowed(database: str, population: int, *options: str) -> tuple[list[frozenset[str]], float]:
    """Return the sets that are within an allowed one, and the seconds of processor."""
    output, began = f"{database}.json", time.process_time()
    words = ["--k", str(K), "--budget", str(BUDGET), "-n", str(population), "--fixed-question"]
    names = ",".join(OTHERS)
    code = run(
        ["decide", *words, "-q", "--candidates", names, "--db", database, "-o", output, *options]
    )
    seconds = round(time.process_time() - began, 1)
    if code == 3:  # too few users for the question
        return [], seconds
    if code:
        raise RuntimeError(f"decide ended with {code}")
    listed = [frozenset(one) for one in json.loads(Path(output).read_text())["allow"]]
    return [one for one in SETS if not one or any(one <= other for other in listed)], seconds


def kinds(rows: pl.DataFrame, names: Iterable[str]) -> NDArray[np.intp]:
    """Number of the joint value of each row."""
    found = np.zeros(len(rows), dtype=np.intp)
    for name in names:
        codes = np.unique(rows[name].to_numpy().astype(str), return_inverse=True)[1]
        found = np.unique(found * (codes.max() + 1) + codes, return_inverse=True)[1]
    return found


def cohorts(
    rows: pl.DataFrame, users: int, population: int, rng: np.random.Generator
) -> dict[str, Any]:
    agents = rows[AGENT].to_list()
    parsed = {one: (browser_of(USER_AGENTS[0], one)[0], system_of(one)) for one in {*agents}}
    told = rows.with_columns(
        family=pl.Series([parsed[one][0] for one in agents]),
        system=pl.Series([parsed[one][1] for one in agents]),
    )
    cohort = kinds(told, ("family", "system"))
    shares = np.bincount(cohort) / len(rows)
    truth = {one: truth_of(told, one, cohort, population) for one in SETS}
    drawn = rng.integers(len(rows), size=users)
    with tempfile.TemporaryDirectory() as folder:
        database = stored(folder, rows[drawn].with_row_index("user"))
        plain, seconds = allowed(database, population)
        found = [
            _kept(database, population, truth, shares, cohort[drawn], each=each, least=least)
            for each, least in QUESTIONS
        ]
    overall = {one for one in SETS if truth[one][0] <= BUDGET}
    return {
        "users": users,
        "population": population,
        "truly within overall": len(overall),
        "allowed without cohorts": len(plain),
        "of these above it where sites see cohorts": len({*plain} - overall),
        "seconds without cohorts": seconds,
        "with": found,
    }


def truth_of(
    told: pl.DataFrame, apis: Iterable[str], cohort: NDArray[np.intp], population: int
) -> tuple[float, NDArray[np.float64]]:
    """Return the exposure of a set read with family and system: of all users, and by cohort."""
    groups = kinds(told, ("family", "system", *sorted(apis)))
    p = np.bincount(groups) / len(told)
    exposed = exposure_probability(p, k=K, population=population)[groups]
    return float(exposed.mean()), np.bincount(cohort, exposed) / np.bincount(cohort)


def _kept(
    database: str,
    population: int,
    truth: dict[frozenset[str], tuple[float, NDArray[np.float64]]],
    shares: NDArray[np.float64],
    drawn: NDArray[np.intp],
    *,
    each: float,
    least: float,
) -> dict[str, Any]:
    options = ["--given", "family,system", "--least-share", str(least)]
    kept, seconds = allowed(database, population, *options, "--budget-each", str(each))
    counts = shares >= least
    within = {
        one for one in SETS if truth[one][0] <= BUDGET and truth[one][1][counts].max() <= each
    }
    test = cohort_test(
        CohortBudget(given=("family", "system"), budget=each, least_share=least),
        users=len(drawn),
        k=K,
        population=population,
        delta=0.05,
        universe=len(OTHERS),
        drawing=Drawing(look="first"),
    )
    sizes = np.bincount(drawn, minlength=len(shares))
    seen = np.flatnonzero(sizes)
    spectrum = CohortSpectrum.of_groups(sizes[seen], np.arange(len(seen)), len(seen))
    evidence = test.evidence(spectrum)[:-1]
    return {
        "budget of each, least share": [each, least],
        "truly within": len(within),
        "allowed": len(kept),
        "wrong": len({*kept} - within),
        "seconds": seconds,
        # where nobody is exposed: users of a cohort, its nats, and those that one API needs
        "nearest": [
            [int(sizes[seen[one]]), round(float(evidence[one]), 2)]
            for one in evidence.argsort()[:2]
        ],
        "needed": round(float(test.log_terms[1]), 2),
    }


def visited(rows: pl.DataFrame, users: int, rng: np.random.Generator) -> pl.DataFrame:
    """Make visits: a week apart on average, each with the values of its user on that day."""
    number = 1 + rng.poisson(DAYS / 7, users)
    who = np.repeat(np.arange(users), number)
    day = rng.uniform(0, DAYS, len(who))
    replaced = day >= rng.exponential(REPLACED, users)[who]
    row = np.where(replaced, *(rng.integers(len(rows), size=users)[who] for _ in range(2)))
    # a release each 28 days, which most take within days and some never
    late = rng.exponential(np.where(rng.random(users) < 0.84, 4, 30))
    late = np.where(rng.random(users) < 0.05, np.inf, late)[who]
    released = np.floor(np.maximum(day - late, -28.0) / 28).astype(int) + 1
    mobile = rows["deviceCategory"].to_numpy()[row] == "mobile"
    turned = mobile & (rng.random(len(who)) < TURNED)
    resized = ~mobile & (rng.random(len(who)) < RESIZED)
    other = rng.integers(len(rows), size=len(who))
    network = np.where(rng.random(len(who)) < VARIES, other, row)
    values = {name: rows[name].to_numpy() for name in rows.columns}
    visits = {name: column[row] for name, column in values.items()}
    for one, two in (("screenWidth", "screenHeight"), SIZES):
        wide, high = visits[one], visits[two]
        visits[one], visits[two] = np.where(turned, high, wide), np.where(turned, wide, high)
    for size in SIZES:
        visits[size] = np.where(resized, values[size][other], visits[size])
    visits["connection.rtt"] = values["connection.rtt"][network]
    visits[AGENT] = np.array([_updated(*one) for one in zip(visits[AGENT], released, strict=True)])
    moment = np.datetime64("2026-01-05T00:00:00", "ms") + (day * 86_400).astype("timedelta64[s]")
    return pl.DataFrame({"user": who.astype(str), "time": moment, **visits}).sort("time")


def _updated(agent: str, releases: int) -> str:
    return _MAJOR.sub(lambda one: f"{one[1]}{one[2]}{int(one[3]) + releases}", agent)


def panel(
    rows: pl.DataFrame, users: int, population: int, rng: np.random.Generator
) -> dict[str, Any]:
    visits = visited(rows, users, rng)
    asked = ["--k", str(K), "-n", str(population), "--format", "json"]
    with tempfile.TemporaryDirectory() as folder:
        database = stored(folder, visits)
        began = time.process_time()
        told = command("exposure", *SHOWN, *asked, "--followed", "7d,28d,80d", "--db", database)
        seconds = round(time.process_time() - began, 1)
        budgets = {
            unit: len(allowed(database, population, "--unit", unit)[0])
            for unit in ("last", "visit", "both")
        }
        for after in ("7d", "28d", "80d"):
            options = ["--unit", "visit", "--link-budget", "5%", "--after", after]
            budgets[f"visit, linked {after}"] = len(allowed(database, population, *options)[0])
    return {
        "users": users,
        "visits": len(visits),
        "seconds of exposure": seconds,
        "sets": [_line(one) for one in told],
        "allowed": budgets,
    }


def _line(report: dict[str, Any]) -> dict[str, Any]:
    def percent(*shares: float) -> Sequence[float]:
        return [round(100 * share, 2) for share in shares]

    visits = report["visits"]
    return {
        "set": report["apis"],
        "last, visit, path": percent(
            report["empirical"], visits["visit"]["empirical"], visits["path"]["empirical"]
        ),
        "any method": percent(report["linked_lower"], report["linked_upper"]),
        "after": {
            f"{line['days']:g} d": {
                "same value": percent(line["same_lower"], line["same_upper"]),
                "same parts, at most": percent(line["parts_upper"])[0],
            }
            for line in report["followed"]
        },
    }


if __name__ == "__main__":
    main()
