"""Others cannot tell nobody from one to k - 1 users: a search finds no question that does."""

from __future__ import annotations

import json
import random
import runpy
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

FOUND = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "differencing.py"))
SEARCH = FOUND["search"]


def test_no_question_for_others_tells_few_users_from_nobody() -> None:
    found = SEARCH(11, ["of each kind"], [9], 12)
    assert found["answered"] >= 10
    assert found["told_apart"] == []


def test_a_release_does_not_tell_rare_values_from_none() -> None:
    """Its rows do not, nor does its manifest: what it lacks is told as of k - 1 users."""
    found = SEARCH(11, ["a value each"], [9], 0, also=FOUND["RELEASES"], beside=FOUND["VALUELESS"])
    assert found["answered"] == 4
    assert found["told_apart"] == []


@pytest.mark.long
def test_the_search_tells_them_apart_where_the_owner_asks() -> None:
    found = SEARCH(11, ["of each kind"], [9], 12, audience="owner")
    assert found["told_apart"]


def test_no_answer_to_a_sender_or_a_stranger_tells_few_users_from_nobody() -> None:
    """Codes, texts, sizes, waiting times and quotas of a sender, and health, whoever is there."""
    kinds = ["a name of their own", "one API more"]
    found = SEARCH(5, kinds, [1, 9], 0, also=FOUND["SENT"] * 3)
    assert found["answered"] >= 20
    assert found["told_apart"] == []


@pytest.mark.long
def test_spectra_that_are_handed_on_do_not_tell_few_users_from_nobody(tmp_path: Path) -> None:
    """Files of decisions that each were made of users of whom up to k - 1 differ."""
    users, apis = FOUND["drawn_users"](random.Random(3)), ",".join(FOUND["APIS"][:3])

    def written(kind: str, planted: int) -> tuple[Any, int]:
        made = FOUND["make"](tmp_path / f"{kind} {planted}", users, kind, planted, tmp_path / "d")
        with chdir(made):
            asked = f"--budget 60% --candidates {apis} -n 5000 -o own.json"
            FOUND["answer"](f"decide {asked}")
            own = "audit certificate own.json --db fpmonitor.duckdb --write-spectra spectra.json"
            assert FOUND["answer"](own).startswith("0")
            text = Path("spectra.json").read_text(encoding="utf-8")
        return json.loads(text) | {"digest": ""}, len(text)

    nobody = written("a value each", 0)
    assert nobody[0]["spectra"][0]["groups"]
    for kind in ("of each kind", "a value together", "a value each", "without an API"):
        for planted in (1, 9):
            assert written(kind, planted) == nobody, (kind, planted)
