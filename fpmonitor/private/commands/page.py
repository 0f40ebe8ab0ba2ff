"""Command on the page snippet."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from fpmonitor.cli.options import FORMAT, OUTPUT
from fpmonitor.cli.output import emit, note
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError
from fpmonitor.private.commands.options import RECIPIENT_KEY, SHUFFLER_KEY
from fpmonitor.private.study import CollectionRequest, Study, check_ask
from fpmonitor.private.wire import decode_configs
from fpmonitor.render.output import to_json
from fpmonitor.serve.snippet import (
    OWN_FILE,
    SCRIPTS,
    SEALED,
    for_script,
    page_lines,
    script_element,
    script_named,
    unreadable,
)
from fpmonitor.vocabulary import split_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.decide.decision import Decision


def sealing_lines(
    address: str,
    to: str,
    study: Study,
    ask: CollectionRequest,
    *,
    shuffler_keys: bytes,
    recipient_keys: bytes,
) -> str:
    """Return HTML that loads the sealing script from a service and answers after consent.

    Args:
        address: URL of the service with the script, `https://host[:port]`.
        to: URL of the shuffler.
        study, ask: The terms, and the request that is answered.
        shuffler_keys, recipient_keys: `HpkeConfigList` of each.
    """
    check_ask(study, ask)
    for keys in (shuffler_keys, recipient_keys):
        decode_configs(keys)
    return f"""{script_element(address, script_named(SEALED))}
<script>
{OWN_FILE}fpmonitor.seal({{
  to: {for_script(to.rstrip("/"))},
  study: {for_script(study.to_bytes().decode())},
  ask: {for_script(ask.to_bytes().decode())},
  shufflerKeys: {for_script(base64.b64encode(shuffler_keys).decode())},
  recipientKeys: {for_script(base64.b64encode(recipient_keys).decode())},
  consent: () => false, // replace: true, or a promise of true, once the visitor has agreed
}});
</script>
"""


DECISION = Annotated[
    Path | None, typer.Argument(help="Decision file; the page reads the candidates of its policy.")
]
APIS = Annotated[str | None, typer.Option("--apis", help="Read these APIs.", metavar="A,B,...")]
ADDRESS = Annotated[str, typer.Option("--address", help="URL of `fpmonitor collect serve`.")]
SCRIPT = Annotated[str, typer.Option("--script", help=f"Script to load: {', '.join(SCRIPTS)}.")]
TO = Annotated[str | None, typer.Option("--to", help="Sealed: URL of the shuffler.", metavar="URL")]
STUDY = Annotated[Path | None, typer.Option("--study", help="Sealed: file of the study.")]
ASK = Annotated[
    Path | None, typer.Option("--ask", help="Sealed: file of the request that is answered.")
]


def snippet(
    decision: DECISION = None,
    apis: APIS = None,
    address: ADDRESS = "http://127.0.0.1:8017",
    script: SCRIPT = ("collector.js"),
    to: TO = None,
    study: STUDY = None,
    ask: ASK = None,
    shuffler_key: SHUFFLER_KEY = None,
    recipient_key: RECIPIENT_KEY = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Print the HTML that adds the page snippet to a page, with its integrity hash."""
    _check_address("--address", address)
    chosen = script_named(script)
    files = {
        "--study": study, "--ask": ask, "--shuffler-key": shuffler_key,
        "--recipient-key": recipient_key,
    }  # fmt: skip
    if script == SEALED:
        if decision is not None or apis is not None:
            raise InputError(
                f"{SEALED} reads the APIs of the request", hint="omit the decision and --apis"
            )
        text, wanted = _sealed(address, to, files)
    else:
        if to is not None or any(files.values()):
            raise InputError(f"--to and the files are only for --script {SEALED}")
        if (decision is None) == (apis is None):
            raise InputError("give either a decision file or --apis")
        wanted = split_names(apis) if apis else _apis_of(read_decision(decision or Path()))
        text = page_lines(address, wanted, chosen)
    if output_format == "json":
        content = {
            "path": chosen.path, "integrity": chosen.integrity, "apis": list(wanted), "html": text,
        }  # fmt: skip
        emit(to_json(content), output)
    elif output_format in {None, "table"}:
        emit(text, output)
    else:
        raise InputError("--format: HTML or JSON only", hint="omit --format, or use json")
    if unread := unreadable(wanted):
        note(f"the page cannot read {', '.join(unread)}")


def _apis_of(decision: Decision) -> tuple[str, ...]:
    """Return the candidates as pages call them."""
    return tuple(sorted(set(map(decision.means, decision.policy.candidates))))


def _check_address(option: str, address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise InputError(f"{option}: {address!r} is not an address", hint="https://logs.example")


def _sealed(
    address: str, to: str | None, files: Mapping[str, Path | None]
) -> tuple[str, Sequence[str]]:
    """Return the HTML of a page that seals, and the APIs that it reads."""
    from fpmonitor.private.keys import read_public  # noqa: PLC0415 -- an extra

    missing = [name for name, path in files.items() if path is None]
    if to is None or missing:
        raise InputError(f"{SEALED} needs --to, {', '.join(files)}")
    _check_address("--to", to)
    study, ask, shuffler_key, recipient_key = (path for path in files.values() if path is not None)
    request = CollectionRequest.read(ask)
    text = sealing_lines(
        address,
        to,
        Study.read(study),
        request,
        shuffler_keys=read_public(shuffler_key, "shuffler").configs,
        recipient_keys=read_public(recipient_key, request.recipient).configs,
    )
    return text, sorted({api for one in request.sets for api in one})
