"""Exports of analytics products: which of their columns are APIs, users, times, ids or metadata."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from fpmonitor.vocabulary.headers import folded

Role = Literal["identifier", "metadata"]
_ENVELOPE = re.compile("properties[._]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportProduct:
    """What the columns of a product's export are; names are folded, endings after `*` are free."""

    # name, title, url: Short name, what is exported, and the public document that says so.
    name: str
    title: str
    url: str
    # marks, fewest: Columns that only this product has, and how many of them tell it.
    marks: frozenset[str]
    fewest: int
    # users, times: Columns that name the user and the time, the best first.
    users: tuple[str, ...]
    times: tuple[str, ...]
    # identifiers, metadata: Columns that are no APIs.
    identifiers: tuple[str, ...]
    metadata: tuple[str, ...]
    apis: Mapping[str, str]  # Column -> API.

    def marked_by(self, keys: set[str]) -> int:
        """Count the columns that only this product has; none where they are too few to tell."""
        found = len(self.marks & keys)
        return found if found >= self.fewest else 0

    def api_of(self, column: str) -> str | None:
        """Return the API of a column; null for what is none, or unknown."""
        return self.apis.get(_key(column))

    def role_of(self, column: str) -> Role | None:
        """Return what a column is that is no API; null for APIs, and for what is unknown."""
        if self.api_of(column) is not None:
            return None
        parts = column.split(".")
        keys = [_key(".".join(parts[:end])) for end in range(1, len(parts) + 1)]
        if any(_fits(key, self.identifiers) for key in keys):
            return "identifier"
        return "metadata" if any(_fits(key, self.metadata) for key in keys) else None

    def first_of(self, wanted: Iterable[str], columns: Iterable[str]) -> str | None:
        """Return the first of some columns that a table has, by its name there."""
        found = {_key(column): column for column in columns}
        return next((found[name] for name in wanted if name in found), None)


def _key(column: str) -> str:
    return folded(_ENVELOPE.sub("", column, count=1) if _ENVELOPE.match(column) else column)


def _fits(key: str, patterns: Iterable[str]) -> bool:
    return any(key.startswith(one[:-1]) if one.endswith("*") else key == one for one in patterns)


def _pattern(name: str) -> str:
    return folded(name) + ("*" if name.endswith("*") else "")


@cache
def products() -> tuple[ExportProduct, ...]:
    """All products, in the order in which they are tried."""
    file = resources.files("fpmonitor.vocabulary") / "products.toml"
    content: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    return tuple(_product(name, entry) for name, entry in content.items())


def _product(name: str, entry: Mapping[str, Any]) -> ExportProduct:
    return ExportProduct(
        name=name,
        title=entry["title"],
        url=entry["url"],
        marks=frozenset(map(folded, entry["marks"])),
        fewest=entry["fewest"],
        users=tuple(map(folded, entry["users"])),
        times=tuple(map(folded, entry["times"])),
        identifiers=tuple(map(_pattern, entry["identifiers"])),
        metadata=tuple(map(_pattern, entry["metadata"])),
        apis={folded(column): api for column, api in entry["apis"].items()},
    )


def product_of(columns: Iterable[str]) -> ExportProduct | None:
    """Return the product of whose export these are columns; null where none tells."""
    keys = set(map(_key, columns))
    # Products have columns in common: most marks decide, not the first that fits.
    best = max(products(), key=lambda product: product.marked_by(keys))
    return best if best.marked_by(keys) else None
