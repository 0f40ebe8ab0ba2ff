"""An independent program proves the certificates in ball arithmetic, and no false one."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.estimate.looks import decision_criteria

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("flint")
checker = pytest.importorskip("tests.estimate.certificate_checker")

SIZES = [  # users, population, k, budget, universe
    (50, 50, 2, 0.2, 4),
    (200, 10**10, 2, 0.5, 2),
    (1_000, 1_000, 5, 0.05, 1),
    (10_000, 10_000, 10, 0.05, 1000),
    (10_000, 10**6, 5, 0.01, 1000),
    (100_000, 100_000, 10, 0.05, 8),
    (100_000, 10**6, 50, 0.01, 20),
    (100_000, 10**7, 50, 0.05, 1000),
    (10**6, 10**6, 50, 0.02, 1000),
    (10**6, 10**8, 5, 0.05, 1000),
]


def proofs(size: tuple[int, int, int, float, int]) -> dict[str, dict[str, Any]]:
    users, population, k, budget, universe = size
    criteria = decision_criteria(
        users=users, k=k, population=population, budget=budget, delta=0.05, universe=universe
    )
    written = json.dumps(criteria.proofs(min(universe, 12)), allow_nan=False)
    content: dict[str, dict[str, Any]] = json.loads(written)
    assert set(content) == {"allow", "block"}
    return content


@pytest.mark.parametrize("size", SIZES)
def test_every_certificate_is_proved_by_another_program(
    size: tuple[int, int, int, float, int],
) -> None:
    for name, content in proofs(size).items():
        assert checker.check(content) == "proved", name


def _limit(content: dict[str, Any]) -> None:
    for size in range(1, len(content["limits"])):
        content["limits"][size] *= 1 - 1e-4 * content["sign"]


def _weight(content: dict[str, Any]) -> None:
    content["weights"][2] *= 1 + 0.02 * content["sign"]


def _first_weight(content: dict[str, Any]) -> None:
    content["phi"][0] *= 1.05


def _line(content: dict[str, Any]) -> None:
    loose = abs(content["intercept"]) + abs(content["slope"])
    content["intercept"] -= 1e-3 * loose
    for size in range(1, len(content["limits"])):
        content["limits"][size] -= content["sign"] * 1e-3 * loose / content["scale"]


def _clock(content: dict[str, Any]) -> None:
    content["clock"]["log_factor"] += 1e-3


def _share(content: dict[str, Any]) -> None:
    content["clock"]["shares"][0] *= 1.01


def _users(content: dict[str, Any]) -> None:
    content["users"] = round(content["users"] * 0.95)


def _universe(content: dict[str, Any]) -> None:
    content["universe"] += 1


def _delta(content: dict[str, Any]) -> None:
    content["delta"] *= 0.999


def _threshold(content: dict[str, Any]) -> None:
    """A question that is harder to pass (allow) or to fail (block)."""
    content["k"] -= content["sign"] * max(1, content["k"] // 20)


MUTATIONS: list[Callable[[dict[str, Any]], None]] = [
    _limit,
    _weight,
    _first_weight,
    _line,
    _clock,
    _share,
    _users,
    _universe,
    _delta,
    _threshold,
]


@pytest.mark.parametrize("mutate", MUTATIONS)
@pytest.mark.parametrize("size", [SIZES[3], SIZES[6]])
def test_no_changed_certificate_is_proved(
    mutate: Callable[[dict[str, Any]], None], size: tuple[int, int, int, float, int]
) -> None:
    for name, content in proofs(size).items():
        changed = copy.deepcopy(content)
        mutate(changed)
        assert checker.check(changed).startswith("not proved"), name


def test_a_proof_gives_the_verdict_from_the_spectrum_alone() -> None:
    criteria = decision_criteria(users=10_000, k=10, population=10_000, budget=0.05, delta=0.05)
    content: dict[str, Any] = criteria.proofs(3)["allow"]
    points = checker.score(content["weights"], {"1": 100, "9900": 1})
    assert points <= content["limits"][2]
    points = checker.score(content["weights"], {"1": 600, "9400": 1})
    assert points > content["limits"][2]
