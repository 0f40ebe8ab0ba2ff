"""What a decision file may hold: types and ranges of its members, checked before any is used."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from fpmonitor.errors import InputError
from fpmonitor.question import Missing  # noqa: TC001 -- msgspec reads it

# not-a-number is within no limits
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Sets = list[list[str]]


class _Policy(msgspec.Struct):
    k: int
    population: int
    budget: float
    delta: float | None
    candidates: list[str]
    realised: bool = False


class _Data(msgspec.Struct):
    users: _Count
    digest: str


class _View(msgspec.Struct):
    source: str | None
    volatile: str
    drop_automation: bool
    transforms: dict[str, dict[str, bool | int | str]]


class DecisionFile(msgspec.Struct):
    """Members of a decision file, as `Decision.to_json` gives them; others are passed over."""

    policy: _Policy
    setting: Literal["population", "sample"]
    missing: Missing
    data: _Data
    guarantee: str
    allow: _Sets
    block: _Sets
    undecided: _Sets
    recommended: list[str]
    complete: bool
    evaluated: _Count
    seconds: _Amount
    users_needed: list[_Count | None] | None = None
    view: _View | None = None
    utility: _Amount | None = None
    utility_bound: _Amount | None = None
    engine: str | None = None
    coverage: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1)] | None] | None = None

    def __post_init__(self) -> None:
        sets = [*self.allow, *self.block, *self.undecided, self.recommended]
        strangers = sorted(set().union(*sets) - set(self.policy.candidates))
        if strangers:
            raise ValueError(f"{strangers[0]!r} is not a candidate")
        if self.users_needed is not None and len(self.users_needed) != len(self.undecided):
            raise ValueError("`users_needed` is not as long as `undecided`")


def check_decision(content: Any) -> DecisionFile:
    """Check the parsed content of a decision file.

    Raises
    ------
    InputError
        A member is missing, of the wrong kind or out of its range.
    """
    try:
        return msgspec.convert(content, DecisionFile)
    except msgspec.ValidationError as error:
        raise InputError(f"not a decision: {error}") from error
