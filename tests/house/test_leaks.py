"""Nobody let in: what was planted in a database comes out of no command, page or message."""

from __future__ import annotations

import base64
import html
import io
import json
import random
import shutil
import string
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import quote

import duckdb
import polars as pl
import pytest
from starlette.testclient import TestClient

from fpmonitor.account import KINDS
from fpmonitor.cli import command_tree
from fpmonitor.cli import run as run_program
from fpmonitor.cli.commands import LazyCommand
from fpmonitor.plugins import EXPORTERS, plugin_names
from fpmonitor.render.script_lists import ScriptForm
from fpmonitor.serve.app import openapi_document, service_app
from fpmonitor.serve.config import ServeConfig
from fpmonitor.serve.frames import (
    Content,
    FingerprintResult,
    Kind,
    Observation,
    Observations,
    PolicyReport,
    Reports,
    Results,
    frame_of,
    start_of_segment,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RECORDS = Path(__file__).parents[2] / "fixtures" / "records"
K = 10
BUG = 70
USERS = 397  # a prime: shares of it are whole numbers of users only if they are counts
# Few enough letters to stand in any name, random enough to stand nowhere else.
_RANDOM = random.Random(7)


def _plant(kind: str) -> str:
    return kind + "".join(_RANDOM.choices(string.ascii_letters + string.digits, k=18))


PLANTS = {
    kind: _plant(kind)
    for kind in (
        *("user", "unique", "rare", "agent", "api", "source", "broken", "truncated"),
        *("visitor", "component", "cookie", "header", "query", "page", "remote"),
    )
}
COMMON = ("Screen.width", "Navigator.language", "Navigator.userAgent", "Navigator.platform")
AGENTS = [f"Mozilla/5.0 (X11; rv:{v}.0) Gecko/20100101 Firefox/{v}.0" for v in range(140, 144)]


def records() -> Iterator[dict[str, Any]]:
    """Users of three weeks: everything common, but for what is planted."""
    for i in range(USERS):
        user = f"{PLANTS['user']}-{i}"
        common = {"user": user, "time": f"2026-01-{5 + 7 * (i % 3):02}T12:00:00Z"}
        agent = AGENTS[i % 4]
        if i < 4:
            agent = f"Mozilla/5.0 {PLANTS['agent']}{i} HeadlessChrome/1.0"
        elif i < 17:
            agent = "Mozilla/5.0 (compatible; Googlebot/2.1)"
        values = {
            "Navigator.userAgent": agent,
            "Screen.width": f"{PLANTS['rare']}" if 20 <= i < 27 else 1000 + i % 5,
            "Navigator.language": ("en", "de", "fr")[i % 3],
            "Canvas.hash": f"{PLANTS['unique']}-{i}",
        }
        if i >= 6:
            values["Navigator.platform"] = "Linux x86_64"
        if 30 <= i < 33:
            values[f"x.{PLANTS['api']}"] = i % 2
        source = f"{PLANTS['source']} 1.0" if 40 <= i < 43 else "lib 1.0"
        for api, value in values.items():
            yield common | {"api": api, "value": value, "source": source}


def write_logs(folder: Path) -> None:
    """Write logs of several kinds, with something planted in each."""
    folder.mkdir()
    lines = [json.dumps(record) for record in records()]
    lines[100:100] = [
        f'{{"user": "{PLANTS["broken"]}", "api": "A.a", ',
        json.dumps({"user": "", "api": "A.a", "value": PLANTS["broken"]}),
        json.dumps({"user": "x", "api": "A.a", "value": 1, "time": PLANTS["broken"]}),
        f'["{PLANTS["broken"]}"]',
    ]
    (folder / "long.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "wide.csv").write_text(
        "user,Screen.width,Navigator.language\n"
        + "".join(f"{PLANTS['user']}-w{i},1001,en\n" for i in range(40))
        + f'{PLANTS["user"]}-w40,{PLANTS["truncated"]},"en\n',
        encoding="utf-8",
    )
    result = json.loads((RECORDS / "fingerprintjs-5.json").read_text(encoding="utf-8"))
    result["visitorId"] = PLANTS["visitor"]
    result["components"]["vendor"]["value"] = PLANTS["component"]
    result["components"][f"new{PLANTS['api']}"] = {"value": 1, "duration": 1}
    (folder / "fingerprintjs.jsonl").write_text(json.dumps(result) + "\n", encoding="utf-8")
    traffic = json.loads((RECORDS / "har-1.2.har").read_text(encoding="utf-8"))
    for entry in traffic["log"]["entries"]:
        request = entry["request"]
        request["url"] += f"&q={PLANTS['query']}"
        request["headers"] += [
            {"name": "Cookie", "value": f"id={PLANTS['cookie']}"},
            {"name": "User-Agent", "value": f"Mozilla/5.0 {PLANTS['header']}"},
        ]
    (folder / "traffic.har").write_text(json.dumps(traffic), encoding="utf-8")
    request = f'"GET /?id={PLANTS["query"]} HTTP/1.1" 200 34 "https://{PLANTS["page"]}.example/"'
    visitor = f"10.9.8.7 - {PLANTS['remote']} [21/Nov/2026:04:38:03 +0000]"
    access = [
        f'{visitor} {request} "Mozilla/5.0 {PLANTS["agent"]}"',
        f"10.9.8.7 - {PLANTS['broken']} no access log at all",
    ]
    (folder / "access.log").write_text("\n".join(access) + "\n", encoding="utf-8")


# Who a row is, where the log does not say it.
WHO = {
    "fingerprintjs.jsonl": ["--user", "visitorId"],
    "traffic.har": ["--visitor"],
    "access.log": ["--visitor"],
}


def write_demand(path: Path) -> None:
    report = {
        "type": "permissions-policy-violation",
        "url": f"https://shop.example/cart?id={PLANTS['query']}",
        "body": {
            "policyId": "geolocation",
            "sourceFile": f"https://t.example/t.js?x={PLANTS['query']}",
        },
    }
    path.write_text(json.dumps(report) + "\n", encoding="utf-8")


def run(arguments: Sequence[str]) -> int:
    """Run a command as for those to whom its output is handed on."""
    return run_program(["--for-others", *arguments])


# ---- The search ---------------------------------------------------------------------------------


def written(plant: str) -> dict[bytes, str]:
    """All ways in which a plant may be written, to which encoding each belongs."""
    data = plant.encode()
    ways = {data: "plain", data.lower(): "lower case", data.hex().encode(): "hex"}
    ways |= {plant.encode(name): name for name in ("utf-16-le", "utf-16-be")}
    ways |= {quote(plant, safe="").encode(): "URL", html.escape(plant).encode(): "HTML"}
    for shift in range(3):  # base64 of a text that begins at any place
        whole = base64.b64encode(b"\0" * shift + data)
        middle = whole[4 if shift else 0 : -4]
        ways |= {middle: "base64", middle.replace(b"+", b"-").replace(b"/", b"_"): "base64url"}
    return ways


WRITTEN = {
    way: (kind, name) for kind, plant in PLANTS.items() for way, name in written(plant).items()
}


def unpacked(data: bytes) -> bytes:
    """Bytes with what is packed in them beside: text of PNG, cells of Parquet."""
    if data.startswith(b"\x89PNG"):
        return data + b"".join(_png_texts(data))
    if data.startswith(b"PAR1"):
        return data + pl.read_parquet(io.BytesIO(data)).write_json().encode()
    return data


def _png_texts(data: bytes) -> Iterator[bytes]:
    at = 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if kind in {b"zTXt", b"iTXt"}:
            start = body.find(b"\x78")
            while start >= 0:
                try:
                    yield zlib.decompressobj().decompress(body[start:])
                except zlib.error:
                    start = body.find(b"\x78", start + 1)
                else:
                    break
        at += 12 + size


def found_in(data: bytes) -> list[tuple[str, str]]:
    """Plants in the bytes, and how each is written there."""
    data = unpacked(data)
    return [kind for way, kind in WRITTEN.items() if way in data]


@pytest.mark.parametrize("prefix", ["", "a", "ab", "abc"])
def test_the_search_finds_a_plant_in_every_form(prefix: str) -> None:
    text = f"{prefix}{PLANTS['rare']} and more"
    for data in (
        text.encode(),
        text.encode("utf-16-le"),
        base64.b64encode(text.encode()),
        base64.urlsafe_b64encode(text.encode()),
        text.encode().hex().encode(),
        b"\x89PNG\r\n\x1a\n" + _chunk(b"zTXt", b"t\0\0" + zlib.compress(text.encode())),
    ):
        assert found_in(data), data
    table = io.BytesIO()
    pl.DataFrame({"a": [text]}).write_parquet(table, compression="zstd")
    assert found_in(table.getvalue())
    assert not found_in(b"nothing of the kind")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", len(body), kind) + body + b"\0" * 4


# ---- The commands -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A folder with a database of planted users; what commands write goes to `out`."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def db(self) -> str:
        return str(self.folder / "planted.duckdb")


SET = ["--apis", "Screen.width,Navigator.language"]
TEXTS = ("table", "json", "csv")
CANDIDATES = ["--candidates", ",".join((*COMMON, "Canvas.hash"))]
TOLD_BY_NAME = ["--apis", "Canvas.hash"]
# Command -> its invocations. `{...}` are files; every invocation may end in any exit code but 70,
# which is a bug. A new command must be added here.
COMMANDS: dict[str, list[list[str]]] = {
    "ingest": [
        ["{logs}", "--db", "{scratch}"],
        ["{logs}/long.jsonl", "--db", "{scratch}", "--format", "table"],
        ["{logs}/access.log", "--visitor", "--db", "{scratch}"],
        ["{logs}/long.jsonl", "--db", "{scratch}", "--collector", "har"],
        ["{logs}/traffic.har", "--db", "{scratch}", "--collector", "long"],
        ["{logs}/access.log", "--db", "{scratch}", "--collector", "wide"],
        ["{garbage}", "--db", "{scratch}"],
        ["{logs}/long.jsonl", "--db", "{scratch}", "--plan", "{out}/map.toml"],
        ["{logs}/wide.csv", "--db", "{scratch}.strict", "--strict"],
        *(["{logs}", "--db", f"{{scratch}}.{form}", "--format", form] for form in TEXTS),
    ],
    "db batches": [["--format", form] for form in TEXTS],
    "db rejects": [["--format", form] for form in TEXTS],
    "db apis": [
        *(["--format", form] for form in TEXTS),
        ["--volatile", "raw"],
        ["--drop-automation"],
    ],
    "exposure": [
        *([*SET, "--format", form] for form in TEXTS),
        [*TOLD_BY_NAME, "--bounds", "--trust", "joint", "--entropies"],
        [*SET, "--given", "Navigator.userAgent", "--format", "table"],
        [*SET, "--given", "Canvas.hash"],
        [*SET, "--drop-automation", "--population", "1000"],
        [*SET, "--what-if", "{what_if}"],
        [*SET, "--support", "1"],
        ["--apis", "x.user"],
    ],
    "lists demand": [["{demand}"], ["--by", "site", "--format", "table"]],
    "db automation": [[*SET, "--format", form] for form in TEXTS],
    "collect log-line": [["nginx"], ["apache"]],
    "exposure --rank": [["--size", "2", "--format", form] for form in TEXTS],
    "exposure --curve": [[*SET, "--format", "table"], TOLD_BY_NAME],
    "collect shares": [["--by", "Screen.width,os"], ["--by", "Canvas.hash"], ["{logs}/access.log"]],
    "db questions": [["--format", form] for form in TEXTS],
    "decide": [
        ["--budget", "0.1", *CANDIDATES, "-o", "{out}/decision.json"],
        ["--budget", "0.1", "--format", "table"],
        ["--budget", "0.1", *CANDIDATES, "--setting", "sample", "--format", "csv"],
    ],
    "gate": [["{decision}", "--want", "Screen.width"], ["{decision}", "--want", "x.other"]],
    "check": [["{decision}", "--format", form] for form in ("json", "junit", "sarif", "github")],
    "exposure --by": [
        ["week", "--format", "table"],
        ["week", *SET, "--format", "json", "--svg", "{out}/trend.svg"],
        ["week", "--format", "csv", "--false-alarms", "0.9"],
    ],
    "watch": [
        ["{logs}", "--decision", "{decision}", "--once", "--settle", "0", "--db", "{scratch}"]
    ],
    "export --report": [["{decision}", "-o", "{out}/report.html"]],
    "exposure --plot": [
        ["exposure", "-o", "{out}/exposure.svg"],
        ["exposure", "-o", "{out}/exposure.png"],
        ["entropy", "-o", "{out}/entropy.svg"],
        ["curve", *TOLD_BY_NAME, "-o", "{out}/curve.svg"],
        ["trust", *SET, "-o", "{out}/trust.png"],
    ],
    "check --compare": [
        ["{db}", "{db}", "--split", "2026-01-12", "--format", form] for form in TEXTS
    ]
    + [["{decision}", "{decision}"]],
    "export": [
        ["{decision}", "--coverage", "--format", "json"],
        *(["{decision}", "--to", name] for name in plugin_names(EXPORTERS)),
        ["{decision}", "--to", "visitor-page", "--db", "{db}"],
    ],
    "export --preview": [
        ["{decision}", "--to", "firefox-policies", "--format", form] for form in TEXTS
    ],
    "lists plan": [["{decision}", "--to", "firefox-policies", "--format", "table"]],
    "lists import": [["{list}", "--from", "ublock", "--decision", "{decision}", "--db", "{db}"]],
    "lists targets": [[]],
    "lists scripts": [["{decision}", "--format", form] for form in TEXTS]
    + [["{decision}", "--to", form] for form in get_args(ScriptForm)],
    "lists schema": [[]],
    "collect snippet": [["{decision}"]],
    "release": [
        [*SET, "--k", "10", "-o", "{out}/release.parquet"],
        [*SET, "--k", "10", "-o", "{out}/cells.parquet", "--mechanism", "cells"],
        [*TOLD_BY_NAME, "--k", "10", "-o", "{out}/none.parquet"],
    ],
    "db verify": [["--format", form] for form in TEXTS],
    "db forget": [["--before", "2020-01-01", "--db", "{scratch}"]],
    "db compact": [["--db", "{scratch}"]],
    "db make-key": [["{scratch}.key"]],
    "db seal": [["{db}", "--key-file", "{key}", "--make-key", "-o", "{sealed}"]],
    "db open": [["{sealed}", "--key-file", "{garbage}", "-o", "{opened}"]],
    "db copy-out": [["{dump}"], ["{dump}"]],
    "db copy-in": [["{dump}", "--db", "{scratch}.copy", "--format", form] for form in TEXTS],
    "db views": [[]],
    "audit certificate": [
        ["{decision}", "--format", "table"],
        ["{decision}", "--db", "{db}", "--write-spectra", "{out}/spectra.json"],
        ["{decision}", "--spectra", "{garbage}"],
    ],
    "audit union": [["{decision}", "{decision}", "--db", "{db}"]],
    "audit queries": [["--format", form] for form in TEXTS],
    "audit histogram": [[*SET, "--k", "10", "--epsilon", "1"]],
    "audit partial-knowledge": [["-n", "100", "-p", "0.1", "--k", "10", "--epsilon", "1"]],
    "audit curve": [["-n", "100", "-p", "0.1", "--k", "10", "--points", "2"]],
    "audit smallest-k": [
        ["-n", "100", "-p", "0.1", "--epsilon", "1", "--delta", "0.01"],
        [*SET, "--epsilon", "1", "--delta", "0.01"],
    ],
    "audit pseudonymous": [[*SET]],
    "audit baseline": [["-n", "100", "-w", "0.01"]],
    "audit singling-out": [
        ["--release", "{out}/release.parquet", "--trials", "10"],
        ["--release", "{out}/release.parquet", "--trials", "10", "--distribution", "{garbage}"],
    ],
    "audit examples": [["--trials", "2"]],
    "audit several": [[*SET, "--k", "10", "--epsilon", "1"]],
    "audit sensitive": [["--release", "{out}/release.parquet", "--api", "Screen.width"]],
    "collect keys add": [["read", "somebody"]],
    "collect keys remove": [["read", "somebody"], ["read", "nobody"]],
    "collect keys list": [["--format", form] for form in TEXTS],
    "ldp metrics": [["--mechanism", "grr", "--values", "3", "--epsilon", "1"]],
    "ldp compare": [["--values", "3", "--users", "10"]],
    "ldp optimal": [["--values", "3", "--epsilon", "1"]],
    "ldp plan": [["--accuracy", "0.5", "--k", "10", "--candidates", "Screen.width"]],
    "private simulate": [
        ["--budget", "0.5", *SET],
        ["--budget", "0.5", *SET, "--group", "50", "--setting", "fixed"],
    ],
}
# Commands that are looked at elsewhere, or have no users to tell of.
ELSEWHERE = {
    "quickstart": "its users are those of the fixtures: the commands that it calls are above",
    "collect serve": "test_no_answer_of_the_service_holds_a_plant",
    "scale sql": "it writes a statement and reads no user",
    "look": "it shows the owner what the owner has, and is refused for others",
    "mcp": "test_no_count_below_k_and_no_value_is_told in tests/house/test_assistant.py",
    "ui": "its page shows the owner what the owner has, and it is refused for others",
    **dict.fromkeys(
        (
            *("scale convert", "scale fetch"),
            *("scale sketch key", "scale sketch make", "scale sketch merge"),
        ),
        "what it writes is as secret as the log or table that it reads; it tells numbers of users",
    ),
    **dict.fromkeys(
        ("scale sketch exposure", "scale sketch info"),
        "a sketch holds keyed words of values, and no value",
    ),
    **dict.fromkeys(
        (
            *("private backup", "private close", "private count"),
            *("private init", "private publish"),
            *("private rotate", "private seal", "private select", "private serve"),
            *("private shuffle", "private status"),
            *("ldp ask", "ldp reports"),
        ),
        "it works on the reports of a study, not on a database of users",
    ),
}


def names_of_commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[str]:
    command = command_tree() if command is None else command
    for mode in command.modes() if isinstance(command, LazyCommand) else ():
        yield " ".join((*path, mode.entry.name))
    command = command.load() if isinstance(command, LazyCommand) else command
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from names_of_commands(below, (*path, name))
    else:
        yield " ".join(path)


def test_every_command_is_looked_at() -> None:
    assert set(names_of_commands()) == set(COMMANDS) | set(ELSEWHERE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("leaks"))
    write_logs(place.folder / "logs")
    place.out.mkdir()
    write_demand(place.folder / "demand.jsonl")
    (place.folder / "garbage").write_bytes(PLANTS["broken"].encode() * 50)
    (place.folder / "list.txt").write_text("example.com#%#//scriptlet('x')\n", encoding="utf-8")
    (place.folder / "less.toml").write_text('["Screen.width"]\nround = 100\n', encoding="utf-8")
    decision = str(place.folder / "decision.json")
    for log in sorted((place.folder / "logs").iterdir()):
        who = WHO.get(log.name, [])
        assert run(["ingest", str(log), *who, "--db", place.db, "-q", "-o", "/dev/null"]) == 0
    shutil.copy(place.db, place.folder / "stored.duckdb")
    asked = ["--budget", "0.5", *CANDIDATES, "-q", "-o", decision]
    assert run(["decide", "--db", place.db, *asked]) == 0
    return place


def filled(place: Place, argument: str) -> str:
    names = {
        "logs": "logs",
        "scratch": "scratch.duckdb",
        "db": "planted.duckdb",
        "decision": "decision.json",
        "garbage": "garbage",
        "demand": "demand.jsonl",
        "what_if": "less.toml",
        "list": "list.txt",
        "key": "key",
        "sealed": "sealed.age",
        "opened": "opened",
        "dump": "dump",
        "out": "out",
    }
    for name, file in names.items():
        argument = argument.replace(f"{{{name}}}", str(place.folder / file))
    return argument


@pytest.mark.each
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_lets_out_what_is_planted(
    command: str,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """With all of these options; on a push with the first ones."""
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("FPMONITOR_DB", place.db)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("FPMONITOR_DEBUG", "1")  # tracebacks must be clean, too
    tried = COMMANDS[command][: 1 if request.config.option.push else None]
    for invocation in tried:
        given = [*command.split(), *(filled(place, argument) for argument in invocation)]
        assert run(given) != BUG, given
        said = capfd.readouterr()
        written = {"stdout": said.out.encode(), "stderr": said.err.encode()}
        for file in place.out.iterdir():
            written[file.name] = file.read_bytes()
            if not file.name.startswith("release."):
                file.unlink()
        for name, data in written.items():
            assert not found_in(data), (given, name)


# ---- The service --------------------------------------------------------------------------------

JSON_TYPE = {"content-type": "application/json"}


def questions() -> Iterator[str]:
    """Every address that is asked, with what may be asked of it; also what is nowhere."""
    names = [*COMMON, "Canvas.hash", "x.unknown", f"x.{PLANTS['api'][:6]}"]
    parameters = {
        "/v1/gate": [f"?want={api}" for api in names],
        "/v1/exposure": ["", *(f"?apis={api}" for api in names), f"?apis={','.join(COMMON)}"],
        "/dashboard/explore": ["", *(f"?api={api}" for api in names)],
    }
    service = json.loads(openapi_document())
    pages = ["/", "/login", "/dashboard/live", "/dashboard/apis", "/dashboard/explore", "/nowhere"]
    pages += ["/logout"]
    for path in (*service["paths"], *pages):
        for query in parameters.get(path, [""]):
            yield path + query


def test_every_address_is_asked() -> None:
    asked = {address.partition("?")[0] for address in questions()}
    routes = {route.path for route in service_app(ServeConfig()).routes}  # type: ignore[attr-defined]
    files = {path for path in routes if path.endswith((".js", ".css"))}
    assert routes - files <= asked


@pytest.mark.parametrize("with_decision", [True, False])
def test_no_answer_of_the_service_holds_a_plant(
    with_decision: bool,
    place: Place,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    db = tmp_path / "served.duckdb"
    db.write_bytes(Path(place.db).read_bytes())
    decision = place.folder / "decision.json" if with_decision else None
    caplog.set_level("DEBUG")
    bodies = [
        b'{"user": "%s"' % PLANTS["broken"].encode(),
        json.dumps({"user": PLANTS["user"], "api": 7}).encode(),
        json.dumps({"user": PLANTS["user"], "api": "A.a", "value": PLANTS["unique"]}).encode(),
        json.dumps({"type": "x", "url": f"https://a.example/?{PLANTS['query']}"}).encode(),
        PLANTS["broken"].encode("utf-16"),
    ]
    answers = []
    config = ServeConfig(db=db, decision=decision, flush_seconds=3600.0)
    with TestClient(service_app(config), base_url="http://localhost") as client:
        for address in questions():
            answers.append(client.get(address))
        for path in ("/v1/observations", "/v1/reports"):
            answers += [client.post(path, content=body, headers=JSON_TYPE) for body in bodies]
        answers.append(client.post("/login", content=f"token={PLANTS['broken']}"))
        answers.append(client.post("/logout", content=f"token={PLANTS['broken']}"))
    assert {answer.status_code for answer in answers} >= {200, 202, 400, 404, 405}
    assert all(answer.status_code < 500 or answer.status_code == 503 for answer in answers)
    for answer in answers:
        data = answer.content + repr(dict(answer.headers)).encode()
        assert not found_in(data), answer.url
    said = capfd.readouterr()
    for text in (caplog.text, said.out, said.err):
        assert not found_in(text.encode())
    assert any('"event": "request"' in message for message in caplog.messages)


# ---- Counts -------------------------------------------------------------------------------------

# Members that are numbers of something else than users of this database.
NO_USERS = {
    *("k", "delta", "budget", "values", "cohorts", "population", "theorem6_floor", "false_alarms"),
    *("evaluated", "seconds", "pairs", "disagreeing_pairs", "place_by_entropy", "rows", "apis"),
    *(
        "place_by_exposure",
        "places_apart",
        "tests",
        "entropy_bits",
        "misleading_factor",
        "misleading_factor_worst_5",
        "misleading_factor_worst_1",
        "rejected",
    ),
    *("scripts", "sites", "support", "bits", "naive_group_size", "duplicates", "utility", "value"),
    *("utility_bound", "p_value", "weight", "trials", "entropy_upper_bits", "read", "stored"),
    *("conditional_entropy_bits", "average_min_entropy_bits", "cells_share_by_dropping_apis"),
    *("delta_estimated", "seed"),
    *("delta_certified", "confidence", "epsilon", "rare_up_to", "common_from"),
    *KINDS,  # numbers of columns
    *("linked_lower", "linked_upper"),
    *("lower", "upper", "width"),  # limits, and of theorems: both are wider than any count
}
ASKED = {
    "db apis": [],
    "exposure": [
        *(
            "--apis",
            "Screen.width",
            "--apis",
            "Navigator.platform",
            "--apis",
            "Navigator.userAgent",
        ),
        *("--apis", "Screen.width,Navigator.language", "--bounds", "--trust", "joint"),
    ],
    "exposure given": ["--apis", "Screen.width", "--given", "Navigator.userAgent"],
    "db automation": ["--apis", "Screen.width", "--apis", "Navigator.platform"],
    "exposure --rank": ["--size", "2", "--candidates", ",".join(COMMON)],
    "exposure --curve": ["--apis", "Screen.width"],
    "exposure --by week": ["--apis", "Screen.width", "--apis", "Navigator.platform"],
    "release": ["--apis", "Screen.width", "--k", "10", "-o", "counts.parquet"],
    "decide": ["--budget", "0.1", "--candidates", ",".join(COMMON), "--setting", "sample"],
}


def numbers_of(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a JSON document and the member that it belongs to."""
    if isinstance(content, dict):
        for member, value in content.items():
            yield from numbers_of(value, member)
    elif isinstance(content, list):
        for value in content:
            yield from numbers_of(value, name)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield name, content


def few_users(number: float, totals: set[int]) -> set[int]:
    """Counts of 1 to k - 2 users that a whole number is, or a fraction is a share for.

    k - 1 is what all of them are told as.
    """
    return {
        count
        for count in range(1, K - 1)
        if (isinstance(number, int) and number == count)
        or any(abs(number * total - count) < 1e-6 for total in totals)
    }


def test_the_search_for_counts_finds_one() -> None:
    totals = {397}
    assert few_users(7, totals) == few_users(7 / 397, totals) == {7}
    for number in (9 / 397, 0.0, 0, 12, 1.0):
        assert not few_users(number, totals)
    assert list(numbers_of({"a": [{"b": 1}, 2, True, None]})) == [("b", 1), ("a", 2)]


@pytest.mark.parametrize("question", ASKED)
def test_no_number_is_a_count_of_fewer_than_k_users(
    question: str,
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [
        *question.removesuffix(" given").split(),
        *ASKED[question],
        "--db",
        place.db,
        "--format",
        "json",
    ]
    assert run(command) == 0
    content = json.loads(capsys.readouterr().out)
    numbers = list(numbers_of(content))
    totals = {int(number) for name, number in numbers if name == "users"}
    assert totals or question in {"exposure --rank", "release"}
    for name, number in numbers:
        if name not in NO_USERS:
            assert not few_users(number, totals | {USERS + 41}), (name, number)


# ---- The file -----------------------------------------------------------------------------------


def everything_in(database: Path) -> bytes:
    """Bytes of a database file and of what lies beside it, and its content, which it may pack."""
    data = b"".join(path.read_bytes() for path in database.parent.glob(f"{database.name}*"))
    with duckdb.connect(database, read_only=True) as connection:
        for (table,) in connection.execute("SHOW TABLES").fetchall():
            rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()
            data += repr(rows).encode()
    return data


KEPT = {"api", "source"}  # names of APIs and of libraries


@pytest.mark.parametrize("digested", [False, True])
def test_a_file_holds_no_ids_and_with_digests_no_values(
    digested: bool, place: Place, tmp_path: Path
) -> None:
    database = place.folder / "stored.duckdb"
    if digested:
        database = tmp_path / "x.duckdb"
        logs = sorted((place.folder / "logs").iterdir())
        for log, more in zip(logs, [["--digest-values"], *[[]] * len(logs)], strict=False):
            options = [*WHO.get(log.name, []), *more, "--db", str(database), "-o", "/dev/null"]
            assert run(["ingest", str(log), *options]) == 0
    found = {kind for kind, _ in found_in(everything_in(database))}
    values = {"unique", "rare", "agent", "component", "header"}
    assert found == (KEPT if digested else KEPT | values)


def test_digests_answer_as_values_do_and_refuse_the_rest(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "x.duckdb")
    log = str(place.folder / "logs" / "long.jsonl")
    assert run(["ingest", log, "--digest-values", "--db", database, "-o", "/dev/null"]) == 0
    clear = str(tmp_path / "clear.duckdb")
    assert run(["ingest", log, "--db", clear, "-o", "/dev/null"]) == 0
    capsys.readouterr()
    answers = []
    for db in (database, clear):
        assert run(["db", "apis", "--volatile", "raw", "--format", "json", "--db", db]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert run(["ingest", log, "--digest-values", "--db", clear]) == 2
    assert "holds values in the clear" in capsys.readouterr().err
    (tmp_path / "less.toml").write_text('["Screen.width"]\nround = 100\n', encoding="utf-8")
    for question in (
        ["db", "automation"],
        ["exposure", *SET, "--drop-automation"],
        ["exposure", *SET, "--what-if", str(tmp_path / "less.toml")],
        ["release", *SET, "--k", "10", "-o", str(tmp_path / "x.parquet")],
    ):
        assert run([*question, "--db", database]) == 2
        assert "only digests" in capsys.readouterr().err


def test_logs_of_the_service_tell_nothing_of_what_it_cannot_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    config = ServeConfig(db=tmp_path / "served.duckdb", flush_seconds=3600.0)
    config.spool_folder.mkdir()
    user, broken = PLANTS["user"], PLANTS["broken"]
    # Requests are checked before they are framed: only bytes that changed since hold such a time.
    bodies: dict[Kind, Content] = {
        "observations": Observations("local", broken, [Observation(user, "A.a", "value", "1")]),
        "fingerprintjs": Results("local", broken, [FingerprintResult(user, "", {"A.a": "1"})]),
        "reports": Reports("local", broken, [PolicyReport(user, broken, "A.a")]),
    }
    for kind, body in bodies.items():
        frames = config.spool_folder / f"0-0.{kind}.frames"
        frames.write_bytes(start_of_segment() + frame_of(body))
        frames.with_name(f"0-1.{kind}.frames").write_bytes(start_of_segment() + broken.encode())
        frames.with_name(f"0-2.{kind}.jsonl").write_text(broken, encoding="utf-8")
    with TestClient(service_app(config), base_url="http://localhost") as client:
        assert client.get("/healthz").json()["status"] == "failing"
    said = capfd.readouterr()
    for kept in ('"refused": 1', '"rejected": 1'):
        assert any(kept in message for message in caplog.messages)
    for text in (caplog.text, said.out, said.err):
        assert not found_in(text.encode())
