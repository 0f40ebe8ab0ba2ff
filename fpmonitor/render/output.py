"""An answer in every form: tables for people, rows of CSV and a document of JSON for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import msgspec

from fpmonitor.errors import InputError
from fpmonitor.export.csv import csv_rows, without_commands
from fpmonitor.render.tables import Table, html_of_table, paragraph, terminal
from fpmonitor.unit import Unit, spoken

Row = Mapping[str, Any]
Form = Literal["table", "json", "csv"]
_HALVES = "surrogatepass"  # of characters, which a text of a log may hold
# Besides what JSON escapes by itself: more controls, marks that turn the direction of text.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One answer in every form."""

    tables: Sequence[Table]  # For people.
    rows: Sequence[Row]  # For CSV, and for JSON without a document.
    document: Any = None  # For JSON.
    preface: Sequence[str] = ()  # Paragraphs above the tables.
    # Why rows cannot hold the answer, and what to ask for instead; empty if they can.
    no_csv: tuple[str, str] = ("", "")

    def text(self, form: Form, *, to_file: bool = False) -> str:
        """Return the answer in one form.

        Raises:
            InputError: CSV cannot hold the answer.
        """
        match form:
            case "json":
                return to_json(self.rows if self.document is None else self.document)
            case "csv":
                message, hint = self.no_csv
                if message:
                    raise InputError(message, hint=hint)
                return to_csv(self.rows, escaped=not to_file)
            case "table":
                preface = map(paragraph, self.preface)
                shown = [*preface, *(terminal(one, to_file=to_file) for one in self.tables)]
                return without_commands("".join(shown))

    def of(self, unit: Unit) -> Output:
        """Return the same in words for visitors or rows; members of JSON keep their names."""
        if unit == "user":
            return self
        document = self.document
        if document is None:
            document = [{**row, "unit": unit} if "users" in row else row for row in self.rows]
        elif isinstance(document, dict) and "users" in document:
            document = document | {"unit": unit}
        return replace(
            self,
            tables=[table.of_unit(unit) for table in self.tables],
            # CSV has words in its head, as tables do; JSON is read by programs, which know the
            # names.
            rows=[{spoken(name, unit): cell for name, cell in row.items()} for row in self.rows],
            document=document,
            preface=[spoken(text, unit) for text in self.preface],
        )

    def html(self) -> str:
        """Return the tables as HTML, as a notebook shows them."""
        return "".join(html_of_table(table) for table in self.tables)


def to_json(content: Any) -> str:
    """JSON with an end of line; not-a-number is an error rather than a word nobody can read."""
    # With `indent` Python's own encoder took an eighth of the time of a decision.
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    text = str(msgspec.json.format(text.encode("utf-8", _HALVES), indent=2), "utf-8", _HALVES)
    # Escaped, as a value of a log may turn the direction of what follows it on a terminal.
    return _UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n"


def to_csv(rows: Sequence[Row], *, escaped: bool = False) -> str:
    """CSV with a header; lists are joined by commas, nested members named with dots.

    Texts are marked as in `fpmonitor.export.csv.csv_rows`.
    """
    flat = [_flat(row) for row in rows]
    header = list(dict.fromkeys(chain.from_iterable(flat)))
    table: list[Sequence[object]] = [header, *([row.get(name) for name in header] for row in flat)]
    return csv_rows(table, escaped=escaped) if flat else ""


def _flat(row: Row, prefix: str = "") -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            cells |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            cells[prefix + name] = ",".join(str(item) for item in value)
        else:
            cells[prefix + name] = value
    return cells
