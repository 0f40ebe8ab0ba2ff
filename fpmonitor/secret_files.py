"""Files that hold one secret: made for their owner alone, refused when others can read them."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from fpmonitor.errors import InputError
from fpmonitor.safe_files import open_regular, sync

_OTHERS = 0o077
_MOST_BYTES = 4096


def make_secret_file(path: Path, secret: str) -> None:
    """Write a secret to a new file of mode 0600.

    Raises:
        InputError: The file already exists, or cannot be written.
    """
    try:
        # O_EXCL: no key is ever written over, and no link that somebody left is followed.
        # The mode from the start: a chmod would leave a moment for others to open it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"key file {path}: cannot be made ({error.strerror})") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secret}\n")
        file.flush()
        os.fsync(descriptor)
    sync(path.absolute().parent)


def make_key_file(path: Path) -> None:
    """Write a new random key of 256 bits, for the owner's eyes alone."""
    make_secret_file(path, secrets.token_hex(32))


def check_owner_alone(path: Path, content: str) -> None:
    """Check that only its owner may read a file; `content` says what it holds.

    Raises:
        InputError: Others may read it, or there is no such file.
    """
    try:
        others = path.stat().st_mode & _OTHERS
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if others:
        raise InputError(f"{path}: others may read {content}", hint=f"chmod 600 {path}")


def read_secret_file(path: Path) -> str:
    """Read a secret: the text of a file without its line ends and its comments (`#`).

    Raises:
        InputError: The file cannot be read, is a named pipe, is open to others than its owner, or
            is too long for a secret.
    """
    try:
        with open_regular(path, "key file") as file:
            # The mode of what is read: the name may lead elsewhere a moment later.
            mode, content = os.fstat(file.fileno()).st_mode, file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"key file {path}: {error.strerror or error}") from error
    if mode & _OTHERS:
        raise InputError(f"key file {path} can be read by others", hint=f"chmod 600 {path}")
    if len(content) > _MOST_BYTES:
        raise InputError(f"{path} is not a key file", hint=f"it has more than {_MOST_BYTES} bytes")
    lines = content.decode("ascii", errors="replace").splitlines()
    return "".join(line.strip() for line in lines if not line.startswith("#"))
