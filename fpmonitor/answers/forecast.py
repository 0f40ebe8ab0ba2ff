"""What a model expects beside what limits promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError
from fpmonitor.estimate.forecast import BackTest, back_test, expected_exposure, fit_power_law
from fpmonitor.estimate.unseen import Unseen, unseen_share
from fpmonitor.results import Members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.population.sample import CertifiedSample


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedExposure(Members):
    """A model's exposure of one API set, which no verdict uses.

    Attributes:
        exposure: As the model expects it, a share; null where there is no forecast.
        test: How the model did on those observed; null where they are too few for a test.
        unseen: Share of the next users who show a value not seen yet, and its limits.
    """

    JSON: ClassVar[str] = (
        "forecast=exposure forecast_fitted=test.fitted forecast_predicted=test.predicted "
        "forecast_observed=test.observed unseen=unseen.estimate unseen_lower=unseen.lower "
        "unseen_upper=unseen.upper"
    )

    exposure: float | None
    test: BackTest | None
    unseen: Unseen


def forecast_exposure(sample: CertifiedSample, apis: Sequence[str]) -> ExpectedExposure:
    """ExpectedExposure the exposure of a set, if the model was right about those observed.

    Raises:
        InputError: For others, as a forecast reveals how many values one user has; or of users who
            do not count as they came.
    """
    question = sample.question
    if sample.audience is Audience.OTHERS:
        raise InputError("--forecast: is for the owner of the data", hint="omit --for-others")
    assumed = [f"--{name}" for name in question.sample.options if name != "rows-are-users"]
    if question.missing == "exposed":
        assumed.append("--missing exposed")
    if assumed:
        raise InputError(f"--forecast: not with {assumed[0]}", hint=f"omit {assumed[0]}")
    spectrum, k, population = sample.disclosed(apis).most, question.k, question.users
    # By the name of the set, so that the same users are divided alike at each look.
    test = back_test(spectrum, k=k, population=population, rng=sample.rng("forecast", sorted(apis)))
    # A model that cannot foretell the observed users from a part of them foretells nobody.
    trusted = test is not None and test.passed
    return ExpectedExposure(
        exposure=expected_exposure(spectrum, fit_power_law(spectrum), k=k, population=population)
        if trusted
        else None,
        test=test,
        unseen=unseen_share(spectrum, question.delta),
    )
