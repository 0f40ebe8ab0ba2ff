"""Strangers, senders and readers of a running service learn and take only what is theirs."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from fpmonitor.cli import run
from fpmonitor.monitor import Monitor
from fpmonitor.serve import accounts, moving
from fpmonitor.serve.app import MEMBERS, service_app
from fpmonitor.serve.config import ServeConfig
from fpmonitor.serve.keys import add_key, remove_key
from fpmonitor.store import staging
from fpmonitor.store.files import Patience
from tests.running import HANGS, Inside, Running

if TYPE_CHECKING:
    from collections.abc import Iterator

PLATFORMS = ("Win32", "MacIntel", "Linux x86_64", "iPhone")
SLOW = "flush_seconds = 3600\n"
RARE = "FontFaceSet.check#Acme Corp Internal Sans"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A service of the test's own."""
    with Running(tmp_path, "page", "backend") as service:
        yield service


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    """One within this process."""
    with Inside(tmp_path, "page", "backend") as service:
        yield service


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One for tests that leave it as it was: they take less time than its start."""
    with Running(tmp_path_factory.mktemp("shared"), "page", "backend") as service:
        yield service


def named(names: Iterator[str] | list[str], user: str = "e") -> str:
    return "\n".join(json.dumps({"user": user, "api": name, "value": 1}) for name in names)


# ---- What strangers and senders are told


def test_strangers_are_told_whether_records_are_taken_and_no_figure(tmp_path: Path) -> None:
    """Nor is a reader told the length of what one sender sends."""
    with Inside(tmp_path, "page", settings=SLOW) as service:
        seen, figures = set(), set()
        for number in range(12):
            record = {"user": f"u{number}", "api": "A.a", "value": random.choice(PLATFORMS)}
            assert service.post(record, "page").status_code == 202
            seen.add(service.get("/healthz").text)
            assert service.get("/healthz", headers={"authorization": "Bearer x"}).text in seen
            figures.add(service.get("/healthz", "ann").text)
            text = service.get("/metrics", "ann").text
            lines = [one for one in text.splitlines() if one.startswith("fpmonitor_")]
            of_senders = [one for one in lines if "route" not in one or "observations" in one]
            figures.add("\n".join(one for one in of_senders if "_created" not in one))
        assert seen == {'{"status":"ok"}'}
        assert len(figures) == 2, "one of each kind: a sender more changes nothing"


@pytest.mark.long
@pytest.mark.parametrize("how", ["planted", "sent by another key", "nobody"])
def test_no_answer_to_a_sender_depends_on_what_others_have(tmp_path: Path, how: str) -> None:
    if how == "planted":
        with Monitor(tmp_path / "s.duckdb", create=True) as monitor:
            log = tmp_path / "log.jsonl"
            log.write_text(json.dumps({"user": "v", RARE: True, "Screen.width": 1}) + "\n")
            monitor.ingest([log])
    with Running(tmp_path, "page", "backend", settings="max_names = 40\n") as service:
        if how == "sent by another key":
            assert (
                service.post({"user": "v", "api": RARE, "value": True}, "backend").status_code
                == 202
            )
            service.settled()
        answers = [service.post(named([f"j{i}" for i in range(50)]), "page").json()]
        answers += [
            (answer.status_code, answer.json())
            for name in (RARE, "j1", "Other.name", "Navigator.platform")
            for answer in [service.post({"user": "e", "api": name, "value": True}, "page")]
        ]
    refused = {"error": "too many API names for this key"}
    taken = {"accepted": 1, "refused": 0}
    assert answers == [
        {"accepted": 40, "refused": 10},
        (403, refused),
        (202, taken),
        (403, refused),
        (202, taken),
    ]


@pytest.mark.long
def test_names_are_counted_beyond_a_restart_and_given_back_by_forgetting(tmp_path: Path) -> None:
    with Running(tmp_path, "page", "backend", settings="max_names = 30\n") as service:
        assert service.post(named([f"a{i}" for i in range(30)]), "page").json()["refused"] == 0
        for kill in (False, True, False):
            service.stop(kill=kill)
            service.start()
            service.settled()
            time.sleep(1)
            assert service.post(named(["new"]), "page").status_code == 403
            assert service.post(named(["a7"]), "page").status_code == 202
        assert service.post(named(["b"]), "backend").status_code == 202
        service.settled()
        assert (
            run(
                [
                    "--wait",
                    "30",
                    "db",
                    "forget",
                    "--key",
                    "page",
                    "--yes",
                    "--quiet",
                    "--db",
                    str(service.config.db),
                ]
            )
            == 0
        )
        end = time.monotonic() + HANGS
        while service.post(named(["new"]), "page").status_code != 202:
            assert time.monotonic() < end, "what was forgotten is not given back"
            time.sleep(0.2)


@pytest.mark.long
def test_names_on_their_way_count_while_others_change_the_database(tmp_path: Path) -> None:
    """Each such change has the names of the database counted again; those that wait come on top."""
    over, changes = threading.Event(), list[int]()

    def change() -> None:
        while not over.is_set():
            with Monitor(tmp_path / "s.duckdb", patience=Patience(HANGS)) as monitor:
                log = tmp_path / f"{len(changes)}.jsonl"
                log.write_text(json.dumps({"user": log.name, "Screen.width": 1}) + "\n")
                monitor.ingest([log])
            changes.append(0)

    with Running(tmp_path, "page", settings="max_names = 30\nflush_seconds = 0.05\n") as service:
        changing = threading.Thread(target=change)
        changing.start()
        answers = [service.post(named([f"a{number}"]), "page") for number in range(200)]
        service.until(lambda: len(changes) > 3, "nobody changes it")
        answers += [service.post(named([f"b{number}"]), "page") for number in range(20)]
        over.set()
        changing.join()
    assert sum(answer.status_code == 202 for answer in answers) == 30


def test_several_keys_cannot_use_up_the_names_of_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of six has its share of them, though its own limit would let it bring more."""
    for module in (accounts, moving, staging):
        monkeypatch.setattr(module, "MAX_APIS", 60)
    keys = [f"p{i}" for i in range(5)]
    with Inside(tmp_path, *keys, "honest") as service:
        for key in keys:
            for part in range(4):
                sent = named([f"{key}-{part}-{i}" for i in range(4)])
                assert service.post(sent, key).status_code in {202, 403}
        fine = named(["Navigator.hardwareConcurrency", *(f"mine{i}" for i in range(10))], "h")
        assert service.post(fine, "honest").json() == {"accepted": 11, "refused": 0}
        service.settled()
        assert service.health() == "ok"
    with Monitor(tmp_path / "s.duckdb") as monitor:
        told = {row[1] for row in monitor.observations()}
    assert {"mine9", "Navigator.hardwareConcurrency"} <= told
    assert len(told) <= 61


