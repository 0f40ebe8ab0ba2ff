"""Commands of the roles: shuffle, curate, analyze, serve, publish, close, status."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fpmonitor.cli.listening import run_application
from fpmonitor.cli.options import FORMAT, UNSAFE_COUNTS
from fpmonitor.cli.output import Shown, note, show
from fpmonitor.errors import InputError
from fpmonitor.private.commands import tables
from fpmonitor.private.commands.options import FOLDER, STUDY_OR_NONE
from fpmonitor.private.commands.output import counts_of, read_selection
from fpmonitor.private.files import digest_of, parts_of
from fpmonitor.private.status import RoleStatus, reconciled
from fpmonitor.private.store import ClosedAsk, Store
from fpmonitor.private.study import CollectionRequest, RecipientRole, Role, Study
from fpmonitor.private.wire import MAX_BATCH_BYTES
from fpmonitor.safe_files import read_bytes, untyped, write_bytes

if TYPE_CHECKING:
    from fpmonitor.private.delivery import Delivery
    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.shuffler import Shuffler
    from fpmonitor.private.study import CollectionRequest
    from fpmonitor.private.transport import Service

_UPLOADS_AT_ONCE = 8192


BATCHES = Annotated[
    list[Path] | None,
    typer.Argument(help="Files of batches from the shuffler.", metavar="BATCH..."),
]
PATH_OF_ASK = Annotated[Path, typer.Argument(help="File of the request.", metavar="ASK.json")]


DROP = Annotated[
    bool,
    typer.Option(
        "--drop", help="Delete messages that are too few to pass on, or that do not open."
    ),
]


def _address(name: str, help_text: str) -> Any:
    return typer.Option(name, help=help_text, metavar="URL")


@dataclass(frozen=True, kw_only=True)
class RoleFiles:
    """Options for the files of a role."""

    folder: FOLDER = None
    study: STUDY_OR_NONE = None
    store: Annotated[
        Path | None, typer.Option("--store", help="SQLite file in which the role keeps its state.")
    ] = None
    keys: Annotated[
        Path | None, typer.Option("--keys", help="File of the secret keys of the role.")
    ] = None
    ask: Annotated[
        list[Path] | None,
        typer.Option(
            "--ask",
            help="File of a request whose answers are taken; may be repeated. "
            "The store remembers the requests of earlier runs.",
        ),
    ] = None

    @cached_property
    def asks(self) -> list[CollectionRequest]:
        """The named requests."""
        return [CollectionRequest.read(path) for path in self.ask or []]

    def paths(self, role: Role) -> tuple[Path, Path, Path]:
        """Return the files of a role: study, store and keys."""
        from fpmonitor.private.folder import RoleFolder  # noqa: PLC0415 -- an extra

        made = None if self.folder is None else RoleFolder.of(self.folder, role).path
        given = {"study": self.study, "store": self.store, "keys": self.keys}
        names = {"study": "study.json", "store": "store.db", "keys": "keys"}
        if made is not None:
            given = {name: path or made / names[name] for name, path in given.items()}
        if missing := [f"--{name}" for name, path in given.items() if path is None]:
            raise InputError(f"{role}: needs {', '.join(missing)}", hint="or --folder FOLDER")
        study, store, keys = (path for path in given.values() if path is not None)
        return study, store, keys

    @contextmanager
    def open_shuffler(self, most_bytes: int | None = None) -> Iterator[Shuffler]:
        """Open the store of the shuffler, with the named requests."""
        from fpmonitor.private.keys import read_keys  # noqa: PLC0415 -- an extra
        from fpmonitor.private.shuffler import Shuffler  # noqa: PLC0415 -- an extra

        study, store, keys = self.paths("shuffler")
        role = Shuffler(store, Study.read(study), read_keys(keys), most_bytes=most_bytes)
        with role.store:
            for one in self.asks:
                role.add_ask(one)
            yield role

    @contextmanager
    def open_recipient(self, name: Role) -> Iterator[Recipient]:
        """Open the store of a recipient, with the named requests."""
        from fpmonitor.private.keys import read_keys  # noqa: PLC0415 -- an extra
        from fpmonitor.private.recipient import Recipient  # noqa: PLC0415 -- an extra

        study, store, keys = self.paths(name)
        ring = read_keys(keys)
        if ring.role != name:
            raise InputError(f"{keys}: keys of the {ring.role}, not of the {name}")
        role = Recipient(store, Study.read(study), ring)
        with role.store:
            for one in self.asks:
                role.add_ask(one)
            yield role


@dataclass(frozen=True, kw_only=True)
class Recipients:
    """Options for the services that the shuffler sends batches to."""

    curator: Annotated[
        str | None, _address("--curator", "URL of the curator, to which its batches are sent.")
    ] = None
    curator_token: Annotated[
        Path | None,
        typer.Option("--curator-token", help="File of the token that the curator wants."),
    ] = None
    analyst: Annotated[
        str | None, _address("--analyst", "URL of the analyst, to which its batches are sent.")
    ] = None
    analyst_token: Annotated[
        Path | None,
        typer.Option("--analyst-token", help="File of the token that the analyst wants."),
    ] = None

    def services(self) -> dict[RecipientRole, Service]:
        """Return the named services."""
        given: dict[RecipientRole, tuple[str | None, Path | None]] = {
            "curator": (self.curator, self.curator_token),
            "analyst": (self.analyst, self.analyst_token),
        }
        services = {}
        for name, (address, token_file) in given.items():
            if (address is None) != (token_file is None):
                raise InputError(f"--{name} and --{name}-token go together")
            if address is not None and token_file is not None:
                services[name] = service_at(address, token_file)
        return services


@dataclass(frozen=True, kw_only=True)
class RoleServices:
    """Options for the services of roles: one of them, or all that the curator's folder names."""

    folder: FOLDER = None
    to: Annotated[str | None, _address("--to", "URL of the service.")] = None
    token_file: Annotated[
        Path | None, typer.Option("--token", help="File of the token that the service wants.")
    ] = None

    @contextmanager
    def open(self, roles: Sequence[Role]) -> Iterator[list[Service]]:
        """Open the services of the roles, in this order; or the named one alone."""
        with ExitStack() as stack:
            yield [stack.enter_context(one) for one in self._services(roles)]

    def _services(self, roles: Sequence[Role]) -> list[Service]:
        if self.folder is not None:
            from fpmonitor.private.folder import RoleFolder  # noqa: PLC0415 -- an extra

            curator = RoleFolder.of(self.folder, "curator")
            return [curator.service(role) for role in dict.fromkeys(roles)]
        if self.to is None or self.token_file is None:
            raise InputError("give --folder, or --to and --token")
        return [service_at(self.to, self.token_file)]


