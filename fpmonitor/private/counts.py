"""Counts of API sets: the number of reports with each tuple of tokens."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError
from fpmonitor.private.tokens import REDACTED
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from fpmonitor.private.study import Study

ApiSet = tuple[str, ...]
Tuples = Mapping[tuple[str, ...], int]
Counts = Mapping[ApiSet, Tuples]


def split_spectrum(tuples: Tuples, users: int) -> CountSpectrum:
    """Return the count spectrum of tuples, each redacted report being a value of its own.

    Of the `users` who were asked, those without an answer count as redacted.
    """
    unredacted_counts = [number for tokens, number in tuples.items() if REDACTED not in tokens]
    # As groups of one they expose most, so that a redaction never lowers a limit.
    alone = users - sum(unredacted_counts)
    return CountSpectrum.from_mapping(Counter(unredacted_counts) + Counter({1: alone}))


def with_projections(counts: Counts) -> dict[ApiSet, Tuples]:
    """Return the counts, with those of all sets within the counted ones."""
    known = dict(counts)
    # Whatever the order of the counts, a part is taken from the same set.
    for apis in sorted(counts, key=lambda one: (len(one), one)):
        for size in range(1, len(apis)):
            for part in itertools.combinations(apis, size):
                if part not in known:
                    known[part] = projected(counts[apis], [apis.index(api) for api in part])
    return known


def projected(tuples: Tuples, places: Sequence[int]) -> Counter[tuple[str, ...]]:
    """Count the tuples by some of their places only."""
    counted: Counter[tuple[str, ...]] = Counter()
    for tokens, number in tuples.items():
        counted[tuple(tokens[place] for place in places)] += number
    return counted


def counts_digest(apis: Iterable[str], tuples: Tuples) -> str:
    """Return the digest of the counts of a set, whatever their order."""
    # Coins are derived from it: the same answers must give the same limits at every look.
    listed = json.dumps([list(apis), sorted([list(tokens), n] for tokens, n in tuples.items())])
    return hashlib.sha256(listed.encode()).hexdigest()


def check_study_counts(study: Study, counts: Counts, randomised: Collection[str] = ()) -> None:
    """Check that counts fit a study and include every single API but the `randomised` ones.

    Raises:
        InputError: A single API is missing, or a set is unknown or too large for the study.
    """
    missing = [api for api in study.apis if (api,) not in counts and api not in randomised]
    if missing:
        raise InputError(
            f"counts: nothing for {', '.join(missing[:3])}",
            hint="round 1 asks for every single API of the study",
        )
    for apis in counts:
        if not set(apis) <= set(study.apis) or list(apis) != sorted(set(apis)):
            raise InputError(
                "counts: a set names APIs that the study does not have, or out of order"
            )
        if len(apis) > study.largest_set:
            raise InputError(
                f"counts: of {len(apis)} APIs together, the study allows {study.largest_set}"
            )
