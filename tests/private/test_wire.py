"""The bytes that travel: what is written is read, and whatever else comes is refused."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.private.wire import (
    HpkeCiphertext,
    HpkeConfig,
    SealedReport,
    Upload,
    WireError,
    decode_batch,
    decode_configs,
    decode_report,
    decode_uploads,
    encode_batch,
    encode_configs,
    token_limit,
)

Batch = tuple[bytes, bytes, tuple[HpkeCiphertext, ...]]

FRAMES = st.builds(
    HpkeCiphertext, st.integers(0, 255), st.binary(max_size=40), st.binary(max_size=60)
)
IDS = st.binary(min_size=16, max_size=16)
UPLOADS = st.builds(Upload, IDS, FRAMES)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
REPORTS = st.builds(
    SealedReport, IDS, st.integers(0, 65_535), st.lists(TEXTS, max_size=8).map(tuple)
)
BATCHES = st.tuples(IDS, IDS, st.lists(FRAMES, max_size=5).map(tuple))
SOME = settings(deadline=None, max_examples=60)


def test_a_frame_has_the_form_of_dap() -> None:
    frame = HpkeCiphertext(7, b"\xaa" * 3, b"\xbb" * 2)
    assert frame.encode().hex() == "07" + "0003" + "aaaaaa" + "00000002" + "bbbb"


def test_a_key_configuration_has_the_form_of_dap() -> None:
    config = HpkeConfig(9, bytes(32))
    written = encode_configs([config])
    assert written.hex() == "0029" + "09" + "002000010001" + "0020" + "00" * 32
    assert decode_configs(written) == (config,)


def test_an_upload_begins_with_its_ask_and_a_report_with_its_nonce() -> None:
    upload = Upload(b"a" * 16, HpkeCiphertext(1, b"", b""))
    assert upload.encode() == b"a" * 16 + b"\x01\0\0\0\0\0\0"
    report = SealedReport(b"n" * 16, 258, ("=x", "absent"))
    expected = b"n" * 16 + b"\x01\x02" + b"\x02" + b"\0\x02=x" + b"\0\x06absent"
    assert report.encode(40) == expected.ljust(40, b"\0")


def test_keys_for_other_algorithms_are_passed_over() -> None:
    other = struct.pack(">BHHHH", 1, 0x0010, 1, 1, 65) + bytes(65)
    ours = HpkeConfig(2, b"k" * 32)
    body = other + ours.encode()
    assert decode_configs(struct.pack(">H", len(body)) + body) == (ours,)
    with pytest.raises(WireError, match="none uses"):
        decode_configs(struct.pack(">H", len(other)) + other)


@given(FRAMES)
@SOME
def test_frames_come_back(frame: HpkeCiphertext) -> None:
    [upload] = decode_uploads(Upload(b"a" * 16, frame).encode())
    assert upload.sealed == frame


@given(st.lists(UPLOADS, max_size=5))
@SOME
def test_uploads_come_back(uploads: list[Upload]) -> None:
    assert list(decode_uploads(b"".join(one.encode() for one in uploads))) == uploads


@given(REPORTS)
@SOME
def test_reports_come_back_and_have_one_length(report: SealedReport) -> None:
    data = report.encode(1024)
    assert len(data) == 1024
    assert decode_report(data) == report


def encoded(batch: Batch) -> bytes:
    ask, batch_id, frames = batch
    return encode_batch(ask, batch_id, [frame.encode() for frame in frames])


@given(BATCHES)
@SOME
def test_batches_come_back(batch: Batch) -> None:
    assert decode_batch(encoded(batch)) == batch


@given(BATCHES, st.data())
@SOME
def test_a_batch_cut_short_or_with_something_behind_is_none(
    batch: Batch, data: st.DataObject
) -> None:
    whole = encoded(batch)
    shorter = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for wrong in (shorter, whole + b"\0"):
        with pytest.raises(WireError):
            decode_batch(wrong)


@given(st.binary(max_size=300))
@settings(deadline=None, max_examples=200)
def test_other_bytes_are_refused_by_one_error_only(data: bytes) -> None:
    readers = (decode_configs, decode_report, decode_batch, decode_uploads)
    for read in readers:
        with suppress(WireError):
            list(read(data) if read is decode_uploads else [read(data)])


def test_what_follows_the_tokens_of_a_report_is_zeros() -> None:
    data = bytearray(SealedReport(b"n" * 16, 0, ("=x",)).encode(64))
    data[-1] = 1
    with pytest.raises(WireError, match="follows"):
        decode_report(bytes(data))


def test_a_report_that_is_too_long_is_not_written() -> None:
    report = SealedReport(b"n" * 16, 0, ("=" + "x" * 60,))
    with pytest.raises(WireError, match="64"):
        report.encode(64)


@given(st.integers(60, 2000), st.integers(1, 5))
@SOME
def test_tokens_up_to_the_limit_have_room(length: int, apis: int) -> None:
    limit = token_limit(length, ["a"] * apis)
    if limit > 0:
        fitting = SealedReport(b"n" * 16, 0, ("x" * limit,) * apis)
        assert len(fitting.encode(length)) == length
        longer = SealedReport(b"n" * 16, 0, ("x" * (limit + 1),) * apis)
        if length - 19 - apis * (limit + 2) < apis:
            with pytest.raises(WireError):
                longer.encode(length)
