"""What a shuffler adds to local differential privacy: users hide among each other's reports.

Source: Feldman, McMillan and Talwar (2021), "Hiding among the clones: a simple and nearly optimal
analysis of privacy amplification by shuffling", theorem 3.1.
"""

from __future__ import annotations

import math

from fpmonitor.ldp.checks import check_epsilon, check_whole_number
from fpmonitor.policy import check_share


def shuffled_epsilon(epsilon: float, users: int, delta: float) -> float:
    """Return the epsilon, nats, of one user's report among those of all, in random order.

    Args:
        epsilon: LDP level of each report, nats.
        users: Number of users whose reports are shuffled; one report of each.
        delta: Probability beyond which the level holds, in (0, 1); choose it far below `1 / users`.

    Notes:
        Holds for whoever sees the shuffled reports and does not work together with the shuffler,
        even if all other users do. Where the theorem does not apply, too few users, it is
        `epsilon`.
    """
    check_epsilon(epsilon)
    check_whole_number("users", users, least=1, most=10**10)
    check_share("delta", delta)
    if epsilon > math.log(users / (16 * math.log(2 / delta))):
        return epsilon
    odds = math.exp(epsilon)
    spread = 8 * math.sqrt(odds * math.log(4 / delta) / users) + 8 * odds / users
    return min(epsilon, math.log1p((odds - 1) / (odds + 1) * spread))
