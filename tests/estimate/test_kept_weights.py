"""Weights of designs that are kept: where they are damaged, no number rests on them."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.estimate import kept_weights
from fpmonitor.estimate.poisson import ExposureFunction, PoissonLaws, poisson_laws

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@pytest.fixture
def laws(monkeypatch: pytest.MonkeyPatch) -> PoissonLaws:
    monkeypatch.setattr(kept_weights, "_KNOWN", OrderedDict())
    return poisson_laws(500.0, ExposureFunction(10, 1000), 0.05)


def found(laws: PoissonLaws, budget: float = 0.05, *, monotone: bool = True) -> tuple[bool, float]:
    """Whether a search was made, and the first of the weights."""
    size, searched = laws.starts.size - 1, []

    def search() -> NDArray[np.float64]:
        searched.append(True)
        return np.linspace(2.0, 1.0, size)

    weights = kept_weights.weights_of(search, laws, -1, budget, 5.0, 0.0, monotone=monotone)
    return bool(searched), float(weights[0])


def in_a_new_process(text: str, monkeypatch: pytest.MonkeyPatch, version: str = "1") -> None:
    monkeypatch.setattr(kept_weights, "_KNOWN", OrderedDict())
    kept_weights.take_in(text, version)


def test_only_the_search_that_found_them_takes_kept_weights(
    laws: PoissonLaws, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(laws) == (True, 2.0)
    text = kept_weights.kept("1")
    in_a_new_process(text, monkeypatch)
    assert kept_weights.kept("1") == text
    assert found(laws) == (False, 2.0)
    for other in (
        poisson_laws(500.0, ExposureFunction(11, 1000), 0.05),
        replace(laws, rates=laws.rates * (1 + 1e-15)),
        replace(laws, exposure={**laws.exposure, -1: laws.exposure[-1] * (1 - 1e-15)}),
    ):
        assert found(other)[0]
    assert found(laws, budget=0.05 + 1e-15)[0]
    assert found(laws, monotone=False)[0]
    in_a_new_process(text, monkeypatch, "2")
    assert found(laws)[0]
    in_a_new_process(text, monkeypatch)
    monkeypatch.setattr(kept_weights, "_FORM", "another")
    assert found(laws)[0]


def test_those_used_last_are_kept_and_no_more(
    laws: PoissonLaws, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service is asked new questions for ever."""
    monkeypatch.setattr(kept_weights, "_MOST", 3)
    for budget in (0.01, 0.02, 0.03, 0.01, 0.04):
        found(laws, budget)
    kept = json.loads(kept_weights.kept("1"))["weights"]
    assert len(kept) == 3
    assert [found(laws, budget)[0] for budget in (0.01, 0.03, 0.04, 0.02)] == [False] * 3 + [True]


def _raised(weights: list[float]) -> list[float]:
    return [*weights[:-1], 3.0]


def _negative(weights: list[float]) -> list[float]:
    return [*weights[:-1], -1.0]


def _cut(weights: list[float]) -> list[float]:
    return weights[:-1]


def _no_number(weights: list[float]) -> list[float]:
    return [float("nan"), *weights[1:]]


@pytest.mark.each
@pytest.mark.parametrize("change", [_raised, _negative, _cut, _no_number])
def test_weights_that_would_break_what_rests_on_their_form_are_searched_for_again(
    laws: PoissonLaws,
    change: Callable[[list[float]], list[float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even where somebody has written them with their digest."""
    found(laws)
    weights = {
        key: tuple(change(known))
        for key, known in json.loads(kept_weights.kept("1"))["weights"].items()
    }
    monkeypatch.setattr(kept_weights, "_KNOWN", OrderedDict(weights))
    in_a_new_process(kept_weights.kept("1"), monkeypatch)
    assert found(laws) == (True, 2.0)
