"""Hostile sessions of the service, made from seeds: whatever happens in whichever order.

`python benchmarks/hostile.py --runs 10000 --seed 1` makes a session for each seed: honest requests
in all forms, forged records within values, broken bodies, floods, questions of readers and
strangers, files that are no logs, users who are forgotten, and kills that leave a frame half
written. After each session the database is read: what was acknowledged is there once, as its sender
sent it, and nothing else; no answer told a number of users that never was, or one below k. JSON on
stdout counts runs, steps and faults, with the seeds that show them. `--minutes` ends it early. A
session takes 0.9 s of the processor: 0.5 s store what came, 0.2 s forget users. With
`TMPDIR=/dev/shm` none waits for the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import httpx2 as httpx

from fpmonitor.cli import run
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig
from fpmonitor.serve.keys import add_key

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

K = 10
APIS = ("Navigator.platform", "Navigator.language", "Screen.width", "Window.devicePixelRatio")
FORGED = {"user": "forged", "api": APIS[0], "value": "rare", "source": "backend"}
LINE_ENDS = ("\n", "\r\n", "\r", "\u2028")
BUG = 70  # exit code of a traceback


@dataclass
class Session:
    """A service, what it has acknowledged, and what it has told.

    `sent` is user -> key and API of what was acknowledged; `said` what a command printed last.
    """

    folder: Path
    rng: random.Random
    faults: list[str] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    sent: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    users: int = 0
    said: str = ""

    def __post_init__(self) -> None:
        self.config = ServeConfig(
            db=self.folder / "s.duckdb", flush_seconds=3600, records_per_minute=2_000, max_names=20
        )
        kinds = (("write", "page"), ("write", "backend"), ("read", "ann"))
        self.keys = {name: add_key(self.config.keys_file, kind, name) for kind, name in kinds}
        self.start()

    # ---- The service

    def start(self) -> None:
        self.app = service_app(self.config)
        self.service = self.app.state.service
        self.writing = asyncio.create_task(self.service.spool.run())
        transport = httpx.ASGITransport(app=self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost:8017")

    async def end(self) -> None:
        """End it as a kill does: nothing is stored, closed or answered any more."""
        self.writing.cancel()
        with suppress(asyncio.CancelledError):
            await self.writing
        await self.client.aclose()
        await self.app.state.questions.stop_reading()
        self.service.spool.close()

    async def kill(self) -> None:
        await self.end()
        for segment in self.config.spool_folder.glob("open*"):
            with segment.open("ab") as file:  # a frame that was never answered
                file.write(self.rng.randbytes(self.rng.choice((0, 1, 7, 300))))
        self.start()

    async def store(self) -> None:
        await self.service.move()

    # ---- Senders

    def _user(self) -> str:
        self.users += 1
        return f"u{self.users}"

    async def send(self) -> None:
        """Send honest records in any form, some with values that hold whole records."""
        rng, key = self.rng, self.rng.choice(("page", "backend"))
        records = []
        for _ in range(rng.choice((1, 1, 3, 40))):
            user = self._user()
            value = f"{user}|{rng.choice('abc')}"  # users are stored as digests
            if rng.random() < 0.2:
                end = rng.choice(LINE_ENDS)
                value += f"{end}{json.dumps(FORGED)}{end}"
            records.append({"user": user, "api": rng.choice(APIS), "value": value})
        form = rng.randrange(4)
        if form == 0:
            body = json.dumps(records, indent=rng.choice((None, 1, "\t")))
        elif form == 1:
            body = "\n".join(map(json.dumps, records))
        else:
            raw = [
                json.dumps(one).replace('"value": ', f'"value":{rng.choice(LINE_ENDS[:3])} ')
                for one in records
            ]
            body = "[" + ",".join(raw) + "]"
        content = body.encode()
        headers = {"authorization": f"Bearer {self.keys[key]}", "content-type": "application/json"}
        if form == 3:
            content, headers["content-encoding"] = gzip.compress(content), "gzip"
        answer = await self.client.post("/v1/observations", content=content, headers=headers)
        for one in records:
            user = one["user"]
            if answer.status_code == 202:
                self.sent[user] = (key, one["api"])
            else:
                self.refused.add(user)
        if answer.status_code == 202 and answer.json() != {"accepted": len(records), "refused": 0}:
            self.faults.append(f"acknowledged {answer.text} of {len(records)}")
        if answer.status_code not in {202, 429}:
            self.faults.append(f"an honest request: {answer.status_code}")

    async def send_broken(self) -> None:
        """Send what is no list of records, or claims to be another's."""
        rng = self.rng
        whole = json.dumps([FORGED | {"time": "2020-01-01T00:00:00Z"}] * rng.choice((1, 5)))
        cut = whole[: rng.randrange(len(whole))]
        bodies = (
            cut.encode(),
            rng.randbytes(rng.randrange(200)),
            whole.replace("}", "}}", 1).encode(),
            b"[" * rng.choice((10, 10_000)),
            json.dumps({"user": "forged", "api": APIS[0], "value": {"a": [0]}, "x": 1}).encode(),
        )
        key = rng.choice((self.keys["page"], "wrong", self.keys["ann"], ""))
        answer = await self.client.post(
            rng.choice(("/v1/observations", "/v1/reports")),
            content=rng.choice(bodies),
            headers={"authorization": f"Bearer {key}", "content-type": "text/plain"},
        )
        if answer.status_code >= 500:
            self.faults.append(f"a broken request: {answer.status_code}")
        if answer.status_code == 202 and key != self.keys["page"]:
            self.faults.append("taken without a write key")

    async def send_names(self) -> None:
        """Use up the names of a key; users of these records are not counted."""
        names = [f"Own.name{self.rng.randrange(60)}" for _ in range(30)]
        body = json.dumps([{"user": "names", "api": name, "value": 1} for name in names])
        headers = {"authorization": f"Bearer {self.keys['page']}", "content-type": "text/plain"}
        await self.client.post("/v1/observations", content=body, headers=headers)

    # ---- Readers

    async def ask(self) -> None:
        rng = self.rng
        headers = {"authorization": f"Bearer {self.keys['ann']}"}
        if rng.random() < 0.5:
            headers = {}
        path = rng.choice(
            (f"/v1/exposure?apis={rng.choice(APIS)}", "/healthz", "/", "/v1/openapi.json")
        )
        answer = await self.client.get(path, headers=headers)
        if answer.status_code >= 500 and path != "/healthz":
            if answer.status_code != 503:
                self.faults.append(f"{path}: {answer.status_code}")
            return
        if not headers:
            if path == "/healthz" and set(answer.json()) != {"status"}:
                self.faults.append("a stranger is told figures")
            elif path.startswith("/v1/exposure") and answer.status_code != 401:
                self.faults.append(f"a stranger is answered: {path} {answer.status_code}")
            return
        if "application/json" in answer.headers.get("content-type", "") and path != "/healthz":
            content = answer.json()
            users = content.get("users") if isinstance(content, dict) else None
            most = len(self.sent) + 2  # with those of broken requests and of names
            if users is not None and not K <= users <= most:
                self.faults.append(f"{users} users are told, of {most} who were ever there")

    # ---- The operator

    async def forget(self) -> None:
        known = sorted(self.sent.keys() - self.forgotten)
        if not known:
            return
        await self.store()
        user = self.rng.choice(known)
        os.environ["FPMONITOR_FORGET_USER"] = user
        if code := self.command("db", "forget", "--user", "--yes"):
            why = f"{code}, {self.said.strip()[-200:]}"
            self.faults.append(f"{user}: acknowledged, and not there to be forgotten ({why})")
        self.forgotten.add(user)

    async def ingest(self) -> None:
        path = self.folder / self.rng.choice(("x.jsonl", "x.csv", "x.parquet", "x.json"))
        magic = self.rng.choice((b"", b"PAR1", b"\x1f\x8b", b"user,api\n", b'{"user": 1, '))
        path.write_bytes(magic + self.rng.randbytes(self.rng.randrange(300)))
        self.command("ingest", str(path))

    def command(self, *arguments: str) -> int:
        told = StringIO()
        with redirect_stdout(told), redirect_stderr(told):
            code = run([*arguments, "--db", str(self.config.db)])
        self.said = told.getvalue()
        if code == BUG:
            self.faults.append(f"{arguments[0]}: a traceback")
        return code

    # ---- What is there in the end

    async def settle(self) -> None:
        await self.store()
        await self.end()
        copy = self.folder / "copy.duckdb"  # whoever had the database may still hold it
        for ending in ("", ".wal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{self.config.db}{ending}", f"{copy}{ending}")
        with duckdb.connect(str(copy)) as database:
            rows = database.execute(
                "SELECT source.name, api.name, value.text, year(visit.time) FROM observation "
                "JOIN visit USING (visit_id) JOIN source USING (source_id) "
                "JOIN api USING (api_id) JOIN value USING (api_id, value_id)"
            ).fetchall()
        self.judge(rows)

    def judge(self, rows: list[tuple[str, str, str, int]]) -> None:
        found = []
        for source, api, text, year in rows:
            found.append((text.lstrip('"').partition("|")[0], source, api))
            if year == 2020:
                self.faults.append("a forged time")
            if text.strip('"') == "rare" and source == "backend":
                self.faults.append("a forged source")
        times = Counter(user for user, *_ in found)
        for user in self.sent.keys() - self.forgotten:
            if times[user] != 1:
                self.faults.append(f"{user}: {times[user]} times in the database")
        for user, source, api in found:
            if user in self.refused:
                self.faults.append(f"{user}: was refused, and is there")
            elif user in self.forgotten:
                self.faults.append(f"{user}: was forgotten, and is there")
            elif user in self.sent and (source, api) != self.sent[user]:
                self.faults.append(f"{user}: stored as of {source}, {api}")


