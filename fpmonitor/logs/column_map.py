"""Which columns of a log hold what: the column map, as words and as a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from fpmonitor.errors import InputError
from fpmonitor.safe_files import read_toml, typed

Field = Literal[
    "user", "time", "api", "value", "status", "source", "weight", "visit_id", "session_id"
]


class MapFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file: see `ColumnMap`."""

    columns: dict[Field, str] = {}
    ignore: list[str] = []
    elements: list[str] = []
    null: Literal["value", "absent"] | list[str] = "absent"
    apis: dict[str, str] = {}
    flatten: bool = True
    visitor: bool = False
    log_format: str = ""


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Which columns of a log hold what.

    Attributes:
        columns: Field (`user`, `time`, `api`, `value`, `status`, `source`) -> name in the log.
            `user` may be `row`: each record of a wide log is a user. `weight` is a number of such
            users.
        ignore: Columns of a wide log that are no APIs.
        null: What a JSON `null` in a wide record means: absent, or a value that the API returned.
        apis: Column of a wide log, or name of an API in a long one -> the API of the vocabulary
            that it is, empty for none.
        flatten: Whether nested members of a wide log are an API a leaf (`connection.rtt`), or one
            value.
        absent: Texts (`NA`, `-`) that stand for a missing value, in every format.
        elements: Columns of a wide log that hold lists, each element of which is an API.
        visitor: Whether each visitor counts, by the rule of `fpmonitor.unit`, instead of users by a
            column.
        log_format: How a server was told to log: a `log_format` of nginx or a `LogFormat` of
            Apache; empty to recognise the form of text logs.
        expected: APIs that a decision was made about: they stay such, also where their values all
            differ.

    Raises:
        InputError: A visitor and a column of users, or of numbers of them.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    null: Literal["value", "absent"] = "absent"
    apis: Mapping[str, str] = field(default_factory=dict)
    flatten: bool = True
    absent: frozenset[str] = frozenset()
    visitor: bool = False
    log_format: str = ""
    elements: frozenset[str] = frozenset()
    expected: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse two answers to who a row is."""
        given = [name for name in ("user", "weight") if name in self.columns]
        if self.visitor and given:
            raise InputError(
                f"who a row is: both a visitor and --{given[0]} {self.columns[given[0]]}",
                hint=f"omit --visitor or --{given[0]}",
            )

    def name_of(self, field_name: str) -> str:
        """Name of a field's column in the log."""
        return self.columns.get(field_name, field_name)

    def names_of(self, field_name: str, names: Collection[str]) -> list[str]:
        """Names of the columns that make up a field, as of `date,time`, among those of a log."""
        name = self.name_of(field_name)
        parts = [part.strip() for part in name.split(",")]
        # One column may have a comma in its name: that one comes first.
        together = parts if name not in names and all(part in names for part in parts) else [name]
        return [name for name in together if name in names]

    def named(self) -> set[str]:
        """All columns that the map names."""
        return {*self.columns.values(), *self.ignore, *self.apis, *self.elements}

    def renamed(self, names: Mapping[str, str]) -> ColumnMap:
        """Return the map with other names of some columns."""
        return replace(
            self,
            columns={field: names.get(name, name) for field, name in self.columns.items()},
            ignore=frozenset(names.get(name, name) for name in self.ignore),
            apis={names.get(name, name): api for name, api in self.apis.items()},
            elements=frozenset(names.get(name, name) for name in self.elements),
        )

    @classmethod
    def from_toml(cls, path: Path) -> ColumnMap:
        """Read a column map: tables `[columns]`, `[apis]`, lists `ignore`, `elements`, `null`.

        Raises:
            InputError: Not readable, not TOML, or with words that a column map does not have.
        """
        content = read_toml(path, "column map")
        hint = "`fpmonitor lists schema columns` describes its members"
        map_file = typed(content, MapFile, f"a column map in {path}", hint=hint)
        return cls(
            columns={str(field): name for field, name in map_file.columns.items()},
            ignore=frozenset(map_file.ignore),
            null="value" if map_file.null == "value" else "absent",
            apis=map_file.apis,
            flatten=map_file.flatten,
            absent=frozenset(map_file.null if isinstance(map_file.null, list) else ()),
            visitor=map_file.visitor,
            log_format=map_file.log_format,
            elements=frozenset(map_file.elements),
        )
