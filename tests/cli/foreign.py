"""Made-up tables in the shapes that strangers bring, and nobody's rows."""

from __future__ import annotations

import csv
import io
import json
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

AGENTS = [
    f"Mozilla/5.0 (X11; Linux x86_64; rv:{v}.0) Gecko/20100101 Firefox/{v}.0" for v in (128, 140)
]
SCREENS = [(1920, 1080), (1366, 768), (2560, 1440)]


def people(count: int = 600) -> list[dict[str, Any]]:
    """Users who are alike in all but their user agent, which a third of them has alone."""
    rng = random.Random(7)
    rows = []
    for i in range(count):
        width, height = rng.choice(SCREENS)
        rows.append(
            {
                "agent": f"{AGENTS[0]} own/{i}" if i % 3 == 0 else AGENTS[1],
                "width": width,
                "height": height,
                "language": rng.choice(["en-US", "de-DE"]),
                "platform": "Linux x86_64",
                "cores": rng.choice([4, 8]),
                "zone": rng.choice(["Europe/Berlin", "UTC"]),
            }
        )
    return rows


def user_agents(count: int = 600) -> list[dict[str, Any]]:
    """Flat rows as of the npm package user-agents."""
    return [
        {
            "user": i,
            "userAgent": row["agent"],
            "appName": "Netscape",
            "platform": row["platform"],
            "language": row["language"],
            "pluginsLength": 5,
            "screenWidth": row["width"],
            "screenHeight": row["height"],
            "connection.rtt": 50 if i % 2 else 100,
            "deviceCategory": "mobile" if i % 4 else "desktop",
        }
        for i, row in enumerate(people(count))
    ]


def nested_user_agents(count: int = 600) -> list[dict[str, Any]]:
    """Rows of npm user-agents as the package has them: nested, weighted, and without a user."""
    rows = user_agents(count)
    for row in rows:
        row["connection"] = {"rtt": row.pop("connection.rtt"), "effectiveType": "4g"}
        row["weight"] = (1 + row.pop("user")) / (count * (count + 1) / 2)
    return rows


def screens(count: int = 600) -> list[dict[str, Any]]:
    """Rows whose columns are the expressions that a page evaluates, and how many users had them."""
    return [
        {
            "count": 1 + i % 2,
            "navigator.userAgent": row["agent"],
            "screen.width": row["width"],
            "screen.height": row["height"],
            "navigator.hardwareConcurrency": row["cores"],
            "window.devicePixelRatio": 1,
        }
        for i, row in enumerate(people(count))
    ]


def fingerprintjs(count: int = 600) -> list[dict[str, Any]]:
    """Components of FingerprintJS, one column each, and the user agent beside them."""
    return [
        {
            "user": i,
            "ua": row["agent"],
            "platform": row["platform"],
            "hardwareConcurrency": row["cores"],
            "colorDepth": 24,
            "languages": row["language"],
            "osCpu": row["platform"],
            "screenResolution": f"{row['width']}x{row['height']}",
        }
        for i, row in enumerate(people(count))
    ]


def nested_fingerprintjs(count: int = 600) -> list[dict[str, Any]]:
    """Values of the components as the library returns them, and its hash of them."""
    return [
        {
            "visitorId": f"{i:032x}",
            **{name: value for name, value in row.items() if name != "user"},
            "screenResolution": [int(side) for side in row["screenResolution"].split("x")],
            "languages": [[row["languages"]]],
            "fonts": ["Arial"] * (i % 2),
            "fontPreferences": {"apple": 149.312 + i % 2, "mono": 133.062},
            "touchSupport": {"maxTouchPoints": 0, "touchEvent": False, "touchStart": False},
        }
        for i, row in enumerate(fingerprintjs(count))
    ]


def thumbmarkjs(count: int = 600) -> list[dict[str, Any]]:
    """Components of ThumbmarkJS, without what the library puts around them."""
    return [
        {
            "user": i,
            "system": {
                "useragent": row["agent"],
                "platform": row["platform"],
                "hardwareConcurrency": row["cores"],
            },
            "locales": {"timezone": row["zone"]},
            "screen": {"colorDepth": 24},
            "hardware": {"videocard": {"rendererUnmasked": "Mesa"}},
            "permissions": {"camera": "prompt", "local-fonts": "prompt"},
            "speech": {"details": {"voiceCount": i % 2}, "hash": "ab"},
        }
        for i, row in enumerate(people(count))
    ]


def excel(count: int = 600, encoding: str = "utf-8-sig") -> bytes:
    """What a spreadsheet saves: semicolons, CR LF, and a byte order mark or Windows-1252."""
    rows = [
        {
            "Käufer": f"Müller {i}",
            "Datum": f"{1 + i % 28:02}.11.2026 {i % 24:02}:00",
            "User Agent": row["agent"],
            "Screen Width": row["width"],
            "Screen Height": row["height"],
            "Language": row["language"],
        }
        for i, row in enumerate(people(count))
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), delimiter=";", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode(encoding)


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
