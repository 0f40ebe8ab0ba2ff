"""What may leave: the one place that decides on numbers and names that tell of few users.

An `Audience` says whom answers are for, and every function here takes it. The owner, who has the
database, is told estimates as they are defined, and counts of users where they are 0 or at least k.
Others (readers of reports, figures, the service) are told nothing that depends on how many users a
group has as long as it has fewer than k, none included: see docs/disclosure.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.policy import disclosed_from
from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra


class Audience(Enum):
    """Whom an answer is for: the owner of the data, or others, to whom it is handed on."""

    OWNER = "owner"
    OTHERS = "others"


def is_publishable(count: int, k: int, audience: Audience = Audience.OWNER) -> bool:
    """Whether a count of users may leave: at least k, or to the owner also nobody."""
    return count >= disclosed_from(k) or (count == 0 and audience is Audience.OWNER)


def publishable_count(count: int, k: int, audience: Audience = Audience.OWNER) -> int | None:
    """Count of users; null where it may not leave."""
    return count if is_publishable(count, k, audience) else None


def smallest_told_group(k: int, audience: Audience = Audience.OWNER) -> int:
    """Users of the smallest group whose size may be inferred; smaller ones count as that."""
    return 1 if audience is Audience.OWNER else max(disclosed_from(k) - 1, 1)


def publishable_total(
    total: int, parts: Collection[int], k: int, audience: Audience = Audience.OWNER
) -> int | None:
    """Total of users beside its parts, which may overlap; null where a part is withheld.

    The total less the parts that are told bounds the withheld ones (complementary suppression).
    """
    # Zero is a part, too: to others it tells as much as one does.
    can_publish = all(is_publishable(part, k, audience) for part in parts)
    return publishable_count(total, k, audience) if can_publish else None


def complement_of(parts: Sequence[int], k: int, audience: Audience = Audience.OWNER) -> int | None:
    """Position of the part to withhold besides those below k, where the total of all is told.

    Null where none is needed: for the owner; where nothing is withheld, or what is has at least k
    users together. Null also where no part has k users.
    """
    if audience is Audience.OWNER:
        return None
    k = disclosed_from(k)
    disclosed_parts = [part for part in parts if part >= k]
    # Together the withheld ones are known from the total: k of them are no secret.
    if len(disclosed_parts) in {0, len(parts)} or sum(parts) - sum(disclosed_parts) >= k:
        return None
    return parts.index(min(disclosed_parts))


def publishable_members(
    groups: Mapping[str, int], total: int, k: int, audience: Audience = Audience.OWNER
) -> dict[str, int]:
    """Users of each group, beside the total; others are told as many of these as they may be.

    Groups may overlap: of two with 500 and 503 of 1,000 users, 3 are in both. What is told adds up
    to the total, or differs by k users.
    """
    told = {name: users for name, users in groups.items() if is_publishable(users, k, audience)}
    if audience is Audience.OWNER:
        return told
    k = disclosed_from(k)

    def tells_of_few(parts: Collection[int]) -> bool:
        rest = abs(total - sum(parts))
        return rest < k and (rest > 0 or len(parts) < len(groups))

    # First each alone beside the total, then all of them: either difference may be of few.
    told = {name: users for name, users in told.items() if not tells_of_few([users])}
    while told and tells_of_few(told.values()):
        del told[min(told, key=told.__getitem__)]
    return told


def publishable_part(
    part: int, whole: int, k: int, audience: Audience = Audience.OWNER
) -> int | None:
    """Count of users beside a total that is known; null where it or the rest may not leave."""
    can_publish = is_publishable(part, k, audience) and is_publishable(whole - part, k, audience)
    return part if can_publish else None


def publishable_coverage(having: int, users: int, k: int) -> float | None:
    """Share of the users who have a value: 1 where few lack it, null where few have it.

    Fewer than `disclosed_from(k)`. The same for every audience, as it stands in decisions, which
    are handed on.
    """
    k = disclosed_from(k)
    # Also where nobody lacks it: 1 says nothing of 0 to k - 1 users.
    if users - having < k:
        return 1.0
    return None if having < k else having / users


def may_count_below(audience: Audience, *, wanted: bool) -> bool:
    """Whether counts below k are shown because the owner wants them.

    Raises:
        PolicyError: They are wanted for others.
    """
    if wanted and audience is Audience.OTHERS:
        raise PolicyError("unsafe counts", "are for the owner of the data only")
    return wanted


def check_users(users: int, k: int, audience: Audience = Audience.OTHERS) -> None:
    """Refuse to tell others anything of fewer than k users, of whom even the number must not leave.

    Raises:
        UndecidableError: There are so few.
    """
    if users < disclosed_from(k) and audience is Audience.OTHERS:
        raise UndecidableError(
            f"fewer than {disclosed_from(k)} users: nothing is shown about them",
            hint="ingest more logs, or widen the window",
        )


def disclosed_spectra(spectrum: CountSpectrum, k: int, audience: Audience) -> DisclosedSpectra:
    """Say what is told of a count spectrum, of at least k users.

    Where fewer than k users are in groups smaller than k, others are told the same whether they are
    0, 1, ... or k - 1: k - 1 users alone, those that are missing taken from the largest group; and
    for lower limits none, those users being in the largest group. Where that has too few to spare,
    nothing is told but the number of users.
    """
    k = disclosed_from(k)
    hidden = spectrum.users_below(k)
    if audience is Audience.OWNER or hidden >= k:
        return DisclosedSpectra.all_of(spectrum)
    groups = zip(spectrum.counts.tolist(), spectrum.values.tolist(), strict=True)
    others = Counter({count: values for count, values in groups if count >= k})
    largest = max(others, default=0)
    # k - 1 are taken out of the largest group, of which k must be left.
    if hidden + largest < 2 * k - 1:
        alone = CountSpectrum.from_mapping({1: spectrum.users})
        together = CountSpectrum.from_mapping({spectrum.users: 1})
        return DisclosedSpectra(alone, together, suppressed=True, hidden=spectrum.users + 1)
    others -= Counter([largest])
    rest = hidden + largest
    return DisclosedSpectra(
        CountSpectrum.from_mapping(others + Counter({1: k - 1}) + Counter([rest - (k - 1)])),
        CountSpectrum.from_mapping(others + Counter([rest])),
        suppressed=True,
        hidden=k,
    )


def publishable_groups(spectrum: CountSpectrum, k: int) -> list[tuple[int, int, int]]:
    """Count spectrum as it may leave: users (last) in groups of so few to so many.

    Groups of fewer than k users are pooled until each pool has k users. Where all of them together
    have fewer, the same is told for 0, 1, ..., k - 1 such users, as by `disclosed_spectra`.
    """
    k = disclosed_from(k)
    groups, hidden = spectrum.groups(), spectrum.users_below(k)
    if hidden < k:
        largest, _, users = groups[-1]
        rest = hidden + largest
        if largest < k or rest < 2 * k - 1:
            return [(1, spectrum.users, spectrum.users)]
        disclosed_groups = [group for group in groups[:-1] if group[0] >= k]
        disclosed_groups += [(largest, largest, users - largest)] if users > largest else []
        return [(1, rest, k - 1), *disclosed_groups, (rest - (k - 1), rest, rest - (k - 1))]
    pools: list[tuple[int, int, int]] = []
    first, pooled = 1, 0
    for size, _, users in groups:
        if size >= k:
            break
        pooled += users
        if pooled >= k:
            pools.append((first, size, pooled))
            first, pooled = size + 1, 0
    # What is left over has fewer than k users, and joins the last pool.
    first, _, users = pools.pop()
    pools.append((first, k - 1, users + pooled))
    return pools + [group for group in groups if group[0] >= k]


def publishable_draws(spectrum: CountSpectrum, draws: int, k: int) -> list[tuple[int, int, int]]:
    """Count spectrum of draws of one value of each user, all together, as it may leave.

    All draws hold the same users, so what differs between them may be one user, who shows in exact
    sizes and in numbers that are no multiples of the draws. So from k on sizes are told in classes,
    each twice the one before, and always k users of all draws together; the rest of a class is told
    with the next. Where fewer than k users are in groups of fewer, k are told in their place, those
    that are missing taken from the largest class.
    """
    k = disclosed_from(k)
    step, users, hidden = draws * k, spectrum.users // draws, spectrum.users_below(k)
    classes, pools = _classes(spectrum, k, users), Counter[tuple[int, int]]()
    last = last_pool = max(classes)
    if hidden < step:
        classes = {sizes: members for sizes, members in classes.items() if sizes[0] >= k}
        if classes.get(last, 0) + hidden < 2 * step:
            return [(1, users, spectrum.users)]
        classes[last] -= step - hidden
        pools[1, users] = step
    begin, rest = 1, 0
    for sizes, members in classes.items():
        shared = min(members, step - rest) if rest else 0
        rest += shared
        if rest == step:
            last_pool, rest = (begin, sizes[1]), 0
            pools[last_pool] += step
        if more := (members - shared) // step * step:
            last_pool = sizes
            pools[last_pool] += more
        if left := members - shared - more:
            begin, rest = sizes[0], left
    if rest:  # fewer than k users, who join k others
        moved = min(pools[last_pool], step)
        pools[last_pool] -= moved
        pools[min(begin, last_pool[0]), last[1]] += moved + rest
    return [(first, most, members) for (first, most), members in sorted(pools.items()) if members]


def _classes(spectrum: CountSpectrum, k: int, users: int) -> dict[tuple[int, int], int]:
    """Members of groups by class of size, in their order: of one size below k."""
    found = Counter[tuple[int, int]]()
    for size, _, members in spectrum.groups():
        if size < k:
            found[size, size] += members
        else:
            first = k << ((size // k).bit_length() - 1)
            found[first, min(2 * first - 1, users)] += members
    return found


def may_name(users: int, k: int, audience: Audience) -> bool:
    """Whether the name of an API may leave: to others only where at least k users have it.

    A name comes from a log, where a client may have put anything; that of a known API tells at
    least that somebody has it.
    """
    return audience is Audience.OWNER or users >= disclosed_from(k)
