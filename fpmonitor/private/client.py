"""The user's side: how a collection request is answered, and how answers are sealed."""

from __future__ import annotations

import itertools
import math
import secrets
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.ldp.mechanisms import hash_codes
from fpmonitor.private.files import decode, encode
from fpmonitor.private.keys import seal_message
from fpmonitor.private.study import (
    MATRIX_BITS,
    CollectionRequest,
    Randomisation,
    RedactionRule,
    Study,
    check_ask,
)
from fpmonitor.private.tokens import ABSENT, REDACTED, fitting
from fpmonitor.private.wire import (
    NONCE_BYTES,
    HpkeCiphertext,
    HpkeConfig,
    SealedReport,
    Upload,
    token_limit,
)
from fpmonitor.safe_files import read_bytes, write_bytes

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


_RANDOM = secrets.SystemRandom()
_MEMORY_BYTES = 64_000_000


def reports_for(
    study: Study,
    ask: CollectionRequest,
    tokens: Mapping[str, str],
    rng: random.Random = _RANDOM,
    *,
    answered: Iterable[CollectionRequest] = (),
) -> list[tuple[int, tuple[str, ...]]]:
    """Return a user's answers: for each set its number and the tokens, after redaction.

    Args:
        study, ask: The terms and the request.
        tokens: Token by API; an API that is missing is `absent`.
        rng: Draws cover redactions and randomised reports; simulations pass their own.
        answered: Requests of the study that the user answered before.
    """
    check_ask(study, ask, answered)
    # As in a report on this API alone: rules and randomisations list values in that form.
    single = token_limit(study.report_bytes, ("",))
    shown = {}
    # One draw for all sets: each further draw of a value would add its epsilon.
    # In one order: a set of texts has another one in each process, and a seed other draws then.
    for api in sorted({api for one in ask.sets for api in one}):
        token = fitting(tokens.get(api, ABSENT), single, study.id)
        if api in ask.randomise:
            token = randomised(token, ask.randomise[api], rng)
        # Of the report, not of the value: what is done to a report costs no epsilon.
        if api in ask.redact:
            token = redacted(token, ask.redact[api], rng)
        shown[api] = token
    answers = []
    for index, apis in enumerate(ask.sets):
        limit = token_limit(study.report_bytes, apis)
        answers.append((index, tuple(fitting(shown[api], limit, study.id) for api in apis)))
    return answers


def redacted(token: str, rule: RedactionRule, rng: random.Random) -> str:
    """Apply a redaction rule."""
    if token not in rule.keep or rng.random() < rule.cover:
        return REDACTED
    return token


def randomised(token: str, plan: Randomisation, rng: random.Random) -> str:
    """Draw a report of a token under local differential privacy."""
    size = len(plan.values)
    # The last value stands for all that are not listed.
    own_index = plan.values.index(token) if token in plan.values else size - 1
    if plan.matrix is not None:
        return f"={_row(plan.matrix, own_index, rng)}"
    if plan.is_unary:
        own, other = _bit_chances(plan)
        chances = (own if index == own_index else other for index in range(size))
        return "=" + "".join(str(int(rng.random() < chance)) for chance in chances)
    if plan.hash_range is not None:
        seed = rng.getrandbits(64)
        truth = hash_codes(
            np.array([seed], dtype=np.uint64), np.array([own_index]), plan.hash_range
        )
        reported_hash = _response(int(truth[0]), plan.hash_range, plan.level, rng)
        return f"={seed:016x}.{reported_hash}"
    return plan.values[_response(own_index, size, plan.level, rng)]


def _row(matrix: Sequence[Sequence[int]], own_index: int, rng: random.Random) -> int:
    """Draw a report from the integer weights of a column, without rounding or rejection."""
    drawn = rng.getrandbits(MATRIX_BITS)
    reached = itertools.accumulate(row[own_index] for row in matrix)
    # Columns sum to 2^52, so that every draw falls below some end.
    return next(number for number, end in enumerate(reached) if drawn < end)


def _bit_chances(plan: Randomisation) -> tuple[float, float]:
    """Return the probabilities of a 1 for the user's own value and for any other."""
    match plan.mechanism:
        case "rappor":
            return 1 / (1 + math.exp(-plan.level / 2)), 1 / (1 + math.exp(plan.level / 2))
        case "blh":
            return 1 / (1 + math.exp(-plan.level)), 0.5
        case _:
            return 0.5, 1 / (1 + math.exp(plan.level))


