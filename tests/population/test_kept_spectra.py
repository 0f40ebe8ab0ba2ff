"""Spectra that follow the users are those of the rows of now, whatever came, went or changed."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.errors import InputError
from fpmonitor.population import group_tables
from fpmonitor.population.group_tables import GroupTables, PackedGroups
from fpmonitor.population.kept_spectra import KeptSpectra
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

APIS = [f"a{i:02}" for i in range(24)]
SETS = [("a00",), ("a01", "a05", "a23"), tuple(APIS[:9]), tuple(APIS)]  # the last has 100 bits


def check(
    kept: KeptSpectra, rows: NDArray[np.int64], sets: Iterable[tuple[str, ...]] = SETS
) -> None:
    columns = {api: rows[:, place] for place, api in enumerate(APIS)}
    source = MemorySource(APIS, list(columns.values()))
    for apis, spectrum in kept.follow(columns, sets).items():
        expected = source.spectrum(apis)
        assert spectrum.counts.tolist() == expected.counts.tolist(), apis
        assert spectrum.values.tolist() == expected.values.tolist(), apis


@pytest.mark.parametrize(("small", "most"), [(8, 1 << 30), (4096, 1 << 30), (4096, 450_000)])
def test_spectra_follow_users_who_come_change_and_go(
    small: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_tables, "_SMALL", small)
    kept, rng = KeptSpectra(most), np.random.default_rng(1)
    sizes = np.r_[2, 3, 2, 3, rng.integers(4, 9, 20)]
    rows = np.minimum(rng.geometric(0.7, (9000, 24)) - 1, sizes)
    check(kept, rows)
    groups = dict(kept._groups)
    assert len(groups) == len(SETS)
    assert kept._packs == (most < 1 << 30)
    for batch in range(6):
        few = rng.integers(0, len(rows), 60)
        rows = rows.copy()
        rows[few] = np.minimum(rng.geometric(0.5, (60, 24)), sizes + (batch == 2))
        if batch == 3:  # somebody was forgotten: all behind him stand elsewhere
            rows = np.delete(rows, len(rows) - 200, axis=0)
        rows = np.r_[rows, rng.integers(0, 3, (40, 24)), rows[:5]]
        check(kept, rows)
        assert kept._groups == groups, "counted from nothing"
    check(kept, rows[::-1])  # of another order, all is counted anew
    assert kept._groups != groups


def test_codes_that_outgrow_their_keys_are_counted_anew() -> None:
    kept, rows = KeptSpectra(), np.zeros((200, 24), dtype=np.int64)
    rows[:, 3] = np.arange(200) % 7
    check(kept, rows)
    for code in (1, 2, 15, 16, 4000, 2**31 - 1):
        rows = rows.copy()
        rows[3] = code
        check(kept, rows)
    rows = rows.copy()
    rows[4] = 2**31
    with pytest.raises(InputError, match="below 2"):
        check(kept, rows)


def test_a_set_that_is_new_or_was_left_out_is_counted_of_now() -> None:
    kept, rng = KeptSpectra(), np.random.default_rng(2)
    rows = rng.integers(0, 3, (500, 24))
    for sets in (SETS[:1], SETS[1:], SETS, [], SETS[:2]):
        rows = np.r_[rows, rng.integers(0, 4, (7, 24))]
        check(kept, rows, sets)


def test_columns_of_other_apis_are_other_users() -> None:
    kept = KeptSpectra()
    tables: list[Mapping[str, NDArray[np.int64]]] = [
        {"a": np.array([1, 1, 2])},
        {"a": np.array([1, 1, 2]), "b": np.array([1, 2, 3])},
    ]
    for columns in tables:
        found = kept.follow(columns, [("a",)])[("a",)]
        assert (found.counts.tolist(), found.values.tolist()) == ([1, 2], [1, 1])


@pytest.mark.long
def test_kept_spectra_beside_others_share_their_room() -> None:
    rows = np.arange(600_000).reshape(100_000, 6)
    columns = {f"a{place}": rows[:, place] for place in range(6)}
    sets = [(api,) for api in columns]  # of as many groups as users each
    plain = KeptSpectra()
    plain.follow(columns, sets[:1])
    most = 3 * plain.size
    first = KeptSpectra(most=most)
    second = KeptSpectra(most=most, beside=first)
    first.follow(columns, sets[:3])
    assert first.size == most
    assert {*second.follow(columns, sets)} == {*sets}
    assert second.size == 0
    first.follow(columns, sets[:2])
    second.follow(columns, sets)
    assert 0 < second.size < plain.size
    assert len(second._groups) == len(sets), "packed, all have room"


def test_what_is_kept_of_a_set_is_as_large_as_its_groups() -> None:
    users = 50_000
    columns = {f"a{place}": np.arange(users) % (place + 2) for place in range(40)}
    kept = KeptSpectra()
    tracemalloc.start()
    kept.follow(columns, [(api,) for api in columns])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 40 * 8 * users / 4  # and not a number for each user


def test_packed_groups_are_those_of_tables_whatever_their_keys_and_users() -> None:
    rng = np.random.default_rng(3)
    keys = np.unique(np.r_[0, rng.integers(0, 1 << 20, 500), rng.integers(0, 1 << 61, 500)])
    sizes = np.minimum(rng.geometric(0.001, len(keys)) * rng.integers(0, 2, len(keys)) + 1, 9000)
    tables, packed = (kind(keys.copy(), sizes.copy()) for kind in (GroupTables, PackedGroups))
    for _ in range(20):
        some = np.unique(np.r_[rng.choice(keys, 300), rng.integers(0, 1 << 61, 60)])
        at = np.minimum(keys.searchsorted(some), len(keys) - 1)
        held = np.where(keys[at] == some, sizes[at], 0)
        changes = np.maximum(rng.integers(-9, 9, len(some)) * rng.choice([1, 60], len(some)), -held)
        changes[rng.random(len(some)) < 0.2] *= 0
        changes = np.where(rng.random(len(some)) < 0.2, -held, changes)  # some go altogether
        some, changes = some[changes != 0], changes[changes != 0]
        for groups in (tables, packed):
            groups.change(some, changes)
        merged = dict(zip(keys.tolist(), sizes.tolist(), strict=True))
        for key, change in zip(some.tolist(), changes.tolist(), strict=True):
            merged[key] = merged.get(key, 0) + change
        keys = np.array(sorted(merged))
        sizes = np.array([merged[key] for key in keys.tolist()])
        expected = np.unique(sizes[sizes > 0], return_counts=True)
        for groups in (tables, packed):
            told = groups.spectrum()
            assert np.array_equal(told.counts, expected[0])
            assert np.array_equal(told.values, expected[1])
    assert packed.size < tables.size / 2
