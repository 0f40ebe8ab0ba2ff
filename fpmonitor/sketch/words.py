"""Words of values: which values a key keeps, the same on every engine, and sums of their users.

The word of one value of an API is the beginning of the SHA-256 of a text that the key makes from
the name of the API, and of the value. The words of the values of a set are chained in the order of
the names: `state = mix(state xor word)`, from a state that the key makes, by the finaliser of
SplitMix. A value of a set is kept at level j where the first j bits of its word are 0. The theorem
(docs/scale.md) takes words for random numbers: who can choose values must not know the key.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.estimate.mixing import splitmix64
from fpmonitor.estimate.value_sample import LAST_LEVEL, WORD_BITS
from fpmonitor.secret_files import read_secret_file
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

WORD_FUNCTION = "sha256-splitmix64"
_KEY = re.compile(r"[0-9a-f]{64}")
_LEAST_PENDING = 1 << 20


@dataclass(frozen=True)
class SketchKey:
    """A secret key that serves for good: of several, the best must not be chosen.

    Attributes:
        secret: 32 bytes.
    """

    secret: bytes

    def __repr__(self) -> str:
        return f"SketchKey(id={self.id!r})"

    @cached_property
    def id(self) -> str:
        """What tells keys apart, and does not reveal them: 16 hexadecimal digits."""
        return self._digest(b"sketch key id", b"", 8).hex()

    @cached_property
    def start(self) -> int:
        """The state that chains of words begin with, 64 bits."""
        return int.from_bytes(self._digest(b"sketch start", b"", 8), "big")

    def prefix(self, api: str) -> str:
        """Return what stands before each value of an API in what is hashed, 32 hex digits."""
        # Not HMAC, which DuckDB does not have: the key makes a text before each value.
        return self._digest(b"sketch prefix", api.encode(), 16).hex()

    def words(self, api: str, cells: Iterable[str]) -> NDArray[np.uint64]:
        """Words of some values of an API, uint64; the cell of who has none is empty."""
        prefix = self.prefix(api).encode()
        digests = (hashlib.sha256(prefix + cell.encode()).digest()[:8] for cell in cells)
        return np.fromiter((int.from_bytes(digest, "big") for digest in digests), dtype=np.uint64)

    def chained(
        self, columns: Sequence[NDArray[np.uint64]], state: NDArray[np.uint64] | None = None
    ) -> NDArray[np.uint64]:
        """Words of the values of a set, from one column of words per API in sorted order.

        `state` has the words of the APIs before these, none by default.
        """
        words = np.array([self.start], dtype=np.uint64) if state is None else state
        for column in columns:
            words = splitmix64(column ^ words)
        return words

    def _digest(self, purpose: bytes, text: bytes, size: int) -> bytes:
        # `person` keeps the purposes apart: an id never is the prefix of an API.
        return hashlib.blake2b(text, key=self.secret, digest_size=size, person=purpose).digest()


def read_sketch_key(path: Path) -> SketchKey:
    """Read a key of sketches.

    Raises:
        InputError: The file cannot be read, is open to others than its owner, or holds no such key.
    """
    text = read_secret_file(path)
    if not _KEY.fullmatch(text):
        raise InputError(
            f"{path} holds no key of sketches",
            hint="make one with `fpmonitor scale sketch key FILE`",
        )
    return SketchKey(bytes.fromhex(text))


def is_kept(words: NDArray[np.uint64], level: int) -> NDArray[np.bool_]:
    """Whether words are kept at a level: probability 2^-level each."""
    if level == 0:
        # 1 << 64 is no uint64.
        return np.ones(len(words), dtype=np.bool_)
    # The first bits are 0: a comparison, and what is kept at a level is kept at all below it.
    return words < np.uint64(1 << (WORD_BITS - level))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KeptValues:
    """Kept values of one API set.

    Attributes:
        apis: The set, sorted.
        level: A value is kept with probability 2^-level.
        words: uint64, increasing, one per kept value.
        counts: int64, users of each, at least 1.
    """

    apis: tuple[str, ...]
    level: int
    words: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @property
    def spectrum(self) -> CountSpectrum:
        """How many kept values have how many users."""
        return CountSpectrum.from_counts(self.counts)


class Tally:
    """Adds up users by word, whatever the order; memory follows the words that are kept.

    Args:
        apis: The set.
        entries: Words to keep at most: the level is raised to the least at which no more are kept.
            As words only come, it is the same in every order. None keeps the level.
    """

    def __init__(self, apis: tuple[str, ...], entries: int | None) -> None:
        self._apis, self._entries, self._level = apis, entries, 0
        self._words, self._counts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._pending: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        self._waiting = 0

    def add(
        self, words: NDArray[np.uint64], counts: NDArray[np.int64] | None = None, *, level: int = 0
    ) -> None:
        """Add users by word: all users of the words that are kept at `level`, one each by default.

        Words may occur several times.
        """
        if level > self._level:
            self._level = level
            self._words, self._counts = self._filtered(self._words, self._counts)
        if counts is None:
            counts = np.ones(len(words), dtype=np.int64)
        self._pending.append(self._filtered(words, counts))
        self._waiting += len(self._pending[-1][0])
        # Sorted once for twice as many as are kept, not with each batch.
        if self._waiting > max(_LEAST_PENDING, 2 * len(self._words)):
            self._settle()

    def kept(self, level: int = 0) -> KeptValues:
        """Return what is kept, at a level not below `level`."""
        self.add(np.zeros(0, dtype=np.uint64), level=level)
        self._settle()
        return KeptValues(
            apis=self._apis, level=self._level, words=self._words, counts=self._counts
        )

    def _filtered(
        self, words: NDArray[np.uint64], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        is_in = is_kept(words, self._level)
        return words[is_in], counts[is_in]

    def _settle(self) -> None:
        parts = [(self._words, self._counts), *self._pending]
        words = np.concatenate([words for words, _ in parts])
        counts = np.concatenate([counts for _, counts in parts])
        self._pending, self._waiting = [], 0
        self._words, places = np.unique(words, return_inverse=True)
        self._counts = np.zeros(len(self._words), dtype=np.int64)
        # `np.bincount` would add them as float64.
        np.add.at(self._counts, places, counts)
        most = len(self._words) if self._entries is None else self._entries
        while self._level < LAST_LEVEL and is_kept(self._words, self._level).sum() > most:
            self._level += 1
        self._words, self._counts = self._filtered(self._words, self._counts)
