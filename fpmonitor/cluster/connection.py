"""Connections that run the statements of `asking.py`: text goes there, and counts come back.

SQLAlchemy has an address for every warehouse, and a driver of its maker for each. Nothing else is
asked of it, so no dialect of its is used: sqlglot writes the statements.
"""

from __future__ import annotations

import csv
import io
from contextlib import closing
from typing import TYPE_CHECKING, Any

from fpmonitor.cluster.portable import needs_extra
from fpmonitor.duckdb_connection import DuckDBError, connect
from fpmonitor.errors import EngineLostError, InputError, StoreError, excerpt, reason_of
from fpmonitor.masking import masked_quotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_HINT = "an address looks like postgresql+psycopg://USER@HOST/DATABASE or duckdb:///FILE"


def as_csv(names: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write rows as a console does."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return text.getvalue()


def runner(address: str) -> Callable[[str], str]:
    """Return what runs a statement at an address and returns its answer as CSV.

    It connects for each statement, so that nothing is held open meanwhile.

    Raises
    ------
    InputError
        No address, or a driver that is not installed.
    """
    scheme, _, rest = address.partition("://")
    if scheme == "duckdb":
        return lambda text: _in_duckdb(rest.removeprefix("/"), text)
    if scheme == "sc":
        return lambda text: _in_spark(address, text)
    return _of_sqlalchemy(address)


def _in_duckdb(path: str, text: str) -> str:
    try:
        with closing(
            connect(path or ":memory:", **({"access_mode": "READ_ONLY"} if path else {}))
        ) as connection:
            found = connection.execute(text)
            return as_csv([each[0] for each in found.description or ()], found.fetchall())
    except DuckDBError as error:
        raise _refused("duckdb", error) from error


def _in_spark(address: str, text: str) -> str:
    from fpmonitor.cluster.engine import open_engine  # noqa: PLC0415 -- an extra

    with open_engine(address) as engine:
        return engine.frame(text.rstrip().removesuffix(";")).write_csv()


def _of_sqlalchemy(address: str) -> Callable[[str], str]:
    try:
        import sqlalchemy  # noqa: PLC0415 -- an extra
        from sqlalchemy import exc  # noqa: PLC0415
    except ImportError as error:
        raise needs_extra("sqlalchemy", "warehouse") from error
    try:
        engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool)
    except ImportError as error:
        raise InputError(
            f"--engine: the driver of this address is not installed ({error.name})", hint=_HINT
        ) from error
    except exc.ArgumentError as error:
        raise InputError("--engine: not an address of a warehouse", hint=_HINT) from error
    shown = engine.url.render_as_string(hide_password=True)

    def run(text: str) -> str:
        try:
            with engine.connect() as connection:
                # Without the semicolon, which drivers of some warehouses refuse.
                found = connection.exec_driver_sql(text.rstrip().removesuffix(";"))
                return as_csv(found.keys(), found.fetchall())
        except exc.OperationalError as error:
            reason = excerpt(masked_quotes(reason_of(error.orig or error)))
            raise EngineLostError(
                f"{shown} does not answer ({reason})",
                hint="is it running, and are user and password right? answers so far are kept",
            ) from error
        except exc.SQLAlchemyError as error:
            raise _refused(shown, getattr(error, "orig", None) or error) from error

    return run


def _refused(shown: str, error: BaseException) -> StoreError:
    reason = excerpt(masked_quotes(reason_of(Exception(str(error)))))
    return StoreError(
        f"{shown} refused the statement ({reason})",
        hint="does the table have these columns, letter for letter? the folder has the statement",
    )
