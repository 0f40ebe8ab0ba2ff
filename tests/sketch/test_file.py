"""Files of sketches: merges in any order give the same bytes, and what is no sketch is refused."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.answers.sketch import report_sketch
from fpmonitor.cluster.asking import UserPart
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, PolicyError, UnknownNameError
from fpmonitor.question import Question
from fpmonitor.render.sketches import sketch_exposures
from fpmonitor.sketch.file import Sketch, read_sketch, write_sketch
from fpmonitor.sketch.merge import merge_sketches
from fpmonitor.sketch.words import SketchKey, Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEAD = "fpmonitor.sketch"


@pytest.fixture(scope="module")
def parts(table: Path, sketched: Callable[..., Sketch]) -> list[Sketch]:
    """Sketches of three parts, whose levels differ from that of all."""
    texts = ("1-2/16", "3-7/16", "8-16/16")
    found = [
        sketched(table, entries=150, user="user", part=UserPart.from_text(text)) for text in texts
    ]
    assert len({sketch.planned for sketch in found}) > 1
    return found


def bytes_of(sketch: Sketch, path: Path) -> bytes:
    write_sketch(sketch, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_sketch(path).head == sketch.head
    return path.read_bytes()


def merged(*sketches: Sketch, disjoint: bool = False) -> Sketch:
    return merge_sketches(((f"s{i}", s) for i, s in enumerate(sketches)), disjoint=disjoint)


def test_merges_in_any_order_and_grouping_give_the_same_bytes(
    parts: list[Sketch], table: Path, sketched: Callable[..., Sketch], tmp_path: Path
) -> None:
    path = tmp_path / "s"
    found = {bytes_of(merged(*order), path) for order in permutations(parts)}
    found |= {bytes_of(merged(a, merged(b, c)), path) for a, b, c in permutations(parts)}
    assert len(found) == 1
    together, whole = merged(*parts), sketched(table, entries=150)
    assert together.users == whole.users
    for one, other in zip(together.sets, whole.sets, strict=True):
        assert one.level == other.level
        assert one.words.tolist() == other.words.tolist()
        assert one.counts.tolist() == other.counts.tolist()


def test_what_would_count_users_twice_is_refused(
    parts: list[Sketch], table: Path, sketched: Callable[..., Sketch]
) -> None:
    with pytest.raises(InputError, match="is in both s0 and s1"):
        merged(parts[0], parts[0], disjoint=True)
    with pytest.raises(InputError, match="is in both s0 and s1"):
        merged(merged(parts[0], parts[1]), merged(parts[1], parts[2]))
    other = sketched(table, entries=150, user="user", part=UserPart(2, 4, 16))
    with pytest.raises(InputError, match="may overlap"):
        merged(parts[0], other)
    with pytest.raises(InputError, match="may overlap"):
        merged(parts[0], sketched(table, entries=150, user="user", part=UserPart(3, 3, 4)))
    with pytest.raises(InputError, match="may overlap"):
        merged(parts[0], sketched(table, entries=150))
    assert merged(parts[0], other, disjoint=True).users == parts[0].users + other.users


def test_sketches_that_do_not_fit_are_refused(table: Path, sketched: Callable[..., Sketch]) -> None:
    def part(place: int, **more: Any) -> Sketch:
        return sketched(table, user="user", part=UserPart(place, place, 2), **more)

    one = part(1)
    for reason, other in {
        "different keys": part(2, other_key=SketchKey(bytes(32))),
        "other sets": part(2, sets=(("A",),)),
        "other numbers of values": part(2, entries=10),
    }.items():
        with pytest.raises(InputError, match=reason):
            merged(one, other)
    higher = merged(one, part(2, level=4))
    assert {values.level for values in higher.sets} == {4}
    with pytest.raises(InputError, match="no sketches"):
        merged()


def changed(path: Path, head: dict[str, Any] | None = None, **columns: Any) -> None:
    """Write a sketch anew, with another head or other columns."""
    rows = pl.read_parquet(path)
    kept = head or json.loads(pl.read_parquet_metadata(path)[HEAD])
    rows = rows.with_columns(**columns)
    rows.write_parquet(path, metadata={HEAD: json.dumps(kept)})


def head_with(path: Path, **members: Any) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)[HEAD])
    for one in head["sets"]:
        one |= {name: members[name] for name in members.keys() & one.keys()}
    return head | {name: members[name] for name in members.keys() & head.keys()}


HOSTILE = {
    "another version": {"version": 2},
    "another function": {"function": "murmur"},
    "level": {"level": -1},  # a share above 1
    "share 0": {"level": 64},
    "no user": {"users": 0},
    "fewer users than their values have": {"users": 5},
    "key": {"key": "key"},
    "kept": {"kept": 1},
    "parts": {"parts": []},
    "digest": {"digest": "00" * 32},
    "view": {"view": "other"},
    "entries": {"entries": 0},
    "member": {"sets": [{"apis": "A", "level": 2, "kept": 3}]},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_head_that_no_sketch_has_is_refused(
    parts: list[Sketch], tmp_path: Path, what: str
) -> None:
    path = tmp_path / "s"
    write_sketch(parts[0], path)
    changed(path, head_with(path, **HOSTILE[what]))
    with pytest.raises(InputError):
        read_sketch(path)


def test_rows_that_no_sketch_has_are_refused(parts: list[Sketch], tmp_path: Path) -> None:
    path = tmp_path / "s"
    words, users = pl.col("word"), pl.col("users")
    for columns in (
        {"word": words + 1},
        {"word": words.reverse()},
        {"word": pl.lit(2**64 - 1, pl.UInt64)},
        {"users": users + 1},
        {"users": -users},
        {"users": pl.lit(2**62)},
        {"users": pl.lit(None, pl.Int64)},
        {"users": users.cast(pl.Float64)},
        {"set": pl.lit(0, pl.UInt32)},
        {"set": pl.lit("a")},
        {"set": pl.lit([1])},
    ):
        write_sketch(parts[0], path)
        changed(path, **columns)
        with pytest.raises(InputError):
            read_sketch(path)


def test_what_is_cut_short_or_is_no_sketch_is_refused(parts: list[Sketch], tmp_path: Path) -> None:
    path = tmp_path / "s"
    write_sketch(parts[0], path)
    content = path.read_bytes()
    for other in (content[:-1], content[: len(content) // 2], b"", b"PAR1", b"{}"):
        path.write_bytes(other)
        with pytest.raises(InputError, match="not a sketch"):
            read_sketch(path)
    pl.DataFrame({"word": [0] * 100_000}).write_parquet(path, metadata={HEAD: "{}"})
    with pytest.raises(InputError, match="not a sketch"):
        read_sketch(path)
    path.write_bytes(content)
    path.chmod(0o644)
    with pytest.raises(InputError, match="others may read"):
        read_sketch(path)
    with pytest.raises(InputError, match="No such file"):
        read_sketch(tmp_path / "none")


def test_no_row_is_read_of_a_column_of_long_texts(parts: list[Sketch], tmp_path: Path) -> None:
    """A text that a small file holds once would be made anew in each of its rows."""
    path = tmp_path / "s"
    write_sketch(parts[0], path)
    long = pl.lit("x" * 100_000)
    rows = pl.DataFrame({"set": range(2000), "users": 1}).with_columns(word=long)
    rows.write_parquet(path, metadata={HEAD: parts[0].head.decode()})
    assert path.stat().st_size < 20_000
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="types of the columns"):
            read_sketch(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_sketches_of_other_views_do_not_merge(parts: list[Sketch]) -> None:
    with pytest.raises(InputError, match="look at values in different ways"):
        merged(parts[0], replace(parts[1], view="volatile shared"))


def test_a_level_that_one_user_raised_is_not_told_to_others() -> None:
    reports, levels = [], set()
    for words in ([1 << 56] * 100, [1 << 56] * 99 + [3]):
        tally = Tally(("A",), 1)
        tally.add(np.array(words, np.uint64))
        kept = tally.kept(7)
        sketch = Sketch(key="0" * 16, users=100, entries=1, view="", sets=(kept,))
        assert sketch.planned == 7
        [report] = report_sketch(sketch, Question(10), audience=Audience.OTHERS)
        reports.append(report.to_json())
        assert sketch_exposures([report]).tables[0].rows[0][1:] == (None,) * 5
        levels.add(report_sketch(sketch, Question(10))[0].level)
    assert len(levels) == 2
    assert reports[0] == reports[1]


def test_others_are_told_of_k_exposed_users_or_nothing(
    table: Path, sketched: Callable[..., Sketch]
) -> None:
    sketch = sketched(table, sets=(("A", "B"), ("D",)), level=1)
    question = Question(10)
    owner = {report.apis: report for report in report_sketch(sketch, question)}
    others = report_sketch(sketch, question, audience=Audience.OTHERS)
    for report in others:
        if report.apis == ("D",):  # whose values have hundreds of users each
            assert report.suppressed
            assert report.kept_values is report.upper is report.lower is report.estimate is None
        else:
            assert report == owner[report.apis]
            assert 0 < report.lower <= report.upper <= 1
    with pytest.raises(PolicyError, match="at least k"):
        report_sketch(sketch, Question(4000))
    with pytest.raises(UnknownNameError):
        report_sketch(sketch, question, [("A", "D")])
