"""FingerprintJS 3, 4 and 5: the result, its components alone, or their debug string."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from fpmonitor.collectors.records import (
    IDS,
    UNDEFINED,
    RecordError,
    Visit,
    error_text,
    record_json,
    text_of,
    value_text,
)
from fpmonitor.collectors.results import LibraryResult, ResultCollector, holds, read_record
from fpmonitor.errors import InputError
from fpmonitor.vocabulary import aliases_of, api_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile

_SOURCE = "fingerprintjs"
KEY_MEMBER = "write_key_name"  # where a service says who sent a result
VIA = " via "
_MEMBERS = {"value", "error", "duration"}
_HASHES = {"visitorId": "a hash of the components", "confidence": "the library's own estimate"}
_OWN_MEMBERS = frozenset({"components", "version", KEY_MEMBER, *_HASHES})
_DURATION = "how long it took, not what the browser returned"
_DURATIONS = {"components.*.duration": _DURATION}
_STACK = "names places in the page, not the browser"
_FEWEST = 3  # components, where nothing else says whose they are
_BYTES_OF_AN_ENTRY = 500  # what the memory of a small component takes
_MAX_KNOWN_BYTES = 200_000_000


class _Component(msgspec.Struct, forbid_unknown_fields=True):
    """A component whose value is not parsed yet."""

    duration: msgspec.Raw
    value: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


@cache
def _decoder(user: str, time: str, beside: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Make a decoder of results beside which members tell the user, the time, and more."""
    # Numbered, as names of members are no identifiers. One that nobody knows is an error, and the
    # line is read whole, which says what that member is.
    others = {f"beside_{i}": name for i, name in enumerate(beside)}
    record = msgspec.defstruct(
        "Record",
        [
            ("components", dict[str, _Component]),
            ("user", msgspec.Raw),
            ("time", msgspec.Raw, msgspec.Raw(b"null")),
            ("version", msgspec.Raw, msgspec.Raw(b"null")),
            (KEY_MEMBER, str, ""),
            *((place, msgspec.Raw, msgspec.Raw(b"null")) for place in (*_HASHES, *others)),
        ],
        rename={"user": user, "time": time, **others},
        forbid_unknown_fields=True,
    )
    return msgspec.json.Decoder(record)


def _scalar(raw: msgspec.Raw) -> Any:
    # Numbers by the parser of the slow way: both ways must give one text.
    text = bytes(raw)
    return msgspec.json.decode(text) if text[:1] == b'"' else record_json(text)


def _via(key: Any) -> str:
    """Say by which key a result came; the sender says what made it."""
    return f"{VIA}{key}" if key and isinstance(key, str) else ""


