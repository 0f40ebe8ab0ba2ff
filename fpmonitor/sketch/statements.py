"""Words of the users of a table, by one statement in the SQL of any engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.cluster import arithmetic
from fpmonitor.cluster.portable import transpile
from fpmonitor.errors import InputError
from fpmonitor.sql import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.cluster.engine import Engine
    from fpmonitor.sketch.kept import Tally
    from fpmonitor.sketch.plan import SketchPlan


_ALL = -1  # in place of the number of a set: all users


@dataclass(frozen=True, kw_only=True)
class WordStatements:
    """Statements about the words of a table.

    Attributes
    ----------
    engine
        Runs them.
    plan
        What is to be kept.
    has_time
        Whether of several rows of a user the latest counts.
    """

    engine: Engine
    plan: SketchPlan
    has_time: bool

    def define_key(self) -> None:
        """Send what the key makes: it is in no statement."""
        high, low = divmod(self.plan.key.start, 1 << 32)
        secrets: dict[str, list[str] | list[int]] = {
            f"p{i}": [self.plan.key.prefix(api)] for i, api in enumerate(self.plan.apis)
        }
        secrets |= {"start_high": [high], "start_low": [low]}
        self.engine.define_rows("sketch_key", pl.DataFrame(secrets))

    def add_kept(self, relation: str, level: int, tallies: Sequence[Tally]) -> int:
        """Add the users of each word that a level keeps, set by set; how many users there are."""
        chained, names = self._chained(self._words(relation))
        none = "CAST(0 AS BIGINT)"
        listed = [f"{{'number': {_ALL}, 'high': {none}, 'low': {none}}}"]
        for place, name in enumerate(names):
            one, two = arithmetic.word_columns(name)
            listed.append(f"{{'number': {place}, 'high': {one}, 'low': {two}}}")
        text = statement(
            "sketch/kept",
            listed=", ".join(listed),
            words=chained,
            every=str(_ALL),
            kept=arithmetic.kept_condition("word", level),
        )
        found = self.engine.frame(transpile(text, self.engine.dialect))
        number, counts = (found[name].to_numpy().astype(np.int64) for name in ("number", "users"))
        high, low = (found[f"word_{half}"].to_numpy().astype(np.uint64) for half in ("high", "low"))
        words = high << np.uint64(32) | low
        for place, tally in enumerate(tallies):
            inside = number == place
            tally.add(words[inside], counts[inside], level=level)
        return int(counts[number == _ALL].sum())

    def _words(self, relation: str) -> str:
        """Statement of the words w0, w1, ... of the APIs, one row a user, and of the start."""
        keep = ['"user"', "moment"] if self.has_time else []
        apis = range(len(self.plan.apis))
        start = arithmetic.word_columns("start")
        prefixes = [f"p{i}" for i in apis]
        texts = [f"sha256(p{i} || c{i}) AS h{i}" for i in apis]
        text = _select([*keep, *prefixes, *start, *texts], relation, "CROSS JOIN sketch_key")
        # Who has no value has the word of the empty cell.
        words = [w for i in apis for w in arithmetic.word(f"w{i}", f"COALESCE(h{i}, sha256(p{i}))")]
        text = _select([*keep, *words, *start], f"({text}) AS digests")
        if not self.has_time:
            return text
        names = [c for i in apis for c in arithmetic.word_columns(f"w{i}")]
        return latest([*names, *start], names, text)

    def _chained(self, words: str) -> tuple[str, list[str]]:
        """Statement of the words of the sets, and what they are called; beginnings are shared."""
        apis = self.plan.apis
        sets = [tuple(apis.index(api) for api in chosen) for chosen in self.plan.sets]
        states: dict[tuple[int, ...], str] = {(): "start"}
        for depth in range(1, max(map(len, sets)) + 1):
            former = {at: states[at] for at in states if len(at) == depth - 1 or at in sets}
            now = sorted({chosen[:depth] for chosen in sets if len(chosen) >= depth})
            names = {at: f"s{depth}_{place}" for place, at in enumerate(now)}
            done = [
                column
                for at, name in former.items()
                if at in sets
                for column in arithmetic.word_columns(name)
            ]
            keep = [*done, *(c for i in range(len(apis)) for c in arithmetic.word_columns(f"w{i}"))]
            steps = [
                [
                    column
                    for at, name in names.items()
                    for column in arithmetic.either(name, states[at[:-1]], f"w{at[-1]}")
                ],
                *arithmetic.mixing(names.values()),
            ]
            for step in steps:
                words = _select([*keep, *step], f"({words}) AS words")
            states = {at: name for at, name in former.items() if at in sets} | names
        return words, [states[chosen] for chosen in sets]


def changed_rows() -> InputError:
    """Return the error of a table that does not stay the same while it is read."""
    return InputError(
        "sketch: the table has other rows each time it is read",
        hint="write what a query draws or limits to a Parquet file first, and sketch that",
    )


def latest(columns: Sequence[str], words: Sequence[str], relation: str) -> str:
    """Statement of the latest row of each user of `relation`, a statement."""
    return statement(
        "sketch/latest",
        columns=", ".join(columns),
        order=", ".join(["moment DESC NULLS LAST", *(f"{name} DESC" for name in words)]),
        words=relation,
    )


def _select(columns: Sequence[str], relation: str, joins: str = "") -> str:
    return statement("cluster/select", columns=", ".join(columns), relation=relation, joins=joins)
