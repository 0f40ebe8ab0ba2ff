"""Who a row is: a user whom a column names, a visitor by the rule stated here, or a row itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from fpmonitor.errors import InputError, UnitError

Unit = Literal["user", "visitor", "row"]
_UNITS: tuple[Unit, ...] = get_args(Unit)  # the weakest last

VISITOR_RULE = "an address, or a cookie that the log names, with a user agent on a day"
_RULES = {"har": "each HAR file, as of one browser"}
VISITOR_SEPARATOR = "\x1f"
_WHO = (
    "say who a row is: --user {column} names the users, --visitor takes for one visitor {rule}, "
    "--user row counts the rows themselves"
)
_OF_ROWS = (
    "--rows-are-users takes each row for a user, and the answer says so; `db apis` and "
    "`decide --setting sample` count the rows; "
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
# The word, where it is no part of a name, of an option or of an address, and not what rows are
# taken for.
_WORD = re.compile(
    r"(?<![\w.:/@`'\"<-])(?<!taken for )(?<!taken for a )"
    r"([Uu])ser(s?)\b(?!\w|[.:]\w|[/`\"=(>-]| agent)"
)
_WHO_ROWS = re.compile(r"\b(rows?) whom?\b")


def weakest(units: Iterable[Unit | None]) -> Unit:
    """Return what all of some units can be taken for; null is that of earlier versions: a user."""
    return max((unit or "user" for unit in units), key=_UNITS.index, default="user")


def told_unit(unit: Unit) -> dict[str, str]:
    """Return the member of JSON that says what was counted; users need none."""
    return {} if unit == "user" else {"unit": unit}


def check_limits(units: Sequence[Unit | None], *, rows_are_users: bool | None) -> None:
    """Check that limits for users may be told of what is observed.

    Args:
        units: Who the rows are, of each log.
        rows_are_users: Whether each row is said to be a user; null where that cannot be said.

    Raises:
        UnitError: It is rows, or rows beside users, and nobody says that each is a user.
    """
    if weakest(units) != "row" or rows_are_users:
        return
    others = sorted({f"{unit or 'user'}s" for unit in units} - {"rows"})
    mixed = f" beside {' and '.join(others)}" if others else ""
    apart = "; --since, --until or --source may ask for the others alone" if others else ""
    raise UnitError(
        f"rows of logs that name no users are counted{mixed}, and a limit is a promise to users",
        hint=f"{'' if rows_are_users is None else _OF_ROWS}to count users, ingest the log anew "
        f"with --user COLUMN or --visitor{apart}",
    )


def spoken(text: str, unit: Unit) -> str:
    """Say of visitors or rows what a text says of users; names of columns and options stay."""
    if unit == "user":
        return text
    said = _WORD.sub(lambda found: _noun(found, unit), text)
    return said if unit != "row" else _WHO_ROWS.sub(r"\1 that", said)


def _noun(found: re.Match[str], unit: Unit) -> str:
    first, plural = found.groups()
    return f"{unit.capitalize() if first == 'U' else unit}{plural}"


def visitor_of(
    *, time: object, cookie: object = None, address: object = None, agent: object
) -> tuple[str, str, str] | None:
    """Return day, address or cookie, and user agent of a request; null where one is not known.

    Args:
        time: As ISO 8601; its day counts as it is written.
        cookie, address: The first that is there tells visitors with one user agent apart.
        agent: The user agent.
    """
    whose = cookie or address
    day = time[:10] if isinstance(time, str) else ""
    if not (isinstance(whose, str) and isinstance(agent, str) and whose and agent):
        return None
    return (day, whose, agent) if _DAY.fullmatch(day) else None


def visitor_rule(collector: str) -> str:
    """Return by what rule a collector tells visitors."""
    return _RULES.get(collector, VISITOR_RULE)


def refuse_requests(label: str, collector: str, column: str = "COLUMN") -> InputError:
    """Error of a log whose rows are requests, where nothing says who a row is."""
    return InputError(
        f"{label}: each row is a request, and a user sends many; nothing of this file was stored",
        hint=_WHO.format(column=column, rule=visitor_rule(collector)),
    )
