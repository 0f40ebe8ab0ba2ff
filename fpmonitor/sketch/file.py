"""A sketch, and its file: Parquet rows (set, word, users), and what they are in its metadata.

A file is as secret as a database: it holds groups of few users. What is read may be hostile.
"""

from __future__ import annotations

import glob
import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
import polars as pl

from fpmonitor.cluster.asking import MAX_PARTS, UserPart
from fpmonitor.duckdb_connection import DuckDBError, in_memory
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.estimate.value_sample import LAST_LEVEL, planned_level
from fpmonitor.safe_files import strict_json, typed, whole_file
from fpmonitor.secret_files import check_owner_alone
from fpmonitor.sketch.words import WORD_FUNCTION, KeptValues, is_kept
from fpmonitor.sql import statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VERSION = 1
# Sums of users are checked as float64, which is exact up to here.
MAX_USERS = 1 << 53
MAX_ENTRIES = 1 << 32
_HEAD = "fpmonitor.sketch"
_MOST_HEAD_BYTES = 64_000_000
# Words look random, so that packed rows have some bits each: more rows are no sketch.
_ROWS_PER_BYTE = 8
_KINDS = ["uint32", "uint64", "int64"]  # of the columns
_HINT = "make it again with `fpmonitor scale sketch make`"


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a sketch was made of at once.

    Attributes:
        digest: Of its sketch, 64 hexadecimal digits.
        users: Which users it was made of, by the hash of their names; null for all.
    """

    digest: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    users: UserPart | None = None


class _SetHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    apis: tuple[str, ...]
    level: Annotated[int, msgspec.Meta(ge=0, le=LAST_LEVEL)]
    kept: Annotated[int, msgspec.Meta(ge=0, le=MAX_ENTRIES)]


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    function: str
    key: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{16}\Z")]
    users: Annotated[int, msgspec.Meta(ge=1, lt=MAX_USERS)]
    entries: Annotated[int, msgspec.Meta(ge=1, le=MAX_ENTRIES)] | None
    view: str
    parts: Annotated[tuple[Part, ...], msgspec.Meta(min_length=1, max_length=MAX_PARTS)]
    sets: tuple[_SetHead, ...]
    digest: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sketch:
    """Kept values of API sets, with all of their users.

    Attributes:
        key: Id of the key that kept them.
        users: `m`, all users, kept or not.
        entries: Values to keep at most per set, from which the levels follow; None where the share
            was given beforehand.
        view: How values are looked at, in words; empty as they are.
        parts: What it was made of, sorted.
        sets: By their APIs, sorted.
    """

    key: str
    users: int
    entries: int | None
    view: str
    parts: tuple[Part, ...] = ()
    sets: tuple[KeptValues, ...]

    @property
    def planned(self) -> int | None:
        """Level that follows from the number of users; None where it was given beforehand."""
        return None if self.entries is None else planned_level(self.users, self.entries)

    def of_set(self, apis: Sequence[str]) -> KeptValues:
        """Return the kept values of a set.

        Raises:
            UnknownNameError: The sketch does not hold it.
        """
        wanted = tuple(sorted(set(apis)))
        for values in self.sets:
            if values.apis == wanted:
                return values
        known = [",".join(values.apis) for values in self.sets]
        raise UnknownNameError("set", ",".join(wanted), known)

    @cached_property
    def digest(self) -> str:
        """Digest of all it holds, 64 hexadecimal digits."""
        digest = hashlib.sha256(msgspec.json.encode(self._head))
        for values in self.sets:
            digest.update(values.words.astype("<u8").tobytes())
            digest.update(values.counts.astype("<i8").tobytes())
        return digest.hexdigest()

    @property
    def _head(self) -> _Head:
        return _Head(
            version=VERSION,
            function=WORD_FUNCTION,
            key=self.key,
            users=self.users,
            entries=self.entries,
            view=self.view,
            parts=self.parts,
            sets=tuple(_SetHead(one.apis, one.level, len(one.words)) for one in self.sets),
        )

    @property
    def head(self) -> bytes:
        """The metadata of its file, JSON."""
        return msgspec.json.encode(msgspec.structs.replace(self._head, digest=self.digest))


def share_text(level: int) -> str:
    """Write the share of the values that a level keeps, as 1/1024."""
    return "1" if level == 0 else f"1/{1 << level}"


def made_at_once(sketch: Sketch, users: UserPart | None = None) -> Sketch:
    """Return a sketch as the one part that it was made of, and of these users."""
    # The digest covers the parts, so the part is named by the sketch without its name.
    nameless = replace(sketch, parts=(Part("", users),))
    return replace(sketch, parts=(Part(nameless.digest, users),))


def write_sketch(sketch: Sketch, path: Path) -> None:
    """Write a sketch for its owner alone, whole or not at all; equal ones give equal bytes."""
    sizes = [len(values.words) for values in sketch.sets]
    frame = pl.DataFrame(
        {
            "set": np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes),
            "word": np.concatenate([values.words for values in sketch.sets]),
            "users": np.concatenate([values.counts for values in sketch.sets]),
        }
    )
    with whole_file(path, 0o600) as scratch:
        frame.write_parquet(scratch, statistics=False, metadata={_HEAD: sketch.head.decode()})


def read_sketch(path: Path) -> Sketch:
    """Read a sketch, and check that it can be one.

    Raises:
        InputError: The file is none, is cut short or was changed; or others than its owner may read
            it.
    """
    check_owner_alone(path, "a sketch, which is as secret as its users")
    if not path.is_file():
        raise InputError(f"{path} is not a sketch: not a file", hint=_HINT)
    try:
        # DuckDB takes a path for a pattern, which might be of other files.
        name = {"path": glob.escape(str(path))}
        size = path.stat().st_size
        with in_memory() as connection:
            heads = dict(connection.execute(statement("sketch/metadata"), name).fetchall())
            [(rows,)] = connection.execute(statement("sketch/size"), name).fetchall()
            content = heads.get(_HEAD.encode(), b"")
            if not content or len(content) > _MOST_HEAD_BYTES or rows > size * _ROWS_PER_BYTE:
                raise InputError(f"{path} is not a sketch", hint=_HINT)
            # A text can be short in the file and long in each row: no row is read of such a column.
            no_rows = connection.execute(statement("sketch/rows", wanted="FALSE"), name)
            if [column.dtype.name for column in no_rows.fetchnumpy().values()] != _KINDS:
                raise InputError(f"{path} is not a sketch: types of the columns", hint=_HINT)
            every_row = connection.execute(statement("sketch/rows", wanted="TRUE"), name)
            arrays = every_row.fetchnumpy()
    except (DuckDBError, OSError) as error:
        raise InputError(f"{path} is not a sketch, or cut short", hint=_HINT) from error
    try:
        parsed = strict_json(content.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a sketch: its head is not JSON", hint=_HINT) from error
    head = typed(parsed, _Head, f"the head of a sketch: {path}", hint=_HINT)
    if head.version != VERSION:
        raise InputError(f"{path} is of another version of sketches", hint=_HINT)
    if head.function != WORD_FUNCTION:
        raise InputError(f"{path} has words of another function than {WORD_FUNCTION}", hint=_HINT)
    sketch = _checked(head, arrays, str(path))
    if sketch.digest != head.digest:
        raise InputError(f"{path} was changed since it was made", hint=_HINT)
    return sketch


def _checked(head: _Head, arrays: dict[str, np.ndarray], name: str) -> Sketch:
    """Sketch of a head and rows that anybody may have written."""

    def must(holds: object, what: str) -> None:
        if not holds:
            raise InputError(f"{name} is not a sketch: {what}", hint=_HINT)

    digests = [part.digest for part in head.parts]
    must(digests == sorted(set(digests)), "order of the parts")
    names = [one.apis for one in head.sets]
    must(names and sorted(set(names)) == names, "sets")
    must(all(apis and tuple(sorted(set(apis))) == apis for apis in names), "APIs of a set")
    # numpy gets a column with nulls as a masked one, whose checks below would pass over them.
    must(not any(isinstance(column, np.ma.MaskedArray) for column in arrays.values()), "rows")
    number, words, counts = (arrays[column] for column in ("number", "word", "users"))
    ends = np.cumsum([0, *(one.kept for one in head.sets)])
    must(ends[-1] == len(number), "number of rows")
    sets = []
    for place, one in enumerate(head.sets):
        inside = slice(int(ends[place]), int(ends[place + 1]))
        its_words, its_counts = words[inside], counts[inside]
        must((number[inside] == place).all(), "order of the rows")
        must((its_words[1:] > its_words[:-1]).all(), "order of the words")
        must(is_kept(its_words, one.level).all(), "a word that its level does not keep")
        must((its_counts >= 1).all() and (its_counts <= head.users).all(), "users of a value")
        # As float64: a sum of forged counts could wrap around.
        total = float(its_counts.sum(dtype=np.float64))
        must(total <= head.users and (one.level > 0 or total == head.users), "number of users")
        sets.append(KeptValues(apis=one.apis, level=one.level, words=its_words, counts=its_counts))
    sketch = Sketch(
        key=head.key,
        users=head.users,
        entries=head.entries,
        view=head.view,
        parts=head.parts,
        sets=tuple(sets),
    )
    planned, levels = sketch.planned, {one.level for one in head.sets}
    # Of a planned share each set has raised its level by itself, but none is below the plan.
    must(len(levels) == 1 if planned is None else min(levels) >= planned, "level")
    return sketch
