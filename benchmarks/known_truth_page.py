"""The page of known_truth.py and its figures, from the JSON and the text in known_truth.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from svg import Chart

from fpmonitor.policy import DOWN, UP, as_written, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "known-truth.md"
FIGURES = PAGE.with_suffix(".json")
TEXT = HERE / "known_truth.md"
OURS = "fpmonitor"
SHOWN_BUDGET = "0.05"
SHOWN_SETS = ("name, sex, year", "name, sex, year, state")
SHOWN_SIZES = ((100_000, 1_000_000),)
DRAWN = {"names": ("name, sex, year", 100_000), "places": ("name, state", 1_000_000)}
COUNTS = ("asked", "answered", "misses_above", "misses_below", "below_by_a_fifth")
METHODS = (
    *("fpmonitor", "plug-in", "entropy, n / 2^H", "Good-Turing", "Chao", "Pitman-Yor"),
    *("copula average", "fpmonitor --forecast"),
)

ESTIMATES = METHODS[1:-1]  # that answer every question


def percent(share: float | None, away: str = "") -> str:
    """Per cent without the sign; a limit is rounded away from what it limits."""
    if share is None:
        return "–"
    places = 2 if share < 0.0995 else 1
    if away:
        return f"{rounded(100 * as_written(share), away, places=places):f}"
    return f"{100 * share:.{places}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


# ---- Counts of right and wrong ------------------------------------------------------------------


def added(scores: Iterable[dict[str, Any]], method: str) -> dict[str, Any]:
    """Counts of a method over several parts."""
    total: dict[str, Any] = dict.fromkeys(COUNTS, 0) | {"budgets": {}}
    for score in scores:
        found = score[method]
        total["promises"] = found["promises"]
        for name in COUNTS:
            total[name] += found.get(name, 0)
        for budget, verdicts in found["budgets"].items():
            kept = total["budgets"].setdefault(budget, dict.fromkeys(verdicts, 0))
            for name, number in verdicts.items():
                kept[name] += number
    return total


def parts(figures: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Scores by what was drawn from."""
    return {
        "persons": [figures["persons"]["scores"]],
        "tables": [
            scores
            for found in figures["tables"].values()
            for times, scores in found.items()
            if times.isdigit()
        ],
        "made": [scores for times, scores in figures["made"].items() if times.isdigit()],
    }


def methods_of(scores: Sequence[dict[str, Any]]) -> list[str]:
    known = [name for name in METHODS if name in scores[0]]
    return known + sorted(scores[0].keys() - {*known})


def verdicts(drawn: dict[str, list[dict[str, Any]]]) -> str:
    """How often each method allowed wrongly and rightly at a budget of 5 %, by what was drawn."""
    everything = [score for scores in drawn.values() for score in scores]
    head = ["", "limits missed", "far below the truth"]
    for part, scores in drawn.items():
        ours = added(scores, OURS)["budgets"][SHOWN_BUDGET]
        head += [f"{part}: wrong, of {ours['unsafe']:,}", f"right, of {ours['safe']:,}"]
    rows = []
    for method in methods_of(everything):
        total = added(everything, method)
        missed = f"{total['misses_above'] + total['misses_below']:,}"
        far = f"{100 * total['below_by_a_fifth'] / total['answered']:.0f} %"
        row = [f"**{method}**" if method == OURS else method]
        row += [missed if total["promises"] else "–", "–" if method == OURS else far]
        for scores in drawn.values():
            found = added(scores, method)["budgets"][SHOWN_BUDGET]
            row += [f"{found['wrong_allows']:,}", f"{found['right_allows']:,}"]
        rows.append(row)
    return table(head, rows)


def blocks(scores: list[dict[str, Any]]) -> str:
    ours = added(scores, OURS)["budgets"][SHOWN_BUDGET]
    return f"{ours['right_blocks']:,} of {ours['unsafe']:,}"


# ---- The persons --------------------------------------------------------------------------------


def said(entry: dict[str, Any], method: str) -> str:
    lower, estimate, upper = entry["said"].get(method, (None, None, None))
    if method == OURS:
        return f"{percent(lower, DOWN)}–{percent(upper, UP)}"
    return percent(estimate if estimate is not None else upper)


