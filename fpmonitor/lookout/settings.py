"""What is watched, and how."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.answers.check import of_recommended
from fpmonitor.answers.window_check import check_has_windows
from fpmonitor.decide.evidence import identity_of
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor
from fpmonitor.store.database import Database
from fpmonitor.store.files import NO_PATIENCE, Patience
from fpmonitor.store.followed import Follower

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fpmonitor.decide.decision import Decision
    from fpmonitor.store.windows import Period


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What is watched, and how.

    Attributes:
        folder: Where logs arrive, also in its subfolders.
        database: The database file; created if it does not exist.
        decision, file: What is checked after every new log, and the file that holds it, which is
            overwritten by who decides again.
        by, new_users: As in `Monitor.check`.
        whole: Check every set on the allow list, not the recommended one alone.
        collector, digest_values: As in `Monitor.ingest`.
        column_map: Reads the column map, which may change while the watch runs.
        settle: Seconds for which a file must not have changed before it is read.
        key_file, patience: As of `Database`.
        metrics: File for the numbers of Prometheus, written at each look; null for none.
    """

    folder: Path
    database: Path
    decision: Decision
    file: Path
    by: Period | None = None
    new_users: bool = False
    whole: bool = False
    collector: str | None = None
    column_map: Callable[[], ColumnMap] = ColumnMap
    digest_values: bool = False
    settle: float = 2.0
    key_file: Path | None = None
    patience: Patience = NO_PATIENCE
    metrics: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what a watch cannot test.

        Raises:
            InputError: The decision is about cohorts, of which others are told nothing; or about
                visits, to which later ones may be added; or no window of this length can be tested.
        """
        if self.decision.policy.cohorts is not None:
            raise InputError(
                "watch: its notices are for others, who are told nothing of cohorts",
                hint="`fpmonitor check` tests this decision, a window with --by",
            )
        if not self.decision.policy.needs_whole_records:
            return
        if self.by is None:
            raise InputError(
                "watch: visits are tested once, in windows that are over",
                hint="name their length: --by day, week or month",
            )
        check_has_windows(self.decision, self.by)

    @property
    def watched(self) -> str:
        """Name of what is watched: the decision, and how it is checked unless as by default."""
        identity = identity_of(self.checked)
        options = (None, self.by, self.new_users)  # as databases have it
        return identity if options == (None, None, False) else f"{identity}/{options}"

    @property
    def list_key(self) -> str:
        """Digest that stays when a list is decided again: its question, its file and its windows.

        APIs and users come and go. A link is not followed, as it may be set to the newest list. In
        another place a list hears of a slow change once more: where only the names of files told
        lists apart, `decision.json` of one site kept news from that of another.
        """
        content = self.decision.to_json()
        policy = content["policy"] | {"candidates": None, "population": None}
        asked = [policy, content["setting"], content["missing"], content["view"]]
        parts = [asked, str(self.file.absolute()), self.by, self.new_users, self.whole]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def checked(self) -> Decision:
        """The decision with the sets that are checked."""
        listed = self.decision.with_unions_listed()
        return listed if self.whole else of_recommended(self.decision)

    def open_database(self) -> Database:
        """Open the database, which is created if it does not exist."""
        return Database(self.database, create=True, key_file=self.key_file, patience=self.patience)

    def open_monitor(self) -> Monitor:
        """Open the database for questions whose answers go to others.

        A look reads a window once and asks it much: rows in memory take half of the time of a table
        that is written, and read for each question.
        """
        monitor = Monitor(
            self.database,
            create=True,
            audience=Audience.OTHERS,
            key_file=self.key_file,
            patience=self.patience,
        )
        monitor.follower = Follower(most=1)
        return monitor
