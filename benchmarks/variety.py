"""How many different values browsers are known to return, for the vocabulary.

    python benchmarks/variety.py --cache FOLDER     # needs npm; the cache keeps the tarballs

Writes `fpmonitor/vocabulary/variety.json`: for each API the different values to expect among 1,000
and among 10,000 users, the least of three public tables, and which table that is. The tables are
the network of the PyPI package `apify_fingerprint_datapoints` (Apache-2.0), whose values have
known probabilities, and two releases of the npm package `user-agents` (BSD-2-Clause). What the
HTML standard makes constant has one value. No value itself goes into the project.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from apify_fingerprint_datapoints import get_fingerprint_network, get_header_network
from scipy.special import gammaln
from useragent_study import npm, read

from fixtures.make_logs import APIS, Api, decode, load_nodes, member, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

OUTPUT = Path(__file__).parents[1] / "fpmonitor" / "vocabulary" / "variety.json"
SIZES = (1_000, 10_000)
RELEASES = ("1.0.38", "1.1.666")  # of 2018 and of 2025
STANDARD = "https://html.spec.whatwg.org/multipage/system-state.html#client-identification"
CONSTANT = (
    "Navigator.appCodeName",
    "Navigator.appName",
    "Navigator.javaEnabled",
    "Navigator.product",
    "Navigator.taintEnabled",
    "Navigator.vendorSub",
)
_SCREEN = ("availHeight", "availLeft", "availTop", "availWidth", "pixelDepth")
_WINDOW = ("outerHeight", "outerWidth", "screenX")
NODES = (
    *APIS,
    Api("Navigator.appVersion", "appVersion"),
    Api("Navigator.pdfViewerEnabled", "extraProperties", member("pdfViewerEnabled")),
    Api("Navigator.productSub", "productSub"),
    Api("Navigator.vendor", "vendor"),
    Api("Navigator.webdriver", "webdriver"),
    *(Api(f"Screen.{name}", "screen", member(name)) for name in _SCREEN),
    *(Api(f"Window.{name}", "screen", member(name)) for name in _WINDOW),
    *(Api(f"http:{name}", name) for name in ("accept", "dnt", "sec-ch-ua", "user-agent")),
    *(Api(f"http:{name}", name) for name in ("sec-ch-ua-mobile", "sec-ch-ua-platform")),
)
OF_RELEASES = {
    "Navigator.platform": "platform",
    "Navigator.userAgent": "userAgent",
    "Navigator.vendor": "vendor",
    "NetworkInformation.downlink": "connection.downlink",
    "NetworkInformation.downlinkMax": "connection.downlinkMax",
    "NetworkInformation.effectiveType": "connection.effectiveType",
    "NetworkInformation.rtt": "connection.rtt",
    "NetworkInformation.type": "connection.type",
    "Screen.height": "screenHeight",
    "Screen.width": "screenWidth",
    "Window.innerHeight": "viewportHeight",
    "Window.innerWidth": "viewportWidth",
}
# The same information by another name, or as the log of a server has it.
SAME = {
    "Navigator.appVersion": ("WorkerNavigator.appVersion",),
    "Navigator.deviceMemory": ("http:device-memory", "http:sec-ch-device-memory"),
    "Navigator.hardwareConcurrency": ("WorkerNavigator.hardwareConcurrency",),
    "Navigator.platform": ("WorkerNavigator.platform",),
    "Navigator.userAgent": ("WorkerNavigator.userAgent", "http:user-agent"),
    "Window.devicePixelRatio": ("http:dpr", "http:sec-ch-dpr"),
}


def marginal(nodes: Mapping[str, Any], name: str) -> dict[str, float]:
    """Probability of each raw value of a node, over all of its parents."""
    node = nodes[name]
    table = node["conditionalProbabilities"]
    if not node["parentNames"]:
        return dict(table)
    found: defaultdict[str, float] = defaultdict(float)
    parents = {parent: marginal(nodes, parent) for parent in node["parentNames"]}

    def descend(part: Any, left: list[str], weight: float) -> None:
        if not left:
            for value, share in part.items():
                found[value] += weight * share
            return
        for value, share in parents[left[0]].items():
            inner = part.get("deeper", {}).get(value, part.get("skip"))
            if inner is not None and share:
                descend(inner, left[1:], weight * share)

    descend(table, list(node["parentNames"]), 1.0)
    return found


def of_network() -> dict[str, list[float]]:
    """Expected different values of each API of the network, of users who have one."""
    nodes = load_nodes(get_header_network()) | load_nodes(get_fingerprint_network())
    found = {}
    for api in NODES:
        shares: defaultdict[str, float] = defaultdict(float)
        for raw, share in marginal(nodes, api.node).items():
            value = decode(raw)
            read_value = None if value is None else text(api.read(value))
            if read_value is not None:
                shares[read_value] += share
        p = np.array([*shares.values()])
        if p.sum() > 0:
            p /= p.sum()
            found[api.name] = [float((1 - (1 - p) ** size).sum()) for size in SIZES]
    return found


def of_release(cache: Path, release: str) -> dict[str, list[float]]:
    """Expected different values among some of the users of a release who have a value."""
    endings = ("user-agents.json.gz", "dist/user-agents.json")
    rows = json.loads(read(npm(cache, f"user-agents@{release}"), *endings))
    found = {}
    for api, path in OF_RELEASES.items():
        counts: defaultdict[str, int] = defaultdict(int)
        for row in rows:
            value: Any = row
            for part in path.split("."):
                value = (value or {}).get(part)
            if value is not None:
                counts[json.dumps(value)] += 1
        if sum(counts.values()) >= SIZES[0]:
            found[api] = [rarefied(np.array([*counts.values()]), size) for size in SIZES]
    return found


def rarefied(counts: NDArray[np.int64], size: int) -> float:
    """Expected different values among `size` of the users, drawn without return (Hurlbert 1971)."""
    users = counts.sum()
    if size >= users:
        return float(len(counts))
    rest = users - counts

    def log_choose(n: NDArray[np.int64], r: int) -> NDArray[np.float64]:
        return np.asarray(gammaln(n + 1) - gammaln(r + 1) - gammaln(n - r + 1))

    left = rest >= size
    missed = np.exp(log_choose(rest[left], size) - log_choose(np.array([users]), size))
    return float(len(counts) - missed.sum())


def least(tables: Mapping[str, Mapping[str, list[float]]]) -> Iterable[tuple[str, dict[str, Any]]]:
    """For each API the table in which browsers return the fewest values."""
    for api in sorted({api for table in tables.values() for api in table}):
        expected, source = min((table[api], name) for name, table in tables.items() if api in table)
        yield api, {"values": [max(round(number), 1) for number in expected], "source": source}


def main() -> None:
    parser = argparse.ArgumentParser(description="How many different values browsers return.")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the packages of npm")
    cache = parser.parse_args().cache
    cache.mkdir(parents=True, exist_ok=True)
    package = "apify_fingerprint_datapoints"
    tables = {f"{package} {version(package)} (PyPI)": of_network()}
    tables |= {f"user-agents {name} (npm)": of_release(cache, name) for name in RELEASES}
    apis = dict(least(tables))
    apis |= {
        other: apis[api]
        for api, others in SAME.items()
        for other in others
        if api in apis and other not in apis
    }
    apis |= {api: {"values": [1] * len(SIZES), "source": STANDARD} for api in CONSTANT}
    lines = (f"  {json.dumps(api)}: {json.dumps(apis[api])}" for api in sorted(apis))
    content = ",\n".join(lines)
    OUTPUT.write_text(
        f'{{\n "users": {json.dumps(SIZES)},\n "apis": {{\n{content}\n }}\n}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()
