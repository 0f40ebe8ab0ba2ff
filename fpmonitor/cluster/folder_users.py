"""Users of a snapshot in a folder of an engine: spectra, thinning and cohorts, where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.cluster.portable import EngineSource
from fpmonitor.population.duckdb import CohortSpectra
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.cluster.folder import FolderStore
    from fpmonitor.cluster.folder_snapshot import RemoteSnapshot


class RemoteUsers(EngineSource):
    """Spectra of the users of a snapshot, which thins them where they are.

    Parameters
    ----------
    store
        Where the snapshot lies.
    snapshot
        One of the store.
    apis
        Those of its APIs that may be asked for.
    """

    def __init__(self, store: FolderStore, snapshot: RemoteSnapshot, apis: Sequence[str]) -> None:
        columns = {api: snapshot.column(api) for api in apis}
        super().__init__(store.engine, snapshot.relation, columns, snapshot.users)
        self.snapshot = snapshot
        self._store = store
        self._thinned: dict[tuple[float, int], ThinnedUsers] = {}

    def thinned(self, *, mean: float, seed: int) -> ThinnedUsers:
        """Keep the users that `estimate.thinning.dropped_positions` keeps."""
        if (mean, seed) not in self._thinned:
            relation, users = self._store.thinned(self.snapshot, mean=mean, seed=seed)
            kept = ThinnedUsers(self._store, self.snapshot, self.apis, relation, users)
            self._thinned[mean, seed] = kept
        return self._thinned[mean, seed]


class ThinnedUsers(EngineSource):
    """Spectra of those users of a snapshot that a thinning keeps.

    Parameters
    ----------
    store, snapshot, apis
        As of `RemoteUsers`.
    relation, users
        Table of those that are kept, and its rows.
    """

    def __init__(
        self,
        store: FolderStore,
        snapshot: RemoteSnapshot,
        apis: Sequence[str],
        relation: str,
        users: int,
    ) -> None:
        columns = {api: snapshot.column(api) for api in apis}
        super().__init__(store.engine, relation, columns, users)
        self._store, self._snapshot, self._kept = store, snapshot, relation

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of the tuples of `apis` within each cohort; as of `DuckDBSource.cohorts`."""
        everybody = self._of_cohorts(self._snapshot.relation, given, apis)
        kept = self._of_cohorts(self._kept, given, apis) if self.users else {}
        return [
            CohortSpectra(codes=codes, spectrum=spectrum, kept=kept.get(codes))
            for codes, spectrum in everybody.items()
        ]

    def _of_cohorts(
        self, relation: str, given: Sequence[str], apis: Sequence[str]
    ) -> dict[tuple[int, ...], CountSpectrum]:
        """Codes of each cohort, in their order -> spectrum of the tuples of `apis` in it."""
        cohort = [self._snapshot.column(api) for api in given]
        columns = dict.fromkeys([*cohort, *map(self._snapshot.column, apis)])
        rows = self._store.engine.rows(
            "remote/cohorts",
            cohort=", ".join(cohort),
            columns=", ".join(columns),
            snapshot=relation,
        )
        parts = rows.sort(*cohort, "users").partition_by(cohort, as_dict=True)
        return {
            codes: CountSpectrum.from_counts(np.repeat(part["users"], part["tuples"]))
            for codes, part in parts.items()
        }
