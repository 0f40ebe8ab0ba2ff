"""A newcomer's pilot: three services, two rounds, nine commands; and mistakes that it survives."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from msgspec import structs

from fpmonitor.cli import run
from fpmonitor.private.folder import RoleFolder
from fpmonitor.private.keys import KeyRing, read_keys, write_keys
from fpmonitor.private.store import Store, read_counts
from fpmonitor.private.study import CollectionRequest, SetPromise, Study, first_ask, release_ask
from fpmonitor.private.transport import UnreachableError
from fpmonitor.private.wire import encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fpmonitor.private.study import Role

ROOT = Path(__file__).parents[2]
USERS = 120
APIS = ("A.colour", "A.kind", "A.size")


def user(number: int) -> dict[str, Any]:
    return {"A.colour": number % 2, "A.kind": number % 3, "A.size": 24 + number // 118}


def write_log(path: Path, users: range) -> None:
    lines = (json.dumps({"user": f"u{number}", **user(number)}) for number in users)
    path.write_text("\n".join(lines))


def ran(*arguments: str, code: int = 0) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(["private", *arguments]) == code, arguments
    return printed.getvalue()


def free_ports() -> int:
    """First of three free ports in a row, below those that the system gives to other tests."""
    for first in range(20_000 + os.getpid() % 5_000, 32_000, 3):
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in range(first, first + 3):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    pytest.fail("no three ports in a row are free")


def wait_for(happened: Callable[[], bool]) -> None:
    for _ in range(400):
        if happened():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen within twenty seconds")


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A pilot whose three services run as processes."""
    folder = tmp_path_factory.mktemp("there") / "pilot"
    ran(
        *("init", str(folder), "--apis", ",".join(APIS), "-n", "1000", "--budget", "0.4"),
        *("--k", "2", "--minimum-batch", "20", "--releases", "2", "--port", str(free_ports())),
    )
    log = folder.with_name("log")
    command = [sys.executable, "-P", "-m", "fpmonitor", "private", "serve", str(folder)]
    with log.open("w") as lines, subprocess.Popen(command, stderr=lines) as serving:

        def listening() -> bool:
            assert serving.poll() is None, log.read_text()
            return len(re.findall(":\\d+/ ", log.read_text())) == 3

        try:
            wait_for(listening)
            yield folder
        finally:
            serving.terminate()
    assert len(re.findall(":\\d+/ ", log.read_text())) == 3


