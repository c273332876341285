"""What is found about Kubernetes, against the fake API server."""

from __future__ import annotations

import base64
import json
import time

import pytest

from lastcall.cli.check import kubernetes, rights
from lastcall.cli.check.findings import Level
from lastcall.cli.check.kubernetes import check_kubernetes
from support.examination import found_by, one_found_by, subject_of
from support.kube_api.admission import PINNED_TO_NODE
from support.kube_api.clients import kubeconfig
from support.kube_api.faults import Fault
from support.kube_api.identities import AGENT_RIGHTS, NOBODY, agent, kubelet
from support.kube_api.objects import node
from support.kube_api.server import fake_kube_api


@pytest.fixture
async def server():
    async with fake_kube_api() as server:
        server.add("nodes", node("node-a"), node("node-b"))
        server.tokens |= {
            "agent": agent("node-a", AGENT_RIGHTS | {"watch nodes"}),
            "kubelet": kubelet("node-a"),
            "nobody": NOBODY,
        }
        yield server


@pytest.fixture
def examine(server, tmp_path):
    """Check a cluster as somebody, and return the findings by what they are about."""

    async def check(*settings, token="agent", node_name="node-a", user=None):
        file = kubeconfig(tmp_path, server.url, user or {"token": token})
        subject = subject_of(
            f"drain.kubernetes.kubeconfig={file}", f"node_name={node_name}", *settings
        )
        found = await found_by(check_kubernetes, subject)
        by_check = {}
        for one in found:
            by_check.setdefault(one.check, []).append(one)
        return by_check

    return check


def levels(findings):
    return {str(one.level) for one in findings}


def token_until(seconds, lasting=3600.0, **claims):
    """Return a token that ends so many seconds from now, and lasts so long in all."""
    now = time.time()
    content = {"iat": now + seconds - lasting, "exp": now + seconds} | claims
    body = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


# --- the cluster -----------------------------------------------------------------------------


async def test_an_agent_with_all_it_needs_is_good(server, examine):
    server.policies += PINNED_TO_NODE

    found = await examine()

    assert {check: levels(findings) for check, findings in found.items()} == {
        "kubernetes": {"ok"},
        "node_name": {"ok"},
        "rights": {"ok"},
    }
    assert found["kubernetes"][0].what.endswith(" ms: v1.36.2")
    assert found["rights"][0].what.startswith("all 11 are granted")


