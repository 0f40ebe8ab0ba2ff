"""Ingest stores each observation once and says what became of every record."""

from __future__ import annotations

import hashlib
import json
import random
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.collectors.choosing import choose_collector
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import log_files
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import ingest_log
from fpmonitor.store.readings import reading_of
from fpmonitor.store.staging import canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fpmonitor.store.batches import BatchReport

Row = tuple[int, datetime | None, str | None, str, str, str | None]

OBSERVATIONS = """
    SELECT user.digest, visit.time, source.name, api.name, value.status, value.text
    FROM observation
    JOIN visit USING (visit_id) JOIN user USING (user_id) JOIN api USING (api_id)
    JOIN value ON value.api_id = observation.api_id AND value.value_id = observation.value_id
    LEFT JOIN source USING (source_id)
"""


def add(database: Database, path: Path, column_map: ColumnMap | None = None) -> BatchReport:
    column_map = column_map or ColumnMap()
    with log_files([str(path)]) as (log,):
        return ingest_log(database, log, choose_collector(log, column_map), column_map)


NOW = 1_700_000_000
NOW_AND_THEN = ({"time": NOW}, {"time": NOW + 1})


def counts(report: BatchReport) -> tuple[int, int, int, int]:
    return report.read, report.stored, report.duplicates, report.rejected


def observations(database: Database) -> list[Row]:
    rows: list[Row] = database._connection.execute(OBSERVATIONS).fetchall()
    return sorted(rows, key=repr)


def rows_of(database: Database, table: str) -> int:
    return int(database._connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


def write_json(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def wide_records(users: int, *, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "user": f"user{i}",
            "time": 1_772_445_600 + i,
            "a": rng.randrange(5),
            "b": rng.choice("xyz"),
        }
        for i in range(users)
    ]


def long_records(wide: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"user": record["user"], "time": record["time"], "api": api, "value": record[api]}
        for record in wide
        for api in ("a", "b")
    ]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "test.duckdb", create=True)


def test_same_file_twice_adds_nothing(tmp_path: Path, database: Database) -> None:
    path = write_json(tmp_path / "a.jsonl", wide_records(50))
    assert counts(add(database, path)) == (50, 50, 0, 0)
    before = observations(database)
    again = add(database, path)
    assert counts(again) == (50, 0, 50, 0)
    assert (again.users, again.apis) == (50, 2)
    assert observations(database) == before
    assert rows_of(database, "batch") == 1


def test_same_bytes_under_another_name_add_nothing(tmp_path: Path, database: Database) -> None:
    records = wide_records(5)
    add(database, write_json(tmp_path / "a.jsonl", records))
    assert counts(add(database, write_json(tmp_path / "b.jsonl", records))) == (5, 0, 5, 0)


def test_same_bytes_under_another_column_map_are_refused_with_the_way_on(
    tmp_path: Path, database: Database
) -> None:
    path = write_json(tmp_path / "a.jsonl", [{"user": "u", "a": None, "b": 1}])
    add(database, path)
    with pytest.raises(InputError, match="is stored already, under other options") as caught:
        add(database, path, ColumnMap(null="value"))
    assert "db forget --batch" in str(caught.value.hint)
    assert {row[3] for row in observations(database)} == {"b"}


@pytest.mark.parametrize("form", [list, long_records], ids=["wide", "long"])
def test_only_the_new_lines_of_a_grown_file_are_stored(
    tmp_path: Path, database: Database, form: Any
) -> None:
    records = wide_records(60)
    path = write_json(tmp_path / "a.jsonl", form(records[:40]))
    add(database, path)
    grown = form(records)
    path = write_json(tmp_path / "a.jsonl", grown)
    new = len(grown) - len(form(records[:40]))
    assert counts(add(database, path)) == (len(grown), new, len(grown) - new, 0)
    once = Database(tmp_path / "once.duckdb", create=True)
    add(once, path)
    assert len(observations(database)) == len(observations(once)) == 120
    assert rows_of(database, "visit") == rows_of(database, "user") == 60


