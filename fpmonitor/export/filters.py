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
from fpmonitor.export.exporter import ParsedList, is_site, may_match, site_matches

SCRIPTLETS = "scriptlet"
_ALIASES = {
    "set": "set-constant",
    "aopr": "abort-on-property-read",
}
_CONSTANTS = {
    "undefined", "false", "true", "null", "''", "[]", "{}", "emptyArr", "emptyObj", "noopFunc",
    "trueFunc", "falseFunc", "throwFunc", "",
}  # fmt: skip
_LARGEST = 32767
# AdGuard sets no constant of another kind than the value has: `null`, an object, beside no text.
_TO_ADGUARD = {"''": "", "[]": "emptyArr", "{}": "emptyObj", "null": "undefined"}
_KINDS_IN_ADGUARD = {
    "undefined": "undefined", "": "string", "yes": "string", "no": "string", "-1": "number",
    "true": "boolean", "false": "boolean", "null": "object", "emptyArr": "object",
    "emptyObj": "object",
} | dict.fromkeys((
    "noopFunc", "noopCallbackFunc", "trueFunc", "falseFunc", "throwFunc", "noopPromiseResolve",
    "noopPromiseReject",
), "function")  # fmt: skip
_WRAPPERS = {
    "function": "asFunction",
    "callback": "asCallback",
    "resolved": "asResolved",
    "rejected": "asRejected",
}
_UBLOCK_SCRIPTLET = re.compile(r"(?P<domains>.*?)#(?P<exception>@?)#\+js\((?P<call>.*)")
_ADGUARD_SCRIPTLET = re.compile(r"(?P<domains>.*?)#(?P<exception>@?)%#//scriptlet\((?P<call>.*)")
_HEADER_RULE = re.compile(r"(?P<pattern>[^$\s]*)\$(?P<options>\S*(?:permissions|removeheader)=\S+)")
_COMMENT = re.compile(r"\s#.*$")
_CONDITION = re.compile(r"(?:^|[\r\u2028\u2029])[ \t]*!#if")  # at beginnings of JavaScript's lines
_CONDITION_END = re.compile(r"!#endif\b")

_OF_PAGES = frozenset({"document", "doc"})  # an exception with one of these takes all from a page
_LONGEST = 10_000  # characters of a rule; a longer line is no rule of ours
# uBlock Origin 1.67 replaces the first `|` alone: browsers refuse a header with another one.
_MOST_PERMISSIONS = 2
# Options that take nothing from a rule on what pages answer, those of frames only beside one for
# pages; from one on requests they take all that pages load. `badfilter` takes the rule itself.
_OF_FRAMES = frozenset({"subdocument", "frame"})


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule about one control, as a list contains it."""

    domains: tuple[str, ...]
    exception: bool
    control: Control | None
    problem: str = ""
    lifts: tuple[str, ...] = ()  # families of which it excepts all
    part: Sequence[str] = ()  # of a control of several rules, the one that it is

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
    rules += [
        f"{_pattern(order)}$doc,{control.name}"
        for control in order.controls
        if control.family == "ublock"
    ]
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
    return _read([*_joined(text)], site, _ublock_rules)


def read_adguard(text: str, site: str | None) -> ParsedList:
    """Read a list for AdGuard; rules that are not about APIs are passed over."""
    return _read([*enumerate(_divided(text), start=1)], site, _adguard_rules)


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


def _read(
    numbered: Sequence[tuple[int, str]],
    site: str | None,
    rules_of: Callable[[str], Iterable[_Rule]],
) -> ParsedList:
    on: dict[str, Control] = {}
    parts: dict[str, set[Sequence[str]]] = {}
    off: set[str] = set()
    problems = [
        f"line {number}: takes in another list, which is not read here"
        for number, line in numbered
        if line.startswith("!#include ")
    ]
    for number, line, is_sure in _lines(numbered):
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
                parts.setdefault(rule.control.name, set()).add(rule.part)
    controls = tuple(
        control
        for name, control in on.items()
        if name not in off and len(parts[name]) == 1 + len(control.also)
    )
    return ParsedList(controls=controls, problems=tuple(problems))


def _divided(text: str) -> list[str]:
    """Divide a text as products do: a carriage return ends a line only where nothing else does."""
    return text.removeprefix("\ufeff").split("\n" if "\n" in text else "\r")


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of lines, those that go on behind their end joined: uBlock Origin."""
    lines, number = _divided(text), 0
    while number < len(lines):
        first, line = number, lines[number]
        number += 1
        while (
            line.endswith(" \\")
            and number < len(lines)
            and lines[number].startswith(" " * 4)
            and len(line) <= _LONGEST
        ):
            line = line[:-2].strip() + lines[number].strip()
            number += 1
        yield first + 1, line


