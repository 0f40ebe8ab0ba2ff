"""What private collection answers, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fpmonitor.policy import DOWN, UP, sureness, upward
from fpmonitor.render import store
from fpmonitor.render.numbers import count, percent
from fpmonitor.render.output import Output, Row
from fpmonitor.render.tables import Cell, Marked, Table, columns
from fpmonitor.safe_files import untyped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.private.group import GroupRun
    from fpmonitor.private.hierarchy import Hierarchy
    from fpmonitor.private.knowledge import Promise
    from fpmonitor.private.randomised import RandomisedApi
    from fpmonitor.private.redaction import RedactionPlan
    from fpmonitor.private.selection import JointComparison, PromisedSet, Selection
    from fpmonitor.private.study import Study


def _limit(promise: Promise, budget: float) -> Marked:
    verdict = "allow" if promise.upper <= budget else "block"
    return Marked(f"{percent(promise.upper, 2, away=UP)} {promise.rule}", verdict)


def selection_table(found: Selection, study: Study) -> Table:
    """Return the promises for the recommended set, and for each API alone."""
    best = "" if found.best else " The search was cut short: a heavier set may be promised."
    return Table(
        title=(
            f"What {found.level} of {found.users:,} users promise: share in groups of fewer than "
            f"{study.k}"
        ),
        caption=(
            f"First the recommended set, of weight {found.weight:.6g}, within the budget of "
            f"{percent(study.budget, 2, away=UP)} in the {found.setting} setting; then each API "
            f"alone.{best} All limits on the population hold together with probability "
            f"{sureness(study.delta)}. The recommended set by every rule: {_all_rules(found)}."
        ),
        columns=[
            *columns("text", "API set"),
            *columns(
                "right", "observed users, at most", f"population of {study.population:,}, at most"
            ),
            *columns("decimal", "bits, at most"),
        ],
        rows=[_promise_row(one, study.budget) for one in (found.recommended, *found.singles)],
        sections=frozenset({0}),
    )


def _promise_row(one: PromisedSet, budget: float) -> tuple[Cell, ...]:
    limits = (_limit(promise, budget) for promise in (one.fixed, one.statistical))
    return (one.apis, *limits, one.entropy_upper_bits)


def _all_rules(found: Selection) -> str:
    by_setting = (
        ", ".join(f"{percent(one.upper, 2, away=UP)} {one.rule}" for one in rules) + f" ({setting})"
        for setting, rules in found.rules.items()
    )
    return "; ".join(by_setting)


def redaction_table(plan: RedactionPlan, study: Study) -> Table:
    """Return what each user withholds of each API."""
    return Table.of(
        plan.per_api,
        title="What each user withholds",
        caption=(
            f"Exposure at most {percent(plan.before, 2, away=UP)} as it is, "
            f"{percent(plan.after, 2, away=UP)} with the rules (budget "
            f"{percent(study.budget, 2, away=UP)}), by {plan.basis}. {percent(plan.loss, 2)} of "
            "the tokens are lost."
        ),
        columns=[
            *columns("text", "API"),
            *columns("count", "values", "kept"),
            *columns("share", "rare", "cover", "redacted", "suspicion"),
        ],
    )


def hierarchy_table(played: Hierarchy, study: Study) -> Table:
    """Return what each round asked, and what it left."""
    return Table.of(
        played.rounds,
        title=f"Rounds with {played.users:,} users, {played.setting} setting",
        caption=(
            f"Stopped: {played.stopped}. {played.messages:,} messages of each user. Limits for "
            f"groups of fewer than {study.k}; budget {percent(study.budget, 2, away=UP)}."
        ),
        columns=[
            *columns("count", ("round", "number"), ("sets asked", "messages"), "safe", "unsafe"),
            *columns("share", "withheld"),
            *columns("right", ("gain", lambda one: f"{one.gain:+.6g}")),
            *columns("text", ("recommended set", "recommended")),
            *columns("right", ("limit", lambda one: _limit(one.promise, study.budget))),
        ],
    )


def group_table(run: GroupRun, study: Study) -> Table:
    """Return what a group without a curator found, and released."""
    found = run.comparison
    promise = found.promise(run.setting)
    few = f"in groups of fewer than {study.k}"
    return Table(
        title=f"A group of {run.participants:,} without a curator",
        columns=columns("text", "", ""),
        rows=[
            ("released set", found.apis),
            ("participants whose computation gave it", count(run.agreed)),
            ("messages of each", count(run.messages)),
            ("published marginals are the true ones", "yes" if run.marginals_true else "no"),
            (
                f"{few}: promised",
                f"{percent(promise.upper, 2, away=UP)} by {promise.rule}, {run.setting} setting",
            ),
            (f"{few}: in what was released", percent(found.empirical, 2)),
            ("alone with their released tuple", count(run.alone)),
            ("alone with their whole record, which nobody saw", count(run.alone_in_all)),
        ],
        headed=False,
    )


def counts(
    document: Mapping[str, Any], study: Study, compared: JointComparison | None = None
) -> Output:
    """Return what requests brought; as a table, the comparison instead where there is one."""
    found = [one["estimate"] for ask in document["asks"] for one in ask["sets"] if one["estimate"]]
    rows = [
        {"epoch": ask["epoch"], "round": ask["round"], "apis": one["apis"], **row}
        for ask in document["asks"]
        for one in ask["sets"]
        for row in (*one["groups"], *_value_rows(one["estimate"]))
    ]
    table = _sets_table(document) if compared is None else _comparison_table(compared)
    more = [_estimates_table(found, study)] if found else []
    return Output(tables=[table, *more], rows=rows, document=untyped(document))


def _value_rows(found: RandomisedApi | None) -> list[Row]:
    """Return a row for each value of an API that was randomised."""
    return [
        {"value": one.token, "share": one.share, "least": one.lower, "most": one.upper}
        for one in (found.values if found is not None else ())
    ]


def _sets_table(document: Mapping[str, Any]) -> Table:
    return Table(
        columns=[
            *columns("text", "epoch", "round", "APIs (mechanism, where answers are randomised)"),
            *columns("count", "users", "groups of k", "smaller", "largest group"),
        ],
        rows=[
            (
                str(ask["epoch"]),
                str(ask["round"]),
                ", ".join(one["apis"]) + (f" ({one['randomised']})" if one["randomised"] else ""),
                one["users"],
                len(one["groups"]),
                one["smaller_groups"],
                one["groups"][0]["users"] if one["groups"] else None,
            )
            for ask in document["asks"]
            for one in ask["sets"]
        ],
    )


def comparison(compared: JointComparison) -> Output:
    """Return the limits of a set, and what the analyst's counts show."""
    content = untyped(compared)
    return Output(tables=[_comparison_table(compared)], rows=[content], document=content)


