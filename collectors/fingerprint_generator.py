"""fingerprint-generator of Apify: fingerprints that its generator gives and its injector takes."""

from __future__ import annotations

from typing import Any, ClassVar

from fpmonitor.collectors.records import leaves
from fpmonitor.collectors.results import LibraryResult, ResultCollector

_SOURCE = "fingerprint-generator"
_MARKS = {
    "audioCodecs", "mockWebRTC", "multimediaDevices", "pluginsData", "slim", "videoCard",
    "videoCodecs",
}  # fmt: skip
_OWN = _MARKS | {"battery", "fonts", "navigator", "screen"}
_NOT_READ = {
    "mockWebRTC": "a setting of the injector",
    "slim": "a setting of the injector",
}


class FingerprintGeneratorCollector(ResultCollector):
    """Reads `fingerprint`; headers that lie beside it are named as headers."""

    name: ClassVar[str] = _SOURCE

    def is_result(self, content: Any) -> bool:
        """Whether there are sections that only this generator calls so, beside a navigator."""
        return (
            isinstance(content, dict)
            and isinstance(content.get("navigator"), dict)
            and len(_MARKS & content.keys()) >= 3
        )

    def result(self, content: Any) -> LibraryResult:
        """Sections of one fingerprint."""
        own = [name for name in content if name in _OWN]
        read = {name: content[name] for name in own if name not in _NOT_READ}
        not_taken = {name: why for name, why in _NOT_READ.items() if name in content}
        values, paths = leaves(_SOURCE, read, depth=4)
        return LibraryResult(values, _SOURCE, own, not_taken, paths)
