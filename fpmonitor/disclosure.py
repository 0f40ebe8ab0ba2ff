"""What may leave: the one place that decides on numbers, names and texts that tell of few users.

A count of users is told when it is 0 or at least k, and so is a total beside its parts. Reports,
figures and the service answer others than the owner of the database (`FOR_OTHERS`): they withhold
more, the names of rare APIs and the estimates that give a number of users below k away.
"""

from __future__ import annotations

import re
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING

from fpmonitor.errors import UndecidableError
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

# Whether what is told is handed on. The owner, who has the database, is told shares and estimates
# as they are defined.
FOR_OTHERS: ContextVar[bool] = ContextVar("FOR_OTHERS", default=False)

# Words of our own formats: they tell how a record is wrong, and nothing of a user.
_FORMAT_WORDS = {
    *("user", "time", "api", "value", "status", "source"),
    *("undefined", "error", "null", "true", "false"),
}
_QUOTED = re.compile(r"""(['"`]).*?(?:\1|$)""")
_WORD = re.compile(r"\w+")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")


def is_publishable(count: int, k: int) -> bool:
    """Whether a count of users may leave: nobody, or at least k."""
    return count == 0 or count >= k


def publishable_count(count: int, k: int) -> int | None:
    """Count of users; null where it is 1 to k - 1."""
    return count if is_publishable(count, k) else None


def publishable_total(total: int, parts: Collection[int], k: int) -> int | None:
    """Total of users beside its parts, which may overlap; null where a part is withheld.

    The total less the parts that are told bounds the withheld ones (complementary suppression).
    """
    return publishable_count(total, k) if all(is_publishable(part, k) for part in parts) else None


def complement_of(parts: Sequence[int], k: int) -> int | None:
    """Position of the part to withhold beside those below k, where the total of all is told.

    Null where none is needed (nothing is withheld, or what is has at least k users together), and
    where no part has k users.
    """
    withheld = sum(part for part in parts if not is_publishable(part, k))
    told = [part for part in parts if part >= k]
    return None if is_publishable(withheld, k) or not told else parts.index(min(told))


def publishable_part(part: int, whole: int, k: int) -> int | None:
    """Count of users beside a total that is known; null where it or the rest is 1 to k - 1."""
    return part if is_publishable(part, k) and is_publishable(whole - part, k) else None


def check_users(users: int, k: int) -> None:
    """Refuse to tell anything of fewer than k users, of whom even the number must not leave.

    Raises
    ------
    UndecidableError
        There are so few.
    """
    if users < k:
        raise UndecidableError(
            f"fewer than {k} users: nothing is told of them",
            hint="ingest more logs, widen the window, or lower k",
        )


def is_withheld(spectrum: CountSpectrum, k: int) -> bool:
    """Whether 1 to k - 1 users are in groups smaller than k: a number that others are not told."""
    return FOR_OTHERS.get() and not is_publishable(spectrum.users_below(k), k)


def most_exposing(spectrum: CountSpectrum, k: int) -> CountSpectrum:
    """Spectrum to tell estimates of, which then do not depend on a withheld number of users.

    Where 1 to k - 1 users are in groups smaller than k, k - 1 users count as alone, those that are
    missing taken from the largest group; where that has too few to spare, all users count as alone.
    No user is in a larger group than before: exposures are overstated, never understated.
    """
    if not is_withheld(spectrum, k):
        return spectrum
    large, rest = _without_small(spectrum, k)
    if rest - (k - 1) < k:
        return CountSpectrum.from_mapping({1: spectrum.users})
    return CountSpectrum.from_mapping(Counter({1: k - 1, rest - (k - 1): 1}) + large)


def least_exposing(spectrum: CountSpectrum, k: int) -> CountSpectrum:
    """Spectrum to tell lower limits of: a withheld number of users joins the largest group."""
    if not is_withheld(spectrum, k):
        return spectrum
    large, rest = _without_small(spectrum, k)
    return CountSpectrum.from_mapping(Counter({rest: 1}) + large)


def _without_small(spectrum: CountSpectrum, k: int) -> tuple[Counter[int], int]:
    """Count the groups of at least k users but for the largest, and the users outside of them."""
    groups = zip(spectrum.counts.tolist(), spectrum.values.tolist(), strict=True)
    large = Counter({count: values for count, values in groups if count >= k})
    if large:
        large -= Counter({max(large): 1})
    return large, spectrum.users - sum(count * values for count, values in large.items())


def may_name(api: str, users: int, everybody: int, k: int) -> bool:
    """Whether the name of an API may leave: a public one, or one that singles out no few users.

    Names of the vocabulary are words of browsers. Any other name comes from a log, where a client
    may have put anything, so others are told it if at least k users have the API, or all have.
    """
    return not FOR_OTHERS.get() or users >= k or users == everybody or api in known_apis()


def masked_text(text: str) -> str:
    """Form of a record without its content: letters as `x`, digits as `9`.

    Words of the log formats stay, so that it can be seen how a record is wrong.
    """
    return _WORD.sub(lambda word: _masked_word(word[0]), text)


def masked_quotes(message: str) -> str:
    """Message of a library without what stands in quotes, which may be data."""
    return _QUOTED.sub(lambda quoted: f"{quoted[1]}...{quoted[1]}", message)


def _masked_word(word: str) -> str:
    return word if word in _FORMAT_WORDS else _LETTER.sub("x", _DIGIT.sub("9", word))
