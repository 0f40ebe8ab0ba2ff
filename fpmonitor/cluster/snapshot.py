"""Takes a snapshot on an engine: a table with one row per user becomes a folder of coded users.

A folder of snapshots holds one folder for each content, which has its name: the same users again
find it and nothing is written. In it lie `manifest/`, one row with the manifest as JSON, and what
the manifest names: `users-PART/`, one row per user with a code for each API (a0, a1, ...; 0 is
absent) and its hash in two halves, and `values-PART/`, the dictionary. The manifest is written
last, and each attempt writes parts of its own, so that two clients at once, or one that was killed,
do no harm.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from fpmonitor.cluster import arithmetic
from fpmonitor.cluster.engine import rows, union
from fpmonitor.cluster.portable import transpile
from fpmonitor.cluster.table import COLUMNS_A_STATEMENT, CellTable, define_cells
from fpmonitor.errors import InputError, StoreError, UnknownNameError
from fpmonitor.estimate.mixing import SALT, digest_of_sums
from fpmonitor.population.browsers import (
    BROWSER_APIS,
    UNKNOWN,
    browser_of,
    telling_columns,
    traits_of,
)
from fpmonitor.sql import quote_text, statement
from fpmonitor.store.names import apis_of
from fpmonitor.unit import Unit, weakest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.cluster.engine import Engine

Told = tuple[int, int | None, int | None, int, str, int]
VERSION = 2
WORD_HALF = 1 << 32
SEPARATOR, NO_TEXT = "\x1f", "\x1e"  # of a cell: status, separator, text
_TOLD = {
    **dict.fromkeys(("number", "family", "version", "traits"), pl.Int64),
    "cell": pl.String,
    "code": pl.Int64,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """Users of one browser version who came back with an API: see `population.snapshot.Returned`.

    Attributes
    ----------
    api, family, version
        The family is a position in `vocabulary.FAMILIES`, -1 if unknown.
    users, changed, kept
        How many.
    """

    api: str
    family: int
    version: int
    users: int
    changed: int
    kept: int


_MOST_USERS = 2**40  # more than any computer counts here


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderManifest:
    """What a snapshot holds.

    Attributes
    ----------
    version
        Of the form of the folder.
    digest
        Of the users' values, as in `population.snapshot.Snapshot`.
    users, visits
        Rows, and visits behind them.
    seen
        API -> users with an observation of it; the order is that of the columns.
    repeats
        Who came back.
    part
        Ending of the folders of users and values.
    key
        Of the digest as it leaves: drawn when the folder is made.
    said
        What the user said that columns hold: see `vocabulary.meaning`.
    unit
        What each row is: see `fpmonitor.unit`.
    """

    version: int
    digest: str
    users: int
    visits: int
    seen: dict[str, int]
    repeats: tuple[Repeats, ...] = ()
    part: str = ""
    key: str = ""
    said: dict[str, str] = field(default_factory=dict)
    unit: Unit = "user"

    @property
    def name(self) -> str:
        """The name of the content: everything but where it lies, and its key."""
        content = msgspec.to_builtins(replace(self, part="", key=""))
        if self.unit == "user":
            del content["unit"]  # as before units were said: the same users are the same folder
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:24]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A snapshot that was taken, or that existed already.

    `folder` is named as the engine names it; `is_new` is whether anything was written.
    """

    folder: str
    manifest: FolderManifest
    is_new: bool


