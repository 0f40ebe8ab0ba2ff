"""Judges what a member of a log is: its values first, its name where they leave it open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fpmonitor.account import TIME_OF_RECORDS, Kind, is_error_text, is_missing_text
from fpmonitor.value_forms import (
    AGENT,
    FEWEST,
    FORMS,
    TIMES,
    Form,
    counts_rows,
    form_words,
    is_random,
    is_share,
    numbers_of,
    spans_years,
)
from fpmonitor.vocabulary import is_known, meanings

Look = Literal["time", "date", "id", "user", "weight", "share", "names"]

_FEWEST_NAMED = (
    5  # where the name says so as well: records of libraries are large, and few are seen
)
_NEARLY_ALL = 0.9
_SOME = 0.05
_EVEN = 8  # times as many records as the mean that the commonest of ids has at most
_NOTABLE = 0.01  # a share of records whose spelling of a missing value is told


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IDS = _words(
    "id ids uuid guid uid user visitor client session cookie token pk key index row rownr nr"
)
_USERS = _words("user visitor client device session browser")
_COUNTS = _words(
    "weight weights users visitors visits clients sessions hits requests pageviews views count "
    "counts cnt freq frequency n num number total share percent percentage pct perc probability "
    "prob marketshare people persons devices browsers impressions events clicks rows records "
    "samples observations occurrences population quantity qty "
    "anzahl häufigkeit haeufigkeit nutzer benutzer besucher besuche sitzungen zugriffe aufrufe "
    "seitenaufrufe seitenansichten anteil prozent menge cantidad usuarios visitantes visitas "
    "sesiones frecuencia porcentaje cuota nombre utilisateurs visiteurs visites fréquence "
    "用户数 访客数 访问数 访问次数 浏览量 会话数 次数 数量 人数 占比 比例 份额"
)
# `unique visitors` is a number of users, `visitor age` is not: no other word may be in the name.
_BESIDE_COUNTS = _words(
    "of the user visitor visit client session hit request page view market unique distinct avg "
    "mean device browser event global"
)
_NUMBERED = _words("row rownr rownum rownumber line lineno port lfd zeile fila")
_EXPERIMENTS = _words("experiment experiments branch variant variants treatment abtest cohort")
# Without `on` and `off`: a flag of an API has such values, and is no arm.
_ARMS = re.compile(r"(?i)(control|treatment|placebo|holdout)([_ -]?(group|\w|\d+))?")
# What a member of numbers is by its name, if no API has it.
_NUMBERS: tuple[tuple[frozenset[str], Kind, str], ...] = (
    (_NUMBERED, "metadata", "by its name, numbers records or connections"),
    (
        _words("duration durations elapsed took latency runtime ttfb lcp fcp dauer duración 时长"),
        "metadata",
        "durations",
    ),
    (
        _words(
            "lat lon lng latitude longitude breitengrad längengrad laengengrad latitud longitud "
            "zip plz postcode zipcode postleitzahl 经度 纬度 邮编"
        ),
        "identifier",
        "places on earth",
    ),
    (_words("revenue umsatz price preis amount betrag ingresos 金额"), "metadata", "amounts"),
)
# What a member of any values is by its name, if no API has it.
_NAMED: tuple[tuple[frozenset[str], Kind, str], ...] = (
    (
        _words(
            "email mail phone telefon telefono tel handy vorname nachname firstname "
            "lastname surname fullname username login street straße strasse birthday "
            "birthdate geburtsdatum apellido iban 姓名 邮箱 手机 手机号 电话 地址"
        ),
        "identifier",
        "by its name, a person",
    ),
    (_words("ip ips ipaddress ipaddr ipv4 ipv6"), "identifier", "by its name, addresses"),
    (
        _words("host hostname domain url uri href path referrer referer utm campaign landing"),
        "metadata",
        "by its name, a page",
    ),
)
_HUNDRED = 100
_WHOLE = re.compile(r"\d{1,15}")
_TIME = re.compile(r"time|date|stamp", re.IGNORECASE)
USER_AGENTS = "user agents, under an unknown name"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a member has in the whole log."""

    path: str
    records: int  # Records that have a value.
    values: int  # Different values.
    # Some of the different values, drawn evenly; all of them where they are few.
    texts: Sequence[str]
    most: int = 0  # Records that have the commonest of them.
    # Spellings of a missing value, and the records that have each.
    missing: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known of the log besides."""

    users: int  # Different users in it.
    has_user: bool = True  # Whether a column names the users.
    has_time: bool = True  # Whether a column tells the time of the records.


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a member is and why; `asks` where only the user can say, and what it looks like."""

    kind: Kind
    why: str
    asks: Look | None = None