@pytest.mark.long
@pytest.mark.parametrize("header", ["user-agent", "accept-language"])
def test_a_header_is_kept_once_for_a_request_and_a_full_key_harms_no_other(
    tmp_path: Path, header: str
) -> None:
    settings = f'headers = ["{header}"]\nmax_spool_bytes = 400_000\n{SLOW}'
    with Running(tmp_path, "page", "backend", settings=settings) as service:
        record = {"api": "a", "value": 1}
        body = "\n".join(json.dumps(record | {"user": f"{i:x}"}) for i in range(2000))

        def sent(key: str, content: str) -> int:
            headers = {header: "x" * 15_000, "content-type": "text/plain"}
            return service.request(
                "POST", "/v1/observations", key=key, content=content, headers=headers
            ).status_code

        assert sent("page", body) == 202
        size = sum(one.stat().st_size for one in service.config.spool_folder.glob("*"))
        assert size < 3 * len(body)
        statuses = [sent("page", body) for _ in range(8)]
        assert statuses[-1] == 429
        assert sent("backend", body) == 202
        assert service.health() == "ok"


# ---- Keys and sessions


def test_removed_keys_stop_at_once_and_added_ones_begin(inside: Inside) -> None:
    record = {"user": "u", "api": "A.a", "value": 1}
    client = inside.client
    login = client.post(
        f"{inside.address}/login", data={"token": inside.keys["ann"]}, follow_redirects=False
    )
    assert login.status_code == 303
    assert client.get(f"{inside.address}/dashboard/apis").status_code in {200, 503}
    keys = inside.config.keys_file
    remove_key(keys, "write", "page")
    assert inside.post(record, "page").status_code == 401
    assert inside.post(record, "backend").status_code == 202
    inside.keys["new"] = add_key(keys, "write", "new")
    assert inside.post(record, "new").status_code == 202
    remove_key(keys, "read", "ann")
    assert inside.get("/metrics", "ann").status_code == 401
    assert client.get(f"{inside.address}/dashboard/apis").status_code == 401, "the session ends"
    inside.keys["again"] = add_key(keys, "read", "ann")
    assert inside.get("/metrics", "again").status_code == 200
    assert client.get(f"{inside.address}/dashboard/apis").status_code == 401, "of another token"
    remove_key(keys, "read", "ann")
    for path in ("/metrics", "/", "/v1/gate?want=a"):
        assert inside.get(path).status_code in {401, 303}, "without any token nobody reads"


