"""Users that are followed are those that a reading of everything finds, whatever was stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.monitor import Monitor
from fpmonitor.store.followed import Follower
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from pathlib import Path

WINDOWS = [Window(), Window(source="!one")]


def log(folder: Path, number: int) -> str:
    """Records of a few users at a few times, or at none: they repeat, correct and add to others."""
    rng = np.random.default_rng(number)
    rows: list[str] = []
    for _ in range(int(rng.integers(1, 30))):
        row = {
            "user": f"u{rng.integers(3 + 2 * number)}",
            "api": f"A.{rng.integers(2 + number // 3)}",
            "value": str(rng.integers(3 + number)),
            "source": str(rng.choice(["one", "two via one", "three"])),
        }
        if rng.random() < 0.7:
            row["time"] = f"2026-03-0{rng.integers(1, 8)}T12:00:00Z"
        rows.append(json.dumps(row) + "\n")
    if number == 4:  # more values than a byte can number
        more = [{"user": f"w{i}", "api": "A.0", "value": f"w{i}"} for i in range(300)]
        rows += [json.dumps(row) + "\n" for row in more]
    path = folder / f"{number}.jsonl"
    path.write_text("".join(rows), encoding="utf-8")
    return str(path)


def test_users_who_are_followed_are_those_of_a_reading_of_everything(tmp_path: Path) -> None:
    follower, users = Follower(), set[int]()
    for number in range(7):
        with Monitor(tmp_path / "f.duckdb", create=True) as monitor:
            monitor.ingest([log(tmp_path, number)])
            for window in WINDOWS:
                followed, held = follower.read(monitor.database, window)
                expected, whole = Follower().read(monitor.database, window)
                assert followed == expected
                assert held.users.tolist() == whole.users.tolist()
                assert held.codes.keys() == whole.codes.keys()
                for column, codes in whole.codes.items():
                    assert held.codes[column].tolist() == codes.tolist(), (number, window)
            monitor.follower = follower
            population = monitor.population()
            monitor.follower = None
            assert population.digest == monitor.population().digest
            assert population.users_of_apis() == monitor.population().users_of_apis()
            users.add(population.users)
    assert len(users) > 2
