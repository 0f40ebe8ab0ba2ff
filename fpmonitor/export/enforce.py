"""From actions to controls: which controls a list needs, and what they get right and wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError
from fpmonitor.export.controls import (
    BELIEVED,
    EFFECTS,
    HIDING,
    Product,
    absent_apis,
    controls_of,
    effect_of,
)
from fpmonitor.export.effect import readable, still_told, tellers
from fpmonitor.export.evidence import evidence_on
from fpmonitor.export.exporter import (
    ApiVerdict,
    ExportResult,
    check_export_options,
    names,
    other_name,
    printable,
)
from fpmonitor.export.headline import headline_of
from fpmonitor.export.lists import api_actions, told_elsewhere
from fpmonitor.vocabulary import is_known, meanings, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fpmonitor.decide.decision import Decision
    from fpmonitor.export.controls import Control, Effect
    from fpmonitor.export.evidence import Way
    from fpmonitor.export.exporter import Enforcement, ExportOptions, ParsedList
    from fpmonitor.export.headline import Headline
    from fpmonitor.export.lists import ApiAction

_REASONS: dict[Effect | None, str] = {
    "unchanged": "the request header goes, scripts still read the value",
    "coarsened": "fewer values, but not one",
    "untried": "said to be hidden, but nobody has looked in the product",
}
_SOUGHT: frozenset[Effect] = HIDING | {"untried"}
_KEPT_FROM_SOME: frozenset[Effect] = _SOUGHT | {"evaded"}
_MOST_WAYS = 6
_NO_CONTROL = "this format has no control for it"
_CHANGED = "changed by a control that a withheld API needs, or by the product itself"
_SHORT_OF_HIDING: dict[Effect | None, Enforcement] = {
    "evaded": "by-passable",
    "untried": "untried",
    "unchanged": "header-only",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSpec:
    """What a list is written from.

    Attributes:
        controls: The controls that it sets, in the order of the table.
        allowed, decided: The APIs that sites may read, and all that were decided on, as the
            vocabulary calls them.
        comments: Lines of a comment, without line ends inside.
        options: What the list is for.
    """

    controls: tuple[Control, ...]
    allowed: tuple[str, ...]
    decided: tuple[str, ...]
    comments: tuple[str, ...]
    options: ExportOptions


def fits_site(control: Control, options: ExportOptions) -> bool:
    """Whether a control can be restricted to the site of the options, if they name one."""
    return options.site is None or control.any_site


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlExporter:
    """Exporter for a product that is told which controls to use.

    Attributes:
        name, summary: Its name, and what the list is for.
        families: Families of the controls that it can set.
        write, read: Controls -> list, and back. `read` takes the site that one asks for, or null
            for what holds on all sites.
        variants: Forms of the list, the first one by default.
        sites: Whether a list can be restricted to a site.
        supports: Whether a control can be used as the options want it; by default, whether it can
            be restricted to a site where one is named.
        unpack: List -> its files, where these are several.
        notes: What to know about every such list.
        beyond: Places that no list of this format reaches. There is a second headline without them,
            for what APIs answer: no script answers for what is laid out or drawn.
        with_siblings: Whether a list also withholds what tells the same as a withheld API, where it
            can.
        own_protection, is_own: What the product protects by itself, and a list may lower if the
            options say so; whether a control belongs to it, where a list that is read back shows it
            in force.
    """

    name: str
    summary: str
    families: tuple[str, ...]
    write: Callable[[ListSpec], str]
    read: Callable[[str, str | None], ParsedList]
    variants: tuple[str, ...] = ()
    sites: bool = True
    supports: Callable[[Control, ExportOptions], bool] = fits_site
    unpack: Callable[[str], Mapping[str, str]] | None = None
    notes: tuple[str, ...] = ()
    beyond: frozenset[str] = frozenset()
    with_siblings: bool = False
    own_protection: str = ""
    is_own: Callable[[Control, ExportOptions], bool] = lambda _control, _options: True

    def controls(self, options: ExportOptions) -> tuple[Control, ...]:
        """Return the controls that such a list can set.

        Raises:
            InputError: The options ask for what the format cannot do.
        """
        check_export_options(self.name, options, variants=self.variants, sites=self.sites)
        if options.replace_protection and not self.own_protection:
            raise InputError(
                f"{self.name}: the product has no protection of its own to replace",
                hint="omit --replace-protection",
            )
        found = controls_of(self.families)
        return tuple(control for control in found if self.supports(control, options))

    @property
    def product(self) -> Product:
        """What is known of the product: what it does not have, and what was found in it."""
        return Product(absent_apis(self.families), evidence_on(self.name))

    def export(self, decision: Decision, options: ExportOptions) -> ExportResult:
        """Write the list that carries out `api_actions` as well as the format can."""
        actions = api_actions(decision, self.product, by_information=options.by_information)
        return self.export_plan(decision, self._chosen(actions, options), options)

    def _chosen(self, actions: Sequence[ApiAction], options: ExportOptions) -> list[Control]:
        usable = self._usable(_divided(actions)[0], self.product, options)
        chosen = choose(actions, usable, self.product)
        return self._with_siblings(actions, chosen, options) if self.with_siblings else chosen

    def _usable(
        self, apis: Sequence[str], product: Product, options: ExportOptions
    ) -> list[Control]:
        """Return the controls that may be set to hide some APIs: see `is_worth_it`."""
        return [
            control
            for control in self.controls(options)
            if options.allow_breakage or is_worth_it(control, apis, product)
        ]

    def export_plan(
        self, decision: Decision, chosen: Sequence[Control], options: ExportOptions
    ) -> ExportResult:
        """Write a list of given controls, with verdicts on the actions of the decision.

        Raises:
            RuntimeError: The list does not read back as what was meant: a bug.
        """
        actions = api_actions(decision, self.product, by_information=options.by_information)
        spec = ListSpec(
            controls=tuple(chosen),
            allowed=tuple(_divided(actions)[1]),
            decided=tuple(entry.means for entry in actions),
            comments=_comments((), "", None, ""),
            options=options,
        )
        # What is in force is what the product reads: its own protection stays on beside the list.
        found = self.read(self.write(spec), options.site).controls
        own = (control for control in found if self.is_own(control, options))
        in_force = tuple(dict.fromkeys((*chosen, *own)))
        verdicts, headline = self._judged(decision, actions, in_force, options)
        replaced = f"This list replaces {self.own_protection}." * options.replace_protection
        comments = _comments(verdicts, decision.guarantee, headline, replaced)
        text = self.write(replace(spec, comments=comments))
        if problems := self.validate(text):
            raise RuntimeError(f"{self.name}: wrote a list with problems: {problems}")
        notes = (
            *filter(None, [replaced]),
            *self.notes,
            *self._beside(actions, in_force),
            *self._told(decision, in_force),
            *self._seen(verdicts),
        )
        return ExportResult(
            text=text,
            verdicts=verdicts,
            controls=in_force,
            notes=notes,
            headline=headline,
            files=self.unpack(text) if self.unpack else {},
        )

    @property
    def within_reach(self) -> Product:
        """What is known of what APIs answer where lists of this format reach."""
        found = self.product.evidence
        return replace(self.product, evidence=found and found.without(self.beyond), by_layout=False)

    def _with_siblings(
        self, actions: Sequence[ApiAction], chosen: Sequence[Control], options: ExportOptions
    ) -> list[Control]:
        """Add controls of what else tells a blocked API, where nothing within reach is left then.

        A page that finds the width of the screen withheld reads the width that is available. No
        control is added that changes an allowed API.
        """
        blocked, allowed = _divided(actions)
        near, every = self.within_reach, self.controls(options)
        others = tellers({*blocked, *allowed}, str, near)
        added: list[Control] = []
        for api in blocked:
            in_force = [*chosen, *added]
            if effect_of(api, in_force, near) not in HIDING:
                continue
            telling_names = {
                one if isinstance(one, str) else one[2]
                for one in still_told(others[api], in_force, near)
            }
            more = [
                control
                for control in self._usable([*blocked, *telling_names], near, options)
                if control not in in_force
                and any(control.effect_on(name) in _KEPT_FROM_SOME for name in telling_names)
                and not changed_by([control], allowed, near)
            ]
            if more and not still_told(others[api], [*in_force, *more], near):
                added += more
        return [one for one in every if one in chosen or one in added]

    def _judged(
        self,
        decision: Decision,
        actions: Sequence[ApiAction],
        in_force: Sequence[Control],
        options: ExportOptions,
    ) -> tuple[tuple[ApiVerdict, ...], Headline]:
        """Judge every action, and the list as a whole: everywhere, and within reach."""

        def judged(product: Product) -> tuple[tuple[ApiVerdict, ...], Headline]:
            found = tuple(judge(action, actions, in_force, product) for action in actions)
            withheld = {one.api: one.enforced for one in found if one.is_withheld}
            return found, headline_of(decision, withheld, in_force, product, options.measure)

        verdicts, headline = judged(self.product)
        verdicts = self._with_left_out(verdicts, actions, in_force, options)
        if not self.beyond or self.product.evidence is None:
            return verdicts, headline
        found, headline_near = judged(self.within_reach)
        hidden = {one.api for one in found if one.enforced and one.api not in headline_near.left}
        drawn = judged(replace(self.within_reach, by_layout=True))[1].left
        completed_verdicts = tuple(
            replace(one, within_reach=one.api in hidden)
            if one.is_withheld and not one.enforced
            else one
            for one in verdicts
        )
        laid_out = tuple(sorted(hidden.intersection(drawn)))
        return completed_verdicts, replace(headline, near=headline_near, laid_out=laid_out)

    def _with_left_out(
        self,
        verdicts: Sequence[ApiVerdict],
        actions: Sequence[ApiAction],
        in_force: Sequence[Control],
        options: ExportOptions,
    ) -> tuple[ApiVerdict, ...]:
        """Say of APIs that stay readable which controls would hide more of them, and why not."""
        (blocked, allowed), product = _divided(actions), self.product
        usable = self._usable(blocked, product, options)

        # Only where a control was left out: it chooses all of them again.
        @cache
        def with_breakage() -> list[Control]:
            return self._chosen(actions, replace(options, allow_breakage=True))

        def why(control: Control) -> str:
            if control not in usable:
                sets_it = " (--allow-breakage sets it)" * (control in with_breakage())
                return f"left out, as it stops {', '.join(_stops([control], product))}{sets_it}"
            changed = ", ".join(changed_by([control], allowed, product))
            return f"left out, as it changes {changed}" if changed else "not in this list"

        def completed(verdict: ApiVerdict) -> ApiVerdict:
            if verdict.enforced or not verdict.is_withheld or verdict.verdict == "unknown":
                return verdict
            api = verdict.means or verdict.api
            reasons = [
                f"{control.name}: {why(control)}"
                for control in self.controls(options)
                if control not in in_force and _adds(control, api, in_force, product)
            ]
            note = "" if reasons and verdict.note == _NO_CONTROL else verdict.note
            return replace(verdict, note="; ".join(filter(None, [note, *reasons])))

        return tuple(map(completed, verdicts))

    def _beside(self, actions: Sequence[ApiAction], chosen: Sequence[Control]) -> list[str]:
        """Say which controls the list has for what tells the same as a withheld API."""
        blocked = _divided(actions)[0]
        beside = [one for one in chosen if not any(one.effect_on(api) for api in blocked)]
        if not self.with_siblings or not beside:
            return []
        stops = _stops(beside, self.product)
        cost = f"; stops {', '.join(stops)}" if stops else ""
        return [f"withheld as well, as they reveal the same: {', '.join(names(beside))}{cost}"]

    def _told(self, decision: Decision, chosen: Sequence[Control]) -> list[str]:
        """Say where the list leaves open, outside the candidates, what it blocks."""
        candidates_by_api = told_elsewhere(decision, self.product)
        ways: dict[str, list[str]] = {}
        for name in readable(candidates_by_api, chosen, self.product):
            ways.setdefault(", ".join(candidates_by_api[name]), []).append(name)
        return [f"{api} can still be read through {', '.join(ways[api])}" for api in sorted(ways)]

    def _seen(self, verdicts: Iterable[ApiVerdict]) -> list[str]:
        """Say in which products ways round a list were seen."""
        passed = [one.means or one.api for one in verdicts if one.verdict == "by-passable"]
        found = self.product.evidence
        titles = {title for api in passed for title in (found.titles(api) if found else ())}
        return [f"ways round a list were seen in: {'; '.join(sorted(titles))}"] if titles else []

    def validate(self, text: str) -> list[str]:
        """Problems of a list, the ones that the product would pass over silently included."""
        return list(self.read(text, None).problems)


def choose(
    actions: Sequence[ApiAction], controls: Sequence[Control], product: Product
) -> list[Control]:
    """Find controls that hide the blocked APIs at the least cost to others, in their own order.

    For each blocked API the control is taken that changes the fewest allowed candidates, and among
    those the fewest other APIs. Where nothing hides the API, one that weakens it is taken, unless
    that would change an allowed one.
    """
    blocked, allowed = _divided(actions)
    chosen: list[Control] = []
    for api in blocked:
        if effect_of(api, chosen, product) in HIDING:
            continue
        # First what hides, or is said to; of the rest the strongest. Then the fewest allowed APIs,
        # the fewest others, and the order of the table, so that the same decision has one list.
        costs = [
            (
                effect not in _SOUGHT,
                effect not in _SOUGHT and EFFECTS.index(effect),
                len(changed_by([control], allowed, product)),
                len(collateral([control], blocked, allowed, product)),
                position,
            )
            for position, control in enumerate(controls)
            if (effect := effect_of(api, [control], product)) and control.effect_on(api)
        ]
        if costs and (not min(costs)[0] or not min(costs)[2]):
            chosen.append(controls[min(costs)[-1]])
    needed = _without_redundant(list(dict.fromkeys(chosen)), blocked, product)
    return sorted(needed, key=controls.index)


def is_worth_it(control: Control, blocked: Sequence[str], product: Product) -> bool:
    """Whether a control keeps at least as many of some APIs from scripts as it stops pages.

    Scripts that read them in the usual way: most filter rules hide nothing from the others.
    """
    hidden = sum(effect_of(api, [control], product) in _KEPT_FROM_SOME for api in blocked)
    return len(_stops([control], product)) <= hidden


def _adds(control: Control, api: str, in_force: Sequence[Control], product: Product) -> bool:
    """Whether a control keeps an API from more scripts than those in force do."""
    before, after = effect_of(api, in_force, product), effect_of(api, [*in_force, control], product)
    if before not in _KEPT_FROM_SOME or after in HIDING:
        return after in _KEPT_FROM_SOME and after != before
    found = product.evidence
    if found is None or control.effect_on(api) not in _KEPT_FROM_SOME:
        return False
    closed = found.closed(names([*in_force, control])) - found.closed(names(in_force))
    return not closed.isdisjoint(found.ways_of(api))


def _stops(controls: Iterable[Control], product: Product) -> tuple[str, ...]:
    return product.evidence.breaks(names(controls)) if product.evidence else ()


def _divided(actions: Sequence[ApiAction]) -> tuple[list[str], list[str]]:
    """Blocked and allowed APIs: one of which the log has several columns needs them all allowed."""
    blocked = list(dict.fromkeys(entry.means for entry in actions if entry.is_withheld))
    allowed = [entry.means for entry in actions if entry.means not in blocked]
    return blocked, list(dict.fromkeys(allowed))


def changed_by(
    controls: Iterable[Control], apis: Iterable[str], product: Product = BELIEVED
) -> list[str]:
    """Those of some APIs whose value the controls change."""
    # Without what the product lacks: an API that is not there is not changed.
    controls, product = list(controls), Product(evidence=product.evidence)
    return [api for api in apis if effect_of(api, controls, product) not in {None, "unchanged"}]


def collateral(
    controls: Sequence[Control],
    blocked: Iterable[str],
    allowed: Iterable[str],
    product: Product = BELIEVED,
) -> tuple[str, ...]:
    """APIs that controls change though they were not to be blocked, sorted.

    An API of which only a blocked selector is hidden is none of them, nor a selector of a blocked
    API that is no candidate.
    """
    blocked = set(blocked)
    whole = {api.partition("#")[0] for api in blocked}
    known = {api for control in controls for api in control.effects}
    if product.evidence is not None:
        known |= product.evidence.siblings(control.name for control in controls)
    known = {api for api in known if api.partition("#")[0] not in blocked}
    return tuple(
        sorted(
            api
            for api in changed_by(controls, {*known, *allowed} - blocked, product)
            if not (api in whole and effect_of(api, controls, product) == "coarsened")
        )
    )


def judge(
    action: ApiAction,
    actions: Sequence[ApiAction],
    chosen: Sequence[Control],
    product: Product,
) -> ApiVerdict:
    """Verdict on one API when `chosen` are set."""
    api = action.means
    acting = [control for control in chosen if control.effect_on(api)]
    effect = effect_of(api, chosen, product)
    decided = ApiVerdict(
        api=action.api, means=other_name(action), outcome=action.outcome, verdict="exact"
    )
    if effect is None and not is_known(api):
        return replace(decided, verdict="unknown", note=_unknown(action.api))
    if not action.is_withheld:
        changed = bool(changed_by(chosen, [api], product))
        return replace(
            decided,
            verdict="over-blocking" if changed else "exact",
            effect=effect,
            controls=names(acting),
            note=_CHANGED * changed,
        )
    ways = _ways(api, actions, chosen, product) if effect in {*HIDING, "evaded"} else []
    if ways:
        effect = "evaded"
    if effect not in HIDING:
        return replace(
            decided,
            verdict=_SHORT_OF_HIDING.get(effect, "impossible"),
            effect=effect,
            controls=names(acting),
            collateral=collateral(acting, *_divided(actions), product) if ways else (),
            breaks=_stops(acting, product),
            note=_way_round(ways) or _notes_of(acting) or _REASONS.get(effect, _NO_CONTROL),
        )
    hiding = [control for control in acting if control.hides(api)]
    others = collateral(hiding, *_divided(actions), product)
    return replace(
        decided,
        verdict="over-blocking" if others else "exact",
        effect=effect,
        controls=names(hiding),
        collateral=others,
        breaks=_stops(hiding, product),
        note=_notes_of(hiding) if hiding else "the product does not have it",
    )


def _unknown(name: str) -> str:
    """Say that nobody knows a name, and what it may be."""
    found = meanings(name)
    close = f"it may be {' or '.join(found)}" if found else ""
    if not found and (near := nearest(name)):
        close = f"nearest: {', '.join(near)}"
    return "; ".join(filter(None, ["name not known to fpmonitor", close]))


def _ways(
    api: str, actions: Sequence[ApiAction], chosen: Sequence[Control], product: Product
) -> list[str]:
    """Return what still tells what an API tells, but for APIs that were decided on themselves."""
    meant = {entry.means for entry in actions} | {api}
    others = still_told(tellers(meant, str, product)[api], chosen, product)
    still: frozenset[Way] = frozenset()
    if product.evidence is not None:
        still = product.evidence.ways_of(api) - product.evidence.closed(names(chosen))
    places = sorted({place for *_, place in still})
    readers = [one if isinstance(one, str) else one[2] for one in others]
    return list(dict.fromkeys([*places, *readers]))


def _way_round(ways: Sequence[str]) -> str:
    """Say how a page reads an API beside controls that do not close every way."""
    if not ways:
        return ""
    more = f" and {len(ways) - _MOST_WAYS:,} others" if len(ways) > _MOST_WAYS else ""
    return f"ways round it: {', '.join(ways[:_MOST_WAYS])}{more}"


def _notes_of(controls: Iterable[Control]) -> str:
    return "; ".join(dict.fromkeys(control.note for control in controls if control.note))


def _without_redundant(
    chosen: Sequence[Control], blocked: Sequence[str], product: Product
) -> list[Control]:
    """Leave out controls without which every blocked API fares as well, the broadest first."""
    remaining = list(chosen)
    for control in sorted(chosen, key=lambda control: -len(control.effects)):
        rest = [other for other in remaining if other is not control]
        if all(_fate(api, rest, product) == _fate(api, remaining, product) for api in blocked):
            remaining = rest
    return remaining


def _fate(api: str, controls: Sequence[Control], product: Product) -> str | None:
    effect = effect_of(api, controls, product)
    return "hidden" if effect in HIDING else effect


def _comments(
    verdicts: Sequence[ApiVerdict], guarantee: str, headline: Headline | None, replaced: str
) -> tuple[str, ...]:
    blocked = [entry for entry in verdicts if entry.is_withheld]
    unknown = [entry.api for entry in blocked if entry.verdict == "unknown"]
    missed = [entry.api for entry in blocked if not entry.enforced and entry.api not in unknown]
    lines = ["fpmonitor block list", *filter(None, [replaced])]
    if headline is not None:
        promised = [guarantee] * headline.keeps_promise
        lines += [*headline.texts, *promised, headline.scope]
    if missed:
        lines.append(f"Still readable: {', '.join(missed)}")
    if unknown:
        lines.append(
            "Names not known to fpmonitor, so that nothing is done about them: "
            f"{', '.join(unknown)}"
        )
    # Names come from the logs of strangers: after a line end the rest would be a rule.
    return tuple(printable(line) for line in lines)
