"""The first attempt to cordon the node for each notice, for what is to come after it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BEGIN_SECONDS = 0.25
"""How long it is waited for that a cordon is begun, where one is to come first."""

TRIED_SECONDS = 1.0
"""How long whatever is to come after the cordon waits for it."""

_KEPT = 64


class _Try:
    """One attempt."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()


class Tries:
    """Knows which attempts have begun and which are over."""

    def __init__(self) -> None:
        self._tries: dict[str, _Try] = {}

    @contextmanager
    def under_way(self, notice_id: str) -> Iterator[None]:
        """Have an attempt for a notice under way while the block runs."""
        one = self._try_for(notice_id)
        one.begun.set()
        try:
            yield
        finally:
            one.ended.set()

    async def over(self, notice_id: str) -> None:
        """Return once the first attempt for a notice is over, or none begins, or it takes long."""
        one = self._try_for(notice_id)
        over_at = asyncio.get_running_loop().time() + TRIED_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await one.begun.wait()
            async with asyncio.timeout_at(over_at):
                await one.ended.wait()

    def _try_for(self, notice_id: str) -> _Try:
        if notice_id not in self._tries:
            self._tries[notice_id] = _Try()
            while len(self._tries) > _KEPT:
                del self._tries[next(iter(self._tries))]
        return self._tries[notice_id]
