"""Files and messages in JSON: their types are the types that the code uses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fpmonitor.errors import InputError

_Kind = TypeVar("_Kind")


def encode(content: Any, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """Return the bytes of a file; equal content has equal bytes, as ids are made from them."""
    # Not by `msgspec.json`, which writes NaN as null.
    plain = msgspec.to_builtins(content, order="deterministic", enc_hook=enc_hook)
    return (json.dumps(plain, indent=1, allow_nan=False) + "\n").encode()


def content_digest(content: Any) -> str:
    """Return the SHA-256, in hexadecimal, of content as `encode` writes it."""
    return hashlib.sha256(encode(content)).hexdigest()


def decode(
    data: bytes,
    kind: type[_Kind],
    name: str,
    dec_hook: Callable[[type, Any], Any] | None = None,
) -> _Kind:
    """Return JSON, from anybody, as a type of ours, every member checked.

    `name` says what it should be, for the message: "study"; `dec_hook` makes what JSON has no type
    for.

    Raises:
        InputError: Not JSON; or a member is missing, of the wrong type or out of its range.
    """
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InputError):  # of a check of ours, which says it better
            raise error.__cause__ from None
        tag = getattr(getattr(kind, "__struct_config__", None), "tag", None)
        wanted = f", where {tag!r} belongs" if "`$.format`" in str(error) else ""
        raise InputError(f"{name}: {error}{wanted}") from error
    # Thousands of brackets exhaust the stack before they are no JSON.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON") from error


def file_parts(path: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a file in parts of `size` bytes; the last one may be shorter.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            while part := file.read(size):
                yield part
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
