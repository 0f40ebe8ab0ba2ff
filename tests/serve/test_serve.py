"""The service: what is accepted is stored once, what is wrong is refused, nothing leaks."""

from __future__ import annotations

import asyncio
import errno
import gzip
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx2 as httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from fpmonitor.cli import run
from fpmonitor.collectors.fingerprintjs import VIA
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.evidence import identity_of
from fpmonitor.decide.files import read_decision
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, StoreError
from fpmonitor.monitor import Monitor
from fpmonitor.population import stored as stored_module
from fpmonitor.population.views import View
from fpmonitor.secret_files import make_secret_file
from fpmonitor.serve import accounts
from fpmonitor.serve import lists as lists_module
from fpmonitor.serve import service as service_module
from fpmonitor.serve.app import service_app
from fpmonitor.serve.asked import ForwardedAnswer, ForwardedRequest
from fpmonitor.serve.asking import Apart, Here
from fpmonitor.serve.config import ServeConfig, read_config
from fpmonitor.serve.frames import (
    Observation,
    Observations,
    PolicyReport,
    Reports,
    frame_of,
    raw_frames,
    start_of_segment,
)
from fpmonitor.serve.keys import Key, add_key, read_keys, remove_key
from fpmonitor.serve.lists import CurrentLists
from fpmonitor.serve.moving import move_segment, names_of_keys
from fpmonitor.serve.programs import GAUGES
from fpmonitor.serve.records import observations_of, split_records, unpacked
from fpmonitor.serve.requests import RefusedRequestError
from fpmonitor.serve.spool import Spool
from fpmonitor.store.snapshot import Window
from fpmonitor.store.transforms import Transform
from fpmonitor.vocabulary import known_apis
from tests.patience import patience, wait

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fpmonitor.decide.effort import Effort
    from fpmonitor.serve.questions import Questions
    from fpmonitor.serve.service import Service

HOME = "http://localhost"
PLANTED = "planted-value-7c1f"
TEXT = {"content-type": "text/plain"}
RESULT = {"user": "u", "components": {"vendor": {"value": "v", "duration": 1}}}


def lines(users: range, value: str = "x") -> str:
    return "".join(
        json.dumps({"user": f"u{i}", "api": "Screen.width", "status": "value", "value": value})
        + "\n"
        for i in users
    )


def config_of(folder: Path, **settings: Any) -> ServeConfig:
    return ServeConfig(db=folder / "s.duckdb", flush_seconds=3600.0, **settings)


def client_of(config: ServeConfig) -> TestClient:
    return TestClient(service_app(config), base_url=HOME, raise_server_exceptions=False)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with client_of(config_of(tmp_path)) as client:
        yield client


def service_of(client: TestClient) -> Service:
    app: Any = client.app
    found: Service = app.state.service
    return found


def questions_of(client: TestClient) -> Questions:
    app: Any = client.app
    found: Questions = app.state.questions
    return found


def stored(folder: Path) -> list[tuple[str, str | None]]:
    with Monitor(folder / "s.duckdb") as monitor:
        return sorted((row[1], row[4]) for row in monitor.observations())


# ---- Records ------------------------------------------------------------------------------------


def test_accepted_records_are_in_the_database_when_the_service_ends(tmp_path: Path) -> None:
    with client_of(config_of(tmp_path)) as client:
        for body, kind in (
            (lines(range(3)), "text/plain;charset=UTF-8"),
            (lines(range(3, 5)), "application/x-ndjson"),
            (json.dumps({"user": "u9", "api": "A.a", "status": "undefined"}), "application/json"),
            (json.dumps([{"user": "u9", "api": "A.b", "value": {"b": 1, "a": [2]}}]), "text/plain"),
            (json.dumps({"user": "u9", "api": "A.c", "value": None}, indent=1), "application/json"),
        ):
            answer = client.post("/v1/observations", content=body, headers={"content-type": kind})
            assert answer.status_code == 202, answer.text
    assert stored(tmp_path) == sorted(
        [*[("Screen.width", "x")] * 5, ("A.a", None), ("A.b", '{"a":[2],"b":1}'), ("A.c", "null")]
    )
    assert list((tmp_path / "s.duckdb.spool").glob("*.frames")) == []


def test_results_of_fingerprintjs_and_reports_are_stored_by_their_collectors(
    tmp_path: Path,
) -> None:
    components = {
        "vendor": {"value": "Google Inc.", "duration": 1},
        "fonts": {"value": ["A"], "duration": 3},
        "canvas": {"error": "no", "duration": 1},
    }
    result = {"user": "f", "version": "5.0.1", "visitorId": "secret-hash", "components": components}
    report = {
        "type": "permissions-policy-violation",
        "url": "https://shop.example/cart?id=7",
        "user_agent": "ignored",
        "body": {"policyId": "geolocation", "sourceFile": "https://t.example/t.js?x=1"},
    }
    with client_of(config_of(tmp_path)) as client:
        assert client.post("/v1/observations", json=result).status_code == 202
        for _ in range(2):  # equal reports are two
            answer = client.post(
                "/v1/reports",
                content=json.dumps([report]),
                headers={"content-type": "application/reports+json"},
            )
            assert answer.status_code == 202
        assert client.post("/v1/reports", json={"url": "no type"}).status_code == 400
    assert ("HTMLCanvasElement.toDataURL#fingerprintjs.text", "no") in stored(tmp_path)
    with Monitor(tmp_path / "s.duckdb") as monitor:
        [demand] = monitor.demand()
        assert (demand.sites, demand.scripts) == (1, 1)
        assert all("secret-hash" not in str(row) for row in monitor.observations())


