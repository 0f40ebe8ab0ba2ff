"""The user's side of collection without joint records: tokens, what is withheld, what is sealed."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats

from fpmonitor.errors import InputError
from fpmonitor.ldp.mechanisms import LocalHash, RandomisedResponse
from fpmonitor.private.client import (
    AnsweredRequests,
    randomised,
    redacted,
    reports_for,
    seal_answers,
)
from fpmonitor.private.keys import SealError, SecretKeys, open_message
from fpmonitor.private.randomised import mechanism_of
from fpmonitor.private.study import (
    DIGEST_BYTES,
    MECHANISMS,
    UNARY,
    CollectionRequest,
    Randomisation,
    RedactionRule,
    SetPromise,
    Study,
    check_ask,
    first_ask,
    release_ask,
)
from fpmonitor.private.tokens import fitting, is_report, token_of
from fpmonitor.private.wire import decode_report, decode_uploads, token_limit

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.private.study import MechanismName
    from fpmonitor.private.wire import HpkeCiphertext, SealedReport, Upload

APIS = ("a", "b", "c")
SHUFFLER = SecretKeys.generate("shuffler")
CURATOR = SecretKeys.generate("curator")


def study_of(**terms: Any) -> Study:
    return Study(
        **({"name": "t", "apis": APIS, "population": 1000, "k": 2, "budget": 0.5,
            "curator_key": CURATOR.verifying} | terms)
    )  # fmt: skip


def grr(epsilon: float, *values: str) -> Randomisation:
    return Randomisation(mechanism="grr", epsilon=epsilon, values=values)


FLAT = grr(0.1, *(f"={value}" for value in range(50)))


@pytest.mark.parametrize(
    ("status", "value", "token"),
    [
        ("value", "1", "=1"),
        ("value", "", "="),
        ("value", "absent", "=absent"),
        ("undefined", None, "undefined"),
        ("error", None, "error"),
        ("error", "what it said", "error"),
    ],
)
def test_a_token_is_the_value_or_the_word_of_its_status(
    status: str, value: str | None, token: str
) -> None:
    assert token_of(status, value) == token


@given(text=st.text(max_size=80), limit=st.integers(DIGEST_BYTES, 80))
def test_a_token_stays_or_becomes_a_digest_that_fits(text: str, limit: int) -> None:
    found = fitting("=" + text, limit, b"study")
    raw = ("=" + text).encode("utf-8", "replace")
    if len(raw) <= limit:
        assert found == raw.decode()
    else:
        assert found == "#" + hashlib.sha256(b"study" + raw).hexdigest()[:32]
    assert len(found.encode()) <= limit


def test_digests_of_two_studies_cannot_be_compared() -> None:
    long = "=" + "x" * 100
    assert fitting(long, 50, study_of().id) != fitting(long, 50, study_of(name="other").id)


def test_an_answer_has_the_tokens_of_each_set_in_its_order() -> None:
    study = study_of(largest_set=2)
    ask = replace(first_ask(study), sets=(("b",), ("a", "b"), ("a", "c")))
    assert reports_for(study, ask, {"a": "=1", "b": "error"}) == [
        (0, ("error",)),
        (1, ("=1", "error")),
        (2, ("=1", "absent")),
    ]


def test_a_value_has_one_form_alone_and_in_all_sets_with_room() -> None:
    """A rule that keeps a token found alone keeps it where it is asked with others."""
    study = study_of(report_bytes=19 + 3 * (DIGEST_BYTES + 2), largest_set=3)
    long = "=" + "v" * 60
    single = token_limit(study.report_bytes, ("a",))
    assert len(long) <= single
    rule = RedactionRule(keep=frozenset({fitting(long, single, study.id)}))
    ask = replace(first_ask(study), sets=(("a",), APIS), redact={"a": rule})
    [(_, alone), (_, together)] = reports_for(study, ask, {"a": long})
    assert alone == (long,)
    assert together[0] == fitting(long, DIGEST_BYTES, study.id)


def test_a_redaction_hides_what_is_not_kept_and_nothing_else() -> None:
    rng = random.Random(1)
    rule = RedactionRule(keep=frozenset({"=1", "absent"}))
    tokens = ["=1", "=2", "absent", "error", "redacted"]
    assert [redacted(token, rule, rng) for token in tokens] == [
        "=1", "redacted", "absent", "redacted", "redacted",
    ]  # fmt: skip


@pytest.mark.long
def test_covering_redactions_come_with_their_probability() -> None:
    rng = random.Random(2)
    rule = RedactionRule(keep=frozenset({"=1"}), cover=0.2)
    hidden = sum(redacted("=1", rule, rng) == "redacted" for _ in range(20_000))
    assert stats.binomtest(hidden, 20_000, 0.2).pvalue > 1e-4
    assert all(redacted("=2", rule, rng) == "redacted" for _ in range(100))


def test_a_token_is_withheld_alike_in_all_sets_of_an_ask() -> None:
    """Two draws of one user would tell what the first one hid."""
    study = study_of(largest_set=2)
    rule = RedactionRule(keep=frozenset({"=1"}), cover=0.5)
    ask = replace(first_ask(study), sets=(("a",), ("a", "b"), ("a", "c")), redact={"a": rule})
    seen = Counter()
    for seed in range(200):
        answers = reports_for(study, ask, {"a": "=1"}, random.Random(seed))
        assert len({tokens[0] for _, tokens in answers}) == 1
        seen[answers[0][1][0]] += 1
    assert min(seen.values()) > 50


@pytest.mark.long
@pytest.mark.parametrize("held", ["=x", "=y", "=z", "=not listed"])
def test_randomised_response_has_the_law_of_its_matrix(held: str) -> None:
    plan = grr(1.2, "=x", "=y", "=z", "redacted")
    rng = random.Random(3)
    counts = Counter(randomised(held, plan, rng) for _ in range(20_000))
    column = plan.values.index(held) if held in plan.values else 3
    law = RandomisedResponse(4, 1.2).matrix()[:, column]
    assert set(counts) == set(plan.values)
    seen = [counts[value] for value in plan.values]
    assert stats.chisquare(seen, law * 20_000).pvalue > 1e-4


@pytest.mark.long
@pytest.mark.parametrize("held", ["=x", "=z", "=not listed"])
@pytest.mark.parametrize("mechanism", UNARY)
def test_unary_encoding_has_the_law_of_its_matrix(held: str, mechanism: MechanismName) -> None:
    plan = Randomisation(mechanism=mechanism, epsilon=0.8, values=("=x", "=y", "=z"))
    rng = random.Random(4)
    counts = Counter(randomised(held, plan, rng) for _ in range(20_000))
    column = plan.values.index(held) if held in plan.values else 2
    law = mechanism_of(plan).matrix()[:, column]
    seen = [counts["=" + format(bits, "03b")[::-1]] for bits in range(8)]
    assert sum(seen) == 20_000
    assert stats.chisquare(seen, law * 20_000).pvalue > 1e-4


@pytest.mark.long
def test_local_hashing_supports_values_as_often_as_its_mechanism_does() -> None:
    values = tuple(f"={value}" for value in range(6))
    plan = Randomisation(mechanism="lh", epsilon=1.1, values=values, hash_range=4)
    mechanism = mechanism_of(plan)
    assert isinstance(mechanism, LocalHash)
    rng = random.Random(6)
    parts = [randomised("=2", plan, rng)[1:].split(".") for _ in range(20_000)]
    seeds = np.array([int(seed, 16) for seed, _ in parts], dtype=np.uint64)
    hashes = np.array([int(told) for _, told in parts])
    counts = mechanism.support_counts((seeds, hashes))
    assert len(set(seeds)) == 20_000
    for value, count in enumerate(counts):
        chance = mechanism.true_support if value == 2 else mechanism.false_support
        assert stats.binomtest(int(count), 20_000, chance).pvalue > 1e-4


@settings(max_examples=50, deadline=None)
@given(
    epsilon=st.floats(0.01, 20),
    size=st.integers(2, 30),
    mechanism=st.sampled_from(MECHANISMS),
    seed=st.integers(0, 2**32),
)
def test_a_report_is_of_the_form_that_the_recipient_expects(
    epsilon: float, size: int, mechanism: MechanismName, seed: int
) -> None:
    values = tuple(f"={value}" for value in range(size))
    hash_range = size if mechanism == "lh" else None
    plan = Randomisation(mechanism=mechanism, epsilon=epsilon, values=values, hash_range=hash_range)
    report = randomised("=1", plan, random.Random(seed))
    assert report in values if mechanism == "grr" else is_report(report, plan)


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "rr"}, {"epsilon": 0.0}, {"epsilon": float("inf")}, {"values": ("=a",)},
        {"values": ("=a", "=a")}, {"hash_range": 4}, {"mechanism": "lh"},
        {"mechanism": "lh", "hash_range": 1}, {"mechanism": "lh", "hash_range": 2.5},
    ],
)  # fmt: skip
def test_a_randomisation_out_of_range_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="ask"):
        Randomisation(**({"mechanism": "oue", "epsilon": 1.0, "values": ("=a", "=b")} | change))


def test_an_ask_with_hashing_is_read_as_it_was_written() -> None:
    plan = Randomisation(mechanism="lh", epsilon=1.0, values=("=a", "=b"), hash_range=5)
    ask = replace(first_ask(study_of()), randomise={"a": plan})
    assert CollectionRequest.from_bytes(ask.to_bytes()) == ask


def test_a_redaction_applies_to_the_report_and_not_to_the_value() -> None:
    study = study_of()
    plan = grr(0.5, "=1", "=2")
    rule = RedactionRule(keep=frozenset({"=2"}))
    ask = replace(first_ask(study), randomise={"a": plan}, redact={"a": rule})
    held = {
        reports_for(study, ask, {"a": "=1"}, random.Random(seed))[0][1][0] for seed in range(50)
    }
    assert held == {"=2", "redacted"}


def release(
    study: Study, apis: tuple[str, ...], *, upper: float = 0.1, number: int = 2
) -> CollectionRequest:
    """A request for the analyst that the curator signed."""
    promise = SetPromise(digest="", upper=upper)
    return release_ask(study, promise, apis, CURATOR.sign, number=number)


def test_a_user_answers_a_request_once_and_remembers_it_in_a_file(tmp_path: Path) -> None:
    study = study_of(releases=1)
    first, second = release(study, ("a",)), release(study, ("b",), number=3)
    keys = {"shuffler": SHUFFLER.keys[0].config, "recipient": CURATOR.keys[0].config}
    path = tmp_path / "answered.json"
    assert seal_answers(study, first, {}, answered=AnsweredRequests(path=path), **keys)
    for refused, words in ((first, "was answered before"), (second, "release 2 of epoch 1")):
        with pytest.raises(InputError, match=words):
            seal_answers(study, refused, {}, answered=AnsweredRequests(path=path), **keys)
    path.write_text("{}")
    with pytest.raises(InputError, match=r"answered\.json"):
        AnsweredRequests(path=path)


def test_nothing_is_sealed_for_the_key_of_another_role() -> None:
    study = study_of()
    own = {"shuffler": SHUFFLER.public.preferred, "recipient": CURATOR.public.preferred}
    assert seal_answers(study, first_ask(study), {}, answered=AnsweredRequests(), **own)
    for place, ring in (("shuffler", CURATOR), ("recipient", SHUFFLER)):
        with pytest.raises(InputError, match=f"the key is the {ring.role}'s"):
            seal_answers(
                study, first_ask(study), {}, answered=AnsweredRequests(),
                **{**own, place: ring.public.preferred},
            )  # fmt: skip


def test_a_user_answers_the_analyst_as_often_as_the_study_says_and_only_what_was_signed() -> None:
    study = study_of(releases=2)
    released = [release(study, apis, number=n) for n, apis in enumerate((("a",), ("b",), APIS), 2)]
    before = [first_ask(study), *released[:2]]
    for ask in released[:2]:
        reports_for(study, ask, {}, answered=before)
    with pytest.raises(InputError, match="release 3 of epoch 1, the study allows 2"):
        reports_for(study, released[2], {}, answered=before)
    mallory = SecretKeys.generate("curator")
    forged = release_ask(study, SetPromise(digest="", upper=0.1), APIS, mallory.sign)
    assert forged.promise is not None
    shouted = replace(released[0].promise, signature=released[0].promise.signature.upper())
    unsigned = replace(study_of(curator_key=""), apis=study.apis)
    for refused in (
        (study, forged),
        (study, replace(forged, promise=None)),
        (study, replace(forged, promise=replace(forged.promise, signature="z"))),
        (study, replace(released[0], promise=shouted)),
        (unsigned, replace(released[0], study=unsigned.id.hex())),
    ):
        with pytest.raises(InputError, match="did not sign"):
            reports_for(*refused, {})


def asks(study: Study) -> dict[str, CollectionRequest]:
    """Asks that break the terms, by what the message says."""
    first = first_ask(study)
    two = grr(1.0, "=1", "=2")
    bits = Randomisation(
        mechanism="oue", epsilon=1.0, values=tuple(f"={value}" for value in range(1003))
    )
    return {
        "another study": replace(first, study="0" * 32),
        "names APIs": replace(first, sets=(("d",),)),
        "one set only": replace(first, recipient="analyst"),
        "3 APIs together, the study allows 2": replace(first, sets=(APIS,)),
        "did not sign": replace(first, sets=(("a",),), recipient="analyst"),
        "did not sign .*": replace(release(study, ("a",)), round=3),
        "shows the analyst 3 APIs": release(study, APIS),
        "promises 0.6, the budget of the study is 0.5": release(study, ("a", "b"), upper=0.6),
        "randomised together by grr or matrices": replace(
            first, sets=(("a", "b"),), randomise={"a": two}
        ),
        "reports of a take 1004 bytes, .* has room for 1003": replace(first, randomise={"a": bits}),
    }


@pytest.mark.parametrize("what", asks(study_of()))
def test_no_user_answers_an_ask_that_breaks_the_terms(what: str) -> None:
    study = study_of(largest_set=2, largest_release=2)
    ask = asks(study)[what]
    for refused in (
        lambda: check_ask(study, ask),
        lambda: reports_for(study, ask, {}),
        lambda: seal_answers(
            study,
            ask,
            {},
            answered=AnsweredRequests(),
            shuffler=SHUFFLER.keys[0].config,
            recipient=CURATOR.keys[0].config,
        ),
    ):
        with pytest.raises(InputError, match=what):
            refused()


def test_users_answer_asks_within_the_terms() -> None:
    study = study_of(largest_set=2)
    first = first_ask(study)
    check_ask(study, first)
    check_ask(study, replace(first, sets=(("a", "b"), ("b", "c"))))
    check_ask(study, release(study, APIS))
    check_ask(study, replace(first, randomise={"a": grr(1.0, "=1", "=2")}))


def sealed(
    study: Study, ask: CollectionRequest, tokens: dict[str, str], **how: Any
) -> list[Upload]:
    keys = {"shuffler": SHUFFLER.keys[0].config, "recipient": CURATOR.keys[0].config}
    return seal_answers(study, ask, tokens, answered=AnsweredRequests(), **keys, **how)


def frame_of(inner: bytes) -> HpkeCiphertext:
    """The frame in the layer of the shuffler."""
    return next(decode_uploads(bytes(16) + inner)).sealed


def opened(upload: Upload) -> SealedReport:
    inner = open_message(upload.sealed, SHUFFLER.by_id(), "shuffler", upload.ask)
    return decode_report(open_message(frame_of(inner), CURATOR.by_id(), "curator", upload.ask))


def test_each_set_is_one_message_that_only_its_recipient_reads() -> None:
    study = study_of(largest_set=2)
    ask = replace(first_ask(study), sets=(("a",), ("b", "c")))
    uploads = sealed(study, ask, {"a": "=secret", "b": "=1"})
    assert {upload.ask for upload in uploads} == {ask.id}
    found = {report.set_index: report.tokens for report in map(opened, uploads)}
    assert found == {0: ("=secret",), 1: ("=1", "absent")}
    for upload in uploads:
        assert b"secret" not in upload.encode()
        inner = open_message(upload.sealed, SHUFFLER.by_id(), "shuffler", ask.id)
        assert b"secret" not in inner
        with pytest.raises(SealError):
            open_message(frame_of(inner), SHUFFLER.by_id(), "curator", ask.id)
        with pytest.raises(SealError):
            open_message(frame_of(inner), CURATOR.by_id(), "analyst", ask.id)
        with pytest.raises(SealError):
            open_message(
                frame_of(inner),
                CURATOR.by_id(),
                "curator",
                b"0" * 16,
            )


@settings(max_examples=20, deadline=None)
@given(values=st.lists(st.text(max_size=2000), min_size=3, max_size=3))
def test_all_messages_have_one_length_whatever_they_say(values: list[str]) -> None:
    study = study_of(largest_set=3)
    ask = replace(first_ask(study), sets=(("a",), ("a", "b"), APIS))
    tokens = {api: f"={value}" for api, value in zip(APIS, values, strict=True)}
    lengths = {len(upload.encode()) for upload in sealed(study, ask, tokens)}
    assert lengths == {126 + study.report_bytes}


def test_messages_leave_in_random_order_with_fresh_nonces() -> None:
    study = study_of()
    ask = first_ask(study)
    orders, nonces = Counter(), set()
    for _ in range(300):
        reports = [opened(upload) for upload in sealed(study, ask, {"a": "=1"})]
        orders[tuple(report.set_index for report in reports)] += 1
        nonces |= {report.nonce for report in reports}
    assert len(nonces) == 900
    assert len(orders) == 6
    assert stats.chisquare(list(orders.values())).pvalue > 1e-6


def test_a_seeded_generator_decides_the_answers_but_no_secret() -> None:
    """Simulations can be repeated; nonces, keys and the order stay unpredictable."""
    study = study_of()
    ask = replace(first_ask(study), randomise={"a": FLAT})
    runs = [sealed(study, ask, {"a": "=1"}, rng=random.Random(7)) for _ in range(2)]
    told = [{opened(one).set_index: opened(one).tokens for one in run} for run in runs]
    assert told[0] == told[1]
    nonces = [{opened(one).nonce for one in run} for run in runs]
    assert not nonces[0] & nonces[1]
    other = sealed(study, ask, {"a": "=1"}, rng=random.Random(8))
    assert {opened(one).set_index: opened(one).tokens for one in other} != told[0]


def test_without_a_seed_users_draw_differently() -> None:
    study = study_of()
    ask = replace(first_ask(study), randomise={"a": FLAT})
    drawn = Counter(reports_for(study, ask, {"a": "=1"})[0][1][0] for _ in range(500))
    law = np.full(50, (1 - RandomisedResponse(50, 0.1).matrix()[0, 0]) / 49) * 500
    law[1] = RandomisedResponse(50, 0.1).matrix()[0, 0] * 500
    seen = [drawn[f"={value}"] for value in range(50)]
    assert stats.chisquare(seen, law).pvalue > 1e-6
