"""Snapshots: the latest value of every API of every user, whatever the order of ingest."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import UndecidableError, UnknownNameError
from fpmonitor.monitor import Monitor
from fpmonitor.population.duckdb import DuckDBSource
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.population import Population
from fpmonitor.population.stored import stored_snapshot
from fpmonitor.population.views import View
from fpmonitor.population.windows import Windows
from fpmonitor.store.checks import users_before
from fpmonitor.store.database import Database
from fpmonitor.store.snapshot import (
    Window,
    read_codes,
    take_snapshot,
)

if TYPE_CHECKING:
    from pathlib import Path


def store(folder: Path, *logs: str, name: str = "x.duckdb") -> Path:
    database = folder / name
    with Monitor(database, create=True) as monitor:
        for i, text in enumerate(logs):
            log = folder / f"{name}-{i}.csv"
            log.write_text(text)
            monitor.ingest([str(log)])
    return database


def latest(database: Path, api: str, window: Window | None = None) -> list[str | None]:
    """Texts of the latest values of an API, absent as None, sorted."""
    with Database(database) as opened:
        snapshot = take_snapshot(opened, window)
        (codes,) = read_codes(opened, snapshot, [api])
        (api_id,) = (row[0] for row in opened.rows("snapshot/apis") if row[1] == api)
        texts = dict(
            opened._connection.execute(
                "SELECT value_id, text FROM value WHERE api_id = ?", [api_id]
            ).fetchall()
        )
    return sorted((texts.get(int(code)) for code in codes), key=str)


def test_the_latest_time_wins_and_not_the_last_line(tmp_path: Path) -> None:
    log = "user,time,a\nu,2026-01-02,new\nu,2026-01-01,old\nw,2026-01-01,x\n"
    assert latest(store(tmp_path, log), "a") == ["new", "x"]


def test_an_earlier_visit_in_a_later_file_does_not_win(tmp_path: Path) -> None:
    database = store(tmp_path, "user,time,a\nu,2026-01-02,new\n", "user,time,a\nu,2026-01-01,old\n")
    assert latest(database, "a") == ["new"]


def test_without_times_the_last_record_wins(tmp_path: Path) -> None:
    assert latest(store(tmp_path, "user,a\nu,1\nu,2\nu,1\n"), "a") == ["1"]
    assert latest(store(tmp_path, "user,a\nu,1\n", "user,a\nu,2\n", name="y.duckdb"), "a") == ["2"]


def test_in_a_batch_too_a_visit_without_a_time_is_before_all_others(tmp_path: Path) -> None:
    """It came after the earliest visit of the batch."""
    log = "user,time,a\nu,2026-01-01,timed\nu,,untimed\n"
    with Monitor(store(tmp_path, log)) as monitor:
        windows = Windows(database=monitor.database, division="batch", window=Window(), view=View())
        [span] = windows.spans()
        seen = windows.population(span, ["a"]).values("a")
    assert [*seen.values()] == ["timed"]


def test_each_api_has_its_own_latest_visit(tmp_path: Path) -> None:
    database = store(tmp_path, "user,time,a,b\nu,2026-01-01,1,1\nu,2026-01-02,2,\n")
    assert latest(database, "a") == ["2"]
    assert latest(database, "b") == ["1"]


def test_a_window_hides_what_is_outside(tmp_path: Path) -> None:
    database = store(tmp_path, "user,time,a\nu,2026-01-01,1\nu,2026-01-03,3\nw,2026-01-05,5\n")
    window = Window(datetime(2026, 1, 1), datetime(2026, 1, 3, tzinfo=UTC))  # noqa: DTZ001 -- UTC by contract
    assert latest(database, "a", window) == ["1"]
    with Database(database) as opened, pytest.raises(UndecidableError):
        take_snapshot(opened, Window(since=datetime(2027, 1, 1)))  # noqa: DTZ001


def test_a_kept_snapshot_is_used_until_the_next_batch(tmp_path: Path) -> None:
    database = store(tmp_path, "user,a\nu,1\n")
    with Database(database) as opened:
        first = take_snapshot(opened)
        assert take_snapshot(opened) == first
    store(tmp_path, "user,a\nw,2\n")
    with Database(database) as opened:
        assert take_snapshot(opened).users == 2
        tables = [row[0] for row in opened._connection.execute("SHOW TABLES").fetchall()]
    assert sum(name.startswith("snapshot_") for name in tables) == 1, "stale ones are dropped"


def test_digest_does_not_depend_on_user_ids_or_order(tmp_path: Path) -> None:
    rows = [f"{value},{value % 3}" for value in range(30)]
    one = "user,a,b\n" + "".join(f"u{i},{row}\n" for i, row in enumerate(rows))
    other = "user,b,a\n" + "".join(
        f"w{i * 7},{row.split(',')[1]},{row.split(',')[0]}\n" for i, row in enumerate(rows[::-1])
    )
    digests = []
    for name, log in (("one", one), ("other", other)):
        with Database(store(tmp_path, log, name=name)) as opened:
            digests.append(take_snapshot(opened).digest)
    assert digests[0] == digests[1]


def test_dropping_missing_keeps_users_with_all_candidates(tmp_path: Path) -> None:
    with Database(store(tmp_path, "user,a,b\nu,1,1\nw,1,\nx,,1\ny,2,2\n")) as opened:
        users = Population(stored_snapshot(opened, Window()))
        assert users.with_all(["a", "b"]).users == 2
        assert users.with_all(["a"]).users == 3
        spectrum = users.spectrum(["a"])
        assert spectrum.users == 4, "absent is a value of its own by default"


def test_no_user_with_all_candidates_is_an_error(tmp_path: Path) -> None:
    with Database(store(tmp_path, "user,a,b\nu,1,\nw,,1\n")) as opened:
        users = Population(stored_snapshot(opened, Window()))
        with pytest.raises(UndecidableError, match="no user"):
            users.with_all(["a", "b"])


def test_an_unknown_api_names_the_nearest(tmp_path: Path) -> None:
    with Database(store(tmp_path, "user,Navigator.userAgent\nu,1\n")) as opened:
        snapshot = take_snapshot(opened)
        with pytest.raises(UnknownNameError, match=r"Navigator\.userAgent"):
            DuckDBSource(opened, snapshot).spectrum(["navigator.userAgent"])


def test_a_user_without_any_observation_is_not_counted(tmp_path: Path) -> None:
    with Database(store(tmp_path, "user,a\nu,1\nw,\n")) as opened:
        assert take_snapshot(opened).users == 1


def test_queries_divide_users_and_keep_values_whole(tmp_path: Path) -> None:
    rows = "".join(f"u{i},{i % 701},{i % 3}\n" for i in range(6000))
    with Database(store(tmp_path, f"user,a,b\n{rows}")) as opened:
        source = DuckDBSource(opened, take_snapshot(opened))
        searched, rest = source.searched_and_rest(1000, 2**63 + 5)
        assert searched.users == 1000  # an audit divides them again by this number
        assert rest.users == 6000 - searched.users
        whole, half = (rest.kept_spectra([["a", "b"]], level)[0] for level in (0, 1))
        assert whole is not None
        assert half is not None
        assert whole.users == rest.users
        assert abs(half.support - whole.support / 2) < 5 * np.sqrt(whole.support / 4)
        assert rest.kept_spectra([["a"]], 40) == [None]


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_duckdb_and_memory_give_the_same_spectra(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    users = data.draw(st.integers(1, 60))
    cells = st.sampled_from(["", "1", "2", "3"])
    rows = [[data.draw(cells) for _ in range(3)] for _ in range(users)]
    log = "user,a,b,c\n" + "".join(f"u{i},{','.join(row)}\n" for i, row in enumerate(rows))
    if not any(cell for row in rows for cell in row):
        return
    with Database(store(tmp_path_factory.mktemp("spectra"), log)) as opened:
        snapshot = take_snapshot(opened)
        apis = data.draw(st.lists(st.sampled_from("abc"), unique=True))
        by_query = DuckDBSource(opened, snapshot).spectrum(apis)
        memory = MemorySource(list("abc"), read_codes(opened, snapshot, list("abc")))
        by_memory = memory.spectrum(apis)
    assert by_query.counts.tolist() == by_memory.counts.tolist()
    assert by_query.values.tolist() == by_memory.values.tolist()
    assert by_query.users == snapshot.users


def test_who_came_before_a_window_is_known_also_where_logs_are_late(tmp_path: Path) -> None:
    head, day = "user,time,a\n", "2026-01-{:02}T12:00:00Z".format
    logs = [
        f"ann,{day(3)},x\nbob,{day(1)},x\ncid,{day(3)},x\n",
        f"dan,{day(3)},x\nann,{day(3)},y\neva,{day(3)},x\n",
        f"dan,{day(1)},x\nfay,{day(2)},x\n",  # late
        f"bob,{day(4)},x\ngus,{day(4)},x\n",
    ]
    path = store(tmp_path, *(head + log for log in logs))
    with Database(path) as database:
        [(of_the_list,)] = database._connection.execute(
            "SELECT max(visit_id) FROM visit WHERE batch_id = 1"
        ).fetchall()
        third, fourth = (
            [
                flags.tolist()
                for flags in users_before(
                    database,
                    Window(
                        datetime(2026, 1, day, tzinfo=UTC), datetime(2026, 1, day + 1, tzinfo=UTC)
                    ),
                    of_the_list,
                    rows=rows,
                )
            ]
            for day, rows in ((3, 4), (4, 2))
        )
    assert third == [[True, True, False, False], [False, False, True, False]]  # ann, cid, dan, eva
    assert fourth == [[True, False], [True, False]]  # bob, gus
