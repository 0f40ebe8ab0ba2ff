"""Two examples of each command, and the options that matter most: what its help begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, str]] = {
    "": ("ui survey.csv", "quickstart"),
    "ui": ("ui survey.csv", "ui --db fpmonitor.duckdb --no-browser"),
    "mcp": ("mcp --db fpmonitor.duckdb", "mcp --db fpmonitor.duckdb --decision decision.json"),
    "look": ("look survey.csv", "look logs/"),
    "quickstart": ("quickstart", "quickstart tried --quiet"),
    "ingest": ("ingest survey.csv", "ingest logs/ --user client_id --plan map.toml"),
    "exposure": (
        "exposure",
        "exposure Navigator.language,Screen.width -k 10 -n 10M",
    ),
    "exposure --plot": (
        "exposure --plot exposure -o exposure.svg",
        "exposure --plot curve --apis Screen.height -o curve.svg",
    ),
    "exposure --rank": (
        "exposure --rank --size 2",
        "exposure --rank --apis Navigator.language,Screen.width --apis Screen.height",
    ),
    "exposure --curve": (
        "exposure --curve --apis Screen.height",
        "exposure --curve --apis Screen.height,Screen.width -o curve.csv",
    ),
    "exposure --by": ("exposure --by week", "exposure --by month --apis Screen.height --svg t.svg"),
    "decide": (
        "decide --budget 5% -o decision.json",
        "decide --budget 5% -k 10 -n 10M --must Screen.width -o decision.json",
    ),
    "gate": (
        "gate decision.json --want Screen.height",
        "gate decision.json --have Screen.width --want Screen.height,Navigator.language",
    ),
    "export": (
        "export decision.json ublock -o list.txt",
        "export decision.json firefox --db fpmonitor.duckdb -o policies.json",
    ),
    "export --preview": (
        "export --preview decision.json --to ublock",
        "export --preview decision.json --to firefox-policies --format csv",
    ),
    "export --report": (
        "export --report decision.json -o report.html",
        "export --report decision.json --db survey.duckdb -o report.html",
    ),
    "check": (
        "check decision.json",
        "check decision.json --list list.txt --from ublock --site example.com",
    ),
    "check --compare": (
        "check --compare fpmonitor.duckdb fpmonitor.duckdb --split 2026-06-01",
        "check --compare old.json new.json",
    ),
    "watch": (
        "watch logs/ --decision decision.json",
        "watch logs/ --decision decision.json --once --quiet",
    ),
    "lists": (
        "lists plan decision.json --to firefox-policies",
        "lists import list.txt --from ublock --decision decision.json",
    ),
    "lists plan": (
        "lists plan decision.json --to ublock",
        "lists plan decision.json --to firefox-policies --write policies.json",
    ),
    "lists import": (
        "lists import list.txt --from ublock",
        "lists import list.txt --from ublock --decision decision.json --db fpmonitor.duckdb",
    ),
    "lists scripts": (
        "lists scripts decision.json",
        "lists scripts decision.json --to tracker-radar -o domains.json",
    ),
    "lists demand": ("lists demand crawl.jsonl", "lists demand --by site --most 20"),
    "lists targets": (
        "lists targets -o targets.json",
        "lists targets --from /usr/lib/firefox-esr -o targets.json",
    ),
    "lists schema": ("lists schema", "lists schema -o decision.schema.json"),
    "collect": ("collect keys add write shop", "collect serve --config serve.toml"),
    "collect serve": (
        "collect serve --config serve.toml",
        "collect serve --decision decision.json --port 8017",
    ),
    "collect keys": ("collect keys add write shop", "collect keys list"),
    "collect keys add": ("collect keys add write shop", "collect keys add read analyst"),
    "collect keys remove": ("collect keys remove write shop", "collect keys remove read analyst"),
    "collect keys list": ("collect keys list", "collect keys list --format json"),
    "collect snippet": (
        "collect snippet decision.json --address https://example.com",
        "collect snippet --apis Screen.width,Navigator.language",
    ),
    "collect log-line": ("collect log-line nginx", "collect log-line apache -o fingerprint.conf"),
    "collect shares": (
        "collect shares access.log --by family,os -o shares.toml",
        "collect shares --by Navigator.platform",
    ),
    "db": ("db apis", "db verify"),
    "db apis": ("db apis", "db apis --set agnt=Navigator.userAgent"),
    "db batches": ("db batches", "db batches --format csv -o batches.csv"),
    "db rejects": ("db rejects", "db rejects --most 100"),
    "db questions": ("db questions", "db questions --format json"),
    "db automation": ("db automation", "db automation --apis Screen.width,Screen.height"),
    "db verify": ("db verify", "db verify --db survey.duckdb"),
    "db forget": ("db forget --before 2026-01-01 --dry-run", "db forget --batch 3 --yes"),
    "db compact": ("db compact", "db compact --db survey.duckdb"),
    "db views": ("db views", "db views -o views.sql"),
    "db copy-out": ("db copy-out dump", "db copy-out dump --db survey.duckdb"),
    "db copy-in": ("db copy-in dump --db new.duckdb", "db copy-in dump --format json"),
    "db make-key": ("db make-key database.key", "db make-key database.key --quiet"),
    "db seal": (
        "db seal fpmonitor.duckdb --key-file age.key --make-key -o fpmonitor.age",
        "db seal decision.json --key-file age.key -o decision.age",
    ),
    "db open": (
        "db open fpmonitor.age --key-file age.key -o fpmonitor.duckdb",
        "db open decision.age --key-file age.key -o decision.json",
    ),
    "scale": (
        "scale convert logs/ -o visits.parquet",
        "scale sketch make --apis Screen.width --key-file sketch.key -o a.sketch",
    ),
    "scale convert": (
        "scale convert logs/ -o visits.parquet",
        "scale convert survey.csv --user client_id -o visits.parquet",
    ),
    "scale fetch": (
        "scale fetch --engine postgresql+psycopg://analyst@db/shop --from visits --time seen",
        "scale fetch --engine sc://spark:15002 --from visits --part 1/16 --db sixteenth.duckdb",
    ),
    "scale sql": (
        "scale sql --from visits --user id --time seen --candidates width,language -o ask.sql",
        "scale sql --from visits --user id --sets width,language --dialect bigquery",
    ),
    "scale sketch": (
        "scale sketch key sketch.key",
        "scale sketch exposure a.sketch --apis Screen.width",
    ),
    "scale sketch key": ("scale sketch key sketch.key", "scale sketch key sketch.key --quiet"),
    "scale sketch make": (
        "scale sketch make --apis Screen.width,Screen.height --key-file sketch.key -o a.sketch",
        "scale sketch make --from users.parquet --apis Screen.width --key-file k -o a.sketch",
    ),
    "scale sketch merge": (
        "scale sketch merge a.sketch b.sketch -o all.sketch",
        "scale sketch merge a.sketch b.sketch --disjoint -o all.sketch",
    ),
    "scale sketch info": ("scale sketch info a.sketch", "scale sketch info a.sketch --format json"),
    "scale sketch exposure": (
        "scale sketch exposure a.sketch",
        "scale sketch exposure a.sketch --apis Screen.width -n 1B",
    ),
    "release": (
        "release --apis Screen.width,Navigator.language -k 10 -o release.parquet",
        "release --apis Screen.width -k 50 --mechanism cells -o cells.parquet",
    ),
    "audit": (
        "audit certificate decision.json",
        "audit singling-out --release release.parquet",
    ),
    "audit queries": ("audit queries", "audit queries --query-limit 100"),
    "audit certificate": (
        "audit certificate decision.json",
        "audit certificate decision.json --db fpmonitor.duckdb",
    ),
    "audit union": (
        "audit union decision.json other.json --db fpmonitor.duckdb --db other.duckdb",
        "audit union decision.json other.json --db fpmonitor.duckdb",
    ),
    "audit baseline": (
        "audit baseline --users 1000 --weight 0.001",
        "audit baseline --users 1000 --weight 0.001 --counts 5",
    ),
    "audit examples": ("audit examples", "audit examples --trials 100"),
    "audit pseudonymous": (
        "audit pseudonymous --apis Screen.width,Screen.height",
        "audit pseudonymous --apis Screen.width --weight 0.001",
    ),
    "audit singling-out": (
        "audit singling-out --release release.parquet",
        "audit singling-out --release release.parquet --trials 100",
    ),
    "audit histogram": (
        "audit histogram --apis Screen.width -k 10 --epsilon 1",
        "audit histogram --apis Screen.width -k 10 --epsilon 1 --known 100",
    ),
    "audit several": (
        "audit several --apis Screen.width --apis Screen.height -k 10 --epsilon 1",
        "audit several --apis Screen.width --apis Screen.height -k 10 --epsilon 1 --known 100",
    ),
    "audit sensitive": (
        "audit sensitive --release release.parquet --api Navigator.language",
        "audit sensitive --release release.parquet --api Screen.width --format json",
    ),
    "audit partial-knowledge": (
        "audit partial-knowledge --users 10000 --probability 0.01 -k 10 --epsilon 1",
        "audit partial-knowledge --users 10000 --probability 0.01 -k 10 --epsilon 1 --known 100",
    ),
    "audit curve": (
        "audit curve --users 10000 --probability 0.01 -k 10",
        "audit curve --users 10000 --probability 0.01 -k 10 --points 20 -o curve.csv",
    ),
    "audit smallest-k": (
        "audit smallest-k --users 10000 --probability 0.01 --epsilon 1 --delta 1e-6",
        "audit smallest-k --apis Screen.width --epsilon 1 --delta 1e-6",
    ),
    "ldp": (
        "ldp compare --values 10 --users 10000",
        "ldp metrics --mechanism grr --values 10 --epsilon 1",
    ),
    "ldp metrics": (
        "ldp metrics --mechanism grr --values 10 --epsilon 1",
        "ldp metrics --mechanism oue --values 10 --epsilon 1 --users 10000",
    ),
    "ldp reports": (
        "ldp reports reports.csv --mechanism grr --values 10 --epsilon 1",
        "ldp reports reports.csv --mechanism oue --values 10 --epsilon 1 --delta 1%",
    ),
    "ldp compare": (
        "ldp compare --values 10 --users 10000",
        "ldp compare --values 10 --users 10000 --epsilon 1 --plot compare.svg",
    ),
    "ldp optimal": (
        "ldp optimal --values 4 --epsilon 1",
        "ldp optimal --values 4 --epsilon 1 --users 10000",
    ),
    "ldp plan": (
        "ldp plan --accuracy 0.05",
        "ldp plan --accuracy 0.05 --users 1000000 --candidates Screen.width,Screen.height",
    ),
    "ldp ask": (
        "ldp ask --study study.json --users 40000 -o ask.json",
        "ldp ask --study study.json --accuracy 0.05 --users 1000000 -o ask.json",
    ),
    "private": (
        "private simulate --pilot tried",
        "private serve pilot",
    ),
    "private init": (
        "private init pilot --apis Screen.width,Screen.height --population 100000 --budget 5%",
        "private init curator --role curator --port 8021",
    ),
    "private seal": (
        "private seal --ask ask.json --from users.jsonl -o uploads",
        "private seal --ask ask.json --from users.jsonl --to https://shuffler.example",
    ),
    "private shuffle": (
        "private shuffle uploads --folder shuffler -o batches",
        "private shuffle uploads --folder shuffler --ask ask.json --close",
    ),
    "private count": (
        "private count batches --folder curator",
        "private count batches --folder curator --ask ask.json",
    ),
    "private publish": (
        "private publish round-2.json --folder curator",
        "private publish round-2.json --folder pilot",
    ),
    "private close": (
        "private close round-1.json --folder curator",
        "private close round-1.json --folder pilot --drop",
    ),
    "private status": (
        "private status --folder curator",
        "private status --folder curator --format json",
    ),
    "private backup": (
        "private backup curator -o curator.backup",
        "private backup analyst -o analyst.backup",
    ),
    "private rotate": ("private rotate shuffler", "private rotate shuffler --retire 1"),
    "private serve": ("private serve curator", "private serve shuffler"),
    "private select": (
        "private select curator --decision decision.json",
        "private select curator --redact Screen.width,Screen.height -o round-2.json",
    ),
    "private simulate": (
        "private simulate --budget 5%",
        "private simulate --budget 10% --k 3 --setting fixed --group 200",
    ),
}
MATTER: Mapping[str, str] = {
    "ingest": "--user --columns --as --visitor --db",
    "exposure": "--k --population --rank --curve --by",
    "exposure --plot": "--apis --output --k --population --db",
    "exposure --rank": "--size --apis --k --population --db",
    "exposure --curve": "--apis --k --delta --db --output",
    "exposure --by": "--by --apis --k --svg --db",
    "decide": "--budget --k --population --candidates --output",
    "gate": "--want --have --db --format --output",
    "export": "--to --output --db --preview --report",
    "export --preview": "--to --db --site --replace-protection --format",
    "export --report": "--output --db --k --population --budget",
    "check": "--list --from --by --compare --db",
    "check --compare": "--decision --split --apis --k --population",
    "watch": "--decision --command --webhook --once --every",
    "lists scripts": "--crawl --by --to --most --db",
    "lists import": "--from --decision --db --site --output",
    "lists demand": "--by --most --k --population --db",
    "lists plan": "--to --write --site --format --output",
    "collect snippet": "--apis --address --script --to --output",
    "collect shares": "--by --k --delta --db --output",
    "db apis": "--set --search --resolve --k --db",
    "db forget": "--before --user --batch --dry-run --yes",
    "scale convert": "--output --user --columns --as --rows-are-users",
    "scale fetch": "--from --engine --db --user --time",
    "scale sql": "--from --user --time --candidates --dialect",
    "scale sketch make": "--apis --key-file --output --share --from",
    "release": "--apis --k --output --mechanism --epsilon",
    "private init": "--apis --population --budget --role --curator-key",
    "private seal": "--ask --from --study --output --to",
    "private simulate": "--budget --pilot --apis --k --population",
}
