"""The report: one HTML file that people read, print, and pass on.

Nothing is loaded from elsewhere. A content security policy allows the one style sheet and the one
script of the file by their digests, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from fpmonitor.decide.guarantee import draws
from fpmonitor.export.lists import api_actions
from fpmonitor.policy import disclosed_from
from fpmonitor.render.answers import (
    WORDS_OF_APIS,
    exposure_told,
    names_output,
    values_told,
)
from fpmonitor.render.decisions import (
    bounds,
    called,
    counted,
    data_line,
    differing,
    drawn,
    headline,
    tolerance,
    undecided_lines,
)
from fpmonitor.render.figures import (
    Figure,
    of_conflicts,
    of_curve,
    of_exposures,
    of_ranking,
    of_tolerance,
    of_trend,
    of_trust,
)
from fpmonitor.render.svg import chart_style
from fpmonitor.render.tables import Table, TableColumn, broken_at_dots, columns, html_of_table
from fpmonitor.unit import Unit, spoken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fpmonitor.answers.demand import DemandLine
    from fpmonitor.answers.findings import Findings
    from fpmonitor.answers.trend import TrendReport
    from fpmonitor.decide.decision import Decision
    from fpmonitor.export.coverage import Coverage

_MOST_OPEN = 40
_MOST_SETS, _MOST_CELLS = 200, 4400  # so that the file stays small
_MOST_LINES = 40
_TITLE = "Which browser APIs a site may read together"
_MARKS = {
    "exact": "✓",
    "over-blocking": "✓ and more",
    "untried": "not tried",
    "by-passable": "by-passable",
    "header-only": "header",
    "impossible": "–",
    "unknown": "?",
}


def write_html(findings: Findings) -> str:
    """Write the report, an HTML document of its own."""
    sections = [
        ("recommended", "What one site may read together", _recommended(findings)),
        ("apis", "The APIs one by one", _apis(findings)),
        ("curves", "Exposure curves", "".join(map(figure_html, map(of_curve, findings.curves)))),
        ("entropy", "Entropy against exposure", _entropy(findings)),
        ("trust", "The price of trust", _trust(findings)),
        ("more", "What one more API would cost", _one_more(findings)),
        ("border", "All that is allowed", _border(findings.decision)),
        ("conflicts", "What is not allowed together", _conflicts(findings.decision)),
        ("open", "What is undecided, and what would decide it", _undecided(findings.decision)),
        ("bias", "How biased the sample may be", _tolerance(findings.decision)),
        ("time", "Over time", _trend(findings.trend)),
        ("demand", "What scripts read", _demand(findings.demand)),
        ("coverage", "What products can carry out", _coverage(findings.coverage)),
        ("limits", "What the data cannot show", _limits(findings)),
    ]
    decision = findings.decision
    return html_page(
        _TITLE,
        f'<p class="lead">{escape(headline(decision))}</p>{chips(decision.recommended)}'
        + paragraphs(
            (counted(decision), bounds(decision)),
            (decision.guarantee, drawn(decision)),
            (_data(findings),),
        ),
        sections,
        made=findings.made,
        k=decision.policy.k,
        unit=decision.unit,
    )


def html_page(
    title: str,
    lead: str,
    sections: Sequence[tuple[str, str, str]],
    *,
    made: datetime,
    k: int,
    unit: Unit = "user",
) -> str:
    """Write a document of sections: what each is called in addresses, its title, and its HTML.

    Those without content are left out; `lead` stands below the title, as HTML. It speaks of what
    was counted.
    """
    # `spoken` passes over names, addresses and attributes, so it may read HTML.
    lead = spoken(lead, unit)
    sections = [(name, spoken(title, unit), spoken(body, unit)) for name, title, body in sections]
    style = f"{_static('report.css')}\n{chart_style()}"
    script = _static("report.js")
    # Digests: a nonce that everybody can read in the file would protect nothing.
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    contents = "".join(
        f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, body in sections if body
    )
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">'
        f"{escape(title)}</h2>{body}</section>"
        for name, title, body in sections
        if body
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title>"
        f"<style>{style}</style></head><body>"
        '<a class="skip" href="#main">To the findings</a>'
        f"<header><h1>{escape(title)}</h1>{lead}</header>"
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav><main id="main">{body}</main>'
        f"<footer><p>Made by fpmonitor on {made:%Y-%m-%d at %H:%M} UTC. Numbers of fewer than "
        f"{disclosed_from(k)} {unit}s are omitted.</p></footer>"
        f"<script>{script}</script></body></html>\n"
    )


def paragraphs(*lists: Sequence[str]) -> str:
    """Return paragraphs of sentences; empty ones are left out."""
    return "".join(f"<p>{escape(' '.join(filter(None, said)))}</p>" for said in lists if any(said))


def chips(apis: Sequence[str]) -> str:
    """Return names of APIs as a list in a line; empty for none."""
    items = "".join(f"<li>{broken_at_dots(api)}</li>" for api in apis)
    return items and f'<ul class="chips">{items}</ul>'


def _data(findings: Findings) -> str:
    """Say on which data the report is, and whether the decision was made on others."""
    line = data_line(
        findings.name,
        users=findings.users,
        visits=findings.visits,
        days=findings.days,
        account=findings.decision.account if findings.is_current else {},
    )
    if findings.is_current:
        return line
    return f"{line} The decision was made on other data, of {findings.decision.users:,} users."


def _recommended(findings: Findings) -> str:
    decision = findings.decision
    rows = [
        (called(entry), entry.outcome, entry.reason, decision.verdict([entry.api])[0])
        for entry in api_actions(decision)
    ]
    return table_html(
        Table(
            title="An outcome for each API",
            columns=[
                TableColumn("API"),
                TableColumn("outcome", "outcome"),
                TableColumn("why"),
                TableColumn("alone", "verdict"),
            ],
            rows=rows,
        )
    )


def _apis(findings: Findings) -> str:
    figure = of_exposures(
        findings.alone, title="Exposure of each API alone", budget=findings.decision.policy.budget
    )
    overview = Table.of(
        findings.overview,
        title="All observed APIs",
        columns=[
            *names_output(findings.overview),
            *columns("count", "users"),
            *columns("short share", "coverage"),
            *columns("text", ("values", values_told)),
            *columns("decimal", ("entropy, bits", "entropy_bits")),
            *columns("text", ("exposed users", exposure_told)),
            *columns("text", ("volatile", lambda line: "yes" if line.volatile else "no")),
            *columns("short share", ("changes between visits", "changes")),
        ],
    )
    return f"{figure_html(figure)}{table_html(overview)}<p>{escape(WORDS_OF_APIS)}</p>"


def _entropy(findings: Findings) -> str:
    return figure_html(of_ranking(findings.ranking)) if findings.ranking.sets else ""


def _trust(findings: Findings) -> str:
    if findings.recommended is None or not findings.recommended.trust:
        return ""
    return figure_html(of_trust(findings.recommended))


def _one_more(findings: Findings) -> str:
    if not findings.one_more:
        return ""
    figure = of_exposures(
        findings.one_more,
        title="The recommended set with one more API",
        budget=findings.decision.policy.budget,
        beyond=findings.decision.recommended,
        remark=(
            " Each bar holds for itself; the decision holds for all sets at once, and blocks sets "
            "whose bar alone is within the budget."
        ),
    )
    return figure_html(figure)


def _border(decision: Decision) -> str:
    if not decision.allow:
        return "<p>No set is allowed.</p>"
    # The largest first, as only so many are shown.
    sets = sorted(decision.allow, key=lambda apis: (-len(apis), apis))
    apis = decision.policy.candidates
    shown = sets[: min(_MOST_SETS, max(_MOST_CELLS // len(apis), 1))]
    boxes = "".join(
        f'<label><input type="checkbox" value="{place}"> <b>{place + 1}</b> {escape(api)}</label>'
        for place, api in enumerate(apis)
    )
    # Names in a head would take more room than the sets: numbers, which the boxes above explain.
    head = "".join(
        f'<th scope="col" title="{escape(api)}"><span aria-hidden="true">{place}</span>'
        f'<span class="hidden">{escape(api)}</span></th>'
        for place, api in enumerate(apis, start=1)
    )
    rows = []
    for number, members in enumerate(shown, start=1):
        members_of_set = set(members)
        places = " ".join(str(place) for place, api in enumerate(apis) if api in members_of_set)
        cells = "".join(
            f'<td class="in" title="{escape(api)}">●<span class="hidden">in</span></td>'
            if api in members_of_set
            else "<td></td>"
            for api in apis
        )
        rows.append(
            f'<tr data-apis="{places}"><th scope="row">{number}</th>{cells}'
            f"<td>{len(members)}</td></tr>"
        )
    left_out = (
        f" The {len(shown)} largest of {len(sets):,} are shown." if len(sets) > len(shown) else ""
    )
    return (
        "<p>Each row is a largest allowed set: a site may read it, or any part of it, and nothing "
        f"else.{left_out}</p>"
        '<fieldset id="filter"><legend>Only sets that hold</legend>'
        f'{boxes}</fieldset><p role="status" id="shown">{len(shown)} of the {len(shown)} shown</p>'
        '<div class="wide" tabindex="0" role="region" aria-label="Allowed sets"><table id="sets">'
        f'<caption>Largest allowed sets</caption><thead><tr><th scope="col">set</th>{head}'
        f'<th scope="col">APIs</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _conflicts(decision: Decision) -> str:
    figure = of_conflicts(decision)
    return "" if figure is None else f"{figure_html(figure)}{table_html(differing(decision))}"


def _undecided(decision: Decision) -> str:
    lines = undecided_lines(decision) if decision.users_possible else []
    more = f"<p>And {len(lines) - _MOST_OPEN:,} more.</p>" * (len(lines) > _MOST_OPEN)
    items = "".join(f"<li>{broken_at_dots(line)}</li>" for line in lines[:_MOST_OPEN])
    return items and f"<p>Undecided sets, the smallest first.</p><ul>{items}</ul>{more}"


def _tolerance(decision: Decision) -> str:
    figure = of_tolerance(decision)
    return "" if figure is None else f"<p>{escape(tolerance(decision))}</p>{figure_html(figure)}"


def _trend(trend: TrendReport | None) -> str:
    return "" if trend is None else figure_html(of_trend(trend))


def _demand(lines: Sequence[DemandLine]) -> str:
    if not lines:
        return ""
    table = Table.of(
        lines[:_MOST_LINES],
        title="Sets that scripts read, the most exposing first",
        columns=[
            *columns("text", ("APIs read together", lambda line: " + ".join(line.apis))),
            *columns("count", "sites", "scripts"),
            *columns("short share", ("lower", lambda line: getattr(line.exposure, "lower", None))),
            *columns("short share", ("upper", lambda line: getattr(line.exposure, "upper", None))),
            *columns("text", ("never observed", lambda line: ", ".join(line.unobserved) or None)),
        ],
    )
    return (
        f"<p>Sets that scripts were seen to read, and what they expose here.</p>{table_html(table)}"
    )


def _called(row: Mapping[str, str]) -> str:
    return f"{row['api']} ({row['means']})" if "means" in row else row["api"]


def _coverage(coverage: Coverage) -> str:
    content = coverage.to_json()
    formats = sorted(coverage.verdicts)
    rows = [
        (_called(row), row["outcome"], *(_MARKS.get(row.get(name, ""), "–") for name in formats))
        for row in content["apis"]
    ]
    together = ", ".join(coverage.together) or "no format"
    missed = (
        f" No format hides {', '.join(coverage.missed)}."
        if coverage.missed
        else " Nothing that is blocked and known escapes them."
        if coverage.unknown
        else " Nothing that is blocked escapes them."
    )
    if coverage.unknown:
        missed += f" Names not known to fpmonitor (?): {', '.join(coverage.unknown)}."
    return (
        f"<p>The fewest formats that hide all that can be hidden: {escape(together)}."
        f"{escape(missed)}</p>"
        + table_html(
            Table(
                title="What each export format does",
                columns=[
                    TableColumn("API"),
                    TableColumn("outcome", "outcome"),
                    *columns("text", *formats),
                ],
                rows=rows,
            )
        )
    )


def _limits(findings: Findings) -> str:
    decision, automation = findings.decision, findings.automation
    volatile = [line.api for line in findings.overview if line.volatile]
    looks = {
        "shared": "count as one value that all users of the browser family share; a site that "
        "removes the noise learns more",
        "left-out": "are left out",
        "raw": "count as they were logged, which makes users look unique who are not",
    }[decision.view.volatile]
    if automation is None:
        automated = "not known, as values are kept as digests"
    elif automation.automated is None:
        automated = "fewer than can be shown"
    else:
        automated = f"{automation.automated:,}"
    is_average = not (decision.policy.realised or decision.policy.delta is None)
    average = (
        " It is about the average over such populations: in one of them, more users may be exposed."
        if is_average
        else ""
    )
    lines = [
        (
            f"The guarantee holds if the {decision.users:,} users of the decision and those whom "
            f"sites will see are {draws(decision.policy.sample)}.{average} Consent, country and "
            "time of collection decide who is in the data; no statistic corrects that beyond what "
            "is said here."
        ),
        "A person with several browsers is several users, and so is a browser with several ids.",
        f"Users that look automated: {automated}; "
        + ("they are left out." if decision.view.drop_automation else "they count like others."),
        (
            "Browsers change: a new release can move every number. `fpmonitor check` and "
            "`fpmonitor exposure --by week` show whether one did."
        ),
        "Sets contain candidates only. A site that also reads another API learns more.",
    ]
    if any(report.suppressed for report in (*findings.alone, *findings.one_more)):
        few = decision.policy.k
        lines.append(f"Where 1 to {few - 1} users are exposed, {few - 1} are shown.")
    if volatile:
        lines.append(f"Values that browsers randomise by design ({', '.join(volatile)}) {looks}.")
    if findings.sources:
        lines.append(f"Values of several sources are read together: {', '.join(findings.sources)}.")
    if not decision.complete:
        lines.append(f"{decision.unlisted} What no listed set settles is not known.")
    lines += findings.untold
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def figure_html(figure: Figure) -> str:
    """Return a figure with its note and its data."""
    return (
        f"<figure><figcaption><strong>{escape(figure.title)}.</strong> {escape(figure.note)}"
        f"</figcaption>{figure.svg}<details><summary>Data</summary>{table_html(figure.table)}"
        "</details></figure>"
    )


def table_html(table: Table) -> str:
    """Return a table that scrolls on narrow screens."""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f"{html_of_table(table)}</div>"
    )


def _static(name: str) -> str:
    return (resources.files("fpmonitor.render") / name).read_text(encoding="utf-8").strip()


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
