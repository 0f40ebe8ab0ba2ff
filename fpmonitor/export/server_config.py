"""Configurations of web servers: which values of a header they send with every page of a site.

nginx, Apache and Caddy, as far as a policy needs. Doubt goes against the header: one that is named
in another way, in a part of the site, or twice with other values, counts as not sent.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# What Caddy fills in, `{uri}`, opens no block. Quotes and comments begin where a word does: behind
# `/a#b` a block goes on, and `o'brien` is a word.
_PIECE = re.compile(
    r"""(?<![^\s{};])(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|\#[^\n]*)"""
    r"""|\{[^\s{};"'\#]+\}|[{};\n]|[^"'`{};\#\n]+|["'`\#]""",
    re.DOTALL,
)
# Servers differ in where these end: a comment with a backslash, in Apache below it, and texts.
_DOUBTFUL = re.compile(r"^[ \t]*\#.*\\\r?$|[ \t]<<\w+[ \t\r]*$", re.MULTILINE)
_ADDED = re.compile(r"add_header\s+[\"']?(?P<name>[\w-]+)", re.IGNORECASE)
_CATCH_ALL = re.compile(r"location\s+/", re.IGNORECASE)
_HOST = re.compile(r"<VirtualHost\b.*", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:localhost\b|[^\s(&@<]*[.:$*]).*", re.IGNORECASE | re.DOTALL)
# Other blocks of Apache and Caddy send a header from a part of a site alone, or under a condition:
# without these modules there is no header, or no site.
_WHOLE = re.compile(
    r"header|<IfModule\s+[\"']?(?:mod_)?(?:headers|ssl)(?:\.c|_module)[\"']?\s*>", re.IGNORECASE
)
_SNIPPET = re.compile(r"\((?P<name>[^\s()]+)\)")  # of Caddy
# What an authority asks for there before it certifies a name is no page.
_CHALLENGES = re.compile(r"location\s+(?:\^~\s+)?/\.well-known/acme-challenge", re.IGNORECASE)
_CLEARED = re.compile(
    r"(?:more_clear_headers\b|(?:header(?:_down)?\s+(?:\S+\s+)?)?-).*\*|add_header_inherit\s+off",
    re.IGNORECASE,
)
_INCLUDED = re.compile(r"(?:include|includeoptional|import)\s+(?P<name>\S+)", re.IGNORECASE)
# A block with one of these has no pages, unless something else comes before it.
_RETURNED = re.compile(
    r"return\s+(?:30[12378]|4\d\d)\b|redir\s+https?://"
    r"|redirect\s+(?:(?:permanent|temp|seeother|30[12378])\s+)?/\s",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"rewrite|proxy", re.IGNORECASE)
_LACKS = "pages come without the header, so it counts as not sent"
_ALONE = "a block with headers of its own sends none of those above"
_SEVERAL = "the header is set several times, with other values"


class _Block(NamedTuple):
    number: int
    around: int  # Number of the block around it; -1: none.
    head: str
    line: int


class _Statement(NamedTuple):
    number: int  # Of its line.
    text: str
    block: _Block


def sent_everywhere(text: str, header: str) -> tuple[Sequence[str], Sequence[str]]:
    """Read which values of a header every page has, which browsers join, and what is wrong.

    None where that is in doubt.
    """
    if doubtful := _doubtful(text):
        line = text.count("\n", 0, doubtful.start()) + 1
        return (), [f"line {line}: servers differ in where it ends, so nothing is read"]
    statements, blocks = _parse(text)
    own = {one.head for one in blocks if _SNIPPET.fullmatch(one.head)}
    problems = [
        f"line {one.number}: takes in another file, which is not read here"
        for one in statements
        if (taken_in := _INCLUDED.match(one.text)) and f"({taken_in['name']})" not in own
    ]
    values: dict[int, list[str]] = {}  # by block
    named = re.compile(rf"(?<!\w){header}(?![\w-])", re.IGNORECASE)
    # Of what an application sends: the one that is added is sent instead.
    hidden = re.compile(rf"[a-z]+_hide_header\s+[\"']?{header}[\"']?", re.IGNORECASE)
    for one in statements:
        if _CLEARED.match(one.text):
            return (), [*problems, f"line {one.number}: may take the header away"]
        if not named.search(one.text) or hidden.fullmatch(one.text):
            continue
        setting = _setting(one, header)
        if setting is None:
            found = f"line {one.number}: not understood, so the header counts as not sent"
            return (), [*problems, found]
        value, always = setting
        if not always:
            problems.append(f"line {one.number}: pages of errors come without it (no `always`)")
        values.setdefault(one.block.number, []).append(value)
    if not values:
        return (), problems
    is_nginx = any(_ADDED.match(one.text) for one in statements)
    lacking = (_lacking_in_nginx if is_nginx else _lacking)(statements, blocks, values)
    if lacking:
        return (), [*problems, lacking]
    return next(iter(values.values())), problems


def _setting(one: _Statement, header: str) -> tuple[str, bool] | None:
    """Read a statement that sets the header, as each server words it; null where it does not.

    The value, and whether pages of errors have it, too.
    """
    name = rf"[\"']?{header}[\"']?"
    forms = [
        rf"(?P<nginx>add_header)\s+{name}",
        rf"(?P<apache>header)(?P<always>\s+always)?\s+set\s+{name}",
        rf"header\s+{header}",
    ]
    if one.block.head.lower() == "header":
        forms.append(rf"\+?{header}")
    for form in forms:
        if match := re.match(rf"{form}\s+", one.text, re.IGNORECASE):
            found, value = match.groupdict(), one.text[match.end() :]
            always = not found.get("apache") or bool(found["always"])
            if found.get("nginx"):
                always = value.endswith((" always", "\talways"))
                value = value.removesuffix("always") if always else value
            return _unquoted(value), always
    return None


def _lacking_in_nginx(
    statements: Iterable[_Statement], blocks: Sequence[_Block], values: Mapping[int, list[str]]
) -> str:
    """Say which block does not send the values; empty where all do that serve pages."""
    added = {one.block.number for one in statements if _ADDED.match(one.text)}
    # These serve nothing themselves: `location /` takes the rest of the block around it.
    idle = _redirecting(statements) | {
        one.around for one in blocks if _CATCH_ALL.fullmatch(one.head)
    }
    sent: dict[int, list[str]] = {-1: []}
    for one in blocks:
        # A block with headers of its own sends none of those above.
        sent[one.number] = values.get(one.number, []) if one.number in added else sent[one.around]
    first = next(iter(values.values()))
    for one in _within_sites(blocks):
        is_idle = one.number in idle or _CHALLENGES.match(one.head)
        if not is_idle and sent[one.number] != first:
            alone = _ALONE if one.number in added else _LACKS
            return f"line {one.line}: {_SEVERAL if sent[one.number] else alone}"
    return ""


def _within_sites(blocks: Sequence[_Block]) -> Sequence[_Block]:
    """Blocks of nginx that may serve pages: those of servers, where none is those of `http`."""
    for head in ("server", "http"):
        within: set[int] = set()
        for one in blocks:
            if one.head.lower() == head or one.around in within:
                within.add(one.number)
        if within:
            return [one for one in blocks if one.number in within]
    return blocks


def _lacking(
    statements: Iterable[_Statement], blocks: Sequence[_Block], values: Mapping[int, list[str]]
) -> str:
    """Say where Apache or Caddy do not send the values; empty where every site does."""
    site_of: dict[int, int] = {-1: 0}  # or the snippet around a block
    sites: list[_Block] = []
    snippets: dict[str, int] = {}
    partial: set[int] = set()
    # Where one block at the top is a site by its address, the others are, too, whatever their name.
    is_of_sites = any(_ADDRESS.fullmatch(one.head) for one in blocks if not one.around)
    address = re.compile(r"[^(&<].*", re.DOTALL) if is_of_sites else _ADDRESS
    for one in blocks:
        is_snippet = not one.around and bool(_SNIPPET.fullmatch(one.head))
        snippets |= {one.head: one.number} if is_snippet else {}
        is_address = not one.around and bool(address.fullmatch(one.head))
        is_site = is_address or bool(_HOST.fullmatch(one.head))
        sites += [one] * is_site
        is_apart = is_site or is_snippet
        site_of[one.number] = one.number if is_apart else site_of[one.around]
        has_path = is_address and "/" in one.head.replace("://", "")
        is_whole = is_apart or not one.number or bool(_WHOLE.fullmatch(one.head))
        if has_path or not is_whole or one.around in partial:
            partial.add(one.number)
    for one in blocks:
        if one.number in values and one.number in partial:
            return f"line {one.line}: a part of the site alone, so the header counts as not sent"
    sending = {site_of[number] for number in values}
    for each in statements:
        taken_in = _INCLUDED.match(each.text)
        if taken_in and each.block.number not in partial:
            snippet = snippets.get(f"({taken_in['name']})")
            sending |= {site_of[each.block.number]} if snippet in sending else set()
    sending -= {*snippets.values()}
    passed = _redirecting(statements)
    for one in sites:
        if not (sending & {0, one.number} or one.number in passed):
            return f"line {one.line}: a site whose {_LACKS}"
    if not sending:
        return "no site sends the header"
    # One value is kept, and which is open.
    return _SEVERAL if len({*chain(*values.values())}) > 1 else ""


def _doubtful(text: str) -> re.Match[str] | None:
    """Find what one server takes for a comment or a text, and another one does not."""
    for piece in _PIECE.finditer(text):
        is_text = piece[0][0] in "\"'`" and "\n" in piece[0]
        if is_text and {*"{}<"} & {*piece[0]}:
            return piece
    return _DOUBTFUL.search(text)


def _redirecting(statements: Iterable[_Statement]) -> set[int]:
    """Numbers of the blocks that send every request elsewhere, or refuse it."""
    returned = {one.block.number for one in statements if _RETURNED.match(one.text)}
    return returned - {one.block.number for one in statements if _BEFORE.match(one.text)}


def _parse(text: str) -> tuple[list[_Statement], list[_Block]]:
    """Divide a text into statements, which end with a line, a semicolon or a bracket."""
    around = [_Block(0, -1, "", 1)]
    blocks = [*around]
    statements: list[_Statement] = []
    words: list[str] = []
    number = 1
    last = ""
    for piece in [*_PIECE.findall(text), "\n"]:
        if piece.startswith("#"):
            continue
        if piece not in {"{", "}", ";", "\n"}:
            words.append(piece)
            number += piece.count("\n")
            continue
        statement = "".join(words).strip()
        words.clear()
        is_closed = piece == "}" or statement.startswith("</")
        if piece == "{" or (statement.startswith("<") and not is_closed):
            # A bracket may stand on a line of its own.
            around.append(_Block(len(blocks), around[-1].number, statement or last, number))
            blocks.append(around[-1])
        elif statement and not statement.startswith("</"):
            statements.append(_Statement(number, statement, around[-1]))
        if is_closed and len(around) > 1:
            around.pop()
        last = statement or last
        number += piece == "\n"
    return statements, blocks


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
