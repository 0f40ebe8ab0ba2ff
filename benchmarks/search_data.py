"""The five tables of the search benchmark, each a matrix of integer codes made from a seed.

Two tables come from the network of the PyPI package `apify_fingerprint_datapoints` (Apache-2.0),
three are made up. `python benchmarks/search_data.py` prints what each table looks like.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from apify_fingerprint_datapoints import (
    get_fingerprint_network,
    get_header_network,
    get_input_network,
)
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

Codes = NDArray[np.uint32]

SEED = 20260301
NETWORK_12 = (
    "userAgentData.platform",
    "userAgentData.platformVersion",
    "doNotTrack",
    "maxTouchPoints",
    "deviceMemory",
    "hardwareConcurrency",
    "screen.width",
    "screen.height",
    "screen.devicePixelRatio",
    "videoCard.renderer",
    "fonts",
    "multimediaDevices",
)
NETWORK_20 = (
    *NETWORK_12,
    "screen.outerHeight",
    "screen.colorDepth",
    "userAgent",
    "battery.charging",
    "extraProperties.globalPrivacyControl",
    "pluginsData",
    "audioCodecs",
    "videoCard.vendor",
)


@dataclass(frozen=True)
class Table:
    """One workload: names of the columns, and their codes (shape columns x rows)."""

    name: str
    apis: list[str]
    codes: Codes


def power_law(size: int, exponent: float) -> NDArray[np.float64]:
    """Zipf law over `size` values."""
    law = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    return law / law.sum()


def device_models(
    seed: int,
    rows: int,
    cardinalities: Sequence[int],
    *,
    models: int,
    fidelity: tuple[float, float],
) -> Codes:
    """Correlated columns: each user has a device model that fixes most values, the rest are own.

    A value follows the model with a probability drawn from the range `fidelity`, one a column.
    """
    rng = np.random.default_rng(seed)
    model = rng.choice(models, size=rows, p=power_law(models, 1.05))
    columns = []
    for cardinality in cardinalities:
        law = power_law(cardinality, rng.uniform(1.1, 1.5))
        typical = rng.choice(cardinality, size=models, p=law)
        own = rng.choice(cardinality, size=rows, p=law)
        follows = rng.random(rows) < rng.uniform(*fidelity)
        columns.append(np.where(follows, typical[model], own))
    return np.array(columns, dtype=np.uint32)


def few_rows(seed: int, rows: int, cardinalities: Sequence[int], *, models: int) -> Codes:
    """Columns that are functions of a device model alone: few distinct rows."""
    return device_models(seed, rows, cardinalities, models=models, fidelity=(1.0, 1.0))


def _draw(law: dict[str, float], size: int, rng: np.random.Generator) -> list[str]:
    shares = np.array(list(law.values()))
    values = list(law)
    return [values[i] for i in rng.choice(len(values), size=size, p=shares / shares.sum())]


def _read(value: str) -> Any:
    """Value of a node: plain text, or JSON behind a mark."""
    mark = "*STRINGIFIED*"
    return json.loads(value.removeprefix(mark)) if value.startswith(mark) else value


def _code(values: list[str], part: str) -> Codes:
    """Codes of the whole value, of one member of it, or of how many it has (`n`)."""
    distinct = sorted(set(values))
    codes: dict[str, int] = {}
    code_of = {}
    for value in distinct:
        read = _read(value)
        for step in part.split(".") if part else ():
            if step == "n":
                read = len(read)
            elif isinstance(read, dict):
                read = read.get(step)
        member = json.dumps(read)
        code_of[value] = codes.setdefault(member, len(codes))
    return np.array([code_of[value] for value in values], dtype=np.uint32)


def _nodes(path: Path) -> list[dict[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        nodes: list[dict[str, Any]] = json.loads(archive.read("network.json"))["nodes"]
    return nodes


def network(seed: int, rows: int, apis: Sequence[str]) -> Codes:
    """Browsers drawn from the network: the user agent first, then each node given its parent."""
    nodes = {node["name"]: node for node in _nodes(get_fingerprint_network())}
    rng = np.random.default_rng(seed)
    agents = sorted(_draw(nodes["userAgent"]["conditionalProbabilities"], rows, rng))
    drawn = {"userAgent": agents}
    columns = []
    for api in apis:
        name, _, part = api.partition(".")
        if name not in drawn:
            laws = nodes[name]["conditionalProbabilities"]["deeper"]
            drawn[name] = [
                value
                for agent in dict.fromkeys(agents)
                for value in _draw(laws[agent], agents.count(agent), rng)
            ]
        columns.append(_code(drawn[name], part))
    order = rng.permutation(rows)  # the draw went agent by agent
    return np.array(columns)[:, order]


def _law(node: dict[str, Any], parents: Iterable[str]) -> dict[str, float]:
    """Law of a node given the values of its parents, none where it has none."""
    laws = node["conditionalProbabilities"]
    for value in parents:
        laws = laws.get("deeper", {}).get(value) or laws.get("skip", {})
    return {value: share for value, share in laws.items() if value not in {"deeper", "skip"}}


def _drawn(
    nodes: Iterable[dict[str, Any]], given: Mapping[str, list[str]], rng: np.random.Generator
) -> dict[str, list[str]]:
    """Values of all nodes, which follow their parents; those that are given stay."""
    found, rows = dict(given), len(next(iter(given.values())))
    for node in nodes:
        if node["name"] in found:
            continue
        places: dict[tuple[str, ...], list[int]] = {}
        parents = [found[parent] for parent in node["parentNames"]]
        for row in range(rows):
            places.setdefault(tuple(values[row] for values in parents), []).append(row)
        values = [""] * rows
        for key, held in places.items():
            for row, value in zip(held, _draw(_law(node, key), len(held), rng), strict=True):
                values[row] = value
        found[node["name"]] = values
    return found


def visits(seed: int, rows: int, apis: Sequence[str]) -> Codes:
    """Visits drawn from all three networks: kind of browser, headers, then what the page reads.

    A header is one column, however its name is written; `titleCase` is how that is.
    """
    rng = np.random.default_rng(seed)
    inputs = _nodes(get_input_network())
    first = {"*DEVICE": _draw(_law(inputs[0], ()), rows, rng)}
    kind = _drawn(inputs, first, rng)
    drawn = _drawn(_nodes(get_header_network()), kind, rng)
    for title in [name for name in drawn if name[:1].isupper()]:
        missing = "*MISSING_VALUE*"
        other, written = drawn.get(title.lower(), [missing] * rows), drawn[title]
        drawn[title.lower()] = [
            first if second == missing else second
            for first, second in zip(other, written, strict=True)
        ]
    drawn["titleCase"] = [str(value != "*MISSING_VALUE*") for value in drawn["User-Agent"]]
    drawn = _drawn(
        _nodes(get_fingerprint_network()), drawn | {"userAgent": drawn["user-agent"]}, rng
    )
    return np.array(
        [_code(drawn[name], part) for name, _, part in (a.partition(".") for a in apis)]
    )


def _named(codes: Codes) -> list[str]:
    return [f"api{column:02d}" for column in range(len(codes))]


def _made_up(name: str, codes: Codes) -> Table:
    return Table(name, _named(codes), codes)


WORKLOADS: dict[str, Callable[[], Table]] = {
    "12x100k": lambda: _made_up(
        "12x100k",
        few_rows(SEED, 100_000, (2, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32), models=4_500),
    ),
    "15x33k": lambda: _made_up(
        "15x33k",
        few_rows(
            SEED + 1, 32_561, (2, 2, 3, 3, 4, 4, 5, 6, 8, 8, 10, 12, 16, 20, 24), models=2_000
        ),
    ),
    "12x200k": lambda: Table("12x200k", list(NETWORK_12), network(SEED + 2, 200_000, NETWORK_12)),
    "20x200k": lambda: Table("20x200k", list(NETWORK_20), network(SEED + 3, 200_000, NETWORK_20)),
    "20x1M": lambda: many_users("20x1M", 1_000_000),
}


def many_users(name: str, rows: int) -> Table:
    """20 correlated columns with Zipf laws."""
    cardinalities = (2, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 50, 80, 120, 250, 500, 1500)
    codes = device_models(
        SEED + 4, rows, (*cardinalities, 3000, 5000), models=4_000, fidelity=(0.82, 0.97)
    )
    return _made_up(name, codes)


def main() -> None:
    for make in WORKLOADS.values():
        table = make()
        distinct = len(np.unique(table.codes, axis=1).T)
        print(table.name, *table.codes.shape, "distinct rows", distinct)


if __name__ == "__main__":
    main()
