"""What can be wrong with a metadata service: faults that are switched on and off while it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One way of going wrong.

    ``argument`` names what may follow the kind on the command line; ``default`` is its value where
    nothing does, and its type is the argument's. A kind without an argument has no default.
    """

    summary: str
    argument: str = ""
    default: float | str | None = None


GENERAL: Mapping[str, FaultKind] = {
    "slow": FaultKind("answers S seconds late", "S", 2.0),
    "hang": FaultKind("accepts the request and never answers"),
    "reset": FaultKind("resets the connection"),
    "down": FaultKind("refuses connections for S seconds, from now on", "S", 10.0),
    "status": FaultKind("answers with this status; the number alone will do", "CODE", 503.0),
    "throttle": FaultKind("answers 429 with Retry-After: S", "S", 1.0),
    "redirect": FaultKind("answers 302 to another place", "URL", "http://metadata.invalid/"),
    "redirect-loop": FaultKind("answers 302 to the same place"),
    "garbled": FaultKind("answers 200 with bytes that mean nothing"),
    "empty": FaultKind("answers 200 with an empty body"),
    "huge": FaultKind("answers 200 with a body of N bytes", "N", 10_000_000.0),
    "truncated": FaultKind("breaks off in the middle of the body"),
    "cut": FaultKind("sends the first half of the body as if it were all"),
}
"""The faults that every provider's service can have."""


@dataclass(eq=False, slots=True)
class Fault:
    """A fault that is switched on.

    Attributes:
        kind: its name.
        argument: a number or a text, as its kind wants.
        requests: how many more requests it spoils; ``None`` for all until it is switched off.
        path: it spoils requests whose path begins so.
    """

    kind: str
    argument: float | str | None
    requests: int | None = None
    path: str = "/"

    @property
    def number(self) -> float:
        """The argument of a kind that takes a number."""
        return self.argument if isinstance(self.argument, float) else 0.0

    @property
    def text(self) -> str:
        """The argument of a kind that takes a text."""
        return self.argument if isinstance(self.argument, str) else ""


class Faults:
    """The faults of one service; any number may be switched on at once.

    Args:
        kinds: those that the service can have, by name.
    """

    def __init__(self, kinds: Mapping[str, FaultKind]) -> None:
        self.kinds = kinds
        self._active: list[Fault] = []
        self._listeners: list[Callable[[], None]] = []

    def add(
        self,
        kind: str,
        argument: float | str | None = None,
        *,
        requests: int | None = None,
        path: str = "/",
    ) -> Fault:
        """Switch a fault on.

        Args:
            kind: its name.
            argument: what its kind wants; its default where left out.
            requests: only for so many requests; ``None`` until it is switched off.
            path: only for requests whose path begins so.

        Raises:
            ValueError: the service has no such fault, or the argument does not fit it.
        """
        fault = Fault(kind, self._argument(kind, argument), requests, path)
        self._active.append(fault)
        self._tell()
        return fault

    def add_text(self, text: str) -> Fault:
        """Switch on a fault written as ``KIND`` or ``KIND:ARGUMENT``; ``503`` is ``status:503``.

        Raises:
            ValueError: as for :meth:`add`.
        """
        kind, colon, argument = text.partition(":")
        if kind.isdecimal() and not colon:
            kind, colon, argument = "status", ":", kind
        return self.add(kind, argument if colon else None)

    def clear(self, kind: str | None = None) -> None:
        """Switch off all faults, or all of one kind."""
        self._active = [] if kind is None else [one for one in self._active if one.kind != kind]
        self._tell()

    def remove(self, fault: Fault) -> None:
        """Switch one fault off; nothing happens where it is off already."""
        if fault in self._active:
            self._active.remove(fault)
            self._tell()

    def find(self, kind: str, path: str = "/") -> Fault | None:
        """Return the fault of this kind that is on for a path, without using it up."""
        for fault in self._active:
            if fault.kind == kind and path.startswith(fault.path):
                return fault
        return None

    def take(self, kind: str, path: str) -> Fault | None:
        """Return the fault of this kind that spoils a request for a path, and count the request."""
        fault = self.find(kind, path)
        if fault is not None and fault.requests is not None:
            fault.requests -= 1
            if fault.requests <= 0:
                self.remove(fault)
        return fault

    def listen(self, listener: Callable[[], None]) -> None:
        """Have a function called whenever a fault goes on or off."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Have it called no more."""
        self._listeners.remove(listener)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def _argument(self, name: str, given: float | str | None) -> float | str | None:
        kind = self.kinds.get(name)
        if kind is None:
            raise ValueError(f"no fault {name!r}; there are {', '.join(self.kinds)}")
        if given is None:
            return kind.default
        if kind.default is None:
            raise ValueError(f"fault {name} takes no argument, but was given {given!r}")
        if isinstance(kind.default, str):
            return str(given)
        try:
            number = float(given)
        except ValueError:
            number = math.nan
        endless = math.isinf(number) and name != "down"
        if endless or not number >= 0:
            raise ValueError(f"fault {name}:{kind.argument} needs a number, not {given!r}")
        if name == "status" and not 400 <= number <= 599:
            raise ValueError(f"fault {name} needs a code from 400 to 599, not {given!r}")
        return number
