"""The shuffler: takes uploads, forgets their origin, passes on random batches.

It opens its own layer when an upload arrives, and stores the content, sealed for the recipient, by
the digest of the upload. No address, time or order of arrival is stored. While a request is open,
a random `minimum` of its messages stays behind (a threshold pool mix: Serjantov, Dingledine,
Syverson, "From a trickle to a flood", 2002), so that the last ones are never fewer than the
minimum, and no message is alone among those of an adversary.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import Counter, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.private.keys import (
    KeyHolder,
    SealError,
    SecretKeys,
    expected_form,
    frame_form,
    has_length,
    open_message,
    sealed_bytes,
)
from fpmonitor.private.store import NO_ASK, ClosedAsk, ConflictError, Outcome, Receipt, RoleStore
from fpmonitor.private.wire import (
    ID_BYTES,
    Upload,
    WireError,
    decode_uploads,
    encode_batch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.private.study import CollectionRequest, Study

# A release is sent in parts; each is a random part of the pool, however small.
PART_BYTES = 16_000_000
# Twice the minimum waits before anything leaves, and leaves as a copy.
_POOLED_MINIMA = 4


class PoolFullError(FpmonitorError):
    """The store of the shuffler is full; uploads may be sent again later."""


# An upload without its outer layer: its request, and its row in the table of messages, or why it
# does not count.
_Message: TypeAlias = "tuple[bytes, dict[str, bytes] | Outcome]"


class Shuffler(KeyHolder):
    """The shuffler of a study; `StoreError` where its store cannot be read or written.

    Args:
        path, study, ring: Its store, the terms, and its keys.
        most_bytes: Largest size of its store; unlimited by default.

    Raises:
        InputError: The keys belong to another role, or the store to another study.
    """

    def __init__(
        self, path: Path, study: Study, ring: SecretKeys, *, most_bytes: int | None = None
    ) -> None:
        super().__init__("shuffler", ring)
        self.store = RoleStore(path, study, "shuffler")
        self._most_bytes = most_bytes
        self._inner_bytes = sealed_bytes(study.report_bytes)
        self._inner_form = expected_form(study.report_bytes)
        self._lock = threading.Lock()

    def add_ask(self, ask: CollectionRequest) -> None:
        """Take answers to a request from now on; errors as of `Store.add_ask`.

        Raises:
            InputError: The store is too small for the minimum batch of the request.
        """
        needed = _POOLED_MINIMA * self._minimum_of(ask) * self._inner_bytes
        if self._most_bytes is not None and needed > self._most_bytes:
            raise InputError(
                f"ask: {_POOLED_MINIMA} minimum batches are {needed / 1e6:.3g} MB, the pool has "
                f"{self._most_bytes / 1e6:.3g} MB",
                hint="use a larger pool, or make a study with a smaller minimum batch",
            )
        self.store.add_ask(ask)

    def take(self, bodies: Sequence[bytes]) -> list[Receipt]:
        """Store the uploads of each body, each upload once; they are on disk on return."""
        with self._lock:
            self._check_room(sum(map(len, bodies)))
            self.store.refresh()
            # Outside of the transaction, which keeps all others from the store.
            opened = [list(self._messages(body)) for body in bodies]
            with self.store.transaction():
                # Again: `private shuffle --close` may have closed a request beside this service,
                # and what is taken after that would be held for ever.
                self.store.refresh()
                return [self._kept(messages) for messages in opened]

    def _check_room(self, more: int) -> None:
        if self._most_bytes is not None and self.store.used_bytes() + more > self._most_bytes:
            raise PoolFullError("the pool is full: nothing is taken until batches have left")

    def _messages(self, body: bytes) -> Iterator[_Message]:
        try:
            for upload in decode_uploads(body):
                yield self._message(upload)
        # What stands before it counts: a body may have the uploads of many users.
        except WireError:
            yield NO_ASK, "unreadable"

    def _message(self, upload: Upload) -> _Message:
        refusal = self._refusal(upload)
        if refusal is not None:
            # Anybody can make up ids: unknown ones share one row of the tally.
            return upload.ask if refusal != "unknown ask" else NO_ASK, refusal
        try:
            inner = open_message(upload.sealed, self._keys, "shuffler", upload.ask)
        except SealError:
            return upload.ask, "does not open"
        # A recipient could tell the senders of frames of another form from all others.
        if frame_form(inner) != self._inner_form:
            return upload.ask, "unreadable"
        row = {"ask": upload.ask, "digest": upload_id(upload), "frame": inner}
        return upload.ask, row

    def _refusal(self, upload: Upload) -> Outcome | None:
        """Return why an upload need not be opened; None if it must be."""
        if upload.ask not in self.store.asks:
            return "unknown ask"
        if self.store.is_closed(upload.ask):
            return "closed ask"
        if not has_length(upload.sealed, self._inner_bytes):
            return "wrong length"
        if upload.sealed.config_id not in self._keys:
            return "unknown key"
        return None

    def _kept(self, messages: Sequence[_Message]) -> Receipt:
        by_ask: defaultdict[bytes, Counter[Outcome]] = defaultdict(Counter)
        opened: defaultdict[bytes, list[dict[str, bytes]]] = defaultdict(list)
        for ask_id, found in messages:
            if isinstance(found, dict):
                opened[ask_id].append(found)
            else:
                by_ask[ask_id][found] += 1
        for ask_id, group in opened.items():
            if self.store.is_closed(ask_id):
                by_ask[ask_id]["closed ask"] += len(group)
            else:
                by_ask[ask_id] += self._keep(ask_id, group)
        for ask_id, outcomes in by_ask.items():
            self.store.add_to_tally(ask_id, outcomes)
            self.store.add_to_tally(ask_id, {"held": outcomes["accepted"]})
        return Receipt.of(sum(by_ask.values(), Counter()))

    def _keep(self, ask_id: bytes, rows: Sequence[dict[str, bytes]]) -> Counter[Outcome]:
        """Store messages that are new, as many as the population can send; count the outcomes."""
        room = self._most_messages(ask_id) - self.store.tally()[ask_id]["accepted"]
        # By digest, as the table is ordered; nothing is left of the order of arrival.
        ordered = sorted(rows, key=itemgetter("digest"))
        stored_count = self.store.run_many("private/hold", ordered[:room])
        outcomes: Counter[Outcome] = Counter()
        # One by one, as repetitions among the first ones have left room.
        for row in ordered[room:]:
            if not self.store.run("private/hold", **row):
                continue
            if stored_count < room:
                stored_count += 1
            else:
                self.store.run("private/drop_held", ask=ask_id, digest=row["digest"])
                outcomes["above the population"] += 1
        outcomes["accepted"] = stored_count
        # All that have no other outcome.
        outcomes["replayed"] = len(rows) - outcomes.total()
        return outcomes

    def _most_messages(self, ask_id: bytes) -> int:
        return self.store.study.population * len(self.store.asks[ask_id].sets)

    # ---- Release

    def minimum(self, ask_id: bytes) -> int:
        """Return the number of messages below which nothing of a request is passed on."""
        return self._minimum_of(self.store.asks[ask_id])

    def _minimum_of(self, ask: CollectionRequest) -> int:
        return self.store.study.minimum_batch * len(ask.sets)

    def release(self) -> int:
        """Make batches of the messages that may be passed on; return their number."""
        released = 0
        with self._lock:
            # In this order: what is added in between has a tally, but is not looked at.
            asks, tally = self.store.asks, self.store.tally()
            for ask_id in asks:
                minimum = self.minimum(ask_id)
                if tally[ask_id]["held"] < 2 * minimum:
                    continue
                with self.store.transaction():
                    # Again: `private shuffle` may have passed them on beside this service.
                    more = self.store.tally()[ask_id]["held"] - minimum
                    if more >= minimum:
                        self._pass_on(ask_id, more)
                        released += more
        return released

    def _pass_on(self, ask_id: bytes, messages: int) -> None:
        """Move messages, drawn and ordered by a cryptographic generator, into batches."""
        # All that wait, not only the newest: who waited long is no likelier to leave.
        digests = [digest for (digest,) in self.store.rows("private/held_digests", ask=ask_id)]
        secrets.SystemRandom().shuffle(digests)
        chosen = digests[:messages]
        part = max(1, PART_BYTES // self._inner_bytes)
        for start in range(0, messages, part):
            self._add_batch(ask_id, chosen[start : start + part])
        if messages == len(digests):
            self.store.run("private/drop_all_held", ask=ask_id)
        else:
            self.store.run_many("private/drop_held", _keyed(ask_id, sorted(chosen)))
        self.store.run_many("private/take", _keyed(ask_id, sorted(chosen)))
        self.store.add_to_tally(ask_id, {"held": -messages, "passed on": messages})

    def _add_batch(self, ask_id: bytes, digests: Sequence[bytes]) -> None:
        frames = self.store.values("private/held_frame", _keyed(ask_id, digests))
        batch_id = secrets.token_bytes(ID_BYTES)
        content = encode_batch(ask_id, batch_id, frames)
        self.store.run("private/add_unsent", id=batch_id, ask=ask_id, content=content)

    def close_ask(self, ask_id: bytes, *, drop: bool = False) -> ClosedAsk:
        """Take no more answers, and pass on the rest; closing again changes nothing.

        Raises:
            InputError: The request is unknown.
            ConflictError: The rest is below the minimum, or nothing arrived, and `drop` does
                not give it up.
        """
        if ask_id not in self.store.asks:
            raise InputError("ask: unknown request")
        with self._lock:
            if not self.store.is_closed(ask_id):
                self._close(ask_id, drop=drop)
                # Within the lock, or uploads that wait for it would be held for ever.
                self.store.load_asks()
        self.store.wipe_log()
        tally = self.store.tally()[ask_id]
        return ClosedAsk(tally["passed on"], tally["below the minimum"])

    def _close(self, ask_id: bytes, *, drop: bool) -> None:
        with self.store.transaction():
            self.store.refresh()
            if self.store.is_closed(ask_id):
                return
            waiting_messages, minimum = self.store.tally()[ask_id]["held"], self.minimum(ask_id)
            if waiting_messages >= minimum:
                self._pass_on(ask_id, waiting_messages)
            elif not drop:
                raise _below_minimum(self.store.asks[ask_id], waiting_messages, minimum)
            else:
                self.store.run("private/drop_all_held", ask=ask_id)
                self.store.add_to_tally(
                    ask_id, {"held": -waiting_messages, "below the minimum": waiting_messages}
                )
            # A closed request takes nothing, so that no upload can be a repetition any more.
            self.store.run("private/forget_taken", ask=ask_id)
            self.store.run("private/close_ask", id=ask_id)

    # ---- Sending

    def unsent(self) -> Mapping[bytes, bytes]:
        """Return the batches that no recipient has acknowledged: request by id."""
        found = dict(self.store.rows("private/unsent"))
        # After reading them: a batch of another process may be of a request of its own.
        self.store.refresh()
        return found

    def batch(self, batch_id: bytes) -> bytes | None:
        """Return the bytes of an unsent batch; None if it has been sent meanwhile."""
        found = self.store.rows("private/unsent_content", id=batch_id)
        return bytes(found[0][0]) if found else None

    def sent(self, batch_id: bytes) -> None:
        """Delete a batch that its recipient has acknowledged."""
        with self.store.transaction():
            self.store.run("private/drop_unsent", id=batch_id)
        self.store.wipe_log()


def _below_minimum(ask: CollectionRequest, messages: int, minimum: int) -> ConflictError:
    """Say why a request is not closed: what is deleted then never comes again."""
    waiting = f"{messages:,} messages wait" if messages else "no answer has arrived"
    return ConflictError(
        f"{ask.words}: {waiting}, below the minimum of {minimum:,}: closing is final",
        hint="wait for more answers, or give the round up with --drop, which deletes them",
    )


def upload_bytes(study: Study) -> int:
    """Return the length of every upload of a study."""
    return ID_BYTES + sealed_bytes(sealed_bytes(study.report_bytes))


def _keyed(ask_id: bytes, digests: Sequence[bytes]) -> Iterator[dict[str, bytes]]:
    """Yield the values of a statement for each digest; sorted ones are found fastest."""
    return ({"ask": ask_id, "digest": digest} for digest in digests)


def upload_id(upload: Upload) -> bytes:
    """Return 16 bytes that identify an upload of the right length."""
    sealed = upload.sealed
    parts = (upload.ask, bytes([sealed.config_id]), sealed.encapsulated, sealed.payload)
    return hashlib.sha256(b"".join(parts)).digest()[:ID_BYTES]
