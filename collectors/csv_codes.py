"""Wide CSV files whose values become codes while Polars reads them.

Polars is quicker than DuckDB, but fills up short records and takes some broken ones. So the bytes
are checked before: each quote has to begin a field, end one, or be one of two within it, and the
delimiters outside quotes have to be as many as those of whole records. Then there is one way to
read the file. Any other file, and any with control characters, is read in another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.collectors.codes import Codes, joined
from fpmonitor.collectors.tables import select_fields
from fpmonitor.logs import InexactReadingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.logs import LogFile

_BLOCK = 1 << 18
_PARTS_OF_A_BATCH = 64
_QUOTE, _LINE_END, _TAB, _SPACE = b'"\n\t '
_NO, _YES, _ONE, _LAST = (np.uint64(number) for number in (0, 1, 1, 63))


class CsvCodes:
    """Rows of a CSV file: the codes of its values, and the user, time and source as text.

    Parameters
    ----------
    log
        A file that is not packed.
    delimiter
        What stands between fields: one byte.
    names
        Fields of the header.
    fields
        Field of a visit (`user`, `time`, `source`) -> field of the file.
    apis
        Fields of the file that are APIs.
    """

    def __init__(
        self,
        log: LogFile,
        delimiter: str,
        names: Sequence[str],
        fields: Mapping[str, str],
        apis: Sequence[str],
    ) -> None:
        self._log = log
        self._delimiter = delimiter
        column = {name: f"c{i}" for i, name in enumerate(names)}
        self._all_columns = list(column.values())
        self._texts = {field: column[name] for field, name in fields.items()}
        self._columns = [column[api] for api in apis]
        self._codes = Codes(self._columns)

    @property
    def columns(self) -> list[str]:
        """For each API the column that holds its codes."""
        return self._columns

    @property
    def select(self) -> str:
        """How the store reads a batch."""
        texts = select_fields(self._texts)
        codes = ", ".join(self._columns)
        return f"SELECT NULL::VARCHAR AS problem, {texts}, {codes} FROM coded_batch"  # noqa: S608 -- columns are numbered

    def batches(self) -> Iterator[pl.DataFrame]:
        """Read the log; each batch has columns c0, c1, ...: codes (UInt32) of APIs, or texts.

        Raises
        ------
        InexactReadingError
            Another way of reading might find something else, or values seldom repeat, or there is
            no record.
        OSError
            The log cannot be read.
        """
        # Before reading: of a log with a broken record, nothing is then read in vain.
        records, delimiters = _count(self._log, self._delimiter)
        if records < 2 or delimiters != records * (len(self._all_columns) - 1):
            raise InexactReadingError
        rows, size = 0, self._log.path.stat().st_size
        try:
            # A number of rows would be collected whatever their length; what Polars gives otherwise
            # is limited in bytes.
            parts = self._scan().collect_batches(maintain_order=True)
            for frame in joined(parts, _PARTS_OF_A_BATCH):
                rows += frame.height
                self._codes.check_they_repeat(size)
                yield frame
        except pl.exceptions.PolarsError as error:
            raise InexactReadingError from error
        if rows != records - 1:
            raise InexactReadingError

    def _scan(self) -> pl.LazyFrame:
        texts = pl.scan_csv(
            self._log.path,
            has_header=False,
            skip_rows=1,
            separator=self._delimiter,
            schema=dict.fromkeys(self._all_columns, pl.String()),
            glob=False,
        )
        return texts.with_columns(
            pl.col(column).cast(self._codes.dtype(column)).to_physical() for column in self._columns
        )

    def dictionary(self, column: str) -> pl.DataFrame:
        """Tell what the codes of a column stand for, once all batches were read.

        Columns `position` (UInt32; which API), `code` (UInt32) and `raw` (String, plain text).
        """
        position = pl.lit(self._columns.index(column), pl.UInt32).alias("position")
        return self._codes.table(column).select(position, "code", raw=column)


def _count(log: LogFile, delimiter: str) -> tuple[int, int]:
    """Count the records of a file, its header included, and the delimiters between fields.

    Raises
    ------
    InexactReadingError
        A quote is out of place, a record is long, or there are control characters.
    """
    records = delimiters = 0
    outside = _Outside(delimiter)
    block = np.zeros(_BLOCK, dtype=np.uint8)
    last = _LINE_END
    with log.path.open("rb") as file:
        while (read := file.readinto(block.data)) == _BLOCK:
            ends, between = outside.count(block)
            if ends == 0:
                raise InexactReadingError
            records, delimiters, last = records + ends, delimiters + between, block[-1]
    block[read:] = _SPACE
    if (block[read - 1] if read else last) != _LINE_END:
        block[read] = _LINE_END
    ends, between = outside.count(block)
    outside.check_end()
    return records + ends, delimiters + between


class _Outside:
    """Finds what stands outside quotes, 64 bytes in a word, one bit for each.

    Langdale and Lemire (2019), "Parsing gigabytes of JSON per second", arXiv:1902.08318, section
    3.1: a byte is in quotes where the XOR of all bits of quotes up to it is 1.
    """

    def __init__(self, delimiter: str) -> None:
        self._delimiter = ord(delimiter)
        self._is_inside = _NO
        self._was_fitting = _YES
        self._was_closing = _NO

    def count(self, block: NDArray[np.uint8]) -> tuple[int, int]:
        """Count line ends and delimiters outside quotes in the next bytes, a multiple of 64.

        Raises
        ------
        InexactReadingError
            A quote is out of place, or there are control characters.
        """
        quotes, line_ends = _bits(block == _QUOTE), _bits(block == _LINE_END)
        delimiters = _bits(block == self._delimiter)
        fitting = quotes | line_ends | delimiters
        inside = _running_xor(quotes, self._is_inside)
        closing = quotes & ~inside
        stray = quotes & inside & ~_after(fitting, self._was_fitting)
        stray |= _after(closing, self._was_closing) & ~fitting
        controls = np.count_nonzero(block < _SPACE) - int(np.bitwise_count(line_ends).sum())
        if stray.any() or (controls and controls != np.count_nonzero(block == _TAB)):
            raise InexactReadingError
        self._is_inside, self._was_fitting = inside[-1] >> _LAST, fitting[-1] >> _LAST
        self._was_closing = closing[-1] >> _LAST
        return (
            int(np.bitwise_count(line_ends & ~inside).sum()),
            int(np.bitwise_count(delimiters & ~inside).sum()),
        )

    def check_end(self) -> None:
        """Check that the last quote is closed.

        Raises
        ------
        InexactReadingError
            It is not.
        """
        if self._is_inside:
            raise InexactReadingError


def _bits(holds: NDArray[np.bool_]) -> NDArray[np.uint64]:
    return np.packbits(holds, bitorder="little").view("<u8")


def _after(bits: NDArray[np.uint64], before: np.uint64) -> NDArray[np.uint64]:
    """Move each bit by one byte; `before` is the bit of the byte before the first one."""
    moved = bits << _ONE
    moved[1:] |= bits[:-1] >> _LAST
    moved[0] |= before
    return moved


def _running_xor(bits: NDArray[np.uint64], before: np.uint64) -> NDArray[np.uint64]:
    """XOR of all bits up to each one, and of those before."""
    for distance in (1, 2, 4, 8, 16, 32):
        bits = bits ^ (bits << np.uint64(distance))
    carried = np.bitwise_xor.accumulate(np.append(before, bits[:-1] >> _LAST))
    return bits ^ (_NO - carried)
