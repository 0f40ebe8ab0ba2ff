"""Python as people write it: `fp.read`, answers of one type, decisions that write what follows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

import fpmonitor as fp

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 600


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [f"u{i}" for i in range(ROWS)],
            "userAgent": [
                f"Mozilla/5.0 rv:{i % 4}" if i > 20 else f"only {i}" for i in range(ROWS)
            ],
            "screenWidth": [[390, 1280, 1920][i % 3] for i in range(ROWS)],
            "hardwareConcurrency": [[4, 8][i % 2] for i in range(ROWS)],
        }
    )


@pytest.fixture(scope="module")
def log(frame: pl.DataFrame) -> fp.Log:
    return fp.read(frame, user="id")


def test_about_twelve_names_are_public() -> None:
    assert len(fp.__all__) <= 12
    # Those that went are still found where they were.
    for name in ("Question", "SampleModel", "UndecidableError", "CountSpectrum", "Window"):
        assert getattr(fp, name).__name__ == name


def test_the_answers_are_those_of_the_monitor(log: fp.Log) -> None:
    found = log.exposure([["userAgent", "screenWidth"]], n=100_000)
    again = log.monitor.exposure([["userAgent", "screenWidth"]], k=10, population=100_000)
    assert found == again
    assert {line.api for line in log.apis()} == set(log.monitor.population().apis)
    alone = log.exposure()
    assert next(report.apis for report in alone) == ("userAgent",)
    assert len(alone) == 3


@pytest.mark.parametrize("how", ["pandas", "arrow", "csv", "path"])
def test_whatever_holds_a_table_is_read(frame: pl.DataFrame, how: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    frame.write_csv(path)
    if how == "pandas":
        logs: Any = pytest.importorskip("pandas").read_csv(path)
    else:
        logs = {"arrow": frame.to_arrow(), "csv": str(path), "path": path}[how]
    log = fp.read(logs, user="id")
    assert log.monitor.population().users == ROWS
    log.close()


def test_a_database_without_a_name_is_gone_and_one_with_a_name_stays(
    frame: pl.DataFrame, tmp_path: Path
) -> None:
    log = fp.read(frame, user="id")
    file = log.monitor.database.path
    assert file.exists()
    log.close()
    assert not file.exists()
    fp.read(frame, user="id", db=tmp_path / "kept.duckdb").close()
    assert fp.Log(tmp_path / "kept.duckdb").apis()


def test_answers_are_one_type_with_rows_frames_html_and_a_figure(log: fp.Log) -> None:
    single = log.monitor.rank(k=10)
    for answer in (log.apis(), log.exposure(), log.exposure([["userAgent"]])[0], single):
        assert isinstance(answer, fp.Result)
        assert answer.to_polars().height == len(answer.rows()) > 0
        assert "<table" in answer._repr_html_()
    assert "<svg" in log.exposure().plot()._repr_svg_()
    assert "<svg" in single.plot()._repr_svg_()
    with pytest.raises(fp.InputError, match="no figure"):
        log.apis().plot()
    assert fp.Answers().rows() == []
    pandas = pytest.importorskip("pandas")
    assert isinstance(log.apis().to_pandas(), pandas.DataFrame)


def test_a_decision_writes_what_follows(log: fp.Log, tmp_path: Path) -> None:
    decision = log.decide(["userAgent", "screenWidth", "hardwareConcurrency"])
    assert decision.policy.k == 10
    assert decision.policy.population == ROWS
    text = decision.export("ublock", tmp_path / "list.txt")
    assert (tmp_path / "list.txt").read_text() == text
    assert decision.export("uBlock") == text
    decision.export("webextension", tmp_path / "extension")
    assert json.loads((tmp_path / "extension" / "manifest.json").read_text())
    answer = decision.gate(["screenWidth"], ["hardwareConcurrency"])
    assert answer["verdict"] == decision.verdict(["screenWidth", "hardwareConcurrency"])[0]
    decision.report(tmp_path / "report.html")
    assert "<html" in (tmp_path / "report.html").read_text()
    with pytest.raises(fp.InputError, match="unknown exporter"):
        decision.export("nothing")


def test_a_report_needs_the_users(frame: pl.DataFrame, tmp_path: Path) -> None:
    log = fp.read(frame.head(400), user="id")
    decision = log.decide(["screenWidth"])
    other = fp.read(frame.head(400), user="id")
    del log
    decision.report(tmp_path / "report.html", other)
    from fpmonitor.log import _READ  # noqa: PLC0415

    assert decision.digest not in _READ
    with pytest.raises(fp.InputError, match=r"name it: decision\.report"):
        decision.report(tmp_path / "again.html")


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda log: log.exposure("userAgent"), r"did you mean \[\['userAgent'\]\]\?"),
        (
            lambda log: log.exposure(["userAgent", "screenWidth"]),
            r"\[\['userAgent', 'screenWidth'\]\]",
        ),
        (lambda log: log.monitor.exposure("userAgent"), r"did you mean \[\['userAgent'\]\]"),
        (lambda log: log.decide("userAgent"), r"did you mean \['userAgent'\]\?"),
        (lambda log: log.decide(["userAgent"]).gate("userAgent"), r"have: did you mean"),
        (lambda log: log.decide(["userAgent"]).gate([], "userAgent"), r"want: did you mean"),
    ],
)
def test_a_name_where_a_list_is_meant_is_refused(log: fp.Log, ask: Any, meant: str) -> None:
    with pytest.raises(fp.InputError, match=meant):
        ask(log)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda frame, _: fp.read(frame.drop("id")),
        lambda _, log: log.exposure([["userAgent"]], forecast=True, given=["screenWidth"], n=-1),
        lambda _, log: log.decide(budget=7),
        lambda _, log: log.exposure([["screenWidth"]], missing="drop"),
        lambda _, log: log.exposure([["nowhere"]]),
    ],
)
def test_errors_speak_of_arguments_and_not_of_options(
    frame: pl.DataFrame, log: fp.Log, wrong: Any
) -> None:
    with pytest.raises((fp.FpmonitorError, TypeError)) as found:
        wrong(frame, log)
    assert "--" not in str(found.value)


def test_a_column_that_no_file_can_hold_is_named_as_one() -> None:
    """Polars panics at it, which is no `Exception`."""
    table = duckdb.sql("SELECT 1 AS id, INTERVAL 3 DAYS AS span")
    with pytest.raises(fp.InputError, match="not a frame that can be stored"):
        fp.read(table)
