"""A list that is in use is judged by what it leaves readable, whoever edited it since."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError
from fpmonitor.export.enforce import ControlExporter
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.in_use import read_in_use
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = 6_000
# Two that tell apart together, one that does by itself, one that hardly does.
SHOWN = {
    "Navigator.hardwareConcurrency": 30,
    "Screen.width": 30,
    "HTMLCanvasElement.toDataURL": 4_000,
    "Navigator.maxTouchPoints": 3,
}
PLAIN = ("json", "csv", "gate-js")
PRODUCTS = sorted(
    name
    for name in plugin_names(EXPORTERS)
    if isinstance(load_plugin(EXPORTERS, name), ControlExporter)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    rng = np.random.default_rng(7)
    columns = {api: rng.integers(0, values, USERS) for api, values in SHOWN.items()}
    with Monitor(folder / "x.duckdb", create=True) as monitor:
        monitor.ingest(pl.DataFrame({"user": [f"u{i}" for i in range(USERS)], **columns}))
    asked = ["--k", "10", "--budget", "0.1", "-q", "-o", str(folder / "decision.json")]
    assert run(["decide", "--db", str(folder / "x.duckdb"), *asked]) == 0
    for name in (*PLAIN, *PRODUCTS):
        output = folder / name
        written = ["--to", name, "--partial", "-q", "-o", str(output)]
        assert run(["export", str(folder / "decision.json"), *written]) == 0
    return folder


def check(folder: Path, listed: Path, form: str, *more: str) -> int:
    decision, database = str(folder / "decision.json"), str(folder / "x.duckdb")
    return run(["check", decision, "--db", database, "--list", str(listed), "--from", form, *more])


def told(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)
    return found


def text_of(path: Path) -> str:
    """Text of a list; of an extension the one that its folder was unpacked from."""
    if path.is_file():
        return path.read_text(encoding="utf-8")
    return json.dumps({file.name: file.read_text(encoding="utf-8") for file in path.iterdir()})


@pytest.mark.parametrize("form", PLAIN)
def test_a_list_for_programs_holds_as_it_was_written(
    form: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(folder, folder / form, form) == 0
    rows = told(capsys.readouterr().out)
    decided = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    assert decided["recommended"] in [row["apis"] for row in rows]
    assert {row["verdict"] for row in rows} == {"allow"}
    assert all(0 <= row["lower"] <= row["upper"] <= 0.2 for row in rows)


@pytest.mark.parametrize("form", PRODUCTS)
def test_a_list_of_a_product_is_judged_by_what_stays_readable(
    form: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else `check` says of a list that hides nothing that the decision holds."""
    code = check(folder, folder / form, form)
    [row] = told(capsys.readouterr().out)
    if "HTMLCanvasElement.toDataURL" in row["apis"]:
        assert code != 0
        assert row["upper"] > 0.1
    assert code == {"allow": 0, "block": 1, "undecided": 3}[row["verdict"]]
    if form in {"chromium-policies", "permissions-policy"}:  # these reach none of the candidates
        assert sorted(row["apis"]) == sorted(SHOWN)
        assert code == 1
        assert row["lower"] > 0.1


def _json_exposes(text: str) -> str:
    content = json.loads(text)
    content["exposed"].append("HTMLCanvasElement.toDataURL")
    return json.dumps(content)


def _json_forgets(text: str) -> str:
    content = json.loads(text)
    content["withheld"] = []
    return json.dumps(content)


def _json_combines(text: str) -> str:
    content = json.loads(text)
    content["allowed_sets"].append(content["blocked_sets"][0])
    return json.dumps(content)


def _json_renames(text: str) -> str:
    content = json.loads(text)
    content["names"] = {content["exposed"][0]: "HTMLCanvasElement.toDataURL"}
    return json.dumps(content)


def _gate(text: str, change: Callable[[Any], object]) -> str:
    start = text.index("{", text.index('"policy"') - 2)
    content, length = json.JSONDecoder().raw_decode(text[start:])
    change(content)
    return text[:start] + json.dumps(content) + text[start + length :]


