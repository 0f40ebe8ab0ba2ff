"""What each write key may send: records a minute, names of APIs, and its share of the spool.

What a sender is answered follows from the vocabulary, from the settings and from what the same key
sent: never from what others have sent, or from what is in the database. What was sent is in the
database and the spool; what they do not tell, or not while another program has the database, is
kept in a file of the spool, so that a restart resets nothing.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

import msgspec

from fpmonitor.logs.contract import MAX_APIS
from fpmonitor.safe_files import write_bytes
from fpmonitor.serve.log import log
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from fpmonitor.serve.config import ServeConfig
    from fpmonitor.serve.keys import KeyFile
    from fpmonitor.serve.spool import Spool


_FILE = "accounts.json"


class Accounts:
    """The accounts of all write keys of a file, which share what there is."""

    def __init__(self, config: ServeConfig, spool: Spool, keys: KeyFile) -> None:
        self._config, self._spool, self._keys = config, spool, keys
        self._path = spool.folder / _FILE
        self._kept = _read(self._path)
        self._rates: dict[str, tuple[float, float]] = dict(self._kept.rates)
        self._names = {source: set(names) for source, names in self._kept.names.items()}
        # Names that wait: to read 30,000 requests of the spool again takes 0.1 s from senders.
        self._waiting = {source: _own(names) for source, names in spool.names().items()}
        for source, names in self._waiting.items():
            self._names.setdefault(source, set()).update(names)

    async def keep(self) -> None:
        """Write what a restart must not reset, if it has changed."""
        names = {source: sorted(names) for source, names in self._names.items() if names}
        now = _Kept(names=names, rates=dict(self._rates))
        if now != self._kept:
            content = [msgspec.json.encode(now)]
            await asyncio.to_thread(write_bytes, self._path, content, mode=0o600)
            self._kept = now

    def takes_names(self, source: str, names: Iterable[str], brought: set[str]) -> bool:
        """Whether a record of these API names is taken beside what its request has `brought`.

        If so, its names are added to that. Names of the vocabulary cost nothing: a database has
        room for all of them.
        """
        own = _own(names)
        if not own:
            return True
        taken = self._names.get(source, set())
        new = own.difference(taken, brought)
        if new and len(taken.union(brought, new)) > self._most_names:
            return False
        brought |= own
        return True

    def count_names(self, source: str, brought: set[str]) -> None:
        """Count the names of a request that is taken for its source."""
        if brought:
            self._names.setdefault(source, set()).update(brought)
            self._waiting.setdefault(source, set()).update(brought)

    def begin_batch(self) -> None:
        """Take the names that wait for those of the database: all that waits is about to be."""
        self._waiting = {}

    def learn_names(self, names: Mapping[str, Iterable[str]]) -> None:
        """Count the names that the database has of each source and the spool, and no others."""
        self._names = {
            source: _own(names.get(source, ())) | self._waiting.get(source, set())
            for source in {*names, *self._waiting}
        }

    @property
    def _shares(self) -> int:
        # Without a key there is one sender, `local`.
        return max(sum(key.kind == "write" for key in self._keys.last), 1)

    @property
    def _most_names(self) -> int:
        return min(self._config.max_names, MAX_APIS // self._shares)

    def is_full(self, source: str) -> bool:
        """Whether what a source sent fills its share of the room for what waits."""
        return self._spool.waiting_of(source) >= self._room / self._shares

    @property
    def is_all_full(self) -> bool:
        """Whether there is no room for what waits, whoever sent it."""
        return self._spool.waiting_bytes >= self._room

    @property
    def _room(self) -> float:
        """Bytes that may wait.

        The database needs as much again twice to take them, in its log of changes and in the file
        itself, and the index of users and values beside: 4.8 MB that waited took 10.4 MB. With
        less room a full disk stays full for ever.
        """
        config, spool = self._config, self._spool
        free = spool.free_bytes - config.min_free_bytes
        return min(config.max_spool_bytes - spool.refused_bytes, free / 3)

    def seconds_to_wait(self, source: str, records: int) -> int:
        """Return the seconds until a source may send this many records; 0: now."""
        if self.is_full(source):
            return max(1, round(self._config.flush_seconds))
        # By the clock of the day, which goes on while the service is off; it may be set back.
        now, most = time.time(), float(self._config.records_per_minute)
        left, last = self._rates.get(source, (most, now))
        left = min(most, left + max(now - last, 0.0) * most / 60)
        # More records than a minute has are taken from a full account, which then owes the rest.
        if left < min(records, most):
            self._rates[source] = (left, now)
            # Rounded up: whoever waits so long finds enough.
            return max(1, math.ceil((min(records, most) - left) * 60 / most))
        self._rates[source] = (left - records, now)
        return 0


class _Kept(msgspec.Struct):
    """What the file holds: names beside the vocabulary, and records left at a time (Unix)."""

    names: dict[str, list[str]] = {}
    rates: dict[str, tuple[float, float]] = {}


def _read(path: Path) -> _Kept:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return _Kept()
    # A damaged file stops no service: the database has the names, and a minute refills the rates.
    except (OSError, msgspec.DecodeError):
        log(
            "accounts",
            reason="the file of accounts cannot be read; the database has them",
        )
        return _Kept()


def _own(names: Iterable[str]) -> set[str]:
    """Names that the vocabulary does not have."""
    known = known_apis()  # a difference of sets would walk through all of it: 13 us a record
    return {name for name in names if name not in known}
