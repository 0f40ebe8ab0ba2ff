"""What is left when fpmonitor is killed, starved, locked out, fed with halves, or its file damaged.

`python benchmarks/faults.py --rounds 10 --seed 1` makes 10 rounds of each kind, the same ones for
the same seed as far as the machine keeps time; `--kinds kill-ingest damage` chooses. A round lets a
command go wrong at a random moment or place, and then asks: does the database open, or say in one
line what is wrong; is what was reported stored there once; does a second run end where an
undisturbed one does? JSON goes to stdout, counts for each kind:

  hit         rounds in which the fault came before the command had ended
  lost        what was stored before, or reported, is not there; or a transaction is there in part
  twice       something is there twice
  unclear     a command ended neither well nor with one line that says why
  stuck       the second run does not end where an undisturbed one does
  unnoticed   (of damage) data differ, and neither opening nor `verify` says so

`python benchmarks/faults.py --large 100000000` stores so many observations in pieces, with a
SIGKILL now and then: see `faults_large.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data import browsers, write
from faults_large import run_large, write_piece
from processes import NOBODY, Ending, Hindrance, call, command, result_of

from fpmonitor.cli import run
from fpmonitor.monitor import Monitor
from fpmonitor.store import database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DECIDE = ("--k", "5", "--population", "2000", "--budget", "0.3", "--quiet")
MIDDLE = "2026-03-05"  # of the week of the logs


@dataclass(frozen=True)
class State:
    """What a database says: digest, rows, batches, what is there twice, other contradictions."""

    digest: str
    rows: int
    batches: int
    twice: int
    flaws: int


@dataclass
class Tally:
    """Outcomes of the rounds of one kind."""

    rounds: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        names = ("hit", "lost", "twice", "unclear", "stuck", *sorted(self.counts))
        return {"rounds": self.rounds, **{name: self.counts[name] for name in dict.fromkeys(names)}}


def snapshot_of(path: str) -> dict[str, str]:
    with Monitor(Path(path)) as monitor:
        return {"digest": monitor.population().digest}


def make_old(arguments: list[str]) -> int:
    """Ingest logs as the first schema did."""
    database.SCHEMA_VERSION = 1
    return run(arguments)


def leave_log_behind(arguments: list[str]) -> int:
    """Ingest a log, and be killed before the database is closed."""
    monitor = Monitor(Path(arguments[0]))
    monitor.ingest(arguments[1:])
    os.kill(os.getpid(), 9)
    return 1


class World:
    """Logs, databases in known states, and what an undisturbed run makes of them."""

    def __init__(self, folder: Path, users: int) -> None:
        self.folder = folder
        self.logs = self._write_logs(users)
        self._states: dict[Path, State] = {}
        (folder / "base").mkdir()
        self.round = folder / "round"

    def _write_logs(self, users: int) -> list[str]:
        subprocess.run(  # polars must not run in this process, which is forked
            [sys.executable, __file__, "--write-logs", str(self.folder), "--users", str(users)],
            check=True,
        )
        return [
            str(self.folder / f"{i}{kind}") for i, kind in enumerate((".jsonl", ".csv", ".parquet"))
        ]

    def do(self, *arguments: object) -> Ending:
        ending = command(*arguments, folder=self.folder)
        if ending.code:
            raise SystemExit(f"{arguments} ended with {ending.code}:\n{ending.err}")
        return ending

    def base(self, name: str) -> Path:
        """A database that rounds begin with; all but `old` have the key of `1`.

        `1`, `2` and `3` hold so many logs, `seen` holds three and a snapshot, `old` has the first
        schema.
        """
        path = self.folder / "base" / f"{name}.duckdb"
        if not path.exists():
            if name == "old":
                arguments = ["ingest", *self.logs, "--db", str(path)]
                result_of(call(make_old, arguments, self.folder))
                return path
            if name != "1":
                shutil.copy(self.base({"2": "1", "3": "2", "seen": "3"}[name]), path)
            if name == "seen":
                self.do("db", "apis", "--db", path)
            else:
                self.do("ingest", self.logs[int(name) - 1], "--db", path)
        return path

    @cached_property
    def export(self) -> Path:
        """What `3` holds, exported."""
        folder = self.folder / "base" / "export"
        self.do("db", "copy-out", folder, "--db", self.base("3"))
        return folder

    @cached_property
    def snapshot(self) -> str:
        """Digest of the snapshot of all logs."""
        return self.snapshot_of(self.base("seen"))

    def state(self, path: Path) -> State:
        """State of a database; that of one in `base` never changes."""
        if path in self._states:
            return self._states[path]
        state = self.look(path)
        if isinstance(state, Ending):
            raise SystemExit(f"{path} does not open: {state.err}")
        if path.parent.name == "base":
            self._states[path] = state
        return state

    def look(self, path: Path) -> State | Ending:
        """State of a database, or how `verify` refused it."""
        ending = command("db", "verify", "--db", path, "--format", "json", folder=self.folder)
        if ending.code not in {0, 1}:
            return ending
        found = json.loads(ending.out)
        twice = sum(flaw["found"] for flaw in found["flaws"] if "twice" in flaw["what"])
        flaws = sum(flaw["found"] for flaw in found["flaws"]) - twice
        rows = found["rows"]
        return State(found["digest"], sum(rows.values()), rows.get("batch", 0), twice, flaws)

    def snapshot_of(self, path: Path) -> str:
        return str(result_of(call(snapshot_of, str(path), self.folder))["digest"])


@dataclass(frozen=True)
class Scenario:
    """A command that something happens to.

    Attributes
    ----------
    start
        Database to begin with, of `World.base`; null for none.
    arguments
        The command in a folder, where the database is `d.duckdb`.
    between
        Other states than those before and after the command that a database may be left in.
    outcome
        What the command is for, comparable; by default the digest of the database.
    is_done
        Whether the command need not run again.
    """

    start: str | None
    arguments: Callable[[World, Path], list[object]]
    between: tuple[str, ...] = ()
    outcome: Callable[[World, Path], Any] = lambda w, f: w.state(f / "d.duckdb").digest
    is_done: Callable[[Path], bool] = lambda _folder: False
    prepare: Callable[[World, Path], None] = lambda _world, _folder: None


def snapshot_in(world: World, folder: Path) -> str:
    return world.snapshot_of(folder / "d.duckdb")


def manifest_in(world: World, folder: Path) -> str:
    copy = folder / "copy.duckdb"
    copy.unlink(missing_ok=True)
    world.do("db", "copy-in", folder / "export", "--db", copy)
    return world.state(copy).digest


def decision_in(_world: World, folder: Path) -> Any:
    decision = json.loads((folder / "decision.json").read_text())
    return {name: decision[name] for name in ("allow", "block", "undecided", "complete")}


def stop_early(world: World, folder: Path) -> None:
    arguments = decide_arguments(world, folder)[:-2]
    world.do(*arguments, "--time-limit", "0")


def decide_arguments(_world: World, folder: Path) -> list[object]:
    decision = folder / "decision.json"
    return ["decide", *DECIDE, "--db", folder / "d.duckdb", "-o", decision, "--resume", decision]


def on(folder: Path) -> list[object]:
    return ["--db", folder / "d.duckdb"]


SCENARIOS = {
    "create": Scenario(None, lambda w, f: ["ingest", *w.logs, *on(f)], outcome=snapshot_in),
    "ingest": Scenario("1", lambda w, f: ["ingest", *w.logs[1:], *on(f)], between=("2",)),
    "snapshot": Scenario("3", lambda _, f: ["db", "apis", *on(f)], outcome=snapshot_in),
    "decide": Scenario("3", decide_arguments, outcome=decision_in, prepare=stop_early),
    "migrate": Scenario("old", lambda _, f: ["db", "batches", *on(f)]),
    "export": Scenario(
        "3",
        lambda _, f: ["db", "copy-out", f / "export", *on(f)],
        outcome=manifest_in,
        is_done=lambda f: (f / "export").exists(),
    ),
    "import": Scenario(None, lambda w, f: ["db", "copy-in", w.export, *on(f)]),
    "merge": Scenario("1", lambda w, f: ["db", "copy-in", w.export, *on(f)]),
    "forget": Scenario("seen", lambda _, f: ["db", "forget", "--before", MIDDLE, *on(f)]),
    "compact": Scenario("seen", lambda _, f: ["db", "compact", *on(f)]),
}


@dataclass(frozen=True)
class Undisturbed:
    """What a scenario leads to when nothing happens: seconds, states, outcome, largest file."""

    seconds: float
    before: str | None
    after: str
    outcome: Any
    largest: int


class Faults:
    """The kinds of faults, and what comes of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._known: dict[str, Undisturbed] = {}
        self.kinds: dict[str, Callable[[random.Random, Counter[str]], None]] = {}
        for fault in (
            self.kill,
            self.full,
            self.denied,
            *([self.tmpfs] if os.getuid() == 0 else []),
        ):
            for name in SCENARIOS:
                self.kinds[f"{fault.__name__}-{name}"] = self._disturbing(fault, name)
        self.kinds |= {"cut": self.cut, "damage": self.damage, "damage-log": self.damage_log}

    # ---- One command, disturbed

    def _disturbing(
        self, fault: Callable[[str, Path, random.Random], Ending], name: str
    ) -> Callable[[random.Random, Counter[str]], None]:
        def disturb(rng: random.Random, counts: Counter[str]) -> None:
            known = self.undisturbed(name)
            with self.fresh(name) as folder:
                ending = fault(name, folder, rng)
                counts["hit"] += ending.code != 0
                if not (ending.is_clear or ending.code == -9):
                    counts["unclear"] += 1
                    counts[f"said: {ending.err.strip()[-200:]}"] += 1
                self.judge(name, folder, known, ending, counts)

        return disturb

    def judge(
        self, name: str, folder: Path, known: Undisturbed, ending: Ending, counts: Counter[str]
    ) -> None:
        """Look at what is left, and let the command run again."""
        scenario, path = SCENARIOS[name], folder / "d.duckdb"
        allowed = {
            known.before,
            known.after,
            *(self.world.state(self.world.base(s)).digest for s in scenario.between),
        }
        if path.exists():
            state = self.world.look(path)
            if isinstance(state, State):
                counts["twice"] += state.twice > 0
                counts["lost"] += state.flaws > 0
                if scenario.start is None and state.rows == 0:
                    counts["lost"] += ending.code == 0
                elif name == "create":  # its key is another one each time
                    counts["lost"] += ending.code == 0 and state.batches != len(self.world.logs)
                else:
                    counts["lost"] += state.digest not in allowed
                    counts["lost"] += ending.code == 0 and state.digest != known.after
            elif known.before is not None or "not a database of fpmonitor" not in state.err:
                counts["lost"] += 1
                counts[f"does not open: {state.err.strip()[:200]}"] += 1
        elif known.before is not None:
            counts["lost"] += 1
        if not scenario.is_done(folder):
            again = command(*scenario.arguments(self.world, folder), folder=folder)
            counts["stuck"] += again.code != 0
            if again.code:
                counts[f"again: {again.err.strip()[-200:]}"] += 1
                return
        counts["stuck"] += scenario.outcome(self.world, folder) != known.outcome

    def undisturbed(self, name: str) -> Undisturbed:
        if name not in self._known:
            self._known[name] = self._undisturbed(name)
        return self._known[name]

    def _undisturbed(self, name: str) -> Undisturbed:
        scenario = SCENARIOS[name]
        with self.fresh(name) as folder:
            path = folder / "d.duckdb"
            before = self.world.state(path).digest if path.exists() else None
            ending = self.world.do(*scenario.arguments(self.world, folder))
            sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
            after = self.world.state(path).digest
            outcome = scenario.outcome(self.world, folder)
        return Undisturbed(ending.seconds, before, after, outcome, max(sizes))

    @contextmanager
    def fresh(self, name: str) -> Iterator[Path]:
        """A folder with the database that a scenario begins with."""
        folder, scenario = self.world.round, SCENARIOS[name]
        folder.mkdir()
        try:
            if scenario.start is not None:
                shutil.copy(self.world.base(scenario.start), folder / "d.duckdb")
            scenario.prepare(self.world, folder)
            yield folder
        finally:
            folder.chmod(0o755)
            shutil.rmtree(folder)

    def _run(self, name: str, folder: Path, **how: Any) -> Ending:
        arguments = SCENARIOS[name].arguments(self.world, folder)
        return command(*arguments, folder=self.world.folder, **how)

    def kill(self, name: str, folder: Path, rng: random.Random) -> Ending:
        """SIGKILL at a random moment."""
        moment = rng.uniform(0, self.undisturbed(name).seconds)
        return self._run(name, folder, kill_after=moment)

    def full(self, name: str, folder: Path, rng: random.Random) -> Ending:
        """No file may grow beyond a random size."""
        size = some_size(rng, self.undisturbed(name).largest)
        return self._run(name, folder, hindrance=Hindrance(file_bytes=size))

    def tmpfs(self, name: str, folder: Path, rng: random.Random) -> Ending:
        """The disk has room for a random number of bytes more; afterwards there is room."""
        size = sum(path.stat().st_size for path in folder.iterdir())
        size += some_size(rng, self.undisturbed(name).largest)
        aside = folder.with_name("aside")
        shutil.copytree(folder, aside)
        mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
        try:
            shutil.copytree(aside, folder, dirs_exist_ok=True)
            ending = self._run(name, folder)
            shutil.rmtree(aside)
            shutil.copytree(folder, aside)
        finally:
            subprocess.run(["umount", folder], check=True)
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        shutil.rmtree(aside)
        return ending

    def denied(self, name: str, folder: Path, rng: random.Random) -> Ending:
        """The database may not be read or written, or nothing be made in its folder."""
        paths = [folder, *folder.iterdir()]
        for path in paths if os.getuid() == 0 else []:
            os.chown(path, NOBODY, NOBODY)
        target = rng.choice(paths)
        before = target.stat().st_mode
        target.chmod(rng.choice([0o000, 0o555 if target == folder else 0o444]))
        ending = self._run(name, folder, hindrance=Hindrance(unprivileged=True))
        target.chmod(before)
        for path in paths if os.getuid() == 0 else []:
            os.chown(path, 0, 0)
        return ending

    # ---- Halves and damage

    def cut(self, rng: random.Random, counts: Counter[str]) -> None:
        """A log ends in the middle of a record; later it is there whole."""
        world = self.world
        with self.fresh("ingest") as folder:
            log = Path(rng.choice(world.logs[1:]))
            half = folder / f"half{log.suffix}"
            content = log.read_bytes()
            half.write_bytes(content[: rng.randrange(1, len(content))])
            ending = command("ingest", half, *on(folder), folder=world.folder)
            counts["hit"] += 1
            counts["refused whole" if ending.code else "stored in part"] += 1
            counts["unclear"] += not ending.is_clear
            self.judge_snapshot(folder, counts)

    def judge_snapshot(self, folder: Path, counts: Counter[str]) -> None:
        world = self.world
        again = command("ingest", *world.logs, *on(folder), folder=world.folder)
        state = world.state(folder / "d.duckdb")
        counts["twice"] += state.twice > 0
        counts["lost"] += state.flaws > 0
        counts["stuck"] += again.code != 0 or snapshot_in(world, folder) != world.snapshot

    def damage(self, rng: random.Random, counts: Counter[str]) -> None:
        """Bytes of the file are not as they were written."""
        with self.fresh("compact") as folder:
            kind = spoil(folder / "d.duckdb", rng)
            counts["hit"] += 1
            self.judge_damage(folder, kind, self.world.state(self.world.base("3")).digest, counts)

    def damage_log(self, rng: random.Random, counts: Counter[str]) -> None:
        """Bytes of the log that a killed process has left beside the file are others."""
        with self.fresh("ingest") as folder:
            call(leave_log_behind, [str(folder / "d.duckdb"), self.world.logs[1]], folder)
            log = folder / "d.duckdb.wal"
            if not log.exists():
                raise SystemExit("the killed process has left no log: the kind shows nothing")
            kind = spoil(log, rng)
            counts["hit"] += 1
            self.judge_damage(folder, kind, self.world.state(self.world.base("2")).digest, counts)

    def judge_damage(self, folder: Path, kind: str, digest: str, counts: Counter[str]) -> None:
        """See whether it is told, and whether the way back that is told leads back."""
        told = self.world.look(folder / "d.duckdb")
        if isinstance(told, State):
            harmless = told.digest == digest
            flaws = told.flaws or told.twice
            outcome = "harmless" if harmless else "flaws told" if flaws else "unnoticed"
            counts["unnoticed"] += outcome == "unnoticed"
        else:
            outcome = "refused" if told.code == 2 and told.is_clear else told.err.strip()[-200:]
            counts["unclear"] += outcome != "refused"
        counts[f"{kind}: {outcome}"] += 1
        restored = folder / "restored.duckdb"
        back = command("db", "copy-in", self.world.export, "--db", restored, folder=folder)
        same = back.code == 0 and self.world.state(restored) == self.world.state(
            self.world.base("3")
        )
        counts["stuck"] += not same


