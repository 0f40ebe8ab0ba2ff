"""The page snippet: what it reads, when, and what leaves the page; in a made-up browser of Node.js.

The test that builds it again needs npm's `esbuild`, `typescript` and `@hpke/core` in the folder
that FPMONITOR_NODE_MODULES names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fpmonitor.cli import run as main
from fpmonitor.ldp.mechanisms import RandomisedResponse, optimised_unary_encoding
from fpmonitor.monitor import Monitor
from fpmonitor.serve.frames import frame_of, start_of_segment
from fpmonitor.serve.moving import move_segment
from fpmonitor.serve.records import observations_of, split_records
from fpmonitor.serve.snippet import KEY_HERE, SCRIPTS, script_named, unreadable
from fpmonitor.vocabulary import known_apis

ROOT = Path(__file__).parents[2]
BROWSER = ROOT / "collectors" / "browser"
NODE = shutil.which("node")
MODULES = os.environ.get("FPMONITOR_NODE_MODULES", "")
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
LIMIT = 7200

# A browser in which every read is written down. `run(setup, script)` runs both in it and gives
# the result with all that was read, stored and sent.
DRIVER = """
import vm from "node:vm";
import { webcrypto } from "node:crypto";
import { readFileSync } from "node:fs";
const { file, setup, script } = JSON.parse(readFileSync(0, "utf-8"));
const WORLD = `
const reads = [], fetches = [], stored = {}, ofTab = {};
const spied = (name, target) => new Proxy(target, { get(object, key) {
  if (typeof key == "string") reads.push(name + "." + key);
  return Reflect.get(object, key);
} });
const plainNavigator = {
  userAgent: "Made/1.0", languages: ["de", "en"], vendor: "", doNotTrack: null,
  plugins: [{ name: "b" }, { name: "a" }],
  connection: { downlinkMax: Infinity, rtt: 50 }, javaEnabled: () => false, vibrate: () => true,
  get oscpu() { throw new TypeError("no oscpu here"); },
  userAgentData: {
    brands: [{ version: "1", brand: "B" }],
    getHighEntropyValues: async (hints) => ({ [hints[0]]: "x86" }),
  },
  getBattery: () => new Promise(() => {}),
};
var window = globalThis, screen = spied("Screen", { width: 800 });
var navigator = spied("Navigator", plainNavigator);
var matchMedia = (query) => { reads.push("matchMedia " + query);
  const width = /min-width:([0-9]+)px/.exec(query);
  const said = /prefers-color-scheme:dark|pointer:(fine|coarse)|hover:hover/.test(query);
  return { matches: width ? +width[1] <= 1234 : said };
};
var localStorage = {
  getItem: (key) => { reads.push("storage"); return stored[key] ?? null; },
  setItem: (key, text) => { stored[key] = text; }, removeItem: (key) => { delete stored[key]; },
};
var sessionStorage = {
  getItem: (key) => ofTab[key] ?? null, setItem: (key, text) => { ofTab[key] = text; },
  removeItem: (key) => { delete ofTab[key]; },
};
var fetch = async (address, { body, ...how }) => {
  fetches.push([address, body, how]);
  return { status: 202 };
};
`;
const context = vm.createContext({ crypto: webcrypto, TextEncoder, setTimeout });
vm.runInContext(WORLD + setup + ";\\n" + readFileSync(file, "utf-8"), context);
const wrapped = `(async () => { const answered = await (async () => { ${script} })();
  return JSON.stringify({ result: answered, reads, fetches, stored }); })()`;
