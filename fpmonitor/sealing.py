"""Files at rest for one key holder: sealed in the age format, which other tools open as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from fpmonitor.errors import InputError, install
from fpmonitor.safe_files import beside, whole_file
from fpmonitor.secret_files import make_secret_file, read_secret_file


def make_seal_key(path: Path) -> None:
    """Write a new secret key, X25519 as `age-keygen` makes it, for the owner's eyes alone."""
    make_secret_file(path, str(_age().x25519.Identity.generate()))


def seal_file(source: Path, target: Path, key_file: Path) -> None:
    """Encrypt a file for the holder of a key (age v1: X25519, ChaCha20-Poly1305 in chunks).

    Raises:
        InputError: A file cannot be read or written, is a database in use, or is not a key file.
    """
    left = beside(source, ".wal") + beside(source, ".undo")
    if left:
        raise InputError(
            f"{source} is open, or was not closed: part of it is in {left[0].name}",
            hint="end what uses it, and run `fpmonitor db verify`, which takes it in",
        )
    key = _read_key(key_file)
    with _new_file(target) as scratch, _readable(source):
        _age().encrypt_file(str(source), str(scratch), [key.to_public()])


def open_file(source: Path, target: Path, key_file: Path) -> None:
    """Decrypt a file that `seal_file` or age encrypted; every byte of it is authenticated.

    Raises:
        InputError: A file cannot be read or written, is not a key file, or was not sealed for this
            key, or was changed since; then nothing is written.
    """
    age, key = _age(), _read_key(key_file)
    with _new_file(target) as scratch, _readable(source):
        try:
            age.decrypt_file(str(source), str(scratch), [key])
        except (age.DecryptError, OSError) as error:
            if isinstance(error, OSError) and type(error) is not OSError:
                raise  # the file; broken content is an OSError itself
            raise InputError(
                f"{source} cannot be opened with {key_file}",
                hint="it was sealed for another key, was changed, or is not a sealed file",
            ) from error


def _age() -> Any:
    try:
        import pyrage  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise InputError("sealing needs pyrage", hint=install("private")) from error
    return pyrage


def _read_key(path: Path) -> Any:
    age = _age()
    try:
        return age.x25519.Identity.from_str(read_secret_file(path))
    except age.IdentityError as error:
        raise InputError(
            f"{path} is not a key file", hint="make one with `fpmonitor db seal --make-key`"
        ) from error


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _new_file(target: Path) -> AbstractContextManager[Path]:
    """File for the owner alone that takes its name when it is whole."""
    if target.exists():
        raise InputError(f"{target} already exists", hint="name another file by -o")
    return whole_file(target, 0o600)
