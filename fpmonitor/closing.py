"""What is closed at the end of a `with`."""

from __future__ import annotations

from typing import Self


class Closing:
    """Base of what holds something open until `close`."""

    def close(self) -> None:
        """Give up what is held."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
