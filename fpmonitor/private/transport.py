"""HTTP requests from one role or user to another role."""

from __future__ import annotations

import http.client
import json
import re
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from fpmonitor.closing import Closing
from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.private.files import decode
from fpmonitor.safe_files import read_text, write_bytes
from fpmonitor.secret_files import check_owner_alone
from fpmonitor.serve.config import is_loopback

BYTES_TYPE = "application/octet-stream"
MAX_ANSWER_BYTES = 16_000_000
_TIMEOUT_SECONDS = 60.0
_MAX_PASSWORD_BYTES = 1_000_000
_Kind = TypeVar("_Kind")


class UnreachableError(FpmonitorError):
    """A service does not answer, or refuses a request; `answered` says which.

    `retry_after` is the number of seconds after which to try again, or null.
    """

    def __init__(
        self,
        message: str,
        *,
        answered: bool = False,
        retry_after: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.answered = answered
        self.retry_after = retry_after


def read_answer(content: bytes, kind: type[_Kind]) -> _Kind:
    """Return the answer of a role, JSON, as a type of ours.

    Raises:
        UnreachableError: It is something else.
    """
    try:
        return decode(content, kind, "answer")
    except InputError as error:
        raise UnreachableError(f"the service does not answer as a role does ({error})") from error


class RoleClient(Closing):
    """A service at an address, over one connection that is kept alive.

    Args:
        address: `https://...` or `http://...`, without a query.
        password: What to present; sent only over https or to this machine.

    Raises:
        InputError: It is not an address, or the password would be sent unencrypted.
    """

    def __init__(self, address: str, password: str | None = None) -> None:
        parts = address_parts(address)
        if password is not None and parts.scheme == "http" and not is_loopback(parts.hostname):
            raise InputError(f"{address}: the password would be sent unencrypted", hint="use https")
        self.address = address.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._password = password
        kind: type[http.client.HTTPConnection] = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        try:
            self._connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS)
        except http.client.InvalidURL as error:
            raise InputError(f"{address}: not the address of a service") from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def get(self, path: str) -> bytes:
        """Get a resource; errors as of `post`."""
        return self._request("GET", path, None, "")

    def post(self, path: str, content: bytes, content_type: str = BYTES_TYPE) -> bytes:
        """Send content; return that of an answer with a status from 200 to 299."""
        return self._request("POST", path, content, content_type)

    def _request(self, method: str, path: str, content: bytes | None, content_type: str) -> bytes:
        headers = {"Content-Type": content_type} if content_type else {}
        if self._password is not None:
            headers["Authorization"] = f"Bearer {self._password}"
        kept_alive = self._connection.sock is not None
        late = threading.Event()
        try:
            self._connection.request(method, self._path + path, content, headers)
            with _deadline(self._connection.sock, late):
                response = self._connection.getresponse()
                # One byte more tells that it is too long, without the rest.
                body = response.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            if late.is_set():
                raise self._late() from error
            # The service may have closed it meanwhile; whatever is sent twice counts once there.
            if kept_alive:
                return self._request(method, path, content, content_type)
            raise UnreachableError(
                f"{self.address}: no answer ({type(error).__name__})",
                hint="`fpmonitor private serve FOLDER` runs a role; role.json has the addresses",
            ) from error
        if late.is_set():
            self._connection.close()
            raise self._late()
        if len(body) > MAX_ANSWER_BYTES:
            self._connection.close()
            raise UnreachableError(f"{self.address}: the answer is too long")
        if not 200 <= response.status < 300:
            raise UnreachableError(
                f"{self.address}{path}: {response.status} {_reason(body)}",
                answered=True,
                retry_after=seconds_of(response.headers.get("retry-after", "")),
            )
        return body

    def _late(self) -> UnreachableError:
        return UnreachableError(f"{self.address}: no answer within {_TIMEOUT_SECONDS:.0f} s")


def address_parts(address: str) -> SplitResult:
    """Return the parts of the address of a service; `InputError` where it is none."""
    try:
        parts = urlsplit(address)
        # ValueError where it is no number up to 65535.
        _ = parts.port
        # As http.client encodes them, but with the first request only: "a..b" is no host.
        (parts.hostname or "").encode("idna")
        parts.path.encode("ascii")
    except ValueError as error:
        raise InputError(f"{address}: not the address of a service") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise InputError(f"{address}: not the address of a service", hint="https://host[:port]")
    return parts


def authority_of(parts: SplitResult) -> str:
    """Return the host and port of an address as they travel: in ASCII, of any alphabet."""
    host = (parts.hostname or "").encode("idna").decode("ascii")
    host = f"[{host}]" if ":" in host else host
    return host if parts.port is None else f"{host}:{parts.port}"


@contextmanager
def _deadline(connected: socket.socket, late: threading.Event) -> Iterator[None]:
    """End a connection whose whole answer takes too long.

    The time limit of a socket begins anew with each byte, and so do those of urllib3 and httpx.
    """

    def cut() -> None:
        late.set()
        with suppress(OSError):
            # That of a TLS socket would take its state away while the other thread reads.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)

    timer = threading.Timer(_TIMEOUT_SECONDS, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def seconds_of(text: str) -> int | None:
    """Return `Retry-After` in seconds; None if it is a date or absent."""
    return int(text) if re.fullmatch("[0-9]{1,6}", text) else None


def make_password(path: Path, password: str | None = None) -> None:
    """Write a password, a new one by default, to a file that only its owner can read."""
    text = secrets.token_urlsafe(32) if password is None else password
    write_bytes(path, [f"{text}\n".encode()], mode=0o600)


def read_password(path: Path) -> str:
    """Read the file of a password.

    Raises:
        InputError: The file cannot be read, others may read it, or it does not hold a password.
    """
    password = read_text(path, "password", most=_MAX_PASSWORD_BYTES).strip()
    check_owner_alone(path, "the password")
    is_word = password.isascii() and password.isprintable() and " " not in password
    if not is_word or len(password) < 32:
        raise InputError(f"{path}: must hold one word of at least 32 characters")
    return password


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])[:200]
    except (ValueError, TypeError, KeyError, RecursionError):  # "[[[[..." of anybody
        return "without a reason"
