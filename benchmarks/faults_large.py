"""Very many observations in pieces, with a SIGKILL now and then, against a run without.

`python benchmarks/faults.py --large 100000000` writes logs of users with 20 APIs each, in pieces,
and ingests them twice, each piece by a command of its own: undisturbed, and with a SIGKILL at a
random moment about every `--kill-every` seconds, after which the piece is tried again. At the end
the digests of all that is stored and of the snapshot must be those of the undisturbed run.
`--folder` keeps logs, databases and what has been measured; `--seconds` stops after so long, and
the same command goes on from there. JSON goes to stdout.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data import browsers, write
from processes import call, command, result_of

from fpmonitor.monitor import Monitor
from fpmonitor.store.content import read_content

if TYPE_CHECKING:
    import argparse

APIS = 20
PIECE_USERS = 100_000
RUNS = ("undisturbed", "killed")


@dataclass
class Progress:
    """What one of the two runs has done so far."""

    pieces: int = 0
    kills: int = 0
    killed_after_the_end: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    next_kill: float = 0.0
    content: dict[str, Any] = field(default_factory=dict)


class Large:
    """Both runs, in a folder that outlives this process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder: Path = options.folder
        self.pieces = -(-options.large // (APIS * PIECE_USERS))
        self.kill_every: float = options.kill_every
        self.seed: int = options.seed
        self.deadline = time.monotonic() + options.seconds
        self.state = self.folder / "large.json"
        self.runs = {name: Progress() for name in RUNS}
        if self.state.exists():
            for name, members in json.loads(self.state.read_text()).items():
                self.runs[name] = Progress(**members)

    def save(self) -> None:
        text = json.dumps({name: asdict(progress) for name, progress in self.runs.items()})
        scratch = self.state.with_suffix(".new")
        scratch.write_text(text)
        scratch.replace(self.state)

    def has_time(self) -> bool:
        return time.monotonic() < self.deadline

    def log(self, number: int) -> Path:
        """Write a piece unless it is there; in a process of its own, since Polars has threads."""
        path = self.folder / f"piece{number}.parquet"
        if not path.exists():
            program = Path(__file__).with_name("faults.py")
            arguments = ["--write-piece", str(number), "--folder", str(self.folder)]
            subprocess.run([sys.executable, program, *arguments], check=True)
        return path

    def go_on(self) -> None:
        """Ingest piece after piece, each of them undisturbed and in the run with kills."""
        first = self.runs["undisturbed"]
        while self.has_time() and first.pieces < self.pieces:
            self.step("undisturbed")
        while self.has_time() and self.runs["killed"].pieces < self.pieces:
            self.step("killed")
        for name in RUNS:
            progress = self.runs[name]
            if progress.pieces == self.pieces and not progress.content and self.has_time():
                self.finish(name)

    def step(self, name: str) -> None:
        progress, database = self.runs[name], self.folder / f"{name}.duckdb"
        log = self.log(progress.pieces)
        if name == "killed" and not database.exists():
            # The key of the user digests must be the same, or the digests could not be.
            subprocess.run(["cp", self.folder / "key.duckdb", database], check=True)
        elif not database.exists():
            result_of(call(make_empty, str(database), self.folder))
            subprocess.run(["cp", database, self.folder / "key.duckdb"], check=True)
        if not progress.next_kill:
            self.plan_kill(progress)
        kill_after = progress.next_kill - progress.seconds if name == "killed" else None
        ending = command("ingest", log, "--db", database, folder=self.folder, kill_after=kill_after)
        progress.seconds += ending.seconds
        progress.peak_bytes = max(progress.peak_bytes, ending.peak_bytes)
        if ending.code == -9:
            progress.kills += 1
            self.plan_kill(progress)
        elif ending.code:
            raise SystemExit(ending.err)
        else:
            [batch] = json.loads(ending.out)["batches"]
            progress.killed_after_the_end += batch["stored"] == 0
            progress.pieces += 1
        self.save()

    def plan_kill(self, progress: Progress) -> None:
        share = random.Random(f"{self.seed} {progress.kills}").uniform(0.5, 1.5)
        progress.next_kill = progress.seconds + share * self.kill_every

    def finish(self, name: str) -> None:
        """Read all that is stored, and take the snapshot."""
        ending = call(content_of, str(self.folder / f"{name}.duckdb"), self.folder)
        self.runs[name].content = result_of(ending) | {
            "seconds": round(ending.seconds, 1),
            "peak_bytes": ending.peak_bytes,
        }
        self.save()

    def report(self) -> dict[str, Any]:
        contents = [self.runs[name].content for name in RUNS]
        done = all(contents)
        keys = ("digest", "rows", "snapshot", "users")
        return {
            "pieces": self.pieces,
            "observations_asked": self.pieces * PIECE_USERS * APIS,
            "done": done,
            "equal": done and all(contents[0][key] == contents[1][key] for key in keys),
            **{name: asdict(progress) for name, progress in self.runs.items()},
        }


def make_empty(path: str) -> dict[str, Any]:
    with Monitor(Path(path), create=True):
        return {}


def content_of(path: str) -> dict[str, Any]:
    with Monitor(Path(path)) as monitor:
        content = read_content(monitor.database)
        snapshot = monitor.population()
        # Whether anything contradicts itself is `verify`'s question, which sorts all observations.
        return {
            "digest": content.digest,
            "rows": dict(content.rows),
            "snapshot": snapshot.digest,
            "users": snapshot.users,
        }


def write_piece(folder: Path, number: int) -> None:
    frame = browsers(PIECE_USERS, seed=number)
    path = folder / f"piece{number}.parquet"
    scratch = folder / f"writing{number}.parquet"
    write(frame.with_columns(frame["user"] + f"-{number}"), scratch)
    scratch.replace(path)


def run_large(options: argparse.Namespace) -> dict[str, Any]:
    options.folder.mkdir(exist_ok=True)
    large = Large(options)
    large.go_on()
    return large.report()
