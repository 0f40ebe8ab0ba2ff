"""Shuffler, curator and analyst: what they count, what they refuse, and what they never hold."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from fpmonitor.errors import InputError, PolicyError, StoreError
from fpmonitor.private.client import AnsweredRequests, fitting, seal_answers, seal_for_shuffler
from fpmonitor.private.keys import SecretKeys, seal_message
from fpmonitor.private.recipient import Recipient
from fpmonitor.private.shuffler import Shuffler, upload_bytes, upload_id
from fpmonitor.private.store import (
    ClosedAsk,
    ConflictError,
    Outcome,
    RoleStore,
    incomplete,
    read_counts,
)
from fpmonitor.private.study import (
    CollectionRequest,
    Randomisation,
    RedactionRule,
    SetPromise,
    Study,
    first_ask,
    release_ask,
)
from fpmonitor.private.wire import (
    HpkeCiphertext,
    SealedReport,
    Upload,
    WireError,
    decode_batch,
    decode_uploads,
    encode_batch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.private.study import Role

APIS = ("A.one", "A.three", "A.two")
ROLES: tuple[Role, ...] = ("shuffler", "curator", "analyst")
RINGS = {role: SecretKeys.generate(role) for role in ROLES}
SIGN = RINGS["curator"].sign
STUDY = Study(
    name="test", apis=APIS, population=1000, k=3, budget=0.5, minimum_batch=4,
    curator_key=RINGS["curator"].verifying,
)  # fmt: skip
PROMISE = SetPromise(digest="", upper=0.1)
FIRST = first_ask(STUDY)
LAST = release_ask(STUDY, PROMISE, APIS, SIGN)
KEY = {role: ring.keys[0].config for role, ring in RINGS.items()}
FEW = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def user(number: int) -> dict[str, str]:
    return {"A.one": f"={number % 3}", "A.two": f"=é{number % 2}", "A.three": f"={number}" * 9}


def sealed(ask: CollectionRequest, tokens: Mapping[str, str], study: Study = STUDY) -> list[Upload]:
    return seal_answers(
        study,
        ask,
        tokens,
        answered=AnsweredRequests(),
        shuffler=KEY["shuffler"],
        recipient=KEY[ask.recipient],
    )


def body(ask: CollectionRequest, users: range) -> bytes:
    return b"".join(one.encode() for number in users for one in sealed(ask, user(number)))


@dataclass
class World:
    shuffler: Shuffler
    curator: Recipient
    analyst: Recipient

    def pass_on(self) -> Counter[str]:
        """All unsent batches to their recipients; what these refused."""
        refused: Counter[str] = Counter()
        for batch_id, ask_id in self.shuffler.unsent().items():
            role = self.shuffler.store.asks[ask_id].recipient
            recipient = self.curator if role == "curator" else self.analyst
            refused.update(recipient.take(self.shuffler.batch(batch_id)).refused)
            self.shuffler.sent(batch_id)
        return refused


class Opened:
    """Opens roles in a folder; they are closed at the end of the test."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def shuffler(self, name: str = "shuffler.db", ring: SecretKeys = RINGS["shuffler"]) -> Shuffler:
        role = Shuffler(self._folder / name, STUDY, ring)
        self._stack.enter_context(role.store)
        return role

    def recipient(self, ring: SecretKeys, name: str = "") -> Recipient:
        role = Recipient(self._folder / (name or f"{ring.role}.db"), STUDY, ring)
        self._stack.enter_context(role.store)
        return role


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with ExitStack() as stack:
        yield Opened(tmp_path, stack)


@pytest.fixture
def world(opened: Opened) -> World:
    made = World(
        opened.shuffler(), opened.recipient(RINGS["curator"]), opened.recipient(RINGS["analyst"])
    )
    for ask, recipient in ((FIRST, made.curator), (LAST, made.analyst)):
        made.shuffler.add_ask(ask)
        recipient.add_ask(ask)
    return made


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = [row[0] for row in connection.execute(names)]
        return {
            table: connection.execute(f'SELECT * FROM "{table}"').fetchall() for table in tables
        }


# ---- Counting


def test_marginals_and_the_released_set_are_counted_exactly(world: World) -> None:
    users = range(25)
    for ask in (FIRST, LAST):
        assert world.shuffler.take([body(ask, users)])[0].accepted == 25 * len(ask.sets)
        world.shuffler.close_ask(ask.id)
        assert not world.pass_on()
    for api in APIS:
        truth = Counter((user(number)[api],) for number in users)
        assert world.curator.counts(FIRST)[(api,)] == truth
    joint = Counter(tuple(user(number)[api] for api in APIS) for number in users)
    assert world.analyst.counts(LAST)[APIS] == joint


