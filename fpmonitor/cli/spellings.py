"""What people type, as the commands take it."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence

from fpmonitor.cli.table import MOVED

_OTHERS = "--for-others"
_OF_THE_PAGE = frozenset(("--browser", "--db", "--no-browser", "--port"))
_ALONE = {"version": "--version", "-V": "--version"}


def position_of_command(words: Sequence[str], takes_value: Mapping[str, bool]) -> int:
    """Where the command stands behind options of all commands; the end where there is none.

    Args:
        words: Arguments of `fpmonitor`.
        takes_value: Whether the next word is the value of an option of all commands.
    """
    position = 0
    while position < len(words):
        option, _, value = words[position].partition("=")
        if option not in takes_value:
            return position
        position += 2 if takes_value[option] and not value else 1
    return len(words)


def understood(
    arguments: Sequence[str], commands: Collection[str], takes_value: Mapping[str, bool]
) -> list[str]:
    """Return the arguments as the commands take them.

    `fpmonitor LOG` opens the page, or prints one screen where no browser can be opened,
    `help COMMAND` is its `--help`, `--json` is `--format json`, a command of before is where it is
    now, and `--for-others`, which is an option of all commands, may stand behind one.
    """
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    options, rest = words[:end], words[end:]
    if _OTHERS in options:
        options = [_OTHERS, *(word for word in options if word != _OTHERS)]
    options = [part for word in options for part in _spelled(word)]
    first = position_of_command(options, takes_value)
    name = options[first] if len(options) > first else ""
    if name == "help":
        options = [*options[:first], *options[first + 1 :], "--help"]
    elif name in _ALONE:
        options = [_ALONE[name]]
    elif name not in commands and name in MOVED:
        moved = MOVED[name].split()
        if "--help" in options:  # an option of before may want a value
            moved = [word for word in moved if not word.startswith("-")]
        options[first : first + 1] = moved
    elif name not in commands and os.path.isfile(name):  # noqa: PTH113 -- false also for no path
        # Whoever says what becomes of the page means the page; how to read the log is asked there.
        of_page = not _OF_THE_PAGE.isdisjoint(word.partition("=")[0] for word in options)
        reads = any(word.startswith("-") for word in options[first:])
        options.insert(first, "ui" if of_page or (shows_pages() and not reads) else "look")
    return options + rest


def shows_pages() -> bool:
    """Whether a browser with windows can be opened: one of text would take the terminal."""
    return sys.platform != "linux" or bool(os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"})


def _spelled(word: str) -> list[str]:
    return ["--format", "json"] if word == "--json" else [word]
