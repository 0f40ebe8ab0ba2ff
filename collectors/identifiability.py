"""Chromium's identifiability study: rows of a client, a metric's hash and a token."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors.long import LongCollector
from fpmonitor.collectors.renamed import column_names

if TYPE_CHECKING:
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile

_HASH = "metric_hash"


class IdentifiabilityCollector(LongCollector):
    """Reads `user, metric_hash, value` (other names by column map).

    The low 8 bits of a metric's hash are the type of the surface, the other 56 the hash of what it
    was asked for (`identifiable_surface.h` of Chromium): the API is `x:ukm:<type>:<hexadecimal>`.
    """

    name: ClassVar[str] = "identifiability"

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log has a user and a metric's hash in each record."""
        return _HASH in column_names(log) and super().recognises(log, _named(column_map))

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log."""
        # Tables may have the unsigned hash as a signed number: 2^64 is added to those below 0.
        scan = super().scan(log, _named(column_map))
        select = f"""
            SELECT * EXCLUDE (number, hash) REPLACE (
                COALESCE(
                    problem,
                    CASE WHEN hash IS NULL THEN 'metric_hash is no 64-bit number' END
                ) AS problem,
                COALESCE(source, 'identifiability') AS source,
                'x:ukm:' || (hash & 255) || ':' || lower(to_hex(hash >> 8)) AS api
            )
            FROM (
                SELECT *, TRY_CAST(
                    number + CASE WHEN number < 0 THEN 18446744073709551616 ELSE 0 END AS UBIGINT
                ) AS hash
                FROM (SELECT *, TRY_CAST(api AS HUGEINT) AS number FROM ({scan.select}))
            )
        """  # noqa: S608 -- a statement of the long collector
        return replace(scan, select=select)


def _named(column_map: ColumnMap) -> ColumnMap:
    return replace(column_map, columns={"api": _HASH, **column_map.columns})
