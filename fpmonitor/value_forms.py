"""Forms of values that are not what an API returned: ids, addresses, times, counts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

_MONTH = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_COMPACT_DAY = r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"
_LIST = re.compile(r",\s*|\s+")
# Logs shorten addresses, as 198.51.100.xxx, which are addresses still.
_SHORTENED = re.compile(r"(\d{1,3}\.){2,3}(x+|X+|\*)(\.(x+|X+|\*))?")
# The second place is the end of an acronym: `IPAddress` has the words `ip` and `address`.
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"[-+]?(\d+(,\d{3})*\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_WITH_COMMA = re.compile(r"[-+]?\d+(\.\d{3})*,(\d\d?|\d{4,})")  # 1.234,5; 1,234 is a thousand
_CLASSES = re.compile(r"[a-z]+|[A-Z]+|\d+")
_SHARES = {"share", "percent", "percentage", "pct", "perc", "probability", "prob", "marketshare"}
TIMES = {"time", "date", "stamp", "timestamp", "datetime", "ts", "at", "on", "when", "day"}
TIMES |= {"created", "updated"}
_WITH_POINT = re.compile(r"\.\d+(?!.*,)$")
_NUMBER_WITH_POINT = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.IGNORECASE)
_SEPARATORS = re.compile(r"[-_.=+/:]")
# An IMEI is 15 digits, an IBAN two letters before its digits; some ids have more letters.
_FEWEST_DRAWN, _FEWEST_DIGITS, _MOST_LETTERS = 16, 15, 5
# A year of 365.25 days is 31,557,600 seconds.
_YEARS = 20 * 31_557_600  # seconds that the times of one log span at most
FEWEST = 20  # values of which a habit can be told


def _matches(*forms: str) -> Callable[[str], bool]:
    return re.compile("|".join(forms), re.IGNORECASE).fullmatch  # type: ignore[return-value]


def _are_addresses(text: str) -> bool:
    """Whether a text is an IP address, or a list of them as proxies make it."""
    parts = _LIST.split(text)
    return _is_address(parts[0]) and all(part == "unknown" or _is_address(part) for part in parts)


def _is_address(text: str) -> bool:
    """Whether a text is an IP address, also shortened; 124.0.0.0 is a version of Chrome."""
    if _SHORTENED.fullmatch(text):
        return True
    # `[::1]:443`, `10.0.0.0/8` and `fe80::1%eth0` are addresses with more behind them.
    bare = text.removeprefix("[").partition("]")[0].partition("/")[0].partition("%")[0]
    if bare.count(".") == 3 and bare.count(":") == 1:  # with a port
        bare = bare.partition(":")[0]
    if bare.endswith(".0.0") or not (bare.count(".") == 3 or bare.count(":") >= 2):
        return False
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Form:
    """A form of values."""

    words: str  # What such values are called.
    kind: Literal["identifier", "time", "metadata"]  # What their column is.
    fits: Callable[[str], bool]  # Whether a text has the form.
    # APIs of the vocabulary that return such values.
    returned_by: re.Pattern[str] = re.compile("(?!)")
    is_private: bool = False  # Whether even some such values among others must not be stored.
    seconds: float = 0.0  # Numbers of a clock: seconds of one step; else 0.


AGENT_NAMES = "Mozilla|Opera|Dalvik"
AGENT = re.compile(rf"\b({AGENT_NAMES})/\d")  # a user agent begins so; lines of logs hold it
_CLOCKS = re.compile(r"Date\.|Temporal\.|Document\.lastModified|.*(timeOrigin|navigationStart)")
# Forms with it count under unknown names alone: whatever a known API returns so is its value.
_ANY = re.compile("")
_DEVICES = re.compile(r"MediaDeviceInfo\.|RTC|InputDeviceInfo\.")
# In this order: the first form that nearly all values have gives the reason.
FORMS = (
    # After the @ stands a host: JSON has an @ before a quote, and dots in numbers.
    Form(
        "e-mail addresses",
        "identifier",
        _matches(r"([^@<>()/;{}]*<)?(mailto:)?[^\s@]+@\w[\w-]*\.[^\s@]{2,}>?"),
        is_private=True,
    ),
    Form("IP addresses", "identifier", _are_addresses, re.compile("RTC"), is_private=True),
    Form(
        "phone numbers",
        "identifier",
        _matches(
            r"\+\d[\d ()./-]{6,18}\d",
            r"\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}",
            r"0\d{1,4}[ /-]{1,3}\d{3,}([ -]\d{2,})*",
        ),
        is_private=True,
    ),
    Form(
        "UUIDs",
        "identifier",
        _matches(r"\{?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?"),
        _DEVICES,
    ),
    Form(
        "texts with UUIDs",  # as of apps
        "identifier",
        _matches(r".*(?<![0-9a-f])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f]).*"),
        _ANY,
    ),
    Form(
        "places on earth",
        "identifier",
        _matches(
            r"[-+]?\d{1,3}\.\d{3,}[,;] ?[-+]?\d{1,3}\.\d{3,}", r"POINT ?\(-?[\d.]+ -?[\d.]+\)"
        ),
        _ANY,
    ),
    # Ten of the 26 signs are milliseconds in base 32 without I, L, O and U: 0 leads until 3084.
    Form("ULIDs", "identifier", _matches(r"0[0-9A-HJKMNP-TV-Z]{25}")),
    Form(
        # Eight digits are seconds since 1970: those that begin with 3 to 7 are of 1995 to 2038.
        "ObjectIds",
        "identifier",
        _matches(r"[3-7][0-9a-f]{23}", r'\{"\$oid": ?"[0-9a-f]{24}"\}'),
    ),
    # A random number, and the seconds of the first visit, which begin with 1 from 2001 to 2033.
    Form("ids of Google Analytics", "identifier", _matches(r"(GA\d\.\d\.|amp-)?\d{5,10}\.1\d{9}")),
    Form("cookies", "identifier", _matches(r"[\w.$-]+=[^;\s]*(;\s*[\w.$-]+=[^;\s]*)+;?")),
    Form(
        "MAC addresses",
        "identifier",
        _matches(r"[0-9a-f]{2}([:-][0-9a-f]{2}){5}", r"[0-9a-f]{4}(\.[0-9a-f]{4}){2}"),
    ),
    Form(
        "web addresses",
        "metadata",
        _matches(
            r"(https?|wss?|ftp|file|android-app|chrome-extension|about)://\S*",
            r"([\w-]+\.)+[a-z]{2,}(:\d+)?/\S*",  # without its scheme
            r"/|/[\w%~./-]*[\w/](\?\S*)?",
        ),
        re.compile(r"Document\.|Location\.|URL\.|Window\.location|http:(referer|origin)"),
    ),
    Form(
        "times of day or durations",
        "metadata",
        _matches(
            r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[AP]M| Uhr)?", r"P(\d+D)?T[\dHMS.]+", r"[\d.]+ ?ms"
        ),
        _ANY,
    ),
    Form(
        "amounts of money",
        "metadata",
        _matches(r"[-+]?[€$£¥] ?[\d.,]+", r"[-+]?[\d.,]+ ?([€$£¥]|EUR|USD|GBP|CHF)"),
        _ANY,
    ),
    Form("a time", "time", _matches(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?"), _CLOCKS),
    Form(
        "a time",
        "time",
        _matches(
            rf"\[?\d{{1,2}}/{_MONTH}/\d{{4}}[: ]\d\d:\d\d.*",
            r"\d{1,2}\.\d{1,2}\.(19|20)\d\d(,? \d{1,2}:\d\d(:\d\d)?)?",
            rf"{_DAY},? {_MONTH} +\d{{1,2}} .*",
            rf"({_DAY}\w*, )?\d{{1,2}}[ -]{_MONTH}\w*[ -]\d{{2,4}}.*",
        ),
        _CLOCKS,
    ),
    Form(
        "a time",
        "time",
        _matches(rf"{_COMPACT_DAY}(([T_ -]?\d{{6}}|[T_ -]\d{{4}})Z?)?"),
        # `Navigator.productSub` is 20030107 or 20100101, which is no day of a visit.
        re.compile(r"Navigator\.(productSub|buildID)"),
    ),
    Form(
        "a date",
        "time",
        _matches(
            r"\d{1,2}([./-])\d{1,2}\1(19|20)\d\d([ ,T].*)?",
            r"(19|20)\d\d[/.]\d\d[/.]\d\d([ ,T].*)?",
            rf"{_MONTH}\w* \d{{1,2}}, \d{{4}}.*",
            r"\d{1,2}\.\d{1,2}\.\d\d,? \d{1,2}:\d\d.*",
            rf"{_MONTH} +\d{{1,2}} \d\d:\d\d:\d\d",
            r"(19|20)\d\d年\d{1,2}月\d{1,2}日.*",
            r"1\.\d{4,}e\+1[258]",  # as spreadsheets write large numbers
            r"/Date\(-?\d+([-+]\d{4})?\)/",
        ),
        _CLOCKS,
    ),
    # Ten digits from 1 or 2 are the seconds of 2001 to 2065, with 3, 6 and 9 more in finer steps.
    Form("a time", "time", _matches(r"[12]\d{9}(\.\d+)?"), _CLOCKS, seconds=1),
    Form("a time", "time", _matches(r"[12]\d{12}(\.\d+)?"), _CLOCKS, seconds=1e-3),
    Form("a time", "time", _matches(r"[12]\d{15}"), seconds=1e-6),
    Form("a time", "time", _matches(r"[12]\d{18}"), seconds=1e-9),
)


def form_words(name: str) -> list[str]:
    """Words of a name, in lower case: `deviceID`, `device_id` and `Device id` have the same."""
    return [word.casefold() for part in _CAMEL.split(name) for word in _WORD.findall(part)]


def is_share(name: str) -> bool:
    """Whether a column of numbers is called a share, of 1 or of 100."""
    return bool(_SHARES.intersection(form_words(name)))


def numbers_of(texts: Sequence[str]) -> list[float] | None:
    """Return the numbers that some texts are, with a point or a comma; null where one is none."""
    bare = [text.strip().removesuffix("%").strip() for text in texts]
    # Points before the last digits in any text say that all commas separate thousands.
    if any(map(_WITH_COMMA.fullmatch, bare)) and not any(map(_WITH_POINT.search, bare)):
        bare = [text.replace(".", "").replace(",", ".") for text in bare]
    if not all(map(_NUMBER.fullmatch, bare)):
        return None
    return [float(text.replace(",", "")) for text in bare]


def is_random(text: str) -> bool:
    """Whether a text is one word drawn at random, as ids and hashes are, or a long whole number."""
    bare = _SEPARATORS.sub("", text)
    if not (bare.isascii() and bare.isalnum()):
        return False
    digits = sum(character.isdigit() for character in bare)
    # Mostly digits are an id from 15 on, as those of an IMEI; the letters are those of an IBAN.
    if digits >= len(bare) - _MOST_LETTERS:  # of 0.123456789012345 a computation is the source
        return digits >= _FEWEST_DIGITS and not _NUMBER_WITH_POINT.fullmatch(text)
    # Random texts change between letters and digits every few signs; words and versions do not.
    is_long = len(bare) >= _FEWEST_DRAWN
    return is_long and digits > 0 and len(_CLASSES.findall(bare)) >= len(bare) / 4


def spans_years(texts: Sequence[str], seconds: float) -> bool:
    """Whether numbers of a clock lie as close together as the times of one log."""
    numbers = [float(text) for text in texts]
    return max(numbers) - min(numbers) <= _YEARS / seconds


def counts_rows(texts: Sequence[str], values: int) -> bool:
    """Whether some of so many different values are whole numbers without gaps, as of rows.

    The texts are drawn evenly: their range is close to the number of values only where every
    number of the range occurs.
    """
    if len(texts) < FEWEST or not all(text.isascii() and text.isdigit() for text in texts):
        return False
    # `int` refuses more than 4,300 digits with an error of its own, and logs are of strangers.
    numbers = [int(text[:18]) for text in texts]
    return values / 2 <= max(numbers) - min(numbers) + 1 <= values * 1.05
