"""Columns of strangers are judged by what they hold, also where each value comes many times."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DRAW = random.Random(5)
BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"
BASE62 = BASE36 + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def word(letters: str, length: int) -> str:
    return "".join(DRAW.choices(letters, k=length))


def digest(number: int) -> bytes:
    return hashlib.sha256(f"person{number}@example.org".encode()).digest()


def moment(number: int) -> datetime:
    return datetime(2026, 1, 5, tzinfo=UTC) + timedelta(seconds=number * 99_877)


def when(form: str) -> Callable[[int], str]:
    return lambda number: moment(number).strftime(form)


# What each column holds of a visit; a visit has a few records, and so has each value.
NO_APIS: dict[str, Callable[[int], str]] = {
    "ksuid": lambda _: "2" + word(BASE62, 26),
    "nano": lambda _: word(BASE62 + "_-", 21),
    "cuid": lambda _: "c" + word(BASE36, 24),
    "flake": lambda _: str(1_500_000_000_000_000_000 + DRAW.randrange(10**17)),
    "typed": lambda _: f"user_01h{word(BASE36, 23)}",
    "hashed": lambda n: digest(n).hex(),
    "md": lambda n: hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest(),
    "b64": lambda n: base64.b64encode(digest(n)).decode(),
    "plain uuid": lambda n: uuid.UUID(bytes=digest(n)[:16]).hex,
    "Kontakt": lambda n: f"Max Muster <m{n}@example.org>",
    "mailto": lambda n: f"mailto:m{n}@example.org",
    "IBAN": lambda _: f"DE{DRAW.randrange(10**19, 10**20)}",
    "imei": lambda _: str(DRAW.randrange(10**14, 10**15)),
    "token": lambda _: f"eyJhbGciOiJIUzI1NiJ9.{word(BASE62, 40)}.{word(BASE62, 43)}",
    "pixel": lambda n: f"fb.1.1767225600{n:03}.{DRAW.randrange(10**9, 10**10)}",
    "Telefon": lambda _: f"0{DRAW.randrange(150, 180)} {DRAW.randrange(10**6, 10**7)}",
    "proxies": lambda n: f"198.51.100.{n}, 10.0.0.1",
    "masked": lambda n: f"198.51.{n}.xxx",
    "nic": lambda n: f"00:1b:44:11:{n:02x}:b7",
    "app": lambda n: f"MyApp/3.1 (device={uuid.UUID(bytes=digest(n)[:16])})",
    "Breitengrad": lambda n: f"{47 + n / 11:.5f}".replace(".", ","),
    "where": lambda n: f"{47 + n / 11:.5f},{6 + n / 13:.5f}",
    "shop_id": lambda n: f"S{n}",
    "stamped": when("%d.%m.%y %H:%M"),
    "tiempo": when("%Y年%m月%d日 %H:%M"),
    "written": lambda n: f"/Date({1_767_225_600_123 + n * 99_877_000})/",
    "clock": when("%H:%M:%S"),
    "Uhr": when("%H:%M Uhr"),
    "lasting": lambda n: f"PT{n}M{DRAW.randrange(60)}S",
    "took it": lambda _: f"{DRAW.randrange(20, 5000)} ms",
    "Umsatz netto": lambda n: f"{n * 3},90 €",
    "seite": lambda n: f"/produkt/{n % 30}?von=mail",
    "stelle": lambda n: f"www.example.org/produkt/{n}",
    "Vorname": lambda _: f"Name{word(BASE36[10:], 5)}",
    "arm": lambda n: ["control", "treatment"][n % 2],
    "checkout_variant": lambda n: ["on", "off"][n % 2],
}


def common(texts: list[str]) -> Callable[[int], str]:
    """A value that half of the visits have, as of what browsers return, and rarer ones."""
    return lambda n: texts[0] if n % 2 else texts[n // 2 % len(texts)]


HASHES = [hashlib.md5(bytes([n]), usedforsecurity=False).hexdigest() for n in range(60)]
# What browsers return, under names that nobody knows.
APIS: dict[str, Callable[[int], str]] = {
    "zeichnung": common(HASHES),
    "klang": common([f"124.0434{n:012}" for n in range(60)]),
    "karte": common([f"ANGLE (NVIDIA, GeForce RTX {2000 + n} Direct3D11)" for n in range(40)]),
    "fassung": common([f"124.0.{6300 + n}.118" for n in range(40)]),
    "stand": common([f"{n}.0.0.0" for n in range(80, 120)]),
    "release": common([f"1.{n}.{n * 11}" for n in range(1, 9)]),
    "Date.toLocaleTimeString": common(["10:00:00 AM", "10:00:00", "10.00.00"]),
    "Element.getClientRects": common([f"12.{n:03},118.{n:03}" for n in range(40)]),
    "system": common([f"10.{n}.7" for n in range(11, 16)]),
    "aufloesung": common([f"{1300 + n}x{700 + n}" for n in range(50)]),
    "zone": common(["Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"]),
    "sprachen": common(["de-DE,de", "en-US,en", "zh-CN"]),
    "kennung": lambda n: f"Mozilla/5.0 (X11; Linux x86_64; rv:{100 + n % 9}.0) Gecko/20100101",
    "userAgent": lambda n: f"Bot{n % 9}/1.0 (crawler <bot{n % 9}@example.org>)",
    "isMobileDevice": lambda n: ["false", "true"][n % 2],
    "flag": lambda n: ["on", "off"][n % 2],
    "hasEmail": lambda n: ["yes", "no"][n % 2],
    "stimmen": common([f"Microsoft Voice {n} - German (Germany)" for n in range(30)]),
    "farbe": common(["rgb(0, 0, 0)", "rgb(255, 255, 255)"]),
    "groesste": common(["16384", "32768", "8192"]),
}
VISITS, RECORDS = 60, 4


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns = NO_APIS | APIS
    visits = [[make(number) for make in columns.values()] for number in range(VISITS)]
    log = tmp_path_factory.mktemp("columns") / "log.csv"
    with log.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["user", *columns])
        for number in range(VISITS * RECORDS):
            rows.writerow([f"u{number}", *visits[number % VISITS]])
    return log


@pytest.fixture(scope="module")
def kinds(table: Path) -> dict[str, str]:
    told = table.with_suffix(".json")
    plan = [
        "ingest",
        "--plan",
        str(table),
        str(table.with_suffix(".toml")),
        "--format",
        "json",
        "-o",
        str(told),
    ]
    assert run([*plan, "--db", str(table.with_suffix(".db"))]) == 0
    [account] = json.loads(told.read_text(encoding="utf-8"))["accounts"].values()
    return {member["path"]: member["kind"] for member in account["members"]}


@pytest.mark.parametrize("name", NO_APIS)
def test_ids_times_and_noise_are_no_apis_though_each_value_comes_again(
    name: str, kinds: dict[str, str]
) -> None:
    """Ids of sessions, of people and of what they did stand in several records each."""
    assert kinds[name] in {"identifier", "metadata", "time"}


@pytest.mark.parametrize("name", APIS)
def test_what_browsers_return_is_an_api_under_any_name(name: str, kinds: dict[str, str]) -> None:
    assert kinds[name] == "API"


@pytest.mark.parametrize("name", ["Besucher", "访问次数", "visitas", "Anzahl_Sitzungen"])
def test_numbers_of_users_are_asked_about_in_any_language(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    rows = [f"agent {n};{n * 7 % 40 + 1}" for n in range(30)]
    log.write_text("\n".join([f"userAgent;{name}", *rows]), encoding="utf-8-sig")
    ingest = ["ingest", str(log), "--user", "row", "--db", str(tmp_path / "x.duckdb")]
    assert run(ingest) == 2
    assert "looks like a number of users" in capsys.readouterr().err


def test_shares_with_a_decimal_comma_are_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    rows = [f"agent {n};{n},{n % 10}" for n in range(30)]
    log.write_text("\r\n".join(["userAgent;Anteil", *rows]), encoding="utf-8-sig")
    ingest = ["ingest", str(log), "--user", "row", "--db", str(tmp_path / "x.duckdb")]
    assert run(ingest) == 2
    assert "looks like a share of the users" in capsys.readouterr().err
