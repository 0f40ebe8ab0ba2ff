"""Commands that ask: exposure, decide, and the list of what was asked."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fpmonitor.answers.counted import counted_exposures
from fpmonitor.answers.demand import weigh_by_demand
from fpmonitor.answers.exposure import ExposureDetails, report_exposures
from fpmonitor.answers.questions import decide_and_list, list_questions, register_questions
from fpmonitor.answers.recommended import report_people
from fpmonitor.answers.trust import Knowledge
from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.options import (
    BUDGET_OR_NONE,
    COUNTER,
    DB,
    DEFAULT_DB,
    FOLLOWED,
    NAMES,
    QUIET,
    REGISTER,
    AskedOfSample,
    days_apart,
    share,
)
from fpmonitor.cli.output import Shown, ending_as_interrupted, note, on_screen, progress_line
from fpmonitor.cli.readers import ReaderOptions
from fpmonitor.cli.settings import is_only_set
from fpmonitor.cli.users import (
    AnsweredUsers,
    note_beside,
    note_coverage,
    note_evidence,
    note_lacks,
    note_view,
)
from fpmonitor.decide.asked import DecideQuestion, check_options
from fpmonitor.decide.confirming import CHAINS
from fpmonitor.decide.deciding import MANY
from fpmonitor.decide.decision import Decision, Setting
from fpmonitor.decide.effort import INTERRUPTS
from fpmonitor.decide.files import read_any_decision
from fpmonitor.decide.questions import read_policy
from fpmonitor.decide.view_weight import BASE_WEIGHT
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, some_of
from fpmonitor.estimate.realised import average_budget
from fpmonitor.export.lists import told_elsewhere
from fpmonitor.policy import DOWN, UP, Visits
from fpmonitor.population.levels import read_levels
from fpmonitor.render import answers, decisions
from fpmonitor.render.numbers import percent
from fpmonitor.safe_files import read_toml
from fpmonitor.store.demand import read_sites
from fpmonitor.vocabulary import split_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.monitor import Monitor
    from fpmonitor.population.population import Population
    from fpmonitor.render.output import Output

_MAX_WEIGHT = 1e15
_NOTED = 3  # names that tell what others tell


@dataclass(frozen=True, kw_only=True)
class Detailed:
    """Options for what is shown besides the exposure: see `ExposureDetails`."""

    given: Annotated[
        str,
        typer.Option(
            "--given",
            help="APIs that cannot be hidden: also show the exposure within each cohort of their"
            " values. `family` and `system` come from the user agent.",
        ),
    ] = ""
    realised: Annotated[
        bool,
        typer.Option(
            "--realised",
            help="Also limit the share of one population, and not only its average over "
            "populations.",
        ),
    ] = False
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Compare the certificate with the published bounds.")
    ] = False
    support: Annotated[
        list[int] | None,
        typer.Option(
            "--support",
            help="Number of possible values, if known before looking at the data: sharper limits "
            "where they are few; repeat for each set.",
        ),
    ] = None
    trust: Annotated[
        Knowledge | None,
        typer.Option(
            "--trust",
            help="Price of trust: what can be guaranteed from single APIs, pairs or joint data, "
            "up to this level.",
        ),
    ] = None
    entropies: Annotated[
        bool, typer.Option("--entropies", help="Show all measures and estimators of entropy.")
    ] = False
    forecast: Annotated[
        bool,
        typer.Option(
            "--forecast",
            help="Also show what a model expects, if it predicted the observed users from a part "
            "of them. Not promised, and never used by a verdict.",
        ),
    ] = False
    visits: Annotated[
        bool,
        typer.Option(
            "--visits",
            help="Limit what one visit of each user exposes, and what all visits do to a site that "
            "knows its users again. By default where users came several times.",
        ),
    ] = False
    followed: FOLLOWED = ""
    users_for: Annotated[
        float | None,
        typer.Option(
            "--users-for",
            help="Also show how many users are enough to know all shares to within this.",
            parser=share,
            metavar="SHARE",
        ),
    ] = None

    @property
    def details(self) -> ExposureDetails:
        """The details as an answer takes them."""
        return ExposureDetails(
            given=split_names(self.given),
            realised=self.realised,
            bounds=self.bounds,
            supports=self.support or (),
            trust=self.trust,
            entropies=self.entropies,
            forecast=self.forecast,
            gamma=self.users_for,
            visits=self.visits or None,
            followed=[days_apart(each) for each in split_names(self.followed)],
        )


def exposure_command(
    *,
    names: NAMES = None,
    apis: Annotated[
        list[str] | None,
        typer.Option(
            "--apis", help="The same as an option; repeat for further sets.", show_default="none"
        ),
    ] = None,
    question_options: AskedOfSample,
    detailed: Detailed,
    users: AnsweredUsers,
    reader: ReaderOptions,
    shown: Shown,
) -> None:
    """Estimate the exposure of API sets, with finite-sample confidence limits."""
    with users.open() as monitor:
        population = monitor.population()
        note_view(population, question_options.k)
        sets = [split_names(one) for one in (*(names or ()), *(apis or ()))]
        sets = sets or [(api,) for api in population.askable_apis(question_options.question)]
        named = {api for one in sets for api in one}
        owner = INVOCATION.get().audience is Audience.OWNER
        lacks = population.lacks(sorted(named), question_options.k) if owner else {}
        note_lacks(lacks, question_options.k)
        coverage = population.coverage(named - lacks.keys(), question_options.k)
        note_coverage(coverage, question_options.k, missing=question_options.missing)
        reports = report_exposures(population, question_options.question, sets, detailed.details)
        reader.ask(monitor, counted_exposures(reports, question_options.question))
    if not names and not apis:  # each API: the most exposing first
        reports = sorted(reports, key=lambda report: -report.upper)
    for report in reports if detailed.users_for is not None else ():
        note(
            f"{', '.join(report.apis)}: {report.users_for_gamma:,} users are enough for all shares "
            f"to be known to within {detailed.users_for:g}"
        )
    shown.show(answers.exposures(reports))


@dataclass(frozen=True, kw_only=True)
class CountedUsers(AnsweredUsers):
    """Options for users, and for what counts their groups."""

    engine: COUNTER = "auto"


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """Options for what is decided, named as in `DecideQuestion`; what the settings say, as well."""

    candidates: Annotated[
        str | None,
        typer.Option(
            "--candidates", help="APIs to decide on, separated by commas.", show_default="all"
        ),
    ] = None
    setting: Annotated[
        Setting,
        typer.Option(
            "--setting",
            help="Certify the exposure of a population, or count the observed users only.",
        ),
    ] = "population"
    realised: Annotated[
        bool,
        typer.Option(
            "--realised",
            help="Keep the share of exposed users of the population itself within the budget, not "
            "only its average over populations; allows less.",
        ),
    ] = False
    fixed_question: Annotated[
        bool,
        typer.Option(
            "--fixed-question",
            help="The question was fixed before the users were seen: decides more, and the "
            "guarantee says so.",
        ),
    ] = False
    register: REGISTER = None
    must: Annotated[str, typer.Option("--must", help="APIs that every set must contain.")] = ""
    never: Annotated[str, typer.Option("--never", help="APIs that no set may contain.")] = ""
    assume: Annotated[
        list[str] | None,
        typer.Option(
            "--assume",
            help="API to admit although the data hold no evidence about it; repeat for others.",
            metavar="NAME",
        ),
    ] = None
    given: Annotated[
        str,
        typer.Option(
            "--given",
            help="APIs that sites see with every set: each cohort of their values must keep a "
            "budget. `family` and `system` come from the user agent.",
        ),
    ] = ""
    given_menu: Annotated[
        str,
        typer.Option(
            "--given-menu",
            help="Choose what tells cohorts after looking, of these alone: the level is shared "
            "among all choices. Fix it before, as the budgets.",
        ),
    ] = ""
    budget_each: Annotated[
        float | None,
        typer.Option(
            "--budget-each",
            help="With --given: largest tolerated exposure of each cohort.",
            show_default="four times the budget",
            parser=share,
            metavar="SHARE",
        ),
    ] = None
    least_share: Annotated[
        float | None,
        typer.Option(
            "--least-share",
            help="With --given: share of the users from which on a cohort must keep its budget.",
            show_default="5 %",
            parser=share,
            metavar="SHARE",
        ),
    ] = None
    worst_share: Annotated[
        bool,
        typer.Option(
            "--worst-share",
            help="With --given: any cohorts that have the least share together must keep the "
            "budget together, however small each is. Needs many more users.",
        ),
    ] = False
    link_budget: Annotated[
        float | None,
        typer.Option(
            "--link-budget",
            help="Largest tolerated share of the users whose visits can be linked: by any means, "
            "or with --after by what has not changed.",
            parser=share,
            metavar="SHARE",
        ),
    ] = None
    after: Annotated[
        str,
        typer.Option(
            "--after",
            help="With --link-budget: so many days after a visit, of users who come back; choose "
            "them before looking.",
            metavar="DAYS,...",
        ),
    ] = ""
    visits: Annotated[
        Visits | None,
        typer.Option(
            "--unit",
            help="What counts where users have several visits: last values, one whole visit, or "
            "all visits in their order. Or each of the latter two must keep the budget.",
            show_default="last+visit where users came back, else last",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            help="TOML file with the utility of each API; or `demand`, the number of sites that "
            "read it.",
            metavar="FILE|demand",
        ),
    ] = None
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", help="Seconds after which the search stops.")
    ] = None
    forecast: Annotated[
        bool,
        typer.Option(
            "--forecast",
            help="Estimate at how many users each undecided set is decided, if you look as they "
            "come in.",
        ),
    ] = False
    tolerance: Annotated[
        bool,
        typer.Option(
            "--tolerance",
            help="Tell for each allowed set up to which bias of the sample it would still be "
            "allowed.",
        ),
    ] = False
    max_size: Annotated[
        int | None, typer.Option("--max-size", help="Only search sets of at most this many APIs.")
    ] = None
    max_sets: Annotated[
        int | None,
        typer.Option(
            "--max-sets",
            help="How many sets each list holds at most.",
            show_default="all; of more than 25 candidates 500, and up to 5,000 APIs and pairs "
            "that are not allowed",
            min=1,
        ),
    ] = None
    known: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Continue the search of this decision, which was stopped early.",
            metavar="DECISION.json",
        ),
    ] = None
    search_users: Annotated[
        int | None,
        typer.Option(
            "--search-users",
            help="Search among this many users, and confirm what they leave open on the others. "
            "For more users than can be counted set by set: few of their values are read.",
        ),
    ] = None
    confirm_chains: Annotated[
        int | None,
        typer.Option(
            "--confirm",
            help="With --search-users: how many chains of sets are tested on the others.",
            show_default=str(CHAINS),
            min=1,
        ),
    ] = None
    components: Annotated[
        Path | None,
        typer.Option(
            "--levels",
            help="TOML file of components and their levels: decide how coarse each must be shown, "
            "not whether. The file was fixed before the users were seen.",
            metavar="LEVELS.toml",
        ),
    ] = None
    union_with: Annotated[
        list[Path] | None,
        typer.Option(
            "--union-with",
            help="Decision whose recommended set sites may have as well: test both together, and "
            "note the verdict; repeat for others.",
            metavar="DECISION.json",
        ),
    ] = None
    design_share: Annotated[
        float | None,
        typer.Option(
            "--design-share",
            help="With --levels: share of the users from whom levels are designed; the others are "
            "tested.",
            parser=share,
            metavar="SHARE",
        ),
    ] = None

    def members(self, context: typer.Context, **others: Any) -> dict[str, Any]:
        """Return the options that were given, without those of the settings that do not apply.

        Files are read, and lists of names divided.
        """
        said = {each.name: getattr(self, each.name) for each in fields(self)} | others
        said = check_options(said, [name for name in said if is_only_set(context, name)])
        for name in ("candidates", "must", "never", "given", "given_menu"):
            if said.get(name) is not None:
                said[name] = split_names(said[name])
        if said.get("after") is not None:
            said["after"] = [days_apart(each) for each in split_names(said["after"])]
        levels, resume = said.get("components"), said.get("known")
        if levels is not None:
            said["components"] = read_levels(levels)
        if resume is not None:
            said["known"] = known = read_any_decision(resume)
            if known.union_with and not said.get("union_with"):
                raise InputError(
                    "resume: the decision was tested together with others",
                    hint="name their files by --union-with again",
                )
        return said


def decide_command(
    *,
    context: typer.Context,
    budget: BUDGET_OR_NONE = None,
    question_options: AskedOfSample,
    deciding: Deciding,
    users: CountedUsers,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """Classify API sets as allowed, blocked or undecided for an exposure budget."""
    # An address says who answers, not what counts the rows that are here.
    given = deciding.members(context, engine="auto" if "://" in users.engine else users.engine)
    if paths := given.pop("register", None):
        _register(users, paths)
    if budget is None:
        if not paths:
            raise InputError("--budget: is needed to decide")
        questions(db=users.db, shown=shown)
        return
    with ending_as_interrupted(), ExitStack() as exit_stack:
        with users.open() as monitor, progress_line(quiet) as progress:
            progress("preparing")
            population = monitor.population()
            if not quiet:
                note_view(population, question_options.k)
            given["weights"] = _weights(monitor, population, given.get("weights"))
            question = DecideQuestion(
                **question_options.members, budget=budget, **given, progress=progress
            )
            work = partial(
                decide_and_list,
                monitor.listing,
                population,
                question,
                counter=monitor.counter,
                note=lambda text: note(text, quiet=quiet),
            )
            # Ended early by the wish of whoever asks.
            limits = (question.time_limit, question.max_size, question.max_sets)
            is_brief = any(limits) or len(population.apis) > MANY
            decided = users.settled(monitor, work, lambda made: made.complete or is_brief)
            # What was decided is not lost any more: an interrupt waits until it is written.
            exit_stack.enter_context(INTERRUPTS.held())
            observed = decided.all_observed
            data = decisions.data_of(monitor.name, population, users=observed, k=question_options.k)
            note_evidence(decided, quiet=quiet)
            if decided.components:
                answer = decisions.decision(decided, data)
            else:
                note_beside(monitor, decided, quiet=quiet)
                # An eighth of the time of a decision, for sentences that stand in no JSON.
                is_read = shown.tells_sentences(quiet=quiet)
                people = report_people(population, decided) if is_read else None
                answer = decisions.decision(decided, data, people)
                if monitor.listing is not None and is_read and not quiet:
                    answer = _with_windows(answer, monitor, decided)
                _note_decision(decided, question, quiet=quiet)
        _show_decision(answer, shown, quiet=quiet)


def _note_decision(decision: Decision, question: DecideQuestion, *, quiet: bool) -> None:
    """Note on stderr what a decision cost, what it is about besides, and what was not told."""
    _note_level(decision, quiet=quiet)
    if question.visits == "auto" and decision.policy.visits == "last+visit":
        tested = "users came back, so one visit of each must keep the budget, too"
        note(f"{tested} (--unit last asks for last values alone)", quiet=quiet)
    if question.realised:
        _note_price(decision, quiet=quiet)
    if revealing_apis := told_elsewhere(decision):
        others = [f"{name} ({', '.join(apis)})" for name, apis in revealing_apis.items()]
        first = some_of(others, _NOTED, between="; ", last="; and")
        note(
            f"also reveal withheld APIs (`export --by-information` withholds them): {first}",
            quiet=quiet,
        )
    for option, wanted, found in (
        ("--forecast", question.forecast, decision.users_needed),
        ("--tolerance", question.tolerance and not decision.is_exact, decision.bias_tolerated),
    ):
        if wanted and found is None:
            note(f"{option}: interrupted, so not shown; ask again with --resume")


def _with_windows(answer: Output, monitor: Monitor, decision: Decision) -> Output:
    """Say also which windows are long enough for checks."""
    from fpmonitor.monitor import windows_that_decide  # noqa: PLC0415 -- not for --help

    longer = windows_that_decide(monitor, decision, None)
    said = [] if longer is None else [f"Checks of windows: {longer}."]
    return replace(answer, preface=[*answer.preface, *said])


def _show_decision(answer: Output, shown: Shown, *, quiet: bool) -> None:
    """Show a decision, on stderr where it is written to a file."""
    shown.show(answer)
    if shown.output is not None and not quiet:
        text = answer.text("table", to_file=True)
        if shown.output_format is None and sys.stderr.isatty():
            text = on_screen(answer, below=1, plain=True)
        note(f"{text}written to {shown.output}")


def _register(users: CountedUsers, paths: Sequence[Path]) -> None:
    """Register questions in a database, which is made when it is not there."""
    if users.spectra is not None:
        raise InputError("--register: a warehouse keeps no questions", hint="omit --spectra")
    read = [read_policy(path) for path in paths]
    with open_monitor(users.db, create=True) as monitor:
        register_questions(monitor.database, read)


def questions(*, db: DB = DEFAULT_DB, shown: Shown) -> None:
    """List the questions that were registered, and those that `decide` was asked."""
    with open_monitor(db) as monitor:
        if monitor.audience is Audience.OTHERS:
            raise InputError(
                "questions: the list is for the owner of the database", hint="omit --for-others"
            )
        shown.show(decisions.questions_output(list_questions(monitor.database)))


def _note_level(decision: Decision, *, quiet: bool) -> None:
    """Note on stderr what choices after looking cost."""
    weight, level, delta = decision.view_weight, decision.level, decision.policy.delta
    if quiet or weight is None or level is None or delta is None:
        return
    if weight < BASE_WEIGHT:
        note(
            f"this view of the users has {weight:.2g} of delta by its name, that without options "
            "half; a question that was registered (--register) or fixed before the users were seen "
            "(--fixed-question) decides more"
        )
    if level < weight * delta:
        note(
            "this question was not registered; `db questions` lists those that were, with half of "
            "delta"
        )


def _note_price(decision: Decision, *, quiet: bool) -> None:
    """Note on stderr what it costs to keep a realised share within the budget."""
    policy = decision.policy
    average = average_budget(
        k=policy.k,
        population=policy.population,
        budget=policy.budget,
        delta=(decision.level or 1) / 2,
        candidates=len(policy.candidates),
    )
    note(
        f"--realised: on average at most {percent(average.exposure, 2, away=DOWN)} of the users "
        f"may be exposed, so that it is at most {percent(policy.budget, 2, away=UP)} in a "
        f"population of {policy.population:,}",
        quiet=quiet,
    )


def _weights(
    monitor: Monitor, users: Population, weights: str | None
) -> Mapping[str, float] | None:
    if weights != "demand":
        return None if weights is None else read_weights(Path(weights))
    return weigh_by_demand(users, read_sites(monitor.database))


def read_weights(path: Path) -> Mapping[str, float]:
    """Read the utility of each API from a TOML file."""
    hint = 'one line per API, for example "Navigator.language" = 2'
    content = read_toml(path, "weights", hint=hint)
    for api, weight in content.items():
        if type(weight) not in {int, float} or not 0 <= weight <= _MAX_WEIGHT:
            raise InputError(
                f"weights {path}: the weight of {api!r} is not a number from 0 to {_MAX_WEIGHT:g}",
                hint=hint,
            )
    return {api: float(weight) for api, weight in content.items()}
