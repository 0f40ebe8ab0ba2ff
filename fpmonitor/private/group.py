"""A group without a curator: participants publish marginals, agree on a set, and release it.

Every participant is user, curator and analyst at once. A shuffler, which can open nothing of
theirs, is all they need beside each other: messages on single APIs go through it to all of them,
all count the same marginals, all find the same set, and each releases its tuple of that set only.

Source: Bravo-Hermsdorff, Busa-Fekete, Gunderson, Munoz Medina, Syed (2022), "Statistical
anonymity: Quantifying reidentification risks without reidentifying users", section 8.3.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.errors import UndecidableError
from fpmonitor.private.client import AnsweredRequests, reports_for, seal_answers
from fpmonitor.private.folder import RoleFolder
from fpmonitor.private.knowledge import Knowledge
from fpmonitor.private.selection import compare_with_joint, heaviest_set, select_values
from fpmonitor.private.study import ROLES, first_ask, release_ask
from fpmonitor.results import Members

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.private.counts import ApiSet, Counts, Tuples
    from fpmonitor.private.knowledge import Setting
    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.selection import JointComparison
    from fpmonitor.private.study import CollectionRequest, Sign, Study


class SealedChannel:
    """Answers sealed for the roles of a pilot, whose services do not run.

    In a group all participants hold the keys of its curator and its analyst.
    """

    def __init__(self, pilot: Path) -> None:
        shuffler, curator, analyst = (RoleFolder.of(pilot, role) for role in ROLES)
        self._study = shuffler.study
        self._shuffler = shuffler.open_shuffler()
        self._readers = {"curator": curator.open_recipient(), "analyst": analyst.open_recipient()}
        self._answered: defaultdict[int, AnsweredRequests] = defaultdict(AnsweredRequests)

    def __call__(self, ask: CollectionRequest, holders: Sequence[Mapping[str, str]]) -> Counts:
        """Seal, shuffle, open and count the answers.

        Raises:
            UndecidableError: The participants are fewer than the minimum batch of the shuffler.
        """
        reader = self._readers[ask.recipient]
        reader.add_ask(ask)
        self._shuffler.add_ask(ask)
        self._shuffler.take(
            [self._sealed(ask, tokens, reader, user) for user, tokens in enumerate(holders)]
        )
        # Too few answers are no error here: that there is no batch tells it below.
        self._shuffler.close_ask(ask.id, drop=True)
        batches = list(self._shuffler.unsent())
        for batch in batches:
            content = self._shuffler.batch(batch)
            if content is not None:
                reader.take(content)
                self._shuffler.sent(batch)
        if not batches:
            raise UndecidableError(
                "the shuffler passes nothing on: too few participants for its minimum batch"
            )
        return reader.counts(ask)

    def _sealed(
        self, ask: CollectionRequest, tokens: Mapping[str, str], reader: Recipient, user: int
    ) -> bytes:
        shuffler, recipient = (ring.keys[0].config for ring in (self._shuffler.ring, reader.ring))
        uploads = seal_answers(
            self._study,
            ask,
            tokens,
            answered=self._answered[user],
            shuffler=shuffler,
            recipient=recipient,
        )
        return b"".join(upload.encode() for upload in uploads)

    def close(self) -> None:
        """Close the stores."""
        for store in (self._shuffler.store, *(one.store for one in self._readers.values())):
            store.close()


def counted_openly(
    study: Study, ask: CollectionRequest, holders: Sequence[Mapping[str, str]]
) -> Counts:
    """Count the answers of all holders: as through a channel, without the cryptography."""
    rng = random.Random(0)  # noqa: S311 -- of a simulation
    counts: dict[ApiSet, Counter[tuple[str, ...]]] = {apis: Counter() for apis in ask.sets}
    for tokens in holders:
        for index, report_tokens in reports_for(study, ask, tokens, rng):
            counts[ask.sets[index]][report_tokens] += 1
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRun(Members):
    """What a group found, and what its participants then know about each other."""

    JSON: ClassVar[str] = (
        "setting participants agreed messages_per_participant=messages marginals_true alone "
        "alone_in_all apis=comparison.apis fixed=comparison.fixed "
        "statistical=comparison.statistical entropy_upper_bits=comparison.entropy_upper_bits "
        "users=comparison.users empirical=comparison.empirical lower=comparison.lower "
        "upper=comparison.upper"
    )

    setting: Setting  # Whether they are the population (`fixed`) or draws from it (`statistical`).
    participants: int  # Number of participants.
    agreed: int  # Number of participants whose own computation gave the released set.
    comparison: JointComparison  # The set, its limits, and the exposure in the released tuples.
    messages: int  # Number of messages that each participant sent, in both rounds.
    marginals_true: bool  # Whether the published marginals are those of the participants' tokens.
    alone: int  # Number of participants whose released tuple nobody else has.
    # Number of participants whose tuple of all APIs nobody else has: they would stand out if whole
    # records had been collected. Nobody in the group can compute it; the simulation can.
    alone_in_all: int


def run_group(
    study: Study,
    holders: Sequence[Mapping[str, str]],
    channel: Callable[[CollectionRequest, Sequence[Mapping[str, str]]], Counts],
    sign: Sign,
    *,
    setting: Setting = "fixed",
    weights: Mapping[str, float] | None = None,
    rng: random.Random,
) -> GroupRun:
    """Simulate a group that finds and releases its set.

    Args:
        study, weights: The terms, and the utility of each API, that all agreed on beforehand.
        holders: Tokens by API of each participant.
        channel: Carries the messages, and counts them: a `SealedChannel`, or `counted_openly`.
        sign: Signs with the curator's key, which all participants hold and the study names.
        setting: `fixed`: the participants are the population. `statistical`: they are draws from
            one.
        rng: Shuffles the published marginals for each participant.

    Raises:
        UndecidableError: There are too few participants, or no set is within the budget.
    """
    first = first_ask(study)
    published = channel(first, holders)
    choices = Counter(_choice(study, published, setting, weights, rng) for _ in holders)
    [(chosen, agreed)] = choices.most_common(1)
    if not chosen:
        raise UndecidableError(
            "no API is within the budget by the marginals", hint="raise the budget, or lower k"
        )
    selection = select_values(study, published, setting=setting, weights=weights)
    promised = selection.recommended
    last = release_ask(study, selection.promise, chosen, sign)
    released = channel(last, holders)[chosen]
    return GroupRun(
        setting=setting,
        participants=len(holders),
        agreed=agreed,
        comparison=compare_with_joint(study, promised, released),
        messages=len(first.sets) + 1,
        marginals_true=published == counted_openly(study, first, holders),
        alone=sum(number == 1 for number in released.values()),
        alone_in_all=sum(number == 1 for number in _whole_records(study, holders).values()),
    )


def _choice(
    study: Study,
    published: Counts,
    setting: Setting,
    weights: Mapping[str, float] | None,
    rng: random.Random,
) -> ApiSet:
    """Return the set that a participant computes from the marginals, in any order."""
    received: dict[ApiSet, Tuples] = {
        apis: dict(rng.sample(list(tuples.items()), len(tuples)))
        for apis, tuples in rng.sample(list(published.items()), len(published))
    }
    return heaviest_set(Knowledge(study, received, setting), weights)[0]


def _whole_records(study: Study, holders: Sequence[Mapping[str, str]]) -> Tuples:
    return Counter(tuple(tokens[api] for api in study.apis) for tokens in holders)
