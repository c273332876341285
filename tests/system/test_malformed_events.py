"""Events with fields missing, of a wrong type or absurd: none stops or blinds the agent."""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.azure import AzureMetadata
from lastcall.simulate.base import iso
from support.running_agent import LineClient, view_of
from support.watching_agent import agent_watching

INSTANCE_ACTION = "/latest/meta-data/spot/instance-action"
SCHEDULED = "/latest/meta-data/events/maintenance/scheduled"
AZURE_EVENTS = "/metadata/scheduledevents"
POLL_SECONDS = 0.03

ODD_VALUES = [None, True, -1, 1e300, "", "x" * 10_000, "\u0000\n\u202e", [], [[]], {}, {"a": None}]
ODD_TIMES = [
    *ODD_VALUES,
    0,
    time.time(),
    "yesterday",
    "0000-00-00T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "2030-02-30T12:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "Fri, 31 Dec 9999 23:59:59 -2359",
    "Mon, 01 Jan 0001 00:00:00 GMT",
    "Mon, 99 Foo 2030 99:99:99 GMT",
    "9" * 5_000,
]
NO_EVENTS = "[]"
ODD_DOCUMENTS = [
    *(json.dumps(value) for value in ODD_VALUES),
    "",
    "null",
    "NaN",
    "[" * 20_000,
    '{"Events":' * 5_000,
    '{"DocumentIncarnation": 1}',
    '{"Events": null}',
    '{"Events": {"EventId": "x"}}',
    "<html>not here</html>",
    " " * 70_000,
]


def without(event: dict[str, object], field: str) -> dict[str, object]:
    return {name: value for name, value in event.items() if name != field}


def variations(event: dict[str, object], field: str) -> list[dict[str, object]]:
    """Return the event without a field, and with each odd value of it."""
    values = ODD_TIMES if field in ("time", "NotBefore", "NotAfter") else ODD_VALUES
    odd = [event | {field: value} for value in values]
    if field == "EventId":
        return [without(event, field), *odd]
    numbered = [without(event, field), *odd]
    return [one | {"EventId": f"event-{number}"} for number, one in enumerate(numbered)]


async def show_once(agent, metadata, path, body):
    """Have a path answered with a body once or twice, and then with what is right again."""
    metadata.override(path, body)
    await asked(agent, metadata, path, times=2)
    del metadata.overrides[path]
    await asked(agent, metadata, path)


async def asked(agent, metadata, path, times=1):
    enough = metadata.log.count(path=path) + times
    await agent.wait(lambda: metadata.log.count(path=path) >= enough)


def assert_no_fault_of_ours(agent):
    assert not [line for line in agent.log if line["level"] in ("error", "critical")]
    assert agent.other_lines == []


async def test_an_interruption_is_told_however_little_of_it_can_be_read(tmp_path):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata, poll_seconds=POLL_SECONDS) as agent,
        LineClient.connected(agent.socket_path, {"job": "train"}) as rank,
    ):
        await rank.receive("welcome")
        for body in ODD_DOCUMENTS:
            await show_once(agent, metadata, INSTANCE_ACTION, body)
        assert (await view_of(agent))["notices"] == []

        right = {"action": "terminate", "time": iso(time.time() + 120)}
        for event in (*variations(right, "action"), *variations(right, "time")):
            metadata.override(INSTANCE_ACTION, json.dumps(event))
            notice = await rank.receive("notice")
            assert notice["kind"] == "preemption", event
            assert 0 <= notice["remaining_seconds"] <= 121, event
            del metadata.overrides[INSTANCE_ACTION]
            await rank.receive("withdrawn")

        assert_no_fault_of_ours(agent)


@pytest.mark.long
async def test_a_scheduled_event_is_told_beside_others_that_cannot_be_read(tmp_path):
    metadata = AwsMetadata()
    async with (
        agent_watching(tmp_path, metadata, poll_seconds=POLL_SECONDS) as agent,
        LineClient.connected(agent.socket_path, {"job": "train"}) as rank,
    ):
        await rank.receive("welcome")
        good = metadata.schedule("system-reboot", time.time() + 600).content()
        notice = await rank.receive("notice")

        for body in ODD_DOCUMENTS:
            if body != NO_EVENTS:
                await show_once(agent, metadata, SCHEDULED, body)
        for field in good:
            await show_once(
                agent, metadata, SCHEDULED, json.dumps([*variations(good, field), good])
            )

        told = [one for one in (await view_of(agent))["notices"] if one["told_unix"]]
        assert [(one["id"], one["open"]) for one in told] == [(notice["id"], True)]
        assert_no_fault_of_ours(agent)


@pytest.mark.long
async def test_an_event_of_azure_is_told_beside_others_that_cannot_be_read(tmp_path):
    metadata = AzureMetadata()
    async with (
        agent_watching(tmp_path, metadata, poll_seconds=POLL_SECONDS) as agent,
        LineClient.connected(agent.socket_path, {"job": "train"}) as rank,
    ):
        await rank.receive("welcome")
        raised = metadata.add_event("Preempt", 300)
        notice = await rank.receive("notice")
        good = {
            "EventId": raised.event_id,
            "EventStatus": "Scheduled",
            "EventType": "Preempt",
            "ResourceType": "VirtualMachine",
            "Resources": [metadata.vm_name],
            "NotBefore": formatdate(raised.not_before, usegmt=True),
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }

        for body in ODD_DOCUMENTS:
            await show_once(agent, metadata, AZURE_EVENTS, body)
        for field in good:
            events = [*variations(good | {"EventType": "Reboot"}, field), good]
            await show_once(agent, metadata, AZURE_EVENTS, json.dumps({"Events": events}))

        told = [one for one in (await view_of(agent))["notices"] if one["told_unix"]]
        assert [(one["id"], one["open"]) for one in told] == [(notice["id"], True)]
        assert_no_fault_of_ours(agent)
