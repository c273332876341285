"""What holds for every test."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import settings

from support.needs import LONG
from support.nvml import build_library

# A shared machine is slow at times; what an example costs is no finding. Same examples each run.
settings.register_profile("lastcall", deadline=None, derandomize=True)
settings.load_profile("lastcall")


@pytest.fixture(autouse=True, scope="session")
def no_loop_without_need() -> None:
    """Keep looptime from making, for a test without a loop, a loop that nobody closes."""
    asyncio.set_event_loop(None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what would make the usual run too long."""
    if os.environ.get(LONG) == "1":
        return
    left_out = pytest.mark.skip(reason=f"only with {LONG}=1, as in CI: the usual run stays short")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(left_out)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the fake NVIDIA driver's library, once for all workers of this run."""
    folder = tmp_path_factory.getbasetemp()
    return build_library(
        (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "nvml"
    )
