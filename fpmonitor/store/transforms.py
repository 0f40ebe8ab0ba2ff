"""What an API could return instead: coarser values, declared per API in TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal, localcontext
from pathlib import Path
from typing import Annotated, Any

import msgspec

from fpmonitor.errors import InputError
from fpmonitor.safe_files import canonical_text, json_or_none, read_toml

# Not from within a number: tried from each of its digits, time grew with their square.
_VERSION = re.compile(r"(?<![0-9])([0-9]+)(?:[._][0-9]+)+")
_GREASE = re.compile(r"Not[^A-Za-z]?A[^A-Za-z]?Brand|\bNot.{0,3}Brand|GREASE", re.IGNORECASE)
_BRAND = re.compile(r'"(?:[^"\\]|\\.)*"(?:;v="[^"]*")?')
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{32}:\d+")


class Transform(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Less of a value, as `--what-if` asks about: the steps are taken in this order.

    Attributes:
        brands: Drop the made-up brand (GREASE) from a list of brands, and sort it.
        major: Cut every version to its first number.
        round: Round every number down to a multiple of this; 0 leaves numbers as they are.
        lower: Lower-case the text.
        sort: Sort a list.
        constant: Return this text to everybody; null returns what the other steps leave.
    """

    brands: bool = False
    major: bool = False
    round: Annotated[int, msgspec.Meta(ge=1)] = 0
    lower: bool = False
    sort: bool = False
    constant: str | None = None

    def __call__(self, text: str) -> str:
        """Return the value that would be returned instead of `text`.

        Raises:
            InputError: The value is kept by its digest only, so that nothing can be made of it.
        """
        if self.constant is not None:
            return self.constant
        if is_digest(text):
            raise InputError(
                "a large value is kept by its digest and cannot be changed",
                hint='only `constant = "..."` works for such an API',
            )
        if self.brands:
            text = _without_grease(text)
        if self.major:
            text = _VERSION.sub(r"\1", text)
        if self.round:
            text = _NUMBER.sub(lambda number: _rounded_down(number[0], self.round), text)
        if self.lower:
            text = text.lower()
        return _sorted_list(text) if self.sort else text


Transforms = dict[str, Transform]  # the file: a table for each API


def is_digest(text: str) -> bool:
    """Whether a value was too large to be kept."""
    return _DIGEST.fullmatch(text) is not None


def _rounded_down(number: str, step: int) -> str:
    """Return the largest multiple of a step up to a number, of however many digits."""
    # Decimals have 28 digits by default, and `%` of a longer number is an error.
    with localcontext(prec=len(number) + len(str(step))):
        whole = Decimal(number).to_integral_value(ROUND_FLOOR)
        beyond = whole % step
        return f"{whole - beyond - (step if beyond < 0 else 0) + 0:f}"


def _without_grease(text: str) -> str:
    items = _json_list(text)
    if items is not None:
        items_left = [
            item for item in items if not _GREASE.search(json.dumps(item, ensure_ascii=False))
        ]
        return canonical_text(sorted(items_left, key=canonical_text))
    brands = [brand for brand in _BRAND.findall(text) if not _GREASE.search(brand)]
    return ", ".join(sorted(brands))


def _sorted_list(text: str) -> str:
    items = _json_list(text)
    if items is not None:
        return canonical_text(sorted(items, key=canonical_text))
    return ",".join(sorted(part.strip() for part in text.split(",")))


def _json_list(text: str) -> list[Any] | None:
    items: list[Any] | None = json_or_none(text) if text.startswith("[") else None
    try:
        canonical_text(items)
    except ValueError:  # a number that is too large
        return None
    return items


def read_transforms(path: Path) -> Mapping[str, Transform]:
    """Read a TOML file with a table for each API."""
    return transforms_of(str(path), read_toml(path, "transforms"))


def transforms_of(origin: str, content: Any) -> Mapping[str, Transform]:
    """Read a table for each API.

    Args:
        origin: What the content was read from, for messages.

    Raises:
        InputError: With words or values that a transform does not have.
    """
    if not isinstance(content, dict):
        raise InputError(f"transforms {origin}: no tables")
    return {str(api): _transform(origin, api, table) for api, table in content.items()}


def _transform(origin: str, api: str, table: Any) -> Transform:
    hint = f"a table for each API, with {', '.join(Transform.__struct_fields__)}"
    if not isinstance(table, dict) or not table:
        raise InputError(f"transforms {origin}: {api!r} is no table", hint=hint)
    try:
        return msgspec.convert(table, Transform)
    except msgspec.ValidationError as error:
        raise InputError(f"transforms {origin}: {api}: {error}", hint=hint) from error
