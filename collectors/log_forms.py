"""Forms of the lines that web servers log: their fields by name, as regular expressions."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

from fpmonitor.errors import InputError
from fpmonitor.value_forms import AGENT, AGENT_NAMES

COOKIE = "fpm"
USER_AGENT = "http:user-agent"
HEADERS = (
    "User-Agent", "Accept-Language", "Accept-Encoding", "DNT", "Sec-GPC", "Sec-CH-UA",
    "Sec-CH-UA-Mobile", "Sec-CH-UA-Platform", "Sec-CH-UA-Platform-Version", "Sec-CH-UA-Arch",
    "Sec-CH-UA-Bitness", "Sec-CH-UA-Model", "Sec-CH-UA-Full-Version-List", "Sec-CH-UA-Form-Factors",
    "Sec-CH-Device-Memory", "Sec-CH-DPR", "Sec-CH-Viewport-Width", "Sec-CH-Prefers-Color-Scheme",
)  # fmt: skip
OF_PAGES = ("Priority", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User")
APACHE_FORMAT = f"%t %{{{COOKIE}}}C " + " ".join(f'"%{{{header}}}i"' for header in HEADERS)
REST = "fields behind those"  # a line may go on
UNNAMED = "field"  # of a log that does not name it
CAPTURED = "captured"  # by HAProxy, several in one field
_QUOTED = r'(?:[^"\\]|\\.)*'
MOST_FIELDS = 200
_BY_SEPARATOR = ("\t", "|", ";", ",")
_SEEN, _NEARLY_ALL = 200, 0.8
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^\s"]\S*')
_MONTH_NAME = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# Field -> what its values begin with.
_BY_VALUES = {
    USER_AGENT: re.compile(rf"({AGENT_NAMES}|curl|Wget|Go-http-client|python-requests)/\d"),
    "host": re.compile(r"(?i)(::ffff:)?(\d{1,3}\.){3}\d{1,3}\b(?!\.)|\[?[0-9a-f]{0,4}:[0-9a-f:]*:"),
    "time": re.compile(
        rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d|\d{{1,2}}/{_MONTH_NAME}/\d{{4}}[: ]\d\d:\d\d"
        r"|1\d{9}(\d{3}){0,3}(\.\d+)?$"
    ),
    "http:accept-language": re.compile(r"[a-z]{2,3}(-[A-Za-z]{2,4})?,.*;q=0?\.\d"),
}
_PART = re.compile(
    r"%[<>!,\d]*\{(?P<argument>[^}]*)\}(?P<of>\^?[a-zA-Z]+)|%[<>]?(?P<letter>[a-zA-Z])"
    r"|\$\{?(?P<variable>\w+)\}?|(?P<space>\s+)|%?(?P<literal>.)",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"\s*(?P<word>log_format|LogFormat)\s+(?P<rest>.+?)\s*;?\s*", re.DOTALL)
_STRING = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_NAMES = {
    "remote_addr": "host", "h": "host", "a": "host", "l": "ident", "u": "remote_user", "v": "vhost",
    "p": "port", "r": "request", "s": "status", "b": "bytes", "O": "bytes_sent", "t": "time",
    "time_local": "time", "time_iso8601": "time", "msec": "time", "host": "vhost",
    f"cookie_{COOKIE}": "user",
}  # fmt: skip
_REQUEST = ' [$time_local] "$request" $status $bytes'
_BEHIND = ' "$http_referer" "$http_user_agent"'
_CLIENT = "$client $target $t1 $t2 $t3 $status $target_status $bytes_received $bytes_sent "
# What servers and those before them write; most add more, which is `REST`.
_LINES = (
    f"$remote_addr $ident $remote_user{_REQUEST}{_BEHIND}",
    f"$remote_addr - $name_of_user{_REQUEST}{_BEHIND}",
    # Envoy and Istio
    (
        '[$time_iso8601] "$request" $status $flags $bytes_received $bytes_sent $duration '
        '$upstream_time "$http_x_forwarded_for" "$http_user_agent" "$request_id" "$authority"'
    ),
    (
        '[$time_iso8601] "$request" $status $flags $details $termination "$failure" '
        '$bytes_received $bytes_sent $duration $upstream_time "$http_x_forwarded_for" '
        '"$http_user_agent"'
    ),
    # load balancers and buckets of Amazon
    f'$type $time_iso8601 $balancer {_CLIENT}"$request" "$http_user_agent"',
    f'$time_iso8601 $balancer {_CLIENT}"$request" "$http_user_agent"',
    "$owner $bucket [$time_local] $remote_addr $requester $request_id $operation $key "
    '"$request" $status $error $bytes_sent $size $t1 $t2' + _BEHIND,
    f"$remote_addr $ident $remote_user{_REQUEST}",
)
_SHAPES = {
    "status": r"[1-5]\d\d|0+|-",
    "bytes": r"\d+|-",
    "remote_addr": r"[0-9A-Za-z:][^\s\[\]\"]*(?:, ?[0-9A-Za-z:][^\s\[\]\"]*)*",  # or proxies
    "name_of_user": ".*?",
    "time_iso8601": r"[^\s\]\"]*\d\d:\d\d[^\s\]\"]*",
    "time_local": r"[^\]\"]*\d\d:\d\d[^\]\"]*",
    "msec": r"[\d.]+",
}
_PREFIX = '^"?(?:.*? )??'  # a virtual host, or what syslog and containers put before a line
_HAPROXY = (
    _PREFIX + r"(?P<client>\S+:\d+) \[(?P<time>[^\]]+)\] (?P<frontend>\S+) (?P<backend>\S+/\S+) "
    r"(?P<timers>[-+\d/]+) (?P<status>\d{3}|-1) (?P<bytes>\+?\d+) (?P<cookies>\S+ \S+) "
    r"(?P<termination>\S{4}) (?P<connections>\S+) (?P<queues>\S+) "
    rf"(?:\{{(?P<{CAPTURED}>[^{{}}]*)\}} )?(?:\{{(?P<response>[^{{}}]*)\}} )?"
    r'"(?P<request>[^"]*)"?(?P<rest>.*)$'
)


@dataclass(frozen=True, slots=True)
class LineForm:
    """How a line is read."""

    pattern: str  # For Polars and `re`, with a group a field, from the first character to the last.
    names: tuple[str, ...]  # Names of the fields.
    unescaped: Callable[[str], str]  # Undoes the escapes of a field.
    captured: tuple[str, ...] = ()  # Names of what is in the field `CAPTURED`.
    is_headed: bool = False  # Whether a header names the fields.


def log_line(server: str) -> str:
    """Return the configuration that makes a web server log what the collector of access logs reads.

    Args:
        server: `nginx` or `apache`. The cookie `fpm` names the user; a site that has none sets one.
    """
    if server == "apache":
        escaped = APACHE_FORMAT.replace('"', '\\"')
        return f'LogFormat "{escaped}" fpmonitor\nCustomLog logs/fpmonitor.log fpmonitor\n'
    fields = {"user": f"$cookie_{COOKIE}", "time": "$time_iso8601"} | {
        f"http:{header.lower()}": f"$http_{header.lower().replace('-', '_')}"
        for header in (*HEADERS, *OF_PAGES)
    }
    return (
        f"log_format fpmonitor escape=json '{json.dumps(fields)}';\n"
        "access_log logs/fpmonitor.log fpmonitor;\n"
    )


@cache
def known_forms() -> tuple[LineForm, ...]:
    """Forms that are recognised by their lines, the fullest first."""
    names = (*re.findall(r"\?P<(\w+)>", _HAPROXY)[:-1], REST)
    haproxy = LineForm(re.sub(r"\?P<\w+>", "", _HAPROXY), names, unescaped_hashes)
    ours = _form("^", APACHE_FORMAT)
    return (ours, *(_form(_PREFIX, line) for line in _LINES), haproxy)


def _form(start: str, text: str) -> LineForm:
    pattern, names = _compiled(text)
    return LineForm(f'{start}{pattern}"?(?: (.*))?$', (*names, REST), unescaped_c)


def form_of(text: str) -> LineForm:
    """Read a `log_format` of nginx or a `LogFormat` of Apache, also with its name around it.

    Raises:
        InputError: It has no fields, or too many.
    """
    directive = _DIRECTIVE.fullmatch(text)
    if directive:
        # nginx joins the strings of a directive; behind that of Apache stands a name.
        strings = [one or other for one, other in _STRING.findall(directive["rest"])]
        is_apache = directive["word"] == "LogFormat"
        text = strings[0].replace('\\"', '"') if is_apache and strings else "".join(strings)
    form = _form("^", text.strip())
    if not 1 < len(form.names) <= MOST_FIELDS:
        raise InputError(
            f"log format: {len(form.names) - 1} fields",
            hint="give what stands behind log_format or LogFormat, such as "
            "'$remote_addr [$time_local] \"$http_user_agent\"' or '%h %t \"%{User-Agent}i\"'",
        )
    return form


def _compiled(text: str) -> tuple[str, tuple[str, ...]]:
    """Pattern of a format, and the names of its fields."""
    parts = list(_PART.finditer(text))
    # Beside variables of nginx a `%` is a literal.
    is_nginx = any(part["variable"] for part in parts)
    pattern, names = "", list[str]()
    for part, before, after in zip(parts, [None, *parts], [*parts[1:], None], strict=False):
        word = _word(part, is_nginx=is_nginx)
        if word is None:
            pattern += r"\s+" if part["space"] else re.escape(part["literal"] or part[0])
            continue
        shape = f"({_shape(word, before and before['literal'], after)})"
        pattern += rf"\[{shape}\]" if part["letter"] == "t" else shape
        names.append(_NAMES.get(word, word))
    return pattern, _apart(names)


def _shape(word: str, before: str | None, after: re.Match[str] | None) -> str:
    """Pattern of a field between two characters."""
    behind = after["literal"] if after else None
    if before == '"' and behind == '"':
        return _QUOTED
    if word in _SHAPES or word == "t":
        return _SHAPES.get(word, _SHAPES["time_local"])
    if behind is None:
        # nginx lists several upstreams; two fields without anything between them end anywhere.
        is_open = word.startswith("upstream_") or (after is not None and not after["space"])
        return ".*?" if is_open else r"\S*"
    return rf"[^{re.escape(behind)}]*"


def _word(part: re.Match[str], *, is_nginx: bool) -> str | None:
    """Return what stands for a field; null for a literal."""
    if is_nginx:
        word = part["variable"]
        is_header = word is not None and word.startswith("http_") and word != "http_"
        return f"http:{word[5:].replace('_', '-').lower()}" if is_header else word
    if part["of"]:
        kinds = {"i": "http:{}", "C": "cookie_{}", "t": "time"}
        return kinds.get(part["of"], f"{{}} {part['of']}").format(part["argument"].lower())
    return part["letter"]


def fields_form(names: Sequence[str], separator: str) -> LineForm:
    """Form of lines whose fields a header names, as of IIS and CloudFront.

    Raises:
        InputError: It names too many.
    """
    if len(names) > MOST_FIELDS:
        raise InputError(f"log format: {len(names):,} fields", hint="look at its line `#Fields:`")
    unescaped = unescaped_plus if separator == " " else unescaped_percent
    return _separated(names, separator, unescaped, is_headed=True)


def _separated(
    names: Sequence[str],
    separator: str,
    unescaped: Callable[[str], str],
    *,
    is_headed: bool = False,
) -> LineForm:
    between = re.escape(separator)
    field = f'("(?:[^"]|"")*"|[^{separator}]*)'
    pattern = f"^{between.join([field] * len(names))}(?:{between}(.*))?$"
    return LineForm(pattern, (*_apart(names), REST), unescaped, is_headed=is_headed)


def _apart(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, of which a table has none twice."""
    return tuple(
        f"{name} {place}" if name in names[:place] else name for place, name in enumerate(names)
    )