def test_the_curator_holds_no_joint_record(world: World) -> None:
    """Every table is read: none has tokens of two APIs in one row, or anything per user."""
    world.shuffler.take([body(FIRST, range(25))])
    world.shuffler.close_ask(FIRST.id)
    world.pass_on()
    tables = rows_of(world.curator.store.path)
    assert set(tables) == {"study", "asks", "tally", "received", "nonces", "counts"}
    for ask_id, set_index, tokens, users in tables["counts"]:
        assert ask_id == FIRST.id
        assert len(json.loads(tokens)) == 1
        assert FIRST.sets[set_index] in {("A.one",), ("A.two",), ("A.three",)}
        assert users >= 1
    assert all(len(row) == 2 for row in tables["nonces"])
    assert len(tables["nonces"]) == 75
    held = {row[1] for row in tables["nonces"]}
    assert not held & {cell for row in tables["counts"] for cell in row}


def test_the_shuffler_holds_no_value_and_no_order_of_arrival(world: World) -> None:
    uploads = [one for number in range(3) for one in sealed(FIRST, {"A.one": "=marked"})]
    for one in uploads:
        world.shuffler.take([one.encode()])
    tables = rows_of(world.shuffler.store.path)
    assert set(tables) == {"study", "asks", "tally", "taken", "held", "unsent"}
    digests = [row[1] for row in tables["held"]]
    assert digests == sorted(digests)
    assert all(len(row) == 3 for row in tables["held"])
    assert b"marked" not in world.shuffler.store.path.read_bytes()
    assert b"marked" not in b"".join(row[2] for row in tables["held"])


def test_stores_are_for_their_owner_alone(world: World) -> None:
    for store in (world.shuffler.store, world.curator.store):
        for path in store.path.parent.glob(f"{store.path.name}*"):
            assert path.stat().st_mode & 0o077 == 0


# ---- The minimum


def test_below_the_minimum_nothing_is_passed_on_even_when_the_ask_closes(world: World) -> None:
    world.shuffler.take([body(LAST, range(3))])
    assert world.shuffler.release() == 0
    with pytest.raises(ConflictError, match="3 messages wait, below the minimum of 4"):
        world.shuffler.close_ask(LAST.id)
    assert world.shuffler.store.tally()[LAST.id] == {"accepted": 3, "held": 3}
    assert world.shuffler.close_ask(LAST.id, drop=True) == ClosedAsk(0, 3)
    assert world.shuffler.close_ask(LAST.id) == ClosedAsk(0, 3)  # again: nothing changes
    with pytest.raises(ConflictError, match=r"round 1 .*: no answer has arrived"):
        world.shuffler.close_ask(FIRST.id)
    assert not world.shuffler.store.is_closed(FIRST.id)
    assert not world.shuffler.unsent()
    assert world.shuffler.store.tally()[LAST.id] == {
        "accepted": 3, "held": 0, "below the minimum": 3
    }  # fmt: skip
    assert not rows_of(world.shuffler.store.path)["held"]


def test_messages_that_do_not_open_do_not_help_to_reach_the_minimum(world: World) -> None:
    wrong = Upload(LAST.id, seal_message(b"\0" * 1079, KEY["shuffler"], "curator", LAST.id))
    receipt = world.shuffler.take([body(LAST, range(3)) + wrong.encode()])[0]
    assert receipt.refused == {"does not open": 1}
    world.shuffler.close_ask(LAST.id, drop=True)
    assert not world.shuffler.unsent()


def test_while_an_ask_is_open_a_minimum_stays_behind(world: World) -> None:
    world.shuffler.take([body(LAST, range(7))])
    assert world.shuffler.release() == 0
    world.shuffler.take([body(LAST, range(7, 8))])
    assert world.shuffler.release() == 4
    world.shuffler.take([body(LAST, range(8, 9))])
    assert world.shuffler.release() == 0
    world.shuffler.close_ask(LAST.id)
    world.pass_on()
    assert sum(world.analyst.counts(LAST)[APIS].values()) == 9


