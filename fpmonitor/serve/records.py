"""Bodies of requests as lines for the spool: checked whole, before anything of them is kept."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from fpmonitor.collectors.fingerprintjs import KEY_MEMBER, FingerprintjsCollector
from fpmonitor.collectors.records import RecordError
from fpmonitor.serve.requests import RefusedRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fpmonitor.serve.spool import Kind

_GZIP = 16 + zlib.MAX_WBITS
_MOST_MEMBERS = 64
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_User = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Version = Annotated[str, msgspec.Meta(max_length=100)]


class _Observation(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    user: _User
    api: _Name
    status: Literal["value", "undefined", "error"] | msgspec.UnsetType = msgspec.UNSET
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    visit_id: _Id | msgspec.UnsetType = msgspec.UNSET
    session_id: _Id | msgspec.UnsetType = msgspec.UNSET


class _Stored(_Observation):
    time: str = ""
    source: str = ""


class _Result(msgspec.Struct):
    """A result of FingerprintJS; members that are not named are left out."""

    user: _User
    components: dict[str, msgspec.Raw]
    version: _Version | msgspec.UnsetType = msgspec.UNSET
    visit_id: _Id | msgspec.UnsetType = msgspec.UNSET
    session_id: _Id | msgspec.UnsetType = msgspec.UNSET


class _StoredResult(_Result):
    time: str = ""
    source: str = msgspec.field(default="", name=KEY_MEMBER)


_ONE = msgspec.json.Decoder(msgspec.Raw)
_MANY = msgspec.json.Decoder(list[msgspec.Raw])
_OBSERVATION = msgspec.json.Decoder(_Observation)
_RESULT = msgspec.json.Decoder(_Result)
_ENCODER = msgspec.json.Encoder()
_FINGERPRINTJS = FingerprintjsCollector()


@dataclass(frozen=True, slots=True)
class Lines:
    """Records of one request as lines, by the kind of segment they go to.

    `records` counts those of the lines, `refused` those whose API names are too many.
    """

    lines: Mapping[Kind, bytes]
    records: int
    refused: int = 0


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Unpack a body; gzip may have several members, one after the other.

    Raises
    ------
    RefusedRequestError
        Another encoding than gzip, a broken one, or too much.
    """
    if encoding in {"", "identity"}:
        return body
    if encoding != "gzip":
        raise RefusedRequestError(415, "content-encoding must be gzip or identity")
    content = b""
    for _ in range(_MOST_MEMBERS):
        unpacker = zlib.decompressobj(_GZIP)
        try:
            content += unpacker.decompress(body, most + 1 - len(content))
        except zlib.error as error:
            raise RefusedRequestError(400, "the body is not gzip") from error
        if len(content) > most:
            raise RefusedRequestError(413, f"more than {most} bytes when unpacked")
        if not unpacker.eof:
            raise RefusedRequestError(400, "the body is cut short")
        body = unpacker.unused_data
        if not body:
            return content
    raise RefusedRequestError(413, f"more than {_MOST_MEMBERS} members of gzip")


def split_records(body: bytes, most: int) -> list[bytes]:
    """Split a body into records: one JSON object, an array of them, or one a line.

    Raises
    ------
    RefusedRequestError
        Not UTF-8, not JSON, none, or too many.
    """
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise RefusedRequestError(400, "the body is not UTF-8") from error
    start = body.lstrip()[:1]
    try:
        if start == b"[":
            records = [bytes(record) for record in _MANY.decode(body)]
        else:
            records = [line for line in body.split(b"\n") if line.strip()]
            if start == b"{" and len(records) > 1 and not _is_json(records[0]):
                records = [bytes(_ONE.decode(body))]
    except (msgspec.DecodeError, RecursionError) as error:
        raise RefusedRequestError(400, "the body is not JSON") from error
    if not records:
        raise RefusedRequestError(400, "the body holds no record")
    if len(records) > most:
        raise RefusedRequestError(413, f"more than {most} records")
    return records