def _response(own_index: int, size: int, epsilon: float, rng: random.Random) -> int:
    """Draw by randomised response on `range(size)`."""
    if rng.random() < 1 / (1 + (size - 1) * math.exp(-epsilon)):
        return own_index
    other = rng.randrange(size - 1)
    # Skips the own value.
    return other + (other >= own_index)


class AnsweredRequests:
    """The requests that a user answered: the memory that users keep, and no service has.

    It is what makes a user answer a request once, and the analyst no more than the study allows.

    Args:
        requests: What was answered before.
        path: File to keep it in, which is read first; only in memory by default.

    Raises:
        InputError: The file cannot be read, or is none of this kind.
    """

    def __init__(
        self, requests: Iterable[CollectionRequest] = (), *, path: Path | None = None
    ) -> None:
        self._requests = list(requests)
        self._path = path
        self._logs: frozenset[str] = frozenset()
        if path is not None and path.exists():
            memory = _memory(path)
            self._requests += memory.requests
            self._logs = memory.logs

    def know_logs(self, logs: Iterable[str], others: Iterable[Path]) -> None:
        """Learn of which logs the users are; what these answered by other memories counts, too.

        Only who simulates users knows it. `logs` are digests: a copy of a log names the same users.
        """
        self._logs |= {*logs}
        for memory in map(_memory, others):
            if not self._logs.isdisjoint(memory.logs):
                self._requests += memory.requests

    def __iter__(self) -> Iterator[CollectionRequest]:
        return iter(self._requests)

    def check_new(self, ask: CollectionRequest) -> None:
        """Refuse a request that was answered before.

        Raises:
            InputError: It was: a second answer would count as another user's.
        """
        if ask.id in {one.id for one in self._requests}:
            raise InputError(
                f"{ask.words} was answered before: a second answer would count as another user",
                hint="send the sealed messages of the first answer again, which count once",
            )

    def add(self, ask: CollectionRequest) -> None:
        """Remember an answer, before any message leaves."""
        self._requests.append(ask)
        if self._path is not None:
            # Each once: what other memories of the same users answered is among them.
            requests = tuple({one.id: one for one in self._requests}.values())
            memory = _MemoryFile(requests=requests, logs=self._logs)
            write_bytes(self._path, [encode(memory)])


class _MemoryFile(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="fpmonitor-answered-1"
):
    requests: tuple[CollectionRequest, ...]
    logs: frozenset[str] = frozenset()


def _memory(path: Path) -> _MemoryFile:
    content = read_bytes(path, "memory of answered requests", most=_MEMORY_BYTES)
    return decode(content, _MemoryFile, str(path))


def seal_answers(
    study: Study,
    ask: CollectionRequest,
    tokens: Mapping[str, str],
    *,
    answered: AnsweredRequests,
    shuffler: HpkeConfig,
    recipient: HpkeConfig,
    rng: random.Random = _RANDOM,
) -> list[Upload]:
    """Answer a request, once, with one sealed message for each set, in random order.

    Args:
        answered: What this user answered before; the request is added.
        shuffler, recipient: Public keys to seal with; the shuffler's layer is the outer one.

    Raises:
        InputError: It was answered before, breaks the terms of the study, or a key is that of
            another role.
    """
    answered.check_new(ask)
    for config, role in ((shuffler, "shuffler"), (recipient, ask.recipient)):
        if config.role not in (None, role):
            raise InputError(f"seal: the key is the {config.role}'s, and the {role} is to open it")
    answers = reports_for(study, ask, tokens, rng, answered=answered)
    # First: if the rest fails, an answer is missing, and none is sent twice.
    answered.add(ask)
    uploads = []
    for index, report_tokens in answers:
        report = SealedReport(secrets.token_bytes(NONCE_BYTES), index, report_tokens)
        inner = seal_message(report.encode(study.report_bytes), recipient, ask.recipient, ask.id)
        uploads.append(Upload(ask.id, seal_for_shuffler(inner, shuffler, ask.id)))
    # Not by `rng`, as a seed must not tell which message is of which set.
    _RANDOM.shuffle(uploads)
    return uploads


def seal_for_shuffler(inner: HpkeCiphertext, shuffler: HpkeConfig, ask: bytes) -> HpkeCiphertext:
    """Add the outer layer to a message that only the recipient can open."""
    return seal_message(inner.encode(), shuffler, "shuffler", ask)
