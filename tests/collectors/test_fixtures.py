"""The fixture logs are what their README says, by parsers that share no code with the tool."""

from __future__ import annotations

import csv
import gzip
import importlib.metadata
import io
import json
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = ("browsers-1.jsonl.gz", "browsers-2.csv.gz", "browsers-3.parquet")
EMPTY = "\x00"  # stands for a quoted empty field, which the csv module does not tell from none
SCRIPT_NEEDS = "apify_fingerprint_datapoints"


@dataclass
class Log:
    """One decoded log: cells by user, users' times, and the lines of its faults."""

    cells: dict[str, dict[str, str]] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)
    faults: dict[str, list[int]] = field(default_factory=dict)
    read: int = 0

    def reject(self, fault: str, line: int) -> None:
        self.faults.setdefault(fault, []).append(line)

    def counts(self) -> dict[str, Any]:
        duplicates = len(self.faults.get("duplicate", []))
        rejected = sum(map(len, self.faults.values())) - duplicates
        return {
            "read": self.read,
            "stored": self.read - duplicates - rejected,
            "duplicates": duplicates,
            "rejected": rejected,
            "users": len(self.cells),
            "cells": sum(map(len, self.cells.values())),
            "fault_lines": self.faults,
        }


def canonical(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def fault_of_long(line: str, seen: set[str]) -> str | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return "cut" if line.startswith("{") else "not JSON"
    if not isinstance(record, dict):
        return "array"
    for name in ("user", "api"):
        if name not in record:
            return f"no {name}"
    if record.get("status", "value") != "value":
        return "bad status"
    return "duplicate" if line in seen else None


def read_long(path: Path) -> Log:
    log, seen = Log(), set[str]()
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    for number, line in enumerate(lines, start=1):
        log.read += 1
        fault = fault_of_long(line, seen)
        if fault:
            log.reject(fault, number)
            continue
        seen.add(line)
        record = json.loads(line)
        cells = log.cells.setdefault(record["user"], {})
        assert record["api"] not in cells
        cells[record["api"]] = canonical(record["value"])
        log.times[record["user"]] = record["time"]
    return log


def fault_of_row(row: list[str], width: int, users: dict[str, Any]) -> str | None:
    if len(row) != width:
        return "too few fields" if len(row) < width else "too many fields"
    if not row[0]:
        return "no user"
    return "duplicate" if row[0] in users else None


def read_csv(path: Path) -> Log:
    log = Log()
    content = gzip.decompress(path.read_bytes()).decode()
    content = re.sub(r'(?<=,)""(?=[,\n])', EMPTY, content)
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    header = next(reader)
    start = reader.line_num + 1
    for row in reader:
        log.read += 1
        fault = fault_of_row(row, len(header), log.cells)
        if fault:
            log.reject(fault, start)
        else:
            named = dict(zip(header, row, strict=True))
            user = named.pop("user")
            log.times[user] = named.pop("time")
            log.cells[user] = {a: t.replace(EMPTY, "") for a, t in named.items() if t}
        start = reader.line_num + 1
    return log


def read_parquet(path: Path) -> Log:
    log = Log()
    for row in pl.read_parquet(path).iter_rows(named=True):
        log.read += 1
        user = row.pop("user")
        assert user not in log.cells
        log.times[user] = row.pop("time").strftime("%Y-%m-%dT%H:%M:%SZ")
        log.cells[user] = {api: canonical(v) for api, v in row.items() if v is not None}
    return log


@pytest.fixture(scope="module")
def logs() -> dict[str, Log]:
    readers = (read_long, read_csv, read_parquet)
    return {name: read(FIXTURES / "logs" / name) for name, read in zip(LOGS, readers, strict=True)}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads((FIXTURES / "logs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", LOGS)
def test_each_log_counts_to_what_logs_json_says(name, logs, expected):
    assert logs[name].counts() == expected["files"][name]


def test_every_kind_of_fault_occurs(logs):
    assert set(logs[LOGS[0]].faults) == {
        "cut", "not JSON", "no user", "no api", "array", "bad status", "duplicate",
    }  # fmt: skip
    assert set(logs[LOGS[1]].faults) == {
        "too few fields", "too many fields", "no user", "duplicate",
    }  # fmt: skip


def test_no_user_stands_in_two_logs_and_all_visits_lie_in_one_week(logs, expected):
    users = Counter(user for log in logs.values() for user in log.cells)
    assert len(users) == users.total() == expected["users"] == 20_000
    times = [
        datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        for log in logs.values()
        for time in log.times.values()
    ]
    assert len(times) == 20_000
    assert datetime(2026, 3, 2, tzinfo=UTC) <= min(times)
    assert max(times) < datetime(2026, 3, 9, tzinfo=UTC)


def test_law_adds_up_and_is_merged(fixture_law, expected):
    rows, values = fixture_law.rows, fixture_law.values
    assert rows.columns == [*values, "weight"]
    assert rows["weight"].cast(pl.Int64).sum() == expected["population"]
    assert rows["weight"].min() >= 1
    assert rows.select(list(values)).is_unique().all()
    for api, texts in values.items():
        assert len(set(texts)) == len(texts)
        assert set(rows[api].unique()) - {0} == set(range(1, len(texts) + 1))


def encode(cells: dict[str, str], code_of: dict[str, dict[str, int]]) -> tuple[int, ...]:
    assert cells.keys() <= code_of.keys()
    return tuple(code_of[api][cells[api]] if api in cells else 0 for api in code_of)


@pytest.fixture(scope="module")
def encoded(logs, fixture_law) -> dict[str, pl.DataFrame]:
    """The users of each log in the codes of the law; an unknown value is a KeyError."""
    code_of = {
        api: {text: code for code, text in enumerate(texts, start=1)}
        for api, texts in fixture_law.values.items()
    }
    types = fixture_law.rows.drop("weight").schema
    return {
        name: pl.DataFrame(
            [encode(cells, code_of) for cells in log.cells.values()], schema=types, orient="row"
        )
        for name, log in logs.items()
    }


@pytest.mark.parametrize("name", LOGS)
def test_every_user_is_a_browser_of_the_law(name, encoded, fixture_law):
    strangers = encoded[name].join(fixture_law.rows, on=fixture_law.apis, how="anti")
    assert strangers.is_empty()


@pytest.mark.parametrize("name", LOGS)
def test_marginals_agree_with_the_law_within_five_sigma(name, encoded, fixture_law):
    users = encoded[name]
    total = fixture_law.rows["weight"].cast(pl.Int64).sum()
    for api in fixture_law.apis:
        law = fixture_law.rows.group_by(api).agg(pl.col("weight").cast(pl.Int64).sum())
        both = law.join(users[api].value_counts(), on=api, how="left").fill_null(0)
        for code, weight, count in both.iter_rows():
            share = weight / total
            sigma = math.sqrt(users.height * share * (1 - share))
            # + 5: a value expected once or less is Poisson, not normal
            assert abs(count - users.height * share) <= 5 * sigma + 5, (api, code)


def users_in_small_groups(users: pl.DataFrame, apis: tuple[str, ...], k: int) -> int:
    groups = users.group_by(apis).len()["len"].cast(pl.Int64)
    return int(groups.filter(groups < k).sum())


@pytest.mark.parametrize(
    ("apis", "allowed"),
    [
        (("Screen.width",), True),
        (("Navigator.deviceMemory", "Navigator.platform", "Screen.colorDepth"), True),
        (("Navigator.hardwareConcurrency", "Window.devicePixelRatio"), True),
        (("Navigator.hardwareConcurrency", "Screen.height"), False),
        (("FontFaceSet.check",), False),
        (("Navigator.userAgent", "Screen.height"), False),
    ],
)
def test_borders_at_five_percent_are_interesting(apis, allowed, encoded, fixture_law):
    users = pl.concat(encoded.values())
    truth = fixture_law.true_exposure(apis, k=10, population=20_000)
    assert (truth < 0.05) is allowed
    observed = users_in_small_groups(users, apis, 10) / users.height
    assert observed == pytest.approx(truth, abs=0.01)


def test_logs_hold_the_values_that_break_careless_readers(logs):
    """Empty text beside absent, newlines, quotes, commas, text beyond ASCII: in every form."""
    for log in logs.values():
        users = log.cells.values()
        texts = {text for cells in users for text in cells.values()}
        model = [cells.get("NavigatorUAData.getHighEntropyValues#model") for cells in users]
        assert "" in model
        assert None in model
        for needle in ("\n", '"', ",", "黑体"):
            assert any(needle in text for text in texts), needle
    assert b"\\u9ed1" in gzip.decompress((FIXTURES / "logs" / LOGS[0]).read_bytes())


def test_parquet_keeps_numbers_booleans_and_lists_as_such():
    types = set(pl.read_parquet_schema(FIXTURES / "logs" / LOGS[2]).values())
    assert types == {
        pl.String(), pl.Int64(), pl.Boolean(), pl.List(pl.String()), pl.Datetime("ms", "UTC"),
    }  # fmt: skip


def test_statuses_show_every_status_and_users_of_their_own():
    lines = (FIXTURES / "extra" / "statuses.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert {r.get("status", "value") for r in records} == {"value", "undefined", "error"}
    assert all(r["user"].startswith("status-") for r in records)
    assert {"accept", "Accept"} <= {r["api"] for r in records}
    assert len(set(lines)) == len(lines)


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_files_stay_small():
    assert folder_size(FIXTURES / "logs") < 2_500_000
    assert folder_size(FIXTURES / "law") < 3_000_000
    assert folder_size(FIXTURES / "extra") < 300_000


def make(out: Path, *options: str) -> dict[str, bytes]:
    script = FIXTURES / "make_logs.py"
    subprocess.run([sys.executable, str(script), "--out", str(out), *options], check=True)
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


@pytest.mark.long
def test_script_writes_the_same_bytes_for_the_same_seed(tmp_path):
    pytest.importorskip(SCRIPT_NEEDS, reason=f"{SCRIPT_NEEDS} is not installed")
    tiny = ("--users", "200", "--population", "2000")
    first = make(tmp_path / "first", *tiny)
    assert len(first) == 7
    assert make(tmp_path / "second", *tiny) == first
    other = make(tmp_path / "other", *tiny, "--seed", "1")
    assert other["logs/browsers-2.csv.gz"] != first["logs/browsers-2.csv.gz"]


@pytest.mark.long
def test_committed_files_are_what_the_script_writes(tmp_path):
    pytest.importorskip(SCRIPT_NEEDS, reason=f"{SCRIPT_NEEDS} is not installed")
    version = importlib.metadata.version(SCRIPT_NEEDS)
    if version != "0.15.0":
        pytest.skip(f"made with {SCRIPT_NEEDS} 0.15.0, installed is {version}")
    for name in make(tmp_path):
        committed, made = FIXTURES / name, tmp_path / name
        if name.endswith(".parquet"):  # other versions of Polars pack the same rows differently
            assert_frame_equal(pl.read_parquet(committed), pl.read_parquet(made))
        elif name.endswith(".gz"):
            packed = committed.read_bytes(), made.read_bytes()
            assert gzip.decompress(packed[0]) == gzip.decompress(packed[1]), name
        else:
            assert committed.read_bytes() == made.read_bytes(), name