def unnamed_form(lines: Sequence[str]) -> LineForm | None:
    """Form of lines that nothing describes, by what their fields hold; null without a user agent.

    As of Bunny CDN, whose files have no header, and of a `log_format` that is not at hand. Fields
    lie between separators, or are words, texts in quotes and in brackets. A header is no such line.
    """
    sample = lines[:_SEEN]
    if not sample or not AGENT.search(sample[0]):
        return None
    if sum(map(bool, map(AGENT.search, sample))) < len(sample) / 2:
        return None
    for separator in _BY_SEPARATOR:
        # Line by line: a quote that is not closed would make one field of all that follow.
        rows = (next(csv.reader([line], delimiter=separator)) for line in sample)
        counts = Counter(map(len, rows))
        fields = max(counts, key=lambda number: (counts[number], number))
        form = _separated([""] * fields, separator, unescaped_percent)
        if named := _named_by_values(form, sample):
            return named
    # One more than there may be: a bracket that is not closed costs a look at all that is behind.
    tokens = (islice(_TOKEN.finditer(line), MOST_FIELDS + 1) for line in sample)
    shapes = Counter(tuple(_shape_of(token[0]) for token in found) for found in tokens)
    [(shape, _)] = shapes.most_common(1)
    pattern = "^" + r"\s+".join(shape) + "(?: (.*))?$"
    return _named_by_values(LineForm(pattern, ("",) * len(shape) + (REST,), unescaped_c), sample)


