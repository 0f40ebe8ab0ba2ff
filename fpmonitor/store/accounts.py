"""Makes the accounts of logs that are staged, and sets aside what is none of their APIs."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING, TypeAlias

from fpmonitor.account import (
    MISSING,
    SET_ASIDE,
    STORED,
    TIME_OF_RECORDS,
    Account,
    Kind,
    Member,
    read_account,
)
from fpmonitor.errors import InputError, excerpt, some_of
from fpmonitor.judgement import LOOKS, Profile, Setting, Verdict, judge_member
from fpmonitor.store.digests import values_are_digested
from fpmonitor.store.names import said_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.store.database import Database

_Counts: TypeAlias = "dict[str, tuple[int, int | None]]"
_Found: TypeAlias = "tuple[Profile, str]"  # of a member, and its commonest value
_FEWEST_USERS = 10  # who share the commonest value, where it is kept
# Option that says what a member looks like -> the field of which there may be one only.
_OPTIONS = {"time": "time", "user": "user", "weight": "user"}
_FIELDS: dict[str, tuple[Kind, None, str]] = {
    "user": ("user", None, "names the user"),
    "time": ("time", None, TIME_OF_RECORDS),
    "source": ("source", None, "names the source"),
    "weight": ("weight", None, "the number of users of each record"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Logs whose records and values are staged."""

    labels: Sequence[str]
    scan: Scan  # How they were read.
    apis: Mapping[str, int]  # Candidates -> their numbers.
    known: frozenset[str]  # APIs that the database had before.
    values_of: Callable[[str], dict[str, str]]  # Fragments of statements on one column.
    unit: str = "user"
    own: Sequence[Sequence[str]] = ()  # The candidates of each log, where they are several.


@dataclass(slots=True)
class Judged:
    """The account of one log, the column map it is read by, and what of it only the user can say.

    `rejected` counts records that cannot be stored, as far as a plan has looked; `reason` is the
    commonest.
    """

    account: Account
    column_map: ColumnMap
    asks: dict[str, Verdict] = field(default_factory=dict)
    rejected: int = 0
    reason: str = ""

    @property
    def taken(self) -> list[str]:
        """APIs that are stored; one without a value is an API of which nothing is known."""
        return [m.api for m in self.account.members if m.api is not None]


def account_for(database: Database, staged: Staged, column_map: ColumnMap) -> list[Judged]:
    """Say of each log what its members are."""
    fields = {
        "values": "SELECT 0 AS log, * FROM staged_visit",
        "users": "(SELECT count(*) FROM staged_user)",
    }
    if staged.own:
        fields = {
            "values": 'SELECT log, digest, "time", source, 1 AS records '
            "FROM staged WHERE problem IS NULL",
            "users": "count(DISTINCT digest)",
        }
    counted = {
        log: _counts(*numbers)
        for log, *numbers in database.rows("ingest/count_fields", fragments=fields)
    }
    found: dict[int, dict[str, _Found]] = defaultdict(dict)  # by log
    names = {number: name for name, number in staged.apis.items()}
    for log, api, records, values, texts, mode, times, missing in database.rows(
        "ingest/profile_members", missing=sorted(MISSING)
    ):
        profile = Profile(names[api], records, values, texts, times, missing or {})
        found[log][names[api]] = profile, mode
    judging = _Judging(database, staged, column_map, said_names(database) | dict(column_map.apis))
    return [
        judging.judged(counted.get(log) or _counts(), found[log], own)
        for log, own in enumerate(staged.own or [list(staged.apis)])
    ]


def _counts(*numbers: int) -> _Counts:
    """Return field -> the records with a value in it, and different values."""
    records, users, timed, times, sourced, sources = numbers or (0,) * 6
    return {
        "user": (records, users),
        "time": (timed, times),
        "source": (sourced, sources),
        "weight": (records, None),
    }


