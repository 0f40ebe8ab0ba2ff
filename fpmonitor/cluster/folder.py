"""A store of observations in a folder that a distributed engine reads and writes.

What the DuckDB file is to one machine, a folder of Parquet is to a cluster:

    meta/                   settings: the key of the user digests
    batch/                  a row for each stored batch; a batch counts once its row is there
    visit/DIGEST/           the visits of a batch: a row a visit, a column an API
    snapshot/ID/            dictionary/, codes0/, users/, last manifest/; later repeats/, view-ID/
    thinned/ID-SEED/        users that the thinning of one question keeps

Every statement runs on the engine; only counts, spectra and the words of users come back. The word
of a user is the same number that `store.snapshot` gives it, and so are digest, thinning, decision.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.cluster.folder_ingest import (
    NO_TEXT,
    SEPARATOR,
    define_export,
    is_export,
    read_batch,
    visit_column,
    visits_statement,
)
from fpmonitor.cluster.folder_snapshot import (
    RemoteSnapshot,
    count_seen,
    define_dictionary,
    write_coded_users,
)
from fpmonitor.cluster.folder_users import RemoteUsers
from fpmonitor.cluster.spark_files import format_of
from fpmonitor.errors import InputError, StoreError, UndecidableError
from fpmonitor.estimate.thinning import kept_number
from fpmonitor.logs import ColumnMap, excerpt
from fpmonitor.sql import statement
from fpmonitor.store.ingest import BatchReport
from fpmonitor.store.snapshot import ABSENT, Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.cluster.folder_ingest import Batch
    from fpmonitor.cluster.portable import SqlEngine
    from fpmonitor.cluster.spark_files import FileFormat

_WORD_HALF = 1 << 32
_WORDS_AT_ONCE = 4_000_000
_LAYOUT = 2  # of the folder; 1 held a row an observation
_SNAPSHOT = 2  # what a snapshot holds; others are not found, and made anew


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """What became of the records of a batch, and the digest that names it in its store."""

    report: BatchReport
    digest: str


def is_store(engine: SqlEngine, folder: str) -> bool:
    """Whether a folder of the engine holds a store."""
    return bool(engine.schema_of([f"{folder.rstrip('/')}/meta"]))


class FolderStore:
    """The store in a folder of the engine.

    Parameters
    ----------
    engine
        Reads and writes the folder.
    folder
        Its path or address, as the engine knows it.
    create
        Make the store when it is not there.

    Raises
    ------
    InputError
        The folder holds no store, or that of another version.
    """

    def __init__(self, engine: SqlEngine, folder: str, *, create: bool = False) -> None:
        self.engine, self._folder = engine, folder.rstrip("/")
        if not is_store(engine, folder):
            if not create:
                raise InputError(
                    f"{excerpt(folder)}: no store of fpmonitor that the engine can read",
                    hint="make one with `fpmonitor remote ingest`; the engine reads the path",
                )
            self.engine.write(
                f"SELECT {_LAYOUT} AS version, '{secrets.token_hex(16)}' AS user_key",
                self._path("meta"),
            )
        meta = self._read("meta")
        if meta["version"].to_list() != [_LAYOUT]:
            raise InputError(
                f"{excerpt(folder)}: a store of another version of fpmonitor",
                hint="ingest the logs into a new folder",
            )
        self._key = str(meta["user_key"][0])
        self._opened: dict[str, RemoteSnapshot] = {}
        self._sources: dict[str, RemoteUsers] = {}

    def _path(self, *parts: str) -> str:
        return "/".join([self._folder, *parts])

    def _read(self, *parts: str) -> pl.DataFrame:
        """Read a small table of the store as a whole."""
        self.engine.define_files("small_table", [self._path(*parts)])
        return self.engine.rows("remote/whole", relation="small_table")

    # Ingest

    def batches(self) -> list[BatchReport]:
        """List the batches that are stored, in the order of ingest."""
        return [
            BatchReport(**{name: row[name] for name in BatchReport.__slots__ if name in row})
            for row in self._ledger().iter_rows(named=True)
        ]

    def _ledger(self) -> pl.DataFrame:
        if not self.engine.schema_of([self._path("batch")]):
            return pl.DataFrame()
        return self._read("batch").sort("number")

    def ingest(
        self,
        paths: Sequence[str],
        column_map: ColumnMap | None = None,
        form: FileFormat | None = None,
    ) -> StoredBatch:
        """Store one batch: files that the engine reads, or a table, or exported data, as a whole.

        A batch is what it holds: the same records again, in whatever files, add nothing.

        Parameters
        ----------
        paths
            As the engine names them.
        column_map
            Which columns hold what.
        form
            What the paths hold; by their names by default.

        Raises
        ------
        InputError
            Nothing there, no column for the user, no API, or a nested column.
        EngineLostError
            The engine died; the batch counts only if its row in the ledger was written.
        """
        started = time.perf_counter()
        label = excerpt(", ".join(paths))
        column_map = column_map or ColumnMap()
        form = form or format_of(paths)
        if form == "parquet" and is_export(self.engine, paths):
            column_map = ColumnMap()
            kinds = define_export(self.engine, paths[0])
        else:
            kinds = self.engine.define_files("batch_files", paths, form, column_map)
        batch = read_batch(self.engine, kinds, column_map, label)
        report = BatchReport(
            source=label,
            collector=batch.collector,
            read=batch.read,
            stored=0,
            duplicates=batch.read - batch.rejected,
            rejected=batch.rejected,
            users=0,
            apis=len(batch.apis),
            seconds=0.0,
        )
        ledger = self._ledger()
        if report.duplicates and not (len(ledger) and batch.digest in ledger["digest"]):
            report = replace(report, stored=report.duplicates, duplicates=0)
            report = self._write_batch(report, batch, len(ledger) + 1, started)
        report = replace(report, seconds=round(time.perf_counter() - started, 3))
        return StoredBatch(report, batch.digest)

    def _write_batch(
        self, report: BatchReport, batch: Batch, number: int, started: float
    ) -> BatchReport:
        folder = self._path("visit", batch.digest)
        text = visits_statement(self.engine, batch, key=self._key, number=number)
        self.engine.write(text, folder)
        self.engine.define_files("written", [folder])
        report = replace(
            report,
            users=int(self.engine.rows("remote/count_written")["users"][0]),
            seconds=round(time.perf_counter() - started, 3),
        )
        row = report.to_json() | {"number": number, "digest": batch.digest}
        row["names"] = json.dumps(batch.apis)
        row["ingested_at"] = datetime.now(UTC).isoformat(timespec="seconds")
        self._write_row(row, "batch", add=True)
        return report

    def _write_row(self, row: Mapping[str, Any], *parts: str, add: bool = False) -> None:
        self.engine.define_rows("new_row", pl.DataFrame([row]))
        text = self.engine.text_of("remote/whole", relation="new_row")
        self.engine.write(text, self._path(*parts), add=add)

    # Snapshot

    def snapshot(self, window: Window | None = None, *, batch: str | None = None) -> RemoteSnapshot:
        """Latest value of every API of every user; made once for a window and set of batches.

        Parameters
        ----------
        window
            Restricts the visits.
        batch
            Digest of the only batch to look at; all by default.

        Raises
        ------
        UndecidableError
            No batch is stored, or the window holds no observation.
        """
        window = window or Window()
        ledger = self._stored(batch)
        bounds = {
            "since": _microseconds(window.since),
            "until": _microseconds(window.until),
            "source": window.source,
        }
        told = repr([_SNAPSHOT, ledger["digest"].to_list(), bounds])
        identity = hashlib.sha256(told.encode())
        name = identity.hexdigest()[:24]
        if name not in self._opened:
            if not self.engine.schema_of([self._path("snapshot", name, "manifest")]):
                self._take_snapshot(name, ledger, bounds)
            self._opened[name] = self._open_snapshot(name)
        return self._opened[name]

    def _stored(self, batch: str | None) -> pl.DataFrame:
        """Rows of the ledger, of one batch or of all.

        Raises
        ------
        UndecidableError
            There is none.
        """
        ledger = self._ledger()
        if batch is not None and len(ledger):
            ledger = ledger.filter(pl.col("digest") == batch)
        if not len(ledger):
            raise UndecidableError("no observation to estimate from", hint="ingest logs first")
        return ledger

    def _open_snapshot(self, identity: str) -> RemoteSnapshot:
        manifest = self._read("snapshot", identity, "manifest")
        relation = f"snapshot_{identity}"
        self.engine.define_files(relation, [self._path("snapshot", identity, "users")])
        return RemoteSnapshot(
            identity=identity,
            folder=self._path("snapshot", identity),
            relation=relation,
            columns=dict(zip(manifest["api"], manifest["column"], strict=True)),
            seen=dict(zip(manifest["api"], manifest["seen"], strict=True)),
            users=int(manifest["users"][0]),
            visits=int(manifest["visits"][0]),
            digest=str(manifest["digest"][0]),
        )

    def _take_snapshot(
        self, identity: str, ledger: pl.DataFrame, bounds: Mapping[str, Any]
    ) -> None:
        apis = self._define_observations(ledger)
        self.engine.define_query("visits", "remote/visits", bounds)
        if any(bound is not None for bound in bounds.values()) and not self._count("visits"):
            raise UndecidableError("no observation to estimate from", hint="widen the window")
        path = self._path("snapshot", identity)
        columns, visits = write_coded_users(self.engine, apis, path)
        self.engine.define_files("coded_users", [f"{path}/users"])
        users = self._count("coded_users")
        if users == 0:
            raise UndecidableError("no observation to estimate from", hint="widen the window")
        digest = self._digest("coded_users", users)
        seen = count_seen(self.engine, "coded_users", columns)
        whole = {"users": users, "visits": visits, "digest": digest}
        rows = [
            {"api": api, "column": column, "seen": seen[api]} | whole
            for api, column in columns.items()
        ]
        self.engine.define_rows("manifest_rows", pl.DataFrame(rows))
        manifest = self.engine.text_of("remote/whole", relation="manifest_rows")
        self.engine.write(manifest, f"{path}/manifest")

    def _define_observations(self, ledger: pl.DataFrame) -> list[str]:
        """Let `observation` stand for the visits of some batches; their APIs, sorted."""
        folders = [self._path("visit", digest) for digest in ledger["digest"]]
        self.engine.define_files("observation", folders)
        return sorted({api for names in ledger["names"] for api in json.loads(names)})

    def mixed_sources(self, *, k: int, batch: str | None = None) -> dict[str, list[str]]:
        """APIs with values of several sources, of at least k users each, and which these are.

        Parameters
        ----------
        k
            Users; smaller sources are not named.
        batch
            Digest of the only batch to look at; all by default.

        Raises
        ------
        UndecidableError
            No batch is stored.
        """
        apis = self._define_observations(self._stored(batch))
        several = self.engine.rows("remote/sources", counts="1 AS one")["users"] >= k
        if several.sum() < 2:
            return {}
        columns = {api: visit_column(api) for api in apis}
        counts = ", ".join(f"count({column}) AS {column}" for column in columns.values())
        rows = self.engine.rows("remote/sources", counts=counts)
        common = rows.filter(pl.col("users") >= k).sort("source")
        found = {
            api: common.filter(pl.col(column) > 0)["source"].to_list()
            for api, column in columns.items()
        }
        return {api: sources for api, sources in found.items() if len(sources) > 1}

    def _count(self, relation: str) -> int:
        return int(self.engine.rows("snapshot/size", snapshot=relation).row(0)[0])

    def _digest(self, relation: str, users: int) -> str:
        """SHA-256 of the words of all users in order, range by range."""
        digest = hashlib.sha256()
        parts = min(1 << 16, 1 + users // _WORDS_AT_ONCE)
        ends = [_WORD_HALF * part // parts for part in range(parts + 1)]
        hashed = 0
        for first, after in itertools.pairwise(ends):
            values = {"first": first, "after": after}
            words = _words(self.engine.rows("remote/words_between", values, snapshot=relation))
            digest.update(words.tobytes())
            hashed += len(words)
        if hashed != users:
            raise StoreError(f"the engine returned the words of {hashed:,} of {users:,} users")
        return digest.hexdigest()

    # Views of a snapshot

    def present(self, snapshot: RemoteSnapshot, apis: Sequence[str]) -> RemoteSnapshot:
        """Users that have an observation of every one of `apis`; errors as of the local store."""
        condition = " AND ".join(f"{snapshot.column(api)} <> {ABSENT}" for api in apis)
        names = ",".join(sorted(apis))
        identity = hashlib.sha256(f"{snapshot.identity}/{names}".encode()).hexdigest()[:24]
        relation = f"present_{identity}"
        self.engine.define_query(
            relation, "remote/present", snapshot=snapshot.relation, present=condition
        )
        users = self._count(relation)
        if users == 0:
            raise UndecidableError(
                f"no user has an observation of all {len(apis)} APIs",
                hint="leave --missing at `value`, or name fewer APIs",
            )
        digest = f"{snapshot.digest}/present:{names}"
        return replace(snapshot, identity=identity, relation=relation, users=users, digest=digest)

    def source(self, snapshot: RemoteSnapshot, apis: Sequence[str] | None = None) -> RemoteUsers:
        """Spectra of all users of a snapshot, of all its APIs or of some; asked once each.

        Raises
        ------
        UnknownNameError
            The snapshot lacks one of them.
        """
        wanted = snapshot.apis if apis is None else tuple(apis)
        key = repr([snapshot.identity, wanted])
        if key not in self._sources:
            self._sources[key] = RemoteUsers(self, snapshot, wanted)
        return self._sources[key]

    def thinned(self, snapshot: RemoteSnapshot, *, mean: float, seed: int) -> tuple[str, int]:
        """Table of the users that the thinning keeps, as `dropped_positions` does, and its rows.

        It is written once for a question.

        Parameters
        ----------
        mean, seed
            As in `estimate.thinning.dropped_positions`.
        """
        kept = kept_number(mean, seed)
        if kept == 0 or kept >= snapshot.users:
            return snapshot.relation, min(kept, snapshot.users)
        name = f"{snapshot.identity}-{seed:016x}"
        folder = self._path("thinned", name)
        relation = f"thinned_{name.replace('-', '_')}"
        if not self.engine.schema_of([folder]):
            self.engine.write(self._first_users(snapshot, kept, seed), folder)
        self.engine.define_files(relation, [folder])
        if self._count(relation) != kept:
            self.engine.write(self._first_users(snapshot, kept, seed), folder)
            self.engine.define_files(relation, [folder])
        return relation, kept

    def _first_users(self, snapshot: RemoteSnapshot, number: int, seed: int) -> str:
        """Statement of the first users in the order of a seed."""
        columns = ", ".join(snapshot.columns.values())
        values = {"seed_high": seed >> 32, "seed_low": seed % _WORD_HALF}
        ordered = statement("remote/order_words", keep=columns, snapshot=snapshot.relation)
        keys = statement("remote/mix", keep=columns, words=ordered)
        high, low = self._last_key(keys, values, number)
        ends = values | {"high": high, "low": low}
        return self.engine.text_of("remote/first_users", ends, columns=columns, keys=keys)

    def _last_key(self, keys: str, values: Mapping[str, Any], number: int) -> tuple[int, int]:
        """Key of the user at a place of the order, counted from 1, without sorting all."""
        counts = self.engine.rows("remote/count_keys", values, keys=keys).sort("first_bits")
        ends = counts["users"].to_numpy().cumsum()
        place = int(np.searchsorted(ends, number))
        bits = int(counts["first_bits"][place])
        between = {"first": bits << 16, "after": (bits + 1) << 16}
        found = self.engine.rows("remote/keys_between", {**values, **between}, keys=keys)
        before = int(ends[place - 1]) if place else 0
        high, low = found.row(number - before - 1)
        return int(high), int(low)

    def sample(self, snapshot: RemoteSnapshot, users: int, *, seed: int) -> pl.DataFrame:
        """Draw users uniformly, as a long log: `user` (a number), `api`, `status`, `value`.

        Raises
        ------
        InputError
            More users than there are, or none.
        """
        if not 0 < users <= snapshot.users:
            raise InputError(f"sample: {users:,} of {snapshot.users:,} users")
        codes = self.engine.frame(self._first_users(snapshot, users, seed))
        order = np.random.default_rng(seed).permutation(len(codes))  # files come in no order
        numbers = {column: int(column.removeprefix("a")) for column in codes.columns}
        observed = (
            codes[order]
            .with_columns(pl.int_range(pl.len()).alias("user"))
            .unpivot(index="user", variable_name="column", value_name="code")
            .filter(pl.col("code") != ABSENT)
            .with_columns(pl.col("column").replace_strict(numbers).alias("number"))
        )
        self.engine.define_rows("sampled_code", observed.select("number", "code").unique())
        define_dictionary(self.engine, snapshot)
        cells = self.engine.rows("remote/sampled_values")
        names = {numbers[column]: api for api, column in snapshot.columns.items()}
        keys = pl.col("number", "code").cast(pl.Int64)
        return (
            observed.with_columns(keys)
            .join(cells.with_columns(keys), on=["number", "code"])
            .select(
                pl.col("user").cast(pl.String),
                pl.col("number").replace_strict(names).alias("api"),
                pl.col("cell").str.split(SEPARATOR).list.first().alias("status"),
                pl.col("cell").str.splitn(SEPARATOR, 2).struct[1].alias("value"),
            )
            .with_columns(pl.when(pl.col("value") != NO_TEXT).then("value").alias("value"))
        )


def _words(halves: pl.DataFrame) -> NDArray[np.uint64]:
    high, low = (halves[name].to_numpy().astype(np.uint64) for name in ("high", "low"))
    return (high << np.uint64(32)) | low


def _microseconds(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return round(utc.timestamp() * 1_000_000)
