"""ThumbmarkJS 0.x and 1.x: results, as `getThumbmark` and the older `getFingerprint` give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.records import UNDEFINED, error_text, leaves, text_of
from fpmonitor.collectors.results import LibraryResult, ResultCollector
from fpmonitor.vocabulary import aliases_of, api_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCE = "thumbmarkjs"
_NO_WEBGL = {"hardware.videocard": "hardware.videocard", "webgl.webgl": "webgl"}  # a text says so
_HASH = "a hash of the components"
_PLACE = {"thumbmark": "components", "hash": "data"}  # of 1.x and of 0.x
_NOT_READ = {
    "elapsed": "how long it took",
    "hash": _HASH,
    "info": "what the service of the library says",
    "thumbmark": _HASH,
    "version": "the version of the library",
}
_OWN = {*_NOT_READ, "error"}
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
    left_out: ClassVar[Mapping[str, str]] = {"thumbmark": _HASH}

    def is_result(self, content: Any) -> bool:
        """Whether the components lie beside their hash, and two of them bear known names."""
        if not isinstance(content, dict) or not {"thumbmark", "hash"} & content.keys():
            return False
        components = _components(content)
        if not isinstance(components, dict):
            return False
        sections = _SECTIONS & components.keys()
        if _hash_of(content) == "hash":  # which is anybody's
            sections = {name for name in sections if _has_own(name, components[name])}
        return len(sections) >= 2

    def result(self, content: Any) -> LibraryResult:
        """Components of one result, and what kept others from answering."""
        place = _PLACE[_hash_of(content)]
        answers, names = leaves(_SOURCE, _components(content), depth=3)
        # An answer counts more than an error of its component, which may have failed in part.
        values = _errors(content.get("error")) | answers
        for text, component in _NO_WEBGL.items():
            if values.pop(api_of(_SOURCE, text), None) is not None:
                values |= dict.fromkeys(_apis_of(component), UNDEFINED)
        version = text_of(content.get("version")) or ("1" if "components" in content else "0")
        own = [place, *(name for name in content if name in _OWN)]
        not_taken = {name: _NOT_READ[name] for name in own if name in _NOT_READ}
        paths = {api: f"{place}.{name}" for api, name in names.items()}
        return LibraryResult(values, f"{_SOURCE} {version}", own, not_taken, paths)


def _has_own(name: str, section: Any) -> bool:
    """Whether a section has a member that this library alone writes."""
    known = aliases_of(_SOURCE)
    members = section if isinstance(section, dict) else ()
    return any(f"#{_SOURCE}" in known.get(f"{name}.{key}", "") for key in members)


def _hash_of(result: dict[str, Any]) -> str:
    return "thumbmark" if "thumbmark" in result else "hash"


def _components(result: dict[str, Any]) -> Any:
    return result.get(_PLACE[_hash_of(result)])


def _errors(errors: Any) -> dict[str, str]:
    """Status of components that failed; each of their APIs was asked for and threw."""
    values: dict[str, str] = {}
    for error in errors if isinstance(errors, list) else []:
        component = error.get("component") if isinstance(error, dict) else None
        if not isinstance(component, str):
            continue
        text = error_text(error.get("message"))
        values |= dict.fromkeys(_apis_of(component) or [api_of(_SOURCE, component)], text)
    return values


def _apis_of(component: str) -> list[str]:
    return [
        api
        for name, api in aliases_of(_SOURCE).items()
        if name == component or name.startswith(f"{component}.")
    ]