@pytest.mark.parametrize(
    "member",
    [{"digest": "é" * 64}, {"digest": ""}, {"digest": "0" * 63}, {"name": "a\nb"}, {"name": ""},
     {"name": "!page"}, {"kind": "owner"}, None],
    ids=["no hash", "empty", "short", "two lines", "no name", "of others", "kind", "damaged"],
)  # fmt: skip
def test_nobody_is_let_in_by_keys_that_no_command_wrote(
    shared: Running, member: dict[str, str] | None
) -> None:
    """Nor is anybody answered by a failure."""
    record = {"user": "u", "api": "A.a", "value": 1}
    keys = shared.config.keys_file
    whole = keys.read_text()
    other = {"kind": "read", "name": "other", "digest": "0" * 64} | (member or {})
    keys.write_text(json.dumps([*json.loads(whole), other]) if member else "damaged")
    answers = [shared.post(record, "backend"), shared.get("/metrics", "ann")]
    answers += [shared.get("/metrics"), shared.get("/", "ann")]
    assert {one.status_code for one in answers} == {401}
    keys.write_text(whole)
    assert shared.post(record, "backend").status_code == 202
    assert shared.get("/metrics", "ann").status_code == 200


def test_a_session_ends_when_its_reader_logs_out(shared: Running) -> None:
    client, address = shared.client, shared.address
    client.post(f"{address}/login", data={"token": shared.keys["ann"]}, follow_redirects=False)
    cookie = dict(client.cookies)
    assert client.get(f"{address}/dashboard/apis").status_code in {200, 503}
    assert client.post(f"{address}/logout", follow_redirects=False).status_code == 303
    assert not dict(client.cookies)
    again = shared.get(
        "/dashboard/apis", headers={"cookie": f"fpmonitor_session={cookie['fpmonitor_session']}"}
    )
    assert again.status_code == 401


