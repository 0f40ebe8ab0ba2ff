"""JShelter: the configuration that its advanced options take, with one custom level.

Levels and their ranges: JShelter 0.23. Keys that it does not know, or levels out of range, are
reset without a sign, and a configuration of an older version is converted: that changes levels.
"""

from __future__ import annotations

import json
from typing import Any

from fpmonitor.export.controls import Control, controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec
from fpmonitor.export.exporter import ParsedList, site_matches
from fpmonitor.safe_files import strict_json

FAMILY = "jshelter"
_LEVEL = "fpm"
_VERSION = 7.1
_TEXTS = {"level_id", "level_text", "level_description"}
_HIGHEST = {
    "time_precision": 3, "htmlcanvaselement": 2, "audiobuffer": 2, "webgl": 2, "plugins": 3,
    "enumerateDevices": 3, "hardware": 3, "net": 1, "webworker": 3, "geolocation": 7,
    "physical_environment": 1, "useridle": 3, "coopschedule": 1, "gamepads": 1, "vr": 1,
    "playback": 3, "analytics": 1, "battery": 1, "windowname": 1, "nfc": 1, "wasm": 1,
}  # fmt: skip


def _write(order: ListSpec) -> str:
    """Write the configuration; for one site, that site alone has the level."""
    level = {
        "level_id": _LEVEL,
        "level_text": "fpmonitor",
        "level_description": " ".join(order.comments),
    } | {control.name: control.value for control in order.controls}
    site = order.options.site
    content = {
        "version": _VERSION,
        "__default__": _LEVEL if site is None else "0",
        "custom_levels": {_LEVEL: level},
        "domains": {} if site is None else {site: {"level_id": _LEVEL}},
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _read(text: str, site: str | None) -> ParsedList:
    """Read a configuration; built-in levels are not known and count as nothing."""
    try:
        content = strict_json(text, may_repeat=True)
        levels = content["custom_levels"]
        # What holds on all sites is what all levels do; and on one what all do that name it, since
        # which of them JShelter takes does not depend on their order. What its popup changes for a
        # site comes over the level.
        chosen = [
            levels.get(entry["level_id"], {}) | (entry.get("tweaks") or {})
            for domain, entry in content.get("domains", {}).items()
            if site is None or site_matches(site, domain)
        ]
        if site is None or not chosen:
            chosen.append(levels.get(content.get("__default__"), {}))
        problems = [slip for name, level in levels.items() for slip in _slips(name, level)]
        if content.get("version") != _VERSION:
            problems.append(f"version is not {_VERSION}; JShelter may convert or reset it")
        controls = tuple(
            control
            for control in controls_of([FAMILY])
            if isinstance(control.value, int)
            and all(_reaches(level.get(control.name), control) for level in chosen)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return ParsedList(controls=(), problems=(f"not a configuration of JShelter: {error}",))
    return ParsedList(controls=controls, problems=tuple(problems))


def _slips(name: str, level: dict[str, Any]) -> list[str]:
    return [
        f"level {name}: {key} = {value!r} is not known to JShelter"
        for key, value in level.items()
        if key not in _TEXTS and not _in_range(key, value)
    ]


def _reaches(value: Any, control: Control) -> bool:
    return _in_range(control.name, value) and value >= control.value


def _in_range(key: str, value: Any) -> bool:
    # Not `isinstance`: `True` is an int for Python and no level.
    return type(value) is int and 0 <= value <= _HIGHEST.get(key, -1)


JSHELTER = ControlExporter(
    name=FAMILY,
    summary="configuration for JShelter, with a level of its own",
    families=(FAMILY,),
    write=_write,
    read=_read,
    notes=(
        "Import a list for all sites twice: JShelter takes no default that it does not have yet.",
    ),
)