async def test_a_machine_outside_of_kubernetes_is_good(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    one = await one_found_by(check_kubernetes, subject_of())

    assert (one.level, one.what) == (Level.OK, "not on Kubernetes")


async def test_no_kubernetes_where_it_is_asked_for_is_a_problem(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    one = await one_found_by(check_kubernetes, subject_of("drain.backend=kubernetes"))

    assert one.level is Level.PROBLEM
    assert "drain.kubernetes.kubeconfig" in one.remedy


async def test_kubernetes_is_not_asked_where_it_is_not_wanted(server, tmp_path):
    file = kubeconfig(tmp_path, server.url)

    one = await one_found_by(
        check_kubernetes, subject_of("drain.backend=none", f"drain.kubernetes.kubeconfig={file}")
    )

    assert one.level is Level.OK
    assert server.log == []


async def test_a_kubeconfig_that_cannot_be_used_is_a_problem(tmp_path):
    one = await one_found_by(
        check_kubernetes, subject_of(f"drain.kubernetes.kubeconfig={tmp_path}/none")
    )

    assert one.level is Level.PROBLEM
    assert one.what == f"cannot read {tmp_path}/none: No such file or directory"


async def test_a_server_that_is_down_is_a_problem(tmp_path):
    file = kubeconfig(tmp_path, "http://127.0.0.1:9")

    one = await one_found_by(check_kubernetes, subject_of(f"drain.kubernetes.kubeconfig={file}"))

    assert one.level is Level.PROBLEM
    assert "http://127.0.0.1:9 does not answer: " in one.what
    assert "Connection refused" in one.what


async def test_a_server_that_hangs_is_a_problem_at_the_end_of_the_time(
    server, examine, monkeypatch
):
    monkeypatch.setattr(kubernetes, "VERSION_SECONDS", 0.1)
    server.break_(Fault.HANGS)

    found = await examine()

    (one,) = found["kubernetes"]
    assert one.level is Level.PROBLEM
    assert "no answer within 0.1 s" in one.what


async def test_a_server_that_hangs_after_its_version_leaves_the_rest_open(
    server, examine, monkeypatch
):
    monkeypatch.setattr(kubernetes, "CALL_SECONDS", 0.2)
    server.break_(Fault.HANGS, path_part="/api")

    found = await examine()

    answered, unread = found["kubernetes"]
    assert (answered.level, unread.level) == (Level.OK, Level.WARNING)
    assert levels(found["rights"]) == {"warning"}
    assert levels(found["node_name"]) == {"note"}


async def test_a_busy_server_is_said_to_be_busy(server, examine):
    server.break_(Fault.THROTTLED, path_part="/version")

    (one,) = (await examine())["kubernetes"]

    assert "busy" in one.remedy


async def test_credentials_that_are_refused_come_with_a_remedy(server, examine):
    found = await examine(token="a-token-nobody-gave-out")

    (one,) = found["kubernetes"]
    assert one.level is Level.PROBLEM
    assert one.what.endswith(" refuses: Unauthorized")
    assert "renew the credentials" in one.remedy


# --- the node --------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["agent", "kubelet"])
async def test_a_name_that_is_not_the_nodes_own_is_a_problem(examine, token):
    found = await examine(token=token, node_name="node-b")

    (one,) = found["node_name"]
    assert one.level is Level.PROBLEM
    assert "is on node node-a, and node_name is node-b" in one.what
    assert "spec.nodeName" in one.remedy


async def test_credentials_of_no_node_are_worth_a_note(examine):
    (one,) = (await examine(token="admin-token"))["node_name"]

    assert one.level is Level.NOTE
    assert one.what.startswith("admin is bound to no node")


async def test_a_node_that_the_cluster_does_not_have_is_a_problem(examine):
    _, one = (await examine(node_name="ip-10-0-0-7"))["kubernetes"]

    assert (one.level, one.what) == (Level.PROBLEM, "the cluster has no node ip-10-0-0-7")


async def test_a_node_that_may_not_be_read_is_left_to_the_rights(server, examine):
    server.denied.add("get nodes")

    found = await examine()

    _, one = found["kubernetes"]
    assert (one.level, one.remedy) == (Level.WARNING, "see the findings about rights")
    assert [missing.what for missing in found["rights"]] == [
        "missing: get nodes: no role grants it"
    ]


async def test_a_node_that_is_another_machine_is_a_warning(server, examine):
    content = node("node-a")
    content["status"]["nodeInfo"]["bootID"] = "12345678-0000-0000-0000-000000000000"
    server.add("nodes", content)

    _, one = (await examine())["kubernetes"]

    assert one.level is Level.WARNING
    assert "it is another machine" in one.what


async def test_a_node_of_this_boot_is_good(server, examine, monkeypatch):
    content = node("node-a")
    content["status"]["nodeInfo"]["bootID"] = kubernetes.BOOT_ID.read_text().strip()
    server.add("nodes", content)

    _, one = (await examine())["kubernetes"]

    assert (one.level, one.what) == (Level.OK, "node node-a exists")


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        (
            {"lastcall.dev/cordoned-by": "lastcall", "lastcall.dev/notice-id": "n-7"},
            "is cordoned by lastcall for notice n-7",
        ),
        ({}, "is cordoned by somebody else"),
    ],
)
async def test_a_cordon_that_stands_is_worth_a_note(server, examine, annotations, said):
    content = node("node-a")
    content["spec"]["unschedulable"] = True
    content["metadata"]["annotations"] = annotations
    server.add("nodes", content)

    _, _, one = (await examine())["kubernetes"]

    assert one.level is Level.NOTE
    assert said in one.what


# --- rights ----------------------------------------------------------------------------------


async def test_each_missing_right_is_listed_with_the_rule_that_grants_it(server, examine):
    server.denied |= {"create pods/eviction", "patch nodes/status"}

    found = await examine()

    status, eviction = found["rights"]
    assert levels(found["rights"]) == {"problem"}
    assert status.what == "missing: patch nodes/status: no role grants it"
    assert 'resources: ["nodes/status"], verbs: ["patch"]' in status.remedy
    assert eviction.remedy.startswith(
        "grant it to the agent's ClusterRole: "
        'apiGroups: [""], resources: ["pods/eviction"], verbs: ["create"]'
    )
    assert 'drain.kubernetes.method = "delete"' in eviction.remedy


