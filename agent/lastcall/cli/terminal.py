"""Text for people: columns that line up, colour only where it is wanted, nothing that steers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TextIO

CELL_LENGTH = 48
"""Characters that are shown of a text that comes from elsewhere."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Style:
    """Emphasis on a terminal; plain text everywhere else.

    Colours are left out where the stream is no terminal, where ``NO_COLOR`` is set to anything but
    the empty text (as asked for by no-color.org), and where ``TERM`` is ``dumb``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.on_terminal = stream.isatty()
        self._coloured = (
            self.on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )

    def bold(self, text: str) -> str:
        """Return a heading."""
        return self._wrapped(text, "1")

    def dim(self, text: str) -> str:
        """Return what stands in the background."""
        return self._wrapped(text, "2")

    def good(self, text: str) -> str:
        """Return what is as it should be."""
        return self._wrapped(text, "32")

    def warning(self, text: str) -> str:
        """Return what deserves a look."""
        return self._wrapped(text, "33")

    def bad(self, text: str) -> str:
        """Return what needs somebody."""
        return self._wrapped(text, "31")

    def _wrapped(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._coloured and text else text


def safe(text: object, length: int = CELL_LENGTH) -> str:
    """Return a text that comes from elsewhere so that it stays on its line and steers nothing."""
    shown = "".join(
        letter
        if letter.isprintable()
        else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
        for letter in str(text)[: length + 1]
    )
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Return rows as lines whose columns line up, two spaces apart; colours take no room."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return [(indent + "  ".join(map(_padded, row, widths))).rstrip() for row in rows]


def duration(seconds: float) -> str:
    """Return a duration as people say it: ``0.4 s``, ``120 s``, ``8 min 20 s``, ``2 h 5 min``."""
    if abs(seconds) < 9.95:
        return f"{seconds:.1f} s"
    sign, whole = "-" if seconds < 0 else "", round(abs(seconds))
    if whole < 300:
        return f"{sign}{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{sign}{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{sign}{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{sign}{days} d {hours} h"


def size(count: float) -> str:
    """Return a number of bytes as people say it, such as ``4.0 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _width(text: str) -> int:
    return len(_COLOUR.sub("", text))


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
