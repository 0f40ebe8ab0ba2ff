"""The sealing page snippet: the answers of a page are those of the Python client, byte by byte.

In a made-up browser of Node.js, and in Chromium. One test needs npm's `@hpke/core` in the folder
that FPMONITOR_NODE_MODULES names.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import random
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs
from scipy import stats

from fpmonitor.cli import run as main
from fpmonitor.errors import InputError
from fpmonitor.ldp.mechanisms import StochasticMatrix
from fpmonitor.monitor import Monitor
from fpmonitor.private.client import randomised, reports_for
from fpmonitor.private.keys import SecretKeys, info_of, open_message, seal_message
from fpmonitor.private.matrix_ask import matrix_randomisation
from fpmonitor.private.randomised import estimate
from fpmonitor.private.study import (
    MATRIX_BITS,
    MATRIX_TOTAL,
    MECHANISMS,
    CollectionRequest,
    Randomisation,
    RedactionRule,
    SetPromise,
    Study,
    check_ask,
    first_ask,
    release_ask,
)
from fpmonitor.private.tokens import token_of
from fpmonitor.private.wire import (
    HpkeConfig,
    SealedReport,
    decode_report,
    decode_uploads,
    encode_configs,
)
from fpmonitor.serve.snippet import script_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.private.study import MechanismName

ROOT = Path(__file__).parents[2]
BROWSER = ROOT / "collectors" / "browser"
NODE = shutil.which("node")
MODULES = os.environ.get("FPMONITOR_NODE_MODULES", "")
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")

# A browser with one property a value; what is read, stored and posted is written down.
DRIVER = """
import { readFileSync } from "node:fs";
const { files, values, script } = JSON.parse(readFileSync(0, "utf-8"));
const reads = [], posts = [], beacons = [], stored = {}, scripts = {};
let last = Promise.resolve();
const device = {
  locks: { request: (name, held) => (last = last.then(held)) },
};
for (const name of Object.keys(values))
  Object.defineProperty(device, name, { configurable: true, get() {
    reads.push(name);
    if (values[name] === null && name.startsWith("error")) throw new TypeError("refused");
    return name.startsWith("undefined") ? undefined : values[name];
  } });
