"""Looks for APIs by a word: in their names, in what sources call them, and in what they tell."""

from __future__ import annotations

from collections import defaultdict

from fpmonitor.errors import UnknownNameError
from fpmonitor.vocabulary import base_api, entries, known_apis
from fpmonitor.vocabulary.headers import folded


def search_apis(words: str) -> list[tuple[str, str]]:
    """Find the APIs that have all of some words in their name, an alias or what they reveal.

    What they tell comes first. Several words must all be there, in any order. Each is told with why
    it was found: `tells gpu`, `called webGlBasics by fingerprintjs`, `name`.

    Raises:
        UnknownNameError: No API has them.
    """
    wanted = [folded(word) for word in words.split() if folded(word)]
    found: dict[str, list[tuple[int, str]]] = {}
    for api, reasons in _reasons().items():
        fitting = [min(filter(None, (_fit(word, one) for one in reasons)), default=None)
                   for word in wanted]  # fmt: skip
        if wanted and None not in fitting:
            found[api] = sorted({fit for fit in fitting if fit is not None})
    if not found:
        raise UnknownNameError("word", words, sorted(entries()["words"]))
    order = sorted(found, key=lambda api: (found[api][0][0], api))
    return [(api, "; ".join(reason for _, reason in found[api])) for api in order]


def _fit(word: str, reason: tuple[int, str, str]) -> tuple[int, str] | None:
    """Rank and text of a reason that a word fits; of what is told, the whole word."""
    rank, text, sentence = reason
    is_told = word == text if rank == 0 else word in text
    return (rank, sentence) if is_told else None


def _reasons() -> dict[str, list[tuple[int, str, str]]]:
    """Return API -> its reasons: a rank, a folded text, and what is said of it."""
    known, vocabulary = known_apis(), entries()
    reasons: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for word, places in vocabulary["words"].items():
        for api in known:
            if any(_is_at(api, place) for place in places):
                reasons[api].append((0, folded(word), f"tells {word}"))
    for name, apis in vocabulary["information"].items():
        for api in apis:
            reasons[api].append((1, folded(name), f"tells {name}"))
    for api in known:
        reasons[api].append((2, folded(api), "name"))
    for source, aliases in vocabulary["aliases"].items():
        for alias, api in aliases.items():
            for one in {api, base_api(api)} & known.keys():
                reasons[one].append((3, folded(alias), f"called {alias} by {source}"))
    for column, apis in vocabulary["columns"].items():
        for api in apis:
            reasons[api].append((3, folded(column), f"called {column} in tables"))
    return reasons


def _is_at(api: str, place: str) -> bool:
    """Whether an API is what a place names, one of its selectors, or a member of an interface."""
    if place.endswith((".", ":")):
        return api.startswith(place)
    return place in (api, base_api(api))
