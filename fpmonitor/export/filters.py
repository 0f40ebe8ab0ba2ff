"""Filter lists of uBlock Origin and AdGuard: scriptlets that need no trust, and header rules.

Both pass over slips in silence: an unknown constant makes the value undefined, an unknown scriptlet
does nothing, an accessor set on a prototype breaks pages with "Illegal invocation".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from fpmonitor.export.controls import Control, controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec
from fpmonitor.export.exporter import ParsedList, lines_of, may_match, site_matches

SCRIPTLETS = "scriptlet"
_ALIASES = {
    "set": "set-constant",
    "aopr": "abort-on-property-read",
}
_CONSTANTS = {
    "undefined", "false", "true", "null", "''", "[]", "{}", "noopFunc", "trueFunc", "falseFunc",
    "throwFunc", "",
}  # fmt: skip
_LARGEST = 32767
_TO_ADGUARD = {"''": "", "[]": "emptyArr", "{}": "emptyObj"}
_WRAPPERS = {
    "function": "asFunction",
    "callback": "asCallback",
    "resolved": "asResolved",
    "rejected": "asRejected",
}
_UBLOCK_SCRIPTLET = re.compile(r"(?P<domains>[^#\s]*)#(?P<exception>@?)#\+js\((?P<call>.*)")
_ADGUARD_SCRIPTLET = re.compile(
    r"(?P<domains>[^#\s]*)#(?P<exception>@?)%#//scriptlet\((?P<call>.*)"
)
_PAGE_EXCEPTION = re.compile(r"(?P<pattern>@@[^$\s]*)\$(?P<options>\S+)")
_HEADER_RULE = re.compile(r"(?P<pattern>[^$\s]*)\$(?P<options>\S*(?:permissions|removeheader)=\S+)")

_OF_PAGES = frozenset({"document", "doc"})  # an exception with one of these takes all from a page
_LONGEST = 10_000  # characters of a rule; a longer line is no rule of ours
# Options that take nothing from a rule for pages; `badfilter` takes the rule itself.
_WIDE_OPTIONS = frozenset(
    {"permissions", "removeheader", "doc", "document", "subdocument", "frame", "important", "all"}
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule about one control, as a list contains it."""

    domains: tuple[str, ...]
    exception: bool
    control: Control | None
    problem: str = ""
    lifts: tuple[str, ...] = ()  # families of which it excepts all

    def holds_on(self, site: str | None) -> bool:
        """Whether the rule is in force on a site (null: on all sites; an exception: on any)."""
        wanted = [domain for domain in self.domains if not domain.startswith("~")]
        spared = [domain[1:] for domain in self.domains if domain.startswith("~")]
        spares: Callable[[str | None, str], bool] = may_match
        meets: Callable[[str | None, str], bool] = site_matches
        # Doubt goes against the list: a rule holds only where it surely does.
        if self.exception:  # what lifts another rule counts wherever it may
            spares, meets = site_matches, may_match
        if any(spares(site, domain) for domain in spared):
            return False
        return not wanted or "*" in wanted or any(meets(site, domain) for domain in wanted)


def write_ublock(order: ListSpec) -> str:
    """Write a list for uBlock Origin."""
    domain = order.options.site or "*"
    rules = [f"{domain}##+js({call})" for call in _calls(order)]
    permissions = "|".join(
        control.name.removeprefix("permissions=")
        for control in order.controls
        if control.family == "ublock"
    )
    if permissions:
        rules.append(f"{_pattern(order)}$doc,permissions={permissions}")
    return _filter_list(order, rules)


def write_adguard(order: ListSpec) -> str:
    """Write a list for AdGuard."""
    domain = order.options.site or ""
    rules = [
        f"{domain}#%#//scriptlet({', '.join(map(_quoted, _adguard_call(call)))})"
        for call in _calls(order)
    ]
    rules += [
        f"{_pattern(order)}${control.name}"
        for control in order.controls
        if control.family == "adguard"
    ]
    return _filter_list(order, rules)


def read_ublock(text: str, site: str | None) -> ParsedList:
    """Read a list for uBlock Origin; rules that are not about APIs are passed over."""
    return _read(text, site, _ublock_rules)


def read_adguard(text: str, site: str | None) -> ParsedList:
    """Read a list for AdGuard; rules that are not about APIs are passed over."""
    return _read(text, site, _adguard_rules)


def _filter_list(order: ListSpec, rules: Sequence[str]) -> str:
    title, *comments = order.comments
    header = [f"! Title: {title}", *(f"! {line}" for line in comments)]
    return "\n".join([*header, *rules]) + "\n"


