"""A probe for tests that says and does what it is told; no driver, and no import beyond a few.

Usage: ``scripted_probe.py FOLDER SETTINGS``. ``FOLDER/scripts.json`` has a list of scripts; the
first probe does the first, the second the second, and the last one stands for all that follow. A
script is a list of steps, each a list of a word and what it needs. The settings of each probe are
added as a line to ``FOLDER/starts``. After its last step a probe ends; ``wait`` has it answer the
line ``look`` until its input ends, as the true one does.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

FOREVER = 3600.0


def say(line: dict[str, Any] | str) -> None:
    """Print a line."""
    text = line if isinstance(line, str) else json.dumps(line)
    os.write(1, f"{text}\n".encode())


def complain(text: str) -> None:
    """Print a line to standard error."""
    os.write(2, f"{text}\n".encode())


def call(trail_fd: int, name: str, index: int = -1) -> None:
    """Leave the trail of a call that begins now."""
    gpu = {"gpu": f"GPU-{index}", "pci": f"00000000:0{index}:00.0"} if index >= 0 else {}
    step = {"call": name, "gpu": "", "index": index, "pci": "", "at": time.monotonic()} | gpu
    os.pwrite(trail_fd, json.dumps(step).encode().ljust(256), 0)


def wait() -> NoReturn:
    """Answer what is asked, until nobody can ask any more."""
    while asked := os.read(0, 100):
        for _ in range(asked.count(b"look\n")):
            say({"type": "round", "at": time.monotonic()})
    os._exit(0)


def flood() -> NoReturn:
    """Print without end."""
    while True:
        os.write(1, b"x" * 4095 + b"\n")


def write(path: str) -> None:
    """Make a file; on a frozen file system the kernel holds this in uninterruptible sleep."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT))


def ignore(number: int) -> None:
    """Ignore a signal."""
    # Its loading would be most of the short life of those that ignore nothing.
    import signal  # noqa: PLC0415 - see above

    signal.signal(number, signal.SIG_IGN)


def main(folder: str, written: str) -> None:
    """Do the script whose turn it is."""
    with open(f"{folder}/starts", "a+", encoding="ascii") as starts:
        starts.seek(0)
        before = len(starts.readlines())
        starts.write(f"{written}\n")
    with open(f"{folder}/scripts.json", encoding="ascii") as file:
        scripts = json.load(file)
    trail_fd = json.loads(written)["trail_fd"]
    steps: dict[str, Callable[..., None]] = {
        "say": say,
        "complain": complain,
        "call": lambda *needs: call(trail_fd, *needs),
        "sleep": time.sleep,
        "hang": lambda: time.sleep(FOREVER),
        "wait": wait,
        "kill": lambda number: os.kill(os.getpid(), number),
        "exit": os._exit,
        "close": lambda: os.close(1),
        "flood": flood,
        "write": write,
        "ignore": ignore,
    }
    for word, *needs in scripts[min(before, len(scripts) - 1)]:
        steps[word](*needs)


if __name__ == "__main__":
    main(*sys.argv[1:])
