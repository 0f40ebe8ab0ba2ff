"""Numbers as people read them, in tables, charts and sentences."""

from __future__ import annotations

import math
from decimal import Decimal

from fpmonitor.policy import DOWN, UP, as_written, rounded

DASH = "–"


def percent(
    share: float | None, decimals: int | None = None, *, signed: bool = False, away: str = ""
) -> str:
    """Return a share, or a difference of shares, as a percentage; a dash for none.

    Without `decimals`, three digits are significant; `signed` writes a plus sign, too. A limit is
    rounded `away` from what it limits: `DOWN` where it is at least so much, `UP` where at most.
    """
    if share is None:
        return DASH
    sign = "+" if signed else "-"
    if away:
        return f"{rounded(100 * as_written(share), away, places=decimals):{sign}f} %"
    if decimals is not None:
        return f"{100 * share:{sign}.{decimals}f} %"
    # The format `g` alone writes small numbers with an exponent.
    return f"{Decimal(f'{100 * share:.3g}'):{sign}f} %"


def at_most(shown: str, *, suppressed: bool) -> str:
    """Return a number that others are told in place of a smaller one, marked as such."""
    return f"≤ {shown}" if suppressed and shown != DASH else shown


def share_told(share: float | None, decimals: int | None = None, *, suppressed: bool) -> str:
    """Return a share per cent, rounded up where others are told it in place of a smaller one."""
    return at_most(percent(share, decimals, away=UP if suppressed else ""), suppressed=suppressed)


def between(lower: float, upper: float) -> str:
    """Return two limits of a share, both per cent and as exact as each other; one if they agree."""
    # Two digits of the upper limit, at least one decimal: of 0.0034 % both ends would be 0.0 %.
    places = max(1, 1 - math.floor(math.log10(100 * upper))) if upper else 0
    ends = [
        f"{rounded(100 * as_written(share), away, places=places):f}"
        for share, away in ((lower, DOWN), (upper, UP))
    ]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def count(number: int | None) -> str:
    """Return a whole number with commas; a dash for none."""
    return DASH if number is None else f"{number:,}"


def decimal(number: float | None, decimals: int = 2, *, away: str = "") -> str:
    """Return a number with this many digits after the point; a dash for none.

    A limit is rounded `away`, as by `percent`.
    """
    if number is None:
        return DASH
    if away:
        return f"{rounded(as_written(number), away, places=decimals):,f}"
    return f"{number:,.{decimals}f}"


def label(number: float) -> str:
    """Return a number as a short label of an axis."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.6g}"


def significant(number: float | None, digits: int = 3) -> str:
    """Return a number with this many significant digits; a dash for none."""
    return DASH if number is None else f"{number:.{digits}g}"
