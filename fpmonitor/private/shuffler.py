"""The shuffler: takes uploads, forgets whose they are, passes on random batches.

It opens its own layer as soon as an upload arrives, and keeps what is inside, sealed for the
recipient, by the digest of the upload. No address, time or order of arrival is kept. While an ask
is open, a random `minimum` of its messages stays behind (a threshold pool mix: Serjantov,
Dingledine, Syverson, "From a trickle to a flood", 2002), so that those who come last are never
fewer than the minimum, and nobody is alone among messages that an adversary sent.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.private.keys import (
    SealError,
    expected_form,
    frame_form,
    has_length,
    open_sealed,
    sealed_bytes,
)
from fpmonitor.private.store import NO_ASK, Receipt, Store
from fpmonitor.private.wire import (
    ID_BYTES,
    WireError,
    decode_uploads,
    encode_batch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.private.keys import KeyRing
    from fpmonitor.private.store import Outcome
    from fpmonitor.private.study import CollectionRequest, Study
    from fpmonitor.private.wire import Upload

# A release travels in parts; each is a random part of the pool, however small it is.
PART_BYTES = 16_000_000
# Twice the minimum waits before anything leaves, and leaves as a copy.
_POOLED_MINIMA = 4


class PoolFullError(FpmonitorError):
    """The store of the shuffler has no room; what was sent may be sent again later."""


@dataclass(frozen=True, slots=True)
class _Message:
    """An upload without its layer; its `refusal` is why it does not count."""

    ask: bytes
    digest: bytes = b""
    frame: bytes = b""
    refusal: Outcome | None = None


class Shuffler:
    """The shuffler of a study.

    Parameters
    ----------
    path
        Its store.
    study
        The terms.
    ring
        Its keys.
    most_bytes
        That its store may have; without a limit when left out.

    Raises
    ------
    InputError
        The keys are another role's, or the store is of another study.
    StoreError
        The store cannot be opened.
    """

    def __init__(
        self, path: Path, study: Study, ring: KeyRing, *, most_bytes: int | None = None
    ) -> None:
        self.use_keys(ring)
        self.store = Store(path, study, "shuffler")
        self._most_bytes = most_bytes
        self._inner_bytes = sealed_bytes(study.report_bytes)
        self._inner_form = expected_form(study.report_bytes)
        self._lock = threading.Lock()

    def use_keys(self, ring: KeyRing) -> None:
        """Open with these keys from now on.

        Raises
        ------
        InputError
            They are another role's.
        """
        ring.check_role("shuffler")
        self.ring, self._keys = ring, ring.by_id()

    def add_ask(self, ask: CollectionRequest) -> None:
        """Take answers to an ask from now on; errors as of `Store.add_ask`.

        Raises
        ------
        InputError
            The store may not grow so far that anything of the ask would leave it.
        """
        needed = _POOLED_MINIMA * self._minimum_of(ask) * self._inner_bytes
        if self._most_bytes is not None and needed > self._most_bytes:
            raise InputError(
                f"ask: {_POOLED_MINIMA} times its minimum are {needed / 1e6:.3g} MB, the pool has "
                f"{self._most_bytes / 1e6:.3g} MB",
                hint="give the pool more room, or make a study with a smaller minimum batch",
            )
        self.store.add_ask(ask)

    def take(self, bodies: Sequence[bytes]) -> list[Receipt]:
        """Keep the uploads of each body, each upload once; on disk when it returns.

        Parameters
        ----------
        bodies
            Each holds uploads that follow each other.

        Raises
        ------
        PoolFullError
            The store has no room for them; nothing counts.
        StoreError
            They could not be written; nothing counts.
        """
        with self._lock:
            self._check_room(sum(map(len, bodies)))
            opened = [list(self._messages(body)) for body in bodies]
            with self.store.transaction():
                return [self._kept(messages) for messages in opened]

    def _check_room(self, more: int) -> None:
        if self._most_bytes is not None and self.store.used_bytes() + more > self._most_bytes:
            raise PoolFullError("the pool is full: nothing is taken until something has left")

    def _messages(self, body: bytes) -> Iterator[_Message]:
        try:
            for upload in decode_uploads(body):
                yield self._message(upload)
        except WireError:
            yield _Message(NO_ASK, refusal="unreadable")

    def _message(self, upload: Upload) -> _Message:
        refusal = self._refusal(upload)
        if refusal is not None:
            return _Message(upload.ask if refusal != "unknown ask" else NO_ASK, refusal=refusal)
        try:
            inner = open_sealed(upload.sealed, self._keys, "shuffler", upload.ask)
        except SealError:
            return _Message(upload.ask, refusal="does not open")
        if frame_form(inner) != self._inner_form:
            return _Message(upload.ask, refusal="unreadable")
        return _Message(upload.ask, digest_of(upload), inner)

    def _refusal(self, upload: Upload) -> Outcome | None:
        """Why an upload need not be opened."""
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
        opened: defaultdict[bytes, list[_Message]] = defaultdict(list)
        for message in messages:
            if message.refusal is None:
                opened[message.ask].append(message)
            else:
                by_ask[message.ask][message.refusal] += 1
        for ask_id, group in opened.items():
            kept = self._keep(group)
            by_ask[ask_id].update({"accepted": kept, "replayed": len(group) - kept})
        for ask_id, outcomes in by_ask.items():
            self.store.add_to_tally(ask_id, outcomes)
            self.store.add_to_tally(ask_id, {"held": outcomes["accepted"]})
        return Receipt.of(sum(by_ask.values(), Counter()))

    def _keep(self, messages: Sequence[_Message]) -> int:
        """Keep what is not kept or passed on already; the number of what was new."""
        return self.store.run_many(
            "private/hold",
            (
                {"ask": message.ask, "digest": message.digest, "frame": message.frame}
                for message in sorted(messages, key=lambda message: message.digest)
            ),
        )

    # ---- Passing on

    def minimum(self, ask_id: bytes) -> int:
        """Messages of an ask below which nothing is passed on."""
        return self._minimum_of(self.store.asks[ask_id])

    def _minimum_of(self, ask: CollectionRequest) -> int:
        return self.store.study.minimum_batch * len(ask.sets)

    def release(self) -> int:
        """Make batches of what may be passed on; the number of messages in them.

        Raises
        ------
        StoreError
            They could not be written.
        """
        released = 0
        with self._lock:
            tally = self.store.tally()
            for ask_id in self.store.asks:
                held, minimum = tally[ask_id]["held"], self.minimum(ask_id)
                if held >= 2 * minimum:
                    with self.store.transaction():
                        self._pass_on(ask_id, held - minimum)
                    released += held - minimum
        return released

    def _pass_on(self, ask_id: bytes, messages: int) -> None:
        """Move so many messages, drawn and ordered by a cryptographic generator, into batches."""
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

    def close_ask(self, ask_id: bytes) -> None:
        """Take no more answers; pass on what is held, or drop it where it is too little.

        Raises
        ------
        InputError
            No such ask.
        StoreError
            It could not be written.
        """
        if ask_id not in self.store.asks:
            raise InputError("ask: is not known here")
        with self._lock, self.store.transaction():
            held = self.store.tally()[ask_id]["held"]
            if held >= self.minimum(ask_id):
                self._pass_on(ask_id, held)
            else:
                self.store.run("private/drop_all_held", ask=ask_id)
                self.store.add_to_tally(ask_id, {"held": -held, "below the minimum": held})
            self.store.run("private/forget_taken", ask=ask_id)
            self.store.run("private/close_ask", id=ask_id)
        self.store.load_asks()
        self.store.wipe_log()

    # ---- Sending

    def unsent(self) -> Mapping[bytes, bytes]:
        """Batches that no recipient has acknowledged: id -> ask."""
        return dict(self.store.rows("private/unsent"))

    def batch(self, batch_id: bytes) -> bytes | None:
        """Bytes of an unsent batch, the same each time; null when it has been sent meanwhile."""
        found = self.store.rows("private/unsent_content", id=batch_id)
        return bytes(found[0][0]) if found else None

    def sent(self, batch_id: bytes) -> None:
        """Delete a batch that its recipient has acknowledged."""
        with self.store.transaction():
            self.store.run("private/drop_unsent", id=batch_id)
        self.store.wipe_log()


def upload_bytes(study: Study) -> int:
    """Length of every upload of a study."""
    return ID_BYTES + sealed_bytes(sealed_bytes(study.report_bytes))


def _keyed(ask_id: bytes, digests: Sequence[bytes]) -> Iterator[dict[str, bytes]]:
    """Values of a statement for each digest; sorted ones are found fastest."""
    return ({"ask": ask_id, "digest": digest} for digest in digests)


def digest_of(upload: Upload) -> bytes:
    """16 bytes that an upload of the right length and no other has."""
    sealed = upload.sealed
    parts = (upload.ask, bytes([sealed.config_id]), sealed.encapsulated, sealed.payload)
    return hashlib.sha256(b"".join(parts)).digest()[:ID_BYTES]
