"""A training loop that outlives its node: ``python examples/train_loop.py [CHECKPOINT]``.

Runs with or without an agent, and carries on from its checkpoint. A number stands for the model.
"""

import json
import os
import sys
import time
from pathlib import Path

import lastcall

CHECKPOINT = Path(sys.argv[1] if len(sys.argv) > 1 else "train_loop.json").absolute()


def save(step, loss):
    temporary = CHECKPOINT.with_suffix(".tmp")
    with temporary.open("w") as file:
        json.dump({"step": step, "loss": loss}, file)
        file.flush()
        os.fsync(file.fileno())  # durable means: it is there after the machine has gone
    temporary.replace(CHECKPOINT)


def main():
    state = json.loads(CHECKPOINT.read_text()) if CHECKPOINT.exists() else {"step": 0, "loss": 1.0}
    first, loss = state["step"], state["loss"]
    print(f"starting after step {first}", flush=True)
    guard = lastcall.connect(job="example")
    for step in range(first + 1, 10_001):
        time.sleep(0.1)
        loss *= 0.999
        if notice := guard.poll(step):
            with guard.flush(notice, step=step) as flush:
                save(step, loss)
                flush.saved(CHECKPOINT)
            print(f"step {step} saved for {notice.id}", flush=True)
            if flush.stop:  # not after an advice or a drill
                return lastcall.EXIT_PREEMPTED
        elif step % 50 == 0:
            save(step, loss)
            guard.checkpoint(step, CHECKPOINT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
