"""Makes sketches: of a population whose rows are in memory, and of a table of an engine.

Both give the same words and counts, so that what one makes merges with what the other makes. Values
become texts and words here, whoever holds the rows: DuckDB hashes them, numpy chains the words.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.cluster.asking import Asked, fingerprints, named_rows, visits
from fpmonitor.cluster.engine import DuckEngine
from fpmonitor.collectors.parquet import value_sql
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError, excerpt
from fpmonitor.population.recoding import ABSENT
from fpmonitor.population.snapshot import check_values_kept
from fpmonitor.sketch.kept import Tally
from fpmonitor.sql import quote_text, statement
from fpmonitor.store.convert import NO_TEXT, SEPARATOR
from fpmonitor.store.staging import LARGE_VALUE_BYTES, canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from fpmonitor.cluster.engine import Engine
    from fpmonitor.cluster.parts import UserPart
    from fpmonitor.population.population import Population
    from fpmonitor.sketch.file import Sketch
    from fpmonitor.sketch.plan import SketchPlan
    from fpmonitor.sketch.words import SketchKey

# 10,000,000 rows and seven sets took 18 s of the processor before DuckDB coded the values, and 8 s
# with the codes.
_ROWS_AT_ONCE = 1 << 16
_FETCHED_AT_ONCE = 1 << 18
_ROWS_A_PART = 1 << 23  # rows of users that DuckDB sorts at once, as it keeps nothing on disk
_MOST_IN_DICTIONARY = 1 << 19  # values of an API, which DuckDB holds in memory then
_NESTED = frozenset(("array", "list", "map"))
_NO_TEXT = frozenset(("bit", "blob", "struct", "union"))


# In memory


def sketch_population(
    population: Population, plan: SketchPlan, *, part: UserPart | None = None
) -> Sketch:
    """Make a sketch of the users of a population, as its view shows them, in memory.

    `part` says which users these are, where they are not all.

    Raises:
        UnknownNameError: An API that was never observed.
        InputError: Values that are kept as digests.
        UndecidableError: There are no users, or their rows do not fit into memory.
    """
    check_values_kept(population.snapshot, "sketch")
    population.check_names(plan.apis)
    if not population.snapshot.in_memory(len(plan.apis)):
        raise UndecidableError(
            "sketch: the users do not fit into memory",
            hint="make it of the table that they come from: --from TABLE, with --engine or without",
        )
    codes = {api: population.column(api) for api in plan.apis}
    words = {api: _words_of_codes(population, plan.key, api) for api in plan.apis}
    level = plan.level_for(population.users)
    tallies = [Tally(apis, plan.entries) for apis in plan.sets]
    for start in range(0, population.users, _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        plan.tally({api: words[api][codes[api][block]] for api in plan.apis}, level, tallies)
    return plan.sketch(tallies, population.users, view=population.view_description, part=part)


def _words_of_codes(population: Population, key: SketchKey, api: str) -> NDArray[np.uint64]:
    """Word of each code of an API, as the view shows it."""
    shown = population.shown_values(api)
    codes = [ABSENT, *shown]
    cells = (f"{status}{SEPARATOR}{NO_TEXT if t is None else t}" for status, t in shown.values())
    words = np.zeros(max(codes) + 1, dtype=np.uint64)
    words[codes] = key.words(api, ["", *cells])
    return words


# Of a table


def sketch_table(
    engine: Engine,
    table: str,
    plan: SketchPlan,
    *,
    user: str | None = None,
    time: str | None = None,
    part: UserPart | None = None,
) -> Sketch:
    """Make a sketch of a table, or of some of its users.

    DuckDB in this process gives a row for each user; another engine sends each fingerprint once.

    Args:
        engine: Reads the table.
        table: A table, a query or files of Parquet, as the engine names them.
        plan: What is to be kept; the APIs are columns.
        user: Column that names the user. Without it every row is a user of its own, unchecked.
        time: Column of the time: of several rows of a user the latest counts, whole.
        part: Only these users.

    Raises:
        InputError: Rows without a user; several rows of a user without a time; a time or a part
            without a user; a type that an API cannot have; rows that are others each time the table
            is read, where that is seen.
        UnknownNameError: A column that DuckDB does not have.
        StoreError, EngineLostError: The engine refuses, or does not answer.
        UndecidableError: There are no users.
    """
    if user is None and (time is not None or part is not None):
        raise InputError(
            "sketch: --time and --part need to know whose rows are whose",
            hint="name the column with --user",
        )
    question = Asked(table=table, apis=plan.apis, dialect=engine.dialect, user=user, time=time)
    of_part = "" if part is None else part.holds("person")
    tallies = [Tally(apis, plan.entries) for apis in plan.sets]
    users = 0
    with ExitStack() as opened:
        here = engine if isinstance(engine, DuckEngine) else opened.enter_context(DuckEngine())
        if here is engine:
            _check_columns(here, question)
        here.add_function("canonical_json", canonical_json)
        for condition in _conditions(engine, question, of_part):
            named = _named(engine, question, condition)
            users, counted = users + named, 0
            text = fingerprints(question, condition=condition, grouped=here is not engine)
            for words, counts in _words(engine, here, text, plan):
                plan.tally(words, plan.level_for(users), tallies, counts)
                counted += int(counts.sum())
            if counted != named:
                raise _changed_rows()
    return plan.sketch(tallies, users, view="", part=part)


def _check_columns(here: DuckEngine, question: Asked) -> None:
    """Check names letter for letter: DuckDB takes others for them, whose words would be others."""
    found = here.kinds(f"({visits(question.table, question.dialect, condition='FALSE')})")
    for column in filter(None, (*question.apis, question.user, question.time)):
        if column not in found:
            raise UnknownNameError("column", column, found)


def _conditions(engine: Engine, question: Asked, of_part: str) -> Iterator[str]:
    """Conditions on users that divide them into parts, each small enough to be sorted."""
    parts = 1
    if question.time is not None and isinstance(engine, DuckEngine):
        [records] = engine.frame(named_rows(question))["records"]
        parts = -(-records // _ROWS_A_PART)
    for place in range(parts):
        of_place = [f"hash(person) % {parts} = {place}"] if parts > 1 else []
        yield " AND ".join([*of_place, *([of_part] if of_part else [])])


def _named(engine: Engine, question: Asked, condition: str) -> int:
    """Count users, and check that each row is of one."""
    [row] = engine.frame(named_rows(question, condition=condition)).rows(named=True)
    records, named, users = (int(row[name]) for name in ("records", "named", "users"))
    if named < records:
        raise InputError(
            f"{excerpt(question.table)}: {records - named:,} of {records:,} rows have no user",
            hint="omit them in the query",
        )
    if question.user is None:
        return records
    if question.time is None and users < records:
        raise InputError(
            f"sketch: {records:,} rows of {users:,} users instead of one per user",
            hint="name the column of the time with --time: the latest row of a user counts",
        )
    return users


def _words(
    engine: Engine, here: DuckEngine, text: str, plan: SketchPlan
) -> Iterator[tuple[dict[str, NDArray[np.uint64]], NDArray[np.int64]]]:
    """Words of fingerprints, API by API, and the users of each fingerprint."""
    if engine is here:
        yield from _words_here(here, f"({text})", plan)
        return
    for frame in engine.batches(text, _FETCHED_AT_ONCE):
        here.take("fetched", frame)
        yield from _words_here(here, "fetched", plan)


def _words_here(
    here: DuckEngine, relation: str, plan: SketchPlan
) -> Iterator[tuple[dict[str, NDArray[np.uint64]], NDArray[np.int64]]]:
    kinds = here.kinds(f"{relation} AS fingerprint")
    forms = _forms(here, relation, kinds)
    columns, dictionaries, joins = [], [], []
    for i, api in enumerate(plan.apis):
        column = f"c{i}"
        word = _word(column, api, kinds[column], forms, plan.key)
        if forms[f"{column}_values"] <= _MOST_IN_DICTIONARY:  # each value is hashed once
            text = statement("sketch/dictionary", column=column, word=word, relation=relation)
            dictionaries.append(f"d{i} AS MATERIALIZED ({text})")
            joins.append(f"LEFT JOIN d{i} ON d{i}.value = {column}")
            word = f"CASE WHEN {column} IS NULL THEN {_absent(plan.key, api)} ELSE d{i}.word END"
        columns.append(f"{word} AS {column}")
    columns.append("users" if "users" in kinds else "1::BIGINT AS users")
    text = statement(
        "sketch/words", columns=", ".join(columns), relation=relation, joins=" ".join(joins)
    )
    text = f"WITH {', '.join(dictionaries)} {text}" if dictionaries else text
    for batch in here.frames(text):
        if any(batch.null_count().row(0)):  # values that the dictionary did not find
            raise _changed_rows()
        words = {api: batch[f"c{i}"].to_numpy() for i, api in enumerate(plan.apis)}
        yield words, batch["users"].to_numpy().astype(np.int64)


def _changed_rows() -> InputError:
    return InputError(
        "sketch: the table has other rows each time it is read",
        hint="write what a query draws or limits to a Parquet file, and sketch that",
    )


def _absent(key: SketchKey, api: str) -> str:
    """Return the word of who has no value of an API."""
    [word] = key.words(api, [""])
    return f"{word}::UBIGINT"


def _forms(here: DuckEngine, relation: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Say of each column about how many values it has; of texts whether any is large, JSON, a cell.

    What no value needs is left out of statements: DuckDB then looks once at each entry of a
    dictionary of Parquet.
    """
    found = ["count(*) AS rows"]
    for column, kind in kinds.items():
        found.append(f"approx_count_distinct({column}) AS {column}_values")
        if kind.id in _NESTED:
            found.append(f"max(strlen({column}::VARCHAR)) AS {column}_size")
        elif kind.id == "varchar":
            found.append(f"max(strlen({column})) AS {column}_size")
            found.append(f"bool_or(starts_with({column}, chr(31))) AS {column}_cell")
            starts = " OR ".join(f"starts_with({column}, '{sign}')" for sign in "[{")
            found.append(f"bool_or({starts}) AS {column}_json")
    text = statement("sketch/words", columns=", ".join(found), relation=relation, joins="")
    return here.frame(text).row(0, named=True)


