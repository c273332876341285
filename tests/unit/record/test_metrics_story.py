"""What Prometheus is shown of a fresh agent and of a whole story, line by line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from prometheus_client import generate_latest

from lastcall.core.commands import Publish
from lastcall.core.events import (
    AllTold,
    BackendChecked,
    CheckpointReported,
    ClientJoined,
    CordonEnded,
    DrainEnded,
    DrillRequested,
    Event,
    EvictionReported,
    FlushReported,
    GpuHoldersSeen,
    GpuJudged,
    GpuWatchChanged,
    GpuXidCounted,
    Intended,
    ProcessDied,
    ProvidersFound,
    ResumeReported,
    SourcePolled,
    SourceReported,
    Started,
)
from lastcall.core.gpu.model import Holder, NodeLook, WatchState
from lastcall.core.machine import Machine
from lastcall.core.model import Action, Kind, Node, Sighting
from lastcall.core.turn import Settings
from lastcall.record.metrics import Metrics
from support.gpus import DEGRADED, GPU_0, GPU_1, HEALTHY, LOST, FixedReadings
from support.needs import need_program

CheckGolden = Callable[[str, str], None]

BOOTED_UNIX = 1700000000.0


class Journal:
    healthy = True
    errors = 0


class Agent:
    """The machine with the metrics behind it, and time as an argument."""

    def __init__(self) -> None:
        self.now = 0.0
        self.node = Node()
        self.machine = Machine(Settings())
        self.readings = FixedReadings()
        self.metrics = Metrics(
            lambda: self.node,
            monotonic=lambda: self.now,
            wall=lambda: BOOTED_UNIX + self.now,
            advice=lambda node, job: self.machine.advice(node, job, self.now),
            version="1.2.3",
            journal=Journal(),
            gpus=self.readings,
        )

    def at(self, now: float, *events: Event) -> None:
        self.now = now
        for event in events:
            self.node, commands = self.machine.handle(self.node, event, now)
            for command in commands:
                if isinstance(command, Publish):
                    self.metrics.record(command.fact)

    @property
    def notice_id(self) -> str:
        return self.node.open_notices[-1].id

    def shown(self) -> str:
        """Return the exposition without what differs from machine to machine."""
        text = generate_latest(self.metrics.registry).decode()
        text = re.sub(r'python="[^"]*"', 'python="3"', text)
        own = [line for line in text.splitlines() if "process_" not in line]
        return "\n".join(own) + "\n"


def joined(rank: int) -> ClientJoined:
    return ClientJoined(
        session=f"s{rank}", identity=f"{40 + rank}@1", job="llama", rank=rank, pid=40 + rank
    )


def flushed(rank: int, notice_id: str) -> FlushReported:
    return FlushReported(
        session=f"s{rank}",
        id=notice_id,
        path="/ckpt/9",
        step=9,
        stall_seconds=0.75,
        durable_seconds=11.0,
    )


def preemption(deadline: float) -> SourceReported:
    sighting = Sighting(
        source="aws",
        scope="instance-action",
        key="terminate",
        kind=Kind.PREEMPTION,
        action=Action.TERMINATE,
        deadline=deadline,
        deadline_unix=BOOTED_UNIX + deadline,
    )
    return SourceReported("aws", "instance-action", (sighting,))


def rehearse(agent: Agent) -> None:
    agent.at(200, DrillRequested("cli", 30.0, Kind.PREEMPTION, drain=False))
    drill = agent.notice_id
    agent.at(200.002, AllTold(drill, 2))
    agent.at(212, flushed(0, drill), flushed(1, drill))


def lose_a_gpu(agent: Agent) -> None:
    """Of two GPUs one is to be reset, and is lost after all work was saved."""
    agent.at(300, GpuWatchChanged(state=WatchState.WATCHING))
    agent.at(301, GpuJudged(GPU_0, HEALTHY), GpuJudged(GPU_1, HEALTHY))
    agent.at(310, GpuHoldersSeen((Holder(77, (GPU_0.uuid,), "python other.py"),)))
    agent.at(320, GpuXidCounted(GPU_1.uuid, 63, 1), GpuJudged(GPU_1, DEGRADED))
    agent.at(334, CheckpointReported(session="s0", step=8, stall_seconds=0.5, durable_seconds=9.0))
    agent.at(500, GpuXidCounted(GPU_1.uuid, 79, 2), GpuJudged(GPU_1, LOST))


def story() -> Agent:
    """A drill; a GPU's loss; then a preemption that one rank survives on disk, the other not."""
    agent = Agent()
    agent.at(100, Started(), ProvidersFound(("aws",), "dmi: Amazon EC2"))
    agent.at(101, SourcePolled("aws", "ok", "instance-action", skew_seconds=-0.25))
    agent.at(101, BackendChecked(up=True, rights=(("patch nodes", True), ("delete pods", False))))
    agent.at(102, joined(0), joined(1))
    agent.at(103, ResumeReported(session="s0", step=4, lost_steps=17))
    agent.at(110, CheckpointReported(session="s0", step=6, stall_seconds=0.5, durable_seconds=9.0))
    rehearse(agent)
    lose_a_gpu(agent)
    agent.at(990, SourcePolled("aws", "throttled", "events", "429"))
    agent.at(1000, SourcePolled("aws", "notice", "instance-action"), preemption(1120))
    real = agent.notice_id
    agent.at(1000.004, AllTold(real, 2), CordonEnded(real, cordoned=True))
    agent.at(1000.1, EvictionReported(real, "default/web-0", "evicted"))
    agent.at(1000.2, EvictionReported(real, "default/db-0", "blocked", "needs 3 healthy pods"))
    agent.at(1001, Intended("s0", real, "save"))
    agent.at(1015, flushed(0, real))
    agent.at(1020, ProcessDied("41@1"), DrainEnded(real, "drained"))
    agent.readings.read(GPU_0, 1018.0, idle_ratio=0.0625)
    agent.readings.read(GPU_1, 498.0)
    agent.readings.look = NodeLook(at=1000.0, driver_count=1, pci_count=2)
    return agent


