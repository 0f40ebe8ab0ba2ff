"""What an address names, fetched by DuckDB where that was asked for."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from fpmonitor.duckdb_connection import (
    HOW_TO_GET_HTTPFS,
    connect,
    keyboard_interrupts,
    load_httpfs,
)
from fpmonitor.errors import InputError, excerpt, reason_of
from fpmonitor.logs.forms import new_file

_KEYS_OF_S3 = (
    "give DuckDB your keys once: python -c \"import duckdb; duckdb.sql('CREATE PERSISTENT SECRET "
    "(TYPE s3, ...)')\""
)
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
QUERY = re.compile(r"\?[^\s'\"]*")  # of an address, which may hold a signature


def fetched(address: str, scratch: Path) -> Path:
    """Copy what an address names, which is held in memory meanwhile, to a new file."""
    label = excerpt(QUERY.sub("", address))
    try:
        # An instance of its own: with the extension, any path that is an address would be fetched.
        with keyboard_interrupts(), connect(":memory:") as connection:
            load_httpfs(connection)
            found = "SELECT content FROM read_blob($address)"
            contents = connection.execute(found, {"address": address}).fetchall()
    except duckdb.Error as error:
        reason = QUERY.sub("", reason_of(error))
        hint = _KEYS_OF_S3 if address.startswith("s3:") else ""
        hint = HOW_TO_GET_HTTPFS if "httpfs" in reason else hint
        raise InputError(f"{label}: cannot be fetched ({reason})", hint=hint) from error
    if len(contents) != 1:
        raise InputError(f"{label}: {len(contents):,} files", hint="name them one by one")
    target = new_file(scratch)
    target.write_bytes(contents[0][0])
    return target
