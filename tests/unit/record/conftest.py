"""Golden files, and how they are renewed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden"

CheckGolden = Callable[[str, str], None]


@pytest.fixture
def check_golden() -> CheckGolden:
    """Compare a text with a golden file; ``LASTCALL_RENEW_GOLDEN=1`` writes the file instead."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("LASTCALL_RENEW_GOLDEN"):
            path.write_text(text)
        assert text == path.read_text(), f"differs from {path}; see {__file__}"

    return check
