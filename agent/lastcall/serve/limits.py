"""How much strangers may ask of the agent: messages, bytes and connections."""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import suppress

BURST_SECONDS = 4.0
"""How many seconds' worth may come at once after a pause."""

DESCRIPTORS = 65536
"""Open files that are enough for every connection and every watched process."""


class Bucket:
    """Lets so much through a second, and a burst after a pause; a big item is paid off later."""

    def __init__(self, per_second: float, now: float) -> None:
        self._per_second = per_second
        self._most = per_second * BURST_SECONDS
        self._level = self._most
        self._at = now

    def wait_seconds(self, now: float) -> float:
        """Return how long to wait before the next item; 0.0 where it may pass at once."""
        self._level = min(self._most, self._level + (now - self._at) * self._per_second)
        self._at = now
        return max(0.0, -self._level / self._per_second)

    def spend(self, amount: float) -> None:
        """Take out what an item costs."""
        self._level -= amount


class Allowance:
    """What one connection may still say."""

    def __init__(self, messages_per_second: float, bytes_per_second: float, now: float) -> None:
        self._messages = Bucket(messages_per_second, now)
        self._bytes = Bucket(bytes_per_second, now)
        self._lifted = False

    def wait_seconds(self, now: float) -> float:
        """Return how long to wait before the next line; 0.0 where it may pass at once."""
        if self._lifted:
            return 0.0
        return max(self._messages.wait_seconds(now), self._bytes.wait_seconds(now))

    def spend(self, size_bytes: int) -> None:
        """Count a line."""
        self._messages.spend(1)
        self._bytes.spend(size_bytes)

    def lift(self) -> None:
        """Let all pass from now on: there is an end to what can still come."""
        self._lifted = True


class Slots:
    """Places for connections, in all and for each user."""

    def __init__(self, most: int, most_per_user: int) -> None:
        self._most = most
        self._most_per_user = most_per_user
        self._taken: Counter[int] = Counter()

    def take(self, uid: int) -> bool:
        """Take a place for a user; return whether there was one."""
        if self._taken.total() >= self._most or self._taken[uid] >= self._most_per_user:
            return False
        self._taken[uid] += 1
        return True

    def give_back(self, uid: int) -> None:
        """Free a user's place."""
        self._taken[uid] -= 1
        if not self._taken[uid]:
            del self._taken[uid]


def raise_descriptor_limit() -> None:
    """Let the process open as many files as it needs, where the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
