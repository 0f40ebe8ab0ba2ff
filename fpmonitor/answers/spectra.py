"""Count spectra of the listed sets of a decision, by which anybody finds its verdicts again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.decide import question_of
from fpmonitor.disclosure import may_count_below, publishable_groups
from fpmonitor.errors import InputError
from fpmonitor.safe_files import read_json, typed, untyped
from fpmonitor.spectrum import spectra_of

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGroups:
    """The groups of one set: so many users (last) are in groups of so few to so many."""

    apis: tuple[str, ...]
    groups: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSpectra:
    """The groups of all listed sets of a decision.

    Attributes
    ----------
    digest
        That of the decision.
    spectra
        Sets that are allowed, blocked or undecided.
    """

    digest: str
    spectra: tuple[SetGroups, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the spectra as they stand in a file."""
        content: dict[str, Any] = untyped(self)
        return content


def count_spectra(population: Population, decision: Decision, *, exact: bool) -> DecisionSpectra:
    """Count the groups of the listed sets of a decision on the users that it was made of.

    Parameters
    ----------
    population
        The users, seen as the decision saw its own.
    decision
        The decision.
    exact
        Do not pool groups of fewer than k users; for the owner of the data only.

    Raises
    ------
    InputError
        They are other users.
    PolicyError
        Exact groups are wanted for others.
    """
    exact = may_count_below(population.audience, wanted=exact)
    k, candidates = decision.policy.k, decision.policy.candidates
    asked = population.asked(question_of(decision), candidates)
    if asked.seal != decision.digest:
        raise InputError(
            "the decision was made of other users",
            hint="name the database it was made of, and its --since and --until",
        )
    sets = [*decision.allow, *decision.block, *decision.undecided]
    return DecisionSpectra(
        digest=decision.digest,
        spectra=tuple(
            SetGroups(
                apis=apis,
                groups=tuple(spectrum.groups() if exact else publishable_groups(spectrum, k)),
            )
            for apis, spectrum in zip(sets, spectra_of(asked.source(candidates), sets), strict=True)
        ),
    )


def read_spectra(path: Path, decision: Decision) -> DecisionSpectra:
    """Read the spectra of a decision.

    Raises
    ------
    InputError
        No such file, not JSON, not spectra, or of another decision.
    """
    hint = "write them with `fpmonitor audit certificate ... --write-spectra FILE`"
    spectra = typed(read_json(path, "spectra", hint=hint), DecisionSpectra, "spectra", hint=hint)
    listed = {*decision.allow, *decision.block, *decision.undecided}
    if spectra.digest != decision.digest or listed - {one.apis for one in spectra.spectra}:
        raise InputError(f"spectra {path}: of another decision", hint=hint)
    return spectra
