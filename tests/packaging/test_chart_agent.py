"""The agent does its work with the chart's rights and nothing more, under the chart's policies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lastcall.drain.kubernetes.rights import needed, review
from support.helm import render
from support.helm_admission import for_fake_server, policies
from support.kube_api.clients import client_of, with_token
from support.kube_api.identities import REVIEWS, Identity
from support.kube_api.objects import node, pod
from support.kube_api.server import ADMIN_TOKEN, fake_kube_api
from support.kube_node import NODE, kube_node

METHODS = {"evict": {}, "delete": {"rbac": {"strict": True}}}


@pytest.fixture(scope="module", params=METHODS)
def method(request):
    return request.param


@pytest.fixture(scope="module")
def chart(method):
    return render(METHODS[method])


@pytest.fixture(scope="module")
def account(chart):
    name = chart.one("ServiceAccount")["metadata"]["name"]
    user = f"system:serviceaccount:lastcall:{name}"
    return Identity(user, chart.rights | REVIEWS, node="node-a", pod="lastcall-x")


def put_in_force(server, chart):
    """Have a server heed the chart's policies; what they deny comes to the list returned."""
    denied: list[str] = []
    server.policies += [for_fake_server(policy, denied) for policy in policies(chart)]
    return denied


async def test_the_agent_finds_that_it_lacks_nothing(method, chart, account):
    async with fake_kube_api() as server:
        server.add("nodes", node("node-a"))
        server.tokens["agent"] = account
        denied = put_in_force(server, chart)

        async with client_of(server, with_token("agent")) as api:
            rights = needed(method=method, force="all")
            found = await review(api, "node-a", rights, timeout_seconds=5)

    assert [one for one in found if one.allowed is not True] == []
    assert denied == []


async def test_it_cordons_drains_and_gives_the_node_back(method, chart, account, tmp_path):
    settings = (f"drain.kubernetes.method={method}", "drain.kubernetes.taint=true")
    async with kube_node(tmp_path, *settings) as own:
        own.api.tokens[ADMIN_TOKEN] = replace(account, node=NODE)
        denied = put_in_force(own.api, chart)
        own.api.add("pods", pod("web-0", node_name=NODE, owner="ReplicaSet"))
        await own.agent.wait(lambda: own.api.asked("GET", "/api/v1/pods"))

        own.cloud.raise_notice(lead_seconds=120)
        await own.agent.wait(lambda: own.pods() == set())
        await own.agent.wait(lambda: own.condition(own.object, "InterruptionNotice"))
        assert own.cordoned
        assert own.annotations["lastcall.dev/cordoned-by"] == "lastcall"
        assert "lastcall.dev/notice" in {taint["key"] for taint in own.object["spec"]["taints"]}

        own.cloud.withdraw()
        await own.agent.wait(lambda: not own.cordoned)
        await own.agent.wait(
            lambda: own.condition(own.object, "InterruptionNotice")["status"] == "False"
        )
        assert "lastcall.dev/cordoned-by" not in own.annotations

    assert denied == []
