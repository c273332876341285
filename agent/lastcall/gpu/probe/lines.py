"""Writes the probe's lines: one JSON object each, whole, whichever thread it comes from."""

import json
import os
import threading


class Lines:
    """The probe's standard output. When nobody reads it any more, the probe ends.

    Args:
        fd: where the lines go.
    """

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def write(self, kind: str, fields: dict[str, object]) -> None:
        """Write one line."""
        line = json.dumps({"type": kind, **fields}, separators=(",", ":")).encode("ascii") + b"\n"
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._fd, line) :]
            except OSError:
                os._exit(0)
