"""What all tests share: a check of the installation and the law of the fixture logs."""

from __future__ import annotations

import importlib
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

FIXTURES = Path(__file__).parents[1] / "fixtures"


def is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def pytest_configure(config: pytest.Config) -> None:  # noqa: ARG001 -- pytest names it
    if not is_installed("fpmonitor.collectors"):
        raise pytest.UsageError(
            "fpmonitor is not installed in this environment; run: pip install '.[test]'"
        )


@dataclass(frozen=True)
class FixtureDistribution:
    """The finite population that the users of fixtures/logs are drawn from.

    `rows` has a column an API with codes (0 is absent, i is `values[api][i - 1]`) and `weight`.
    """

    rows: pl.DataFrame
    values: dict[str, list[str]]

    @property
    def apis(self) -> list[str]:
        return list(self.values)

    def weights(self, apis: Sequence[str]) -> pl.Series:
        """Browsers of the population behind each distinct tuple of `apis`, int64."""
        weight = pl.col("weight").cast(pl.Int64).sum()
        if not apis:
            return self.rows.select(weight)["weight"]
        return self.rows.group_by(apis).agg(weight)["weight"]

    def true_exposure(self, apis: Sequence[str], k: int, population: int) -> float:
        """Statistical exposure Q(n, k) of `apis` under the law, a share, exact."""
        exposure = importlib.import_module("fpmonitor.estimate.exposure")
        weights = self.weights(apis).to_numpy()
        return float(
            exposure.statistical_exposure(weights / weights.sum(), k=k, population=population)
        )


@pytest.fixture(scope="session")
def fixture_law() -> FixtureDistribution:
    return FixtureDistribution(
        pl.read_parquet(FIXTURES / "law" / "law.parquet"),
        json.loads((FIXTURES / "law" / "values.json").read_text(encoding="utf-8")),
    )
