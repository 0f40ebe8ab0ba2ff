"""What a list that is in use leaves readable of a decision's candidates, by its text alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.export.effect import left_readable, left_unchanged
from fpmonitor.export.enforce import ControlExporter
from fpmonitor.export.exporter import Exporter, PlainExporter, PlainList
from fpmonitor.export.headline import scope_of

if TYPE_CHECKING:
    from fpmonitor.decide.decision import ApiSet, Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class ListInUse:
    """What a list leaves readable."""

    # Candidates that a site reads together, at most and at least, as a list may coarsen some: one
    # pair for each combination that the list lets it read.
    left: tuple[tuple[ApiSet, ApiSet], ...]
    # APIs that it lets sites read and that are no candidates, so that nothing is known of them.
    strangers: tuple[str, ...]
    notes: tuple[str, ...]  # Slips of the list, and what it is about.


def read_in_use(
    name: str, exporter: Exporter, text: str, decision: Decision, site: str | None
) -> ListInUse:
    """Read a list as whatever carries it out does, and tell what it leaves of a decision.

    Args:
        name, exporter: The format of the list.
        text: The list, whoever wrote it.
        decision: Whose candidates are told.
        site: The domain that is asked about; null for what holds on all sites.

    Raises:
        InputError: The text is no list of this format, or the format cannot be read back.
    """
    if isinstance(exporter, ControlExporter):
        reading = exporter.read(text, site)
        candidates, means = decision.policy.candidates, decision.means
        at_most, at_least = (
            find(candidates, reading.controls, exporter.product, means)
            for find in (left_readable, left_unchanged)
        )
        scope = scope_of(decision, exporter.product)
        return ListInUse(
            left=((at_most, at_least),), strangers=(), notes=(*reading.problems, scope)
        )
    if not isinstance(exporter, PlainExporter) or exporter.read is None:
        raise InputError(f"{name}: lists of this format cannot be read back")
    if site is not None:
        raise InputError(f"{name} is not for single sites", hint="omit --site")
    plain = exporter.read(text)
    known, strangers = _as_candidates(decision, plain)
    unnamed = sorted({*decision.policy.candidates} - {*chain(*known.values())})
    left = []
    for apis in plain.together:
        most = tuple(sorted({*chain(*(known.get(api, ()) for api in apis)), *unnamed}))
        left.append((most, most))
    notes = [f"{api}: not in the list, so it counts as readable" for api in unnamed]
    exposed = {*chain(*plain.together)}
    return ListInUse(
        left=tuple(dict.fromkeys(left)),
        strangers=tuple(api for api in strangers if api in exposed),
        notes=(*plain.problems, *notes),
    )


def _as_candidates(decision: Decision, plain: PlainList) -> tuple[dict[str, set[str]], list[str]]:
    """Return name -> the candidates that it means, and names that mean none."""
    known: dict[str, set[str]] = {}
    strangers = []
    for api in dict.fromkeys(chain(plain.named, *plain.together)):
        # Where a list takes a name for another API than was decided, its readers expose that one.
        taken_for = plain.names.get(api, api)
        is_as_decided = taken_for in {api, decision.means(api)}
        try:
            known[api] = decision.named({api} if is_as_decided else {api, taken_for})
        except (InputError, UnknownNameError):
            strangers.append(api)
    return known, sorted(strangers)
