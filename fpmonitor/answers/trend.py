"""The trend: exposure of API sets per window, and the drift between windows."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from fpmonitor.answers.sets import sorted_sets
from fpmonitor.disclosure import Audience, ToldSpectra, told_spectra
from fpmonitor.errors import InputError, StoreError, UndecidableError
from fpmonitor.estimate.drift import DriftTest, adjust_p_values, compare_laws, compare_spectra
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure, plug_in_exposure, unbiased_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.policy import check_share
from fpmonitor.population.memory import CodeTable, rank_keys
from fpmonitor.population.population import Population
from fpmonitor.population.recoding import ABSENT
from fpmonitor.population.volatile import Versions
from fpmonitor.population.windows import Windows
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.kept_windows import KeptWindow
from fpmonitor.store.windows import PARTS, Division, Span
from fpmonitor.unit import Unit, check_limits, told_unit, weakest
from fpmonitor.version import __version__

Against = Literal["previous", "first"]
Compared = Literal["values", "rarity"]
_LISTED_VALUES = 10
_EDITION = 2
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
    unit
        What was counted: see `fpmonitor.unit`.
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
    unit: Unit = "user"

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
        } | told_unit(self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tested:
    """A test of one table between two windows, and the values that count most."""

    apis: tuple[str, ...]
    compared: Compared
    p_value: float
    moved: float
    values: tuple[MovedValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is kept of a window.

    Attributes
    ----------
    users
        How many.
    spectra
        Count spectrum of each set, in their order: counts and values as bytes of int64; empty where
        there are no users.
    masked
        As of `TrendReport`.
    contradicted
        As of `Windows.contradicted`; null where that makes no difference.
    tested
        The comparison with the window `KeptWindow.against`.
    """

    users: int
    spectra: tuple[tuple[bytes, bytes], ...] = ()
    masked: tuple[str, ...] = ()
    contradicted: tuple[tuple[str, Versions], ...] | None = None
    tested: tuple[_Tested, ...] = ()


