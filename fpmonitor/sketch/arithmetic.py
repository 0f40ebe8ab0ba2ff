"""Words in SQL: 64-bit numbers as DuckDB has them, or in two halves where engines have none.

Each function returns columns of a SELECT. They state what `words` computes.
"""

from __future__ import annotations

from typing import Protocol

from fpmonitor.estimate.value_sample import WORD_BITS

_ALL = (1 << 64) - 1
_LOW = (1 << 32) - 1
# Of the finaliser of SplitMix (Steele, Lea, Flood 2014): shift, factor, shift, factor, shift.
SHIFTS = (30, 27, 31)
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class Arithmetic(Protocol):
    """Columns of words, each called by a name."""

    def columns(self, name: str) -> list[str]:
        """Return the columns of a word."""

    def word(self, name: str, digest: str) -> list[str]:
        """Return the first 64 bits of a digest, which is a text of hexadecimal digits."""

    def constant(self, name: str, number: int) -> list[str]:
        """Return a number."""

    def either(self, name: str, first: str, second: str) -> list[str]:
        """Return first xor second."""

    def shifted(self, name: str, bits: int) -> list[str]:
        """Return a word xor itself shifted to the right by `bits`, fewer than 32."""

    def multiplied(self, name: str, factor: int) -> list[str]:
        """Return a word times a number, modulo 2^64."""

    def is_kept(self, name: str, level: int) -> str:
        """Return whether the first `level` bits are 0."""


class Unsigned:
    """Unsigned numbers of 64 and 128 bits: DuckDB."""

    def columns(self, name: str) -> list[str]:
        """Return the columns of a word."""
        return [name]

    def word(self, name: str, digest: str) -> list[str]:
        """Return the first 64 bits of a digest."""
        return [f"('0x' || substr({digest}, 1, 16))::UBIGINT AS {name}"]

    def constant(self, name: str, number: int) -> list[str]:
        """Return a number."""
        return [f"{number}::UBIGINT AS {name}"]

    def either(self, name: str, first: str, second: str) -> list[str]:
        """Return first xor second."""
        return [f"xor({first}, {second}) AS {name}"]

    def shifted(self, name: str, bits: int) -> list[str]:
        """Return a word xor itself shifted to the right."""
        return [f"xor({name}, {name} >> {bits}) AS {name}"]

    def multiplied(self, name: str, factor: int) -> list[str]:
        """Return a word times a number, modulo 2^64."""
        product = f"{name}::UHUGEINT * {factor}::UHUGEINT"
        return [f"(({product}) & {_ALL}::UHUGEINT)::UBIGINT AS {name}"]

    def is_kept(self, name: str, level: int) -> str:
        """Return whether the first `level` bits are 0."""
        return f"{name} < {1 << (WORD_BITS - level)}::UBIGINT" if level else "TRUE"


class Halves:
    """Two halves of 32 bits in signed numbers of 64 bits: no product leaves 63 bits."""

    def columns(self, name: str) -> list[str]:
        """Return the columns of a word."""
        return [f"{name}_high", f"{name}_low"]

    def word(self, name: str, digest: str) -> list[str]:
        """Return the first 64 bits of a digest."""
        return [
            f"hex_number(substr({digest}, {start}, 8)) AS {half}"
            for start, half in zip((1, 9), self.columns(name), strict=True)
        ]

    def constant(self, name: str, number: int) -> list[str]:
        """Return a number."""
        halves = zip(divmod(number, 1 << 32), self.columns(name), strict=True)
        return [f"CAST({half} AS BIGINT) AS {column}" for half, column in halves]

    def either(self, name: str, first: str, second: str) -> list[str]:
        """Return first xor second."""
        return [f"xor({first}_{half}, {second}_{half}) AS {name}_{half}" for half in _HALVES]

    def shifted(self, name: str, bits: int) -> list[str]:
        """Return a word xor itself shifted to the right."""
        high, low = self.columns(name)
        moved = f"({high} & {(1 << bits) - 1}) * {1 << (32 - bits)}"
        return [
            f"xor({high}, {high} >> {bits}) AS {high}",
            f"xor({low}, ({low} >> {bits}) + {moved}) AS {low}",
        ]

    def multiplied(self, name: str, factor: int) -> list[str]:
        """Return a word times a number, by the 16-bit digits of the number."""
        high, low = self.columns(name)
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

    def is_kept(self, name: str, level: int) -> str:
        """Return whether the first `level` bits are 0."""
        high, low = self.columns(name)
        if level > 32:
            return f"({high} = 0 AND {low} < {1 << (64 - level)})"
        return f"{high} < {1 << (32 - level)}" if level else "TRUE"


_HALVES = ("high", "low")
