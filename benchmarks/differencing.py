"""Search for an answer that tells others whether a few users are there.

`python benchmarks/differencing.py` makes databases that differ in one thing only: 0, or 1 to k - 1
of their users are planted, in one of several ways. The rest is drawn at random, such that every
group of the others has at least k users, and one cell of each window and source is the largest.
Random questions are asked of all of them, with all that may be chosen in a question for others:
sets, windows, sources, views, coarser values, populations, forms; and senders send. What is
answered (output, messages, exit code, files, answers and their sizes of the service) must be the
same, but for times, keyed digests, and counts of records. JSON goes to stdout: the questions that
were asked, the kinds of planted users that an answer told apart from nobody, and the first
questions that did. `--time`
also compares how long `/v1/exposure` takes.

A release tells the numbers of its rows, so that it is asked whether users of rare values are told
from as many without any value (docs/release.md).

Kinds in `HELPLESS`, and verdicts, are told apart by design (docs/disclosure.md): that they are
found shows that the search sees.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from starlette.testclient import TestClient

from fpmonitor.cli import run
from fpmonitor.plugins import EXPORTERS, plugin_names
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    User = dict[str, Any]

K = 10
LANGUAGE, WIDTH, TOUCH = "Navigator.language", "Screen.width", "Navigator.maxTouchPoints"
AGENT, RARE = "Navigator.userAgent", "Navigator.getBattery"
APIS = (LANGUAGE, WIDTH, TOUCH, AGENT)
OWN = "Font.check#Acme Internal Sans"  # a name that the vocabulary lacks
LIBRARIES = ("lib 1.0", "other 2.0")
AGENTS = [f"Mozilla/5.0 (X11; rv:{v}.0) Gecko/20100101 Firefox/{v}.0" for v in (140, 141)]
ROBOT = "Mozilla/5.0 (X11) AppleWebKit/537.36 HeadlessChrome/140.0 Safari/537.36"
CONTROLS = {*plugin_names(EXPORTERS)} - {"csv", "gate-js", "json"}  # products, not files
VIEWS = ("--volatile raw", "--volatile left-out", "--drop-automation", f"--source '{LIBRARIES[0]}'")
CHANGES = ("--realised", "--what-if less.toml", "--support 40")
LESS = f'["{WIDTH}"]\nround = 100\n'


# ---- Databases


def drawn_users(rng: random.Random) -> list[User]:
    """Users of two weeks and two libraries; the first ones of each are its largest cell."""
    users: list[User] = []
    widths, languages = rng.sample(range(300, 3000), 3), rng.sample(["de", "en", "fr", "pl"], 2)
    for week in range(2):
        for library in LIBRARIES:
            for cell in range(6):
                size = rng.randint(90, 110) if cell == 0 else rng.randint(K, 20)
                users += [
                    {
                        "user": f"u{len(users) + i}",
                        "time": f"2026-01-{5 + 7 * week:02}T12:00:00Z",
                        "source": library,
                        LANGUAGE: languages[cell % 2],
                        WIDTH: widths[cell // 2],
                        TOUCH: 0,
                        AGENT: AGENTS[cell % 2],
                    }
                    for i in range(size)
                ]
    return users


def _share_a_value(users: list[User]) -> None:
    for user in users:
        user[WIDTH] = 4711


def _have_one_each(users: list[User]) -> None:
    for at, user in enumerate(users):
        user[LANGUAGE] = f"x-{at}"


def _lack_an_api(users: list[User]) -> None:
    for user in users:
        del user[TOUCH]


def _have_one_more_api(users: list[User]) -> None:
    for user in users:
        user[RARE] = "1"


def _have_a_name_of_their_own(users: list[User]) -> None:
    for user in users:
        user[OWN] = "1"


def _are_robots(users: list[User]) -> None:
    for user in users:
        user[AGENT] = ROBOT


def _come_back(users: list[User]) -> None:
    for user in users:
        user["again"] = True


def _one_of_each(users: list[User]) -> None:
    for at, change in enumerate(list(KINDS.values())[:-1]):
        change(users[at :: len(KINDS) - 1])


def _have_a_library(users: list[User]) -> None:
    for user in users:
        user["source"] = "rare 3.0"


def _have_no_value(users: list[User]) -> None:
    for user in users:
        del user[LANGUAGE], user[WIDTH]


def _join_another_group(users: list[User]) -> None:
    for user in users:
        user[AGENT] = AGENTS[1]


KINDS = {
    "a value together": _share_a_value,
    "a value each": _have_one_each,
    "without an API": _lack_an_api,
    "one API more": _have_one_more_api,
    "a name of their own": _have_a_name_of_their_own,
    "robots": _are_robots,
    "come back": _come_back,
    "of each kind": _one_of_each,
}
VALUELESS = "without a value"
OTHERS = {
    VALUELESS: _have_no_value,
    "a library of their own": _have_a_library,
    "in a group of others": _join_another_group,
}
HELPLESS = [kind for kind in OTHERS if kind != VALUELESS]
RELEASES = [
    f"release --apis {LANGUAGE},{WIDTH} --k {K} -o table.parquet --mechanism {how} --format {form}"
    for how in ("histogram", "cells")
    for form in ("json", "table")
]


def make(folder: Path, users: list[User], kind: str, planted: int, decision: Path) -> Path:
    """Make a database of users of whom the first ones of the second week are planted."""
    folder.mkdir()
    users = [dict(user) for user in users]
    second = [user for user in users if user["time"].startswith("2026-01-12")]
    (KINDS | OTHERS)[kind](second[:planted])
    lines = []
    for user in users:
        again = user.pop("again", False)
        lines.append(user)
        if again:
            lines.append(user | {"time": "2026-01-13T12:00:00Z", LANGUAGE: "back"})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "log.jsonl").write_text(text, encoding="utf-8")
    (folder / "less.toml").write_text(LESS, encoding="utf-8")
    with chdir(folder):
        if not decision.exists():
            answer("ingest log.jsonl --db old.duckdb")
            budget = f"--budget 5% --candidates {','.join(APIS)} -n 1000"
            answer(f"decide --db old.duckdb {budget} -o {decision}")
        Path("decision.json").write_bytes(decision.read_bytes())
        answer("export decision.json --to ublock --partial -o list.txt")
        answer("ingest log.jsonl")
    return folder


# ---- Questions


def questions(rng: random.Random) -> Iterator[str]:
    """Draw questions for ever: commands, and addresses of the service."""
    while True:
        apis = ",".join(rng.sample(APIS, rng.randint(1, 3)))
        more = rng.choice(["", "", "--since 2026-01-10", "--until 2026-01-10", *VIEWS])
        people = rng.choice(["", "", "-n 30", f"-n {10 ** rng.randint(3, 9)}"])
        form = "--format " + rng.choice(["json", "json", "table", "csv"])
        missing = rng.choice(["", "", "--missing drop", "--missing exposed"])
        extra = rng.choice(
            [
                "",
                "--entropies",
                "--bounds",
                "--trust joint",
                *CHANGES,
                f"--given {rng.choice(APIS)}",
            ]
        )
        period = rng.choice(["day", "week", "month", "batch", "source"])
        imported = "--decision decision.json --db fpmonitor.duckdb"
        yield rng.choice(
            [
                f"exposure --apis {apis} {more} {people} {missing} {extra} {form}",
                f"exposure --apis {apis} {more} {people} {missing} {extra} {form}",
                f"exposure --rank --size 2 {more} {people} {form}",
                f"exposure --curve --apis {apis} {more} {missing} {form}",
                f"db apis {more} {form}",
                f"db automation --apis {apis} {form}",
                f"exposure --apis {apis} --by {period} {form} --svg drawn.svg",
                f"check --compare {DB} {DB} --split 2026-01-10 {people} {form}",
                f"check decision.json --format {rng.choice(['json', 'junit', 'sarif'])}",
                f"exposure --plot {rng.choice(['exposure', 'entropy'])} {people} -o drawn.svg",
                f"exposure --plot trust --apis {apis} -o drawn.svg",
                "export --report decision.json -o drawn.svg",
                f"export --preview decision.json --to {rng.choice(sorted(CONTROLS))} {form}",
                f"export decision.json --to {rng.choice(plugin_names(EXPORTERS))} --partial",
                f"lists plan decision.json --to {rng.choice(sorted(CONTROLS))} {form}",
                f"lists import list.txt --from ublock {imported} {form}",
                f"GET /v1/exposure?apis={apis}",
                f"GET /v1/gate?want={apis}",
                f"GET /dashboard/explore?api={apis.replace(',', '&api=')}",
                f"GET {rng.choice(['/', '/dashboard/live', '/dashboard/apis', '/v1/decision'])}",
                "GET /metrics",
                "GET /healthz",
                f"POST {rng.choice([OWN, RARE, AGENT, 'x.new'])} {rng.choice('ab')}",
            ]
        )


# A sender may have three names of its own, and sends more; a stranger asks in between.
SENT = [
    *(f"POST x.{number} a" for number in range(5)),
    *(f"POST {name} {value}" for name in (OWN, RARE, AGENT, "x.1", "x.9") for value in "ab"),
    "GET /healthz",
    "GET /v1/gate?want=" + RARE,
    "GET /metrics",
]
DB = "fpmonitor.duckdb"
VERDICTS = [
    "decide --budget 5% -n 5000",
    "decide --budget 2% --setting sample",
    "export --report -o drawn.svg",
]

_AS_TEXT = {"content-type": "text/plain"}
_UNEQUAL = re.compile(
    r"(?:\d{4}-\d\d-\d\d)?(?:T| at | )?\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: UTC|Z|\+00:00)?"
    r"|[0-9a-f]{32,}|\"seconds\": [\d.e-]+|[\d.,]+ (?:m?s\b|seconds)|process_\S+ .*"
    r"|fpmonitor_(?:request|postponed).*|\w+_created\{.*|python_\S+ .*|<dt>Records</dt><dd>[\d,]+"
)


def answer(question: str, *, audience: str = "others") -> str:
    """Everything that a command gives out, in the working folder."""
    said, noted = io.StringIO(), io.StringIO()
    arguments = [part.strip("'") for part in re.findall(r"'[^']*'|\S+", question)]
    own = (
        question.startswith(("ingest", "exposure --plot", "export --report")) or audience == "owner"
    )
    drawn = [Path(name) for name in ("drawn.svg", "table.parquet", "table.manifest.json")]
    for path in drawn:
        path.unlink(missing_ok=True)
    with redirect_stdout(said), redirect_stderr(noted):
        code = run(arguments if own else ["--for-others", *arguments])
    if question.startswith("ingest") and code != 0:
        raise RuntimeError(noted.getvalue())
    files = [path.read_bytes().decode("latin-1") for path in drawn if path.exists()]
    return "\n".join([str(code), said.getvalue(), noted.getvalue(), *files])


def answers(folder: Path, asked: list[str], *, audience: str = "others") -> list[str]:
    """Answers of one database, without times and digests."""
    config = ServeConfig(
        db=folder / "fpmonitor.duckdb",
        decision=folder / "decision.json",
        flush_seconds=3600,
        max_names=3,
        records_per_minute=40,
    )
    found = []
    # A machine that has more to do must not leave lines of `/metrics` out in one world only.
    patient = patch("fpmonitor.serve.app._GAUGES_SECONDS", 60.0)
    served = TestClient(service_app(config), base_url="http://localhost")
    with patient, chdir(folder), served as client:
        for question in asked:
            if question.startswith("GET "):
                got = client.get(question.removeprefix("GET "))
                sizes = got.headers.get("content-length") if "metrics" not in question else ""
                text = f"{got.status_code} {sizes}\n{got.text}"
            elif question.startswith("POST "):
                name, _, value = question.removeprefix("POST ").rpartition(" ")
                sent = json.dumps({"user": "sender", "api": name, "value": value})
                got = client.post("/v1/observations", content=sent, headers=_AS_TEXT)
                text = f"{got.status_code} {got.headers.get('retry-after')}\n{got.text}"
            else:
                text = answer(question, audience=audience)
            found.append(_UNEQUAL.sub("", text))
    return found


# ---- The search


def search(
    seed: int,
    kinds: list[str],
    numbers: list[int],
    asked: int,
    *,
    also: Sequence[str] = (),
    audience: str = "others",
    beside: str | None = None,
) -> dict[str, Any]:
    """Ask the same questions of databases with and without planted users.

    With `beside` the latter have as many of that kind instead of nobody.

    Returns
    -------
    dict
        `asked`, the questions of each database, `also` among them; `answered`, those with exit
        code 0, 200 or 202;
        `planted`, kinds and numbers of planted users; `told_apart`, of which of them an answer
        differs from that without them, and the first question that shows it.
    """
    rng = random.Random(seed)
    users = drawn_users(rng)
    chosen = questions(rng)
    drawn = [next(chosen) for _ in range(asked)] + [*also]
    told: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        decision = folder / "decision.json"
        without: dict[int, list[str]] = {}

        def told_by(kind: str, number: int) -> list[str]:
            made = make(folder / f"{kind} {number}", users, kind, number, decision)
            return answers(made, drawn, audience=audience)

        for kind, number in ((k, n) for k in kinds for n in numbers):
            base = number if beside else 0
            if base not in without:
                without[base] = told_by(beside or kinds[0], base)
            nobody, found = without[base], told_by(kind, number)
            apart = [place for place in range(len(drawn)) if found[place] != nobody[place]]
            if apart:
                told.append({"kind": kind, "users": number, "questions": len(apart)})
                told[-1]["first"] = drawn[apart[0]]
                told[-1]["lines"] = _different_lines(nobody[apart[0]], found[apart[0]])
    return {
        "asked": len(drawn),
        "answered": sum(text.startswith(("0\n", "200 ", "202 ")) for text in nobody),
        "planted": len(kinds) * len(numbers),
        "told_apart": told,
    }


def _different_lines(one: str, other: str) -> list[str]:
    pairs = zip(one.splitlines(), other.splitlines(), strict=False)
    return next(([a[:200], b[:200]] for a, b in pairs if a != b), ["", "lines"])


def times(seed: int, rounds: int) -> dict[str, float]:
    """CPU time of an answer about nobody and about 1 or 9 users, asked in turn, as ratios."""
    users = drawn_users(random.Random(seed))
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clients = {}
        for label, number in (("nobody", 0), ("nobody again", 0), ("1 user", 1), ("9 users", 9)):
            made = make(folder / label, users, "a value together", number, folder / "d.json")
            app = service_app(ServeConfig(db=made / "fpmonitor.duckdb", flush_seconds=3600))
            clients[label] = TestClient(app, base_url="http://localhost")
        for _ in range(rounds):
            for label, client in clients.items():
                started = time.process_time()
                client.get(f"/v1/exposure?apis={WIDTH}")
                seconds.setdefault(label, []).append(time.process_time() - started)
    first = statistics.median(seconds["nobody"][1:])
    return {label: round(statistics.median(each[1:]) / first, 3) for label, each in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=5, help="users drawn anew so often")
    parser.add_argument("--questions", type=int, default=200, help="of each database")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", type=int, metavar="ROUNDS", default=0)
    options = parser.parse_args()
    os.environ["COLUMNS"] = "200"
    found = {"questions": 0, "answered": 0, "planted": 0, "told_apart": 0}
    first: list[Any] = []
    for seed in range(options.seed, options.seed + options.worlds):
        drawn = search(seed, list(KINDS), [1, 5, K - 1], options.questions)
        rare = ["a value together", "a value each"]
        of_releases = search(seed, rare, [1, 5, K - 1], 0, also=RELEASES, beside=VALUELESS)
        for one in (drawn, of_releases):
            found["questions"] += one["asked"] * (one["planted"] + 1)
            found["answered"] += one["answered"] * (one["planted"] + 1)
            found["planted"] += one["planted"]
            found["told_apart"] += len(one["told_apart"])
            first += one["told_apart"]
        print(seed, found, first, file=sys.stderr, flush=True)
    some = options.questions // 4
    helpless = [
        search(options.seed, HELPLESS, [1, K - 1], some),
        search(options.seed, list(KINDS), [K - 1], 0, also=VERDICTS),
    ]
    result: dict[str, Any] = found | {"found": first, "helpless": helpless}
    if options.time:
        result["time"] = times(options.seed, options.time)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
