"""What theorems say of attacks, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.release.attacks import hash_shares, members_of_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.release.attacks import Words


def expected_group_success(
    groups: NDArray[np.int64], words: Words, group_weights: NDArray[np.float64], *, weight: float
) -> NDArray[np.float64]:
    """Theorem 6.1: success of `attacks.attack_groups` on each group, over all functions.

    Members with equal records are accepted together, and never isolated.
    """
    members = members_of_groups(groups, len(group_weights))
    sizes = np.array([max(len(rows), 1) for rows in members])
    shares = hash_shares(sizes, group_weights, weight=weight)
    success = np.zeros(len(members))
    for row, rows in enumerate(members):
        _, copies = np.unique(words[rows], return_counts=True)
        alone = int((copies == 1).sum())
        if alone:
            success[row] = alone * shares[row] * (1 - shares[row]) ** (len(copies) - 1)
    return success
