"""The little of YAML that a notice is written in: keys with a value each, one a line.

A parser for all of YAML would be a dependency, and would read the same file otherwise where it is
not installed. What lies deeper than the first level is passed over.
"""

from __future__ import annotations

import re

_ENTRY = re.compile(r"""(["']?)([A-Za-z_][\w.-]*)\1\s*:(?:\s+(.*))?""", re.ASCII)
_PASSED_OVER = (" ", "\t", "#", "-", "%", "...")
_NO_VALUE = ("", "~", "null", "|", ">", "|-", ">-")


def read_flat_yaml(text: str) -> tuple[dict[str, str], str]:
    """Return the values of the first level as texts, and what could not be read.

    A line that cannot be read hides no other. Of a key that stands twice, the last holds.
    """
    fields: dict[str, str] = {}
    unread: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith(_PASSED_OVER):
            continue
        entry = _ENTRY.fullmatch(line.rstrip())
        if entry is None:
            unread.append(number)
            continue
        value = _scalar(entry[3] or "")
        if value not in _NO_VALUE:
            fields[entry[2]] = value
    return fields, f"line {unread[0]} is no key with a value" if unread else ""


def _scalar(text: str) -> str:
    quote = text[:1]
    if quote and quote in "\"'":
        end = text.find(quote, 1)
        return text[1:end] if end > 0 else text
    return re.split(r"(?:\A|\s)#", text, maxsplit=1)[0].strip()
