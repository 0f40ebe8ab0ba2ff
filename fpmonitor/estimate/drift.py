"""Two-sample tests: whether the users of two windows can be draws from one distribution.

Given how many users of both windows together have each value, one distribution deals the users out
to the windows like cards. That distribution is hypergeometric, so the tests are exact: they need no
large samples and no smallest count (Fisher 1935). A test takes the better half of two looks at a
table:

* every value alone, corrected for their number (Bonferroni), which finds one value that grew;
* a split: which values grew is learnt on one half of the users, and whether they grew on the other
  half, which finds many small changes that agree.

Users may come with any frequency, so the users of two windows are three groups, and each has its
test: who came in one window alone is dealt out to it like a card (`compare_laws`), and who came in
both has changed a value or has not (`compare_changes`). Proofs: docs/certificate/panel.md.

Where users with rare values are hidden (`hidden`), the p-value is at least that of the counts
themselves, whatever these are: for each value alone, numbers that are not known are those which
speak least for a change, and the split is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import InputError
from fpmonitor.estimate.saddle_point import hypergeometric_lower_tail

POOLED_USERS = 20  # of both windows; rarer values are tested as one
_SURE = 0.01  # p-value of a value whose changes count in what `compare_changes` calls moved
_SCREEN_SHARE = 0.7  # of the deviation that would matter; whatever is screened out has p-value 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DriftTest:
    """Outcome of the test of one table of counts."""

    # Probability, under one distribution, of so small a number: `P(p_value <= x) <= x` for every x.
    p_value: float
    # Share of the users that moved from some values to others, estimated on the half that was not
    # learnt from; on average not above the true total variation distance.
    moved: float
    # float64, one a value: its own p-value, already corrected for the values and the two looks; 1
    # for values that were tested with other rare ones.
    cell_p_values: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Window:
    """Users of a window in cells: as they are counted, and the fewest and most there may be.

    `hidden` users at most are in truth in other cells than the one where they are counted.
    """

    counts: NDArray[np.int64]
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    hidden: int

    @classmethod
    def of(cls, counts: NDArray[np.int64], hidden: int) -> _Window:
        """Take a cell for each value; who is hidden counts with the commonest one."""
        # Counted where they are shown, about k hidden users made up to half of all tests alarms.
        least, commonest = counts.copy(), counts.argmax()
        least[commonest] -= min(hidden, least[commonest])
        most = np.where(counts, counts, hidden)
        return cls(counts=counts, least=least, most=most, hidden=hidden)

    def by_step(self, lowest: NDArray[np.intp], highest: NDArray[np.intp]) -> _Window:
        """Take a cell for each step, where each value may be in one of some steps."""
        steps, is_known = int(highest.max(initial=0)) + 1, lowest == highest

        def summed(step: NDArray[np.intp], users: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.bincount(step, users, steps + 1).astype(np.int64)

        begun, ended = summed(lowest, self.counts), summed(highest + 1, self.counts)
        return _Window(
            counts=begun[:-1],
            least=summed(lowest[is_known], self.least[is_known])[:-1],
            most=np.cumsum(begun - ended)[:-1] + self.hidden,
            hidden=self.hidden,
        )

    @property
    def users(self) -> int:
        return int(self.counts.sum())


def compare_laws(
    before: ArrayLike, after: ArrayLike, *, seed: int, hidden: tuple[int, int] = (0, 0)
) -> DriftTest:
    """Test whether two windows come from one distribution of values.

    Args:
        before, after: Whole numbers, shape (values,): users of each window with each value.
        seed: Of the split; take it from the data, so that nobody can draw again until it pleases.
        hidden: For each window at most so many users, who are counted with its most frequent value,
            have in truth values that it counts as 0.
    """
    return _test(*_windows(before, after, hidden), seed)


def compare_spectra(
    before: ArrayLike, after: ArrayLike, *, seed: int, hidden: tuple[int, int] = (0, 0)
) -> DriftTest:
    """Test whether users of one window have rarer values than those of the other.

    The names of the values do not matter: users are sorted by how many of both windows share their
    value, in steps of a factor of 2; each step is a cell. Arguments as in `compare_laws`.
    """
    first, second = _windows(before, after, hidden)
    lowest, highest = _steps(first.least + second.least), _steps(first.most + second.most)
    return _test(first.by_step(lowest, highest), second.by_step(lowest, highest), seed)


def compare_changes(before: ArrayLike, after: ArrayLike, *, least: int = 1) -> DriftTest:
    """Test whether users who came in both windows changed their values in one direction.

    A user who alternates is as likely to change one way as the other; so of the changes that
    concern a value, those towards it are heads of as many fair coins (sign test; McNemar 1947).
    Where nobody changes, the p-value is 1. `moved` is a share of these users, by the values that
    surely grew or shrank. `cell_p_values` are those of the sorted distinct codes of both windows.

    Args:
        before, after: Whole numbers, shape (users,): the code of each user in each window.
        least: Changes from one value to another of fewer users are not looked at where they are
            fewer in all, and then count as what speaks least for a change, whatever they are.

    Raises:
        InputError: Shapes that differ.
    """
    first, second = np.asarray(before), np.asarray(after)
    if first.shape != second.shape or first.ndim != 1:
        raise InputError("drift: two codes for each user who came in both windows")
    changed = first != second
    # Of those who kept their value one window tells the codes.
    codes = np.union1d(first, second[changed])
    pairs = np.searchsorted(codes, np.stack([first[changed], second[changed]])).astype(np.int64)
    keys, users = np.unique(pairs[0] * max(codes.size, 1) + pairs[1], return_counts=True)
    rare, hidden = users < least, 0
    if least > 1 and users[rare].sum() < least:
        keys, users, hidden = keys[~rare], users[~rare], least - 1
    left, entered = np.divmod(keys, max(codes.size, 1))
    lost, gained = (np.bincount(at, users, codes.size) for at in (left, entered))
    larger, all_of_it = np.maximum(gained, lost), gained + lost
    # Which values are tested follows from changes in either direction alone.
    tested = all_of_it >= POOLED_USERS
    number = int((all_of_it + hidden >= POOLED_USERS).sum()) + 2 * hidden // POOLED_USERS
    p_values = np.ones(codes.size)
    heads, coins = larger[tested], all_of_it[tested] + hidden
    # The two-sided test of a fair coin by its function: scipy.stats takes 0.3 s to load.
    p_values[tested] = 2 * number * scipy.special.betainc(heads, coins - heads + 1, 0.5)
    p_values = np.minimum(p_values, 1)
    sure = p_values <= _SURE
    # Without this noise alone would seem to have moved users.
    net = np.where(sure, gained - lost, 0)
    moved = max(net[net > 0].sum(), -net[net < 0].sum()) / first.size if first.size else 0.0
    return DriftTest(
        p_value=float(p_values.min(initial=1.0)), moved=float(moved), cell_p_values=p_values
    )


def adjust_p_values(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values for their number: with those up to `a` rejected, any error has chance <= `a`.

    Holm (1979), the step-down Bonferroni procedure; no independence is needed.
    """
    array = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(array, kind="stable")
    # The smallest p-value is multiplied by all, the next by one fewer, and none falls below it.
    factors = len(array) - np.arange(len(array))
    adjusted = np.empty_like(array)
    adjusted[order] = np.minimum(np.maximum.accumulate(array[order] * factors), 1)
    return adjusted


