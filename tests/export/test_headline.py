"""What a list says first, what its exit code is, and that it never lowers a protection unasked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.export.enforce import ControlExporter
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.headline import between_shares
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
from tests.decided import decided
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.decide.decision import Decision

FOUND = {name: load_plugin(EXPORTERS, name) for name in plugin_names(EXPORTERS)}
PRODUCTS = {name: found for name, found in FOUND.items() if isinstance(found, ControlExporter)}
CORES, ZONE = "Navigator.hardwareConcurrency", "Date.getTimezoneOffset"
APIS = (CORES, ZONE, "Screen.colorDepth", "Navigator.language", "x:app:flag")


def written(path: Path, decision: Decision) -> str:
    path.write_text(json.dumps(decision.to_json()))
    return str(path)


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_exit_code_is_one_unless_all_that_is_withheld_is_hidden(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for withheld in ([CORES], [ZONE], [CORES, "x:app:flag"], ["Screen.colorDepth"], []):
        decision = decided(
            APIS,
            allow=[set(APIS) - set(withheld)],
            block=[[api] for api in withheld],
            recommended=set(APIS) - set(withheld),
        )
        file = written(tmp_path / "d.json", decision)
        result = PRODUCTS[name].export(decision, ExportOptions())
        assert result.headline is not None
        hidden = [
            entry.enforced and entry.api not in result.headline.left
            for entry in result.verdicts
            if entry.outcome == "withheld"
        ]
        code = run(["export", file, "--to", name, "-o", str(tmp_path / "l")])
        said = capsys.readouterr().err
        if code == 2:
            assert "the list would hide nothing" in said
            continue
        assert code == (0 if all(hidden) else 1), withheld
        number = f"{sum(hidden)} of {len(withheld)} withheld APIs are hidden"
        assert said.startswith(f"{name}: {number}")
        accepted = ["export", file, "--to", name, "--partial", "-q", "-o", str(tmp_path / "l")]
        assert run(accepted) == 0


def test_the_promise_stands_only_in_a_list_that_keeps_it() -> None:
    promise = "With probability 0.95 all is well."
    open_set = decided(APIS, block=[[CORES]], undecided=[["Navigator.language"]], guarantee=promise)
    text = PRODUCTS["ublock"].export(open_set, ExportOptions()).text
    assert promise not in text
    assert "withheld APIs are hidden: a site still reads sets that expose more than 10 %" in text
    assert re.search(r"covers \d+ of the [\d,]+ known APIs", text)
    others = [api for api in APIS if api != CORES]
    kept = decided(APIS, allow=[others], block=[[CORES]], recommended=others, guarantee=promise)
    assert promise in PRODUCTS["firefox-userjs"].export(kept, ExportOptions()).text


@pytest.mark.parametrize("name", PRODUCTS)
def test_no_list_lowers_the_protection_of_its_product_unasked(name: str) -> None:
    exporter = PRODUCTS[name]
    nothing = exporter.read("[]" if name == "brave" else "{}", None).controls
    exposed = ["Navigator.plugins", "Navigator.maxTouchPoints", "HTMLCanvasElement.toDataURL"]
    for withheld in ([], [CORES], [ZONE, "Screen.width"]):
        decision = decided(
            [*exposed, *withheld],
            allow=[exposed],
            block=[[api] for api in withheld],
            recommended=exposed,
        )
        found = exporter.export(decision, ExportOptions())
        assert "-AllTargets" not in found.text
        if name in {"brave", "firefox-policies"}:
            in_force = exporter.read(found.text, None).controls
            assert set(nothing) <= set(in_force)
        if not exporter.own_protection:
            continue
        replaced = exporter.export(decision, ExportOptions(replace_protection=True))
        assert replaced.notes[0].startswith("This list replaces ")
        if name == "firefox-userjs":
            assert replaced.text.splitlines()[1].startswith("// This list replaces Firefox's own")
            assert "-AllTargets" in replaced.text


def test_a_database_gives_the_limits_of_what_stays_readable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, Any]] = [
        {"x:app:id": i if i % 2 else "a", "x:app:half": i % 2, CORES: 2 * (1 + i % 9)}
        for i in range(3_000)
    ]
    db, file = stored(tmp_path, rows), str(tmp_path / "d.json")
    assert run(["decide", "--k", "10", "--budget", "5%", "--db", db, "-q", "-o", file]) == 0
    capsys.readouterr()
    assert run(["export", file, "--to", "chromium-policies", "--db", db]) in {1, 2}
    asked = ["export", "--preview", file, "--to", "ublock", "--db", db, "--format", "json"]
    assert run(asked) == 0
    after = json.loads(capsys.readouterr().out)[1]
    assert run(["export", file, "--to", "ublock", "--db", db, "--partial"]) in {0, 2}
    said = capsys.readouterr().err
    if "would hide nothing" not in said:
        low, high = f"{100 * after['lower']:.2g}", f"{100 * after['upper']:.2g}"
        assert f"expose {low} to {high} % of the users" in " ".join(said.split())


def test_the_exit_code_of_a_gate_is_its_answer(tmp_path: Path) -> None:
    decision = decided(
        APIS, allow=[[CORES, ZONE]], block=[["Navigator.language"]],
        undecided=[["Screen.colorDepth"]], no_evidence={"x:app:flag": "one value"},
    )  # fmt: skip
    file = written(tmp_path / "d.json", decision)
    for want, code in (
        (CORES, 0),
        (f"{CORES},{ZONE}", 0),
        (f"{CORES},Navigator.language", 1),
        ("Screen.colorDepth", 3),
        ("x:app:flag", 3),
    ):
        asked = ["gate", file, "--want", want, "-o", str(tmp_path / "answer.json")]
        assert run(asked) == code, want
        assert run([*asked, "--exit-zero"]) == 0


def test_limits_are_never_told_closer_than_they_are() -> None:
    assert between_shares((0.0712, 0.124)) == "7.1 to 13"
    assert between_shares((0.0799, 0.07991)) == "7.9 to 8"
    assert between_shares((0.07, 0.07)) == "7"
    assert between_shares((0.9996, 1.0)) == "99 to 100"
