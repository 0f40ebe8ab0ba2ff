"""The files of the web extension: values that k users share, and no others; data stays data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.answers.shared_values import shared_values
from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.webextension import WEBEXTENSION, unpack
from fpmonitor.monitor import Monitor
from tests.decided import decided

if TYPE_CHECKING:
    from pathlib import Path

APIS = ["Navigator.userAgent", "Navigator.hardwareConcurrency", "Screen.colorDepth"]


def files_of(values: dict[str, str], *apis: str, site: str | None = None) -> dict[str, str]:
    decision = decided({*apis}, allow=[], block=[[api] for api in apis], recommended=[])
    result = WEBEXTENSION.export(decision, ExportOptions(values=values, site=site))
    assert unpack(result.text) == result.files
    return dict(result.files)


def withheld(files: dict[str, str]) -> Any:
    return json.loads(files["page.js"].rpartition("\nrun(")[2].rpartition(", null)")[0])


def test_a_value_is_told_by_all_of_its_names() -> None:
    files = files_of({APIS[0]: "Mozilla/5.0 (X)", APIS[2]: "24"}, *APIS)
    told = withheld(files)
    assert told["WorkerNavigator.userAgent"] == told["Navigator.userAgent"] == "Mozilla/5.0 (X)"
    assert told["Navigator.appVersion"] == told["WorkerNavigator.appVersion"] == "5.0 (X)"
    assert told["Screen.pixelDepth"] == told["Screen.colorDepth"] == "24"
    assert told["Navigator.hardwareConcurrency"] is None, "refused"
    [rule, objects] = json.loads(files["rules.json"])
    assert rule["action"]["requestHeaders"] == [
        {"header": "user-agent", "operation": "set", "value": "Mozilla/5.0 (X)"}
    ]
    assert objects["action"]["responseHeaders"][0]["value"] == "object-src 'none'"


def test_what_tells_the_browser_is_told_by_scripts_and_headers() -> None:
    names = [f"NavigatorUAData.{member}" for member in ("brands", "mobile", "platform")]
    brands = json.dumps([{"brand": 'Not "A', "version": "8"}, {"brand": "B", "version": "99"}])
    values = dict(zip(names, (brands, "false", "Windows"), strict=True))
    files = files_of(values, *names)
    told = withheld(files)
    assert {name: told[name] for name in names} == values
    # What the browser would give beside other hints is never asked for.
    assert told["NavigatorUAData.getHighEntropyValues"] is None
    changed = json.loads(files["rules.json"])[0]["action"]["requestHeaders"]
    assert {one["header"]: one.get("value") for one in changed} == {
        "sec-ch-ua": r'"Not \"A";v="8", "B";v="99"',
        "sec-ch-ua-full-version": None,
        "sec-ch-ua-full-version-list": None,
        "sec-ch-ua-mobile": "?0",
        "sec-ch-ua-platform": '"Windows"',
    }
    for strange in ("[1]", "{", "a\nb"):
        files = files_of({names[0]: strange}, names[0])
        [header] = [one for one in json.loads(files["rules.json"])[0]["action"]["requestHeaders"]
                    if one["header"] == "sec-ch-ua"]  # fmt: skip
        assert "\n" not in header.get("value", "")


def test_the_size_of_a_disk_is_told_by_no_name() -> None:
    told = withheld(files_of({"StorageManager.estimate": "5000"}, "StorageManager.estimate"))
    names = {"StorageBucket.estimate", "StorageAccessHandle.estimate", "StorageManager.estimate"}
    assert {name: told[name] for name in names} == dict.fromkeys(names, "5000")
    assert "Navigator.webkitTemporaryStorage" in told


def test_other_names_of_a_withheld_secret_are_withheld_where_that_closes_it() -> None:
    agent, platform = "Navigator.userAgent", "Navigator.platform"
    alone = WEBEXTENSION.export(
        decided([agent], allow=[], block=[[agent]], recommended=[]), ExportOptions()
    )
    assert {platform, "Navigator.oscpu", "Navigator.buildID"} <= withheld(dict(alone.files)).keys()
    assert any("withheld as well" in note and platform in note for note in alone.notes)
    kept = decided([agent, platform], allow=[[platform]], block=[[agent]], recommended=[platform])
    assert platform not in withheld(dict(WEBEXTENSION.export(kept, ExportOptions()).files))


def test_a_verdict_says_what_apis_answer_and_what_layout_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Service workers read the user agent; a border tells the ratio, whatever scripts are told."""
    agent, ratio = "Navigator.userAgent", "Window.devicePixelRatio"
    decision = decided([agent, ratio], allow=[], block=[[agent], [ratio]], recommended=[])
    result = WEBEXTENSION.export(decision, ExportOptions())
    assert {(one.verdict, one.within_reach) for one in result.verdicts} == {("by-passable", True)}
    headline = result.headline
    assert headline is not None
    assert headline.near is not None
    assert (headline.hidden, headline.near.hidden, headline.near.withheld) == (0, 2, 2)
    assert headline.laid_out == (ratio,)
    file = tmp_path / "d.json"
    file.write_text(json.dumps(decision.to_json()), encoding="utf-8")
    export = ["export", str(file), "--to", "webextension", "-o", str(tmp_path / "x")]
    assert run(export) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("webextension: 0 of 2 withheld APIs are hidden")
    near = "From what APIs answer to the page's own scripts, frames and workers, 2 of 2"
    assert said[1].startswith(near)
    assert said[2] == f"Layout and drawing still reveal 1 of them: {ratio}."
    assert any("hidden in what APIs answer" in line for line in said)
    readme = (tmp_path / "x" / "README.txt").read_text(encoding="utf-8")
    assert near in readme
    assert said[2] in readme


