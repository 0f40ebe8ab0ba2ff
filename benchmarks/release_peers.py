"""What anjana and pycanon say of k, l and t of our releases: whether they agree, for random users.

    python -P benchmarks/release_peers.py --peers PYTHON [--releases 20]

PYTHON is the interpreter of an environment of its own with `pip install anjana`, which brings
pycanon: both fix versions of NumPy, SciPy and typer that others than ours are. pycanon measures the
records that a table stands for. anjana must keep all of them at our k, l and t, and none at more.
Prints JSON, a line per release; exit code 1 where one differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.release.generalisation import Protection
from fpmonitor.release.histogram import ReleaseTerms, make_release
from fpmonitor.release.sensitive import sensitivity_of
from fpmonitor.release.suppression import USERS

if TYPE_CHECKING:
    from fpmonitor.release.histogram import Mechanism

MECHANISMS: tuple[Mechanism, ...] = ("histogram", "cells", "generalisation")
ROUNDING = 1e-9
# Run by the other interpreter: a folder of tables in, a JSON list out.
PEERS = """
import contextlib, io, json, sys, warnings
from pathlib import Path
import pandas as pd
from anjana import anonymity as anjana
from pycanon import anonymity as pycanon
warnings.filterwarnings("ignore")
answers = []
for path in sorted(Path(sys.argv[1]).glob("*.csv")):
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    ours = json.loads(path.with_suffix(".json").read_text())
    known, ill = [name for name in table if name != "ill"], "ill"
    as_is = {name: {0: table[name].values} for name in known}
    def kept(method, *limits):
        with contextlib.redirect_stdout(io.StringIO()):
            return len(method(table.copy(), [], known, *limits, 0, as_is))
    k, l, t = ours["k"], ours["l"], ours["t"]
    answers.append({
        "pycanon": {"k": int(pycanon.k_anonymity(table, known)),
                    "l": int(pycanon.l_diversity(table, known, [ill])),
                    "t": float(pycanon.t_closeness(table, known, [ill]))},
        "kept": [kept(anjana.k_anonymity, k), kept(anjana.l_diversity, ill, k, l),
                 kept(anjana.t_closeness, ill, k, min(1, t + 1e-6))],
        "kept_at_more": [kept(anjana.k_anonymity, k + 1), kept(anjana.l_diversity, ill, k, l + 1),
                         kept(anjana.t_closeness, ill, k, t - 1e-6) if t > 1e-6 else 0],
        "records": len(table),
    })
print(json.dumps(answers))
"""


def released(seed: int) -> tuple[pl.DataFrame, dict[str, float]]:
    """Return the records of a random release, and its k, l and t as we measure them."""
    rng = np.random.default_rng(seed)
    users = int(rng.integers(300, 900))
    columns: dict[str, Any] = {
        f"n{place}": rng.geometric(rng.uniform(0.3, 0.9), users).astype(str)
        for place in range(int(rng.integers(1, 4)))
    }
    shares = rng.dirichlet(np.ones(int(rng.integers(3, 6))))
    columns["ill"] = rng.choice(list("uvwxyz")[: len(shares)], users, p=shares)
    mechanism = MECHANISMS[seed % len(MECHANISMS)]
    terms = ReleaseTerms(
        k=int(rng.integers(2, 9)),
        mechanism=mechanism,
        budget=0.9,
        sensitive=Protection("ill", 2) if mechanism == "generalisation" else None,
    )
    made = make_release(
        pl.DataFrame(columns), terms, digest="d", made=datetime(2026, 1, 1, tzinfo=UTC)
    )
    # Suppressed cells of the attribute are left out of l and t, and of the records.
    table = made.table.filter(pl.col("ill").is_not_null())
    found = sensitivity_of(made.table, "ill")
    known = [name for name in table.columns if name not in {"ill", USERS}]
    least = table.group_by(known).agg(pl.col(USERS).sum())[USERS].min()
    records = table.select(pl.exclude(USERS).repeat_by(USERS).explode())
    return records.fill_null("*"), {"k": int(str(least)), "l": found.l, "t": found.t}


def agrees(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether pycanon has the same figures, and anjana keeps all records at them and none above."""
    told = theirs["pycanon"]
    return (
        (told["k"], told["l"]) == (ours["k"], ours["l"])
        and abs(told["t"] - ours["t"]) < ROUNDING
        and theirs["kept"] == [theirs["records"]] * 3
        and theirs["kept_at_more"] == [0] * 3
    )


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--releases", type=int, default=20)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.releases):
            records, ours = released(seed)
            records.write_csv(Path(folder) / f"{seed:04}.csv")
            (Path(folder) / f"{seed:04}.json").write_text(json.dumps(ours), encoding="utf-8")
            rows.append({"mechanism": MECHANISMS[seed % len(MECHANISMS)], **ours})
        command = [given.peers, "-c", PEERS, folder]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    answers = json.loads(printed.splitlines()[-1])
    agree = [agrees(ours, theirs) for ours, theirs in zip(rows, answers, strict=True)]
    for ours, theirs, alike in zip(rows, answers, agree, strict=True):
        print(json.dumps({**ours, **theirs, "agree": alike}))
    sys.exit(not all(agree))


if __name__ == "__main__":
    main()
