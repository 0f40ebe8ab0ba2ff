"""Controls: what a product can do about an API, from the table in `controls.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Effect = Literal["removed", "constant", "noise", "coarsened", "unchanged"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
HIDING: frozenset[Effect] = frozenset({"removed", "constant", "noise"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Something that a product can be told to do, and what it does to APIs.

    Attributes
    ----------
    family, name
        Where it belongs, and its name in the product.
    effects
        API -> effect. `removed`, `constant` and `noise` leave nothing that distinguishes users;
        `coarsened` leaves fewer values; `unchanged` removes a request header only.
    value
        What the control is set to, where the product wants a value.
    site_name
        Name of the control when it is for one site.
    any_site
        Whether it can be restricted to a site.
    seen
        Product and version in which the change was seen, or the empty string.
    note
        What to know about it, or the empty string.
    """

    family: str
    name: str
    effects: Mapping[str, Effect] = field(hash=False)
    value: str | int | bool | None = None
    site_name: str = ""
    any_site: bool = True
    seen: str = ""
    note: str = ""

    def effect_on(self, api: str) -> Effect | None:
        """Effect on an API: by its name, by the name without selector, or by the way to it."""
        own = self.effects.get(api) or self.effects.get(api.partition("#")[0])
        if own is None and self.effects.get(_way_to(api)) == "removed":
            return "removed"
        return own

    def hides(self, api: str) -> bool:
        """Whether nothing that distinguishes users can be read from the API any more."""
        return self.effect_on(api) in HIDING


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
    return frozenset(api for family in families for api in _table()[family].get("absent", ()))


def effect_of(
    api: str, controls: Iterable[Control], absent: frozenset[str] = frozenset()
) -> Effect | None:
    """Strongest effect of some controls on an API; an API that is not there is removed."""
    if absent & {api, api.partition("#")[0], _way_to(api)}:
        return "removed"
    found = {control.effect_on(api) for control in controls}
    return next((effect for effect in EFFECTS if effect in found), None)


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
        effects={api: effect for effect in reversed(EFFECTS) for api in row.get(effect, ())},
        **{key: entry for key, entry in row.items() if key not in EFFECTS},
    )
