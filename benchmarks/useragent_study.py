"""What User-Agent reduction bought: exposure in monthly releases of the npm package user-agents.

    python benchmarks/useragent_study.py --cache FOLDER     # everything anew: needs npm
    python benchmarks/useragent_study.py --page             # page and figure from the figures

Each release holds the browsers of visits of one day. `--cache` keeps the tarballs; no row goes into
the project. Writes docs/useragents.json (derived figures only), .svg and, from the text in
useragent_study.md, .md. Groups are counted with Polars, and those of the two releases that are
decided on once more by fpmonitor from the file as it is in the package.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import subprocess
import tarfile
import tempfile
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from svg import Chart

from fpmonitor import ColumnMap, CountSpectrum, Monitor
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure, unbiased_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.policy import DOWN, UP, SampleModel, as_written, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "useragents.md"
FIGURES = PAGE.with_suffix(".json")
TEXT = HERE / "useragent_study.md"
_RELEASES = """
1.0.38 1.0.97 1.0.163 1.0.236 1.0.304 1.0.381 1.0.412 1.0.452 1.0.495 1.0.534 1.0.570 1.0.608
1.0.646 1.0.683 1.0.723 1.0.798 1.0.836 1.0.873 1.0.912 1.0.950 1.0.988 1.0.1026 1.0.1064 1.0.1140
1.0.1176 1.0.1218 1.0.1255 1.0.1292 1.0.1328 1.0.1367 1.0.1406 1.1.0 1.1.40 1.1.80 1.1.158 1.1.240
1.1.321 1.1.439 1.1.526 1.1.600 1.1.666 2.1.37 2.1.124 2.1.198
"""
RELEASES = _RELEASES.split()
UNREDUCED = "1.0.988"  # Chrome 100: the last before versions were reduced
LAST = "1.1.666"  # later ones are full of strings of old versions
BEHIND, MOST_BEHIND = 20, 0.1  # Chrome updates itself: few users are so many versions behind
K, DELTA = 10, 0.05
ROWS = SampleModel(rows_are_users=True)  # each row of the package is one of its users
SITE, DESKTOPS, ANDROIDS = 3_500, 800, 125  # visitors of a site, and those with one browser
BUDGET = 0.05
COLUMNS = {
    "userAgent": ["userAgent"],
    "platform": ["platform"],
    "vendor": ["vendor"],
    "plugins": ["pluginsLength"],
    "screen": ["screenWidth", "screenHeight"],
    "viewport": ["viewportWidth", "viewportHeight"],
    "connection": ["connection"],
}
LEFT_OUT = ("platform version, major", "full version")  # of the page; the JSON has them
SHOWN = ("userAgent", "screen", "viewport", "connection", "userAgent+screen")
SETS = [*combinations(COLUMNS, 1), *combinations(COLUMNS, 2), tuple(COLUMNS)]
CHROME = re.compile(
    r"Mozilla/5\.0 \(([^()]+)\) AppleWebKit/537\.36 \(KHTML, like Gecko\) "
    r"Chrome/((\d+)[\d.]+) (Mobile )?Safari/537\.36"
)
REDUCED = {  # https://www.chromium.org/updates/ua-reduction
    "Android": "Linux; Android 10; K",
    "Windows": "Windows NT 10.0; Win64; x64",
    "Macintosh": "Macintosh; Intel Mac OS X 10_15_7",
    "CrOS": "X11; CrOS x86_64 14541.0.0",
    "Linux": "X11; Linux x86_64",
}
HINTS = {
    "default": ("major", "mobile", "platform"),
    "platform version, major": ("major", "mobile", "platform", "system_major"),
    "platform version": ("major", "mobile", "platform", "system"),
    "model": ("major", "mobile", "platform", "model"),
    "full version": ("major", "mobile", "platform", "version"),
    "all": ("major", "mobile", "platform", "system", "model", "version"),
}


# ---- Rows ---------------------------------------------------------------------------------------


def npm(cache: Path, package: str) -> tarfile.TarFile:
    """Tarball of a package; fetched where the cache does not have it."""
    path = cache / f"{package.replace('@mdn/', '').replace('@', '-')}.tgz"
    if not path.exists():
        command = ["npm", "pack", package, "--silent"]
        done = subprocess.run(command, cwd=cache, capture_output=True, text=True, check=True)
        (cache / done.stdout.split()[-1]).rename(path)
    return tarfile.open(path)


def read(tarball: tarfile.TarFile, *endings: str) -> bytes:
    name = next(name for name in tarball.getnames() if name.endswith(endings))
    content = tarball.extractfile(name).read()  # type: ignore[union-attr]
    return gzip.decompress(content) if name.endswith(".gz") else content


def frame_of(document: bytes) -> pl.DataFrame:
    """One row a visit; an attribute is text, "absent" where a browser does not have it."""
    rows = json.loads(document)
    names = [name for columns in COLUMNS.values() for name in columns]
    texts = {
        name: [json.dumps(row[name], sort_keys=True) if name in row else "absent" for row in rows]
        for name in names
    }
    agents = [row.get("userAgent", "") for row in rows]
    parts = [parts_of(agent) for agent in agents]
    return pl.DataFrame(
        {
            **texts,
            "weight": [row["weight"] for row in rows],
            "mobile_visit": [row.get("deviceCategory") == "mobile" for row in rows],
            **{name: [part[name] for part in parts] for name in parts[0]},
        }
    )


def parts_of(agent: str) -> dict[str, str | None]:
    """What the string of Chrome itself says, as the hints would; null for other browsers."""
    names = ("platform_hint", "major", "mobile", "version", "system", "system_major", "model")
    found = CHROME.fullmatch(agent)
    if found is None:
        return dict.fromkeys((*names, "reduced"))
    words, version, major, mobile = found.groups()
    platform = next((name for name in REDUCED if name in words), "Linux")
    system = re.search(r"(?:Android|NT|OS X|x86_64|aarch64|armv7l) ([\d._]+)", words)
    numbers = system[1].replace("_", ".") if system and platform != "Linux" else ""
    model = re.sub(r" Build/.*", "", words.split("; ")[-1]) if platform == "Android" else ""
    # The hint calls Windows 7 and 8 0.1, 0.2, 0.3.
    first = "0" if platform == "Windows" and numbers[:2] == "6." else numbers.split(".")[0]
    values = (platform, major, mobile or "", version, numbers, first, model)
    reduced = (
        f"Mozilla/5.0 ({REDUCED[platform]}) AppleWebKit/537.36 (KHTML, like Gecko) "
        f"Chrome/{major}.0.0.0 {mobile or ''}Safari/537.36"
    )
    return {**dict(zip(names, values, strict=True)), "reduced": reduced}


def noise(weights: np.ndarray) -> float:
    """Distance of the weights, less the least, from an exponential distribution, times sqrt(n)."""
    rest = np.sort(weights - weights.min()) / (weights - weights.min()).mean()
    middle = (np.arange(rest.size) + 0.5) / rest.size
    return float(np.abs(1 - np.exp(-rest) - middle).max() * math.sqrt(rest.size))


# ---- Questions ----------------------------------------------------------------------------------


def questions(release: str, rows: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Every number of the study: of whom, which columns, in a population of how many."""

    def ask(
        of: str, name: str, part: pl.DataFrame, columns: Sequence[str], n: int
    ) -> dict[str, Any]:
        counts = part.group_by(columns).len()["len"].to_numpy().astype(int)
        spectrum = CountSpectrum.from_counts(counts)
        return {"release": release, "of": of, "set": name, "n": n, "spectrum": spectrum}

    for apis in SETS:
        columns = [column for api in apis for column in COLUMNS[api]]
        yield ask("all", "+".join(apis), rows, columns, SITE)
    chrome = rows.filter(pl.col("reduced").is_not_null())
    on_android = pl.col("platform_hint") == "Android"
    for of, part, n in (
        ("desktop", chrome.filter(~on_android), DESKTOPS),
        ("Android", chrome.filter(on_android), ANDROIDS),
    ):
        for agent in ("userAgent", "reduced"):
            yield ask(of, agent, part, [agent], n)
            yield ask(of, f"{agent}+screen", part, [agent, *COLUMNS["screen"]], n)
    if release in {RELEASES[0], UNREDUCED}:
        renamed = chrome.with_columns(platform=pl.col("platform_hint"))
        for name, columns in HINTS.items():
            yield ask("hints", name, renamed, columns, SITE)
        yield ask("hints", "User-Agent", renamed, ["userAgent"], SITE)


