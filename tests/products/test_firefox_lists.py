"""Exported lists beside the installed Firefox: its schema of policies, and its targets.

Needs Debian's `firefox-esr`.
"""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path

import jsonschema
import pytest

from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.firefox import POLICIES, USERJS
from fpmonitor.export.firefox_targets import installed_targets, shipped_tables
from tests.decided import decided
from tests.firefox import firefox

FIREFOX = Path("/usr/lib/firefox-esr")
SWITCH = "privacy.fingerprintingProtection"
needs_firefox = pytest.mark.skipif(
    not (FIREFOX / "firefox-esr").is_file(), reason="firefox-esr is not installed"
)


@pytest.mark.browser
@needs_firefox
def test_exported_policies_fit_the_schema_in_firefox() -> None:
    with zipfile.ZipFile(FIREFOX / "browser" / "omni.ja") as omni:
        schema = json.loads(omni.read("modules/policies/policies-schema.json"))
    apis = ["Date.getTimezoneOffset", "Navigator.languages", "Screen.width"]
    blocked = decided(apis, block=[[api] for api in apis])
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


@pytest.mark.browser
@needs_firefox
def test_a_user_js_holds_in_a_profile_that_was_used_before(tmp_path: Path) -> None:
    """Firefox noted there that its tracking protection is Standard, and takes the switch back."""
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "prefs.js").write_text(
        'user_pref("browser.contentblocking.category", "standard");\n', encoding="utf-8"
    )
    blocked = decided(["Navigator.hardwareConcurrency"], block=[["Navigator.hardwareConcurrency"]])
    text = USERJS.export(blocked, ExportOptions()).text
    with firefox(tmp_path, text) as browser:
        for _ in range(4):  # what is set once the first window is ready is set a little later
            assert browser.run_inside(f"Services.prefs.getBoolPref('{SWITCH}')")
            time.sleep(1)
