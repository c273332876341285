"""Metadata services that are ill for a while: the agent lives, and hears of a notice once it can.

All three are ill at once and recover one after the other, so that each is also the sound one beside
others that are not.
"""

from __future__ import annotations

import time

import pytest

from lastcall.simulate.aws import AwsMetadata
from lastcall.simulate.azure import AzureMetadata
from lastcall.simulate.gcp import ROOT, UPCOMING, GcpMetadata
from support.needs import long
from support.running_agent import LineClient
from support.watching_agent import agent_watching

POLL_SECONDS = 0.1
BACK_OFF_SECONDS = 5.0
SLACK_SECONDS = 1.0
MEMORY_BYTES = 20 * 1024 * 1024

ALL = {"aws", "gcp", "azure"}

TROUBLES = {
    # Amazon's is given 2 s, the others more.
    "slow:2.5": {"aws"},
    "hang": ALL,
    "reset": ALL,
    "down:inf": ALL,
    "503": ALL,
    "throttle:1": ALL,
    "redirect": ALL,
    "redirect-loop": ALL,
    "garbled": ALL,
    # Azure's answers so while it is being turned on.
    "empty": {"aws", "gcp"},
    "huge": ALL,
    "truncated": ALL,
    "cut": ALL,
    "403": ALL,
    "401": ALL,
}
"""What can be wrong with a service, and whose then counts as down."""


async def until_down(agent, names):
    """Wait until the agent counts these sources as down, and no other."""
    await agent.wait_view(
        lambda view: {one["source"] for one in view["sources"] if not one["up"]} == names
    )


async def told_seconds(rank, service):
    """Have a service give notice, and return how long it takes to reach a client."""
    service.raise_notice("preemption", 120)
    raised_at = time.monotonic()
    notice = await rank.receive("notice", 15)
    assert notice["source"] == service.provider
    return time.monotonic() - raised_at


async def calm(rank, service):
    """Have a service take its notice back, and wait until that is told."""
    service.withdraw()
    await rank.receive("withdrawn")


def make_ill(service, trouble):
    fault = service.faults.add_text(trouble)
    if trouble == "hang" and service.provider == "gcp":
        # A question that the server leaves open is what it should be, for wait_seconds and more.
        fault.path = f"{ROOT}/{UPCOMING}"


@pytest.mark.parametrize(
    "trouble", [one if one in ("hang", "503") else long(one) for one in TROUBLES]
)
async def test_an_ill_service_costs_no_other_anything_and_is_heard_once_it_is_well(
    tmp_path, trouble
):
    aws, gcp, azure = AwsMetadata(), GcpMetadata(), AzureMetadata()
    async with (
        agent_watching(tmp_path, aws, gcp, azure, poll_seconds=POLL_SECONDS) as agent,
        LineClient.connected(agent.socket_path, {"job": "train"}) as rank,
    ):
        await rank.receive("welcome")
        # given services that were well and are ill
        await until_down(agent, set())
        before_bytes = agent.resident_bytes()
        for service in (aws, gcp, azure):
            make_ill(service, trouble)
        await until_down(agent, TROUBLES[trouble])
        assert (await agent.get("/healthz"))[0] == 200
        for name in ALL:
            up = await agent.metric(f'lastcall_source_up{{source="{name}"}}')
            assert up == (name not in TROUBLES[trouble])
        # when they become well one after the other, each with a notice
        for service in (azure, gcp, aws):
            service.faults.clear()
            # then that is told soon
            limit_seconds = BACK_OFF_SECONDS + POLL_SECONDS + SLACK_SECONDS
            assert await told_seconds(rank, service) < limit_seconds
            await calm(rank, service)
            if service is azure:
                # and at once where the others alone are ill
                assert await told_seconds(rank, azure) < SLACK_SECONDS
                await calm(rank, azure)
        await until_down(agent, set())
        assert agent.resident_bytes() - before_bytes < MEMORY_BYTES


async def test_tokens_that_a_service_forgets_again_and_again_cost_no_notice(tmp_path):
    aws = AwsMetadata()
    async with (
        agent_watching(tmp_path, aws, poll_seconds=POLL_SECONDS) as agent,
        LineClient.connected(agent.socket_path, {"job": "train"}) as rank,
    ):
        await rank.receive("welcome")
        await until_down(agent, set())
        aws.faults.add("expired-token")
        await until_down(agent, {"aws"})

        aws.faults.clear()
        assert await told_seconds(rank, aws) < BACK_OFF_SECONDS + POLL_SECONDS + SLACK_SECONDS
        await until_down(agent, set())

        aws.forget_tokens()
        await calm(rank, aws)
        await until_down(agent, set())
