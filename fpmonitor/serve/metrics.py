"""Numbers for Prometheus: no values, users or keys as labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from fpmonitor.serve.spool import Spool


class Metrics:
    """Counters of one service."""

    def __init__(self, spool: Spool) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "fpmonitor_requests", "Requests.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "fpmonitor_request_seconds", "Time of an answer.", ["route"], registry=self.registry
        )
        self.accepted = Counter(
            "fpmonitor_accepted_records", "Records on disk.", ["kind"], registry=self.registry
        )
        self.stored = Counter(
            "fpmonitor_stored_records", "Records in the database.", ["kind"], registry=self.registry
        )
        self.rejected = Counter(
            "fpmonitor_rejected_records",
            "Records that the database refused.",
            ["kind"],
            registry=self.registry,
        )
        self.postponed = Counter(
            "fpmonitor_postponed_batches",
            "Times that the database could not take what waits.",
            registry=self.registry,
        )
        Gauge(
            "fpmonitor_waiting_bytes", "Bytes that are not in the database.", registry=self.registry
        ).set_function(lambda: spool.waiting_bytes)
        Gauge(
            "fpmonitor_refused_bytes", "Bytes that the database refuses.", registry=self.registry
        ).set_function(lambda: spool.refused_bytes)

    def text(self) -> bytes:
        """Everything in the format of Prometheus."""
        return generate_latest(self.registry)
