"""The command that simulates the users of a private collection: seal."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.context import open_database, open_monitor
from fpmonitor.cli.options import QUIET
from fpmonitor.cli.output import note, progress_line, show
from fpmonitor.errors import InputError
from fpmonitor.private.commands import tables
from fpmonitor.private.commands.options import (
    ASK,
    RECIPIENT_KEY,
    SHUFFLER_KEY,
    check_role,
    folder_of,
)
from fpmonitor.private.files import file_parts
from fpmonitor.private.study import CollectionRequest, Role, Study, check_ask
from fpmonitor.private.table import read_tokens
from fpmonitor.private.wire import ID_BYTES, HpkeConfig
from fpmonitor.safe_files import alone_in, write_bytes
from fpmonitor.store.snapshot import take_snapshot

if TYPE_CHECKING:
    import polars as pl

    from fpmonitor.private.client import AnsweredRequests

_DUCKDB_MAGIC = (8, b"DUCK")


SOURCE = Annotated[
    Path, typer.Option("--from", help="Database or log with the users.", metavar="PATH")
]
FOLDER = Annotated[
    Path | None,
    typer.Option("--folder", help="Pilot of `private init`, for the files and the address."),
]
OUTPUT = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="Write the uploads to this file; what it has is sent again, and counts once.",
        show_default="ASK.uploads",
    ),
]
TO = Annotated[
    str | None, typer.Option("--to", help="Send the uploads to this shuffler.", metavar="URL")
]
MEMORY = Annotated[
    Path | None,
    typer.Option(
        "--memory",
        help="File in which these users remember what they answered.",
        show_default="in the folder, or beside the study, by the source",
    ),
]
RELAY = Annotated[
    str | None,
    typer.Option(
        "--relay", help="Send the uploads through this Oblivious HTTP relay.", metavar="URL"
    ),
]


def seal_records(
    ask: ASK,
    source: SOURCE,
    folder: FOLDER = None,
    study: Annotated[Path | None, typer.Option(help="File of the study.")] = None,
    shuffler_key: SHUFFLER_KEY = None,
    recipient_key: RECIPIENT_KEY = None,
    output: OUTPUT = None,
    to: TO = None,
    memory: MEMORY = None,
    relay: RELAY = None,
    quiet: QUIET = False,
) -> None:
    """Answer a request for every user of a database or log, and seal the answers: a simulation.

    A real user does the same with its own values only: in the page snippet, or with
    `fpmonitor.private.client.seal_answers`.
    """
    from fpmonitor.private.sending import (  # noqa: PLC0415 -- an extra
        BODY_BYTES,
        send_uploads,
        straight,
        through_relay,
    )
    from fpmonitor.private.shuffler import upload_bytes  # noqa: PLC0415 -- an extra
    from fpmonitor.private.transport import RoleClient  # noqa: PLC0415 -- an extra

    question = CollectionRequest.read(ask)
    users = _Users.of(question, folder, study, shuffler_key, recipient_key)
    if folder is not None and output is None:
        to = to or users.addresses["shuffler"]
    if relay is not None and to is None:
        raise InputError("seal: --relay needs --to, the address of the shuffler")
    if to is not None:
        users.check_keys({**users.addresses, "shuffler": to}, relayed=relay is not None)
    path = ask.with_suffix(".uploads") if output is None else output
    size = upload_bytes(users.study)
    with nullcontext() if to is None else RoleClient(relay or to) as service:
        if path.exists():
            if next(file_parts(path, size), b"")[:ID_BYTES] != question.id:
                raise InputError(
                    f"{path}: holds no answers to this request", hint="name another -o"
                )
            note(f"{path} was sealed before: it is sent again, and counts once", quiet=quiet)
        else:
            users.seal(source, path, memory, quiet=quiet)
        if service is None or to is None:
            return
        send = straight(service) if relay is None else through_relay(service, users.shuffler, to)
        # All uploads of a study have one length: bodies end between two of them.
        row = send_uploads(file_parts(path, max(BODY_BYTES // size, 1) * size), send, note)
    _tell_taken(row)


def _tell_taken(sent: Mapping[str, int]) -> None:
    show(tables.tally([sent], sent), None, None)
    lost = {reason: sent[reason] for reason in sent if reason not in ("accepted", "replayed")}
    if lost:
        reasons = ", ".join(f"{messages:,} {reason}" for reason, messages in lost.items())
        raise InputError(
            f"seal: the shuffler did not take all messages ({reasons})",
            hint="`fpmonitor private status --folder CURATOR` says which requests are open",
        )


@dataclass(frozen=True)
class _Users:
    """What simulated users know before they answer a request."""

    # question, study: The request and the terms.
    question: CollectionRequest
    study: Study
    # shuffler, recipient: Keys to seal with.
    shuffler: HpkeConfig
    recipient: HpkeConfig
    place: Path  # Folder in which they remember what they answered.
    addresses: Mapping[Role, str]  # Of the roles, where a folder names them.

    @classmethod
    def of(
        cls,
        question: CollectionRequest,
        folder: Path | None,
        study: Path | None,
        shuffler_key: Path | None,
        recipient_key: Path | None,
    ) -> _Users:
        """Take what a pilot has, where no file is named."""
        from fpmonitor.private.keys import public_path, read_public  # noqa: PLC0415 -- an extra

        addresses: dict[Role, str] = {}
        if folder is not None:
            shuffler = folder_of(folder, "shuffler")
            study = study or shuffler.path / "study.json"
            shuffler_key = shuffler_key or public_path(shuffler.keys)
            recipient_key = recipient_key or public_path(folder_of(folder, question.recipient).keys)
            roles: tuple[Role, ...] = ("shuffler", question.recipient)
            addresses = {role: shuffler.address(role) for role in roles}
        if study is None or shuffler_key is None or recipient_key is None:
            raise InputError("seal: needs --study, --shuffler-key and --recipient-key, or --folder")
        return cls(
            question,
            Study.read(study),
            read_public(shuffler_key, "shuffler").preferred,
            read_public(recipient_key, question.recipient).preferred,
            study.parent if folder is None else folder,
            addresses,
        )

    def memory_of(self, source: Path) -> Path:
        """Where the users of a source remember what they answered: all of them the same."""
        name = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:16]
        return self.place / f"answered-{name}.json"

    def check_keys(self, addresses: Mapping[Role, str], *, relayed: bool) -> None:
        """Check the keys against the services, but for the shuffler's behind a relay."""
        for role, address in addresses.items():
            if role != "shuffler":
                _check_key(self.recipient, role, address)
            elif not relayed:
                _check_key(self.shuffler, role, address)

    def seal(self, source: Path, path: Path, memory: Path | None, *, quiet: bool) -> None:
        """Answer for every user of a source into a file, unless they answered before."""
        from fpmonitor.private.client import AnsweredRequests  # noqa: PLC0415 -- an extra

        remembered, question = memory or self.memory_of(source), self.question
        # Until the answer is remembered: another command would not know of it, and lose it.
        with alone_in(remembered.absolute().parent):
            answered = AnsweredRequests(path=remembered)
            answered.check_new(question)
            check_ask(self.study, question, answered)
            apis = sorted({api for one in question.sets for api in one})
            table, logs = tokens_of_users(source, apis, quiet=quiet)
            if memory is None:
                answered.know_logs(logs, self.place.glob("answered-*.json"))
            write_bytes(path, self.sealed(table, answered, quiet=quiet))
        note(f"{len(table)} users, {len(table) * len(question.sets)} messages", quiet=quiet)

    def sealed(
        self, table: pl.DataFrame, answered: AnsweredRequests, *, quiet: bool
    ) -> Iterator[bytes]:
        """Yield the uploads of each user, and remember the request after the last."""
        from fpmonitor.private.client import AnsweredRequests, seal_answers  # noqa: PLC0415

        with progress_line(quiet) as progress:
            for number, tokens in enumerate(table.iter_rows(named=True), 1):
                uploads = seal_answers(
                    self.study,
                    self.question,
                    tokens,
                    # A copy for each: the file is theirs together, and is written once.
                    answered=AnsweredRequests(answered),
                    shuffler=self.shuffler,
                    recipient=self.recipient,
                )
                yield from (upload.encode() for upload in uploads)
                progress(f"{number} of {len(table)} users")
        # Before the uploads take their name: a kill in between loses answers, and doubles none.
        answered.add(self.question)