def test_who_is_passed_on_first_and_in_which_order_is_random(opened: Opened) -> None:
    """Of 8 users 4 leave; who they are, and their places, follow neither arrival nor digests."""
    first, place, digest = Counter[int](), Counter[int](), Counter[int]()
    for trial in range(40):
        shuffler = opened.shuffler(f"{trial}.db")
        shuffler.add_ask(LAST)
        uploads = [sealed(LAST, user(number))[0] for number in range(8)]
        shuffler.take([one.encode() for one in uploads])
        assert shuffler.release() == 4
        arrived = [frame.payload for frame in map(inner_of, uploads)]
        [batch_id] = shuffler.unsent()
        left = [frame.payload for frame in decode_batch(shuffler.batch(batch_id))[2]]
        first.update(arrived.index(payload) for payload in left)
        place[left.index(arrived[0]) if arrived[0] in left else -1] += 1
        smallest = arrived[min(range(8), key=lambda number: upload_id(uploads[number]))]
        digest[left.index(smallest) if smallest in left else -1] += 1
    assert set(first) == set(range(8))
    assert max(first.values()) < 36  # each leaves with probability 1/2: 20 of 40 on average
    assert min(first.values()) > 4
    assert len(place) >= 3
    assert len(digest) >= 3


def inner_of(upload: Upload) -> HpkeCiphertext:
    from fpmonitor.private.keys import open_message  # noqa: PLC0415 -- here only
    from fpmonitor.private.wire import decode_uploads  # noqa: PLC0415

    keys = RINGS["shuffler"].by_id()
    return next(
        decode_uploads(bytes(16) + open_message(upload.sealed, keys, "shuffler", upload.ask))
    ).sealed


# ---- What is refused


def refused_by_shuffler(world: World, data: bytes) -> Mapping[str, int]:
    receipt = world.shuffler.take([data])[0]
    assert receipt.accepted == 0
    return receipt.refused


def test_uploads_that_do_not_count_are_counted_by_their_reason(world: World) -> None:
    [good] = sealed(LAST, user(1))
    frame, data = good.sealed, good.encode()
    other_ask = Upload(FIRST.id, frame).encode()
    unknown_ask = Upload(b"?" * 16, frame).encode()
    other_key = Upload(LAST.id, HpkeCiphertext(9, frame.encapsulated, frame.payload)).encode()
    longer = Upload(LAST.id, HpkeCiphertext(1, frame.encapsulated, frame.payload + b"\0"))
    moved = frame.encapsulated + frame.payload
    border = Upload(LAST.id, HpkeCiphertext(1, moved[:31], moved[31:]))
    changed = bytearray(data)
    changed[-1] ^= 1
    assert refused_by_shuffler(world, other_ask) == {"does not open": 1}
    assert refused_by_shuffler(world, unknown_ask) == {"unknown ask": 1}
    assert refused_by_shuffler(world, other_key) == {"unknown key": 1}
    assert refused_by_shuffler(world, longer.encode()) == {"wrong length": 1}
    assert refused_by_shuffler(world, border.encode()) == {"wrong length": 1}
    assert refused_by_shuffler(world, bytes(changed)) == {"does not open": 1}
    assert refused_by_shuffler(world, data[:-1]) == {"unreadable": 1}
    assert world.shuffler.take([data])[0].accepted == 1
    assert refused_by_shuffler(world, data) == {"replayed": 1}
    world.shuffler.close_ask(LAST.id, drop=True)
    assert refused_by_shuffler(world, data) == {"closed ask": 1}
    tally = world.shuffler.store.tally()
    assert tally[LAST.id]["wrong length"] == 2
    assert tally[b""] == {"unknown ask": 1, "unreadable": 1}


def test_what_is_not_a_sealed_message_inside_is_refused(world: World) -> None:
    inner = seal_message(b"\0" * STUDY.report_bytes, KEY["analyst"], "analyst", LAST.id)
    other_border = HpkeCiphertext(1, b"k" * 31, inner.payload + b"+").encode()
    for content in (b"\xff" * len(other_border), other_border):
        upload = Upload(LAST.id, seal_message(content, KEY["shuffler"], "shuffler", LAST.id))
        assert refused_by_shuffler(world, upload.encode()) == {"unreadable": 1}


def test_an_upload_counts_once_also_after_it_was_passed_on(world: World) -> None:
    data = body(LAST, range(8))
    assert world.shuffler.take([data, data]) [1].refused == {"replayed": 8}  # fmt: skip
    assert world.shuffler.release() == 4
    assert refused_by_shuffler(world, data) == {"replayed": 8}
    world.shuffler.close_ask(LAST.id)
    assert not world.pass_on()
    assert sum(world.analyst.counts(LAST)[APIS].values()) == 8


