"""Keys and sealing: standard HPKE, ids, rotation, files that nobody else reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st
from pyhpke import AEADId, CipherSuite, KDFId, KEMId, KEMKey, KEMKeyPair

from fpmonitor.errors import InputError
from fpmonitor.private.keys import (
    SUITE,
    SealError,
    SecretKeys,
    has_length,
    info_of,
    open_message,
    read_public,
    read_secret_keys,
    seal_message,
    sealed_bytes,
    write_secret_keys,
)
from fpmonitor.private.wire import HpkeCiphertext, decode_configs

if TYPE_CHECKING:
    from fpmonitor.private.study import Role

REFERENCE = Path(__file__).parents[2] / "fixtures" / "reference" / "hpke.json"
OTHER = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES128_GCM)
ROLES = ("shuffler", "curator", "analyst")
ASK = bytes(range(16))
RING = SecretKeys.generate("curator")
SOME = settings(deadline=None, max_examples=25)


@pytest.fixture(scope="module")
def vector() -> dict[str, bytes]:
    content = json.loads(REFERENCE.read_text())["rfc9180_a_1_1"]
    return {name: bytes.fromhex(text) for name, text in content.items() if name != "source"}


def test_suite_opens_under_the_published_key_schedule(vector: dict[str, bytes]) -> None:
    """RFC 9180, A.1.1: with its key and nonce, and without the aad that our messages lack."""
    sealed = AESGCM(vector["key"]).encrypt(vector["base_nonce"], vector["plaintext"], b"")
    private = X25519PrivateKey.from_private_bytes(vector["recipient_private"])
    opened = SUITE.decrypt(vector["encapsulated"] + sealed, private, info=vector["info"])
    assert opened == vector["plaintext"]


def test_the_other_library_agrees_with_the_published_ciphertext(vector: dict[str, bytes]) -> None:
    ephemeral = X25519PrivateKey.from_private_bytes(vector["ephemeral_private"])
    public = KEMKey.from_pyca_cryptography_key(
        X25519PrivateKey.from_private_bytes(vector["recipient_private"]).public_key()
    )
    pair = KEMKeyPair(
        KEMKey.from_pyca_cryptography_key(ephemeral),
        KEMKey.from_pyca_cryptography_key(ephemeral.public_key()),
    )
    encapsulated, context = OTHER.create_sender_context(public, vector["info"], eks=pair)
    assert encapsulated == vector["encapsulated"]
    assert context.seal(vector["plaintext"], vector["aad"]) == vector["ciphertext"]


@given(st.binary(max_size=2000), st.sampled_from(ROLES), st.binary(min_size=16, max_size=16))
@SOME
def test_another_library_opens_what_we_seal(plaintext: bytes, role: Role, ask: bytes) -> None:
    frame = seal_message(plaintext, RING.keys[0].config, role, ask)
    private = KEMKey.from_pyca_cryptography_key(RING.keys[0].private)
    context = OTHER.create_recipient_context(frame.encapsulated, private, info_of(role, ask, 1))
    assert context.open(frame.payload) == plaintext


@given(st.binary(max_size=2000), st.sampled_from(ROLES), st.binary(min_size=16, max_size=16))
@SOME
def test_we_open_what_another_library_seals(plaintext: bytes, role: Role, ask: bytes) -> None:
    public = KEMKey.from_pyca_cryptography_key(RING.keys[0].private.public_key())
    encapsulated, context = OTHER.create_sender_context(public, info_of(role, ask, 1))
    frame = HpkeCiphertext(1, encapsulated, context.seal(plaintext))
    assert open_message(frame, RING.by_id(), role, ask) == plaintext


@given(st.binary(max_size=300))
@SOME
def test_every_frame_has_the_length_that_is_told(plaintext: bytes) -> None:
    frame = seal_message(plaintext, RING.keys[0].config, "curator", ASK)
    assert len(frame.encode()) == sealed_bytes(len(plaintext))
    assert has_length(frame, len(plaintext))
    assert not has_length(frame, len(plaintext) + 1)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_one_changed_bit_and_it_does_not_open(data: st.DataObject) -> None:
    frame = seal_message(b"held", RING.keys[0].config, "curator", ASK)
    body = bytearray(frame.encapsulated + frame.payload)
    body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = HpkeCiphertext(1, bytes(body[:32]), bytes(body[32:]))
    with pytest.raises(SealError):
        open_message(changed, RING.by_id(), "curator", ASK)


def test_a_message_opens_for_its_role_ask_and_key_only() -> None:
    ring = RING.rotated()
    frame = seal_message(b"held", RING.keys[0].config, "curator", ASK)
    assert open_message(frame, ring.by_id(), "curator", ASK) == b"held"
    moved = HpkeCiphertext(2, frame.encapsulated, frame.payload)
    with pytest.raises(SealError):
        open_message(frame, ring.by_id(), "analyst", ASK)
    with pytest.raises(SealError):
        open_message(frame, ring.by_id(), "curator", bytes(16))
    with pytest.raises(SealError):
        open_message(moved, ring.by_id(), "curator", ASK)
    with pytest.raises(SealError, match="unknown key"):
        open_message(frame, ring.retired(1).by_id(), "curator", ASK)


@pytest.mark.parametrize("border", [0, 31, 33, 48])
def test_the_border_between_key_and_ciphertext_cannot_be_moved(border: int) -> None:
    """The two are opened as one; as another frame it would count twice."""
    frame = seal_message(b"held", RING.keys[0].config, "curator", ASK)
    body = frame.encapsulated + frame.payload
    with pytest.raises(SealError):
        open_message(HpkeCiphertext(1, body[:border], body[border:]), RING.by_id(), "curator", ASK)


def test_rotation_publishes_the_new_key_first_and_opens_with_the_old() -> None:
    ring = SecretKeys.generate("shuffler")
    for _ in range(254):
        ring = ring.rotated()
    assert [key.id for key in ring.keys] == [*range(255, 0, -1)]
    with pytest.raises(InputError, match="255"):
        ring.rotated()
    again = ring.retired(7).rotated()
    assert again.keys[0].id == 7
    assert decode_configs(again.configs)[0] == again.keys[0].config


def test_the_last_key_stays_and_unknown_ones_cannot_go() -> None:
    with pytest.raises(InputError, match="last"):
        RING.retired(1)
    with pytest.raises(InputError, match="no key 9"):
        RING.retired(9)


def test_secret_keys_come_back_and_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "curator.keys"
    ring = RING.rotated()
    write_secret_keys(path, ring)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_secret_keys(path).configs == ring.configs
    path.chmod(0o640)
    with pytest.raises(InputError, match="others may read"):
        read_secret_keys(path)


def test_nothing_shows_a_secret_key() -> None:
    secret = RING.keys[0].private.private_bytes_raw()
    assert repr(RING.keys[0]) == "SecretKey(id=1)"
    assert secret.hex() not in repr(RING)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"\xff", b"[]", b'{"format":"fpmonitor-keys-1","role":"curator","keys":[]}',
        b'{"format":"fpmonitor-keys-1","role":"user","keys":[{"id":1,"private":"AA=="}]}',
        b'{"format":"fpmonitor-keys-1","role":"curator","keys":[{"id":1,"private":"AA=="}]}',
    ],
)  # fmt: skip
def test_other_files_are_no_keys(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InputError, match="keys"):
        read_secret_keys(path)
    with pytest.raises(InputError, match="keys"):
        read_public(tmp_path / "none", "curator")
    with pytest.raises(InputError, match=str(path)):
        read_public(path, "curator")
