"""Collectors and exporters by entry point: ours register the same way as anybody's."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fpmonitor.errors import InputError, UnknownNameError

COLLECTORS = "fpmonitor.collectors"
DEMAND = "fpmonitor.demand"
EXPORTERS = "fpmonitor.exporters"
_CALLED = {
    "chrome": "chromium-policies",
    "chromium": "chromium-policies",
    "edge": "chromium-policies",
    "extension": "webextension",
    "firefox": "firefox-policies",
    "ublock-origin": "ublock",
    "user.js": "firefox-userjs",
}


@cache
def _registered(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def plugin_names(group: str) -> list[str]:
    """Names registered in a group; imports nothing."""
    return sorted({point.name for point in _registered(group)})


def exporter_name(called: str) -> str:
    """Name of the exporter that people call so, as `Firefox`; what nobody registered stays."""
    names = plugin_names(EXPORTERS)
    found = _CALLED.get(called.lower(), called.lower())
    return found if called not in names and found in names else called


def load_plugin(group: str, name: str) -> Any:
    """Import one plug-in.

    Raises:
        UnknownNameError: Nobody registered the name.
        InputError: Two packages registered it, or its import fails.
    """
    names = plugin_names(group)
    name = exporter_name(name) if group == EXPORTERS else name
    named = (point for point in _registered(group) if point.name == name)
    # One entry point may be found at two places of the path: only another object is a second claim.
    found = list({point.value: point for point in named}.values())
    kind = group.rsplit(".", 1)[-1].removesuffix("s")
    if not found:
        raise UnknownNameError(kind, name, names)
    if len(found) > 1:
        packages = ", ".join(sorted(point.value for point in found))
        raise InputError(f"{kind} {name!r} is claimed by {packages}", hint="uninstall all but one")
    try:
        return found[0].load()
    except ImportError as error:
        raise InputError(
            f"{kind} {name!r} ({found[0].value}) cannot be imported: {error}"
        ) from error
