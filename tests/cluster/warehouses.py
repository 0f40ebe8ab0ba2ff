"""Warehouses on this computer: SQL in, rows out."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
import sqlglot

from fpmonitor.cluster.engine import ENGINES, Engine, open_engine
from fpmonitor.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    """Statements that make the table `visits`.

    They are written for DuckDB as they are: to parse its thousands of values took 15 s of a run.
    """
    kinds = frame.schema
    columns = ", ".join(f"{quoted(n)} {TYPES.get(k, 'TIMESTAMP')}" for n, k in kinds.items())
    values = ", ".join(
        f"({', '.join(_literal(v, k) for v, k in zip(row, kinds.values(), strict=True))})"
        for row in frame.rows()
    )
    create = f"CREATE TABLE visits ({columns})"
    insert = f"INSERT INTO visits SELECT * FROM (VALUES {values}) AS v"
    if dialect == "duckdb":
        return [create, insert]
    create = sqlglot.transpile(create, "duckdb", dialect)[0]
    if dialect == "clickhouse":
        create += " ENGINE = Memory"
        insert = f"INSERT INTO visits VALUES {values}"
    return [create, sqlglot.transpile(insert, "duckdb", dialect)[0]]


def in_duckdb(text: str, frame: pl.DataFrame) -> str:
    with duckdb.connect() as connection:
        for each in table_statements(frame, "duckdb"):
            connection.execute(each)
        return pl.DataFrame(connection.sql(text)).write_csv()


class House:
    """A warehouse of this computer, at an address of an engine."""

    def __init__(self, dialect: str, address: str) -> None:
        self.dialect, self.address = dialect, address

    def put(self, frame: pl.DataFrame) -> str:
        """Let a frame be the table of visits, and return how it is named."""
        self.run(*table_statements(frame, self.dialect))
        return "visits"

    def run(self, *texts: str) -> None:
        """Run statements that change something."""
        raise NotImplementedError

    def answer(self, text: str) -> str:
        """Return what a console would save of a statement."""
        with open_engine(self.address) as engine:
            return engine.frame(text).write_csv()


class Duck(House):
    def __init__(self, folder: Path) -> None:
        super().__init__("duckdb", f"duckdb:///{folder}/house.duckdb")

    def run(self, *texts: str) -> None:
        with duckdb.connect(self.address.removeprefix("duckdb:///")) as connection:
            for text in ("DROP TABLE IF EXISTS visits", *texts):
                connection.execute(text)


class Spark(House):
    """Sail or Spark, which read files."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__("spark", address)
        self._folder = folder

    def put(self, frame: pl.DataFrame) -> str:
        path = self._folder / f"{len([*self._folder.iterdir()])}.parquet"
        frame.write_parquet(path)
        return str(path)


class Postgres(House):
    def __init__(self, psql: Callable[..., str]) -> None:
        self.psql = psql
        self.socket = psql("-At", given="SHOW unix_socket_directories").strip()
        super().__init__("postgres", f"postgresql+psycopg://analyst@/postgres?host={self.socket}")

    def run(self, *texts: str) -> None:
        self.psql("-q", given=";\n".join(["DROP TABLE IF EXISTS visits", *texts, ""]))


_CHDB = """
import json, sys, chdb.session
session = chdb.session.Session(sys.argv[1])
for line in sys.stdin.buffer:
    try:
        kind, content = b"+", session.query(json.loads(line), "Parquet").bytes()
    except Exception as error:
        kind, content = b"-", str(error).encode()
    sys.stdout.buffer.write(kind + len(content).to_bytes(8) + content)
    sys.stdout.buffer.flush()
"""


class ClickHouse(House):
    """In a process of its own, as the library is large, and as a new kind of engine."""

    def __init__(self, folder: Path) -> None:
        super().__init__("clickhouse", f"chdb://{folder}")
        command = [sys.executable, "-c", _CHDB, str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        OPEN[self.address] = self

    def run(self, *texts: str) -> None:
        for text in ("DROP TABLE IF EXISTS visits", *texts):
            self.query(text)

    def query(self, text: str) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(text).encode() + b"\n")
        self.process.stdin.flush()
        kind = self.process.stdout.read(1)
        content = self.process.stdout.read(int.from_bytes(self.process.stdout.read(8)))
        if kind != b"+":
            raise StoreError(f"ClickHouse refused: {content.decode()}")
        return content

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


OPEN: dict[str, ClickHouse] = {}
ENGINES["chdb"] = "tests.cluster.warehouses:ChdbEngine"


class ChdbEngine(Engine):
    dialect = "clickhouse"

    def __init__(self, address: str) -> None:
        self.address, self._house = address, OPEN[address]

    def close(self) -> None:
        """Do nothing: the process goes on."""

    def frames(self, text: str) -> Iterator[pl.DataFrame]:
        found = self._house.query(text.rstrip().removesuffix(";"))
        frame = pl.read_parquet(io.BytesIO(found))
        yield frame.with_columns(pl.col(pl.Binary).cast(pl.String))


def postgres_programs() -> dict[str, str] | None:
    """Find the programs of a Debian package, which are not on the path."""
    folders = [str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    path = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    found = {name: shutil.which(name, path=path) for name in ("initdb", "pg_ctl", "psql")}
    return None if None in found.values() else {k: str(v) for k, v in found.items()}


@contextmanager
def postgres(tls_port: int | None = None) -> Iterator[Callable[..., str]]:
    """Start a server in a folder of its own, which listens at a socket there; yields psql.

    With a port it listens there, too, for TLS and a password.
    """
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
        if tls_port is not None:
            key = ("-keyout", f"{data}/server.key", "-out", f"{data}/server.crt")
            subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
            call("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *key, *subject)
            Path(data, "pg_hba.conf").write_text(
                "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
                encoding="utf-8",
            )
            listening = f"-k {folder} -h 127.0.0.1 -p {tls_port} -c ssl=on"
        log = str(folder / "log")
        call(programs["pg_ctl"], "-D", data, "-w", "-l", log, "-o", listening, "start")

        def psql(*options: str, given: str = "") -> str:
            at = ["-h", str(folder), "-U", "analyst", "-d", "postgres", "-X"]
            at += ["-v", "ON_ERROR_STOP=1", "-p", str(tls_port or 5432)]
            return call(programs["psql"], *at, *options, given=given)

        try:
            yield psql
        finally:
            with suppress(AssertionError):  # a test may have killed it
                call(programs["pg_ctl"], "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
