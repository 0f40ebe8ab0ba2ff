"""The exercises of CONTRIBUTING.md, done with toys: one file and one line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

EXPORTER = '''
"""Allow list for a product that reads one API per line."""

from fpmonitor.export.exporter import PlainExporter
from fpmonitor.export.lists import api_actions


def write(decision):
    return "".join(f"{entry.api}\\n" for entry in api_actions(decision) if not entry.is_withheld)


def check(text):
    return [f"not an API: {line}" for line in text.splitlines() if "." not in line]


LINES = PlainExporter(name="lines", summary="one API per line", write=write, check=check)
'''
COLLECTOR = """
from fpmonitor.collectors.records import RecordCollector, Visit, value_text

APIS = {"platform": "Navigator.platform", "memory": "Navigator.deviceMemory"}


class KeysCollector(RecordCollector):
    name = "keys"

    def recognises_record(self, record):
        return isinstance(record, dict) and isinstance(record.get("keys"), dict)

    def visit(self, record):
        read = record["keys"]
        return Visit({APIS[key]: value_text(read[key]) for key in APIS if key in read}, "keys")
"""
QUESTION = '''
"""How many groups of at least k users a set of APIs makes."""

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from fpmonitor.answers.sets import sorted_sets
from fpmonitor.cli.context import open_monitor
from fpmonitor.vocabulary import split_names
from fpmonitor.cli.options import DB, DEFAULT_DB, FORMAT, OUTPUT, K
from fpmonitor.cli.output import show
from fpmonitor.question import Question
from fpmonitor.render.store import listing
from fpmonitor.results import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeGroups(Result):
    """Groups of at least k users."""

    apis: tuple[str, ...]
    k: int
    groups: int

    def to_json(self):
        return asdict(self)


def count_safe_groups(population, question, apis):
    """Count the groups of at least k users."""
    [wanted] = sorted_sets([apis])
    spectrum = population.for_question(question, wanted).disclosed(wanted, question.k).most
    large = spectrum.counts >= question.k
    return SafeGroups(apis=wanted, k=question.k, groups=int(spectrum.values[large].sum()))


def groups(
    apis: Annotated[str, typer.Option("--apis", help="APIs read together.")],
    k: K = 10,
    db: DB = DEFAULT_DB,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Count the groups of at least K users."""
    with open_monitor(db) as monitor:
        found = count_safe_groups(monitor.population(), Question(k), split_names(apis))
    show(listing(found.rows()), output_format, output)
