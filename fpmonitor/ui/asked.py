"""What an address of the page asks, and what the forms say; every state is an address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fpmonitor.errors import PolicyError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.policy import SampleModel, per_cent
from fpmonitor.question import Question
from fpmonitor.vocabulary import meanings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import FormData, QueryParams

DEFAULT_K, DEFAULT_BUDGET, _DELTA = 10, 0.05, 0.05
_KIND, OF_API = "member:", "API "
_FIELDS = ("user", "time", "source", "weight")


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """The question of the page."""

    k: int = DEFAULT_K  # Anonymity threshold, users.
    population: int | None = None  # `n`, users; null for as many as are observed.
    budget: float = DEFAULT_BUDGET  # Tolerated exposure, a share of the users.
    apis: tuple[str, ...] = ()  # What is ticked.
    # Whether each row of a log that names no users is taken for a user.
    rows_are_users: bool = False
    given: str = ""  # API whose groups are shown one by one; empty for all users together.

    @classmethod
    def of(cls, fields: QueryParams | FormData) -> PageQuestion:
        """Read an address or a form; what is left out has its usual value.

        Raises:
            PolicyError: No number where one is meant, or a budget that is no share.
        """
        budget = _number(fields, "budget", 100 * DEFAULT_BUDGET) / 100
        if not 0 < budget < 1:
            raise PolicyError("budget", "a percentage between 0 and 100, such as 5")
        population = _number(fields, "n", 0)
        return cls(
            k=int(_number(fields, "k", DEFAULT_K)),
            population=int(population) or None,
            budget=budget,
            apis=tuple(dict.fromkeys(str(api) for api in fields.getlist("api"))),
            rows_are_users=bool(fields.get("rows")),
            given=str(fields.get("given") or ""),
        )

    def question(self) -> Question:
        """Return it as the statistics take it; errors as of `Question`."""
        sample = SampleModel(rows_are_users=self.rows_are_users)
        return Question(self.k, self.population, _DELTA, sample=sample)

    @property
    def percent(self) -> str:
        """The budget in per cent, as it is written."""
        return per_cent(self.budget)

    def address(self, path: str = "/") -> str:
        """Return the address that asks this."""
        fields = [("k", str(self.k)), ("budget", self.percent)]
        fields += [("n", str(self.population))] * (self.population is not None)
        fields += [("rows", "1")] * self.rows_are_users
        fields += [("given", self.given)] * bool(self.given)
        fields += [("api", api) for api in self.apis]
        return f"{path}?{urlencode(fields)}"


def _number(fields: QueryParams | FormData, name: str, usual: float) -> float:
    text = str(fields.get(name) or "").replace(",", "").replace("_", "").strip()
    if not text:
        return usual
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise PolicyError(name, "a number, such as 10") from None
    # Not-a-number compares as false, and is refused here as well.
    if not 0 < number < 1e12:
        raise PolicyError(name, "a number above 0")
    return number


def column_map_of(form: Mapping[str, str]) -> ColumnMap:
    """Read what a form says of the members of the logs, and of who a row is."""
    columns: dict[str, str] = {}
    ignore: set[str] = set()
    apis: dict[str, str] = {}
    for name, value in form.items():
        if not name.startswith(_KIND):
            continue
        path = name.removeprefix(_KIND)
        if value in _FIELDS:
            columns[str(value)] = path
        elif value == "API":
            # Of a name that may mean several APIs nothing is said: none is guessed.
            found = meanings(path)
            apis[path] = found[0] if len(found) == 1 else ""
        elif value.startswith(OF_API):  # one of those that its name may mean
            apis[path] = value.removeprefix(OF_API)
        elif value == "ignore":
            ignore.add(path)
    unit = form.get("unit")
    if unit == "row":
        columns["user"] = "row"
    return ColumnMap(
        columns=columns, ignore=frozenset(ignore), apis=apis, visitor=unit == "visitor"
    )
