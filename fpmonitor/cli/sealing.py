"""Commands on keys and encrypted copies: db make-key, db seal, db open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.options import QUIET
from fpmonitor.cli.output import note
from fpmonitor.sealing import make_seal_key, open_file, seal_file
from fpmonitor.secret_files import make_key_file

KEY_FILE = Annotated[Path, typer.Option("--key-file", help="File with the secret key (mode 600).")]
OUTPUT = Annotated[Path, typer.Option("-o", "--output", help="File to write.")]


def make_key(
    path: Annotated[Path, typer.Argument(help="Key file to create.")], quiet: QUIET = False
) -> None:
    """Make the key of an encrypted database, for `fpmonitor --key-file`."""
    make_key_file(path)
    note(f"data encrypted with {path} are lost without it: keep a copy elsewhere", quiet=quiet)


def seal(
    source: Annotated[Path, typer.Argument(help="Database, or any other file.")],
    seal_key: KEY_FILE,
    output: OUTPUT,
    make_key: Annotated[
        bool, typer.Option("--make-key", help="Create the key file, which must not exist yet.")
    ] = False,
    quiet: QUIET = False,
) -> None:
    """Encrypt a file in the age format; the original stays."""
    if make_key:
        make_seal_key(seal_key)
        note(f"{seal_key} opens the sealed file: keep it, and a copy of it, elsewhere", quiet=quiet)
    seal_file(source, output, seal_key)
    note(f"sealed to {output}; {source} is unchanged", quiet=quiet)


def open_sealed(
    source: Annotated[Path, typer.Argument(help="Sealed file.")],
    seal_key: KEY_FILE,
    output: OUTPUT,
    quiet: QUIET = False,
) -> None:
    """Decrypt a file made by `db seal` or by age."""
    open_file(source, output, seal_key)
    note(f"decrypted to {output}", quiet=quiet)
