"""Makes sketches: of a population whose rows are in memory, and of a table by an engine.

Both give the same words and counts, so that what one makes merges with what the other makes. On an
engine all sets are counted in one pass, and of these only words that are kept come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.cluster.engine import rows
from fpmonitor.cluster.portable import OWN, transpile
from fpmonitor.cluster.snapshot import NO_TEXT, SEPARATOR
from fpmonitor.cluster.table import define_values
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.value_sample import LAST_LEVEL, planned_level
from fpmonitor.population.recoding import ABSENT
from fpmonitor.population.snapshot import check_values
from fpmonitor.sketch.arithmetic import FACTORS, SHIFTS, Arithmetic, Halves, Unsigned
from fpmonitor.sketch.file import MAX_ENTRIES, Sketch, UserPart, sketch_of_part
from fpmonitor.sketch.kept import Tally
from fpmonitor.sketch.words import SketchKey, is_kept
from fpmonitor.sql import quote_text, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from fpmonitor.cluster.engine import Engine
    from fpmonitor.population.population import Population

MOST_SETS = 1000
_ROWS_AT_ONCE = 1 << 18
_ROWS_A_PART = 1 << 23  # rows of users that an engine of this computer sorts at once
_MOST_WORDS = 1 << 19  # values of an API whose words are kept in memory


@dataclass(frozen=True, kw_only=True)
class SketchPlan:
    """What is to be kept.

    Attributes
    ----------
    key
        Keeps values.
    sets
        API sets, each sorted, without repetition.
    entries
        Values to keep at most per set, from which the share of the values follows; or None.
    level
        The share is 2^-level, where it is given beforehand; or None.

    Raises
    ------
    InputError
        No sets or an empty one, too many, or not exactly one of `entries` and `level`.
    """

    key: SketchKey
    sets: tuple[tuple[str, ...], ...]
    entries: int | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        if not self.sets or not all(self.sets) or len(self.sets) > MOST_SETS:
            raise InputError(f"sketch: name 1 to {MOST_SETS:,} sets of APIs")
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

    def level_of(self, users: int) -> int:
        """Level at which the values of so many users are kept; more users never lower it."""
        if self.level is not None:
            return self.level
        return planned_level(users, self.entries or 1)

    def sketch(
        self, tallies: Sequence[Tally], users: int, *, view: str, part: UserPart | None
    ) -> Sketch:
        """Return the sketch of what was added up.

        Raises
        ------
        UndecidableError
            There are no users.
        """
        if not users:
            raise UndecidableError("no users to make a sketch of")
        level = self.level_of(users)
        return sketch_of_part(
            key=self.key.id,
            users=users,
            entries=self.entries,
            view=view,
            part=part,
            sets=[tally.kept(level) for tally in tallies],
        )


def share_level(text: str) -> int:
    """Read a share of the values, as 1/1024; its level.

    Raises
    ------
    InputError
        It is none of 1, 1/2, 1/4 and so on.
    """
    one, _, parts = text.strip().partition("/")
    number = int(parts) if parts.isascii() and parts.isdigit() and len(parts) < 20 else 0
    if text.strip() == "1":
        number = 1
    if one.strip() != "1" or number < 1 or number & (number - 1) or number > 1 << LAST_LEVEL:
        raise InputError(
            f"share: {text!r} is not a share of the values",
            hint="1, 1/2, 1/4 and so on, such as 1/1024",
        )
    return number.bit_length() - 1


# In memory


def sketch_population(
    population: Population, plan: SketchPlan, *, part: UserPart | None = None
) -> Sketch:
    """Make a sketch of the users of a population, as its view shows them, in memory.

    `part` says which users these are, where they are not all.

    Raises
    ------
    UnknownNameError
        An API that was never observed.
    InputError
        Values that are kept as digests.
    UndecidableError
        There are no users, or their rows do not fit into memory.
    """
    check_values(population.snapshot, "sketch")
    population.check_names(plan.apis)
    if not population.snapshot.in_memory(len(plan.apis)):
        raise UndecidableError(
            "sketch: the users do not fit into memory",
            hint="make it of the table that they come from: --from TABLE, with --engine or without",
        )
    codes = {api: population.column(api) for api in plan.apis}
    words = {api: _words_of_codes(population, plan.key, api) for api in plan.apis}
    level = plan.level_of(population.users)
    tallies = [Tally(apis, plan.entries) for apis in plan.sets]
    for start in range(0, population.users, _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        columns = {api: words[api][codes[api][block]] for api in plan.apis}
        for apis, tally in zip(plan.sets, tallies, strict=True):
            found = plan.key.chained([columns[api] for api in apis])
            tally.add(found[is_kept(found, level)], level=level)
    return plan.sketch(tallies, population.users, view=population.view_description, part=part)


def _words_of_codes(population: Population, key: SketchKey, api: str) -> NDArray[np.uint64]:
    """Word of each code of an API, as the view shows it."""
    shown = population.shown_values(api)
    codes = [ABSENT, *shown]
    cells = (f"{status}{SEPARATOR}{NO_TEXT if t is None else t}" for status, t in shown.values())
    words = np.zeros(max(codes) + 1, dtype=np.uint64)
    words[codes] = key.words(api, ["", *cells])
    return words


# By an engine


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

    Parameters
    ----------
    engine
        Reads the table; its session gets views.
    table
        A table, a query or files of Parquet, as the engine names them.
    plan
        What is to be kept; the APIs are columns.
    user
        Column that names the user. Without it every row is a user of its own, unchecked.
    time
        Column of the time: of several rows of a user the latest counts, whole.
    part
        Only these users.

    Raises
    ------
    InputError
        As of `table.define_values`; several rows of a user without a time; a time or a part without
        a user.
    StoreError, EngineLostError
        The engine refuses, or does not answer.
    UndecidableError
        There are no users.
    """
    if user is None and (time is not None or part is not None):
        raise InputError(
            "sketch: --time and --part need to know whose rows are whose",
            hint="name the column with --user",
        )
    cells = define_values(
        engine,
        table,
        plan.apis,
        user=user,
        time=time,
        condition="TRUE" if part is None else _in_part(part),
        name="sketch_cells",
    )
    statements = _Statements.of(engine, plan, cells.relation, user=user, time=time)
    tallies = [Tally(apis, plan.entries) for apis in plan.sets]
    users = 0
    for relation, found in _parts(engine, cells.relation, user):
        counted = found["users"]
        if time is None and counted < found["records"]:
            raise InputError(
                f"sketch: {found['records']:,} rows of {counted:,} users instead of one per user",
                hint="name the column of the time with --time: the latest row of a user counts",
            )
        users += counted
        level = plan.level_of(users)
        for place, words, counts in statements.kept(relation, level):
            tallies[place].add(words, counts, level=level)
    return plan.sketch(tallies, users, view="", part=part)


