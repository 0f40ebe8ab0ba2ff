"""Exact numbers of a decision file as balls, and the answers of proofs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from flint import arb, fmpq

if TYPE_CHECKING:
    from collections.abc import Mapping

Answer = Literal["proved", "not proved", "cannot tell"]
Group = tuple[int, int, int]  # so many users (last) are in groups of so few to so many

PRECISION = 128  # bits, and as many more as moments near 0 lose
NEVER = 1e300  # nats that nothing reaches
ROUNDED_TEST = 1e-8  # of a sum of e-values in floating point, nats and relative


class NotProvedError(Exception):
    """A step of the proof is false, or could not be shown."""


REFUSED = (NotProvedError, ArithmeticError, LookupError, TypeError, ValueError)


class Finding(NamedTuple):
    """An answer about one claim of a decision file, on the set `apis` where it is on one."""

    claim: str
    apis: tuple[str, ...]
    answer: Answer
    reason: str = ""


def exact(number: float) -> arb:
    """Ball of radius zero around a number of the file."""
    return arb(fmpq(*float(number).as_integer_ratio()))


def ratio(number: Fraction) -> arb:
    """Ball around a rational number."""
    return arb(fmpq(number.numerator, number.denominator))


def whole_number(number: object) -> int:
    """Return a whole number of the file."""
    # `type`, not `isinstance`: true is an int, and 1.0 is none.
    require(holds=type(number) is int, what="form")
    return int(str(number))


class Deviation(NamedTuple):
    """How a population may differ from the law of the users: factors, and the share of unobserved.

    Each number is what the policy says, exactly.
    """

    least: Fraction
    most: Fraction
    unobserved: Fraction
    fakes: Fraction

    @classmethod
    def of(cls, sample: Mapping[str, Any]) -> Deviation:
        """Read the part of a policy that says it."""
        bias, strata = Fraction(sample.get("bias", 1)), sample.get("strata")
        fakes = Fraction(repr(sample.get("fake_share", 0)))
        require(holds=not fakes or sample.get("cluster") is None, what="fakes among clusters")
        if strata is None:
            return cls(1 / bias, bias, Fraction(0), fakes)
        require(holds=not fakes, what="fakes among strata")
        shares = {
            name: [Fraction(end) for end in (share if isinstance(share, list) else [share] * 2)]
            for name, share in strata["shares"].items()
        }
        lows, highs = (sum(side, Fraction(0)) for side in zip(*shares.values(), strict=True))
        if lows == highs:  # rounded shares
            shares = {name: [low / lows, low / lows] for name, (low, _) in shares.items()}
        else:
            for name, (low, high) in shares.items():
                least = max(low, 1 - (highs - high))
                shares[name] = [least, max(least, min(high, 1 - (lows - low)))]
        out = set(strata.get("left_out", ()))
        counted = [ends for name, ends in shares.items() if name not in out]
        most = sum((high for _, high in counted), Fraction(0))
        least = most * min(low / high for low, high in counted)
        unobserved = sum((high for name, (_, high) in shares.items() if name in out), Fraction(0))
        unobserved = min(unobserved, 1 - sum((low for low, _ in counted), Fraction(0)))
        if lows == highs and not out:
            least = most = Fraction(1)
        return cls(least / bias, most * bias, unobserved, fakes)


def require(*, holds: bool, what: str) -> None:
    """Go on where it holds."""
    if not holds:
        raise NotProvedError(what)
