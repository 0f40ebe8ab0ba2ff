"""From what was found to `fpmonitor/export/evidence.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.lab.products import PRODUCTS
from fpmonitor.export import evidence
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from benchmarks.lab.measure import Found
    from benchmarks.lab.products import Product

FILE = Path(evidence.__file__).with_name("evidence.json")
_MEMBER = "every member: "
_READERS = Path(__file__).with_name("readers.js")


def laid_out() -> list[str]:
    """Return the beginnings of names of readers that tell what was laid out or drawn."""
    text = _READERS.read_text(encoding="utf-8").partition("const laidOut = ")[2]
    found: list[str] = json.loads(text.partition(";")[0])
    return found


def named(readers: Iterable[str]) -> list[tuple[str, str]]:
    """Reader and place of each `reader@place`; members of objects that are APIs by their names."""
    found = []
    for key in readers:
        reader, _, place = key.partition("@")
        found.append(
            (
                reader.removeprefix(_MEMBER) if _is_api(reader.removeprefix(_MEMBER)) else reader,
                place,
            )
        )
    return found


def recorded(readers: Collection[str], told: Collection[str], places: list[str]) -> dict[str, Any]:
    """Return readers as the file holds them: APIs with their places, others where all are there."""
    apis: dict[str, str] = {}
    within, whole = set(named(readers)), set(named(told))
    for reader, place in sorted(within):
        if _is_api(reader):
            if place not in places:
                places.append(place)
            apis[reader] = apis.get(reader, "") + evidence.DIGITS[places.index(place)]
    others = {reader for reader, _ in within if not _is_api(reader)}
    missing = {reader for reader, place in whole - within}
    found = {"apis": apis, "others": sorted(others - missing)}
    return {key: value for key, value in found.items() if value}


def write(when: Mapping[str, str], secret: str, found: Found, of: Mapping[str, str]) -> None:
    """Write what was found of a secret in a browser into the file, in place of what it held.

    `when` has the browser, its version and the date; `of` those of
    products that do not come with the browser.
    """
    browser, version, date = when["browser"], when["version"], when["date"]
    content = json.loads(FILE.read_text(encoding="utf-8"))
    entry = content["browsers"].setdefault(browser, {"whole": True, "read": [], "secrets": {}})
    content["laid out"] = laid_out()
    entry["version"], entry["whole"] = version, True
    entry["read"] = sorted({*entry["read"], *(name for name in found.read if _is_api(name))})
    told = recorded(found.told, found.told, content["places"])
    measured = {product.name for product in found.products}
    entry["secrets"][secret] = {
        "tried": found.tried, "date": date, "seconds": found.seconds, **told,
    }  # fmt: skip
    for product in PRODUCTS:
        if product.browser != browser.lower() or product.name not in measured:
            continue
        run = _run_of(content, product, browser)
        run["title"] = _title(product, version, date, of.get(product.name, ""))
        run["closed"][secret] = _lists(product, found, content["places"])
    FILE.write_text(as_file(content), encoding="utf-8")


def write_breakage(found: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Write which ordinary pages stop beside each control of the products of a browser."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    for run in content["runs"]:
        if run["product"] in found:
            run["breaks"] = found[run["product"]]
    FILE.write_text(as_file(content), encoding="utf-8")


def as_file(content: Mapping[str, Any]) -> str:
    """Return the file as JSON, a line for each list and each secret of a browser."""

    def line(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    browsers = ",\n".join(
        f" {line(name)}: {{"
        + ", ".join(f"{line(k)}: {line(v)}" for k, v in entry.items() if k != "secrets")
        + ', "secrets": {\n'
        + ",\n".join(
            f"  {line(secret)}: {line(told)}" for secret, told in sorted(entry["secrets"].items())
        )
        + "}}"
        for name, entry in sorted(content["browsers"].items())
    )
    runs = ",\n".join(
        " {"
        + ", ".join(f"{line(k)}: {line(v)}" for k, v in run.items() if k != "closed")
        + ', "closed": {\n'
        + ",\n".join(
            f"  {line(secret)}: [" + ",\n   ".join(map(line, lists)) + "]"
            for secret, lists in sorted(run["closed"].items())
        )
        + "}}"
        for run in content["runs"]
    )
    lists = "".join(f'"{name}": {line(content[name])},\n' for name in ("places", "laid out"))
    return f'{{{lists}"browsers": {{\n{browsers}}},\n"runs": [\n{runs}]}}\n'


def _run_of(content: dict[str, Any], product: Product, browser: str) -> dict[str, Any]:
    for run in content["runs"]:
        if run["product"] == product.name:
            found: dict[str, Any] = run
            return found
    run = {
        "product": product.name, "exporters": list(product.exporters), "browser": browser,
        "title": "", "closed": {},
    }  # fmt: skip
    content["runs"].append(run)
    return run


def _title(product: Product, version: str, date: str, of: str) -> str:
    place = f"in {product.browser.capitalize()} {version}, {date}"
    name = product.name.partition(" in ")[0]
    return f"{name} {of} {place}" if of else f"{name} {place}"


def _lists(product: Product, found: Found, places: list[str]) -> Sequence[Mapping[str, Any]]:
    """Return the lists of a product, and what each closes.

    Scriptlets that act each on their own members were in force together: what of an API is closed,
    the scriptlet for this API has closed.
    """
    lists = [
        (controls, recorded(closed, found.told, places))
        for (name, controls), closed in found.closed.items()
        if name == product.name
    ]
    credited = []
    by_name = {control.name: control for control in product.controls}
    if product.how in {"scriptlets", "filters"}:
        for controls, closed in lists:
            for name in controls:
                own = {
                    a: w for a, w in closed.get("apis", {}).items() if by_name[name].effect_on(a)
                }
                if own and len(controls) > 1:
                    credited.append(((name,), {"apis": own}))
    return [{"controls": list(names), **closed} for names, closed in [*lists, *credited] if closed]


def _is_api(name: str) -> bool:
    return name in known_apis() or name.partition("#")[0] in known_apis()
