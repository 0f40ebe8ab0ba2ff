"""Hostile files: any bytes give an answer or our own error in one line, in bounded memory."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import chdir, closing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.cli.ldp import _matrix
from fpmonitor.cli.questions import read_weights
from fpmonitor.cli.statistics import _read_sets
from fpmonitor.collectors import csv_text
from fpmonitor.collectors.accesslog import AccesslogCollector
from fpmonitor.collectors.log_forms import MOST_FIELDS
from fpmonitor.collectors.text_logs import forms_of, read_text_log
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError
from fpmonitor.export.csv import csv_rows
from fpmonitor.export.enforce import ControlExporter
from fpmonitor.export.firefox_targets import installed_targets, target_table
from fpmonitor.logs import log_file as log_file_module
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import log_files
from fpmonitor.logs.log_file import zstd
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
from fpmonitor.private.keys import read_public
from fpmonitor.private.keys import read_secret_keys as read_key_ring
from fpmonitor.private.study import CollectionRequest, Study
from fpmonitor.private.transport import read_password
from fpmonitor.private.wire import decode_batch, decode_report, decode_uploads
from fpmonitor.release.histogram import manifest_path, read_release
from fpmonitor.render import decisions
from fpmonitor.safe_files import read_text
from fpmonitor.secret_files import read_secret_file
from fpmonitor.serve.config import read_config
from fpmonitor.serve.frames import content_of, frame_of
from fpmonitor.serve.keys import read_keys
from fpmonitor.serve.records import (
    observations_of,
    reports_of,
    split_records,
    unpacked,
)
from fpmonitor.serve.requests import RefusedRequestError
from fpmonitor.store import ingest as ingest_module
from fpmonitor.store.database import Database
from fpmonitor.store.transfer import read_export
from fpmonitor.store.transforms import read_transforms
from fpmonitor.store.windows import list_spans
from tests.decided import decided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fpmonitor.decide.decision import Decision
    from fpmonitor.store.batches import BatchReport

# Small files: decisions, settings, maps, weights, tables

READERS: dict[str, Callable[[Path], object]] = {
    "column map": ColumnMap.from_toml,
    "decision": read_decision,
    "weights": read_weights,
    "transforms": read_transforms,
    "sets": _read_sets,
    "matrix": lambda path: _matrix(path, None, None),
    "Firefox targets": target_table,
    "Firefox": installed_targets,
    "service": read_config,
    "keys": read_keys,
    "release": read_release,
    "export": lambda path: read_export(folder_of(path)),
    "study": Study.read,
    "ask": CollectionRequest.read,
    "private keys": read_key_ring,
    "public key": lambda path: read_public(path, "curator"),
    "password": read_password,
    "uploads": lambda path: list(decode_uploads(path.read_bytes())),
    "batch": lambda path: decode_batch(path.read_bytes()),
    "report": lambda path: decode_report(path.read_bytes()),
    **{
        f"{name} list": lambda path, name=name: read_list(name, path)
        for name in plugin_names(EXPORTERS)
    },
}


BOUNDED = [*list(READERS)[: list(READERS).index("export")], "ublock list"]


def folder_of(manifest: Path) -> Path:
    """Return a folder with a file as its manifest."""
    folder = manifest.with_name("folder")
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").unlink(missing_ok=True)
    (folder / "manifest.json").symlink_to(manifest.resolve())
    return folder


def read_list(name: str, path: Path) -> None:
    exporter = load_plugin(EXPORTERS, name)
    text = read_text(path, "list", most=1_000_000)
    exporter.validate(text)
    if isinstance(exporter, ControlExporter):
        exporter.read(text, "example.com")


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def read_or_refuse(read: Callable[[Path], object], path: Path) -> None:
    with suppress(InputError):
        read(path)


@pytest.mark.parametrize("kind", READERS)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_read_or_refused(scratch: Path, kind: str, content: bytes) -> None:
    path = scratch / "any"
    path.write_bytes(content)
    read_or_refuse(READERS[kind], path)


HOSTILE_TEXTS = {
    "deep JSON": b"[" * 100_000,
    "deep JSON object": b'{"a":' * 100_000,
    "deep TOML": b"a = " + b"[" * 5_000,
    "deep TOML keys": b"a" + b".a" * 5_000 + b" = 1",
    "huge number in JSON": b"9" * 5_000,
    "huge number in TOML": b"a = " + b"9" * 5_000,
    "not a number": b"NaN",
    "half a character": b'{"a": "\\ud800"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "NUL": b"\0" * 100,
    "a list where a table was meant": b"columns = []\nignore = {}\nnull = []",
    "a table in a list": b"null = [{}]\n",
    "not finite": b'a = nan\n"b" = inf',
}


@pytest.mark.parametrize("kind", READERS)
def test_hostile_texts_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "hostile"
    for content in HOSTILE_TEXTS.values():
        path.write_bytes(content)
        path.chmod(0o600)
        read_or_refuse(READERS[kind], path)


def example_decision() -> Decision:
    return decided(
        ("a", "b", "c"),
        allow=[("a", "b")],
        block=[("c",)],
        recommended=("a", "b"),
        users_needed=(),
        utility=2.0,
        utility_bound=2.0,
        engine="memory",
    )


def places_in(content: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = content.items() if isinstance(content, dict) else enumerate(content)
    return [place] + [
        below
        for key, value in inner
        for below in (
            places_in(value, (*place, key)) if isinstance(value, dict | list) else [(*place, key)]
        )
    ]


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_a_decision_with_any_member_replaced_is_used_or_refused(
    scratch: Path, data: st.DataObject
) -> None:
    content = {"": json.loads(json.dumps(example_decision().to_json()))}
    place = data.draw(st.sampled_from(places_in(content)[1:]))
    outer: Any = content
    for key in place[:-1]:
        outer = outer[key]
    outer[place[-1]] = data.draw(any_json)
    path = scratch / "decision.json"
    path.write_text(json.dumps(content[""]), encoding="utf-8")
    try:
        decision = read_decision(path)
    except InputError:
        return
    json.dumps(decision.to_json(), allow_nan=False)
    decision.verdict(decision.policy.candidates)


def test_a_decision_names_candidates_only(tmp_path: Path) -> None:
    content = example_decision().to_json() | {"allow": [["a", "z"]]}
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match="'z' is not a candidate"):
        read_decision(path)


@pytest.mark.parametrize("kind", BOUNDED)
def test_an_endless_device_is_refused(kind: str, scratch: Path) -> None:
    endless = scratch / "endless"
    if not endless.is_symlink():
        endless.symlink_to("/dev/zero")
        manifest_path(endless).symlink_to("/dev/zero")
    read_or_refuse(READERS[kind], endless)


# Logs


def ingested(
    path: Path, *, collector: str | None = None, column_map: ColumnMap | None = None
) -> BatchReport:
    """Report of an ingest into a new database."""
    database = path.parent / "store" / "x.duckdb"
    database.parent.mkdir(exist_ok=True)
    database.unlink(missing_ok=True)
    with Monitor(database, create=True) as monitor:
        [report] = monitor.ingest([str(path)], collector=collector, column_map=column_map)
    assert report.read == report.stored + report.duplicates + report.rejected
    return report


def outcome(report: BatchReport) -> tuple[int, int]:
    return report.stored, report.rejected


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitor]:
    with Monitor(tmp_path_factory.mktemp("any") / "any.duckdb", create=True) as monitor:
        yield monitor


BEGINNINGS = (
    b"",
    b'{"user": "u", "a": 1}\n',
    b'{"user": "u", "api": "a", "value": ',
    b"user,a,b\nu,1,2\n",
    b"user,api,value\nu,",
    b'{"user": "u", "components": {"fonts": {"duration": 1, "value": ',
    b'{"log": {"entries": [',
    b"\x1f\x8b\x08\x00",
    b"\x28\xb5\x2f\xfd",
    b"PAR1",
    b'127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "',
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(beginning=st.sampled_from(BEGINNINGS), rest=st.binary(max_size=120))
def test_any_bytes_are_a_log_or_refused(
    scratch: Path, store: Monitor, beginning: bytes, rest: bytes
) -> None:
    path = scratch / "any.log"
    path.write_bytes(beginning + rest)
    with suppress(InputError):
        [report] = store.ingest([str(path)])
        assert report.read == report.stored + report.duplicates + report.rejected


RECORD = b'{"user": "u", "a": 1}\n'
HOSTILE_LINES = {
    "deep nesting": b'{"user": "v", "a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "deep members": b'{"user": "v", "a": ' + b'{"b":' * 50_000 + b"1" + b"}" * 50_001,
    "NaN": b'{"user": "v", "a": NaN}',
    "not UTF-8": b'{"user": "v", "a": "\xff\xfe"}',
    "NUL": b'{"user": "v", "a": "\0"}',
    "cut": b'{"user": "v", "a": "',
    "no object": b"[1, 2]",
}


@pytest.mark.parametrize("line", HOSTILE_LINES.values(), ids=list(HOSTILE_LINES))
def test_a_hostile_line_is_rejected_and_its_neighbours_are_stored(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(RECORD * 20_000 + line + b"\n" + b'{"user": "w", "a": 2}\n')
    report = ingested(path)
    assert report.users >= 2
    assert report.stored + report.rejected >= 3


def test_huge_numbers_and_repeated_members_are_stored_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"user": "u", "a": ' + b"9" * 400 + b"}\n"
        b'{"user": "v", "a": 1e999}\n'
        b'{"user": "w", "a": 1, "a": 2}\n'
    )
    assert outcome(ingested(path)) == (3, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"user": "u", "a": 1}\n'.encode("utf-16")[:-1], "cannot be read as utf-16"),
        (b"PK\x03\x04" + b"\0" * 60, "a ZIP archive"),
        (b"\x7fELF" + b"\0" * 60, "binary data"),
        (gzip.compress(gzip.compress(RECORD, mtime=0), mtime=0), "packed twice"),
    ],
)
def test_other_encodings_and_archives_are_named(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        ingested(path)


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    for name, content in (("a.jsonl", RECORD), ("a.csv", b"user,a\nu,1\n")):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + content)
        assert outcome(ingested(path)) == (1, 0)


@pytest.mark.parametrize("pack", [gzip.open, zstd.open])
def test_a_bomb_is_refused_before_it_unpacks(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "bomb.jsonl"
    with pack(path, "wb") as file:
        for _ in range(100):
            file.write(RECORD * 40_000)
    assert path.stat().st_size < 600_000
    with pytest.raises(InputError, match="unpacks to more than 300 times its size"):
        ingested(path)


def test_a_bomb_is_refused_before_a_copy_of_it_unpacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays, lines below remarks and wrapped lines are copied, and copies are not packed."""
    monkeypatch.setattr(log_file_module, "_FREE_EXPANSION_BYTES", 1_000)
    row = RECORD.strip()
    for content in (
        b"[" + b",".join([row] * 40_000) + b"]",
        b"# a report\n# of August\nuser,a\n" + b"u,1\n" * 200_000,
        b"\xef\xbb\xbf" + RECORD * 40_000,
        b'{"data": {"user": "u", "a": 1}}\n' * 40_000,
    ):
        path = tmp_path / "bomb.gz"
        path.write_bytes(gzip.compress(content))
        with pytest.raises(InputError, match="unpacks to more than 300 times its size"):
            ingested(path)


