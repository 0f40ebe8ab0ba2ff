"""Browser families of the users of a snapshot, and which of them look automated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.store.snapshot import read_codes
from fpmonitor.vocabulary import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database
    from fpmonitor.store.snapshot import Snapshot

UNKNOWN = -1
# What tells the family, the surest first: brands name Brave, whose user agent is that of Chrome.
_BRANDS = ("http:sec-ch-ua", "NavigatorUAData.brands", "NavigatorUAData.brands#fingerprintjs")
_USER_AGENTS = ("Navigator.userAgent", "http:user-agent")
_VENDORS = ("Navigator.vendor", "Navigator.vendor#fingerprintjs")
_PLATFORMS = ("Navigator.platform", "Navigator.platform#fingerprintjs")
_WEBDRIVER = "Navigator.webdriver"
BROWSER_APIS = (*_BRANDS, *_USER_AGENTS, *_VENDORS)
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
_HEADLESS = re.compile(r"HeadlessChrome|PhantomJS|SlimerJS")
_ROBOT = re.compile(r"bot\b|crawl|spider|curl/|python-requests|Lighthouse", re.IGNORECASE)
_TRUE = re.compile("^true$")
_CONTRADICTIONS = (
    (re.compile("Windows NT"), re.compile("^(Linux|Mac|iP)")),
    (re.compile("Macintosh"), re.compile("^(Linux|Win)")),
    (re.compile("X11; Linux"), re.compile("^(Mac|Win|iP)")),
)
# Traits of values: one bit each for a claim to a system, and for a platform that is of another.
_HEADLESS_BIT, _ROBOT_BIT, _WEBDRIVER_BIT, _CLAIMED = 1, 2, 4, 8
_OTHER = _CLAIMED << len(_CONTRADICTIONS)


@dataclass(frozen=True, slots=True)
class Browsers:
    """Browser of each row of a snapshot.

    Attributes
    ----------
    family
        int8, position in `vocabulary.FAMILIES`, or `UNKNOWN`.
    version
        int64, major version; 0 where it is not known.
    """

    family: NDArray[np.int8]
    version: NDArray[np.int64]


def read_browsers(database: Database, snapshot: Snapshot) -> Browsers:
    """Tell the browser of each user by brands, user agent and vendor."""
    family = np.full(snapshot.users, UNKNOWN, dtype=np.int8)
    version = np.zeros(snapshot.users, dtype=np.int64)
    for api, codes, texts in _columns(database, snapshot, BROWSER_APIS):
        families = np.full(max(texts, default=0) + 1, UNKNOWN, dtype=np.int8)
        versions = np.zeros(len(families), dtype=np.int64)
        for code, text in texts.items():
            if text is not None:
                families[code], versions[code] = browser_of(api, text)
        open_rows = family == UNKNOWN
        family[open_rows] = families[codes[open_rows]]
        version[open_rows] = versions[codes[open_rows]]
    return Browsers(family, version)


def browser_of(api: str, text: str) -> tuple[int, int]:
    """Browser family (as in `Browsers`) and major version that a value of one API tells."""
    name, version = None, 0
    if api in _BRANDS:
        name, version = _by_brands(text)
    elif api in _USER_AGENTS:
        name, version = _by_agent(text)
    elif api in _VENDORS:
        name, version = _by_vendor(text)
    return FAMILIES.index(name) if name else UNKNOWN, version


def _columns(
    database: Database, snapshot: Snapshot, apis: tuple[str, ...]
) -> Iterator[tuple[str, NDArray[np.int64], dict[int, str | None]]]:
    """Each API that the snapshot has, its codes of each row, and the texts of the codes."""
    for api in apis:
        if api in snapshot.columns:
            codes = np.asarray(read_codes(database, snapshot, [api])[0], dtype=np.int64)
            yield api, codes, texts_of(database, api, codes)


def texts_of(database: Database, api: str, codes: NDArray[np.int64]) -> dict[int, str | None]:
    """Text of every code of an API; null for absent, undefined and errors."""
    texts: dict[int, str | None] = dict.fromkeys(range(int(codes.max(initial=0)) + 1))
    for code, status, text in database.rows("report/value_texts", api=api):
        if status == "value" and code in texts:
            texts[code] = text
    return texts


def _by_brands(text: str) -> tuple[str | None, int]:
    return ("brave", 0) if "Brave" in text else (None, 0)


def _by_agent(text: str) -> tuple[str | None, int]:
    if _APPLE_HANDHELD.search(text):
        return "safari", 0
    for family, pattern in _AGENT_VERSIONS:
        found = pattern.search(text)
        if found:
            return family, int(found[1])
    return None, 0


def _by_vendor(text: str) -> tuple[str | None, int]:
    return _VENDOR_FAMILIES.get(text), 0


def read_automation(database: Database, snapshot: Snapshot) -> dict[str, NDArray[np.bool_]]:
    """Rows that look automated, by the sign that gives them away.

    `headless` and `robot` by the user agent, `webdriver` by `Navigator.webdriver`, `impossible` by
    a user agent of one system together with the platform of another.
    """
    traits = np.zeros(snapshot.users, dtype=np.int64)
    for api, codes, texts in _columns(database, snapshot, TELLING_APIS):
        told = [0 if text is None else traits_of(api, text) for text in texts.values()]
        traits |= np.array(told, dtype=np.int64)[codes]
    return signs_of(traits)


def traits_of(api: str, text: str) -> int:
    """Tell the traits of automation in a value of one API, a bit each; `signs_of` reads them."""
    patterns: tuple[tuple[int, re.Pattern[str]], ...] = ()
    if api in _USER_AGENTS:
        claims = ((_CLAIMED << i, claim) for i, (claim, _) in enumerate(_CONTRADICTIONS))
        patterns = ((_HEADLESS_BIT, _HEADLESS), (_ROBOT_BIT, _ROBOT), *claims)
    elif api in _PLATFORMS:
        patterns = tuple((_OTHER << i, other) for i, (_, other) in enumerate(_CONTRADICTIONS))
    elif api == _WEBDRIVER:
        patterns = ((_WEBDRIVER_BIT, _TRUE),)
    return sum(bit for bit, pattern in patterns if pattern.search(text))


def signs_of(traits: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Tell who looks automated, by sign, from the traits of all values of each user together."""
    contradicted = (traits // _CLAIMED) & (traits // _OTHER) & (2 ** len(_CONTRADICTIONS) - 1)
    return {
        "headless": traits & _HEADLESS_BIT > 0,
        "robot": traits & _ROBOT_BIT > 0,
        "webdriver": traits & _WEBDRIVER_BIT > 0,
        "impossible": contradicted > 0,
    }
