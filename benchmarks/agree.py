"""Whether `exposure`, `decide` and `gate` ever contradict each other, on random logs and questions.

    python benchmarks/agree.py [--questions 1000] [--seed 1]

Logs have fixed numbers of users, so designs are made once for each of the questions; columns follow
random laws, some with absent values, two depend on each other. Every set of up to three columns is
asked for with `exposure`; no set may be allowed whose lower limit is above the budget, nor blocked
whose upper limit is within it, and `gate` must say what the lists say. JSON: sets that were settled
by limits, by the decision and by both; and each contradiction.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from known_truth_laws import made_laws
from reached import command, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS, LARGEST, A_LOG, LAWS = tuple("abcde"), 3, 8, 400
# users, population and k as shares of them: below, at and above the users, k above them as well
ASKED = (
    *((60, 1, 0.1), (60, 10, 0.2), (700, 1, 0.015), (700, 0.3, 0.05), (700, 10, 0.01)),
    *((700, 1000, 100), (700, 1, 0.5), (700, 100, 0.1)),
)
BUDGETS = ("5%", "20%", "60%")
OPTIONS: tuple[tuple[str, ...], ...] = (
    *((), (), ("--bias", "1.1"), ("--fake-share", "1%"), ("--missing", "exposed")),
    *(("--missing", "drop"), ("--realised",), ("--delta", "30%")),
)
SETS = [set_ for size in range(1, LARGEST + 1) for set_ in combinations(COLUMNS, size)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Commands that might contradict each other.")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    laws = [law.probabilities for law in made_laws(LAWS, rng)]
    found: dict[str, Any] = {"questions": 0, "limits": 0, "decided": 0, "both": 0, "wrong": []}
    while found["questions"] < options.questions:
        with tempfile.TemporaryDirectory() as folder:
            users = int(rng.choice(sorted({users for users, *_ in ASKED})))
            db = stored(folder, log(laws, users, rng))
            for _ in range(A_LOG):
                ask(db, Path(folder), users, rng, found)
        print(json.dumps(found), file=sys.stderr, flush=True)
    print(json.dumps(found, indent=1))


def log(laws: list[Any], users: int, rng: np.random.Generator) -> Iterator[dict[str, str]]:
    drawn = [laws[rng.integers(len(laws))] for _ in COLUMNS]
    # users with a value each would look like ids
    columns = [rng.choice(law.size, users, p=law) % (users // 2) for law in drawn]
    columns[1] = np.where(rng.random(users) < 0.9, columns[0] // 2, columns[1])
    lacking = rng.choice([0, 0.2], (len(COLUMNS), 1)) > rng.random((len(COLUMNS), users))
    lacking[:, :12] = False  # no column without values, which no log holds
    for i in range(users):
        yield {
            name: f"v{column[i]}"
            for name, column, absent in zip(COLUMNS, columns, lacking, strict=True)
            if not absent[i]
        }


def ask(db: str, folder: Path, users: int, rng: np.random.Generator, found: dict[str, Any]) -> None:
    """Ask one question of a log by all commands, and note what they say."""
    chosen = [(n, k) for size, n, k in ASKED if size == users]
    by_users, k_share = chosen[rng.integers(len(chosen))]
    n, k = max(int(by_users * users), 2), max(int(k_share * users), 2)
    budget, option = rng.choice(BUDGETS), OPTIONS[rng.integers(len(OPTIONS))]
    fixed = ("--fixed-question",) * int(rng.integers(2))
    asked = ("-k", str(k), "-n", str(n), "--db", db, *option)
    made = folder / "decision.json"
    wanted = ("--candidates", ",".join(COLUMNS), "--budget", budget, "-q", "-o", str(made))
    command("decide", *wanted, *asked, *fixed)
    decision, most = json.loads(made.read_text()), float(budget[:-1]) / 100
    allow, block = ([frozenset(one) for one in decision[name]] for name in ("allow", "block"))
    said = {"users": users, "n": n, "k": k, "budget": budget, "options": (*option, *fixed)}
    found["questions"] += 1
    reports = json.loads(command("exposure", *map(",".join, SETS), *asked, "--format", "json"))
    gated = {SETS[i] for i in rng.integers(len(SETS), size=2)}
    for names, report in zip(SETS, reports, strict=True):
        lower, upper = report["lower"], report["upper"]
        is_allowed = any({*names} <= one for one in allow)
        is_blocked = any({*names} >= one for one in block)
        by_limits = upper <= most or lower > most
        found["limits"] += by_limits
        found["decided"] += is_allowed or is_blocked
        found["both"] += by_limits and (is_allowed or is_blocked)
        listed = "allow" if is_allowed else "block" if is_blocked else "undecided"
        verdicts = {listed}
        if names in gated:
            for users_too in ((), ("--db", db)):
                words = ("gate", str(made), "--want", ",".join(names), "--format", "json")
                verdicts.add(json.loads(command(*words, *users_too))["verdict"])
        if (
            (is_allowed and (is_blocked or lower > most))
            or (is_blocked and upper <= most)
            or (listed != "undecided" and verdicts != {listed})
            or verdicts >= {"allow", "block"}
        ):
            told = {"set": names, "limits": (lower, upper), "verdicts": sorted(verdicts)}
            found["wrong"].append({**said, **told})


if __name__ == "__main__":
    main()
