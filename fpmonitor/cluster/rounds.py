"""A folder of questions to a warehouse and their answers, which may be asked in several rounds.

`asked.json` says what is asked of which table; `1.sql`, `2.sql`, ... are statements, and `1.csv`,
`2.csv`, ... what the warehouse answered. Whoever asks needs no connection: somebody runs the next
statement and saves its answer beside it. With an engine that is done here.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING

from fpmonitor.cluster.answered import AnsweredSets, read_answers
from fpmonitor.cluster.asking import AT_ONCE, Asked, all_sets, statement_of
from fpmonitor.cluster.engine import open_engine
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.safe_files import read_json, typed, untyped, write_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_ASKED = "asked.json"
# That one statement counts: DuckDB holds the groups of all at once, and Spark plans all of them
# anew after each step: 110 sets took 224 s on two workers, 25 took 21 s.
_MOST_SETS = {"spark": 25, "databricks": 25}  # 100 elsewhere
_HINT = "make one with `fpmonitor scale sql ... --to FOLDER`"


class Rounds:
    """A folder that `begin` made, and the engine that runs its statements; null: a person does.

    Raises:
        InputError: It is none, or a file in it is not what it should be.
    """

    def __init__(self, folder: Path, engine: str | None = None) -> None:
        self.folder, self._engine = folder, engine
        content = read_json(folder / _ASKED, "question", hint=_HINT)
        self.asked = typed(content, Asked, f"{folder / _ASKED}", hint=_HINT)
        self.answers: AnsweredSets = read_answers(folder / f"{n}.csv" for n in range(1, self._next))
        if self.answers.users is None:
            self.ask([])

    @property
    def _next(self) -> int:
        """Number of the next round."""
        number = 1
        while (self.folder / f"{number}.csv").exists():
            number += 1
        return number

    def ask(self, sets: Sequence[tuple[str, ...]]) -> None:
        """Ask for some sets, of an engine in several statements where they are many."""
        wanted = first_sets(self.asked.apis) if self._next == 1 else sets
        # A person is asked for all at once: the first statement ends this until it is answered.
        at_once = len(wanted) if self._engine is None else _MOST_SETS.get(self.asked.dialect, 100)
        for start in range(0, max(len(wanted), 1), at_once or 1):
            self._ask(wanted[start : start + at_once])

    def _ask(self, sets: Sequence[tuple[str, ...]]) -> None:
        number = self._next
        text = statement_of(self.asked, sets)
        write_folder(self.folder, {f"{number}.sql": text})
        if self._engine is None:
            raise UndecidableError(
                f"not answered yet: run {self.folder / f'{number}.sql'} in {self.asked.dialect}",
                hint=f"save the answer as {self.folder / f'{number}.csv'}, and repeat this command",
            )
        # For each statement anew, so that nothing is held open meanwhile.
        with open_engine(self._engine) as engine:
            if engine.dialect != self.asked.dialect:
                raise InputError(
                    f"--engine: {self.folder} asks in the SQL of {self.asked.dialect}",
                    hint=f"begin a new one: `fpmonitor scale sql --dialect {engine.dialect}`",
                )
            answer = engine.frame(text).write_csv()
        # Before it is written: an answer that is refused leaves no file, which would be read again.
        self.answers.add(answer.encode(), f"the answer of {self.folder / f'{number}.sql'}")
        write_folder(self.folder, {f"{number}.csv": answer})


def first_sets(apis: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what is asked at first: all sets of few columns, or else pairs of them."""
    return all_sets(apis) if len(apis) <= AT_ONCE else list(combinations(apis, 2))


def begin(folder: Path, question: Asked) -> str:
    """Make a folder of questions with the first statement, which is returned.

    Raises:
        InputError: The folder holds another question, or cannot be written.
    """
    if (folder / _ASKED).exists():
        raise InputError(
            f"{folder} holds a question already", hint="name a new folder, or remove that one"
        )
    text = statement_of(question, first_sets(question.apis))
    write_folder(folder, {_ASKED: json.dumps(untyped(question), indent=1) + "\n", "1.sql": text})
    return text
