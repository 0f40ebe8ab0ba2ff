"""The user's side: what is answered to an ask, and how it is sealed.

A *token* is what a user holds of an API, as text: `=` and a value, `#` and the digest of a long
one, or one of the words `undefined`, `error`, `absent` and `redacted`.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from typing import TYPE_CHECKING

from fpmonitor.private.keys import seal
from fpmonitor.private.study import DIGEST_BYTES, check_ask
from fpmonitor.private.wire import NONCE_BYTES, Report, Upload, token_limit

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from fpmonitor.private.study import Ask, Randomisation, RedactionRule, Study
    from fpmonitor.private.wire import HpkeCiphertext, HpkeConfig

REDACTED = "redacted"
ABSENT = "absent"
_RANDOM = secrets.SystemRandom()


def token_of(status: str, value: str | None) -> str:
    """Give the token of an observation: its value, or the word of its status."""
    return f"={value}" if status == "value" else status


def fitting(token: str, limit: int, study: bytes) -> str:
    """Shorten a token that a report has no room for to a digest of 128 bits.

    The digest is salted with the study, which keeps values of two studies apart and nothing else:
    whoever can list the possible values finds the one behind it.
    """
    text = token.encode("utf-8", "replace")
    if len(text) <= limit:
        return text.decode()
    return "#" + hashlib.sha256(study + text).hexdigest()[: DIGEST_BYTES - 1]


def answer(
    study: Study, ask: Ask, tokens: Mapping[str, str], rng: random.Random = _RANDOM
) -> list[tuple[int, tuple[str, ...]]]:
    """Give what a user answers: for each set its number and the tokens, withheld as the ask says.

    Parameters
    ----------
    study, ask
        The terms and the question.
    tokens
        Token by API; an API that is missing is `absent`.
    rng
        Decides what covers redactions and what is randomised; simulations give their own.

    Raises
    ------
    InputError
        The ask breaks the terms of the study.
    """
    check_ask(study, ask)
    single = token_limit(study.report_bytes, ("",))
    shown = {}
    for api in sorted({api for one in ask.sets for api in one}):
        token = fitting(tokens.get(api, ABSENT), single, study.id)
        if api in ask.randomise:
            token = randomised(token, ask.randomise[api], rng)
        if api in ask.redact:
            token = redacted(token, ask.redact[api], rng)
        shown[api] = token
    answers = []
    for index, apis in enumerate(ask.sets):
        limit = token_limit(study.report_bytes, apis)
        answers.append((index, tuple(fitting(shown[api], limit, study.id) for api in apis)))
    return answers


def redacted(token: str, rule: RedactionRule, rng: random.Random) -> str:
    """Apply a redaction rule."""
    if token not in rule.keep or rng.random() < rule.cover:
        return REDACTED
    return token


def randomised(token: str, plan: Randomisation, rng: random.Random) -> str:
    """Draw the report of a token by local differential privacy."""
    size = len(plan.values)
    held = plan.values.index(token) if token in plan.values else size - 1
    if plan.mechanism == "oue":
        other = 1 / (1 + math.exp(plan.epsilon))
        chances = (0.5 if index == held else other for index in range(size))
        return "=" + "".join(str(int(rng.random() < chance)) for chance in chances)
    if rng.random() < 1 / (1 + (size - 1) * math.exp(-plan.epsilon)):
        return plan.values[held]
    other_index = rng.randrange(size - 1)
    return plan.values[other_index + (other_index >= held)]


def seal_answers(
    study: Study,
    ask: Ask,
    tokens: Mapping[str, str],
    *,
    shuffler: HpkeConfig,
    recipient: HpkeConfig,
    rng: random.Random = _RANDOM,
) -> list[Upload]:
    """Answer an ask with one sealed message for each set, in random order.

    Parameters
    ----------
    study, ask, tokens, rng
        As for `answer`.
    shuffler, recipient
        Keys to seal for; the shuffler's is the outer one.

    Raises
    ------
    InputError
        The ask breaks the terms of the study.
    """
    uploads = []
    for index, held in answer(study, ask, tokens, rng):
        report = Report(secrets.token_bytes(NONCE_BYTES), index, held)
        inner = seal(report.encode(study.report_bytes), recipient, ask.recipient, ask.id)
        uploads.append(Upload(ask.id, seal_for_shuffler(inner, shuffler, ask.id)))
    _RANDOM.shuffle(uploads)
    return uploads


def seal_for_shuffler(inner: HpkeCiphertext, shuffler: HpkeConfig, ask: bytes) -> HpkeCiphertext:
    """Put the outer layer around a message that only the recipient can open."""
    return seal(inner.encode(), shuffler, "shuffler", ask)
