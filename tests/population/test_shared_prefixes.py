"""Sets that are grouped together have the groups that each has alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fpmonitor.population import shared_prefixes
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.shared_prefixes import PrefixTree
from fpmonitor.spectrum import CountSpectrum

CODES = {"a": 2, "b": 3, "c": 40, "d": 7, "e": 900}


@pytest.mark.parametrize("merged_for", [1, 10, 100])
def test_groups_of_many_sets_are_those_of_each(
    merged_for: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_prefixes, "_MERGED_FOR", merged_for)
    rng, users = np.random.default_rng(4), 6000
    model = rng.integers(0, 90, users)
    columns = {
        api: np.where(rng.random(users) < 0.8, model % most, rng.integers(0, most, users))
        for api, most in CODES.items()
    }
    widths = {api: most.bit_length() + 1 for api, most in CODES.items()}
    sizes = range(1, len(CODES) + 1)
    sets = [apis for size in sizes for apis in itertools.combinations(CODES, size)]
    source = MemorySource([*CODES], list(columns.values()))
    found = {each.apis: each for each in PrefixTree(columns, sets).grouped(widths=widths)}
    assert {*found} == {*sets}
    for apis, groups in found.items():
        expected, told = source.spectrum(apis), CountSpectrum.from_counts(groups.sizes)
        assert np.array_equal(told.counts, expected.counts), apis
        assert np.array_equal(told.values, expected.values), apis
        keys = np.zeros(users, dtype=np.int64)
        for api in groups.order:
            keys = keys << widths[api] | columns[api]
        assert {*groups.order} == {*apis}
        named, users_of = np.unique(keys, return_counts=True)
        assert np.array_equal(named, groups.keys)
        assert np.array_equal(users_of, groups.sizes)


def test_sets_that_hardly_begin_alike_are_not_counted_together() -> None:
    rng = np.random.default_rng(5)
    columns = {api: rng.integers(0, most, 100) for api, most in CODES.items()}
    sizes = range(1, len(CODES) + 1)
    sets = [apis for size in sizes for apis in itertools.combinations(CODES, size)]
    assert PrefixTree(columns, sets).pays
    assert not PrefixTree(columns, [tuple(CODES)]).pays
    assert [*PrefixTree(columns, []).grouped()] == []
