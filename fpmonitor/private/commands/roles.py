"""Commands of the roles: shuffle, curate, analyze, serve, publish, close, status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.listening import run_application
from fpmonitor.cli.options import FORMAT, OUTPUT, UNSAFE_COUNTS
from fpmonitor.cli.output import note, show
from fpmonitor.errors import InputError
from fpmonitor.private.commands import tables
from fpmonitor.private.commands.options import ASKS, STUDY
from fpmonitor.private.commands.output import (
    by_round,
    promised,
    shown,
)
from fpmonitor.private.files import write_bytes
from fpmonitor.private.status import RoleStatus
from fpmonitor.private.study import RecipientRole, Role, read_ask, read_study
from fpmonitor.private.wire import MAX_BATCH_BYTES
from fpmonitor.safe_files import read_bytes, untyped

if TYPE_CHECKING:
    from fpmonitor.private.delivery import Delivery
    from fpmonitor.private.keys import KeyRing
    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.shuffler import Shuffler
    from fpmonitor.private.study import CollectionRequest
    from fpmonitor.private.transport import Service

_UPLOADS_AT_ONCE = 8192


STORE = Annotated[
    Path,
    typer.Option("--store", help="SQLite file in which the role keeps its state.", metavar="FILE"),
]
KEYS = Annotated[
    Path, typer.Option("--keys", help="File of the secret keys of the role.", metavar="FILE")
]
BATCHES = Annotated[
    list[Path] | None,
    typer.Argument(help="Files of batches from the shuffler.", metavar="BATCH..."),
]
TO = Annotated[str, typer.Option("--to", help="URL of the service.", metavar="URL")]
TOKEN = Annotated[
    Path, typer.Option("--token", help="File of the token that the service wants.", metavar="FILE")
]
CURATOR = Annotated[
    str | None,
    typer.Option(
        "--curator", help="URL of the curator, to which its batches are sent.", metavar="URL"
    ),
]
CURATOR_TOKEN = Annotated[
    Path | None,
    typer.Option(
        "--curator-token", help="File of the token that the curator wants.", metavar="FILE"
    ),
]
ANALYST = Annotated[
    str | None,
    typer.Option(
        "--analyst", help="URL of the analyst, to which its batches are sent.", metavar="URL"
    ),
]
ANALYST_TOKEN = Annotated[
    Path | None,
    typer.Option(
        "--analyst-token", help="File of the token that the analyst wants.", metavar="FILE"
    ),
]


def shuffle(
    study: STUDY,
    store: STORE,
    keys: KEYS,
    uploads: Annotated[
        list[Path] | None, typer.Argument(help="Files of uploads from users.", metavar="UPLOADS...")
    ] = None,
    ask: ASKS = None,
    close: Annotated[
        bool,
        typer.Option("--close", help="Take no more answers to the requests; pass on what is held."),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write batches to this folder.", metavar="FOLDER"),
    ] = None,
    curator: CURATOR = None,
    curator_token: CURATOR_TOKEN = None,
    analyst: ANALYST = None,
    analyst_token: ANALYST_TOKEN = None,
    output_format: FORMAT = None,
) -> None:
    """Take uploads of users, and pass them on in random batches once there are enough."""
    from fpmonitor.private.shuffler import upload_bytes  # noqa: PLC0415 -- an extra

    asks = [read_ask(path) for path in ask or []]
    if close and not asks:
        raise InputError("shuffle: --close needs the requests", hint="--ask FILE")
    recipients = _recipients(curator, curator_token, analyst, analyst_token)
    outcomes: Counter[str] = Counter()
    with _shuffler(study, store, keys, asks) as role:
        size = _UPLOADS_AT_ONCE * upload_bytes(role.store.study)
        for path in uploads or []:
            for body in _parts(path, size):
                outcomes.update(role.take([body])[0].outcomes)
                role.release()
        for one in asks if close else []:
            role.close_ask(one.id)
        written = [] if folder is None else _write_batches(role, folder)
        delivered = _deliver(role, recipients)
        held = sum(counts["held"] for counts in role.store.tally().values())
    row = {**outcomes, "held": held, "batches": [str(path) for path in written]}
    show(tables.tally([row], row), output_format, None)
    if not delivered:
        raise InputError(
            "shuffle: some batches were not acknowledged", hint="run the command again"
        )


def curate(
    study: STUDY,
    store: STORE,
    keys: KEYS,
    batches: BATCHES = None,
    ask: ASKS = None,
    unsafe_counts: UNSAFE_COUNTS = False,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Open batches as the curator, and count the users of each value."""
    with _recipient(study, store, keys, ask, "curator") as role:
        document = {
            "messages": _take_batches(role, batches or []),
            "asks": [shown(role, one, unsafe=unsafe_counts) for one in by_round(role)],
        }
    show(tables.counts(document), output_format, output)