LOOKS: Mapping[Look, str] = {
    "time": "a time",
    "date": "a date, in a form that --time does not read",
    "id": "an id",
    "user": "an id of users",
    "weight": "a number of users",
    "share": "a share of the users",
    "names": "names of APIs, a record each",
}


def judge_member(profile: Profile, setting: Setting, *, stays: bool = False) -> Verdict:
    """Say what a member is.

    Args:
        profile, setting: The member, and the log.
        stays: Whether the database has it for an API already: then only the form of values can tell
            otherwise, since values that come to differ are what is to be watched.
    """
    if not profile.records:
        return Verdict("empty", "no record has a value")
    texts = [text for text in profile.texts if not is_missing_text(text)]
    if not texts:
        # Browsers return an empty text, as for `Navigator.vendorSub`: of a known API it is the
        # value.
        if "" in profile.texts and meanings(profile.path):
            return Verdict("constant", "one value in all records")
        return Verdict("empty", f"no record says more than {_listed(sorted(profile.texts))}")
    if all(map(is_error_text, texts)):
        return Verdict("errors", f"error texts{_missing(profile)}")
    # Only now the name: an API of which each reading failed must not pass by its name alone.
    found = meanings(_bare(profile.path))
    # A row per API: read as a wide log, each user would keep the last of its rows alone.
    if not found and _name_apis(texts):
        return Verdict("metadata", LOOKS["names"], "names")
    verdict = _by_form(profile, texts, found, setting)
    # Where each user has another agent, their number would make an id of the column.
    are_agents = sum(map(bool, map(AGENT.match, texts))) >= _NEARLY_ALL * len(texts)
    if verdict is None and not (found or stays or are_agents):
        verdict = (
            _by_number(profile, texts)
            or _by_difference(profile, texts, setting)
            or _by_name(profile, texts)
        )
    return verdict or _as_api(profile, found, USER_AGENTS if are_agents else "an unknown name")


def _name_apis(texts: Sequence[str]) -> bool:
    """Whether values are names of APIs: the log has a record for each, as long ones have."""
    return len(texts) > 1 and sum(map(is_known, texts)) > len(texts) / 2


def _bare(path: str) -> str:
    """Name of a member as its library calls it: names nobody knows have it before them."""
    return path.split(":", 2)[-1] if path.startswith("x:") else path


def _by_form(
    profile: Profile, texts: Sequence[str], found: Sequence[str], setting: Setting
) -> Verdict | None:
    for form in FORMS:
        fitting = [text for text in texts if form.fits(text)]
        # What a known API returns in this form is its value: `Date.toLocaleTimeString` returns a
        # time.
        if not fitting or any(map(form.returned_by.match, found)):
            continue
        share = len(fitting) / len(texts)
        if share >= _NEARLY_ALL or (form.is_private and share >= 1 / 2):
            if form.kind == "time":
                if not _is_clock(form, profile, fitting):
                    continue
                return _as_time(form, profile, setting)
            return _as_form(form, profile, setting)
        # One may be an accident; of two and more none must be stored.
        if form.is_private and share >= _SOME and len(fitting) > 1:
            return Verdict("identifier", f"some are {form.words}", "id")
    return None


def _as_form(form: Form, profile: Profile, setting: Setting) -> Verdict:
    is_user = (
        form.kind == "identifier"
        and not (setting.has_user or form.words == "IP addresses")
        # An id that comes again may be of who came again; one per record is of the record.
        and FEWEST <= profile.values < profile.records
    )
    return Verdict(form.kind, form.words, "user" if is_user else None)


def _is_clock(form: Form, profile: Profile, texts: Sequence[str]) -> bool:
    """Whether values of this form are times: numbers may also be sizes."""
    if not form.seconds:
        # The same date in all records is that of a log; the same digits may be anything.
        return profile.values > 1 or not texts[0].isdigit()
    named = TIMES.intersection(form_words(profile.path)) or _TIME.search(profile.path)
    return profile.values > 1 and (
        bool(named) or (profile.values >= FEWEST and spans_years(texts, form.seconds))
    )