def test_gzip_is_unpacked_up_to_the_limit(tmp_path: Path) -> None:
    with client_of(config_of(tmp_path, max_body_bytes=5000)) as client:
        headers = TEXT | {"content-encoding": "gzip"}
        packed = gzip.compress(lines(range(3)).encode())
        assert client.post("/v1/observations", content=packed, headers=headers).status_code == 202
        bomb = gzip.compress(b" " * 10_000_000)
        assert client.post("/v1/observations", content=bomb, headers=headers).status_code == 413
        cut = client.post("/v1/observations", content=packed[:-9], headers=headers)
        assert cut.status_code == 400
        junk = client.post("/v1/observations", content=b"no gzip", headers=headers)
        assert junk.status_code == 400
        members = packed + gzip.compress(lines(range(3, 7)).encode())
        both = client.post("/v1/observations", content=members, headers=headers)
        assert both.json()["accepted"] == 7
        trailing = client.post("/v1/observations", content=packed + b"junk", headers=headers)
        assert trailing.status_code == 400
        many = client.post("/v1/observations", content=gzip.compress(b"") * 200, headers=headers)
        assert many.status_code == 413
    assert len(stored(tmp_path)) == 10


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        ("", TEXT, 400),
        ("not json", TEXT, 400),
        ("[1, 2]", TEXT, 400),
        ('{"user": "", "api": "A.a"}', TEXT, 400),
        ('{"user": "u"}', TEXT, 400),
        ('{"user": "u", "api": "A.a", "status": "maybe"}', TEXT, 400),
        ('{"user": "u", "api": "A.a", "more": 1}', TEXT, 400),
        ('{"user": "u", "api": "A.a", "value": NaN}', TEXT, 400),
        (b'{"user": "u", "api": "A.a", "value": "\xff"}', TEXT, 400),
        (json.dumps(RESULT | {"version": "9" * 101}), TEXT, 400),
        (lines(range(2)) + '{"user": "u"}\n', TEXT, 400),
        (lines(range(9)), TEXT, 413),
        ("x" * 9000, TEXT, 413),
        (lines(range(1)), {"content-type": "application/xml"}, 415),
        (lines(range(1)), TEXT | {"content-encoding": "br"}, 415),
        (lines(range(1)), TEXT | {"origin": "https://evil.example"}, 403),
    ],
)
def test_what_is_wrong_is_refused_whole(
    content: str | bytes, headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    config = config_of(tmp_path, max_records=5, max_body_bytes=8000)
    with client_of(config) as client:
        answer = client.post("/v1/observations", content=content, headers=headers)
        assert answer.status_code == status
        assert answer.json()["error"]
    assert stored(tmp_path) == []


@pytest.mark.each
@pytest.mark.parametrize(
    "record",
    [
        '\ufeff{"user": "u", "api": "A.a", "value": 1}',
        '{"user": "u", "user": "v", "api": "A.a", "value": 1}',
        '{"user": "u", "api": "A.a", "value": NaN}',
        '{"user": "u", "api": "A.a", "value": "\\ud800"}',
    ],
)
def test_a_sender_is_told_that_a_record_is_no_json_that_all_read_alike(
    record: str, tmp_path: Path
) -> None:
    with client_of(config_of(tmp_path)) as client:
        answer = client.post("/v1/observations", content=record.encode(), headers=TEXT)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("record 1 is not JSON that all programs read alike")


def test_headers_are_stored_only_where_asked_for(tmp_path: Path) -> None:
    headers = TEXT | {"user-agent": "Agent", "x-forwarded-for": "203.0.113.9"}
    for asked in ((), ("user-agent",)):
        folder = tmp_path / str(len(asked))
        folder.mkdir()
        with client_of(config_of(folder, headers=asked)) as client:
            client.post("/v1/observations", content=lines(range(2)), headers=headers)
        agents = [text for api, text in stored(folder) if api == "http:user-agent"]
        assert agents == ["Agent"] * 2 * len(asked)
        assert "203.0.113.9" not in repr(stored(folder))


def test_pages_of_configured_origins_may_send(tmp_path: Path) -> None:
    with client_of(config_of(tmp_path, origins=("https://shop.example",))) as client:
        ask = {
            "origin": "https://shop.example",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        }
        allowed = client.options("/v1/observations", headers=ask)
        assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
        other = client.options("/v1/observations", headers=ask | {"origin": "https://x.example"})
        assert "access-control-allow-origin" not in other.headers
        headers = TEXT | {"origin": "https://shop.example"}
        sent = client.post("/v1/observations", content=lines(range(1)), headers=headers)
        assert (sent.status_code, sent.headers["access-control-allow-origin"]) == (
            202,
            "https://shop.example",
        )


def test_too_much_at_once_is_put_off(tmp_path: Path) -> None:
    with client_of(config_of(tmp_path, records_per_minute=10)) as client:
        statuses = [
            client.post("/v1/observations", content=lines(range(4)), headers=TEXT) for _ in range(4)
        ]
        assert [answer.status_code for answer in statuses] == [202, 202, 429, 429]
        assert 6 <= int(statuses[-1].headers["retry-after"]) <= 12, "2 of 4 records at 10 a minute"
        client.post("/v1/observations", content=lines(range(2)), headers=TEXT)
        more = client.post("/v1/observations", content=lines(range(100)), headers=TEXT)
        assert int(more.headers["retry-after"]) <= 60, "more than a minute's records need one"
    with client_of(config_of(tmp_path, max_spool_bytes=1)) as client:
        client.post("/v1/observations", content=lines(range(4)), headers=TEXT)
        full = client.post("/v1/observations", content=lines(range(4)), headers=TEXT)
        assert full.status_code == 429
        assert client.get("/healthz").status_code == 503


@settings(deadline=None, max_examples=300)
@given(body=st.binary(max_size=200), encoding=st.sampled_from(["", "gzip", "identity", "x"]))
def test_any_body_is_split_or_refused_with_a_client_error(body: bytes, encoding: str) -> None:
    refusal = None
    try:
        records = split_records(unpacked(body, encoding, 1000), 100)
        observations_of(records, time="", source="s", headers={})
    except RefusedRequestError as error:
        refusal = error.status
    assert refusal in {None, 400, 413, 415}


# ---- Keys ---------------------------------------------------------------------------------------


def test_keys_open_what_they_are_for(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    write = add_key(config.keys_file, "write", "shop")
    read = add_key(config.keys_file, "read", "ann")
    assert (config.keys_file.stat().st_mode & 0o777) == 0o600
    assert write not in config.keys_file.read_text()
    with client_of(config) as client:
        for key, status in ((write, 202), (read, 401), ("", 401), (write[:-1], 401)):
            answer = client.post(
                f"/v1/observations?key={key}", content=lines(range(1)), headers=TEXT
            )
            assert answer.status_code == status
        bearer = {"authorization": f"Bearer {write}"}
        assert (
            client.post(
                "/v1/observations", content=lines(range(1)), headers=TEXT | bearer
            ).status_code
            == 202
        )
        for secret, status in ((read, 404), (write, 401), ("", 401)):
            answer = client.get("/v1/decision", headers={"authorization": f"Bearer {secret}"})
            assert answer.status_code == status
        for path in ("/v1/decision", "/v1/gate", "/metrics", "/"):
            answer = client.get(path, params={"key": read}, follow_redirects=False)
            assert answer.status_code == 400, path  # addresses end up in logs
    with Monitor(tmp_path / "s.duckdb") as monitor:
        assert {row[3] for row in monitor.observations()} == {"shop"}
    remove_key(config.keys_file, "write", "shop")
    assert all(key.kind != "write" for key in read_keys(config.keys_file))
    with pytest.raises(InputError, match="already"):
        add_key(config.keys_file, "read", "ann")


def test_names_are_counted_by_key_whatever_versions_it_says(tmp_path: Path) -> None:
    """Each version is a source: a sender may say as many as it sends results."""
    config = config_of(tmp_path)
    bearer = {"authorization": f"Bearer {add_key(config.keys_file, 'write', 'page')}"}
    with client_of(config) as client:
        for version in ("1", "2", "3 via backend", "4 via "):
            record = {
                "user": "u",
                "version": version,
                "components": {"own": {"value": 1, "duration": 1}},
            }
            assert client.post("/v1/observations", json=record, headers=bearer).status_code == 202
    with Monitor(config.db) as monitor:
        known = {"vocabulary": list(known_apis()), "via": VIA}
        [(key, name)] = monitor.database.rows("serve/names_of_keys", **known)
        assert names_of_keys(monitor) == {"page": {name}}
    assert key == "page"


def test_what_a_key_sent_can_be_left_out_and_forgotten_whoever_it_said_to_be(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path)
    keys = {name: add_key(config.keys_file, "write", name) for name in ("shop", "stolen")}
    for name in ("x via shop", "!shop"):  # as `--source` would mean another
        with pytest.raises(InputError, match="short word"):
            add_key(config.keys_file, "write", name)
    library = {"version": "5.0.1", "write_key_name": "shop"}
    components = {"vendor": {"value": "Google Inc.", "duration": 1}}
    with client_of(config) as client:
        for name, secret in keys.items():
            bearer = {"authorization": f"Bearer {secret}"}
            result = {"user": name, "components": components} | library
            record = {"user": name, "api": "A.a", "value": 1}
            for body in (result, record):
                answer = client.post("/v1/observations", json=body, headers=bearer)
                assert answer.status_code == 202
    sources = {"shop", "stolen", "fingerprintjs 5.0.1 via shop", "fingerprintjs 5.0.1 via stolen"}
    with Monitor(config.db) as monitor:
        assert {row[3] for row in monitor.observations()} == sources
    forget = ["db", "forget", "--db", str(config.db), "--quiet"]
    assert run([*forget, "--key", "stolen", "--user"]) == 2
    assert run([*forget, "--key", "stolen"]) == 0
    with Monitor(config.db) as monitor:
        assert monitor.population().users == 1
        assert {row[3] for row in monitor.observations()} == {s for s in sources if "shop" in s}
    assert run(["db", "verify", "--db", str(config.db)]) == 0


def test_the_days_of_a_key_are_those_of_all_that_came_by_it(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    sent = {"2026-02-01": "x 1 via shop", "2026-02-03": "shop", "2026-02-09": "x 1 via other"}
    record = {"user": "u", "api": "A.a", "value": 1}
    lines = [json.dumps(record | {"time": day, "source": name}) for day, name in sent.items()]
    log.write_text("\n".join(lines))
    assert run(["ingest", str(log), "--db", str(tmp_path / "d")]) == 0
    with Monitor(tmp_path / "d", window=Window(source="shop")) as monitor:
        assert monitor.population().days(1) == (date(2026, 2, 1), date(2026, 2, 3))


@pytest.mark.long
def test_made_up_users_of_another_key_confirm_no_guess(tmp_path: Path) -> None:
    """Nine users of a public key with a guessed value: where they count, the upper limit tells.

    Where the service leaves that key out, and in a question about another key alone, nothing does.
    """
    told: list[Any] = []
    counted: dict[str | None, list[Any]] = {None: [], "own": [], "!public": []}
    for guess in ("rare", "else"):
        folder = tmp_path / guess
        folder.mkdir()
        config = config_of(folder, source="!public")
        (folder / "log.jsonl").write_text('{"user": "of a log", "A.a": "common"}\n')
        with Monitor(config.db, create=True) as monitor:
            monitor.ingest([str(folder / "log.jsonl")])
        keys = {
            name: {"authorization": f"Bearer {add_key(config.keys_file, 'write', name)}"}
            for name in ("own", "public")
        }
        library = {"components": {"vendor": {"value": guess, "duration": 1}}}
        values = {"own": ["common"] * 80 + ["other"] * 40 + ["rare"], "public": [guess] * 9}
        with client_of(config) as client:
            for name, key in keys.items():
                users = [{"user": f"{name}{i}", "api": "A.a"} for i in range(len(values[name]))]
                records = [user | {"value": v} for user, v in zip(users, values[name], strict=True)]
                bodies = [records, {"user": f"{name}-lib"} | library]
                for body in bodies:
                    answer = client.post("/v1/observations", json=body, headers=key)
                    assert answer.status_code == 202
            asyncio.run(service_of(client).move())
            answer = client.get("/v1/exposure?apis=A.a").json()
            assert answer["users"] == 123
            told.append((answer, client.get("/dashboard/explore?api=A.a").text))
        for source, found in counted.items():
            window = Window(source=source)
            with Monitor(config.db, audience=Audience.OTHERS, window=window) as monitor:
                [report] = monitor.exposure([["A.a"]], k=10)
                found.append((report.users, report.upper))
    assert told[0] == told[1]
    assert {source for source, (one, other) in counted.items() if one != other} == {None}
    assert [users for (users, _), _ in counted.values()] == [133, 122, 123]


def test_a_decision_about_another_source_than_the_settings_is_refused(tmp_path: Path) -> None:
    config = with_decision(tmp_path)
    assert config.decision is not None
    decision = json.loads(config.decision.read_text(encoding="utf-8"))
    decision["view"]["source"] = "public"
    config.decision.write_text(json.dumps(decision), encoding="utf-8")
    with pytest.raises(InputError, match="about the source public, and `source` is !public"):
        service_app(replace(config, source="!public"))
    service_app(replace(config, source="public"))


def test_a_file_of_keys_is_on_disk_with_its_folder_before_a_key_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    really = os.fsync
    keys, secret = tmp_path / "keys.json", tmp_path / "secret"

    def noted(file: int) -> None:
        place = Path(f"/proc/self/fd/{file}").readlink()
        synced.append((str(place), keys.exists()))
        really(file)

    monkeypatch.setattr(os, "fsync", noted)
    add_key(keys, "write", "shop")
    assert synced[-1] == (str(tmp_path), True)
    remove_key(keys, "write", "shop")
    assert len([path for path, _ in synced if path == str(tmp_path)]) == 2
    make_secret_file(secret, "x")
    assert [path for path, _ in synced[-2:]] == [str(secret), str(tmp_path)]


def test_an_address_in_use_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a service that takes records of pages says before that anybody can make up users."""
    settings = tmp_path / "serve.toml"
    for db, source, is_noted in (("a", "", True), ("b", 'source = "!page"', False)):
        settings.write_text(f'db = "{db}"\norigins = ["https://shop.example"]\n{source}\n')
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert run(["collect", "serve", "--config", str(settings), "--port", str(port)]) == 2
        said = capsys.readouterr().err
        assert f"127.0.0.1:{port}: cannot listen there" in said
        assert ("make up users" in said) == is_noted


def test_answers_do_not_wait_for_the_client_to_acknowledge_their_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def serve(_server: Any, sockets: list[socket.socket]) -> None:
        with socket.create_connection(sockets[0].getsockname()):
            connection, _ = sockets[0].accept()
            with connection:
                waits.append(not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        sockets[0].close()

    monkeypatch.setattr("uvicorn.Server.run", serve)
    assert run(["collect", "serve", "--db", str(tmp_path / "s.duckdb"), "--port", "0"]) == 0
    assert waits == [False]


@pytest.mark.long
def test_a_free_port_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "fpmonitor", "collect", "serve", "--port", "0"]
    command += ["--db", str(tmp_path / "s.duckdb")]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        address = service.stderr.readline().split()[0]
        try:
            assert httpx.get(f"{address}healthz", timeout=20).status_code == 200
        finally:
            service.terminate()


def test_other_machines_need_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["collect", "serve", "--host", "0.0.0.0", "--db", str(tmp_path / "s.duckdb")]
    assert run(arguments) == 2
    assert "fpmonitor collect keys add" in capsys.readouterr().err
    with client_of(config_of(tmp_path)) as client:
        answer = client.get("/v1/decision", headers={"host": "rebound.example"})
        assert answer.status_code == 421


def test_keys_are_made_listed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = ["--db", str(tmp_path / "k.duckdb")]
    assert run(["collect", "keys", "add", "write", "shop", *db]) == 0
    secret = capsys.readouterr().out.strip()
    assert len(secret) > 40
    assert run(["collect", "keys", "list", *db]) == 0
    listed = capsys.readouterr().out
    assert json.loads(listed) == [{"kind": "write", "name": "shop"}]
    assert secret not in listed
    assert run(["collect", "keys", "remove", "write", "shop", *db]) == 0
    assert run(["collect", "keys", "remove", "write", "shop", *db]) == 2


def test_of_two_commands_that_change_keys_at_once_neither_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second to write had read the file without the key of the first, which was shown."""
    db, codes = ["--db", str(tmp_path / "k.duckdb")], list[int]()
    add = ["collect", "keys", "add", "write"]
    other = threading.Thread(target=lambda: codes.append(run([*add, "other", *db])))

    def read(path: Path) -> tuple[Key, ...]:
        found = read_keys(path)
        if other.ident is None:
            other.start()
            other.join(0.5)  # seconds that it has to end, where nothing holds it
        return found

    with monkeypatch.context() as patched:
        patched.setattr("fpmonitor.serve.keys.read_keys", read)
        codes.append(run([*add, "shop", *db]))
        other.join()
    assert codes == [0, 0]
    capsys.readouterr()
    assert run(["collect", "keys", "list", *db]) == 0
    names = {one["name"] for one in json.loads(capsys.readouterr().out)}
    assert names == {"other", "shop"}


# ---- Answers ------------------------------------------------------------------------------------


def with_decision(folder: Path, **settings: Any) -> ServeConfig:
    rows = [
        {"user": f"u{i}", "Screen.width": str(i if i < 40 else 1), "Navigator.vendor": "vw"[i % 2]}
        for i in range(200)
    ]
    log = folder / "users.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Monitor(folder / "s.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        made = monitor.decide(k=10, budget=0.05, setting="sample")
    (folder / "decision.json").write_text(json.dumps(made.to_json()))
    return config_of(folder, decision=folder / "decision.json", **settings)


@pytest.mark.parametrize("limit", [None, "1"])
def test_what_a_stopped_search_did_not_settle_is_judged_on_the_users(
    tmp_path: Path, limit: str | None
) -> None:
    config = with_decision(tmp_path, query_limit=limit)
    assert config.decision is not None
    stopped = json.loads(config.decision.read_text(encoding="utf-8"))
    stopped |= {"allow": [], "block": [], "recommended": [], "utility": 0, "complete": False}
    config.decision.write_text(json.dumps(stopped), encoding="utf-8")
    with client_of(config) as client:
        verdicts = {
            apis: client.get("/v1/gate", params={"want": apis}).json()["verdict"]
            for apis in ("Navigator.vendor", "Screen.width", "Navigator.vendor,Screen.width")
        }
        page = client.get("/dashboard/explore", params={"api": "Screen.width"}).text
    # Where exact counts are limited, a verdict is no way around the limit.
    told = ["allow", "block", "block"] if limit is None else ["unknown"] * 3
    assert list(verdicts.values()) == told
    assert f'class="verdict {told[1]}"' in page


def test_gate_decision_and_exposure_answer_as_the_commands_do(tmp_path: Path) -> None:
    with client_of(with_decision(tmp_path)) as client:
        gate = client.get("/v1/gate", params={"want": "Navigator.vendor"}).json()
        assert gate == {
            "verdict": "allow",
            "because": ["Navigator.vendor"],
            "reason": "within the allowed set Navigator.vendor",
            "users": 200,
        }
        both = client.get("/v1/gate?have=Navigator.vendor&want=Screen.width").json()
        assert both["verdict"] == "block"
        assert client.get("/v1/gate?want=Screen.depth").status_code == 404
        assert client.get("/v1/gate").status_code == 400
        assert client.get("/v1/decision").json()["policy"]["k"] == 10
        answer = client.get("/v1/exposure", params={"apis": "Screen.width"}).json()
        with Monitor(tmp_path / "s.duckdb") as monitor:
            [report] = monitor.exposure([["Screen.width"]], k=10)
        for name in ("users", "empirical", "unbiased", "lower", "upper"):
            assert answer[name] == getattr(report, name), name
        assert client.get("/v1/exposure?apis=").status_code == 400
        assert client.get("/v1/openapi.json").json()["openapi"] == "3.1.0"


def batches_of_widths() -> Iterator[list[str]]:
    """Widths of users who come in, batch by batch: some are alone, later ones are not."""
    yield ["a", "b", "c", "d"]
    yield ["1"] * 300


@pytest.mark.parametrize("limit", [None, "5"])
def test_verdicts_while_batches_come_are_those_of_a_state_that_was(
    limit: str | None, tmp_path: Path
) -> None:
    config = with_decision(tmp_path, query_limit=limit)
    assert config.decision is not None
    with Monitor(config.db) as monitor:
        made = monitor.decide(k=10, budget=0.2, setting="sample", candidates=["Screen.width"])
    assert made.allow == (("Screen.width",),)
    config.decision.write_text(json.dumps(made.to_json()), encoding="utf-8")
    widths = [str(i) if i < 40 else "1" for i in range(200)]
    verdicts, over, answers = dict[int, str](), threading.Event(), list[tuple[int, str]]()

    def note_state() -> None:  # k = 10: who shares a width with nobody is exposed
        exposed = sum(widths.count(width) < 10 for width in widths)
        verdicts[len(widths)] = "allow" if exposed <= 0.2 * len(widths) else not_allowed

    def ask() -> None:
        while not over.wait(0.02):
            answer = client.get("/v1/gate", params={"want": "Screen.width"}).json()
            answers.append((answer["users"], answer["verdict"]))

    not_allowed = "block" if limit is None else "unknown"
    widths += ["0", "1"]  # two more than were decided on
    with client_of(config) as client:
        asking = threading.Thread(target=ask)
        for number, batch in enumerate([widths[200:], *batches_of_widths()]):
            widths += batch if number else []
            note_state()
            sent = "".join(
                json.dumps({"user": f"{number}-{i}", "api": "Screen.width", "value": width}) + "\n"
                for i, width in enumerate(batch)
            )
            assert client.post("/v1/observations", content=sent, headers=TEXT).status_code == 202
            assert client.portal is not None
            client.portal.call(service_of(client).move)
            if not number:
                asking.start()
            end = time.monotonic() + patience(30)
            while (not answers or answers[-1][0] < len(widths)) and time.monotonic() < end:
                time.sleep(0.01)
        over.set()
        asking.join()
    assert [*dict.fromkeys(users for users, _ in answers)] == sorted(verdicts)
    assert {(users, verdicts[users]) for users, _ in answers} == {*answers}
    assert {*verdicts.values()} == {"allow", not_allowed}


def lists_of_now(client: TestClient) -> dict[str, Any]:
    """Ask for the lists until they are those of the users of now."""
    end = time.monotonic() + patience(30)
    while time.monotonic() < end:
        told: dict[str, Any] = client.get("/v1/decision").json()
        if told["state"]["is_now"]:
            return told
        time.sleep(0.02)
    raise TimeoutError


def test_lists_are_told_at_once_while_the_users_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(with_decision(tmp_path)) as client:
        service, may_read = questions_of(client), threading.Event()
        really = service._make_explorer
        monkeypatch.setattr(
            service, "_make_explorer", lambda monitor: may_read.wait(30) and really(monitor)
        )
        told = client.get("/v1/decision").json()
        assert (told["data"]["users"], told["allow"]) == (200, [["Navigator.vendor"]])
        assert (told["state"]["users_now"], told["state"]["is_now"]) == (None, False)
        may_read.set()
        assert lists_of_now(client)["state"]["users_now"] == 200
        may_read.clear()
        add_user(client)
        state = client.get("/v1/decision").json()["state"]
        assert (state["users"], state["users_now"], state["is_now"]) == (200, 200, False)
        may_read.set()


def test_lists_are_called_those_of_now_only_once_the_users_are_read(tmp_path: Path) -> None:
    with client_of(with_decision(tmp_path)) as client:
        add_user(client)  # nobody has asked yet: no users were read
        page = client.get("/").text
        assert "The lists at /v1/decision are as of 200 users." in page
        assert "those of now" not in page
        end = time.monotonic() + patience(30)
        while client.get("/v1/decision").json()["state"]["users_now"] != 201:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert "others have come in since" in client.get("/").text


@pytest.mark.long
def test_lists_are_searched_again_and_say_of_which_users_they_are(tmp_path: Path) -> None:
    """As a decision of now has them, and the gate answers; nothing that was blocked is freed."""
    rng, config = np.random.default_rng(3), config_of(tmp_path, max_records=8000)
    laws = {"A.a": 2, "A.b": 3, "A.c": 45, "A.d": 700}

    def records(users: range, most: int = 10**9) -> list[dict[str, str]]:
        return [
            {"user": f"u{i}", "api": api, "value": str(min(int(rng.integers(values)), most))}
            for i in users
            for api, values in laws.items()
        ]

    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in records(range(1500))))
    with Monitor(config.db, create=True) as monitor:
        monitor.ingest([str(log)])
        decision = monitor.decide(k=10, budget=0.4, population=1500)
    made = tmp_path / "decision.json"
    made.write_text(json.dumps(decision.to_json()))
    lists = [decision]
    with client_of(replace(config, decision=made)) as client:
        assert lists_of_now(client)["data"]["users"] == 1500
        # a set is not allowed any more by values of the first batch, and again by more users
        for users, batch in (
            (1900, records(range(1400, 1900), most=9)),
            (3700, records(range(1900, 3700))),
        ):
            body = "".join(json.dumps(row) + "\n" for row in batch)
            assert client.post("/v1/observations", content=body, headers=TEXT).status_code == 202
            assert client.portal is not None
            client.portal.call(service_of(client).move)
            assert not client.get("/v1/decision").json()["state"]["is_now"]
            told = lists_of_now(client)
            assert told["state"]["users"] == told["data"]["users"] == users
            lists.append(Decision.from_json(told))
            for size in range(1, 5):
                for apis in combinations(laws, size):
                    answer = client.get("/v1/gate", params={"want": ",".join(apis)}).json()
                    assert answer["verdict"] == lists[-1].verdict(apis)[0], apis
    pair = ("A.b", "A.c")
    assert [pair in one.allow for one in lists] == [True, False, True]
    assert [pair in one.undecided for one in lists] == [False, True, False]
    assert all(one.complete and {*one.block} >= {*decision.block} for one in lists)


def test_a_search_of_lists_ends_with_the_service_and_leaves_them_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, begun = with_decision(tmp_path), threading.Event()

    def search(decision: Decision, *_: object, effort: Effort, **__: object) -> Decision:
        begun.set()
        while not effort.stopped:
            time.sleep(0.01)
        return replace(decision, allow=())

    monkeypatch.setattr(lists_module, "refreshed", search)
    monkeypatch.setattr(lists_module, "can_refresh", lambda _: True)
    with client_of(config) as client:
        lists = lists_of_now(client)
        assert "as of 200 users; these are the current ones" in client.get("/").text
        add_user(client)
        client.get("/v1/decision")
        assert begun.wait(30)
        told = client.get("/v1/decision").json()
        assert (told["state"]["is_now"], told["data"]["users"]) == (False, 200)
        assert told["state"]["users_now"] == 201
        assert told["allow"] == lists["allow"]
        assert "others have come in since" in client.get("/dashboard/live").text
        service = questions_of(client)
    assert service.lists is not None
    assert [*map(list, service.lists.decision.allow)] == lists["allow"]


def test_lists_that_are_not_made_in_time_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = with_decision(tmp_path)
    monkeypatch.setattr(lists_module, "_SECONDS", 0.0)
    monkeypatch.setattr(lists_module, "can_refresh", lambda _: True)
    caplog.set_level("INFO", "fpmonitor.serve")
    with client_of(config) as client:
        lists_of_now(client)
        add_user(client)
        end = time.monotonic() + patience(30)
        while "not made within" not in caplog.text and time.monotonic() < end:
            assert not client.get("/v1/decision").json()["state"]["is_now"]
            time.sleep(0.02)
    assert '"event": "lists", "reason": "the lists were not made within 0 s"' in caplog.text


@pytest.mark.long
def test_lists_of_a_stopped_search_are_judged_again(tmp_path: Path) -> None:
    config = with_decision(tmp_path)
    assert config.decision is not None
    with Monitor(config.db) as monitor:
        made = monitor.decide(k=10, budget=0.5, population=200)
    stopped = made.to_json() | {"complete": False, "undecided": [], "block": []}
    stopped |= {"allow": [["Navigator.vendor"]], "recommended": ["Navigator.vendor"], "utility": 1}
    config.decision.write_text(json.dumps(stopped))
    with client_of(config) as client:
        assert lists_of_now(client)["allow"] == [["Navigator.vendor"]]
        alone = [{"user": f"v{i}", "api": "Navigator.vendor", "value": str(i)} for i in range(400)]
        assert client.post("/v1/observations", json=alone).status_code == 202
        assert client.portal is not None
        client.portal.call(service_of(client).move)
        told = lists_of_now(client)
        assert (told["data"]["users"], told["allow"]) == (600, [["Screen.width"]])
        assert (told["complete"], told["recommended"]) == (False, [])
        assert ["Navigator.vendor"] in told["block"] + told["undecided"]


def test_lists_that_are_not_made_again_say_that_others_have_come_in(tmp_path: Path) -> None:
    with client_of(with_decision(tmp_path, query_limit="100")) as client:
        assert lists_of_now(client)["state"]["users_now"] == 200
        add_user(client)
        client.get("/v1/exposure?apis=Screen.width")
        told = client.get("/v1/decision").json()["state"]
        assert (told["users"], told["users_now"], told["is_now"]) == (200, 201, False)
        assert "others have come in since" in client.get("/dashboard/live").text


def test_lists_are_those_of_now_only_where_nobody_has_come_in_meanwhile(tmp_path: Path) -> None:
    path = with_decision(tmp_path).decision
    assert path is not None
    before = read_decision(path)
    lists = CurrentLists(before, lambda _: None)
    lists.see("others", 1.0)
    lists.see("more", 2.0)
    lists._take(replace(before, digest="others"))
    assert not lists.state(202, is_read=True)["is_now"]
    lists._take(replace(before, digest="more"))
    assert lists.state(202, is_read=True)["is_now"]


def test_a_decision_confirmed_on_some_users_answers_when_others_have_come_in(
    tmp_path: Path,
) -> None:
    config = with_decision(tmp_path)
    with Monitor(config.db) as monitor:
        made = monitor.decide(k=10, budget=0.5, search_users=100)
    assert config.decision is not None
    config.decision.write_text(json.dumps(made.to_json()))
    with client_of(config) as client:
        for users in (200, 201):
            told = client.get("/v1/gate", params={"want": "Navigator.vendor"})
            assert (told.status_code, told.json().get("users")) == (200, 200)
            assert client.get("/v1/exposure?apis=Screen.width").json()["users"] == users
            add_user(client)
            client.get("/v1/exposure?apis=Screen.width")
            assert client.portal is not None
            client.portal.call(partial(questions_of(client).explorer, of_now=True))


def test_a_verdict_is_by_the_tests_for_its_users_while_other_threads_make_others(
    tmp_path: Path,
) -> None:
    with client_of(with_decision(tmp_path)) as client:
        service = questions_of(client)
        decision: Any = service.decision

        class Held:
            """Users who come in while it is looked how many there are."""

            seal = "of other users"

            def __init__(self, users: int, then: Held | None = None) -> None:
                self.held, self.then = users, then

            @property
            def users(self) -> int:
                if self.then is not None:
                    service._judge_of(decision, cast("Any", self.then))
                return self.held

        def most_exposed(held: Held) -> float:
            return float(service._judge_of(decision, cast("Any", held)).allow.limits[1])

        assert most_exposed(Held(200)) == 10
        assert most_exposed(Held(200, then=Held(100_000))) == 10


def test_the_file_answers_as_long_as_there_are_no_users_to_judge_on(tmp_path: Path) -> None:
    config = replace(with_decision(tmp_path), db=tmp_path / "new.duckdb")
    with client_of(config) as client:
        for users, judged_on in ((0, 200), (1, 200), (30, 30)):
            # a stranger's log: none of it is a candidate
            record = [{"user": f"s{i}", "api": "strange", "value": "1"} for i in range(users)]
            assert not users or client.post("/v1/observations", json=record).status_code == 202
            assert client.portal is not None
            client.portal.call(service_of(client).move)
            answer = client.get("/v1/gate", params={"want": "Navigator.vendor"}).json()
            verdict = "allow" if judged_on == 200 else "unknown"
            assert (answer["users"], answer["verdict"]) == (judged_on, verdict)
            assert client.get("/v1/gate", params={"want": "strange"}).status_code == 404
        assert answer["reason"] == "30 users, and no log holds any of the candidates"


def test_a_coarsened_candidate_that_no_log_holds_counts_as_one_value(tmp_path: Path) -> None:
    config = with_decision(tmp_path)
    assert config.decision is not None
    view = View(transforms={"Screen.width": Transform(constant="1")})
    with Monitor(config.db, view=view) as monitor:
        made = monitor.decide(k=10, budget=0.05, setting="sample")
    config.decision.write_text(json.dumps(made.to_json()))
    with client_of(replace(config, db=tmp_path / "new.duckdb")) as client:
        record = [{"user": f"s{i}", "api": "Navigator.vendor", "value": "1"} for i in range(200)]
        assert client.post("/v1/observations", json=record).status_code == 202
        assert client.portal is not None
        client.portal.call(service_of(client).move)
        answer = client.get("/v1/gate?want=Navigator.vendor,Screen.width").json()
        assert (answer["users"], answer["verdict"]) == (200, "allow")


def test_candidates_that_no_log_holds_take_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_decision(tmp_path)
    assert config.decision is not None
    decided = json.loads(config.decision.read_text())
    decided["policy"]["candidates"] += [f"Vanished.a{i}" for i in range(3)]
    del decided["scope"], decided["made"]  # as files of before, which do not settle all sets
    config.decision.write_text(json.dumps(decided))
    monkeypatch.setattr(stored_module, "has_room_for", lambda _, apis: apis <= 2)
    with client_of(config) as client:
        add_user(client)
        answer = client.get("/v1/gate?want=Vanished.a1").json()
        assert (answer["users"], answer["verdict"]) == (201, "allow")


def test_verdicts_on_users_of_now_see_them_as_the_decision_did(tmp_path: Path) -> None:
    config = with_decision(tmp_path)
    assert config.decision is not None
    view = View(transforms={"Screen.width": Transform(constant="1")})
    with Monitor(config.db, view=view) as monitor:
        made = monitor.decide(k=10, budget=0.05, setting="sample")
    assert made.allow == (("Navigator.vendor", "Screen.width"),)
    config.decision.write_text(json.dumps(made.to_json()))
    with client_of(config) as client:
        assert "decide again" not in client.get("/").text
        add_user(client)
        end, answer = time.monotonic() + patience(30), {"users": 0}
        while answer["users"] != 201 and time.monotonic() < end:
            answer = client.get("/v1/gate", params={"want": "Screen.width"}).json()
        assert (answer["users"], answer["verdict"]) == (201, "allow")
        assert 'class="verdict allow"' in client.get("/dashboard/explore?api=Screen.width").text


def add_user(client: TestClient) -> None:
    record = {"user": "new", "api": "Screen.width", "value": "1"}
    assert client.post("/v1/observations", json=record).status_code == 202
    assert client.portal is not None
    client.portal.call(service_of(client).move)


def users_answered(client: TestClient) -> int:
    return int(client.get("/v1/exposure?apis=Screen.width").json()["users"])


def test_users_of_before_answer_until_all_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_decision(tmp_path)
    with client_of(config) as client:
        before = users_answered(client)
        add_user(client)
        service, may_read = questions_of(client), threading.Event()
        really = service._make_explorer

        def slowly(monitor: Monitor) -> Any:
            may_read.wait(30)
            return really(monitor)

        monkeypatch.setattr(service, "_make_explorer", slowly)
        assert users_answered(client) == before  # at once, not after 30 seconds
        may_read.set()
        end = time.monotonic() + patience(30)
        while users_answered(client) == before and time.monotonic() < end:
            time.sleep(0.02)
        assert users_answered(client) == before + 1


def test_a_forgotten_user_is_in_no_answer_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_decision(tmp_path)
    with client_of(config) as client:
        for number in (199, 198):
            before = client.get("/dashboard/explore?api=Screen.width").text
            assert f"<dd>{number + 1}</dd>" in client.get("/").text
            assert users_answered(client) == number + 1
            monkeypatch.setenv("FPMONITOR_FORGET_USER", f"u{number}")
            assert run(["db", "forget", "--user", "--quiet", "--db", str(config.db)]) == 0
            assert client.get("/dashboard/explore?api=Screen.width").text != before
            assert f"<dd>{number}</dd>" in client.get("/").text
            assert users_answered(client) == number


@pytest.mark.long
def test_users_who_are_followed_are_those_of_the_file_whatever_others_did_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgotten values leave their numbers to others; a log may tell of times before the others."""
    config, apis = with_decision(tmp_path), ["Navigator.vendor", "Screen.width"]
    late = tmp_path / "late.csv"
    late.write_text("user,time,Screen.width\nu3,2020-01-01,7\nnew,2020-01-01,7\nnobody,,8\n")

    def do(*arguments: str) -> None:
        assert run([*arguments, "--quiet", "--db", str(config.db)]) == 0

    def forget(user: str) -> None:
        monkeypatch.setenv("FPMONITOR_FORGET_USER", user)
        do("db", "forget", "--user")

    with client_of(config) as client:

        def send(user: str, width: str) -> None:
            record = {"user": user, "api": "Screen.width", "value": width}
            assert client.post("/v1/observations", json=record).status_code == 202
            assert client.portal is not None
            client.portal.call(service_of(client).move)

        for step in (
            partial(send, "new", "another"),
            partial(send, "u5", "a third"),
            partial(forget, "u5"),
            partial(send, "u6", "a fourth"),  # has the number of the third
            partial(do, "ingest", str(late)),
            partial(send, "u7", "7"),
        ):
            step()
            assert client.portal is not None
            explorer = client.portal.call(partial(questions_of(client).explorer, of_now=True))
            copy = shutil.copy(config.db, tmp_path / "copy.duckdb")  # a look at it is a change
            with Monitor(copy) as monitor:
                users = monitor.population()
                assert explorer.seal == users.seal
                [found], expected = explorer.sample.source.spectra([apis]), users.spectrum(apis)
                assert found.groups() == expected.groups(), step


@pytest.mark.parametrize("limit", [None, "5"])
def test_users_of_long_ago_and_counts_that_are_limited_wait_for_those_of_now(
    limit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_decision(tmp_path, query_limit=limit)
    with client_of(config) as client:
        before = users_answered(client)
        add_user(client)
        if limit is None:
            monkeypatch.setattr("fpmonitor.serve.questions._STALE_SECONDS", 0.0)
        assert users_answered(client) == before + 1


def test_a_database_in_use_is_told_without_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_use(monitor: Monitor) -> Any:
        del monitor
        raise StoreError(f"{tmp_path} is in use by another process")

    with client_of(with_decision(tmp_path)) as client:
        monkeypatch.setattr(questions_of(client), "_make_explorer", in_use)
        answer = client.get("/v1/exposure?apis=Screen.width")
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert str(tmp_path) not in answer.text


def test_a_spool_that_cannot_be_moved_now_is_moved_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config_of(tmp_path), flush_seconds=0.02)
    with client_of(config) as client:
        service = service_of(client)
        really = service.spool.close_segments
        failed: list[bool] = []

        async def fails_once() -> Any:
            if not failed:
                failed.append(True)
                raise OSError
            return await really()

        monkeypatch.setattr(service.spool, "close_segments", fails_once)
        client.post("/v1/observations", content=lines(range(2)), headers=TEXT)
        end = time.monotonic() + patience(30)
        while service.spool.waiting_bytes and time.monotonic() < end:
            time.sleep(0.02)
        assert failed
        assert service.spool.waiting_bytes == 0


def test_scrapes_at_once_are_one_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever may read has the threads that store records count for scrapes alone."""
    asked = list[str]()

    async def slow(_: Here, question: ForwardedRequest) -> ForwardedAnswer:
        asked.append(question.path)
        await asyncio.sleep(0.2)
        return ForwardedAnswer(200, [], b"")

    async def scrape() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=service_app(config_of(tmp_path)))
        async with httpx.AsyncClient(transport=transport, base_url=HOME) as client:
            return await asyncio.gather(*(client.get("/metrics") for _ in range(100)))

    monkeypatch.setattr(Here, "respond", slow)
    assert {answer.status_code for answer in asyncio.run(scrape())} == {200}
    assert asked == [GAUGES]


