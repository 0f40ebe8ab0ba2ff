"""Read-only tools for assistants and editors over one database, by the Model Context Protocol.

Answers are those for others: k is the operator's, so that nobody differs two answers by it. No tool
writes but the note of a look (`store.looks`); a decision is asked by its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.exposure import report_exposures
from fpmonitor.answers.rank import rank_sets
from fpmonitor.answers.sets import check_named_sets
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.files import read_decision
from fpmonitor.disclosure import Audience
from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.monitor import Monitor
from fpmonitor.question import Question
from fpmonitor.store.files import NO_PATIENCE, Patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp.server import MCPServer

_MOST_SETS = 50
_ABOUT = (
    "Which browser APIs a site may read together, measured on a log of users. Exposure is the "
    "share of the users in groups of fewer than k. Limits hold with 95 % confidence each. Numbers "
    "of fewer than k users are never told."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What an assistant may ask."""

    db: Path
    decision: Path | None = None  # Decision file; null where nothing is decided.
    k: int = 10  # Users that must look alike in every answer.
    key_file: Path | None = None
    patience: Patience = NO_PATIENCE

    def apis(self) -> list[dict[str, Any]]:
        """List the APIs of the log: who has them, how many values, and what each exposes alone."""
        with self._open() as monitor:
            return [line.to_json() for line in monitor.apis(k=self.k)]

    def exposure(self, sets: list[list[str]], n: int | None = None) -> list[dict[str, Any]]:
        """Estimate the share of users whom each set of APIs exposes, in a site of n users."""
        if len(sets) > _MOST_SETS:
            raise InputError(f"sets: at most {_MOST_SETS} at a time")
        with self._open() as monitor:
            question = Question(self.k, n)
            found = report_exposures(monitor.population(), question, check_named_sets(sets))
            return [one.to_json() for one in found]

    def rank(self, size: int = 1) -> list[dict[str, Any]]:
        """Rank sets of up to two APIs by exposure and by entropy."""
        if size not in {1, 2}:
            raise InputError("size: 1 or 2")
        with self._open() as monitor:
            return rank_sets(monitor.population(), Question(self.k), size=size).rows()

    def may_read(self, apis: list[str]) -> dict[str, Any]:
        """Tell whether a site may read some APIs together, by the decision that was made."""
        if self.decision is None:
            raise InputError("nothing is decided", hint="start with --decision FILE")
        return read_credible_decision(self.decision, read_decision).answer(apis)

    def _open(self) -> Monitor:
        # Opened for each question: an assistant runs for days, and `ingest` needs the file for
        # itself.
        return Monitor(
            self.db, audience=Audience.OTHERS, key_file=self.key_file, patience=self.patience
        )


def make_server(tools: Tools) -> MCPServer[Any]:
    """Return the server; `run("stdio")` answers.

    Raises:
        InputError: The package `mcp` is not installed.
    """
    try:
        from mcp.server import MCPServer  # noqa: PLC0415 -- an extra
        from mcp.types import ToolAnnotations  # noqa: PLC0415
    except ImportError as error:
        raise InputError("mcp: needs the package mcp", hint="install the extra `mcp`") from error
    server: MCPServer[Any] = MCPServer("fpmonitor", instructions=_ABOUT, log_level="ERROR")
    only_reads = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    offered_tools: list[Callable[..., Any]] = [tools.apis, tools.exposure, tools.rank]
    if tools.decision is not None:
        offered_tools.append(tools.may_read)
    for tool in offered_tools:
        server.add_tool(_spoken(tool), annotations=only_reads)
    return server


def _spoken(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Answer an error of the asker in one line, as the protocol has errors of tools."""
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415 -- an extra

    @wraps(tool)
    def answered(*given: Any, **named: Any) -> Any:
        try:
            return tool(*given, **named)
        except FpmonitorError as error:
            raise ToolError(str(error)) from error

    return answered
