"""The OpenAPI document against the service: no request that it describes ends in a server error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from fpmonitor.monitor import Monitor
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig

schemathesis = pytest.importorskip("schemathesis")
openapi_checks = pytest.importorskip("schemathesis.specs.openapi.checks")

if TYPE_CHECKING:
    from pathlib import Path


# Not that all it describes is taken: the document cannot tell what lines of JSON hold.
CHECKS = [
    schemathesis.checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("schema")
    rows = [{"user": f"u{i}", "Screen.width": str(i % 3), "A.a": "x"} for i in range(60)]
    (folder / "users.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path: Path = folder / "s.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(folder / "users.jsonl")])
        made = monitor.decide(k=10, budget=0.05, setting="sample")
    (folder / "decision.json").write_text(json.dumps(made.to_json()))
    config = ServeConfig(db=path, decision=folder / "decision.json", flush_seconds=0.5)
    return schemathesis.openapi.from_asgi("/v1/openapi.json", service_app(config))


def test_no_described_request_ends_in_a_server_error(api: Any) -> None:
    operations = [found.ok() for found in api.get_all_operations()]
    assert len(operations) == 7  # all but the document itself
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def fits(case: Any) -> None:
            answer = case.call(base_url="http://localhost")
            assert answer.status_code < 500, case.as_curl_command()
            case.validate_response(answer, checks=CHECKS)

        fits()
