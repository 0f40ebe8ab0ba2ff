"""The script that compares the vocabulary with what browsers have got."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "vocabulary.py"
_SPEC = importlib.util.spec_from_file_location("vocabulary_script", SCRIPT)
assert _SPEC
assert _SPEC.loader
script = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(script)


def support(added: Any) -> dict[str, Any]:
    return {"__compat": {"support": {"chrome": {"version_added": added}}}}


def test_only_what_a_browser_shipped_and_a_page_reads_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of WebIDL and of the compatibility data together; handlers and constructors say nothing."""
    idl = {"Navigator": ["userAgent", "quiteNew", "onlanguagechange"], "Thing": ["toJSON", "Thing"]}

    class Done:
        stdout = json.dumps(idl)

    monkeypatch.setattr(script.subprocess, "run", lambda *_given, **_named: Done)
    data = tmp_path / "@mdn" / "browser-compat-data"
    data.mkdir(parents=True)
    listed = {
        "vendor": support("1"),
        "shippedNew": support("150"),
        "planned": support(False),
        "error_event": support("1"),
    }
    builtins: dict[str, Any] = {name: {} for name in ("Date", "Intl", "Math", "Temporal")}
    builtins["Intl"] = {"Newest": {**support("150"), "rule": support("150")}}
    content = {"api": {"Navigator": listed}, "javascript": {"builtins": builtins}}
    (data / "data.json").write_text(json.dumps(content), encoding="utf-8")
    assert script.readable(tmp_path) == {
        "Navigator.userAgent",
        "Navigator.quiteNew",
        "Navigator.vendor",
        "Navigator.shippedNew",
        "Intl.Newest",
        "Intl.Newest.rule",
    }
    # The vocabulary knows the user agent and the vendor.
    assert script.lacking(tmp_path) == {
        "Navigator.quiteNew",
        "Navigator.shippedNew",
        "Intl.Newest",
        "Intl.Newest.rule",
    }


def test_judgements_are_of_names_that_the_vocabulary_lacks_and_give_a_reason(
    tmp_path: Path,
) -> None:
    """A pattern judges no member of an interface where members that tell a device come."""
    rules = script.tomllib.loads(script.JUDGED.read_text(encoding="utf-8"))
    watched = set(rules.pop("watched"))
    assert {"Navigator", "Screen", "Window", "Performance"} <= watched
    every = [name for rule in rules.values() for name in rule["names"]]
    assert len(every) == len(set(every))
    assert not {name for name in every if "*" not in name} & set(known_apis())
    assert all(len(why.split()) > 5 for why in rules)
    data = tmp_path / "@mdn" / "browser-compat-data"
    data.mkdir(parents=True)
    shipped = {
        "Navigator": {"quiteNew": support("150"), "sendBeacon": support("1")},
        "HTMLSlotElement": {"assign": support("1")},
        "Unheard": {"of": support("1"), "planned": support(False)},
    }
    (data / "data.json").write_text(json.dumps({"api": shipped}), encoding="utf-8")
    names = {"Navigator.quiteNew", "HTMLSlotElement.assign", "Unheard.of", "Unheard.planned"}
    assert script.judged(names, tmp_path) == {"HTMLSlotElement.assign", "Unheard.planned"}
    assert script.judged({"Navigator.setAppBadge"}, tmp_path) == {"Navigator.setAppBadge"}