@pytest.mark.parametrize("kill", [True, False])
def test_an_account_goes_on_after_a_restart_also_while_the_database_is_anothers(
    tmp_path: Path, kill: bool
) -> None:
    """Else a key sends as much as it likes, and uses up all names, by restarts of the service."""
    settings = "records_per_minute = 30\nmax_names = 20\n"
    own = [f"Own.name{number}" for number in range(20)]
    with Running(tmp_path, "page", "backend", settings=settings) as service:
        assert service.post(named(own), "page").json() == {"accepted": 20, "refused": 0}
        known = named(["Screen.width"] * 10)
        assert service.post(known, "page").status_code == 202
        assert service.post(named(["Screen.width"] * 25), "page").status_code == 429
        service.settled()
        kept = tmp_path / "s.duckdb.spool" / "accounts.json"
        service.until(lambda: kept.exists() and "rates" in kept.read_text(), "not kept")
        service.stop(kill=kill)
        command = [sys.executable, "-c", HOLD, str(tmp_path / "s.duckdb")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            service.start()
            assert service.post(named(["Other.name"]), "page").status_code in {403, 429}
            assert service.post(named(["Screen.width"] * 29), "page").status_code == 429
            assert service.post(named(["Other.name"]), "backend").status_code == 202
            holder.communicate("\n")


# ---- Another program has the database; the process that answers ends

HOLD = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print(1, flush=True)
input()
"""


@pytest.mark.long
def test_records_are_taken_before_the_database_is_free(tmp_path: Path) -> None:
    with Monitor(tmp_path / "s.duckdb", create=True):
        pass
    command = [sys.executable, "-c", HOLD, str(tmp_path / "s.duckdb")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with Running(tmp_path, "page") as service:
            for number in range(5):
                record = {"user": f"u{number}", "api": "A.a", "value": 1}
                assert service.post(record, "page").status_code == 202
            holder.communicate("\n")
            service.settled()
            assert service.health() == "ok"
    with Monitor(tmp_path / "s.duckdb") as monitor:
        assert monitor.population().users == 5


def children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(one) for one in text.split()]


@pytest.mark.parametrize("ends", [2, pytest.param(6, marks=pytest.mark.long)])
def test_the_process_that_answers_may_end_and_nothing_is_lost(running: Running, ends: int) -> None:
    rng, sent = random.Random(3), 0
    for end in range(ends):
        for below in children(running.process.pid):
            os.kill(below, signal.SIGKILL)
        for _ in range(rng.randrange(1, 20)):
            record = {"user": f"u{sent}", "api": "A.a", "value": sent}
            assert running.post(record, "backend").status_code == 202
            sent += 1
        if end % 2:  # ended while it stores, or before it begins
            running.settled()
    running.settled()
    running.until(lambda: running.health() == "ok", "its health does not settle")
    assert running.get("/v1/exposure?apis=A.a", "ann").json()["users"] == sent
    below = children(running.process.pid)
    running.stop(kill=True)
    end = time.monotonic() + HANGS
    while any(Path(f"/proc/{one}").exists() for one in below):
        assert time.monotonic() < end, "it outlives the service"
        time.sleep(0.05)
    with duckdb.connect(str(running.config.db), read_only=True) as database:
        assert database.execute("SELECT count(*) FROM observation").fetchall() == [(sent,)]


def test_equal_questions_share_an_answer_and_there_is_a_bound(shared: Running) -> None:
    users = [
        {"user": f"u{i}", "api": f"A.a{j}", "value": i % 3} for i in range(60) for j in range(8)
    ]
    assert shared.post("\n".join(map(json.dumps, users)), "backend").status_code == 202
    shared.settled()
    statuses: list[int] = []

    def ask(query: str) -> None:
        statuses.append(shared.get(f"/v1/exposure?apis={query}", "ann").status_code)

    def together(queries: list[str]) -> set[int]:
        statuses.clear()
        threads = [threading.Thread(target=ask, args=(query,)) for query in queries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return set(statuses)

    assert together(["A.a0,A.a1"] * 40) == {200}
    different = [",".join(f"A.a{j}" for j in range(8) if i >> j & 1) for i in range(1, 60)]
    assert together(different) <= {200, 429, 503}
    assert shared.post({"user": "x", "api": "A.a0", "value": 1}, "page").status_code == 202


# ---- HTTP


def answers(running: Running, sent: bytes) -> bytes:
    connection = running.connect(sent)
    connection.settimeout(5)
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except TimeoutError:
        found += b"[open]"
    return found


def assert_refused_and_closed(running: Running, path: str, version: bytes, head: bytes) -> None:
    sent = b"POST " + path.encode() + b" HTTP/" + version + b"\r\nHost: localhost\r\n" + head
    sent += b"\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    found = answers(running, sent)
    assert found.startswith(b"HTTP/1.1 400"), path
    assert found.count(b"HTTP/1.1 ") == 1, path
    assert not found.endswith(b"[open]"), path


def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(shared: Running) -> None:
    for path in ("/v1/observations", "/v1/reports", "/login", "/healthz", "/", "/nowhere"):
        for order in (0, 1):
            lengths = [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"]
            head = b"".join(reversed(lengths) if order else lengths)
            assert_refused_and_closed(shared, path, b"1.1", head)
        # A server that knows HTTP/1.0 takes the body for the next request.
        chunked = b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n"
        assert_refused_and_closed(shared, path, b"1.0", chunked)


# ---- Members that nothing reads


def test_no_address_passes_over_a_member_that_it_does_not_know(shared: Running) -> None:
    """A typo that is passed over is answered as if it were not there."""
    posts = ("/v1/observations", "/v1/reports", "/logout")
    typos = {"/v1/exposure": "api", "/v1/gate": "wants", "/v1/observations": "keys"}
    for path, known in MEMBERS.items():
        method = "POST" if path in posts else "GET"
        query = "&".join(f"{name}=A.a" for name in known)
        answer = shared.request(method, f"{path}?{query}&popluation=7", key="ann")
        assert answer.status_code == 400, path
        assert "unknown member 'popluation'" in answer.json()["error"]
        if path in typos:
            answer = shared.request(method, f"{path}?{typos[path]}=A.a", key="ann")
            assert f"nearest: {known[-1]}" in answer.json()["error"]


def test_forms_and_records_name_the_member_that_nothing_reads(shared: Running) -> None:
    """Nor do scripts: a page may add to their address what names its version."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    given = f"tokne={shared.keys['ann']}"
    answer = shared.request("POST", "/login", content=given, headers=form)
    assert (answer.status_code, answer.text) == (
        400,
        "unknown member 'tokne'; nearest: token\n",
    )
    records = [{"user": "u", "api": "A.a", "value": 1}, {"user": "u", "api": "A.a", "valeu": 1}]
    answer = shared.post(records, "page")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("unknown member of record 2 'valeu'; nearest: value")
    assert shared.get("/v1/collector.js?ver=6.1").status_code == 200


def test_nothing_that_stands_twice_is_taken(shared: Running) -> None:
    """Whoever looks at a request on its way may take the first of two, and the service the last."""
    page, other = shared.keys["page"], shared.keys["backend"]
    record = '{"user": "u", "api": "A.a", "value": 1, "visit_id": "v"}'
    assert shared.post(record.replace("1", '{"user": {"user": 1}}'), "page").status_code == 202
    for twice in (
        record.replace("{", '{"user": "v", '),
        record.replace("}", ', "us\\u0065r": "v"}'),
        record.replace("1", '{"a": 1, "a": 2}'),
        '{"user": "u", "user": "v", "components": {"x": {"value": 1, "duration": 1}}}',
    ):
        assert shared.post(twice, "page").status_code == 400, twice
    reports = {"content-type": "application/reports+json"}
    report = '{"type": "x", "type": "y"}'
    answer = shared.request("POST", "/v1/reports", key="page", content=report, headers=reports)
    assert answer.status_code == 400
    path = f"/v1/observations?key={page}&key={other}"
    assert shared.post(record, "", path).json() == {"error": "member 'key' stands twice"}
    form = {"content-type": "application/x-www-form-urlencoded"}
    given = f"token=x&token={shared.keys['ann']}"
    assert shared.request("POST", "/login", content=given, headers=form).status_code == 400
    head = f"POST /v1/observations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page}\r\n"
    head += f"Content-Type: text/plain\r\nContent-Length: {len(record)}\r\n"
    for more in (f"Authorization: Bearer {other}", "Content-Type: text/html"):
        found = answers(shared, f"{head}{more}\r\n\r\n{record}".encode())
        assert found.startswith(b"HTTP/1.1 400"), more
        assert not found.endswith(b"[open]"), more


def test_addresses_take_what_their_description_says(shared: Running) -> None:
    described = shared.get("/v1/openapi.json").json()
    for path, operations in described["paths"].items():
        [operation] = operations.values()
        named = {one["$ref"].rpartition("/")[2] for one in operation.get("parameters", ())}
        keys = {"key"} if {"key": []} in operation.get("security", ()) else set()
        assert named | keys == set(MEMBERS[path]), path
    routes = {route.path for route in service_app(ServeConfig(db=shared.folder / "x")).routes}
    assert not {one for one in routes - MEMBERS.keys() if not one.endswith((".js", ".css"))}