def report_of(tokens: tuple[str, ...], index: int = 0, nonce: bytes = b"") -> bytes:
    nonce = nonce or random.randbytes(16)
    return SealedReport(nonce, index, tokens).encode(STUDY.report_bytes)


def batch_of(*plaintexts: bytes, ask: CollectionRequest = LAST, batch_id: bytes = b"") -> bytes:
    frames = tuple(
        seal_message(one, KEY[ask.recipient], ask.recipient, ask.id) for one in plaintexts
    )
    return batched(ask.id, batch_id or random.randbytes(16), frames)


def batched(ask: bytes, batch_id: bytes, frames: Sequence[HpkeCiphertext]) -> bytes:
    return encode_batch(ask, batch_id, [frame.encode() for frame in frames])


GOOD = ("=1", "absent", "#" + "0" * 32)


@pytest.mark.parametrize(
    ("plaintext", "reason"),
    [
        (report_of(GOOD, index=1), "unknown set"),
        (report_of(GOOD[:2]), "wrong tokens"),
        (report_of((*GOOD, "=1")), "wrong tokens"),
        (report_of(("1", "=1", "=1")), "wrong tokens"),
        (report_of(("#" + "0" * 31, "=1", "=1")), "wrong tokens"),
        (report_of(("#" + "G" * 32, "=1", "=1")), "wrong tokens"),
        (report_of(("Absent", "=1", "=1")), "wrong tokens"),
        (report_of(("=" + "x" * 335, "=1", "=1")), "wrong tokens"),
        (report_of(GOOD)[:-1] + b"\1", "unreadable"),
        (b"\xff" * 1024, "unreadable"),
        (report_of(GOOD)[:-1], "wrong length"),
        (report_of(GOOD) + b"\0", "wrong length"),
    ],
)
def test_reports_that_break_the_form_do_not_count(
    world: World, plaintext: bytes, reason: str
) -> None:
    receipt = world.analyst.take(batch_of(report_of(GOOD), plaintext))
    assert (receipt.accepted, dict(receipt.refused)) == (1, {reason: 1})
    assert world.analyst.counts(LAST)[APIS] == {GOOD: 1}
    assert world.analyst.store.tally()[LAST.id] == {"accepted": 1, reason: 1}


def test_a_report_counts_once_whoever_seals_it_again(world: World) -> None:
    """The shuffler cannot know: an outer layer is made anew by anybody who kept the report."""
    report = report_of(GOOD, nonce=b"n" * 16)
    inner = seal_message(report, KEY["analyst"], "analyst", LAST.id)
    uploads = [
        Upload(LAST.id, seal_for_shuffler(inner, KEY["shuffler"], LAST.id)) for _ in range(3)
    ] + [Upload(LAST.id, seal_for_shuffler(seal_message(report, KEY["analyst"], "analyst", LAST.id),
                                           KEY["shuffler"], LAST.id))]  # fmt: skip
    assert world.shuffler.take([b"".join(one.encode() for one in uploads)])[0].accepted == 4
    world.shuffler.close_ask(LAST.id)
    assert world.pass_on() == {"replayed": 3}
    assert world.analyst.counts(LAST)[APIS] == {GOOD: 1}


def test_a_batch_counts_once(world: World) -> None:
    data = batch_of(report_of(GOOD), report_of(GOOD))
    assert world.analyst.take(data).accepted == 2
    again = world.analyst.take(data)
    assert (again.accepted, dict(again.refused)) == (0, {"taken before": 2})
    assert world.analyst.counts(LAST)[APIS] == {GOOD: 2}


def test_a_message_of_another_ask_epoch_or_recipient_does_not_open(world: World) -> None:
    next_epoch = release_ask(STUDY, PROMISE, APIS, SIGN, epoch=2)
    wrong = (
        seal_message(report_of(GOOD), KEY["analyst"], "analyst", next_epoch.id),
        seal_message(report_of(GOOD), KEY["analyst"], "curator", LAST.id),
        seal_message(report_of(GOOD), KEY["curator"], "analyst", LAST.id),
    )
    receipt = world.analyst.take(batched(LAST.id, b"b" * 16, wrong), drop=True)
    assert (receipt.accepted, dict(receipt.refused)) == (0, {"does not open": 3})


