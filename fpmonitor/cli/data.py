"""Commands on the data: ingest, rejects, apis."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import asdict, replace
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor import vocabulary
from fpmonitor.account import Account, missing_of, summary
from fpmonitor.answers.apis import list_apis
from fpmonitor.answers.questions import register_questions
from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.options import (
    DB,
    DEFAULT_DB,
    QUIET,
    REGISTER,
    UNSAFE_COUNTS,
    K,
)
from fpmonitor.cli.output import Shown, note, progress_line
from fpmonitor.cli.readers import ReaderOptions
from fpmonitor.cli.reading import DIGEST_VALUES, ReadingOptions, assigned
from fpmonitor.cli.users import ViewedUsers, note_view
from fpmonitor.decide.questions import read_policy
from fpmonitor.disclosure import Audience
from fpmonitor.errors import PolicyError, excerpt, some_of
from fpmonitor.judgement import USER_AGENTS
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.contract import NOT_UTF_8, RECODE
from fpmonitor.logs.finding import log_files
from fpmonitor.planning import logs_and_map, plan_logs, write_map
from fpmonitor.release.query_audit import name_exposure
from fpmonitor.render import answers, store
from fpmonitor.render.output import Output
from fpmonitor.store.names import known_names, say_names
from fpmonitor.unit import visitor_rule
from fpmonitor.vocabulary.search import search_apis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fpmonitor.store.batches import BatchReport

_NOTED_NAMES = 8
NULLS_ARE_VALUES = (
    "nulls count as values, as when its beginning was stored; `fpmonitor db forget --batch` and "
    "a new ingest take them for absent"
)
_NOTED_LOGS = 4
LOGS = Annotated[
    list[str], typer.Argument(help="Logs: files, folders, glob patterns, or - for standard input.")
]
PLAN = Annotated[
    bool,
    typer.Option(
        "--plan",
        help="Store nothing: list what each member is, and write the column map that says so. "
        "It goes to an argument that ends in .toml, else into this folder, named as the log.",
    ),
]


STRICT = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit code 1 where a record was rejected, or a member set aside."
    ),
]
ALLOW_NETWORK = Annotated[
    bool,
    typer.Option(
        "--allow-network",
        help="Let DuckDB fetch addresses (https://, s3://) with its extension httpfs.",
    ),
]


def ingest(
    *,
    paths: LOGS,
    db: DB = DEFAULT_DB,
    reading: ReadingOptions,
    digest_values: DIGEST_VALUES = False,
    plan: PLAN = False,
    strict: STRICT = False,
    allow_network: ALLOW_NETWORK = False,
    register: REGISTER = None,
    shown: Shown,
    quiet: QUIET = False,
) -> int:
    """Store logs in the database; a file that is already stored adds nothing."""
    column_map = reading.column_map()
    if plan:
        _plan(paths, reading, column_map, shown, allow_network=allow_network, quiet=quiet)
        return 0
    questions = [read_policy(path) for path in register or ()]
    with ExitStack() as opened:
        # A pipe is read to its end before the database is opened, which is nobody else's then.
        found = opened.enter_context(log_files(paths, allow_network=allow_network))
        monitor = opened.enter_context(open_monitor(db, create=True))
        progress = opened.enter_context(progress_line(quiet))
        register_questions(monitor.database, questions)
        before = known_names(monitor.database)
        reports = monitor.ingest(
            found,
            collector=reading.collector,
            column_map=column_map,
            digest_values=digest_values,
            progress=lambda source, stage: progress(f"{source}: {stage}"),
        )
        after = known_names(monitor.database)
    is_strict = strict and any(report.rejected or report.set_aside for report in reports)
    if monitor.audience is Audience.OTHERS:  # an account names members that few users have
        reports = [replace(report, account=None) for report in reports]
    shown.show(store.batches_output(reports))
    for report in reports:
        for text in who_counts(report):
            note(text, quiet=quiet)
        if report.nulls_are_values and column_map.null != "value":
            note(f"{report.source}: {NULLS_ARE_VALUES}", quiet=quiet)
        for source, visits in report.corrects.items():
            note(f"{report.source} corrects {visits:,} visits of {source}", quiet=quiet)
    if after != before and monitor.audience is Audience.OWNER:
        # Others are not told of an API that only a few users have.
        note_names({name: api for name, api in after.items() if before.get(name) != api}, quiet)
    for name in assigned(reading.names or ()).keys() - after.keys():
        note(f"--as {name}: no log has this name", quiet=quiet)
    for report in reports:
        if report.rejected:
            help_ = RECODE if report.reason == NOT_UTF_8 else "see `fpmonitor db rejects`"
            said = _rejected(report.source, report.rejected, report.read, report.reason)
            note(f"{said}; {help_}", quiet=quiet)
    note_accounts(reports, quiet)
    return int(is_strict)


def _plan(
    paths: list[str],
    reading: ReadingOptions,
    column_map: ColumnMap,
    shown: Shown,
    *,
    allow_network: bool,
    quiet: bool,
) -> None:
    """Show what the members of logs are, and write the column map that reads them so."""
    if INVOCATION.get().audience is Audience.OTHERS:
        raise PolicyError("a plan", "is for the owner of the data only")
    logs, target = logs_and_map(paths)
    plans = plan_logs(logs, column_map, collector=reading.collector, allow_network=allow_network)
    write_map(target, plans)
    shown.show(store.accounts({label: judged.account for label, judged in plans.items()}))
    for label, judged in plans.items():
        if judged.rejected:
            records = judged.account.records + judged.rejected
            note(_rejected(label, judged.rejected, records, judged.reason), quiet=quiet)
    reads_so = f"fpmonitor ingest --columns {quote(str(target))} {' '.join(map(quote, logs))}"
    note(f"nothing was stored; `{reads_so}` reads so", quiet=quiet)


def _rejected(label: str, rejected: int, records: int, reason: str) -> str:
    """Say how many records of a log are rejected, and why most of them."""
    return (
        f"{label}: {rejected:,} of {records:,} records were rejected, most often because: {reason}"
    )


def note_accounts(reports: Sequence[BatchReport], quiet: bool) -> None:
    """Note on stderr what the members of logs were taken for."""
    sources_by_text = defaultdict(list)
    for report in reports:
        if report.account:
            sources_by_text[_told(report.account)].append(report.source)
    for texts, sources in list(sources_by_text.items())[:_NOTED_LOGS]:
        label = sources[0] if len(sources) == 1 else f"{len(sources):,} logs"
        for text in texts:
            note(f"{label}: {text}", quiet=quiet)
    if len(sources_by_text) > _NOTED_LOGS:
        note("see `fpmonitor db batches --format json` for the other logs", quiet=quiet)


def _told(account: Account) -> tuple[str, ...]:
    texts = [summary(account.members)]
    if account.set_aside:
        aside = [f"{excerpt(member.path)} ({member.why})" for member in account.set_aside]
        texts.append(f"not stored: {_some(aside)}")
    agents = [m.path for m in account.members if m.why.startswith(USER_AGENTS)]
    if agents:
        named = quote(f"{agents[0]}=Navigator.userAgent")
        texts.append(f"{_some(agents)}: {USER_AGENTS}; `fpmonitor db apis --set {named}` names it")
    spelt = [f"{m.path}: {missing_of(m)}" for m in account.members if missing_of(m)]
    if spelt:
        texts.append(f"these texts count as values, unless --null names them: {_some(spelt)}")
    return tuple(texts)


def who_counts(report: BatchReport) -> Iterator[str]:
    """Say who counts where that is not a user, and what became of rows without a time."""
    if report.unit == "visitor":
        yield f"{report.source}: each visitor counts once: {visitor_rule(report.collector)}"
    elif report.unit == "row":
        yield (
            f"{report.source}: no column names the users, so rows are counted; "
            "--user COLUMN names one"
        )
    if report.unordered:
        yield (
            f"{report.source}: {report.unordered:,} {report.unit or 'user'}s have several rows "
            "without a time, with different values; the last one counts; --time COLUMN orders them"
        )


def note_names(names: Mapping[str, str], quiet: bool) -> None:
    """Note on stderr which APIs names in logs are, if any is called otherwise."""
    apis_by_name = {name: api for name, api in names.items() if not name.startswith("x:")}
    renamed = [f"{name} is {api}" for name, api in apis_by_name.items() if api and api != name]
    open_names = [name for name, api in apis_by_name.items() if not api]
    unclear = [name for name in open_names if vocabulary.meanings(name)]
    unknown = [name for name in open_names if name not in unclear]
    if not renamed and not open_names:
        return
    ends = f": {_some(renamed)}" if renamed else ""
    note(
        f"{len(apis_by_name) - len(open_names)} of {len(apis_by_name)} names are known{ends}",
        quiet=quiet,
    )
    columns_of = defaultdict(list)
    for name, api in apis_by_name.items():
        columns_of[api].append(name)
    twice = [f"{_few(cs)} are {api}" for api, cs in columns_of.items() if api and cs[1:]]
    if twice:
        note(f"one API, allowed only if all its columns are: {_some(twice)}", quiet=quiet)
    if unclear:
        note(f"not clear: {_some(unclear, _may_be)}", quiet=quiet)
    if unknown:
        note(f"not known to fpmonitor: {_some(unknown, _near)}", quiet=quiet)
    if open_names:
        note("lists need `fpmonitor db apis --set NAME=API` to act on these", quiet=quiet)


def _may_be(name: str) -> str:
    return f"{name} may be {' or '.join(vocabulary.meanings(name))}"


def _near(name: str) -> str:
    near = ", ".join(vocabulary.nearest(name))
    return f"{name} (nearest: {near})" if near else name


def _few(names: Sequence[str]) -> str:
    return " and ".join([*names[:2], f"{len(names) - 2:,} more"] if names[3:] else names)


def _some(texts: Sequence[str], written: Callable[[str], str] = str) -> str:
    shown = [written(text) for text in texts[:_NOTED_NAMES]]
    return some_of([*shown, *texts[_NOTED_NAMES:]], _NOTED_NAMES, last=", and")


def batches(*, db: DB = DEFAULT_DB, shown: Shown) -> None:
    """List the stored logs and what became of their records."""
    with open_monitor(db) as monitor:
        reports = monitor.batches()
    shown.show(store.batches_output(reports))


def rejects(
    *,
    db: DB = DEFAULT_DB,
    most: Annotated[int, typer.Option(help="Largest number of records to list.", min=1)] = 100,
    shown: Shown,
) -> None:
    """List the records that could not be stored, with file, line and reason."""
    with open_monitor(db) as monitor:
        listed = monitor.rejects(most=most)
    shown.show(store.rejects_output([asdict(record) for record in listed]))


def apis(
    *,
    resolve: Annotated[
        str | None,
        typer.Option(
            help="Look up this API name in the vocabulary, and nothing else.", metavar="NAME"
        ),
    ] = None,
    wanted: Annotated[
        str | None,
        typer.Option(
            "--search",
            help="List the known APIs with this word in their name, an alias or what they reveal.",
            metavar="WORD",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Say which API a name in the logs is, and nothing else; NAME= for none.",
            metavar="NAME=API",
        ),
    ] = None,
    reader: ReaderOptions,
    users: ViewedUsers,
    k: K = 10,
    unsafe_counts: UNSAFE_COUNTS = False,
    shown: Shown,
) -> None:
    """List the observed APIs with the users, values, entropy and exposure of each."""
    if resolve is not None:
        shown.show(_resolved(resolve))
        return
    if wanted is not None:
        shown.show(_found(wanted))
        return
    if assignments:
        with open_monitor(users.db) as monitor:
            say_names(monitor.database, assigned(assignments), logged=True)
            names = known_names(monitor.database)
        rows = [{"name": name, "means": names[name] or None} for name in assigned(assignments)]
        shown.show(store.listing(rows, title="What names in the logs are"))
        return
    with users.open() as monitor:
        population = monitor.population()
        note_view(population, k)
        overview = list_apis(population, k=k, show_counts_below_k=unsafe_counts)
        # Their number would reveal to others that somebody has them.
        unnamed = (
            0 if population.audience is Audience.OTHERS else len(population.apis) - len(overview)
        )
        counts = [name_exposure([line.api], k) for line in overview]
        reader.ask(monitor, [*counts, *(f"users of {x.api}" for x in overview)])
    if unnamed:
        note(f"{unnamed:,} APIs with fewer than {k} users are not listed")
    shown.show(answers.overview(overview, k))


def _found(words: str) -> Output:
    rows = []
    for api, because in search_apis(words):
        known = vocabulary.entry_of(api)
        entry = {"kind": known.kind, "group": known.group}
        rows.append({"api": api, "because": because} | entry)
    return store.listing(rows, title=f"Known APIs: {words}")


def _resolved(name: str) -> Output:
    rows = []
    for source, api in vocabulary.resolve(name):
        known, randomised = vocabulary.entry_of(api), vocabulary.randomised_in(api)
        entry = {"kind": known.kind, "group": known.group, "volatile": sorted(randomised)}
        rows.append({"source": source, "name": name, "api": api} | entry)
    return store.meanings_output(rows)
