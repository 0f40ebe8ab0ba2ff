"""Studies, the terms of a collection, and the collection request of each round.

Both are JSON files. Their ids are the first 16 bytes of the SHA-256 of the file, so that whoever
answers a request has seen exactly these terms, and an answer to one request fits no other.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, Self, get_args

import msgspec
from msgspec.structs import replace

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.policy import MAX_POPULATION, check_share, check_threshold
from fpmonitor.private.files import decode, encode
from fpmonitor.private.wire import ID_BYTES, MAX_TOKENS, token_limit
from fpmonitor.safe_files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    Sign = Callable[[bytes], str]

RecipientRole = Literal["curator", "analyst"]
Role = Literal["shuffler", RecipientRole]
RECIPIENTS: tuple[RecipientRole, ...] = get_args(RecipientRole)
ROLES: tuple[Role, ...] = get_args(Role)
# As it was written: 1 and 1.0 are other bytes, and so other ids.
Number = int | float
# `#` and 128 bits in hexadecimal: the shortest form that every value has.
DIGEST_BYTES = 33
MAX_REPORT_BYTES = 60_000  # below 2^16: the length of a token has two bytes
MAX_SETS = 65_536  # a report names its set by two bytes
MAX_FILE_BYTES = 16_000_000
ProtocolName = Literal["grr", "rappor", "oue", "blh", "lh"]
MechanismName = Literal[ProtocolName, "matrix"]
# The mechanisms that an epsilon fixes.
MECHANISMS: tuple[ProtocolName, ...] = get_args(ProtocolName)
UNARY = ("rappor", "oue", "blh")
MAX_HASHES = 2**31
FIRST_PORT = 8027
# Matrices are in whole numbers of 2^-52: doubles hold each of them and their sums exactly, so that
# a page draws from exactly the distribution that Python draws from.
MATRIX_BITS = 52
MATRIX_TOTAL = 2**MATRIX_BITS
MAX_MATRIX_CELLS = 65_536
_LEVEL_TOLERANCE = 1e-9


class _File(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Content of a file whose id is a hash of its bytes."""

    kind: ClassVar[str]

    @cached_property
    def _bytes(self) -> bytes:
        # Cached: every message is sealed for the id, and anybody may request the bytes.
        return encode(self)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return self._bytes

    @cached_property
    def id(self) -> bytes:
        """First 16 bytes of the SHA-256 of the file."""
        return hashlib.sha256(self._bytes).digest()[:ID_BYTES]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the content of a file.

        Raises:
            InputError: The bytes are something else, or not written as fpmonitor writes them.
        """
        content = decode(data, cls, cls.kind)
        if content.to_bytes() != data:
            raise InputError(f"{cls.kind}: not written by fpmonitor, so that its id would differ")
        return content

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; errors as of `from_bytes`, and where it cannot be read."""
        data = read_bytes(path, cls.kind, most=MAX_FILE_BYTES)
        try:
            return cls.from_bytes(data)
        except InputError as error:
            raise InputError(f"{path}: {error.message}", hint=error.hint) from error


class Study(_File, frozen=True, kw_only=True, tag_field="format", tag="fpmonitor-study-1"):
    """Terms that all users agree to by answering.

    Attributes:
        name: Name for people.
        apis: APIs that may be requested, sorted.
        population, k, budget, delta: The policy: the exposure `Q(n, k)` of what the analyst sees
            must be at most `budget`, with probability `1 - delta`.
        largest_set: Largest number of APIs in a set that users answer to the curator; 1: marginals
            only.
        largest_release: Largest number of APIs in a set that users answer to the analyst.
        releases: Largest number of requests for the analyst that a user answers in an epoch.
        curator_key: Key of the curator's signatures, in hexadecimal: users answer the analyst only
            what it signed. Empty: nothing can be released.
        minimum_batch: Number of messages per requested set below which the shuffler passes nothing
            on.
        report_bytes: Length of every report before sealing, bytes.

    Raises:
        PolicyError: A number is out of range.
        InputError: There are no APIs, too many, or they are out of order.
    """

    kind: ClassVar[str] = "study"
    name: str
    apis: tuple[str, ...]
    population: int
    k: int
    budget: Number
    delta: Number = 0.05
    largest_set: int = 1
    largest_release: int = MAX_TOKENS
    releases: int = 1
    curator_key: str = ""
    minimum_batch: int = 1000
    report_bytes: int = 1024

    def __post_init__(self) -> None:
        check_threshold(self.k, self.population)
        check_share("budget", self.budget)
        check_share("delta", self.delta)
        if not self.apis or list(self.apis) != sorted(set(self.apis)):
            raise InputError("study: apis must be a sorted list of distinct names")
        if len(self.apis) > MAX_TOKENS:
            raise InputError(f"study: at most {MAX_TOKENS} APIs")
        if not 1 <= self.largest_set <= len(self.apis):
            raise PolicyError("largest_set", f"must be from 1 to {len(self.apis)}")
        if not 1 <= self.largest_release <= MAX_TOKENS:
            raise PolicyError("largest_release", f"must be from 1 to {MAX_TOKENS}")
        if self.releases < 1:
            raise PolicyError("releases", "must be at least 1")
        if not re.fullmatch("([0-9a-f]{64})?", self.curator_key):
            raise InputError("study: curator_key must be 64 hexadecimal digits, or empty")
        # Megabytes are made of it, and a file may hold a number that no double is.
        if not 2 <= self.minimum_batch <= MAX_POPULATION:
            raise PolicyError("minimum_batch", f"must be from 2 to {MAX_POPULATION}")
        # Room for all APIs as digests, each with its length; nonce, set and number before them.
        least = (DIGEST_BYTES + 2) * len(self.apis) + ID_BYTES + 3
        if not least <= self.report_bytes <= MAX_REPORT_BYTES:
            raise PolicyError("report_bytes", f"must be from {least} to {MAX_REPORT_BYTES}")


class RedactionRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which tokens of an API users send."""

    keep: frozenset[str]  # Tokens that are sent; all others become `redacted`.
    # Probability, in [0, 1), with which a kept token becomes `redacted` as well.
    cover: Number = 0.0


class Randomisation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Local differential privacy (LDP) for an API.

    Raises:
        InputError: A member is out of range.
    """

    # `grr`: generalised randomised response; `rappor`, `oue`, `blh`: unary encoding with three
    # choices of its probabilities; `lh`: local hashing; `matrix`: any stochastic matrix.
    mechanism: MechanismName
    # LDP level, nats, positive; that of the matrix for `matrix`, null where it is infinite.
    epsilon: Number | None
    values: tuple[str, ...]  # Two or more tokens; any other token counts as the last of them.
    hash_range: int | None = None  # Number of hash values of `lh`; null for other mechanisms.
    # Of `matrix`: a row per report with its probability given each value, in multiples of `1 /
    # MATRIX_TOTAL`; columns sum to `MATRIX_TOTAL`. Null for other mechanisms.
    matrix: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        if len(set(self.values)) < max(2, len(self.values)):
            raise InputError("ask: values must be two or more distinct tokens")
        if self.mechanism == "matrix":
            self._check_matrix()
        else:
            self._check_protocol()

    def _check_protocol(self) -> None:
        if self.mechanism not in MECHANISMS or not 0 < self.level < math.inf:
            names = ", ".join(MECHANISMS)
            raise InputError(
                f"ask: mechanism must be one of {names} with epsilon above 0, or matrix"
            )
        # `isinstance` takes True, and msgspec checks only what is read from a file.
        is_range = type(self.hash_range) is int and 2 <= self.hash_range <= MAX_HASHES
        if self.mechanism == "lh" and not is_range:
            raise InputError(f"ask: lh needs a hash_range from 2 to {MAX_HASHES}")
        if self.mechanism != "lh" and self.hash_range is not None:
            raise InputError("ask: hash_range is only for lh")
        if self.matrix is not None:
            raise InputError("ask: matrix is only for the mechanism matrix")

    def _check_matrix(self) -> None:
        if self.hash_range is not None:
            raise InputError("ask: hash_range is only for lh")
        rows = self.matrix or ()
        if not rows or any(len(row) != len(self.values) for row in rows):
            raise InputError("ask: matrix must have a row per report with one cell per value")
        check_matrix_size(len(rows), len(self.values))
        if any(type(cell) is not int or cell < 0 for row in rows for cell in row):
            raise InputError("ask: cells of matrix must be whole numbers from 0")
        if any(sum(column) != MATRIX_TOTAL for column in zip(*rows, strict=True)):
            raise InputError(f"ask: columns of matrix must sum to 2^{MATRIX_BITS}")
        level = matrix_epsilon(rows)
        if self.level != level and not abs(self.level - level) <= _LEVEL_TOLERANCE:
            raise InputError("ask: epsilon must be the LDP level of matrix")

    @property
    def level(self) -> float:
        """LDP level, nats; infinite where there is none."""
        return math.inf if self.epsilon is None else self.epsilon

    @property
    def is_unary(self) -> bool:
        """Whether a report has a bit for each value."""
        return self.mechanism in UNARY

    @property
    def reports(self) -> int | None:
        """Number of different reports; null where they are too many for a matrix."""
        if self.matrix is not None:
            return len(self.matrix)
        return len(self.values) if self.mechanism == "grr" else None

    @property
    def longest_report(self) -> int:
        """Length of the longest report, bytes."""
        if self.is_unary:
            return 1 + len(self.values)
        if self.hash_range is not None:
            return len(f"={0:016x}.{self.hash_range - 1}")
        if self.matrix is not None:
            return len(f"={len(self.matrix) - 1}")
        return _longest(self.values)


