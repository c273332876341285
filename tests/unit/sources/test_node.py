"""What a source reports of the node object over time, also where that is not what it should be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastcall.core.events import SourcePolled
from lastcall.core.model import Action, Kind
from lastcall.record.journal_lines import Entry, encode_line
from lastcall.sources.node import NodeSource
from lastcall.sources.node_marks import Place
from lastcall.sources.node_signs import SIGNS, Sign
from support.hand_clocks import HandClocks
from support.watched_source import Recorder

KARPENTER = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
AUTOSCALER = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1899999990"}
EVENT_ID = "40b7bd88-c56e-44e4-93f6-75cedace2869"
PREEMPT = f"Preempt Scheduled: Sun, 17 Mar 2030 17:47:10 GMT. EventId: {EVENT_ID}"


def node(
    *taints: object, condition: tuple[str, str] | None = None, **labels: str
) -> dict[str, Any]:
    """Return a node object; the condition is AKS's, as status and message."""
    status, message = condition or ("False", "VM has no scheduled event")
    return {
        "kind": "Node",
        "metadata": {"name": "node-a", "labels": labels},
        "spec": {"taints": list(taints)},
        "status": {
            "conditions": [{"type": "VMEventScheduled", "status": status, "message": message}]
        },
    }


class Stage:
    """A source that is shown objects, and what it reports."""

    def __init__(self, *signs: Sign) -> None:
        self.clocks = HandClocks()
        self.seen = Recorder()
        self.source = NodeSource(self.seen, self.clocks, signs or SIGNS)

    def shows(self, *bodies: object) -> list[str]:
        """Show objects one after the other; return the codes that were last reported."""
        for body in bodies:
            self.source.see(body)
        return [sighting.code for sighting in self.seen.standing("node")]

    @property
    def reports(self) -> int:
        return len(self.seen.reports("node"))

    @property
    def last_counts(self) -> bool:
        """Whether the last report lets go what it does not name."""
        return self.seen.reports("node")[-1].absences_to_withdraw == 1


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_look_that_finds_nothing_is_reported_once(stage: Stage) -> None:
    assert stage.shows(node(), node()) == []

    assert stage.reports == 1
    assert stage.seen.results("node") == ["ok", "ok"]


def test_a_sign_is_reported_when_it_comes_and_withdrawn_when_it_goes(stage: Stage) -> None:
    assert stage.shows(node(), node(KARPENTER)) == ["karpenter.sh/disrupted"]
    assert stage.shows(node()) == []

    assert stage.last_counts
    assert stage.seen.results("node") == ["ok", "notice", "ok"]


def test_a_sign_that_stands_at_the_start_is_reported(stage: Stage) -> None:
    assert stage.shows(node(KARPENTER)) == ["karpenter.sh/disrupted"]


def test_a_heartbeat_is_no_news(stage: Stage) -> None:
    body = node(KARPENTER, condition=("True", PREEMPT))
    stage.shows(body)
    for count in range(20):
        stage.clocks.go_on(10.0)
        # The clocks of a real machine drift apart.
        stage.clocks.wall_seconds += 0.0003
        later = json.loads(json.dumps(body))
        later["metadata"]["resourceVersion"] = str(count)
        later["status"]["conditions"][0]["lastHeartbeatTime"] = f"2030-03-17T17:46:{count:02}Z"
        stage.shows(later)

    assert stage.reports == 1
    assert len(stage.seen.results("node")) == 21


def test_marks_of_others_are_no_news(stage: Stage) -> None:
    stage.shows(node(KARPENTER), node(KARPENTER, {"key": "example.com/x"}, zone="a"))

    assert stage.reports == 1


def test_a_second_sign_is_reported_beside_the_first(stage: Stage) -> None:
    codes = stage.shows(node(KARPENTER), node(KARPENTER, AUTOSCALER))

    assert codes == ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"]


def test_a_taint_of_two_effects_is_one_sign(stage: Stage) -> None:
    both = node(KARPENTER, {**KARPENTER, "effect": "NoExecute"})

    assert stage.shows(both) == ["karpenter.sh/disrupted"]