def test_visits_of_a_line_do_not_repeat_what_it_says_without_end(tmp_path: Path) -> None:
    """All that it says beside them is part of each: 16 MB could become terabytes on disk."""
    path = tmp_path / "visits.jsonl"
    visits = [{"userAgent": "a", "screenWidth": 1}, *[{}] * 1_000]
    path.write_text(json.dumps({"user": "u", "more": "x" * 40_000, "visits": visits}) + "\n")
    report = ingested(path)
    assert report.read < 400
    assert report.rejected == 1


AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0"
CUT = {
    "below remarks": "# a report\n# of August\nuser,a\n" + "u%,%\n" * 30_000,
    "an array": "[" + '{"user": "u%", "a": "%"},' * 9_000 + '{"user": "u", "a": "b"}]',
    "within a member": '{"log": "192.0.2.% - % [01/Mar/2026:10:00:00 +0000] '
    f'\\"GET / HTTP/1.1\\" 200 9 \\"-\\" \\"{AGENT}\\""}}\n' * 4_000,
    "pairs": f'time=2026-03-01T10:00:00Z user=u% status=% method=GET agent="{AGENT}"\n' * 6_000,
}


@pytest.mark.each
@pytest.mark.parametrize("form", CUT)
def test_a_packed_log_that_breaks_off_is_refused(tmp_path: Path, form: str) -> None:
    numbers = random.Random(0)
    text = re.sub("%", lambda _: str(numbers.randrange(10**9)), CUT[form])
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(text.encode())[:-3_000])
    with pytest.raises(InputError, match=r"cannot be read \(Compressed file ended"):
        ingested(path, column_map=ColumnMap(visitor=form == "within a member"))


