"""Levels: how coarse the values of an API, or of a group of APIs, may be shown.

A component is a chain of levels. Each level is made of what the next finer one shows, so that it
can never tell more, whatever the values are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from operator import le
from pathlib import Path
from typing import Annotated, Any

import msgspec

from fpmonitor.errors import InputError
from fpmonitor.safe_files import read_toml, typed
from fpmonitor.store.transforms import Transform, is_digest

Vector = tuple[int, ...]
WITHHELD = 0
_NO_VALUES = 2  # absent and undefined: there may be any number of errors
OTHER = "other"
_BELOW = "below "
_NUMBER = re.compile(r"-?[0-9]{1,21}(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,2})?")
_LARGEST, _FINEST = 21, 30  # digits before the point, and behind it
_BEFORE = Fraction(1, 10 ** (_FINEST + 10))  # closer than any other number that is read
_DIGITS = 100
_MOST_LEVELS = 64
REGEX_FLAGS = re.ASCII | re.DOTALL  # what JavaScript can do alike
Value = str | int  # a value, or the code of what is none: absent, undefined, an error, a token
_Number = Annotated[int, msgspec.Meta(ge=1, le=1000)]
LEAST_STEP, LARGEST = 1e-9, 1e15  # of the numbers that a level is made of
_Step = Annotated[float, msgspec.Meta(ge=LEAST_STEP, lt=LARGEST)]
_Edge = Annotated[float, msgspec.Meta(gt=-LARGEST, lt=LARGEST)]


class Design(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A map that is made from some of the users: one of the first three.

    Attributes:
        buckets: Edges of at most so many buckets of a number.
        sizes: At most so many sizes of a group of numbers.
        frequent: At most so many values, the most frequent ones.
        exposed: Share of the users from whom it is made that it may expose by itself, as expected:
            by default half of the budget.
    """

    buckets: _Number | None = None
    sizes: _Number | None = None
    frequent: _Number | None = None
    exposed: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.buckets, self.sizes, self.frequent)) != 1:
            raise ValueError("a design is one of buckets, sizes and frequent")

    @property
    def words(self) -> str:
        """What is designed, in few words."""
        if self.frequent is not None:
            return f"the {self.frequent:,} most frequent values"
        most, what = (self.buckets, "buckets") if self.sizes is None else (self.sizes, "sizes")
        return f"at most {most:,} {what}"


