"""A newcomer's pilot: three services, two rounds, nine commands; and mistakes that it survives."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from msgspec import structs

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.private.folder import RoleFolder
from fpmonitor.private.keys import SecretKeys, write_secret_keys
from fpmonitor.private.store import RoleStore, read_counts
from fpmonitor.private.study import CollectionRequest, SetPromise, Study, first_ask, release_ask
from fpmonitor.private.transport import UnreachableError
from fpmonitor.private.wire import encode_batch
from tests.patience import wait
from tests.piloted import (
    APIS,
    PAGE,
    Serving,
    counts,
    free_ports,
    perform,
    ran,
    user,
    write_log,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW, USERS = 10, 110
JSON = ("--format", "json")
THERE = ("--folder", "pilot")
[NINE] = re.findall(r"## Two rounds in nine commands\n.*?```sh\n(.*?)```", PAGE, flags=re.DOTALL)
INIT, SERVE, SEAL, CLOSE, SELECT, PUBLISH, *SECOND = NINE.splitlines()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with the pilot of the page, whose three services run as processes."""
    folder = tmp_path_factory.mktemp("there")
    write_log(folder / "few.jsonl", range(USERS, USERS + FEW))
    write_log(folder / "users.jsonl", range(USERS))
    with contextlib.chdir(folder):
        perform(f"{INIT} --releases 2 --port {free_ports()}")
        assert SERVE == "fpmonitor private serve pilot &"
        serving = Serving(Path("pilot"), services=3)
        yield folder
        serving.stop()
        assert "Traceback" not in serving.log.read_text()


