"""What every simulated service shares: its clock, its faults, its notices, its log of requests."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from typing import ClassVar

from aiohttp import web

from lastcall.simulate.faults import GENERAL, FaultKind, Faults

_RECENT_LIMIT = 10_000


@dataclass(slots=True)
class Reply:
    """An answer before it is put on the line."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Raised:
    """A notice that the service now shows.

    Attributes:
        kind: as it was asked for.
        shown: how the service shows it, in its own words.
        deadline_unix: when it says that the end comes, by the host's clock; ``None`` where it
            names no time.
    """

    kind: str
    shown: str
    deadline_unix: float | None


@dataclass(slots=True)
class Seen:
    """One request as it came in.

    Attributes:
        method: the verb.
        path: without the query.
        query: what follows the question mark.
        headers: as they were sent, repeated ones repeated.
        status: that of the answer; ``None`` while there is none, and for ever if none was sent.
        abandoned: the connection ended before the answer.
    """

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    status: int | None = None
    abandoned: bool = False

    def header(self, name: str) -> list[str]:
        """Return every value of a header, in the order sent."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


class RequestLog:
    """The requests that a service has seen: the latest whole, all of them counted.

    Attributes:
        recent: the latest 10,000, oldest first.
        open: how many wait for their answer now.
        peak_open: how many waited at the same time at most.
    """

    def __init__(self) -> None:
        self.recent: deque[Seen] = deque(maxlen=_RECENT_LIMIT)
        self.open = 0
        self.peak_open = 0
        self._totals: Counter[tuple[str, str, int | None]] = Counter()

    def arrive(self, seen: Seen) -> None:
        """Note a request that came in."""
        self.recent.append(seen)
        self.open += 1
        self.peak_open = max(self.peak_open, self.open)

    def leave(self, seen: Seen) -> None:
        """Note that a request was answered or given up."""
        self.open -= 1
        self._totals[seen.method, seen.path, seen.status] += 1

    def count(
        self, *, method: str | None = None, path: str = "/", status: int | None = None
    ) -> int:
        """Return how many finished requests had this verb, this begin of a path, this status."""
        return sum(
            number
            for (its_method, its_path, its_status), number in self._totals.items()
            if method in {None, its_method}
            and its_path.startswith(path)
            and status in {None, its_status}
        )


class Metadata(ABC):
    """The state of one provider's metadata service, and its answers.

    Args:
        clock: gives Unix seconds.

    Attributes:
        faults: what is wrong with the service.
        log: what it was asked.
        overrides: answers that replace its own, by path; they are given only to a request that
            would have been let through.
        clock_skew_seconds: the service's clock minus the host's. It shifts the ``Date`` header and
            every time that the service names.
    """

    provider: ClassVar[str]
    default_port: ClassVar[int]
    default_lead_seconds: ClassVar[float]
    kinds: ClassVar[Mapping[str, str]]
    """The notices that the provider has, and what each is: lastcall's kinds, then its own words."""
    own_faults: ClassVar[Mapping[str, FaultKind]] = {}
    """What can be wrong with this provider's service alone."""
    closes_connections: ClassVar[bool] = False
    """Whether each answer ends its connection."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.faults = Faults(dict(GENERAL) | dict(self.own_faults))
        self.log = RequestLog()
        self.overrides: dict[str, Reply] = {}
        self.clock_skew_seconds = 0.0
        self._clock = clock

    def now(self) -> float:
        """Return Unix seconds by the service's own clock."""
        return self._clock() + self.clock_skew_seconds

    def override(self, path: str, body: bytes | str, status: int = 200) -> None:
        """Have a path answered with this body from now on."""
        content = body.encode() if isinstance(body, str) else body
        self.overrides[path] = Reply(status, content)

    @classmethod
    def check_kind(cls, kind: str) -> None:
        """Refuse a kind of notice that the provider lacks.

        Raises:
            ValueError: it lacks it; the message names those it has.
        """
        if kind not in cls.kinds:
            raise ValueError(f"{cls.provider} has no kind {kind!r}; it has {', '.join(cls.kinds)}")

    def raise_notice(self, kind: str = "preemption", lead_seconds: float | None = None) -> Raised:
        """Show a notice from now on.

        Args:
            kind: one of :attr:`kinds`.
            lead_seconds: how long before the end; the provider's usual lead where left out.

        Raises:
            ValueError: the provider lacks the kind.
        """
        self.check_kind(kind)
        shown, deadline = self._show(
            kind, self.default_lead_seconds if lead_seconds is None else lead_seconds
        )
        deadline_unix = None if deadline is None else deadline - self.clock_skew_seconds
        return Raised(kind, shown, deadline_unix)

    @abstractmethod
    def _show(self, kind: str, lead_seconds: float) -> tuple[str, float | None]:
        """Show the notice; return what is shown, and the end by the service's own clock."""

    @abstractmethod
    def withdraw(self) -> None:
        """Take all notices back, the way the provider does."""

    @abstractmethod
    async def answer(self, request: web.BaseRequest) -> Reply:
        """Return the service's own answer to a request."""

    @abstractmethod
    def usual_headers(self) -> dict[str, str]:
        """Return the headers that stand on every answer of the provider."""

    def reply_headers(self, reply: Reply) -> dict[str, str]:
        """Return all headers of an answer."""
        headers = {"Date": formatdate(self.now(), usegmt=True), "Content-Type": reply.content_type}
        return headers | self.usual_headers() | reply.headers


def iso(unix: float) -> str:
    """Return a time as RFC 3339 text in whole seconds, such as ``2031-05-04T10:22:00Z``."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def listing(paths: Iterable[str], directory: str) -> list[str]:
    """Return what is in a directory of a flat table of paths, sorted; directories end in ``/``.

    Args:
        paths: the table's keys, such as ``spot/instance-action``.
        directory: empty for the root, else ending in ``/``.
    """
    below = (path[len(directory) :] for path in paths if path.startswith(directory))
    return sorted({name + slash for name, slash, _ in (path.partition("/") for path in below)})
