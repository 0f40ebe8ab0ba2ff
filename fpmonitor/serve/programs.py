"""Answers to programs: JSON."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from fpmonitor.answers.counted import counted_answer
from fpmonitor.answers.gauges import gauges
from fpmonitor.answers.standing import SetStanding, Standing
from fpmonitor.decide.evidence import identity_of
from fpmonitor.serve.requests import HEADERS, RefusedRequestError, answered

if TYPE_CHECKING:
    from starlette.requests import Request

    from fpmonitor.serve.questions import Questions
    from fpmonitor.serve.requests import Handler

PROGRAMS = ("/v1/gate", "/v1/decision", "/v1/exposure")
GAUGES = "/gauges"  # which `/metrics` asks for
_MOST_APIS = 200
_GAUGES_SECONDS = 60.0  # for which they are told again: users are not read for each scrape


class Programs:
    """Answers questions, except where an answer would reveal fewer than k users."""

    def __init__(self, service: Questions) -> None:
        self._service = service
        self._gauges: tuple[float, str] | None = None

    @property
    def handlers(self) -> dict[str, Handler]:
        """What answers at each address; `reader` of the scope says who asks."""
        found = (self.gate, self.decision, self.exposure, self.gauges)
        paths = (*PROGRAMS, GAUGES)
        return {path: answered(handler) for path, handler in zip(paths, found, strict=True)}

    async def gauges(self, request: Request) -> Response:
        """Tell the exposure of the recommended set as numbers for Prometheus."""
        del request
        if self._gauges is None or time.monotonic() > self._gauges[0]:
            self._gauges = time.monotonic() + _GAUGES_SECONDS, await self._measured()
        return Response(self._gauges[1], headers=HEADERS)

    async def _measured(self) -> str:
        decision = self._service.decision
        if decision is None:
            return ""
        explorer, standing = await self._service.explorer(), None
        if decision.recommended and explorer.users >= explorer.k:
            found = await asyncio.to_thread(explorer.explore, decision.recommended)
            answer = await self._service.judged(decision.recommended, explorer)
            known = SetStanding(
                apis=decision.recommended,
                verdict=answer["verdict"]
                if answer["verdict"] in {"allow", "block"}
                else "undecided",
                since="",
                limits=(found.lower, found.upper),
            )
            standing = Standing(outcome="cannot tell", sets=(known,), users=(explorer.users,))
        return gauges(decision, standing, identity=identity_of(decision))

    async def decision(self, request: Request) -> Response:
        """Tell the decision, with its newest lists."""
        del request
        self._check_decision()
        return JSONResponse(await self._service.listed(), headers=HEADERS)

    def _check_decision(self) -> None:
        if self._service.decision is None:
            raise RefusedRequestError(404, "no decision is served")

    async def gate(self, request: Request) -> Response:
        """Answer as `fpmonitor gate`."""
        self._check_decision()
        want = _names(request, "want")
        if not want:
            raise RefusedRequestError(400, "want: name at least one API")
        answer = await self._service.answer_gate([*_names(request, "have"), *want])
        return JSONResponse(answer, headers=HEADERS)

    async def exposure(self, request: Request) -> Response:
        """Tell the exposure of some APIs."""
        apis = _names(request, "apis")
        if not 0 < len(apis) <= _MOST_APIS:
            raise RefusedRequestError(400, f"apis: name between 1 and {_MOST_APIS} APIs")
        of_now = self._service.limits_counts  # what is counted names the users
        explorer = await self._service.explorer(of_now=of_now)
        if explorer.users < explorer.k:
            raise RefusedRequestError(503, f"fewer than {explorer.k} users")
        found = await asyncio.to_thread(explorer.explore, apis)
        reader = request.scope["reader"]
        reason = await self._service.refusal_of_count(reader, counted_answer(found.apis, explorer))
        if reason:
            raise RefusedRequestError(403, reason)
        answer = {
            "apis": list(found.apis),
            "users": explorer.users,
            "k": explorer.k,
            "population": explorer.population,
            "delta": explorer.delta,
            "empirical": found.empirical,
            "suppressed": found.suppressed,
            "unbiased": found.unbiased,
            "lower": found.lower,
            "upper": found.upper,
            "masked": list(found.masked),
        }
        return JSONResponse(answer, headers=HEADERS)


def _names(request: Request, parameter: str) -> list[str]:
    """Names of APIs, separated by commas or in several parameters."""
    given = request.query_params.getlist(parameter)
    return [name.strip() for text in given for name in text.split(",") if name.strip()]
