"""Sketches of tables and databases: words and counts as they are defined, whoever makes them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.cluster.asking import UserPart
from fpmonitor.errors import InputError, StoreError, UnknownNameError
from fpmonitor.monitor import Monitor
from fpmonitor.population.views import View
from fpmonitor.sketch import making
from fpmonitor.sketch.making import SketchPlan, share_level, sketch_population
from fpmonitor.sketch.words import SketchKey, Tally, is_kept
from fpmonitor.store.transforms import Transform
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fpmonitor.sketch.file import Sketch
    from fpmonitor.sketch.words import KeptValues

TOLD = {
    '{"b": 1, "a": [2]}': '{"a":[2],"b":1}',
    "[1, 2]": "[1,2]",
    "x" * 300: "sha256:0d4e2ca9e9cbced7a7a5380eb29e1a37:300",
}


def cell_of(value: Any) -> str:
    """Cell of a value, as `ingest` stores it."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"value\x1f{TOLD.get(str(value), value)}"


def counted(
    frame: pl.DataFrame, key: SketchKey, apis: tuple[str, ...], level: int
) -> dict[int, int]:
    """Users of each kept word, one user after the other."""
    words = {
        api: {value: key.words(api, [cell_of(value)]) for value in frame[api].unique()}
        for api in apis
    }
    found: Counter[int] = Counter()
    for row, users in Counter(frame.select(apis).rows()).items():
        columns = [words[api][value] for api, value in zip(apis, row, strict=True)]
        found[int(key.chained(columns)[0])] += users
    kept = is_kept(np.array([*found], dtype=np.uint64), level)
    return {word: found[word] for word, stays in zip(found, kept, strict=True) if stays}


def held(values: KeptValues) -> dict[int, int]:
    return dict(zip(values.words.tolist(), values.counts.tolist(), strict=True))


