"""The same logs on Sail and in a database file: spectra, report and decision must be the same.

`python benchmarks/spark_decision.py FOLDER --users 10000000` draws wide logs of a million users a
file, stores them in a folder of Sail as one batch and in a database file, and asks both for their
snapshot, the spectra of all pairs of APIs, a report, a decision, and a view of the users: coarser
values, automation left out. JSON on stdout: what is the same, seconds of each stage and their
ratio. What a run that was cut has finished is not done again: seconds and answers are kept in
FOLDER. Any difference is exit code 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data
import polars as pl
import spark_cluster

from fpmonitor.monitor import Monitor
from fpmonitor.remote import RemoteMonitor
from fpmonitor.spectrum import spectra_of
from fpmonitor.store.transforms import Transform
from fpmonitor.store.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

USERS_OF_FILE = 1_000_000
CANDIDATES = 10
VIEW = View(
    drop_automation=True,
    transforms={
        "Navigator.userAgent": Transform(major=True),
        "Screen.height": Transform(round=100),
    },
)


def write_logs(folder: Path, users: int) -> list[Path]:
    """Write what is missing of the wide logs."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, start in enumerate(range(0, users, USERS_OF_FILE)):
        size = min(USERS_OF_FILE, users - start)
        path = folder / f"{number:05d}-{size}.parquet"
        if not path.exists():
            log = data.browsers(size, seed=data.SEED + number)
            scratch = path.with_suffix(".part")
            log.with_columns(
                pl.format("{}.{}", pl.lit(number), "user").alias("user")
            ).write_parquet(scratch)
            scratch.replace(path)
        paths.append(path)
    return paths


class Clock:
    """Seconds of the stages of a run, kept in a file while the run is not complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}

    def take(self, stage: str, action: Callable[[], Any]) -> Any:
        """Run a stage; the longest of its runs counts, as later ones find work done."""
        started = time.perf_counter()
        answer = action()
        taken = round(time.perf_counter() - started, 2)
        self.seconds[stage] = max(taken, self.seconds.get(stage, 0.0))
        self._path.write_text(json.dumps(self.seconds))
        return answer


def answers(
    monitor: Monitor | RemoteMonitor, clock: Clock, where: str, users: int
) -> dict[str, Any]:
    """Ask the questions of one side."""
    snapshot = clock.take(f"snapshot, {where}", monitor.snapshot)
    apis = snapshot.apis
    pairs = list(itertools.combinations(apis, 2))
    if isinstance(monitor, RemoteMonitor):
        source: Any = monitor._store.source(snapshot)
    else:
        source = monitor._counter(snapshot, apis, "duckdb")
    spectra = clock.take(f"spectra of pairs, {where}", lambda: spectra_of(source, pairs))
    question: dict[str, Any] = {"k": 10, "population": users}
    report = clock.take(
        f"report, {where}",
        lambda: monitor.exposure([[api] for api in apis], bounds=True, **question),
    )
    engine = {} if isinstance(monitor, RemoteMonitor) else {"engine": "duckdb"}
    decision = clock.take(
        f"decision, {where}",
        lambda: monitor.decide(budget=0.05, candidates=apis[:CANDIDATES], **question, **engine),
    ).to_json()
    return {
        "snapshot": [snapshot.users, snapshot.digest, list(apis)],
        "spectra": [(s.counts.tolist(), s.values.tolist()) for s in spectra],
        "report": [entry.to_json() for entry in report],
        "decision": {k: v for k, v in decision.items() if k not in {"seconds", "engine"}},
    }


def ask_sail(folder: Path, users: int, paths: list[str], clock: Clock) -> dict[str, Any]:
    """Store the logs in a folder of Sail, and ask."""
    store = str(folder / f"store-{users}")
    with (
        spark_cluster.sail(folder) as server,
        RemoteMonitor(server.url, store, create=True) as monitor,
    ):
        clock.take("ingest, sail", lambda: monitor.ingest(paths))
        answer = answers(monitor, clock, "sail", users)
        with RemoteMonitor(server.url, store, view=VIEW) as viewing:
            return answer | view_answer(viewing, clock, "sail")


def view_answer(monitor: Monitor | RemoteMonitor, clock: Clock, where: str) -> dict[str, Any]:
    """Look at the users, and count those of each API."""
    snapshot = clock.take(f"view, {where}", monitor.snapshot)
    overview = [line.to_json() for line in monitor.apis()]
    return {"view": [snapshot.users, snapshot.digest, monitor.dropped, overview]}


def ask_duckdb(folder: Path, users: int, paths: list[str], clock: Clock) -> dict[str, Any]:
    """Store the logs in a database file, and ask."""
    with Monitor(folder / f"local-{users}.duckdb", create=True) as monitor:
        for path in paths:
            clock.take(f"ingest of {path}, duckdb", partial(monitor.ingest, [path]))
        answer = answers(monitor, clock, "duckdb", users)
    with Monitor(folder / f"local-{users}.duckdb", view=VIEW) as viewing:
        return answer | view_answer(viewing, clock, "duckdb")


def main() -> None:
    """Compare both sides."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=lambda text: Path(text).resolve())
    parser.add_argument("--users", type=int, default=1_000_000)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers end as well
    folder, users = options.folder, options.users
    paths = [str(path) for path in write_logs(folder / "logs", users)]
    clock = Clock(folder / f"seconds-{users}.json")
    sides = {}
    for side, ask in (("sail", ask_sail), ("duckdb", ask_duckdb)):
        kept = folder / f"answers-{side}-{users}.json"
        if not kept.exists():
            kept.write_text(json.dumps(ask(folder, users, paths, clock)))
        sides[side] = json.loads(kept.read_text())
    there, here = sides["sail"], sides["duckdb"]
    same = {name: there[name] == here[name] for name in here}
    seconds = clock.seconds
    seconds["ingest, duckdb"] = round(
        sum(s for name, s in seconds.items() if "ingest of" in name), 2
    )
    stages = ("ingest", "snapshot", "spectra of pairs", "report", "decision", "view")
    answer = {
        "users": users,
        "same": same,
        "sets_evaluated": there["decision"]["evaluated"],
        "allowed": len(there["decision"]["allow"]),
        "seconds": {
            stage: {side: seconds[f"{stage}, {side}"] for side in ("sail", "duckdb")}
            for stage in stages
        },
        "ratio sail / duckdb": {
            stage: round(seconds[f"{stage}, sail"] / seconds[f"{stage}, duckdb"], 2)
            for stage in stages
        },
    }
    print(json.dumps(answer, indent=1))
    sys.exit(0 if all(same.values()) else 1)


if __name__ == "__main__":
    main()
