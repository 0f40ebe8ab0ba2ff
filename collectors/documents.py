"""Documents: one JSON object of many records, as databases, data frames and web APIs write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from fpmonitor.collectors.tables import ATTRIBUTES
from fpmonitor.errors import InputError, excerpt
from fpmonitor.logs.contract import MAX_APIS
from fpmonitor.vocabulary import meanings

_Rows: TypeAlias = "Iterator[dict[str, Any]]"
_Found: TypeAlias = "tuple[_Rows, Mapping[str, int]]"
# Names of members that hold records, or the object that does: of exports, databases and web APIs.
ENVELOPES = {
    *("data", "results", "result", "records", "rows", "items", "hits", "docs", "documents"),
    *("entries", "events", "features", "values", "value", "response", "payload", "body", "content"),
    *("objects", "list", "users", "visitors", "visits", "sessions", "clients", "devices"),
    *("browsers", "fingerprints", "observations", "collection", "_embedded", "edges", "nodes"),
}
# Where an element keeps its record: Elasticsearch, GeoJSON, Airtable, GraphQL, CouchDB, JSON:API.
_INNER = ("_source", "properties", "fields", "node", "doc", ATTRIBUTES)
_NAMES = ("columns", "cols", "meta", "fields", "header", "headers", "schema", "names", "keys")
_FEWEST = 5  # rows of which keys and lengths show that they are a table, not a nested record
_SAMPLE = 200
_ALIKE = 0.8
_MOST_DEEP = 4
_MOST_BESIDE = 200
_OTHERS = "*"


def _count(names: Iterable[str], beside: Counter[str]) -> Counter[str]:
    """Count what a record lacks by its name; many names, which may be data, as one.

    Most records have those of the one before: `update`, of all names, took five times as long.
    """
    new = []
    for name in names:
        if name in beside:
            beside[name] += 1
        else:
            new.append(name)
    if new:
        room = max(_MOST_BESIDE - len(beside), 0)
        beside.update(sorted(new)[:room])
        if len(new) > room:
            beside[_OTHERS] += 1
    return beside


class _Known(dict[str, bool]):
    """Whether names are called as APIs are; beyond as many as there may be, none is."""

    def __missing__(self, name: str) -> bool:
        """Judge a name."""
        if len(self) >= MAX_APIS:
            return False
        return self.setdefault(name, bool(meanings(name)))

    def tells(self, name: str, value: object) -> bool:
        """Whether a member, or one within it, is called as an API is."""
        return any(self[leaf] for leaf in leaf_names({name: value}))


def unfolded(document: Mapping[str, Any], user: str, label: str) -> _Found | None:
    """Return the records of a document, and what is beside them; null where it is one record.

    What is beside are names, and how often each comes. The key of a record is its user, unless the
    records name theirs or the keys number the rows.

    Args:
        document: What a file of one JSON object holds.
        user: Name of the member for the user; `row` for none.
        label: What the log is reported by.
    """
    return _unfolded(document, user, label, ())


def _unfolded(
    document: Mapping[str, Any], user: str, label: str, path: tuple[str, ...]
) -> _Found | None:
    # What names its user is a record, whatever it holds.
    if not document or len(path) > _MOST_DEEP or isinstance(document.get(user), str | int | float):
        return None
    # Before lists of objects: rows of BigQuery are `{f: [{v: ...}]}`, with no name in them.
    if (below_names := _with_names(document, user)) is not None:
        named_rows, used = below_names
        return named_rows, _within(path, _count(document.keys() - used, Counter()))
    lists = {name: rows for name, rows in document.items() if _are_objects(rows)}
    if (visits := _keyed_lists(document, lists, user)) is not None:
        return visits, {}
    record_lists = {name: rows for name, rows in lists.items() if name.casefold() in ENVELOPES}
    if not record_lists and _is_wrapper(document, lists):
        record_lists = lists
    # Of several lists that whose rows name users; where none or two do, the user has to say.
    if len(record_lists) > 1:
        named = {
            name: rows for name, rows in record_lists.items() if any(user in row for row in rows)
        }
        record_lists = named if len(named) == 1 else record_lists
    if len(record_lists) > 1:
        raise _ambiguous(label, [(*path, name) for name in record_lists])
    for held_by, rows in record_lists.items():
        inner_rows, left_out = _without_wrappers(rows, user)
        beside = _within(path, _count(document.keys() - {held_by}, Counter()))
        return inner_rows, beside | _within((*path, held_by), left_out)
    for name, inner in document.items():
        if name.casefold() in ENVELOPES and isinstance(inner, dict):
            found = _unfolded(inner, user, label, (*path, name))
            if found is not None:
                beside = _within(path, _count(document.keys() - {name}, Counter()))
                return found[0], {**beside, **found[1]}
    table = _table(document, user)
    return None if table is None else (table, {})


def _within(path: Sequence[str], times: Mapping[str, int]) -> dict[str, int]:
    return {".".join((*path, name)): times[name] for name in sorted(times)}


def _ambiguous(label: str, paths: Sequence[tuple[str, ...]]) -> InputError:
    named = [excerpt(".".join(path)) for path in paths[:4]]
    return InputError(
        f"{label}: one JSON object of which several members hold records: {', '.join(named)}",
        hint=f"take one of them: `jq -c '.{named[0]}[]' FILE | fpmonitor ingest -`",
    )


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _is_wrapper(document: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]) -> bool:
    """Whether all but some lists of objects tells nothing of a browser."""
    others = {name: value for name, value in document.items() if name not in lists}
    return (
        any(len(rows) >= _FEWEST for rows in lists.values())
        and not any(isinstance(value, dict | list) for value in others.values())
        and not any(map(_Known().__getitem__, others))
    )


def _without_wrappers(rows: Sequence[Mapping[str, Any]], user: str) -> _Found:
    """Take the record out of each of some elements, and what beside it tells of a browser."""
    for name in _INNER:
        if not all(isinstance(row.get(name), dict) for row in rows):
            continue
        if name == ATTRIBUTES and all(user in row for row in rows):
            break  # then it is no wrapper, but holds some of the APIs, as in JSON lines
        left_out, known = Counter[str](), _Known()
        found = []
        for row in rows:
            beside = {
                key: value
                for key, value in row.items()
                # A member of the record itself counts more than one beside it.
                if key not in row[name]
                and (
                    not isinstance(value, dict | list) or (key != name and known.tells(key, value))
                )
            }
            _count(row.keys() - beside - {name}, left_out)
            found.append({**beside, **row[name]})
        return iter(found), left_out
    return map(dict, rows), {}


def leaf_names(
    content: Mapping[str, Any], path: str = "", depth: int = _MOST_DEEP
) -> Iterator[str]:
    """Names of members that are no objects, after those that lead to them."""
    for name, value in content.items():
        if isinstance(value, dict) and depth:
            yield from leaf_names(value, f"{path}{name}.", depth - 1)
        else:
            yield path + name


def _with_names(document: Mapping[str, Any], user: str) -> tuple[_Rows, set[str]] | None:
    """Read rows that are lists, beside the names of their columns; tell the members of both."""
    for held_by, listed in document.items():
        width = len(_cells(listed[0])) if isinstance(listed, list) and listed else 0
        for place in _NAMES if width else ():
            names = _column_names(document.get(place))
            if len(names) == width == len({*names}):
                rows = [_cells(row) for row in listed]
                if any(len(row) != width for row in rows):
                    break
                index = document.get("index")
                is_index = isinstance(index, list) and len(index) == len(rows)
                keys = list(map(str, index or ())) if is_index else None
                records = (dict(zip(names, row, strict=True)) for row in rows)
                used = {held_by, place, *(["index"] if is_index else [])}
                return _with_users(keys, records, user, names), used
    return None


def _cells(row: object) -> list[Any]:
    """Cells of a row that is a list, also in the words of BigQuery; none of another one."""
    if isinstance(row, dict) and row.keys() == {"f"} and isinstance(row["f"], list):
        return [cell.get("v") if isinstance(cell, dict) else cell for cell in row["f"]]
    return row if isinstance(row, list) else []


def _column_names(described: object) -> list[str]:
    """Names of columns, which may be members of objects that describe them."""
    if isinstance(described, dict):
        described = described.get("fields")
    if not isinstance(described, list):
        return []
    names = [one.get("name") if isinstance(one, dict) else one for one in described]
    return [name for name in names if isinstance(name, str)]


def _table(document: Mapping[str, Any], user: str) -> _Rows | None:
    """Read an object of objects or of lists that are alike; null for another one."""
    members = list(document.values())
    if all(isinstance(member, list) for member in members):
        # Columns as lists, as of `to_dict('list')` in pandas.
        length = len(members[0])
        is_table = length >= _FEWEST or (user in document and length > 0)
        if not is_table or any(len(member) != length for member in members):
            return None
        return (dict(zip(document, row, strict=True)) for row in zip(*members, strict=True))
    if not all(isinstance(member, dict) and member for member in members):
        return None
    inner = list(members[0])
    # pandas writes `{column: {row: value}}` by default, and `{row: {column: value}}` by index.
    is_square = all(member.keys() == members[0].keys() for member in members)
    if is_square and _is_by_column(document, inner, user):
        columns = ({name: column[key] for name, column in document.items()} for key in inner)
        return _with_users(inner, columns, user, document)
    if not _are_alike(members) or not _are_keys(list(document)):
        return None
    names = {name for member in members for name in member}
    return _with_users(list(document), map(dict, members), user, names)


def _keyed_lists(
    document: Mapping[str, Any], lists: Mapping[str, Sequence[Any]], user: str
) -> _Rows | None:
    """Read an object that lists the records of each user below its key; null for another one."""
    is_keyed = lists.keys() == document.keys() and _are_keys(list(document))
    known = _Known()
    if not is_keyed or any(name.casefold() in ENVELOPES or known[name] for name in document):
        return None
    rows = [row for listed in lists.values() for row in listed]
    if not _are_alike(rows):
        return None
    keys = [key for key, listed in lists.items() for _ in listed]
    return _with_users(keys, rows, user, {name for row in rows for name in row})


def _is_by_column(document: Mapping[str, Any], inner: Sequence[str], user: str) -> bool:
    """Whether the members of an object of equal objects are columns, rather than rows."""
    if _number_rows(inner) or user in document:
        return len(inner) >= _FEWEST or user in document
    if _number_rows(list(document)) or user in inner:
        return False
    known_outside, known_inside = (sum(map(_Known().__getitem__, n)) for n in (document, inner))
    if known_outside != known_inside:
        return known_outside > known_inside and len(inner) >= _FEWEST
    # No name tells which are the columns: a table has more rows.
    return len(inner) >= max(_FEWEST, 2 * len(document))


def _number_rows(keys: Sequence[str]) -> bool:
    """Whether keys are 0, 1, 2, ... or 1, 2, 3, ..."""
    # As sets: members of an object have no order.
    return any({*keys} == {*map(str, range(start, start + len(keys)))} for start in (0, 1))


def _are_keys(keys: Sequence[str]) -> bool:
    """Whether names are those of records: they are many, or all have a digit."""
    return len(keys) >= _FEWEST or all(any(map(str.isdigit, key)) for key in keys)


def _are_alike(members: Sequence[Mapping[str, Any]]) -> bool:
    """Whether objects are rows of one table: of the same names, each with values of one kind."""
    sample = list(islice(members, _SAMPLE))
    times = Counter(name for member in sample for name in member)
    common = {name for name, count in times.items() if 2 * count >= len(sample)}
    shared = sum(times[name] for name in common)
    if len(sample) < 2 or shared < _ALIKE / 2 * sum(times.values()) or not common:
        return False
    uniform = [name for name in common if len(_kinds(member.get(name) for member in sample)) < 2]
    return len(uniform) >= _ALIKE * len(common)


def _kinds(values: Iterable[object]) -> set[str]:
    # One column may have 1 in a row and 1.5 in the next.
    kinds = {int: "number", float: "number"}
    return {kinds.get(type(value), type(value).__name__) for value in values if value is not None}


def _with_users(
    keys: Sequence[str] | None,
    rows: Iterable[dict[str, Any]],
    user: str,
    names: Collection[str],
) -> _Rows:
    """Add the keys of the rows as their users, unless they have some or the keys number them."""
    is_named = user == "row" or user in names or user.split(".", maxsplit=1)[0] in names
    if keys is None or is_named or _number_rows(keys):
        return iter(rows)
    return ({user: key, **row} for key, row in zip(keys, rows, strict=True))
