"""`fpmonitor private`: what docs/private.md says works, and mistakes are told in one line."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.private import ohttp
from fpmonitor.private.commands.app import app
from fpmonitor.private.keys import read_keys, read_public
from fpmonitor.private.study import CollectionRequest, Study
from fpmonitor.private.transport import read_token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "private.md").read_text(encoding="utf-8")
SOURCE = "fixtures/logs/browsers-3.parquet"
APIS = ("Navigator.maxTouchPoints", "Navigator.platform", "Screen.colorDepth")
USERS = 120


def write_log(path: Path) -> None:
    rows = [
        {
            "user": f"user-{number}",
            APIS[0]: number % 2,
            APIS[1]: "Linux",
            APIS[2]: 24 + number // 117,
        }
        for number in range(USERS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    return [part.strip() for block in blocks for part in block.split("$ ")[1:]]


def ran(*arguments: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run([*arguments]) == 0, arguments
    return printed.getvalue()


def perform(command: str) -> str:
    """A command of the page, on a small log and with a minimum that it reaches."""
    command = command.replace(SOURCE, "users.jsonl").replace("-batch 500", "-batch 50")
    command, _, target = command.partition(" > ")
    program, *words = shlex.split(command)
    assert program == "fpmonitor"
    arguments = [
        str(path)
        for word in words
        for path in (sorted(Path().glob(word)) if "*" in word else [word])
    ]
    printed = ran(*arguments)
    if target:
        Path(target).write_text(printed, encoding="utf-8")
    return printed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All commands of the page were run here."""
    path = tmp_path_factory.mktemp("private")
    write_log(path / "users.jsonl")
    with contextlib.chdir(path):
        assert len(commands()) == 11, "examples went missing"
        for command in commands():
            perform(command)
    return path


@pytest.fixture
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def role(name: str, role_name: str, *arguments: str) -> Sequence[str]:
    keys, store = f"{role_name}.keys", f"{role_name}.db"
    return (
        "private", name, *arguments,
        "--study", "study.json", "--keys", keys, "--store", store, "--format", "json",
    )  # fmt: skip


def test_the_curator_counts_what_the_users_hold_and_shows_no_small_group(there: Path) -> None:
    found = json.loads(ran(*role("curate", "curator")))
    [ask] = found["asks"]
    assert ask["messages"] == {"accepted": 3 * USERS}
    shown = {tuple(one["apis"]): one for one in ask["sets"]}
    assert shown[(APIS[0],)]["groups"] == [
        {"tokens": ["=0"], "users": 60}, {"tokens": ["=1"], "users": 60}
    ]  # fmt: skip
    assert shown[(APIS[2],)]["groups"] == [{"tokens": ["=24"], "users": 117}]
    assert shown[(APIS[2],)]["smaller_groups"] == 1
    assert "=25" not in json.dumps(found)
    unsafe = json.loads(ran(*role("curate", "curator", "--unsafe-counts")))
    assert {"tokens": ["=25"], "users": 3} in unsafe["asks"][0]["sets"][2]["groups"]
    assert (there / "curator.db").stat().st_mode & 0o077 == 0


def test_the_analyst_sees_the_released_set_and_whether_the_promise_held(there: Path) -> None:
    chosen = CollectionRequest.read(there / "round-2.json")
    found = json.loads(ran(*role("analyze", "analyst", "--promise", "selection.json")))
    promise = found["promise"]
    assert promise["apis"] == list(chosen.sets[0])
    assert promise["users"] == USERS
    assert promise["empirical"] <= promise["fixed"]["upper"]
    assert promise["statistical"]["upper"] <= Study.read(there / "study.json").budget
    table = ran(*[*role("analyze", "analyst", "--promise", "selection.json")[:-1], "table"])
    assert "promised" in table
    assert "certificate" in table


def test_batches_and_uploads_count_once(there: Path) -> None:
    batches = [str(path) for path in (there / "round-1").iterdir()]
    found = json.loads(ran(*role("curate", "curator", *batches)))
    assert found["messages"] == {"accepted": 0, "taken before": 3 * USERS}
    again = json.loads(ran(*role("shuffle", "shuffler", "round-1.uploads")))
    assert again == {"accepted": 0, "closed ask": 3 * USERS, "held": 0, "batches": []}


def test_users_who_are_sealed_again_send_the_same_answers(there: Path) -> None:
    before = (there / "round-1.uploads").read_bytes()
    ran(*WITH_KEY)
    assert (there / "round-1.uploads").read_bytes() == before


