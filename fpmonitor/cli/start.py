"""All steps on the fixture logs: logs in, an allow list out."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fpmonitor.answers.recommended import report_people
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.options import QUIET
from fpmonitor.cli.output import emit, on_screen, progress_line
from fpmonitor.errors import InputError
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.plugins import EXPORTERS, load_plugin
from fpmonitor.render import decisions, store
from fpmonitor.render.output import to_json

_K, _POPULATION, _BUDGET, _DELTA = 10, 20_000, 0.05, 0.05
_CANDIDATES = 12


def quickstart(
    folder: Annotated[Path, typer.Argument(help="Folder to create.")] = Path("quickstart"),
    quiet: QUIET = False,
) -> None:
    """Run ingest, decide and export on bundled synthetic logs, into a new folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}", hint="name another folder") from error
    if not is_empty:
        raise InputError(f"{folder} is not empty", hint="name another folder, or remove it")
    console = Console(stderr=True, quiet=quiet)
    database, decision_file = folder / "fpmonitor.duckdb", folder / "decision.json"
    with resources.as_file(resources.files("fpmonitor.fixtures") / "logs") as logs:
        console.print("1. Store the logs of 20,000 browsers, some lines broken on purpose:")
        console.print(f"   fpmonitor ingest {logs} --db {database}", soft_wrap=True)
        with open_monitor(database, create=True) as monitor:
            with progress_line(quiet) as progress:
                reports = monitor.ingest([str(logs)], progress=lambda _log, stage: progress(stage))
            emit(on_screen(store.batches_output(reports), more="db batches"), None)
            candidates = [line.api for line in monitor.apis(k=_K)][:_CANDIDATES]
            console.print("2. Decide which sets of its most exposing APIs a site may read:")
            console.print(
                f"   fpmonitor decide --k {_K} --population {_POPULATION} --budget {_BUDGET} "
                f"--delta {_DELTA} --db {database} "
                f"--candidates '{','.join(candidates)}' -o {decision_file}",
                soft_wrap=True,
            )
            with progress_line(quiet) as progress:
                decision = monitor.decide(
                    k=_K,
                    population=_POPULATION,
                    budget=_BUDGET,
                    delta=_DELTA,
                    candidates=candidates,
                    progress=progress,
                )
            users = monitor.population()
            data = decisions.data_of(monitor.name, users, users=decision.users, k=_K)
            people = report_people(users, decision)
    shown = decisions.decision(decision, data, people)
    emit(on_screen(shown, below=6, more="export --report"), None)
    emit(to_json(decision.to_json()), decision_file)
    console.print("3. Write the allow/block list:")
    for name in ("json", "csv"):
        target = folder / f"allow-block-list.{name}"
        console.print(f"   fpmonitor export {decision_file} --to {name} -o {target}")
        emit(load_plugin(EXPORTERS, name).export(decision, ExportOptions()).text, target)
    print(f"In {folder}: fpmonitor.duckdb, decision.json, allow-block-list.json and .csv")