def _calls(order: ListSpec) -> list[str]:
    return [
        call
        for control in order.controls
        if control.family == SCRIPTLETS
        for call in (control.name, *control.also)
    ]


def _pattern(order: ListSpec) -> str:
    return f"||{order.options.site}^" if order.options.site else "*"


def _adguard_call(name: str) -> list[str]:
    """Arguments of a scriptlet in AdGuard's words, from those of uBlock Origin."""
    scriptlet, *arguments = name.split(", ")
    call = [scriptlet, *(_TO_ADGUARD.get(argument, argument) for argument in arguments)]
    # AdGuard's `set-constant` has a place for a stack before that of the wrapper.
    if call[-2:-1] == ["as"]:
        call[-2:] = ["", _WRAPPERS[call[-1]]]
    return call


def _quoted(argument: str) -> str:
    return "'" + argument.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _read(text: str, site: str | None, rules_of: Callable[[str], Iterable[_Rule]]) -> ParsedList:
    on: dict[str, Control] = {}
    off: set[str] = set()
    problems = []
    for number, line, is_sure in _lines(text):
        for rule in rules_of(line):
            if rule.problem:
                problems.append(f"line {number}: {rule.problem}")
            if not rule.holds_on(site):
                continue
            off |= {control.name for control in controls_of(rule.lifts)}
            if rule.control is None:
                continue
            if not (is_sure or rule.exception):
                problems.append(f"line {number}: under a condition, so it counts as off")
            elif rule.exception:
                off.add(rule.control.name)
            else:
                on[rule.control.name] = rule.control
    controls = tuple(control for name, control in on.items() if name not in off)
    return ParsedList(controls=controls, problems=tuple(problems))


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the number and text of each rule, and whether it holds without a condition."""
    depth, hinted = 0, False
    for number, line in enumerate(map(str.strip, lines_of(text)), start=1):
        if line.startswith(("!#if", "!#endif")):
            depth += 1 if line.startswith("!#if") else -1
        elif line.startswith("!"):
            hinted = line.startswith("!+")
        elif line and len(line) <= _LONGEST:
            yield number, line, depth <= 0 and not hinted
            hinted = False


def _ublock_rules(line: str) -> Iterable[_Rule]:
    if match := _UBLOCK_SCRIPTLET.match(line):
        arguments = _arguments(match["call"], quotes=False)
        yield _scriptlet_rule(match, arguments)
    elif match := _HEADER_RULE.fullmatch(line):
        named: list[str] = []
        for option in match["options"].split(","):
            if option.startswith("permissions="):
                for directive in option.removeprefix("permissions=").split("|"):
                    named.append(f"permissions={directive}")
        yield from _header_rules(match, "ublock", named)
    elif match := _PAGE_EXCEPTION.fullmatch(line):
        yield from _excepted(match, {"ublock": _OF_PAGES, SCRIPTLETS: _OF_PAGES})


def _adguard_rules(line: str) -> Iterable[_Rule]:
    if match := _ADGUARD_SCRIPTLET.match(line):
        arguments = _arguments(match["call"], quotes=True)
        yield _scriptlet_rule(match, None if arguments is None else _ublock_call(arguments))
    elif match := _HEADER_RULE.fullmatch(line):
        options = match["options"].split(",")
        named = [option for option in options if option.startswith("removeheader=")]
        yield from _header_rules(match, "adguard", named)
    elif match := _PAGE_EXCEPTION.fullmatch(line):
        scripts = _OF_PAGES | {"jsinject"}
        yield from _excepted(match, {"adguard": _OF_PAGES | {"urlblock"}, SCRIPTLETS: scripts})


def _excepted(match: re.Match[str], lifting: Mapping[str, Collection[str]]) -> Iterator[_Rule]:
    """Read an exception for whole pages: family -> options; a pattern may mean any site."""
    options = set(match["options"].split(","))
    if lifted := tuple(name for name, by in lifting.items() if options.intersection(by)):
        domains = _domains(match["pattern"])
        yield _Rule(
            ("*",) if "-" in domains else domains, exception=True, control=None, lifts=lifted
        )


def _header_rules(match: re.Match[str], family: str, named: Iterable[str]) -> Iterator[_Rule]:
    """Read a rule on headers: with options that narrow it, it counts as off."""
    options = {option.partition("=")[0] for option in match["options"].split(",")}
    exception = match["pattern"].startswith("@@") or "badfilter" in options
    narrowing = sorted(options - _WIDE_OPTIONS)
    if narrowing and not exception:
        yield _Rule((), exception, None, f"{narrowing[0]}: narrows the rule, so it counts as off")
        return
    known = {control.name: control for control in controls_of([family])}
    for name in dict.fromkeys(named):
        if name in known:
            yield _Rule(_domains(match["pattern"]), exception, known[name])


def _scriptlet_rule(match: re.Match[str], arguments: list[str] | None) -> _Rule:
    domains = tuple(domain for domain in match["domains"].split(",") if domain)
    exception = bool(match["exception"])
    if arguments is None:
        return _Rule(domains, exception, None, "the closing bracket is missing; the rule is void")
    if not arguments or not arguments[0]:
        return _Rule(domains, exception, None, lifts=(SCRIPTLETS,) * exception)
    name = arguments[0].removesuffix(".js").removeprefix("ubo-")
    call = [_ALIASES.get(name, name), *arguments[1:]]
    if problem := _problem(call):
        return _Rule(domains, exception, None, problem)
    return _Rule(domains, exception, _scriptlets().get(tuple(_key(call))))


def _problem(call: Sequence[str]) -> str:
    """Why a call does nothing or harm, or the empty string."""
    if call[0].startswith("trusted-"):
        return f"{call[0]} works in lists that the user trusts only"
    if call[0] != "set-constant":
        return ""
    if len(call) < 3:
        return "set-constant needs a property and a value"
    path, constant = call[1], call[2]
    legal = constant in _CONSTANTS or (
        re.fullmatch(r"-?\d{1,9}", constant) and abs(int(constant)) <= _LARGEST
    )
    if not legal:
        return f"{constant!r} is not a constant; {path} would read undefined"
    member = re.sub(r"\.prototype\.", ".", path)
    if member != path and ("set-constant", path) not in _scriptlets() and _is_accessor(member):
        return f"{path} is an accessor; set on the prototype it breaks pages"
    return ""


def _is_accessor(member: str) -> bool:
    """Whether a member is set on an instance by one of our controls, and so is not a method."""
    return any(
        member in control.effects
        for key, control in _scriptlets().items()
        if key[0] == "set-constant" and ".prototype." not in key[1] and "as, " not in control.name
    )


@cache
def _scriptlets() -> dict[tuple[str, ...], Control]:
    return {tuple(_key(control.name.split(", "))): control for control in controls_of([SCRIPTLETS])}


def _key(call: Sequence[str]) -> Sequence[str]:
    """Scriptlet and property: any constant is as good as another."""
    if call[0] == "nowebrtc":
        return ("set-constant", "RTCPeerConnection")
    if call[0] == "prevent-canvas" and len(call) == 1:
        return ("prevent-canvas", "/webgl/")  # without an argument no canvas has any context
    return call[:2]


def _domains(pattern: str) -> tuple[str, ...]:
    """Domains of a network rule whose pattern is a host name or everything."""
    host = re.fullmatch(r"(?:@@)?\|\|([\w.-]+)\^", pattern)
    # Of any other pattern nobody can tell: `~*` spares all sites, `-` is none.
    return (host[1],) if host else ("*",) if pattern in {"", "*", "@@*", "@@"} else ("~*", "-")


def _arguments(call: str, *, quotes: bool) -> list[str] | None:
    """Arguments up to the closing bracket; null where it is missing."""
    if not call.endswith(")"):
        return None
    body = call[:-1]
    if quotes:
        found = re.findall(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", body)
        return [re.sub(r"\\(.)", r"\1", single or double) for single, double in found]
    # A comma behind a backslash is part of an argument.
    return [argument.strip() for argument in re.split(r"(?<!\\),", body)]


def _ublock_call(arguments: Sequence[str]) -> list[str]:
    """Arguments in uBlock Origin's words, from those of AdGuard."""
    back = {name: constant for constant, name in _TO_ADGUARD.items()}
    head, rest = list(arguments[:3]), arguments[3:]
    if len(head) == 3:
        head[2] = back.get(head[2], head[2])
    return [*head, *rest]


_NOTES = (
    "Scriptlets do not reach workers, and act in the page after it started.",
    "uBlock Origin runs in full on Firefox and on Chromium forks with Manifest V2.",
)

UBLOCK = ControlExporter(
    name="ublock",
    summary="filter list for uBlock Origin, without rules that need trust",
    families=(SCRIPTLETS, "ublock"),
    write=write_ublock,
    read=read_ublock,
    notes=_NOTES,
)
ADGUARD = ControlExporter(
    name="adguard",
    summary="filter list for AdGuard",
    families=(SCRIPTLETS, "adguard"),
    write=write_adguard,
    read=read_adguard,
    notes=_NOTES[:1],
)
