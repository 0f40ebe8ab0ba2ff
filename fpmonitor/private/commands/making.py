"""The command that makes the folders of a study and of its roles: init."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.options import BUDGET_OF_STUDY, DELTA, POPULATION, K, named_options
from fpmonitor.cli.output import note
from fpmonitor.errors import InputError, PolicyError
from fpmonitor.private.study import FIRST_PORT, Role, Study
from fpmonitor.vocabulary import split_names


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Options for the terms of a study."""

    name: Annotated[str, typer.Option(help="Name of the study, for human readers.")] = "pilot"
    apis: Annotated[
        str | None, typer.Option(help="APIs that may be asked for.", metavar="A,B,...")
    ] = None
    population: POPULATION = None
    budget: BUDGET_OF_STUDY = None
    k: K = 10
    delta: DELTA = 0.05
    largest_set: Annotated[
        int, typer.Option(help="Largest number of APIs that the curator may see together.", min=1)
    ] = 1
    largest_release: Annotated[
        int | None,
        typer.Option(
            help="Largest number of APIs that the analyst may see together.",
            show_default="all",
            min=1,
        ),
    ] = None
    releases: Annotated[
        int, typer.Option(help="Number of sets that the analyst may see in an epoch.", min=1)
    ] = 1
    minimum_batch: Annotated[
        int, typer.Option(help="Number of users below which the shuffler passes nothing on.")
    ] = 1000
    report_bytes: Annotated[
        int, typer.Option(help="Length of every report before it is sealed, in bytes.")
    ] = 1024

    def study(self, curator_key: str = "") -> Study:
        """Return the study.

        Raises:
            InputError: An option is missing.
            PolicyError: A term is out of its range, or no round could ever be closed.
        """
        if self.apis is None or self.population is None or self.budget is None:
            given = {"--apis": self.apis, "--population": self.population, "--budget": self.budget}
            missing = ", ".join(name for name, value in given.items() if value is None)
            raise InputError(f"study: needs {missing}")
        names = tuple(sorted(set(split_names(self.apis))))
        made = Study(
            name=self.name,
            apis=names,
            population=self.population,
            k=self.k,
            budget=self.budget,
            delta=self.delta,
            largest_set=self.largest_set,
            largest_release=len(names) if self.largest_release is None else self.largest_release,
            releases=self.releases,
            curator_key=curator_key,
            minimum_batch=self.minimum_batch,
            report_bytes=self.report_bytes,
        )
        if self.minimum_batch > self.population:
            raise PolicyError(
                "minimum_batch",
                f"{self.minimum_batch:,} users never answer, where the population has "
                f"{self.population:,}",
                hint="choose a smaller --minimum-batch",
            )
        return made


def init(
    *,
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder to make.")],
    role: Annotated[
        Role | None,
        typer.Option(help="Make the folder of this role only.", show_default="a pilot of all"),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            help="Port of the shuffler; curator and analyst have the next two.", min=1, max=65_533
        ),
    ] = FIRST_PORT,
    curator_key: Annotated[
        Path | None,
        typer.Option(
            help="Make the study alone, for roles elsewhere. Users answer the analyst what the "
            "curator of these public keys signed.",
            show_default="roles of its own",
            metavar="FILE.pub",
        ),
    ] = None,
    terms: Terms,
) -> None:
    """Make the folder of a role, with keys and password; a study; or a pilot: with all its roles.

    `private serve FOLDER` runs it.
    """
    from fpmonitor.private.folder import (  # noqa: PLC0415 -- an extra
        make_pilot,
        make_role,
        make_study,
    )
    from fpmonitor.private.keys import read_public  # noqa: PLC0415 -- an extra

    named = named_options(context)
    if role is not None:
        if not {"--role", "--port"}.issuperset(named):
            raise InputError("init: a role has no terms", hint="omit --role for a study")
        _tell_role(folder, make_role(folder, role, port=port).address(role))
        return
    if curator_key is not None:
        if "--port" in named:
            raise InputError("init: a study has no port", hint="omit --port, or --curator-key")
        made = terms.study(read_public(curator_key, "curator").verifying)
        first = make_study(folder, made)
        note(
            f"study {made.id.hex()}, ask {first.id.hex()}: give {folder}/study.json to each role, "
            f"then `fpmonitor private publish {folder}/round-1.json --folder CURATOR`"
        )
        return
    made = make_pilot(folder, terms.study(), port=port)
    note(f"study {made.id.hex()}; round 1 is published: `fpmonitor private serve {folder}`")
    note(
        "a pilot: who runs shuffler and curator can put the values of a user together; for real "
        "users each party makes its own role with --role"
    )


def _tell_role(folder: Path, address: str) -> None:
    note(f"publish {folder}/keys.pub, give {folder}/password to those who may publish or send")
    note(
        f"put there study.json, and the passwords of others as ROLE.password; role.json says "
        f"where the others are, and that it listens at {address}"
    )
