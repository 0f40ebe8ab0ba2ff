"""Cost of the search beside level-wise search by DuckDB and by Polars, which give the same sets.

`python benchmarks/search.py` prints JSON; `--large` adds the table of a million rows, `--scaling`
shows instead how the cost grows with rows and columns. All tools read the same integer codes; each
runs in a process of its own, and its figures are those of the search alone, without loading.
Figures named `ratio` are CPU seconds divided by those of level-wise DuckDB in the same run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
from search_data import WORKLOADS, few_rows, many_users

from fpmonitor.decide.search import search
from fpmonitor.estimate.criterion import Criterion, Score
from fpmonitor.population.memory import MemorySource
from fpmonitor.render.charts import Series, line_chart
from fpmonitor.render.svg import standalone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Columns = tuple[str, ...]
    Exposed = Callable[[Columns], int]
    Found = tuple[list[Columns], list[Columns], int]

K = 10
SHARE = 100  # the budget is one user in so many
REPEATS = 5  # of our search, whose median is reported
LARGE = "20x1M"


def level_wise(apis: Sequence[str], exposed: Exposed, limit: int) -> Found:
    """Ask for each set whose subsets are all allowed, size by size."""
    allowed: set[Columns] = {()}
    blocked: list[Columns] = []
    asked, level = 0, [(api,) for api in apis]
    while level:
        asked += len(level)
        judged = {members: exposed(members) <= limit for members in level}
        passed = [members for members in level if judged[members]]
        blocked += [members for members in level if not judged[members]]
        allowed.update(passed)
        level = [members for members in joined(passed) if has_all_subsets(members, allowed)]
    larger = {
        members[:place] + members[place + 1 :]
        for members in allowed
        for place in range(len(members))
    }
    return sorted(allowed - larger), sorted(blocked), asked


def joined(sets: Sequence[Columns]) -> list[Columns]:
    """Join sets that agree in all but the last member."""
    return [
        (*one, other[-1])
        for place, one in enumerate(sets)
        for other in sets[place + 1 :]
        if one[:-1] == other[:-1]
    ]


def has_all_subsets(members: Columns, allowed: set[Columns]) -> bool:
    """Whether all sets with one member less are allowed."""
    return all(members[:place] + members[place + 1 :] in allowed for place in range(len(members)))


def run_search(codes: NDArray[np.uint32]) -> Callable[[], Found]:
    """Search by fpmonitor."""
    apis = names(codes)
    source = MemorySource(apis, list(codes))
    weights = np.ones(K + 1)
    weights[K] = 0
    criterion = Criterion(Score(weights), np.full(len(apis) + 1, float(source.users // SHARE)))

    def run() -> Found:
        borders = search(source, allow=criterion, block=criterion)
        return borders.allow, borders.block, borders.evaluated

    return run


def run_duckdb(codes: NDArray[np.uint32]) -> Callable[[], Found]:
    """Search by one `GROUP BY` a set, over a table of DuckDB."""
    apis = names(codes)
    columns = {api: np.ascontiguousarray(column) for api, column in zip(apis, codes, strict=True)}
    connection = duckdb.connect()
    connection.execute("CREATE TABLE log AS SELECT * FROM columns")
    del columns

    def exposed(members: Columns) -> int:
        groups = f"SELECT count(*) AS users FROM log GROUP BY {', '.join(members)}"
        query = f"SELECT coalesce(sum(users), 0) FROM ({groups}) WHERE users < {K}"
        row = connection.execute(query).fetchone()
        return int(row[0]) if row else 0

    return lambda: level_wise(apis, exposed, codes.shape[1] // SHARE)


def run_polars(codes: NDArray[np.uint32]) -> Callable[[], Found]:
    """Search by one `group_by` a set, over a frame of Polars."""
    apis = names(codes)
    log = pl.DataFrame(dict(zip(apis, codes, strict=True)))

    def exposed(members: Columns) -> int:
        users = log.group_by(members).len()["len"]
        return int(users.filter(users < K).sum())

    return lambda: level_wise(apis, exposed, codes.shape[1] // SHARE)


TOOLS = {"fpmonitor": run_search, "duckdb": run_duckdb, "polars": run_polars}


def names(codes: NDArray[np.uint32]) -> list[str]:
    """Plain names, so that no tool pays for quoting."""
    return [f"api{column:02d}" for column in range(len(codes))]


def measured(job: tuple[str, str]) -> tuple[Found, dict[str, float]]:
    """Run one tool on one table, in a process of its own."""
    tool, path = job
    codes = np.load(path)
    TOOLS[tool](codes[:3, :1000])()  # what a first call costs is no part of the search
    run = TOOLS[tool](codes)
    loaded = peak_megabytes()
    cpu, wall = [], []
    for _ in range(REPEATS if tool == "fpmonitor" else 1):
        started, clock = time.process_time(), time.perf_counter()
        found = run()
        cpu.append(time.process_time() - started)
        wall.append(time.perf_counter() - clock)
    return found, {
        "evaluated": found[2],
        "cpu_seconds": statistics.median(cpu),
        "wall_seconds": statistics.median(wall),
        "peak_megabytes": peak_megabytes(),
        "peak_megabytes_loaded": loaded,
    }


def peak_megabytes() -> float:
    """Greatest resident memory of this process so far, as Linux has it."""
    # Not getrusage: its figure starts with that of the parent process.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1000


def compare(codes: NDArray[np.uint32], tools: Sequence[str]) -> dict[str, Any]:
    """Run all tools on one table and check that they give the same sets."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "codes.npy")
        np.save(path, codes)
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            results = pool.map(measured, [(tool, path) for tool in tools], chunksize=1)
    (allow, block, evaluated), *others = (found for found, _ in results)
    for found in others:
        if found[:2] != (allow, block):
            raise SystemExit("the tools disagree")
    figures = {tool: figure for tool, (_, figure) in zip(tools, results, strict=True)}
    for figure in figures.values():
        figure["ratio"] = figure["cpu_seconds"] / figures["duckdb"]["cpu_seconds"]
    borders = len(allow) + len(block)
    return {
        "rows": codes.shape[1],
        "columns": len(codes),
        "distinct_rows": pl.DataFrame(dict(zip(names(codes), codes, strict=True))).n_unique(),
        "maximal_allowed": len(allow),
        "minimal_blocked": len(block),
        "evaluated": evaluated,
        "evaluations_wanted": 2 * borders + len(codes) ** 2,
        "tools": figures,
    }


