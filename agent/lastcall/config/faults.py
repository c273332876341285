"""What is wrong with a configuration, in one clear line for each fault."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

_SHOWN_CHARACTERS = 80
_BARE_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")
_USER_INFO = re.compile(r"//[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        where: the file with its line, the environment variable or the flag.
        what: the key with what was given, or what could not be read.
        allowed: what would be right, or why this is wrong.
        nearest: the right name that was probably meant.
    """

    where: str
    what: str
    allowed: str
    nearest: str | None = None

    def __str__(self) -> str:
        """Return the line."""
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        parts = [part for part in (self.where, self.what, self.allowed) if part]
        return one_line(": ".join(parts) + hint)


class ConfigError(ValueError):
    """A configuration that cannot be used; its text has a line for each fault."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, or ``None`` where none is near."""
    close = get_close_matches(name, list(names), n=1)
    return close[0] if close else None


def show(value: object) -> str:
    """Return a value as TOML would have it; only what it is where that would be long.

    User and password in an address are left out, since faults end up in logs.
    """
    match value:
        case bool():
            text = "true" if value else "false"
        case str():
            text = json.dumps(_USER_INFO.sub("//…@", value), ensure_ascii=False)
        case int() | float():
            text = _number(value)
        case dict():
            text = "a table"
        case list() | tuple():
            text = "a list"
        case _:
            text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def quoted_name(name: str) -> str:
    """Return the name of a key as TOML has it, in quotes where it needs them."""
    return name if _BARE_NAME.match(name) else json.dumps(name, ensure_ascii=False)


def one_line(text: str) -> str:
    """Return the text with everything escaped that a terminal would not show as it is."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _number(value: float) -> str:
    try:
        return repr(value)
    except ValueError:  # Python refuses to write out whole numbers of thousands of digits.
        return "a number of thousands of digits"
