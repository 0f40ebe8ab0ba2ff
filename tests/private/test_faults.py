"""Three processes on this machine, killed in the middle: nothing is lost, nothing counts twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from fpmonitor.cli import run
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.private.client import AnsweredRequests, seal_answers
from fpmonitor.private.folder import RoleFolder, make_role
from fpmonitor.private.keys import SecretKeys, write_secret_keys
from fpmonitor.private.selection import compare_with_joint, select_values
from fpmonitor.private.services import shuffler_app
from fpmonitor.private.shuffler import Shuffler
from fpmonitor.private.store import Receipt, RoleStore
from fpmonitor.private.study import Study, first_ask, release_ask
from fpmonitor.private.transport import RoleClient, UnreachableError, make_password, read_answer
from fpmonitor.private.wire import decode_configs
from fpmonitor.spectrum import CountSpectrum
from tests.patience import wait
from tests.piloted import Serving, counts, free_ports

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fpmonitor.private.study import CollectionRequest, Role

USERS = 240
USERS_OF_A_BODY = 6
APIS = ("A.browser", "A.colour", "A.rare")
ROLES: tuple[Role, ...] = ("shuffler", "curator", "analyst")
RINGS = {role: SecretKeys.generate(role) for role in ROLES}
STUDY = Study(
    name="processes",
    apis=APIS,
    population=5000,
    k=5,
    budget=0.3,
    minimum_batch=10,
    report_bytes=256,
    curator_key=RINGS["curator"].verifying,
)
PASSWORD = "t" * 43


def user(number: int) -> dict[str, str]:
    rare = f"={number}" if number % 12 == 0 else "=common"
    return {"A.browser": f"={number % 3}", "A.colour": f"={number % 7 // 3}", "A.rare": rare}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pilot with the keys and the password of this module."""
    port = free_ports()
    for role, ring in RINGS.items():
        made = make_role(tmp_path / role, role, port=port)
        write_secret_keys(made.keys, ring)
        (made.path / "study.json").write_bytes(STUDY.to_bytes())
        for name in ("password", *(f"{other}.password" for other in ROLES if other != role)):
            make_password(made.path / name, PASSWORD)
    return tmp_path


@pytest.fixture
def roles(folder: Path) -> Iterator[dict[str, Serving]]:
    with ExitStack() as stack:
        running = {}
        for role in reversed(ROLES):
            running[role] = Serving(folder / role)
            stack.callback(running[role].kill)
        yield running


def insist(role: Serving, path: str, content: bytes, content_type: str) -> None:
    """Post until it is answered, as whoever lost an answer does."""
    for _ in range(300):
        with RoleClient(role.address, PASSWORD) as service, suppress(UnreachableError):
            service.post(path, content, content_type)
            return
        time.sleep(0.1)
    pytest.fail(f"no answer from the {role.role}")


def bodies(ask: CollectionRequest) -> list[bytes]:
    keys = {role: ring.keys[0].config for role, ring in RINGS.items()}
    sealed = [
        [
            upload.encode()
            for upload in seal_answers(
                STUDY,
                ask,
                user(number),
                answered=AnsweredRequests(),
                shuffler=keys["shuffler"],
                recipient=keys[ask.recipient],
            )
        ]
        for number in range(USERS)
    ]
    starts = range(0, USERS, USERS_OF_A_BODY)
    return [
        b"".join(upload for one in sealed[start : start + USERS_OF_A_BODY] for upload in one)
        for start in starts
    ]


def collect(roles: dict[str, Serving], ask: CollectionRequest, killed: Sequence[Serving]) -> None:
    """All users answer an ask; meanwhile processes are killed, each while answers arrive."""
    for role in ("shuffler", ask.recipient):
        insist(roles[role], "/asks", ask.to_bytes(), "application/json")
    waiting = bodies(ask)
    answered, share = 0, len(waiting) // (len(killed) + 1)
    allowed = threading.Semaphore(share)  # so that no kill comes when all have been answered

    def send() -> None:
        nonlocal answered
        for body in waiting:
            allowed.acquire()
            insist(roles["shuffler"], "/uploads", body, "application/octet-stream")
            answered += 1

    sending = threading.Thread(target=send)
    sending.start()
    for number, process in enumerate(killed, 1):
        while answered < number * share:
            time.sleep(0.002)
        allowed.release(share if number < len(killed) else len(waiting))
        process.kill()
        process.start()
    sending.join()
    insist(roles["shuffler"], f"/asks/{ask.id.hex()}/close", b"", "")


