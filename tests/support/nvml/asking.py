"""A process with the real pynvml on the fake driver, which answers what it is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Self

from support.nvml.driver import FakeDriver

_PROGRAM = """
import ctypes, json, os, sys, time
import pynvml as nvml

MEMBERS = ["dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal"]

def gpu(index):
    return nvml.nvmlDeviceGetHandleByIndex(index)

def fields(index, *wanted):
    found = nvml.nvmlDeviceGetFieldValues(gpu(index), list(wanted))
    return [
        f"error {entry.nvmlReturn}" if entry.nvmlReturn
        else getattr(entry.value, MEMBERS[entry.valueType])
        for entry in found
    ]

def filled(function, structure, version):
    structure.version = version
    function(gpu(0), ctypes.byref(structure))
    return structure

def listen(types, *indexes):
    global events
    events = nvml.nvmlEventSetCreate()
    for index in indexes:
        nvml.nvmlDeviceRegisterEvents(gpu(index), types, events)

def wait(milliseconds):
    event = nvml.nvmlEventSetWait_v2(events, milliseconds)
    return [event.eventType, event.eventData, event.gpuInstanceId]

def seconds(call):
    began = time.monotonic()
    try:
        call()
    except nvml.NVMLError:
        pass
    return time.monotonic() - began

for line in sys.stdin:
    try:
        answer = eval(line)
    except nvml.NVMLError as error:
        answer = f"error {error.value}"
    print(json.dumps(answer), flush=True)
"""


class PynvmlProcess:
    """A process that evaluates expressions: ``nvml`` is pynvml, ``gpu(0)`` a handle.

    ``fields(0, 230, (165, 3))`` reads fields. ``filled(nvml.function, structure, version)`` is the
    structure as the function fills it for GPU 0. ``listen(0x8, 0, 1)`` registers for events, and
    ``wait(5000)`` is the next one's type, data and GPU instance. ``seconds(call)`` is how long a
    call took. An error of NVML is the answer ``"error 15"``.
    """

    def __init__(self, fake: FakeDriver) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM],
            env=fake.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, expression: str) -> object:
        """Return what the expression is there."""
        self.begin(expression)
        return self.answer()

    def begin(self, expression: str) -> None:
        """Let it evaluate an expression, and do not wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(expression + "\n")

    def answer(self) -> object:
        """Wait for the answer to what was begun first; raise EOFError where the process died."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EOFError(f"the process ended with {self.returncode()}")
        return json.loads(line)

    def returncode(self, timeout_seconds: float = 5) -> int:
        """Wait for the end of the process and return its exit status."""
        return self._process.wait(timeout_seconds)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self._process.terminate()
