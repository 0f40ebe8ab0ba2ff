"""Errors of frequencies beside OpenDP, pure-ldp and multi-freq-ldpy, on the same users.

    python -P benchmarks/ldp_peers.py [--users 20000] [--values 50] [--rounds 5]

Prints JSON: for each epsilon and protocol the root mean squared error of the shares, in percent,
and its ratio to ours of the same run. All are cut at 0 and normalised, as multi-freq-ldpy does by
itself. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import opendp.prelude as dp
from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE
from pure_ldp.frequency_oracles import (
    DEClient,
    DEServer,
    HadamardResponseClient,
    HadamardResponseServer,
    LHClient,
    LHServer,
    UEClient,
    UEServer,
)

from fpmonitor.ldp.frequency import estimate_frequencies, estimate_from_reports
from fpmonitor.ldp.mechanisms import (
    LocalHash,
    RandomisedResponse,
    StochasticMatrix,
    hadamard_response,
    optimised_unary_encoding,
)
from fpmonitor.ldp.subsets import SubsetSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Estimate = Any  # users by value, epsilon -> shares


def ours(make: Callable[[int, float], Any], values: int) -> Estimate:
    rng = np.random.default_rng(1)

    def estimate(held: NDArray[np.int64], epsilon: float) -> Any:
        mechanism = make(values, epsilon)
        reports = mechanism.sample(held, rng)
        if isinstance(mechanism, StochasticMatrix):
            counts = np.bincount(reports, minlength=len(mechanism.probabilities))
            return estimate_from_reports(mechanism, counts)[0]
        return estimate_frequencies(mechanism, mechanism.support_counts(reports), len(held))

    return estimate


def pure(client: Any, server: Any, values: int, **options: Any) -> Estimate:
    def estimate(held: NDArray[np.int64], epsilon: float) -> Any:
        collected = server(epsilon, values, **options)
        if server is HadamardResponseServer:  # which tells its clients the hash functions
            sent = client(epsilon, values, collected.get_hash_funcs())
        else:
            sent = client(epsilon, values, **options)
        for value in held:
            collected.aggregate(sent.privatise(int(value) + 1))
        return np.array([collected.estimate(value + 1) for value in range(values)]) / len(held)

    return estimate


def multi(client: Any, aggregator: Any, values: int) -> Estimate:
    def estimate(held: NDArray[np.int64], epsilon: float) -> Any:
        reports = [client(int(value), values, epsilon) for value in held]
        unary = aggregator is UE.UE_Aggregator_MI
        return aggregator(reports, *(() if unary else (values,)), epsilon)

    return estimate


def opendp(values: int) -> Estimate:
    dp.enable_features("contrib")

    def estimate(held: NDArray[np.int64], epsilon: float) -> Any:
        own = 1 / (1 + (values - 1) * math.exp(-epsilon))
        randomise = dp.m.make_randomized_response(categories=list(range(values)), prob=own)
        reports = np.array([randomise(int(value)) for value in held])
        return estimate_frequencies(
            RandomisedResponse(values, epsilon), np.bincount(reports, minlength=values), len(held)
        )

    return estimate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--values", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    values = asked.values
    law = 1 / np.arange(1, values + 1)
    law /= law.sum()
    peers: dict[str, dict[str, Estimate]] = {
        "grr": {
            "fpmonitor": ours(RandomisedResponse, values),
            "opendp": opendp(values),
            "pure-ldp": pure(DEClient, DEServer, values),
            "multi-freq-ldpy": multi(GRR.GRR_Client, GRR.GRR_Aggregator_MI, values),
        },
        "oue": {
            "fpmonitor": ours(optimised_unary_encoding, values),
            "pure-ldp": pure(UEClient, UEServer, values, use_oue=True),
            "multi-freq-ldpy": multi(UE.UE_Client, UE.UE_Aggregator_MI, values),
        },
        "lh": {
            "fpmonitor": ours(LocalHash, values),
            "pure-ldp": pure(LHClient, LHServer, values, use_olh=True),
            "multi-freq-ldpy": multi(LH.LH_Client, LH.LH_Aggregator_MI, values),
        },
        "ss": {
            "fpmonitor": ours(SubsetSelection, values),
            "multi-freq-ldpy": multi(SS.SS_Client, SS.SS_Aggregator_MI, values),
        },
        "hr": {
            "fpmonitor": ours(hadamard_response, values),
            "pure-ldp": pure(HadamardResponseClient, HadamardResponseServer, values),
        },
    }
    found = []
    for epsilon in (0.5, 1.0, 2.0):
        for protocol, makers in peers.items():
            errors: dict[str, list[float]] = {name: [] for name in makers}
            for round_number in range(asked.rounds):
                rng = np.random.default_rng(round_number)
                held = rng.choice(values, asked.users, p=law)
                true = np.bincount(held, minlength=values) / asked.users
                for name, estimate in makers.items():
                    shares = np.clip(estimate(held, epsilon), 0, None)
                    missed = shares / shares.sum() - true
                    errors[name].append(float(np.mean(missed**2)))
            rooted = {name: math.sqrt(np.mean(all_of)) for name, all_of in errors.items()}
            found.append(
                {"epsilon": epsilon, "protocol": protocol}
                | {name: round(100 * error, 4) for name, error in rooted.items()}
                | {f"{name}, ratio": round(error / rooted["fpmonitor"], 3)
                   for name, error in rooted.items() if name != "fpmonitor"}
            )  # fmt: skip
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
