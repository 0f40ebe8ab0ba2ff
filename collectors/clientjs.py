"""ClientJS: a bag of what its `getX()` and `isX()` returned."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from fpmonitor.collectors.records import RecordError, Visit, leaves, wrapped
from fpmonitor.collectors.results import ResultCollector

_SOURCE = "clientjs"
_GETTER = re.compile(r"(get|is)[A-Z]\w*")
_DERIVED = {
    "getBrowserData",  # the user agent, taken apart
    "getCustomFingerprint",
    "getFingerprint",
    "getSoftwareVersion",
    "getUserAgentLowerCase",
}


class ClientjsCollector(ResultCollector):
    """Reads an object with a member for each getter; `getFingerprint` is a hash of the others."""

    name: ClassVar[str] = _SOURCE

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is or holds such an object."""
        return wrapped(record, _is_bag) is not None

    def visit(self, record: Any) -> Visit:
        """Getters of one object."""
        bag = wrapped(record, _is_bag)
        if bag is None:
            raise RecordError("no results of ClientJS")
        read = {name: bag[name] for name in bag if _GETTER.fullmatch(name) and name not in _DERIVED}
        version = bag.get("getSoftwareVersion")
        values = self.values_beside(record, bag) | leaves(_SOURCE, read, depth=1)
        return Visit(values, f"{_SOURCE} {version}" if version else _SOURCE)

    def is_beside(self, name: str) -> bool:
        """Whether a member is an API that is no getter's."""
        return not _GETTER.fullmatch(name) and super().is_beside(name)


def _is_bag(record: dict[str, Any]) -> bool:
    return sum(bool(_GETTER.fullmatch(name)) for name in record) >= 3
