"""Finds the logs that are named by files, folders, patterns and standard input."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from glob import has_magic
from itertools import takewhile
from pathlib import Path

import duckdb

from fpmonitor.duckdb_connection import HOW_TO_GET_HTTPFS, connect, keyboard_interrupts, load_httpfs
from fpmonitor.errors import InputError, excerpt, reason_of
from fpmonitor.logs.forms import new_file, readable_log
from fpmonitor.logs.log_file import LogFile

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


_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_COMPRESSED_ENDINGS = ("", ".gz", ".zst")


@contextmanager
def log_files(paths: Sequence[str], *, allow_network: bool = False) -> Iterator[list[LogFile]]:
    """Find the logs that are named by files, folders, glob patterns and `-` (standard input).

    Folders are searched for files with a known ending.

    Args:
        paths: Names, or addresses of one file each.
        allow_network: Whether DuckDB may fetch what addresses name.
    """
    with tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder:
        found: dict[Path, LogFile] = {}
        for text in paths:
            for log in _expand(text, Path(folder), allow_network=allow_network):
                # A file that two patterns name is one log, under its first name.
                found.setdefault(log.path.resolve(), log)
        yield list(found.values())


@contextmanager
def each_log(files: Iterable[str]) -> Iterator[Iterator[LogFile]]:
    """Find the logs of files, one after the other; errors, at the turn of each, as of `log_files`.

    Two names of one file are two logs.
    """
    with tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder:
        yield (_log_of(text, Path(folder)) for text in files)


def _log_of(file: str, scratch: Path) -> LogFile:
    logs = _expand(file, scratch, allow_network=False)
    if Path(file).is_dir() or len(logs) != 1:
        raise InputError(f"{file}: not a file")
    return logs[0]


def _expand(text: str, scratch: Path, *, allow_network: bool) -> list[LogFile]:
    if text == "-":
        # A log is read several times.
        spooled = scratch / "stdin"
        with spooled.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return [readable_log(spooled, "<stdin>", scratch)]
    if ADDRESS.match(text):
        if not allow_network:
            raise InputError(
                f"{excerpt(text)}: fpmonitor reads nothing from the network of its own accord",
                hint="download it first, pipe it in (`curl ADDRESS | fpmonitor ingest -`), or let "
                "DuckDB fetch it with --allow-network",
            )
        return [readable_log(fetched(text, scratch), QUERY.sub("", text), scratch)]
    path = Path(text)
    try:
        is_there = path.exists()
    except OSError as error:
        raise InputError(f"{excerpt(text)}: {error.strerror}") from error
    if path.is_dir():
        try:
            found = [file for file in sorted(path.rglob("*")) if is_log(file)]
        except PermissionError as error:
            raise InputError(
                f"{error.filename}: cannot be read", hint="check the permissions of its folder"
            ) from error
        logs = [readable_log(file, str(file), scratch) for file in found]
        if not logs:
            raise InputError(
                f"{path}: no logs in this folder",
                hint=f"logs end in {', '.join(_ENDINGS)}, also with .gz or .zst",
            )
        return logs
    if not is_there and has_magic(text):
        matches = [file for file in sorted(_matches(path)) if file.is_file()]
        if not matches:
            raise InputError(f"{text}: no file matches")
        return [readable_log(file, str(file), scratch) for file in matches]
    if not is_there:
        raise InputError(f"{str(path)[:300]}: no such file or folder")
    if path.is_fifo():  # such as the output of a command, which can be read once only
        spooled = new_file(scratch)
        with path.open("rb") as source, spooled.open("wb") as target:
            shutil.copyfileobj(source, target)
        return [readable_log(spooled, str(path), scratch)]
    if not path.is_file():
        raise InputError(f"{path}: neither a file nor a folder")
    return [readable_log(path, str(path), scratch)]


def _matches(pattern: Path) -> list[Path]:
    """Files that match, hidden ones left out; `**` follows no links, which may lead in circles."""
    plain = list(takewhile(lambda part: not has_magic(part), pattern.parts))
    folder = Path(*plain)
    try:
        found = list(folder.glob(str(Path(*pattern.parts[len(plain) :]))))
    except (ValueError, OSError) as error:
        raise InputError(f"{pattern}: no pattern of files ({error})") from error
    return [file for file in found if not _is_hidden(file.relative_to(folder))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def is_log(file: Path) -> bool:
    """Whether a file of a folder counts as a log, by its ending."""
    name = file.name.lower()
    return file.is_file() and any(
        name.endswith(ending + packed) for ending in _ENDINGS for packed in _COMPRESSED_ENDINGS
    )
