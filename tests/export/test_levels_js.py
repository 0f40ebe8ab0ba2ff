"""The JavaScript that shows values at levels shows what fpmonitor counted as shown."""

from __future__ import annotations

import http.server
import json
import random
import shutil
import subprocess
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.decision import Decision
from fpmonitor.errors import InputError
from fpmonitor.export.levels_js import write
from fpmonitor.logs.contract import LARGE_VALUE_BYTES
from fpmonitor.policy import Policy
from fpmonitor.population.levels import Component, LevelMap, level_words
from tests.firefox import firefox
from tests.patience import wait
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NODE, CHROMIUM = shutil.which("node"), shutil.which("chromium")
COMPARED = """
const [first, second] = asked;
const shown = (module, list) => list.map(([name, values]) => module.show(name, values));
const found = JSON.stringify([[...one.check(), ...two.check()], shown(one, first), shown(two, second)]);
"""  # noqa: E501
MODULES = """import * as one from "./levels1.mjs";
import * as two from "./levels2.mjs";
"""
SCRIPT = f"""{MODULES}import {{ readFileSync }} from "node:fs";
const asked = JSON.parse(readFileSync("asked.json"));
{COMPARED}console.log(found);"""
PAGE = f"""<!doctype html><meta charset="utf-8"><script type="module">{MODULES}
const asked = await (await fetch("asked.json")).json();
{COMPARED}document.title = found;</script>"""
MAPS: dict[str, tuple[LevelMap, ...]] = {
    "steps": (LevelMap(raw=True), LevelMap(step=(0.1, 50.0))),
    "steps of steps": (LevelMap(step=0.25), LevelMap(step=7.0)),
    "edges": (LevelMap(edges=(-1.0, 0.25, 1.0, 4.0, 1e16)), LevelMap(edges=(0.5, 4.0))),
    "sizes": (LevelMap(sizes=((400, 300), (300, 400), (1000, 10), (0.5, 2000))),),
    "words": (
        LevelMap(major=True, lower=True, regex=r"^[a-z]+ ?[0-9.]*"),
        LevelMap(top=("a 1", "")),
    ),
    "withheld": (LevelMap(raw=True),),
}


def decided(maps: dict[str, tuple[LevelMap, ...]], *, level: int | None = None) -> Decision:
    components = tuple(
        Component(
            name=name,
            apis=(f"{name} 1", f"{name} 2"),
            levels=levels,
            utility=tuple(map(float, range(len(levels) + 1))),
            least=0,
            most=len(levels),
        )
        for name, levels in maps.items()
    )
    policy = Policy(k=10, population=1000, budget=0.1, delta=0.05, candidates=("a",))
    shown = level_words(components, tuple(0 if name == "withheld" else level or 1 for name in maps))
    begun = replace(Decision.begun(policy), components=tuple(components))
    return replace(begun, allow=(shown,), recommended=shown)


def random_text(rng: random.Random) -> str:
    number = f"{rng.uniform(-20, 3000):.{rng.randrange(9)}f}"
    odd = "1e400 1e-31 -0 0.0 00012 1e20 1e21 12e-3 NaN 1,5 0x10 999999999999999999999 -1e-9"
    words = ["a 1.2.3", "A 1_5", "", "other", "below 4", "below -3.5", "Ä 1.2", "b"]
    words += ["ä" * (LARGE_VALUE_BYTES // 2), "ä" * (LARGE_VALUE_BYTES // 2) + "a"]
    return rng.choice([number, number, rng.choice(odd.split()), rng.choice(words)])


def kept(text: str) -> str:
    """Value as ingest keeps it."""
    return f"sha256:{'0' * 32}:{len(text)}" if len(text.encode()) > LARGE_VALUE_BYTES else text


def in_node(folder: Path) -> Any:
    if NODE is None:
        pytest.skip("Node.js is not installed")
    (folder / "script.mjs").write_text(SCRIPT, encoding="utf-8")
    command = [NODE, "script.mjs"]
    ran = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)


def in_firefox(folder: Path) -> Any:
    with serving(folder) as address, firefox(folder) as browser:
        browser.open(address)
        return json.loads(wait(lambda: browser.run("document.title")))


def in_chromium(folder: Path) -> Any:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with serving(folder) as address, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        found = json.loads(wait(page.title))
        browser.close()
        return found


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a page that puts what it finds into its title."""
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with closing(server.socket):
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize(
    "run_in",
    [
        pytest.param(in_node, marks=pytest.mark.node),
        pytest.param(in_chromium, marks=pytest.mark.browser),
        pytest.param(in_firefox, marks=pytest.mark.browser),
    ],
)
def test_javascript_and_python_show_alike(tmp_path: Path, run_in: Callable[[Path], Any]) -> None:
    rng, sent = random.Random(0), []
    for level in (1, 2):
        decision = decided({n: m for n, m in MAPS.items() if len(m) >= level}, level=level)
        (tmp_path / f"levels{level}.mjs").write_text(write(decision), encoding="utf-8")
        sent.append(
            [
                (component, (random_text(rng), random_text(rng)))
                for component in decision.components
                for _ in range(1500)
            ]
        )
    named = [[[component.name, values] for component, values in asked] for asked in sent]
    (tmp_path / "asked.json").write_text(json.dumps(named), encoding="utf-8")
    failures, *found = run_in(tmp_path)
    assert not failures
    for level, asked, shown in zip((1, 2), sent, found, strict=True):
        for (component, values), seen in zip(asked, shown, strict=True):
            raw = all(each.raw for each in component.maps(level))
            told = component.shown(level, values if raw else tuple(map(kept, values)))
            expected = [None, None] if component.name == "withheld" else [*told]
            assert seen == expected, (component.name, values)


@pytest.mark.parametrize(
    "level",
    [
        LevelMap(sort=True),
        LevelMap(regex=r"a\s"),
        LevelMap(regex="a$"),
        LevelMap(regex="(?i:a)"),
        LevelMap(regex="(?P<x>a)"),
        LevelMap(regex="a{x"),
    ],
)
def test_what_javascript_does_otherwise_is_refused(level: LevelMap) -> None:
    with pytest.raises(InputError, match="JavaScript does not show the same"):
        write(decided({"one": (level,)}))


def test_a_decision_about_levels_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stored(tmp_path, ({"Screen.width": 100 + i % 9} for i in range(2000)))
    (tmp_path / "levels.toml").write_text(
        "[[component]]\napis = ['Screen.width']\nlevels = [{raw = true}, {step = 50}]\n"
    )
    listed = str(tmp_path / "levels.json")
    levels = ["decide", "--levels", str(tmp_path / "levels.toml"), "--budget", "0.1", "-q"]
    assert run([*levels, "--db", db, "-o", listed]) == 0
    assert run(["export", listed, "--to", "levels-js", "-o", str(tmp_path / "levels.mjs")]) == 0
    assert '"apis": ["Screen.width"], "maps": []' in (tmp_path / "levels.mjs").read_text()
    assert run(["export", listed, "--to", "brave"]) == 2
    assert "--to levels-js" in capsys.readouterr().err