@pytest.mark.long
def test_a_small_parquet_file_of_many_equal_rows_is_refused_unless_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.parquet"
    few = pl.select(pl.repeat(1, 20_000_000, dtype=pl.Int8).alias("user"))  # of a table of two
    few.with_columns(a=pl.col("user")).write_parquet(path, row_group_size=2 * 10**7)
    assert path.stat().st_size < 79_000
    with pytest.raises(InputError, match="more than 300 cells for each of its bytes"):
        ingested(path)
    rows = pl.select(pl.repeat("u", 9_000_000).alias("user"))
    names = ["A.a", "A.b", "A.c", "A.d", "A.e", "A.f", "A.g"]
    rows.with_columns(**dict.fromkeys(names, "user")).write_parquet(path, row_group_size=10**6)
    assert path.stat().st_size < 119_000
    with pytest.raises(InputError, match="more than 300 cells for each of its bytes") as refused:
        ingested(path)
    assert "FPMONITOR_MAX_EXPANSION" in refused.value.hint
    monkeypatch.setattr("fpmonitor.logs.log_file._FREE_CELLS", 100)
    rows.head(1000).with_columns(**{"A.a": "user"}).write_parquet(path)
    monkeypatch.setenv("FPMONITOR_MAX_EXPANSION", "0")
    with pytest.raises(InputError, match="more than 0 cells"):
        ingested(path)
    monkeypatch.setenv("FPMONITOR_MAX_EXPANSION", "1e9")
    with pytest.raises(InputError, match="must be a whole number"):
        ingested(path)
    monkeypatch.setenv("FPMONITOR_MAX_EXPANSION", "1000000")
    assert ingested(path).read == 1000


