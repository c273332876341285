"""What is said over the bus, as plain data; none of it is of the D-Bus library."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Trouble(StrEnum):
    """Why a call came to nothing.

    Attributes:
        NO_BUS: there is no connection to the bus, or it was lost before the answer.
        NO_SERVICE: nobody offers what was asked for.
        TIMEOUT: no answer came in time; whether it was done is unknown.
        DENIED: we may not.
        REFUSED: the service said no; the error's name tells more.
        MALFORMED: the answer was none of the kind that belongs to the question.
    """

    NO_BUS = "no_bus"
    NO_SERVICE = "no_service"
    TIMEOUT = "timeout"
    DENIED = "denied"
    REFUSED = "refused"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a method: who is asked what.

    Attributes:
        signature: the types of the body, in D-Bus's letters.
    """

    destination: str
    path: str
    interface: str
    member: str
    signature: str = ""
    body: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call.

    Attributes:
        body: the values that were returned; variants are their plain values.
        descriptors: file descriptors that came along. Whoever gets the answer must close them.
        trouble: why nothing was returned; ``None`` where it went well.
        error: the D-Bus name of the error, where the other side gave one.
        detail: the trouble in words.
    """

    body: tuple[Any, ...] = ()
    descriptors: tuple[int, ...] = ()
    trouble: Trouble | None = None
    error: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """Something that was said to all who listen.

    Attributes:
        sender: the unique name of the connection that said it; the bus vouches for it.
        body: its values; variants are their plain values.
    """

    sender: str
    path: str
    interface: str
    member: str
    body: tuple[Any, ...] = ()


class BusError(Exception):
    """The bus cannot be had; the text is one clear line."""

    def __init__(self, detail: str, trouble: Trouble = Trouble.NO_BUS) -> None:
        super().__init__(detail)
        self.trouble = trouble


def get_all(destination: str, path: str, interface: str) -> Call:
    """Return the call that reads all properties of an object's interface."""
    properties = "org.freedesktop.DBus.Properties"
    return Call(destination, path, properties, "GetAll", "s", (interface,))


def get(destination: str, path: str, interface: str, name: str) -> Call:
    """Return the call that reads one property of an object's interface."""
    properties = "org.freedesktop.DBus.Properties"
    return Call(destination, path, properties, "Get", "ss", (interface, name))
