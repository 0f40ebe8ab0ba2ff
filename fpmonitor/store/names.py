"""What the user said that columns hold; a setting of the database for each column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.vocabulary import api_named, is_known, meaning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.store.database import Database

_PREFIX = "column:"


def said_names(database: Database) -> dict[str, str]:
    """Column -> the API that the user said it holds, empty for none of the vocabulary."""
    return dict(database.rows("names/said", prefix=_PREFIX))


def known_names(database: Database) -> dict[str, str]:
    """Column of any log -> the API that it holds, empty where it is unknown."""
    said = said_names(database)
    return {name: meaning(name, said) for _, name in database.rows("snapshot/apis")}


def say_names(database: Database, names: Mapping[str, str], *, logged: bool = False) -> None:
    """Store what columns hold, in place of what was said of them before.

    Args:
        names: Column -> API, by any name that means nothing else; empty for no API of the
            vocabulary.
        logged: Refuse columns that no log has.

    Raises:
        UnknownNameError, InputError: An API is unknown or ambiguous; a column bears the name of an
            API.
    """
    known = known_names(database) if logged else names
    for column in names:
        if column not in known:
            raise UnknownNameError("name in the logs", column, known)
    apis = apis_of(names)  # all are checked before the first is stored
    with database.transaction():
        for column, api in apis.items():
            database.run("names/say", prefix=_PREFIX, column=column, api=api)


def apis_of(names: Mapping[str, str]) -> dict[str, str]:
    """Return the API of the vocabulary that each column holds; arguments, errors: `say_names`."""
    apis = {column: api_named(api) if api else "" for column, api in names.items()}
    for column, api in apis.items():
        if is_known(column) and api != column:
            raise InputError(
                f"{column!r} is the name of an API, and cannot mean {api or 'nothing'}",
                hint="give the column another name in the log",
            )
    return apis
