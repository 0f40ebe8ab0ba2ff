"""The trend: exposure of API sets per calendar window, and the drift between windows."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from fpmonitor.disclosure import most_exposing
from fpmonitor.errors import UndecidableError
from fpmonitor.estimate.certificate import certificate
from fpmonitor.estimate.drift import adjust_p_values, compare_laws, compare_spectra
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure, plug_in_exposure, unbiased_exposure
from fpmonitor.estimate.thinning import seed_of, thinned_spectrum
from fpmonitor.policy import check_share, check_threshold
from fpmonitor.results import Result
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.windows import list_spans, number_apis, read_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from fpmonitor.estimate.certificate import Certificate
    from fpmonitor.estimate.drift import DriftTest
    from fpmonitor.store.database import Database
    from fpmonitor.store.snapshot import Window
    from fpmonitor.store.views import View
    from fpmonitor.store.windows import ApiCodes, Period, Span, WindowUsers

Against = Literal["previous", "first"]
Compared = Literal["values", "rarity"]
_KEY_BITS = 63
_DENSE = 8  # count by direct addressing up to this many possible keys a visit
_LISTED_VALUES = 10


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
        Share of the observed users in groups smaller than k; that of k - 1 users, in all estimates,
        where they are fewer, but not none.
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
    """One window; `users` is null and nothing is said of it where it has fewer than k users."""

    since: datetime
    until: datetime
    users: int | None
    sets: tuple[TrendLine, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the window as the CLI prints it."""
        return {
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "users": self.users,
            "sets": [asdict(line) for line in self.sets],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedValue:
    """A value whose share changed.

    Attributes
    ----------
    value
        Its text; null where fewer than k users of one of the windows have it.
    before, after
        Share of the users of each window; null where fewer than k users have it.
    grew
        Whether it is more frequent than before.
    p_value
        Adjusted for all values and tests of the trend.
    """

    value: str | None
    before: float | None
    after: float | None
    grew: bool
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A change between two windows that one law would hardly bring about.

    Attributes
    ----------
    since, before
        Beginning of the window, and of the one it is compared with.
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

    since: datetime
    before: datetime
    apis: tuple[str, ...]
    compared: Compared
    p_value: float
    moved: float
    values: tuple[MovedValue, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the alarm as the CLI prints it."""
        return asdict(self) | {
            "since": self.since.isoformat(),
            "before": self.before.isoformat(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendReport(Result):
    """Exposure over time.

    Attributes
    ----------
    period
        Length of the windows.
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
    """

    period: Period
    k: int
    population: int
    delta: float
    windows: tuple[TrendWindow, ...]
    against: Against
    false_alarms: float
    tests: int
    alarms: tuple[Alarm, ...]

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
            "by": self.period,
            "k": self.k,
            "population": self.population,
            "delta": self.delta,
            "windows": [window.to_json() for window in self.windows],
            "drift": {
                "against": self.against,
                "false_alarms": self.false_alarms,
                "tests": self.tests,
                "alarms": [alarm.to_json() for alarm in self.alarms],
            },
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Law:
    """How many users have each tuple of values.

    Attributes
    ----------
    counts
        int64, users.
    keys
        Whole numbers that name the tuples in all windows alike, a row each, in increasing order;
        None where `counts[i]` is of the tuple with the number `i`.
    """

    counts: NDArray[np.int64]
    keys: pl.DataFrame | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Read:
    """What is kept of a window: the spectrum of each set, and for a while the laws."""

    span: Span
    users: int
    spectra: Mapping[tuple[str, ...], CountSpectrum]
    laws: Mapping[tuple[str, ...], _Law]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Tested:
    """A test of one table between two windows, and the values that count most."""

    since: datetime
    before: datetime
    apis: tuple[str, ...]
    compared: Compared
    p_value: float
    moved: float
    values: tuple[MovedValue, ...]


def report_trend(
    database: Database,
    sets: Sequence[Sequence[str]],
    *,
    period: Period,
    window: Window,
    view: View,
    k: int,
    population: int | None,
    delta: float,
    against: Against,
    false_alarms: float,
    value_texts: Callable[[str], Mapping[int, str | None]],
    progress: Callable[[str], None],
) -> TrendReport:
    """Report exposure and drift over the windows of a period.

    Parameters
    ----------
    database
        The open database; one window after the other is read from it.
    sets
        The API sets.
    period, window, view
        Length of the windows; which visits count; how to look at the users.
    k, population, delta
        As in `Monitor.exposure`; the population is the median window's number of users by default.
    against, false_alarms
        See `TrendReport`.
    value_texts
        Gives the texts of the values of an API by their numbers.
    progress
        Called with what is being done.

    Raises
    ------
    PolicyError, UnknownNameError, InputError
        A number out of range, an API never observed, a view with transforms.
    UndecidableError
        No visit has a time, or no window has k users.
    """
    check_share("delta", delta)
    check_share("false_alarms", false_alarms)
    check_threshold(k, max(k, 2) if population is None else population)
    wanted = [tuple(sorted(set(apis))) for apis in sets]
    apis = number_apis(database, sorted({api for names in wanted for api in names}))
    texts = functools.cache(value_texts)
    reads: list[_Read] = []
    tested: list[_Tested] = []
    reference: _Read | None = None
    spans = list_spans(database, period, window)
    dense = _DENSE * max(span.visits for span in spans)
    for span in spans:
        progress(f"{span.since:%Y-%m-%d}")
        read = _read(database, span, apis, wanted, view=view, dense=dense)
        if read.users >= k:
            if reference is not None:
                tested += _compare(reference, read, apis, k=k, texts=texts)
            reference = read if reference is None or against == "previous" else reference
        reads.append(_without_laws(read))
    sizes = [read.users for read in reads if read.users >= k]
    if not sizes:
        raise UndecidableError(f"no {period} has {k} users", hint="take longer windows")
    population = max(int(np.median(sizes)), k) if population is None else population
    check_threshold(k, population)
    return TrendReport(
        period=period,
        k=k,
        population=population,
        delta=delta,
        windows=tuple(_trend_window(read, k, population, delta) for read in reads),
        against=against,
        false_alarms=false_alarms,
        tests=len(tested),
        alarms=tuple(_alarms(tested, false_alarms)),
    )


def _read(
    database: Database,
    span: Span,
    apis: Mapping[str, ApiCodes],
    sets: Sequence[tuple[str, ...]],
    *,
    view: View,
    dense: int,
) -> _Read:
    try:
        rows = read_window(database, span, apis, view)
    except UndecidableError:
        return _Read(span=span, users=0, spectra={}, laws={})
    tables = dict.fromkeys([*sets, *((api,) for api in apis)])
    laws = {names: _law(rows, apis, names, dense) for names in tables}
    spectra = {names: CountSpectrum.from_counts(laws[names].counts) for names in sets}
    return _Read(span=span, users=rows.users, spectra=spectra, laws=laws)


def _without_laws(read: _Read) -> _Read:
    return _Read(span=read.span, users=read.users, spectra=read.spectra, laws={})


def _law(
    rows: WindowUsers, apis: Mapping[str, ApiCodes], names: tuple[str, ...], dense: int
) -> _Law:
    keys, sizes = _keys(rows, apis, names)
    if len(names) == 1 or (len(keys) == 1 and sizes[0] <= dense):
        return _Law(np.bincount(keys[0], minlength=sizes[0]), None)
    columns = [f"key{i}" for i in range(len(keys))]
    frame = pl.DataFrame(dict(zip(columns, keys, strict=True)))
    counted = frame.group_by(columns).agg(pl.len().cast(pl.Int64).alias("users")).sort(columns)
    return _Law(counted["users"].to_numpy(), counted.select(columns))


def _aligned(before: _Law, after: _Law) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Put the counts of two windows side by side, tuple by tuple."""
    if before.keys is None or after.keys is None:
        return before.counts, after.counts
    columns = before.keys.columns
    tables = [
        law.keys.with_columns(pl.Series(name, law.counts))
        for name, law in (("before", before), ("after", after))
        if law.keys is not None
    ]
    joined = tables[0].join(tables[1], on=columns, how="full", coalesce=True).fill_null(0)
    joined = joined.sort(columns)
    return joined["before"].to_numpy(), joined["after"].to_numpy()


def _keys(
    rows: WindowUsers, apis: Mapping[str, ApiCodes], names: tuple[str, ...]
) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Mixed-radix number of each user, several where one would pass 63 bits; how many can occur."""
    keys: list[NDArray[np.int64]] = []
    sizes: list[int] = []
    for api in names:
        codes, size = rows.codes[api], apis[api].size
        if sizes and sizes[-1] * size < 1 << _KEY_BITS:
            keys[-1] = keys[-1] * size + codes
            sizes[-1] *= size
        else:
            keys.append(codes)
            sizes.append(size)
    return keys, sizes


def _compare(
    before: _Read,
    after: _Read,
    apis: Mapping[str, ApiCodes],
    *,
    k: int,
    texts: Callable[[str], Mapping[int, str | None]],
) -> Iterator[_Tested]:
    """Test the law of every API and set, and the rarity of every set."""
    for names in after.laws:
        counts = _aligned(before.laws[names], after.laws[names])
        seen = np.flatnonzero(counts[0] + counts[1])
        counts = counts[0][seen], counts[1][seen]
        outcome = functools.partial(
            _Tested, since=after.span.since, before=before.span.since, apis=names
        )
        seed = seed_of("drift", *names, _digest(*counts))
        test = compare_laws(*counts, seed=seed)
        values: tuple[MovedValue, ...] = ()
        if len(names) == 1:
            # A law of one API stands under the numbers of its values.
            text = functools.partial(_text, api=apis[names[0]], texts=texts, name=names[0])
            values = tuple(_moved_values(seen, counts, test, k=k, text=text))
        yield outcome(compared="values", p_value=test.p_value, moved=test.moved, values=values)
        if names in after.spectra:
            rarity = compare_spectra(*counts, seed=seed)
            yield outcome(compared="rarity", p_value=rarity.p_value, moved=rarity.moved, values=())


def _moved_values(
    codes: NDArray[np.int64],
    counts: tuple[NDArray[np.int64], NDArray[np.int64]],
    test: DriftTest,
    *,
    k: int,
    text: Callable[[int], str | None],
) -> Iterator[MovedValue]:
    """Values with the smallest p-values; what fewer than k users have is not told."""
    p_values = test.cell_p_values
    order = np.argsort(p_values, kind="stable")[:_LISTED_VALUES]
    shares = [window / window.sum() for window in counts]
    for i in order[p_values[order] < 1].tolist():
        told = [bool(window[i] >= k) for window in counts]
        yield MovedValue(
            value=text(int(codes[i])) if all(told) else None,
            before=float(shares[0][i]) if told[0] else None,
            after=float(shares[1][i]) if told[1] else None,
            grew=bool(shares[1][i] > shares[0][i]),
            p_value=float(p_values[i]),
        )


def _text(
    code: int, *, name: str, api: ApiCodes, texts: Callable[[str], Mapping[int, str | None]]
) -> str | None:
    if code == 0:
        return "(absent)"
    return "(a value that the browser randomises)" if code > api.values else texts(name)[code]


def _alarms(tested: Sequence[_Tested], false_alarms: float) -> Iterator[Alarm]:
    """Alarms among all tests, none of them false but with the tolerated probability."""
    adjusted = adjust_p_values([outcome.p_value for outcome in tested])
    order = sorted(range(len(tested)), key=lambda i: (tested[i].since, adjusted[i]))
    for i in order:
        if adjusted[i] > false_alarms:
            continue
        outcome = tested[i]
        # Values are named in the same breath, so they are corrected for all tests as well.
        certain = [
            MovedValue(**asdict(value) | {"p_value": value.p_value * len(tested)})
            for value in outcome.values
            if value.p_value * len(tested) <= false_alarms
        ]
        yield Alarm(
            since=outcome.since,
            before=outcome.before,
            apis=outcome.apis,
            compared=outcome.compared,
            p_value=float(adjusted[i]),
            moved=outcome.moved,
            values=tuple(certain),
        )


def _trend_window(read: _Read, k: int, population: int, delta: float) -> TrendWindow:
    told = read.users >= k
    lines = (
        _trend_line(apis, spectrum, k, population, delta)
        for apis, spectrum in (read.spectra.items() if told else ())
    )
    return TrendWindow(
        since=read.span.since,
        until=read.span.until,
        users=read.users if told else None,
        sets=tuple(lines),
    )


def _trend_line(
    apis: tuple[str, ...], spectrum: CountSpectrum, k: int, population: int, delta: float
) -> TrendLine:
    lower, upper = _limits(apis, spectrum, k, population, delta)
    told = most_exposing(spectrum, k)
    return TrendLine(
        apis=apis,
        values=spectrum.support,
        entropy_bits=entropy_bits(told),
        empirical=empirical_exposure(told, k),
        plug_in=plug_in_exposure(told, k=k, population=population),
        unbiased=unbiased_exposure(told, k=k, population=population),
        lower=lower,
        upper=upper,
    )


def _limits(
    apis: tuple[str, ...], spectrum: CountSpectrum, k: int, population: int, delta: float
) -> tuple[float, float]:
    """Limits by the certificate for at most so many users as the window has.

    A certificate takes a second, so windows of like size share one: it thins to the users rounded
    down to two digits, which costs a twentieth of the width at most.
    """
    limits = _certificate(_two_digits(spectrum.users), k, population, delta)
    question = json.dumps([apis, k, population, delta])
    seed = seed_of("trend", question, _digest(spectrum.counts, spectrum.values))
    thinned = thinned_spectrum(spectrum, mean=limits.mean, most=limits.users, seed=seed)
    return (0.0, 1.0) if thinned is None else (limits.lower(thinned), limits.upper(thinned))


@functools.lru_cache(maxsize=128)
def _certificate(users: int, k: int, population: int, delta: float) -> Certificate:
    return certificate(users=users, k=k, population=population, delta=delta)


def _two_digits(users: int) -> int:
    unit: int = 10 ** max(len(str(users)) - 2, 0)
    return users // unit * unit


def _digest(*arrays: NDArray[np.int64]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()