class FingerprintjsCollector(ResultCollector):
    """Reads results of the open-source library, also as a member of another object.

    `JSON.stringify` drops `undefined` and empties errors, so that a component with neither value
    nor error returned `undefined`. `visitorId` is a hash of the components and never the user.
    """

    name: ClassVar[str] = _SOURCE
    left_out: ClassVar[Mapping[str, str]] = {
        "visitorId": _HASHES["visitorId"],
        KEY_MEMBER: "part of the source",
    }

    def __init__(self) -> None:
        super().__init__()
        self._aliases = aliases_of(_SOURCE)
        self._members = _members_of_components()
        self._names = frozenset({name.partition(".")[0] for name in self._aliases})
        self._beside: tuple[str, ...] = ()
        self._told: set[str] = set()
        self._known: dict[tuple[str, bytes, bytes], dict[str, str]] = {}
        self._known_bytes = 0

    def is_result(self, content: Any) -> bool:
        """Whether this holds components: what each took tells them, or that several are known."""
        components = content.get("components", content) if isinstance(content, dict) else None
        if not isinstance(components, dict):
            return False
        shaped = [name for name, entry in components.items() if _is_component(entry)]
        timed = sum("duration" in components[name] for name in shaped)
        if timed >= (1 if "components" in content else _FEWEST):
            return True
        # The Pro service hands the same components on without durations.
        is_whole = "components" in content or len(shaped) == len(components)
        return is_whole and len(self._names.intersection(shaped)) >= _FEWEST

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is or holds a result, components, or an event of the Pro service."""
        return super().recognises_record(record) or _is_pro_event(record)

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log.

        Raises:
            InputError: As of other results; or events of Fingerprint Pro, which hold no components.
        """
        names = {name for record in self.first(log) if isinstance(record, dict) for name in record}
        fields = map(column_map.name_of, ("user", "time"))
        self._names_visits = any(column_map.name_of(name) in names for name in IDS)
        self._beside = tuple(sorted(names - _OWN_MEMBERS - {*fields}))
        try:
            return super().scan(log, column_map)
        except InputError as error:
            if self._saw_pro_event:
                raise InputError(
                    f"{log.label}: these events of Fingerprint Pro hold no components, but a hash",
                    hint="log the result of the open-source library instead, or events with "
                    "raw device attributes",
                ) from error
            raise

    _saw_pro_event = False
    _names_visits = False

    def visit(self, record: Any) -> Visit:
        """Components of one result, and what lies beside it."""
        if _is_pro_event(record) and not holds(record, self.is_result):
            self._saw_pro_event = True
            raise RecordError("an event of Fingerprint Pro holds no components")
        visit = super().visit(record)
        self._told.update(visit.values)
        key = record.get(KEY_MEMBER) if isinstance(record, dict) else None
        return replace(visit, source=f"{visit.source}{_via(key)}")

    def result(self, content: Any) -> LibraryResult:
        """Components of one result; what is no component is kept as it is."""
        whole = "components" in content
        components = content["components"] if whole else content
        read = {name: entry for name, entry in components.items() if self._is_read(name, entry)}
        place = "components." if whole else ""
        values: dict[str, str] = {}
        paths: dict[str, str] = {}
        for name, entry in read.items():
            values |= (said := self._values(name, entry))
            paths |= {api: f"{place}{name}{self._within(name, api)}" for api in said}
        # In the order of the log: that of a set changes from process to process.
        for name in [name for name in components if name not in read] if whole else ():
            api = api_of(_SOURCE, name)
            values[api], paths[api] = value_text(components[name]), f"{place}{name}"
        hash_names = [name for name in _HASHES if whole and content.get(name) is not None]
        not_taken = {name: _HASHES[name] for name in hash_names}
        if any("duration" in entry for entry in read.values()):
            not_taken[f"{place}*.duration"] = _DURATION
        if any(_message(error) != error for error in map(_error, read.values())):
            not_taken[f"{place}*.error.stack"] = _STACK
        version = _version(content.get("version") if whole else None, components)
        own = _OWN_MEMBERS if whole else read
        return LibraryResult(values, f"{_SOURCE} {version}", own, not_taken, paths)

    def _within(self, name: str, api: str) -> str:
        """Return where an API lies in its component."""
        for key, known in self._members.get(name, {}).items():
            if known == api:
                return f".value.{key}"
        part = api.removeprefix(api_of(_SOURCE, name))
        return f".value{part}" if part else ""

    def _is_read(self, name: str, entry: Any) -> bool:
        return _is_component(entry) and ("duration" in entry or name in self._names)

    def quick_visit(self, raw: bytes, user: str, time: str) -> Visit | None:
        """Components of a result that is a line of its own; what was seen before is not parsed."""
        # A time within an object, or a member with two meanings, takes the slow way.
        if "." in time or len({user, time} | _OWN_MEMBERS) < len(_OWN_MEMBERS) + 2:
            return None
        if self._names_visits:
            return None
        try:
            record = _decoder(user, time, self._beside).decode(raw)
            components = record.components.values()
            if not components or any(map(_tells_more, components)):
                return None
            members = {name: getattr(record, f"beside_{i}") for i, name in enumerate(self._beside)}
            members |= {name: getattr(record, name) for name in _HASHES}
            rest = {name: record_json(bytes(value)) for name, value in members.items()}
            values: dict[str, str] = {}
            for name, entry in record.components.items():
                values.update(self._known_values(name, entry))
            user_text, time_text, version = map(_scalar, (record.user, record.time, record.version))
            not_taken = {name: why for name, why in _HASHES.items() if rest[name] is not None}
            not_taken |= _DURATIONS
            source = f"{_SOURCE} {_version(version, record.components)}"
            result = LibraryResult(values, source, _OWN_MEMBERS, not_taken)
            contents = read_record(rest, self.reading, result)
        except (msgspec.MsgspecError, ValueError, RecursionError, RecordError):
            return None
        if not self._told.issuperset(values):  # a whole reading says where they lie
            return None
        source = f"{source}{_via(getattr(record, KEY_MEMBER))}"
        user_text, time_text = text_of(user_text), text_of(time_text)
        return Visit(contents.values, source, user_text, time_text, contents.not_taken)

    def _known_values(self, name: str, entry: _Component) -> dict[str, str]:
        value = bytes(entry.value)
        error = b"" if value else bytes(entry.error)
        values = self._known.get((name, value, error))
        if values is None:
            parts = {"value": value, "error": error}
            values = self._values(
                name, {key: record_json(raw) for key, raw in parts.items() if raw}
            )
            self._remember((name, value, error), values)
        return values

    def _remember(self, key: tuple[str, bytes, bytes], values: dict[str, str]) -> None:
        # The texts of components are keys: where all canvases differ, this would hold the log.
        self._known_bytes += _BYTES_OF_AN_ENTRY + len(key[1]) + len(key[2])
        if self._known_bytes > _MAX_KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known[key] = values

    def _values(self, name: str, entry: dict[str, Any]) -> dict[str, str]:
        members = self._members.get(name)
        value = entry.get("value")
        if members is None:
            return {self._aliases.get(name) or api_of(_SOURCE, name): _text(entry)}
        if not isinstance(value, dict):
            return dict.fromkeys(members.values(), _text(entry))
        # The component was asked for: a member that JSON lacks was undefined.
        values = dict.fromkeys(members.values(), UNDEFINED)
        for key, part in value.items():
            api = members.get(key) or members.get(key[:1].lower() + key[1:])  # as the Pro service
            values[api or api_of(_SOURCE, f"{name}.{key}")] = value_text(part)
        return values


