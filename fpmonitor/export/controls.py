"""Controls: what a product can do about an API, and whether it does so.

`controls.toml` has what they are said to do; `Product` corrects that by what was found when the
product was run. Every answer about a list goes by `effect_of`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.export.evidence import ControlEvidence

Effect = Literal["removed", "constant", "noise", "untried", "evaded", "coarsened", "unchanged"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
HIDING: frozenset[Effect] = frozenset({"removed", "constant", "noise"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Something that a product can be told to do, and what it is said to do to APIs."""

    # family, name: Where it belongs, and its name in the product.
    family: str
    name: str
    # API -> effect. `removed`, `constant` and `noise` leave nothing that distinguishes users;
    # `coarsened` leaves fewer values; `unchanged` removes a request header only. What was found in
    # the product makes `untried` or `evaded` of them: nobody looked, or scripts get round it.
    effects: Mapping[str, Effect] = field(hash=False)
    # What the control is set to, where the product wants a value.
    value: str | int | bool | None = None
    site_name: str = ""  # Name of the control when it is for one site.
    # Rules that are written with it, for other names of the same API.
    also: Sequence[str] = field(hash=False, default=())
    any_site: bool = True  # Whether it can be restricted to a site.
    note: str = ""  # What to know about it, or the empty string.

    def effect_on(self, api: str) -> Effect | None:
        """Effect on an API: by its name, by the name without selector, or by the way to it."""
        own = self.effects.get(api) or self.effects.get(api.partition("#")[0])
        # With what hands out objects their members are gone.
        way = self.effects.get(_way_to(api))
        return way if own is None and way == "removed" else own

    def hides(self, api: str) -> bool:
        """Whether it is said to leave nothing that distinguishes users."""
        return self.effect_on(api) in HIDING


@dataclass(frozen=True, slots=True)
class Product:
    """What is known of a product beside its controls."""

    absent: frozenset[str] = frozenset()  # APIs that it does not have.
    # What was found when it was run; null where its controls are to be believed.
    evidence: ControlEvidence | None = field(default=None, compare=False)
    by_layout: bool = True  # Whether what else tells an API counts where it is laid out or drawn.

    def lacks(self, api: str) -> bool:
        """Whether it does not have the API, nor what hands it out."""
        return bool(self.absent & {api, api.partition("#")[0], _way_to(api)})


BELIEVED = Product()


def controls_of(families: Iterable[str]) -> tuple[Control, ...]:
    """Return the controls of some families, in the order of the table."""
    return tuple(
        _control(family, name, row)
        for family in families
        for name, row in _table()[family].items()
        if isinstance(row, dict)
    )


def absent_apis(families: Iterable[str]) -> frozenset[str]:
    """APIs that the product of these families does not have."""
    return frozenset(
        api for family in ("nowhere", *families) for api in _table()[family].get("absent", ())
    )


def effect_of(api: str, controls: Iterable[Control], product: Product = BELIEVED) -> Effect | None:
    """Strongest effect of some controls on an API; an API that is not there is removed.

    What was found in the product decides: `evaded` where a place or a cleaning of noise still reads
    the API, `untried` where no reader told whether it is hidden, and `constant` where nothing tells
    the API any more, whatever the control is said to do.
    """
    if product.lacks(api):
        return "removed"
    controls = tuple(controls)
    # EFFECTS begins with the strongest.
    said = {control.effect_on(api) for control in controls}
    claimed = next((effect for effect in EFFECTS if effect in said), None)
    if product.evidence is None:
        return claimed
    ways = product.evidence.ways_of(api) or product.evidence.ways_of(_way_to(api))
    if not ways:
        believed = claimed not in HIDING or product.evidence.told_nothing(api)
        return claimed if believed else "untried"
    still = ways - product.evidence.closed(control.name for control in controls)
    if still:
        return "evaded" if claimed in HIDING else claimed
    if not product.evidence.is_whole(ways):
        return "untried" if claimed in HIDING else claimed
    # Two environments may fall into the same of a few values.
    return claimed if claimed in HIDING or claimed == "coarsened" else "constant"


def _way_to(api: str) -> str:
    """Name the API that alone hands out objects of this one's interface, or the empty string."""
    way: str = _table()["reached-through"].get(api.partition(".")[0], "")
    return way


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = (resources.files("fpmonitor.export") / "controls.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _control(family: str, name: str, row: Mapping[str, Any]) -> Control:
    return Control(
        family=family,
        name=name,
        # The strongest last: of two effects of a row on an API it stays.
        effects={api: effect for effect in reversed(EFFECTS) for api in row.get(effect, ())},
        **{key: entry for key, entry in row.items() if key not in EFFECTS},
    )
