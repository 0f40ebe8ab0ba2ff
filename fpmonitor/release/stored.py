"""Releases of the users of a database: made, attacked, and the exact answers that readers had."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.errors import InputError
from fpmonitor.release.audit import ReleaseAudit, audit_release, record_words, weights_of_rows
from fpmonitor.release.estimated import EstimatedGuarantee, estimated_guarantee
from fpmonitor.release.histogram import (
    Mechanism,
    Release,
    check_origin,
    group_of_users,
    make_release,
    read_values,
)
from fpmonitor.release.query_audit import QueryAuditor, QueryPolicy, QueryVerdict
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.answers import add_answered, read_answered
from fpmonitor.store.digests import data_key, keyed_digest, refuse_digests
from fpmonitor.store.snapshot import Window, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.population.population import Population
    from fpmonitor.store.database import Database
    from fpmonitor.store.transforms import Transform


def release_users(
    database: Database,
    apis: Sequence[str],
    *,
    k: int,
    window: Window | None = None,
    transforms: Mapping[str, Transform] | None = None,
    mechanism: Mechanism = "histogram",
    budget: float = 0.05,
    made: datetime | None = None,
) -> Release:
    """Make a k-anonymous table of the values of some APIs, and its manifest.

    Values are taken as they were logged, or made coarser.

    Parameters
    ----------
    database, window
        The users.
    apis
        The columns of the table.
    transforms
        API -> what it returns instead.
    k, mechanism, budget
        As in `release.histogram.make_release`.
    made
        Date of the manifest; now by default.

    Raises
    ------
    InputError, PolicyError, UnknownNameError, UndecidableError
        As in `release.histogram.make_release` and `read_values`; or the database keeps digests of
        values.
    """
    refuse_digests(database, "release")
    wanted, transforms = _columns(apis), transforms or {}
    snapshot = take_snapshot(database, window)
    return make_release(
        read_values(database, snapshot, wanted, transforms),
        k=k,
        transforms=transforms,
        digest=keyed_digest(snapshot.digest, data_key(database)),
        made=made or datetime.now(UTC),
        mechanism=mechanism,
        budget=budget,
    )


def attack_release(
    database: Database,
    release: Release,
    *,
    window: Window | None = None,
    weight: float | None = None,
    trials: int = 1000,
    seed: int = 0,
    control: Database | None = None,
) -> ReleaseAudit:
    """Attack a release of the users of a database, to see whether it singles them out.

    Parameters
    ----------
    database, window
        What the release was made of.
    release
        The release.
    weight, trials
        As in `release.audit.audit_release`.
    seed
        Of the attacks' draws.
    control
        Other users, to estimate the weights of predicates from; these users by default.

    Raises
    ------
    InputError, PolicyError
        The release was made of other data, or a number is out of its range.
    """
    snapshot = take_snapshot(database, window)
    manifest = release.manifest
    values = read_values(database, snapshot, manifest.policy.apis, manifest.transforms)
    check_origin(release, values, keyed_digest(snapshot.digest, data_key(database)))
    others = values
    if control is not None:
        others = read_values(
            control, take_snapshot(control), manifest.policy.apis, manifest.transforms
        )
    return audit_release(
        group_of_users(release, values),
        record_words(database, snapshot),
        weights_of_rows(group_of_users(release, others), len(release.table)),
        weight=weight,
        trials=trials,
        rng=np.random.default_rng(seed),
    )


def guarantee_histogram(
    database: Database,
    apis: Sequence[str],
    *,
    k: int,
    epsilon: float,
    window: Window | None = None,
    transforms: Mapping[str, Transform] | None = None,
    users: int | None = None,
    known: int = 0,
    alpha: float = 0.05,
) -> EstimatedGuarantee:
    """Privacy under partial knowledge of a histogram, for the distribution that the users tell.

    Parameters
    ----------
    database, window, transforms
        As in `release_users`.
    apis
        Columns of the histogram.
    users
        Users in the release; the observed ones by default.
    k, epsilon, known, alpha
        As of `release.estimated.estimated_guarantee`.

    Raises
    ------
    InputError, PolicyError, UnknownNameError, UndecidableError
        A number out of range, an API never observed, nobody with a value.
    """
    wanted = _columns(apis)
    values = read_values(database, take_snapshot(database, window), wanted, transforms or {})
    present = values.filter(~pl.all_horizontal(pl.all().is_null()))
    groups = present.group_by(wanted).len()["len"].to_numpy()
    return estimated_guarantee(
        CountSpectrum.from_counts(groups),
        len(values) - len(present),
        release_users=len(values) if users is None else users,
        k=k,
        epsilon=epsilon,
        known=known,
        alpha=alpha,
    )


@dataclass(frozen=True, slots=True)
class AskedQueries:
    """Whether counts are answered; how many different ones the reader has had, and may have."""

    verdict: QueryVerdict
    answered: int
    limit: int


def count_answers(
    database: Database,
    population: Population,
    reader: str,
    queries: Iterable[str],
    *,
    limit: str = "log2",
) -> AskedQueries:
    """Decide whether a reader may have exact counts answered, and remember them if so.

    Parameters
    ----------
    database
        Where it is remembered.
    population
        The users that are counted.
    reader
        Who asks.
    queries
        Texts that name the counts, equal for equal counts of equal users; the users that they are
        of are added here.
    limit
        `log2` of the users, or a number: different counts of which one reader may have the answers.
        Counts asked again are answered again.

    Raises
    ------
    PolicyError
        The limit is neither.
    """
    policy = QueryPolicy.from_text(limit, population.users)
    named = [f"{population.digest} {query}" for query in queries]
    known = read_answered(database, reader)
    auditor = QueryAuditor(policy, {(reader, ""): set(known)})
    verdict = auditor.ask(reader, "", named)
    fresh = auditor.answered[reader, ""] - known
    if fresh:
        now = datetime.now(UTC).replace(tzinfo=None)
        with database.transaction():
            add_answered(database, reader, fresh, at=now)
    return AskedQueries(verdict, len(known) + len(fresh), policy.refuse_above)


def _columns(apis: Sequence[str]) -> tuple[str, ...]:
    wanted = tuple(sorted(set(apis)))
    if not wanted:
        raise InputError("apis: name at least one")
    return wanted
