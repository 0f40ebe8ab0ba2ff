"""Coverage-guided fuzzing of everything that reads files of others, with atheris.

`pip install '.[bench]' && python benchmarks/fuzz.py --seconds 60` fuzzes each target so long, in a
process of its own, from the fixtures as seeds; `--targets har,decision` takes some of them. Only
fpmonitor is instrumented. Our own errors are answers; anything else is a crash: the input and the
traceback go to the folder `--findings`, once for each place in the code, and the target goes on.
Inputs that brought something new are kept in `--corpus` for the next run. JSON goes to stdout:
executions, answers that are errors, crashes, processes that died, and seconds per target.

`--long-line 10` instead sends one line of so many GB through a pipe into `fpmonitor ingest`, and
tells the exit code, the peak memory and the seconds.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"
COLLECTORS = (
    *("accesslog", "amiunique", "analytics", "bowser", "clientjs", "creepjs", "fingerprintjs"),
    *("fingerprint-generator", "fingerprintjs2", "glean", "glean-json", "har", "identifiability"),
    *("thumbmarkjs", "uaparser"),
)
DEMAND = ("blacklight", "calls", "openwpm", "reporting", "trackerradar")
PRODUCTS = (
    *("adguard", "brave", "chromium-policies", "duckduckgo", "firefox-policies"),
    *("firefox-userjs", "jshelter", "permissions-policy", "ublock"),
)
FILES = (
    *("column-map", "decision", "exports", "keys", "manifest", "matrix", "service", "sets"),
    *("targets", "transforms", "weights"),
)
OTHERS = ("ingest-csv", "ingest-json", "http-records", "http-reports", "values")
TARGETS = (*COLLECTORS, *DEMAND, *(f"read-{name}" for name in PRODUCTS), *FILES, *OTHERS)
MAX_BYTES = 100_000
Counts = dict[str, float]


def seeds_of(name: str) -> Iterator[bytes]:
    """Inputs that the target takes."""
    seeds = json.loads((HERE / "fuzz_seeds.json").read_text(encoding="utf-8"))
    yield from (seed.encode("latin-1") for seed in seeds.get(name, ()))
    if name in COLLECTORS:
        library = name.split("-", maxsplit=1)[0]
        yield from (path.read_bytes() for path in (FIXTURES / "records").glob(f"{library}-*.*"))
    if name == "ingest-json":
        with gzip.open(FIXTURES / "logs" / "browsers-1.jsonl.gz") as file:
            yield b"".join(file.readlines(4000))


def fuzz(name: str, seconds: int, corpus: Path, findings: Path) -> Counts:
    """Fuzz a target; a process that dies of an input starts again until the time is over."""
    own = corpus / name
    for folder in (own, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds_of(name):
        (own / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed[:MAX_BYTES])
    total: Counts = dict.fromkeys(("executions", "refused", "crashes", "died", "seconds"), 0)
    while (left := int(seconds - total["seconds"])) >= 1:
        with tempfile.TemporaryDirectory() as folder:
            summary = Path(folder) / "summary.json"
            command = [sys.executable, str(HERE / "fuzz_targets.py"), name]
            command += ["--seconds", str(left), "--corpus", str(own)]
            command += ["--findings", str(findings), "--summary", str(summary)]
            started = time.perf_counter()
            done = subprocess.run(command, capture_output=True, check=False)
            (findings / f"{name}.log").write_bytes(done.stderr[-20_000:])
            with suppress(OSError):
                for key, count in json.loads(summary.read_text(encoding="utf-8")).items():
                    total[key] += count if key != "seconds" else 0
            total["died"] += done.returncode != 0
            total["seconds"] += max(1.0, round(time.perf_counter() - started, 1))
    return total


def send_long_line(gigabytes: int) -> dict[str, object]:
    """One line without end, through a pipe."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["fpmonitor", "ingest", "-", "--db", f"{folder}/x.duckdb", "--format", "json"]
        started = time.perf_counter()
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as run:
            assert run.stdin is not None
            with suppress(BrokenPipeError):
                run.stdin.write(b'{"user": "u", "a": 1}\n{"user": "v", "a": "')
                for _ in range(gigabytes * 1000):
                    run.stdin.write(b"x" * 1_000_000)
                run.stdin.write(b'"}\n{"user": "w", "a": 2}\n')
            out, error = run.communicate()
    return {
        "gigabytes": gigabytes,
        "exit_code": run.returncode,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        "seconds": round(time.perf_counter() - started, 1),
        "answer": json.loads(out) if out else error.decode()[-200:],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--corpus", type=Path, default=Path("fuzz/corpus"))
    parser.add_argument("--findings", type=Path, default=Path("fuzz/findings"))
    parser.add_argument("--long-line", type=int, metavar="GB")
    options = parser.parse_args()
    if options.long_line:
        print(json.dumps(send_long_line(options.long_line), indent=2))
        return
    targets: dict[str, Counts] = {}
    for name in options.targets.split(","):
        targets[name] = fuzz(name, options.seconds, options.corpus, options.findings)
        print(f"{name}: {targets[name]}", file=sys.stderr)
    total: Counts = {}
    for counts in targets.values():
        total = {key: round(total.get(key, 0) + count, 1) for key, count in counts.items()}
    print(json.dumps({"targets": targets, "total": total}, indent=2))


if __name__ == "__main__":
    main()