@pytest.mark.long
@pytest.mark.parametrize("content", [b"\0", b" ", b"["])
def test_a_packed_desert_is_refused_after_its_beginning(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "desert.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(100):
            file.write(content * 1_000_000)
    with pytest.raises(InputError):
        ingested(path)


PEAK = """
import re, sys
from pathlib import Path
from fpmonitor.cli import run
code = run(sys.argv[1:])
# Not from getrusage, which counts the memory of the process that started this one.
[peak] = re.findall(r"VmHWM:\\s+([0-9]+) kB", Path("/proc/self/status").read_text())
print(int(peak) // 1024, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "start", "end", "last"),
    [
        (b'{"user": "u", "a": 1}\n', b'{"user": "v", "a": "', b'"}\n', b'{"user": "w", "a": 1}\n'),
        (b"user,a\nu,1\n", b"v,", b"\n", b"w,2\n"),
    ],
)
def test_a_line_of_200_megabytes_is_rejected_in_bounded_memory(
    tmp_path: Path, first: bytes, start: bytes, end: bytes, last: bytes
) -> None:
    command = [sys.executable, "-P", "-c", PEAK, "ingest", "-", "--db", str(tmp_path / "x.duckdb")]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(first + start)
        for _ in range(200):
            process.stdin.write(b"x" * 1_000_000)
        process.stdin.write(end + last)
        out, err = process.communicate()
    [batch] = json.loads(out)["batches"]
    assert (batch["read"], batch["stored"], batch["rejected"]) == (3, 2, 1)
    assert int(err.split()[-1]) < 900
    with Monitor(tmp_path / "x.duckdb") as monitor:
        [reject] = monitor.rejects()
    assert reject.reason == "longer than 16 MB"
    assert reject.line in {2, 3}


@pytest.mark.long
def test_too_many_broken_records_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"user,a\nu,1\n" + b"x\n" * 2_000)
    assert outcome(ingested(path)) == (1, 2_000)
    path.write_bytes(b"user,a\nu,1\n" + b"x\n" * 150_000)
    with pytest.raises(InputError, match="more than 100,000 records"):
        ingested(path)


def test_many_lines_within_quotes_are_no_broken_records(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'user,a\nu,"' + b"x\n" * 150_000 + b'"\nv,2\n')
    assert outcome(ingested(path)) == (2, 0)


@pytest.mark.long
@pytest.mark.parametrize("form", ["wide JSON", "one API a record", "CSV", "long"])
def test_100000_apis_are_refused_with_the_limit(tmp_path: Path, form: str) -> None:
    names = [f"api{i}" for i in range(100_000)]
    path = tmp_path / "a.log"
    with path.open("w", encoding="utf-8") as file:
        match form:
            case "wide JSON":
                file.write(json.dumps({"user": "u"} | dict.fromkeys(names, 1)) + "\n")
            case "one API a record":
                file.writelines(json.dumps({"user": "u", name: 1}) + "\n" for name in names)
            case "CSV":
                file.write(",".join(["user", *names]) + "\n" + "1," * 100_000 + "1\n")
            case "long":
                file.write("user,api,value\n")
                file.writelines(f"u,{name},1\n" for name in names)
    with pytest.raises(InputError, match="more than 4,000"):
        ingested(path)


def test_a_log_that_grows_while_it_is_read_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(RECORD)
    stage = ingest_module.stage_all

    def stage_and_grow(database: Any, scan: Any) -> Any:
        read = stage(database, scan)
        with path.open("ab") as file:
            file.write(b'{"user": "late", "a": 1}\n')
        return read

    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monkeypatch.setattr(ingest_module, "stage_all", stage_and_grow)
        monitor.ingest([str(path)])
        monkeypatch.undo()
        [again] = monitor.ingest([str(path)])
    assert (again.stored, again.duplicates) == (1, 1)


def test_a_log_that_is_replaced_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(RECORD)
    stage = ingest_module.stage_all

    def stage_and_replace(database: Any, scan: Any) -> Any:
        other = tmp_path / "b.jsonl"
        other.write_bytes(RECORD * 2)
        other.replace(path)
        return stage(database, scan)

    monkeypatch.setattr(ingest_module, "stage_all", stage_and_replace)
    with (
        Monitor(tmp_path / "x.duckdb", create=True) as monitor,
        pytest.raises(InputError, match="replaced or cut"),
    ):
        monitor.ingest([str(path)])


def test_a_long_line_of_an_access_log_is_rejected_at_once(tmp_path: Path) -> None:
    line = '127.0.0.1 - - [01/Jan/2026:00:00:00 +0000] "GET /{} HTTP/1.1" 200 1 "-" "Mozilla"\n'
    path = tmp_path / "access.log"
    path.write_text(line.format("a") + line.format("[01/Jan/2026:00:00:00 +0000] " * 2000))
    report = ingested(path, collector="accesslog", column_map=ColumnMap({"user": "row"}))
    assert outcome(report) == (1, 1)


EXTENDED = "date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent)"
EXTENDED_LINE = f"2026-03-01 10:00:00 192.0.2.1 GET /a 200 {AGENT.replace(' ', '+')}"


def test_any_header_of_an_extended_log_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "w3c.log"
    rows = ColumnMap({"user": "row"})
    path.write_text(f"#Date:\n#Fields: {EXTENDED}\n{EXTENDED_LINE}\n")
    assert outcome(ingested(path, column_map=rows)) == (1, 0)
    path.write_text(f"#Fields: {EXTENDED} x-a x-a\n{EXTENDED_LINE} 1 2\n")
    assert outcome(ingested(path, column_map=rows)) == (1, 0)
    path.write_text(f"#Fields: {EXTENDED} {'f ' * 6_000}\n{EXTENDED_LINE}{' -' * 6_000}\n")
    with pytest.raises(InputError, match="6,007 fields"):
        ingested(path, column_map=rows)


def test_quotes_keep_no_log_from_being_told_by_its_values(tmp_path: Path) -> None:
    """One that is not closed went through all lines; each in place of none doubled the tries."""
    path = tmp_path / "unnamed.log"
    address = "192.0.2.1|2026-03-01T10:00:00Z"
    path.write_text(f'"a {AGENT}\n' + f"{address}|{AGENT}|{'x' * 1000}\n" * 199)
    assert ingested(path, column_map=ColumnMap({"user": "row"})).stored == 199
    quoted, fewer = '|"a"' * 60, '|"a"' * 59
    path.write_text(f"{address}|{AGENT}{quoted}\n" * 50 + f"{address}|{AGENT}{fewer}\n")
    report = ingested(path, column_map=ColumnMap({"user": "row"}))
    assert outcome(report) == (50, 1)


def test_brackets_that_are_not_closed_keep_no_log_from_being_told(tmp_path: Path) -> None:
    """Each was looked for the end of, in all that is behind it: 8 lines took 4 s."""
    path = tmp_path / "unnamed.log"
    path.write_text(f"{AGENT} {'[ ' * 15_500}\n" * 8)
    began = time.process_time()
    with log_files([str(path)]) as [log]:
        assert forms_of(log) == ()
    assert time.process_time() - began < 1.5


def test_thousands_of_names_of_fields_are_read_once(tmp_path: Path) -> None:
    """Each looked for the first line below it: time took the square of their number."""
    path = tmp_path / "iis.log"
    names = "#Fields: date time c-ip cs(User-Agent)\n"
    row = f"2026-03-01 10:00:00 192.0.2.1 {AGENT.replace(' ', '+')}\n"
    path.write_text(names + row + names * 20_000 + row)
    began = time.process_time()
    with log_files([str(path)]) as [log]:
        table = read_text_log(log)
    assert time.process_time() - began < 2
    assert list(table.lines) == [2, 20_003]


@pytest.mark.parametrize(
    ("name", "value"),
    [("characteristics_" * 8_000 + "!", 1), ("when", "Mon, " + "12:00:00" * 12_000 + "\n")],
    ids=["name", "time"],
)
def test_a_long_name_or_time_is_none(name: str, value: Any, tmp_path: Path) -> None:
    """Each was matched from all places of it to its end."""
    path = tmp_path / "requests.jsonl"
    row = {"user-agent": AGENT, "status": "200", "method": "GET", name: value}
    path.write_text(json.dumps(row) + "\n")
    began = time.process_time()
    assert ingested(path, column_map=ColumnMap({"user": "row"})).stored == 1
    assert time.process_time() - began < 4


def test_thousands_of_lists_of_headers_are_looked_through_once(tmp_path: Path) -> None:
    """Each list went through the names of all: 6,000 in a record took 8 s."""
    path = tmp_path / "lists.jsonl"
    headers = [{"name": "x", "value": "y"}]
    path.write_text(json.dumps({f"a{number}": headers for number in range(6_000)}) + "\n")
    began = time.process_time()
    with log_files([str(path)]) as [log]:
        assert not AccesslogCollector().recognises(log, ColumnMap())
    assert time.process_time() - began < 1.5


def test_thousands_of_captured_headers_in_a_line_are_no_columns(tmp_path: Path) -> None:
    """30,000 of them took minutes: each column looks through all lines."""
    line = (
        "10.0.1.2:3 [06/Feb/2009:12:14:14.655] in s/s1 10/0/30/69/109 200 2750 - - ---- "
        '1/1/1/1/0 0/0 {{{}}} {{}} "GET / HTTP/1.1"\n'
    )
    path = tmp_path / "haproxy.log"
    path.write_text(line.format(f"{AGENT}|x") * 5 + line.format("x|" * 5_000))
    with log_files([str(path)]) as [log]:
        [form] = forms_of(log)
    assert form.captured[0] == "http:user-agent"
    assert len(form.captured) == MOST_FIELDS


@pytest.mark.each
@pytest.mark.parametrize("part", ["a.", "req_", "http:"])
def test_a_name_of_thousands_of_parts_means_nothing_at_once(tmp_path: Path, part: str) -> None:
    """Each part was looked up with all behind it: 4,000 took 10 s."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"user": "u", f"{part * 20_000}x": 1, "b": 2}) + "\n")
    assert outcome(ingested(path)) == (1, 0)


def test_a_text_of_colons_is_told_from_an_address_at_once(tmp_path: Path) -> None:
    """8,000 took 4 s, and time grew with their square."""
    path = tmp_path / "requests.jsonl"
    request = {"ip": ":" * 200_000 + "x", "status": 200, "method": "GET", "User-Agent": AGENT}
    path.write_text(json.dumps(request) + "\n")
    with pytest.raises(InputError, match="each row is a request"):
        ingested(path)


def test_a_file_of_a_byte_order_mark_alone_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_bytes(b"\xef\xbb\xbf")
    with pytest.raises(InputError, match="the file is empty"):
        ingested(path)


def test_a_quote_of_a_table_of_results_that_is_not_closed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_text, "_READ_BYTES", 4_000)  # in place of 32 MB
    result = {"components": {name: {"value": 1, "duration": 2} for name in ("fonts", "math")}}
    cell = json.dumps(result).replace('"', '""')
    path = tmp_path / "results.csv"
    path.write_text("result,user\n" + "none,u\n" + f'"{cell}",u\n' * 8 + '"' + "u,v\n" * 2_000)
    process_limit = csv.field_size_limit()
    try:
        with pytest.raises(InputError, match="line 11: a field is longer than"):
            ingested(path, collector="fingerprintjs")
    finally:
        csv.field_size_limit(process_limit)  # of the tests that follow