def test_the_quickstart_collects_two_rounds_and_draws_the_picture_of_the_documents(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "quick"
    assert "certificate" in ran("quickstart", str(folder), "--quiet")
    picture = (folder / "who-learns-what.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(picture)
    assert picture == (ROOT / "docs" / "private.svg").read_text(encoding="utf-8")
    study, last = Study.read(folder / "study.json"), CollectionRequest.read(folder / "round-2.json")
    marginals = counts(folder, "curator", first_ask(study))
    assert {sum(users.values()) for users in marginals.values()} == {500}
    assert sum(counts(folder, "analyst", last)[last.sets[0]].values()) == 500
    assert f">{len(last.sets[0])} of {len(study.apis)} APIs together<" in picture
    ran("quickstart", str(folder), code=2)


def shown(folder: Path, round_number: int) -> dict[str, Any]:
    asks = json.loads(ran("status", "--folder", str(folder), "--format", "json"))["asks"]
    [found] = [one for one in asks if one["round"] == round_number]
    return dict(found)


def truth(*apis: str) -> dict[tuple[str, ...], int]:
    return Counter(tuple(f"={user(number)[api]}" for api in apis) for number in range(USERS))


def counts(folder: Path, role: Role, ask: CollectionRequest) -> Any:
    made = RoleFolder.of(folder, role)
    with Store(made.store, made.study, role) as store:
        return read_counts(store, ask)


def collect_marginals(pilot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first round, closed too early, sealed twice, and opened with the wrong keys at first."""
    there = ("--folder", str(pilot))
    curator = RoleFolder.of(pilot, "curator")
    ask, few, users = pilot / "round-1.json", tmp_path / "few", tmp_path / "users"
    write_log(few, range(10))
    write_log(users, range(10, USERS))

    # Too early: nothing is deleted.
    ran("seal", "--from", str(few), "--ask", str(ask), *there, "-o", str(tmp_path / "few.uploads"),
        "--to", curator.address("shuffler"))  # fmt: skip
    ran("close", str(ask), *there, code=2)
    assert "30 messages wait, below the minimum of 60" in capsys.readouterr().err
    assert (shown(pilot, 1)["open"], shown(pilot, 1)["wanted"]) == (True, 30)

    # Sealed twice: the same answers. With the wrong keys: the batches wait.
    ring = read_keys(curator.keys)
    write_keys(curator.keys, structs.replace(KeyRing.generate("curator"), signing=ring.signing))
    write_keys(tmp_path / "right.keys", ring)
    other = ("--recipient-key", str(tmp_path / "right.keys.pub"))
    for _ in range(2):
        ran("seal", "--from", str(users), "--ask", str(ask), *there, *other)
    ran("close", str(ask), *there)
    waiting = shown(pilot, 1)
    assert waiting["accepted"] == waiting["passed_on"] == waiting["missing"] == 3 * USERS
    assert (waiting["counted"], waiting["refused"]) == (0, 0)
    assert waiting["undelivered"] > 0
    ran("select", str(pilot), "--format", "json", code=3)
    assert f"{3 * USERS} messages of round 1 are under way" in capsys.readouterr().err
    write_keys(curator.keys, ring)
    wait_for(lambda: shown(pilot, 1)["undelivered"] == 0)
    assert counts(pilot, "curator", first_ask(curator.study)) == {
        (api,): truth(api) for api in APIS
    }
    assert (shown(pilot, 1)["missing"], shown(pilot, 1)["open"]) == (0, False)
    ran("seal", "--from", str(users), "--ask", str(ask), *there, code=2)
    assert "330 closed ask" in capsys.readouterr().err


def test_two_rounds_take_a_newcomer_nine_commands_and_survive_mistakes(
    pilot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collect_marginals(pilot, tmp_path, capsys)
    study = Study.read(pilot / "study.json")
    curator = RoleFolder.of(pilot, "curator")
    there, users = ("--folder", str(pilot)), tmp_path / "all"
    write_log(users, range(USERS))
    selection, release = pilot / "selection.json", pilot / "round-2.json"
    selection.write_text(ran("select", str(pilot), "-o", str(release), "--format", "json"))
    ran("publish", str(release), *there)
    released = CollectionRequest.read(release)
    by_hand = structs.replace(released, round=3, sets=(APIS,), promise=None)
    stranger = release_ask(
        study, SetPromise(digest="", upper=0), APIS, KeyRing.generate("curator").sign, number=3
    )
    for refused in (by_hand, stranger):
        (tmp_path / "refused.json").write_bytes(refused.to_bytes())
        ran("seal", "--from", str(users), "--ask", str(tmp_path / "refused.json"), *there, code=2)
        assert "did not sign" in capsys.readouterr().err
        for role in ("shuffler", "analyst"):
            with curator.service(role) as service, pytest.raises(UnreachableError, match="sign"):
                service.post("/asks", refused.to_bytes(), "application/json")
    ran("seal", "--from", str(users), "--ask", str(release), *there)
    ran("close", str(release), *there)
    wait_for(lambda: shown(pilot, 2)["missing"] == 0)
    found = json.loads(
        ran("analyze", *there, "--promise", str(selection), "--format", "json")
    )["promise"]  # fmt: skip
    assert counts(pilot, "analyst", released) == {released.sets[0]: truth(*released.sets[0])}
    assert (tuple(found["apis"]), found["users"]) == (released.sets[0], USERS)
    assert found["empirical"] <= found["fixed"]["upper"]

    # Afterwards: the next round is the third, and a backup of a running role is whole.
    ran("select", str(pilot), "-o", str(tmp_path / "next.json"))
    assert CollectionRequest.read(tmp_path / "next.json").round == 3
    ran("backup", str(pilot / "curator"), "-o", str(tmp_path / "backup.db"))
    with Store(tmp_path / "backup.db", study, "curator") as store:
        assert read_counts(store, first_ask(study))[(APIS[0],)] == truth(APIS[0])
    with curator.service("analyst") as service, pytest.raises(UnreachableError, match="publish"):
        service.post("/batches", encode_batch(b"u" * 16, b"b" * 16, []))