Object.defineProperty(globalThis, "navigator", { value: device });
globalThis.window = globalThis;
globalThis.localStorage = {
  getItem: (key) => stored[key] ?? null,
  setItem: (key, text) => { stored[key] = text; },
  removeItem: (key) => { delete stored[key]; },
};
const ofTab = {};
globalThis.sessionStorage = {
  getItem: (key) => ofTab[key] ?? null,
  setItem: (key, text) => { ofTab[key] = text; },
  removeItem: (key) => { delete ofTab[key]; },
};
let status = 200;
const uploads = (body) => {
  let count = 0;
  for (let at = 0; at < body.length; count++) {
    at += 19 + body.readUInt16BE(at + 17);
    at += 4 + body.readUInt32BE(at);
  }
  return count;
};
let judged = (count) => ({ accepted: count, refused: {} });
globalThis.fetch = async (address, { body, ...how }) => {
  if (typeof body == "string") { beacons.push(body); return { status: 202 }; }
  posts.push({ address, how, body: Buffer.from(body).toString("base64") });
  return { ok: status == 200, json: async () => judged(uploads(Buffer.from(body))) };
};
for (const file of files) {
  (0, eval)(readFileSync(file, "utf-8"));
  scripts[file.split("/").pop()] = globalThis.fpmonitor;
}
const AsyncFunction = (async () => {}).constructor;
const answerWith = (code, judge = judged) => { status = code; judged = judge; };
const given = { reads, posts, beacons, stored, scripts, device, answerWith };
const result = await new AsyncFunction(...Object.keys(given), script)(...Object.values(given));
const seen = JSON.stringify({ result, reads, posts, beacons, stored });
process.stdout.write(seen, () => process.exit(0));
"""


def run(
    folder: Path,
    script: str,
    values: Mapping[str, Any] | None = None,
    files: Sequence[str] = ("collector-sealed.js",),
) -> Any:
    assert NODE is not None
    (folder / "driver.mjs").write_text(DRIVER, encoding="utf-8")
    content = {
        "files": [str(BROWSER / name) for name in files],
        "values": values or {},
        "script": script,
    }
    done = subprocess.run(
        [NODE, "driver.mjs"], cwd=folder, input=json.dumps(content), capture_output=True,
        text=True, encoding="utf-8", check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Parties:
    """A study with its ask, and the secret keys of those who open the answers."""

    study: Study
    ask: CollectionRequest
    shuffler: SecretKeys = field(default_factory=lambda: SecretKeys.generate("shuffler"))
    recipient: SecretKeys = field(default_factory=lambda: SecretKeys.generate("curator"))

    def options(self, consent: str = "() => true", **changed: str) -> str:
        """The argument of `fpmonitor.seal`, as JavaScript."""
        members = {
            "to": "https://shuffler.example/",
            "study": self.study.to_bytes().decode(),
            "ask": self.ask.to_bytes().decode(),
            "shufflerKeys": base64.b64encode(self.shuffler.configs).decode(),
            "recipientKeys": base64.b64encode(self.recipient.configs).decode(),
        }
        return f"{{ ...{json.dumps(members | changed)}, consent: {consent} }}"

    def call(self, **changed: str) -> str:
        return f'return scripts["collector-sealed.js"].seal({self.options(**changed)});'

    def reports(self, posts: Sequence[Mapping[str, Any]]) -> list[SealedReport]:
        """What the recipient reads, in the order of arrival."""
        return [report for post in posts for report in self.opened(base64.b64decode(post["body"]))]

    def opened(self, body: bytes) -> Iterator[SealedReport]:
        for upload in decode_uploads(body):
            assert upload.ask == self.ask.id
            inner = open_message(upload.sealed, self.shuffler.by_id(), "shuffler", self.ask.id)
            report = open_message(
                next(decode_uploads(bytes(16) + inner)).sealed,
                self.recipient.by_id(),
                self.ask.recipient,
                self.ask.id,
            )
            assert len(report) == self.study.report_bytes
            yield decode_report(report)

    def answers(self, posts: Sequence[Mapping[str, Any]]) -> dict[int, tuple[str, ...]]:
        found = {report.set_index: report.tokens for report in self.reports(posts)}
        assert len(found) == len(self.reports(posts))
        return found


def study_of_apis(apis: Sequence[str], **terms: Any) -> Study:
    return Study(
        **({"name": "t", "apis": tuple(sorted(apis)), "population": 1000, "k": 2, "budget": 0.5}
           | terms)
    )  # fmt: skip


def parties_of(names: Sequence[str], **terms: Any) -> Parties:
    curator = SecretKeys.generate("curator")
    study = study_of_apis(
        [f"Navigator.{name}" for name in names], **{"curator_key": curator.verifying} | terms
    )
    return Parties(study, first_ask(study), recipient=curator)


def stored_tokens(folder: Path, beacons: Sequence[str]) -> dict[str, str]:
    """Token by API of the one user whose records a page sent."""
    log = folder / "log.jsonl"
    log.write_text("".join(beacons), encoding="utf-8")
    database = folder / "log.duckdb"
    database.unlink(missing_ok=True)
    with Monitor(database, create=True) as monitor:
        monitor.ingest([str(log)])
        return {row[1]: token_of(row[2], row[4]) for row in monitor.observations()}


BOTH = (
    'await scripts["collector.js"].collect({{ endpoint: "/", consent: () => true, apis: {} }});\n'
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**70), 2**70) | st.text() | st.floats(1e15, 1e23) | st.floats(1e-9, 1e-3),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=8,
)  # fmt: skip
TEXTS = (
    st.text()
    | JSON_VALUES.map(json.dumps)
    | JSON_VALUES.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1))
    | st.text(alphabet='[]{}",:0123456789.eE+-\\u Ifntyau', max_size=20).map(
        lambda text: "[" + text
    )
    | st.text(min_size=100, max_size=400)
)


# Where JavaScript, Python and DuckDB write a value differently, each of them once.
AWKWARD: list[Any] = [
    *(0, -0.0, 0.1 + 0.2, 1e16, 1e20, 2**53, 1e21, -1e25, 1e-5, 1e-7, 1.5e300, 5e-324, None, True),
    *("", "null", "1.0", "a\0b", "\x7f\x1f", "\u2028", "[object X]", " [1]", "\ud800x", ["\ud800"]),
    [1e21, 1e-7, 1.5e-7, 1e-5, 1e-4, 1e16, 1.5e16, 2**64, 1e20, -0.0, 123456789012345.6],
    {"10": 1, "9": 2, "b": {"\U0001f600": 1, "\ue000": 2, "__proto__": 3}},
    *(['\u2028\x7f\x1f\0"\\'], [], {}, [[["x"]]], [True, None], {"a": {}}),
    *('{"b":1e5, "a":[1.0,-0,-0.0]}', "[1,  2]", '{"a":1,"a":2}', '["\\ud83d\\ude00"]'),
    '["\\ud83d"]',
    *("[1e400, -1e400]", "[12345678901234567890123]", "[NaN, -Infinity]", "[-NaN]", "[01]", "[1]x"),
    *("[1] ", "{'a':1}", '["a\\\nb"]', "[nan]", "[1E5,1e+5]", "[.5]", '{"1.50":"1.50"}', "[true]"),
    *("\u00e9" * 128, "\u00e9" * 129, "\U0001f468\u200d" * 40, "[" + " " * 300 + "]"),
    *([1e-7] * 50, ["\u00e9" * 200], {str(index): index for index in range(100)}),
]  # fmt: skip


def check_tokens(folder: Path, values: Sequence[Any], **terms: Any) -> dict[str, str]:
    """Compare what a page seals with what its stored record would be answered by; gives tokens."""
    named = {f"m{index}": value for index, value in enumerate(values)}
    parties = parties_of(list(named), **terms)
    first = BOTH.format(json.dumps(list(parties.study.apis)))
    page = run(folder, first + parties.call(), named, ("collector.js", "collector-sealed.js"))
    assert page["result"] == {"outcome": "sent", "uploads": len(named), "unread": []}
    found = parties.answers(page["posts"])
    tokens = stored_tokens(folder, page["beacons"])
    expected = dict(reports_for(parties.study, parties.ask, tokens))
    assert [
        (named[api.removeprefix("Navigator.")], found[index], expected[index])
        for index, (api,) in enumerate(parties.ask.sets)
        if found[index] != expected[index]
    ] == []
    return {api: found[index][0] for index, (api,) in enumerate(parties.ask.sets)}


@needs_node
def test_a_page_answers_what_its_stored_record_would_answer(tmp_path: Path) -> None:
    shown = check_tokens(tmp_path, AWKWARD, report_bytes=6000)
    by_value = [(value, shown[f"Navigator.m{index}"]) for index, value in enumerate(AWKWARD)]
    assert (1e-5, "=0.00001") in by_value
    assert ("\ud800x", "absent") in by_value
    assert ("[1E5,1e+5]", "=[100000.0,100000.0]") in by_value
    assert sum(token.startswith("=sha256:") for _, token in by_value) == 6


@pytest.mark.long
@needs_node
@given(values=st.lists(JSON_VALUES | TEXTS, min_size=40, max_size=60))
@settings(
    max_examples=5, deadline=None, phases=[Phase.generate],
    suppress_health_check=[
        HealthCheck.function_scoped_fixture, HealthCheck.large_base_example, HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)  # fmt: skip
def test_a_page_answers_any_value_as_its_stored_record_would(
    tmp_path: Path, values: list[Any]
) -> None:
    check_tokens(tmp_path, values, report_bytes=6000)


@needs_node
def test_long_tokens_leave_the_page_as_digests_salted_with_the_study(tmp_path: Path) -> None:
    values = ["x" * 137, "x" * 138, "\u00e9" * 69, "short"]
    shown = check_tokens(tmp_path, values, report_bytes=19 + 4 * 35)
    assert [shown[f"Navigator.m{index}"][0] for index in range(4)] == ["=", "#", "#", "="]


@needs_node
def test_statuses_are_words_and_what_a_page_cannot_read_is_absent(tmp_path: Path) -> None:
    study = study_of_apis(
        [*(f"Navigator.{name}" for name in ("error1", "undefined1", "plain")), "http:user-agent"]
    )
    parties = Parties(study, first_ask(study))
    page = run(tmp_path, parties.call(), {"error1": None, "undefined1": 0, "plain": "undefined"})
    shown = {study.apis[index]: held for index, (held,) in parties.answers(page["posts"]).items()}
    assert shown == {
        "Navigator.error1": "error",
        "Navigator.undefined1": "undefined",
        "Navigator.plain": "=undefined",
        "http:user-agent": "absent",
    }
    assert page["result"]["unread"] == ["http:user-agent"]


@needs_node
def test_several_apis_go_into_one_report_and_nothing_names_the_user(tmp_path: Path) -> None:
    names = ["m1", "m2", "m3"]
    parties = parties_of(names, largest_set=2, report_bytes=150)
    one, two, three = parties.study.apis
    parties = replace(
        parties, ask=structs.replace(parties.ask, sets=((one, two), (two, three), (three,)))
    )
    values = dict(zip(names, ["x" * 100, 5, "y"], strict=True))
    page = run(tmp_path, parties.call(), values)
    tokens = {one: "=" + "x" * 100, two: "=5", three: "=y"}
    assert parties.answers(page["posts"]) == dict(reports_for(parties.study, parties.ask, tokens))
    assert parties.answers(page["posts"])[0][0].startswith("#")
    assert page["reads"].count("m2") == 1
    nonces = {report.nonce for report in parties.reports(page["posts"])}
    assert len(nonces) == 3
    user = json.loads(page["stored"]["fpmonitor"])["user"]
    for report in parties.reports(page["posts"]):
        assert bytes.fromhex(user) not in report.encode(150)
    [post] = page["posts"]
    assert post["address"] == "https://shuffler.example/uploads"
    assert post["how"] == {
        "method": "POST", "keepalive": True, "credentials": "omit", "referrerPolicy": "no-referrer",
    }  # fmt: skip


@needs_node
@pytest.mark.parametrize(
    ("consent", "before", "outcome"),
    [
        ("() => false", "", "consent"),
        ("() => 'yes'", "", "consent"),
        ("() => true", "device.globalPrivacyControl = true;", "gpc"),
        ("() => true", "localStorage.setItem = () => { throw new Error('full'); };", "storage"),
        ("() => true", "Object.defineProperty(crypto, 'subtle', {});", "unsupported"),
    ],
)
def test_without_leave_nothing_is_read_stored_or_posted(
    tmp_path: Path, consent: str, before: str, outcome: str
) -> None:
    parties = parties_of(["m1"])
    page = run(tmp_path, before + parties.call(consent=consent), {"m1": 1})
    assert page["result"] == {"outcome": outcome, "uploads": 0, "unread": []}
    assert (page["reads"], page["posts"], page["beacons"], page["stored"]) == ([], [], [], {})


@needs_node
def test_loading_the_script_does_nothing(tmp_path: Path) -> None:
    page = run(tmp_path, "return Object.keys(fpmonitor)", {"m1": 1})
    assert page["result"] == ["seal", "forget"]
    assert (page["reads"], page["posts"], page["stored"]) == ([], [], {})
    code = (BROWSER / "collector-sealed.js").read_text(encoding="utf-8")
    assert not re.search(r"\bimport\(|\brequire\b|\beval\b|new Function|https?:", code)


@needs_node
def test_an_ask_is_answered_once_in_the_life_of_the_id(tmp_path: Path) -> None:
    parties = parties_of(["m1", "m2"], report_bytes=100)
    script = f"""const {{ seal, forget }} = scripts["collector-sealed.js"], seen = [];
    const options = {parties.options()};
    const visit = async () => seen.push((await seal(options)).outcome);
    const start = Date.now();
    for (const days of [0, 89, 91]) {{ Date.now = () => start + days * 864e5; await visit(); }}
    forget();
    await visit();
    return seen;"""
    page = run(tmp_path, script, {"m1": 1, "m2": 2})
    assert page["result"] == ["sent", "answered", "sent", "sent"]
    assert len(page["posts"]) == 3
    assert page["reads"].count("m1") == 3


@needs_node
def test_two_tabs_do_not_answer_twice(tmp_path: Path) -> None:
    parties = parties_of(["m1", "m2"])
    script = f"""const {{ seal }} = scripts["collector-sealed.js"], options = {parties.options()};
    return Promise.all([seal(options), seal(options)]);"""
    page = run(tmp_path, script, {"m1": 1, "m2": 2})
    # Either may come first: digests are computed beside the script.
    assert sorted(done["outcome"] for done in page["result"]) == ["answered", "sent"]
    assert len(parties.reports(page["posts"])) == 2


@needs_node
def test_what_the_shuffler_did_not_take_is_sent_again_unchanged(tmp_path: Path) -> None:
    names = [f"m{index}" for index in range(70)]
    parties = parties_of(names, report_bytes=3000)
    script = f"""const {{ seal }} = scripts["collector-sealed.js"], seen = [];
    const options = {parties.options()};
    const visit = async () => seen.push(await seal(options));
    const post = fetch;
    globalThis.fetch = async (...given) => {{
      if (posts.length == 2) answerWith(503);
      return post(...given); }};
    await visit();
    globalThis.fetch = async () => {{ throw new TypeError("offline"); }};
    await visit();
    globalThis.fetch = post; answerWith(200);
    await visit(); await visit();
    return seen;"""
    page = run(tmp_path, script, dict.fromkeys(names, "v"))
    outcomes = [seen["outcome"] for seen in page["result"]]
    assert outcomes == ["undelivered", "undelivered", "sent", "answered"]
    bodies = [base64.b64decode(post["body"]) for post in page["posts"]]
    assert bodies[2] == bodies[3]
    assert max(map(len, bodies)) < 65_536
    uploads = [list(decode_uploads(body)) for body in bodies]
    assert [seen["uploads"] for seen in page["result"]] == [
        len(uploads[0]) + len(uploads[1]), 0, 70 - len(uploads[0]) - len(uploads[1]), 0,
    ]  # fmt: skip
    del page["posts"][2]
    assert set(parties.answers(page["posts"]).values()) == {("=v",)}
    assert len(page["reads"]) == 70


@needs_node
def test_an_answer_that_is_no_receipt_acknowledges_nothing(tmp_path: Path) -> None:
    parties = parties_of(["m1"])
    portal = """globalThis.fetch = async () => (
      { ok: true, json: async () => { throw new SyntaxError("a page of the hotel"); } });"""
    page = run(tmp_path, portal + parties.call(), {"m1": 1})
    assert page["result"] == {"outcome": "undelivered", "uploads": 0, "unread": []}


@needs_node
def test_what_may_not_outlive_the_page_is_sent_without_that(tmp_path: Path) -> None:
    """Firefox counts such bodies of several requests together."""
    parties = parties_of(["m1"])
    limited = """const post = fetch; globalThis.fetch = async (address, how) => {
      if (how.keepalive) throw new TypeError("too much");
      return post(address, how); };"""
    page = run(tmp_path, limited + parties.call(), {"m1": 1})
    assert page["result"]["outcome"] == "sent"
    assert [post["how"]["keepalive"] for post in page["posts"]] == [False]


@needs_node
@pytest.mark.parametrize(
    ("refused", "outcome", "uploads"),
    [("replayed", "sent", 3), ("unknown key", "refused", 1)],
)
def test_what_the_shuffler_holds_already_counts_and_what_it_refuses_is_told(
    tmp_path: Path, refused: str, outcome: str, uploads: int
) -> None:
    parties = parties_of(["m1", "m2", "m3"])
    judge = f'answerWith(200, () => ({{ accepted: 1, refused: {{ "{refused}": 2 }} }}));'
    again = f"""{judge} const {{ seal }} = scripts["collector-sealed.js"];
    const options = {parties.options()};
    const first = await seal(options), second = await seal(options);
    return [first, second.outcome];"""
    page = run(tmp_path, again, {"m1": 1})
    first, second = page["result"]
    assert (first["outcome"], first["uploads"], second) == (outcome, uploads, "answered")


@needs_node
def test_a_report_larger_than_a_body_still_goes(tmp_path: Path) -> None:
    parties = parties_of(["m1", "m2"], report_bytes=60_000)
    page = run(tmp_path, parties.call(), {"m1": 1, "m2": 2})
    assert page["result"]["outcome"] == "sent"
    assert [len(base64.b64decode(post["body"])) for post in page["posts"]] == [60_126, 60_126]


@needs_node
def test_nothing_leaves_where_the_sealed_answers_cannot_be_kept(tmp_path: Path) -> None:
    parties = parties_of(["m1"])
    full = """const put = localStorage.setItem;
    localStorage.setItem = (key, text) => {
      if (text.length > 500) throw new Error("full");
      put(key, text); };
    """
    page = run(tmp_path, full + parties.call(), {"m1": 1})
    assert page["result"]["outcome"] == "storage"
    assert page["posts"] == []


@needs_node
def test_uploads_leave_in_an_order_that_says_nothing(tmp_path: Path) -> None:
    parties = parties_of([f"m{index}" for index in range(40)], report_bytes=2000)
    orders = []
    for _ in range(2):
        page = run(tmp_path, parties.call(), {"m1": 1})
        orders.append([report.set_index for report in parties.reports(page["posts"])])
        assert sorted(orders[-1]) == list(range(40))
    assert orders[0] != orders[1]
    assert list(range(40)) not in orders


def changed_ask(parties: Parties, change: Mapping[str, Any]) -> str:
    content = json.loads(parties.ask.to_bytes()) | change
    return json.dumps(content, indent=1) + "\n"


TOTAL = MATRIX_TOTAL
MATRIX: dict[str, Any] = {
    "mechanism": "matrix", "epsilon": math.log(3), "values": ["=1", "=2"],
    "matrix": [[TOTAL // 4, TOTAL // 4 * 3], [TOTAL // 4 * 3, TOTAL // 4]],
}  # fmt: skip
ASKS: list[dict[str, Any]] = [
    {},
    {"sets": [["Navigator.m1", "Navigator.m2"]]},
    {"sets": [["Navigator.m1", "Navigator.m2", "Navigator.m3"]]},
    {"sets": [["Navigator.m1", "Navigator.m2", "Navigator.m3"]], "recipient": "analyst"},
    {"sets": [["Navigator.m1"], ["Navigator.m2"]], "recipient": "analyst"},
    {"sets": [["Navigator.other"]]},
    {"sets": [["Navigator.m2", "Navigator.m1"]]},
    {"sets": [["Navigator.m1", "Navigator.m1"]]},
    {"sets": [["Navigator.m1"], ["Navigator.m1"]]},
    {"sets": []},
    {"sets": [[]]},
    {"study": "00" * 16},
    {"epoch": -1},
    {"round": 0},
    {"recipient": "shuffler"},
    {"format": "fpmonitor-ask-2"},
    {"redact": {"Navigator.m1": {"keep": ["=1"], "cover": 0.5}}},
    {"redact": {"Navigator.m1": {"keep": ["=1"], "cover": 1.0}}},
    {"redact": {"Navigator.m1": {"keep": ["=1"], "cover": -0.1}}},
    {"redact": {"Navigator.m1": {"keep": ["=1"]}}},
    {"randomise": {"Navigator.m1": {"mechanism": "grr", "epsilon": 1.0, "values": ["=1", "=2"]}}},
    {"randomise": {"Navigator.m1": {"mechanism": "rr", "epsilon": 1.0, "values": ["=1", "=2"]}}},
    {"randomise": {"Navigator.m1": {"mechanism": "oue", "epsilon": 0.0, "values": ["=1", "=2"]}}},
    {"randomise": {"Navigator.m1": {"mechanism": "oue", "epsilon": 1.0, "values": ["=1", "=1"]}}},
    {"randomise": {"Navigator.m1": {"mechanism": "oue", "epsilon": 1.0, "values": ["=1"]}}},
    {"randomise": {"Navigator.m1": {"mechanism": "has", "epsilon": 1.0, "values": ["=1", "=2"]}}},
    *({"randomise": {"Navigator.m1": {"mechanism": mechanism, "epsilon": 1.0,
                                      "values": ["=1", "=2"], "hash_range": number}}}
      for mechanism, number in (("lh", 3), ("lh", 1), ("lh", 2.5), ("lh", 2**31 + 1), ("oue", 3))),
    {"randomise": {"Navigator.m1": {"mechanism": "lh", "epsilon": 1.0, "values": ["=1", "=2"]}}},
    {"randomise": {"Navigator.m1": {"mechanism": "blh", "epsilon": 1.0, "values": ["=1", "=2"]}}},
    {"randomise": {"Navigator.m1": {"mechanism": "grr", "epsilon": 1.0, "values": ["=1", "=2"]}},
     "sets": [["Navigator.m1", "Navigator.m2"]]},
    *({"randomise": {name: {"mechanism": mechanism, "epsilon": 1.0,
                            "values": [f"={value}" for value in range(values)]}
                     for name in ("Navigator.m1", "Navigator.m2")},
       "sets": [["Navigator.m1", "Navigator.m2"]]}
      for mechanism, values in (("grr", 16), ("grr", 17), ("oue", 2))),
    *({"randomise": {"Navigator.m1": MATRIX, "Navigator.m2": MATRIX}, "sets": sets}
      for sets in ([["Navigator.m1", "Navigator.m2"], ["Navigator.m1"]],
                   [["Navigator.m1", "Navigator.m3"], ["Navigator.m2"]])),
    *({"randomise": {"Navigator.m1": {"mechanism": "oue", "epsilon": 1.0,
                                      "values": [f"={value}" for value in range(values)]}}}
      for values in (1002, 1003)),
    *({"randomise": {"Navigator.m1": {"mechanism": "grr", "epsilon": 1.0,
                                      "values": ["=1", "=" + "v" * length]}}}
      for length in (1002, 1003)),
    *({"redact": {"Navigator.m1": {"keep": ["=1", "=" + "\u00e9" * length], "cover": 0.5}}}
      for length in (501, 502)),
    *({"randomise": {"Navigator.m1": MATRIX | change}} for change in (
        {}, {"mechanism": "grr"}, {"mechanism": "oue"}, {"epsilon": 1.0}, {"epsilon": None},
        {"epsilon": math.log(3) + 1e-10}, {"epsilon": math.log(3) + 1e-8}, {"hash_range": 2},
        {"values": ["=1"]}, {"values": ["=1", "=1"]}, {"values": ["=1", "=2", "=3"]},
        {"matrix": None}, {"matrix": []}, {"matrix": [[TOTAL, TOTAL]], "epsilon": 0.0},
        {"matrix": [[TOTAL, 0], [0, TOTAL]]}, {"matrix": [[TOTAL, 0], [0, TOTAL]], "epsilon": None},
        {"matrix": [[TOTAL // 4, TOTAL // 4 * 3], [TOTAL // 4 * 3 - 1, TOTAL // 4]]},
        {"matrix": [[TOTAL // 4, TOTAL // 4 * 3], [TOTAL // 4 * 3 + 0.5, TOTAL // 4]]},
        {"matrix": [[TOTAL // 4, TOTAL // 4 * 3], [TOTAL // 4 * 3, TOTAL // 4], [0, 0]]},
        {"matrix": [[TOTAL // 4, TOTAL // 4 * 3], [TOTAL // 4 * 3, TOTAL // 4], [-1, 1]]},
        {"matrix": [[TOTAL // 4, TOTAL // 4 * 3], [TOTAL // 4 * 3, TOTAL // 4], [0]]},
        {"matrix": MATRIX["matrix"] + [[0, 0]] * 32_766},
        {"matrix": MATRIX["matrix"] + [[0, 0]] * 32_767},
        {"matrix": [[2**60, 2**60], [TOTAL - 2**60, TOTAL - 2**60]]},
    )),
]  # fmt: skip


def is_accepted(study: Study, ask: str) -> bool:
    try:
        check_ask(study, CollectionRequest.from_bytes(ask.encode()))
    except InputError:
        return False
    return True


@needs_node
def test_a_page_answers_what_the_python_client_answers_and_nothing_else(tmp_path: Path) -> None:
    parties = parties_of(["m1", "m2", "m3"], largest_set=2)
    asks = [changed_ask(parties, change) for change in ASKS]
    script = f"""const seen = [];
    for (const ask of {json.dumps(asks)})
      seen.push(await scripts["collector-sealed.js"].seal({{ ...{parties.options()}, ask }}).then(
        (done) => done.outcome == "sent", () => false));
    return seen;"""
    page = run(tmp_path, script, {"m1": 1, "m2": 2, "m3": 3})
    accepted = [is_accepted(parties.study, ask) for ask in asks]
    assert page["result"] == accepted
    assert sum(accepted) == 17
    assert len(page["posts"]) == 17


def released(parties: Parties, *names: str, upper: float = 0.1, number: int = 2) -> Parties:
    """The parties with a request for the analyst that the curator signed."""
    apis = tuple(f"Navigator.{name}" for name in names)
    rules = {apis[0]: RedactionRule(keep=frozenset({"=1", "=\u00e9\u2028"}))}
    promise = SetPromise(digest="d", upper=upper)
    sign = parties.recipient.sign
    ask = release_ask(parties.study, promise, apis, sign, number=number, rules=rules)
    return replace(parties, ask=ask)


@needs_node
def test_a_page_answers_the_analyst_what_the_curator_signed_and_as_often_as_the_study_says(
    tmp_path: Path,
) -> None:
    parties = parties_of(["m1", "m2", "m3"], largest_release=2, releases=2)
    signed = [
        released(parties, "m1"), released(parties, "m2", "m3", number=3),
        released(parties, "m2", number=4),
    ]  # fmt: skip
    text = signed[0].ask.to_bytes().decode()
    others = [
        text.replace('"m1"', '"m2"').replace("Navigator.m1", "Navigator.m2"),
        text.replace('"upper": 0.1', '"upper": 0.2'),
        re.sub('"signature": "[0-9a-f]*"', '"signature": ""', text),
        re.sub(
            '"signature": "[0-9a-f]*"', lambda found: found[0].upper().lower()[:-3] + '0"', text
        ),
        json.dumps(json.loads(text) | {"promise": None}, indent=1),
        released(parties, "m1", "m2", "m3").ask.to_bytes().decode(),
        released(parties, "m1", upper=0.6).ask.to_bytes().decode(),
        *(one.ask.to_bytes().decode() for one in signed),
    ]
    analyst = SecretKeys.generate("analyst")
    given = {"recipientKeys": base64.b64encode(analyst.configs).decode()}
    files = {"shufflerKeys": parties.shuffler.public.to_bytes().decode(),
             "recipientKeys": analyst.public.to_bytes().decode()}  # fmt: skip
    wrong = {"recipientKeys": parties.recipient.public.to_bytes().decode()}
    script = f"""const seen = [], {{ seal }} = scripts["collector-sealed.js"];
    const attempt = (options) => seal(options).then(
      (done) => seen.push(done.outcome), (error) => seen.push(error.message));
    for (const ask of {json.dumps(others)})
      await attempt({{ ...{parties.options(**given)}, ask }});
    await attempt({signed[0].options(**files)});
    await attempt({signed[0].options(**wrong)});
    crypto.subtle.importKey = async () => {{ throw new DOMException("", "NotSupportedError"); }};
    await attempt({signed[0].options(**given)});
    return seen;"""
    page = run(tmp_path, script, {"m1": 1, "m2": 2, "m3": 3})
    assert page["result"] == [
        *["seal: the curator of the study did not sign the ask"] * 4,
        "seal: the ask promises no exposure within the budget",
        "seal: the ask shows its recipient more than the study allows",
        "seal: the ask promises no exposure within the budget",
        *("sent", "sent", "exceeded", "answered"),
        "seal: keys of the curator, not of the analyst",
        "unsupported",
    ]
    [first, second] = page["posts"]
    for one, post, tokens in ((signed[0], first, ("=1",)), (signed[1], second, ("redacted", "=3"))):
        assert replace(one, recipient=analyst).answers([post]) == {0: tokens}


@needs_node
def test_what_breaks_the_terms_is_refused_before_consent_is_asked(tmp_path: Path) -> None:
    parties = parties_of(["m1"])
    key = HpkeConfig(7, bytes(32))
    other = b"\x00\x0b" + b"\x07\x00\x10\x00\x01\x00\x01\x00\x02ab"
    options = [
        parties.options(ask=changed_ask(parties, {"study": "00" * 16})),
        parties.options(ask="{"),
        parties.options(study="null"),
        parties.options(shufflerKeys=base64.b64encode(other).decode()),
        parties.options(shufflerKeys=base64.b64encode(encode_configs([key])[:-1]).decode()),
        parties.options(recipientKeys=""),
        parties.options(study=parties.study.to_bytes().decode().replace("1024", "40")),
    ]
    calls = "".join(
        f"await attempt({{ ...{given}, consent: () => asked++ }});" for given in options
    )
    script = f"""let asked = 0, seen = [];
    const attempt = (given) => scripts["collector-sealed.js"].seal(given).then(
      () => seen.push("done"), (error) => seen.push("refused"));
    {calls}
    return [seen, asked];"""
    page = run(tmp_path, script, {"m1": 1})
    assert page["result"] == [["refused"] * len(options), 0]
    assert (page["reads"], page["posts"], page["stored"]) == ([], [], {})


@needs_node
def test_the_first_key_for_our_algorithms_is_taken_from_a_list(tmp_path: Path) -> None:
    parties = parties_of(["m1"])
    rotated = replace(parties, recipient=parties.recipient.rotated())
    foreign = b"\x09\x00\x10\x00\x01\x00\x01\x00\x02ab"
    body = foreign + rotated.recipient.configs[2:]
    keys = base64.b64encode(len(body).to_bytes(2) + body).decode()
    page = run(tmp_path, rotated.call(recipientKeys=keys), {"m1": 1})
    [upload] = decode_uploads(base64.b64decode(page["posts"][0]["body"]))
    inner = open_message(upload.sealed, rotated.shuffler.by_id(), "shuffler", rotated.ask.id)
    assert next(decode_uploads(bytes(16) + inner)).sealed.config_id == 2
    assert rotated.answers(page["posts"]) == {0: ("=1",)}


def many_answers(
    folder: Path, ask: CollectionRequest, study: Study, values: Mapping[str, Any], times: int
) -> Any:
    parties = Parties(study, ask)
    script = f"""const {{ seal, forget }} = scripts["collector-sealed.js"];
    const options = {parties.options()};
    for (let i = 0; i < {times}; i++) {{ await seal(options); forget(); }}"""
    page = run(folder, script, values)
    return Counter(held for report in parties.reports(page["posts"]) for held in report.tokens)


@pytest.mark.long
@needs_node
def test_redaction_in_the_page_covers_with_its_probability(tmp_path: Path) -> None:
    names = [f"m{index}" for index in range(26)]
    study = study_of_apis([f"Navigator.{name}" for name in names], report_bytes=1800)
    rule = RedactionRule(keep=frozenset({"=common"}), cover=0.3)
    ask = structs.replace(first_ask(study), redact=dict.fromkeys(study.apis, rule))
    values = dict.fromkeys(names, "common") | {"m0": "rare", "m1": "redacted"}
    counts = many_answers(tmp_path, ask, study, values, 12)
    assert set(counts) == {"=common", "redacted"}
    hidden = counts["redacted"] - 2 * 12
    assert stats.binomtest(hidden, 24 * 12, 0.3).pvalue > 1e-6


@pytest.mark.long
@needs_node
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_randomisation_in_the_page_has_the_law_of_its_mechanism(
    tmp_path: Path, mechanism: MechanismName
) -> None:
    """Told by the curator's own estimates: the share of reports that support each value."""
    names = [f"m{index}" for index in range(25)]
    study = study_of_apis([f"Navigator.{name}" for name in names], report_bytes=1000)
    plan = Randomisation(
        mechanism=mechanism, epsilon=2.0, values=("=a", "=b", "=c", "=other"),
        hash_range=3 if mechanism == "lh" else None,
    )  # fmt: skip
    ask = structs.replace(first_ask(study), randomise=dict.fromkeys(study.apis, plan))
    counts = many_answers(tmp_path, ask, study, dict.fromkeys(names, "b"), 15)
    single = {(token,): users for token, users in counts.items()}
    found = estimate(study, ask, study.apis[:1], single, delta=1e-5)
    assert found.users == 375
    shares = {value.token: value.share for value in found.values}
    # Five standard errors or more, for each of the mechanisms.
    assert shares.pop("=b") == pytest.approx(1, abs=0.35)
    assert sum(shares.values()) / 3 == pytest.approx(0, abs=0.22)


