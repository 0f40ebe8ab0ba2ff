"""Results of libraries are found wherever they lie, by what only they have; nothing vanishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import load_plugin

if TYPE_CHECKING:
    from fpmonitor.collectors.records import RecordCollector

RECORDS = Path(__file__).parents[2] / "fixtures" / "records"
CREEPJS = {
    "navigator": {"platform": "Linux x86_64", "novelty": 1, "$hash": "0e"},
    "screen": {"width": 800, "height": 600, "lied": False, "$hash": "0f"},
    "canvas2d": {"lied": True, "dataURI": "data:,x", "$hash": "1f"},
    "fonts": ["A"],
    "forceRenew": 17,
}
UAPARSER = {
    "ua": "Mozilla/5.0 (X11; Linux x86_64) Chrome/120.0.0.0 Safari/537.36",
    "browser": {"name": "Chrome", "version": "120.0.0.0", "major": "120"},
    "cpu": {"architecture": "amd64"},
    "device": {},
    "engine": {"name": "Blink", "version": "120.0.0.0"},
    "os": {"name": "Linux"},
}
BOWSER = {
    "browser": {"name": "Chrome", "version": "120.0.0.0"},
    "os": {"name": "Windows", "version": "NT 10.0", "versionName": "10"},
    "platform": {"type": "desktop"},
    "engine": {"name": "Blink"},
}
GENERATED = {
    "screen": {"width": 1920, "availTop": 0, "innerHeight": 0, "outerWidth": 1920, "hasHDR": False},
    "navigator": {
        "userAgent": "Mozilla/5.0",
        "userAgentData": {"mobile": False, "bitness": "64", "brands": [{"brand": "x"}]},
        "product": "Gecko",
        "extraProperties": {"pdfViewerEnabled": True, "installedApps": []},
    },
    "audioCodecs": {"ogg": "probably"},
    "videoCodecs": {"h264": "probably"},
    "battery": {"level": 1, "charging": True},
    "videoCard": {"renderer": "R", "vendor": "V"},
    "multimediaDevices": {"speakers": []},
    "fonts": ["Arial"],
    "mockWebRTC": False,
}
OLD = [
    {"key": "userAgent", "value": "Mozilla/5.0"},
    {"key": "webdriver", "value": "not available"},
    {"key": "screenResolution", "value": [1920, 1080]},
    {"key": "enumerateDevices", "value": "excluded"},
    {"key": "fonts", "value": "error"},
    {"key": "novelty", "value": 1},
]
OLDEST = [["user_agent", "Mozilla/5.0"], ["color_depth", 24], ["has_lied_os", False]]
RESULTS: dict[str, Any] = {
    "fingerprintjs": json.loads((RECORDS / "fingerprintjs-5.json").read_text()),
    "thumbmarkjs": json.loads((RECORDS / "thumbmarkjs-1.json").read_text()),
    "clientjs": json.loads((RECORDS / "clientjs-0.json").read_text()),
    "creepjs": CREEPJS,
    "fingerprintjs2": OLD,
    "fingerprint-generator": GENERATED,
    "uaparser": UAPARSER,
    "bowser": BOWSER,
}
WRAPPINGS = {
    "top": lambda result: {**result} if isinstance(result, dict) else {"components": result},
    "member": lambda result: {"fp": result},
    "deep": lambda result: {"a": {"b": {"c": {"d": {"e": {"fp": result}}}}}},
    "list": lambda result: {"events": [{"fp": result}]},
    "text": lambda result: {"fp": json.dumps(result)},
    "text in a text": lambda result: {"body": json.dumps({"payload": json.dumps({"fp": result})})},
}


def collector(name: str) -> RecordCollector:
    loaded: RecordCollector = load_plugin("fpmonitor.collectors", name)()
    return loaded


def log(folder: Path, records: list[Any], name: str = "log.jsonl") -> str:
    path = folder / name
    path.write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    return str(path)


def ingested(folder: Path, records: list[Any], *options: str) -> tuple[str, dict[str, list[str]]]:
    """Name of the collector that took a log, and the values of each API, one a user."""
    database = str(folder / "x.duckdb")
    Path(database).unlink(missing_ok=True)
    assert run(["ingest", log(folder, records), *options, "--db", database]) == 0
    with Monitor(database) as monitor:
        taken = monitor.database.rows("report/batches")[-1][1]
        seen: dict[str, list[str]] = {}
        for _, api, status, _, text in monitor.database.rows("report/observations"):
            seen.setdefault(api, []).append(text if status == "value" else status)
    return taken, seen


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("library", RESULTS)
def test_a_result_is_found_at_any_depth_and_in_texts_and_says_the_same(
    tmp_path: Path, library: str, wrapping: str
) -> None:
    wrapped = WRAPPINGS[wrapping](RESULTS[library])
    plain = ingested(tmp_path, [{"user": "u", "fp": RESULTS[library]}])
    assert ingested(tmp_path, [{"user": "u", **wrapped}]) == plain
    assert plain[0] == library


def follow(content: Any, steps: list[str]) -> bool:
    """Whether names lead somewhere: keys that hold dots count, and texts that are JSON."""
    if isinstance(content, str) and content[:1] in {"{", "["}:
        content = json.loads(content)
    if not steps:
        return True
    if isinstance(content, list):
        if steps[0] == "*":  # a list of keys and values names its members itself
            return any(steps[1] in json.dumps(one) or follow(one, steps[1:]) for one in content)
        return steps[0].isdigit() and follow(content[int(steps[0])], steps[1:])
    return isinstance(content, dict) and any(
        follow(content[name], steps[place:])
        for place in range(1, len(steps) + 1)
        if (name := ".".join(steps[:place])) in content
    )


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("library", RESULTS)
def test_the_account_says_where_in_the_file_each_answer_lies(
    tmp_path: Path, library: str, wrapping: str
) -> None:
    record = {"user": "u", **WRAPPINGS[wrapping](RESULTS[library])}
    ingested(tmp_path, [record])
    with Monitor(str(tmp_path / "x.duckdb")) as monitor:
        account = monitor.batches()[-1].account
    assert account is not None
    paths = [member.path for member in account.members if member.api]
    assert len(paths) > 3
    assert len(set(paths)) == len(paths)
    visit = record["events"][0] if wrapping == "list" else record  # a list of visits is unfolded
    lost = [path for path in paths if not follow(visit, path.split("."))]
    assert not lost


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_what_differs_by_user_but_tells_no_browser_is_in_no_value(
    tmp_path: Path, wrapping: str
) -> None:
    """Durations and ids of FingerprintJS made every user unique below two levels."""
    records = []
    for user in range(40):
        components = {
            "platform": {"value": "Win32", "duration": user},
            "fonts": {"value": ["A"], "duration": 7 * user},
            "canvas": {"error": {"message": "lost"}, "duration": 3 * user},
        }
        result = {
            "visitorId": f"{user:032x}",
            "confidence": {"score": user / 50},
            "components": components,
        }
        records.append({"user": f"u{user}", "visitorId": f"v{user}", **WRAPPINGS[wrapping](result)})
    _, seen = ingested(tmp_path, records)
    assert {api: len(set(texts)) for api, texts in seen.items()} == dict.fromkeys(seen, 1)


FOREIGN: dict[str, dict[str, Any]] = {
    "generic sections": {
        "navigator": {"userAgent": "U", "platform": "P"},
        "screen": {"width": 1},
        "fonts": ["A"],
        "media": {"codecs": ["vp9"]},
        "webgl": {"renderer": "R"},
        "battery": {"level": 0.5},
        "timezone": {"offset": 60},
        "voices": ["V"],
    },
    "a few getters": {
        "isMobile": True,
        "isBot": False,
        "isTablet": False,
        "canvasHash": "c",
        "gpu": "g",
        "getTarget": 1,
    },
    "browser flags": {
        "browser": {"isChrome": True, "isFirefox": False, "isOpera": False, "isSafari": False},
        "isWebRTCSupported": True,
        "hasWebcam": False,
        "osName": "Linux",
    },
    "objects by the names of getters": {
        "getBrowser": {"name": "Chrome"},
        "getOS": {"name": "Linux"},
        "getCPU": {"architecture": "amd64"},
        "isCanvas": True,
    },
    "components without their form": {"components": {"app": {"version": 1}, "ui": {"value": 2}}},
    "generic sections beside a hash": {
        "hash": "f",
        "data": {"screen": {"width": 1}, "fonts": ["A"], "audio": {"x": 1}, "system": {"os": "L"}},
    },
    "values in objects": {name: {"value": 1} for name in ("canvas", "fonts", "audio", "timezone")},
    "a hash beside components": {"hash": "f", "components": {"header": {"x": 1}}, "data": {"y": 2}},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_many_have_is_no_evidence_of_a_library(tmp_path: Path, name: str) -> None:
    taken, seen = ingested(tmp_path, [{"user": f"u{i}", **FOREIGN[name]} for i in range(3)])
    assert taken == "wide"
    assert not [api for api in seen if api.startswith("x:")]


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("library", RESULTS)
def test_what_lies_beside_a_result_is_read_as_without_it(
    tmp_path: Path, library: str, name: str
) -> None:
    """A constant member, even a whole result, changes the reading of nothing else."""
    others = {f"own_{key}": value for key, value in FOREIGN[name].items()}
    own = [{"user": f"u{i}", "odd": f"o{i % 2}", **others} for i in range(3)]
    _, alone = ingested(tmp_path, own)
    taken, both = ingested(tmp_path, [record | {"fp": RESULTS[library]} for record in own])
    assert taken == library
    assert {api: both.get(api) for api in alone} == alone


def test_what_creepjs_says_of_novel_things_is_kept_and_what_is_left_out_is_named() -> None:
    visit = collector("creepjs").visit({"user": "u", "webgl": {"renderer": "R"}, **CREEPJS})
    assert visit.values["x:creepjs:navigator.novelty"] == "1"
    assert visit.values["webgl.renderer"] == '"R"'
    hashes = {"navigator.$hash", "screen.$hash", "canvas2d.$hash"}
    assert visit.not_taken.keys() == hashes | {"forceRenew"}


JSON_MEMBERS = st.dictionaries(
    st.text(st.characters(codec="ascii"), min_size=1, max_size=8),
    st.recursive(
        st.integers() | st.text(max_size=5) | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["value", "duration", "navigator", "lied", "x"]), inner
            )
        ),
        max_leaves=6,
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(library=st.sampled_from(sorted(RESULTS)), extra=JSON_MEMBERS)
def test_every_member_beside_a_result_is_a_value_or_named(
    library: str, extra: dict[str, Any]
) -> None:
    record = {"fp": RESULTS[library], **{f"own {name}": value for name, value in extra.items()}}
    loaded = collector(library)
    loaded.prepare(ColumnMap({}))  # type: ignore[attr-defined]
    visit = loaded.visit(record)
    told = {*visit.values, *visit.not_taken}
    for name in extra:
        whole = f"own {name}"
        assert any(one == whole or one.startswith(f"{whole}.") for one in told)
    alone = loaded.visit({"fp": RESULTS[library]})
    assert alone.values.items() <= visit.values.items()


def test_of_several_results_in_a_record_the_others_are_named() -> None:
    result = RESULTS["fingerprintjs"]
    visit = collector("fingerprintjs").visit({"now": result, "before": {"fp": result}, "n": 1})
    assert visit.values["n"] == "1"
    assert "before.fp" in visit.not_taken


def test_a_list_in_the_place_of_the_word_for_a_platform_is_no_result(tmp_path: Path) -> None:
    """No set can be asked for a list: any log with such a record ended in a traceback."""
    odd = {"browser": {}, "os": {}, "engine": {}, "platform": {"type": []}}
    taken, seen = ingested(tmp_path, [{"user": "u", "a": odd, "Screen.width": 1}])
    assert (taken, seen["Screen.width"]) == ("wide", ["1"])


def test_the_list_of_fingerprintjs2_is_read_in_all_its_forms() -> None:
    loaded = collector("fingerprintjs2")
    visit = loaded.visit({"components": OLD})
    assert visit.source == "fingerprintjs2 2"
    assert visit.values == {
        "Navigator.userAgent": '"Mozilla/5.0"',
        "Navigator.webdriver#fingerprintjs2": '"not available"',
        "Screen.width#fingerprintjs2.screenResolution": "[1920,1080]",
        "HTMLElement.offsetWidth#fingerprintjs2.fonts": "error:null",
        "x:fingerprintjs2:novelty": "1",
    }
    assert visit.not_taken.keys() == {"components.*.enumerateDevices"}
    pairs = loaded.visit({"hash": "h", "components": OLDEST})
    assert pairs.source == "fingerprintjs2 1"
    named = [{"key": key, "value": value} for key, value in OLDEST]
    assert loaded.visit({"hash": "h", "components": named}).values == pairs.values
    assert pairs.values["Screen.colorDepth"] == "24"


@pytest.mark.parametrize("library", ["uaparser", "fingerprint-generator", "bowser"])
def test_every_name_of_these_libraries_is_known(library: str) -> None:
    visit = collector(library).visit({"user": "u", "result": RESULTS[library]})
    assert len(visit.values) >= 6
    assert not [api for api in visit.values if api.startswith("x:")]


def test_results_of_several_libraries_in_a_record_are_each_read_as_theirs(tmp_path: Path) -> None:
    fp = RESULTS["fingerprintjs"]
    record = {"user": "u", "agent": UAPARSER, "screen": {"fp": json.dumps(fp)}, "extra": 1}
    taken, seen = ingested(tmp_path, [record])
    assert taken == "fingerprintjs"
    assert seen["Navigator.userAgent#uaparser.os.name"] == ["Linux"]
    assert seen["Screen.colorDepth"] == ["24"]
    assert seen["extra"] == ["1"]
    assert not [api for api in seen if "duration" in api or "visitorId" in api]
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert {row[3] for row in monitor.database.rows("report/observations")} == {
            "fingerprintjs 5.2.0"
        }


@pytest.mark.parametrize("form", ["csv", "parquet", "nested parquet"])
def test_results_in_a_column_of_a_table_are_read(tmp_path: Path, form: str) -> None:
    """Exports of databases hold results as JSON text, or as structs."""
    fp = RESULTS["fingerprintjs"]
    _, expected = ingested(tmp_path, [{"user": f"u{i}", "odd": i % 2, "fp": fp} for i in range(3)])
    rows = [{"user": f"u{i}", "odd": i % 2, "fp": json.dumps(fp)} for i in range(3)]
    path = tmp_path / f"log.{form.rpartition(' ')[2]}"
    if form == "nested parquet":  # a struct has no places for what JSON lacks
        few = {"fonts": {"value": ["A"], "duration": 7}, "colorDepth": {"value": 24, "duration": 1}}
        rows = [{**row, "fp": {"version": "5.2.0", "components": few}} for row in rows]
        expected = {
            "odd": expected["odd"],
            "Screen.colorDepth": ["24"] * 3,
            "HTMLElement.offsetWidth#fingerprintjs.fonts": ['["A"]'] * 3,
        }
    table = pl.DataFrame(rows)
    table.write_csv(path) if form == "csv" else table.write_parquet(path)
    database = str(tmp_path / "y.duckdb")
    assert run(["ingest", str(path), "--db", database]) == 0
    with Monitor(database) as monitor:
        assert monitor.batches()[0].collector == "fingerprintjs"
        seen: dict[str, list[str]] = {}
        for _, api, status, _, text in monitor.database.rows("report/observations"):
            seen.setdefault(api, []).append(text if status == "value" else status)
    assert seen == expected


def test_a_time_span_that_python_has_no_number_for_is_read_by_another_collector(
    tmp_path: Path,
) -> None:
    log, database = tmp_path / "spans.parquet", str(tmp_path / "x.duckdb")
    duckdb.sql(
        "SELECT 'u' AS user, '7' AS \"Screen.width\", INTERVAL 1000000000 DAYS AS span"
    ).write_parquet(str(log))
    assert run(["ingest", str(log), "--db", database]) == 0
    with Monitor(database) as monitor:
        assert monitor.database.rows("report/batches")[-1][1] == "wide"


def test_rows_of_a_table_that_cannot_be_read_are_rejected_by_their_lines(tmp_path: Path) -> None:
    components = {name: {"value": 1, "duration": 2} for name in ("vendor", "fonts", "audio")}
    cell = json.dumps({"components": components}).replace('"', '""')
    path = tmp_path / "log.csv"
    path.write_text(f'user,fp\nu,"{cell}"\nv\nw,3\nx,"{cell}"\n')
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.ingest([str(path)])
        assert (report.read, report.stored, report.rejected) == (4, 2, 2)
        assert [(row.line, row.reason) for row in monitor.rejects()] == [
            (3, "too few fields"),
            (4, "no result of fingerprintjs"),
        ]
