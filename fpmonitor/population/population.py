"""A population: the users of a snapshot, in a window, as a view shows them, for an audience.

Every answer and decision is computed from one, whoever keeps the rows: rows are read into memory
where they fit, and spectra are asked of their keeper by query where they do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self, cast

import numpy as np

from fpmonitor.disclosure import Audience, check_users, publishable_part
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.looks import design_size
from fpmonitor.policy import SampleModel, universe_of
from fpmonitor.population.browsers import BROWSER_FAMILY, OPERATING_SYSTEM
from fpmonitor.population.contents import Contents
from fpmonitor.population.exposure_index import ExposureIndex
from fpmonitor.population.kept_spectra import KeptSpectra
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.sample import CertifiedSample
from fpmonitor.population.snapshot import SpectrumQueries
from fpmonitor.population.volatile import may_be_masked
from fpmonitor.question import Question
from fpmonitor.unit import check_limits
from fpmonitor.vocabulary import split_names


class Population(Contents):
    """Users that questions are asked of.

    Args:
        snapshot: One row a user.
        window: What the snapshot was taken of; noted in decisions.
        view: How the users are looked at: volatile values, automation, coarser values.
        audience: Whom answers are for.
        look, first_names: Which look at the users of a database it is: see `SampleModel`; and the
            names in its first log, null where nothing noted them.
    """

    def without_few(self, k: int) -> Population:
        """Return the users whom answers with this threshold mean.

        For others the view leaves out those that look automated only where they are at least k, and
        the rest as well: the number of users is told.
        """
        if self.audience is Audience.OWNER or not self.view.drop_automation:
            return self
        # Two numbers of users, with and without automation, would tell of the few between.
        if publishable_part(self.dropped, self.snapshot.users, k, self.audience) is not None:
            return self
        return self.seen_by(replace(self.view, drop_automation=False))

    def with_all(self, apis: Sequence[str], *, least: int = 1) -> Self:
        """Return those users who have an observation of every one of some APIs.

        Raises:
            UndecidableError: Fewer have than `least`.
            UnknownNameError: An API that was never observed.
        """
        self.check_names(apis)
        other = self._copied()
        other._present = tuple(dict.fromkeys((*self._present, *apis)))  # noqa: SLF001 -- its own class
        if other.users < least:
            number = "no user has" if least == 1 else f"fewer than {least} users have"
            raise UndecidableError(
                f"{number} an observation of all {len(apis)} APIs",
                hint="leave --missing at `value`, or name fewer APIs",
            )
        return other

    def for_question(self, question: Question, apis: Iterable[str]) -> Population:
        """Return the users whom a question about some APIs means.

        By shares they are drawn once: those who were drawn are meant as they are. Where `missing`
        is `drop`, others are told of all users unless at least k of them lack some.

        Raises:
            UnknownNameError: An API that was never observed.
            InputError: One of them tells clusters; or limits are asked for of rows that may be no
                users.
            UndecidableError: `missing` is `drop`, and nobody has all of them; for others, fewer
                than k.
        """
        if not question.counted:
            check_limits(self.snapshot.units, rows_are_users=question.sample.rows_are_users)
        users = self.without_few(question.k)
        if question.given:
            users = users._beside(question.given)  # noqa: SLF001 -- its own class
        if (question.visits, question.after) != (users._visits, users._after):  # noqa: SLF001 -- its own class
            users = users._copied()  # noqa: SLF001 -- its own class
            users._visits, users._after = question.visits, question.after  # noqa: SLF001 -- its own class
        wanted = sorted(users.named([*apis, *users._given]))  # noqa: SLF001 -- its own class
        sample = question.sample
        if not self._clusters(sample).isdisjoint(wanted):
            raise InputError(
                f"cluster: no two of those drawn share a value of {sample.cluster}",
                hint="name APIs without it",
            )
        if users.selected is None:
            # In this order: who is left out first must not follow from who was drawn.
            if question.missing == "drop" and wanted:
                users = users._having(wanted, question.k)  # noqa: SLF001 -- its own class
            if sample.cluster is not None:
                users = users.one_of_each(sample.cluster, question.k)
            if sample.strata is not None:
                users = users.drawn_by(sample.strata, question.k)
        return users.with_absent_alone() if question.missing == "exposed" else users

    def _beside(self, given: Sequence[str]) -> Population:
        """Return the same users, whose cohort sites see with every set."""
        users, names = self.with_kinds(given)
        other = users._copied()  # noqa: SLF001 -- its own class
        other._given = names  # noqa: SLF001 -- its own class
        return other

    def _having(self, apis: Sequence[str], k: int) -> Population:
        if self.audience is Audience.OWNER:
            return self.with_all(apis)
        having = self.with_all(apis, least=k)
        return self if self.users - having.users < k else having

    def question(self, question: Question) -> Question:
        """Return a question as it is asked of these users: how many, and whom nobody observed.

        A population that nobody named is as large as they are. Neither a draw by shares nor whoever
        added rows may choose among tests by it: then it is one that follows from their design.
        """
        sample = self.model(question.sample)
        expected = None if self.selected is None else sample.expected(self.users)
        if sample.fake_share:
            share = sample.fake_share
            # Of the two d of docs/certificate/fakes.md: whoever adds rows chooses no population.
            expected = math.floor(design_size(self.users, share) * (1 - share))
        users = self.users if expected is None else max(expected, question.k)
        return replace(question.among(users), sample=sample)

    def model(self, sample: SampleModel) -> SampleModel:
        """Return how these users may differ, with the strata of whom nobody was drawn left out.

        Where they are looked at more than once, it says which look it is.
        """
        if self.selected is None:
            return replace(sample, look=None if sample.looked_at_once else self.look)
        return replace(sample, strata=self.selected.sample.strata)

    def askable_apis(self, question: Question) -> tuple[str, ...]:
        """Observed APIs whose names may be told, without those that tell clusters."""
        clusters = self._clusters(question.sample)
        return tuple(api for api in self.publishable_apis(question.k) if api not in clusters)

    def _clusters(self, sample: SampleModel) -> set[str]:
        """Return what the log calls the columns that tell clusters."""
        names = set(split_names(sample.cluster or "")) - {BROWSER_FAMILY, OPERATING_SYSTEM}
        return set(self.named(names))

    def sample(
        self,
        question: Question,
        sets: Iterable[Sequence[str]],
        *,
        given: Sequence[str] = (),
        chosen: bool = False,
    ) -> CertifiedSample:
        """Return the users of one question about some sets, with limits.

        Args:
            question: What is asked.
            sets: All that is asked for; together they name the APIs that a user must have.
            given: APIs that make cohorts, among those of the sets.
            chosen: Whether the limits of all sets hold together, whichever are named after looking;
                else each holds for a set that was named before.
        """
        # limits by visits: `Limits.of_mean`
        question = replace(question, visits="last", after=())
        together = sorted({api for apis in sets for api in (*apis, *given)})
        users = self.for_question(question, together)
        check_users(users.users, question.k, self.audience)
        question = users.question(question)
        said = self.snapshot.said
        # paths never: last values are asked for
        source = cast("MemorySource | SpectrumQueries", users.source(together))
        in_memory = isinstance(source, MemorySource)
        return CertifiedSample(
            question,
            source,
            digest=users.digest,
            seal=users.seal,
            audience=self.audience,
            masked=self.masked(together, question.k),
            growing=frozenset(api for api in together if may_be_masked([api], self.view, said)),
            universe=universe_of(len(self.apis)) if chosen else None,
            first=self.first_of(together) if chosen else None,
            drawn=users.drawn,
            codes={api: np.unique(users.column(api)) for api in given} if in_memory else {},
        )

    def index(
        self,
        question: Question,
        candidates: Sequence[str],
        *,
        kept_spectra: KeptSpectra | None = None,
        sets: Iterable[Sequence[str]] = (),
    ) -> ExposureIndex:
        """Hold the users in memory: exposure of any set of the candidates in milliseconds.

        Args:
            question, candidates: What is asked, and the APIs that may be asked for.
            kept_spectra: Follows these users from call to call: the spectra of `sets` are then
                known at once.
            sets: Of the candidates.
        """
        named = self.named(candidates)
        sample = self.sample(question, [named])
        if question.visits != "last" or question.after:
            # Decisions by visits note their number, too: whether users are theirs is told by that.
            sample.seal = self.for_question(question, named).seal
        if isinstance(sample.source, MemorySource):
            if kept_spectra is not None and not question.given:
                users = self.for_question(question, named)
                columns = {api: users.column(api) for api in sample.source.apis}
                wanted = {tuple(sorted(self.named(apis))): None for apis in sets}
                sample.know(kept_spectra.follow(columns, filter(None, wanted)))
            sample.source, sample.codes = sample.source.restricted(sample.source.apis), {}
        return ExposureIndex(sample, self.means)
