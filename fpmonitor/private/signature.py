"""Signatures of the curator (Ed25519, RFC 8032)."""

from __future__ import annotations

from fpmonitor.errors import InputError, install

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError as error:
    raise InputError(
        "requests for the analyst are signed, which needs cryptography",
        hint=install("private"),
    ) from error


def is_signed(message: bytes, signature: str, verifying: str) -> bool:
    """Whether a signature of the message was made with a key, both in hexadecimal."""
    try:
        signed = bytes.fromhex(signature)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(verifying)).verify(signed, message)
    except (ValueError, InvalidSignature):
        return False
    return signed.hex() == signature  # the same request in another spelling has another id
