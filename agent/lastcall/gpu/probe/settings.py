"""What the agent tells the probe at its start: one JSON object, its only argument."""

import json
from pathlib import Path
from typing import NamedTuple


class Settings(NamedTuple):
    """How the probe works.

    Attributes:
        poll_seconds: time between rounds.
        skip: GPUs that are never touched: PCI addresses, or ``index:3``.
        trail_fd: the trail's file, which the parent passed; ``None``: there is none.
        once: one round, and the probe is done.
        sysfs: where sysfs is mounted.
        proc: where procfs is mounted.
        dev: where the device files are.
    """

    poll_seconds: float = 5.0
    skip: tuple[str, ...] = ()
    trail_fd: int | None = None
    once: bool = False
    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")


def by_index(index: int) -> str:
    """Return how :attr:`Settings.skip` names a GPU whose PCI address is not known."""
    return f"index:{index}"


def write(settings: Settings) -> str:
    """Return the argument that :func:`read` takes."""
    return json.dumps(settings._asdict(), default=str)


def read(argument: str) -> Settings:
    """Read the settings; what is left out has its default.

    Raises:
        ValueError: they are not as they should be; its text says what.
    """
    given = json.loads(argument)
    if not isinstance(given, dict) or not set(given) <= set(Settings._fields):
        raise ValueError(f"the settings are an object of {', '.join(Settings._fields)}")
    settings = Settings(**given)
    try:
        return settings._replace(
            poll_seconds=float(settings.poll_seconds),
            skip=tuple(map(str, settings.skip)),
            trail_fd=None if settings.trail_fd is None else int(settings.trail_fd),
            once=bool(settings.once),
            sysfs=Path(settings.sysfs),
            proc=Path(settings.proc),
            dev=Path(settings.dev),
        )
    except TypeError as error:
        raise ValueError(f"a setting has the wrong type: {error}") from error
