"""Makes sketches: of a population whose rows are in memory, and of a table by an engine.

Both give the same words and counts, so that what one makes merges with what the other makes. On an
engine all sets are counted in one pass, and of these only words that are kept come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.cluster.engine import rows
from fpmonitor.cluster.local import LocalEngine
from fpmonitor.cluster.snapshot import NO_TEXT, SEPARATOR
from fpmonitor.cluster.table import define_values
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.population.recoding import ABSENT
from fpmonitor.population.snapshot import check_values_kept
from fpmonitor.sketch.kept import Tally
from fpmonitor.sketch.local import LocalWords
from fpmonitor.sketch.statements import WordStatements, changed_rows
from fpmonitor.sql import statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fpmonitor.cluster.engine import Engine
    from fpmonitor.cluster.table import CellTable
    from fpmonitor.population.population import Population
    from fpmonitor.sketch.file import Sketch, UserPart
    from fpmonitor.sketch.plan import SketchPlan
    from fpmonitor.sketch.words import SketchKey

_ROWS_AT_ONCE = 1 << 16
_ROWS_A_PART = 1 << 23  # rows of users that an engine of this computer sorts at once


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
    check_values_kept(population.snapshot, "sketch")
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
        a user; rows that are others each time the table is read, where that is seen.
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
    condition = "TRUE" if part is None else _in_part(part)
    options = {"user": user, "time": time}
    cells = define_values(
        engine, table, plan.apis, **options, condition=condition, name="sketch_cells"
    )
    words = _words_of(engine, plan, cells, has_time=time is not None)
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
        if words.add_kept(relation, plan.level_of(users), tallies) != counted:
            raise changed_rows()
    return plan.sketch(tallies, users, view="", part=part)


def _words_of(
    engine: Engine, plan: SketchPlan, cells: CellTable, *, has_time: bool
) -> LocalWords | WordStatements:
    if isinstance(engine, LocalEngine):
        return LocalWords.of(engine, plan, cells, has_time=has_time)
    words = WordStatements(engine=engine, plan=plan, has_time=has_time)
    words.define_key()
    return words


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
    parts = -(-records // _ROWS_A_PART) if isinstance(engine, LocalEngine) else 1
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
