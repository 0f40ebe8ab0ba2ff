"""Pages: their templates, and the scripts and styles that browsers load."""

from __future__ import annotations

import hashlib
import re
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
import markupsafe
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from fpmonitor.decide.guarantee import who_was_drawn
from fpmonitor.policy import DOWN, UP, sureness
from fpmonitor.render.answers import WORDS_OF_APIS
from fpmonitor.render.charts import range_chart
from fpmonitor.render.decisions import bounds, counted, headline, tolerance
from fpmonitor.render.html import chips
from fpmonitor.render.numbers import percent
from fpmonitor.render.svg import chart_style
from fpmonitor.serve.snippet import SCRIPTS, Script, script_named
from fpmonitor.unit import spoken

if TYPE_CHECKING:
    from starlette.requests import Request

    from fpmonitor.population.exposure_index import IndexedExposure
    from fpmonitor.serve.requests import RefusedRequestError

_YEAR = 31_536_000  # seconds
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def service_files() -> list[Route]:
    """Addresses of scripts and styles, which are nobody's secret."""
    return [
        *(Route(f"/dashboard/{name}", partial(_static, name)) for name in _STATIC),
        *(Route(f"/v1/{name}", partial(_script, name)) for name in SCRIPTS),
    ]


def text_refusal(status: int, text: str, more: dict[str, str] | None = None) -> Response:
    """Return an error as a line of text."""
    return PlainTextResponse(text + "\n", status_code=status, headers=PAGE_HEADERS | (more or {}))


def refused_as_text(refusal: RefusedRequestError) -> Response:
    """Return an error of a request as a line of text."""
    return text_refusal(refusal.status, str(refusal), refusal.headers)


def draw_limits(explored: IndexedExposure, budget: float | None) -> str:
    """Draw the limits and the estimate of one set, and the budget."""
    lower, upper = percent(explored.lower, away=DOWN), percent(explored.upper, away=UP)
    return range_chart(
        [("", explored.lower, explored.upper, explored.unbiased)],
        title=f"Exposure from {lower} to {upper}",
        x_label="exposure",
        budget=budget,
    )


def templates_of(package: str, **names: Any) -> jinja2.Environment:
    """Return the templates of a room, which may use what pages say of a decision, and its names."""
    # Names of APIs come from strangers: all that is filled in is escaped. What no page was given
    # is an error instead of an empty place.
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    shared = {
        "percent": percent,
        "DOWN": DOWN,
        "UP": UP,
        "sureness": sureness,
        "headline": headline,
        "bounds": bounds,
        "counted": counted,
        "chips": chips,
    }
    templates.globals |= shared | names
    templates.filters["breakable"] = breakable
    return templates


@cache
def _templates() -> jinja2.Environment:
    return templates_of(
        "fpmonitor.serve",
        who_was_drawn=who_was_drawn,
        tolerance=tolerance,
        words_of_apis=WORDS_OF_APIS,
    )


def breakable(api: str) -> markupsafe.Markup:
    """Name of an API that narrow screens break at its dots."""
    return markupsafe.Markup("<wbr>").join(re.split(r"(?<=[.#])", api))


def service_page(template: str, *, status: int = 200, **values: Any) -> Response:
    """Return a template, filled."""
    text = _templates().get_template(template).render(style=static_path("dashboard.css"), **values)
    if overview := values.get("overview"):
        text = spoken(text, overview.unit)
    return HTMLResponse(
        text, status_code=status, headers=PAGE_HEADERS | {"Cache-Control": "no-store"}
    )


_STATIC = {"dashboard.css": "text/css", "dashboard.js": "text/javascript"}


@cache
def _static_file(name: str) -> Script:
    content = (resources.files("fpmonitor.serve") / "static" / name).read_bytes()
    if name.endswith(".css"):
        content += chart_style().encode()
    return Script(name, content)


def static_path(name: str) -> str:
    """Address of a script or style, which names its content."""
    return f"/dashboard/{name}?v={_static_file(name).version}"


async def _static(name: str, request: Request) -> Response:
    return _cached(_static_file(name), _STATIC[name], request, PAGE_HEADERS)


async def _script(name: str, request: Request) -> Response:
    """Serve a script to pages of any origin, which check its integrity."""
    headers = {
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "X-Content-Type-Options": "nosniff",
    }
    return _cached(script_named(name), "text/javascript", request, headers)


def _cached(file: Script, kind: str, request: Request, headers: dict[str, str]) -> Response:
    """Return a file; under an address that names its content, it may be cached without a limit."""
    tag = f'"{hashlib.sha256(file.content).hexdigest()}"'
    named = request.query_params.get("v") == file.version
    caching = f"public, max-age={_YEAR}, immutable" if named else "no-cache"
    headers = headers | {"ETag": tag, "Cache-Control": caching}
    known = {one.strip() for one in request.headers.get("if-none-match", "").split(",")}
    # Proxies that compress a file make its tag a weak one.
    if known & {tag, f"W/{tag}", "*"}:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=f"{kind}; charset=utf-8", headers=headers)
