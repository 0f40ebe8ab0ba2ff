"""The group `private`: collection in which nobody sees a joint record."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.options import BUDGET, DELTA, POPULATION, K
from fpmonitor.cli.output import emit, note
from fpmonitor.errors import InputError
from fpmonitor.private.commands import roles, selection, users
from fpmonitor.private.commands.options import EPOCH
from fpmonitor.private.study import Role, Study, first_ask
from fpmonitor.safe_files import write_bytes
from fpmonitor.vocabulary import split_names

app = typer.Typer(no_args_is_help=True)


def study(
    *,
    name: Annotated[str, typer.Option("--name", help="Name of the study, for human readers.")],
    apis: Annotated[
        str, typer.Option("--apis", help="APIs that may be asked for.", metavar="A,B,...")
    ],
    population: POPULATION,
    budget: BUDGET,
    output: Annotated[Path, typer.Option("-o", "--output", help="Write the study to this file.")],
    ask: Annotated[Path, typer.Option("--ask", help="Write the first request to this file.")],
    k: K = 10,
    delta: DELTA = 0.05,
    largest_set: Annotated[
        int,
        typer.Option(
            "--largest-set", help="Largest number of APIs that the curator may see together.", min=1
        ),
    ] = 1,
    largest_release: Annotated[
        int | None,
        typer.Option(
            "--largest-release",
            help="Largest number of APIs that the analyst may see together.",
            show_default="all",
            min=1,
        ),
    ] = None,
    releases: Annotated[
        int,
        typer.Option(
            "--releases", help="Number of sets that the analyst may see in an epoch.", min=1
        ),
    ] = 1,
    curator_key: Annotated[
        Path | None,
        typer.Option(
            "--curator-key",
            help="Public keys of the curator; users answer the analyst only what it signed.",
            show_default="no release",
            metavar="FILE.pub",
        ),
    ] = None,
    minimum_batch: Annotated[
        int,
        typer.Option(
            "--minimum-batch", help="Number of users below which the shuffler passes nothing on."
        ),
    ] = 1000,
    report_bytes: Annotated[
        int,
        typer.Option(
            "--report-bytes", help="Length of every report before it is sealed, in bytes."
        ),
    ] = 1024,
    epoch: EPOCH = 1,
) -> None:
    """Write the terms of a collection and its first request: each API alone, for the curator."""
    if population is None:
        raise InputError("population: the number of users is needed", hint="--population N")
    names = tuple(sorted(set(split_names(apis))))
    terms = Study(
        name=name,
        apis=names,
        population=population,
        k=k,
        budget=budget,
        delta=delta,
        largest_set=largest_set,
        largest_release=len(names) if largest_release is None else largest_release,
        releases=releases,
        curator_key=_verifying(curator_key),
        minimum_batch=minimum_batch,
        report_bytes=report_bytes,
    )
    first = first_ask(terms, epoch=epoch)
    for path in (output, ask):
        if path.exists():
            raise InputError(f"{path}: already exists", hint="answers to it would be lost")
    emit(terms.to_bytes().decode(), output)
    emit(first.to_bytes().decode(), ask)
    note(f"study {terms.id.hex()}, ask {first.id.hex()}")
    if curator_key is None:
        note("without --curator-key nothing can be released to the analyst")


def _verifying(path: Path | None) -> str:
    if path is None:
        return ""
    from fpmonitor.private.keys import read_public  # noqa: PLC0415 -- an extra

    return read_public(path, "curator").verifying


def keygen(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write the secret keys to.")
    ],
    role: Annotated[
        Role | None, typer.Option("--role", help="Make the first key of this role.")
    ] = None,
    rotate: Annotated[
        bool,
        typer.Option(
            "--rotate", help="Add a new key, to be used first; the others still open messages."
        ),
    ] = False,
    retire: Annotated[
        int | None, typer.Option("--retire", help="Delete the key with this id.", metavar="ID")
    ] = None,
) -> None:
    """Make, rotate or retire the keys of a role; publish FILE.pub, the public half."""
    from fpmonitor.private.keys import KeyRing, read_keys, write_keys  # noqa: PLC0415 -- an extra

    if (role is not None) + rotate + (retire is not None) != 1:
        raise InputError("keygen: give exactly one of --role, --rotate and --retire")
    if role is not None:
        if output.exists():
            raise InputError(f"{output}: already exists", hint="--rotate adds a new key")
        ring = KeyRing.generate(role)
    else:
        ring = read_keys(output)
        ring = ring.rotated() if retire is None else ring.retired(retire)
    write_keys(output, ring)
    public = output.with_name(f"{output.name}.pub")
    write_bytes(public, [ring.public.to_bytes()])
    note(f"{ring.role}: keys {', '.join(str(key.id) for key in ring.keys)}; publish {public}")


def token(
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write the token to.")],
) -> None:
    """Make a token with which one service authenticates to another; both need a copy."""
    if output.exists():
        raise InputError(f"{output}: already exists")
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