def test_a_hint_is_withheld_without_the_others() -> None:
    """A page that may read the model still does; the version of the platform is no more told."""
    hint = "NavigatorUAData.getHighEntropyValues#{}".format
    apis = [hint("model"), hint("platformVersion")]
    decision = decided(apis, allow=[[apis[0]]], block=[[apis[1]]], recommended=[apis[0]])
    result = WEBEXTENSION.export(decision, ExportOptions())
    assert {one.api: one.verdict for one in result.verdicts}[apis[0]] == "exact"
    assert withheld(dict(result.files)) == {apis[1]: None}
    [rule, _] = json.loads(result.files["rules.json"])
    changed = [entry["header"] for entry in rule["action"]["requestHeaders"]]
    assert changed == ["sec-ch-ua-platform-version"]


def test_plugins_beside_the_pdf_viewer_are_told_by_no_pdf() -> None:
    """A page that is told of no plugin learns none by what an embedded document becomes."""
    beside = "Navigator.plugins#beyond-pdf"
    decision = decided([beside], allow=[], block=[[beside]], recommended=[])
    result = WEBEXTENSION.export(decision, ExportOptions())
    assert [one.name for one in result.controls] == ["plugins"]
    assert result.verdicts[0].enforced


@pytest.mark.parametrize("hostile", ['"); alert(1); ("', "</script>", "\u2028", "'\\\"`${1}"])
def test_a_value_is_data_in_the_code(hostile: str) -> None:
    files = files_of({APIS[0]: hostile}, APIS[0])
    assert withheld(files)["Navigator.userAgent"] == hostile
    plain = files_of({APIS[0]: "x"}, APIS[0])["page.js"]
    assert len(files["page.js"].splitlines()) == len(plain.splitlines())


def test_an_extension_for_a_site_asks_for_that_site_alone() -> None:
    manifest = json.loads(files_of({}, APIS[0], site="example.com")["manifest.json"])
    assert manifest["host_permissions"] == ["*://example.com/*", "*://*.example.com/*"]
    assert manifest["content_scripts"][0]["matches"] == manifest["host_permissions"]


@pytest.mark.parametrize(
    "change",
    [
        {"page.js": "alert(1)"}, {"page.js": None}, {"rules.json": "[{}]"}, {"manifest.json": "{}"},
    ],
)  # fmt: skip
def test_what_is_no_extension_of_ours_is_told(change: dict[str, str | None]) -> None:
    files = files_of({}, *APIS) | change
    assert WEBEXTENSION.validate(json.dumps(files)) != []
    assert WEBEXTENSION.validate("[]") != []


