"""What a list buys: preview, plan, import, and the commands around them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import zipfile
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.export.chromium import CHROMIUM
from fpmonitor.export.controls import Control, Product, controls_of, effect_of
from fpmonitor.export.effect import left_readable, left_unchanged
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.filters import UBLOCK
from fpmonitor.export.firefox import POLICIES
from fpmonitor.export.firefox_targets import installed_targets
from fpmonitor.export.plan import cheapest_plan, plan_of
from fpmonitor.policy import Policy
from fpmonitor.population.memory import MemorySource
from tests.asked import answer_of
from tests.decided import decided

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fpmonitor.decide.decision import Decision

APIS = (
    "Date.getTimezoneOffset",
    "Navigator.hardwareConcurrency",
    "Navigator.maxTouchPoints",
    "Navigator.userAgent",
    "NavigatorUAData.getHighEntropyValues#platformVersion",
)


def decision_of(allow: Sequence[Sequence[str]], candidates: Sequence[str] = APIS) -> Decision:
    policy = Policy(k=5, population=1000, budget=0.1, delta=0.1, candidates=tuple(candidates))
    return decided(candidates, allow=allow, recommended=max(allow, key=len), policy=policy)


APIS_OF_SCREEN = ("Screen.height", "Screen.width")


def control(name: str, **effects: Any) -> Control:
    return Control(family="test", name=name, effects=effects)


# ---- Effects ------------------------------------------------------------------------------------


def test_removed_constant_and_noise_hide_and_coarsened_and_unchanged_do_not() -> None:
    controls = [control("one", a="removed", b="constant", c="noise", d="coarsened", e="unchanged")]
    assert left_readable("abcdef", controls) == ("d", "e", "f")
    assert left_readable("abcdef", [], Product(frozenset("f"))) == tuple("abcde")


def test_the_strongest_effect_counts() -> None:
    controls = [control("weak", a="coarsened"), control("strong", a="constant")]
    assert effect_of("a", controls) == effect_of("a", controls[::-1]) == "constant"


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=60),
    st.sets(st.sampled_from("abcd")),
)
def test_leaving_an_api_out_is_giving_all_users_one_value(
    rows: list[tuple[int, ...]], hidden: set[str]
) -> None:
    codes = dict(zip("abcd", np.array(rows).T, strict=True))
    left = left_readable("abcd", [control("x", **dict.fromkeys(hidden, "constant"))])
    as_left_out = MemorySource(list(codes), list(codes.values())).spectrum(left)
    constant = [np.zeros_like(c) if api in hidden else c for api, c in codes.items()]
    as_constant = MemorySource(list(codes), constant).spectrum("abcd")
    assert empirical_exposure(as_left_out, 3) == empirical_exposure(as_constant, 3)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=60),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["constant", "coarsened", "evaded"])),
)
def test_what_is_left_lies_between_what_is_unchanged_and_what_is_readable(
    rows: list[tuple[int, ...]], effects: dict[str, str]
) -> None:
    codes = dict(zip("abcd", np.array(rows).T, strict=True))
    controls = [control("x", **effects)]
    merged = {"constant": 4, "coarsened": 2}
    after = [codes[api] // merged.get(effects.get(api, ""), 1) for api in codes]
    true = empirical_exposure(MemorySource(list(codes), after).spectrum("abcd"), 3)
    whole = MemorySource(list(codes), list(codes.values()))
    least, most = (
        empirical_exposure(whole.spectrum(kept("abcd", controls)), 3)
        for kept in (left_unchanged, left_readable)
    )
    assert least <= true <= most


def test_what_is_readable_by_another_name_is_not_hidden() -> None:
    hidden = [control("one", **{"Screen.width": "constant"})]
    assert left_readable(["Screen.width", "Screen.height"], hidden) == APIS_OF_SCREEN
    unchanged = left_unchanged(["Screen.width", "Screen.height"], hidden)
    assert unchanged == ("Screen.height",), "the other name may tell less"
    both = [*hidden, control("two", **{"css:device-width": "constant"})]
    assert left_readable(["Screen.width", "Screen.height"], both) == ("Screen.height",)
    assert left_readable(["Screen.width"], hidden, Product(frozenset({"css:device-width"}))) == ()
    candidates = ["Screen.width", "css:device-width"]
    assert left_readable(candidates, hidden) == ("css:device-width",), "each counts for itself"


def test_a_plan_also_hides_the_other_names_of_what_it_hides() -> None:
    decision = decision_of([["Navigator.userAgent"]], ["Navigator.userAgent", "Screen.width"])
    by_name, by_style = (
        control(api, **{api: "removed"}) for api in ("Screen.width", "css:device-width")
    )
    assert cheapest_plan(decision, [by_name], Product()) is None
    found = cheapest_plan(decision, [by_name, by_style], Product())
    assert found is not None
    assert found.controls == (by_name, by_style)
    assert found.left == ("Navigator.userAgent",)


# ---- Plans --------------------------------------------------------------------------------------

EFFECTS = st.sampled_from(["removed", "constant", "noise", "coarsened", "unchanged"])
CONTROLS = st.lists(
    st.dictionaries(st.sampled_from("abcdxy"), EFFECTS, min_size=1, max_size=3), max_size=6
).map(lambda found: [control(f"c{i}", **effects) for i, effects in enumerate(found)])
ALLOWED = st.lists(st.sets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=3)


@settings(deadline=None, max_examples=100)
@given(controls=CONTROLS, allowed=ALLOWED)
def test_a_plan_is_the_cheapest_of_all_subsets_of_the_controls(
    controls: list[Control], allowed: list[set[str]]
) -> None:
    decision = decision_of([sorted(apis) for apis in allowed], "abcd")
    plans = [
        plan_of(decision, chosen, Product())
        for size in range(len(controls) + 1)
        for chosen in itertools.combinations(controls, size)
    ]
    good = [plan for plan in plans if plan.verdict == "allow"]
    found = cheapest_plan(decision, controls, Product())
    if not good:
        assert found is None
        return
    assert found is not None
    assert found.verdict == "allow"
    price = min((len(plan.changed), len(plan.controls)) for plan in good)
    assert (len(found.changed), len(found.controls)) == price


def test_a_plan_for_firefox_leaves_an_allowed_set() -> None:
    decision = decision_of(
        [["Navigator.userAgent", "Navigator.maxTouchPoints"], ["Navigator.hardwareConcurrency"]]
    )
    found = cheapest_plan(decision, POLICIES.controls(ExportOptions()), POLICIES.product)
    assert found is not None
    assert found.left == ("Navigator.maxTouchPoints", "Navigator.userAgent")
    assert len(found.controls) == 2
    text = POLICIES.export_plan(decision, found.controls, ExportOptions()).text
    assert set(POLICIES.read(text, None).controls) >= set(found.controls)


def test_what_a_script_can_get_round_is_no_plan() -> None:
    decision = decision_of([["Navigator.userAgent", "Navigator.maxTouchPoints"]])
    controls = UBLOCK.controls(ExportOptions())
    assert cheapest_plan(decision, controls, UBLOCK.product) is None
    assert plan_of(decision, controls, UBLOCK.product).left == APIS


def test_what_no_control_hides_leaves_no_plan() -> None:
    decision = decision_of([["Navigator.hardwareConcurrency"]])  # nothing hides the user agent
    assert cheapest_plan(decision, POLICIES.controls(ExportOptions()), POLICIES.product) is None


def test_a_site_leaves_only_controls_that_can_be_restricted_to_it() -> None:
    named = {control.name for control in controls_of(["chromium"]) if control.any_site}
    from_site = ExportOptions(site="example.com")
    assert {control.name for control in CHROMIUM.controls(from_site)} == named
    assert "Disable3DAPIs" not in named


# ---- Commands -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of 600 users and a decision on it that allows two APIs together."""
    folder = tmp_path_factory.mktemp("effect")
    rng = np.random.default_rng(6)
    sizes = dict(zip(APIS, (300, 80, 2, 2, 40), strict=True))
    with (folder / "log.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", *APIS])
        for user in range(600):
            writer.writerow([f"u{user}", *(rng.integers(sizes[api]) for api in APIS)])
    database = str(folder / "db.duckdb")
    assert run(["ingest", str(folder / "log.csv"), "--db", database, "-q"]) == 0
    decision = decision_of(
        [["Navigator.userAgent", "Navigator.maxTouchPoints"], ["Navigator.hardwareConcurrency"]]
    )
    (folder / "decision.json").write_text(json.dumps(decision.to_json()))
    return folder