def _lines(numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, bool]]:
    """Yield the number and text of each rule, and whether it surely holds without a condition."""
    depth, hinted = 0, False
    for number, line in numbered:
        # Doubt goes against the list: what may begin a condition does, what may end one does not.
        begins, ends = len(_CONDITION.findall(line)), _CONDITION_END.match(line)
        depth = max(depth - bool(ends), 0) + begins
        parts = [part for part in map(str.strip, line.split("\r")) if part]
        for part in parts:
            if not part.startswith("!"):
                yield number, part, not depth and not hinted and len(parts) == 1
                hinted = False
            elif not (begins or ends):
                hinted = part.startswith("!+")


def _ublock_rules(line: str) -> Iterable[_Rule]:
    if len(line) > _LONGEST:
        return _too_long(line, "ublock")
    if _is_scriptlet(line):
        return _scriptlet_rules(line, _UBLOCK_SCRIPTLET)
    if _is_exception(line):
        return _excepted(line, "ublock", {"ublock": {"permissions"}})
    if match := _HEADER_RULE.fullmatch(line):
        return _header_rules(match, "ublock", "permissions=")
    return ()


def _adguard_rules(line: str) -> Iterable[_Rule]:
    if len(line) > _LONGEST:
        return _too_long(line, "adguard")
    if _is_scriptlet(line):
        return _scriptlet_rules(line, _ADGUARD_SCRIPTLET)
    if _is_exception(line):
        headers = {"urlblock", "removeheader", "genericblock"}
        return _excepted(line, "adguard", {"adguard": headers, SCRIPTLETS: {"jsinject"}})
    if match := _HEADER_RULE.fullmatch(line):
        return _header_rules(match, "adguard", "removeheader=")
    return ()


def _too_long(line: str, family: str) -> Iterator[_Rule]:
    """Take a line that is too long to be read for an exception everywhere, if it is one."""
    if line.startswith("@@") or "#@#+js(" in line or "#@%#//scriptlet(" in line:
        problem = "too long to be read, so it counts as an exception for all sites"
        yield _Rule((), exception=True, control=None, problem=problem, lifts=(family, SCRIPTLETS))


def _is_exception(line: str) -> bool:
    return line.startswith("@@") or "badfilter" in line


def _excepted(line: str, family: str, lifting: Mapping[str, Collection[str]]) -> Iterator[_Rule]:
    """Read an exception for requests: family -> options that take all from it.

    A pattern may mean any site, and hold a `$` itself.
    """
    pattern, *rest = _COMMENT.sub("", line).split("$")
    options = set(",".join(rest).split(","))
    domains = _domains(pattern) if len(rest) == 1 else ()
    domains = () if "-" in domains else domains
    lifted = tuple(
        name
        for name in (family, SCRIPTLETS)
        if options & {*(_OF_PAGES if pattern.startswith("@@") else ()), *lifting.get(name, ())}
    )
    if lifted:
        yield _Rule(domains, exception=True, control=None, lifts=lifted)
    for control in controls_of([family]):
        if control.name.partition("=")[2] in line:
            yield _Rule(domains, exception=True, control=control)


