"""The dashboard at `/`: what readers see of the database, once they were let in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool

from fpmonitor.answers.counted import counted_answer
from fpmonitor.errors import InputError
from fpmonitor.policy import DOWN, UP
from fpmonitor.render.charts import Axes, Series, line_chart
from fpmonitor.render.figures import of_conflicts, of_tolerance
from fpmonitor.render.numbers import between, percent
from fpmonitor.render.tables import Table, columns, html_of_table
from fpmonitor.serve.log import log
from fpmonitor.serve.overview import History, Overview, take_overview
from fpmonitor.serve.pages import draw_limits, refused_as_text, service_page, static_path
from fpmonitor.serve.requests import answered
from fpmonitor.serve.snippet import SCRIPTS, script_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from fpmonitor.answers.apis import ApiOverview
    from fpmonitor.answers.check import CheckReport
    from fpmonitor.serve.overview import Measurement
    from fpmonitor.serve.questions import Questions
    from fpmonitor.serve.requests import Handler


MOST_SETS = 10


def draw_history(readings: Sequence[Measurement], budget: float | None, *, k: int) -> str:
    """Draw the exposure over time: the estimate where there is one, else the upper limit."""
    last = readings[-1]
    heights = [
        reading.upper if reading.estimate is None else reading.estimate for reading in readings
    ]
    limit = "" if budget is None else f", budget {percent(budget)}"
    return line_chart(
        [
            Series(
                name=", ".join(last.apis),
                x=[reading.time.timestamp() for reading in readings],
                y=heights,
                lower=[reading.lower for reading in readings],
                upper=[reading.upper for reading in readings],
                notes=[
                    f"{reading.time:%Y-%m-%d %H:%M}: {percent(height)}"
                    for reading, height in zip(readings, heights, strict=True)
                ],
            )
        ],
        title=(
            f"Share of users in groups of fewer than {k} over time; limits now "
            f"{percent(last.lower, away=DOWN)} to {percent(last.upper, away=UP)}{limit}"
        ),
        axes=Axes(
            x="UTC",
            y="exposure",
            shares=True,
            names=[
                (reading.time.timestamp(), f"{reading.time:%Y-%m-%d %H:%M}") for reading in readings
            ],
        ),
        budget=budget,
        low=True,
    )


def history_table(readings: Sequence[Measurement]) -> Table:
    """Return the readings of the recommended set."""
    return Table.of(
        readings,
        [
            *columns("text", ("Time (UTC)", lambda reading: f"{reading.time:%Y-%m-%d %H:%M:%S}")),
            *columns("count", "Users"),
            *columns("short share", "Estimate", "Lower", "Upper"),
        ],
    )


def check_table(check: CheckReport) -> Table:
    """Return the allow list with its verdicts now, what is in doubt first."""
    order = ("block", "undecided", "allow")
    rows = sorted(check.verdicts.items(), key=lambda line: order.index(line[1]))
    return Table(
        columns=[
            *columns("text", "Allowed set"),
            *columns("check", "Now"),
            *columns("right", "Exposes"),
        ],
        rows=[
            (", ".join(apis), verdict, between(*check.limits[apis]))
            for apis, verdict in rows[:MOST_SETS]
        ],
    )


def apis_table(overview: Sequence[ApiOverview]) -> Table:
    """Return every API alone."""
    return Table.of(
        overview,
        [
            *columns("text", "API"),
            *columns("short share", ("Exposed alone", "exposure")),
            *columns("decimal", ("Entropy, bits", "entropy_bits")),
            *columns(
                "count", "Values", ("Users", lambda x: "hidden" if x.users is None else x.users)
            ),
            *columns("short share", "Coverage"),
            *columns("text", ("Changes by design", lambda x: "volatile" if x.volatile else "")),
            *columns("short share", ("Changes between visits", "changes")),
        ],
    )


PEOPLE = ("/", "/dashboard/live", "/dashboard/apis", "/dashboard/explore")


class Dashboard:
    """Looks at the database when it has changed, and shows what it saw last."""

    def __init__(self, service: Questions) -> None:
        self._service = service
        self._history = History(service.history_path)
        self._overview: Overview | None = None
        self._batches, self._others = 0, 0
        self._lock = asyncio.Lock()

    @property
    def handlers(self) -> dict[str, Handler]:
        """What answers at each address; `reader` of the scope says who asks."""
        found = (self.page, self.live, self.apis, self.explore)
        return {
            path: answered(handler, refused_as_text)
            for path, handler in zip(PEOPLE, found, strict=True)
        }

    async def _look(self) -> Overview:
        # Who comes during a look waits for it, and then finds nothing new.
        async with self._lock:
            decision = self._service.decision
            batches = await self._service.ask(lambda monitor: len(monitor.batches()))
            others = self._service.changes_of_others()
            if self._overview is None or (self._batches, self._others) != (batches, others):
                self._overview = await self._service.ask(
                    lambda monitor: take_overview(monitor, decision)
                )
                self._batches, self._others = batches, others
                if self._overview.reading is not None:
                    try:
                        await run_in_threadpool(self._history.add, self._overview.reading)
                    except (OSError, InputError):  # readers are answered all the same
                        log("disk", reason="the history cannot be written")
            return self._overview

    async def page(self, request: Request) -> Response:
        """Show everything."""
        overview = await self._look()
        recommended = overview.recommended.apis if overview.recommended else ()
        ticked = request.query_params.getlist("api") or recommended
        decision = self._service.decision
        return service_page(
            "dashboard.html",
            **self._live_values(overview),
            ticked=ticked,
            **await self._answer(overview, ticked, request.scope["reader"]),
            decision=decision,
            tolerated=None if decision is None else of_tolerance(decision),
            conflicts=None if decision is None else of_conflicts(decision),
            scripts=[script_named(name) for name in SCRIPTS],
            origin=f"{request.url.scheme}://{request.url.netloc}",
            script=static_path("dashboard.js"),
            in_session=request.scope["in_session"],
        )

    async def live(self, request: Request) -> Response:
        """Show what changes with each batch."""
        del request
        return service_page("live.html", **self._live_values(await self._look()))

    async def apis(self, request: Request) -> Response:
        """Show all APIs."""
        del request
        overview = await self._look()
        return service_page(
            "apis.html", overview=overview, apis_table=html_of_table(apis_table(overview.apis))
        )

    async def explore(self, request: Request) -> Response:
        """Show what is known of the ticked APIs."""
        # The name of a limited count is of current users, and others may have had some forgotten.
        is_old = self._service.limits_counts or self._others != self._service.changes_of_others()
        overview = await self._look() if is_old or self._overview is None else self._overview
        ticked = request.query_params.getlist("api")
        values = await self._answer(overview, ticked, request.scope["reader"])
        status = 403 if values["refusal"] else 200
        return service_page("answer.html", status=status, overview=overview, **values)

    async def _answer(
        self, overview: Overview, ticked: Sequence[str], reader: str
    ) -> dict[str, Any]:
        """Answer for what is ticked, or say why there is none."""
        explorer = overview.explorer
        if explorer is None or not ticked:
            return {"answer": None, "refusal": ""}
        explored = await run_in_threadpool(explorer.explore, ticked)
        name = counted_answer(explored.apis, explorer)
        if refusal := await self._service.refusal_of_count(reader, name):
            return {"answer": None, "refusal": refusal}
        judged = await self._service.judged(explored.apis, explorer)
        answer = {
            "explored": explored,
            "chart": draw_limits(explored, overview.budget),
            "verdict": judged.get("verdict"),  # null without a decision
            "because": judged.get("because", ()),
        }
        return {"answer": answer, "refusal": ""}

    def _live_values(self, overview: Overview) -> dict[str, Any]:
        readings = self._history.readings(overview.reading) if overview.reading else []
        check = overview.check
        values = {
            "overview": overview,
            "check": check,
            "most_sets": MOST_SETS,
            "check_table": "" if check is None else html_of_table(check_table(check)),
            "apis_table": html_of_table(apis_table(overview.apis)),
            "readings": readings,
            "lists": self._service.words_of_lists,
        }
        if readings:
            values["history"] = draw_history(readings, overview.budget, k=overview.question.k)
            values["history_table"] = html_of_table(history_table(readings))
        return values