def test_columns_beside_texts_of_json_may_differ_in_case_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("user,a,A,info\n" + 'u,1,2,"{""b"": 3}"\n')
    report = ingested(path)
    assert (outcome(report), report.apis) == ((1, 0), 3)


@pytest.mark.parametrize("version", [{"of": "u1"}, ["u1"], True])
def test_what_is_no_version_of_a_library_names_no_source(tmp_path: Path, version: Any) -> None:
    """It would be a source of one user."""
    components = {"screen": {"colorDepth": 24}, "system": {"platform": "a"}, "math": {"b": {}}}
    record = {"user": "u", "thumbmark": "f", "version": version, "components": components}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(record) + "\n")
    ingested(path)
    with Database(tmp_path / "store" / "x.duckdb") as database:
        spans = list_spans(database, "source")
    assert [span.name for span in spans] == ["thumbmarkjs 1"]


def test_a_view_in_the_place_of_a_table_of_openwpm_is_not_run(tmp_path: Path) -> None:
    """It may have no end."""
    path = tmp_path / "view.sqlite"
    columns = "1 AS symbol, 2 AS script_url, 3 AS operation"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIEW javascript AS WITH RECURSIVE endless(i) AS "
            f"(SELECT 1 UNION ALL SELECT i + 1 FROM endless) SELECT {columns} FROM endless LIMIT 9"
        )
        connection.commit()
    with (
        Monitor(tmp_path / "x.duckdb", create=True) as monitor,
        pytest.raises(InputError, match="no table `javascript`"),
    ):
        monitor.store_demand([str(path)])


