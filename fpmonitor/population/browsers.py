"""Browsers of the users of a snapshot, and which of them look automated."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.population.robots import are_robots
from fpmonitor.store.snapshot import distinct
from fpmonitor.vocabulary import FAMILIES, meaning

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.unsignedinteger[Any]]
    # Family, version and traits, an entry each.
    _Parts = tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.int64]]

UNKNOWN = -1
# What users may be told apart by, besides columns.
BROWSER_FAMILY, OPERATING_SYSTEM = "browser family", "operating system"
KINDS = {
    "family": BROWSER_FAMILY,
    BROWSER_FAMILY: BROWSER_FAMILY,
    "system": OPERATING_SYSTEM,
    OPERATING_SYSTEM: OPERATING_SYSTEM,
}
# What tells the family, the surest first: brands name Brave, whose user agent is that of Chrome and
# has the same version.
_BRANDS = ("http:sec-ch-ua", "NavigatorUAData.brands", "NavigatorUAData.brands#fingerprintjs")
USER_AGENTS = ("Navigator.userAgent", "http:user-agent")
_VENDORS = ("Navigator.vendor", "Navigator.vendor#fingerprintjs")
_PLATFORMS = ("Navigator.platform", "Navigator.platform#fingerprintjs")
_WEBDRIVER = "Navigator.webdriver"
BROWSER_APIS = (*_BRANDS, *USER_AGENTS, *_VENDORS)
# Every API that tells the browser or that it is automated.
TELLING_APIS = (*BROWSER_APIS, *_PLATFORMS, _WEBDRIVER)
_APPLE_HANDHELD = re.compile(r"iPhone|iPad|iPod")
_AGENT_VERSIONS = (
    ("firefox", re.compile(r"Firefox/(\d{1,5})")),
    ("chromium", re.compile(r"(?:Chrome|Chromium)/(\d{1,5})")),
    ("safari", re.compile(r"Version/(\d{1,5}).* Safari/")),
)
_VENDOR_FAMILIES = {
    "Google Inc.": "chromium",
    "Apple Computer, Inc.": "safari",
    "": "firefox",
}
_BRAVE_VERSION = re.compile(r'"Brave"[^}]*?"(\d{1,5})')
# The first that fits, as Android is a Linux, and iPhones say that they are like Mac OS X.
_SYSTEMS = {
    "iOS": _APPLE_HANDHELD,
    "Android": re.compile("Android"),
    "Chrome OS": re.compile(r"\bCrOS\b"),
    "Windows": re.compile("Windows"),
    "macOS": re.compile("Macintosh"),
    "Linux": re.compile("Linux"),
}
SYSTEMS = tuple(_SYSTEMS)
_BROWSER = re.compile(r"(Mozilla|Opera)/\d", re.IGNORECASE)
_TRUE = re.compile("^true$")
_CONTRADICTIONS = (
    (re.compile("Windows NT"), re.compile("^(Linux|Mac|iP)")),
    (re.compile("Macintosh"), re.compile("^(Linux|Win)")),
    (re.compile("X11; Linux"), re.compile("^(Mac|Win|iP)")),
)
# Traits of values: one bit each for a claim to a system, for a platform that is of another, and for
# an engine.
_HEADLESS_BIT, _ROBOT_BIT, _WEBDRIVER_BIT, _CLAIMED = 1, 2, 4, 8
_OTHER = _CLAIMED << len(_CONTRADICTIONS)
_ENGINE = _OTHER << len(_CONTRADICTIONS)
_ENGINES = ("chromium", "firefox", "safari")
_VERSION_SHIFT, _TRAITS_SHIFT = 8, 32


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BrowserGroups:
    """Users of a snapshot by browser and traits of automation; arrays have an entry a group."""

    family: NDArray[np.int8]  # int8, position in `vocabulary.FAMILIES`, or `UNKNOWN`.
    # int64, major version; 0 where it is not known, and of browsers of phones that are not those of
    # desktops.
    version: NDArray[np.int64]
    traits: NDArray[np.int64]  # int64, see `signs_of`.
    users: NDArray[np.int64]  # int64, how many they are.
    # Group of each row of the snapshot; None where the rows are not in memory.
    rows: NDArray[np.intp] | None = None

    @property
    def automated(self) -> NDArray[np.bool_]:
        """Whether the users of a group look automated."""
        return np.asarray(np.any(list(signs_of(self.traits).values()), axis=0))

    @property
    def consistent(self) -> NDArray[np.bool_]:
        """Whether all that the users of a group say of their browser fits one engine and system."""
        engines = (self.traits[:, None] // (_ENGINE << np.arange(len(_ENGINES)))) & 1
        fits: NDArray[np.bool_] = engines.sum(axis=1) <= 1
        return fits & ~signs_of(self.traits)["impossible"]


NO_GROUPS = BrowserGroups(  # where no question is asked of browsers
    family=np.zeros(0, dtype=np.int8),
    version=np.zeros(0, dtype=np.int64),
    traits=np.zeros(0, dtype=np.int64),
    users=np.zeros(0, dtype=np.int64),
)


class UserRows(ABC):
    """One row a user, and what its codes stand for."""

    @property
    @abstractmethod
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted, as the log calls them."""

    @property
    @abstractmethod
    def said(self) -> Mapping[str, str]:
        """What the user said that columns of the log hold: see `vocabulary.meaning`."""

    @property
    @abstractmethod
    def users(self) -> int:
        """Number of rows."""

    @abstractmethod
    def codes(self, apis: Sequence[str]) -> list[Codes]:
        """Codes of some APIs, one array of unsigned integers an API, an entry a row."""

    @abstractmethod
    def values(self, api: str) -> Mapping[int, tuple[str, str | None]]:
        """Status and text that each code of an API stands for.

        The status is `value`, `undefined` or `error`; 0 is not in it. It may hold codes that no row
        has, and its largest is at least that of the rows.
        """

    def texts_of_values(self, api: str, codes: int) -> dict[int, str]:
        """Text that each code below `codes` stands for, where that is a value."""
        return {
            code: text
            for code, (status, text) in self.values(api).items()
            if status == "value" and text is not None and code < codes
        }


