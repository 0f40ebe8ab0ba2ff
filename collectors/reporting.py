"""Reporting API: violations of a Permissions-Policy, as browsers post them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.calls import script_of, site_of
from fpmonitor.collectors.records import first_records, json_records
from fpmonitor.logs.contract import Call
from fpmonitor.vocabulary import api_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.logs.log_file import LogFile

REPORT_TYPE = "permissions-policy-violation"


class ReportingCollector:
    """Reads batches of reports: an array a line, one array, or one report a line.

    The feature stands in `policyId` on the wire and in `featureId` in a page. Only host and path of
    the page and of the script are kept.
    """

    name: ClassVar[str] = "reporting"

    def recognises(self, log: LogFile) -> bool:
        """Whether one of the first records holds a violation of a policy."""
        return any(
            isinstance(report, dict) and report.get("type") == REPORT_TYPE
            for record in first_records(log)
            for report in _reports(record)
        )

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the violations, each a call."""
        for record in json_records(log):
            for report in _reports(record.content):
                yield call_of(report)


def _reports(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]


def call_of(report: Any) -> Call:
    """Tell what a report says; nothing of one that is no violation."""
    body = report.get("body") if isinstance(report, dict) else None
    # Reports on other things, such as deprecations, come in the same batches.
    if not isinstance(body, dict) or report.get("type") != REPORT_TYPE:
        return Call("", "", "", 0)
    feature = body.get("policyId") or body.get("featureId")
    page, script = report.get("url"), body.get("sourceFile")
    site = site_of(page) if isinstance(page, str) else ""
    return Call(
        site,
        (script_of(script) if isinstance(script, str) else "") or site,
        api_of("reporting", feature) if isinstance(feature, str) else "",
        1,
    )
