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
from typing import cast

from http_sf import Token, parse

from fpmonitor.errors import InputError
from fpmonitor.export.controls import Control, controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec
from fpmonitor.export.exporter import ParsedList, lines_of

FAMILY = "permissions-policy"
_SENT_ANYWAY = "Sec-CH-UA-Mobile"  # a list that asks for nothing; some servers drop an empty one
_SENT_UNASKED = {"http:sec-ch-ua", "http:sec-ch-ua-mobile", "http:sec-ch-ua-platform"}
_UPPER_CASE = {"ch": "CH", "ua": "UA", "dpr": "DPR", "rtt": "RTT", "ect": "ECT", "wow64": "WoW64"}
_LINE = re.compile(
    r"(?:(?:add_header|header(?:\s+always)?(?:\s+set)?)\s+)?\+?"
    r"(?P<name>permissions-policy(?:-report-only)?)(?P<separator>\s*:\s*|\s+)(?P<value>.*)$",
    re.IGNORECASE,
)
_HEADERS = re.compile(
    r"^[ \t]*(?:[\w-]+:\s|#|(?:add_header|header)\b)", re.IGNORECASE | re.MULTILINE
)
_REMOVED = re.compile(
    rf"\s*(?:header(?:\s+always)?\s+unset\s+|more_clear_headers\s+[\"']?|-){FAMILY}\b",
    re.IGNORECASE,
)
_ADDED = re.compile(r"\s*add_header\s+(?P<name>[\w-]+)", re.IGNORECASE)
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
    lines = [line.strip() for line in lines_of(text)]
    values = [
        _unquoted(found["value"], quoted=":" not in found["separator"])
        for found in map(_LINE.match, lines)
        if found and found["name"].lower() == FAMILY
    ]
    if values and (undone := _undone(lines)):
        return ParsedList(controls=(), problems=(undone,))
    if not values and text.strip() and not _HEADERS.search(text):
        values = [text.strip()]
    return _read_policy(", ".join(values)) if values else ParsedList(controls=())


def _undone(lines: Iterable[str]) -> str:
    """Say what takes the header away again from all or some pages; empty where nothing does."""
    within: list[set[str]] = []  # for each open block of nginx, the headers that it adds
    for number, line in enumerate(lines, start=1):
        if line.startswith("#"):
            continue
        if _REMOVED.match(line):
            return f"line {number}: takes the header away"
        within += [set() for _ in range(line.count("{"))]
        if within and (added := _ADDED.search(line)):
            within[-1].add(added["name"].lower())
        for _ in range(min(line.count("}"), len(within))):
            headers = within.pop()
            if within and headers and FAMILY not in headers:
                return f"line {number}: a block with headers of its own sends none of those above"
    return ""


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


def _unquoted(value: str, *, quoted: bool) -> str:
    """Value of a header without the quotes and the end of a configuration line."""
    if not quoted:
        return value
    value = value.rstrip().removesuffix(";").rstrip()
    if value.endswith((" always", "\talways")):
        value = value.removesuffix("always").rstrip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


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