@pytest.mark.parametrize(("level", "few"), [(0, 0), (2, 20), (2, 10**6)])
def test_all_users_of_kept_values_are_counted(
    frame: pl.DataFrame,
    table: Path,
    key: SketchKey,
    sketched: Callable[..., Sketch],
    *,
    level: int,
    few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the words of values are looked up, or made row by row."""
    monkeypatch.setattr(making, "_MOST_IN_DICTIONARY", few)
    sketch = sketched(table, level=level)
    assert sketch.users == len(frame)
    for values in sketch.sets:
        assert held(values) == counted(frame, key, values.apis, level)


def test_the_order_of_rows_changes_no_sketch(
    frame: pl.DataFrame, tmp_path: Path, key: SketchKey, sketched: Callable[..., Sketch]
) -> None:
    """Of a sorted table neighbours that are alike are chained once, and count all the same."""
    repeated = frame.head(200).sample(4_000, with_replacement=True, seed=1)
    found = []
    for rows in (repeated, repeated.sort(*frame.columns)):
        path = tmp_path / f"{len(found)}.parquet"
        rows.write_parquet(path)
        found.append(sketched(path, level=0))
    shuffled, in_order = found
    assert shuffled.head == in_order.head
    for values in in_order.sets:
        assert held(values) == counted(repeated, key, values.apis, 0)


def test_a_database_and_a_file_give_the_same_bytes(
    table: Path,
    key: SketchKey,
    sketched: Callable[..., Sketch],
    tmp_path: Path,
) -> None:
    with Monitor(tmp_path / "d.duckdb", create=True, view=View(volatile="raw")) as monitor:
        monitor.ingest(str(table))
        plan = SketchPlan(key=key, sets=(("A",), ("B", "C", "D")), level=1)
        stored = sketch_population(monitor.population(), plan)
    assert stored.head == sketched(table, sets=plan.sets, level=1).head


def test_a_view_keeps_what_it_shows(frame: pl.DataFrame, key: SketchKey, tmp_path: Path) -> None:
    """The word of a changed value is that of what it became, and not of who came first."""
    coarse = View(
        volatile="raw", transforms={"A": Transform(constant="t"), "B": Transform(round=100)}
    )
    plan = SketchPlan(key=key, sets=(("A", "B"),), level=0)
    frame = frame.head(400)
    shown = frame.with_columns(A=pl.lit("t"), B=pl.col("B") // 100 * 100)
    heads = []
    for rows, view in ((frame, coarse), (frame.reverse(), coarse), (shown, View(volatile="raw"))):
        path = tmp_path / f"{len(heads)}.duckdb"
        with Monitor(path, create=True, view=view) as monitor:
            monitor.ingest(rows.select("user", "A", "B"))
            sketch = sketch_population(monitor.population(), plan)
        heads.append(held(sketch.sets[0]))
    assert heads[0] == heads[1] == heads[2]


def test_the_order_of_rows_changes_nothing(
    frame: pl.DataFrame, sketched: Callable[..., Sketch], tmp_path: Path
) -> None:
    """Nor the level: it is the least at which no more values than `entries` are kept."""
    frame.sample(fraction=1, shuffle=True, seed=3).write_parquet(tmp_path / "other.parquet")
    frame.write_parquet(tmp_path / "one.parquet")
    one, other = (sketched(tmp_path / f"{name}.parquet", entries=200) for name in ("one", "other"))
    assert one.head == other.head
    assert all(len(values.words) <= 200 for values in one.sets)
    assert one.planned == 4


def test_a_level_rises_to_the_least_that_keeps_few_enough(key: SketchKey) -> None:
    words = key.words("A", map(str, range(40_000)))
    order = np.random.default_rng(2).permutation(len(words))
    kept = []
    for rows in (words, words[order]):
        tally = Tally(("A",), 1000)
        for block in np.array_split(rows, 7):
            tally.add(block)
            tally.add(block[:10])
        kept.append(tally.kept())
    assert [values.level for values in kept] == [6, 6]
    assert (kept[0].words == kept[1].words).all()
    assert int(is_kept(words, 5).sum()) > 1000 >= len(kept[0].words)
    assert kept[0].counts.sum() >= len(kept[0].words)


def test_the_latest_row_of_a_user_counts_whole(
    frame: pl.DataFrame, table: Path, sketched: Callable[..., Sketch], tmp_path: Path
) -> None:
    old = frame.with_columns(A=pl.lit("old"), B=pl.lit(7, pl.Int64), C=pl.lit(1.0))
    rows = pl.concat(
        [
            frame.with_columns(time=pl.lit(1_772_359_209)),
            old.with_columns(time=pl.lit(1_772_359_208)),
            old.head(50).with_columns(time=pl.lit(None)),
        ]
    )
    rows.sample(fraction=1, shuffle=True, seed=1).write_parquet(tmp_path / "visits.parquet")
    found = sketched(tmp_path / "visits.parquet", user="user", time="time")
    assert found.head == sketched(table).head
    with pytest.raises(InputError, match="rows of 3,000 users instead of one per user"):
        sketched(tmp_path / "visits.parquet", user="user")


def test_parts_by_user_are_all_users_once(
    frame: pl.DataFrame, table: Path, sketched: Callable[..., Sketch]
) -> None:
    parts = [
        sketched(table, user="user", part=UserPart.from_text(text)) for text in ("1/3", "2-3/3")
    ]
    assert sum(part.users for part in parts) == len(frame)
    assert 700 < parts[0].users < 1300


def test_what_cannot_be_kept_is_refused(table: Path, sketched: Callable[..., Sketch]) -> None:
    with pytest.raises(UnknownNameError, match="unknown column 'E'"):
        sketched(table, sets=(("A", "E"),))
    with pytest.raises(UnknownNameError, match="unknown column 'a'"):  # DuckDB would take A for it
        sketched(table, sets=(("a",),))
    with pytest.raises(UnknownNameError, match="unknown column 'User'"):
        sketched(table, user="User")
    with pytest.raises(InputError, match="whose rows are whose"):
        sketched(table, part=UserPart(1, 1, 2))
    with pytest.raises(StoreError, match="refused the statement"):
        sketched("nowhere.parquet")
    with pytest.raises(InputError, match="1 to"):
        sketched(table, sets=((),))
    for text in ("0", "2", "1/3", "-1", "1/0", "0.5", "1/-2"):
        with pytest.raises(InputError, match="not a share"):
            share_level(text)
    for text in ("0/3", "4/3", "3-2/3", "1", "1/100000"):
        with pytest.raises(InputError):
            UserPart.from_text(text)
    assert [share_level(text) for text in ("1", "1/2", "1/1024")] == [0, 1, 10]


def test_commands_make_merge_and_ask(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key, name = str(tmp_path / "key"), str(tmp_path / "{}.sketch")
    assert run(["scale", "sketch", "key", key]) == 0
    made = ["scale", "sketch", "make", "--apis", "C,A", "--share", "1/4", "--key-file", key]
    for part in ("1", "2"):
        of_part = ["--from", str(table), "--user", "user", "--part", f"{part}/2"]
        assert run([*made, *of_part, "-o", name.format(part)]) == 0
    assert run([*made, "--from", str(table), "-o", name.format("whole")]) == 0
    merged = [name.format("2"), name.format("1"), "-o", name.format("all")]
    assert run(["scale", "sketch", "merge", *merged]) == 0
    capsys.readouterr()
    assert run(["scale", "sketch", "exposure", name.format("all"), "--k", "10"]) == 0
    answer = capsys.readouterr().out
    assert '"share": "1/4"' in answer
    assert '"from": "values"' in answer
    infos = []
    for sketch in ("all", "whole"):
        assert run(["scale", "sketch", "info", name.format(sketch)]) == 0
        infos.append(json.loads(capsys.readouterr().out))
    assert infos[0]["sets"] == infos[1]["sets"]
    assert [part["users"] for part in infos[1]["parts"]] == [None]
    assert run(["--for-others", "scale", "sketch", "info", name.format("all")]) == 2
    others = name.format("others")
    none = ["--entries", "0", "--from", str(table), "-o", others]
    assert run(["scale", "sketch", "make", "--apis", "A", "--key-file", key, *none]) == 2
    assert "entries: must be 1 to" in capsys.readouterr().err
    assert run(["--for-others", *made, "--from", str(table), "-o", others]) == 2
    capsys.readouterr()
    assert run([*made, "--from", str(table), "-o", others, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_quiet_says_nothing_of_who_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bots = ({"Navigator.webdriver": True, "Screen.width": i} for i in range(30))
    db = stored(tmp_path, [*bots, *({"Screen.width": i % 7} for i in range(60))])
    key, made = str(tmp_path / "key"), str(tmp_path / "sketch")
    assert run(["scale", "sketch", "key", key]) == 0
    asked = ["scale", "sketch", "make", "--db", db, "--drop-automation", "--apis", "Screen.width"]
    asked += ["--share", "1", "--key-file", key, "-o", made]
    capsys.readouterr()
    assert run(asked) == 0
    assert "look automated are excluded" in capsys.readouterr().err
    assert run([*asked, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_lists_are_kept_as_their_text(sketched: Callable[..., Sketch]) -> None:
    """Of lists, DuckDB has JSON, which is another type than text."""
    lists, texts = (
        sketched(f"SELECT {one} AS l FROM range(300) AS rows (i)", sets=(("l",),), level=0)
        for one in ("[i % 90, 4]", "'[' || i % 90 || ', 4]'")
    )
    assert lists.head == texts.head
    assert len(lists.sets[0].words) == 90


@pytest.mark.parametrize(
    "query",
    [
        "SELECT uuid()::VARCHAR AS A FROM range(3000)",  # few: by their codes
        "SELECT uuid()::VARCHAR AS A FROM range(20000)",  # too many for codes: by their words
        "SELECT i % 7 AS A FROM range(100000) AS r(i) WHERE random() < 0.5",
    ],
)
def test_rows_that_are_others_each_time_are_refused(
    query: str, sketched: Callable[..., Sketch]
) -> None:
    with pytest.raises(InputError, match="other rows each time it is read"):
        sketched(query, sets=(("A",),))


def test_no_answer_of_a_sketch_for_others_tells_few_users_from_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many users, of whom 0 to k - 1 have a rare value together or one each; one key for all."""
    key, sketch = str(tmp_path / "key"), str(tmp_path / "sketch")
    assert run(["scale", "sketch", "key", key]) == 0
    answers = set()
    for planted in (0, 1, 5, 9):
        for rare in ("x", "x{}"):
            values = [i % 20 for i in range(400)]
            texts = [rare.format(i) if i < planted else str(v) for i, v in enumerate(values)]
            pl.DataFrame({"A": texts}).write_parquet(tmp_path / "t.parquet")
            made = ["--from", str(tmp_path / "t.parquet"), "--share", "1", "--key-file", key]
            assert run(["scale", "sketch", "make", "--apis", "A", *made, "-o", sketch, "-q"]) == 0
            capsys.readouterr()
            for form in ("json", "csv", "table"):
                asked = ["scale", "sketch", "exposure", sketch, "--rows-are-users", "--k", "10"]
                assert run(["--for-others", *asked, "--format", form]) == 0
                answers.add((form, *capsys.readouterr()))
            (tmp_path / "sketch").unlink()
    assert len(answers) == 3
