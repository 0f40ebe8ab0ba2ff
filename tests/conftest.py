"""What all tests share: a check of the installation and the law of the fixture logs."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import logging
import os
import pickle
import secrets
import shutil
import sys
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

sys.path.append(str(Path(__file__).parents[1]))  # for `benchmarks`, which is not installed
FIXTURES = Path(__file__).parents[1] / "fixtures"

# How long an example takes is the machine's matter: a busy one fails no test.
# Members of a design that tell at which level it is tested, and not what its score is.
_OF_LEVEL = {"delta", "bases", "universe", "nats", "limits", "first_names"}

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


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


def pytest_sessionstart() -> None:
    """Let DuckDB use as many threads as asked: those of tests beside each other only wait."""
    from fpmonitor import duckdb_connection  # noqa: PLC0415 -- where it is installed

    if threads := os.environ.get("FPMONITOR_TEST_THREADS"):
        duckdb_connection.SETTINGS["threads"] = int(threads)


def _shared_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """Folder of all processes of a run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    (folder / name).mkdir(exist_ok=True)
    return folder / name


@pytest.fixture(scope="session", autouse=True)
def _shared_designs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Share the designs of certificates among processes: they follow from the question alone.

    Half a second each, and a tenth of the time of all tests.
    """
    folder = _shared_folder(tmp_path_factory, "designs")
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            ("looks", "_menu"),
            ("looks", "_others"),
            ("limits", "_menus"),
            ("evalues", "_design"),
        ):
            owner = importlib.import_module(f"fpmonitor.estimate.{module}")
            patch.setattr(owner, name, _on_disk(getattr(owner, name).__wrapped__, folder))
        if is_installed("flint"):
            proof = importlib.import_module("fpmonitor.proof.design").DesignProof
            for name in ("clock", "tabulated", "line"):
                patch.setattr(proof, name, _once(getattr(proof, name)))
        yield


def _on_disk(design: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    @cache
    @wraps(design)
    def read_or_made(*asked: Any, **named: Any) -> Any:
        question = repr((design.__qualname__, asked, sorted(named.items())))
        path = folder / hashlib.sha256(question.encode()).hexdigest()
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(pickle.dumps(design(*asked, **named)))
            part.replace(path)
        return pickle.loads(path.read_bytes())

    return read_or_made


def _once(prove: Callable[[Any], None]) -> Callable[[Any], None]:
    """Prove the same part of a design once: a test changes a member of a file, and designs stay."""
    proved: set[tuple[type, str]] = set()

    @wraps(prove)
    def prove_anew(design: Any) -> None:
        content = {k: v for k, v in design.content.items() if k not in _OF_LEVEL}
        asked = type(design), repr(sorted(content.items()))
        if asked not in proved:
            prove(design)  # or refuse it
            proved.add(asked)

    return prove_anew


@pytest.fixture(scope="session", autouse=True)
def _copied_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copy an empty database in place of making its tables: a fifth of what a small log costs."""
    database = importlib.import_module("fpmonitor.store.database").Database
    template = tmp_path_factory.mktemp("template") / "empty.duckdb"
    database(template, create=True).close()
    make, create = database._make, database._create

    def copied(self: Any, path: Path) -> None:
        if self._key_file is None:
            shutil.copy(template, path)
        else:
            make(self, path)

    def keyed(self: Any) -> None:
        if self._is_made and self._key_file is None:
            of_its_own = "UPDATE meta SET value = $key WHERE name = 'user_key'"
            self._execute(of_its_own, {"key": secrets.token_hex(16)})
        else:
            create(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_make", copied)
        patch.setattr(database, "_create", keyed)
        yield


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """Put back how much is logged: a service that a test runs logs more, also for later tests."""
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--push", action="store_true", help="what `.ci/run` tries on each push; all else: --whole"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that wait for browsers and Spark: they take longest. Small ones end."""
    if config.option.push:
        left_out = _left_out_of_a_push(items)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
        for test in {getattr(item, "obj", None) for item in items}:
            _try_few_examples(test)
    waiting = {
        item.path
        for item in items
        if any(item.iter_markers("browser")) or any(item.iter_markers("spark"))
    }
    size = {path: path.stat().st_size for path in {item.path for item in items}}
    items.sort(key=lambda item: (item.path not in waiting, -size[item.path], item.path))


def _left_out_of_a_push(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Tests marked long, spark or warehouse, and all cases of a test but its first.

    A case costs a quarter of a second on average, and there were 4,774 of 2,007 tests.
    """
    left_out, begun = set(), set()
    for item in items:
        test, names = item.nodeid.partition("[")[0], {mark.name for mark in item.iter_markers()}
        if not names.isdisjoint({"long", "spark", "warehouse"}) or (
            test in begun and "each" not in names
        ):
            left_out.add(item)
        else:
            begun.add(test)
    return left_out


def _try_few_examples(test: Any) -> None:
    """Let Hypothesis try a fifth of its examples, and the same ones each time."""
    if (asked := getattr(test, "_hypothesis_internal_use_settings", None)) is not None:
        few = max(asked.max_examples // 5, 5)
        fewer = settings(asked, max_examples=few, derandomize=True, database=None)
        test._hypothesis_internal_use_settings = fewer


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


@pytest.fixture(scope="session")
def fixture_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Database of fixtures/logs; who writes into it takes a copy."""
    path = tmp_path_factory.mktemp("fixtures") / "logs.duckdb"
    shared = _shared_folder(tmp_path_factory, "stored") / "logs.duckdb"
    if shared.exists():
        return Path(shutil.copy(shared, path))
    with importlib.import_module("fpmonitor.monitor").Monitor(path, create=True) as monitor:
        monitor.ingest([str(FIXTURES / "logs")])
    part = shared.with_suffix(f".{os.getpid()}")
    shutil.copy(path, part)
    part.replace(shared)
    return path


@pytest.fixture
def hindrances() -> Callable[[Any, str], Iterator[str]]:
    """What hinders readers of a page: what axe finds, and what is wider than a screen."""
    axe = Path(os.environ.get("FPMONITOR_NODE_MODULES", "")) / "axe-core" / "axe.min.js"
    if not axe.is_file():
        pytest.skip("needs axe-core in FPMONITOR_NODE_MODULES")

    def look(browser: Any, address: str) -> Iterator[str]:
        for scheme in ("light", "dark"):
            # The pages run no script but their own.
            context = browser.new_context(color_scheme=scheme, bypass_csp=True)
            page = context.new_page()
            page.goto(address)
            page.add_script_tag(path=axe)
            for width in (390, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    yield f"{scheme}, {width}: {wide} pixels wide"
                for found in page.evaluate("axe.run().then((results) => results.violations)"):
                    nodes = [node["html"] for node in found["nodes"]]
                    yield f"{scheme}, {width}: {found['id']}: {nodes}"
            context.close()

    return look
