"""Targets of Firefox's fingerprinting protection: their names differ from version to version."""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.safe_files import read_json, typed

_TARGETS = "modules/RFPTargetConstants.sys.mjs"
_CONSTANTS = "modules/AppConstants.sys.mjs"
_MAX_MEMBER_BYTES = 16_000_000
# RuntimeError: encrypted; NotImplementedError: packed in a way that Python does not know.
_BROKEN_ARCHIVE = (
    OSError, KeyError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error,
    lzma.LZMAError,
)  # fmt: skip
_NO_TARGETS = {"AllTargets", "IsAlwaysEnabledForPrecompute"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTable:
    """Targets of one version of Firefox."""

    version: str  # As in `153.7.0`.
    targets: tuple[str, ...]  # All names, sorted.
    # baseline, protection: Targets that are on in a stock desktop Firefox, and with its stronger
    # protection.
    baseline: tuple[str, ...]
    protection: tuple[str, ...]


@cache
def shipped_tables() -> dict[str, TargetTable]:
    """Tables that fpmonitor brings, by major version."""
    text = (resources.files("fpmonitor.export") / "firefox_targets.json").read_text("utf-8")
    return msgspec.json.decode(text, type=dict[str, TargetTable])


def target_table(source: str | Path) -> TargetTable:
    """Table of a version that fpmonitor brings, or of a file that `fpmonitor lists targets` made.

    Raises:
        UnknownNameError: Neither a known version nor a file.
        InputError: The file is not such a table.
    """
    if (version := str(source)) in shipped_tables():
        return shipped_tables()[version]
    try:
        is_file = Path(source).exists()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        raise UnknownNameError("Firefox version or file", version, shipped_tables())
    content = read_json(Path(source), "table of Firefox targets")
    return typed(
        content,
        TargetTable,
        "a table of Firefox targets",
        hint="make one with `fpmonitor lists targets`",
    )


def installed_targets(path: Path) -> TargetTable:
    """Table of an installed Firefox, from its `omni.ja` or the folder that holds it.

    Raises:
        InputError: No such file, or it has no targets.
    """
    archive = path / "omni.ja" if path.is_dir() else path
    try:
        if not archive.is_file():
            raise FileNotFoundError("no such file")
        with zipfile.ZipFile(archive) as omni:
            table = _parse(_member(omni, _TARGETS), _member(omni, _CONSTANTS))
        if not table.targets:
            raise ValueError(f"{_TARGETS} names none")
    except _BROKEN_ARCHIVE as error:
        raise InputError(
            f"{archive}: no targets of Firefox ({error})",
            hint="name the folder of an installed Firefox, such as /usr/lib/firefox",
        ) from error
    return table


def _member(archive: zipfile.ZipFile, name: str) -> str:
    with archive.open(name) as member:
        # Not by the size that the archive tells, which may be false.
        content = member.read(_MAX_MEMBER_BYTES + 1)
    if len(content) > _MAX_MEMBER_BYTES:
        raise zipfile.BadZipFile(f"{name} is larger than {_MAX_MEMBER_BYTES // 1_000_000} MB")
    return content.decode()


def _parse(targets: str, constants: str) -> TargetTable:
    version = re.search(r'MOZ_APP_VERSION:\s*"([0-9.]+)', constants)
    numbers = re.findall(r'^\s*"(\w+)":\s*\d+,', targets, re.MULTILINE)
    return TargetTable(
        version=version[1] if version else "unknown",
        targets=tuple(sorted({*numbers} - _NO_TARGETS)),
        baseline=_default_set(targets, "DefaultTargetsBaseline"),
        protection=_default_set(targets, "DefaultTargetsFPP"),
    )


def _default_set(text: str, name: str) -> tuple[str, ...]:
    found = re.search(name + r'\s*=\s*\{\s*"DESKTOP_DEFAULT":\s*\[([^\]]*)\]', text)
    return tuple(re.findall(r'"(\w+)"', found[1])) if found else ()
