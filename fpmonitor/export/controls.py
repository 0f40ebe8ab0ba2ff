"""Controls: what a product can do about an API, from the table in `controls.toml`.

What they leave open was measured: `evasion.json` holds, for each product, the ways by which a page
tried to read each API beside them.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Effect = Literal["removed", "constant", "noise", "evaded", "coarsened", "unchanged"]
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
        `evaded` hides the API from scripts that do not try to get round it; `coarsened` leaves
        fewer values; `unchanged` removes a request header only.
    ways
        API that is evaded -> what still reads it.
    value
        What the control is set to, where the product wants a value.
    site_name
        Name of the control when it is for one site.
    also
        Rules that are written with it, for other names of the same API.
    any_site
        Whether it can be restricted to a site.
    note
        What to know about it, or the empty string.
    """

    family: str
    name: str
    effects: Mapping[str, Effect] = field(hash=False)
    ways: Mapping[str, tuple[str, ...]] = field(hash=False, default_factory=dict)
    value: str | int | bool | None = None
    site_name: str = ""
    also: Sequence[str] = field(hash=False, default=())
    any_site: bool = True
    note: str = ""

    def effect_on(self, api: str) -> Effect | None:
        """Effect on an API: by its name, by the name without selector, or by the way to it."""
        own = self.effects.get(api) or self.effects.get(api.partition("#")[0])
        way = self.effects.get(_way_to(api))
        return way if own is None and way in {"removed", "evaded"} else own

    def ways_to(self, api: str) -> tuple[str, ...]:
        """Return what still reads an API, by any of the names that `effect_on` goes by."""
        base = api.partition("#")[0]
        return next(
            (self.ways[name] for name in (api, base, _way_to(api)) if name in self.ways), ()
        )

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


@cache
def _open_ways(family: str) -> dict[str, frozenset[str]]:
    """Return API -> ways by which it was read beside the controls of a family."""
    text = (resources.files("fpmonitor.export") / "evasion.json").read_text(encoding="utf-8")
    content = json.loads(text)
    found: dict[str, frozenset[str]] = {}
    for run in content["runs"]:
        if family in run["families"]:
            for api, tried in run["apis"].items():
                found[api] = found.get(api, frozenset()) | {
                    content["ways"][way] for way in tried.get("open", "").split()
                }
    return found


def _ways(family: str, api: str, together: Iterable[str]) -> tuple[str, ...]:
    """Return the ways to an API or a selector of it; if none was tried, to its companions."""
    tried = _open_ways(family)
    for names in ({api, api.partition("#")[0]}, set(together)):
        known = [ways for name, ways in tried.items() if {name, name.partition("#")[0]} & names]
        if known:
            return tuple(sorted(frozenset().union(*known)))
    return ()


def _control(family: str, name: str, row: Mapping[str, Any]) -> Control:
    effects = {api: effect for effect in reversed(EFFECTS) for api in row.get(effect, ())}
    hidden = [api for api, effect in effects.items() if effect in HIDING]
    ways = {api: found for api in hidden if (found := _ways(family, api, hidden))}
    return Control(
        family=family,
        name=name,
        effects=effects | dict.fromkeys(ways, "evaded"),
        ways=ways,
        **{key: entry for key, entry in row.items() if key not in EFFECTS},
    )
