"""The probe's settings: what the agent leaves out, and what it must not say."""

from pathlib import Path

import pytest

from lastcall.gpu.probe import settings
from lastcall.gpu.probe.settings import Settings


def test_what_is_left_out_is_as_usual() -> None:
    assert settings.read("{}") == Settings(
        poll_seconds=5.0,
        skip=(),
        trail_fd=None,
        once=False,
        sysfs=Path("/sys"),
        proc=Path("/proc"),
        dev=Path("/dev"),
    )


def test_what_is_given_holds() -> None:
    given = (
        '{"poll_seconds": 2, "skip": ["index:3"], "trail_fd": 7, "once": true, '
        '"sysfs": "/a", "proc": "/b", "dev": "/c"}'
    )

    assert settings.read(given) == Settings(
        poll_seconds=2.0,
        skip=("index:3",),
        trail_fd=7,
        once=True,
        sysfs=Path("/a"),
        proc=Path("/b"),
        dev=Path("/c"),
    )


def test_what_the_agent_writes_is_read_as_it_was_meant() -> None:
    meant = Settings(
        poll_seconds=0.5,
        skip=("00000000:1B:00.0", settings.by_index(3)),
        trail_fd=7,
        once=True,
        sysfs=Path("/a"),
        proc=Path("/b"),
        dev=Path("/c"),
    )

    assert settings.read(settings.write(meant)) == meant


@pytest.mark.parametrize(
    "argument",
    ["", "[]", "{", '{"polls": 5}', '{"poll_seconds": "often"}', '{"skip": 3}', '{"sysfs": 1}'],
)
def test_anything_else_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        settings.read(argument)
