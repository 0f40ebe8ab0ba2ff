"""Lines of which each wraps a record: read as the record, and what wraps it is accounted for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor import Monitor
from fpmonitor.cli import run
from fpmonitor.logs.column_map import ColumnMap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = 60


def record(number: int) -> dict[str, Any]:
    return {
        "user": f"u{number}",
        "time": f"2026-03-{number % 28 + 1:02}T00:00:00Z",
        "userAgent": f"agent {number % 3}",
        "screen": {"width": 800 + number % 2},
    }


WRAPPED: dict[str, Callable[[int], dict[str, Any]]] = {
    "query result": lambda i: {"result": record(i)},
    "elasticsearch": lambda i: {"_index": "x", "_id": f"{i * 7919:x}", "_source": record(i)},
    "text in a message": lambda i: {"ingestionTime": 10**12 + i, "message": json.dumps(record(i))},
    "kafka": lambda i: {"topic": "x", "offset": 3 * i, "value": record(i)},
    "kafka, text": lambda i: {"partition": 0, "offset": i, "value": json.dumps(record(i))},
    "debezium": lambda i: {"payload": {"before": None, "after": record(i), "op": "c"}},
    "dynamodb": lambda i: {"eventID": f"{i * 7919:x}", "dynamodb": 1, "NewImage": record(i)},
    "google logging": lambda i: {"insertId": f"{i * 7919:x}", "jsonPayload": record(i)},
    "splunk": lambda i: {"preview": False, "result": {"_raw": json.dumps(record(i))}},
    "texts in texts": lambda i: {"body": json.dumps({"data": json.dumps(record(i))})},
}
MANY: dict[str, Callable[[int], dict[str, Any]]] = {
    "azure": lambda i: {"records": [record(2 * i), record(2 * i + 1)]},
    "cloudwatch": lambda i: {
        "logGroup": "g",
        "logEvents": [{"id": f"e{i}", "message": json.dumps(record(2 * i + j))} for j in (0, 1)],
    },
}


def write(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return str(path)


def read(path: str, folder: Path, name: str) -> tuple[Any, list[Any]]:
    with Monitor(folder / name, create=True) as monitor:
        [batch] = monitor.ingest(path)
        return batch, sorted(row[1:] for row in monitor.observations())


@pytest.mark.parametrize("kind", [*WRAPPED, *MANY])
def test_wrapped_records_are_read_like_bare_ones_and_what_wraps_them_is_listed(
    kind: str, tmp_path: Path
) -> None:
    bare = write(tmp_path / "bare.jsonl", [record(i) for i in range(USERS)])
    made = WRAPPED[kind] if kind in WRAPPED else MANY[kind]
    lines = [made(i) for i in range(USERS if kind in WRAPPED else USERS // 2)]
    batch, observed = read(write(tmp_path / "wrapped.jsonl", lines), tmp_path, "a")
    plain, expected = read(bare, tmp_path, "b")
    assert (batch.users, batch.apis, batch.rejected) == (plain.users, plain.apis, 0)
    assert observed == expected
    bare_members = {member.path for member in plain.account.members}
    beside = {m.path: m for m in batch.account.members if m.path not in bare_members}
    assert len(batch.account.members) == len(bare_members) + len(beside)
    assert all(member.why == "wraps the records" for member in beside.values())
    plain_values = {name for name, value in lines[0].items() if isinstance(value, int)}
    assert plain_values <= beside.keys()


def test_broken_lines_among_wrapped_ones_are_rejected_one_by_one(tmp_path: Path) -> None:
    lines = [json.dumps(WRAPPED["kafka"](i)) for i in range(USERS)]
    lines[3:3] = ["no JSON", json.dumps({"topic": "x", "value": None})]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    batch, _ = read(str(path), tmp_path, "x")
    assert (batch.users, batch.rejected) == (USERS, 2)


NO_WRAPPERS = {
    "a user beside": lambda i: {"user": f"u{i}", "result": {"user": "x", "userAgent": f"a{i % 3}"}},
    "other names": lambda i: {"context": {"user": f"u{i}"}, "userAgent": f"a{i % 3}"},
    "two that name users": lambda i: {"data": record(i), "result": record(i)},
}


@pytest.mark.parametrize("kind", NO_WRAPPERS)
def test_records_that_wrap_nothing_stay_what_they_are(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", [NO_WRAPPERS[kind](i) for i in range(USERS)])
    code = run(["ingest", path, "--db", str(tmp_path / "x"), "-q"])
    assert code == (0 if kind == "a user beside" else 2)


def test_wrapped_rows_are_counted_and_a_log_that_grows_goes_on(tmp_path: Path) -> None:
    lines = [WRAPPED["elasticsearch"](i) for i in range(USERS)]
    for line in lines:
        del line["_source"]["user"]
    path = write(tmp_path / "log.jsonl", lines[:40])
    rows = ColumnMap({"user": "row"})
    with Monitor(tmp_path / "x", create=True) as monitor:
        [batch] = monitor.ingest(path, column_map=rows)
        assert (batch.stored, batch.apis) == (40, 2)
        [batch] = monitor.ingest(write(tmp_path / "log.jsonl", lines), column_map=rows)
        assert (batch.stored, batch.duplicates) == (20, 40)


def test_a_document_accounts_for_what_stands_beside_its_records(tmp_path: Path) -> None:
    held = {"took": 3, "hits": {"total": USERS, "hits": [record(i) for i in range(USERS)]}}
    path = tmp_path / "doc.json"
    path.write_text(json.dumps(held, indent=1), encoding="utf-8")
    batch, _ = read(str(path), tmp_path, "x")
    told = {m.path: (m.kind, m.records) for m in batch.account.members if m.kind == "not taken"}
    assert told == {"took": ("not taken", 1), "hits.total": ("not taken", 1)}
