"""Load on the collector, against a bare echo of the same framework, and kill -9 in between.

`python benchmarks/serve.py` starts a bare Starlette application that reads the body and answers,
and the service, one after the other, each in a process of its own, and sends beacons over
`--connections` kept-alive connections from this process. Then it kills the service with SIGKILL in
`--kills` rounds of load and counts what was acknowledged and what is stored. JSON goes to stdout:
requests and records a second, latencies, `speed` as the ratio of requests a second to the echo in
the same run, and the losses and duplicates.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fpmonitor.monitor import Monitor

TELL_PORT = """
import threading, time
def tell_port():
    while not server.started:
        time.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
threading.Thread(target=tell_port, daemon=True).start()
server.run()
"""
ECHO = (
    """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def echo(request):
    body = await request.body()
    return JSONResponse({"accepted": len(body)}, status_code=202)

app = Starlette(routes=[Route("/v1/observations", echo, methods=["POST"])])
server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", access_log=False))
"""
    + TELL_PORT
)
SERVICE = (
    """
import sys, uvicorn
from pathlib import Path
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig

flush = float(sys.argv[2])
config = ServeConfig(db=Path(sys.argv[1]), flush_seconds=flush, records_per_minute=10**9)
app = service_app(config)
server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", access_log=False))
"""
    + TELL_PORT
)


def start(script: str, *arguments: object) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def beacon(number: int, records: int) -> bytes:
    """A request of one user with `records` observations, of which one is its number."""
    lines = [
        json.dumps({"user": f"u{number}", "api": f"Interface.a{i}", "status": "value", "value": i})
        for i in range(records - 1)
    ]
    lines.append(json.dumps({"user": f"u{number}", "api": "number", "value": f"n{number}"}))
    body = ("\n".join(lines) + "\n").encode()
    head = (
        "POST /v1/observations HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Load:
    """Requests over several connections, one after the other on each."""

    def __init__(self, port: int, records: int, first: int) -> None:
        self.port, self.records, self.next = port, records, first
        self.latencies: list[float] = []
        self.acknowledged: list[int] = []

    async def run(self, connections: int, seconds: float) -> None:
        end = time.perf_counter() + seconds
        await asyncio.gather(*(self._connection(end) for _ in range(connections)))

    async def _connection(self, end: float) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return
        try:
            while time.perf_counter() < end:
                number, self.next = self.next, self.next + 1
                request = beacon(number, self.records)
                started = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                )
                await reader.readexactly(length)
                self.latencies.append(time.perf_counter() - started)
                if head.startswith(b"HTTP/1.1 202"):
                    self.acknowledged.append(number)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


def measure(script: str, arguments: list[Any], options: argparse.Namespace) -> dict[str, float]:
    process, port = start(script, *arguments)
    try:
        load = Load(port, options.records, 0)
        asyncio.run(load.run(options.connections, options.seconds))
    finally:
        process.terminate()
        process.communicate()
    rate = len(load.acknowledged) / options.seconds
    ordered = sorted(load.latencies)
    return {
        "requests_per_second": round(rate, 1),
        "records_per_second": round(rate * options.records),
        "median_milliseconds": round(1000 * statistics.median(ordered), 2),
        "p99_milliseconds": round(1000 * ordered[int(0.99 * len(ordered))], 2),
    }


def kill_rounds(db: Path, options: argparse.Namespace) -> dict[str, int]:
    rng = random.Random(1)
    acknowledged: set[str] = set()
    first = 0
    for _ in range(options.kills):
        process, port = start(SERVICE, db, 0.3)
        load = Load(port, options.records, first)

        async def killed(process: Any = process, load: Load = load) -> None:
            running = asyncio.create_task(load.run(options.connections, 30))
            await asyncio.sleep(rng.uniform(0.2, 2.0))
            process.send_signal(signal.SIGKILL)
            await running

        asyncio.run(killed())
        process.communicate()
        acknowledged |= {f"n{number}" for number in load.acknowledged}
        first = load.next
    process, _ = start(SERVICE, db, 0.3)
    process.terminate()
    process.communicate()
    with Monitor(db) as monitor:
        values = [row[4] for row in monitor.observations() if row[1] == "number"]
    return {
        "kills": options.kills,
        "sent": first,
        "acknowledged": len(acknowledged),
        "stored": len(values),
        "lost": len(acknowledged - set(values)),
        "doubled": len(values) - len(set(values)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--records", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        echo = measure(ECHO, [], options)
        ours = measure(SERVICE, [folder / "load.duckdb", 5.0], options)
        result = {
            "connections": options.connections,
            "records_per_request": options.records,
            "echo": echo,
            "service": ours,
            "speed": round(ours["requests_per_second"] / echo["requests_per_second"], 2),
            "kill_9": kill_rounds(folder / "killed.duckdb", options),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
