"""Commands that choose what to release: select, simulate."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fpmonitor.cli.context import open_database
from fpmonitor.cli.options import (
    BUDGET_OF_STUDY,
    DB,
    DEFAULT_DB,
    DELTA,
    FORMAT,
    POPULATION,
    K,
    named_options,
)
from fpmonitor.cli.output import emit, note, show
from fpmonitor.decide.files import read_any_decision
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.estimate.mixing import seed_of
from fpmonitor.population.stored import stored_names
from fpmonitor.private.commands import tables
from fpmonitor.private.commands.options import CURATOR_FOLDER, check_owner, folder_of
from fpmonitor.private.commands.users import tokens_of_users
from fpmonitor.private.decided import decision_of
from fpmonitor.private.hierarchy import next_ask
from fpmonitor.private.hierarchy import simulate_hierarchy as play_rounds
from fpmonitor.private.knowledge import Setting
from fpmonitor.private.randomised import RandomisedAnswers
from fpmonitor.private.redaction import SUSPICION, plan_from_marginals, plan_from_sample
from fpmonitor.private.selection import known_of, select_known
from fpmonitor.private.store import RoleStore, incomplete, read_counts
from fpmonitor.private.study import (
    CollectionRequest,
    RecipientRole,
    Study,
    check_ask,
    first_ask,
    release_ask,
)
from fpmonitor.private.table import read_tokens
from fpmonitor.render.output import Form, Output, to_json
from fpmonitor.safe_files import untyped
from fpmonitor.store.snapshot import take_snapshot
from fpmonitor.vocabulary import split_names

if TYPE_CHECKING:
    import polars as pl

    from fpmonitor.decide.decision import Decision
    from fpmonitor.private.counts import ApiSet, Counts, Tuples
    from fpmonitor.private.folder import RoleFolder
    from fpmonitor.private.hierarchy import Hierarchy
    from fpmonitor.private.redaction import RedactionPlan
    from fpmonitor.private.selection import Selection
    from fpmonitor.private.study import RedactionRule, SetPromise, Sign


# Options of `select` that do not need answers.
_OF_NEW_EPOCH = frozenset(("--epoch", "--next", "--output", "--format"))
_PILOT_USERS = 500
_PILOT_APIS = (
    "Navigator.deviceMemory",
    "Navigator.maxTouchPoints",
    "Navigator.platform",
    "Screen.colorDepth",
    "css:dynamic-range",
)

SETTING = Annotated[
    Setting,
    typer.Option(
        "--setting",
        help="Limit the exposure of the observed users (fixed) or of the population (statistical).",
    ),
]
WEIGHTS = Annotated[
    Path | None,
    typer.Option("--weights", help="TOML file with the utility of each API, 1 where not named."),
]
ASK = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the next request to this file.")
]


@dataclass(frozen=True, slots=True)
class _Held:
    """What a curator holds of one epoch."""

    study: Study
    epoch: int
    next_round: int
    counts: Counts
    randomised: Mapping[ApiSet, RandomisedAnswers]
    asks: Sequence[CollectionRequest]  # The requests of the epoch that were published.

    def check_releases(self) -> None:
        """Refuse one more release than the study allows, before anything is written.

        Raises:
            InputError: Users would not answer it, and services refuse it.
        """
        released = sum(ask.recipient == "analyst" for ask in self.asks)
        if released >= self.study.releases:
            raise InputError(
                f"select: epoch {self.epoch} has had {released} of the {self.study.releases} "
                "releases that the study allows",
                hint="omit -o to see the limits again, or collect anew: `--next curator --epoch N`",
            )

    def analyst_ask(
        self,
        promise: SetPromise,
        apis: ApiSet,
        sign: Sign,
        rules: Mapping[str, RedactionRule] | None = None,
    ) -> CollectionRequest | None:
        """Ask for one set for the analyst; None for no API."""
        if not apis:
            return None
        return release_ask(
            self.study, promise, apis, sign, epoch=self.epoch, number=self.next_round, rules=rules
        )


@dataclass(frozen=True, kw_only=True)
class Curator:
    """Options for what a curator holds of one epoch."""

    folder: CURATOR_FOLDER
    epoch: Annotated[
        int | None,
        typer.Option(
            help="Number of the collection: one of which the curator has answers, or with --next "
            "curator and -o a new one.",
            show_default="the only one that has answers",
            min=0,
        ),
    ] = None
    number: Annotated[
        int | None,
        typer.Option(
            "--round",
            help="Number of the request that is written, of which each epoch has one.",
            show_default="the first that the store does not know",
            metavar="N",
            min=1,
        ),
    ] = None

    @cached_property
    def role(self) -> RoleFolder:
        """The folder of the curator itself."""
        return folder_of(self.folder, "curator")

    @cached_property
    def asks(self) -> Sequence[CollectionRequest]:
        """All requests that the store knows."""
        with RoleStore(self.role.store, self.role.study, "curator") as store:
            return tuple(store.asks.values())

    @property
    def opens_epoch(self) -> bool:
        """Whether an epoch is named of which the store has no request."""
        return self.epoch is not None and self.epoch not in {ask.epoch for ask in self.asks}

    def first_of_epoch(self, named: Collection[str]) -> CollectionRequest:
        """Return the first request of a new epoch.

        Raises:
            InputError: Options are named that need answers, or earlier requests were randomised.
        """
        epoch, known = self.epoch or 0, sorted({ask.epoch for ask in self.asks})
        if unused := [one for one in named if one not in _OF_NEW_EPOCH]:
            raise InputError(
                f"select: epoch {epoch} is new and has no answers for {', '.join(unused)}",
                hint=f"epochs that were asked: {', '.join(map(str, known)) or 'none'}",
            )
        if any(ask.randomise for ask in self.asks):
            raise InputError(
                f"select: users randomised their answers, and would send epoch {epoch} plainly",
                hint=f"`fpmonitor ldp ask --epoch {epoch}` writes its request",
            )
        note(f"epoch {epoch} is a new collection: publish its request, and all users answer again")
        return first_ask(self.role.study, epoch=epoch)

    def signer(self) -> Sign:
        """Return what signs requests for the analyst."""
        ring = self.role.ring
        if ring.verifying != self.role.study.curator_key:
            raise InputError(
                f"{self.role.keys}: not the curator's keys that the study names",
                hint="`private init STUDY --curator-key FILE.pub` names them",
            )
        return ring.sign

    def held(self) -> _Held:
        """Read the counts of the epoch."""
        study = self.role.study
        counts: dict[ApiSet, Tuples] = {}
        randomised: dict[ApiSet, RandomisedAnswers] = {}
        with RoleStore(self.role.store, study, "curator") as store:
            epoch = _epoch_of(store, self.epoch)
            asks = [ask for ask in store.asks.values() if ask.epoch == epoch]
            for ask in sorted(asks, key=lambda one: one.round):
                if ask.recipient != "curator":
                    continue
                # Of several rounds on a set the first counts, whatever the answers are.
                for apis, tuples in read_counts(store, ask).items():
                    if not ask.randomise.keys() & set(apis):
                        counts.setdefault(apis, tuples)
                    else:
                        randomised.setdefault(apis, (ask, tuples))
            for missing in incomplete(store, asks):
                note(f"not all answers are here, wait for them or go on with these: {missing}")
        asked = {api for apis in (*counts, *randomised) for api in apis}
        for api in study.apis:
            if api not in asked:
                counts[(api,)] = {}  # all of its answers are missing: each user may be alone
                note(f"{api}: nobody was asked, so that it is in no set; request it in a new epoch")
        following = 1 + max(ask.round for ask in asks)
        return _Held(study, epoch, self.number or following, counts, randomised, asks)


def _epoch_of(store: RoleStore, wanted: int | None) -> int:
    """Return the epoch whose answers count: that which was named, or the only one with any."""
    answers: Counter[int] = Counter()
    for ask in store.asks.values():
        if ask.recipient == "curator":
            answers[ask.epoch] += store.tally()[ask.id]["accepted"]
    found = sorted(+answers)
    if wanted in found:
        return wanted
    if wanted is None and len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            "select: the curator has no answers",
            hint="`fpmonitor private status --folder FOLDER` says where they wait",
        )
    listed = ", ".join(f"epoch {epoch} ({answers[epoch]:,} messages)" for epoch in found)
    raise InputError(
        f"select: answers lie in {listed}"
        + ("" if wanted is None else f", none in epoch {wanted}"),
        hint="name one with --epoch",
    )


def _utilities(weights: Path | None) -> Mapping[str, float] | None:
    """Return the utility of each API; None where no file was given."""
    if weights is None:
        return None
    from fpmonitor.cli.questions import read_weights  # noqa: PLC0415 -- slow to load

    return read_weights(weights)


@dataclass(frozen=True, kw_only=True)
class SimulatedUsers:
    """Options for a simulation with the users of a database."""

    budget: BUDGET_OF_STUDY = None
    apis: Annotated[
        str | None, typer.Option(help="Use these APIs only.", show_default="all", metavar="A,B,...")
    ] = None
    population: POPULATION = None
    delta: DELTA = 0.05
    weights: WEIGHTS = None
    db: DB = DEFAULT_DB

    def tokens(self) -> pl.DataFrame:
        """Return the tokens of the users."""
        return _users(self.db, None if self.apis is None else split_names(self.apis))[0]

    @property
    def utilities(self) -> Mapping[str, float] | None:
        """Utility of each API; None where none was given."""
        return _utilities(self.weights)

    def study(self, name: str, apis: Iterable[str], users: int, **numbers: Any) -> Study:
        """Return the terms, with reports of the usual length, or longer for very many APIs."""
        names = tuple(sorted(apis))
        return Study(
            name=name,
            apis=names,
            population=users if self.population is None else self.population,
            delta=self.delta,
            report_bytes=max(1024, 64 * len(names)),
            **numbers,
        )


@dataclass(frozen=True, kw_only=True)
class Redacting:
    """Options for a set of which users withhold some values."""

    redact: Annotated[
        str | None,
        typer.Option(
            "--redact",
            help="Release this set, and choose the values that users withhold for it.",
            show_default="a set of which nothing is withheld",
            metavar="A,B,...",
        ),
    ] = None
    suspicion: Annotated[
        float,
        typer.Option(
            "--suspicion",
            help="With --redact: largest probability that a redacted value was a rare one.",
        ),
    ] = SUSPICION
    sample: Annotated[
        Path | None,
        typer.Option(
            "--sample",
            help="With --redact: choose by the joint values of the users in this database.",
            metavar="DB",
            exists=True,
        ),
    ] = None

    def plan(
        self, held: _Held, apis: ApiSet, setting: Setting, weights: Mapping[str, float] | None
    ) -> RedactionPlan:
        """Choose what users withhold of a set."""
        given: dict[str, Any] = {
            "setting": setting,
            "weights": weights,
            "suspicion": self.suspicion,
        }
        if self.sample is None:
            return plan_from_marginals(held.study, held.counts, apis, **given)
        table, digest = _users(self.sample, apis)
        seed = seed_of("redact", held.study.id.hex(), digest, self.redact or "")
        rng = np.random.default_rng(seed)
        return plan_from_sample(held.study, table, apis, rng=rng, **given)


def select(
    *,
    context: typer.Context,
    curator: Curator,
    setting: SETTING = "statistical",
    weights: WEIGHTS = None,
    reader: Annotated[
        RecipientRole,
        typer.Option(
            "--next",
            help="Recipient of the next request: the analyst (chosen set) or the curator (a "
            "further round, or the first one of a new --epoch).",
        ),
    ] = "analyst",
    redacting: Redacting,
    decision: Annotated[
        Path | None,
        typer.Option(
            "--decision",
            help="Write what follows for every set to this file, for `export`, `gate`, `check`.",
            metavar="FILE",
        ),
    ] = None,
    output_format: FORMAT = None,
    output: ASK = None,
) -> None:
    """Choose the set with the greatest utility whose limit is within the budget."""
    check_owner("private select")
    named = named_options(context)
    if decision is not None and decision.exists():
        read_any_decision(decision)  # what is no decision, such as a study, is not lost
    # Before anything is searched: keys that are wrong are told at once.
    sign = curator.signer() if output is not None and reader == "analyst" else None
    if reader == "curator" and output is not None and curator.opens_epoch:
        _write_ask(curator.role.study, curator.first_of_epoch(named), output)
        return
    _check_redacting(redacting, named, decision, reader)
    held, utilities = curator.held(), _utilities(weights)
    if sign is not None:
        held.check_releases()
    if redacting.redact is not None:
        apis = _sorted_apis(redacting.redact, held.study.apis)
        plan = redacting.plan(held, apis, setting, utilities)
        _show_plan(plan, held.study, output_format)
        if output is not None and sign is not None:
            _write_ask(held.study, held.analyst_ask(plan.promise, apis, sign, plan.rules), output)
        return
    both = known_of(held.study, held.counts, held.randomised)
    found = select_known(both, setting, utilities)
    show(_found(found, held.study), output_format, None)
    if decision is not None:
        _write_decision(decision_of(both[setting], found, utilities), found, decision, sign)
    if output is None:
        return
    if sign is None:
        ask = next_ask(both[setting], epoch=held.epoch, number=held.next_round)
    else:
        ask = held.analyst_ask(found.promise, found.recommended.apis, sign)
    _write_ask(held.study, ask, output)


def _check_redacting(
    redacting: Redacting, named: Collection[str], decision: Path | None, reader: RecipientRole
) -> None:
    """Check that what is said of one set names it, and is about the analyst's request."""
    if redacting.redact is None:
        if unused := [one for one in ("--suspicion", "--sample") if one in named]:
            raise InputError(
                f"select: {', '.join(unused)}: of which set?", hint="name it with --redact"
            )
    elif decision is not None or reader == "curator":
        raise InputError(
            "select: --redact is for one set, which the analyst sees",
            hint="omit --decision and --next curator",
        )


