"""Private collection: its speed against bare HPKE, and a whole run between three processes.

`python benchmarks/private.py speed` seals the answers of `--users` users to `--apis` APIs, and
measures in turns, on the same frames: bare `Suite.decrypt` of the library, the shuffler (open,
store durably, permute, make batches) and the curator (open, check, count durably). `shuffler` and
`curator` are ratios of messages a second to the bare decryption of the same run, on the clock and
by the time of the processor.

`python benchmarks/private.py run --folder FOLDER` ingests the fixture logs, starts shuffler,
curator and analyst as three processes, sends the sealed answers of `--users` users to 20 single
APIs over HTTP while shuffler and recipient are killed with SIGKILL `--kills` times, compares the
marginals with the truth, looks for joint records in every table of the curator, lets the curator
choose a set, collects it for the analyst, and compares what was promised with what is so. Sealed
answers stay in FOLDER, so that a run that was stopped goes on. JSON goes to stdout.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fpmonitor.monitor import Monitor
from fpmonitor.private.client import AnsweredRequests, fitting, seal_answers
from fpmonitor.private.folder import RoleFolder, make_pilot
from fpmonitor.private.keys import SUITE, SecretKeys, info_of
from fpmonitor.private.recipient import Recipient
from fpmonitor.private.selection import compare_with_joint, select_values
from fpmonitor.private.shuffler import Shuffler, upload_bytes
from fpmonitor.private.store import RoleStore, read_counts
from fpmonitor.private.study import ROLES, CollectionRequest, Study, first_ask, release_ask
from fpmonitor.private.table import count_reports, read_tokens
from fpmonitor.private.transport import RoleClient, UnreachableError
from fpmonitor.private.wire import decode_batch, decode_uploads, token_limit
from fpmonitor.store.database import Database
from fpmonitor.store.snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import polars as pl

LOGS = Path(__file__).parents[1] / "fixtures" / "logs"
APIS = 20
USERS_OF_A_PART = 500
BODY_UPLOADS = 500
SENDERS = 4


# ---- Speed


def speed(users: int, apis: int, rounds: int, group: int) -> dict[str, Any]:
    names = tuple(f"Interface.a{number:02}" for number in range(apis))
    study = Study(name="speed", apis=names, population=10**6, k=10, budget=0.1, minimum_batch=10)
    ask = first_ask(study)
    rings = {role: SecretKeys.generate(role) for role in ("shuffler", "curator")}
    started = time.perf_counter()
    bodies = [
        b"".join(upload.encode() for upload in sealed(study, ask, rings, tokens))
        for tokens in made_up(users, names)
    ]
    sealing = time.perf_counter() - started
    groups = [b"".join(bodies[at : at + group]) for at in range(0, users, group)]
    ratios: dict[str, list[Spent]] = {"shuffler": [], "curator": []}
    bare: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            shuffler = Shuffler(Path(folder) / "s.db", study, rings["shuffler"])
            curator = Recipient(Path(folder) / "c.db", study, rings["curator"])
            for role in (shuffler, curator):
                stack.enter_context(role.store)
                role.add_ask(ask)
            frames = [upload.sealed for body in groups for upload in decode_uploads(body)]
            baseline = timed(lambda frames=frames: decrypt(frames, rings["shuffler"], ask))
            bare.append(len(frames) / baseline.wall)
            found = timed(lambda role=shuffler: shuffle(role, groups, ask))
            ratios["shuffler"].append(baseline.over(found))
            batches = [shuffler.batch(one) for one in shuffler.unsent()]
            inner = [frame for batch in batches for frame in decode_batch(batch)[2]]
            baseline = timed(lambda frames=inner: decrypt(frames, rings["curator"], ask))
            found = timed(lambda role=curator, some=batches: [role.take(one) for one in some])
            ratios["curator"].append(baseline.over(found))
            counted = curator.store.tally()[ask.id]["accepted"]
            assert counted == users * apis, counted
    return {
        "messages": users * apis,
        "upload_bytes": upload_bytes(study),
        "messages_of_a_commit": group * apis,
        "sealed_a_second": round(users * apis / sealing),
        "bare_decryptions_a_second": round(statistics.median(bare)),
        **{
            f"{name}{suffix}": round(statistics.median(getattr(one, kind) for one in values), 3)
            for name, values in ratios.items()
            for kind, suffix in (("wall", ""), ("cpu", "_by_processor_time"))
        },
        "rounds": {name: [round(one.wall, 3) for one in values] for name, values in ratios.items()},
    }


@dataclass(frozen=True)
class Spent:
    """Seconds on the clock, with the waits for the disk, and of the processor."""

    wall: float
    cpu: float

    def over(self, other: Spent) -> Spent:
        return Spent(self.wall / other.wall, self.cpu / other.cpu)


def timed(work: Callable[[], object]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def decrypt(frames: Sequence[Any], ring: SecretKeys, ask: CollectionRequest) -> None:
    private, info = ring.keys[0].private, info_of(ring.role, ask.id, 1)
    for frame in frames:
        SUITE.decrypt(frame.encapsulated + frame.payload, private, info=info)


def shuffle(shuffler: Shuffler, groups: Sequence[bytes], ask: CollectionRequest) -> None:
    for body in groups:
        shuffler.take([body])
        shuffler.release()
    shuffler.close_ask(ask.id)


def made_up(users: int, names: Sequence[str]) -> Iterator[dict[str, str]]:
    rng = random.Random(1)
    for _ in range(users):
        yield {name: f"={rng.randrange(2 + 3 * place)}" for place, name in enumerate(names)}


def sealed(
    study: Study, ask: CollectionRequest, rings: Mapping[str, SecretKeys], tokens: Mapping[str, str]
) -> list[Any]:
    keys = {role: ring.keys[0].config for role, ring in rings.items()}
    return seal_answers(
        study,
        ask,
        tokens,
        answered=AnsweredRequests(),
        shuffler=keys["shuffler"],
        recipient=keys[ask.recipient],
    )


# ---- A whole run


class Process:
    """A role of a pilot at one address, whatever happens to it."""

    def __init__(self, folder: Path) -> None:
        self._made = RoleFolder(folder)
        self.role = self._made.config.role
        self._spawn()

    def _spawn(self) -> None:
        command = [sys.executable, "-P", "-m", "fpmonitor", "private", "serve"]
        self._log = self._made.path / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen([*command, str(self._made.path)], stderr=log)

    def service(self) -> RoleClient:
        """Its service, with the password; waits until it listens."""
        while f":{self._made.config.port}/" not in self._log.read_text():
            if self._process.poll() is not None:
                raise SystemExit(self._log.read_text())
            time.sleep(0.05)
        return self._made.service(self.role)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def kill_and_start_again(self) -> None:
        self.service().close()
        self.kill()
        self._spawn()


class Run:
    def __init__(self, folder: Path, users: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.table = self._users().head(users)
        terms = Study(
            name="run",
            apis=tuple(self.table.columns),
            population=100_000,
            k=10,
            budget=0.1,
            minimum_batch=500,
        )
        pilot = folder / "pilot"
        if not pilot.exists():
            make_pilot(pilot, terms)
        self.folders = {role: RoleFolder(pilot / role) for role in ROLES}
        self.study = self.folders["curator"].study
        self.rings = {role: made.ring for role, made in self.folders.items()}
        for made in self.folders.values():
            for path in made.path.glob("store.db*"):
                path.unlink()

    def _users(self) -> pl.DataFrame:
        path = self.folder / "users.duckdb"
        with Monitor(path, create=True) as monitor:
            monitor.ingest([str(LOGS)])
        with Database(path) as database:
            snapshot = take_snapshot(database)
            return read_tokens(database, snapshot, snapshot.apis[:APIS])

    def seal(self, ask: CollectionRequest, until: float) -> list[Path]:
        """Files of the answers of all users; stops when the time is over."""
        paths = []
        for start in range(0, len(self.table), USERS_OF_A_PART):
            path = self.folder / f"{ask.id.hex()}-{start:06}.uploads"
            paths.append(path)
            if path.exists():
                continue
            if time.monotonic() > until:
                raise SystemExit(f"{start} of {len(self.table)} users are sealed; run it again")
            part = self.table.slice(start, USERS_OF_A_PART)
            uploads = [
                upload.encode()
                for tokens in part.iter_rows(named=True)
                for upload in sealed(self.study, ask, self.rings, tokens)
            ]
            scratch = path.with_suffix(".new")
            scratch.write_bytes(b"".join(uploads))
            scratch.replace(path)
        return paths

    def collect(
        self,
        roles: Mapping[str, Process],
        ask: CollectionRequest,
        paths: Sequence[Path],
        kills: int,
    ) -> dict[str, Any]:
        """Send all, kill meanwhile, close the ask, wait for the last message."""
        for role in ("shuffler", ask.recipient):
            self._insist(roles[role], "/asks", ask.to_bytes(), "application/json")
        size = BODY_UPLOADS * upload_bytes(self.study)
        bodies = [
            content[at : at + size]
            for content in map(Path.read_bytes, paths)
            for at in range(0, len(content), size)
        ]
        sent = 0
        counting = threading.Lock()

        def send(body: bytes) -> None:
            nonlocal sent
            self._insist(roles["shuffler"], "/uploads", body, "application/octet-stream")
            with counting:
                sent += 1

        expected = len(self.table) * len(ask.sets)
        victims = [roles["shuffler"], roles[ask.recipient]] * kills
        started = time.perf_counter()
        with ThreadPoolExecutor(SENDERS) as pool:
            waiting = [pool.submit(send, body) for body in bodies]
            for number, victim in enumerate(victims, 1):
                while sent < number * len(bodies) // (len(victims) + 1):
                    time.sleep(0.005)
                victim.kill_and_start_again()
            for one in waiting:
                one.result()
        acknowledged = time.perf_counter() - started
        self._insist(roles["shuffler"], f"/asks/{ask.id.hex()}/close", b"", "")
        while self.messages(ask) < expected:
            time.sleep(0.05)
        return {
            "messages": expected,
            "kills": len(victims),
            "seconds_to_acknowledge_all": round(acknowledged, 1),
            "seconds_to_count_all": round(time.perf_counter() - started, 1),
        }

    def _insist(self, role: Process, path: str, content: bytes, content_type: str) -> None:
        while True:
            with role.service() as service, suppress(UnreachableError):
                service.post(path, content, content_type)
                return
            time.sleep(0.1)

    def messages(self, ask: CollectionRequest) -> int:
        with RoleStore(self.folders[ask.recipient].store, self.study, ask.recipient) as store:
            return store.tally()[ask.id]["accepted"]

    def counts(self, ask: CollectionRequest) -> dict[tuple[str, ...], dict[tuple[str, ...], int]]:
        with RoleStore(self.folders[ask.recipient].store, self.study, ask.recipient) as store:
            return read_counts(store, ask)

    def truth(self, ask: CollectionRequest) -> dict[tuple[str, ...], Counter[tuple[str, ...]]]:
        """What the users hold, long values by their digests."""
        found = {}
        for apis, counts in count_reports(self.table, ask.sets).items():
            limit = token_limit(self.study.report_bytes, apis)
            single = token_limit(self.study.report_bytes, apis[:1])
            shown: Counter[tuple[str, ...]] = Counter()
            for tokens, users in counts.items():
                fitted = (fitting(token, single, self.study.id) for token in tokens)
                shown[tuple(fitting(token, limit, self.study.id) for token in fitted)] += users
            found[apis] = shown
        return found

    def joint_records(self, role: str, ask: CollectionRequest) -> int:
        """Rows of the store of a role that have tokens of more APIs than were asked together."""
        largest = max(map(len, ask.sets))
        with closing(sqlite3.connect(self.folders[role].store)) as connection:
            names = "SELECT name FROM sqlite_master WHERE type = 'table'"
            tables = [name for (name,) in connection.execute(names)]
            cells = (
                cell
                for table in set(tables) - {"study", "asks"}
                for row in connection.execute(f'SELECT * FROM "{table}"')
                for cell in row
                if isinstance(cell, str) and cell.startswith("[")
            )
            return sum(len(json.loads(cell)) > largest for cell in cells)


def run(folder: Path, users: int, kills: int, seconds: float) -> dict[str, Any]:
    until = time.monotonic() + seconds
    whole = Run(folder, users)
    first = first_ask(whole.study)
    paths = whole.seal(first, until)
    with ExitStack() as stack:
        roles = {role: Process(made.path) for role, made in whole.folders.items()}
        for process in roles.values():
            stack.callback(process.kill)
        marginals = whole.collect(roles, first, paths, kills)
        counts = whole.counts(first)
        marginals["equal_the_truth"] = counts == whole.truth(first)
        marginals["joint_records_at_the_curator"] = whole.joint_records("curator", first)
        selection = select_values(whole.study, counts, setting="fixed")
        chosen = selection.recommended
        sign = whole.rings["curator"].sign
        last = release_ask(whole.study, selection.promise, chosen.apis, sign)
        released = whole.collect(roles, last, whole.seal(last, float("inf")), kills)
        joint = whole.counts(last)[chosen.apis]
        released["equal_the_truth"] = joint == whole.truth(last)[chosen.apis]
    compared = compare_with_joint(whole.study, chosen, joint)
    return {
        "users": len(whole.table),
        "apis": len(whole.study.apis),
        "budget": whole.study.budget,
        "marginals": marginals,
        "released_set": list(chosen.apis),
        "released": released,
        "promised_upper_limit": round(chosen.fixed.upper, 5),
        "rule": chosen.fixed.rule,
        "exposure_in_the_analysts_data": round(compared.empirical, 5),
        "within_the_promise": compared.empirical <= chosen.fixed.upper <= whole.study.budget,
        "certificate_for_the_population": [round(compared.lower, 5), round(compared.upper, 5)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for_speed = commands.add_parser("speed")
    for_speed.add_argument("--users", type=int, default=1000)
    for_speed.add_argument("--apis", type=int, default=20)
    for_speed.add_argument("--rounds", type=int, default=5)
    for_speed.add_argument("--group", type=int, default=200, help="users of one commit")
    for_run = commands.add_parser("run")
    for_run.add_argument("--folder", type=Path, required=True)
    for_run.add_argument("--users", type=int, default=20_000, help="the first of the fixture logs")
    for_run.add_argument("--kills", type=int, default=1, help="of each role, in each round")
    for_run.add_argument("--seconds", type=float, default=float("inf"), help="stop sealing then")
    given = parser.parse_args()
    if given.command == "speed":
        found = speed(given.users, given.apis, given.rounds, given.group)
    else:
        found = run(given.folder, given.users, given.kills, given.seconds)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
