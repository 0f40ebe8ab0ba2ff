"""Commands on collection that shows nobody a joint record."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.options import DELTA, POPULATION, K, split_names
from fpmonitor.cli.output import emit, note
from fpmonitor.errors import InputError
from fpmonitor.private.commands import roles, selection, users
from fpmonitor.private.commands.output import write_bytes
from fpmonitor.private.commands.roles import RoleName
from fpmonitor.private.study import Study, first_ask

app = typer.Typer(
    help="Collection without a joint record: users, shuffler, curator, analyst.",
    no_args_is_help=True,
)


def study(
    name: Annotated[str, typer.Option("--name", help="Name, for people.")],
    apis: Annotated[str, typer.Option("--apis", help="What may be asked.", metavar="A,B,...")],
    population: POPULATION,
    budget: Annotated[
        float, typer.Option("--budget", help="Largest tolerated exposure, a share of the users.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Write the study to this file.", metavar="FILE")
    ],
    ask: Annotated[
        Path, typer.Option("--ask", help="Write the first ask to this file.", metavar="FILE")
    ],
    k: K = 10,
    delta: DELTA = 0.05,
    largest_set: Annotated[
        int, typer.Option("--largest-set", help="APIs that the curator may see together.", min=1)
    ] = 1,
    minimum_batch: Annotated[
        int, typer.Option("--minimum-batch", help="Users below which nothing is passed on.")
    ] = 1000,
    report_bytes: Annotated[
        int, typer.Option("--report-bytes", help="Length of every report before it is sealed.")
    ] = 1024,
    epoch: Annotated[int, typer.Option("--epoch", help="Which collection.", min=0)] = 1,
) -> None:
    """Write the terms of a collection, and its first ask: every API alone, to the curator."""
    if population is None:
        raise InputError("population: say how many users there are", hint="--population N")
    terms = Study(
        name=name,
        apis=tuple(sorted(set(split_names(apis)))),
        population=population,
        k=k,
        budget=budget,
        delta=delta,
        largest_set=largest_set,
        minimum_batch=minimum_batch,
        report_bytes=report_bytes,
    )
    first = first_ask(terms, epoch=epoch)
    emit(terms.to_bytes().decode(), output)
    emit(first.to_bytes().decode(), ask)
    note(f"study {terms.id.hex()}, ask {first.id.hex()}")


def keygen(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File of the secret keys.", metavar="FILE")
    ],
    role: Annotated[
        RoleName | None, typer.Option("--role", help="Make the first key of a role.")
    ] = None,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Put a new key in front of those of the file.")
    ] = False,
    retire: Annotated[
        int | None, typer.Option("--retire", help="Drop the key with this id.", metavar="ID")
    ] = None,
) -> None:
    """Make keys, rotate or retire them; FILE.pub is the public half, to be published."""
    from fpmonitor.private.keys import KeyRing, read_keys, write_keys  # noqa: PLC0415 -- an extra

    if (role is not None) + rotate + (retire is not None) != 1:
        raise InputError("keygen: give one of --role, --rotate and --retire")
    if role is not None:
        if output.exists():
            raise InputError(f"{output}: is there already", hint="--rotate makes a new key")
        ring = KeyRing.generate(role.value)
    else:
        ring = read_keys(output)
        ring = ring.rotated() if retire is None else ring.retired(retire)
    write_keys(output, ring)
    public = output.with_name(f"{output.name}.pub")
    write_bytes(public, [ring.configs])
    note(f"{ring.role}: keys {', '.join(str(key.id) for key in ring.keys)}; publish {public}")


def token(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File of the token.", metavar="FILE")
    ],
) -> None:
    """Make a token that one service presents to another; give both a copy of the file."""
    if output.exists():
        raise InputError(f"{output}: is there already")
    write_bytes(output, [secrets.token_urlsafe(32).encode() + b"\n"], mode=0o600)


app.command("study")(study)
app.command("keygen")(keygen)
app.command("token")(token)
app.command("seal")(users.seal)
app.command("shuffle")(roles.shuffle)
app.command("curate")(roles.curate)
app.command("analyze")(roles.analyze)
app.command("publish")(roles.publish)
app.command("close")(roles.close)
app.command("status")(roles.status)
app.command("serve")(roles.serve)
app.command("select")(selection.select)
app.command("redact")(selection.redact)
app.command("hierarchy")(selection.hierarchy)
app.command("group")(selection.group)
