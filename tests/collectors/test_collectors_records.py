"""What foreign logs say is what the store holds: golden records of each format, and broken ones."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.collectors import records
from fpmonitor.collectors.choosing import choose_collector
from fpmonitor.collectors.fingerprintjs import FingerprintjsCollector
from fpmonitor.collectors.log_forms import log_line
from fpmonitor.collectors.records import text_of
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import log_files
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import load_plugin
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import ingest_log
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.store.batches import BatchReport

RECORDS = Path(__file__).parents[2] / "fixtures" / "records"
EXPECTED: dict[str, Any] = json.loads((RECORDS / "expected.json").read_text(encoding="utf-8"))
TRAFFIC: dict[str, Any] = json.loads(
    (RECORDS / "expected_traffic.json").read_text(encoding="utf-8")
)
FP5 = json.loads((RECORDS / "fingerprintjs-5.json").read_text(encoding="utf-8"))

CREEPJS = {
    "navigator": {
        "platform": "Linux x86_64",
        "deviceMemory": 16,
        "userAgentData": {"mobile": False},
    },
    "screen": {"width": 800, "height": 600, "lied": False, "$hash": "0f"},
    "canvas2d": {"lied": True, "dataURI": "data:,x", "$hash": "1f"},
    "cssMedia": {"colorGamut": "srgb", "hover": "none"},
    "timezone": {"locationMeasured": "UTC"},
    "fonts": ["A"],
    "forceRenew": 17,
}
HAR = {
    "log": {
        "version": "1.2",
        "entries": [
            {
                "startedDateTime": "2026-11-01T10:00:00Z",
                "request": {
                    "headers": [
                        {"name": "User-Agent", "value": "UA"},
                        {"name": "Cookie", "value": "secret"},
                        {"name": "Accept", "value": "image/*"},
                        {"name": "sec-ch-ua-model", "value": '""'},
                    ]
                },
            },
            {
                "startedDateTime": "2026-11-01T10:00:01Z",
                "request": {
                    "headers": [
                        {"name": "Sec-Fetch-Mode", "value": "navigate"},
                        {"name": "Accept", "value": "text/html"},
                    ]
                },
            },
            {"startedDateTime": "2026-11-01T10:00:02Z", "request": {}},
        ],
    }
}
COMBINED = (
    '10.0.0.1 - - [21/Nov/2026:01:29:26 +0000] "GET / HTTP/1.1" 200 12 "-" '
    '"Mozilla \\x22x\\x22 \\xC3\\xA9"\n'
    "no line of a log\n"
    '10.0.0.2 - - [21/Nov/2026:01:29:27 +0000] "GET / HTTP/1.1" 200 12 "https://example.org/" "-"\n'
)
AMIUNIQUE = (
    "counter,id,creationDate,updateDate,userAgentHttp,languageHttp,platformJS,timezoneJS,"
    "canvasJSHashed,octaneScore\n"
    "1,a,2016-01-01 10:00:00,2016-01-02 10:00:00,UA,en,Linux,-60,ff,1\n"
    "2,a,2016-02-01 10:00:00,2016-02-02 10:00:00,UA2,en,Linux,-60,ee,1\n"
)
GLEAN = (
    "metrics.uuid.characteristics_client_identifier,"
    "metrics.quantity.characteristics_max_touch_points,"
    "metrics.quantity.characteristics_processor_count,metrics.string.characteristics_timezone,"
    "metrics.string.characteristics_gpu,document_id\n"
    "u,0,8,Europe/Berlin,x,17\n"
)
UKM = "user,metric_hash,value\nu,4098,7\nu,-1,8\nu,x,9\n"


def stored(
    folder: Path,
    content: str | bytes,
    *,
    name: str = "log.json",
    columns: Mapping[str, str] | None = None,
    visitor: bool = False,
) -> tuple[BatchReport, list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Report, observations (user, API, status, source, text) and rejects of one log."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    database_path = folder / "one.duckdb"
    database_path.unlink(missing_ok=True)
    column_map = ColumnMap(columns or {}, visitor=visitor)
    with log_files([str(path)]) as [log], Database(database_path, create=True) as database:
        report = ingest_log(database, log, choose_collector(log, column_map), column_map)
        return (
            report,
            database.rows("report/observations"),
            database.rows("report/rejects", most=1000),
        )


def counts(report: BatchReport) -> tuple[int, int, int, int]:
    return report.read, report.stored, report.duplicates, report.rejected


def values(rows: list[tuple[Any, ...]]) -> dict[str, tuple[str, str | None]]:
    return {api: (status, text) for _, api, status, _, text in rows}


@pytest.mark.parametrize("name", EXPECTED)
def test_records_of_real_libraries_are_read_as_before(name: str, tmp_path: Path) -> None:
    report, rows, _ = stored(tmp_path, (RECORDS / name).read_bytes())
    assert report.collector == name.split("-", maxsplit=1)[0]
    assert {row[3] for row in rows} == {EXPECTED[name]["source"]}
    expected = {api: tuple(cell) for api, cell in EXPECTED[name]["observations"].items()}
    assert values(rows) == expected


def test_a_debug_string_says_the_same_as_the_result() -> None:
    result, debug = (
        EXPECTED[f"fingerprintjs-5{kind}.json"]["observations"] for kind in ("", "-debug")
    )
    assert {api for api in result if result[api] != debug[api]} <= {
        api for api in result if result[api][0] == "error"
    }


def test_components_alone_and_wrapped_results_are_read(tmp_path: Path) -> None:
    alone = values(stored(tmp_path, json.dumps(FP5["components"]))[1])
    wrapped = {"user": "u", "time": 1_700_000_000, "fingerprint": FP5}
    report, rows, _ = stored(tmp_path, json.dumps(wrapped) + "\n" + json.dumps(wrapped))
    assert values(rows) == alone
    assert (report.read, report.stored, report.duplicates, report.users) == (2, 1, 1, 1)


def test_version_4_of_fingerprintjs_is_told_by_its_components(tmp_path: Path) -> None:
    components = {
        key: FP5["components"][key] for key in FP5["components"] if key != "userAgentData"
    }
    _, rows, _ = stored(tmp_path, json.dumps(components))
    assert {row[3] for row in rows} == {"fingerprintjs 4"}


def test_what_lies_beside_a_result_of_fingerprintjs_is_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site that logs `{"ua": ..., "fp": result}` lost its user agents without a word."""
    monkeypatch.chdir(tmp_path)
    version_4 = {
        "version": "4.6.2",
        "components": {k: v for k, v in FP5["components"].items() if k != "userAgentData"},
    }
    results = [json.loads((RECORDS / "fingerprintjs-3.json").read_text()), version_4, FP5]
    lines = []
    for i in range(30):
        result = results[i % 3]
        own = {"user": i, "at": f"2026-02-0{1 + i % 9}", "ua": f"agent {i % 3}", "odd": i % 2}
        shapes = ({**own, **result}, {**own, "fp": result}, {**own, "fp": result["components"]})
        lines.append(json.dumps(shapes[i // 10]))
    Path("log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert run(["ingest", "log.jsonl"]) == 2
    assert "--time at" in capsys.readouterr().err
    assert run(["ingest", "log.jsonl", "--time", "at", "--as", "odd=screen.width"]) == 0
    assert "ua is Navigator.userAgent" in capsys.readouterr().err
    with Monitor("fpmonitor.duckdb") as monitor:
        population = monitor.population()
        assert population.named(["Navigator.userAgent", "Screen.width"]) == ("ua", "odd")
        texts = population.value_texts("ua")
        seen = [texts[code] for code in population.column("ua").tolist()]
        assert sorted(map(str, seen)) == sorted(f"agent {i % 3}" for i in range(30))
        assert population.users_of_apis()["odd"] == 30
        assert population.days(1) == (date(2026, 2, 1), date(2026, 2, 9))


@pytest.mark.parametrize(
    "result",
    [
        {"thumbmark": "f", "components": {"screen": {"colorDepth": 1}, "math": {}}},
        CREEPJS,
        {"getColorDepth": 24, "isCookie": True, "getOS": "Linux"},
    ],
)
@pytest.mark.parametrize("member", [None, "result"])
def test_what_lies_beside_results_of_other_libraries_is_what_it_is(
    tmp_path: Path, result: dict[str, Any], member: str | None
) -> None:
    def log(**own: Any) -> str:
        records = ({"user": i, "at": f"2026-02-0{i}", **own} for i in range(1, 9))
        made = [record | ({member: result} if member else result) for record in records]
        return "\n".join(map(json.dumps, made))

    with pytest.raises(InputError, match="'at' looks like a time"):
        stored(tmp_path, log())
    columns = {"time": "at"}
    _, alone, _ = stored(tmp_path, log(), columns=columns)
    _, rows, _ = stored(tmp_path, log(ua="agent", novel=3), columns=columns)
    added = {api: values(rows)[api] for api in values(rows).keys() - values(alone).keys()}
    assert added == {"ua": ("value", "agent"), "novel": ("value", "3")}


def test_the_four_states_of_fingerprintjs_survive(tmp_path: Path) -> None:
    components = {
        "osCpu": {"duration": 0},
        "vendor": {"value": "", "duration": 0},
        "webGlBasics": {
            "error": {"name": "Error", "message": "lost", "stack": "at x"},
            "duration": 0,
        },
        "canvas": {"error": {}, "duration": 0},
        "touchSupport": {"value": {"maxTouchPoints": 0}, "duration": 0},
        "applePay": {"value": -1, "duration": 0},
        "novelty": {"value": None, "duration": 0},
    }
    seen = values(stored(tmp_path, json.dumps({"components": components, "version": "5.9.9"}))[1])
    assert seen["Navigator.oscpu"] == ("undefined", None)
    assert seen["Navigator.vendor#fingerprintjs"] == ("value", "")
    lost = ("error", '{"message":"lost","name":"Error"}')
    assert seen["WebGLRenderingContext.getParameter#VERSION"] == lost
    assert seen["HTMLCanvasElement.toDataURL#fingerprintjs.text"] == ("error", None)
    assert seen["Navigator.maxTouchPoints#fingerprintjs"] == ("value", "0")
    assert seen["Window.ontouchstart#fingerprintjs"] == ("undefined", None)
    assert seen["ApplePaySession.canMakePayments#fingerprintjs"] == ("value", "-1")
    assert seen["x:fingerprintjs:novelty"] == ("value", "null")
    assert "Navigator.deviceMemory" not in seen


def test_events_of_the_pro_service_are_refused_with_the_reason(tmp_path: Path) -> None:
    event = {"products": {"identification": {"data": {"visitorId": "x"}}}}
    with pytest.raises(InputError, match="Pro hold no components"):
        stored(tmp_path, json.dumps(event))


def test_raw_attributes_in_events_of_the_pro_service_are_components(tmp_path: Path) -> None:
    attributes = {
        "canvas": {"value": {"Winding": True, "Geometry": "g", "Text": "t"}},
        "deviceMemory": {"value": 8},
        "novelty": {"value": 3},
        "platform": {"value": "Linux"},
        "vendor": {"error": {"name": "Error", "message": "lost"}},
    }
    identified = {"data": {"visitorId": "v", "linkedId": "u", "ip": "192.0.2.1"}}
    products = {"identification": identified, "rawDeviceAttributes": {"data": attributes}}
    seen = values(stored(tmp_path, json.dumps({"products": products}))[1])
    assert seen["HTMLCanvasElement.toDataURL#fingerprintjs.text"] == ("value", "t")
    assert seen["CanvasRenderingContext2D.isPointInPath#fingerprintjs"] == ("value", "true")
    assert seen["Navigator.platform#fingerprintjs"] == ("value", "Linux")
    assert seen["Navigator.vendor#fingerprintjs"][0] == "error"
    assert not any("visitorId" in name or "ip" in name.split(".") for name in seen)


def test_components_that_thumbmarkjs_could_not_read_are_errors(tmp_path: Path) -> None:
    result = {
        "thumbmark": "f",
        "version": "1.11.0",
        "components": {
            "screen": {"colorDepth": 24},
            "system": {"platform": "Linux"},
            "math": {"a": {}},
        },
        "error": [{"type": "timeout", "component": "audio", "message": "too slow"}, 3],
    }
    seen = values(stored(tmp_path, json.dumps(result))[1])
    assert seen["OfflineAudioContext.startRendering#thumbmarkjs"] == ("error", "too slow")
    assert seen["Screen.colorDepth"] == ("value", "24")
    assert seen["x:thumbmarkjs:math.a"] == ("value", "{}")


def test_thumbmarkjs_without_webgl_read_undefined(tmp_path: Path) -> None:
    parts = {
        "screen": {"colorDepth": 24},
        "hardware": {"videocard": "undefined"},
        "webgl": {"webgl": "unsupported"},
    }
    seen = values(stored(tmp_path, json.dumps({"thumbmark": "f", "components": parts}))[1])
    assert seen["WebGLRenderingContext.getParameter#VERSION"] == ("undefined", None)
    assert not [api for api in seen if api.startswith("x:")]


@pytest.mark.parametrize(
    "record",
    [
        {
            "getScreenPrint": "Current Resolution: 8x6", "getOS": "Linux", "isIpad": False,
            "isFlash": False, "getDeviceVendor": "x", "isCanvas": True, "getJavaVersion": "",
        },
        {
            "navigator": {"doNotTrack": None, "device": "Linux x86_64", "system": "Linux"},
            "screen": {"availWidth": 8, "availHeight": 6},
            "workerScope": {
                "hardwareConcurrency": 2, "platform": "Linux", "webglRenderer": "r",
                "timezoneLocation": "UTC", "userAgentData": {"model": ""}, "language": "en",
            },
            "css": [{"caption": "16px Arial"}],
        },
        {
            "thumbmark": "f",
            "components": {
                "screen": {"resolution": "8x6"},
                "math": {"acos": 1.0, "largeTan": -0.8},
                "system": {"browser": {"name": "Chrome", "version": "1"}, "mobile": False},
            },
        },
    ],
)  # fmt: skip
def test_names_of_libraries_are_known_where_the_api_is(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    seen = values(stored(tmp_path, json.dumps(record))[1])
    assert len(seen) >= 6
    assert not [api for api in seen if api.startswith("x:")]


def test_creepjs_sections_are_read_without_their_hashes(tmp_path: Path) -> None:
    report, rows, _ = stored(tmp_path, json.dumps(CREEPJS))
    seen = values(rows)
    assert report.collector == "creepjs"
    assert seen["Screen.width"] == ("value", "800")
    assert seen["HTMLCanvasElement.toDataURL#creepjs.canvas2d.lied"] == ("value", "true")
    assert not [api for api in seen if "$hash" in api or "forceRenew" in api]


def test_a_har_is_one_visitor_and_keeps_no_cookies(tmp_path: Path) -> None:
    har = json.dumps(HAR, indent=1)
    report, rows, rejects = stored(tmp_path, har, name="a.har.json", visitor=True)
    assert report.unit == "visitor"
    assert (report.collector, report.read, report.stored, report.rejected) == ("har", 3, 2, 1)
    assert report.users == 1
    assert values(rows) == {
        "http:user-agent": ("value", "UA"),
        "http:sec-ch-ua-model": ("value", '""'),
        "http:accept": ("value", "text/html"),
        "http:sec-fetch-mode": ("value", "navigate"),
    }
    assert [reject[1:3] for reject in rejects] == [(3, "no request headers")]


def test_an_account_of_a_har_is_the_same_in_every_process(tmp_path: Path) -> None:
    """It had the order of a set."""
    har = (Path(__file__).parents[2] / "fixtures" / "records" / "har-1.2.har").read_text()
    account = stored(tmp_path, har, name="a.har", columns={"user": "row"})[0].account
    assert account is not None
    left_out = [m.path for m in account.set_aside if not m.path.startswith("request.headers.")]
    assert len(left_out) > 10
    assert left_out == sorted(left_out)


def test_access_logs_are_unescaped_and_lines_without_user_are_rows(tmp_path: Path) -> None:
    report, rows, rejects = stored(tmp_path, COMBINED, name="access.log", columns={"user": "row"})
    assert report.unit == "row"
    assert (report.collector, report.read, report.stored, report.rejected) == ("accesslog", 3, 1, 2)
    assert values(rows) == {"http:user-agent": ("value", 'Mozilla "x" é')}
    assert [reject[1] for reject in rejects] == [2, 3]
    by_host, _, _ = stored(tmp_path, COMBINED * 2, name="access.log", columns={"user": "host"})
    assert (by_host.users, by_host.stored, by_host.duplicates) == (1, 1, 1)


def test_the_log_line_for_nginx_is_read_back(tmp_path: Path) -> None:
    assert "$http_sec_ch_ua_platform_version" in log_line("nginx")
    line = {
        "user": "u",
        "time": "2026-11-21T01:00:00+01:00",
        "http:user-agent": "UA",
        "http:sec-ch-ua": "",
    }
    report, rows, _ = stored(tmp_path, json.dumps(line) + "\n", name="fpm.log")
    assert (report.collector, report.users) == ("accesslog", 1)
    assert values(rows) == {"http:user-agent": ("value", "UA")}


def test_an_access_log_tells_of_the_connection_and_of_requests_for_pages_alone(
    tmp_path: Path,
) -> None:
    page = {
        "user": "u1",
        "time": "2026-11-21T04:38:03+00:00",
        "http:user-agent": "Mozilla/5.0",
        "http:sec-fetch-mode": "navigate",
        "http:sec-fetch-dest": "document",
        "http:priority": "u=0, i",
        "transport:ja4": "t13d1516h2_8daaf6152771_02713d6af862",
        "transport:http2-settings": "1:65536;2:0;4:6291456|15663105|0|m,a,s,p",
        "transport:new": "x",
    }
    image = page | {
        "time": "2026-11-21T04:38:04+00:00",
        "http:sec-fetch-mode": "no-cors",
        "http:sec-fetch-dest": "image",
        "http:priority": "i",
    }
    log = "\n".join(json.dumps(line) for line in (page, image))
    report, rows, _ = stored(tmp_path, log, name="access.json")
    assert (report.collector, report.users, report.rejected) == ("accesslog", 1, 0)
    left_out = {"user", "time", "transport:new"}
    assert {(row[1], row[4]) for row in rows} == {
        (name, value) for name, value in page.items() if name not in left_out
    }


def test_the_log_line_for_apache_is_read_back(tmp_path: Path) -> None:
    form = log_line("apache").split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"')
    headers = form.count("%{") - 1
    line = '[21/Nov/2026:01:29:26 +0000] u1 "UA"' + ' "-"' * (headers - 1) + "\n"
    report, rows, _ = stored(tmp_path, line, name="fpm.log")
    assert (report.collector, report.users, report.rejected) == ("accesslog", 1, 0)
    assert values(rows) == {"http:user-agent": ("value", "UA")}


def test_amiunique_tables_take_id_for_the_user(tmp_path: Path) -> None:
    report, rows, _ = stored(tmp_path, AMIUNIQUE, name="dump.csv")
    assert (report.collector, report.users, report.stored) == ("amiunique", 1, 2)
    assert values(rows)["http:user-agent"] == ("value", "UA2")
    assert values(rows)["x:amiunique:octaneScore"] == ("value", "1")
    assert "x:amiunique:counter" not in values(rows)


@pytest.mark.parametrize("name", TRAFFIC)
def test_requests_of_chromium_are_read_from_har_and_real_access_logs(
    name: str, tmp_path: Path
) -> None:
    said: dict[str, Any] = {"visitor": True} if name.startswith("har") else {}
    if "combined" in name:
        said = {"columns": {"user": "row"}}
    report, rows, _ = stored(tmp_path, (RECORDS / name).read_bytes(), name=name, **said)
    assert report.collector == name.split("-", maxsplit=1)[0]
    expected = TRAFFIC[name]
    assert [report.users, *counts(report)] == [
        expected[count] for count in ("users", "read", "stored", "duplicates", "rejected")
    ]
    assert (
        sorted([user, api, status, text] for user, api, status, _, text in rows)
        == (expected["rows"])
    )


def test_glean_metrics_are_read_and_the_ping_itself_is_not(tmp_path: Path) -> None:
    report, rows, _ = stored(tmp_path, GLEAN, name="ping.csv")
    assert (report.collector, report.users) == ("glean", 1)
    assert values(rows) == {
        "Navigator.maxTouchPoints": ("value", "0"),
        "Navigator.hardwareConcurrency#glean": ("value", "8"),
        "Intl.DateTimeFormat.resolvedOptions#glean.timezone": ("value", "Europe/Berlin"),
        "x:glean:gpu": ("value", "x"),
    }


@pytest.mark.parametrize("form", ["characteristics.{}", "characteristics_{}"])
def test_glean_pings_in_json_say_what_their_flat_table_says(tmp_path: Path, form: str) -> None:
    ping = {
        "client_info": {"os": "Linux"},
        "ping_info": {"seq": 3, "end_time": "2026-11-21T01:00+00:00"},
        "metrics": {
            "uuid": {form.format("client_identifier"): "u"},
            "quantity": {
                form.format("max_touch_points"): 0,
                form.format("processor_count"): 8,
                form.format("color_depth"): None,
            },
            "string": {form.format("timezone"): "Europe/Berlin", form.format("gpu"): "x"},
            "labeled_counter": None,
        },
    }
    report, rows, _ = stored(tmp_path, json.dumps(ping) + "\n", name="ping.json")
    assert (report.collector, report.users, report.unit) == ("glean-json", 1, "user")
    assert values(rows) == {
        "Navigator.maxTouchPoints": ("value", "0"),
        "Navigator.hardwareConcurrency#glean": ("value", "8"),
        "Intl.DateTimeFormat.resolvedOptions#glean.timezone": ("value", "Europe/Berlin"),
        "x:glean:gpu": ("value", "x"),
    }


def test_a_renamed_table_keeps_its_names_when_it_must_be_read_exactly(tmp_path: Path) -> None:
    usual = {
        "metrics.uuid.characteristics_client_identifier": "u",
        "metrics.quantity.characteristics_max_touch_points": 0,
        "metrics.quantity.characteristics_processor_count": 8,
        "metrics.string.characteristics_timezone": "Europe/Berlin",
        "metrics.string.characteristics_gpu": "x" * 200,
    }
    late = {**usual, "metrics.string.characteristics_timezone": "1.0"}
    lines = [json.dumps(usual)] * 2000 + [json.dumps(late)]
    report, rows, _ = stored(tmp_path, "\n".join(lines) + "\n", name="ping.jsonl")
    assert report.collector == "glean"
    assert {row[3] for row in rows} == {"glean"}
    timezones = {row[4] for row in rows if row[1].endswith("#glean.timezone")}
    assert timezones == {"Europe/Berlin", "1.0"}


def test_identifiability_metrics_are_named_by_type_and_hash(tmp_path: Path) -> None:
    report, rows, rejects = stored(tmp_path, UKM, name="ukm.csv")
    assert report.collector == "identifiability"
    assert values(rows) == {
        "x:ukm:2:10": ("value", "7"),
        "x:ukm:255:ffffffffffffff": ("value", "8"),
    }
    assert "64-bit" in rejects[0][2]


def test_every_known_name_of_the_golden_records_is_in_the_vocabulary() -> None:
    bases = {api.partition("#")[0] for api in known_apis()}
    for expected in EXPECTED.values():
        for api in expected["observations"]:
            assert api.startswith("x:") or api.partition("#")[0] in bases


BROKEN = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [
            b"{",
            b'{"components": {"a"', b"\xff\xfe{}", b'{"components": []}', b"null", b"[]", b'"x"',
            b'{"user": "u", "components": {"vendor": {"value": NaN, "duration": 0}}}',
            b'{"user": "u", "components": {"vendor": {"value": "\\ud800", "duration": 0}}}',
            b'{"user": "u", "components": {"vendor": {"value": 1, "value": 2, "duration": 0}}}',
            b'{"user": "u", "components": {"vendor": ' + b"[" * 5000 + b"]" * 5000 + b"}}",
            b'{"user": {"a": 1}, "components": {"vendor": {"value": 1, "duration": 0}}}',
            b'{"user": "u", "components": {"vendor": {"duration": 0, "value": "'
            + b"x" * 300_000
            + b'"}}}',
        ]
    ),
)  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(st.lists(BROKEN, max_size=8))
def test_every_broken_record_is_stored_or_rejected_with_a_reason(lines: list[bytes]) -> None:
    good = json.dumps({"user": "good", "components": {"vendor": {"value": "v", "duration": 0}}})
    body = [line.translate(None, b"\n\r\0") for line in lines]
    content = b"\n".join([good.encode(), *body]) + b"\n"
    with tempfile.TemporaryDirectory() as folder:
        report, rows, rejects = stored(Path(folder), content)
    assert report.read == 1 + sum(bool(line.strip()) for line in body)
    assert report.read == report.stored + report.duplicates + report.rejected
    assert len(rejects) == report.rejected
    assert all(reason and len(begin) <= 80 for _, _, reason, begin in rejects)
    assert (1, "Navigator.vendor#fingerprintjs", "value", "fingerprintjs 3", "v") in rows


@pytest.mark.parametrize(
    ("collector", "record"),
    [
        (
            "thumbmarkjs",
            {"thumbmark": "f", "components": {"screen": {"colorDepth": 1}, "math": {}}},
        ),
        ("creepjs", CREEPJS),
        ("clientjs", {"getColorDepth": 24, "isCookie": True, "getOS": "Linux"}),
        ("har", HAR),
    ],
)
def test_other_collectors_survive_foreign_and_cut_records(
    tmp_path: Path, collector: str, record: dict[str, Any]
) -> None:
    line = json.dumps(record)
    foreign = ['{"a": 1}', "[1]", "3", "x", line[: len(line) // 2], '{"log": {"entries": [4]}}']
    path = tmp_path / "log.json"
    path.write_text("\n".join([line, *foreign]) + "\n")
    with log_files([str(path)]) as [log], Database(tmp_path / "x.duckdb", create=True) as database:
        said = ColumnMap(visitor=collector == "har")
        report = ingest_log(database, log, load_plugin("fpmonitor.collectors", collector)(), said)
    assert report.stored >= 1
    assert report.rejected >= len(foreign)
    assert report.read == report.stored + report.duplicates + report.rejected


def test_a_log_of_one_json_array_is_read_record_by_record(tmp_path: Path) -> None:
    record = {"user": "u", "components": {"vendor": {"value": "v", "duration": 0}}}
    other = {**record, "user": "w"}
    report, _, _ = stored(tmp_path, json.dumps([record, other, 5], indent=1))
    assert (report.read, report.stored, report.rejected, report.users) == (3, 2, 1, 2)


def test_records_without_user_are_visits_and_a_grown_log_adds_the_new_ones(tmp_path: Path) -> None:
    lines = [
        json.dumps({"components": {"vendor": {"value": "v", "duration": i}}}) for i in (0, 0, 1)
    ]
    path = tmp_path / "log.jsonl"
    with Database(tmp_path / "x.duckdb", create=True) as database:
        for kept in (2, 3):
            path.write_text("\n".join(lines[:kept]) + "\n")
            with log_files([str(path)]) as [log]:
                report = ingest_log(database, log, choose_collector(log, ColumnMap()))
    assert (report.read, report.stored, report.duplicates) == (3, 1, 2)


def test_parts_of_a_long_log_keep_their_order_and_their_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_PART_RECORDS", 2)
    lines = [
        {"user": f"u{i}", "components": {f"c{i % 3}": {"value": i, "duration": 0}}}
        for i in range(7)
    ]
    lines[4] = {"user": "", "components": {"c": {"value": 1, "duration": 0}}}
    content = "\n".join(json.dumps(line) for line in lines)
    report, rows, rejects = stored(tmp_path, content)
    assert (report.stored, report.rejected) == (6, 1)
    assert [reject[1:3] for reject in rejects] == [(5, "user is missing")]
    assert sorted(int(row[4]) for row in rows) == [0, 1, 2, 3, 5, 6]


def test_too_many_apis_are_rejected_and_not_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_APIS", 3)
    lines = [{"user": "u", "components": {f"c{i}": {"value": i, "duration": 0}}} for i in range(5)]
    report, _, rejects = stored(tmp_path, "\n".join(json.dumps(line) for line in lines))
    assert (report.stored, report.rejected, report.apis) == (3, 2, 3)
    assert "more than 3 APIs" in rejects[0][2]


def test_the_command_line_says_when_rows_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "fp.json"
    log.write_text(json.dumps(FP5))
    assert run(["ingest", str(log), "--db", str(tmp_path / "x.duckdb")]) == 0
    assert "so rows are counted" in capsys.readouterr().err
    log.write_text(json.dumps({"visitor": "u", **FP5}))
    assert run(["ingest", str(log), "--user", "visitor", "--db", str(tmp_path / "y.duckdb")]) == 0
    assert "rows are counted" not in capsys.readouterr().err


def test_log_lines_and_names_are_told_on_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["collect", "log-line", "nginx"]) == 0
    assert capsys.readouterr().out == log_line("nginx")
    assert run(["db", "apis", "--resolve", "canvas.text", "--format", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["api"] == "HTMLCanvasElement.toDataURL#fingerprintjs.text"
    assert found["volatile"] == ["brave", "firefox"]
    assert run(["db", "apis", "--resolve", "nobody.knows.this"]) == 2


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=400),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=5), parts),
    max_leaves=6,
)
COMPONENTS = st.dictionaries(
    st.sampled_from(["fonts", "canvas", "audio", "vendor", "webGlBasics", "screenFrame", "new"]),
    st.fixed_dictionaries(
        {"duration": st.integers(0, 99)}, optional={"value": JSON_VALUES, "error": JSON_VALUES}
    ),
    max_size=5,
)


@pytest.mark.long
@settings(deadline=None, max_examples=200)
@given(
    results=st.lists(COMPONENTS, min_size=1, max_size=3),
    user=st.one_of(st.text(), st.integers(), st.none(), st.lists(st.none())),
    ascii_only=st.booleans(),
)
def test_the_quick_way_through_a_fingerprintjs_line_tells_what_parsing_all_of_it_tells(
    results: list[dict[str, Any]], user: object, ascii_only: bool
) -> None:
    collector = FingerprintjsCollector()
    collector.prepare(ColumnMap({"user": "id", "time": "at"}))
    for components in results:
        record = {"id": user, "at": 1, "version": "5.0.1", "components": components}
        raw = json.dumps(record, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        quick = collector.quick_visit(raw, "id", "at")
        if quick is not None:
            slow = collector.visit(json.loads(raw))
            assert quick == replace(slow, user=text_of(user), time="1")


def test_the_usual_fingerprintjs_line_takes_the_quick_way() -> None:
    collector, raw = FingerprintjsCollector(), json.dumps({"user": "u", **FP5}).encode()
    assert collector.quick_visit(raw, "user", "time") is None, "the first says where answers lie"
    collector.visit(json.loads(raw))
    assert collector.quick_visit(raw, "user", "time") is not None


PING = {
    "client_info": {"os": "Linux", "client_id": "c"},
    "ping_info": {"seq": 3, "end_time": "2026-11-21T01:00+00:00"},
    "document_id": "d",
    "metrics": {
        "uuid": {"characteristics.client_identifier": "u", "legacy.telemetry.client_id": "c"},
        "quantity": {"characteristics.max_touch_points": 0, "characteristics.color_depth": 24},
    },
}
OF_PING = "tells of the ping, not of the browser"
OF_RESOURCE = "tells the resource, not the browser"


@pytest.mark.parametrize(
    ("collector", "content", "expected"),
    [
        (
            "amiunique",
            AMIUNIQUE.replace("counter,", "counter,hostHttp,addressHttp,")
            .replace("1,a,", "1,h,ip,a,")
            .replace("2,a,", "2,h,ip,a,"),
            dict.fromkeys(("counter", "updateDate"), "a date or a number of the dump")
            | {"hostHttp": OF_RESOURCE, "addressHttp": "tells where the request came from"},
        ),
        ("glean", GLEAN, {"document_id": OF_PING}),
        (
            "glean-json",
            json.dumps(PING) + "\n",
            dict.fromkeys(
                (
                    *("client_info.os", "client_info.client_id", "ping_info.seq", "document_id"),
                    "metrics.legacy.telemetry.client_id",
                ),
                OF_PING,
            ),
        ),
        (
            "har",
            json.dumps(HAR),
            {
                "request.headers.cookie": "no header of the vocabulary",
                "request.headers.accept": OF_RESOURCE,
            },
        ),
        ("identifiability", UKM.replace("\n", ",n\n"), {"n": "no field of an observation"}),
    ],
)
def test_what_a_source_names_otherwise_is_listed_with_a_reason(
    tmp_path: Path, collector: str, content: str, expected: Mapping[str, str]
) -> None:
    """Nothing is dropped in silence, and nobody said --ignore."""
    report, _, _ = stored(tmp_path, content, visitor=collector == "har")
    assert (report.collector, report.account is None) == (collector, False)
    found = {one.path: one.why for one in report.account.members if one.kind == "not taken"}
    assert found == expected
    # A header may be taken of requests for pages, and not of those for what they show.
    once = {(one.path, one.kind) for one in report.account.members}
    assert len(once) == len(report.account.members)


def test_a_number_that_is_too_large_costs_its_record_alone(tmp_path: Path) -> None:
    """All such were one value, called `Infinity`, which is no JSON."""
    records = [{"user": f"u{i}", "version": "3.4.0", "components": {}} for i in range(6)]
    values = ["0", "1", "0", "1", "1e999", "[1e999]"]
    lines = [
        json.dumps(record).replace("{}", f'{{"fonts": {{"value": {value}, "duration": 1}}}}')
        for record, value in zip(records, values, strict=True)
    ]
    report, rows, _ = stored(tmp_path, "\n".join(lines))
    assert (report.stored, report.rejected) == (4, 2)
    assert {row[-1] for row in rows} == {"0", "1"}
    # The name of a row is made of all that it holds: where nobody reads the number, too.
    lines[3] = lines[3].replace('"duration": 1', '"duration": 1e999')
    report, _, rejects = stored(tmp_path, "\n".join(lines), columns={"user": "row"})
    assert (report.stored, len(rejects)) == (3, 3)


def test_a_record_in_which_a_member_stands_twice_is_stored_by_the_last(tmp_path: Path) -> None:
    """It was rejected, as if it were no JSON."""
    log = tmp_path / "log.jsonl"
    record = {"version": "3.4.0", "components": {"cpuClass": {"value": "x", "duration": 1}}}
    doubled = json.dumps(record).replace("{", '{"version": "3.0.0", ', 1)
    log.write_text(f"{doubled}\n" * 3, encoding="utf-8")
    with Monitor(tmp_path / "db", create=True) as monitor:
        [report] = monitor.ingest(log, column_map=ColumnMap({"user": "row"}))
    assert (report.stored, report.rejected) == (3, 0)