@dataclass
class _Judging:
    """Judges the members of the logs that are staged."""

    database: Database
    staged: Staged
    column_map: ColumnMap
    said: Mapping[str, str]

    def __post_init__(self) -> None:
        """See who may be told of."""
        self._is_digested = values_are_digested(self.database)
        self._most = max(self.database.rows("ingest/most_records_of_a_user")[0][0], 1)

    def judged(self, counted: _Counts, found: Mapping[str, _Found], own: Sequence[str]) -> Judged:
        """Judge the members of one log."""
        scan = self.staged.scan
        records, users = counted["user"]
        setting = Setting(
            users=users or 0,
            has_user=self.staged.unit != "row",
            has_time=counted["time"][0] > 0 or "time" in scan.fields,
        )
        members = [
            Member(path, *_FIELDS[name], *counted[name])
            for name, path in scan.fields.items()
            if counted[name][0] or not self.staged.own  # of several logs one may lack a field
        ]
        asks: dict[str, Verdict] = {}
        for name in sorted(own):
            profile, commonest = found.get(name) or (Profile(name, 0, 0, ()), "")
            path = scan.paths.get(name, name)
            verdict = self._verdict(profile, path, setting)
            if verdict.asks:
                asks[path] = verdict
            is_stored = verdict.kind in STORED
            members.append(
                Member(
                    path,
                    verdict.kind,
                    name if is_stored else None,
                    verdict.why,
                    profile.records,
                    profile.values,
                    commonest
                    if is_stored and self._is_shared(profile, commonest, records, setting.users)
                    else None,
                )
            )
        members += [
            Member(path, "not taken", None, left.why, left.records, None)
            for path, left in scan.not_taken.items()
            if path not in scan.fields.values()
        ]
        members += self._spare()
        account = Account(records, self.staged.unit, tuple(members))
        return Judged(account, self.column_map, asks)

    def _verdict(self, profile: Profile, path: str, setting: Setting) -> Verdict:
        names = (profile.path, path)
        # What the user says comes first, and then what the database holds already.
        if any(name in self.column_map.ignore for name in names):
            return Verdict("not taken", "--ignore")
        if said := [self.said[name] for name in names if name in self.said]:
            return Verdict("API", f"named {said[0] or 'an API'} by the user")
        stays = self.staged.known | self.column_map.expected
        verdict = judge_member(profile, setting, stays=profile.path in stays)
        if verdict.asks == "id" and (kind := self._earlier.get(path)):
            return Verdict(kind, "not stored of an earlier log either")
        return verdict

    @functools.cached_property
    def _earlier(self) -> dict[str, Kind]:
        """What earlier logs had that was not stored.

        The few rows of one more day often leave open what the first log has shown.
        """
        texts = (text for [text] in self.database.rows("ingest/recent_accounts"))
        latest = {
            m.path: m.kind for one in filter(None, map(read_account, texts)) for m in one.members
        }
        return {path: kind for path, kind in latest.items() if kind in SET_ASIDE}

    def _spare(self) -> list[Member]:
        members = []
        for place, (path, why) in enumerate(self.staged.scan.spare.items()):
            fragments = self.staged.values_of(f"s{place}")
            [(records, values)] = self.database.rows("ingest/count_spare", fragments=fragments)
            members.append(Member(path, "not taken", None, why, records, values))
        return members

    def _is_shared(self, profile: Profile, commonest: str, records: int, users: int) -> bool:
        """Whether enough users share the commonest value."""
        if self._is_digested or profile.most < _FEWEST_USERS:
            return False
        # Both are at most those who share it: where one suffices, no query is needed.
        certain = max(profile.most // self._most, users - (records - profile.most))
        return certain >= _FEWEST_USERS or self._sharing(profile.path, commonest) >= _FEWEST_USERS

    def _sharing(self, name: str, text: str) -> int:
        scan = self.staged.scan
        if scan.apis is None or self.staged.own:
            return 0
        place = scan.apis.index(name)
        fragments = self.staged.values_of(f"v{place}")
        api = self.staged.apis[name]
        rows = self.database.rows("ingest/users_of_value", fragments=fragments, api=api, text=text)
        return int(rows[0][0])


def refuse_asks(label: str, asks: Mapping[str, Verdict], fields: Collection[str]) -> None:
    """Refuse a log of which only the user can say what some members are.

    Raises:
        InputError: There are such members.
    """
    if not asks:
        return
    if named := next((name for name, verdict in asks.items() if verdict.asks == "names"), None):
        raise InputError(
            f"{label}: {excerpt(named)!r} looks like {LOOKS['names']}; nothing was stored",
            hint=f"a column map says so: [columns] with api = {json.dumps(named)}, and value = the "
            f"column beside it; or --as {quote(f'{named}=')} to take it for an API all the same",
        )
    taken = set(fields)
    options, seen = [], []
    for name, verdict in asks.items():
        look = verdict.asks or "id"
        option = look if _OPTIONS.get(look, look) not in taken and look in _OPTIONS else "ignore"
        taken.add(_OPTIONS.get(look, look))
        options.append(f"--{option} {quote(name)}")
        why = f" ({verdict.why})" if look in {"id", "user"} else ""
        seen.append(f"{excerpt(name)!r} looks like {LOOKS[look]}{why}")
    raise InputError(
        f"{label}: {some_of(seen, 6)}; nothing of this file was stored",
        hint=f"say what it is, for example: {' '.join(options)}; "
        f"or --as {quote(f'{next(iter(asks))}=')} to take it for an API all the same",
    )


def are_apart(judged: Sequence[Judged]) -> bool:
    """Whether no log leaves out what another one stores, and none has to be refused."""
    taken = {name for one in judged for name in one.taken}
    left_out = {m.path for one in judged for m in one.account.members if m.records and not m.api}
    return not (any(one.asks for one in judged) or taken & left_out)


def set_aside(database: Database, staged: Staged, judged: Sequence[Judged]) -> dict[str, int]:
    """Forget the values of what is no API; return the numbers of what is stored.

    Raises:
        InputError: Nothing is left.
    """
    stored = {name for one in judged for name in one.taken}
    taken = {name: number for name, number in staged.apis.items() if name in stored}
    columns = {staged.scan.paths.get(name, name) for name in staged.apis}
    reasons = [
        member.why
        for member in judged[0].account.members
        if member.path in columns and member.records
    ]
    if reasons and not taken:
        raise InputError(
            f"{staged.labels[0]}: no column is an API ({reasons[0]})",
            hint="nothing of this file was stored; --as NAME= takes a column for one all the same",
        )
    dropped = {name: number for name, number in staged.apis.items() if name not in taken}
    if dropped:
        new = [number for name, number in dropped.items() if name not in staged.known]
        database.run("ingest/drop_members", apis=list(dropped.values()))
        database.run("ingest/drop_apis", apis=new)
    return taken


def reject_members(database: Database, judged: Judged) -> None:
    """Reject the records of a long log that tell of what is no API."""
    names = defaultdict(list)
    for member in judged.account.set_aside:
        names[member.why].append(member.path)
    for why, members in names.items():
        database.run("ingest/reject_members", reason=f"no API: {why}", names=members)
