"""Sizes of windows: Firefox's steps beside lists of sizes that are designed and certified.

    python benchmarks/letterboxing.py TABLE.parquet [--runs 30] [--figure docs/letterboxing.svg]

takes the desktop windows of a table of the npm package `user-agents`. `halves`: lists designed from
one half of the windows and judged on the other, which stands for the population. `certified`: rows
as the population; of each sample of as many users 30 % design lists, and the others test them in
order as `decide --levels --design-share 30%` does. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.decide import designs
from fpmonitor.decide.deciding import judging
from fpmonitor.decide.decision import Decision, DesignPart
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.policy import Policy
from fpmonitor.population.levels import Component, Design, LevelMap
from fpmonitor.render.charts import scatter_chart
from fpmonitor.render.svg import standalone
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Mapping

K, DELTA, BUDGET, SHARE, SIZES = 10, 0.05, 0.05, 0.3, 200
Window = tuple[int, int]
Shown = dict[Window, tuple[Any, ...]]


def windows_of(table: Path) -> list[Window]:
    """Sizes of the windows of desktops, of 200 pixels and more each way."""
    wide, high = pl.col("viewportWidth"), pl.col("viewportHeight")
    kept = pl.read_parquet(table).filter(
        (pl.col("deviceCategory") == "desktop") & (wide >= 200) & (high >= 200)
    )
    return [(int(w), int(h)) for w, h in kept.select("viewportWidth", "viewportHeight").rows()]


def stepped(window: Window) -> Window:
    """Size that Firefox and Tor Browser show by their steps."""

    def side(pixels: int, middle: int) -> int:
        step = 50 if pixels <= 500 else middle if pixels <= 1600 else 200
        return pixels - pixels % step

    return side(window[0], 200), side(window[1], 100)


def by_list(level: LevelMap, windows: set[Window]) -> Shown:
    """What a list of sizes shows of each window."""
    return {window: level.shown(tuple(map(str, window))) for window in windows}


def area_lost(shown: Shown, held: Mapping[Window, float]) -> float:
    """Mean share of the area that is not shown."""
    lost = 0.0
    for (wide, high), users in held.items():
        size = shown[wide, high]
        area = 0.0 if "other" in size else float(size[0]) * float(size[1])
        lost += users * (1 - area / (wide * high))
    return lost / sum(held.values())


def groups_of(shown: Shown, held: Mapping[Window, float]) -> Any:
    """Users, or their share, of each group that sees the same."""
    groups: dict[tuple[Any, ...], float] = {}
    for window, users in held.items():
        groups[shown[window]] = groups.get(shown[window], 0) + users
    return np.array(list(groups.values()))


def observed(counts: Any, k: int = K) -> float:
    """Share of the users in groups below k."""
    return float(counts[counts < k].sum() / counts.sum())


def policy(users: int) -> Policy:
    """Ask for k = 10 and 5 % among as many users."""
    return Policy(k=K, population=users, budget=BUDGET, delta=DELTA, candidates=("width", "height"))


def path_of(held: Mapping[Window, int], users: int) -> list[LevelMap]:
    """Lists designed from counted windows, from coarse to fine."""
    level = LevelMap(design=Design(sizes=SIZES))
    found = designs.path(
        level, {tuple(map(str, window)): count for window, count in held.items()}, policy(users)
    )
    return list(dict.fromkeys(each.level for each in found))


def halves(windows: list[Window]) -> dict[str, Any]:
    """Judge Firefox's steps and lists from one half on the other half."""
    order = np.random.default_rng(0).permutation(len(windows))
    first, second = np.array_split(order, 2)
    design, other = (Counter(windows[at] for at in part.tolist()) for part in (first, second))
    told: dict[str, Shown] = {"Firefox's steps": {window: stepped(window) for window in other}}
    for number, level in enumerate(path_of(design, len(second)), start=1):
        told[f"list {number}"] = by_list(level, set(other))
    return {
        name: {
            "exposed": observed(groups_of(shown, other)),
            "area lost": area_lost(shown, other),
            "sizes": len(set(shown.values())),
        }
        for name, shown in told.items()
    }


def certified(windows: list[Window], runs: int) -> dict[str, Any]:
    """Design, test and judge lists on samples from the rows."""
    rng, users = np.random.default_rng(1), len(windows)
    law = Counter(windows)
    every = set(law)
    shares = {window: count / users for window, count in law.items()}

    def true(counts: Any) -> float:
        law = np.minimum(counts, 1.0)
        return float(law @ exposure_probability(law, k=K, population=users))

    part = int(SHARE * users)
    sizes = Component(
        name="window",
        apis=("w", "h"),
        levels=(LevelMap(raw=True),),
        utility=(0, 1),
        least=0,
        most=1,
    )
    designed = DesignPart(SHARE, part, 1, "values")
    begun = replace(Decision.begun(policy(users)), components=(sizes,), design=designed)
    tests = judging(begun, users - part)
    kept: list[tuple[float, float]] = []
    trusted: list[float] = []
    for _ in range(runs):
        drawn = rng.choice(users, users)
        sample = [windows[at] for at in drawn.tolist()]
        design, rest = Counter(sample[:part]), Counter(sample[part:])
        best, own = None, None
        failed = False
        for level in path_of(design, users):
            shown = by_list(level, every)
            spectrum = CountSpectrum.from_counts(groups_of(shown, rest))
            failed = failed or not tests.allow.holds(spectrum, 1)
            best = best if failed else shown
            scaled = max(1, round(K * part / users))
            own = shown if observed(groups_of(shown, design), scaled) <= BUDGET else own
        if best is not None:
            kept.append((true(groups_of(best, shares)), area_lost(best, shares)))
        if own is not None:
            trusted.append(true(groups_of(own, shares)))
    steps: Shown = {window: stepped(window) for window in law}
    return {
        "Firefox's steps": {
            "true exposure": true(groups_of(steps, shares)),
            "area lost": area_lost(steps, shares),
        },
        "runs": runs,
        "certified": len(kept),
        "wrong": sum(exposure > BUDGET for exposure, _ in kept),
        "mean true exposure": float(np.mean([exposure for exposure, _ in kept])),
        "largest true exposure": max(exposure for exposure, _ in kept),
        "area lost": float(np.mean([lost for _, lost in kept])),
        "wrong where the design part is trusted": sum(each > BUDGET for each in trusted),
    }


def figure(table: str, found: Mapping[str, Mapping[str, float]]) -> str:
    """Draw what `halves` found as an SVG file."""
    title = f"Windows of desktops, {table}"
    dots = [
        (
            100 * each["area lost"],
            each["exposed"],
            (
                f"{name}, {each['sizes']} sizes: {each['exposed']:.1%} exposed, "
                f"{each['area lost']:.1%} of the area lost"
            ),
            "s0" if name.startswith("list") else "far",
        )
        for name, each in found.items()
    ]
    drawn = scatter_chart(
        dots, title=title, x_label="area lost, per cent", y_label="exposure", budget=BUDGET
    )
    return standalone(drawn, f"{title}: lists of sizes, and in orange the steps of Firefox")


def main() -> None:
    """Measure a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    windows = windows_of(given.table)
    found: dict[str, Any] = {"table": given.table.name, "windows": len(windows)}
    found["halves"] = halves(windows)
    if given.runs:
        found["certified"] = certified(windows, given.runs)
    if given.figure:
        given.figure.write_text(figure(given.table.stem, found["halves"]), encoding="utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
