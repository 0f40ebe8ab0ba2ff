"""The trend: exposure of API sets per window, and the drift between windows."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fpmonitor.answers.sets import sorted_sets
from fpmonitor.disclosure import Audience, ToldSpectra, told_spectra
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.drift import DriftTest, adjust_p_values, compare_laws, compare_spectra
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure, plug_in_exposure, unbiased_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.policy import check_share
from fpmonitor.population.memory import CodeTable, rank_keys
from fpmonitor.population.recoding import ABSENT
from fpmonitor.population.windows import Windows
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.windows import PARTS, Division, Span

Against = Literal["previous", "first"]
Compared = Literal["values", "rarity"]
_LISTED_VALUES = 10
NOT_LOGGED = "(absent)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendLine:
    """One API set in one window.

    Attributes
    ----------
    apis
        The set.
    values
        Combinations of values seen.
    entropy_bits
        Shannon entropy of the observed users.
    empirical
        Share of the observed users in groups smaller than k; others are told that of k - 1 users,
        in all numbers, where they are fewer.
    plug_in, unbiased
        Estimates of the statistical exposure; `unbiased` is null where the population is larger
        than the window.
    lower, upper
        Limits of the statistical exposure, each holding for this window and set alone.
    """

    apis: tuple[str, ...]
    values: int
    entropy_bits: float
    empirical: float
    plug_in: float
    unbiased: float | None
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendWindow:
    """One window; `users` is null and nothing is said of it where it has fewer than k users.

    `name` is its first day, or the batch or source; `since` and `until` are null where it is open.
    """

    name: str
    since: datetime | None
    until: datetime | None
    users: int | None
    sets: tuple[TrendLine, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the window as the CLI prints it."""
        return {
            "name": self.name,
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
            "users": self.users,
            "sets": [asdict(line) for line in self.sets],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedValue:
    """A value whose share changed.

    Attributes
    ----------
    value
        Its text, `(absent)` for users without the API; null where fewer than k users of the later
        window have it.
    before, after
        Share of the users of each window; null where fewer than k users have it.
    grew
        Whether it is more frequent than before.
    p_value
        Adjusted for all values and tests of the trend; others are not told it where a share is
        null, which would follow from it.
    """

    value: str | None
    before: float | None
    after: float | None
    grew: bool
    p_value: float | None

    @property
    def of_api(self) -> Literal["appeared", "vanished"] | None:
        """What became of the whole API, where one of the windows has no value of it."""
        if self.value != NOT_LOGGED or 1 not in (self.before, self.after):
            return None
        return "appeared" if self.before == 1 else "vanished"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAlarm:
    """A change between two windows that one law would hardly bring about.

    Attributes
    ----------
    window, against
        Names of the window, and of the one it is compared with.
    since, before
        Beginnings of both; null where they are open.
    apis
        What changed.
    compared
        `values`: the law of the values; `rarity`: how rare the users' values are.
    p_value
        Adjusted for the number of all tests.
    moved
        Estimated share of the users that moved to other values (or to rarer or commoner ones).
    values
        Of one API the values that changed for sure, the surest first.
    """

    window: str
    against: str
    since: datetime | None
    before: datetime | None
    apis: tuple[str, ...]
    compared: Compared
    p_value: float
    moved: float
    values: tuple[MovedValue, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the alarm as the CLI prints it."""
        return asdict(self) | {
            "since": self.since and self.since.isoformat(),
            "before": self.before and self.before.isoformat(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendReport(Result):
    """Exposure over time.

    Attributes
    ----------
    division
        Length of the windows, or `batch` or `source`.
    k, population, delta
        The question, the same in all windows.
    windows
        In the order of time.
    against
        The window that each is compared with.
    false_alarms
        Tolerated probability of any alarm, when all windows come from one law.
    tests
        Number of tests that share it.
    alarms
        In the order of time, the surest first.
    masked
        APIs whose volatile values the view masks in a window.
    """

    division: Division
    k: int
    population: int
    delta: float
    windows: tuple[TrendWindow, ...]
    against: Against
    false_alarms: float
    tests: int
    alarms: tuple[ChangeAlarm, ...]
    masked: tuple[str, ...] = ()

    @property
    def judged(self) -> list[str]:
        """Names of the windows of k users or more, in the order of time."""
        return [window.name for window in self.windows if window.sets]

    @property
    def is_different(self) -> bool:
        """Whether the users of the newest window differ from those that it is compared with.

        Of sources none is the newest.
        """
        newest = None if self.division == "source" else self.judged[-1]
        return any(alarm.window == newest for alarm in self.alarms)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each window and set."""
        windows = [window.to_json() for window in self.windows]
        return [
            {name: value for name, value in window.items() if name != "sets"} | line
            for window in windows
            for line in window["sets"]
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        return {
            "by": self.division,
            "k": self.k,
            "population": self.population,
            "delta": self.delta,
            "masked": list(self.masked),
            "windows": [window.to_json() for window in self.windows],
            "drift": {
                "against": self.against,
                "false_alarms": self.false_alarms,
                "tests": self.tests,
                "alarms": [alarm.to_json() for alarm in self.alarms],
            },
        }


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Read:
    """What is kept of a window: what is told of each set, and for a while the distributions.

    A distribution is a row a tuple of codes, in their order, with its users as weight.
    """

    span: Span
    place: int
    name: str
    users: int
    told: Mapping[tuple[str, ...], ToldSpectra]
    distributions: Mapping[tuple[str, ...], CodeTable]
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Tested:
    """A test of one table between two windows, and the values that count most."""

    after: _Read
    before: _Read
    apis: tuple[str, ...]
    compared: Compared
    p_value: float
    moved: float
    values: tuple[MovedValue, ...]


def report_trend(
    windows: Windows,
    question: Question,
    sets: Sequence[Sequence[str]],
    *,
    against: Against = "previous",
    false_alarms: float = 0.01,
    progress: Callable[[str], None] = lambda _stage: None,
) -> TrendReport:
    """Report exposure and drift over windows.

    Parameters
    ----------
    windows
        The windows; one after the other is read.
    question
        What is asked; the population is the median window's number of users by default.
    sets
        The API sets.
    against, false_alarms
        See `TrendReport`.
    progress
        Called with what is being done.

    Raises
    ------
    PolicyError, UnknownNameError, InputError
        A number out of range, an API never observed, an empty set.
    UndecidableError
        No visit has a time, or no window has k users.
    """
    check_share("false_alarms", false_alarms)
    if against not in get_args(Against):
        raise InputError(f"against: must be one of {', '.join(get_args(Against))}")
    wanted = sorted_sets(map(windows.named, sets))
    apis = sorted({api for names in wanted for api in names})
    k = question.k
    reads: list[_Read] = []
    tested: list[_Tested] = []
    reference: _Read | None = None
    for span in windows.spans():
        progress(span.name)
        read, texts = _read(windows, span, k, sets=wanted, apis=apis, place=len(reads) + 1)
        if windows.audience is Audience.OTHERS and read.users < k:
            continue  # nor that there was anybody
        if read.users >= k:
            if reference is not None:
                tested += _compare(reference, read, k=k, texts=texts)
            reference = read if reference is None or against == "previous" else reference
        reads.append(_without_distributions(read))
    sizes = [read.users for read in reads if read.users >= k]
    if not sizes:
        raise UndecidableError(f"no {windows.division} has {k} users", hint="take longer windows")
    question = question.among(max(int(np.median(sizes)), k))
    growing = {apis for apis in wanted if windows.may_be_masked(apis)}
    return TrendReport(
        division=windows.division,
        k=k,
        population=question.users,
        delta=question.delta,
        windows=tuple(_trend_window(read, question, growing) for read in reads),
        against=against,
        false_alarms=false_alarms,
        tests=len(tested),
        alarms=tuple(_alarms(tested, false_alarms, windows.audience)),
        masked=tuple(sorted({api for read in reads for api in read.masked})),
    )


def compare_windows(
    windows: Windows, before: Span, after: Span, apis: Sequence[str], *, k: int, false_alarms: float
) -> tuple[ChangeAlarm, ...] | None:
    """Report which of some APIs have other values in a window than in another.

    None where one of them has fewer than k users.

    Parameters
    ----------
    windows
        The windows that these two are of.
    k
        Anonymity threshold, users.
    false_alarms
        Tolerated probability of any alarm, when both windows come from one law.

    Raises
    ------
    UnknownNameError
        An API that was never observed.
    """
    (first, _), (second, texts) = (
        _read(windows, span, k, sets=(), apis=apis) for span in (before, after)
    )
    if min(first.users, second.users) < k:
        return None
    tested = list(_compare(first, second, k=k, texts=texts))
    return tuple(_alarms(tested, false_alarms, windows.audience))


def _read(
    windows: Windows,
    span: Span,
    k: int,
    *,
    sets: Sequence[tuple[str, ...]],
    apis: Sequence[str],
    place: int = 1,
) -> tuple[_Read, Callable[[str], Mapping[int, str | None]]]:
    population = windows.population(span, apis).without_few(k)
    texts = functools.cache(population.value_texts)
    columns: dict[str, NDArray[np.integer[Any]]] = {}
    users = 0
    with suppress(UndecidableError):  # every user looks automated
        columns = {api: population.column(api) for api in apis}
        users = population.users
    is_named = windows.audience is Audience.OWNER or windows.division not in PARTS
    name = span.name if is_named else f"{windows.division} {place}"
    read = _Read(span=span, place=place, name=name, users=users, told={}, distributions={})
    if not users:
        return read, texts
    tables = dict.fromkeys([*sets, *((api,) for api in apis)])
    counted = {names: _distribution([columns[api] for api in names]) for names in tables}
    told = {
        names: told_spectra(CountSpectrum.from_counts(counted[names].weights), k, windows.audience)
        for names in sets
    }
    if windows.audience is Audience.OTHERS:
        counted = {names: _without_hidden(table, k) for names, table in counted.items()}
    masked = population.masked(apis, k)
    return replace(read, told=told, distributions=counted, masked=masked), texts


def _without_distributions(read: _Read) -> _Read:
    return replace(read, distributions={})


def _distribution(columns: Sequence[NDArray[np.integer[Any]]]) -> CodeTable:
    """Count the users of each tuple of codes."""
    cardinalities = tuple(int(column.max()) + 1 for column in columns)
    weights = np.ones(len(columns[0]), dtype=np.int64)
    return CodeTable(tuple(columns), cardinalities, weights).merged(range(len(columns)))


def _without_hidden(table: CodeTable, k: int) -> CodeTable:
    """Let fewer than k users with rare tuples join the most frequent one, none included."""
    rare = table.weights < k
    hidden = int(table.weights[rare].sum())
    if hidden >= k or rare.all():
        return table
    weights = table.weights.copy()
    weights[np.argmax(weights)] += hidden
    columns = tuple(column[~rare] for column in table.columns)
    return CodeTable(columns, table.cardinalities, weights[~rare])


def _aligned(before: CodeTable, after: CodeTable) -> tuple[CodeTable, NDArray[np.int64]]:
    """Put the users of two windows side by side: tuples, and the users of each in both."""
    cardinalities = tuple(map(max, before.cardinalities, after.cardinalities))
    columns = tuple(map(np.concatenate, zip(before.columns, after.columns, strict=True)))
    weights = np.concatenate([before.weights, after.weights])
    both = CodeTable(columns, cardinalities, weights)
    ranks, groups = rank_keys(*both.keys(range(len(columns))))
    row = np.empty(groups, dtype=np.intp)
    row[ranks] = np.arange(len(ranks))
    rows = len(before.weights)
    counts = np.stack(
        [
            np.bincount(ranks[part], weights[part], minlength=groups).astype(np.int64)
            for part in (slice(None, rows), slice(rows, None))
        ]
    )
    tuples = CodeTable(tuple(column[row] for column in columns), cardinalities, counts.sum(axis=0))
    return tuples, counts


def _compare(
    before: _Read,
    after: _Read,
    *,
    k: int,
    texts: Callable[[str], Mapping[int, str | None]],
) -> Iterator[_Tested]:
    """Test the distribution of every API and set, and the rarity of every set."""
    for names in after.distributions:
        tuples, counts = _aligned(before.distributions[names], after.distributions[names])
        outcome = functools.partial(
            _Tested,
            after=_without_distributions(after),
            before=_without_distributions(before),
            apis=names,
        )
        seed = seed_of("drift", *names, _digest(*counts))
        test = compare_laws(*counts, seed=seed)
        values: tuple[MovedValue, ...] = ()
        if len(names) == 1:
            text = functools.partial(_text, texts=texts, name=names[0])
            values = tuple(_moved_values(tuples.columns[0], counts, test, k=k, text=text))
        yield outcome(compared="values", p_value=test.p_value, moved=test.moved, values=values)
        if names in after.told:
            rarity = compare_spectra(*counts, seed=seed)
            yield outcome(compared="rarity", p_value=rarity.p_value, moved=rarity.moved, values=())


def _moved_values(
    codes: NDArray[np.integer[Any]],
    counts: NDArray[np.int64],
    test: DriftTest,
    *,
    k: int,
    text: Callable[[int], str | None],
) -> Iterator[MovedValue]:
    """Values with the smallest p-values; what fewer than k users have now is not told."""
    p_values = test.cell_p_values
    order = np.argsort(p_values, kind="stable")[:_LISTED_VALUES]
    shares = [window / window.sum() for window in counts]
    for i in order[p_values[order] < 1].tolist():
        told = [bool(window[i] >= k) for window in counts]
        yield MovedValue(
            value=text(int(codes[i])) if told[1] or codes[i] == ABSENT else None,
            before=float(shares[0][i]) if told[0] else None,
            after=float(shares[1][i]) if told[1] else None,
            grew=bool(shares[1][i] > shares[0][i]),
            p_value=float(p_values[i]),
        )


def _text(code: int, *, name: str, texts: Callable[[str], Mapping[int, str | None]]) -> str | None:
    if code == ABSENT:
        return NOT_LOGGED
    return texts(name).get(code, "(a value that the browser randomises)")


def _alarms(
    tested: Sequence[_Tested], false_alarms: float, audience: Audience
) -> Iterator[ChangeAlarm]:
    """Alarms among all tests, none of them false but with the tolerated probability."""
    adjusted = adjust_p_values([outcome.p_value for outcome in tested])
    order = sorted(range(len(tested)), key=lambda i: (tested[i].after.place, adjusted[i]))
    for i in order:
        if adjusted[i] > false_alarms:
            continue
        outcome = tested[i]
        # Values are named in the same breath, so they are corrected for all tests as well.
        certain = []
        for value in outcome.values:
            p_value = (value.p_value or 0.0) * len(tested)
            if p_value <= false_alarms:
                tells_of_few = audience is Audience.OTHERS and None in (value.before, value.after)
                certain.append(replace(value, p_value=None if tells_of_few else p_value))
        yield ChangeAlarm(
            window=outcome.after.name,
            against=outcome.before.name,
            since=outcome.after.span.window.since,
            before=outcome.before.span.window.since,
            apis=outcome.apis,
            compared=outcome.compared,
            p_value=float(adjusted[i]),
            moved=outcome.moved,
            values=tuple(certain),
        )


def _trend_window(
    read: _Read, question: Question, growing: Collection[tuple[str, ...]]
) -> TrendWindow:
    told = read.users >= question.k
    lines = (
        _trend_line(apis, spectra, question, growing=apis in growing)
        for apis, spectra in (read.told.items() if told else ())
    )
    return TrendWindow(
        name=read.name,
        since=read.span.window.since,
        until=read.span.window.until,
        users=read.users if told else None,
        sets=tuple(lines),
    )


def _trend_line(
    apis: tuple[str, ...], told: ToldSpectra, question: Question, *, growing: bool
) -> TrendLine:
    k, population = question.k, question.users
    certificate = exposure_limits(
        users=told.most.users,
        k=k,
        population=population,
        delta=question.delta,
        growing=growing,
    )
    lower, upper = certificate.of(told.least, len(apis), hidden=told.hidden)
    return TrendLine(
        apis=apis,
        values=told.most.support,
        entropy_bits=entropy_bits(told.most),
        empirical=empirical_exposure(told.most, k),
        plug_in=plug_in_exposure(told.most, k=k, population=population),
        unbiased=unbiased_exposure(told.most, k=k, population=population),
        lower=lower,
        upper=upper,
    )


def _digest(*arrays: NDArray[np.int64]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()