def _as_time(form: Form, profile: Profile, setting: Setting) -> Verdict:
    if setting.has_time or profile.values == 1:
        return Verdict("time", f"{form.words}, not that of the record")
    return Verdict("time", TIME_OF_RECORDS, "time" if form.words == "a time" else "date")


def _by_number(profile: Profile, texts: Sequence[str]) -> Verdict | None:
    """Judge numbers by their name: values do not tell a count from a size."""
    numbers = numbers_of(texts)
    if numbers is None:
        return None
    path = _bare(profile.path)
    words = form_words(path)
    if words and _COUNTS.intersection(words) and _COUNTS.union(_BESIDE_COUNTS).issuperset(words):
        # A share of the users is no weight: per cents would count as numbers of users.
        is_part = not all(map(_WHOLE.fullmatch, texts))
        is_share_of = is_share(path) and max(numbers) <= _HUNDRED
        look: Look = "share" if is_part or is_share_of else "weight"
        return Verdict("weight", LOOKS[look], look)
    return _named(_NUMBERS, words)


def _named(
    table: Sequence[tuple[frozenset[str], Kind, str]], words: Sequence[str]
) -> Verdict | None:
    found = (Verdict(kind, why) for known, kind, why in table if known.intersection(words))
    return next(found, None)


def _by_name(profile: Profile, texts: Sequence[str]) -> Verdict | None:
    """Judge a member whose values leave it open by its name, and by arms of an experiment."""
    words = form_words(_bare(profile.path))
    if _EXPERIMENTS.intersection(words) or any(map(_ARMS.fullmatch, texts)):
        return Verdict("metadata", "an arm of an experiment")
    if [*words[-2:]] == ["data", "url"]:  # holds what is shown, as of `canvas.toDataURL`
        return None
    # `hasEmail` with `yes` and `no` has a word of a person in its name, and names nobody.
    return _named(_NAMED, words) if profile.values >= _FEWEST_NAMED else None


def _by_difference(profile: Profile, texts: Sequence[str], setting: Setting) -> Verdict | None:
    """Judge a member by how many different values it has: ids differ between nearly all."""
    words = form_words(_bare(profile.path))
    # The last word says what it is: `session id` is an id, `id type` is not.
    named = bool(_IDS.intersection(words[-1:]))
    # An id of users has one value per user, however many records each of them has.
    most = min(profile.records, setting.users)
    reason = f"{profile.values:,} different values in {profile.records:,} records"
    if most >= (_FEWEST_NAMED if named else FEWEST) and profile.values >= _NEARLY_ALL * most:
        # Not asked about, so that a column of row numbers stops no log.
        if counts_rows(texts, profile.values):
            return Verdict("identifier", "numbers the records")
        return Verdict("identifier", reason, None if named else "id")
    if profile.values < FEWEST:
        return None
    if named and not setting.has_user and _USERS.intersection(words):
        return Verdict("identifier", reason, "user")
    # Of what browsers return some values are common; ids come about equally often.
    is_even = profile.most * profile.values <= _EVEN * profile.records
    if is_even and (named or sum(map(is_random, texts)) >= _NEARLY_ALL * len(texts)):
        return Verdict("identifier", reason, None if named else "id")
    return None


def _as_api(profile: Profile, found: Sequence[str], unknown: str) -> Verdict:
    missing = _missing(profile)
    if profile.values == 1 and profile.records >= FEWEST:
        return Verdict("constant", f"one value in all records{missing}")
    if len(found) == 1:
        return Verdict("API", f"its name{missing}")
    why = f"may be {' or '.join(found)}" if found else unknown
    return Verdict("API", f"{why}{missing}")


def _missing(profile: Profile) -> str:
    notable_texts = {
        text: times
        for text, times in profile.missing.items()
        if text and times >= max(_NOTABLE * profile.records, FEWEST / 2)
    }
    if not notable_texts:
        return ""
    share = sum(notable_texts.values()) / profile.records
    return f"; {_listed(sorted(notable_texts))} in {share:.1%} of the records"


def _listed(texts: Sequence[str]) -> str:
    shown = [text or "an empty text" for text in texts]
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