def test_below_k_users_no_exposure_is_answered(client: TestClient) -> None:
    assert client.get("/v1/exposure?apis=Screen.width").status_code == 503


def test_a_reader_may_have_so_many_counts(tmp_path: Path) -> None:
    with client_of(with_decision(tmp_path, query_limit="1")) as client:
        assert client.get("/v1/exposure?apis=Screen.width").status_code == 200
        assert client.get("/v1/exposure?apis=Screen.width").status_code == 200
        assert client.get("/v1/exposure?apis=Navigator.vendor").status_code == 403


def test_counts_of_the_dashboard_and_of_the_address_are_those_of_one_reader(tmp_path: Path) -> None:
    config = with_decision(tmp_path, query_limit="1")
    token = add_key(config.keys_file, "read", "ann")
    bearer = {"authorization": f"Bearer {token}"}
    other = {"authorization": f"Bearer {add_key(config.keys_file, 'read', 'bob')}"}
    with client_of(config) as client:
        assert client.get("/v1/exposure?apis=Screen.width", headers=bearer).status_code == 200
        assert client.post("/login", data={"token": token}).status_code == 200
        used_up = "1 of 1 exact counts were answered"
        page = client.get("/?api=Navigator.vendor")
        assert page.status_code == 200
        assert used_up in page.text
        assert "nobody is exposed" not in page.text
        for api, status in (("Screen.width", 200), ("Navigator.vendor", 403)):
            answer = client.get("/dashboard/explore", params={"api": api})
            assert (answer.status_code, used_up in answer.text) == (status, status == 403)
        client.cookies.clear()
        explored = client.get("/dashboard/explore?api=Navigator.vendor", headers=other)
        assert explored.status_code == 200
        refused = client.get("/v1/exposure?apis=Screen.width", headers=other)
        assert refused.status_code == 403