def test_preview_shows_before_after_and_the_best_of_the_format(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision, db = str(folder / "decision.json"), str(folder / "db.duckdb")
    rows = answer_of(
        capsys, "export", "--preview", decision, "--to", "firefox-policies", "--db", db
    )
    before, after, best = rows
    assert [row["state"] for row in rows] == ["before", "after", "best"]
    assert before["left"] == list(APIS)
    assert after["left"] == ["Navigator.maxTouchPoints", "Navigator.userAgent"]
    assert {"Navigator.userAgent"} <= set(best["left"]) <= set(after["left"])
    assert before["plug_in"] > 0.9
    assert 0.01 > after["plug_in"] >= best["plug_in"]
    assert before["verdict"] == "undecided"
    assert after["verdict"] == best["verdict"] == "allow"
    sets = answer_of(
        capsys, "exposure", "--apis", ",".join(after["left"]), "--k", "5", "-n", "1000",
        "--delta", "0.1", "--db", db,
    )  # fmt: skip
    assert sets[0]["upper"] == after["upper"], "an API that is hidden is as good as not asked for"


def test_preview_counts_what_stays_readable_by_another_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    rows = [f"u{user},{user % 400},{user % 2}\n" for user in range(600)]
    log.write_text("user,Window.devicePixelRatio,Navigator.maxTouchPoints\n" + "".join(rows))
    db, path = str(tmp_path / "db.duckdb"), tmp_path / "d.json"
    assert run(["ingest", str(log), "--db", db, "-q"]) == 0
    names = ["Window.devicePixelRatio", "Navigator.maxTouchPoints"]
    path.write_text(json.dumps(decision_of([["Navigator.maxTouchPoints"]], names).to_json()))
    arguments = ["export", "--preview", str(path), "--to", "firefox-policies", "--db", db]
    before, plain, _ = answer_of(capsys, *arguments)
    assert plain["left"] == sorted(names), "css:resolution tells the ratio"
    assert plain["upper"] == before["upper"]
    assert plain["lower"] == 0 < before["lower"], "and may tell less"
    both = answer_of(capsys, *arguments, "--by-information")[1]
    assert both["left"] == plain["left"], "the width of a thin border tells it as well"


def test_preview_of_hiding_everything_exposes_nobody(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    decision = decision_of(
        [["Date.getTimezoneOffset"]],
        ["Navigator.hardwareConcurrency", "Date.getTimezoneOffset"],
    )
    path = tmp_path / "d.json"
    path.write_text(json.dumps(decision.to_json()))
    db = str(folder / "db.duckdb")
    best = answer_of(
        capsys, "export", "--preview", str(path), "--to", "firefox-policies", "--db", db
    )[2]
    assert (best["left"], best["plug_in"], best["verdict"]) == ([], 0, "allow")
    before, after, best = answer_of(
        capsys, "export", "--preview", str(path), "--to", "ublock", "--db", db
    )
    assert before["plug_in"] == after["plug_in"] == best["plug_in"] > 0, "scripts get round it"


def test_plan_prints_controls_and_writes_the_list(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    decision, target = str(folder / "decision.json"), tmp_path / "list.txt"
    found = answer_of(
        capsys, "lists", "plan", decision, "--to", "firefox-policies", "--write", str(target)
    )
    assert found["verdict"] == "allow"
    assert all(f"+{name}" in target.read_text() for name in found["controls"])
    assert len(found["controls"]) == 2


def test_plan_that_cannot_be_exits_with_the_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision = str(folder / "decision.json")
    found = answer_of(capsys, "lists", "plan", decision, "--to", "chromium-policies", code=3)
    assert found["verdict"] == "undecided"
    capsys.readouterr()
    assert run(["lists", "plan", decision, "--to", "csv"]) == 2
    assert "ublock" in capsys.readouterr().err


def test_import_says_what_a_list_in_use_leaves_exposed(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    decision, db = str(folder / "decision.json"), str(folder / "db.duckdb")
    filters = tmp_path / "filters.txt"
    filters.write_text(
        "*##+js(set, navigator.hardwareConcurrency, 2)\n"
        "*##+js(set, navigator.maxTouchPoints, 0)\n"
        "*##+js(set, NavigatorUAData.prototype.getHighEntropyValues, Nonsense)\n"
    )
    found = answer_of(
        capsys,
        "lists",
        "import",
        str(filters),
        "--from",
        "ublock",
        "--decision",
        decision,
        "--db",
        db,
    )
    assert found["left"] == list(APIS)
    assert found["verdict"] == "undecided"
    assert len(found["problems"]) == 1
    assert {"api": "Navigator.hardwareConcurrency", "effect": "evaded"} in found["apis"]

    prefs = tmp_path / "user.js"
    prefs.write_text(
        'user_pref("browser.contentblocking.category", "custom");\n'
        'user_pref("privacy.fingerprintingProtection", true);\n'
        'user_pref("privacy.fingerprintingProtection.overrides", "-AllTargets,+JSDateTimeUTC");\n'
    )
    found = answer_of(
        capsys,
        "lists",
        "import",
        str(prefs),
        "--from",
        "firefox-userjs",
        "--decision",
        decision,
        "--db",
        db,
    )
    assert "Date.getTimezoneOffset" not in found["left"]
    exposure = {row["state"]: row["plug_in"] for row in found["exposure"]}
    assert exposure["before"] > exposure["after"] > exposure["best"]


def test_export_prints_the_list_alone_and_verdicts_elsewhere(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    decision, verdicts = str(folder / "decision.json"), tmp_path / "verdicts.json"
    capsys.readouterr()
    assert run(["export", decision, "--to", "chromium-policies", "--verdicts", str(verdicts)]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out) == {}
    assert "impossible" in output.err
    rows = {row["api"]: row for row in json.loads(verdicts.read_text())}
    assert rows["Navigator.hardwareConcurrency"]["verdict"] == "impossible"
    assert rows["Navigator.userAgent"] | {"note": ""} == {
        "api": "Navigator.userAgent",
        "outcome": "exposed",
        "verdict": "exact",
        "effect": None,
        "controls": [],
        "collateral": [],
        "breaks": [],
        "note": "",
        "means": "",
        "within_reach": None,
    }


def test_strict_export_writes_nothing_and_exits_1_where_a_block_cannot_be_enforced(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    decision, target = str(folder / "decision.json"), tmp_path / "policies.json"
    target.write_text("as it was")
    for product in ("chromium-policies", "ublock"):
        assert run(["export", decision, "--to", product, "--strict", "-o", str(target)]) == 1
        assert target.read_text() == "as it was"
    assert "by-passable (ways round it: " in capsys.readouterr().err
    assert run(["export", decision, "--to", "firefox-policies", "--strict"]) == 0
    assert "+JSDateTimeUTC" in capsys.readouterr().out


def test_coverage_needs_no_format_and_names_the_formats_that_do_it_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer_of(capsys, "export", str(folder / "decision.json"), "--coverage")
    assert len(found["together"]) == 1
    assert found["missed"] == []
    assert found["apis"][0]["ublock"] == "by-passable"
    assert found["apis"][0]["firefox-policies"] == "over-blocking"
    assert run(["export", str(folder / "decision.json"), "--coverage", "--format", "table"]) == 0
    assert "yes+" in capsys.readouterr().out


def test_export_without_a_format_lists_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["export", str(folder / "decision.json")]) == 2
    assert "permissions-policy" in capsys.readouterr().err


def test_targets_of_a_folder_without_firefox_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="no targets of Firefox"):
        installed_targets(tmp_path)
    assert run(["lists", "targets", "--from", str(tmp_path)]) == 2
    assert "/usr/lib/firefox" in capsys.readouterr().err
    with zipfile.ZipFile(tmp_path / "omni.ja", "w") as omni:
        for name in ("RFPTargetConstants", "AppConstants"):
            omni.writestr(f"modules/{name}.sys.mjs", "export const Other = {};")
    with pytest.raises(InputError, match="no targets of Firefox"):
        installed_targets(tmp_path)


def test_targets_of_an_omni_ja_can_be_exported_for(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "omni.ja", "w") as omni:
        omni.writestr(
            "modules/RFPTargetConstants.sys.mjs",
            'export const Targets = {\n\t"Gamepad": 24,\n\t"AllTargets": 127,\n}\n'
            'export const DefaultTargetsBaseline = {\n\t"DESKTOP_DEFAULT": ["Gamepad",],\n}\n',
        )
        omni.writestr("modules/AppConstants.sys.mjs", 'MOZ_APP_VERSION: "160.0",')
    found = installed_targets(tmp_path)
    assert (found.version, found.targets, found.baseline) == ("160.0", ("Gamepad",), ("Gamepad",))
    table, decision = tmp_path / "targets.json", tmp_path / "decision.json"
    assert run(["lists", "targets", "--from", str(tmp_path), "-o", str(table)]) == 0
    decision.write_text(json.dumps(decision_of([[APIS[0]]]).to_json()))
    arguments = ["export", str(decision), "--to", "firefox-policies", "--targets", str(table)]
    assert run([*arguments, "-q", "--partial"]) == 0


# ---- The schema of decision files ---------------------------------------------------------------


@pytest.fixture
def schema(capsys: pytest.CaptureFixture[str]) -> Any:
    capsys.readouterr()
    assert run(["lists", "schema"]) == 0
    return json.loads(capsys.readouterr().out)


def test_decisions_fit_the_schema(schema: Any, folder: Path, tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads((folder / "decision.json").read_text()), schema)
    made = tmp_path / "made.json"
    for setting in ("population", "sample"):
        arguments = ["decide", "--k", "5", "--budget", "0.1", "--db", str(folder / "db.duckdb")]
        assert run([*arguments, "--setting", setting, "-o", str(made), "-q"]) == 0
        jsonschema.validate(json.loads(made.read_text()), schema)
    levels = tmp_path / "levels.toml"
    levels.write_text(
        '[[component]]\napis = ["Navigator.maxTouchPoints"]\nlevels = [{step = 2}, {raw = true}]\n'
    )
    arguments = [
        "decide",
        "--levels",
        str(levels),
        "--budget",
        "0.1",
        "-o",
        str(tmp_path / "l.json"),
    ]
    assert run([*arguments, "--db", str(folder / "db.duckdb"), "-q"]) == 0
    of_levels = json.loads((tmp_path / "l.json").read_text())
    jsonschema.validate(of_levels, schema)
    assert of_levels.keys() - schema["properties"].keys() == set()
    # files of earlier versions lack these
    later = {"view", "utility", "utility_bound", "engine", "coverage", "universe", "proof"}
    later |= {"level", "registered", "view_weight", "made", "scope", "wishes"}
    assert set(schema["required"]) | later == set(json.loads(made.read_text()))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("allow", [[]]),
        ("allow", "all"),
        ("block", [["a", "a"]]),
        ("setting", "everybody"),
        ("complete", 1),
        ("policy", {}),
        ("users_needed", ["many"]),
        ("data", {"users": -1, "digest": ""}),
    ],
)
def test_the_schema_refuses_what_is_no_decision(schema: Any, member: str, value: Any) -> None:
    content = decision_of([["Navigator.hardwareConcurrency"]]).to_json()
    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content | {member: value}, schema)


def test_csv_of_a_preview_has_one_line_a_state(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    decision, db = str(folder / "decision.json"), str(folder / "db.duckdb")
    assert (
        run(["export", "--preview", decision, "--to", "jshelter", "--db", db, "--format", "csv"])
        == 0
    )
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["state"] for row in rows] == ["before", "after", "best"]
    assert (
        run(["export", "--preview", decision, "--to", "jshelter", "--db", db, "--format", "table"])
        == 0
    )
