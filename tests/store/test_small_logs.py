"""Small logs are stored several at a time, and come out as if one after the other."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor
from fpmonitor.store import ingest, small_logs
from fpmonitor.store.names import known_names
from fpmonitor.store.upkeep import forget_user

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = random.Random(7)


def visit(log: int, user: int, **more: Any) -> dict[str, Any]:
    return {
        "user": f"u{log}-{user}",
        "time": f"2026-03-{1 + log % 20:02d}T{user:02d}:00:00Z",
        "platform": RNG.choice(["a", "b"]),
        "height": RNG.choice([600, 601.5, 900]),
    } | more


def text_of(*records: object, end: str = "\n", last: str = "\n") -> str:
    return end.join(json.dumps(one, ensure_ascii=False) for one in records) + last


def visits(log: int, **more: Any) -> str:
    return text_of(*(visit(log, user, **more) for user in range(12)))


NUMBERS = iter(range(10**6))
# What a log may hold that others should not notice; each is put among logs that are alike.
ODD: dict[str, Callable[[], str]] = {
    "alike": lambda: visits(next(NUMBERS)),
    "no last line end": lambda: visits(next(NUMBERS)).rstrip("\n"),
    "blank lines": lambda: "\n\n" + visits(next(NUMBERS)).replace("\n", "\n \n") + "\n",
    "line ends of Windows": lambda: visits(next(NUMBERS)).replace("\n", "\r\n"),
    "a record twice": lambda: text_of(*[visit(n := next(NUMBERS), 1)] * 2, visit(n, 2)),
    "a visit with two values": lambda: text_of(
        visit(n := next(NUMBERS), 1) | {"height": 1}, visit(n, 1) | {"height": 2}
    ),
    "visits of an earlier log": lambda: text_of(*(visit(0, user, height=7) for user in range(12))),
    "a record of an earlier log": lambda: text_of(visit(next(NUMBERS), 3), visit(1, 4)),
    "a broken line": lambda: visits(next(NUMBERS)) + "{broken\n",
    "a user is missing": lambda: visits(next(NUMBERS)) + '{"platform": "a", "height": 600}\n',
    "a time that is none": lambda: text_of(visit(next(NUMBERS), 5, time="noon")),
    "another API": lambda: visits(next(NUMBERS), cores=4),
    "an object": lambda: visits(next(NUMBERS), screen={"x": 1, "y": 2}),
    "an object that is null": lambda: visits(next(NUMBERS), screen=None),
    "an object with other leaves": lambda: visits(next(NUMBERS), screen={"x": 1}),
    "null": lambda: visits(next(NUMBERS), platform=None),
    "spaces": lambda: visits(next(NUMBERS)).replace('", ', '" ,  '),
    "a long log": lambda: text_of(
        *({"user": f"l{user}", "api": "platform", "value": "a"} for user in range(9))
    ),
    "a table": lambda: "user,platform,height\n" + "".join(f"t{user},a,1\n" for user in range(9)),
    "a forgotten user": lambda: text_of(visit(next(NUMBERS), 6) | {"user": "gone"}, visit(1, 40)),
    "a member of one record": lambda: visits(next(NUMBERS)) + text_of(visit(2, 41, extra="e")),
    "members that some records lack": lambda: text_of(
        *(visit(n := next(NUMBERS), user) for user in range(5)),
        {name: value for name, value in visit(n, 7).items() if name != "height"},
        visit(n, 8) | {"height": None},
        visit(n, 9) | {"list": [1, {"a": 2}]},
    ),
    "no API": lambda: text_of({"user": f"n{next(NUMBERS)}", "time": "2026-03-01T00:00:00Z"}),
    "numbers and strings": lambda: text_of(
        visit(n := next(NUMBERS), 1) | {"height": "600"},
        visit(n, 2) | {"height": 600.0},
        visit(n, 3) | {"height": "6e2"},
        visit(n, 4) | {"height": True},
    ),
    "a source": lambda: visits(next(NUMBERS), source="library"),
    "a time that some records lack": lambda: text_of(
        visit(n := next(NUMBERS), 1), visit(n, 2) | {"time": None}
    ),
    "a column that looks like an id": lambda: text_of(
        *(visit(n := next(NUMBERS), user) | {"sessionId": f"{n}-{user}"} for user in range(12))
    ),
    "attributes": lambda: text_of(
        {"user": f"a{next(NUMBERS)}", "attributes": {"platform": "a", "height": 1}}
    ),
    "upper case": lambda: visits(next(NUMBERS), Platform="a"),
    "umlauts": lambda: visits(next(NUMBERS), platform="ä€😀"),
    "not UTF-8": lambda: visits(next(NUMBERS), platform="\udce4"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of all kinds; the same content twice, next to each other and far apart."""
    folder = tmp_path_factory.mktemp("logs")
    names = [*(["alike"] * 4), *ODD, "alike", "alike", *[*ODD][::6]]
    texts = [ODD[name]() for name in names]
    texts += [texts[3], texts[3], visits(next(NUMBERS)), texts[-1]]
    for number, text in enumerate(texts):
        path = folder / f"{number:03d}.jsonl"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return folder