def take_engine_snapshot(
    engine: Engine,
    table: str,
    folder: str,
    *,
    user: str = "user",
    visits: str | None = None,
    names: Mapping[str, str] | None = None,
    unit: Unit = "user",
) -> Taken:
    """Take a snapshot of a table with one row per user.

    Parameters
    ----------
    engine
        Reads the table and writes the folder.
    table
        A table, a query or files of Parquet, as the engine names them. It is read four times.
    folder
        Where snapshots lie, as the engine names it.
    user
        Column of the user, in the table and in the visits.
    visits
        A table with one row per visit, which shows which values come back.
    names
        Column -> the API that it holds: see `store.names.say_names`.
    unit
        What each row is: see `fpmonitor.unit`. Users whom a converted log calls visitors or rows
        are no more than that.

    Raises
    ------
    InputError, UnknownNameError
        As of `table.define_cells` and `store.names.say_names`; a column that the table lacks.
    StoreError, EngineLostError
        The engine refuses, or does not answer.
    """
    said = apis_of(names or {})
    cells = define_cells(engine, table, user=user)
    for column in said:
        if column not in cells.apis:
            raise UnknownNameError("column", column, cells.apis)
    repeats, visited = _repeats(engine, cells, visits, user, said)
    users, digest = _content(engine, cells)
    manifest = FolderManifest(
        version=VERSION,
        digest=digest,
        users=users,
        visits=max(visited, users),
        seen=dict(zip(cells.apis, cells.seen, strict=True)),
        repeats=repeats,
        part=secrets.token_hex(4),
        key=secrets.token_hex(),
        said=said,
        unit=weakest([unit, _named_unit(engine, cells)]),
    )
    path = f"{folder.rstrip('/')}/{manifest.name}"
    known = find_manifest(engine, path)
    if known is not None:
        return Taken(folder=path, manifest=known, is_new=False)
    _write(engine, cells, manifest, path)
    return Taken(folder=path, manifest=manifest, is_new=True)


def _named_unit(engine: Engine, cells: CellTable) -> Unit:
    """Return what the names of the users say that these are, as `store.convert` writes them."""
    forms: dict[Unit, str] = {unit: f"{unit}:{'_' * 16}" for unit in ("row", "visitor")}
    counts = [
        f'max(CASE WHEN "user" LIKE {quote_text(form)} THEN 1 ELSE 0 END) AS {unit}s'
        for unit, form in forms.items()
    ]
    counted = rows(engine, "cluster/count", counts=", ".join(counts), relation=cells.relation)
    [found] = counted.rows()
    return next((unit for unit, any_such in zip(forms, found, strict=True) if any_such), "user")


def find_manifest(engine: Engine, folder: str) -> FolderManifest | None:
    """Read the manifest of a snapshot; null where there is none."""
    try:
        engine.define_table("manifest", f"{folder.rstrip('/')}/manifest")
    except InputError:
        return None
    found = rows(engine, "cluster/select", columns="manifest", relation="manifest", joins="")
    return decode_manifest(found, folder)


