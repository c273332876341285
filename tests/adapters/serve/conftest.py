"""The socket in a directory of its own, ready to be connected to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.agent_socket import Door, short_directory


@pytest.fixture(autouse=True, scope="session")
def no_loop_without_need() -> None:
    """Keep looptime from making, for a test without a loop, a loop that nobody closes."""
    asyncio.set_event_loop(None)


@pytest.fixture
def directory() -> Iterator[Path]:
    with short_directory() as path:
        yield Path(path)


@pytest.fixture
async def door(directory: Path) -> AsyncIterator[Door]:
    async with Door(directory) as door:
        yield door