def test_a_new_occurrence_has_another_name(stage: Stage) -> None:
    stage.shows(node(AUTOSCALER), node({**AUTOSCALER, "value": "1899999999"}))

    names = [report.sightings[0].identity for report in stage.seen.reports("node")]
    assert names == ["1899999990", "1899999999"]


def test_a_deadline_that_is_moved_is_reported(stage: Stage) -> None:
    label = "cloud.google.com/scheduled-maintenance-time"
    stage.shows(node(**{label: "1900000100"}), node(**{label: "1900000200"}))

    assert [one.sightings[0].deadline for one in stage.seen.reports("node")] == [200.0, 300.0]


def test_a_deadline_is_told_from_the_moment_of_the_look(stage: Stage) -> None:
    stage.clocks.go_on(7.0)
    stage.shows(node(condition=("True", PREEMPT)))

    (sighting,) = stage.seen.standing("node")
    assert sighting.deadline == 130.0


def test_an_event_keeps_its_name_when_it_starts(stage: Stage) -> None:
    stage.shows(node(condition=("True", PREEMPT)), node(condition=("True", "Preempt Started.")))

    (sighting,) = stage.seen.standing("node")
    assert (sighting.identity, sighting.started, sighting.deadline) == (EVENT_ID, True, None)


def test_a_name_that_comes_later_makes_it_no_other_event(stage: Stage) -> None:
    stage.shows(node(condition=("True", "Preempt Scheduled.")), node(condition=("True", PREEMPT)))

    (sighting,) = stage.seen.standing("node")
    assert (sighting.identity, sighting.deadline) == ("", 130.0)


def test_unknown_is_not_clear(stage: Stage) -> None:
    stage.shows(node(condition=("True", PREEMPT)), node(condition=("Unknown", "timeout")))
    assert [one.code for one in stage.seen.standing("node")] == ["Preempt"]

    assert stage.shows(node(condition=("False", "VM has no scheduled event"))) == []


def test_unknown_holds_up_no_other_sign(stage: Stage) -> None:
    assert stage.shows(node(KARPENTER), node(condition=("Unknown", "timeout"))) == []
    assert stage.last_counts


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "node",
        {},
        {"kind": "Node"},
        {"kind": "Node", "metadata": None},
        {"kind": "Node", "metadata": {"resourceVersion": "7"}},
        {"kind": "Node", "metadata": {"name": 7}},
        {"kind": "Status", "metadata": {"name": "node-a"}, "code": 410},
    ],
)
def test_what_is_no_node_withdraws_nothing(stage: Stage, body: object) -> None:
    stage.shows(node(KARPENTER))

    assert stage.shows(body) == ["karpenter.sh/disrupted"]
    assert stage.reports == 1
    assert stage.seen.results("node")[-1] == "malformed"


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": {"name": "node-a", "labels": ["x"]}},
        {"metadata": {"name": "node-a", "labels": {"x": 7}}},
        {"metadata": {"name": "node-a", "annotations": "x"}},
        {"spec": "x"},
        {"spec": {"taints": {}}},
        {"spec": {"taints": ["x"]}},
        {"spec": {"taints": [{"value": "no key"}]}},
        {"spec": {"taints": [{"key": "x", "value": 7}]}},
        {"status": []},
        {"status": {"conditions": "x"}},
        {"status": {"conditions": [None]}},
        {"status": {"conditions": [{"type": "VMEventScheduled", "status": True}]}},
    ],
)
def test_what_cannot_be_read_whole_withdraws_nothing(stage: Stage, broken: dict[str, Any]) -> None:
    stage.shows(node(KARPENTER, AUTOSCALER))
    stage.shows(node(KARPENTER) | broken)
    assert not stage.last_counts
    assert stage.seen.results("node")[-1] == "malformed"
    assert stage.seen.polls("node")[-1].detail

    assert stage.shows(node(KARPENTER)) == ["karpenter.sh/disrupted"]
    assert stage.last_counts


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"name": "node-a"}},
        {"metadata": {"name": "node-a", "labels": None}, "spec": None, "status": None},
        {"metadata": {"name": "node-a"}, "spec": {}, "status": {"conditions": None}},
    ],
)
def test_what_is_not_there_says_that_nothing_stands(stage: Stage, body: object) -> None:
    assert stage.shows(node(KARPENTER), body) == []
    assert stage.seen.results("node")[-1] == "ok"