def service_at(address: str, token_file: Path) -> Service:
    """Return a service, with the token of a file."""
    from fpmonitor.private.transport import Service, read_token  # noqa: PLC0415 -- an extra

    return Service(address, read_token(token_file))


def shuffle(
    *,
    role: RoleFiles,
    uploads: Annotated[
        list[Path] | None, typer.Argument(help="Files of uploads from users.", metavar="UPLOADS...")
    ] = None,
    close: Annotated[
        bool,
        typer.Option("--close", help="Take no more answers to the requests; pass on what is held."),
    ] = False,
    drop: DROP = False,
    batches: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write batches to this folder.", metavar="FOLDER"),
    ] = None,
    recipients: Recipients,
    output_format: FORMAT = None,
) -> None:
    """Take uploads of users, and pass them on in random batches once there are enough."""
    from fpmonitor.private.shuffler import upload_bytes  # noqa: PLC0415 -- an extra

    asks = role.asks
    if close and not asks:
        raise InputError("shuffle: --close needs the requests", hint="--ask FILE")
    services = recipients.services()
    outcomes: Counter[str] = Counter()
    with role.open_shuffler() as shuffler:
        size = _UPLOADS_AT_ONCE * upload_bytes(shuffler.store.study)
        for path in uploads or []:
            for body in parts_of(path, size):
                outcomes.update(shuffler.take([body])[0].outcomes)
                shuffler.release()
        for one in asks if close else []:
            if dropped := shuffler.close_ask(one.id, drop=drop).dropped:
                outcomes["below the minimum"] += dropped
        written = [] if batches is None else _write_batches(shuffler, batches)
        delivered = not services or _delivery(shuffler, services).send_all()
        held = sum(counts["held"] for counts in shuffler.store.tally().values())
    row = {**outcomes, "held": held, "batches": [str(path) for path in written]}
    show(tables.tally([row], row), output_format, None)
    if not delivered:
        raise InputError(
            "shuffle: some batches were not acknowledged", hint="run the command again"
        )


