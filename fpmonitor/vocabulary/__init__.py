"""The vocabulary: names of APIs, what other tools call them, and which of them change by design.

An API is `Interface.member` (WebIDL), `http:header` in lower case, or `css:media-feature`; a
selector after `#` tells apart what it returns for different arguments. A selector that starts with
a source marks a value that the source shapes itself: `Navigator.plugins#fingerprintjs` is the list
as FingerprintJS writes it, comparable with nothing else. Names that the vocabulary does not have
are `x:<source>:<name>`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from fpmonitor.errors import UnknownNameError

Kind = Literal["attribute", "method", "header", "media"]
FAMILIES = ("brave", "chromium", "firefox", "safari")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One entry of the vocabulary.

    Attributes
    ----------
    name
        `Interface.member[#selector]`, `http:header` or `css:media-feature`.
    kind
        How a site reads it: attribute, method, header, or media feature of CSS.
    group
        What it reveals: `hardware`, `software`, `locale`, `preference` or `network`.
    standard
        Whether MDN's compatibility data or a WebIDL file knows it.
    """

    name: str
    kind: Kind
    group: str
    standard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomised:
    """That a browser family draws the value of an API anew in each session, by design.

    Attributes
    ----------
    since, until
        First and last major version of which this is known; null where it goes on.
    source
        Address of a public document.
    """

    since: int
    until: int | None = None
    source: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name means: `api` is what fpmonitor calls what `source` calls `name`."""

    source: str
    name: str
    api: str


@cache
def _content() -> dict[str, Any]:
    text = (resources.files("fpmonitor.vocabulary") / "apis.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


@cache
def known_apis() -> dict[str, Api]:
    """All APIs of the vocabulary by name."""
    return {
        name: Api(
            name=name,
            kind=entry["kind"],
            group=entry["group"],
            standard=entry["standard"],
        )
        for name, entry in _content()["apis"].items()
    }


def aliases_of(source: str) -> dict[str, str]:
    """Name in a source -> API, for the names that the vocabulary lists; empty for other sources."""
    aliases: dict[str, str] = _content()["aliases"].get(source, {})
    return aliases


def base_of(api: str) -> str:
    """Return an API without its selector: what a browser can be told to block."""
    return api.partition("#")[0]


def entry_of(api: str) -> Api:
    """Return the entry of an API, or of the API without its selector.

    Raises
    ------
    UnknownNameError
        The vocabulary has neither.
    """
    entry = known_apis().get(api) or known_apis().get(base_of(api))
    if entry is None:
        raise UnknownNameError("API", api, known_apis())
    return entry


def randomised_in(api: str) -> dict[str, Randomised]:
    """Browser families that randomise this very API, selector included, by design."""
    return {
        family: Randomised(**known)
        for family, known in _content()["randomised"].get(api, {}).items()
    }


def api_of(source: str, name: str) -> str:
    """Return the API that a source calls `name`, or `x:<source>:<name>` where nobody knows it."""
    return aliases_of(source).get(name) or f"x:{source}:{name}"


def api_of_instrumented(source: str, symbol: str) -> str:
    """Return the API of an instrumented call, or `x:<source>:<symbol>` where nobody knows it.

    Parameters
    ----------
    source
        Who instrumented, for example `openwpm`.
    symbol
        `Interface.prototype.member` (DuckDuckGo, JShelter) or `window.object.member` (OpenWPM).
    """
    owner, _, member = symbol.replace(".prototype.", ".").rpartition(".")
    name = f"{_content()['objects'].get(owner, owner)}.{member}"
    name = _content()["inherited"].get(name, name)
    return name if name in known_apis() else f"x:{source}:{symbol}"


def resolve(name: str) -> list[Resolution]:
    """Find what a name means, in any source.

    Raises
    ------
    UnknownNameError
        Nobody uses the name; the message lists the nearest.
    """
    found = [Resolution("fpmonitor", name, name)] if name in known_apis() else []
    if name.startswith("http:") and name.lower() in known_apis() and not found:
        found.append(Resolution("fpmonitor", name, name.lower()))
    instrumented = api_of_instrumented("any", name)
    if not found and not instrumented.startswith("x:"):
        found.append(Resolution("instrumentation", name, instrumented))
    sources = _content()["aliases"]
    found += [
        Resolution(source, name, sources[source][name])
        for source in sources
        if name in sources[source]
    ]
    if not found:
        names = {*known_apis(), *(alias for source in sources for alias in sources[source])}
        raise UnknownNameError("name of an API", name, names)
    return found
