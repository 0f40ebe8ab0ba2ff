"""What is shipped around the program names what exists: containers, the action, the dashboard."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from fpmonitor.cli import command_tree, run
from fpmonitor.private.study import FIRST_PORT, ROLES
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def accepted(arguments: Sequence[str]) -> dict[str, Any]:
    """Parse a command line as the program does, without running it."""
    context = command_tree().make_context("fpmonitor", list(arguments))
    while hasattr(context.command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context.params


def words(command: str | list[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else command


def test_command_lines_are_checked_by_the_parser() -> None:
    with pytest.raises(typer.TyperException):
        accepted(["collect", "serve", "--hosts", "0.0.0.0"])
    with pytest.raises(typer.TyperException):
        accepted(["private", "serve", "--role", "shuffler"])


def test_the_container_runs_as_a_user_without_rights_what_the_program_accepts() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line[:1].isupper()]
    steps = [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]
    names = [name for name, _ in steps]
    last = dict(steps)
    assert last["USER"] != "root"
    assert names.index("USER") > max(at for at, name in enumerate(names) if name == "RUN")
    assert last["VOLUME"] == last["WORKDIR"] == "/data"
    assert json.loads(last["ENTRYPOINT"]) == ["fpmonitor"]
    assert accepted(json.loads(last["CMD"]))["host"] == "0.0.0.0"
    for name, value in steps:
        if name == "COPY" and not value.startswith("--from"):
            for source in value.split()[:-1]:
                assert (ROOT / source).exists(), source


def test_all_that_the_container_installs_is_pinned_by_hash_as_the_project_allows() -> None:
    text = (DEPLOY / "requirements.txt").read_text(encoding="utf-8")
    pins = {}
    for entry in re.split(r"^(?=\w)", re.sub(r"^#.*\n", "", text, flags=re.M), flags=re.M)[1:]:
        name, _, rest = entry.partition("==")
        version, *hashes = rest.replace("\\", "").split()
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), name
        pins[canonicalize_name(name)] = version
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = stated["project"]["optional-dependencies"]
    needed = [*stated["project"]["dependencies"], *extras["serve"], *extras["private"]]
    for one in map(Requirement, [*needed, *stated["build-system"]["requires"]]):
        if one.marker is None or one.marker.evaluate({"python_version": "3.13"}):
            assert one.specifier.contains(pins[canonicalize_name(one.name)]), one
    installed = re.findall(r"pip install (.*)", (DEPLOY / "Containerfile").read_text("utf-8"))
    assert len(installed) == 2
    assert "--require-hashes -r /source/deploy/requirements.txt" in installed[0]
    assert {"--no-deps", "--no-build-isolation"} <= set(installed[1].split())


def test_compose_runs_commands_and_files_that_exist_and_publishes_on_this_machine_only() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    roles = set()
    for name, service in compose["services"].items():
        arguments = words(service["command"])
        parameters = accepted(arguments)
        if name in ROLES:  # whose role.json says where it listens
            assert parameters["folder"] == Path(name)
            parameters = {"port": FIRST_PORT + ROLES.index(name)}
        else:
            assert parameters["host"] == "0.0.0.0", "an address of the container, not outside"
        roles.add(name)
        for published in service.get("ports", []):
            assert published.startswith("127.0.0.1:")
        if "network_mode" not in service:
            assert f":{parameters['port']}" in service["ports"][0]
        else:
            owner = compose["services"][service["network_mode"].removeprefix("service:")]
            assert any(port.endswith(f":{parameters['port']}") for port in owner["ports"])
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        [volume] = service["volumes"]
        assert volume.split(":")[0] in compose["volumes"]
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert roles == {"serve", "shuffler", "curator", "analyst"}


def test_the_dashboard_asks_for_numbers_that_the_service_has(tmp_path: Path) -> None:
    app = service_app(ServeConfig(db=tmp_path / "s.duckdb", flush_seconds=3600.0))
    record = {"user": "u", "api": "Screen.width", "value": 1}
    with TestClient(app, base_url="http://localhost") as client:
        assert client.post("/v1/observations", json=record).status_code == 202
        text = client.get("/metrics").text
    samples: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        counted = f"{family.name}_total" if family.type == "counter" else family.name
        samples.setdefault(counted, set())
        for sample in family.samples:
            samples.setdefault(sample.name, set()).update(sample.labels)
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [one["query"]["query"] for one in dashboard["templating"]["list"][1:]]
    named = {name for text in asked for name in re.findall(r"fpmonitor_\w+", text)}
    assert named <= samples.keys()
    for gauge in ("fpmonitor_waiting_bytes", "fpmonitor_refused_bytes"):
        assert gauge in named
    labels = {
        label
        for text in asked
        for by in re.findall(r"by \((.*?)\)", text)
        for label in by.split(", ")
    }
    assert labels == {"kind", "route", "status", "le"}
    assert labels <= set.union(*samples.values())


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of 40 users, each like 19 others, and the decision on them."""
    folder = tmp_path_factory.mktemp("action")
    alike = "user,Screen.width\n" + "".join(f"u{number},{number % 2}\n" for number in range(40))
    (folder / "alike.csv").write_text(alike)
    different = "user,Screen.width\n" + "".join(f"v{number},{number}\n" for number in range(40))
    (folder / "later 1.csv").write_text(different)
    db = str(folder / "fpmonitor.duckdb")
    assert run(["ingest", str(folder / "alike.csv"), "--db", db, "-q", "-o", os.devnull]) == 0
    decide = ["decide", "--k", "10", "--budget", "10%", "--setting", "sample", "--db", db, "-q"]
    assert run([*decide, "-o", str(folder / "decision.json")]) == 0
    return folder


