"""Local differential privacy: figures and tables of the source paper, and speed.

    python benchmarks/ldp.py [--output FOLDER] [--quick]

Prints JSON. With `--output`, writes every reproduction as CSV, and the figures as SVG too.
Source: Lopuhaä-Zwakenberg, Škorić and Li (2019), "Information-theoretic metrics for Local
Differential Privacy protocols", arXiv:1910.07826.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.ldp.finite import reports_information
from fpmonitor.ldp.mechanisms import (
    LocalHash,
    RandomisedResponse,
    StochasticMatrix,
    mixture,
    optimised_unary_encoding,
)
from fpmonitor.ldp.metrics import (
    asymptotic_utility,
    average_privacy,
    report_information,
    worst_case_privacy,
)
from fpmonitor.ldp.planner import PROTOCOLS, trade_off_curves
from fpmonitor.ldp.priors import DirichletPrior
from fpmonitor.render.charts import Series, line_chart
from fpmonitor.render.svg import standalone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.ldp.mechanisms import Mechanism, PureMechanism

Rows = list[dict[str, object]]
FIGURE_2_VALUES = [*range(2, 21), 25, 30, 40, 50, 75, 100]


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def figure_2() -> tuple[Rows, dict[str, str]]:
    """Average and worst-case privacy by number of values, at epsilon 2."""
    rows: Rows = []
    for values in FIGURE_2_VALUES:
        prior = DirichletPrior.jeffreys(values)
        row: dict[str, object] = {"values": values}
        for name, protocol in PROTOCOLS.items():
            row[name] = average_privacy(protocol(values, 2.0), prior)
        row["worst case"] = worst_case_privacy(RandomisedResponse(values, 2.0))
        rows.append(row)
    lines = [
        Series(name=name, x=FIGURE_2_VALUES, y=[float(str(row[name])) for row in rows])
        for name in (*PROTOCOLS, "worst case")
    ]
    chart = line_chart(
        lines, title="Privacy at epsilon = 2", x_label="values", y_label="share of entropy left"
    )
    return rows, {"": standalone(chart)}


def figure_3() -> tuple[Rows, dict[str, str]]:
    """Asymptotic utility against average (a) and worst-case privacy (b), three values."""
    epsilons = [float(epsilon) for epsilon in np.geomspace(0.1, 10, 40)]
    curves = {
        name: curve
        for name, curve in trade_off_curves(DirichletPrior.jeffreys(3), epsilons).items()
        if name in PROTOCOLS
    }
    rows: Rows = [
        {
            "mechanism": name,
            "epsilon": epsilon,
            "average_privacy": privacy,
            "worst_case_privacy": math.exp(-epsilon),
            "asymptotic_utility": utility,
        }
        for name, (privacies, utilities) in curves.items()
        for epsilon, privacy, utility in zip(epsilons, privacies, utilities, strict=True)
    ]
    worst = [math.exp(-epsilon) for epsilon in epsilons]
    panels = {
        "a": ("average privacy", curves),
        "b": ("worst-case privacy", {name: (worst, y) for name, (_, y) in curves.items()}),
    }
    return rows, {
        panel: standalone(
            line_chart(
                [Series(name=name, x=x, y=y) for name, (x, y) in lines.items()],
                title=f"Trade-off, three values ({panel})",
                x_label=label,
                y_label="asymptotic utility, nats",
            )
        )
        for panel, (label, lines) in panels.items()
    }


def table_4_1() -> Rows:
    """Every information that Table 4.1 relates, for two users, nats."""
    prior, users = DirichletPrior.jeffreys(3), 2
    rows: Rows = []
    for name, protocol in PROTOCOLS.items():
        mechanism = protocol(3, 1.0)
        found = reports_information(mechanism, prior, users, rng=generator())
        given_law = users * report_information(mechanism, prior)
        rows.append(
            {
                "mechanism": name,
                "I(Y;P)": found.of_distribution,
                "I(Y;T)": found.of_tally,
                "I(Y;T|P)": found.of_tally - found.of_distribution,
                "I(Y;X)": found.of_distribution + given_law,
                "I(Y;X|T)": found.of_distribution + given_law - found.of_tally,
                "I(Y;X|P)": given_law,
            }
        )
    return rows


def remark_7_9() -> Rows:
    """Two mechanisms that each blur another pair of values, and their mixture, as printed."""
    prior = DirichletPrior((1.0, 1.0, 1.0))
    first = StochasticMatrix(np.array([[3, 0, 0], [0, 2, 1], [0, 1, 2]]) / 3)
    second = StochasticMatrix(first.matrix()[::-1, ::-1])
    named: dict[str, Mechanism] = {
        "first": first,
        "second": second,
        "mixture": mixture([first, second], [1, 1]),
    }
    return [
        {
            "mechanism": name,
            "average_privacy": average_privacy(mechanism, prior),
            "asymptotic_utility": asymptotic_utility(mechanism, prior, rng=generator()).value,
        }
        for name, mechanism in named.items()
    ]


def corollary_6_8(*, quick: bool) -> tuple[Rows, dict[str, str]]:
    """Digit utility minus log(n) / 2, towards its limit: fast for a smooth prior, else slowly."""
    rows: Rows = []
    lines = []
    sizes = [1, 2, 5, 10, 20, 50, 100, 200] + ([] if quick else [500])
    for name, prior in (
        ("Jeffreys", DirichletPrior.jeffreys(2)),
        ("Dirichlet(2,2)", DirichletPrior((2.0, 2.0))),
    ):
        mechanism = RandomisedResponse(2, 2.0)
        limit = asymptotic_utility(mechanism, prior, rng=generator()).value
        gaps = []
        for users in sizes:
            found = reports_information(mechanism, prior, users, rng=generator())
            gaps.append(found.digit_utility(prior) - math.log(users) / 2 - limit)
            rows.append({"prior": name, "users": users, "limit": limit, "gap": gaps[-1]})
        lines.append(Series(name=name, x=[math.log10(n) for n in sizes], y=gaps))
    chart = line_chart(
        lines,
        title="Digit utility minus its limit",
        x_label="log10 of the users",
        y_label="gap, nats",
    )
    return rows, {"": standalone(chart)}


def seconds(action: Callable[[], object], rounds: int = 3) -> float:
    """Least wall seconds of an action."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def simulated_privacy(mechanism: Mechanism, prior: DirichletPrior, draws: int) -> float:
    """Average privacy by plain Monte Carlo: the baseline."""
    matrix = mechanism.matrix()
    laws = prior.sample(draws, generator())
    chances = laws @ matrix.T
    entropy = -(chances * np.log(chances)).sum(axis=1).mean()
    given_value = -(matrix * np.log(matrix)).sum(axis=0) @ prior.mean
    return float(1 - (entropy - given_value) / prior.value_entropy_given_distribution)


