"""Scripts as lists in the forms that others read: blockers, Tracker Radar, HTTP Archive.

Names of hosts and paths come from a crawl, where a page may have put anything: what is no plain
host name or path is in no list of rules.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Literal

from fpmonitor.export.exporter import is_site
from fpmonitor.render.output import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fpmonitor.answers.scripts import ScriptLine, ScriptReport
    from fpmonitor.decide.decision import Verdict

ScriptForm = Literal["adblock", "custom-metrics", "disconnect", "tracker-radar", "api-weights"]
# Tracker Radar's scale: 0 uses no API that counts, 3 certainly tells browsers apart.
_SCORES: dict[Verdict, int] = {"allow": 1, "undecided": 2, "block": 3}
_PATH = re.compile(r"[A-Za-z0-9._~%/@+!:-]*")


def script_list(report: ScriptReport, form: ScriptForm) -> str:
    """Return the scripts in one form: rules for what is above the budget, or all as data."""
    return _FORMS[form](report)


def script_rule(script: str) -> str:
    """Return the rule against a script, or all scripts of a host, on sites of others."""
    # Against scripts on sites of others alone, where `is_foreign` has seen one.
    return f"||{script}^$script,third-party"


def unlisted(report: ScriptReport) -> int:
    """Count scripts above the budget that are in no list of rules.

    They run on sites of their own host alone, or are called what no rule can hold.
    """
    blocked = [line for line in report.scripts if line.verdict == "block"]
    return len(blocked) - len(_blocked(report))


def _blocked(report: ScriptReport) -> list[ScriptLine]:
    return [line for line in report.scripts if line.verdict == "block" and _is_listable(line)]


def _is_listable(line: ScriptLine) -> bool:
    _, slash, path = line.script.partition("/")
    # A `$`, comma or `|` in a path would be a part of the rule: no author of a script writes any.
    return line.is_foreign and is_site(line.host) and bool(_PATH.fullmatch(slash + path))


def _adblock(report: ScriptReport) -> str:
    rules = [script_rule(line.script) for line in _blocked(report)]
    return "\n".join(["! Title: Scripts above the budget of a decision", *rules]) + "\n"


def _disconnect(report: ScriptReport) -> str:
    hosts = sorted({line.host for line in _blocked(report)})
    companies = [{host: {f"https://{host}/": [host]}} for host in hosts]
    return to_json({"categories": {"FingerprintingInvasive": companies}})


def _tracker_radar(report: ScriptReport) -> str:
    # Sites on which a script was seen: of a page that loads none the crawl says nothing.
    crawled = len({site for line in report.scripts for site in line.sites})
    by_host: dict[str, list[ScriptLine]] = defaultdict(list)
    for line in report.scripts:
        if _is_listable(line):
            by_host[line.host].append(line)
    return to_json([_domain(host, lines, crawled) for host, lines in sorted(by_host.items())])


def _domain(host: str, lines: list[ScriptLine], crawled: int) -> dict[str, Any]:
    sites = len({site for line in lines for site in line.sites})
    return {
        "domain": host,
        "owner": {},
        "prevalence": sites / crawled,
        "sites": sites,
        "fingerprinting": max(map(_score, lines)),
        "resources": [
            {
                "rule": re.escape(line.script).replace("/", r"\/"),
                "fingerprinting": _score(line),
                "apis": {_instrumented(api): count for api, count in line.apis.items()},
                "sites": len(line.sites),
                "prevalence": len(line.sites) / crawled,
                "type": "Script",
            }
            for line in lines
        ],
    }


def _score(line: ScriptLine) -> int:
    return _SCORES[line.verdict] if line.reads.apis or line.unobserved else 0


def _instrumented(api: str) -> str:
    """Return an API as instrumentation calls it: `Navigator.prototype.userAgent`."""
    # Stored under the name that the instrumentation gave, behind its source.
    if api.startswith("x:"):
        return api.split(":", 2)[2]
    interface, _, member = api.rpartition(".")
    return f"{interface}.prototype.{member}" if interface else api


def _api_weights(report: ScriptReport) -> str:
    weights = sorted(report.weights.items(), key=lambda item: (-item[1], item[0]))
    return to_json({_instrumented(api): exposure for api, exposure in weights})


def _custom_metrics(report: ScriptReport) -> str:
    pages: Mapping[str, tuple[Counter[str], list[str]]]
    pages = defaultdict(lambda: (Counter(), []))
    for line in report.scripts:
        for site in line.sites:
            counts, scripts = pages[site]
            counts.update(line.apis.keys())
            if line.verdict == "block":
                scripts.append(f"https://{line.script}")
    lines = [
        {
            "page": f"https://{site}/",
            "custom_metrics": {
                "privacy": {
                    "fingerprinting": {
                        "counts": dict(sorted(counts.items())),
                        "likelyFingerprintingScripts": scripts,
                    }
                }
            },
        }
        for site, (counts, scripts) in sorted(pages.items())
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


_FORMS: dict[ScriptForm, Callable[[ScriptReport], str]] = {
    "adblock": _adblock,
    "custom-metrics": _custom_metrics,
    "disconnect": _disconnect,
    "tracker-radar": _tracker_radar,
    "api-weights": _api_weights,
}
