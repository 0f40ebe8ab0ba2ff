"""The users of a snapshot folder: rows read into memory where they fit, else counted by the engine.

Without an engine the folder is read on this computer.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.cluster.checked import Named, texts, whole_numbers
from fpmonitor.cluster.engine import SETS_A_STATEMENT, count_parts, count_spectra, rows, union
from fpmonitor.cluster.portable import transpile
from fpmonitor.cluster.snapshot import (
    NO_TEXT,
    SEPARATOR,
    WORD_HALF,
    browsers,
    decode_manifest,
    define_told,
    find_manifest,
    mixed,
    told_by,
    values_join,
)
from fpmonitor.errors import InputError, StoreError, UndecidableError, UnknownNameError, excerpt
from fpmonitor.estimate.mixing import GOLDEN, seed_of, splitmix64
from fpmonitor.population.browsers import (
    TELLING_APIS,
    BrowserGroups,
    group_rows,
    telling_columns,
)
from fpmonitor.population.kept_values import ChosenValues
from fpmonitor.population.memory import MemorySource, has_room_for
from fpmonitor.population.recoding import ABSENT, own_codes_of_absent
from fpmonitor.population.snapshot import CohortSpectra, Returned
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.sql import statement
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.account import Kind
    from fpmonitor.cluster.engine import Engine
    from fpmonitor.cluster.snapshot import FolderManifest
    from fpmonitor.population.recoding import Recoding
    from fpmonitor.population.snapshot import Repeats
    from fpmonitor.unit import Unit

_HALF_BITS = 1 << 31  # of half a word, so that products stay below 63 bits


# The halves of a user's hash, which no other user has, and their names beside codes.
_OWN = (("high", "own_high"), ("low", "own_low"))


class FolderSnapshot:
    """A folder that `take_engine_snapshot` made: see `population.snapshot.Snapshot`.

    It is read by the engine, or without one by this computer.

    Raises
    ------
    InputError
        The folder does not hold a snapshot, or one of another version.
    """

    values_are_digested = False

    def __init__(self, folder: str, engine: Engine | None = None) -> None:
        self._folder, self._engine = folder.rstrip("/"), engine
        self.manifest = self._manifest()
        self.apis: tuple[str, ...] = tuple(self.manifest.seen)
        self.said: Mapping[str, str] = self.manifest.said
        self.users, self.digest = self.manifest.users, self.manifest.digest
        self.key = self.manifest.key
        self.visits = self.manifest.visits
        self.units: Sequence[Unit | None] = (self.manifest.unit,)
        self._columns: dict[str, NDArray[Any]] = {}
        self._has_told = False
        self._values: dict[str, dict[int, tuple[str, str | None]]] = {}
        if engine is not None:
            for part in ("users", "values"):
                engine.define_table(self._relation(part), self._path(part))

    def members(self, k: int) -> Mapping[Kind, int]:  # noqa: ARG002 -- see `Snapshot`
        """Nobody knows of the table that it was taken of."""
        return {}

    def _manifest(self) -> FolderManifest:
        if self._engine is None:
            found = _read_files(f"{self._folder}/manifest", pl.col("manifest"))
            return decode_manifest(found, self._folder)
        manifest = find_manifest(self._engine, self._folder)
        if manifest is None:
            raise _no_snapshot(self._folder)
        return manifest

    def _path(self, part: str) -> str:
        return f"{self._folder}/{part}-{self.manifest.part}"

    def _relation(self, part: str) -> str:
        return f"{part}_{self.manifest.part}"

    @property
    def engine(self) -> Engine:
        """What counts rows that do not fit into memory.

        Raises
        ------
        UndecidableError
            There is none.
        """
        if self._engine is None:
            raise UndecidableError(
                f"the {self.users:,} users of this snapshot do not fit into memory",
                hint="name an engine that counts them: --engine sc://HOST:PORT",
            )
        return self._engine

    @property
    def relation(self) -> str:
        """The users, in the statements of the session."""
        return self._relation("users")

    def column(self, api: str) -> str:
        """Column of an API.

        Raises
        ------
        UnknownNameError
            The snapshot lacks it.
        """
        if api not in self.manifest.seen:
            # Other names are shown by callers who know how many users have them.
            raise UnknownNameError("API", api, self.manifest.seen.keys() & known_apis().keys())
        return f"a{self.apis.index(api)}"

    def in_memory(self, apis: int) -> bool:
        """Whether this many columns fit into memory."""
        return self._engine is None or has_room_for(self.users, apis)

    def codes(self, apis: Sequence[str]) -> list[NDArray[np.unsignedinteger[Any]]]:
        """Codes of some APIs, in the order of the users' hashes, which all computers share."""
        names = {api: self.column(api) for api in apis}
        self._read([name for name in names.values() if name not in self._columns])
        return [self._columns[name] for name in names.values()]

    def user_hashes(self) -> NDArray[np.uint64]:
        """Pseudo-random number of each row."""
        if "hash" not in self._columns:
            self._read([])
        return self._columns["hash"]

    def _read(self, names: Sequence[str]) -> None:
        """Read columns; the rows come in any order, and hashes bring them into one."""
        if not names and "hash" in self._columns:
            return
        if self._engine is None and not has_room_for(self.users, len(names)):
            _ = self.engine  # the error says what to do
        wanted = [pl.col(name) for name in (*names, "high", "low")]
        if self._engine is None:
            frame = _read_files(self._path("users"), *wanted)
        else:
            columns = ", ".join([*names, "high", "low"])
            frame = rows(
                self._engine, "cluster/select", columns=columns, relation=self.relation, joins=""
            )
        high, low = (
            whole_numbers(self._folder, frame[name], most=WORD_HALF - 1) for name in ("high", "low")
        )
        hashes = (high << np.uint64(32)) | low
        order = np.argsort(hashes)
        if len(hashes) != self.users:
            raise StoreError(f"{self._folder} holds {len(hashes):,} of {self.users:,} users")
        self._columns["hash"] = hashes[order]
        for name in names:
            # Each value is of a user: a larger code would ask for as much memory as it says.
            codes = whole_numbers(self._folder, frame[name], most=self.users)
            self._columns[name] = codes.astype(np.min_scalar_type(int(codes.max(initial=0))))[order]

    def values(self, api: str) -> Mapping[int, tuple[str, str | None]]:
        """Status and text that each code of an API stands for."""
        self.read_values([api])
        return self._values[api]

    def read_values(self, apis: Iterable[str]) -> None:
        """Read what the codes of some APIs stand for, at once; `values` knows them then."""
        unknown = [api for api in dict.fromkeys(apis) if api not in self._values]
        for api, cells in self._cells(unknown).items():
            found = {code: _status_and_text(cell) for cell, code in cells.items()}
            self._values[api] = Named(self._folder, found)

    def _cells(self, apis: Sequence[str]) -> dict[str, dict[str, int]]:
        """Cells of some APIs, with their codes."""
        if not apis:
            return {}
        numbers = {int(self.column(api).removeprefix("a")): api for api in apis}
        names = ("number", "cell", "code")
        if self._engine is None:
            wanted = pl.col("number").is_in(list(numbers))
            frame = _read_files(
                self._path("values"), *(pl.col(name).filter(wanted) for name in names)
            )
        else:
            frame = rows(
                self._engine,
                "cluster/select",
                columns=", ".join(names),
                relation=self._relation("values"),
                joins=f"WHERE number IN ({', '.join(map(str, numbers))})",
            )
        of = whole_numbers(self._folder, frame["number"], most=len(self.apis)).tolist()
        cells = texts(self._folder, frame["cell"])
        codes = whole_numbers(self._folder, frame["code"], most=self.users).tolist()
        found: dict[str, dict[str, int]] = {api: {} for api in apis}
        for number, cell, code in zip(of, cells, codes, strict=True):
            found[numbers[number]][cell] = code
        return found

    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the users with an observation of it."""
        return self.manifest.seen

    def browser_groups(self) -> BrowserGroups:
        """Count rows by browser and traits of automation."""
        if self.in_memory(len(TELLING_APIS)):
            return group_rows(self)
        browsers = self.browsers("1 AS one")
        found = rows(self.engine, "cluster/count_browsers", browsers=browsers).cast(pl.Int64)
        family, version, traits, users = (
            found[name].to_numpy() for name in ("family", "version", "traits", "users")
        )
        return BrowserGroups(
            family=family.astype(np.int8), version=version, traits=traits, users=users
        )

    def browsers(self, keep: str) -> str:
        """Statement of the browser of each user, with some columns."""
        if not self._has_told:
            telling = telling_columns(self.apis, self.said)
            cells = self._cells(list(telling))
            told = [
                row
                for column, api in telling.items()
                for row in told_by(self.apis.index(column), api, cells[column])
            ]
            define_told(self.engine, told)
            self._has_told = True
        return browsers(
            self.apis, self.said, keep=keep, users=self.relation, column="a", key="code"
        )

    def repeats(self, groups: BrowserGroups) -> Repeats:
        """Who came back, by API and browser."""
        del groups
        found: dict[str, dict[tuple[int, int], Returned]] = {}
        for line in self.manifest.repeats:
            found.setdefault(line.api, {})[line.family, line.version] = Returned(
                users=line.users, changed=line.changed, kept=line.kept
            )
        return found

    def queries(self, recoding: Recoding, present: Sequence[str]) -> FolderQueries:
        """Spectra by query."""
        return FolderQueries(self, recoding, present)

    def mixed_sources(self, k: int) -> Mapping[str, list[str]]:
        """Return nothing: sources are not kept."""
        del k
        return {}

    def days(self, least: int) -> None:
        """Return nothing: times are not kept."""

    def sample(self, users: int) -> pl.DataFrame:
        """Draw users uniformly, as a long log: `user` (a number), `api`, `status`, `value`.

        The same number gives the same users.

        Raises
        ------
        InputError
            More users than there are, or none.
        """
        if not 0 < users <= self.users:
            raise InputError(f"sample: {users:,} of {self.users:,} users")
        seed = seed_of("sample", str(users), self.digest)
        if self.in_memory(len(self.apis)):
            keys = splitmix64((self.user_hashes() ^ np.uint64(seed)) + GOLDEN)
            drawn = np.argpartition(keys, users - 1)[:users]
            codes = [column[drawn] for column in self.codes(self.apis)]
        else:
            frame = self._first_users(users, seed)
            codes = [frame[self.column(api)].to_numpy() for api in self.apis]
        order = np.random.default_rng(seed).permutation(users)
        logs = []
        for api, column in zip(self.apis, codes, strict=True):
            values = self.values(api)
            seen = [(row, values[code]) for row, code in enumerate(column[order].tolist()) if code]
            logs.append(
                pl.DataFrame(
                    {
                        "user": [str(row) for row, _ in seen],
                        "api": [api] * len(seen),
                        "status": [status for _, (status, _) in seen],
                        "value": [text for _, (_, text) in seen],
                    },
                    schema=dict.fromkeys(("user", "api", "status", "value"), pl.String),
                )
            )
        return pl.concat(logs)

    def _first_users(self, users: int, seed: int) -> pl.DataFrame:
        """Read the first users in the order of a seed, and few others, whom it leaves out."""
        names = [self.column(api) for api in self.apis]
        # Ten standard deviations more than are wanted: so many are there but for bad luck.
        most = (users + 10 * math.isqrt(users) + 100) * WORD_HALF // self.users
        words = statement(
            "cluster/order_words",
            keep=", ".join(names),
            snapshot=self.relation,
            seed_high=str(seed // WORD_HALF),
            seed_low=str(seed % WORD_HALF),
        )
        text = statement(
            "cluster/rows",
            columns=", ".join([*names, "high", "low"]),
            users=f"({mixed(names, words)})",
            joins="",
            condition=f"high < {most}",
        )
        frame = self.engine.frame(transpile(text, self.engine.dialect))
        if len(frame) < users:
            raise StoreError(f"sample: {len(frame):,} of {users:,} users, out of {self.users:,}")
        return frame.sort("high", "low").head(users)


class FolderQueries:
    """Spectra by query of a snapshot: see `population.snapshot.SpectrumQueries`."""

    def __init__(
        self, snapshot: FolderSnapshot, recoding: Recoding, present: Sequence[str]
    ) -> None:
        self._snapshot, self._recoding, self._present = snapshot, recoding, tuple(present)
        self._known: dict[tuple[str, ...], CountSpectrum] = {}
        self.apis, self.users = snapshot.apis, snapshot.users
        self._absent_alone = False
        self._define_changes()
        if recoding.dropped.any() or present:
            relation = f"({self._rows([])}) AS u"
            found = rows(
                snapshot.engine, "cluster/count", counts="count(*) AS users", relation=relation
            )
            self.users = int(found.item())

    @property
    def engine(self) -> Engine:
        """What counts."""
        return self._snapshot.engine

    def _define_changes(self) -> None:
        """Send what the view changes: one row per browser group, and one per code that changes."""
        groups, changes = self._recoding.groups, self._recoding.changes
        randomised = {
            self._snapshot.column(api).replace("a", "r"): change.randomised
            for api, change in changes.items()
            if change.randomised.any()
        }
        self._has_groups = bool(randomised) or bool(self._recoding.dropped.any())
        if self._has_groups:
            columns = {
                "family": groups.family.astype(np.int64),
                "version": groups.version,
                "traits": groups.traits,
                "dropped": self._recoding.dropped,
            }
            frame = pl.DataFrame(columns | randomised)
            self._snapshot.engine.define_rows("browser_group", frame)
        recoded = [
            (int(self._snapshot.column(api)[1:]), code, becomes)
            for api, change in changes.items()
            if change.codes is not None and change.codes.any()
            for code, becomes in enumerate(change.codes.tolist())
            if code != becomes
        ]
        schema = dict.fromkeys(("number", "code", "becomes"), pl.Int64)
        if recoded:
            frame = pl.DataFrame(recoded, schema, orient="row")
            self._snapshot.engine.define_rows("recoded_code", frame)

    def _rows(self, apis: Sequence[str]) -> str:
        """Statement of the codes of some APIs, as the view shows them, and the users' hashes."""
        changes, shown, joins = self._recoding.changes, [], []
        needed = dict.fromkeys([*apis, *self._present])
        texts = {}
        for api in needed:
            column, change = self._snapshot.column(api), changes.get(api)
            text = f"u.{column}"
            if change is not None and change.codes is not None:
                text = "0"
                if change.codes.any():
                    alias = f"m{column[1:]}"
                    text = f"COALESCE({alias}.becomes, u.{column})"
                    joins.append(
                        values_join(
                            "recoded_code",
                            int(column[1:]),
                            "code, becomes",
                            alias,
                            f"{alias}.code = u.{column}",
                        )
                    )
            if change is not None and change.randomised.any():
                fixed = ", ".join(map(str, change.fixed.tolist()))
                text = (
                    f"CASE WHEN u.{column} NOT IN ({fixed}) AND g.r{column[1:]} "
                    f"THEN {change.tokens + 1} + g.family ELSE {text} END"
                )
            texts[api] = text
        shown = [f"{texts[api]} AS {self._snapshot.column(api)}" for api in apis]
        if self._absent_alone and apis:
            lacking = " OR ".join(f"({texts[api]}) = {ABSENT}" for api in apis)
            shown += [f"CASE WHEN {lacking} THEN u.{half} END AS {own}" for half, own in _OWN]
        conditions = [f"({texts[api]}) <> {ABSENT}" for api in self._present]
        users = self._snapshot.relation
        if self._has_groups:
            kept = [f"u.{self._snapshot.column(api)}" for api in needed]
            users = f"({self._snapshot.browsers(', '.join([*kept, 'u.high', 'u.low']))})"
            joins.insert(
                0,
                "JOIN browser_group AS g "
                "ON g.family = u.family AND g.version = u.version AND g.traits = u.traits",
            )
            conditions.append("NOT g.dropped")
        return statement(
            "cluster/rows",
            columns=", ".join([*shown, "u.high", "u.low"]),
            users=users,
            joins=" ".join(joins),
            condition=" AND ".join(conditions) or "TRUE",
        )

    def _relation(self, apis: Sequence[str]) -> tuple[str, list[str]]:
        """Users of a set of APIs as a relation, and its columns."""
        names = [self._snapshot.column(api) for api in apis]
        if self._absent_alone and apis:
            names += [own for _, own in _OWN]
        return f"({self._rows(apis)})", names

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`; errors as of `spectra`."""
        return self.spectra([apis])[0]

    def spectra(self, sets: Iterable[Sequence[str]]) -> list[CountSpectrum]:
        """Count spectra of many sets, asked for in few statements and once each."""
        wanted = [tuple(sorted(set(apis))) for apis in sets]
        unknown = sorted({apis for apis in wanted if apis} - self._known.keys())
        relations = [self._relation(apis) for apis in unknown]
        found = count_spectra(self._snapshot.engine, relations, self.users) if unknown else []
        self._known.update(zip(unknown, found, strict=True))
        everyone = CountSpectrum.from_counts([self.users])
        return [self._known[apis] if apis else everyone for apis in wanted]

    def selected(self, apis: Sequence[str]) -> FolderQueries:
        """Restrict the APIs that may be asked for; errors as of `spectra`."""
        other = copy.copy(self)
        for api in apis:
            self._snapshot.column(api)
        other.apis = tuple(sorted(apis))
        return other

    def with_absent_alone(self) -> FolderQueries:
        """Let who lacks a value of a set share it with nobody, in spectra of that set."""
        other = copy.copy(self)
        other._known, other._absent_alone = {}, True  # noqa: SLF001 -- its own class
        return other

    def searched_and_rest(self, users: int, seed: int) -> tuple[MemorySource, ChosenValues]:
        """Divide the users: about so many to search among, which are read, and all others."""
        engine = self._snapshot.engine
        generator = np.random.default_rng(seed)
        factor, place = (int(each) for each in generator.integers(0, _HALF_BITS, 2) | 1)
        # One half of the hash of a user's name is random as it is; the seed has it follow the data.
        first = f"(((high & {_HALF_BITS - 1}) * {factor} + {place}) >> 20) & {_HALF_BITS - 1}"
        first = f"({first}) < {users * _HALF_BITS // self.users}"
        names = [self._snapshot.column(api) for api in self.apis]
        shown = f"({self._rows(self.apis)}) AS u"
        text = statement(
            "cluster/select", columns=", ".join(names), relation=shown, joins=f"WHERE {first}"
        )
        frame = engine.frame(transpile(text, engine.dialect))
        columns = (frame[name].to_numpy().astype(np.int64) for name in names)
        codes = [own_codes_of_absent(each) if self._absent_alone else each for each in columns]
        searched = MemorySource(self.apis, codes)

        def kept_spectra(sets: Sequence[Sequence[str]], level: int) -> list[CountSpectrum | None]:
            relations = [self._kept_relation(apis, level, seed, first) for apis in sets]
            return count_parts(engine, relations)

        return searched, ChosenValues(users=self.users - searched.users, kept_spectra=kept_spectra)

    def _kept_relation(
        self, apis: Sequence[str], level: int, seed: int, first: str
    ) -> tuple[str, list[str]]:
        """Return users who do not come first and whose values are kept, and what tells these.

        The words are mixed, as those of values that differ in one API alone would else depend on
        each other; the users of a kept value are counted by its codes, not by its word.
        """
        shown, names = self._relation(apis)
        generator = np.random.default_rng([seed, *seed_of("values", *sorted(apis)).to_bytes(8)])
        halves = []
        for half in ("high", "low"):
            start, *factors = (generator.integers(0, _HALF_BITS, len(names) + 1) | 1).tolist()
            terms = [
                f"((COALESCE({name}, 0) & {_HALF_BITS - 1}) * {factor} & {WORD_HALF - 1})"
                for name, factor in zip(names, factors, strict=True)
            ]
            halves.append(f"({start} + {' + '.join(terms)}) & {WORD_HALF - 1} AS {half}")
        words = statement(
            "cluster/select",
            columns=", ".join([*names, *halves]),
            relation=f"{shown} AS u",
            joins=f"WHERE NOT ({first})",
        )
        most = 1 << max(32 - level, 0)
        kept = f"high < {most}" + f" AND low < {1 << (64 - level)}" * (level > 32)
        told = [*names, "high", "low"]
        relation = statement(
            "cluster/kept",
            columns=", ".join(names),
            fields=", ".join(f"one.{name} AS {name}" for name in told),
            members="{" + ", ".join(f"'{name}': {name}" for name in told) + "}",
            words=mixed(names, words),
            kept=kept,
        )
        return f"({relation})", names

    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the users with an observation of it."""
        counts = [
            f"count(CASE WHEN {column} <> {ABSENT} THEN 1 END) AS {column}"
            for column in map(self._snapshot.column, self.apis)
        ]
        relation = f"({self._rows(self.apis)}) AS shown"
        engine = self._snapshot.engine
        found = rows(engine, "cluster/count", counts=", ".join(counts), relation=relation)
        return dict(zip(self.apis, map(int, found.row(0)), strict=True))

    def users_of_codes(self, apis: Sequence[str]) -> dict[str, dict[int, int]]:
        """Count for each of some APIs the users with each code, absent too; few statements do."""
        self._snapshot.read_values(apis)  # whoever counts codes asks next what they stand for
        found: dict[str, dict[int, int]] = {api: {} for api in apis}
        for start in range(0, len(apis), SETS_A_STATEMENT):
            part = apis[start : start + SETS_A_STATEMENT]
            texts = [
                statement(
                    "cluster/code_users",
                    number=str(number),
                    column=self._snapshot.column(api),
                    rows=f"({self._rows([api])})",
                )
                for number, api in enumerate(part)
            ]
            counted = self.engine.frame(transpile(union(texts), self.engine.dialect))
            columns = (counted[name].to_list() for name in ("number", "code", "users"))
            for number, code, users in zip(*columns, strict=True):
                found[part[number]][int(code)] = int(users)
        return found

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of `apis` within each group of equal values of `given`, in order of the codes."""
        together = list(dict.fromkeys([*given, *apis]))
        names = [self._snapshot.column(api) for api in together]
        cohort = names[: len(dict.fromkeys(given))]
        found = rows(
            self._snapshot.engine,
            "cluster/cohorts",
            cohort=", ".join(cohort),
            columns=", ".join(names),
            users=self._rows(together),
        )
        parts = found.cast(pl.Int64).sort(found.columns).group_by(cohort, maintain_order=True)
        return [
            CohortSpectra(
                codes=tuple(int(str(code)) for code in codes),
                spectrum=CountSpectrum.from_counts(
                    np.repeat(part["users"].to_numpy(), part["tuples"].to_numpy())
                ),
            )
            for codes, part in parts
        ]


def _status_and_text(cell: str) -> tuple[str, str | None]:
    status, _, text = cell.partition(SEPARATOR)
    return status, None if text == NO_TEXT else text


def _read_files(folder: str, *columns: pl.Expr) -> pl.DataFrame:
    """Read columns of a folder of Parquet files on this computer."""
    try:
        return pl.scan_parquet(f"{folder}/*.parquet").select(*columns).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _no_snapshot(folder.rsplit("/", 1)[0]) from error


def _no_snapshot(folder: str) -> InputError:
    return InputError(
        f"no snapshot at {excerpt(folder)}",
        hint="make one with `fpmonitor scale snapshot`, which prints its folder; a folder that "
        "only an engine can read needs --engine",
    )
