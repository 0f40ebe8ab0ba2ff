"""Views of a snapshot: volatile values masked, automation left out, values made coarser."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import polars as pl

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.safe_files import untyped
from fpmonitor.store.browsers import read_automation, read_browsers, texts_of
from fpmonitor.store.digests import refuse_digests
from fpmonitor.store.snapshot import ABSENT, Window, read_codes
from fpmonitor.store.transforms import transforms_of
from fpmonitor.store.volatile import read_volatility

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fpmonitor.store.browsers import Browsers
    from fpmonitor.store.database import Database
    from fpmonitor.store.snapshot import Snapshot
    from fpmonitor.store.transforms import Transform
    from fpmonitor.store.volatile import Volatility

Volatile = Literal["shared", "left-out", "raw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a snapshot is looked at.

    Attributes
    ----------
    volatile
        A volatile value counts as one token that all users of the browser family share; or the API
        is left out of every set, as if it returned nothing; or `raw`, as it was logged.
    drop_automation
        Leave out users that look automated.
    transforms
        API -> what it returns instead.
    """

    volatile: Volatile = "shared"
    drop_automation: bool = False
    transforms: Mapping[str, Transform] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the view as it stands in a decision file."""
        return {
            "volatile": self.volatile,
            "drop_automation": self.drop_automation,
            "transforms": untyped(self.transforms),
        }

    @classmethod
    def from_json(cls, content: Any) -> View:
        """Read what `to_json` gave.

        Raises
        ------
        InputError
            Not a view.
        """
        if content["volatile"] not in get_args(Volatile):
            raise InputError(f"volatile is none of {', '.join(get_args(Volatile))}")
        return cls(
            volatile=content["volatile"],
            drop_automation=bool(content["drop_automation"]),
            transforms=transforms_of("view", content["transforms"]),
        )


@dataclass(frozen=True, slots=True)
class Viewed:
    """A snapshot as a view shows it.

    Attributes
    ----------
    snapshot
        Its rows; a temporary table where they differ from the snapshot that was taken.
    volatile
        API -> whether it is volatile in the browser of some user; null where nothing is known.
    dropped
        Users that were left out because they look automated.
    """

    snapshot: Snapshot
    volatile: Mapping[str, bool | None]
    dropped: int


def look(database: Database, snapshot: Snapshot, view: View, window: Window) -> Viewed:
    """Look at a snapshot of a window.

    Raises
    ------
    UnknownNameError
        A transform of an API that was never observed.
    InputError
        A transform of values that are kept by their digest, or a look for automation in them.
    UndecidableError
        Every user looks automated.
    """
    if view.transforms:
        refuse_digests(database, "--what-if")
    if view.drop_automation:
        refuse_digests(database, "--drop-automation")
    browsers = read_browsers(database, snapshot)
    volatility = read_volatility(database, snapshot, browsers, window)
    columns = _masked(database, snapshot, browsers, volatility, view.volatile)
    for api, transform in view.transforms.items():
        snapshot.column(api)
        columns[api] = _transformed(database, snapshot, api, transform, columns.get(api))
    dropped = np.zeros(snapshot.users, dtype=np.bool_)
    if view.drop_automation:
        dropped = np.any(list(read_automation(database, snapshot).values()), axis=0)
    return Viewed(
        _restated(database, snapshot, columns, dropped, view),
        {api: known.verdict for api, known in volatility.items()},
        int(dropped.sum()),
    )


def _masked(
    database: Database,
    snapshot: Snapshot,
    browsers: Browsers,
    volatility: Mapping[str, Volatility],
    volatile: Volatile,
) -> dict[str, NDArray[np.int64]]:
    """Codes of the volatile APIs with the volatile values replaced; absent stays absent."""
    if volatile == "raw":
        return {}
    columns = {}
    for api, known in volatility.items():
        if not known.rows.any():
            continue
        codes = np.asarray(read_codes(database, snapshot, [api])[0], dtype=np.int64)
        if volatile == "left-out":
            codes = np.zeros_like(codes)
        else:
            randomised = known.rows & (codes != ABSENT)
            # After the largest code one token for each family, the unknown one included.
            tokens = int(codes.max(initial=0)) + 2 + browsers.family.astype(np.int64)
            codes = np.where(randomised, tokens, codes)
        columns[api] = codes
    return columns


def _transformed(
    database: Database,
    snapshot: Snapshot,
    api: str,
    transform: Transform,
    masked: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Codes of an API, where equal results of the transform share the code of the first of them."""
    raw = np.asarray(read_codes(database, snapshot, [api])[0], dtype=np.int64)
    texts = texts_of(database, api, raw)
    first: dict[str, int] = {}
    recode = np.arange(len(texts), dtype=np.int64)
    for code in np.unique(raw).tolist():
        text = texts[code]
        if text is None:
            continue  # absent, undefined and errors stay what they are
        try:
            result = transform(text)
        except InputError as error:
            raise InputError(f"{api}: {error.message}", hint=error.hint) from error
        recode[code] = first.setdefault(result, code)
    recoded: NDArray[np.int64] = recode[raw]
    return recoded if masked is None else np.where(masked == raw, recoded, masked)


def _restated(
    database: Database,
    snapshot: Snapshot,
    columns: Mapping[str, NDArray[np.int64]],
    dropped: NDArray[np.bool_],
    view: View,
) -> Snapshot:
    """Write the changed columns into a temporary table; the snapshot itself where none changes."""
    if not columns and not dropped.any():
        return snapshot
    if dropped.all():
        raise UndecidableError("every user looks automated", hint="leave --drop-automation away")
    positions = np.flatnonzero(~dropped)
    frame = pl.DataFrame(
        {
            "position": positions,
            **{snapshot.columns[api]: codes[positions] for api, codes in columns.items()},
        }
    )
    table = f"{snapshot.table}_view"
    replaced = ", ".join(
        f"changed.{snapshot.column(api)} AS {snapshot.column(api)}" for api in sorted(columns)
    )
    with database.frame("changed", frame):
        database.run(
            "snapshot/view",
            fragments={
                "view": table,
                "snapshot": snapshot.table,
                "changes": f"REPLACE ({replaced})" if replaced else "",
            },
        )
    digest = f"{snapshot.digest}/{description_of(view)}"
    return replace(snapshot, table=table, users=len(positions), digest=digest)


def description_of(view: View) -> str:
    """Words that tell the view, for digests: the same rows seen otherwise are other data."""
    automation = "without automation" if view.drop_automation else "all users"
    changed = sorted((api, repr(transform)) for api, transform in view.transforms.items())
    return f"volatile {view.volatile}, {automation}, {changed}"
