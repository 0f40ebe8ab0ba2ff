"""The trend: exposure of API sets per window, and the drift between windows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from fpmonitor.answers.ledger import read_users
from fpmonitor.answers.panel import (
    Compared,
    MovedValue,
    PanelFinding,
    WindowUsers,
    certain,
    compare,
    distribution,
)
from fpmonitor.answers.sets import sorted_sets
from fpmonitor.disclosure import Audience, disclosed_spectra
from fpmonitor.errors import InputError, StoreError, UndecidableError
from fpmonitor.estimate.drift import adjust_p_values
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure, plug_in_exposure, unbiased_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.policy import check_share
from fpmonitor.population.volatile import Versions
from fpmonitor.population.windows import Windows
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.safe_files import untyped
from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra
from fpmonitor.store.kept_windows import KeptWindow
from fpmonitor.store.windows import PARTS, Division, Span
from fpmonitor.unit import Unit, check_limits, told_unit, weakest
from fpmonitor.version import __version__

Against = Literal["previous", "first"]
# Goes up with each change of what is found in a window, so that nothing of before is taken over.
_EDITION = 4
_HELD = 8  # windows in memory: one to be compared with of each weekday, and the one that is read


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendLine:
    """One API set in one window.

    Attributes:
        apis: The set.
        values: Combinations of values seen.
        entropy_bits: Shannon entropy of the observed users.
        empirical: Share of the observed users in groups smaller than k; others are told that of k -
            1 users, in all numbers, where they are fewer.
        plug_in, unbiased: Estimates of the statistical exposure; `unbiased` is null where the
            population is larger than the window.
        lower, upper: Limits of the statistical exposure, each holding for this window and set
            alone.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAlarm:
    """A change between two windows that users who keep their values hardly bring about.

    Attributes:
        window, against: Names of the window, and of the one it is compared with.
        since, before: Beginnings of both; null where they are open.
        apis: What changed.
        compared: `changed`: users who came in both windows have other values; `values`: those who
            came in the later one alone are others than those who came in the earlier one alone;
            `rarity`: their values are rarer, or commoner.
        p_value: Adjusted for the number of all tests.
        moved: Estimated share of the users of the later window with it; of those in both where they
            changed.
        values: Of one API the values that changed for sure, the surest first.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendReport(Result):
    """Exposure over time.

    Attributes:
        division: Length of the windows, or `batch` or `source`.
        k, population, delta: The question, the same in all windows.
        windows: In the order of time.
        against: The window that each is compared with.
        false_alarms: Tolerated probability of any alarm, while users keep their values and those of
            each kind come as often as in the windows that are compared.
        tests: Number of tests that share it.
        alarms: In the order of time, the surest first.
        masked: APIs whose volatile values the view masks in a window.
        unit: What was counted: see `fpmonitor.unit`.
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
        windows = untyped(self.windows)
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
            "windows": untyped(self.windows),
            "drift": {
                "against": self.against,
                "false_alarms": self.false_alarms,
                "tests": self.tests,
                "alarms": untyped(self.alarms),
            },
        } | told_unit(self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What is kept of a window.

    Attributes:
        users: How many.
        spectra: Count spectrum of each set, in their order: counts and values as bytes of int64;
            empty where there are no users.
        contradicted: As of `Windows.contradicted`; null where that makes no difference.
        tested: The comparison with the window `KeptWindow.against`.
    """

    users: int
    spectra: tuple[tuple[bytes, bytes], ...] = ()
    masked: tuple[str, ...] = ()
    contradicted: tuple[tuple[str, Versions], ...] | None = None
    tested: tuple[PanelFinding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Place:
    """A window in the trend, and the one that it is compared with; whether it `is_new` or kept."""

    span: Span
    name: str
    found: _Found
    against: _Place | None
    is_new: bool


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

    Args:
        windows: The windows; one after the other is read.
        question: What is asked; the population is the median window's number of users by default.
        sets: The API sets; every API that may be named alone where there is none.
        against, false_alarms: See `TrendReport`.
        progress: Called with what is being done.

    Raises:
        InputError: `against` is none of its words.
        UndecidableError: No window has k users.
    """
    check_share("false_alarms", false_alarms)
    if against not in get_args(Against):
        raise InputError(f"against: must be one of {', '.join(get_args(Against))}")
    check_limits(windows.units, rows_are_users=question.counted or question.sample.rows_are_users)
    k = question.k
    wanted = sorted_sets(map(windows.named, sets or [(api,) for api in windows.nameable_apis(k)]))
    places = _places(windows, k, wanted, against=against, progress=progress)
    sizes = [place.found.users for place in places if place.found.users >= k]
    if not sizes:
        raise UndecidableError(f"no {windows.division} has {k} users", hint="take longer windows")
    # One population for all windows, or their exposures could not be compared.
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
    question_parts = (__version__, _EDITION, k, against, sets)
    read = functools.lru_cache(_HELD)(functools.partial(read_users, windows, apis=apis, k=k))
    places: list[_Place] = []
    fresh: list[KeptWindow] = []
    references: dict[int, _Place] = {}
    for kept_window in windows.kept(question_parts):
        span = kept_window.span
        progress(span.name)
        earlier = references.get(lane := _lane(span, windows.division))
        before = None if earlier is None else earlier.span.window.since
        found = _unpacked(kept_window, windows, apis)
        # The comparison is made anew where the window before is another, or says something else
        # now.
        is_moved = kept_window.against != before or (earlier is not None and earlier.is_new)
        is_new = found is None or (found.users >= k and is_moved)
        if found is None or is_new:
            found = _found_in(read(span), sets)
            if earlier is not None and found.users >= k:
                pair = read(earlier.span), read(span)
                tables = list(dict.fromkeys([*sets, *((api,) for api in pair[1].columns)]))
                tested = compare(*pair, tables, rarity_of=sets, k=k, audience=windows.audience)
                found = replace(found, tested=tuple(tested))
            content = msgspec.msgpack.encode(found)
            fresh.append(KeptWindow(span=span, against=before, content=content))
        # Before it has a number: others would see that one is missing.
        if windows.audience is Audience.OTHERS and found.users < k:
            continue  # nor that there was anybody
        is_named = windows.audience is Audience.OWNER or windows.division not in PARTS
        name = span.name if is_named else f"{windows.division} {len(places) + 1}"
        place = _Place(span=span, name=name, found=found, against=earlier, is_new=is_new)
        places.append(place)
        # A window of few users is compared with nothing, and nothing with it.
        if found.users >= k and (earlier is None or against == "previous"):
            references[lane] = place
    windows.keep(question_parts, fresh)
    return places


def _lane(span: Span, division: Division) -> int:
    """Which windows are like a window: days of one weekday, and all others."""
    since = span.window.since
    return since.weekday() if division == "day" and since is not None else 0


def _unpacked(kept_window: KeptWindow, windows: Windows, apis: Sequence[str]) -> _Found | None:
    """Return what is kept of a window; null where it has to be read."""
    if kept_window.content is None:
        return None
    try:
        found = msgspec.msgpack.decode(kept_window.content, type=_Found)
    except msgspec.MsgspecError as error:
        raise _tampered() from error
    # What shows a value to be noise may have come with later visits: then the window is read again.
    known = found.contradicted
    return found if known is None or known == windows.contradicted(apis) else None


def _found_in(users: WindowUsers, sets: Sequence[tuple[str, ...]]) -> _Found:
    return _Found(
        users=users.size,
        spectra=tuple(
            _bytes_of(
                CountSpectrum.from_counts(
                    distribution([users.columns[api] for api in names]).weights
                )
            )
            for names in (sets if users.size else ())
        ),
        masked=users.masked,
        contradicted=users.contradicted,
    )


def _bytes_of(spectrum: CountSpectrum) -> tuple[bytes, bytes]:
    return spectrum.counts.astype("<i8").tobytes(), spectrum.values.astype("<i8").tobytes()


def _spectrum_of(packed_spectrum: tuple[bytes, bytes]) -> CountSpectrum:
    try:
        counts, values = (np.frombuffer(part, dtype="<i8") for part in packed_spectrum)
        return CountSpectrum(counts, values)
    except (ValueError, InputError) as error:
        raise _tampered() from error


def _tampered() -> StoreError:
    return StoreError("a kept window was tampered with", hint="restore a backup")


def _alarms(
    places: Sequence[_Place], false_alarms: float, audience: Audience
) -> Iterator[ChangeAlarm]:
    """Alarms among all tests, none of them false but with the tolerated probability."""
    tested = [
        (number, place, place.against, outcome)
        for number, place in enumerate(places)
        if place.against is not None
        for outcome in place.found.tested
    ]
    adjusted = adjust_p_values([outcome.p_value for *_, outcome in tested])
    order = sorted(range(len(tested)), key=lambda i: (tested[i][0], adjusted[i]))
    for i in order:
        if adjusted[i] > false_alarms:
            continue
        _, place, before, outcome = tested[i]
        yield ChangeAlarm(
            window=place.name,
            against=before.name,
            since=place.span.window.since,
            before=before.span.window.since,
            apis=outcome.apis,
            compared=outcome.compared,
            p_value=float(adjusted[i]),
            moved=outcome.moved,
            values=tuple(certain(outcome.values, len(tested), false_alarms, audience)),
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
            disclosed_spectra(_spectrum_of(packed_spectrum), question.k, audience),
            question,
            growing=apis in growing,
        )
        for apis, packed_spectrum in (
            zip(sets, place.found.spectra, strict=True) if is_told else ()
        )
    )
    return TrendWindow(
        name=place.name,
        since=place.span.window.since,
        until=place.span.window.until,
        users=place.found.users if is_told else None,
        sets=tuple(lines),
    )


def _trend_line(
    apis: tuple[str, ...], spectra: DisclosedSpectra, question: Question, *, growing: bool
) -> TrendLine:
    k, population = question.k, question.users
    certificate = exposure_limits(
        users=spectra.most.users,
        k=k,
        population=population,
        delta=question.delta,
        growing=growing,
    )
    lower, upper = certificate.of(spectra.least, len(apis), hidden=spectra.hidden)
    return TrendLine(
        apis=apis,
        values=spectra.most.support,
        entropy_bits=entropy_bits(spectra.most),
        empirical=empirical_exposure(spectra.most, k),
        plug_in=plug_in_exposure(spectra.most, k=k, population=population),
        unbiased=unbiased_exposure(spectra.most, k=k, population=population),
        lower=lower,
        upper=upper,
    )
