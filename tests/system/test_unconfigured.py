"""``lastcall run`` with nothing set, on machines where it must find out by itself where it is."""

from __future__ import annotations

import sys

import pytest

from support.needs import long
from support.private_machine import PrivateMachine, UnconfiguredAgent
from support.running_agent import LineClient, request_drill

RANK = {"job": "train", "rank": 0, "world_size": 1}
PROVIDERS = ("aws", "gcp", "azure")
DEAD_PROXIES = dict.fromkeys(
    ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
    "http://192.0.2.1:3128",
)

pytestmark = pytest.mark.root


async def told(rank):
    """Return the notice that a client hears of, at its welcome or later."""
    welcome = await rank.receive("welcome")
    return welcome["notices"][0] if welcome["notices"] else await rank.receive("notice")


@pytest.mark.parametrize(
    ("provider", "environment"),
    [*((provider, {}) for provider in PROVIDERS), ("gcp", DEAD_PROXIES)],
    ids=[*PROVIDERS, "behind dead proxies"],
)
async def test_the_provider_is_found_and_its_notice_told(provider, environment):
    async with (
        PrivateMachine.up() as machine,
        machine.simulating(provider, after_seconds=1.5),
        UnconfiguredAgent(machine, environment) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        notice = await told(rank)

        assert (notice["source"], notice["kind"]) == (provider, "preemption")
        assert agent.logged("provider_settled")[0]["providers"] == [provider]
        labels = f'kind="preemption",source="{provider}"'
        assert await agent.metric(f"lastcall_notices_total{{{labels}}}") == 1
        assert await agent.metric(f'lastcall_source_up{{source="{provider}"}}') == 1
        assert (await agent.get("/readyz"))[0] == 200


@pytest.mark.long
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_service_that_comes_up_after_the_agent_is_found(provider):
    async with (
        PrivateMachine.up() as machine,
        UnconfiguredAgent(machine) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        assert "looking again" in agent.logged("provider_settled")[0]["detail"]

        async with machine.simulating(provider, after_seconds=0.5):
            assert (await told(rank))["source"] == provider
            await agent.wait(lambda: len(agent.logged("provider_settled")) == 2)
            assert (await agent.get("/readyz"))[0] == 200


@pytest.mark.parametrize("network", ["no route", long("silence")])
async def test_a_node_of_no_provider_runs_on_and_says_so(network):
    async with (
        PrivateMachine.up(network) as machine,
        UnconfiguredAgent(machine) as agent,
        LineClient.connected(agent.socket_path, RANK) as rank,
    ):
        assert "no provider found" in agent.logged("provider_settled")[0]["detail"]
        _, status = await machine.run(sys.executable, "-m", "lastcall", "status")
        assert "no provider found" in status

        drill = await request_drill(agent)
        assert (await rank.receive("notice"))["id"] == drill


TRAINING = """
import lastcall, sys, time
guard = lastcall.connect()
print("connected" if guard.connected else "alone", flush=True)
while not (notice := guard.poll()):
    time.sleep(0.01)
with guard.flush(notice, step=7) as flush:
    flush.saved("/mnt/shared/7")
sys.exit(lastcall.EXIT_PREEMPTED if flush.stop else 1)
"""


async def test_client_and_command_line_need_no_setting_either():
    async with (
        PrivateMachine.up() as machine,
        machine.simulating("aws", after_seconds=1.5),
        UnconfiguredAgent(machine) as agent,
    ):
        assert await machine.run(sys.executable, "-c", TRAINING) == (143, "connected\n")

        _, status = await machine.run(sys.executable, "-m", "lastcall", "status")
        assert "step 7" in status
        assert agent.path_to("/var/lib/lastcall/journal.jsonl").stat().st_size
