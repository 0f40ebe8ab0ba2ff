"""Count spectra from a snapshot in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database
    from fpmonitor.store.snapshot import Snapshot


class DuckDBSource:
    """Spectrum source over a snapshot; each spectrum is one query.

    Parameters
    ----------
    database
        The open database.
    snapshot
        One of its snapshots.
    dropped
        int64, positions of rows of the snapshot that are left out.
    """

    def __init__(
        self,
        database: Database,
        snapshot: Snapshot,
        dropped: NDArray[np.int64] | None = None,
    ) -> None:
        self._database = database
        self._snapshot = snapshot
        self._dropped = np.empty(0, dtype=np.int64) if dropped is None else dropped

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs of the snapshot, sorted."""
        return self._snapshot.apis

    @property
    def users(self) -> int:
        """Number of users that are not left out."""
        return self._snapshot.users - len(self._dropped)

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`.

        Raises
        ------
        UnknownNameError
            The snapshot lacks one of them.
        """
        columns = ", ".join(self._snapshot.column(api) for api in sorted(set(apis)))
        fragments = {"snapshot": self._snapshot.table, "columns": columns or "()"}
        if len(self._dropped):
            with self._database.frame("dropped", pl.DataFrame({"position": self._dropped})):
                arrays = self._database.arrays("spectrum/of_set_without", fragments=fragments)
        else:
            arrays = self._database.arrays("spectrum/of_set", fragments=fragments)
        return CountSpectrum(
            np.asarray(arrays["users"], dtype=np.int64),
            np.asarray(arrays["tuples"], dtype=np.int64),
        )
