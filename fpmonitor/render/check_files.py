"""The outcome of a check as files that programs read which run checks: JUnit, SARIF, GitHub."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree as ET

from fpmonitor.policy import per_cent
from fpmonitor.render.numbers import between
from fpmonitor.unit import spoken
from fpmonitor.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.answers.check import CheckReport
    from fpmonitor.decide.decision import ApiSet, Verdict

_RULE = "exposure-within-budget"
# SARIF 2.1.0, 3.27.10: the level is `none` wherever the kind is not `fail`.
_SARIF = {
    "allow": ("pass", "none"),
    "block": ("fail", "error"),
    "undecided": ("open", "none"),
}
_GITHUB = {"allow": "notice", "block": "error", "undecided": "warning"}
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: CheckReport, file: str) -> str:
    """Return JUnit XML with one case per set: a violated one is a failure, an open one skipped."""
    cases = list(check_sentences(report))
    verdicts = [verdict for _, verdict, _ in cases]
    counts = {
        "tests": str(len(cases)),
        "failures": str(verdicts.count("block")),
        "errors": "0",
        "skipped": str(verdicts.count("undecided")),
    }
    root = ET.Element("testsuites", {"name": "fpmonitor check", **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _xml(file), **counts})
    for apis, verdict, sentence in cases:
        case = ET.SubElement(suite, "testcase", classname=_RULE, name=_xml(named_set(apis)))
        if verdict != "allow":
            kind = "failure" if verdict == "block" else "skipped"
            problem = ET.SubElement(case, kind, message=_xml(sentence))
            problem.text = _xml(sentence)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def to_sarif(report: CheckReport, file: str) -> str:
    """Return SARIF 2.1.0, one result per set; `open` is its word for undecided."""
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
            # By its set, so that a code host takes a result for the same one in the next run.
            "partialFingerprints": {"apiSet/v1": json.dumps(list(apis), ensure_ascii=False)},
        }
        for apis, verdict, sentence in check_sentences(report)
    ]
    driver = {"name": "fpmonitor", "version": __version__, "rules": [rule]}
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def to_github(report: CheckReport, file: str) -> str:
    """Return workflow commands of GitHub Actions: one for each set that does not pass."""
    found = [(verdict, sentence) for _, verdict, sentence in check_sentences(report)]
    failing = [line for line in found if line[0] != "allow"]
    if len(failing) < len(found):
        failing.append(("allow", f"{len(found) - len(failing):,} of {len(found):,} sets hold"))
    return "".join(
        f"::{_GITHUB[verdict]} file={_property(file)},title=fpmonitor check::{_data(sentence)}\n"
        for verdict, sentence in failing
    )


def check_sentences(
    report: CheckReport, *, figures: str = " ({})"
) -> Iterator[tuple[ApiSet, Verdict, str]]:
    """Yield each set of a check, its verdict, and both in words; limits and budget as `figures`."""
    policy = report.decision.policy
    most = f"{per_cent(policy.budget)} %"
    budget, average = (
        f"{most} of the users{how}, in groups of fewer than {policy.k}"
        for how in ("", "" if report.exact else " on average")
    )
    says = {
        "allow": f"exposes at most {budget if policy.realised else average}",
        "block": f"exposes more than {average}",
        "undecided": f"may or may not expose more than {average}",
    }
    for apis, verdict in report.verdicts.items():
        limits = figures.format(f"{between(*report.limits[apis])}, budget {most}")
        more = _open(report, report.limits[apis][1]) if verdict == "undecided" else ""
        lacking = sorted(set(apis) & set(report.lacking))
        if report.lacks_all:
            more = f"; fewer than {policy.k} users have a value of any API of the list"
        elif lacking:
            more += f"; fewer than {policy.k} users have a value of {', '.join(lacking)}"
        more += "; last values alone were tested" * report.visits_unread
        said = spoken(f"{says[verdict]}{limits}{more}", report.decision.unit)
        yield apis, verdict, f"{named_set(apis)} {said}"


def named_set(apis: ApiSet) -> str:
    """Name the APIs of a set in words."""
    return ", ".join(apis) or "no API of the decision"


def _open(report: CheckReport, upper: float) -> str:
    """Say what would decide on a set; of one window, no second look lets it pass."""
    if report.period is None:
        return "; more users would decide it"
    is_close = upper <= report.decision.policy.budget
    why = "; windows are tested more strictly, by their first look" if is_close else ""
    return f"{why}; more users would decide it, in a later {report.period}"


def _xml(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold."""
    return _NO_XML.sub("\ufffd", text)


def _uri(file: str) -> str:
    """Relative reference, or the URI of an absolute path."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _data(text: str) -> str:
    # The percent sign first, or the others would be escaped twice.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    # In a property a colon ends the command's head, and a comma the property.
    return _data(text).replace(":", "%3A").replace(",", "%2C")
