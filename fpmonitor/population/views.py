"""Views of users: volatile values masked, automation left out, values made coarser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from fpmonitor.errors import InputError
from fpmonitor.store.transforms import Transform

Volatile = Literal["shared", "left-out", "raw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a snapshot is looked at.

    Attributes:
        volatile: A volatile value counts as one token that all users of the browser family share;
            or the API is left out of every set, as if it returned nothing; or `raw`, as it was
            logged.
        drop_automation: Leave out users that look automated.
        transforms: API -> what it returns instead.

    Raises:
        InputError: `volatile` is none of its words.
    """

    volatile: Volatile = "shared"
    drop_automation: bool = False
    transforms: Mapping[str, Transform] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.volatile not in get_args(Volatile):
            raise InputError(f"volatile is none of {', '.join(get_args(Volatile))}")

    @property
    def description(self) -> str:
        """Words that tell the view, for digests: the same rows seen otherwise are other data."""
        automation = "without automation" if self.drop_automation else "all users"
        changed = sorted((api, repr(transform)) for api, transform in self.transforms.items())
        return f"volatile {self.volatile}, {automation}, {changed}"
