"""The value of an API that most users share: what all may be told in place of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.population.browsers import USER_AGENTS
from fpmonitor.population.snapshot import check_values_kept
from fpmonitor.store.digests import LONG
from fpmonitor.store.snapshot import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from fpmonitor.population.population import Population

# What else tells the browser and its system: values that go together with a user agent.
_OF_BROWSER = (
    *("NavigatorUAData.", "http:sec-ch-ua", "Navigator.app", "Navigator.buildID"),
    *("Navigator.cpuClass", "Navigator.oscpu", "Navigator.platform", "Navigator.product"),
    *("Navigator.vendor", *USER_AGENTS),
)


def shared_values(
    population: Population, apis: Iterable[str], k: int, *, means: Callable[[str], str] = str
) -> dict[str, str]:
    """Return the commonest value of each API that at least k users share; of others none.

    Values that are kept as digests are none, and neither are errors and `undefined`. Beside a user
    agent, what tells the browser is what most users of this user agent have, and k share: where
    they have none, it is left out, as another browser's value would be of nobody.

    Args:
        population, apis, k: Whose values of what, and how many must share one.
        means: Says what the vocabulary calls an API of the log.
    """
    snapshot = population.snapshot
    check_values_kept(snapshot, "the commonest value")
    values: dict[str, str] = {}
    alike: NDArray[np.bool_] | None = None  # whether each user has the user agent that is shown
    known = set(apis) & set(snapshot.apis)
    for api in sorted(known, key=lambda api: (means(api) not in USER_AGENTS, api)):
        [codes], texts = snapshot.codes([api]), snapshot.values(api)
        if alike is not None and means(api).removeprefix("Worker").startswith(_OF_BROWSER):
            codes = codes[alike]
        code = _commonest(codes, texts, k)
        if code is None:
            continue
        values[api] = texts[code][1] or ""
        if alike is None and means(api) in USER_AGENTS:
            alike = codes == code
    return values


def _commonest(
    codes: NDArray[Any], texts: Mapping[int, tuple[str, str | None]], k: int
) -> int | None:
    """Return the code of the value that most users share, and at least k; null where none is."""
    counts = np.bincount(codes, minlength=ABSENT + 1)
    # That nobody was asked is no value that one could show in place of another.
    counts[ABSENT] = 0
    code = int(counts.argmax())
    status, text = texts.get(code, ("", None))
    is_shared = counts[code] >= k and status == "value" and text and not text.startswith(LONG)
    return code if is_shared else None
