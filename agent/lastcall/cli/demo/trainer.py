"""One training process, as a user of lastcall writes it: ``import lastcall`` and no more of it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import lastcall
from lastcall.cli.demo import model
from lastcall.cli.demo.checkpoint import Storage
from lastcall.cli.demo.collective import Collective

JOB = "demo"

NOTICE_WAIT_SECONDS = 1.0
"""How long a rank waits for a notice that another rank has; the agent tells all within ms."""


class Trainer:
    """A rank of the job: its loop, its checkpoints, and what it says on standard output."""

    def __init__(self, options: argparse.Namespace, guard: lastcall.Guard) -> None:
        self._options = options
        self._guard = guard
        self._rank = guard.identity.rank or 0
        self._storage = Storage(options.directory, options.shard_bytes, options.bytes_per_second)

    def run(self) -> int:
        """Train to the end, or until a notice ends it; return the exit code."""
        world_size = self._guard.identity.world_size or 1
        with Collective(self._options.collective, self._rank, world_size) as ranks:
            saved = self._storage.newest() or 0
            state = self._storage.load(saved, self._rank) if saved else model.initial_state()
            ranks.barrier()
            if saved:
                self._guard.resumed(saved)
            self._say("started", step=saved)
            for step in range(saved + 1, self._options.steps + 1):
                time.sleep(self._options.step_seconds)  # in place of a GPU's work
                share = model.gradient(state, self._rank, step)
                state = model.advance(state, ranks.sum(share))
                self._say("step", step=step)
                # One rank may know of a notice before another: all act on what any of them knows.
                if ranks.any(self._guard.poll(step) is not None):
                    if self._flush(step, state, ranks):
                        return lastcall.EXIT_PREEMPTED
                elif step % self._options.checkpoint_every == 0:
                    self._checkpoint(step, state, ranks)
            self._say("finished", step=self._options.steps, state=state)
            return 0

    def _flush(self, step: int, state: int, ranks: Collective) -> bool:
        """Save for a notice; return whether the job should end here."""
        self._say("agreed", step=step)
        notice = self._await_notice(step)
        if notice is None:
            self._checkpoint(step, state, ranks)
            return ranks.any(False)
        with self._guard.flush(notice, step=step) as flush:
            path = self._storage.save(step, state, self._rank, ranks.barrier)
            recorded = flush.saved(path, bytes=self._options.shard_bytes, format="demo")
        self._say("flushed", step=step, recorded=recorded)
        return ranks.any(flush.stop)

    def _await_notice(self, step: int) -> lastcall.Notice | None:
        until = time.monotonic() + NOTICE_WAIT_SECONDS
        while (notice := self._guard.poll(step)) is None and time.monotonic() < until:
            time.sleep(0.001)
        return notice

    def _checkpoint(self, step: int, state: int, ranks: Collective) -> None:
        began = time.monotonic()
        path = self._storage.save(step, state, self._rank, ranks.barrier)
        taken_seconds = time.monotonic() - began
        self._guard.checkpoint(
            step,
            path,
            bytes=self._options.shard_bytes,
            stall_seconds=taken_seconds,
            durable_seconds=taken_seconds,
            format="demo",
        )
        self._say("saved", step=step)

    @staticmethod
    def _say(event: str, **facts: object) -> None:
        print(json.dumps({"event": event, "at_unix": time.time(), **facts}), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank; who it is stands in ``RANK`` and ``WORLD_SIZE``, as under torchrun."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--collective", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--checkpoint-every", type=int, required=True)
    parser.add_argument("--step-seconds", type=float, required=True)
    parser.add_argument("--shard-bytes", type=int, required=True)
    parser.add_argument("--bytes-per-second", type=float, required=True)
    options = parser.parse_args(arguments)
    with lastcall.connect(job=JOB) as guard:
        return Trainer(options, guard).run()


if __name__ == "__main__":
    sys.exit(main())
