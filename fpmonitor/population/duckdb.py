"""Count spectra from a snapshot in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate.mixing import seed_of
from fpmonitor.population.kept_values import ChosenValues
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.recoding import own_codes_of_absent
from fpmonitor.population.snapshot import SpectrumQueries
from fpmonitor.spectrum import CohortSpectra, CountSpectrum
from fpmonitor.store.snapshot import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.store.database import Database
    from fpmonitor.store.snapshot import SnapshotTable

_WORD_BITS = 64


class DuckDBSource(SpectrumQueries):
    """Spectrum source over a snapshot; each spectrum is one query.

    Args:
        snapshot: One of its snapshots.
        apis: The APIs that may be asked for; all of the snapshot by default.
    """

    def __init__(
        self,
        database: Database,
        snapshot: SnapshotTable,
        apis: Sequence[str] | None = None,
    ) -> None:
        super().__init__(snapshot.apis if apis is None else apis)
        self._database = database
        self._snapshot = snapshot

    @property
    def users(self) -> int:
        """Number of users."""
        return self._snapshot.users

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`."""
        columns = ", ".join(self._columns(apis)) or "()"
        fragments = {"snapshot": self._snapshot.table, "columns": columns}
        arrays = self._database.arrays("spectrum/of_set", fragments=fragments)
        return CountSpectrum(
            np.asarray(arrays["users"], dtype=np.int64),
            np.asarray(arrays["tuples"], dtype=np.int64),
        )

    def _columns(self, apis: Sequence[str]) -> list[str]:
        columns = [self._snapshot.column(api) for api in sorted(set(apis))]
        if self._absent_alone and columns:
            lacking = " OR ".join(f"{column} = {ABSENT}" for column in columns)
            # Who lacks a value of the set is alone, by its row; for all others this is null.
            columns.append(f"CASE WHEN {lacking} THEN {self._snapshot.table}.rowid END")
        return columns

    def searched_and_rest(self, users: int, seed: int) -> tuple[MemorySource, ChosenValues]:
        """Divide the users: so many to search among, and all others."""
        fragments = {"snapshot": self._snapshot.table, "seed": f"{seed}::UBIGINT"}
        # The word of the first who is left, and no share of all words: an audit divides them again
        # by the number that was found, and must find the same.
        [(first,)] = self._database.rows(
            "spectrum/first_left", fragments=fragments | {"place": str(users)}
        )
        fragments["first"] = f"{first}::UBIGINT"
        columns = [self._snapshot.column(api) for api in self._apis]
        arrays = self._database.arrays(
            "spectrum/searched", fragments=fragments | {"columns": ", ".join(columns)}
        )
        codes = [np.asarray(column) for column in arrays.values()]
        if self._absent_alone:
            codes = [own_codes_of_absent(column) for column in codes]
        searched = MemorySource(self._apis, codes)
        secret = f"{seed_of('values', str(seed))}::UBIGINT"
        fragments["secret"] = secret

        def kept_spectra(sets: Sequence[Sequence[str]], level: int) -> list[CountSpectrum | None]:
            return [self._kept_spectrum(apis, level, fragments) for apis in sets]

        rest = ChosenValues(users=self.users - searched.users, kept_spectra=kept_spectra)
        return searched, rest

    def _kept_spectrum(
        self, apis: Sequence[str], level: int, fragments: Mapping[str, str]
    ) -> CountSpectrum | None:
        """Count spectrum of the values kept, as `fragments` of the query have it."""
        most = (1 << (_WORD_BITS - level)) - 1  # the last word that begins with `level` zeros
        arrays = self._database.arrays(
            "spectrum/of_kept",
            fragments=dict(fragments)
            | {"columns": ", ".join(self._columns(apis)), "most": f"{most}::UBIGINT"},
        )
        if not len(arrays["users"]):
            return None
        return CountSpectrum(
            np.asarray(arrays["users"], dtype=np.int64),
            np.asarray(arrays["tuples"], dtype=np.int64),
        )

    def users_of_apis(self) -> Mapping[str, int]:
        """Count for each API the users with an observation of it."""
        counts = ", ".join(
            f"count(*) FILTER ({self._snapshot.column(api)} <> {ABSENT})" for api in self._apis
        )
        fragments = {"counts": counts, "snapshot": self._snapshot.table}
        [found] = self._database.rows("snapshot/users_of_apis", fragments=fragments)
        return dict(zip(self._apis, found, strict=True))

    def users_of_codes(self, apis: Sequence[str]) -> dict[str, dict[int, int]]:
        """Count for each of some APIs the users with each code, absent too."""
        return {
            api: {cohort.codes[0]: cohort.spectrum.users for cohort in self.cohorts([api], [])}
            for api in apis
        }

    def cohorts(self, given: Sequence[str], apis: Sequence[str]) -> list[CohortSpectra]:
        """Spectra of the tuples of `apis` within each cohort of users with equal values of `given`.

        Args:
            given: APIs that make the cohorts, at least one; the order of `codes`.
            apis: APIs that divide them.
        """
        telling = [self._snapshot.column(api) for api in given]
        cohort = list(dict.fromkeys(telling))
        columns = dict.fromkeys([*cohort, *(self._snapshot.column(api) for api in apis)])
        arrays = self._database.arrays(
            "spectrum/of_cohorts",
            fragments={
                "snapshot": self._snapshot.table,
                "cohort": ", ".join(cohort),
                "columns": ", ".join(columns),
            },
        )
        codes_of = dict(zip(cohort, arrays.values(), strict=False))
        codes = np.stack([codes_of[column] for column in telling], axis=1).astype(np.int64)
        users, tuples = (np.asarray(arrays[name], dtype=np.int64) for name in ("users", "tuples"))
        # The statement orders by cohort, so each is one run.
        starts = np.flatnonzero(np.any(np.diff(codes, axis=0, prepend=-1) != 0, axis=1))
        parts = [slice(a, b) for a, b in zip(starts, [*starts[1:], len(codes)], strict=True)]
        return [
            CohortSpectra(
                codes=tuple(codes[part.start].tolist()),
                spectrum=CountSpectrum.from_counts(np.repeat(users[part], tuples[part])),
            )
            for part in parts
        ]
