"""Texts of logs and of messages about them, without what they tell of a user."""

from __future__ import annotations

import re

# Words of our own formats: they tell how a record is wrong, and nothing of a user.
_FORMAT_WORDS = {
    *("user", "time", "api", "value", "status", "source"),
    *("undefined", "error", "null", "true", "false"),
}
_QUOTED = re.compile(r"""(['"`]).*?(?:\1|$)""")
_WORD = re.compile(r"\w+")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")


def masked_text(text: str) -> str:
    """Form of a record without its content: letters as `x`, digits as `9`.

    Words of the log formats stay, so that it can be seen how a record is wrong.
    """
    return _WORD.sub(lambda word: _masked_word(word[0]), text)


def masked_quotes(message: str) -> str:
    """Message of a library without what stands in quotes, which may be data."""
    return _QUOTED.sub(lambda quoted: f"{quoted[1]}...{quoted[1]}", message)


def _masked_word(word: str) -> str:
    return word if word in _FORMAT_WORDS else _LETTER.sub("x", _DIGIT.sub("9", word))
