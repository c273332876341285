"""The story as it happens, line by line, each with its seconds since the notice."""

from __future__ import annotations

import time
from typing import TextIO

from lastcall.cli.terminal import Style


class Timeline:
    """Prints what happens in one run."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream = stream
        self._style = Style(stream)
        self._notice_unix: float | None = None
        self._print(f"\n{self._style.bold(title)}")

    def notice(self, at_unix: float, text: str) -> None:
        """Tell of the notice; from here on time counts."""
        self._notice_unix = at_unix
        self.tell(self._style.warning(text), at_unix)

    def tell(self, text: str, at_unix: float | None = None) -> None:
        """Tell what happened, now or at a moment in Unix seconds."""
        when = ""
        if self._notice_unix is not None:
            when = f"{(at_unix or time.time()) - self._notice_unix:+.2f} s"
        self._print(f"  {when:>9}  {text}")

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
