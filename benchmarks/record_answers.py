"""What every command answers, in files, so that a refactoring can be shown to change nothing.

`python benchmarks/record_answers.py --fpmonitor PATH --out FOLDER [LOG ...]` runs the commands of
the tables below with the executable PATH, each in a fresh folder, on fixed inputs: the fixtures,
a small log that is made here (visits, sources, randomised values, automation, a group of four),
and the logs that are given. It writes a file a case: exit code, stdout, stderr and the files that
the commands made. What changes from run to run is replaced: seconds, the time of now, paths, ports,
random keys and ids.

`python benchmarks/record_answers.py --compare BEFORE AFTER` prints a unified diff of two recordings
and exits 1 if they differ. How a command is spelled stands in `RENAMED` alone; recordings hold the
spelling of before, so that both compare.
"""

# ruff: noqa: E501 -- the tables hold one case a line

from __future__ import annotations

import argparse
import csv
import difflib
import fnmatch
import hashlib
import io
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fpmonitor.cli.table import MOVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
STEP_SECONDS = 180
# Begins commands by a fork, after what takes a second to load. One job a line, one code a line back.
SERVER = """
import contextlib, functools, io, json, os, signal, sys
import duckdb, numpy, polars, scipy.optimize, scipy.stats, typer.main
import fpmonitor.cli
typer.main.get_command = functools.cache(typer.main.get_command)  # 0.7 s each time
with contextlib.redirect_stdout(io.StringIO()):
    fpmonitor.cli.run(["schema"])
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(job["seconds"])
        os.chdir(job["folder"])
        os.environ.clear()
        os.environ.update(job["environment"])
        made = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for number, name, flags in ((0, "in", os.O_RDONLY), (1, "out", made), (2, "err", made)):
            os.dup2(os.open(job["streams"] + name, flags), number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
        sys.argv = ["fpmonitor", *job["words"]]
        fpmonitor.cli.main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

# Name of a command before and after; with `--names auto` each is tried.
RENAMED = {
    "batches": ("db", "batches"),
    "rejects": ("db", "rejects"),
    "verify": ("db", "verify"),
    "forget": ("db", "forget"),
    "compact": ("db", "compact"),
    "export-data": ("db", "copy-out"),
    "import-data": ("db", "copy-in"),
    "make-key": ("db", "make-key"),
    "seal-file": ("db", "seal"),
    "open-file": ("db", "open"),
    **{name: tuple(way.split(", or ")[-1].split()) for name, way in MOVED.items()},
}

SHORT = {
    "agent": "Navigator.userAgent",
    "canvas": "HTMLCanvasElement.toDataURL",
    "depth": "Screen.colorDepth",
    "height": "Screen.height",
    "language": "http:accept-language",
    "memory": "Navigator.deviceMemory",
    "platform": "Navigator.platform",
    "ratio": "Window.devicePixelRatio",
    "threads": "Navigator.hardwareConcurrency",
    "touch": "Navigator.maxTouchPoints",
    "vendor": "Navigator.vendor",
    "width": "Screen.width",
}
FIVE = "{touch},{agent},{depth},{height},{ratio}"
FOUR = "{agent},{platform},{vendor},{width}"
DECIDE = f"decide --k 10 --budget 0.05 --population 20000 --candidates {FIVE}"
DECIDE_SMALL = f"decide --k 10 --budget 0.05 --candidates {FOUR}"

# Commands that make what the cases begin with, by the folder that they leave. A line is a case:
# its name, and its commands, separated by &&. `{f}` stands for the forms of output in `FORMS`, of
# which `others` is JSON with `--for-others`; `{j}` for JSON without and with that. `> FILE` and `< FILE` are as in a shell.
PREPARE = {
    "fixtures": f"""
ingest: ingest logs extra --format json
decide: {DECIDE} -o decision.json
decide-sample: {DECIDE} --setting sample -o sample.json
""",
    "records": """