def telling_columns(columns: Iterable[str], said: Mapping[str, str]) -> dict[str, str]:
    """Find the columns that tell the browser, and the APIs that they hold, the surest first."""
    found = {column: meaning(column, said) for column in columns}
    order = {api: place for place, api in enumerate(TELLING_APIS)}
    telling = sorted((order[api], column) for column, api in found.items() if api in order)
    return {column: TELLING_APIS[place] for place, column in telling}


def group_rows(rows: UserRows) -> BrowserGroups:
    """Tell the browser and the traits of each row, and group the rows by both."""
    numbers = np.full(min(1, rows.users), UNKNOWN + 1)  # of all rows together, until they are told
    groups = np.zeros(rows.users, dtype=np.int64)
    for column_name, api in telling_columns(rows.apis, rows.said).items():
        codes = rows.codes([column_name])[0].astype(np.int64)
        size = int(codes.max(initial=0)) + 1
        # By codes, not by rows: there are far fewer user agents than users.
        told_family, told_version, told_traits = _told_by(
            api, rows.texts_of_values(column_name, size), size
        )
        pairs, groups_of_rows = distinct(groups * size + codes)
        before, code = np.divmod(pairs, size)
        family, version, traits = _parts_of(numbers[before])
        # The surest API comes first, and what it told stays.
        family = np.where(family == UNKNOWN, told_family[code], family)
        version = np.where(version == 0, told_version[code], version)
        numbers, groups = np.unique(
            _number_of(family, version, traits | told_traits[code]), return_inverse=True
        )
        groups = groups[groups_of_rows]
    family, version, traits = _parts_of(numbers)
    return BrowserGroups(
        family=family,
        version=version,
        traits=traits,
        users=np.bincount(groups, minlength=len(numbers)),
        rows=groups,
    )


def _number_of(
    family: NDArray[np.int8], version: NDArray[np.int64], traits: NDArray[np.int64]
) -> NDArray[np.int64]:
    """One number a browser: versions have up to five digits, traits few bits."""
    return (traits << _TRAITS_SHIFT) | (version << _VERSION_SHIFT) | (family + 1)


def _parts_of(numbers: NDArray[np.int64]) -> _Parts:
    family = ((numbers & (1 << _VERSION_SHIFT) - 1) - 1).astype(np.int8)
    version = (numbers >> _VERSION_SHIFT) & ((1 << _TRAITS_SHIFT - _VERSION_SHIFT) - 1)
    return family, version, numbers >> _TRAITS_SHIFT


def _told_by(api: str, texts: Mapping[int, str], codes: int) -> _Parts:
    """Tell the browser and the traits by each code of one API."""
    family = np.full(codes, UNKNOWN, dtype=np.int8)
    version, traits = np.zeros(codes, dtype=np.int64), np.zeros(codes, dtype=np.int64)
    for code, text in texts.items():
        family[code], version[code] = browser_of(api, text)
    traits[list(texts)] = traits_of(api, list(texts.values()))
    return family, version, traits


