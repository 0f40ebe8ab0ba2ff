"""Hooks of the documentation site: pages at the top of the checkout belong to it, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
TOP = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the top, whose links to `docs/` become links beside them."""
    for name in TOP:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to pages at the top stay in the site."""
    return re.sub(rf"\]\(\.\./({'|'.join(map(re.escape, TOP))})", r"](\1", markdown)
