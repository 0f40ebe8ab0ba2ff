"""What a sender sends is stored as what that sender sent, each record once, and nothing else."""

from __future__ import annotations

import gzip
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from tests.running import Inside, Running

if TYPE_CHECKING:
    from collections.abc import Iterator

FORGED = {"user": "sybil", "api": "Navigator.platform", "value": "rare"}
FORGED_RESULT = {
    "user": "sybil",
    "version": "4.5.0",
    "write_key_name": "backend",
    "components": {"platform": {"value": "rare", "duration": 1}},
}
AS_OTHERS = {"time": "2020-01-01T00:00:00Z", "source": "backend"}
ENDS = {"both": "\r\n", "newline": "\n", "return": "\r", "tab": "\t\n"}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Inside(tmp_path, "page", "backend") as service:
        yield service


def rows(service: Running) -> list[tuple[Any, ...]]:
    """User, source, API and value of all that is stored, and the year of the visit."""
    service.settled()
    service.stop()
    with duckdb.connect(str(service.config.db), read_only=True) as database:
        return database.execute(
            "SELECT user_id, source.name, api.name, value.text, year(visit.time) FROM observation "
            "JOIN visit USING (visit_id) JOIN source USING (source_id) JOIN api USING (api_id) "
            "JOIN value USING (api_id, value_id) ORDER BY ALL"
        ).fetchall()


def lines_within(record: object, end: str, times: int = 30) -> str:
    """A JSON array whose text holds whole records, each on a line of its own."""
    return f"[0,{end}" + f"{end},{end}".join([json.dumps(record)] * times) + f"{end}]"


def values_that_hold_lines(end: str) -> list[str]:
    found = []
    for inner in (FORGED | AS_OTHERS, FORGED_RESULT | AS_OTHERS):
        array = lines_within(inner, end)
        found += [array, f'{{"a": {array}}}', f'{{{end}"a":{end}{array}}}']
    return found