def huge(rows: int) -> dict[str, Any]:
    """Search many users alone: seconds, and the greatest memory, which holds the table as well."""
    codes = many_users("huge", rows).codes
    made = peak_megabytes()
    started = time.perf_counter()
    run = run_search(codes)
    loaded = time.perf_counter() - started
    clock, cpu = time.perf_counter(), time.process_time()
    allow, block, evaluated = run()
    return {
        "rows": rows,
        "columns": len(codes),
        "maximal_allowed": len(allow),
        "minimal_blocked": len(block),
        "evaluated": evaluated,
        "seconds_to_load": loaded,
        "wall_seconds": time.perf_counter() - clock,
        "cpu_seconds": time.process_time() - cpu,
        "peak_megabytes_of_the_codes_made": made,
        "peak_megabytes": peak_megabytes(),
    }


def scaling() -> list[dict[str, Any]]:
    """Cost as the number of rows and the number of columns (and with it the border) grows."""
    cardinalities = (2, 2, 3, 3, 4, 4, 5, 6, 8, 8, 10, 12, 16, 20, 24, 24)
    sizes = [(rows, 12) for rows in (10_000, 100_000, 1_000_000)]
    sizes += [(100_000, columns) for columns in (8, 10, 14, 16)]
    return [
        compare(few_rows(7, rows, cardinalities[:columns], models=4_500), ["fpmonitor", "duckdb"])
        for rows, columns in sizes
    ]


def plot(results: Sequence[dict[str, Any]], folder: Path) -> None:
    """Draw CPU seconds against rows, and against the sets of the border, on logarithmic axes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, label, kept in (
        ("rows", "rows, powers of ten", [one for one in results if one["columns"] == 12]),
        ("border", "sets on the border, powers of ten", results),
    ):
        sizes = [
            one["rows"] if name == "rows" else one["maximal_allowed"] + one["minimal_blocked"]
            for one in kept
        ]
        order = np.argsort(sizes)
        lines = [
            Series(
                name=tool,
                x=[float(np.log10(sizes[i])) for i in order],
                y=[float(np.log10(kept[i]["tools"][tool]["cpu_seconds"])) for i in order],
            )
            for tool in kept[0]["tools"]
        ]
        drawn = line_chart(
            lines, title=f"Search: cost and {name}", x_label=label, y_label="log10 CPU seconds"
        )
        (folder / f"search-{name}.svg").write_text(standalone(drawn), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", nargs="*", choices=[*WORKLOADS, []], help="default: all")
    parser.add_argument("--large", action="store_true", help=f"with the table {LARGE}")
    parser.add_argument("--scaling", action="store_true", help="how the cost grows")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw --scaling as SVG here")
    parser.add_argument("--huge", type=int, metavar="ROWS", help="search so many rows, alone")
    parser.add_argument("--without-polars", action="store_true")
    asked = parser.parse_args()
    tools = [tool for tool in TOOLS if not (asked.without_polars and tool == "polars")]
    if asked.huge:
        answer: Any = huge(asked.huge)
    elif asked.scaling:
        answer = scaling()
        if asked.plot:
            plot(answer, asked.plot)
    else:
        chosen = asked.workload or [name for name in WORKLOADS if asked.large or name != LARGE]
        answer = {name: compare(WORKLOADS[name]().codes, tools) for name in chosen}
    json.dump({"k": K, "budget": 1 / SHARE, "results": answer}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
