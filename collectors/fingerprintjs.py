"""FingerprintJS 3, 4 and 5: the result, its components alone, or their debug string."""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from fpmonitor.collectors.records import (
    UNDEFINED,
    RecordError,
    Visit,
    error_text,
    strict_json,
    text_of,
    value_text,
    wrapped,
)
from fpmonitor.collectors.results import ResultCollector
from fpmonitor.errors import InputError
from fpmonitor.vocabulary import aliases_of, api_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile

_SOURCE = "fingerprintjs"
KEY_MEMBER = "write_key_name"  # where a service says who sent a result
_IDS = ("visit_id", "session_id")  # where the page snippet names the visit and its session
VIA = " via "
_MEMBERS = {"value", "error", "duration"}
_HASHES = ("visitorId", "confidence")
_OWN_MEMBERS = frozenset({"components", "version", KEY_MEMBER, *_IDS, *_HASHES})
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
    others = {f"beside_{i}": name for i, name in enumerate(beside)}
    record = msgspec.defstruct(
        "Record",
        [
            ("components", dict[str, _Component]),
            ("user", msgspec.Raw),
            ("time", msgspec.Raw, msgspec.Raw(b"null")),
            ("version", msgspec.Raw, msgspec.Raw(b"null")),
            (KEY_MEMBER, str, ""),
            *((name, str | None, None) for name in _IDS),
            *((place, msgspec.Raw, msgspec.Raw(b"null")) for place in (*_HASHES, *others)),
        ],
        rename={"user": user, "time": time, **others},
        forbid_unknown_fields=True,
    )
    return msgspec.json.Decoder(record)


def _scalar(raw: msgspec.Raw) -> Any:
    text = bytes(raw)
    return msgspec.json.decode(text) if text[:1] == b'"' else strict_json(text)


def _source(version: Any, components: Mapping[str, Any], key: str) -> str:
    """Say what made a result, and by which key it came: the sender says only the former."""
    source = f"{_SOURCE} {_version(version, components)}"
    return f"{source}{VIA}{key}" if key else source


class FingerprintjsCollector(ResultCollector):
    """Reads results of the open-source library, also as a member of another object.

    `JSON.stringify` drops `undefined` and empties errors, so that a component with neither value
    nor error returned `undefined`. `visitorId` is a hash of the components and never the user.
    """

    name: ClassVar[str] = _SOURCE
    own_members: ClassVar[frozenset[str]] = _OWN_MEMBERS

    def __init__(self) -> None:
        super().__init__()
        self._aliases = aliases_of(_SOURCE)
        self._members = _members_of_components()
        self._known: dict[tuple[str, bytes, bytes], dict[str, str]] = {}
        self._known_bytes = 0

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is or holds a result, components, or an event of the Pro service."""
        return wrapped(record, _has_components) is not None or _is_pro_event(record)

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log.

        Raises
        ------
        InputError
            As of other results; or events of Fingerprint Pro, which hold no components.
        """
        try:
            return super().scan(log, column_map)
        except InputError as error:
            if self._saw_pro_event:
                raise InputError(
                    f"{log.label}: events of Fingerprint Pro hold no components, only their hash",
                    hint="log the result of the open-source library instead",
                ) from error
            raise

    _saw_pro_event = False

    def visit(self, record: Any) -> Visit:
        """Components of one result."""
        result = wrapped(record, _has_components)
        if result is None:
            if _is_pro_event(record):
                self._saw_pro_event = True
                raise RecordError("an event of Fingerprint Pro holds no components")
            raise RecordError("no components of FingerprintJS")
        components = result.get("components", result)
        values = self.values_beside(record, result, components)
        for name, entry in components.items():
            if _is_component(entry):
                values.update(self._values(name, entry))
        version = result.get("version") if "components" in result else None
        outer = record if isinstance(record, dict) else {}
        key = outer.get(KEY_MEMBER)
        source = _source(version, components, key if isinstance(key, str) else "")
        return Visit(values, source, **{name: text_of(outer.get(name)) for name in _IDS})

    def quick_visit(self, raw: bytes, user: str, time: str) -> Visit | None:
        """Components of a result that is a line of its own; what was seen before is not parsed."""
        if "." in time or len({user, time} | _OWN_MEMBERS) < len(_OWN_MEMBERS) + 2:
            return None
        try:
            record = _decoder(user, time, self._beside).decode(raw)
            others = (getattr(record, f"beside_{i}") for i in range(len(self._beside)))
            values = self.values_beside(
                {
                    name: strict_json(bytes(value))
                    for name, value in zip(self._beside, others, strict=True)
                    if self.is_beside(name)
                }
            )
            for name, entry in record.components.items():
                values.update(self._known_values(name, entry))
            user_text, time_text, version = map(_scalar, (record.user, record.time, record.version))
        except (msgspec.MsgspecError, ValueError, RecursionError, RecordError):
            return None
        if not values:
            return None
        source = _source(version, record.components, getattr(record, KEY_MEMBER))
        named = (getattr(record, name) for name in _IDS)
        return Visit(values, source, text_of(user_text), text_of(time_text), *named)

    def _known_values(self, name: str, entry: _Component) -> dict[str, str]:
        value = bytes(entry.value)
        error = b"" if value else bytes(entry.error)
        values = self._known.get((name, value, error))
        if values is None:
            parts = {"value": value, "error": error}
            values = self._values(
                name, {key: strict_json(raw) for key, raw in parts.items() if raw}
            )
            self._remember((name, value, error), values)
        return values

    def _remember(self, key: tuple[str, bytes, bytes], values: dict[str, str]) -> None:
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
            values[members.get(key) or api_of(_SOURCE, f"{name}.{key}")] = value_text(part)
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
        kept = {key: error[key] for key in ("name", "message") if key in error}
        return kept or None
    return error


def _is_component(entry: object) -> bool:
    return isinstance(entry, dict) and "duration" in entry and entry.keys() <= _MEMBERS


def _has_components(record: dict[str, Any]) -> bool:
    components = record.get("components", record)
    if not isinstance(components, dict):
        return False
    wanted = 1 if "components" in record else 3
    found = (entry for entry in components.values() if _is_component(entry))
    return sum(1 for _ in islice(found, wanted)) == wanted


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