def bodies(value: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Ways to send a value: address, body, and header fields."""
    honest = json.dumps({"user": "p", "api": "Navigator.platform", "value": "x"})
    one = f'{{"user": "p", "api": "Navigator.userAgent", "value": {value}}}'
    error = one.replace('"value"', '"status": "error", "value"')
    result = (
        '{"user": "p", "version": "4.5.0", "components": {"platform": {"duration": 1, '
        f'"value": {value}}}}}}}'
    )
    failed = result.replace('"value"', '"error"')
    for record in (one, error, result, failed):
        yield "/v1/observations", f"[{honest}, {record}]", {}
        yield "/v1/observations", f"{record}", {}
    report = '{"type": "permissions-policy-violation", "url": "https://a.example/", "body": {}'
    yield "/v1/reports", f'[{report}, "more": {value}}}]', {}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_no_value_of_a_sender_becomes_a_record_of_its_own(running: Running, end: str) -> None:
    """Raw line ends within a JSON value are white space: they end no record, whatever is there."""
    answers = set()
    for value in values_that_hold_lines(end):
        for path, body, headers in bodies(value):
            for packed in (False, True):
                content = gzip.compress(body.encode()) if packed else body.encode()
                encoding = {"content-encoding": "gzip"} if packed else {}
                answer = running.request(
                    "POST",
                    path,
                    key="page",
                    content=content,
                    headers={"content-type": "application/json"} | headers | encoding,
                )
                answers.add(answer.status_code)
    assert answers == {202}
    assert running.health() == "ok"
    found = rows(running)
    assert {row[0] for row in found} == {1}, "one user has sent"
    assert {row[1] for row in found} == {"page", "fingerprintjs 4.5.0 via page"}
    assert 2020 not in {row[4] for row in found}
    assert "rare" not in {row[3] for row in found}


@pytest.mark.parametrize("indent", [0, 1, 4, "\t"])
def test_honest_senders_who_print_over_several_lines_are_stored(
    running: Running, indent: int | str
) -> None:
    result = {
        "user": "honest",
        "version": "4.5.0",
        "components": {
            "platform": {"value": "Linux", "duration": 1},
            "languages": {"value": [["de"], ["en"]], "duration": 0},
            "fonts": {"error": {"name": "E", "message": "no\nfonts"}, "duration": 0},
        },
    }
    plain = {"user": "first", "api": "Navigator.platform", "value": "x"}
    assert running.post(plain, "backend").status_code == 202
    assert running.post(result, "backend").status_code == 202
    records = [
        result,
        {"user": "honest", "api": "Navigator.languages", "value": ["de", "en"]},
        {"user": "honest", "api": "A.a", "value": {"b": [1, {"c": "d\r\ne"}]}},
    ]
    for record in (*records, records):
        answer = running.post(json.dumps(record, indent=indent), "backend")
        assert (answer.status_code, answer.json()["refused"]) == (202, 0)
    assert running.health() == "ok"
    found = rows(running)
    told = {(row[2], row[3]) for row in found}
    assert ("Navigator.languages", '["de","en"]') in told
    assert ("A.a", '{"b":[1,{"c":"d\\r\\ne"}]}') in told
    assert sum(row[3] == "Linux" for row in found) == 3


def test_what_is_sent_beside_a_record_takes_no_name_of_others(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Names that stand in values count as values."""
    caplog.set_level("INFO")
    many = "\n,\n".join(json.dumps(FORGED | {"api": f"junk{i}"}) for i in range(5000))
    body = f'{{"user": "a", "api": "A.a", "value": [\n{many}\n]}}'
    assert running.post(body, "page").status_code == 202
    new = running.post({"user": "h", "api": "My.name", "value": 8}, "backend")
    assert new.json() == {"accepted": 1, "refused": 0}
    found = rows(running)
    assert {row[2] for row in found} == {"A.a", "My.name"}
    assert any('"rejected": 0' in message for message in caplog.messages)


@pytest.mark.long(guard="serve/test_serve.py::test_a_damaged_segment_that_the_database_refuses")
def test_health_fails_when_the_database_rejects_what_was_accepted(tmp_path: Path) -> None:
    """A damaged segment: what is whole is stored, what is not is kept, and it is said."""
    with Running(tmp_path, "page", settings="flush_seconds = 3600\n") as service:
        for number in range(4):
            service.post({"user": f"u{number}", "api": "A.a", "value": number}, "page")
        service.stop(kill=True)
        [segment] = service.config.spool_folder.glob("open.*.frames")
        content = bytearray(segment.read_bytes())
        closed = segment.with_name("00000000000000000001-aa.observations.frames")
        content[len(content) * 3 // 4] ^= 1
        segment.unlink()
        closed.write_bytes(content)
        service.start()
        service.settled()
        assert service.health() == "failing"
        assert any((service.config.spool_folder / "refused").iterdir())
        assert len(rows(service)) == 2


def test_what_only_a_user_could_tell_of_stops_no_segment(running: Running) -> None:
    """Nobody answers for a sender: values that all differ are stored, ids by form set aside."""
    forms = {
        "unknown": "{:x}",
        "page.count": "{}",
        "mail": "visitor{}@example.org",
        "Navigator.platform": "p{}",
    }
    for name, form in forms.items():
        records = [
            {"user": f"u{number}", "api": name, "value": form.format(number * 7919 + 123456)}
            for number in range(60)
        ]
        assert running.post("\n".join(map(json.dumps, records)), "page").status_code == 202
    running.settled()
    assert running.health() == "ok"
    assert not [*(running.config.spool_folder / "refused").glob("*")]
    stored = rows(running)
    assert {row[2] for row in stored} == {"unknown", "page.count", "Navigator.platform"}
    assert len(stored) == 180


def result(name: str, value: object = 1, version: str = "4.5.0") -> dict[str, Any]:
    components = {name: {"value": value, "duration": 1}}
    return {"user": "u", "version": version, "components": components}


def test_names_are_as_short_by_each_way(running: Running) -> None:
    """A thousand names of a megabyte would be kept for good, in memory and in the database."""
    long = [
        {"user": "u", "api": "n" * 513, "value": 1},
        {"user": "u", "api": "", "value": 1},
        *(result(name) for name in ("n" * 513, "n" * 500_000, "é" * 600)),
        result("webGlBasics", {"m" * 600: 1}),
        result("platform", version="9" * 101),
    ]
    for record in long:
        assert running.post(record, "page").status_code == 400
    for record in (result("n" * 400), {"user": "u", "api": "n" * 512, "value": 1}):
        assert running.post(record, "page").status_code == 202
    assert running.health() == "ok"
    assert max(len(row[2]) for row in rows(running)) <= 512


@pytest.mark.long
def test_names_that_are_refused_stay_nowhere(tmp_path: Path) -> None:
    """Else a key that may bring no more names fills the memory with those that it may not bring."""
    with Running(tmp_path, "page", settings="max_names = 10\nflush_seconds = 3600\n") as service:
        status = Path(f"/proc/{service.process.pid}/status")

        def megabytes() -> float:
            return int(status.read_text().partition("VmRSS:")[2].split()[0]) / 1000

        def send(times: int) -> None:
            for turn in range(times):
                names = [f"{turn}.{secrets.token_hex(16)}" for _ in range(9000)]
                components = {name: {"value": 1, "duration": 1} for name in names}
                answer = service.post({"user": "u", "components": components}, "page")
                assert answer.status_code == 403
                lines = [json.dumps({"user": "u", "api": one, "value": 1}) for one in names[:2000]]
                assert service.post("\n".join(lines), "page").status_code == 403

        for name in map(str, range(10)):
            assert service.post({"user": "u", "api": name, "value": 1}, "page").status_code == 202
        send(5)
        before = megabytes()
        send(40)
        assert megabytes() < before + 25, "each of these requests left 2 MB"
