"""Tables as strangers have them are read whole, or refused with a reason."""

from __future__ import annotations

import gzip
import json
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb
import polars as pl
import pytest

from fpmonitor import ColumnMap, InputError, Monitor
from fpmonitor.cli import run
from fpmonitor.duckdb_connection import load_httpfs
from fpmonitor.policy import SampleModel

if TYPE_CHECKING:
    from pathlib import Path

RECORDS: list[dict[str, Any]] = [
    {"user": f"u{i}", "screenWidth": (1920, 1280)[i % 2], "ua": f'Mözilla "{i % 3}"\n, x'}
    for i in range(60)
]


def told(log: Any, tmp_path: Path, **options: Any) -> Any:
    """Batches, and all that is stored of a log."""
    database = tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb"
    with Monitor(database, create=True) as monitor:
        [batch] = monitor.ingest(log, **options)
        rows = monitor.database._connection.execute(
            "SELECT api.name, value.status, value.text, count(*) FROM observation "
            "JOIN api USING (api_id) JOIN value USING (api_id, value_id) GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    return (batch.read, batch.stored, batch.rejected, batch.users), rows


def as_lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def as_csv(delimiter: str = ",", end: str = "\r\n") -> str:
    rows = [[str(value).replace('"', '""') for value in record.values()] for record in RECORDS]
    return "".join(
        delimiter.join(f'"{cell}"' for cell in row) + end for row in [list(RECORDS[0]), *rows]
    )


JSON_FORMS = {
    "array": json.dumps(RECORDS).encode(),
    "array over several lines": json.dumps(RECORDS, indent=1).encode(),
    "objects over several lines": "\n".join(json.dumps(r, indent=2) for r in RECORDS).encode(),
    "array behind a byte order mark": json.dumps(RECORDS).encode("utf-8-sig"),
    "array in UTF-16": json.dumps(RECORDS).encode("utf-16"),
}
CSV_FORMS = {
    "semicolons, CR LF, byte order mark": as_csv(";").encode("utf-8-sig"),
    "a first line that names the separator": b"sep=;\r\n" + as_csv(";").encode(),
    "blank rows of a sheet": ("\r\n;;;\r\n\n" + as_csv(";")).encode("utf-8-sig"),
    "remarks of a report": b"# ----\r\n# Tech, details\r\n# 20261001-20261031\r\n\r\n"
    + as_csv().encode(),
    "remarks behind a byte order mark": ("####\n#\n# Report suite: x\n####\n" + as_csv()).encode(
        "utf-8-sig"
    ),
    "tabs in UTF-16": as_csv("\t").encode("utf-16"),
    "UTF-16 without a mark": as_csv(";").encode("utf-16-le"),
    "UTF-16, large end first": as_csv(";").encode("utf-16-be"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", [*JSON_FORMS, *CSV_FORMS])
def test_every_form_of_a_table_holds_the_same(form: str, packed: bool, tmp_path: Path) -> None:
    content = JSON_FORMS.get(form) or CSV_FORMS[form]
    (tmp_path / "log").write_bytes(gzip.compress(content) if packed else content)
    (tmp_path / "plain").write_bytes(as_lines(RECORDS))
    expected = told(tmp_path / "plain", tmp_path)
    assert expected[0] == (60, 60, 0, 60)
    assert told(tmp_path / "log", tmp_path) == expected


@pytest.mark.parametrize("delimiter", [", ", " | ", " ; "])
def test_names_have_no_spaces_around_them(tmp_path: Path, delimiter: str) -> None:
    rows = [["user", "platform"], *([f"u{i}", "x"] for i in range(9))]
    (tmp_path / "a.csv").write_text("".join(f"{delimiter.join(row)}\n" for row in rows))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(tmp_path / "a.csv")
        assert (batch.stored, monitor.population().apis) == (9, ("platform",))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_maps_may_have_the_spaces_that_a_header_has(tmp_path: Path, ending: str) -> None:
    log, plan = tmp_path / f"a.{ending}", tmp_path / "map.toml"
    rows = [{"platform": "x", " user": f"u{i}", " cores": 2, " page": "y"} for i in range(9)]
    if ending == "csv":
        lines = [",".join(map(str, row)) for row in (rows[0], *(row.values() for row in rows))]
        log.write_text("".join(f"{line}\n" for line in lines))
    else:
        pl.DataFrame(rows).write_parquet(log)
    plan.write_text('ignore = [" page"]\n[columns]\nuser = " user"\n[apis]\n" cores" = ""\n')
    told = ["ingest", str(log), "--columns", str(plan)]
    assert run([*told, "--plan", str(tmp_path / "again.toml")]) == 0
    assert run([*told, "--db", str(tmp_path / "x.duckdb")]) == 0
    with Monitor(tmp_path / "x.duckdb") as monitor:
        apis = {name.strip() for name in monitor.population().apis}
        assert (monitor.population().users, apis) == (9, {"platform", "cores"})


@pytest.mark.parametrize("before", ["sep=,\n", "# a report\n\n", "\n,,\n"])
def test_a_byte_that_is_not_utf_8_costs_its_record_alone(tmp_path: Path, before: str) -> None:
    rows = [f"u{i},x\n" for i in range(8)]
    log = before + "user,platform\nu9,grün\n" + "".join(rows)
    (tmp_path / "a.csv").write_bytes(log.encode("latin-1"))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(tmp_path / "a.csv")
        assert (batch.stored, batch.rejected) == (8, 1)


def test_a_byte_that_is_not_utf_8_behind_a_mark_costs_its_record_alone(tmp_path: Path) -> None:
    lines = as_lines([{"user": f"u{i}", "platform": "x"} for i in range(8)])
    broken = '{"user": "u9", "platform": "grün"}\n'.encode("latin-1")
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + lines + broken)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(tmp_path / "a.jsonl")
        assert (batch.stored, batch.rejected) == (8, 1)


def test_names_behind_a_number_sign_are_no_remark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# user,platform\n" + "".join(f"u{i},x\n" for i in range(9)))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        column_map = ColumnMap({"user": "# user"})
        [batch] = monitor.ingest(tmp_path / "a.csv", column_map=column_map)
        assert (batch.stored, monitor.population().apis) == (9, ("platform",))


def test_names_behind_a_number_sign_stay_names_above_agents_with_separators(tmp_path: Path) -> None:
    agent = '"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141"'
    rows = "".join(f"u{i},{agent}\n" for i in range(9))
    (tmp_path / "a.csv").write_text("# user,userAgent\n" + rows)
    for name, user in (("x", "# user"), ("y", "row")):
        with Monitor(tmp_path / name, create=True) as monitor:
            column_map = ColumnMap({"user": user}, ignore=frozenset({"# user"}))
            [batch] = monitor.ingest(tmp_path / "a.csv", column_map=column_map)
            assert (batch.stored, monitor.population().apis) == (9, ("userAgent",))


def test_one_column_whose_name_has_a_number_sign_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# platform\n" + "".join(f"p{i % 3}\n" for i in range(9)))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(tmp_path / "a.csv", column_map=ColumnMap({"user": "row"}))
        assert (batch.stored, monitor.population().apis) == (9, ("# platform",))


def test_one_column_below_remarks_has_the_name_below_them(tmp_path: Path) -> None:
    text = "# export of a day\n# 2026-01-01\nplatform\n" + "".join(f"p{i % 3}\n" for i in range(9))
    (tmp_path / "a.csv").write_text(text)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(tmp_path / "a.csv", column_map=ColumnMap({"user": "row"}))
        assert (batch.stored, monitor.population().apis) == (9, ("platform",))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_records_below_remarks_are_located_in_the_file(tmp_path: Path, mark: bytes) -> None:
    rows = "".join(f"u{i},x\n" for i in range(9))
    text = f"# a\rreport\n# ----\n\nuser,platform\nu9,x\n,x\n{rows}u,x,y\n"
    (tmp_path / "a.csv").write_bytes(mark + text.encode())
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(tmp_path / "a.csv")
        assert (batch.stored, monitor.population().apis) == (10, ("platform",))
        assert [reject.line for reject in monitor.rejects()] == [6, 16]


def test_an_array_is_counted_and_located_by_its_elements(tmp_path: Path) -> None:
    records = [*RECORDS[:5], {"user": ""}, *RECORDS[5:], 7]
    (tmp_path / "a.json").write_text(json.dumps(records, indent=1))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(tmp_path / "a.json")
        assert (batch.read, batch.stored, batch.rejected) == (62, 60, 2)
        assert [(reject.line, reject.reason) for reject in monitor.rejects()] == [
            (6, "user is missing"),
            (62, "not a JSON object"),
        ]


@pytest.mark.parametrize("content", ['[{"user": "u", "a": 1},', "[1, 2]", "[[1]]"])
def test_an_array_that_is_no_table_is_refused_as_such(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError, match="a JSON array that is broken"):
        told(tmp_path / "a.json", tmp_path)


def test_a_wide_log_with_one_header_keeps_its_other_columns(tmp_path: Path) -> None:
    records = [
        {"user": f"u{i}", "time": "2026-01-01T00:00:00Z", "http:user-agent": "x", "Screen.width": i}
        for i in range(5)
    ]
    (tmp_path / "a.jsonl").write_bytes(as_lines(records))
    numbers = [{"user": "u", "http:user-agent": "x", "http:dnt": 1}]
    (tmp_path / "b.jsonl").write_bytes(as_lines(numbers))
    apis = [{row[0] for row in told(tmp_path / f"{name}.jsonl", tmp_path)[1]} for name in "ab"]
    assert apis == [{"http:user-agent", "Screen.width"}, {"http:user-agent", "http:dnt"}]


def har(agent: str, started: str) -> str:
    headers = [{"name": "User-Agent", "value": agent}]
    entry = {"startedDateTime": started, "request": {"headers": headers}}
    return json.dumps({"log": {"version": "1.2", "entries": [entry]}})


def test_two_har_files_of_one_name_are_two_visitors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, agent, started in (("a", "x", "10:00:01"), ("b", "y", "11:30:00")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "session.har").write_text(har(agent, f"2026-01-01T{started}Z"))
        monkeypatch.chdir(tmp_path / folder)
        with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
            monitor.ingest("session.har", column_map=ColumnMap(visitor=True))
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert monitor.exposure([["http:user-agent"]], k=2)[0].to_json()["users"] == 2


def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, log: object) -> str:
    assert run(["ingest", str(log), "--db", str(tmp_path / "x.duckdb")]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("address", ["https://example.org/a.csv", "s3://bucket/a//b.parquet"])
def test_an_address_is_refused_as_written(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    err = refused(capsys, tmp_path, address)
    assert address in err
    assert "curl" in err


def test_a_log_whose_records_are_all_rejected_is_refused_with_the_commonest_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [{"user": "", "a": 1}] * 5 + [{"user": "u", "time": "soon", "a": 1}] * 3
    (tmp_path / "a.jsonl").write_bytes(as_lines(records))
    (tmp_path / "a.csv").write_text("user,a\nu\nu,1,2\nu,1,2\n")
    for name, number, reason in (("a.jsonl", 8, "user is missing"), ("a.csv", 3, "too many field")):
        err = refused(capsys, tmp_path, tmp_path / name)
        assert f"every record ({number}) was rejected" in err
        assert reason in err
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert monitor.batches() == []


def test_columns_are_shown_where_the_user_must_be_picked_but_no_first_record(
    tmp_path: Path,
) -> None:
    log = tmp_path / "a.csv"
    log.write_text('"visitor id";screenWidth;"userAgent"\nv1;1920;Firefox\n')
    with pytest.raises(InputError, match="columns visitor id, screenWidth, userAgent") as caught:
        told(log, tmp_path)
    assert "--user 'visitor id'" in caught.value.hint
    log.write_text('"first user id";screenWidth;"userAgent"\nv1;1920;Firefox\n')
    with pytest.raises(InputError, match="--user NAME"):  # a part of a name is no column
        told(log, tmp_path)
    log.write_text("alice,Linux,Firefox\nbob,Windows,Firefox\n")
    with pytest.raises(InputError) as caught:
        told(log, tmp_path)
    assert "alice" not in str(caught.value)
    assert "Linux" not in str(caught.value)
    assert told(log, tmp_path, column_map=ColumnMap({"user": "alice"}))[0] == (1, 1, 0, 1)


NESTED: list[dict[str, Any]] = [
    {
        "user": f"u{i}",
        "connection": {"rtt": 50 * (i % 3), "effectiveType": "4g"} if i % 4 else None,
        "screen": {"size": {"width": 1920 + i % 2}, "depths": [24, 30]},
        "v": {"w": 1} if i % 2 else 5,
    }
    for i in range(40)
]


def test_nested_members_are_an_api_a_leaf_in_json_parquet_and_frames(tmp_path: Path) -> None:
    records = [{**record, "v": 1} for record in NESTED]
    frame = pl.DataFrame(records)
    frame.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_bytes(as_lines(records))
    (tmp_path / "later.jsonl").write_bytes(
        as_lines([{"user": "w", "v": 1, "screen": 7}, *records[1:]]).replace(b"7}", b"null}", 1)
    )
    counts, rows = told(tmp_path / "a.jsonl", tmp_path)
    assert counts == (40, 40, 0, 40)
    assert ("connection.rtt", "value", "50", 10) in rows
    apis = {row[0]: sum(r[3] for r in rows if r[0] == row[0]) for row in rows}
    # Where the whole object is null its leaves are absent.
    assert apis == {
        "connection.rtt": 30, "connection.effectiveType": 30, "screen.size.width": 40,
        "screen.depths": 40, "v": 40,
    }  # fmt: skip
    assert told(tmp_path / "a.parquet", tmp_path) == (counts, rows)
    assert told(frame, tmp_path) == (counts, rows)
    assert {row[0] for row in told(tmp_path / "later.jsonl", tmp_path)[1]} == set(apis)


def test_members_that_are_no_objects_everywhere_stay_whole(tmp_path: Path) -> None:
    records = [
        {"user": f"u{i}", "ids": {f"k{i}": 1}, "deep": {"a": {"b": {"c": {"d": 1}}}}}
        for i in range(150)
    ]
    (tmp_path / "a.jsonl").write_bytes(as_lines([*NESTED, *records]))
    said = ColumnMap(apis={"ids": ""})
    apis = {row[0] for row in told(tmp_path / "a.jsonl", tmp_path, column_map=said)[1]}
    assert {"v", "ids", "deep.a.b.c", "connection.rtt"} <= apis
    assert not any(api.startswith(("v.", "ids.", "deep.a.b.c.")) for api in apis)


@pytest.mark.parametrize("depth", [900, 3000])
def test_a_record_that_is_nested_too_deeply_changes_nothing_for_the_others(
    depth: int, tmp_path: Path
) -> None:
    deep = '{"user": "w", "a": ' + '{"x": ' * depth + "1" + "}" * (depth + 1)
    (tmp_path / "a.jsonl").write_bytes(as_lines(NESTED) + deep.encode() + b"\n")
    counts, rows = told(tmp_path / "a.jsonl", tmp_path)
    assert counts[0] == 41
    assert counts[1] >= 40
    assert ("connection.rtt", "value", "50", 10) in rows
    # The record ends the instance of DuckDB that counts members; the next log finds another.
    (tmp_path / "b.jsonl").write_bytes(as_lines(NESTED))
    assert told(tmp_path / "b.jsonl", tmp_path)[0][:2] == (40, 40)


def test_nested_members_stay_whole_where_the_map_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(as_lines(NESTED))
    pl.DataFrame([{**record, "v": 1} for record in NESTED]).write_parquet(tmp_path / "a.parquet")
    whole = ColumnMap(flatten=False)
    for name in ("a.jsonl", "a.parquet"):
        rows = told(tmp_path / name, tmp_path, column_map=whole)[1]
        assert {row[0] for row in rows} == {"connection", "screen", "v"}
    (tmp_path / "map.toml").write_text("flatten = false")
    assert ColumnMap.from_toml(tmp_path / "map.toml") == whole


def test_objects_far_down_a_log_are_nested_as_those_in_its_first_lines(tmp_path: Path) -> None:
    plain = [{"user": f"u{i}", "a": i % 3, "c": None} for i in range(9_000)]
    (tmp_path / "a.jsonl").write_bytes(
        as_lines([*plain, {"user": "w", "a": 1, "c": {"x": 1}}, *plain])
    )
    assert (tmp_path / "a.jsonl").stat().st_size > 1 << 18  # bytes that collectors look at first
    assert {row[0] for row in told(tmp_path / "a.jsonl", tmp_path)[1]} == {"a", "c.x"}


def test_the_user_may_be_nested_and_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(as_lines([{"id": {"device": "u"}, "a": 1}]))
    columns = ColumnMap({"user": "id.device"})
    assert told(tmp_path / "a.jsonl", tmp_path, column_map=columns)[0] == (1, 1, 0, 1)
    (tmp_path / "a.jsonl").write_bytes(as_lines([{"user": "u", "a.b": 1, "a": {"b": 2}}]))
    with pytest.raises(InputError, match=r"two columns are called 'a\.b'"):
        told(tmp_path / "a.jsonl", tmp_path)


def test_the_command_leaves_columns_out_and_nested_ones_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_bytes(as_lines(NESTED))
    options = ["--no-flatten", "--ignore", "screen", "--ignore", "v", "--db"]
    assert run(["ingest", str(tmp_path / "a.jsonl"), *options, str(tmp_path / "x.duckdb")]) == 0
    capsys.readouterr()
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert [api.api for api in monitor.apis(k=2)] == ["connection"]


def test_each_row_of_a_table_without_users_is_a_user(tmp_path: Path) -> None:
    rows = [{"ua": f"x{i % 3}", "w": i % 2} for i in range(30)]
    pl.DataFrame(rows).write_csv(tmp_path / "a.csv")
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_bytes(as_lines(rows))
    with pytest.raises(InputError) as caught:
        told(tmp_path / "a.csv", tmp_path)
    assert "--user row" in str(caught.value.hint)
    by_row = ColumnMap({"user": "row"})
    found = [
        told(tmp_path / f"a.{kind}", tmp_path, column_map=by_row)
        for kind in ("csv", "parquet", "jsonl")
    ]
    assert found[0] == found[1] == found[2]
    assert found[0][0] == (30, 30, 0, 30)
    assert ("w", "value", "1", 15) in found[0][1]


def test_rows_of_a_table_that_has_grown_stay_the_same_users(tmp_path: Path) -> None:
    log, by_row = tmp_path / "a.csv", ColumnMap({"user": "row"})
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        for rows, stored in ((10, 10), (14, 4)):
            log.write_text("a\n" + "".join(f"{i % 3}\n" for i in range(rows)))
            [batch] = monitor.ingest(log, column_map=by_row)
            assert (batch.read, batch.stored) == (rows, stored)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_counts_table_stands_for_its_users(kind: str, tmp_path: Path) -> None:
    rows = [
        ("a", "2"),
        ("b", "3"),
        ("c", "0"),
        ("d", "many"),
        ("e", "-1"),
        ("b", "1"),
    ]
    frame = pl.DataFrame(rows, schema=["ua", "users"], orient="row")
    if kind == "csv":
        frame.write_csv(tmp_path / "log")
    elif kind == "parquet":
        frame.write_parquet(tmp_path / "log")
    else:
        frame.write_ndjson(tmp_path / "log")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(tmp_path / "log", column_map=ColumnMap({"weight": "users"}))
        assert (batch.read, batch.stored, batch.rejected, batch.users) == (8, 6, 2, 6)
        first = 2 if kind == "csv" else 1
        assert [reject.line - first for reject in monitor.rejects()] == [3, 4]
        taken = SampleModel(rows_are_users=True)
        [answer] = monitor.exposure([["ua"]], k=3, sample=taken)
        assert (answer.users, answer.values, answer.empirical) == (6, 2, 2 / 6)


LOOKS = {
    "an ISO time": ("visited", [f"2026-01-{i % 9 + 10}T10:00:00Z" for i in range(30)], "--time"),
    "a day": ("on", [f"2026-01-{i % 9 + 10}" for i in range(30)], "--time"),
    "seconds since 1970": ("ts", [str(1_700_000_000 + i // 2) for i in range(30)], "--time"),
    "values that all differ": ("zone", [f"{i * 7919 % 1000}x" for i in range(30)], "--ignore"),
    "a day of a spreadsheet": ("Datum", [f"{i + 1:02}.11.2026 9:30" for i in range(9)], "--time"),
    "a share of the users": ("weight", [f"{1 / (i + 3):.9g}" for i in range(30)], "--ignore"),
    "a number of users": ("users", [str(i % 7) for i in range(30)], "--ignore"),
}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("look", LOOKS)
def test_a_column_that_is_no_api_is_pointed_out_before_it_becomes_one(
    look: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, texts, option = LOOKS[look]
    users = [f"u{i}" for i in range(len(texts))]
    frame = pl.DataFrame({"user": users, name: texts, "a": "x"})
    log = tmp_path / "log"
    write = {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}
    write[kind](log)
    err = refused(capsys, tmp_path, log)
    assert f"{name!r} looks like" in err
    assert f"{option} {name}" in err
    for said in (ColumnMap(ignore=frozenset({name})), ColumnMap(apis={name: ""})):
        apis = {row[0] for row in told(log, tmp_path, column_map=said)[1]}
        assert apis == ({"a"} if said.ignore else {"a", name})


SET_ASIDE = {
    "numbers that rise": ("x", [str(i) for i in range(600)]),
    "an id": ("sessionId", [f"{i * 7919 % 1000}x" for i in range(30)]),
    "UUIDs": ("key", [f"{i:08x}-0000-4000-8000-{i:012x}" for i in range(30)]),
    "an id of a few large records": ("visitorId", [f"{i:032x}" for i in range(8)]),
    "e-mail addresses": ("contact", [f"planted{i % 9}@example.org" for i in range(30)]),
    "IPv4 addresses": ("peer", [f"203.0.113.{i % 5}" for i in range(30)]),
    "IPv6 addresses": ("peer", [f"2001:db8::{i + 1:x}" for i in range(30)]),
    "addresses, some of them missing": ("ip", [f"203.0.113.{i}" for i in range(28)] + ["-", "NA"]),
    "ULIDs": ("k", [f"01ARZ3NDEKTSV4RRFFQ69G5F{i:02d}" for i in range(30)]),
    "ObjectIds": ("k", [f"507f1f77bcf86cd7994390{i:02d}" for i in range(30)]),
    "ids of Google Analytics": ("cid", [f"GA1.2.{i + 10**8}.1700000000" for i in range(30)]),
    "cookies": ("sent", [f"a={i}; b=2" for i in range(30)]),
    "phone numbers": ("call", [f"+49 30 1234{i:02d}" for i in range(30)]),
    "web addresses": ("from", [f"https://example.org/{i % 3}" for i in range(30)]),
    "an arm of an experiment": ("experiment_branch", [f"arm{i % 2}" for i in range(30)]),
    "durations": ("load.duration", [str(i / 7) for i in range(30)]),
    "ports": ("remote_port", [str(1024 + 37 * i) for i in range(30)]),
}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("look", SET_ASIDE)
def test_what_is_certainly_no_api_is_set_aside_listed_and_not_stored(
    look: str, kind: str, tmp_path: Path
) -> None:
    name, texts = SET_ASIDE[look]
    users = [f"u{i}" for i in range(len(texts))]
    frame = pl.DataFrame({"user": users, name: texts, "a": "x"})
    log = tmp_path / "log"
    write = {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}
    write[kind](log)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [batch] = monitor.ingest(log)
        assert batch.account is not None
        [member] = batch.account.set_aside
        assert (member.path, member.records, member.values) == (name, len(texts), len(set(texts)))
        assert monitor.database._fetch("SELECT DISTINCT text FROM value") == [("x",)]
        assert monitor.database._fetch("SELECT name FROM api") == [("a",)]


def test_what_is_an_api_of_the_database_stays_one(tmp_path: Path) -> None:
    """A value that comes to tell all users apart is what `watch` and `check` are for."""
    for name, values in (("1", ["x"] * 600), ("2", [f"{i * 7}x" for i in range(600)])):
        users = [f"u{name}{i}" for i in range(600)]
        pl.DataFrame({"user": users, "a": values}).write_csv(tmp_path / f"{name}.csv")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        with pytest.raises(InputError, match="'a' looks like an id"):
            monitor.ingest(tmp_path / "2.csv")
        stored = [monitor.ingest(tmp_path / f"{name}.csv")[0].stored for name in "12"]
    assert stored == [600, 600]


def test_what_browsers_return_is_not_taken_for_an_id(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "user": [f"u{i}" for i in range(200)],
            "canvas": [f"{i * 7919:032x}" for i in range(200)],
            "Navigator.buildID": [str(20_181_001_000_000 + i) for i in range(200)],
            "userAgent": [f"Mozilla/5.0 ({i})" for i in range(200)],
            "time": [f"2026-01-01T10:{i % 60:02}:00Z" for i in range(200)],
        }
    )
    assert told(frame, tmp_path)[0] == (200, 200, 0, 200)


class _Table(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        content = as_csv().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815 -- names of the library

    def log_message(self, *_args: object) -> None:
        """Keep stderr for what the command says."""


def has_httpfs() -> bool:
    with duckdb.connect() as connection:
        try:
            load_httpfs(connection)
        except duckdb.Error:
            return False
    return True


def test_an_address_is_read_by_duckdb_and_only_when_the_user_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _Table.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Table) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/a.csv?signature=planted"
        err = refused(capsys, tmp_path, address)
        assert address in err
        assert "--allow-network" in err
        assert not _Table.asked
        command = ["ingest", address, "--allow-network", "--db", str(tmp_path / "n.duckdb"), "-q"]
        if has_httpfs():
            assert run(command) == 0
            assert '"stored": 60' in capsys.readouterr().out
            assert set(_Table.asked) == {"/a.csv?signature=planted"}
            missing = address.replace("a.csv", "/nowhere").replace(f"{server.server_port}", "1")
            command[1] = missing
        assert run(command) == 2
        told = capsys.readouterr().err
        server.shutdown()
    assert "cannot be fetched" in told
    assert "planted" not in told
    assert has_httpfs() or (".[encryption]" in told and not _Table.asked)


def test_a_bucket_is_read_with_the_keys_that_duckdb_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    _Table.asked.clear()
    command = ["ingest", "s3://bucket/a.csv", "--allow-network", "--db", str(tmp_path / "x.duckdb")]
    if not has_httpfs():
        assert run(command) == 2
        assert "s3://bucket/a.csv: cannot be fetched" in (told := capsys.readouterr().err)
        assert ".[encryption]" in told
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), _Table) as server, duckdb.connect() as connection:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        load_httpfs(connection)
        secret = "CREATE OR REPLACE PERSISTENT SECRET own (TYPE s3, KEY_ID 'k', SECRET 's', {})"
        where = "ENDPOINT '127.0.0.1:{}', USE_SSL false, URL_STYLE 'path'"
        connection.execute(secret.format(where.format(1)))
        assert run(command) == 2
        assert "CREATE PERSISTENT SECRET" in capsys.readouterr().err
        connection.execute(secret.format(where.format(server.server_port)))
        assert run(command) == 0
        server.shutdown()
    assert '"stored": 60' in capsys.readouterr().out
    assert set(_Table.asked) == {"/bucket/a.csv"}


def test_what_spreadsheets_leave_is_no_api(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{i},agent {i % 2},,,\n" for i in range(20))
    (tmp_path / "a.csv").write_text(f"user,userAgent,,,\n{rows}", encoding="utf-8")
    assert told(tmp_path / "a.csv", tmp_path)[0][:2] == (20, 20)
    (tmp_path / "c.csv").write_text(f"visitor,userAgent,,,\n{rows}", encoding="utf-8")
    assert "columns visitor, userAgent; " in (err := refused(capsys, tmp_path, tmp_path / "c.csv"))
    assert "--user visitor" in err
    for member, name, hint in (
        ("xl/workbook.xml", "a.xlsx", "save its sheet as CSV"),
        ("a.csv", "a.zip", "unzip -p"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(member, "user,a\n1,2\n")
        assert hint in refused(capsys, tmp_path, tmp_path / name)


@pytest.mark.parametrize("columns", [9, pytest.param(260, marks=pytest.mark.long)])
def test_the_index_that_pandas_leaves_is_no_api(tmp_path: Path, columns: int) -> None:
    many = {f"c{i}": [i, 1] for i in range(columns)}
    frame = pl.DataFrame({"user": ["a", "b"], **many, "__index_level_0__": [0, 1]})
    frame.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text(frame.drop("__index_level_0__").write_csv(), encoding="utf-8")
    digests = []
    for name in ("a.parquet", "b.csv"):
        with Monitor(tmp_path / f"{name}.duckdb", create=True) as monitor:
            monitor.ingest(tmp_path / name)
            assert len(monitor.population().apis) == columns
            digests.append(monitor.population().digest)
    assert digests[0] == digests[1]
