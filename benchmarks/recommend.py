"""Recommended sets of 41 to 69 APIs: utility, both bounds, sets evaluated and seconds.

`python benchmarks/recommend.py` prints JSON for three tables of 100,000 users that it makes: all
columns of the network of `apify_fingerprint_datapoints`, 41 of them, and 60 that are made up, which
follow a device with noise of their own and no structure among them. Beside each stands level-wise
search, which asks all sets of one API, of two and so on, stopped after the same time: its bound is
the weight that no set exceeds which holds none of those it refused.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from search import has_all_subsets, joined
from search_data import Codes, network

from fpmonitor.decide.best import best_set
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.utility import weight_bound
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.estimate.criterion import Criterion

USERS, SEED = 100_000, 20260401
K, BUDGET, DELTA = 10, 0.05, 0.025
_NODES = """
    userAgent appVersion doNotTrack maxTouchPoints oscpu deviceMemory productSub vendor platform
    hardwareConcurrency appCodeName webdriver userAgentData audioCodecs videoCodecs
    multimediaDevices pluginsData battery fonts
"""
_MEMBERS = {
    "userAgentData": "platform platformVersion architecture bitness model mobile uaFullVersion "
    "brands fullVersionList",
    "extraProperties": "vendorFlavors globalPrivacyControl pdfViewerEnabled installedApps",
    "screen": "availHeight availLeft availTop availWidth clientHeight clientWidth colorDepth "
    "devicePixelRatio hasHDR height innerHeight innerWidth outerHeight outerWidth pageXOffset "
    "pageYOffset pixelDepth screenX width",
    "videoCard": "vendor renderer",
    "audioCodecs": "ogg mp3 wav m4a aac",
    "videoCodecs": "ogg h264 webm",
    "multimediaDevices": "speakers micros webcams",
    "pluginsData": "plugins",
    "battery": "charging chargingTime dischargingTime level",
}
BROWSER = (
    *_NODES.split(),
    *(f"{node}.{name}" for node in _MEMBERS for name in _MEMBERS[node].split()),
)


def browsers() -> Codes:
    """Browsers drawn from the network."""
    return network(SEED, USERS, BROWSER)


def unrelated(columns: int = 60) -> Codes:
    """Columns that follow a device in 19 of 20 users, each in a way of its own."""
    rng = np.random.default_rng(2)
    device = np.minimum(rng.pareto(0.8, USERS) + 1, 1e9).astype(np.int64) % 3000
    cardinalities = rng.choice([2, 2, 3, 4, 5, 8, 10, 16, 30, 60, 200, 1000], columns)
    return np.array(
        [
            np.where(
                rng.random(USERS) < 0.95,
                device * int(rng.integers(1, 9999)) // 7 % values,
                rng.integers(0, values, USERS),
            )
            for values in cardinalities
        ],
        dtype=np.uint32,
    )


TABLES: dict[str, Callable[[], Codes]] = {
    "browser, 41": lambda: browsers()[:41],
    "browser, all": browsers,
    "made up, 60": unrelated,
}


def level_wise(source: MemorySource, criterion: Criterion, seconds: float) -> dict[str, Any]:
    """Search size by size, for so many seconds."""
    ends, asked, level = time.monotonic() + seconds, 0, [(api,) for api in source.apis]
    allowed, refused = {()}, list[tuple[str, ...]]()
    while level and time.monotonic() < ends:
        for members in level:
            if time.monotonic() >= ends:
                break
            asked += 1
            passes = criterion.holds(source.spectrum(members), len(members))
            (allowed.add if passes else refused.append)(members)
        passed = sorted(members for members in allowed if len(members) == len(level[0]))
        level = [members for members in joined(passed) if has_all_subsets(members, allowed)]
    return {
        "utility": max(map(len, allowed)),
        "utility_bound": weight_bound(source.apis, refused),
        "evaluated": asked,
    }


def measured(codes: Codes, seconds: float) -> dict[str, Any]:
    """Both bounds of one table, each with so many seconds, and level-wise search."""
    source = MemorySource([f"api{column:02d}" for column in range(len(codes))], list(codes))
    criteria = decision_criteria(users=USERS, k=K, population=USERS, budget=BUDGET, delta=DELTA)
    found = {}
    for name, criterion, limits in (
        ("allow", criteria.allow, criteria.allow.limits),
        ("possible", criteria.block, criteria.refute.limits),
    ):
        clock, cpu = time.monotonic(), time.process_time()
        best = best_set(source, criterion, limits.tolist(), weights={}, effort=Effort.of(seconds))
        found[name] = {
            "utility": len(best.sets[0]),
            "utility_bound": best.bound,
            "evaluated": best.evaluated,
            "cpu_seconds": time.process_time() - cpu,
            "wall_seconds": time.monotonic() - clock,
        }
    del found["possible"]["utility"]  # of sets of which not all subsets were looked at
    return found | {"level_wise": level_wise(source, criteria.allow, seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="*", choices=[*TABLES, []], help="default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search")
    asked = parser.parse_args()
    answer = {name: measured(TABLES[name](), asked.seconds) for name in asked.table or TABLES}
    json.dump(answer, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
