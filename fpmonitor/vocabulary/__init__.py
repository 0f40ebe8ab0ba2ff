"""The vocabulary: names of APIs, what other tools call them, and which of them change by design.

An API is `Interface.member` (WebIDL), `http:header` in lower case, `css:media-feature`, or what a
server sees of a connection, such as `transport:ja4`; a selector after `#` tells apart what it
returns for different arguments. A selector that starts with a source marks a value that the source
shapes itself: `Navigator.plugins#fingerprintjs` is the list as FingerprintJS writes it, comparable
with nothing else. Names that the vocabulary does not have are `x:<source>:<name>`.

A table that no collector knows calls its columns as it likes. `meanings` finds the APIs that such a
name may stand for: more than one where sources disagree, which only the user can settle.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.vocabulary.headers import folded, header_named

Kind = Literal["attribute", "method", "header", "media", "connection"]
FAMILIES = ("brave", "chromium", "firefox", "safari")
_PROTOTYPE = re.compile(r"\.(prototype|__proto__)\.")
_MATCH_MEDIA = re.compile(r'window\.matchMedia\("([a-z-]+)"\)')
_SEVERAL_WORDS = re.compile(r"[A-Za-z].*([A-Z]|\W)")
# What libraries and pages put around the name of a value.
_WRAPPINGS = frozenset({"components", "fingerprint", "navigator", "value", "window"}).union(
    # how MongoDB, DynamoDB and Avro name the type of a value
    ("$numberint", "$numberlong", "$numberdouble", "s", "n", "bool", "string", "long", "double"),
)
# What people put around a name, and it means the same: `audio_fp`, `browserUserAgent`.
_AROUND = re.compile(
    r"^(browser|js|raw)(_|(?=[A-Z]))|(_|(?<=[a-z])(?=[A-Z]))((?i:hash|fp|fingerprint|str|string))$"
)
# Names whose values have members that libraries name by what they found: fonts, permissions.
_WITH_MEMBERS = frozenset({"fontpreferences", "fonts", "permissions", "speech", "webrtc"})
# Features of a policy, and parts of a user agent: in the columns of a table they are other things.
_NO_COLUMNS = frozenset({"bowser", "reporting", "uaparser"})
_SEPARATORS = re.compile(r"__|->|[./:]")
# What applications put around what they log: below these, one word means what it means alone.
_ENVELOPES = _WRAPPINGS | {
    *("attributes", "body", "browser", "client", "context", "data", "details", "fields", "fp"),
    *("info", "params", "payload", "properties", "props", "result"),
}
# Characters of a name that may mean something; the longest of ours has 65. Names of logs are data:
# to look up each of 4,000 parts with all behind it took 10 s, and time grew with their square.
_LONGEST = 400
# Of media features only these cannot be mistaken for something else without their prefix.
_MEDIA = re.compile("css:(any|forced|inverted|prefers|video)-|css:(color-gamut|dynamic-range)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One entry of the vocabulary."""

    # `Interface.member[#selector]`, `http:header`, `css:media-feature` or `transport:name`.
    name: str
    # How a site reads it: attribute, method, header, media feature of CSS, or the connection.
    kind: Kind
    group: str  # What it reveals: `hardware`, `software`, `locale`, `preference` or `network`.
    standard: bool  # Whether MDN's compatibility data or a WebIDL file knows it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomised:
    """That a browser family draws the value of an API anew in each session, by design."""

    # since, until: First and last major version of which this is known; null where it goes on.
    since: int
    until: int | None = None
    source: str  # Address of a public document.


@dataclass(frozen=True, slots=True, kw_only=True)
class Variety:
    """How many different values browsers are known to return."""

    # users, values: So many users, increasing, and the different values to expect among them.
    users: tuple[int, ...]
    values: tuple[int, ...]
    source: str  # The public table that has them, or the standard that makes them one.

    @property
    def is_constant(self) -> bool:
        """Whether all browsers are known to return the same."""
        return max(self.values) <= 1

    def among(self, users: int) -> int | None:
        """Return how many to expect at least among so many users; None for too few to say."""
        return max(
            (most for least, most in zip(self.users, self.values, strict=True) if least <= users),
            default=None,
        )


@cache
def entries() -> dict[str, Any]:
    """Return `apis.json` as it is."""
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
        for name, entry in entries()["apis"].items()
    }


def aliases_of(source: str) -> dict[str, str]:
    """Name in a source -> API, for the names that the vocabulary lists; empty for other sources."""
    aliases: dict[str, str] = entries()["aliases"].get(source, {})
    return aliases


def base_api(api: str) -> str:
    """Return an API without its selector: what a browser can be told to block."""
    return api.partition("#")[0]


def entry_of(api: str) -> Api:
    """Return the entry of an API, or of the API without its selector.

    Raises:
        UnknownNameError: The vocabulary has neither.
    """
    entry = known_apis().get(api) or known_apis().get(base_api(api))
    if entry is None:
        raise UnknownNameError("API", api, known_apis())
    return entry


