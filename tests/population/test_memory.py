from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.population import memory
from fpmonitor.population.memory import CodeTable, MemorySource, rank_keys

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum

tables = st.integers(1, 4).flatmap(
    lambda columns: st.lists(
        st.tuples(*[st.integers(0, 6)] * columns, st.integers(1, 5)), min_size=1, max_size=40
    )
)


def spectrum_by_hand(rows: list[tuple[int, ...]], places: tuple[int, ...]) -> dict[int, int]:
    """Count the rows one by one; the last entry of a row is its weight."""
    groups: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        groups[tuple(row[place] for place in places)] += row[-1]
    return dict(Counter(groups.values()))


def as_dict(spectrum: CountSpectrum) -> dict[int, int]:
    return dict(zip(spectrum.counts.tolist(), spectrum.values.tolist(), strict=True))


def source_of(rows: list[tuple[int, ...]]) -> MemorySource:
    *codes, weights = (np.array(column) for column in zip(*rows, strict=True))
    return MemorySource([f"api{place}" for place in range(len(codes))], codes, weights)


@settings(deadline=None, max_examples=80)
@given(tables)
def test_spectrum_of_every_set_equals_counting_by_hand(rows: list[tuple[int, ...]]) -> None:
    source = source_of(rows)
    columns = len(rows[0]) - 1
    for size in range(columns + 1):
        for places in combinations(range(columns), size):
            spectrum = source.spectrum([f"api{place}" for place in places])
            assert as_dict(spectrum) == spectrum_by_hand(rows, places)


@settings(deadline=None, max_examples=80)
@given(tables, st.sampled_from([1, 4, 1000]))
def test_spectra_of_many_sets_are_those_of_each(
    rows: list[tuple[int, ...]], rows_per_cell: int
) -> None:
    """By joint tables of some sets, whatever their room."""
    source = source_of(rows)
    sets = [
        apis for size in range(len(source.apis) + 1) for apis in combinations(source.apis, size)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_ROWS_PER_CELL", rows_per_cell)
        spectra = source.spectra([*sets, *reversed(sets)])
    expected = [as_dict(source.spectrum(apis)) for apis in sets]
    assert [*map(as_dict, spectra)] == [*expected, *reversed(expected)]


@settings(deadline=None, max_examples=80)
@given(tables, st.integers(1, 9))
def test_leading_columns_of_ordered_rows_are_merged_as_by_sorting(
    rows: list[tuple[int, ...]], cap: int
) -> None:
    table = source_of(rows).table
    ordered = table.merged(range(len(table.columns)))
    for columns in range(1, len(table.columns) + 1):
        fast, sorted_ = ordered.leading(columns, cap=cap), table.merged(range(columns), cap=cap)
        assert [*map(list, fast.columns)] == [*map(list, sorted_.columns)]
        assert fast.weights.tolist() == sorted_.weights.tolist()
        assert fast.cardinalities == sorted_.cardinalities


@pytest.mark.parametrize("size", [1, 2, 256, 257, 1 << 16, 1 << 32, (1 << 32) + 1, 1 << 62])
def test_the_smallest_type_holds_all_codes_and_can_be_added_to_keys(size: int) -> None:
    kind = memory.smallest_type(size)
    keys = np.zeros(1, dtype=np.int64)
    keys += np.array([size - 1]).astype(kind)
    assert keys.tolist() == [size - 1]
    assert kind.itemsize == {1: 1, 2: 1, 256: 1, 257: 2, 1 << 16: 2, 1 << 32: 4}.get(size, 8)


def test_merged_codes_that_pass_32_bits_make_keys_again() -> None:
    codes = np.array([1 << 39, 0, 1 << 39, 7])
    table = CodeTable((codes, codes % 2), ((1 << 39) + 1, 2), np.array([1, 2, 3, 4]))
    merged = table.merged([0, 1])
    assert merged.merged([1, 0]).weights.tolist() == [2, 4, 4]
    assert merged.sizes([0, 1]).tolist() == [2, 4, 4]


@pytest.mark.parametrize("vectors", [True, False])
def test_numbers_are_sorted_by_vectors_or_without(
    vectors: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "_has_fast_vectors", lambda: vectors)
    numbers = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, 5_000)
    expected = sorted(numbers.tolist())
    memory.sort_numbers(numbers)
    assert numbers.tolist() == expected


@settings(deadline=None, max_examples=40)
@given(tables)
def test_merging_rows_changes_no_spectrum(rows: list[tuple[int, ...]]) -> None:
    source = source_of(rows)
    kept = source.apis[: max(1, len(source.apis) - 1)]
    for fewer in (source.restricted(kept), source.selected(kept)):
        assert fewer.apis == kept
        assert fewer.users == source.users
        assert as_dict(fewer.spectrum(kept)) == as_dict(source.spectrum(kept))
    merged = source.restricted(kept).table
    assert len(merged.weights) == len({row[: len(kept)] for row in rows})


