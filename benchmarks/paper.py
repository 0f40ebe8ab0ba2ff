"""Figures 2 and 3 of "Statistical anonymity" (2022), with our bounds added.

    python benchmarks/paper.py --adult adult.csv --out figures

Figure 2 takes sex, income, race and workclass of the UCI Adult data set (archive.ics.uci.edu, data
set 2; with or without a header), in four panels: the exposure curve of each alone, and of the first
two, three and four together, with what their marginals and pairs can promise; then the limits for a
population of as many users. Figure 3 repeats a sample of 128 users with 4 outcomes: the estimates,
and the standard deviations of the exposure and of the plug-in statistical exposure. Writes SVG and
CSV, and prints the facts as JSON.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import pathlib
import sys
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from svg import Chart

from fpmonitor.estimate.bounds import theorem5, theorem8
from fpmonitor.estimate.composition import (
    MarginalDistribution,
    composition_bounds,
    observed_threshold,
)
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import (
    empirical_exposure,
    exposure_curve,
    exposure_probability,
    plug_in_exposure,
    statistical_exposure,
)
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Columns = Mapping[str, Sequence[float]]

COLUMNS = ("sex", "income", "race", "workclass")
UCI_HEADER = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation"),
    *("relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week"),
    *("native_country", "income"),
)
DELTA = 0.05
DEVIATIONS = ("exposure, standard deviation", "statistical exposure, standard deviation")
USERS_3 = 128
LAWS_3 = {"a": (0.5, 0.25, 0.125, 0.125), "b": (0.4, 0.3, 0.2, 0.1)}


def read_adult(path: pathlib.Path) -> pl.DataFrame:
    with path.open(encoding="utf-8") as file:
        has_header = "workclass" in file.readline()
    frame = pl.read_csv(path, has_header=has_header, infer_schema=False)
    return (
        frame if has_header else frame.rename(dict(zip(frame.columns, UCI_HEADER, strict=True)))
    )[list(COLUMNS)]


def spectrum_of(frame: pl.DataFrame, columns: Sequence[str]) -> CountSpectrum:
    return CountSpectrum.from_counts(frame.group_by(columns).len()["len"].to_numpy().astype(int))


def thresholds_of(frame: pl.DataFrame) -> list[int]:
    return np.unique(np.geomspace(2, len(frame) - 1, 60).round().astype(int)).tolist()


def observed_curve(frame: pl.DataFrame, columns: Sequence[str]) -> list[float]:
    """Share of the observed users in groups below each threshold."""
    curve = exposure_curve(spectrum_of(frame, columns))
    return [curve.at(threshold) for threshold in thresholds_of(frame)]


def single_curves(frame: pl.DataFrame) -> dict[str, list[float]]:
    """First panel of Figure 2: the exposure of each feature alone."""
    alone = {column: observed_curve(frame, [column]) for column in COLUMNS}
    return {"threshold": [*map(float, thresholds_of(frame))], **alone}


def composition_curves(frame: pl.DataFrame, columns: Sequence[str]) -> dict[str, list[float]]:
    """Another panel: exposure of features together, and what marginals promise of it."""
    laws = [MarginalDistribution.from_spectrum(spectrum_of(frame, [column])) for column in columns]
    pairs = {
        (i, j): MarginalDistribution.from_spectrum(spectrum_of(frame, [columns[i], columns[j]]))
        for i, j in itertools.combinations(range(len(columns)), 2)
        if len(columns) > 2
    }
    curves: dict[str, list[float]] = {
        "threshold": [*map(float, thresholds_of(frame))],
        "observed users": observed_curve(frame, columns),
        "smaller of theorems 2 and 3": [],
    }
    for threshold in thresholds_of(frame):
        at = observed_threshold(threshold, len(frame))
        upper = {b.rule: b.upper for b in composition_bounds(laws, threshold=at, pairs=pairs)}
        smaller = min(upper.pop("theorem 2"), upper.pop("theorem 3"))
        curves["smaller of theorems 2 and 3"].append(smaller)
        for rule, bound in upper.items():
            name = rule if rule != "join size" else "join size (pairs)"
            curves.setdefault(name, []).append(bound)
    return curves


def limit_curves(frame: pl.DataFrame) -> dict[str, list[float]]:
    """Right part of Figure 2: limits for a population of as many users, by k."""
    users, spectrum = len(frame), spectrum_of(frame, COLUMNS)
    support = int(np.prod([frame[column].n_unique() for column in COLUMNS]))
    rows = []
    for k in np.unique(np.geomspace(2, users / 3, 14).round().astype(int)).tolist():
        limits = exposure_limits(users=users, k=k, population=users, delta=DELTA)
        lower, upper = limits.of(spectrum)
        question = {"k": k, "population": users, "delta": DELTA, "support": support}
        curve, statistical = theorem5(spectrum, **question), theorem8(spectrum, **question)
        rows.append(
            {
                "k": k,
                "plug-in": plug_in_exposure(spectrum, k=k, population=users),
                "certificate, lower": lower,
                "certificate, upper": upper,
                "theorem 5, lower": curve.lower,
                "theorem 5, upper": curve.upper,
                "theorem 8 (replaced), lower": statistical.lower,
                "theorem 8 (replaced), upper": statistical.upper,
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}


def figure3(law: Sequence[float], runs: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """Truth, estimates over all runs, and mean limits, by k."""
    counts = rng.multinomial(USERS_3, law, size=runs)
    certified = {k: mean_limits(law, k, min(runs, 200), rng) for k in range(2, USERS_3 + 1, 9)}
    rows = []
    for k in range(2, USERS_3 + 1):
        exposed = exposure_probability(np.arange(USERS_3 + 1) / USERS_3, k=k, population=USERS_3)
        plug_in = (counts * exposed[counts]).sum(axis=1) / USERS_3
        empirical = ((counts < k) * counts).sum(axis=1) / USERS_3
        nearest = min(certified, key=lambda other: abs(other - k))
        rows.append(
            {
                "k": k,
                "truth": statistical_exposure(law, k=k, population=USERS_3),
                "plug-in, mean": plug_in.mean(),
                "plug-in, 5 %": np.quantile(plug_in, 0.05),
                "plug-in, 95 %": np.quantile(plug_in, 0.95),
                "empirical, mean": empirical.mean(),
                "exposure, standard deviation": empirical.std(ddof=1),
                "statistical exposure, standard deviation": plug_in.std(ddof=1),
                "certificate, lower": certified[nearest][0] if nearest == k else "",
                "certificate, upper": certified[nearest][1] if nearest == k else "",
                "theorem 8 (replaced), upper": mean_theorem8(counts[:50], k),
            }
        )
    return {name: [row[name] for row in rows] for name in rows[0]}


def mean_limits(
    law: Sequence[float], k: int, runs: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean lower and upper limit of the certificate."""
    limits = exposure_limits(users=USERS_3, k=k, population=USERS_3, delta=DELTA)
    found = [
        limits.of(CountSpectrum.from_counts(rng.multinomial(USERS_3, law))) for _ in range(runs)
    ]
    lower, upper = np.mean(found, axis=0).tolist()
    return lower, upper


