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
# Every API that tells the browser or that it is automated.
TELLING_APIS = (*_BRANDS, *_USER_AGENTS, *_VENDORS, *_PLATFORMS, "Navigator.webdriver")
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
    for apis, parse in ((_BRANDS, _by_brands), (_USER_AGENTS, _by_agent), (_VENDORS, _by_vendor)):
        for codes, texts in _columns(database, snapshot, apis):
            parsed = {code: parse(text) for code, text in texts.items() if text is not None}
            families = np.full(max(texts, default=0) + 1, UNKNOWN, dtype=np.int8)
            versions = np.zeros(len(families), dtype=np.int64)
            for code, (name, major) in parsed.items():
                families[code] = FAMILIES.index(name) if name else UNKNOWN
                versions[code] = major
            open_rows = family == UNKNOWN
            family[open_rows] = families[codes[open_rows]]
            version[open_rows] = versions[codes[open_rows]]
    return Browsers(family, version)


def _columns(
    database: Database, snapshot: Snapshot, apis: tuple[str, ...]
) -> Iterator[tuple[NDArray[np.int64], dict[int, str | None]]]:
    """Codes of each row and texts of the codes, of those APIs that the snapshot has."""
    for api in apis:
        if api in snapshot.columns:
            codes = np.asarray(read_codes(database, snapshot, [api])[0], dtype=np.int64)
            yield codes, texts_of(database, api, codes)


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
    signs = {
        "headless": _matching(database, snapshot, _USER_AGENTS, _HEADLESS),
        "robot": _matching(database, snapshot, _USER_AGENTS, _ROBOT),
        "webdriver": _matching(database, snapshot, ("Navigator.webdriver",), _TRUE),
        "impossible": np.zeros(snapshot.users, dtype=np.bool_),
    }
    for claim, other_platform in _CONTRADICTIONS:
        claimed = _matching(database, snapshot, _USER_AGENTS, claim)
        signs["impossible"] |= claimed & _matching(database, snapshot, _PLATFORMS, other_platform)
    return signs


def _matching(
    database: Database, snapshot: Snapshot, apis: tuple[str, ...], pattern: re.Pattern[str]
) -> NDArray[np.bool_]:
    rows = np.zeros(snapshot.users, dtype=np.bool_)
    for codes, texts in _columns(database, snapshot, apis):
        found = [text is not None and bool(pattern.search(text)) for text in texts.values()]
        rows |= np.array(found)[codes]
    return rows
