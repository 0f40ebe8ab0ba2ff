"""A Manifest V3 extension for Chromium and Firefox that withholds what a decision does not allow.

A script in the page's own world answers in place of the browser, in all frames and workers that it
can reach; rules of `declarativeNetRequest` change request headers. What no extension reaches is
said by the verdicts: style sheets, service workers, what lies below HTTP.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from fpmonitor.export.controls import controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec
from fpmonitor.export.exporter import ParsedList, site_matches
from fpmonitor.export.gate_js import script_safe
from fpmonitor.safe_files import canonical_text, strict_json

FAMILY = "webextension"
_PLACE = "/* what is withheld */ null"
_MANIFEST, _SCRIPT, _RULES, _README = "manifest.json", "page.js", "rules.json", "README.txt"
# Names of one value.
_SAME = {
    "Screen.colorDepth": "Screen.pixelDepth",
    "Screen.pixelDepth": "Screen.colorDepth",
    "StorageAccessHandle.estimate": "StorageManager.estimate",
    "StorageBucket.estimate": "StorageManager.estimate",
    "http:device-memory": "Navigator.deviceMemory",
    "http:downlink": "NetworkInformation.downlink",
    "http:ect": "NetworkInformation.effectiveType",
    "http:rtt": "NetworkInformation.rtt",
    "http:save-data": "NetworkInformation.saveData",
    "http:sec-ch-device-memory": "Navigator.deviceMemory",
    "http:user-agent": "Navigator.userAgent",
    "Navigator.userAgent": "http:user-agent",
}
# Headers that say in other words what scripts are told.
_HINTS = {
    "http:sec-ch-ua": "NavigatorUAData.brands",
    "http:sec-ch-ua-mobile": "NavigatorUAData.mobile",
    "http:sec-ch-ua-platform": "NavigatorUAData.platform",
}
# Where scripts of an extension do not run, and nothing of theirs can be wrapped.
_BEYOND = frozenset(["a style sheet", "a service worker", "an audio worklet"])
_EVERYWHERE = "<all_urls>"
_RESOURCES = (
    *("main_frame", "sub_frame", "stylesheet", "script", "image", "font", "object"),
    *("xmlhttprequest", "ping", "csp_report", "media", "websocket", "other"),
)
# Chromium makes the window of an object when it lays the page out, of which no script is told.
_NO_OBJECTS = {
    "header": "content-security-policy",
    "operation": "append",
    "value": "object-src 'none'",
}


def _write(order: ListSpec) -> str:
    """Write the files of the extension as one JSON document: name -> text."""
    apis = [api for control in order.controls for api in (*control.effects, *control.also)]
    site = order.options.site
    values = {api: _value(api, order) for api in apis}
    withheld = {api: value for api, value in values.items() if not api.startswith("http:")}
    headers = {api: value for api, value in values.items() if api.startswith("http:")}
    script = _code().replace(_PLACE, script_safe(json.dumps(withheld, indent=1)))
    files = {
        _MANIFEST: json.dumps(_manifest(site, script), indent=2) + "\n",
        _SCRIPT: script,
        _RULES: json.dumps(_rules(headers, site, has_script=bool(withheld)), indent=2) + "\n",
        _README: "\n".join([*order.comments, ""]),
    }
    return json.dumps(files, indent=1) + "\n"


def unpack(text: str) -> dict[str, str]:
    """Return the files of the extension: name -> text."""
    files: dict[str, str] = strict_json(text, may_repeat=True)
    return files


def _read(text: str, site: str | None) -> ParsedList:
    """Read the files of an extension: the controls whose APIs it withholds on a site."""
    try:
        files = unpack(text)
        manifest, rules = strict_json(files[_MANIFEST]), strict_json(files[_RULES])
        where = manifest["host_permissions"]
        here = where[0].removeprefix("*://").removesuffix("/*")
        restricted = None if here == _EVERYWHERE else here
        before, after = _code().split(_PLACE)
        script = files[_SCRIPT]
        # All but what is withheld must be ours: other code may hide nothing.
        if not (script.startswith(before) and script.endswith(after)):
            return ParsedList(controls=(), problems=("the code is not the one of this version",))
        withheld = json.loads(script[len(before) : -len(after)])
        headers = {
            f"http:{header['header']}": header.get("value")
            for rule in rules
            for header in rule["action"].get("requestHeaders", ())
        }
        ours = _manifest(restricted, script)
        # As texts: 1 is `true` in Python, and no browser loads an extension that has it there.
        edited = [
            name
            for name, value in ours.items()
            if canonical_text(manifest.get(name)) != canonical_text(value)
        ]
        edited += sorted(manifest.keys() - ours.keys())
        own_rules = _rules(headers, restricted, has_script=bool(withheld))
        if edited or canonical_text(rules) != canonical_text(own_rules):
            what = edited[0] if edited else _RULES
            return ParsedList(controls=(), problems=(f"{what}: not as this version writes it",))
        found = {*withheld, *headers}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return ParsedList(controls=(), problems=(f"not an extension: {error}",))
    if restricted is not None and not site_matches(site, restricted):
        found = set()
    controls = controls_of([FAMILY])
    return ParsedList(
        controls=tuple(one for one in controls if found.issuperset((*one.effects, *one.also)))
    )


def _value(api: str, order: ListSpec) -> str | None:
    """Return the value that all are told: the same by all names of it; null where none is known."""
    values = order.options.values
    named = _SAME.get(api, api.replace("WorkerNavigator.", "Navigator."))
    found = next((values[name] for name in (api, named) if name in values), None)
    agent = values.get("Navigator.userAgent", "")
    if found is None and named == "Navigator.appVersion" and agent.startswith("Mozilla/"):
        return agent.removeprefix("Mozilla/")
    if found is None and _HINTS.get(api) in values:
        return _as_header(values[_HINTS[api]])
    return found


def _as_header(text: str) -> str | None:
    """Return what scripts are told as a header says it (RFC 9651); null where it has no words."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, bool):
        return "?1" if value else "?0"
    if not isinstance(value, list):
        return _in_quotes(text)
    try:
        parts = [f"{_in_quotes(one['brand'])};v={_in_quotes(one['version'])}" for one in value]
    except (TypeError, KeyError, AttributeError):
        return None
    return ", ".join(parts)


