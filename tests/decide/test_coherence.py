"""Lists of a decision that contradict each other, or leave a set open, are found."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpmonitor.answers.spectra import _other_numbers
from fpmonitor.decide import coherence
from fpmonitor.decide.coherence import TooManyStepsError, contradiction, uncovered
from fpmonitor.decide.credible import _lists
from fpmonitor.decide.files import otherwise
from fpmonitor.decide.search import largest
from fpmonitor.population.levels import level_words
from tests.decided import component, decided

ELEMENTS = "abcdef"
SETS = st.lists(st.frozensets(st.sampled_from(ELEMENTS)), max_size=8)


def every_set() -> list[frozenset[str]]:
    return [
        frozenset(apis)
        for size in range(len(ELEMENTS) + 1)
        for apis in combinations(ELEMENTS, size)
    ]


@given(allowed=SETS, refused=SETS)
def test_a_set_is_left_open_exactly_where_looking_at_all_sets_finds_one(
    allowed: list[frozenset[str]], refused: list[frozenset[str]]
) -> None:
    still_open = [
        apis
        for apis in every_set()
        if not any(apis <= each for each in allowed) and not any(each <= apis for each in refused)
    ]
    found = uncovered(ELEMENTS, allowed, refused)
    assert (found in still_open) if still_open else found is None


@given(allowed=SETS, block=SETS, undecided=SETS, recommended=st.frozensets(st.sampled_from("abcd")))
def test_lists_contradict_each_other_exactly_where_sets_of_theirs_do(
    allowed: list[frozenset[str]],
    block: list[frozenset[str]],
    undecided: list[frozenset[str]],
    recommended: frozenset[str],
) -> None:
    refused = [*block, *undecided]
    wrong = (
        not all(refused)
        or any(each <= apis for each in refused for apis in allowed)
        or (recommended and not any(recommended <= apis for apis in allowed))
    )
    lists = {"allow": allowed, "block": block, "undecided": undecided}
    assert bool(contradiction(lists, recommended)) == bool(wrong)


def test_lists_that_take_too_long_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coherence, "_MOST_STEPS", 3)
    pairs = list(combinations(range(12), 2))
    names = [str(i) for i in range(12)]
    with pytest.raises(TooManyStepsError):
        uncovered(names, [{str(i)} for i in range(12)], [{str(a), str(b)} for a, b in pairs])


def test_lists_of_thousands_of_apis_end_in_an_answer() -> None:
    """Each API that divides the sets once more is a call within another: Python has 1,000."""
    names = [f"a{place:04d}" for place in range(2_000)]
    alone = decided(names, block=[(name,) for name in names])
    assert [found.reason for found in _lists(alone)] == [""]
    in_pairs = decided(names, block=zip(names[::2], names[1::2], strict=True))
    assert [found.reason for found in _lists(in_pairs)] == ["too long to compare"]


def test_a_number_of_a_list_that_differs_is_found_and_true_is_no_number() -> None:
    """Lists that are alike are compared whole: a proof has some ten thousand numbers."""
    for other in ([1, 2], [1.0, 2.0], [1, 2.5], [True, 2], [1], [1, "2"]):
        alike = other in ([1, 2], [1.0, 2.0]) and other[0] is not True
        assert alike == (not [*otherwise({"a": [1, 2]}, {"a": other})]), other
        assert alike == (not [*_other_numbers([1, 2], other, "proof")]), other


def test_a_list_of_what_was_never_searched_is_judged_without_it() -> None:
    decision = decided("abc", allow=["ab"], block=["c"], never="a")
    assert [found.reason for found in _lists(decision)] == [""]


def test_a_gate_walks_through_no_more_level_vectors_than_an_audit_has_time_for() -> None:
    """It answers in a tenth of a second, whatever a hostile file names."""
    components = tuple(component(name, 9) for name in "abcd")
    finest = level_words(components, (9, 9, 9, 9))
    decision = decided("abcd", allow=[finest], recommended=finest, components=components)
    assert [found.reason for found in _lists(decision)] == [""]
    assert [found.reason for found in _lists(decision, 3_000)] == ["too long to compare"]


def test_a_name_that_a_file_holds_twice_in_a_set_counts_once() -> None:
    """Its bit, added twice, is that of the next name: a set that nobody tested."""
    assert largest([("a", "a", "c"), ("b", "d")]) == [("a", "c"), ("b", "d")]


def test_lists_of_more_names_and_sets_than_memory_holds_are_refused() -> None:
    alone = [(str(place),) for place in range(60_000)]
    said = contradiction({"allow": alone, "block": [], "undecided": []}, ())
    assert said == "its lists are too long to be compared"
