"""Settings of the service, from TOML and the command line."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.safe_files import is_file_name, read_toml

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
MAX_CONNECTIONS = 500
# None that may hold an address, a cookie or a token.
_HEADERS = {"user-agent", "accept-language", "sec-ch-ua", "sec-ch-ua-platform", "sec-ch-ua-mobile"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """What the service does.

    Attributes:
        db: The database; created if it does not exist.
        spool: Folder in which accepted records wait for the database; beside it by default.
        keys: File of the hashes of write keys and read tokens; beside the database by default.
        decision: Decision that is served and shown.
        source: Answers are about records of this source alone, or with `!` before it of all others,
            as with `--source`; about all by default.
        host: Where to listen.
        port: Where to listen; 0 lets the system choose.
        origins: Origins of pages that may send records; `*` for any.
        headers: Request headers that are stored with records, as `http:` APIs.
        max_connections: At once; beyond them, those that have kept a request waiting longest give
            way.
        max_body_bytes: Largest body, also after unpacking.
        max_records: Records of one request.
        records_per_minute: Of one write key.
        max_names: API names that a write key may bring besides those of the vocabulary, until it is
            forgotten.
        max_spool_bytes: Waiting and refused bytes above which requests are put off (429).
        min_free_bytes: Space on the disk, besides three times what waits, below which requests are
            put off (429).
        flush_seconds: How often waiting records go to the database.
        query_limit: Exact counts of chosen sets that a read token may have answered: a number, or
            `log2`; no limit by default.
    """

    db: Path = Path("fpmonitor.duckdb")
    spool: Path | None = None
    keys: Path | None = None
    decision: Path | None = None
    source: str | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8017
    origins: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    max_connections: _Positive = MAX_CONNECTIONS
    max_body_bytes: _Positive = 1_000_000
    max_records: _Positive = 2_000
    records_per_minute: _Positive = 600_000
    max_names: _Count = 1_000
    max_spool_bytes: _Count = 2_000_000_000
    min_free_bytes: _Count = 64_000_000
    flush_seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 5.0
    query_limit: str | None = None

    @property
    def spool_folder(self) -> Path:
        """Folder of accepted records."""
        return self.spool or self.db.with_name(f"{self.db.name}.spool")

    @property
    def keys_file(self) -> Path:
        """File of the hashes of keys."""
        return self.keys or self.db.with_name(f"{self.db.name}.keys.json")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    def with_options(self, **options: Any) -> ServeConfig:
        """Replace what is given and not null."""
        return replace(
            self, **{name: value for name, value in options.items() if value is not None}
        )


@cache
def is_loopback(host: str) -> bool:
    """Whether a host name is that of this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_config(path: Path) -> ServeConfig:
    """Read the settings from a TOML file, whose folder relative paths start from.

    Raises:
        InputError: Not readable, not TOML, an unknown setting, or a value of the wrong kind.
    """
    content = read_toml(path, "settings")
    known = {field.name for field in fields(ServeConfig)}
    unknown = sorted(content.keys() - known)
    if unknown:
        raise InputError(
            f"{path}: no setting {unknown[0]!r}", hint=f"settings: {', '.join(sorted(known))}"
        )

    def relative(_kind: type, name: object) -> Path:
        if not isinstance(name, str) or not is_file_name(name):
            raise TypeError("Expected the name of a file")
        return path.parent / name

    try:
        config = msgspec.convert(content, ServeConfig, dec_hook=relative)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}") from error
    if config.query_limit is not None:
        # Numpy comes with it, which whoever takes records does without.
        from fpmonitor.release.query_audit import query_limit  # noqa: PLC0415

        try:
            query_limit(config.query_limit, users=1)
        except PolicyError as error:
            raise InputError(f"{path}: {error}") from error
    # The vocabulary names header fields in lower case.
    config = replace(config, headers=tuple(map(str.lower, config.headers)))
    foreign = sorted(set(config.headers) - _HEADERS)
    if foreign:
        raise InputError(
            f"{path}: header {foreign[0]!r} cannot be stored",
            hint=f"headers: {', '.join(sorted(_HEADERS))}",
        )
    return config
