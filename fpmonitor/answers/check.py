"""The outcome of a check, for people and for the programs that run checks."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree as ET

import fpmonitor
from fpmonitor.answers.decide import recheck_sets
from fpmonitor.decide.horizon import share_delta
from fpmonitor.disclosure import publishable_count
from fpmonitor.results import Result
from fpmonitor.safe_files import untyped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.decide.horizon import CheckSlot
    from fpmonitor.population.population import Population

Outcome = Literal["holds", "violated", "cannot tell"]
_RULE = "exposure-within-budget"
_SARIF = {
    "allow": ("pass", "none"),
    "block": ("fail", "error"),
    "undecided": ("open", "none"),
}
_GITHUB = {"allow": "notice", "block": "error", "undecided": "warning"}
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Result):
    """Every set on the allow list of a decision, tested on the data of now.

    Attributes
    ----------
    decision
        The decision.
    verdicts
        Set on its allow list -> `allow` (still within the budget), `block` (above it), `undecided`.
    users
        Users of now; null where they are fewer than k.
    since, until
        The window that was looked at; null where it is open.
    place
        Slot among the checks that share the delta; null for a check alone.
    """

    decision: Decision
    verdicts: Mapping[ApiSet, Verdict]
    users: int | None
    since: datetime | None
    until: datetime | None
    place: CheckSlot | None

    @property
    def outcome(self) -> Outcome:
        """Verdict on the whole list."""
        if "block" in self.verdicts.values():
            return "violated"
        return "cannot tell" if "undecided" in self.verdicts.values() else "holds"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each set on the allow list."""
        return [{"verdict": verdict, "apis": list(apis)} for apis, verdict in self.verdicts.items()]

    def to_json(self) -> dict[str, Any]:
        """Return the report as `watch` posts it."""
        return {
            "outcome": self.outcome,
            "sets": [
                {"verdict": verdict, "apis": list(apis)} for apis, verdict in self.verdicts.items()
            ],
            "users": self.users,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "policy": untyped(self.decision.policy),
            "place": None if self.place is None else asdict(self.place),
        }

    @property
    def exact(self) -> bool:
        """Whether the decision is on the observed users themselves."""
        return self.decision.policy.delta is None

    def lines(self) -> Iterator[tuple[ApiSet, Verdict, str]]:
        """Each set, its verdict, and both in one sentence."""
        policy = self.decision.policy
        budget = f"{100 * policy.budget:.6g} % of the users to groups of fewer than {policy.k}"
        says = {
            "allow": f"exposes at most {budget}",
            "block": f"exposes more than {budget}",
            "undecided": f"may or may not expose more than {budget}: more users would tell",
        }
        for apis, verdict in self.verdicts.items():
            yield apis, verdict, f"{', '.join(apis)} {says[verdict]}"


def report_check(
    population: Population, decision: Decision, slot: CheckSlot | None = None
) -> CheckReport:
    """Test every set on the allow list of a decision on the users of now.

    Parameters
    ----------
    population
        The users, seen as the decision saw its own.
    decision
        The decision.
    slot
        Which of the checks it is that share the decision's delta; None for a check alone.

    Raises
    ------
    PolicyError, UnknownNameError, UndecidableError
        The data of now lack a candidate, or hold too few users.
    """
    tested = decision if slot is None else share_delta(decision, slot.horizon)
    users, k = population.snapshot.users, decision.policy.k
    return CheckReport(
        decision=decision,
        verdicts=recheck_sets(population, tested),
        users=publishable_count(users, k, population.audience),
        since=population.window.since,
        until=population.window.until,
        place=slot,
    )


def to_junit(report: CheckReport, file: str) -> str:
    """JUnit XML: a case a set; a violated one is a failure, an open one an error."""
    cases = list(report.lines())
    verdicts = [verdict for _, verdict, _ in cases]
    counts = {
        "tests": str(len(cases)),
        "failures": str(verdicts.count("block")),
        "errors": str(verdicts.count("undecided")),
    }
    root = ET.Element("testsuites", {"name": "fpmonitor check", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _xml(file), **counts})
    for apis, verdict, sentence in cases:
        case = ET.SubElement(suite, "testcase", classname=_RULE, name=_xml(", ".join(apis)))
        if verdict != "allow":
            kind = "failure" if verdict == "block" else "error"
            problem = ET.SubElement(case, kind, type=verdict, message=_xml(sentence))
            problem.text = _xml(sentence)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def to_sarif(report: CheckReport, file: str) -> str:
    """SARIF 2.1.0: a result a set; `open` is SARIF's word for what the data cannot decide."""
    rule = {
        "id": _RULE,
        "name": "ExposureWithinBudget",
        "shortDescription": {"text": "An allowed API set exposes too many users"},
        "fullDescription": {"text": report.decision.guarantee},
        "defaultConfiguration": {"level": "error"},
    }
    results = [
        {
            "ruleId": _RULE,
            "ruleIndex": 0,
            "kind": _SARIF[verdict][0],
            "level": _SARIF[verdict][1],
            "message": {"text": sentence},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(file)},
                        "region": {"startLine": 1},
                    }
                }
            ],
            "partialFingerprints": {"apiSet/v1": json.dumps(list(apis), ensure_ascii=False)},
        }
        for apis, verdict, sentence in report.lines()
    ]
    driver = {"name": "fpmonitor", "version": fpmonitor.__version__, "rules": [rule]}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def to_github(report: CheckReport, file: str) -> str:
    """Workflow commands of GitHub Actions: an annotation a set."""
    return "".join(
        f"::{_GITHUB[verdict]} file={_property(file)},title=fpmonitor check::{_data(sentence)}\n"
        for _, verdict, sentence in report.lines()
    )


def _xml(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold."""
    return _NO_XML.sub("\ufffd", text)


def _uri(file: str) -> str:
    """Relative reference, or the URI of an absolute path."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
