"""Audit of queries: exact counts are harmless one by one, and single users out together.

About `log2 n` counts suffice to single out (singling out, Theorem 4.6): so the number of different
counts that one reader has had answered on one state of the data is limited. The same count asked
again tells nothing new, and is not counted.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from typing import Literal

from fpmonitor.errors import PolicyError, excerpt
from fpmonitor.release.singling_out import best_baseline

QueryVerdict = Literal["answer", "warn", "refuse"]


def query_limit(text: str, users: int) -> int:
    """Read how many different counts one reader may have answered on one state of the data.

    Args:
        text: A number, or `log2`: stop short of the attack, which needs `log2 n` counts.
        users: Of how many users the counts are.

    Raises:
        PolicyError: Neither a number nor `log2`, or no users.
    """
    if text == "log2":
        if users < 1:
            raise PolicyError("users", f"must be at least 1, got {users}")
        return max(math.ceil(math.log2(users)), 1)
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 1:
        raise PolicyError(
            "query-limit", f"must be log2 or a number from 1 on, got {excerpt(text)!r}"
        )
    return int(text)


def query_verdict(answered: int, together: int, limit: int) -> QueryVerdict:
    """Decide on counts, by how many different ones were answered, and how many would be then.

    From half of the limit on answers carry a warning. Where nothing new is asked, the answer is
    given again, also above the limit.
    """
    if together > max(limit, answered):
        return "refuse"
    return "answer" if together < max(limit // 2, 1) else "warn"


def name_exposure(
    apis: Iterable[str],
    k: int,
    *,
    population: int | None = None,
    missing: str = "value",
    present: Iterable[str] = (),
) -> str:
    """Name what is told of the groups of a set: all that changes a figure is in the name.

    Args:
        apis, k: The set, and the threshold of the count of users in smaller groups.
        population: What estimates are for, which are figures of the users as well; None where none
            are told.
        missing, present: How absent values count, and the APIs of which every user has a value
            where it is `drop`.
    """
    name = f"users below {k} of {sorted(set(apis))}"
    if population is not None:
        name += f" for {population}"
    if missing != "value":
        name += f" {missing} {sorted(set(present))}"
    return name


def query_digest(query: str) -> str:
    """Digest by which a query is remembered."""
    return hashlib.sha256(query.encode()).hexdigest()


def isolation_within_reach(users: int, counts: int) -> float:
    """Baseline of the predicates that `counts` composed counts can find: small means danger.

    `counts - 1` bits of a record are read, so the predicates have weight `2^-(counts - 1)`; the
    attack succeeds with about 1/e, and what it adds is the difference to this number.

    Raises:
        PolicyError: `users` or `counts` is below 1.
    """
    if counts < 1:
        raise PolicyError("counts", f"must be at least 1, got {counts}")
    return best_baseline(users, 2.0 ** -(counts - 1))
