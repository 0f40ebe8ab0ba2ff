"""A store of observations in a folder that a distributed engine reads and writes.

What the DuckDB file is to one machine, a folder of Parquet is to a cluster:

    meta/                   settings: the key of the user digests
    batch/                  a row for each stored batch; a batch counts once its row is there
    observation/DIGEST/     the observations of a batch
    snapshot/ID/            users/, dictionary/ and, last, manifest/
    thinned/ID-SEED/        users that the thinning of one question keeps

Every statement runs on the engine; only counts, spectra and the words of users come back. The word
of a user is the same number that `store.snapshot` gives it, and so are digest, thinning, decision.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.engine.portable import EngineSource, portable_statement
from fpmonitor.engine.spark import moment_cell, text_cell
from fpmonitor.errors import InputError, StoreError, UndecidableError, UnknownNameError
from fpmonitor.estimate.thinning import kept_number
from fpmonitor.logs import ColumnMap, excerpt
from fpmonitor.store.ingest import LARGE_VALUE_BYTES, BatchReport, canonical_json
from fpmonitor.store.snapshot import ABSENT, Window
from fpmonitor.store.sql import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.engine.spark import SparkEngine

_FIELDS = ("user", "time", "source", "api", "status", "value")
_WORD_HALF = 1 << 32
_WORDS_AT_ONCE = 4_000_000
_SEPARATOR = "\x1f"  # between the status and the text of a cell, as in the words of values
_NO_TEXT = "\x1e"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSnapshot:
    """A table on the engine with a row a user and an integer column an API.

    Attributes
    ----------
    identity
        Names it among all snapshots of its folder.
    relation
        Name of the table in the statements of the session.
    columns
        API -> its column; the code 0 is absent.
    users
        Rows.
    digest
        Digest of the multiset of the rows' values, as of `store.snapshot.Snapshot`.
    """

    identity: str
    relation: str
    columns: Mapping[str, str]
    users: int
    digest: str

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted."""
        return tuple(sorted(self.columns))


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
        The folder holds no store.
    """

    def __init__(self, engine: SparkEngine, folder: str, *, create: bool = False) -> None:
        self.engine, self._folder = engine, folder.rstrip("/")
        if not engine.schema_of([self._path("meta")]):
            if not create:
                raise InputError(
                    f"{excerpt(folder)}: no store of fpmonitor that the engine can read",
                    hint="make one with `fpmonitor remote ingest`; the engine reads the path",
                )
            self.engine.write(
                f"SELECT 1 AS version, '{secrets.token_hex(16)}' AS user_key",
                self._path("meta"),
            )
        self._key = str(self._read("meta")["user_key"][0])

    def _path(self, *parts: str) -> str:
        return "/".join([self._folder, *parts])

    def _read(self, *parts: str) -> pl.DataFrame:
        """Read a small table of the store as a whole."""
        self.engine.define_files("small_table", [self._path(*parts)])
        return self._rows("remote/whole", relation="small_table")

    def _statement(self, name: str, fragments: Mapping[str, str], **values: Any) -> str:
        return portable_statement(name, self.engine.dialect, fragments=fragments, **values)

    def _rows(
        self, name: str, *, values: Mapping[str, Any] | None = None, **holes: str
    ) -> pl.DataFrame:
        return self.engine.frame(self._statement(name, holes, **(values or {})))

    def _define(
        self, view: str, name: str, *, values: Mapping[str, Any] | None = None, **holes: str
    ) -> None:
        self.engine.define(view, self._statement(name, holes, **(values or {})))

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

    def ingest(self, paths: Sequence[str], column_map: ColumnMap | None = None) -> BatchReport:
        """Store one batch: Parquet folders or a table, long or wide, whole or not at all.

        A batch is what it holds: the same observations again, in whatever files, add nothing.

        Raises
        ------
        InputError
            Nothing there, no column for the user, no API, or a nested column.
        EngineLostError
            The engine died; the batch counts only if its row in the ledger was written.
        """
        started = time.perf_counter()
        label = excerpt(", ".join(paths))
        kinds = self.engine.define_files("batch_files", list(paths))
        collector, read, rejected = self._define_cells(kinds, column_map or ColumnMap(), label)
        counts = self._rows("remote/batch_digest").row(0, named=True)
        digest = hashlib.sha256(repr(sorted(counts.items())).encode()).hexdigest()[:32]
        report = BatchReport(
            source=label,
            collector=collector,
            read=read,
            stored=0,
            duplicates=read - rejected,
            rejected=rejected,
            users=0,
            apis=0,
            seconds=0.0,
        )
        ledger = self._ledger()
        if counts["observations"] and not (len(ledger) and digest in ledger["digest"]):
            report = replace(report, stored=read - rejected, duplicates=0)
            report = self._write_batch(report, digest, len(ledger) + 1, started)
        return replace(report, seconds=round(time.perf_counter() - started, 3))

    def _define_cells(
        self, kinds: Mapping[str, str], column_map: ColumnMap, label: str
    ) -> tuple[str, int, int]:
        """Define the observations of the files: collector, records, and those that are no use."""
        names = {field: column_map.name_of(field) for field in _FIELDS}
        if names["user"] not in kinds:
            raise InputError(
                f"{label}: no column {names['user']!r}; seen: {excerpt(', '.join(kinds))}",
                hint="name it with --user NAME or --columns MAP.toml",
            )
        long = names["api"] in kinds
        fields = _FIELDS if long else _FIELDS[:3]
        moment, no_time = ("NULL::BIGINT", "FALSE")
        if names["time"] in kinds:
            moment, no_time = moment_cell(names["time"], kinds[names["time"]])
        cells = [f"{moment} AS moment", f"({no_time}) AS no_time"]
        for field in fields:
            if field != "time":
                name = names[field]
                cell = text_cell(name, kinds[name]) if name in kinds else "NULL::VARCHAR"
                cells.append(f'{cell} AS "{field}"')
        known = {names[field] for field in fields} | column_map.ignore
        apis = [] if long else [name for name in kinds if name not in known]
        if not long and not apis:
            raise InputError(f"{label}: no column is an API")
        if not long:
            cells += ["'*' AS api", "'value' AS status"]
            cells += [f"{text_cell(api, kinds[api])} AS v{i}" for i, api in enumerate(apis)]
        records = f"SELECT {', '.join(cells)} FROM batch_files"  # noqa: S608 -- names are quoted
        self._define("checked", "remote/checked", records=records)
        if long:
            self._define("cells", "remote/long_cells")
        else:
            self.engine.define_rows(
                "batch_api", pl.DataFrame({"number": range(len(apis)), "api": apis})
            )
            branches = " ".join(f"WHEN {i} THEN checked.v{i}" for i in range(len(apis)))
            value = f"CASE batch_api.number {branches} END"
            self._define("cells", "remote/wide_cells", value=value)
        problems = self._rows("remote/count_problems")
        rejected = problems.filter(pl.col("problem").is_not_null())["records"].sum()
        return "long" if long else "wide", int(problems["records"].sum()), int(rejected)

    def _write_batch(
        self, report: BatchReport, digest: str, number: int, started: float
    ) -> BatchReport:
        nested = self._rows("remote/nested")["text"].to_list()
        self.engine.define_rows(
            "nested_value",
            pl.DataFrame(
                {"text": nested, "canonical": [canonical_json(text) for text in nested]},
                schema={"text": pl.String, "canonical": pl.String},
            ),
        )
        values = {"key": self._key, "large": LARGE_VALUE_BYTES, "batch": number}
        folder = self._path("observation", digest)
        self.engine.write(self._statement("remote/observations", {}, **values), folder)
        self.engine.define_files("written", [folder])
        size = self._rows("remote/count_written").row(0, named=True)
        report = replace(
            report,
            users=size["users"],
            apis=size["apis"],
            seconds=round(time.perf_counter() - started, 3),
        )
        row = report.to_json() | {"number": number, "digest": digest}
        row["ingested_at"] = datetime.now(UTC).isoformat(timespec="seconds")
        self._write_row(row, "batch", add=True)
        return report

    def _write_row(self, row: Mapping[str, Any], *parts: str, add: bool = False) -> None:
        self.engine.define_rows("new_row", pl.DataFrame([row]))
        text = self._statement("remote/whole", {"relation": "new_row"})
        self.engine.write(text, self._path(*parts), add=add)

    # Snapshot

    def snapshot(self, window: Window | None = None) -> RemoteSnapshot:
        """Latest value of every API of every user; made once for a window and set of batches.

        Raises
        ------
        UndecidableError
            No batch is stored, or the window holds no observation.
        """
        window = window or Window()
        ledger = self._ledger()
        if not len(ledger):
            raise UndecidableError("no observation to estimate from", hint="ingest logs first")
        bounds = {
            "since": _microseconds(window.since),
            "until": _microseconds(window.until),
            "source": window.source,
        }
        digests = ledger["digest"].to_list()
        identity = hashlib.sha256(repr([digests, bounds]).encode()).hexdigest()[:24]
        if not self.engine.schema_of([self._path("snapshot", identity, "manifest")]):
            self._take_snapshot(identity, digests, bounds)
        return self._open_snapshot(identity)

    def _open_snapshot(self, identity: str) -> RemoteSnapshot:
        manifest = self._read("snapshot", identity, "manifest")
        relation = f"snapshot_{identity}"
        self.engine.define_files(relation, [self._path("snapshot", identity, "users")])
        return RemoteSnapshot(
            identity=identity,
            relation=relation,
            columns=dict(zip(manifest["api"], manifest["column"], strict=True)),
            users=int(manifest["users"][0]),
            digest=str(manifest["digest"][0]),
        )

    def _take_snapshot(
        self, identity: str, digests: Sequence[str], bounds: Mapping[str, Any]
    ) -> None:
        folders = [self._path("observation", digest) for digest in digests]
        self.engine.define_files("observation", folders)
        apis = sorted(self._rows("remote/apis")["api"].to_list())
        self.engine.define_rows(
            "api_number", pl.DataFrame({"number": range(len(apis)), "api": apis})
        )
        self._define("latest", "remote/latest", values=bounds)
        path = self._path("snapshot", identity)
        self.engine.write(self._statement("remote/dictionary", {}), f"{path}/dictionary")
        self.engine.define_files("dictionary", [f"{path}/dictionary"])
        columns = {api: f"a{number}" for number, api in enumerate(apis)}
        self.engine.write(self._coded_users(columns), f"{path}/users")
        self.engine.define_files("coded_users", [f"{path}/users"])
        users = self._count("coded_users")
        if users == 0:
            raise UndecidableError("no observation to estimate from", hint="widen the window")
        digest = self._digest("coded_users", users)
        rows = [
            {"api": api, "column": column, "users": users, "digest": digest}
            for api, column in columns.items()
        ]
        self.engine.define_rows("manifest_rows", pl.DataFrame(rows))
        manifest = self._statement("remote/whole", {"relation": "manifest_rows"})
        self.engine.write(manifest, f"{path}/manifest")

    def _coded_users(self, columns: Mapping[str, str]) -> str:
        """Statement of the codes and the word of each user."""
        names = ", ".join(columns.values())
        cases = ", ".join(
            f"max(CASE WHEN dictionary.number = {number} THEN dictionary.code ELSE 0 END)::INTEGER "
            f"AS a{number}"
            for number in range(len(columns))
        )
        self._define("coded", "remote/codes", columns=cases)
        counted = statement("remote/occurrences", columns=names)
        mixed = statement("remote/mix", keep=f"{names}, occurrence", words=counted)
        summed = statement("remote/add_occurrence", columns=names, words=mixed)
        return self._statement("remote/mix", {"keep": names, "words": summed})

    def _count(self, relation: str) -> int:
        return int(self._rows("snapshot/size", snapshot=relation).row(0)[0])

    def _digest(self, relation: str, users: int) -> str:
        """SHA-256 of the words of all users in order, range by range."""
        digest = hashlib.sha256()
        parts = min(1 << 16, 1 + users // _WORDS_AT_ONCE)
        ends = [_WORD_HALF * part // parts for part in range(parts + 1)]
        hashed = 0
        for first, after in itertools.pairwise(ends):
            values = {"first": first, "after": after}
            words = _words(self._rows("remote/words_between", values=values, snapshot=relation))
            digest.update(words.tobytes())
            hashed += len(words)
        if hashed != users:
            raise StoreError(f"the engine returned the words of {hashed:,} of {users:,} users")
        return digest.hexdigest()

    # Views of a snapshot

    def present(self, snapshot: RemoteSnapshot, apis: Sequence[str]) -> RemoteSnapshot:
        """Users that have an observation of every one of `apis`; errors as of the local store."""
        columns = self.columns_of(snapshot, apis).values()
        condition = " AND ".join(f"{column} <> {ABSENT}" for column in columns)
        names = ",".join(sorted(apis))
        identity = hashlib.sha256(f"{snapshot.identity}/{names}".encode()).hexdigest()[:24]
        relation = f"present_{identity}"
        self._define(relation, "remote/present", snapshot=snapshot.relation, present=condition)
        users = self._count(relation)
        if users == 0:
            raise UndecidableError(
                f"no user has an observation of all {len(apis)} APIs",
                hint="leave --missing at `value`, or name fewer APIs",
            )
        digest = f"{snapshot.digest}/present:{names}"
        return replace(snapshot, identity=identity, relation=relation, users=users, digest=digest)

    def source(self, snapshot: RemoteSnapshot, apis: Sequence[str] | None = None) -> RemoteUsers:
        """Spectra of all users of a snapshot, of all its APIs or of some.

        Raises
        ------
        UnknownNameError
            The snapshot lacks one of them.
        """
        return RemoteUsers(self, snapshot, snapshot.apis if apis is None else apis)

    @staticmethod
    def columns_of(snapshot: RemoteSnapshot, apis: Sequence[str]) -> dict[str, str]:
        """Columns of some APIs of a snapshot.

        Raises
        ------
        UnknownNameError
            It lacks one of them; the message lists the nearest names.
        """
        for api in apis:
            if api not in snapshot.columns:
                raise UnknownNameError("API", api, snapshot.columns)
        return {api: snapshot.columns[api] for api in apis}

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
        return self._statement("remote/first_users", {"columns": columns, "keys": keys}, **ends)

    def _last_key(self, keys: str, values: Mapping[str, Any], number: int) -> tuple[int, int]:
        """Key of the user at a place of the order, counted from 1, without sorting all."""
        counts = self._rows("remote/count_keys", values=values, keys=keys).sort("first_bits")
        ends = counts["users"].to_numpy().cumsum()
        place = int(np.searchsorted(ends, number))
        bits = int(counts["first_bits"][place])
        between = {"first": bits << 16, "after": (bits + 1) << 16}
        found = self._rows("remote/keys_between", values={**values, **between}, keys=keys)
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
        dictionary = [self._path("snapshot", self._of_snapshot(snapshot), "dictionary")]
        self.engine.define_files("dictionary", dictionary)
        cells = self._rows("remote/sampled_values")
        names = {numbers[column]: api for api, column in snapshot.columns.items()}
        keys = pl.col("number", "code").cast(pl.Int64)
        return (
            observed.with_columns(keys)
            .join(cells.with_columns(keys), on=["number", "code"])
            .select(
                pl.col("user").cast(pl.String),
                pl.col("number").replace_strict(names).alias("api"),
                pl.col("cell").str.split(_SEPARATOR).list.first().alias("status"),
                pl.col("cell").str.splitn(_SEPARATOR, 2).struct[1].alias("value"),
            )
            .with_columns(pl.when(pl.col("value") != _NO_TEXT).then("value").alias("value"))
        )

    @staticmethod
    def _of_snapshot(snapshot: RemoteSnapshot) -> str:
        return snapshot.relation.removeprefix("snapshot_")


class RemoteUsers(EngineSource):
    """Spectra of the users of a snapshot, which thins them where they are.

    Parameters
    ----------
    store
        Where the snapshot lies.
    snapshot
        One of the store.
    apis
        Those of its APIs that may be asked for.
    """

    def __init__(self, store: FolderStore, snapshot: RemoteSnapshot, apis: Sequence[str]) -> None:
        columns = store.columns_of(snapshot, apis)
        super().__init__(store.engine, snapshot.relation, columns, snapshot.users)
        self._store, self._snapshot = store, snapshot

    def thinned(self, *, mean: float, seed: int) -> EngineSource:
        """Keep the users that `estimate.thinning.dropped_positions` keeps."""
        relation, users = self._store.thinned(self._snapshot, mean=mean, seed=seed)
        return EngineSource(self._engine, relation, self._columns, users)


def _words(halves: pl.DataFrame) -> NDArray[np.uint64]:
    high, low = (halves[name].to_numpy().astype(np.uint64) for name in ("high", "low"))
    return (high << np.uint64(32)) | low


def _microseconds(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return round(utc.timestamp() * 1_000_000)
