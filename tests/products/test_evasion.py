"""Lists in real products, and a page that tries to read beside them by every way there is.

AdGuard's scriptlets need Node.js and the npm package @adguard/scriptlets in the folder that
FPMONITOR_NODE_MODULES names; managed policies of Chromium need the right to mount.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from fpmonitor.export.chromium import CHROMIUM as POLICIES_OF_CHROMIUM
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.filters import ADGUARD
from fpmonitor.export.firefox import POLICIES, USERJS
from fpmonitor.export.firefox_targets import installed_targets, shipped_tables
from fpmonitor.export.permissions_policy import PERMISSIONS_POLICY
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
from tests.decided import decided
from tests.products.browsers import (
    CHROMIUM,
    FIREFOX,
    PREFERENCES,
    STOCK,
    Stage,
    chromium_reads,
    displaying,
    firefox_reads,
    prefs,
)
from tests.products.evasion import (
    TABLE,
    adguard_extension,
    everything,
    headers_of,
    recorded,
    rows,
    tried,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fpmonitor.decide.decision import Decision
    from fpmonitor.export.enforce import ControlExporter
    from tests.products.browsers import Reading

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
needs_firefox = pytest.mark.skipif(
    not (FIREFOX / "firefox-esr").is_file(), reason="firefox-esr is not installed"
)
needs_display = pytest.mark.skipif(shutil.which("Xvfb") is None, reason="xvfb is not installed")
MODULES = os.environ.get("FPMONITOR_NODE_MODULES", "")
has_adguard = (Path(MODULES) / "@adguard" / "scriptlets").is_dir() and shutil.which("node")
RENDERER = "WebGLRenderingContext.getParameter#UNMASKED_RENDERER_WEBGL"
ZONE = "Intl.DateTimeFormat.resolvedOptions#timeZone"


def decision_of(block: Sequence[str]) -> Decision:
    return decided(block, block=[[api] for api in block])


def check(exporter: ControlExporter, product: str, before: Reading, after: Reading) -> None:
    """What a page reads beside a list is no surprise: neither to the table nor to the verdicts."""
    found = tried(before, after, exporter.families)
    table = recorded(product)
    assert len(found) > len(table) // 2
    for api, ways in found.items():
        is_open, known = set(ways.get("open", "").split()), table.get(api, ways)
        expected = set(known.get("open", "").split())
        assert expected & set(ways["tried"].split()) <= is_open <= expected, api
        [verdict] = exporter.export(decision_of([api]), ExportOptions()).verdicts
        assert not (is_open and verdict.enforced), (api, is_open, verdict)


def test_the_documentation_shows_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "exports.md").read_text(encoding="utf-8")
    assert all(f"\n{row}\n" in text for row in rows())


def test_nothing_is_exact_that_one_way_opens() -> None:
    exporters = {name: load_plugin(EXPORTERS, name) for name in plugin_names(EXPORTERS)}
    for run in json.loads(TABLE.read_text(encoding="utf-8"))["runs"]:
        users = [
            exporter
            for exporter in exporters.values()
            if set(getattr(exporter, "families", ())) & set(run["families"])
        ]
        assert users
        for api in (api for api, ways in run["apis"].items() if "open" in ways):
            for exporter in users:
                [verdict] = exporter.export(decision_of([api]), ExportOptions()).verdicts
                assert verdict.verdict == "by-passable", (api, verdict)


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    with displaying() as name:
        yield name


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reading]:
    """Readings of a plain page, of one with the headers, and of one with AdGuard's scriptlets."""
    folder = tmp_path_factory.mktemp("chromium")
    stages = {
        "plain": Stage(),
        "headers": Stage(headers=headers_of(everything(PERMISSIONS_POLICY))),
    }
    extension = None
    if has_adguard:
        extension = adguard_extension(folder / "extension", Path(MODULES))
        stages["adguard"] = Stage(host="127.0.0.1")
    readings = chromium_reads(folder, list(stages.values()), extension=extension)
    return dict(zip(stages, readings, strict=True))


