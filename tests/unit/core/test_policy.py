"""What is done about each kind of sighting, and how a site's own rules change it."""

from __future__ import annotations

import pytest

from lastcall.core.model import Action, Kind, Response, Sighting, Stance
from lastcall.core.policy import Policy, Rule
from support.happenings import (
    announced_by_file,
    azure,
    host_maintenance,
    preempted,
    rebalance,
    scheduled,
    shutdown,
    spot,
    terminated,
)


@pytest.mark.parametrize(
    ("sighting", "response"),
    [
        (spot(120), Response(Stance.FLUSH, True, assumed_lead_seconds=120)),
        (terminated(), Response(Stance.FLUSH, True, assumed_lead_seconds=60)),
        (rebalance(), Response(Stance.ADVISE, False, expires_seconds=1800)),
        (scheduled(9), Response(Stance.FLUSH, True, act_before_seconds=900)),
        (preempted(), Response(Stance.FLUSH, True, assumed_lead_seconds=30)),
        (
            host_maintenance("TERMINATE_ON_HOST_MAINTENANCE"),
            Response(Stance.FLUSH, True, assumed_lead_seconds=3600),
        ),
        (host_maintenance("MIGRATE_ON_HOST_MAINTENANCE"), Response(Stance.INFORM, False)),
        (azure("Preempt", 9), Response(Stance.FLUSH, True, assumed_lead_seconds=30)),
        (azure("Freeze", 9), Response(Stance.INFORM, False)),
        (azure("SomethingNew", 9), Response(Stance.INFORM, False)),
        (
            azure("Redeploy", 9),
            Response(Stance.FLUSH, True, act_before_seconds=900, assumed_lead_seconds=600),
        ),
        (shutdown(), Response(Stance.FLUSH, True, assumed_lead_seconds=5)),
        (announced_by_file(), Response(Stance.FLUSH, True, assumed_lead_seconds=30)),
    ],
    ids=lambda value: f"{value.kind} {value.code}" if isinstance(value, Sighting) else "",
)
def test_what_is_built_in(sighting: Sighting, response: Response) -> None:
    assert Policy().respond(sighting) == response


@pytest.mark.parametrize(
    ("source", "kind", "code", "response"),
    [
        ("file", "preemption", "", Response(Stance.FLUSH, True, assumed_lead_seconds=30)),
        ("file", "maintenance", "", Response(Stance.FLUSH, True, 900, assumed_lead_seconds=30)),
        ("file", "rebalance", "", Response(Stance.ADVISE, False, expires_seconds=1800)),
        ("url", "termination", "", Response(Stance.FLUSH, True, assumed_lead_seconds=30)),
        ("url", "maintenance", "", Response(Stance.FLUSH, True, 900, assumed_lead_seconds=30)),
        ("url", "preemption", "alibaba", Response(Stance.FLUSH, True, assumed_lead_seconds=300)),
        ("url", "preemption", "tencent", Response(Stance.FLUSH, True, assumed_lead_seconds=60)),
        ("schedule", "termination", "", Response(Stance.FLUSH, True, assumed_lead_seconds=30)),
    ],
)
def test_what_a_site_has_announced_by_itself_is_acted_upon_though_no_time_is_stated(
    source: str, kind: str, code: str, response: Response
) -> None:
    seen = Sighting(
        source=source, scope="", key="", kind=Kind(kind), action=Action.UNKNOWN, code=code
    )

    assert Policy().respond(seen) == response


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (Rule(), True),
        (Rule(source="aws"), True),
        (Rule(source="a*", kind="maint*", code="system-*"), True),
        (Rule(source="gcp"), False),
        (Rule(kind="preemption"), False),
        (Rule(code="instance-stop"), False),
        (Rule(code="SYSTEM-REBOOT"), False),
    ],
)
def test_a_rule_speaks_of_what_all_its_patterns_match(rule: Rule, matches: bool) -> None:
    assert rule.matches(scheduled(9)) is matches


def test_the_first_rule_that_matches_holds_and_leaves_the_rest_as_built_in() -> None:
    policy = Policy(
        (
            Rule(source="gcp", drain=False),
            Rule(code="system-reboot", act_before_seconds=60.0),
            Rule(source="aws", act_before_seconds=10.0, drain=False),
        )
    )

    response = policy.respond(scheduled(9))

    assert (response.act_before_seconds, response.drain) == (60.0, True)


def marked(code: str, kind: Kind, action: Action = Action.TERMINATE) -> Sighting:
    """Return what another controller put on the node."""
    return Sighting(source="node", scope="node", key=code, kind=kind, action=action, code=code)


