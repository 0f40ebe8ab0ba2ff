"""Bounded load on the service by `wrk`, with the command line beside it, against a bare echo.

`python benchmarks/load.py` needs `wrk` (https://github.com/wg/wrk). It sends the same request over
`--connections` kept-alive connections for `--seconds`, first to a bare Starlette application on the
same server library, then to `fpmonitor collect serve`, while `fpmonitor exposure` asks its database
again and again. JSON goes to stdout: requests a second and p99 of both and their
ratios, how many questions were answered beside, and records acknowledged by the service and stored,
which must be the same number; `wrk` does not wait for its last answers.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from fpmonitor.monitor import Monitor

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
  local all = 0
  for _, one in ipairs(threads) do all = all + one:get("taken") end
  io.write(string.format("RESULT %d %d %.3f %.3f\\n",
    all, summary.requests, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""


class Server:
    """A command that says where it listens."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", *command], cwd=folder, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        found = re.search(r"http://[^/]*", self.process.stderr.readline())
        assert found, "the server did not start"
        self.address = found[0]
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(300)


def load(address: str, script: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Send requests; acknowledged requests, requests a second, and latencies."""
    command = ["wrk", f"-c{options.connections}", "-t1", f"-d{options.seconds}s", "--latency"]
    said = subprocess.run(
        [*command, "-s", str(script), address], capture_output=True, text=True, check=True
    ).stdout
    taken, _, median, p99 = re.search(r"RESULT (\S+) (\S+) (\S+) (\S+)", said).groups()  # type: ignore[union-attr]
    return {
        "acknowledged": int(taken),
        "requests_per_second": round(int(taken) / options.seconds, 1),
        "median_milliseconds": float(median),
        "p99_milliseconds": float(p99),
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


def accepted(address: str) -> int:
    with urllib.request.urlopen(f"{address}/metrics") as answer:
        text = answer.read().decode()
    return int(float(re.search(r"fpmonitor_accepted_records_total{.*} (\S+)", text)[1]))  # type: ignore[index]


def stored(db: Path) -> int:
    with Monitor(db) as monitor:
        return sum(batch.stored for batch in monitor.batches())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--records", type=int, default=5, help="of a request")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "load.lua"
        script.write_text(SCRIPT.replace("RECORDS", str(options.records)), encoding="utf-8")
        (folder / "serve.toml").write_text(SETTINGS, encoding="utf-8")
        server = Server(folder, "-c", ECHO)
        echo = load(server.address, script, options)
        server.stop()
        server = Server(folder, "-m", "fpmonitor", "serve", "--config", "serve.toml", "--port", "0")
        asking = Asking(folder)
        asking.start()
        service = load(server.address, script, options)
        asking.over.set()
        asking.join()
        acknowledged = accepted(server.address)
        server.stop()
        result = {
            "echo": echo,
            "service": service,
            "speed": round(service["requests_per_second"] / echo["requests_per_second"], 2),
            "p99": round(service["p99_milliseconds"] / echo["p99_milliseconds"], 1),
            "asked_beside": {
                "answered": asking.codes.count(0) + asking.codes.count(3),
                "asked": len(asking.codes),
                "longest_seconds": round(asking.longest, 1),
            },
            "records_acknowledged": acknowledged,
            "records_stored": stored(folder / "load.duckdb"),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
