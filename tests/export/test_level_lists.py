"""Levels of a decision as tiers, as a table of limits, and as sizes of windows in Firefox."""

from __future__ import annotations

import http.server
import json
import threading
import tomllib
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_any_decision
from fpmonitor.errors import InputError
from fpmonitor.export.level_lists import what_if
from fpmonitor.population.levels import Component, LevelMap, level_words
from tests.firefox import firefox
from tests.patience import wait
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = """
[[component]]
name = "textures"
apis = ["limit2d", "limit3d"]
levels = [{raw = true}, {sizes = [[2048, 512], [8192, 2048], [4096, 512]]}]
[[component]]
apis = ["memory"]
levels = [{raw = true}, {edges = [1, 2.5, 4]}]
[[component]]
apis = ["agent"]
levels = [{raw = true}]
most = 1
"""
WINDOW = """
[[component]]
apis = ["w", "h"]
levels = [{raw = true}, SIZES]
most = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    users = (
        {
            "limit2d": 2048 << i % 3 if i % 10 else 2049 + i,
            "limit3d": 512 << i % 3,
            "memory": [1, 2, 4][i % 3] if i % 8 else i / 7,
            "agent": f"agent {i % 900}",
            "w": 1000 + i % 300,
            "h": 800 + i % 2,
        }
        for i in range(2000)
    )
    stored(folder, users)
    return folder


def decided(folder: Path, text: str) -> Path:
    (folder / "levels.toml").write_text(text)
    path = folder / "levels.json"
    levels, db = str(folder / "levels.toml"), str(folder / "d.duckdb")
    asked = ["decide", "--levels", levels, "--db", db, "--budget", "5%", "-q", "-o", str(path)]
    assert run(asked) == 0
    return path


def exported(path: Path, to: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(["export", str(path), "--to", to]) == 0
    return capsys.readouterr().out


def test_tiers_are_the_maximal_vectors_and_limits_the_edges_of_the_recommended(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = decided(folder, LEVELS)
    decision = json.loads(path.read_text())
    tiers: list[dict[str, Any]] = json.loads(exported(path, "tiers", capsys))["tiers"]
    assert [tier["recommended"] for tier in tiers] == [True] + [False] * (len(tiers) - 1)
    told = [{each["name"]: each["level"] for each in tier["components"]} for tier in tiers]
    shown = [{name: level for name, level in tier.items() if level} for tier in told]
    assert sorted(shown, key=str) == sorted(decision["allow"], key=str)
    assert shown[0] == decision["recommended"] == {"textures": 1, "memory": 1}
    assert tiers[0]["utility"] == pytest.approx(decision["utility"])
    assert exported(path, "limits", capsys).splitlines() == [
        "| limit | tier 1 | tier 2 | tier 3 |",
        "|---|---|---|---|",
        "| limit2d | 2048 | 4096 | 8192 |",
        "| limit3d | 512 | 512 | 2048 |",
        "| memory | 1 | 2.5 | 4 |",
        "",
        "- agent: withheld",
    ]
    assert run(["export", str(path), "--to", "ublock"]) == 2
    assert "tiers, limits, firefox-letterboxing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("{sizes = [[900.5, 600]]}", "whole numbers"),
        ("{step = 10}, {sizes = [[900, 600]]}", "rounds nothing before"),
        ("{step = 100}", "no list of sizes"),
    ],
)
def test_sizes_that_firefox_would_show_otherwise_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], sizes: str, message: str
) -> None:
    path = decided(folder, WINDOW.replace("SIZES", sizes))
    capsys.readouterr()
    assert run(["export", str(path), "--to", "firefox-letterboxing"]) == 2
    assert message in capsys.readouterr().err


def test_a_what_if_file_shows_other_commands_the_recommended_levels(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
[[component]]
apis = ["w", "h"]
levels = [{raw = true}, {step = [10, 1]}, {step = [100, 10]}]
most = 1
[[component]]
apis = ["agent"]
levels = [{raw = true}, {major = true}]
[[component]]
apis = ["memory"]
levels = [{raw = true}]
"""
    path, coarse = decided(folder, text), folder / "coarse.toml"
    assert json.loads(path.read_text())["recommended"] == {"w + h": 1}
    coarse.write_text(exported(path, "what-if", capsys))
    db = str(folder / "d.duckdb")
    asked = ["exposure", "--apis", "w,h,agent,memory", "--what-if", str(coarse), "--db", db]
    assert run([*asked, "--format", "json"]) == 0
    # 100 to 1,200 in steps of 100; all else is withheld.
    assert json.loads(capsys.readouterr().out)[0]["values"] == 3
    path = decided(folder, LEVELS)
    capsys.readouterr()
    assert run(["export", str(path), "--to", "what-if"]) == 2
    assert "textures" in capsys.readouterr().err


def test_a_what_if_file_is_toml_whatever_apis_are_called(folder: Path) -> None:
    decision = read_any_decision(decided(folder, LEVELS))
    names = ('\N{FOX FACE} "a" \\b', "delete\x7f", "line\nbreak")
    named = tuple(
        Component(
            name=name,
            apis=(name,),
            levels=(LevelMap(constant=name),),
            utility=(0, 1),
            least=0,
            most=1,
        )
        for name in names
    )
    shown = level_words(named, (1, 1, 1))
    written = what_if(replace(decision, components=named, allow=(shown,), recommended=shown))
    assert tomllib.loads(written) == {name: {"constant": name} for name in names}


@pytest.mark.long
@pytest.mark.browser
def test_firefox_shows_a_window_as_the_level_says(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [[900, 600], [1000, 500], [640, 400]]
    path = decided(folder, WINDOW.replace("SIZES", f"{{sizes = {sizes}}}"))
    written = exported(path, "firefox-letterboxing", capsys)
    assert '"900x600, 1000x500, 640x400, 1x1"' in written
    # What fits into the window, less some hundred pixels for the bars of the browser.
    told = {(1300, 900): [900, 600], (1100, 640): [1000, 500], (700, 620): [640, 400]}
    told[500, 300] = [1, 1]
    level = LevelMap(sizes=tuple((float(wide), float(high)) for wide, high in sizes))
    for (wide, high), size in told.items():
        shown = level.shown((str(wide), str(high - 90)))
        assert shown == (("other",) * 2 if size == [1, 1] else tuple(map(str, size)))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with closing(server.socket), firefox(tmp_path, written) as browser:
        browser.open(f"http://127.0.0.1:{server.server_port}/")
        for window, size in told.items():
            wait(lambda: browser.sized(*window) == size)  # noqa: B023 -- called at once
        server.shutdown()


def test_names_are_no_markup_and_no_border_of_the_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = decided(folder, LEVELS).read_text()
    path = folder / "marked.json"
    path.write_text(content.replace('"memory"', '"me|m <b>`[x](y)"').replace('"agent"', '"a*b*"'))
    lines = exported(path, "limits", capsys).splitlines()
    assert "| me\\|m \\<b\\>\\`\\[x\\](y) | 1 | 2.5 | 4 |" in lines
    assert "- a\\*b\\*: withheld" in lines


def test_options_that_say_nothing_of_levels_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = decided(folder, LEVELS)
    for option in (["--site", "a.example"], ["--db", "no.duckdb"], ["--strict"], ["--coverage"]):
        assert run(["export", str(path), "--to", "tiers", *option]) == 2
        assert f"export: {option[0]}: not with a decision about levels" in capsys.readouterr().err
    with pytest.raises(InputError, match="site"):
        read_any_decision(path).export("tiers", site="a.example")