def _is_json(text: bytes) -> bool:
    try:
        _ONE.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def observation_lines(
    records: list[bytes],
    *,
    time: str,
    source: str,
    headers: Mapping[str, str],
    takes_names: Callable[[Iterable[str]], bool] = lambda _: True,
) -> Lines:
    """Return lines of observations and of results of FingerprintJS.

    `time` and `source` are those of all records, which are JSON objects; `headers` are values by
    API that are also stored for every user of the request. A record whose API names
    `takes_names` does not take is left out.

    Raises
    ------
    RefusedRequestError
        A record is neither; the message names its position, not its content. Or none is taken.
    """
    found = []
    for place, record in enumerate(records, start=1):
        try:
            found.append(_record(record))
        except (msgspec.DecodeError, RecordError, ValueError, RecursionError) as error:
            raise RefusedRequestError(
                400,
                f"record {place} is neither an observation (user, api, status, value) nor a "
                "result of FingerprintJS (user, components)",
            ) from error
    taken = [record for record, names in found if takes_names(names)]
    if not taken:
        raise RefusedRequestError(403, "too many API names for this key or for the database")
    observations: list[bytes] = []
    results: list[bytes] = []
    for one in taken:
        if isinstance(one, _Observation):
            observations.append(_encoded(_Stored, one, time, source))
        else:
            results.append(_encoded(_StoredResult, one, time, source))
    # What waited for delivery comes before what is of this visit, and so does the request.
    users = {one.user: one for one in taken}
    for one in users.values():
        for api, value in headers.items():
            raw = msgspec.Raw(_ENCODER.encode(value))
            shown = _Observation(one.user, api, "value", raw, one.visit_id, one.session_id)
            observations.append(_encoded(_Stored, shown, time, source))
    lines: dict[Kind, bytes] = {}
    if observations:
        lines["observations"] = b"\n".join([*observations, b""])
    if results:
        lines["fingerprintjs"] = b"\n".join([*results, b""])
    return Lines(lines, len(taken), len(records) - len(taken))


def _encoded(
    form: type[_Stored | _StoredResult], one: _Observation | _Result, time: str, source: str
) -> bytes:
    members = {name: getattr(one, name) for name in one.__struct_fields__}
    return _ENCODER.encode(form(**members, time=time, source=source))


def _record(record: bytes) -> tuple[_Observation | _Result, Iterable[str]]:
    """Decode a record; return it with its API names."""
    try:
        found = _OBSERVATION.decode(record)
    except msgspec.ValidationError:
        result = _RESULT.decode(record)
        return result, _FINGERPRINTJS.visit(json.loads(record)).values
    if found.value is not msgspec.UNSET:
        raw = bytes(found.value)
        content = json.loads(raw)
        if b"\\ud" in raw.lower():  # what msgspec leaves raw may hold half a character
            json.dumps(content, ensure_ascii=False).encode()
    return found, (found.api,)


def report_lines(records: list[bytes], *, received: str) -> Lines:
    """Return lines of reports of the Reporting API.

    `received` makes equal reports different: each of them counts.

    Raises
    ------
    RefusedRequestError
        A record is not a report.
    """
    lines = []
    for place, record in enumerate(records, start=1):
        try:
            report: Any = json.loads(record)
        except (ValueError, RecursionError) as error:
            raise RefusedRequestError(400, f"record {place} is not JSON") from error
        if not isinstance(report, dict) or not isinstance(report.get("type"), str):
            raise RefusedRequestError(400, f"record {place} is not a report of the Reporting API")
        kept = {name: report[name] for name in ("type", "url", "age", "body") if name in report}
        kept["received"] = f"{received}/{place}"
        lines.append(json.dumps(kept).encode())
    return Lines({"reports": b"\n".join([*lines, b""])}, len(records))