@pytest.mark.parametrize("scripts", [5, "https://s.example/x.js", None, [[1]]])
def test_any_part_of_an_inspection_of_blacklight_is_read(tmp_path: Path, scripts: Any) -> None:
    path = tmp_path / "inspection.json"
    reports = {"canvas_fingerprinters": {"data_url": scripts}, "canvas_font_fingerprinters": 7}
    path.write_text(json.dumps({"uri_ins": "https://a.example/", "reports": reports}))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(path)])
    assert report.stored == (scripts == [[1]])


def test_a_damaged_database_of_openwpm_is_refused(tmp_path: Path) -> None:
    whole = tmp_path / "whole.sqlite"
    with closing(sqlite3.connect(whole)) as connection:
        columns = "top_level_url, script_url, symbol, operation"
        connection.execute(f"CREATE TABLE javascript ({columns})")
        row = ("https://a.example/", "https://b.example/x.js", "window.navigator.userAgent", "get")
        connection.execute("INSERT INTO javascript VALUES (?, ?, ?, ?)", row)
        connection.execute("INSERT INTO javascript VALUES (1, 2.5, x'ff', 'get')")
        connection.commit()
    damaged = tmp_path / "damaged.sqlite"
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        for old, new in (
            (b"navigator", b"navigator"),
            (b"operation)", b"operati\xf5n)"),
            (b"Navi", b"Na"),
        ):
            damaged.write_bytes(whole.read_bytes().replace(old, new))
            with suppress(InputError):
                monitor.store_demand([str(damaged)])


# Bodies of HTTP requests


def take(body: bytes) -> None:
    """Take a body as the service does; what it would store is what its frame holds."""
    for encoding in ("", "gzip"):
        with suppress(RefusedRequestError):
            unpacked(body, encoding, 100_000)
    with suppress(RefusedRequestError):
        records = split_records(body, 100)
        reports_of(records, time="now", source="s")
    with suppress(RefusedRequestError):
        taken = observations_of(split_records(body, 100), time="", source="", headers={})
        for content in taken.contents:
            assert content_of(frame_of(content)) == content


BODIES = (
    b'{"user": "u", "api": "a", "value": ',
    b'{"user": "u", "components": {"a": {"value": ',
    b'[{"type": "x", "body": ',
    b"",
)


@settings(deadline=None, max_examples=200)
@given(beginning=st.sampled_from(BODIES), rest=st.binary(max_size=60) | any_json.map(json.dumps))
def test_any_body_is_taken_or_refused(beginning: bytes, rest: bytes | str) -> None:
    take(beginning + (rest.encode() + b"}" if isinstance(rest, str) else rest))


@pytest.mark.parametrize("content", HOSTILE_TEXTS.values(), ids=list(HOSTILE_TEXTS))
@pytest.mark.parametrize("beginning", BODIES)
def test_hostile_bodies_are_refused(beginning: bytes, content: bytes) -> None:
    take(beginning + content)
    take(beginning + content + b"}")


def test_half_a_character_is_refused_while_its_sender_can_be_told() -> None:
    record = b'{"user": "u", "api": "a", "value": ["\\uD800"]}'
    with pytest.raises(RefusedRequestError, match="record 1"):
        observations_of([record], time="", source="", headers={})


def test_a_packed_body_unpacks_to_no_more_than_the_limit() -> None:
    with pytest.raises(RefusedRequestError, match="more than 1000 bytes"):
        unpacked(gzip.compress(b"x" * 10_000_000), "gzip", 1000)


# What is installed


def test_every_dependency_has_a_lower_and_an_upper_bound() -> None:
    content = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))
    project = content["project"]
    named = chain(project["dependencies"], *project["optional-dependencies"].values())
    outside = [text for text in named if not text.startswith("fpmonitor[")]
    assert len(outside) > 20
    assert [text for text in outside if not re.match(r"[\w.-]+>=[\d.]+,<\d+(;|$)", text)] == []


# Names of APIs and files

