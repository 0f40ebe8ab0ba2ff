"""Decisions and what is made of them, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fpmonitor.account import summary_of
from fpmonitor.decide.guarantee import in_short, who_was_drawn
from fpmonitor.export.lists import api_actions
from fpmonitor.policy import DOWN, UP, sureness, upward
from fpmonitor.render.answers import masked_note
from fpmonitor.render.numbers import percent
from fpmonitor.render.output import Output
from fpmonitor.render.tables import Table, TableColumn, columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.account import Kind
    from fpmonitor.answers.apart import UnionBound
    from fpmonitor.answers.recommended import PeopleReport
    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.decide.questions import AnswerSummary, AskedQuestion, ListedQuestion
    from fpmonitor.export.coverage import Coverage
    from fpmonitor.export.lists import ApiAction
    from fpmonitor.export.plan import Plan
    from fpmonitor.population.population import Population
    from fpmonitor.population.snapshot import Days
    from fpmonitor.proof.numbers import Finding
    from fpmonitor.render.tables import Cell

_SHOWN_SETS = 3
_SHOWN_PARTNERS = 3
_DIFFERING, _AGAIN = 10, 0.6  # sets, and what an API still counts for each before that holds it
_COUNTERS = {"memory": ", counted by rows in memory", "duckdb": ", counted by queries of DuckDB"}
_SHORT = {
    "exact": "yes",
    "over-blocking": "yes+",
    "untried": "untried",
    "by-passable": "by-pass",
    "header-only": "header",
    "impossible": "-",
    "unknown": "?",
}


def decision(decided: Decision, data: str = "", people: PeopleReport | None = None) -> Output:
    """Return the answer, the guarantee, the data, what is recommended, and some of each border."""
    return Output(
        preface=tuple(
            filter(
                None,
                (
                    answer_of(decided),
                    bounds(decided),
                    *in_short(decided),
                    " ".join(behind_the_average(people)),
                    designed(decided),
                    drawn(decided),
                    tolerance(decided),
                    data,
                ),
            )
        ),
        tables=[*recommended(decided), borders(decided), *_of_many(decided)],
        rows=decided.rows(),
        document=decided.to_json(),
    )


def recommended(decided: Decision) -> list[Table]:
    """Return an action per API, or the level of each component; nothing where none is allowed."""
    title = "What one site may read together"
    if not decided.components:
        return [
            Table(
                title=title,
                columns=[TableColumn("API"), TableColumn("outcome", "outcome"), TableColumn("why")],
                # What is exposed stands in the answer above: what is not comes first, and why.
                rows=[
                    (called(entry), entry.outcome, entry.reason)
                    for entry in sorted(
                        api_actions(decided), key=lambda entry: entry.outcome == "exposed"
                    )
                ],
            )
        ]
    if not decided.has_recommended:
        return []
    return [
        Table(
            title=title,
            columns=[
                *columns("text", "component"),
                *columns("count", "level", "of"),
                *columns("text", "shows", "the next finer one shows"),
            ],
            rows=[
                (
                    component.name,
                    level,
                    len(component.levels),
                    component.words(level),
                    component.words(level + 1) if level < component.most else None,
                )
                for component, level in decided.recommended_levels()
            ],
        )
    ]


def borders(decided: Decision) -> Table:
    """Return how many sets have which verdict, and some of each."""
    noun, within, above = "sets", "all subsets", "all supersets"
    if decided.components:
        noun, within, above = "vectors", "all that are coarser", "all that are finer"
    tolerated = decided.bias_tolerated or (None,) * len(decided.allow)
    allowed = [
        named(decided, apis) + (f" (bias up to {bias:g})" if bias else "")
        for apis, bias in sorted(
            zip(decided.allow, tolerated, strict=True), key=lambda entry: -_size(decided, entry[0])
        )
    ]
    blocked = sorted(decided.block, key=lambda apis: _size(decided, apis))
    rows = [
        border(f"allowed, with {within}", allowed),
        border(f"blocked, with {above}", [named(decided, apis) for apis in blocked]),
        border("undecided", undecided_lines(decided)),
    ]
    return Table(
        title="Borders",
        caption=_borders_caption(decided),
        columns=[TableColumn("verdict"), TableColumn(noun, "count"), TableColumn("for example")],
        rows=rows,
        sections=frozenset(range(len(rows))),
    )


def _size(decided: Decision, apis: ApiSet) -> int:
    """Size by which sets are shown in order; vectors stay in theirs."""
    return 0 if decided.components else len(apis)


def named(decided: Decision, apis: ApiSet) -> str:
    """Return the APIs of a set, or the level of each component."""
    if not decided.components:
        return ", ".join(apis)
    return ", ".join(f"{name} {level}" for name, level in decided.lattice.told(apis).items())


def designed(decided: Decision) -> str:
    """Say from whom levels were designed."""
    part = decided.design
    if part is None:
        return ""
    tested = f", {part.tried:,} designs from coarse to fine" if part.tried > 1 else ""
    return (
        f"Levels were designed from {part.users:,} users, who were drawn blindly "
        f"({100 * part.share:.6g} %), and tested on the other {decided.users:,}{tested}."
    )


def _of_many(decided: Decision) -> list[Table]:
    """Return what is shown where the sets are too many to be listed."""
    if decided.components or decided.utility_possible is None:
        return []
    return [differing(decided), conflicts(decided)]


def differing(decided: Decision) -> Table:
    """Return allowed sets that differ: an API counts less for each set before that holds it."""
    left = [apis for apis in decided.allow if apis != decided.recommended]
    rows: list[tuple[Cell, ...]] = []
    counts = dict.fromkeys(decided.policy.candidates, 1.0)
    following = decided.recommended
    while following and len(rows) < _DIFFERING:
        new = sum(counts[api] == 1 for api in following)
        rows.append((len(following), new, ", ".join(following)))
        # Greedy: each set adds the most of what the sets before it do not hold.
        counts |= {api: counts[api] * _AGAIN for api in following}
        following = max(left, key=lambda apis: sum(map(counts.__getitem__, apis)), default=())
        left = [apis for apis in left if apis != following]
    return Table(
        title="Allowed sets that differ",
        caption="The recommended set first; each is allowed with all its subsets.",
        columns=[*columns("count", "APIs", "in none before"), TableColumn("set")],
        rows=rows,
    )


def conflicts(decided: Decision) -> Table:
    """Return the APIs that are not allowed alone, and of the others with how many and which."""
    refused = [apis for apis in (*decided.block, *decided.undecided) if len(apis) <= 2]
    never = sorted(apis[0] for apis in refused if len(apis) == 1)
    partners: dict[str, set[str]] = {}
    for apis in refused:
        # An API that is not allowed alone is in a pair with all others, which says nothing of
        # these.
        if len(apis) == 2 and not {*apis}.intersection(never):
            for api, other in (apis, apis[::-1]):
                partners.setdefault(api, set()).add(other)
    hardest = sorted(partners, key=lambda api: (-len(partners[api]), api))
    candidates = len(decided.policy.candidates)
    return Table(
        title="APIs that are not allowed alone, and pairs that are not",
        caption=(
            f"As far as listed, {candidates - len(never) - len(hardest):,} of {candidates:,} APIs "
            "are neither refused alone nor in such a pair. These are pairs only: APIs without a "
            "conflict need not be allowed all together."
        ),
        columns=[
            TableColumn("API"),
            TableColumn("conflicts", "count"),
            TableColumn("for example with"),
        ],
        rows=[
            *((api, None, "not allowed alone") for api in never),
            *(
                (api, len(partners[api]), ", ".join(_hardest_of(partners[api], hardest)))
                for api in hardest
            ),
        ],
    )


def _hardest_of(partners: set[str], hardest: Sequence[str]) -> list[str]:
    return [api for api in hardest if api in partners][:_SHOWN_PARTNERS]


def called(entry: ApiAction) -> str:
    """Return what the log calls an API, and what the vocabulary calls it where that differs."""
    return entry.api if entry.means == entry.api else f"{entry.api} ({entry.means})"


def answer_of(decided: Decision) -> str:
    """Say what a site may read, and how many sets have which verdict, or how good levels are."""
    if decided.components:
        return _answer_of_levels(decided)
    listed = f": {', '.join(decided.recommended)}" if decided.recommended else ""
    return f"{headline(decided)}{listed}. {counted(decided)}"


def _answer_of_levels(decided: Decision) -> str:
    budget = percent(decided.policy.budget, 2, away=DOWN)
    if not decided.has_recommended:
        return f"No level vector is certified to expose at most {budget} of the users."
    shown = [
        f"{component.name} ({component.words(level)})"
        for component, level in decided.recommended_levels()
        if level
    ]
    said = f"A site may read {', '.join(shown) or 'nothing'}: a utility of {decided.utility:.6g}"
    bound = decided.utility_bound or 0.0
    if bound > (decided.utility or 0.0):
        return f"{said}, and no allowed vector has more than {upward(bound, 6)}."
    return f"{said}, and no allowed vector has more."


def behind_the_average(people: PeopleReport | None) -> Iterator[str]:
    """Say of the recommended set who can be followed at all, and who is exposed more than others.

    What it assumes: docs/certificate/sentences.md.
    """
    if people is None:
        return
    if (visits := people.visits) is not None:
        for seen, exposed in (("One visit", visits.visit), ("All visits", visits.path)):
            yield (
                f"{seen} of each user with the recommended APIs: "
                f"{percent(exposed.empirical, 2)} of the users are exposed (limits "
                f"{percent(exposed.lower, 2, away=DOWN)} to {percent(exposed.upper, 2, away=UP)})."
            )
    yield (
        "No method that uses the recommended APIs alone links the visits of more than "
        f"{percent(people.linked, 2, away=UP)} of {people.population:,} users, on average."
    )
    if people.cohorts is None or people.most is None:
        return
    if (worst := people.worst) is not None:
        named = " on ".join(text or "unknown" for text in worst.given.values())
        yield (
            f"Worst-off group of at least {percent(people.listed_from)} of the users: {named}, "
            f"{percent(worst.empirical, 2)} of {worst.users:,} users exposed (limits "
            f"{percent(worst.lower, 2, away=DOWN)} to {percent(worst.upper, 2, away=UP)}"
            f"{', by last values' * (people.visits is not None)})."
        )
    each = f"each {' and '.join(people.kinds)} with {percent(people.least_share)} of the users"
    yield (
        f"Too few users to limit how many of {each} or more are exposed."
        if people.most >= 1
        else f"Of {each} or more, at most {percent(people.most, 2, away=UP)} are exposed."
    )


def drawn(decided: Decision) -> str:
    """Say how many users count where not all that were observed do."""
    who = decided.drawn
    said = who_was_drawn(who)
    if who is not None and who.unobserved:
        left = max(1 - who.unobserved / decided.policy.budget, 0)
        said += f" Those of whom nobody was drawn leave {100 * left:.3g} % of the budget."
    return said


def tolerance(decided: Decision) -> str:
    """Say how biased the sample may be for the recommended set, where it was asked for."""
    tolerated = dict(zip(decided.allow, decided.bias_tolerated or (), strict=False))
    bias = tolerated.get(decided.recommended)
    if bias is None:
        return ""
    return (
        f"What a site may read stays allowed up to a bias of {bias:g}. That is how often more, or "
        "less, any kind of user may come among the observed users than in the population."
    )


def bounds(decided: Decision) -> str:
    """Say how much better than the recommended set any other may be, where that is not plain."""
    if decided.utility is None or decided.utility_bound is None or decided.components:
        return ""
    if decided.complete and decided.utility_possible is None:
        return ""
    weighs = f"The recommended set weighs {decided.utility:.6g}"
    if decided.utility < decided.utility_bound:
        weighs += f"; no allowed set weighs more than {upward(decided.utility_bound, 6)}"
    else:
        weighs += ", and no allowed set more"
    if decided.utility_possible is None or decided.policy.delta is None:
        return f"{weighs}."
    likely = sureness(decided.policy.delta, times=100)
    return (
        f"{weighs}. With probability at least {likely} %, no set within the budget weighs more "
        f"than {upward(decided.utility_possible, 6)}."
    )


def headline(decided: Decision) -> str:
    """Say how many APIs a site may read."""
    if not decided.recommended:
        if decided.policy.candidates and not decided.evident:
            return "No API may be read: the data hold no evidence about any of them"
        return "No API at all is certified to stay within the budget"
    few, many = len(decided.recommended), len(decided.policy.candidates)
    return f"A site may read {few} of {many} APIs together"


def counted(decided: Decision) -> str:
    """Say how many sets have which verdict."""
    lacking = len(decided.no_evidence)
    unknown = f"No evidence about {lacking:,} {'API' if lacking == 1 else 'APIs'}." * (lacking > 0)
    verdicts = (
        f"{_sets(len(decided.allow), 'largest')} allowed, "
        f"{_sets(len(decided.block), 'smallest')} blocked, {_sets(len(decided.undecided))} "
        "undecided."
    )
    return " ".join(filter(None, (verdicts, unknown, decided.unlisted)))


def data_of(name: str, population: Population, *, users: int, k: int) -> str:
    """Say what the data are, and how many users were asked."""
    return data_line(
        name,
        users=users,
        visits=population.visits,
        days=population.days(k),
        account=population.members(k),
    )


def data_line(
    name: str,
    *,
    users: int,
    visits: int | None,
    days: Days | None,
    account: Mapping[Kind, int],
) -> str:
    """Say what the data are called, how much there is, of which days, and from which members."""
    parts = [name, f"{users:,} users"]
    if visits is not None and visits > users:
        parts.append(f"{visits:,} visits")
    if days is not None:
        parts.append(f"{days[0]} to {days[1]}")
    parts += [account_text] if (account_text := summary_of(account)) else []
    return f"Data: {', '.join(parts)}."


def _sets(number: int, which: str = "") -> str:
    noun = " ".join(filter(None, (which, "set" if number == 1 else "sets")))
    return f"{number:,} {noun} {'is' if number == 1 else 'are'}"


def border(verdict: str, lines: Sequence[str]) -> tuple[Cell, ...]:
    """Return a verdict, how many have it, and the first of them."""
    left_out = len(lines) - _SHOWN_SETS
    more = [f"... and {left_out:,} more"] if left_out > 0 else []
    return verdict, len(lines), [*lines[:_SHOWN_SETS], *more]


def undecided_lines(decided: Decision) -> list[str]:
    """Undecided sets, the smallest first, with the users that would decide them if known."""
    lines = with_ceilings(decided, [named(decided, apis) for apis in decided.undecided])
    if decided.users_needed is not None:
        needed = [_users(mean) for mean in decided.users_needed]
        if decided.users_range is not None:
            ranges = (f", {_users(low)} to {_users(high)}" for low, high in decided.users_range)
            needed = list(map(str.__add__, needed, ranges))
        lines = [f"{line} (users needed: {n})" for line, n in zip(lines, needed, strict=True)]
    order = sorted(range(len(lines)), key=lambda i: _size(decided, decided.undecided[i]))
    return [lines[i] for i in order]


def with_ceilings(decided: Decision, names: Sequence[str]) -> list[str]:
    """Return names of the undecided sets, in their order, with what any test could tell of them."""
    lines = list(names)
    for place, possible in enumerate((decided.users_possible or ())[: len(lines)]):
        if possible is not None and possible <= decided.users:
            lines[place] += " (a sharper test could decide it)"
        else:
            number = "" if possible is None else "about "  # evidence in proportion to the users
            number += _users(possible)
            lines[place] += f" (no test could from {decided.users:,} users: {number} are needed)"
    return lines


def _users(number: int | None) -> str:
    return "over 100 million" if number is None else f"{number:,}"


def _borders_caption(decided: Decision) -> str:
    ending = f" {decided.unlisted}".rstrip()
    if decided.components:
        return (
            f"{decided.evaluated:,} tests of level vectors in {decided.seconds:.1f} s. Levels are "
            f"counted from 0, withheld.{ending}"
        )
    if decided.cut is not None and decided.cut.searched:
        ending += " --max-sets lists more."
    elif not decided.complete and decided.confirmation is None:
        ending += " --resume goes on."
    if decided.users_needed:
        ending += (
            " Users needed: on average, if one looks as they come in (all looks are covered) and "
            "stops at the decision; then fewer than which, and more than which, are needed in one "
            "case of ten each, as far as these users tell."
        )
    return (
        f"{decided.evaluated:,} tests of sets of {len(decided.policy.candidates)} candidates in "
        f"{decided.seconds:.1f} s{_COUNTERS.get(decided.engine or '', '')}.{ending}"
    )


def questions_output(listed: Sequence[ListedQuestion]) -> Output:
    """Return what was registered and asked: which view, at which level, and the verdicts."""
    table = Table(
        title="Questions",
        caption="Sets on the lists of a decision: allowed / blocked / undecided.",
        columns=[
            *columns("text", "time (UTC)"),
            *columns("text", "kind", "view", spare=True),
            *columns("text", "k of n"),
            *columns("short share", "budget"),
            *columns("count", "APIs", "users"),
            *columns("significant", "level", spare=True),
            *columns("text", "sets"),
        ],
        rows=[
            [
                f"{entry.asked_at:%Y-%m-%d %H:%M}",
                _kind(entry),
                _view_words(entry.question),
                f"{entry.question.policy.k:,} of {entry.question.policy.population:,}",
                entry.question.policy.budget,
                len(entry.question.policy.candidates),
                *_answer_cells(entry.answer),
            ]
            for entry in listed
        ],
    )
    rows = [entry.to_json() for entry in listed]
    return Output(tables=[table], rows=rows, document={"questions": rows})


def _kind(entry: ListedQuestion) -> str:
    if entry.answer is None:
        return "registered"
    return "asked, registered" if entry.answer.registered else "asked"


def _answer_cells(answer: AnswerSummary | None) -> Sequence[Cell]:
    if answer is None:
        return ()
    # An interrupted search has found some of each.
    counts = f"{answer.allow:,} / {answer.block:,} / {answer.undecided:,}"
    return answer.users, answer.level, counts + " at least" * (not answer.complete)


def _view_words(question: AskedQuestion) -> Cell:
    """Say what differs from the base view."""
    view, window = question.view, question.window
    words = {
        "observed users alone": question.setting == "sample",
        "realised": question.policy.realised,
        "strata": question.policy.sample.strata,
        f"one of each {question.policy.sample.cluster}": question.policy.sample.cluster,
        f"bias up to {question.policy.sample.bias:g}": question.policy.sample.bias != 1,
        f"up to {100 * question.policy.sample.fake_share:.6g} % no users": (
            question.policy.sample.fake_share
        ),
        f"missing {question.missing}": question.missing != "value",
        f"source {window.source}": window.source,
        f"since {window.since}": window.since,
        f"until {window.until}": window.until,
        "without automation": view.drop_automation,
        f"volatile {view.volatile}": view.volatile != "shared",
        f"transforms of {', '.join(sorted(view.transforms))}": view.transforms,
    }
    return [word for word, differs in words.items() if differs] or "base"


def gate_output(answer: Mapping[str, Any]) -> Output:
    """Answer whether a site may read more: see `Decision.answer`."""
    table = Table(
        columns=[TableColumn("verdict", "verdict"), TableColumn("why")],
        rows=[(answer["verdict"], answer["reason"])],
    )
    return Output(tables=[table], rows=[answer], document=answer)


def coverage_output(found: Coverage) -> Output:
    """Return what each format enforces."""
    document = found.to_json()
    table = Table(
        title="What each format enforces",
        caption=(
            "yes: exact; yes+: over-blocking; untried: nobody looked in the product; "
            "by-pass: by-passable; header: header-only; "
            "-: impossible; ?: name not known to fpmonitor. "
            f"Together: {', '.join(found.together) or 'nothing to do'}. "
            f"Missed by all: {', '.join(found.missed) or 'none'}."
        ),
        columns=[
            TableColumn("API"),
            TableColumn("outcome", "outcome"),
            *columns("text", *found.verdicts),
        ],
        rows=[
            (row["api"], row["outcome"], *(_SHORT[row[name]] for name in found.verdicts))
            for row in document["apis"]
        ],
    )
    return Output(tables=[table], rows=document["apis"], document=document)


def proved(findings: Sequence[Finding]) -> Output:
    """Return what of a decision file is proved again."""
    rows = [
        {"claim": claim, "apis": list(apis), "answer": answer, "reason": reason}
        for claim, apis, answer, reason in findings
    ]
    table = Table.of(
        rows,
        title=f"{sum(row['answer'] == 'proved' for row in rows)} of {len(rows)} claims are proved",
        columns=columns(
            "text",
            "claim",
            ("set", lambda row: ", ".join(row["apis"]) or None),
            "answer",
            ("reason", lambda row: row["reason"] or None),
        ),
    )
    return Output(tables=[table], rows=rows, document=rows)


def union_bound(found: UnionBound) -> Output:
    """Return what sets of several decisions expose together at most."""
    answer = found.to_json()
    verdict = "within the budget" if found.is_within else "cannot tell"
    table = Table(
        title=f"All sets together: at most {percent(found.upper, 2, away=UP)} exposed, {verdict}",
        caption=(
            f"With probability {sureness(found.delta)} no more of {found.population:,} users, on "
            f"average, are in groups of fewer than {found.k}. It holds whichever joint values they "
            "have, and whichever sets were chosen after looking. Users of values that are not kept "
            "count as exposed."
        ),
        columns=columns("count", "users", "values kept"),
        rows=[*zip(found.users, found.kept, strict=True)],
    )
    return Output(tables=[table], rows=[answer], document=answer)


def plan_output(found: Plan) -> Output:
    """Return the controls of a format, and what they leave."""
    answer = found.to_json()
    table = Table(
        title=f"{found.verdict}: {', '.join(found.left) or 'nothing'} left",
        columns=columns("text", "control", "changes"),
        rows=[(control.name, ", ".join(control.effects)) for control in found.controls],
    )
    return Output(tables=[table], rows=[answer], document=answer)


def preview_output(rows: Sequence[Mapping[str, Any]]) -> Output:
    """Exposure before a list, after it, and at best."""
    table = Table.of(
        rows,
        title="Exposure",
        caption=masked_note(api for row in rows for api in row["masked"]).strip(),
        columns=[
            *columns("text", "state"),
            *columns("verdict", "verdict"),
            *columns("share", "lower", "plug-in", "upper"),
            *columns("text", ("still readable", lambda row: ", ".join(row["left"]) or None)),
        ],
    )
    return Output(tables=[table], rows=rows)


def imported(document: Mapping[str, Any]) -> Output:
    """Return what a list that is in use changes, and what it leaves exposed."""
    rows = document["apis"]
    title = "What the list changes"
    if "verdict" in document:
        exposure = "".join(
            f"; exposure {row['state']} at most {percent(row['upper'], 2, away=UP)}"
            for row in document.get("exposure", ())
        )
        left = ", ".join(document["left"]) or "nothing"
        title = f"{document['verdict']}: it leaves {left}{exposure}"
    table = Table.of(rows, columns("text", "API", "effect"), title=title)
    return Output(tables=[table], rows=rows, document=document)
