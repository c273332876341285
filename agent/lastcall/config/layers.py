"""Reads each layer of the configuration: a file, the environment, the flags."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lastcall.config import hints
from lastcall.config.faults import Fault, nearest, quoted_name, show
from lastcall.config.keys import ENVIRONMENT_PREFIX, KEYS, TABLES, join, names_in, nearest_path
from lastcall.config.provenance import Given, Origin
from lastcall.config.toml_lines import lines_by_key

FILE_BYTES = 1024 * 1024
"""The largest file that is read."""

ALIASES: Mapping[str, str] = {"LASTCALL_SOCKET": "socket.path"}
"""Variables that set a key under another name, since clients read the same ones."""

CLIENT_VARIABLES = frozenset({"LASTCALL_JOB"})
"""Variables that clients alone read; they are no keys and no faults."""

_VARIABLES = {**{key.variable: key.path for key in KEYS.values()}, **ALIASES}

_VARIABLE_FORM = (
    "no such key; allowed: LASTCALL_TABLE__KEY, such as LASTCALL_NOTICES__AWS__POLL_SECONDS"
)

# Kubernetes puts such variables into every pod for a Service whose name begins with "lastcall"
# (Kubernetes documentation, Service, "Environment variables").
_SERVICE_LINK = re.compile(
    r"LASTCALL_(?:[A-Z0-9_]+_)?"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?"
    r"|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)\Z"
)

Layer = Iterator[Given | Fault]


def from_file(path: Path) -> Layer:
    """Read a TOML file: what it gives, and what is wrong with it as far as its keys go."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        yield Fault(str(path), "cannot be read", error.strerror or str(error))
        return
    if len(content) > FILE_BYTES:
        yield Fault(str(path), "too large", f"allowed: at most {FILE_BYTES} bytes")
        return
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        yield Fault(f"{path}:{line}", "not UTF-8", f"byte 0x{content[error.start]:02x}")
        return
    try:
        document = tomllib.loads(text)
    except RecursionError:
        yield Fault(str(path), "not TOML", "nested too deeply")
    except ValueError as error:
        yield _syntax_fault(path, text, str(error))
    else:
        yield from from_document(document, str(path), lines_by_key(text))


def from_document(
    document: Mapping[str, Any], file: str, lines: Mapping[str, int], table: str = ""
) -> Layer:
    """Read what a table of a TOML document holds; ``lines`` tells where its keys stand."""
    names = names_in(table)
    for name, value in document.items():
        path = join(table, name)
        where = f"{file}:{lines[path]}" if path in lines else file
        if name not in names:
            shown = f"{join(table, quoted_name(name))} = {show(value)}"
            allowed = f"no such key; allowed: {', '.join(names)}"
            yield Fault(where, shown, allowed, nearest_path(path))
        elif path in KEYS:
            yield Given(path, value, Origin("file", where))
        elif isinstance(value, Mapping):
            yield from from_document(value, file, lines, path)
        else:
            allowed = f"allowed: a table of {', '.join(names_in(path))}"
            yield Fault(where, f"{path} = {show(value)}", allowed)


def from_environment(environ: Mapping[str, str]) -> Layer:
    """Read the variables that begin with ``LASTCALL_``."""
    for name in sorted(environ):
        if not name.startswith(ENVIRONMENT_PREFIX) or _is_for_others(name):
            continue
        origin = Origin("environment", name)
        path = _VARIABLES.get(name)
        if path is None:
            # Its value is not shown: it may be meant for another program, and secret.
            yield Fault(str(origin), "", _VARIABLE_FORM, nearest(name, _VARIABLES))
        elif name in ALIASES:
            yield from _alias(path, environ, origin)
        else:
            yield Given(path, _from_text(path, environ[name]), origin)


def from_flags(overrides: Sequence[str]) -> Layer:
    """Read the values of ``--set``, each ``table.key=value``."""
    for override in overrides:
        path, equals, text = override.partition("=")
        path = path.strip()
        origin = Origin("flag", f"--set {path}")
        if not equals:
            yield Fault("flag --set", show(override), "allowed: KEY=VALUE")
        elif path in TABLES:
            allowed = f"a table; allowed: one of its keys, {', '.join(names_in(path))}"
            yield Fault(str(origin), "", allowed)
        elif path not in KEYS:
            allowed = f"no such key; allowed: {', '.join(names_in(_known_table(path)))}"
            yield Fault(str(origin), "", allowed, nearest_path(path))
        else:
            yield Given(path, _from_text(path, text), origin)


def _is_for_others(name: str) -> bool:
    return name in CLIENT_VARIABLES or _SERVICE_LINK.match(name) is not None


def _alias(path: str, environ: Mapping[str, str], origin: Origin) -> Layer:
    text = environ[origin.where]
    exact = KEYS[path].variable
    if environ.get(exact, text) != text:
        yield Fault(str(origin), f"{path} = {show(text)}", f"{exact} says otherwise; set one")
    elif text:
        yield Given(path, text, origin)


def _known_table(path: str) -> str:
    while path not in TABLES:
        path = path.rpartition(".")[0]
    return path


def _from_text(path: str, text: str) -> object:
    """Return the value that a text means for a key: raw where the key takes text alone."""
    if hints.takes_raw_text(KEYS[path].hint):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return document["value"] if len(document) == 1 else text


def _syntax_fault(path: Path, text: str, message: str) -> Fault:
    place = re.search(r" \(at line (\d+), column (\d+)\)\Z", message)
    if place:
        return Fault(f"{path}:{place[1]}", "not TOML", message[: place.start()])
    last_line = text.count("\n") + (not text.endswith("\n"))
    return Fault(f"{path}:{last_line}", "not TOML", message)
