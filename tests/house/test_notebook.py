"""A notebook: a database opens in a real kernel, and results show themselves there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Cell = Callable[[str], dict[str, str]]

HOSTILE = "x:a:<img src=x onerror=alert(1)>"


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Cell]:
    """Run a cell in a kernel of its own; returns what it shows, by its media type."""
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    client_module: Any = pytest.importorskip("jupyter_client", reason="jupyter_client is missing")
    # This Python: `ipykernel` names it itself, without an installed kernel.
    manager = client_module.KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)

    def run(code: str) -> dict[str, str]:
        shown: dict[str, str] = {}

        def take(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "error":
                shown["error"] = "\n".join(content["traceback"])
            elif message["msg_type"] in {"execute_result", "display_data"}:
                shown.update(content["data"])
            elif message["msg_type"] == "stream":
                shown[content["name"]] = shown.get(content["name"], "") + content["text"]

        client.execute_interactive(code, output_hook=take, timeout=60)
        return shown

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_results_show_themselves_in_a_kernel(cell: Cell, tmp_path: Path) -> None:
    rows = [{"user": f"u{i}", "A.a": str(i % 3), HOSTILE: str(i % 40)} for i in range(200)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    opened = cell(
        "import pathlib, fpmonitor\n"
        "monitor = fpmonitor.Monitor(pathlib.Path('n.duckdb'), create=True)\n"
        "_ = monitor.ingest(['log.jsonl'])"
    )
    assert "error" not in opened, opened["error"]
    assert "stdout" not in opened, "no progress bar"
    shown = cell(f"monitor.exposure([['A.a', {HOSTILE!r}]], k=10)[0]")
    assert "error" not in shown, shown["error"]
    assert "in groups of fewer than 10" in shown["text/html"]
    assert "A.<wbr/>a<br/>x:a:&lt;img" in shown["text/html"]
    frame = cell("print(monitor.rank(k=10).to_polars()['exposure'].len())")
    assert frame == {"stdout": "2\n"}
    curve = cell("monitor.curve(['A.a'])")
    assert "<caption>Exposure curve: A.a</caption>" in curve["text/html"]


@pytest.mark.long
def test_the_notebook_of_the_documentation_runs(cell: Cell, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
    content = json.loads(path.read_text(encoding="utf-8"))
    shown = []
    for one in content["cells"]:
        if one["cell_type"] == "code":
            found = cell("".join(one["source"]))
            assert "error" not in found, found["error"]
            shown.append(found)
    assert "text/html" in shown[0]
    assert "text/html" in shown[1]
    assert "<svg" in shown[2]["image/svg+xml"]
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "list.txt").read_text().startswith("!")