def monitor_of(folder: Path) -> Monitor:
    log = folder / "log.jsonl"
    rows = [
        {
            "user": f"u{i}",
            "a": "x" if i < 12 else f"{i}",
            "b": f"v{i // 3}",
            "c": "y" * 300,
            "d": i % 2,
        }
        for i in range(20)
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monitor = Monitor(folder / "d.duckdb", create=True)
    monitor.ingest([str(log)])
    return monitor


def test_only_values_that_k_users_share_are_told(tmp_path: Path) -> None:
    with monitor_of(tmp_path) as monitor:
        population = monitor.population()
        assert shared_values(population, ["a", "b", "c", "d", "e"], 10) == {"a": "x", "d": "0"}
        assert shared_values(population, ["a", "b", "d"], 11) == {"a": "x"}
        assert shared_values(population, ["a", "b"], 13) == {}


def test_a_browser_is_told_whole(tmp_path: Path) -> None:
    """The commonest platform of all is not that of the commonest browser."""
    agents = [("Chrome", "Linux")] * 14 + [("Old", "Win")] * 8 + [("New", "Win")] * 8
    log = tmp_path / "log.jsonl"
    rows = [{"user": f"u{i}", "p": p, "ua": ua, "w": p} for i, (ua, p) in enumerate(agents)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    means = {
        "ua": "Navigator.userAgent",
        "p": "Navigator.platform",
        "w": "Screen.width",
    }.__getitem__
    with Monitor(tmp_path / "d.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        population = monitor.population()
        found = shared_values(population, ["p", "ua", "w"], 10, means=means)
        assert found == {"ua": "Chrome", "p": "Linux", "w": "Win"}
        # Where no k users share both, each is told by itself.
        assert shared_values(population, ["p"], 10, means=means) == {"p": "Win"}
        assert shared_values(population, ["p", "ua"], 15, means=means) == {"p": "Win"}


def test_no_user_of_a_browser_is_told_another_ones_values(tmp_path: Path) -> None:
    """Firefox has no hints: beside its user agent those of Chrome are values of nobody."""
    agent, others = "Navigator.userAgent", ("NavigatorUAData.platform", "WorkerNavigator.platform")
    log = tmp_path / "log.jsonl"
    rows = [{"user": f"u{i}", agent: "Firefox"} for i in range(60)]
    chrome = {agent: "Chrome", **dict.fromkeys([*others, "http:user-agent"], "Chrome")}
    rows += [{"user": f"c{i}", **chrome} for i in range(50)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Monitor(tmp_path / "d.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        population = monitor.population()
        assert shared_values(population, chrome, 10) == {agent: "Firefox"}
        assert shared_values(population, others, 10) == dict.fromkeys(others, "Chrome")


def test_digests_are_no_values(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"user": f"u{i}", "a": "x"}) + "\n" for i in range(20)))
    with Monitor(tmp_path / "d.duckdb", create=True) as monitor:
        monitor.ingest([str(log)], digest_values=True)
        with pytest.raises(InputError, match="digests"):
            shared_values(monitor.population(), ["a"], 10)


def test_the_command_writes_a_folder_or_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with monitor_of(tmp_path) as monitor:
        decision = monitor.decide(k=10, budget=0.01, candidates=["a", "b"], setting="sample")
    path = tmp_path / "decision.json"
    path.write_text(
        json.dumps(decision.to_json() | {"names": {"a": APIS[0], "b": APIS[1]}, "scope": None})
    )
    command = ["export", str(path), "--to", "webextension", "--values", str(tmp_path / "d.duckdb")]
    run([*command, "-o", str(tmp_path / "extension")])
    names = {file.name for file in (tmp_path / "extension").iterdir()}
    assert names == {"manifest.json", "page.js", "rules.json", "README.txt"}
    assert '"Navigator.userAgent": "x"' in (tmp_path / "extension" / "page.js").read_text()
    capsys.readouterr()
    run(command)
    assert unpack(capsys.readouterr().out).keys() == names


def test_what_no_extension_reaches_is_said() -> None:
    apis = [*APIS, "css:prefers-color-scheme", "transport:ja4", "HTMLElement.offsetWidth"]
    decision = decided({*apis}, allow=[], block=[[api] for api in apis], recommended=[])
    found = WEBEXTENSION.export(decision, ExportOptions()).verdicts
    verdicts = {one.api: one.verdict for one in found}
    assert verdicts["Navigator.userAgent"] == "by-passable", "service workers"
    assert verdicts["css:prefers-color-scheme"] == "by-passable", "style sheets"
    assert verdicts["transport:ja4"] == verdicts["HTMLElement.offsetWidth"] == "impossible"
    assert all(one.note for one in found if one.verdict == "by-passable")


def test_a_header_of_two_names_is_withheld_by_both() -> None:
    """Else the width of an image stays in requests under the name of before."""
    decision = decided(["http:sec-ch-width"], block=[["http:sec-ch-width"]])
    content = json.loads(WEBEXTENSION.export(decision, ExportOptions()).text)
    assert WEBEXTENSION.read(json.dumps(content), None).controls
    [rule] = json.loads(content["rules.json"])
    changes = rule["action"]["requestHeaders"]
    rule["action"]["requestHeaders"] = [one for one in changes if one["header"] != "width"]
    assert len(rule["action"]["requestHeaders"]) == len(changes) - 1
    content["rules.json"] = json.dumps([rule])
    assert not WEBEXTENSION.read(json.dumps(content), None).controls
