"""Options that several commands share."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from fpmonitor.errors import InputError
from fpmonitor.policy import HIDE_BELOW_VARIABLE, LEAST_HIDDEN, MOST_DAYS, SampleModel
from fpmonitor.question import Missing, Question, read_strata, threshold_of
from fpmonitor.render.output import Form
from fpmonitor.safe_files import is_file_name
from fpmonitor.version import __version__

# Of a number of users: 1e999999 would be an integer of a million digits.
_MOST_DIGITS = 30
# 10,000 is a number; 1,5 is not 15.
_BY_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
_FACTORS = {"K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9}


def is_named(context: typer.Context, option: str) -> bool:
    """Whether the command line itself names an option; `option` as the function calls it.

    What the settings file or the environment says is for other commands as well: it is not refused.
    """
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def named_options(context: typer.Context) -> list[str]:
    """Return the options that the command line itself names, as it may write them."""
    return [
        max(one.opts, key=len)
        for one in context.command.params
        if one.param_type_name == "option" and is_named(context, one.name or "")
    ]


def _check_address(context: typer.Context, address: str | None) -> str | None:
    """Refuse what is not an address, and one with a token where all users of a computer see it."""
    if address is None:
        return None
    source = context.get_parameter_source("engine")
    is_asked = context.params.get("spectra") or context.params.get("table")
    if source is not None and source.name == "ENVIRONMENT" and not is_asked:
        return None  # the question is one of a database file
    from fpmonitor.cluster.engine import check_address  # noqa: PLC0415 -- slow to load

    check_address(address)
    user = address.partition("://")[2].rpartition("@")[0]
    may_tell = ";" in address or ":" in user or "?" in address
    if may_tell and is_named(context, "engine"):
        raise InputError(
            "--engine: an address with parameters may hold a token, which others could read here",
            hint="set FPMONITOR_ENGINE instead",
        )
    return address


def _check_counter(context: typer.Context, counter: str) -> str | None:
    """Refuse what cannot count."""
    counts = {"auto", "memory", "duckdb"}
    return counter if counter in counts else _check_address(context, counter) or "auto"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"fpmonitor {__version__}")
        raise typer.Exit


def share(text: str | float) -> float:
    """Read a share, as 0.05 or as 5%."""
    written = str(text).strip()
    try:
        number = Decimal(written.removesuffix("%").strip())
        # Decimal: 5% is the float that 0.05 is, and 7 / 100 * 100 would not be 7.
        return float(number / 100 if written.endswith("%") else number)
    except (ArithmeticError, ValueError) as error:
        raise typer.BadParameter(f"{text!r} is not a share, such as 0.05 or 5%") from error


FOLLOWED = Annotated[
    str,
    typer.Option(
        "--followed",
        help="Also limit the share of users whose visits can be linked after this many days; "
        "choose them before looking.",
        metavar="DAYS,...",
    ),
]


def database_file(text: str | Path) -> Path:
    """Read the name of a database file."""
    if is_file_name(str(text)):
        return Path(text)
    raise typer.BadParameter(f"{str(text)[:100]!r} is not the name of a file")


def days_apart(text: str) -> float:
    """Read a number of days, as 7d or 7."""
    try:
        number = float(str(text).strip().removesuffix("d"))
    except ValueError:
        number = 0.0
    if 0 < number <= MOST_DAYS:
        return number
    raise typer.BadParameter(f"{text!r} is not a number of days, such as 28d")


def number_of_users(text: str | int) -> int:
    """Read a number of users, as 10000000, 10,000,000, 1e7 or 10M."""
    written = str(text).strip()
    if _BY_THOUSANDS.fullmatch(written):
        written = written.replace(",", "")
    # Decimal: 1e7 and 10.5M are whole numbers, and no digit of a large one is lost.
    factor = _FACTORS.get(written[-1:].upper(), 1)
    try:
        number = Decimal(written[:-1] if factor > 1 else written) * factor
        if number.adjusted() <= _MOST_DIGITS and number == number.to_integral_value():
            return int(number)
    except (ArithmeticError, ValueError):
        pass
    raise typer.BadParameter(f"{text!r} is not a whole number, such as 10000000 or 10M")


def group_size(text: str | int) -> float:
    """Read the smallest safe group: a number of users, or a share of the population as 10%."""
    written = str(text).strip()
    if not written.endswith("%"):
        return number_of_users(text)
    try:
        share = float(Decimal(written[:-1]) / 100)
    except ArithmeticError:
        share = 0.0
    if not 0 < share < 1:
        raise typer.BadParameter(f"{text!r} is not a share of the population, such as 10%")
    return share


WAIT = Annotated[
    float,
    typer.Option(
        "--wait",
        envvar="FPMONITOR_WAIT",
        help="Seconds to wait for a database that another process holds; 0 does not wait.",
        metavar="SECONDS",
        min=0,
    ),
]
KEY_FILE_OPTION = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        envvar="FPMONITOR_KEY_FILE",
        help="Key file of an encrypted database (mode 600).",
    ),
]
FOR_OTHERS_OPTION = Annotated[
    bool,
    typer.Option(
        "--for-others",
        help="Also hide exposures and names that reveal counts below k; for output that you "
        "pass on.",
    ),
]
HIDE_BELOW_OPTION = Annotated[
    int | None,
    typer.Option(
        "--hide-below",
        envvar=HIDE_BELOW_VARIABLE,
        min=LEAST_HIDDEN,
        help="Hide counts of fewer users than this, and of fewer than k where k is smaller. "
        "Default 10.",
        metavar="USERS",
    ),
]
VERSION = Annotated[
    bool,
    typer.Option(
        "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
]
DB = Annotated[
    Path,
    typer.Option(
        "--db",
        envvar="FPMONITOR_DB",
        help="Database file.",
        metavar="PATH",
        parser=database_file,
        rich_help_panel="Data",
    ),
]
FORMAT = Annotated[
    Form | None,
    typer.Option(
        "--format",
        help="Output format.",
        show_default="a table on a terminal, JSON when piped",
        rich_help_panel="Output",
    ),
]
DECISION = Annotated[Path, typer.Argument(help="Decision file.", metavar="DECISION.json")]
OUTPUT = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", help="Write to this file instead of stdout.", rich_help_panel="Output"
    ),
]
QUIET = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show no progress and no notes.", rich_help_panel="Output"),
]
_BUDGET: dict[str, Any] = {
    "help": "Largest tolerated exposure, as a share of the users: 0.05 or 5%.",
    "parser": share,
    "metavar": "SHARE",
}
BUDGET = Annotated[float, typer.Option("--budget", **_BUDGET)]
BUDGET_OR_NONE = Annotated[
    float | None,
    typer.Option(
        "--budget",
        show_default="needed to decide; without it, --register does nothing else",
        **_BUDGET,
    ),
]
BUDGET_OF_STUDY = Annotated[float | None, typer.Option("--budget", show_default=False, **_BUDGET)]
K = Annotated[
    int,
    typer.Option(
        "--k",
        "-k",
        help="Smallest safe group: users in groups of fewer than K are exposed.",
        rich_help_panel="Question",
    ),
]
K_OF_POPULATION = Annotated[
    float,
    typer.Option(
        "--k",
        "-k",
        help="Smallest safe group: users in groups of fewer than K are exposed. A number, or a "
        "share of --population as 10%.",
        parser=group_size,
        metavar="USERS|SHARE",
        rich_help_panel="Question",
    ),
]
POPULATION = Annotated[
    int | None,
    typer.Option(
        "--population",
        "-n",
        help="Size of the population that sites will see: 10000000 or 10M.",
        show_default="the number of observed users",
        parser=number_of_users,
        metavar="USERS",
        rich_help_panel="Question",
    ),
]
DELTA = Annotated[
    float,
    typer.Option(
        "--delta",
        help="Probability with which a limit may be wrong: the confidence level is 1 - DELTA.",
        parser=share,
        metavar="SHARE",
        rich_help_panel="Question",
    ),
]
MISSING = Annotated[
    Missing,
    typer.Option(
        "--missing",
        help="Users without an observation of an API: count absence as a value, drop them, or "
        "count them as exposed by it.",
        rich_help_panel="Question",
    ),
]
BIAS = Annotated[
    float,
    typer.Option(
        "--bias",
        help="Factor by which any kind of user may be more or less frequent in the population "
        "than among the observed users.",
        show_default="1, no bias",
        metavar="FACTOR",
        rich_help_panel="Question",
    ),
]
STRATA = Annotated[
    Path | None,
    typer.Option(
        "--strata",
        help="TOML file with known shares of parts of the population, such as countries: as "
        "many users as possible are drawn by them.",
        metavar="SHARES.toml",
        rich_help_panel="Question",
    ),
]
FAKE_SHARE = Annotated[
    float,
    typer.Option(
        "--fake-share",
        help="Share of the observed users that may be none, such as 1%: added by anybody, and "
        "looking as they like.",
        show_default="0",
        parser=share,
        metavar="SHARE",
        rich_help_panel="Question",
    ),
]
CLUSTER = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Column that groups related users, such as person or household: one of each counts.",
        show_default="they came one by one",
        metavar="COLUMN",
        rich_help_panel="Question",
    ),
]
ROWS_ARE_USERS = Annotated[
    bool,
    typer.Option(
        "--rows-are-users",
        help="Take each row of a log that names no users for a user; the answer says so.",
        rich_help_panel="Question",
    ),
]
SINCE = Annotated[
    datetime | None,
    typer.Option(
        "--since", help="Only observations at or after this time (UTC).", rich_help_panel="Data"
    ),
]
UNTIL = Annotated[
    datetime | None,
    typer.Option(
        "--until", help="Only observations before this time (UTC).", rich_help_panel="Data"
    ),
]
SPECTRA = Annotated[
    list[Path] | None,
    typer.Option(
        "--spectra",
        help="Instead of users, the answer of a warehouse to `fpmonitor scale sql`: a CSV file, or "
        "the folder of --to. Repeat for further files.",
        metavar="ANSWER.csv|FOLDER",
        rich_help_panel="Data",
    ),
]
COUNTER = Annotated[
    str,
    typer.Option(
        "--engine",
        envvar="FPMONITOR_ENGINE",
        help="How groups are counted: rows in memory, DuckDB queries, for --spectra a warehouse.",
        metavar="auto|memory|duckdb|ADDRESS",
        callback=_check_counter,
        rich_help_panel="Data",
    ),
]
ENGINE = Annotated[
    str | None,
    typer.Option(
        "--engine",
        envvar="FPMONITOR_ENGINE",
        help="Where the rows are: Postgres, ClickHouse, Spark or another warehouse, DuckDB.",
        metavar="ADDRESS",
        callback=_check_address,
        rich_help_panel="Data",
    ),
]
PART = Annotated[
    str | None,
    typer.Option(
        "--part",
        help="Only this part of the users of --from, by the hash of their names: 3/16, or 2-16/16.",
        show_default="all users",
        metavar="PART",
        rich_help_panel="Data",
    ),
]
UNSAFE_COUNTS = Annotated[
    bool,
    typer.Option("--unsafe-counts", help="Also show counts below k.", rich_help_panel="Output"),
]
COLLECTOR = Annotated[
    str | None,
    typer.Option(
        "--collector",
        help="Parse the logs with this collector.",
        show_default="recognised by content",
        metavar="NAME",
        rich_help_panel="Data",
    ),
]
COLUMNS = Annotated[
    Path | None,
    typer.Option(
        "--columns",
        help="TOML file that maps the columns of foreign logs.",
        metavar="MAP.toml",
        rich_help_panel="Data",
    ),
]
SETS = Annotated[
    list[str] | None,
    typer.Option(
        "--apis",
        help="APIs read together, separated by commas; repeat for further sets.",
        show_default="each API alone",
    ),
]
NAMES = Annotated[
    list[str] | None,
    typer.Argument(
        help="APIs read together, separated by commas; further sets beside it.",
        show_default="each API alone",
        metavar="[SET]...",
    ),
]
REGISTER = Annotated[
    list[Path] | None,
    typer.Option(
        "--register",
        help="Register the question of this file before the first user is stored; repeat for "
        "several.",
        metavar="POLICY.toml",
    ),
]
DEFAULT_DB = Path("fpmonitor.duckdb")


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """Options for what counts as exposed, in which population, and how surely."""

    least_group: K_OF_POPULATION = 10
    population: POPULATION = None
    delta: DELTA = 0.05
    rows_are_users: ROWS_ARE_USERS = False

    @property
    def k(self) -> int:
        """The smallest safe group, users."""
        return threshold_of(self.least_group, self.population)

    @property
    def question(self) -> Question:
        """The question that the options ask."""
        sample = SampleModel(rows_are_users=self.rows_are_users)
        return Question(self.k, self.population, self.delta, sample=sample)


@dataclass(frozen=True, kw_only=True)
class ExposureOfSample(Exposure):
    """Options for a question whose users may differ from the population."""

    bias: BIAS = 1.0
    strata: STRATA = None
    fake_share: FAKE_SHARE = 0.0
    cluster: CLUSTER = None

    @property
    def question(self) -> Question:
        """The question that the options ask."""
        sample = SampleModel(
            bias=self.bias,
            strata=None if self.strata is None else read_strata(self.strata),
            fake_share=self.fake_share,
            cluster=self.cluster,
            rows_are_users=self.rows_are_users,
        )
        return replace(super().question, sample=sample)


@dataclass(frozen=True, kw_only=True)
class AskedOfSample(ExposureOfSample):
    """Options for a question whose users may also lack observations."""

    missing: MISSING = "value"

    @property
    def question(self) -> Question:
        """The question that the options ask."""
        return replace(super().question, missing=self.missing)

    @property
    def members(self) -> dict[str, Any]:
        """Those of `DecideQuestion` that the options say."""
        names, question = ("k", "population", "delta", "missing", "sample"), self.question
        return {name: getattr(question, name) for name in names}


LOG_FORMAT = Annotated[
    str,
    typer.Option(
        "--log-format",
        help="The log_format of nginx or the LogFormat of Apache by which a server wrote the log.",
        metavar="TEXT",
        show_default="recognised",
    ),
]
