"""Finds the line on which each key of a TOML document stands, which ``tomllib`` does not tell."""

import re
from collections.abc import Mapping

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''.*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*",
    re.DOTALL,
)
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_PATH = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_PATH})[ \t]*\]")
_ASSIGNMENT = re.compile(rf"[ \t]*({_PATH})[ \t]*=")


def lines_by_key(text: str) -> Mapping[str, int]:
    """Return the line, from 1, of each table and key of a document that ``tomllib`` accepts.

    What stands within an inline value is not told apart from the key that holds it.
    """
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(_TOKEN.sub(_blank, text).split("\n"), start=1):
        if header := _HEADER.match(line):
            table = _dotted(header[1])
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            path = _dotted(assignment[1])
            lines.setdefault(f"{table}.{path}" if table else path, number)
    return lines


def _blank(token: re.Match[str]) -> str:
    if token[0].startswith(('"""', "'''")):
        return "''" + "\n" * token[0].count("\n")
    return "" if token[0].startswith("#") else token[0]


def _dotted(path: str) -> str:
    return ".".join(re.sub(r"[\"']", "", part) for part in re.findall(_PART, path))
