"""fpmonitor: limits of one set that was fixed beforehand."""

from fpmonitor.estimate.limits import exposure_limits

NAME = "fpmonitor"
PROMISES = True


def answer(sample):
    limits = exposure_limits(
        users=sample.users, k=sample.k, population=sample.population, delta=sample.delta
    )
    lower, upper = limits.of(sample.spectrum)
    return lower, None, upper
