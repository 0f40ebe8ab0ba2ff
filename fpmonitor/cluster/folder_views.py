"""Views of a snapshot on a distributed engine: what `store.views` shows of a database file.

Only the values that tell the browser, those that a question makes coarser, and numbers of users by
browser come here; what a view changes is written there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.cluster.folder_snapshot import (
    count_seen,
    define_visits,
    latest_code,
    values_join,
    values_of,
)
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.sql import statement
from fpmonitor.store.browsers import (
    BROWSER_APIS,
    TELLING_APIS,
    UNKNOWN,
    Browsers,
    browser_of,
    signs_of,
    traits_of,
)
from fpmonitor.store.views import description_of
from fpmonitor.store.volatile import volatility_of, weigh_repeats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.cluster.folder_snapshot import RemoteSnapshot
    from fpmonitor.cluster.portable import SqlEngine
    from fpmonitor.store.transforms import Transform
    from fpmonitor.store.views import View
    from fpmonitor.store.volatile import Volatility

_APIS_A_STATEMENT = 20
_TOLD = {"number": pl.Int64, "code": pl.Int64, "family": pl.Int64, "version": pl.Int64}
_TRAITS = {"traits": pl.Int64}
_RECODED = {"number": pl.Int64, "code": pl.Int64, "recoded": pl.Int64}
_EVIDENCE = ("number", "family", "tried", "changed")


@dataclass(frozen=True, slots=True, eq=False)
class BrowserGroups:
    """Users of a snapshot by browser and traits of automation: one entry a group.

    Attributes
    ----------
    browsers
        Browser of the users of each group.
    traits
        int64, see `store.browsers.signs_of`.
    users
        int64, how many they are.
    """

    browsers: Browsers
    traits: NDArray[np.int64]
    users: NDArray[np.int64]

    @property
    def automated(self) -> NDArray[np.bool_]:
        """Whether the users of a group look automated."""
        return np.asarray(np.any(list(signs_of(self.traits).values()), axis=0))


@dataclass(frozen=True, slots=True)
class RemoteViewed:
    """A snapshot as a view shows it, and how many users were left out as automated."""

    snapshot: RemoteSnapshot
    dropped: int


class SnapshotViews:
    """Looks at the snapshots of a store; what is found out of one is kept.

    Parameters
    ----------
    engine
        Where the snapshots lie.
    """

    def __init__(self, engine: SqlEngine) -> None:
        self._engine = engine
        self._groups: dict[str, BrowserGroups] = {}
        self._volatility: dict[str, dict[str, Volatility]] = {}
        self._viewed: dict[tuple[str, str], RemoteViewed] = {}

    def look(self, snapshot: RemoteSnapshot, view: View) -> RemoteViewed:
        """Look at a snapshot; errors as of `store.views.look`."""
        key = (snapshot.identity, description_of(view))
        if key not in self._viewed:
            self._viewed[key] = self._look(snapshot, view)
        return self._viewed[key]

    def _look(self, snapshot: RemoteSnapshot, view: View) -> RemoteViewed:
        groups = self.groups(snapshot)
        for api in view.transforms:
            snapshot.column(api)
        # Repeat visits are not counted for a view that does not ask what is volatile.
        volatility = {} if view.volatile == "raw" else self._volatility_of(snapshot)
        hidden = {
            api: _randomised(groups.browsers, known.rows)
            for api, known in volatility.items()
            if known.rows.any()
        }
        dropped = groups.automated if view.drop_automation else np.zeros_like(groups.automated)
        if dropped.all():
            raise UndecidableError(
                "every user looks automated", hint="leave --drop-automation away"
            )
        if hidden or view.transforms or dropped.any():
            users = int(groups.users[~dropped].sum())
            kept = sorted({*groups.traits.tolist()} - {*groups.traits[dropped].tolist()})
            snapshot = self._restated(snapshot, view, hidden, kept, users)
        return RemoteViewed(snapshot, int(groups.users[dropped].sum()))

    def volatile(self, snapshot: RemoteSnapshot) -> dict[str, bool | None]:
        """Say of each API whether it is volatile for some user; null where nothing is known."""
        return {api: known.verdict for api, known in self._volatility_of(snapshot).items()}

    def groups(self, snapshot: RemoteSnapshot) -> BrowserGroups:
        """Count the users of a snapshot by their browser and what tells of automation."""
        if snapshot.identity not in self._groups:
            self._groups[snapshot.identity] = self._count_groups(snapshot)
        return self._groups[snapshot.identity]

    def _count_groups(self, snapshot: RemoteSnapshot) -> BrowserGroups:
        apis = _telling(snapshot)
        if not apis:
            found = [np.array([number]) for number in (UNKNOWN, 0, 0, snapshot.users)]
        else:
            browsers = self._browsers(snapshot, apis, snapshot.relation, "1 AS one")
            rows = self._engine.rows("remote/count_browsers", browsers=browsers)
            names = ("family", "version", "traits", "users")
            found = [rows[name].cast(pl.Int64).to_numpy() for name in names]
        return BrowserGroups(Browsers(found[0].astype(np.int8), found[1]), found[2], found[3])

    def _browsers(
        self, snapshot: RemoteSnapshot, apis: Sequence[str], users: str, columns: str
    ) -> str:
        """Statement of the browsers of users, of DuckDB, for use at once; `columns` stay."""
        told = [row for api in apis for row in self._told_by(snapshot, api)]
        self._engine.define_rows("telling_value", pl.DataFrame(told, _TOLD | _TRAITS, orient="row"))
        numbers = [snapshot.number(api) for api in apis]
        joins = [
            values_join(
                "telling_value",
                number,
                "code, family, version, traits",
                f"b{number}",
                f"b{number}.code = coded_user.a{number}",
            )
            for number in numbers
        ]
        return statement(
            "remote/browsers",
            columns=columns,
            families=", ".join(f"b{n}.family" for n in numbers) or "NULL::BIGINT",
            versions=", ".join(f"b{n}.version" for n in numbers) or "NULL::BIGINT",
            traits=" | ".join(f"COALESCE(b{n}.traits, 0)" for n in numbers) or "0",
            users=users,
            joins=" ".join(joins),
        )

    def _told_by(self, snapshot: RemoteSnapshot, api: str) -> list[tuple[int | None, ...]]:
        """List what the values of an API tell, those that tell something."""
        told: list[tuple[int | None, ...]] = []
        for code, status, text in values_of(self._engine, snapshot, api).rows():
            if status != "value" or text is None:
                continue
            family, version = browser_of(api, text)
            traits = traits_of(api, text)
            known = (None, None) if family == UNKNOWN else (family, version)
            if traits or family != UNKNOWN:
                told.append((snapshot.number(api), code, *known, traits))
        return told

    # Volatile values

    def _volatility_of(self, snapshot: RemoteSnapshot) -> dict[str, Volatility]:
        if snapshot.identity not in self._volatility:
            browsers = self.groups(snapshot).browsers
            evidence = {} if snapshot.visits == snapshot.users else self._evidence(snapshot)
            self._volatility[snapshot.identity] = {
                api: volatility_of(api, browsers, evidence.get(snapshot.number(api), {}))
                for api in snapshot.apis
            }
        return self._volatility[snapshot.identity]

    def _evidence(self, snapshot: RemoteSnapshot) -> dict[int, dict[int, bool]]:
        """Weigh repeat visits: number of the API -> browser family -> whether it is volatile."""
        folder = f"{snapshot.folder}/repeats"
        if self._engine.schema_of([folder]):
            self._engine.define_files("repeats", [folder])
            repeats = self._engine.rows("remote/whole", relation="repeats").select(_EVIDENCE)
        else:
            repeats = self._repeats(snapshot)
            self._engine.define_rows("repeats", repeats)
            self._engine.write(self._engine.text_of("remote/whole", relation="repeats"), folder)
        evidence: dict[int, dict[int, bool]] = {}
        for number, family, tried, changed in repeats.rows():
            verdict = weigh_repeats(tried, changed)
            if verdict is not None:
                evidence.setdefault(number, {})[family] = verdict
        return evidence

    def _repeats(self, snapshot: RemoteSnapshot) -> pl.DataFrame:
        """Count the repeat visits of each API by browser family, those with a new value as well."""
        define_visits(self._engine, snapshot)
        self._define_browser_of_user(snapshot)
        numbers = sorted(map(snapshot.number, snapshot.apis))
        parts = []
        for start in range(0, len(numbers), _APIS_A_STATEMENT):
            texts = [
                statement("remote/repeats", number=str(number), column=f"a{number}")
                for number in numbers[start : start + _APIS_A_STATEMENT]
            ]
            union = self._engine.translated(" UNION ALL ".join(texts))
            parts.append(self._engine.frame(union).select(pl.col(_EVIDENCE).cast(pl.Int64)))
        return pl.concat(parts)

    def _define_browser_of_user(self, snapshot: RemoteSnapshot) -> None:
        """Write the browser of each user by the digest of its id, for the time of the question."""
        apis = [api for api in _telling(snapshot) if api in BROWSER_APIS]
        newest = ['"user"', *(latest_code(snapshot.columns[api]) for api in apis)]
        latest = statement("remote/latest", newest=", ".join(newest))
        browsers = self._browsers(snapshot, apis, f"({latest})", '"user"')
        folder = f"{snapshot.folder}/browsers"
        self._engine.write(self._engine.translated(browsers), folder)
        self._engine.define_files("browser_of_user", [folder])

    # What a view changes

    def _restated(
        self,
        snapshot: RemoteSnapshot,
        view: View,
        hidden: Mapping[str, str],
        kept: Sequence[int],
        users: int,
    ) -> RemoteSnapshot:
        """Write a snapshot with the columns that a view changes, and only the users that it keeps.

        Parameters
        ----------
        hidden
            Volatile API -> condition that it is so in the browser of a user.
        kept
            Traits of the users that are kept.
        users
            How many they are.
        """
        recoded = self._recoded(snapshot, view.transforms)
        shown = {
            api: _shown(
                column,
                f"r{snapshot.number(api)}.recoded" if api in view.transforms else None,
                hidden.get(api),
                left_out=view.volatile == "left-out",
            )
            for api, column in snapshot.columns.items()
        }
        told = repr([snapshot.identity, description_of(view), shown, kept, recoded.rows()])
        identity = hashlib.sha256(told.encode()).hexdigest()[:24]
        relation, folder = f"view_{identity}", f"{snapshot.folder}/view-{identity}"
        if not self._holds(relation, folder, users):
            self._engine.define_rows("recoded_value", recoded)
            self._engine.write(self._view_text(snapshot, view, shown, kept), folder)
            self._engine.define_files(relation, [folder])
        return replace(
            snapshot,
            identity=identity,
            relation=relation,
            users=users,
            seen=count_seen(self._engine, relation, snapshot.columns),
            digest=f"{snapshot.digest}/{description_of(view)}",
        )

    def _holds(self, relation: str, folder: str, users: int) -> bool:
        """Whether a view was written to its end before; it is then defined."""
        if not self._engine.schema_of([folder]):
            return False
        self._engine.define_files(relation, [folder])
        return bool(self._engine.rows("snapshot/size", snapshot=relation).row(0)[0] == users)

    def _view_text(
        self,
        snapshot: RemoteSnapshot,
        view: View,
        shown: Mapping[str, str],
        kept: Sequence[int],
    ) -> str:
        columns = [*snapshot.columns.values(), "high", "low"]
        browsers = self._browsers(
            snapshot,
            _telling(snapshot),
            snapshot.relation,
            ", ".join(f"coded_user.{c}" for c in columns),
        )
        joins = [
            values_join(
                "recoded_value",
                number,
                "code, recoded",
                f"r{number}",
                f"r{number}.code = browser.a{number}",
            )
            for number in map(snapshot.number, view.transforms)
        ]
        return self._engine.text_of(
            "remote/view",
            columns=", ".join(
                f"({shown[api]})::INTEGER AS {column}" for api, column in snapshot.columns.items()
            ),
            browsers=browsers,
            joins=" ".join(joins),
            kept=f"traits IN ({', '.join(map(str, kept))})",
        )

    def _recoded(
        self, snapshot: RemoteSnapshot, transforms: Mapping[str, Transform]
    ) -> pl.DataFrame:
        """Codes that stand for another one now: equal results share the code of the first."""
        rows: list[tuple[int, int, int]] = []
        for api, transform in transforms.items():
            first: dict[str, int] = {}
            for code, status, text in values_of(self._engine, snapshot, api).rows():
                if status != "value" or text is None:
                    continue  # undefined and errors stay what they are
                try:
                    result = transform(text)
                except InputError as error:
                    raise InputError(f"{api}: {error.message}", hint=error.hint) from error
                same = first.setdefault(result, code)
                if same != code:
                    rows.append((snapshot.number(api), code, same))
        return pl.DataFrame(rows, _RECODED, orient="row")


def _telling(snapshot: RemoteSnapshot) -> list[str]:
    """APIs of a snapshot that tell of the browser, the surest first."""
    return [api for api in TELLING_APIS if api in snapshot.columns]


def _randomised(browsers: Browsers, rows: NDArray[np.bool_]) -> str:
    """Condition on family and version that holds for the marked browsers."""
    conditions = []
    for family in np.unique(browsers.family[rows]).tolist():
        oldest = int(browsers.version[rows & (browsers.family == family)].min())
        conditions.append(f"(family = {family} AND version >= {oldest})")
    return " OR ".join(conditions)


def _shown(column: str, recoded: str | None, hidden: str | None, *, left_out: bool) -> str:
    """Code of an API in a view: a volatile value is one token for each browser family."""
    if hidden is not None and left_out:
        return "0"
    code = f"browser.{column}"
    shown = code if recoded is None else f"COALESCE({recoded}, {code})"
    if hidden is None:
        return shown
    # Codes begin at 0, tokens below it: -1 is that of the unknown family.
    return f"CASE WHEN {code} <> 0 AND ({hidden}) THEN -2 - family ELSE {shown} END"