def persons_table(lines: list[dict[str, Any]]) -> str:
    """What each method said, one row for each set, sample and population."""
    everybody = max(entry["population"] for entry in lines)
    sizes = {*SHOWN_SIZES, (10_000_000, everybody)}
    rows = [
        [
            entry["law"],
            f"{entry['users']:,}",
            f"{entry['population']:,}",
            percent(entry["truth"]),
            *(said(entry, method) for method in METHODS),
        ]
        for entry in sorted(lines, key=lambda each: (each["users"], each["population"]))
        if entry["law"] in SHOWN_SETS and (entry["users"], entry["population"]) in sizes
    ]
    rows.sort(key=lambda row: SHOWN_SETS.index(row[0]))
    return table(["of each person, in %", "sample", "population", "truth", *METHODS], rows)


def counted(lines: list[dict[str, Any]]) -> str:
    """Share of the persons who were counted in groups smaller than k, beside `Q(n, k)`."""
    found = {
        entry["law"]: (entry["persons"], entry["truth"])
        for entry in lines
        if entry["persons"] is not None and entry["law"] in SHOWN_SETS
    }
    return "; ".join(
        f"{percent(share)} % by {law} (Q: {percent(truth)} %)"
        for law, (share, truth) in found.items()
    )


def figure(lines: list[dict[str, Any]], law: str, users: int) -> str:
    """Exposure against the population, of one set from samples of one size."""
    kept = [entry for entry in lines if (entry["law"], entry["users"]) == (law, users)]
    kept.sort(key=lambda entry: entry["population"])
    x = [float(entry["population"]) for entry in kept]
    chart = Chart(
        title=f"{law}: exposed, from {users:,} of 325,361,484 persons",
        x_label="population n",
        x_range=(x[0], x[-1]),
        logarithmic=True,
    )
    chart.lines("truth", x, [entry["truth"] for entry in kept])
    limits = [entry["said"][OURS] for entry in kept]
    chart.band("fpmonitor, limits", x, [each[0] for each in limits], [each[2] for each in limits])
    for method in METHODS[1:]:
        ys = [entry["said"].get(method, [None] * 3)[1] for entry in kept]
        if None not in ys:
            chart.lines(method, x, ys, dashed=True)
    return chart.text()


# ---- The page -----------------------------------------------------------------------------------


def fields(figures: dict[str, Any]) -> dict[str, object]:
    lines, scores = figures["persons"]["lines"], parts(figures)
    everything = [score for part in scores.values() for score in part]
    ours = added(everything, OURS)
    wrong = sum(each["wrong_allows"] + each["wrong_blocks"] for each in ours["budgets"].values())
    found: dict[str, object] = {
        "k": figures["k"],
        "asked": f"{ours['asked']:,}",
        "missed": ours["misses_above"] + ours["misses_below"],
        "wrong": wrong,
        "verdicts": f"{3 * ours['asked']:,}",
        "persons_table": persons_table(lines),
        "counted": counted(lines),
        "laws": figures["made"]["laws"],
        "tables_list": "; ".join(
            f"{name} ({entry['rows']:,} rows)" for name, entry in figures["tables"].items()
        ),
    }
    found["allowed"] = verdicts(scores)
    found |= {f"{part}_blocks": blocks(each) for part, each in scores.items()}
    for method in ESTIMATES:
        at_5 = added(everything, method)["budgets"][SHOWN_BUDGET]
        name = method.split(",")[0].replace("-", "_").replace(" ", "_").lower()
        found[f"{name}_wrong"] = f"{at_5['wrong_allows'] / at_5['unsafe']:.0%}".replace("%", " %")
    return found


def written(figures: dict[str, Any]) -> dict[Path, str]:
    """Page and figures, by file."""
    lines = figures["persons"]["lines"]
    text = TEXT.read_text(encoding="utf-8").format_map(fields(figures))
    pages = {PAGE: text}
    for name, (law, users) in DRAWN.items():
        pages[PAGE.with_name(f"known-truth-{name}.svg")] = figure(lines, law, users)
    return pages
