"""Frames as logs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from fpmonitor.errors import InputError, excerpt
from fpmonitor.logs.log_file import LogFile

_UNNAMED_INDEX = re.compile("__index_level_[0-9]+__")  # as pyarrow calls it


class Frame(Protocol):
    """A table with the Arrow C stream: frames of Polars and pandas, tables of pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a capsule of the Arrow C stream interface."""


class LazyFrame(Protocol):
    """A frame that is computed when it is collected, as in Polars."""

    def collect(self) -> Any:
        """Compute the frame."""


@contextmanager
def frame_log(frame: Frame | LazyFrame, name: str) -> Iterator[LogFile]:
    """Write a frame as a Parquet log, there for the block; equal frames give equal bytes.

    Args:
        frame: Its index is left out where it has no name (pandas).
        name: What the log is reported by.

    Raises:
        InputError: It is no frame, or has columns that Parquet cannot hold.
    """
    import polars as pl  # noqa: PLC0415 -- slow to load

    rows: Any = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    if not hasattr(rows, "__arrow_c_stream__"):
        raise InputError(
            f"{name}: a {type(frame).__name__} is neither a path nor a frame",
            hint="give paths, or a frame of Polars, pandas or anything with the Arrow C stream",
        )
    with tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder:
        log = LogFile(Path(folder) / "frame.parquet", name)
        try:
            table = pl.DataFrame(rows)
            table = table.select([name for name in table.columns if not is_unnamed_index(name)])
            texts = table.cast({pl.Categorical: pl.String, pl.Enum: pl.String})
            # How a frame was put together must not change its bytes, by which it is known again.
            texts.rechunk().write_parquet(log.path)
        # Polars panics at columns of Arrow of types that it has no name for, such as intervals.
        except (
            *(ImportError, OSError, TypeError, ValueError),
            *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
        ) as error:
            raise InputError(
                f"{name}: not a frame that can be stored ({excerpt(str(error))})",
                hint="columns must be text, numbers, times or lists; pandas needs pyarrow for this",
            ) from error
        yield log


def is_unnamed_index(column: str) -> bool:
    """Whether a column numbers the rows of a frame of pandas."""
    return _UNNAMED_INDEX.fullmatch(column) is not None
