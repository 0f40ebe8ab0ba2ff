"""Codes that stand for the values of a log, given batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from fpmonitor.logs import CodedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Locate = Callable[[Sequence[int]], list[tuple[int, str]]]

UNDEFINED, ERROR = "undefined", "error:"
_ROW_COLUMNS = ("problem", "user", "time", "source")
_VALUES = {
    "place": pl.UInt32,
    "code": pl.UInt32,
    "api": pl.String,
    "status": pl.String,
    "raw": pl.String,
}
_MAX_HELD_BYTES = 1 << 26
_BYTES_OF_A_TEXT = 32  # that holding it takes beside its characters


class Coder:
    """Makes coded batches of the records of one log.

    Texts that were seen are held until they take too much memory; after that each gets a new code
    when it comes again, so that memory is bounded where values never repeat.

    Parameters
    ----------
    values_are_json
        Whether values are JSON text rather than plain text.
    """

    def __init__(self, *, values_are_json: bool = False) -> None:
        self._values_are_json = values_are_json
        self._columns: dict[str, _Column] = {}
        self._held_bytes = 0
        self._records = 0

    @property
    def apis(self) -> tuple[str, ...]:
        """APIs of all wide batches so far."""
        return tuple(self._columns)

    def wide(
        self, rows: pl.DataFrame, values: pl.DataFrame, locate: Locate | None = None
    ) -> CodedBatch:
        """Make a batch of records that hold the values of many APIs.

        Parameters
        ----------
        rows
            A row a record: text columns `user` and, where the log has them, `time`, `source` and
            `problem` (why the record cannot be used, or null).
        values
            For the same records the values of each API, in a text column of its name; null where
            it is absent. Where values are JSON text, also `undefined`, and `error:` followed by
            the message as JSON text.
        locate
            Line of the log and text of each of some rows of the batch; by default records are
            numbered from 1, without text.
        """
        for api in values.columns:
            self._columns.setdefault(api, _Column())
        present = {api: column for api, column in self._columns.items() if api in values.columns}
        texts = values.select(column.coded(api) for api, column in present.items())
        coded = texts.select(column.codes(api) for api, column in present.items())
        absent = pl.lit(None, pl.UInt32)
        codes = coded.select(
            (pl.col(api) if api in present else absent).alias(f"c{place}")
            for place, api in enumerate(self._columns)
        )
        greatest = coded.max().row(0) if present else ()
        places = {api: place for place, api in enumerate(self._columns)}
        fresh = [
            column.fresh(texts[api], coded[api]).select(
                pl.lit(places[api], pl.UInt32).alias("place"),
                "code",
                pl.lit(api).alias("api"),
                "raw",
            )
            for (api, column), code in zip(present.items(), greatest, strict=True)
            if code is not None and code >= column.next
        ]
        explained = pl.concat(fresh) if fresh else pl.DataFrame(schema=_VALUES)
        explained = explained.with_columns(status=self._status()).select(*_VALUES)
        return self._batch(rows, codes, self.apis, explained, locate)

    def _status(self) -> pl.Expr:
        status = pl.lit("value")
        if not self._values_are_json:
            return status
        raw = pl.col("raw")
        return (
            pl.when(raw == UNDEFINED)
            .then(pl.lit("undefined"))
            .when(raw.str.starts_with(ERROR))
            .then(pl.lit("error"))
            .otherwise(status)
        )

    def long(self, rows: pl.DataFrame, locate: Locate | None = None) -> CodedBatch:
        """Make a batch of records that hold one observation each.

        Parameters
        ----------
        rows
            As of `wide`, with the text columns `api`, `status` (`value`, `undefined` or `error`)
            and `value`; rows with a problem need none of them.
        locate
            As of `wide`.
        """
        column = self._columns.setdefault("", _Column())
        observation = pl.concat_str(
            pl.col("status"),
            pl.col("api").str.len_bytes().cast(pl.String),
            pl.when(pl.col("value").is_null()).then(pl.lit("-")).otherwise(pl.lit("+")),
            pl.col("api"),
            pl.col("value").fill_null(""),
        )
        is_usable = pl.col("problem").is_null() if "problem" in rows.columns else pl.lit(value=True)
        texts = rows.select(pl.when(is_usable).then(observation).alias("c0"))
        texts = texts.select(column.coded("c0"))
        codes = texts.select(column.codes("c0"))
        first = column.next
        column.fresh(texts["c0"], codes["c0"])
        fresh = rows.hstack(codes).filter(pl.col("c0") >= first).unique("c0", maintain_order=True)
        explained = fresh.select(
            place=pl.lit(0, pl.UInt32), code="c0", api="api", status="status", raw="value"
        )
        return self._batch(rows, codes, None, explained, locate)

    def _batch(
        self,
        rows: pl.DataFrame,
        codes: pl.DataFrame,
        apis: tuple[str, ...] | None,
        values: pl.DataFrame,
        locate: Locate | None,
    ) -> CodedBatch:
        texts = rows.select(
            pl.col(name) if name in rows.columns else pl.lit(None, pl.String).alias(name)
            for name in _ROW_COLUMNS
        )
        first = self._records + 1
        self._records += rows.height
        self._held_bytes += int(values["raw"].str.len_bytes().sum())
        self._held_bytes += values.height * _BYTES_OF_A_TEXT
        if self._held_bytes > _MAX_HELD_BYTES:
            self._held_bytes = 0
            for column in self._columns.values():
                column.forget()
        return CodedBatch(
            texts,
            codes,
            apis,
            values,
            self._values_are_json,
            locate or (lambda numbers: [(first + number, "") for number in numbers]),
        )


class _Column:
    """Codes (UInt32) of the texts of one column; `next` is the first that was not given yet."""

    def __init__(self) -> None:
        self.next = 0
        self.forget()

    def forget(self) -> None:
        """Begin anew: texts that were seen get new codes."""
        self._base = self.next
        self._categories = pl.Categories.random()
        # Polars forgets categories that no series has any more.
        self._kept = pl.Series(dtype=pl.Categorical(self._categories))

    def coded(self, name: str) -> pl.Expr:
        """Texts of a column as categories."""
        return pl.col(name).cast(pl.Categorical(self._categories))

    def codes(self, name: str) -> pl.Expr:
        """Codes of a column of categories."""
        return pl.col(name).to_physical().cast(pl.UInt32) + pl.lit(self._base, pl.UInt32)

    def fresh(self, texts: pl.Series, codes: pl.Series) -> pl.DataFrame:
        """Codes that were not given before (`code`), and their texts (`raw`)."""
        given = pl.DataFrame({"code": codes, "raw": texts}).filter(pl.col("code") >= self.next)
        given = given.unique("code", maintain_order=True).with_columns(
            pl.col("raw").cast(pl.String)
        )
        self.next += given.height
        return given
