"""The account of a log: what each of its members is taken for, and why.

A member is a column, or what is at a path of nested ones. The evidence is its values in the whole
log; its name decides only where they leave it open.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from fpmonitor.refusals import kind_of
from fpmonitor.results import Members

Kind = Literal[
    "API",
    "user",
    "time",
    "source",
    "weight",
    "identifier",
    "metadata",
    "constant",
    "empty",
    "errors",
    "not taken",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
# What is stored, however little it tells: in another log it may tell more.
STORED: frozenset[Kind] = frozenset({"API", "constant", "empty", "errors"})
SET_ASIDE: frozenset[Kind] = frozenset({"identifier", "metadata", "not taken"})
_PLURALS = {"API": "APIs", "identifier": "identifiers"}
TIME_OF_RECORDS = "the time of each record"
# Without `none`, `unknown` and `no`: browsers return these, so who has one would lack a value.
MISSING = frozenset(
    ["", "-", "--", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "(null)", "nil", "undefined"]
).union(
    ["\\n", "(not set)", "not set", "missing", "not available", "n.a."],
    ["#na", "nat", "[null]", "<null>", "(not provided)", "(empty)", "(blank)", "\u2013", "\u2014"],
    ["(none)", "<none>", "n/d", "not applicable", "not supported", "unset", "(unset)", "no value"],
    ["unavailable", "undef", "blank", "na_character_", "n.a", "n_a", "n\\a", ".", "..", "..."],
    ["$null", "not_available", "not_supported", "not_set", "not_applicable", "void"],
    # spreadsheets and people in other languages
    ["#nv", "#value!", "#wert!", "#div/0!", "#ref!", "#bezug!", "#name?", "#num!", "#zahl!"],
    ["#null!", "n/v", "n.v.", "k.a.", "k. a.", "keine angabe", "(leer)", "s/d", "sin datos"],
    ["no disponible", "non disponible", "n.d.", "无", "空", "缺失"],
)


@dataclass(frozen=True, slots=True)
class Member:
    """What one member of a log is.

    Attributes:
        path: Its name in the log, nested ones joined by dots.
        kind: What it is taken for.
        api: The API as which it is stored; null for what is none.
        why: The reason, in a few words.
        records: Records that have a value.
        values: Different values; null where the members were counted without being read.
        commonest: The value that most records have, where at least k users share it; else null.
    """

    path: str
    kind: Kind
    api: str | None
    why: str
    records: int
    values: int | None
    commonest: str | None = None


@dataclass(frozen=True, slots=True)
class Account(Members):
    """What the members of a log are.

    Attributes:
        records: Records that could be used.
        unit: What a record tells of: a `user` whom a column names, a `visitor` by a rule, or a
            `row`.
        members: Every member of the log.
    """

    records: int
    unit: str
    members: tuple[Member, ...]

    @property
    def set_aside(self) -> list[Member]:
        """Members that are not stored, although they have values and are no field of a record."""
        return [
            member for member in self.members if member.kind in SET_ASIDE or _is_spare_time(member)
        ]

    def to_text(self) -> str:
        """Return the account as it is kept."""
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))


def read_account(text: str | None) -> Account | None:
    """Read what `to_text` returned; null for logs that were stored without an account."""
    if text is None:
        return None
    content = json.loads(text)
    members = tuple(Member(**member) for member in content["members"])
    return Account(content["records"], content["unit"], members)


def _is_spare_time(member: Member) -> bool:
    return member.kind == "time" and member.why != TIME_OF_RECORDS


def summary(members: Iterable[Member]) -> str:
    """Say in one line how many members are of which kind."""
    return summary_of(Counter(member.kind for member in members))


def summary_of(counts: Mapping[Kind, int]) -> str:
    """Say in one line how many members are of which kind; empty for none at all."""
    total = sum(counts.values())
    if not total:
        return ""
    phrases = [f"{counts[kind]} {_words(kind, counts[kind])}" for kind in KINDS if counts.get(kind)]
    return f"from {total} column{'s' if total != 1 else ''}: {', '.join(phrases)}"


def _words(kind: Kind, times: int) -> str:
    return kind if times == 1 else _PLURALS.get(kind, kind)


def missing_of(member: Member) -> str:
    """Say how the records of a member spell that they have no value; empty where they do not."""
    # `judgement` writes it behind the reason, so that accounts that are stored need no member for
    # it.
    return member.why.partition("; ")[2] if member.kind in STORED else ""


def is_error_text(text: str) -> bool:
    """Whether a value tells that reading the API went wrong, such as `ERR_TIMEOUT`."""
    # To `kind_of` a spelling of a missing value is a stand-in; here it is no error.
    return kind_of("value", text) != "value" and not is_missing_text(text)


def is_missing_text(text: str) -> bool:
    """Whether a value is how some writer spells that there is none, such as `NA` or `-`."""
    # Python writes `None`; in lower case it is a value, as of a pointer or a permission.
    return text == "None" or text.strip().casefold() in MISSING
