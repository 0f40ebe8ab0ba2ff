"""The exposure of API sets by a sketch: limits from few values, all of whose users were counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.disclosure import Audience, check_users
from fpmonitor.errors import InputError
from fpmonitor.estimate.value_sample import value_limits
from fpmonitor.results import Result
from fpmonitor.sketch.file import Sketch, share_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fpmonitor.question import Question
    from fpmonitor.sketch.words import KeptValues


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchExposure(Result):
    """Exposure of one API set by a sketch.

    Attributes:
        apis: The set.
        level: A value is kept with probability 2^-level; null where it may not leave, as the number
            of values that are kept may have raised it.
        kept_values: How many were; null where it may not leave.
        users: Observed users, whether their values were kept or not.
        key: Id of the key that chose the values.
        k, population, delta: The question.
        tests: Number of sets whose limits hold together.
        lower, upper: Limits, each wrong with probability at most delta; null where they may not
            leave.
        estimate: Estimated exposure, of which nothing is said how far it may be off; null as they
            are.
        suppressed: Whether fewer than k of the users of kept values are in groups smaller than k:
            nothing is told to others then.
    """

    JSON: ClassVar[str] = (
        "apis share kept_values users key k population delta tests lower upper estimate suppressed"
    )

    apis: tuple[str, ...]
    level: int | None
    kept_values: int | None
    users: int
    key: str
    k: int
    population: int
    delta: float
    tests: int
    lower: float | None
    upper: float | None
    estimate: float | None
    suppressed: bool = False

    @property
    def share(self) -> str | None:
        """Share of the values that are kept, as 1/1024; null as `level`."""
        return None if self.level is None else share_text(self.level)

    def to_json(self) -> dict[str, Any]:
        """Return the answer as the CLI prints it."""
        members: dict[str, Any] = Result.to_json(self)
        return {"apis": list(self.apis), "from": "values"} | members


def report_sketch(
    sketch: Sketch,
    question: Question,
    sets: Iterable[Sequence[str]] = (),
    *,
    audience: Audience = Audience.OWNER,
    tests: int = 1,
) -> list[SketchExposure]:
    """Limit the exposure of API sets by a sketch.

    Args:
        sketch: Holds the sets; the key, the sets and the share were fixed before values were seen.
        question: What is asked.
        sets: Of the sketch; all of it by default.
        audience: Whom the answer is for. Others are told of a set only where at least k users of
            kept values are in groups smaller than k.
        tests: Number of sets whose limits are to hold together; by default each holds for its set
            alone.

    Raises:
        InputError: A question about absent observations or of a sample that differs.
    """
    if question.missing != "value" or not question.sample.is_plain:
        raise InputError("sketch: absent values count as values, and users as draws")
    check_users(sketch.users, question.k)
    question = question.among(sketch.users)
    wanted = [sketch.of_set(apis) for apis in sets] or sketch.sets
    return [_report(sketch, values, question, audience, tests) for values in wanted]


def _report(
    sketch: Sketch, values: KeptValues, question: Question, audience: Audience, tests: int
) -> SketchExposure:
    limits = value_limits(
        users=sketch.users,
        k=question.k,
        population=question.users,
        delta=question.delta,
        level=values.level,
        planned=sketch.planned,
        tests=tests,
    )
    spectrum = values.spectrum if len(values.words) else None
    # Kept values are few: also how many there are would tell of groups below k.
    hidden = 0 if spectrum is None else spectrum.users_below(question.k)
    suppressed = audience is not Audience.OWNER and hidden < question.k
    # Limits follow from the groups: they would tell of few users as counts do.
    lower, upper = (None, None) if suppressed else limits.of(spectrum)
    return SketchExposure(
        apis=values.apis,
        level=None if suppressed else values.level,
        kept_values=None if suppressed else len(values.words),
        users=sketch.users,
        key=sketch.key,
        k=question.k,
        population=question.users,
        delta=question.delta,
        tests=tests,
        lower=lower,
        upper=upper,
        estimate=None if suppressed else limits.estimate(spectrum),
        suppressed=suppressed,
    )
