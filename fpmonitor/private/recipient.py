"""A recipient, the curator or the analyst: opens batches from the shuffler and counts them.

It keeps the number of users for each tuple of tokens of each requested set. Which messages
arrived together, or came from one user, is neither known nor kept.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError
from fpmonitor.private.keys import KeyHolder, SealError, SecretKeys, has_length, open_message
from fpmonitor.private.store import ConflictError, Outcome, Receipt, RoleStore, read_counts
from fpmonitor.private.tokens import REDACTED, fitting, is_report, is_token
from fpmonitor.private.wire import (
    ID_BYTES,
    HpkeCiphertext,
    SealedReport,
    WireError,
    decode_batch,
    decode_report,
    token_limit,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.private.study import CollectionRequest, Study


# Below this share of messages that open, the keys are wrong rather than the messages.
_LEAST_OPENED = 0.1


class Recipient(KeyHolder):
    """The curator or the analyst; `StoreError` where its store cannot be read or written.

    Args:
        path, study: Its store, and the terms.
        ring: Its keys, which determine whether it is the curator or the analyst.

    Raises:
        InputError: The keys are the shuffler's, or the store belongs to another study.
    """

    def __init__(self, path: Path, study: Study, ring: SecretKeys) -> None:
        if ring.role == "shuffler":
            raise InputError(
                "keys: belong to the shuffler, not to a recipient",
                hint="name the folder of the curator or the analyst",
            )
        super().__init__(ring.role, ring)
        self.store = RoleStore(path, study, ring.role)
        # Of each set of a request, whether tokens are a possible answer; made when one arrives.
        self._forms: dict[bytes, list[Callable[[tuple[str, ...]], bool]]] = {}

    @property
    def asks(self) -> list[CollectionRequest]:
        """Requests whose answers it counts, in order."""
        asks = (ask for ask in self.store.asks.values() if ask.recipient == self.ring.role)
        return sorted(asks, key=lambda ask: (ask.epoch, ask.round))

    def add_ask(self, ask: CollectionRequest) -> None:
        """Count answers to a request from now on; errors as of `Store.add_ask`.

        Of a request whose answers go to the other recipient only the number of its round is taken.
        """
        self.store.add_ask(ask)

    def close_ask(self, ask_id: bytes, messages: int) -> None:
        """Take note that the shuffler closed a request, and passed on so many messages in all.

        Raises:
            InputError: The request is unknown.
        """
        if ask_id not in self.store.asks:
            raise InputError("ask: unknown request")
        with self.store.transaction():
            # By the file: another close may be over, and not yet in memory.
            if self.store.run("private/close_ask", id=ask_id):
                self.store.add_to_tally(ask_id, {"passed on": messages})
        self.store.load_asks()
        self.store.wipe_log()

    def take(self, data: bytes, *, drop: bool = False) -> Receipt:
        """Open and count a batch, once; the counts are on disk on return.

        Raises:
            WireError: The bytes are not a batch.
            ConflictError: Fewer than one in ten messages open, and `drop` does not say that the
                others may be lost; the batch can be taken later, with the right keys.
            InputError: The request is unknown; nothing is counted.
        """
        ask_id, batch_id, frames = decode_batch(data)
        forms = self._forms_of(ask_id)
        if forms is None:
            raise InputError(
                f"batch: answers a request that the {self.ring.role} does not know",
                hint=f"publish the request to the {self.ring.role}, too",
            )
        # Outside of the transaction, which keeps all others from the store.
        checked = [self._checked(frame, ask_id, forms) for frame in frames]
        outcomes: Counter[Outcome] = Counter()
        counts: Counter[tuple[int, tuple[str, ...]]] = Counter()
        with self.store.transaction():
            if not self.store.run("private/receive", id=batch_id):
                return self._taken_before(ask_id, len(checked))
            if not drop:
                _check_keys(checked)
            answered = Counter(dict(self.store.rows("private/answers", ask=ask_id)))
            for found in checked:
                if isinstance(found, str):
                    outcomes[found] += 1
                elif not self._is_new(ask_id, found.nonce):
                    outcomes["replayed"] += 1
                # More answers cannot come from different users.
                elif answered[found.set_index] >= self.store.study.population:
                    outcomes["above the population"] += 1
                else:
                    answered[found.set_index] += 1
                    outcomes["accepted"] += 1
                    counts[found.set_index, found.tokens] += 1
            self._count(ask_id, counts)
            self.store.add_to_tally(ask_id, outcomes)
        self.store.wipe_log()
        return Receipt.of(outcomes)

    def _forms_of(self, ask_id: bytes) -> Sequence[Callable[[tuple[str, ...]], bool]] | None:
        if ask_id not in self._forms:
            # `private count --ask` may have added it beside this service.
            self.store.refresh()
            ask = self.store.asks.get(ask_id)
            if ask is None or ask.recipient != self.ring.role:
                return None
            self._forms[ask_id] = [_form(self.store.study, ask, apis) for apis in ask.sets]
        return self._forms[ask_id]

    def _checked(
        self,
        frame: HpkeCiphertext,
        ask_id: bytes,
        forms: Sequence[Callable[[tuple[str, ...]], bool]],
    ) -> SealedReport | Outcome:
        """Return the report in a message, or why it is not counted."""
        if not has_length(frame, self.store.study.report_bytes):
            return "wrong length"
        if frame.config_id not in self._keys:
            return "unknown key"
        try:
            report = decode_report(open_message(frame, self._keys, self.ring.role, ask_id))
        except SealError:
            return "does not open"
        except WireError:
            return "unreadable"
        if report.set_index >= len(forms):
            return "unknown set"
        return report if forms[report.set_index](report.tokens) else "wrong tokens"

    def _is_new(self, ask_id: bytes, nonce: bytes) -> bool:
        digest = hashlib.sha256(ask_id + nonce).digest()[:ID_BYTES]
        return bool(self.store.run("private/take_nonce", ask=ask_id, digest=digest))

    def _count(self, ask_id: bytes, counts: Mapping[tuple[int, tuple[str, ...]], int]) -> None:
        for (set_index, tokens), users in counts.items():
            text = json.dumps(tokens, ensure_ascii=False, separators=(",", ":"))
            self.store.run(
                "private/count", ask=ask_id, set_index=set_index, tokens=text, users=users
            )

    def _taken_before(self, ask_id: bytes, messages: int) -> Receipt:
        self.store.add_to_tally(ask_id, {"taken before": messages})
        return Receipt(0, {"taken before": messages})

    def counts(self, ask: CollectionRequest) -> dict[tuple[str, ...], dict[tuple[str, ...], int]]:
        """Return the counts of a request, as `read_counts`."""
        return read_counts(self.store, ask)


def _check_keys(checked: Sequence[SealedReport | Outcome]) -> None:
    """Check that a fair share of the messages of a batch opens."""
    sealed = sum(found in ("unknown key", "does not open") for found in checked)
    if checked and len(checked) - sealed < _LEAST_OPENED * len(checked):
        raise ConflictError(
            f"batch: {sealed:,} of {len(checked):,} messages do not open with these keys",
            hint="put back the keys that they are sealed for, or drop the messages with --drop",
        )


def _form(
    study: Study, ask: CollectionRequest, apis: tuple[str, ...]
) -> Callable[[tuple[str, ...]], bool]:
    limit = token_limit(study.report_bytes, apis)
    checks = [_token_check(study, ask, api, limit) for api in apis]

    def fits(tokens: tuple[str, ...]) -> bool:
        return len(tokens) == len(checks) and all(
            len(token.encode()) <= limit and check(token)
            for token, check in zip(tokens, checks, strict=True)
        )

    return fits


def _token_check(
    study: Study, ask: CollectionRequest, api: str, limit: int
) -> Callable[[str], bool]:
    """Return whether a token is a possible report on an API, but for its length."""
    plan = ask.randomise.get(api)
    if api in ask.redact:
        shown = {*ask.redact[api].keep, REDACTED}
    elif plan is None:
        return is_token
    elif plan.mechanism == "grr":
        shown = set(plan.values)
    else:
        return partial(is_report, plan=plan)
    # Listed as in a report on that API alone; a larger set has less room, and sends digests.
    return frozenset(fitting(token, limit, study.id) for token in shown).__contains__
