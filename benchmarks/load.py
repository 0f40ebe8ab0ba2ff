"""Bounded load on the service by `wrk`, with readers beside it, against a bare echo.

`python benchmarks/load.py` needs `wrk` (https://github.com/wg/wrk). It sends the same request over
`--connections` kept-alive connections for `--seconds`, first to a bare Starlette application on the
same server library, then to `fpmonitor collect serve`, while `--readers` ask it for an exposure
and, with `--command`, `fpmonitor exposure` asks its database, each again and again. JSON goes to
stdout: requests a second and p99 of both, processor time of a request in the process that takes it,
and their ratios; memory of that process after a fifth of the time and at the end; how many
questions were answered beside. `wrk` ends without its last answers, so that records are told apart
by their users, of whom each request names another: `records` has those that were acknowledged,
stored and sent, which must rise; stored twice, and missing of requests of which a part is stored,
which must be 0.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from fpmonitor.monitor import Monitor
from fpmonitor.store.content import read_content

ECHO = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from fpmonitor.cli.listening import run_application

async def echo(request):
    body = await request.body()
    return JSONResponse({"accepted": len(body)}, status_code=202)

app = Starlette(routes=[Route("/v1/observations", echo, methods=["POST"])])
run_application(app, "127.0.0.1", 0)
"""
SETTINGS = (
    'db = "load.duckdb"\nrecords_per_minute = 1_000_000_000\nmax_spool_bytes = 4_000_000_000\n'
)
# Every request is of another user; what is counted is what was answered with 202.
SCRIPT = """
local threads = {}
function setup(one) one:set("at", #threads); table.insert(threads, one) end
function init() number, taken = 0, 0 end
function request()
  number = number + 1
  local user = at .. "." .. number
  local lines = {}
  for i = 1, RECORDS do
    lines[i] = string.format('{"user": "%s", "api": "Interface.a%d", "value": %d}\\n', user, i, i)
  end
  return wrk.format("POST", "/v1/observations", {["Content-Type"] = "text/plain"},
    table.concat(lines))
end
function response(status) if status == 202 then taken = taken + 1 end end
function done(summary, latency)
  local all, sent = 0, 0
  for _, one in ipairs(threads) do
    all, sent = all + one:get("taken"), sent + one:get("number")
  end
  io.write(string.format("RESULT %d %d %.3f %.3f\\n",
    all, sent, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""


# wrk leaves answers out of its latencies that take longer than it waits, 2 s if nothing is said.
_WAITING = ("--latency", "--timeout", "60s")


class Server:
    """A command that says where it listens; it is there once it answers."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", *command], cwd=folder, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        found = re.search(r"http://[^/]*", self.process.stderr.readline())
        assert found, "the server did not start"
        self.address = found[0]
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        # Who sends while it starts waits a second: 100 senders are a hundredth of 10,000 requests.
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(self.address, timeout=60).close()

    def seconds(self) -> float:
        """Processor time that it has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Memory that it has."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return round(int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000, 1)  # type: ignore[index]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(300)


def load(server: Server, script: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Send requests; acknowledged ones, requests a second, latencies, and processor time of one."""
    before = server.seconds()
    command = ["wrk", f"-c{options.connections}", "-t1", f"-d{options.seconds}s", *_WAITING]
    said = subprocess.run(
        [*command, "-s", str(script), server.address], capture_output=True, text=True, check=True
    ).stdout
    taken, sent, median, p99 = re.search(r"RESULT (\S+) (\S+) (\S+) (\S+)", said).groups()  # type: ignore[union-attr]
    return {
        "acknowledged": int(taken),
        "sent": int(sent),
        "requests_per_second": round(int(taken) / options.seconds, 1),
        "median_milliseconds": float(median),
        "p99_milliseconds": float(p99),
        "processor_microseconds": round((server.seconds() - before) / max(int(taken), 1) * 1e6, 1),
    }


class Asking(threading.Thread):
    """Asks the command line again and again: how often it answered, and how long it took."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.codes, self.longest, self.over = folder, [], 0.0, threading.Event()  # type: ignore[var-annotated]

    def run(self) -> None:
        command = [sys.executable, "-P", "-m", "fpmonitor", "--wait", "30", "exposure"]
        while not self.over.wait(1):
            started = time.monotonic()
            done = subprocess.run(
                [*command, "--apis", "Interface.a1", "--db", "load.duckdb"],
                cwd=self.folder,
                capture_output=True,
                check=False,
            )
            self.codes.append(done.returncode)
            self.longest = max(self.longest, time.monotonic() - started)


class Reader(threading.Thread):
    """Asks the service again and again."""

    def __init__(self, server: Server, over: threading.Event) -> None:
        super().__init__()
        self.server, self.over, self.answered = server, over, 0

    def run(self) -> None:
        while not self.over.wait(0.01):
            with suppress(OSError):  # refused: too many ask, or nothing is stored yet
                address = f"{self.server.address}/v1/exposure?apis=Interface.a1"
                urllib.request.urlopen(address, timeout=60).close()
                self.answered += 1


def records(db: Path, service: dict[str, Any], each: int) -> dict[str, int]:
    """Say what became of the records of the requests, of which each names another user."""
    with Monitor(db) as monitor:
        repeated = sum(batch.duplicates for batch in monitor.batches())
        rows = read_content(monitor.database).rows
    return {
        "acknowledged": service["acknowledged"] * each,
        "stored": rows["observation"],
        "sent": service["sent"] * each,
        "stored_twice": repeated,
        "missing": rows["user"] * each - rows["observation"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--readers", type=int, default=12)
    parser.add_argument("--records", type=int, default=5, help="of a request")
    parser.add_argument("--command", action="store_true", help="ask by the command line, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "load.lua"
        script.write_text(SCRIPT.replace("RECORDS", str(options.records)), encoding="utf-8")
        (folder / "serve.toml").write_text(SETTINGS, encoding="utf-8")
        server = Server(folder, "-c", ECHO)
        echo = load(server, script, options)
        server.stop()
        server = Server(
            folder, "-m", "fpmonitor", "collect", "serve", "--config", "serve.toml", "--port", "0"
        )
        asking = Asking(folder)
        readers = [Reader(server, asking.over) for _ in range(options.readers)]
        beside: list[threading.Thread] = [*readers, asking] if options.command else [*readers]
        for thread in beside:
            thread.start()
        memory: list[float] = []
        early = threading.Timer(options.seconds / 5, lambda: memory.append(server.megabytes()))
        early.start()
        service = load(server, script, options)
        memory.append(server.megabytes())
        asking.over.set()
        for thread in (early, *beside):
            thread.join()
        server.stop()
        result = {
            "echo": echo,
            "service": service,
            "speed": round(service["requests_per_second"] / echo["requests_per_second"], 2),
            "p99": round(service["p99_milliseconds"] / echo["p99_milliseconds"], 1),
            "processor": round(
                service["processor_microseconds"] / echo["processor_microseconds"], 2
            ),
            "megabytes": memory,
            "read_beside": sum(reader.answered for reader in readers),
            "asked_beside": {
                "answered": asking.codes.count(0) + asking.codes.count(3),
                "asked": len(asking.codes),
                "longest_seconds": round(asking.longest, 1),
            },
            "records": records(folder / "load.duckdb", service, options.records),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
