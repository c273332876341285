"""Messages to lines and lines to messages: one JSON object a line, checked field by field."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, NoReturn, TypeVar

from lastcall.wire.messages import TEXT_LIMIT, Message, Notice

M = TypeVar("M", bound=Message)

_WHOLE_LIMIT = 2**63 - 1


class WireError(ValueError):
    """A line that is no message; ``code`` is the protocol's word for what is wrong."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def encode(message: Message) -> bytes:
    """Return the message as one line.

    An optional field that is ``None`` is left out; one that always stands is ``null``.
    """
    return encode_object({"type": message.type, **_plain(message)})


def encode_object(content: Mapping[str, Any]) -> bytes:
    """Return a JSON object as one line.

    Raises:
        ValueError: a number in it is NaN or infinite.
    """
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes, vocabulary: Mapping[str, type[M]]) -> M:
    """Return the message that a line holds.

    Raises:
        WireError: ``unknown_type`` where the vocabulary lacks the type, else ``bad_message``.
    """
    content = decode_object(line)
    name = content.get("type")
    if not isinstance(name, str):
        _refuse("field type must be a string")
    message = vocabulary.get(name)
    if message is None:
        raise WireError("unknown_type", f"unknown type {name[:64]!r}")
    return _build(message, content)


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object that a line holds.

    Raises:
        WireError: ``bad_message`` where it holds none.
    """
    try:
        content = json.loads(line.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        _refuse("not UTF-8")
    except RecursionError:
        _refuse("nested too deeply")
    except WireError:
        raise
    except ValueError as error:
        _refuse(f"not JSON: {error}"[:200])
    if not isinstance(content, dict):
        _refuse("not a JSON object")
    return content


def _plain(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, tuple):
            value = [_plain(item) if isinstance(item, Message) else item for item in value]
        if value is not None or field.default is MISSING:
            plain[field.name] = value
    return plain


def _build(message: type[M], content: Mapping[str, Any]) -> M:
    values: dict[str, Any] = {}
    for field in fields(message):
        value = content.get(field.name)
        annotation = str(field.type)
        if value is not None:
            values[field.name] = _CHECKS[annotation.removesuffix(" | None")](field.name, value)
        elif annotation.endswith(" | None"):
            values[field.name] = None
        elif field.default is MISSING:
            _refuse(f"{message.type}: field {field.name} is missing")
    return message(**values)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        _refuse(f"field {name} must be a string")
    if len(value) > TEXT_LIMIT:
        _refuse(f"field {name} is longer than {TEXT_LIMIT} characters")
    # A lone surrogate passes JSON but can be written nowhere; NUL ends strings in other languages.
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        _refuse(f"field {name} holds NUL or half a character")
    return value


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        _refuse(f"field {name} must be a whole number")
    if not 0 <= value <= _WHOLE_LIMIT:
        _refuse(f"field {name} is out of range")
    return int(value)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(f"field {name} must be a number")
    if not 0 <= value <= _WHOLE_LIMIT or not math.isfinite(value):
        _refuse(f"field {name} is out of range")
    return float(value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        _refuse(f"field {name} must be true or false")
    return value


def _list(name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        _refuse(f"field {name} must be a list")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    return tuple(_text(name, item) for item in _list(name, value))


def _range(name: str, value: object) -> tuple[int, int]:
    ends = _list(name, value)
    if len(ends) != 2:
        _refuse(f"field {name} must be [min, max]")
    return _whole(name, ends[0]), _whole(name, ends[1])


def _notices(name: str, value: object) -> tuple[Notice, ...]:
    items = _list(name, value)
    if not all(isinstance(item, dict) for item in items):
        _refuse(f"field {name} must hold objects")
    return tuple(_build(Notice, item) for item in items)


def _refuse(message: str) -> NoReturn:
    raise WireError("bad_message", message)


def _refuse_constant(name: str) -> NoReturn:
    _refuse(f"{name} is no number")


_CHECKS: dict[str, Callable[[str, object], Any]] = {
    "str": _text,
    "int": _whole,
    "float": _number,
    "bool": _flag,
    "tuple[str, ...]": _texts,
    "tuple[int, int]": _range,
    "tuple[Notice, ...]": _notices,
}
"""By annotation, so that a message's class says everything about its form."""
