"""A training process that does what a test tells it to, with the real client in it.

It polls until there is a notice, prints that, and flushes: it reads ``save PATH`` or ``fail``, then
``stay`` or ``leave``, a line each. What it does it prints, one JSON object a line. It ends with its
input. ``--with-child`` has it fork as native code forks: unseen by Python, so that the child keeps
the connection to the agent.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import sys
import time

import lastcall

CHILD_SECONDS = 60.0


def say(event: str, **fields: object) -> None:
    """Print what happened."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def obey() -> tuple[str, str]:
    """Return the next word of the test and what goes with it; end where there is none."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    word, _, rest = line.strip().partition(" ")
    return word, rest


def fork_unseen() -> int:
    """Return the pid of a child that sleeps with everything open."""
    pid = int(ctypes.PyDLL(None).fork())
    if pid == 0:
        time.sleep(CHILD_SECONDS)
        os._exit(0)
    return pid


def answer(guard: lastcall.Guard, notice: lastcall.Notice, step: int) -> None:
    """Flush for a notice as the test says."""
    with guard.flush(notice, step=step) as flush:
        say("flushing", id=notice.id, kind=notice.kind, urgency=notice.urgency, drill=notice.drill)
        word, rest = obey()
        recorded = flush.saved(rest) if word == "save" else flush.failed(rest)
    say("flushed", recorded=recorded, stop=flush.stop)
    if obey()[0] == "leave":
        sys.exit(lastcall.EXIT_PREEMPTED)


def train() -> None:
    """Run until the input ends."""
    with lastcall.connect(job="train", rank=0, world_size=1) as guard:
        child = fork_unseen() if "--with-child" in sys.argv else None
        say("training", connected=guard.connected, child=child)
        step = 0
        while not select.select([sys.stdin], [], [], 0.005)[0]:
            step += 1
            if notice := guard.poll(step):
                answer(guard, notice, step)
                say("training", step=step)


if __name__ == "__main__":
    train()