def test_answers_below_the_minimum_are_deleted_only_when_that_is_said(
    there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uploads = (there / "round-1.uploads").read_bytes()
    (tmp_path / "few").write_bytes(uploads[: len(uploads) // USERS * 20])
    arguments = [
        "private", "shuffle", "--study", "study.json", "--keys", "shuffler.keys",
        "--store", str(tmp_path / "s.db"), "--ask", "round-1.json", "--close", "--format", "json",
    ]  # fmt: skip
    assert run([*arguments, str(tmp_path / "few")]) == 2
    said = capsys.readouterr().err
    assert "60 messages wait, below the minimum of 150" in said
    assert "--drop" in said
    assert json.loads(ran(*arguments, "--drop")) == {
        "below the minimum": 60, "held": 0, "batches": []
    }  # fmt: skip


def test_every_command_stands_in_the_documentation() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    for command in app.registered_commands:
        assert f"private {command.name}" in pages, command.name


def test_keys_are_rotated_and_retired(tmp_path: Path) -> None:
    path = str(tmp_path / "keys")
    ran("private", "keygen", "--role", "curator", "-o", path)
    ran("private", "keygen", "--rotate", "-o", path)
    assert [key.id for key in read_keys(Path(path)).keys] == [2, 1]
    ran("private", "keygen", "--retire", "1", "-o", path)
    ring = read_keys(Path(path))
    assert [key.id for key in ring.keys] == [2]
    assert Path(f"{path}.pub").read_bytes() == ring.public.to_bytes()
    assert run(["private", "keygen", "--role", "curator", "-o", path]) == 2
    assert read_keys(Path(path)).configs == ring.configs
    assert run(["private", "keygen", "-o", path]) == 2
    assert run(["private", "keygen", "-o", path, "--rotate", "--retire", "2"]) == 2


SEAL = (
    "private", "seal", "--from", "users.jsonl", "--study", "study.json", "--ask", "round-1.json",
    "--shuffler-key", "shuffler.keys.pub",
)  # fmt: skip
STUDY_COMMAND = (
    "private", "study", "--name", "x", "--apis", "A", "--budget", "0.1", "-o", "s", "--ask", "a"
)  # fmt: skip
WITH_KEY = (*SEAL, "--recipient-key", "curator.keys.pub")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((*SEAL, "--recipient-key", "none", "-o", "x"), "none"),
        ((*SEAL, "--recipient-key", "analyst.keys.pub", "-o", "x"), "the curator's are needed"),
        ((*WITH_KEY, "-o", "round-2.uploads"), "round-2.uploads: holds no answers to this request"),
        ((*WITH_KEY, "--relay", "http://127.0.0.1:9"), "--relay needs --to"),
        ((*WITH_KEY, "--quiet", "--to", "http://127.0.0.1:9"), "no answer"),
        ((*WITH_KEY, "--to", "nowhere"), "not the address"),
        ((*WITH_KEY, "--to", "https://s.example", "--relay", "https://r.example"), "gateway-keys"),
        ((*WITH_KEY, "-o", "no/such/folder"), "cannot write"),
        (role("curate", "analyst"), "analyst, not of the curator"),
        (role("curate", "curator", "study.json"), "study.json: batch"),
        (role("curate", "curator", "none"), "none: No such file"),
        (role("curate", "curator", "/dev/zero"), "/dev/zero: larger than 64 MB"),
        ((*role("curate", "curator")[:-4], "--store", "shuffler.db"), "the store of the shuffler"),
        (role("shuffle", "shuffler", "--close"), "--ask"),
        (role("shuffle", "shuffler", "none"), "none: cannot be read"),
        (role("shuffle", "shuffler", "--curator", "https://c.example"), "go together"),
        (role("analyze", "analyst", "--promise", "study.json"), "not a selection in study.json"),
        (("private", "publish", "round-1.json", "--to", "https://x", "--token", "none"), "token"),
        (STUDY_COMMAND, "--population"),
        ((*STUDY_COMMAND, "--population", "100", "--report-bytes", "20"), "report_bytes"),
        ((*STUDY_COMMAND[:-1], "round-1.json", "--population", "100"), "already exists"),
        (("private", "select", "curator.db", "--study", "study.json", "-o", "x"), "--keys FILE"),
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


def test_an_unfinished_file_of_uploads_is_counted_as_far_as_it_goes(
    there: Path, tmp_path: Path
) -> None:
    uploads = (there / "round-1.uploads").read_bytes()
    whole = len(uploads) // (3 * USERS)
    (tmp_path / "torn").write_bytes(uploads[: 10 * whole - 7])
    arguments = [
        "private", "shuffle", str(tmp_path / "torn"), "--study", "study.json", "--keys",
        "shuffler.keys", "--store", str(tmp_path / "s.db"), "--ask", "round-1.json",
        "--format", "json",
    ]  # fmt: skip
    assert json.loads(ran(*arguments)) == {
        "accepted": 9, "unreadable": 1, "held": 9, "batches": []
    }  # fmt: skip


@pytest.mark.parametrize(
    ("read", "limit"),
    [
        (Study.read, "16 MB"), (CollectionRequest.read, "16 MB"), (read_keys, "1 MB"),
        (lambda path: read_public(path, "curator"), "1 MB"), (ohttp.read_keys, "1 MB"),
        (read_token, "1 MB"),
    ],
)  # fmt: skip
def test_a_file_that_never_ends_is_refused(read: Callable[[Path], object], limit: str) -> None:
    with pytest.raises(InputError, match=f"/dev/zero: larger than {limit}"):
        read(Path("/dev/zero"))
