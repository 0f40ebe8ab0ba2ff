"""Words: sentences on screen are short, and the documentation does not grow."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
MOST_WORDS = 25
MOST_OF_ALL = 45_000  # of 77,001 in November 2026; lower it when pages become shorter
MOST_OF_A_PAGE = 900
# Whole promises, which stand in JSON; the screen has them in short.
WHOLE = (
    "With probability at least X, no",
    "Of all passes of this list",
    "With probability X, this",
)
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n")
_LEAST_PROSE = 12  # words of letters alone: fewer are a table or a list of names


def texts_of(path: Path) -> Iterator[str]:
    """Texts of a module that are no docstring, with X for what is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    above = {id(below): node for node in ast.walk(tree) for below in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        parent = above.get(id(node))
        if isinstance(node, ast.JoinedStr) and not isinstance(parent, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
            yield "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not isinstance(parent, ast.Expr | ast.JoinedStr)
        ):
            yield node.value


def long_sentences(text: str) -> Iterator[str]:
    for sentence in _SENTENCES.split(text):
        words = sentence.split()
        if len(words) > MOST_WORDS and sum(word.isalpha() for word in words) > _LEAST_PROSE:
            yield sentence


def test_no_sentence_on_screen_has_more_than_25_words() -> None:
    found = []
    for path in sorted((ROOT / "fpmonitor").rglob("*.py")):
        for text in texts_of(path):
            if "SELECT" in text or path.name == "judgement.py":  # a statement; a list of words
                continue
            for sentence in long_sentences(text.replace(".X ", ". X ")):
                if not sentence.startswith(WHOLE) and not sentence.startswith("<"):
                    found.append(f"{path.relative_to(ROOT)}: {sentence[:90]}")
    assert not found, "\n".join(found)


def test_no_recorded_screen_has_a_longer_one() -> None:
    for path in sorted((ROOT / "tests" / "render").glob("screen-*.txt")):
        prose = re.sub(r"(?m)^.*[│┃━─┏┡└╇].*$", "\n\n", path.read_text(encoding="utf-8"))
        for paragraph in re.split(r"\n\s*\n|\n(?=\$)", prose):
            assert not list(long_sentences(" ".join(paragraph.split()))), path.name


def test_long_sentences_are_found() -> None:
    words = " ".join(["word"] * 30)
    assert list(long_sentences(f"Short. {words}. Short again."))
    assert not list(long_sentences(" ".join(["word"] * 20) + "; " + " ".join(["word"] * 20)))


def test_the_documentation_does_not_grow() -> None:
    """README, and all pages that are written by hand; a new page takes the place of others."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += (ROOT / "docs" / "certificate").glob("*.md")
    counts = {
        page.relative_to(ROOT).as_posix(): len(page.read_text(encoding="utf-8").split())
        for page in pages
    }
    assert sum(counts.values()) <= MOST_OF_ALL, counts
    assert counts["README.md"] <= 700
    assert not {page: words for page, words in counts.items() if words > MOST_OF_A_PAGE}


def test_private_collection_has_eight_terms_of_its_own_and_one_picture_of_four() -> None:
    """Each is introduced once, in italics, or in the picture of study, epoch, round and request."""
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("private*.md")]
    [picture_page] = [text for text in texts if "```text\nstudy" in text]
    picture = picture_page.partition("```text\n")[2].partition("```")[0]
    nested = re.findall(r"^(?: *└─ )?([a-z]+) ", picture, re.MULTILINE)
    assert nested == ["study", "epoch", "round", "request"]
    introduced = [word for text in texts for word in re.findall(r"(?<!\*)\*([a-z]+)\*", text)]
    emphasised = {"not"}
    assert sorted({*introduced} - emphasised) == ["analyst", "curator", "pilot", "shuffler"]
    assert len(introduced) - len(emphasised) == 4
