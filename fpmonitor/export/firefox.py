"""Firefox: `policies.json` and `user.js` that switch targets of fingerprinting protection.

Mozilla's policy templates; the parser of the overrides is `nsRFPService::CreateOverridesFromText`.
It passes over slips without a sign: after a space the rest is lost, unknown names are skipped, and
without `privacy.fingerprintingProtection` nothing happens at all. All of that was seen in Firefox
ESR 153.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fpmonitor.export.controls import Control, controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec, changed_by, fits_site
from fpmonitor.export.exporter import ExportOptions, ParsedList, lines_of, site_matches
from fpmonitor.export.firefox_targets import shipped_tables, target_table

TARGETS = "firefox"
PREFERENCES = "firefox-preferences"
_SWITCH = "privacy.fingerprintingProtection"
_OVERRIDES = f"{_SWITCH}.overrides"
_GRANULAR = f"{_SWITCH}.granularOverrides"
_BASELINE = "privacy.baselineFingerprintingProtection"
_RESIST = "privacy.resistFingerprinting"
_EXEMPTED = f"{_RESIST}.exemptedDomains"
_STATUS = {"default", "locked", "user", "clear"}
_IN_POLICIES = (
    "accessibility.", "browser.", "dom.", "extensions.", "geo.", "gfx.", "intl.", "layers.",
    "layout.", "media.", "network.", "pdfjs.", _BASELINE, _SWITCH,
    "privacy.globalprivacycontrol.enabled", "security.", "signon.", "ui.", "webgl.disabled",
    "webgl.force-enabled", "widget.",
)  # fmt: skip
_TEXT = r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_USER_PREF = re.compile(rf"\s*user_pref\(\s*{_TEXT}\s*,\s*{_TEXT}?")
_END_OF_PREF = re.compile(r"\s*\)\s*;\s*")
# In one pass with texts: `/*` in a text, or behind `//`, begins no comment.
_COMMENT = re.compile(
    r"""("(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')|(?://|\#)[^\r\n]*|/\*(?:.*?\*/|.*)""",
    re.DOTALL,
)


def supports(control: Control, options: ExportOptions) -> bool:
    """Whether this version of Firefox has the control, for a site if one is named."""
    known = control.family != TARGETS or control.name in target_table(options.targets).targets
    return known and fits_site(control, options)


def preferences(order: ListSpec) -> dict[str, Any]:
    """Preferences that set the controls.

    They add to Firefox's own protection, which stays on. Where they replace it, targets that are on
    in a stock Firefox stay on where they touch nothing that was decided: switching the protection
    on would otherwise switch them off.
    """
    targets = [control.name for control in order.controls if control.family == TARGETS]
    replaces = order.options.replace_protection
    chosen: dict[str, Any] = {}
    if targets or replaces:
        on = [f"+{name}" for name in _with_stock(order, targets, whole=not replaces)]
        overrides = ",".join([*["-AllTargets"] * replaces, *on])
        chosen[_SWITCH] = True
        if order.options.site is None:
            chosen[_OVERRIDES] = overrides
        else:
            scope = {"firstPartyDomain": order.options.site, "overrides": overrides}
            chosen[_GRANULAR] = json.dumps([scope], separators=(",", ":"))
    return chosen | {
        control.name: control.value for control in order.controls if control.family == PREFERENCES
    }


def write_policies(order: ListSpec) -> str:
    """Write `policies.json`."""
    locked = {
        name: {"Value": value, "Status": "locked"} for name, value in preferences(order).items()
    }
    return json.dumps({"policies": {"Preferences": locked}}, indent=2) + "\n"


def write_userjs(order: ListSpec) -> str:
    """Write lines for `user.js`."""
    lines = [f"// {line}" for line in order.comments]
    lines += [
        f"user_pref({json.dumps(name)}, {json.dumps(value)});"
        for name, value in preferences(order).items()
    ]
    return "\n".join(lines) + "\n"


