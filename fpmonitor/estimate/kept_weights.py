"""Weights of designs that were searched for before, so that a new process need not search again.

The search takes most of the time of a design, and no number rests on it: the bound of a score is
proved for whatever weights it has, at each start (`averaging.proved_base`). What is kept is found
only by the digest of all that a search follows from. So kept weights give the same numbers, bit by
bit, and others than a search would find could cost sharpness, and never a guarantee.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fpmonitor.estimate.poisson import PoissonLaws

_MOST = 128  # weights that are kept, those used last; 2 kB each
_FORM = 1  # of what is kept, and of the search
_KNOWN = OrderedDict[str, tuple[float, ...]]()  # digest of what a search follows from -> weights


def weights_of(
    search: Callable[[], NDArray[np.float64]], laws: PoissonLaws, *asked: object, monotone: bool
) -> NDArray[np.float64]:
    """Return known weights, or those that a search finds.

    Args:
        search: Finds them.
        laws, asked, monotone: All that it follows from. Weights that are monotone are not negative
            and do not increase, on which more than their bound rests.
    """
    key = _digest(laws, *asked, monotone)
    weights = np.array(_KNOWN.pop(key, ()))
    is_whole = weights.size == laws.starts.size - 1 and bool(np.isfinite(weights).all())
    # The order of the sets rests on falling weights, which no bound proves: kept ones are checked.
    if not is_whole or (monotone and not _is_falling(weights)):
        weights = search()
    _KNOWN[key] = tuple(weights.tolist())  # the newest at the end
    while len(_KNOWN) > _MOST:
        _KNOWN.popitem(last=False)
    return weights


def kept(version: str) -> str:
    """Return what is known as text, the same for the same weights; only one version takes it in."""
    known = dict(sorted(_KNOWN.items()))
    return json.dumps({"digest": _sum(json.dumps(known), version), "weights": known})


def take_in(text: str, version: str) -> None:
    """Know what a text of `kept` holds; one that is damaged, or of another version, is nothing."""
    try:
        held = json.loads(text)
        weights = {str(key): tuple(map(float, found)) for key, found in held["weights"].items()}
        is_whole = held["digest"] == _sum(json.dumps(weights), version)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return
    if is_whole:
        for key, found in weights.items():
            _KNOWN.setdefault(key, found)


def _is_falling(weights: NDArray[np.float64]) -> bool:
    return bool((np.diff(weights) <= 0).all() and (weights >= 0).all())


def _digest(laws: PoissonLaws, *asked: object) -> str:
    """Digest of all that a search follows from, also of what computes it."""
    parts = (_FORM, np.__version__, laws.mean, laws.function, laws.value_share, asked)
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16)
    # By the arrays themselves: what computes them may differ in the last digits.
    exposures = (laws.exposure[-1], laws.exposure[1])
    for array in (laws.means, *exposures, laws.atoms, laws.weight_of_atom, laws.rates, laws.starts):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _sum(content: str, version: str) -> str:
    return hashlib.sha256(f"{_FORM} {version} {content}".encode()).hexdigest()
