"""ClientJS: a bag of what its `getX()` and `isX()` returned."""

from __future__ import annotations

from typing import Any, ClassVar

from fpmonitor.collectors.records import leaves, text_of
from fpmonitor.collectors.results import LibraryResult, ResultCollector
from fpmonitor.vocabulary import aliases_of

_SOURCE = "clientjs"
_VERSION = "getSoftwareVersion"
_NOT_READ = {
    "getBrowserData": "the user agent, taken apart",
    "getCustomFingerprint": "a hash of what the site chose",
    "getFingerprint": "a hash of the rest",
    _VERSION: "the version of the library",
    "getUserAgentLowerCase": "the user agent again",
}
# `isChrome` and `isMobile` are anybody's; others than ClientJS return objects by these names.
_FEWEST_GETTERS = 2
_FEWEST = 3


class ClientjsCollector(ResultCollector):
    """Reads an object with a member for each getter; `getFingerprint` is a hash of the others."""

    name: ClassVar[str] = _SOURCE

    def is_result(self, content: Any) -> bool:
        """Whether this has several members that only ClientJS calls so, getters among them."""
        if not isinstance(content, dict):
            return False
        known = [name for name, value in content.items() if _is_own(name) and _is_plain(value)]
        getters = sum(name.startswith("get") for name in known)
        return getters >= _FEWEST_GETTERS and len(known) >= _FEWEST

    def result(self, content: Any) -> LibraryResult:
        """Getters of one object."""
        own = [name for name in content if _is_own(name)]
        read = {name: content[name] for name in own if name not in _NOT_READ}
        version = text_of(content.get(_VERSION))
        source = f"{_SOURCE} {version}" if version else _SOURCE
        not_taken = {name: _NOT_READ[name] for name in own if name in _NOT_READ}
        values, paths = leaves(_SOURCE, read, depth=1)
        return LibraryResult(values, source, own, not_taken, paths)


def _is_own(name: str) -> bool:
    return name in aliases_of(_SOURCE) or name in _NOT_READ


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)
