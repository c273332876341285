"""The forms that a setting's text can take, and what a type alone cannot say about a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

SOCKET_PATH_BYTES = 107
"""The longest path of a Unix socket: 108 bytes with its closing NUL (unix(7), Linux man-pages)."""

_HOST_NAME = re.compile(r"(?=.{1,253}\Z)(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?)+\Z")
_LISTEN = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<plain>[^:\[\]]+)):(?P<port>[0-9]{1,5})\Z")
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z")
_GROUP = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.-]{0,31}|[0-9]{1,10})\Z")
_UNIT = re.compile(
    r"[A-Za-z0-9:_.\\@-]+\.(?:service|scope|slice|target|socket|timer|path|mount|automount|swap)\Z"
)


def _anything(_value: object) -> bool:
    return True


def _unchanged(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Form:
    """What a value must look like beyond its type.

    Attributes:
        allowed: the words for it, as they stand in an error and in the reference.
        accepts: whether a value of the right type has the form.
        prepare: turns another accepted way to write a value into the declared type.
        write: turns a value of the declared type into the way that a file has it.
        schema: the JSON Schema of what a file may hold; empty where the type's own is right.
        repeats: whether the same text may stand in the list twice.
    """

    allowed: str
    accepts: Callable[[Any], bool] = _anything
    prepare: Callable[[object], object] = _unchanged
    write: Callable[[Any], object] = _unchanged
    schema: Mapping[str, object] = field(default_factory=dict)
    repeats: bool = False


def or_empty(form: Form, meaning: str) -> Form:
    """Return the form that also takes the empty text, and say what that means."""
    return Form(
        allowed=f'{form.allowed}, or "" for {meaning}',
        accepts=lambda text: not text or form.accepts(text),
        prepare=form.prepare,
    )


def split_listen(text: str) -> tuple[str, int]:
    """Return host and port of a listen address such as ``0.0.0.0:9855`` or ``[::]:9855``.

    Raises:
        ValueError: the text is no such address.
    """
    match = _LISTEN.match(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    host = match["bracketed"] or match["plain"]
    if not _is_host(host) or (":" in host) != (match["bracketed"] is not None):
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host, int(match["port"])


def _is_host(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return _HOST_NAME.match(text) is not None and not text.replace(".", "").isdigit()
    return True


def _is_listen(text: str) -> bool:
    try:
        split_listen(text)
    except ValueError:
        return False
    return True


def _split_url(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    sound = (
        parts.scheme in ("http", "https")
        and _is_host(parts.hostname or "")
        and port != 0
        and parts.username is None
        and not parts.fragment
        and " " not in text
    )
    return parts if sound else None


def _is_url(text: str) -> bool:
    return _split_url(text) is not None


def _is_endpoint(text: str) -> bool:
    parts = _split_url(text)
    return parts is not None and not parts.query


def _without_last_slash(value: object) -> object:
    return value.rstrip("/") if isinstance(value, str) else value


def _is_absolute(text: str) -> bool:
    return text.startswith("/")


def _is_socket_path(text: str) -> bool:
    return _is_absolute(text) and not text.endswith("/") and len(text.encode()) <= SOCKET_PATH_BYTES


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None and "T" in text.upper()
    except ValueError:
        return False


def _time_as_text(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


_NAME_OF_NODE = Form(
    'letters, digits, ".", "_" and "-", at most 253 characters',
    lambda t: bool(_NODE_NAME.match(t)),
)
NODE_NAME = or_empty(_NAME_OF_NODE, "$NODE_NAME, else the host's name")
SLURM_NODE_NAME = or_empty(_NAME_OF_NODE, "what slurmd calls itself")
ABSOLUTE_PATH = Form("an absolute path; ~ and $HOME are not expanded", _is_absolute)
SOCKET_PATH = Form(
    f"an absolute path of at most {SOCKET_PATH_BYTES} bytes; ~ and $HOME are not expanded",
    _is_socket_path,
)
LISTEN = or_empty(
    Form('HOST:PORT, such as "0.0.0.0:9855" or "[::]:9855"', _is_listen), "no listener"
)
URL = Form(
    'an address such as "https://HOST:PORT/PATH", with http or https, without user or password',
    _is_url,
)
ENDPOINT = Form(
    'an address such as "http://HOST:PORT", with http or https, without user, password or query',
    _is_endpoint,
    _without_last_slash,
)
OCTAL_MODE = Form(
    'octal digits in quotes, from "0000" to "0777"', lambda t: bool(re.match(r"0?[0-7]{3}\Z", t))
)
GROUP = or_empty(
    Form("a group's name or number", lambda t: bool(_GROUP.match(t))), "no change of group"
)
UNIT = Form(
    'a systemd unit with its ending, such as "train.service"', lambda t: bool(_UNIT.match(t))
)
TIME = Form(
    'a time with its zone as in RFC 3339, such as "2030-01-31T10:00:00Z"', _is_time, _time_as_text
)
