"""What the commands of docs/scale.md cost, from 10^4 users upwards.

    python benchmarks/scale.py FOLDER [--users 10000 --users 100000 ...]

takes the first users of FOLDER, which benchmarks/sketch.py has filled, as a table with one row a
user, and runs the commands on it one after the other, each in a process of its own: `ingest`,
`exposure` and `decide` on a database file, `sketch make` and `sketch exposure` on the table itself.
JSON goes to stdout: for each number of users and command processor seconds and peak memory; bytes
of the table, the database and the sketch. `share_of_ingest` is the time over that of `ingest`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SETS = ("fonts", "browser,os", "browser,gpu,os", "language,screen,zone", "browser,gpu,screen")
CANDIDATES = "browser,canvas,fonts,gpu,language,os,screen,zone"
QUESTION = ["--k", "10", "--format", "json"]


def main() -> None:
    """Run all numbers of users."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, action="append")
    asked = parser.parse_args()
    found = {}
    for users in asked.users or [10**4, 10**5, 10**6]:
        with tempfile.TemporaryDirectory() as folder:
            found[str(users)] = measured(asked.folder, Path(folder), users)
        print(json.dumps({users: found[str(users)]}), file=sys.stderr)
    print(json.dumps(found, indent=2))


def measured(parts: Path, folder: Path, users: int) -> dict[str, Any]:
    """Run the commands on so many users."""
    table = folder / "users.parquet"
    chosen = f"SELECT * FROM read_parquet('{parts}/users*.parquet') LIMIT {users}"
    numbered = f"SELECT row_number() OVER () AS visitor, * FROM ({chosen})"
    copied = f"COPY ({numbered}) TO '{table}' (FORMAT parquet, COMPRESSION zstd)"
    # In a process of its own: the memory of this one would count as that of the commands.
    subprocess.run([sys.executable, "-c", f"import duckdb; duckdb.execute({copied!r})"], check=True)
    database, key, sketch = (folder / name for name in ("users.duckdb", "key", "users.sketch"))
    run(["scale", "sketch", "key", str(key)])
    sets = [word for apis in SETS for word in ("--apis", apis)]
    of_table = ["--from", str(table), "--key-file", str(key), "-o", str(sketch)]
    of_database = ["--db", str(database), *QUESTION]
    decided = ["--budget", "0.05", "--candidates", CANDIDATES, "-o", str(folder / "decision.json")]
    commands = {
        "ingest": ["ingest", str(table), "--user", "visitor", "--db", str(database)],
        "exposure": ["exposure", *sets, *of_database],
        "decide": ["decide", *decided, *of_database[:4]],
        "sketch make": ["scale", "sketch", "make", *sets, *of_table],
        "sketch exposure": ["scale", "sketch", "exposure", str(sketch), *QUESTION],
    }
    costs = {name: run(command) for name, command in commands.items()}
    for cost in costs.values():
        cost["share_of_ingest"] = cost["cpu"] / costs["ingest"]["cpu"]
    sizes = {path.name: path.stat().st_size for path in (table, database, sketch)}
    return {"bytes": sizes, "commands": costs}


def run(command: list[str]) -> dict[str, float]:
    """Processor seconds and peak memory of a command."""
    program = [sys.executable, "-m", "fpmonitor", *command]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, program)
    return {"cpu": used.ru_utime + used.ru_stime, "peak_megabytes": used.ru_maxrss // 1024}


if __name__ == "__main__":
    main()
