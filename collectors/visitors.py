"""Visitors in SQL, by the rule of `fpmonitor.unit`."""

from __future__ import annotations

from fpmonitor.sql import statement


def visitor_parts(*, time: str, whose: str, agent: str) -> tuple[str, str, str]:
    """Return SQL for the day, the address or cookie, and the user agent of a visitor.

    Args:
        time, whose, agent: SQL of texts; null or empty where they are not known.
    """
    parsed = statement("ingest/parse_time").replace('"time"', time)
    written = f"regexp_extract({time}, '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')"
    day = f"COALESCE(NULLIF({written}, ''), left(({parsed})::VARCHAR, 10))"
    return day, f"NULLIF({whose}, '')", f"NULLIF({agent}, '')"


def visitor_name(*, time: str, whose: str, agent: str) -> str:
    """Return SQL for the name of a visitor, as `unit.visitor_of` tells it; null where it does not.

    An address goes no further than its digest.
    """
    parts = visitor_parts(time=time, whose=whose, agent=agent)
    return f"sha256({' || chr(31) || '.join(parts)})"
