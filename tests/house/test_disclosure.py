"""What may leave is decided in one place: counts below k, what gives them away, names, texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.answers.automation import report_automation
from fpmonitor.answers.bounds import disclosed_interval
from fpmonitor.answers.cohorts import PooledCohorts
from fpmonitor.answers.curve import curve_of
from fpmonitor.answers.exposure import ExposureDetails, report_exposures
from fpmonitor.cli import run
from fpmonitor.disclosure import (
    Audience,
    complement_of,
    disclosed_spectra,
    is_publishable,
    may_name,
    publishable_count,
    publishable_groups,
    publishable_members,
    publishable_part,
    publishable_total,
)
from fpmonitor.errors import PolicyError
from fpmonitor.estimate.bounds import theorem5, theorem8
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import (
    exposure_curve,
    plug_in_exposure,
    unbiased_exposure,
)
from fpmonitor.masking import masked_quotes, masked_text
from fpmonitor.monitor import Monitor
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import MemorySnapshot
from fpmonitor.question import Question
from fpmonitor.spectrum import CountSpectrum
from tests.asked import answer_of

if TYPE_CHECKING:
    from pathlib import Path

K = 10
OTHERS = Audience.OTHERS


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes of large groups, and of small ones of fewer than k users together."""
    large = draw(st.lists(st.integers(K, 60), min_size=1, max_size=6))
    small: list[int] = []
    while sum(small) < K - 1 and draw(st.booleans()):
        small.append(draw(st.integers(1, K - 1 - sum(small))))
    return large, small


def spectrum_of(large: list[int], small: list[int]) -> CountSpectrum:
    return CountSpectrum.from_counts([*large, *small])


@pytest.mark.parametrize("count", range(15))
def test_counts_are_told_when_they_are_none_or_k(count: int) -> None:
    assert is_publishable(count, K) == (count in {0, *range(K, 15)})
    assert publishable_count(count, K) == (count if is_publishable(count, K) else None)
    assert is_publishable(count, K, OTHERS) == (count >= K)


def test_a_total_is_withheld_when_it_would_give_a_part_away() -> None:
    assert publishable_total(40, [28, 12], K) == 40
    assert publishable_total(31, [28, 3], K) is None, "31 less 28 is the withheld part"
    assert publishable_part(391, 397, K) is None, "the rest of them are 6 users"
    assert (
        publishable_part(397, 397, K),
        publishable_part(0, 397, K),
        publishable_part(200, 397, K),
    ) == (397, 0, 200)


@settings(deadline=None)
@given(parts=st.lists(st.integers(0, 40), min_size=1, max_size=8))
def test_no_part_follows_from_the_total_and_the_others(parts: list[int]) -> None:
    hidden = complement_of(parts, K, OTHERS)
    if hidden is None and not any(part >= K for part in parts):
        return
    shown = [part for at, part in enumerate(parts) if part >= K and at != hidden]
    rest = sum(parts) - sum(shown)
    if len(shown) < len(parts):
        assert rest >= K, "the withheld parts together are a count like others"
    if hidden is not None:
        assert any(part < K for part in parts)
    assert complement_of(parts, K) is None, "the owner is told all"


@settings(deadline=None)
@given(groups=st.lists(st.sets(st.integers(0, 60)), min_size=1, max_size=4))
def test_of_groups_that_overlap_the_total_tells_of_no_few(groups: list[set[int]]) -> None:
    users = {str(at): len(group) for at, group in enumerate(groups)}
    total = len(set().union(*groups))
    told = publishable_members(users, total, K, OTHERS)
    assert all(number >= K for number in told.values())
    for parts in ([*told.values()], *([number] for number in told.values())):
        rest = abs(total - sum(parts))
        assert not parts or rest >= K or (rest == 0 and len(parts) == len(groups))


