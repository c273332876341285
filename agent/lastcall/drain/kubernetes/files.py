"""Files that somebody else replaces while we use them: tokens, certificates and their keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class KubeConfigError(Exception):
    """The way to the API server is not configured in a form that can be used; one line says why."""


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or keys, in a file or at hand.

    Attributes:
        path: the file, where it is one.
        data: the content, where it stands in the configuration itself.
    """

    path: Path | None = None
    data: bytes = b""

    def read(self) -> bytes:
        """Return the content as it is now.

        Raises:
            OSError: the file cannot be read.
        """
        return self.data if self.path is None else self.path.read_bytes()

    def mark(self) -> object:
        """Return what changes when the content does; see :func:`file_mark`."""
        return self.data if self.path is None else file_mark(self.path)


def file_mark(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is replaced or rewritten; ``None`` where it cannot be seen.

    A mounted secret is replaced by swapping a symbolic link, so the file is looked up anew.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def why(error: OSError) -> str:
    """Return the system's word for an error."""
    return error.strerror or type(error).__name__
