"""What other decisions recommend, to be tested together with what one does.

No file of two decisions tells what both sets expose together, but where one database has both, that
is one more set: free wherever any set may be chosen after looking.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fpmonitor.decide.credible import credible
from fpmonitor.decide.decision import UnionWith
from fpmonitor.decide.files import read_with_digest
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.population.evidence import lack_in_words

if TYPE_CHECKING:
    from fpmonitor.decide.asked import DecideQuestion
    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population


def unions_asked(
    population: Population, begun: Decision, decide_question: DecideQuestion
) -> tuple[UnionWith, ...]:
    """Return the sets of other decisions that a question names, as yet without a verdict.

    Raises:
        InputError: One recommends nothing, what this question cannot be asked of, or an API that
            the log lacks.
    """
    found = [_union(population, begun, Path(path)) for path in decide_question.union_with]
    asked = replace(begun, union_with=tuple(found))
    if reason := asked.not_to_join:
        is_changed = not asked.view.transforms.keys().isdisjoint(asked.asked)
        hint = "ask without `--what-if`" if is_changed else "name it as a candidate, too"
        raise InputError(f"union-with: {reason}", hint=hint)
    beyond = [api for api in asked.asked if api not in begun.policy.candidates]
    if not beyond:
        return asked.union_with
    # Refuses what no question can be asked of, such as what tells clusters.
    population.for_question(decide_question.question, [*begun.policy.candidates, *beyond])
    # An API without evidence looks like one value that all share: the union would seem as safe as
    # without it.
    lacks, k = population.lacks(beyond, begun.policy.k), begun.policy.k
    for api in population.masked(beyond, k):
        raise InputError(
            f"union-with: browsers randomise {api} by design", hint="name it as a candidate, too"
        )
    for api, lack in lacks.items():
        reason = f"no evidence about {api}: {lack_in_words(lack, k)}"
        raise InputError(f"union-with: {reason}", hint="decide on logs that have it")
    return asked.union_with


def _union(population: Population, begun: Decision, path: Path) -> UnionWith:
    """Read what a decision recommends, as the log calls it."""
    other, digest = read_with_digest(path)
    credible(other, path)
    if other.view.volatile != begun.view.volatile:
        raise InputError(
            f"union-with: {path} takes values that browsers randomise as {other.view.volatile}",
            hint=f"decide both with one --volatile; this is {begun.view.volatile}",
        )
    if not other.policy.units.keys() <= begun.policy.units.keys():
        raise InputError(
            f"union-with: {path} was decided by `visits` = {other.policy.visits}, and this is by "
            f"{begun.policy.visits}",
            hint=f"decide both with one --unit, such as {other.policy.visits}",
        )
    for api in other.recommended:
        if api in other.view.transforms:
            raise InputError(
                f"union-with: {path} changes the values of {api}", hint="decide it without"
            )
    cohorts = begun.policy.cohorts
    given = () if cohorts is None else cohorts.given
    called = [api if api in population.apis else other.means(api) for api in other.recommended]
    try:
        apis = sorted({*population.named(called)} - {*given})
    except UnknownNameError as error:
        raise InputError(
            f"union-with: these users have no {error.name}, which {path} recommends",
            hint="decide on users who have the APIs of both; `audit union` limits both by two logs",
        ) from error
    if not apis:
        raise InputError(f"union-with: {path} recommends nothing to add", hint="omit it")
    return UnionWith(digest=digest, apis=tuple(apis))
