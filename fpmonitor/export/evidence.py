"""What the laboratory found: which readers tell a secret, and which of them a list closes.

`evidence.json` is written by `benchmarks/lab.py`, which runs the products. A *way* is a reader in a
place: an API as a worker reads it, or something else that tells the same, such as the width of a
thin border. Readers are taken together where environments that differ in one secret make them
differ. What some controls leave open are the ways that no list of these controls was seen to close.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

import msgspec

from fpmonitor.vocabulary import base_api, is_known, same_information

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

Way = tuple[int, str, str, str]  # run, secret, reader, place
DIGITS = string.digits + string.ascii_letters + "".join(map(chr, range(0xC0, 0x100)))  # of places
_DERIVED = ("every member: ", "found: ", "all styles of ", "the size of <", "a canvas by ")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was found about one product in one browser."""

    title: str  # Product, versions, date.
    told: Mapping[str, frozenset[Way]]  # Secret -> the ways that tell it without a list.
    # Names of controls -> the ways of `told` that tell nothing beside them.
    closed: Mapping[frozenset[str], frozenset[Way]]
    read: frozenset[str]  # APIs that were read, whether they told a secret or not.
    breaks: Mapping[str, frozenset[str]]  # Control -> ordinary pages that stop beside it.
    is_whole: bool  # Whether all readers were called; otherwise only those of the API itself.


