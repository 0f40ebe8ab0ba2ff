"""Every point at which a run can be cut short, tried in order.

`python benchmarks/crashpoints.py` runs each scenario once under `strace`, which writes down what
the program asks of files, and makes of that every state the disk can be left in, one after each
operation:

  killed      what was written until then is there
  first page  ... and the first page of a write of several
  half        ... and half of it
  unsynced    the power failed: each file is as it was last synced
  unnamed     ... and each folder as it was last synced

The program itself recovers each state, and is asked what it has. JSON on stdout counts points,
different states, and points at which something acknowledged is lost, something is there twice, or
the recovery fails. `--scenarios serve compact` chooses.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
from syscalls import Disk, digest, read_calls, trace

from fpmonitor.cli import run
from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.monitor import Monitor
from fpmonitor.private.client import AnsweredRequests, seal_answers
from fpmonitor.private.keys import SecretKeys, read_secret_keys, write_secret_keys
from fpmonitor.private.recipient import Recipient
from fpmonitor.private.shuffler import Shuffler
from fpmonitor.private.study import Study, first_ask
from fpmonitor.release.histogram import read_release
from fpmonitor.sealing import open_file
from fpmonitor.serve import moving
from fpmonitor.serve.config import read_config
from fpmonitor.serve.questions import Questions
from fpmonitor.serve.service import Service
from fpmonitor.store import database, encryption, staging
from fpmonitor.store.database import Database
from fpmonitor.store.transfer import read_export
from fpmonitor.store.upkeep import verify_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import duckdb

SERVICE = "import sys; from fpmonitor.cli import run; sys.exit(run(sys.argv[1:]))"
FLUSH = """
import asyncio, json, os, sys
from pathlib import Path
from fpmonitor.serve import moving
from fpmonitor.serve.config import read_config
from fpmonitor.serve.frames import Observation, Observations
from fpmonitor.serve.questions import Questions
from fpmonitor.serve.service import Service
from fpmonitor.store import staging

staging.MAX_APIS = moving.MAX_APIS = int(sys.argv[2])

async def main():
    config = read_config(Path(sys.argv[1]))
    service = Service(config, Questions(config))
    writing = asyncio.create_task(service.spool.run())
    for number in range(3):
        name = f"A.{number if staging.MAX_APIS < 3 else 0}"
        record = Observation(f"u{number}", name, "value", f'"v{number}"')
        received = f"2026-03-01T00:00:0{number}Z"
        await service.spool.append("s", [Observations("s", received, [record])])
        os.write(1, b"taken")
    await service.move()

asyncio.run(main())
"""
DECIDE = ("--k", "5", "--population", "2000", "--budget", "0.3", "--quiet")
WATCH = ("watch", "@/incoming", "--decision", "@/decision.json", "--once", "--settle", "0")
WAYS = ("killed", "first page", "half", "unsynced", "unnamed")
SETTINGS = 'db = "d.duckdb"\nflush_seconds = 0.3\n'


@dataclass(frozen=True)
class Scenario:
    """A run that is cut short.

    Attributes
    ----------
    prepare
        Fills the folder before.
    run
        Does it in a folder, under the command that it is given in front.
    look
        Recovers the folder, and returns what is there.
    judge
        What is wrong, of what is there, what was there before, what would be there after, and how
        much was acknowledged.
    """

    prepare: Callable[[Path], None]
    run: Callable[[Path, Callable[[list[str]], list[str]]], None]
    look: Callable[[Path], Any]
    judge: Callable[[Any, Any, Any, int], str]


# ---- Commands


COMMAND = """
import sys
import crashpoints

