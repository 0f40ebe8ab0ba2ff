from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.decide.search import Sought
from fpmonitor.decide.utility import recommend, weight_bound
from fpmonitor.errors import InputError


def test_greatest_weight_wins_then_more_apis_then_the_alphabet() -> None:
    allow = [("a", "b"), ("c",), ("d", "e")]
    assert recommend(allow, weights={"c": 5}) == ("c",)
    assert recommend(allow, weights={"c": 2}) == ("a", "b")
    assert recommend([("d", "e"), ("a", "b")]) == ("a", "b")


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), 1e308])
def test_weights_must_be_finite_and_not_negative(weight: float) -> None:
    with pytest.raises(InputError, match="weight of a"):
        recommend([("a",)], weights={"a": weight})
    with pytest.raises(InputError, match="weight of a"):
        weight_bound(["a"], [], Sought(weights={"a": weight}))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_bound_is_the_greatest_weight_that_avoids_the_refused_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    apis = "abcdef"
    refused = [
        tuple(rng.choice(list(apis), rng.integers(1, 4), replace=False))
        for _ in range(rng.integers(0, 6))
    ]
    weights = {api: float(rng.integers(0, 5)) for api in apis}
    must = set(rng.choice(list(apis), rng.integers(0, 2), replace=False))
    open_sets = [
        chosen
        for size in range(len(apis) + 1)
        for chosen in combinations(apis, size)
        if must <= set(chosen) and not any(set(chosen) >= set(members) for members in refused)
    ]
    greatest = max((sum(weights[api] for api in chosen) for chosen in open_sets), default=0.0)
    assert weight_bound(apis, refused, Sought(weights=weights, must=must)) == pytest.approx(
        greatest
    )


def test_bound_without_refused_sets_is_the_weight_of_all() -> None:
    assert weight_bound(["a", "b"], [], Sought(weights={"b": 2.5})) == 3.5


@pytest.mark.long
def test_bound_errs_high_when_time_is_short() -> None:
    apis = [f"api{place:02d}" for place in range(40)]
    rng = np.random.default_rng(1)
    refused = [tuple(rng.choice(apis, 3, replace=False)) for _ in range(2000)]
    short = weight_bound(apis, refused, seconds=0.0)
    assert weight_bound(apis, refused[:200]) <= short <= 40