def mean_theorem8(counts: np.ndarray, k: int) -> float:
    spectra = [CountSpectrum.from_counts(row) for row in counts]
    return float(
        np.mean(
            [theorem8(s, k=k, population=USERS_3, delta=DELTA, support=4).upper for s in spectra]
        )
    )


def draw(title: str, x_label: str, columns: Columns, *, logarithmic: bool) -> Chart:
    """Chart of all columns against the first; lower and upper limits in one colour."""
    (_, x), *rest = columns.items()
    chart = Chart(title, x_label, (min(x), max(x)), logarithmic=logarithmic)
    for name, y in rest:
        base, _, kind = name.rpartition(", ")
        if kind == "standard deviation":
            continue
        if kind == "95 %":
            chart.band("plug-in, 5 to 95 % of runs", x, columns[f"{base}, 5 %"], y)
        elif kind == "upper":
            sides = [columns[side] for side in (f"{base}, lower", name) if side in columns]
            kept = [i for i, value in enumerate(y) if value != ""]
            chart.lines(base, *([side[i] for i in kept] for side in (x, *sides)), dashed=True)
        elif kind not in {"5 %", "lower"}:
            chart.lines(name, x, y, dashed="theorem" in name)
    return chart


def save(folder: pathlib.Path, name: str, columns: Columns, chart: Chart) -> None:
    (folder / f"{name}.svg").write_text(chart.text(), encoding="utf-8")
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def figure2(path: pathlib.Path, folder: pathlib.Path) -> dict[str, object]:
    frame = read_adult(path)
    panels = {"a": single_curves(frame)} | {
        panel: composition_curves(frame, COLUMNS[:size])
        for panel, size in (("b", 2), ("c", 3), ("d", 4))
    }
    for panel, curves in panels.items():
        named = ", ".join(COLUMNS[: " bcd".index(panel) + 1]) if panel != "a" else "each feature"
        title = f"Figure 2 ({panel}), {named}: exposure of the observed users"
        chart = draw(title, "groups of fewer than ... users", curves, logarithmic=True)
        save(folder, f"figure2{panel}", curves, chart)
    limited = limit_curves(frame)
    title = f"Figure 2, added: limits for a population of {len(frame):,}"
    chart = draw(title, "k, users", limited, logarithmic=True)
    save(folder, "figure2-limits", limited, chart)
    joint = spectrum_of(frame, COLUMNS)
    return {
        "users": joint.users,
        "groups": joint.support,
        "entropy_bits": entropy_bits(joint),
        "exposure": {k: empirical_exposure(joint, k) for k in (10, 100, 1000)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adult", type=pathlib.Path, help="UCI Adult as CSV; without: no Figure 2")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("figures"))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    facts: dict[str, object] = {}
    if arguments.adult:
        facts["adult"] = figure2(arguments.adult, arguments.out)
    for name, law in LAWS_3.items():
        columns = figure3(law, arguments.runs, np.random.default_rng([arguments.seed, len(facts)]))
        title = f"Figure 3{name}: {USERS_3} users, p = {law}"
        save(arguments.out, f"figure3{name}", columns, draw(title, "k", columns, logarithmic=False))
        deviations = {
            key.removesuffix(", standard deviation"): values
            for key, values in columns.items()
            if key in {"k", *DEVIATIONS}
        }
        title = f"Figure 3{name}: standard deviations"
        save(
            arguments.out,
            f"figure3{name}-deviations",
            deviations,
            draw(title, "k", deviations, logarithmic=False),
        )
        bias = np.subtract(columns["plug-in, mean"], columns["truth"])
        empirical, statistical = (np.array(columns[key]) for key in DEVIATIONS)
        facts[f"figure3{name}"] = {
            "largest_bias_of_plug_in": float(np.abs(bias).max()),
            "mean_deviation_of_exposure": float(empirical.mean()),
            "mean_deviation_of_statistical_exposure": float(statistical.mean()),
            "k_where_the_latter_is_larger": int((statistical > empirical).sum()),
            "k": len(empirical),
        }
    json.dump(facts, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