crashpoints.take_any_cipher()
sys.exit(crashpoints.run(sys.argv[1:]))
"""


def take_any_cipher() -> None:
    """Let DuckDB encrypt without its extension, by what it reads with; fpmonitor never does."""
    really = encryption.load_cipher

    def load(connection: duckdb.DuckDBPyConnection) -> None:
        try:
            really(connection)
        except FpmonitorError:
            connection.execute("SET force_mbedtls_unsafe = 'true'")

    encryption.load_cipher = load


def do(*arguments: object) -> None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as told:
        code = run([*map(str, arguments)])
    if code:
        raise SystemExit(f"{arguments} ended with {code}: {told.getvalue()}")


def write_log(path: Path, users: range) -> Path:
    rows = [
        {"user": f"u{i}", "time": f"2026-03-0{1 + i % 5}", "A.a": i % 7, "B.b": f"x{i % 3}"}
        for i in users
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def nothing(_folder: Path) -> None:
    pass


def with_logs(number: int, *then: object) -> Callable[[Path], None]:
    """Store logs of a hundred users each in `d.duckdb`, one after the other, then do more."""

    def prepare(folder: Path) -> None:
        for i in range(number):
            log = write_log(folder / f"{i}.jsonl", range(90 * i, 90 * i + 100))
            do("ingest", log, "--db", folder / "d.duckdb")
        write_log(folder / "next.jsonl", range(50, 200))
        if then:
            do(*then, "--db", folder / "d.duckdb")

    return prepare


def with_export(folder: Path) -> None:
    with_logs(1)(folder)
    other = folder / "other"
    other.mkdir()
    shutil.copy(folder / "d.duckdb", other / "d.duckdb")
    do("ingest", folder / "next.jsonl", "--db", other / "d.duckdb")
    do("db", "copy-out", folder / "export", "--db", other / "d.duckdb")
    shutil.rmtree(other)


def command(*arguments: str) -> Callable[[Path, Callable[[list[str]], list[str]]], None]:
    """Run a command on `d.duckdb`; `@` stands for the folder."""

    def start(folder: Path, under: Callable[[list[str]], list[str]]) -> None:
        given = [argument.replace("@", str(folder)) for argument in arguments]
        whole = under([sys.executable, "-c", COMMAND, *given])
        here = Path(__file__).parent  # whose module the script imports
        environment = os.environ | {"FPMONITOR_DB": str(folder / "d.duckdb")}
        ended = subprocess.run(whole, check=False, capture_output=True, cwd=here, env=environment)
        if ended.returncode not in {0, 3}:
            raise SystemExit(f"{given} ended with {ended.returncode}: {ended.stderr.decode()}")

    return start


def key_in(folder: Path) -> Path | None:
    """The key of the database of a folder, where it is encrypted."""
    return folder / "key" if (folder / "key").exists() else None


def content(folder: Path) -> Any:
    """What a database holds, and its contradictions; null for none, and for an empty one."""
    if not (folder / "d.duckdb").exists():
        return None
    with Database(folder / "d.duckdb", create=True, key_file=key_in(folder)) as store:
        stored, flaws = verify_database(store)
        names = store.rows("names/said", prefix="column:")
    return (stored.digest, names, sum(flaws.values())) if stored.rows.get("batch") else None


def one_of_two(found: Any, before: Any, after: Any, acknowledged: int) -> str:
    """All of it or nothing; all of it once it was told."""
    if found not in (before, after):
        return "neither before nor after"
    return "lost" if acknowledged and found != after else ""


def files(*names: str) -> Callable[[Path], Any]:
    """Content of files; null for one that is not there."""

    def look(folder: Path) -> Any:
        paths = [folder / name for name in names]
        return [path.read_bytes() if path.exists() else None for path in paths]

    return look


def with_key(folder: Path) -> None:
    do("db", "make-key", folder / "key", "--quiet")
    for name, users in (("first", range(100)), ("next", range(50, 200))):
        write_log(folder / f"{name}.jsonl", users)
    on = ("--db", folder / "d.duckdb")
    do("--key-file", folder / "key", "ingest", folder / "first.jsonl", *on)


def with_old_schema(folder: Path) -> None:
    newest, database.SCHEMA_VERSION = database.SCHEMA_VERSION, 1
    try:
        with Monitor(folder / "d.duckdb", create=True) as monitor:
            monitor.ingest([str(write_log(folder / "0.jsonl", range(100)))])
    finally:
        database.SCHEMA_VERSION = newest


def with_list(folder: Path) -> None:
    """Leave a list of before, and the decision of a new one."""
    with_logs(2)(folder)
    for budget, name in (("0.9", "before"), ("0.01", "decision")):
        decided = ("--k", "5", "--population", "2000", "--budget", budget, "--setting", "sample")
        path = folder / f"{name}.json"
        do("decide", *decided, "--quiet", "-o", path, "--db", folder / "d.duckdb")
    list_of = ("--to", "csv", "-o", folder / "list.csv", "--quiet")
    do("export", folder / "before.json", *list_of)


def with_seal(folder: Path) -> None:
    with_logs(1)(folder)
    do("db", "seal", folder / "d.duckdb", *seal(folder, "sealed.age"), "--make-key")


def seal(folder: Path | str, output: str) -> tuple[str, ...]:
    return ("--key-file", f"{folder}/seal.txt", "-o", f"{folder}/{output}", "--quiet")


RELEASE = ("release", "--apis", "A.a,B.b", "-o", "@/r.parquet", "--quiet", "--k")


def with_release(folder: Path) -> None:
    with_logs(2)(folder)
    arguments = [argument.replace("@", str(folder)) for argument in RELEASE]
    do(*arguments, "10", "--db", folder / "d.duckdb")


def released(folder: Path) -> Any:
    """A release; null for a table beside the manifest of another, which is refused."""
    try:
        found = read_release(folder / "r.parquet")
    except InputError:
        return None
    return found.table.rows(), found.manifest


def old_new_or_refused(found: Any, before: Any, after: Any, acknowledged: int) -> str:
    return one_of_two(found, before if found else None, after, acknowledged)


def unsealed(folder: Path) -> Any:
    """What sealed files hold; null for one that is not there."""
    found = []
    for name in ("sealed.age", "again.age"):
        whole = (folder / name).exists()
        opened = folder / f"opened-{name}"
        if whole:
            open_file(folder / name, opened, folder / "seal.txt")
        found.append(opened.read_bytes() if whole else None)
    return found


def with_watch(folder: Path) -> None:
    with_logs(1)(folder)
    decision = folder / "decision.json"
    do("decide", *DECIDE, "-o", decision, "--db", folder / "d.duckdb")
    (folder / "incoming").mkdir()
    (folder / "next.jsonl").rename(folder / "incoming" / "next.jsonl")


def watched(folder: Path) -> Any:
    """Let the watch go on."""
    arguments = [argument.replace("@", str(folder)) for argument in WATCH]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as told:
        code = run([*arguments, "--db", str(folder / "d.duckdb")])
    return content(folder), told.getvalue() if code == 2 else ""


def only_after(found: Any, _before: Any, after: Any, _acknowledged: int) -> str:
    return "" if found == after else "not as without the crash"


def with_crash(folder: Path) -> None:
    """Leave what a crash within a write of the checkpoint of an ingest leaves."""
    with tempfile.TemporaryDirectory() as scratch:
        found = points(SCENARIOS["ingest"], Path(scratch))
        *_, torn = (state for way, _, state in found if way == "first page")
        left(folder, Path(scratch) / "run", torn)


# ---- Private roles

STUDY = Study(name="t", apis=("A.a", "B.b"), population=1000, k=3, budget=0.5, minimum_batch=2)
TAKEN_BEFORE = 2  # of eight
ROLES = """
import os, sys
from pathlib import Path
import crashpoints

