"""What every engine does alike: rows, users, words and decisions of a file with the same rows."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run as command
from fpmonitor.cluster.asking import UserPart
from fpmonitor.cluster.engine import DuckEngine, open_engine
from fpmonitor.cluster.fetching import fetch_visits
from fpmonitor.errors import EngineLostError, InputError, StoreError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor
from fpmonitor.sketch.making import SketchPlan, sketch_table
from fpmonitor.sketch.words import SketchKey
from tests.cluster import warehouses
from tests.patience import wait
from tests.stored import looked_at_by_an_earlier_version

START = datetime(2026, 3, 1, tzinfo=UTC)
MAP = ColumnMap(columns={"user": "visitor", "time": "seen"})
KEY = SketchKey(bytes(range(32)))


def run(*words: object) -> int:
    return command([str(word) for word in words])


def visits(rows: int = 400, users: int = 150, *, day: int = 0) -> pl.DataFrame:
    """Visits with late rows, nulls, NaN, JSON in two spellings, large values, 2^63, hostile names.

    Nobody comes twice at one time: which of two such rows is the later one only a file can tell.
    """
    rng = np.random.default_rng([5, day])
    texts = ['{"b": 1, "a": [2]}', '{"a":[2],"b":1}', "x" * 300, "é☃", "it's", "[1, 2]", "", None]
    minutes = rng.permutation(rows) + day * 1440
    return pl.DataFrame(
        {
            "visitor": [f"u{i}" for i in rng.integers(0, users, rows)],
            "seen": [START.replace(tzinfo=None) + timedelta(minutes=int(i)) for i in minutes],
            "Screen.width": [None if i < 4 else int(i) for i in rng.integers(0, 40, rows)],
            'say "hi"': rng.choice([0.5, 1e300, 7.0, float("nan"), -0.25], rows),
            "a; DROP TABLE visits --": [texts[i] for i in rng.integers(0, len(texts), rows)],
            "large": [2**63 - 1 - int(i) for i in rng.integers(0, 3, rows)],
            "flag": [[True, False, None][i] for i in rng.integers(0, 3, rows)],
        },
        schema_overrides={"flag": pl.Boolean},
    )


def digest_of(path: Path) -> tuple[str, int]:
    with Monitor(path) as monitor:
        users = monitor.population().snapshot
        return users.digest, users.users


def ingested(frame: pl.DataFrame, path: Path) -> tuple[str, int]:
    with Monitor(path, create=True) as monitor:
        monitor.ingest(frame, column_map=MAP)
    return digest_of(path)


def fetched(house: warehouses.House, table: str, path: Path, **more: Any) -> list[Any]:
    with open_engine(house.address) as engine, Monitor(path, create=True) as monitor:
        return fetch_visits(monitor.database, engine, table, MAP, **more)


@pytest.mark.each
def test_fetched_visits_are_those_of_a_file_with_the_same_rows(
    house: warehouses.House, tmp_path: Path
) -> None:
    frame = visits()
    fetched(house, house.put(frame), tmp_path / "fetched.duckdb")
    assert digest_of(tmp_path / "fetched.duckdb") == ingested(frame, tmp_path / "file.duckdb")


def test_a_day_of_new_visits_is_read_alone_and_gives_what_all_give(
    house: warehouses.House, tmp_path: Path
) -> None:
    """Also where some of its rows were there already, at the newest moment."""
    first, second = visits(), visits(60, 90, day=1)
    path = tmp_path / "fetched.duckdb"
    fetched(house, house.put(first), path)
    both = pl.concat([first, second])
    house_table = house.put(both)
    if house.dialect == "spark":  # files have other names here, and are another table
        path.unlink()
        fetched(house, house_table, path)
    else:
        assert sum(report.read for report in fetched(house, house_table, path)) == 61
    again = fetched(house, house_table, path)
    assert [(report.read, report.stored) for report in again] == [(1, 0)]
    assert digest_of(path) == ingested(both, tmp_path / "file.duckdb")


PLAN = SketchPlan(
    key=KEY,
    sets=(("Screen.width",), ("a; DROP TABLE visits --", "large"), ('say "hi"', "flag", "large")),
    level=1,
)
WAYS: list[dict[str, Any]] = [
    {},
    {"user": "visitor", "time": "seen"},
    {"user": "visitor", "time": "seen", "part": UserPart(2, 3, 4)},
]


@pytest.mark.each
def test_sketches_of_every_engine_have_the_same_bytes(
    house: warehouses.House, tmp_path: Path
) -> None:
    frame = visits()
    frame.write_parquet(tmp_path / "visits.parquet")
    table = house.put(frame)
    with open_engine(house.address) as there, DuckEngine() as here:
        for way in WAYS:
            made = sketch_table(there, table, PLAN, **way)
            known = sketch_table(here, str(tmp_path / "visits.parquet"), PLAN, **way)
            assert made.head == known.head, way


def test_a_part_of_the_users_is_the_same_everywhere(
    house: warehouses.House, tmp_path: Path
) -> None:
    frame = visits()
    frame.write_parquet(tmp_path / "visits.parquet")
    table = house.put(frame)
    here = warehouses.House("duckdb", "duckdb://")
    for part in (UserPart(1, 1, 3), UserPart(2, 3, 3)):
        found = []
        for place, (where, name) in enumerate(
            ((house, table), (here, str(tmp_path / "visits.parquet")))
        ):
            path = tmp_path / f"{part.first}-{place}.duckdb"
            fetched(where, name, path, part=part)
            found.append(digest_of(path))
        assert found[0] == found[1]
        assert 20 < found[0][1] < 130


@pytest.mark.each
def test_a_decision_is_that_of_a_database_with_the_same_users(
    house: warehouses.House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    columns = {f"x{i}": [f"v{v}" for v in rng.zipf(1.6, 3000) % (4 + 3 * i)] for i in range(6)}
    frame = pl.DataFrame({"visitor": [f"u{i}" for i in range(3000)], **columns})
    table = house.put(frame)
    asked = ("--from", table, "--user", "visitor", "--candidates", ",".join(columns))
    assert run("scale", "sql", *asked, "--dialect", house.dialect, "--to", "asks") == 0
    monkeypatch.setenv("FPMONITOR_ENGINE", house.address)
    question = ("--budget", "5%", "-n", 100_000, "--quiet")
    assert run("decide", "--spectra", "asks", *question, "-o", "told.json") == 0
    if house.dialect == "spark":  # whose time grows with the square of the sets of a statement
        answers = [pl.read_csv(path)["apis"].n_unique() for path in Path("asks").glob("*.csv")]
        assert max(answers) < 40
    monkeypatch.delenv("FPMONITOR_ENGINE")
    frame.write_parquet("users.parquet")
    assert run("ingest", "users.parquet", "--user", "visitor", "--db", "x.duckdb", "-q") == 0
    looked_at_by_an_earlier_version("x.duckdb")
    assert run("decide", "--db", "x.duckdb", *question, "-o", "known.json") == 0
    told, known = (
        json.loads((tmp_path / name).read_text(encoding="utf-8"))
        for name in ("told.json", "known.json")
    )
    for name in ("allow", "block", "undecided", "recommended"):
        assert told[name] == known[name], name


# Times


@pytest.mark.warehouse
def test_moments_with_zones_are_moments(postgres: warehouses.Postgres, tmp_path: Path) -> None:
    """Whatever zone the server tells them in."""
    pytest.importorskip("psycopg")
    zone = timezone(timedelta(hours=5, minutes=30))
    rows = [(f"u{i % 40}", START + timedelta(minutes=i), i % 7) for i in range(200)]
    values = ", ".join(f"('{u}', '{t.astimezone(zone).isoformat()}', {v})" for u, t, v in rows)
    postgres.run(
        "ALTER DATABASE postgres SET timezone = 'America/New_York'",
        "CREATE TABLE visits (visitor text, seen timestamptz, width int)",
        f"INSERT INTO visits VALUES {values}",
    )
    plain = [(u, t.replace(tzinfo=None), v) for u, t, v in rows]
    frame = pl.DataFrame(plain, ["visitor", "seen", "width"], orient="row")
    path = tmp_path / "fetched.duckdb"
    fetched(postgres, "visits", path)
    assert [report.read for report in fetched(postgres, "visits", path)] == [1]
    assert digest_of(path) == ingested(frame, tmp_path / "file.duckdb")
    postgres.run("ALTER DATABASE postgres RESET timezone")


@pytest.mark.warehouse
def test_a_table_of_a_stranger_is_that_of_its_texts(
    postgres: warehouses.Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Users that are UUIDs, addresses, lists, JSON, decimals; names that need quotes."""
    pytest.importorskip("psycopg")
    table, address = '"Web Logs"."Besuche ☃"', warehouses.quoted('An "address"')
    postgres.run(
        'CREATE SCHEMA "Web Logs"',
        f"""CREATE TABLE {table} AS SELECT
            lpad(to_hex(i % 60), 32, '0')::uuid AS visitor,
            '2026-03-01 00:00+05:30'::timestamptz + (i || ' minutes')::interval AS seen,
            CASE WHEN i % 9 = 0 THEN NULL ELSE ('10.0.0.' || i % 7)::inet END AS {address},
            ARRAY['a' || i % 5, 'b'] AS "Größe", jsonb_build_object('n', i % 4) AS "Data",
            (i % 13)::numeric(10, 2) AS "Screen.width" FROM generate_series(1, 300) AS r (i)""",
    )
    rows = range(1, 301)
    frame = pl.DataFrame(
        {
            "visitor": [f"00000000-0000-0000-0000-{i % 60:012x}" for i in rows],
            "seen": [datetime(2026, 2, 28, 18, 30) + timedelta(minutes=i) for i in rows],  # noqa: DTZ001
            'An "address"': [None if i % 9 == 0 else f"10.0.0.{i % 7}" for i in rows],
            "Größe": [[f"a{i % 5}", "b"] for i in rows],
            "Data": [{"n": i % 4} for i in rows],
            "Screen.width": [Decimal(i % 13).quantize(Decimal("0.01")) for i in rows],
        }
    )
    path = tmp_path / "fetched.duckdb"
    fetched(postgres, table, path)
    known = ingested(frame, tmp_path / "file.duckdb")
    assert digest_of(path) == known
    for part in ("1/2", "2/2"):
        fetched(postgres, table, tmp_path / "parts.duckdb", part=UserPart.from_text(part))
    assert digest_of(tmp_path / "parts.duckdb") == known
    words = ("scale", "sql", "--from", "SELECT '[]'::json AS a", "--candidates", "a", "--to")
    assert run(*words, tmp_path / "asks") == 0
    monkeypatch.setenv("FPMONITOR_ENGINE", postgres.address)
    capsys.readouterr()
    assert run("decide", "--spectra", tmp_path / "asks", "--budget", "5%") == 2
    assert "JSON and lists as text" in capsys.readouterr().err
    postgres.run('DROP SCHEMA "Web Logs" CASCADE')


