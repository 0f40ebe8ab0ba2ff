"""The errors of fpmonitor: what went wrong, where, and how to fix it.

FpmonitorError
├── InputError        a file, a record or an option cannot be used     exit code 2
│   ├── PolicyError   a number of the policy is out of its range
│   └── UnknownNameError  an API, collector or exporter that nobody knows
├── StoreError        the database cannot be opened, read or written   exit code 2
│   ├── SchemaError       a table or column of the database is missing
│   ├── BusyError         another process holds the database
│   └── EngineLostError   another engine does not answer any more
├── RefusedError      a reader has had too many exact counts answered   exit code 1
├── UndecidableError  the data cannot decide the question              exit code 3
└── StoppedError      an interrupt ended what leaves nothing behind     exit code 130

Anything outside this tree is a bug of fpmonitor and shows its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

# Files that are refused may hold names of any length and number.
_MOST_CHARACTERS = 2_000


class FpmonitorError(Exception):
    """Base class of user-fixable errors.

    Args:
        message: What is wrong and where, one line, without raw values of users; a long one is cut.
        hint: What to do about it, or the empty string.
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        if len(message) > _MOST_CHARACTERS:
            message = f"{message[:_MOST_CHARACTERS]} ..."
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


def install(extra: str) -> str:
    """Say how the packages of an extra are installed: no index has the name fpmonitor yet."""
    return f"in a checkout of fpmonitor: pip install '.[{extra}]'"


class InputError(FpmonitorError, ValueError):
    """A file, record, option or argument cannot be used."""


class UnitError(InputError):
    """A promise to users was asked for, of rows that may be none."""


class PolicyError(InputError):
    """A number of the question is out of its range; `argument` names it."""

    def __init__(self, argument: str, message: str, *, hint: str = "") -> None:
        super().__init__(f"{argument}: {message}", hint=hint)
        self.argument = argument


class UnknownNameError(InputError):
    """A name that is not among the known ones; the message lists the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        # Also by its last part: people leave out the interface, as in `width` for `Screen.width`.
        members = {other.rpartition(".")[2].casefold(): other for other in known}
        spelled = members | {other.casefold(): other for other in known}
        close = difflib.get_close_matches(name.casefold(), spelled, n=3, cutoff=0.5)
        nearest = list(dict.fromkeys(spelled[key] for key in close))
        hint = (
            f"nearest: {', '.join(nearest)}"
            if nearest
            else f"known: {', '.join(known[:12])}{' ...' if len(known) > 12 else ''}"
        )
        super().__init__(f"unknown {kind} {name!r}", hint=hint if known else "")
        self.name = name
        self.nearest = nearest


class StoreError(FpmonitorError):
    """The database cannot be opened, read or written."""


class SchemaError(StoreError):
    """A database lacks a table or column that a statement names."""


class BusyError(StoreError):
    """Another process holds the database; `holder` names it as far as it is known."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(
            f"{path} is in use by {holder}",
            hint="wait until it has finished, longer with `fpmonitor --wait SECONDS ...`, "
            "or name another database with --db",
        )
        self.holder = holder


class EngineLostError(StoreError):
    """The engine that holds the users does not answer, or not any more."""


class RefusedError(FpmonitorError):
    """An answer that would go beyond what a reader may learn."""

    exit_code = 1


class UndecidableError(FpmonitorError):
    """The data cannot decide the question that was asked."""

    exit_code = 3


class StoppedError(FpmonitorError):
    """An interrupt ended what leaves nothing behind; the interrupt itself is its cause."""

    exit_code = 130


def reason_of(error: Exception) -> str:
    """Return the first line of the message of a library; those below show data, or its internals.

    Where there is none, the name of the error.
    """
    return " ".join(str(error).split("\n", 1)[0].split()) or type(error).__name__


def excerpt(text: str) -> str:
    """Return the beginning of a record, on one line."""
    return shortened(" ".join(text.split()), 80)


def shortened(text: str, most: int) -> str:
    """Return a text of so many letters at most, by what it begins with."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def some_of(names: Sequence[str], most: int, *, between: str = ", ", last: str = " and") -> str:
    """Name the first few, and say how many more there are."""
    more = len(names) - most
    return between.join(names[:most]) + (f"{last} {more:,} more" if more > 0 else "")


def describe_names(names: Sequence[Any]) -> str:
    """List names for a message, the first dozen."""
    shown = ", ".join(str(name) for name in names[:12])
    return shown + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
