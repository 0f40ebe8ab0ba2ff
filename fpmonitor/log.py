"""Logs as Python asks them: `read` a frame or files, and ask for APIs, exposure, a decision.

Beside `Monitor` it owes no file, has the defaults of the command line, and says in words of Python
what the command line says in options.
"""

from __future__ import annotations

import re
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.apis import ApiOverview
from fpmonitor.answers.exposure import ExposureDetails, ExposureReport, report_exposures
from fpmonitor.answers.sets import check_named_sets
from fpmonitor.answers.trade_off import trade_offs
from fpmonitor.decide.decision import Decision
from fpmonitor.disclosure import Audience
from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.export.coverage import coverage, product_exporters
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.level_lists import level_list
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.frames import Frame, LazyFrame
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import EXPORTERS, exporter_name, load_plugin
from fpmonitor.population.levels import finest
from fpmonitor.question import Question
from fpmonitor.render.decisions import data_of
from fpmonitor.render.html import write_html
from fpmonitor.render.levels import level_page
from fpmonitor.results import Answers
from fpmonitor.safe_files import write_bytes, write_folder
from fpmonitor.vocabulary import split_names

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPTION = re.compile(r"--([a-z][a-z-]*)(?:[ =]([A-Z][A-Z.]*)\b)?")
_NAMES = {"population": "n", "apis": "sets", "for-others": "audience"}
_MOST_RANKED = 40  # candidates whose pairs a report ranks
# A decision finds its log again as long as somebody holds that.
_READ: weakref.WeakValueDictionary[str, Log] = weakref.WeakValueDictionary()


def read(
    logs: str | Path | Sequence[object] | Frame | LazyFrame,
    *,
    user: str | None = None,
    db: str | Path | None = None,
    time: str | None = None,
    weight: str | None = None,
    ignore: Collection[str] = (),
    names: dict[str, str] | None = None,
    visitor: bool = False,
) -> Log:
    """Read logs, a frame of Polars, pandas or Arrow, or paths of files.

    Args:
        logs: A frame, a path, or several paths.
        user: Column that names the users; `"row"` where each row is one. Left out: by its shape.
        db: Database file to keep the users in; left out, they are gone with the object.
        time, weight: Columns of the time of a visit, and of how many users a row stands for.
        ignore: Columns that are no APIs.
        names: Column -> API of the vocabulary that it is.
        visitor: Count visitors, where no column names the users.

    Raises:
        InputError: A path that is not there, a log that no collector recognises, or one that names
            no users.
    """
    columns = {"user": user, "time": time, "weight": weight}
    column_map = ColumnMap(
        columns={field: name for field, name in columns.items() if name is not None},
        ignore=frozenset([ignore] if isinstance(ignore, str) else ignore),
        apis=names or {},
        visitor=visitor,
    )
    with _in_words_of_python():
        log = Log(db)
        log.monitor.ingest(logs, column_map=column_map)
        return log


class Log:
    """The users of logs, and what can be asked of them.

    Args:
        db: Database file, made where it is not there; null for one that is gone with the object.

    Attributes:
        monitor: The database, for all other questions.
    """

    def __init__(self, db: str | Path | None = None) -> None:
        folder = tempfile.TemporaryDirectory(prefix="fpmonitor-") if db is None else None
        path = Path(folder.name) / "log.duckdb" if folder is not None else Path(str(db))
        self.monitor = Monitor(path, create=True, kept=folder is None)
        # A function, not a method of this object, which that would keep for ever.
        self._end = weakref.finalize(self, _ended, self.monitor, folder)

    def close(self) -> None:
        """Close the database; one without a name is gone."""
        self._end()

    def apis(self, *, k: int = 10) -> Answers[ApiOverview]:
        """Describe every API alone, the most exposing first."""
        with _in_words_of_python():
            return Answers(self.monitor.apis(k=k))

    def show(self, *, k: int = 10) -> Answers[ApiOverview]:
        """Show what was read: every API alone."""
        return self.apis(k=k)

    def exposure(
        self,
        sets: Iterable[Sequence[str]] | None = None,
        *,
        k: int = 10,
        n: int | None = None,
        delta: float = 0.05,
        **details: Any,
    ) -> Answers[ExposureReport]:
        """Estimate the exposure of API sets, with limits.

        Args:
            sets: API sets; left out, each API alone.
            k, n, delta: The question: users that must look alike, users of the site (as many as
                observed), and how often each limit may be wrong.
            details: See `answers.exposure.ExposureDetails`, such as
                `given=["Navigator.platform"]`.

        Raises:
            InputError: A name where a list of names is meant.
        """
        with _in_words_of_python():
            users, question = self.monitor.population(), Question(k, n, delta)
            if sets is None:
                wanted: list[Sequence[str]] = [[api] for api in users.askable_apis(question)]
            else:
                wanted = check_named_sets(sets)
            found = report_exposures(users, question, wanted, ExposureDetails(**details))
            return Answers(found if sets is not None else sorted(found, key=_most_exposing))

    def decide(
        self,
        candidates: Sequence[str] | None = None,
        *,
        budget: float = 0.05,
        k: int = 10,
        n: int | None = None,
        delta: float = 0.05,
        **options: Any,
    ) -> Decision:
        """Decide all sets of the candidates: see `DecideQuestion`.

        Args:
            candidates: APIs that a site may want; left out, all.
            budget: Share of the users that may be exposed.

        Raises:
            InputError: A name where a list of names is meant.
        """
        with _in_words_of_python():
            if isinstance(candidates, str):
                raise InputError(f"candidates: did you mean [{candidates!r}]?")
            decision = self.monitor.decide(
                k=k, budget=budget, population=n, delta=delta, candidates=candidates, **options
            )
            _READ[decision.digest] = self
            return decision

    def _repr_html_(self) -> str:
        return self.apis().to_html()