class ControlEvidence:
    """All runs about the product of an exporter.

    `laid_out` has the beginnings of names of readers that tell what was laid out or drawn.
    """

    def __init__(self, runs: Iterable[Run], laid_out: tuple[str, ...] = ()) -> None:
        self.runs = tuple(runs)
        self._laid_out = laid_out
        self._closed: dict[frozenset[str], frozenset[Way]] = {}

    def closed(self, controls: Iterable[str]) -> frozenset[Way]:
        """Ways that some controls close, by all lists of these controls that were tried."""
        names = frozenset(controls)
        if names not in self._closed:
            self._closed[names] = frozenset().union(
                *(ways for run in self.runs for tried, ways in run.closed.items() if tried <= names)
            )
        return self._closed[names]

    def ways_of(self, name: str) -> frozenset[Way]:
        """Ways that read an API itself, or the reader of this name, in any place."""
        return frozenset().union(*(self._by_reader.get(one, ()) for one in self._measured(name)))

    def is_whole(self, ways: Iterable[Way]) -> bool:
        """Whether other ways to what some ways tell were looked for in some run."""
        return any(self.runs[number].is_whole for number, *_ in ways)

    def others(self, api: str, looked_at: AbstractSet[str]) -> tuple[Way, ...]:
        """Ways that tell what an API tells, without those of APIs that are looked at, in order.

        None for a part of an API that told nothing where the whole did: plugins beside the PDF
        viewer.
        """
        own = self._measured(api)
        ways = self.ways_of(api)
        # Measured by itself, it told nothing: the ways are those of the whole API.
        if "#" in api and api not in own and all(api in self.runs[way[0]].read for way in ways):
            return ()
        found = {
            way
            for number, secret in {way[:2] for way in ways}
            if self.runs[number].is_whole
            for way in self.runs[number].told[secret]
            if way[2] not in own and not looked_at & {way[2], base_api(way[2])}
        }
        return tuple(sorted(found, key=_rank))

    def siblings(self, controls: Iterable[str]) -> frozenset[str]:
        """APIs of the vocabulary that some controls hide, whatever is said of them."""
        closed = self.closed(controls)
        found = {reader for _, _, reader, _ in closed if is_known(reader)}
        return frozenset(reader for reader in found if self._by_reader[reader] <= closed)

    def breaks(self, controls: Iterable[str]) -> tuple[str, ...]:
        """Ordinary pages that stop beside some controls, sorted."""
        names = tuple(controls)
        return tuple(
            sorted(
                {page for run in self.runs for name in names for page in run.breaks.get(name, ())}
            )
        )

    def was_asked(self, api: str, name: str) -> bool:
        """Whether a name was read wherever an API told a secret: its ways say what it tells."""
        concerned = {way[0] for way in self.ways_of(api) if self.runs[way[0]].is_whole}
        return bool(concerned) and all(name in self.runs[number].read for number in concerned)

    def told_nothing(self, api: str) -> bool:
        """Whether an API was read wherever others told the same information, and told nothing.

        Never a header, as runs of before noted only those that were sent.
        """
        others = [name for name in same_information(api) if self.ways_of(name)]
        if api.startswith("http:"):
            return False
        return bool(others) and all(self.was_asked(name, api) for name in others)

    def titles(self, api: str) -> tuple[str, ...]:
        """Product, versions and date of the runs that say something of an API."""
        numbers = sorted({number for number, *_ in self.ways_of(api)})
        return tuple(self.runs[number].title for number in numbers)

    def is_laid_out(self, name: str) -> bool:
        """Whether a reader tells what was laid out or drawn, not what an API answers."""
        return name.startswith(self._laid_out)

    def without(self, places: Collection[str]) -> ControlEvidence:
        """Return what was found but for some places, as if nobody read anything there."""

        def remaining_ways(ways: frozenset[Way]) -> frozenset[Way]:
            return frozenset(way for way in ways if way[3] not in places)

        return ControlEvidence(
            (
                replace(
                    run,
                    told={secret: remaining_ways(ways) for secret, ways in run.told.items()},
                    closed={names: remaining_ways(ways) for names, ways in run.closed.items()},
                )
                for run in self.runs
            ),
            self._laid_out,
        )

    @cached_property
    def _by_reader(self) -> Mapping[str, frozenset[Way]]:
        found: dict[str, set[Way]] = {}
        for run in self.runs:
            for ways in run.told.values():
                for way in ways:
                    found.setdefault(way[2], set()).add(way)
        return {reader: frozenset(ways) for reader, ways in found.items()}

    def _measured(self, name: str) -> frozenset[str]:
        """Names under which a name was measured: its own, its API's, or those of its selectors."""
        # A worker is a place of the reader, and no other reader.
        name = name.replace("WorkerNavigator.", "Navigator.")
        base = base_api(name)
        for one in (name, base):
            if one in self._by_reader:
                return frozenset({one})
        return self._by_base.get(base, frozenset()) if name == base else frozenset()

    @cached_property
    def _by_base(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for reader in self._by_reader:
            found.setdefault(base_api(reader), set()).add(reader)
        return {base: frozenset(readers) for base, readers in found.items()}


def evidence_on(exporter: str) -> ControlEvidence:
    """Return what was found about the product of an exporter; empty where it was never run."""
    return _evidence().get(exporter, ControlEvidence(()))


@cache
def _evidence() -> dict[str, ControlEvidence]:
    text = (resources.files("fpmonitor.export") / "evidence.json").read_bytes()
    content = msgspec.json.decode(text)
    exporters = {name for entry in content["runs"] for name in entry["exporters"]}
    return {
        exporter: ControlEvidence(
            (
                _run(number, entry, content)
                for number, entry in enumerate(
                    entry for entry in content["runs"] if exporter in entry["exporters"]
                )
            ),
            tuple(content["laid out"]),
        )
        for exporter in exporters
    }


def _run(number: int, entry: Mapping[str, Any], content: Mapping[str, Any]) -> Run:
    browser = content["browsers"][entry["browser"]]
    places = dict(zip(DIGITS, content["places"], strict=False))

    def ways(secret: str, found: Mapping[str, Any]) -> frozenset[Way]:
        own = {
            (number, secret, api, places[place])
            for api, where in found.get("apis", {}).items()
            for place in where
        }
        return frozenset(own | {(number, secret, name, "") for name in found.get("others", ())})

    closed: dict[frozenset[str], frozenset[Way]] = {}
    for secret, lists in entry["closed"].items():
        for tried in lists:
            names = frozenset(tried["controls"])
            closed[names] = closed.get(names, frozenset()) | ways(secret, tried)
    return Run(
        title=entry["title"],
        told={secret: ways(secret, browser["secrets"][secret]) for secret in entry["closed"]},
        closed=closed,
        read=frozenset(browser["read"]),
        breaks={name: frozenset(pages) for name, pages in entry.get("breaks", {}).items()},
        is_whole=browser["whole"],
    )


def _rank(way: Way) -> tuple[int, Way]:
    """APIs first, then what was listed, then what was derived or found by the search."""
    reader = way[2]
    named = "." in reader or reader.startswith(("http:", "css:"))
    return (2 if reader.startswith(_DERIVED) else 0 if named else 1, way)
