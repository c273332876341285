"""Whether the agent may touch the node's pods at all: its credentials may be another node's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Refusal = Callable[[], str | None]
"""Returns why nothing may be touched; empty where it may, ``None`` while that is not known."""

LOOK_SECONDS = 0.05
"""How often it is asked, while it is not known."""


async def known(refusal: Refusal, seconds: float) -> None:
    """Return once it is known whether the pods may be touched, or after so many seconds."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while refusal() is None and (left_seconds := until - loop.time()) > 0:  # noqa: ASYNC110 - who knows has no event
        await asyncio.sleep(min(LOOK_SECONDS, left_seconds))