def steps_of_the_action() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    return action, action["runs"]["steps"]


def acted(folder: Path, **inputs: str) -> tuple[int, str, str]:
    """Run the step `check` as a runner does; return exit code, log, and outputs."""
    action, steps = steps_of_the_action()
    [step] = [step for step in steps if step.get("id") == "check"]
    given = {name: entry.get("default", "") for name, entry in action["inputs"].items()} | {
        name.replace("_", "-"): value for name, value in inputs.items()
    }
    filled = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
        for name, value in step["env"].items()
    }
    outputs = folder / "outputs"
    outputs.write_text("")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={**os.environ, **filled, "GITHUB_OUTPUT": str(outputs)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, outputs.read_text()


def test_the_action_passes_a_list_that_holds_and_fails_on_one_that_does_not(decided: Path) -> None:
    code, log, outputs = acted(decided, decision="decision.json")
    assert (code, outputs) == (0, "result=holds\n"), log
    assert "::notice" in log
    code, log, outputs = acted(
        decided,
        decision="decision.json",
        logs="later*.csv",
        ingest_options="--user user",
        sarif="found.sarif",
        cannot_tell="pass",
    )
    assert (code, outputs) == (1, "result=violated\n"), log
    assert json.loads((decided / "found.sarif").read_text())["runs"][0]["results"]


def test_inputs_of_the_action_are_never_part_of_a_script() -> None:
    action, steps = steps_of_the_action()
    used = re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8"))
    assert set(used) == action["inputs"].keys()
    for step in steps:
        assert "${{" not in step.get("run", "")
    assert action["outputs"]["result"]["value"] == "${{ steps.check.outputs.result }}"
    assert (ROOT / "pyproject.toml").is_file(), "github.action_path is installed"


def test_hooks_run_commands_that_exist() -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    program, *arguments = words(hook["entry"])
    assert program == "fpmonitor"
    assert re.search(hook["files"], "lists/decision.json")
    assert accepted([*arguments, "decision.json"])["decision"] == Path("decision.json")
    ours = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    checks = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for hook in ours["repos"][0]["hooks"]:
        assert hook["entry"].split(" --")[0] in checks.replace('"', "").replace(
            "$scratch/test/bin/", ""
        )
