"""The k-anonymous release: a table of values with at least k users each, and its manifest."""

from __future__ import annotations

import io
import json
from collections.abc import (
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
import polars as pl

from fpmonitor.disclosure import Audience, publishable_count
from fpmonitor.errors import (
    InputError,
    PolicyError,
    UndecidableError,
    UnknownNameError,
    reason_of,
)
from fpmonitor.policy import check_share
from fpmonitor.population.levels import WITHHELD, Component, check_components
from fpmonitor.release.generalisation import Generalised, Protection, generalise
from fpmonitor.release.partial_knowledge import check_k
from fpmonitor.release.sampling import Sampling, drawn_users
from fpmonitor.release.sensitive import SensitiveAttribute, sensitivity_of
from fpmonitor.release.suppression import (
    USERS,
    Suppression,
    drop_apis,
    suppress_cells,
    truncated_histogram,
)
from fpmonitor.safe_files import read_json, typed, untyped, write_bytes
from fpmonitor.store.snapshot import SnapshotTable, read_texts
from fpmonitor.store.transforms import Transform  # noqa: TC001 -- msgspec reads the annotation

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database

Mechanism = Literal["histogram", "cells", "generalisation"]
MECHANISMS: tuple[Mechanism, ...] = ("histogram", "cells", "generalisation")


_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePolicy:
    """What was asked of a release."""

    apis: tuple[str, ...]  # The APIs, sorted.
    k: int  # Every row of the table stands for at least so many users.
    budget: _Share | None  # Largest share of users that might be withheld; null for a histogram.
    # What every class keeps of a sensitive attribute; null where nothing was demanded.
    protection: Protection | None = None

    def __post_init__(self) -> None:
        check_k(self.k)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTerms:
    """How a release is to be made.

    Attributes:
        k: Threshold, users.
        transforms: API -> what it returns instead.
        mechanism: See `Manifest`.
        budget: Largest share of the users with values that local suppression may withhold.
        sensitive: Of one of the APIs: note in the manifest how much the table tells of it, and keep
            what is demanded.
        levels: Components whose levels a generalisation shows.
    """

    k: int
    transforms: Mapping[str, Transform] = field(default_factory=dict)
    mechanism: Mechanism = "histogram"
    budget: float = 0.05
    sensitive: Protection | None = None
    levels: Sequence[Component] = ()

    @property
    def protection(self) -> Protection | None:
        """What a sensitive attribute demands; null where nothing is."""
        return self.sensitive if self.sensitive is not None and self.sensitive.demands else None

    def check(self, apis: Sequence[str]) -> None:
        """Check the terms of a release of some APIs.

        Raises:
            InputError: An API is called `users`.
        """
        check_k(self.k)
        check_share("budget", self.budget)
        if USERS in apis:
            hint = "rename it on ingest"
            raise InputError(f"an API called {USERS!r} cannot be released", hint=hint)
        _check_levels(self.levels, apis, self.mechanism, self.sensitive)


@dataclass(frozen=True, slots=True)
class ReleasedData:
    """Digest of the data that a release was made of."""

    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Rows of a released table, users that they stand for, and those of the largest row.

    `k_max` is null in manifests of earlier versions.
    """

    rows: _Count
    users: _Count
    k_max: _Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    """What a released table lacks."""

    # Users without a row: without any of the APIs, or suppressed; one number for both, because the
    # number of either alone must not be known. Null where it is below k, none included.
    users: _Count | None
    # Share of the cells of users with values that were suppressed; as for k - 1 users without a row
    # where they are fewer, none included.
    cells_share: _Share
    # The same for the best choice of whole APIs within the budget; null for a histogram, and where
    # no choice is within it.
    cells_share_by_dropping_apis: _Share | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """How a release was made, as it stands in its file; for its maker, not for publication."""

    # `histogram`: values below k are withheld whole; `cells`: single cells are suppressed;
    # `generalisation`: values are shown coarser, and nobody is withheld.
    mechanism: Mechanism
    policy: ReleasePolicy  # What was asked.
    # API -> what was made of its values; declared beforehand, because a map that is chosen from the
    # data tells about them.
    transforms: Mapping[str, Transform]
    data: ReleasedData  # What it was made of.
    date: datetime  # When, to the second.
    # Sets of APIs that rows keep, in the order in which they were used.
    patterns: tuple[tuple[str, ...], ...]
    # published, suppressed: What the table holds and lacks.
    published: Published
    suppressed: Suppressed
    # How users were drawn beforehand, and the differential privacy of that; null where all count.
    sampling: Sampling | None = None
    # How much the table tells of a sensitive attribute; null where none was named.
    sensitive: SensitiveAttribute | None = None
    levels: tuple[Component, ...] = ()  # Components whose levels `generalisation` shows.
    # Mean loss of a cell over the users with values, a share: 0 for the value itself, 1 for nothing
    # (the normalised certainty penalty). Null in manifests of earlier versions.
    information_loss: _Share | None = None

    @property
    def terms(self) -> ReleaseTerms:
        """Return those by which the table is made again."""
        policy = self.policy
        return ReleaseTerms(
            k=policy.k,
            transforms=self.transforms,
            mechanism=self.mechanism,
            budget=0.5 if policy.budget is None else policy.budget,
            sensitive=policy.protection,
            levels=self.levels,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A table to publish (a text column per API, `users`), and how it was made.

    `generalised` says which values each row of a generalisation allows; null as read from a file.
    """

    table: pl.DataFrame
    manifest: Manifest
    generalised: Generalised | None = None


def read_values(
    database: Database,
    snapshot: SnapshotTable,
    apis: Sequence[str],
    transforms: Mapping[str, Transform],
) -> pl.DataFrame:
    """Values of all users: a row each, a text column per API, null where absent.

    Args:
        database, snapshot: Values as they were logged; no view.
        transforms: API -> what is made of its values.

    Raises:
        UnknownNameError: An API that was never observed, or a transform of one that is not among
            `apis`.
        InputError: A transform of values that are kept by their digest.
    """
    for api in sorted(set(transforms) - set(apis)):
        raise UnknownNameError("released API", api, apis)

    def written(api: str, status: str, text: str | None) -> str:
        if status != "value":
            return f"({status})"
        return transforms[api](text or "") if api in transforms else text or ""

    return read_texts(database, snapshot, apis, written)


def make_release(
    values: pl.DataFrame,
    terms: ReleaseTerms,
    *,
    digest: str,
    made: datetime,
    sampling: Sampling | None = None,
) -> Release:
    """Make a release of the values of users.

    Users without any of the APIs are not published and not counted; where only some are missing,
    "(absent)" is a value like others.

    Args:
        values, terms: As `read_values` gives them for the transforms of the terms.
        digest, made: Noted in the manifest.
        sampling: Draw users beforehand; for a histogram only, whose rows depend on their own users
            alone.

    Raises:
        PolicyError: Users are drawn for another mechanism than the histogram.
        UndecidableError: No row would be published.
    """
    apis, k, named = tuple(values.columns), terms.k, terms.sensitive
    if sampling is not None and terms.mechanism != "histogram":
        raise PolicyError("sample", "is for the mechanism histogram", hint="omit --mechanism")
    terms.check(apis)
    drawn = values if sampling is None else values.filter(drawn_users(len(values), sampling))
    present = with_absent(drawn)
    generalised = None
    if terms.mechanism == "generalisation":
        if len(present) < k:
            raise UndecidableError(f"fewer than {k} users have a value: there would be no row")
        generalised = generalise(present, apis, k, terms.levels, terms.protection)
        outcome, dropping = _shown(generalised), None
    else:
        outcome, dropping = _suppress(
            present, apis, k, mechanism=terms.mechanism, budget=terms.budget
        )
    published = _published(outcome.table)
    suppressed = _suppressed(outcome, dropping, present, len(values) - published.users, k)
    manifest = Manifest(
        mechanism=terms.mechanism,
        policy=ReleasePolicy(
            apis=apis,
            k=k,
            budget=terms.budget if terms.mechanism == "cells" else None,
            protection=terms.protection,
        ),
        transforms=dict(sorted(terms.transforms.items())),
        data=ReleasedData(digest),
        date=made.replace(microsecond=0),
        patterns=outcome.patterns,
        published=published,
        suppressed=suppressed,
        sampling=sampling,
        sensitive=None if named is None else sensitivity_of(outcome.table, named.api),
        levels=tuple(terms.levels),
        information_loss=suppressed.cells_share if generalised is None else generalised.loss,
    )
    return Release(outcome.table, manifest, generalised)


def _shown(generalised: Generalised) -> Suppression:
    """Return the rows of a generalisation as those of a table that withholds nobody."""
    return Suppression(
        table=generalised.table,
        patterns=(),
        withheld=0,
        lost_cells=generalised.hidden_cells,
    )


def _check_levels(
    levels: Sequence[Component],
    apis: Sequence[str],
    mechanism: Mechanism,
    sensitive: Protection | None,
) -> None:
    """Refuse levels, and demands on a sensitive attribute, that no generalisation could keep."""
    if sensitive is not None and sensitive.api not in apis:
        raise UnknownNameError("released API", sensitive.api, apis)
    if sensitive is not None and sensitive.demands:
        if mechanism != "generalisation":
            raise PolicyError(
                "diversity", "is for the generalisation", hint="--mechanism generalisation"
            )
        if len(apis) < 2:
            raise InputError(f"sensitive: {sensitive.api} is the only API of the table")
        if any(sensitive.api in component.apis for component in levels):
            raise PolicyError(
                "levels",
                f"cannot be those of the sensitive {sensitive.api}",
                hint="make its values coarser by --what-if",
            )
    if levels and mechanism != "generalisation":
        raise PolicyError("levels", "are for the generalisation", hint="--mechanism generalisation")
    if levels:
        check_components(levels)
    for component in levels:
        if component.most == WITHHELD:
            raise PolicyError("levels", f"show {component.name} nowhere", hint="release fewer APIs")
        if component.designed:
            raise PolicyError("levels", "must be declared, not designed from the users")
        for api in component.apis:
            if api not in apis:
                raise UnknownNameError("released API", api, apis)


def _suppressed(
    outcome: Suppression, dropping: Suppression | None, present: pl.DataFrame, users: int, k: int
) -> Suppressed:
    return Suppressed(
        users=publishable_count(users, k, Audience.OTHERS),
        cells_share=_lost_share(outcome, present, k),
        cells_share_by_dropping_apis=None
        if dropping is None
        else _lost_share(dropping, present, k),
    )


def _published(table: pl.DataFrame) -> Published:
    users = table[USERS].to_numpy()
    return Published(rows=len(table), users=int(users.sum()), k_max=int(users.max(initial=0)))


def check_table_name(path: Path) -> None:
    """Check that the name of a table does not promise another format than is written.

    Raises:
        InputError: It ends neither in `.csv` nor in `.parquet`, but in something else.
    """
    if path.suffix.lower() not in {".csv", ".parquet", ""}:
        raise InputError(f"{path}: a table is written as CSV or Parquet", hint="-o NAME.csv")


def write_release(release: Release, path: Path) -> Path:
    """Write the table and its manifest beside it; where the manifest is.

    A file that is called `.csv` is CSV, in which a suppressed cell is empty; any other is Parquet.
    """
    table = io.BytesIO()
    if _is_csv(path):
        # Texts are quoted, so that an empty one is not a suppressed cell.
        release.table.write_csv(table, quote_style="non_numeric")
    else:
        release.table.write_parquet(table, compression="zstd")
    manifest = json.dumps(untyped(release.manifest), indent=2, ensure_ascii=False) + "\n"
    write_bytes(manifest_path(path), [manifest.encode()])
    write_bytes(path, [table.getvalue()])
    return manifest_path(path)


_MOST_USERS = 2**40  # in a row; more would not add up


def read_release(path: Path) -> Release:
    """Read a release and its manifest.

    Raises:
        InputError: A file is missing or not readable, the two do not fit, or the release is empty.
    """
    hint = "make one with `fpmonitor release --apis ... --k ... -o table.parquet`"
    try:
        table = _read_csv(path) if _is_csv(path) else pl.read_parquet(path, glob=False)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: no readable release ({reason_of(error)})", hint=hint) from error
    manifest = typed(read_json(manifest_path(path), "manifest", hint=hint), Manifest, "a manifest")
    if table.columns != [*manifest.policy.apis, USERS]:
        raise InputError(f"{path}: the columns are not those of its manifest", hint=hint)
    if not table[USERS].dtype.is_integer() or set(table.drop(USERS).dtypes) != {pl.String}:
        raise InputError(f"{path}: not text in all columns but {USERS!r}", hint=hint)
    if not len(table):
        raise InputError(f"{path}: the release is empty", hint=hint)
    if table[USERS].null_count() or not table[USERS].is_between(1, _MOST_USERS).all():
        raise InputError(f"{path}: {USERS!r} holds more than numbers of users", hint=hint)
    found, said = _published(table), manifest.published
    if replace(found, k_max=said.k_max and found.k_max) != said:
        raise InputError(f"{path}: not the table that its manifest describes", hint=hint)
    return Release(table, manifest)


def _is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _read_csv(path: Path) -> pl.DataFrame:
    """Read a table that `write_release` wrote as CSV."""
    text = pl.read_csv(path, infer_schema=False, glob=False)
    return text.with_columns(pl.col(USERS).cast(pl.Int64)) if USERS in text.columns else text


def manifest_path(path: Path) -> Path:
    """Where the manifest of a release is kept."""
    return path.with_suffix(".manifest.json")


def check_origin(release: Release, values: pl.DataFrame, digest: str) -> Release:
    """Check that a release was made of these values, by making it again; return that.

    Args:
        values, digest: Values of all users under the transforms of the manifest, and the digest of
            the data.

    Raises:
        InputError: Other data, or another table.
    """
    manifest = release.manifest
    hint = "name the database and the time window that it was made of"
    if digest != manifest.data.digest:
        raise InputError("the release was not made of the data of this database", hint=hint)
    again = make_release(
        values, manifest.terms, digest=digest, made=manifest.date, sampling=manifest.sampling
    )
    if not again.table.equals(release.table):
        raise InputError("the table differs from what its manifest describes", hint=hint)
    return again


def group_of_users(release: Release, values: pl.DataFrame) -> NDArray[np.int64]:
    """Row of the release that stands for each user, -1 where none does.

    The users need not be those that the release was made of.

    Args:
        values: Values of users under the transforms of the manifest.
    """
    if release.generalised is not None:
        present = values.select(~pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
        found = release.generalised.rows_of(values)
        return np.where(present, found, -1)
    groups = np.full(len(values), -1, dtype=np.int64)
    table = release.table.drop(USERS).with_row_index(_ROW)
    users = with_absent(values.with_row_index(_USER), values.columns)
    for pattern in release.manifest.patterns:
        starred = [api for api in values.columns if api not in pattern]
        rows = table.filter(
            pl.all_horizontal(pl.col(pattern).is_not_null()),
            *(pl.col(api).is_null() for api in starred),
        )
        hits = users.join(rows.select(_ROW, *pattern), on=list(pattern), how="inner")
        groups[hits[_USER].to_numpy()] = hits[_ROW].to_numpy()
        # The first pattern that fits a user has it, as when the table was made.
        users = users.join(hits.select(_USER), on=_USER, how="anti")
    return groups


_ROW, _USER = "row of the release", "row of the user"


def with_absent(users: pl.DataFrame, apis: Sequence[str] | None = None) -> pl.DataFrame:
    """Users with a value of at least one API (all columns by default); a word for those they lack.

    Args:
        users: A row each; null where absent.
        apis: The columns that are APIs.
    """
    apis = users.columns if apis is None else apis
    present = users.filter(pl.any_horizontal(pl.col(apis).is_not_null()))
    return present.with_columns(pl.col(apis).fill_null("(absent)"))


def _suppress(
    present: pl.DataFrame, apis: Sequence[str], k: int, *, mechanism: Mechanism, budget: float
) -> tuple[Suppression, Suppression | None]:
    dropping = None
    if mechanism == "histogram":
        outcome = truncated_histogram(present, apis, k)
    else:
        outcome = suppress_cells(present, apis, k, budget=budget)
        dropping = drop_apis(present, apis, k, budget=budget)
    if not len(outcome.table):
        raise UndecidableError(
            f"no value is shared by {k} users: the release would be empty",
            hint="release fewer APIs, make values coarser by --what-if, or lower k",
        )
    return outcome, dropping


def _lost_share(outcome: Suppression, present: pl.DataFrame, k: int) -> float:
    """Share of the cells that are lost, of 0 to k - 1 users without a row as if they were k - 1."""
    lost = len(present) - int(outcome.table[USERS].sum())
    hidden = max(k - 1 - lost, 0) * present.width
    return (outcome.lost_cells + hidden) / (present.height * present.width + hidden)
