"""What a batch costs that changes one user in a hundred: reading users, verdicts, whole lists.

    python benchmarks/keeps_up.py [--part reading] [--users 1000000] [--apis 20] [--budget 0.05]

prints a line of JSON for each part. The users are those of the table 20x1M of `search_data.py`; the
batch changes half of the share, and as many come in. Times are CPU time.

* `reading`: the users are stored in a database and held in memory, and the batch is stored; then
  what it changed is read (`Follower`), and everything, each until sets can be asked for. The
  digests are compared.
* `sets`: random sets are counted by what changed (`KeptSpectra`) and judged, and counted from
  nothing and judged. All spectra are compared. `tests_ms` is what the tests for the new number of
  users cost, once a batch and not of the ratio.
* `borders`: the lists of a decision are made again (`refreshed`), their sets being counted by what
  changed, and searched from nothing. The sets are compared; both have the same tests, which are
  not of their times.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from search_data import many_users

from fpmonitor.decide.deciding import decide, judging
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.refresh import border_sets, refreshed
from fpmonitor.decide.search import search
from fpmonitor.disclosure import Audience
from fpmonitor.monitor import Monitor
from fpmonitor.policy import UNIVERSE, Policy
from fpmonitor.population.disclosed import DisclosedSource
from fpmonitor.population.kept_spectra import KeptSpectra
from fpmonitor.population.memory import MemorySource
from fpmonitor.question import Question
from fpmonitor.store.followed import Follower

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Codes = NDArray[np.unsignedinteger[Any]]

SEED, K, DELTA = 20261123, 10, 0.05


def milliseconds(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = work()
    return found, round(1000 * (time.process_time() - began), 1)


def random_sets(apis: list[str], number: int) -> list[tuple[str, ...]]:
    """Sets of two to eight APIs, of few values and of many."""
    rng, found = np.random.default_rng(SEED), dict[tuple[str, ...], None]()
    while len(found) < number:
        size = int(rng.integers(2, 9))
        found[tuple(sorted(rng.choice(apis, size, replace=False).tolist()))] = None
    return list(found)


def batch_of(asked: argparse.Namespace) -> tuple[dict[str, Codes], dict[str, Codes], list[int]]:
    """Codes of all users before and after the batch, and the places of those who changed."""
    half = int(asked.users * asked.share / 2)
    table = many_users("users", asked.users + 2 * half)
    changing = np.random.default_rng(SEED).choice(asked.users, half, replace=False)
    before: dict[str, Codes] = {}
    after: dict[str, Codes] = {}
    for api, column in zip(table.apis, table.codes, strict=True):
        codes = column.astype(np.min_scalar_type(int(column.max())))  # as snapshots have them
        before[api] = codes[: asked.users]
        after[api] = codes[: asked.users + half].copy()
        after[api][changing] = codes[asked.users + half :]
    return before, after, [*changing.tolist(), *range(asked.users, asked.users + half)]


def reading(asked: argparse.Namespace) -> dict[str, Any]:
    """Read users after a batch: what it changed, and everything."""
    before, after, changed = batch_of(asked)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log_of(before, range(asked.users)).write_parquet(folder / "users.parquet")
        log_of(after, changed, time="2026-05-01T12:00:00Z").write_parquet(folder / "batch.parquet")
        path, follower, kept = folder / "users.duckdb", Follower(), KeptSpectra()

        def index(follower: Follower | None) -> str:
            with Monitor(path, audience=Audience.OTHERS) as monitor:
                monitor.follower = follower
                users = monitor.population()
                return users.index(
                    Question(K, 10 * asked.users), users.apis, kept_spectra=kept
                ).seal

        def store(log: str) -> None:
            with Monitor(path, create=True) as monitor:
                monitor.ingest([str(folder / f"{log}.parquet")])

        store("users")
        index(follower)
        store("batch")
        followed, following = milliseconds(lambda: index(follower))
        everything, from_nothing = milliseconds(lambda: index(None))
        assert followed == everything
    return {
        "users": len(after["api00"]),
        "apis": len(after),
        "users_changed": len(changed),
        "changes_ms": following,
        "everything_ms": from_nothing,
        "ratio": round(following / from_nothing, 3),
    }


def log_of(codes: dict[str, Codes], users: Iterable[int], **more: str) -> pl.DataFrame:
    places = [*users]
    columns = {f"Api.{api}": pl.Series(held[places]).cast(pl.String) for api, held in codes.items()}
    literals = {name: pl.lit(text) for name, text in more.items()}
    return pl.DataFrame({"user": [f"u{place}" for place in places]} | columns).with_columns(
        **literals
    )


def policy_of(asked: argparse.Namespace, apis: list[str]) -> Policy:
    return Policy(
        k=K,
        population=10 * asked.users,
        budget=asked.budget,
        delta=DELTA,
        candidates=tuple(apis),
    )


def watched_sets(asked: argparse.Namespace) -> dict[str, Any]:
    """Judge sets anew: by what changed, and by counting from nothing."""
    before, after, changed = batch_of(asked)
    apis = [*after]
    sets = random_sets(apis, asked.sets)
    kept = KeptSpectra()
    _, build = milliseconds(lambda: kept.follow(before, sets))
    users, first = len(after[apis[0]]), apis[0]
    policy = policy_of(asked, [first])
    source = MemorySource([first], [before[first]])
    decision = decide(source, Decision.begun(policy, universe=UNIVERSE))
    judge, tests = milliseconds(lambda: judging(decision, users))

    def judged(spectra: dict[tuple[str, ...], Any]) -> list[str]:
        return [judge.verdict(apis, spectrum) for apis, spectrum in spectra.items()]

    followed, follow = milliseconds(lambda: kept.follow(after, sets))
    verdicts, judged_ms = milliseconds(lambda: judged(followed))
    source = MemorySource(apis, list(after.values()))
    anew, counting = milliseconds(lambda: {apis: source.spectrum(apis) for apis in sets})
    for members, spectrum in anew.items():
        same = followed[members]
        assert np.array_equal(spectrum.counts, same.counts), members
        assert np.array_equal(spectrum.values, same.values), members
    return {
        "users": users,
        "apis": len(apis),
        "sets": len(sets),
        "users_changed": len(changed),
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted({*verdicts})},
        "first_count_ms": build,
        "follow_ms": follow,
        "judge_ms": judged_ms,
        "tests_ms": tests,
        "from_nothing_ms": round(counting + judging, 1),
        "ratio": round((follow + judging) / (counting + judging), 3),
    }


def borders(asked: argparse.Namespace) -> dict[str, Any]:
    """Make the lists of a decision again: from those of before, and from nothing."""
    before, after, changed = batch_of(asked)
    apis = [*after][-asked.apis :]
    users = len(after[apis[0]])
    policy = policy_of(asked, apis)
    source = MemorySource(apis, [before[api] for api in apis])
    decision = decide(source, Decision.begun(policy, digest="before", universe=UNIVERSE))
    kept, tests = KeptSpectra(), judging(decision, users)
    _, build = milliseconds(lambda: kept.follow(_only(before, apis), border_sets(decision)))
    source = MemorySource(apis, [after[api] for api in apis])

    def again() -> Decision:
        known = kept.follow(_only(after, apis), border_sets(decision))
        told = DisclosedSource(source, K, known)
        return refreshed(decision, told, tests=tests, seal="after", effort=Effort())

    found, refreshing = milliseconds(again)
    full, searching = milliseconds(
        lambda: search(source, allow=tests.allow, block=tests.block, refute=tests.refute)
    )
    assert [*found.allow] == full.allow
    assert {*found.block, *found.undecided} >= {*full.undecided}
    return {
        "users": users,
        "apis": len(apis),
        "users_changed": len(changed),
        "budget": asked.budget,
        "listed": len(border_sets(decision)),
        "tested_again_or_new": found.evaluated,
        "sets_changed": len({*found.allow} ^ {*decision.allow}),
        "first_count_ms": build,
        "refresh_ms": refreshing,
        "from_nothing_ms": searching,
        "from_nothing_evaluated": full.evaluated,
        "ratio": round(refreshing / searching, 3),
    }


def _only(columns: dict[str, Codes], apis: list[str]) -> dict[str, Codes]:
    return {api: columns[api] for api in apis}


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "reading": reading,
    "sets": watched_sets,
    "borders": borders,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="default: all")
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--apis", type=int, default=20, help="of `borders`, those of most values")
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--budget", type=float, default=0.05, help="of `sets` and `borders`")
    asked = parser.parse_args()
    for part in [asked.part] if asked.part else PARTS:
        print(json.dumps({"part": part, **PARTS[part](asked)}), flush=True)


if __name__ == "__main__":
    main()
