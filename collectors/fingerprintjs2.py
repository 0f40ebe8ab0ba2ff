"""fingerprintjs2: the list of components that its versions 1 and 2 give."""

from __future__ import annotations

from typing import Any, ClassVar

from fpmonitor.collectors.records import error_text, value_text
from fpmonitor.collectors.results import LibraryResult, ResultCollector
from fpmonitor.vocabulary import aliases_of, api_of

_SOURCE = "fingerprintjs2"
_FEWEST = 3
_NOT_ASKED = "the page left it out"
# What version 1 calls otherwise, and not only in lower case.
_OLD_NAMES = {
    "adblock": "adBlock",
    "available_resolution": "availableScreenResolution",
    "js_fonts": "fonts",
    "navigator_platform": "platform",
    "regular_plugins": "plugins",
    "resolution": "screenResolution",
    "webgl_vendor": "webglVendorAndRenderer",
}


class Fingerprintjs2Collector(ResultCollector):
    """Reads a list of `{key, value}`, or of pairs of both; version 1 writes keys as `user_agent`.

    What was not asked (`excluded`) is absent, what threw (`error`) is an error.
    """

    name: ClassVar[str] = _SOURCE

    def is_result(self, content: Any) -> bool:
        """Whether this is a list of keys and values, some of which only fingerprintjs2 has."""
        if not isinstance(content, list):
            return False
        known = aliases_of(_SOURCE)
        pairs = [pair for pair in map(_pair, content) if pair is not None]
        return len({key for key, _ in pairs if _name(key) in known}) >= _FEWEST

    def result(self, content: Any) -> LibraryResult:
        """Components of one result; of a key that comes twice, the last."""
        pairs = {place: pair for place, entry in enumerate(content) if (pair := _pair(entry))}
        values: dict[str, str] = {}
        paths: dict[str, str] = {}
        not_taken: dict[str, str] = {}
        for key, value in pairs.values():
            if value == "excluded":
                not_taken[f"*.{key}"] = _NOT_ASKED
            else:
                said = error_text(None) if value == "error" else value_text(value)
                api = api_of(_SOURCE, _name(key))
                values[api], paths[api] = said, f"*.{key}"
        version = "1" if any("_" in key for key, _ in pairs.values()) else "2"
        return LibraryResult(values, f"{_SOURCE} {version}", frozenset(pairs), not_taken, paths)


def _pair(entry: Any) -> tuple[str, Any] | None:
    """Key and value of a component; null for what is none."""
    if isinstance(entry, dict) and entry.keys() == {"key", "value"}:
        entry = [entry["key"], entry["value"]]
    is_pair = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
    return (entry[0], entry[1]) if is_pair else None


def _name(key: str) -> str:
    """Return what version 2 calls a component."""
    first, *others = key.split("_")
    return _OLD_NAMES.get(key) or first + "".join(map(str.capitalize, others))
