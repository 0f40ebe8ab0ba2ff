"""What a view changes in the rows of a snapshot, found out from what its values say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.population.recoding import Recode, Recoding
from fpmonitor.population.snapshot import Snapshot, check_values_kept
from fpmonitor.store.snapshot import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fpmonitor.population.browsers import BrowserGroups
    from fpmonitor.population.views import View
    from fpmonitor.population.volatile import Volatility
    from fpmonitor.store.transforms import Transform


def recoding_of(
    snapshot: Snapshot, view: View, groups: BrowserGroups, volatility: Mapping[str, Volatility]
) -> Recoding:
    """Find out what a view changes.

    Raises:
        UnknownNameError: A transform of an API that was never observed.
        InputError: A transform of values that are kept by their digest, or a look for automation in
            them.
        UndecidableError: Every user looks automated.
    """
    if view.transforms:
        check_values_kept(snapshot, "--what-if")
    if view.drop_automation:
        check_values_kept(snapshot, "--drop-automation")
    for api in view.transforms:
        if api not in snapshot.apis:
            raise UnknownNameError("API", api, snapshot.apis)
    changes: dict[str, Recode] = {}
    for api in snapshot.apis:
        hides = view.volatile != "raw" and api in volatility
        if not hides and api not in view.transforms:
            continue
        values = snapshot.values(api)
        largest = max(values, default=0)
        nobody = np.zeros(len(groups.users), dtype=np.bool_)
        randomised = volatility[api].groups if hides else nobody
        codes: NDArray[np.int64] | None
        if hides and view.volatile == "left-out":
            # All are absent, as if the API returned nothing to anybody.
            codes, randomised = np.zeros(largest + 1, dtype=np.int64), nobody
        else:
            codes = (
                _coarser(api, _seen(snapshot, api, values), view.transforms[api], largest)
                if api in view.transforms
                else None
            )
        changes[api] = Recode(
            codes=codes,
            randomised=randomised,
            fixed=np.array(
                [ABSENT, *(code for code, (status, _) in values.items() if status != "value")]
            ),
            tokens=largest + 1,
        )
    dropped = groups.automated if view.drop_automation else np.zeros_like(groups.automated)
    if len(dropped) and dropped.all():
        raise UndecidableError("every user looks automated", hint="omit --drop-automation")
    description = view.description if changes or dropped.any() else ""
    # What data contradict is not masked, and changes with them: the same view is then other data.
    masked = [(api, volatility[api].versions) for api in changes if api in volatility]
    if view.volatile != "raw" and masked:
        description += f", masked {masked}"
    return Recoding(groups=groups, changes=changes, dropped=dropped, description=description)


def _seen(
    snapshot: Snapshot, api: str, values: Mapping[int, tuple[str, str | None]]
) -> Mapping[int, tuple[str, str | None]]:
    """Values that some row has, where that can be looked at: only they must be fit for a change."""
    if not snapshot.in_memory(1):
        return values
    seen = np.unique(snapshot.codes([api])[0]).tolist()
    return {code: values[code] for code in seen if code in values}


def _coarser(
    api: str, values: Mapping[int, tuple[str, str | None]], transform: Transform, largest: int
) -> NDArray[np.int64]:
    """Equal results of the transform share the code of the first of them."""
    codes = np.arange(largest + 1, dtype=np.int64)
    first: dict[str, int] = {}
    # By code, in whatever order the keeper of the rows lists them.
    for code, (status, text) in sorted(values.items()):
        if status != "value" or text is None:
            continue  # undefined and errors stay what they are
        try:
            result = transform(text)
        except InputError as error:
            raise InputError(f"{api}: {error.message}", hint=error.hint) from error
        codes[code] = first.setdefault(result, code)
    return codes
