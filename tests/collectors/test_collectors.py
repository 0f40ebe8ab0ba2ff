"""What a log says is what the store holds, whatever its format, packing, names and flaws."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.collectors.choosing import choose_collector
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import log_files
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import ingest_log
from fpmonitor.store.transforms import Transform

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.store.batches import BatchReport

FIXTURES = Path(__file__).parents[2] / "fixtures"
EXPECTED = json.loads((FIXTURES / "logs.json").read_text(encoding="utf-8"))["files"]
ODD_NAMES = [
    "a.b", "a-b", 'a"b', "a'b", "a/b", "a~b", "a~1b", "a b", "accept", "Accept", "ACCEPT", "é",
    "日本", "v0", "c0", "json", "cells", "x#y", "$", "{column}", "$api", "a,b", "a;b", "rowid",
]  # fmt: skip


@dataclass
class Stored:
    """What the store holds: reports, rejects, and rows (user, time, source, api, status, text)."""

    reports: list[BatchReport]
    rejects: list[tuple[int, str, str]]
    rows: set[tuple[str, datetime | None, str | None, str, str, str | None]]

    @property
    def counts(self) -> tuple[int, int, int, int]:
        last = self.reports[-1]
        return last.read, last.stored, last.duplicates, last.rejected

    @property
    def cells(self) -> dict[tuple[str, str], str | None]:
        return {(user, api): text for user, _, _, api, _, text in self.rows}

    def values(self, user: str = "u") -> dict[str, str | None]:
        return {api: text for name, _, _, api, _, text in self.rows if name == user}


OBSERVATIONS = """
    SELECT user.digest, visit.time, source.name, api.name, value.status, value.text
    FROM observation
    JOIN visit USING (visit_id) JOIN user USING (user_id) JOIN api USING (api_id)
    JOIN value ON value.api_id = observation.api_id AND value.value_id = observation.value_id
    LEFT JOIN source USING (source_id)