NAMES = (
    "'; DROP TABLE observation; --", '"; DROP TABLE "user"; --', 'a"b', "a;b", "a,b", "a\nb",
    "a\tb", "\x1b[31mred\x1b[0m", "\x07", "\x9b31m", "\u202egpj", "[red]x[/red]", "[bold", "a\\",
    "=1+1", "+1", "-1", "@x", "'=1", "＝1", "{scan}", "$key", "c0", "v0", "problem", "USER",
    "::error file=a,line=1::b", " ::set-output name=a::b", "##[command]x", "\\x1b",
    "User", "x" * 65_536, "\ufeffa", "😀", "a/b~c", "%s", " ", "NULL", "*", "\u2028", "\x85",
)  # fmt: skip


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database whose 60 users have a value of each hostile name."""
    folder = tmp_path_factory.mktemp("named")
    log = folder / "named\n\x1b[31m.jsonl"
    with log.open("w", encoding="utf-8") as file:
        for user in range(60):
            values = {name: f"{name[:30]}{user % 2}" for name in NAMES}
            file.write(json.dumps({"user": f"u{user}"} | values) + "\n")
        file.write("{broken \x1b[31m\n")
    with Monitor(folder / "x.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
    return folder / "x.duckdb"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) in {0, 3}
    return capsys.readouterr().out


def test_names_are_data_and_never_sql(named: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(answer(capsys, "db", "apis", "--db", str(named), "--format", "json"))
    assert {row["api"] for row in rows} == set(NAMES)
    assert all(row["users"] == 60 and row["values"] == 2 for row in rows)
    wanted = [name for name in NAMES if '"' not in name and name.strip() == name and name]
    asked = [word for name in wanted for word in ("--apis", f'"{name}"')]
    text = answer(capsys, "exposure", *asked, "--db", str(named), "--format", "json")
    assert [report["apis"] for report in json.loads(text)] == [[name] for name in wanted]


TABLES = (
    ("db", "apis"),
    ("db", "batches"),
    ("db", "rejects"),
    ("exposure", "--apis", NAMES[0].replace('"', "")),
    ("exposure", "--rank", "--size", "1"),
)


@pytest.mark.parametrize("command", TABLES, ids=[" ".join(command[:2]) for command in TABLES])
def test_no_table_commands_the_terminal(
    named: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert run([*command, "--db", str(named), "--format", "table"]) in {0, 3}
    written = capsys.readouterr()
    assert written.out
    assert_harmless(written.out + written.err)


def assert_harmless(text: str) -> None:
    assert all(character.isprintable() or character == "\n" for character in text)


def test_no_decision_commands_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [name for name in NAMES if len(name) < 100]
    content = example_decision().to_json()
    content["guarantee"] = "\x1b[31mholds"
    content["policy"]["candidates"] = names
    content |= {"allow": [[name] for name in names], "block": [], "recommended": names[:1]}
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert_harmless(decisions.decision(read_decision(path)).text("table"))
    for name in plugin_names(EXPORTERS):
        run(["export", str(path), "--to", name, "-o", str(tmp_path / "list")])
    assert_harmless(capsys.readouterr().err)


@pytest.mark.parametrize("name", ["gone\n\x1b[31m.jsonl", "x" * 5_000, "a\0b", "**a[", "\udcff"])
def test_an_error_line_is_one_line_and_harmless(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ingest", name, "--db", str(tmp_path / "x.duckdb")]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert_harmless(message)
    assert len(message) < 400


def test_csv_output_runs_no_formula_and_keeps_every_name(
    named: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = answer(capsys, "db", "apis", "--db", str(named), "--format", "csv")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    cells = [cell for row in [header, *rows] for cell in row]
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n＝＋－＠"))]
    assert {unescaped(row[0].removeprefix("'")) for row in rows} == set(NAMES)
    assert re.sub(r"[^\n]", "", text) == "\n" * (len(rows) + 1), "a row a line"
    assert text.replace("\n", "").isprintable()


def unescaped(text: str) -> str:
    escape = re.compile(r"\\(?:\\|[nrt]|x..|u....|U........)")
    return escape.sub(lambda found: found[0].encode().decode("unicode_escape"), text)


@pytest.mark.parametrize("form", ["csv", "table", "json"])
def test_no_line_of_an_answer_or_a_note_is_a_command_of_a_job(
    form: str, named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "::error::x.jsonl"
    log.write_bytes(RECORD)
    commands = [
        ["db", "apis", "--db", str(named), "--format", form],
        ["db", "batches", "--db", str(named), "--format", form],
        ["ingest", log.name, "--db", str(tmp_path / "y.duckdb"), "--format", form],
        ["exposure", "--apis", "::error file=a,line=1::b", "--db", str(named), "--format", form],
        ["exposure", "--apis", "\n::error::no such name", "--db", str(named), "--format", form],
        ["db", "apis", "--db", "\n::error::no such file", "--format", form],
    ]
    with chdir(tmp_path):
        for command in commands:
            run(command)
            for text in capsys.readouterr():
                assert not re.search(r"(?m)^\s*(::|##\[)", text), (command, text)
                assert text.replace("\n", "").isprintable(), (command, text)


@given(name=st.text(max_size=6) | st.sampled_from(NAMES))
def test_the_mark_of_a_csv_cell_can_be_taken_off_again(name: str) -> None:
    text = csv_rows([[name.replace("\0", ""), 5]])
    [row] = csv.reader(io.StringIO(text, newline=""))
    assert row[0].removeprefix("'") == name.replace("\0", "")
    assert not row[0].startswith(tuple("=+-@\t\r\n"))


def test_paths_lead_to_files_and_to_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x.csv").mkdir()
    (tmp_path / "x.csv" / "a.jsonl").write_bytes(RECORD)
    (tmp_path / "self.jsonl").symlink_to("self.jsonl")
    for name in ("first", "second"):
        (tmp_path / "x.csv" / name).symlink_to(tmp_path / "x.csv")
    os.mkfifo(tmp_path / "x.csv" / "b.jsonl")
    with log_files([str(tmp_path / "**" / "*.jsonl")]) as logs:
        assert [log.path.name for log in logs] == ["a.jsonl"]
    with log_files([str(tmp_path)]) as logs:
        assert [log.path.name for log in logs] == ["a.jsonl"]
    for text in ("/dev/zero", str(tmp_path / "self.jsonl"), str(tmp_path / "*.csv")):
        with pytest.raises(InputError), log_files([text]):
            pass


def test_a_pipe_is_read_once_and_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(RECORD,))
    writer.start()
    assert outcome(ingested(pipe)) == (1, 0)
    writer.join()


@pytest.mark.parametrize("read", [partial(read_text, kind="column map"), read_secret_file])
@pytest.mark.each
def test_a_named_pipe_in_place_of_a_small_file_is_refused_and_an_open_one_is_read(
    tmp_path: Path, read: Callable[[Path], str]
) -> None:
    pipe = tmp_path / "columns.toml"
    os.mkfifo(pipe, 0o600)  # nobody writes to it: reading would wait for ever
    with pytest.raises(InputError, match="named pipe"):
        read(pipe)
    reading, writing = os.pipe()
    writer = threading.Timer(0.1, lambda: (os.write(writing, b"text"), os.close(writing)))
    writer.start()
    assert read(Path(f"/dev/fd/{reading}")) == "text"
    os.close(reading)
    writer.join()


def test_a_name_that_comes_to_lead_to_a_named_pipe_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "columns.toml"
    os.mkfifo(pipe, 0o600)
    monkeypatch.setattr(type(pipe), "is_fifo", lambda _: False)  # as it was a moment ago
    with pytest.raises(InputError, match="named pipe"):
        read_text(pipe, "column map")


def test_a_file_whose_name_is_no_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff*.jsonl")
    path.write_bytes(RECORD)
    assert ingested(path).source.endswith("\\udcff*.jsonl")


def test_a_database_whose_name_is_no_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "apis", "--db", str(tmp_path / "\udcff.duckdb")]) == 2
    assert "cannot name a database" in capsys.readouterr().err


# Named by whoever made a file that somebody else reads.
COMMANDING = {
    "TOML": b'"x\\n::error::h\\u001b[2J\\u202e" = "\\n::error::z"\n',
    "tables": b'["x\\n::error::h\\u001b[2J"]\nround = "\\n::error::z"\n',
    "JSON": json.dumps({"x\n::error::h\x1b[2J": "\n::error::z", "k": 10**400}).encode(),
    "lines": b'\x1b[2J\n::error::x\n##[error]y\n"x\n::error::y",1e999\n',
    "many": b"".join(b'"k%d" = %d\n' % (number, number) for number in range(20_000)),
    "long": json.dumps({"format": "A" * 1_000_000}).encode(),
    "no number": b"k = 1e400\npopulation = 99999999999999999999\nbudget = nan\n",
    "no time": b"since = 0001-01-01\nuntil = 9999-12-31T23:59:59Z\n",
    **{name: HOSTILE_TEXTS[name] for name in ("deep JSON object", "deep TOML keys", "NUL")},
}
READING = (
    "ingest log.jsonl --columns FILE",
    "exposure --apis A.a --what-if FILE",
    "exposure --spectra FILE",
    "decide --levels FILE --budget 5%",
    "decide --weights FILE --budget 5%",
    "check FILE",
    "export FILE",
    "gate FILE --want A.a",
    "check --compare FILE FILE",
    "audit certificate FILE",
    "audit singling-out --release FILE",
    "collect serve --config FILE",
    "ldp metrics --mechanism FILE",
    "scale sketch info FILE",
    "collect snippet FILE",
    "private init FOLDER --curator-key FILE",
    "db copy-in FOLDER",
    "db apis",  # with the settings of its folder
)


@pytest.mark.parametrize("command", READING)
def test_no_file_that_is_refused_commands_a_terminal_or_a_job(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nor does it fill them, or take long; a link to it is as the file."""
    monkeypatch.chdir(tmp_path)
    Path("log.jsonl").write_bytes(RECORD)
    assert run(["ingest", "log.jsonl", "-q"]) == 0
    Path("folder").mkdir()
    hostile = {"db copy-in FOLDER": "folder/manifest.json", "db apis": "fpmonitor.toml"}
    file = Path(hostile.get(command, "file"))
    file.symlink_to(tmp_path / "meant")
    given = command.replace("FILE", "file").replace("FOLDER", "folder").split()
    capsys.readouterr()
    for content in COMMANDING.values():
        Path("meant").write_bytes(content)
        assert run(given) in {2, 3}  # 3: some of it may be settings
        said = capsys.readouterr()
        assert not said.out
        assert_harmless(said.err)
        assert not re.search(r"(?m)^\s*(::|##\[)", said.err)
        assert len(said.err) < 4_000


def test_a_settings_file_of_any_depth_is_an_error_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fpmonitor.toml").write_bytes(b"a = " + b"[" * 5_000)
    assert run(["db", "apis"]) == 2
    assert "settings" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b'{"a":' * 50_000, b'{"a"\n[1, 2]\n', b'{"a"\n5\n'])
def test_a_log_without_one_good_record_is_refused_without_its_values(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no line that is a JSON object"):
        ingested(path)
