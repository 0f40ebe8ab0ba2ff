"""Permissions-Policy and client hints: response headers that a site sends for itself.

W3C "Permissions Policy"; WICG "User-Agent Client Hints"; RFC 8942 (Accept-CH); structured fields
are RFC 9651. A feature with an empty list of origins is off. `ch-*` features take a hint out of the
requests of resources, first-party requests included, but neither out of those of pages nor out of
what scripts read; only `ch-ua-high-entropy-values` reaches scripts, and then for all hints.
Requests of pages lose a hint only where Accept-CH does not ask for it, and browsers remember what
was asked until they are asked for something else. Three hints are sent unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from http_sf import Token, parse

from fpmonitor.errors import InputError
from fpmonitor.export.controls import Control, controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec
from fpmonitor.export.exporter import ParsedList, lines_of
from fpmonitor.export.server_config import sent_everywhere

FAMILY = "permissions-policy"
_SENT_ANYWAY = "Sec-CH-UA-Mobile"  # a list that asks for nothing; some servers drop an empty one
_SENT_UNASKED = {"http:sec-ch-ua", "http:sec-ch-ua-mobile", "http:sec-ch-ua-platform"}
_UPPER_CASE = {"ch": "CH", "ua": "UA", "dpr": "DPR", "rtt": "RTT", "ect": "ECT", "wow64": "WoW64"}
_FIELD = re.compile(rf"{FAMILY}:[ \t]*(?P<value>.*)", re.IGNORECASE)
_CONFIGURED = re.compile(
    r"\badd_header\b|^[ \t]*(?:header[ \t]|<)|\{[ \t\r]*$", re.IGNORECASE | re.MULTILINE
)
_RESPONSE = re.compile(r"^HTTP/[\d.]+[ \t]+\d{3}\b", re.MULTILINE)
_HEADERS = re.compile(r"^[ \t]*(?:[\w-]+:\s|#)", re.MULTILINE)
_KEYWORDS = {"*", "self", "src"}


def _write(order: ListSpec) -> str:
    """Write the headers as such, for a web server, or as a policy that only reports."""
    policy = ", ".join(f"{control.name}=()" for control in order.controls)
    variant = order.options.variant or "headers"
    if variant == "report-only":
        return _report_only(order)
    hints = _hints(order.allowed)
    headers = {
        "Permissions-Policy": policy,
        "Accept-CH": hints or (_SENT_ANYWAY if _hints(order.decided) else ""),
        "Critical-CH": hints,
        "Vary": hints,
    }
    lines = [(name, value) for name, value in headers.items() if value]
    comments = "".join(f"# {line}\n" for line in order.comments)
    match variant:
        case "nginx":
            return comments + "".join(f'add_header {n} "{v}" always;\n' for n, v in lines)
        # What others wrote into Vary stays: a cache must know all that an answer depends on.
        case "apache":
            return comments + "".join(
                f'Header always {"merge" if n == "Vary" else "set"} {n} "{v}"\n' for n, v in lines
            )
        case "caddy":
            inner = "".join(f'\t{"+" if n == "Vary" else ""}{n} "{v}"\n' for n, v in lines)
            return f"{comments}header {{\n{inner}}}\n"
        case _:
            return "".join(f"{n}: {v}\n" for n, v in lines)


def _read(text: str, site: str | None) -> ParsedList:  # noqa: ARG001 -- headers are the site's own
    """Read headers, a snippet of a web server's configuration, or the bare policy."""
    if _CONFIGURED.search(text):
        values, problems = sent_everywhere(text, FAMILY)
        found = _read_policy(", ".join(values)) if values else ParsedList(controls=())
        return replace(found, problems=(*problems, *found.problems))
    # Of several responses the page is the last: others send elsewhere, or ask for a password.
    last = _RESPONSE.split(text)[-1]
    fields = filter(None, map(_FIELD.match, map(str.strip, lines_of(last))))
    values = [found["value"] for found in fields]
    if not values and text.strip() and not _HEADERS.search(text):
        values = [text.strip()]
    return _read_policy(", ".join(values)) if values else ParsedList(controls=())


def _report_only(order: ListSpec) -> str:
    policy = ", ".join(f"{control.name}=();report-to=fpmonitor" for control in order.controls)
    endpoint = order.options.report_to
    if not endpoint:
        raise InputError(
            "report-only: no address for the reports", hint="name an https address by --report-to"
        )
    if not policy:
        return ""
    return (
        f'Reporting-Endpoints: fpmonitor="{endpoint}"\nPermissions-Policy-Report-Only: {policy}\n'
    )


def _hints(allowed: Iterable[str]) -> str:
    """Value of Accept-CH: the allowed hints that browsers send only when asked."""
    known = {api for control in controls_of([FAMILY]) for api in control.effects}
    hints = [api for api in allowed if api.startswith("http:") and api in known - _SENT_UNASKED]
    return ", ".join(_header_name(api.removeprefix("http:")) for api in hints)


def _header_name(lower: str) -> str:
    return "-".join(_UPPER_CASE.get(word, word.capitalize()) for word in lower.split("-"))


def _read_policy(value: str) -> ParsedList:
    try:
        parsed = parse(value.encode("ascii"), tltype="dictionary")
    except ValueError as error:
        return ParsedList(controls=(), problems=(f"browsers ignore the whole header: {error}",))
    policy = cast("dict[str, tuple[object, object]]", parsed)
    known = {control.name: control for control in controls_of([FAMILY])}
    controls: list[Control] = []
    problems: list[str] = []
    for feature, (allowlist, _) in policy.items():
        if feature not in known and feature.startswith("ch-"):
            problems.append(f"{feature}: no such client hint is known")
        if wrong := _bad_members(allowlist):
            problems.append(f"{feature}: {wrong[0]!r} is neither an origin nor one of * self src")
        elif feature in known and allowlist == []:
            controls.append(known[feature])
    return ParsedList(controls=tuple(controls), problems=tuple(problems))


def _bad_members(allowlist: object) -> list[str]:
    """Return the members of an allowlist that are not origins."""
    items = [item for item, _ in allowlist] if isinstance(allowlist, list) else [allowlist]
    return [
        str(item)
        for item in items
        if not (
            str(item) in _KEYWORDS
            if isinstance(item, Token)
            else isinstance(item, str) and "://" in item
        )
    ]


PERMISSIONS_POLICY = ControlExporter(
    name=FAMILY,
    summary="response headers of a site, for Chromium and its kin",
    families=(FAMILY,),
    write=_write,
    read=_read,
    variants=("headers", "nginx", "apache", "caddy", "report-only"),
    sites=False,
    notes=(
        "Firefox and Safari ignore these features.",
        "Critical-CH repeats the first request of a new visitor.",
    ),
)