def collect_under_rotation(
    folder: Path, roles: dict[str, Serving], ask: CollectionRequest
) -> Counter[str]:
    """All users answer while keys are rotated and retired; messages by the keys they were for."""
    for role in ("shuffler", "curator"):
        insist(roles[role], "/asks", ask.to_bytes(), "application/json")
    used: Counter[str] = Counter()
    numbers = iter(range(USERS))
    newest: dict[str, int] = {}
    lock = threading.Lock()

    def send() -> None:
        name = threading.current_thread().name
        with RoleClient(roles["shuffler"].address) as service:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    newest[name] = 256
                    return
                # As published now: a file's keys are published after it was written.
                keys = {role: RoleFolder(folder / role).public.preferred for role in ROLES[:2]}
                uploads = seal_answers(
                    STUDY,
                    ask,
                    user(number),
                    answered=AnsweredRequests(),
                    shuffler=keys["shuffler"],
                    recipient=keys["curator"],
                )
                body = b"".join(one.encode() for one in uploads)
                receipt = read_answer(service.post("/uploads", body), Receipt)
                assert receipt == Receipt(len(APIS))
                with lock:
                    used.update(f"{role} {key.id}" for role, key in keys.items())
                    newest[name] = keys["shuffler"].id

    senders = [threading.Thread(target=send) for _ in range(3)]
    for sender in senders:
        sender.start()
    for key in (1, 2, 3):
        wait(lambda least=key * USERS // 2: used.total() >= least)
        for role in ("shuffler", "curator"):
            ran("private", "rotate", str(folder / role))
        wait(lambda key=key: len(newest) == 3 and min(newest.values()) > key)
        # Nobody seals for the shuffler's old key any more. The curator's stays: answers that are
        # sealed for it wait at the shuffler.
        ran("private", "rotate", str(folder / "shuffler"), "--retire", str(key))
    for sender in senders:
        sender.join()
    return used


def ran(*arguments: str) -> None:
    assert run([*arguments]) == 0


@pytest.mark.long
def test_keys_rotated_and_retired_while_answers_arrive_lose_nothing(
    folder: Path, roles: dict[str, Serving]
) -> None:
    ask = first_ask(STUDY)
    used = collect_under_rotation(folder, roles, ask)
    assert all(used[f"{role} {key}"] for role in ("shuffler", "curator") for key in (1, 2, 3, 4))
    insist(roles["shuffler"], f"/asks/{ask.id.hex()}/close", b"", "")
    assert counted(folder, ask) == {(api,): truth([api]) for api in APIS}
    with RoleStore(folder / "curator" / "store.db", STUDY, "curator") as store:
        assert store.tally()[ask.id] == {"accepted": len(APIS) * USERS}
    with RoleClient(roles["shuffler"].address) as service:
        assert [key.id for key in decode_configs(service.get("/hpke_config"))] == [4]
        keys = {
            "shuffler": RINGS["shuffler"].keys[0].config,
            "recipient": RINGS["curator"].keys[0].config,
        }
        late = replace(ask, round=2)
        insist(roles["shuffler"], "/asks", late.to_bytes(), "application/json")
        uploads = seal_answers(STUDY, late, user(0), answered=AnsweredRequests(), **keys)
        body = b"".join(one.encode() for one in uploads)
        receipt = read_answer(service.post("/uploads", body), Receipt)
        assert receipt == Receipt(0, {"unknown key": len(APIS)})


@pytest.mark.parametrize("wrong", ["role", "content", "mode", "nothing"])
def test_a_file_that_holds_no_keys_of_the_role_changes_nothing(
    folder: Path, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder / "shuffler" / "keys"
    shuffler = Shuffler(folder / "s.db", STUDY, RINGS["shuffler"])
    with shuffler.store, TestClient(shuffler_app(shuffler, password=PASSWORD, keys=path)) as client:
        before = client.get("/hpke_config").content
        assert not told(caplog)
        fresh = RINGS["curator" if wrong == "role" else "shuffler"].rotated()
        if wrong == "nothing":
            path.unlink()
        elif wrong == "content":
            path.write_text("{")
        else:
            write_secret_keys(path, fresh)
            path.chmod(0o644 if wrong == "mode" else 0o600)
        for _ in range(3):
            assert client.get("/hpke_config").content == before
        assert len(told(caplog)) == 1, "told once"
        write_secret_keys(path, RINGS["shuffler"].rotated())
        found = decode_configs(client.get("/hpke_config").content)
        assert [key.id for key in found] == [2, 1]


def told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Notes of ours; the client of a test may have its own."""
    return [record for record in caplog.records if record.name.startswith("fpmonitor")]


def counted(
    folder: Path, ask: CollectionRequest
) -> dict[tuple[str, ...], dict[tuple[str, ...], int]]:
    """What the recipient's store holds, once all messages are there."""

    def held() -> int:
        return sum(sum(one.values()) for one in counts(folder, ask.recipient, ask).values())

    wait(lambda: held() >= USERS * len(ask.sets))
    return dict(counts(folder, ask.recipient, ask))


def truth(apis: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(user(number)[api] for api in apis) for number in range(USERS))


@pytest.mark.long
def test_killed_roles_lose_nothing_and_double_nothing_and_the_promise_holds(
    folder: Path, roles: dict[str, Serving]
) -> None:
    ask = first_ask(STUDY)
    collect(roles, ask, [roles["shuffler"], roles["curator"]])
    marginals = counted(folder, ask)
    assert marginals == {(api,): truth([api]) for api in APIS}

    selection = select_values(STUDY, marginals, setting="fixed")
    chosen = selection.recommended
    assert len(chosen.apis) >= 2
    last = release_ask(STUDY, selection.promise, chosen.apis, RINGS["curator"].sign)
    collect(roles, last, [roles["analyst"]])
    joint = counted(folder, last)[chosen.apis]
    assert joint == truth(chosen.apis)
    found = compare_with_joint(STUDY, chosen, joint)
    spectrum = CountSpectrum.from_counts([*truth(chosen.apis).values()])
    assert found.empirical == empirical_exposure(spectrum, STUDY.k)
    assert found.empirical <= chosen.fixed.upper <= STUDY.budget

    with RoleStore(folder / "shuffler" / "store.db", STUDY, "shuffler") as store:
        for one in (ask, last):
            tally = store.tally()[one.id]
            assert tally["accepted"] == tally["passed on"] == USERS * len(one.sets)
            assert tally["held"] == 0
