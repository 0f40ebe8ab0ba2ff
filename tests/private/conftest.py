"""What several tests of private collection check alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.private.randomised import RandomisedApi


@pytest.fixture
def check_collections() -> Callable[[Sequence[RandomisedApi], Sequence[float], float], None]:
    """Check estimates of repeated collections, whose limits fail with probability 0.2 at most."""

    def check(runs: Sequence[RandomisedApi], truth: Sequence[float], exposed: float) -> None:
        shares = np.array([[value.share for value in run.values] for run in runs])
        errors = (shares.mean(axis=0) - truth) / (shares.std(axis=0) / np.sqrt(len(runs)))
        assert np.all(np.abs(errors) < 4)
        held = [
            run.lower <= exposed <= run.upper
            and all(
                value.lower <= one <= value.upper
                for value, one in zip(run.values, truth, strict=True)
            )
            for run in runs
        ]
        assert sum(held) >= 0.8 * len(runs)

    return check