def test_metrics_name_routes_and_nothing_else(tmp_path: Path) -> None:
    with client_of(with_decision(tmp_path)) as client:
        counted = 'fpmonitor_accepted_records_total{kind="observations"} '
        client.post("/v1/observations", content=lines(range(99), PLANTED), headers=TEXT)
        assert f"{counted}0.0" in client.get("/metrics").text, "a sender more is told to nobody"
        client.post("/v1/observations", content=lines(range(7), PLANTED), headers=TEXT)
        client.get(f"/v1/exposure?apis={PLANTED}")
        client.get(f"/{PLANTED}")
        text = client.get("/metrics").text
    assert f"{counted}100.0" in text
    assert 'route="other"' in text
    assert PLANTED not in text


@pytest.mark.parametrize("apart", [False, True])
def test_metrics_tell_the_exposure_of_the_set_that_is_deployed(apart: bool, tmp_path: Path) -> None:
    """Also while another program has the database: then what is known of senders alone."""
    config = with_decision(tmp_path)
    decision = read_decision(config.decision)
    with TestClient(service_app(config, apart=apart), base_url=HOME) as client:
        # A process of its own may take its time to begin, and users to be read for the first time.
        told = wait(lambda: [t for t in [client.get("/metrics").text] if "set_exposure" in t], 60)
        [text] = told
        told = client.get(f"/v1/exposure?apis={','.join(decision.recommended)}").json()
        found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] != "#")
        name = f'decision="{identity_of(decision)[:16]}",set="{" + ".join(decision.recommended)}"'
        for side in ("lower", "upper"):
            exposure = float(found[f"fpmonitor_set_exposure_{side}{{{name}}}"])
            assert exposure == pytest.approx(told[side])
        assert float(found[f"fpmonitor_set_within_budget{{{name}}}"]) == 1
        assert f"{decision.policy.budget!r}" in text.split("fpmonitor_exposure_budget{")[1]
    with (
        TestClient(service_app(config, apart=apart), base_url=HOME) as client,
        Monitor(config.db),
    ):
        text = client.get("/metrics").text
        assert "fpmonitor_accepted_records" in text
        assert not (apart and "fpmonitor_set_exposure" in text)


