"""A training loop for a Kubernetes Job: it outlives its pod, and says so by its exit code.

Runs with or without an agent on the node, and carries on from its checkpoint. A number stands for
the model. CHECKPOINT names a file on storage that outlives the node.
"""

import json
import os
import sys
import time
from pathlib import Path

import lastcall

CHECKPOINT = Path(os.environ.get("CHECKPOINT", "/checkpoints/training.json"))
STEPS = int(os.environ.get("STEPS", "10000"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0.1"))
SAVE_EVERY = 100


def load():
    if not CHECKPOINT.exists():
        return {"step": 0, "loss": 1.0}
    return json.loads(CHECKPOINT.read_text())


def save(step, loss):
    temporary = CHECKPOINT.with_suffix(".tmp")
    with temporary.open("w") as file:
        json.dump({"step": step, "loss": loss, "saved_unix": time.time()}, file)
        file.flush()
        os.fsync(file.fileno())  # durable means: it is there after the machine has gone
    temporary.replace(CHECKPOINT)


def main():
    with lastcall.connect() as guard:
        # Whoever else drains the node sends SIGTERM, maybe before the flush is over. It must not
        # end the process: it counts as a notice, unless the agent has brought one already.
        guard.install_signal_fallback()
        state = load()
        first, loss = state["step"] + 1, state["loss"]
        print(f"starting with step {first}", flush=True)
        if first > 1:
            guard.resumed(state["step"], state["saved_unix"], path=CHECKPOINT)
        for step in range(first, STEPS + 1):
            time.sleep(STEP_SECONDS)
            loss *= 0.999
            if notice := guard.poll(step):
                with guard.flush(notice, step=step) as flush:
                    save(step, loss)
                    flush.saved(CHECKPOINT)
                print(f"step {step} saved for {notice.id}", flush=True)
                if flush.stop:  # not after an advice or a drill
                    return lastcall.EXIT_PREEMPTED  # with 0 the Job would count as complete
            elif step % SAVE_EVERY == 0:
                save(step, loss)
                guard.checkpoint(step, CHECKPOINT)
        save(STEPS, loss)
    return 0


if __name__ == "__main__":
    sys.exit(main())
