"""Demand: which scripts read which APIs on which sites; never what they saw.

A demand log comes from one crawler or from many readers whom nobody counts: it says nothing of a
population, and no exposure is ever computed from it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import polars as pl

from fpmonitor.errors import InputError, UndecidableError, excerpt
from fpmonitor.logs.contract import DemandCollector, Reject
from fpmonitor.logs.finding import log_files
from fpmonitor.logs.log_file import LogFile
from fpmonitor.masking import masked_text
from fpmonitor.plugins import DEMAND, load_plugin, plugin_names
from fpmonitor.store.database import Database, utc_now

By = Literal["script", "site"]
Reader = Literal["script", "domain"]
_SETS: dict[By, str] = {"script": "demand/sets_by_script", "site": "demand/sets_by_site"}
_LISTED_REJECTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandReport:
    """What became of a demand log: read = stored + rejected, in distinct records of calls.

    `reason` is the commonest one for which some were rejected.
    """

    source: str
    collector: str
    read: int
    stored: int
    rejected: int
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        members = asdict(self)
        del members["reason"]
        return members


@dataclass(frozen=True, slots=True)
class Reads:
    """What a script (host and path), or all scripts of a host, read: on which sites."""

    name: str  # Of the script, or its host.
    sites: tuple[str, ...]  # Hosts of the pages, sorted.
    apis: Mapping[str, int]  # API -> on how many of the sites it is read.


@contextmanager
def demand_logs(
    paths: Sequence[str], name: str | None = None
) -> Iterator[list[tuple[LogFile, DemandCollector]]]:
    """Find demand logs and what reads each, there for the block; a folder may be one log.

    Args:
        name: Of the collector; null where each log tells.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fpmonitor-")))
        found: list[tuple[LogFile, DemandCollector]] = []
        for number, path in enumerate(paths):
            whole = _folder_log(Path(path), folder / str(number), name)
            if whole:
                found.append(whole)
                continue
            logs = stack.enter_context(log_files([path]))
            found += [(log, choose_demand_collector(log, name)) for log in logs]
        yield found


def _folder_log(
    path: Path, target: Path, name: str | None
) -> tuple[LogFile, DemandCollector] | None:
    """Return what a folder holds as one log, and its collector; null for other folders."""
    for known in plugin_names(DEMAND) if path.is_dir() else ():
        collector: DemandCollector = load_plugin(DEMAND, known)()
        if name in {None, known} and hasattr(collector, "log_of_folder"):
            log = collector.log_of_folder(path, target)
            if log is not None:
                return log, collector
    return None


def choose_demand_collector(log: LogFile, name: str | None = None) -> DemandCollector:
    """Load the demand collector of a name, or the one that recognises the log.

    Raises:
        InputError: None recognises it.
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
    """Store the calls of a log in one transaction; a file that is stored already adds nothing."""
    digest = _digest(log, collector)
    known = database.rows("demand/batch_by_digest", digest=digest)
    if known:
        return DemandReport(
            source=log.label, collector=collector.name, read=0, stored=0, rejected=0
        )
    calls: Counter[tuple[str, str, str]] = Counter()
    reasons: Counter[str] = Counter()
    listed: list[Reject] = []
    read = 0
    for call in collector.calls(log):
        read += 1
        reason = call.reason
        if not reason:
            calls[call.site, call.script, call.api] += call.calls
            continue
        reasons[reason] += 1
        if len(listed) < _LISTED_REJECTS:
            listed.append(Reject(call.line, reason, masked_text(excerpt(call.text))))
    report = DemandReport(
        source=log.label,
        collector=collector.name,
        read=read,
        stored=read - reasons.total(),
        rejected=reasons.total(),
        reason=next((reason for reason, _ in reasons.most_common(1)), ""),
    )
    _write(database, digest, report, calls, listed)
    return report


def _digest(log: LogFile, collector: DemandCollector) -> str:
    # Of the bytes as they lie on the disk: a file that is packed anew is another one.
    with log.path.open("rb") as file:
        begun = partial(hashlib.sha256, collector.name.encode())
        return hashlib.file_digest(file, begun).hexdigest()


def _write(
    database: Database,
    digest: str,
    report: DemandReport,
    calls: Counter[tuple[str, str, str]],
    rejects: Sequence[Reject],
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
            stored_at=utc_now(),
            **report.to_json(),
        )
        database.run(
            "demand/add_rejects",
            batch=batch,
            # 0 stands for the line of what has none, such as a database.
            lines=[reject.line or None for reject in rejects],
            reasons=[reject.reason for reject in rejects],
            excerpts=[reject.excerpt for reject in rejects],
        )


def read_demand(database: Database, by: By, *, most: int) -> list[tuple[tuple[str, ...], int, int]]:
    """List API sets that are read together, those of the most sites first.

    Each with the number of its scripts (host and path), and that of the sites.

    Args:
        by: Together by one script on one site, or by all scripts of a site, which can join what
            they read.
        most: How many sets.
    """
    rows = database.rows(_SETS[by], most=most)
    return [(tuple(apis), scripts, sites) for apis, scripts, sites in rows]


def read_scripts(
    database: Database, by: Reader, *, most: int, crawl: str = "*", reports: bool = True
) -> list[Reads]:
    """List what scripts, or hosts of scripts, read, those on the most sites first.

    Args:
        by: By script, or by the host that serves it.
        crawl: Glob pattern of the logs that count.
        reports: Whether what browsers of users reported counts: a script may be that of one user
            alone.

    Raises:
        UndecidableError: No such log was stored.
    """
    rows = database.rows("demand/reads", by=by, most=most, crawl=crawl, reports=reports)
    if not rows:
        raise UndecidableError(
            f"no log of API calls{'' if crawl == '*' else f' like {crawl}'} is stored",
            hint="store one with `fpmonitor lists demand LOG...`",
        )
    return [
        Reads(name, tuple(sites), dict(zip(apis, counts, strict=True)))
        for name, sites, apis, counts in rows
    ]


def read_sites(database: Database) -> dict[str, int]:
    """Count for each API the sites on which scripts read it."""
    return dict(database.rows("demand/sites_by_api"))