def test_the_quickstart_collects_two_rounds_and_draws_the_picture_of_the_documents(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "quick"
    assert "certificate" in ran("private", "simulate", "--pilot", str(folder))
    picture = (folder / "who-learns-what.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(picture)
    documented = Path(__file__).parents[2] / "docs" / "private.svg"
    assert picture == documented.read_text(encoding="utf-8")
    study, last = Study.read(folder / "study.json"), CollectionRequest.read(folder / "round-2.json")
    marginals = counts(folder, "curator", first_ask(study))
    assert {sum(users.values()) for users in marginals.values()} == {500}
    assert sum(counts(folder, "analyst", last)[last.sets[0]].values()) == 500
    assert f">{len(last.sets[0])} of {len(study.apis)} APIs together<" in picture
    ran("private", "simulate", "--pilot", str(folder), code=2)
    # Of sets of equal weight, the decision recommends the one that the same command requests.
    decided, asked = folder / "decision.json", folder / "asked.json"
    ran("private", "select", str(folder), "--decision", str(decided), "-o", str(asked))
    decision = read_decision(decided)
    assert sum(len(one) == len(decision.recommended) for one in decision.allow) > 1
    assert CollectionRequest.read(asked).sets == (decision.recommended,)


def shown(round_number: int) -> dict[str, Any]:
    asks = json.loads(ran("private", "status", *THERE, *JSON))["asks"]
    [found] = [one for one in asks if one["round"] == round_number]
    return dict(found)


def truth(*apis: str, users: int = USERS) -> dict[tuple[str, ...], int]:
    return Counter(tuple(f"={user(number)[api]}" for api in apis) for number in range(users))


def collect_marginals(capsys: pytest.CaptureFixture[str]) -> None:
    """The first round, closed too early, sealed twice, and opened with the wrong keys at first."""
    curator = RoleFolder.of(Path("pilot"), "curator")

    # Too early: nothing is deleted.
    few = SEAL.replace("fixtures/logs/browsers-3.parquet", "few.jsonl")
    perform(f"{few} -o few.uploads --to {curator.address('shuffler')}")
    perform(CLOSE, code=2)
    assert "30 messages wait, below the minimum of 150" in capsys.readouterr().err
    assert (shown(1)["open"], shown(1)["wanted"]) == (True, 120)

    # For a key that the service does not have, nothing is sealed.
    shutil.copy(curator.keys, "right")
    wrong = structs.replace(SecretKeys.generate("curator"), signing=curator.ring.signing)
    write_secret_keys(Path("wrong"), wrong)
    shutil.copy("wrong", curator.keys)
    perform(SEAL, code=2)
    assert "does not have the key that its file names" in capsys.readouterr().err
    shutil.copy("right", curator.keys)

    # Sealed twice: the same answers; under another name: refused, as they would count twice.
    for _ in range(2):
        perform(SEAL)
    perform(f"{SEAL} -o again.uploads", code=2)
    assert "round 1 of epoch 1 for the curator was answered before" in capsys.readouterr().err
    assert not Path("again.uploads").exists()

    # Opened with the wrong keys at first: the batches wait.
    shutil.copy("wrong", curator.keys)
    perform(CLOSE)
    assert "round 1 of epoch 1 for the curator is closed" in capsys.readouterr().err
    perform(CLOSE)  # again: nothing changes
    waiting, sent = shown(1), 3 * (FEW + USERS)
    assert waiting["accepted"] == waiting["passed_on"] == sent
    assert waiting["missing"] == sent - waiting["counted"] > 0
    assert (waiting["refused"], waiting["repeated"]) == (0, 3 * USERS)
    assert waiting["undelivered"] > 0
    run(shlex.split(SELECT.partition(" > ")[0])[1:])
    assert f"{waiting['missing']} messages of round 1 are under way" in capsys.readouterr().err
    shutil.copy("right", curator.keys)
    wait(lambda: shown(1)["undelivered"] == 0)
    assert counts(curator.path, "curator", first_ask(curator.study)) == {
        (api,): truth(api, users=USERS + FEW) for api in APIS
    }
    assert (shown(1)["missing"], shown(1)["open"]) == (0, False)
    assert (shown(1)["epoch"], shown(1)["id"]) == (1, first_ask(curator.study).id.hex())
    perform("fpmonitor private publish pilot/round-1.json --folder pilot", code=2)
    refusal = capsys.readouterr().err
    assert "round 1 of epoch 1 for the curator is closed" in refusal
    assert f"{sent} messages passed on" in refusal.replace(",", "")
    perform(SEAL, code=2)
    assert f"{3 * USERS} closed ask" in capsys.readouterr().err


def refuse_what_was_not_promised(
    released: CollectionRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ask by hand, and one with another curator's signature, on the way to the analyst."""
    curator = RoleFolder.of(Path("pilot"), "curator")
    promise, other = SetPromise(digest="", upper=0), SecretKeys.generate("curator")
    by_hand = structs.replace(released, round=3, sets=(APIS,), promise=None)
    stranger = release_ask(curator.study, promise, APIS, other.sign, number=3)
    for refused in (by_hand, stranger):
        Path("refused.json").write_bytes(refused.to_bytes())
        perform(SEAL.replace("pilot/round-1.json", "refused.json"), code=2)
        assert "did not sign" in capsys.readouterr().err
        for role in ("shuffler", "analyst"):
            with curator.service(role) as service, pytest.raises(UnreachableError, match="sign"):
                service.post("/asks", refused.to_bytes(), "application/json")


def copy_a_running_pilot(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its backup is whole; and a service whose port is taken says where that is set."""
    ran("private", "backup", "pilot/curator", "-o", "backup.db")
    study = Study.read(Path("pilot/study.json"))
    with RoleStore(world / "backup.db", study, "curator") as store:
        assert read_counts(store, first_ask(study))[(APIS[0],)] == truth(APIS[0], users=USERS + FEW)
    ran("private", "serve", "pilot/curator", code=2)
    said = capsys.readouterr().err
    assert "name another port in pilot/curator/role.json" in said
    assert "--port" not in said


@pytest.mark.long
def test_the_nine_commands_of_the_documents_give_two_rounds_and_survive_mistakes(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    collect_marginals(capsys)
    perform(SELECT)
    released = CollectionRequest.read(Path("pilot/round-2.json"))
    refuse_what_was_not_promised(released, capsys)
    with (
        RoleFolder.of(Path("pilot"), "curator").service("analyst") as service,
        pytest.raises(UnreachableError, match="publish the request to the analyst"),
    ):
        service.post("/batches", encode_batch(released.id, b"b" * 16, []))
    perform(PUBLISH)
    for command in SECOND[:-1]:
        perform(command)
    wait(lambda: shown(2)["missing"] == 0)
    assert "certificate" in perform(SECOND[-1])
    comparing = SECOND[-1].replace("--format table", "--format json")
    found = json.loads(perform(comparing))["promise"]
    assert counts(Path("pilot"), "analyst", released) == {
        released.sets[0]: truth(*released.sets[0])
    }
    assert (tuple(found["apis"]), found["users"]) == (released.sets[0], USERS)
    assert found["empirical"] <= found["fixed"]["upper"]

    # A third round after the release; a promise is compared with the request signed for it.
    ran("private", "select", "pilot", "--redact", ",".join(APIS[1:]), "-o", "pilot/round-3.json")
    third = CollectionRequest.read(Path("pilot/round-3.json"))
    assert (third.round, third.sets) == (3, (APIS[1:],))
    for command in (PUBLISH, *SECOND[:-1]):
        perform(command.replace("round-2", "round-3"))
    wait(lambda: shown(3)["counted"] == USERS)
    [kept] = third.redact[APIS[2]].keep
    assert counts(Path("pilot"), "analyst", third)[APIS[1:]][("=Linux", kept)] > 0
    assert json.loads(perform(comparing))["promise"] == found
    for role in ("shuffler", "analyst"):
        with RoleStore(
            Path("pilot", role, "store.db"), Study.read(Path("pilot/study.json")), role
        ) as store:
            assert all(store.is_closed(one.id) for one in (released, third))
    copy_a_running_pilot(world, capsys)