def _in_part(part: UserPart) -> str:
    """Whether a user is in a part, by a hash that is the same everywhere."""
    place = f'hex_number(substr(sha256("user"), 1, 8)) % {part.of}'
    return f"{place} >= {part.first - 1} AND {place} < {part.last}"


def _parts(engine: Engine, relation: str, user: str | None) -> Iterator[tuple[str, dict[str, int]]]:
    """Relations with rows of different users, small enough to be sorted; rows and users of each."""
    counts = "count(*) AS records"
    [records] = rows(engine, "cluster/count", counts=counts, relation=relation).row(0)
    if user is None:
        yield relation, {"records": records, "users": records}
        return
    counts += ', count(DISTINCT "user") AS users'
    parts = -(-records // _ROWS_A_PART) if engine.dialect == OWN else 1
    for place in range(parts):
        part = relation
        if parts > 1:
            part = f"{relation}_part"
            text = statement(
                "cluster/select",
                columns="*",
                relation=relation,
                joins=f'WHERE hash("user") % {parts} = {place}',
            )
            engine.define(part, text)
        yield part, rows(engine, "cluster/count", counts=counts, relation=part).row(0, named=True)


def _define_words(engine: Engine, plan: SketchPlan, relation: str) -> frozenset[int]:
    """Let DuckDB hold the words of the APIs with few values; which APIs these are.

    To look a word up takes it a tenth of the time of a digest.
    """
    numbers = range(len(plan.apis))
    counts = ", ".join(f"approx_count_distinct(c{i})" for i in numbers)
    [found] = rows(engine, "cluster/count", counts=counts, relation=relation).rows()
    known = frozenset(i for i, values in zip(numbers, found, strict=True) if values <= _MOST_WORDS)
    for i in known:
        prefix = quote_text(plan.key.prefix(plan.apis[i]))
        words = rows(
            engine,
            "sketch/dictionary",
            word=", ".join(Unsigned().word("word", f"sha256({prefix} || cell)")),
            column=f"c{i}",
            relation=relation,
        )
        engine.define_rows(f"sketch_words{i}", words)
    return known


@dataclass(frozen=True, kw_only=True)
class _Statements:
    """Statements about the words of a table."""

    engine: Engine
    plan: SketchPlan
    arithmetic: Arithmetic
    known: frozenset[int]
    has_user: bool
    has_time: bool

    @classmethod
    def of(
        cls,
        engine: Engine,
        plan: SketchPlan,
        relation: str,
        *,
        user: str | None,
        time: str | None,
    ) -> _Statements:
        """Send what statements need; what the key makes is in no statement to another engine."""
        is_own = engine.dialect == OWN
        if not is_own:
            high, low = divmod(plan.key.start, 1 << 32)
            secrets: dict[str, list[str] | list[int]] = {
                f"p{i}": [plan.key.prefix(api)] for i, api in enumerate(plan.apis)
            }
            secrets |= {"start_high": [high], "start_low": [low]}
            engine.define_rows("sketch_key", pl.DataFrame(secrets))
        return cls(
            engine=engine,
            plan=plan,
            arithmetic=Unsigned() if is_own else Halves(),
            known=_define_words(engine, plan, relation) if is_own else frozenset(),
            has_user=user is not None,
            has_time=time is not None,
        )

    def kept(
        self, relation: str, level: int
    ) -> Iterator[tuple[int, NDArray[np.uint64], NDArray[np.int64]]]:
        """Words and counts of each set that a level keeps, in the order of the sets."""
        words, names = self._chained(self._words(relation))
        arithmetic = self.arithmetic
        word = arithmetic.columns("word")
        listed = []
        for place, name in enumerate(names):
            columns = zip(word, arithmetic.columns(name), strict=True)
            members = ", ".join(f"'{member}': {column}" for member, column in columns)
            listed.append(f"{{'number': {place}, {members}}}")
        # DuckDB computes words once, whatever is asked of them; others would once more.
        is_some = " OR ".join(arithmetic.is_kept(name, level) for name in names)
        text = statement(
            "sketch/kept",
            word=", ".join(word),
            fields=", ".join(f"one.{field} AS {field}" for field in ("number", *word)),
            listed=", ".join(listed),
            words=words,
            some_kept=is_some if self.engine.dialect == OWN else "TRUE",
            kept=arithmetic.is_kept("word", level),
        )
        found = self.engine.frame(transpile(text, self.engine.dialect))
        number, counts = (found[name].to_numpy().astype(np.int64) for name in ("number", "users"))
        halves = [found[name].to_numpy().astype(np.uint64) for name in word]
        whole = halves[0] if len(halves) == 1 else halves[0] << np.uint64(32) | halves[1]
        for place in range(len(self.plan.sets)):
            inside = number == place
            yield place, whole[inside], counts[inside]

    def _words(self, relation: str) -> str:
        """Statement of the words w0, w1, ... of the APIs, one row a user, and of the start."""
        is_own = self.engine.dialect == OWN
        keep = ['"user"'] * self.has_user + ["moment"] * self.has_time
        apis = range(len(self.plan.apis))
        prefixes = [
            quote_text(self.plan.key.prefix(api)) if is_own else f"p{i}"
            for i, api in enumerate(self.plan.apis)
        ]
        secret = [] if is_own else [*prefixes, "start_high", "start_low"]
        start = self.arithmetic.constant("start", self.plan.key.start) if is_own else secret[-2:]
        texts = [f"d{i}.word AS k{i}" for i in sorted(self.known)]
        texts += [f"sha256({prefixes[i]} || c{i}) AS h{i}" for i in apis if i not in self.known]
        joins = [f"LEFT JOIN sketch_words{i} AS d{i} ON d{i}.cell = c{i}" for i in self.known]
        joins += [] if is_own else ["CROSS JOIN sketch_key"]
        text = _select([*keep, *secret, *texts], relation, " ".join(joins))
        words: list[str] = []
        for i, prefix in enumerate(prefixes):
            # Who has no value has the word of the empty cell.
            if i in self.known:
                [absent] = self.plan.key.words(self.plan.apis[i], [""])
                words.append(f"COALESCE(k{i}, {absent}::UBIGINT) AS w{i}")
            else:
                words += self.arithmetic.word(f"w{i}", f"COALESCE(h{i}, sha256({prefix}))")
        text = _select([*keep, *words, *start], f"({text}) AS digests")
        if not self.has_time:
            return text
        names = [c for i in apis for c in self.arithmetic.columns(f"w{i}")]
        return statement(
            "sketch/latest",
            columns=", ".join([*names, *self.arithmetic.columns("start")]),
            order=", ".join(["moment DESC NULLS LAST", *(f"{name} DESC" for name in names)]),
            words=text,
        )

    def _chained(self, words: str) -> tuple[str, list[str]]:
        """Statement of the words of the sets, and what they are called; beginnings are shared."""
        arithmetic, apis = self.arithmetic, self.plan.apis
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
                for column in arithmetic.columns(name)
            ]
            keep = [*done, *(c for i in range(len(apis)) for c in arithmetic.columns(f"w{i}"))]
            steps = [
                [
                    arithmetic.either(name, states[at[:-1]], f"w{at[-1]}")
                    for at, name in names.items()
                ],
                *_mixing(arithmetic, list(names.values())),
            ]
            for step in steps:
                columns = [column for of_one in step for column in of_one]
                words = _select([*keep, *columns], f"({words}) AS words")
            states = {at: name for at, name in former.items() if at in sets} | names
        return words, [states[chosen] for chosen in sets]


def _mixing(arithmetic: Arithmetic, names: Iterable[str]) -> Iterator[list[list[str]]]:
    """Return the steps that mix words, in order."""
    names = list(names)
    for shift, factor in zip(SHIFTS, (*FACTORS, None), strict=True):
        yield [arithmetic.shifted(name, shift) for name in names]
        if factor is not None:
            yield [arithmetic.multiplied(name, factor) for name in names]


def _select(columns: Sequence[str], relation: str, joins: str = "") -> str:
    return statement("cluster/select", columns=", ".join(columns), relation=relation, joins=joins)
