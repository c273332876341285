"""Looks at one GPU after the other, again and again, so that the trail says which one hangs."""

import threading
import time
from collections.abc import Callable

from lastcall.core.gpu.codes import NO_ACCESS
from lastcall.gpu.probe.calls import Calls
from lastcall.gpu.probe.lines import Lines
from lastcall.gpu.probe.looks import Finding, Observer
from lastcall.gpu.probe.node import NodeObserver
from lastcall.gpu.probe.session import Device, Session

SHORTEST_SECONDS = 0.2
"""Time between rounds, however often one is asked for."""


class Rounds:
    """Goes round all GPUs.

    Args:
        session: the GPUs.
        calls: how the driver is called.
        node: looks at all of them together.
        lines: where it is told.
    """

    def __init__(self, session: Session, calls: Calls, node: NodeObserver, lines: Lines) -> None:
        self._session = session
        self._calls = calls
        self._node = node
        self._lines = lines
        self._hushed = threading.Event()
        self._observers: dict[int, Observer] = {}
        self._codes: tuple[int, ...] = ()

    def run(
        self, poll_seconds: float, woken: threading.Event, between: Callable[[float], None]
    ) -> None:
        """Go round for ever.

        Args:
            poll_seconds: time between rounds.
            woken: is set by whoever wants a round at once; that one also reads what is otherwise
                read only now and then.
            between: is called after each round, with the time.

        Raises:
            Refused: the session with the driver is over.
        """
        thorough = False
        while True:
            began = time.monotonic()
            self.go(thorough=thorough)
            between(time.monotonic())
            woken.wait(began + poll_seconds - time.monotonic())
            time.sleep(max(0.0, began + SHORTEST_SECONDS - time.monotonic()))
            thorough = woken.is_set()
            woken.clear()

    def hush(self) -> None:
        """Have no further call made, from another thread; one that is under way may come back."""
        self._hushed.set()

    def go(self, *, thorough: bool = False) -> None:
        """Go round once.

        Raises:
            Refused: the session with the driver is over, or never had GPUs to count.
        """
        self._be_quiet_if_told()
        began = time.monotonic()
        self._session.meet()
        self._tell_node()
        self._codes = tuple(
            [self._look(device, thorough=thorough) for device in self._session.devices]
        )
        self._tell_node()
        now = time.monotonic()
        self._lines.write("round", {"at": now, "seconds": round(now - began, 6)})

    def _be_quiet_if_told(self) -> None:
        while self._hushed.is_set():
            time.sleep(SHORTEST_SECONDS)

    def _tell_node(self) -> None:
        node = self._node.look(
            time.monotonic(),
            driver_count=self._session.driver_count,
            codes=self._codes,
            no_access=bool(self._codes) and NO_ACCESS.issuperset(self._codes),
        )
        if node is not None:
            self._lines.write("node", node)

    def _look(self, device: Device, *, thorough: bool) -> int:
        self._be_quiet_if_told()
        observer = self._observers.get(device.index)
        if observer is None:
            observer = Observer(device, self._calls)
            self._observers[device.index] = observer
        at = time.monotonic()
        finding = observer.look(at, thorough=thorough)
        self._lines.write("gpu", _line(device, at, finding))
        return finding.code


def _line(device: Device, at: float, finding: Finding) -> dict[str, object]:
    return {
        "at": at,
        "gpu": {
            "uuid": device.uuid,
            "index": device.index,
            "name": device.name,
            "pci": device.pci,
        },
        "code": finding.code,
        "call": finding.call,
        "values": finding.values,
        "codes": finding.codes,
        "pids": finding.pids,
    }
