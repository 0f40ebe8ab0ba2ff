"""The question: whom a user must be able to hide among, in how large a population, and how sure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Self, get_args

import msgspec

from fpmonitor.errors import PolicyError
from fpmonitor.policy import PLAIN_DRAWS, SampleModel, Strata, Visits, check_share, check_threshold
from fpmonitor.safe_files import read_toml, toml_string, typed

Missing = Literal["value", "drop", "exposed"]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the users, whatever the API set.

    Attributes:
        k: Anonymity threshold, users: a user is exposed in a group of fewer than `k`.
        population: `n`, users that sites will see; None stands for the number of observed users.
        delta: Tolerated probability that a limit fails, in (0, 1).
        missing: `value`: an absent observation is a value like others; `drop`: only users with an
            observation of every API that is asked for; `exposed`: who lacks a value of a set shares
            it with nobody. Then, too, a larger set only splits groups.
        sample: How the observed users may differ from the population.
        counted: Whether the observed ones are counted themselves, and represent no others: then
            they may be rows of a log of which nobody says that they are users.
        given: What sites see with every set, as `Population.with_kinds` takes it.
        visits: What counts as a value of a user.
        after: Days after which users who come back are looked at, too.

    Raises:
        PolicyError: A number is out of its range, or `missing` is none of its words.
    """

    k: int
    population: int | None = None
    delta: float = 0.05
    missing: Missing = "value"
    sample: SampleModel = PLAIN_DRAWS
    counted: bool = False
    given: tuple[str, ...] = ()
    visits: Visits = "last"
    after: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_share("delta", self.delta)
        if self.missing == "drop" and self.sample.fake_share:
            raise PolicyError(
                "missing",
                "drop leaves another share of those who are not users",
                hint="use exposed",
            )
        if self.missing not in get_args(Missing):
            raise PolicyError(
                "missing",
                f"must be one of {', '.join(get_args(Missing))}, got {self.missing!r}",
            )
        # What is read of a frame is of numpy, which neither JSON nor the database takes.
        for name in ("k", "population", "delta"):
            object.__setattr__(self, name, own_number(getattr(self, name)))
        # A population that nobody named is as large as the users, who are not counted yet.
        check_threshold(self.k, max(self.k, 2) if self.population is None else self.population)

    def among(self, users: int) -> Self:
        """Return the same question, of a population as large as `users` where none is named."""
        return self if self.population is not None else replace(self, population=users)

    @property
    def users(self) -> int:
        """`n` of a question that names it, as `among` makes sure."""
        if self.population is None:
            raise PolicyError("population", "is not known yet")
        return self.population


class SharesFile(msgspec.Struct, forbid_unknown_fields=True):
    """Shares of strata as they are written down: docs/strata.md."""

    by: str
    shares: dict[str, float | tuple[float, float]]
    left_out: tuple[str, ...] = ()


def read_strata(path: Path) -> Strata:
    """Read known shares of strata from a TOML file: docs/strata.md."""
    hint = 'by = "country", and below [shares] a line for each, such as FR = 0.2 or [0.18, 0.22]'
    content = typed(read_toml(path, "shares", hint=hint), SharesFile, f"shares: {path}", hint=hint)
    return Strata(by=content.by, shares=content.shares, left_out=content.left_out)


def strata_file(strata: Strata, about: str) -> str:
    """Write known shares of strata as `read_strata` reads them, below a line about them."""
    lines = [f"{toml_string(name)} = {_share_text(share)}" for name, share in strata.shares.items()]
    return "\n".join([f"# {about}", f"by = {toml_string(strata.by)}", "", "[shares]", *lines, ""])


def _share_text(share: float | tuple[float, float]) -> str:
    if isinstance(share, tuple):
        return f"[{', '.join(map(_share_text, share))}]"
    return str(round(share, 9))


def threshold_of(k: float, population: int | None) -> int:
    """Return a threshold as a number of users: below 1 it is a share of the population, rounded up.

    Raises:
        PolicyError: A share of a population that is not named, or neither a share nor whole.
    """
    if k % 1 and not 0 < k < 1:  # what is left of NaN and of infinity is NaN
        raise PolicyError("k", f"must be a whole number or a share below 1, got {k}")
    if not 0 < k < 1:
        return int(k)
    if population is None:
        raise PolicyError("k", "a share of which population?", hint="name it with --population")
    return math.ceil(Fraction(repr(k)) * population)  # 0.1 of 30 are 3, not 4


def own_number(value: Any) -> Any:
    """Return a number of numpy as Python's own, as files and databases take it; all else as it is.

    What is no number stays, for a check to refuse.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)