@pytest.mark.parametrize(
    ("sighting", "response"),
    [
        (
            marked("Preempt", Kind.PREEMPTION),
            Response(Stance.FLUSH, True, assumed_lead_seconds=30),
        ),
        (
            marked("NodeShutdown", Kind.SHUTDOWN, Action.STOP),
            Response(Stance.FLUSH, False, assumed_lead_seconds=15),
        ),
        (
            marked("cloud.google.com/impending-node-termination", Kind.TERMINATION),
            Response(Stance.FLUSH, False, assumed_lead_seconds=30),
        ),
        (
            marked("qos.coreweave.cloud/pending-preemption", Kind.PREEMPTION),
            Response(Stance.FLUSH, False, assumed_lead_seconds=420),
        ),
        (
            marked("aws-node-termination-handler/spot-itn", Kind.PREEMPTION),
            Response(Stance.FLUSH, False, assumed_lead_seconds=120),
        ),
        (
            marked("aws-node-termination-handler/asg-lifecycle-termination", Kind.TERMINATION),
            Response(Stance.FLUSH, False, assumed_lead_seconds=60),
        ),
        (
            marked("node.gke.io/machine-termination-datetime", Kind.TERMINATION),
            Response(Stance.FLUSH, True, act_before_seconds=900),
        ),
        (
            marked("Redeploy", Kind.MAINTENANCE, Action.REDEPLOY),
            Response(Stance.FLUSH, True, act_before_seconds=900, assumed_lead_seconds=600),
        ),
        (
            marked("Freeze", Kind.MAINTENANCE, Action.FREEZE),
            Response(Stance.INFORM, False),
        ),
        (
            marked("cloud.google.com/scheduled-maintenance-time", Kind.MAINTENANCE),
            Response(Stance.ADVISE, False, act_before_seconds=900),
        ),
        (
            marked("ToBeDeletedByClusterAutoscaler", Kind.TERMINATION),
            Response(Stance.ADVISE, False),
        ),
        (
            marked("SpotRebalanceRecommendation", Kind.REBALANCE, Action.NONE),
            Response(Stance.ADVISE, False),
        ),
        (
            marked("a site's own", Kind.PREEMPTION),
            Response(Stance.ADVISE, False),
        ),
    ],
    ids=lambda value: value.code if isinstance(value, Sighting) else "",
)
def test_another_controllers_mark_is_an_advice_unless_the_end_is_certain(
    sighting: Sighting, response: Response
) -> None:
    assert Policy().respond(sighting) == response


def test_a_site_knows_how_long_its_pods_may_take() -> None:
    sighting = marked("cloud.google.com/impending-node-termination", Kind.TERMINATION)

    response = Policy(assumed_lead_seconds={"node.termination": 600.0}).respond(sighting)

    assert response == Response(Stance.FLUSH, False, assumed_lead_seconds=600)


def test_a_rule_that_asks_for_a_flush_gives_it_a_deadline() -> None:
    response = Policy((Rule(kind="rebalance", stance=Stance.FLUSH),)).respond(rebalance())

    assert response.assumed_lead_seconds == 30


@pytest.mark.parametrize("stance", [Stance.ADVISE, Stance.INFORM])
def test_only_a_node_that_is_going_is_drained(stance: Stance) -> None:
    response = Policy((Rule(stance=stance, drain=True),)).respond(spot(120))

    assert response.drain is False


@pytest.mark.parametrize(
    ("assumed", "sighting", "lead_seconds"),
    [
        ({"gcp": 120.0}, preempted(), 120),
        ({"gcp": 120.0}, host_maintenance("TERMINATE_ON_HOST_MAINTENANCE"), 3600),
        (
            {"gcp.maintenance": 600.0},
            host_maintenance("TERMINATE_ON_HOST_MAINTENANCE"),
            600,
        ),
        ({"gcp": 120.0, "gcp.preemption": 25.0}, preempted(), 25),
        ({"shutdown.shutdown": 2.0}, shutdown(), 2),
        ({"aws.rebalance": 9.0}, rebalance(), None),
    ],
)
def test_an_assumed_lead_is_the_sites_where_it_gives_one(
    assumed: dict[str, float], sighting: Sighting, lead_seconds: float | None
) -> None:
    response = Policy(assumed_lead_seconds=assumed).respond(sighting)

    assert response.assumed_lead_seconds == lead_seconds


@pytest.mark.parametrize(("provider", "seconds"), [("aws", 120), ("gcp", 30), ("azure", 30)])
def test_the_lead_to_reckon_with_is_a_preemptions(provider: str, seconds: float) -> None:
    assert Policy().expected_lead_seconds(provider) == seconds


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("source", ["aws", "gcp", "azure", "node", "unheard-of"])
def test_there_is_an_answer_to_everything(source: str, kind: Kind, action: Action) -> None:
    sighting = Sighting(source=source, scope="", key="", kind=kind, action=action)

    response = Policy().respond(sighting)

    assert not (response.drain and response.stance is not Stance.FLUSH)