def _found(found: Selection, study: Study) -> Output:
    return Output(
        tables=[tables.selection_table(found, study)],
        rows=untyped([found.recommended, *found.singles]),
        document=untyped(found),
    )


def _write_decision(made: Decision, found: Selection, path: Path, sign: Sign | None) -> None:
    emit(to_json(made.to_json()), path)
    note(f"{path}: {made.guarantee}")
    if sign is not None and made.recommended != found.recommended.apis:
        note(_not_requested(made, found))


def _not_requested(made: Decision, found: Selection) -> str:
    """Say why the request of the same command is about another set than the decision recommends."""
    recommended = ",".join(made.recommended)
    asked = ", ".join(found.recommended.apis) or "no set"
    if unproved := ", ".join(sorted(set(found.recommended.apis) & made.no_evidence.keys())):
        why = f"too few users have a value of {unproved}: collect from more before you publish it"
    else:
        why = f"overlapping answers prove more: `--redact {recommended}` requests the other"
    return f"the request is for {asked}, the decision recommends {recommended or 'nothing'}: {why}"


def _show_plan(plan: RedactionPlan, study: Study, output_format: Form | None) -> None:
    """Show what users withhold.

    Raises:
        UndecidableError: No rules bring the exposure within the budget.
    """
    answer = Output(
        tables=[tables.redaction_table(plan, study)],
        rows=untyped(plan.per_api),
        # The rules are in the request.
        document={name: part for name, part in untyped(plan).items() if name != "rules"},
    )
    show(answer, output_format, None)
    for one in plan.per_api:
        if not one.kept:
            note(f"nothing of {one.api} is kept: drop this API from the set instead")
    if not plan.within_budget:
        raise UndecidableError(
            "no rules found that bring the exposure within the budget",
            hint="omit an API, raise the budget, or collect from more users",
        )


