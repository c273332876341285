"""The least that can watch: asks one address once a second, and does nothing with the answer.

``python -m benchmarks.poller URL`` is what the idle agent is compared with.
"""

from __future__ import annotations

import asyncio
import sys

import aiohttp

POLL_SECONDS = 1.0


async def poll(url: str) -> None:
    """Ask for ever."""
    async with aiohttp.ClientSession(headers={"Metadata": "true"}) as session:
        while True:
            async with session.get(url) as response:
                await response.read()
            await asyncio.sleep(POLL_SECONDS)


if __name__ == "__main__":
    asyncio.run(poll(sys.argv[1]))
