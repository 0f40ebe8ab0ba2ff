"""Measures one secret: what tells it without a list, and what of that each list closes."""

from __future__ import annotations

import json
import queue
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.lab import browsers
from benchmarks.lab.browsers import Environment, in_chrome
from benchmarks.lab.products import (
    READY,
    headers_of,
    merged_extension,
    preferences_of,
    scriptlet_extension,
    ublock_policies,
)
from benchmarks.lab.site import FAILED, PAGES, Site
from tests.patience import wait

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from benchmarks.lab.products import Lists, Product
    from benchmarks.lab.secrets import Pair
    from benchmarks.lab.site import Reading
    from fpmonitor.export.controls import Control
    from tests.firefox import Firefox

_Read = TypeVar("_Read")
Tried = dict[str, tuple["Product", tuple["Control", ...]]]  # host -> the list in force there
BARE = "bare.localhost"
UNKNOWN = {"late", "nothing"}
_SET = """(() => {
  for (const [name, value] of Object.entries(%s))
    if (value === null) Services.prefs.clearUserPref(name);
    else if (typeof value == "number") Services.prefs.setIntPref(name, value);
    else if (typeof value == "boolean") Services.prefs.setBoolPref(name, value);
    else Services.prefs.setStringPref(name, value);
})()"""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where the products are.

    Attributes
    ----------
    folder, modules, ublock
        Where browsers keep their files, and the folders of packages of npm and of uBlock Origin.
    bare
        What was read without a list, once for each environment: many secrets share the usual one.
    """

    folder: Path
    modules: Path
    ublock: Path
    bare: list[tuple[Environment, Reading]] = field(default_factory=list)


@dataclass(kw_only=True)
class Found:
    """What was found of one secret.

    Attributes
    ----------
    told
        Readers that differ without a list, as `reader@place`.
    tried
        How many readers were called.
    read
        Names of readers that gave a value.
    closed
        Product, names of controls -> readers of `told` that do not differ beside them.
    products
        Those that were measured.
    seconds
        How long that took.
    """

    told: set[str]
    tried: int
    seconds: int = 0
    read: set[str] = field(default_factory=set)
    closed: dict[tuple[str, tuple[str, ...]], set[str]] = field(default_factory=dict)
    products: Sequence[Product] = ()


def differing(one: Sequence[Reading], other: Sequence[Reading]) -> set[str]:
    """Readers that tell the same in all sessions of each environment, and tell the two apart."""
    return {
        name
        for name in set().union(*one, *other)
        if len(here := {_told(read, name) for read in one}) == 1
        and len(there := {_told(read, name) for read in other}) == 1
        and here != there
        and not (here | there) & UNKNOWN
    }


def still_open(names: Iterable[str], one: Sequence[Reading], other: Sequence[Reading]) -> set[str]:
    """Readers that still tell two environments apart, or may: none that failed only sometimes."""
    return {name for name in names if _tells(name, one, other)}


def _told(read: Reading, name: str) -> str:
    """What a reader told; a header that is not sent tells that."""
    return read.get(name, "none" if name.startswith("http:") else "nothing")


def _is_value(text: str) -> bool:
    return text not in {*UNKNOWN, "undefined", "null"} and not text.startswith("!")


def _tells(name: str, one: Sequence[Reading], other: Sequence[Reading]) -> bool:
    here = [_told(read, name) for read in one]
    there = [_told(read, name) for read in other]
    missing = sum(value in UNKNOWN for value in here + there)
    if missing:
        return missing < len(here) + len(there)
    if len(set(here)) == len(set(there)) == 1:
        return here[0] != there[0]
    return _apart(here, there)


def _apart(here: Sequence[str], there: Sequence[str]) -> bool:
    """Whether noise is smaller than what lies between: an average of more would tell."""
    try:
        low, high = sorted([sorted(map(float, here)), sorted(map(float, there))])
    except ValueError:
        return False
    return high[0] - low[-1] > 2 * max(low[-1] - low[0], high[-1] - high[0])


def relevant(product: Product, told: Collection[str]) -> tuple[Control, ...]:
    """Return the controls of a product that say something of an API that tells the secret."""
    apis = {name.split("@")[0] for name in told}
    return tuple(c for c in product.controls if any(c.effect_on(api) for api in apis))


def lists_of(
    products: Sequence[Product], told: Collection[str]
) -> dict[str, tuple[Product, tuple[Control, ...]]]:
    """Host -> the list in force there: all controls of a product, and each alone.

    Scriptlets act each on its own members, so that these are read together only.
    """
    found: dict[str, tuple[Product, tuple[Control, ...]]] = {}
    for number, product in enumerate(products):
        controls = relevant(product, told)
        alone = product.how not in {"scriptlets", "filters"}
        sets = [(control,) for control in controls] if alone else []
        sets += [controls] * (len(controls) > len(sets) or len(controls) > 1)
        for place, chosen in enumerate(sets):
            found[f"l{number}x{place}.localhost"] = (product, chosen)
    return found


def measure(
    bench: Bench, pair: Pair, products: Sequence[Product], log: Callable[[str], None] = print
) -> Found:
    """Measure a secret, and some products of one browser."""
    start, browser = time.monotonic(), products[0].browser
    first = _both(lambda environment: _bare(bench, browser, environment), pair)
    # Scripts of readers that do not go together had looked as if nothing told anything.
    if failures := {reading[FAILED] for reading in first if FAILED in reading}:
        raise RuntimeError(f"the page of the laboratory fails: {', '.join(failures)}")
    told = differing(first[:1], first[1:])
    read = {
        key.partition("@")[0] for reading in first for key in reading if _is_value(reading[key])
    }
    found = Found(told=told, tried=max(map(len, first)), read=read, products=products)
    found.seconds = round(time.monotonic() - start)
    log(f"  {len(told)} of {found.tried} readers tell it ({found.seconds} s)")
    if not told:
        return found
    in_page = [product for product in products if product.how != "policies"]
    lists = lists_of(in_page, told)
    sides = _sessions(bench, browser, pair, lists, told)
    bare = [[read[key] for read in side for key in (BARE, f"{BARE} again")] for side in sides]
    # Nothing would differ, so that all that is known of the secret would be overwritten by nothing.
    if any(all(_told(read, name) in UNKNOWN for name in told) for side in bare for read in side):
        raise RuntimeError("the page without a list told nothing the second time")
    found.told = differing([first[0], *bare[0]], [first[1], *bare[1]])
    _note_all(found, lists, sides)
    # A reader that only drifted, such as the size of the heap, had brought its control into the
    # list of all: nothing was then known of the list without it.
    later = {
        host: tried
        for host, tried in lists_of(in_page, found.told).items()
        if _is_new(found, *tried)
    }
    if later:
        _note_all(found, later, _sessions(bench, browser, pair, later, found.told))
    for product in products:
        if product.how == "policies":
            for _, (_, controls) in lists_of([product], found.told).items():
                text = product.text(controls)

                def with_policies(environment: Environment, text: str = text) -> Reading:
                    return _with_policies(bench, environment, text, found.told)

                reads = [[read] for read in _both(with_policies, pair)]
                _note(found, product, controls, reads)
    found.seconds = round(time.monotonic() - start)
    log(f"  {len(found.told)} told again, {len(found.closed)} lists ({found.seconds} s)")
    return found


def _sessions(
    bench: Bench, browser: str, pair: Pair, lists: Tried, told: Collection[str]
) -> list[list[dict[str, Reading]]]:
    """Read beside lists in both environments: two sessions where noise is drawn anew in each."""
    noise = {
        host: (product, controls)
        for host, (product, controls) in lists.items()
        if any("noise" in control.effects.values() for control in controls)
    }
    sides: list[list[dict[str, Reading]]] = [[], []]
    for tried in [lists, noise] if noise else [lists]:

        def with_lists(environment: Environment, tried: Tried = tried) -> dict[str, Reading]:
            return _with_lists(bench, browser, environment, tried, told)

        for side, reads in zip(sides, _both(with_lists, pair), strict=True):
            side.append(reads)
    return sides


def _note_all(found: Found, lists: Tried, sides: Sequence[Sequence[dict[str, Reading]]]) -> None:
    for host, (product, controls) in lists.items():
        reads = [[read[host] for read in side if host in read] for side in sides]
        _note(found, product, controls, reads)


def _is_new(found: Found, product: Product, controls: Sequence[Control]) -> bool:
    return (product.name, tuple(control.name for control in controls)) not in found.closed


def breakage(
    bench: Bench, products: Sequence[Product], log: Callable[[str], None] = print
) -> dict[str, dict[str, list[str]]]:
    """Product -> control -> ordinary pages that stop beside it alone: seen twice in one session."""
    browser = products[0].browser
    products = [product for product in products if product.how != "policies"]
    lists: Tried = {
        f"b{number}x{place}.localhost": (product, (control,))
        for number, product in enumerate(products)
        for place, control in enumerate(product.controls)
    }
    reads = _with_lists(bench, browser, Environment(), lists, PAGES)
    usual = {name for name in PAGES if reads[BARE].get(name) == "works"}
    usual &= {name for name in PAGES if reads[f"{BARE} again"].get(name) == "works"}
    log(f"  {len(usual)} of {len(PAGES)} pages work without a list")
    stopped = {host: {n for n in usual if reads[host].get(n) != "works"} for host in lists}
    again = {host: lists[host] for host in lists if stopped[host]}
    if again:
        reads = _with_lists(bench, browser, Environment(), again, PAGES)
    found: dict[str, dict[str, list[str]]] = {product.name: {} for product in products}
    for host, (product, [control]) in again.items():
        both = {name for name in stopped[host] if reads[host].get(name) != "works"}
        if both:
            found[product.name][control.name] = sorted(name.partition("@")[0] for name in both)
    return found


def _note(
    found: Found, product: Product, controls: Sequence[Control], reads: Sequence[list[Reading]]
) -> None:
    closed = found.told - still_open(found.told, *reads)
    found.closed[product.name, tuple(control.name for control in controls)] = closed


def _both(read: Callable[[Environment], _Read], pair: Pair) -> list[_Read]:
    """Read in both environments at once: what comes late by that counts as open."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(read, pair))


