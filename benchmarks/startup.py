"""Time until a command has started, against importing the libraries that it might need.

`python benchmarks/startup.py` runs `python -c "import duckdb, polars, scipy.stats, typer"` and
commands that compute nothing, in turns, each in a process of its own, and writes JSON to stdout:
medians in seconds, and for each command the ratio to the imports of the same rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IMPORTS = "import duckdb, polars, scipy.stats, typer"
DECISION = {
    "policy": {"k": 10, "population": 100, "budget": 0.1, "delta": 0.05, "candidates": ["A", "B"]},
    "setting": "population",
    "missing": "value",
    "view": {"source": None, "volatile": "shared", "drop_automation": False, "transforms": {}},
    "data": {"users": 100, "digest": "none"},
    "guarantee": "none: this is a benchmark",
    "allow": [["A"]],
    "block": [["B"]],
    "undecided": [],
    "recommended": ["A"],
    "utility": 1.0,
    "utility_bound": 1.0,
    "complete": True,
    "evaluated": 2,
    "seconds": 0.0,
    "engine": "memory",
}
COMMANDS = {
    "version": ["--version"],
    "help": ["--help"],
    "help of decide": ["decide", "--help"],
    "gate": ["gate", "decision.json", "--want", "A"],
    "log-line": ["collect", "log-line", "nginx"],
}


def seconds(arguments: list[str], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    runs = {"imports": ["-c", IMPORTS]}
    runs |= {name: ["-m", "fpmonitor", *words] for name, words in COMMANDS.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "decision.json").write_text(json.dumps(DECISION), encoding="utf-8")
        for arguments in runs.values():  # once for the files' caches and the byte code
            seconds(arguments, Path(folder))
        for _ in range(rounds):
            for name, arguments in runs.items():
                times[name].append(seconds(arguments, Path(folder)))
    medians = {name: statistics.median(found) for name, found in times.items()}
    ratios = {name: medians[name] / medians["imports"] for name in COMMANDS}
    print(json.dumps({"seconds": medians, "ratio": ratios}, indent=2))


if __name__ == "__main__":
    main()
