"""A folder whose file system can be frozen: what writes there then is in uninterruptible sleep."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.needs import leave_out, need_program, need_root

THAW_SECONDS = 20
"""After so long it is thawed in any case, whatever becomes of the test."""


class FrozenFolder:
    """A folder that is frozen until :meth:`thaw`.

    Args:
        path: where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def thaw(self) -> None:
        """Let those that wait go on; harmless where it is thawed already."""
        subprocess.run(("fsfreeze", "--unfreeze", str(self.path)), check=False, capture_output=True)


@contextmanager
def frozen_folder(place: Path) -> Iterator[FrozenFolder]:
    """Make a file system in a file, and freeze it; leave the test out where that cannot be.

    Args:
        place: a folder for the file and for where it is mounted.
    """
    need_root()
    need_program("mkfs.ext4", "e2fsprogs")
    need_program("fsfreeze", "util-linux")
    image, path = place / "frozen.img", place / "frozen"
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    if not _goes_well("mkfs.ext4", "-q", "-F", str(image)) or not _goes_well(
        "mount", "-o", "loop", str(image), str(path)
    ):
        leave_out("needs loop devices and the right to mount (CAP_SYS_ADMIN)")
    folder = FrozenFolder(path)
    # First: nothing that goes wrong from here on may leave a process that cannot be ended.
    rescue = subprocess.Popen(
        ("sh", "-c", f'sleep {THAW_SECONDS}; fsfreeze --unfreeze "$0"', str(path)),
        start_new_session=True,
    )
    try:
        if not _goes_well("fsfreeze", "--freeze", str(path)):
            leave_out("needs a file system that can be frozen")
        yield folder
    finally:
        folder.thaw()
        rescue.kill()
        rescue.wait()
        # Lazily: what was held may still be about to end.
        subprocess.run(("umount", "--lazy", str(path)), check=True)


def _goes_well(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
