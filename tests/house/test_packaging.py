"""What is in the checkout is what gets installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from importlib import resources
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.plugins import COLLECTORS, EXPORTERS, load_plugin, plugin_names

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGE = ROOT / "fpmonitor"
LINKED = ("collectors", "fixtures", "queries")


@pytest.mark.parametrize("folder", LINKED)
def test_folders_at_the_top_are_linked_into_the_package(folder: str) -> None:
    assert (PACKAGE / folder).is_symlink()
    assert (PACKAGE / folder).readlink() == Path("..") / folder


def test_every_python_file_lies_in_a_package() -> None:
    for folder in (PACKAGE, ROOT / "collectors", ROOT / "queries"):
        for path in folder.rglob("*.py"):
            assert (path.parent / "__init__.py").is_file(), path


def test_python_works_in_the_checkout() -> None:
    """`import fpmonitor` finds the folder here first, which must then hold all of the package."""
    script = (
        "import fpmonitor, fpmonitor.collectors.wide, fpmonitor.sql;"
        "fpmonitor.sql.statement('snapshot/codes', snapshot='s', columns='c');"
        "print(fpmonitor.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == PACKAGE / "__init__.py"


def test_installed_queries_are_those_of_the_checkout() -> None:
    installed = resources.files("fpmonitor.queries")
    on_disk = sorted((ROOT / "queries").rglob("*.sql"))
    assert len(on_disk) > 40
    for path in on_disk:
        resource = installed.joinpath(*path.relative_to(ROOT / "queries").parts)
        assert resource.read_bytes() == path.read_bytes(), path


def test_fixture_logs_are_installed() -> None:
    installed = resources.files("fpmonitor.fixtures") / "logs"
    assert {entry.name for entry in installed.iterdir()} == {
        path.name for path in (ROOT / "fixtures" / "logs").iterdir()
    }


@pytest.mark.parametrize("group", [COLLECTORS, EXPORTERS])
def test_entry_points_are_installed_and_load(group: str) -> None:
    declared: dict[str, str] = PROJECT["project"]["entry-points"][group]
    installed = {point.name: point.value for point in entry_points(group=group)}
    assert declared.items() <= installed.items(), "run: pip install -e ."
    for name in declared:
        plugin = load_plugin(group, name)
        assert callable(plugin if group == COLLECTORS else plugin.export)
    assert set(declared) <= set(plugin_names(group))


def test_unknown_plug_in_lists_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="nearest: wide"):
        load_plugin(COLLECTORS, "wied")


class Point:
    def __init__(self, name: str, value: str, *, broken: bool = False) -> None:
        self.name, self.value, self._broken = name, value, broken

    def load(self) -> object:
        if self._broken:
            raise ImportError("no such module")
        return self


def test_plug_in_claimed_twice_or_broken_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    points: list[Point] = []
    monkeypatch.setattr("fpmonitor.plugins._registered", lambda _group: points)
    points[:] = [Point("x", "one:A"), Point("x", "two:B")]
    with pytest.raises(InputError, match="claimed by one:A, two:B"):
        load_plugin(COLLECTORS, "x")
    points[:] = [Point("x", "one:A"), Point("x", "one:A")]
    assert load_plugin(COLLECTORS, "x") is points[1]
    points[:] = [Point("x", "one:A", broken=True)]
    with pytest.raises(InputError, match="cannot be imported"):
        load_plugin(COLLECTORS, "x")


@pytest.mark.long
def test_a_built_wheel_runs_by_uvx(tmp_path: Path) -> None:
    """What will be uploaded runs in an environment of its own: `uvx --from WHEEL fpmonitor`."""
    uvx = shutil.which("uvx")
    if uvx is None:
        pytest.skip("needs uv")
    built = subprocess.run(
        [str(Path(uvx).with_name("uv")), "build", "--wheel", "--out-dir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0 and "resolve" in built.stderr:
        pytest.skip("needs an index of packages")
    [wheel] = tmp_path.glob("*.whl")
    for words, code in ((["--version"], 0), (["quickstart", "q", "--quiet"], 0), (["rank"], 2)):
        done = subprocess.run(
            [uvx, "--from", str(wheel), "fpmonitor", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
    assert (tmp_path / "q" / "decision.json").is_file()