'''
ENGINE = """
import duckdb

from fpmonitor.cluster.engine import Engine


class ToyEngine(Engine):
    dialect = "duckdb"

    def __init__(self, address):
        self.address, self._connection = address, duckdb.connect()

    def close(self):
        self._connection.close()

    def frames(self, text):
        yield self._connection.sql(text).pl()
"""
# The line of a command, as it stands in fpmonitor/cli/table.py.
ENTRY = 'Entry("groups", "toy_groups:groups")'
DECISION = {
    "policy": {
        "k": 10,
        "population": 100,
        "budget": 0.1,
        "delta": None,
        "candidates": ["A.a", "B.b"],
    },
    "setting": "sample",
    "missing": "value",
    "data": {"users": 100, "digest": "none"},
    "guarantee": "none",
    "allow": [["A.a"]],
    "block": [["B.b"]],
    "undecided": [],
    "recommended": ["A.a"],
    "complete": True,
    "evaluated": 2,
    "seconds": 0.0,
}


class Toys:
    """An environment with a package beside fpmonitor, as `pip install` would leave it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, module: str, text: str, *, group: str, line: str) -> None:
        """Install one file, which one line of entry points names."""
        (self.folder / f"{module}.py").write_text(text, encoding="utf-8")
        metadata = self.folder / f"{module}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Name: {module}\nVersion: 1\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{line}\n", encoding="utf-8")

    def run(self, *commands: Sequence[str], before: str = "") -> list[str]:
        """Output of commands of fpmonitor in one process there; `before` runs first."""
        script = (
            f"{before}\nfrom fpmonitor.cli import run\nfor command in {commands!r}:\n"
            "    if code := run(command):\n        raise SystemExit(code)\n"
            "    print(chr(0), end='')"
        )
        done = subprocess.run(
            [sys.executable, "-P", "-c", script],
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\0")[:-1]


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    return Toys(tmp_path)


def test_an_exporter_is_one_file_and_one_line(toys: Toys) -> None:
    toys.add("toy_lines", EXPORTER, group="fpmonitor.exporters", line="lines = toy_lines:LINES")
    (toys.folder / "decision.json").write_text(json.dumps(DECISION), encoding="utf-8")
    assert toys.run(("export", "decision.json", "--to", "lines")) == ["A.a\n"]


def test_a_collector_is_one_file_and_one_line(toys: Toys) -> None:
    toys.add(
        "toy_keys", COLLECTOR, group="fpmonitor.collectors", line="keys = toy_keys:KeysCollector"
    )
    log = (
        '{"user": "u1", "keys": {"platform": "Linux", "memory": 8}}\n'
        '{"user": "u2", "keys": {"platform": "Win32"}}\n'
    )
    (toys.folder / "visits.log").write_text(log, encoding="utf-8")

    ingested, told = toys.run(
        ("ingest", "visits.log", "--format", "json"),
        ("db", "apis", "--unsafe-counts", "--format", "json"),
    )
    [batch] = json.loads(ingested)["batches"]
    assert (batch["collector"], batch["stored"], batch["users"], batch["apis"]) == ("keys", 2, 2, 2)
    observed = json.loads(told)
    assert {row["api"]: row["users"] for row in observed} == {
        "Navigator.deviceMemory": 1,
        "Navigator.platform": 2,
    }


def test_an_engine_is_one_file_and_one_line(toys: Toys) -> None:
    (toys.folder / "toy_engine.py").write_text(ENGINE, encoding="utf-8")
    line = "from fpmonitor.cluster.engine import ENGINES\nENGINES['toy'] = 'toy_engine:ToyEngine'"
    rows = [f"u{i},{'common' if i < 60 else 'rare' if i < 63 else i % 2}" for i in range(100)]
    (toys.folder / "log.csv").write_text("\n".join(["user,a", *rows]), encoding="utf-8")
    question = ["exposure", "--apis", "a", "--k", "10", "--format", "json"]
    there = [
        "--engine",
        "toy://memory",
        "--from",
        "SELECT * FROM 'log.csv'",
        "--db",
        "there.duckdb",
    ]
    _, plain, _, fetched = toys.run(
        ["ingest", "log.csv"],
        question,
        ["scale", "fetch", *there],
        [*question, "--db", "there.duckdb"],
        before=line,
    )
    assert json.loads(fetched) == json.loads(plain)


def test_a_question_is_one_file_and_one_line(toys: Toys) -> None:
    (toys.folder / "toy_groups.py").write_text(QUESTION, encoding="utf-8")
    rows = [f"u{i},{'common' if i < 60 else 'rare' if i < 63 else i % 2}" for i in range(100)]
    (toys.folder / "log.csv").write_text("\n".join(["user,a", *rows]), encoding="utf-8")
    line = (
        "from fpmonitor.cli import command_tree\n"
        "from fpmonitor.cli.commands import LazyCommand\n"
        "from fpmonitor.cli.table import Entry\n"
        f"command_tree().add_command(LazyCommand({ENTRY}, panel='Measure'))"
    )
    _, found, told = toys.run(
        ("ingest", "log.csv"), ("groups", "--apis", "a"), ("--help",), before=line
    )
    assert json.loads(found) == [{"apis": ["a"], "k": 10, "groups": 3}]
    assert "Count the groups of at least K users." in told
