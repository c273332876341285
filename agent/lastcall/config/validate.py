"""Checks a given value against the type that its key declares, and finds every fault in it."""

import math
from collections.abc import Mapping
from typing import Any, get_origin

from msgspec import ValidationError, convert
from msgspec.structs import FieldInfo, fields

from lastcall.config import hints
from lastcall.config.faults import Fault, nearest, quoted_name, show
from lastcall.config.keys import KEYS, default_of, is_table
from lastcall.config.provenance import Given
from lastcall.config.table import Table

_NO_VALUE = object()


def validate(given: Given) -> tuple[Any, list[Fault]]:
    """Return the value as its key's type has it, and what is wrong with it.

    The value means something only where nothing is wrong.
    """
    check = _Check(str(given.origin))
    return check.value(KEYS[given.key].hint, given.value, given.key), check.faults


class _Check:
    """One walk through one value."""

    def __init__(self, where: str) -> None:
        self.faults: list[Fault] = []
        self._where = where

    def value(self, hint: Any, value: object, path: str) -> Any:
        form = hints.form(hint)
        prepared = form.prepare(value)
        faults_before = len(self.faults)
        converted = self._by_shape(hint, prepared, path)
        if len(self.faults) == faults_before and not form.accepts(converted):
            self._refuse(hint, value, path)
        return converted

    def _by_shape(self, hint: Any, value: object, path: str) -> Any:
        shape = get_origin(hints.base(hint))
        if shape is tuple:
            return self._list(hint, value, path)
        if shape is Mapping:
            return self._map(hint, value, path)
        if is_table(hint):
            return self._table(hints.base(hint), value, path)
        return self._single(hint, value, path)

    def _single(self, hint: Any, value: object, path: str) -> Any:
        try:
            converted = convert(value, hint)
        except (ValidationError, UnicodeEncodeError):
            return self._refuse(hint, value, path)
        if isinstance(converted, float) and not math.isfinite(converted):
            return self._refuse(hint, value, path)
        if isinstance(converted, str) and not converted.isprintable():
            return self._fault(path, value, "allowed: UTF-8 text without control characters")
        return converted

    def _list(self, hint: Any, value: object, path: str) -> Any:
        if not isinstance(value, list):
            return self._refuse(hint, value, path)
        seen = set()
        once = not hints.form(hint).repeats
        for index, item in enumerate(value):
            if once and isinstance(item, str) and item in seen:
                self._fault(f"{path}[{index}]", item, "stands in the list twice")
            elif isinstance(item, str):
                seen.add(item)
        item_hint = hints.item(hint)
        return tuple(
            self.value(item_hint, item, f"{path}[{index}]") for index, item in enumerate(value)
        )

    def _map(self, hint: Any, value: object, path: str) -> Any:
        if not isinstance(value, dict):
            return self._refuse(hint, value, path)
        item_hint, names = hints.item(hint), hints.names(hint)
        for name, item in value.items():
            if not names.accepts(name):
                allowed = f"no such name; allowed: {names.allowed}"
                self._fault(f"{path}.{quoted_name(name)}", item, allowed)
        return {
            name: self.value(item_hint, item, f"{path}.{quoted_name(name)}")
            for name, item in value.items()
        }

    def _table(self, table: type[Table], value: object, path: str) -> Any:
        declared = {field.name: field for field in fields(table)}
        if not isinstance(value, dict):
            return self._fault(path, value, f"allowed: a table of {', '.join(declared)}")
        for name, item in value.items():
            if name not in declared:
                allowed = f"no such key; allowed: {', '.join(declared)}"
                near = nearest(name, declared)
                self._fault(f"{path}.{quoted_name(name)}", item, allowed, near)
        return table(
            **{
                name: self._member(field, value, f"{path}.{name}")
                for name, field in declared.items()
            }
        )

    def _member(self, field: FieldInfo, content: Mapping[str, object], path: str) -> Any:
        if field.name in content:
            return self.value(field.type, content[field.name], path)
        if field.required:
            allowed = f"must be given; allowed: {hints.allowed(field.type)}"
            self.faults.append(Fault(self._where, path, allowed))
            return _NO_VALUE
        return default_of(field)

    def _refuse(self, hint: Any, value: object, path: str) -> Any:
        words = [str(word) for word in hints.words(hint)]
        near = nearest(value, words) if isinstance(value, str) else None
        allowed = f"allowed: {hints.allowed(hint)}"
        return self._fault(path, value, allowed, show(near) if near else None)

    def _fault(self, path: str, value: object, allowed: str, near: str | None = None) -> Any:
        self.faults.append(Fault(self._where, f"{path} = {show(value)}", allowed, near))
        return _NO_VALUE
