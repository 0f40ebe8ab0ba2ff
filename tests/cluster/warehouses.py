"""Warehouses on this computer that run statements as a console does: SQL in, CSV out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
import sqlglot

from fpmonitor.cluster.spark import SparkEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Run = Callable[[str, pl.DataFrame], str]  # statement, table `visits` -> CSV

TYPES = {pl.String: "TEXT", pl.Int64: "BIGINT", pl.Float64: "DOUBLE", pl.Boolean: "BOOLEAN"}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any, kind: Any) -> str:
    if value is None:
        return "NULL"
    if kind == pl.String:
        return "'" + value.replace("'", "''") + "'"
    return f"CAST('{value}' AS {TYPES.get(kind, 'TIMESTAMP')})"


def table_statements(frame: pl.DataFrame, dialect: str) -> list[str]:
    """Statements that make the table `visits`."""
    kinds = frame.schema
    columns = ", ".join(f"{quoted(n)} {TYPES.get(k, 'TIMESTAMP')}" for n, k in kinds.items())
    values = ", ".join(
        f"({', '.join(_literal(v, k) for v, k in zip(row, kinds.values(), strict=True))})"
        for row in frame.rows()
    )
    create = sqlglot.transpile(f"CREATE TABLE visits ({columns})", "duckdb", dialect)[0]
    if dialect == "clickhouse":
        create += " ENGINE = Memory"
    insert = f"INSERT INTO visits SELECT * FROM (VALUES {values}) AS v"
    if dialect == "clickhouse":
        insert = f"INSERT INTO visits VALUES {values}"
    return [create, sqlglot.transpile(insert, "duckdb", dialect)[0]]


def in_duckdb(text: str, frame: pl.DataFrame) -> str:
    with duckdb.connect() as connection:
        for each in table_statements(frame, "duckdb"):
            connection.execute(each)
        return pl.DataFrame(connection.sql(text)).write_csv()


def in_sail(address: str) -> Run:
    def run(text: str, frame: pl.DataFrame) -> str:
        with SparkEngine(address) as engine:
            engine.define_rows("visits", frame)
            return engine.frame(text.rstrip().removesuffix(";")).write_csv()

    return run


_CHDB = """
import sys, chdb.session
session = chdb.session.Session()
*before, last = sys.stdin.read().split("\\0")
for each in before:
    session.query(each)
sys.stdout.write(session.query(last, "CSVWithNames").bytes().decode())
"""


def in_clickhouse(text: str, frame: pl.DataFrame) -> str:
    """Run in a process of its own, as the library is large."""
    given = "\0".join([*table_statements(frame, "clickhouse"), text.rstrip().removesuffix(";")])
    done = subprocess.run(
        [sys.executable, "-c", _CHDB], input=given.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.decode()


def postgres_programs() -> dict[str, str] | None:
    """Find the programs of a Debian package, which are not on the path."""
    folders = [str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    path = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    found = {name: shutil.which(name, path=path) for name in ("initdb", "pg_ctl", "psql")}
    return None if None in found.values() else {k: str(v) for k, v in found.items()}


@contextmanager
def postgres() -> Iterator[Callable[..., str]]:
    """Start a server in a folder of its own, which listens at a socket there; yields psql."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("Postgres is not there")
    folder = Path(tempfile.mkdtemp(prefix="fpmonitor-postgres-"))
    user = "nobody" if os.getuid() == 0 else None  # it refuses root
    if user is not None:
        shutil.chown(folder, user)

    def call(*command: str, given: str = "") -> str:
        done = subprocess.run(
            command, input=given.encode(), capture_output=True, check=False, user=user, cwd=folder
        )
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return done.stdout.decode()

    data = str(folder / "data")
    try:
        call(programs["initdb"], "-D", data, "-U", "analyst", "-A", "trust", "-E", "UTF8", "-N")
        listening = f"-k {folder} -h ''"
        log = str(folder / "log")
        call(programs["pg_ctl"], "-D", data, "-w", "-l", log, "-o", listening, "start")

        def psql(*options: str, given: str = "") -> str:
            at = (
                "-h",
                str(folder),
                "-U",
                "analyst",
                "-d",
                "postgres",
                "-X",
                "-v",
                "ON_ERROR_STOP=1",
            )
            return call(programs["psql"], *at, *options, given=given)

        try:
            yield psql
        finally:
            call(programs["pg_ctl"], "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def in_postgres(psql: Callable[..., str]) -> Run:
    def run(text: str, frame: pl.DataFrame) -> str:
        made = ";\n".join(["DROP TABLE IF EXISTS visits", *table_statements(frame, "postgres")])
        psql("-q", given=f"{made};\n")
        return psql("--csv", given=text)

    return run
