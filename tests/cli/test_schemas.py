"""Schemas of the files that people write say what the commands that read them say."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, get_args

import jsonschema
import pytest

from fpmonitor.cli import run
from fpmonitor.cli.schemas import Name
from fpmonitor.decide.questions import read_policy
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.population.levels import read_levels
from fpmonitor.question import read_strata
from fpmonitor.store.transforms import read_transforms

if TYPE_CHECKING:
    from pathlib import Path

READERS: dict[str, Any] = {
    "columns": ColumnMap.from_toml,
    "levels": read_levels,
    "policy": read_policy,
    "shares": read_strata,
    "transforms": read_transforms,
}
GOOD = {
    "columns": [
        'ignore = ["x"]\nnull = ["NA", "-"]\n[columns]\nuser = "id"\n[apis]\na = ""',
        'flatten = false\nelements = ["fonts"]\nnull = "value"',
    ],
    "levels": ['[[component]]\napis = ["A.a"]\nlevels = [{raw = true}, {step = 50}]'],
    "policy": ['k = 10\npopulation = 1000\nbudget = 0.05\ncandidates = ["A.a"]\nbias = 1.2'],
    "shares": ['by = "country"\n[shares]\nFR = 0.2\nother = [0.7, 0.8]'],
    "transforms": ['["Screen.width"]\nround = 100\n["Navigator.userAgent"]\nmajor = true'],
    "settings": [
        'k = 20\ndb = "x.duckdb"\n[decide]\nbudget = 0.1',
        '[exposure.rank]\nsize = 2\n[db.verify]\nformat = "json"',
    ],
}
BAD = {
    "columns": [
        "flatten = 1",
        'null = "none"',
        "[columns]\nuser = 1",
        "unknown = 1",
    ],
    "levels": ['[[component]]\napis = "A.a"\nlevels = []', "components = []"],
    "policy": ["k = 10", 'k = "ten"\npopulation = 1\nbudget = 0.1\ncandidates = []', "x = 1"],
    "shares": ['by = "c"\n[shares]\nFR = "much"', "[shares]\nFR = 0.5"],
    "transforms": ["[A]\nround = 0", '[A]\nmajor = "yes"', "[A]\nsquare = true"],
    "settings": ["[decide]\nbudgt = 0.1", '[decide]\nmax_size = "ten"', "[nothing]\nk = 1"],
}


def schema_of(name: str, tmp_path: Path) -> Any:
    path = tmp_path / f"{name}.schema.json"
    assert run(["lists", "schema", name, "-o", str(path)]) == 0
    found = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def test_every_schema_is_tried() -> None:
    assert {*get_args(Name)} - {"decision"} == GOOD.keys() == BAD.keys()


@pytest.mark.parametrize("name", GOOD)
def test_a_schema_takes_and_refuses_what_the_reader_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validator = schema_of(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ("fpmonitor.toml" if name == "settings" else "file.toml")
    for texts, is_good in ((GOOD[name], True), (BAD[name], False)):
        for text in texts:
            path.write_text(text)
            assert validator.is_valid(tomllib.loads(text)) == is_good, text
            if name == "settings":
                # A command without a database reads the settings, too.
                command = ["decide"] if "[decide]" in text else ["exposure"]
                assert (run([*command, "--help"]) == 0) or not is_good
            elif is_good:
                READERS[name](path)
            else:
                with pytest.raises(InputError):
                    READERS[name](path)
