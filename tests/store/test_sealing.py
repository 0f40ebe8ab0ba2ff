"""Sealed copies: only their key opens them, and every changed byte is noticed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fpmonitor.cli import run

CLEAR = b"user,Screen.width\n" + b"somebody,1024\n" * 20_000  # several chunks of 64 KiB


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    (tmp_path / "clear").write_bytes(CLEAR)
    options = ["--key-file", str(tmp_path / "key"), "-o", str(tmp_path / "sealed")]
    assert run(["db", "seal", str(tmp_path / "clear"), *options, "--make-key", "-q"]) == 0
    return tmp_path / "sealed"


def opened(sealed: Path, key: str = "key") -> int:
    folder = sealed.parent
    options = ["--key-file", str(folder / key), "-o", str(folder / "opened")]
    return run(["db", "open", str(sealed), *options, "-q"])


def test_what_is_sealed_opens_again_and_shows_nothing(sealed: Path) -> None:
    assert b"somebody" not in sealed.read_bytes()
    assert sealed.read_bytes().startswith(b"age-encryption.org/v1")
    assert opened(sealed) == 0
    assert (sealed.parent / "opened").read_bytes() == CLEAR
    for name in ("key", "sealed", "opened"):
        assert stat.S_IMODE((sealed.parent / name).stat().st_mode) == 0o600
    assert opened(sealed) == 2, "a file that is there is not written over"


def test_a_sealed_copy_is_on_disk_before_it_has_its_name(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure leaves no empty file of that name: the original may be gone by then."""
    synced: list[str] = []
    really = os.fsync

    def noted(file: int) -> None:
        place = Path(f"/proc/self/fd/{file}").readlink()
        synced.append(f"{place} {(sealed.parent / 'opened').exists()}")
        really(file)

    monkeypatch.setattr(os, "fsync", noted)
    assert opened(sealed) == 0
    file, folder = synced
    assert file.startswith(f"{sealed.parent}/.opened.")
    assert (file.split()[1], folder) == ("False", f"{sealed.parent} True")


def test_another_key_is_an_error_and_leaves_no_file(
    sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sealed.parent
    options = ["--key-file", str(folder / "other"), "-o", str(folder / "second"), "-q"]
    assert run(["db", "seal", str(folder / "clear"), *options, "--make-key"]) == 0
    before = sorted(folder.iterdir())
    assert opened(sealed, "other") == 2
    assert "another key" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("at", [0, 120, 200, 100_000, -1])
def test_a_changed_byte_is_an_error_and_leaves_no_file(
    sealed: Path, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(sealed.read_bytes())
    data[at] ^= 1
    sealed.write_bytes(data)
    before = sorted(sealed.parent.iterdir())
    assert opened(sealed) == 2
    assert "cannot be opened" in capsys.readouterr().err
    assert sorted(sealed.parent.iterdir()) == before


def test_a_file_that_was_cut_is_an_error(sealed: Path) -> None:
    data = sealed.read_bytes()
    sealed.write_bytes(data[: 64 * 1024 * 2])
    assert opened(sealed) == 2


def test_keys_that_others_can_read_or_that_are_none_are_refused(
    sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = sealed.parent / "key"
    key.chmod(0o640)
    assert opened(sealed) == 2
    assert "can be read by others" in capsys.readouterr().err
    key.chmod(0o600)
    key.write_text("no key\n", encoding="ascii")
    assert opened(sealed) == 2
    assert "not a key file" in capsys.readouterr().err
    options = ["--key-file", str(key), "-o", str(sealed.parent / "x"), "--make-key"]
    assert run(["db", "seal", str(sealed.parent / "clear"), *options]) == 2
    assert key.read_text(encoding="ascii") == "no key\n", "a key is never written over"


@pytest.mark.parametrize("name", ["clear", "other/link"])
@pytest.mark.parametrize("left", ["clear.wal", "clear.undo"])
def test_a_database_that_was_not_closed_is_not_sealed(sealed: Path, left: str, name: str) -> None:
    (sealed.parent / left).write_bytes(b"x")
    (sealed.parent / "other").mkdir()
    (sealed.parent / "other" / "link").symlink_to(sealed.parent / "clear")
    options = ["--key-file", str(sealed.parent / "key"), "-o", str(sealed.parent / "x")]
    assert run(["db", "seal", str(sealed.parent / name), *options]) == 2
    assert not (sealed.parent / "x").exists()
