"""Commands of the roles: shuffle, count, publish, close, status, backup, serve, rotate."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fpmonitor.cli.listening import run_application
from fpmonitor.cli.options import FORMAT, UNSAFE_COUNTS
from fpmonitor.cli.output import Shown, note, show
from fpmonitor.errors import InputError, UndecidableError, some_of
from fpmonitor.private.commands import tables
from fpmonitor.private.commands.options import (
    FOLDER,
    ROLE_FOLDER,
    check_owner,
    check_role,
    folder_of,
)
from fpmonitor.private.files import content_digest, file_parts
from fpmonitor.private.status import RoleStatus, reconciled, spent
from fpmonitor.private.store import ClosedAsk, PublishedAsk, RoleStore
from fpmonitor.private.study import RECIPIENTS, ROLES, CollectionRequest
from fpmonitor.private.transport import read_answer
from fpmonitor.private.wire import MAX_BATCH_BYTES
from fpmonitor.safe_files import read_bytes, read_json, typed, untyped, write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fpmonitor.private.counts import ApiSet
    from fpmonitor.private.randomised import RandomisedApi
    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.selection import JointComparison, Selection
    from fpmonitor.private.shuffler import Shuffler
    from fpmonitor.private.study import CollectionRequest


def counts_of(role: Recipient, ask: CollectionRequest, *, unsafe: bool) -> dict[str, Any]:
    """Return the counts of a request; of groups smaller than k only their number."""
    k = 1 if unsafe else role.store.study.k
    sets = []
    for apis, counts in role.counts(ask).items():
        users = sum(counts.values())
        groups = sorted(counts.items(), key=lambda group: (-group[1], group[0]))
        plan = ask.randomise.get(apis[0])
        sets.append(
            {
                "apis": list(apis),
                "randomised": None if plan is None else plan.mechanism,
                "estimate": None if plan is None else _estimated(role, ask, apis, counts),
                "users": users if users >= k else None,
                "groups": [
                    {"tokens": list(tokens), "users": size} for tokens, size in groups if size >= k
                ],
                "smaller_groups": sum(size < k for _, size in groups),
            }
        )
    return {
        "ask": ask.id.hex(),
        "epoch": ask.epoch,
        "round": ask.round,
        "messages": dict(role.store.tally()[ask.id]),
        "sets": sets,
    }


def _estimated(
    role: Recipient, ask: CollectionRequest, apis: ApiSet, counts: Mapping[tuple[str, ...], int]
) -> RandomisedApi | None:
    """Estimate what randomised answers on an API show; None where they cannot tell."""
    from fpmonitor.private.randomised import estimate  # noqa: PLC0415 -- slow to load

    terms = role.store.study
    try:
        return estimate(terms, ask, apis, counts, delta=terms.delta / len(ask.sets))
    except (InputError, UndecidableError) as error:
        note(str(error))
        return None


def read_selection(path: Path) -> Selection:
    """Read what `private select` printed as JSON."""
    from fpmonitor.private.selection import Selection  # noqa: PLC0415 -- slow to load

    content = read_json(path, "selection", hint="`private select --format json` writes one")
    return typed(content, Selection, f"a selection in {path}")


_UPLOADS_AT_ONCE = 8192
_MOST_NAMED = 3

PATH_OF_ASK = Annotated[Path, typer.Argument(help="File of the request.", metavar="ASK.json")]
ASKS = Annotated[
    list[Path] | None,
    typer.Option(
        "--ask",
        help="File of a request whose answers are taken; may be repeated. "
        "The store remembers the requests of earlier runs.",
    ),
]
ROLE_PATH = Annotated[Path, typer.Argument(help="Folder of a role, made by `private init`.")]
DROP = Annotated[
    bool,
    typer.Option(
        "--drop", help="Delete messages that are too few to pass on, or that do not open."
    ),
]


def shuffle(
    *,
    folder: FOLDER,
    asks: ASKS = None,
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
    output_format: FORMAT = None,
) -> int:
    """Take uploads of users from files, and pass them on in random batches of enough."""
    from fpmonitor.private.shuffler import upload_bytes  # noqa: PLC0415 -- an extra

    questions = [CollectionRequest.read(path) for path in asks or []]
    if close and not questions:
        raise InputError("shuffle: --close needs the requests", hint="--ask FILE")
    outcomes: Counter[str] = Counter()
    shuffler = folder_of(folder, "shuffler").open_shuffler()
    with shuffler.store:
        tally_before = shuffler.store.tally()
        for question in questions:
            shuffler.add_ask(question)
            if uploads:
                shuffler.store.check_open(question.id)
        size = _UPLOADS_AT_ONCE * upload_bytes(shuffler.store.study)
        for path in uploads or []:
            # All uploads of a study have one length: parts end between two of them.
            for body in file_parts(path, size):
                outcomes.update(shuffler.take([body])[0].outcomes)
                shuffler.release()
        for question in questions if close else []:
            if dropped := shuffler.close_ask(question.id, drop=drop).dropped:
                outcomes["below the minimum"] += dropped
        written = [] if batches is None else _write_batches(shuffler, batches)
        tally = shuffler.store.tally()
        waiting_messages = sum(counts["held"] for counts in tally.values())
        late = [
            one.words
            for id_, one in shuffler.store.asks.items()
            if tally[id_]["closed ask"] > tally_before.get(id_, Counter())["closed ask"]
        ]
    row = {**outcomes, "held": waiting_messages, "batches": [str(path) for path in written]}
    show(tables.tally([row], row), output_format, None)
    return _told_refused(outcomes, late)


def _told_refused(outcomes: Mapping[str, int], late: Sequence[str]) -> int:
    """Say what can be done about messages that were not taken; return the exit code."""
    told = []
    closed, unknown = outcomes.get("closed ask", 0), outcomes.get("unknown ask", 0)
    if closed:
        told.append(
            f"{closed:,} messages came too late and do not count, ask these users in a new epoch; "
            f"closed: {some_of(late, _MOST_NAMED)}"
        )
    if unknown:
        told.append(
            f"{unknown:,} messages answer a request that the shuffler does not know, and were not "
            "taken: name it with --ask, and give the file again"
        )
    # A hostile user can add messages that nobody reads; where there are no others, it is a mistake.
    taken = outcomes.get("accepted", 0) + outcomes.get("replayed", 0)
    if not told and not taken and sum(outcomes.values()) > outcomes.get("below the minimum", 0):
        found = some_of(sorted(filter(outcomes.get, outcomes)), _MOST_NAMED)
        told.append(
            f"nothing was taken ({found}): uploads of this study are sealed for keys that the "
            "shuffler has"
        )
    for line in told:
        note(line)
    # A message of a made-up request among many others fails no file.
    return int(bool(told) and (closed > 0 or unknown >= taken))


def count_reports_of(
    *,
    folder: ROLE_FOLDER,
    asks: ASKS = None,
    batches: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of batches from the shuffler.", metavar="BATCH..."),
    ] = None,
    promise: Annotated[
        Path | None,
        typer.Option(
            help="Output of `private select --format json`, to compare the analyst's counts with.",
            metavar="SELECTION.json",
        ),
    ] = None,
    drop: DROP = False,
    unsafe_counts: UNSAFE_COUNTS = False,
    shown: Shown,
) -> None:
    """Open batches as the curator or the analyst, and count the users of each value or set.

    Of randomised answers, estimate the shares of the values and the exposure.
    """
    check_owner("private count")
    recipient = folder_of(folder).open_recipient()
    with recipient.store:
        for path in asks or []:
            recipient.add_ask(CollectionRequest.read(path))
        document: dict[str, Any] = {
            "messages": _take_batches(recipient, batches or [], drop=drop),
            "asks": [counts_of(recipient, one, unsafe=unsafe_counts) for one in recipient.asks],
        }
        compared = None if promise is None else _compared(recipient, promise)
    if compared is not None:
        document["promise"] = untyped(compared)
    shown.show(tables.counts(document, recipient.store.study, compared))


def _compared(analyst: Recipient, promise: Path) -> JointComparison:
    from fpmonitor.private.selection import compare_with_joint  # noqa: PLC0415 -- slow to load

    selection = read_selection(promise)
    digest = content_digest(selection)
    asks = [one for one in analyst.asks if one.promise and one.promise.digest == digest]
    if not asks:
        raise InputError(
            f"{promise}: no request in the store was signed for this selection",
            hint="name what `private select --format json` printed when it wrote the request",
        )
    chosen = selection.recommended
    joint = analyst.counts(asks[-1])[chosen.apis]
    return compare_with_joint(analyst.store.study, chosen, joint)


def publish(*, ask: PATH_OF_ASK, folder: FOLDER) -> None:
    """Send a request to the services: recipients then count answers, and the shuffler takes them.

    The shuffler comes last, so that nobody answers before the answers are awaited.
    """
    question = CollectionRequest.read(ask)
    curator = folder_of(folder, "curator")
    new = False
    # The curator knows of requests for the analyst, too: each number of a round is used once.
    for role in dict.fromkeys(("curator", question.recipient, "shuffler")):
        with curator.service(role) as service:
            answer = service.post("/asks", question.to_bytes(), "application/json")
            new |= read_answer(answer, PublishedAsk).new
    before = "" if new else ", as it was before"
    note(f"{question.words} is open{before}: ask {question.id.hex()}")


def close(*, ask: PATH_OF_ASK, drop: DROP = False, folder: FOLDER) -> None:
    """Close a request: the shuffler takes no more answers and passes on what it holds."""
    question = CollectionRequest.read(ask)
    path = f"/asks/{question.id.hex()}"
    curator = folder_of(folder, "curator")
    # The shuffler first: it alone knows how many messages it passed on, and the recipient is told.
    with (
        curator.service("shuffler") as shuffler,
        curator.service(question.recipient) as recipient,
    ):
        answer = shuffler.post(f"{path}/{'drop' if drop else 'close'}", b"", "")
        # Closing again changes nothing: where this fails, the command may be given once more.
        recipient.post(f"{path}/close", answer, "application/json")
    closed = read_answer(answer, ClosedAsk)
    deleted = f", {closed.dropped:,} below the minimum deleted" if closed.dropped else ""
    note(
        f"{question.words} is closed: {closed.passed_on:,} messages passed on{deleted}; "
        f"ask {question.id.hex()}"
    )


def status(*, folder: FOLDER, shown: Shown) -> None:
    """Show what services accepted, refused, hold and passed on, and whether both sides agree."""
    curator = folder_of(folder, "curator")
    found = []
    for role in ROLES:
        with curator.service(role) as service:
            found.append(read_answer(service.get("/status"), RoleStatus))
            # With two addresses in each other's place no side of a request would be the shuffler's.
            check_role(service.address, found[-1].role, role)
    compared = reconciled(found)
    both = untyped(compared)
    if account := spent(compared):
        note(account)
    shown.show(tables.tally(both, {"asks": both, "roles": untyped(found)}))


def backup(
    *,
    folder: ROLE_PATH,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write; must not exist.")],
) -> None:
    """Copy the store of a role whole, also while its service runs."""
    made = folder_of(folder)
    if output.exists():
        raise InputError(f"{output}: already exists", hint="name a new file")
    with RoleStore(made.store, made.study, made.config.role) as store:
        store.backup(output)
    note(f"{output} has counts of single values: keep it as secret as the store")


def rotate(
    folder: ROLE_PATH,
    retire: Annotated[
        int | None, typer.Option(help="Delete the key with this id instead.", metavar="ID")
    ] = None,
) -> None:
    """Add a new key to a role, to be used first; the others still open messages until retired."""
    from fpmonitor.private.keys import public_path, write_secret_keys  # noqa: PLC0415 -- an extra

    made = folder_of(folder)
    ring = made.ring.rotated() if retire is None else made.ring.retired(retire)
    write_secret_keys(made.keys, ring, retiring=retire is not None)
    ids = ", ".join(str(key.id) for key in ring.keys)
    note(f"{ring.role}: keys {ids}; publish {public_path(made.keys)}")


def serve_role(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of `private init`: of a role; or a pilot, whose roles all run."
        ),
    ],
) -> None:
    """Run the HTTP service of a role, with what its folder's role.json says; or of a pilot."""
    from fpmonitor.private.delivery import Delivery  # noqa: PLC0415 -- extras
    from fpmonitor.private.services import recipient_app, shuffler_app  # noqa: PLC0415

    if not (folder / "role.json").exists():
        run_together([folder_of(folder, role).path for role in ROLES])
        return
    made = folder_of(folder)
    config = made.config
    role: Shuffler | Recipient
    if config.role == "shuffler":
        role = made.open_shuffler()
        services = {name: made.service(name) for name in RECIPIENTS}
        application = shuffler_app(
            role,
            password=made.password(config.role),
            keys=made.keys,
            delivery=Delivery(role, services, lambda reason: note(f"not delivered: {reason}")),
            origins=config.origins,
        )
    else:
        role = made.open_recipient()
        application = recipient_app(role, password=made.password(config.role), keys=made.keys)
    with role.store:
        run_application(
            application,
            config.host,
            config.port,
            hint=f"name another port in {folder / 'role.json'}, and to the other roles there",
        )


def run_together(folders: Sequence[Path]) -> None:
    """Run `private serve` for each folder as a process, until one ends or Ctrl-C."""
    command = [sys.executable, "-P", "-m", "fpmonitor", "private", "serve"]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the processes would stay
    with ExitStack() as stack:
        running = []
        for folder in folders:
            process = subprocess.Popen([*command, str(folder)])  # noqa: S603 -- our own program
            # Callbacks run from the last: each process is told to end, then waited for.
            stack.callback(process.wait)
            stack.callback(process.terminate)
            running.append(process)
        while all(process.poll() is None for process in running):
            time.sleep(0.2)
        raise InputError(
            "serve: a role has stopped, and so have the others", hint="mend what it said above"
        )


def _write_batches(role: Shuffler, folder: Path) -> list[Path]:
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot write {folder} ({error.strerror})", hint="name another folder with -o"
        ) from error
    for batch_id, ask_id in role.unsent().items():
        content = role.batch(batch_id)
        if content is None:  # a service on the same store was faster
            continue
        recipient = role.store.asks[ask_id].recipient
        path = folder / f"{recipient}-{batch_id.hex()}.batch"
        write_bytes(path, [content])
        # Deleted once it is in the file: interrupted between, it is written twice and counts once.
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