def _members_of_components() -> dict[str, dict[str, str]]:
    """Components whose members are APIs of their own: component -> member -> API."""
    members: dict[str, dict[str, str]] = {}
    for name, api in aliases_of(_SOURCE).items():
        component, dot, key = name.partition(".")
        if dot:
            members.setdefault(component, {})[key] = api
    return members


def _text(entry: dict[str, Any]) -> str:
    if "value" in entry:
        return value_text(entry["value"])
    if "error" in entry:
        return error_text(_message(entry["error"]))
    return UNDEFINED


def _message(error: Any) -> Any:
    """Error without its stack, which names places in the page rather than the browser."""
    if isinstance(error, dict):
        name_and_message = {key: error[key] for key in ("name", "message") if key in error}
        return name_and_message or None
    return error


def _error(entry: Mapping[str, Any]) -> Any:
    return None if "value" in entry else entry.get("error") or None


def _tells_more(entry: _Component) -> bool:
    """Whether an error says more than its message, which `JSON.stringify` does not keep."""
    return len(entry.error) > len(b"{}") and bytes(entry.error)[:1] == b"{"


def _is_component(entry: Any) -> bool:
    return isinstance(entry, dict) and bool(entry) and entry.keys() <= _MEMBERS


def _is_pro_event(record: object) -> bool:
    products = record.get("products") if isinstance(record, dict) else None
    return isinstance(products, dict) and "identification" in products


def _version(version: object, components: Mapping[str, Any]) -> str:
    """Version of the library; components alone tell the major version only."""
    if isinstance(version, str):
        return version
    if "userAgentData" in components:
        return "5"
    return "4" if "webGlBasics" in components else "3"
