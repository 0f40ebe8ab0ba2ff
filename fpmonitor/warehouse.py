"""The monitor of users of whom only count spectra are known, as a warehouse answered them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fpmonitor.cluster.answered import (
    MOST_SETS,
    AnsweredSnapshot,
    AnsweredSpectra,
    read_answers,
    unanswered,
)
from fpmonitor.cluster.rounds import Rounds
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.monitor import Monitor
from fpmonitor.population.population import Population
from fpmonitor.population.views import View
from fpmonitor.store.snapshot import Window
from fpmonitor.unit import Unit, weakest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.decide.decision import Decision

_Answer = TypeVar("_Answer")
# What the page can show of a database, but not of such users.
UNTOLD = (
    "Of these users only counts are known: exposure over time, what scripts read, and which "
    "records were rejected are shown for a database file only."
)


class SpectraMonitor(Monitor):
    """Count spectra that a warehouse answered, and the questions that can be asked of them.

    What only a database keeps is refused: windows of time, sources, demand, rejects.

    Args:
        paths: Answers as CSV; or one folder of questions and answers: see `cluster.rounds`.
        engine: Address of the warehouse, which answers what is asked in the folder; null: a person
            does.

    Raises:
        InputError: They are no answers.
        UndecidableError: A folder without any answer yet.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        engine: str | None = None,
        *,
        view: View | None = None,
        audience: Audience = Audience.OWNER,
    ) -> None:
        self.view, self.audience, self.window = view or View(), audience, Window()
        self.listing = None  # nobody keeps a list of questions
        self._path = paths[0]
        self._ask: Callable[[Sequence[tuple[str, ...]]], None] = unanswered
        told: dict[str, Any] = {"said": {}, "key": "", "unit": "user"}
        if [*map(Path.is_dir, paths)] == [True]:
            rounds = Rounds(paths[0], engine)
            self._answers, self._ask, asked = rounds.answers, rounds.ask, rounds.asked
            apis, told = {*asked.apis}, {"said": asked.names, "key": asked.key, "unit": asked.unit}
        elif engine is not None:
            raise InputError("--engine: of a file of answers nothing more is asked")
        else:
            self._answers = read_answers(paths)
            apis = {api for apis in self._answers.sets for api in apis}
        spectra = AnsweredSpectra(apis, self._answers, self._ask)
        self.snapshot = AnsweredSnapshot.of(spectra, **told)

    @property
    def unit(self) -> Unit:
        """What is counted."""
        return weakest(self.snapshot.units)

    @cached_property
    def database(self) -> NoReturn:  # type: ignore[override]
        """Refuse: there is none."""
        raise InputError(
            "answers of a warehouse hold neither sources, times, demand nor rejects",
            hint="use a database file for that: omit --spectra",
        )

    def population(
        self,
        *,
        window: Window | None = None,
        view: View | None = None,
        audience: Audience | None = None,
    ) -> Population:
        """Return the users that questions are about; errors as of `Monitor.population`."""
        if window not in {None, Window()}:
            # Refuses: answers know no times and no sources.
            _ = self.database
        return Population(self.snapshot, view=view or self.view, audience=audience or self.audience)

    def _kept_beside(self, users: Population, decision: Decision) -> dict[str, Any]:
        del users, decision
        return {"untold": [UNTOLD]}

    @property
    def name(self) -> str:
        """The name of the file or folder."""
        return self._path.name

    @property
    def counter(self) -> str:
        """What decisions note."""
        return "answers"

    @property
    def nameless(self) -> int:
        """Rows that named no user."""
        return self._answers.rows[1]

    @property
    def is_masked(self) -> bool:
        """Whether groups of few users are known as one sum."""
        return self._answers.is_masked

    def close(self) -> None:
        """Do nothing: nothing is held open."""

    def settled(
        self, work: Callable[[], _Answer], *, is_whole: Callable[[_Answer], bool]
    ) -> _Answer:
        """Do some work again and again with guesses for what is lacking, and ask, until none is.

        Raises:
            KeyboardInterrupt: The work was interrupted while it went by guesses.
        """
        answers = self._answers
        while True:
            answers.guessed, result = {}, None
            try:
                result = work()
            except UndecidableError:  # guesses may contradict each other
                if not answers.guessed:
                    raise
            finally:
                guessed, answers.guessed = answers.guessed, None
            if not guessed and result is not None:
                return result
            if result is not None and not is_whole(result):
                raise KeyboardInterrupt(
                    "interrupted before all sets were counted; answers are kept"
                )
            self._ask(list(guessed)[:MOST_SETS])
