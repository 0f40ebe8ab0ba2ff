"""DuckDuckGo's tracker-radar-collector: one JSON file a site, with the API calls of its scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.calls import script_of, site_of
from fpmonitor.collectors.records import first_records, json_records
from fpmonitor.logs.contract import Call
from fpmonitor.vocabulary import api_of_instrumented

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.logs.log_file import LogFile


class TrackerradarCollector:
    """Reads `data.apis.callStats`: script -> `Interface.prototype.member` -> number of calls."""

    name: ClassVar[str] = "trackerradar"

    def recognises(self, log: LogFile) -> bool:
        """Whether the first record is the result of a site."""
        return any(_call_stats(record) is not None for record in first_records(log))

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the calls; a record that holds none yields one that names nothing."""
        for record in json_records(log):
            stats = _call_stats(record.content)
            if stats is None:
                problem = record.problem or "no calls of a site"
                yield Call("", "", "", 0, record.line, record.text, problem)
                continue
            url = record.content.get("finalUrl") or record.content.get("initialUrl")
            site = site_of(url) if isinstance(url, str) else ""
            for script, symbols in stats.items():
                yield from _calls_of_script(record.line, site, script, symbols)


def _calls_of_script(line: int, site: str, script: str, symbols: Any) -> Iterator[Call]:
    place = script_of(script) or site
    for symbol, calls in symbols.items() if isinstance(symbols, dict) else [("", 0)]:
        # In Python, true is an int.
        whole = isinstance(calls, int) and not isinstance(calls, bool)
        api = api_of_instrumented("trackerradar", symbol) if symbol else ""
        yield Call(site, place, api, calls if whole else 0, line, f"{symbol} {script}")


def _call_stats(record: Any) -> dict[str, Any] | None:
    content = record
    for name in ("data", "apis", "callStats"):
        content = content.get(name) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else None
