"""Numbers for Prometheus: no values, users or keys as labels.

Whoever reads them is told nothing of a single sender: records and requests of senders are counted
in hundreds, and bytes in megabytes, as of the last batch.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from fpmonitor.serve.frames import KINDS

_STEP = 100
_MEGABYTE = 1_000_000
_OF_SENDERS = frozenset({"/v1/observations", "/v1/reports"})


def in_hundreds(number: int, *, up: bool = False) -> int:
    """Round a number of records as readers are told it, whom exact ones would tell of a sender."""
    return (number + (_STEP - 1 if up else 0)) // _STEP * _STEP


class _Hundreds:
    """A counter in hundreds; `up` where the first one is to be seen at once."""

    def __init__(self, counter: Counter, *, up: bool = False) -> None:
        self._counter, self._up = counter, up
        self._counted: Tally[tuple[object, ...]] = Tally()
        self._shown: Tally[tuple[object, ...]] = Tally()

    def add(self, *labels: object, amount: int = 1) -> None:
        """Count."""
        self._counted[labels] += amount
        shown = in_hundreds(self._counted[labels], up=self._up)
        if shown != self._shown.get(labels):
            self._counter.labels(*labels).inc(shown - self._shown[labels])
            self._shown[labels] = shown


class ServiceMetrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "fpmonitor_requests",
            "Requests; those of senders in hundreds.",
            ["route", "status"],
            registry=registry,
        )
        self._sent = _Hundreds(self._requests)
        self._seconds = Histogram(
            "fpmonitor_request_seconds", "Time of an answer.", ["route"], registry=registry
        )
        self._waiting_seconds: defaultdict[str, list[float]] = defaultdict(list)
        records = {
            "accepted": "Records on disk, in hundreds.",
            "stored": "Records in the database, in hundreds.",
            "rejected": "Records that the database refused, in hundreds, rounded up.",
        }
        self.accepted, self.stored, self.rejected = (
            _Hundreds(
                Counter(f"fpmonitor_{name}_records", text, ["kind"], registry=registry),
                up=name == "rejected",
            )
            for name, text in records.items()
        )
        for kind in KINDS:
            for counter in (self.accepted, self.stored, self.rejected):
                counter.add(kind, amount=0)
        for route in _OF_SENDERS:
            self._seconds.labels(route)
        self.postponed = Counter(
            "fpmonitor_postponed_batches",
            "Times that the database could not take what waits.",
            registry=registry,
        )
        self._gauges = {
            name: Gauge(f"fpmonitor_{name}", text, registry=registry)
            for name, text in (
                ("waiting_bytes", "Bytes that were not in the database after the last batch."),
                ("refused_bytes", "Bytes that the database refuses."),
            )
        }
        self.backlog: dict[str, int] = {}
        self.note_backlog(0, 0)

    def note_backlog(self, waiting: int, refused: int) -> None:
        """Note what waits after a batch, and what is refused: bytes, shown as whole megabytes."""
        found = {"waiting_bytes": waiting, "refused_bytes": refused}
        # Rounded up: a single byte that waits is not shown as none.
        self.backlog = {name: -(-size // _MEGABYTE) * _MEGABYTE for name, size in found.items()}
        for name, size in self.backlog.items():
            self._gauges[name].set(size)

    def note_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        if route not in _OF_SENDERS:
            self._requests.labels(route, status).inc()
            self._seconds.labels(route).observe(seconds)
            return
        self._sent.add(route, status)
        waiting = self._waiting_seconds[route]
        waiting.append(seconds)
        if len(waiting) >= _STEP:
            for one in waiting:
                self._seconds.labels(route).observe(one)
            waiting.clear()

    def text(self) -> bytes:
        """Everything in the format of Prometheus."""
        return generate_latest(self.registry)