def export_decision(
    decision: Decision, to: str, path: str | Path | None = None, **options: Any
) -> str:
    """Write a decision as a list of a product; see `Decision.export`."""
    with _in_words_of_python():
        if decision.components:
            text = level_list(decision, to, [f"--{name.replace('_', '-')}" for name in options])
            if path is not None:
                write_bytes(Path(path), [text.encode()])
            return text
        exporter = load_plugin(EXPORTERS, exporter_name(to))
        result = exporter.export(decision, ExportOptions(**options))
        if path is not None and result.files:
            write_folder(Path(path), result.files)
        elif path is not None:
            write_bytes(Path(path), [result.text.encode()])
        return str(result.text)


def report_decision(decision: Decision, path: str | Path, log: Log | Monitor | None = None) -> None:
    """Write a report on a decision; see `Decision.report`."""
    with _in_words_of_python():
        found = log or _READ.get(decision.digest)
        if found is None:
            raise InputError(
                "report: the log that was decided on is not open",
                hint="name it: decision.report(path, log)",
            )
        monitor = found.monitor if isinstance(found, Log) else found
        write_bytes(Path(path), [report_page(monitor, decision).encode()])


def report_page(
    monitor: Monitor,
    decision: Decision,
    *,
    practice: str | None = None,
    progress: Callable[[str], None] = lambda _stage: None,
) -> str:
    """Write the report on a decision, from the current users of a database.

    Of one about levels, `practice` names what is shown today, to be drawn beside it.

    Raises:
        InputError: A practice, but of a decision about sets.
    """
    if decision.components:
        users = monitor.population_as(decision, audience=Audience.OTHERS)
        data = data_of(monitor.name, users, users=users.users, k=decision.policy.k)
        today = None if practice is None else finest(decision.named(split_names(practice)))
        points = trade_offs(users, decision, practice=today)
        return level_page(decision, points, data, made=datetime.now(UTC), practice=today)
    if practice is not None:
        raise InputError("--practice: the decision is about sets", hint="omit it")
    findings = monitor.findings(
        decision,
        coverage=coverage(decision, product_exporters()),
        pairs=len(decision.policy.candidates) <= _MOST_RANKED,
        progress=progress,
    )
    return write_html(findings)


def _most_exposing(report: ExposureReport) -> tuple[float, tuple[str, ...]]:
    return -report.empirical, report.apis


def _ended(monitor: Monitor, folder: tempfile.TemporaryDirectory[str] | None) -> None:
    monitor.close()
    if folder is not None:
        folder.cleanup()


@contextmanager
def _in_words_of_python() -> Iterator[None]:
    """Name arguments where errors name options."""
    try:
        yield
    except FpmonitorError as error:
        error.message, error.hint = _argument(error.message), _argument(error.hint)
        error.args = (error.message,)
        raise


def _argument(text: str) -> str:
    def written(found: re.Match[str]) -> str:
        name, value = found.groups()
        name = _NAMES.get(name, name).replace("-", "_")
        return f'{name}="{value}"' if value else f"{name}="

    return _OPTION.sub(written, text)


ACTIONS: dict[str, Callable[..., Any]] = {"export": export_decision, "report": report_decision}
