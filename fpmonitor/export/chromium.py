"""Chromium and Chrome: enterprise policies.

No policy reaches canvas, audio, hardware concurrency, screen or time zone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fpmonitor.export.controls import Control, controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec
from fpmonitor.export.exporter import ParsedList, may_match, site_matches
from fpmonitor.safe_files import strict_json

FAMILY = "chromium"


def _write(order: ListSpec) -> str:
    """Write a file of managed policies."""
    site = order.options.site
    policies = {
        # One policy is for all sites, another one lists those that it is for.
        control.name if site is None else control.site_name: (
            control.value if site is None else [f"[*.]{site}"]
        )
        for control in order.controls
    }
    return json.dumps(policies, indent=2) + "\n"


def _read(text: str, site: str | None) -> ParsedList:
    """Read a file of managed policies; those that are not about APIs are passed over."""
    try:
        policies = dict(strict_json(text, may_repeat=True))
    except (ValueError, TypeError, RecursionError) as error:
        problem = f"Chromium ignores the whole file: not a JSON object ({error})"
        return ParsedList(controls=(), problems=(problem,))
    known = controls_of([FAMILY])
    problems = tuple(
        f"{control.name}: must be of the kind of {control.value!r}"
        for control in known
        if control.name in policies and type(policies[control.name]) is not type(control.value)
    )
    return ParsedList(
        controls=tuple(control for control in known if _is_on(control, policies, site)),
        problems=problems,
    )


def _is_on(control: Control, policies: Mapping[str, Any], site: str | None) -> bool:
    def listed(name: str) -> list[str]:
        patterns = policies.get(name, []) if name else []
        return [*map(str, patterns if isinstance(patterns, list) else [])]

    # An exception counts wherever it may be meant.
    allowed = control.site_name.replace("Blocked", "Allowed")
    hosts = (one.rpartition("://")[2].removeprefix("[*.]") for one in listed(allowed))
    if allowed != control.site_name and any(may_match(site, host) for host in hosts):
        return False
    value = policies.get(control.name)
    # `True == 1` in Python; they are policies of two kinds.
    if type(value) is type(control.value) and value == control.value:
        return True
    return any(_covers(pattern, site) for pattern in listed(control.site_name))


def _covers(pattern: str, site: str | None) -> bool:
    """Whether a pattern holds on a site: one without `[*.]` means a host, and none below it."""
    host = pattern.removeprefix("https://")
    domain = host.removeprefix("[*.]")
    return site == host or (domain != host and site_matches(site, domain))


CHROMIUM = ControlExporter(
    name="chromium-policies",
    summary="managed policies for Chromium and Chrome",
    families=(FAMILY,),
    write=_write,
    read=_read,
)
