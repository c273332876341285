"""Merges the layers, later over earlier, into one checked configuration."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec.structs import fields

from lastcall.config.faults import ConfigError, Fault
from lastcall.config.keys import KEYS, TABLES, join
from lastcall.config.layers import from_environment, from_file, from_flags
from lastcall.config.provenance import DEFAULT, Given, Origin
from lastcall.config.schema import Config
from lastcall.config.table import Table
from lastcall.config.validate import validate

DEFAULT_FILE = Path("/etc/lastcall/lastcall.toml")
"""Read where no other file is named and this one is there."""

NODE_NAME_VARIABLE = "NODE_NAME"
"""The variable that charts fill with the node's name."""

_NODE_NAME = "node_name"

T = TypeVar("T", bound=Table)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The configuration in effect.

    Attributes:
        origins: by the path of each key, such as ``notices.aws.poll_seconds``.
        file: the file that was read; ``None`` where there was none.
    """

    config: Config
    origins: Mapping[str, Origin]
    file: Path | None = None


def load(
    config_file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Sequence[str] = (),
) -> Loaded:
    """Return the configuration: defaults, then file, then environment, then ``--set`` flags.

    Args:
        config_file: a file that must be there; without it ``DEFAULT_FILE`` is read if present.
        environ: the environment; variables that begin with ``LASTCALL_``, and ``NODE_NAME``.
        overrides: the values of ``--set``, each ``table.key=value``.

    Raises:
        ConfigError: with one line for each fault in any layer, also in values that a later layer
            would have covered.
    """
    file = config_file or _default_file()
    layers = [
        *(from_file(file) if file else ()),
        *from_environment(environ),
        *from_flags(overrides),
    ]
    return merge(layers, environ, file)


def merge(
    layers: Iterable[Given | Fault], environ: Mapping[str, str], file: Path | None = None
) -> Loaded:
    """Return the configuration that values make which were given in this order; see ``load``.

    Raises:
        ConfigError: with the faults that were given and those that the values have.
    """
    values: dict[str, Any] = {key.path: key.default for key in KEYS.values()}
    origins = dict.fromkeys(KEYS, DEFAULT)
    faults: list[Fault] = []
    for entry in layers:
        if isinstance(entry, Fault):
            faults.append(entry)
        else:
            values[entry.key], found = validate(entry)
            origins[entry.key] = entry.origin
            faults += found
    if values[_NODE_NAME] == "":
        values[_NODE_NAME], origins[_NODE_NAME], found = _own_name(environ)
        faults += found
    if faults:
        raise ConfigError(faults)
    return Loaded(_build(Config, "", values), MappingProxyType(origins), file)


def _default_file() -> Path | None:
    try:
        DEFAULT_FILE.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        pass  # It is there and cannot be read, which the reader reports.
    return DEFAULT_FILE


def _own_name(environ: Mapping[str, str]) -> tuple[Any, Origin, list[Fault]]:
    name = environ.get(NODE_NAME_VARIABLE, "")
    if not name:
        return os.uname().nodename, Origin("default", "the host's name"), []
    value, faults = validate(Given(_NODE_NAME, name, Origin("environment", NODE_NAME_VARIABLE)))
    return value, Origin("default", f"${NODE_NAME_VARIABLE}"), faults


def _build(table: type[T], path: str, values: Mapping[str, Any]) -> T:
    content = {}
    for declared in fields(table):
        inner = join(path, declared.name)
        if inner in TABLES:
            content[declared.name] = _build(TABLES[inner], inner, values)
        else:
            content[declared.name] = values[inner]
    return table(**content)
