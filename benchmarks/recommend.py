"""Recommended sets of 41 to 77 APIs: utility, both bounds, sets evaluated and seconds.

`python benchmarks/recommend.py` prints a line of JSON for each search of four tables of 100,000
users that it makes: 41 and 69 columns of what pages read by the network of the PyPI package
`apify_fingerprint_datapoints`, 77 of its three networks together (kind of browser, headers, and
what pages read), and 60 that are made up, which follow a device with noise of their own and no
structure among them.
Level-wise search, which asks all sets of one API, of two and so on, is stopped after the same time:
its bound is the weight that no set exceeds which holds none of those it refused. The last line
compares random tables of eleven APIs with their complete borders. `--table` and `--search` run one.
Seconds are CPU seconds, so that other programs of the machine take nothing from the searches.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from search import has_all_subsets, joined
from search_data import Codes, network, visits

from fpmonitor.decide import best as best_module
from fpmonitor.decide import effort as effort_module
from fpmonitor.decide.best import best_set
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.search import Sought, search
from fpmonitor.decide.utility import recommend, weight_bound
from fpmonitor.estimate.criterion import Criterion, Score
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.estimate.looks import Criteria

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

_NUMBERS = ["multimediaDevices.speakers", "multimediaDevices.micros", "multimediaDevices.webcams"]
_HEADERS = """
    sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform te accept accept-encoding dnt
    upgrade-insecure-requests connection titleCase
"""
VISIT = (
    *["*DEVICE", "*OPERATING_SYSTEM", "*BROWSER", "*HTTP_VERSION"],
    *_HEADERS.split(),
    *["appName", "product", "vendorSub", "fonts.n"],
    *(
        f"{api}.n" if api in _NUMBERS else api
        for api in BROWSER
        if api.partition(".")[0] not in {"audioCodecs", "videoCodecs"} or "." not in api
        if api not in {"userAgentData.brands", "userAgentData.fullVersionList"}
    ),
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
    "browser, 69": browsers,
    "browser, 77": lambda: visits(SEED, USERS, VISIT),
    "made up, 60": unrelated,
}


def level_wise(source: MemorySource, criterion: Criterion, seconds: float) -> dict[str, Any]:
    """Search size by size, for so many seconds."""
    ends, asked, level = time.process_time() + seconds, 0, [(api,) for api in source.apis]
    allowed, refused = {()}, list[tuple[str, ...]]()
    while level and time.process_time() < ends:
        for members in level:
            if time.process_time() >= ends:
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


def best(source: MemorySource, criteria: Criteria, seconds: float, *, share: str) -> dict[str, Any]:
    """Search the best set that is allowed, or what none within the budget exceeds."""
    criterion, limits = criteria.allow, criteria.allow.limits
    if share == "possible":
        assert criteria.refute is not None
        criterion, limits = criteria.block, criteria.refute.limits
    found = best_set(source, criterion, limits.tolist(), effort=Effort.of(seconds))
    # of sets of which not all subsets were looked at, none is known to pass
    utility = {} if share == "possible" else {"utility": len(found.sets[0])}
    return {**utility, "utility_bound": found.bound, "evaluated": found.evaluated}


SEARCHES: dict[str, Callable[[MemorySource, Criteria, float], dict[str, Any]]] = {
    "allow": partial(best, share="allow"),
    "possible": partial(best, share="possible"),
    "level-wise": lambda source, criteria, seconds: level_wise(source, criteria.allow, seconds),
}


def row(table: str, search: str, seconds: float) -> dict[str, Any]:
    """Measure one search of one table."""
    codes = TABLES[table]()
    source = MemorySource([f"api{column:02d}" for column in range(len(codes))], list(codes))
    criteria = decision_criteria(users=USERS, k=K, population=USERS, budget=BUDGET, delta=DELTA)
    began = time.process_time()
    found = SEARCHES[search](source, criteria, seconds)
    spent = round(time.process_time() - began, 1)
    return {"table": table, "search": search, **found, "cpu_seconds": spent}


def random_tables(number: int) -> dict[str, Any]:
    """Compare random tables of eleven APIs with their complete borders, to the end and stopped."""
    wrong, gaps = 0, 0
    for seed in range(number):
        rng = np.random.default_rng(seed)
        rows, device = 1500, (rng.pareto(0.8, 1500) + 1).astype(int) % 40
        codes = [
            np.where(
                rng.random(rows) < rng.uniform(0.6, 1),
                device * int(rng.integers(1, 99)) % values,
                rng.integers(0, values, rows),
            )
            for values in rng.choice([1, 2, 2, 3, 4, 6, 10, 30], 11)
        ]
        source = MemorySource([f"api{column:02d}" for column in range(11)], codes)
        weights = np.r_[1, 1, np.sort(rng.random(8))[::-1], 0]
        limits = np.sort(rng.uniform(0.03, 0.3) * rows * (1 - 0.2 * rng.random(12)))[::-1]
        criterion = Criterion(Score(weights), limits)
        utility = dict(zip(source.apis, rng.choice([0.0, 1, 1, 2, 3, 7], 11).tolist(), strict=True))
        borders = search(source, allow=criterion, block=criterion)
        best = recommend(borders.allow, weights=utility)
        truth = math.fsum(utility[api] for api in best)
        for seconds in (None, 0.005):
            found = best_set(
                source,
                criterion,
                limits.tolist(),
                sought=Sought(weights=utility),
                effort=Effort.of(seconds),
            )
            weight = math.fsum(utility[api] for api in found.sets[0]) if found.sets else 0
            passes = all(criterion.holds(source.spectrum(apis), len(apis)) for apis in found.sets)
            wrong += not (passes and weight <= truth <= found.bound)
            wrong += seconds is None and not weight == truth == found.bound
            gaps += weight < found.bound
    return {
        "table": "random, 11",
        "tables": number,
        "wrong": wrong,
        "with_a_gap_when_stopped": gaps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=[*TABLES, "random, 11"], help="default: all")
    parser.add_argument("--search", choices=SEARCHES, help="default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search")
    asked = parser.parse_args()
    clock: Any = SimpleNamespace(monotonic=time.process_time)
    best_module.time = effort_module.time = clock
    for table in [asked.table] if asked.table else [*TABLES, "random, 11"]:
        if table not in TABLES:
            print(json.dumps(random_tables(150)), flush=True)
            continue
        for name in [asked.search] if asked.search else SEARCHES:
            print(json.dumps(row(table, name, asked.seconds)), flush=True)


if __name__ == "__main__":
    main()
