"""Demand: which scripts read which APIs on which sites; never what they saw.

A demand log comes from one crawler or from many readers whom nobody counts: it says nothing of a
population, and no exposure is ever computed from it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import polars as pl

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.logs.contract import DemandCollector
from fpmonitor.logs.log_file import LogFile
from fpmonitor.plugins import DEMAND, load_plugin, plugin_names
from fpmonitor.store.database import Database

By = Literal["script", "site"]
Reader = Literal["script", "domain"]
_SETS: dict[By, str] = {"script": "demand/sets_by_script", "site": "demand/sets_by_site"}
_BLOCK = 1 << 22
_MAX_CALLS = 10**9  # that one record may tell


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandReport:
    """What became of a demand log: read = stored + rejected, in distinct records of calls."""

    source: str
    collector: str
    read: int
    stored: int
    rejected: int

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ApiDemand:
    """An API set that is read together: by how many scripts (host and path), on how many sites."""

    apis: tuple[str, ...]
    scripts: int
    sites: int


@dataclass(frozen=True, slots=True)
class Reads:
    """What a script (host and path), or all scripts of a host, read: on which sites.

    Attributes
    ----------
    name
        Of the script, or its host.
    sites
        Hosts of the pages, sorted.
    apis
        API -> on how many of the sites it is read.
    """

    name: str
    sites: tuple[str, ...]
    apis: Mapping[str, int]


def choose_demand_collector(log: LogFile, name: str | None = None) -> DemandCollector:
    """Load the demand collector of a name, or the one that recognises the log.

    Raises
    ------
    InputError
        None recognises it.
    """
    for known in plugin_names(DEMAND) if name is None else [name]:
        collector: DemandCollector = load_plugin(DEMAND, known)()
        if name is not None or collector.recognises(log):
            return collector
    raise InputError(
        f"{log.label}: no demand log that fpmonitor knows",
        hint=f"it reads logs of {', '.join(plugin_names(DEMAND))}; `ingest` takes logs of values",
    )


def store_demand(database: Database, log: LogFile, collector: DemandCollector) -> DemandReport:
    """Store the calls of a log in one transaction; a file that is stored already adds nothing.

    Raises
    ------
    InputError
        The log cannot be read; nothing of it is stored.
    """
    digest = _digest(log, collector)
    known = database.rows("demand/batch_by_digest", digest=digest)
    if known:
        return DemandReport(
            source=log.label, collector=collector.name, read=0, stored=0, rejected=0
        )
    calls: Counter[tuple[str, str, str]] = Counter()
    read = rejected = 0
    for call in collector.calls(log):
        read += 1
        if call.site and call.script and call.api and 0 < call.calls <= _MAX_CALLS:
            calls[call.site, call.script, call.api] += call.calls
        else:
            rejected += 1
    report = DemandReport(
        source=log.label,
        collector=collector.name,
        read=read,
        stored=read - rejected,
        rejected=rejected,
    )
    _write(database, digest, report, calls)
    return report


def _digest(log: LogFile, collector: DemandCollector) -> str:
    digest = hashlib.sha256(collector.name.encode())
    with log.path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _write(
    database: Database, digest: str, report: DemandReport, calls: Counter[tuple[str, str, str]]
) -> None:
    frame = pl.DataFrame(
        [(*names, count) for names, count in calls.items()],
        schema={"site": pl.String, "script": pl.String, "api": pl.String, "calls": pl.Int64},
        orient="row",
    )
    with database.transaction(), database.frame("arrived_calls", frame):
        batch = database.rows("demand/next_batch_id")[0][0]
        database.run("demand/add_calls", batch=batch)
        database.run(
            "demand/add_batch",
            batch=batch,
            digest=digest,
            stored_at=datetime.now(UTC).replace(tzinfo=None),
            **report.to_json(),
        )


def read_demand(database: Database, by: By, *, most: int) -> list[ApiDemand]:
    """List API sets that are read together, those of the most sites first.

    Parameters
    ----------
    by
        Together by one script on one site, or by all scripts of a site, which can join what they
        read.
    most
        How many sets.
    """
    rows = database.rows(_SETS[by], most=most)
    return [ApiDemand(tuple(apis), scripts, sites) for apis, scripts, sites in rows]


def read_scripts(
    database: Database, by: Reader, *, most: int, crawl: str = "*", reports: bool = True
) -> list[Reads]:
    """List what scripts, or hosts of scripts, read, those on the most sites first.

    Parameters
    ----------
    by
        By script, or by the host that serves it.
    most
        How many.
    crawl
        Glob pattern of the logs that count.
    reports
        Whether what browsers of users reported counts: a script may be that of one user alone.

    Raises
    ------
    UndecidableError
        No such log was stored.
    """
    rows = database.rows("demand/reads", by=by, most=most, crawl=crawl, reports=reports)
    if not rows:
        raise UndecidableError(
            f"no log of API calls{'' if crawl == '*' else f' like {crawl}'} is stored",
            hint="store one with `fpmonitor demand LOG...`",
        )
    return [
        Reads(name, tuple(sites), dict(zip(apis, counts, strict=True)))
        for name, sites, apis, counts in rows
    ]


def read_sites(database: Database) -> dict[str, int]:
    """Count for each API the sites on which scripts read it."""
    return dict(database.rows("demand/sites_by_api"))