def test_a_message_for_a_retired_key_does_not_count_and_one_for_an_old_key_does(
    opened: Opened,
) -> None:
    ring = RINGS["analyst"].rotated()
    data = batch_of(report_of(GOOD))
    for keys, expected in ((ring, {}), (ring.retired(1), {"unknown key": 1})):
        role = opened.recipient(keys, f"{len(keys.keys)}.db")
        role.add_ask(LAST)
        assert dict(role.take(data, drop=True).refused) == expected


def test_a_batch_that_the_keys_do_not_open_waits_for_the_right_ones(opened: Opened) -> None:
    ring = RINGS["analyst"]
    role = opened.recipient(ring.rotated().retired(1))
    role.add_ask(LAST)
    data = batch_of(*(report_of(GOOD) for _ in range(10)))
    with pytest.raises(ConflictError, match="10 of 10 messages do not open"):
        role.take(data)
    assert role.store.tally()[LAST.id] == {}
    role.use_keys(ring)
    assert role.take(data).accepted == 10
    sealed_for = [LAST.id] + 9 * [FIRST.id]
    few = tuple(seal_message(report_of(GOOD), KEY["analyst"], "analyst", ask) for ask in sealed_for)
    assert role.take(batched(LAST.id, b"few".ljust(16), few)).accepted == 1


def test_nobody_counts_more_answers_than_the_population_can_give(tmp_path: Path) -> None:
    study = structs.replace(STUDY, population=5)
    ask = release_ask(study, PROMISE, APIS, SIGN)
    given = [
        upload.encode()
        for number in range(8)
        for upload in seal_answers(
            study,
            ask,
            user(number),
            answered=AnsweredRequests(),
            shuffler=KEY["shuffler"],
            recipient=KEY["analyst"],
        )
    ]
    shuffler = Shuffler(tmp_path / "s.db", study, RINGS["shuffler"])
    analyst = Recipient(tmp_path / "a.db", study, RINGS["analyst"])
    with shuffler.store, analyst.store:
        for role in (shuffler, analyst):
            role.add_ask(ask)
        assert shuffler.take([b"".join(given[:3])])[0].accepted == 3
        receipt = shuffler.take([b"".join(given)])[0]
        assert receipt.outcomes == {"accepted": 2, "replayed": 3, "above the population": 3}
        again = shuffler.take([b"".join(given[:3])])[0]
        assert again.outcomes == {"accepted": 0, "replayed": 3}
        frames = tuple(
            seal_message(report_of(GOOD), KEY["analyst"], "analyst", ask.id) for _ in range(8)
        )
        assert analyst.take(batched(ask.id, b"b" * 16, frames)).outcomes == {
            "accepted": 5, "above the population": 3
        }  # fmt: skip


@given(st.data())
@FEW
def test_changed_bytes_never_crash_and_never_count(world: World, data: st.DataObject) -> None:
    changed = bytearray(body(LAST, range(2)))
    for place in data.draw(st.sets(st.integers(0, len(changed) - 1), min_size=1, max_size=3)):
        changed[place] ^= data.draw(st.integers(1, 255))
    before = world.shuffler.store.tally()[LAST.id]["held"]
    receipt = world.shuffler.take([bytes(changed)])[0]
    assert receipt.accepted + sum(receipt.refused.values()) <= 2 + 1
    assert receipt.accepted <= 1
    assert world.shuffler.store.tally()[LAST.id]["held"] == before + receipt.accepted


@given(st.binary(max_size=400))
@FEW
def test_any_bytes_get_a_receipt(world: World, data: bytes) -> None:
    receipt = world.shuffler.take([data])[0]
    assert receipt.accepted == 0
    assert bool(receipt.refused) == bool(data)


@given(st.binary(max_size=1200), st.binary(max_size=300))
@FEW
def test_any_content_of_a_batch_is_counted_or_refused(
    world: World, plaintext: bytes, tail: bytes
) -> None:
    filled = plaintext.ljust(STUDY.report_bytes, b"\0")
    receipt = world.analyst.take(batch_of(plaintext, filled))
    assert receipt.accepted + sum(receipt.refused.values()) == 2
    with pytest.raises(WireError):
        world.analyst.take(batch_of(plaintext)[: 30 + len(tail) % 40])


# ---- Rules of the ask


