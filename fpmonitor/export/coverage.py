"""Coverage: which formats carry out a decision, and which of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fpmonitor.decide.decision import Decision
from fpmonitor.export.exporter import ApiVerdict, Exporter, ExportOptions, PlainExporter
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names


def product_exporters() -> dict[str, Exporter]:
    """Load the exporters of products, which cannot express all that a decision says."""
    exporters = {name: load_plugin(EXPORTERS, name) for name in plugin_names(EXPORTERS)}
    return {
        name: exporter
        for name, exporter in exporters.items()
        if not isinstance(exporter, PlainExporter)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Verdicts of several formats on the same decision.

    Attributes:
        verdicts: Format -> its verdicts, one for each candidate.
        together: The fewest formats that hide every blocked API between them (in one product each).
        missed: Blocked APIs that no format hides.
        unknown: Blocked names of which nobody knows what they are.
    """

    verdicts: Mapping[str, tuple[ApiVerdict, ...]]
    together: tuple[str, ...]
    missed: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the coverage as the CLI prints it."""
        by_api: dict[str, dict[str, Any]] = {}
        for name, verdicts in self.verdicts.items():
            for entry in verdicts:
                row = by_api.setdefault(entry.api, {"api": entry.api, "outcome": entry.outcome})
                row |= {"means": entry.means} if entry.means else {}
                row[name] = entry.verdict
        return {
            "apis": list(by_api.values()),
            "together": list(self.together),
            "missed": list(self.missed),
            "unknown": list(self.unknown),
        }


def coverage(decision: Decision, exporters: Mapping[str, Exporter]) -> Coverage:
    """Export a decision to every format, for all sites, and compare the verdicts."""
    verdicts = {
        name: exporter.export(decision, ExportOptions()).verdicts
        for name, exporter in exporters.items()
    }
    hidden = {
        name: frozenset(v.api for v in entries if v.is_withheld and v.enforced)
        for name, entries in verdicts.items()
    }
    every = [v for entries in verdicts.values() for v in entries if v.is_withheld]
    blocked, unknown = {v.api for v in every}, {v.api for v in every if v.verdict == "unknown"}
    reachable = frozenset().union(*hidden.values())
    return Coverage(
        verdicts=verdicts,
        together=_fewest(hidden, reachable),
        missed=tuple(sorted(blocked - reachable - unknown)),
        unknown=tuple(sorted(unknown - reachable)),
    )


def _fewest(hidden: Mapping[str, frozenset[str]], reachable: frozenset[str]) -> tuple[str, ...]:
    # By size, so that the first found is of the fewest; ten formats have 1,024 subsets.
    for size in range(len(hidden) + 1):
        for formats in combinations(hidden, size):
            if frozenset().union(*(hidden[name] for name in formats)) == reachable:
                return formats
    return tuple(hidden)
