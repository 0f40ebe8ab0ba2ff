"""Keys of the roles, with ids and rotation.

The only module that touches HPKE (RFC 9180, base mode, one message a context), all of it by
`cryptography`, of the extra `private`.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from fpmonitor.errors import InputError, install
from fpmonitor.private.files import decode, encode
from fpmonitor.private.study import Role  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.private.wire import (
    HpkeCiphertext,
    HpkeConfig,
    decode_configs,
    encode_configs,
)
from fpmonitor.safe_files import read_bytes, write_bytes
from fpmonitor.secret_files import check_owner_alone

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hpke
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
except ImportError as error:
    raise InputError(
        "private collection needs cryptography of version 50 or later",
        hint=install("private"),
    ) from error


SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
ENCAPSULATED_BYTES = 32
TAG_BYTES = 16
# Id of the key, one byte; lengths of encapsulated key and payload, two and four.
FRAME_HEAD_BYTES = 7
MAX_KEYS_BYTES = 1_000_000


class SealError(InputError):
    """A message that cannot be opened: sealed for another key or request, or modified."""


class SecretKey(msgspec.Struct, frozen=True):
    """A key with its id; `repr` does not show it."""

    id: Annotated[int, msgspec.Meta(ge=0, le=255)]
    private: X25519PrivateKey

    def __repr__(self) -> str:
        return f"SecretKey(id={self.id})"

    @property
    def config(self) -> HpkeConfig:
        """The public half."""
        return HpkeConfig(self.id, self.private.public_key().public_bytes_raw())


class SecretKeys(msgspec.Struct, frozen=True, tag_field="format", tag="fpmonitor-keys-1"):
    """Keys of one role, the newest first: it is the one to seal for, all of them open messages.

    Raises:
        InputError: There is no key, or two have one id; or a curator has no key to sign with.
    """

    role: Role  # Role that they belong to.
    keys: tuple[SecretKey, ...]  # Their ids differ.
    # The curator's key to sign what it promises of a set; it is never rotated, as the study names
    # it. Null for other roles.
    signing: Ed25519PrivateKey | None = None

    def __post_init__(self) -> None:
        if not self.keys or len({key.id for key in self.keys}) < len(self.keys):
            raise InputError("keys: there must be one or more, each with its own id")
        if (self.signing is None) == (self.role == "curator"):
            raise InputError("keys: the curator, and nobody else, has a key to sign with")

    @classmethod
    def generate(cls, role: Role) -> SecretKeys:
        """Return a ring with the first key of a role."""
        signing = Ed25519PrivateKey.generate() if role == "curator" else None
        return cls(role, (SecretKey(1, X25519PrivateKey.generate()),), signing)

    def rotated(self) -> SecretKeys:
        """Return the ring with a new key in front; the others still open messages.

        Raises:
            InputError: There are 255 keys.
        """
        used = {key.id for key in self.keys}
        newest = self.keys[0].id
        # Ids go round: a retired one names another key as late as can be.
        free = [one for one in (*range(newest + 1, 256), *range(1, newest)) if one not in used]
        if not free:
            raise InputError("keys: all 255 ids are in use", hint="retire old keys")
        fresh = SecretKey(free[0], X25519PrivateKey.generate())
        return replace(self, keys=(fresh, *self.keys))

    def retired(self, key_id: int) -> SecretKeys:
        """Return the ring without a key; messages sealed for it cannot be opened any more.

        Raises:
            InputError: There is no such key, or it is the only one.
        """
        left = tuple(key for key in self.keys if key.id != key_id)
        if len(left) == len(self.keys):
            raise InputError(f"keys: no key {key_id}")
        if not left:
            raise InputError("keys: the last key cannot be retired", hint="rotate first")
        return replace(self, keys=left)

    @property
    def configs(self) -> bytes:
        """The `HpkeConfigList` to publish."""
        return encode_configs(key.config for key in self.keys)

    @property
    def public(self) -> PublicKeys:
        """The public half."""
        return PublicKeys(self.role, self.configs, self.verifying)

    @property
    def verifying(self) -> str:
        """The public half of `signing`, in hexadecimal; empty without one."""
        return "" if self.signing is None else self.signing.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """Return a signature in hexadecimal.

        Raises:
            InputError: These are not the keys of a curator.
        """
        if self.signing is None:
            raise InputError(f"keys: the {self.role} does not sign, only the curator does")
        return self.signing.sign(message).hex()

    def by_id(self) -> Mapping[int, X25519PrivateKey]:
        """Return the private keys by id."""
        return {key.id: key.private for key in self.keys}


class PublicKeys(msgspec.Struct, frozen=True, tag_field="format", tag="fpmonitor-public-keys-1"):
    """What a role publishes of its keys.

    Raises:
        WireError: There is no key for our algorithms.
    """

    role: Role  # Role that they belong to.
    configs: bytes  # An `HpkeConfigList`, the preferred key first; in base64 in the file.
    verifying: str = ""  # Key of the curator's signatures, in hexadecimal; empty for other roles.

    def __post_init__(self) -> None:
        decode_configs(self.configs)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return encode(self)

    @property
    def preferred(self) -> HpkeConfig:
        """The key to seal for."""
        return dataclasses.replace(decode_configs(self.configs)[0], role=self.role)


class KeyHolder:
    """Base of the roles, which open messages with their keys."""

    def __init__(self, role: Role, ring: SecretKeys) -> None:
        self._role = role
        self.use_keys(ring)

    def use_keys(self, ring: SecretKeys) -> None:
        """Use these keys from now on.

        Raises:
            InputError: They belong to another role.
        """
        if ring.role != self._role:
            raise InputError(f"keys: belong to the {ring.role}, not to the {self._role}")
        self.ring, self._keys = ring, ring.by_id()


def seal_message(plaintext: bytes, config: HpkeConfig, role: Role, ask: bytes) -> HpkeCiphertext:
    """Seal a message for a role and a request; it opens for no other (RFC 9180, section 6.1)."""
    public = X25519PublicKey.from_public_bytes(config.public_key)
    sealed = SUITE.encrypt(plaintext, public, info=info_of(role, ask, config.id))
    return HpkeCiphertext(config.id, sealed[:ENCAPSULATED_BYTES], sealed[ENCAPSULATED_BYTES:])


def open_message(
    frame: HpkeCiphertext, keys: Mapping[int, X25519PrivateKey], role: Role, ask: bytes
) -> bytes:
    """Open a message that was sealed for a role and a request.

    Raises:
        SealError: No key has the id of the frame, or the frame does not open.
    """
    private = keys.get(frame.config_id)
    if private is None:
        raise SealError("message: sealed for an unknown key")
    # The two fields are opened as one: another split would be a second valid frame.
    if len(frame.encapsulated) != ENCAPSULATED_BYTES:
        raise SealError("message: does not open")
    try:
        return SUITE.decrypt(
            frame.encapsulated + frame.payload,
            private,
            info=info_of(role, ask, frame.config_id),
        )
    except (InvalidTag, ValueError) as error:
        raise SealError("message: does not open") from error


def info_of(role: Role, ask: bytes, config_id: int) -> bytes:
    """Return the `info` of the HPKE context: protocol, role, request and key."""
    # The zero ends the role, so that no two roles and requests have the same bytes.
    return b"fpmonitor-1 " + role.encode() + b"\0" + ask + bytes([config_id])


def sealed_bytes(plaintext: int) -> int:
    """Return the length of the frame around a plaintext."""
    return FRAME_HEAD_BYTES + ENCAPSULATED_BYTES + plaintext + TAG_BYTES


def has_length(frame: HpkeCiphertext, plaintext: int) -> bool:
    """Whether a frame has the length of one around `plaintext` bytes."""
    lengths = (len(frame.encapsulated), len(frame.payload))
    return lengths == (ENCAPSULATED_BYTES, plaintext + TAG_BYTES)


def frame_form(data: bytes) -> tuple[int, bytes, bytes]:
    """Return what all encoded frames around plaintexts of one length have in common.

    That is their length and both length fields; frames are compared by it, not decoded.
    """
    second = 3 + ENCAPSULATED_BYTES
    return len(data), data[1:3], data[second : second + 4]


def expected_form(plaintext: int) -> tuple[int, bytes, bytes]:
    """Return the `frame_form` of a frame around a plaintext."""
    zeros = HpkeCiphertext(0, bytes(ENCAPSULATED_BYTES), bytes(plaintext + TAG_BYTES))
    return frame_form(zeros.encode())


def write_secret_keys(path: Path, ring: SecretKeys, *, retiring: bool = False) -> None:
    """Write the secret keys to a file that only its owner can read, and the public ones beside.

    `retiring` says that a key of the file is no more among them.
    """
    # After a kill in between nobody must seal for a key that is gone, or is not yet there.
    if retiring:
        write_bytes(public_path(path), [ring.public.to_bytes()])
    write_bytes(path, [encode(ring, _text_of_key)], mode=0o600)
    if not retiring:
        write_bytes(public_path(path), [ring.public.to_bytes()])
    # A file that a kill cut short has secret keys, too: a retired one would live on in it.
    for unfinished in path.parent.glob(f".{path.name}.*"):
        unfinished.unlink()


def public_path(path: Path) -> Path:
    """Return the path of the published keys beside a file of secret ones."""
    return path.with_name(f"{path.name}.pub")


def read_secret_keys(path: Path) -> SecretKeys:
    """Read secret keys.

    Raises:
        InputError: The file cannot be read, others may read it, or it does not hold secret keys.
    """
    data = read_bytes(path, "secret keys", most=MAX_KEYS_BYTES)
    check_owner_alone(path, "the secret keys")
    try:
        return decode(data, SecretKeys, "secret keys", _key_of_text)
    except InputError as error:
        raise InputError(f"{path}: {error.message}") from error


def _text_of_key(key: Any) -> str:
    return base64.b64encode(key.private_bytes_raw()).decode()


def _key_of_text(kind: Any, text: Any) -> X25519PrivateKey | Ed25519PrivateKey:
    private: X25519PrivateKey | Ed25519PrivateKey
    try:
        private = kind.from_private_bytes(base64.b64decode(text, validate=True))
    except (ValueError, TypeError) as error:  # whose text might show the key
        raise ValueError("expected 32 bytes in base64") from error
    return private


def read_public(path: Path, role: Role) -> PublicKeys:
    """Read the published keys of a role.

    Raises:
        InputError: The file cannot be read, does not hold published keys, or holds those of another
            role: a message sealed for them would be lost.
    """
    data = read_bytes(path, "public keys", most=MAX_KEYS_BYTES)
    try:
        found = decode(data, PublicKeys, "public keys")
    except InputError as error:
        raise InputError(f"{path}: {error.message}") from error
    if found.role != role:
        raise InputError(f"{path}: keys of the {found.role}, the {role}'s are needed")
    return found