shuffler, curator = crashpoints.roles(Path(sys.argv[1]))
for number, body in enumerate(crashpoints.bodies(Path(sys.argv[1]))):
    if number >= crashpoints.TAKEN_BEFORE:
        shuffler.take([body])
        os.write(1, b"taken")
crashpoints.pass_on(shuffler, curator)
"""


def roles(folder: Path) -> tuple[Shuffler, Recipient]:
    rings = [read_secret_keys(folder / f"{role}.keys") for role in ("shuffler", "curator")]
    shuffler = Shuffler(folder / "shuffler.db", STUDY, rings[0])
    curator = Recipient(folder / "curator.db", STUDY, rings[1])
    for role in (shuffler, curator):
        role.add_ask(first_ask(STUDY))
    return shuffler, curator


def bodies(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("*.body"))]


def pass_on(shuffler: Shuffler, curator: Recipient) -> None:
    shuffler.close_ask(first_ask(STUDY).id)
    for batch in shuffler.unsent():
        sealed = shuffler.batch(batch)
        assert sealed is not None
        curator.take(sealed)
        shuffler.sent(batch)


def with_roles(folder: Path) -> None:
    rings = {role: SecretKeys.generate(role) for role in ("shuffler", "curator")}
    for role, ring in rings.items():
        write_secret_keys(folder / f"{role}.keys", ring)
    keys = [ring.keys[0].config for ring in rings.values()]
    for number in range(8):
        tokens = {"A.a": f"=v{number}", "B.b": "=1"}
        sealed = seal_answers(
            STUDY,
            first_ask(STUDY),
            tokens,
            answered=AnsweredRequests(),
            shuffler=keys[0],
            recipient=keys[1],
        )
        body = b"".join(upload.encode() for upload in sealed)
        (folder / f"{number}.body").write_bytes(body)
    shuffler, curator = roles(folder)
    with shuffler.store, curator.store:
        shuffler.take(bodies(folder)[:TAKEN_BEFORE])


def take_and_pass_on(folder: Path, under: Callable[[list[str]], list[str]]) -> None:
    whole = under([sys.executable, "-c", ROLES, str(folder)])
    here = Path(__file__).parent  # whose module the script imports
    subprocess.run(whole, check=True, capture_output=True, cwd=here)


def counted(folder: Path) -> list[int]:
    """Pass on what there is; how often the value of each user was counted."""
    shuffler, curator = roles(folder)
    with shuffler.store, curator.store:
        pass_on(shuffler, curator)
        counts = curator.counts(first_ask(STUDY))["A.a",]
    return [counts.get((f"=v{number}",), 0) for number in range(8)]


def counted_once(found: list[int], _before: Any, _after: Any, acknowledged: int) -> str:
    if max(found) > 1:
        return "twice"
    return "" if all(found[: TAKEN_BEFORE + acknowledged]) else "lost"


def exported(folder: Path) -> Any:
    found = folder / "export"
    return read_export(found).digest if found.exists() else None


# ---- The service


def with_settings(folder: Path) -> None:
    (folder / "serve.toml").write_text(SETTINGS)


def flush(
    folder: Path, under: Callable[[list[str]], list[str]], most: int = staging.MAX_APIS
) -> None:
    """Take records as the service does, without HTTP; store what waits once."""
    whole = under([sys.executable, "-P", "-c", FLUSH, str(folder / "serve.toml"), str(most)])
    subprocess.run(whole, check=True, capture_output=True, cwd=folder)


def flush_names(folder: Path, under: Callable[[list[str]], list[str]]) -> None:
    """As `flush`, into a database that refuses all names but one."""
    flush(folder, under, most=1)


def send_records(folder: Path, under: Callable[[list[str]], list[str]]) -> None:
    """Send records one after the other to a service that stores what it has three times."""
    arguments = ["collect", "serve", "--port", "0", "--config", str(folder / "serve.toml")]
    log = folder.with_name("serve.log")
    whole = under([sys.executable, "-P", "-c", SERVICE, *arguments])
    with log.open("wb") as output:
        process = subprocess.Popen(whole, cwd=folder, stderr=output, start_new_session=True)
    while "started" not in log.read_text():
        time.sleep(0.05)
    port = int(log.read_text().split("/ ")[0].rpartition(":")[2])
    with httpx.Client(base_url=f"http://localhost:{port}", timeout=60) as client:
        for number in range(12):
            body = {"user": f"u{number}", "api": "A.a", "value": f"v{number}"}
            assert client.post("/v1/observations", json=body).status_code == 202
            time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)  # strace does not pass it on
    process.wait(60)


def received(folder: Path) -> Any:
    """Let the service recover, and store what waits; what the database then holds."""

    async def recover() -> None:
        config = read_config(folder / "serve.toml")
        service = Service(config, Questions(config))
        try:
            await service.move()
        finally:
            service.spool.close()

    asyncio.run(recover())
    refused = [
        json.loads(line)["value"]
        for path in (folder / "d.duckdb.spool" / "refused").glob("*")
        for line in path.read_text().splitlines()
    ]
    with Database(folder / "d.duckdb") as store:
        flaws = sum(verify_database(store)[1].values())
        texts = store._fetch(
            "SELECT text FROM observation JOIN value USING (api_id, value_id) ORDER BY text"
        )
    return [*refused, *(text for (text,) in texts)], flaws


def received_names(folder: Path) -> Any:
    usual = staging.MAX_APIS
    staging.MAX_APIS = moving.MAX_APIS = 1
    try:
        return received(folder)
    finally:
        staging.MAX_APIS = moving.MAX_APIS = usual


def each_once(found: Any, _before: Any, _after: Any, acknowledged: int) -> str:
    texts, flaws = found
    if flaws or len(texts) != len(set(texts)):
        return "twice"
    missing = {f"v{number}" for number in range(acknowledged)} - {text.strip('"') for text in texts}
    return f"lost {len(missing)} of {acknowledged}" if missing else ""


SCENARIOS = {
    "recover": Scenario(with_crash, command("db", "apis"), content, one_of_two),
    "roles": Scenario(with_roles, take_and_pass_on, counted, counted_once),
    "watch": Scenario(with_watch, command(*WATCH), watched, only_after),
    "flush": Scenario(with_settings, flush, received, each_once),
    "refused": Scenario(with_settings, flush_names, received_names, each_once),
    "serve": Scenario(with_settings, send_records, received, each_once),
    "create": Scenario(with_logs(0), command("ingest", "@/next.jsonl"), content, one_of_two),
    "ingest": Scenario(with_logs(2), command("ingest", "@/next.jsonl"), content, one_of_two),
    "snapshot": Scenario(with_logs(2), command("db", "apis"), content, one_of_two),
    "names": Scenario(with_logs(2), command("db", "apis", "--set", "A.a="), content, one_of_two),
    "forget": Scenario(
        with_logs(2, "db", "apis"),
        command("db", "forget", "--before", "2026-03-03"),
        content,
        one_of_two,
    ),
    "compact": Scenario(with_logs(2, "db", "apis"), command("db", "compact"), content, one_of_two),
    "import": Scenario(with_export, command("db", "copy-in", "@/export"), content, one_of_two),
    "export": Scenario(with_logs(2), command("db", "copy-out", "@/export"), exported, one_of_two),
    "migrate": Scenario(with_old_schema, command("db", "batches"), content, one_of_two),
    "encrypted": Scenario(
        with_key,
        command("--key-file", "@/key", "ingest", "@/next.jsonl"),
        content,
        one_of_two,
    ),
    "seal": Scenario(
        with_seal,
        command("db", "seal", "@/d.duckdb", *seal("@", "again.age")),
        unsealed,
        one_of_two,
    ),
    "open": Scenario(
        with_seal,
        command("db", "open", "@/sealed.age", *seal("@", "copy.duckdb")),
        files("copy.duckdb"),
        one_of_two,
    ),
    "lists": Scenario(
        with_list,
        command("export", "@/decision.json", "--to", "csv", "-o", "@/list.csv"),
        files("list.csv"),
        one_of_two,
    ),
    "release": Scenario(with_release, command(*RELEASE, "5"), released, old_new_or_refused),
    "convert": Scenario(
        with_logs(1),
        command("scale", "convert", "@/next.jsonl", "-o", "@/c.parquet", "--quiet"),
        files("c.parquet"),
        one_of_two,
    ),
    "keys": Scenario(
        with_logs(0, "collect", "keys", "add", "write", "first"),
        command("collect", "keys", "add", "write", "second"),
        files("d.duckdb.keys.json"),
        one_of_two,
    ),
}


# ---- Points


def points(scenario: Scenario, scratch: Path) -> Iterator[tuple[str, int, dict[str, bytes]]]:
    """Run a scenario in `scratch/run`, and yield each state that it can be left in."""
    folder = scratch / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    scenario.prepare(folder)
    disk = Disk.of(folder)
    yield "before", 0, disk.content()
    record = scratch / "calls"
    scenario.run(folder, lambda whole: trace(whole, record))
    yield from disk.states(read_calls(record))
    disk.acknowledged = max(1, disk.acknowledged)  # who ran it has seen it end
    yield from disk.lost()
    yield "after", disk.acknowledged, disk.content()


def left(folder: Path, run: Path, state: dict[str, bytes]) -> Path:
    """Write a state into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in state.items():
        path = folder / Path(name).relative_to(run)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o600)
    return folder