class SetPromise(msgspec.Struct, frozen=True, kw_only=True):
    """What the curator promises of the set that the analyst is shown."""

    # SHA-256, in hexadecimal, of the selection or the redaction plan that the promise is from.
    digest: str
    upper: Number  # Upper limit of the exposure, a share.
    signature: str = ""  # Signature of the whole request with an empty signature, in hexadecimal.


class CollectionRequest(
    _File, frozen=True, kw_only=True, tag_field="format", tag="fpmonitor-ask-1"
):
    """What users answer in one round: which sets, for whom, and what is withheld.

    Attributes:
        study: Id of the study, in hexadecimal.
        epoch: Number of the collection; users may answer again in the next one.
        round: Number of the request within the epoch, from 1.
        recipient: The role that opens the answers.
        sets: Sets of APIs; a user sends one message for each.
        redact: Redaction rules by API.
        randomise: Local differential privacy by API.
        promise: What the curator promises of the set; null in requests for the curator.

    Raises:
        InputError: A member is out of range.
    """

    kind: ClassVar[str] = "ask"
    study: str
    epoch: int
    round: int
    recipient: RecipientRole
    sets: tuple[tuple[str, ...], ...]
    redact: Mapping[str, RedactionRule] = msgspec.field(default_factory=dict)
    randomise: Mapping[str, Randomisation] = msgspec.field(default_factory=dict)
    promise: SetPromise | None = None

    @property
    def words(self) -> str:
        """Which request it is, for people."""
        return f"round {self.round} of epoch {self.epoch} for the {self.recipient}"

    @property
    def epsilon(self) -> float | None:
        """LDP level of all answers of a user together, nats; null where one has none.

        A user draws one report on an API, which is the same in all sets.
        """
        answered_apis = {api for apis in self.sets for api in apis}
        level = sum(
            self.randomise[api].level if api in self.randomise else math.inf
            for api in answered_apis
        )
        return level if math.isfinite(level) else None

    def __post_init__(self) -> None:
        if not 0 < len(self.sets) <= MAX_SETS or len(set(self.sets)) < len(self.sets):
            raise InputError(f"ask: sets must be 1 to {MAX_SETS} distinct sets")
        if any(not one or list(one) != sorted(set(one)) for one in self.sets):
            raise InputError("ask: a set must be a sorted list of distinct APIs")
        if self.recipient not in RECIPIENTS or self.round < 1 or self.epoch < 0:
            raise InputError(
                "ask: recipient must be curator or analyst, epoch at least 0, round at least 1"
            )
        for rule in self.redact.values():
            if not 0 <= rule.cover < 1:
                raise InputError("ask: cover must be at least 0 and below 1")


def first_ask(study: Study, *, epoch: int = 1) -> CollectionRequest:
    """Return the request for each API alone: round 1, for the curator."""
    singles = tuple((api,) for api in study.apis)
    return CollectionRequest(
        study=study.id.hex(), epoch=epoch, round=1, recipient="curator", sets=singles
    )


def release_ask(
    study: Study,
    promise: SetPromise,
    apis: tuple[str, ...],
    sign: Sign,
    *,
    epoch: int = 1,
    number: int = 2,
    rules: Mapping[str, RedactionRule] | None = None,
) -> CollectionRequest:
    """Return the request that shows the analyst a set, signed by the curator.

    `sign` is that of the curator's keys, `number` that of the round; `rules` by API.
    """
    unsigned = CollectionRequest(
        study=study.id.hex(),
        epoch=epoch,
        round=number,
        recipient="analyst",
        sets=(apis,),
        redact=rules or {},
        promise=promise,
    )
    signed = replace(promise, signature=sign(unsigned.to_bytes()))
    return replace(unsigned, promise=signed)


