"""Two rounds of a pilot on one machine without its services, and a picture of who learned what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fpmonitor.errors import UndecidableError
from fpmonitor.policy import UP
from fpmonitor.private.files import encode
from fpmonitor.private.folder import RoleFolder, make_pilot
from fpmonitor.private.group import SealedChannel
from fpmonitor.private.selection import (
    JointComparison,
    Selection,
    compare_with_joint,
    select_values,
)
from fpmonitor.private.study import Study, first_ask, release_ask
from fpmonitor.render import svg
from fpmonitor.render.numbers import percent
from fpmonitor.safe_files import write_bytes

_ARROWHEAD = svg.tag(
    "marker",
    svg.tag("path", d="M0 0 L8 4 L0 8 z", fill="currentColor"),
    id="tip",
    markerWidth=8,
    markerHeight=8,
    refX=7,
    refY=4,
    orient="auto",
)


def two_rounds(
    pilot: Path, terms: Study, holders: Sequence[Mapping[str, str]]
) -> tuple[Selection, JointComparison]:
    """Make a pilot in a new folder, and collect two rounds from users by their tokens.

    The folder then has the requests, the selection, and in each role's folder what it holds.
    Returns what the curator chose, and what the analyst saw of it.

    Raises:
        UndecidableError: No API is within the budget, or there are too few users.
    """
    study = make_pilot(pilot, terms)
    channel = SealedChannel(pilot)
    try:
        # Of these users alone: no limit is drawn, so that the picture is always the same.
        selection = select_values(study, channel(first_ask(study), holders), setting="fixed")
        chosen = selection.recommended.apis
        if not chosen:
            raise UndecidableError("no API is within the budget", hint="raise the budget")
        sign = RoleFolder.of(pilot, "curator").ring.sign
        ask = release_ask(study, selection.promise, chosen, sign)
        write_bytes(pilot / "round-2.json", [ask.to_bytes()])
        write_bytes(pilot / "selection.json", [encode(selection)])
        joint = channel(ask, holders)[chosen]
    finally:
        channel.close()
    return selection, compare_with_joint(study, selection.recommended, joint)


def picture(selection: Selection, compared: JointComparison) -> str:
    """Return an SVG of who learned what."""
    users, apis = compared.users, len(selection.singles)
    together = len(selection.recommended.apis)
    promised, exposed = selection.promise.upper, compared.empirical
    boxes = (
        (20, 100, "users", f"{users:,}, with {apis} APIs each", "keep their records"),
        (330, 100, "shuffler", f"{users * (apis + 1):,} sealed messages", "who sent, and no value"),
        (650, 20, "curator", f"{users:,} values of each API", "no two values together"),
        (650, 180, "analyst", f"{together} of {apis} APIs together", "no other set, no names"),
    )
    arrows = (
        (210, 140, 326, 140, "sealed twice", 268, 132),
        (520, 125, 646, 70, "mixed", 570, 86),
        (520, 155, 646, 210, "mixed", 570, 202),
        (745, 100, 745, 176, f"signs: at most {percent(promised, 2, away=UP)} exposed", 634, 144),
    )
    parts = [svg.tag("defs", _ARROWHEAD)]
    for x1, y1, x2, y2, label, x, y in arrows:
        ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        parts.append(svg.tag("line", **ends, stroke="currentColor", marker_end="url(#tip)"))
        parts.append(_text(x, y, label))
    for x, y, *lines in boxes:
        size = {"x": x, "y": y, "width": 190, "height": 80, "rx": 6}
        parts.append(svg.tag("rect", **size, fill="#8ab4f855", stroke="currentColor"))
        parts += [_text(x + 95, y + 22 + 22 * row, words) for row, words in enumerate(lines)]
    parts.append(_text(430, 290, f"exposed in what the analyst saw: {percent(exposed, 2)}"))
    title = "Who learns what in private collection"
    return svg.standalone(svg.svg_document(title, parts, 860, 310), title)


def _text(x: float, y: float, content: str) -> str:
    return svg.text(x, y, content, text_anchor="middle", fill="currentColor", font_size=13)
