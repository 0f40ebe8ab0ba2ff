"""All users share their value with n / 2^H of the population: exposed are all, or nobody."""

from fpmonitor.estimate.entropy import entropy_bits, naive_group_size

NAME = "entropy, n / 2^H"
PROMISES = False


def answer(sample):
    group = naive_group_size(entropy_bits(sample.spectrum), sample.population)
    return None, float(group < sample.k), None
