"""Whether all that fingerprinting libraries find in real browsers is stored, under known names.

    npm install --prefix DIR fp3@npm:@fingerprintjs/fingerprintjs@3 \\
        fp4@npm:@fingerprintjs/fingerprintjs@4 fp5@npm:@fingerprintjs/fingerprintjs@5 \\
        @thumbmarkjs/thumbmarkjs clientjs
    PYTHONPATH=. python benchmarks/libraries.py DIR/node_modules chromium|firefox

Visitors of varied settings load a page with all libraries; what these return is ingested, and
counted again by Polars from the bare files: visits and distinct values of each component.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.recollection import Place, serving, settings, visit_chromium, visit_firefox
from fpmonitor.monitor import Monitor
from fpmonitor.vocabulary import aliases_of

VISITS = 50
SCRIPTS = {
    "fp3": "fp3/dist/fp.min.js",
    "fp4": "fp4/dist/fp.min.js",
    "fp5": "fp5/dist/fp.min.js",
    "thumbmark": "@thumbmarkjs/thumbmarkjs/dist/thumbmark.umd.js",
    "client": "clientjs/dist/client.min.js",
}
PAGE = """<!doctype html><body>
<script src="/fp3.js"></script><script>window.fp3 = FingerprintJS</script>
<script src="/fp4.js"></script><script>window.fp4 = FingerprintJS</script>
<script src="/fp5.js"></script><script>window.fp5 = FingerprintJS</script>
<script src="/thumbmark.js"></script><script src="/client.js"></script><script>
(async () => {
  const found = {};
  for (const name of ["fp3", "fp4", "fp5"])
    found[name] = await (await window[name].load({ monitoring: false })).get();
  found.thumbmark = await new ThumbmarkJS.Thumbmark({ logging: false }).get();
  const client = new ClientJS();
  found.client = {};
  for (const name in client)
    if (/^(get|is)[A-Z]/.test(name) && name !== "isFont")  // asks about a font that is named
      try { found.client[name] = client[name](); } catch { found.client[name] = null; }
  await fetch("/report", { method: "POST", body: JSON.stringify(found) });
})().catch((error) =>
  fetch("/report", { method: "POST", body: JSON.stringify({ error: `${error}` }) }));
</script>"""


def components_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the components of a result by name, and their members: `screen.width`."""
    found: dict[str, Any] = dict(result.get("components", result))
    for name, component in list(found.items()):
        found |= _members(name, value_of(component))
    return found


def _members(name: str, component: Any) -> dict[str, Any]:
    found = {}
    for member, value in component.items() if isinstance(component, dict) else ():
        found[f"{name}.{member}"] = value
        found |= _members(f"{name}.{member}", value)
    return found


def value_of(component: Any) -> Any:
    """Return what a component found; FingerprintJS wraps it."""
    wrapped = isinstance(component, dict) and "duration" in component
    return component.get("value") if wrapped else component


def compare(library: str, results: list[dict[str, Any]], folder: Path) -> None:
    """Print what is stored of the results of a library, and what is not as Polars counts it."""
    path = folder / f"{library}.jsonl"
    lines = [{"user": f"u{number}"} | result for number, result in enumerate(results)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with Monitor(folder / f"{library}.duckdb", create=True) as monitor:
        [report] = monitor.ingest(path)
        rows = monitor.observations()
    stored = pl.DataFrame(
        [(user, api, f"{status} {text}") for user, api, status, _, text in rows],
        schema=["user", "api", "value"],
        orient="row",
    )
    found = stored.group_by("api").agg(
        users=pl.col("user").n_unique(), values=pl.col("value").n_unique()
    )
    by_api = {row["api"]: (row["users"], row["values"]) for row in found.to_dicts()}
    bare = pl.DataFrame(
        [
            (number, name, json.dumps(value_of(component), sort_keys=True))
            for number, result in enumerate(results)
            for name, component in components_of(result).items()
        ],
        schema=["user", "name", "value"],
        orient="row",
    )
    aliases = aliases_of(report.collector)
    counted = bare.group_by("name").agg(
        users=pl.col("user").n_unique(), values=pl.col("value").n_unique()
    )
    compared = [
        (name, (users, values), by_api.get(aliases[name]))
        for name, users, values in counted.sort("name").iter_rows()
        if name in aliases
    ]
    missing = [row for row in compared if row[1] != row[2]]
    unnamed = sorted(
        name
        for name in counted["name"]
        if not any(
            f"{alias}.".startswith(f"{name}.") or name.startswith(f"{alias}.") for alias in aliases
        )
    )
    unknown = sorted(api for api in by_api if api.startswith("x:"))
    print(
        f"{library}: {report.collector}, {report.stored} of {report.read} visits stored, "
        f"{report.rejected} rejected; {len(by_api)} APIs of {counted.height} components\n"
        f"  {len(compared) - len(missing)} of {len(compared)} counted alike (users, values); "
        f"others (component, Polars, stored): {missing}\n"
        f"  components without a name of ours: {unnamed}\n  unknown: {unknown}"
    )


def main() -> None:
    """Visit, ingest, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", type=Path)
    parser.add_argument("browser", choices=["chromium", "firefox"])
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    texts = {
        f"/{name}.js": (options.modules / path).read_text(encoding="utf-8")
        for name, path in SCRIPTS.items()
    }
    place = Place(texts={"/": PAGE} | texts)
    with serving(place) as port:
        visit = visit_firefox if options.browser == "firefox" else visit_chromium
        found = visit(place, port, ["localhost"], folder / "all", visitors=settings(VISITS))
    visits = found["localhost"]
    errors = {visit["error"] for visit in visits if "error" in visit}
    print(f"{options.browser}: {len(visits)} visits, errors: {errors or 'none'}")
    for library in SCRIPTS:
        compare(library, [visit[library] for visit in visits if library in visit], folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
