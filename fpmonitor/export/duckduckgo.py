"""DuckDuckGo: features of its privacy configuration, for its engineers and forks.

`apiManipulation` removes a member or gives its getter a constant, by the path
`Interface.prototype.member`; `conditionalChanges` restricts that to a site by JSON Patch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fpmonitor.export.controls import Control, controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec
from fpmonitor.export.exporter import ParsedList, may_match, site_matches
from fpmonitor.safe_files import strict_json

FAMILY = "duckduckgo"
_MANIPULATION = "apiManipulation"
_CONDITIONS = {"rollout", "minSupportedVersion", "targets"}


def _write(order: ListSpec) -> str:
    """Write the features that are on."""
    features: dict[str, Any] = {
        control.name: _feature({}) for control in order.controls if control.value is None
    }
    changes = {
        control.name: _change(control) for control in order.controls if control.value is not None
    }
    if changes:
        features[_MANIPULATION] = _feature(_settings(changes, order.options.site))
    return json.dumps(features, indent=2) + "\n"


def _read(text: str, site: str | None) -> ParsedList:
    """Read features; those that are not about fingerprinting are passed over."""
    try:
        features = strict_json(text, may_repeat=True)
        # A whole configuration, or the features alone, as they are written here.
        spared = features.get("unprotectedTemporary", []) if "features" in features else []
        features = features.get("features", features)
        on = {
            name: feature.get("settings", {})
            for name, feature in features.items()
            if feature["state"] == "enabled"
            and not _CONDITIONS & feature.keys()
            and not any(
                may_match(site, entry["domain"]) for entry in (*feature["exceptions"], *spared)
            )
        }
        changes = _changes(on.get(_MANIPULATION, {}), site)
        problems = (
            *(
                f"{name}: for some of the users alone ({condition}), so it counts as off"
                for name, feature in features.items()
                for condition in sorted(_CONDITIONS & feature.keys())
            ),
            *(
                f"{path}: {change!r} is not a change of an API; it is passed over"
                for path, change in changes.items()
                if not _is_change(change)
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return ParsedList(controls=(), problems=(f"not a privacy configuration: {error}",))
    controls = tuple(
        control
        for control in controls_of([FAMILY])
        if control.name in on or _is_change(changes.get(control.name))
    )
    return ParsedList(controls=controls, problems=problems)


def _feature(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"state": "enabled", "exceptions": [], "settings": dict(settings)}


def _change(control: Control) -> dict[str, Any]:
    if control.value == "remove":
        return {"type": "remove"}
    kind = "boolean" if isinstance(control.value, bool) else "number"
    return {"type": "descriptor", "getterValue": {"type": kind, "value": control.value}}


def _settings(changes: Mapping[str, Any], site: str | None) -> dict[str, Any]:
    if site is None:
        return {"apiChanges": dict(changes)}
    patches = [
        {"op": "add", "path": f"/apiChanges/{path}", "value": change}
        for path, change in changes.items()
    ]
    condition = {"condition": {"domain": site}, "patchSettings": patches}
    return {"apiChanges": {}, "conditionalChanges": [condition]}


def _changes(settings: Mapping[str, Any], site: str | None) -> dict[str, Any]:
    changes = dict(settings.get("apiChanges", {}))
    conditionals = [
        # One, several, or none beside a pattern; `domains` is the form of before.
        *(
            (entry["condition"].get("domain"), entry["condition"].keys() <= {"domain"}, entry)
            for entry in settings.get("conditionalChanges", ())
        ),
        *((entry["domain"], True, entry) for entry in settings.get("domains", ())),
    ]
    for domain, is_alone, conditional in conditionals:
        for patch in conditional["patchSettings"]:
            path = patch["path"].removeprefix("/apiChanges/")
            is_new = patch["op"] in {"add", "replace"} and path != patch["path"]
            if is_new and _is_change(patch["value"]):
                # Beside a domain all other conditions must be met, too: addresses, versions.
                if is_alone and isinstance(domain, str) and site_matches(site, domain):
                    changes[path] = patch["value"]
            # What takes a change back counts wherever it may: doubt goes against the list.
            elif may_match(site, domain):
                for gone in {patch["path"], patch.get("from", patch["path"])}:  # what moves is gone
                    if "/apiChanges".startswith(gone):  # of all, or of all settings
                        changes.clear()
                    # Also of a part of a change.
                    changes.pop(gone.removeprefix("/apiChanges/").partition("/")[0], None)
    return changes


def _is_change(change: Any) -> bool:
    if not isinstance(change, dict):
        return False
    value = change.get("getterValue")
    return change.get("type") == "remove" or (
        change.get("type") == "descriptor"
        and isinstance(value, dict)
        and value.get("type")
        in {"undefined", "number", "string", "function", "boolean", "null", "array", "object"}
    )


DUCKDUCKGO = ControlExporter(
    name=FAMILY,
    summary="features of DuckDuckGo's privacy configuration",
    families=(FAMILY,),
    write=_write,
    read=_read,
    notes=("Released apps take it from DuckDuckGo only.",),
)
