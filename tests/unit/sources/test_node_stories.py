"""What becomes of other controllers' marks: what training is told and what is done to the node."""

from __future__ import annotations

from typing import Any

import pytest

from lastcall.core.commands import CallOff, Cordon, Drain, Tell
from lastcall.core.events import Event, SourceReported, Started
from lastcall.core.facts import NoticeEnded, NoticeSeen, NoticeTold
from lastcall.core.model import DeadlineQuality, Phase, Stance, Urgency
from lastcall.core.policy import Rule
from lastcall.core.turn import Settings
from lastcall.sources.node import NodeSource
from support.hand_clocks import HandClocks
from support.happenings import (
    EVENTS,
    PREEMPTED,
    SPOT,
    UNIX_AT_ZERO,
    azure,
    flushed,
    joined,
    preempted,
    spot,
)
from support.story import Decided, Story, a_node, ruled

DAY = 86400.0
KARPENTER = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
AUTOSCALER = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000"}
SPOT_ITN = {"key": "aws-node-termination-handler/spot-itn", "value": "spot-itn-1"}
IMPENDING = {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
COREWEAVE = "qos.coreweave.cloud/pending-preemption"
SCHEDULED = "cloud.google.com/scheduled-maintenance-time"


class Tale:
    """A node with one training process, and the source that is shown the node object.

    Attributes:
        story: the node.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.story: Story = a_node(settings)
        self._clocks = HandClocks(0.0, UNIX_AT_ZERO)
        self._events: list[Event] = []
        self._source = NodeSource(self._events.append, self._clocks)

    def at(
        self, now: float, *taints: dict[str, str], azure_says: str = "", **labels: str
    ) -> Decided:
        """Show the node object at a time; return what was decided since."""
        self._clocks.go_on(now - self._clocks.monotonic())
        self._events.clear()
        self._source.see(
            {
                "kind": "Node",
                "metadata": {"name": "node-a", "labels": labels},
                "spec": {"taints": list(taints)},
                "status": {"conditions": _conditions(azure_says)},
            }
        )
        return self.story.at(now, *self._events)

    def restart(self) -> None:
        """Begin with a new source, as an agent that has come up again does."""
        self._source = NodeSource(self._events.append, self._clocks)

    @property
    def touched(self) -> bool:
        """Whether anything was done to the node so far."""
        decided = self.story.decided
        return bool(decided.commands(Cordon) or decided.commands(Drain))


def _conditions(azure_says: str) -> list[dict[str, Any]]:
    if not azure_says:
        return []
    return [{"type": "VMEventScheduled", "status": "True", "message": azure_says}]


@pytest.fixture
def tale() -> Tale:
    return Tale()


@pytest.mark.parametrize("taint", [KARPENTER, AUTOSCALER])
def test_a_controller_that_may_think_better_of_it_leads_to_an_early_checkpoint(
    tale: Tale, taint: dict[str, str]
) -> None:
    tale.at(0)

    shown = tale.at(10, taint).command(Tell).notice

    assert (shown.urgency, shown.source, shown.deadline) == (Urgency.SOON, "node", None)
    assert shown.cancellable
    decided = tale.at(60)
    assert decided.command(CallOff).id == shown.id
    assert decided.fact(NoticeEnded).ending == "withdrawn"
    assert not tale.touched


def test_an_advice_stands_as_long_as_the_mark(tale: Tale) -> None:
    tale.at(0, KARPENTER)

    assert tale.at(DAY, KARPENTER).commands(CallOff) == []
    assert tale.story.notice().open


def test_a_mark_that_comes_back_is_told_again(tale: Tale) -> None:
    tale.at(0, KARPENTER)
    tale.at(60)

    decided = tale.at(120, KARPENTER)

    assert decided.fact(NoticeTold).notice.id != tale.story.notices()[0].id


def test_a_clouds_own_notice_takes_the_place_of_the_advice(tale: Tale) -> None:
    tale.at(0, KARPENTER)
    advice = tale.story.notice().id

    decided = tale.story.at(30, SPOT.shows(spot(150)))

    real = decided.command(Tell).notice
    assert (real.urgency, real.supersedes) == (Urgency.NOW, (advice,))
    assert decided.command(CallOff).id == advice
    assert decided.commands(Cordon)


def test_an_advice_during_an_interruption_is_not_told(tale: Tale) -> None:
    tale.story.at(0, SPOT.shows(spot(120)))

    assert tale.at(5, KARPENTER).commands(Tell) == []


def test_coreweave_has_training_stop_and_empties_the_node_itself(tale: Tale) -> None:
    decided = tale.at(10, **{COREWEAVE: "true"})

    shown = decided.command(Tell).notice
    assert (shown.urgency, shown.deadline) == (Urgency.NOW, 430.0)
    assert shown.deadline_quality is DeadlineQuality.ASSUMED
    tale.story.at(60, flushed("s0", shown.id))
    tale.story.at(500)
    assert not tale.touched


def test_a_handler_that_saw_the_same_shortens_no_deadline(tale: Tale) -> None:
    tale.story.at(0, SPOT.shows(spot(120)))

    decided = tale.at(4, SPOT_ITN)

    assert decided.commands(Tell) == decided.facts(NoticeSeen) == []
    notice = tale.story.notice()
    assert notice.deadline == 120
    assert notice.nearest.quality is DeadlineQuality.PROVIDER


def test_a_handler_that_alone_saw_it_is_believed(tale: Tale) -> None:
    shown = tale.at(4, SPOT_ITN).command(Tell).notice

    assert (shown.urgency, shown.deadline) == (Urgency.NOW, 124.0)
    assert not tale.touched


def test_gke_and_its_metadata_server_are_one_incident(tale: Tale) -> None:
    tale.at(0, IMPENDING)

    decided = tale.story.at(1, PREEMPTED.shows(preempted()))

    assert decided.facts(NoticeSeen) == []
    notice = tale.story.notice()
    assert {claim.sighting.source for claim in notice.claims} == {"node", "gcp"}
    assert notice.drains


def test_aks_and_the_metadata_service_tell_of_one_event(tale: Tale) -> None:
    at_30_seconds = "Tue, 14 Nov 2023 22:13:50 GMT"

    decided = tale.at(0, azure_says=f"Preempt Scheduled: {at_30_seconds}.")
    assert decided.command(Tell).notice.deadline == 30
    assert decided.command(Tell).notice.deadline_quality is DeadlineQuality.PROVIDER
    tale.story.at(1, EVENTS.shows(azure("Preempt", 30)))

    assert tale.story.notice().deadline == 30


def test_an_event_that_starts_is_still_the_same(tale: Tale) -> None:
    event_id = "EventId: 40B7BD88-C56E-44E4-93F6-75CEDACE2869"
    tale.at(0, azure_says=f"Preempt Scheduled: Tue, 14 Nov 2023 22:13:50 GMT. {event_id}")

    decided = tale.at(25, azure_says="Preempt Started.")

    assert decided.commands(CallOff) == decided.facts(NoticeSeen) == []
    assert tale.story.notice().deadline == 30


def test_scheduled_maintenance_is_known_for_days_and_told_in_time(tale: Tale) -> None:
    label = {SCHEDULED: str(int(UNIX_AT_ZERO + 3 * DAY))}
    decided = tale.at(0, **label)
    assert decided.fact(NoticeSeen).lead_seconds == 3 * DAY
    assert tale.story.phase is Phase.SEEN

    assert tale.at(3 * DAY - 901, **label).commands(Tell) == []
    shown = tale.at(3 * DAY - 900, **label).command(Tell).notice

    assert (shown.urgency, shown.deadline) == (Urgency.SOON, 3 * DAY)
    assert not tale.touched


def test_a_restart_tells_nobody_twice(tale: Tale) -> None:
    tale.at(0, KARPENTER)
    tale.story.at(10, Started(), joined("s1", process="process of s0"))
    tale.restart()

    decided = tale.at(11, KARPENTER)

    assert decided.commands(Tell) == decided.facts(NoticeSeen) == []
    assert len(tale.story.notices()) == 1


def test_a_heartbeat_hands_the_machine_no_report(tale: Tale) -> None:
    tale.at(0, KARPENTER)
    for minute in range(1, 60):
        tale.at(minute * 60.0, KARPENTER)

    handled = [event for _, event in tale.story.handled if isinstance(event, SourceReported)]
    assert len(handled) == 1


def test_a_rule_makes_an_end_of_an_advice() -> None:
    tale = Tale(
        ruled(Rule("node", code="ToBeDeleted*", stance=Stance.FLUSH, assumed_lead_seconds=60.0))
    )

    shown = tale.at(0, AUTOSCALER).command(Tell).notice

    assert (shown.urgency, shown.deadline) == (Urgency.NOW, 60.0)
