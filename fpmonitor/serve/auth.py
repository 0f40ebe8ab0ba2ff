"""Who may ask: a caller with a token; without any token, this machine by its own name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fpmonitor.serve.requests import RefusedRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

# Of the header itself: for a name that it takes for none, such as one with a brace, Starlette's
# `request.url` has the address that the service listens at, which is this machine's own.
_LOCAL_NAME = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]*)?", re.IGNORECASE)
ASK_FOR_TOKEN = {"WWW-Authenticate": "Bearer"}


def bearer_token(request: Request) -> str:
    """Return the token in the header `Authorization`; empty where there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def write_key(request: Request) -> str:
    """Return the bearer token, or `key` in the address, as beacons have no headers.

    A read token is taken from the header only: addresses end up in logs and histories.
    """
    parameters = request.scope["query_string"] and request.query_params  # an empty one takes 10 us
    return bearer_token(request) or (parameters.get("key", "") if parameters else "")


class AuthGuard:
    """Lets requests in or refuses them.

    Args:
        is_token: Whether a token is accepted, compared in constant time. Null: there is no token,
            and only requests to this machine by its own name are answered, so that no foreign page
            can reach the service under a name of its own (DNS rebinding).
        name: What the token is called.
    """

    def __init__(self, is_token: Callable[[str], bool] | None, *, name: str = "token") -> None:
        self._is_token = is_token
        self._name = name

    def check(self, request: Request) -> None:
        """Raise RefusedRequestError where a request is not answered."""
        if self._is_token is None:
            if not _LOCAL_NAME.fullmatch(request.headers.get("host", "")):
                reason = f"without a {self._name}, only localhost is answered"
                raise RefusedRequestError(421, reason)
        elif not self._is_token(bearer_token(request)):
            raise RefusedRequestError(401, f"a {self._name} is needed", ASK_FOR_TOKEN)