def some_size(rng: random.Random, most: int) -> int:
    """Bytes from 512 to `most`; small sizes are as likely as large ones."""
    return round(512 * (most / 512) ** rng.random())


def spoil(path: Path, rng: random.Random) -> str:
    """Damage a file at a random place; what was done."""
    size = path.stat().st_size
    place = rng.randrange(size)
    kind = rng.choice(["bit", "16 bytes", "page of zeros", "end cut off"])
    if kind == "end cut off":
        os.truncate(path, place)
        return kind
    with path.open("r+b") as file:
        file.seek(place)
        old = file.read({"bit": 1, "16 bytes": 16}.get(kind, 4096))
        new = bytes(len(old))
        if kind == "bit":
            new = bytes([old[0] ^ 1 << rng.randrange(8)])
        elif kind == "16 bytes":
            new = rng.randbytes(len(old))
        file.seek(place)
        file.write(new)
    return kind


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def write_logs(folder: Path, users: int) -> None:
    """Three logs, of which the second and third show some users of the one before again."""
    for i, suffix in enumerate((".jsonl", ".csv", ".parquet")):
        frame = browsers(users + users // 10, seed=i)
        write(
            frame.tail(users).with_columns(frame["user"].tail(users) + f"-{i % 2}"),
            folder / f"{i}{suffix}",
        )


def run_rounds(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        Path(scratch).chmod(0o755)
        faults = Faults(World(Path(scratch), options.users))
        unknown = sorted(set(options.kinds or []) - set(faults.kinds))
        if unknown:
            raise SystemExit(f"no kind {unknown[0]!r}; kinds: {', '.join(faults.kinds)}")
        tallies = {kind: Tally() for kind in options.kinds or faults.kinds}
        deadline = time.monotonic() + options.seconds
        for number in range(options.rounds):
            for kind, tally in tallies.items():
                if time.monotonic() < deadline:
                    rng = random.Random(f"{options.seed} {kind} {number}")
                    faults.kinds[kind](rng, tally.counts)
                    tally.rounds += 1
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    return {
        "seed": options.seed,
        "users": options.users,
        "rounds": sum(tally.rounds for tally in tallies.values()),
        "kinds": {kind: tally.to_json() for kind, tally in tallies.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=2000, help="of each of three logs")
    parser.add_argument("--kinds", nargs="+", help="default: all")
    parser.add_argument("--folder", type=Path, help="where to work")
    parser.add_argument("--write-logs", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--write-piece", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--large", type=int, help="store so many observations, with kills")
    parser.add_argument("--kill-every", type=float, default=60, help="seconds, with --large")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after these")
    options = parser.parse_args()
    if options.write_logs:
        write_logs(options.write_logs, options.users)
    elif options.write_piece is not None:
        write_piece(options.folder, options.write_piece)
    elif options.large is None:
        print(json.dumps(run_rounds(options), indent=1))
    elif options.folder is None:
        parser.error("--large needs --folder")
    else:
        print(json.dumps(run_large(options), indent=1))


if __name__ == "__main__":
    main()
