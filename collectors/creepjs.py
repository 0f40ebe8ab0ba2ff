"""CreepJS: its exported objects, the whole fingerprint or the stable part of it."""

from __future__ import annotations

from typing import Any, ClassVar

from fpmonitor.collectors.records import RecordError, Visit, leaves, wrapped
from fpmonitor.collectors.results import ResultCollector

_SOURCE = "creepjs"
_SECTIONS = {
    "canvas2d", "canvasWebgl", "clientRects", "css", "cssMedia", "fonts", "htmlElementVersion",
    "intl", "maths", "media", "navigator", "offlineAudioContext", "screen", "svg", "timezone",
    "voices", "windowFeatures", "workerScope",
}  # fmt: skip
_SURFACES = _SECTIONS | {"consoleErrors", "features", "headless", "resistance"}


class CreepjsCollector(ResultCollector):
    """Reads `section.key`, without hashes of sections.

    `section.lied` is kept as a value of its own: whether the page noticed that the section is
    spoofed is something that the page can read.
    """

    name: ClassVar[str] = _SOURCE
    own_members: ClassVar[frozenset[str]] = frozenset(_SURFACES)

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is or holds an exported fingerprint."""
        return wrapped(record, _is_fingerprint) is not None

    def visit(self, record: Any) -> Visit:
        """Sections of one fingerprint."""
        fingerprint = wrapped(record, _is_fingerprint)
        if fingerprint is None:
            raise RecordError("no fingerprint of CreepJS")
        values = self.values_beside(record, fingerprint)
        return Visit(values | leaves(_SOURCE, _surfaces(fingerprint), depth=2), _SOURCE)


def _surfaces(fingerprint: dict[str, Any]) -> dict[str, Any]:
    """Sections without their hashes; a section that failed is null and stays a value."""
    return {
        name: {key: section[key] for key in section if key != "$hash"}
        if isinstance(section, dict)
        else section
        for name, section in fingerprint.items()
        if name in _SURFACES
    }


def _is_fingerprint(record: dict[str, Any]) -> bool:
    return sum(isinstance(record.get(name), dict | list) for name in _SECTIONS) >= 4