def read_policies(text: str, site: str | None) -> ParsedList:
    """Read `policies.json`."""
    try:
        entries = json.loads(text)["policies"].get("Preferences", {})
        found = {
            name: entry if isinstance(entry, dict) else {"Value": entry}
            for name, entry in entries.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"Firefox ignores the whole file: not JSON of policies ({error})"
        return ParsedList(controls=(), problems=(problem,))
    problems = [
        f"{name}: Status is none of {', '.join(sorted(_STATUS))}"
        for name, entry in found.items()
        if str(entry.get("Status", "user")) not in _STATUS
    ]
    problems += [
        f"{name}: Firefox does not accept it from policies"
        for name in found
        if not name.startswith(_IN_POLICIES)
    ]
    accepted = {
        name: entry.get("Value")
        for name, entry in found.items()
        if name.startswith(_IN_POLICIES) and str(entry.get("Status", "user")) in _STATUS - {"clear"}
    }
    return _read_preferences(accepted, site, problems)


def read_userjs(text: str, site: str | None) -> ParsedList:
    """Read `user.js`."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    for number, line in enumerate(lines_of(_COMMENT.sub(r"\1", text)), start=1):
        end = 0
        try:
            while line[end:].strip():  # Firefox reads several on a line
                name, value, end = _user_pref(line, end)
                found[name] = value
        except (ValueError, RecursionError):
            problems.append(f"line {number} is not a user_pref; Firefox stops or skips there")
    return _read_preferences(found, site, problems)


def _user_pref(line: str, start: int) -> tuple[str, Any, int]:
    """Read name, value and end of a preference; raises ValueError where it is none."""
    match = _USER_PREF.match(line, start)
    if not match:
        raise ValueError("no user_pref")
    value, end = match[2] and _text_of(match[2]), match.end()
    if value is None:
        value, end = json.JSONDecoder().raw_decode(line, end)
    if not (closing := _END_OF_PREF.match(line, end)):
        raise ValueError("no end of a user_pref")
    return _text_of(match[1]), value, closing.end()


def _text_of(quoted: str) -> str:
    """Read a text of JavaScript, in quotes of either kind."""
    if quoted.startswith("'"):
        inner = quoted[1:-1].replace("\\'", "'")
        quoted = '"' + re.sub(r'(?<!\\)"', r"\"", inner) + '"'
    text: str = json.loads(quoted)
    return text


def read_overrides(text: str, start: Iterable[str]) -> tuple[set[str], list[str]]:
    """Return the targets that are on after overrides, and their mistakes, as Firefox reads them.

    The text is as in `-AllTargets,+JSDateTimeUTC`; `start` is on without overrides.
    """
    every = {name for table in shipped_tables().values() for name in table.targets}
    on, problems = set(start), []
    for position, item in enumerate(text.split(",") if text else []):
        if not re.fullmatch(r"[+-]\w+", item):
            problems.append(f"{item!r}: Firefox stops reading here, the rest is lost")
            break
        sign, name = item[0], item[1:]
        if name == "AllTargets":
            if position:
                problems.append("AllTargets is not first and undoes what comes before it")
            on = set(every) if sign == "+" else set()
        elif name not in every:
            problems.append(f"{name}: no such target; Firefox skips it")
        elif sign == "+":
            on.add(name)
        else:
            on.discard(name)
    return on, problems


def _with_stock(order: ListSpec, targets: list[str], *, whole: bool) -> list[str]:
    """Return targets with those of a stock Firefox: all, or those that touch nothing decided."""
    known = {control.name: control for control in controls_of([TARGETS])}
    stock = [
        name
        for name in target_table(order.options.targets).baseline
        if whole or (name in known and not changed_by([known[name]], order.decided))
    ]
    return list(dict.fromkeys([*targets, *stock]))


def _read_preferences(
    found: Mapping[str, Any], site: str | None, problems: list[str]
) -> ParsedList:
    on = _targets_on(found, site, problems)
    controls = [control for control in controls_of([TARGETS]) if control.name in on]
    controls += [
        control
        for control in controls_of([PREFERENCES])
        if control.name in found and found[control.name] == control.value
    ]
    return ParsedList(controls=tuple(controls), problems=tuple(problems))


def _targets_on(found: Mapping[str, Any], site: str | None, problems: list[str]) -> set[str]:
    newest = list(shipped_tables().values())[-1]
    exempted = re.findall(r"[^,\s]+", str(found.get(_EXEMPTED) or ""))
    if any(site is None or site_matches(site, one.removeprefix("*.")) for one in exempted):
        return set()
    if found.get(_RESIST) is True:
        return set(newest.targets)  # it ignores all overrides
    protected = found.get(_SWITCH) is True
    if not protected and {_OVERRIDES, _GRANULAR} & set(found):
        problems.append(f"without {_SWITCH} = true the overrides do nothing")
    start = set(newest.protection if protected else newest.baseline)
    if found.get(_BASELINE) is False and not protected:
        start = set()
    overrides = found.get(_OVERRIDES if protected else f"{_BASELINE}.overrides", "")
    on, slips = read_overrides(str(overrides), start)
    problems += slips
    if protected and _GRANULAR in found:
        on = _granular(found[_GRANULAR], on, site, problems)
    return on


def _granular(text: Any, on: set[str], site: str | None, problems: list[str]) -> set[str]:
    """Targets on a site: the narrowest scope holds alone, it starts from the global set."""
    try:
        scopes = [
            (scope["firstPartyDomain"], scope["overrides"])
            for scope in json.loads(text)
            if "thirdPartyDomain" not in scope and not scope.get("isBaseline")
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problems.append(f"{_GRANULAR}: Firefox ignores it ({error})")
        return on
    result = on
    for domain, overrides in sorted(scopes, key=lambda scope: scope[0] != "*"):
        targets, slips = read_overrides(str(overrides), on)
        problems += slips
        if domain == "*" or site_matches(site, domain):
            result = targets
        elif site is None:
            result = result & targets  # what holds on all sites
    return result


def _is_own(control: Control, options: ExportOptions) -> bool:
    """Whether this version of Firefox protects by a control unless it is told otherwise."""
    table = target_table(options.targets)
    return control.name in {*table.baseline, *table.protection}


POLICIES = ControlExporter(
    name="firefox-policies",
    summary="policies.json, for managed Firefox",
    families=(TARGETS, PREFERENCES),
    write=write_policies,
    read=read_policies,
    supports=supports,
    notes=(
        "Needs Firefox 141 or ESR 140.1 and newer.",
        "A site is its registrable domain: example.com, not www.example.com.",
    ),
    own_protection="Firefox's own fingerprinting protection by these targets",
    is_own=_is_own,
)
USERJS = replace(
    POLICIES,
    name="firefox-userjs",
    summary="user.js or user-overrides.js, for one's own Firefox",
    write=write_userjs,
    read=read_userjs,
)
