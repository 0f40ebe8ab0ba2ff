"""What collectors of demand logs share: names of sites and scripts, without queries."""

from __future__ import annotations

from urllib.parse import urlsplit


def site_of(url: str) -> str:
    """Host of a page; empty where the URL has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def script_of(url: str) -> str:
    """Host and path of a script, without query and fragment; empty where the URL has no host."""
    host = site_of(url)
    return host + urlsplit(url).path if host else ""
