"""What holds for every test."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings

# A shared machine is slow at times; what an example costs is no finding. Same examples each run.
settings.register_profile("lastcall", deadline=None, derandomize=True)
settings.load_profile("lastcall")


@pytest.fixture(autouse=True, scope="session")
def no_loop_without_need() -> None:
    """Keep looptime from making, for a test without a loop, a loop that nobody closes."""
    asyncio.set_event_loop(None)
