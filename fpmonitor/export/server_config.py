"""Configurations of web servers: which values of a header they send with every page of a site.

nginx, Apache and Caddy, as far as a policy needs. Doubt goes against the header: one that is named
in another way, in a part of the site, or twice with other values, counts as not sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PIECE = re.compile(
    r"""\"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\#[^\n]*|[{};\n]|[^"'{};\#\n]+""", re.DOTALL
)
# What else than these holds a header sends it from a part of a site alone, or under a condition.
_WHOLE = re.compile(
    r"(?:http|server|location\s+/|header|<(?:VirtualHost|IfModule)\b.*)", re.IGNORECASE
)
_PART = re.compile(
    r"(?:location|if|limit_except|handle\w*|route|header|respond|reverse_proxy)\b.*|[@<].*",
    re.IGNORECASE,
)
_SITES = re.compile(r"(?:http|server)", re.IGNORECASE)
_ADDED = re.compile(r"add_header\s+[\"']?(?P<name>[\w-]+)", re.IGNORECASE)
_CLEARED = re.compile(r"(?:more_clear_headers\b|(?:header\s+)?-).*\*", re.IGNORECASE)
_INCLUDED = re.compile(r"(?:include|includeoptional|import)\s", re.IGNORECASE)


class Sent(NamedTuple):
    """What a configuration sends of one header."""

    values: tuple[str, ...]  # All that every page has; browsers join them.
    problems: tuple[str, ...] = ()


class _Setting(NamedTuple):
    value: str
    always: bool  # Also with pages of errors.


class _Block(NamedTuple):
    number: int
    head: str
    is_partial: bool  # For a part of the site alone, or under a condition, as one around it may be.


class _Statement(NamedTuple):
    number: int  # Of its line.
    text: str
    block: _Block


def sent_everywhere(text: str, header: str) -> Sent:
    """Read which values of a header every page has; none where that is in doubt."""
    statements = [*_statements(text)]
    problems = [
        f"line {one.number}: takes in another file, which is not read here"
        for one in statements
        if _INCLUDED.match(one.text)
    ]
    values: dict[int, list[str]] = {}  # by block: nginx takes none of those around it
    named = re.compile(rf"(?<!\w){header}(?![\w-])", re.IGNORECASE)
    for one in statements:
        if _CLEARED.match(one.text):
            return Sent((), (*problems, f"line {one.number}: may take the header away"))
        if not named.search(one.text):
            continue
        setting = _setting(one, header)
        if setting is None:
            found = f"line {one.number}: not understood, so the header counts as not sent"
            return Sent((), (*problems, found))
        if one.block.is_partial:
            found = f"line {one.number}: for a part of the site alone, so it counts as not sent"
            return Sent((), (*problems, found))
        if not setting.always:
            problems.append(f"line {one.number}: pages of errors come without it (no `always`)")
        values.setdefault(one.block.number, []).append(setting.value)
    if values and (undone := _undone(statements, values, header)):
        return Sent((), (*problems, undone))
    return Sent(tuple(next(iter(values.values()), ())), tuple(problems))


def _setting(one: _Statement, header: str) -> _Setting | None:
    """Read a statement that sets the header, as each server words it; null where it does not."""
    name = rf"[\"']?{header}[\"']?"
    forms = [
        rf"(?P<nginx>add_header)\s+{name}",
        rf"(?P<apache>header)(?P<always>\s+always)?\s+set\s+{name}",
    ]
    forms += [rf"header\s+{header}"]
    if one.block.head.lower() == "header":
        forms.append(rf"\+?{header}")
    for form in forms:
        if match := re.match(rf"{form}\s+", one.text, re.IGNORECASE):
            found, value = match.groupdict(), one.text[match.end() :]
            always = not found.get("apache") or bool(found["always"])
            if found.get("nginx"):
                always = value.endswith((" always", "\talways"))
                value = value.removesuffix("always") if always else value
            return _Setting(_unquoted(value), always)
    return None


def _undone(statements: Iterable[_Statement], values: dict[int, list[str]], header: str) -> str:
    """Say why not every page has the values of one block; empty where all have."""
    added: dict[int, set[str]] = {}
    for one in statements:
        if match := _ADDED.match(one.text):
            added.setdefault(one.block.number, set()).add(match["name"].lower())
    for one in statements:
        number, head, _ = one.block
        lacks = number in added and header not in added[number]
        if lacks and number and not _SITES.fullmatch(head):
            return f"line {one.number}: a block with headers of its own sends none of those above"
    first, *others = values.values()
    # nginx adds those of one block; Apache and Caddy keep one, and which of them is open.
    if any(other != first for other in others) or (not added and len({*first}) > 1):
        return f"{header}: set several times, with other values"
    return ""


def _statements(text: str) -> Iterator[_Statement]:
    """Divide a text into statements, which end with a line, a semicolon or a bracket."""
    blocks = [_Block(0, "", is_partial=False)]
    words: list[str] = []
    number = made = 1
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
            head = statement or last
            is_part = bool(_PART.fullmatch(head)) and not _WHOLE.fullmatch(head)
            blocks.append(_Block(made, head, is_part or blocks[-1].is_partial))
            made += 1
        elif statement and not statement.startswith("</"):
            yield _Statement(number, statement, blocks[-1])
        if is_closed and len(blocks) > 1:
            blocks.pop()
        last = statement or last
        number += piece == "\n"


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