@settings(deadline=None, max_examples=80)
@given(table=tables())
def test_told_spectra_keep_the_users_and_bound_every_estimate(
    table: tuple[list[int], list[int]],
) -> None:
    spectrum = spectrum_of(*table)
    told = disclosed_spectra(spectrum, K, OTHERS)
    most, least = told.most, told.least
    assert most.users == least.users == spectrum.users
    assert least.users_below(K) == 0
    assert told.suppressed
    assert most.users_below(K) in {K - 1, spectrum.users}
    users = spectrum.users
    for population in {K, users // 2 or K, users, 3 * users}:
        if population < K:
            continue
        for estimate in (plug_in_exposure, unbiased_exposure):
            values = [estimate(s, k=K, population=population) for s in (least, spectrum, most)]
            if None not in values:
                assert values == sorted(values, key=lambda value: value or 0), values
    for t in range(1, users + 2):
        below = [s.users_below(t) for s in (least, spectrum, most)]
        assert t < K or below == sorted(below), "the curves keep their order"


@settings(deadline=None, max_examples=80)
@given(table=tables(), others=st.lists(st.integers(1, 4), max_size=4))
def test_nothing_told_depends_on_how_many_users_are_withheld(
    table: tuple[list[int], list[int]], others: list[int]
) -> None:
    # The same users and the same groups but for the largest, and other small groups: an attacker
    # who knows all of that must not be able to tell the two apart.
    large, small = table
    top = max(large) + sum(small) - sum(others)
    rest = sorted(large)[:-1]
    if top < max([K, *rest]) or sum(others) >= K or max(large) < max([K, *rest]):
        return
    first, second = spectrum_of(large, small), spectrum_of([*rest, top], others)
    assert first.users == second.users
    one, other = (disclosed_spectra(spectrum, K, OTHERS) for spectrum in (first, second))
    for name in ("most", "least"):
        told = [getattr(spectra, name) for spectra in (one, other)]
        assert told[0].counts.tolist() == told[1].counts.tolist()
        assert told[0].values.tolist() == told[1].values.tolist()


@settings(deadline=None, max_examples=80)
@given(
    large=st.lists(st.integers(K, 60), max_size=6),
    small=st.lists(st.integers(1, K - 1), max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_pooled_groups_hold_k_users_and_bound_every_sum_over_users(
    large: list[int], small: list[int], seed: int
) -> None:
    if not large + small:
        return
    spectrum = spectrum_of(large, small)
    weights = np.random.default_rng(seed).normal(size=spectrum.users + 1)
    pools = publishable_groups(spectrum, K)
    assert sum(users for _, _, users in pools) == spectrum.users
    alone = spectrum.users if spectrum.users < K else K - 1
    assert all(users >= K or (first, users) == (1, alone) for first, _, users in pools)
    truth = sum(weights[size] * users for size, _, users in spectrum.groups())
    parts = [(weights[first : last + 1], users) for first, last, users in pools]
    assert sum(part.min() * users for part, users in parts) <= truth + 1e-9
    assert sum(part.max() * users for part, users in parts) >= truth - 1e-9


@settings(deadline=None, max_examples=80)
@given(table=tables(), others=st.lists(st.integers(1, 4), max_size=4))
def test_pooled_groups_do_not_depend_on_how_many_users_are_withheld(
    table: tuple[list[int], list[int]], others: list[int]
) -> None:
    large, small = table
    top = max(large) + sum(small) - sum(others)
    rest = sorted(large)[:-1]
    if top < max([K, *rest]) or sum(others) >= K:
        return
    first, second = (
        publishable_groups(spectrum_of(*two), K) for two in (table, ([*rest, top], others))
    )
    assert sorted(first) == sorted(second)


def test_nothing_changes_where_nothing_is_withheld() -> None:
    for groups in ([50, 30, *[1] * K], [50, *[3] * 4]):
        spectrum = CountSpectrum.from_counts(groups)
        told = disclosed_spectra(spectrum, K, OTHERS)
        assert told.most is told.least is spectrum
        assert not told.suppressed
    spectrum = CountSpectrum.from_counts([50, 3])
    assert disclosed_spectra(spectrum, K, Audience.OWNER).most is spectrum


@pytest.mark.parametrize("theorem", [theorem5, theorem8])
@settings(deadline=None, max_examples=40)
@given(table=tables(), wide=st.booleans())
def test_limits_of_the_paper_are_only_widened(
    theorem: Any, table: tuple[list[int], list[int]], wide: bool
) -> None:
    spectrum = spectrum_of(*table)
    question = Question(K, spectrum.users * (5 if wide else 1))
    exact, told = (
        disclosed_interval(
            theorem,
            disclosed_spectra(spectrum, K, audience),
            question,
            support=spectrum.support + 3,
        )
        for audience in Audience
    )
    assert told.lower <= exact.lower
    assert told.upper >= exact.upper


@settings(deadline=None, max_examples=40)
@given(table=tables())
def test_a_told_curve_lies_around_the_exact_one(table: tuple[list[int], list[int]]) -> None:
    spectrum = spectrum_of(*table)
    told, exact = (
        curve_of(
            ("a",),
            disclosed_spectra(spectrum, K, audience),
            Question(K),
            show_counts_below_k=audience is Audience.OWNER,
        )
        for audience in (OTHERS, Audience.OWNER)
    )
    curve = exposure_curve(spectrum)
    for point in told.points:
        assert point.threshold >= K
        at = curve.exposure[curve.position([point.threshold])][0]
        assert at <= point.empirical
        same = [p for p in exact.points if p.threshold >= point.threshold]
        if same:  # between two steps the curve is that of the later one
            assert point.lower <= same[0].lower + 1e-12
            assert point.upper >= same[0].upper - 1e-12


def test_entropy_of_two_values_does_not_give_the_rare_one_away() -> None:
    readings = {
        entropy_bits(
            disclosed_spectra(CountSpectrum.from_counts([400 - rare, rare]), K, OTHERS).most
        )
        for rare in range(K)
    }
    assert len(readings) == 1


AGENT = "Navigator.userAgent"


def test_a_sum_of_signs_is_withheld_with_its_part() -> None:
    agents = ["Chrome/140", "HeadlessChrome/140", "somebot/1"]
    users = MemorySnapshot(
        columns={AGENT: np.repeat(np.array([1, 2, 3], dtype=np.uint8), [383, 4, 13])},
        texts=lambda _api: {code: ("value", text) for code, text in enumerate(agents, 1)},
    )
    report = report_automation(Population(users), k=K)
    assert (report.automated, report.share) == (None, None)
    assert (report.signs["robot"], report.signs["headless"]) == (13, None)
    shown = report_automation(Population(users), [[AGENT]], k=K, show_counts_below_k=True)
    assert (shown.signs["robot"], shown.signs["headless"]) == (13, 4)
    assert (shown.automated, shown.exposures) == (17, {(AGENT,): (4 / 400, 0.0)})
    told = report_automation(Population(users, audience=OTHERS), [[AGENT]], k=K)
    assert told.exposures == {(AGENT,): (9 / 400, None)}, "its denominator would tell"
    with pytest.raises(PolicyError, match="owner"):
        report_automation(Population(users, audience=OTHERS), k=K, show_counts_below_k=True)


@pytest.mark.parametrize(("users", "told"), [(0, False), (9, False), (10, True)])
def test_names_of_few_users_are_told_to_the_owner_alone(users: int, told: bool) -> None:
    assert may_name(users, K, OTHERS) == told
    assert may_name(users, K, Audience.OWNER)


def test_masked_records_keep_their_form_and_nothing_else() -> None:
    masked = masked_text('{"user": "Ann-17", "value": "Grüße", "api": null')
    assert masked == '{"user": "xxx-99", "value": "xxxxx", "api": null'
    assert masked_text(masked) == masked
    assert masked_quotes("could not convert 'Ann' to \"INT") == "could not convert '...' to \"...\""


def test_a_cohort_does_not_follow_from_the_exposure_of_all(tmp_path: Path) -> None:
    # Cohort a exposes 3 users, b 12, c none; all together 15, which is told.
    rare = {"a": 3, "b": 12, "c": 0}
    rows = "".join(
        f"{family}{i},{family},{i if i < rare[family] else 'same'}\n"
        for family in "abc"
        for i in range(60)
    )
    (tmp_path / "log.csv").write_text(f"user,family,value\n{rows}", encoding="utf-8")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.ingest([str(tmp_path / "log.csv")])
        told, exact = (
            report_exposures(
                monitor.population(audience=audience),
                Question(K),
                [["value"]],
                ExposureDetails(given=["family"]),
            )[0]
            for audience in (OTHERS, Audience.OWNER)
        )
    assert told.empirical == exact.empirical == 15 / 180
    shares = [
        {cohort.given["family"]: cohort.empirical for cohort in report.cohorts.cohorts}
        for report in (told, exact)
        if report.cohorts
    ]
    # One cohort is told as if there were others of few users beside it.
    assert shares[0] == {"b": None, "c": 9 / 60}
    assert told.cohorts is not None
    assert told.cohorts.others == PooledCohorts(cohorts=10, users=60, empirical=9 / 60)
    assert shares[1] == {"a": 3 / 60, "b": 12 / 60, "c": 0}


# ---- By hand: one rare value among 400 users ----------------------------------------------------


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disclosure")
    rows = "".join(
        f"u{i},{'x' if i < 4 else 'y'},{i % 3},{'z' if i < 3 else ''}\n" for i in range(400)
    )
    (folder / "log.csv").write_text(f"user,rare,even,own name\n{rows}", encoding="utf-8")
    path = folder / "x.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(folder / "log.csv")])
    return path


def test_exposure_of_few_users_is_told_as_that_of_nine(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["exposure", "--apis", "rare", "--k", "10", "--db", str(database)]
    [exact] = answer_of(capsys, *question)
    assert (exact["suppressed"], exact["values"]) == (False, 2)
    assert exact["empirical"] == exact["unbiased"] == 4 / 400
    [line] = answer_of(capsys, "--for-others", *question)
    assert (line["suppressed"], line["values"]) == (True, 10)
    assert line["empirical"] == line["unbiased"] == 9 / 400
    assert line["lower"] <= exact["lower"] < exact["upper"] <= line["upper"]
    [even] = answer_of(capsys, "--for-others", "exposure", "--apis", "even", "--db", str(database))
    assert (even["suppressed"], even["empirical"]) == (True, 9 / 400), "nobody is told as nine too"
    assert run(["--for-others", *question, "--format", "table"]) == 0
    assert "≤ 2.25 %" in capsys.readouterr().out


def test_the_owner_is_told_shares_and_names_as_they_are(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--k", "10", "--db", str(database)]
    overview = {line["api"]: line for line in answer_of(capsys, "db", "apis", *common)}
    assert overview["rare"]["exposure"] == 4 / 400
    assert overview["own name"]["users"] is None, "a count of three users stays withheld"
    ranked = answer_of(capsys, "exposure", "--rank", "--apis", "rare", *common)
    assert ranked["sets"][0]["exposure"] == 4 / 400
    with Monitor(database) as monitor:
        assert monitor.index(["rare"], k=K).explore(["rare"]).empirical == 4 / 400


def test_every_answer_on_the_same_set_agrees(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--k", "10", "--db", str(database)]
    overview = {
        line["api"]: line for line in answer_of(capsys, "--for-others", "db", "apis", *common)
    }
    assert "own name" not in overview, "three users have it"
    assert overview["rare"]["exposure"] == 9 / 400
    assert overview["rare"]["users"] == 400
    ranked = answer_of(
        capsys, "--for-others", "exposure", "--rank", "--apis", "rare", "--apis", "even", *common
    )
    assert {line["exposure"] for line in ranked["sets"]} == {9 / 400}
    curve = answer_of(capsys, "--for-others", "exposure", "--curve", "--apis", "rare", *common)
    assert curve["points"][0]["empirical"] == 9 / 400
    with Monitor(database, audience=OTHERS) as monitor:
        explored = monitor.index(["rare", "even"], k=K).explore(["rare"])
        assert (explored.empirical, explored.suppressed) == (9 / 400, True)
        assert monitor.population().publishable_apis(K) == ("even", "rare")
        assert "own name" in monitor.population().apis
        assert monitor.population().users == 400