def _test(first: _Window, second: _Window, seed: int) -> DriftTest:
    cells = _cell_p_values(first, second)
    split, moved = _split(first, second, np.random.default_rng(seed))
    return DriftTest(
        p_value=min(1.0, float(cells.min(initial=1.0)), 2 * split),
        moved=moved,
        cell_p_values=cells[:-1],
    )


def _windows(
    before: ArrayLike, after: ArrayLike, hidden: tuple[int, int]
) -> tuple[_Window, _Window]:
    first, second = _counts("before", before), _counts("after", after)
    if first.shape != second.shape:
        raise InputError(f"drift: {first.size} values before, {second.size} after")
    return _Window.of(first, hidden[0]), _Window.of(second, hidden[1])


def _counts(name: str, counts: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(counts)
    if array.ndim != 1 or not (array.size and np.issubdtype(array.dtype, np.integer)):
        raise InputError(f"drift: {name} must be a non-empty list of whole numbers")
    if array.min() < 0:
        raise InputError(f"drift: {name} must not be negative")
    if array.sum() < 2:
        raise InputError(f"drift: {name} must count at least 2 users")
    return array.astype(np.int64)


def _cell_p_values(first: _Window, second: _Window) -> NDArray[np.float64]:
    """P-values of all cells and, last, of the pool of the rare ones; corrected."""
    # By both windows together, which tells nothing of how they differ.
    common = first.least + second.least >= POOLED_USERS
    perhaps = ~common & (first.most + second.most >= POOLED_USERS)
    hidden = first.hidden + second.hidden
    before, after = (_bounds(window, common, perhaps, hidden) for window in (first, second))
    users = first.users, second.users
    # Surely: the fewest there may be later against the most before.
    grew = after[0] * users[0] > before[1] * users[1]
    shrank = after[1] * users[0] < before[0] * users[1]
    earlier = np.where(grew, before[1], before[0])
    later = np.where(grew, after[0], after[1])
    # A hidden user may make one of `perhaps` common; of cells that only hidden users have, each
    # needs as many of them as make it common.
    more = min(int(perhaps.sum()), hidden) + hidden // POOLED_USERS
    tests = int(common.sum()) + more + bool(before[1][-1] + after[1][-1])
    corrections = 2 * max(tests - (tests == 2), 1)  # of two cells one tells the other
    screen = _SCREEN_SHARE * -float(scipy.special.ndtri(0.5 / corrections))
    changed = np.flatnonzero((grew | shrank) & np.append(common, True))
    deviations = _deviations(earlier[changed], later[changed], users)
    suspicious = changed[deviations > screen]
    p_values = np.ones(earlier.size)
    p_values[suspicious] = _two_sided(earlier[suspicious], later[suspicious], users)
    return np.minimum(p_values * corrections, 1)


def _bounds(
    window: _Window, common: NDArray[np.bool_], perhaps: NDArray[np.bool_], hidden: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bound the users of each cell and, last, of the pool, which so many of `perhaps` may leave."""
    leaving = np.sort(window.least[perhaps])[::-1][:hidden].sum()
    pool = window.least[~common].sum() - leaving, window.users - window.least[common].sum()
    return np.append(window.least, pool[0]), np.append(window.most, pool[1])


def _deviations(
    before: NDArray[np.int64], after: NDArray[np.int64], users: tuple[int, int]
) -> NDArray[np.float64]:
    """How many standard deviations each count is off; p-values are worth computing beyond some."""
    total = sum(users)
    both = (before + after).astype(np.float64)
    share = users[1] / total
    variance = both * share * (1 - share) * (total - both) / (total - 1)
    deviation = np.abs(after - both * share)
    spread: NDArray[np.float64] = deviation / np.sqrt(np.maximum(variance, 1e-300))
    return np.where(variance > 0, spread, 0.0)


def _two_sided(
    before: NDArray[np.int64], after: NDArray[np.int64], users: tuple[int, int]
) -> NDArray[np.float64]:
    """Twice the hypergeometric tail beyond the later count, on its side of the mean."""
    total, both = sum(users), before + after
    grew = after * total > both * users[1]
    tails = np.empty(after.size)
    # That many or more are in the later window where that few or fewer are in the former.
    for side, fewer, window in ((grew, before, users[0]), (~grew, after, users[1])):
        tails[side] = hypergeometric_lower_tail(
            fewer[side].astype(float), both[side].astype(float), window, total
        )
    return np.minimum(2 * tails, 1)


def _split(first: _Window, second: _Window, rng: np.random.Generator) -> tuple[float, float]:
    """P-value of the half that was kept back, and the share of users that moved in it."""
    # About half of the users, by the toss of a coin for each.
    halves = [rng.binomial(window.counts, 0.5) for window in (first, second)]
    before, after = first.counts - halves[0], second.counts - halves[1]
    users = int(before.sum()), int(after.sum())
    if not all((*users, halves[0].sum(), halves[1].sum())):
        return 1.0, 0.0
    learnt = halves[0] + halves[1]
    grew = halves[1] / halves[1].sum() > halves[0] / halves[0].sum()
    # Nothing is learnt of values that only the other half has, but of those seen once (Good 1953).
    once = [half[learnt == 1].sum() / half.sum() for half in halves]
    grew[learnt == 0] = once[1] > once[0]
    grown = int(before[grew].sum()), int(after[grew].sum())
    # Half of those who are hidden may have values that grew, in the former window, and in the later
    # none.
    missing = 0 if grew[first.counts.argmax()] else first.hidden / 2
    extra = second.hidden / 2 if grew[second.counts.argmax()] else 0
    moved = (grown[1] - extra) / users[1] - (grown[0] + missing) / users[0]
    if moved <= 0:
        return 1.0, 0.0  # the tail is above one half there, or nearly: no evidence
    if first.hidden or second.hidden:
        return 1.0, moved  # what is learnt then depends on the other half: on what is hidden there
    tail = hypergeometric_lower_tail(
        np.array([float(grown[0])]), np.array([float(sum(grown))]), users[0], sum(users)
    )
    return min(1.0, float(tail[0])), moved


def _steps(counts: NDArray[np.int64]) -> NDArray[np.intp]:
    """Size of each count, in steps of a factor of 2."""
    return np.frexp(counts)[1].astype(np.intp)
