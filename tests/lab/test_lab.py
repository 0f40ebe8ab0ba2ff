"""The laboratory: what it calls a way, and that all answers about a list follow from what it found.

Those with the marker `browser` need Debian's `chromium`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lab import browsers
from benchmarks.lab.measure import differing, still_open
from benchmarks.lab.record import FILE, as_file, laid_out, recorded
from benchmarks.lab.secrets import SECRETS
from benchmarks.lab.site import PAGES, Site
from fpmonitor.export.controls import HIDING, Control, Product, controls_of, effect_of
from fpmonitor.export.effect import left_readable
from fpmonitor.export.enforce import ControlExporter
from fpmonitor.export.evidence import ControlEvidence, Run
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.plan import cheapest_plan, plan_of
from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names
from fpmonitor.policy import Policy
from tests.decided import decided

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.lab.site import Reading
    from fpmonitor.export.exporter import ApiVerdict

CONTENT = json.loads(FILE.read_text(encoding="utf-8"))
FORMATS = {
    name: exporter
    for name in plugin_names(EXPORTERS)
    if isinstance(exporter := load_plugin(EXPORTERS, name), ControlExporter)
}
MEASURED = sorted(
    {
        api
        for browser in CONTENT["browsers"].values()
        for told in browser["secrets"].values()
        for api in told.get("apis", ())
    }
)
ZONE = "Intl.DateTimeFormat.resolvedOptions#timeZone"


def sessions(*values: str) -> list[Reading]:
    return [{"a": value} for value in values]


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (sessions("1", "1"), sessions("2", "2"), True),
        (sessions("1", "1"), sessions("1", "1"), False),
        (sessions("!TypeError", "!TypeError"), sessions("2", "2"), True),
        (sessions("#5", "#6"), sessions("#7", "#8"), False),  # noise
        (sessions("1.01", "1.02"), sessions("2.01", "2.02"), True),  # noise that averages out
        (sessions("1.0", "3.0"), sessions("2.0", "4.0"), False),
        (sessions("late", "1"), sessions("1", "1"), True),  # nothing is known
        (sessions("late", "late"), sessions("late", "late"), False),  # it never answers
        ([{}, {}], [{}, {}], False),
        ([{}, {"a": "1"}], [{}, {}], True),
    ],
)
def test_a_way_is_open_unless_it_was_seen_closed(
    one: list[Reading], other: list[Reading], *, told: bool
) -> None:
    assert (still_open({"a"}, one, other) == {"a"}) == told


def test_what_changes_by_itself_tells_no_secret() -> None:
    assert differing(sessions("1", "1"), sessions("2", "2")) == {"a"}
    assert differing(sessions("1", "2"), sessions("3", "3")) == set()
    assert differing(sessions("late"), sessions("1")) == set()
    assert differing([{}], sessions("1")) == set()
    assert differing([{}], [{"http:sec-gpc@the request of a page": "1"}]), "nor is it sent"


def evidence_of(
    told: Sequence[str], read: Sequence[str], closed: Sequence[str] = ()
) -> ControlEvidence:
    """One secret, read in the page; `control` closes some of what tells it."""
    ways = {name: (0, "a secret", name, "the page") for name in told}
    run = Run(
        title="a product",
        told={"a secret": frozenset(ways.values())},
        closed={frozenset({"control"}): frozenset(ways[name] for name in closed)},
        read=frozenset(read),
        breaks={},
        is_whole=True,
    )
    return ControlEvidence([run], ("the width of ",))


def test_a_part_that_told_nothing_where_the_whole_did_has_no_other_ways() -> None:
    """The plugins beside the PDF viewer are not told by what an embedded PDF becomes."""
    part, whole, other = "Navigator.plugins#beyond-pdf", "Navigator.plugins", "an embedded PDF"
    found = evidence_of([whole, other], [whole, part], [whole])
    assert not found.others(part, set())
    assert [way[2] for way in found.others(whole, set())] == [other]
    unread = evidence_of([whole, other], [whole], [whole])
    assert [way[2] for way in unread.others(part, set())] == [other]


def test_an_api_that_told_nothing_where_its_siblings_did_is_believed_hidden() -> None:
    """No browser tells by `check` which fonts it has; a control is believed that says so."""
    check, load, width = "FontFaceSet.check", "FontFace.load", "HTMLElement.offsetWidth"
    control = Control(family="x", name="control", effects={check: "constant", load: "constant"})
    asked = Product(evidence=evidence_of([load, width], [check, load, width], [load]))
    assert effect_of(check, [control], asked) == "constant"
    assert effect_of(check, [], asked) is None
    never = Product(evidence=evidence_of([load, width], [load, width], [load]))
    assert effect_of(check, [control], never) == "untried"


def test_what_is_laid_out_is_no_answer() -> None:
    api, width = "Navigator.cookieEnabled", "the width of a border"
    evidence = evidence_of([api, width], [api], [api])
    for product, left in (
        (Product(evidence=evidence), (api,)),
        (Product(evidence=evidence, by_layout=False), ()),
    ):
        control = Control(family="x", name="control", effects={api: "constant"})
        assert left_readable([api], [control], product) == left


def test_the_file_keeps_places_of_apis_and_others_only_where_all_are_closed() -> None:
    places = ["the page"]
    told = {"Screen.width@the page", "Screen.width@a worker", "a border@the page", "a border@x"}
    closed = {"every member: Screen.width@a worker", "a border@x"}
    assert recorded(told, told, places) == {
        "apis": {"Screen.width": "10"} if places[1] == "a worker" else {},
        "others": ["a border"],
    }
    assert recorded(closed, told, places) == {"apis": {"Screen.width": "1"}}


def test_the_file_is_laid_out_as_it_is_written() -> None:
    assert as_file(CONTENT) == FILE.read_text(encoding="utf-8")
    assert CONTENT["laid out"] == laid_out()


def test_the_controls_that_were_tried_exist() -> None:
    known = {c.name for e in FORMATS.values() for c in controls_of(e.families)}
    tried = {
        name
        for run in CONTENT["runs"]
        for lists in run["closed"].values()
        for entry in lists
        for name in entry["controls"]
    }
    assert tried <= known
    assert {name for run in CONTENT["runs"] for name in run["exporters"]} <= set(FORMATS)


@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(deadline=None, max_examples=12)
@given(apis=st.sets(st.sampled_from(MEASURED), min_size=1, max_size=5), data=st.data())
def test_a_list_has_one_answer(name: str, apis: set[str], data: st.DataObject) -> None:
    """Verdicts, headline, what `preview` says is left, and `plan` never contradict each other."""
    exporter, candidates = FORMATS[name], sorted(apis)
    kept = data.draw(st.sets(st.sampled_from(candidates)))
    policy = Policy(k=5, population=100, budget=0.1, delta=0.1, candidates=tuple(candidates))
    decision = decided(
        candidates, allow=[sorted(kept)] if kept else [], recommended=sorted(kept), policy=policy
    )
    result = exporter.export(decision, ExportOptions())
    left = left_readable(candidates, result.controls, exporter.product, decision.means)
    assert result.headline is not None
    assert result.headline.left == left
    withheld = [entry for entry in result.verdicts if entry.is_withheld]
    assert {entry.api for entry in withheld if not entry.enforced} == {
        entry.api for entry in withheld if entry.api in left
    }
    assert result.headline.hidden == sum(entry.enforced for entry in withheld)
    assert all(entry.note for entry in withheld if entry.verdict == "by-passable")
    found = cheapest_plan(decision, exporter.controls(ExportOptions()), exporter.product)
    if result.headline.is_whole and set(left) <= set(kept):
        assert found is not None, "the list itself is a plan"
    if found is not None:
        assert plan_of(decision, found.controls, exporter.product).left == found.left
        assert set(found.left) <= kept


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_nothing_is_exact_that_a_way_opens_or_nobody_tried(name: str) -> None:
    exporter = FORMATS[name]
    product = exporter.product
    assert product.evidence is not None
    for api in {api for control in controls_of(exporter.families) for api in control.effects}:
        decision = decided([api], allow=[], block=[[api]], recommended=[])
        [verdict] = exporter.export(decision, ExportOptions()).verdicts
        if verdict.enforced:
            assert product.lacks(api) or product.evidence.is_whole(product.evidence.ways_of(api)), (
                api
            )
    if name == "brave":
        assert not product.evidence.runs, "Brave was never run: nothing of it is called exact"


def test_what_was_seen_in_firefox() -> None:
    """The true ratio by a thin border, canvases by cleaned noise; cores and zones are hidden."""
    exporter = FORMATS["firefox-userjs"]
    ratio, canvas = "Window.devicePixelRatio", "HTMLCanvasElement.toDataURL"
    wanted = [ratio, canvas, "Navigator.hardwareConcurrency", ZONE]
    decision = decided(wanted, allow=[], block=[[api] for api in wanted], recommended=[])
    found = {entry.api: entry for entry in exporter.export(decision, ExportOptions()).verdicts}
    assert (found[ratio].verdict, found[canvas].verdict) == ("by-passable", "by-passable")
    told = CONTENT["browsers"]["Firefox"]["secrets"]
    for reader in ("a border of 0.1px", "an outline of 0.1px", "the width of a field for files"):
        assert reader in told["pixel ratio"]["others"], reader
    assert "ResizeObserverEntry.devicePixelContentBoxSize" in told["pixel ratio"]["apis"]
    assert any("in black and white" in reader for reader in told["canvas"]["others"])
    assert found["Navigator.hardwareConcurrency"].enforced
    assert found[ZONE].enforced


def test_hiding_what_no_table_says_counts() -> None:
    """A control that closes all ways of an API hides it, whatever is said of the control."""
    exporter = FORMATS["firefox-userjs"]
    zone = [c for c in controls_of(exporter.families) if c.name == "JSDateTimeUTC"]
    assert zone[0].effect_on("Document.lastModified") is None or zone
    siblings = exporter.product.evidence.siblings(["JSDateTimeUTC"])  # type: ignore[union-attr]
    assert ZONE in siblings
    assert all(effect_of(api, zone, exporter.product) in HIDING for api in siblings)


def test_a_rule_that_stops_more_than_it_withholds_is_left_out_and_said() -> None:
    """Beside it, a chart is never sent and a photo never uploaded: `toBlob` does not call back."""
    api = "HTMLCanvasElement.toBlob"
    decision = decided([api], allow=[], block=[[api]], recommended=[])
    for name in ("adguard", "ublock"):
        without = FORMATS[name].export(decision, ExportOptions())
        assert not without.controls
        assert "left out, as it stops chart that is sent" in without.verdicts[0].note
        with_it = FORMATS[name].export(decision, ExportOptions(allow_breakage=True))
        [verdict] = with_it.verdicts
        assert verdict.breaks == ("chart that is sent", "photo that is cropped and uploaded")


def test_no_row_says_that_there_is_no_control_where_one_was_left_out() -> None:
    api = "Navigator.languages"
    decision = decided([api], allow=[], block=[[api]], recommended=[])
    [ours] = FORMATS["webextension"].export(decision, ExportOptions()).verdicts
    assert ours.note == (
        "languages: left out, as it stops shop, text editor (--allow-breakage sets it)"
    )
    [none] = FORMATS["chromium-policies"].export(decision, ExportOptions()).verdicts
    assert none.note == "this format has no control for it"


LEFT_OUT = re.compile(
    r"(?:^|; )([^;]+?): left out, as it stops [^;(]+(\(--allow-breakage sets it)?"
)


@pytest.mark.parametrize("name", ["ublock", "webextension", "firefox-userjs"])
@pytest.mark.parametrize("beside", [(), ("HTMLCanvasElement.toDataURL", "Screen.width")])
def test_what_allowing_breakage_would_set_is_set_by_it(name: str, beside: tuple[str, ...]) -> None:
    exporter = FORMATS[name]
    named = {api for one in controls_of(exporter.families) for api in one.effects}
    told = 0
    for api in sorted(named.difference(beside))[::3]:
        apis = [api, *beside]
        decision = decided(apis, allow=[], block=[[one] for one in apis], recommended=[])
        without = exporter.export(decision, ExportOptions())
        with_it = exporter.export(decision, ExportOptions(allow_breakage=True))
        assert not [one.note for one in with_it.verdicts if "--allow-breakage" in one.note], api
        set_by_it = {control.name for control in with_it.controls}
        for verdict in without.verdicts:
            for control, sets_it in LEFT_OUT.findall(verdict.note):
                assert (control in set_by_it) == bool(sets_it), (api, verdict.note)
                [one] = [c for c in controls_of(exporter.families) if c.name == control]
                more = exporter.export_plan(decision, [*without.controls, one], ExportOptions())
                [row] = [row for row in more.verdicts if row.api == verdict.api]
                assert _said(row) != _said(verdict), (control, verdict.note)
                told += bool(sets_it)
    assert told


def _said(verdict: ApiVerdict) -> tuple[object, ...]:
    """What a row says of an API, but for what the list lacks."""
    return verdict.verdict, verdict.effect, re.split("; [^;]+: (left|not in)", verdict.note)[0]


@pytest.mark.parametrize("run", [run for run in CONTENT["runs"] if run.get("breaks")])
def test_pages_that_stop_are_pages_of_the_laboratory(run: dict[str, dict[str, list[str]]]) -> None:
    known = {page.partition("@")[0] for page in PAGES}
    assert {page for pages in run["breaks"].values() for page in pages} <= known


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(browsers.CHROMIUM is None, reason="chromium is not installed")
def test_a_scheme_is_told_and_the_same_scheme_is_not(tmp_path: Path) -> None:
    """A small part of the laboratory: one secret, read in every way that the file names."""
    light, dark = SECRETS["colour scheme"]["chromium"]
    wanted = {
        "css:prefers-color-scheme@the page", "css:prefers-color-scheme@a style sheet",
        "the colour of either scheme@the page", "the scheme of an image that is drawn@the page",
        "Navigator.hardwareConcurrency@the page", "Navigator.hardwareConcurrency@a worker",
    }  # fmt: skip
    reads = []
    for number, environment in enumerate((light, light, dark)):
        with (
            Site() as site,
            browsers.chromium(tmp_path / str(number), site.waiting_page, environment),
        ):
            reads.append(site.visit("bare.localhost", wanted))
    assert set(reads[0]) == wanted
    assert differing(reads[:1], reads[1:2]) == set(), "nothing differs where nothing differs"
    told = differing(reads[:2], reads[2:])
    assert {name for name in wanted if "scheme" in name} == told
