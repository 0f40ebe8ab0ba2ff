"""One target of `fuzz.py` in a process of its own: what is fuzzed, how inputs are changed.

Each target takes bytes and raises our own errors only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import tempfile
import time
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import atheris
import duckdb
from fuzz import COLLECTORS, DEMAND, FILES, MAX_BYTES, TARGETS, seeds_of

with atheris.instrument_imports(include=["fpmonitor"], enable_loader_override=False):
    from fpmonitor.cli.ldp import _matrix
    from fpmonitor.cli.questions import read_weights
    from fpmonitor.cli.statistics import _read_sets
    from fpmonitor.collectors.choosing import choose_collector
    from fpmonitor.collectors.records import RecordError
    from fpmonitor.decide.files import read_decision
    from fpmonitor.errors import FpmonitorError, InputError
    from fpmonitor.export.exporter import ExportOptions
    from fpmonitor.export.firefox_targets import target_table
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.finding import log_files
    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.plugins import COLLECTORS as COLLECTOR_GROUP
    from fpmonitor.plugins import DEMAND as DEMAND_GROUP
    from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
    from fpmonitor.release.histogram import Manifest
    from fpmonitor.render import decisions
    from fpmonitor.safe_files import read_json, typed
    from fpmonitor.serve.config import read_config
    from fpmonitor.serve.frames import content_of, frame_of
    from fpmonitor.serve.keys import read_keys
    from fpmonitor.serve.records import (
        observations_of,
        reports_of,
        split_records,
    )
    from fpmonitor.serve.requests import RefusedRequestError
    from fpmonitor.store.database import Database
    from fpmonitor.store.ingest import ingest_log
    from fpmonitor.store.staging import canonical_json
    from fpmonitor.store.transforms import Transform, read_transforms
    from fpmonitor.vocabulary import api_of, api_of_instrumented, resolve, split_names

    for group in (COLLECTOR_GROUP, DEMAND_GROUP, EXPORTERS):
        for plugin in plugin_names(group):
            load_plugin(group, plugin)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fpmonitor.decide.decision import Decision

ANSWERS = (FpmonitorError, RecordError, RefusedRequestError)
SAVE_EVERY = 1.0
UNITS = (ColumnMap(), ColumnMap({"user": "row"}), ColumnMap(visitor=True))
COMMANDS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
HOSTILE_NAMES = (
    *("", ".", "a.b", "/", "~", "\ud800", "\0", "\n", "=", "'", '"', "$hash"),
    "x" * 300,
)
HOSTILE_VALUES = (
    *(None, True, False, 0, -1, 2**31, 2**63, 2**64, 10**30, 10**400),
    *(0.5, -0.0, 1e308, float("inf"), float("nan")),
    *("", "0", "\ud800", "\0", "\x1b[31m", "a\nb", "=1+1", "é" * 300),
    *("2026-01-01T00:00:00Z", "99999-01-01", "https://[::1"),
    *([], {}, [[]], [{}], {"": {}}, [None], ["a"], {"value": 1, "duration": 0}),
)


# What is fuzzed


def make_target(name: str, scratch: Path) -> Callable[[bytes], None]:
    """Make the function that takes the bytes."""
    if name in COLLECTORS:
        return partial(collect, name, scratch / "log")
    if name in DEMAND:
        return partial(collect_demand, name, scratch / "log")
    if name.startswith("read-"):
        return partial(read_product, name.removeprefix("read-"))
    if name in FILES:
        return partial(read_file, name, scratch / "file")
    if name.startswith("ingest-"):
        database = Database(scratch / "fuzz.duckdb", create=True)
        return partial(ingest_any, database, scratch / "log")
    return {"http-records": http_records, "http-reports": http_reports, "values": values}[name]


def unit_said(data: bytes) -> ColumnMap:
    """Say who a row is, by the input: logs of requests are refused until somebody does."""
    return UNITS[crc32(data) % len(UNITS)]


def collect(name: str, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    log, column_map = LogFile(path, "log"), unit_said(data)
    collector = load_plugin(COLLECTOR_GROUP, name)()
    collector.recognises(log, column_map)
    try:
        collector.scan(log, column_map)
        collector.locate(log, {0: "reason"}, [])
    except duckdb.Error as error:  # as the ingest does
        raise InputError("cannot be read") from error


def collect_demand(name: str, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    log = LogFile(path, "log")
    collector = load_plugin(DEMAND_GROUP, name)()
    collector.recognises(log)
    for call in collector.calls(log):
        "".join([call.site, call.script, call.api]).encode()


def read_product(name: str, data: bytes) -> None:
    exporter = load_plugin(EXPORTERS, name)
    text = data.decode("utf-8", "replace")
    exporter.read(text, "example.com")
    exporter.validate(text)


READERS: dict[str, Callable[[Path], object]] = {
    "column-map": ColumnMap.from_toml,
    "decision": lambda path: use_decision(read_decision(path)),
    "exports": lambda path: export_decision(read_decision(path)),
    "keys": read_keys,
    "manifest": lambda path: typed(read_json(path, "manifest"), Manifest, "a manifest"),
    "matrix": lambda path: _matrix(path, None, None),
    "service": read_config,
    "sets": _read_sets,
    "targets": target_table,
    "transforms": lambda path: [use("1.2 (x, y)") for use in read_transforms(path).values()],
    "weights": read_weights,
}


def read_file(name: str, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    READERS[name](path)


def use_decision(decision: Decision) -> None:
    decision.verdict(decision.policy.candidates)
    shown = decisions.decision(decision)
    shown.text("json")
    shown.text("csv")
    assert not COMMANDS.search(shown.text("table", to_file=True)), "a name commands the terminal"


def export_decision(decision: Decision) -> None:
    for name in plugin_names(EXPORTERS):
        load_plugin(EXPORTERS, name).export(decision, ExportOptions())


def ingest_any(database: Database, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with log_files([str(path)]) as [log]:
        column_map = unit_said(data)
        report = ingest_log(database, log, choose_collector(log, column_map), column_map)
    assert report.read == report.stored + report.duplicates + report.rejected, report


def http_records(data: bytes) -> None:
    records = split_records(data, most=100)
    headers = {"http:user-agent": "x"}
    taken = observations_of(records, time="2026-01-01", source="s", headers=headers)
    for content in taken.contents:
        assert content_of(frame_of(content)) == content


def http_reports(data: bytes) -> None:
    reports_of(split_records(data, most=100), time="now", source="s")


def values(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    canonical_json(text)
    split_names(text)
    with suppress(FpmonitorError):
        resolve(text)
    api_of("fingerprintjs", text)
    api_of_instrumented("openwpm", text)
    for step in (Transform(brands=True), Transform(major=True, lower=True, sort=True, round=10)):
        step(text)


# How inputs are changed


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """Change a member of JSON, or of a line of it, mostly: broken JSON tests the parser only."""
    rng = random.Random(seed)
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    for text in (data, lines[number]) if rng.random() < 0.8 else ():
        try:
            content = {"": json.loads(text)}
            for _ in range(rng.randint(1, 3)):
                change_member(content, rng)
            made = json.dumps(content.get("")).encode()
        except (ValueError, RecursionError):
            continue
        if text is not data:
            made = b"\n".join([*lines[:number], made, *lines[number + 1 :]])
        return made[:most]
    changed: bytes = atheris.Mutate(data, most)
    return changed


def change_member(content: Any, rng: random.Random) -> None:
    """Replace, rename, copy or drop something in nested dicts and lists."""
    places = [(outer, key) for outer in nested(content) for key in keys_of(outer)]
    if not places:
        return
    outer, key = rng.choice(places)
    match rng.randrange(4 if outer is not content else 1):
        case 0:
            outer[key] = rng.choice(HOSTILE_VALUES)
        case 1 if isinstance(outer, dict):
            outer[rng.choice(HOSTILE_NAMES) + str(key)[: rng.randrange(9)]] = outer[key]
        case 2:
            other, place = rng.choice(places)
            outer[key] = json.loads(json.dumps(other[place]))
        case _:
            del outer[key]


def nested(content: Any) -> Iterator[Any]:
    if isinstance(content, dict | list):
        yield content
        for inner in list(content.values()) if isinstance(content, dict) else content:
            yield from nested(inner)


def keys_of(content: Any) -> list[Any]:
    return list(content) if isinstance(content, dict) else list(range(len(content)))


# One run


class Run:
    """Executions of one target: what they came to, and the inputs that crashed it."""

    def __init__(self, name: str, findings: Path, summary: Path, scratch: Path) -> None:
        self.name, self.findings, self.summary = name, findings, summary
        self.target = make_target(name, scratch)
        self.counts = {"executions": 0, "refused": 0, "crashes": 0}
        self.started = self.saved = time.perf_counter()

    def one(self, data: bytes) -> None:
        self.counts["executions"] += 1
        try:
            self.target(data)
        except ANSWERS:
            self.counts["refused"] += 1
        except Exception as error:  # noqa: BLE001 -- this is what is looked for
            self.counts["crashes"] += self.keep(data, error)
        if time.perf_counter() - self.saved > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        self.saved = time.perf_counter()
        seconds = round(self.saved - self.started, 1)
        self.summary.write_text(json.dumps({**self.counts, "seconds": seconds}), encoding="utf-8")

    def keep(self, data: bytes, error: Exception) -> bool:
        """Write an input that crashes at a place where none did before."""
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if re.search("fpmonitor|collectors", frame.filename)]
        where = (ours or frames)[-1]
        place = f"{self.name}:{type(error).__name__}:{where.filename}:{where.lineno}"
        found = self.findings / f"{self.name}-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
        if found.exists():
            return False
        found.write_bytes(data)
        text = "".join(traceback.format_exception(error))
        found.with_suffix(".txt").write_text(text, encoding="utf-8", errors="backslashreplace")
        return True


def write_words(scratch: Path) -> Path:
    """Words of the seeds, which mutations put together."""
    found = {'"', "{", "}", "[", "]", ":", ",", "null", "true", "1e999", "-0.0", "\\ud800", "NaN"}
    for seed in {seed for name in TARGETS for seed in seeds_of(name)}:
        found.update(re.findall(r"[A-Za-z][\w.:/-]{1,29}", seed.decode("utf-8", "replace"))[:200])
    path = scratch / "words"
    lines = ('"' + "".join(f"\\x{byte:02x}" for byte in word.encode()) + '"\n' for word in found)
    path.write_text("".join(sorted(lines)), encoding="ascii")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--findings", type=Path, required=True)
    parser.add_argument("--summary", type=Path, required=True)
    asked = parser.parse_args()
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory) as folder:
        run = Run(asked.target, asked.findings, asked.summary, Path(folder))
        run.save()
        options = [
            "fuzz",
            f"-max_total_time={asked.seconds}",
            f"-max_len={MAX_BYTES}",
            "-timeout=25",
            "-rss_limit_mb=3000",
            f"-artifact_prefix={asked.findings}/{asked.target}-",
            f"-dict={write_words(Path(folder))}",
            "-verbosity=0",
            str(asked.corpus),
        ]
        atheris.Setup(options, run.one, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