def test_values_and_keys_are_in_no_answer_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = with_decision(tmp_path)
    key = add_key(config.keys_file, "write", "shop")
    caplog.set_level("INFO")
    answers = []
    with client_of(config) as client:
        for body in (lines(range(3), PLANTED), f'{{"user": "{PLANTED}"}}', PLANTED, "[" * 5000):
            path = f"/v1/observations?key={key}"
            answers.append(client.post(path, content=body, headers=TEXT))
        for path in ("/", "/v1/decision", "/v1/exposure?apis=Screen.width", "/dashboard/apis"):
            answers.append(client.get(path))
    logged = [record.getMessage() for record in caplog.records if "fpmonitor" in record.name]
    assert len(logged) > 3
    text = "".join([*logged, *(answer.text + str(answer.headers) for answer in answers)])
    assert all(answer.status_code < 500 for answer in answers)
    assert PLANTED not in text
    assert key not in text


# ---- Durability ---------------------------------------------------------------------------------


def frame_of_three() -> bytes:
    records = [Observation(f"u{i}", "Screen.width", "value", '"x"') for i in range(3)]
    return frame_of(Observations("local", "2026-01-01T00:00:00.000000Z", records))


def test_a_torn_frame_is_cut_and_whole_ones_are_stored(tmp_path: Path) -> None:
    folder = tmp_path / "s.duckdb.spool"
    folder.mkdir()
    torn = folder / "open.observations.frames"
    torn.write_bytes(start_of_segment() + frame_of_three() + frame_of_three()[:25])
    with client_of(config_of(tmp_path)):
        pass
    assert len(stored(tmp_path)) == 3


