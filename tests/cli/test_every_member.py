"""Every member of a decision file is proved, or refused by name, or is known to say nothing."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.proof import design, files
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Path_ = tuple[str | int, ...]

USERS = 2_000
APIS = "language,vendor,hardwareConcurrency,screenWidth"
ASKED = ["--k", "10", "--budget", "8%", "-n", str(USERS)]
OF_ONE_LOOK = ["--k", "10", "--budget", "12%", "-n", str(USERS), "--fixed-question"]
WITH_LEVELS = """[[component]]
name = "screen"
apis = ["screenWidth"]
levels = [{step = 2000}, {raw = true}]
utility = [0, 1, 5]
[[component]]
apis = ["language"]
levels = [{top = ["en", "de"]}, {raw = true}]
"""
DESIGNED = WITH_LEVELS.replace('{top = ["en", "de"]}, {raw = true}', "auto = true")
FILES = {
    "levels": WITH_LEVELS,
    "designed": DESIGNED,
    "shares": 'by = "country"\n[shares]\nDE = 0.7\nother = 0.3\n',
    "weights": "language = 3\nvendor = 0.5\n",
    "changes": '[screenWidth]\nconstant = "x"\n',
}
KINDS: dict[str, list[str]] = {
    "plain": [*ASKED, "--candidates", f"{APIS},platform"],
    "weights": [*ASKED, "--candidates", APIS, "--weights", "weights"],
    "search": [*ASKED, "--candidates", APIS, "--search-users", "1000"],
    "must": [*ASKED, "--candidates", APIS, "--must", "vendor", "--never", "language"],
    "levels": ["--levels", "levels", "--budget", "8%", "--k", "10"],
    "designed": ["--levels", "designed", "--budget", "8%", "--k", "10", "--design-share", "30%"],
    "cohorts": [*OF_ONE_LOOK, "--candidates", APIS, "--given", "system", "--budget-each", "40%"],
    "links": [*OF_ONE_LOOK, "--candidates", APIS, "--link-budget", "20%", "--after", "5"],
    "visits": [*OF_ONE_LOOK, "--candidates", APIS, "--unit", "both"],
    "realised": [*ASKED, "--candidates", APIS, "--realised"],
    "fixed": [*ASKED, "--candidates", APIS, "--fixed-question", "--tolerance"],
    "masks": [*ASKED, "--candidates", "canvas,vendor,language", "--volatile", "left-out"],
    "strata": [*ASKED, "--candidates", APIS, "--strata", "shares"],
    "clusters": [*ASKED, "--candidates", APIS, "--cluster", "household"],
    "assumed": [*ASKED, "--candidates", f"{APIS},platform", "--assume", "platform"],
    "changed values": [*ASKED, "--candidates", APIS, "--what-if", "changes"],
    "added users": [*ASKED, "--candidates", APIS, "--fake-share", "1%"],
    "cut": [*ASKED, "--candidates", APIS, "--max-sets", "1", "--missing", "exposed"],
}
# How long a search took says nothing of the users.
NOTHING = {"evaluated", "seconds"}
# What a gate does not go by: it has the sentence from the rest, and takes sets in any order. What
# is missing is the default, as in files of before that did not have it.
UNUSED = {"guarantee", "users_possible", "users_needed", "users_range", "engine", "made"}
UNUSED |= {"complete"}
UNUSED_PARTS = {("data", "account")}
# Chains show that too few tests were made after looking, which the audit alone finds again.
UNUSED_PARTS |= {("confirmation", "chains")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("members"), random.Random(5)
    agents = ("(Windows NT 10.0; rv:143.0) Gecko Firefox/143.0", "(X11; Linux x86_64; rv:143.0)")
    rows = [
        {
            "time": "2026-03-01T10:00:00Z",
            "userAgent": f"Mozilla/5.0 {draw.choices(agents, [8, 2])[0]}",
            "language": draw.choice(["en", "de", "fr"]) if draw.random() < 0.96 else f"l{i}",
            "vendor": draw.choice(["Google Inc.", "Apple"]),
            "hardwareConcurrency": draw.choice([2, 4, 8]) if draw.random() < 0.96 else 99 + i,
            "screenWidth": draw.choice([1366, 1440]) if draw.random() < 0.8 else 9000 + i,
            "platform": "Linux",
            "canvas": f"c{draw.randrange(3000)}",
            "household": f"h{i // 2}",
            "country": "DE" if i % 4 else "FR",
        }
        | ({} if i % 30 else {"vendor": None})
        for i in range(USERS)
    ]
    again = [
        {**row, "user": f"u{i}", "time": "2026-03-06T10:00:00Z", "screenWidth": 1366 + i % 2}
        for i, row in enumerate(rows)
        if i % 2
    ]
    stored(folder, [*rows, *again])
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def proofs_once() -> Iterator[None]:
    """Prove each side once, however many files hold it."""
    known: dict[str, str] = {}
    prove = design.check_proof

    def remembered(*arguments: Any, **options: Any) -> str:
        key = json.dumps([arguments, options], sort_keys=True)
        if key not in known:
            known[key] = prove(*arguments, **options)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "check_proof", remembered)
        yield


def made(folder: Path, kind: str) -> tuple[Path, dict[str, Any]]:
    file = folder / f"{kind}.json"
    options = [str(folder / word) if word in FILES else word for word in KINDS[kind]]
    db = str(folder / "d.duckdb")
    assert run(["decide", *options, "--db", db, "-q", "-o", str(file)]) == 0
    return file, json.loads(file.read_text())


def members(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """All members of a file with their paths; of long lists some."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, each in value.items():
            yield from members(each, (*path, name))
    elif isinstance(value, list):
        for place in sorted({0, len(value) // 2, len(value) - 1}) if value else ():
            yield from members(value[place], (*path, place))


def others(value: Any) -> list[Any]:
    """What may stand in the place of a member."""
    found: dict[type, Callable[[Any], list[Any]]] = {
        bool: lambda told: [not told, int(told)],
        int: lambda told: [told + 1, told - 1, 0, str(told)],
        float: lambda told: [told * 1.02 or 0.02, told * 0.98 or -0.02, 0, str(told)],
        str: lambda told: [f"{told}x", [told]],
        list: lambda told: [[], told[::-1], told[:-1], [*told, *told[-1:]]],
        dict: lambda _: [{}],
        type(None): lambda _: [1, "x"],
    }
    return [*found[type(value)](value), None]


def changes(content: Mapping[str, Any]) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """Files of which one member is changed, or gone, or one more, with its path."""
    yield ("stranger",), {**content, "stranger": 1}
    for part in content.keys() & {"policy", "view", "data"}:
        yield (part,), {**content, part: {**content[part], "stranger": 1}}
    for path, value in members(content):
        if "proof" in path:  # `test_audit_certificate` changes its numbers
            continue
        for other in [*others(value), ...]:
            changed = copy.deepcopy(dict(content))
            place: Any = changed
            for name in path[:-1]:
                place = place[name]
            if other is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = copy.deepcopy(other)
            if json.dumps(changed) != json.dumps(content):
                yield path, changed


@pytest.mark.usefixtures("proofs_once")
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_changed_anywhere_is_refused(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, content = made(folder, kind)
    db, altered = str(folder / "d.duckdb"), folder / "altered.json"
    wanted = content["recommended"]
    audit = ["audit", "certificate", str(altered), "--db", db, "--format", "json"]
    gate = ["gate", str(altered), "--want", ",".join(wanted), "--db", db]
    altered.write_text(file.read_text())
    assert run(gate) == 0
    assert run(audit) == 0, capsys.readouterr().out
    accepted, carried_out = set(), set()
    for path, changed in changes(content):
        altered.write_text(json.dumps(changed))
        capsys.readouterr()
        audited, said = run(audit), capsys.readouterr()
        assert audited in {0, 1, 2, 3}, path
        assert audited != 2 or len(said.err.splitlines()) <= 2, said.err
        # Which sets the other users confirmed has no order.
        same = path[0] == "confirmation" and _in_order(changed) == _in_order(content)
        if audited == 0 and not same:
            accepted.add(path[0])
        if run(gate) != 0 or _lacks(changed, path) or path[:2] in UNUSED_PARTS:
            continue
        if _in_order(changed) != _in_order(content):
            carried_out.add(path[0])
    assert accepted == NOTHING
    assert carried_out <= NOTHING | UNUSED


def _lacks(content: Any, path: Path_) -> bool:
    for name in path[:-1]:
        content = content[name]
    return isinstance(content, dict) and path[-1] not in content


def _in_order(value: Any) -> Any:
    """A file with its lists in order, and nothing in them twice."""
    if isinstance(value, dict):
        return {name: _in_order(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted({json.dumps(_in_order(each)) for each in value})
    return value
