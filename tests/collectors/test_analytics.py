"""Exports of analytics products are read as the products say, in every form that they come in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.monitor import Monitor
from fpmonitor.vocabulary import base_api, known_apis
from fpmonitor.vocabulary.products import product_of, products

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.vocabulary.products import ExportProduct


def ga4(i: int) -> dict[str, Any]:
    return {
        "event_timestamp": str(1_772_359_200_000_000 + 977 * i),
        "event_name": "page_view",
        "user_pseudo_id": f"p{i % 20}.1",
        "platform": "WEB",
        "device": {"category": "desktop", "language": "de-de", "web_info": {"browser": "Chrome"}},
        "geo": {"country": "Germany", "city": f"c{i}"},
    }


def segment(i: int) -> dict[str, Any]:
    return {
        "anonymousId": f"a{i % 20}",
        "messageId": f"ajs-{i}",
        "originalTimestamp": f"2026-03-01T10:00:{i:02}.000Z",
        "type": "page",
        "context": {
            "userAgent": f"UA{i % 2}",
            "screen": {"width": 1920, "height": 1080, "density": 2},
            "userAgentData": {"mobile": False, "platform": "Linux"},
            "timezone": "Europe/Berlin",
            "locale": "de-DE",
            "ip": f"192.0.2.{i}",
            "page": {"url": f"https://a.example/{i}"},
        },
        "properties": {"plan": f"plan {i % 2}"},
    }


def posthog(i: int) -> dict[str, Any]:
    return {
        "uuid": f"0190-{i}",
        "event": "$pageview",
        "distinct_id": f"d{i % 20}",
        "timestamp": f"2026-03-01T10:00:{i:02}Z",
        "properties": {
            "$raw_user_agent": f"UA{i % 2}",
            "$browser": "Firefox",
            "$screen_width": 1920,
            "$viewport_height": 900,
            "$device_id": f"0191-{i}",
            "$lib": "web",
            "$geoip_city_name": f"c{i}",
            "$current_url": f"https://a.example/{i}",
        },
    }


def snowplow(i: int) -> dict[str, Any]:
    return {
        "app_id": "site",
        "platform": "web",
        "collector_tstamp": f"2026-03-01 10:00:{i:02}",
        "event_id": f"e{i}",
        "domain_userid": f"u{i % 20}",
        "user_ipaddress": f"192.0.2.{i}",
        "useragent": f"UA{i % 2}",
        "br_lang": "de",
        "br_colordepth": "24",
        "dvce_screenwidth": 1920,
        "os_timezone": "Europe/Berlin",
        "page_url": f"https://a.example/{i}",
    }


def matomo(i: int) -> dict[str, Any]:
    return {
        "idvisit": i,
        "idsite": 1,
        "idvisitor": f"{i % 20:016x}",
        "visit_first_action_time": f"2026-03-01 10:00:{i:02}",
        "config_id": f"{i:016x}",
        "config_os": "WIN",
        "config_browser_name": "CH",
        "config_resolution": "1920x1080",
        "config_pdf": 1,
        "location_ip": f"c00002{i:02x}",
        "location_browser_lang": "de-de",
    }


def matomo_live(i: int) -> dict[str, Any]:
    return {
        "idSite": 1,
        "idVisit": i,
        "visitIp": f"192.0.2.{i}",
        "visitorId": f"{i % 20:016x}",
        "fingerprint": f"{i:016x}",
        "serverTimestamp": 1772359200 + i,
        "firstActionTimestamp": 1772359200 + i,
        "lastActionTimestamp": 1772359260 + i,
        "serverTimePretty": f"10:00:{i:02}",
        "visitDurationPretty": f"{i} s",
        "visitorTypeIcon": "plugins/Live/images/returningVisitor.png",
        "actions": i,
        "daysSinceFirstVisit": i,
        "country": "Germany",
        "latitude": f"52.{i:04}",
        "browserName": f"b{i % 2}",
        "browserVersion": "140.0",
        "operatingSystem": "iOS 18",
        "operatingSystemIcon": "plugins/x.png",
        "deviceType": "Desktop",
        "resolution": "1920x1080",
        "plugins": "cookie, pdf",
        "languageCode": "de",
    }


EXPORTS = {
    "ga4": (ga4, {"Navigator.userAgent#ga4.category", "Navigator.userAgent#ga4.web_browser",
        "Navigator.language#ga4"}),
    "segment": (segment, {"Navigator.userAgent", "Screen.width", "Screen.height",
        "Window.devicePixelRatio", "NavigatorUAData.mobile", "NavigatorUAData.platform",
        "Intl.DateTimeFormat.resolvedOptions#timeZone", "Navigator.language", "properties.plan"}),
    "posthog": (posthog, {"Navigator.userAgent", "Navigator.userAgent#posthog.browser",
        "Screen.width", "Window.innerHeight"}),
    "snowplow": (snowplow, {"http:user-agent", "Navigator.language", "Screen.colorDepth",
        "Screen.width", "Intl.DateTimeFormat.resolvedOptions#timeZone"}),
    "matomo": (matomo, {"Navigator.userAgent#matomo.config_os", "http:accept-language#matomo",
        "Navigator.userAgent#matomo.config_browser_name", "Navigator.mimeTypes#matomo.config_pdf",
        "Screen.width#matomo.config_resolution"}),
    "matomo_live": (matomo_live, {"Navigator.userAgent#matomo_live.browserName",
        "Navigator.userAgent#matomo_live.browserVersion", "Navigator.plugins#matomo_live",
        "Navigator.userAgent#matomo_live.operatingSystem", "Screen.width#matomo_live.resolution",
        "Navigator.userAgent#matomo_live.deviceType",
        "http:accept-language#matomo_live.languageCode"}),
}  # fmt: skip


def flat(record: dict[str, Any], joint: str, prefix: str = "") -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            cells |= flat(value, joint, f"{prefix}{name}{joint}")
        else:
            cells[prefix + name] = value
    return cells


def write(folder: Path, form: str, records: list[dict[str, Any]]) -> str:
    log = folder / f"log.{form.rpartition(' ')[2]}"
    if form == "jsonl":
        log.write_text("\n".join(map(json.dumps, records)) + "\n")
    elif form == "nested parquet":
        pl.DataFrame(records).write_parquet(log)
    else:
        table = pl.DataFrame([flat(record, "." if "dots" in form else "_") for record in records])
        table.write_csv(log) if log.suffix == ".csv" else table.write_parquet(log)
    return str(log)


@pytest.mark.parametrize("form", ["jsonl", "nested parquet", "dots csv", "parquet", "csv"])
@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_says_its_apis_its_users_and_nothing_of_the_rest(
    tmp_path: Path, name: str, form: str
) -> None:
    make, expected = EXPORTS[name]
    log = write(tmp_path, form, [make(i) for i in range(40)])
    database = str(tmp_path / "x.duckdb")
    assert run(["ingest", log, "--db", database]) == 0
    with Monitor(database) as monitor:
        population = monitor.population()
        [batch] = monitor.batches()
        assert (batch.collector, batch.rejected, batch.users) == ("analytics", 0, 20)
        custom = {api for api in expected if api.startswith("properties")}
        found = {api for api in population.apis if not api.startswith("properties")}
        assert found == expected - custom
        assert len(set(population.apis) - found) == len(custom)
        assert {row[3] for row in monitor.database.rows("report/observations")} == {name}


def test_what_is_left_out_is_listed_with_the_word_of_the_product(tmp_path: Path) -> None:
    log = write(tmp_path, "jsonl", [segment(i) | {"mine": i % 2} for i in range(40)])
    database = str(tmp_path / "x.duckdb")
    assert run(["ingest", log, "--ignore", "mine", "--db", database]) == 0
    with Monitor(database) as monitor:
        account = monitor.batches()[0].account
    assert account is not None
    assert {
        member.path: member.why for member in account.members if member.kind == "not taken"
    } == {
        "context.ip": "an id of segment",
        "messageId": "an id of segment",
        "context.page.url": "metadata of segment",
        "type": "metadata of segment",
        "mine": "--ignore",
    }


def test_what_the_user_says_of_a_column_comes_first(tmp_path: Path) -> None:
    log = write(tmp_path, "jsonl", [ga4(i) for i in range(40)])
    database = str(tmp_path / "x.duckdb")
    options = ["--user", "geo.city", "--as", "platform=Navigator.platform"]
    assert run(["ingest", log, *options, "--db", database]) == 0
    with Monitor(database) as monitor:
        assert monitor.batches()[0].users == 40
        assert monitor.population().named(["Navigator.platform"]) == ("platform",)


@pytest.mark.parametrize("product", products(), ids=lambda product: product.name)
def test_every_table_of_a_product_leads_to_known_apis_and_contradicts_nothing(
    product: ExportProduct,
) -> None:
    bases = {base_api(api) for api in known_apis()}
    assert {base_api(api) for api in product.apis.values()} <= bases
    assert len(set(product.apis.values())) == len(product.apis)
    for api in product.apis.values():
        assert api.partition("#")[2].partition(".")[0] not in {
            other.name for other in products() if other != product
        }
    assert product.url.startswith("https://")
    assert product_of(product.marks) == product


def test_a_table_with_a_word_in_common_is_of_no_product(tmp_path: Path) -> None:
    assert product_of(["user", "event_name", "browser", "os", "timestamp", "type"]) is None
    records = [{"user": f"u{i}", "platform": "Linux", "event_timestamp": "x"} for i in range(3)]
    database = str(tmp_path / "x.duckdb")
    assert run(["ingest", write(tmp_path, "jsonl", records), "--db", database]) == 0
    with Monitor(database) as monitor:
        assert monitor.batches()[0].collector == "wide"


def test_the_account_names_the_columns_of_the_file(tmp_path: Path) -> None:
    log = tmp_path / "segment.jsonl"
    log.write_text("".join(f"{json.dumps(segment(i))}\n" for i in range(40)), encoding="utf-8")
    with Monitor(tmp_path / "x", create=True) as monitor:
        [batch] = monitor.ingest(str(log))
    assert batch.account is not None
    apis = {member.path: member.api for member in batch.account.members if member.api}
    assert apis["context.userAgent"] == "Navigator.userAgent"
    assert apis["context.screen.width"] == "Screen.width"
    columns = {".".join(path) for path in _leaves(segment(0))}
    assert {member.path for member in batch.account.members} == columns


def _leaves(content: dict[str, Any], *above: str) -> list[tuple[str, ...]]:
    return [
        leaf
        for name, value in content.items()
        for leaf in (_leaves(value, *above, name) if isinstance(value, dict) else [(*above, name)])
    ]


@pytest.mark.parametrize("made", [segment, posthog, snowplow])
def test_a_plan_of_a_product_reads_the_file_as_without_it(made: Any, tmp_path: Path) -> None:
    log, plan = tmp_path / "log.jsonl", tmp_path / "map.toml"
    log.write_text("".join(f"{json.dumps(made(i))}\n" for i in range(40)), encoding="utf-8")
    assert run(["ingest", "--plan", str(log), str(plan), "-q"]) == 0
    assert run(["ingest", str(log), "--db", str(tmp_path / "a"), "-q"]) == 0
    planned = ["ingest", str(log), "--columns", str(plan), "--db", str(tmp_path / "b"), "-q"]
    assert run(planned) == 0
    stored = []
    for name in ("a", "b"):
        with Monitor(tmp_path / name) as monitor:
            stored.append(sorted(row[1:] for row in monitor.observations()))
    assert stored[0] == stored[1]


def test_an_id_in_an_export_is_asked_about_by_the_column_that_the_file_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["id", "creationDate", "userAgentHttp", "acceptHttp", "platformJS", "timezoneJS"]
    rows = [
        [f"b{i}", "2026-03-01", f"UA{i % 2}", "a", f"p{i % 2}", "60", f"{i * 7919:x}-{i}"]
        for i in range(60)
    ]
    log = tmp_path / "dump.csv"
    log.write_text(
        "\n".join(",".join(row) for row in [[*names, "trackingToken"], *rows]), encoding="utf-8"
    )
    ingest = ["ingest", str(log), "--db", str(tmp_path / "x"), "-q"]
    code = run(ingest)
    error = capsys.readouterr().err
    if code:
        assert "'trackingToken'" in error
        assert run([*ingest, "--ignore", "trackingToken"]) == 0
    with Monitor(tmp_path / "x") as monitor:
        [batch] = monitor.batches()
    assert batch.account is not None
    assert {"platformJS", "trackingToken"} <= {member.path for member in batch.account.members}
