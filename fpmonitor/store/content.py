"""The content of a database, apart from its internal numbers: rows of each table, one digest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.estimate.mixing import splitmix64
from fpmonitor.store.snapshot import value_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database


@dataclass(frozen=True, slots=True)
class Content:
    """What a database says."""

    # Table -> number of its rows. Snapshots, and what a watch has seen, are not content.
    rows: Mapping[str, int]
    # Digest of the multiset of all rows, with user ids as the database keeps them: equal for equal
    # data in any order. It finds mistakes; it does not stop anyone who can write.
    digest: str


_ALL_VISITS: dict[str, Any] = {"first": -(2**63), "last": 2**63 - 1}


def read_content(database: Database) -> Content:
    """Read every row of a database, and give their digest."""
    sums = {what: (rows, int(total)) for what, rows, total in database.rows("content/rest")}
    visits = database.arrays("content/visits")
    ids = np.asarray(visits["visit_id"], dtype=np.int64)
    sums["visit"] = len(ids), _sum(np.asarray(visits["row_word"], dtype=np.uint64))
    words = np.zeros(int(ids.max(initial=0)) + 1, dtype=np.uint64)
    words[ids] = np.asarray(visits["word"], dtype=np.uint64)
    sums["observation"] = _observations(database, words)
    found = {what: sums[what] for what in sorted(sums) if sums[what][0]}
    return Content(
        rows={what: rows for what, (rows, _) in found.items()},
        digest=hashlib.sha256(json.dumps(found).encode()).hexdigest(),
    )


def _observations(database: Database, visit_words: NDArray[np.uint64]) -> tuple[int, int]:
    """Count observations and sum their words, one API at a time."""
    rows = total = 0
    for api_id, _ in database.rows("snapshot/apis"):
        arrays = database.arrays("snapshot/observations_of_api", api=api_id, **_ALL_VISITS)
        of_visits = _look_up(visit_words, np.asarray(arrays["visit_id"]))
        of_values = _look_up(value_words(database, api_id), np.asarray(arrays["value_id"]))
        rows += len(of_visits)
        # Mixed in pairs: a plain sum stays as it is where two visits exchange their values.
        total += _sum(splitmix64(of_visits + splitmix64(of_values)))
    return rows, total % 2**64


def _look_up(words: NDArray[np.uint64], numbers: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Words of numbers; 0 for those that nothing has, which a sound database does not hold."""
    places = np.asarray(numbers, dtype=np.int64)
    known = places < len(words)
    found = np.zeros(len(places), dtype=np.uint64)
    found[known] = words[places[known]]
    return found


def _sum(words: NDArray[np.uint64]) -> int:
    return int(np.sum(words, dtype=np.uint64))