@pytest.mark.parametrize("grown", [40, 60], ids=["same", "grown"])
def test_a_log_that_an_earlier_version_stored_is_known_again(
    tmp_path: Path, database: Database, grown: int
) -> None:
    """Its digest is one of the reading and the bytes."""
    records = wide_records(60)
    path = write_json(tmp_path / "a.jsonl", records[:40])
    add(database, path)
    with log_files([str(path)]) as (log,):
        reading = reading_of(log, choose_collector(log, ColumnMap()), ColumnMap())
    earlier = hashlib.sha256(reading + path.read_bytes()).hexdigest()
    database._connection.execute("UPDATE batch SET digest = ?", [earlier])
    path = write_json(tmp_path / "a.jsonl", records[:grown])
    assert counts(add(database, path)) == (grown, grown - 40, 40, 0)
    assert rows_of(database, "batch") == 1 + (grown > 40)
    with pytest.raises(InputError, match="is stored already, under other options"):
        add(database, path, ColumnMap(ignore=frozenset({"b"})))


def test_wide_and_long_form_of_one_log_are_the_same_observations(
    tmp_path: Path, database: Database
) -> None:
    records = wide_records(30)
    add(database, write_json(tmp_path / "wide.jsonl", records))
    before = observations(database)
    long = long_records(records)
    assert counts(add(database, write_json(tmp_path / "long.jsonl", long))) == (60, 0, 60, 0)
    assert observations(database) == before


def test_repeats_within_a_log_are_duplicates(tmp_path: Path, database: Database) -> None:
    records = wide_records(20)
    report = add(database, write_json(tmp_path / "a.jsonl", records + records[5:9]))
    assert counts(report) == (24, 20, 4, 0)
    assert len(observations(database)) == 40


def test_record_with_one_new_value_is_stored_and_the_rest_of_it_not_again(
    tmp_path: Path, database: Database
) -> None:
    first = {"user": "u", "time": 1_700_000_000, "a": 1}
    add(database, write_json(tmp_path / "a.jsonl", [first]))
    report = add(database, write_json(tmp_path / "b.jsonl", [{**first, "b": 2}]))
    assert counts(report) == (1, 1, 0, 0)
    assert [row[3] for row in observations(database)] == ["a", "b"]
    assert rows_of(database, "visit") == 1