def content_of(monitor: Monitor) -> list[Any]:
    """All that is stored, by name instead of by number."""
    fetch = monitor.database._fetch
    numbers = {
        (api, value): (name, status, text)
        for api, value, name, status, text in fetch(
            "SELECT api_id, value_id, name, status, text FROM value JOIN api USING (api_id)"
        )
    }
    seen: dict[int, list[Any]] = {}
    for row, api, value in fetch("SELECT visit_id, api_id, value_id FROM observation"):
        seen.setdefault(row, []).append(numbers[api, value])
    users = {
        user: rank
        for rank, (user,) in enumerate(fetch("FROM (SELECT user_id FROM user) ORDER BY 1"))
    }
    visits = fetch("SELECT visit_id, user_id, time, source_id, batch_id FROM visit ORDER BY 1")
    return [
        *((users[user], *rest, sorted(seen[row], key=str)) for row, user, *rest in visits),
        *(
            [line for line in batch.to_json().items() if line[0] != "seconds"]
            for batch in monitor.batches()
        ),
        *map(str, monitor.rejects(most=10_000)),
    ]


def store_all(database: Path, folder: Path) -> tuple[list[Any], list[Any]]:
    """Store files as a watch does; return what is stored, and what was said of each file."""
    said: list[Any] = []
    with Monitor(database, create=True) as monitor:
        forget_user(monitor.database, "gone")
        rest = sorted(map(str, folder.iterdir()))
        while rest:
            stored = ingest.ingest_files(monitor.database, tuple(rest), column_map=ColumnMap())
            try:
                for report in (report for reports in stored for report in reports):
                    corrects = (dict(report.corrects), dict(report.corrected_users))
                    said.append(({**report.to_json(), "seconds": 0}, corrects, report.reason))
                    del rest[0]
            except InputError as error:
                said.append(str(error))
                del rest[0]
        return content_of(monitor), said


@pytest.fixture(scope="module")
def one_by_one(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Any], list[Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_TOGETHER", 1)
        return store_all(tmp_path_factory.mktemp("one by one") / "db", folder)


@pytest.mark.parametrize("together", [64, 3])
def test_logs_that_are_stored_together_are_stored_as_if_one_after_the_other(
    folder: Path,
    one_by_one: tuple[list[Any], list[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    together: int,
) -> None:
    monkeypatch.setattr(ingest, "_TOGETHER", together)
    found = store_all(tmp_path / "db", folder)
    assert len(found[1]) == len(list(folder.iterdir()))
    assert any(isinstance(line, str) for line in found[1])  # one was refused
    assert any(corrects[0] for _, corrects, _ in (one for one in found[1] if len(one) == 3))
    assert found == one_by_one
    # Again, all of them add nothing.
    again, _ = store_all(tmp_path / "db", folder)
    assert again == found[0]
    assert run(["db", "verify", "--db", str(tmp_path / "db")]) == 0


def test_small_logs_share_what_a_transaction_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (tmp_path / f"{number}.jsonl").write_text(visits(number), encoding="utf-8")
    statements: list[str] = []
    execute = Monitor(tmp_path / "other", create=True).database.__class__._execute

    def counted(self: Any, text: str, values: dict[str, Any] | None = None) -> None:
        statements.append(text)
        execute(self, text, values)

    with Monitor(tmp_path / "db", create=True) as monitor:
        monkeypatch.setattr("fpmonitor.store.database.Database._execute", counted)
        reports = monitor.ingest(str(tmp_path / "*.jsonl"))
    assert [report.stored for report in reports] == [12] * 40
    assert len(statements) < 100  # 36 for each


@pytest.mark.parametrize("moment", ["is_small", "_marks_of_head"])
def test_a_log_that_vanishes_while_others_are_read_is_refused_and_keeps_none_before_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    files = [folder / f"{number}.jsonl" for number in range(5)]
    for number, file in enumerate(files):
        file.write_text(visits(number), encoding="utf-8")
    function, calls = getattr(small_logs, moment), []

    def called(*given: Any, **named: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            files[2].unlink()
        return function(*given, **named)

    for module in (ingest, small_logs):
        monkeypatch.setattr(module, moment, called, raising=False)
    stored: list[str] = []
    with Monitor(tmp_path / "db", create=True) as monitor:
        found = ingest.ingest_files(monitor.database, map(str, files), column_map=ColumnMap())
        with pytest.raises(InputError, match=r"2\.jsonl: cannot be read"):
            stored.extend(report.source for reports in found for report in reports)
    assert stored == [str(file) for file in files[:2]]


@pytest.mark.parametrize("logs", [2, 1], ids=["together", "alone"])
def test_small_logs_are_read_by_names_with_the_spaces_of_a_header(
    tmp_path: Path, logs: int
) -> None:
    folder, said, plan = (tmp_path / name for name in ("logs", "said.toml", "plan.toml"))
    folder.mkdir()
    for log in range(logs):
        (folder / f"{log}.jsonl").write_text(visits(log, page="start", threads=4))
    said.write_text('ignore = [" page"]\n[apis]\n" threads" = "Navigator.hardwareConcurrency"\n')
    told = ["ingest", str(folder), "--columns", str(said)]
    assert run([*told, "--plan", str(plan)]) == 0
    assert run([*told, "--db", str(tmp_path / "x.duckdb")]) == 0
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert "page" not in monitor.population().apis
        assert known_names(monitor.database)["threads"] == "Navigator.hardwareConcurrency"
    planned = ColumnMap.from_toml(plan)
    assert "page" in planned.ignore
    assert planned.apis["threads"] == "Navigator.hardwareConcurrency"
    assert not any(name != name.strip() for name in planned.named())