@pytest.mark.parametrize(
    ("denied", "setting"),
    [
        ("create pods/eviction", "drain.kubernetes.method=delete"),
        ("delete pods", "drain.kubernetes.force=none"),
    ],
)
async def test_what_is_not_used_need_not_be_granted(server, examine, denied, setting):
    server.denied.add(denied)

    assert levels((await examine())["rights"]) == {"problem"}
    assert levels((await examine(setting))["rights"]) == {"ok"}


async def test_every_alternative_is_for_a_right_that_is_needed():
    for right, method in rights._ALTERNATIVES:
        assert right in map(str, rights.needed(method=method, force="all"))


async def test_a_node_that_may_not_be_watched_is_a_warning(server, examine):
    server.denied.add("watch nodes")

    (one,) = (await examine())["rights"]

    assert one.level is Level.WARNING
    assert one.what == (
        "missing: watch nodes: no role grants it; without it the node is read every 5 s"
    )
    assert 'resources: ["nodes"], verbs: ["watch"]' in one.remedy


async def test_missing_rights_are_a_warning_while_nothing_is_drained(server, examine):
    server.denied.add("create pods/eviction")

    (one,) = (await examine("mode=observe"))["rights"]

    assert one.level is Level.WARNING
    assert "not used while mode is observe" in one.what


async def test_a_policy_that_denies_the_cordon_is_found_by_the_dry_run(server, examine):
    server.tokens["agent"] = agent("node-b", AGENT_RIGHTS | {"watch nodes"})
    server.policies += PINNED_TO_NODE

    found = await examine()

    (one,) = found["rights"]
    assert one.level is Level.PROBLEM
    assert "agent on node-b may not change node node-a" in one.what
    assert "unschedulable" not in server.store.get("nodes", "", "node-a")["spec"]


async def test_nobodys_rights_are_all_missing(examine):
    found = await examine(token="nobody")

    assert levels(found["rights"]) == {"problem", "warning"}
    assert len(found["rights"]) == 12


# --- the token -------------------------------------------------------------------------------


@pytest.fixture
def accept(server):
    """Have the server know a token as the agent's."""

    def known(token):
        server.tokens[token] = server.tokens["agent"]
        return token

    return known


@pytest.fixture
def token_file(server, tmp_path):
    """A token file, whatever stands in it being the agent's."""
    server._identity = lambda _: server.tokens["agent"]
    return tmp_path / "token"


@pytest.mark.parametrize(
    ("left_seconds", "level", "said"),
    [
        (3000.0, "ok", "it ends in 50 min 0 s and is renewed"),
        (200.0, "warning", "should have been renewed by now"),
        (-90.5, "problem", "it ended 9"),
    ],
)
async def test_a_token_file_of_an_hour_is_told_by_what_is_left(
    token_file, examine, left_seconds, level, said
):
    token_file.write_text(token_until(left_seconds + 0.5, lasting=3600.0))

    (one,) = (await examine(user={"tokenFile": str(token_file)}))["token"]

    assert one.level == level
    assert said in one.what


async def test_a_fixed_token_that_ends_is_a_warning(accept, examine):
    (one,) = (await examine(token=accept(token_until(86400.0))))["token"]

    assert one.level is Level.WARNING
    assert "nothing renews it" in one.what


async def test_a_token_that_never_ends_is_worth_a_note(accept, examine):
    body = base64.urlsafe_b64encode(b'{"sub": "agent"}').decode().rstrip("=")

    (one,) = (await examine(token=accept(f"e30.{body}.c2ln")))["token"]

    assert (one.level, one.what) == (Level.NOTE, "it never ends")


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "a.W10.c", "a.eyJleHAiOiJ4In0.c"])
async def test_a_token_that_says_nothing_of_its_end_has_nothing_said_of_it(accept, examine, token):
    found = await examine(token=accept(token))

    assert {str(one.level) for one in found.get("token", [])} <= {"note"}


async def test_a_token_file_that_is_missing_is_a_problem(examine, tmp_path):
    found = await examine(user={"tokenFile": str(tmp_path / "no-such-token")})

    assert [levels(found[check]) for check in ("kubernetes", "token")] == [{"problem"}] * 2
    assert "cannot read the token file" in found["token"][0].what