@pytest.mark.parametrize("columns", [60, 63, 64, 70, 130])
@pytest.mark.parametrize("sets", [1, 3])
def test_sets_of_many_columns_with_few_groups_are_counted(columns: int, sets: int) -> None:
    """Ranks in place of keys may be few although the columns could make 2^63 groups and more."""
    chance = np.random.default_rng(columns)
    kinds = chance.integers(0, 2, (300, columns))
    rows = kinds[chance.integers(0, 300, 4_000)]
    names = [f"api{place:03d}" for place in range(columns)]
    source = MemorySource(names, [*rows.T], np.ones(len(rows), dtype=np.int64))
    wanted = [tuple(names), tuple(names[1:]), tuple(names[:2])][:sets]
    for apis, spectrum in zip(wanted, source.spectra(wanted), strict=True):
        by_row = Counter(map(tuple, rows[:, [int(api[3:]) for api in apis]].tolist()))
        assert as_dict(spectrum) == dict(Counter(by_row.values()))


def test_key_that_passes_63_bits_is_not_wrapped() -> None:
    """Two tuples whose mixed-radix numbers agree modulo 2^64 must stay two groups."""
    rows, columns = 300, 12
    rng = np.random.default_rng(3)
    codes = [rng.permutation(rows) for _ in range(columns)]
    assert rows**columns > 1 << 64
    table = MemorySource([f"api{place:02d}" for place in range(columns)], codes).table
    places = list(range(columns))
    assert not table.fits(places)
    keys, size = table.keys(places)
    assert keys.min() >= 0
    assert keys.max() < size < 1 << memory.KEY_BITS
    assert table.sizes(places).tolist() == [1] * rows
    merged = table.merged(places)
    assert sorted(zip(*merged.columns, strict=True)) == sorted(zip(*codes, strict=True))


@pytest.mark.parametrize("greatest", [1, 9, 1 << 20])
@pytest.mark.parametrize("bits", [6, 41, 42, 43, 58, 59, 60, 61, 62, 63, 64, 65, 66, 80])
def test_plain_wide_and_overflowing_keys_give_the_same_groups(bits: int, greatest: int) -> None:
    """Keys of so many bits in all, and codes whose highest bits tell rows apart."""
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 4, (3, 1000))
    weights = rng.integers(1, greatest + 1, 1000)
    small = CodeTable(tuple(codes), (4, 4, 4), weights)
    cardinalities = (1 << bits // 3, 1 << bits // 3, 1 << bits - 2 * (bits // 3))
    spread = [np.array([0, 1, size // 2, size - 1]) for size in cardinalities]
    columns = tuple(values[column] for values, column in zip(spread, codes, strict=True))
    wide = CodeTable(columns, cardinalities, weights)
    expected = small.sizes([0, 1, 2])
    assert len(expected) == 64
    assert wide.sizes([0, 1, 2]).tolist() == expected.tolist()
    merged = wide.merged([0, 1, 2], cap=7)
    assert merged.weights.tolist() == np.minimum(expected, 7).tolist()
    for values, column, plain in zip(
        spread, merged.columns, small.merged([0, 1, 2]).columns, strict=True
    ):
        assert column.tolist() == values[plain].tolist()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.booleans())
def test_ranks_keep_the_order_of_keys(keys: list[int], wide: bool) -> None:
    ranks, count = rank_keys(np.array(keys), 1 << 40 if wide else 1001)
    distinct = sorted(set(keys))
    assert count == len(distinct)
    assert [distinct[rank] for rank in ranks] == keys


def test_codes_may_be_any_whole_numbers() -> None:
    source = MemorySource(["b", "a"], [[0, 2**62, 2**62, 7], [0, 0, 255, 256]])
    assert source.apis == ("a", "b")
    assert as_dict(source.spectrum(["b"])) == {1: 2, 2: 1}
    assert as_dict(source.spectrum(["a"])) == {1: 2, 2: 1}
    assert as_dict(source.spectrum(["a", "b", "a"])) == {1: 4}
    assert as_dict(source.spectrum([])) == {4: 1}


@pytest.mark.parametrize(
    ("apis", "codes", "weights"),
    [
        (["a", "a"], [[1], [1]], None),
        (["a"], [[1], [1]], None),
        (["a", "b"], [[1], [1, 2]], None),
        (["a"], [[]], None),
        (["a"], [[-1]], None),
        (["a"], [[0.5]], None),
        (["a"], [[[1]]], None),
        (["a"], [[1]], [0]),
        (["a"], [[1]], [1, 1]),
        (["a"], [[1, 1]], [2**53, 1]),
        (["a"], [np.array([2**64 - 1], dtype=np.uint64)], None),
    ],
)
def test_unusable_input_is_refused(
    apis: list[str], codes: list[list[int]], weights: list[int] | None
) -> None:
    with pytest.raises(InputError):
        MemorySource(apis, codes, weights)


def test_unknown_api_is_named() -> None:
    source = MemorySource(["canvas"], [[1, 2]])
    with pytest.raises(UnknownNameError, match="canvas"):
        source.spectrum(["canvass"])


def test_an_api_that_is_given_twice_makes_the_same_cohorts() -> None:
    source = MemorySource(("a", "b"), [[1, 1, 2, 2], [1, 2, 3, 3]])
    once, twice = (source.cohorts(given, ["b"]) for given in (["a"], ["a", "a"]))
    assert [each.codes for each in twice] == [each.codes * 2 for each in once] == [(0, 0), (1, 1)]
    found = [[each.spectrum.counts.tolist() for each in cohorts] for cohorts in (once, twice)]
    assert found[0] == found[1] == [[1], [2]]
