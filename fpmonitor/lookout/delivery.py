"""How notices are delivered: to a command, to a webhook, and what is kept until they are."""

from __future__ import annotations

import http.client
import json
import shlex
import subprocess
import urllib.error
import urllib.request
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fpmonitor.answers.notices import encoded, message
from fpmonitor.calls import begun
from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.safe_files import write_bytes
from fpmonitor.store.watching import mark_delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from fpmonitor.lookout.settings import WatchSettings
    from fpmonitor.store.watching import Notice

_TIMEOUT = 30.0
_MOST_WAITING = 3
_MOST_DETAILS = 1000  # files of notices that are kept


class DeliveryError(FpmonitorError):
    """A notice could not be delivered; it is kept, and tried again."""


def run_command(command: str) -> Callable[[Notice], None]:
    """Deliver to a command: the notice is JSON on its standard input; no shell is involved.

    Raises:
        InputError: The command is empty, or its quotes do not close.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"command: {error}") from error
    if not words:
        raise InputError("command: it is empty")

    def deliver(notice: Notice) -> None:
        try:
            subprocess.run(  # noqa: S603 -- the user's own command
                words, input=_body(notice), timeout=_TIMEOUT, check=True, stdout=subprocess.DEVNULL
            )
        except subprocess.CalledProcessError as error:
            raise DeliveryError(f"{words[0]} ended with {error.returncode}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeliveryError(f"{words[0]} did not run to its end ({error})") from error

    return deliver


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What was posted to one address is not sent on to another."""

    def redirect_request(self, *_arguments: Any, **_keywords: Any) -> None:
        return None


def post_to(url: str) -> Callable[[Notice], None]:
    """Deliver to a webhook: the notice is posted as JSON.

    The address stays out of all messages but for its host: it often holds a secret.

    Raises:
        InputError: Not an address of http or https.
    """
    refusal = InputError("webhook: must be an address that begins with https:// or http://")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may be the address
        raise refusal from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise refusal
    request_target = parts.path + parts.query
    if not request_target.isascii() or " " in request_target:
        raise InputError("webhook: letters beyond ASCII and spaces must be written as %20 is")
    opener = urllib.request.build_opener(_NoRedirect)
    waiting: list[Future[None]] = []  # for answers that do not end

    def post(notice: Notice) -> None:
        headers = {
            "Content-Type": "application/json",
            # A notice may come twice, if the watch ends in between: by this the second is known.
            "Idempotency-Key": f"{notice.body['decision'][:16]}-{notice.number}",
        }
        request = urllib.request.Request(  # noqa: S310 -- the scheme was checked
            url, data=_body(notice), headers=headers, method="POST"
        )
        try:
            with opener.open(request, timeout=_TIMEOUT):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            raise DeliveryError(f"{parts.hostname} answered {error.code}") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise DeliveryError(f"{parts.hostname} cannot be reached ({reason})") from None
        except (http.client.HTTPException, UnicodeError) as error:  # its text may be the address
            raise DeliveryError(
                f"{parts.hostname} gave no answer of HTTP ({type(error).__name__})"
            ) from None

    def deliver(notice: Notice) -> None:
        waiting[:] = [outcome for outcome in waiting if not outcome.done()]
        if len(waiting) >= _MOST_WAITING:
            raise DeliveryError(f"{parts.hostname} has not yet answered earlier notices")
        outcome = begun(partial(post, notice))
        try:
            outcome.result(_TIMEOUT)
        except TimeoutError:
            waiting.append(outcome)
            late = f"{parts.hostname} did not answer within {_TIMEOUT:.0f} seconds"
            raise DeliveryError(late) from None

    return deliver


def _body(notice: Notice) -> bytes:
    return encoded(message(notice.body, details=notice.details))


class Deliveries:
    """Notices on their way: each is told by every way, in order, and once by each.

    Args:
        ways: Deliver a notice; raise `DeliveryError` on failure.
        note: Called where a file of details cannot be written.
    """

    def __init__(
        self,
        settings: WatchSettings,
        ways: Iterable[Callable[[Notice], None]],
        note: Callable[[str], None],
    ) -> None:
        self._settings, self._ways, self._note = settings, tuple(ways), note
        self.told: dict[int, set[int]] = {}  # by which ways, where another failed

    def _with_details(self, notice: Notice) -> Notice:
        """Write all that is known into a file for the owner, beside a database that is readable."""
        settings = self._settings
        if settings.key_file is not None:
            return notice
        folder = settings.database.with_name(f"{settings.database.name}.notices")
        path = folder / f"{notice.number}.json"
        text = json.dumps(notice.body, indent=1, ensure_ascii=False) + "\n"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            write_bytes(path, [text.encode()], mode=0o600)
            (folder / f"{notice.number - _MOST_DETAILS}.json").unlink(missing_ok=True)
        except (OSError, InputError) as error:
            self._note(f"{path}: cannot be written ({error})")
            return notice
        return replace(notice, details=str(path))

    def tell(self, notices: Iterable[Notice]) -> None:
        """Deliver by each way, in order; one that fails keeps nothing from the others."""
        failed: dict[int, DeliveryError] = {}
        for notice in map(self._with_details, notices):
            delivered_ways = self.told.setdefault(notice.number, set())
            for way, deliver in enumerate(self._ways):
                if way in delivered_ways or way in failed:
                    continue
                try:
                    deliver(notice)
                except DeliveryError as error:
                    failed[way] = error
                else:
                    delivered_ways.add(way)
            if len(delivered_ways) == len(self._ways):
                with self._settings.open_database() as database:
                    mark_delivered(database, notice)
                del self.told[notice.number]
        if failed:
            [why, *_] = failed.values()
            raise DeliveryError(f"notices are kept, and will be sent again: {why}")
