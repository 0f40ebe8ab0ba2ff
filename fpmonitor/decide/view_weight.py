"""What a view of the users weighs by its name, and the share of delta that its question may have.

A decision file alone is judged by it, so this module needs neither numbers nor a database.
"""

from __future__ import annotations

import math
import re
from datetime import time
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError
from fpmonitor.policy import universe_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.views import View
    from fpmonitor.question import Missing
    from fpmonitor.store.transforms import Transform

BASE_WEIGHT = 0.5  # of the view that no option changes
SEARCH_SHARE = 0.2  # of the level, for users who are searched where others confirm
_CHANGE = math.log(9)  # a view may differ in six ways: (1 + 1/9)^6 < 2
_ROUNDING = 1e-9
# Sources that our collectors name, before their versions.
_LIBRARIES = (
    *("accesslog", "amiunique", "clientjs", "creepjs", "fingerprintjs", "glean", "glean-json"),
    *("har", "identifiability", "long", "openwpm", "thumbmarkjs", "wide"),
)
_NUMBER = "(?:0|[1-9][0-9]{0,17})"
_VERSION = re.compile(rf"{_NUMBER}(?:\.{_NUMBER})*")
_THIS_CENTURY, _DAYS = range(2000, 2100), 36_525
# A database holds 4,000 names, so its universe is 10,000 at most; levels of ten times as many take
# a second, and of a million minutes.
_LARGEST_UNIVERSE = 100_000


def view_cost(
    view: View,
    candidates: Collection[str],
    missing: Missing,
    source: str | None,
    bounds: Sequence[datetime] = (),
    *,
    universe: int,
) -> float:
    """Length of the name of a view in nats: 0 for the base view, which no option changes.

    `exp(-cost)` of all views add up to at most 2, so the weights to at most 1.

    Args:
        view, missing: How the users are seen, and what an absent observation means.
        candidates: The APIs that are asked about.
        source, bounds: The one source whose observations count, and the ends of the window that are
            given.
        universe: APIs that may be chosen after looking.
    """
    changes = []
    if view.volatile != "shared":
        changes.append(math.log(2))
    if view.drop_automation:
        changes.append(0.0)
    if missing != "value":
        changes.append(math.log(2))
    if source is not None:
        changes.append(_source_cost(source))
    if bounds:
        changes.append(math.log(3) + sum(map(_time_cost, bounds)))
    # What is done to other APIs makes no difference to sets of candidates.
    transforms = [
        _transform_cost(transform)
        for api, transform in view.transforms.items()
        if api in candidates
    ]
    if transforms:
        few = len(transforms)
        named = math.log(few * (few + 1)) + math.log(math.comb(universe, few))
        changes.append(named + sum(transforms))
    return sum(_CHANGE + detail for detail in changes)


def most_weight(decision: Decision) -> float:
    """Weight of the view of a decision; its `--since` and `--until`, which no file names, lower it.

    The decision is for any choice.
    """
    policy, source = decision.policy, decision.source
    universe = decision.universe or 1
    cost = view_cost(decision.view, policy.candidates, decision.missing, source, universe=universe)
    return BASE_WEIGHT * math.exp(-cost)


def check_level(decision: Decision) -> None:
    """Check that the tests of a decision have no larger share of delta than its question may have.

    Raises:
        InputError: They have; the message names the member.
    """
    policy, level = decision.policy, decision.level
    if policy.delta is None or level is None:
        return
    whole = policy.delta * (1 if decision.confirmation is None else SEARCH_SHARE)
    weight, share = decision.view_weight, level / whole
    if decision.universe is not None and decision.universe < universe_of(len(decision.asked)):
        raise InputError("not a decision: `universe` is too small for any choice of APIs")
    if (decision.universe or 0) > _LARGEST_UNIVERSE:
        raise InputError("not a decision: `universe` is larger than that of any log")
    if 0 < (decision.first_names or 0) < len(decision.asked):
        raise InputError("not a decision: `first_names` are fewer than the candidates")
    if weight is not None and decision.universe is None:
        raise InputError("not a decision: `universe` is lacking, and a view has a weight")
    if weight is not None and weight > most_weight(decision) * (1 + _ROUNDING):
        raise InputError("not a decision: `view_weight` is more than its view may have")
    if decision.universe is not None and not decision.registered and weight is None:
        raise InputError("not a decision: `view_weight` is lacking")
    most = 1 / 2 if decision.registered else 1 if weight is None else weight
    if share > most * (1 + _ROUNDING):
        raise InputError("not a decision: `level` is more than its question may have")
    # Half of it where questions were registered in the database.
    halves = (weight or 0, (weight or 0) / 2)
    if weight and not any(math.isclose(share, each, rel_tol=_ROUNDING) for each in halves):
        raise InputError("not a decision: `level` is not the share of its `view_weight`")


def _source_cost(source: str) -> float:
    """Tell libraries of ours with a version of numbers from any text."""
    library, space, version = source.partition(" ")
    # Names of ours have half of the weight and all texts the other: the table of views.md.
    if library in _LIBRARIES and (not space or _VERSION.fullmatch(version)):
        numbers = [int(number) for number in version.split(".")] if space else []
        parts = sum(math.log(2) + _count_cost(number) for number in numbers)
        return 2 * math.log(2) + math.log(len(_LIBRARIES)) + parts
    content = source.encode()
    return math.log(2) + _count_cost(len(content)) + 8 * math.log(2) * len(content)


def _time_cost(moment: datetime) -> float:
    """Name a month, day, second or microsecond of a century; half is for this one."""
    if moment.microsecond:
        units = _DAYS * 86_400 * 10**6
    elif moment.time() != time():
        units = _DAYS * 86_400
    else:
        # The first of a month has the shorter name, that of its month.
        units = 1200 if moment.day == 1 else _DAYS
    return math.log(4) + math.log(2 if moment.year in _THIS_CENTURY else 200) + math.log(units)


def _transform_cost(transform: Transform) -> float:
    """Name a constant, whichever; or some of four steps, and a multiple `c 10^e` to round to."""
    if transform.constant is not None:
        return math.log(2)
    if not transform.round:
        return 6 * math.log(2)
    digits = str(transform.round).rstrip("0")
    # c 10^z has the weight 1 / (2^(7+z) c (c+1)): docs/certificate/views.md.
    zeros = len(str(transform.round)) - len(digits)
    return (7 + zeros) * math.log(2) + _count_cost(int(digits) - 1)


def _count_cost(number: int) -> float:
    """Name a whole number from 0 on: its weight is `1 / ((number + 1) (number + 2))`."""
    return math.log((number + 1) * (number + 2))
