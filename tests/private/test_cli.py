"""`fpmonitor private`: what docs/private.md says works, and mistakes are told in one line."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from fpmonitor.cli import run
from fpmonitor.cli.table import GROUPS
from fpmonitor.errors import InputError
from fpmonitor.private.folder import RoleFolder
from fpmonitor.private.keys import public_path, read_public, read_secret_keys
from fpmonitor.private.shuffler import upload_bytes
from fpmonitor.private.study import CollectionRequest, Study, check_ask
from fpmonitor.private.transport import read_password
from fpmonitor.private.wire import decode_configs
from fpmonitor.safe_files import write_bytes
from tests.piloted import APIS, PAGE, perform, ran, write_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
USERS = 120


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    return [part.strip() for block in blocks for part in block.split("$ ")[1:]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All commands of the page were run here."""
    path = tmp_path_factory.mktemp("private")
    write_log(path / "users.jsonl", range(USERS))
    with contextlib.chdir(path):
        assert len(commands()) == 8, "examples went missing"
        for command in commands():
            perform(command)
    return path


@pytest.fixture
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def at(role_name: str, name: str, *arguments: str) -> Sequence[str]:
    return ("private", name, *arguments, "--folder", f"pilot/{role_name}", "--format", "json")


def test_the_curator_counts_what_the_users_hold_and_shows_no_small_group(there: Path) -> None:
    found = json.loads(ran(*at("curator", "count")))
    [ask] = found["asks"]
    assert ask["messages"] == {"accepted": 3 * USERS}
    shown = {tuple(one["apis"]): one for one in ask["sets"]}
    assert shown[(APIS[0],)]["groups"] == [
        {"tokens": ["=0"], "users": 60}, {"tokens": ["=1"], "users": 60}
    ]  # fmt: skip
    assert shown[(APIS[2],)]["groups"] == [{"tokens": ["=24"], "users": 117}]
    assert shown[(APIS[2],)]["smaller_groups"] == 1
    assert "=25" not in json.dumps(found)
    unsafe = json.loads(ran(*at("curator", "count", "--unsafe-counts")))
    assert {"tokens": ["=25"], "users": 3} in unsafe["asks"][0]["sets"][2]["groups"]
    assert (there / "pilot" / "curator" / "store.db").stat().st_mode & 0o077 == 0


def test_the_analyst_sees_the_released_set_and_whether_the_promise_held(there: Path) -> None:
    chosen = CollectionRequest.read(there / "round-2.json")
    found = json.loads(ran(*at("analyst", "count", "--promise", "selection.json")))
    promise = found["promise"]
    assert promise["apis"] == list(chosen.sets[0])
    assert promise["users"] == USERS
    assert promise["empirical"] <= promise["fixed"]["upper"]
    assert promise["statistical"]["upper"] <= Study.read(there / "pilot" / "study.json").budget
    table = ran(*[*at("analyst", "count", "--promise", "selection.json")[:-1], "table"])
    assert "promised" in table
    assert "certificate" in table


