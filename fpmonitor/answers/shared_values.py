"""The value of an API that most users share: what all may be told in place of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.population.recoding import ABSENT
from fpmonitor.population.snapshot import check_values_kept
from fpmonitor.store.digests import LONG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.population.population import Population


def shared_values(population: Population, apis: Iterable[str], k: int) -> dict[str, str]:
    """Return the commonest value of each API that at least k users share; of others none.

    Values that are kept as digests are none, and neither are errors and `undefined`.
    """
    snapshot = population.snapshot
    check_values_kept(snapshot, "the commonest value")
    found = {}
    for api in sorted(set(apis) & set(snapshot.apis)):
        [codes] = snapshot.codes([api])
        counts = np.bincount(codes)
        # That nobody was asked is no value that one could show in place of another.
        counts[ABSENT] = 0
        code = int(counts.argmax())
        status, text = snapshot.values(api).get(code, ("", None))
        if counts[code] >= k and status == "value" and text and not text.startswith(LONG):
            found[api] = text
    return found
