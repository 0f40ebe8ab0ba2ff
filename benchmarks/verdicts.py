"""Verdicts of the service while batches come: how soon, and whether each is of a state that was.

`python benchmarks/verdicts.py` decides on 12 APIs of `--users` users, starts the service on them,
and asks `/v1/gate` for random sets over `--connections` connections, and `/v1/decision` once for
every 20 sets, first with no user more, then while `--more` users a second come in. Afterwards
each verdict is made again from the rows up to the number of users that its answer names. JSON goes
to stdout: answers a second and latencies of both times, the states that were answered from, and how
many verdicts differ.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import numpy as np
import polars as pl
from load import Server
from search_data import many_users

from fpmonitor.decide.deciding import judging
from fpmonitor.disclosure import Audience, disclosed_spectra
from fpmonitor.monitor import Monitor
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

APIS, SEED = 12, 20261124
FLUSH = 2.0


class Asking(threading.Thread):
    """Asks for sets again and again: users and verdict of each answer, and its milliseconds."""

    def __init__(self, address: str, sets: list[tuple[str, ...]], seed: int) -> None:
        super().__init__()
        self.address, self.sets, self.rng = address, sets, np.random.default_rng(seed)
        self.found: list[tuple[int, tuple[str, ...], str, float]] = []
        self.lists: list[float] = []
        self.over = threading.Event()

    def run(self) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc)

        def get(path: str) -> tuple[Any, float]:
            began = time.perf_counter()
            connection.request("GET", path)
            answer = json.loads(connection.getresponse().read())
            return answer, 1000 * (time.perf_counter() - began)

        while not self.over.is_set():
            if len(self.found) % 20 == 0:
                self.lists.append(get("/v1/decision")[1])
            apis = self.sets[self.rng.integers(len(self.sets))]
            answer, spent = get(f"/v1/gate?want={quote(','.join(apis))}")
            self.found.append((answer["users"], apis, answer["verdict"], spent))


def ask(
    address: str, sets: list[tuple[str, ...]], options: argparse.Namespace, send: Any
) -> tuple[dict[str, float], list[tuple[int, tuple[str, ...], str, float]]]:
    askers = [Asking(address, sets, seed) for seed in range(options.connections)]
    for asker in askers:
        asker.start()
    ends = time.monotonic() + options.seconds
    while time.monotonic() < ends:
        send()
        time.sleep(0.5)
    for asker in askers:
        asker.over.set()
        asker.join()
    found = [one for asker in askers for one in asker.found]
    figures = {"answers_per_second": round(len(found) / options.seconds, 1)}
    for name, spent in {
        "": [milliseconds for *_, milliseconds in found],
        "lists_": [milliseconds for asker in askers for milliseconds in asker.lists],
    }.items():
        figures |= {
            f"{name}median_milliseconds": round(float(np.median(spent)), 1),
            f"{name}p99_milliseconds": round(float(np.quantile(spent, 0.99)), 1),
            f"{name}longest_milliseconds": round(max(spent), 1),
        }
    return figures, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--more", type=int, default=100, help="users a second, up to 300")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--sets", type=int, default=100)
    options = parser.parse_args()
    table = many_users("users", options.users + options.more * (options.seconds + 2))
    codes = dict(zip(table.apis[4 : 4 + APIS], table.codes[4 : 4 + APIS], strict=True))
    rng, apis = np.random.default_rng(SEED), [*codes]
    sets = [
        tuple(sorted(rng.choice(apis, int(rng.integers(2, 7)), replace=False).tolist()))
        for _ in range(options.sets)
    ]
    frame = pl.DataFrame(
        {"user": [f"u{i}" for i in range(options.users)]}
        | {api: column[: options.users].astype(str) for api, column in codes.items()}
    )
    sent = options.users

    def send() -> None:
        nonlocal sent
        batch = range(sent, sent + options.more // 2)
        lines = "".join(
            json.dumps({"user": f"u{i}", "api": api, "value": str(column[i])}) + "\n"
            for i in batch
            for api, column in codes.items()
        )
        request = urllib.request.Request(
            f"{server.address}/v1/observations", lines.encode(), {"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(request).close()
        sent = batch.stop

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame.write_parquet(folder / "users.parquet")
        with Monitor(folder / "v.duckdb", create=True) as monitor:
            monitor.ingest([str(folder / "users.parquet")])
            decision = monitor.decide(k=10, budget=0.05, population=10 * options.users)
        (folder / "decision.json").write_text(json.dumps(decision.to_json()), encoding="utf-8")
        (folder / "serve.toml").write_text(
            f'db = "v.duckdb"\ndecision = "decision.json"\nflush_seconds = {FLUSH}\n'
        )
        server = Server(
            folder, "-m", "fpmonitor", "collect", "serve", "--config", "serve.toml", "--port", "0"
        )
        try:
            alone, found = ask(server.address, sets, options, lambda: None)
            beside, more = ask(server.address, sets, options, send)
        finally:
            server.stop()
    wrong, states = replayed(decision, codes, found + more)
    print(
        json.dumps(
            {
                "users": options.users,
                "apis": APIS,
                "users_more": sent - options.users,
                "alone": alone,
                "while_users_come": beside,
                "answers": len(found) + len(more),
                "states": states,
                "wrong": wrong,
            }
        )
    )


def replayed(
    decision: Decision,
    codes: dict[str, Any],
    found: list[tuple[int, tuple[str, ...], str, float]],
) -> tuple[int, int]:
    """Make verdicts again from the rows of so many users: how many differ, of how many states."""
    expected: dict[tuple[int, tuple[str, ...]], str] = {}
    states = sorted({users for users, *_ in found})
    for users in states:
        judge = judging(decision, users)
        source = MemorySource([*codes], [column[:users] for column in codes.values()])
        for apis in {apis for number, apis, *_ in found if number == users}:
            told = disclosed_spectra(source.spectrum(apis), decision.policy.k, Audience.OTHERS)
            verdict, _ = decision.verdict(apis)
            if verdict != "block" and users != decision.users:
                verdict = judge.verdict(apis, told.most, told.least)
            expected[users, apis] = verdict
    return sum(expected[users, apis] != verdict for users, apis, verdict, _ in found), len(states)


if __name__ == "__main__":
    main()
