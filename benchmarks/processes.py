"""Commands of fpmonitor in processes that begin at once, and that may be killed or hindered."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import time
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fpmonitor.cli import run
from fpmonitor.cli.table import all_entries
from fpmonitor.plugins import COLLECTORS, load_plugin, plugin_names
from fpmonitor.sql import schema_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Imported once, by the server that forks the processes: none of them has to do it again.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        *sorted({entry.home.partition(":")[0] for entry in all_entries() if entry.home}),
        "scipy.stats",
    ]
)
NOBODY = 65534
_SAMPLE = 0.1  # seconds between two looks at the memory of a process


@dataclass(frozen=True)
class Hindrance:
    """What a process may not do: write files of more bytes, be root."""

    file_bytes: int | None = None
    unprivileged: bool = False


@dataclass(frozen=True)
class Ending:
    """How a process ended: its code (-9 where it was killed), seconds, output, peak memory."""

    code: int
    seconds: float
    out: str
    err: str
    peak_bytes: int

    @property
    def is_clear(self) -> bool:
        """Whether it did what it should, or said in one line why not."""
        last = self.err.strip().splitlines()[-1:] or [""]
        return self.code == 0 or (
            self.code in {2, 3}
            and last[0].startswith("fpmonitor: error: ")
            and "Traceback" not in self.err
        )


def command(
    *arguments: object,
    folder: Path,
    kill_after: float | None = None,
    hindrance: Hindrance = Hindrance(),
) -> Ending:
    """Run a command of fpmonitor; with `kill_after` seconds it gets SIGKILL."""
    return call(_run, [str(argument) for argument in arguments], folder, kill_after, hindrance)


def call(
    function: Callable[..., Any],
    argument: Any,
    folder: Path,
    kill_after: float | None = None,
    hindrance: Hindrance = Hindrance(),
) -> Ending:
    """Call a function in a process of its own; what it returns is printed as JSON."""
    outputs = folder / ".out", folder / ".err"
    for output in outputs:
        output.unlink(missing_ok=True)
    _start_server()
    process = _CONTEXT.Process(target=_child, args=(function, argument, outputs, hindrance))
    began = time.monotonic()
    process.start()
    peak = 0
    while process.exitcode is None:
        left = None if kill_after is None else began + kill_after - time.monotonic()
        if left is not None and left <= 0:
            process.kill()
        process.join(_SAMPLE if left is None else min(_SAMPLE, max(left, 0.001)))
        peak = max(peak, _peak(process.pid))
    seconds = time.monotonic() - began
    out, err = (path.read_text(errors="replace") if path.exists() else "" for path in outputs)
    return Ending(int(process.exitcode or 0), seconds, out, err, peak)


def _start_server() -> None:
    """Start the server, unless it runs, where it finds the installed fpmonitor and no other one.

    It would else look into the folder that it starts in first: perhaps a checkout.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        forkserver.ensure_running()
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def result_of(ending: Ending) -> Any:
    """What a called function has returned."""
    if ending.code:
        raise SystemExit(f"a check ended with {ending.code}:\n{ending.err}")
    return json.loads(ending.out)


def _peak(pid: int | None) -> int:
    """Largest resident memory so far, 0 when the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def _child(
    function: Callable[..., Any], argument: Any, outputs: Sequence[Path], hindrance: Hindrance
) -> None:
    for number, path in zip((1, 2), outputs, strict=True):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    if hindrance.file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hindrance.file_bytes,) * 2)
    if hindrance.unprivileged and os.getuid() == 0:
        _load_everything()  # the interpreter may lie where only root can read
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    found = function(argument)
    code = found if isinstance(found, int) else 0
    if not isinstance(found, int):
        print(json.dumps(found))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _load_everything() -> None:
    for name in plugin_names(COLLECTORS):
        load_plugin(COLLECTORS, name)
    schema_statements(1)


def _run(arguments: list[str]) -> int:
    return run(arguments)