def test_a_log_is_compared_with_visits_of_its_own_times_alone(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what each new log costs would grow with all that was ever stored."""
    first = {"user": "u", "time": NOW, "a": 1}
    add(database, write_json(tmp_path / "a.jsonl", [first]))
    database._execute("""INSERT INTO visit
        SELECT 10 + i, 1, TIMESTAMP '2022-01-01' + to_seconds(i::INTEGER), NULL, 1
        FROM range(400000) r(i)""")
    run, profiles = Database.run, list[Any]()

    def profiled(self: Database, name: str, **values: Any) -> None:
        is_asked = name == "ingest/number_visits"
        if is_asked:
            self._execute("PRAGMA enable_profiling = 'no_output'")
        run(self, name, **values)
        if is_asked:
            profiles.append(json.loads(self._connection.get_profiling_information()))
            self._execute("PRAGMA disable_profiling")

    monkeypatch.setattr(Database, "run", profiled)
    report = add(database, write_json(tmp_path / "b.jsonl", [{**first, "b": 2}]))
    assert counts(report) == (1, 1, 0, 0)
    assert rows_of(database, "visit") == 400_001
    [profile] = profiles
    assert 0 < max(numbers_of(profile)) < 200_000


def numbers_of(profile: Any) -> list[int]:
    """Rows that the operators of a query handed on."""
    if isinstance(profile, list):
        return [number for part in profile for number in numbers_of(part)]
    if not isinstance(profile, dict):
        return []
    # What DuckDB calls them from 2.0 on, and before.
    own = [profile.get(name, 0) for name in ("intermediate_rows", "operator_cardinality")]
    return own + numbers_of(list(profile.values()))


def test_visits_differ_by_user_time_and_source(tmp_path: Path, database: Database) -> None:
    records: list[dict[str, Any]] = [
        {"user": user, "a": 1, **rest}
        for user in ("u", "w")
        for rest in ({}, *NOW_AND_THEN, {"source": "s"}, {"time": NOW, "source": "s"})
    ]
    report = add(database, write_json(tmp_path / "a.jsonl", records))
    assert counts(report) == (10, 10, 0, 0)
    assert (rows_of(database, "visit"), rows_of(database, "user")) == (10, 2)
    assert counts(add(database, write_json(tmp_path / "b.jsonl", records[::-1]))) == (10, 0, 10, 0)


def test_later_value_of_one_visit_is_stored_after_the_earlier(
    tmp_path: Path, database: Database
) -> None:
    records = [{"user": "u", "a": value} for value in ("first", "second", "first", "third")]
    add(database, write_json(tmp_path / "a.jsonl", records))
    texts = database._connection.execute(
        "FROM observation AS o JOIN value USING (api_id, value_id) SELECT text ORDER BY o.rowid"
    ).fetchall()
    assert [row[0] for row in texts] == ["second", "first", "third"]


def test_observations_lie_api_by_api_in_the_order_of_the_log(
    tmp_path: Path, database: Database
) -> None:
    add(database, write_json(tmp_path / "a.jsonl", wide_records(3000)))
    found = database._connection.execute("SELECT api_id, visit_id FROM observation").fetchall()
    assert found == sorted(found)


def test_few_records_of_many_members_take_few_statements_and_are_stored_as_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement binds all columns: two for each of 3,000 took 37 s for a record."""
    names = [f"m{i}" for i in range(300)]
    # Without times: two records are one visit, of which the last value counts.
    path = write_json(
        tmp_path / "a.jsonl",
        [{"user": user, **dict.fromkeys(names, value)} for user, value in ("a1", "b2", "a3")],
    )
    execute, statements, found = Database._execute, 0, []

    def counted(self: Database, text: str, values: dict[str, Any] | None = None) -> None:
        nonlocal statements
        statements += 1
        execute(self, text, values)

    for few in (10, 0):
        statements = 0
        monkeypatch.setattr("fpmonitor.store.staging._RECORDS_A_COLUMN", few)
        with Database(tmp_path / f"{few}.duckdb", create=True) as database:
            monkeypatch.setattr(Database, "_execute", counted)
            report = add(database, path)
            monkeypatch.setattr(Database, "_execute", execute)
            values = sorted(row[3:] for row in observations(database))
            found.append((counts(report), report.unordered, values))
        assert (statements < 150) == (few > 0)
    assert found[0] == found[1]
    assert found[0][:2] == ((3, 3, 0, 0), 1)
    assert len(found[0][2]) == 3 * len(names)


def test_numbers_of_users_values_and_visits_do_not_depend_on_the_run(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.jsonl", [*wide_records(5000), *wide_records(50)])
    contents = []
    for i in range(2):
        with Database(tmp_path / f"{i}.duckdb", create=True) as database:
            add(database, path)
            contents.append(
                [
                    database._connection.execute(f"SELECT {columns} FROM {table}").fetchall()
                    for table, columns in (
                        ("user ORDER BY ALL", "user_id"),
                        ("visit", "visit_id, user_id, time"),
                        ("value", "*"),
                        ("observation", "*"),
                    )
                ]
            )
    assert contents[0] == contents[1]


def test_values_of_two_files_share_their_numbers(tmp_path: Path, database: Database) -> None:
    pl.DataFrame({"user": ["u"], "a": [1.0]}).write_parquet(tmp_path / "a.parquet")
    add(database, tmp_path / "a.parquet")
    add(database, write_json(tmp_path / "b.jsonl", [{"user": "w", "a": 1}]))
    (tmp_path / "c.csv").write_text("user,a\nx,1\n")
    add(database, tmp_path / "c.csv")
    assert rows_of(database, "value") == 1
    assert rows_of(database, "observation") == 3


def test_ids_of_users_are_not_stored(tmp_path: Path, database: Database) -> None:
    add(database, write_json(tmp_path / "a.jsonl", [{"user": "very-secret-id", "a": 1}]))
    path = database.path
    database.close()
    assert b"very-secret-id" not in path.read_bytes()


def test_failed_ingest_leaves_the_database_as_it_was(tmp_path: Path, database: Database) -> None:
    add(database, write_json(tmp_path / "a.jsonl", wide_records(10)))
    before = observations(database)
    whole = write_json(tmp_path / "b.jsonl", [{"user": "new", "c": 1}])

    def interrupt(stage: str) -> None:
        if stage == "storing":
            raise KeyboardInterrupt

    with log_files([str(whole)]) as (log,), pytest.raises(KeyboardInterrupt):
        ingest_log(database, log, choose_collector(log, ColumnMap()), progress=interrupt)
    assert observations(database) == before
    assert rows_of(database, "api") == 2
    assert counts(add(database, whole)) == (1, 1, 0, 0)


def test_rejects_of_one_csv_do_not_count_for_the_next(tmp_path: Path, database: Database) -> None:
    for name in ("1", "2"):
        (tmp_path / f"{name}.csv").write_text(f"user,a\nu{name},1\nshort\n")
        assert counts(add(database, tmp_path / f"{name}.csv")) == (2, 1, 0, 1)
    assert rows_of(database, "reject") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"b":1, "a":[2, {"d":null,"c":"\\u00e9"}]}', '{"a":[2,{"c":"é","d":null}],"b":1}'),
        ("[ ]", "[]"),
        ("{broken", "{broken"),
        ("[" * 100_000, "[" * 100_000),
        ("[1.50, 1e3]", "[1.5,1000.0]"),
    ],
)
def test_canonical_json(text: str, expected: str) -> None:
    assert canonical_json(text) == expected


