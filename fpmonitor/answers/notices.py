"""What somebody on call is told: one sentence, how bad it is, what to do, and where the rest is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fpmonitor.export.headline import between_shares
from fpmonitor.policy import per_cent
from fpmonitor.unit import spoken

Severity = Literal["critical", "warning", "info"]
MOST_LETTERS = 120  # of a title
MOST_BYTES = 2048  # of a message
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """One thing that a notice tells.

    Attributes:
        about: What it is about, which groups its notices: `sets`, `alarm`, or the kind of a
            problem.
        severity, title, todo: How bad it is, what it is, and what to do.
        is_over: Whether this ends what notices of the same key told.
    """

    about: str
    title: str
    severity: Severity = "info"
    todo: str = "Nothing."
    is_over: bool = False


# Kind of a problem -> how bad it is, its title, and what to do. The first of them is the title.
_PROBLEMS: dict[str, tuple[Severity, str, str]] = {
    "late logs": (
        "critical",
        "Late logs would have been above the budget: {what}",
        "Store the logs of a window before it is judged; look at the sets in the details.",
    ),
    "fault": (
        "warning",
        "The logs look broken: {what}",
        "Fix the collector and store the corrected logs. If the form is intended, decide again.",
    ),
    "cannot judge": (
        "warning",
        "The logs cannot be judged: {text}",
        "See whether logs still arrive, and whether they name the APIs as they did.",
    ),
    "source": (
        "warning",
        "{text}",
        "See whether this source still sends, or take the new one into the decision.",
    ),
    "vanished": (
        "warning",
        "An API of the list is gone from the logs: {what}",
        "See whether it has another name now; if it is gone for good, decide again.",
    ),
    "no logs": (
        "warning",
        "No logs, or too few users, from {what} on",
        "See whether the logs of that time exist, and store them.",
    ),
    "refused": (
        "warning",
        "A log cannot be read: {what}",
        "Run the command, which says why; mend the file or take it out of the folder.",
    ),
    "future": (
        "warning",
        "{text}",
        "Set the clock of that host; forget the log if its times are wrong.",
    ),
    "decide again": (
        "info",
        "{text}",
        "Decide again by the command, look at the new list, and deploy it.",
    ),
    "appeared": (
        "info",
        "The decision does not know an API of the logs: {what}",
        "Decide again if sites may read it.",
    ),
}


def message(body: Mapping[str, Any], *, details: str | None) -> dict[str, Any]:
    """Shorten a notice to what is sent: at most `MOST_BYTES` as JSON.

    Args:
        body: All that is known: see `Watch`.
        details: File that holds it; null where there is none.
    """
    unit = body.get("unit", "user")
    events = [
        replace(event, title=spoken(event.title, unit), todo=spoken(event.todo, unit))
        for event in _events(body)
    ]
    # `min` keeps the first of equals, and events come in the order of what matters.
    first = min(events, key=lambda event: _ORDER[event.severity])
    payload: dict[str, Any] = {
        "id": body["id"],
        "decision": body["decision"],
        "key": f"{body['decision'][:16]}/{first.about}",
        "ended": first.is_over,
        "severity": first.severity,
        "title": _cut(first.title, MOST_LETTERS),
        "todo": first.todo,
        "state": body["state"],
        "was": body["was"],
        "outcome": body["outcome"],
        "since": body.get("since"),
        "users": body.get("users"),
        "also": [_cut(event.title, MOST_LETTERS) for event in events if event is not first],
        "commands": list(body["next"]),
        "runbook": f"docs/runbook.md#{first.about.replace(' ', '-')}",
        "details": details,
    }
    # Commands are whole or gone, as half a command may run: all but three other titles go first.
    while len(encoded(payload)) > MOST_BYTES:
        if len(payload["also"]) > _NAMED:
            payload["also"].pop()
        elif payload["commands"]:  # the details have them whole
            payload["commands"].remove(max(payload["commands"], key=len))
        elif payload["also"]:
            payload["also"].pop()
        else:
            break
    return payload


_ORDER: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}


def encoded(payload: Mapping[str, Any]) -> bytes:
    """Return a message as it is sent."""
    return json.dumps(payload, ensure_ascii=False).encode()


def _events(body: Mapping[str, Any]) -> Iterator[_Event]:
    """Yield what a notice tells, the most important of each severity first."""
    changed = body["changed"]
    yield from _above(changed, (body.get("policy") or {}).get("budget"))
    # The table above is in the order of what matters.
    for problem in sorted(body["problems"], key=lambda one: [*_PROBLEMS].index(one["kind"])):
        severity, title, todo = _PROBLEMS[problem["kind"]]
        if problem.get("new", True):
            title = title.format(**problem)
            yield _Event(about=problem["kind"], severity=severity, title=title, todo=todo)
    yield from _no_longer_above(changed, is_over=body["state"] != "violated")
    yield from _over(body)
    if body.get("mended"):
        windows = ", ".join(since[:10] for since in body["mended"][:_NAMED])
        yield _Event(
            about="fault",
            title=f"Mended logs were stored of {windows}: what was said of them is taken back",
            is_over=all(problem["kind"] != "fault" for problem in body["problems"]),
        )
    alarm = body.get("alarm")
    if alarm and alarm["raised"]:
        yield _Event(
            about="alarm",
            severity="warning",
            title="The windows so far show together that a set is above the budget",
            todo="Look at the exposure of the last windows; decide again if it has grown.",
        )
    if body.get("alarm_over"):
        yield _Event(
            about="alarm",
            title="Over: the windows so far showed together that a set is above the budget",
            is_over=True,
        )
    yield _Event(
        about="state",
        title=f"The list is watched: {_STATES[body['state']]}",
        is_over=body["state"] == "holds",
    )


def _over(body: Mapping[str, Any]) -> Iterator[_Event]:
    """Yield what is in the way no longer; the key is at an end where nothing else of it stands."""
    for problem in body.get("over", ()):
        kind = problem["kind"]
        yield _Event(
            about=kind,
            title=f"Over: {_PROBLEMS[kind][1].format(**problem)}",
            todo="Nothing: two windows in a row do not show it.",
            is_over=problem["ended"],
        )


def _above(changed: Sequence[Mapping[str, Any]], budget: float | None) -> Iterator[_Event]:
    above = [one for one in changed if one["now"] == "block"]
    if above:
        within = "" if budget is None else f", budget {per_cent(budget)} %"
        [first, *_] = above
        limits = f"{between_shares((first['lower'], first['upper']))} %{within}"
        yield _Event(
            about="sets",
            severity="critical",
            title=f"Above the budget since {first['since'][:10]} ({limits}): {_sets(above)}",
            todo="Withhold what the causes name, or deploy a list that was decided again.",
        )


def _no_longer_above(changed: Sequence[Mapping[str, Any]], *, is_over: bool) -> Iterator[_Event]:
    over = [one for one in changed if one["was"] == "block" and one["now"] == "undecided"]
    if over:
        yield _Event(
            about="sets",
            title=f"No longer seen above the budget, not yet certain to hold: {_sets(over)}",
            todo="Nothing; longer windows can be certain.",
            is_over=is_over,
        )
    back = [one for one in changed if one["was"] == "block" and one["now"] == "allow"]
    if back:
        since = back[0]["since"][:10]
        yield _Event(
            about="sets",
            title=f"Within the budget again since {since}: {_sets(back)}",
            is_over=is_over,
        )


_STATES = {
    "holds": "it holds",
    "violated": "a set is above the budget",
    "cannot tell": "these users cannot tell whether it holds; longer windows can",
}


def _sets(changed: Sequence[Mapping[str, Any]]) -> str:
    [first, *rest] = (" + ".join(one["apis"]) for one in changed)
    return f"{len(rest) + 1:,} sets, such as {first}" if rest else first


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."