def _shape_of(token: str) -> str:
    if token[0] == '"':
        return f'"({_QUOTED})"'
    return r"\[([^\]]*)\]" if token[0] == "[" else r"([^\s\"]\S*)"


def _named_by_values(form: LineForm, lines: Sequence[str]) -> LineForm | None:
    """Name fields by what they hold; null where it is no log of requests, or too few lines fit."""
    if len(form.names) > MOST_FIELDS:
        return None
    import polars as pl  # noqa: PLC0415 -- slow to load

    # Not by `re`, which tries a field in quotes in two ways: 40 of them take it 2^40 steps to fail.
    cells = pl.Series(lines).str.extract_groups(form.pattern).struct.unnest()
    columns = [column.to_list() for column in cells.filter(cells[:, 0].is_not_null())][:-1]
    if not columns or len(columns[0]) < _NEARLY_ALL * len(lines):
        return None
    names: dict[str, None] = {}
    for place, column in enumerate(columns, start=1):
        texts = [text.strip('"') for text in column if text and text.strip('"') not in {"", "-"}]
        fitting = (
            name
            for name, begins in _BY_VALUES.items()
            if name not in names and texts
            if sum(map(bool, map(begins.match, texts))) >= _NEARLY_ALL * len(texts)
        )
        names.setdefault(next(fitting, f"{UNNAMED} {place}"))
    if USER_AGENT not in names or not {"host", "time"}.intersection(names):
        return None
    return replace(form, names=(*names, REST))


