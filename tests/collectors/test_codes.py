"""Logs read into codes are the same observations as when every record is parsed for itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fpmonitor.collectors import codes, wide
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.contract import InexactReadingError
from fpmonitor.logs.finding import log_files
from fpmonitor.logs.log_file import MAX_RECORD_BYTES
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import choose_collector, ingest

if TYPE_CHECKING:
    from pathlib import Path


RECORD: dict[str, Any] = {
    "user": "u", "time": "2026-01-01T00:00:00Z", "a": "x", "b": 1, "c": None, "http:d": [1, None],
    "e": {"k": "v"}, "f": 1.50, "g": "1.0", "h": True,
}  # fmt: skip


def lines_of(*records: dict[str, Any], **options: Any) -> list[str]:
    return [json.dumps(record, **options) for record in records]


def users(count: int, **changes: Any) -> list[dict[str, Any]]:
    return [RECORD | {"user": f"u{i}", "b": i % 3} | changes for i in range(count)]


def stored(folder: Path, name: str, content: bytes, column_map: ColumnMap) -> tuple[Any, ...]:
    """What ingest reports, rejects and stores, or why it refuses the log."""
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    with (
        Database(folder / "db", create=True) as database,
        log_files([str(folder / name)]) as (log,),
    ):
        database._connection.execute("UPDATE meta SET value = 'key' WHERE name = 'user_key'")
        try:
            collector = choose_collector(log, column_map, "wide")
            report = ingest(database, log, collector, column_map)
        except InputError as error:
            return (str(error).replace(str(folder), ""),)
        rejects = [row[1:] for row in database.rows("report/rejects", most=1000)]
        tables = [
            database._connection.execute(f"FROM {table} ORDER BY ALL").fetchall()
            for table in ("user", "visit", "api", "value", "observation")
        ]
    counts = (report.read, report.stored, report.duplicates, report.rejected, report.users)
    return counts, rejects, tables


def check_same(
    folder: Path,
    content: str | bytes,
    column_map: ColumnMap = ColumnMap(),  # noqa: B008 -- frozen
    name: str = "log.jsonl",
) -> None:
    encoded = content if isinstance(content, bytes) else content.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide, "_coded", lambda *_arguments: None)
        expected = stored(folder / "parsed", name, encoded, column_map)
    assert stored(folder / "coded", name, encoded, column_map) == expected


def is_coded(folder: Path, content: str, name: str = "tried.jsonl") -> bool:
    path = folder / name
    path.write_bytes(content.encode())
    with log_files([str(path)]) as (log,):
        scan = choose_collector(log, ColumnMap(), "wide").scan(log, ColumnMap())
        if scan.coded is None:
            return False
        try:
            assert sum(batch.height for batch in scan.coded.batches()) > 0
        except InexactReadingError:
            return False
    return True


@pytest.mark.parametrize(
    "options",
    [{}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"indent": None, "sort_keys": True}],
    ids=["spaces", "compact", "UTF-8", "sorted"],
)
@pytest.mark.parametrize("null", ["value", "absent"])
def test_uniform_records_of_json_are_coded(
    tmp_path: Path, options: dict[str, Any], null: Any
) -> None:
    records = users(50, a="日本é") + users(50, c="null") + users(20, **{"http:d": '{"b": 2}'})
    content = "\n".join(lines_of(*records, **options)) + "\n"
    assert is_coded(tmp_path, content)
    check_same(tmp_path, content, ColumnMap(null=null))


def test_columns_of_a_map_are_coded(tmp_path: Path) -> None:
    content = "\n".join(lines_of(*users(30, id="x")))
    column_map = ColumnMap({"user": "id", "source": "a"}, frozenset({"user", "e"}))
    check_same(tmp_path, content, column_map)


UNUSUAL = {
    "another member": '{"user":"w","time":null,"a":1,"b":2,"z":3}',
    "a member less": '{"user":"w","time":null,"a":1}',
    "a member under another name, null": '{"user":"w","time":null,"a":1,"z":null}',
    "another order": '{"user":"w","time":null,"b":1,"a":2}',
    "a field at the end": '{"a":1,"b":2,"user":"w","time":null}',
    "a member twice": '{"user":"w","time":null,"a":1,"a":2,"b":3}',
    "a member twice, elsewhere": '{"user":"w","a":2,"time":null,"a":1,"b":3}',
    "mark in a string": '{"user":"w","time":"\\",\\"b\\":","a":",\\"a\\":","b":2}',
    "mark in an object": '{"user":"w","time":null,"a":{"x":1,"b":2},"b":3}',
    "mark in an earlier object": '{"user":"w","time":null,"a":{"x":[1,"a",{"y":2,"a":2}]},"b":3}',
    "comma too many": '{"user":"w","time":null,"a":1,,"b":2}',
    "comma at the end": '{"user":"w","time":null,"a":1,"b":2,}',
    "comma before a blank": '{"user":"w","time":null, ,"a":1,"b":2}',
    "comma too few": '{"user":"w","time":null "a":1,"b":2}',
    "brace too early": '{"user":"w","time":null},"a":1,"b":2}',
    "brace too many": '{"user":"w","time":null,"a":1,"b":2}}',
    "brace too few": '{"user":"w","time":null,"a":1,"b":2',
    "two records": '{"user":"w","time":null,"a":1,"b":2}{"user":"x","time":null,"a":1,"b":2}',
    "blanks": ' { "user" : "w", "time" : null, "a" : 1, "b" : 2 } ',
    "escaped name": '{"user":"w","time":null,"\\u0061":1,"b":2}',
    "names alike": '{"user":"w","time":null,"a":1,"B":2}',
    "user missing": '{"user":null,"time":null,"a":"only here","b":2}',
    "user a number": '{"user":7,"time":1767225600,"a":1,"b":2}',
    "user an object": '{"user":{"x": 1},"time":null,"a":1,"b":2}',
    "time broken": '{"user":"w","time":"soon","a":"only here","b":2}',
    "string unclosed": '{"user":"w","time":null,"a":"1,"b":2}',
    "null": "null",
    "a list": '[{"user":"w","time":null,"a":1,"b":2}]',
    "blank line": "",
    "blank line of spaces": "  ",
    "line feed and carriage return": '{"user":"w","time":null,"a":1,"b":2}\r',
    "not a number": '{"user":"w","time":null,"a":NaN,"b":-Infinity}',
    "large numbers": '{"user":"w","time":null,"a":1e400,"b":12345678901234567890123}',
    "minus zero": '{"user":"w","time":null,"a":-0.0,"b":-0}',
    "half a character": '{"user":"w","time":null,"a":"\\ud800","b":1}',
    "zero byte": '{"user":"w","time":null,"a":"\\u0000","b":1}',
    "control character": '{"user":"w","time":null,"a":"\x01","b":1}',
}


BEGINNINGS = [name for name, text in UNUSUAL.items() if text.startswith("{")]


@pytest.mark.parametrize(
    ("unusual", "at"),
    [*((unusual, 0) for unusual in BEGINNINGS), *((unusual, 30) for unusual in UNUSUAL)],
)
def test_an_unusual_record_changes_nothing_for_the_others(
    tmp_path: Path, unusual: str, at: int
) -> None:
    usual = [f'{{"user":"u{i}","time":null,"a":{i % 4},"b":"x"}}' for i in range(30)]
    check_same(tmp_path, "\n".join([*usual[:at], UNUSUAL[unusual], *usual[at:], ""]))


BROKEN = ["broken", '{"user": "w"', '{"user":"w","time":null,"b":1}}', "", "  ", "{"]


@pytest.mark.parametrize("at", [0, 15])
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_line_does_not_make_the_whole_log_slow(
    tmp_path: Path, broken: str, at: int
) -> None:
    usual = [f'{{"user":"u{i}","time":null,"a":{i % 4},"b":"x"}}' for i in range(30)]
    content = "\n".join(["{" if at == 0 else usual[0], *usual[:at], broken, *usual[at:]])
    assert is_coded(tmp_path, content)
    check_same(tmp_path, content)


def test_bytes_that_are_not_utf_8_are_rejected_alone(tmp_path: Path) -> None:
    usual = b"".join(b'{"user":"u%d","a":1}\n' % i for i in range(30))
    check_same(tmp_path, usual + b'{"user":"w","a":"\xff"}\n')


def test_a_line_that_is_too_long_is_rejected_alone(tmp_path: Path) -> None:
    usual = "".join(f'{{"user":"u{i}","a":1}}\n' for i in range(30))
    check_same(tmp_path, usual + f'{{"user":"w","a":"{"x" * MAX_RECORD_BYTES}"}}\n')


def test_lines_far_longer_than_the_first_ones_do_not_fill_the_memory(tmp_path: Path) -> None:
    records = [*users(9), RECORD | {"user": "w", "a": "x" * 100_000}]
    content = "\n".join(lines_of(*records))
    assert is_coded(tmp_path, "\n".join(lines_of(*records[:9])))
    assert not is_coded(tmp_path, "\n".join(lines_of(*users(3000), records[9])))
    check_same(tmp_path, content)


def test_many_apis_share_few_pieces(tmp_path: Path) -> None:
    names = [f"api {i}" for i in range(150)]
    records = [{"user": f"u{i}"} | dict.fromkeys(names, i % 2) for i in range(20)]
    content = "\n".join(lines_of(*records))
    assert is_coded(tmp_path, content)
    check_same(tmp_path, content)


def test_pieces_that_never_repeat_are_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, "_FREE_BYTES", 1000)
    repeated = "\n".join(lines_of(*users(500)))
    unique = "\n".join(lines_of(*(RECORD | {"user": "u", "a": str(i) * 9} for i in range(500))))
    assert is_coded(tmp_path, repeated)
    assert not is_coded(tmp_path, unique)
    check_same(tmp_path, unique)


names = st.sampled_from(["a", "b", "c", "time", "source", "user", "x y", 'q"', "ä"])
values = st.sampled_from(
    [
        *["", "x", "null", ',"b": 1', "1.0", 1, 1.0, 2.5, 1e22, True, None, [], [None], "ä\n"],
        *[{}, {"a": 1}, {"a": None, "b": {}}, {"a": {"a": 1.0}}],
    ]
)
records = st.dictionaries(names, values, max_size=6)


@settings(max_examples=12, deadline=None)
@given(
    usual=records,
    others=st.lists(records, max_size=3),
    changes=st.lists(st.dictionaries(names, values, max_size=2), max_size=6),
    form=st.tuples(st.sampled_from([None, (",", ":")]), st.sampled_from(["value", "absent"])),
)
@example(usual={"a": {"a": 1}}, others=[], changes=[{"user": 1e22}], form=(None, "value"))
def test_any_log_is_read_as_if_every_record_was_parsed(
    usual: dict[str, Any],
    others: list[dict[str, Any]],
    changes: list[dict[str, Any]],
    form: tuple[Any, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    first = {"user": "u", "a": 1} | usual
    alike = [{name: change.get(name, first[name]) for name in first} for change in changes]
    separators, null = form
    lines = lines_of(first, *alike, *others, separators=separators)
    check_same(tmp_path_factory.mktemp("any"), "\n".join(lines), ColumnMap(null=null))
