"""The watch over the GPUs: what the probe and the kernel's log say, judged and made known."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from lastcall.core.commands import WatchGpus
from lastcall.core.events import (
    Event,
    GpuGone,
    GpuHoldersSeen,
    GpuJudged,
    GpuWatchChanged,
    GpuXidCounted,
    SourceReported,
)
from lastcall.core.facts import Fact, NoticeEnded, NoticeTold
from lastcall.core.gpu import judge, xids
from lastcall.core.gpu.codes import ENDS_CALLS
from lastcall.core.gpu.incidents import DEGRADED, FAULTY, SCOPE, SOURCE
from lastcall.core.gpu.judge import News
from lastcall.core.gpu.model import (
    Figures,
    Holder,
    Look,
    NodeLook,
    Verdict,
    WatchState,
    XidSeen,
)
from lastcall.core.gpu.news import Moment, NoiseExpected, Remembered, Repaired, WatchSaid
from lastcall.core.gpu.rules import Rules
from lastcall.core.model import Node, Sighting
from lastcall.gpu.holders import Holders
from lastcall.gpu.kernel_lines import KernelXid
from lastcall.gpu.kernel_log import KernelLog
from lastcall.gpu.lines import RoundOver, StreamSaid
from lastcall.gpu.readings import Readings
from lastcall.gpu.supervisor import ProbeNews, ProbeSettings, Supervisor, WatchStatus
from lastcall.gpu.xid_counts import Witness, XidCounts

NOISE_SECONDS = 60.0
"""How long after a flush or a drain its ended processes still leave XIDs 43 and 45 behind."""

LONGEST_NOISE_SECONDS = 3600.0
"""How long a notice that names no end may keep errors from being heard."""

BLIND = "the driver numbers processes as the machine does: a pod needs hostPID to see which"
"""Why processes that hold GPUs cannot be named."""

Post = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """How the GPUs are watched.

    Attributes:
        enabled: whether they are.
        rules: what is a fault.
        acts_on_faults: whether a fault is a notice.
        kernel_log: where the kernel's lines are read; ``None``: nowhere.
        expected: how many GPUs there should be; 0: as many as stand on the bus.
        holder_seconds: how long a process holds a GPU before it is named: it may be starting.
        probe: how the probe is run.
    """

    enabled: bool = True
    rules: Rules
    acts_on_faults: bool = False
    kernel_log: Path | None = Path("/dev/kmsg")
    expected: int = 0
    holder_seconds: float = 30.0
    probe: ProbeSettings = field(default_factory=ProbeSettings)


class GpuWatcher:
    """Watches the GPUs, and posts what is news of them.

    Looks are many and news is rare: the belief is kept here, and the core hears of verdicts.

    Args:
        settings: how they are watched.
        post: takes the events.
        monotonic: the clock of the node's times.
    """

    def __init__(self, settings: WatchSettings, post: Post, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._post = post
        self._monotonic = monotonic
        self._log = structlog.get_logger()
        self._readings = Readings(
            poll_seconds=settings.probe.poll_seconds, expected=settings.expected
        )
        self._holders = Holders(settings.probe.proc, after_seconds=settings.holder_seconds)
        self._counts = XidCounts()
        self._known_xids: Mapping[str, float] = {}
        self._repaired_at = -math.inf
        self._belief = judge.EMPTY
        self._judged: dict[str, object] = {}
        self._reported: tuple[Sighting, ...] | None = None
        self._named: tuple[Holder, ...] = ()
        self._is_blind_said = False
        self._by_pci: dict[str, str] = {}
        self._unplaced: list[KernelXid] | None = []
        self._timer: asyncio.TimerHandle | None = None
        self._supervisor: Supervisor | None = None
        self._kernel_log: KernelLog | None = None
        self._kernel_log_state = "off"
        self._stream_up: bool | None = None

    async def run(self, before: Node) -> None:
        """Watch until cancelled.

        Args:
            before: what an earlier run of the agent left.
        """
        if not (self._settings.enabled and self._settings.acts_on_faults):
            # What was a notice while the site had faults acted upon is none any more.
            self._post(SourceReported(SOURCE, SCOPE, ()))
        if not self._settings.enabled:
            self._post(GpuWatchChanged(state=WatchState.OFF))
            for uuid in before.gpus:
                self._post(GpuGone(uuid))
            return
        self._remember(before)
        self._supervisor = Supervisor(
            self._settings.probe,
            news=self._hear,
            said=self._take_status,
            monotonic=self._monotonic,
            left_behind=left_behind(before),
        )
        if before.gpus_released_until is not None:
            self._supervisor.release()
        if self._settings.kernel_log is not None:
            self._kernel_log = KernelLog(
                self._settings.kernel_log,
                seen=self._read_kernel,
                said=self._say_kernel_log,
                monotonic=self._monotonic,
            )
            self._kernel_log_state = "read"
            self._kernel_log.start()
        try:
            await self._supervisor.run()
        finally:
            self._stop_listening()

    def order(self, command: WatchGpus) -> None:
        """Watch the GPUs or let go of them, whatever was before."""
        if command.repaired:
            self._learn(Repaired(self._monotonic()))
        if self._supervisor is None:
            return
        if command.watched:
            self._supervisor.watch()
            # What a reset did not mend is to be seen again before it is said to be over.
            self._supervisor.look()
        else:
            self._supervisor.release()

    def note(self, fact: Fact) -> None:
        """Expect the errors that processes leave behind which end on a notice."""
        now = self._monotonic()
        if isinstance(fact, NoticeTold):
            deadline = fact.notice.deadline
            until = now if deadline is None else min(deadline, now + LONGEST_NOISE_SECONDS)
        elif isinstance(fact, NoticeEnded) and fact.notice.told:
            until = now
        else:
            return
        self._learn(NoiseExpected(now, until + NOISE_SECONDS))

    async def close(self) -> None:
        """End the probe, or leave it behind, within a second."""
        if self._supervisor is not None:
            await self._supervisor.close()

    @property
    def expected(self) -> int:
        """How many GPUs there should be; 0 where that is not known."""
        return self._readings.expected

    @property
    def fresh_seconds(self) -> float:
        """How old a figure of now may be."""
        return self._readings.fresh_seconds

    @property
    def kernel_log(self) -> str:
        """Whether the kernel's log is ``read``, ``off``, or why it cannot be read."""
        return self._kernel_log_state

    @property
    def event_stream_up(self) -> bool | None:
        """Whether the driver's own word of errors is heard; ``None``: not known."""
        return self._stream_up

    def figures(self) -> Sequence[Figures]:
        """Return the figures of each GPU's last good look."""
        return self._readings.figures()

    def node_look(self) -> NodeLook | None:
        """Return the last look at all GPUs together."""
        return self._readings.node_look()

    def _remember(self, before: Node) -> None:
        known = {uuid: (record.gpu, record.verdict) for uuid, record in before.gpus.items()}
        self._known_xids = before.gpu_xids
        if before.gpus_repaired_at is not None:
            self._repaired_at = before.gpus_repaired_at
        self._by_pci = {gpu.pci: uuid for uuid, (gpu, _) in known.items() if gpu.pci}
        self._judged = {uuid: _gist(verdict) for uuid, (_, verdict) in known.items()}
        standing = _standing(before)
        self._learn(
            Remembered(
                self._monotonic(),
                known,
                faulty=standing.get(FAULTY),
                degraded=standing.get(DEGRADED),
            )
        )

    def _hear(self, news: ProbeNews) -> None:
        match news:
            case Look():
                self._take_look(news)
            case NodeLook():
                self._readings.take_node(news)
                self._learn(news)
            case XidSeen():
                self._take_xid(news, Witness.NVML)
            case RoundOver():
                self._place_kernel_lines()
                self._name_holders(news.at)
                self._learn(Moment(news.at))
            case StreamSaid():
                self._take_stream(news)

    def _take_stream(self, said: StreamSaid) -> None:
        """Say whether the driver's own word of errors is heard; looks go on without it."""
        self._stream_up = said.ok
        write = self._log.info if said.ok else self._log.warning
        write("gpu_event_stream", ok=said.ok, code=said.code, text=said.text)

    def _take_look(self, look: Look) -> None:
        self._readings.take(look)
        if look.gpu.uuid and look.gpu.pci:
            self._by_pci[look.gpu.pci] = look.gpu.uuid
        if look.pids is not None:
            self._holders.take(look.at, look.gpu.uuid, look.pids)
        self._learn(look)

    def _take_xid(self, seen: XidSeen, witness: Witness) -> None:
        new = self._counts.take(seen, witness)
        if new:
            respond = self._settings.rules.xid(seen.xid).respond.value
            self._post(GpuXidCounted(seen.uuid, seen.xid, new, seen.text, respond))
        self._learn(seen)
        if seen.xid in ENDS_CALLS and not seen.past and self._supervisor is not None:
            self._supervisor.stop_calls(f"XID {seen.xid}: calls into the driver hang after it")

    def _take_status(self, status: WatchStatus) -> None:
        now = self._monotonic()
        self._post(
            GpuWatchChanged(
                state=status.state,
                detail=status.detail,
                gpu=status.gpu,
                call=status.call,
                pid=status.pid,
            )
        )
        if status.state not in (WatchState.STARTING, WatchState.WATCHING):
            self._place_kernel_lines()
            self._say_holders(())
        self._learn(WatchSaid(now, status.state, status.detail, status.gpu, status.call))

    def _read_kernel(self, line: KernelXid) -> None:
        """Take in an error from the kernel's log; before the first round no GPU has a name."""
        uuid = line.uuid or self._by_pci.get(line.pci, "")
        if self._unplaced is not None and not uuid:
            self._unplaced.append(line)
            return
        if line.past and line.at <= self._taken_in(xids.key(uuid, line.xid)):
            return  # an agent before this one took it in, and it may have been mended since
        seen = XidSeen(
            uuid=uuid,
            xid=line.xid,
            at=line.at,
            count=line.count,
            text=line.text,
            past=line.past,
        )
        self._take_xid(seen, Witness.KERNEL)
        if self._supervisor is not None and not line.past and line.xid not in ENDS_CALLS:
            self._supervisor.look()

    def _taken_in(self, key: str) -> float:
        """Return until when what the kernel has to say of an XID is known, or mended."""
        return max(self._known_xids.get(key, -math.inf), self._repaired_at)

    def _place_kernel_lines(self) -> None:
        """Hand on what waited for the GPUs' names: there will be no more of them."""
        waiting, self._unplaced = self._unplaced, None
        for line in waiting or ():
            self._read_kernel(line)

    def _say_kernel_log(self, detail: str) -> None:
        self._kernel_log_state = detail
        self._log.info("kernel_log_not_read", detail=detail)

    def _name_holders(self, now: float) -> None:
        named = self._holders.named(now)
        if self._holders.unseen and not self._is_blind_said:
            self._is_blind_said = True
            self._log.info("gpu_holders_not_seen", processes=self._holders.unseen, detail=BLIND)
        self._say_holders(named)

    def _say_holders(self, named: tuple[Holder, ...]) -> None:
        if named != self._named:
            self._named = named
            self._post(GpuHoldersSeen(named))

    def _learn(self, news: News) -> None:
        """Judge anew, and post what came out otherwise than before."""
        self._belief = judge.take(self._belief, news, self._settings.rules)
        verdicts = judge.verdicts(self._belief)
        for uuid in [uuid for uuid in self._judged if uuid not in verdicts]:
            self._judged.pop(uuid, None)
            self._post(GpuGone(uuid))
        for uuid, (gpu, verdict) in verdicts.items():
            gist = _gist(verdict)
            if self._judged.get(uuid) != gist:
                self._judged[uuid] = gist
                self._post(GpuJudged(gpu, verdict))
        if self._settings.acts_on_faults:
            self._report()
        self._set_timer()

    def _report(self) -> None:
        sightings = judge.sightings(self._belief)
        if sightings is not None and sightings != self._reported:
            self._reported = sightings
            self._post(SourceReported(SOURCE, SCOPE, sightings))

    def _set_timer(self) -> None:
        at = judge.wake_at(self._belief)
        if self._timer is not None:
            if self._timer.when() == at:
                return
            self._timer.cancel()
            self._timer = None
        if at is not None and math.isfinite(at):
            self._timer = asyncio.get_running_loop().call_at(at, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._learn(Moment(self._monotonic()))

    def _stop_listening(self) -> None:
        if self._kernel_log is not None:
            self._kernel_log.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _standing(before: Node) -> Mapping[str, float]:
    """Return when what an earlier agent reported began, by what it was, where it stands."""
    claims = (
        claim.sighting
        for notice in before.notices.values()
        if not notice.gone
        for claim in notice.claims
        if claim.sighting.source == SOURCE and not claim.sighting.drill
    )
    return {sighting.code: float(sighting.identity) for sighting in claims}


def _gist(verdict: Verdict) -> object:
    """Return what of a verdict is news when it changes; a figure in its words is none."""
    return verdict.health, tuple(
        (mark.reason, mark.health, mark.recovery, mark.lost) for mark in verdict.marks
    )


def left_behind(before: Node) -> WatchStatus | None:
    """Return what an earlier agent said of a probe that it could not end."""
    watch = before.gpu_watch
    if watch is None or watch.pid is None:
        return None
    return WatchStatus(watch.state, watch.detail, watch.gpu, watch.call, watch.pid)
