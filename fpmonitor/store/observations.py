"""Stores what the visits of staged logs show, once for each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fpmonitor.store.staging import cells_of_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.logs.contract import Scan
    from fpmonitor.store.database import Database


def store_observations(
    database: Database, scan: Scan, apis: Mapping[str, int], batch: int | None
) -> bool:
    """Store what each visit shows; whether any of the visits was stored before.

    Args:
        database, scan, apis: The open database, in which the records are staged, and the numbers of
            the APIs.
        batch: Number of the log; null for those of `ingest/stage_logs`.

    Raises:
        NotApartError: Of several logs, one tells of a visit that another one, or one before, tells
            of.
    """
    wide = scan.apis is not None
    last = database.rows("ingest/last_visit_id")[0][0]
    database.run("ingest/add_users")
    database.run("ingest/add_sources")
    [(earliest, latest)] = database.rows("ingest/staged_moments")
    moments = {"earliest": earliest, "latest": latest}
    database.run("ingest/number_visits", last=last, wide=wide, **moments)
    if batch is None:
        database.run("ingest/add_visits_of_logs")
    else:
        database.run("ingest/add_visits", batch=batch)
    database.run("ingest/add_page_views")
    database.run("ingest/find_repeats", wide=wide)
    database.run("ingest/create_kept")
    database.run("ingest/create_unordered_visit")
    repeats, known, undated = database.rows("ingest/count_repeats")[0]
    contested = partial(
        _store_contested, database, any_known=bool(known), any_undated=bool(undated)
    )
    if batch is None and any(database.rows("ingest/count_mixed_visits")[0]):
        raise NotApartError
    if known:
        database.run("ingest/create_corrected_visit")
    if scan.apis is None:
        database.run("ingest/contest_long")
        contested()
        return bool(known)
    # API by API: neighbouring rows then differ in the visit alone, which packs ten times better.
    for cells in cells_of_columns(database, scan, apis):
        database.run("ingest/add_fresh_observations", fragments=cells, last=last)
        if repeats:
            database.run("ingest/contest_wide", fragments=cells)
            contested()
    return bool(known)


def _store_contested(database: Database, *, any_known: bool, any_undated: bool) -> None:
    if any_undated:
        database.run("ingest/add_unordered_visits")
    if any_known:
        database.run("ingest/find_corrected")
        database.run("ingest/add_corrected_visits")
        database.run("ingest/drop_stored")
    database.run("ingest/add_kept_rows")
    database.run("ingest/add_kept_observations")


class NotApartError(Exception):
    """What one of several logs brings follows from what another one brings."""
