"""Firefox: `policies.json` and `user.js` that switch targets of fingerprinting protection.

Mozilla's policy templates; the parser of the overrides is `nsRFPService::CreateOverridesFromText`.
It passes over slips without a sign: after a space the rest is lost, unknown names are skipped, and
without `privacy.fingerprintingProtection` nothing happens at all. All of that was seen in Firefox
ESR 153.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from fpmonitor.errors import InputError
from fpmonitor.export.controls import Control, controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec, changed_by, fits_site
from fpmonitor.export.exporter import (
    ExportOptions,
    ParsedList,
    lines_of,
    may_match,
    site_matches,
)
from fpmonitor.export.firefox_targets import shipped_tables, target_table
from fpmonitor.safe_files import strict_json

TARGETS = "firefox"
PREFERENCES = "firefox-preferences"
_SWITCH = "privacy.fingerprintingProtection"
_OVERRIDES = f"{_SWITCH}.overrides"
_GRANULAR = f"{_SWITCH}.granularOverrides"
_BASELINE = "privacy.baselineFingerprintingProtection"
_BASELINE_GRANULAR = f"{_BASELINE}.granularOverrides"
_RESIST = "privacy.resistFingerprinting"
_EXEMPTED = f"{_RESIST}.exemptedDomains"
_CATEGORY = "browser.contentblocking.category"
_STATUS = {"default", "locked", "user", "clear"}
# Firefox goes by the registrable domain, and never asks for a name below it. Nothing is registered
# as `com` or `gov.uk`, so that `www.gov.uk` is such a domain itself.
_BELOW = re.compile(r"www\.(?!(?:[^.]+|(?:gob|gouv|gov|govt|nhs)\.[a-z]{2})$)")
_TYPES = {"boolean": bool, "number": int, "string": str}
_MOST_INT = 2**31
# Beginnings of what a policy may set: `Policies.sys.mjs` of ESR 153 refuses other preferences.
_IN_POLICIES = (
    "accessibility.", "browser.", "dom.", "extensions.", "geo.", "gfx.", "intl.", "layers.",
    "layout.", "media.", "network.", "pdfjs.", _BASELINE, _SWITCH,
    "privacy.globalprivacycontrol.enabled", "security.", "signon.", "ui.", "webgl.disabled",
    "webgl.force-enabled", "widget.",
)  # fmt: skip
# As its parser of preferences has them: texts and preferences go on over lines, and what is wrong
# ends at the next semicolon. A text without an end ends the file.
_SPACE = r"[ \t\v\f\r\n]*"
_TEXT = r"""(?:"(?:[^"\\]|\\.)*(?:"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z))"""
_STATEMENT = re.compile(
    rf"(user_pref|lockPref){_SPACE}\({_SPACE}({_TEXT}){_SPACE},{_SPACE}"
    rf"({_TEXT}|true|false|[+-]?[0-9]{{1,10}}){_SPACE}\){_SPACE};{_SPACE}|(?:{_TEXT}|[^;\"'])*;?{_SPACE}",
    re.DOTALL,
)
_ESCAPE = re.compile(r"""\\(?:(["'\\nr])|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|.)""", re.DOTALL)
# In one pass with texts: `/*` in a text, or behind `//`, begins no comment.
_COMMENT = re.compile(rf"({_TEXT})|(?://|\#)[^\r\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)


def supports(control: Control, options: ExportOptions) -> bool:
    """Whether this version of Firefox has the control, for a site if one is named.

    Raises:
        InputError: The site is a name that Firefox never asks for.
    """
    site = options.site or ""
    if _BELOW.match(site):
        raise InputError(
            f"{site}: Firefox asks for the domain that was registered",
            hint=f"--site {site.removeprefix('www.')}",
        )
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
    chosen = preferences(order)
    if _SWITCH in chosen:
        # In a profile that was used before, Firefox noted Standard, by which it takes the switch
        # back when its first window shows (`ContentBlockingPrefs.sys.mjs`, ESR 153).
        chosen = {_CATEGORY: "custom"} | chosen
    lines = [f"// {line}" for line in order.comments]
    lines += [
        f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in chosen.items()
    ]
    return "\n".join(lines) + "\n"


def read_policies(text: str, site: str | None) -> ParsedList:
    """Read `policies.json`."""
    try:
        policies = dict(strict_json(text, may_repeat=True)["policies"])
        entries = policies.get("Preferences", {})
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
        name: _policy_value(name, entry)
        for name, entry in found.items()
        if name.startswith(_IN_POLICIES) and str(entry.get("Status", "user")) in _STATUS - {"clear"}
    }
    accepted = {name: value for name, value in accepted.items() if _is_of_kind(name, value)}
    if found.get(_SWITCH, {}).get("Status") == "user":
        accepted |= _switch_by_category(accepted, problems)
    accepted |= _of_tracking(policies.get("EnableTrackingProtection"), problems)
    return _read_preferences(accepted, site, problems)


def _policy_value(name: str, entry: Mapping[str, Any]) -> Any:
    """Return what a policy sets, null for nothing: 0 and 1 are truths unless they say otherwise."""
    value, kind = entry.get("Value"), _kinds().get(name)
    declared = entry.get("Type")
    if kind is bool and declared in {None, "boolean"}:
        is_truth = declared or (type(value) in {int, float} and value in {0, 1})
        return bool(value) if is_truth else value
    return value if declared is None or kind is None or _TYPES.get(str(declared)) is kind else None


def _of_tracking(asked: Any, problems: list[str]) -> dict[str, Any]:
    """Return what the policy on tracking, which comes after preferences, sets in their place."""
    if not isinstance(asked, dict):
        return {}
    found: dict[str, Any] = {}
    # Beside a category it says nothing of these.
    if not asked.get("Category") and asked.get("SuspectedFingerprinting", True) not in (True, 1):
        found[_SWITCH] = False
        problems.append(f"EnableTrackingProtection switches {_SWITCH} off")
    exceptions = asked.get("Exceptions")
    if isinstance(exceptions, list) and exceptions:
        hosts = [re.sub(r"^.*://|[:/].*$", "", str(origin)).lower() for origin in exceptions]
        found[_EXEMPTED] = ",".join(hosts)
        problems.append("EnableTrackingProtection excepts sites, which no target protects")
    return found


@cache
def _kinds() -> dict[str, type]:
    """Types of preferences: a value of another type is refused."""
    texts = (_OVERRIDES, _GRANULAR, f"{_BASELINE}.overrides", _BASELINE_GRANULAR, _EXEMPTED)
    truths = (_SWITCH, _BASELINE, _RESIST)
    own = {control.name: type(control.value) for control in controls_of([PREFERENCES])}
    return own | dict.fromkeys(texts, str) | dict.fromkeys(truths, bool)


def _is_of_kind(name: str, value: Any) -> bool:
    return type(value) is _kinds().get(name, type(value))


def read_userjs(text: str, site: str | None) -> ParsedList:
    """Read `user.js`.

    Debian's Firefox knows `lockPref` there, which outweighs `user_pref` in any order, and Mozilla's
    passes it over: what counts is what both have.
    """
    found: dict[str, Any] = {}
    locked: dict[str, Any] = {}
    problems: list[str] = []
    # To Firefox, a character of number 0 ends the file.
    text = text.removeprefix("\ufeff").partition("\0")[0]
    # Comments become spaces, so that lines keep their numbers.
    code = _COMMENT.sub(lambda one: one[1] or re.sub(r"[^\r\n]", " ", one[0]), text)
    statements = code.lstrip(" \t\v\f\r\n")
    number = len(lines_of(code)) - len(lines_of(statements)) + 1
    for one in _STATEMENT.finditer(statements):
        try:
            if one[0]:
                name, value = _preference(one)
                if not _is_of_kind(name, value):
                    problems.append(f"line {number}: {name} is of another type, so it is refused")
                elif one[1] == "lockPref":
                    locked.setdefault(name, value)  # the first one stays
                else:
                    found[name] = value
        except ValueError:
            problems.append(f"line {number} is not a user_pref; Firefox skips to a semicolon")
        number += len(lines_of(one[0])) - 1
    read = _read_preferences(found | _switch_by_category(found, problems), site, problems)
    if not locked:
        return read
    kept = {} if _SWITCH in locked else _switch_by_category(found | locked, [])
    by_debian = _read_preferences(found | kept | locked, site, []).controls
    problem = "lockPref is read by Debian's Firefox alone, so what it adds counts as off"
    both = tuple(one for one in read.controls if one in by_debian)
    return ParsedList(controls=both, problems=(*read.problems, problem))


def _switch_by_category(found: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Return what becomes of a switch that is not locked, once Firefox shows its first window.

    It is set as the category of tracking protection has it: `strict` on, and `standard`, which
    profiles get unasked when they are first used, as if nobody had set it.
    """
    category = found.get(_CATEGORY)
    if category == "strict":
        return {_SWITCH: True}
    if category == "custom" or found.get(_SWITCH) is not True:
        return {}
    problems.append(f"without {_CATEGORY} = custom Firefox takes {_SWITCH} back in most profiles")
    return {_SWITCH: False}


def _preference(statement: re.Match[str]) -> tuple[str, Any]:
    """Return name and value; raises ValueError where Firefox refuses it."""
    name, value = statement[2], statement[3]
    if name is None:
        raise ValueError("no user_pref")
    if value in {"true", "false"}:
        return _text_of(name), value == "true"
    if value[0] in "\"'":
        return _text_of(name), _text_of(value)
    if not -_MOST_INT <= int(value) < _MOST_INT:
        raise ValueError("no number of 32 bits")
    return _text_of(name), int(value)


def _text_of(quoted: str) -> str:
    """Return what a text in quotes says; raises ValueError for an escape that Firefox lacks."""

    def character(escape: re.Match[str]) -> str:
        if escape[1]:
            return {"n": "\n", "r": "\r"}.get(escape[1], escape[1])
        if not (digits := escape[2] or escape[3]):
            raise ValueError("no escape")
        if not int(digits, 16):
            raise ValueError("no character")
        return chr(int(digits, 16))

    # Halves of characters are joined.
    text = _ESCAPE.sub(character, quoted[1:-1]).encode("utf-16-le", "surrogatepass")
    return text.decode("utf-16-le")


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
    granular = _scopes(found, problems)
    if protected:
        on = _granular(granular.get(_GRANULAR, ()), on, site, problems)
    else:
        on &= _granular(granular.get(_BASELINE_GRANULAR, ()), on, site, problems)
    return on


def _scopes(
    found: Mapping[str, Any], problems: list[str]
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return name of a preference -> its scopes, as `FingerprintingWebCompatService` reads them."""
    scopes: dict[str, Sequence[Mapping[str, Any]]] = {}
    # In this order: what is no list ends the reading of all that follows.
    for name in (_BASELINE_GRANULAR, _GRANULAR):
        try:
            entries = strict_json(found.get(name) or "[]", may_repeat=True)
        except (ValueError, RecursionError):
            entries = None
        if not isinstance(entries, list) or None in entries:
            problems.append(f"{name}: not a list of scopes, so Firefox ignores it")
            break
        # It compares them with a schema that is a text, so that all pass, and leaves out those
        # without a domain alone; `isBaseline` it takes from the preference.
        scopes[name] = [
            one
            for one in entries
            if isinstance(one, dict) and str(one.get("firstPartyDomain") or ",").count(",") == 0
        ]
    return scopes


def _granular(
    scopes: Sequence[Mapping[str, Any]], on: set[str], site: str | None, problems: list[str]
) -> set[str]:
    """Targets on a site: the narrowest scope holds alone, it starts from the global set."""
    result = on
    alone = [
        (str(one["firstPartyDomain"]), one.get("overrides"))
        for one in scopes
        if "thirdPartyDomain" not in one
    ]
    # Frames of another site: what is switched off in these is read in them.
    frames = [
        (str(one["thirdPartyDomain"]), one.get("overrides"))
        for one in scopes
        if "thirdPartyDomain" in one
    ]
    for domain, overrides in sorted(alone, key=lambda scope: scope[0] != "*"):
        targets, slips = read_overrides(str(overrides or ""), on)
        problems += slips
        if _BELOW.match(domain):
            problems.append(f"{domain}: Firefox asks for the domain that was registered")
            # Of the names below which others register not all are known here.
            result = result & targets if may_match(site, domain) else result
        elif domain == "*" or site_matches(site, domain):
            result = targets
        elif site is None:
            result = result & targets  # what holds on all sites
    for domain, overrides in frames:
        if may_match(site, domain):
            result = result & read_overrides(str(overrides or ""), result)[0]
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
    notes=(
        *POLICIES.notes,
        "Sets tracking protection to Custom, as Standard takes the list back.",
        "Where you chose Strict, which does not, leave that line out.",
    ),
)