def browser_of(api: str, text: str) -> tuple[int, int]:
    """Browser family (as in `BrowserGroups`) and major version that a value of one API tells."""
    name, version = _family_of(api, text)
    return FAMILIES.index(name) if name else UNKNOWN, version


def _family_of(api: str, text: str) -> tuple[str | None, int]:
    if api in _BRANDS:
        return _by_brands(text)
    if api in USER_AGENTS:
        return _by_agent(text)
    return (_VENDOR_FAMILIES.get(text), 0) if api in _VENDORS else (None, 0)


def _by_brands(text: str) -> tuple[str | None, int]:
    if "Brave" in text:
        found = _BRAVE_VERSION.search(text)
        return "brave", int(found[1]) if found else 0
    return ("chromium", 0) if "Chromium" in text else (None, 0)


def _by_agent(text: str) -> tuple[str | None, int]:
    # Every browser of an iPhone is Safari by its engine, whatever it calls itself.
    if _APPLE_HANDHELD.search(text):
        return "safari", 0
    for family, pattern in _AGENT_VERSIONS:
        found = pattern.search(text)
        if found:
            handheld = family == "firefox" and "Android" in text
            return family, 0 if handheld else int(found[1])
    return None, 0


def system_of(agent: str) -> int:
    """Operating system that a user agent names: position in `SYSTEMS`, or `UNKNOWN`."""
    found = (place for place, pattern in enumerate(_SYSTEMS.values()) if pattern.search(agent))
    return next(found, UNKNOWN)


def are_browsers(agents: Sequence[str]) -> NDArray[np.bool_]:
    """Whether user agents are those of browsers, which do not look automated."""
    named = np.array([bool(_BROWSER.match(agent)) for agent in agents], dtype=np.bool_)
    return named & ~np.logical_or(*are_robots(agents))


def joined_kind(texts: Iterable[str | None]) -> str | None:
    """Name of users by what several columns tell of them; null where one tells nothing."""
    found = list(texts)
    return None if None in found else ", ".join(map(str, found))


def systems_of_rows(rows: UserRows) -> NDArray[np.int8]:
    """Operating system of each row by its user agent, as `system_of`."""
    systems = np.full(rows.users, UNKNOWN, dtype=np.int8)
    for column, api in telling_columns(rows.apis, rows.said).items():
        if api in USER_AGENTS:
            codes = rows.codes([column])[0].astype(np.intp)
            systems_of_codes = np.full(int(codes.max(initial=0)) + 1, UNKNOWN, dtype=np.int8)
            for code, text in rows.texts_of_values(column, len(systems_of_codes)).items():
                systems_of_codes[code] = system_of(text)
            systems = np.where(systems == UNKNOWN, systems_of_codes[codes], systems)
    return systems


def traits_of(api: str, texts: Sequence[str]) -> NDArray[np.int64]:
    """Tell the traits in values of one API, a bit each: of automation, and of the engine."""
    traits = np.zeros(len(texts), dtype=np.int64)
    patterns: tuple[tuple[int, re.Pattern[str]], ...] = ()
    if api in USER_AGENTS:
        patterns = tuple((_CLAIMED << i, claim) for i, (claim, _) in enumerate(_CONTRADICTIONS))
        headless, robots = are_robots(texts)
        traits |= np.where(headless, _HEADLESS_BIT, 0) | np.where(robots, _ROBOT_BIT, 0)
    elif api in _PLATFORMS:
        patterns = tuple((_OTHER << i, other) for i, (_, other) in enumerate(_CONTRADICTIONS))
    elif api == _WEBDRIVER:
        patterns = ((_WEBDRIVER_BIT, _TRUE),)
    for place, text in enumerate(texts):
        name = _family_of(api, text)[0]
        engine = "chromium" if name == "brave" else name
        if engine in _ENGINES:
            traits[place] |= _ENGINE << _ENGINES.index(engine)
        traits[place] |= sum(bit for bit, pattern in patterns if pattern.search(text))
    return traits


def signs_of(traits: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Tell who looks automated, by sign, from the traits of all values of each user together.

    `headless` (driven browsers) and `robot` by the user agent, `webdriver` by
    `Navigator.webdriver`, `impossible` by a user agent of one system together with the platform of
    another.
    """
    # A claim and its contradiction have bits of one order, so that one `&` finds both together.
    contradicted = (traits // _CLAIMED) & (traits // _OTHER) & (2 ** len(_CONTRADICTIONS) - 1)
    return {
        "headless": traits & _HEADLESS_BIT > 0,
        "robot": traits & _ROBOT_BIT > 0,
        "webdriver": traits & _WEBDRIVER_BIT > 0,
        "impossible": contradicted > 0,
    }
