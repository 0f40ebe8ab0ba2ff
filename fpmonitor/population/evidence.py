"""Whether data say anything about an API: judged in one place, whoever keeps the rows.

A set is judged by how its values divide the users. Values that are no values divide nobody: an API
that failed for all, or a column that was filled with one constant, would pass for one that exposes
nobody. What is judged is how many users share a value, never which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fpmonitor.policy import disclosed_from
from fpmonitor.vocabulary import variety_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.refusals import Kind

Lack = Literal["few users", "errors", "one value", "few values"]
FEW = 10  # times as many values as were seen, which browsers are known to return
_WORDS: dict[Lack, str] = {
    "few users": "fewer than {k:,} users have a value",
    "errors": "its values are errors, refusals or placeholders",
    "one value": "it has a single value",
    "few values": "it has far fewer values than browsers return",
}


def lack_in_words(lack: Lack, k: int) -> str:
    """Say why nothing is known about an API."""
    return _WORDS[lack].format(k=disclosed_from(k))


@dataclass(frozen=True, slots=True)
class Seen:
    """A value of an API: how many users share it, its kind where it is known; or several alike."""

    users: int
    kind: Kind = "value"
    values: int = 1


def find_lack(seen: Iterable[Seen], k: int, api: str = "") -> Lack | None:
    """Say why the values of an API are no evidence of how it divides users; None if they are.

    Users who share values with fewer than k others count where they are at least k together: the
    answer is the same for 0, 1, ..., k - 1 of them, and as few cannot make a constant a variable.

    Args:
        seen: The values of the API, absent ones left out.
        k: The threshold of the question.
        api: Its name in the vocabulary, which knows the variety of some; empty for none.
    """
    k = disclosed_from(k)  # a share of a population may be more than all users
    users = dict.fromkeys(("value", "error", "placeholder"), 0)
    rare = rare_values = common = 0
    for one in seen:
        users[one.kind] += one.users * one.values
        if one.kind != "value":
            continue
        if one.users >= k:
            common += one.values
        else:
            rare, rare_values = rare + one.users * one.values, rare_values + one.values
    everybody = sum(users.values())
    if everybody < k:
        return "few users"
    if users["value"] < k or users["error"] > everybody / 2:
        return "errors"
    values = common + (rare_values if rare >= k else 0)
    known = variety_of(api)
    expected = None if known is None else known.among(users["value"])
    if values <= 1 and not (known is not None and known.is_constant):
        return "one value"
    return "few values" if expected is not None and values * FEW < expected else None
