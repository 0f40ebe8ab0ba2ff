"""Binary HTTP (RFC 9292): requests and responses as bytes, without a connection.

Both framings are read, the one of known length is written. Python has no library for it. Functions
that decode raise `WireError` for bytes of another form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fpmonitor.private.wire import WireError, WireReader

Fields = tuple[tuple[str, str], ...]
# The framing indicators of RFC 9292; "open" is of indeterminate length.
_KNOWN_REQUEST, _KNOWN_RESPONSE, _OPEN_REQUEST, _OPEN_RESPONSE = range(4)


@dataclass(frozen=True, slots=True)
class Request:
    """A request; field names are in lower case."""

    method: str
    scheme: str
    authority: str
    path: str
    fields: Fields = ()
    content: bytes = b""

    def encode(self) -> bytes:
        """Return the bytes of the message."""
        control = (self.method, self.scheme, self.authority, self.path)
        head = b"".join(_text(part) for part in control)
        return bytes([_KNOWN_REQUEST]) + head + _sections(self.fields, self.content)


@dataclass(frozen=True, slots=True)
class Response:
    """A final response; field names are in lower case."""

    status: int
    fields: Fields = ()
    content: bytes = b""

    def encode(self) -> bytes:
        """Return the bytes of the message."""
        head = bytes([_KNOWN_RESPONSE]) + encode_number(self.status)
        return head + _sections(self.fields, self.content)


def decode_request(data: bytes) -> Request:
    """Return the request in the bytes."""
    reader = _Reader(data)
    framing = reader.number()
    if framing not in (_KNOWN_REQUEST, _OPEN_REQUEST):
        raise WireError("binary HTTP: not a request")
    method, scheme, authority, path = (reader.text() for _ in range(4))
    fields, content = reader.sections(known=framing == _KNOWN_REQUEST)
    return Request(method, scheme, authority, path, fields, content)


def decode_response(data: bytes) -> Response:
    """Return the final response in the bytes; informational ones are skipped."""
    reader = _Reader(data)
    framing = reader.number()
    if framing not in (_KNOWN_RESPONSE, _OPEN_RESPONSE):
        raise WireError("binary HTTP: not a response")
    known = framing == _KNOWN_RESPONSE
    status = reader.number()
    while 100 <= status < 200:
        reader.fields(known=known)
        status = reader.number()
    if not 200 <= status < 600:
        raise WireError("binary HTTP: the status is not one of a final response")
    return Response(status, *reader.sections(known=known))


def encode_number(number: int) -> bytes:
    """Return a number from 0 to 2**62 - 1 in 1, 2, 4 or 8 bytes (RFC 9000, section 16)."""
    for exponent in range(4):
        length = 1 << exponent
        if number < 1 << (8 * length - 2):
            return (number | exponent << (8 * length - 2)).to_bytes(length, "big")
    raise ValueError("number: too large")


def _text(text: str) -> bytes:
    # Latin-1 has a character for every byte: what is read is written again unchanged.
    return _opaque(text.encode("latin-1"))


def _opaque(data: bytes) -> bytes:
    return encode_number(len(data)) + data


def _sections(fields: Iterable[tuple[str, str]], content: bytes) -> bytes:
    lines = b"".join(_text(name) + _text(value) for name, value in fields)
    # The last section is that of trailers.
    return _opaque(lines) + _opaque(content) + _opaque(b"")


class _Reader(WireReader):
    kind = "binary HTTP"

    def number(self) -> int:
        first = self.take(1)
        # Two leading bits are the binary logarithm of the length.
        rest = self.take((1 << (first[0] >> 6)) - 1)
        return int.from_bytes(bytes([first[0] & 0x3F]) + rest, "big")

    def opaque(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        return self.opaque().decode("latin-1")

    def sections(self, *, known: bool) -> tuple[Fields, bytes]:
        """Return fields and content; what is missing at the end is empty (section 3.8)."""
        fields = self.fields(known=known) if self.left else ()
        content = self._content(known=known) if self.left else b""
        if self.left:
            self.fields(known=known)
        # Zeros are padding (section 3.8).
        if self.take(self.left).strip(b"\0"):
            raise WireError("binary HTTP: something follows the message")
        return fields, content

    def fields(self, *, known: bool) -> Fields:
        return tuple(_Reader(self.opaque()).lines() if known else self.lines())

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield field lines, up to the end or an empty name."""
        while self.left:
            name = self.text()
            if not name:
                return
            yield name.lower(), self.text()

    def _content(self, *, known: bool) -> bytes:
        if known:
            return self.opaque()
        parts = []
        while self.left and (part := self.opaque()):
            parts.append(part)
        return b"".join(parts)