def test_a_segment_that_was_stored_before_a_crash_adds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "s.duckdb.spool"
    folder.mkdir()
    segment = folder / "00000000000000000001-aa.observations.frames"
    segment.write_bytes(start_of_segment() + frame_of_three())
    with Monitor(tmp_path / "s.duckdb", create=True) as monitor:
        move_segment(monitor, segment, folder)
    with client_of(config_of(tmp_path)):
        pass
    assert len(stored(tmp_path)) == 3
    assert not segment.exists()


def test_what_a_start_finds_and_cannot_read_is_kept(tmp_path: Path) -> None:
    """A damaged frame before whole ones ended the start; lines of older segments lay unread."""
    folder = tmp_path / "s.duckdb.spool"
    folder.mkdir()
    whole, damaged = frame_of_three(), frame_of_three()[:-1] + b"?"
    (folder / "open.observations.frames").write_bytes(start_of_segment() + whole + damaged + whole)
    (folder / "open.observations.jsonl").write_text(lines(range(2)), encoding="utf-8")
    with client_of(config_of(tmp_path)) as client:
        assert client.get("/healthz").json()["status"] == "refused"
    assert len(stored(tmp_path)) == 3
    kept = {one.suffix: one.read_bytes() for one in (folder / "refused").iterdir()}
    assert kept == {".damaged": damaged + whole, ".jsonl": lines(range(2)).encode()}


