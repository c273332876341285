"""Says which driver call the probe is in: a record in memory that the agent reads beside it.

The probe writes before each call, and the agent reads when an answer is late, so that it can name
the call and the GPU although the probe cannot speak any more. Both hold the same anonymous file
(``memfd_create``); one record stands at its start, padded to a fixed size.
"""

import json
import os
from dataclasses import dataclass

RECORD_BYTES = 256


@dataclass(frozen=True, slots=True)
class Step:
    """The driver call that the probe is in.

    Attributes:
        call: its name, such as ``nvmlDeviceGetTemperature``; empty while the probe is in none.
        gpu: UUID of the GPU that it asks about; empty where it is about none, or not known.
        index: that GPU's index; -1 for none.
        pci: that GPU's PCI address; empty where it is about none, or not known.
        at: when the call began, in seconds on the monotonic clock.
    """

    call: str
    gpu: str = ""
    index: int = -1
    pci: str = ""
    at: float = 0.0


def write(fd: int, step: Step) -> None:
    """Put ``step`` in the place of the one before, in one write.

    A step that does not fit keeps its call, its index and its time alone.

    Raises:
        OSError: the file cannot be written.
    """
    record = _record(step)
    if len(record) > RECORD_BYTES:
        record = _record(Step(step.call[:64], index=step.index, at=step.at))
    os.pwrite(fd, record, 0)


def read(fd: int) -> Step | None:
    """Return the step that was written last; ``None`` where there is none that can be read."""
    try:
        found = json.loads(os.pread(fd, RECORD_BYTES, 0))
        return Step(
            str(found["call"]),
            str(found["gpu"]),
            int(found["index"]),
            str(found["pci"]),
            float(found["at"]),
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _record(step: Step) -> bytes:
    fields = {
        "call": step.call,
        "gpu": step.gpu,
        "index": step.index,
        "pci": step.pci,
        "at": step.at,
    }
    return json.dumps(fields, separators=(",", ":")).encode("ascii").ljust(RECORD_BYTES)
