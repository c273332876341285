"""A call that may hang for ever, made beside the loop: nobody waits for it, not even the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class OffLoop(Generic[T]):
    """Makes one call at a time, each on a thread of its own that ends with the process.

    Args:
        call: returns its outcome, trouble included, and raises nothing.
        name: the name of its threads.
    """

    def __init__(self, call: Callable[[], T], name: str) -> None:
        self._call = call
        self._name = name
        self._open: asyncio.Future[T] | None = None

    async def result(self, timeout_seconds: float) -> T:
        """Return what a call says that was begun after this was asked.

        Raises:
            TimeoutError: it hangs, or an earlier one still does.
        """
        async with asyncio.timeout(timeout_seconds):
            if self._open is not None:
                await asyncio.wait({self._open})
            future = self._open = self._begin()
            await asyncio.wait({future})
        self._open = None
        return future.result()

    def _begin(self) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            outcome = self._call()
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(future.set_result, outcome)

        threading.Thread(target=work, name=self._name, daemon=True).start()
        return future
