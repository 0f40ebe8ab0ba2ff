"""Randomised answers: planned for an ask, drawn by users, and told apart again by the curator."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
import re
import secrets
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

from fpmonitor.cli import run as main
from fpmonitor.decide.decision import Decision, PartsKnown
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.ldp.planner import plan_api
from fpmonitor.monitor import Monitor
from fpmonitor.private.client import AnsweredRequests, randomised, reports_for, seal_answers
from fpmonitor.private.decided import decision_of
from fpmonitor.private.folder import make_role
from fpmonitor.private.keys import SecretKeys, open_message
from fpmonitor.private.knowledge import Knowledge
from fpmonitor.private.randomised import (
    estimate,
    mechanism_of,
    plan_randomisation,
    randomisation_of,
    randomised_ask,
)
from fpmonitor.private.selection import SETTINGS, select_values
from fpmonitor.private.status import AskStatus, RoleStatus, reconciled, spent
from fpmonitor.private.study import (
    MECHANISMS,
    UNARY,
    CollectionRequest,
    Randomisation,
    RedactionRule,
    Study,
    first_ask,
)
from fpmonitor.private.wire import decode_uploads, encode_batch
from fpmonitor.spectrum import CountSpectrum
from tests.piloted import perform

if TYPE_CHECKING:
    from fpmonitor.private.folder import RoleFolder
    from fpmonitor.private.study import MechanismName

PAGE = (Path(__file__).parents[2] / "docs/ldp-collect.md").read_text(encoding="utf-8")
PAGE_COMMANDS = PAGE.partition("```sh\n")[2].partition("```")[0].splitlines()
LAW = {"=a": 0.5, "=b": 0.3, "=c": 0.12, "=d": 0.05, "=e": 0.02, "=f": 0.01}
LISTED = ("=a", "=b", "=c", "redacted")


def study_of(**terms: Any) -> Study:
    return Study(
        **({"name": "t", "apis": ("x",), "population": 5000, "k": 20, "budget": 0.1} | terms)
    )


def ask_with(mechanism: MechanismName, epsilon: float, study: Study) -> CollectionRequest:
    plan = Randomisation(
        mechanism=mechanism, epsilon=epsilon, values=LISTED,
        hash_range=3 if mechanism == "lh" else None,
    )  # fmt: skip
    return randomised_ask(study, {"x": plan}, epoch=1)


def counts_of(ask: CollectionRequest, users: int, seed: int) -> Counter[tuple[str, ...]]:
    """What the curator counts when users of the law answer."""
    rng = random.Random(seed)
    held = rng.choices(list(LAW), list(LAW.values()), k=users)
    return Counter((randomised(token, ask.randomise["x"], rng),) for token in held)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_estimates_are_unbiased_and_limits_hold_in_repeated_collections(
    mechanism: MechanismName, check_collections: Any
) -> None:
    study = study_of()
    ask = ask_with(mechanism, 1.5, study)
    truth = [0.5, 0.3, 0.12, 0.08]
    exposed = statistical_exposure(np.array(list(LAW.values())), k=20, population=5000)
    runs = [
        estimate(study, ask, ("x",), counts_of(ask, 1500, seed), delta=0.2) for seed in range(40)
    ]
    check_collections(runs, truth, exposed)
    assert np.mean([run.upper for run in runs]) < 0.6
    assert all(run.users == 1500 for run in runs)


def test_the_rest_counts_as_one_group_from_below_and_as_exposed_from_above() -> None:
    """With no randomisation worth the name, the limits are those two readings of the rest."""
    study = study_of(k=60)
    ask = ask_with("grr", 30.0, study)
    counts = {("=a",): 500_000, ("=b",): 300_000, ("=c",): 120_000, ("redacted",): 80_000}
    found = estimate(study, ask, ("x",), counts, delta=0.05)
    assert found.lower < 1e-3
    assert 0.08 < found.upper < 0.09
    truth = statistical_exposure(np.array(list(LAW.values())), k=60, population=5000)
    assert found.lower < truth < found.upper
    assert truth > 0.005


def test_values_too_long_for_a_report_are_listed_and_told_apart_by_their_digests() -> None:
    study = study_of(report_bytes=60)
    long, other = "=" + "v" * 80, "=" + "w" * 80
    _, plan = plan_randomisation(
        "x", {long: 600, other: 400}, study=study, users=100_000, accuracy=0.05
    )
    assert plan is not None
    assert [value[0] for value in plan.values] == ["#", "#", "r"]
    ask = randomised_ask(study, {"x": replace(plan, epsilon=3.0)}, epoch=1)
    rng = random.Random(1)
    held = [long] * 600 + [other] * 400
    counts = Counter(reports_for(study, ask, {"x": token}, rng)[0][1] for token in held)
    found = estimate(study, ask, ("x",), counts, delta=0.05)
    assert found.values[0].lower < 0.6 < found.values[0].upper
    assert found.values[1].lower < 0.4 < found.values[1].upper


def test_what_is_no_randomised_answer_is_refused() -> None:
    study = study_of(k=2)
    ask = ask_with("grr", 1.0, study)
    with pytest.raises(InputError, match="does not randomise y"):
        estimate(study, ask, ("y",), {("=a",): 10}, delta=0.05)
    with pytest.raises(InputError, match="does not randomise x"):
        estimate(study, first_ask(study), ("x",), {("=a",): 10}, delta=0.05)
    with pytest.raises(InputError, match="not a report") as refused:
        estimate(study, ask, ("x",), {("=secret",): 10}, delta=0.05)
    assert "secret" not in str(refused.value)
    wrong: dict[MechanismName, tuple[str, ...]] = {
        "oue": ("=010", "=01012", "0101x", "=a", "=01010", "absent"),
        "lh": ("=0123456789abcdef.3", "=0123456789abcdef", "=0123456789ABCDEF.1", "=a"),
    }
    for mechanism, tokens in wrong.items():
        for token in tokens:
            with pytest.raises(InputError, match="not a report"):
                estimate(study, ask_with(mechanism, 1.0, study), ("x",), {(token,): 10}, delta=0.05)
    covered = replace(ask, redact={"x": RedactionRule(keep=frozenset({"=a"}))})
    with pytest.raises(InputError, match="redacts"):
        estimate(study, covered, ("x",), {("=a",): 10}, delta=0.05)
    with pytest.raises(UndecidableError, match="fewer than k"):
        estimate(study, ask, ("x",), {("=a",): 1}, delta=0.05)


def test_a_plan_lists_no_value_of_fewer_than_k_users() -> None:
    study = study_of(k=20)
    tokens = {"=a": 5000, "=b": 3000, "absent": 100, "=rare": 19, "redacted": 400}
    plan, randomisation = plan_randomisation("x", tokens, study=study, users=500_000, accuracy=0.05)
    assert randomisation is not None
    assert randomisation.values == ("=a", "=b", "absent", "redacted")
    assert (plan.values, plan.mechanism, plan.epsilon) == (
        4, randomisation.mechanism, randomisation.epsilon,
    )  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_foreseen_accuracy_is_what_the_answers_have(mechanism: MechanismName) -> None:
    study = study_of()
    tokens = {token: round(10_000 * share) for token, share in LAW.items()}
    listed = {token: tokens[token] for token in ("=a", "=b", "=c")}
    foreseen = plan_api(
        "x", CountSpectrum.from_counts(list(listed.values())), rest=800, users=4000, k=20,
        population=5000, accuracy=0.12, delta=0.05, mechanisms=[mechanism],
    )  # fmt: skip
    plan = randomisation_of(foreseen, LISTED)
    assert plan is not None
    ask = randomised_ask(study, {"x": plan}, epoch=1)
    gaps = []
    for seed in range(10):
        found = estimate(study, ask, ("x",), counts_of(ask, 4000, seed), delta=0.05)
        gaps.append((found.upper - found.lower) / 2)
    assert foreseen.accuracy is not None
    assert foreseen.accuracy <= 0.12
    assert np.mean(gaps) == pytest.approx(foreseen.accuracy, rel=0.15)


def test_too_few_users_leave_an_api_unplanned() -> None:
    study = study_of()
    tokens = {"=a": 5000, "=b": 3000}
    plan, randomisation = plan_randomisation("x", tokens, study=study, users=10, accuracy=0.01)
    assert plan.mechanism is None
    assert randomisation is None
    with pytest.raises(UndecidableError, match="no value"):
        plan_randomisation("x", {"=a": 19}, study=study, users=10, accuracy=0.01)


def test_a_plan_needs_the_values_that_it_was_made_for() -> None:
    spectrum = CountSpectrum.from_counts([5000, 3000, 40])
    plan = plan_api("x", spectrum, users=10**6, k=20, population=5000, accuracy=0.05, delta=0.05)
    assert randomisation_of(plan, ("=a", "=b", "redacted")) is not None
    with pytest.raises(InputError, match="planned for 3 values"):
        randomisation_of(plan, ("=a", "redacted"))


def test_reports_of_bits_are_planned_only_where_a_message_has_room_for_them() -> None:
    tokens = {f"={value}": 1000 for value in range(40)}
    found = {}
    for report_bytes in (1024, 60):
        study = study_of(report_bytes=report_bytes)
        plan, _ = plan_randomisation("x", tokens, study=study, users=20_000, accuracy=0.002)
        found[report_bytes] = plan.mechanism
    assert found[1024] in UNARY
    assert found[60] in {"grr", "lh"}


def collected(
    folder: Path,
    study: Study,
    ask: CollectionRequest,
    answers: list[dict[str, str]],
    made: RoleFolder | None = None,
) -> Path:
    """Folder of a curator to whom users sent their sealed answers."""
    made = made or make_role(folder / "curator", "curator")
    (made.path / "study.json").write_bytes(study.to_bytes())
    shuffler, curator = SecretKeys.generate("shuffler"), made.ring
    recipient = made.open_recipient()
    recipient.add_ask(ask)
    frames = []
    for tokens in answers:
        keys = {"shuffler": shuffler.keys[0].config, "recipient": curator.keys[0].config}
        for upload in seal_answers(
            study, ask, tokens, answered=AnsweredRequests(), rng=random.Random(len(frames)), **keys
        ):
            inner = open_message(upload.sealed, shuffler.by_id(), "shuffler", ask.id)
            frames.append(next(decode_uploads(bytes(16) + inner)).sealed.encode())
    receipt = recipient.take(encode_batch(ask.id, secrets.token_bytes(16), frames))
    assert receipt.accepted == len(frames)
    recipient.store.close()
    return made.path


@pytest.mark.long
def test_from_a_database_over_sealed_answers_to_estimates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    users = [
        {"user": f"u{i}", "x": "a" if i % 3 else "b", "y": f"v{i % 2}", "z": "same"}
        for i in range(300)
    ]
    log.write_text("".join(json.dumps(user) + "\n" for user in users), encoding="utf-8")
    database = tmp_path / "d.duckdb"
    with Monitor(database, create=True) as monitor:
        monitor.ingest([str(log)])
    study = study_of(apis=("x", "y", "z"), k=5, population=1000)
    paths = {name: tmp_path / f"{name}.json" for name in ("study", "ask")}
    paths["study"].write_bytes(study.to_bytes())
    arguments = [
        "--study", str(paths["study"]), "--accuracy", "0.3", "--users", "300", "--db",
        str(database), "-o", str(paths["ask"]), "--format", "json",
    ]  # fmt: skip
    assert main(["ldp", "ask", *arguments]) == 0
    captured = capsys.readouterr()
    rows = {row["api"]: row for row in json.loads(captured.out)}
    assert set(rows) == {"x", "y", "z"}
    ask = CollectionRequest.from_bytes(paths["ask"].read_bytes())
    assert set(ask.randomise) == {api for api, row in rows.items() if row["mechanism"]}
    assert ask.sets == tuple((api,) for api in sorted(ask.randomise))
    assert {"x", "y"} <= set(ask.randomise)
    assert f"{len(ask.randomise)} of 3 APIs" in captured.err
    few = {api for api in ask.randomise if rows[api]["values"] - 1 <= 2 * 0.3 * 1000 / (5 - 1)}
    named = captured.err.rpartition("not listed: ")[2].strip()
    assert set(named.split(", ")) == few != set()

    # Batches leave while users answer: all of them hide a report only where nobody knows when.
    many = [*arguments[:4], "--users", "1000000", *arguments[6:]]
    many[many.index(str(paths["ask"]))] = str(tmp_path / "many.json")
    assert main(["ldp", "ask", *many]) == 0
    said = capsys.readouterr().err
    [apart, within, size] = re.findall(
        r"at most (\S+) an answer, among 1,000,000 users .*when a user answered, (\S+), among some "
        r"(\S+) of a batch", said
    )[0]  # fmt: skip
    assert float(apart) < float(within)
    assert int(size.replace(",", "")) == study.minimum_batch

    answers = [{api: f"={user[api]}" for api in "xyz"} for user in users]
    curator = collected(tmp_path, study, ask, answers)
    counting = ["private", "count", "--folder", str(curator), "--format"]
    assert main([*counting, "json"]) == 0
    [counted] = json.loads(capsys.readouterr().out)["asks"]
    found = {one["apis"][0]: one["estimate"] for one in counted["sets"]}
    shares = {value["token"]: value for value in found["x"]["values"]}
    assert shares["=a"]["lower"] < 2 / 3 < shares["=a"]["upper"]
    assert found["x"]["users"] == 300
    assert found["x"]["lower"] <= found["x"]["upper"]
    assert main([*counting, "table"]) == 0
    assert "at most" in capsys.readouterr().out
    assert main([*counting, "csv"]) == 0
    listed = [row for row in csv.DictReader(io.StringIO(capsys.readouterr().out)) if row["value"]]
    assert {row["apis"] for row in listed} == set(ask.randomise)
    [row] = [row for row in listed if (row["apis"], row["value"].lstrip("'")) == ("x", "=a")]
    told = [float(row[name]) for name in ("share", "least", "most")]
    assert told == [shares["=a"][name] for name in ("share", "lower", "upper")]


def test_randomised_answers_lead_to_a_set_and_to_a_request_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain answers on one API, randomised ones on two: one set of all three, promised together."""
    made = make_role(tmp_path / "curator", "curator")
    study = study_of(
        apis=("x", "y", "z"), k=5, population=100_000, budget=0.5, largest_set=2,
        curator_key=made.ring.verifying,
    )  # fmt: skip
    plan = Randomisation(mechanism="grr", epsilon=5.0, values=("=0", "=1", "redacted"))
    ask = CollectionRequest(
        study=study.id.hex(), epoch=3, round=1, recipient="curator",
        sets=(("x",), ("y",), ("z",)), randomise={"x": plan, "y": plan},
    )  # fmt: skip
    answers = [{"x": f"={i % 2}", "y": f"={i // 2 % 2}", "z": f"={i % 3}"} for i in range(400)]
    curator = collected(tmp_path, study, ask, answers, made)
    following = tmp_path / "release.json"
    given = ["private", "select", str(curator), "--format", "json"]
    assert main([*given, "-o", str(following)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"]["apis"] == ["x", "y", "z"]
    assert 0.05 < found["recommended"]["statistical"]["upper"] <= 0.5  # coins rank the values
    assert found["recommended"]["fixed"]["upper"] == 1.0
    rules = {one["apis"][0]: one["statistical"]["rule"] for one in found["singles"]}
    assert rules["x"] in ("randomised", "top-r")
    assert rules["z"] == "certificate"
    assert CollectionRequest.from_bytes(following.read_bytes()).sets == (("x", "y", "z"),)
    # One decision for all sets, which the rest of fpmonitor reads.
    decided = tmp_path / "decision.json"
    assert main([*given, "--decision", str(decided)]) == 0
    assert "Users randomised those on x, y." in capsys.readouterr().err
    study_file = curator / "study.json"
    assert main([*given, "--decision", str(study_file)]) == 2, "what is no decision is kept"
    assert study_file.read_bytes() == study.to_bytes()
    content = json.loads(decided.read_text(encoding="utf-8"))
    assert (content["allow"], content["block"], content["undecided"]) == ([["x", "y", "z"]], [], [])
    assert main(["gate", str(decided), "--have", "x", "--want", "z"]) == 0
    assert main(["export", str(decided), "--to", "csv"]) == 0
    assert "z,exposed,in the recommended set" in capsys.readouterr().out
    # The next round of the curator would have users send the randomised ones plainly.
    assert main([*given, "--next", "curator", "-o", str(tmp_path / "next.json")]) == 3
    assert "nothing left to request" in capsys.readouterr().err
    assert not (tmp_path / "next.json").exists()
    # So would a new epoch.
    assert (
        main([*given, "--next", "curator", "--epoch", "4", "-o", str(tmp_path / "next.json")]) == 2
    )
    assert "`fpmonitor ldp ask --epoch 4`" in capsys.readouterr().err
    assert not (tmp_path / "next.json").exists()


def test_a_request_for_another_set_than_the_decision_recommends_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an API that next to nobody has nothing is recommended, though it exposes next to nobody.

    So a decision leaves it out, and the request of the same command does not.
    """
    made = make_role(tmp_path / "curator", "curator")
    terms: Any = {"apis": ("x", "y"), "k": 5, "curator_key": made.ring.verifying}
    study = study_of(population=400, budget=0.3, **terms)
    answers = [{"x": f"={i % 2}", **({"y": "=rare"} if i < 2 else {})} for i in range(400)]
    curator = collected(tmp_path, study, first_ask(study), answers, made)
    files = ("--decision", str(tmp_path / "d.json"), "-o", str(tmp_path / "release.json"))
    assert main(["private", "select", str(curator), "--setting", "fixed", *files]) == 0
    said = capsys.readouterr().err
    assert "for x, y, the decision recommends x: too few users have a value of y: collect" in said


def test_the_page_of_a_pilot_names_the_way_out_where_the_epoch_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    terms = ("--apis", "x", "--population", "20000", "--budget", "30%")
    assert main(["private", "init", "pilot", *terms]) == 0
    study = Study.read(Path("pilot/study.json"))
    plan = Randomisation(mechanism="grr", epsilon=1.0, values=("=0", "redacted"))
    Path("ask.json").write_bytes(randomised_ask(study, {"x": plan}, epoch=1).to_bytes())
    assert main(["private", "count", "--ask", "ask.json", "--folder", "pilot/curator"]) == 2
    assert "`ldp ask --epoch N` begins a new epoch" in capsys.readouterr().err


def test_the_estimate_of_redacted_answers_is_refused_and_all_others_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Randomisation(mechanism="grr", epsilon=5.0, values=("=0", "=1", "redacted"))
    study = study_of(apis=("x", "y"), k=5, population=1000)
    ask = CollectionRequest(
        study=study.id.hex(), epoch=1, round=1, recipient="curator", sets=(("x",), ("y",)),
        redact={"x": RedactionRule(keep=frozenset({"=0"}))}, randomise={"x": plan, "y": plan},
    )  # fmt: skip
    answers = [{"x": f"={i % 2}", "y": f"={i % 2}"} for i in range(60)]
    curator = collected(tmp_path, study, ask, answers)
    assert main(["private", "count", "--folder", str(curator), "--format", "json"]) == 0
    printed, said = capsys.readouterr()
    [counted] = json.loads(printed)["asks"]
    assert [one["users"] for one in counted["sets"]] == [60, 60]
    assert [one["estimate"] is None for one in counted["sets"]] == [True, False]
    assert "redacts the reports on x" in said


def test_commands_lead_from_a_budget_over_randomised_answers_to_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's commands: plan by the budget, collect, decide, write a list; one API is left."""
    monkeypatch.chdir(tmp_path)
    rng = random.Random(4)
    for name in ("plain", "users"):
        rows = [
            {"user": f"{name}{i}", "Navigator.platform": rng.choice("abc"),
             "Navigator.maxTouchPoints": rng.choice("012"), "Screen.colorDepth": f"{i % 1000}"}
            for i in range(4000)
        ]  # fmt: skip
        log = "".join(json.dumps(row) + "\n" for row in rows)
        Path(f"{name}.jsonl").write_text(log, encoding="utf-8")
    names = "Navigator.maxTouchPoints,Navigator.platform,Screen.colorDepth"
    terms = f"--apis {names} --population 20000 --budget 30% --minimum-batch 50"
    perform("fpmonitor ingest plain.jsonl -q")
    perform(f"fpmonitor private init pilot {terms}")
    *commands, last = PAGE_COMMANDS
    for command in commands:
        perform(command.replace("--users 40000 --budget 2%", "--budget 3%"))
    assert "Screen.colorDepth: nobody was asked" in capsys.readouterr().err
    decision = read_decision(Path("decision.json"))
    assert decision.allow == (("Navigator.maxTouchPoints", "Navigator.platform"),)
    assert decision.no_evidence == {"Screen.colorDepth": "few users"}
    assert "whole record" in decision.guarantee
    listed = perform(last.replace("permissions-policy", "csv")).splitlines()[1:]
    assert [line.split(",")[1] for line in listed] == [
        "exposed", "exposed", "no evidence"
    ]  # fmt: skip
    assert main(["gate", "decision.json", "--want", "Screen.colorDepth"]) == 3
    assert main(["audit", "certificate", "decision.json"]) == 2
    assert "private select CURATOR --decision" in capsys.readouterr().err
    assert main(["gate", "decision.json", "--want", names, "--db", "fpmonitor.duckdb"]) == 2
    assert "follows from answers of which the curator has the counts" in capsys.readouterr().err
    assert main(["check", "decision.json"]) == 0  # by users whose records are known


def test_every_set_has_the_verdict_that_its_limit_gives() -> None:
    """Among few APIs, lists by the search are those by trying all sets; contradictions: none."""
    rng = np.random.default_rng(5)
    for seed, setting in enumerate(SETTINGS):
        study = study_of(apis=tuple("abcd"), k=5, population=3000, budget=0.15, largest_set=2)
        table = rng.integers(0, [2, 3, 9, 60], size=(400, 4)) % (2 * seed + 5)
        counts = {
            tuple("abcd"[at] for at in places): Counter(
                tuple(f"={value}" for value in row) for row in table[:, list(places)].tolist()
            )
            for places in [(0,), (1,), (2,), (3,), (0, 1), (1, 3)]
        }
        knowledge = Knowledge(study, counts, setting)
        found = select_values(study, counts, setting=setting)
        made = decision_of(knowledge, found)
        assert made.complete
        assert len(made.recommended) == max(map(len, made.allow), default=0)
        if found.weight == made.utility:
            assert made.recommended == found.recommended.apis
        assert Decision.from_json(json.loads(json.dumps(made.to_json()))) == made
        assert made.utility >= found.weight
        for apis in made.allow:
            assert knowledge.promise(apis).upper <= study.budget, (apis, made.allow)
        for apis in made.undecided:
            assert knowledge.promise(apis).upper > study.budget, (apis, made.undecided)
        for size in range(1, 5):
            for apis in itertools.combinations(made.evident, size):
                verdict, _ = made.verdict(apis)
                if knowledge.promise(apis).upper <= study.budget:
                    assert verdict == "allow", (apis, made.allow)
                elif verdict == "block":
                    assert any(
                        knowledge.is_above(one) and set(one) <= set(apis) for one in knowledge.asked
                    )


def dependent(rng: random.Random) -> dict[str, str]:
    """Three APIs, two of which follow from the first but for a few users."""
    first = min(int(rng.expovariate(0.4)), 7)
    second = rng.randrange(8) if rng.random() < 0.02 else 5 * first % 8
    return {"x": f"={first}", "y": f"={second}", "z": f"={3 * first % 8}"}


def knowledge_of(study: Study, plan: Randomisation, users: int, seed: int, size: int) -> Knowledge:
    """What a curator knows of such users by reports on all sets of a size."""
    rng = random.Random(seed)
    ask = randomised_ask(study, dict.fromkeys("xyz", plan), epoch=1, size=size)
    found: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {apis: Counter() for apis in ask.sets}
    for _ in range(users):
        for index, tokens in reports_for(study, ask, dependent(rng), rng):
            found[ask.sets[index]][tokens] += 1
    answers = {apis: (ask, counts) for apis, counts in found.items()}
    return Knowledge(study, {}, "statistical", answers)


EIGHT = (*(f"={value}" for value in range(8)), "redacted")
OF_THREE: dict[str, Any] = {"apis": ("x", "y", "z"), "k": 10, "population": 20_000}


def test_reports_in_pairs_limit_sets_that_the_same_reports_alone_do_not() -> None:
    """And cost no more epsilon: one report on an API is in all of its pairs."""
    study = study_of(**OF_THREE, budget=0.1, largest_set=2)
    plan = Randomisation(mechanism="grr", epsilon=4.0, values=EIGHT)
    alone, pairs = (knowledge_of(study, plan, 8000, 3, size) for size in (1, 2))
    asks = [randomised_ask(study, dict.fromkeys("xyz", plan), epoch=1, size=n) for n in (1, 2)]
    assert [ask.epsilon for ask in asks] == [12, 12]
    apis = ("x", "y", "z")
    assert pairs.promise(apis).upper < study.budget < alone.promise(apis).upper
    assert pairs.promise(apis).rule in ("blocks", "join", "join size")
    assert pairs.promise(("x",)).upper < 0.1
    found = select_values(study, {}, randomised=pairs._randomised)
    made = decision_of(pairs, found)
    assert (made.allow, made.parts) == ((apis,), PartsKnown(largest=2, randomised=apis))
    assert "answers on sets of up to 2 APIs. Users randomised those on x, y, z." in made.guarantee
    fixed = Knowledge(study, {}, "fixed", pairs._randomised)
    assert fixed.promise(apis).upper == fixed.promise(apis[:2]).upper == 1, "of the observed users"


def test_long_values_of_pairs_are_known_by_their_digests_in_each_part() -> None:
    """A report on two APIs has less room than one on one, where such a value stands in full."""
    study = study_of(apis=("x", "y"), k=10, population=5_000, largest_set=2, report_bytes=200)
    plan = Randomisation(mechanism="grr", epsilon=4.0, values=("=1", "=" + "a" * 120, "redacted"))
    ask = randomised_ask(study, dict.fromkeys("xy", plan), epoch=1, size=2)
    rng = random.Random(1)
    counts = Counter[tuple[str, ...]]()
    for number in range(900):
        user = dict.fromkeys("xy", plan.values[number % 3 == 0])
        [(_, tokens)] = reports_for(study, ask, user, rng)
        counts[tokens] += 1
    assert any(token.startswith("#") for tokens in counts for token in tokens)
    answers = {("x", "y"): (ask, counts)}
    known = Knowledge(study, {}, "statistical", answers)
    shares = {one.token[:2]: one for one in known.estimates["x",].values}
    assert shares["=1"].lower < 2 / 3 < shares["=1"].upper
    assert shares["=a"].lower < 1 / 3 < shares["=a"].upper


@pytest.mark.long
def test_limits_from_pairs_hold_in_repeated_randomised_collections() -> None:
    study = study_of(**OF_THREE, budget=0.5, delta=0.2, largest_set=2)
    plan = Randomisation(mechanism="grr", epsilon=3.0, values=EIGHT)
    rng = random.Random(0)
    drawn = [tuple(dependent(rng).values()) for _ in range(200_000)]
    exposed = {
        apis: statistical_exposure(
            np.array(
                list(
                    Counter(tuple(row["xyz".index(api)] for api in apis) for row in drawn).values()
                )
            )
            / len(drawn),
            k=10,
            population=20_000,
        )
        for apis in [("x", "y"), ("x", "z"), ("y", "z"), ("x", "y", "z")]
    }
    misses = 0
    for seed in range(1, 31):
        known = knowledge_of(study, plan, 1500, seed, 2)
        misses += any(
            known.promise(apis).upper < share
            or (apis in known.estimates and known.estimates[apis].lower > share + 1e-9)
            for apis, share in exposed.items()
        )
    assert misses <= 0.2 * 30


@pytest.mark.long
def test_commands_lead_from_pairs_of_randomised_answers_to_a_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"x": "Navigator.platform", "y": "Screen.colorDepth", "z": "Screen.height"}
    for log, seed in (("plain", 1), ("users", 2)):
        rng = random.Random(seed)
        rows = [
            {"user": f"{log}{i}", **{names[api]: f"v{v}" for api, v in dependent(rng).items()}}
            for i in range(3000)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        Path(f"{log}.jsonl").write_text(text, encoding="utf-8")
    terms = f"--apis {','.join(names.values())} --population 20000 --budget 30% --minimum-batch 50"
    ask = "ldp ask --study pilot/study.json --epoch 2 --budget 1% --users 3000 -o ask.json"
    perform("fpmonitor ingest plain.jsonl -q")
    perform(f"fpmonitor private init pilot {terms} --largest-set 2")
    perform(f"fpmonitor {ask} --pairs")
    written = CollectionRequest.read(Path("ask.json"))
    assert [len(apis) for apis in written.sets] == [2, 2, 2]
    assert "3 of 3 APIs are requested" in capsys.readouterr().err
    for command in PAGE_COMMANDS[1:4]:
        perform(command)
    listed = json.loads(perform("fpmonitor private count --folder pilot/curator --format json"))
    estimates = [one["estimate"] for one in listed["asks"][-1]["sets"]]
    assert [one["mechanism"] for one in estimates] == ["grr"] * 3
    assert all(one["lower"] <= one["upper"] < 1 for one in estimates)
    perform(PAGE_COMMANDS[4])
    decision = read_decision(Path("decision.json"))
    assert decision.allow == (tuple(names.values()),)
    perform(f"fpmonitor gate decision.json --want {','.join(names.values())}")


@pytest.mark.long
def test_limits_of_sets_hold_in_repeated_randomised_collections() -> None:
    """Dependent APIs, every mechanism: no set is promised less than it exposes more than rarely."""
    study = study_of(apis=("x", "y"), k=20, population=5000, budget=0.4, delta=0.2)
    law = {("=a", "=b"): 0.4, ("=b", "=a"): 0.35, ("=a", "=a"): 0.15, ("=c", "=d"): 0.06,
           ("=d", "=c"): 0.037, ("=e", "=a"): 0.002, ("=a", "=f"): 0.001}  # fmt: skip
    exposed = statistical_exposure(np.array(list(law.values())), k=20, population=5000)
    misses, uppers = 0, []
    for seed in range(60):
        mechanism = MECHANISMS[seed % len(MECHANISMS)]
        plan = Randomisation(
            mechanism=mechanism, epsilon=3.0, values=LISTED,
            hash_range=21 if mechanism == "lh" else None,
        )  # fmt: skip
        ask = randomised_ask(study, {"x": plan, "y": plan}, epoch=1)
        rng = random.Random(seed)
        users = rng.choices(list(law), list(law.values()), k=4000)
        answers = {
            (api,): (ask, Counter((randomised(user[at], plan, rng),) for user in users))
            for at, api in enumerate(("x", "y"))
        }
        upper = Knowledge(study, {}, "statistical", answers).promise(("x", "y")).upper
        misses += upper < exposed
        uppers.append(upper)
    assert misses <= 0.2 * 60
    assert np.mean(uppers) < 0.6


def test_too_few_randomised_answers_are_counted_and_not_estimated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = study_of(k=5)
    curator = collected(tmp_path, study, ask_with("grr", 1.0, study), [{"x": "=a"}] * 4)
    assert main(["private", "count", "--folder", str(curator), "--format", "json"]) == 0
    said = capsys.readouterr()
    [one] = json.loads(said.out)["asks"][0]["sets"]
    assert (one["estimate"], one["users"]) == (None, None)
    assert "x: fewer than k = 5 users answered" in said.err


def test_the_mechanism_of_an_ask_is_the_one_that_users_apply() -> None:
    study = study_of()
    for name in MECHANISMS:
        mechanism = mechanism_of(ask_with(name, 0.7, study).randomise["x"])
        assert (mechanism.ldp_level, mechanism.values) == (pytest.approx(0.7), 4)


def test_what_a_user_spends_adds_up_over_apis_and_epochs() -> None:
    """And is told of randomised answers alone: plain ones have no level."""
    study = study_of(apis=("x", "y"))
    plan = ask_with("grr", 1.5, study).randomise["x"]
    asks = [
        randomised_ask(study, {"x": plan, "y": plan}, epoch=1),
        randomised_ask(study, {"x": plan}, epoch=2),
        first_ask(study),
    ]
    assert [ask.epsilon for ask in asks] == [3.0, 1.5, None]
    roles = [
        RoleStatus(
            role="shuffler",
            asks=tuple(
                AskStatus(
                    id=ask.id.hex(),
                    epoch=ask.epoch,
                    round=ask.round,
                    recipient=ask.recipient,
                    open=True,
                    messages={},
                    minimum=None,
                    undelivered=0,
                    seconds=None,
                    epsilon=ask.epsilon,
                )
                for ask in asks
            ),
        )
    ]
    said = spent(reconciled(roles))
    assert (
        "answers 2 randomised requests, of 2 epochs, has spent epsilon 4.5; 1 more have no" in said
    )
    assert spent(reconciled(roles)[2:]) == ""
