"""Tokens: the observation of an API as text.

A *token* is `=` and a value, `#` and the digest of a long one, or one of the words `undefined`,
`error`, `absent` and `redacted`.
"""

from __future__ import annotations

import hashlib
import re

from fpmonitor.private.study import DIGEST_BYTES, Randomisation

REDACTED = "redacted"
ABSENT = "absent"
_TOKEN = re.compile(r"=.*|#[0-9a-f]{32}|undefined|error|absent|redacted", re.DOTALL)
_BITS = re.compile("=[01]+")
# Ten digits hold `MAX_HASHES`, and none leads with 0: one report has one text, or counts as two.
_HASHED = re.compile(r"=[0-9a-f]{16}\.(0|[1-9][0-9]{0,9})")
_NUMBERED = re.compile(r"=(0|[1-9][0-9]{0,9})")


def token_of(status: str, value: str | None) -> str:
    """Return the token of an observation: its value, or the word of its status."""
    return f"={value}" if status == "value" else status


def is_token(text: str) -> bool:
    """Whether a text is a token."""
    return _TOKEN.fullmatch(text) is not None


def holds_value(token: str) -> bool:
    """Whether a token is a value, or the digest of one, and none of the words."""
    return token.startswith(("=", "#"))


def fitting(token: str, limit: int, study: bytes) -> str:
    """Replace a token that is too long for a report by a digest of 128 bits.

    The digest is salted with the study, which only separates studies: anyone who can enumerate the
    possible values can find the one behind it.
    """
    text = token.encode("utf-8", "replace")
    if len(text) <= limit:
        return text.decode()
    return "#" + hashlib.sha256(study + text).hexdigest()[: DIGEST_BYTES - 1]


def is_report(token: str, plan: Randomisation) -> bool:
    """Whether a token is a report of a randomisation whose reports are not values."""
    if plan.is_unary:
        return len(token) == len(plan.values) + 1 and _BITS.fullmatch(token) is not None
    form, most = _HASHED, plan.hash_range or 0
    if plan.matrix is not None:
        form, most = _NUMBERED, len(plan.matrix)
    found = form.fullmatch(token)
    return found is not None and int(found[1]) < most
