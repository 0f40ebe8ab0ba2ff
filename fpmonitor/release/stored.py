"""Releases of the users of a database: made, attacked, and the exact answers that readers had."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.population.stored import stored_names
from fpmonitor.release.audit import (
    RecordsAudit,
    ReleaseAudit,
    audit_records,
    audit_release,
    product_weights,
    record_words,
    weights_by_table,
    weights_of_rows,
)
from fpmonitor.release.estimated import EstimatedGuarantee, estimated_guarantee
from fpmonitor.release.exclusion import boxes_of
from fpmonitor.release.histogram import (
    Release,
    ReleaseTerms,
    check_origin,
    group_of_users,
    make_release,
    read_values,
    with_absent,
)
from fpmonitor.release.partial_knowledge import least_threshold
from fpmonitor.release.query_audit import QueryVerdict, query_digest, query_limit, query_verdict
from fpmonitor.release.sampling import sampling_of
from fpmonitor.release.sensitive import sensitivity_of
from fpmonitor.release.several import several_guarantee
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
    terms: ReleaseTerms,
    *,
    window: Window | None = None,
    sample: float | None = None,
    epsilon: float = 1.0,
    made: datetime | None = None,
) -> Release:
    """Make a k-anonymous table of the values of some APIs, and its manifest.

    Values are taken as they were logged, or made coarser.

    Args:
        apis: The columns of the table.
        terms: With APIs by any of their names.
        sample, epsilon: Draw each user with this probability, in secret, for differential privacy
            at epsilon nats.
        made: Date of the manifest; now by default.
    """
    refuse_digests(database, "release")
    wanted, transforms = _columns(database, apis, window, terms.transforms)
    sensitive = terms.sensitive
    if sensitive is not None:
        sensitive = replace(sensitive, api=_only_name(database, sensitive.api, window))
    levels = [replace(one, apis=stored_names(database, one.apis, window)) for one in terms.levels]
    snapshot = take_snapshot(database, window)
    return make_release(
        read_values(database, snapshot, wanted, transforms),
        replace(terms, transforms=transforms, sensitive=sensitive, levels=levels),
        digest=keyed_digest(snapshot.digest, data_key(database)),
        made=made or datetime.now(UTC),
        sampling=None
        if sample is None
        else sampling_of(sample, terms.k, epsilon, seed=secrets.token_bytes(16)),
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
    distribution: pl.DataFrame | None = None,
) -> ReleaseAudit:
    """Attack a release of the users of a database, to see whether it singles them out.

    Args:
        database, window: What the release was made of.
        seed: Of the attacks' draws.
        control: Other users, to estimate the weights of predicates from; these users by default.
        distribution: Of a fresh record, as a table for `audit.weights_by_table`: one more beside
            the shares of whole records, which are never below 1 in their number, and the products
            of the shares of the values of each API.
    """
    snapshot = take_snapshot(database, window)
    manifest, named = release.manifest, release.manifest.sensitive
    values = read_values(database, snapshot, manifest.policy.apis, manifest.transforms)
    release = check_origin(release, values, keyed_digest(snapshot.digest, data_key(database)))
    others = values
    if control is not None:
        others = read_values(
            control, take_snapshot(control), manifest.policy.apis, manifest.transforms
        )
    source = "the users of the release" if control is None else "other users"
    weights = {
        f"the shares of {source}": weights_of_rows(
            group_of_users(release, others), len(release.table)
        ),
        f"the values of {source}, taken as independent": (
            product_weights(release.table, others)
            if release.generalised is None
            else release.generalised.product_weights(with_absent(others))
        ),
    }
    if distribution is not None:
        weights["the given distribution"] = weights_by_table(release, distribution)
    return audit_release(
        group_of_users(release, values),
        record_words(database, snapshot),
        weights,
        boxes_of(release, values),
        sensitive=None if named is None else sensitivity_of(release.table, named.api),
        weight=weight,
        trials=trials,
        rng=np.random.default_rng(seed),
    )


def attack_records(
    database: Database,
    apis: Sequence[str],
    *,
    window: Window | None = None,
    transforms: Mapping[str, Transform] | None = None,
    weight: float | None = None,
    control: Database | None = None,
) -> RecordsAudit:
    """Attack a table of the records of all users under pseudonyms, nothing withheld.

    Args:
        apis: Columns of the table.
        control: Other users, whose shares of the values of each API are the weights; these by
            default.

    Raises:
        InputError, PolicyError, UnknownNameError, UndecidableError: A number out of range, an API
            never observed, nobody with a value.
    """
    wanted, maps = _columns(database, apis, window, transforms)
    values = read_values(database, take_snapshot(database, window), wanted, maps)
    present = with_absent(values)
    if not len(present):
        raise UndecidableError("no user has a value of these APIs")
    others, source = values, "the values of these users, taken as independent"
    if control is not None:
        others = read_values(control, take_snapshot(control), wanted, maps)
        source = "the values of other users, taken as independent"
    return audit_records(
        present, product_weights(present, others), distribution=source, weight=weight
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histogram:
    """A histogram of users, and what an attacker may know of them."""

    # spectrum, absent: Observed users by value, and those without any; the distribution is
    # estimated from them.
    spectrum: CountSpectrum
    absent: int
    users: int  # Users in the release.
    epsilon: float
    known: int
    alpha: float

    def guarantee(self, k: int) -> EstimatedGuarantee:
        """Privacy under partial knowledge where counts below `k` are withheld."""
        return estimated_guarantee(
            self.spectrum,
            self.absent,
            release_users=self.users,
            k=k,
            epsilon=self.epsilon,
            known=self.known,
            alpha=self.alpha,
        )

    def smallest_thresholds(self, delta: float) -> dict[str, int | None]:
        """Find the smallest k that makes it (epsilon, delta)-private; null where none does.

        By `EstimatedGuarantee.estimated`, and by `certified`.
        """
        return {
            "k_estimated": least_threshold(
                lambda k: self.guarantee(k).estimated.delta, self.users, delta
            ),
            "k_certified": least_threshold(
                lambda k: self.guarantee(k).certified.delta, self.users, delta
            ),
        }


def read_histogram(
    database: Database,
    apis: Sequence[str],
    *,
    epsilon: float,
    window: Window | None = None,
    transforms: Mapping[str, Transform] | None = None,
    users: int | None = None,
    known: int = 0,
    alpha: float = 0.05,
) -> Histogram:
    """Count the users of a database for a histogram of some APIs.

    Args:
        users: Users in the release; the observed ones by default.
    """
    wanted, maps = _columns(database, apis, window, transforms)
    values = read_values(database, take_snapshot(database, window), wanted, maps)
    present = values.filter(~pl.all_horizontal(pl.all().is_null()))
    groups = present.to_struct().value_counts()["count"].to_numpy()
    return Histogram(
        spectrum=CountSpectrum.from_counts(groups),
        absent=len(values) - len(present),
        users=len(values) if users is None else users,
        epsilon=epsilon,
        known=known,
        alpha=alpha,
    )


def several_histograms(
    database: Database,
    sets: Sequence[Sequence[str]],
    *,
    k: int,
    epsilon: float,
    window: Window | None = None,
    known: int = 0,
) -> dict[str, object]:
    """Estimate the privacy of several histograms of the users of a database, published together.

    Args:
        sets: Columns of each histogram.
        k: Counts below it are withheld, in all of them.

    Returns:
        The delta of each histogram alone, if the others are not published, and of all of them; and
        the split of the joint values that proves it, as of `HistogramGuarantee`.

    Raises:
        InputError, PolicyError, UnknownNameError, UndecidableError: No API, one never observed, a
            number out of range, nobody with a value.
    """
    columns = [_columns(database, apis, window, None)[0] for apis in sets]
    wanted = tuple(sorted({api for apis in columns for api in apis}))
    if not wanted:
        raise InputError("apis: name at least one")
    values = read_values(database, take_snapshot(database, window), wanted, {})
    present = values.filter(~pl.all_horizontal(pl.all().is_null()))
    if not len(present):
        raise UndecidableError("no user has a value of these APIs")
    joint = present.group_by(wanted).len(name=_USERS_OF)
    users = len(values)
    together = several_guarantee(
        users,
        joint[_USERS_OF].to_numpy() / users,
        np.array([_projected(joint, apis).to_numpy() for apis in columns]) / users,
        ks=[k] * len(columns),
        epsilon=epsilon,
        known=known,
    )
    each = [
        read_histogram(database, apis, epsilon=epsilon, window=window, known=known)
        .guarantee(k)
        .estimated.delta
        for apis in columns
    ]
    return {
        "epsilon": epsilon,
        "delta_each": each,
        "delta_together": together.delta,
        "common_from": together.common_from,
        "rare_up_to": together.rare_up_to,
    }


_USERS_OF = "users of the joint value"


def _projected(joint: pl.DataFrame, apis: Sequence[str]) -> pl.Series:
    """Users who share the values of some APIs, for each joint value; 0 where all are absent."""
    return joint.select(
        pl.when(pl.any_horizontal(pl.col(apis).is_not_null()))
        .then(pl.col(_USERS_OF).sum().over(list(apis)))
        .otherwise(0)
    ).to_series()


def count_answers(
    database: Database,
    population: Population,
    reader: str,
    queries: Iterable[str],
    *,
    limit: str = "log2",
) -> tuple[QueryVerdict, int, int]:
    """Decide whether a reader may have exact counts answered, and remember them if so.

    Args:
        database: Where it is remembered.
        population: The users that are counted.
        reader: Who asks.
        queries: Texts that name the counts, equal for equal counts of equal users; the users that
            they are of are added here.
        limit: `log2` of the users, or a number: different counts of which one reader may have the
            answers. Counts asked again are answered again.

    Returns:
        The verdict, how many different counts the reader has had, and how many they may have.
    """
    most = query_limit(limit, population.users)
    known = read_answered(database, reader)
    fresh = {query_digest(f"{population.digest} {query}") for query in queries} - known
    verdict = query_verdict(len(known), len(known) + len(fresh), most)
    if verdict == "refuse":
        fresh = set()
    if fresh:
        now = datetime.now(UTC).replace(tzinfo=None)
        with database.transaction():
            add_answered(database, reader, fresh, at=now)
    return verdict, len(known) + len(fresh), most


def _only_name(database: Database, api: str, window: Window | None) -> str:
    """Return what the logs call an API of which they have one column."""
    named = stored_names(database, [api], window)
    if len(named) > 1:
        raise InputError(
            f"sensitive: several columns of the log are {api}",
            hint=f"name the one: {', '.join(named)}",
        )
    return named[0]


def _columns(
    database: Database,
    apis: Sequence[str],
    window: Window | None,
    transforms: Mapping[str, Transform] | None,
) -> tuple[tuple[str, ...], dict[str, Transform]]:
    """APIs and transforms by what the logs call them."""
    wanted = tuple(sorted(stored_names(database, apis, window)))
    if not wanted:
        raise InputError("apis: name at least one")
    maps = {
        name: transform
        for api, transform in (transforms or {}).items()
        for name in stored_names(database, [api], window)
    }
    return wanted, maps
