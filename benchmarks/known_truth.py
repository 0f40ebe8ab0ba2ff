"""Limits and forecasts of exposure beside the truth: persons who were counted, tables, made laws.

    python benchmarks/known_truth.py --cache FOLDER               # everything anew: needs npm, pip
    python benchmarks/known_truth.py --only made                  # needs neither
    python benchmarks/known_truth.py --only made --method my.py   # a method of yours beside ours
    python benchmarks/known_truth.py --page                       # page and figures, from the JSON

A method is a file with NAME, PROMISES (whether its `upper` is to hold with probability 1 - delta)
and `answer(sample)`, which returns lower limit, estimate and upper limit, each a share or None.
`known_truth_methods/` holds those of the page. `sample` is a `Sample` below. JSON goes to stdout
and, without a method of yours, into docs/known-truth.json, from which the page is made.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from known_truth_laws import PERSONS, TABLES, Law, made_laws, persons, table_laws
from known_truth_page import FIGURES, written

from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

METHODS = Path(__file__).with_name("known_truth_methods")
SEED = 45
K, DELTA = 10, 0.05
BUDGETS = (0.01, 0.05, 0.1)
ALL_PERSONS = 325_361_484
SIZES = {100_000: 5, 1_000_000: 5, 10_000_000: 2}  # sampled persons, and how many samples
TIMES = (1, 10, 100)  # populations, by the users of the sample
TIMES_OF_PERSONS = (1, 3, 10, 30, 100, 1000)
TABLE_SIZE, TABLE_SAMPLES = 2_000, 2
MADE_SIZES = (1_000, 10_000, 100_000)  # in turns
MADE = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """What a method is shown: users drawn from a law, and the question.

    `counts` int64 (V,), of the values that were seen; `codes` int64 (V, d), their attributes; the
    question is Q(n, k), `population` is n. `cache` is a folder for what a method installs. `law` is
    for ceilings only: whoever looks at it knows the truth.
    """

    counts: NDArray[np.int64]
    codes: NDArray[np.int64]
    k: int
    population: int
    delta: float
    cache: Path
    law: Law

    @property
    def users(self) -> int:
        return self.spectrum.users

    @cached_property
    def spectrum(self) -> CountSpectrum:
        return CountSpectrum.from_counts(self.counts)


def read_method(path: Path) -> ModuleType:
    """A method from its file."""
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), vars(module))
    return module


def read_methods(more: Sequence[Path] = ()) -> list[ModuleType]:
    ours = sorted(path for path in METHODS.glob("*.py") if not path.name.startswith("_"))
    return [read_method(path) for path in (*ours, *more)]


def ask(
    law: Law,
    users: int,
    populations: Iterable[int],
    *,
    samples: int,
    methods: Sequence[ModuleType],
    rng: np.random.Generator,
    cache: Path,
) -> list[dict[str, Any]]:
    """Answers of all methods on the same samples: one entry for each sample and population."""
    populations = list(populations)
    found = []
    truths = {n: law.exposure(K, n) for n in populations}
    for _ in range(samples):
        counts, codes = law.draw(users, rng)
        for n in populations:
            sample = Sample(
                counts=counts, codes=codes, k=K, population=n, delta=DELTA, cache=cache, law=law
            )
            answers, seconds = {}, {}
            for method in methods:
                start = time.perf_counter()
                answers[method.NAME] = method.answer(sample)
                seconds[method.NAME] = time.perf_counter() - start
            found.append(
                {
                    "table": law.table,
                    "law": law.name,
                    "users": users,
                    "population": n,
                    "truth": truths[n],
                    "persons": law.share_of_persons(K) if n == ALL_PERSONS else None,
                    "answers": answers,
                    "seconds": seconds,
                }
            )
    return found


def score(asked: Sequence[dict[str, Any]], method: ModuleType) -> dict[str, Any]:
    """How one method did on some samples."""
    truth = np.array([entry["truth"] for entry in asked])
    lower, estimate, upper = (
        np.array([entry["answers"][method.NAME][i] for entry in asked], dtype=float)
        for i in range(3)
    )
    says = upper if method.PROMISES else estimate
    told, error = ~np.isnan(says), np.abs(estimate - truth)
    scored: dict[str, Any] = {
        "promises": method.PROMISES,
        "asked": len(asked),
        "answered": int(told.sum()),
        "seconds": sum(entry["seconds"][method.NAME] for entry in asked),
    }
    if method.PROMISES:
        floor = np.nan_to_num(lower)
        scored["misses_above"] = int((truth > upper + 1e-12).sum())
        scored["misses_below"] = int((truth < floor - 1e-12).sum())
        scored["width"] = _middle(upper - floor)
    if not np.isnan(estimate).all():
        scored["error"], scored["error_95"] = _middle(error), _middle(error, 0.95)
        scored["below_by_a_fifth"] = int(
            ((truth - estimate > 0.01) & (estimate < 0.8 * truth)).sum()
        )
    scored["budgets"] = {
        str(budget): {
            "safe": int((truth <= budget).sum()),
            "right_allows": int(((truth <= budget) & (says <= budget)).sum()),
            "unsafe": int((truth > budget).sum()),
            "wrong_allows": int(((truth > budget) & (says <= budget)).sum()),
            "right_blocks": int(((truth > budget) & (lower > budget)).sum()),
            "wrong_blocks": int(((truth <= budget) & (lower > budget)).sum()),
        }
        for budget in BUDGETS
    }
    return scored


def _middle(numbers: NDArray[np.float64], quantile: float = 0.5) -> float | None:
    numbers = numbers[~np.isnan(numbers)]
    return round(float(np.quantile(numbers, quantile)), 6) if numbers.size else None


def scores(asked: Sequence[dict[str, Any]], methods: Sequence[ModuleType]) -> dict[str, Any]:
    return {method.NAME: score(asked, method) for method in methods}


def line(asked: Sequence[dict[str, Any]], methods: Sequence[ModuleType]) -> dict[str, Any]:
    """The samples of one law, size and population: what each method said in the middle."""
    first = asked[0]
    said = {
        method.NAME: [
            _middle(np.array([entry["answers"][method.NAME][i] for entry in asked], dtype=float))
            for i in range(3)
        ]
        for method in methods
    }
    kept = {name: first[name] for name in ("law", "users", "population", "truth", "persons")}
    return {**kept, "samples": len(asked), "said": said}


# ---- Parts --------------------------------------------------------------------------------------


def by_question(asked: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for entry in asked:
        question = entry["law"], entry["users"], entry["population"]
        groups.setdefault(question, []).append(entry)
    return list(groups.values())


def populations_of(users: int, most: int = ALL_PERSONS) -> list[int]:
    return sorted({min(users * times, most) for times in TIMES_OF_PERSONS} | {most})


def run_persons(
    laws: Sequence[Law], methods: Sequence[ModuleType], cache: Path, sizes: dict[int, int]
) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    asked: list[dict[str, Any]] = []
    for users, samples in sizes.items():
        for law in laws:
            asked += ask(
                law,
                users,
                populations_of(users),
                samples=samples,
                methods=methods,
                rng=rng,
                cache=cache,
            )
            note(f"{law.name}, {users:,} users")
    lines = [line(entries, methods) for entries in by_question(asked)]
    return {"scores": scores(asked, methods), "lines": lines}


def run_tables(methods: Sequence[ModuleType], cache: Path) -> dict[str, Any]:
    found = {}
    for table, read in TABLES.items():
        rng = np.random.default_rng(SEED)
        frame = read(cache)
        asked: list[dict[str, Any]] = []
        for law in table_laws(table, frame, rng):
            asked += ask(
                law,
                TABLE_SIZE,
                [TABLE_SIZE * times for times in TIMES],
                samples=TABLE_SAMPLES,
                methods=methods,
                rng=rng,
                cache=cache,
            )
        found[table] = {
            "rows": frame.height,
            "columns": frame.width,
            **{str(times): scores(_of(asked, times), methods) for times in TIMES},
        }
        note(table)
    return found


def run_made(methods: Sequence[ModuleType], cache: Path, number: int = MADE) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    asked: list[dict[str, Any]] = []
    for i, law in enumerate(made_laws(number, rng)):
        users = MADE_SIZES[i // 5 % len(MADE_SIZES)]
        populations = [users * times for times in TIMES]
        asked += ask(law, users, populations, samples=1, methods=methods, rng=rng, cache=cache)
    note(f"{number} made laws")
    return {
        "laws": number,
        **{str(times): scores(_of(asked, times), methods) for times in TIMES},
    }


def _of(asked: Iterable[dict[str, Any]], times: int) -> list[dict[str, Any]]:
    return [entry for entry in asked if entry["population"] == entry["users"] * times]


def note(text: str) -> None:
    print(f"{time.process_time():6.0f} s  {text}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, help="folder for the packages")
    parser.add_argument("--only", choices=(PERSONS, "tables", "made"), help="one part")
    parser.add_argument("--method", type=Path, action="append", default=[], help="a method's file")
    parser.add_argument("--page", action="store_true", help="only the page, from the JSON")
    options = parser.parse_args()
    if not options.page:
        methods = read_methods(options.method)
        with tempfile.TemporaryDirectory() as scratch:
            cache = options.cache or Path(scratch)
            cache.mkdir(parents=True, exist_ok=True)
            parts = {
                PERSONS: lambda: run_persons(persons(cache), methods, cache, SIZES),
                "tables": lambda: run_tables(methods, cache),
                "made": lambda: run_made(methods, cache),
            }
            asked = [options.only] if options.only else list(parts)
            found = {part: parts[part]() for part in asked}
        print(json.dumps(found, indent=1))
        if options.method:
            return
        known = json.loads(FIGURES.read_text(encoding="utf-8")) if options.only else {}
        text = json.dumps({"k": K, "delta": DELTA, **known, **found}, separators=(",", ":"))
        FIGURES.write_text(text.replace("}},", "}},\n") + "\n", encoding="utf-8")
    for path, text in written(json.loads(FIGURES.read_text(encoding="utf-8"))).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
