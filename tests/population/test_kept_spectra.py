"""Spectra that follow the users are those of the rows of now, whatever came, went or changed."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.errors import InputError
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


def test_spectra_follow_users_who_come_change_and_go() -> None:
    kept, rng = KeptSpectra(), np.random.default_rng(1)
    sizes = np.r_[2, 3, 2, 3, rng.integers(4, 9, 20)]
    rows = np.minimum(rng.geometric(0.7, (9000, 24)) - 1, sizes)
    check(kept, rows)
    groups = dict(kept._groups)
    assert [*groups] == SETS[:3], "the last has no room in a key"
    for batch in range(6):
        few = rng.integers(0, len(rows), 60)
        rows = rows.copy()
        rows[few] = np.minimum(rng.geometric(0.5, (60, 24)), sizes + (batch == 2))
        if batch == 3:  # somebody was forgotten: all behind him stand elsewhere
            rows = np.delete(rows, len(rows) - 200, axis=0)
        rows = np.r_[rows, rng.integers(0, 3, (40, 24)), rows[:5]]
        check(kept, rows)
        assert all(kept._groups[apis] is groups[apis] for apis in groups), "counted from nothing"
    check(kept, rows[::-1])  # of another order, all is counted anew
    assert all(kept._groups[apis] is not groups[apis] for apis in groups)


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


def test_sets_without_room_are_counted_each_time() -> None:
    rows = np.arange(600_000).reshape(100_000, 6)
    columns = {f"a{place}": rows[:, place] for place in range(6)}
    sets = [(api,) for api in columns]  # of as many groups as users each
    plain = KeptSpectra()
    plain.follow(columns, sets[:1])
    kept = KeptSpectra(most=3 * plain.size)
    for _ in range(2):
        found = kept.follow(columns, sets)
        assert [spectrum.values.tolist() for spectrum in found.values()] == [[100_000]] * 6
        assert kept.size == 3 * plain.size


def test_what_is_kept_of_a_set_is_as_large_as_its_groups() -> None:
    users = 50_000
    columns = {f"a{place}": np.arange(users) % (place + 2) for place in range(40)}
    kept = KeptSpectra()
    tracemalloc.start()
    kept.follow(columns, [(api,) for api in columns])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 40 * 8 * users / 4  # and not a number for each user