def check_ask(
    study: Study, ask: CollectionRequest, answered: Iterable[CollectionRequest] = ()
) -> None:
    """Check that a request keeps the terms of its study; clients do so before they answer.

    `answered` are the requests that were taken before.

    Raises:
        InputError: The request belongs to another study, names other APIs, has larger sets than
            agreed, or more than one set for the analyst; the curator did not sign what it promises
            the analyst's users, the promise is above the budget, or it is one release too many; or
            a value that it lists, or a randomised report, is too long for a message.
    """
    if ask.study != study.id.hex():
        raise InputError("ask: belongs to another study")
    if not {api for one in ask.sets for api in one} <= set(study.apis):
        raise InputError("ask: names APIs that the study does not have")
    largest = max(map(len, ask.sets))
    if ask.recipient == "analyst":
        _check_release(study, ask, answered)
    if ask.recipient == "curator" and largest > study.largest_set:
        raise InputError(
            f"ask: shows the curator {largest} APIs together, the study allows {study.largest_set}"
        )
    _check_randomised_sets(ask)
    _check_room(token_limit(study.report_bytes, ("",)), ask)
    if token_limit(study.report_bytes, study.apis) < DIGEST_BYTES:
        raise InputError("study: report_bytes is too small for the tokens")


def _check_release(
    study: Study, ask: CollectionRequest, answered: Iterable[CollectionRequest]
) -> None:
    """Check what the analyst may be shown."""
    if len(ask.sets) > 1:
        raise InputError("ask: the analyst may see one set only")
    if len(ask.sets[0]) > study.largest_release:
        raise InputError(
            f"ask: shows the analyst {len(ask.sets[0])} APIs together, the study allows "
            f"{study.largest_release}"
        )
    promise = ask.promise
    if promise is None or not _is_promised(study, ask, promise):
        raise InputError(
            "ask: the curator of the study did not sign this request for the analyst",
            hint="`private select` writes and signs requests",
        )
    if not 0 <= promise.upper <= study.budget:
        raise InputError(
            f"ask: the curator promises {promise.upper:.6g}, the budget of the study is "
            f"{study.budget:.6g}"
        )
    released = {one.id for one in answered if one.recipient == "analyst" and one.epoch == ask.epoch}
    if len(released | {ask.id}) > study.releases:
        raise InputError(
            f"ask: release {len(released) + 1} of epoch {ask.epoch}, the study allows "
            f"{study.releases}"
        )


def _check_randomised_sets(ask: CollectionRequest) -> None:
    """Check that reports on several APIs can be decoded together: by one matrix, not too large."""
    for apis in ask.sets if ask.randomise else ():
        plans = [ask.randomise[api] for api in apis if api in ask.randomise]
        if len(apis) == 1:
            continue
        if len(plans) < len(apis) or any(plan.reports is None for plan in plans):
            raise InputError(
                "ask: APIs are randomised together by grr or matrices, and none beside plain ones"
            )
        reports = math.prod(plan.reports or 1 for plan in plans)
        try:
            check_matrix_size(reports, math.prod(len(plan.values) for plan in plans))
        except InputError as error:
            raise InputError(
                f"ask: {', '.join(apis)} have too many values to be randomised together",
                hint="two APIs may have 16 values each: name others, or omit --pairs",
            ) from error


def _is_promised(study: Study, ask: CollectionRequest, promise: SetPromise) -> bool:
    from fpmonitor.private.signature import is_signed  # noqa: PLC0415 -- an extra

    unsigned = replace(ask, promise=replace(promise, signature=""))
    return is_signed(unsigned.to_bytes(), promise.signature, study.curator_key)


def _check_room(room: int, ask: CollectionRequest) -> None:
    """Check that every listed value and randomised report fits into a message."""
    for api, plan in ask.randomise.items():
        longest = max(plan.longest_report, _longest(plan.values))
        if longest > room:
            raise InputError(
                f"ask: values or reports of {api} take {longest} bytes, a report of the study has "
                f"room for {room}",
                hint="list fewer or shorter values, or make a study with larger reports",
            )
    for api, rule in ask.redact.items():
        if _longest(rule.keep) > room:
            raise InputError(f"ask: the rule for {api} keeps a value longer than {room} bytes")


@lru_cache(maxsize=1024)  # a client checks the request for every user that it simulates
def _longest(tokens: tuple[str, ...] | frozenset[str]) -> int:
    return max((len(token.encode("utf-8", "replace")) for token in tokens), default=0)


def check_matrix_size(reports: int, values: int) -> None:
    """Check the size of a matrix, as every user loads the request.

    Raises:
        InputError: It is too large.
    """
    if reports * values > MAX_MATRIX_CELLS:
        raise InputError(
            f"ask: a matrix of {reports} reports by {values} values is too large",
            hint=f"at most {MAX_MATRIX_CELLS:,} cells",
        )


def matrix_epsilon(matrix: Sequence[Sequence[int]]) -> float:
    """Return the LDP level of a matrix, nats: the largest log ratio within a nonzero row."""
    rows = [(min(row), max(row)) for row in matrix if any(row)]
    # A report that one value never gives excludes it with certainty.
    if not all(least for least, _ in rows):
        return math.inf
    return max(math.log(most / least) for least, most in rows)