def _header_rules(match: re.Match[str], family: str, option: str) -> Iterator[_Rule]:
    """Read a rule on headers: with options that narrow it, it counts as off."""
    options = match["options"].split(",")
    if narrowing := _narrowing(options, option.removesuffix("=")):
        yield _void((), f"{narrowing}: narrows the rule or voids it, so it counts as off")
        return
    known = {control.name: control for control in controls_of([family])}
    for one in options:
        value = one.removeprefix(option)
        directives = value.split("|") if family == "ublock" else [value]
        if not one.startswith(option):
            continue
        if len(directives) > _MOST_PERMISSIONS:
            yield _void((), f"{len(directives)} permissions in a rule: browsers refuse the header")
            return
        for directive in dict.fromkeys(directives):
            if control := known.get(option + directive):
                yield _Rule(_domains(match["pattern"]), exception=False, control=control)


def _narrowing(options: Sequence[str], own: str) -> str:
    """Name an option that takes pages from a rule, or the rule itself; empty where none does."""
    names = [one.partition("=")[0] for one in options]
    wide = {own, "important"} | (_OF_PAGES if own == "permissions" else frozenset())
    # uBlock Origin 1.67 refuses an `all` behind the option of headers, and two of these.
    if "all" in names[: names.index(own) if own in names else 0]:
        wide |= {"all"} | _OF_FRAMES
    if _OF_PAGES & {*names}:
        wide |= _OF_FRAMES
    return own if names.count(own) > 1 else min({*names} - wide, default="")


def _void(domains: tuple[str, ...], problem: str) -> _Rule:
    return _Rule(domains, exception=False, control=None, problem=problem)


def _is_scriptlet(line: str) -> bool:
    return bool(_UBLOCK_SCRIPTLET.match(line) or _ADGUARD_SCRIPTLET.match(line))


def _scriptlet_rules(line: str, own: re.Pattern[str]) -> Iterator[_Rule]:
    """Read a rule for a scriptlet: of one in the other product's words only what it excepts."""
    for pattern in (_UBLOCK_SCRIPTLET, _ADGUARD_SCRIPTLET):
        match = pattern.match(line)
        if not match or not (pattern is own or match["exception"]):
            continue
        is_adguard = pattern is _ADGUARD_SCRIPTLET
        arguments = _arguments(match["call"], quotes=is_adguard)
        yield _scriptlet_rule(match, arguments, is_adguard=is_adguard)


def _scriptlet_rule(
    match: re.Match[str], arguments: list[str] | None, *, is_adguard: bool
) -> _Rule:
    """Read a call of a scriptlet, in the words of one of both products."""
    domains = tuple(match["domains"].split(",")) if match["domains"] else ()
    if arguments is None:
        return _void(domains, "the closing bracket is missing; the rule is void")
    given, *rest = arguments or [""]
    name = given.removesuffix(".js").removeprefix("ubo-")
    call = [_ALIASES.get(name, name), *rest]
    part = tuple(_key(call))
    control = _scriptlets().get(part)
    if match["exception"]:
        # One without arguments may be meant for all calls.
        ours = {"", *(key[0] for key in _scriptlets())}
        lifts = (SCRIPTLETS,) * (control is None and len(call) == 1 and call[0] in ours)
        return _Rule(tuple(filter(None, domains)), exception=True, control=control, lifts=lifts)
    problem = _slip(call) or (
        _slip_in_adguard(call, control, given)
        if is_adguard
        else _slip_in_ublock(call, given) or _slip_of_domains(domains)
    )
    if problem:
        return _void(domains, problem)
    # One domain that is none voids the rule. `*` is none in AdGuard: without any it acts on all.
    nowhere = {"*", "~*"} if is_adguard else set[str]()
    if strange := [one for one in domains if one in nowhere or not _is_domain(one)]:
        return _void(domains, f"{strange[0]!r} is not a domain, so the rule counts as off")
    return _Rule(domains, exception=False, control=control, part=part)


def _is_domain(text: str) -> bool:
    name = text.removeprefix("~")
    is_entity = name.endswith(".*") and is_site(f"{name[:-1]}example")
    return text == "*" or is_site(name) or is_entity