def test_what_should_have_been_withheld_does_not_reach_the_counts(opened: Opened) -> None:
    long = "=" + "y" * 400
    rule = RedactionRule(keep=frozenset({"=common", long}))
    ask = release_ask(STUDY, PROMISE, APIS, SIGN, number=3, rules={"A.one": rule})
    role = opened.recipient(RINGS["analyst"])
    role.add_ask(ask)
    short = fitting(long, 333, STUDY.id)
    allowed = [("=common", "=1", "=1"), ("redacted", "=1", "=1"), (short, "=1", "=1")]
    others = [("=rare", "=1", "=1"), ("#" + "0" * 32, "=1", "=1"), ("absent", "=1", "=1")]
    receipt = role.take(batch_of(*map(report_of, allowed), *map(report_of, others), ask=ask))
    assert (receipt.accepted, dict(receipt.refused)) == (3, {"wrong tokens": 3})
    assert set(role.counts(ask)[APIS]) == set(allowed)


def test_randomised_answers_have_the_form_of_their_mechanism(opened: Opened) -> None:
    values = ("=a", "=b", "=c")
    ask = CollectionRequest(
        study=STUDY.id.hex(), epoch=1, round=1, recipient="curator", sets=(("A.one",), ("A.two",)),
        randomise={
            "A.one": Randomisation(mechanism="oue", epsilon=1.0, values=values),
            "A.two": Randomisation(mechanism="grr", epsilon=1.0, values=values),
        },
    )  # fmt: skip
    role = opened.recipient(RINGS["curator"])
    role.add_ask(ask)
    good = [(0, "=010"), (0, "=111"), (1, "=a"), (1, "=c")]
    bad = [(0, "=01"), (0, "=012"), (0, "=a"), (0, "absent"), (1, "=d"), (1, "absent")]
    reports = [report_of((token,), index) for index, token in [*good, *bad]]
    receipt = role.take(batch_of(*reports, ask=ask))
    assert (receipt.accepted, dict(receipt.refused)) == (4, {"wrong tokens": 6})


def test_two_questions_cannot_stand_for_one_round(world: World) -> None:
    """A curator who asks some users this and others that is refused by the shuffler."""
    other = CollectionRequest(
        study=STUDY.id.hex(), epoch=1, round=1, recipient="curator", sets=(("A.one",),)
    )
    with pytest.raises(InputError, match="another request"):
        world.shuffler.add_ask(other)
    world.shuffler.add_ask(FIRST)


def test_an_ask_that_breaks_the_terms_is_refused_by_every_role(world: World) -> None:
    pairs = CollectionRequest(
        study=STUDY.id.hex(), epoch=1, round=4, recipient="curator", sets=(APIS[:2],)
    )
    foreign = structs.replace(LAST, study="73" * 16)
    written_by_hand = structs.replace(LAST, epoch=2, promise=None)
    signed_by_another = release_ask(
        STUDY, PROMISE, APIS, SecretKeys.generate("curator").sign, epoch=2
    )
    one_too_many = release_ask(STUDY, PROMISE, APIS[:1], SIGN, number=3)
    for ask in (pairs, foreign, written_by_hand, signed_by_another):
        for role in (world.shuffler, world.curator, world.analyst):
            with pytest.raises(InputError, match="ask"):
                role.add_ask(ask)
    for role in (world.shuffler, world.analyst):
        with pytest.raises(InputError, match="release 2 of epoch 1"):
            role.add_ask(one_too_many)


# ---- Stores


@pytest.mark.usefixtures("world")
def test_a_store_is_of_one_role(opened: Opened) -> None:
    with pytest.raises(InputError, match="the store of the shuffler, not of the curator"):
        opened.recipient(RINGS["curator"], "shuffler.db")
    with pytest.raises(InputError, match="the store of the curator, not of the analyst"):
        opened.recipient(RINGS["analyst"], "curator.db")