def seen(scenario: Scenario, folder: Path) -> Any:
    """What there is after recovery, or how that failed."""
    try:
        return scenario.look(folder)
    except FpmonitorError as error:
        return error


def try_all(scenario: Scenario, scratch: Path, ways: Sequence[str] = WAYS) -> dict[str, Any]:
    """Try every point of a scenario in these ways."""
    run = scratch / "run"  # again: logs are known by their paths
    tried = list(points(scenario, scratch))
    before = seen(scenario, left(run, run, tried[0][2]))
    after = seen(scenario, left(run, run, tried[-1][2]))
    known: dict[bytes, Any] = {}
    wrong: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for way, acknowledged, state in tried:
        if way not in ways:
            continue
        counts[way] += 1
        key = digest(state)
        if key not in known:
            known[key] = seen(scenario, left(run, run, state))
        found = known[key]
        if isinstance(found, FpmonitorError):
            wrong[f"{way}: {type(found).__name__}: {found.message[-120:]}"] += 1
        elif told := scenario.judge(found, before, after, acknowledged):
            wrong[f"{way}: {told}"] += 1
    return {
        "points": sum(counts.values()),
        "states": len(known),
        "acknowledged": tried[-1][1],
        **counts,
        "wrong": dict(wrong),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    options = parser.parse_args()
    take_any_cipher()
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.scenarios:
            found[name] = try_all(SCENARIOS[name], Path(scratch))
            print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
