"""Templates of the page, and the script and style that it loads."""

from __future__ import annotations

import hashlib
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fpmonitor.errors import shortened
from fpmonitor.render.numbers import between
from fpmonitor.render.svg import chart_style
from fpmonitor.serve.pages import PAGE_HEADERS, templates_of
from fpmonitor.ui.words import alone_in_words, more_users
from fpmonitor.unit import Unit, spoken

if TYPE_CHECKING:
    import jinja2
    from starlette.background import BackgroundTask
    from starlette.requests import Request

# Without a referrer to itself, a browser says "null" for the origin of the forms of this page.
HEADERS = PAGE_HEADERS | {"Referrer-Policy": "same-origin"}
_KINDS = {"ui.css": "text/css", "ui.js": "text/javascript"}
_SHOWN = 60  # characters of a value


def static_routes() -> list[Route]:
    """Addresses of script and style."""
    return [Route(f"/static/{name}", partial(_static, name)) for name in _KINDS]


@cache
def _templates() -> jinja2.Environment:
    templates = templates_of(
        "fpmonitor.ui", alone_in_words=alone_in_words, between=between, more_users=more_users
    )
    templates.filters["shortened"] = partial(shortened, most=_SHOWN)
    return templates


def page(template: str, *, unit: Unit = "user", **values: Any) -> Response:
    """Return the page, filled."""
    style, script = _path("ui.css"), _path("ui.js")
    return fragment(template, unit=unit, style=style, script=script, **values)


def fragment(
    template: str,
    *,
    status: int = 200,
    unit: Unit = "user",
    background: BackgroundTask | None = None,
    **values: Any,
) -> Response:
    """Return a part of the page, filled; rows are called rows."""
    text = _templates().get_template(template).render(**values)
    headers = HEADERS | {"Cache-Control": "no-store"}
    return HTMLResponse(spoken(text, unit), status, headers, background=background)


@cache
def _content(name: str) -> bytes:
    content = (resources.files("fpmonitor.ui") / "static" / name).read_bytes()
    if name.endswith(".css"):
        shared = (resources.files("fpmonitor.serve") / "static" / "dashboard.css").read_bytes()
        return shared + content + chart_style().encode()
    return content


def _path(name: str) -> str:
    # A new version of the style or script has another address, so no browser shows an old one.
    return f"/static/{name}?v={hashlib.sha256(_content(name)).hexdigest()[:12]}"


async def _static(name: str, request: Request) -> Response:
    del request
    return Response(_content(name), media_type=_KINDS[name], headers=PAGE_HEADERS)
