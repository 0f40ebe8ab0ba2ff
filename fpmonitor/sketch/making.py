"""Makes sketches: of a population whose rows are in memory, and of a table of an engine.

Both give the same words and counts, so that what one makes merges with what the other makes. Values
become texts and words here, whoever holds the rows: DuckDB hashes them, numpy chains the words.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.cluster.asking import Asked, fingerprints, named_rows, visits
from fpmonitor.cluster.engine import DuckEngine
from fpmonitor.collectors.parquet import value_sql
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError, excerpt
from fpmonitor.estimate.value_sample import LAST_LEVEL, planned_level
from fpmonitor.logs.contract import LARGE_VALUE_BYTES
from fpmonitor.population.snapshot import check_values_kept
from fpmonitor.sketch.file import MAX_ENTRIES, Sketch, made_at_once
from fpmonitor.sketch.words import SketchKey, Tally, is_kept
from fpmonitor.sql import quote_text, statement
from fpmonitor.store.convert import NO_TEXT, SEPARATOR
from fpmonitor.store.snapshot import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.cluster.asking import UserPart
    from fpmonitor.cluster.engine import Engine
    from fpmonitor.population.population import Population

# 10,000,000 rows and seven sets took 18 s of the processor before DuckDB coded the values, and 8 s
# with the codes.
_ROWS_AT_ONCE = 1 << 16
_FETCHED_AT_ONCE = 1 << 18
_ROWS_A_PART = 1 << 23  # rows of users that DuckDB sorts at once, as it keeps nothing on disk
_MOST_IN_DICTIONARY = 1 << 19  # values of an API, which DuckDB holds in memory then
MOST_SETS = 1000
_NESTED = frozenset(("array", "list", "map"))
_NO_TEXT = frozenset(("bit", "blob", "struct", "union"))


@dataclass(frozen=True, kw_only=True)
class SketchPlan:
    """What is to be kept.

    Attributes:
        key: Keeps values.
        sets: API sets, each sorted, without repetition.
        entries: Values to keep at most per set, from which the share of the values follows; or
            None.
        level: The share is 2^-level, where it is given beforehand; or None.

    Raises:
        InputError: No sets or an empty one, too many, or not exactly one of `entries` and `level`.
    """

    key: SketchKey
    sets: tuple[tuple[str, ...], ...]
    entries: int | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        if not self.sets or not all(self.sets) or len(self.sets) > MOST_SETS:
            raise InputError(f"sketch: name 1 to {MOST_SETS:,} sets of APIs")
        # Sorted sets begin alike, which `tally` relies on; the class is frozen.
        object.__setattr__(self, "sets", tuple(sorted({tuple(sorted({*s})) for s in self.sets})))
        if (self.entries is None) == (self.level is None):
            raise InputError("sketch: give the share of the values, or the entries to keep")
        if self.entries is not None and not 0 < self.entries <= MAX_ENTRIES:
            raise InputError(f"entries: must be 1 to {MAX_ENTRIES:,}, got {self.entries:,}")
        if self.level is not None and not 0 <= self.level <= LAST_LEVEL:
            raise InputError(f"share: must be 1, 1/2, 1/4, ... or 1/{1 << LAST_LEVEL:,}")

    @property
    def apis(self) -> tuple[str, ...]:
        """All APIs of the sets, sorted."""
        return tuple(sorted({api for apis in self.sets for api in apis}))

    def level_for(self, users: int) -> int:
        """Level at which the values of so many users are kept; more users never lower it."""
        return planned_level(users, self.entries or 1) if self.level is None else self.level

    def tally(
        self,
        columns: Mapping[str, NDArray[np.uint64]],
        level: int,
        tallies: Sequence[Tally],
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Add users, from a column of words per API, to the tallies of the sets.

        Sets are sorted, so that one that begins as the set before goes on from there. `counts` are
        the users of each row, one by default.
        """
        before: tuple[str, ...] = ()
        states: list[NDArray[np.uint64]] = []
        for apis, tally in zip(self.sets, tallies, strict=True):
            shared = 0
            while before[: shared + 1] == apis[: shared + 1]:
                shared += 1
            del states[shared:]
            for api in apis[shared:]:
                states.append(self.key.chained([columns[api]], states[-1] if states else None))
            is_in = is_kept(states[-1], level)
            tally.add(states[-1][is_in], None if counts is None else counts[is_in], level=level)
            before = apis

    def sketch(
        self, tallies: Sequence[Tally], users: int, *, view: str, part: UserPart | None
    ) -> Sketch:
        """Return the sketch of what was added up.

        Raises:
            UndecidableError: There are no users.
        """
        if not users:
            raise UndecidableError("no users to make a sketch of")
        level = self.level_for(users)
        kept = tuple(tally.kept(level) for tally in tallies)
        sketch = Sketch(key=self.key.id, users=users, entries=self.entries, view=view, sets=kept)
        return made_at_once(sketch, part)


