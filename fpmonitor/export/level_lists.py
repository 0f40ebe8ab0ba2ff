"""Levels of a decision as vendors use them: tiers, a table of limits, sizes of windows."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fpmonitor.errors import InputError
from fpmonitor.export import levels_js
from fpmonitor.export.exporter import printable
from fpmonitor.population.levels import Component, by_area, number_text
from fpmonitor.safe_files import toml_string, untyped
from fpmonitor.store.transforms import Transform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fpmonitor.decide.decision import ApiSet, Decision

# Firefox shows the size of a window into which no listed size fits as it is.
_FITS_ALL = "1x1"
_MARKUP = re.compile(r"[\\`*_\[\]<>|~&$]")
_LETTERBOXING = "privacy.resistFingerprinting.letterboxing"


def tiers(decision: Decision) -> str:
    """Write a tier for each maximal allowed vector as JSON, the recommended one first.

    One of them is for all sites together: who sees two of them sees what no certificate is about.
    """
    allowed = sorted(decision.allow, key=lambda apis: apis != decision.recommended)
    content = {
        "guarantee": decision.guarantee,
        "use": "one of these tiers, for all sites",
        "tiers": [_tier(decision, apis) for apis in allowed],
    }
    return json.dumps(content, indent=2) + "\n"


def _tier(decision: Decision, apis: ApiSet) -> dict[str, Any]:
    return {
        "recommended": apis == decision.recommended,
        "utility": decision.lattice.utility_of(apis),
        "components": [
            {
                "name": component.name,
                "apis": component.apis,
                "level": level,
                "of": len(component.levels),
                "shows": component.words(level),
                "maps": [untyped(each) for each in component.maps(level)] if level else None,
            }
            for component, level in decision.lattice.levels(apis)
        ],
    }


def level_limits(decision: Decision) -> str:
    """Write the values that numbers may show at the recommended vector as a table in Markdown.

    A device is given the largest tier that it reaches in all limits of its component.
    """
    rows, words = [], []
    for component, level in decision.recommended_levels():
        last = component.levels[-level] if level else None
        if last is not None and last.sizes:
            sides = zip(*reversed(by_area(last.sizes)), strict=True)
            pairs = zip(component.apis, sides, strict=True)
            rows += [(_plain(api), [*map(number_text, side)]) for api, side in pairs]
        elif last is not None and last.edges:
            rows.append((_plain(component.apis[0]), [*map(number_text, last.edges)]))
        else:
            told = f"{', '.join(component.apis)}: {component.words(level)}"
            words.append(f"- {_plain(told)}")
    lines = []
    if rows:
        most = max(len(values) for _, values in rows)
        heads = ["limit", *(f"tier {number}" for number in range(1, most + 1))]
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for api, values in rows:
            cells = [api, *values, *[""] * (most - len(values))]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, *([""] if rows and words else []), *words, ""])


def _plain(text: str) -> str:
    """Write a name of a log as Markdown that is no markup, and no border of a table."""
    return _MARKUP.sub(r"\\\g<0>", printable(text))


def what_if(decision: Decision) -> str:
    """Write the recommended vector as a file for `--what-if`."""
    lines = []
    for component, level in decision.recommended_levels():
        for place, api in enumerate(component.apis):
            transform_words = _transform(component, level, place)
            if transform_words:
                pairs = (f"{word} = {_toml(value)}" for word, value in transform_words.items())
                lines += [f"[{toml_string(api)}]", *pairs, ""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    return toml_string(value) if isinstance(value, str) else json.dumps(value)


def _transform(component: Component, level: int, place: int) -> dict[str, Any]:
    """Words of a transform for one of the APIs of a component."""
    if not level:
        return {"constant": "withheld"}
    maps = [each for each in component.maps(level) if not each.raw]
    if not maps:
        return {}
    steps = [each.step[place] if isinstance(each.step, tuple) else each.step for each in maps]
    transform_words = {word: value for word, value in untyped(maps[-1]).items() if word != "name"}
    if set(transform_words) == {"step"} and all(
        step is not None and step == int(step) for step in steps
    ):
        whole = [int(step) for step in steps if step is not None]
        # By 5 and then by 10 is by 10; by 4 and then by 6 is not by 6.
        if all(coarse % fine == 0 for fine, coarse in pairwise(whole)):
            return {"round": whole[-1]}
    if len(maps) > 1 or not set(transform_words) <= set(Transform.__struct_fields__):
        raise InputError(
            f"what-if: {component.name} ({component.words(level)}): its file has no words for that",
            hint=f"it knows {', '.join(Transform.__struct_fields__)}, and whole steps; "
            "`export --report` draws what every level exposes",
        )
    return transform_words


def letterboxing(decision: Decision) -> str:
    """Write the recommended list of sizes as Firefox's preferences for sizes of windows.

    Raises:
        InputError: No list of sizes is recommended, or one of what is rounded before, or not of
            whole numbers.
    """
    found = [
        component.maps(level)
        for component, level in decision.recommended_levels()
        if level and component.levels[-level].sizes and len(component.apis) == 2
    ]
    if len(found) != 1:
        raise InputError(
            "firefox-letterboxing: the recommended vector shows no list of sizes, or several",
            hint="a component of width and height with levels = [{sizes = [[1000, 800]]}]",
        )
    *before, last = found[0]
    if not all(each.raw for each in before):
        raise InputError(
            "firefox-letterboxing: Firefox rounds nothing before it looks for a size that fits",
            hint="only {raw = true} may come before the sizes",
        )
    sizes = [_whole(size) for size in by_area(last.sizes)]
    if _FITS_ALL not in sizes:
        sizes.append(_FITS_ALL)
    values = {_LETTERBOXING: "true", f"{_LETTERBOXING}.dimensions": f'"{", ".join(sizes)}"'}
    return "".join(f'user_pref("{name}", {value});\n' for name, value in values.items())


def level_list(decision: Decision, to: str, options: Sequence[str] = ()) -> str:
    """Write a decision about levels in a format.

    Raises:
        InputError: It is none of levels, or options are named: they are of lists of APIs.
    """
    if options:
        raise InputError(
            f"export: {', '.join(options)}: not with a decision about levels",
            hint="that is for lists of APIs",
        )
    if to not in _FORMATS:
        raise InputError(
            f"export: a decision about levels is written with --to {', '.join(_FORMATS)}"
        )
    return _FORMATS[to](decision)


_FORMATS: Mapping[str, Callable[[Decision], str]] = {
    "levels-js": levels_js.write,
    "tiers": tiers,
    "limits": level_limits,
    "firefox-letterboxing": letterboxing,
    "what-if": what_if,
}


def _whole(size: tuple[float, ...]) -> str:
    if any(side != int(side) for side in size):
        raise InputError(f"firefox-letterboxing: {size} is not of whole numbers")
    return "x".join(str(int(side)) for side in size)