def test_a_damaged_segment_that_the_database_refuses_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped all that came after it: its halves could not be made."""
    config = config_of(tmp_path)
    with client_of(config) as client:
        for user in range(3):
            sent = lines(range(user, user + 1))
            assert client.post("/v1/observations", content=sent, headers=TEXT).status_code == 202
        asyncio.run(service_of(client).spool.write_waiting())
        [segment] = asyncio.run(service_of(client).spool.close_segments())
        segment.write_bytes(segment.read_bytes()[:-1])

        def refuse(*_: Any, **__: Any) -> None:
            raise InputError("refused")

        with monkeypatch.context() as patch:
            patch.setattr("fpmonitor.serve.moving.ingest_log", refuse)
            asyncio.run(service_of(client).move())
        assert client.get("/healthz").json()["status"] == "failing", "acknowledged bytes are gone"
        client.post("/v1/observations", content=lines(range(5, 7)), headers=TEXT)
    assert len(stored(tmp_path)) == 2
    refused = sorted((tmp_path / "s.duckdb.spool" / "refused").iterdir())
    records = "".join(one.read_text() for one in refused if one.suffix == ".jsonl").splitlines()
    assert [json.loads(record)["user"] for record in records] == ["u0", "u1"]
    assert sum(one.suffix == ".damaged" for one in refused) == 1


def test_who_asks_a_process_that_ends_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also who asks once its answers are read no more, while it is waited for."""
    below = tmp_path / "below"
    below.write_text("#!/bin/sh\nprintf '\\001\\000\\000\\000\\301'\nexec sleep 60\n")  # no message
    below.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(below))
    monkeypatch.setattr("fpmonitor.serve.asking._GRACE", 1.0)

    async def asked() -> None:
        apart = Apart(config_of(tmp_path), None)
        waiting = []
        for _ in range(8):
            waiting.append(asyncio.create_task(apart.look()))
            await asyncio.sleep(0.1)
        found = await asyncio.wait_for(
            asyncio.gather(*waiting, return_exceptions=True), patience(30)
        )
        assert all(isinstance(one, StoreError) for one in found), found

    asyncio.run(asked())


def test_requests_that_wait_together_share_one_write(tmp_path: Path) -> None:
    async def together() -> int:
        spool = Spool(tmp_path / "spool")
        sent = Reports("s", "now", [PolicyReport("a.example", "b.example/s.js", "A.a")])
        waiting = [asyncio.create_task(spool.append("s", [sent])) for _ in range(50)]
        await asyncio.sleep(0)
        writes = 0
        real = spool._write

        def counted(group: list[Any]) -> None:
            nonlocal writes
            writes += 1
            real(group)

        spool._write = counted  # type: ignore[method-assign]
        await spool.write_waiting()
        await asyncio.gather(*waiting)
        return writes

    assert asyncio.run(together()) == 1
    assert len(list(raw_frames(tmp_path / "spool" / "open.reports.frames"))) == 50


SERVER = """
import sys, threading, time, uvicorn
from pathlib import Path
from fpmonitor.serve.app import service_app
from fpmonitor.serve.asked import ForwardedAnswer, ForwardedRequest
from fpmonitor.serve.asking import Here
from fpmonitor.serve.config import read_config

app = service_app(read_config(Path(sys.argv[1])))
server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))

def tell_port():
    while not server.started:
        time.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)

threading.Thread(target=tell_port, daemon=True).start()
server.run()
"""


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    settings = folder / "serve.toml"
    settings.write_text('db = "s.duckdb"\nflush_seconds = 0.2\n')
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", SERVER, str(settings)],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, f"http://localhost:{process.stdout.readline().strip()}"


def stop(process: subprocess.Popen[str], how: signal.Signals) -> None:
    process.send_signal(how)
    process.communicate(timeout=60)


@pytest.mark.long
def test_nothing_that_was_acknowledged_is_lost_or_doubled_by_kill_9(tmp_path: Path) -> None:
    rng = random.Random(8)
    acknowledged: set[str] = set()
    number = 0
    for _ in range(2):
        process, address = start(tmp_path)
        with httpx.Client(base_url=address) as client:
            for _ in range(rng.randrange(20, 300)):
                number += 1
                body = {"user": f"u{number}", "api": "A.a", "value": str(number)}
                if client.post("/v1/observations", json=body).status_code == 202:
                    acknowledged.add(str(number))
        stop(process, signal.SIGKILL)
    process, _ = start(tmp_path)
    stop(process, signal.SIGTERM)
    values = [text for _, text in stored(tmp_path)]
    assert len(values) == len(set(values)), "doubled"
    assert acknowledged <= set(values), "lost"
    assert len(acknowledged) > 20


@pytest.mark.long
def test_two_services_cannot_share_a_spool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process, address = start(tmp_path)
    try:
        for number in range(20):
            body = {"user": f"u{number}", "api": "A.a", "value": str(number)}
            assert httpx.post(f"{address}/v1/observations", json=body).status_code == 202
        assert run(["collect", "serve", "--db", str(tmp_path / "s.duckdb"), "--port", "0"]) == 2
        assert "in use by another service" in capsys.readouterr().err
        for number in range(20, 40):
            body = {"user": f"u{number}", "api": "A.a", "value": str(number)}
            assert httpx.post(f"{address}/v1/observations", json=body).status_code == 202
    finally:
        stop(process, signal.SIGTERM)
    assert sorted(int(text or "") for _, text in stored(tmp_path)) == list(range(40))


def of_names(user: str, names: Iterable[str]) -> str:
    records = ({"user": user, "api": name, "value": "1"} for name in names)
    return "".join(json.dumps(record) + "\n" for record in records)


def test_a_sender_of_many_names_costs_nobody_else_a_record(tmp_path: Path) -> None:
    """One key floods; of what was acknowledged for others, nothing is lost."""
    with client_of(config_of(tmp_path, max_names=50)) as client:
        for part in range(0, 6000, 1500):
            flood = of_names("evil", (f"J.j{i}" for i in range(part, part + 1500)))
            answer = client.post("/v1/observations", content=flood, headers=TEXT)
            expected = (202, 50) if part == 0 else (403, None)
            assert (answer.status_code, answer.json().get("accepted")) == expected
        known = client.post("/v1/observations", content=of_names("u", ["J.j1"]), headers=TEXT)
        assert known.json() == {"accepted": 1, "refused": 0}
        components = {f"c{i}": {"value": i, "duration": 1} for i in range(51)}
        result = {"user": "evil", "components": components}
        assert client.post("/v1/observations", json=result).status_code == 403
    assert len(stored(tmp_path)) == 51
    assert not (tmp_path / "s.duckdb.spool" / "refused").exists()


def test_names_of_a_request_that_is_put_off_cost_its_key_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lambda: 1e9)
    monkeypatch.setattr(accounts, "time", clock)
    config = replace(config_of(tmp_path, max_names=5, records_per_minute=10), flush_seconds=3600)
    with client_of(config) as client:

        def send(names: Iterable[str]) -> tuple[int, dict[str, int]]:
            answer = client.post("/v1/observations", content=of_names("u", names), headers=TEXT)
            return answer.status_code, answer.json()

        assert send(["Screen.width"] * 10)[0] == 202
        assert send(f"Put.off{i}" for i in range(5))[0] == 429
        clock.time = lambda: 1e9 + 60
        assert send(f"J.j{i}" for i in range(6)) == (202, {"accepted": 5, "refused": 1})


def test_a_record_that_cannot_be_stored_leaves_the_others_of_its_segment(tmp_path: Path) -> None:
    """The command line stores names between the answer of the service and its next batch."""
    log = tmp_path / "names.jsonl"
    log.write_text(of_names("cli", (f"J.j{i}" for i in range(3998))))
    config = config_of(tmp_path)
    with client_of(config) as client:
        sent = (
            lines(range(30))
            + of_names("x", ["Late.0", "Late.00", "Late.a", "Late.b"])
            + lines(range(30, 60))
        )
        assert client.post("/v1/observations", content=sent, headers=TEXT).json()["accepted"] == 64
        with Monitor(config.db) as monitor:
            monitor.ingest([log])
        asyncio.run(service_of(client).move())
        health = client.get("/healthz")
        assert (health.status_code, health.json()["status"]) == (200, "refused")
        kept = [path.read_text() for path in (tmp_path / "s.duckdb.spool/refused").iterdir()]
        assert [json.loads(line)["api"] for line in "".join(kept).splitlines()] == [
            "Late.a",
            "Late.b",
        ]
        assert health.json()["refused_bytes"] == 1_000_000, "rounded up"
        again = client.post("/v1/observations", content=of_names("x", ["Late.c"]), headers=TEXT)
        assert again.status_code == 202, "what the database holds is told to nobody who sends"
        assert client.get("/metrics").text.count("fpmonitor_refused_bytes") >= 1
    found = [name for name, _ in stored(tmp_path)]
    assert (found.count("Screen.width"), len(found)) == (60, 60 + 4000)