def curate(
    *,
    role: RoleFiles,
    batches: BATCHES = None,
    drop: DROP = False,
    unsafe_counts: UNSAFE_COUNTS = False,
    shown: Shown,
) -> None:
    """Open batches as the curator, and count the users of each value."""
    with role.open_recipient("curator") as curator:
        document = _counted(curator, batches, drop=drop, unsafe=unsafe_counts)
    shown.show(tables.counts(document))


def analyze(
    *,
    role: RoleFiles,
    batches: BATCHES = None,
    promise: Annotated[
        Path | None,
        typer.Option(
            "--promise",
            help="Output of `private select --format json`, to compare with.",
            metavar="SELECTION.json",
        ),
    ] = None,
    drop: DROP = False,
    unsafe_counts: UNSAFE_COUNTS = False,
    shown: Shown,
) -> None:
    """Open batches as the analyst, count them, and compare with the promised exposure."""
    from fpmonitor.private.selection import compare_with_joint  # noqa: PLC0415 -- slow to load

    with role.open_recipient("analyst") as analyst:
        document = _counted(analyst, batches, drop=drop, unsafe=unsafe_counts)
        compared = None
        if promise is not None:
            selection = read_selection(promise)
            digest = digest_of(selection)
            asks = [one for one in analyst.asks if one.promise and one.promise.digest == digest]
            if not asks:
                raise InputError(
                    f"{promise}: no request in the store was signed for this selection"
                )
            chosen = selection.recommended
            joint = analyst.counts(asks[-1])[chosen.apis]
            compared = compare_with_joint(analyst.store.study, chosen, joint)
            document["promise"] = untyped(compared)
    shown.show(tables.counts(document, compared))


def _counted(
    role: Recipient, batches: Sequence[Path] | None, *, drop: bool, unsafe: bool
) -> dict[str, Any]:
    """Take batches, and return their outcomes and the counts of all requests."""
    return {
        "messages": _take_batches(role, batches or [], drop=drop),
        "asks": [counts_of(role, one, unsafe=unsafe) for one in role.asks],
    }


def publish(*, ask: PATH_OF_ASK, at: RoleServices) -> None:
    """Send a request to the services: recipients then count answers, and the shuffler takes them.

    The shuffler comes last, so that nobody answers before the answers are awaited.
    """
    question = CollectionRequest.read(ask)
    with at.open(["curator", question.recipient, "shuffler"]) as services:
        for service in services:
            service.post("/asks", question.to_bytes(), "application/json")
    note(f"ask {question.id.hex()}")


def close(*, ask: PATH_OF_ASK, drop: DROP = False, at: RoleServices) -> None:
    """Close a request: the shuffler takes no more answers and passes on what it holds."""
    question = CollectionRequest.read(ask)
    path = f"/asks/{question.id.hex()}"
    with at.open(["shuffler", question.recipient]) as [shuffler, *recipients]:
        answer = shuffler.post(f"{path}/{'drop' if drop else 'close'}", b"", "")
        for recipient in recipients:
            recipient.post(f"{path}/close", answer.content, "application/json")
    dropped = answer.read(ClosedAsk).dropped
    deleted = f"; {dropped:,} messages, below the minimum, were deleted" if dropped else ""
    note(f"ask {question.id.hex()} is closed{deleted}")


def status(*, at: RoleServices, shown: Shown) -> None:
    """Show what services accepted, refused, hold and passed on, and whether both sides agree."""
    with at.open(["shuffler", "curator", "analyst"]) as services:
        found = [service.get("/status").read(RoleStatus) for service in services]
    if len(found) > 1:
        both = untyped(reconciled(found))
        shown.show(tables.tally(both, {"asks": both, "roles": untyped(found)}))
        return
    plain = untyped(found[0])
    rows = [
        {"ask": one["id"], "round": one["round"], "open": one["open"], **one["messages"]}
        for one in plain["asks"]
    ]
    shown.show(tables.tally(rows, plain))


