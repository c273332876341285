"""GPUs under the judge's eyes, told as a story: what is seen when, and how they are then."""

from __future__ import annotations

from collections.abc import Mapping

from lastcall.core.gpu.judge import EMPTY, Belief, News, sightings, take, verdicts, wake_at
from lastcall.core.gpu.model import (
    Gpu,
    Health,
    Look,
    Mark,
    NodeLook,
    Verdict,
    WatchState,
    XidSeen,
)
from lastcall.core.gpu.news import Moment, NoiseExpected, Remembered, Repaired, WatchSaid
from lastcall.core.gpu.rules import Rules, make_rules
from lastcall.core.model import Sighting

POLL_SECONDS = 5.0
SXM = "NVIDIA H100 80GB HBM3"
PCIE = "NVIDIA H100 PCIe"

EACH_LOOK = ("recovery_action", "ecc_uncorrected", "temperature_celsius", "power_watts")
"""Some signals that each look asks for."""


def uuid(index: int) -> str:
    """Return the UUID of a GPU of the story."""
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


class Watched:
    """A node's GPUs, looked at every five seconds.

    Args:
        gpus: how many.
        rules: how they are judged.
        name: their model.
        action: what each look reads as the recovery action; ``None``: it cannot be read.
        begun: the watch is on, and a whole round is over.
    """

    def __init__(
        self,
        gpus: int = 2,
        *,
        rules: Rules | None = None,
        name: str = SXM,
        action: int | None = 0,
        begun: bool = True,
    ) -> None:
        self.rules = rules or make_rules()
        self.gpus = [Gpu(uuid(i), i, name, f"00000000:{i:02X}:00.0") for i in range(gpus)]
        self.action = action
        self.now = 1000.0
        self.belief: Belief = EMPTY
        self.reported: tuple[Sighting, ...] = ()
        if begun:
            self.watch(WatchState.WATCHING)
            self.count()
            self.rounds(2)

    def take(self, news: News) -> None:
        self.belief = take(self.belief, news, self.rules)
        seen = sightings(self.belief)
        self.reported = self.reported if seen is None else seen

    def wait(self, seconds: float) -> None:
        """Let time pass, waking the judge whenever it asked for it."""
        end = self.now + seconds
        while (at := wake_at(self.belief)) is not None and at <= end:
            self.now = max(self.now, at)
            self.take(Moment(self.now))
        self.now = end

    def look(
        self,
        gpu: int = 0,
        *,
        code: int = 0,
        codes: Mapping[str, int] | None = None,
        **values: float,
    ) -> None:
        """Look at one GPU now."""
        self._look(gpu, code, codes or {}, values)

    def refuses(self, code: int, gpu: int = 0, *, count: int = 1) -> None:
        """Look at one GPU of which each signal is refused with a code, so many times."""
        for _ in range(count):
            self.wait(POLL_SECONDS)
            self.take(
                Look(
                    gpu=self.gpus[gpu],
                    at=self.now,
                    values={"call_seconds_max": 0.001},
                    codes=dict.fromkeys(EACH_LOOK, code),
                )
            )

    def looks(
        self,
        count: int,
        gpu: int = 0,
        *,
        every: float = POLL_SECONDS,
        code: int = 0,
        **values: float,
    ) -> None:
        """Look at one GPU so many times."""
        for _ in range(count):
            self.wait(every)
            self._look(gpu, code, {}, values)

    def rounds(self, count: int = 1, *, code: int = 0, **values: float) -> None:
        """Look at all GPUs, so many times, all of which read the same."""
        for _ in range(count):
            self.wait(POLL_SECONDS)
            for index in range(len(self.gpus)):
                self._look(index, code, {}, values)

    def _look(
        self, gpu: int, code: int, codes: Mapping[str, int], values: Mapping[str, float]
    ) -> None:
        not_read = dict(codes)
        read = {name: value for name, value in values.items() if name not in not_read}
        if "recovery_action" not in values:
            if self.action is None:
                not_read["recovery_action"] = 3
            elif code == 0 and "recovery_action" not in not_read:
                read["recovery_action"] = self.action
        if code == 0:
            read.setdefault("power_watts", 300.0)
        self.take(
            Look(
                gpu=self.gpus[gpu],
                at=self.now,
                code=code,
                call="nvmlDeviceGetHandleByIndex_v2" if code else "",
                values=read,
                codes=not_read,
            )
        )

    def count(
        self,
        count: int | None = None,
        *,
        pci: int | None = None,
        openable: bool | None = None,
        driver: str = "550.1",
        kernel: str = "550.1",
    ) -> None:
        """Look at all GPUs together."""
        self.take(
            NodeLook(
                at=self.now,
                driver_count=len(self.gpus) if count is None else count,
                pci_count=pci,
                control_openable=openable,
                driver=driver,
                kernel_driver=kernel,
            )
        )

    def xid(
        self, number: int, gpu: int | None = 0, *, count: int = 1, text: str = "", past: float = 0
    ) -> None:
        """Have the driver report an XID, now or so many seconds ago."""
        self.take(
            XidSeen(
                uuid="" if gpu is None else uuid(gpu),
                xid=number,
                at=self.now - past,
                count=count,
                text=text,
                past=past > 0,
            )
        )

    def watch(
        self, state: WatchState, *, gpu: int | None = None, call: str = "", detail: str = ""
    ) -> None:
        """Have the watch say how it stands."""
        name = "" if gpu is None else uuid(gpu)
        self.take(WatchSaid(self.now, state, detail, gpu=name, call=call))

    def expect_noise(self, seconds: float) -> None:
        """Have a flush or a drain end processes."""
        self.take(NoiseExpected(self.now, self.now + seconds))

    def repair(self) -> None:
        """Have an operator say that the GPUs were reset."""
        self.take(Repaired(self.now))

    def restarted(self) -> Watched:
        """Return the same GPUs after a restart of the agent."""
        again = Watched(
            len(self.gpus),
            rules=self.rules,
            name=self.gpus[0].name,
            action=self.action,
            begun=False,
        )
        again.now = self.now + 10
        again.reported = self.reported
        began = {sighting.key: float(sighting.identity) for sighting in self.reported}
        again.take(
            Remembered(
                again.now,
                verdicts(self.belief),
                faulty=began.get("faulty"),
                degraded=began.get("degraded"),
            )
        )
        return again

    def verdict(self, gpu: int | None = 0) -> Verdict:
        """Return how a GPU is; of all together with ``None``."""
        return verdicts(self.belief)["" if gpu is None else uuid(gpu)][1]

    def health(self, gpu: int | None = 0) -> Health:
        """Return how a GPU is, in one word."""
        return self.verdict(gpu).health

    def reasons(self, gpu: int | None = 0) -> tuple[str, ...]:
        """Return what speaks against a GPU."""
        return self.verdict(gpu).reasons

    def mark(self, reason: str, gpu: int | None = 0) -> Mark:
        """Return the mark of that reason."""
        return next(mark for mark in self.verdict(gpu).marks if mark.reason == reason)

    @property
    def sightings(self) -> tuple[Sighting, ...] | None:
        """What is reported."""
        return sightings(self.belief)

    @property
    def sighting(self) -> Sighting:
        """The one sighting that is reported."""
        (sighting,) = self.sightings or ()
        return sighting
