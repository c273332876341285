"""When events may be written: once it is known that the node is ours, and after its cordon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

CORDON_FIRST_SECONDS = 0.25
"""How long events wait for the attempt to cordon the node, which is the first call of a notice."""

ASK_AGAIN_SECONDS = 0.25
"""How often it is asked whether the node is ours, while that is not known."""


class Gate:
    """Lets events through, has them wait, or says that they are to be dropped.

    Belongs to the running loop.

    Args:
        refusal: returns why nothing may be done in the cluster; empty where something may,
            ``None`` while that is not known.
    """

    def __init__(self, refusal: Callable[[], str | None]) -> None:
        self._refusal = refusal
        self._tried = asyncio.Event()
        self._held_until = 0.0

    @property
    def refuses(self) -> bool:
        """Whether nothing may be written, now or later."""
        return bool(self._refusal())

    @property
    def is_unknown(self) -> bool:
        """Whether it is not known if anything may be written."""
        return self._refusal() is None

    def hold(self) -> None:
        """Let nothing through until the node was tried to be cordoned, or should have been."""
        self._tried.clear()
        self._held_until = asyncio.get_running_loop().time() + CORDON_FIRST_SECONDS

    def cordon_tried(self) -> None:
        """Take note that it was."""
        self._tried.set()

    async def passed(self) -> None:
        """Return once events may be written, or are to be dropped."""
        while self.is_unknown:  # noqa: ASYNC110 — what is asked has no event
            await asyncio.sleep(ASK_AGAIN_SECONDS)
        if asyncio.get_running_loop().time() < self._held_until:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._held_until):
                    await self._tried.wait()
