"""What people type is understood: each in place of the word that the documents use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "log.csv"
    rows = "".join(f"u{i},a{i % 4},{i % 3},{i if i < 4 else 'many'}\n" for i in range(300))
    log.write_text("user,userAgent,screenWidth,rare\n" + rows)
    assert run(["ingest", str(log), "--as", "rare=", "-q"]) == 0
    command = ["decide", "--budget", "5%", "--candidates", "userAgent,screenWidth", "-q"]
    assert run([*command, "-o", "d.json"]) == 0
    assert run(["export", "d.json", "--to", "csv", "-q", "-o", "l.csv"]) == 0
    return "fpmonitor.duckdb"


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(words)) == code
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("db apis -k 5", "db apis --k 5"),
        ("db apis --json", "db apis --format json"),
        ("exposure userAgent", "exposure --apis userAgent"),
        (
            "exposure userAgent,screenWidth rare",
            "exposure --apis userAgent,screenWidth --apis rare",
        ),
        ("exposure -k 5 -n 1,000,000 rare", "exposure --k 5 --population 1000000 --apis rare"),
        ("exposure", "exposure --apis userAgent --apis screenWidth --apis rare"),
        ("export d.json csv", "export d.json --to csv"),
        ("export d.json uBlock --partial", "export d.json --to ublock --partial"),
        ("export d.json --to Firefox --partial", "export d.json --to firefox-policies --partial"),
        ("export d.json chrome --partial", "export d.json --to chromium-policies --partial"),
        ("check d.json --list l.csv --from CSV", "check d.json --list l.csv --from csv"),
        ("db apis --for-others", "--for-others db apis"),
        ("exposure rare --for-others", "--for-others exposure --apis rare"),
        ("--wait 3 apis", "--wait 3 db apis"),
        ("--wait 3 exposure rare --for-others", "--for-others --wait 3 exposure --apis rare"),
        ("version", "--version"),
        ("-V", "--version"),
        ("help gate", "gate --help"),
        ("help", "--help"),
    ],
)
def test_both_words_print_the_same(
    db: str, capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    del db
    told, wanted = (printed(capsys, *words.split()) for words in (typed, meant))
    if typed == "exposure":  # in the order of the log
        told, wanted = (str(sorted(json.loads(text), key=str)) for text in (told, wanted))
    assert told == wanted
    assert told


def test_others_are_never_told_more_where_the_option_stands_last(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    del db
    [shown] = json.loads(printed(capsys, "exposure", "rare", "--for-others"))
    assert shown["empirical"] == 9 / 300  # k - 1 of them: there are four


def test_two_formats_are_refused(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    del db
    printed(capsys, "export", "d.json", "csv", "--to", "json", code=2)


def test_a_word_that_is_no_choice_is_refused_in_plain_words(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["exposure", "A", "--db", db, "--missing", "lost"]) == 2
    said = capsys.readouterr().err
    assert "'--missing': 'lost' is not one of 'value', 'drop', 'exposed'" in said


def test_a_word_behind_two_dashes_is_no_option(tmp_path: Path) -> None:
    assert run(["ingest", "--db", str(tmp_path / "x.duckdb"), "--", "--json"]) == 2


def test_a_file_alone_is_answered_on_one_screen_where_no_browser_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer first, then the account and the next three commands; nothing stays."""
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    rows = "".join(f"u{i},a{i % 40},{i % 30},{i}\n" for i in range(3000))
    (tmp_path / "my log.csv").write_text("user,userAgent,screenWidth,note\n" + rows)
    shown = printed(capsys, "my log.csv")
    lines = shown.splitlines()
    assert lines[0] == "A site may read 2 of 2 APIs together: screenWidth, userAgent."
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    assert "from 4 columns" in shown
    assert [line.split()[1] for line in lines[-3:]] == ["ingest", "decide", "export"]
    assert "ingest 'my log.csv'" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["my log.csv"]
    rows = "".join(f"u{i},a{i % 4},{i % 3}\n" for i in range(3000))
    (tmp_path / "few.csv").write_text("user,userAgent,screenWidth\n" + rows)
    assert "no evidence about any of them" in printed(capsys, "few.csv").splitlines()[0]
    printed(capsys, "--for-others", "my log.csv", code=2)
