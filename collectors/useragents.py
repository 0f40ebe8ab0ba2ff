"""UAParser.js and Bowser: user agents, taken apart."""

from __future__ import annotations

from typing import Any, ClassVar

from fpmonitor.collectors.records import leaves
from fpmonitor.collectors.results import LibraryResult, ResultCollector

_PARTS_OF_UAPARSER = {
    "browser": {"name", "version", "major", "type"},
    "cpu": {"architecture"},
    "device": {"type", "vendor", "model"},
    "engine": {"name", "version"},
    "os": {"name", "version"},
}
_PARTS_OF_BOWSER = {
    "browser": {"name", "version"},
    "engine": {"name", "version"},
    "os": {"name", "version", "versionName"},
    "platform": {"type", "vendor", "model"},
}
# No set: what stands there may be a list, which no set can be asked for.
_PLATFORMS_OF_BOWSER = ("bot", "desktop", "mobile", "tablet", "tv")


class UaparserCollector(ResultCollector):
    """Reads `{ua, browser, cpu, device, engine, os}`, with or without the user agent itself."""

    name: ClassVar[str] = "uaparser"
    is_minor: ClassVar[bool] = True

    def is_result(self, content: Any) -> bool:
        """Whether these are the parts of UAParser.js, and no more in them than it writes."""
        parts = _parts(content, _PARTS_OF_UAPARSER)
        return len(parts) >= 4 and {"browser", "engine", "os"} <= parts

    def result(self, content: Any) -> LibraryResult:
        """Parts of a user agent, and itself."""
        own = [name for name in content if name in _PARTS_OF_UAPARSER]
        own += ["ua"] if isinstance(content.get("ua"), str) else []
        return _result(self.name, content, own)


class BowserCollector(ResultCollector):
    """Reads `{browser, engine, os, platform}`, alone or as `parsedResult` of the parser."""

    name: ClassVar[str] = "bowser"
    is_minor: ClassVar[bool] = True

    def is_result(self, content: Any) -> bool:
        """Whether these are the parts of Bowser, with one of its kinds of platforms."""
        parts = _parts(content, _PARTS_OF_BOWSER)
        return len(parts) == len(_PARTS_OF_BOWSER) and (
            content["platform"].get("type") in _PLATFORMS_OF_BOWSER
        )

    def result(self, content: Any) -> LibraryResult:
        """Parts of a user agent."""
        return _result(self.name, content, list(_PARTS_OF_BOWSER))


def _parts(content: Any, parts: dict[str, set[str]]) -> set[str]:
    """Parts that an object has; none where one of them holds more than the library writes."""
    if not isinstance(content, dict):
        return set()
    found = {name for name in parts if isinstance(content.get(name), dict)}
    return found if all(content[name].keys() <= parts[name] for name in found) else set()


def _result(source: str, content: dict[str, Any], own: list[str]) -> LibraryResult:
    read = {name: content[name] for name in own if content[name]}
    values, paths = leaves(source, read, depth=2)
    return LibraryResult(values, source, own, paths=paths)
