"""The recommended levels of a decision as a JavaScript module that shows values at them."""

from __future__ import annotations

import json
import random
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from fpmonitor.errors import InputError
from fpmonitor.export.gate_js import script_safe
from fpmonitor.population.levels import Component, LevelMap, by_area, number_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.decide.decision import Decision

_LEVELS, _TESTS = "/* levels of the decision */ null", "/* what fpmonitor shows */ null"
_UNLIKE = ("brands", "round", "sort")  # steps that are not written in JavaScript
# Of expressions, what means something else in JavaScript, or nothing.
_UNLIKE_REGEX = re.compile(
    r"\\[sSAZNpPGkK]|\(\?(?!:|=|!)|(?<!\\)\$|[*+?}]\+|\{(?![0-9]+(?:,[0-9]*)?\})"
)
_RANDOM = 40  # values that are made up for each component


def write(decision: Decision) -> str:
    """Write the module with the recommended levels in it."""
    chosen = decision.recommended_levels()
    levels = [
        {"name": component.name, "apis": component.apis, "maps": _maps(component, level)}
        for component, level in chosen
    ]
    tests = [
        [component.name, list(values), list(component.shown(level, values))]
        for component, level in chosen
        if level
        for values in _made_up(component, level)
    ]
    code = resources.files("fpmonitor.export").joinpath("levels.js").read_text(encoding="utf-8")
    for place, content in ((_LEVELS, levels), (_TESTS, tests)):
        code = code.replace(place, script_safe(json.dumps(content)))
    return code


def _maps(component: Component, level: int) -> list[dict[str, Any]] | None:
    if not level:
        return None
    return [_map(component, each) for each in component.maps(level) if not each.raw]


def _map(component: Component, level: LevelMap) -> dict[str, Any]:
    unlike = [word for word in _UNLIKE if getattr(level, word)]
    if level.regex is not None and _UNLIKE_REGEX.search(level.regex):
        unlike.append(f"regex {level.regex}")
    if unlike:
        raise InputError(
            f"levels-js: {component.name}: JavaScript does not show the same by {unlike[0]}",
            hint="docs/levels.md lists what both do alike",
        )
    steps = level.step if isinstance(level.step, tuple) else (level.step,) * len(component.apis)
    map_words = {
        "constant": level.constant,
        "major": level.major or None,
        "lower": level.lower or None,
        "step": None if level.step is None else [number_text(step) for step in steps if step],
        "edges": [*map(number_text, level.edges)] or None,
        "regex": level.regex,
        "top": list(level.top) or None,
        "sizes": [[number_text(side) for side in size] for size in by_area(level.sizes)] or None,
    }
    return {word: value for word, value in map_words.items() if value is not None}


def _made_up(component: Component, level: int) -> Iterator[tuple[str, ...]]:
    """Values near all that the maps tell apart, and some at random; none is of a user."""
    texts = {"", "other", "below 1", "1e3", "-0.5", "x1.2_3y"}
    for each in component.maps(level):
        texts.update(each.top)
        numbers = [*each.edges, *(side for size in each.sizes for side in size)]
        steps = each.step if isinstance(each.step, tuple) else (each.step or 0,)
        numbers += [factor * step for step in steps for factor in (-1, 1, 2, 7)]
        for number in numbers:
            texts.update(number_text(number + beside) for beside in (-0.001, 0, 0.001))
    ordered = sorted(texts)
    rng = random.Random(component.name)  # noqa: S311 -- the same tests whenever they are written
    # Each API has all texts, shifted, so that the values of a row differ.
    rows = [ordered[start:] + ordered[:start] for start in range(len(component.apis))]
    yield from zip(*rows, strict=True)
    for _ in range(_RANDOM):
        yield tuple(f"{rng.uniform(-10, 4000):.{rng.randrange(4)}f}" for _ in component.apis)
