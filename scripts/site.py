"""Hooks of the documentation site: pages at the top of the checkout belong to it, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
TOP = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def on_config(config: Any) -> Any:
    """Order the pages as the last table of the index, and that of the theorems, do."""
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8").split("## All pages")[1]
    theorems = (docs / "certificate.md").read_text(encoding="utf-8").split("## Theorems")[1]
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|(.+)\|$", index, re.MULTILINE)
    pages = {part: re.findall(r"\[(.+?)\]\((.+?)\)", cells) for part, cells in rows}
    pages["Certificate"] += re.findall(r"\[([^\]]+)\]\((certificate/.+?)\)", theorems)
    config.nav = [{"Start": "index.md"}] + [
        {part: [{name[0].upper() + name[1:]: page} for name, page in listed]}
        for part, listed in pages.items()
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the top, whose links to `docs/` become links beside them."""
    for name in TOP:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to pages at the top stay in the site."""
    return re.sub(rf"\]\(\.\./({'|'.join(map(re.escape, TOP))})", r"](\1", markdown)
