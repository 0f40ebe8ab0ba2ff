"""Who a row is: a user whom a column names, a visitor by the rule stated here, or a row itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Unit = Literal["user", "visitor", "row"]
_UNITS: tuple[Unit, ...] = get_args(Unit)  # the weakest last

VISITOR_RULE = "an address, or the cookie that `log-line` logs, with a user agent on a day"
_RULES = {"har": "each HAR file, as of one browser"}
VISITOR_SEPARATOR = "\x1f"
_WHO = (
    "say who a row is: --user {column} names the users, --visitor takes for one visitor {rule}, "
    "--user row counts the rows themselves"
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WORD = re.compile(r"(?<![\w.:/@`'\"<-])(?:(a) )?\b([Uu])ser(s?)\b(?![\w.:/`'\"=(>-]| agent)")
_REQUESTS = (
    re.compile(r"(?i)(request[_. -]?)?(path|url|uri|target)|request|requests?line|cs-uri-stem"),
    re.compile(r"(?i)(http|sc|response|elb)?[_. -]?status([_. -]?code)?"),
    re.compile(r"(?i)(request[_. -]?|cs-|http[_. -]?)?method|verb"),
    re.compile(
        r"(?i)((remote|client|source|src|c|http)[_. -]?)?(ip|addr|host)(([_. -]?addr)?(ess)?)?"
    ),
)
_AGENT = re.compile(
    r"(?i)((http|request|headers?|cs|navigator)[_. :()-]*)?(user[_. -]?agent|ua|agent)\)?"
)
_FEWEST_SIGNS = 2


def weakest(units: Iterable[Unit | None]) -> Unit:
    """Return what all of some units can be taken for; null is that of earlier versions: a user."""
    return max((unit or "user" for unit in units), key=_UNITS.index, default="user")


def spoken(text: str, unit: Unit) -> str:
    """Say of visitors or rows what a text says of users; names of columns and options stay."""
    if unit == "user":
        return text
    return _WORD.sub(lambda found: _noun(found, unit), text)


def _noun(found: re.Match[str], unit: Unit) -> str:
    article, first, plural = found.groups()
    noun = f"{unit[0].upper() if first == 'U' else unit[0]}{unit[1:]}{plural}"
    return f"{article} {noun}" if article else noun


def visitor_of(
    *, time: object, cookie: object = None, address: object = None, agent: object
) -> tuple[str, str, str] | None:
    """Return day, address or cookie, and user agent of a request; null where one is not known.

    Parameters
    ----------
    time
        As ISO 8601; its day counts as it is written.
    cookie, address
        The first that is there tells visitors with one user agent apart.
    agent
        The user agent.
    """
    whose = cookie or address
    day = time[:10] if isinstance(time, str) else ""
    if not (isinstance(whose, str) and isinstance(agent, str) and whose and agent):
        return None
    return (day, whose, agent) if _DAY.fullmatch(day) else None


def holds_requests(names: Collection[str]) -> bool:
    """Whether a log with columns of these names tells of requests: a path, a status, an address."""
    signs = (any(sign.fullmatch(name) for name in names) for sign in _REQUESTS)
    return sum(signs) >= _FEWEST_SIGNS


def visitor_rule(collector: str) -> str:
    """Return by what rule a collector tells visitors."""
    return _RULES.get(collector, VISITOR_RULE)


def refuse_requests(label: str, collector: str, column: str = "COLUMN") -> InputError:
    """Error of a log whose rows are requests, where nothing says who a row is."""
    return InputError(
        f"{label}: each row is a request, and a user sends many; nothing of this file was stored",
        hint=_WHO.format(column=column, rule=visitor_rule(collector)),
    )


def visitor_columns(names: Collection[str]) -> Mapping[str, str]:
    """Return the columns of a table that tell visitors: `address` and `agent`, as far as it can."""
    forms = {"address": _REQUESTS[-1], "agent": _AGENT}
    return {
        part: next(name for name in names if form.fullmatch(name))
        for part, form in forms.items()
        if any(map(form.fullmatch, names))
    }
