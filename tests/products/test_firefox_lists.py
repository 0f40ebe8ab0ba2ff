"""Exported lists beside the installed Firefox: its schema of policies, and its targets.

Needs Debian's `firefox-esr`.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import jsonschema
import pytest

from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.firefox import POLICIES
from fpmonitor.export.firefox_targets import installed_targets, shipped_tables
from tests.decided import decided

FIREFOX = Path("/usr/lib/firefox-esr")
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
