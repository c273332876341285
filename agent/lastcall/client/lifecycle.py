"""What happens to open guards when the process forks or ends.

A forked child has no reader thread, only copies of its descriptors and locks. It must close the
descriptors at once, or the agent sees no end of the connection for as long as the child lives.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Hashable

DESCRIPTORS = threading.Lock()
"""Held while a descriptor is made or closed, so that no fork falls between the call and its note.

Nothing that can wait happens under it.
"""

_in_child: dict[Hashable, Callable[[], None]] = {}
_at_exit: dict[Hashable, Callable[[], None]] = {}


def watch(guard: Hashable, *, in_child: Callable[[], None], at_exit: Callable[[], None]) -> None:
    """Have a guard told of forks and of the end of the process."""
    _in_child[guard] = in_child
    _at_exit[guard] = at_exit


def forget(guard: Hashable) -> None:
    """Tell a guard of nothing more."""
    _in_child.pop(guard, None)
    _at_exit.pop(guard, None)


def _after_fork_in_child() -> None:
    DESCRIPTORS.release()
    callbacks = list(_in_child.values())
    _in_child.clear()
    _at_exit.clear()
    for callback in callbacks:
        callback()


def _say_bye() -> None:
    for callback in list(_at_exit.values()):
        callback()


os.register_at_fork(
    before=DESCRIPTORS.acquire,
    after_in_parent=DESCRIPTORS.release,
    after_in_child=_after_fork_in_child,
)
atexit.register(_say_bye)
