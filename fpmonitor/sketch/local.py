"""Words of the users of a table that DuckDB reads here, chained batch by batch in memory.

DuckDB codes values, or looks their words up; numpy chains words in a tenth of the time that it
takes DuckDB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from fpmonitor.sketch.statements import changed_rows, latest
from fpmonitor.sql import quote_text, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.cluster.local import LocalEngine
    from fpmonitor.cluster.table import CellTable
    from fpmonitor.sketch.kept import Tally
    from fpmonitor.sketch.plan import SketchPlan

_ROWS_AT_ONCE = 1 << 15
# DuckDB casts each entry of a dictionary of a Parquet file once, while these are fewer than 20,000.
_MOST_CODED = 1 << 14


@dataclass(frozen=True, kw_only=True)
class LocalWords:
    """The words of a table.

    Attributes
    ----------
    engine
        Reads it.
    plan
        What is to be kept.
    columns, joins
        Expressions of the APIs, each a word or a code, and what they need beside the relation.
    words
        API number -> words by code.
    has_time
        Whether of several rows of a user the latest counts.
    """

    engine: LocalEngine
    plan: SketchPlan
    columns: Sequence[str]
    joins: Sequence[str]
    words: Mapping[int, NDArray[np.uint64]]
    has_time: bool

    @classmethod
    def of(cls, engine: LocalEngine, plan: SketchPlan, cells: CellTable, *, has_time: bool) -> Self:
        """Let DuckDB hold what it looks up of some cells: codes of few values, words of many."""
        columns, joins = [], []
        words: dict[int, NDArray[np.uint64]] = {}
        for i, api in enumerate(plan.apis):
            prefix = quote_text(plan.key.prefix(api))
            [absent] = plan.key.words(api, [""])
            if i not in cells.few:
                digest = f"COALESCE(sha256({prefix} || c{i}), sha256({prefix}))"
                columns.append(f"('0x' || substr({digest}, 1, 16))::UBIGINT")
                continue
            coded = None if has_time else _coded(engine, cells.few[i], f"sketch_values{i}")
            if coded is None:
                found = statement("sketch/dictionary", prefix=prefix, relation=cells.few[i])
                engine.define_rows(f"sketch_words{i}", engine.frame(found))
                joins.append(f"LEFT JOIN sketch_words{i} AS d{i} ON d{i}.text = c{i}")
                word, no_value = f"d{i}.word", f"{absent}::UBIGINT"
            else:
                words[i] = np.append(plan.key.words(api, coded), absent)
                word = f"enum_code(TRY_CAST(c{i} AS sketch_values{i}))" if coded else "NULL"
                no_value = str(len(coded))
            # None where the relation has other values by now.
            columns.append(f"COALESCE({word}, CASE WHEN c{i} IS NULL THEN {no_value} END)")
        return cls(
            engine=engine, plan=plan, columns=columns, joins=joins, words=words, has_time=has_time
        )

    def add_kept(self, relation: str, level: int, tallies: Sequence[Tally]) -> int:
        """Add the users of each word that a level keeps, set by set; how many users there are.

        Raises
        ------
        InputError
            Values that the relation did not have when it was looked at.
        """
        users = 0
        names = [f"w{i}" for i in range(len(self.columns))]
        keep = ['"user"', "moment"] if self.has_time else []
        found = [f"{column} AS {name}" for column, name in zip(self.columns, names, strict=True)]
        text = statement(
            "cluster/select",
            columns=", ".join([*keep, *found]),
            relation=relation,
            joins=" ".join(self.joins),
        )
        if self.has_time:
            text = latest(names, names, text)
        for batch in self.engine.batches(text, _ROWS_AT_ONCE):
            columns = {}
            for i, (api, name) in enumerate(zip(self.plan.apis, names, strict=True)):
                if batch[name].null_count():
                    raise changed_rows()
                column = batch[name].to_numpy()
                columns[api] = self.words[i].take(column) if i in self.words else column
            self.plan.tally(columns, level, tallies)
            users += len(batch)
        return users


def _coded(engine: LocalEngine, values: str, kind: str) -> list[str] | None:
    """Let `kind` be a type whose codes are of the values of a relation (text, cell); their cells.

    None where they are too many.
    """
    found = engine.frame(statement("cluster/select", columns="*", relation=values, joins=""))
    if len(found) > _MOST_CODED:
        return None
    engine.define_codes(kind, found["text"].to_list())
    return found["cell"].to_list()
