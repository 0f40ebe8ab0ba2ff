"""What is known of a list that is in use as numbers for Prometheus, in its text format.

Labels name the decision, sets of APIs, sources of k users, and what is in the way, as notices do:
no users, and no values that fewer than k of them have.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fpmonitor.export.exporter import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fpmonitor.answers.standing import Standing
    from fpmonitor.decide.decision import Decision

_MOST_SETS = 200  # whose limits are told: those that are above, and the largest

_HELP = {
    "set_exposure_lower": "Lower limit of the exposure of a set, share of the users.",
    "set_exposure_upper": "Upper limit of the exposure of a set, share of the users.",
    "set_above_budget": "1 where a set is known to be above the budget.",
    "set_within_budget": "1 where a set is known to be within the budget.",
    "exposure_budget": "Largest tolerated exposure, share of the users.",
    "sets": "Sets on the list by what is known of them.",
    "window_users": "Users of the newest window that was checked, or all of them.",
    "source_users": "Users of a source in that window, where k users of each have come.",
    "source_faults": "APIs whose values a source sends broken, where it was judged.",
    "window_end_seconds": "End of the newest window that was checked, Unix time.",
    "alarm": "1 while the windows so far raise an alarm together.",
    "problem": "1 for each thing that is in the way.",
    "undelivered_notices": "Notices that were not delivered yet.",
    "newest_log_seconds": "When the newest log of the folder was written, Unix time.",
    "watch_last_look_seconds": "When the watch looked last, Unix time: it stops if the watch ends.",
}


def gauges(
    decision: Decision,
    standing: Standing | None,
    *,
    identity: str,
    undelivered: int | None = None,
    newest_log: float | None = None,
    now: datetime | None = None,
) -> str:
    """Return the gauges of a watch, or of a service, as text.

    Args:
        decision, identity: What is watched, and its digest.
        standing: What is known of it; null before the first look.
        undelivered, newest_log, now: Of a watch: notices that wait, the time of the newest log,
            Unix time, and that of the look.
    """
    own = {"decision": identity[:16]}
    looked = None if now is None else now.timestamp()
    gauge_values = {
        "exposure_budget": decision.policy.budget,
        "undelivered_notices": undelivered,
        "watch_last_look_seconds": looked,
        "newest_log_seconds": newest_log,
    }
    # A gauge without a value is left out: in the format of Prometheus there is no null.
    samples = [
        (name, own, float(value)) for name, value in gauge_values.items() if value is not None
    ]
    if standing is not None:
        samples += [(name, own | labels, value) for name, labels, value in _known(standing)]
    return "".join(_lines(samples))


def _known(standing: Standing) -> Iterator[tuple[str, dict[str, str], float]]:
    for verdict, state in (("allow", "within"), ("block", "above"), ("undecided", "unknown")):
        found = sum(one.verdict == verdict for one in standing.sets)
        yield "sets", {"state": state}, found
    # Sets above the budget first: of more than are told, an alert must not miss one.
    ordered_sets = sorted(standing.sets, key=lambda one: (one.verdict != "block", -len(one.apis)))
    for one in ordered_sets[:_MOST_SETS]:
        labels = {"set": " + ".join(map(_named, one.apis))}
        yield "set_above_budget", labels, one.verdict == "block"
        yield "set_within_budget", labels, one.verdict == "allow"
        if one.limits is not None:
            yield "set_exposure_lower", labels, one.limits[0]
            yield "set_exposure_upper", labels, one.limits[1]
    if standing.users:
        yield "window_users", {}, standing.users[-1]
    if standing.until is not None:
        yield "alarm", {}, standing.alarm
        # Stored as UTC without a zone: read as local time it would be hours off.
        end = datetime.fromisoformat(standing.until).replace(tzinfo=UTC)
        yield "window_end_seconds", {}, end.timestamp()
    for source, users in standing.source_users.items():
        yield "source_users", {"source": _named(source)}, users
    for source, apis in standing.faulty_sources.items():
        yield "source_faults", {"source": _named(source)}, len(apis)
    # A further source, or value, of what is in the way is no other alert.
    for problem in (one for one in standing.in_the_way if one.part_of is None):
        yield "problem", {"kind": problem.kind, "what": problem.what}, 1


def _named(name: str) -> str:
    """Return a name as no other is told: two samples of equal labels make a file unreadable.

    As JSON where it could be taken for several, or for another name whose escapes it shows.
    """
    is_plain = name.isprintable() and "+" not in name and not name.startswith('"')
    return name if is_plain else json.dumps(name)


def _lines(samples: Iterable[tuple[str, dict[str, str], float]]) -> Iterator[str]:
    """Write samples, those of a name together."""
    by_name: dict[str, list[str]] = {}
    for name, labels, value in samples:
        label_text = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        by_name.setdefault(name, []).append(f"fpmonitor_{name}{{{label_text}}} {float(value)!r}\n")
    for name, lines in by_name.items():
        yield f"# HELP fpmonitor_{name} {_HELP[name]}\n# TYPE fpmonitor_{name} gauge\n"
        # Problems that differ in what is not printed give one line twice, which the format forbids.
        yield from dict.fromkeys(lines)


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"')
