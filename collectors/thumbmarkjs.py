"""ThumbmarkJS 0.x and 1.x: results, as `getThumbmark` and the older `getFingerprint` give them."""

from __future__ import annotations

from typing import Any, ClassVar

from fpmonitor.collectors.records import (
    UNDEFINED,
    RecordError,
    Visit,
    error_text,
    leaves,
    wrapped,
)
from fpmonitor.collectors.results import ResultCollector
from fpmonitor.vocabulary import aliases_of, api_of

_SOURCE = "thumbmarkjs"
_NO_WEBGL = {"hardware.videocard": "hardware.videocard", "webgl.webgl": "webgl"}  # a text says so
_SECTIONS = {
    "audio",
    "canvas",
    "fonts",
    "hardware",
    "locales",
    "math",
    "plugins",
    "screen",
    "system",
}


class ThumbmarkjsCollector(ResultCollector):
    """Reads the nested components; `thumbmark` is a hash of them and never the user.

    The library leaves components out by browser (`stabilize`): those are absent, not undefined.
    """

    name: ClassVar[str] = _SOURCE
    own_members: ClassVar[frozenset[str]] = frozenset({"thumbmark", "hash", "version"})

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is or holds a result."""
        return wrapped(record, _is_result) is not None

    def visit(self, record: Any) -> Visit:
        """Components of one result, and what kept others from answering."""
        result = wrapped(record, _is_result)
        if result is None:
            raise RecordError("no result of ThumbmarkJS")
        values = self.values_beside(record, result) | _errors(result.get("error"))
        values |= leaves(_SOURCE, _components(result), depth=3)
        for text, component in _NO_WEBGL.items():
            if values.pop(api_of(_SOURCE, text), None) is not None:
                values |= dict.fromkeys(_apis_of(component), UNDEFINED)
        version = result.get("version", "1" if "components" in result else "0")
        return Visit(values, f"{_SOURCE} {version}")


def _components(result: dict[str, Any]) -> Any:
    return result.get("components") if "thumbmark" in result else result.get("data")


def _is_result(record: dict[str, Any]) -> bool:
    if not {"thumbmark", "hash"} & record.keys():
        return False
    components = _components(record)
    return isinstance(components, dict) and len(_SECTIONS & components.keys()) >= 2


def _errors(errors: Any) -> dict[str, str]:
    """Status of components that failed; each of their APIs was asked for and threw."""
    values: dict[str, str] = {}
    for error in errors if isinstance(errors, list) else []:
        component = error.get("component") if isinstance(error, dict) else None
        if not isinstance(component, str):
            continue
        text = error_text(error.get("message"))
        values |= dict.fromkeys(_apis_of(component) or {api_of(_SOURCE, component)}, text)
    return values


def _apis_of(component: str) -> set[str]:
    return {
        api
        for name, api in aliases_of(_SOURCE).items()
        if name == component or name.startswith(f"{component}.")
    }
