"""EC2's metadata service: its paths, its events, and how they are taken back."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from lastcall.simulate.aws import EVENT_CODES, TOKEN_HEADER
from support.metadata_clients import AWS_META

NOW = 1_935_520_000.0

# --- paths -----------------------------------------------------------------------------------


async def test_directories_are_listed(aws_reader):
    assert (await aws_reader.text("/latest/")).split("\n") == ["dynamic", "meta-data"]
    assert await aws_reader.text("/") == "latest"
    names = (await aws_reader.text(f"{AWS_META}/")).split("\n")
    assert names == sorted(names)
    assert {"instance-id", "placement/", "events/", "autoscaling/"} <= set(names)
    assert await aws_reader.text(f"{AWS_META}/events") == "maintenance/"
    assert await aws_reader.text("/2021-03-23/meta-data/instance-id") == "i-0rehearsal00000000"


@pytest.mark.parametrize(
    "path", ["/nothing", "/latest/nothing", f"{AWS_META}/instance-id/", "/1/x"]
)
async def test_an_unknown_path_is_404(aws_reader, path):
    assert await aws_reader.status(path) == 404


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instance-id", "i-0rehearsal00000000"),
        ("instance-type", "p5.48xlarge"),
        ("instance-life-cycle", "spot"),
        ("instance-action", "none"),
        ("local-ipv4", "192.0.2.10"),
        ("local-hostname", "ip-192-0-2-10.xx-rehearsal-1.compute.internal"),
        ("hostname", "ip-192-0-2-10.xx-rehearsal-1.compute.internal"),
        ("placement/region", "xx-rehearsal-1"),
        ("placement/availability-zone", "xx-rehearsal-1a"),
        ("placement/availability-zone-id", "xxr1-az1"),
        ("autoscaling/target-lifecycle-state", "InService"),
    ],
)
async def test_plain_values_are_text(aws_reader, path, value):
    assert await aws_reader.text(f"{AWS_META}/{path}") == value


async def test_the_identity_document_agrees_with_the_values(aws_reader):
    identity = json.loads(await aws_reader.text("/latest/dynamic/instance-identity/document"))

    assert identity["instanceId"] == await aws_reader.text(f"{AWS_META}/instance-id")
    assert identity["region"] == await aws_reader.text(f"{AWS_META}/placement/region")
    assert identity["kernelId"] is None


async def test_tags_are_404_unless_allowed(aws, aws_reader):
    assert await aws_reader.status(f"{AWS_META}/tags/instance/") == 404

    aws.tags = {"Name": "node-1", "team": "x"}

    assert await aws_reader.text(f"{AWS_META}/tags/instance/") == "Name\nteam"
    assert await aws_reader.text(f"{AWS_META}/tags/instance/Name") == "node-1"


async def test_another_verb_on_a_value_is_405(http, aws_url):
    async with http.post(f"{aws_url}{AWS_META}/instance-id") as answer:
        assert answer.status == 405


async def test_an_override_replaces_an_answer_for_those_let_through(http, aws_url, aws, aws_reader):
    aws.override(f"{AWS_META}/spot/termination-time", "none")

    assert await aws_reader.text(f"{AWS_META}/spot/termination-time") == "none"
    async with http.get(f"{aws_url}{AWS_META}/spot/termination-time") as answer:
        assert answer.status == 401


# --- notices ---------------------------------------------------------------------------------


async def test_an_idle_instance_shows_no_notice(aws_reader):
    for path in [
        "spot",
        "spot/instance-action",
        "spot/termination-time",
        "events/recommendations/rebalance",
    ]:
        assert await aws_reader.status(f"{AWS_META}/{path}") == 404
    assert await aws_reader.text(f"{AWS_META}/events/maintenance/scheduled") == "[]"
    assert await aws_reader.text(f"{AWS_META}/events/maintenance/history") == "[]"


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("preemption", "terminate"),
        ("terminate", "terminate"),
        ("stop", "stop"),
        ("hibernate", "hibernate"),
    ],
)
async def test_a_spot_interruption_has_a_time_that_stays(aws, clock, aws_reader, kind, action):
    raised = aws.raise_notice(kind)

    for later in (0, 60, 600):
        clock.seconds = NOW + later
        content = json.loads(await aws_reader.text(f"{AWS_META}/spot/instance-action"))
        assert content == {"action": action, "time": "2031-05-02T20:28:40Z"}
    assert raised.deadline_unix == NOW + 120
    assert "instance-action" in await aws_reader.text(f"{AWS_META}/spot/")


async def test_only_a_termination_has_a_termination_time(aws, aws_reader):
    aws.raise_notice("terminate", 30)
    assert await aws_reader.text(f"{AWS_META}/spot/termination-time") == "2031-05-02T20:27:10Z"

    aws.raise_notice("stop", 30)
    assert await aws_reader.status(f"{AWS_META}/spot/termination-time") == 404


async def test_a_rebalance_recommendation_says_when_it_was_given(aws, clock, aws_reader):
    raised = aws.raise_notice("rebalance")
    clock.seconds += 60

    content = json.loads(await aws_reader.text(f"{AWS_META}/events/recommendations/rebalance"))

    assert content == {"noticeTime": "2031-05-02T20:26:40Z"}
    assert raised.deadline_unix is None


@pytest.mark.parametrize("kind", ["termination", "asg"])
async def test_a_scale_in_changes_the_target_state(aws, aws_reader, kind):
    aws.raise_notice(kind)
    assert await aws_reader.text(f"{AWS_META}/autoscaling/target-lifecycle-state") == "Terminated"

    aws.withdraw()
    assert await aws_reader.text(f"{AWS_META}/autoscaling/target-lifecycle-state") == "InService"


async def test_outside_a_group_there_is_no_target_state(aws, aws_reader):
    aws.lifecycle_state = None
    aws.withdraw()

    assert await aws_reader.status(f"{AWS_META}/autoscaling/target-lifecycle-state") == 404


@pytest.mark.parametrize("code", EVENT_CODES)
async def test_a_scheduled_event_is_written_in_its_own_date_form(aws, aws_reader, code):
    aws.raise_notice(code, lead_seconds=3600)

    [event] = json.loads(await aws_reader.text(f"{AWS_META}/events/maintenance/scheduled"))

    assert event["Code"] == code
    assert event["State"] == "active"
    assert event["NotBefore"] == "02 May 2031 21:26:40 GMT"
    assert re.fullmatch("instance-event-0[0-9a-f]{16}", event["EventId"])
    if code in {"instance-stop", "instance-retirement"}:
        assert "NotAfter" not in event
    else:
        assert event["NotAfter"] == "02 May 2031 21:43:20 GMT"


async def test_maintenance_is_a_system_reboot(aws, aws_reader):
    aws.raise_notice("maintenance")

    [event] = json.loads(await aws_reader.text(f"{AWS_META}/events/maintenance/scheduled"))
    assert event["Code"] == "system-reboot"


@pytest.mark.parametrize("stays", [True, False])
async def test_a_withdrawn_event_is_history(aws, aws_reader, stays):
    aws.canceled_stay_listed = stays
    aws.raise_notice("system-reboot")

    aws.withdraw()

    scheduled = json.loads(await aws_reader.text(f"{AWS_META}/events/maintenance/scheduled"))
    [event] = json.loads(await aws_reader.text(f"{AWS_META}/events/maintenance/history"))
    assert event["State"] == "canceled"
    assert event["Description"].startswith("[Canceled] ")
    assert scheduled == ([event] if stays else [])


async def test_a_completed_event_is_history(aws, aws_reader):
    aws.raise_notice("system-reboot")

    aws.end_event(aws.scheduled[0], "completed")

    [event] = json.loads(await aws_reader.text(f"{AWS_META}/events/maintenance/history"))
    assert event["State"] == "completed"
    assert event["Description"].startswith("[Completed] ")


async def test_withdrawing_clears_the_spot_notices(aws, aws_reader):
    aws.raise_notice("preemption")
    aws.raise_notice("rebalance")

    aws.withdraw()

    assert await aws_reader.status(f"{AWS_META}/spot/instance-action") == 404
    assert await aws_reader.status(f"{AWS_META}/events/recommendations/rebalance") == 404


async def test_requests_are_counted_by_verb_path_and_status(aws, aws_reader):
    for _ in range(3):
        await aws_reader.status(f"{AWS_META}/spot/instance-action")
    await aws_reader.status(f"{AWS_META}/instance-id")
    await asyncio.sleep(0)

    assert aws.log.count(method="PUT") == 1
    assert aws.log.count(path=f"{AWS_META}/spot", status=404) == 3
    assert aws.log.count(path=AWS_META) == 4
    assert all(len(seen.header(TOKEN_HEADER)) == 1 for seen in list(aws.log.recent)[1:])
