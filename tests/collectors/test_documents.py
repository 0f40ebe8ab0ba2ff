"""One file of many records is many records, however the writer wrapped them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fpmonitor import Monitor
from fpmonitor.cli import run
from fpmonitor.collectors import documents
from fpmonitor.logs.forms import readable_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = 40


def records(**more: Any) -> list[dict[str, Any]]:
    """Forty users of five platforms and eight numbers of cores, some of which are unknown."""
    return [
        {
            "user": f"u{i:02d}",
            "platform": f"os {i % 5}",
            "cores": None if i % 4 == 0 else i % 8,
            "view": {"width": 300 + i % 3, "touch": i % 2 == 0},
            **more,
        }
        for i in range(USERS)
    ]


def without_user() -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "user"} for row in records()]


def by_column(rows: list[dict[str, Any]], keys: list[str]) -> dict[str, dict[str, Any]]:
    return {name: dict(zip(keys, (row[name] for row in rows), strict=True)) for name in rows[0]}


USER_NAMES = [row["user"] for row in records()]
NUMBERS = [str(i) for i in range(USERS)]
WRITERS: dict[str, Callable[[], Any]] = {
    "pandas columns": lambda: by_column(records(), NUMBERS),
    "pandas columns, users as index": lambda: by_column(without_user(), USER_NAMES),
    "pandas index": lambda: dict(zip(NUMBERS, records(), strict=True)),
    "pandas index of users": lambda: dict(zip(USER_NAMES, without_user(), strict=True)),
    "pandas records": records,
    "pandas split": lambda: {
        "columns": list(records()[0]),
        "index": list(range(USERS)),
        "data": [list(row.values()) for row in records()],
    },
    "pandas split, users as index": lambda: {
        "columns": list(without_user()[0]),
        "index": USER_NAMES,
        "data": [list(row.values()) for row in without_user()],
    },
    "pandas table": lambda: {
        "schema": {"fields": [{"name": "user", "type": "string"}], "pandas_version": "1.4.0"},
        "data": records(),
    },
    "lists": lambda: {name: [row[name] for row in records()] for name in records()[0]},
    "keyed below a name": lambda: {"users": dict(zip(USER_NAMES, without_user(), strict=True))},
    "wrapped": lambda: {"status": "ok", "total": USERS, "data": records()},
    "wrapped twice": lambda: {"response": {"numFound": USERS, "docs": records()}},
    "wrapped under another name": lambda: {"took_ms": 3, "fingerprint_dump": records()},
    "Elasticsearch": lambda: {
        "took": 5,
        "timed_out": False,
        "hits": {
            "total": {"value": USERS, "relation": "eq"},
            "hits": [{"_index": "fp", "_source": row} for row in records()],
        },
    },
    "GeoJSON": lambda: {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": [1, 2]},
                "properties": row,
            }
            for row in records()
        ],
    },
    "ClickHouse": lambda: {
        "meta": [{"name": name, "type": "String"} for name in records()[0]],
        "data": [list(row.values()) for row in records()],
        "rows": USERS,
    },
    "columns under another name": lambda: {
        "cols": list(records()[0]),
        "rows": [list(row.values()) for row in records()],
    },
    "BigQuery": lambda: {
        "kind": "bigquery#queryResponse",
        "schema": {"fields": [{"name": name, "type": "STRING"} for name in records()[0]]},
        "rows": [{"f": [{"v": cell} for cell in row.values()]} for row in records()],
    },
    "Datasette": lambda: {
        "database": "x",
        "columns": list(records()[0]),
        "rows": [list(row.values()) for row in records()],
    },
    "CouchDB": lambda: {
        "total_rows": USERS,
        "offset": 0,
        "rows": [
            {"id": f"d{i % 3}", "key": f"d{i % 3}", "value": {"rev": "1-a"}, "doc": row}
            for i, row in enumerate(records())
        ],
    },
    "JSON:API": lambda: {
        "links": {"self": "x"},
        "data": [{"type": "visit", "attributes": row} for row in records()],
    },
    "GraphQL": lambda: {"data": {"edges": [{"node": row} for row in records()]}},
}


def cells(folder: Path, log: Path, *options: str) -> dict[str, int]:
    """Store a log; return the number of users of each API."""
    told, batches, database = folder / "apis.json", folder / "batches.json", folder / "a.duckdb"
    database.unlink(missing_ok=True)
    shown = ["--format", "json", "-o", str(batches), "-q"]
    assert run(["ingest", str(log), "--db", str(database), *shown, *options]) == 0
    [batch] = json.loads(batches.read_text())["batches"]
    assert (batch["read"], batch["stored"]) == (USERS, USERS), batch
    shown = ["--format", "json", "-o", str(told)]
    assert run(["db", "apis", "--db", str(database), "--k", "2", *shown]) == 0
    return {line["api"]: (line["users"], line["values"]) for line in json.loads(told.read_text())}


EXPECTED = {"platform": (40, 5), "cores": (30, 6), "view.width": (40, 3), "view.touch": (40, 2)}


def only(found: dict[str, int]) -> dict[str, int]:
    return {name: found.get(name) for name in EXPECTED}


@pytest.mark.parametrize("indent", [None, 1], ids=["one line", "several lines"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_document_of_records_is_read_record_by_record(
    tmp_path: Path, name: str, indent: int | None
) -> None:
    log = tmp_path / "a.json"
    log.write_text(json.dumps(WRITERS[name](), indent=indent), encoding="utf-8")
    assert only(cells(tmp_path, log)) == EXPECTED


LINES = [json.dumps(row) for row in records()]
ROWS = [list(records()[0]), *(list(row.values()) for row in records())]
PARTS_OF_ARRAYS = {
    "a comma behind each": ",\n".join(LINES) + ",\n",
    "a comma behind all but the last": ",\n".join(LINES),
    "a comma before all but the first": "\n,".join(LINES) + "\n",
    "a comma behind all after the third": "\n".join(LINES[:3]) + "\n" + ",\n".join(LINES[3:]),
    "an end without a beginning": ",\n".join(LINES) + "\n]\n",
    "an array on each line": "".join(f"[{line}]\n" for line in LINES),
    "arrays of four": "".join(f"[{', '.join(LINES[i : i + 4])}]\n" for i in range(0, USERS, 4)),
    "an array with one record a line": "[\n" + ",\n".join(LINES) + "\n]\n",
    "a JSON text sequence": "".join(f"\x1e{line}\n" for line in LINES),
    "a JSON text sequence over several lines": "".join(
        f"\x1e{json.dumps(row, indent=2)}\n" for row in records()
    ),
    "a JSON text sequence without ends of lines": "".join(f"\x1e{line}" for line in LINES),
    "rows below their names": "".join(json.dumps(row) + "\n" for row in ROWS),
    "an array of rows below their names": json.dumps(ROWS),
    "the same over several lines": json.dumps(ROWS, indent=1),
}


@pytest.mark.parametrize("name", PARTS_OF_ARRAYS)
def test_parts_of_arrays_are_read_as_lines_are(tmp_path: Path, name: str) -> None:
    log = tmp_path / "a.json"
    log.write_text(PARTS_OF_ARRAYS[name], encoding="utf-8")
    assert only(cells(tmp_path, log)) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        "[\n" + ",\n".join(LINES) + "\n",
        "".join(json.dumps(row) + "\n" for row in ROWS[1:]),
        json.dumps(ROWS[1:]),
        f"[{', '.join(LINES)},]",
        "".join(f'["u{i}", "gr\\u00f6\\u00dfe {i % 3}"]\n' for i in range(USERS)),
    ],
    ids=[
        *("breaks off", "rows without names", "an array of them", "a comma behind the last"),
        "rows of texts in other letters",
    ],
)
def test_an_array_that_cannot_be_read_is_refused_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    log = tmp_path / "a.json"
    log.write_text(text, encoding="utf-8")
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb")]) == 2
    assert "a JSON array" in capsys.readouterr().err


def test_what_lies_beside_rows_and_their_names_is_listed(tmp_path: Path) -> None:
    log = tmp_path / "a.json"
    document = WRITERS["Datasette"]() | {"stats": {"ms": 3}, "warnings": [], "next": None}
    log.write_text(json.dumps(document))
    cells(tmp_path, log)
    [batch] = json.loads((tmp_path / "batches.json").read_text())["batches"]
    listed = {m["path"] for m in batch["account"]["members"] if m["kind"] == "not taken"}
    assert listed == {"database", "stats", "warnings", "next"}


@pytest.mark.parametrize("line", ["null", "5", '"x"', "[1, 2]", "true,"])
def test_a_line_of_another_kind_makes_no_copy_of_a_log(tmp_path: Path, line: str) -> None:
    log = tmp_path / "a.json"
    log.write_text("\n".join([*LINES, line]))
    assert readable_log(log, "a.json", tmp_path).path == log


def test_blank_lines_may_stand_among_arrays_below_names(tmp_path: Path) -> None:
    log = tmp_path / "a.json"
    rows = "".join(f'["u{i}", "x"]\n' for i in range(9))
    log.write_text(f'["user", "platform"]\n["u9", "x"]\n\n{rows}')
    with Monitor(tmp_path / "a.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(log)
        assert (batch.stored, monitor.population().apis) == (10, ("platform",))


def test_a_name_that_is_no_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.json"
    log.write_text('["user","pl\\ud800x"]\n' + '["u","x"]\n' * 9)
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb")]) == 2
    assert "a JSON array" in capsys.readouterr().err


OUTER = {"screen": {"width": 800}, "languages": ["de"], "links": {"self": "x"}}
INNER = {
    "attributes": lambda row: {"user": row["user"], "attributes": row},
    "attributes below the user": lambda row: {"type": "visit", "attributes": row},
    "properties": lambda row: {"type": "Feature", "properties": row},
    "_source": lambda row: {"_id": f"d{row['user']}", "_source": row},
}


@pytest.mark.parametrize("name", INNER)
def test_what_lies_beside_a_record_of_a_document_is_taken_or_listed(
    tmp_path: Path, name: str
) -> None:
    log = tmp_path / "a.json"
    rows = [{**INNER[name](row), **OUTER} for row in records()]
    if name == "attributes":
        for row in rows:
            row["attributes"] = {k: v for k, v in row["attributes"].items() if k != "user"}
    log.write_text(json.dumps({"data": rows}))
    found = cells(tmp_path, log)
    assert only(found) == EXPECTED
    assert {"screen.width", "languages"} <= {*found}
    [batch] = json.loads((tmp_path / "batches.json").read_text())["batches"]
    listed = {member["path"]: member["records"] for member in batch["account"]["members"]}
    assert USERS in {listed.get("links.self"), listed.get("data.links")}, listed


def test_names_of_single_records_beside_them_are_listed_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.json"
    rows = [
        {"_source": row, **{f"{'n' * 300}{i} {j}": {"x": 1} for j in range(20)}, **OUTER}
        for i, row in enumerate(records())
    ]
    log.write_text(json.dumps({"hits": rows, **{f"m{i}": 1 for i in range(900)}}))
    assert "screen.width" in cells(tmp_path, log)
    [batch] = json.loads((tmp_path / "batches.json").read_text())["batches"]
    listed = {m["path"]: m["records"] for m in batch["account"]["members"]}
    assert (listed["*"], listed["hits.*"], len(listed) < 500) == (1, USERS - 9, True)
    capsys.readouterr()
    assert run(["ingest", str(log), "--db", str(tmp_path / "b.duckdb")]) == 0
    assert max(map(len, capsys.readouterr().err.splitlines())) < 2000


def test_each_name_beside_the_records_of_a_document_is_judged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = Counter[str]()
    monkeypatch.setattr(documents, "meanings", lambda name: judged.update([name]) or ())
    monkeypatch.setattr(documents, "MAX_APIS", 30)
    rows = [{"_source": row, f"n{i}": {"x": 1}, **OUTER} for i, row in enumerate(records())]
    log = tmp_path / "a.json"
    log.write_text(json.dumps({"hits": rows}))
    assert run(["ingest", str(log), "--db", str(tmp_path / "b.duckdb"), "-q"]) == 0
    assert {*judged.values()} == {1}
    assert len(judged) == 30


@pytest.mark.parametrize(
    "document",
    [
        {f"key{i}": [row] for i, row in enumerate(without_user())},
        {f"key{i}": row for i, row in enumerate(without_user())},
        {"those": records(), **{f"member{i}": i for i in range(USERS)}},
    ],
    ids=["lists by key", "objects by key", "members beside a list"],
)
@pytest.mark.each
def test_no_more_keys_of_a_document_are_judged_than_there_may_be_apis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: dict[str, Any]
) -> None:
    judged = Counter[str]()
    monkeypatch.setattr(documents, "meanings", lambda name: judged.update([name]) or ())
    monkeypatch.setattr(documents, "MAX_APIS", 30)
    log = tmp_path / "a.json"
    log.write_text(json.dumps(document))
    with Monitor(tmp_path / "a.duckdb", create=True) as monitor:
        assert monitor.ingest([str(log)])[0].users == USERS
    assert sum(name.startswith(("key", "member")) for name in judged) == 30


@pytest.mark.parametrize("name", ["pandas index", "pandas columns", "wrapped", "lists"])
def test_rows_of_a_document_may_be_the_users(tmp_path: Path, name: str) -> None:
    log = tmp_path / "a.json"
    log.write_text(json.dumps(WRITERS[name]()), encoding="utf-8")
    assert only(cells(tmp_path, log, "--user", "row", "--ignore", "user")) == EXPECTED


def test_a_document_of_one_record_stays_one(tmp_path: Path) -> None:
    one = {
        "user": "u1",
        "data": [{"a": 1}, {"a": 2}],
        "plugins": [{"name": f"p{i}"} for i in range(9)],
    }
    log, batches = tmp_path / "a.json", tmp_path / "batches.json"
    log.write_text(json.dumps(one))
    shown = ["--format", "json", "-o", str(batches), "-q"]
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb"), *shown]) == 0
    assert json.loads(batches.read_text())["batches"][0]["read"] == 1


def test_a_result_of_a_library_alone_stays_one_record(tmp_path: Path) -> None:
    components = {
        name: {"value": value, "duration": 1}
        for name, value in {
            "platform": "x",
            "fonts": ["a"],
            "cores": 8,
            "touch": {"points": 1},
            "cookies": True,
        }.items()
    }
    log, batches = tmp_path / "a.json", tmp_path / "batches.json"
    log.write_text(json.dumps({"components": components}))
    shown = ["--format", "json", "-o", str(batches), "-q"]
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb"), *shown]) == 0
    [batch] = json.loads(batches.read_text())["batches"]
    assert (batch["collector"], batch["read"]) == ("fingerprintjs", 1)


def test_a_log_of_hashes_alone_is_refused_for_that_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text("".join(json.dumps({"user": i, "print": i * 7}) + "\n" for i in range(30)))
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb"), "--ignore", "print"]) == 2
    assert "beside 'user' no column may be an API" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet", "json"])
@pytest.mark.parametrize("user", ["uid", "visitr.id"])
def test_a_misspelt_user_is_told_beside_the_nearest_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str, user: str
) -> None:
    log = tmp_path / f"a.{ending}"
    frame = pl.DataFrame([{"u_id": row["user"], "os": row["platform"]} for row in records()])
    if ending == "json":
        log.write_text(json.dumps({"data": frame.to_dicts()}))
    else:
        write = {"jsonl": pl.DataFrame.write_ndjson, "csv": pl.DataFrame.write_csv}
        write.get(ending, pl.DataFrame.write_parquet)(frame, log)
    assert run(["ingest", str(log), "--user", user, "--db", str(tmp_path / "a.duckdb")]) == 2
    error = capsys.readouterr().err
    assert f"no column '{user}'" in error
    assert ("nearest: u_id" in error) == (user == "uid")


def test_the_nearest_name_of_a_user_may_lie_within_an_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.jsonl"
    rows = [{"Item": {"uid": {"S": row["user"]}, "os": {"S": "x"}}} for row in records()]
    log.write_text("\n".join(map(json.dumps, rows)))
    assert run(["ingest", str(log), "--user", "uid", "--db", str(tmp_path / "a.duckdb")]) == 2
    assert "nearest: Item.uid" in capsys.readouterr().err


def test_a_first_record_in_place_of_names_is_not_shown_as_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.csv"
    log.write_text("".join(f"ada{i % 9},os {i % 5}\n" for i in range(USERS)))
    assert run(["ingest", str(log), "--user", "ada", "--db", str(tmp_path / "a.duckdb")]) == 2
    assert "ada0" not in capsys.readouterr().err


def test_texts_that_are_no_table_lack_no_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.txt"
    log.write_text("".join(f"{row}\n" for row in records()))
    assert run(["ingest", str(log), "--user", "uid", "--db", str(tmp_path / "a.duckdb")]) == 2
    assert "cannot tell what this jsonl log holds" in capsys.readouterr().err


def test_members_that_both_hold_records_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.json"
    log.write_text(json.dumps({"users": records(), "devices": records()}))
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb")]) == 2
    error = capsys.readouterr().err
    assert "users, devices" in error
    assert "jq -c '.users[]'" in error


@pytest.mark.parametrize("user", [{"id": 1}, ["a"], '{"id": 1}', "[1]"])
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_user_that_is_an_object_or_a_list_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str, user: object
) -> None:
    log = tmp_path / f"a.{ending}"
    if ending == "jsonl":
        log.write_text("\n".join(json.dumps({"user": user, "x": i % 3}) for i in range(30)))
    elif ending == "csv":
        text = user if isinstance(user, str) else json.dumps(user)
        with log.open("w", newline="") as file:
            csv.writer(file).writerows([["user", "x"], *([text, i % 3] for i in range(30))])
    else:
        pl.DataFrame({"user": [user] * 30, "x": [i % 3 for i in range(30)]}).write_parquet(log)
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb")]) == 2
    assert "user is an object or a list" in capsys.readouterr().err


def test_a_user_in_braces_is_a_user(tmp_path: Path) -> None:
    log = tmp_path / "a.csv"
    lines = [f"{{8A69-{i:02d}}},os {i % 5}" for i in range(USERS)]
    log.write_text("\n".join(["user,platform", *lines]))
    assert cells(tmp_path, log)["platform"] == (40, 5)


# Objects in texts


def as_text(rows: list[dict[str, Any]], indent: int | None = None) -> list[dict[str, Any]]:
    """The records with all but their users in a text."""
    return [
        {
            "user": row["user"],
            "props": json.dumps({k: v for k, v in row.items() if k != "user"}, indent=indent),
        }
        for row in rows
    ]


def write_csv(rows: list[dict[str, Any]], log: Path) -> None:
    with log.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


TEXTS: dict[str, Callable[[list[dict[str, Any]], Path], object]] = {
    "a.csv": write_csv,
    "a.tsv": lambda rows, log: pl.DataFrame(rows).write_csv(log, separator="\t"),
    "a.jsonl": lambda rows, log: pl.DataFrame(rows).write_ndjson(log),
    "a.json": lambda rows, log: log.write_text(json.dumps({"data": rows})),
    "a.parquet": lambda rows, log: pl.DataFrame(rows).write_parquet(log),
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", TEXTS)
def test_a_column_of_which_every_text_is_an_object_is_read_as_that_object(
    tmp_path: Path, name: str, indent: int | None
) -> None:
    log = tmp_path / name
    TEXTS[name](as_text(records(), indent), log)
    found = cells(tmp_path, log)
    assert {f"props.{api}": seen for api, seen in EXPECTED.items()} == found


@pytest.mark.parametrize("name", TEXTS)
def test_texts_in_texts_and_in_objects_are_read(tmp_path: Path, name: str) -> None:
    log = tmp_path / name
    inner = as_text(records())
    TEXTS[name]([{"user": row["user"], "more": json.dumps({"event": row})} for row in inner], log)
    found = cells(tmp_path, log, "--ignore", "more.event.user")
    assert {name.split(".")[-1] for name in found} >= {"platform", "cores", "view"}


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_late_text_that_is_no_object_is_rejected_and_counted(tmp_path: Path, name: str) -> None:
    log, batches = tmp_path / name, tmp_path / "batches.json"
    rows = as_text(records()) * 200
    rows = [{**row, "user": f"v{i}"} for i, row in enumerate(rows)]
    rows[7500]["props"], rows[7501]["props"] = "{broken", "7"
    rows[7502]["props"] = ""
    TEXTS[name](rows, log)
    shown = ["--format", "json", "-o", str(batches), "-q"]
    assert run(["ingest", str(log), "--db", str(tmp_path / "a.duckdb"), *shown]) == 0
    [batch] = json.loads(batches.read_text())["batches"]
    assert (batch["read"], batch["rejected"]) == (8000, 2)


def test_broken_lines_of_such_a_table_are_rejected_at_their_lines(tmp_path: Path) -> None:
    log, rejects = tmp_path / "a.csv", tmp_path / "rejects.json"
    write_csv(as_text(records()), log)
    lines = log.read_text().splitlines()
    lines.insert(11, "too,many,fields,here")
    log.write_text("\n".join(lines) + "\n")
    database = str(tmp_path / "a.duckdb")
    assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    shown = ["--format", "json", "-o", str(rejects)]
    assert run(["db", "rejects", "--db", database, *shown]) == 0
    [reject] = json.loads(rejects.read_text())
    assert reject["line"] == 12
