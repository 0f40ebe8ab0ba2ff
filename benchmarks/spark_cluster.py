"""Servers of Spark Connect on this computer: Sail, or a real cluster of two workers on loopback.

The real one needs Java 17 and the package `pyspark`, whose folder `SPARK_HOME` names; Sail needs
`pysail`. Every process is started here and ended here.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 180


@dataclass(frozen=True)
class Server:
    """Address of a server, its processes, and those of its workers."""

    url: str
    processes: tuple[int, ...]
    workers: tuple[int, ...] = ()

    def resident_bytes(self) -> int:
        """Resident memory of all processes and their children, now."""
        return sum(map(_resident, family(self.processes)))


def family(processes: tuple[int, ...]) -> set[int]:
    """Processes with all their descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = set(processes)
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _resident(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    """Port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(port: int) -> None:
    """Wait until somebody listens."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens on port {port}")


@contextmanager
def _process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[int]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=log.parent,
        )
        try:
            yield process.pid
        finally:
            for child in family((process.pid,)):
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()


@contextmanager
def sail(folder: Path, *, threads: int = 2) -> Iterator[Server]:
    """Run Sail in a process of its own; its log lies in `folder`."""
    port = free_port()
    serve = f"SparkConnectServer('127.0.0.1', {port}).start(background=False)"
    command = [sys.executable, "-c", f"from pysail.spark import SparkConnectServer; {serve}"]
    environment = os.environ | {
        "SAIL_EXECUTION__DEFAULT_PARALLELISM": str(threads),
        "RUST_LOG": "error",
    }
    with _process(command, environment, folder / "sail.log") as process:
        await_port(port)
        yield Server(f"sc://127.0.0.1:{port}", (process,))


@contextmanager
def spark(
    folder: Path,
    home: Path,
    *,
    workers: int = 2,
    partitions: int = 4,
    memory: str = "2g",
    java: str = "",
) -> Iterator[Server]:
    """Run master, workers of one core, and a Spark Connect server; logs lie in `folder`.

    `java` holds options of every Java process.
    """
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_JAVA_OPTS": java,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOG_DIR": str(folder / "logs"),
        "PYSPARK_PYTHON": sys.executable,
    }
    start = str(home / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    master_port, port = free_port(), free_port()
    master = f"spark://127.0.0.1:{master_port}"
    with ExitStack() as stack:

        def run(name: str, command: list[str]) -> int:
            return stack.enter_context(_process(command, environment, folder / f"{name}.log"))

        where = ["--host", "127.0.0.1", "--port", str(master_port)]
        processes = [run("master", [start, f"{deploy}.master.Master", *where, "--webui-port", "0"])]
        await_port(master_port)
        size = ["--cores", "1", "--memory", memory, "--webui-port", "0"]
        for number in range(workers):
            command = [start, f"{deploy}.worker.Worker", "--host", "127.0.0.1", *size, master]
            processes.append(run(f"worker{number}", command))
        settings = {
            "spark.connect.grpc.binding.port": port,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java,
            "spark.executor.memory": memory,
            "spark.sql.shuffle.partitions": partitions,
            "spark.ui.enabled": "false",
        }
        options = [f"--conf={name}={value}" for name, value in settings.items()]
        submit = [str(home / "bin" / "spark-submit"), "--master", master, *options]
        connect = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        processes.append(run("connect", [*submit, *connect, "spark-internal"]))
        await_port(port)
        yield Server(f"sc://127.0.0.1:{port}", tuple(processes), tuple(processes[1 : 1 + workers]))