def _comparison_table(compared: JointComparison) -> Table:
    fixed, statistical = compared.fixed, compared.statistical
    return Table(
        title=", ".join(compared.apis),
        columns=[
            *columns("text", "exposure"),
            *columns("right", "share of users"),
            *columns("text", "from"),
        ],
        rows=[
            ("promised, these users", percent(fixed.upper, 2, away=UP), fixed.rule),
            ("promised, population", percent(statistical.upper, 2, away=UP), statistical.rule),
            ("found, these users", percent(compared.empirical, 2), f"{compared.users} reports"),
            ("at least, population", percent(compared.lower, 2, away=DOWN), "certificate"),
            ("at most, population", percent(compared.upper, 2, away=UP), "certificate"),
        ],
    )


def tally(rows: Sequence[Row], document: object) -> Output:
    """Return counts of messages; what a row does not name, it has none of."""
    return store.listing(rows, document=document, missing="0")


def plans(rows: Sequence[Row]) -> Output:
    """Return how each API is randomised."""
    table = Table.of(
        rows,
        title="How each API is randomised",
        columns=[
            *columns("text", "API"),
            *columns("right", ("values", _number), "mechanism"),
            *columns("significant", "epsilon", "accuracy", digits=3),
        ],
    )
    return Output(tables=[table], rows=rows)


def _number(row: Row) -> str | None:
    return None if row["values"] is None else str(row["values"])


def _estimates_table(found: Sequence[RandomisedApi], study: Study) -> Table:
    """Return the exposure of each API by randomised answers."""
    return Table.of(
        found,
        title=f"Exposure among {study.population:,} users, k = {study.k}",
        caption=f"limits of a request hold together with probability {sureness(study.delta)}",
        columns=[
            *columns("text", "API"),
            *columns("right", "mechanism", ("epsilon", lambda one: upward(one.epsilon, 3))),
            *columns("count", "users"),
            *columns("share", ("at least", "lower"), ("at most", "upper")),
        ],
    )
