"""Reading JSON lines, CSV and Parquet as tables of text, for the long and the wide collector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.collectors import csv_tables, json_tables, parquet_tables
