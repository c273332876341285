"""Shows the configuration in effect and what can be set: as TOML, as JSON, as a JSON Schema."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from lastcall.config import hints
from lastcall.config.faults import one_line, quoted_name
from lastcall.config.keys import KEYS, TABLES, Key
from lastcall.config.load import Loaded
from lastcall.config.provenance import Origin
from lastcall.config.schema import Config

NOT_IN_THIS_VERSION = "not in this version"

_COMMENT_COLUMN = 48


@dataclass(frozen=True, slots=True)
class Setting:
    """One key with the value in effect and where that came from."""

    key: Key
    value: Any
    origin: Origin

    @property
    def comment(self) -> str:
        """What stands beside the value: its origin, and whether it has no effect yet."""
        note = f" ({NOT_IN_THIS_VERSION})" if self.key.pending else ""
        return one_line(f"{self.origin}{note}")


def settings(loaded: Loaded) -> Iterator[Setting]:
    """Yield all settings in the order of the schema."""
    for path, key in KEYS.items():
        value: Any = loaded.config
        for name in path.split("."):
            value = getattr(value, name)
        yield Setting(key, value, loaded.origins[path])


def pending_settings(loaded: Loaded) -> list[Setting]:
    """Return what is set away from its default and has no effect in this version."""
    return [
        setting
        for setting in settings(loaded)
        if setting.key.pending and setting.value != setting.key.default
    ]


def as_toml(loaded: Loaded) -> str:
    """Return the configuration in effect as a file that would set the same, with the origins."""
    by_table: dict[str, list[Setting]] = {table: [] for table in TABLES}
    for setting in settings(loaded):
        by_table[setting.key.table].append(setting)
    blocks = [f"# File: {one_line(str(loaded.file)) if loaded.file else 'none'}"]
    for table, members in by_table.items():
        header = [f"[{table}]"] if table else []
        blocks.append("\n".join([*header, *map(_toml_line, members)]))
    return "\n\n".join(blocks) + "\n"


def as_json(loaded: Loaded) -> str:
    """Return the configuration in effect as JSON: value, layer and place of each key."""
    content = {
        "file": str(loaded.file) if loaded.file else None,
        "settings": {
            setting.key.path: {
                "value": written(setting.key, setting.value),
                "layer": setting.origin.layer,
                "where": setting.origin.where,
                "pending": setting.key.pending,
            }
            for setting in settings(loaded)
        },
    }
    return json.dumps(content, indent=2)


def written(key: Key, value: Any) -> Any:
    """Return a value in plain types as a file would have it."""
    return msgspec.to_builtins(hints.form(key.hint).write(value))


def toml_value(value: Any) -> str:
    """Return a plain value as TOML."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            members = ", ".join(
                f"{quoted_name(name)} = {toml_value(item)}" for name, item in value.items()
            )
            return f"{{ {members} }}" if members else "{}"
        case list() | tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case _:
            return repr(value)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the file."""
    schema = msgspec.json.schema(Config)
    definitions = schema["$defs"]
    for key in KEYS.values():
        entry = definitions[TABLES[key.table].__name__]["properties"][key.name]
        form = hints.form(key.hint)
        if form.schema:
            entry.clear()
            entry.update(form.schema, description=hints.description(key.hint))
        entry["default"] = written(key, key.default)
        if form.allowed:
            entry["description"] += f" Allowed: {form.allowed}."
        if key.pending:
            entry["description"] += f" ({NOT_IN_THIS_VERSION.capitalize()}.)"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _toml_line(setting: Setting) -> str:
    value = toml_value(written(setting.key, setting.value))
    return f"{setting.key.name} = {value}".ljust(_COMMENT_COLUMN) + f"  # {setting.comment}"
