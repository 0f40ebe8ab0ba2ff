"""Oblivious HTTP (RFC 9458): a relay sees who sends and not what, the gateway what and not who.

The gateway opens with the keys of the shuffler; the labels of RFC 9458 keep its messages apart from
all others. `cryptography` has no exporter of HPKE contexts, so HPKE is done by `pyhpke` here.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fpmonitor.errors import InputError, install
from fpmonitor.private.keys import ENCAPSULATED_BYTES, SealError
from fpmonitor.private.wire import SUITE_IDS, HpkeConfig

try:
    from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, KEMKeyPair, PyHPKEError
except ImportError as error:
    raise InputError("Oblivious HTTP needs pyhpke", hint=install("private")) from error


KEYS_TYPE = "application/ohttp-keys"
REQUEST_TYPE = "message/ohttp-req"
RESPONSE_TYPE = "message/ohttp-res"
_REQUEST_LABEL = b"message/bhttp request"
_RESPONSE_LABEL = b"message/bhttp response"
_HEAD = struct.Struct(">BHHH")  # ids of the key and of KEM, KDF, AEAD
# Nk and Nn of AES-128-GCM.
_KEY_BYTES, _NONCE_BYTES = 16, 12
_SUITE = CipherSuite.new(KEMId(SUITE_IDS[0]), KDFId(SUITE_IDS[1]), AEADId(SUITE_IDS[2]))


class UnknownKeyError(SealError):
    """A request sealed for a key or algorithms that the gateway does not have."""


@dataclass(frozen=True, slots=True, repr=False)
class Exchange:
    """What protects the response to one request (section 4.4)."""

    encapsulated: bytes  # Encapsulated key of the request.
    secret: bytes  # Exported from the HPKE context.

    def seal_response(self, response: bytes, nonce: bytes | None = None) -> bytes:
        """Seal the response; only tests pass a nonce."""
        # max(Nn, Nk) bytes (section 4.4).
        nonce = secrets.token_bytes(_KEY_BYTES) if nonce is None else nonce
        key, aead_nonce = self._keys(nonce)
        return nonce + AESGCM(key).encrypt(aead_nonce, response, b"")

    def open_response(self, data: bytes) -> bytes:
        """Open the response.

        Raises:
            SealError: It is not the response to this request, or was modified.
        """
        key, aead_nonce = self._keys(data[:_KEY_BYTES])
        try:
            return AESGCM(key).decrypt(aead_nonce, data[_KEY_BYTES:], b"")
        except (InvalidTag, ValueError) as error:
            raise SealError("response: does not open") from error

    def _keys(self, nonce: bytes) -> tuple[bytes, bytes]:
        def expand(info: bytes, length: int) -> bytes:
            salt = self.encapsulated + nonce
            return HKDF(hashes.SHA256(), length, salt, info).derive(self.secret)

        return expand(b"key", _KEY_BYTES), expand(b"nonce", _NONCE_BYTES)


def encode_keys(configs: Iterable[HpkeConfig]) -> bytes:
    """Return the body of `application/ohttp-keys` (section 3)."""
    kem, kdf, aead = SUITE_IDS
    parts = []
    for config in configs:
        head = struct.pack(">BH", config.id, kem) + config.public_key
        # Four bytes of symmetric algorithms, which are one pair.
        one = head + struct.pack(">HHH", 4, kdf, aead)
        parts.append(struct.pack(">H", len(one)) + one)
    return b"".join(parts)


def seal_request(
    request: bytes, config: HpkeConfig, ephemeral: X25519PrivateKey | None = None
) -> tuple[bytes, Exchange]:
    """Seal a request for a gateway (section 4.3); only tests pass an ephemeral key."""
    head = _HEAD.pack(config.id, *SUITE_IDS)
    public = KEMKey.from_pyca_cryptography_key(X25519PublicKey.from_public_bytes(config.public_key))
    encapsulated, context = _SUITE.create_sender_context(
        public, _info(head), eks=None if ephemeral is None else _pair(ephemeral)
    )
    exchange = Exchange(encapsulated, context.export(_RESPONSE_LABEL, _KEY_BYTES))
    return head + encapsulated + context.seal(request), exchange


def open_request(data: bytes, keys: Mapping[int, X25519PrivateKey]) -> tuple[bytes, Exchange]:
    """Open a request at the gateway (section 4.3).

    Raises:
        UnknownKeyError: The gateway has no such key, or it is for other algorithms.
        SealError: The request does not open.
    """
    head, rest = data[: _HEAD.size], data[_HEAD.size :]
    if len(rest) < ENCAPSULATED_BYTES:
        raise SealError("request: cut short")
    key_id, *suite = _HEAD.unpack(head)
    if tuple(suite) != SUITE_IDS or key_id not in keys:
        raise UnknownKeyError("request: sealed for an unknown key")
    encapsulated, sealed = rest[:ENCAPSULATED_BYTES], rest[ENCAPSULATED_BYTES:]
    private = KEMKey.from_pyca_cryptography_key(keys[key_id])
    try:
        context = _SUITE.create_recipient_context(encapsulated, private, _info(head))
        request = context.open(sealed)
    except (PyHPKEError, ValueError) as error:
        raise SealError("request: does not open") from error
    return request, Exchange(encapsulated, context.export(_RESPONSE_LABEL, _KEY_BYTES))


def _info(head: bytes) -> bytes:
    return _REQUEST_LABEL + b"\0" + head


def _pair(private: X25519PrivateKey) -> KEMKeyPair:
    public = KEMKey.from_pyca_cryptography_key(private.public_key())
    return KEMKeyPair(KEMKey.from_pyca_cryptography_key(private), public)
