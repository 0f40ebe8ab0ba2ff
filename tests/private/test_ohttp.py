"""Oblivious HTTP and binary HTTP: the RFCs' own examples, and a relay in front of the shuffler."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from fpmonitor.private.binary_http import (
    Request,
    Response,
    decode_request,
    decode_response,
    encode_number,
)
from fpmonitor.private.client import AnsweredRequests, seal_answers
from fpmonitor.private.keys import SealError, SecretKeys
from fpmonitor.private.ohttp import (
    UnknownKeyError,
    encode_keys,
    open_request,
    seal_request,
)
from fpmonitor.private.sending import send_uploads, through_relay
from fpmonitor.private.services import shuffler_app
from fpmonitor.private.shuffler import Shuffler
from fpmonitor.private.study import Study, first_ask
from fpmonitor.private.transport import RoleClient, UnreachableError
from fpmonitor.private.wire import HpkeConfig, WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

REFERENCE = Path(__file__).parents[2] / "fixtures" / "reference" / "hpke.json"
STUDY = Study(name="test", apis=("A.one",), population=1000, k=3, budget=0.5, minimum_batch=4)
ASK = first_ask(STUDY)
RINGS = {role: SecretKeys.generate(role) for role in ("shuffler", "curator")}
SOME = settings(deadline=None, max_examples=60)
NAMES = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=8)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=4).map(tuple)


@pytest.fixture(scope="module")
def vector() -> dict[str, bytes]:
    content = json.loads(REFERENCE.read_text())["rfc9458_a"]
    return {name: bytes.fromhex(text) for name, text in content.items() if name != "source"}


# ---- RFC 9458, appendix A


def test_a_request_is_sealed_as_published(vector: dict[str, bytes]) -> None:
    config = HpkeConfig(1, vector["key_configuration"][3:35])
    ephemeral = X25519PrivateKey.from_private_bytes(vector["ephemeral_private"])
    sealed, exchange = seal_request(vector["request"], config, ephemeral)
    assert sealed == vector["encapsulated_request"]
    assert exchange.secret == vector["secret"]
    assert exchange.open_response(vector["encapsulated_response"]) == vector["response"]


def test_a_request_is_opened_and_answered_as_published(vector: dict[str, bytes]) -> None:
    keys = {1: X25519PrivateKey.from_private_bytes(vector["gateway_private"])}
    request, exchange = open_request(vector["encapsulated_request"], keys)
    assert request == vector["request"]
    assert decode_request(request) == Request("GET", "https", "example.com", "/")
    sealed = exchange.seal_response(vector["response"], vector["response_nonce"])
    assert sealed == vector["encapsulated_response"]
    assert decode_response(vector["response"]) == Response(200)


def test_keys_are_published_as_the_rfc_has_them(vector: dict[str, bytes]) -> None:
    published = vector["key_configuration"]
    body = encode_keys([HpkeConfig(1, published[3:35])])
    assert body[2:37] == published[:35]
    assert body == struct.pack(">H", 41) + published[:35] + struct.pack(">HHH", 4, 1, 1)


def test_a_request_for_another_key_or_changed_does_not_open() -> None:
    ring = RINGS["shuffler"]
    sealed, _ = seal_request(b"held", ring.keys[0].config)
    with pytest.raises(UnknownKeyError):
        open_request(sealed, ring.rotated().retired(1).by_id())
    with pytest.raises(UnknownKeyError):
        open_request(sealed[:6] + b"\x03" + sealed[7:], ring.by_id())
    for wrong in (sealed[:-1], sealed + b"\0", sealed[:38], b"", sealed[:20] + bytes(40)):
        with pytest.raises(SealError):
            open_request(wrong, ring.by_id())


def test_a_response_opens_for_its_request_only() -> None:
    ring = RINGS["shuffler"]
    exchanges = [seal_request(b"held", ring.keys[0].config) for _ in range(2)]
    _, answering = open_request(exchanges[0][0], ring.by_id())
    response = answering.seal_response(b"answer")
    assert exchanges[0][1].open_response(response) == b"answer"
    assert answering.seal_response(b"answer") != response
    with pytest.raises(SealError):
        exchanges[1][1].open_response(response)
    for wrong in (response[:-1], response[:16], b""):
        with pytest.raises(SealError):
            exchanges[0][1].open_response(wrong)


# ---- RFC 9292


@given(FIELDS, st.binary(max_size=400), NAMES, VALUES)
@SOME
def test_requests_come_back(
    fields: tuple[tuple[str, str], ...], content: bytes, method: str, path: str
) -> None:
    request = Request(method, "https", "a.example", path, fields, content)
    assert decode_request(request.encode()) == request
    assert decode_request(request.encode() + b"\0\0") == request


@given(FIELDS, st.binary(max_size=400), st.integers(200, 599))
@SOME
def test_responses_come_back(
    fields: tuple[tuple[str, str], ...], content: bytes, status: int
) -> None:
    response = Response(status, fields, content)
    assert decode_response(response.encode()) == response


def opaque(data: bytes) -> bytes:
    return encode_number(len(data)) + data


def test_both_framings_are_read() -> None:
    head = b"".join(map(opaque, (b"POST", b"https", b"a.example", b"/uploads")))
    field = opaque(b"Content-Type") + opaque(b"x/y")
    known = b"\0" + head + opaque(field) + opaque(b"body") + opaque(b"")
    chunks = opaque(b"bo") + opaque(b"dy") + b"\0"
    indeterminate = b"\2" + head + field + b"\0" + chunks + opaque(b"t") + opaque(b"1") + b"\0"
    expected = Request(
        "POST", "https", "a.example", "/uploads", (("content-type", "x/y"),), b"body"
    )
    assert decode_request(known) == decode_request(indeterminate) == expected


def test_what_is_missing_at_the_end_is_empty() -> None:
    head = b"".join(map(opaque, (b"GET", b"https", b"a.example", b"/")))
    for framing in (b"\0", b"\2"):
        assert decode_request(framing + head) == Request("GET", "https", "a.example", "/")


def test_informational_responses_are_passed_over() -> None:
    fields = opaque(b"link") + opaque(b"</a>; rel=preload")
    known = b"\1" + encode_number(103) + opaque(fields) + encode_number(204) + b"\0\0\0"
    indeterminate = b"\3" + encode_number(103) + fields + b"\0" + encode_number(204) + b"\0\0\0"
    assert decode_response(known) == decode_response(indeterminate) == Response(204)


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "00"), (37, "25"), (63, "3f"), (64, "4040"), (15293, "7bbd"), (494878333, "9d7f3e7d"),
     (151288809941952652, "c2197c5eff14e88c")],
)  # fmt: skip
def test_numbers_are_written_as_in_rfc_9000(number: int, written: str) -> None:
    assert encode_number(number).hex() == written


def test_numbers_that_have_no_form_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="too large"):
        encode_number(1 << 62)


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=200)
def test_other_bytes_are_refused_by_one_error_only(data: bytes) -> None:
    for read in (decode_request, decode_response):
        with suppress(WireError):
            read(data)


@pytest.mark.parametrize(
    "data", ["", "01", "04", "0003474554", "0140c8000000ff", "0100", "014063", "0142580000"]
)
def test_bytes_that_are_no_message_are_refused(data: str) -> None:
    for read in (decode_request, decode_response):
        with pytest.raises(WireError):
            read(bytes.fromhex(data))


# ---- The gateway


class ToGateway(RoleClient):
    """A relay: passes requests on to the gateway, and keeps what it saw."""

    def __init__(self, client: TestClient) -> None:
        super().__init__("http://127.0.0.1:9")
        self._client = client
        self.seen: list[bytes] = []

    def post(self, path: str, content: bytes, content_type: str = "") -> bytes:
        assert path == ""
        self.seen.append(content)
        answer = self._client.post(
            "/ohttp", content=content, headers={"content-type": content_type}
        )
        if answer.status_code != 200:
            raise UnreachableError(f"{answer.status_code}")
        assert answer.headers["content-type"] == "message/ohttp-res"
        return answer.content


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[Shuffler, TestClient]]:
    shuffler = Shuffler(tmp_path / "shuffler.db", STUDY, RINGS["shuffler"])
    shuffler.add_ask(ASK)
    with shuffler.store, TestClient(shuffler_app(shuffler, password="t" * 43)) as client:
        yield shuffler, client


def uploads(users: int) -> list[bytes]:
    shuffler, curator = (ring.keys[0].config for ring in RINGS.values())
    return [
        upload.encode()
        for _ in range(users)
        for upload in seal_answers(
            STUDY,
            ASK,
            {"A.one": "=held"},
            answered=AnsweredRequests(),
            shuffler=shuffler,
            recipient=curator,
        )
    ]


def test_uploads_through_a_relay_are_kept_and_the_relay_reads_none(
    gateway: tuple[Shuffler, TestClient],
) -> None:
    shuffler, client = gateway
    published = client.get("/ohttp-keys")
    assert published.headers["content-type"] == "application/ohttp-keys"
    config = RINGS["shuffler"].keys[0].config  # the gateway's key is the one in keys.pub
    assert published.content == encode_keys([config])
    relay = ToGateway(client)
    send = through_relay(relay, config, "https://shuffler.example")
    sent = uploads(3)
    assert send_uploads(sent, send) == {"accepted": 3}
    assert send_uploads(sent, send) == {"accepted": 0, "replayed": 3}
    assert shuffler.store.tally()[ASK.id]["held"] == 3
    assert not any(upload[:16] in seen for upload in sent for seen in relay.seen)


@pytest.mark.parametrize(
    ("address", "authority"),
    [
        ("https://пример.испытание:1", "xn--e1afmkfd.xn--80akhbyknj4f:1"),
        ("http://[::1]:1", "[::1]:1"),
    ],
)
def test_a_shuffler_of_any_alphabet_is_reached_through_a_relay(
    gateway: tuple[Shuffler, TestClient],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    authority: str,
) -> None:
    """Its name travels as in a connection; letters beyond Latin ended in a traceback."""
    sent, encode = [], Request.encode

    def encoded(request: Request) -> bytes:
        sent.append(request.authority)
        return encode(request)

    monkeypatch.setattr(Request, "encode", encoded)
    send = through_relay(ToGateway(gateway[1]), RINGS["shuffler"].keys[0].config, address)
    assert send_uploads(uploads(1), send) == {"accepted": 1}
    assert sent == [authority]


def test_terms_can_be_read_through_a_relay(gateway: tuple[Shuffler, TestClient]) -> None:
    _, client = gateway
    config = RINGS["shuffler"].keys[0].config

    def asked(request: Request) -> Response:
        sealed, exchange = seal_request(request.encode(), config)
        answer = client.post(
            "/ohttp", content=sealed, headers={"content-type": "message/ohttp-req"}
        )
        assert answer.status_code == 200
        return decode_response(exchange.open_response(answer.content))

    def get(path: str) -> Response:
        return asked(Request("GET", "https", "s.example", path))

    assert get("/study").content == STUDY.to_bytes()
    assert get(f"/asks/{ASK.id.hex()}").content == ASK.to_bytes()
    assert get("/status").status == 404
    assert get("/asks/" + "0" * 32).status == 404
    assert asked(Request("POST", "https", "s.example", "/asks")).status == 404
    assert asked(Request("DELETE", "https", "s.example", "/uploads")).status == 404


def test_errors_within_stay_within_and_unknown_keys_are_told_as_the_rfc_says(
    gateway: tuple[Shuffler, TestClient],
) -> None:
    _, client = gateway
    headers = {"content-type": "message/ohttp-req"}
    config = RINGS["shuffler"].keys[0].config
    sealed, exchange = seal_request(b"\x07 no message", config)
    answer = client.post("/ohttp", content=sealed, headers=headers)
    assert answer.status_code == 200
    assert decode_response(exchange.open_response(answer.content)).status == 400
    other, _ = seal_request(b"", RINGS["curator"].rotated().keys[0].config)
    unknown = client.post("/ohttp", content=other, headers=headers)
    assert unknown.status_code == 400
    assert unknown.headers["content-type"] == "application/problem+json"
    assert unknown.json()["type"].endswith("#ohttp-key")
    assert client.post("/ohttp", content=sealed[:-1], headers=headers).status_code == 400
