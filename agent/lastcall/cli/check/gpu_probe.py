"""One look at the GPUs by the agent's own probe: a process that is left behind where it hangs."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field

from lastcall.core.gpu.model import Look, NodeLook
from lastcall.gpu import trail
from lastcall.gpu.child import PROGRAM
from lastcall.gpu.lines import Failed, Hello, RoundOver, decode
from lastcall.gpu.probe import settings as probe_settings
from lastcall.gpu.probe.settings import Settings
from lastcall.gpu.trail import Step

END_SECONDS = 0.5
"""How long a process that was killed may take to end; one inside the driver may never."""


@dataclass(slots=True)
class Probed:
    """What came of it.

    Attributes:
        hello: the driver's versions; ``None`` where it did not take the probe in.
        failed: why it did not.
        node: what was seen of all GPUs together.
        looks: what was seen of each.
        complete: whether all were looked at.
        step: the call that the probe was in when its time was over.
        exit_code: how it ended; ``None`` where its time was over.
    """

    hello: Hello | None = None
    failed: Failed | None = None
    node: NodeLook | None = None
    looks: list[Look] = field(default_factory=list)
    complete: bool = False
    step: Step | None = None
    exit_code: int | None = None

    def take(self, line: bytes) -> None:
        """Take in a line of the probe's; what is none is left out."""
        match decode(line):
            case Hello() as hello:
                self.hello = hello
            case Failed() as failed:
                self.failed = failed
            case NodeLook() as node:
                self.node = node
            case Look() as look:
                self.looks.append(look)
            case RoundOver():
                self.complete = True
            case _:
                pass


def probe(timeout_seconds: float) -> Probed:
    """Look at the GPUs once; this blocks, for little longer than the time that is given.

    Args:
        timeout_seconds: what has not been seen by then is left out.

    Raises:
        OSError: the probe cannot be started.
    """
    probed = Probed()
    steps = os.memfd_create("lastcall-check")
    try:
        settings = probe_settings.write(Settings(once=True, trail_fd=steps))
        process = subprocess.Popen(  # noqa: S603 - our own module, and no stranger's words
            [*PROGRAM, settings],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[steps],
        )
        try:
            output, _ = process.communicate(timeout=timeout_seconds)
            probed.exit_code = process.returncode
        except subprocess.TimeoutExpired as late:
            output = late.output or b""
            step = trail.read(steps)
            probed.step = step if step is not None and step.call else None
            _end(process)
    finally:
        os.close(steps)
    for line in output.splitlines():
        probed.take(line)
    return probed


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=END_SECONDS)
    if process.stdout is not None:
        process.stdout.close()
