"""Sketches of users of whom nobody is in two of them become the sketch of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.cluster.asking import MAX_PARTS
from fpmonitor.errors import InputError
from fpmonitor.estimate.value_sample import planned_level
from fpmonitor.sketch.file import MAX_USERS, Part, Sketch
from fpmonitor.sketch.words import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def merge_sketches(sketches: Iterable[tuple[str, Sketch]], *, disjoint: bool = False) -> Sketch:
    """Merge sketches, each with what it is called; in any order and grouping the same.

    That no user is in two of them must follow from their parts, unless whoever asks knows that they
    are `disjoint`.

    Raises:
        InputError: No sketches; other keys, sets, views or numbers of entries; a part that is in
            two of them; users who may be in two of them.
    """
    first: Sketch | None = None
    names: dict[str, str] = {}
    parts: list[Part] = []
    tallies: list[Tally] = []
    users = 0
    for name, sketch in sketches:
        first = first or sketch
        _check_alike(first, sketch)
        _check_apart(parts, names, name, sketch, disjoint=disjoint)
        parts += sketch.parts
        names |= {part.digest: name for part in sketch.parts}
        users += sketch.users
        tallies = tallies or [Tally(values.apis, sketch.entries) for values in sketch.sets]
        for tally, values in zip(tallies, sketch.sets, strict=True):
            tally.add(values.words, values.counts, level=values.level)
    if first is None:
        raise InputError("merge: no sketches")
    if users >= MAX_USERS or len(parts) > MAX_PARTS:
        raise InputError(f"merge: {users:,} users in {len(parts):,} parts are too many")
    if first.entries is None:  # the share was fixed: all sets are at one level
        # Counts at a lower level filter to those of a higher one, not the other way round.
        level = max(tally.kept().level for tally in tallies)
    else:
        level = planned_level(users, first.entries)
    return Sketch(
        key=first.key,
        users=users,
        entries=first.entries,
        view=first.view,
        parts=tuple(sorted(parts, key=lambda part: part.digest)),
        sets=tuple(tally.kept(level) for tally in tallies),
    )


def _check_alike(first: Sketch, other: Sketch) -> None:
    if other.key != first.key:
        raise InputError(
            f"these sketches were made with different keys, {first.key} and {other.key}",
            hint="make them with one key: words of two keys do not meet",
        )
    if other.view != first.view:
        raise InputError(
            "these sketches look at values in different ways",
            hint="make them with the same --volatile, --drop-automation and --what-if, and of "
            "databases whose randomised APIs are the same; those of --from count as they are",
        )
    if [one.apis for one in other.sets] != [one.apis for one in first.sets]:
        raise InputError("these sketches are of other sets", hint="make them with the same --apis")
    if other.entries != first.entries:
        raise InputError(
            "these sketches keep other numbers of values",
            hint="make them with the same --entries, or all with --share",
        )


def _check_apart(
    parts: Sequence[Part], names: Mapping[str, str], name: str, sketch: Sketch, *, disjoint: bool
) -> None:
    """Check that nobody is both in the parts so far, of the sketches `names`, and in a sketch."""
    for part in sketch.parts:
        if part.digest in names:
            raise InputError(
                f"part {part.digest[:12]} is in both {names[part.digest]} and {name}",
                hint="its users would count twice",
            )
        for other in () if disjoint else parts:
            if not (part.users and other.users and part.users.is_apart_from(other.users)):
                raise InputError(
                    f"users of these sketches may overlap ({names[other.digest]}, {name}); make "
                    "them from parts by user",
                    hint="`scale sketch make --user COLUMN --part 1/16` and so on; or say "
                    "--disjoint if you know that nobody is in two of them",
                )