def speed() -> dict[str, object]:
    """Seconds, and ratios to the baselines of the same run."""
    prior, large = DirichletPrior.jeffreys(100), DirichletPrior.jeffreys(1000)
    codes = generator().integers(12, size=1_000_000)
    rng = generator()
    dense = rng.random((1000, 1000))
    matrix = StochasticMatrix(dense / dense.sum(axis=0))
    square = StochasticMatrix(matrix.matrix()[:100, :100] / matrix.matrix()[:100, :100].sum(axis=0))
    simulation = seconds(lambda: simulated_privacy(RandomisedResponse(1000, 1.0), large, 1000), 1)
    uniform = seconds(lambda: generator().random(1_000_000))
    found = {
        "S_mu, randomised response, 1,000 values": seconds(
            lambda: average_privacy(RandomisedResponse(1000, 1.0), large)
        ),
        "S_mu, OUE, 1,000 values": seconds(
            lambda: average_privacy(optimised_unary_encoding(1000, 1.0), large)
        ),
        "S_mu, any matrix of 1,000 x 1,000": seconds(lambda: average_privacy(matrix, large), 1),
        "U_as, any matrix of 100 x 100": seconds(
            lambda: asymptotic_utility(square, prior, rng=generator())
        ),
        "U_as, OUE, 100 values": seconds(
            lambda: asymptotic_utility(optimised_unary_encoding(100, 1.0), prior, rng=generator()),
            1,
        ),
    }
    samplers: dict[str, PureMechanism | StochasticMatrix] = {
        "randomised response": RandomisedResponse(12, 1.0),
        "OUE": optimised_unary_encoding(12, 1.0),
        "local hashing into 4": LocalHash(12, 1.0, 4),
        "matrix": StochasticMatrix(RandomisedResponse(12, 1.0).matrix()),
    }
    sampled = {name: seconds(partial(m.sample, codes, rng)) for name, m in samplers.items()}
    return {
        "baselines": {
            "plain Monte Carlo of S_mu, 1,000 values, 1,000 draws, seconds": simulation,
            "a million uniform random numbers of numpy, seconds": uniform,
        },
        "metrics": {n: {"seconds": s, "ratio": s / simulation} for n, s in found.items()},
        "a million reports on 12 values": {
            n: {"seconds": s, "ratio": s / uniform} for n, s in sampled.items()
        },
    }


def write(
    folder: Path, name: str, rows: Sequence[dict[str, object]], charts: dict[str, str]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for panel, chart in charts.items():
        (folder / f"{name}{panel}.svg").write_text(chart, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    reproductions: dict[str, tuple[Rows, dict[str, str]]] = {
        "figure-2": figure_2(),
        "figure-3": figure_3(),
        "table-4-1": (table_4_1(), {}),
        "remark-7-9": (remark_7_9(), {}),
        "corollary-6-8": corollary_6_8(quick=arguments.quick),
    }
    if arguments.output is not None:
        for name, (rows, charts) in reproductions.items():
            write(arguments.output, name, rows, charts)
    document = {
        "speed": speed(),
        **{name: rows for name, (rows, _) in reproductions.items() if name != "figure-3"},
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