def _gate_renames(text: str) -> str:
    canvas = "HTMLCanvasElement.toDataURL"
    return _gate(text, lambda content: content.update(names={content["allow"][0][0]: canvas}))


WIDER: list[tuple[str, Callable[[str], str]]] = [
    ("json", _json_exposes),
    ("json", _json_forgets),
    ("json", _json_combines),
    ("csv", lambda text: text.replace(",withheld,", ",exposed,")),
    ("csv", lambda text: "\n".join(line for line in text.splitlines() if "withheld" not in line)),
    ("csv", lambda text: text + "HTMLCanvasElement.toDataURL,exposed,again\n"),
    (
        "gate-js",
        partial(_gate, change=lambda lists: lists["allow"].append(["HTMLCanvasElement.toDataURL"])),
    ),
    # Whoever asks for the canvas is answered for the API that has its name here.
    ("json", _json_renames),
    ("gate-js", _gate_renames),
]


@pytest.mark.parametrize(("form", "edit"), WIDER)
def test_a_list_that_was_widened_is_violated(
    form: str,
    edit: Callable[[str], str],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = tmp_path / "list"
    listed.write_text(edit(text_of(folder / form)), encoding="utf-8")
    assert check(folder, listed, form) == 1
    assert "block" in [row["verdict"] for row in told(capsys.readouterr().out)]


def test_a_gate_with_unions_of_its_own_is_refused(folder: Path, tmp_path: Path) -> None:
    """Its code goes by them, and a check that passed them over said that the list holds."""
    union = [{"apis": ["HTMLCanvasElement.toDataURL"], "verdict": "allow"}]
    more = {"recommended": [], "union_with": union, "block": [], "undecided": []}
    listed = tmp_path / "gate.js"
    edited = _gate(text_of(folder / "gate-js"), lambda content: content.update(more))
    listed.write_text(edited, encoding="utf-8")
    assert check(folder, listed, "gate-js") == 2
    assert load_plugin(EXPORTERS, "gate-js").validate(edited)


def test_a_list_of_before_is_read(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*csv.reader(io.StringIO(text_of(folder / "csv")))]
    old = {"exposed": "allow", "withheld": "block"}
    lines = [",".join([row[0], old[row[1]], "why"]) for row in rows[1:]]
    listed = tmp_path / "old.csv"
    listed.write_text("api,action,reason\n" + "\n".join(lines) + "\n", encoding="utf-8")
    assert check(folder, folder / "csv", "csv") == check(folder, listed, "csv") == 0
    now, before = capsys.readouterr().out.split("]\n[")
    assert told(now + "]") == told("[" + before)
    content = json.loads(text_of(folder / "json"))
    listed.write_text(json.dumps({old.get(name, name): content[name] for name in content}))
    assert check(folder, folder / "json", "json") == check(folder, listed, "json") == 0
    now, before = capsys.readouterr().out.split("]\n[")
    assert told(now + "]") == told("[" + before)


def test_what_is_no_candidate_passes_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(text_of(folder / "json"))
    content["exposed"].append("AudioBuffer.getChannelData")
    listed = tmp_path / "list.json"
    listed.write_text(json.dumps(content), encoding="utf-8")
    assert check(folder, listed, "json") == 3
    printed = capsys.readouterr()
    assert "AudioBuffer.getChannelData: exposed, and no candidate" in printed.err
    assert {row["upper"] for row in told(printed.out)} == {1.0}


@pytest.mark.parametrize("output", ["junit", "sarif", "github", "csv", "table"])
def test_every_output_tells_of_a_list_of_nothing(
    output: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "list.csv"
    rows = "".join(f"{api},withheld,all\n" for api in SHOWN)
    listed.write_text(f"api,outcome,reason\n{rows}", encoding="utf-8")
    assert check(folder, listed, "csv", "--format", output) == 0
    out = capsys.readouterr().out
    if output in {"junit", "sarif", "table"}:
        assert "no API of the decision" in out


def test_options_of_other_checks_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in (["--by", "day"], ["--new-users"], ["--since", "2026-01-01"]):
        assert check(folder, folder / "json", "json", *more) == 2
        assert more[0] in capsys.readouterr().err
    decision, database = str(folder / "decision.json"), str(folder / "x.duckdb")
    assert run(["check", decision, "--db", database, "--from", "json"]) == 2
    assert run(["check", decision, "--db", database, "--list", "x"]) == 2
    assert check(folder, folder / "json", "json", "--site", "example.com") == 2


# --- exceptions ---


def _spared(text: str) -> str:
    """Add for each rule an exception for a site."""
    calls = [line.partition("##")[2] for line in text.splitlines() if "##" in line]
    return text + "".join(f"evil.example#@#{call}\n" for call in calls)


def _with(text: str, change: Callable[[Any], None]) -> str:
    content = json.loads(text)
    change(content)
    return json.dumps(content)


def _jshelter(content: Any) -> None:
    content["custom_levels"]["none"] = {"level_id": "none"}
    content["domains"]["evil.example"] = {"level_id": "none"}


def _duckduckgo(content: Any) -> None:
    for feature in content.values():
        feature["exceptions"].append({"domain": "evil.example"})


def _jshelter_of_two(content: Any) -> None:
    """Which of two levels counts does not follow from their order."""
    level = content["__default__"]
    content["domains"] |= {"evil.example": {"level_id": "0"}, "example": {"level_id": level}}


def _patched(domain: Any, content: Any) -> None:
    settings = content["apiManipulation"]["settings"]
    paths = [f"/apiChanges/{path}" for path in settings["apiChanges"]]
    patches = [{"op": "remove", "path": path} for path in paths]
    condition = {"condition": {"domain": domain}, "patchSettings": patches}
    settings["conditionalChanges"] = [condition]


def _emptied(content: Any) -> None:
    patch = {"op": "replace", "path": "/apiChanges", "value": {}}
    condition = {"condition": {"domain": "evil.example"}, "patchSettings": [patch]}
    content["apiManipulation"]["settings"]["conditionalChanges"] = [condition]


def _tweaked(content: Any) -> None:
    """Change a site in the popup, which is kept beside the level of the site."""
    level = content["__default__"]
    tweaks = {name: 0 for name in content["custom_levels"][level] if "level" not in name}
    content["domains"]["evil.example"] = {"level_id": level, "tweaks": tweaks}


def _moved(content: Any) -> None:
    settings = content["apiManipulation"]["settings"]
    patches = [
        {"op": "move", "from": f"/apiChanges/{path}", "path": f"/gone/{path}"}
        for path in settings["apiChanges"]
    ]
    condition = {"condition": {"domain": "evil.example"}, "patchSettings": patches}
    settings["conditionalChanges"] = [condition]


def _firefox(text: str, *before: Any, **more: Any) -> str:
    scope = {"firstPartyDomain": "evil.example", "overrides": "-AllTargets"} | more
    value = json.dumps(json.dumps([*before, scope]))
    return text + f'user_pref("privacy.fingerprintingProtection.granularOverrides", {value});\n'


def _quoted(text: str) -> str:
    """Except each call for a site, its words in quotes."""
    calls = [line.partition("##+js(")[2][:-1] for line in text.splitlines() if "##+js(" in line]
    words = [", ".join(f"'{word}'" for word in call.split(", ")) for call in calls]
    return text + "".join(f"evil.example#@#+js({call})\n" for call in words)


def _before(text: str) -> str:
    """Change a site by a patch in the form of before."""
    content = json.loads(text)
    patch = {"op": "replace", "path": "/apiChanges", "value": {}}
    domains = [{"domain": "evil.example", "patchSettings": [patch]}]
    content["apiManipulation"]["settings"]["domains"] = domains
    return json.dumps(content)


def _unprotected(text: str) -> str:
    spared = [{"domain": "evil.example"}]
    return json.dumps({"unprotectedTemporary": spared, "features": json.loads(text)})


def _tracked(text: str, **policy: Any) -> str:
    return _with(text, lambda content: content["policies"].update(EnableTrackingProtection=policy))


EXEMPTED = 'user_pref("privacy.resistFingerprinting.exemptedDomains", '


SPARED: list[tuple[str, Callable[[str], str]]] = [
    ("ublock", lambda text: text + "evil.example#@#+js()\n"),
    ("ublock", _spared),
    ("ublock", lambda text: text.replace("*##", "~evil.example##").replace("*$", "-")),
    ("ublock", lambda text: text + "@@||evil.example^$document\n"),
    ("adguard", lambda text: text + "evil.example#@%#//scriptlet()\n"),
    ("adguard", lambda text: text + "@@||evil.example^$jsinject,urlblock\n"),
    ("jshelter", lambda text: _with(text, _jshelter)),
    ("duckduckgo", lambda text: _with(text, _duckduckgo)),
    ("ublock", lambda text: text + "evil.*#@#+js()\n"),
    ("jshelter", lambda text: _with(text, _jshelter_of_two)),
    ("duckduckgo", lambda text: _with(text, partial(_patched, ["a.example", "evil.example"]))),
    ("duckduckgo", lambda text: _with(text, _emptied)),
    ("brave", lambda _: '[{"include": ["<all_urls>"], "exceptions": ["all-fingerprinting"]}]'),
    ("firefox-userjs", _firefox),
    (
        "firefox-userjs",
        lambda text: (
            text
            + 'user_pref("privacy.resistFingerprinting.exemptedDomains", "*.evil.example, a.b");\n'
        ),
    ),
    ("firefox-userjs", lambda text: f'\ufeff{EXEMPTED}"evil.example");\n{text}'),
    ("firefox-userjs", lambda text: f'{text}{EXEMPTED}"evil.example");{EXEMPTED}5);\n'),
    ("firefox-userjs", lambda text: f'{text}{EXEMPTED}"evil.example");{EXEMPTED}4294967296);\n'),
    (
        "firefox-userjs",
        lambda text: _firefox(text, firstPartyDomain="*", thirdPartyDomain="evil.example"),
    ),
    # One without a domain, or of another kind, takes no other along.
    ("firefox-userjs", lambda text: _firefox(text, {"overrides": "+CanvasRandomization"}, 5)),
    ("firefox-userjs", partial(_firefox, isBaseline=True)),
    ("firefox-policies", partial(_tracked, Exceptions=["https://evil.example:8443"])),
    ("jshelter", lambda text: _with(text, _tweaked)),
    ("duckduckgo", lambda text: _with(text, _moved)),
    ("duckduckgo", _before),
    ("duckduckgo", _unprotected),
    # What uBlock Origin reads, by its source (1.67): other words, comments, lines that go on.
    ("ublock", lambda text: text + "@@||evil.example^$document # trusted\n"),
    ("ublock", lambda text: text + "@@/^https:\\/\\/evil\\.example$/$document\n"),
    ("ublock", _quoted),
    ("ublock", lambda text: text + "evil.example, \\\n    a.example#@#+js()\n"),
    ("ublock", lambda text: text + "evil.example#@%#//scriptlet()\n"),
    ("ublock", lambda text: text + "evil.example,/^a b#/#@#+js()\n"),
    ("adguard", lambda text: text + "evil.example#@#+js()\n"),
    ("adguard", lambda text: text + "[$domain=evil.example, path=/a]#@%#//scriptlet()\n"),
    ("adguard", lambda text: text + "evil.example#@%#//scriptlet('set-constant')\n"),
]


@pytest.mark.parametrize(("form", "edit"), SPARED)
def test_an_exception_for_one_site_is_no_list_for_all_sites(
    form: str, edit: Callable[[str], str], folder: Path
) -> None:
    """Else a list that spares one site is said to hold everywhere."""
    exporter = load_plugin(EXPORTERS, form)
    text = text_of(folder / form)
    everywhere = {control.name for control in exporter.read(text, None).controls}
    assert everywhere
    edited = edit(text)
    on_evil, elsewhere, on_all = (
        {control.name for control in exporter.read(edited, site).controls}
        for site in ("evil.example", "other.example", None)
    )
    assert on_evil < everywhere
    assert on_all <= on_evil
    assert on_evil <= elsewhere <= everywhere


def test_a_policy_that_allows_any_site_blocks_none() -> None:
    exporter = load_plugin(EXPORTERS, "chromium-policies")
    blocked = {"DefaultLocalFontsSetting": 2}
    assert exporter.read(json.dumps(blocked), "evil.example").controls
    for pattern in ("*", "https://*:443", "[*.]evil.example", "evil.example:443"):
        text = json.dumps(blocked | {"LocalFontsAllowedForUrls": [pattern]})
        assert not exporter.read(text, "evil.example").controls, pattern


def test_a_policy_for_a_host_or_its_plain_pages_blocks_no_whole_site() -> None:
    exporter = load_plugin(EXPORTERS, "chromium-policies")
    for pattern, on_site, below in (
        ("[*.]evil.example", True, True),
        ("https://[*.]evil.example", True, True),
        ("evil.example", True, False),
        ("http://evil.example", False, False),
    ):
        text = json.dumps({"LocalFontsBlockedForUrls": [pattern]})
        assert bool(exporter.read(text, "evil.example").controls) == on_site, pattern
        assert bool(exporter.read(text, "www.evil.example").controls) == below, pattern


def test_a_change_for_some_pages_of_a_site_is_none_for_the_site(folder: Path) -> None:
    exporter = load_plugin(EXPORTERS, "duckduckgo")
    decision = read_decision(folder / "decision.json")
    content = json.loads(exporter.export(decision, ExportOptions(site="evil.example")).text)
    assert exporter.read(json.dumps(content), "evil.example").controls
    [change] = content["apiManipulation"]["settings"]["conditionalChanges"]
    change["condition"]["urlPattern"] = "https://evil.example/a"
    assert not exporter.read(json.dumps(content), "evil.example").controls


def _nowhere(content: Any) -> None:
    manifest = json.loads(content["manifest.json"]) | {"host_permissions": []}
    content["manifest.json"] = json.dumps(manifest)


VOID: list[tuple[str, Callable[[str], str]]] = [
    ("ublock", lambda text: "!#if env_mobile\n" + text + "!#endif\n"),
    ("adguard", lambda text: "!#if (adguard_app_ios)\n" + text + "!#endif\n"),
    ("adguard", lambda text: text.replace("\n", "\n!+ PLATFORM(ios)\n")),
    ("ublock", lambda text: text + "#@#+js()\n"),
    ("ublock", lambda text: text + "@@*$doc\n"),
    ("adguard", lambda text: text + "@@||*^$document\n"),
    ("ublock", lambda text: "! " + text.replace("\n", "\u2028")),
    ("adguard", lambda text: "! " + text.replace("\n", "\u2028")),
    ("firefox-userjs", lambda text: "// " + text.replace("\n", "\u2028")),
    (
        "firefox-userjs",
        lambda text: text + '// /*\nuser_pref("privacy.fingerprintingProtection", false);\n',
    ),
    (
        "firefox-userjs",
        lambda text: (
            text
            + """user_pref("a", 'b'); user_pref('privacy.fingerprintingProtection', false);\n"""
        ),
    ),
    (
        "firefox-userjs",
        lambda text: (
            text + "user_pref /* on */ (\n'privacy.\\x66ingerprintingProtection'\n,\nfalse)\n;"
        ),
    ),
    ("firefox-policies", lambda text: text.replace("locked", "clear")),
    ("firefox-policies", partial(_tracked, SuspectedFingerprinting=False, Locked=True)),
    ("firefox-userjs", lambda text: "\0" + text),
    ("duckduckgo", lambda text: text.replace('"enabled"', '"enabled", "rollout": {"steps": []}')),
    ("ublock", lambda text: f"!#endif\n!#if false\n{text}!#endif\n"),
    ("ublock", lambda text: f"\ufeff!#if false\n{text}!#endif\n"),
    ("ublock", lambda text: f"!#if false\n !#endif\n{text}!#endif\n"),
    ("ublock", lambda text: f"! a\u2028!#if false\n{text}!#endif\n"),
    ("ublock", lambda text: f"! {text.replace(chr(10), chr(13))}\n"),
    ("ublock", lambda text: text.replace("*##", "##")),
    ("ublock", lambda text: text.replace("*##", "~evil.example##")),
    ("ublock", lambda text: text.replace("*##", "*,##")),
    ("ublock", lambda text: text + "a.example," * 2_000 + "*#@#+js()\n"),
    ("ublock", lambda text: text.replace(")\n", ", runAt, end)\n")),
    ("ublock", lambda text: text.replace("+js(", "+js(ubo-")),
    # By the source of AdGuard's scriptlets (2.3.1): stacks, kinds of values, names.
    ("adguard", lambda text: text.replace("')\n", "', 'evil.js')\n")),
    ("adguard", lambda text: re.sub(r"'[^']*'\)\n", "'true')\n", text)),
    ("adguard", lambda text: text.replace("set-constant", "set")),
    ("firefox-userjs", lambda text: text.replace('"custom"', '"standard"')),
    ("firefox-userjs", lambda text: "\n".join(text.splitlines()[-2:]) + "\n"),
    ("firefox-policies", lambda text: text.replace('"policies"', '"a": NaN, "policies"')),
    ("jshelter", lambda text: text.replace('"version"', '"a": NaN, "version"')),
    ("duckduckgo", lambda text: text.replace('"state"', '"a": -Infinity, "state"')),
    ("webextension", lambda text: text.replace('all_frames\\": true', 'all_frames\\": false')),
    ("webextension", lambda text: text.replace('all_frames\\": true', 'all_frames\\": 1')),
    ("webextension", lambda text: text.replace("MAIN", "ISOLATED")),
    ("webextension", lambda text: _with(text, _nowhere)),
    ("webextension", lambda text: text.replace("document_start", "document_idle")),
    (
        "webextension",
        lambda text: text.replace('\\"run_at', '\\"exclude_globs\\": [\\"*\\"], \\"run_at'),
    ),
]


@pytest.mark.parametrize(("form", "edit"), VOID)
def test_a_list_that_was_made_void_hides_nothing(
    form: str, edit: Callable[[str], str], folder: Path
) -> None:
    exporter = load_plugin(EXPORTERS, form)
    text = text_of(folder / form)
    edited = edit(text)
    assert edited != text
    whole, left = (exporter.read(each, None) for each in (text, edited))
    hidden = [control for control in left.controls if control in exporter_own(form, folder)]
    assert whole.controls
    assert not hidden


def exporter_own(form: str, folder: Path) -> list[Any]:
    """Controls that the list itself sets: not those that are on without it."""
    exporter = load_plugin(EXPORTERS, form)
    own = exporter.read('{"policies": {}}' if "policies" in form else "", None).controls
    decision = read_decision(folder / "decision.json")
    chosen = exporter.export(decision, ExportOptions()).controls
    return [control for control in chosen if control not in own]


# --- configurations of web servers ---

ADD = 'add_header Permissions-Policy "gamepad=()" always;\n'
SET = 'Header always set Permissions-Policy "gamepad=()"\n'
SITE = 'header Permissions-Policy "gamepad=()"\n'
SECURE = f"<IfModule mod_ssl.c>\n<VirtualHost *:443>\n{SET}</VirtualHost>\n</IfModule>\n"
FRAME = "add_header X-Frame-Options DENY;\n"
API = "location /api/ { proxy_pass http://b; }\n"
TOKENS = "/.well-known/acme-challenge/"
MOVED = "location / { return 301 https://a.example$request_uri; }\n"
CONFIGURED: list[tuple[str, bool]] = [
    # nginx: a block with headers of its own sends none of those above.
    (f"http {{\n{ADD}server {{\n{FRAME}}}\n}}\n", False),
    (f"{ADD}server {{\n{FRAME}}}\n", False),
    (f"http {{\n{FRAME}server {{\n{ADD}}}\n}}\n", True),
    (f"http {{\n{ADD}server {{\nlisten 80;\n{API}}}\n}}\n", True),
    (f"http {{\n{ADD}add_header_inherit off;\nserver {{\nlisten 80;\n}}\n}}\n", False),
    # `location /` is the whole of a server only where it has no other.
    (f"server {{\nlocation / {{\n{ADD}}}\n{API}}}\n", False),
    (f"server {{\nlocation / {{\n{ADD}}}\nlocation /app {{ root /a; }}\n}}\n", False),
    (f"server {{\n{ADD}location / {{\n{FRAME}{ADD}}}\n{API}}}\n", True),
    (f"server {{\nlocation / {{\n{ADD}}}\nlisten 80;\n}}\n", True),
    # Several sites.
    (f"server {{\n{ADD}}}\nserver {{\nlisten 81;\n}}\n", False),
    (f"server {{\n{ADD}}}\nserver {{\n{ADD}}}\n", True),
    (f"server {{\n{ADD}}}\nserver {{\nlisten 80;\nreturn 301 https://a.b$uri;\n}}\n", True),
    (f"<VirtualHost *:80>\n{SET}</VirtualHost>\n<VirtualHost *:443>\n</VirtualHost>\n", False),
    (f"{SET}<VirtualHost *:443>\nServerName a.example\n</VirtualHost>\n", True),
    (f"<VirtualHost *:80>\nRedirect permanent / https://a.b/\n</VirtualHost>\n{SECURE}", True),
    (f"<IfModule !mod_headers.c>\n{SET}</IfModule>\n", False),
    (f"a.example {{\n{SITE}}}\nb.example {{\nfile_server\n}}\n", False),
    (f"a.example {{\n{SITE}}}\nb.example {{\nredir https://a.example{{uri}}\n}}\n", True),
    # Caddy: parts of a site, and what nobody may take in.
    (f"a.example/blog/* {{\n{SITE}}}\n", False),
    (f"https://a.example, :8080 {{\n{SITE}}}\n", True),
    (f"(common) {{\n{SITE}}}\na.example {{\nfile_server\n}}\n", False),
    (f"(common) {{\n{SITE}}}\n", False),
    (f"(common) {{\n{SITE}}}\na.example {{\nimport common\n}}\n", True),
    (f"(common) {{\n{SITE}}}\na.example {{\nimport common\n}}\nb.example {{\n}}\n", False),
    (f"(common) {{\n{SITE}}}\na.example {{\nhandle /a {{\nimport common\n}}\n}}\n", False),
    # Beside others a name alone is a site.
    (f"a.example {{\n{SITE}}}\nintranet {{\nfile_server\n}}\n", False),
    (f"a.example {{\n{SITE}}}\nintranet {{\n{SITE}}}\n", True),
    # Texts are no words of a configuration, and no site is lost in one.
    (f"a.example {{\nrespond <<X\n{SITE}X\n}}\n", False),
    (f"a.example {{\nrespond `\n{SITE}}}`\n}}\n", False),
    (f"{SECURE}ServerAdmin o'brien@a.example\n<VirtualHost *:80>\n</VirtualHost>\n", False),
    (f"# off \\\n{SET}", False),
    (f"server {{\n{ADD}location ~ ^/a#b {{ {FRAME[:-1]} }}\n}}\n", False),
    (f"<IfModule mod_other.c>\n{SET}</IfModule>\n", False),
    # Tokens for an authority are no pages.
    (f"server {{\n{ADD}}}\nserver {{\n{MOVED}location {TOKENS} {{ }}\n}}\n", True),
    (f"server {{\n{ADD}}}\nserver {{\n{MOVED}location /app/ {{ }}\n}}\n", False),
    (f"a.example {{\n{SITE}reverse_proxy b:80 {{\nheader_down -P*\n}}\n}}\n", False),
    (f"a.example {{\n{SITE}reverse_proxy b:80 {{\nheader_up -P*\n}}\n}}\n", True),
    # What an application sends is hidden, and the server's own header sent.
    (f"server {{\nproxy_hide_header Permissions-Policy;\n{ADD}}}\n", True),
    (f"server {{\nfastcgi_hide_header 'permissions-policy';\n{ADD}}}\n", True),
    ("server {\nproxy_hide_header Permissions-Policy;\n}\n", False),
]


@pytest.mark.each
@pytest.mark.parametrize(("text", "is_sent"), CONFIGURED)
def test_a_header_counts_only_where_every_page_of_each_site_has_it(
    text: str, is_sent: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else a list is said to hold, and pages come without the header."""
    listed = tmp_path / "server.conf"
    listed.write_text(text, encoding="utf-8")
    told_of = ["lists", "import", str(listed), "--from", "permissions-policy", "--format", "json"]
    assert run(told_of) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["controls"] == ["gamepad"] * is_sent, found["problems"]
    assert (not found["problems"]) == (is_sent or "gamepad" not in text)


@pytest.mark.long
def test_a_site_that_comes_without_the_header_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.random.default_rng(7).integers(0, 4_000, USERS)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        users = [f"u{i}" for i in range(USERS)]
        monitor.ingest(pl.DataFrame({"user": users, "http:sec-ch-dpr": values}))
    asked = ["--k", "10", "--budget", "0.1", "-q", "-o", str(tmp_path / "decision.json")]
    assert run(["decide", "--db", str(tmp_path / "x.duckdb"), *asked]) == 0
    sites = [f"server {{\n{ADD.replace('gamepad', 'ch-dpr')}}}\n", "server {\nlisten 81;\n}\n"]
    for text, code in (
        (sites[0], 3),
        ("".join(sites), 1),
    ):  # what pages tell in another way is open
        listed = tmp_path / "server.conf"
        listed.write_text(text, encoding="utf-8")
        assert check(tmp_path, listed, "permissions-policy") == code
        assert ("line 4: pages come without the header" in capsys.readouterr().err) == (code == 1)


# --- hostile files ---

LONG = 200_000
HOSTILE = [
    b"",
    b"\x00\x01\xff\xfe" * 100,
    b"[" * LONG,
    b'{"allow": ' * 5_000,
    b"null",
    b'{"allow": [1], "block": {}}',
    b'{"exposed": ["a"], "allow": ["b"], "block": [], "withheld": []}',
    b'{"allow": ["\\u001b[31mred\\u0000"], "block": []}',
    b"api,outcome,reason\n" + b"a," * LONG,
    b"api,outcome,reason\n\x1b[2J,exposed,::error::x\n",
    b"\n " * LONG + b"x",
    b" " * LONG + b"x",
    b"||a$" + b",permissions=a" * 20_000,
    b"\"'" * LONG,
    b"#%#//scriptlet(" + b"'\\" * LONG + b")",
    b'user_pref("a", ' + b" " * LONG + b"x",
    b"/* " * LONG,
    b"permissions-policy" + b" " * LONG + b"x",
    b"add_header Permissions-Policy a " + b" " * LONG + b"b",
]


@pytest.mark.parametrize("form", [*PLAIN, *PRODUCTS])
def test_a_hostile_list_is_refused_or_hides_nothing_and_costs_nothing(
    form: str, folder: Path
) -> None:
    """Else whoever sends a list stops the operator's computer, which took minutes a file."""
    exporter, decision = load_plugin(EXPORTERS, form), read_decision(folder / "decision.json")
    for content in HOSTILE:
        began = time.process_time()
        try:
            text = content.decode("utf-8", "replace")
            in_use = read_in_use(form, exporter, text, decision, None)
        except InputError:
            continue
        assert time.process_time() - began < 5, content[:40]
        if form not in {"brave", "firefox-policies", "firefox-userjs"}:  # protect by themselves
            left = {api for most, _ in in_use.left for api in most}
            assert left == {*SHOWN} or in_use.strangers, content[:40]


def test_a_hostile_list_reaches_no_terminal(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = tmp_path / "list"
    for form, content in (("csv", HOSTILE[8]), ("json", HOSTILE[6]), ("ublock", HOSTILE[1])):
        listed.write_bytes(content)
        assert check(folder, listed, form) in {1, 2}
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        assert not {"\x1b", "\x00"} & {*printed.out, *printed.err}