STEPS: tuple[tuple[int, Callable[[Session], Coroutine[Any, Any, None]]], ...] = (
    (8, Session.send), (4, Session.send_broken), (1, Session.send_names), (4, Session.ask),
    (3, Session.store), (2, Session.kill), (1, Session.forget), (1, Session.ingest),
)  # fmt: skip


async def session(seed: int, folder: Path) -> Session:
    """Make the session of a seed."""
    made = Session(folder, random.Random(seed))
    weights, steps = zip(*STEPS, strict=True)
    for _ in range(made.rng.randrange(3, 25)):
        [step] = made.rng.choices(steps, weights)
        made.steps[step.__name__] += 1
        await step(made)
    await made.settle()
    return made


def run_seed(seed: int) -> Session:
    """Make the session of a seed in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder:
        return asyncio.run(session(seed, Path(folder)))


def main() -> None:
    """Make sessions, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=inf, help="begin no session after them")
    chosen = parser.parse_args()
    faults: dict[int, list[str]] = {}
    steps: Counter[str] = Counter()
    runs, over = 0, time.monotonic() + 60 * chosen.minutes
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        if time.monotonic() > over:
            break
        runs += 1
        with redirect_stderr(StringIO()):
            made = run_seed(seed)
        steps += made.steps
        if made.faults:
            faults[seed] = made.faults
    told = {"runs": runs, "steps": dict(steps), "faults": faults}
    sys.stdout.write(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
