"""How many tiers, and where, so that each holds a tenth of the devices: on public tables.

    python benchmarks/tiers.py --cache FOLDER     # everything anew: needs npm and pip
    python benchmarks/tiers.py --page             # the page, from docs/tiers.json

Drafts of the web's coarse APIs ask that each value that a site can see is shared by at least 10 %
of the devices. For each API some of the rows, drawn blindly, say where the edges go; the others
prove it. Designs of 2, 3, ... tiers are tested in this order, until the first that fails: each has
the whole of delta (a fixed sequence). Values are those of one API: nothing is said of several.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from known_truth_laws import pypi, user_agents
from known_truth_page import percent, table

from fpmonitor.estimate.declared import declared_share_limits
from fpmonitor.policy import DOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "tiers.md"
FIGURES = PAGE.with_suffix(".json")
TEXT = HERE / "tiers.md"
SEED = 10
SHARE, DELTA, DESIGN_SHARE = 0.1, 0.05, 0.3
LEFT_OUT = ("visitors of 2018", "visitors of 2025")  # of the page; the JSON has them
MOST_TIERS = 9  # ten of a tenth each leave nothing to prove
NETWORK = "apify_fingerprint_datapoints/data/fingerprint-network-definition.zip"
BROWSERS = 14_192  # of which that network was made


# ---- Tables -------------------------------------------------------------------------------------


def browsers(cache: Path) -> Mapping[str, list[Any]]:
    """Values of single APIs of 14,192 browsers, by the counts that their network was made of."""
    packed = pypi(cache, "apify_fingerprint_datapoints==0.15.0", NETWORK)
    with zipfile.ZipFile(BytesIO(packed)) as file:
        nodes = {n["name"]: n for n in json.loads(file.read("network.json"))["nodes"]}
    agents = nodes["userAgent"]["conditionalProbabilities"]

    def column(name: str) -> list[Any]:
        given, values = nodes[name]["conditionalProbabilities"]["deeper"], []
        for agent, share in agents.items():
            users = round(share * BROWSERS)
            for value, part in given[agent].items():
                values += [_value(value)] * round(part * users)
        return values

    screens = column("screen")
    columns = {name: column(name) for name in ("hardwareConcurrency", "deviceMemory")}
    columns |= {"maxTouchPoints": column("maxTouchPoints"), "platform": column("platform")}
    columns |= {name: [screen[name] for screen in screens] for name in ("width", "height")}
    columns["devicePixelRatio"] = [screen["devicePixelRatio"] for screen in screens]
    columns["UA-CH platform"] = [
        data["platform"] if isinstance(data, dict) else None for data in column("userAgentData")
    ]
    columns["fonts"] = column("fonts")
    return columns


def _value(text: str) -> Any:
    if text == "*MISSING_VALUE*":
        return None
    return json.loads(text[13:]) if text.startswith("*STRINGIFIED*") else text


def visitors(release: str) -> Callable[[Path], Mapping[str, list[Any]]]:
    def read(cache: Path) -> Mapping[str, list[Any]]:
        frame = user_agents(release)(cache)
        names = ("screenWidth", "screenHeight", "viewportWidth", "viewportHeight", "platform")
        found: dict[str, list[Any]] = {
            name: [json.loads(text) for text in frame[name].to_list()] for name in names
        }
        connections = [json.loads(text) or {} for text in frame["connection"].to_list()]
        for member in ("downlink", "rtt"):
            found[member] = [connection.get(member) for connection in connections]
        return found

    return read


TABLES: dict[str, Callable[[Path], Mapping[str, list[Any]]]] = {
    "14,192 browsers": browsers,
    "visitors of 2018": visitors("1.0.38"),
    "visitors of 2025": visitors("1.1.666"),
}


# ---- Tiers --------------------------------------------------------------------------------------


def designs(values: Sequence[Any]) -> Iterator[list[Any]]:
    """The best tiers of 2, 3, ...: first values of each, the smallest tier as large as it can be.

    Numbers are cut where they stand; texts in the order of how many have them. What is no value
    is the first tier's, as a site is then shown the smallest.
    """
    counts = Counter(values)
    ordered = _ordered(counts)
    ends = np.cumsum([0, *(counts[value] for value in ordered)])
    ends[1:] += counts[None]
    least = {0: (math.inf, ())}  # by where the tiers so far end
    for _ in range(MOST_TIERS):
        after: dict[int, tuple[float, tuple[int, ...]]] = {}
        for start, (smallest, starts) in least.items():
            for end in range(start + 1, len(ends)):
                held = min(smallest, float(ends[end] - ends[start]))
                if held > after.get(end, (0.0, ()))[0]:
                    after[end] = held, (*starts, start)
        least = after
        if len(ends) - 1 not in least:
            return
        starts = least[len(ends) - 1][1]
        if len(starts) > 1:
            yield [ordered[start] for start in starts]


def _ordered(counts: Counter[Any]) -> list[Any]:
    told = [value for value in counts if value is not None]
    if all(isinstance(value, int | float) for value in told):
        return sorted(told)
    return sorted(told, key=lambda value: (-counts[value], str(value)))


def tier_counts(values: Sequence[Any], starts: Sequence[Any], order: Sequence[Any]) -> Any:
    """Rows in each tier; a text that the design has not seen is in the last."""
    if all(isinstance(value, int | float) for value in order):
        places = [
            0 if value is None else max(int(np.searchsorted(starts, value, side="right")) - 1, 0)
            for value in values
        ]
    else:
        tier_of, tier = {}, -1
        for value in order:
            tier += value in starts
            tier_of[value] = tier
        places = [0 if value is None else tier_of.get(value, tier) for value in values]
    return np.bincount(places, minlength=len(starts))


def certify(values: Sequence[Any], rng: np.random.Generator) -> dict[str, Any]:
    """The finest tiers of which each is proven to hold the share."""
    shuffled = rng.permutation(len(values))
    part = round(DESIGN_SHARE * len(values))
    made_of, tested = ([values[i] for i in each] for each in (shuffled[:part], shuffled[part:]))
    order, passed, failed = _ordered(Counter(made_of)), None, None
    for starts in designs(made_of):
        counts = tier_counts(tested, starts, order)
        shown = limits_of_tiers(counts, len(tested))
        found = {"starts": starts, "counts": counts.tolist(), "lower": shown.tolist()}
        if shown.min() < SHARE:
            failed = found
            break
        passed = found
    distinct = len({*values} - {None})
    return {"rows": len(tested), "values": distinct, "passed": passed, "failed": failed}


def limits_of_tiers(counts: NDArray[np.int64], rows: int) -> NDArray[np.float64]:
    """Lower limits of the shares of all tiers, together with probability 1 - delta."""
    lower, _ = declared_share_limits(counts, rows, math.log(len(counts) / DELTA))
    return lower


def study(cache: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, read in TABLES.items():
        columns = read(cache)
        found[name] = {
            api: certify(values, np.random.default_rng(SEED))
            for api, values in columns.items()
            if api != "fonts"
        }
    return found


# ---- The page -----------------------------------------------------------------------------------


def tiers_text(found: dict[str, Any] | None) -> str:
    if found is None:
        return "no two"
    starts = found["starts"]
    if not all(isinstance(start, int | float) for start in starts):
        return f"{len(starts)}: from " + ", ".join(starts)
    return f"{len(starts)}: cut at " + ", ".join(f"{start:g}" for start in starts[1:])


def smallest(found: dict[str, Any] | None, rows: int) -> str:
    if found is None:
        return "–"
    place = int(np.argmin(found["lower"]))
    lower = percent(found["lower"][place], DOWN)
    return f"{percent(found['counts'][place] / rows)}, at least {lower}"


def written(figures: dict[str, Any]) -> dict[Path, str]:
    parts = []
    for name, apis in figures.items():
        if name in LEFT_OUT:
            continue
        head = ["API", "values", "tiers that are proven", "the smallest, in %"]
        rows = [
            [
                api,
                found["values"],
                tiers_text(found["passed"]),
                smallest(found["passed"], found["rows"]),
            ]
            for api, found in apis.items()
        ]
        parts.append(f"### {name[0].upper()}{name[1:]}\n\n{table(head, rows)}")
    text = TEXT.read_text(encoding="utf-8")
    return {PAGE: text.format(tables="\n\n".join(parts))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, help="folder for the packages")
    parser.add_argument("--page", action="store_true", help="only the page, from the JSON")
    options = parser.parse_args()
    if not options.page:
        with tempfile.TemporaryDirectory() as scratch:
            found = study(options.cache or Path(scratch))
        FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for path, text in written(json.loads(FIGURES.read_text(encoding="utf-8"))).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
