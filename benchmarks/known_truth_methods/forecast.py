"""fpmonitor's forecast: a Pitman-Yor process given the counts, where it passes its test."""

import numpy as np

from fpmonitor.estimate.forecast import back_test, expected_exposure, fit_power_law

NAME = "fpmonitor --forecast"
PROMISES = False


def answer(sample):
    question = {"k": sample.k, "population": sample.population}
    test = back_test(sample.spectrum, **question, rng=np.random.default_rng(0))
    if test is None or not test.passed:
        return None, None, None
    law = fit_power_law(sample.spectrum)
    return None, expected_exposure(sample.spectrum, law, **question), None