def _in_quotes(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _manifest(site: str | None, script: str) -> dict[str, Any]:
    where = [_EVERYWHERE] if site is None else [f"*://{site}/*", f"*://*.{site}/*"]
    # Another script is another version, whose parts are at most 65,535.
    digest = int(hashlib.sha256(script.encode()).hexdigest()[:8], 16)
    return {
        "manifest_version": 3,
        "name": "fpmonitor",
        "description": "Withholds what a decision of fpmonitor does not allow.",
        "version": f"1.{digest >> 16}.{digest & 0xFFFF}",
        # The first versions that know `match_origin_as_fallback`; in Firefox also `world`.
        "minimum_chrome_version": "119",
        "browser_specific_settings": {
            "gecko": {"id": "fpmonitor@fpmonitor.invalid", "strict_min_version": "128.0"}
        },
        "permissions": ["declarativeNetRequest"],
        "host_permissions": where,
        "content_scripts": [
            {
                "matches": where,
                "js": [_SCRIPT],
                "run_at": "document_start",
                "world": "MAIN",
                "all_frames": True,
                "match_origin_as_fallback": True,
            }
        ],
        "declarative_net_request": {
            "rule_resources": [{"id": "headers", "enabled": True, "path": _RULES}]
        },
    }


def _rules(
    headers: Mapping[str, str | None], site: str | None, *, has_script: bool
) -> Sequence[Mapping[str, Any]]:
    changes = [_change(api.removeprefix("http:"), value) for api, value in headers.items()]
    found: list[tuple[str, Any, Sequence[str]]] = []
    if changes:
        found.append(("requestHeaders", changes, _RESOURCES))
    if has_script:
        found.append(("responseHeaders", [_NO_OBJECTS], ("main_frame", "sub_frame")))
    where = {} if site is None else {"requestDomains": [site]}
    return [
        {
            "id": number,
            "priority": 1,
            "action": {"type": "modifyHeaders", part: changed},
            "condition": {"resourceTypes": list(of), **where},
        }
        for number, (part, changed, of) in enumerate(found, start=1)
    ]


def _change(header: str, value: str | None) -> dict[str, str]:
    # Browsers refuse all rules for one value that no header can have.
    if value is None or not (value.isascii() and value.isprintable()):
        return {"header": header, "operation": "remove"}
    return {"header": header, "operation": "set", "value": value}


def _code() -> str:
    return (resources.files("fpmonitor.export") / "webextension.js").read_text(encoding="utf-8")


WEBEXTENSION = ControlExporter(
    name=FAMILY,
    summary="extension for Chromium and Firefox",
    families=(FAMILY,),
    write=_write,
    read=_read,
    supports=lambda _control, _options: True,
    unpack=unpack,
    beyond=_BEYOND,
    with_siblings=True,
    notes=(
        "Load the folder as an unpacked extension; in Firefox, grant it access to all sites.",
        "Beyond reach: style sheets, service workers, worklets, what lies below HTTP.",
        "Beyond reach: windows that a link opens with a script for its address.",
        "Beyond reach: in shadow trees that pages have as text, frames in options or with scripts.",
        "Beyond reach: a script beside a frame in one text that a page with Trusted Types writes.",
        "Where a page's policy forbids blob:, its workers do not start.",
        "Not shown: PDF, SVG and pages in <object> or <embed>.",
        "Refused: insertHTML of frames beside what runs at once, and elements that extend frames.",
        "Refused in pages with elements of their own: commands of editors that hold frames.",
        "An option holds no frame: those that pages put in are taken out.",
        "Where the screen's size or pixel ratio is withheld, popups open at its corner and stay.",
    ),
)