def test_a_copy_of_the_file_of_a_running_recipient_has_all_counts(
    world: World, tmp_path: Path
) -> None:
    world.analyst.take(batch_of(*(report_of(GOOD) for _ in range(5))))
    path = world.analyst.store.path
    assert path.with_name(f"{path.name}-wal").stat().st_size == 0
    (tmp_path / "copy").write_bytes(path.read_bytes())
    world.analyst.store.backup(tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    for name in ("copy", "backup"):
        with RoleStore(tmp_path / name, STUDY, "analyst") as store:
            assert read_counts(store, LAST)[APIS] == {GOOD: 5}


def test_a_recipient_knows_what_is_under_way_and_what_rounds_are_taken(world: World) -> None:
    store = world.curator.store
    world.curator.add_ask(LAST)
    with pytest.raises(InputError, match="round 2 of epoch 1 has another request"):
        world.curator.add_ask(structs.replace(FIRST, round=2))
    reports = [report_of(("=1",), index) for index in (0, 0, 0, 1, 1, 2)]
    world.curator.take(batch_of(*reports, ask=FIRST))
    assert incomplete(store, world.curator.asks) == ["1 to 3 answers on a set in round 1"]
    world.curator.add_ask(second := structs.replace(FIRST, epoch=2))
    world.curator.take(batch_of(report_of(("=1",), 0), report_of(("=1",), 2), ask=second))
    assert incomplete(store, [second]) == ["0 to 1 answers on a set in round 1"]
    world.curator.take(batch_of(report_of(("=1",), 1), ask=second))
    world.curator.close_ask(FIRST.id, 9)
    assert incomplete(store, world.curator.asks) == ["3 messages of round 1 are under way"]
    world.curator.take(batch_of(*(report_of(("=2",), n) for n in (1, 2, 2)), ask=FIRST))
    assert incomplete(store, world.curator.asks) == []
    assert store.is_closed(FIRST.id)


def test_what_arrives_while_a_request_closes_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, late = body(LAST, range(4)), body(LAST, range(4, 8))
    assert world.shuffler.take([data])[0].accepted == 4
    load, receipts = world.shuffler.store.load_asks, []
    arrival = threading.Thread(target=lambda: receipts.extend(world.shuffler.take([late])))

    def load_late() -> None:
        arrival.start()
        arrival.join(timeout=0.3)
        load()

    monkeypatch.setattr(world.shuffler.store, "load_asks", load_late)
    closed = world.shuffler.close_ask(LAST.id)
    arrival.join()
    assert (closed.passed_on, receipts[0].refused) == (4, {"closed ask": 4})


def test_two_who_close_a_request_at_once_both_hear_what_became_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.shuffler.take([body(LAST, range(4))])
    load, closed = world.shuffler.store.load_asks, []
    other = threading.Thread(target=lambda: closed.append(world.shuffler.close_ask(LAST.id)))

    def load_late() -> None:
        if not other.ident:
            other.start()
            other.join(timeout=0.3)
        load()

    monkeypatch.setattr(world.shuffler.store, "load_asks", load_late)
    closed.append(world.shuffler.close_ask(LAST.id))
    other.join()
    assert closed == [ClosedAsk(4, 0)] * 2


def test_two_who_tell_a_recipient_of_a_close_at_once_count_its_messages_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.curator.store
    load = store.load_asks

    def load_late() -> None:
        monkeypatch.setattr(store, "load_asks", load)
        other = threading.Thread(target=world.curator.close_ask, args=(FIRST.id, 9))
        other.start()
        other.join()
        load()

    monkeypatch.setattr(store, "load_asks", load_late)
    world.curator.close_ask(FIRST.id, 9)
    assert store.tally()[FIRST.id]["passed on"] == 9


def test_what_arrives_after_another_process_closed_a_request_is_refused(opened: Opened) -> None:
    """`private shuffle --close` beside the service: it was taken, and held for ever."""
    service, command = opened.shuffler(), opened.shuffler()
    command.add_ask(LAST)
    service.add_ask(LAST)  # it was an error, as of a store that cannot be written
    assert service.take([body(LAST, range(4))])[0].accepted == 4
    assert command.close_ask(LAST.id).passed_on == 4
    assert service.take([body(LAST, range(4, 8))])[0].refused == {"closed ask": 4}
    assert service.close_ask(LAST.id).passed_on == 4, "closing again changes nothing"


def test_requests_that_another_process_added_are_known(opened: Opened) -> None:
    """`--ask` beside a service: what answered them was refused until it was started again."""
    shuffler, analyst = opened.shuffler(), opened.recipient(RINGS["analyst"])
    opened.shuffler().add_ask(LAST)
    opened.recipient(RINGS["analyst"]).add_ask(LAST)
    assert shuffler.take([body(LAST, range(4))])[0].accepted == 4
    shuffler.close_ask(LAST.id)
    [batch_id] = shuffler.unsent()
    assert analyst.take(shuffler.batch(batch_id)).accepted == 4


def test_batches_of_requests_that_another_process_added_name_their_recipient(
    opened: Opened,
) -> None:
    """Found beside a service, the batch named no request that `private shuffle -o` knew."""
    command, service = opened.shuffler(), opened.shuffler()
    service.add_ask(LAST)
    service.take([body(LAST, range(4))])
    service.close_ask(LAST.id)
    [ask_id] = command.unsent().values()
    assert command.store.asks[ask_id].recipient == "analyst"


def test_what_another_process_passed_on_is_not_passed_on_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`private shuffle` beside the service: batches without messages left, and were counted."""
    service = opened.shuffler()
    service.add_ask(LAST)
    service.take([body(LAST, range(8))])
    command, look = opened.shuffler(), service.store.tally

    def looked_before() -> dict[bytes, Counter[Outcome]]:
        monkeypatch.undo()
        seen = look()
        command.close_ask(LAST.id)
        return seen

    monkeypatch.setattr(service.store, "tally", looked_before)
    assert service.release() == 0
    assert service.store.tally()[LAST.id] == Counter({"accepted": 8, "passed on": 8})
    assert len(service.unsent()) == 1


def test_a_copy_has_its_name_when_it_is_whole(world: World, tmp_path: Path) -> None:
    """A kill left the part of a copy under its name."""
    store, seen = world.shuffler.store, list[bool]()

    def look() -> int:
        seen.append((tmp_path / "copy.db").exists())
        return 0

    store._connection.set_progress_handler(look, 1)
    store.backup(tmp_path / "copy.db")
    assert seen
    assert not any(seen)


def test_a_copy_that_fails_leaves_no_file(world: World, tmp_path: Path) -> None:
    store = world.shuffler.store
    with store.transaction(), pytest.raises(StoreError):  # which SQLite refuses to copy
        store.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    store.backup(tmp_path / "copy.db")


def test_a_store_opened_again_knows_what_it_knew(opened: Opened) -> None:
    data = body(LAST, range(8))
    for turn in range(3):
        shuffler = opened.shuffler("s.db")
        shuffler.add_ask(LAST)
        receipt = shuffler.take([data])[0]
        assert receipt.accepted == (8 if turn == 0 else 0)
        shuffler.release()
        assert len(shuffler.unsent()) == 1
        shuffler.store.close()


@pytest.mark.parametrize("minimum", [1, 10**400], ids=["one", "endless"])
def test_a_minimum_that_no_pool_is_made_for_is_of_no_study(minimum: int) -> None:
    """A file may hold a number that no double is: the shuffler ended in a traceback."""
    with pytest.raises(PolicyError, match="minimum_batch"):
        Study(name="t", apis=APIS, population=1000, k=3, budget=0.5, minimum_batch=minimum)


def test_a_store_is_of_one_study_and_of_one_kind_of_role(tmp_path: Path) -> None:
    Shuffler(tmp_path / "s.db", STUDY, RINGS["shuffler"]).store.close()
    other = Study(name="other", apis=APIS, population=1000, k=3, budget=0.5)
    with pytest.raises(InputError, match="another study"):
        Shuffler(tmp_path / "s.db", other, RINGS["shuffler"])
    with pytest.raises(InputError, match="not to the shuffler"):
        Shuffler(tmp_path / "t.db", STUDY, RINGS["curator"])
    with pytest.raises(InputError, match="not to a recipient"):
        Recipient(tmp_path / "u.db", STUDY, RINGS["shuffler"])


def test_a_file_that_is_no_store_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"s\.db"):
        Shuffler(path, STUDY, RINGS["shuffler"])
    with pytest.raises(StoreError, match="none"):
        Shuffler(tmp_path / "none" / "s.db", STUDY, RINGS["shuffler"])
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="not the store of a role"):
        Shuffler(tmp_path / "other.db", STUDY, RINGS["shuffler"])


def test_a_failed_write_keeps_nothing_and_says_so(world: World) -> None:
    with closing(sqlite3.connect(world.shuffler.store.path)) as connection:
        connection.execute("DROP TABLE held")
    with pytest.raises(StoreError, match="cannot be written"):
        world.shuffler.take([body(LAST, range(2))])
    assert world.shuffler.store.tally()[LAST.id] == {}


def test_uploads_have_the_length_that_files_are_cut_by() -> None:
    assert {len(one.encode()) for one in sealed(FIRST, user(3))} == {upload_bytes(STUDY)}
    assert len(list(decode_uploads(body(FIRST, range(2))))) == 6


def test_a_batch_that_was_sent_meanwhile_is_none(tmp_path: Path) -> None:
    shuffler = Shuffler(tmp_path / "s.db", STUDY, RINGS["shuffler"])
    with shuffler.store:
        assert shuffler.batch(b"b" * 16) is None