def test_batches_and_uploads_count_once(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batches = [str(path) for path in (there / "round-1").iterdir()]
    found = json.loads(ran(*at("curator", "count", *batches)))
    assert found["messages"] == {"accepted": 0, "taken before": 3 * USERS}
    capsys.readouterr()
    assert run([*at("shuffler", "shuffle", "round-1.uploads")]) == 1
    told = capsys.readouterr()
    late = {"accepted": 0, "closed ask": 3 * USERS, "held": 0, "batches": []}
    assert json.loads(told.out) == late
    assert f"{3 * USERS} messages came too late" in told.err
    assert "round 1 of epoch 1" in told.err
    # a request that is named is refused with its state before anything is taken
    named = [*at("shuffler", "shuffle", "round-1.uploads"), "--ask", "pilot/round-1.json"]
    for more in ([], ["--close"]):
        assert run([*named, *more]) == 2
        assert "is closed, with 360 messages passed on" in capsys.readouterr().err


def test_only_the_rounds_that_were_answered_late_are_named(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five rounds are closed; answers to one of them, and to all of them, come late."""
    shuffler = RoleFolder(there / "pilot" / "shuffler").open_shuffler()
    first = CollectionRequest.read(there / "pilot" / "round-1.json")
    with shuffler.store:
        for epoch in range(2, 6):
            ask = structs.replace(first, epoch=epoch)
            shuffler.add_ask(ask)
            shuffler.close_ask(ask.id, drop=True)
            shuffler.store.add_to_tally(ask.id, {"closed ask": 1})
    capsys.readouterr()
    assert run([*at("shuffler", "shuffle", "round-1.uploads")]) == 1
    assert capsys.readouterr().err.strip().endswith("closed: round 1 of epoch 1 for the curator")
    (tmp_path / "late").write_bytes(
        b"".join(
            ask + bytes(upload_bytes(shuffler.store.study) - 16) for ask in shuffler.store.asks
        )
    )
    assert run([*at("shuffler", "shuffle", str(tmp_path / "late"))]) == 1
    told = capsys.readouterr().err
    assert told.count("for the ") == 3
    assert "and 3 more" in told


def test_users_who_are_sealed_again_send_the_same_answers(there: Path) -> None:
    before = (there / "round-1.uploads").read_bytes()
    ran(*SEAL)
    assert (there / "round-1.uploads").read_bytes() == before


def test_a_log_by_another_name_answers_no_request_twice(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of its users would count as two: only the path of a log was remembered."""
    copied, stored, others = (tmp_path / name for name in ("copied", "stored", "others"))
    copied.write_bytes((there / "users.jsonl").read_bytes())
    ran("ingest", "users.jsonl", "--db", str(stored))
    write_log(others, range(USERS, 2 * USERS))
    uploads = tmp_path / "uploads"
    for source, code in ((copied, 2), (stored, 2), (others, 0)):
        asked = ("--from", str(source), "--ask", "pilot/round-1.json", "--folder", "pilot")
        assert run(["private", "seal", *asked, "-o", str(uploads)]) == code
        assert ("was answered before" in capsys.readouterr().err) == (code == 2)
        assert uploads.exists() == (code == 0)


@pytest.mark.usefixtures("there")
def test_users_whose_sealing_is_cut_off_answer_once_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads that nobody remembered could be sent, and sealed again under another name."""
    write_log(tmp_path / "log", range(USERS, 2 * USERS))
    asked = ("--from", str(tmp_path / "log"), "--ask", "pilot/round-1.json", "--folder", "pilot")
    seal = ["private", "seal", *asked, "--memory", str(tmp_path / "answered.json"), "-o"]
    replace = Path.replace

    def cut(scratch: Path, path: Path) -> Path:
        if path.name == "answered.json":
            raise KeyboardInterrupt
        return replace(scratch, path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", cut)
        assert run([*seal, str(tmp_path / "uploads")]) > 2
    assert run([*seal, str(tmp_path / "uploads")]) == 0
    assert run([*seal, str(tmp_path / "others")]) == 2


@pytest.mark.usefixtures("there")
def test_of_two_commands_that_answer_a_request_at_once_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither knew of the other: each user could count as two."""
    write_log(tmp_path / "log", range(2 * USERS, 3 * USERS))
    asked = ("--from", str(tmp_path / "log"), "--ask", "pilot/round-1.json", "--folder", "pilot")
    seal, codes = ["private", "seal", *asked, "-o"], list[int]()
    other = threading.Thread(target=lambda: codes.append(run([*seal, str(tmp_path / "others")])))

    def check(*asked: Any) -> None:
        if other.ident is None:
            other.start()
            other.join(2)  # seconds that it has to end, where nothing holds it
        check_ask(*asked)

    monkeypatch.setattr("fpmonitor.private.commands.users.check_ask", check)
    codes.append(run([*seal, str(tmp_path / "uploads")]))
    other.join()
    assert sorted(codes) == [0, 2]
    assert not (tmp_path / "others").exists()


def another_shuffler(folder: Path) -> Sequence[str]:
    """Options of a shuffler that has taken nothing."""
    shutil.copytree("pilot/shuffler", folder / "shuffler")
    for file in (folder / "shuffler").glob("store.db*"):
        file.unlink()
    return ("--folder", str(folder / "shuffler"), "--ask", "pilot/round-1.json")


def test_answers_below_the_minimum_are_deleted_only_when_that_is_said(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uploads = (there / "round-1.uploads").read_bytes()
    (tmp_path / "few").write_bytes(uploads[: len(uploads) // USERS * 20])
    folder = another_shuffler(tmp_path)
    arguments = ["private", "shuffle", *folder, "--close", "--format", "json"]
    assert run([*arguments, str(tmp_path / "few")]) == 2
    said = capsys.readouterr().err
    assert "60 messages wait, below the minimum of 150" in said
    assert "--drop" in said
    assert json.loads(ran(*arguments, "--drop")) == {
        "below the minimum": 60, "held": 0, "batches": []
    }  # fmt: skip


@pytest.mark.each
@pytest.mark.parametrize(
    ("file", "reason"),
    [("round-1.uploads", "name it with --ask"), ("users.jsonl", "nothing was taken")],
)
def test_a_file_of_which_nothing_is_taken_is_no_success(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, reason: str
) -> None:
    folder = another_shuffler(tmp_path)[:2]
    assert run(["private", "shuffle", *folder, str(there / file)]) == 1
    assert reason in capsys.readouterr().err


def test_one_message_of_another_request_is_told_and_fails_no_file(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may send could else make each file of all users a failure."""
    others = (there / "round-2.uploads").read_bytes()
    size = len(others) // USERS
    (tmp_path / "hostile").write_bytes((there / "round-1.uploads").read_bytes() + others[:size])
    folder = another_shuffler(tmp_path)
    assert run(["private", "shuffle", *folder, str(tmp_path / "hostile")]) == 0
    assert "1 messages answer a request that the shuffler does not know" in capsys.readouterr().err


def test_a_role_says_which_file_it_lacks(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "shuffler"
    ran("private", "init", str(folder), "--role", "shuffler", "--port", "9000")
    assert "listens at http://127.0.0.1:9000" in capsys.readouterr().err
    ran("private", "serve", str(folder), code=2)
    assert "study.json: not there; all roles have a copy" in capsys.readouterr().err
    shutil.copy(there / "pilot" / "study.json", folder)
    ran("private", "serve", str(folder), code=2)
    said = capsys.readouterr().err
    assert "curator.password: not there; it is a copy of `password` in the curator's" in said


def test_a_release_that_nobody_would_answer_is_not_written(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(there / "pilot", tmp_path / "pilot")
    select = ("private", "select", str(tmp_path / "pilot"), "--format", "json")
    curator = RoleFolder.of(tmp_path / "pilot", "curator").open_recipient()
    with curator.store:
        curator.add_ask(CollectionRequest.read(there / "round-2.json"))
    third = tmp_path / "round-3.json"
    assert ran(*select, "-o", str(third), code=2) == ""
    assert "epoch 1 has had 1 of the 1 releases that the study allows" in capsys.readouterr().err
    assert not third.exists()
    assert json.loads(ran(*select))["recommended"]  # the limits are shown all the same


def test_counts_say_of_which_epoch_they_are(there: Path) -> None:
    folder = ("--folder", str(there / "pilot" / "curator"))
    [header, first, *_] = ran("private", "count", *folder, "--format", "csv").splitlines()
    assert (header.split(",")[0], first.split(",")[0]) == ("epoch", "1")
    assert "epoch" in ran("private", "count", *folder, "--format", "table")


def test_every_command_stands_in_the_documentation() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    [group] = [entry for entry in GROUPS if entry.name == "private"]
    for command in group.below:
        assert f"private {command.name}" in pages, command.name


def test_keys_are_rotated_and_retired(tmp_path: Path) -> None:
    folder = RoleFolder(tmp_path / "curator")
    ran("private", "init", str(folder.path), "--role", "curator")
    ran("private", "rotate", str(folder.path))
    assert [key.id for key in folder.ring.keys] == [2, 1]
    ran("private", "rotate", str(folder.path), "--retire", "1")
    assert [key.id for key in folder.ring.keys] == [2]
    assert public_path(folder.keys).read_bytes() == folder.ring.public.to_bytes()
    before = folder.ring.configs
    assert run(["private", "init", str(folder.path), "--role", "curator"]) == 2
    assert run(["private", "rotate", str(folder.path), "--retire", "2"]) == 2
    assert folder.ring.configs == before


def test_a_rotation_that_is_cut_off_publishes_no_key_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users sealed for a key that nobody had any more."""
    folder = RoleFolder(tmp_path / "curator")
    ran("private", "init", str(folder.path), "--role", "curator")
    ran("private", "rotate", str(folder.path))
    for options in (["--retire", "1"], []):
        written: list[Path] = []

        def write_one(path: Path, *content: Any, done: list[Path] = written, **more: Any) -> None:
            if done:
                raise InputError("cut off")
            done.append(path)
            write_bytes(path, *content, **more)

        with monkeypatch.context() as patch:
            patch.setattr("fpmonitor.private.keys.write_bytes", write_one)
            assert run(["private", "rotate", str(folder.path), *options]) == 2
        published = {config.id for config in decode_configs(folder.public.configs)}
        assert published <= {key.id for key in folder.ring.keys}
    (folder.path / ".keys.0123abcd").write_text("a retired key")
    ran("private", "rotate", str(folder.path), "--retire", "1")
    assert not [*folder.path.glob(".keys.*")]


SEAL = (
    "private", "seal", "--from", "users.jsonl", "--ask", "pilot/round-1.json", "--folder", "pilot",
    "-o", "round-1.uploads",
)  # fmt: skip
STUDY_COMMAND = (
    "private", "init", "x", "--curator-key", "pilot/curator/keys.pub", "--apis", "A",
    "--budget", "0.1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((*SEAL, "--recipient-key", "none", "-o", "x"), "none"),
        ((*SEAL, "--recipient-key", "pilot/analyst/keys.pub"), "the curator's are needed"),
        ((*SEAL, "-o", "round-2.uploads"), "round-2.uploads: holds no answers to this request"),
        ((*SEAL, "--relay", "http://127.0.0.1:9"), "--relay needs --to"),
        ((*SEAL, "--quiet", "--to", "http://127.0.0.1:9"), "no answer"),
        ((*SEAL, "--to", "nowhere"), "not the address"),
        ((*SEAL, "--memory", "m.json", "-o", "no/such/folder"), "cannot write"),
        ((*SEAL, "-o", "another.uploads"), "was answered before"),
        (("private", "count", "--folder", "pilot"), "pilot: not the folder of a role"),
        (at("shuffler", "count"), "name the folder of the curator or the analyst"),
        (at("curator", "count", "pilot/study.json"), "study.json: batch"),
        (at("curator", "count", "none"), "none: No such file"),
        (at("curator", "count", "/dev/zero"), "/dev/zero: larger than 64 MB"),
        (("--for-others", *at("curator", "count")), "omit --for-others"),
        (("--for-others", "private", "select", "pilot"), "omit --for-others"),
        (("--for-others", "private", "simulate", "--pilot", "x"), "omit --for-others"),
        (at("shuffler", "shuffle", "--close"), "--ask"),
        (at("shuffler", "shuffle", "none"), "none: cannot be read"),
        (at("analyst", "count", "--promise", "pilot/study.json"), "not a selection in pilot/study"),
        (("private", "publish", "pilot/round-1.json", "--folder", "none"), "init` makes one"),
        (("private", "publish", "pilot/round-1.json", "--folder", "pilot"), "serve FOLDER` runs"),
        (("private", "init", "x", *STUDY_COMMAND[5:], "--port", "65534"), "65533"),
        (STUDY_COMMAND, "--population"),
        ((*STUDY_COMMAND, "--population", "100", "--report-bytes", "20"), "report_bytes"),
        (
            ("private", "init", "pilot", *STUDY_COMMAND[3:], "--population", "10000"),
            "pilot: has a study; answers to it would be lost",
        ),
        ((*STUDY_COMMAND, "--population", "100"), "choose a smaller --minimum-batch"),
        (
            ("private", "publish", "pilot/study.json", "--folder", "pilot"),
            "'fpmonitor-study-1' - at `$.format`, where 'fpmonitor-ask-1' belongs",
        ),
        ((*STUDY_COMMAND[:3], "--role", "curator", "--apis", "A"), "a role has no terms"),
        (("private", "redact", "pilot", "--apis", "A"), "private select CURATOR --redact A,B"),
        (("private", "study", "-o", "x"), "--apis A,B --population N --budget SHARE"),
        (
            (*STUDY_COMMAND, "--population", "100", "--port", "8100"),
            "init: a study has no port; omit --port",
        ),
        (
            ("private", "simulate", "--pilot", "x", "--budget", "0.1", "--group", "20"),
            "--pilot has users and terms of its own; omit --budget, --group",
        ),
        (("private", "simulate", "--db", "none"), "needs --budget, or --pilot"),
        (("private", "select", "pilot", "--suspicion", "0.1"), "--suspicion: of which set?"),
        (("private", "select", "pilot", "--sample", "pilot/study.json"), "--sample: of which set?"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line(
    there: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], reason: str
) -> None:
    assert run([*arguments]) == 2
    printed: Any = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert reason in printed.err
    assert not (there / "x").exists()


def test_a_folder_with_a_request_or_a_role_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran("private", "init", str(tmp_path / "curator"), "--role", "curator")
    terms = ("--apis", "A", "--population", "10000", "--budget", "0.1")
    for held, reason in (
        ("round-1.json", "has the request of a study; answers to it would be lost"),
        ("study.json", "has a study; answers to it would be lost"),
        ("analyst/keys", "analyst: already exists; name a new folder"),
    ):
        folder = tmp_path / held.partition(".")[0].partition("/")[0]
        (folder / held).parent.mkdir(parents=True)
        (folder / held).write_text("held")
        key = ("--curator-key", str(tmp_path / "curator" / "keys.pub"))
        for more in [(), key] if "json" in held else [()]:
            assert run(["private", "init", str(folder), *terms, *more]) == 2
            assert reason in capsys.readouterr().err
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files == [folder / held]
        assert (folder / held).read_text() == "held"


def test_an_unfinished_file_of_uploads_is_counted_as_far_as_it_goes(
    there: Path, tmp_path: Path
) -> None:
    uploads = (there / "round-1.uploads").read_bytes()
    whole = len(uploads) // (3 * USERS)
    (tmp_path / "torn").write_bytes(uploads[: 10 * whole - 7])
    folder = another_shuffler(tmp_path)
    arguments = ["private", "shuffle", str(tmp_path / "torn"), *folder, "--format", "json"]
    assert json.loads(ran(*arguments)) == {
        "accepted": 9, "unreadable": 1, "held": 9, "batches": []
    }  # fmt: skip


@pytest.mark.parametrize(
    ("read", "limit"),
    [
        (Study.read, "16 MB"), (CollectionRequest.read, "16 MB"), (read_secret_keys, "1 MB"),
        (lambda path: read_public(path, "curator"), "1 MB"), (read_password, "1 MB"),
    ],
)  # fmt: skip
def test_a_file_that_never_ends_is_refused(read: Callable[[Path], object], limit: str) -> None:
    with pytest.raises(InputError, match=f"/dev/zero: larger than {limit}"):
        read(Path("/dev/zero"))