"""


def store(
    database_path: Path,
    paths: Sequence[Path | str],
    column_map: ColumnMap | None = None,
    *,
    users: Sequence[str] = ("u", "w", "x"),
    collector: str | None = None,
) -> Stored:
    column_map = column_map or ColumnMap()
    with (
        Database(database_path, create=True) as database,
        log_files([str(path) for path in paths]) as logs,
    ):
        reports = [
            ingest_log(database, log, choose_collector(log, column_map, collector), column_map)
            for log in logs
        ]
        key = database.meta("user_key")
        names = {
            int(hashlib.sha256((key + user).encode()).hexdigest()[:16], 16): user for user in users
        }
        rejects = [row[1:] for row in database.rows("report/rejects", most=10_000)]
        rows = database._connection.execute(OBSERVATIONS).fetchall()
    assert len(set(rows)) == len(rows), "an observation is stored twice"
    return Stored(reports, rejects, {(names.get(row[0], str(row[0])), *row[1:]) for row in rows})


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def json_lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def csv_text(rows: Sequence[Sequence[str]], delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue()


def store_text(
    tmp_path: Path, name: str, content: str | bytes, column_map: ColumnMap | None = None
) -> Stored:
    return store(tmp_path / "db", [write(tmp_path / name, content)], column_map)


# The fixture logs


@pytest.fixture(scope="module")
def fixture_store(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stored]:
    folder = tmp_path_factory.mktemp("fixture")
    return {
        name: store(folder / f"{i}.db", [FIXTURES / "logs" / name])
        for i, name in enumerate(EXPECTED)
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_fixture_logs_count_to_what_their_maker_says(
    name: str, fixture_store: Mapping[str, Stored]
) -> None:
    expected = EXPECTED[name]
    report = fixture_store[name].reports[0].to_json()
    assert {key: report[key] for key in ("read", "stored", "duplicates", "rejected", "users")} == {
        key: expected[key] for key in ("read", "stored", "duplicates", "rejected", "users")
    }
    assert report["apis"] == 22
    assert len(fixture_store[name].rows) == expected["cells"]


@pytest.mark.parametrize("name", EXPECTED)
def test_fixture_rejects_stand_on_the_lines_that_were_damaged(
    name: str, fixture_store: Mapping[str, Stored]
) -> None:
    reasons = {
        "bad status": "status is none of value, undefined, error",
        "no user": "user is missing",
        "no api": "api is missing",
        "cut": "not JSON",
        "not JSON": "not JSON",
        "array": "not a JSON object",
    }
    expected = {
        (line, reasons.get(fault, fault))
        for fault, lines in EXPECTED[name]["fault_lines"].items()
        for line in lines
        if fault != "duplicate"
    }
    assert {(line, reason) for line, reason, _ in fixture_store[name].rejects} == expected


def canonical(value: Any) -> str:
    """Text of a value as the store should hold it, by other means."""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    )
    if len(text.encode()) <= 256:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}:{len(text)}"


def test_fixture_values_are_those_of_the_law(fixture_store: Mapping[str, Stored]) -> None:
    law = json.loads((FIXTURES / "law" / "values.json").read_text(encoding="utf-8"))
    texts = {api: {canonical(text) for text in values} for api, values in law.items()}
    for name, stored in fixture_store.items():
        assert len(stored.rows) > 0
        assert {row[4] for row in stored.rows} == {"value"}
        assert all(row[5] in texts[row[3]] for row in stored.rows), name


def test_every_cell_of_the_fixture_parquet_is_stored(tmp_path: Path) -> None:
    path = FIXTURES / "logs" / "browsers-3.parquet"
    frame = pl.read_parquet(path).head(500)
    frame.write_parquet(tmp_path / "head.parquet")
    stored = store(tmp_path / "db", [tmp_path / "head.parquet"], users=frame["user"].to_list())
    expected = {
        (row["user"], api): canonical(value)
        for row in frame.iter_rows(named=True)
        for api, value in row.items()
        if api not in {"user", "time"} and value is not None
    }
    assert stored.cells == expected


# Names


def wide_forms(names: Sequence[str], folder: Path) -> Iterator[Path]:
    record = {name: f"value of {name}" for name in names}
    yield write(folder / "flat.jsonl", json_lines({"user": "u", **record}))
    yield write(folder / "nested.jsonl", json_lines({"user": "u", "attributes": record}))
    yield write(
        folder / "mixed.jsonl", json_lines({"user": "u", "attributes": record}, {"user": "w"})
    )
    yield write(folder / "wide.csv", csv_text([["user", *names], ["u", *record.values()]]))
    frame = pl.DataFrame({"user": ["u"]} | {name: [value] for name, value in record.items()})
    frame.write_parquet(folder / "wide.parquet")
    yield folder / "wide.parquet"
    long = [{"user": "u", "api": name, "value": value} for name, value in record.items()]
    yield write(folder / "long.jsonl", json_lines(*long))
    rows = [["user", "api", "value"], *([*row.values()] for row in long)]
    yield write(folder / "long.csv", csv_text(rows))
    pl.DataFrame(long).write_parquet(folder / "long.parquet")
    yield folder / "long.parquet"


@pytest.mark.parametrize("names", [ODD_NAMES, ["plain", "odd.name"]], ids=["odd", "plain"])
def test_names_survive_in_every_format(tmp_path: Path, names: list[str]) -> None:
    for i, path in enumerate(wide_forms(names, tmp_path)):
        stored = store(tmp_path / f"{i}.db", [path])
        assert stored.values() == {name: f"value of {name}" for name in names}, path.name


# Values of JSON

NESTED = {"z": [1, {"b": None, "a": "é"}], "a": True}
JSON_VALUES = {
    "string": ("x", "x"),
    "empty": ("", ""),
    "quoted number": ("1.0", "1.0"),
    "one": (1, "1"),
    "whole fraction": (1.0, "1"),
    "fraction": (2.5, "2.5"),
    "minus zero": (-0.0, "0"),
    "true": (True, "true"),
    "null": (None, None),
    "nested": ([NESTED], '[{"a":true,"z":[1,{"a":"é","b":null}]}]'),
    "list": ([], "[]"),
    "escapes": ('a"b\\c\n\t/', 'a"b\\c\n\t/'),
    "looks nested": ("{not json", "{not json"),
    "beyond ASCII": ("日本\U0001f600", "日本\U0001f600"),
}


@pytest.mark.parametrize("uniform", [True, False], ids=["uniform", "with gaps"])
@pytest.mark.parametrize("nested", [True, False], ids=["attributes", "flat"])
def test_json_values_become_canonical_text(tmp_path: Path, nested: bool, uniform: bool) -> None:
    members = {name: value for name, (value, _) in JSON_VALUES.items()}
    record = {"user": "u", "attributes": members} if nested else {"user": "u", **members}
    records = [record] if uniform else [record, {"user": "w"}]
    stored = store_text(tmp_path, "a.jsonl", json_lines(*records))
    expected = {name: text for name, (_, text) in JSON_VALUES.items() if text is not None}
    assert stored.values() == expected
    assert stored.reports[0].rejected == 0


def test_exponents_and_whole_fractions_are_one_value(tmp_path: Path) -> None:
    lines = '{"user":"u","a":1e5}\n{"user":"w","a":100000}\n{"user":"x","a":100000.0}\n'
    assert {text for *_, text in store_text(tmp_path, "a.jsonl", lines).rows} == {"100000"}


def test_numbers_that_are_too_large_within_a_list_are_no_one_value(tmp_path: Path) -> None:
    """All were `[Infinity]`, which is no JSON, so exposure was less."""
    lines = "".join(f'{{"user":"u{i}","a":[1e{i}]}}\n' for i in (998, 999))
    found = {text for *_, text in store_text(tmp_path, "a.jsonl", lines).rows}
    assert found == {"[1e998]", "[1e999]"}
    assert {Transform(sort=True)(text) for text in found if text} == found


def test_null_is_absent_unless_the_map_says_that_it_is_a_value(tmp_path: Path) -> None:
    records = [{"user": "u", "a": None, "b": 1}, {"user": "w", "b": None}]
    path = write(tmp_path / "a.jsonl", json_lines(*records))
    as_value = store(tmp_path / "1.db", [path], ColumnMap(null="value"))
    as_absent = store(tmp_path / "2.db", [path])
    assert as_value.cells == {("u", "a"): "null", ("u", "b"): "1", ("w", "b"): "null"}
    assert as_absent.cells == {("u", "b"): "1"}


def test_repeated_member_of_a_record_counts_once_with_its_first_value(tmp_path: Path) -> None:
    for i, rest in enumerate(("", '{"user":"w","b":null}\n')):
        path = write(tmp_path / f"{i}.jsonl", '{"user":"u","a":1,"a":2}\n' + rest)
        assert store(tmp_path / f"{i}.db", [path]).values() == {"a": "1"}


def test_name_seen_only_on_the_last_line_is_an_api(tmp_path: Path) -> None:
    head = json_lines(*({"user": "u", "a": i % 7} for i in range(30_000)))
    stored = store_text(tmp_path, "a.jsonl", head + json_lines({"user": "w", "late": 1}))
    assert stored.values("w") == {"late": "1"}


def test_large_values_are_kept_by_digest_and_length(tmp_path: Path) -> None:
    long = {"user": "u", "just": "x" * 256, "more": "é" * 129, "list": list(range(200))}
    stored = store_text(tmp_path, "a.jsonl", json_lines(long)).values()
    assert stored == {name: canonical(value) for name, value in long.items() if name != "user"}
    assert stored["more"] is not None
    assert stored["more"].endswith(":129")


def test_first_line_longer_than_what_is_sniffed_is_read(tmp_path: Path) -> None:
    record = {"user": "u", "canvas": "x" * 600_000}
    assert store_text(tmp_path, "a.jsonl", json_lines(record)).counts == (1, 1, 0, 0)


# Statuses of long logs


def test_statuses_of_long_json(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"user": "u", "api": "gone", "status": "undefined"},
        {"user": "u", "api": "no value"},
        {"user": "u", "api": "null", "value": None},
        {"user": "u", "api": "null told", "status": "value", "value": None},
        {"user": "u", "api": "failed", "status": "error", "value": "NotAllowedError"},
        {"user": "u", "api": "failed bare", "status": "error"},
        {"user": "u", "api": "told", "status": "value", "value": ""},
    ]
    stored = store_text(tmp_path, "a.jsonl", json_lines(*records))
    assert {(api, status, text) for _, _, _, api, status, text in stored.rows} == {
        ("gone", "undefined", None),
        ("no value", "undefined", None),
        ("null", "undefined", None),
        ("null told", "value", "null"),
        ("failed", "error", "NotAllowedError"),
        ("failed bare", "error", None),
        ("told", "value", ""),
    }


def test_statuses_fixture_is_read_whole(tmp_path: Path) -> None:
    path = FIXTURES / "extra" / "statuses.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    stored = store(tmp_path / "db", [path], users=sorted({record["user"] for record in records}))
    assert stored.counts == (len(records), len(records), 0, 0)
    expected = {
        (
            record["user"],
            datetime.fromisoformat(record["time"]).replace(tzinfo=None),
            None,
            record["api"],
            record.get("status", "value"),
            canonical(record["value"]) if "value" in record else None,
        )
        for record in records
    }
    assert stored.rows == expected


# CSV


def test_empty_csv_field_is_absent_and_quoted_empty_field_is_a_value(tmp_path: Path) -> None:
    stored = store_text(tmp_path, "a.csv", 'user,a,b\nu,,""\nw,"",\n')
    assert stored.cells == {("u", "b"): "", ("w", "a"): ""}


@pytest.mark.parametrize(
    ("ending", "delimiter"), [("tsv", "\t"), ("csv", ";"), ("csv", ","), ("csv", "|")]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_delimiters_and_line_ends(tmp_path: Path, ending: str, delimiter: str, end: str) -> None:
    lines = [["user", "a", "b"], ["u", "1", "x y"], ["w", "2", '"q""' + delimiter + '"']]
    text = "\ufeff" + end.join(delimiter.join(line) for line in lines) + end
    stored = store_text(tmp_path, f"a.{ending}", text)
    assert stored.cells == {
        ("u", "a"): "1", ("u", "b"): "x y", ("w", "a"): "2", ("w", "b"): 'q"' + delimiter,
    }  # fmt: skip


def test_csv_rejects_name_physical_lines_behind_multi_line_fields(tmp_path: Path) -> None:
    text = (
        'user,a\nu,"one\ntwo\nthree"\n\nw\n,5\nx,1,2\nu,"4\n4"\n'  # lines 1 to 10
        'w,"a"b\n'  # 11
        ",last\n"  # 12
    )
    stored = store_text(tmp_path, "a.csv", text)
    assert [(line, reason) for line, reason, _ in stored.rejects] == [
        (6, "too few fields"),
        (7, "user is missing"),
        (8, "too many fields"),
        (11, "quotes do not match"),
        (12, "user is missing"),
    ]
    assert stored.counts == (7, 2, 0, 5)


def test_mixed_line_ends_are_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="LF or in CRLF") as caught:
        store_text(tmp_path, "a.csv", "user,a\r\nu,1\nw,2\r\n")
    assert "\n" not in str(caught.value)


def test_header_alone_is_an_empty_log(tmp_path: Path) -> None:
    assert store_text(tmp_path, "a.csv", "user,a\n").counts == (0, 0, 0, 0)


def test_column_twice_in_a_header_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'a' occurs twice"):
        store_text(tmp_path, "a.csv", "user,a,a\nu,1,2\n")


# Broken records

BROKEN_LINES: dict[str, tuple[bytes, str]] = {
    "cut": (b'{"user":"x","a":1', "not JSON"),
    "words": (b"x went away", "not JSON"),
    "two objects": (b'{"user":"x","a":1}{"user":"x","a":2}', "not JSON"),
    "array": (b'["x"]', "not a JSON object"),
    "number": (b"17", "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "empty object": (b"{}", "user is missing"),
    "no user": (b'{"a":1}', "user is missing"),
    "empty user": (b'{"user":"","a":1}', "user is missing"),
    "null user": (b'{"user":null,"a":1}', "user is missing"),
    "junk bytes": (b'{"user":"x","a":"\xff\xfe"}', "not UTF-8"),
    "control character": (b'{"user":"x","a":"\x01"}', "not JSON"),
    "lone surrogate": (b'{"user":"x","a":"\\ud800"}', "not JSON"),
}


@pytest.mark.parametrize("null", [b"", b'{"user":"u","a":null}\n{"user":"u","b":1}\n'])
@pytest.mark.parametrize("flaw", BROKEN_LINES)
def test_broken_json_lines_are_rejected_one_by_one(tmp_path: Path, flaw: str, null: bytes) -> None:
    # The second parameter makes the log one that has to be read the slow way.
    line, reason = BROKEN_LINES[flaw]
    content = b'{"user":"w","a":5}\r\n\n  \n' + line + b"\n" + null + b'{"user":"w","a":6}\n'
    stored = store_text(tmp_path, "a.jsonl", content)
    assert [(number, why) for number, why, _ in stored.rejects] == [(4, reason)]
    assert ("w", "a") in stored.cells
    report = stored.reports[0]
    assert (report.read, report.rejected) == (3 + null.count(b"\n"), 1)


def test_truncated_last_line_is_rejected(tmp_path: Path) -> None:
    stored = store_text(tmp_path, "a.jsonl", '{"user":"u","a":1}\n{"user":"w","a"')
    assert stored.counts == (2, 1, 0, 1)
    assert [reject[:2] for reject in stored.rejects] == [(2, "not JSON")]


def test_byte_order_mark_before_json_lines(tmp_path: Path) -> None:
    stored = store_text(tmp_path, "a.jsonl", '\ufeff{"user":"u","a":1}\n{"user":"w"\n')
    assert stored.cells == {("u", "a"): "1"}
    assert [reject[:2] for reject in stored.rejects] == [(2, "not JSON")]


def test_line_in_a_thousand_broken_leaves_the_rest(tmp_path: Path) -> None:
    lines = [f'{{"user":"user{i}","a":{i % 7}}}' for i in range(5000)]
    lines[50::100] = ["broken"] * 50
    report = store_text(tmp_path, "a.jsonl", "\n".join(lines)).reports[0]
    assert (report.read, report.stored, report.rejected) == (5000, 4950, 50)


def test_only_the_first_thousand_rejects_are_listed_but_all_counted(tmp_path: Path) -> None:
    stored = store_text(tmp_path, "a.csv", "user,a\nu,1\n" + ",2\n" * 900 + "w\n" * 900)
    assert stored.counts == (1801, 1, 0, 1800)
    assert [reject[0] for reject in stored.rejects] == list(range(3, 1003))


# Times

TIMES: dict[str, tuple[Any, datetime | None]] = {
    "UTC": ("2026-03-02T10:00:00Z", datetime(2026, 3, 2, 10)),  # noqa: DTZ001 -- stored as UTC
    "offset": ("2026-03-02T10:00:00+02:00", datetime(2026, 3, 2, 8)),  # noqa: DTZ001
    "milliseconds": ("2026-03-02T10:00:00.123Z", datetime(2026, 3, 2, 10, 0, 0, 123000)),  # noqa: DTZ001
    "day": ("2026-03-02", datetime(2026, 3, 2)),  # noqa: DTZ001
    "epoch s": (1772445600, datetime(2026, 3, 2, 10)),  # noqa: DTZ001
    "epoch ms": (1772445600123, datetime(2026, 3, 2, 10, 0, 0, 123000)),  # noqa: DTZ001
    "epoch text": ("1772445600.5", datetime(2026, 3, 2, 10, 0, 0, 500000)),  # noqa: DTZ001
    "junk": ("yesterday", None),
    "impossible": ("2026-02-30T00:00:00Z", None),
    "infinity": ("infinity", None),
    "not a number": ("nan", None),
    "negative": (-5, None),
    "huge": (10**20, None),
    "empty": ("", None),
    "before Christ": ("0044-03-15 (BC) 12:00:00", None),
    "end of all days": ("9999-12-31T12:00:00Z", None),  # no window of it would end
    "year of six digits": ("290000-01-01T00:00:00Z", None),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_are_read_or_rejected(tmp_path: Path, name: str) -> None:
    given_time, expected = TIMES[name]
    stored = store_text(
        tmp_path,
        "a.jsonl",
        json_lines({"user": "u", "time": given_time, "a": 1}, {"user": "w", "a": 1}),
    )
    found = {user: time for user, time, *_ in stored.rows}
    assert found == ({"w": None} if expected is None else {"w": None, "u": expected})
    assert stored.reports[0].rejected == (expected is None)


def test_times_of_parquet_with_and_without_a_zone(tmp_path: Path) -> None:
    moment = datetime(2026, 3, 2, 10)  # noqa: DTZ001 -- no zone on purpose
    time = pl.Series("time", [moment])
    for i, column in enumerate((time, time.dt.replace_time_zone("Europe/Berlin"))):
        frame = pl.DataFrame({"user": ["u"], "time": column, "a": [1]})
        frame.write_parquet(tmp_path / f"{i}.parquet")
        stored = store(tmp_path / f"{i}.db", [tmp_path / f"{i}.parquet"])
        assert {row[1] for row in stored.rows} == {moment.replace(hour=10 - i)}


# Parquet


def test_types_of_parquet_become_the_text_of_json(tmp_path: Path) -> None:
    pl.DataFrame(
        {
            "user": [7],
            "int": [8],
            "float": [8.0],
            "fraction": [0.1],
            "bool": [True],
            "null": pl.Series([None], dtype=pl.String),
            "list": [["b", "a"]],
            "struct": [{"z": 1, "a": [True]}],
            "array": pl.Series([[1, 2]], dtype=pl.Array(pl.Int32, 2)),
            "category": pl.Series(["x"], dtype=pl.Categorical),
        }
    ).write_parquet(tmp_path / "a.parquet")
    stored = store(tmp_path / "db", [tmp_path / "a.parquet"], users=["7"])
    assert stored.values("7") == {
        "int": "8", "float": "8", "fraction": "0.1", "bool": "true", "list": '["b","a"]',
        "struct.a": "[true]", "struct.z": "1", "array": "[1,2]", "category": "x",
    }  # fmt: skip


def test_rejects_of_parquet_name_the_row(tmp_path: Path) -> None:
    pl.DataFrame({"user": ["u", None, ""], "a": [1, 2, 3]}).write_parquet(tmp_path / "a.parquet")
    stored = store(tmp_path / "db", [tmp_path / "a.parquet"])
    assert [reject[0] for reject in stored.rejects] == [2, 3]


# Packing and places

PLAIN = '{"user":"u","a":1}\nbroken\n\n{"user":"w","a":"\u00e9"}\n'


def pack(path: Path, content: bytes) -> Path:
    if path.suffix == ".gz":
        return write(path, gzip.compress(content))
    with duckdb.connect() as connection:  # the one writer of zstd at hand
        connection.execute("CREATE TABLE t AS SELECT $1 AS line", [content.decode()[:-1]])
        connection.execute(
            f"COPY t TO '{path}' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x1f', "
            "COMPRESSION zstd)"
        )
    return path


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_packed_logs_read_as_plain_ones(tmp_path: Path, packing: str) -> None:
    stored = store(tmp_path / "db", [pack(tmp_path / f"a.jsonl.{packing}", PLAIN.encode())])
    assert stored.cells == {("u", "a"): "1", ("w", "a"): "é"}
    assert [reject[:2] for reject in stored.rejects] == [(2, "not JSON")]
    text = 'user,a\nu,"1\n\n2"\nw\n,3\n'
    stored = store(tmp_path / "db2", [pack(tmp_path / f"b.csv.{packing}", text.encode())])
    assert stored.cells == {("u", "a"): "1\n\n2"}
    assert [reject[0] for reject in stored.rejects] == [5, 6]


def test_glob_folder_and_file_named_twice_are_one(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    write(folder / "1.jsonl", json_lines({"user": "u", "a": 1}))
    write(folder / "deep" / "2.csv", "user,a\nw,2\n")
    write(folder / "notes.txt", "no log")
    paths: list[Path | str] = [folder, str(folder / "*.jsonl"), folder / "deep" / "2.csv"]
    stored = store(tmp_path / "db", paths)
    assert [Path(report.source).name for report in stored.reports] == ["1.jsonl", "2.csv"]
    assert stored.cells == {("u", "a"): "1", ("w", "a"): "2"}


def test_file_name_with_glob_signs_and_quotes_is_that_file(tmp_path: Path) -> None:
    for decoy in ("o'ther1.jsonl", "otherX.csv"):
        write(
            tmp_path / decoy, "user,a\nw,1\n" if decoy.endswith("csv") else '{"user":"w","a":1}\n'
        )
    pl.DataFrame({"user": ["w"], "a": [1]}).write_parquet(tmp_path / "z.parquet")
    for name in ("o'ther[1].jsonl", "other?.csv", "*.parquet"):
        path = tmp_path / name
        if name.endswith("parquet"):
            pl.DataFrame({"user": ["u"], "a": [2]}).write_parquet(path)
        else:
            write(path, "user,a\nu,2\n" if name.endswith("csv") else '{"user":"u","a":2}\n')
        assert store(tmp_path / f"{len(name)}.db", [path]).cells == {("u", "a"): "2"}, name


def test_standard_input(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; "
        "from fpmonitor.logs.column_map import ColumnMap; "
        "from fpmonitor.logs.finding import log_files\n"
        "from fpmonitor.store.database import Database\n"
        "from fpmonitor.collectors.choosing import choose_collector\n"
        "from fpmonitor.store.ingest import ingest_log\n"
        "with Database(Path(sys.argv[1]), create=True) as database, log_files(['-']) as logs:\n"
        "    report = ingest_log(database, logs[0], choose_collector(logs[0], ColumnMap()))\n"
        "print(report.source, report.read, report.stored)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(tmp_path / "db")],
        input=PLAIN.encode(), capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.decode().split() == ["<stdin>", "3", "2"]


# Files that cannot be read

UNREADABLE: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.jsonl", b"", "is empty"),
    "blank": ("a.csv", b"\n \n", "is empty"),
    "binary": ("a.jsonl", bytes(range(256)) * 4, "binary data"),
    "corrupt parquet": ("a.parquet", b"PAR1" + b"junk" * 50, "not a readable Parquet"),
    "corrupt gzip": ("a.jsonl.gz", b"\x1f\x8b" + b"junk" * 50, "cannot be read"),
    "corrupt zstd": ("a.jsonl.zst", b"\x28\xb5\x2f\xfd" + b"junk" * 50, "cannot be read"),
    "array": ("a.json", b'[{"user":"u","a":1},', "a JSON array that is broken"),
    "no user": (
        "a.jsonl",
        b'{"visitor":"u","a":1}\n',
        "who a row is; seen: visitor, a; --user visitor",
    ),
    "user alone": ("a.csv", b"user,time\nu,1\n", "no column may be an API"),
    "prose": ("a.csv", b"Dear reader\nhow are you\n", "cannot tell"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files_say_what_and_how_to_mend(tmp_path: Path, name: str) -> None:
    file, content, message = UNREADABLE[name]
    with pytest.raises(InputError, match=message) as caught:
        store_text(tmp_path, file, content)
    assert file in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


VALUES_AS_NAMES = {
    "lines of Fluentd": '2026-03-01T10:00:00Z\talice\t{"mail": "alice@example.org"}\n',
    "users as names": '{"alice@example.org": {"platform": "x"}, "alice": {"platform": "y"}}\n',
}


@pytest.mark.each
@pytest.mark.parametrize("name", VALUES_AS_NAMES)
def test_a_log_that_is_refused_shows_no_value_as_a_name(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.log", VALUES_AS_NAMES[name] * 9)
    assert run(["ingest", str(path), "--db", str(tmp_path / "x.duckdb")]) == 2
    message = capsys.readouterr().err
    assert "alice" not in message
    assert "xxxxx@xxxxxxx.xxx" in message


@pytest.mark.parametrize("cut", [0.5, 0.9])
def test_truncated_gzip_stores_nothing(tmp_path: Path, cut: float) -> None:
    packed = gzip.compress(json_lines(*({"user": f"u{i}", "a": i} for i in range(50_000))).encode())
    path = write(tmp_path / "a.jsonl.gz", packed[: int(len(packed) * cut)])
    with pytest.raises(InputError, match="cannot be read"):
        store(tmp_path / "db", [path])
    with Database(tmp_path / "db") as database:
        assert database.rows("report/batches") == []


def test_missing_places_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, message in (
        (tmp_path / "gone.csv", "no such file"),
        (tmp_path / "*.csv", "no file matches"),
        (tmp_path / "empty", "no logs in this folder"),
    ):
        with pytest.raises(InputError, match=message):
            store(tmp_path / "db", [path])


def test_unknown_collector_lists_those_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "user,a\nu,1\n")
    with pytest.raises(UnknownNameError, match="wide"):
        store(tmp_path / "db", [path], collector="wid")


# Column map


def test_foreign_names_by_a_column_map(tmp_path: Path) -> None:
    map_path = write(
        tmp_path / "map.toml",
        'ignore = ["page"]\nnull = "absent"\n'
        '[columns]\nuser = "visitor.id"\ntime = "at"\nsource = "lib"\n',
    )
    record = {"visitor.id": "u", "at": 1772359200, "lib": "v1", "page": "/", "n": None}
    record["user"] = "an API"
    stored = store_text(tmp_path, "a.jsonl", json_lines(record), ColumnMap.from_toml(map_path))
    start = datetime(2026, 3, 1, 10)  # noqa: DTZ001 -- stored as UTC
    assert stored.rows == {("u", start, "v1", "user", "value", "an API")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[columns", "column map"),
        ("[columns]\nuzer = 'a'", "uzer"),
        ("colums = 1", "colums"),
        ("null = 'none'", "null"),
        ("null = [1]", "null"),
        ("[columns]\nuser = 5", r"Expected `str`.*\$\.columns"),
        ("columns = 5", "columns"),
        ("ignore = 'page'", "ignore"),
        ("ignore = 5", "ignore"),
    ],
)
def test_column_map_errors_name_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ColumnMap.from_toml(write(tmp_path / "map.toml", text))


def test_missing_column_map_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="column map"):
        ColumnMap.from_toml(tmp_path / "gone.toml")


# Anything at all

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=6)
)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
records = st.dictionaries(
    st.sampled_from(["user", "time", "api", "value", "status", "source", "attributes", "a", "A"])
    | st.text(max_size=3),
    json_values,
    max_size=6,
)
json_line = records.map(json.dumps) | st.text(max_size=12) | json_values.map(json.dumps)


def check_counts(name: str, content: bytes, folder: Path) -> None:
    """Whatever the log holds: an InputError, or every record is accounted for."""
    for collector in ("long", "wide"):
        database_path = folder / "any.db"
        database_path.unlink(missing_ok=True)
        try:
            stored = store(database_path, [write(folder / name, content)], collector=collector)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 -- either outcome is right
            continue
        read, kept, duplicates, rejected = stored.counts
        assert read == kept + duplicates + rejected
        assert min(read, kept, duplicates, rejected) >= 0
        assert len(stored.rejects) == rejected


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(lines=st.lists(json_line, min_size=1, max_size=6))
def test_any_json_lines_are_accounted_for(
    lines: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = "\n".join(['{"user":"u","api":"a","value":1}', *lines]).encode("utf-8", "replace")
    check_counts("any.jsonl", content, tmp_path_factory.mktemp("any"))


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(body=st.text(alphabet='au,;"\n\r \t\x00é', max_size=40))
def test_any_csv_is_accounted_for(body: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = ("user,api,value\nu,a,1\n" + body).encode()
    check_counts("any.csv", content, tmp_path_factory.mktemp("any"))
