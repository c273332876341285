"""What callers hand over, made fit for the wire; nothing raises, the unfit is left out."""

from __future__ import annotations

import math
import os
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any

from lastcall.wire.codec import encode
from lastcall.wire.messages import CLIENT_LINE_LIMIT, TEXT_LIMIT, Message

_WHOLE_LIMIT = 2**63 - 1


def text(value: object, limit: int = TEXT_LIMIT) -> str:
    """Return a value as text that any receiver can write down, cut to ``limit`` characters."""
    try:
        words = os.fsdecode(value) if isinstance(value, bytes | os.PathLike) else str(value)
    except Exception:  # noqa: BLE001 - a caller's own class may raise anything when shown as text
        words = f"<{type(value).__name__}>"
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if letter == "\0" or "\ud800" <= letter <= "\udfff" else letter
        for letter in words[:limit]
    )


def text_or_none(value: object, limit: int = TEXT_LIMIT) -> str | None:
    """Return a value as :func:`text` does, and ``None`` as it is."""
    return None if value is None else text(value, limit)


def place(value: object) -> str:
    """Return where a checkpoint is, so that it means the same to whoever works in another folder.

    What has a scheme, such as ``s3://``, stays as it is.
    """
    words = text(value)
    if not words or "://" in words:
        return words
    try:
        return text(os.path.abspath(words))
    except OSError:
        # The folder that this process works in is gone.
        return words


def place_or_none(value: object) -> str | None:
    """Return a value as :func:`place` does, and ``None`` as it is."""
    return None if value is None else place(value)


def describe(error: BaseException) -> str:
    """Return an exception's type and text."""
    words = text(error)
    return text(f"{type(error).__name__}: {words}" if words else type(error).__name__)


def whole(value: object) -> int | None:
    """Return a count such as a step or a size, or ``None`` where the value is none.

    Tensors are none: turning one into a number can wait for the device.
    """
    number = int(value) if isinstance(value, Integral) else seconds(value)
    return int(number) if number is not None and 0 <= number <= _WHOLE_LIMIT else None


def seconds(value: object) -> float | None:
    """Return a finite number that is not negative, or ``None`` where the value is none."""
    if not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def line(message: Message) -> bytes:
    """Return a message as one line within the client's limit, its longest content cut until it is.

    Lists lose their oldest item first, texts their end.
    """
    encoded = encode(message)
    while len(encoded) > CLIENT_LINE_LIMIT:
        shorter = _shorter(message)
        if shorter == message:
            break
        message = shorter
        encoded = encode(message)
    return encoded


def _shorter(message: Message) -> Message:
    content: dict[str, Any] = {
        field.name: getattr(message, field.name) for field in fields(message)
    }
    for name, value in content.items():
        if isinstance(value, tuple) and value and isinstance(value[0], str):
            return replace(message, **{name: value[1:]})
    texts = {name: value for name, value in content.items() if isinstance(value, str)}
    longest = max(texts, key=lambda name: len(texts[name]), default=None)
    if longest is None:
        return message
    return replace(message, **{longest: texts[longest][: len(texts[longest]) // 2]})
