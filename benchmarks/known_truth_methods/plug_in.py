"""The observed shares are taken for the true ones."""

from fpmonitor.estimate.exposure import plug_in_exposure

NAME = "plug-in"
PROMISES = False


def answer(sample):
    return None, plug_in_exposure(sample.spectrum, k=sample.k, population=sample.population), None