def test_a_temporary_folder_that_is_gone_loses_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {"user": "f", "components": {"fonts": {"value": ["A"], "duration": 1}}}
    with client_of(config_of(tmp_path)) as client:
        assert client.post("/v1/observations", json=result).status_code == 202
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
        asyncio.run(service_of(client).move())
        assert client.get("/healthz").json()["status"] == "waiting"
        monkeypatch.undo()
        asyncio.run(service_of(client).move())
        assert client.get("/healthz").json()["status"] == "ok"
    assert len(stored(tmp_path)) == 1


@pytest.mark.long
def test_health_is_not_ok_while_records_cannot_reach_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path)
    with client_of(config) as client:

        def health() -> str:
            client.post("/v1/observations", content=lines(range(1)), headers=TEXT)
            asyncio.run(service_of(client).move())
            answer = client.get("/healthz").json()
            assert (answer["status"] == "ok") == (answer["waiting_bytes"] == 0)
            return str(answer["status"])

        assert health() == "ok"
        whole = config.db.read_bytes()
        for broken in (b"", b"no database at all", whole[:4096], whole[: len(whole) // 2]):
            config.db.write_bytes(broken)
            assert health() == "waiting", len(broken)
        config.db.unlink()
        assert health() == "waiting"
        config.db.write_bytes(whole)
        assert health() == "ok"

        def moved() -> str:
            """How the service says it is after it has moved what waits, if anything does."""
            asyncio.run(service_of(client).move())
            return str(client.get("/healthz").json()["status"])

        config.db.rename(tmp_path / "elsewhere")
        assert moved() == "waiting", "nothing waits, and what comes could not be stored"
        (tmp_path / "elsewhere").rename(config.db)
        assert moved() == "ok"

        def read_only(path: Path, target: Path) -> Path:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path, target)

        client.post("/v1/observations", content=lines(range(1, 2)), headers=TEXT)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", read_only)
            assert [moved(), moved()] == ["waiting", "waiting"]
        assert moved() == "ok", "nobody has sent anything"
        assert client.get("/healthz").json()["waiting_bytes"] == 0
    assert len(stored(tmp_path)) == 8, "all that was sent"


def test_health_is_not_ok_when_nobody_moves_records_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_LATE_SECONDS", 0.2)
    config = replace(config_of(tmp_path), flush_seconds=0.05)
    with client_of(config) as client:
        service = service_of(client)

        def becomes(status: str) -> bool:
            end = time.monotonic() + patience(20)
            while time.monotonic() < end:
                if client.get("/healthz").json()["status"] == status:
                    return True
                time.sleep(0.02)
            return False

        with questions_of(client)._lock:  # a question that does not end
            client.post("/v1/observations", content=lines(range(1)), headers=TEXT)
            assert becomes("waiting")
        assert becomes("ok")
        assert client.portal is not None
        for task in service.tasks[::-1]:
            client.portal.call(task.cancel)
            assert becomes("failing")
    assert len(stored(tmp_path)) == 1


def test_a_spool_that_is_taken_away_takes_no_records_and_is_not_ok(tmp_path: Path) -> None:
    """What is written to a file without a name would be acknowledged, and be gone."""
    config = with_decision(tmp_path)
    for taken in (config.spool_folder / "open.observations.frames", config.spool_folder):
        with client_of(config) as client:
            sent = client.post("/v1/observations", content=lines(range(1)), headers=TEXT)
            assert sent.status_code == 202
            (shutil.rmtree if taken.is_dir() else os.unlink)(taken)
            sent = client.post("/v1/observations", content=lines(range(1)), headers=TEXT)
            assert sent.status_code == 503, taken
            asyncio.run(service_of(client).move())
            health = client.get("/healthz")
            assert (health.status_code, health.json()["status"]) == (503, "failing")
            assert client.get("/").status_code == 200, "the history of readings is in the folder"
    with client_of(config) as client:
        assert client.get("/healthz").json()["status"] == "ok", "it has a new folder"


def test_health_says_that_the_disk_fails_until_it_takes_bytes_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        del file
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdatasync", full)
    monkeypatch.setattr(os, "fsync", full)
    assert client.post("/v1/observations", content=lines(range(1)), headers=TEXT).status_code == 503
    asyncio.run(service_of(client).move())
    assert client.get("/healthz").json()["status"] == "failing"
    monkeypatch.undo()
    asyncio.run(service_of(client).move())  # nobody has sent anything
    assert client.get("/healthz").json()["status"] == "ok"


def test_what_the_database_refuses_counts_towards_the_limit(tmp_path: Path) -> None:
    refused = tmp_path / "s.duckdb.spool" / "refused"
    refused.mkdir(parents=True)
    (refused / "1.observations.jsonl").write_text("x" * 2000)
    with client_of(config_of(tmp_path, max_spool_bytes=1000)) as client:
        health = client.get("/healthz")
        assert (health.status_code, health.json()["status"]) == (503, "full")
        sent = client.post("/v1/observations", content=lines(range(1)), headers=TEXT)
        assert sent.status_code == 429
        (refused / "1.observations.jsonl").rename(tmp_path / "looked-at.jsonl")
        asyncio.run(service_of(client).move())
        assert client.get("/healthz").json()["status"] == "ok"
        sent = client.post("/v1/observations", content=lines(range(1)), headers=TEXT)
        assert sent.status_code == 202


def test_what_a_kill_cut_short_stays_in_no_spool(tmp_path: Path) -> None:
    (tmp_path / "refused").mkdir()
    left = [".probe.0123abcd", ".accounts.json.0123abcd", "refused/.1.jsonl.0123abcd"]
    for name in left:
        (tmp_path / name).write_text("part")
    (tmp_path / "history.jsonl").write_text("{}")
    Spool(tmp_path).close()
    assert [one.name for one in tmp_path.rglob("*") if one.is_file()] == ["history.jsonl"]


HOLD = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print(1, flush=True)
input()
"""


def test_a_locked_database_is_said_without_its_path_and_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpmonitor.serve.questions._BUSY_SECONDS", 0.1)
    config = with_decision(tmp_path)
    with client_of(config) as client:
        assert client.get("/healthz").json()["status"] == "ok"
        command = [sys.executable, "-c", HOLD, str(config.db)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            client.post("/v1/observations", content=lines(range(1)), headers=TEXT)
            asyncio.run(service_of(client).move())
            assert client.get("/healthz").json()["status"] == "waiting"
            for path in ("/", "/dashboard/live", "/dashboard/apis", "/v1/exposure?apis=A.a"):
                answer = client.get(path)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "10"), path
                assert str(config.db) not in answer.text
                assert str(holder.pid) not in answer.text
            holder.communicate("\n")
        asyncio.run(service_of(client).move())
        assert client.get("/healthz").json()["status"] == "ok"


# ---- Settings -----------------------------------------------------------------------------------


def test_settings_are_read_and_paths_are_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text('db = "a.duckdb"\norigins = ["https://a.example"]\nflush_seconds = 2\n')
    read = read_config(path)
    assert read.db == tmp_path / "a.duckdb"
    assert (read.origins, read.flush_seconds) == (("https://a.example",), 2.0)


@pytest.mark.each
@pytest.mark.parametrize("name", [".", "", "/", "x" * 300, "a/" * 3_000, "a\0b"])
def test_names_that_no_file_has_are_told_in_a_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["collect", "serve"], ["collect", "keys", "list"], ["db", "verify"]):
        assert run([*command, "--db", name]) == 2
        assert "is not the name of a file" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.each
@pytest.mark.parametrize(
    "line",
    ["prot = 1", 'port = "x"', "port = -1", "port = 70000", 'headers = ["cookie"]', "port = [",
     "db = 3", 'db = ""', 'db = "."', r'db = "a\u0000"', f'spool = "{"x" * 300}"', 'keys = "/"',
     "flush_seconds = inf", "flush_seconds = nan", "records_per_minute = 0", "max_records = 0",
     "max_body_bytes = 0", 'query_limit = "nan"', 'query_limit = "0"', 'query_limit = "-1"',
     f'query_limit = "{"9" * 5000}"'],
)  # fmt: skip
def test_wrong_settings_are_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=r"serve\.toml"):
        read_config(path)
