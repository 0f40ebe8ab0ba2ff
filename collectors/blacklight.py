"""Blacklight: the `inspection.json` of The Markup's collector, one a site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.calls import script_of, site_of
from fpmonitor.collectors.records import first_records, json_records
from fpmonitor.logs.contract import Call
from fpmonitor.vocabulary import api_of_instrumented

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.logs.log_file import LogFile

_CALLS = "fingerprintable_api_calls"
# What scripts did that counts as fingerprinting: report, and its part that names them -> API.
_DEEDS = {
    ("canvas_fingerprinters", "data_url"): "HTMLCanvasElement.toDataURL",
    ("canvas_fingerprinters", "fingerprinters"): "HTMLCanvasElement.toDataURL",
    ("canvas_font_fingerprinters", "canvas_font"): "CanvasRenderingContext2D.measureText",
    ("canvas_font_fingerprinters", "text_measure"): "CanvasRenderingContext2D.measureText",
}
_REPORTS = {_CALLS, *(report for report, _ in _DEEDS)}


class BlacklightCollector:
    """Reads which APIs scripts called on a site; how often is not told, so that each is one call.

    Reports on cookies, keys, sessions and pixels tell no APIs, and are not read.
    """

    name: ClassVar[str] = "blacklight"

    def recognises(self, log: LogFile) -> bool:
        """Whether the first record is an inspection."""
        return any(_reports(record) for record in first_records(log))

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the calls; a record that is no inspection yields one that names nothing."""
        for record in json_records(log):
            reports = _reports(record.content)
            if not reports:
                problem = record.problem or "no inspection of Blacklight"
                yield Call("", "", "", 0, record.line, record.text, problem)
                continue
            page = record.content.get("uri_dest") or record.content.get("uri_ins")
            site = site_of(page) if isinstance(page, str) else ""
            for script, api in dict.fromkeys(_found(reports)):
                yield Call(site, script_of(script) or site, api, 1, record.line, f"{api} {script}")


def _reports(record: Any) -> dict[str, Any]:
    """Return what tells of APIs in an inspection; nothing of anything else."""
    reports = record.get("reports") if isinstance(record, dict) else None
    if not isinstance(reports, dict) or not {"uri_ins", "uri_dest"} & record.keys():
        return {}
    return {name: report for name, report in reports.items() if name in _REPORTS}


def _found(reports: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Scripts and the APIs that they called."""
    for scripts in _values(reports.get(_CALLS)):
        for script, symbols in scripts.items() if isinstance(scripts, dict) else ():
            for symbol in symbols if isinstance(symbols, list) else ():
                yield script, _api(symbol)
    for (report, part), api in _DEEDS.items():
        content = reports.get(report)
        scripts = content.get(part) if isinstance(content, dict) else None
        for script in scripts if isinstance(scripts, list | dict) else ():
            yield str(script), api


def _values(content: Any) -> list[Any]:
    return list(content.values()) if isinstance(content, dict) else []


def _api(symbol: Any) -> str:
    """Name of a symbol; an interface alone (`RTCPeerConnection`) is made by its constructor."""
    if not isinstance(symbol, str) or not symbol:
        return ""
    found = api_of_instrumented("blacklight", symbol)
    made = api_of_instrumented("blacklight", f"{symbol}.constructor")
    return made if found.startswith("x:") and not made.startswith("x:") else found
