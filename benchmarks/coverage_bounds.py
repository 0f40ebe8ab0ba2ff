"""How often do the bounds of the paper, composition and the cohort limits miss the truth?

    python benchmarks/coverage_bounds.py --runs 1000 --markdown coverage_bounds.md

draws samples from laws with known exposure and prints JSON: per bound and law the share of the runs
in which it is on the wrong side of the truth, which may be at most delta for the upper and for the
lower limit. For cohorts a run counts as missed when the limit of any cohort is wrong; truth and
mean limits are those of the first cohort.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate.bounds import proposition9, theorem5, theorem8
from fpmonitor.estimate.cohorts import cohort_limits
from fpmonitor.estimate.composition import composition_from_sample
from fpmonitor.estimate.exposure import exposure_probability, statistical_exposure
from fpmonitor.estimate.limits import Limits, exposure_limits
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.estimate.bounds import Interval

Row = dict[str, object]

DELTA = 0.05
K = 5
SUPPORT = 400


def laws(population: int) -> dict[str, tuple[np.ndarray, int]]:
    """Probabilities of at most SUPPORT values and the threshold k, by the name of the law."""
    ranks = np.arange(1.0, SUPPORT + 1)
    at = K / population
    rare = min(SUPPORT - 1, int(0.3 / at))
    return {
        "uniform": (np.full(SUPPORT, 1 / SUPPORT), K),
        "Zipf(1.1)": (ranks**-1.1 / (ranks**-1.1).sum(), K),
        "some at k/n, one large value": (np.append(np.full(rare, at), 1 - rare * at), K),
        "two values, one just below k/n": (np.array([0.5001, 0.4999]), population // 2),
        "four values, two just below k/n": (
            np.array([0.5, 0.2502, 0.1249, 0.1249]),
            population // 8,
        ),
    }


def exposure_curve_at(probabilities: np.ndarray, k: int, population: int) -> float:
    """`Q(t)` at `t = k / n`; probabilities within rounding of `t` are not below it."""
    return float(probabilities[probabilities * population < k * (1 - 1e-12)].sum())


def paper_bounds(users: int, population: int, runs: int, seed: int) -> list[Row]:
    """One row per bound and law."""
    rows: list[Row] = []
    bounds: dict[str, tuple[Callable[..., Interval], bool]] = {
        "theorem 5, support known": (theorem5, True),
        "theorem 5, support unknown": (theorem5, False),
        "theorem 8 (replaced)": (theorem8, True),
        "proposition 9": (proposition9, True),
    }
    for law, (probabilities, k) in laws(population).items():
        rng = np.random.default_rng([seed, users, population, len(rows)])
        samples = rng.multinomial(users, probabilities, size=runs)
        spectra = [CountSpectrum.from_counts(counts) for counts in samples]
        for name, (bound, is_known) in bounds.items():
            support = probabilities.size if is_known else None
            truth = (
                statistical_exposure(probabilities, k=k, population=population)
                if bound is theorem8
                else exposure_curve_at(probabilities, k, population)
            )
            intervals = [
                bound(spectrum, k=k, population=population, delta=DELTA, support=support)
                for spectrum in spectra
            ]
            upper = np.array([interval.upper for interval in intervals])
            lower = np.array([interval.lower for interval in intervals])
            rows.append(_row(_question(name, users, population, law), truth, upper, lower))
    return rows


def joint_laws() -> dict[str, np.ndarray]:
    """Joint laws of two APIs as tables; the tails carry the exposure."""
    rare = 2000
    tail = np.append([0.5, 0.3], np.full(rare, 0.2 / rare))
    heads = np.array([0.5, 0.3, 0.2])
    diagonal = np.full((60, 60), 0.1 / 3540)
    np.fill_diagonal(diagonal, 0.9 / 60)
    return {
        "one API with a tail of 20 %": tail[:, np.newaxis],
        "tail, independent of three values": np.outer(tail, heads),
        "60 x 60, 10 % off the diagonal": diagonal,
    }


def composition(users: int, population: int, runs: int, seed: int) -> list[Row]:
    """One row per joint law: the limit from samples of the marginals against the joint exposure."""
    rows: list[Row] = []
    for law, table in joint_laws().items():
        rng = np.random.default_rng([seed, users, population, len(rows), 1])
        joint = table.ravel()
        truth = statistical_exposure(joint, k=K, population=population)
        upper = np.empty(runs)
        for run in range(runs):
            counts = rng.multinomial(users, joint).reshape(table.shape)
            marginals = [counts.sum(axis=1), counts.sum(axis=0)][: 2 if table.shape[1] > 1 else 1]
            spectra = [CountSpectrum.from_counts(marginal) for marginal in marginals]
            bound = composition_from_sample(
                spectra, k=K, population=population, delta=DELTA, rng=rng
            )
            upper[run] = bound.upper
        question = _question("composition", users, population, law)
        rows.append(_row(question, truth, upper, np.zeros(runs)))
    return rows


def cohort_laws(population: int) -> dict[str, list[np.ndarray]]:
    """Probabilities `p_cv` of the values within each cohort, by the name of the law."""
    shares = np.arange(1.0, 31) ** -1.0
    shares /= shares.sum()
    at = K / population
    return {
        "30 cohorts, values at k/n": [_pieces(share, at) for share in shares],
        "30 cohorts, half of each at 2k/n": [
            np.append(_pieces(share / 2, 2 * at), share / 2) for share in shares
        ],
        "one large cohort, 100 of 0.3 %, all rare": [
            np.array([0.7]),
            *(_pieces(0.003, at / 10) for _ in range(100)),
        ],
        "every value its own cohort": [np.array([share]) for share in shares],
    }


def cohorts(users: int, population: int, runs: int, seed: int) -> list[Row]:
    """One row per law: runs in which the limit of any cohort is wrong."""
    limits = exposure_limits(users=users, k=K, population=population, delta=DELTA)
    rows: list[Row] = []
    for law, parts in cohort_laws(population).items():
        rng = np.random.default_rng([seed, users, population, len(rows), 2])
        exposures = [_exposure_of_cohort(part, population) for part in parts]
        missed = np.array([_missed_cohorts(limits, parts, exposures, rng) for _ in range(runs)])
        rows.append(
            _question("cohort limits", users, population, law)
            | {
                "truth": exposures[0],
                "upper_missed": float(missed[:, 0].mean()),
                "lower_missed": float(missed[:, 1].mean()),
                "mean_upper": float(missed[:, 2].mean()),
                "mean_lower": float(missed[:, 3].mean()),
            }
        )
    return rows


def _missed_cohorts(
    limits: Limits,
    parts: Sequence[np.ndarray],
    exposures: Sequence[float],
    rng: np.random.Generator,
) -> tuple[bool, bool, float, float]:
    """Whether any upper or lower limit is wrong in one sample; limits of the largest cohort."""
    probabilities = np.concatenate(parts)
    seen = rng.multinomial(limits.users, probabilities)
    ends = np.cumsum([part.size for part in parts])
    results = []
    for exposure, end, part in zip(exposures, ends, parts, strict=True):
        counts = seen[end - part.size : end]
        if counts.any():
            found = cohort_limits(limits, CountSpectrum.from_counts(counts))
            results.append((found.upper, found.lower, exposure))
    wrong_upper = any(upper < truth - 1e-12 for upper, _, truth in results)
    wrong_lower = any(lower > truth + 1e-12 for _, lower, truth in results)
    return wrong_upper, wrong_lower, *results[0][:2]


def _exposure_of_cohort(part: np.ndarray, population: int) -> float:
    exposed = part @ exposure_probability(part, k=K, population=population)
    return float(exposed / part.sum())


def _pieces(share: float, probability: float) -> np.ndarray:
    """Values of about this probability that sum to a share."""
    values = max(1, round(share / probability))
    return np.full(values, share / values)


def _row(question: Row, truth: float, upper: np.ndarray, lower: np.ndarray) -> Row:
    return question | {
        "truth": truth,
        "upper_missed": float(np.mean(upper < truth - 1e-12)),
        "lower_missed": float(np.mean(lower > truth + 1e-12)),
        "mean_upper": float(upper.mean()),
        "mean_lower": float(lower.mean()),
    }


def _question(bound: str, users: int, population: int, law: str) -> Row:
    return {"bound": bound, "users": users, "population": population, "law": law}


def table(rows: Sequence[Row]) -> str:
    """Markdown table: limits missed, then their means about the truth; a line a bound and law."""
    populations = sorted({int(str(row["population"])) for row in rows})
    missed = {
        (row["bound"], row["law"], row["population"]): (
            f"{percent(row['lower_missed'])} / {percent(row['upper_missed'])}; "
            f"{percent(row['mean_lower'])} < {percent(row['truth'])} < {percent(row['mean_upper'])}"
        )
        for row in rows
    }
    lines = [
        "| bound | law | " + " | ".join(f"n = {n:,}" for n in populations) + " |",
        "|---|---|" + "---|" * len(populations),
    ]
    for bound, law in dict.fromkeys((row["bound"], row["law"]) for row in rows):
        cells = [str(bound), str(law), *(missed[bound, law, n] for n in populations)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def percent(share: object) -> str:
    return f"{100 * float(str(share)):.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    for population in (arguments.users // 2, arguments.users, 20 * arguments.users):
        for part in (paper_bounds, composition, cohorts):
            rows += part(arguments.users, population, arguments.runs, arguments.seed)
    if arguments.markdown:
        arguments.markdown.write_text(table(rows), encoding="utf-8")
    json.dump({"delta": DELTA, "k": K, "runs": arguments.runs, "rows": rows}, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
