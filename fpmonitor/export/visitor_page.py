"""A page that shows visitors whether they are in a crowd: it reads their browser, sends nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from fpmonitor.errors import InputError
from fpmonitor.export.exporter import ExportOptions, ExportResult, PlainExporter
from fpmonitor.export.gate_js import script_safe
from fpmonitor.unit import spoken

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision
    from fpmonitor.export.exporter import Crowds

_TABLE = re.compile(r'<script type="application/json" id="table">(.*?)</script>', re.DOTALL)
_WITHOUT = "export: visitor-page compares with users, and none were named"


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitorPage(PlainExporter):
    """Writes the page from what at least k users share: `ExportOptions.crowds`."""

    def export(self, decision: Decision, options: ExportOptions) -> ExportResult:
        """Write the page.

        Raises:
            InputError: No users to compare with.
        """
        if options.crowds is None:
            raise InputError(_WITHOUT, hint="--db FILE names the database with the users")
        plain = PlainExporter.export(self, decision, options)
        text = write_page(decision, options.crowds())
        if problems := self.check(text):
            raise ValueError(problems[0])
        note = "the page holds values: only those that at least k users share"
        return ExportResult(text=text, verdicts=plain.verdicts, notes=(note,))


def write_page(decision: Decision, crowds: Crowds) -> str:
    """Write the page: one file, without addresses."""
    names = {api: decision.means(api) for api in decision.policy.candidates}
    table = {
        "k": decision.policy.k,
        "apis": {
            api: {
                "read": name,
                "values": list(crowds.values[api]) if api in crowds.values else None,
                "why": crowds.why.get(api, ""),
            }
            for api, name in names.items()
        },
        "sets": [
            {"apis": list(apis), "values": [list(one) for one in tuples]}
            for apis, tuples in zip(crowds.sets, crowds.tuples, strict=True)
        ],
    }
    filled = {
        "K": str(decision.policy.k),
        "USERS": f"{crowds.users:,}",
        "APIS": "".join(
            f'<tr data-api="{html.escape(api)}"><th scope="row">{html.escape(api)}</th>'
            '<td class="value"></td><td class="answer"></td></tr>\n'
            for api in names
        ),
        "SETS": "".join(
            f'<li data-set="{at}">{html.escape(", ".join(apis))}'
            f"{' (recommended)' * (apis == decision.recommended)}: "
            '<span class="answer"></span></li>\n'
            for at, apis in enumerate(crowds.sets)
        )
        or "<li>Nothing is allowed together.</li>",
    }
    filled |= {"POLICY": _policy(), "SCRIPT": _script()}
    words = spoken(_page(), crowds.unit)
    # A function: in a text a backslash of some name would mean a group.
    text = re.sub(r"\{\{([A-Z]+)\}\}", lambda found: filled[found[1]], words)
    content = script_safe(json.dumps(table, ensure_ascii=True, separators=(",", ":")))
    table_of = '<script type="application/json" id="table">{}</script>'
    head, foot = text.rsplit("<!-- table -->", 1)
    return head + table_of.format(content) + foot


def _check(text: str) -> list[str]:
    """Problems of a page: code that is not ours, a table that is none, or one that is open."""
    found = _TABLE.search(text)
    if found is None or f"<script>{_script()}</script>" not in text or _policy() not in text:
        return ["the code is not the one of this version of fpmonitor"]
    try:
        table: Any = json.loads(found[1])
        values = [one["values"] for one in (*table["apis"].values(), *table["sets"])]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return [f"not a table of values: {error}"]
    return [] if all(one is None or isinstance(one, list) for one in values) else ["no lists"]


@cache
def _script() -> str:
    built = resources.files("fpmonitor.collectors") / "browser" / "visitor-page.js"
    return built.read_text(encoding="utf-8").strip()


@cache
def _policy() -> str:
    """Content security policy: this script and this style run, and nothing is sent or loaded."""
    style = re.search(r"<style>(.*?)</style>", _page(), re.DOTALL)
    parts = [_digest(_script()), _digest(style[1] if style else "")]
    return (
        f"default-src 'none'; script-src '{parts[0]}'; style-src '{parts[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _page() -> str:
    return (resources.files("fpmonitor.export") / "visitor_page.html").read_text(encoding="utf-8")


VISITOR_PAGE = VisitorPage(
    name="visitor-page",
    summary="page that shows visitors whether they are in a crowd, and sends nothing",
    write=lambda _decision: "",
    check=_check,
)
