"""Small files that people write or programs make: decisions, settings, maps, weights."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from fpmonitor.errors import InputError, reason_of

_Kind = TypeVar("_Kind")

MAX_TEXT_BYTES = 256_000_000
MAX_TOML_BYTES = 4_000_000
_MAX_TOML_DEPTH = 20
_PATIENCE = 10.0  # seconds that a command waits for another
_LONGEST_NAME, _LONGEST_PATH = 240, 4_000  # bytes; endings of ours come to them


def read_bytes(path: Path, kind: str, *, hint: str = "", most: int = MAX_TEXT_BYTES) -> bytes:
    """Read a file.

    Args:
        path: The file; of a device or a pipe, too, no more than the limit is read.
        kind: What the file is, for the message.
        hint: What to do where it cannot be read.
        most: Bytes that it may have.

    Raises:
        InputError: It cannot be read, or is larger; or it is a named pipe, which may have no
            writer.
    """
    try:
        with open_regular(path, kind, hint=hint) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{kind} {path}: {error.strerror or error}", hint=hint) from error
    if len(content) > most:
        raise InputError(f"{kind} {path}: larger than {most / 1_000_000:g} MB", hint=hint)
    return content


@contextmanager
def open_regular(path: Path, kind: str, *, hint: str = "") -> Iterator[BinaryIO]:
    """Open a file for the block to read; arguments as of `read_bytes`.

    Raises:
        InputError: It is a named pipe.
        OSError: It cannot be opened.
    """
    # Not blocked: a pipe without a writer would be waited for. Opened first: a name may change.
    with open(path, "rb", opener=_open_at_once) as file:
        is_pipe = stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
        if is_pipe and path.resolve().exists():  # that of `<(...)` has no name
            raise InputError(f"{kind} {path}: a named pipe, not a file", hint=hint)
        os.set_blocking(file.fileno(), True)
        yield file


def _open_at_once(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)


def beside(path: Path, ending: str) -> list[Path]:
    """Files with an ending that are there beside a file, or beside the one that a link means.

    Versions of DuckDB differ in where they keep the log of a database that a link names.
    """
    places = dict.fromkeys((path, path.resolve()))
    found = (place.with_name(place.name + ending) for place in places)
    return [other for other in found if other.exists()]


def read_text(path: Path, kind: str, *, hint: str = "", most: int = MAX_TEXT_BYTES) -> str:
    """Read a file as UTF-8; arguments and errors as of `read_bytes`, and where it is not UTF-8."""
    return _decoded(read_bytes(path, kind, hint=hint, most=most), path, kind, hint)


def read_json(path: Path, kind: str, *, hint: str = "") -> Any:
    """Read a JSON file; arguments and errors as of `read_text`, and where it is not JSON."""
    return json_of(read_bytes(path, kind, hint=hint), path, kind, hint=hint)


def json_of(content: bytes, path: Path, kind: str, *, hint: str = "") -> Any:
    """Parse what was read of a JSON file; errors as of `read_json`."""
    return _parsed(strict_json, path, kind, _decoded(content, path, kind, hint), hint)


def read_toml(path: Path, kind: str, *, hint: str = "") -> dict[str, Any]:
    """Read a TOML file; arguments and errors as of `read_text`, and where it is not TOML."""
    text = read_text(path, kind, hint=hint, most=MAX_TOML_BYTES)
    content: dict[str, Any] = _parsed(tomllib.loads, path, kind, text, hint)
    if _is_deeper(content, _MAX_TOML_DEPTH):  # dotted keys nest without brackets
        raise InputError(f"{kind} {path}: nested too deeply", hint=hint)
    return content


def toml_string(text: str) -> str:
    """Text as a string of TOML, which cannot control a terminal either."""
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    written = (c if c.isprintable() else rf"\U{ord(c):08X}" for c in escaped)
    return f'"{"".join(written)}"'


def _is_deeper(content: Any, most: int) -> bool:
    level = [content]
    for _ in range(most):
        tables = [list(outer.values()) for outer in level if isinstance(outer, dict)]
        lists = [outer for outer in level if isinstance(outer, list)]
        level = list(chain.from_iterable(tables + lists))
    return bool(level)


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, name -> text, into a folder, which is made if it is not there.

    Raises:
        InputError: One of them cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {reason_of(error)}") from error
    for name, text in files.items():
        write_bytes(folder / name, [text.encode()])


def write_bytes(path: Path, parts: Iterable[bytes], mode: int = 0o644) -> None:
    """Write a file: on disk and whole, or not at all; a pipe or device is written to as it is.

    Raises:
        InputError: It cannot be written.
    """
    try:
        is_file = path.is_file() or not path.exists()
        with (
            whole_file(path, mode) if is_file else nullcontext(path) as target,
            target.open("wb") as file,
        ):
            file.writelines(parts)
    except OSError as error:
        raise InputError(f"cannot write {path} ({error.strerror})") from error


@contextmanager
def whole_file(path: Path, mode: int = 0o644) -> Iterator[Path]:
    """Give the block a file to fill, which takes this name when it is whole and on disk.

    Raises:
        InputError: It cannot be made, or cannot take its name.
    """
    # In the same folder, as only within a file system a name changes hands at once; hidden, so
    # that no watch of the folder takes it for a log.
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # O_EXCL: never through a link that somebody left under this name.
        os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        yield scratch
        sync(scratch)
        scratch.replace(path)
        # The folder has the name, and has to be on disk as well.
        sync(path.absolute().parent)
    except OSError as error:
        raise InputError(f"cannot write {path} ({error.strerror})") from error
    finally:
        scratch.unlink(missing_ok=True)


def is_file_name(text: str) -> bool:
    """Whether a file may have this name, as far as the name tells."""
    sizes = [len(os.fsencode(part)) for part in Path(text).parts]
    is_short = max(sizes, default=0) <= _LONGEST_NAME and sum(sizes) + len(sizes) <= _LONGEST_PATH
    return bool(Path(text).name) and "\0" not in text and is_short


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Let the block change files of a folder while no other command does.

    Of two that read a file, change it and write it at once, one change would be lost.

    Raises:
        InputError: Another command does for long, or the folder cannot be locked.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            # On the folder itself: a kill leaves no file of a lock behind.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > end:
                why = f"{folder}: another command changes its files"
                raise InputError(why, hint="wait until it has ended") from error
            time.sleep(0.02)
        except OSError as error:
            raise InputError(f"{folder}: cannot be locked ({error.strerror})") from error
        else:
            return


def state_of_file(path: Path) -> tuple[int, ...] | None:
    """Return what distinguishes a file from what it was and from its replacement; None: no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 -- of a Path it takes three times as long
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def typed(content: Any, kind: type[_Kind], name: str, *, hint: str = "") -> _Kind:
    """Return parsed JSON or TOML as a type of ours, every member checked.

    Args:
        content: What a parser of JSON or TOML returned.
        kind: A dataclass or `msgspec.Struct`.
        name: What the content should be, for the message: "a decision".

    Raises:
        InputError: A member is missing, of the wrong type or out of its range; the message names
            it. What the type itself refuses is told in its own words.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from error
        raise InputError(f"not {name}: {error}", hint=hint) from error


def untyped(content: Any) -> Any:
    """Return a value of a type of ours as a parser of JSON would; `typed` reads it again."""
    return msgspec.json.decode(msgspec.json.encode(content))


def strict_json(text: str, *, may_repeat: bool = False) -> Any:
    """Parse JSON without NaN, Infinity, halves of characters, and members that stand twice.

    Of two members of one name one reader takes the first, another the last (RFC 8259, 4).

    Args:
        may_repeat: Let them stand, and take the last.
    """
    members = None if may_repeat else _members
    content = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=members)
    # An escaped half of a character is parsed, and cannot be encoded: that is a ValueError, too.
    if "\\ud" in text or "\\uD" in text:
        json.dumps(content, ensure_ascii=False).encode()
    return content


# Sorted members and no white space: values that say the same have one text. A number such as 1e999
# is infinite to Python, as all larger ones: a ValueError.
canonical_text = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
).encode


def json_or_none(text: str | bytes) -> Any:
    """Parse JSON of whoever wrote a log; null for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member stands twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _decoded(content: bytes, path: Path, kind: str, hint: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{kind} {path}: not UTF-8", hint=hint) from error


def _parsed(parse: Callable[[str], Any], path: Path, kind: str, text: str, hint: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise InputError(f"{kind} {path}: {error}", hint=hint) from error
    except RecursionError as error:
        raise InputError(f"{kind} {path}: nested too deeply", hint=hint) from error