def _slip(call: Sequence[str]) -> str:
    """Why a call does nothing or harm, or the empty string."""
    if call[0].startswith("trusted-"):
        return f"{call[0]} works in lists that the user trusts only"
    if call[0] != "set-constant":
        return ""
    if len(call) < 3:
        return "set-constant needs a property and a value"
    path = call[1]
    member = re.sub(r"\.prototype\.", ".", path)
    if member != path and ("set-constant", path) not in _scriptlets() and _is_accessor(member):
        return f"{path} is an accessor; set on the prototype it breaks pages"
    return ""


def _slip_in_ublock(call: Sequence[str], given: str) -> str:
    """Why a call does nothing, or late, in uBlock Origin."""
    if given.startswith("ubo-"):
        return f"{given}: AdGuard's name of a scriptlet, so the rule counts as off"
    if call[0] != "set-constant":
        return ""
    path, constant, *more = call[1:]
    if not (constant in _CONSTANTS or _is_number(constant)):
        return f"{constant!r} is not a constant; {path} would read undefined"
    # With `runAt` scripts at the beginning of a page read what is there.
    late = {*more[::2]} - {"", "as"}
    return f"{path}: set with {min(late)}, so the rule counts as off" if late else ""


def _slip_of_domains(domains: Sequence[str]) -> str:
    names_none = all(one.startswith("~") for one in domains)
    return "names no site to act on; uBlock Origin passes it over" if names_none else ""


def _slip_in_adguard(call: Sequence[str], control: Control | None, given: str) -> str:
    """Why a call does nothing, or not for all, in AdGuard: by the source of its scriptlets 2.3.1.

    Under its own name, not under one of uBlock Origin, the fourth argument of `set-constant` is
    what the stack of the scripts holds that are meant.
    """
    if given in _ALIASES:  # with `.js`, or `ubo-` before them, they are names there, too
        return f"{given}: no scriptlet of AdGuard, so the rule counts as off"
    if call[0] != "set-constant":
        return ""
    path, constant, *more = call[1:]
    if not (constant in _KINDS_IN_ADGUARD or (constant.isdigit() and _is_number(constant))):
        return f"{constant!r} is not a constant of AdGuard, so {path} stays"
    is_own = given == call[0]
    if is_own and any(more[:1]):
        return f"{path}: for scripts with {more[0]} in their stack alone, so it counts as off"
    if control is None:
        return ""
    kind = _kind_in_adguard(constant, more[1:2] if is_own else more[:1])
    _, _, own, *beside = _adguard_call(control.name)
    is_kept = kind not in {"undefined", _kind_in_adguard(own, beside[1:])}
    return f"{path} stays, as {constant!r} is of another kind" if is_kept else ""


def _kind_in_adguard(constant: str, wrapper: Sequence[str]) -> str:
    """Kind of value in JavaScript that a constant is, as it is or wrapped."""
    if {*wrapper} & {*_WRAPPERS.values()}:
        return "function" if {*wrapper} <= {"asFunction", "asCallback"} else "object"
    return _KINDS_IN_ADGUARD.get(constant, "number")


def _is_number(constant: str) -> bool:
    return bool(re.fullmatch(r"-?[0-9]{1,9}", constant)) and abs(int(constant)) <= _LARGEST


def _is_accessor(member: str) -> bool:
    """Whether a member is set on an instance by one of our controls, and so is not a method."""
    return any(
        member in control.effects
        for key, control in _scriptlets().items()
        if key[0] == "set-constant" and ".prototype." not in key[1] and "as, " not in control.name
    )


@cache
def _scriptlets() -> dict[tuple[str, ...], Control]:
    return {
        tuple(_key(call.split(", "))): control
        for control in controls_of([SCRIPTLETS])
        for call in (control.name, *control.also)
    }


def _key(call: Sequence[str]) -> Sequence[str]:
    """Scriptlet and property: any constant is as good as another."""
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
    arguments = (argument.strip() for argument in re.split(r"(?<!\\),", body))
    return [re.sub(r"""^(['"`])(.*)\1$""", r"\2", argument) for argument in arguments]


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
