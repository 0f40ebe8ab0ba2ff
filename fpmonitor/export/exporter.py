"""What an exporter is, and what it says of the list that it wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.export.lists import api_actions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.export.controls import Control, Effect
    from fpmonitor.export.headline import Headline
    from fpmonitor.export.lists import ApiAction, Outcome
    from fpmonitor.unit import Unit

Enforcement = Literal[
    "exact", "over-blocking", "untried", "by-passable", "header-only", "impossible", "unknown"
]
# Labels of at most 63 characters, 253 in all (RFC 1035). The last one begins with a letter, so that
# no address of IPv4 is one.
_SITE = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]"
)
# Without quotes, spaces and semicolons, which would end it in a header or a setting.
_REPORT_URL = re.compile(r"https://[A-Za-z0-9.-]+(?::\d+)?(?:/[A-Za-z0-9._~/-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowds:
    """What at least k users share, and how many users there are."""

    users: int
    unit: Unit
    # API -> values that at least k users share: `v` and the text, or `u` for undefined. An API that
    # cannot be compared is not there.
    values: Mapping[str, Sequence[str]]
    why: Mapping[str, str]  # API that cannot be compared -> why.
    # The recommended set, and the largest allowed ones, of APIs that can be compared.
    sets: Sequence[tuple[str, ...]]
    # For each of them the combinations of values that at least k users share.
    tuples: Sequence[Sequence[tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What a list is written for.

    Raises:
        InputError: The site is not a domain name, or the address not a plain https address: it
            could break out of the format.
    """

    site: str | None = None  # The domain that the list is restricted to, or null for all sites.
    variant: str = ""  # Name of one of the exporter's variants, or the empty string for the first.
    # Firefox: a version that fpmonitor knows, or a file that `fpmonitor lists targets` wrote.
    targets: str | Path = "153"
    # Whether to block APIs as well that are no candidates and tell what a blocked one tells.
    by_information: bool = False
    report_to: str = ""  # Permissions-Policy, report only: the https address that reports go to.
    # Whether the list may lower the product's own protection, for what sites may read.
    replace_protection: bool = False
    # Whether the list may hold controls that stop more ordinary pages than they withhold APIs.
    allow_breakage: bool = False
    # Tells the limits of the exposure of what stays readable: at most, and at least; null without
    # users.
    measure: Callable[[tuple[str, ...], tuple[str, ...]], tuple[float, float]] | None = None
    # Web extension: API -> the value that all are told in place of their own, one that at least k
    # users share. Other APIs are refused.
    values: Mapping[str, str] = field(default_factory=dict, hash=False)
    # Visitor page: tells what at least k users share; null without users.
    crowds: Callable[[], Crowds] | None = None

    def __post_init__(self) -> None:
        if self.site is not None and not is_site(self.site):
            raise InputError(
                f"site {self.site!r} is not a domain name",
                hint="write it as in example.com: lower case, without scheme, port and path",
            )
        if self.report_to and not _REPORT_URL.fullmatch(self.report_to):
            raise InputError(
                f"{self.report_to!r} is not an address for reports",
                hint="reports are sent to addresses like https://example.com/reports only",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVerdict:
    """How faithfully a list carries out what was decided about one API."""

    # api, outcome: What was decided.
    api: str
    outcome: Outcome
    # `exact`; `over-blocking`: a block that changes other APIs as well, or an allowed API that is
    # changed; `untried`: said to be hidden, but nobody has looked in the product; `by-passable`:
    # hidden from scripts that do not try to get round it, and `note` says how others read it;
    # `header-only`: scripts still read the value; `impossible`: still readable; `unknown`: nobody
    # knows what surface this name is, and nothing is done about it.
    verdict: Enforcement
    effect: Effect | None = None  # What becomes of the API, or null for nothing.
    controls: tuple[str, ...] = ()  # Names of the controls that act on it.
    # APIs that these controls change though they were not to be blocked.
    collateral: tuple[str, ...] = ()
    # Ordinary pages that stop beside these controls, as they were tried in the product.
    breaks: tuple[str, ...] = ()
    note: str = ""  # What to know, or the empty string.
    means: str = ""  # API of the vocabulary, where it is called otherwise.
    # Whether what APIs answer hides it wherever the product can reach, if not everywhere; null
    # where the product reaches all.
    within_reach: bool | None = None

    @property
    def is_withheld(self) -> bool:
        """Whether sites shall not read it; where there is no evidence, too."""
        return self.outcome != "exposed"

    @property
    def enforced(self) -> bool:
        """Whether the decision about this API holds in the product."""
        return self.verdict in {"exact", "over-blocking"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """A list, a verdict for each candidate, what is in force with it, and what to know about it.

    `headline` is null where it is up to a program to carry the list out.

    A list of several files has them in `files`, name -> text; `text` holds all of them.
    """

    text: str
    verdicts: tuple[ApiVerdict, ...]
    controls: tuple[Control, ...] = ()
    notes: tuple[str, ...] = ()
    headline: Headline | None = None
    files: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedList:
    """What a list of a product amounts to: the controls in force, and slips that void some."""

    controls: tuple[Control, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainList:
    """What a list for programs says."""

    # What a site may read together, one for each combination that it may choose.
    together: tuple[ApiSet, ...]
    # All APIs that the list has a word on; nothing is known of what becomes of others.
    named: frozenset[str]
    problems: tuple[str, ...] = ()  # Where it contradicts itself.
    # Name of the log -> API of the vocabulary that a program takes it for.
    names: Mapping[str, str] = field(default_factory=dict, hash=False)


class Exporter(Protocol):
    """Writes decisions as lists of one product; registered in `fpmonitor.exporters`."""

    @property
    def summary(self) -> str:
        """What the list is for, in a few words."""

    def export(self, decision: Decision, options: ExportOptions) -> ExportResult:
        """Write a list; one that `validate` complains about is a bug and raises.

        Raises:
            InputError: The options ask for what the format cannot do.
        """

    def validate(self, text: str) -> list[str]:
        """Problems of a list, the ones that the product would pass over silently included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainExporter:
    """Exporter of a list that programs read: whatever they enforce is up to them.

    `write` makes the text from a decision; `check` finds the problems of a text. `read` tells what
    a text says, and raises `InputError` where it is no such list; null where nobody can tell.
    """

    name: str
    summary: str
    write: Callable[[Decision], str]
    check: Callable[[str], list[str]]
    read: Callable[[str], PlainList] | None = None

    def export(self, decision: Decision, options: ExportOptions) -> ExportResult:
        """Write the list; every verdict is `exact`."""
        check_export_options(self.name, options, variants=(), sites=False)
        if options.replace_protection:
            raise InputError(
                f"{self.name} replaces no protection", hint="omit --replace-protection"
            )
        if options.by_information:
            raise InputError(
                f"{self.name} lists the candidates of the decision", hint="omit --by-information"
            )
        return ExportResult(
            text=self.write(decision),
            verdicts=tuple(
                ApiVerdict(
                    api=entry.api,
                    outcome=entry.outcome,
                    verdict="exact",
                    note=entry.reason,
                    means=other_name(entry),
                )
                for entry in api_actions(decision)
            ),
        )

    def validate(self, text: str) -> list[str]:
        """Problems of a list."""
        return self.check(text)


def check_export_options(
    exporter: str, options: ExportOptions, *, variants: Sequence[str], sites: bool
) -> None:
    """Check that an exporter can do what the options ask for.

    Raises:
        InputError, UnknownNameError: A site for a format without sites; a variant that the exporter
            does not have.
    """
    if options.site is not None and not sites:
        raise InputError(f"{exporter} cannot be restricted to a site", hint="omit --site")
    if options.variant and options.variant not in variants:
        raise UnknownNameError(f"variant of {exporter}", options.variant, variants)


def is_site(name: str) -> bool:
    """Whether a name is a domain name that no format can take for anything else."""
    return _SITE.fullmatch(name) is not None


def other_name(action: ApiAction) -> str:
    """Return the API that a name of the log stands for; empty where it is the same."""
    return action.means if action.means != action.api else ""


def printable(text: str) -> str:
    """Text for a comment: one line whatever it holds, control and separator characters escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def lines_of(text: str) -> list[str]:
    """Lines of a list as products divide it.

    `str.splitlines` also divides at U+2028 and others, behind which a comment goes on for them.
    """
    return re.split(r"\r\n?|\n", text)


def may_match(site: str | None, domain: object) -> bool:
    """Whether an exception for `domain` may be in force on a site (null: on any of all sites).

    One for what is no plain domain, such as a pattern, a port or a list, may be in force anywhere.
    """
    plain = domain if isinstance(domain, str) and is_site(domain) else None
    return site is None or plain is None or site_matches(site, plain)


def site_matches(site: str | None, domain: str) -> bool:
    """Whether a rule for `domain` is in force on `site` (null: on all sites)."""
    return site is not None and (site == domain or site.endswith(f".{domain}"))


def names(controls: Iterable[Control]) -> tuple[str, ...]:
    """Names of controls."""
    return tuple(control.name for control in controls)