def backup(
    *,
    folder: Annotated[Path, typer.Argument(help="Folder of a role, made by `private init`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write; must not exist.")],
) -> None:
    """Copy the store of a role whole, also while its service runs."""
    from fpmonitor.private.folder import RoleFolder  # noqa: PLC0415 -- an extra

    made = RoleFolder(folder)
    if output.exists():
        raise InputError(f"{output}: already exists")
    with Store(made.store, made.study, made.config.role) as store:
        store.backup(output)
    note(f"{output} has counts of single values: keep it as secret as the store")


def serve(
    *,
    made: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of `private init`: of a role; or a pilot, whose roles all run.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None,
    name: Annotated[Role | None, typer.Option("--role", help="The role to run.")] = None,
    role: RoleFiles,
    token_file: Annotated[
        Path | None, typer.Option("--token", help="File of the token that callers must present.")
    ] = None,
    recipients: Recipients,
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
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="Port to listen on; 0 picks a free one.", min=0)
    ] = 8027,
) -> None:
    """Run a role as an HTTP service."""
    from fpmonitor.private.services import recipient_app, shuffler_app  # noqa: PLC0415 -- extras
    from fpmonitor.private.transport import read_token  # noqa: PLC0415

    if made is not None:
        run_folder(made)
        return
    if name is None or token_file is None:
        raise InputError("serve: give a folder of `private init`, or --role, --token and its files")
    secret = read_token(token_file)
    with ExitStack() as stack:
        if name == "shuffler":
            shuffler = stack.enter_context(role.open_shuffler(most_bytes=pool_mb * 1_000_000))
            application = shuffler_app(
                shuffler,
                token=secret,
                keys=role.paths(name)[2],
                delivery=_delivery(shuffler, recipients.services()),
                origins=origin or [],
            )
        else:
            recipient = stack.enter_context(role.open_recipient(name))
            application = recipient_app(recipient, token=secret, keys=role.paths(name)[2])
        run_application(application, host, port)


def run_folder(folder: Path) -> None:
    """Run the service of a role's folder; or those of a pilot, each as a process."""
    from fpmonitor.private.folder import ROLES, RoleFolder  # noqa: PLC0415 -- an extra
    from fpmonitor.private.services import recipient_app, shuffler_app  # noqa: PLC0415 -- extras

    if not (folder / "role.json").exists():
        run_together([RoleFolder.of(folder, role).path for role in ROLES])
        return
    made = RoleFolder(folder)
    config = made.config
    token = made.token(config.role)
    with ExitStack() as stack:
        if config.role == "shuffler":
            shuffler = made.open_shuffler()
            stack.enter_context(shuffler.store)
            application = shuffler_app(
                shuffler,
                token=token,
                keys=made.keys,
                delivery=_delivery(shuffler, made.services(("curator", "analyst"))),
                origins=config.origins,
            )
        else:
            recipient = made.open_recipient()
            stack.enter_context(recipient.store)
            application = recipient_app(recipient, token=token, keys=made.keys)
        run_application(application, config.host, config.port)


def run_together(folders: Sequence[Path]) -> None:
    """Run `private serve` for each folder as a process, until one ends or Ctrl-C."""
    command = [sys.executable, "-P", "-m", "fpmonitor", "private", "serve"]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the processes would stay
    with ExitStack() as stack:
        running = []
        for folder in folders:
            process = subprocess.Popen([*command, str(folder)])  # noqa: S603 -- our own program
            stack.callback(process.wait)
            stack.callback(process.terminate)
            running.append(process)
        while all(process.poll() is None for process in running):
            time.sleep(0.2)
        raise InputError("serve: a role has stopped, and so have the others")


def _delivery(shuffler: Shuffler, recipients: Mapping[RecipientRole, Service]) -> Delivery:
    from fpmonitor.private.delivery import Delivery  # noqa: PLC0415 -- an extra

    return Delivery(shuffler, recipients, lambda reason: note(f"not delivered: {reason}"))


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


def _take_batches(role: Recipient, paths: Sequence[Path], *, drop: bool) -> dict[str, int]:
    outcomes: Counter[str] = Counter()
    for path in paths:
        content = read_bytes(path, "batch", most=MAX_BATCH_BYTES)
        try:
            outcomes.update(role.take(content, drop=drop).outcomes)
        except InputError as error:
            raise InputError(f"{path}: {error.message}", hint=error.hint) from error
    return dict(outcomes)
