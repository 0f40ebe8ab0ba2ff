"""Words in SQL: halves of 32 bits in signed numbers of 64 bits, so that no product is too large.

Each function returns columns of a SELECT; a word is called by a name, or by none where it is alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LOW = (1 << 32) - 1
_SHIFTS = (30, 27, 31)
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_HALVES = ("high", "low")


def word_columns(name: str) -> list[str]:
    """Return the columns of a word."""
    return [f"{name}_{half}" if name else half for half in _HALVES]


def word(name: str, digest: str) -> list[str]:
    """Return the first 64 bits of a digest, which is a text of hexadecimal digits."""
    return [
        f"hex_number(substr({digest}, {start}, 8)) AS {half}"
        for start, half in zip((1, 9), word_columns(name), strict=True)
    ]


def either(name: str, first: str, second: str) -> list[str]:
    """Return first xor second."""
    return [
        f"xor({one}, {two}) AS {both}"
        for one, two, both in zip(*map(word_columns, (first, second, name)), strict=True)
    ]


def shifted(name: str, bits: int) -> list[str]:
    """Return a word xor itself shifted to the right by `bits`, fewer than 32."""
    high, low = word_columns(name)
    moved = f"({high} & {(1 << bits) - 1}) * {1 << (32 - bits)}"
    return [
        f"xor({high}, {high} >> {bits}) AS {high}",
        f"xor({low}, ({low} >> {bits}) + {moved}) AS {low}",
    ]


def multiplied(name: str, factor: int) -> list[str]:
    """Return a word times a number modulo 2^64, by the 16-bit digits of the number."""
    high, low = word_columns(name)
    d0, d1, d2, d3 = (factor >> shift & 0xFFFF for shift in (0, 16, 32, 48))
    lowest = f"({low} * {d0} + (({low} * {d1}) & {_LOW}) * 65536)"
    return [
        (
            f"(({lowest} >> 32) + (({low} * {d1}) >> 32) * 65536 + {low} * {d2} "
            f"+ (({low} * {d3}) & 65535) * 65536 + {high} * {d0} "
            f"+ (({high} * {d1}) & 65535) * 65536) & {_LOW} AS {high}"
        ),
        f"{lowest} & {_LOW} AS {low}",
    ]


def mixing(names: Iterable[str]) -> Iterator[list[str]]:
    """Return the columns of words after each step of `estimate.mixing.splitmix64`, in order.

    The finaliser of SplitMix (Steele, Lea, Flood 2014): shift, factor, shift, factor, shift.
    """
    names = list(names)
    for shift, factor in zip(_SHIFTS, (*_FACTORS, None), strict=True):
        yield [column for name in names for column in shifted(name, shift)]
        if factor is not None:
            yield [column for name in names for column in multiplied(name, factor)]


def kept_condition(name: str, level: int) -> str:
    """Return whether the first `level` bits are 0."""
    high, low = word_columns(name)
    if level > 32:
        return f"({high} = 0 AND {low} < {1 << (64 - level)})"
    return f"{high} < {1 << (32 - level)}" if level else "TRUE"