def _word(column: str, api: str, kind: Any, forms: Mapping[str, Any], key: SketchKey) -> str:
    """Return the word of a value, whose text is that which `ingest` would store."""
    prefix = quote_text(key.prefix(api))
    if kind.id == "null":
        return _absent(key, api)
    text = _text(column, api, kind, is_json=bool(forms.get(f"{column}_json")))
    if (forms.get(f"{column}_size") or 0) > LARGE_VALUE_BYTES:
        text = (
            f"CASE WHEN strlen({text}) > {LARGE_VALUE_BYTES} THEN 'sha256:' || "
            f"substr(sha256({text}), 1, 32) || ':' || length({text})::VARCHAR ELSE {text} END"
        )
    cell = f"'value' || chr(31) || ({text})"
    if forms.get(f"{column}_cell"):  # a text of `convert` is a cell already
        cell = f"CASE WHEN starts_with({column}, chr(31)) THEN substr({column}, 2) ELSE {cell} END"
    word = f"('0x' || substr(sha256({prefix} || {cell}), 1, 16))::UBIGINT"
    return f"COALESCE({word}, {_absent(key, api)})"


def _text(column: str, api: str, kind: Any, *, is_json: bool) -> str:
    """Return the text of a value, of a type that an API can have."""
    if kind.id in _NO_TEXT or "BLOB" in str(kind) or "STRUCT" in str(kind):
        raise InputError(
            f"column {excerpt(api)!r} is of type {excerpt(str(kind))}",
            hint="omit it from the query, or turn it into text there",
        )
    text = value_sql(column, str(kind))
    return f"canonical_json({text})" if is_json or kind.id in _NESTED else text