@pytest.mark.warehouse
def test_a_value_has_one_text_whatever_rows_come_with_it(
    postgres: warehouses.Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decimals of several scales, NaN among them, and numbers in JSON, in parts of two rows."""
    pytest.importorskip("psycopg")
    postgres.run(
        """CREATE TABLE visits AS SELECT 'u' || i AS visitor, lists AS "Navigator.plugins",
            CASE i % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN 1.25 ELSE 1.5 END::numeric AS "Screen.width"
            FROM generate_series(1, 40) AS r (i)
            CROSS JOIN LATERAL (SELECT (CASE i % 8 WHEN 7 THEN '[0.5]' ELSE '[1]' END)::jsonb) AS
            l (lists)"""
    )
    monkeypatch.setattr("fpmonitor.cluster.engine._ROWS_OF_DRIVER", 2)
    monkeypatch.setattr("fpmonitor.cluster.fetching._ROWS_A_LOG", 2)
    by_user = ColumnMap(columns={"user": "visitor"})
    path = tmp_path / "fetched.duckdb"
    with open_engine(postgres.address) as engine, Monitor(path, create=True) as monitor:
        fetch_visits(monitor.database, engine, "visits", by_user)
        snapshot = monitor.population().snapshot
        values = {api: {t for _, t in snapshot.values(api).values()} for api in snapshot.apis}
    assert values["Screen.width"] - {None, ""} == {"1.25", "1.5"}
    assert values["Navigator.plugins"] - {None, ""} == {"[1]", "[0.5]"}
    for other in ("5", '{"b": {"c": 2}}'):
        mixed = f"SELECT v::jsonb AS a FROM (VALUES ('{other}'), ('{{\"b\": 1}}')) AS r (v)"
        with open_engine(postgres.address) as engine, pytest.raises(StoreError, match="objects"):
            engine.frame(mixed)  # Polars would leave out what is no object


@pytest.fixture
def duck(tmp_path: Path) -> warehouses.Duck:
    return warehouses.Duck(tmp_path)


def test_a_clock_that_is_wrong_hides_no_new_rows(duck: warehouses.Duck, tmp_path: Path) -> None:
    frame = visits(50)
    far = frame.head(1).with_columns(seen=pl.lit(datetime(2099, 1, 1)))  # noqa: DTZ001
    path = tmp_path / "fetched.duckdb"
    fetched(duck, duck.put(pl.concat([frame, far])), path)
    now = visits(30, day=2).with_columns(seen=pl.lit(datetime(2098, 1, 1)))  # noqa: DTZ001
    fetched(duck, duck.put(pl.concat([frame, far, now.unique("visitor")])), path)
    with Monitor(path) as monitor:
        assert monitor.population().users == len({*frame["visitor"], *now["visitor"]})


def test_an_attempt_that_ended_early_is_made_again_whole(
    duck: warehouses.Duck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it stored is known by then; what it did not store is not taken for known."""
    frame, path = visits(), tmp_path / "fetched.duckdb"
    table = duck.put(frame)
    monkeypatch.setattr("fpmonitor.cluster.fetching._ROWS_A_LOG", 100)
    monkeypatch.setattr("fpmonitor.cluster.engine._ROWS_AT_ONCE", 100)
    from fpmonitor.cluster import fetching  # noqa: PLC0415

    stored, kept = fetching._stored, []

    def failing(*given: Any) -> Any:
        if len(kept) == 2:
            raise KeyboardInterrupt
        kept.append(stored(*given))
        return kept[-1]

    monkeypatch.setattr(fetching, "_stored", failing)
    with pytest.raises(KeyboardInterrupt):
        fetched(duck, table, path)
    monkeypatch.setattr(fetching, "_stored", stored)
    fetched(duck, table, path)
    assert digest_of(path) == ingested(frame, tmp_path / "file.duckdb")


def test_a_time_that_the_engine_cannot_order_is_refused(
    duck: warehouses.Duck, tmp_path: Path
) -> None:
    table = duck.put(visits(50).with_columns(seen=pl.lit("2026-03-01")))
    with pytest.raises(InputError, match="holds no times"):
        fetched(duck, table, tmp_path / "fetched.duckdb")


def test_a_table_without_times_is_read_whole_and_changes_count(
    duck: warehouses.Duck, tmp_path: Path
) -> None:
    frame = visits(80, 60).unique("visitor", keep="last", maintain_order=True).drop("seen")
    path, map_ = tmp_path / "fetched.duckdb", ColumnMap(columns={"user": "visitor"})
    changed = frame.with_columns(large=pl.lit(1, pl.Int64))
    for table in (frame, frame, changed):
        name = duck.put(table)
        with open_engine(duck.address) as engine, Monitor(path, create=True) as monitor:
            fetch_visits(monitor.database, engine, name, map_)
    with Monitor(tmp_path / "file.duckdb", create=True) as monitor:
        monitor.ingest(changed, column_map=map_)
    assert digest_of(path) == digest_of(tmp_path / "file.duckdb")


# What goes wrong


SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


@pytest.mark.long
def test_two_that_fetch_at_once_leave_one_database(duck: warehouses.Duck, tmp_path: Path) -> None:
    frame = visits(4000, 900)
    table = duck.put(frame)
    program = [sys.executable, "-m", "fpmonitor", "--wait", "60", "scale", "fetch"]
    program += ["--engine", duck.address, "--from", table, "--user", "visitor", "--time", "seen"]
    program += ["--db", str(tmp_path / "fetched.duckdb"), "--quiet"]
    both = [subprocess.Popen(program, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [each.wait(timeout=300) for each in both] == [0, 0]
    assert digest_of(tmp_path / "fetched.duckdb") == ingested(frame, tmp_path / "file.duckdb")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"house.duckdb", "fetched.duckdb", "file.duckdb"}


def test_rows_of_convert_are_not_taken_for_values(duck: warehouses.Duck, tmp_path: Path) -> None:
    frame = visits(50).with_columns(flag=pl.lit("\x1fundefined\x1f\x1e"))
    with pytest.raises(InputError, match="scale convert"):
        fetched(duck, duck.put(frame), tmp_path / "fetched.duckdb")


def test_what_an_engine_refuses_is_told_in_one_line_without_values(
    duck: warehouses.Duck, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = duck.put(visits(50))
    at = ("--engine", duck.address, "--db", tmp_path / "fetched.duckdb", "--user", "visitor")
    for words in (
        ("--from", "nothing"),
        ("--from", "SELECT CAST('secret' AS INT) AS a"),
        ("--from", table, "--time", "nothing"),
        ("--from", table, "--user", "nothing"),
    ):
        assert run("scale", "fetch", *at, *words) == 2, words
        told = capsys.readouterr().err
        assert told.startswith("fpmonitor: error: "), words
        assert "secret" not in told


@pytest.mark.each
@pytest.mark.parametrize(
    "address", ["duckdb:///none.duckdb?token={}", "sc:///;token={}", "nobody://a;x={}", "no?x={}"]
)
def test_what_follows_an_address_is_not_shown(address: str) -> None:
    with pytest.raises(InputError) as found:
        open_engine(address.format("abcdefgh"))
    assert "abcdefgh" not in str(found.value)


@pytest.mark.warehouse
def test_tls_is_checked_and_a_wrong_password_is_told_and_not_shown(
    servers: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("psycopg")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there")
    port = servers["free_port"]()
    with warehouses.postgres(port) as psql:
        psql("-q", given="ALTER ROLE analyst PASSWORD 'rightone';\n")
        root = Path(psql("-At", given="SHOW data_directory").strip(), "server.crt")
        own = tmp_path / "root.crt"
        shutil.copy(root, own)
        other = tmp_path / "other.crt"
        key = ("-keyout", str(tmp_path / "key"), "-out", str(other), "-subj", "/CN=other")
        made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *key)
        subprocess.run(made, check=True, capture_output=True)

        def asked(password: str, ending: str) -> int:
            at = f"postgresql+psycopg://analyst:{password}@127.0.0.1:{port}/postgres"
            with open_engine(f"{at}?{ending}") as engine:
                text = "SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
                return int(engine.frame(text).item())

        checked = f"sslmode=verify-full&sslrootcert={own}"
        assert asked("rightone", checked) == 1
        for password, ending in (
            ("wrong-secret", checked),
            ("rightone", f"sslmode=verify-full&sslrootcert={other}"),
            ("rightone", "sslmode=disable"),
        ):
            with pytest.raises(EngineLostError, match="does not answer") as raised:
                asked(password, ending)
            assert not {"secret", "rightone", "sslrootcert"} & set(
                re.findall(r"\w+", str(raised.value))
            )


@pytest.mark.warehouse
def test_a_server_that_is_killed_in_the_middle_is_told_and_answers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    frame = visits(300, 200).unique("visitor")
    with warehouses.postgres() as psql:
        house = warehouses.Postgres(psql)
        house.put(frame)
        candidates = "Screen.width,large,flag"
        asked = ("--from", "visits", "--user", "visitor", "--candidates", candidates)
        assert run("scale", "sql", *asked, "--to", "asks") == 0
        slow = tmp_path / "asks" / "1.sql"
        monkeypatch.setenv("FPMONITOR_ENGINE", house.address)
        monkeypatch.setattr(
            "fpmonitor.cluster.rounds.statement_of", lambda *_: "SELECT pg_sleep(60)"
        )
        data = psql("-At", given="SHOW data_directory").strip()
        postmaster = int(Path(data, "postmaster.pid").read_text(encoding="utf-8").split()[0])

        def kill() -> None:
            wait(lambda: psql("-At", given=SLEEPING).strip() == "1")
            os.kill(postmaster, signal.SIGQUIT)

        killer = threading.Thread(target=kill)
        killer.start()
        assert run("decide", "--spectra", "asks", "--budget", "5%") == 2
        killer.join()
    assert "does not answer" in capsys.readouterr().err
    assert slow.exists()
    assert not (tmp_path / "asks" / "1.csv").exists()


@pytest.mark.warehouse
def test_a_server_that_is_killed_while_visits_are_fetched_leaves_whole_parts_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was stored is known to the next attempt, which goes on to the rows of a file."""
    pytest.importorskip("psycopg")
    from fpmonitor.cluster import fetching  # noqa: PLC0415

    frame, path, stored = visits(), tmp_path / "fetched.duckdb", fetching._stored
    monkeypatch.setattr(fetching, "_ROWS_A_LOG", 100)
    monkeypatch.setattr("fpmonitor.cluster.engine._ROWS_OF_DRIVER", 100)
    words = ("scale", "fetch", "--from", "visits", "--user", "visitor", "--time", "seen")
    with warehouses.postgres() as psql:
        house = warehouses.Postgres(psql)
        house.put(frame)
        data = psql("-At", given="SHOW data_directory").strip()
        postmaster = Path(data, "postmaster.pid").read_text(encoding="utf-8").split()[0]

        def killing(*given: Any) -> Any:
            report = stored(*given)
            others = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
            asked = f"SELECT pid FROM pg_stat_activity WHERE {others}"
            for process in (postmaster, *psql("-At", given=asked).split()):
                os.kill(int(process), signal.SIGKILL)
            return report

        monkeypatch.setattr(fetching, "_stored", killing)
        monkeypatch.setenv("FPMONITOR_ENGINE", house.address)
        assert run(*words, "--db", path) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(told) == 1
    assert told[0].startswith("fpmonitor: error: postgresql")
    assert "does not answer" in told[0]
    with Monitor(path) as monitor:
        assert [batch.read for batch in monitor.batches()] == [100]
    monkeypatch.setattr(fetching, "_stored", stored)
    with warehouses.postgres() as psql:
        house = warehouses.Postgres(psql)
        house.put(frame)
        monkeypatch.setenv("FPMONITOR_ENGINE", house.address)
        assert run(*words, "--db", path) == 0
    assert digest_of(path) == ingested(frame, tmp_path / "file.duckdb")


@pytest.mark.warehouse
def test_a_wrong_password_is_one_line_and_stores_nothing(
    servers: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("psycopg")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not there")
    port, path = servers["free_port"](), tmp_path / "fetched.duckdb"
    words = ("scale", "fetch", "--from", "visits", "--user", "visitor", "--db", path)
    with warehouses.postgres(port) as psql:
        psql("-q", given="ALTER ROLE analyst PASSWORD 'rightone';\n")
        psql("-q", given="CREATE TABLE visits AS SELECT 'u' || i AS visitor, i % 2 AS a "
             "FROM generate_series(1, 50) AS r(i);\n")  # fmt: skip
        at = f"@127.0.0.1:{port}/postgres?sslmode=require"
        monkeypatch.setenv("FPMONITOR_ENGINE", f"postgresql+psycopg://analyst:wrong-secret{at}")
        assert run(*words) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "user and password right?" in line
        assert "secret" not in line
        if path.exists():
            with Monitor(path) as monitor:
                assert monitor.batches() == []
        monkeypatch.setenv("FPMONITOR_ENGINE", f"postgresql+psycopg://analyst:rightone{at}")
        assert run(*words) == 0
    with Monitor(path) as monitor:
        assert monitor.population().users == 50


@pytest.mark.long
@pytest.mark.warehouse
def test_ctrl_c_cancels_the_query_on_the_server(
    postgres: warehouses.Postgres, tmp_path: Path
) -> None:
    pytest.importorskip("psycopg")
    query = "SELECT pg_sleep(120)::text AS visitor, 1 AS a"
    program = [sys.executable, "-m", "fpmonitor", "scale", "fetch", "--from", query]
    program += ["--user", "visitor", "--db", str(tmp_path / "x.duckdb")]
    environment = {**os.environ, "FPMONITOR_ENGINE": postgres.address}
    process = subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True)
    wait(lambda: postgres.psql("-At", given=SLEEPING).strip() == "1")
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert told.endswith("fpmonitor: interrupted\n")
    wait(lambda: postgres.psql("-At", given=SLEEPING).strip() == "0")