@cache
def same_information(api: str) -> tuple[str, ...]:
    """APIs that tell by another name what an API or one of its selectors tells, sorted.

    What a worker reads of its navigator, the page reads as well.
    """
    page = api.replace("WorkerNavigator.", "Navigator.")
    groups: Iterable[list[str]] = entries()["information"].values()
    alike = {
        name for names in groups if any(_is_part(page, one) for one in names) for name in names
    }
    alike |= {page} & known_apis().keys()
    return tuple(sorted(name for name in alike if not _is_part(api, name)))


def _is_part(api: str, other: str) -> bool:
    """Whether two names are the same, or one of them a selector of the other."""
    return other in {api, base_api(api)} or base_api(other) == api


def randomised_in(api: str) -> dict[str, Randomised]:
    """Browser families that randomise this very API, selector included, by design."""
    return {
        family: Randomised(**known)
        for family, known in entries()["randomised"].get(api, {}).items()
    }


@cache
def variety_of(api: str) -> Variety | None:
    """How many values browsers return of this very API, selector included; None if not known."""
    known = _varieties()
    entry = known["apis"].get(api)
    if entry is None:
        return None
    return Variety(
        users=tuple(known["users"]), values=tuple(entry["values"]), source=entry["source"]
    )


@cache
def _varieties() -> dict[str, Any]:
    text = (resources.files("fpmonitor.vocabulary") / "variety.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def api_of(source: str, name: str) -> str:
    """Return the API that a source calls `name`, or `x:<source>:<name>` where nobody knows it."""
    return aliases_of(source).get(name) or f"x:{source}:{name}"


def api_of_instrumented(source: str, symbol: str) -> str:
    """Return the API of an instrumented call, or `x:<source>:<symbol>` where nobody knows it.

    Args:
        source: Who instrumented, for example `openwpm`.
        symbol: `Interface.prototype.member` (DuckDuckGo, JShelter), also followed by ` getter` or `
            setter`; `window.object.member` (OpenWPM); `window.matchMedia("feature")`.
    """
    path = _PROTOTYPE.sub(".", symbol.removesuffix(" getter").removesuffix(" setter"))
    owner, _, member = path.rpartition(".")
    name = f"{entries()['objects'].get(owner, owner)}.{member}"
    if media := _MATCH_MEDIA.fullmatch(symbol):
        name = f"css:{media[1]}"
    name = entries()["inherited"].get(name, name)
    return name if name in known_apis() else f"x:{source}:{symbol}"


def split_names(text: str) -> tuple[str, ...]:
    """Split API names separated by commas; put a name with a comma in double quotes.

    Within these a quote stands twice, as in CSV.
    """
    names: list[str] = []
    name, quoted, closed = "", False, False
    for character in text:
        if character == '"' and (quoted or closed or not name.strip()):
            # The second of two: the first did not close the name.
            name += '"' * closed
            quoted, closed = not quoted, quoted
            continue
        closed = False
        if character == "," and not quoted:
            names.append(name.strip())
            name = ""
        else:
            name += character
    names.append(name.strip())
    return tuple(name for name in names if name)


def join_names(names: Iterable[str]) -> str:
    """Join API names as `split_names` divides them: those with a comma stand in quotes."""
    return ",".join(
        '"{}"'.format(name.replace('"', '""')) if "," in name or name[:1] == '"' else name
        for name in names
    )


def is_known(api: str) -> bool:
    """Whether the vocabulary has an API, or the API without its selector."""
    return api in known_apis() or base_api(api) in known_apis()


def meanings(name: str) -> tuple[str, ...]:
    """Find the APIs that a column of this name may hold; several where sources disagree.

    The last parts of a name decide: `context.screen.width` is what `screen.width` is.
    """
    if len(name) > _LONGEST:
        return ()
    header = header_of(name)
    return (header,) if header else next(filter(None, map(_meanings, _endings(name))), ())


@lru_cache(1 << 13)
def header_of(name: str, *, in_requests: bool = False) -> str | None:
    """Return the API of the request header that a member of a log holds; null for others.

    Args:
        name: The path of the member, such as `request.headers.User-Agent` or
            `ClientRequestUserAgent`.
        in_requests: Whether the log is known to be one of requests: a `userAgent` is the header
            then.
    """
    if name.startswith("x:") or len(name) > _LONGEST:
        return None
    return header_named(name, _headers(), in_requests=in_requests)


@cache
def _headers() -> frozenset[str]:
    return frozenset(api for api in known_apis() if api.startswith("http:"))


def _endings(name: str) -> Iterator[str]:
    """Return a name, and what is left of it without its first parts, if that says enough."""
    yield name
    parts = _SEPARATORS.split(name)
    for start in range(1, 0 if name.startswith("x:") else len(parts)):
        ending = ".".join(parts[start:])
        before = map(str.casefold, parts[:start])
        if _ENVELOPES.issuperset(before) or re.search(r"\w([A-Z_-]|\W+\w)", ending):
            yield ending


def _meanings(name: str) -> tuple[str, ...]:
    if is_known(name):
        return (name,)
    if name.startswith("x:"):
        return ()
    instrumented = api_of_instrumented("any", name)
    if is_known(instrumented):
        return (instrumented,)
    bare = ".".join(part for part in name.split(".") if part.casefold() not in _WRAPPINGS)
    found = _columns().get(folded(name)) or _columns().get(folded(bare))
    found = found or _columns().get(folded(_AROUND.sub("", bare)))
    whole, _, inner = bare.partition(".")
    if not found and inner not in {"", "duration"} and whole.casefold() in _WITH_MEMBERS:
        found = _columns().get(folded(whole))
    return found or ()


def meaning(name: str, said: Mapping[str, str]) -> str:
    """Return the API that a column holds, or the empty string where that is not certain enough.

    Args:
        name: Its name. That of an API means that API.
        said: What the user said that columns hold, empty for no API of the vocabulary.
    """
    if name in said:
        return said[name]
    found = meanings(name)
    return found[0] if len(found) == 1 else ""


def certain_meaning(name: str, said: Mapping[str, str]) -> str:
    """Return the API that a column bears the name of, or that the user said it holds.

    What is found by a similar name says which surface to block, and not that the values are those
    that the API returns: a column `plugins` may hold their number.
    """
    return said.get(name, name)


def api_named(name: str) -> str:
    """Return the API that a user names, by its own name or by one that means nothing else.

    Raises:
        UnknownNameError: Nobody uses the name; the message lists the nearest.
        InputError: It may mean several.
    """
    found = meanings(name)
    if len(found) > 1:
        raise InputError(f"{name!r} may be {' or '.join(found)}", hint="name one of them")
    if not found:
        raise UnknownNameError("API", name, known_apis())
    return found[0]


def columns_of(api: str, means: Mapping[str, str]) -> list[str]:
    """Find the columns that hold an API, by any name that means nothing else; none if unknown.

    Args:
        means: Column -> the API that it holds.
    """
    wanted = api_named(api) if meanings(api) else None
    return [column for column, meaning in means.items() if meaning == wanted]


@cache
def nearest(name: str) -> tuple[str, ...]:
    """APIs whose names, or whose names in some source, come close to a name; the closest first."""
    spelled = {folded(api): (api,) for api in known_apis()} | _columns()
    close = difflib.get_close_matches(folded(name), spelled, n=2, cutoff=0.88)
    return tuple(dict.fromkeys(api for key in close for api in spelled[key]))


@cache
def _columns() -> dict[str, tuple[str, ...]]:
    """Return what columns are called, folded, and the APIs that they may hold."""
    content = entries()
    objects: dict[str, list[str]] = defaultdict(list)
    for path, interface in content["objects"].items():
        objects[interface].append(path)
    own: dict[str, set[str]] = defaultdict(set)
    for api in known_apis():
        own[folded(api)].add(api)
        if _MEDIA.match(api):
            own[folded(api.removeprefix("css:"))].add(api)
        interface, _, member = api.rpartition(".")
        for path in objects[interface]:
            parts = path.split(".")
            for start in range(len(parts)):
                own[folded(".".join([*parts[start:], member]))].add(api)
            if _SEVERAL_WORDS.match(member):
                own[folded(member)].add(api)
    others: dict[str, set[str]] = defaultdict(set)
    for source, aliases in content["aliases"].items():
        for alias, api in aliases.items():
            if source not in _NO_COLUMNS and _SEVERAL_WORDS.match(alias):
                others[folded(alias)].add(api)
    agreed = {name: _agreed(apis) for name, apis in (others | own).items()}
    return agreed | {folded(name): tuple(apis) for name, apis in content["columns"].items()}


def _agreed(apis: Iterable[str]) -> tuple[str, ...]:
    """Several selectors of one API are that API."""
    distinct = sorted(set(apis))
    bases = sorted({base_api(api) for api in distinct})
    return tuple(distinct if len(distinct) == 1 else bases)


def resolve(name: str) -> list[tuple[str, str]]:
    """Find the sources that use a name, and what fpmonitor calls what each means by it.

    Raises:
        UnknownNameError: Nobody uses the name; the message lists the nearest.
    """
    found = [("fpmonitor", name)] if name in known_apis() else []
    instrumented = api_of_instrumented("any", name)
    if not found and not instrumented.startswith("x:"):
        found.append(("instrumentation", instrumented))
    sources = entries()["aliases"]
    found += [(source, sources[source][name]) for source in sources if name in sources[source]]
    resolved = {api for _, api in found}
    found += [("columns", api) for api in meanings(name) if api not in resolved]
    if not found:
        names = {*known_apis(), *(alias for source in sources for alias in sources[source])}
        names |= entries()["columns"].keys()
        raise UnknownNameError("name of an API", name, nearest(name) or names)
    return found
