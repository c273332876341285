"""Lines to a stream from a thread of their own: a reader who does not read never stops the loop."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TextIO

LIMIT = 10_000
"""Lines that wait for a stream that takes none."""

CLOSE_SECONDS = 1.0
"""How long the last lines may take."""


class PatientHandler(logging.Handler):
    """Writes each record to a stream without ever waiting for it.

    Past :data:`LIMIT` waiting lines new ones are dropped; their number is logged once the stream
    takes lines again.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._writing = False
        self._closing = False
        self._thread = threading.Thread(target=self._write_on, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record's line."""
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - logging's own rule: a bad record is reported, not raised
            self.handleError(record)
            return
        with self._changed:
            if len(self._lines) >= LIMIT:
                self._dropped += 1
            else:
                self._lines.append(line + "\n")
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all is written, for a bounded time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines and not self._writing, CLOSE_SECONDS)

    def close(self) -> None:
        """Write what is left, for a bounded time, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)
        super().close()

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closing)
                if not self._lines:
                    return
                text = "".join(self._lines)
                self._lines.clear()
                dropped, self._dropped = self._dropped, 0
                self._writing = True
            if dropped:
                text += self._about_dropped(dropped)
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                pass  # nobody is left to be told
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _about_dropped(self, count: int) -> str:
        record = logging.LogRecord(
            "lastcall", logging.WARNING, __file__, 0, f"log_lines_dropped: {count}", None, None
        )
        return self.format(record) + "\n"
