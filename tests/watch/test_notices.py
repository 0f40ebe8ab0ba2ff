"""What is sent of a notice: short, whole in itself, and the same for the same event."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from fpmonitor.answers.notices import MOST_BYTES, MOST_LETTERS, encoded, message
from fpmonitor.answers.standing import ProblemKind
from fpmonitor.lookout.looking import standing_of

GOLDEN = Path(__file__).with_name("notices.json")
RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
SETS = [["Navigator.userAgent", "Screen.width"], ["WebGL.renderer"]]
COMMAND = "fpmonitor decide --k 10 --budget 0.05 -n 20000 --delta 0.05 --candidates {} -o new.json"


def changed(was: str | None, now: str) -> list[dict[str, Any]]:
    told = {"was": was, "now": now, "since": "2026-02-18T00:00:00", "lower": 0.2, "upper": 0.49}
    return [{"apis": apis, **told} for apis in SETS]


def problem(kind: str, what: str, text: str) -> dict[str, Any]:
    return {"problems": [{"kind": kind, "what": what, "text": text, "new": True}]}


def over(kind: str, what: str, text: str, *, ended: bool = True) -> dict[str, Any]:
    return {"over": [{"kind": kind, "what": what, "text": text, "ended": ended}]}


FAULT = {
    "kind": "fault",
    "what": "WebGL.renderer",
    "text": "the logs of 2026-04-01 look broken: ...",
}
TOKYO = "Intl.timeZone Asia/Tokyo is new: many users have it, fewer than 10 had on 2026-03-16"
RELEASE = "users who had come on 2026-02-11 have changed Navigator.userAgent "
EVENTS: dict[str, dict[str, Any]] = {
    "above": {"changed": changed("allow", "block"), "state": "violated"},
    "over": {"changed": changed("block", "undecided"), "state": "cannot tell", "was": "violated"},
    "some are over": {
        "changed": changed("block", "undecided"),
        "state": "violated",
        "was": "violated",
    },
    "some hold again": {
        "changed": changed("block", "allow"),
        "state": "violated",
        "was": "violated",
    },
    "holds again": {"changed": changed("block", "allow"), "was": "violated"},
    "first": {"was": None, "changed": changed(None, "allow")},
    "first, cannot tell": {
        "was": None,
        "state": "cannot tell",
        "changed": changed(None, "undecided"),
    },
    "mended": {"mended": ["2026-04-01T00:00:00", "2026-04-02T00:00:00"]},
    "some are mended": {
        "mended": ["2026-03-31T00:00:00"],
        "problems": [{**FAULT, "new": False}],
    },
    "alarm": {"alarm": {"raised": True}},
    "alarm is over": {"alarm": {"raised": False}, "alarm_over": True},
    "fault": {"problems": [{**FAULT, "new": True}]},
    "release": problem("decide again", "users", f"{RELEASE}(about 61 %: now chromium 142)"),
    "two releases": problem(
        "decide again", "users", f"{RELEASE}(about 0.86 %: now chromium 142, firefox 145)"
    ),
    "a country leaves": problem(
        "decide again",
        "Intl.timeZone",
        "Intl.timeZone Europe/Lisbon is gone: fewer than 10 users have it, many had on 2026-03-16",
    ),
    "a country comes while others have": problem(
        "decide again", "Intl.timeZone with Asia/Tokyo", TOKYO
    ),
    "it has left again": over("decide again", "Intl.timeZone with Asia/Tokyo", TOKYO, ended=False),
    "another source": problem("fault", "WebGL.renderer from shop", "the logs of 2026-04-02 ..."),
    "that source is sound": {
        "problems": [{**FAULT, "new": False}],
        **over("fault", "WebGL.renderer from shop", "the logs of 2026-04-02 ...", ended=False),
    },
    "all are sound": over("fault", "WebGL.renderer", "the logs of 2026-04-01 look broken: ..."),
    "source is back": over(
        "source", "shop", "the source shop sends 63 % fewer users than on 2026-04-27"
    ),
    "an API is back": over("vanished", "Screen.width", "fewer than 10 users have a value of it"),
    "source": problem("source", "shop2", "the source shop2 is new since 2026-04-27"),
    "refused": problem("refused", "broken.jsonl", "broken.jsonl cannot be read; ..."),
    "no logs": problem("no logs", "2026-04-26", "the day from 2026-04-26 on has too few users"),
    "late logs": problem("late logs", "2026-04-26", "by all of its logs, ..."),
    "cannot judge": problem("cannot judge", "users", "the logs hold too few users for a check"),
    "future": problem("future", "*-d.jsonl", "visits of 2026-04-15-d.jsonl have a time in ..."),
    "vanished": problem("vanished", "Screen.width", "fewer than 10 users have a value of it"),
    "appeared": problem("appeared", "Navigator.cpuClass", "it is new in the logs"),
}


def body(event: str, *, candidates: int = 12) -> dict[str, Any]:
    names = ",".join(f"Navigator.property{number}" for number in range(candidates))
    return {
        "id": 7,
        "decision": "ab" * 32,
        "state": "holds",
        "was": "holds",
        "outcome": "holds",
        "changed": [],
        "problems": [],
        "next": [COMMAND.format(names)],
        "users": 4711,
        "since": "2026-02-18T00:00:00",
        "policy": {"budget": 0.05},
        **EVENTS[event],
    }


def test_each_event_is_told_as_recorded() -> None:
    """FPMONITOR_RECORD=1 writes the messages instead."""
    told = {event: message(body(event), details="db.notices/7.json") for event in EVENTS}
    if "FPMONITOR_RECORD" in os.environ:
        text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
        GOLDEN.write_text(text, encoding="utf-8")
    assert told == json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("candidates", [12, 400])
def test_a_message_is_short_and_its_commands_are_whole(event: str, candidates: int) -> None:
    full = body(event, candidates=candidates)
    full["problems"] = [*full["problems"], *(body("refused")["problems"] * 60)]
    told = message(full, details="/var/lib/fpmonitor/db.notices/7.json")
    assert len(told["title"]) <= MOST_LETTERS
    assert len(encoded(told)) <= MOST_BYTES
    assert set(told["commands"]) <= set(full["next"])
    assert told["severity"] in {"critical", "warning", "info"}


def test_nothing_is_cut_out_of_the_text_of_a_reason() -> None:
    """Titles lost what looked like the day on which a reason was seen, which has its own member."""
    text = "seen on 2026-02-18: is how this text begins"
    full = {**body("release"), **problem("decide again", "a", text)}
    assert message(full, details=None)["title"] == text


def test_a_reason_that_a_database_of_before_holds_is_read() -> None:
    text = "seen on 2026-02-18: users have changed a"
    known = {"kind": "decide again", "what": "a", "text": text}
    standing = standing_of(json.dumps({"outcome": "holds", "problems": [known]}))
    assert standing is not None
    assert [(one.text, one.seen) for one in standing.problems] == [(text, None)]


def test_the_title_has_room_for_the_browsers_that_are_new() -> None:
    assert message(body("two releases"), details=None)["title"].endswith("142, firefox 145)")


def test_the_key_of_an_end_is_that_of_what_it_ends() -> None:
    keys = {event: message(body(event), details=None) for event in EVENTS}
    for begin, end in (
        ("above", "over"),
        ("above", "holds again"),
        ("fault", "mended"),
        ("alarm", "alarm is over"),
        ("fault", "all are sound"),
        ("source", "source is back"),
        ("vanished", "an API is back"),
    ):
        assert keys[begin]["key"] == keys[end]["key"]
        assert (keys[begin]["ended"], keys[end]["ended"]) == (False, True)
    for begin, part in (
        ("above", "some are over"),
        ("above", "some hold again"),
        ("fault", "some are mended"),
        ("fault", "that source is sound"),
        ("release", "it has left again"),
    ):
        assert keys[begin]["key"] == keys[part]["key"]
        assert not keys[part]["ended"], "another of the key still stands"


def test_the_runbook_has_a_section_for_each_message() -> None:
    headings = re.findall(r"^## (.*)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    for event in EVENTS:
        told = message(body(event), details=None)
        assert told["runbook"].partition("#")[2] in anchors, event
    kinds = {one["kind"] for event in EVENTS.values() for one in event.get("problems", ())}
    assert kinds == {*get_args(ProblemKind)}
    assert len(RUNBOOK.read_text(encoding="utf-8").split()) <= 900
