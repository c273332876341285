"""Threads for calls that may block for ever: nobody waits for them, not even the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class LooseThreads(ThreadPoolExecutor):
    """A thread a call.

    Neither the loop's end nor Python's waits for a call that hangs in a dead disk or a name server
    that does not answer.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start the call at once."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="check", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the threads alone."""
