"""The journal on the disk: appended to durably, mended after a torn write, rotated, held alone.

Everything here blocks and raises :class:`OSError`; it is for the writer thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

KEPT = 8
"""Rotated files that are kept, the newest being ``journal.1.jsonl``."""


class JournalFile:
    """``journal.jsonl`` in the state directory.

    An advisory lock on the directory keeps two agents from writing one journal. Where the file
    system has no such locks the journal is kept without one.

    Attributes:
        size_bytes: the size after the latest write.
    """

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "journal.jsonl"
        self.size_bytes = 0
        self._dir = state_dir
        self._file: int | None = None
        self._lock: int | None = None
        self._was_held_by_another = False

    def read(self) -> bytes:
        """Return all that the journal holds; nothing where there is none.

        Raises:
            BlockingIOError: another agent keeps its journal here.
            OSError: it cannot be read.
        """
        try:
            self._hold()
            with open(self.path, "rb", opener=_open_regular) as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def append(self, lines: bytes) -> None:
        """Write whole lines at the end; they are on the disk when this returns.

        What a failed write left behind is taken back where the disk allows, so that the lines can
        be given again. Without lines it makes sure that the file is open.

        Raises:
            OSError: they are not on the disk.
        """
        file = self._opened()
        start_bytes = os.fstat(file).st_size
        self.size_bytes = start_bytes
        if not lines:
            return
        try:
            self._write_all(file, lines)
            self._sync(file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, start_bytes)
            self._close_file()
            raise
        self.size_bytes = start_bytes + len(lines)

    def rotate(self, first_line: bytes = b"") -> None:
        """Begin a new file and keep the old one; a crash at any moment leaves one or the other.

        Raises:
            OSError: there is no new file; the old one goes on.
        """
        self._close_file()
        new = self._dir / "journal.new"
        try:
            file = _open_regular(str(new), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                self._write_all(file, first_line)
                self._sync(file)
            finally:
                os.close(file)
            self._keep_old()
            new.replace(self.path)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        self._sync_directory()
        self.size_bytes = len(first_line)

    def _keep_old(self) -> None:
        for number in range(KEPT - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._kept(number).replace(self._kept(number + 1))
        try:
            # A second name, so that there is no moment without a journal.
            self._kept(1).hardlink_to(self.path)
        except FileNotFoundError:
            pass
        except OSError:  # a file system without hard links
            self.path.replace(self._kept(1))

    def close(self) -> None:
        """Let go of the file and of the lock."""
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _opened(self) -> int:
        if self._file is not None:
            if self._still_there(self._file):
                return self._file
            self.close()
        self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._hold()
        if self._was_held_by_another:
            # What stands there is another agent's story, not the beginning of ours.
            self.rotate()
            self._was_held_by_another = False
        file = _open_regular(str(self.path), os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            self._end_last_line(file)
            self._sync_directory()
        except OSError:
            os.close(file)
            raise
        self._file = file
        return file

    def _still_there(self, file: int) -> bool:
        """Whether the open file is the one that a restart would find."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(file))
        except FileNotFoundError:
            return False

    def _hold(self) -> None:
        if self._lock is not None:
            return
        lock = os.open(self._dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            self._was_held_by_another = True
            raise BlockingIOError(
                errno.EWOULDBLOCK, "another agent keeps its journal here"
            ) from None
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                os.close(lock)
                raise
        self._lock = lock

    def _end_last_line(self, file: int) -> None:
        """Begin a new line where the last one was torn."""
        size_bytes = os.fstat(file).st_size
        if size_bytes and os.pread(file, 1, size_bytes - 1) != b"\n":
            self._write_all(file, b"\n")

    def _write_all(self, file: int, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[self._write(file, left) :]

    def _write(self, file: int, content: memoryview) -> int:
        return os.write(file, content)

    def _sync(self, file: int) -> None:
        os.fdatasync(file)

    def _sync_directory(self) -> None:
        directory = os.open(self._dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system whose directories cannot be synced
                raise
        finally:
            os.close(directory)

    def _kept(self, number: int) -> Path:
        return self._dir / f"journal.{number}.jsonl"

    def _close_file(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None


def _open_regular(path: str, flags: int) -> int:
    """Open a file, and nothing that might block for ever, such as a pipe."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file
