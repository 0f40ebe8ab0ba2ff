"""Columns of wide logs that look like a time, an id or a number of users, not like an API."""

from __future__ import annotations

import re
from itertools import pairwise
from shlex import quote
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError, describe_names, excerpt
from fpmonitor.vocabulary import meanings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.log_file import LogFile

_FEWEST = 20  # values of which a habit can be told
_FEWEST_NAMED = 5  # where the name tells it, too: records of libraries are large, and few are seen
_FEWEST_RISING = 500  # so many that an API does not return them in their order by chance
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
_DATE_OF_SPREADSHEETS = re.compile(r"\d{1,2}([./-])\d{1,2}\1(19|20)\d\d([ ,T].*)?")
_EPOCH = re.compile(r"[12]\d{9}(\.\d+|\d{3})?")  # seconds or milliseconds since 1970
_NAME_OF_TIME = re.compile(r"time|date|stamp|(^|[_ ])(ts|at)$", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NAME_OF_ID = re.compile(r"(?i:(^|[_. -])(id|uuid|guid|user|visitor|index|row)$)|[a-z](Id|ID)$")
_NUMBER = re.compile(r"\d{1,15}")
_SHARE = re.compile(r"\d*\.?\d+(e-?\d+)?", re.IGNORECASE)
_NAMES_OF_WEIGHTS = {"weight", "weights", "users", "n_users", "count", "counts", "frequency"}


def refuse_suspects(
    log: LogFile,
    sample: Mapping[str, Sequence[str]],
    apis: Collection[str],
    column_map: ColumnMap,
    kinds: Collection[str] = (),
) -> None:
    """Refuse columns that would become an API by mistake: most of them make every user unique.

    Parameters
    ----------
    log
        A wide log.
    sample
        Its columns, and texts of its first records.
    apis
        Columns that would be APIs.
    column_map
        Columns that it calls an API are not looked at.
    kinds
        What to refuse (`time`, `date`, `id`, `weight`, `share`); all by default.

    Raises
    ------
    InputError
        A column looks like a time, an id or a number of users, and the vocabulary does not know it.
    """
    looks = {
        name: look
        for name, texts in sample.items()
        if name in apis and name not in column_map.apis and not meanings(name)
        if (look := _look(name, texts)) and look in (kinds or _LOOKS)
    }
    if not looks:
        return
    needed = {"time": "time", "weight": "user"}
    free = {look for look, field in needed.items() if column_map.name_of(field) not in sample}
    options = []
    for name, look in looks.items():
        options.append(f"--{look if look in free else 'ignore'} {quote(name)}")
        free.discard(look)
    seen = [f"{excerpt(name)!r} looks like {_LOOKS[look]}" for name, look in looks.items()]
    raise InputError(
        f"{log.label}: {describe_names(seen)}; nothing of this file was stored",
        hint=f"say what it is, for example: {' '.join(options)}; "
        f"or --as {quote(f'{next(iter(looks))}=')} to take it for an API all the same",
    )


_LOOKS = {
    "time": "a time",
    "date": "a date, in a form that --time does not read",
    "id": "an id",
    "weight": "a number of users",
    "share": "a share of the users",
}


def _look(name: str, texts: Sequence[str]) -> str | None:
    if name.casefold() in _NAMES_OF_WEIGHTS and texts and all(map(_SHARE.fullmatch, texts)):
        return "weight" if all(map(_NUMBER.fullmatch, texts)) else "share"
    different = len(set(texts))
    for look, form in (("time", _ISO), ("date", _DATE_OF_SPREADSHEETS)):
        if different > 1 and all(map(form.fullmatch, texts)):
            return look
    named = _NAME_OF_TIME.search(name)
    if different > 1 and named and all(map(_EPOCH.fullmatch, texts)):
        return "time"
    named = _NAME_OF_ID.search(name)
    if different < len(texts) or different < (_FEWEST_NAMED if named else _FEWEST):
        return None
    is_number = different >= _FEWEST_RISING and all(map(_NUMBER.fullmatch, texts))
    rises = is_number and all(int(text) < int(after) for text, after in pairwise(texts))
    return "id" if rises or named or all(map(_UUID.fullmatch, texts)) else None
