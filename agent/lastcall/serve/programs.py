"""What the program of a peer is called; read on a thread, since that can take long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue

QUESTIONS_LIMIT = 1024
"""Questions that may wait; beyond it the answer is that nothing is known."""

_PLAIN_OPTIONS = frozenset({"-u", "-O", "-OO", "-B", "-E", "-I", "-P", "-s", "-S"})
"""Python's options without a value, which may stand before the script."""

Answer = Callable[[str], None]


class Programs:
    """Answers on the event loop, later or never.

    Reading the command line of a process can hang for as long as that process is stuck in the
    kernel, so that neither the loop nor the end of the agent may wait for it.
    """

    def __init__(self) -> None:
        self._questions: SimpleQueue[tuple[int, Answer] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None

    def ask(self, pid: int, answer: Answer) -> None:
        """Have ``answer`` called with the program of a process, "" where that is not known."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            thread = threading.Thread(
                target=self._run, args=(self._loop,), name="lastcall-programs", daemon=True
            )
            thread.start()
        if self._questions.qsize() >= QUESTIONS_LIMIT:
            answer("")
        else:
            self._questions.put((pid, answer))

    def close(self) -> None:
        """End the thread once it is free."""
        if self._loop is not None:
            self._questions.put(None)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while (question := self._questions.get()) is not None:
            pid, answer = question
            program = program_of(pid)
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(answer, program)


def program_of(pid: int) -> str:
    """Return the program of a process and its script or module, "" where that is not known."""
    import psutil  # noqa: PLC0415 - an agent without clients need not hold it in memory

    with suppress(psutil.Error, OSError, ValueError):
        process = psutil.Process(pid)
        return essence(process.cmdline()) or process.name()
    return ""


def essence(words: Sequence[str]) -> str:
    """Return a command line without its options and what follows them: those may hold secrets."""
    match [word for word in words if word not in _PLAIN_OPTIONS]:
        case [program, "-m", module, *_]:
            return f"{program} {module}"
        case [program, script, *_] if not script.startswith("-"):
            return f"{program} {script}"
        case [program, *_]:
            return program
        case _:
            return ""