def _bare(bench: Bench, browser: str, environment: Environment) -> Reading:
    for known, reading in bench.bare:
        if known == environment:
            return reading
    with _folder(bench) as folder, Site() as site:
        run = browsers.chromium if browser == "chromium" else browsers.firefox
        with run(folder / "browser", site.waiting_page, environment):
            reading = site.visit(BARE)
    bench.bare.append((environment, reading))
    return reading


def _with_lists(
    bench: Bench, browser: str, environment: Environment,
    lists: Mapping[str, tuple[Product, tuple[Control, ...]]], told: Collection[str],
) -> dict[str, Reading]:  # fmt: skip
    """Return what is read on every host, in one session."""
    by_how: dict[str, Lists] = {}
    products = {product.how: product for product, _ in lists.values()}
    for host, (product, controls) in lists.items():
        by_how.setdefault(product.how, {})[host] = controls
    headers = {
        host: headers_of(products["headers"].text(controls))
        for host, controls in by_how.get("headers", {}).items()
    }
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(bench))
        site = stack.enter_context(Site(headers=headers))
        extensions = []
        if "extension" in by_how:
            extensions.append(
                merged_extension(folder / "ours", products["extension"], by_how["extension"])
            )
        if browser == "chromium":
            if "scriptlets" in by_how:
                extensions.append(
                    scriptlet_extension(
                        folder / "theirs",
                        products["scriptlets"],
                        by_how["scriptlets"],
                        bench.modules,
                    )
                )
            stack.enter_context(
                browsers.chromium(
                    folder / "browser", site.waiting_page, environment, extensions=extensions
                )
            )
            return _tour(site, lists, told)
        policies = ""
        if "filters" in by_how:
            policies = ublock_policies(products["filters"], by_how["filters"])
            extensions.append(bench.ublock)
        firefox = stack.enter_context(
            browsers.firefox(folder / "browser", site.waiting_page, environment, policies=policies)
        )
        for extension in extensions:
            firefox._call("Addon:Install", {"path": str(extension.resolve()), "temporary": True})
        if policies:
            _compiled(firefox, site)
        return _tour(site, lists, told, firefox, environment)


