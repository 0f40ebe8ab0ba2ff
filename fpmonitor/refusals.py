"""Texts that are no answer of an API: errors, refusals, timeouts, and stand-ins for a value.

What a library or a log writes where an API threw, was forbidden, or came too late. Told by the
forms of such texts, whoever wrote them; words that browsers return, such as `denied` of a
permission, `unknown` of a connection or an empty text, are none.
"""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["value", "error", "placeholder"]

_LONGEST = 300  # characters that are looked at; a trace of calls comes after the message
_ERROR = re.compile(
    r"""
    ^\W*(uncaught\s+)?\[?(object\s+)?(                              # TypeError: ..., [object Error]
        (?-i:[\w.]*(Error|Exception|ERROR|EXCEPTION))|error|exception)\b
    | ^(fehler|erreur|错误|zeitüberschreitung)(?![a-z])                # of programs that translate
    | ^<(!doctype|html)\b                                           # a page in the place of a value
    | ^\[object\ \w+\]$
    | ^\W*(err|ns_error|dom_exception|e_fail)_\w+                   # ERR_TIMEOUT, NS_ERROR_FAILURE
    | ^e(timedout|conn\w+|acces|perm|notfound|inval)\b              # ETIMEDOUT of Node
    | ^\{\s*"(error|exception|reason)"\s*:                          # {"error": ...}
    | \b(is|are)\ (not\ (a\ function|defined|an?\ object|a\ constructor|iterable|callable)
        |undefined|null)\b
    | \bcannot\ (read|set|access|find|convert|destructure)\b | \bcan['’]?t\ (read|access|find)\b
    | \billegal\ invocation\b | \bfailed\ to\ \w+ | \binvalid\ (state|access)\b
    | \b(permission|access|request|operation)s?\ (was\ |is\ )?(denied|refused|rejected|forbidden
        |blocked|aborted|insecure)\b
    | \b(denied|blocked|prevented|refused|rejected|intercepted|disabled)\ (by|for|due\ to)\b
    | \b(not|un)[\s-]?(allowed|permitted|authori[sz]ed)\ (by|to|in|on|for|from|here)\b
    | ^(not\ (allowed|permitted|authori[sz]ed)|unauthori[sz]ed|forbidden|aborted|rejected)\W*$
    | ^(\d{3}\ )?(forbidden|unauthori[sz]ed|internal\ server\ error|gateway\ timeout)\b
    | ^[^=]{0,60}(?<![a-z])timed?[\s_-]?out(?![a-z])[^=]*$          # not of Keep-Alive: timeout=5
    | \bsecurity\ (error|policy\ violation)\b | \bexception\ (was\ )?(thrown|raised)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PLACEHOLDER = re.compile(
    r"""
    \W*(n\W?a|null|nil|nan|undefined|unde[fv]|void|placeholder|todo|tbd
    |(not|un|in)[\s_-]?(available|supported|implemented|loaded|found|detected|collected|set)
    |no[\s_-](data|value|result|permission|access)|missing|empty|excluded
    |(was\ )?(blocked|redacted|hidden|removed|masked|suppressed|withheld|disabled|fail(ed|ure)?
        |error|errored))\W*
    | -+ | \?+ | \.+ | [*•█]+ | (x{3,}-?)+
    """,
    re.IGNORECASE | re.VERBOSE,
)


def kind_of(status: str, text: str | None) -> Kind:
    """Say whether an observation is a value, an error, or a stand-in for a value.

    Args:
        status: As in the dictionary of values: `value`, `undefined` or `error`.
        text: The value; null where the status says it all.
    """
    if status == "error":
        return "error"
    if status != "value" or text is None:
        return "placeholder"
    plain = text[:_LONGEST].strip().strip('"').strip()
    if not plain:
        return "value"  # browsers return it, as Navigator.vendorSub does
    if _PLACEHOLDER.fullmatch(plain):
        return "placeholder"
    return "error" if _ERROR.search(plain) else "value"
