"""`fpmonitor mcp`, through the protocol: it answers as to others, and writes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from fpmonitor.cli import run
from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

mcp: Any = pytest.importorskip("mcp")
K = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three users are alone with a value, and one API is of four users."""
    folder = tmp_path_factory.mktemp("assistant")
    chance = random.Random(2)
    log = folder / "log.jsonl"
    with log.open("w") as file:
        for number in range(500):
            row = {"user": f"who-{number}", "Screen.width": chance.choice([390, 1280])}
            row["Navigator.userAgent"] = f"planted-{number}" if number < 3 else f"a{number % 2}"
            if number < 4:
                row["Secret.member"] = "x"
            file.write(json.dumps(row) + "\n")
    db, decision = str(folder / "x.duckdb"), str(folder / "d.json")
    assert run(["ingest", str(log), "--db", db, "-q"]) == 0
    asked = ["--budget", "5%", "--candidates", "Screen.width,Navigator.userAgent"]
    assert run(["decide", *asked, "--db", db, "-o", decision, "-q"]) == 0
    return folder


def spoken_with(folder: Path, talk: Callable[[Any], Awaitable[Any]], *more: str) -> Any:
    """Start the command as an assistant does, and talk to it over its pipes."""
    words = ["-m", "fpmonitor", "mcp", "--db", str(folder / "x.duckdb"), *more]

    async def main() -> Any:
        server = mcp.StdioServerParameters(command=sys.executable, args=words)
        async with mcp.Client(server) as client:
            return await talk(client)

    return asyncio.run(asyncio.wait_for(main(), patience(120)))


def text_of(result: Any) -> str:
    return "".join(part.text for part in result.content)


SETS = [["Navigator.userAgent"], ["Navigator.userAgent", "Screen.width"]]
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("apis", {}),
    ("exposure", {"sets": [["Screen.width"]], "n": 100_000}),
    ("exposure", {"sets": SETS}),
    ("rank", {}),
    ("rank", {"size": 2}),
    ("may_read", {"apis": ["Screen.width"]}),
]
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("exposure", {"sets": [["nowhere"]]}, "nowhere"),
    ("exposure", {"sets": [["Screen.width"]], "k": 2}, ""),
    ("exposure", {"sets": [[]]}, "at least one"),
    ("rank", {"size": 9}, "1 or 2"),
]


class Conversation(NamedTuple):
    """What one process was asked and answered, and its folder before and after."""

    tools: Any
    answers: list[Any]
    wrong: list[Any]
    files: tuple[dict[Path, bytes], dict[Path, bytes]]


@pytest.fixture(scope="module")
def talked(folder: Path) -> Conversation:
    def files() -> dict[Path, bytes]:
        return {path: hashlib.sha256(path.read_bytes()).digest() for path in folder.iterdir()}

    async def talk(client: Any) -> Any:
        tools = (await client.list_tools()).tools
        answers = [await client.call_tool(*asked) for asked in ASKED]
        return tools, answers, [await client.call_tool(*asked) for *asked, _ in WRONG]

    before = files()
    found = spoken_with(folder, talk, "--decision", str(folder / "d.json"))
    return Conversation(*found, files=(before, files()))


def test_its_tools_only_read_and_change_no_byte(talked: Conversation) -> None:
    assert {tool.name for tool in talked.tools} == {"apis", "exposure", "rank", "may_read"}
    assert all(tool.annotations.read_only_hint for tool in talked.tools)
    assert not any(answer.is_error for answer in talked.answers)
    assert json.loads(text_of(talked.answers[-1]))["verdict"] == "allow"
    before, after = talked.files
    assert after == before


def test_no_count_below_k_and_no_value_is_told(talked: Conversation) -> None:
    told = "\n".join(map(text_of, talked.answers))
    for gone in ("planted", "who-", "Secret.member"):
        assert gone not in told
    # Three of 500 users are exposed: others are told of at most nine.
    exposures = [float(text) for text in re.findall(r'"(?:empirical|exposure)": ([\d.]+)', told)]
    assert exposures
    assert all(share == 0 or share * 500 >= K - 1 for share in exposures)
    assert '"suppressed": true' in told


@pytest.mark.each
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_cannot_be_answered_is_an_error_of_the_tool(talked: Conversation, number: int) -> None:
    (_, given, word), found = WRONG[number], talked.wrong[number]
    # A `k` of the asker is refused or passed over: it is the operator's.
    if "k" in given:
        assert found.is_error or '"k": 10' in text_of(found)
        return
    assert found.is_error
    assert word in text_of(found)
    assert "\n" not in text_of(found).strip()
