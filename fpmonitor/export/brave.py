"""Brave: exceptions from its randomisation, which is on everywhere else.

A list of exceptions can only allow: it names what a site may read unchanged. Names as in Brave's
list of web compatibility exceptions.
"""

from __future__ import annotations

import json
from typing import Any

from fpmonitor.export.controls import controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec, changed_by
from fpmonitor.export.exporter import ParsedList, may_match
from fpmonitor.safe_files import strict_json

FAMILY = "brave"
_EVERYTHING = "all-fingerprinting"
_NAMES = {
    _EVERYTHING, "audio", "canvas", "device-memory", "eventsource-pool", "font",
    "hardware-concurrency", "keyboard", "language", "media-devices", "plugins", "referrer",
    "screen", "speech-synthesis",
    "usb-device-serial-number", "user-agent", "webgl", "webgl2", "websockets-pool",
}  # fmt: skip


def _write(order: ListSpec) -> str:
    """Write exceptions for the allowed APIs that no blocked one shares a name with.

    An exception lowers Brave's own protection, so there is none unless that was asked for.
    """
    exceptions = [
        control.name
        for control in controls_of([FAMILY])
        if order.options.replace_protection
        and control not in order.controls
        and changed_by([control], order.allowed)
    ]
    include = f"*://*.{order.options.site}/*" if order.options.site else "*://*/*"
    entries = [{"include": [include], "exceptions": exceptions, "issue": ""}] if exceptions else []
    return json.dumps(entries, indent=2) + "\n"


def _read(text: str, site: str | None) -> ParsedList:
    """Read a list of exceptions: every control that no exception lifts is in force."""
    try:
        entries = strict_json(text, may_repeat=True)
        lifted = {
            name
            for entry in entries
            if any(_matches(pattern, site) for pattern in entry["include"])
            for name in entry["exceptions"]
        }
        problems = tuple(
            f"{name}: Brave knows no such exception"
            for entry in entries
            for name in entry["exceptions"]
            if name not in _NAMES
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return ParsedList(controls=(), problems=(f"not a list of exceptions: {error}",))
    in_force = [
        control for control in controls_of([FAMILY]) if not {control.name, _EVERYTHING} & lifted
    ]
    return ParsedList(controls=tuple(in_force), problems=problems)


def _matches(pattern: Any, site: str | None) -> bool:
    """Whether a match pattern may reach a site (null: any site, so that nothing is called safe)."""
    host = str(pattern).partition("://")[2].partition("/")[0].removeprefix("*.")
    return may_match(site, host)


BRAVE = ControlExporter(
    name=FAMILY,
    summary="exceptions for Brave's Shields: the allow list",
    families=(FAMILY,),
    write=_write,
    read=_read,
    own_protection="Brave's own protection by exceptions for what a site may read",
    notes=("Holds where Shields randomise; users may turn them down. Not run in Brave.",),
)
