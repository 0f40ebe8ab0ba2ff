"""Faults of a log that look like news of users: values cut short, in another form, or all the same.

Users change their values one after another, and to values of the form of others. Where many users
of a window have values of a form that nobody had, or fewer values by far, the log is at fault.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fpmonitor.answers.check import SourceChange
from fpmonitor.answers.panel import WindowUsers, in_both
from fpmonitor.export.exporter import printable

# One of four hosts that sends broken values is enough.
_SHARE = 0.2  # of the users who have a value, with one of another form
_FEWEST = 20  # users of whom a habit can be told
_KNOWN = 200  # users who had come before, of whom those of a day are often few
_MOST = 0.98  # of the users, who have values of k users
_VARIETY = 4  # times as many values before, as entropy counts them
_COMMONEST = 5000  # values of each window that are looked at, and characters of each
_LENGTH = 400
_SURE = 5  # times k users of a source, of whom chance is no half
_FEWER = 0.5  # of the users of a source, beside those of all
# Of two windows, each may say this of the other: it names no loss.
NEW_FORM = "values of a form that nobody had"
# How a status is written in the place of a value, such as `(error)`.
_ERRORS = re.compile(r"\((?!value)\w+\)")
_RUNS = ((re.compile(r"[a-z]+"), "a"), (re.compile(r"[A-Z]+"), "A"), (re.compile(r"[0-9]+"), "0"))


def find_faults(before: WindowUsers, after: WindowUsers, *, k: int) -> dict[str, str]:
    """Find APIs whose values are at fault in a window: API -> what is wrong, in words.

    A fault changes the values of those who had come before, too. Where these are enough, it is
    looked for among them: a wave of bots with values of its own is no fault.

    Args:
        before, after: Users of a window whose log was whole, and of the one in question.
        k: Anonymity threshold: fewer users make no fault.
    """
    found = {}
    fewest, rows = max(k, _FEWEST), in_both(before, after)
    # Of a window of few users the share that makes a fault is enough.
    enough = max(fewest, min(_KNOWN, _SHARE * after.size))
    again = rows if len(rows[0]) >= enough else (slice(None), slice(None))
    for api, codes in after.columns.items():
        had = before.columns[api]
        counts = _counts(had[again[0]]), _counts(codes[again[1]])
        if min(sum(count.values()) for count in counts) < fewest:
            continue
        # What fewer than k users have shows in no fault.
        common = [{c: n for c, n in count.items() if n >= k} for count in counts]
        is_alike = all(map(_are_most, common, counts))
        # Lists of fonts are rare each: of what is left of them nothing can be said.
        words = _less_variety(*common) if is_alike else None
        words = words or _other_form(_counts(had), counts[1], texts=partial(after.texts, api), k=k)
        if words is not None:
            found[api] = words
    return found


def are_enough(before: WindowUsers, after: WindowUsers, *, k: int) -> bool:
    """Whether faults could show in users as of `find_faults`."""
    return min(before.size, after.size) >= max(k, _FEWEST)


def changed_sources(
    had: dict[str, int], has: dict[str, int], *, then: str, k: int
) -> Iterator[tuple[str, SourceChange]]:
    """Yield what became of each source: its users then and now, where they are k or more."""
    both = {*had} & {*has}
    # All sources may halve in a holiday: each is held against what all of them do.
    season = sum(has[name] for name in both) / max(sum(had[name] for name in both), 1)
    for name in sorted({*had, *has}):
        expected, users, shown = had.get(name, 0), has.get(name, 0), printable(name)
        # A source alone would be its own season, and could fall to nothing unseen.
        if len(both) > 1 or name not in both:
            expected = round(min(season or 1.0, 1.0) * expected)
        if not had.get(name):
            yield name, SourceChange("new", f"the source {shown} is new since {then}")
        elif not users and expected >= _SURE * k:
            text = f"the source {shown} has sent fewer than {k} users, and many on {then}"
            yield name, SourceChange("gone", text)
        elif _SURE * k <= expected and users < _FEWER * expected:
            fewer = 100 * (1 - users / expected)
            text = f"the source {shown} sends {fewer:.0f} % fewer users than on {then}"
            yield name, SourceChange("fewer", text)


def _are_most(some: Mapping[int, int], users: Mapping[int, int]) -> bool:
    return sum(some.values()) >= _MOST * sum(users.values())


def _counts(codes: NDArray[np.integer[Any]]) -> dict[int, int]:
    users = np.bincount(codes)  # sorting bytes takes ten times as long
    values = np.flatnonzero(users[1:]) + 1
    return dict(zip(values.tolist(), users[values].tolist(), strict=True))


def _less_variety(before: Mapping[int, int], after: Mapping[int, int]) -> str | None:
    had, has = _variety(before), _variety(after)
    # That nearly all share a value which all have now is no news.
    if len(after) == 1 and max(before.values()) < 0.9 * sum(before.values()):
        return "the same value for all"
    return "far fewer values" if has * _VARIETY <= had else None


def _variety(counts: Mapping[int, int]) -> float:
    """Return how many values of equal share have the entropy of these."""
    shares = np.fromiter(counts.values(), dtype=np.float64)
    shares /= shares.sum()
    # By entropy rather than by number: a hundred rare values may come and go.
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _other_form(
    before: Mapping[int, int],
    after: Mapping[int, int],
    *,
    texts: Callable[[], Mapping[int, str | None]],
    k: int,
) -> str | None:
    users = sum(after.values())
    new = {code: count for code, count in after.items() if code not in before}
    if sum(new.values()) < max(k, _SHARE * users):
        return None
    known_texts = texts()  # of all values ever seen, so only where some are new
    known = [known_texts.get(code) or "" for code in _commonest(before)]
    forms: dict[str, int] = {}
    for code, text in zip(_commonest(before), known, strict=True):
        forms[_form(text)] = forms.get(_form(text), 0) + before[code]
    text_counts = {known_texts.get(code) or "": count for code, count in new.items()}
    # Lists of fonts have each a form of their own: so many new forms are usual (Good 1953).
    usual = sum(count for count in forms.values() if count == 1) / sum(before.values())
    least = max(k, (_SHARE + usual) * users)
    ordered = sorted(text_counts.items(), key=lambda one: -one[1])[:_COMMONEST]
    # No text: a value that the browser randomises, or an empty one, which has no form.
    ordered = [(text, count) for text, count in ordered if text]
    errors = sum(count for text, count in ordered if _ERRORS.fullmatch(text))
    if errors >= least:
        return "errors in place of values"
    sorted_texts = sorted(known)
    if sum(count for text, count in ordered if _is_cut(text, sorted_texts)) >= least:
        return "values that are cut short"
    if sum(count for text, count in ordered if _form(text) not in forms) >= least:
        return NEW_FORM
    return None


def _commonest(counts: Mapping[int, int]) -> list[int]:
    return sorted(counts, key=lambda code: -counts[code])[:_COMMONEST]


def _is_cut(text: str, known: list[str]) -> bool:
    """Whether a text is the beginning of a longer one, which is more than a number or a word."""
    # The texts that a beginning begins follow it in order, so one comparison is enough.
    at = bisect.bisect_left(known, text)
    return len(text) >= 3 and at < len(known) and known[at].startswith(text) and known[at] != text


def _form(text: str) -> str:
    """Return a text with each run of letters or digits as one."""
    # Values of strangers may have megabytes, and 5,000 of each window are looked at.
    text = text[:_LENGTH]
    for run, letter in _RUNS:
        text = run.sub(letter, text)
    return text
