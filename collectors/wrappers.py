"""JSON lines of which each wraps a record, as queues and databases write them, or lists visits."""

from __future__ import annotations

import json
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

from fpmonitor.collectors.documents import ENVELOPES, leaf_names
from fpmonitor.collectors.records import opened
from fpmonitor.collectors.results import holds_result
from fpmonitor.errors import InputError, excerpt
from fpmonitor.logs.log_file import LONG_LINE, MAX_EXPANSION
from fpmonitor.safe_files import json_or_none
from fpmonitor.value_forms import TIMES, form_words
from fpmonitor.vocabulary import meanings

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_Path: TypeAlias = "tuple[str, ...]"
_SAMPLE = 200
_MOST_DEEP = 4
# Where queues, log services and databases keep the record itself.
_WRAPPERS = ENVELOPES.union(
    ["_source", "message", "@message", "_raw", "jsonpayload", "after", "newimage", "logevents"]
)
# What a list is called whose elements are visits of the user whom the record names.
_VISITS = ENVELOPES.union(
    ["history", "logins", "loads", "pageviews", "page_views", "impressions", "requests"],
    ["snapshots", "measurements", "samples", "logs", "reports"],
) - {"devices", "browsers", "features", "fields", "values", "value"}
_TELLING = 2  # APIs that an element names, whatever the list is called
WHY = "wraps the records"


def wrapped_at(records: Iterable[Mapping[str, Any]], user: str) -> _Path | None:
    """Return the names that lead to the record in each line; null where the line is the record.

    The record is what names its user, under names that products give to what they wrap. Where rows
    are counted, it is all that a line has besides plain values that tell nothing of a browser.

    Args:
        records: The first lines.
        user: Name of the member for the user; `row` for none.
    """
    lines = list(islice(records, _SAMPLE))
    if not lines:
        return None
    if user == "row":
        names = {_only_object(line) for line in lines}
        name = names.pop()
        return None if name is None or names else (name,)
    # Of a queue, some lines hold no record: what was deleted has a null in its place.
    paths = list(filter(None, (set(_paths_to(line, user, ())) for line in lines)))
    if 2 * len(paths) <= len(lines):
        return None
    common = set.intersection(*paths)
    found = common.pop() if len(common) == 1 else ()
    return found if found and all(step.casefold() in _WRAPPERS for step in found) else None


def _only_object(line: Mapping[str, Any]) -> str | None:
    nested = [name for name, value in line.items() if _objects(value)]
    others = line.keys() - set(nested)
    if len(nested) != 1 or nested[0].casefold() not in _WRAPPERS or any(map(meanings, others)):
        return None
    return nested[0]


def _objects(value: object) -> list[Mapping[str, Any]]:
    """Return the objects that a member holds: itself, what its text says, or those of its list."""
    value = opened(value)
    if isinstance(value, dict):
        return [value] if value else []
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return value
    return []


def _paths_to(content: Mapping[str, Any], user: str, path: _Path) -> Iterator[_Path]:
    if isinstance(content.get(user), str | int | float):
        yield path
    elif len(path) < _MOST_DEEP:
        for name, value in content.items():
            found = [set(_paths_to(one, user, (*path, name))) for one in _objects(value)]
            if found:
                yield from set.intersection(*found)


def visits_at(
    records: Iterable[Mapping[str, Any]], others: Collection[str], label: str
) -> str | None:
    """Return the member of each line that lists visits; null where there is none.

    Args:
        records: The first lines.
        others: Members of which the user said what they are.
        label: What the log is reported by.

    Raises:
        InputError: Several members list visits; or one does by what its elements hold, but not by
            its name.
    """
    lines = list(islice(records, _SAMPLE))
    listed: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        for name, value in line.items():
            if name not in others and isinstance(opened(value), list) and not meanings(name):
                listed.setdefault(name, []).extend(_objects(value))
    found = {name for name, elements in listed.items() if elements and _tell(name, elements)}
    named = sorted(name for name in found if name.casefold() in _VISITS)
    if len(named) > 1:
        raise InputError(
            f"{label}: {', '.join(map(excerpt, named))} each list visits; nothing was stored",
            hint=f"take one of them: --ignore {quote(named[1])}",
        )
    if named or not found:
        return named[0] if named else None
    name = min(found)
    raise InputError(
        f"{label}: {excerpt(name)!r} looks like a list of visits; nothing was stored",
        hint=f"called `visits`, it is read as those; --as {quote(f'{name}=')} takes the list for "
        f"one value, --ignore {quote(name)} leaves it out",
    )


def _tell(name: str, elements: Sequence[Mapping[str, Any]]) -> bool:
    """Whether elements of a list tell what browsers returned, as visits do."""
    sample = elements[:_SAMPLE]
    apis = {found[0] for one in sample for path in leaf_names(one) if (found := meanings(path))}
    if name.casefold() in _VISITS:
        return bool(apis) or any(map(holds_result, sample))
    timed = all(any(TIMES.intersection(form_words(key)) for key in one) for one in sample)
    return len(apis) >= _TELLING or (timed and (bool(apis) or any(map(holds_result, sample))))


def unwrapped_lines(
    source: Iterable[bytes],
    path: _Path,
    retained_names: Collection[str] | None,
    left_out: Counter[str],
) -> Iterator[bytes]:
    """Take the records out of lines; of one that is no JSON object, itself.

    Args:
        source: The lines.
        path: Names that lead to the records.
        retained_names: Plain members of what wraps them that are part of each; null for all.
        left_out: Counts the lines that have each of the other members.
    """

    def records(
        content: Mapping[str, Any], path: _Path, above: _Path
    ) -> Iterator[Mapping[str, Any]]:
        if not path:
            yield content
            return
        step, *rest = path
        outer: dict[str, Any] = {}
        for name, value in content.items():
            if name == step:
                continue
            if retained_names is None or _is_retained(name, value, retained_names):
                outer[name] = value
            else:
                left_out[".".join((*above, name))] += 1
        objects = _objects(content.get(step))
        if not objects:  # a line without a record names no user, and is rejected
            yield outer
        for one in objects:
            for record in records(one, tuple(rest), (*above, step)):
                left_out.update(outer.keys() & record.keys())  # the inner one counts
                yield {**outer, **record}

    for line in source:
        content = json_or_none(line)
        if not isinstance(content, dict):
            yield line if line.endswith(b"\n") else line + b"\n"
            continue
        left = MAX_EXPANSION * len(line)
        for record in records(content, path, ()):
            text = json.dumps(record).encode() + b"\n"
            left -= len(text)
            # What wraps them is part of each: a line of 16 MB could become terabytes.
            if left < 0:
                yield LONG_LINE.encode() + b"\n"
                break
            yield text


def _is_retained(name: str, value: object, retained_names: Collection[str]) -> bool:
    is_plain = not isinstance(value, dict | list)
    return not is_plain or name in retained_names or bool(meanings(name))
