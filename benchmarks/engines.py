"""What engines cost beside a file: visits fetched into a database, and decisions by counts alone.

    python benchmarks/engines.py [--visits 2000000] [--users 1300000] [--without clickhouse ...]

makes visits of eight columns, and a day of new ones. It measures `ingest` of their file, `scale
fetch` of the same rows from DuckDB, Sail and Postgres and of the day after it, and `decide` with
twelve candidates on DuckDB, Postgres and ClickHouse, beside the group-bys of the sets that it asked
for, which the engine runs one after the other. JSON goes to stdout: processor seconds, those of a
server with those of the client; peak memory of the client alone; ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from fpmonitor.cli import run  # noqa: E402 -- of this checkout, as the tests are
from fpmonitor.cluster.engine import open_engine  # noqa: E402
from tests.cluster import warehouses  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TICKS = os.sysconf("SC_CLK_TCK")
COLUMNS = (7, 40, 400, 3000, 60, 120, 20, 150, 3, 5, 12, 30)
FETCHED = 8  # columns of the visits that are fetched
MAKE = """SELECT 'u' || (hash(i * 3 + {seed}) % {users}) AS visitor,
    TIMESTAMP '2026-03-01' + INTERVAL ({day} * 86400000000 + i * 40000) MICROSECOND AS seen,
    {columns} FROM range({rows}) AS r(i)"""


def visits(rows: int, users: int, *, columns: int, day: int = 0) -> str:
    """Query of visits whose values follow a Zipf law each, partly together."""
    draw = "(hash(i * {0}) % 100000) / 100000.0"
    told = ", ".join(
        f"'v' || floor({COLUMNS[c]} ** ({draw.format(c % 4 + 2 + day)}))::INT AS x{c:02d}"
        for c in range(columns)
    )
    return MAKE.format(seed=day, users=users, day=day, columns=told, rows=rows)


def processor(server: int | None) -> float:
    """Processor seconds of a process and of its children that ended; 0 for none."""
    if server is None:
        return 0.0
    fields = Path(f"/proc/{server}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def measured(work: Callable[[], Any], server: int | None = None) -> dict[str, float]:
    """Cost of some work in a process of its own, and of a server meanwhile."""
    before = processor(server)
    child = os.fork()
    if not child:
        try:
            code = work() or 0
        except BaseException as error:  # noqa: BLE001 -- the child ends here
            print(type(error).__name__, error, file=sys.stderr)
            code = 1
        os._exit(code)
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"a step failed ({status})")
    cpu = used.ru_utime + used.ru_stime + processor(server) - before
    return {"cpu": round(cpu, 1), "peak_megabytes": used.ru_maxrss // 1024}


def houses(folder: Path, without: list[str]) -> Iterator[tuple[str, Any, int | None]]:
    """Warehouses one after the other, with the process that works for each."""
    if "duckdb" not in without:
        yield "duckdb", warehouses.Duck(folder), None
    if "sail" not in without:
        started = runpy.run_path(str(ROOT / "benchmarks" / "spark_cluster.py"), run_name="cluster")
        with started["sail"](folder) as server:
            yield "sail", warehouses.Spark(server.url, folder), server.processes[0]
    if "postgres" not in without:
        with warehouses.postgres() as psql:
            house = warehouses.Postgres(psql)
            data = psql("-At", given="SHOW data_directory").strip()
            yield "postgres", house, int(Path(data, "postmaster.pid").read_text().split()[0])
    if "clickhouse" not in without:
        clickhouse = warehouses.ClickHouse(folder / "clickhouse")
        yield "clickhouse", clickhouse, clickhouse.process.pid
        clickhouse.close()


def fill(house: Any, table: str, path: Path) -> str:
    """Let a Parquet file be a table, or more rows of it; how it is named."""
    if house.dialect == "spark":
        (path.parent / table).mkdir(exist_ok=True)
        (path.parent / table / path.name).hardlink_to(path)
        return str(path.parent / table)
    with duckdb.connect() as connection:
        rows = f"FROM '{path}'"
        names = connection.sql(f"{rows} LIMIT 0").columns
        kinds = {name: "timestamp" if name == "seen" else "text" for name in names}
        if house.dialect == "duckdb":
            with duckdb.connect(house.address.removeprefix("duckdb:///")) as there:
                there.execute(f"CREATE TABLE IF NOT EXISTS {table} AS {rows} LIMIT 0")
                there.execute(f"INSERT INTO {table} {rows}")
        elif house.dialect == "postgres":
            lines = path.with_suffix(".csv")
            connection.execute(f"COPY ({rows}) TO '{lines}' (HEADER false)")
            lines.chmod(0o644)
            columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
            house.psql("-q", given=f"CREATE TABLE IF NOT EXISTS {table} ({columns});\n")
            house.psql("-q", "-c", f"\\copy {table} FROM '{lines}' WITH (FORMAT csv)")
            house.psql("-q", given="ANALYZE;\n")
        else:
            made = f"CREATE TABLE {table} ENGINE = MergeTree ORDER BY tuple() AS"
            house.query(f"{made} SELECT * FROM file('{path}', Parquet)")
    return table


def fetched(house: Any, table: str, folder: Path) -> int:
    os.environ["FPMONITOR_ENGINE"] = house.address
    words = ["--from", table, "--db", str(folder / f"{house.dialect}.duckdb"), "--quiet"]
    words += [word for c in range(FETCHED, 12) for word in ("--ignore", f"x{c:02d}")]
    return run(["scale", "fetch", *words, "--user", "visitor", "--time", "seen"])


def decided(house: Any, table: str, folder: Path) -> int:
    os.environ["FPMONITOR_ENGINE"] = house.address
    names = ",".join(f"x{c:02d}" for c in range(12))
    asks = str(folder / f"asks-{house.dialect}")
    asked = ["--from", table, "--user", "visitor", "--candidates", names, "--to", asks, "-q"]
    run(["scale", "sql", *asked, "--dialect", house.dialect])
    question = ["--budget", "5%", "-n", "10M", "--quiet", "-o", str(folder / "decision.json")]
    return run(["decide", "--spectra", asks, *question])


def grouped(house: Any, table: str, sets: set[str]) -> None:
    """Count each set by itself."""
    with open_engine(house.address) as engine:
        for columns in sets:
            counted = f"SELECT count(*) AS size FROM {table} GROUP BY {columns}"
            engine.frame(f"SELECT size, count(*) AS n FROM ({counted}) AS t GROUP BY size")


def of_house(house: Any, server: int | None, parts: list[Path], folder: Path) -> dict[str, Any]:
    """What is asked of one warehouse costs."""
    found: dict[str, Any] = {}
    first, day, latest = parts
    if house.dialect != "clickhouse":
        table = fill(house, "visits", first)
        found["fetch"] = measured(lambda: fetched(house, table, folder), server)
        fill(house, "visits", day)
        found["fetch of a day"] = measured(lambda: fetched(house, table, folder), server)
    if house.dialect == "spark":
        return found
    table = fill(house, "latest", latest)
    found["decide"] = measured(lambda: decided(house, table, folder), server)
    texts = [
        path.read_text(encoding="utf-8") for path in folder.glob(f"asks-{house.dialect}/*.csv")
    ]
    lists = re.findall(r"\[[^\]]+\]", "".join(texts))
    sets = {",".join(re.findall(r"x\d\d", line)) for line in lists}
    found["sets"] = len(sets)
    found["group-bys"] = measured(lambda: grouped(house, table, sets), server)
    found["decide over group-bys"] = found["decide"]["cpu"] / found["group-bys"]["cpu"]
    return found


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visits", type=int, default=2_000_000)
    parser.add_argument("--users", type=int, default=1_300_000)
    parser.add_argument("--without", action="append", default=[])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        parts = [folder / f"{name}.parquet" for name in ("first", "day", "latest")]
        with duckdb.connect() as here:
            for number, (path, rows) in enumerate(
                zip(parts, (asked.visits, asked.visits // 30), strict=False)
            ):
                text = visits(rows, asked.users, columns=12, day=number)
                here.execute(f"COPY ({text}) TO '{path}' (COMPRESSION zstd)")
            last = "QUALIFY row_number() OVER (PARTITION BY visitor ORDER BY seen) = 1"
            here.execute(f"COPY (FROM '{parts[0]}' {last}) TO '{parts[2]}'")
        ignored = [word for c in range(FETCHED, 12) for word in ("--ignore", f"x{c:02d}")]
        words = [
            "--user",
            "visitor",
            "--time",
            "seen",
            "--db",
            str(folder / "file.duckdb"),
            *ignored,
        ]
        found: dict[str, Any] = {"visits": asked.visits, "users": asked.users}
        found["file"] = {"ingest": measured(lambda: run(["ingest", str(parts[0]), *words, "-q"]))}
        for name, house, server in houses(folder, asked.without):
            found[name] = of_house(house, server, parts, folder)
            if "fetch" in found[name]:
                ratio = found[name]["fetch"]["cpu"] / found["file"]["ingest"]["cpu"]
                found[name]["fetch over ingest"] = round(ratio, 2)
            print(json.dumps({name: found[name]}), file=sys.stderr)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
