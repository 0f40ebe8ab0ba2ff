"""Users of two windows as a panel: who came in one of them alone, and who came in both.

Users come with any frequency, and who comes often is in nearly every window. So windows are never
compared as if each were drawn anew. Who came in one of them alone tells whether others come now;
who came in both tells whether values were changed. docs/certificate/windows.md has the theorem.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from fpmonitor.disclosure import Audience
from fpmonitor.estimate.drift import DriftTest, compare_changes, compare_laws, compare_spectra
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.policy import disclosed_from
from fpmonitor.population.memory import CodeTable, is_dense, rank_keys, smallest_type
from fpmonitor.population.sample import digest_of_arrays
from fpmonitor.store.digests import DIGEST, LONG
from fpmonitor.store.snapshot import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.population.volatile import Versions

Compared = Literal["changed", "values", "rarity"]
_OF_OTHERS: tuple[Compared, ...] = ("values", "rarity")
NOT_LOGGED = "(absent)"
_LISTED_VALUES = 25  # that grew, and as many that shrank: a release has a text for each system
# Of the users, who have a new value that is named: of renderers and lists of fonts a few new ones
# come each week.
_NAMED_SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedValue:
    """A value whose share changed.

    Attributes:
        value: Its text, `(absent)` for users without the API; null where fewer than k users of the
            later window have it.
        before, after: Share of the users of each window; null where fewer than k users have it.
        grew: Whether it is more frequent than before.
        p_value: Adjusted for all values and tests of the trend; others are not told it where a
            share is null, which would follow from it.
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
class PanelFinding:
    """A test of one table between two windows, and the values that count most.

    Attributes:
        gone: Whether of all users fewer than k have now a value that k others had.
        lost: Which these are, where they may be named, those of most users first.
        came: Values that many users have and that of all users before fewer than k had, as `lost`.
    """

    apis: tuple[str, ...]
    compared: Compared
    p_value: float = 1.0
    moved: float = 0.0
    values: tuple[MovedValue, ...] = ()
    gone: bool = False
    lost: tuple[NamedValue, ...] = ()
    came: tuple[NamedValue, ...] = ()


class NamedValue(NamedTuple):
    """A value that k users had or have, by its text, and how surely its share is another one."""

    value: str
    p_value: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WindowUsers:
    """Users of a window.

    Attributes:
        people: int64, their numbers, the same in every window; null where nobody is known again.
        columns: API -> code of each.
        texts: Reads what the codes of an API stand for.
        masked: APIs whose volatile values the view masks.
        contradicted: As of `Windows.contradicted`; null where that makes no difference.
    """

    people: NDArray[np.int64] | None
    columns: Mapping[str, NDArray[np.integer[Any]]]
    texts: Callable[[str], Mapping[int, str | None]]
    masked: tuple[str, ...] = ()
    contradicted: tuple[tuple[str, Versions], ...] | None = None

    @property
    def size(self) -> int:
        """How many they are."""
        return len(next(iter(self.columns.values()), ()))


def compare(
    before: WindowUsers,
    after: WindowUsers,
    tables: Sequence[tuple[str, ...]],
    *,
    rarity_of: Collection[tuple[str, ...]],
    k: int,
    audience: Audience,
) -> Iterator[PanelFinding]:
    """Test some sets of APIs, the rarity of some of them, and the changes of every single API.

    `moved` is a share of all users, and of those in both windows for changes.
    """
    both = in_both(before, after)
    alone = [_others(window, known) for window, known in zip((before, after), both, strict=True)]
    # Tested or not, it counts among the tests: their number must not follow from who came.
    is_told = min(map(len, alone)) >= (2 if audience is Audience.OWNER else k)
    for names in tables:
        if is_told:
            yield from _compare_others(
                (before, after), alone, names, k=k, audience=audience, rarity=names in rarity_of
            )
        else:
            yield PanelFinding(apis=names, compared="values")
            if names in rarity_of:
                yield PanelFinding(apis=names, compared="rarity")
        if len(names) == 1:
            # Of single APIs alone: a set changes whenever one of its APIs does.
            yield _compare_both((before, after), both, names, k=k, audience=audience)


