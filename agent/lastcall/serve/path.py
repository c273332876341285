"""The place of the socket in the file system: claimed by one agent at a time, never with a gap."""

from __future__ import annotations

import fcntl
import grp
import os
import socket
import stat
from contextlib import suppress

from lastcall.config.forms import SOCKET_PATH_BYTES

DIRECTORY_MODE = 0o755
LOCK_MODE = 0o600


class SocketError(Exception):
    """The socket cannot be had; the text is one clear line."""


class SocketPath:
    """A path with a listening socket on it.

    A lock beside it keeps a second agent out; the kernel frees it when its holder dies, so that a
    socket left behind by a killed agent is simply replaced. All steps stay in the directory that
    was opened first.
    """

    def __init__(self, path: str, mode: int, group: str) -> None:
        self._path = path
        self._mode = mode
        self._group = group
        self._directory, self._name = os.path.split(os.path.abspath(path))
        self._directory_fd: int | None = None
        self._lock_fd: int | None = None
        self._inode: tuple[int, int] | None = None

    def listen(self, backlog: int) -> socket.socket:
        """Return a listening socket that stands at the path.

        Raises:
            SocketError: it cannot be had.
        """
        if len(os.fsencode(self._path)) > SOCKET_PATH_BYTES:
            raise SocketError(f"socket path {self._path} is longer than {SOCKET_PATH_BYTES} bytes")
        try:
            gid = _group_id(self._group)
            self._directory_fd = self._open_directory()
            self._lock(self._directory_fd)
            # A socket that stands there is replaced in one step: clients never find a gap.
            new = f".{self._name}.new" if self._is_taken(self._directory_fd) else self._name
            return self._bind(self._directory_fd, new, gid, backlog)
        except SocketError:
            self.release()
            raise
        except OSError as error:
            self.release()
            raise SocketError(f"cannot listen on {self._path}: {error.strerror}") from error

    def withdraw(self) -> None:
        """Remove the socket's file, if it is still ours."""
        if self._directory_fd is None or self._inode is None:
            return
        with suppress(OSError):
            if _inode(self._name, self._directory_fd) == self._inode:
                os.unlink(self._name, dir_fd=self._directory_fd)
        self._inode = None

    def release(self) -> None:
        """Let another agent have the place."""
        self.withdraw()
        for descriptor in (self._lock_fd, self._directory_fd):
            if descriptor is not None:
                os.close(descriptor)
        self._lock_fd = self._directory_fd = None

    def _open_directory(self) -> int:
        try:
            return _open_directory(self._directory)
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            raise SocketError(f"cannot listen on {self._path}: its directory is none") from None
        try:
            os.mkdir(self._directory)
        except FileNotFoundError:
            raise SocketError(
                f"cannot listen on {self._path}: directory {self._directory} does not exist"
            ) from None
        except OSError as error:
            raise SocketError(
                f"cannot make directory {self._directory} for the socket: {error.strerror}"
            ) from error
        # Its mode must not depend on the umask: other users' processes go through it.
        os.chmod(self._directory, DIRECTORY_MODE)
        return _open_directory(self._directory)

    def _lock(self, directory_fd: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            lock_fd = os.open(f"{self._name}.lock", flags, LOCK_MODE, dir_fd=directory_fd)
        except OSError as error:
            raise SocketError(f"cannot open {self._path}.lock: {error.strerror}") from error
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock_fd, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(lock_fd)
            raise SocketError(f"another agent (process {holder}) listens on {self._path}") from None
        except OSError as error:
            os.close(lock_fd)
            raise SocketError(f"cannot lock {self._path}.lock: {error.strerror}") from error
        self._lock_fd = lock_fd
        os.fchmod(lock_fd, LOCK_MODE)
        # Who holds it is only a help for people: a full disk must not keep the agent out.
        with suppress(OSError):
            os.ftruncate(lock_fd, 0)
            os.pwrite(lock_fd, f"{os.getpid()}\n".encode(), 0)

    def _is_taken(self, directory_fd: int) -> bool:
        """Return whether a socket stands there; nothing else is ever replaced."""
        try:
            there = os.stat(self._name, dir_fd=directory_fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(there.st_mode):
            raise SocketError(
                f"{self._path} is a directory; mount the directory that holds the socket, "
                "never the socket itself"
            )
        if not stat.S_ISSOCK(there.st_mode):
            raise SocketError(f"{self._path} is there already and is no socket")
        return True

    def _bind(self, directory_fd: int, new: str, gid: int | None, backlog: int) -> socket.socket:
        if new != self._name:
            with suppress(FileNotFoundError):
                os.unlink(new, dir_fd=directory_fd)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            listener.bind(self._address(directory_fd, new))
            self._inode = _inode(new, directory_fd)
            if gid is not None:
                os.chown(new, -1, gid, dir_fd=directory_fd, follow_symlinks=False)
            os.chmod(new, self._mode, dir_fd=directory_fd)
            listener.listen(backlog)
            os.rename(new, self._name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
        except OSError:
            listener.close()
            raise
        return listener

    def _address(self, directory_fd: int, name: str) -> str:
        """Return a name's address, which is shown to whoever lists the system's sockets."""
        path = os.path.join(self._directory, name)
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
            return path
        return f"/proc/self/fd/{directory_fd}/{name}"


def _open_directory(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _inode(name: str, directory_fd: int) -> tuple[int, int]:
    there = os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
    return there.st_dev, there.st_ino


def _group_id(group: str) -> int | None:
    if not group:
        return None
    if group.isdigit():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise SocketError(f"there is no group {group!r} to hand the socket to") from None
