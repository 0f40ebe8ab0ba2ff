"""CreepJS: its exported objects, the whole fingerprint or the stable part of it."""

from __future__ import annotations

from typing import Any, ClassVar

from fpmonitor.collectors.records import leaves
from fpmonitor.collectors.results import LibraryResult, ResultCollector
from fpmonitor.vocabulary import aliases_of

_SOURCE = "creepjs"
_SECTIONS = frozenset({
    "canvas2d", "canvasWebgl", "capturedErrors", "clientRects", "consoleErrors", "css", "cssMedia",
    "features", "fonts", "forceRenew", "headless", "htmlElementVersion", "intl", "lies", "maths",
    "media", "navigator", "offlineAudioContext", "resistance", "screen", "svg", "timezone", "trash",
    "voices", "windowFeatures", "workerScope",
})  # fmt: skip
# Sections that other libraries and pages have as well: alone they tell nothing.
_ANYBODYS = frozenset({
    "css", "features", "fonts", "intl", "media", "navigator", "screen", "svg", "timezone", "voices",
})  # fmt: skip
_MARKS = frozenset({"$hash", "device", "fontFaceLoadFonts", "lied", "locationMeasured", "system"})
_HASH = "a hash of its section"
_NOT_READ = {
    "capturedErrors": "what failed in the library, not an API",
    "forceRenew": "a constant of the library",
    "trash": "what the library discarded",
}


class CreepjsCollector(ResultCollector):
    """Reads `section.key`, without hashes of sections.

    `section.lied` is kept as a value of its own: whether the page noticed that the section is
    spoofed is something that the page can read.
    """

    name: ClassVar[str] = _SOURCE

    def is_result(self, content: Any) -> bool:
        """Whether two sections bear what only CreepJS writes; sections of any library do not."""
        if not isinstance(content, dict):
            return False
        sections = [name for name in content if name in _SECTIONS]
        return len(sections) >= 3 and sum(_is_own(name, content[name]) for name in sections) >= 2

    def result(self, content: Any) -> LibraryResult:
        """Sections of a fingerprint; one that failed is null and stays a value."""
        sections = {name: value for name, value in content.items() if name in _SECTIONS}
        read, not_taken = {}, {}
        for name, section in sections.items():
            if name in _NOT_READ:
                not_taken[name] = _NOT_READ[name]
            elif isinstance(section, dict):
                read[name] = {key: value for key, value in section.items() if key != "$hash"}
                not_taken |= {f"{name}.$hash": _HASH} if "$hash" in section else {}
            else:
                read[name] = section
        values, paths = leaves(_SOURCE, read, depth=2)
        return LibraryResult(values, _SOURCE, sections, not_taken, paths)


def _is_own(name: str, section: Any) -> bool:
    """Whether a section is one of CreepJS: by its name, its hash, or a name in it."""
    if not isinstance(section, dict):
        return False
    ours = {key for key in section if f"{name}.{key}" in aliases_of(_SOURCE)}
    return bool(_MARKS & section.keys()) or bool(ours and name not in _ANYBODYS)
