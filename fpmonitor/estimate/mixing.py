"""The finaliser of SplitMix (Steele, Lea, Flood 2014): 64-bit words that look independent."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the step of SplitMix: 2^64 divided by the golden ratio
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def splitmix64(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64-bit words one to one; 0 stays 0, so add `GOLDEN` where that matters."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def seed_of(*parts: str) -> int:
    """64-bit seed that depends on every character of every part (BLAKE2b)."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        encoded = part.encode()
        # With its length, or ("ab", "c") and ("a", "bc") would be one seed.
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return int.from_bytes(digest.digest(), "little")


SALT = np.uint64(0x6A09E667F3BCC908)  # the first 64 fractional bits of the square root of 2


def multiset_sums(words: NDArray[np.uint64]) -> tuple[int, int]:
    """Return two sums modulo 2^64 that tell a multiset of words apart, whatever their order."""
    first, second = (
        int(np.sum(splitmix64(words ^ salt), dtype=np.uint64)) for salt in (np.uint64(0), SALT)
    )
    return first, second


def digest_of_sums(size: int, sums: tuple[int, int]) -> str:
    """Return the digest of a multiset of so many words with these `multiset_sums`, 64 hex digits.

    Sums can be computed wherever the words are, in parts and in any order. The digest finds
    differences; it is no protection from whoever can choose the words.
    """
    return hashlib.sha256(f"{size}:{sums[0]:016x}{sums[1]:016x}".encode()).hexdigest()