def answer(asked: dict[str, Any], level: float) -> dict[str, Any]:
    """Estimate and limits of one question, at a level of its own."""
    spectrum, n = asked["spectrum"], asked["n"]
    limits = exposure_limits(users=spectrum.users, k=K, population=n, delta=level)
    lower, upper = limits.of(spectrum)
    unbiased = unbiased_exposure(spectrum, k=K, population=n)
    return {
        "rows": spectrum.users,
        "values": spectrum.support,
        "observed": round(empirical_exposure(spectrum, K), 5),
        "estimate": None if unbiased is None else round(unbiased, 5),
        "lower": math.floor(lower * 1e5) / 1e5,
        "upper": math.ceil(upper * 1e5) / 1e5,
        "bits": round(entropy_bits(spectrum), 3),
    }


def decide(document: bytes, rows: pl.DataFrame) -> dict[str, Any]:
    """Decision on a release as fpmonitor reads it, and whether it counts as Polars does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "user-agents.json"
        path.write_bytes(document)
        names = {"user": "row"}
        ignored = frozenset({"weight", "deviceCategory"})
        with Monitor(Path(folder) / "a.duckdb", create=True) as monitor:
            monitor.ingest(path, column_map=ColumnMap(names, ignore=ignored, flatten=False))
            flat = [column for columns in COLUMNS.values() for column in columns]
            for size in (1, 2):
                for columns in combinations(flat, size):
                    [report] = monitor.exposure([columns], k=K, population=SITE, sample=ROWS)
                    counts = rows.group_by(columns).len()["len"]
                    share = counts.filter(counts < K).sum() / len(rows)
                    if report.empirical != share:
                        raise SystemExit(f"{columns}: {report.empirical} is not {share}")
            decision = monitor.decide(
                k=K, population=SITE, budget=BUDGET, candidates=flat, sample=ROWS
            )
    return {
        "allow": [list(apis) for apis in decision.allow],
        "block": [list(apis) for apis in decision.block],
        "undecided": len(decision.undecided),
        "recommended": list(decision.recommended),
    }


def study(cache: Path) -> dict[str, Any]:
    """All figures of the page."""
    compat = json.loads(read(npm(cache, "@mdn/browser-compat-data@8.1.9"), "package/data.json"))
    known = compat["browsers"]["chrome"]["releases"]
    asked: list[dict[str, Any]] = []
    releases, decisions = {}, {}
    for release in RELEASES:
        endings = ("user-agents.json.gz", "dist/user-agents.json")
        document = read(npm(cache, f"user-agents@{release}"), *endings)
        rows = frame_of(document)
        majors = rows["major"].drop_nulls().cast(int)
        usual = majors.value_counts().filter(pl.col("count") >= len(majors) / 20)["major"]
        newest = max(number for number in usual if str(number) in known)
        releases[release] = {
            "chrome": newest,
            "date": known[str(newest)]["release_date"],
            "rows": len(rows),
            "distinct": rows.drop("weight").n_unique(),
            "mobile": round(rows["mobile_visit"].mean(), 3),
            "behind": round((newest - majors > BEHIND).mean(), 3),
            "noise": round(noise(rows["weight"].to_numpy()), 2),
        }
        asked += questions(release, rows)
        if release in {RELEASES[0], LAST}:
            decisions[release] = decide(document, rows)
    level = DELTA / (2 * len(asked))
    for question in asked:
        found = releases[question["release"]].setdefault(question["of"], {})
        found[question["set"]] = answer(question, level)
    return {
        "k": K,
        "delta": DELTA,
        "limits": 2 * len(asked),
        "site": SITE,
        "desktops": DESKTOPS,
        "androids": ANDROIDS,
        "budget": BUDGET,
        "releases": releases,
        "decisions": decisions,
    }


# ---- The page -----------------------------------------------------------------------------------


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def whole(share: float) -> str:
    return f"{100 * share:.0f} %"


def interval(found: dict[str, Any]) -> str:
    return f"{limit(found['lower'], DOWN)} to {limit(found['upper'], UP)} %"


def limit(share: float, away: str) -> str:
    return f"{rounded(100 * as_written(share), away, places=1):f}"


def cell(found: dict[str, Any]) -> str:
    return f"{percent(found['estimate'])} ({interval(found)})"


def with_bits(found: dict[str, Any]) -> str:
    limits = f"{limit(found['lower'], DOWN)}–{limit(found['upper'], UP)}"
    return f"{100 * found['estimate']:.1f} ({limits}), {found['bits']:.1f}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def disagreements(sets: dict[str, Any]) -> list[tuple[float, str, str]]:
    """Pairs of which the one with less entropy certainly exposes more: gap of limits, its names."""
    found = [
        (sets[more]["lower"] - sets[less]["upper"], more, less)
        for more in sets
        for less in sets
        if sets[more]["bits"] < sets[less]["bits"] and sets[more]["lower"] > sets[less]["upper"]
    ]
    return sorted(found, reverse=True)


def fields(figures: dict[str, Any]) -> dict[str, object]:
    """What stands in the braces of the text."""
    releases = figures["releases"]
    chosen = [RELEASES[0], UNREDUCED, LAST]
    named = dict(zip(("first", "unreduced", "last"), map(releases.get, chosen), strict=True))
    usable = {name: x for name, x in releases.items() if x["behind"] <= MOST_BEHIND}
    apart = {name: disagreements(found["all"]) for name, found in usable.items()}
    (_, more, less), where = max((pairs[0], release) for release, pairs in apart.items() if pairs)
    at = releases[where]["all"]
    behind = [found["behind"] for found in releases.values() if found["behind"] > MOST_BEHIND]
    texts: dict[str, object] = {
        "k": figures["k"],
        "site": f"{figures['site']:,}",
        "desktops": figures["desktops"],
        "androids": figures["androids"],
        "budget": whole(figures["budget"]),
        "behind": BEHIND,
        "most_behind": whole(MOST_BEHIND),
        "behind_releases": len(behind),
        "worst_behind": whole(max(behind)),
        "releases": len(releases),
        "limits": f"{figures['limits']:,}",
        "noisiest": max(found["noise"] for found in releases.values()),
        "most_mobile": whole(max(found["mobile"] for found in releases.values())),
        "least_mobile": whole(min(found["mobile"] for found in releases.values())),
        "usable": len(usable),
        "apart_releases": sum(map(bool, apart.values())),
        "apart_pairs": sum(map(len, apart.values())),
        "apart_more": f"`{more}` ({at[more]['bits']:.2f} bits, {cell(at[more])})",
        "apart_less": f"`{less}` ({at[less]['bits']:.2f} bits, {cell(at[less])})",
        "apart_where": f"{where} ({releases[where]['date'][:7]})",
        "attributes": table(
            ["set", *(f"{releases[release]['date'][:7]}" for release in chosen)],
            (
                [
                    name.replace("+", ", "),
                    *(with_bits(releases[release]["all"][name]) for release in chosen),
                ]
                for name in (*SHOWN, "+".join(COLUMNS))
            ),
        ),
        "hints": table(
            ["hints", *(f"{releases[release]['date'][:7]}" for release in chosen[:2])],
            (
                [
                    name,
                    *(with_bits(releases[release]["hints"][name]) for release in chosen[:2]),
                ]
                for name in (*HINTS, "User-Agent")
                if name not in LEFT_OUT
            ),
        ),
    }
    for when, found in named.items():
        texts[f"{when}_month"] = found["date"][:7]
        for of in ("Android", "desktop"):
            for name, answered in found[of].items():
                texts[f"{when}_{of}_{name.replace('+', '_')}"] = cell(answered)
    return texts


def figure(figures: dict[str, Any]) -> str:
    """Exposure of Chrome's string over the years, as it was sent and as it would be reduced."""
    chart = Chart(
        "Exposure of Chrome's User-Agent among its own users", "year", (2018, 2027), parts=9
    )
    for of in ("Android", "desktop"):
        true = [line for line in figures["releases"].values() if line["behind"] <= MOST_BEHIND]
        found = [(year(line), line[of]) for line in true]
        x = [when for when, _ in found]
        sent = [sets["userAgent"] for _, sets in found]
        lower, upper = ([answered[end] for answered in sent] for end in ("lower", "upper"))
        chart.band(f"{of}: limits", x, lower, upper)
        chart.lines(f"{of}: as sent", x, [answered["estimate"] for answered in sent])
        reduced = [sets["reduced"]["estimate"] for _, sets in found]
        chart.lines(f"{of}: as if reduced", x, reduced, dashed=True)
    return chart.text()


def year(release: dict[str, Any]) -> float:
    years, month, day = map(int, release["date"].split("-"))
    return years + (month - 1) / 12 + (day - 1) / 365


def written(figures: dict[str, Any]) -> dict[Path, str]:
    """Page and figure, by file."""
    text = TEXT.read_text(encoding="utf-8").format_map(fields(figures))
    return {PAGE: text, PAGE.with_suffix(".svg"): figure(figures)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, help="folder for the packages")
    parser.add_argument("--page", action="store_true", help="only the page, from the figures")
    arguments = parser.parse_args()
    if not arguments.page:
        with tempfile.TemporaryDirectory() as scratch:
            found_anew = study(arguments.cache or Path(scratch))
        text = json.dumps(found_anew, separators=(",", ":"))
        FIGURES.write_text(text.replace("}},", "}},\n") + "\n", encoding="utf-8")
    for path, text in written(json.loads(FIGURES.read_text(encoding="utf-8"))).items():
        path.write_text(text, encoding="utf-8")
