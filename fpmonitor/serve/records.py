"""Bodies of requests as typed records: checked whole, before anything of them is kept."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from fpmonitor.collectors.fingerprintjs import KEY_MEMBER, FingerprintjsCollector
from fpmonitor.collectors.records import RecordError, value_text
from fpmonitor.collectors.reporting import call_of
from fpmonitor.safe_files import strict_json
from fpmonitor.serve.frames import (
    Content,
    FingerprintResult,
    Observation,
    Observations,
    PolicyReport,
    Reports,
    Results,
)
from fpmonitor.serve.requests import RefusedRequestError, check_members

# How zlib is told to expect the header of gzip.
_GZIP = 16 + zlib.MAX_WBITS
_MOST_MEMBERS = 64
_NAME_LENGTH = 512
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_NAME_LENGTH)]
_User = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Version = Annotated[str, msgspec.Meta(max_length=100)]


class _Observation(msgspec.Struct, forbid_unknown_fields=True):
    user: _User
    api: _Name
    status: Literal["value", "undefined", "error"] | None = None
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    visit_id: _Id | None = None
    session_id: _Id | None = None


class _Result(msgspec.Struct):
    """A result of FingerprintJS; members that are not named are left out."""

    user: _User
    components: dict[str, Any]
    version: _Version | msgspec.UnsetType = msgspec.UNSET
    visit_id: _Id | None = None
    session_id: _Id | None = None


# JSON values that are their own canonical text: short, and without anything to escape or to digest.
_PLAIN = re.compile(r'"[ !#-\[\]-~]{0,200}"|-?[0-9.eE+-]{1,100}|true|false|null')
_ONE = msgspec.json.Decoder(msgspec.Raw)
_MANY = msgspec.json.Decoder(list[msgspec.Raw])
_OBSERVATION = msgspec.json.Decoder(_Observation)
_MEMBER = re.compile(rb'"(user|api|status|value|visit_id|session_id)"\s*:')


@dataclass(frozen=True, slots=True)
class Arrival:
    """What one request brought: `refused` counts the records of it that are not taken."""

    contents: Sequence[Content]
    records: int
    refused: int = 0


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Unpack a body; gzip may have several members, one after the other.

    Raises:
        RefusedRequestError: Another encoding than gzip, a broken one, or too much.
    """
    if encoding in {"", "identity"}:
        return body
    if encoding != "gzip":
        raise RefusedRequestError(415, "content-encoding must be gzip or identity")
    content = b""
    for _ in range(_MOST_MEMBERS):
        unpacker = zlib.decompressobj(_GZIP)
        try:
            # One byte above the limit shows that there is more; never 0, which means no limit.
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

    Raises:
        RefusedRequestError: Not UTF-8, not JSON, none, or too many.
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
            # An object over several lines: the first line alone is not JSON.
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


def observations_of(
    records: list[bytes],
    *,
    time: str,
    source: str,
    headers: Mapping[str, str],
    takes_names: Callable[[Iterable[str]], bool] = lambda _: True,
) -> Arrival:
    """Read observations and results of FingerprintJS.

    `time` and `source` are those of all records, which are JSON objects; `headers` are values by
    API that are also stored for every user of the request. A record whose API names
    `takes_names` does not take is left out.

    Raises:
        RefusedRequestError: A record is neither, or no JSON; the message names its position, and
            what member no observation has, not its content. Or none is taken.
    """
    found: list[Observation | FingerprintResult] = []
    for place, record in enumerate(records, start=1):
        try:
            found.append(_record(record, source))
        except (msgspec.DecodeError, RecordError, ValueError, RecursionError) as error:
            _refuse_what_it_names(record, place)
            raise RefusedRequestError(
                400,
                f"record {place} is neither an observation (user, api, status, value) nor a "
                "result of FingerprintJS (user, components)",
            ) from error
    # All at once where they are taken: names of the vocabulary cost nothing.
    is_all = takes_names({name for one in found for name in _names(one)})
    taken = found if is_all else [one for one in found if takes_names(_names(one))]
    if not taken:
        raise RefusedRequestError(403, "too many API names for this key")
    observations = [one for one in taken if isinstance(one, Observation)]
    results = [one for one in taken if isinstance(one, FingerprintResult)]
    contents: list[Content] = []
    if observations or headers:
        header_values = {name: value_text(value) for name, value in headers.items()}
        # What waited for delivery comes before what is of this visit, and so does the request.
        named = {one.user: (one.user, one.visit_id, one.session_id) for one in taken}
        users = list(named.values()) if header_values else []
        contents.append(Observations(source, time, observations, header_values, users))
    if results:
        contents.append(Results(source, time, results))
    return Arrival(contents, len(taken), len(records) - len(taken))