def test_one_broken_entry_hides_no_other(stage: Stage) -> None:
    assert stage.shows(node("broken", KARPENTER)) == ["karpenter.sh/disrupted"]


def test_a_broken_watch_is_trouble_and_withdraws_nothing(stage: Stage) -> None:
    stage.shows(node(KARPENTER))

    stage.source.unseen("watch nodes: status 503")
    stage.source.unseen("x" * 1000, "unauthorized")

    first, second = stage.seen.polls("node")[-2:]
    assert first == SourcePolled("node", "error", "node", "watch nodes: status 503")
    assert (second.result, len(second.detail)) == ("unauthorized", 200)
    assert stage.reports == 1


def test_a_sign_that_went_while_the_watch_was_broken_is_withdrawn_at_the_next_look(
    stage: Stage,
) -> None:
    stage.shows(node(KARPENTER))
    stage.source.unseen("watch nodes: no connection")

    assert stage.shows(node()) == []


def own(place: Place, key: str) -> Sign:
    return Sign(
        place=place,
        keys=(key,),
        kind=Kind.TERMINATION,
        action=Action.UNKNOWN,
        code="example",
        reason="a controller of the site's own",
        origin="here",
    )


def test_the_signs_are_the_callers() -> None:
    stage = Stage(own(Place.LABEL, "example.com/going"))

    assert stage.shows(node(KARPENTER, **{"example.com/going": "yes"})) == ["example"]


@pytest.mark.parametrize(
    ("place", "body"),
    [
        (Place.LABEL, node(**{"lastcall.dev/notice": "preemption"})),
        (Place.TAINT, node({"key": "lastcall.dev/notice", "value": "preemption"})),
        (
            Place.ANNOTATION,
            {"metadata": {"name": "a", "annotations": {"lastcall.dev/notice": "x"}}},
        ),
    ],
)
def test_our_own_marks_never_count(place: Place, body: object) -> None:
    assert Stage(own(place, "lastcall.dev/notice")).shows(body) == []


def test_our_own_condition_never_counts() -> None:
    stage = Stage(own(Place.CONDITION, "InterruptionNotice"))
    ours = {"type": "InterruptionNotice", "status": "True", "message": "preemption"}

    assert stage.shows({"metadata": {"name": "a"}, "status": {"conditions": [ours]}}) == []


# --- any object at all -----------------------------------------------------------------------

texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from([*(key for sign in SIGNS for key in sign.keys), "True", "Unknown", PREEMPT]),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
entries = st.one_of(
    anything,
    st.lists(
        st.one_of(
            anything,
            st.fixed_dictionaries(
                {},
                optional={
                    "key": st.one_of(texts, anything),
                    "type": st.one_of(texts, anything),
                    "status": st.one_of(texts, anything),
                    "value": st.one_of(texts, anything),
                    "message": st.one_of(texts, anything),
                    "timeAdded": st.one_of(texts, anything),
                },
            ),
        ),
        max_size=4,
    ),
)
texts_by_key = st.one_of(anything, st.dictionaries(texts, st.one_of(texts, anything), max_size=4))
almost_nodes = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.just("node-a")}, optional={
        "labels": texts_by_key, "annotations": texts_by_key,
    })},
    optional={
        "spec": st.one_of(anything, st.fixed_dictionaries({"taints": entries})),
        "status": st.one_of(anything, st.fixed_dictionaries({"conditions": entries})),
    },
)  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(st.one_of(anything, almost_nodes), min_size=1, max_size=3))
def test_no_object_raises_and_every_report_can_be_kept(bodies: list[object]) -> None:
    stage = Stage()

    stage.shows(*bodies)

    assert len(stage.seen.results("node")) == len(bodies)
    assert set(stage.seen.results("node")) <= {"ok", "notice", "malformed"}
    for report in stage.seen.reports("node"):
        assert encode_line(Entry("boot", 1.0, 2.0, report))