@pytest.mark.long
@pytest.mark.browser
@needs_chromium
def test_headers_leave_open_what_the_table_says(chromium: dict[str, Reading]) -> None:
    before, after = chromium["plain"], chromium["headers"]
    check(PERMISSIONS_POLICY, "Chromium", before, after)
    assert "navigation" in after["http:sec-ch-ua"]
    assert "http:sec-ch-ua-model" not in after, "Accept-CH asks for it no more"
    assert after["NavigatorUAData.brands"] == before["NavigatorUAData.brands"]


@pytest.mark.long
@pytest.mark.browser
@needs_chromium
@pytest.mark.node
@pytest.mark.skipif(not has_adguard, reason="needs Node.js and @adguard/scriptlets")
def test_scriptlets_leave_open_what_the_table_says(chromium: dict[str, Reading]) -> None:
    after = chromium["adguard"]
    check(ADGUARD, "AdGuard", chromium["plain"], after)
    assert "alias" not in after.get("RTCPeerConnection.createOffer", {})
    assert after["Screen.width"]["getter"] == chromium["plain"]["Screen.width"]["getter"]


@pytest.mark.long
@pytest.mark.browser
@needs_chromium
@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_managed_policies_leave_open_what_the_table_says(
    chromium: dict[str, Reading], tmp_path: Path
) -> None:
    [after] = chromium_reads(tmp_path, [Stage()], policies=everything(POLICIES_OF_CHROMIUM))
    check(POLICIES_OF_CHROMIUM, "Chromium with policies", chromium["plain"], after)
    workers = {"worker", "nested-worker", "shared-worker", "service-worker"}
    assert set(after[RENDERER]) == {"offscreen", "transfer", *workers}


@pytest.mark.long
@pytest.mark.browser
@needs_firefox
@needs_display
def test_targets_of_firefox_leave_open_what_the_table_says(tmp_path: Path, display: str) -> None:
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
    before = firefox_reads(tmp_path / "before", display=display, userjs=prefs(STOCK))
    after = firefox_reads(
        tmp_path / "after",
        display=display,
        userjs=prefs(PREFERENCES),
        policies=everything(POLICIES),
    )
    check(POLICIES, "Firefox", before, after)
    assert before[ZONE]["window"] == "America/New_York"
    assert set(after[ZONE].values()) == {"Atlantic/Reykjavik"}
    assert set(after[RENDERER].values()) == {"Mozilla"}
    assert "RTCPeerConnection.createOffer" in before.keys() - after.keys()


@pytest.mark.long
@pytest.mark.browser
@needs_firefox
def test_a_space_in_overrides_voids_them_as_our_reader_says(tmp_path: Path) -> None:
    blocked = decision_of(["Date.getTimezoneOffset", "Navigator.maxTouchPoints"])
    text = USERJS.export(blocked, ExportOptions()).text
    spaced = text.replace(",+", ", +")
    assert USERJS.validate(text) == []
    assert USERJS.validate(spaced)
    void = firefox_reads(tmp_path, display="", userjs=spaced)
    assert void[ZONE]["window"] == "America/New_York"


@pytest.mark.browser
@needs_firefox
def test_exported_policies_fit_the_schema_in_firefox() -> None:
    with zipfile.ZipFile(FIREFOX / "browser" / "omni.ja") as omni:
        schema = json.loads(omni.read("modules/policies/policies-schema.json"))
    blocked = decision_of(["Date.getTimezoneOffset", "Navigator.languages", "Screen.width"])
    for site in (None, "example.com"):
        content = json.loads(POLICIES.export(blocked, ExportOptions(site=site)).text)
        assert list(content) == ["policies"]
        assert content["policies"].keys() <= schema["properties"].keys()
        jsonschema.Draft7Validator(schema).validate(content["policies"])
        for entry in content["policies"]["Preferences"].values():
            entry["Status"] = "loked"
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(schema).validate(content["policies"])


@pytest.mark.browser
@needs_firefox
def test_targets_of_the_installed_firefox_are_read_and_known() -> None:
    found = installed_targets(FIREFOX)
    shipped = shipped_tables().get(found.version.split(".")[0])
    assert {"JSDateTimeUTC", "CanvasRandomization"} <= set(found.targets)
    assert shipped is None or shipped.targets == found.targets