process.stdout.write(await vm.runInContext(wrapped, context), () => process.exit(0));
"""
ALL_MATCHES = "matchMedia = () => ({ matches: true });"
ALL_HINTS = """plainNavigator.userAgentData.getHighEntropyValues =
  async (hints) => ({ [hints[0]]: 1 });"""
YES = "endpoint: '/v1/observations', consent: () => true"


def run(tmp_path: Path, script: str, setup: str = "", *, file: str = "collector.js") -> Any:
    assert NODE is not None
    (tmp_path / "driver.mjs").write_text(DRIVER, encoding="utf-8")
    given = {"file": str(BROWSER / file), "setup": setup, "script": script}
    done = subprocess.run(
        [NODE, "driver.mjs"], cwd=tmp_path, input=json.dumps(given), capture_output=True,
        text=True, encoding="utf-8", check=True, timeout=60,
    )  # fmt: skip
    return json.loads(done.stdout)


def records_of(page: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for _, body, _ in page["fetches"] for line in body.splitlines()]


def collected(tmp_path: Path, apis: list[str], setup: str = "") -> dict[str, dict[str, Any]]:
    page = run(tmp_path, f"return fpmonitor.collect({{ {YES}, apis: {json.dumps(apis)} }})", setup)
    return {record.pop("api"): record for record in records_of(page)}


def bare(record: dict[str, Any]) -> dict[str, Any]:
    """A record without the names of its visit and session."""
    return {name: value for name, value in record.items() if not name.endswith("_id")}


def lines_of(records: dict[str, dict[str, Any]]) -> str:
    return "".join(json.dumps({"api": api, **record}) + "\n" for api, record in records.items())


def test_the_snippet_is_small_and_needs_nothing() -> None:
    code = (BROWSER / "collector.js").read_text(encoding="utf-8")
    assert len(code.encode()) <= LIMIT
    assert not re.search(r"\bimport\b|\brequire\b|\beval\b|new Function|https?:", code)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["collect", "snippet", *arguments]) == 0
    return capsys.readouterr().out


def test_the_command_prints_lines_with_the_integrity_of_what_is_served(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(capsys, "--apis", 'Screen.width,"</script>"', "--address", "https://l.example/")
    digest = hashlib.sha384((BROWSER / "collector.js").read_bytes()).digest()
    assert f'integrity="sha384-{base64.b64encode(digest).decode()}"' in lines
    assert 'src="https://l.example/v1/collector.js?v=' in lines
    assert lines.count("</script>") == 2, "the name of an API cannot end the script"
    assert KEY_HERE in lines
    assert "consent: () => false" in lines, "nothing is read until somebody writes a consent"
    content = json.loads(printed(capsys, "--apis", "Screen.width", "--format", "json",
                                 "--script", "collector-ldp.js"))  # fmt: skip
    assert content["apis"] == ["Screen.width"]
    assert content["integrity"] == script_named("collector-ldp.js").integrity


@needs_node
def test_lines_for_randomised_values_send_nothing_before_somebody_wrote_the_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(capsys, "--apis", "Screen.width,a", "--script", "collector-ldp.js")
    call = lines.split("<script>")[1].split("</script>")[0].replace("=> false, //", "=> true, //")
    call = f"return {call[call.index('fpmonitor.collect') :]}"
    wrong = call.strip().removesuffix(";") + ".then(() => 'done', (error) => error.name)"
    page = run(tmp_path, wrong, file="collector-ldp.js")
    assert (page["result"], page["fetches"]) == ("RangeError", [])
    page = run(tmp_path, call.replace("/* your values, and */", "800,"), file="collector-ldp.js")
    assert [record["api"] for record in records_of(page)] == ["Screen.width#ldp.grr.1"]


@needs_node
def test_the_command_names_what_the_snippet_never_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", "snippet", "--apis", "Screen.width,FontFaceSet.check,http:dnt"]) == 0
    assert "cannot read FontFaceSet.check, http:dnt\n" in capsys.readouterr().err
    apis = [
        api
        for api, entry in known_apis().items()
        if entry.kind != "method" and not api.startswith("BatteryManager.")  # never answers here
    ]
    apis += ["CSS.supports#a", "FontFaceSet.check#a", "x:a:b"]
    script = f"return fpmonitor.collect({{ {YES}, apis: {json.dumps(apis)} }})"
    page = run(tmp_path, script, ALL_MATCHES + ALL_HINTS)
    assert page["result"]["unread"] == unreadable(apis)
    assert unreadable(["Performance.now", "Navigator.javaEnabled"]) == ["Performance.now"]


def test_the_command_takes_the_candidates_of_a_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(lines_of({api: {"user": f"u{i}", "value": 1}})
                           for i in range(20) for api in ("a", "b")))  # fmt: skip
    with Monitor(tmp_path / "d.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        decision = monitor.decide(k=2, budget=0.5, candidates=["a", "b"], setting="sample")
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(decision.to_json()), encoding="utf-8")
    assert 'apis: ["a", "b"]' in printed(capsys, str(path))


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("missing.json",), ("--apis", "a", "--address", "logs.example"),
        ("--apis", "a", "--script", "other.js"), ("--apis", "a", "--format", "csv"),
    ],
)  # fmt: skip
def test_the_command_refuses_what_makes_no_page(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", "snippet", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1


@pytest.mark.node
@pytest.mark.skipif(
    not (NODE and MODULES and (Path(MODULES) / "@hpke" / "core").is_dir()),
    reason="needs esbuild, typescript and @hpke/core in FPMONITOR_NODE_MODULES",
)
def test_the_built_snippet_comes_from_its_source(tmp_path: Path) -> None:
    wanted = json.loads((BROWSER / "package.json").read_text(encoding="utf-8"))
    for name, version in (wanted["dependencies"] | wanted["devDependencies"]).items():
        package = json.loads((Path(MODULES) / name / "package.json").read_text(encoding="utf-8"))
        assert package["version"] == version
    for name in ("src", "package.json", "tsconfig.json"):
        source = BROWSER / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    (tmp_path / "node_modules").symlink_to(MODULES)
    search = f"{MODULES}/.bin{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["npm", "run", "build"], cwd=tmp_path, env=os.environ | {"PATH": search}, check=True,
        capture_output=True, timeout=60,
    )  # fmt: skip
    for name in SCRIPTS:
        assert (tmp_path / name).read_bytes() == (BROWSER / name).read_bytes(), "npm run build"


@needs_node
def test_loading_the_snippet_reads_stores_and_sends_nothing(tmp_path: Path) -> None:
    page = run(tmp_path, "return Object.keys(fpmonitor)")
    assert page["result"] == ["collect", "forget"]
    assert (page["reads"], page["fetches"], page["stored"]) == ([], [], {})


@needs_node
@pytest.mark.parametrize(
    ("consent", "setup", "outcome"),
    [
        ("() => false", "", "consent"),
        ("() => 'yes'", "", "consent"),
        ("async () => undefined", "", "consent"),
        ("() => true", "plainNavigator.globalPrivacyControl = true", "gpc"),
    ],
)
def test_without_leave_nothing_is_read_stored_or_sent(
    tmp_path: Path, consent: str, setup: str, outcome: str
) -> None:
    script = f"""return fpmonitor.collect({{ endpoint: "/v1/observations", consent: {consent},
      apis: ["Navigator.userAgent", "Screen.width"],
      fingerprintjs: () => {{ reads.push("fp"); }} }})"""
    page = run(tmp_path, script, setup)
    assert page["result"] == {"outcome": outcome, "records": 0, "unread": []}
    assert page["reads"] == ["Navigator.globalPrivacyControl"]
    assert (page["fetches"], page["stored"]) == ([], {})


@needs_node
def test_no_id_and_no_record_where_storage_is_refused(tmp_path: Path) -> None:
    refused = "localStorage.setItem = () => { throw new Error('refused'); }"
    script = f"return fpmonitor.collect({{ {YES}, apis: ['Navigator.userAgent'] }})"
    page = run(tmp_path, script, refused)
    assert page["result"]["outcome"] == "storage"
    assert "Navigator.userAgent" not in page["reads"]
    assert page["fetches"] == []


@needs_node
def test_only_listed_apis_are_read_and_each_is_one_record(tmp_path: Path) -> None:
    apis = ["Navigator.userAgent", "Screen.width", "Navigator.userAgent"]
    page = run(tmp_path, f"return fpmonitor.collect({{ {YES}, apis: {json.dumps(apis)} }})")
    assert page["result"] == {"outcome": "sent", "records": 2, "unread": []}
    reads = {read for read in page["reads"] if read != "storage"}
    assert reads == {
        *("Navigator.globalPrivacyControl", "Navigator.userAgent", "Screen.width"),
    }
    user = json.loads(page["stored"]["fpmonitor"])["user"]
    assert re.fullmatch("[0-9a-f]{32}", user)
    assert [bare(record) for record in records_of(page)] == [
        {"user": user, "api": "Navigator.userAgent", "status": "value", "value": "Made/1.0"},
        {"user": user, "api": "Screen.width", "status": "value", "value": 800},
    ]


@needs_node
def test_value_undefined_and_error_are_three_statuses(tmp_path: Path) -> None:
    found = collected(
        tmp_path,
        [
            *("Navigator.languages", "Navigator.buildID", "Navigator.oscpu", "Navigator.vendor"),
            *("Navigator.doNotTrack", "NetworkInformation.downlinkMax", "NavigatorUAData.brands"),
            *("Navigator.javaEnabled", "Navigator.plugins#fpmonitor", "Navigator.connection"),
            *("css:prefers-color-scheme", "css:any-pointer", "css:width"),
            *("NavigatorUAData.getHighEntropyValues#architecture", "Screen.colorDepth"),
            "Intl.NumberFormat.resolvedOptions#numberingSystem",
        ],
    )
    assert {api: (entry["status"], entry.get("value")) for api, entry in found.items()} == {
        "Navigator.languages": ("value", ["de", "en"]),
        "Navigator.buildID": ("undefined", None),
        "Navigator.oscpu": ("error", "no oscpu here"),
        "Navigator.vendor": ("value", ""),
        "Navigator.doNotTrack": ("value", None),
        "NetworkInformation.downlinkMax": ("value", "Infinity"),
        "NavigatorUAData.brands": ("value", [{"brand": "B", "version": "1"}]),
        "Navigator.javaEnabled": ("value", False),
        "Navigator.plugins#fpmonitor": ("value", ["b", "a"]),
        "Navigator.connection": ("value", {"downlinkMax": "Infinity", "rtt": 50}),
        "css:prefers-color-scheme": ("value", "dark"),
        "css:any-pointer": ("value", ["coarse", "fine"]),
        "css:width": ("value", 1234),
        "NavigatorUAData.getHighEntropyValues#architecture": ("value", "x86"),
        "Screen.colorDepth": ("undefined", None),
        "Intl.NumberFormat.resolvedOptions#numberingSystem": ("value", "latn"),
    }


@needs_node
def test_what_cannot_be_read_is_named_and_not_recorded(tmp_path: Path) -> None:
    apis = [
        *("http:user-agent", "Navigator.vibrate", "x:mine:y", "BatteryManager.level"),
        *("constructor.name", "css:system-color", "css:prefers-contrast", "css:scan", "css:colour"),
        "Intl.NumberFormat.resolvedOptions#currency",
        "Intl.DateTimeFormat.resolvedOptions#hourCycles",
    ]
    page = run(tmp_path, f"return fpmonitor.collect({{ {YES}, apis: {json.dumps(apis)} }})")
    assert page["result"] == {"outcome": "sent", "records": 0, "unread": apis}
    assert page["fetches"] == []


@needs_node
def test_attributes_of_the_vocabulary_are_readable_under_their_names(tmp_path: Path) -> None:
    shapes = re.compile(r"(Navigator|Screen|css|NavigatorUAData|NetworkInformation)[.:]")
    apis = [
        name
        for name, entry in known_apis().items()
        if shapes.match(name) and entry.kind in {"attribute", "media"} and "#" not in name
    ]
    assert len(apis) > 60
    script = f"return fpmonitor.collect({{ {YES}, apis: {json.dumps(apis)} }})"
    unread = set(run(tmp_path, script, ALL_MATCHES)["result"]["unread"])
    ratios = {"css:aspect-ratio", "css:device-aspect-ratio", "css:resolution"}
    assert unread == {*ratios, "css:system-color"}


@needs_node
def test_what_a_page_without_encryption_is_not_shown_is_not_undefined(tmp_path: Path) -> None:
    apis = [
        "Navigator.userAgent",
        "Navigator.deviceMemory",
        "MediaDevices.enumerateDevices#fpmonitor",
    ]
    script = f"return fpmonitor.collect({{ {YES}, apis: {json.dumps(apis)} }})"
    page = run(tmp_path, script, "window.isSecureContext = false")
    assert page["result"]["unread"] == apis[1:]
    assert [record["api"] for record in records_of(page)] == apis[:1]


@needs_node
def test_an_answer_that_was_lost_makes_no_record_twice(tmp_path: Path) -> None:
    """The service had the records when the way back broke: they are sent again, at another time."""
    script = f"""const online = fetch;
    fetch = async (...given) => {{ await online(...given); throw new TypeError("lost"); }};
    {VISIT};
    fetch = online;
    {VISIT};"""
    page = run(tmp_path, script)
    first, second = [body for _, body, _ in page["fetches"]]
    assert second.startswith(first)
    with Monitor(tmp_path / "d.duckdb", create=True) as monitor:
        for time, body in enumerate((first, second), start=1_800_000_000):
            received = split_records(body.encode(), 100)
            [content] = observations_of(
                received, time=str(time), source="key", headers={"http:dnt": "1"}
            ).contents
            segment = tmp_path / f"{time}.observations.frames"
            segment.write_bytes(start_of_segment() + frame_of(content))
            [moved] = move_segment(monitor, segment, tmp_path)
        assert (moved.stored, moved.rejected) == (2, 0), "one of three is known"
        counts = Counter(row[1] for row in monitor.observations())
        assert counts == {"Screen.width": 2, "http:dnt": 2}
        assert monitor.population().snapshot.visits == 2


@needs_node
def test_a_session_is_of_a_tab_and_of_the_tabs_of_its_day_and_of_one_visitor(
    tmp_path: Path,
) -> None:
    script = f"""
    const start = Date.now(), visit = async () => {{ {VISIT}; }};
    const closed = () => {{ for (const key in ofTab) delete ofTab[key]; }};
    await visit(); await visit();                               // one page after the other
    closed(); await visit();                                    // another tab of the same day
    Date.now = () => start + 3 * 864e5; await visit();          // that tab stayed open
    closed(); await visit();                                    // another day
    fpmonitor.forget(); await visit();
    return Object.keys(ofTab).length;"""
    page = run(tmp_path, script)
    records = records_of(page)
    sessions = [record["session_id"] for record in records]
    assert len(set(sessions[:4])) == 1
    assert len(set(sessions)) == 3
    assert len({record["visit_id"] for record in records}) == 6
    assert not set(sessions) & {record["user"] for record in records}


@needs_node
def test_no_session_is_kept_where_the_storage_of_a_tab_is_refused(tmp_path: Path) -> None:
    refused = "sessionStorage.setItem = () => { throw new Error('refused'); }"
    page = run(tmp_path, f"return {VISIT}", refused)
    assert (page["result"]["outcome"], page["fetches"]) == ("storage", [])


@needs_node
def test_large_values_leave_the_page_as_the_store_keeps_them(tmp_path: Path) -> None:
    values = {"vendor": "é𝔘" * 200, "product": ["ä", "b" * 300], "platform": "p" * 256}
    setup = "".join(
        f"plainNavigator.{name} = {json.dumps(value)};" for name, value in values.items()
    )
    found = collected(tmp_path, [f"Navigator.{name}" for name in values], setup)
    assert found["Navigator.vendor"]["value"].endswith(":400")
    sent, raw = tmp_path / "sent.jsonl", tmp_path / "raw.jsonl"
    sent.write_text(lines_of(found))
    raw.write_text(
        lines_of({f"Navigator.{name}": {"user": "u", "value": values[name]} for name in values})
    )
    kept = []
    for path in (sent, raw):
        with Monitor(tmp_path / f"{path.stem}.duckdb", create=True) as monitor:
            [batch] = monitor.ingest([str(path)])
            assert (batch.stored, batch.rejected) == (3, 0)
            kept.append({row[1]: row[2:] for row in monitor.observations()})
    assert kept[0] == kept[1]
    digest = hashlib.sha256(("é𝔘" * 200).encode()).hexdigest()[:32]
    assert f"sha256:{digest}:400" in kept[0]["Navigator.vendor"]


@needs_node
def test_statuses_reach_the_store(tmp_path: Path) -> None:
    found = collected(tmp_path, ["Navigator.buildID", "Navigator.oscpu", "Navigator.doNotTrack"])
    log = tmp_path / "sent.jsonl"
    log.write_text(lines_of(found))
    with Monitor(tmp_path / "sent.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        kept = {row[1]: (row[2], row[4]) for row in monitor.observations()}
    assert kept == {
        "Navigator.buildID": ("undefined", None),
        "Navigator.oscpu": ("error", "no oscpu here"),
        "Navigator.doNotTrack": ("value", "null"),
    }


OFFLINE = "fetch = async () => { throw new TypeError('offline'); };"
VISIT = f"await fpmonitor.collect({{ {YES}, apis: ['Screen.width'] }})"


@needs_node
@pytest.mark.parametrize(
    ("setup", "outcome", "kept"),
    [
        ("", "sent", 0),
        (OFFLINE, "undelivered", 1),
        ("fetch = async () => ({ status: 503 })", "undelivered", 1),
        ("fetch = async () => ({ status: 401 })", "refused", 0),
    ],
)
def test_the_outcome_is_what_became_of_the_records(
    tmp_path: Path, setup: str, outcome: str, kept: int
) -> None:
    page = run(tmp_path, f"return {VISIT}", setup)
    assert page["result"] == {"outcome": outcome, "records": int(not setup), "unread": []}
    assert len(json.loads(page["stored"]["fpmonitor"]).get("unsent", [])) == kept


@needs_node
def test_what_could_not_be_sent_is_sent_by_a_later_visit_that_consents(tmp_path: Path) -> None:
    script = f"""const online = fetch; {OFFLINE}
    for (let i = 0; i < 9; i++) {VISIT};
    fetch = online;
    await fpmonitor.collect({{ {YES}, consent: () => false, apis: ["Screen.width"] }});
    const refused = fetches.length, waiting = JSON.parse(stored.fpmonitor).unsent.length;
    const done = {VISIT};
    {VISIT};
    return [refused, waiting, done.records, JSON.parse(stored.fpmonitor).unsent.length];"""
    page = run(tmp_path, script)
    assert page["result"] == [0, 1, 10, 0]
    assert len(records_of(page)) == 11, "nine that waited and two of their own, each once"


@needs_node
def test_many_records_go_in_requests_that_outlive_their_page(tmp_path: Path) -> None:
    setup = "for (let i = 0; i < 700; i++) plainNavigator['m' + i] = '€'.repeat(80)"
    apis = json.dumps([f"Navigator.m{i}" for i in range(700)])
    page = run(tmp_path, f"return fpmonitor.collect({{ {YES}, apis: {apis} }})", setup)
    assert page["result"]["records"] == 700
    assert len(page["fetches"]) > 1
    assert max(len(body.encode()) for _, body, _ in page["fetches"]) < 65536
    assert all(how["keepalive"] for _, _, how in page["fetches"])
    assert [record["api"] for record in records_of(page)] == json.loads(apis)


@needs_node
def test_the_id_stays_until_it_expires_or_is_forgotten(tmp_path: Path) -> None:
    script = f"""
    const users = [];
    const visit = async () => {{
      await fpmonitor.collect({{ {YES}, apis: ["Screen.width"], days: 2 }});
      users.push(JSON.parse(stored.fpmonitor).user); }};
    const start = Date.now();
    for (const days of [0, 1.9, 2.1]) {{ Date.now = () => start + days * 864e5; await visit(); }}
    await visit(); fpmonitor.forget(); users.push(stored.fpmonitor ?? null); await visit();
    return users;"""
    page = run(tmp_path, script)
    first, same, fresh, again, forgotten, last = page["result"]
    assert first == same
    assert fresh == again
    assert forgotten is None
    assert len({first, fresh, last}) == 3
    assert {record["user"] for record in records_of(page)} == {first, fresh, last}


@needs_node
def test_a_fingerprintjs_result_is_stored_as_its_own_log_would_be(tmp_path: Path) -> None:
    text = (ROOT / "fixtures" / "records" / "fingerprintjs-5.json").read_text(encoding="utf-8")
    result = json.loads(text)
    result = result[0] if isinstance(result, list) else result
    setup = f"const result = {json.dumps(result)}; const error = new TypeError('boom')"
    script = f"""result.components.audio = {{ error, duration: 1 }};
    return fpmonitor.collect({{ {YES}, fingerprintjs: async () => result }})"""
    page = run(tmp_path, script, setup)
    [record] = records_of(page)
    assert "visitorId" not in json.dumps(record)
    result["components"]["audio"] = {"error": "boom", "duration": 1}
    kept = []
    for name, content in (("sent", record), ("raw", result | {"user": "u"})):
        log = tmp_path / f"{name}.json"
        log.write_text(json.dumps(content), encoding="utf-8")
        with Monitor(tmp_path / f"{name}.duckdb", create=True) as monitor:
            [batch] = monitor.ingest([str(log)])
            assert (batch.collector, batch.rejected) == ("fingerprintjs", 0)
            kept.append({row[1]: row[2:] for row in monitor.observations()})
    assert kept[0] == kept[1]
    assert len(kept[0]) > 30

    script = f"""return fpmonitor.collect({{
      {YES}, fingerprintjs: result, components: ["vendor"] }})"""
    only = run(tmp_path, script, setup)
    assert [set(record["components"]) for record in records_of(only)] == [{"vendor"}]


@needs_node
def test_what_another_tab_kept_meanwhile_stays(tmp_path: Path) -> None:
    script = f"""let meanwhile = (kept) => ({{ ...kept, reports: {{ a: 1 }} }});
    fetch = async () => {{
      stored.fpmonitor = JSON.stringify(meanwhile(JSON.parse(stored.fpmonitor)));
      throw new TypeError("offline"); }};
    {VISIT};
    const after = JSON.parse(stored.fpmonitor);
    meanwhile = () => ({{}});
    {VISIT};
    return [after.reports, after.unsent.length, stored.fpmonitor];"""
    assert run(tmp_path, script)["result"] == [{"a": 1}, 1, "{}"]


def drawn(tmp_path: Path, plan: dict[str, Any], value: Any, times: int) -> Counter[str]:
    script = f"""const counts = {{}};
    for (let i = 0; i < {times}; i++) {{
      const report = fpmonitor.randomise({json.dumps(value)}, {json.dumps(plan)});
      counts[report] = (counts[report] ?? 0) + 1;
    }}
    return counts;"""
    return Counter(run(tmp_path, script, file="collector-ldp.js")["result"])


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("value", [30, 99])
def test_randomised_response_in_the_page_has_the_law_of_its_matrix(
    tmp_path: Path, value: int
) -> None:
    values, times = [24, 30, 32, 48], 60_000
    plan = {"mechanism": "grr", "epsilon": 1.2, "values": values}
    counts = drawn(tmp_path, plan, value, times)
    law = RandomisedResponse(4, 1.2).matrix()[:, values.index(value) if value in values else 3]
    seen = [counts[str(listed)] for listed in values]
    assert sum(seen) == times
    assert stats.chisquare(seen, law * times).pvalue > 1e-6


@needs_node
def test_unary_encoding_in_the_page_has_the_law_of_its_matrix(tmp_path: Path) -> None:
    plan = {"mechanism": "oue", "epsilon": 0.8, "values": ["a", "b", "c"]}
    times = 60_000
    counts = drawn(tmp_path, plan, "b", times)
    matrix = optimised_unary_encoding(3, 0.8).matrix()
    seen = np.zeros(8)
    for bits, count in counts.items():
        seen[int(bits[::-1], 2)] = count
    assert stats.chisquare(seen, matrix[:, 1] * times).pvalue > 1e-6
    assert stats.chisquare(seen, matrix[:, 0] * times).pvalue < 1e-6


@needs_node
def test_a_randomised_api_leaves_the_page_as_one_report_for_the_life_of_the_id(
    tmp_path: Path,
) -> None:
    script = f"""for (let i = 0; i < 5; i++) await fpmonitor.collect({{
      {YES}, apis: ["Navigator.vendor", "Screen.width"], randomised: {{ "Screen.width":
        {{ mechanism: "oue", epsilon: 0.1, values: [1, 2, 800, 4, 5, 6, 7, 8] }} }} }});"""
    page = run(tmp_path, script, file="collector-ldp.js")
    records = [record for record in records_of(page) if record["api"] != "Navigator.vendor"]
    assert {record["api"] for record in records} == {"Screen.width#ldp.oue.0.1"}
    assert len(records) == 5
    assert len({record["value"] for record in records}) == 1
    assert re.fullmatch("[01]{8}", records[0]["value"])
    assert page["reads"].count("Screen.width") == 1


@needs_node
def test_reports_by_two_matrices_are_never_taken_for_one_another(tmp_path: Path) -> None:
    """Both have no LDP level, so that it cannot name them."""
    half = 2**51
    plans = [
        {"mechanism": "matrix", "epsilon": None, "values": [800, "other"], "matrix": matrix}
        for matrix in ([[2**52, 0], [0, 2**52]], [[2**52, half], [0, half]])
    ]
    asked = (json.dumps({"Screen.width": plan}) for plan in (*plans, *plans))
    calls = "".join(f"await fpmonitor.collect({{ {YES}, randomised: {one} }});" for one in asked)
    names = [record["api"] for record in records_of(run(tmp_path, calls, file="collector-ldp.js"))]
    assert len(set(names)) == 2
    assert names[:2] == names[2:]
    assert all(re.fullmatch(r"Screen\.width#ldp\.matrix\.[0-9a-f]{8}", name) for name in names)


@needs_node
@pytest.mark.parametrize(
    "plan",
    [
        '{ mechanism: "none", epsilon: 1, values: [1, 2] }',
        '{ mechanism: "grr", epsilon: 0, values: [1, 2] }',
        '{ mechanism: "grr", epsilon: 1, values: [1] }',
        '{ mechanism: "matrix", epsilon: 1, values: [1, 2], matrix: [[0.7, 0.3], [0.3, 0.7]] }',
    ],
)
def test_a_wrong_randomisation_sends_nothing(tmp_path: Path, plan: str) -> None:
    script = f"""return fpmonitor.collect({{ {YES}, randomised: {{ "Screen.width": {plan} }} }})
      .then(() => "done", (error) => error.name)"""
    page = run(tmp_path, script, file="collector-ldp.js")
    assert page["result"] == "RangeError"
    assert page["fetches"] == []