ingest: ingest records/*.log records/*.har records/[cft]*-*.json --format json
""",
    "small": f"""
ingest: ingest small.jsonl --format json
demand: demand calls.json reports.jsonl --format json -q
decide: {DECIDE_SMALL} --population 5000 -o decision.json
decide-sample: {DECIDE_SMALL} --setting sample -o sample.json
decide-early: {DECIDE_SMALL} --setting sample --until 2026-01-19 -o early.json
""",
    "none": "",
}
CASES = {
    "none": """
version: --version
unknown-command: nonsense
no-database: apis
no-such-log: ingest nothing.jsonl
no-such-decision: export nothing.json --to csv
wrong-option: exposure --nonsense
quickstart: quickstart demo
schema: schema
schema-file: schema -o schema.json
log-line-nginx: log-line nginx
log-line-apache: log-line apache
snippet: snippet --apis {agent},{width} --address https://logs.example --format {f}
snippet-ldp: snippet --apis {agent} --script collector-ldp.js --format json
targets-missing: targets --from nowhere
partial-knowledge: audit partial-knowledge -n 1000 -p 0.01 --k 10 --epsilon 1 --known 100 --format {f}
partial-knowledge-copies: audit partial-knowledge -n 100000 -p 0.001 --k 20 --epsilon 0.5 --copies 3 --known 1000 --format json
audit-curve: audit curve -n 1000 -p 0.02 --k 10 --points 5 --format {f}
audit-smallest-k: audit smallest-k -n 10000 -p 0.01 -p 0.1 --epsilon 1 --delta 1e-6 --format {f}
audit-baseline: audit baseline -n 10000 -w 1e-6 --format {f}
audit-baseline-dp: audit baseline -n 10000 -w 1e-6 --epsilon 1 --delta 1e-9 --format json
ldp-metrics-grr: ldp metrics --mechanism grr --values 3 --epsilon 1 --users 2 --format {f}
ldp-metrics-rappor: ldp metrics --mechanism rappor --values 4 --epsilon 1.5 --format json
ldp-metrics-oue: ldp metrics --mechanism oue --values 6 --epsilon 1 --seed 3 --format json
ldp-metrics-blh: ldp metrics --mechanism blh --values 3 --epsilon 1.5 --prior dirichlet:2,2,2 --format json
ldp-metrics-lh: ldp metrics --mechanism lh --values 4 --epsilon 2 --hash-range 3 --format json
ldp-metrics-matrix: ldp metrics --mechanism matrix.csv --prior dirichlet:1,2,0.5 --format json
ldp-metrics-unknown: ldp metrics --mechanism gr --values 3 --epsilon 1
ldp-compare: ldp compare --values 3 --users 1000 --epsilon 1 --format {f}
ldp-compare-privacy: ldp compare --values 3 --users 1000 --privacy 0.7 --plot chart.svg --format json
ldp-compare-utility: ldp compare --values 3 --users 1000 --utility 0.5 --format json
make-key: make-key new.secret && make-key new.secret
seal: seal-file matrix.csv --key-file new.secret --make-key -o m.age && open-file m.age --key-file new.secret -o again.csv && seal-file nothing --key-file new.secret -o n.age
keys: keys add write shop > w.secret && keys add read ann > r.secret && keys list --format table && keys list --format csv && keys remove write shop && keys list --format json && keys remove write shop
rotate: private init c --role curator && private rotate c && private rotate c --retire 1 && private init c --role curator
private-study: private init curator --role curator && private init study --curator-key curator/keys.pub --name pilot --apis {touch},{platform},{depth} -n 100000 --budget 0.1 --minimum-batch 50
private-round: private init pilot --apis {touch},{platform},{depth} -n 100000 --budget 0.1 --minimum-batch 50 && private seal --from answers.jsonl --ask pilot/round-1.json --folder pilot -o round-1.uploads -q && private shuffle round-1.uploads --folder pilot --ask pilot/round-1.json --close -o round-1 --format table && private count round-1/*.batch --folder pilot/curator --format table && private count --folder pilot/curator --format json && private count --folder pilot/curator --unsafe-counts --format csv && --for-others private count --folder pilot/curator --format json && private select pilot --format table -o next.json && private select pilot --setting fixed --format csv && private select pilot --next curator --format json && private select pilot --format json -o round-2.json > selection.json && private select pilot --redact {touch},{depth} --format json -o redaction.json && private select pilot --redact {touch},{depth} --setting fixed --suspicion 0.2 --format table && private seal --from answers.jsonl --ask round-2.json --folder pilot -o round-2.uploads -q && private shuffle round-2.uploads --folder pilot --ask round-2.json --close -o round-2 --format json && private count round-2/*.batch --folder pilot/analyst --ask round-2.json --promise selection.json --format table && private count --folder pilot/analyst --promise selection.json --format json && private count --folder pilot/analyst --format csv && snippet --script collector-sealed.js --address https://logs.example --to https://shuffler.example --study pilot/study.json --ask pilot/round-1.json --shuffler-key pilot/shuffler/keys.pub --recipient-key pilot/curator/keys.pub --format json > snippet.secret && private select pilot/shuffler
ldp-round: private init pilot --apis {touch},{platform},{depth} -n 100000 --budget 0.5 --minimum-batch 50 && ldp ask --study pilot/study.json --epoch 2 --accuracy 0.2 --users 100000 --db answers.duckdb -o early.json && ingest answers.jsonl -q && ldp ask --study pilot/study.json --epoch 2 --accuracy 0.2 --users 100000 --format json -o ask-1.json && ldp ask --study pilot/study.json --epoch 2 --accuracy 0.2 --users 100000 --format table && ldp ask --study pilot/study.json --epoch 2 --matrix {depth}=matrix.csv --format json -o ask-2.json && private count --folder pilot/curator --ask ask-1.json --format json
ingest-columns: ingest foreign.csv --columns map.toml --format json && batches --format json && apis --format json
ingest-user: ingest foreign.csv --user client_id --time ts --format table && apis --format json
ingest-stdin: ingest - --format csv -q < answers.jsonl && apis --format json
ingest-digests: ingest answers.jsonl --digest-values --format json && apis --format json && batches --format json && verify --format json && exposure --apis {touch} --what-if less.toml --format json
ingest-broken: ingest broken.jsonl --format json && rejects --format table && rejects --format json && rejects --format csv && rejects --most 1 --format json && batches --format csv
ingest-collector: ingest answers.jsonl --collector wide -q && ingest answers.jsonl --collector nonsense && ingest answers.jsonl --collector long
environment: FPMONITOR_DB=set.duckdb ingest answers.jsonl -q && FPMONITOR_DB=set.duckdb exposure --apis {touch} --format json
""",
    "fixtures": f"""
batches: batches --format {{f}}
rejects: rejects --format {{f}}
rejects-most: rejects --most 3 --format json
verify: verify --format {{f}}
ingest-again: ingest logs --format json && batches --format json
apis: apis --k 10 --format {{f}}
apis-file: apis -o apis.csv && apis -o apis.json
apis-unsafe: apis --unsafe-counts --format {{j}}
apis-raw: apis --volatile raw --k 100 --format json
apis-resolve: apis --resolve userAgent --format json && apis --resolve nonsense && apis --resolve {{agent}} --format table
exposure: exposure --apis {{agent}} --apis {{agent}},{{height}} --k 10 --population 100000 --format {{f}}
exposure-all: exposure --apis {FIVE},{{threads}},{{memory}} --k 50 --delta 0.01 --format {{j}}
exposure-small-n: exposure --apis {{agent}},{{height}} --k 10 --population 5000 --format json
exposure-drop: exposure --apis {{agent}},{{memory}} --missing drop --format {{j}}
exposure-given: exposure --apis {{height}} --given {{touch}} --format {{f}}
exposure-bounds: exposure --apis {{depth}},{{touch}} --bounds --format {{f}}
exposure-trust: exposure --apis {{height}},{{width}},{{touch}} --trust joint --bounds --format {{f}}
exposure-pairs: exposure --apis {{height}},{{width}},{{touch}} --trust pairs --format json
exposure-marginals: exposure --apis {{height}},{{width}} --trust marginals --format {{j}}
exposure-entropies: exposure --apis {{depth}} --apis {{agent}} --entropies --format {{f}}
exposure-support: exposure --apis {{depth}} --apis {{touch}} --support 5 --support 20 --bounds --format {{j}}
exposure-what-if: exposure --apis {{agent}},{{width}} --what-if agents.toml --format {{f}}
exposure-window: exposure --apis {{agent}} --since 2026-03-04 --until 2026-03-06 --format {{j}}
exposure-reader: exposure --apis {{touch}} --reader ann --query-limit 2 --format json && exposure --apis {{depth}} --reader ann --query-limit 2 --format json && exposure --apis {{agent}} --reader ann --query-limit 2 --format json && audit queries --query-limit 2 --format json && audit queries --format table && audit queries --format csv && audit queries --forget ann && audit queries --format json
csv-of-answers: exposure --apis {{touch}} --format csv && rank --candidates {{touch}},{{depth}} --format csv && decide --k 10 --budget 0.05 --population 20000 --candidates {{touch}},{{depth}} --format csv && compare fpmonitor.duckdb fpmonitor.duckdb --split 2026-03-05 --apis {{touch}} --format csv && trend --apis {{touch}} --by week --format csv
csv-of-lists: batches --format csv && rejects --format csv && apis --format csv && check decision.json --format csv && gate decision.json --want {{touch}} --format csv && export decision.json --coverage --format csv && plan decision.json --to firefox-policies --format csv && verify --format csv
csv-of-parts: exposure --apis {{touch}} --bounds --format csv && exposure --apis {{touch}} --entropies --format csv && exposure --apis {{depth}},{{touch}} --trust joint --format csv && exposure --apis {{depth}} --given {{touch}} --format csv && exposure --apis {{touch}} --bounds --trust joint --format csv
exposure-unknown: exposure --apis Navigator.userAgnt
exposure-bad-k: exposure --apis {{agent}} --k 1
exposure-raw: exposure --apis {{agent}} --volatile raw --format json
exposure-left-out: exposure --apis {{agent}} --volatile left-out --format json
rank: rank --size 2 --candidates {{agent}},{{height}},{{touch}} --format {{f}}
rank-sets: rank --sets sets.txt --population 100000 --format {{j}}
rank-apis: rank --apis {{agent}},{{height}} --apis {{depth}} --missing drop --format json
curve: curve --apis {{height}} --format {{f}}
curve-unsafe: curve --apis {{touch}},{{depth}} --k 20 --unsafe-counts --format {{j}}
curve-file: curve --apis {{height}} -o curve.csv
decide: {DECIDE} --format {{f}}
decide-memory: {DECIDE} --engine memory --format json
decide-duckdb: {DECIDE} --engine duckdb --format json
decide-sample: {DECIDE} --setting sample --format {{f}}
decide-drop: {DECIDE},{{memory}} --missing drop --format json
decide-must: {DECIDE} --must {{touch}} --never {{ratio}} --format json
decide-weights: {DECIDE} --weights weights.toml --format json
decide-max-size: {DECIDE} --max-size 2 --format json
decide-forecast: decide --k 10 --budget 0.03 --population 100000 --candidates {{agent}},{{depth}},{{touch}} --forecast --format {{f}}
decide-what-if: {DECIDE} --what-if agents.toml --format json
decide-window: {DECIDE} --since 2026-03-03 --until 2026-03-07 --format json
decide-large: decide --k 5 --budget 0.01 --population 1000000 --delta 0.01 --candidates {{depth}},{{touch}},{{memory}} --format json
decide-resume: {DECIDE} --time-limit 0 -o part.json && {DECIDE} --resume part.json --format json
decide-bad: decide --budget 2 && decide --budget 0.05 --candidates Nonsense.api && decide --budget 0.05 --setting nonsense
gate: gate decision.json --have {{agent}} --want {{touch}} --format {{f}}
gate-block: gate decision.json --have {{agent}} --want {{height}} --format json && gate decision.json --want {{ratio}},{{height}} --format table
gate-unknown: gate decision.json --want Nonsense.api --format json
check: check decision.json --format {{f}}
check-day: check decision.json --by day --format {{j}}
check-forms: check decision.json --format junit && check decision.json --format sarif && check decision.json --format github
check-sample: check sample.json --since 2026-03-05 --format {{j}}
trend: trend --apis {{agent}} --apis {{touch}},{{depth}} --by day --svg trend.svg --format {{f}}
trend-first: trend --apis {{agent}} --by day --against first --population 20000 --k 5 --format json
trend-each: trend --by week --format json
report: report decision.json -o report.html
report-sample: report sample.json -o report.html
report-now: report --k 10 --budget 0.05 --population 20000 -o report.html --since 2026-03-08
plot-exposure: plot exposure -o p.svg
plot-exposure-sets: plot exposure --apis {{agent}} --apis {{height}},{{width}} --k 5 -n 100000 -o p.svg
plot-curve: plot curve --apis {{height}} -o p.svg
plot-entropy: plot entropy -o p.svg
plot-trust: plot trust --apis {{height}},{{width}},{{touch}} -o p.svg
plot-png: plot exposure --apis {{agent}} -o p.png
compare-split: compare fpmonitor.duckdb fpmonitor.duckdb --split 2026-03-05 --apis {{agent}} --apis {{depth}} --format {{f}}
compare-decisions: compare decision.json sample.json --format {{f}}
compare-decision: compare fpmonitor.duckdb fpmonitor.duckdb --split 2026-03-05 --decision decision.json --format json
coverage: export decision.json --coverage --format {{f}}
export-json: export decision.json --to json
export-csv: export decision.json --to csv --verdicts verdicts.json
export-ublock: export decision.json --to ublock && export decision.json --to ublock --site example.com -o list.txt
export-adguard: export decision.json --to adguard --verdicts verdicts.json
export-brave: export decision.json --to brave --verdicts verdicts.json
export-chromium: export decision.json --to chromium-policies --verdicts verdicts.json
export-duckduckgo: export decision.json --to duckduckgo --verdicts verdicts.json
export-firefox: export decision.json --to firefox-policies --verdicts verdicts.json && export decision.json --to firefox-policies --targets 140
export-userjs: export decision.json --to firefox-userjs --verdicts verdicts.json && export decision.json --to firefox-userjs --variant arkenfox
export-gate-js: export decision.json --to gate-js
export-jshelter: export decision.json --to jshelter --verdicts verdicts.json
export-permissions: export decision.json --to permissions-policy --verdicts verdicts.json && export decision.json --to permissions-policy --variant nginx && export decision.json --to permissions-policy --variant apache && export decision.json --to permissions-policy --variant caddy && export decision.json --to permissions-policy --variant report-only --report-to https://r.example
export-strict: export decision.json --to permissions-policy --strict -o strict.txt
export-unknown: export decision.json --to nonsense
preview: preview decision.json --to firefox-policies --format {{f}}
preview-ublock: preview decision.json --to ublock --site example.com --format {{j}}
plan: plan decision.json --to firefox-policies --write policies.json --format {{f}}
plan-jshelter: plan decision.json --to jshelter --format json
import: export decision.json --to firefox-policies -o list.json -q && import list.json --from firefox-policies --decision decision.json --db fpmonitor.duckdb --format {{f}}
import-ublock: export decision.json --to ublock -o list.txt -q && import list.txt --from ublock --decision decision.json --format json
snippet-decision: snippet decision.json --format {{f}}
release: release --apis {{agent}},{{height}} --k 10 -o table.parquet --format {{f}}
release-cells: release --apis {{agent}},{{height}} --k 10 --mechanism cells --budget 0.1 -o table.parquet --format {{j}}
release-what-if: release --apis {{agent}} --k 20 --what-if agents.toml -o table.parquet --format json
audit-histogram: audit histogram --apis {{depth}},{{touch}} --k 10 --epsilon 1 --known 10 --format {{f}}
audit-histogram-n: audit histogram --apis {{depth}} --k 20 --epsilon 0.5 -n 100000 --alpha 0.01 --format json
singling-out: release --apis {{depth}},{{touch}} --k 10 -o table.parquet -q && audit singling-out --release table.parquet --trials 50 --format {{f}}
ldp-plan: ldp plan --accuracy 0.1 --users 1000000 --candidates {{depth}},{{touch}} --format {{f}}
hierarchy: private simulate --budget 0.1 --apis {{depth}},{{touch}},{{platform}} --largest-set 2 --format {{f}}
hierarchy-fixed: private simulate --budget 0.1 --apis {{depth}},{{touch}},{{platform}} --setting fixed --thrifty --weights weights.toml --format json
group: private simulate --budget 0.3 --group 60 --setting fixed --apis {{depth}},{{touch}} --k 3 --format {{f}}
group-seed: private simulate --budget 0.3 --group 100 --k 5 --setting fixed --apis {{depth}},{{touch}},{{platform}} --seed 4 --format json
export-data: export-data copy --format json && import-data copy --db other.duckdb --format json && import-data copy --db other.duckdb --format table && verify --db other.duckdb --format table && apis --db other.duckdb --format json && compare fpmonitor.duckdb other.duckdb --apis {{agent}} --format json
""",
    "records": """
batches: batches --format {f}
rejects: rejects --format {f}
apis: apis --k 2 --unsafe-counts --format json
apis-k: apis --k 2 --format {f}
apis-source: apis --k 2 --unsafe-counts --source "fingerprintjs 5.2.0" --format json && apis --source nonsense
automation: automation --k 2 --format json
verify: verify --format json
decide: decide --budget 0.5 --k 2 --setting sample --candidates {agent},{language},{width} --format json
""",
    "small": f"""
batches: batches --format {{f}}
verify: verify --format table
apis: apis --format {{f}}
apis-left-out: apis --volatile left-out --format {{j}}
apis-raw: apis --volatile raw --format json
apis-automation: apis --drop-automation --format {{j}}
apis-source: apis --source own --format {{j}}
apis-reader: apis --reader ann --query-limit log2 --format json && audit queries --format json
exposure: exposure --apis {{canvas}},{{agent}} --apis {{vendor}} --format {{f}}
exposure-raw: exposure --apis {{canvas}},{{agent}} --volatile raw --format {{j}}
exposure-left-out: exposure --apis {{canvas}},{{agent}} --volatile left-out --format {{j}}
exposure-automation: exposure --apis {{agent}},{{width}} --drop-automation --format {{f}}
exposure-source: exposure --apis {{agent}},{{width}} --source "fingerprintjs 5.2.0" --format {{j}}
exposure-window: exposure --apis {{agent}},{{width}} --since 2026-01-12 --until 2026-01-19T12:00:00 --format {{j}}
exposure-given: exposure --apis {{width}} --given {{platform}} --drop-automation --format {{j}}
exposure-what-if: exposure --apis {{agent}},{{width}},{{language}} --what-if less.toml --format {{j}}
exposure-trust: exposure --apis {{vendor}},{{platform}},{{width}} --trust joint --format {{f}}
exposure-all: exposure --apis {{agent}},{{platform}},{{vendor}} --apis {{vendor}} --bounds --entropies --format {{j}}
automation: automation --apis {{width}} --apis {{canvas}} --format {{f}}
automation-unsafe: automation --apis {{vendor}} --unsafe-counts --k 5 --format {{j}}
automation-window: automation --since 2026-01-12 --format json
demand: demand --format {{f}}
demand-site: demand --by site --most 2 --population 10000 --format {{j}}
demand-openwpm: demand crawl.sqlite --format json
rank: rank --size 2 --candidates {FOUR} --format {{f}}
rank-automation: rank --drop-automation --volatile raw --format {{j}}
rank-source: rank --source own --since 2026-01-12 --format json
curve: curve --apis {{vendor}},{{width}} --format {{f}}
curve-unsafe: curve --apis {{vendor}} --unsafe-counts --format {{j}}
decide: {DECIDE_SMALL} --population 5000 --format {{f}}
decide-canvas: {DECIDE_SMALL},{{canvas}} --setting sample --format {{j}}
decide-raw: {DECIDE_SMALL},{{canvas}} --setting sample --volatile raw --format json
decide-left-out: {DECIDE_SMALL},{{canvas}} --setting sample --volatile left-out --engine duckdb --format json
decide-automation: {DECIDE_SMALL} --setting sample --drop-automation --format json
decide-source: {DECIDE_SMALL} --setting sample --source own --format json
decide-demand: {DECIDE_SMALL} --setting sample --weights demand --format {{j}}
decide-what-if: {DECIDE_SMALL},{{language}} --setting sample --what-if less.toml --format json
decide-nothing: {DECIDE_SMALL} --since 2030-01-01
check: check decision.json --format {{f}}
check-early: check early.json --format {{f}}
check-early-week: check early.json --by week --format {{j}}
check-forms: check early.json --by week --format junit && check early.json --by week --format sarif && check early.json --by week --format github
trend: trend --by week --svg trend.svg --format {{f}}
trend-month: trend --by month --apis {{vendor}} --source own --format {{j}}
trend-automation: trend --by week --apis {{canvas}},{{agent}} --drop-automation --volatile raw --false-alarms 0.05 --format json
watch: watch arriving --decision early.json --once --settle 0 --db new.duckdb && watch arriving --decision early.json --once --settle 0 --db new.duckdb && batches --db new.duckdb --format json
watch-command: watch arriving --decision early.json --once --settle 0 --by week --command "tee notice.json" --db new.duckdb
report: report decision.json -o report.html
report-sample: report sample.json -o report.html
report-early: report early.json -o report.html
report-now: report --budget 0.2 --since 2026-01-12 -o report.html
report-source: report --budget 0.2 --source own -o report.html -q
plot-exposure: plot exposure -o p.svg
plot-curve: plot curve --apis {{vendor}},{{width}} -o p.svg
plot-entropy: plot entropy --since 2026-01-12 -o p.svg
plot-trust: plot trust --apis {{vendor}},{{platform}} -o p.svg
compare: compare fpmonitor.duckdb fpmonitor.duckdb --split 2026-01-19 --format {{f}}
compare-decisions: compare early.json sample.json --format {{f}}
gate: gate sample.json --have {{agent}} --want {{vendor}} --format {{f}}
coverage: export sample.json --coverage --format json
preview: preview sample.json --to ublock --format {{j}}
plan: plan sample.json --to brave --format {{j}}
release: release --apis {{vendor}},{{width}} --k 10 -o table.parquet --format {{j}}
audit-histogram: audit histogram --apis {{vendor}} --k 10 --epsilon 1 --format {{j}}
forget: forget --before 2026-01-12 && batches --format json && verify --format json && apis --format json && ingest small.jsonl --format json
forget-user: FPMONITOR_FORGET_USER=u7 forget --user && FPMONITOR_FORGET_USER=nobody forget --user && forget --user && forget && exposure --apis {{agent}} --format json
compact: compact && verify --format json && exposure --apis {{agent}},{{width}} --format json
export-data: export-data copy --format table && import-data copy --db other.duckdb --format csv && exposure --db other.duckdb --apis {{agent}} --format json && demand --db other.duckdb --format json && export-data copy
""",
}
# What `{f}` makes of a line; of these, `{j}` makes JSON and what others get.
FORMS = {
    "none": ("json", "table"),
    "fixtures": ("json", "table"),
    "records": ("json", "others"),
    "small": ("json", "others"),
    "log": ("json",),
}
# Of a log that is given; {apis} are eight APIs of few values, {first} and {last} two of them.
LOG_CASES = """
batches: batches --format json
apis: apis --format {f}
exposure: exposure --apis {first} --apis {apis} --population 100000 --format {f}
exposure-pair: exposure --apis {first},{last} --bounds --entropies --trust joint --format {j}
exposure-given: exposure --apis {first} --given {last} --format json
rank: rank --size 2 --candidates {first},{last} --format {j}
curve: curve --apis {apis} --format json
decide: decide --budget 0.05 --population 100000 --candidates {apis} --format {f}
decide-sample: decide --budget 0.05 --setting sample --candidates {apis} --engine duckdb --format json
all: exposure --apis {all} --format {j}
report: decide --budget 0.05 --population 100000 --candidates {apis} -o decision.json -q && report decision.json -o report.html && check decision.json --format json && export decision.json --to csv
plot: plot exposure -o p.svg
"""

PAGES = {
    "dashboard": "/",
    "dashboard-ticked": "/?api=Screen.width&api=Navigator.vendor",
    "live": "/dashboard/live",
    "apis": "/dashboard/apis",
    "explore": "/dashboard/explore",
    "explore-vendor": "/dashboard/explore?api=Navigator.vendor",
    "explore-two": "/dashboard/explore?api=Navigator.vendor&api=Screen.width",
    "explore-unknown": "/dashboard/explore?api=Nonsense",
    "login": "/login",
    "gate": "/v1/gate?have=Navigator.userAgent&want=Navigator.vendor",
    "gate-two": "/v1/gate?want=Screen.width,Navigator.platform",
    "gate-unknown": "/v1/gate?want=Nonsense",
    "gate-nothing": "/v1/gate",
    "decision": "/v1/decision",
    "exposure": "/v1/exposure?apis=Navigator.userAgent,Screen.width",
    "exposure-vendor": "/v1/exposure?apis=Navigator.vendor",
    "exposure-canvas": "/v1/exposure?apis=HTMLCanvasElement.toDataURL",
    "exposure-unknown": "/v1/exposure?apis=Nonsense",
    "exposure-nothing": "/v1/exposure",
    "openapi": "/v1/openapi.json",
    "collector": "/v1/collector.js",
    "nowhere": "/v1/nowhere",
    "healthz": "/healthz",
}
POSTS: dict[str, tuple[str, str, bytes]] = {
    "post-array": (
        "/v1/observations",
        "application/json",
        b'[{"user": "new", "api": "Screen.width", "value": 1}]',
    ),
    "post-broken": ("/v1/observations", "application/json", b'[{"user": "new"}]'),
    "post-no-json": ("/v1/observations", "application/json", b"{"),
    "post-type": ("/v1/observations", "image/png", b"x"),
    "post-report": (
        "/v1/reports",
        "application/reports+json",
        b'[{"type": "deprecation", "url": "https://a.example/", "body": {}}]',
    ),
}

AGENTS_LESS = """
["Navigator.userAgent"]
major = true
["Screen.width"]
round = 100
"""
LANGUAGE_LESS = """
["http:accept-language"]
lower = true
sort = true
"""
AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{}.0.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{}.0 Safari/605.1.15",
)
PLATFORMS = ("Win32", "Linux x86_64", "MacIntel")


@dataclass(frozen=True)
class Case:
    """Commands that run one after the other in one fresh folder."""

    name: str
    base: str
    commands: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


# --- inputs -------------------------------------------------------------------------------------


def small_log() -> Iterator[str]:
    """Observations of 1,200 users in three weeks; in the third, screens are others.

    Firefox 140 returns another canvas on each visit, some users look automated, and four users
    share a vendor that nobody else has.
    """
    dice = random.Random(20)
    start = datetime(2026, 1, 5, tzinfo=UTC)
    for user in range(1200):
        kind = min(int(dice.random() * 4), 2)
        version = 140 + int(dice.random() * 4)
        agent = AGENTS[kind].format(version)
        if user % 60 == 11:
            agent = agent.replace("Chrome", "HeadlessChrome")
        second = int(dice.random() * 21 * 86400)
        for visit in range(1 + (user % 3 == 0)):
            moment = start + timedelta(seconds=second + 600 * visit)
            late = moment >= datetime(2026, 1, 19, tzinfo=UTC)
            noise = f"-{user}-{visit}" if "Firefox/140" in agent else f"-{user % 7}"
            steps = int(dice.random() ** 2 * (400 if late else 40))
            values: dict[str, Any] = {
                "Navigator.userAgent": agent,
                "Navigator.platform": PLATFORMS[(kind + (user % 97 == 5)) % 3],
                "Navigator.vendor": "Rare Inc."
                if user in {3, 50, 600, 1100}
                else ["", "G"][kind < 1],
                "Screen.width": 1280 + 16 * steps,
                "HTMLCanvasElement.toDataURL": f"canvas{kind}{noise}",
                "http:accept-language": ["en-US,en;q=0.5", "de,en;q=0.7", "EN-us,fr"][user % 3],
            }
            if user % 150 == 9:
                values["Navigator.webdriver"] = True
            for api, value in values.items():
                record = {
                    "user": f"u{user}",
                    "time": moment.isoformat(),
                    "api": api,
                    "value": value,
                    "source": "own" if user % 2 else "fingerprintjs 5.2.0",
                }
                yield json.dumps(record) + "\n"


def answers_log() -> Iterator[str]:
    """Wide records of 120 users, of whom three share a colour depth."""
    for user in range(120):
        record = {
            "user": f"user-{user}",
            SHORT["touch"]: user % 2,
            SHORT["platform"]: "Linux",
            SHORT["depth"]: 24 + user // 117,
        }
        yield json.dumps(record) + "\n"


def write_inputs(folder: Path) -> None:
    """Write the files that commands name."""
    texts = {
        "agents.toml": AGENTS_LESS,
        "less.toml": AGENTS_LESS + LANGUAGE_LESS,
        "weights.toml": '"Navigator.userAgent" = 5\n"Screen.colorDepth" = 0.5\n',
        "map.toml": 'ignore = ["note"]\n[columns]\nuser = "client_id"\ntime = "ts"\n',
        "sets.txt": "Navigator.userAgent\nScreen.height,Screen.width\nScreen.colorDepth\n",
        "matrix.csv": "0.5,0.1,0.2\n0.3,0.6,0.1\n0.2,0.2,0.4\n0,0.1,0.3\n",
        "answers.jsonl": "".join(answers_log()),
        "small.jsonl": "".join(small_log()),
        "broken.jsonl": '{"user": "a", "Screen.width": 1}\n{"user": \n[1]\n{"Screen.width": 2}\n',
        "foreign.csv": "client_id,ts,note,Screen.width,Navigator.vendor\n"
        + "".join(f'c{i},2026-01-{1 + i % 20:02},x,{800 + i % 5},"G"\n' for i in range(60)),
        "reports.jsonl": json.dumps(
            {
                "type": "permissions-policy-violation",
                "url": "https://a.example/?u=1",
                "body": {
                    "policyId": "ch-ua-high-entropy-values",
                    "sourceFile": "https://t.example/f.js",
                },
            }
        )
        + "\n",
        "calls.json": json.dumps(
            {
                "initialUrl": "https://a.example/",
                "data": {
                    "apis": {
                        "callStats": {
                            "https://t.example/fp.js": {
                                "Navigator.prototype.userAgent": 12,
                                "Navigator.prototype.vendor": 2,
                                "Nothing.known": 1,
                            },
                            "https://v.example/own.js": {"Screen.prototype.width": 3},
                            "https://u.example/broken.js": 3,
                        }
                    }
                },
            },
            indent=1,
        ),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "arriving").mkdir()
    lines = texts["small.jsonl"].splitlines(keepends=True)
    for number in range(2):
        part = "".join(lines[number::2])
        (folder / "arriving" / f"part-{number}.jsonl").write_text(part, encoding="utf-8")


def write_crawl(path: Path) -> None:
    """Write a crawl of OpenWPM."""
    import sqlite3  # noqa: PLC0415 -- for this file only

    rows = [
        (1, "https://a.example/", "https://t.example/fp.js", "window.navigator.userAgent", "get"),
        (1, "https://a.example/", "https://t.example/fp.js", "window.screen.width", "get"),
        (2, "https://b.example/", "https://b.example/own.js", "window.navigator.vendor", "get"),
        (2, "https://b.example/", "https://b.example/own.js", "window.document.title", "set"),
    ]
    connection = sqlite3.connect(path)
    columns = "visit_id, top_level_url, script_url, symbol, operation"
    connection.execute(f"CREATE TABLE javascript ({columns})")
    connection.executemany("INSERT INTO javascript VALUES (?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()


def write_log(log: Path, target: Path) -> str:
    """Write a log as Parquet with a column of users, and give the column's name."""
    frame = pl.read_parquet(log) if log.suffix == ".parquet" else pl.read_csv(log)
    column = next((name for name in ("user", "user_id") if name in frame.columns), "row")
    if column == "row":
        frame = frame.with_row_index("row").with_columns(pl.col("row").cast(pl.String))
    frame.write_parquet(target)
    return column


# --- what changes from run to run ---------------------------------------------------------------


class Cleaner:
    """Replaces what changes from run to run."""

    def __init__(self, places: dict[str, str]) -> None:
        self._places = sorted(places.items(), key=lambda item: -len(item[0]))
        self._start = datetime.now(UTC) - timedelta(minutes=10)

    def __call__(self, text: str) -> str:
        """Return the text with names for what changes."""
        for place, name in self._places:
            text = text.replace(place, name)
        for old, new in RENAMED.items():
            text = text.replace(f"fpmonitor {' '.join(new)}", f"fpmonitor {old}")
        text = _without_seconds(text)
        for pattern, name in _VOLATILE:
            text = pattern.sub(name, text)
        return _MOMENT.sub(self._moment, text)

    def _moment(self, found: re.Match[str]) -> str:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}").replace(tzinfo=UTC)
        return "<now>" if self._start <= moment <= datetime.now(UTC) else found[0]


_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ]| at )(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?(?:Z|\+00:00| UTC)?"
)
_VOLATILE = [
    (re.compile(r'("\w*seconds": )[-+.\de]+'), r"\1<seconds>"),
    (re.compile(r"\b\d+(\.\d+)? (s|seconds)\b"), r"<seconds> \2"),
    (re.compile(r"(<seconds>.*[^ ]) +$", re.MULTILINE), r"\1"),  # padding to the width
    (re.compile(r"-[0-9a-f]{32}\.batch"), "-<id>.batch"),
    (re.compile(r"\b\d\d:\d\d:\d\d UTC"), "<now>"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"^(\w+_(?:bucket|sum|created)(?:\{.*\})?) .*$", re.MULTILINE), r"\1 <time>"),
]


def _without_seconds(text: str) -> str:
    """Replace a column `seconds`, of CSV or of a table on a terminal."""
    lines = text.split("\n")
    place, mark = None, ""
    for number, line in enumerate(lines):
        for candidate in ("┃", ","):
            cells = [cell.strip() for cell in line.split(candidate)]
            if "seconds" in cells and len(cells) > 2:
                place, mark = cells.index("seconds"), {"┃": "│"}.get(candidate, candidate)
                break
        else:
            cells = line.split(mark) if mark else []
            if place is not None and len(cells) > place and re.search(r"\d", cells[place]):
                cells[place] = "<s>".rjust(len(cells[place]) - 1) + " " if mark == "│" else "<s>"
                lines[number] = mark.join(cells)
    return "\n".join(lines)


_SECRETS = {"keys", "password"}


def content_of(path: Path, clean: Cleaner) -> str:
    """Content of a file that a command made, as text."""
    if {".secret", ".age", ".pub", ".password"} & set(path.suffixes) or path.name in _SECRETS:
        return "<secret>\n"
    if path.suffix == ".parquet":
        frame = pl.read_parquet(path)
        rows = frame.with_columns(
            pl.col(name).map_elements(str, return_dtype=pl.String)
            for name, kind in frame.schema.items()
            if kind.is_nested() or kind == pl.Binary
        )
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows(sorted(rows.rows(), key=repr))
        return f"{frame.schema}\n{frame.height} rows\n{clean(buffer.getvalue())}"
    data = path.read_bytes()
    if path.name.endswith(".keys.json"):
        data = re.sub(rb"[0-9a-f]{64}", b"<digest>", data)
    try:
        return clean(data.decode())
    except UnicodeDecodeError:
        known = path.suffix in {".png"}
        digest = hashlib.sha256(data).hexdigest() if known else "changes"
        return f"<{len(data)} bytes, SHA-256 {digest}>\n"


# --- running ------------------------------------------------------------------------------------


class Starter:
    """Begins commands in processes that have loaded the libraries already.

    A process that did everything itself would spend a second on loading, twice as long as most
    answers take.
    """

    def __init__(self, python: Path, environment: dict[str, str], streams: Path) -> None:
        self._streams = f"{streams}{os.sep}"
        self._process = subprocess.Popen(
            [str(python), "-c", SERVER],
            env=environment,
            cwd=streams,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(
        self, words: Sequence[str], folder: Path, environment: dict[str, str], given: bytes
    ) -> Answer:
        """Run a command."""
        server = self._process
        if server.stdin is None or server.stdout is None:
            raise TypeError
        Path(f"{self._streams}in").write_bytes(given)
        job = {
            "words": list(words),
            "folder": str(folder),
            "environment": environment,
            "streams": self._streams,
            "seconds": STEP_SECONDS,
        }
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        out, err = (Path(f"{self._streams}{name}").read_text("utf-8") for name in ("out", "err"))
        return Answer(code, out, err)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


class Recorder:
    """Runs cases with one executable, and writes what they answer."""

    def __init__(self, executable: Path, out: Path, work: Path, names: str, *, plain: bool) -> None:
        self.executable, self.out, self.work = executable.absolute(), out, work
        self.names, self.plain = names, plain
        self._starters: dict[int, Starter] = {}
        self.seconds: list[tuple[float, str]] = []
        self.steps = 0
        places = {str(work): "<work>", str(self.executable.parents[1]): "<environment>"}
        self.clean = Cleaner(places)
        self.spelling = lru_cache(self._spelling)

    def _spelling(self, command: str) -> tuple[str, ...]:
        new = RENAMED[command]
        if self.names == "auto":
            return new if self.ask([*new, "--help"], self.work).code == 0 else (command,)
        return new if self.names == "new" else (command,)

    def ask(
        self,
        words: Sequence[str],
        folder: Path,
        more: dict[str, str] | None = None,
        given: bytes = b"",
    ) -> Answer:
        """Run a command as it is spelled."""
        environment = self.environment() | (more or {})
        if not self.plain:
            return self._starter()(words, folder, environment, given)
        done = subprocess.run(
            [str(self.executable), *words],
            cwd=folder,
            env=environment,
            input=given,
            capture_output=True,
            timeout=STEP_SECONDS,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def _starter(self) -> Starter:
        thread = threading.get_ident()
        if thread not in self._starters:
            streams = Path(tempfile.mkdtemp(dir=self.work))
            python = self.executable.with_name("python")
            self._starters[thread] = Starter(python, self.environment(), streams)
        return self._starters[thread]

    def close(self) -> None:
        """End what begins commands."""
        for starter in self._starters.values():
            starter.close()

    def environment(self) -> dict[str, str]:
        """Environment of every command: nothing of ours but the path of programs."""
        return {
            "PATH": f"{self.executable.parent}:{os.environ['PATH']}",
            "HOME": str(self.work / "home"),
            "TMPDIR": str(self.work / "tmp"),
            "COLUMNS": "100",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }

    def words_of(self, words: Sequence[str]) -> list[str]:
        """Words of a command as this executable spells it."""
        place = next((i for i, word in enumerate(words) if not word.startswith("-")), None)
        if place is None or words[place] not in RENAMED:
            return list(words)
        return [*words[:place], *self.spelling(words[place]), *words[place + 1 :]]

    def run(self, command: str, folder: Path, actual: str = "") -> str:
        """Run one command in a folder, and give its record; `actual` is run in its place."""
        words = shlex.split(actual or command)
        more: dict[str, str] = {}
        while words and re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            more[name] = value
        given, target = b"", None
        if "<" in words:
            place = words.index("<")
            given = (folder / words[place + 1]).read_bytes()
            del words[place : place + 2]
        if ">" in words:
            place = words.index(">")
            target = folder / words[place + 1]
            del words[place : place + 2]
        expanded = [
            str(path)
            for word in words
            for path in (self._matches(word, folder) if "*" in word else [word])
        ]
        start = time.monotonic()
        answer = self.ask(self.words_of(expanded), folder, more, given)
        self.seconds.append((time.monotonic() - start, command))
        self.steps += 1
        out = answer.out
        if target:
            target.write_text(out, encoding="utf-8")
            out = ""
        if "verify" in words:  # its digest hangs on the key of the users
            out = re.sub(r"\b[0-9a-f]{64}\b", "<digest>", out)
        head = f"$ fpmonitor {self.clean(command)}\nexit {answer.code}\n"
        return f"{head}--- stdout\n{self.clean(out)}--- stderr\n{self.clean(answer.err)}"

    @staticmethod
    def _matches(word: str, folder: Path) -> list[str]:
        found = sorted(folder.glob(word)) if not word.startswith("/") else []
        return [str(path.relative_to(folder)) for path in found] or [word]

    def prepare(self, base: str, cases: Iterable[Case]) -> None:
        """Run cases in the folder that later ones begin with."""
        folder = self.work / "bases" / base
        for case in cases:
            record = [self.run(command, folder) for command in case.commands]
            self.write(case, "".join(record))

    def perform(self, case: Case, before: str = "", after: str = "") -> None:
        """Run a case in a copy of its base, its commands between other words."""
        folder = Path(tempfile.mkdtemp(dir=self.work / "tmp"))
        here = folder / "here"
        here.mkdir()
        for entry in (self.work / "bases" / case.base).iterdir():
            if entry.suffix == ".duckdb":
                shutil.copy(entry, here / entry.name)
            else:
                (here / entry.name).symlink_to(entry)
        present = {path.name for path in here.iterdir()}
        record = [
            self.run(command, here, f"{before} {command} {after}") for command in case.commands
        ]
        record += self._files(here, present)
        self.write(case, "".join(record).replace(f"<work>/tmp/{folder.name}/here", "<here>"))
        shutil.rmtree(folder)

    def _files(self, folder: Path, present: set[str]) -> list[str]:
        files = []
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if name.parts[0] in present or path.is_dir():
                continue
            if path.suffix in {".duckdb", ".db", ".wal"}:
                continue
            content = content_of(path, self.clean)
            files.append(f"--- file {self.clean(str(name))}\n{content}")
        return sorted(files)  # names that change must not tell the order

    def write(self, case: Case, text: str) -> None:
        """Write the record of a case."""
        path = self.out / case.base / f"{case.name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _form(form: str) -> tuple[str, str, str]:
    return ("-others", "json", "--for-others ") if form == "others" else (f"-{form}", form, "")


def cases_of(table: str, base: str, short: dict[str, str]) -> list[Case]:
    """Cases of a table; `{f}` and `{j}` make several of one line."""
    cases = []
    every = FORMS.get(base, FORMS["log"])
    for line in table.strip().splitlines():
        name, _, commands = line.partition(": ")
        forms = [("", "", "")]
        if "{f}" in commands:
            forms = [_form(form) for form in every]
        elif "{j}" in commands:
            forms = [_form(form) for form in every if form in {"json", "others"}]
        for suffix, form, prefix in forms:
            filled = commands.format_map(short | {"f": form, "j": form})
            steps = tuple(prefix + step.strip() for step in filled.split("&&"))
            cases.append(Case(name + suffix, base, steps))
    return cases


def log_base(recorder: Recorder, log: Path) -> tuple[str, list[Case]]:
    """Store a log that was given, and give the cases about it."""
    base = f"log-{log.stem}"
    folder = recorder.work / "bases" / base
    folder.mkdir()
    column = write_log(log, folder / "log.parquet")
    command = f"ingest log.parquet --user {column} --format json"
    recorder.prepare(base, [Case("ingest", base, (command,))])
    lines = json.loads(recorder.ask(["db", "apis", "--format", "json"], folder).out)
    few = [line["api"] for line in lines if line["values"] and 2 <= line["values"] <= 300]
    chosen = sorted(few)[:6]
    quoted = [f'"{name}"' if "," in name else name for name in chosen]
    short = {
        "apis": shlex.quote(",".join(quoted)),
        "first": shlex.quote(quoted[0]),
        "last": shlex.quote(quoted[-1]),
        "all": shlex.quote(",".join(sorted(line["api"] for line in lines))),
    }
    return base, cases_of(LOG_CASES, base, short)


def request(url: str, posted: tuple[str, bytes] | None = None) -> str:
    """Ask a service, and give status, headers and body."""
    asked = urllib.request.Request(url)
    if posted:
        asked.add_header("Content-Type", posted[0])
        asked.data = posted[1]
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            status, headers, body = answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        status, headers, body = error.code, error.headers, error.read()
    kept = sorted(
        f"{name.lower()}: {value}"
        for name, value in headers.items()
        if name.lower() not in {"date", "content-length", "set-cookie"}
    )
    return "\n".join([f"status {status}", *kept, "", body.decode()]) + "\n"


def record_service(recorder: Recorder) -> None:
    """Record the pages of `fpmonitor collect serve`, and its log."""
    folder = recorder.work / "service"
    folder.mkdir()
    base = recorder.work / "bases" / "small"
    for name in ("fpmonitor.duckdb", "sample.json"):
        shutil.copy(base / name, folder / name)
    settings = 'db = "fpmonitor.duckdb"\ndecision = "sample.json"\nflush_seconds = 3600\n'
    (folder / "serve.toml").write_text(settings)
    command = "collect serve --config serve.toml --port 0"
    log = folder / "log.txt"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [str(recorder.executable), *command.split()],
            cwd=folder,
            env=recorder.environment(),
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        address = _address(log, process)
        pages = {name: request(address + path) for name, path in PAGES.items()}
        pages |= {
            name: request(address + path, (kind, body))
            for name, (path, kind, body) in POSTS.items()
        }
        pages["metrics"] = request(f"{address}/metrics")
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
    pages["log"] = f"$ fpmonitor {command}\nexit {code}\n{log.read_text()}"
    for name, text in pages.items():
        recorder.write(Case(name, "serve", ()), recorder.clean(text))
        recorder.steps += 1


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            return found[0]
        time.sleep(0.1)
    raise RuntimeError(f"the service does not start: {log.read_text()}")


def record(recorder: Recorder, fixtures: Path, logs: Sequence[Path], only: str, jobs: int) -> None:
    """Record all commands on the database file, and the service."""
    for base in CASES:
        folder = recorder.work / "bases" / base
        folder.mkdir(parents=True)
        write_inputs(folder)
        write_crawl(folder / "crawl.sqlite")
    bases = recorder.work / "bases"
    (bases / "fixtures" / "logs").symlink_to(fixtures / "logs")
    (bases / "fixtures" / "extra").symlink_to(fixtures / "extra")
    (bases / "records" / "records").symlink_to(fixtures / "records")
    cases = [case for base, table in CASES.items() for case in cases_of(table, base, SHORT)]
    with ThreadPoolExecutor(jobs) as pool:
        made = [
            pool.submit(recorder.prepare, base, cases_of(table, base, SHORT))
            for base, table in PREPARE.items()
        ]
        found = [pool.submit(log_base, recorder, log) for log in logs]
        for job in made:
            job.result()
        for log_job in found:
            cases += log_job.result()[1]
        cases.sort(key=lambda case: case.base in {"fixtures", "none"})  # what others see first
        chosen = [case for case in cases if fnmatch.fnmatch(f"{case.base}/{case.name}", only)]
        jobs_left = [pool.submit(recorder.perform, case) for case in chosen]
        if fnmatch.fnmatch("serve/", only):
            jobs_left.append(pool.submit(record_service, recorder))
        for left in jobs_left:
            left.result()


def differences(first: Path, second: Path) -> Iterator[str]:
    """Lines of a unified diff of two recordings."""
    names = {
        path.relative_to(folder) for folder in (first, second) for path in folder.rglob("*.txt")
    }
    for name in sorted(names):
        texts = [
            (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
            if (folder / name).exists()
            else []
            for folder in (first, second)
        ]
        before, after = texts
        labels = str(first / name), str(second / name)
        yield from difflib.unified_diff(before, after, *labels, n=2)


def main() -> int:
    """Record, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fpmonitor", type=Path, help="executable to record")
    parser.add_argument("--out", type=Path, help="folder of the recording")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FOLDER")
    parser.add_argument("--names", choices=["auto", "old", "new"], default="auto")
    parser.add_argument("--only", default="*", help="pattern of cases, as in 'small/decide*'")
    parser.add_argument("--plain", action="store_true", help="a fresh interpreter for each command")
    parser.add_argument("--slowest", type=int, default=0, help="list so many slow commands")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fixtures", type=Path, default=FIXTURES)
    parser.add_argument("logs", type=Path, nargs="*", metavar="LOG")
    options = parser.parse_args()
    if options.compare:
        lines = list(differences(*options.compare))
        sys.stdout.writelines(lines)
        return int(bool(lines))
    if not options.fpmonitor or not options.out:
        parser.error("--fpmonitor and --out, or --compare")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="answers-") as work:
        for name in ("home", "tmp"):
            (Path(work) / name).mkdir()
        recorder = Recorder(
            options.fpmonitor, options.out, Path(work), options.names, plain=options.plain
        )
        try:
            logs = [log.resolve() for log in options.logs]
            record(recorder, options.fixtures.resolve(), logs, options.only, options.jobs)
        finally:
            recorder.close()
    files = len(list(options.out.rglob("*.txt")))
    for seconds, command in sorted(recorder.seconds, reverse=True)[: options.slowest]:
        print(f"{seconds:6.1f} s  {command}")
    print(f"{recorder.steps} answers in {files} files, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
