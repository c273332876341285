"""What the chart makes for a cluster that nothing is known of: the agent's pod on every node."""

from __future__ import annotations

import pytest

import lastcall
from support.helm import CHART, helm, render

BY_FIELD = {
    "NODE_NAME": "spec.nodeName",
    "POD_NAME": "metadata.name",
    "POD_NAMESPACE": "metadata.namespace",
    "POD_UID": "metadata.uid",
}


@pytest.fixture(scope="module")
def chart():
    return render()


def test_helm_finds_no_fault_with_the_chart():
    linted = helm("lint", "--strict", CHART)

    assert linted.returncode == 0, linted.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in linted.stdout


def test_it_installs_this_version_of_the_agent(chart):
    assert chart.agent["image"] == f"lastcall:{lastcall.__version__}"
    assert chart.agent["args"] == ["run"]
    assert "command" not in chart.agent


def test_the_names_are_those_that_dashboards_and_runbooks_know(chart):
    for kind in ("DaemonSet", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap"):
        assert chart.one(kind)["metadata"]["name"] == "lastcall"
    placed = [one for one in chart.objects if "namespace" in one["metadata"]]
    assert {one["metadata"]["namespace"] for one in placed} == {"lastcall"}


def test_only_what_belongs_to_the_whole_cluster_names_no_namespace(chart):
    everywhere = {one["kind"] for one in chart.objects if "namespace" not in one["metadata"]}

    assert everywhere == {
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }


def test_the_daemonset_finds_its_own_pods_and_not_the_test(chart):
    daemonset = chart.one("DaemonSet")["spec"]
    selector = daemonset["selector"]["matchLabels"].items()

    assert selector <= daemonset["template"]["metadata"]["labels"].items()
    assert not selector <= chart.one("Pod", "lastcall-test")["metadata"]["labels"].items()


def test_the_agent_sees_the_machine_s_processes_and_is_in_its_network(chart):
    assert chart.pod["hostPID"] is True
    assert chart.pod["hostNetwork"] is True
    assert chart.pod["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_no_taint_keeps_the_agent_away_or_removes_it(chart):
    # Without a key and an effect, "Exists" tolerates every taint, NoExecute included, for ever.
    assert chart.pod["tolerations"] == [{"operator": "Exists"}]


def test_the_agent_is_among_the_last_to_go(chart):
    assert chart.pod["priorityClassName"] == "system-node-critical"
    assert chart.pod["terminationGracePeriodSeconds"] >= 30


def test_critical_pods_are_admitted_where_a_cluster_limits_them(chart):
    quota = chart.one("ResourceQuota", "lastcall-critical-pods")["spec"]

    (match,) = quota["scopeSelector"]["matchExpressions"]
    assert match == {
        "scopeName": "PriorityClass",
        "operator": "In",
        "values": [chart.pod["priorityClassName"]],
    }


def test_the_socket_s_directory_is_mounted_and_not_the_socket(chart):
    (volume,) = (one for one in chart.pod["volumes"] if one["name"] == "run")
    (mount,) = (one for one in chart.agent["volumeMounts"] if one["name"] == "run")

    assert volume["hostPath"] == {"path": "/run/lastcall", "type": "DirectoryOrCreate"}
    assert mount == {"name": "run", "mountPath": "/run/lastcall"}


def test_the_journal_is_kept_on_the_machine(chart):
    (volume,) = (one for one in chart.pod["volumes"] if one["name"] == "state")

    assert volume["hostPath"] == {"path": "/var/lib/lastcall", "type": "DirectoryOrCreate"}


def test_the_agent_owns_the_host_s_directories_and_can_do_nothing_else(chart):
    assert chart.agent["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "runAsNonRoot": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert "initContainers" not in chart.pod


def test_the_agent_knows_its_node_and_its_pod(chart):
    env = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in chart.agent["env"]}

    assert env == BY_FIELD
    assert chart.pod["enableServiceLinks"] is False


def test_the_token_is_mounted_into_the_agent_alone(chart):
    assert chart.pod["automountServiceAccountToken"] is True
    assert chart.one("ServiceAccount")["automountServiceAccountToken"] is False
    assert chart.one("Pod", "lastcall-test")["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")],
)
def test_the_kubelet_asks_how_the_agent_is(chart, probe, path):
    assert chart.agent[f"{probe}Probe"]["httpGet"] == {"path": path, "port": "metrics"}
    (port,) = chart.agent["ports"]
    assert port == {"name": "metrics", "containerPort": 9855, "protocol": "TCP"}


def test_the_agent_is_not_throttled_at_the_moment_of_a_notice(chart):
    assert chart.agent["resources"] == {
        "requests": {"cpu": "20m", "memory": "64Mi"},
        "limits": {"memory": "192Mi"},
    }


def test_a_roll_out_leaves_most_nodes_their_agent(chart):
    assert chart.one("DaemonSet")["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "10%"},
    }


def test_a_name_leads_to_every_agent_ready_or_not(chart):
    service = chart.one("Service")["spec"]

    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    labels = chart.one("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()


def test_nothing_is_made_that_a_plain_cluster_does_not_know(chart):
    assert {one["apiVersion"] for one in chart.objects} == {
        "v1",
        "apps/v1",
        "rbac.authorization.k8s.io/v1",
        "admissionregistration.k8s.io/v1",
    }


def test_a_package_of_the_chart_makes_the_same(chart, tmp_path):
    packaged = helm("package", CHART, "--destination", tmp_path)
    assert packaged.returncode == 0, packaged.stderr

    (archive,) = tmp_path.glob("*.tgz")

    assert render(chart=archive) == chart