def share_level(text: str) -> int:
    """Read a share of the values, as 1/1024; its level.

    Raises:
        InputError: It is none of 1, 1/2, 1/4 and so on.
    """
    levels = {"1": 0, **{f"1/{1 << level}": level for level in range(LAST_LEVEL + 1)}}
    level = levels.get(text.replace(" ", ""))
    if level is None:
        raise InputError(
            f"share: {text!r} is not a share of the values",
            hint="1, 1/2, 1/4 and so on, such as 1/1024",
        )
    return level


# In memory


def sketch_population(
    population: Population, plan: SketchPlan, *, part: UserPart | None = None
) -> Sketch:
    """Make a sketch of the users of a population, as its view shows them, in memory.

    `part` says which users these are, where they are not all.

    Raises:
        UndecidableError: The rows of the users do not fit into memory.
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
    # An array by code: looking up all users is then one index.
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
    """Make a sketch of a table whose columns are APIs, or of a part of its users.

    DuckDB in this process gives a row for each user; another engine sends each fingerprint once.

    Args:
        engine, table: A table, a query or files of Parquet, as the engine names them.
        user: Column that names the user. Without it every row is a user of its own, unchecked.
        time: Column of the time: of several rows of a user the latest counts, whole.

    Raises:
        InputError: Rows without a user; several rows of a user without a time; a time or a part
            without a user; a type that an API cannot have; rows that are others each time the table
            is read, where that is seen.
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
        for condition in _conditions(engine, question, of_part):
            named = _named(engine, question, condition)
            users, counted = users + named, 0
            text = fingerprints(question, condition=condition, grouped=here is not engine)
            for relation in _relations(engine, here, text):
                for words, counts in _words(here, relation, plan):
                    # By the users so far: a level only rises.
                    plan.tally(words, plan.level_for(users), tallies, counts)
                    counted += int(counts.sum())
            # Two queries read the table: what draws or limits rows may give others the second time.
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
        # Of DuckDB alone, which is the engine here: `hash` need not be the same elsewhere.
        of_place = [f"hash(person) % {parts} = {place}"] if parts > 1 else []
        yield " AND ".join([*of_place, *([of_part] if of_part else [])])


def _named(engine: Engine, question: Asked, condition: str) -> int:
    """Count users, and check that each row is of one."""
    [row] = engine.frame(named_rows(question, condition=condition)).rows(named=True)
    records, named, users = (int(row[name]) for name in ("records", "named", "users"))
    # Without a name it is nobody's row, or somebody's second one: which is not for us to guess.
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


def _relations(engine: Engine, here: DuckEngine, text: str) -> Iterator[str]:
    """Return what DuckDB calls the rows of a query; those of another engine come in parts."""
    if engine is here:
        yield f"({text})"
        return
    for frame in engine.batches(text, _FETCHED_AT_ONCE):
        here.take("fetched", frame)
        yield "fetched"


def _words(
    here: DuckEngine, relation: str, plan: SketchPlan
) -> Iterator[tuple[dict[str, NDArray[np.uint64]], NDArray[np.int64]]]:
    """Words of fingerprints, API by API, and the users of each fingerprint."""
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
        yield _runs(words, batch["users"].to_numpy().astype(np.int64))


def _runs(
    words: dict[str, NDArray[np.uint64]], users: NDArray[np.int64]
) -> tuple[dict[str, NDArray[np.uint64]], NDArray[np.int64]]:
    """Take neighbours alike together, where most are: sets of a sorted table chain them once.

    15 sets of 20 million rows took 7.2 s of the processor before, and 4.9 s so.
    """
    starts = np.zeros(len(users), dtype=np.bool_)
    starts[:1] = True
    for column in words.values():
        starts[1:] |= column[1:] != column[:-1]
        if 2 * np.count_nonzero(starts) > len(users):
            return words, users
    places = np.flatnonzero(starts)
    return {api: column[places] for api, column in words.items()}, np.add.reduceat(users, places)


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
    # Only where a text begins as JSON does: `canonical_json` is a call of Python for each value.
    text = _text(column, api, kind, is_json=bool(forms.get(f"{column}_json")))
    # As `ingest` keeps large values, so that both make the same words.
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
