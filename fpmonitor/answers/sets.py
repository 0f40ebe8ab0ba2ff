"""All that is asked of some API sets together, from users in a database or on an engine."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from fpmonitor.answers.cohorts import report_cohorts
from fpmonitor.answers.exposure import report_bounds, report_entropies, report_exposure
from fpmonitor.answers.trust import price_of_trust
from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.answers.trust import Knowledge
    from fpmonitor.population.sample import CertifiedSample


def sorted_sets(sets: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Sort each API set and drop repetitions.

    Raises
    ------
    InputError
        One is empty.
    """
    wanted = [tuple(sorted(set(apis))) for apis in sets]
    if not all(wanted):
        raise InputError("sets: name at least one API for each set")
    return wanted


def sets_up_to(size: int, apis: Sequence[str]) -> list[tuple[str, ...]]:
    """All sets of some APIs of one to `size`, the small ones first."""
    return [chosen for s in range(1, size + 1) for chosen in itertools.combinations(apis, s)]


def declared_supports(
    supports: Sequence[int], sets: Sequence[tuple[str, ...]]
) -> Sequence[int | None]:
    """Return the declared support of each API set, null for all where none is declared.

    Raises
    ------
    InputError
        There are more or fewer than sets.
    """
    declared: Sequence[int | None] = list(supports) or [None] * len(sets)
    if len(declared) != len(sets):
        raise InputError(f"supports: {len(declared)} given for {len(sets)} sets")
    return declared


def report_sets(
    sample: CertifiedSample,
    sets: Sequence[tuple[str, ...]],
    *,
    supports: Sequence[int | None],
    given: tuple[str, ...],
    texts: Mapping[str, Mapping[int, str | None]],
    bounds: bool,
    trust: Knowledge | None,
    entropies: bool,
    show_counts_below_k: bool,
) -> list[ExposureReport]:
    """Report the exposure of API sets; arguments and errors as of `Monitor.exposure`.

    Parameters
    ----------
    sample
        The users and the question.
    sets, supports, given
        The API sets, a declared support or null for each, and the APIs that cannot be hidden.
    texts
        For each given API, what its value numbers stand for.
    bounds, trust, entropies, show_counts_below_k
        As of `Monitor.exposure`.
    """
    reports = []
    for apis, support in zip(sets, supports, strict=True):
        report = report_exposure(
            sample,
            apis,
            given=given,
            support=support,
            show_counts_below_k=show_counts_below_k,
        )
        together = sorted({*apis, *given})
        if bounds:
            report = replace(report, bounds=report_bounds(sample, report, support=support))
        if entropies:
            report = replace(report, entropies=report_entropies(sample, report))
        if trust is not None:
            levels = price_of_trust(sample, together, trust, joint_upper=report.upper)
            report = replace(report, trust=levels)
        if given:
            cohorts = report_cohorts(
                sample, apis, given, texts, show_counts_below_k=show_counts_below_k
            )
            report = replace(report, cohorts=cohorts)
        reports.append(report)
    return reports


def with_volatile_excluded(
    reports: Sequence[ExposureReport],
    volatile: Mapping[str, bool | None],
    left_out: CertifiedSample,
    *,
    show_counts_below_k: bool,
) -> list[ExposureReport]:
    """Put the exposure without the volatile APIs beside the one where they share a token.

    Parameters
    ----------
    reports
        Of some sets.
    volatile
        API -> whether it is volatile for some user.
    left_out
        The same question, of the users without their volatile APIs.
    show_counts_below_k
        As of `Monitor.exposure`.
    """
    beside = []
    for report in reports:
        apis = (*report.apis, *report.given)
        among = tuple(api for api in apis if volatile[api])
        if not among:
            beside.append(report)
            continue
        alone = report_exposure(
            left_out, sorted(set(apis)), show_counts_below_k=show_counts_below_k
        )
        beside.append(replace(report, volatile=among, left_out=alone))
    return beside