def _names(one: Observation | FingerprintResult) -> Iterable[str]:
    return (one.api,) if isinstance(one, Observation) else one.values


def _record(record: bytes, source: str) -> Observation | FingerprintResult:
    try:
        found = _OBSERVATION.decode(record)
    except msgspec.ValidationError:
        return _result(strict_json(record.decode()), source)
    named = _MEMBER.findall(record)
    # An escape may spell the name of a member, or half of a character.
    if len({*named}) < len(named) or b"\\u" in record:  # msgspec takes the last of two
        strict_json(record.decode())
    value = None if found.value is msgspec.UNSET else _canonical(bytes(found.value).decode())
    status = found.status or ("undefined" if value is None else "value")
    return Observation(found.user, found.api, status, value, found.visit_id, found.session_id)


def _refuse_what_it_names(record: bytes, place: int) -> None:
    """Refuse a record by what a sender can mend at once: its JSON, or a member of another name."""
    try:
        content = strict_json(record.decode())
    except (ValueError, RecursionError) as error:
        raise RefusedRequestError(
            400,
            f"record {place} is not JSON that all programs read alike; leave out byte order marks, "
            "NaN, halves of characters and members that stand twice",
        ) from error
    if isinstance(content, dict) and "components" not in content:
        check_members(content, _Observation.__struct_fields__, f"member of record {place}")


def _result(record: object, source: str) -> FingerprintResult:
    """Read a result once: what is checked is what is kept."""
    parsed = msgspec.convert(record, _Result)
    version = {} if parsed.version is msgspec.UNSET else {"version": parsed.version}
    reader = FingerprintjsCollector()  # anew: it remembers names, also those that are refused here
    visit = reader.visit({"components": parsed.components, KEY_MEMBER: source} | version)
    if not visit.values:
        raise RecordError("no value of an API")
    if any(not 0 < len(name) <= _NAME_LENGTH for name in (*visit.values, visit.source)):
        raise RecordError("a name is empty or long")
    values = dict(visit.values)
    return FingerprintResult(parsed.user, visit.source, values, parsed.visit_id, parsed.session_id)


def _canonical(text: str) -> str:
    """Return a JSON value as the store keeps it, in which no white space is left: a line stays one.

    Numbers keep their digits.
    """
    if _PLAIN.fullmatch(text):  # most values; to parse them once more is a tenth of a request
        return text
    value = strict_json(text)
    return value_text(value) if isinstance(value, str | dict | list) else text


def reports_of(records: list[bytes], *, time: str, source: str) -> Arrival:
    """Read reports of the Reporting API; those on something else than a policy are not taken.

    Raises:
        RefusedRequestError: A record is not a report.
    """
    found = []
    for place, record in enumerate(records, start=1):
        try:
            report: Any = strict_json(record.decode())
        except (ValueError, RecursionError) as error:
            raise RefusedRequestError(400, f"record {place} is not JSON") from error
        if not isinstance(report, dict) or not isinstance(report.get("type"), str):
            raise RefusedRequestError(400, f"record {place} is not a report of the Reporting API")
        call = call_of(report)
        if call.site and call.script and call.api:
            found.append(PolicyReport(call.site, call.script, call.api))
    contents = [Reports(source, time, found)] if found else []
    return Arrival(contents, len(found), len(records) - len(found))
