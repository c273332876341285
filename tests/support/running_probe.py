"""The GPU probe as a process: started on the fake driver, heard line by line, steered by stdin."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.nvml import FakeDriver

DEADLINE_SECONDS = 10.0
NO_POLL_SECONDS = 600.0

Line = dict[str, Any]


class RunningProbe:
    """A probe that looks when it is asked to, and is ended when the test is over."""

    def __init__(
        self,
        fake: FakeDriver,
        *,
        pass_fds: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        """Start it.

        Args:
            fake: the driver.
            pass_fds: files that it shares.
            environment: variables beside those of the driver.
            settings: as the agent gives them; unless said otherwise it does not look by itself,
                and sees the machine's files in the driver's folder.
        """
        machine = {name: str(fake.folder / name) for name in ("sysfs", "proc", "dev")}
        given = {"poll_seconds": NO_POLL_SECONDS, **machine, **settings}
        self._errors = fake.folder / "errors"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lastcall.gpu.probe", json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env={**os.environ, **fake.environment, **(environment or {})},
                pass_fds=pass_fds,
            )
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def line(self) -> Line | None:
        """Return the next line; ``None``: there will be none any more."""
        assert self.process.stdout is not None
        end = time.monotonic() + DEADLINE_SECONDS
        while b"\n" not in self._unread:
            left = end - time.monotonic()
            if not select.select([self.process.stdout], [], [], max(left, 0))[0]:
                raise TimeoutError("the probe says nothing")
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                return None
            self._unread += chunk
        line, self._unread = self._unread.split(b"\n", 1)
        found: Line = json.loads(line)
        return found

    def until(self, wanted: Callable[[Line], bool]) -> list[Line]:
        """Return the lines up to the first that is wanted."""
        lines = []
        while (line := self.line()) is not None:
            lines.append(line)
            if wanted(line):
                return lines
        raise EOFError(f"the probe ended; it said {lines}, {self.errors()}")

    def begun(self) -> list[Line]:
        """Return all lines up to when the first round is over and the events are waited for."""
        missing = {"round", "stream"}

        def complete(line: Line) -> bool:
            missing.discard(line["type"])
            return not missing

        return self.until(complete)

    def heard(self, kind: str) -> Line:
        """Return the next line of a kind."""
        return self.until(lambda line: line["type"] == kind)[-1]

    def round(self) -> dict[int, Line]:
        """Return what the next round tells of each GPU, by its index."""
        lines = self.until(lambda line: line["type"] == "round")
        return {line["gpu"]["index"]: line for line in lines if line["type"] == "gpu"}

    def look(self) -> dict[int, Line]:
        """Ask for a round, and return what it tells of each GPU."""
        self.say("look")
        return self.round()

    def say(self, command: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n".encode())

    def hang_up(self) -> int:
        """Close its standard input, and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.ended()

    def ended(self) -> int:
        """Return its exit code, once it has ended."""
        return self.process.wait(DEADLINE_SECONDS)

    def errors(self) -> str:
        """Return what it wrote to standard error."""
        return self._errors.read_text()


def add_pci_gpus(fake: FakeDriver, gpus: int) -> None:
    """Let so many GPUs stand on the PCI bus."""
    for gpu in range(gpus):
        device = _made(fake.folder / "sysfs/bus/pci/devices" / fake.pci(gpu)[4:].lower())
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")


def load_kernel_driver(fake: FakeDriver, version: str) -> None:
    """Let the kernel have the driver's module of this version."""
    text = (
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Fri Mar 1 00:00:00 UTC 2024\n"
    )
    (_made(fake.folder / "proc/driver/nvidia") / "version").write_text(text)


def make_control_device(fake: FakeDriver) -> Path:
    """Let the driver's control device be there, and return it."""
    path = _made(fake.folder / "dev") / "nvidiactl"
    path.touch()
    return path


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