def simulate(
    *,
    context: typer.Context,
    users: SimulatedUsers,
    k: K = 10,
    setting: SETTING = "statistical",
    largest_set: Annotated[
        int, typer.Option(help="Largest number of APIs that the curator may see together.", min=1)
    ] = 3,
    least_gain: Annotated[
        float, typer.Option(help="Stop after a round that raises the utility by less.")
    ] = 0.0,
    thrifty: Annotated[
        bool,
        typer.Option("--thrifty", help="Do not ask for sets that are within the budget already."),
    ] = False,
    group: Annotated[
        int | None,
        typer.Option(
            help="Instead of rounds: this many of the users find their set without a curator.",
            show_default=False,
            metavar="USERS",
            min=2,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draw of a group's users.", min=0)] = 0,
    pilot: Annotated[
        Path | None,
        typer.Option(
            "--pilot",
            help="Instead of a database: 500 bundled users, two rounds, sealed messages, and all "
            "roles, in this new folder.",
            show_default=False,
            metavar="FOLDER",
        ),
    ] = None,
    output_format: FORMAT = None,
) -> None:
    """Simulate private collection with the users of a database: rounds of singles, pairs ..."""
    check_owner("private simulate")
    if pilot is not None:
        show(_pilot(pilot, named_options(context)), output_format or "table", None)
        return
    if users.budget is None:
        raise InputError("simulate: needs --budget, or --pilot")
    table = users.tokens()
    numbers, most = {"k": k, "budget": users.budget}, min(largest_set, table.width)
    if group is not None:
        answer = _group(users, table, group, setting=setting, seed=seed, **numbers)
    else:
        terms = users.study("simulation", table.columns, len(table), largest_set=most, **numbers)
        played = play_rounds(
            table,
            terms,
            setting=setting,
            weights=users.utilities,
            least_gain=least_gain,
            thrifty=thrifty,
        )
        answer = _played(played, terms)
    show(answer, output_format, None)


def _played(played: Hierarchy, terms: Study) -> Output:
    return Output(
        tables=[tables.hierarchy_table(played, terms)],
        rows=[one.to_json() for one in played.rounds],
        document=played.to_json(),
    )


def _group(
    users: SimulatedUsers,
    table: pl.DataFrame,
    members: int,
    *,
    setting: Setting,
    seed: int,
    **numbers: Any,
) -> Output:
    """Simulate a group of users, with sealed messages; the same seed draws the same group."""
    from fpmonitor.private.folder import RoleFolder, make_pilot  # noqa: PLC0415 -- an extra
    from fpmonitor.private.group import SealedChannel, run_group  # noqa: PLC0415 -- an extra

    if members > len(table):
        raise InputError(
            f"group: the database has only {len(table)} users", hint="name no more with --group"
        )
    rng = random.Random(seed)  # noqa: S311 -- of a simulation
    holders = [table.row(row, named=True) for row in rng.sample(range(len(table)), members)]
    # All of them answer: any minimum up to their number passes everything on at the close.
    least = max(2, members // 2)
    terms = users.study("group", table.columns, members, minimum_batch=least, **numbers)
    with tempfile.TemporaryDirectory() as folder:
        pilot = Path(folder) / "pilot"
        study = make_pilot(pilot, terms)
        channel = SealedChannel(pilot)
        try:
            run = run_group(
                study,
                holders,
                channel,
                RoleFolder.of(pilot, "curator").ring.sign,
                setting=setting,
                weights=users.utilities,
                rng=rng,
            )
        finally:
            channel.close()
    return Output(
        tables=[tables.group_table(run, terms)], rows=[run.to_json()], document=run.to_json()
    )


def _pilot(folder: Path, named: Collection[str]) -> Output:
    """Collect two rounds from bundled users; what each role holds is in a folder of its own."""
    from fpmonitor.private.quickstart import picture, two_rounds  # noqa: PLC0415 -- an extra

    if unused := [one for one in named if one not in ("--pilot", "--format")]:
        raise InputError(
            "simulate: --pilot has users and terms of its own",
            hint=f"omit {', '.join(unused)}",
        )
    terms = Study(
        name="quickstart",
        apis=_PILOT_APIS,
        population=_PILOT_USERS,
        k=10,
        budget=0.2,
        largest_release=len(_PILOT_APIS),
        minimum_batch=100,
    )
    with resources.as_file(resources.files("fpmonitor.fixtures") / "logs") as logs:
        table, _ = tokens_of_users(logs / "browsers-3.parquet", terms.apis, quiet=True)
    found = two_rounds(folder, terms, table.head(_PILOT_USERS).rows(named=True))
    emit(picture(*found), folder / "who-learns-what.svg")
    note(
        f"In {folder}: study.json, round-1.json, round-2.json, selection.json, who-learns-what.svg "
        "and a folder for each role; docs/private-services.md goes on with services"
    )
    return tables.comparison(found[1])


def _write_ask(study: Study, ask: CollectionRequest | None, output: Path) -> None:
    if ask is None:
        raise UndecidableError(
            "there is nothing left to request",
            hint="no set is within the budget, or the study allows the curator no larger ones; "
            "--redact makes a set safe",
        )
    check_ask(study, ask)
    if output.is_file():
        earlier_ask = CollectionRequest.read(output)
        if (earlier_ask.epoch, earlier_ask.round) != (ask.epoch, ask.round):
            raise InputError(
                f"{output}: holds round {earlier_ask.round} of epoch {earlier_ask.epoch}, this is "
                f"{ask.round} of epoch {ask.epoch}",
                hint="answers to the one that it holds would be lost; choose another file",
            )
    emit(ask.to_bytes().decode(), output)
    note(f"{ask.words} written to {output}: `fpmonitor private publish` opens it for answers")


def _users(db: Path, apis: Sequence[str] | None) -> tuple[pl.DataFrame, str]:
    """Tokens of the users of a database, and the digest of the data."""
    with open_database(db) as database:
        snapshot = take_snapshot(database)
        names = snapshot.apis if apis is None else stored_names(database, apis)
        return read_tokens(database, snapshot, sorted(set(names))), snapshot.digest


def _sorted_apis(text: str, known: Sequence[str]) -> ApiSet:
    names = tuple(sorted(set(split_names(text))))
    for name in names:
        if name not in known:
            raise UnknownNameError("API", name, known)
    if not names:
        raise InputError("apis: name at least one API")
    return names
