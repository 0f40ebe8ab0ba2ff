"""Who pays, at which visits and for how long, by the commands on rows of real browsers.

    python -P benchmarks/people.py TABLE.parquet [cohorts] [panel] [--users 10000]

TABLE holds rows of the npm package `user-agents`, a row each: it is taken for the distribution.
`cohorts` draws users and counts of 256 sets those within a set that `decide` allows, without and
with budgets of cohorts, beside those that truly are. `panel` makes users who come again: browsers
update in stages, phones are turned, windows resized, networks vary, devices are replaced. It prints
what `exposure` says of visits and of links, and what a link budget allows.
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
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.population.browsers import USER_AGENTS, browser_of, system_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

AGENT = "userAgent"
OTHERS = (
    *(AGENT, "platform", "pluginsLength", "screenWidth", "screenHeight", "deviceCategory"),
    *("connection.effectiveType", "connection.rtt"),
)
SETS = [frozenset(chosen) for size in range(9) for chosen in combinations(OTHERS, size)]
BUDGET, EACH, LEAST, K = 0.05, 0.2, 0.05, 10
SHOWN = (AGENT, f"{AGENT},screenWidth,screenHeight", f"{AGENT},connection.rtt")
DAYS = 98  # of a panel; a release each four weeks
TURNED, RESIZED, VARIES, REPLACED = 0.15, 0.3, 0.7, 900  # shares of visits; days
_MAJOR = re.compile(r"(Chrome|CriOS|Firefox|FxiOS|Version|rv:)(/?)(\d+)")


def main() -> None:
    parser = argparse.ArgumentParser(description="Cohorts, visits and links of real rows.")
    parser.add_argument("table", type=Path)
    parser.add_argument("parts", nargs="*", default=["cohorts", "panel"])
    parser.add_argument("--users", type=int, default=10_000)
    asked = parser.parse_args()
    rows = pl.read_parquet(asked.table).select(AGENT, *SIZES, *OTHERS[1:]).cast(pl.String)
    rows = rows.select(pl.all().fill_null(""))
    found = {name: globals()[name](rows, asked.users) for name in asked.parts}
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


def allowed(database: str, users: int, *options: str) -> tuple[int, float]:
    """Return how many of the sets are within an allowed one, and the seconds of processor."""
    output, began = f"{database}.json", time.process_time()
    words = ["--k", str(K), "--budget", str(BUDGET), "-n", str(users), "--fixed-question", "-q"]
    names = ",".join(OTHERS)
    run(["decide", *words, "--candidates", names, "--db", database, "-o", output, *options])
    listed = [frozenset(one) for one in json.loads(Path(output).read_text())["allow"]]
    number = sum(not one or any(one <= other for other in listed) for one in SETS)
    return number, round(time.process_time() - began, 1)


def kinds(rows: pl.DataFrame, names: Iterable[str]) -> NDArray[np.intp]:
    """Number of the joint value of each row."""
    found = np.zeros(len(rows), dtype=np.intp)
    for name in names:
        codes = np.unique(rows[name].to_numpy().astype(str), return_inverse=True)[1]
        found = np.unique(found * (codes.max() + 1) + codes, return_inverse=True)[1]
    return found


def cohorts(rows: pl.DataFrame, users: int) -> dict[str, Any]:
    agents = rows[AGENT].to_list()
    parsed = {one: (browser_of(USER_AGENTS[0], one)[0], system_of(one)) for one in {*agents}}
    told = rows.with_columns(
        family=pl.Series([parsed[one][0] for one in agents]),
        system=pl.Series([parsed[one][1] for one in agents]),
    )
    cohort = kinds(told, ("family", "system"))
    shares = np.bincount(cohort) / len(rows)
    overall = both = 0
    for one in SETS:
        groups = kinds(told, ("family", "system", *sorted(one)))
        p = np.bincount(groups) / len(rows)
        exposed = exposure_probability(p, k=K, population=users)[groups]
        within = exposed.mean() <= BUDGET
        each = np.bincount(cohort, exposed) / np.bincount(cohort)
        overall += within
        both += within and each[shares >= LEAST].max() <= EACH
    drawn = rows[np.random.default_rng(1).integers(len(rows), size=users)]
    with tempfile.TemporaryDirectory() as folder:
        database = stored(folder, drawn.with_row_index("user"))
        options = ["--given", "family,system", "--least-share", str(LEAST)]
        plain, seconds = allowed(database, users)
        _, alone = allowed(database, users, *options, "--budget-each", "99%")
        kept, with_cohorts = allowed(database, users, *options, "--budget-each", str(EACH))
    return {
        "users": users,
        "truly within overall": int(overall),
        "truly within, cohorts too": int(both),
        "allowed without cohorts": plain,
        "allowed with cohorts": kept,
        "seconds": {"without": seconds, "budget of 99 %": alone, "with": with_cohorts},
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


def panel(rows: pl.DataFrame, users: int) -> dict[str, Any]:
    visits = visited(rows, users, np.random.default_rng(2))
    asked = ["--k", str(K), "-n", str(users), "--format", "json"]
    with tempfile.TemporaryDirectory() as folder:
        database = stored(folder, visits)
        began = time.process_time()
        told = command("exposure", *SHOWN, *asked, "--followed", "7d,28d,80d", "--db", database)
        seconds = round(time.process_time() - began, 1)
        budgets = {
            unit: allowed(database, users, "--unit", unit)[0] for unit in ("last", "visit", "both")
        }
        for after in ("7d", "28d", "80d"):
            options = ["--unit", "visit", "--link-budget", "5%", "--after", after]
            budgets[f"visit, linked {after}"] = allowed(database, users, *options)[0]
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