cells = st.fixed_dictionaries(
    {"user": st.sampled_from("uvw"), "time": st.sampled_from([NOW, NOW + 1])},
    optional={"a": st.sampled_from("xy"), "b": st.sampled_from("xy")},
)


@settings(max_examples=8, deadline=None)
@given(batches=st.lists(st.lists(cells, min_size=1, max_size=8), min_size=1, max_size=3))
def test_any_sequence_of_files_stores_each_observation_once(
    batches: list[list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    seen: set[tuple[Any, ...]] = set()
    with Database(folder / "db", create=True) as database:
        for i, records in enumerate(batches):
            # at least one API; no two alike
            records.append({"user": "z", "time": NOW + 9 + i, "a": "x"})
            report = add(database, write_json(folder / f"{i}.jsonl", records))
            assert report.read == report.stored + report.duplicates == len(records)
            seen |= {
                (record["user"], record["time"], api, record[api])
                for record in records
                for api in ("a", "b")
                if api in record
            }
        assert len(observations(database)) == len(set(observations(database))) == len(seen)


def stored_texts(path: Path, log: Path) -> set[str]:
    with Database(path, create=True) as database:
        add(database, log)
        rows = database._connection.execute("SELECT text FROM value").fetchall()
    return {row[0] for row in rows}


@pytest.mark.parametrize(
    ("late", "text"),
    [
        ("1.0", "1"),
        ('"1.0"', "1.0"),
        ("1e-7", "1e-7"),
        ('"1e-07"', "1e-07"),
        ("12345678901234567890.0", "12345678901234567000"),
        ('{"b": 1, "a": 2.0}', '{"a":2.0,"b":1}'),
    ],
)
def test_a_late_value_is_read_as_exactly_as_an_early_one(
    tmp_path: Path, late: str, text: str
) -> None:
    usual = [f'{{"user": "u{i}", "A.a": "plain", "filler": "{"x" * 200}"}}' for i in range(2000)]
    unusual = f'{{"user": "late", "A.a": {late}, "filler": "y"}}'
    logs = {"early": [unusual, *usual], "late": [*usual, unusual]}
    seen = {}
    for name, lines in logs.items():
        log = tmp_path / f"{name}.jsonl"
        log.write_text("\n".join(lines) + "\n", encoding="utf-8")
        seen[name] = stored_texts(tmp_path / f"{name}.duckdb", log)
    assert text in seen["late"]
    assert seen["late"] == seen["early"]


def test_broken_records_of_a_refused_log_are_not_those_of_the_next(
    tmp_path: Path, database: Database
) -> None:
    path = tmp_path / "a.csv"
    for records in ('u,"x"y\n' * 3, ",1,2\nu,1,2,3,4\n"):
        path.write_text(f"user,a\n{records}", encoding="utf-8")
        with pytest.raises(InputError, match="every record"):
            add(database, path)
    path.write_text("user,a\nu,1\nv,2,3\n", encoding="utf-8")
    assert counts(add(database, path)) == (2, 1, 0, 1)


@pytest.mark.parametrize("broken", [['w,"x"y'], ["w,1,2"] * 100_001], ids=["one", "many"])
def test_a_long_narrow_csv_is_refused_for_many_broken_records_only(
    tmp_path: Path, database: Database, broken: list[str]
) -> None:
    lines = ["user,a", "u,1", *broken, *[f"u,{1:040}"] * 1_100_000]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    if len(broken) > 1:
        with pytest.raises(InputError, match="more than 100,000 records cannot be split"):
            add(database, path)
        return
    assert counts(add(database, path)) == (len(lines) - 1, 2, len(lines) - 4, 1)


def test_parquet_holds_what_the_same_csv_does_around_broken_rows_and_repeats(
    tmp_path: Path,
) -> None:
    """Values are read from the file until they are stored, and rows keep their places."""
    rng = random.Random(5)
    rows = [
        {
            "user": rng.choice([None, "", *"abcdefgh"]),
            "time": rng.choice([None, "no time", *(f"2026-03-0{day}" for day in range(1, 6))]),
            "p": rng.choice([None, "x", "y"]),
            "q": rng.choice([None, 1, 2, 10**17]),
        }
        for _ in range(3000)
    ]
    frame = pl.DataFrame(rows)
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=700)
    frame.write_csv(tmp_path / "log.csv")
    stored = []
    for name in ("log.parquet", "log.csv"):
        with Database(tmp_path / f"{name}.duckdb", create=True) as database:
            report = add(database, tmp_path / name)
            tables = [
                database._connection.execute(f"SELECT * FROM {table}").fetchall()
                for table in ("observation", "value", "visit")
            ]
            stored.append((counts(report), tables))
    assert stored[0] == stored[1]


def test_a_parquet_file_that_is_replaced_while_its_columns_are_read_is_refused(
    tmp_path: Path, database: Database
) -> None:
    path = tmp_path / "log.parquet"
    frame = pl.DataFrame({"user": ["a", "b"], "p": ["x", "y"]})
    frame.write_parquet(path)

    def replaced(stage: str) -> None:
        if stage == "storing":
            frame.with_columns(p=pl.Series(["y", "x"])).write_parquet(path)

    with log_files([str(path)]) as (log,):
        reader = choose_collector(log, ColumnMap())
        with pytest.raises(InputError, match="replaced"):
            ingest_log(database, log, reader, ColumnMap(), progress=replaced)
    assert rows_of(database, "batch") == rows_of(database, "observation") == 0