def _check_key(key: HpkeConfig, role: Role, address: str) -> None:
    """Refuse to seal for a key that a role which answers does not have: nobody could open it."""
    from fpmonitor.private.keys import PublicKeys  # noqa: PLC0415 -- an extra
    from fpmonitor.private.transport import (  # noqa: PLC0415 -- an extra
        RoleClient,
        UnreachableError,
        read_answer,
    )
    from fpmonitor.private.wire import decode_configs  # noqa: PLC0415 -- an extra

    try:
        with RoleClient(address) as service:
            now = read_answer(service.get("/keys"), PublicKeys)
    except UnreachableError as error:
        if role == "shuffler":  # nothing can be sent either
            raise
        note(f"compare the {role}'s key with its owner's, its service is silent: {error.message}")
        return
    check_role(address, now.role, role)
    if key not in decode_configs(now.configs):
        raise InputError(
            f"seal: the {role} at {address} does not have the key that its file names",
            hint=f"get keys.pub of the {role} anew; what is sealed for another key is lost",
        )


def tokens_of_users(
    source: Path, apis: Sequence[str], *, quiet: bool
) -> tuple[pl.DataFrame, frozenset[str]]:
    """Tokens of the users of a database, or of any log that `ingest` takes; digests of its logs."""
    if _is_database(source):
        return _tokens(source, apis, quiet=quiet)
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "users.duckdb"
        with open_monitor(database, create=True) as monitor:
            monitor.ingest([str(source)])
        return _tokens(database, apis, quiet=quiet)


def _is_database(path: Path) -> bool:
    place, magic = _DUCKDB_MAGIC
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(place + len(magic)).endswith(magic)


def _tokens(
    database: Path, apis: Sequence[str], *, quiet: bool
) -> tuple[pl.DataFrame, frozenset[str]]:
    with open_database(database) as opened:
        snapshot = take_snapshot(opened)
        known = [api for api in apis if api in snapshot.columns]
        if not known:
            raise InputError(
                "seal: these users have none of the requested APIs",
                hint="`fpmonitor db apis` lists what a database has",
            )
        if len(known) < len(apis):
            note(
                f"{len(apis) - len(known)} APIs were never observed: reported as absent",
                quiet=quiet,
            )
        logs = frozenset(digest for (digest,) in opened.rows("report/log_digests"))
        return read_tokens(opened, snapshot, known), logs
