"""Lists for products: what they say, what they claim, and what they must never let through."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import http_sf
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.export.controls import HIDING, controls_of, effect_of
from fpmonitor.export.coverage import coverage
from fpmonitor.export.enforce import ControlExporter
from fpmonitor.export.exporter import ApiVerdict, Crowds, ExportOptions
from fpmonitor.export.firefox import read_overrides, read_policies, read_userjs
from fpmonitor.export.firefox_targets import shipped_tables, target_table
from fpmonitor.export.lists import told_elsewhere
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
from fpmonitor.vocabulary import is_known
from tests.decided import decided

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.decide.decision import Decision
    from fpmonitor.export.exporter import Exporter

pytestmark = pytest.mark.each  # a format each, in milliseconds
EXPORTER_NAMES = plugin_names(EXPORTERS)
NOBODY = Crowds(users=0, unit="user", values={}, why={}, sets=(), tuples=())
FAMILIES = (
    "permissions-policy", "firefox", "firefox-preferences", "chromium", "scriptlet", "ublock",
    "adguard",    "jshelter", "duckduckgo", "brave",
)  # fmt: skip
KNOWN_APIS = sorted({api for control in controls_of(FAMILIES) for api in control.effects})


def exporter_of(name: str) -> Exporter:
    exporter: Exporter = load_plugin(EXPORTERS, name)
    return exporter


def products() -> dict[str, ControlExporter]:
    found = {name: load_plugin(EXPORTERS, name) for name in EXPORTER_NAMES}
    return {name: found for name, found in found.items() if isinstance(found, ControlExporter)}


def decision_of(
    allow: Sequence[str],
    block: Sequence[str],
    *,
    more: Sequence[Sequence[str]] = (),
    **members: Any,
) -> Decision:
    """Decision that recommends `allow` and blocks each of `block` alone; `more` is allowed too."""
    return decided(
        {*allow, *block, *(api for apis in more for api in apis)},
        allow=[apis for apis in (allow, *more) if apis],
        block=[[api] for api in block],
        recommended=allow,
        **members,
    )


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    """Decisions over known APIs, with selectors of theirs, and over names of any text."""
    known = st.sampled_from(KNOWN_APIS)
    selected = known.map(lambda api: f"{api.partition('#')[0]}#some")
    names = st.lists(known | selected | st.text(min_size=1, max_size=12), min_size=1, max_size=12)
    candidates = draw(names.map(lambda found: sorted(set(found))))
    allow = draw(st.lists(st.sampled_from(candidates), unique=True))
    return decision_of(
        allow, [api for api in candidates if api not in allow], guarantee=draw(st.text(max_size=20))
    )


PRODUCTS = products()
HOSTILE = [
    'a"b\n*##+js(set-constant, evil, 1)',
    "a'); alert(1)//",
    "x##+js(trusted-set, a, b)",
    "</script><script>alert(1)</script>",
    "a\r\nSet-Cookie: b=c",
    "\r",
    "a,b|c=()",
    "*/ user_pref('x', 1);\u2028user_pref(",
    "=cmd|' /C calc'!A0",
]


def exported(name: str, decision: Decision, **options: Any) -> str:
    return exporter_of(name).export(decision, ExportOptions(crowds=lambda: NOBODY, **options)).text


def verdict(name: str, api: str, allow: tuple[str, ...] = ()) -> ApiVerdict:
    found = exporter_of(name).export(decision_of(allow, [api]), ExportOptions()).verdicts
    return next(entry for entry in found if entry.api == api)


@pytest.mark.parametrize("name", EXPORTER_NAMES)
@settings(deadline=None, max_examples=15)
@given(decision=decisions())
def test_every_decision_exports_to_every_format_and_passes_validation(
    name: str, decision: Decision
) -> None:
    exporter = exporter_of(name)
    result = exporter.export(decision, ExportOptions(crowds=lambda: NOBODY))
    assert exporter.validate(result.text) == []
    assert [entry.api for entry in result.verdicts] == list(decision.policy.candidates)


@pytest.mark.parametrize("name", sorted(PRODUCTS))
@settings(deadline=None, max_examples=15)
@given(decision=decisions(), site=st.sampled_from([None, "example.com"]))
def test_a_list_reads_back_as_the_controls_that_it_was_written_from(
    name: str, decision: Decision, site: str | None
) -> None:
    exporter = PRODUCTS[name]
    options = ExportOptions(site=site if exporter.sites else None)
    result = exporter.export(decision, options)
    found = exporter.read(result.text, options.site)
    assert set(result.controls) <= set(found.controls)
    for entry in result.verdicts:
        effect = effect_of(entry.means or entry.api, found.controls, exporter.product)
        assert effect in HIDING or entry.effect not in HIDING


@pytest.mark.parametrize("name", sorted(PRODUCTS))
@settings(deadline=None, max_examples=15)
@given(decision=decisions())
def test_a_block_is_called_enforced_only_if_a_control_hides_the_api(
    name: str, decision: Decision
) -> None:
    exporter = PRODUCTS[name]
    result = exporter.export(decision, ExportOptions())
    for entry in result.verdicts:
        if entry.is_withheld and entry.enforced:
            assert effect_of(entry.means or entry.api, result.controls, exporter.product) in HIDING
        if not entry.is_withheld and entry.verdict == "exact":
            assert not any(
                control.effect_on(entry.means or entry.api) not in {None, "unchanged"}
                for control in result.controls
            )


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("name", EXPORTER_NAMES)
def test_names_cannot_break_out_of_a_format(name: str, hostile: str) -> None:
    text = exported(name, decision_of([], [hostile, "Screen.width"], guarantee=hostile))
    clean = exported(name, decision_of([], ["Screen.width"]))
    if name in {"json", "csv", "gate-js"}:
        assert exporter_of(name).validate(text) == []
        assert "</script>" not in text or name != "gate-js"
    elif name == "visitor-page":
        assert exporter_of(name).validate(text) == []
        assert text.count("<script") == clean.count("<script") == 2
    elif name == "jshelter":
        level = json.loads(text)["custom_levels"]["fpm"]
        assert level | {"level_description": ""} == {
            **json.loads(clean)["custom_levels"]["fpm"],
            "level_description": "",
        }
    elif name == "webextension":
        assert json.loads(text) | {"README.txt": ""} == json.loads(clean) | {"README.txt": ""}
    else:
        rules = [line for line in text.splitlines() if not line.startswith(("!", "//", "#  "))]
        assert rules == [line for line in clean.splitlines() if not line.startswith(("!", "//"))]


def test_csv_names_do_not_run_as_formulas() -> None:
    text = exported("csv", decision_of([], HOSTILE))
    for row in csv.reader(io.StringIO(text, newline="")):
        assert not row[0].startswith(("=", "+", "-", "@"))
    assert exporter_of("csv").validate("api,outcome,reason\n=1,exposed,x\n") == [
        "row 2: runs as a formula"
    ]


@pytest.mark.parametrize(
    "site",
    [
        "https://example.com",
        "example.com/x",
        "EXAMPLE.com",
        "a b.c",
        "x.com\n##",
        "",
        "*",
        "localhost",
    ],
)
def test_a_site_that_is_no_domain_name_is_refused(site: str) -> None:
    with pytest.raises(InputError, match="not a domain name"):
        ExportOptions(site=site)


@pytest.mark.parametrize("name", EXPORTER_NAMES)
def test_a_site_restricts_the_list_or_is_refused(name: str) -> None:
    block = ["Navigator.hardwareConcurrency", "Window.queryLocalFonts"]
    decision = decision_of([], block)
    if not getattr(PRODUCTS.get(name), "sites", False):
        with pytest.raises(InputError, match="restricted"):
            exported(name, decision, site="example.com")
        return
    exporter = PRODUCTS[name]
    result = exporter.export(decision, ExportOptions(site="example.com"))
    there = set(exporter.read(result.text, "www.example.com").controls)
    elsewhere = set(exporter.read(result.text, "other.org").controls)
    assert set(result.controls) <= there
    if name != "brave":  # everything is randomised there but on the site of an exception
        assert not any(control.hides(api) for control in elsewhere for api in block)


def test_an_unknown_variant_lists_the_known() -> None:
    with pytest.raises(UnknownNameError, match="nginx"):
        exported("permissions-policy", decision_of([], ["Screen.width"]), variant="ngnix")


# ---- The table of controls ----------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_control_has_an_effect_and_names_apis_as_the_vocabulary_does(family: str) -> None:
    for control in controls_of([family]):
        assert control.effects, control.name
        assert all(is_known(api) for api in control.effects), control.name


def test_firefox_controls_are_targets_of_the_newest_table() -> None:
    names = {control.name for control in controls_of(["firefox"])}
    assert names <= set(shipped_tables()["153"].targets)


def test_an_api_that_only_another_hands_out_goes_with_it() -> None:
    assert verdict("ublock", "BatteryManager.level").verdict == "by-passable"
    assert verdict("jshelter", "BatteryManager.level").verdict == "untried"
    assert verdict("firefox-policies", "BatteryManager.level").verdict == "exact"


# ---- Verdicts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "api", "expected"),
    [
        ("permissions-policy", "Window.queryLocalFonts", "by-passable"),
        ("permissions-policy", "http:sec-ch-ua-model", "untried"),
        ("permissions-policy", "http:sec-ch-ua", "by-passable"),
        ("permissions-policy", "NavigatorUAData.getHighEntropyValues#model", "by-passable"),
        ("permissions-policy", "Navigator.deviceMemory", "header-only"),
        ("permissions-policy", "Navigator.hardwareConcurrency", "impossible"),
        ("permissions-policy", "Keyboard.getLayoutMap", "impossible"),
        ("firefox-policies", "Navigator.hardwareConcurrency", "exact"),
        ("firefox-policies", "Date.getTimezoneOffset", "over-blocking"),
        ("firefox-policies", "Navigator.deviceMemory", "exact"),
        ("firefox-policies", "OfflineAudioContext.startRendering", "impossible"),
        ("firefox-policies", "Screen.width", "impossible"),
        ("chromium-policies", "Navigator.hardwareConcurrency", "impossible"),
        ("chromium-policies", "Window.queryLocalFonts", "by-passable"),
        ("chromium-policies", "WebGLRenderingContext.getParameter", "by-passable"),
        ("ublock", "Navigator.hardwareConcurrency", "by-passable"),
        ("ublock", "Intl.DateTimeFormat.resolvedOptions#timeZone", "impossible"),
        ("jshelter", "Screen.width", "impossible"),
        ("brave", "Navigator.deviceMemory", "untried"),
        ("duckduckgo", "Navigator.getBattery", "by-passable"),
        ("json", "anything at all", "exact"),
    ],
)
def test_verdicts_say_what_was_seen_in_products(name: str, api: str, expected: str) -> None:
    assert verdict(name, api).verdict == expected


def test_collateral_names_what_else_is_lost() -> None:
    found = verdict("firefox-policies", "Date.getTimezoneOffset")
    assert found.collateral == (
        "Date.getHours",
        "Date.toString",
        "Document.lastModified",
        "Intl.DateTimeFormat.formatToParts#timeZoneName",
        "Intl.DateTimeFormat.resolvedOptions#timeZone",
        "Temporal.Now.timeZoneId",
    )


def test_what_can_be_got_round_changes_no_allowed_api() -> None:
    both = ("NavigatorUAData.getHighEntropyValues#model", "Screen.width")
    decision = decision_of(both, ["NavigatorUAData.getHighEntropyValues#bitness"])
    result = exporter_of("permissions-policy").export(decision, ExportOptions())
    words = {entry.verdict for entry in result.verdicts if not entry.is_withheld}
    assert words == {"exact"}


def test_an_allowed_api_that_a_control_changes_is_told() -> None:
    zone = "Intl.DateTimeFormat.resolvedOptions#timeZone"
    decision = decision_of((zone, "Screen.width"), ["Date.getTimezoneOffset"])
    result = exporter_of("firefox-policies").export(decision, ExportOptions())
    words = {entry.api: entry.verdict for entry in result.verdicts}
    assert words == {
        "Date.getTimezoneOffset": "over-blocking",
        zone: "over-blocking",
        "Screen.width": "exact",
    }


def test_the_control_with_the_least_collateral_is_taken() -> None:
    text = exported("firefox-policies", decision_of([], ["HTMLCanvasElement.toDataURL"]))
    assert "+EfficientCanvasRandomization" in text
    both = decision_of([], ["HTMLCanvasElement.toDataURL", "CanvasRenderingContext2D.getImageData"])
    alone = exported("firefox-policies", both, replace_protection=True)
    assert "EfficientCanvasRandomization" not in alone


def test_a_list_by_information_blocks_the_other_names_of_what_is_blocked() -> None:
    decision = decision_of(["css:device-height"], ["Window.devicePixelRatio", "Screen.height"])
    plain = PRODUCTS["firefox-policies"].export(decision, ExportOptions())
    assert "css:resolution" not in {entry.api for entry in plain.verdicts}
    told = "Window.devicePixelRatio can still be read through "
    assert any(note.startswith(told) and "css:resolution" in note for note in plain.notes)
    options = ExportOptions(by_information=True)
    result = PRODUCTS["firefox-policies"].export(decision, options)
    verdicts = {entry.api: entry for entry in result.verdicts}
    assert "a border of 0.1px" in verdicts["css:resolution"].note
    assert "CSSResolution" in result.text
    assert "css:device-height" not in {e.api for e in result.verdicts if e.is_withheld}
    assert not any("css:resolution" in note and "read through" in note for note in result.notes)
    with pytest.raises(InputError, match="candidates"):
        exported("csv", decision, by_information=True)


def test_what_tells_the_same_is_what_was_found_in_the_product() -> None:
    """Of the vocabulary a name counts where nobody looked; `decide` knows no product."""
    ratio = decision_of([], ["Window.devicePixelRatio", "Navigator.hardwareConcurrency"])
    firefox = PRODUCTS["firefox-userjs"].product
    here, anywhere = told_elsewhere(ratio, firefox), told_elsewhere(ratio)
    assert {"CanvasRenderingContext2D.measureText", "HTMLImageElement.currentSrc"} <= here.keys()
    assert "CanvasRenderingContext2D.measureText" not in anywhere
    assert "http:dpr" in anywhere
    assert "http:dpr" not in here, "Firefox sends no such header"
    assert here["css:resolution"] == ["Window.devicePixelRatio"]
    options = ExportOptions(by_information=True)
    found = {entry.api for entry in PRODUCTS["firefox-userjs"].export(ratio, options).verdicts}
    assert here.keys() <= found
    worker = decision_of([], ["WorkerNavigator.languages"])
    assert "Navigator.languages" in told_elsewhere(worker)


def test_a_list_that_randomises_canvases_says_what_still_reads_them() -> None:
    """Seen in Firefox 153: the true pixels, through WebCodecs."""
    decision = decision_of([], ["HTMLCanvasElement.toDataURL"])
    firefox = PRODUCTS["firefox-policies"]
    way = "VideoFrame.copyTo"
    told = [note for note in firefox.export(decision, ExportOptions()).notes if way in note]
    assert told[0].startswith("HTMLCanvasElement.toDataURL can still be read through ")
    whole = firefox.export(decision, ExportOptions(by_information=True))
    assert not any("read through" in note and way in note for note in whole.notes)
    assert "+WebCodecs" in whole.text


def test_coverage_finds_the_fewest_formats_and_what_all_miss() -> None:
    decision = decision_of(
        [],
        [
            *("Intl.DateTimeFormat.resolvedOptions#timeZone", "Screen.width"),
            *("Navigator.nothing", "CSS.supports"),
        ],
    )
    found = coverage(decision, dict(PRODUCTS))
    assert len(found.together) == 1
    assert set(found.together) <= {"firefox-policies", "firefox-userjs"}
    assert found.missed == ("CSS.supports", "Screen.width"), "style sheets tell the width"
    assert found.unknown == ("Navigator.nothing",)
    assert {row["api"] for row in found.to_json()["apis"]} == set(decision.policy.candidates)


# ---- Permissions-Policy -------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["headers", "nginx", "apache", "caddy"])
def test_headers_are_written_where_no_feature_is_to_be_switched_off(variant: str) -> None:
    for decision in (decision_of(["Screen.width"], []), decision_of([], ["Navigator.userAgent"])):
        exporter = PRODUCTS["permissions-policy"]
        assert exporter.export(decision, ExportOptions(variant=variant)).controls == ()


HINTS = decision_of(
    ["http:sec-ch-ua-model", "Screen.width"],
    ["NavigatorUAData.getHighEntropyValues#platformVersion", "http:sec-ch-ua-platform-version"],
)
POLICY = "ch-ua-high-entropy-values=(), ch-ua-platform-version=()"


def test_headers_take_away_both_the_script_value_and_the_header() -> None:
    assert exported("permissions-policy", HINTS) == (
        f"Permissions-Policy: {POLICY}\n"
        "Accept-CH: Sec-CH-UA-Model\n"
        "Critical-CH: Sec-CH-UA-Model\n"
        "Vary: Sec-CH-UA-Model\n"
    )


@settings(deadline=None, max_examples=15)
@given(decision=decisions())
def test_headers_parse_as_structured_fields(decision: Decision) -> None:
    for line in exported("permissions-policy", decision).splitlines():
        name, value = line.split(": ", 1)
        if name == "Permissions-Policy":
            policy = http_sf.parse(value.encode(), tltype="dictionary")
            assert isinstance(policy, dict)
            assert all(member == ([], {}) for member in policy.values())


@pytest.mark.parametrize(
    ("variant", "line"),
    [
        ("nginx", f'add_header Permissions-Policy "{POLICY}" always;'),
        ("apache", f'Header always set Permissions-Policy "{POLICY}"'),
        ("caddy", f'\tPermissions-Policy "{POLICY}"'),
    ],
)
def test_server_snippets_set_the_same_headers(variant: str, line: str) -> None:
    text = exported("permissions-policy", HINTS, variant=variant)
    assert line in text.splitlines()
    plain = exported("permissions-policy", HINTS)
    read = PRODUCTS["permissions-policy"].read
    assert read(text, None).controls == read(plain, None).controls != ()


def test_a_policy_that_only_reports_blocks_nothing_and_needs_an_address() -> None:
    with pytest.raises(InputError, match="--report-to"):
        exported("permissions-policy", HINTS, variant="report-only")
    text = exported(
        "permissions-policy", HINTS, variant="report-only", report_to="https://example.com/r"
    )
    assert text.splitlines()[0] == 'Reporting-Endpoints: fpmonitor="https://example.com/r"'
    assert "ch-ua-high-entropy-values=();report-to=fpmonitor" in text
    assert PRODUCTS["permissions-policy"].read(text, None).controls == ()


@pytest.mark.parametrize(
    "address", ["http://example.com", "https://a b", 'https://a"b', "https://a\n"]
)
def test_an_address_that_could_break_out_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="not an address"):
        ExportOptions(report_to=address)


@pytest.mark.parametrize(
    ("value", "blocked", "slips"),
    [
        ("ch-ua-model=(), gamepad=()", 2, 0),
        ("ch-ua-model=(self), gamepad=*", 0, 0),
        ('gamepad=("https://a.example"), local-fonts=()', 1, 0),
        ("ch-ua-model=none", 0, 1),
        ("ch-ua-modell=()", 0, 1),
        ("ch-ua-model 'none'", 0, 1),
        ("gamepad=(), CH-UA-MODEL=()", 0, 1),
        ("gamepad=(); local-fonts=(", 0, 1),
    ],
)
def test_a_policy_is_read_as_browsers_read_it(value: str, blocked: int, slips: int) -> None:
    for text in (f"Permissions-Policy: {value}\n", value):
        found = PRODUCTS["permissions-policy"].read(text, None)
        assert (len(found.controls), len(found.problems)) == (blocked, slips), text


def test_of_several_responses_the_page_is_the_last() -> None:
    """As `curl -I -L` writes them: what sends elsewhere shows no page."""
    sent, page = "Permissions-Policy: gamepad=()\r\n\r\n", "content-type: text/html\r\n\r\n"
    for text, is_sent in (
        (f"HTTP/1.1 301 Moved\r\n{sent}HTTP/2 200 \r\n{page}", False),
        (f"HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\nHTTP/2 200 \r\n{sent}", True),
    ):
        assert bool(PRODUCTS["permissions-policy"].read(text, None).controls) == is_sent


HEADER = 'add_header Permissions-Policy "ch-ua-model=()" always;\n'
OTHER = 'add_header Permissions-Policy "geolocation=()" always;\n'
APACHE = 'Header always set Permissions-Policy "ch-ua-model=()"\n'


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        (f"server {{\n{HEADER}}}\n", True),
        (f"{HEADER}# more_clear_headers Permissions-Policy;\n", True),
        (f"server {{\n{HEADER}location / {{\nadd_header X-A b;\n{HEADER}}}\n}}\n", True),
        (f"server {{\n{HEADER}location / {{ add_header X-A b; }}\n}}\n", False),
        (f"{HEADER}more_clear_headers 'Permissions-Policy';\n", False),
        (
            'Header set Permissions-Policy "ch-ua-model=()"\nHeader unset Permissions-Policy\n',
            False,
        ),
        ('header {\n\tPermissions-Policy "ch-ua-model=()"\n\t-Permissions-Policy\n}\n', False),
        ('header {\n\tPermissions-Policy "ch-ua-model=()"\n\t-Server\n}\n', True),
        # Of two in a server and in a part of it, or of two that set it, a page gets one.
        (f"server {{\n{HEADER}location /a {{ {OTHER} }}\n}}\n", False),
        (f"server {{\n{HEADER}location /a\n{{\n{OTHER}}}\n}}\n", False),
        (f"{HEADER}location /a {{ add_header X-A b; }}\n", False),
        (f"server {{\nlocation /a {{\n{HEADER}}}\n}}\n", False),
        (f"server {{\nlocation / {{\n{HEADER}}}\n}}\n", True),
        (f"server {{\nif ($a) {{\n{HEADER}}}\n}}\n", False),
        (f"{HEADER}more_clear_headers 'Permissions*';\n", False),
        ('add_header Permissions-Policy\n"ch-ua-model=()";\n', False),
        ("add_header Permissions-Policy $policy always;\n", False),
        (f"{APACHE}Header always set Permissions-Policy geolocation=()\n", False),
        (f"{APACHE}Header always append Permissions-Policy ch-ua-model=*\n", False),
        (f"{APACHE}Header edit Permissions-Policy ua-model=.. ua-model=*\n", False),
        (f"<Location /a>\n{APACHE}</Location>\n", False),
        (f"<IfModule mod_headers.c>\n{APACHE}</IfModule>\n", True),
        ('header /a Permissions-Policy "ch-ua-model=()"\n', False),
        ('header /a {\n\tPermissions-Policy "ch-ua-model=()"\n}\n', False),
        ('a.example {\n\theader Permissions-Policy "ch-ua-model=()"\n}\n', True),
        (
            'header Permissions-Policy "ch-ua-model=()"\nheader -Permissions-Policy\n',
            False,
        ),
    ],
)
def test_a_header_that_a_server_takes_away_again_withholds_nothing(
    text: str, *, is_kept: bool
) -> None:
    reading = PRODUCTS["permissions-policy"].read(text, None)
    assert bool(reading.controls) == is_kept
    assert bool(reading.problems) != is_kept


@pytest.mark.parametrize("word", ["include headers.conf;", HEADER.replace(" always", "")])
def test_what_a_configuration_leaves_open_is_said(word: str) -> None:
    reading = PRODUCTS["permissions-policy"].read(f"server {{\n{HEADER}{word}\n}}\n", None)
    assert (len(reading.controls), len(reading.problems)) == (1, 1)


# ---- Firefox ------------------------------------------------------------------------------------


def test_policies_lock_the_targets_and_keep_what_is_on_in_stock_firefox() -> None:
    block = ["Date.getTimezoneOffset", "Intl.DateTimeFormat.resolvedOptions#timeZone"]
    decision = decision_of(["Screen.availWidth"], block)
    content = json.loads(exported("firefox-policies", decision, replace_protection=True))
    assert content == {
        "policies": {
            "Preferences": {
                "privacy.fingerprintingProtection": {"Value": True, "Status": "locked"},
                "privacy.fingerprintingProtection.overrides": {
                    "Value": "-AllTargets,+JSDateTimeUTC,+EfficientCanvasRandomization"
                    ",+MaxTouchPointsCollapse",
                    "Status": "locked",
                },
            }
        }
    }


def test_userjs_says_the_same_as_policies() -> None:
    decision = decision_of([], ["Date.getTimezoneOffset", "Navigator.languages"])
    text = exported("firefox-userjs", decision)
    assert 'user_pref("intl.accept_languages", "en-US, en");' in text.splitlines()
    policies = read_policies(exported("firefox-policies", decision), None)
    assert read_userjs(text, None) == policies


CUSTOM = 'user_pref("browser.contentblocking.category", "custom");'


def test_a_name_that_firefox_never_asks_for_is_no_site() -> None:
    for name in ("firefox-policies", "firefox-userjs"):
        decision = decision_of([], ["Navigator.hardwareConcurrency"])
        assert PRODUCTS[name].export(decision, ExportOptions(site="example.com")).controls
        with pytest.raises(InputError, match="registered"):
            exported(name, decision, site="www.example.com")
    switch = "privacy.fingerprintingProtection"
    scope = json.dumps([{"firstPartyDomain": "www.example.com", "overrides": "+JSDateTimeUTC"}])
    scoped = f'user_pref("{switch}.granularOverrides", {json.dumps(scope)});'
    found = read_userjs(f'user_pref("{switch}", true);{CUSTOM}{scoped}', "www.example.com")
    assert "JSDateTimeUTC" not in {control.name for control in found.controls}
    assert found.problems


@pytest.mark.parametrize(
    ("site", "is_registered"), [("www.gov.uk", True), ("www.com", True), ("www.gov.cymru", False)]
)
def test_a_registered_domain_may_begin_as_one_below(site: str, *, is_registered: bool) -> None:
    """What a list takes back for `www.gov.uk` was passed over, and no list was written for it."""
    switch = "privacy.fingerprintingProtection"
    scope = json.dumps([{"firstPartyDomain": site, "overrides": "-AllTargets"}])
    on = f'user_pref("{switch}", true);{CUSTOM}user_pref("{switch}.overrides", "+JSDateTimeUTC");'
    found = read_userjs(f'{on}user_pref("{switch}.granularOverrides", {json.dumps(scope)});', site)
    assert "JSDateTimeUTC" not in {control.name for control in found.controls}
    if is_registered:
        decision = decision_of([], ["Navigator.hardwareConcurrency"])
        text = exported("firefox-userjs", decision, site=site)
        assert read_userjs(text, site).controls


@pytest.mark.parametrize(
    ("more", "is_on"),
    [
        ("", False),
        (CUSTOM, True),
        ('user_pref("browser.contentblocking.category", "strict");', True),
        ('user_pref("browser.contentblocking.category", "standard");', False),
        ('lockPref("privacy.fingerprintingProtection", true);', False),
    ],
)
def test_a_switch_counts_where_the_first_window_leaves_it(more: str, *, is_on: bool) -> None:
    """Else a list is said to hide what it does only until Firefox shows its first window."""
    switch = "privacy.fingerprintingProtection"
    on = f'user_pref("{switch}", true);user_pref("{switch}.overrides", "+JSDateTimeUTC");'
    found = read_userjs(on + more, None)
    assert ("JSDateTimeUTC" in {control.name for control in found.controls}) == is_on
    entries = {switch: {"Value": True, "Status": "user"}, f"{switch}.overrides": "+JSDateTimeUTC"}
    policies = read_policies(json.dumps({"policies": {"Preferences": entries}}), None)
    assert "JSDateTimeUTC" not in {control.name for control in policies.controls}


def test_an_older_firefox_gets_only_targets_that_it_has() -> None:
    decision = decision_of([], ["Navigator.maxTouchPoints"])
    assert "+MaxTouchPoints" in exported("firefox-policies", decision)
    older = exporter_of("firefox-policies").export(decision, ExportOptions(targets="140"))
    assert older.controls == ()
    assert older.verdicts[0].verdict == "impossible"
    with pytest.raises(UnknownNameError, match="153"):
        target_table("152")


@pytest.mark.parametrize(
    ("overrides", "on", "slips"),
    [
        ("-AllTargets,+JSDateTimeUTC", {"JSDateTimeUTC"}, 0),
        ("-AllTargets, +JSDateTimeUTC", set(), 1),
        ("-AllTargets,+JsDateTimeUTC", set(), 1),
        ("+JSDateTimeUTC,-AllTargets", set(), 1),
        ("+JSDateTimeUTC", {"JSDateTimeUTC", "Gamepad"}, 0),
        ("-Gamepad,JSDateTimeUTC,+Gamepad", set(), 1),
        ("", {"Gamepad"}, 0),
    ],
)
def test_overrides_are_read_as_firefox_reads_them(overrides: str, on: set[str], slips: int) -> None:
    found, problems = read_overrides(overrides, {"Gamepad"})
    assert (found, len(problems)) == (on, slips)


def test_slips_that_firefox_passes_over_are_told() -> None:
    off = {"privacy.fingerprintingProtection.overrides": {"Value": "-AllTargets,+JSDateTimeUTC"}}
    refused = {"privacy.resistFingerprinting": {"Value": True, "Status": "locked"}}
    for preferences, word in ((off, "do nothing"), (refused, "does not accept")):
        found = read_policies(json.dumps({"policies": {"Preferences": preferences}}), None)
        assert any(word in problem for problem in found.problems)
        assert "JSDateTimeUTC" not in {control.name for control in found.controls}
    assert read_policies("{", None).problems
    assert read_userjs('user_pref("a", 1)\n', None).problems


WEBGL = "webgl.disabled"


@pytest.mark.parametrize(
    ("statement", "is_hidden"),
    [
        (f'user_pref("{WEBGL}", true);', True),
        # As seen in Firefox ESR 153: in `user.js` it reads `user_pref` alone, and that of Debian
        # `lockPref`, too, which Mozilla's parser does not know.
        (f'pref("{WEBGL}", true);', False),
        (f'sticky_pref("{WEBGL}", true);', False),
        (f'lockPref("{WEBGL}", true);', False),
        (f'lockPref("{WEBGL}", true);user_pref("{WEBGL}", true);', True),
        (f'lockPref("{WEBGL}", true);user_pref("{WEBGL}", false);', False),
        (f'user_pref("{WEBGL}", true);lockPref("{WEBGL}", false);', False),
        (f'user_pref("{WEBGL}", true);lockPref("{WEBGL}", 0);', True),
        (f'user_pref("{WEBGL}", true);lockPref("{WEBGL}", true);lockPref("{WEBGL}", false);', True),
        (f'lockPref("{WEBGL}");', False),
        (f'user_pref("{WEBGL}", true, locked);', False),
        (f'user_pref("{WEBGL}", true);pref("{WEBGL}", false);', True),
        # It refuses a value of another type than the default.
        (f'user_pref("{WEBGL}", 1);', False),
        (f'user_pref("{WEBGL}", "true");', False),
        (f'user_pref("{WEBGL}", true);user_pref("{WEBGL}", 0);', True),
        (f'\ufeffuser_pref("{WEBGL}", true);', True),
        (f'\0user_pref("{WEBGL}", true);', False),
        (f'user_pref("{WEBGL}\\x00", true);', False),
    ],
)
def test_a_preference_is_set_where_firefox_sets_it(statement: str, *, is_hidden: bool) -> None:
    names = {control.name for control in read_userjs(statement, None).controls}
    assert (WEBGL in names) == is_hidden


BASELINE = "privacy.baselineFingerprintingProtection"


@pytest.mark.parametrize(
    ("name", "entry", "is_set"),
    [
        (WEBGL, {"Value": True}, True),
        (WEBGL, True, True),
        (WEBGL, {"Value": 1}, True),
        (WEBGL, {"Value": 1, "Type": "number"}, False),
        (WEBGL, {"Value": True, "Type": "number"}, False),
        (WEBGL, {"Value": "true"}, False),
        (BASELINE, {"Value": True}, True),
        (BASELINE, {"Value": 0}, False),
        (BASELINE, {"Value": 0.0}, False),
        (BASELINE, {"Value": 0, "Type": "boolean"}, False),
        (BASELINE, {"Value": 0, "Type": "number"}, True),
        (BASELINE, {"Value": False, "Status": "wrong"}, True),
    ],
)
def test_a_policy_sets_a_preference_where_firefox_sets_it(
    name: str, entry: Any, *, is_set: bool
) -> None:
    """As `Policies.sys.mjs` of Firefox ESR 153: 0 and 1 are truths unless they say otherwise."""
    read = read_policies(json.dumps({"policies": {"Preferences": {name: entry}}}), None)
    control = "MaxTouchPointsCollapse" if name == BASELINE else name
    assert (control in {one.name for one in read.controls}) == is_set


def test_preferences_over_several_lines_are_read_as_firefox_reads_them() -> None:
    switch = "privacy.fingerprintingProtection"
    on = (
        CUSTOM
        + f'user_pref("{switch}", true);\nuser_pref("{switch}.overrides", "+JSDateTimeUTC");\n'
    )
    undone = [
        f'user_pref(\n  "{switch}",\r\n  false\n);',
        f"user_pref\t(/* a\nb */'{switch}', // c\nfalse);",
        'user_pref("a",\n"two\nlines");user_pref("privacy.\\u0066ingerprintingProtection",false);',
    ]
    for text in undone:
        found = read_userjs(on + text, None)
        assert "JSDateTimeUTC" not in {control.name for control in found.controls}, text
    # What is wrong takes along what is before the next semicolon, and no more.
    for text, line in ((f'\nuser_pref("a", 1)\n{undone[0]}', 4), (f'"a;{undone[1]}', 3)):
        found = read_userjs(on + text, None)
        assert "JSDateTimeUTC" in {control.name for control in found.controls}, text
        [problem] = found.problems
        assert problem.startswith(f"line {line} is not a user_pref")
    assert read_userjs(f'user_pref("a", 1) {on}', None).problems
    assert len(read_userjs('\\"' * 300_000, None).problems) == 1, "in the time of one pass"


def test_policies_of_any_shape_and_depth_are_read_with_a_slip() -> None:
    odd = {"privacy.fingerprintingProtection": {"Value": True, "Status": {"a": []}}}
    found = read_policies(json.dumps({"policies": {"Preferences": odd}}), None)
    assert any("Status" in problem for problem in found.problems)
    assert read_userjs(f'user_pref("a", {"[" * 100_000});\n', None).problems


def test_resisting_fingerprinting_overrules_overrides_in_userjs() -> None:
    text = (
        'user_pref("privacy.resistFingerprinting", true);\n'
        'user_pref("privacy.fingerprintingProtection", true);\n'
        'user_pref("privacy.fingerprintingProtection.overrides", "-AllTargets");\n'
    )
    names = {control.name for control in read_userjs(text, None).controls}
    assert {"JSDateTimeUTC", "CanvasRandomization"} <= names


def test_stock_firefox_randomises_canvas_already() -> None:
    names = {control.name for control in read_userjs("", None).controls}
    assert "EfficientCanvasRandomization" in names
    assert "JSDateTimeUTC" not in names


# ---- Filter lists -------------------------------------------------------------------------------


def test_ublock_rules_use_instance_paths_for_accessors_and_prototypes_for_methods() -> None:
    block = ["Navigator.hardwareConcurrency", "HTMLCanvasElement.toDataURL", "http:sec-ch-ua-model"]
    rules = [
        line for line in exported("ublock", decision_of([], block)).splitlines() if line[0] != "!"
    ]
    assert rules == [
        "*##+js(set-constant, navigator.hardwareConcurrency, 4)",
        "*##+js(set-constant, HTMLCanvasElement.prototype.toDataURL, noopFunc)",
        "*$doc,permissions=ch-ua-model=()",
    ]


def test_adguard_rules_use_its_own_words_for_constants() -> None:
    block = ["Navigator.getGamepads", "Navigator.platform", "http:sec-ch-ua-model"]
    text = exported("adguard", decision_of([], block), site="example.com")
    assert [line for line in text.splitlines() if line[0] != "!"] == [
        "example.com#%#//scriptlet('set-constant', 'navigator.platform', '')",
        (
            "example.com#%#//scriptlet('set-constant', 'navigator.getGamepads', 'emptyArr', "
            "'', 'asFunction')"
        ),
        "||example.com^$removeheader=request:sec-ch-ua-model",
    ]


def test_ublock_gets_a_rule_for_each_permission() -> None:
    """Of one rule for three, uBlock Origin makes a header that browsers refuse."""
    hints = [f"http:sec-ch-ua-{name}" for name in ("arch", "bitness", "model")]
    rules = [
        line for line in exported("ublock", decision_of([], hints)).splitlines() if "$" in line
    ]
    assert len(rules) == 3
    assert all("|" not in rule for rule in rules)


@pytest.mark.long
def test_no_rule_of_ours_needs_trust() -> None:
    everything = decision_of([], KNOWN_APIS)
    for name in ("ublock", "adguard"):
        assert "trusted" not in exported(name, everything)


@pytest.mark.parametrize(
    ("rule", "site", "controls", "slips"),
    [
        ("*##+js(set, navigator.hardwareConcurrency, 8)", None, 1, 0),
        ("*##+js(set-constant.js, navigator.hardwareConcurrency, 8)", None, 1, 0),
        ("##+js(set-constant.js, navigator.hardwareConcurrency, 8)", None, 0, 1),
        ("example.com##+js(set, navigator.hardwareConcurrency, 4)", None, 0, 0),
        ("example.com##+js(set, navigator.hardwareConcurrency, 4)", "www.example.com", 1, 0),
        ("*,~example.com##+js(set, navigator.hardwareConcurrency, 4)", "example.com", 0, 0),
        ("*,~example.com##+js(set, navigator.hardwareConcurrency, 4)", "other.org", 1, 0),
        ("~example.com##+js(set, navigator.hardwareConcurrency, 4)", "other.org", 0, 1),
        ("*##+js(set, navigator.platform, Win32)", None, 0, 1),
        ("*##+js(set, navigator.hardwareConcurrency, 99999)", None, 0, 1),
        ('*##+js(trusted-set, navigator.platform, json:"Win32")', None, 0, 1),
        ("*##+js(set, Navigator.prototype.hardwareConcurrency, 4)", None, 0, 1),
        ("*##+js(set, navigator.hardwareConcurrency, 4", None, 0, 1),
        ("*##+js(aopr, AudioContext)", None, 1, 0),
        ("*##+js(prevent-canvas)", None, 1, 0),
        # Of an interface with two names both must go; `nowebrtc` leaves the older one in Chromium.
        ("*##+js(nowebrtc)", None, 0, 0),
        ("*##+js(set, RTCPeerConnection, undefined)", None, 0, 0),
        (
            "".join(
                f"*##+js(set, {name}RTCPeerConnection, undefined)\n" for name in ("", "webkit")
            ),
            None,
            1,
            0,
        ),
        ("*##+js(set, navigator.hardwareConcurrency, 8, runAt, complete)", None, 0, 1),
        ("*##+js(set, navigator.getGamepads, [], as, function)", None, 1, 0),
        ("*##+js(aopr, AudioContext)\n!#include more.txt", None, 1, 1),
        ("example.com###advert", "example.com", 0, 0),
        ("||example.com^$script,third-party", "example.com", 0, 0),
        ("*$doc,permissions=ch-ua-model=()|ch-ua-arch=()", None, 2, 0),
        ("*$permissions=ch-ua-model=()|ch-ua-arch=()|ch-ua-bitness=()", None, 0, 1),
        ("*$permissions=ch-ua-model=()\n@@||a.example^$permissions", None, 0, 0),
        ("*$permissions=ch-ua-model=()\n@@||a.example^$permissions", "b.example", 1, 0),
        ("*$permissions=ch-ua-model=()\n@@/a$/$permissions=ch-ua-model=()", None, 0, 0),
        ("! *##+js(set, navigator.hardwareConcurrency, 8)", None, 0, 0),
        # As the engine of uBlock Origin 1.67 answers for pages, which frames alone are not.
        ("*$all,permissions=ch-ua-model=()", None, 1, 0),
        ("*$doc,frame,permissions=ch-ua-model=()", None, 1, 0),
        ("*$frame,permissions=ch-ua-model=()", None, 0, 1),
        ("*$permissions=ch-ua-model=(),subdocument", None, 0, 1),
        ("*$permissions=ch-ua-model=(),all", None, 0, 1),
        ("*$removeheader=x,permissions=ch-ua-model=()", None, 0, 1),
        ("*$permissions=ch-ua-model=(),permissions=ch-ua-arch=()", None, 0, 1),
        ("*$permissions=ch-ua-model=()\n@@||a.example^$all", "a.example", 1, 0),
        ("*##+js(aopr, AudioContext)\n@@||a.example^$all", "a.example", 1, 0),
    ],
)
def test_ublock_lists_are_read_as_ublock_reads_them(
    rule: str, site: str | None, controls: int, slips: int
) -> None:
    found = PRODUCTS["ublock"].read(rule + "\n", site)
    assert (len(found.controls), len(found.problems)) == (controls, slips)


@pytest.mark.parametrize(
    ("rule", "is_on"),
    [
        ("'set-constant', 'navigator.hardwareConcurrency', '8'", True),
        ("'ubo-set.js', 'navigator.hardwareConcurrency', '8'", True),
        ("'set', 'navigator.hardwareConcurrency', '8'", False),
        ("'set-constant', 'navigator.hardwareConcurrency', '-8'", False),
        ("'set-constant', 'navigator.hardwareConcurrency', 'true'", False),
        ("'set-constant', 'navigator.hardwareConcurrency', 'undefined'", True),
        ("'set-constant', 'navigator.hardwareConcurrency', '8', 'evil.js'", False),
        ("'set-constant', 'navigator.plugins', 'emptyArr'", True),
        ("'set-constant', 'navigator.plugins', '[]'", False),
        ("'set-constant', 'navigator.getGamepads', 'emptyArr', '', 'asFunction'", True),
        ("'ubo-set', 'navigator.getGamepads', 'emptyArr', 'asFunction'", True),
        ("'set-constant', 'navigator.getGamepads', 'emptyArr'", False),
        # Who has set it reads a text, beside which AdGuard sets no object.
        ("'set-constant', 'navigator.doNotTrack', 'null'", False),
    ],
)
def test_adguard_sets_constants_as_its_scriptlets_do(rule: str, *, is_on: bool) -> None:
    found = PRODUCTS["adguard"].read(f"#%#//scriptlet({rule})\n", None)
    assert (len(found.controls), len(found.problems)) == (is_on, not is_on)


def test_a_star_is_no_domain_in_adguard() -> None:
    rule = "#%#//scriptlet('set-constant', 'navigator.hardwareConcurrency', '8')"
    for domains, is_on in (("", True), ("*", False), ("a.example,*", False)):
        assert bool(PRODUCTS["adguard"].read(f"{domains}{rule}\n", None).controls) == is_on, domains


def test_adguard_takes_a_header_from_all_requests_or_the_site_reads_it() -> None:
    rule = "removeheader=request:sec-ch-ua-model"
    for options, is_on in ((rule, True), (f"important,{rule}", True), (f"document,{rule}", False)):
        assert bool(PRODUCTS["adguard"].read(f"*${options}\n", None).controls) == is_on, options


def test_adguard_sets_what_a_setting_of_the_user_is() -> None:
    text = exported("adguard", decision_of([], ["Navigator.doNotTrack"]))
    assert "'navigator.doNotTrack', 'undefined'" in text


def test_an_exception_lifts_a_rule_on_its_site_only() -> None:
    text = "*##+js(aopr, AudioContext)\nexample.com#@#+js(aopr, AudioContext)\n"
    read = PRODUCTS["ublock"].read
    assert read(text, "example.com").controls == ()
    assert len(read(text, "other.org").controls) == 1


# ---- JSON formats, against schemas of what the products accept ----------------------------------

LEVELS = {
    "type": "object",
    "required": ["level_id", "level_text", "level_description"],
    "properties": {
        name: {"type": "string"} for name in ("level_id", "level_text", "level_description")
    },
    "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 7},
}
CHANGE = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"type": {"const": "remove"}},
            "required": ["type"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "type": {"const": "descriptor"},
                "enumerable": {"type": "boolean"},
                "configurable": {"type": "boolean"},
                "define": {"type": "boolean"},
                "getterValue": {
                    "type": "object",
                    "properties": {
                        "type": {
                            "enum": [
                                "undefined",
                                "number",
                                "string",
                                "function",
                                "boolean",
                                "null",
                                "array",
                                "object",
                            ]
                        },
                        "value": {},
                    },
                    "required": ["type"],
                },
            },
            "required": ["type", "getterValue"],
            "additionalProperties": False,
        },
    ]
}
FEATURE = {
    "type": "object",
    "required": ["state", "exceptions"],
    "properties": {
        "state": {"enum": ["enabled", "disabled", "internal"]},
        "exceptions": {"type": "array"},
        "settings": {
            "type": "object",
            "properties": {"apiChanges": {"type": "object", "additionalProperties": CHANGE}},
        },
    },
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "jshelter": {
        "type": "object",
        "required": ["version", "__default__", "custom_levels", "domains"],
        "properties": {
            "version": {"const": 7.1},
            "__default__": {"type": "string"},
            "custom_levels": {"type": "object", "additionalProperties": LEVELS},
            "domains": {"type": "object", "additionalProperties": {"required": ["level_id"]}},
        },
        "additionalProperties": False,
    },
    "duckduckgo": {"type": "object", "additionalProperties": FEATURE},
    "brave": {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["include", "exceptions", "issue"],
            "properties": {"include": {"items": {"pattern": r"^\*://\S+/\*$"}}},
            "additionalProperties": {"type": ["array", "string"]},
        },
    },
    "chromium-policies": {
        "type": "object",
        "properties": {
            "Disable3DAPIs": {"type": "boolean"},
            "DefaultLocalFontsSetting": {"enum": [2, 3]},
            "DefaultWindowManagementSetting": {"enum": [2, 3]},
            "LocalFontsBlockedForUrls": {"items": {"type": "string"}},
            "WindowManagementBlockedForUrls": {"items": {"type": "string"}},
        },
        "additionalProperties": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SCHEMAS))
@settings(deadline=None, max_examples=15)
@given(decision=decisions(), site=st.sampled_from([None, "example.com"]))
def test_json_formats_fit_their_schemas(name: str, decision: Decision, site: str | None) -> None:
    jsonschema.validate(json.loads(exported(name, decision, site=site)), SCHEMAS[name])


LEVEL_3 = {"version": 7.1, "__default__": "a", "custom_levels": {"a": {"webgl": 3}}, "domains": {}}
DELETED = {
    "apiManipulation": {
        "state": "enabled",
        "exceptions": [],
        "settings": {"apiChanges": {"A.prototype.b": {"type": "delete"}}},
    }
}


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("jshelter", json.dumps(LEVEL_3), "webgl"),
        ("jshelter", "[]", "not a configuration"),
        ("duckduckgo", json.dumps(DELETED), "not a change"),
        ("brave", '[{"include":["*://*/*"],"exceptions":["canvass"],"issue":""}]', "canvass"),
        ("chromium-policies", '{"Disable3DAPIs":"true"}', "Disable3DAPIs"),
        ("json", "{}", "exposed"),
        ("gate-js", "export const gate = () => true", "code"),
    ],
)  # fmt: skip
def test_validation_finds_what_products_pass_over(name: str, text: str, word: str) -> None:
    assert any(word in problem for problem in exporter_of(name).validate(text))


def test_brave_excepts_only_what_no_blocked_api_shares_a_name_with() -> None:
    decision = decision_of(["Screen.width", "Navigator.plugins"], ["Screen.height"])
    assert json.loads(exported("brave", decision, site="example.com")) == []
    options: dict[str, Any] = {"site": "example.com", "replace_protection": True}
    content = json.loads(exported("brave", decision, **options))
    assert content == [{"include": ["*://*.example.com/*"], "exceptions": ["plugins"], "issue": ""}]
