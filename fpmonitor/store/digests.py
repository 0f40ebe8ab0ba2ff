"""Keyed digests: of the data of a decision, and of values where a database keeps nothing else."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from fpmonitor.store.database import Database

DIGEST = "blake2b:"  # what the digest of a value begins with
LONG = "sha256:"  # and that of one that is too long to be kept
_DIGEST_BYTES = 16
_KEY_BYTES = 32


def keyed_digest(digest: str, key: str) -> str:
    """Digest of data that may leave: without the key nobody can test guesses against it."""
    return hmac.new(key.encode(), digest.encode(), "sha256").hexdigest()


def data_key(database: Database) -> str:
    """Return the key of the digests of a database's data, which copies of the file share."""
    return database.meta("user_key")


def values_are_digested(database: Database) -> bool:
    """Whether the database keeps digests of values instead of values."""
    return bool(database.rows("digests/key"))


def keep_digests_only(database: Database) -> None:
    """From now on keep digests of values instead of values.

    Raises:
        InputError: The database holds values in the clear.
    """
    if values_are_digested(database):
        return
    if database.rows("digests/count_values")[0][0]:
        raise InputError(
            f"{database.path} holds values in the clear",
            hint="--digest-values is for a new database: name another with --db",
        )
    with database.transaction():
        database.run("digests/add_key", key=secrets.token_hex(_KEY_BYTES))


def digest_staged_values(database: Database) -> None:
    """Replace the values of the log that is being stored, where the database keeps digests."""
    keys = database.rows("digests/key")
    if not keys:
        return
    import polars as pl  # noqa: PLC0415 -- slow to load

    key = bytes.fromhex(keys[0][0])
    rows = database.rows("digests/clear_values")
    digests = [value_digest(text, api_id=api_id, key=key) for api_id, text in rows]
    frame = pl.DataFrame(
        {
            "api_id": pl.Series([api_id for api_id, _ in rows], dtype=pl.Int32),
            "text": pl.Series([text for _, text in rows], dtype=pl.String),
            "digest": pl.Series(digests, dtype=pl.String),
        }
    )
    with database.frame("value_digest", frame):
        database.run("digests/replace_values")


def value_digest(text: str, *, api_id: int, key: bytes) -> str:
    """Keyed BLAKE2b of a value, 128 bits; equal values of two APIs have different ones.

    RFC 7693, with the number of the API as personalisation.
    """
    # Equal digests in two columns would tell that their values are equal.
    person = api_id.to_bytes(hashlib.blake2b.PERSON_SIZE, "little")
    digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES, key=key, person=person)
    return f"{DIGEST}{digest.hexdigest()}"


def refuse_digests(database: Database, what: str) -> None:
    """Refuse a task that needs the values themselves.

    Raises:
        InputError: The database keeps digests of values instead of values.
    """
    if values_are_digested(database):
        raise InputError(
            f"{what} looks into values, and {database.path} keeps only digests of them",
            hint="use a database that was made without --digest-values",
        )
