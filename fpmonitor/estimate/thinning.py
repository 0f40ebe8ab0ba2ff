"""Poisson thinning: keep a random number of users, so that the counts of values are independent.

A sample of `m` independent users has multinomial counts. Draw `M ~ Poisson(mu)` and keep `M` of the
users in an order that has nothing to do with their values: the counts are then independent
Poisson variables, unless `M > m`, which happens with probability at most `delta0`. The certificate
rests on this. Number and order are functions of a seed, and the seed of the question and the data:
the same question on the same data has one answer, and nobody can draw again until it pleases.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.mixing import GOLDEN, splitmix64
from fpmonitor.policy import check_share
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBER_STREAM = 0x9E3779B97F4A7C15  # keeps the draw of M apart from the order of the users
_WORD = 2**64


def check_users(users: int) -> None:
    """Check that a sample of `users` users can be thinned.

    Raises
    ------
    PolicyError
        Not a whole number of at least 2.
    """
    if isinstance(users, bool) or not isinstance(users, int):
        raise PolicyError("users", f"must be a whole number, got {users!r}")
    if users < 2:
        raise PolicyError("users", f"must be at least 2, got {users}")


def thinning_mean(users: int, delta0: float) -> float:
    """Mean number of kept users, `mu`: the largest with `P(Poisson(mu) > users) <= delta0`.

    Rounding errs towards fewer users.

    Parameters
    ----------
    users
        Observed users, `m`, at least 2.
    delta0
        Tolerated probability that the draw asks for more users than there are, in (0, 1).

    Raises
    ------
    PolicyError
        An argument is out of its range.
    """
    check_users(users)
    check_share("delta0", delta0)
    mean = float(scipy.special.gammaincinv(users + 1, delta0))
    while scipy.special.gammainc(users + 1, mean) > delta0:
        mean *= 1 - 1e-9
    return mean


def dropped_positions(words: NDArray[np.uint64], *, mean: float, seed: int) -> NDArray[np.int64]:
    """Positions of the users that thinning leaves out, increasing.

    Empty in the rare case (probability `delta0`) that the draw asks for more users than there are.

    Parameters
    ----------
    words
        uint64, one pseudo-random word per user, no two alike.
    mean
        `mu` of `thinning_mean`, users.
    seed
        Whole number, 0 <= seed < 2**64; see `seed_of`.

    Raises
    ------
    InputError
        The words are not a list of uint64, the mean is not positive, or the seed out of range.
    """
    if words.dtype != np.uint64 or words.ndim != 1:
        raise InputError("words: must be a one-dimensional array of uint64")
    if not (np.isfinite(mean) and mean > 0):
        raise InputError(f"mean: must be positive, got {mean}")
    if not 0 <= seed < _WORD:
        raise InputError(f"seed: must lie in [0, 2**64), got {seed}")
    kept = _poisson_number(mean, seed)
    if kept >= words.size:
        return np.empty(0, dtype=np.int64)
    if kept == 0:
        return np.arange(words.size, dtype=np.int64)
    order = np.argpartition(splitmix64((words ^ np.uint64(seed)) + GOLDEN), kept - 1)
    return np.sort(order[kept:]).astype(np.int64)


def thinned_spectrum(
    spectrum: CountSpectrum, *, mean: float, most: int, seed: int
) -> CountSpectrum | None:
    """Count spectrum of the users that thinning keeps, drawn from the spectrum alone.

    The same distribution as that of `dropped_positions`, without a row per user.

    Parameters
    ----------
    spectrum
        Of all users.
    mean
        `mu` of `thinning_mean`, users.
    most
        Largest number of users to keep, as the certificate is for so many.
    seed
        Whole number, 0 <= seed < 2**64; see `seed_of`.

    Returns
    -------
    CountSpectrum or None
        None in the case that nobody is kept.
    """
    kept = min(_poisson_number(mean, seed), most, spectrum.users)
    if kept == 0:
        return None
    ends = np.cumsum(np.repeat(spectrum.counts, spectrum.values))
    few = min(kept, spectrum.users - kept)
    rng = np.random.default_rng(seed)
    drawn = rng.choice(spectrum.users, few, replace=False, shuffle=False)
    groups = np.bincount(np.searchsorted(ends, drawn, side="right"), minlength=ends.size)
    if few < kept:
        groups = np.diff(ends, prepend=0) - groups
    return CountSpectrum.from_counts(groups)


def seed_of(*parts: str) -> int:
    """64-bit seed that depends on every character of every part (BLAKE2b)."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return int.from_bytes(digest.digest(), "little")


def kept_number(mean: float, seed: int) -> int:
    """Draw the number of users that thinning asks for, as `dropped_positions` does."""
    return _poisson_number(mean, seed)


def _poisson_number(mean: float, seed: int) -> int:
    """One draw of Poisson(mean) by inversion of a uniform number made from the seed."""
    word = int(splitmix64(np.array([seed ^ _NUMBER_STREAM], dtype=np.uint64) + GOLDEN)[0])
    uniform = ((word >> 11) + 0.5) * 2.0**-53
    reach = 10 * np.sqrt(mean) + 50  # beyond this the probability is below 2**-54
    low, high = max(-1, int(mean - reach)), int(mean + reach)
    while high - low > 1:
        middle = (low + high) // 2
        if scipy.special.pdtr(middle, mean) < uniform:
            low = middle
        else:
            high = middle
    return high
