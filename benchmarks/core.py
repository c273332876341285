"""What the decision core takes for one event: a pure function, so the same one can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from timeit import Timer

from benchmarks.common import Row

from lastcall.core.events import (
    Acked,
    ClientJoined,
    Event,
    FlushReported,
    SourcePolled,
    SourceReported,
)
from lastcall.core.machine import Machine
from lastcall.core.model import Action, Kind, Node, Sighting
from lastcall.core.turn import Settings

NOW = 1000.0
SIZES = (64, 1024)
REPEAT_SECONDS = 0.05

PREEMPTION = Sighting(
    source="aws",
    scope="spot/instance-action",
    key="instance-action",
    kind=Kind.PREEMPTION,
    action=Action.TERMINATE,
    deadline=NOW + 120.0,
    deadline_unix=1.9e9,
)
NOTICED = SourceReported("aws", PREEMPTION.scope, (PREEMPTION,))
ANSWERED = SourcePolled("aws", "ok", PREEMPTION.scope)
NOTHING = SourceReported("aws", PREEMPTION.scope, ())

MACHINE = Machine(Settings())


def measure(*, quick: bool) -> list[Row]:
    """Time events with the moment of waking that follows each; the best of repeats counts."""
    repeats = 3 if quick else 15
    rows = [_idle(clients, repeats) for clients in (0, SIZES[-1])]
    for clients in SIZES:
        node = _crowded(clients)
        told, _ = MACHINE.handle(node, NOTICED, NOW)
        (notice,) = told.open_notices
        flushed = FlushReported(session="s0", id=notice.id, path="/checkpoints/1", step=1)
        rows += [
            _row(f"a notice for {clients} clients", node, NOTICED, repeats, clients),
            _row(f"an ack, one of {clients}", told, Acked("s0", notice.id), repeats),
            _row(f"a flush, one of {clients}", told, flushed, repeats),
        ]
    return rows


def _idle(clients: int, repeats: int) -> Row:
    node = _crowded(clients)

    def answer() -> None:
        for event in (ANSWERED, NOTHING):
            _handle(node, event)

    took = _microseconds(answer, repeats)
    return Row(f"an answer with nothing in it (two events), {clients} clients", f"{took:.0f} µs")


def _row(what: str, node: Node, event: Event, repeats: int, clients: int = 0) -> Row:
    took = _microseconds(lambda: _handle(node, event), repeats)
    return Row(what, f"{took:.0f} µs", f"{took / clients:.1f} µs a client" if clients else "")


def _handle(node: Node, event: Event) -> None:
    after, _ = MACHINE.handle(node, event, NOW)
    MACHINE.wake_at(after, NOW)


def _microseconds(action: Callable[[], None], repeats: int) -> float:
    timer = Timer(action)
    calls = max(1, int(REPEAT_SECONDS / timer.timeit(1)))
    return 1e6 * min(timer.repeat(repeats, calls)) / calls


def _crowded(clients: int) -> Node:
    node = Node()
    for rank in range(clients):
        hello = ClientJoined(session=f"s{rank}", identity=f"p{rank}", job="train", rank=rank)
        node, _ = MACHINE.handle(node, hello, 0.0)
    node, _ = MACHINE.handle(node, ANSWERED, 0.0)
    return node
