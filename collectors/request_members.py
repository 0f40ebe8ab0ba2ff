"""What the members of a log of requests are: headers, fields of the record, or of the resource."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fpmonitor.collectors.log_forms import CAPTURED, REST, UNNAMED, USER_AGENT
from fpmonitor.vocabulary import base_api, header_of, known_apis, meanings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.collectors.tables import Column
    from fpmonitor.logs.column_map import ColumnMap

FORWARDED = "http:x-forwarded-for"
OF_RESOURCE = "tells the resource, not the browser"
OF_PLACE = "tells where the request came from"
NO_HEADER = "no header of the vocabulary"
_ABSENT = {"", "-", "null", "None"}
_STEPS = re.compile(r"[.>/]+")
_PUNCTUATION = re.compile(r"[\W_]+")
_METHODS = "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE|PRI|PROPFIND|PURGE"
# What only requests have, by the end of its name and by its values.
_SIGNS = {
    "status": (re.compile(r".*status(code)?|(response)?code"), re.compile(r"[0-5]\d{0,2}( .*)?")),
    "method": (re.compile(r".*(method|verb)"), re.compile(rf"(?i)({_METHODS})")),
    "request": (re.compile(r".*"), re.compile(rf"({_METHODS}) \S.*")),
    "protocol": (re.compile(r".*(proto(col)?|version)"), re.compile(r"(?i)HTTP/[\d.]+|h[23]c?")),
}
_WEAK_SIGNS = {
    "path": re.compile(r".*(path|uri|url|uristem|urlpath|target)"),
    "bytes": re.compile(r".*(bytes|bytessent|bodybytes|responsesize|size|length)"),
    "address": re.compile(r".*(ip|addr|address|host|peer|client)"),
}
# By names alone, as beside results of libraries: the address of a page or `adblock_status` is no
# request.
_NAMED = (
    re.compile(r"requests?(line)?|(request|cs|http)?(path|ur[il]|uristem|target)"),
    re.compile(r"(http|sc|response|elb|backend)?status(code)?"),
    re.compile(r"(request|cs|http)?method|verb"),
)
_ADDRESSES = (
    "host", "cip", "clientip", "realip", "remoteip", "remoteaddr", "remoteaddress", "remotehost",
    "sourceip", "socketip", "clientaddr", "clientaddress", "clienthost", "client", "ip", "addr",
    "xforwardedfor", "httpxforwardedfor", "downstreamremoteaddress", "srcip", "ipaddress",
    "clientipaddress", "remoteipaddress", "address", "cliip", "remote",
)  # fmt: skip
# With brackets and a port the longest has 53 characters. 8,000 colons took 4 s, 16,000 took 16 s.
_ADDRESS = re.compile(
    r"(?is)(?=.{2,64}\Z)"
    r"((::ffff:)?(\d{1,3}\.){3}\d{1,3}(:\d+)?|\[?[0-9a-f:]*:[0-9a-f:.]+\]?(:\d+)?)"
)
_TIMES = (
    "time", "timeiso8601", "timelocal", "timestamp", "ts", "msec", "starttime", "startutc",
    "startlocal", "datetime", "edgestarttimestamp", "eventtime", "receivetimestamp",
    "timeoftheline",
)  # fmt: skip
# Of so many letters at most: 48,000 of `12:00:00` again and again took 1.4 s.
_TIME = re.compile(
    r"(?=.{1,200}\Z)(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d.*|\[?\d{1,2}/\w{3}/\d{4}[: ]\d\d:.*"
    r"|1\d{9}(\d{3}){0,3}(\.\d+)?|1\.\d+[eE]\+?(9|1[258])|\w{3},? .*\d\d:\d\d:\d\d.*)"
)
_DAY = re.compile(r"\d{4}[-/]\d\d[-/]\d\d|\d\d?\.\d\d?\.\d{4}")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d([.,]\d+)?")
_TRANSPORT = {"ja3": "transport:ja3", "ja3hash": "transport:ja3", "ja4": "transport:ja4"}
_FEWEST_SIGNS = 2
_OWN = re.compile(r"(http|transport):.+|user|host|time")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMembers:
    """The members of a log of requests."""

    # API -> the members that hold it; of several, the first that a record has.
    apis: Mapping[str, list[Column]]
    user: Column | None = None  # Names the user; null where nothing does.
    address: Column | None = None  # Where a request came from; never stored.
    time: tuple[Column, ...] = ()  # The time, or the day and the time of day.
    # All others, and why they are not taken.
    spare: Mapping[Column, str] = field(default_factory=dict)


def are_requests(columns: Sequence[Column], sample: Mapping[str, Sequence[str]]) -> bool:
    """Whether a log is one of requests: a user agent, and what only a server knows.

    Args:
        columns: Its members.
        sample: Member -> texts of the first records, as far as they are known.
    """
    named = {column.name: header_of(column.name) for column in columns}
    is_sure = USER_AGENT in named.values()
    if not is_sure and not any(header_of(name, in_requests=True) == USER_AGENT for name in named):
        return False
    # What `fpmonitor collect log-line` makes servers write: it has no status and no path.
    if is_sure and all(map(_OWN.fullmatch, named)):
        return True
    strong = {
        sign
        for name in named
        for sign, (spelled, form) in _SIGNS.items()
        if spelled.fullmatch(_last(name)) and _all_are(form, sample.get(name))
    }
    weak = {
        sign
        for name, header in named.items()
        for sign, spelled in _WEAK_SIGNS.items()
        if not header and spelled.fullmatch(_last(name))
    }
    if len(strong | weak) < _FEWEST_SIGNS or not (strong or is_sure):
        return False
    # Pages log what scripts read beside paths and statuses: that is no log of a server.
    read = {api for name, header in named.items() if not header for api in meanings(name)}
    scripts = {api for api in read if _kind(api) in {"attribute", "method", "media"}}
    return len(scripts - {"Navigator.userAgent", "Document.referrer"}) < _FEWEST_SIGNS


def _kind(api: str) -> str | None:
    """Kind of an API, or of that whose part it is: sources have parts that are not listed alone."""
    known = known_apis()
    found = known.get(api) or known.get(base_api(api))
    return found.kind if found else None


def are_named_as_requests(names: Iterable[str]) -> bool:
    """Whether a log with members of these names tells of requests: a path, a status, an address."""
    lasts = {_last(name) for name in names}
    # A `client` may as well be who is counted.
    signs = sum(any(map(form.fullmatch, lasts)) for form in _NAMED)
    return signs + bool(lasts.intersection(_ADDRESSES) - {"client"}) >= _FEWEST_SIGNS


def visitor_members(
    columns: Sequence[Column], sample: Mapping[str, Sequence[str]]
) -> dict[str, Column]:
    """Find the members that tell visitors, `address` and `agent`; as of `are_requests`."""
    named = {c.name: c for c in columns if header_of(c.name, in_requests=True) == USER_AGENT}
    agent = next((c for name, c in named.items() if _tells(sample.get(name))), None)
    found = {"address": _address({c.name: c for c in columns}, sample), "agent": agent}
    return {part: column for part, column in found.items() if column is not None}


def _last(name: str) -> str:
    return _PUNCTUATION.sub("", _STEPS.split(name)[-1]).casefold()


def _all_are(form: re.Pattern[str], texts: Sequence[str] | None) -> bool:
    # Without any sample the name alone has to do.
    present_texts = [text for text in texts or () if text not in _ABSENT]
    return texts is None or (bool(present_texts) and all(map(form.fullmatch, present_texts)))


def request_members(
    columns: Sequence[Column], sample: Mapping[str, Sequence[str]], column_map: ColumnMap
) -> RequestMembers:
    """Say what the members of a log of requests are; as of `are_requests`."""
    by_name = {column.name: column for column in columns}
    said = column_map.columns.get("user")
    user = by_name.get("user" if said is None else said)
    if user is not None and said is None and not _tells(sample.get(user.name)):
        user = None
    time = _times(by_name, sample, column_map)
    address = _address(by_name, sample)
    apis: dict[str, list[Column]] = defaultdict(list)
    spare: dict[Column, str] = {}
    for column in columns:
        api = column_map.apis.get(column.name, _api(column.name))
        if column.name in column_map.apis:
            apis[column.name].append(column)
        elif column.name in column_map.ignore:
            spare[column] = "--ignore"
        elif api is not None and api != FORWARDED:
            apis[api].append(column)
        elif column not in {user, *time}:
            spare[column] = _why(column, address, api)
    return RequestMembers(apis=apis, user=user, address=address, time=time, spare=spare)


def _api(name: str) -> str | None:
    if name.startswith("transport:"):
        return name if name in known_apis() else None
    return header_of(name, in_requests=True) or _TRANSPORT.get(_last(name))


def _why(column: Column, address: Column | None, api: str | None) -> str:
    if column == address or api == FORWARDED or _last(column.name) in _ADDRESSES:
        return OF_PLACE
    if column.name == REST or column.name.startswith((CAPTURED, f"{UNNAMED} ")):
        return "the log does not name it"
    if column.name.startswith("http:") or "headers" in column.name.casefold():
        return NO_HEADER
    return OF_RESOURCE


def _tells(texts: Sequence[str] | None) -> bool:
    return texts is None or any(text not in _ABSENT for text in texts)


def _address(by_name: Mapping[str, Column], sample: Mapping[str, Sequence[str]]) -> Column | None:
    """Find the member that holds addresses, by its name and values; else one by its name alone."""
    named = sorted(
        (_ADDRESSES.index(_last(name)), name) for name in by_name if _last(name) in _ADDRESSES
    )
    fitting = [name for _, name in named if _all_are(_ADDRESS, _firsts(sample.get(name)))]
    names = fitting or [name for _, name in named if _tells(sample.get(name))]
    return by_name[names[0]] if names else None


def _fits(
    name: str, called: str, form: re.Pattern[str], sample: Mapping[str, Sequence[str]]
) -> bool:
    """Whether a member is of a form; without values by what it is called."""
    return (name in sample or _last(name) == called) and _all_are(form, sample.get(name))


def _firsts(texts: Sequence[str] | None) -> list[str] | None:
    """Of lists of proxies, whom they stand for."""
    return None if texts is None else [text.split(",")[0].strip() for text in texts]


def _times(
    by_name: Mapping[str, Column], sample: Mapping[str, Sequence[str]], column_map: ColumnMap
) -> tuple[Column, ...]:
    if "time" in column_map.columns:
        return tuple(by_name[name] for name in column_map.names_of("time", by_name))
    day = [name for name in by_name if _fits(name, "date", _DAY, sample)]
    clock = [name for name in by_name if _fits(name, "time", _CLOCK, sample)]
    if day and clock:
        return tuple(
            by_name[min(names, key=lambda name: _last(name) != called)]  # of several, the usual
            for names, called in ((day, "date"), (clock, "time"))
        )
    fitting = [
        name for name in by_name if _tells(sample.get(name)) and _all_are(_TIME, sample.get(name))
    ]
    named = [name for name in fitting if _last(name) in _TIMES]
    if named:
        return (by_name[min(named, key=lambda name: _TIMES.index(_last(name)))],)
    return tuple(by_name[name] for name in [name for name in fitting if name in sample][:1])