def in_both(before: WindowUsers, after: WindowUsers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows of the users who came in both windows, in the same order."""
    nobody = np.zeros(0, dtype=np.intp)
    if before.people is None or after.people is None or not (before.size and after.size):
        return nobody, nobody
    first = int(before.people.min())
    size = int(before.people.max()) - first + 1
    # Users of a window have numbers close to each other; else the table would be mostly empty.
    if size > 64 * len(before.people):
        _, earlier, later = np.intersect1d(
            before.people, after.people, assume_unique=True, return_indices=True
        )
        return earlier, later
    row_of = np.full(size, -1, dtype=np.intp)  # many times cheaper than to sort
    row_of[before.people - first] = np.arange(len(before.people))
    places = after.people - first
    later = np.flatnonzero((places >= 0) & (places < size))
    earlier = row_of[places[later]]
    return earlier[earlier >= 0], later[earlier >= 0]


def _others(window: WindowUsers, known: NDArray[np.intp]) -> NDArray[np.intp]:
    alone = np.ones(window.size, dtype=np.bool_)
    alone[known] = False
    return np.flatnonzero(alone)


def _compare_others(
    windows: tuple[WindowUsers, WindowUsers],
    alone: Sequence[NDArray[np.intp]],
    names: tuple[str, ...],
    *,
    k: int,
    audience: Audience,
    rarity: bool,
) -> Iterator[PanelFinding]:
    """Test whether those who came in the later window alone are others than in the earlier.

    A season may also halve how often everybody comes, so that those who come often are missing on
    fewer days. The shares of the values among all who came then stay the same, and nothing is said.
    """
    drawn = functools.partial(_drawn, windows, names=names, k=k, audience=audience)
    tuples, counts, how = drawn(rows=alone)
    law = compare_laws(*counts, **how)
    # The larger p-value of both counts: a season alone passes one of them (certificate/panel.md).
    laws, rarities = [law], [compare_spectra(*counts, **how)] if rarity else []
    if any(len(rows) < window.size for rows, window in zip(alone, windows, strict=True)):
        _, everybody, how = drawn(rows=[slice(None), slice(None)])
        laws.append(compare_laws(*everybody, **how))
        rarities += [compare_spectra(*everybody, **how)] if rarity else []
    values: tuple[MovedValue, ...] = ()
    gone: list[int] = []
    lost: tuple[NamedValue, ...] = ()
    came: tuple[NamedValue, ...] = ()
    if len(names) == 1:
        text = functools.partial(_text, texts=windows[1].texts, name=names[0])
        [codes] = tuples.columns
        listed = dict(_moved_values(codes, counts, law, k=k, text=text))
        values = tuple(listed.values())
        now = windows[1].columns[names[0]]  # of all: who came in both windows may have it still
        gone = [
            code
            for code, one in listed.items()
            if code != ABSENT  # where an API is rolled out
            and one.before
            and one.after is None
            and not one.grew
            and np.count_nonzero(now == code) < k
        ]
        had = dict(zip(codes.tolist(), counts[0].tolist(), strict=True))
        texts = functools.partial(windows[1].texts, names[0])
        lost = tuple(_named_values(gone, listed, had, texts=texts, k=k))
        came = tuple(_came(windows, names[0], listed, k=k))
    for compared, tests in zip(_OF_OTHERS, (laws, rarities), strict=True):
        if tests:
            yield PanelFinding(
                apis=names,
                compared=compared,
                p_value=max(test.p_value for test in tests),
                moved=tests[-1].moved,
                values=values if compared == "values" else (),
                gone=bool(gone) and compared == "values",
                lost=lost if compared == "values" else (),
                came=came if compared == "values" else (),
            )


def _named_values(
    codes: Iterable[int],
    listed: Mapping[int, MovedValue],
    users: Mapping[int, int],
    *,
    texts: Callable[[], Mapping[int, str | None]],
    k: int,
) -> Iterator[NamedValue]:
    """Yield values by their texts, of `users` each, who were or are k; how few they were is not.

    A digest, also of a long value, or what stands in the place of a value, names nobody.
    """
    for code in sorted(codes, key=lambda code: -users[code]):
        text = texts().get(code)
        if text and users[code] >= disclosed_from(k) and not text.startswith(("(", DIGEST, LONG)):
            yield NamedValue(text, listed[code].p_value or 0.0)


def _came(
    windows: tuple[WindowUsers, WindowUsers], api: str, listed: Mapping[int, MovedValue], *, k: int
) -> Iterator[NamedValue]:
    """Yield the new values among those that moved, by all users of both windows.

    Who came in one of them alone may lack a value that regulars have always had.
    """
    before, now = (window.columns[api] for window in windows)
    # Of the users who are compared first, as to count all of them takes a millisecond a value.
    grew = [code for code, one in listed.items() if one.grew and one.after and one.before is None]
    users = {code: int(np.count_nonzero(now == code)) for code in grew if code != ABSENT}
    least = max(k, _NAMED_SHARE * len(now))
    new = [c for c, n in users.items() if n >= least and np.count_nonzero(before == c) < k]
    texts = functools.partial(windows[1].texts, api)
    return _named_values(new, listed, users, texts=texts, k=k)


def _drawn(
    windows: tuple[WindowUsers, WindowUsers],
    *,
    rows: Sequence[NDArray[np.intp] | slice],
    names: tuple[str, ...],
    k: int,
    audience: Audience,
) -> tuple[CodeTable, NDArray[np.int64], Mapping[str, Any]]:
    """Put windows side by side: tuples, the users of each, and what else tests are told of them."""
    (before, few_before), (after, few_after) = (
        _without_hidden(distribution([window.columns[api][at] for api in names]), k, audience)
        for window, at in zip(windows, rows, strict=True)
    )
    tuples, counts = _aligned(before, after)
    # From the counts, so that the same windows give the same p-values at each look.
    seed = seed_of("drift", *names, digest_of_arrays(counts))
    return tuples, counts, {"seed": seed, "hidden": (few_before, few_after)}


def _compare_both(
    windows: tuple[WindowUsers, WindowUsers],
    both: tuple[NDArray[np.intp], NDArray[np.intp]],
    names: tuple[str, ...],
    *,
    k: int,
    audience: Audience,
) -> PanelFinding:
    """Test whether those who came in both windows changed their values of an API."""
    [api] = names
    pair = [window.columns[api][rows] for window, rows in zip(windows, both, strict=True)]
    least = k if audience is Audience.OTHERS else 1
    if len(pair[0]) < least:
        return PanelFinding(apis=names, compared="changed")
    # An exact sign test per value: who keeps a value is in none.
    test = compare_changes(*pair, least=least)
    codes, counts = _counted(*pair)
    text = functools.partial(_text, texts=windows[1].texts, name=api)
    listed = dict(_moved_values(codes, counts, test, k=k, text=text))
    return PanelFinding(
        apis=names,
        compared="changed",
        p_value=test.p_value,
        moved=test.moved,
        values=tuple(listed.values()),
        came=tuple(_came(windows, api, listed, k=k)),
    )


def certain(
    values: Sequence[MovedValue], tests: int, false_alarms: float, audience: Audience
) -> Iterator[MovedValue]:
    """Name values in the same breath as tests: so they are corrected for all of these as well."""
    for value in values:
        # Bonferroni's correction, by the number of tests whose adjusted p-values stand beside it.
        p_value = (value.p_value or 0.0) * tests
        if p_value <= false_alarms:
            tells_of_few = audience is Audience.OTHERS and None in (value.before, value.after)
            yield replace(value, p_value=None if tells_of_few else p_value)


def distribution(columns: Sequence[NDArray[np.integer[Any]]]) -> CodeTable:
    """Count the users of each tuple of codes."""
    cardinalities = tuple(int(column.max()) + 1 for column in columns)
    if len(columns) == 1:  # needs no keys
        codes, [users] = _counted(*columns)
        return CodeTable((codes.astype(smallest_type(*cardinalities)),), cardinalities, users)
    weights = np.ones(len(columns[0]), dtype=np.int64)
    return CodeTable(tuple(columns), cardinalities, weights).merged(range(len(columns)))


def _counted(
    *columns: NDArray[np.integer[Any]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the codes of some columns, increasing, and the users of each in every column."""
    size = 1 + max(int(column.max(initial=0)) for column in columns)
    ranks, codes = columns, np.arange(size)
    if not is_dense(size, sum(map(len, columns))):
        codes, joint = np.unique(np.concatenate(columns), return_inverse=True)
        ranks = tuple(np.split(joint, np.cumsum([*map(len, columns)])[:-1]))
    counts = np.stack([np.bincount(each, minlength=len(codes)) for each in ranks])
    present = np.flatnonzero(counts.any(axis=0))
    return codes[present].astype(np.int64), counts[:, present]


def _without_hidden(table: CodeTable, k: int, audience: Audience) -> tuple[CodeTable, int]:
    """Let fewer than k users with rare tuples join the most frequent one, for others.

    They are told the same of 0, 1, ... or k - 1 such users. Also return how many users of the most
    frequent tuple may have others, at most, that are not among these.
    """
    rare = table.weights < k
    hidden = int(table.weights[rare].sum())
    if audience is Audience.OWNER or hidden >= k or rare.all():
        return table, 0
    weights = table.weights.copy()
    weights[np.argmax(weights)] += hidden
    columns = tuple(column[~rare] for column in table.columns)
    # k - 1 whatever their number is, so that tests allow for the most there may be.
    return CodeTable(columns, table.cardinalities, weights[~rare]), k - 1


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


def _moved_values(
    codes: NDArray[np.integer[Any]],
    counts: NDArray[np.int64],
    test: DriftTest,
    *,
    k: int,
    text: Callable[[int], str | None],
) -> Iterator[tuple[int, MovedValue]]:
    """Codes and values with the smallest p-values; what fewer than k have now is not told."""
    p_values = test.cell_p_values
    shares = [window / window.sum() for window in counts]
    # Stable, so that equal values come in the order of their codes at each look.
    order = np.argsort(p_values, kind="stable")
    grew = (shares[1] > shares[0])[order]
    # The n-th of its direction: a release with many texts must not push the values that shrank out.
    order = order[np.where(grew, grew.cumsum(), (~grew).cumsum()) <= _LISTED_VALUES]
    for i in order[p_values[order] < 1].tolist():
        has_k_users = [bool(window[i] >= k) for window in counts]
        yield (
            int(codes[i]),
            MovedValue(
                value=text(int(codes[i])) if has_k_users[1] or codes[i] == ABSENT else None,
                before=float(shares[0][i]) if has_k_users[0] else None,
                after=float(shares[1][i]) if has_k_users[1] else None,
                grew=bool(shares[1][i] > shares[0][i]),
                p_value=float(p_values[i]),
            ),
        )


def _text(code: int, *, name: str, texts: Callable[[str], Mapping[int, str | None]]) -> str | None:
    if code == ABSENT:
        return NOT_LOGGED
    return texts(name).get(code, "(a value that the browser randomises)")