def test_a_fresh_agent_shows_every_series_that_can_be_known_at_zero(
    check_golden: CheckGolden,
) -> None:
    check_golden("metrics_fresh.txt", Agent().shown())


def test_a_story_is_counted_as_it_went(check_golden: CheckGolden) -> None:
    check_golden("metrics_story.txt", story().shown())


def test_a_rehearsal_moves_no_real_figure() -> None:
    agent = Agent()
    agent.at(100, Started())
    agent.at(102, joined(0), joined(1))
    before = agent.shown().splitlines()

    rehearse(agent)

    changed = {line.split(" ")[0] for line in agent.shown().splitlines() if line not in before}
    counted = {re.sub(r",?le=\"[^\"]*\"|\{\}", "", name) for name in changed}
    assert {name for name in counted if not name.startswith("lastcall_checkpoint")} == {
        'lastcall_notices_total{kind="preemption",source="manual"}',
        'lastcall_notice_lead_seconds_bucket{kind="preemption",source="manual"}',
        'lastcall_notice_lead_seconds_count{kind="preemption",source="manual"}',
        'lastcall_notice_lead_seconds_sum{kind="preemption",source="manual"}',
        'lastcall_flushes_total{kind="manual",outcome="in_time"}',
        'lastcall_drills_total{outcome="passed"}',
        "lastcall_signal_seconds_bucket{}",
        "lastcall_signal_seconds_count",
        "lastcall_signal_seconds_sum",
        "lastcall_flush_seconds_bucket{}",
        "lastcall_flush_seconds_count",
        "lastcall_flush_seconds_sum",
        'lastcall_flush_predicted_seconds{job="llama"}',
    }


def test_prometheus_finds_nothing_to_complain_of() -> None:
    promtool = need_program("promtool", "prometheus")
    text = generate_latest(story().metrics.registry)

    checked = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, check=False, timeout=20
    )

    assert (checked.returncode, checked.stderr.decode()) == (0, "")