# All escapes in a row together: the bytes of one character stand in several.
_C_ESCAPE = re.compile(r"((?:\\x[0-9a-fA-F]{2})+)|\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "v": "\v", "f": "\f"}


def unescaped_c(text: str) -> str:
    r"""Undo `\x22`, `\"` and their like."""
    if "\\" not in text:
        return text
    return _C_ESCAPE.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return bytes.fromhex(found[1].replace("\\x", "")).decode("utf-8", "replace")
    if found[2]:
        # Halves of characters, which nothing can store, and controls stay as they are written.
        character = chr(int(found[2], 16))
        return character if character.isprintable() else found[0]
    return _LETTERS.get(found[3], found[3])


_HASHES = re.compile(r"(?:#[0-9A-Fa-f]{2})+")


def unescaped_hashes(text: str) -> str:
    """Undo `#22`, as HAProxy writes what could end a field."""
    return _HASHES.sub(
        lambda found: bytes.fromhex(found[0].replace("#", "")).decode("utf-8", "replace"), text
    )


def unescaped_percent(text: str) -> str:
    """Undo `%20`, which CloudFront wrote as `%2520` for years, and quotes around a text."""
    from urllib.parse import unquote  # noqa: PLC0415 -- of few logs

    # A text with a space is not encoded: a `%` in it is its own.
    text = _unquoted(text)
    if " " not in text:
        text = unquote(text)
        text = unquote(text) if " " not in text and "%20" in text else text
    return text


def unescaped_plus(text: str) -> str:
    """Undo `+`, as IIS writes a space, or `%20`; and quotes around a text."""
    bare = _unquoted(text)
    if bare != text or " " in bare:
        return bare
    return unescaped_percent(bare) if "%20" in bare else bare.replace("+", " ")


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].replace('""', '"') if is_quoted else text
