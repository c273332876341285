"""All keys of the configuration by their dotted path, as the schema declares them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields

from lastcall.config.faults import nearest
from lastcall.config.hints import base
from lastcall.config.schema import Config
from lastcall.config.table import Table

ENVIRONMENT_PREFIX = "LASTCALL_"


@dataclass(frozen=True, slots=True)
class Key:
    """One setting.

    Attributes:
        path: its table and name, such as ``notices.aws.poll_seconds``.
        hint: its declared type with all marks.
        pending: it belongs to a feature that this version does not have.
    """

    path: str
    hint: Any
    default: Any
    pending: bool

    @property
    def table(self) -> str:
        """The path of its table; empty for the top."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its name within its table."""
        return self.path.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.path.upper().replace(".", "__")


def default_of(declared: FieldInfo) -> Any:
    """Return a field's default."""
    if declared.default is not NODEFAULT:
        return declared.default
    return declared.default_factory()


def join(table: str, name: str) -> str:
    """Return the path of a name within a table; the top table's path is empty."""
    return f"{table}.{name}" if table else name


def is_table(hint: Any) -> bool:
    """Whether a declared type is a table of its own."""
    return isinstance(base(hint), type) and issubclass(base(hint), Table)


def _tables(path: str, table: type[Table]) -> Iterator[tuple[str, type[Table]]]:
    yield path, table
    for declared in fields(table):
        if is_table(declared.type):
            yield from _tables(join(path, declared.name), declared.type)


def _keys(path: str, table: type[Table]) -> Iterator[Key]:
    for declared in fields(table):
        if not is_table(declared.type):
            key = join(path, declared.name)
            yield Key(key, declared.type, default_of(declared), table.pending)


TABLES: Mapping[str, type[Table]] = dict(_tables("", Config))
"""By path, in the order of the schema; the top table comes first and has the empty path."""

KEYS: Mapping[str, Key] = {
    key.path: key for path, table in TABLES.items() for key in _keys(path, table)
}
"""By path, table after table."""


def names_in(table: str) -> list[str]:
    """Return the names of the keys and tables that stand in a table."""
    return [declared.name for declared in fields(TABLES[table])]


def nearest_path(path: str) -> str | None:
    """Return the path that was probably meant by one that does not exist.

    A slip in the name within the right table is sought first, then the name in another table,
    then any path that looks alike.
    """
    table, _, name = path.rpartition(".")
    if table in TABLES and (sibling := nearest(name, names_in(table))):
        return join(table, sibling)
    namesakes = [known for known in KEYS if known.rpartition(".")[2] == name]
    return namesakes[0] if namesakes else nearest(path, [*KEYS, *filter(None, TABLES)])