def analyze(
    study: STUDY,
    store: STORE,
    keys: KEYS,
    batches: BATCHES = None,
    ask: ASKS = None,
    promise: Annotated[
        Path | None,
        typer.Option(
            "--promise",
            help="Output of `private select --format json`, to compare with.",
            metavar="SELECTION.json",
        ),
    ] = None,
    unsafe_counts: UNSAFE_COUNTS = False,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Open batches as the analyst, count them, and compare with the promised exposure."""
    from fpmonitor.private.selection import compare_with_joint  # noqa: PLC0415 -- slow to load

    with _recipient(study, store, keys, ask, "analyst") as role:
        messages = _take_batches(role, batches or [])
        terms, asks = role.store.study, by_round(role)
        document = {
            "messages": messages,
            "asks": [shown(role, one, unsafe=unsafe_counts) for one in asks],
        }
        compared = None
        if promise is not None:
            chosen = promised(promise)
            joint = [role.counts(one)[chosen.apis] for one in asks if chosen.apis in one.sets]
            if not joint:
                raise InputError(f"{promise}: no request in the store is for the recommended set")
            compared = compare_with_joint(terms, chosen, joint[-1])
            document["promise"] = untyped(compared)
    show(tables.counts(document, compared), output_format, output)


def publish(
    ask: Annotated[Path, typer.Argument(help="File of the request.", metavar="ASK.json")],
    to: TO,
    token_file: TOKEN,
) -> None:
    """Send a request to a service: the shuffler then takes answers, the recipient counts them."""
    question = read_ask(ask)
    with _service(to, token_file) as service:
        service.post("/asks", question.to_bytes(), "application/json")
    note(f"ask {question.id.hex()}")


def close(
    ask: Annotated[Path, typer.Argument(help="File of the request.", metavar="ASK.json")],
    to: TO,
    token_file: TOKEN,
) -> None:
    """Close a request: the shuffler takes no more answers and passes on what it holds."""
    question = read_ask(ask)
    with _service(to, token_file) as service:
        service.post(f"/asks/{question.id.hex()}/close", b"", "")
    note(f"ask {question.id.hex()} is closed")


def status(to: TO, token_file: TOKEN, output_format: FORMAT = None, output: OUTPUT = None) -> None:
    """Show how many messages a service accepted, refused, holds and has passed on."""
    with _service(to, token_file) as service:
        found = service.get("/status").read(RoleStatus)
    rows = [
        {"ask": one.id, "round": one.round, "open": one.open, **one.messages} for one in found.asks
    ]
    show(tables.tally(rows, untyped(found)), output_format, output)


def serve(
    role: Annotated[Role, typer.Option("--role", help="The role to run.")],
    study: STUDY,
    store: STORE,
    keys: KEYS,
    token_file: Annotated[
        Path,
        typer.Option(
            "--token", help="File of the token that callers must present.", metavar="FILE"
        ),
    ],
    ask: ASKS = None,
    curator: CURATOR = None,
    curator_token: CURATOR_TOKEN = None,
    analyst: ANALYST = None,
    analyst_token: ANALYST_TOKEN = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            help="Origin of pages that may send uploads, * for any; may be repeated.",
            metavar="ORIGIN",
        ),
    ] = None,
    pool_mb: Annotated[
        int,
        typer.Option(
            "--pool-mb", help="Largest size of the shuffler's store, in MB; it refuses more.", min=1
        ),
    ] = 10_000,
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="Port to listen at; 0 takes a free one.", min=0)
    ] = 8027,
) -> None:
    """Run a role as an HTTP service."""
    from fpmonitor.private.services import recipient_app, shuffler_app  # noqa: PLC0415 -- extras
    from fpmonitor.private.transport import read_token  # noqa: PLC0415

    secret = read_token(token_file)
    asks = [read_ask(path) for path in ask or []]
    with ExitStack() as stack:
        if role == "shuffler":
            shuffler = stack.enter_context(
                _shuffler(study, store, keys, asks, most_bytes=pool_mb * 1_000_000)
            )
            recipients = _recipients(curator, curator_token, analyst, analyst_token)
            application = shuffler_app(
                shuffler,
                token=secret,
                keys=keys,
                delivery=_delivery(shuffler, recipients),
                origins=origin or [],
            )
        else:
            recipient = stack.enter_context(_recipient(study, store, keys, ask, role))
            application = recipient_app(recipient, token=secret, keys=keys)
        run_application(application, host, port)


# ---- Roles


@contextmanager
def _shuffler(
    study: Path,
    store: Path,
    keys: Path,
    asks: Sequence[CollectionRequest],
    *,
    most_bytes: int | None = None,
) -> Iterator[Shuffler]:
    from fpmonitor.private.shuffler import Shuffler  # noqa: PLC0415 -- an extra

    role = Shuffler(store, read_study(study), _keys(keys), most_bytes=most_bytes)
    with role.store:
        for one in asks:
            role.add_ask(one)
        yield role


@contextmanager
def _recipient(
    study: Path, store: Path, keys: Path, asks: Sequence[Path] | None, name: Role
) -> Iterator[Recipient]:
    from fpmonitor.private.recipient import Recipient  # noqa: PLC0415 -- an extra

    ring = _keys(keys)
    if ring.role != name:
        raise InputError(f"{keys}: keys of the {ring.role}, not of the {name}")
    role = Recipient(store, read_study(study), ring)
    with role.store:
        for path in asks or []:
            role.add_ask(read_ask(path))
        yield role


def _keys(path: Path) -> KeyRing:
    from fpmonitor.private.keys import read_keys  # noqa: PLC0415 -- an extra

    return read_keys(path)


# ---- Between services


def _service(address: str, token_file: Path) -> Service:
    from fpmonitor.private.transport import Service, read_token  # noqa: PLC0415

    return Service(address, read_token(token_file))


def _recipients(
    curator: str | None,
    curator_token: Path | None,
    analyst: str | None,
    analyst_token: Path | None,
) -> dict[RecipientRole, Service]:
    given: dict[RecipientRole, tuple[str | None, Path | None]] = {
        "curator": (curator, curator_token),
        "analyst": (analyst, analyst_token),
    }
    services = {}
    for name, (address, token_file) in given.items():
        if (address is None) != (token_file is None):
            raise InputError(f"--{name} and --{name}-token go together")
        if address is not None and token_file is not None:
            services[name] = _service(address, token_file)
    return services


def _delivery(shuffler: Shuffler, recipients: Mapping[RecipientRole, Service]) -> Delivery:
    from fpmonitor.private.delivery import Delivery  # noqa: PLC0415 -- an extra

    return Delivery(shuffler, recipients, lambda reason: note(f"not delivered: {reason}"))


def _deliver(shuffler: Shuffler, recipients: Mapping[RecipientRole, Service]) -> bool:
    return not recipients or _delivery(shuffler, recipients).send_all()


# ---- Files


def _parts(path: Path, size: int) -> Iterator[bytes]:
    """Read a file piece by piece."""
    try:
        with path.open("rb") as file:
            while part := file.read(size):
                yield part
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def _write_batches(role: Shuffler, folder: Path) -> list[Path]:
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {folder} ({error.strerror})") from error
    for batch_id, ask_id in role.unsent().items():
        content = role.batch(batch_id)
        if content is None:  # a service on the same store was faster
            continue
        recipient = role.store.asks[ask_id].recipient
        path = folder / f"{recipient}-{batch_id.hex()}.batch"
        write_bytes(path, [content])
        role.sent(batch_id)
        written.append(path)
    return written


def _take_batches(role: Recipient, paths: Sequence[Path]) -> dict[str, int]:
    outcomes: Counter[str] = Counter()
    for path in paths:
        content = read_bytes(path, "batch", most=MAX_BATCH_BYTES)
        try:
            outcomes.update(role.take(content).outcomes)
        except InputError as error:
            raise InputError(f"{path}: {error.message}", hint=error.hint) from error
    return dict(outcomes)
