"""Write keys and read tokens: random, shown once, kept as hashes.

The secrets are random numbers of 256 bits, so that a plain hash of them cannot be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fpmonitor.collectors.fingerprintjs import VIA
from fpmonitor.errors import InputError
from fpmonitor.safe_files import alone_in, read_json, state_of_file, typed, untyped, write_bytes

Kind = Literal["write", "read"]
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Key:
    """A key: what it allows, the name that records or readers get by it, its hash.

    Raises:
        InputError: The name is empty, long, or one that other sources have; or the hash is none.
    """

    kind: Kind
    name: str
    digest: str

    def __post_init__(self) -> None:
        """Refuse what no command has written, as whoever edits the file may have."""
        is_text = self.name.strip() and len(self.name) <= 100 and self.name.isprintable()
        # Names of sources have `VIA` between a key and a library; settings have `!` for all others.
        if not is_text or VIA in self.name or self.name.startswith("!"):
            raise InputError("name: must be a short word")
        if not _DIGEST.fullmatch(self.digest):
            raise InputError("digest: must be a SHA-256 in hexadecimal digits")


def key_of(keys: Iterable[Key], kind: Kind, secret: str) -> Key | None:
    """Return the key of a secret, None if there is no such key; in constant time."""
    digest = _digest(secret)
    found = None
    # All of them, so that the time does not tell which one it was.
    for key in keys:
        if key.kind == kind and hmac.compare_digest(key.digest, digest):
            found = key
    return found


def read_keys(path: Path) -> tuple[Key, ...]:
    """Read the keys; none without a file.

    Raises:
        InputError: The file is not a list of keys.
    """
    if not path.exists():
        return ()
    try:
        return typed(read_json(path, "keys"), tuple[Key, ...], "a list of keys")
    except InputError as error:
        raise InputError(f"{path}: not a readable file of keys") from error


class KeyFile:
    """The keys of a file, which is read again when it changes: a removed key stops at once.

    Where the file can no longer be read, no key counts: nobody is let in by one that was removed.

    Raises:
        InputError: The file is not a list of keys.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, state_of_file(path)
        self.last = read_keys(path)
        self._had = {key.kind for key in self.last}

    @property
    def now(self) -> tuple[Key, ...]:
        """The keys of now; `last` are those that it gave last."""
        state = state_of_file(self._path)
        if state != self._seen:
            try:
                self.last = read_keys(self._path)
            except InputError:
                self.last = ()
            self._seen = state
            self._had |= {key.kind for key in self.last}
        return self.last

    def had(self, kind: Kind) -> bool:
        """Whether there is a key of a kind, or was one: without it nobody is let in, not all."""
        return any(key.kind == kind for key in self.now) or kind in self._had


def add_key(path: Path, kind: Kind, name: str) -> str:
    """Make a key and return its secret, which is stored nowhere.

    Raises:
        InputError: There is one of this kind and name already; or as of `Key`.
    """
    secret = secrets.token_urlsafe(32)
    made = Key(kind, name, _digest(secret))
    with alone_in(path.absolute().parent):
        keys = read_keys(path)
        if any((key.kind, key.name) == (kind, name) for key in keys):
            raise InputError(f"there is a {kind} key {name!r} already", hint="remove it first")
        _write(path, (*keys, made))
    return secret


def remove_key(path: Path, kind: Kind, name: str) -> None:
    """Remove a key.

    Raises:
        InputError: There is no such key.
    """
    with alone_in(path.absolute().parent):
        keys = read_keys(path)
        remaining = tuple(key for key in keys if (key.kind, key.name) != (kind, name))
        if len(remaining) == len(keys):
            raise InputError(f"no {kind} key {name!r}")
        _write(path, remaining)


def _write(path: Path, keys: tuple[Key, ...]) -> None:
    text = json.dumps(untyped(keys), indent=1) + "\n"
    write_bytes(path, [text.encode()], mode=0o600)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
