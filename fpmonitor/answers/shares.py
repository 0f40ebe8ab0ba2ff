"""Shares of the strata of a population, from an access log or from users of another survey."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.collectors.accesslog import AccesslogCollector
from fpmonitor.collectors.records import value_text
from fpmonitor.collectors.unfolding import one_record_a_line
from fpmonitor.disclosure import publishable_count
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.ldp.frequency import clopper_pearson
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.policy import Strata, check_share
from fpmonitor.population.browsers import (
    BROWSER_FAMILY,
    OPERATING_SYSTEM,
    SYSTEMS,
    UNKNOWN,
    are_browsers,
    browser_of,
    joined_kind,
    system_of,
)
from fpmonitor.vocabulary import FAMILIES, split_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.population.population import Population

_USER_AGENT = "http:user-agent"
_AGENTS = 10_000  # remembered, of few characters each
_BUSY = 0.1
_BLOCK = 50_000  # lines whose user agents are looked up in the list of robots at once
_DIGITS = 9  # decimals, outward
_FORMS = (
    "the common log format lacks the user agent: log the combined one, or that of "
    "`fpmonitor collect log-line`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesReport:
    """Shares of strata, each of at least k users.

    Attributes:
        strata: The shares; `other` holds what has fewer than k users, and users of whom a column is
            not known.
        users: Users who were counted; in an access log, visitors on a day.
        automated: Those who were left out as they look automated, or are no browsers; null if fewer
            than k.
        days: First and last day; null where they are not known.
        rejected: Lines of an access log that tell no visitor.
        busiest: Share of the visitors that one address has; null below a tenth, or k.
    """

    strata: Strata
    users: int
    automated: int | None = None
    days: tuple[str, str] | None = None
    rejected: int = 0
    busiest: float | None = None


def shares_of_users(population: Population, by: str, *, k: int, delta: float = 0.0) -> SharesReport:
    """Count the users of a population by strata.

    Args:
        population: The users; those that its view leaves out are not counted.
        by: See `Population.kinds`.
        k: Users that a stratum must have to be named.
        delta: Probability that any limit of a share fails, where the users are a sample; 0 for
            shares as they were counted. Clopper and Pearson (1934), at an even part for each
            stratum that occurs.
    """
    users = population.without_few(k)
    strata = shares_of_counts(_counted(users, by, told_brave=True), by, k, delta)
    if not any("brave" in name for name in strata.shares):  # then `--strata` takes it for Chromium
        strata = shares_of_counts(_counted(users, by, told_brave=False), by, k, delta)
    dropped = publishable_count(users.dropped, k, users.audience)
    return SharesReport(strata=strata, users=users.users, automated=dropped)


def _counted(users: Population, by: str, *, told_brave: bool) -> Counter[str | None]:
    kind, called = users.kinds(by, told_brave=told_brave)
    counts: Counter[str | None] = Counter()
    for name, number in zip(called, np.bincount(kind).tolist(), strict=True):
        counts[name] += number
    return counts


def shares_of_logs(
    logs: Iterable[LogFile], by: str, *, k: int, delta: float = 0.0, log_format: str = ""
) -> SharesReport:
    """Count the visitors of access logs by browser family and operating system.

    Visitors are told by the rule of `fpmonitor.unit`. Of addresses and cookies, digests with a key
    that is forgotten are held in memory.

    Args:
        logs: As `accesslog` reads them.
        by: `browser family`, `operating system`, or both.

    Raises:
        InputError: Another stratum, a log of another form, or one without user agents.
    """
    columns = split_names(by)
    if not columns or not set(columns) <= {BROWSER_FAMILY, OPERATING_SYSTEM}:
        raise InputError(
            "shares: an access log shows nothing but browser family and operating system",
            hint="--by family,os; or `ingest` a log that has more, and ask without naming it",
        )
    collector, column_map = AccesslogCollector(), ColumnMap(log_format=log_format)
    visitors = _Visitors(columns)
    for log in (one_record_a_line(log, column_map) for log in logs):
        if not collector.recognises(log, column_map):
            raise InputError(f"{log.label}: not an access log that fpmonitor reads", hint=_FORMS)
        requests = collector.visitors(log, column_map)
        while request_block := list(islice(requests, _BLOCK)):
            visitors.take(request_block)
    if not visitors.days:
        raise InputError("shares: no line names an address and a user agent", hint=_FORMS)
    users, busiest = visitors.counts.total(), max(visitors.addresses.values(), default=0)
    return SharesReport(
        strata=shares_of_counts(visitors.counts, by, k, delta),
        users=users,
        automated=publishable_count(visitors.automated, k),
        days=(min(visitors.days), max(visitors.days)),
        rejected=visitors.rejected,
        # One address with a tenth of the visitors may be a proxy, or a single machine that writes
        # lines.
        busiest=busiest / users if busiest >= max(k, _BUSY * users) else None,
    )


class _Visitors:
    """Visitors of access logs so far, and how many requests of each address count."""

    def __init__(self, columns: Sequence[str]) -> None:
        # Drawn anew and kept nowhere: digests of addresses tell nothing once this has ended.
        self._columns, self._key = columns, secrets.token_bytes(32)
        self._seen: set[bytes] = set()
        self.counts: Counter[str | None] = Counter()
        self.addresses: Counter[bytes] = Counter()
        self.days: set[str] = set()
        self.automated = self.rejected = 0

    def take(self, requests: Sequence[tuple[str, str, str] | None]) -> None:
        """Take in days, addresses and user agents of requests; null for one that tells none."""
        # Each agent once: the list of robots is long, and a log repeats few agents.
        agents = list({visitor[2] for visitor in requests if visitor})
        browsers = dict(zip(agents, are_browsers(agents).tolist(), strict=True))
        for visitor in requests:
            if visitor is None:
                self.rejected += 1
                continue
            digest = self._digest(*visitor)
            if digest in self._seen:
                continue
            self._seen.add(digest)
            day, address, agent = visitor
            self.days.add(day)
            if browsers[agent]:
                self.counts[_kind_of(agent, self._columns)] += 1
                self.addresses[self._digest(address)] += 1
            else:
                self.automated += 1

    def _digest(self, *parts: str) -> bytes:
        # 80 bits: two of a billion visitors have one digest with a probability of one in 2.4
        # million.
        return hashlib.blake2b("\0".join(parts).encode(), key=self._key, digest_size=10).digest()


@lru_cache(_AGENTS)
def _kind_of(agent: str, columns: tuple[str, ...]) -> str | None:
    # As of users in a database, which keeps digests of long user agents.
    family, system = browser_of(_USER_AGENT, agent)[0], system_of(value_text(agent))
    column_values = {
        BROWSER_FAMILY: None if family == UNKNOWN else FAMILIES[family],
        OPERATING_SYSTEM: None if system == UNKNOWN else SYSTEMS[system],
    }
    return joined_kind(column_values[column] for column in columns)


def shares_of_counts(
    counts: Mapping[str | None, int], by: str, k: int, delta: float = 0.0
) -> Strata:
    """Shares of the strata of at least k users, and of `other`, the rest, as large if there is any.

    Args:
        counts: Users of each kind; null for those of whom it is not known.

    Raises:
        UndecidableError: Fewer than two strata have k users.
    """
    listed = sorted((-users, name) for name, users in counts.items() if name and users >= k)
    stratum_sizes = {name: -negative for negative, name in listed if name != "other"}
    total = sum(counts.values())
    # Fewer than k would follow from the total: the smallest that is named joins them.
    if 0 < total - sum(stratum_sizes.values()) < k and stratum_sizes:
        stratum_sizes.popitem()  # the rest must not follow from it
    if rest := total - sum(stratum_sizes.values()):
        stratum_sizes["other"] = rest
    if len(stratum_sizes) < 2:
        raise UndecidableError(
            f"shares: fewer than two strata have {k:,} users",
            hint="a longer log, or a coarser --by",
        )
    if not delta:
        return Strata(by=by, shares={name: users / total for name, users in stratum_sizes.items()})
    check_share("delta", delta)
    users = np.array(list(stratum_sizes.values()))
    ends = np.stack(clopper_pearson(users, total, delta / (2 * len(counts))), axis=1)
    limits = dict(zip(stratum_sizes, ends.tolist(), strict=True))
    if "other" in stratum_sizes and counts.keys() - stratum_sizes.keys() - {None}:
        # What is in it follows from the counts: it is limited by the others alone.
        low, high = (math.fsum(side) for side in zip(*limits.values(), strict=True))
        first, last = limits["other"]
        limits["other"] = [1 - (high - last), 1 - (low - first)]
    unit = 10**_DIGITS
    return Strata(
        by=by,
        shares={
            name: (
                # Outward, and never to 0 or 1: a stratum that occurs has some users, and not all.
                max(math.floor(low * unit), 1) / unit,
                min(math.ceil(high * unit), unit - 1) / unit,
            )
            for name, (low, high) in limits.items()
        },
    )
