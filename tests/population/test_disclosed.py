"""Spectra as others are told them."""

from __future__ import annotations

import itertools

import numpy as np

from fpmonitor.disclosure import Audience
from fpmonitor.population.disclosed import disclosed_to
from fpmonitor.population.memory import MemorySource


def test_sets_that_are_counted_at_once_are_told_as_one_after_the_other() -> None:
    rng = np.random.default_rng(3)
    names = ("a", "b", "c", "d")
    source = MemorySource(names, [rng.geometric(1 / size, 4_000) for size in (2, 9, 40, 300)])
    sets = [each for size in (1, 2, 3, 4) for each in itertools.combinations(names, size)]
    together = disclosed_to(Audience.OTHERS, source, 10, sets=sets)
    alone = disclosed_to(Audience.OTHERS, source, 10)
    assert together.least is not None
    assert alone.least is not None
    for one, other in ((together, alone), (together.least, alone.least)):
        assert [found.groups() for found in one.spectra(sets)] == [
            found.groups() for found in other.spectra(sets)
        ]
