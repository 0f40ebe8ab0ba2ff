"""Group: all participants find the same set, and nobody sees more than that set together."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import UndecidableError
from fpmonitor.private.folder import RoleFolder, make_pilot
from fpmonitor.private.group import SealedChannel, counted_openly, run_group
from fpmonitor.private.keys import SecretKeys
from fpmonitor.private.store import RoleStore
from fpmonitor.private.study import CollectionRequest, Study

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fpmonitor.private.group import GroupRun

NAMES = ("a", "b", "c", "d")
TERMS = Study(name="group", apis=NAMES, population=40, k=3, budget=0.3, minimum_batch=20)
SIGN = SecretKeys.generate("curator").sign


def participants(number: int = 40) -> list[dict[str, str]]:
    rows = np.random.default_rng(3).geometric([0.9, 0.8, 0.6, 0.3], (number, 4)).clip(max=5)
    return [{api: f"={v}" for api, v in zip(NAMES, row, strict=True)} for row in rows.tolist()]


def exposed_share(holders: Sequence[dict[str, str]], apis: Sequence[str], k: int) -> float:
    rows = [tuple(tokens[api] for api in apis) for tokens in holders]
    return sum(rows.count(row) < k for row in rows) / len(rows)


@pytest.fixture(scope="module")
def sealed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, list[CollectionRequest], GroupRun]:
    """Run a group over sealed messages; its folder, what was asked, and what it found."""
    asked: list[CollectionRequest] = []

    class Watched(SealedChannel):
        def __call__(self, ask: CollectionRequest, holders: Sequence[dict[str, str]]) -> object:  # type: ignore[override]
            asked.append(ask)
            return super().__call__(ask, holders)

    folder = tmp_path_factory.mktemp("sealed") / "pilot"
    study = make_pilot(folder, TERMS)
    channel = Watched(folder)
    sign = RoleFolder.of(folder, "curator").ring.sign
    found = run_group(study, participants(), channel, sign, rng=random.Random(1))
    channel.close()
    return folder, asked, found


@pytest.mark.long
def test_sealed_or_open_all_participants_find_the_same_set(
    sealed: tuple[Path, list[CollectionRequest], GroupRun],
) -> None:
    folder, _, found = sealed
    holders, made = participants(), RoleFolder.of(folder, "curator")
    counted = partial(counted_openly, made.study)
    assert found == run_group(made.study, holders, counted, made.ring.sign, rng=random.Random(2))
    assert found.agreed == found.participants == 40
    assert found.marginals_true
    assert found.messages == 5
    apis = found.comparison.apis
    assert len(apis) > 1
    truth = exposed_share(holders, apis, TERMS.k)
    assert found.comparison.empirical == truth <= found.comparison.fixed.upper <= 0.3
    assert found.alone_in_all > found.alone


def test_no_store_holds_more_together_than_the_released_set(
    sealed: tuple[Path, list[CollectionRequest], GroupRun],
) -> None:
    folder, asked, found = sealed
    first, last = asked
    released = len(found.comparison.apis)
    study = Study.read(folder / "study.json")
    for ask, largest in ((first, 1), (last, released)):
        with RoleStore(folder / ask.recipient / "store.db", study, ask.recipient) as store:
            rows = store.rows("private/counts", ask=ask.id)
        assert {len(json.loads(tokens)) for _, tokens, _ in rows} == {largest}
        assert sum(users for _, _, users in rows) == 40 * len(ask.sets)
    with RoleStore(folder / "shuffler" / "store.db", study, "shuffler") as store:
        assert store.rows("private/unsent") == []
    assert b"=5" not in (folder / "shuffler" / "store.db").read_bytes()


def test_too_few_participants_release_nothing(tmp_path: Path) -> None:
    study = make_pilot(tmp_path / "pilot", TERMS)
    sealed = SealedChannel(tmp_path / "pilot")
    with pytest.raises(UndecidableError, match="minimum batch"):
        run_group(study, participants(19), sealed, SIGN, rng=random.Random(1))
    sealed.close()


def test_a_group_without_a_safe_api_releases_nothing() -> None:
    study = Study(name="g", apis=NAMES, population=20, k=19, budget=0.01, minimum_batch=2)
    with pytest.raises(UndecidableError, match="no API is within the budget"):
        run_group(
            study, participants(20), partial(counted_openly, study), SIGN, rng=random.Random(1)
        )


@pytest.mark.long
def test_the_command_shows_a_group_of_users_of_a_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, db = tmp_path / "users.csv", str(tmp_path / "users.duckdb")
    pl.DataFrame({"user": range(80)}).hstack(pl.DataFrame(participants(80))).write_csv(log)
    assert run(["ingest", str(log), "--db", db]) == 0
    capsys.readouterr()
    arguments = ["--setting", "fixed", "--k", "2", "--budget", "0.2", "--apis", "a,b,c", "--db", db]
    assert run(["private", "simulate", "--group", "20", *arguments]) == 0
    members = json.loads(capsys.readouterr().out)
    assert (members["participants"], members["agreed"]) == (20, 20)
    assert members["empirical"] <= members["fixed"]["upper"] <= 0.2
    assert run(["private", "simulate", "--group", "99", *arguments]) == 2
    assert "80 users" in capsys.readouterr().err
