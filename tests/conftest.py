"""What holds for every test."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture(autouse=True, scope="session")
def no_loop_without_need() -> None:
    """Keep looptime from making, for a test without a loop, a loop that nobody closes."""
    asyncio.set_event_loop(None)
