"""What a program asked of the files in a folder, by `strace`, and what a crash leaves of it."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

CALLS = (
    "openat,close,write,pwrite64,writev,pwritev,ftruncate,truncate,fallocate,fsync,fdatasync,lseek,"
    "rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,sendfile,"
    "copy_file_range,sendto"
)
_PAGE = 4096
_LINE = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)", re.DOTALL)
_RESULT = re.compile(r"\)? += (-?\d+)[^\"]*$")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PATH = re.compile(r'(?:<([^<>"]*)>, )?"((?:[^"\\]|\\.)*)"')
_NOT_REPLAYED = {"writev", "pwritev", "fallocate", "sendfile", "copy_file_range", "truncate"}
_RENAMES = {"rename", "renameat", "renameat2"}
ACKNOWLEDGED = b" 202 Accepted"


def trace(command: Sequence[str], output: Path) -> list[str]:
    """Return the command that runs another one and writes down its calls."""
    options = ["-f", "-y", "-s", "100000000", "-e", f"trace={CALLS}", "-o", str(output)]
    return ["strace", *options, *command]


@dataclass(frozen=True)
class Call:
    """A call that succeeded: its name, its arguments as text, and what it returned."""

    name: str
    arguments: str
    result: int

    @property
    def strings(self) -> list[bytes]:
        return [ast.literal_eval(f'b"{text}"') for text in _STRING.findall(self.arguments)]


def read_calls(path: Path) -> Iterator[Call]:
    """Read what `trace` has written; one that another thread interrupted counts at its end."""
    begun: dict[str, str] = {}
    for line in path.read_text(encoding="latin-1").splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        thread, resumed, name, rest = found.groups()
        if rest.endswith("<unfinished ...>"):
            begun[thread] = rest.removesuffix("<unfinished ...>")
            continue
        text = begun.pop(thread) + rest if resumed else rest
        result = _RESULT.search(text)
        if result and int(result[1]) >= 0:
            yield Call(resumed or name, text[: result.start()], int(result[1]))


@dataclass(eq=False)
class File:
    """Bytes as programs see them, and as they are on the disk for certain."""

    data: bytes = b""
    synced: bytes = b""
    place: int = 0


@dataclass
class Disk:
    """A folder: what its names stand for, and what they stand for on the disk for certain."""

    folder: str
    names: dict[str, File] = field(default_factory=dict)
    synced_names: dict[str, File] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    synced_folders: set[str] = field(default_factory=set)
    moved: list[tuple[str, str]] = field(default_factory=list)
    open: dict[int, tuple[File, bool]] = field(default_factory=dict)
    acknowledged: int = 0

    @classmethod
    def of(cls, folder: Path) -> Disk:
        """What is there, all of it on the disk."""
        disk = cls(str(folder))
        for path in folder.rglob("*"):
            if path.is_dir():
                disk.folders.add(str(path))
            else:
                content = path.read_bytes()
                disk.names[str(path)] = File(content, content)
        disk.synced_names, disk.synced_folders = dict(disk.names), set(disk.folders)
        return disk

    def content(self) -> dict[str, bytes]:
        """Return what programs see."""
        return {name: file.data for name, file in self.names.items()}

    def states(self, calls: Sequence[Call]) -> Iterator[tuple[str, int, dict[str, bytes]]]:
        """Yield how it was lost, how much was acknowledged by then, and what is left."""
        for call in calls:
            for way, file, part in self._torn(call):
                cut = {n: part if f is file else f.data for n, f in self.names.items()}
                yield way, self.acknowledged, cut
            if not self.apply(call):
                continue
            yield from self.lost()

    def lost(self) -> Iterator[tuple[str, int, dict[str, bytes]]]:
        """Yield what is left where the program, or the power, fails now."""
        yield "killed", self.acknowledged, self.content()
        yield "unsynced", self.acknowledged, {n: f.synced for n, f in self.names.items()}
        reached = {
            name: file.synced
            for name, file in self.synced_names.items()
            if all(part in self.synced_folders for part in self._folders_above(name))
        }
        yield "unnamed", self.acknowledged, reached

    def _folders_above(self, name: str) -> Iterator[str]:
        while len(name := _above(name)) > len(self.folder):
            yield name

    def _torn(self, call: Call) -> Iterator[tuple[str, File, bytes]]:
        """Yield the content of a file after the first page, and half the pages, of a write."""
        if call.name not in {"write", "pwrite64"} or call.result <= _PAGE:
            return
        file, appends = self.open.get(_number(call), (None, False))
        if file is None:
            return
        place = len(file.data) if appends else file.place
        if call.name == "pwrite64":
            place = int(call.arguments.rpartition(", ")[2])
        for way, size in (("first page", _PAGE), ("half", call.result // 2)):
            yield way, file, _written(file.data, place, call.strings[0][:size])

    def apply(self, call: Call) -> bool:
        """Do what a call does; return whether it was about this folder, or an answer."""
        if call.name == "sendto" or (call.name == "write" and call.arguments.startswith("1<")):
            answers = call.name == "write" or ACKNOWLEDGED in call.strings[0]
            self.acknowledged += answers
            return answers
        if call.name in _NOT_REPLAYED and self.folder in call.arguments:
            raise SystemExit(f"{call.name}({call.arguments[:200]}): cannot be replayed")
        does = {
            "openat": self._opened,
            "close": self._closed,
            **dict.fromkeys(("fsync", "fdatasync"), self._synced),
            **dict.fromkeys(("write", "pwrite64", "ftruncate", "lseek"), self._changed),
            **dict.fromkeys(_NOT_REPLAYED, lambda _: False),
        }
        return does.get(call.name, self._renamed)(call)

    def _closed(self, call: Call) -> bool:
        self.open.pop(_number(call), None)
        return False

    def _opened(self, call: Call) -> bool:
        path, flags = self._paths(call)[0], call.arguments.rpartition('"')[2]
        self.open.pop(call.result, None)
        is_new = "O_CREAT" in flags and path not in self.names
        if not path.startswith(self.folder + "/") or path in self.folders:
            return False
        file = self.names.setdefault(path, File())
        self.open[call.result] = file, "O_APPEND" in flags
        file.place = 0
        cut = "O_TRUNC" in flags and file.data
        if cut:
            file.data = b""
        return bool(is_new or cut)

    def _synced(self, call: Call) -> bool:
        file, _ = self.open.get(_number(call), (None, False))
        if file is not None:
            file.synced = file.data
            return True
        folder = call.arguments.partition("<")[2].rpartition(">")[0]
        if folder != self.folder and folder not in self.folders:
            return False
        for old, new in [pair for pair in self.moved if _above(pair[1]) == folder]:
            self.synced_names = _moved(self.synced_names, old, new)
            self.synced_folders = set(_moved(dict.fromkeys(self.synced_folders), old, new))
            self.moved.remove((old, new))
        here = {name: file for name, file in self.names.items() if _above(name) == folder}
        elsewhere = {n: file for n, file in self.synced_names.items() if _above(n) != folder}
        self.synced_names = elsewhere | here
        self.synced_folders |= {path for path in self.folders if _above(path) == folder}
        return True

    def _changed(self, call: Call) -> bool:
        file, appends = self.open.get(_number(call), (None, False))
        if file is None:
            return False
        if call.name == "lseek":
            file.place = call.result
            return False
        last = call.arguments.rpartition(", ")[2]
        if call.name == "ftruncate":
            file.data = file.data[: int(last)].ljust(int(last), b"\0")
            return True
        data = call.strings[0][: call.result]
        if call.name == "pwrite64":
            file.data = _written(file.data, int(last), data)
            return True
        place = len(file.data) if appends else file.place
        file.data = _written(file.data, place, data)
        file.place = place + len(data)
        return True

    def _renamed(self, call: Call) -> bool:
        paths = [path for path in self._paths(call) if path.startswith(self.folder + "/")]
        if not paths:
            return False
        path = paths[0]
        if call.name in {"mkdir", "mkdirat"}:
            self.folders.add(path)
        elif call.name == "rmdir" or "AT_REMOVEDIR" in call.arguments:
            self.folders.discard(path)
        elif call.name in {"unlink", "unlinkat"}:
            self.names = {name: file for name, file in self.names.items() if name != path}
        elif call.name in _RENAMES and path in self.folders:
            self.names = _moved(self.names, path, paths[1])
            self.folders = set(_moved(dict.fromkeys(self.folders), path, paths[1]))
            self.moved.append((path, paths[1]))
        else:
            file = self.names[path]
            kept = {n: f for n, f in self.names.items() if call.name not in _RENAMES or n != path}
            self.names = kept | {paths[1]: file}
        return True

    def _paths(self, call: Call) -> list[str]:
        """Paths that a call names, each made whole with the folder it stands after."""
        found = []
        for base, text in _PATH.findall(call.arguments):
            path = ast.literal_eval(f'b"{text}"').decode()
            found.append(path if path.startswith("/") else f"{base}/{path}")
        return found


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _number(call: Call) -> int:
    return int(re.match(r"\d+", call.arguments)[0])  # type: ignore[index]


def _written(data: bytes, place: int, part: bytes) -> bytes:
    return data[:place].ljust(place, b"\0") + part + data[place + len(part) :]


def _moved(names: dict[str, File], old: str, new: str) -> dict[str, File]:
    return {
        new + name[len(old) :] if f"{name}/".startswith(f"{old}/") else name: file
        for name, file in names.items()
    }


def digest(state: dict[str, bytes]) -> bytes:
    """Digest of the content of a folder."""
    found = hashlib.sha256()
    for name in sorted(state):
        found.update(name.encode() + b"\0" + hashlib.sha256(state[name]).digest())
    return found.digest()
