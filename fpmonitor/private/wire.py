"""The bytes that travel between a user, the shuffler, the curator and the analyst.

All numbers are big-endian. Frames and key configurations have the form of the Distributed
Aggregation Protocol (draft-ietf-ppm-dap): `HpkeCiphertext` and `HpkeConfigList`. Functions that
decode raise `WireError` for bytes of another form, or cut short, or followed by something.

    HpkeCiphertext   u8 config_id; opaque enc<u16>; opaque payload<u32>
    HpkeConfig       u8 id; u16 kem; u16 kdf; u16 aead; opaque public_key<u16>
    Upload           opaque ask[16]; HpkeCiphertext for the shuffler, in it one for the recipient
    Report           opaque nonce[16]; u16 set; u8 tokens; opaque token<u16> ...; zeros to the end
    Batch            "fpmbatch"; u8 1; opaque ask[16]; opaque id[16]; u32 frames; HpkeCiphertext ...
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fpmonitor.errors import InputError

NONCE_BYTES = 16
ID_BYTES = 16
BATCH_MAGIC = b"fpmbatch\x01"
# DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM of RFC 9180; so DAP and OHTTP name them too.
SUITE_IDS = (0x0020, 0x0001, 0x0001)
# Their number is one byte.
MAX_TOKENS = 255
MAX_BATCH_BYTES = 64_000_000

_FRAME_HEAD = struct.Struct(">BH")
_LENGTH16 = struct.Struct(">H")
_LENGTH32 = struct.Struct(">I")


class WireError(InputError):
    """Bytes that are not a message; the text says what was expected, never what was found."""


@dataclass(frozen=True, slots=True)
class HpkeCiphertext:
    """A sealed message: which key opens it, the encapsulated key, the ciphertext with its tag."""

    config_id: int
    encapsulated: bytes
    payload: bytes

    def encode(self) -> bytes:
        """Return the bytes of the frame."""
        return b"".join(
            (
                struct.pack(">BH", self.config_id, len(self.encapsulated)),
                self.encapsulated,
                struct.pack(">I", len(self.payload)),
                self.payload,
            )
        )


@dataclass(frozen=True, slots=True)
class HpkeConfig:
    """A public key for our algorithms, and whose it is, where that was said with it."""

    id: int
    public_key: bytes
    role: str | None = field(default=None, compare=False)

    def encode(self) -> bytes:
        """Return the bytes of the configuration."""
        head = struct.pack(">BHHHH", self.id, *SUITE_IDS, len(self.public_key))
        return head + self.public_key


@dataclass(frozen=True, slots=True)
class Upload:
    """What a user sends to the shuffler: the id of the request, and the sealed answer."""

    ask: bytes
    sealed: HpkeCiphertext

    def encode(self) -> bytes:
        """Return the bytes of the upload."""
        return self.ask + self.sealed.encode()


@dataclass(frozen=True, slots=True)
class SealedReport:
    """What the recipient finds in the innermost frame."""

    # 16 random bytes, which distinguish a repeated answer from the equal answers of two users.
    nonce: bytes
    set_index: int  # Number of the set of the request that is answered, from 0.
    tokens: tuple[str, ...]  # Tokens of the APIs of the set, in its order.

    def encode(self, length: int) -> bytes:
        """Return the bytes of the report, padded to a length.

        Raises:
            WireError: The report is longer.
        """
        parts = [self.nonce, struct.pack(">HB", self.set_index, len(self.tokens))]
        for token in self.tokens:
            text = token.encode()
            parts += [struct.pack(">H", len(text)), text]
        body = b"".join(parts)
        if len(body) > length:
            raise WireError(f"report: {len(body)} bytes, longer than the fixed length {length}")
        return body.ljust(length, b"\0")


def encode_batch(ask: bytes, batch_id: bytes, frames: Sequence[bytes]) -> bytes:
    """Return the bytes of a batch: what the shuffler passes on of a request, in random order."""
    return b"".join((BATCH_MAGIC, ask, batch_id, struct.pack(">I", len(frames)), *frames))


def decode_configs(data: bytes) -> tuple[HpkeConfig, ...]:
    """Return the configurations of an `HpkeConfigList` for our algorithms, at least one."""
    reader = WireReader(data)
    inner = WireReader(reader.opaque16())
    reader.end()
    configs = []
    while inner.left:
        config_id, *suite = inner.numbers(">BHHH")
        public_key = inner.opaque16()
        if tuple(suite) == SUITE_IDS and len(public_key) == 32:
            configs.append(HpkeConfig(config_id, public_key))
    if not configs:
        raise WireError("keys: none uses X25519, HKDF-SHA256 and AES-128-GCM")
    return tuple(configs)


def encode_configs(configs: Iterable[HpkeConfig]) -> bytes:
    """Return the bytes of an `HpkeConfigList`, the preferred key first."""
    body = b"".join(config.encode() for config in configs)
    return struct.pack(">H", len(body)) + body


def decode_uploads(data: bytes) -> Iterator[Upload]:
    """Yield the uploads of a body."""
    reader = WireReader(data)
    while reader.left:
        yield Upload(reader.take(ID_BYTES), reader.frame())


def decode_report(data: bytes) -> SealedReport:
    """Return the report in the bytes."""
    reader = WireReader(data)
    nonce = reader.take(NONCE_BYTES)
    set_index, size = reader.numbers(">HB")
    try:
        tokens = tuple(reader.opaque16().decode() for _ in range(size))
    except UnicodeDecodeError as error:
        raise WireError("report: a token is not UTF-8") from error
    if reader.take(reader.left).strip(b"\0"):
        raise WireError("report: something follows the tokens")
    return SealedReport(nonce, set_index, tokens)


def decode_batch(data: bytes) -> tuple[bytes, bytes, tuple[HpkeCiphertext, ...]]:
    """Return the ids of the request and of the batch in the bytes, and the frames."""
    reader = WireReader(data)
    if reader.left < len(BATCH_MAGIC) or reader.take(len(BATCH_MAGIC)) != BATCH_MAGIC:
        raise WireError("batch: does not begin as a batch of version 1")
    ask, batch_id = reader.take(ID_BYTES), reader.take(ID_BYTES)
    (count,) = reader.numbers(">I")
    # No frame is shorter than its 7 bytes of head: four billion are refused before one is read.
    if count * 7 > reader.left:
        raise WireError("batch: cut short")
    frames = tuple(reader.frame() for _ in range(count))
    reader.end()
    return ask, batch_id, frames


def token_limit(report_bytes: int, apis: Sequence[str]) -> int:
    """Return the length of the longest token, bytes of UTF-8, that fits a report on a set."""
    # Nonce, set and number first; each token has two bytes of length.
    return (report_bytes - NONCE_BYTES - 3) // max(1, len(apis)) - 2


class WireReader:
    """Takes parts from the front of a message, and refuses one that ends too early."""

    kind = "message"

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that are not taken yet."""
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        """Take bytes; `WireError` if there are fewer."""
        if length > self.left:
            raise WireError(f"{self.kind}: cut short")
        self._at += length
        return self._data[self._at - length : self._at]

    def numbers(self, form: str) -> tuple[int, ...]:
        """Take numbers of a form of `struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def opaque16(self) -> bytes:
        """Take bytes behind their length."""
        (length,) = _LENGTH16.unpack(self.take(2))
        return self.take(length)

    def frame(self) -> HpkeCiphertext:
        """Take a sealed message."""
        config_id, length = _FRAME_HEAD.unpack(self.take(3))
        encapsulated = self.take(length)
        (length,) = _LENGTH32.unpack(self.take(4))
        return HpkeCiphertext(config_id, encapsulated, self.take(length))

    def end(self) -> None:
        """Refuse what is left."""
        if self.left:
            raise WireError("message: something follows its end")