def decode_manifest(found: pl.DataFrame, folder: str) -> FolderManifest:
    """Decode the rows of a `manifest/`; errors as of `find_manifest`."""
    try:
        manifest = msgspec.json.decode(found.item(), type=FolderManifest)
    except (msgspec.MsgspecError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{folder} holds no readable manifest of a snapshot") from error
    most = manifest.users
    if (
        not 0 <= most <= _MOST_USERS
        or manifest.visits < 0
        or not all(0 <= users <= most for users in manifest.seen.values())
        or not manifest.seen
    ):
        raise InputError(f"{folder} holds no readable manifest of a snapshot")
    if manifest.version != VERSION:
        raise InputError(
            f"{folder} is of another version", hint="take the snapshot again with this fpmonitor"
        )
    return manifest


def user_hashes(cells: CellTable, keep: Sequence[str]) -> str:
    """Statement of the sums of the users' hashes of values, in two halves; `keep` stays."""
    hashes = [
        f"sha256({quote_text(api + SEPARATOR)} || c{i}) AS h{i}" for i, api in enumerate(cells.apis)
    ]
    return statement(
        "cluster/content",
        keep=", ".join(keep),
        hashes=statement(
            "cluster/hashes",
            keep=", ".join(keep),
            hashes=", ".join(hashes),
            cells=cells.relation,
        ),
        high=_sum([f"COALESCE(hex_number(substr(h{i}, 1, 8)), 0)" for i in range(len(hashes))]),
        low=_sum([f"COALESCE(hex_number(substr(h{i}, 9, 8)), 0)" for i in range(len(hashes))]),
    )


def mixed(keep: Sequence[str], words: str) -> str:
    """Statement of words in two halves, mixed as by `estimate.mixing.splitmix64`."""
    for step in arithmetic.mixing([""]):
        columns = ", ".join([*keep, *step])
        words = statement(
            "cluster/select", columns=columns, relation=f"({words}) AS words", joins=""
        )
    return words


def _sum(terms: Sequence[str]) -> str:
    """Sum of many terms, whose parentheses are not nested deeply."""
    if len(terms) <= COLUMNS_A_STATEMENT:
        return f"({' + '.join(terms)})"
    half = len(terms) // 2
    return f"({_sum(terms[:half])} + {_sum(terms[half:])})"


def _content(engine: Engine, cells: CellTable) -> tuple[int, str]:
    """Users with any value, and the digest of their values."""
    words = statement(
        "cluster/select",
        columns="high AS content_high, low AS content_low, high, low",
        relation=f"({user_hashes(cells, ['c0'])}) AS content",
        joins="",
    )
    salt = int(SALT)
    salted = statement(
        "cluster/salted",
        mixed=mixed(["content_high", "content_low"], words),
        salt_high=str(salt // WORD_HALF),
        salt_low=str(salt % WORD_HALF),
    )
    [sums] = rows(engine, "cluster/sums", salted=mixed(["first_high", "first_low"], salted)).rows(
        named=True
    )
    users = int(sums["users"])
    if not users:
        raise InputError("no user has a value")
    first, second = (
        ((int(sums[f"{name}_high"]) << 32) + int(sums[f"{name}_low"])) % 2**64
        for name in ("first", "second")
    )
    return users, digest_of_sums(users, (first, second))


def _write(engine: Engine, cells: CellTable, manifest: FolderManifest, path: str) -> None:
    values, names = f"{path}/values-{manifest.part}", [f"a{i}" for i in range(len(cells.apis))]
    chunks = [
        range(start, min(len(names), start + COLUMNS_A_STATEMENT))
        for start in range(0, len(names), COLUMNS_A_STATEMENT)
    ]
    for chunk in chunks:
        seen = [
            statement("cluster/seen", number=str(i), column=f"c{i}", cells=cells.relation)
            for i in chunk
        ]
        text = statement("cluster/dictionary", seen=union(seen))
        engine.write(transpile(text, engine.dialect), values, add=chunk.start > 0)
    engine.define_table("dictionary", values)
    relation, text = f"({user_hashes(cells, cells.columns)}) AS coded_user", ""
    for chunk in chunks:
        if text:
            coded = f"{path}/coded{chunk.start}-{manifest.part}"
            engine.write(transpile(text, engine.dialect), coded)
            engine.define_table(f"coded{chunk.start}", coded)
            relation = f"coded{chunk.start} AS coded_user"
        columns = [
            *(f"coded_user.a{i}" for i in range(chunk.start)),
            *(f"COALESCE(d{i}.code, 0) AS a{i}" for i in chunk),
            *(f"coded_user.c{i}" for i in range(chunk.stop, len(names))),
            *("coded_user.high", "coded_user.low"),
        ]
        joins = [
            values_join("dictionary", i, "cell, code", f"d{i}", f"d{i}.cell = coded_user.c{i}")
            for i in chunk
        ]
        text = statement(
            "cluster/select", columns=", ".join(columns), relation=relation, joins=" ".join(joins)
        )
    counted = statement("cluster/occurrences", columns=", ".join(names), coded=f"({text}) AS coded")
    summed = statement(
        "cluster/add_occurrence",
        columns=", ".join(names),
        words=mixed([*names, "occurrence"], counted),
    )
    users = f"{path}/users-{manifest.part}"
    engine.write(transpile(mixed(names, summed), engine.dialect), users)
    engine.define_table("written", users)
    written = rows(engine, "cluster/count", counts="count(*) AS users", relation="written").item()
    if written != manifest.users:
        raise StoreError(
            f"the engine read {manifest.users:,} users and then {written:,}",
            hint="the table changes, or the query has no order among equals; write it to a table",
        )
    engine.define_rows(
        "manifest_row", pl.DataFrame({"manifest": [msgspec.json.encode(manifest).decode()]})
    )
    text = statement("cluster/select", columns="manifest", relation="manifest_row", joins="")
    engine.write(transpile(text, engine.dialect), f"{path}/manifest")


def values_join(relation: str, number: int, columns: str, alias: str, condition: str) -> str:
    """Join of the rows of a relation that are of one API."""
    of_api = statement(
        "cluster/select", columns=columns, relation=relation, joins=f"WHERE number = {number}"
    )
    return f"LEFT JOIN ({of_api}) AS {alias} ON {condition}"


# Browsers


def told_by(number: int, api: str, cells: Mapping[str, int] | Iterable[str]) -> list[Told]:
    """List what cells of an API reveal about the browser, if anything: see `_TOLD`."""
    codes = cells if isinstance(cells, dict) else dict.fromkeys(cells, 0)
    told: list[Told] = []
    parts = [(cell, *cell.partition(SEPARATOR)[::2]) for cell in codes]
    values = {cell: text for cell, status, text in parts if status == "value"}
    all_traits = traits_of(api, list(values.values())).tolist()
    for (cell, text), traits in zip(values.items(), all_traits, strict=True):
        family, version = browser_of(api, text)
        known = (None if family == UNKNOWN else family, version or None)
        if traits or family != UNKNOWN:
            told.append((number, *known, traits, cell, codes[cell]))
    return told


def define_told(engine: Engine, told: Sequence[Told]) -> None:
    """Let `telling_value` stand for what values reveal about the browser."""
    engine.define_rows("telling_value", pl.DataFrame(list(told), _TOLD, orient="row"))


def browsers(
    apis: Sequence[str], said: Mapping[str, str], *, keep: str, users: str, column: str, key: str
) -> str:
    """Return a statement of the browser of each user, by `telling_value`.

    It keeps the columns `keep` of the relation `users`, which has one row per user. Columns of
    APIs, in the order of `apis`, begin with `column` and hold a `code` or a `cell`, as `key` says.
    """
    numbers = [apis.index(column) for column in telling_columns(apis, said)]
    return statement(
        "cluster/browsers",
        keep=keep,
        families=", ".join([*(f"b{n}.family" for n in numbers), str(UNKNOWN)]),
        versions=", ".join([*(f"b{n}.version" for n in numbers), "0"]),
        traits=" | ".join([*(f"COALESCE(b{n}.traits, 0)" for n in numbers), "0"]),
        users=users,
        joins=" ".join(
            values_join(
                "telling_value",
                n,
                f"{key}, family, version, traits",
                f"b{n}",
                f"b{n}.{key} = u.{column}{n}",
            )
            for n in numbers
        ),
    )


def _repeats(
    engine: Engine, cells: CellTable, table: str | None, user: str, said: Mapping[str, str]
) -> tuple[tuple[Repeats, ...], int]:
    """Users who came back by API and browser, and the number of visits; none without a table."""
    if table is None:
        return (), 0
    visits = define_cells(
        engine, table, user=user, apis=cells.apis, name="visit_cells", repeated=True
    )
    told: list[Told] = []
    for column, api in telling_columns(cells.apis, said).items():
        if api in BROWSER_APIS:
            number = cells.apis.index(column)
            seen = rows(
                engine,
                "cluster/seen",
                number=str(number),
                column=f"c{number}",
                cells=cells.relation,
            )
            told += told_by(number, api, seen["cell"].to_list())
    define_told(engine, told)
    of_users = browsers(
        cells.apis, said, keep='"user"', users=cells.relation, column="c", key="cell"
    )
    engine.define("browser_of_user", transpile(of_users, engine.dialect))
    distinct = statement("cluster/visits", visits=visits.relation)
    engine.define("different_visit", transpile(distinct, engine.dialect))
    counts = rows(
        engine, "cluster/count", counts="count(*) AS visits", relation="different_visit"
    ).item()
    found: list[Repeats] = []
    numbers = range(len(visits.apis))
    for start in numbers[::COLUMNS_A_STATEMENT]:
        texts = [
            statement(
                "cluster/repeats",
                number=str(i),
                column=f"c{i}",
                visits="different_visit",
                browsers="browser_of_user",
            )
            for i in numbers[start : start + COLUMNS_A_STATEMENT]
        ]
        part = engine.frame(transpile(union(texts), engine.dialect))
        found += [
            Repeats(
                api=visits.apis[number],
                family=family,
                version=int(version),
                users=int(users),
                changed=int(changed),
                kept=int(kept),
            )
            for number, family, version, users, changed, kept in part.rows()
        ]
    return tuple(sorted(found, key=lambda r: (r.api, r.family, r.version))), int(counts)