class Words(random.Random):
    """The next 64 bits that a page would draw; the first of them are the number."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self._bits = bits

    def getrandbits(self, k: int, /) -> int:
        return self._bits >> (64 - k)


def awkward_matrix(reports: int, values: int) -> Randomisation:
    """One with tiny, zero and large cells, none of them a number that people write."""
    rng = np.random.default_rng(reports)
    cells = rng.dirichlet(np.full(reports, 0.2), size=values).T + np.eye(reports, values) / 9
    cells[-1] *= 1e-13
    study = study_of_apis(["Navigator.m0"])
    tokens = [f"={value}" for value in range(values)]
    return matrix_randomisation(StochasticMatrix(cells / cells.sum(axis=0)), tokens, study=study)


@needs_node
@pytest.mark.parametrize(("reports", "values"), [(3, 2), (12, 5), (300, 4)])
def test_page_and_python_draw_the_same_report_from_the_same_bits(
    tmp_path: Path, reports: int, values: int
) -> None:
    """At both ends of every cell of the matrix and at random: one law, to the last bit."""
    plan = awkward_matrix(reports, values)
    assert plan.matrix is not None
    borders = [
        border
        for column in zip(*plan.matrix, strict=True)
        for end in itertools.accumulate(column)
        for border in (end - 1, end)
        if border < MATRIX_TOTAL
    ]
    spare = 64 - MATRIX_BITS
    low, high = ([border << spare for border in borders], [(b << spare) + 4095 for b in borders])
    rng = random.Random(5)
    bits = [*low, *high, *(rng.getrandbits(64) for _ in range(500))]
    draws = [(f"={rng.randrange(values + 1)}", one) for one in bits]
    page_plan = msgspec.to_builtins(plan)
    words = [[one >> 32, one & 0xFFFFFFFF] for _, one in draws]
    script = f"""const words = {json.dumps(words)}, plan = {json.dumps(page_plan)};
    const drawn = [], {{ randomise }} = scripts["collector-ldp.js"];
    for (const token of {json.dumps([token for token, _ in draws])}) {{
      crypto.getRandomValues = (array) => {{ array.set(words.shift()); return array; }};
      drawn.push(`=${{randomise(token, plan)}}`);
    }}
    return drawn;"""
    page = run(tmp_path, script, files=("collector-ldp.js",))
    assert page["result"] == [randomised(token, plan, Words(one)) for token, one in draws]
    assert len(set(page["result"])) > reports * 0.9


@pytest.mark.long
@needs_node
def test_a_matrix_in_a_page_has_its_law_and_the_curator_tells_the_shares(tmp_path: Path) -> None:
    names = [f"m{index}" for index in range(25)]
    study = study_of_apis([f"Navigator.{name}" for name in names], report_bytes=1000)
    cells = np.array([[0.7, 0.1, 0.2], [0.2, 0.6, 0.1], [0.05, 0.2, 0.5], [0.05, 0.1, 0.2]])
    plan = matrix_randomisation(StochasticMatrix(cells), ("=a", "=b", "=other"), study=study)
    ask = structs.replace(first_ask(study), randomise=dict.fromkeys(study.apis, plan))
    counts = many_answers(tmp_path, ask, study, dict.fromkeys(names, "b"), 15)
    seen = [counts[f"={report}"] for report in range(4)]
    assert sum(seen) == counts.total() == 375
    assert stats.chisquare(seen, 375 * cells[:, 1]).pvalue > 1e-6
    single = {(token,): users for token, users in counts.items()}
    found = estimate(study, ask, study.apis[:1], single, delta=1e-5)
    assert found.values[1].lower < 1 == found.values[1].upper
    assert found.values[1].lower > 0.5


@needs_node
def test_a_large_matrix_leaves_little_in_the_storage_of_the_site(tmp_path: Path) -> None:
    parties = parties_of(["m1"])
    plan = awkward_matrix(300, 100)
    parties = replace(parties, ask=structs.replace(parties.ask, randomise={"Navigator.m1": plan}))
    page = run(tmp_path, parties.call(), {"m1": 7})
    assert page["result"]["outcome"] == "sent"
    assert len(parties.ask.to_bytes()) > 400_000
    assert len(json.dumps(page["stored"])) < 500


@needs_node
def test_a_randomised_report_is_drawn_once_and_serves_all_asks(tmp_path: Path) -> None:
    parties = parties_of(["m1"], report_bytes=200)
    plan = Randomisation(
        mechanism="oue", epsilon=0.1, values=tuple(f"={value}" for value in range(40))
    )
    rounds = [
        replace(
            parties,
            ask=structs.replace(parties.ask, round=number, randomise={"Navigator.m1": plan}),
        )
        for number in (1, 2, 3)
    ]
    calls = "".join(
        f'seen.push((await scripts["collector-sealed.js"].seal({one.options()})).outcome);'
        for one in rounds
    )
    page = run(tmp_path, f"const seen = []; {calls} return seen;", {"m1": 7})
    assert page["result"] == ["sent"] * 3
    held = {one.answers([post])[0] for one, post in zip(rounds, page["posts"], strict=True)}
    assert len(held) == 1
    assert re.fullmatch("=[01]{40}", next(iter(held))[0])
    assert page["reads"] == ["m1"]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["collect", "snippet", "--script", "collector-sealed.js", *arguments]) == 0
    return capsys.readouterr().out


def written(folder: Path, parties: Parties) -> dict[str, str]:
    """Options of the command, with the files that they name."""
    contents = {
        "--study": parties.study.to_bytes(),
        "--ask": parties.ask.to_bytes(),
        "--shuffler-key": parties.shuffler.public.to_bytes(),
        "--recipient-key": parties.recipient.public.to_bytes(),
    }
    options = {"--to": "https://shuffler.example/"}
    for option, content in contents.items():
        path = folder / option.strip("-")
        path.write_bytes(content)
        options[option] = str(path)
    return options


def listed(options: Mapping[str, str]) -> list[str]:
    return [part for option in options.items() for part in option]


@needs_node
def test_the_command_prints_lines_that_answer_the_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parties = parties_of(["m1", "</script>"])
    options = listed(written(tmp_path, parties))
    lines = printed(capsys, *options, "--address", "https://l.example/")
    assert f'integrity="{script_named("collector-sealed.js").integrity}"' in lines
    assert 'src="https://l.example/v1/collector-sealed.js?v=' in lines
    assert lines.count("</script>") == 2
    assert "consent: () => false" in lines, "nothing is read until somebody writes a consent"
    [code] = re.findall(r"<script>\n(.*)</script>", lines, flags=re.DOTALL)
    script = code.replace("=> false", "=> true").replace("fpmonitor.seal", "return fpmonitor.seal")
    page = run(tmp_path, script, {"m1": 1})
    assert page["result"]["outcome"] == "sent"
    assert set(parties.answers(page["posts"]).values()) == {("=1",), ("undefined",)}
    content = json.loads(printed(capsys, *options, "--format", "json"))
    assert content["apis"] == list(parties.study.apis)
    assert content["html"].count("seal(") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--study", None), ("--to", None), ("--to", "shuffler.example"), ("--ask", "missing"),
        ("--recipient-key", "ask"), ("--ask", "study"), ("--apis", "Navigator.m1"),
        ("--script", "collector.js"),
    ],
)  # fmt: skip
def test_the_command_refuses_what_makes_no_sealing_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    option: str, value: str | None,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    options = {"--script": "collector-sealed.js"} | written(tmp_path, parties_of(["m1"]))
    changed = {key: one for key, one in (options | {option: value}).items() if one is not None}
    assert main(["collect", "snippet", *listed(changed)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) <= 2


OPENING = """
import { readFileSync } from "node:fs";
import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
const suite = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm(),
});
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const { secret, messages } = JSON.parse(readFileSync(0, "utf-8"));
const recipientKey = await suite.kem.importKey("raw", bytes(secret).buffer, false);
const opened = [];
for (const { enc, ct, info } of messages) {
  const given = { recipientKey, enc: bytes(enc).buffer, info: bytes(info).buffer };
  opened.push(Buffer.from(await suite.open(given, bytes(ct).buffer)).toString("base64"));
}
process.stdout.write(JSON.stringify(opened));
"""


@pytest.mark.node
@pytest.mark.skipif(
    not (NODE and MODULES and (Path(MODULES) / "@hpke" / "core").is_dir()),
    reason="needs @hpke/core in FPMONITOR_NODE_MODULES",
)
@given(
    tokens=st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=50), max_size=8),
        min_size=1,
        max_size=8,
    ),
    ask=st.binary(min_size=16, max_size=16),
    key_id=st.integers(0, 255),
)
@settings(
    max_examples=6, deadline=None, phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_hpke_core_opens_what_python_seals(
    tmp_path: Path, tokens: list[list[str]], ask: bytes, key_id: int
) -> None:
    assert NODE is not None
    ring = SecretKeys.generate("curator")
    config = replace(ring.keys[0].config, id=key_id)
    reports = [
        SealedReport(random.randbytes(16), index, tuple(held)).encode(5000)
        for index, held in enumerate(tokens)
    ]
    messages = []
    for report in reports:
        frame = next(
            decode_uploads(bytes(16) + seal_message(report, config, "curator", ask).encode())
        ).sealed
        assert frame.config_id == key_id
        parts = (frame.encapsulated, frame.payload, info_of("curator", ask, key_id))
        messages.append(dict(zip(("enc", "ct", "info"), map(in_base64, parts), strict=True)))
    (tmp_path / "opening.mjs").write_text(OPENING, encoding="utf-8")
    if not (tmp_path / "node_modules").exists():
        (tmp_path / "node_modules").symlink_to(MODULES)
    content = {"secret": in_base64(ring.keys[0].private.private_bytes_raw()), "messages": messages}
    done = subprocess.run(
        [NODE, "opening.mjs"], cwd=tmp_path, input=json.dumps(content), capture_output=True,
        text=True, check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout) == [in_base64(report) for report in reports]


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
