"""What waits for the disk, numbered and bounded; plain data, guarded by whoever shares it."""

from __future__ import annotations

from collections import deque

LIMIT_BYTES = 4 * 1024 * 1024
"""The most that waits for a disk that does not answer."""

ROUTINE_LIMIT_BYTES = LIMIT_BYTES * 3 // 4
"""What may be waiting when a routine event is still taken."""


class Backlog:
    """Lines in the order of their events, each with a number that counts from one.

    When the limit for routine events is reached they are let go as they come; when all is taken,
    the oldest lines are.

    Attributes:
        last: the number of the latest event.
        durable: the number up to which events are on the disk, save those that were lost.
        lost: the number of the latest event that was let go; 0 while none was.
    """

    def __init__(self) -> None:
        self.last = 0
        self.durable = 0
        self.lost = 0
        self._lines: deque[tuple[int, bytes]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def put(self, line: bytes, *, routine: bool) -> int:
        """Take in an event's line; return how many events were let go over it."""
        if routine and self._bytes > ROUTINE_LIMIT_BYTES:
            return self.lose()
        self.last += 1
        self._lines.append((self.last, line))
        self._bytes += len(line)
        dropped = 0
        while self._bytes > LIMIT_BYTES:
            self.lost = self._drop()
            dropped += 1
        return dropped

    def lose(self) -> int:
        """Count an event that will not be written; return how many were let go: one."""
        self.last += 1
        self.lost = self.last
        return 1

    def batch(self, until: int) -> bytes:
        """Return the lines that wait, up to a number."""
        return b"".join(line for number, line in self._lines if number <= until)

    def confirm(self, until: int) -> None:
        """Take note that all up to a number is on the disk."""
        self.durable = until
        while self._lines and self._lines[0][0] <= until:
            self._drop()

    def _drop(self) -> int:
        number, line = self._lines.popleft()
        self._bytes -= len(line)
        return number