class _Counted(NamedTuple):
    """The users of a window by their values.

    Attributes
    ----------
    table
        A row a tuple of codes, in their order, with its users as weight.
    hidden
        At most so many users with the most frequent tuple have in truth others, that are not among
        these.
    """

    table: CodeTable
    hidden: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Read:
    """A window as it was read.

    Attributes
    ----------
    found
        What is kept of it.
    distributions
        What is compared of each set.
    texts
        Reads what the codes of an API stand for.
    """

    found: _Found
    distributions: Mapping[tuple[str, ...], _Counted]
    texts: Callable[[str], Mapping[int, str | None]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Place:
    """A window in the trend, and the one that it is compared with."""

    span: Span
    number: int
    name: str
    found: _Found
    against: _Place | None


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
        A number out of range, an API never observed, an empty set; or rows that may be no users.
    UndecidableError
        No visit has a time, or no window has k users.
    """
    check_share("false_alarms", false_alarms)
    if against not in get_args(Against):
        raise InputError(f"against: must be one of {', '.join(get_args(Against))}")
    check_limits(windows.units, rows_are_users=question.counted or question.sample.rows_are_users)
    wanted = sorted_sets(map(windows.named, sets))
    k = question.k
    places = _places(windows, k, wanted, against=against, progress=progress)
    sizes = [place.found.users for place in places if place.found.users >= k]
    if not sizes:
        raise UndecidableError(f"no {windows.division} has {k} users", hint="take longer windows")
    question = question.among(max(int(np.median(sizes)), k))
    growing = {apis for apis in wanted if windows.may_be_masked(apis)}
    lines = functools.partial(
        _trend_window, sets=wanted, question=question, growing=growing, audience=windows.audience
    )
    return TrendReport(
        division=windows.division,
        k=k,
        population=question.users,
        delta=question.delta,
        windows=tuple(map(lines, places)),
        against=against,
        false_alarms=false_alarms,
        tests=sum(len(place.found.tested) for place in places),
        alarms=tuple(_alarms(places, false_alarms, windows.audience)),
        masked=tuple(sorted({api for place in places for api in place.found.masked})),
        unit=weakest(windows.units),
    )


def compare_windows(
    windows: Windows,
    before: Span,
    after: Span,
    users: Population,
    apis: Sequence[str],
    *,
    k: int,
    false_alarms: float,
) -> tuple[ChangeAlarm, ...] | None:
    """Report which of some APIs have other values in a window than in another.

    None where one of them has fewer than k users.

    Parameters
    ----------
    windows
        The windows that these two are of.
    users
        Those of the later one, seen as all windows are.
    k
        Anonymity threshold, users.
    false_alarms
        Tolerated probability of any alarm, when both windows come from one law.
    """
    first, second = (
        _read_users(windows, seen, k=k, sets=(), apis=apis)
        for seen in (windows.population(before, apis), users)
    )
    if min(first.found.users, second.found.users) < k:
        return None
    tested = tuple(_compare(first, second, sets=(), k=k))
    earlier = _Place(span=before, number=1, name=before.name, found=first.found, against=None)
    later = _Place(
        span=after,
        number=2,
        name=after.name,
        found=replace(second.found, tested=tested),
        against=earlier,
    )
    return tuple(_alarms([later], false_alarms, windows.audience))


def _places(
    windows: Windows,
    k: int,
    sets: Sequence[tuple[str, ...]],
    *,
    against: Against,
    progress: Callable[[str], None],
) -> list[_Place]:
    """Follow the windows; those that have not changed since they were kept are not read again."""
    apis = sorted({api for names in sets for api in names})
    # Each version, and each edition of the tests, finds by rules of its own.
    asked = (__version__, _EDITION, k, against, sets)
    read = functools.partial(_read, windows, k=k, sets=sets, apis=apis)
    places: list[_Place] = []
    fresh: list[KeptWindow] = []
    reference: _Place | None = None
    held: _Read | None = None  # the reference, once it was read
    is_reference_new = False
    for kept in windows.kept(asked):
        span = kept.span
        progress(span.name)
        found, new = _unpacked(kept, windows, apis), None
        before = None if reference is None else reference.span.window.since
        if found is None or (found.users >= k and (kept.against != before or is_reference_new)):
            new = read(span)
            found = new.found
            if reference is not None and found.users >= k:
                held = held or read(reference.span)
                found = replace(found, tested=tuple(_compare(held, new, sets=sets, k=k)))
            content = msgspec.msgpack.encode(found)
            fresh.append(KeptWindow(span=span, against=before, content=content))
        if windows.audience is Audience.OTHERS and found.users < k:
            continue  # nor that there was anybody
        number = len(places) + 1
        is_named = windows.audience is Audience.OWNER or windows.division not in PARTS
        name = span.name if is_named else f"{windows.division} {number}"
        places.append(_Place(span=span, number=number, name=name, found=found, against=reference))
        if found.users >= k and (reference is None or against == "previous"):
            reference, held, is_reference_new = places[-1], new, new is not None
    windows.keep(asked, fresh)
    return places


def _unpacked(kept: KeptWindow, windows: Windows, apis: Sequence[str]) -> _Found | None:
    """Return what is kept of a window; null where it has to be read."""
    if kept.content is None:
        return None
    try:
        found = msgspec.msgpack.decode(kept.content, type=_Found)
    except msgspec.MsgspecError as error:
        raise _tampered() from error
    known = found.contradicted
    return found if known is None or known == windows.contradicted(apis) else None


def _read(
    windows: Windows, span: Span, *, k: int, sets: Sequence[tuple[str, ...]], apis: Sequence[str]
) -> _Read:
    return _read_users(windows, windows.population(span, apis), k=k, sets=sets, apis=apis)


def _read_users(
    windows: Windows,
    population: Population,
    *,
    k: int,
    sets: Sequence[tuple[str, ...]],
    apis: Sequence[str],
) -> _Read:
    population = population.without_few(k)
    texts = functools.cache(population.value_texts)
    columns: dict[str, NDArray[np.integer[Any]]] = {}
    users = 0
    with suppress(UndecidableError):  # every user looks automated
        columns = {api: population.column(api) for api in apis}
        users = population.users
    looks_back = windows.may_be_masked(apis) and population.may_be_contradicted
    contradicted = windows.contradicted(apis) if looks_back else None
    if not users:
        empty = _Found(users=0, contradicted=contradicted)
        return _Read(found=empty, distributions={}, texts=texts)
    tables = dict.fromkeys([*sets, *((api,) for api in apis)])
    counted = {names: _distribution([columns[api] for api in names]) for names in tables}
    found = _Found(
        users=users,
        spectra=tuple(
            _bytes_of(CountSpectrum.from_counts(counted[names].weights)) for names in sets
        ),
        masked=population.masked(apis, k),
        contradicted=contradicted,
    )
    compared = {
        names: _without_hidden(table, k, windows.audience) for names, table in counted.items()
    }
    return _Read(found=found, distributions=compared, texts=texts)


def _bytes_of(spectrum: CountSpectrum) -> tuple[bytes, bytes]:
    return spectrum.counts.astype("<i8").tobytes(), spectrum.values.astype("<i8").tobytes()


def _spectrum_of(kept: tuple[bytes, bytes]) -> CountSpectrum:
    try:
        counts, values = (np.frombuffer(part, dtype="<i8") for part in kept)
        return CountSpectrum(counts, values)
    except (ValueError, InputError) as error:
        raise _tampered() from error


def _tampered() -> StoreError:
    return StoreError("a kept window was tampered with", hint="restore a backup")


def _distribution(columns: Sequence[NDArray[np.integer[Any]]]) -> CodeTable:
    """Count the users of each tuple of codes."""
    cardinalities = tuple(int(column.max()) + 1 for column in columns)
    weights = np.ones(len(columns[0]), dtype=np.int64)
    return CodeTable(tuple(columns), cardinalities, weights).merged(range(len(columns)))


def _without_hidden(table: CodeTable, k: int, audience: Audience) -> _Counted:
    """Let fewer than k users with rare tuples join the most frequent one, for others.

    They are told the same of 0, 1, ... or k - 1 such users.
    """
    rare = table.weights < k
    hidden = int(table.weights[rare].sum())
    if audience is Audience.OWNER or hidden >= k or rare.all():
        return _Counted(table, 0)
    weights = table.weights.copy()
    weights[np.argmax(weights)] += hidden
    columns = tuple(column[~rare] for column in table.columns)
    return _Counted(CodeTable(columns, table.cardinalities, weights[~rare]), k - 1)


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
    before: _Read, after: _Read, *, sets: Collection[tuple[str, ...]], k: int
) -> Iterator[_Tested]:
    """Test the distribution of every API and set, and the rarity of every set."""
    for names in after.distributions:
        pair = [window.distributions[names] for window in (before, after)]
        hidden = pair[0].hidden, pair[1].hidden
        tuples, counts = _aligned(pair[0].table, pair[1].table)
        outcome = functools.partial(_Tested, apis=names)
        seed = seed_of("drift", *names, _digest(*counts))
        test = compare_laws(*counts, seed=seed, hidden=hidden)
        values: tuple[MovedValue, ...] = ()
        if len(names) == 1:
            text = functools.partial(_text, texts=after.texts, name=names[0])
            values = tuple(_moved_values(tuples.columns[0], counts, test, k=k, text=text))
        yield outcome(compared="values", p_value=test.p_value, moved=test.moved, values=values)
        if names in sets:
            rarity = compare_spectra(*counts, seed=seed, hidden=hidden)
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
    places: Sequence[_Place], false_alarms: float, audience: Audience
) -> Iterator[ChangeAlarm]:
    """Alarms among all tests, none of them false but with the tolerated probability."""
    tested = [
        (place, place.against, outcome)
        for place in places
        if place.against is not None
        for outcome in place.found.tested
    ]
    adjusted = adjust_p_values([outcome.p_value for _, _, outcome in tested])
    order = sorted(range(len(tested)), key=lambda i: (tested[i][0].number, adjusted[i]))
    for i in order:
        if adjusted[i] > false_alarms:
            continue
        place, before, outcome = tested[i]
        # Values are named in the same breath, so they are corrected for all tests as well.
        certain = []
        for value in outcome.values:
            p_value = (value.p_value or 0.0) * len(tested)
            if p_value <= false_alarms:
                tells_of_few = audience is Audience.OTHERS and None in (value.before, value.after)
                certain.append(replace(value, p_value=None if tells_of_few else p_value))
        yield ChangeAlarm(
            window=place.name,
            against=before.name,
            since=place.span.window.since,
            before=before.span.window.since,
            apis=outcome.apis,
            compared=outcome.compared,
            p_value=float(adjusted[i]),
            moved=outcome.moved,
            values=tuple(certain),
        )


def _trend_window(
    place: _Place,
    *,
    sets: Sequence[tuple[str, ...]],
    question: Question,
    growing: Collection[tuple[str, ...]],
    audience: Audience,
) -> TrendWindow:
    is_told = place.found.users >= question.k
    lines = (
        _trend_line(
            apis,
            told_spectra(_spectrum_of(kept), question.k, audience),
            question,
            growing=apis in growing,
        )
        for apis, kept in (zip(sets, place.found.spectra, strict=True) if is_told else ())
    )
    return TrendWindow(
        name=place.name,
        since=place.span.window.since,
        until=place.span.window.until,
        users=place.found.users if is_told else None,
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
