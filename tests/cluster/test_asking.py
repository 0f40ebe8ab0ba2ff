"""One statement for a console, whose answer decides: the same verdict as of the users' rows."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
import sqlglot

from fpmonitor.cli import run as command
from fpmonitor.cluster.answered import AnsweredSets
from fpmonitor.cluster.asking import DIALECTS, Asked, all_sets, statement_of
from fpmonitor.disclosure import Audience, disclosed_spectra
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.warehouse import SpectraMonitor
from tests.cluster import warehouses
from tests.stored import looked_at_by_an_earlier_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GOLDEN = Path(__file__).parent / "asked"
START = datetime(2026, 3, 1)  # noqa: DTZ001 -- a column without a zone
# Names that a statement without quotes, or with those of another dialect, would misread.
HOSTILE = (
    "Screen.width",
    'say "hi"',
    "ünï ☃",
    "back`tick",
    "a; DROP TABLE visits --",
    "c0",
    "it's",
)
ODD = (*HOSTILE, "person", "back\\slash")


def hostile_visits(rows: int = 600, seed: int = 5) -> pl.DataFrame:
    """Visits with ties, doubles, late rows, nulls, NaN, unicode, and rows that name nobody."""
    rng = random.Random(seed)
    texts = [None, "", "a", "b", "ä", "☃ snow", 'q"uote', "it's", "back\\slash", "A", " a", "a "]
    columns: dict[str, list[Any]] = {name: [] for name in ("id", "seen", *ODD)}
    for _ in range(rows):
        user = rng.choice([None, "", *(f"u{rng.randrange(300)}" for _ in range(30))])
        columns["id"].append(user)
        late = rng.choice([None, *range(6)])
        columns["seen"].append(None if late is None else START + timedelta(hours=late))
        for place, name in enumerate(ODD):
            drawn: Any = rng.choice(texts[: 3 + place])
            if place == 0:
                drawn = rng.choice([None, 2**63 - 1, 2**53 + 1, 2**53, 0])
            elif place == 1:
                drawn = rng.choice([None, float("nan"), 0.1, 1e300, 5.0])
            elif place == 2:
                drawn = rng.choice([None, True, False])
            columns[name].append(drawn)
    kinds = dict.fromkeys(("id", *ODD), pl.String)
    kinds |= {ODD[0]: pl.Int64, ODD[1]: pl.Float64, ODD[2]: pl.Boolean, "seen": pl.Datetime("us")}
    frame = pl.DataFrame(columns, {name: kinds[name] for name in columns})
    return pl.concat([frame, frame.head(40)])  # the same rows twice


def latest(frame: pl.DataFrame, apis: Sequence[str]) -> list[tuple[Any, ...]]:
    """The latest row of each user, whole; of equal times that with the greatest texts."""

    def text(value: Any) -> str:
        # no two numbers of `hostile_visits` are ordered otherwise by engines than by these texts
        return str(value).lower() if isinstance(value, bool) else str(value)

    found: dict[str, tuple[Any, ...]] = {}
    for row in frame.rows(named=True):
        if not row["id"]:
            continue
        values = tuple(None if row[api] != row[api] else row[api] for api in apis)
        order = (
            row["seen"] is not None,
            row["seen"] or START,
            *((value is not None, text(value).encode()) for value in values),
        )
        if row["id"] not in found or order > found[row["id"]][0]:
            found[row["id"]] = (order, values)
    return [values for _, values in found.values()]


def spectra_by_hand(
    people: Sequence[tuple[Any, ...]], apis: Sequence[str], sets: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], Counter[tuple[int, int]]]:
    """Set -> (lacking, size) -> users."""
    found = {}
    for members in sets:
        places = [apis.index(api) for api in members]
        tuples = Counter(tuple(row[place] for place in places) for row in people)
        users: Counter[tuple[int, int]] = Counter()
        for values, size in tuples.items():
            users[int(None in values), size] += size
        found[tuple(members)] = users
    return found


def answered(text: str) -> dict[tuple[str, ...], Counter[tuple[int, int]]]:
    found: dict[tuple[str, ...], Counter[tuple[int, int]]] = defaultdict(Counter)
    for line in csv.DictReader(io.StringIO(text)):
        apis = json.loads(line["apis"])
        if apis:
            assert line["smallest"] == line["largest"]
            found[tuple(apis)][int(line["lacking"]), int(line["largest"])] += int(line["users"])
    return dict(found)


@pytest.mark.each
def test_a_warehouse_counts_the_latest_row_of_each_user_as_by_hand(
    house: warehouses.House,
) -> None:
    frame, apis = hostile_visits(), sorted(ODD)
    sets = [*all_sets(apis[:4]), tuple(apis[3:]), ("c0", "person")]
    asked = Asked(
        table=house.put(frame), apis=tuple(apis), dialect=house.dialect, user="id", time="seen"
    )
    answer = house.answer(statement_of(asked, sets))
    people = latest(frame, apis)
    wanted = spectra_by_hand(people, apis, [*((api,) for api in apis), *sets, tuple(apis)])
    assert answered(answer) == wanted
    answers = AnsweredSets()
    answers.add(answer.encode(), "answer")
    nameless = frame.filter(pl.col("id").is_null() | (pl.col("id") == "")).height
    assert (answers.users, answers.rows) == (len(people), (frame.height - nameless, nameless))


@pytest.mark.each
def test_a_mask_tells_what_others_are_told_and_no_group_of_few(house: warehouses.House) -> None:
    frame, apis, k = hostile_visits(900), sorted(HOSTILE), 10
    asked = Asked(
        table=house.put(frame),
        apis=tuple(apis),
        dialect=house.dialect,
        user="id",
        time="seen",
        mask=k,
    )
    text = house.answer(statement_of(asked, all_sets(apis[:4])))
    answers = AnsweredSets()
    answers.add(text.encode(), "answer")
    hand = spectra_by_hand(latest(frame, apis), apis, list(answers.sets))
    for members, groups in answers.sets.items():
        sizes = [size for (_, size), users in hand[members].items() for _ in range(users // size)]
        spectrum = CountSpectrum.from_counts(sizes)
        few = spectrum.users_below(k)
        assert all(one.users >= k for one in groups if one.smallest >= k)
        small = sum(one.users for one in groups if one.smallest < k)
        told = disclosed_spectra(spectrum, k, Audience.OTHERS)
        if few >= k:
            assert small == few
        else:  # the same whether nobody is in a small group, or k - 1 are
            assert small == told.most.users_below(k)
        assert sum(one.users for one in groups) == spectrum.users


def test_a_column_is_asked_for_whatever_it_is_called() -> None:
    names = ("asked_table", "{here}")
    for dialect in DIALECTS:
        text = statement_of(Asked(table="shop.visits", apis=names, dialect=dialect), [])
        quote = "`" if "`" in text else '"'
        assert text.count("shop.visits") == 1
        assert all(f"v.{quote}{name}{quote}" in text for name in names)


@pytest.mark.each
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_statement_is_the_golden_one_of_its_dialect_and_parses_there(dialect: str) -> None:
    asked = Asked(
        table="shop.visits",
        apis=tuple(sorted(ODD)),
        dialect=dialect,
        user="id",
        time="seen",
        mask=10,
    )
    text = statement_of(asked, [("c0", "it's")])
    path = GOLDEN / f"{dialect}.sql"
    if os.environ.get("FPMONITOR_RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    [tree] = filter(None, sqlglot.parse(text, read=dialect))
    names = {column.name for column in tree.find_all(sqlglot.exp.Column)}
    # BigQuery has no columns with points: sqlglot reads there what is in a structure.
    assert names >= {name for name in ODD if dialect != "bigquery" or "." not in name}


def run(*words: object) -> int:
    return command([str(word) for word in words])


@cache
def plain_visits(apis: int, users: int = 4000) -> pl.DataFrame:
    rng = random.Random(apis)
    models = [[rng.randrange(2 + 3 * place) for place in range(apis)] for _ in range(60)]
    rows = []
    for user in range(users):
        values = list(models[min(rng.randrange(60), rng.randrange(60))])
        values[rng.randrange(apis)] = rng.randrange(4)
        rows.append([f"u{user}", *(f"v{value}" for value in values)])
    return pl.DataFrame(rows, ["id", *(f"x{place:02d}" for place in range(apis))], orient="row")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verdicts(path: Path) -> Mapping[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: content[name] for name in ("allow", "block", "undecided", "recommended")}


@pytest.mark.parametrize("mask", [(), ("--mask", 10)])
def test_one_query_in_a_console_gives_the_verdict_of_the_database(
    folder: Path, mask: tuple[object, ...]
) -> None:
    frame = plain_visits(6)
    frame.write_parquet("visits.parquet")
    candidates = ",".join(frame.columns[1:])
    asked = ("--from", "visits", "--user", "id", "--candidates", candidates, "--dialect", "duckdb")
    assert run("scale", "sql", *asked, *mask, "-o", "ask.sql") == 0
    answer = warehouses.in_duckdb((folder / "ask.sql").read_text(encoding="utf-8"), frame)
    (folder / "answer.csv").write_text(answer, encoding="utf-8")
    question = ("--budget", "5%", "-n", 100_000, "--quiet")
    assert run("decide", "--spectra", "answer.csv", *question, "-o", "told.json") == 0
    assert run("ingest", "visits.parquet", "--user", "id", "--db", "x.duckdb") == 0
    looked_at_by_an_earlier_version("x.duckdb")
    assert run("decide", "--db", "x.duckdb", *question, "-o", "known.json") == 0
    told_sets, known_sets = verdicts(folder / "told.json"), verdicts(folder / "known.json")
    if not mask:
        assert told_sets == known_sets
    for apis in told_sets["allow"]:  # a mask proves less, and nothing else
        assert any({*apis} <= {*larger} for larger in known_sets["allow"])
    for apis in told_sets["block"]:
        assert any({*apis} >= {*smaller} for smaller in known_sets["block"])
    assert run("audit", "certificate", "told.json", "--spectra", "answer.csv") in {0, 3}
    assert run("exposure", "--spectra", "answer.csv", "x00,x01", "-o", "e.json") == 0
    [told] = json.loads((folder / "e.json").read_text(encoding="utf-8"))
    assert run("exposure", "--db", "x.duckdb", "x00,x01", "-o", "e.json") == 0
    [known] = json.loads((folder / "e.json").read_text(encoding="utf-8"))
    same = ("empirical", "users") if mask else ("empirical", "lower", "upper", "plug_in", "values")
    assert told["lower"] <= known["lower"] <= known["upper"] <= told["upper"]
    if not told["suppressed"] or not mask:
        assert [told[name] for name in same] == [known[name] for name in same]


@pytest.mark.long
def test_rounds_end_in_the_decision_that_all_sets_at_once_give(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = plain_visits(9)
    candidates = ",".join(frame.columns[1:])
    asked = ("--from", "visits", "--user", "id", "--candidates", candidates, "--dialect", "duckdb")
    assert run("scale", "sql", *asked) == 2  # too many sets at once
    assert run("scale", "sql", *asked, "--to", "asks") == 0
    assert run("scale", "sql", *asked, "--to", "asks") == 2  # it holds a question
    decide = ("decide", "--spectra", "asks", "--budget", "5%", "-n", 100_000, "-o", "d.json")
    rounds = 0
    while (code := run(*decide)) == 3:
        rounds += 1
        statement = folder / "asks" / f"{rounds}.sql"
        assert str(Path("asks") / f"{rounds}.sql") in capsys.readouterr().err
        answer = warehouses.in_duckdb(statement.read_text(encoding="utf-8"), frame)
        (folder / "asks" / f"{rounds}.csv").write_text(answer, encoding="utf-8")
        assert not (folder / "d.json").exists()  # no decision rests on a guess
    assert code == 0
    assert rounds <= 6
    frame.write_parquet("visits.parquet")
    assert run("ingest", "visits.parquet", "--user", "id", "--db", "x.duckdb") == 0
    looked_at_by_an_earlier_version("x.duckdb")
    assert run("decide", "--db", "x.duckdb", "--budget", "5%", "-n", 100_000, "-o", "e.json") == 0
    assert verdicts(folder / "d.json") == verdicts(folder / "e.json")


def answer_of(frame: pl.DataFrame, **asked: Any) -> str:
    apis = tuple(sorted(set(frame.columns) - {"id", "seen"}))
    question = Asked(table="visits", apis=apis, dialect="duckdb", **asked)
    return warehouses.in_duckdb(statement_of(question, all_sets(apis)), frame)


@cache
def whole_answer() -> str:
    return answer_of(plain_visits(3), user="id")


def test_consoles_write_csv_in_their_own_ways() -> None:
    text = whole_answer()
    known = AnsweredSets()
    known.add(text.encode(), "answer")
    rows = list(csv.reader(io.StringIO(text)))
    upper = [[name.upper() for name in rows[0]], *rows[1:]]
    whole = [rows[0], *([a, *(f"{int(n)}.000" for n in numbers)] for a, *numbers in rows[1:])]
    numbered = [["", *rows[0]], *([str(i), *row] for i, row in enumerate(rows[1:]))]
    for table, separator, ending in (
        (upper, ",", "\r\n"),
        (whole, ";", "\n"),
        (numbered, "\t", "\n"),
        ([*rows, *rows], ",", "\n"),  # an answer twice in one file
    ):
        written = io.StringIO()
        csv.writer(written, delimiter=separator, lineterminator=ending).writerows(table)
        other = AnsweredSets()
        if table[len(rows) :]:
            with pytest.raises(ValueError, match="not a whole answer"):
                other.add(written.getvalue().encode(), "answer")
            continue
        other.add(b"\xef\xbb\xbf" + written.getvalue().encode(), "answer")
        assert other == known


@pytest.mark.each
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[: len(text) // 2], "answer"),
        (lambda text: "\n".join(text.splitlines()[:1]), "not a whole answer"),
        (lambda text: "\n".join(text.splitlines()[:-3]), "answer|counted"),
        (lambda text: text.replace('"[""x00""]",0', '"[""x00""]",7', 1), "not an answer"),
        (lambda text: text + '"[""x00""]",0,0,0,0\n', "not an answer"),  # groups of nobody
        (lambda text: text.replace(",0,", ",-1,", 1), "whole number"),
        (lambda text: text.replace(",0,", ",1e400,", 1), "whole number"),
        (lambda text: text.replace('"[""x00""]"', "x00", 1), "which columns"),
        (lambda _: "<html>session expired</html>", "no answer"),
        (lambda _: "", "no answer"),
        (lambda _: "\x00\x01", "no answer|not CSV"),
    ],
)
def test_what_is_no_whole_answer_is_refused(change: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        AnsweredSets().add(change(whole_answer()).encode(), "answer")


def test_users_twice_without_a_time_and_tables_that_change_are_refused() -> None:
    frame = plain_visits(3)
    with pytest.raises(ValueError, match="--time"):
        AnsweredSets().add(
            answer_of(pl.concat([frame, frame.head(9)]), user="id").encode(), "answer"
        )
    answers = AnsweredSets()
    answers.add(whole_answer().encode(), "answer")
    with pytest.raises(ValueError, match="the table has changed"):
        answers.add(answer_of(frame.head(3000), user="id").encode(), "answer")
    other = frame.with_columns(pl.col("x00").reverse())
    with pytest.raises(ValueError, match="the table has changed"):
        answers.add(answer_of(other, user="id").encode(), "answer")


def test_what_needs_rows_is_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.csv").write_text(answer_of(plain_visits(3), user="id"), encoding="utf-8")
    (folder / "t.toml").write_text('["x00"]\nround = 10\n', encoding="utf-8")
    for words in (
        ("exposure", "x00", "--given", "x01"),
        ("exposure", "--missing", "drop"),
        ("exposure", "--since", "2026-01-01"),
        ("exposure", "--drop-automation"),
        ("exposure", "--what-if", "t.toml"),
        ("decide", "--budget", "5%", "--search-users", "1000"),
        ("decide", "--budget", "5%", "--cluster", "x00"),
        ("decide", "--budget", "5%", "--engine", "memory"),
        ("decide", "--budget", "5%", "--candidates", "x00,nothing"),
        ("exposure", "x00,x01,x09"),
    ):
        assert run(*words, "--spectra", "a.csv") in {2, 3}, words
        told = capsys.readouterr().err
        assert "Traceback" not in told, words


@pytest.mark.long
def test_users_who_lack_values_count_as_exposed_where_that_is_asked(folder: Path) -> None:
    frame = plain_visits(4).with_columns(
        x01=pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise(pl.col("x01"))
    )
    (folder / "a.csv").write_text(answer_of(frame, user="id"), encoding="utf-8")
    frame.write_parquet("visits.parquet")
    assert run("ingest", "visits.parquet", "--user", "id", "--db", "x.duckdb") == 0
    looked_at_by_an_earlier_version("x.duckdb")
    found = []
    for users in (("--spectra", "a.csv"), ("--db", "x.duckdb")):
        words = ("exposure", "x00,x01", *users, "--missing", "exposed", "-o", "e.json")
        assert run(*words) == 0
        [report] = json.loads((folder / "e.json").read_text(encoding="utf-8"))
        found.append({name: report[name] for name in ("empirical", "lower", "upper", "users")})
    assert found[0] == found[1]


def test_a_guess_is_never_an_answer(folder: Path) -> None:
    """Sets that nobody answered are asked for, whatever was guessed of them before."""
    frame = plain_visits(9)
    candidates = ",".join(frame.columns[1:])
    asked = ("--from", "visits", "--user", "id", "--candidates", candidates, "--dialect", "duckdb")
    assert run("scale", "sql", *asked, "--to", "asks") == 0
    text = (folder / "asks" / "1.sql").read_text(encoding="utf-8")
    (folder / "asks" / "1.csv").write_text(warehouses.in_duckdb(text, frame), encoding="utf-8")
    with SpectraMonitor([folder / "asks"]) as monitor:
        source = monitor.population().source(frame.columns[1:5])
        with pytest.raises(Exception, match="not answered yet"):
            monitor.settled(lambda: source.spectrum(frame.columns[1:5]), is_whole=lambda _: True)
        with pytest.raises(Exception, match="not answered yet"):
            source.spectrum(frame.columns[1:5])


def asked_of_a_table(columns: int) -> tuple[str, ...]:
    """Put a table of visits into `house.duckdb`; the words that ask about all of its columns."""
    frame = plain_visits(columns)
    with duckdb.connect("house.duckdb") as connection:
        for text in warehouses.table_statements(frame, "duckdb"):
            connection.execute(text)
    candidates = ",".join(frame.columns[1:])
    return ("--from", "visits", "--user", "id", "--candidates", candidates, "--dialect", "duckdb")


@pytest.mark.long  # test_engines.py asks all rounds of smaller tables, of each engine
def test_a_connection_asks_all_rounds_by_itself(folder: Path) -> None:
    assert run("scale", "sql", *asked_of_a_table(10), "--to", "asks") == 0
    question = ("--budget", "5%", "-n", 100_000)
    at = ("--spectra", "asks", "--engine", "duckdb:///house.duckdb")
    assert run("decide", *at, *question, "-o", "d.json") == 0
    assert run("decide", "--spectra", "asks", *question, "-o", "e.json") == 0  # from the answers
    assert verdicts(folder / "d.json") == verdicts(folder / "e.json")


def test_an_address_that_is_no_engine_is_refused_and_its_password_not_shown(
    folder: Path,  # noqa: ARG001 -- where it is
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("scale", "sql", *asked_of_a_table(3), "--to", "more") == 0
    question = ("--budget", "5%", "-n", 100_000)
    for address, says in (
        ("duckdb:///nothing.duckdb", "no database of DuckDB"),
        ("mysql://localhost/x", "not an engine"),
        ("postgresql://me:secret@127.0.0.1:1/x", "others could read"),
        ("postgresql+psycopg://me@127.0.0.1:1/x", "asks in the SQL of duckdb|not installed"),
    ):
        capsys.readouterr()
        assert run("decide", "--spectra", "more", "--engine", address, *question) == 2
        told = capsys.readouterr().err
        assert re.search(says, told), told
        assert "secret" not in told


@pytest.mark.each
@pytest.mark.parametrize(
    "address", ["postgresql+psycopg://me:secret@127.0.0.1:1/x", "nonsense", "mysql://localhost/x"]
)
def test_the_warehouse_of_the_environment_is_no_question_of_a_database_file(
    folder: Path,
    address: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FPMONITOR_ENGINE", address)
    frame = plain_visits(2)
    frame.write_csv(folder / "visits.csv")
    assert run("ingest", "visits.csv", "--user", "id", "--db", "x.duckdb") == 0
    for asked in (["exposure", frame.columns[1]], ["decide", "--budget", "50%", "-o", "d.json"]):
        assert run(*asked, "--db", "x.duckdb") in {0, 3}
    assert verdicts(folder / "d.json")
    assert run("scale", "sketch", "key", "sketch.key") == 0
    made = ("scale", "sketch", "make", "--apis", frame.columns[1], "--key-file", "sketch.key")
    assert run(*made, "--db", "x.duckdb", "-o", "x.sketch") == 0
    capsys.readouterr()
    assert run("scale", "fetch", "--from", "visits", "--db", "y.duckdb") == 2
    assert "secret" not in capsys.readouterr().err


@pytest.mark.warehouse
def test_a_table_in_postgres_is_decided_by_a_console_and_by_a_connection(
    folder: Path,
    postgres: warehouses.Postgres,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("psycopg")
    frame = plain_visits(5)
    postgres.put(frame)
    candidates = ",".join(frame.columns[1:])
    asked = ("scale", "sql", "--from", "visits", "--user", "id", "--candidates", candidates)
    assert run(*asked, "--dialect", "postgres", "-o", "ask.sql") == 0
    answer = postgres.psql("--csv", given=(folder / "ask.sql").read_text(encoding="utf-8"))
    (folder / "answer.csv").write_text(answer, encoding="utf-8")
    question = ("--budget", "5%", "-n", 100_000)
    assert run("decide", "--spectra", "answer.csv", *question, "-o", "d.json") == 0
    assert run(*asked, "--dialect", "postgres", "--to", "asks") == 0
    monkeypatch.setenv("FPMONITOR_ENGINE", postgres.address)
    assert run("decide", "--spectra", "asks", *question, "-o", "e.json") == 0
    assert verdicts(folder / "d.json") == verdicts(folder / "e.json")
    assert run(*asked, "--dialect", "postgres", "--to", "others") == 0
    other = postgres.address.replace("analyst@", "other:secret@")
    monkeypatch.setenv("FPMONITOR_ENGINE", other)
    capsys.readouterr()
    assert run("decide", "--spectra", "others", *question) == 2
    told = capsys.readouterr().err
    assert "does not answer" in told
    assert "secret" not in told


def test_rows_that_name_nobody_are_no_users_unless_that_is_said(folder: Path) -> None:
    (folder / "a.csv").write_text(answer_of(plain_visits(3).drop("id")), encoding="utf-8")
    assert run("exposure", "x00", "--spectra", "a.csv") == 2
    assert run("exposure", "x00", "--spectra", "a.csv", "--rows-are-users") == 0


@pytest.mark.parametrize(
    "table",
    [
        "visits v",
        "a, b",
        "a; DROP TABLE b",
        "a WHERE x",
        "",
        "SELECT FROM FROM",
        "SELECT 1; SELECT 2",
    ],
)
def test_what_is_not_one_table_or_query_is_refused(table: str) -> None:
    with pytest.raises(ValueError, match="--from"):
        statement_of(Asked(table=table, apis=("a",), dialect="postgres"), [])


@pytest.mark.parametrize(
    "table", ["visits", "(SELECT * FROM visits)", "SELECT * FROM visits -- all\n;"]
)
def test_a_table_may_be_a_query(table: str) -> None:
    asked = Asked(table=table, apis=("x00",), dialect="duckdb", user="id")
    answers = AnsweredSets()
    answers.add(warehouses.in_duckdb(statement_of(asked, []), plain_visits(2)).encode(), "answer")
    assert answers.users == 4000


def test_a_column_that_nobody_has_is_one_value(folder: Path) -> None:
    frame = plain_visits(3).with_columns(x01=pl.lit(None, pl.String))
    (folder / "a.csv").write_text(answer_of(frame, user="id"), encoding="utf-8")
    assert run("exposure", "x01", "--spectra", "a.csv", "-o", "e.json") == 0
    [report] = json.loads((folder / "e.json").read_text(encoding="utf-8"))
    assert (report["values"], report["empirical"]) == (1, 0)
    with SpectraMonitor([folder / "a.csv"]) as monitor:
        assert [*monitor.population().snapshot.values("x01")] == [0]
        assert len(monitor.population().snapshot.values("x00")) > 1
    assert run("decide", "--spectra", "a.csv", "--budget", "5%") == 0