class LevelMap(
    Transform, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What a level shows of what the next finer one shows: the steps of a transform, then these.

    A value that is not what a step needs, such as a text among numbers, shows as `other`, and so
    does one too large to be kept.

    Attributes:
        name: What people call the level.
        raw: Shows all; alone.
        step: Rounds a number down to a multiple of this; of a group, one for each API.
        edges: Shows the largest of these that a number reaches, and `below` the first; increasing.
        top: Shows these values, and `other` for the rest.
        regex: Shows what this finds first in a value, and `other` where it finds nothing. Classes
            such as digits are those of ASCII, and a dot is any character.
        sizes: Of several numbers: shows the largest of these, by product, that fits into all.
        design: To be made from users; alone.
    """

    name: str | None = None
    raw: bool = False
    step: _Step | tuple[_Step, ...] | None = None
    edges: tuple[_Edge, ...] = ()
    top: tuple[str, ...] = ()
    regex: str | None = None
    sizes: tuple[tuple[_Step, ...], ...] = ()
    design: Design | None = None

    def __post_init__(self) -> None:
        steps = self._steps()
        if not steps or ((self.raw or self.design) and len(steps) > 1):
            raise ValueError("a level is `raw = true`, a design, or steps without them")
        if any(number_of(repr(edge)) is None for edge in self.edges):
            raise ValueError("an edge has too many digits")
        if any(high <= low for low, high in pairwise(self.edges)):
            raise ValueError("edges must increase")
        if self.regex is not None:
            try:
                re.compile(self.regex, REGEX_FLAGS)
            # The last two are of `a{99999999999999999999}`, and of 3,000 groups within each other.
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"regex does not compile: {error}") from error

    def check(self, apis: int) -> None:
        """Refuse a map that does not fit a group of so many APIs, with a ValueError."""
        if isinstance(self.step, tuple) and len(self.step) != apis:
            raise ValueError(f"step has {len(self.step)} numbers for {apis} APIs")
        design = self.design
        if design is not None and design.sizes is None and apis != 1:
            raise ValueError("buckets and frequent values are of one API")
        shows_sizes = self.sizes or (design is not None and design.sizes is not None)
        if shows_sizes and (apis == 1 or any(len(size) != apis for size in self.sizes)):
            raise ValueError(f"sizes are of two APIs or more, with a number each, not of {apis}")

    def _steps(self) -> dict[str, Any]:
        given = msgspec.structs.asdict(self).items()
        return {
            word: value
            for word, value in given
            if word != "name" and value not in (False, 0, None, ())
        }

    @property
    def words(self) -> str:
        """The map in few words."""
        if self.design is not None:
            return self.name or self.design.words
        return self.name or ", ".join(
            word if value is True else f"{word} {_listed(value)}"
            for word, value in self._steps().items()
        )

    @property
    def declared_values(self) -> int | None:
        """How many values it may show in place of one value, `other` among them; null: no end."""
        if self.top:
            return len({*self.top, OTHER})
        if self.edges and self.regex is None:
            return len(self.edges) + 2  # below the first of them, and what is no number
        return None

    def shown(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Show the values of a group of APIs; what is no value stays what it is."""
        if self.raw:
            return values
        coarser = tuple(
            value if isinstance(value, int) else self._coarser(value, place)
            for place, value in enumerate(values)
        )
        return self._fitting(coarser) if self.sizes else coarser

    def _coarser(self, text: str, place: int) -> str:
        # A digest kept in place of a long value is no value that a page could show.
        if is_digest(text):
            return OTHER
        text = self(text)
        if self.step is not None:
            step = self.step[place] if isinstance(self.step, tuple) else self.step
            text = _rounded_down(text, step)
        if self.edges:
            text = _edge_of(text, self.edges)
        if self.regex is not None:
            found = re.search(self.regex, text, REGEX_FLAGS)
            text = OTHER if found is None else found[0]
        return text if not self.top or text in self.top else OTHER

    def _fitting(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        if any(isinstance(value, int) for value in values):
            return values
        numbers = [number_of(str(value)) for value in values]
        scaled_numbers = [_scaled(number) for number in numbers if number is not None]
        if len(scaled_numbers) == len(values):
            for size, sides in _by_area(self.sizes):
                if all(map(le, sides, scaled_numbers)):
                    return tuple(map(number_text, size))
        return (OTHER,) * len(values)


def _listed(value: Any) -> str:
    """Write the argument of a step; what is longer than a line by its number."""
    if not isinstance(value, tuple):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if value and isinstance(value[0], tuple):
        return f"({len(value):,})"
    few = [f"{entry:g}" if isinstance(entry, float) else str(entry) for entry in value[:6]]
    return "/".join(few) + (f"/... ({len(value):,})" if len(value) > len(few) else "")


def exactly(number: float) -> Fraction:
    """Return the decimal number that was written."""
    return Fraction(repr(number))


def number_text(number: float) -> str:
    """Write a number without an exponent."""
    # `+ 0` makes 0 of -0.
    return f"{Decimal(repr(number)).normalize() + 0:f}"


def by_area(sizes: tuple[tuple[float, ...], ...]) -> list[tuple[float, ...]]:
    """Sizes by the product of their numbers, the largest first; of equal ones the wider one."""
    return [size for size, _ in _by_area(sizes)]


@lru_cache(maxsize=64)
def _by_area(
    sizes: tuple[tuple[float, ...], ...],
) -> tuple[tuple[tuple[float, ...], tuple[int, ...]], ...]:
    exact = [(size, tuple(_scaled(exactly(side)) for side in size)) for size in sizes]
    return tuple(sorted(exact, key=lambda each: (math.prod(each[1]), each[0]), reverse=True))


def _scaled(number: Fraction) -> int:
    """Return a number that is read as a whole one, which is compared faster."""
    return int(number / _BEFORE)


def number_of(text: str) -> Fraction | None:
    """Read a number; what is `below` one is just below it; null for what is none."""
    below = text.startswith(_BELOW)
    digits = text.removeprefix(_BELOW)
    if not _NUMBER.fullmatch(digits):
        return None
    # As a decimal: in binary 0.3 is below three times 0.1, and would round down to 0.2.
    number = Decimal(digits)
    exponent = number.as_tuple().exponent
    if number.adjusted() >= _LARGEST or not isinstance(exponent, int) or exponent < -_FINEST:
        return None
    return Fraction(number) - (_BEFORE if below else 0)


def _rounded_down(text: str, step: float) -> str:
    number = number_of(text)
    if number is None:
        return OTHER
    # 28 digits, the default, are fewer than a large number with a small step has.
    with localcontext(prec=_DIGITS):
        return f"{(number // exactly(step) * Decimal(repr(step)) + 0).normalize():f}"


def _edge_of(text: str, edges: Sequence[float]) -> str:
    number = number_of(text)
    if number is None:
        return OTHER
    reached = [edge for edge in edges if exactly(edge) <= number]
    return number_text(reached[-1]) if reached else f"{_BELOW}{number_text(edges[0])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """An API, or a group of APIs, and its levels.

    Levels are numbered: 0 is withheld, and the last one is the finest.

    Raises:
        ValueError: Some of these do not fit together; the message says which.
    """

    name: str  # What it is called.
    apis: tuple[str, ...]  # Its APIs, shown at one level together.
    levels: tuple[LevelMap, ...]  # Maps from fine to coarse, each of what the one before it shows.
    # Of each level from withheld to the finest: not negative, none smaller than the one before.
    utility: tuple[float, ...]
    # least, most: The coarsest and the finest level that may be chosen.
    least: int
    most: int

    def __post_init__(self) -> None:
        if not self.apis or len({*self.apis}) != len(self.apis):
            raise ValueError("name its APIs, each once")
        finest = len(self.levels)
        if not 1 <= finest <= _MOST_LEVELS:
            raise ValueError(f"needs 1 to {_MOST_LEVELS} levels, besides withheld")
        for level in self.levels:
            level.check(len(self.apis))
        if not 0 <= self.least <= self.most <= finest:
            raise ValueError(f"least and most must lie between 0 and {finest}, in this order")
        if len(self.utility) != finest + 1:
            raise ValueError(f"utility needs {finest + 1} numbers, the first for withheld")
        # `not <=`: not a number is within no limits.
        falls = any(not low <= high < 1e15 for low, high in pairwise(self.utility))
        if self.utility[0] < 0 or falls:
            raise ValueError("utilities must not be negative, nor fall from coarse to fine")

    @property
    def designed(self) -> bool:
        """Whether a level is still to be made from users."""
        return any(level.design is not None for level in self.levels)

    def maps(self, level: int) -> tuple[LevelMap, ...]:
        """Return the maps of a level above withheld, in the order in which they are taken."""
        return self.levels[: len(self.levels) - level + 1]

    def shown(self, level: int, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Show values of its APIs at a level above withheld."""
        for each in self.maps(level):
            values = each.shown(values)
        return values

    def words(self, level: int) -> str:
        """Say what a level shows."""
        return "withheld" if level == WITHHELD else self.levels[-level].words

    def declared(self, level: int) -> int | None:
        """How many values users may have at a level, if none is absent or no value; null: no end.

        Where each API shows one of its own, also where some are absent or undefined.
        """
        if level == WITHHELD:
            return 1
        coarsest = self.levels[-level]
        if coarsest.sizes:
            return len(coarsest.sizes) + 1
        each = coarsest.declared_values
        return None if each is None else (each + _NO_VALUES) ** len(self.apis)

    @property
    def shows(self) -> list[str]:
        """What each level shows, from withheld to the finest."""
        return [self.words(level) for level in range(len(self.levels) + 1)]


class _ComponentFile(msgspec.Struct, forbid_unknown_fields=True):
    apis: tuple[str, ...]
    levels: tuple[LevelMap, ...]
    name: str | None = None
    utility: tuple[float, ...] | None = None
    least: int = 0
    most: int | None = None

    def component(self) -> Component:
        """Return what is declared, with what was left open; a ValueError says what is wrong."""
        finest = len(self.levels)
        evenly = tuple(level / max(finest, 1) for level in range(finest + 1))
        return Component(
            name=self.name or " + ".join(self.apis),
            apis=self.apis,
            levels=self.levels,
            utility=evenly if self.utility is None else self.utility,
            least=self.least,
            most=finest if self.most is None else self.most,
        )


class LevelsFile(msgspec.Struct, forbid_unknown_fields=True):
    """Components as they are written down: docs/levels.md."""

    component: tuple[_ComponentFile, ...]


def read_levels(path: Path) -> tuple[Component, ...]:
    """Read the components of a TOML file: docs/levels.md.

    Raises:
        InputError: Not readable, not TOML, or a component that cannot be; the message names it.
    """
    hint = '[[component]] with apis = ["..."] and levels = [{raw = true}, {step = 50}], fine first'
    kind = f"levels: {path}"
    content = typed(read_toml(path, "levels", hint=hint), LevelsFile, kind, hint=hint)
    components = []
    for number, declared in enumerate(content.component, start=1):
        try:
            components.append(declared.component())
        except ValueError as error:
            raise InputError(f"{kind}: component {declared.name or number}: {error}") from error
    check_components(components)
    return tuple(components)


def check_components(components: Sequence[Component]) -> None:
    """Refuse components that cannot stand beside each other.

    Raises:
        InputError: A name or an API that stands twice, or nothing to choose.
    """
    for kind, names in (
        ("component", [component.name for component in components]),
        ("API", [api for component in components for api in component.apis]),
    ):
        twice = sorted(name for name in {*names} if names.count(name) > 1)
        if twice:
            raise InputError(f"levels: {kind} {twice[0]!r} is named twice")
    if all(component.least == component.most for component in components):
        raise InputError("levels: there is nothing to choose", hint="least and most are equal")


def level_words(components: Sequence[Component], vector: Vector) -> tuple[str, ...]:
    """Name the levels of a vector that are not withheld, sorted: `screen=2` for each component."""
    levels = zip(components, vector, strict=True)
    return tuple(sorted(f"{component.name}={level}" for component, level in levels if level))


def coarser(words: Iterable[str]) -> frozenset[str]:
    """Return levels with all coarser ones, which whoever sees them sees, too."""
    levels = map(_of_word, words)
    return frozenset(f"{name}={level}" for name, most in levels for level in range(1, most + 1))


def levels_of(words: Iterable[str]) -> dict[str, int]:
    """Return the finest level of each component that is named."""
    levels: dict[str, int] = {}
    for name, level in map(_of_word, words):
        levels[name] = max(level, levels.get(name, 0))
    return levels


def finest(words: Iterable[str]) -> tuple[str, ...]:
    """Return the finest level of each component, sorted."""
    return tuple(sorted(f"{name}={level}" for name, level in levels_of(words).items()))


def _of_word(word: str) -> tuple[str, int]:
    name, _, level = word.rpartition("=")
    return name, int(level)