def _compiled(firefox: Firefox, site: Site) -> None:
    """Wait until uBlock Origin has compiled its lists: until that of a page of its own is there."""

    def acts() -> bool:
        firefox.open(f"http://{READY}:{site.port}/old.html")
        return bool(firefox.run(f"window.{READY.partition('.')[0]}"))

    with firefox.tab():  # the page that waits would lose its next address
        wait(acts, 60)


def _tour(
    site: Site, lists: Mapping[str, tuple[Product, tuple[Control, ...]]], told: Collection[str],
    firefox: Firefox | None = None, environment: Environment | None = None,
) -> dict[str, Reading]:  # fmt: skip
    found = {BARE: site.visit(BARE, told)}
    for host, (product, controls) in lists.items():
        chosen: dict[str, Any] = {}
        if firefox and environment and product.how == "preferences":
            chosen = preferences_of(controls)
            in_chrome(firefox, _SET % json.dumps(chosen))
        found[host] = _visited(site, host, told)
        if firefox and environment and chosen:
            usual = browsers.STOCK | dict(environment.preferences)
            in_chrome(firefox, _SET % json.dumps({name: usual.get(name) for name in chosen}))
    found[f"{BARE} again"] = site.visit(BARE, told)
    return found


def _visited(site: Site, host: str, told: Collection[str]) -> Reading:
    """Read on a host; where a page never reports, its list has stopped it: nothing is known."""
    try:
        return site.visit(host, told)
    except queue.Empty:
        print(f"  {host} did not report", file=sys.stderr)
        return dict.fromkeys(told, "late")


def _with_policies(
    bench: Bench, environment: Environment, text: str, told: Collection[str]
) -> Reading:
    with (
        _folder(bench) as folder,
        Site() as site,
        browsers.chromium(folder / "browser", site.waiting_page, environment, policies=text),
    ):
        return site.visit(BARE, told)


def _folder(bench: Bench) -> Any:
    return _Folder(bench.folder)


class _Folder:
    """A new folder, which is deleted."""

    def __init__(self, parent: Path) -> None:
        self._made = tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True)

    def __enter__(self) -> Path:
        return Path(self._made.name)

    def __exit__(self, *_: object) -> None:
        self._made.cleanup()
