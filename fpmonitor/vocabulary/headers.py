"""Names that logs give to request headers: below any prefix, in any spelling."""

from __future__ import annotations

import re
from collections.abc import Collection

_STEPS = re.compile(r"[.>/\[\]]+")
_PUNCTUATION = re.compile(r"[\W_]+")
# `%{User-Agent}i` of Apache, `cs(User-Agent)` of W3C, `%REQ(USER-AGENT)%` of Envoy.
_IN_BRACKETS = re.compile(
    r"%\{([\w-]+)\}i|(?:cs|%req|%request_header)\(([\w-]+)\)%?", re.IGNORECASE
)
_CONTAINER = re.compile(r"[\w-]*headers?(_?(in|names?|values?))?", re.IGNORECASE)
_REQUEST = re.compile(
    r"\$?(http|cs|(client[_-]?|http[_-]?)?req(uest)?|client|headers?)([_:-]|(?-i:(?=[A-Z])))(?P<rest>.+)",
    re.IGNORECASE,
)
_OF_REQUESTS = re.compile(r"(http|client)?[_-]?(req(uest)?|http)([_-]?context)?", re.IGNORECASE)
_OF_RESPONSES = re.compile(
    r"res|resp|.*(response|upstream|downstream|origin(?!al)|(^|_)(res|resp|sent)_)", re.IGNORECASE
)


def header_named(name: str, known: Collection[str], *, in_requests: bool = False) -> str | None:
    """Return the API of the request header that a member of a log holds; null for others.

    Args:
        name: The path of the member, such as `request.headers.User-Agent`, `httpRequest.userAgent`,
            `request>headers>User-Agent`, `ClientRequestUserAgent` or `cs(User-Agent)`.
        known: The headers, such as `http:user-agent`.
        in_requests: Whether the log is known to be one of requests: a `userAgent` is the header
            then.
    """
    if bracketed := _IN_BRACKETS.fullmatch(name):
        return _header(bracketed[1] or bracketed[2], known)
    if name.lower() in known:
        return name.lower()
    *outer, last = [step for step in _STEPS.split(name) if step] or [""]
    if any(map(_OF_RESPONSES.match, [*outer, last])):
        return None
    if last.lower() in {"0", "original", "value"} and outer:  # of a list of one; of Elastic
        *outer, last = outer
    inside = bool(outer) and (_CONTAINER.fullmatch(outer[-1]) or _OF_REQUESTS.fullmatch(outer[-1]))
    found = _header(last, known) if inside or "-" in last else None
    # Several may stand before a name: `request_headers_user_agent`.
    while found is None and (prefixed := _REQUEST.fullmatch(last)):
        last = prefixed["rest"]
        found = _header(last, known)
    if found is None and in_requests and folded(last) == "acclang":  # of Akamai
        return "http:accept-language"
    is_agent = folded(last).endswith("useragent") or folded(last) in {"agent", "ua"}
    return "http:user-agent" if found is None and in_requests and is_agent else found


def _header(name: str, known: Collection[str]) -> str | None:
    spelled = f"http:{name.lower().replace('_', '-')}"
    if spelled in known:
        return spelled
    wanted = folded(name)
    return next((header for header in known if folded(header[5:]) == wanted), None)


def folded(name: str) -> str:
    """Return a name without case and punctuation, by which names are compared."""
    return _PUNCTUATION.sub("", name).casefold()
