"""What `import fpmonitor` offers: names, their annotations, and exposure without a database."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import typing
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import fpmonitor as fp

if TYPE_CHECKING:
    from collections.abc import Iterator

# Made by others; what their methods name is for who writes an answer, and stays in its room.
INNER = {"ExposureIndex", "Population", "Result", "Windows"}
COUNTS = [400, 250, 90, 3, 1, 1]


def signatures(thing: Any) -> Iterator[Any]:
    """A function; or a class with its public methods and properties."""
    yield thing
    for name, member in vars(thing).items() if inspect.isclass(thing) else ():
        if not name.startswith("_") or name == "__init__":
            inner = getattr(member, "__func__", None) or getattr(member, "fget", member)
            function = inner.func if isinstance(inner, cached_property) else inner
            if inspect.isfunction(function):
                yield function


def classes_in(annotation: Any) -> Iterator[type]:
    """Classes of ours that an annotation names."""
    if inspect.isclass(annotation) and annotation.__module__.startswith("fpmonitor"):
        yield annotation
    yield from chain.from_iterable(map(classes_in, typing.get_args(annotation)))


def test_all_that_a_public_signature_names_is_exported() -> None:
    for name in fp.__all__:
        thing = getattr(fp, name)
        for function in signatures(thing):
            if function.__name__ in {"to_polars", "to_pandas"}:
                continue  # these are loaded for it alone
            for annotation in typing.get_type_hints(function).values():
                # The fields of a result are seen when there is one.
                made = dataclasses.is_dataclass(thing) and function.__name__ in {name, "__init__"}
                for named in () if made or name in INNER else classes_in(annotation):
                    assert getattr(fp, named.__name__) is named, (name, function)


def test_dir_lists_what_is_public() -> None:
    assert {name for name in dir(fp) if not name.startswith("_")} == set(fp.__all__)
    assert "__version__" in dir(fp)
    for name in fp.__all__:
        assert getattr(fp, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        getattr(fp, "nothing")  # noqa: B009 -- the name is not there on purpose


@pytest.mark.parametrize("kind", [list, tuple, np.array, np.uint8, pl.Series])
def test_exposure_takes_any_array_of_counts(kind: Any) -> None:
    small = [200, 250, 90, 3, 1, 1]
    found = fp.exposure(kind(small), population=np.int64(1_000_000), k=np.int64(10))
    again = fp.exposure(small[::-1], population=1_000_000, k=10)
    assert found == again
    assert (found.users, found.values, found.k, found.population) == (545, 6, 10, 1_000_000)
    assert found.unbiased is None
    assert 0 <= found.lower <= found.upper <= 1
    assert pickle.loads(pickle.dumps(found)) == found


def test_exposure_of_the_observed_number_of_users_is_unbiased_by_counting() -> None:
    found = fp.exposure(COUNTS)
    assert found.population == found.users == sum(COUNTS)
    assert found.unbiased == pytest.approx(found.empirical) == pytest.approx(5 / sum(COUNTS))
    assert found.lower <= 5 / sum(COUNTS) <= found.upper


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ([], {}, "non-empty"),
        ([0, 0], {}, "non-empty"),
        ([1.5], {}, "whole numbers"),
        (["a"], {}, "whole numbers"),
        ([-1, 20], {}, "not be negative"),
        (COUNTS, {"k": 10.0}, "k: must be a whole number"),
        (COUNTS, {"k": True}, "k: must be a whole number"),
        (COUNTS, {"population": 5}, "population: must be at least k"),
        (COUNTS, {"delta": 0}, "delta"),
    ],
)
def test_bad_counts_and_questions_are_named(
    counts: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(fp.InputError, match=message):
        fp.exposure(counts, **options)
