"""What the chart makes of values, and what it refuses with which words."""

from __future__ import annotations

import pytest

from support.helm import CHART, notes, refusal, render

LOCAL = {"http": {"address": "127.0.0.1"}}
DIGEST = "sha256:" + "0" * 64


def mounts(rendered):
    return {one["name"]: one["mountPath"] for one in rendered.agent["volumeMounts"]}


def volume(rendered, name):
    (found,) = (one for one in rendered.pod["volumes"] if one["name"] == name)
    return found


def test_the_image_is_named_by_tag_or_by_digest():
    by_tag = render({"image": {"repository": "registry.example/lastcall", "tag": "9"}})
    by_digest = render({"image": {"repository": "lastcall", "tag": "9", "digest": DIGEST}})

    assert by_tag.agent["image"] == "registry.example/lastcall:9"
    assert by_digest.agent["image"] == f"lastcall@{DIGEST}"


def test_another_release_name_and_namespace_are_used_throughout():
    rendered = render(release="spot", namespace="kube-system")

    assert rendered.one("DaemonSet", "spot-lastcall")["metadata"]["namespace"] == "kube-system"
    (subject,) = rendered.one("ClusterRoleBinding", "spot-lastcall")["subjects"]
    assert subject == {
        "kind": "ServiceAccount",
        "name": "spot-lastcall",
        "namespace": "kube-system",
    }


def test_a_name_of_one_s_own_is_used_throughout():
    rendered = render({"fullnameOverride": "agent"})

    names = {one["metadata"]["name"] for one in rendered.objects}
    assert {name.split("-")[0] for name in names} == {"agent"}


def test_the_job_s_name_stays_whatever_the_release_is_called():
    labels = render(release="spot").one("DaemonSet", "spot-lastcall")["spec"]["template"]
    assert labels["metadata"]["labels"]["app.kubernetes.io/name"] == "lastcall"


def test_host_process_ids_and_host_network_can_be_given_up():
    rendered = render({"hostPID": False, "hostNetwork": False})

    assert rendered.pod["hostPID"] is False
    assert rendered.pod["hostNetwork"] is False
    assert rendered.pod["dnsPolicy"] == "ClusterFirst"


def test_another_port_is_listened_on_probed_and_tested():
    rendered = render({"http": {"port": 19855}})

    assert 'listen = "0.0.0.0:19855"' in rendered.toml
    assert rendered.agent["ports"][0]["containerPort"] == 19855
    assert rendered.one("Service")["spec"]["ports"][0]["port"] == 19855
    (container,) = rendered.one("Pod", "lastcall-test")["spec"]["containers"]
    assert container["args"][-1] == "19855"


def test_an_address_of_ipv6_stands_in_brackets():
    assert 'listen = "[::]:9855"' in render({"http": {"address": "::"}}).toml


def test_an_agent_that_only_its_machine_can_read_is_probed_there_and_not_tested():
    rendered = render(LOCAL)

    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert rendered.agent[probe]["httpGet"]["host"] == "127.0.0.1"
    assert rendered.all("Service") == []
    assert rendered.all("Pod") == []


def test_host_directories_can_be_moved_and_the_agent_finds_them_where_it_looks():
    rendered = render({"hostDirectories": {"socket": "/run/ml", "state": "/opt/ml"}})

    assert volume(rendered, "run")["hostPath"]["path"] == "/run/ml"
    assert volume(rendered, "state")["hostPath"]["path"] == "/opt/ml"
    assert mounts(rendered) == {
        "run": "/run/lastcall",
        "state": "/var/lib/lastcall",
        "config": "/etc/lastcall",
    }


def test_host_directories_can_be_given_up():
    rendered = render({"hostDirectories": {"socket": "", "state": ""}, "runAs": {"user": 65532}})

    assert volume(rendered, "run") == {"name": "run", "emptyDir": {}}
    assert volume(rendered, "state") == {"name": "state", "emptyDir": {}}
    assert "initContainers" not in rendered.pod


def test_an_ordinary_user_is_given_the_directories_before_the_agent_starts():
    rendered = render({"runAs": {"user": 65532, "group": 65532}})

    (init,) = rendered.pod["initContainers"]
    assert init["args"][1:] == ["65532", "65532", "/run/lastcall", "/var/lib/lastcall"]
    assert init["securityContext"]["runAsUser"] == 0
    assert init["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["CHOWN", "DAC_READ_SEARCH"],
    }
    context = rendered.agent["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (65532, 65532)
    assert context["runAsNonRoot"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_root_can_be_given_the_directories_back():
    (init,) = render({"runAs": {"handOver": True}}).pod["initContainers"]
    assert init["args"][1:3] == ["0", "0"]


def test_only_directories_of_the_host_are_handed_over():
    values = {"runAs": {"user": 65532}, "hostDirectories": {"state": ""}}
    (init,) = render(values).pod["initContainers"]
    assert init["args"][3:] == ["/run/lastcall"]


@pytest.mark.parametrize(
    ("values", "namespace"),
    [
        ({}, "kube-system"),
        ({"resourceQuota": {"enabled": False}}, "lastcall"),
        ({"priorityClassName": "training"}, "lastcall"),
        ({"priorityClassName": ""}, "lastcall"),
    ],
    ids=["in kube-system", "turned off", "a class of one's own", "no class"],
)
def test_no_quota_is_made_where_none_is_needed(values, namespace):
    assert render(values, namespace=namespace).all("ResourceQuota") == []


def test_a_new_configuration_makes_new_pods_and_another_value_does_not():
    def checksum(values):
        template = render(values).one("DaemonSet")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum({"config": {"mode": "observe"}}) != checksum({})
    assert checksum({"podMonitor": {"enabled": True}}) == checksum({})


def test_what_is_added_to_the_pod_comes_after_the_chart_s_own():
    rendered = render(
        {
            "podAnnotations": {"a/b": "c"},
            "podLabels": {"team": "ml"},
            "imagePullSecrets": [{"name": "pull"}],
            "extraEnv": [{"name": "LASTCALL_MODE", "value": "observe"}],
            "extraEnvFrom": [{"secretRef": {"name": "hooks"}}],
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            "extraInitContainers": [{"name": "first", "image": "x"}],
            "runAs": {"user": 65532},
        }
    )

    metadata = rendered.one("DaemonSet")["spec"]["template"]["metadata"]
    assert metadata["annotations"]["a/b"] == "c"
    assert metadata["labels"]["team"] == "ml"
    assert rendered.pod["imagePullSecrets"] == [{"name": "pull"}]
    assert rendered.agent["env"][-1] == {"name": "LASTCALL_MODE", "value": "observe"}
    assert rendered.agent["envFrom"] == [{"secretRef": {"name": "hooks"}}]
    assert rendered.pod["volumes"][-1] == {"name": "more", "emptyDir": {}}
    assert mounts(rendered)["more"] == "/more"
    assert [one["name"] for one in rendered.pod["initContainers"]] == ["hand-over", "first"]


def test_the_pod_goes_where_it_is_told_to():
    affinity = {"nodeAffinity": {}}
    selector = {"nvidia.com/gpu.present": "true"}
    rendered = render({"nodeSelector": selector, "affinity": affinity, "tolerations": []})

    assert rendered.pod["nodeSelector"] == {"kubernetes.io/os": "linux", **selector}
    assert rendered.pod["affinity"] == affinity
    assert "tolerations" not in rendered.pod


def test_the_test_can_be_left_out():
    assert render({"tests": {"enabled": False}}).all("Pod") == []


def test_it_can_be_a_part_of_another_chart():
    # Helm hands such values to each part.
    assert render({"global": {"registry": "x"}, "enabled": True}) == render()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"imag": {}}, "additional properties 'imag' not allowed"),
        ({"image": {"pullpolicy": "Always"}}, "'pullpolicy' not allowed"),
        ({"hostNetwork": "yes"}, "at '/hostNetwork': got string, want boolean"),
        ({"http": {"port": 0}}, "at '/http/port'"),
        ({"admissionPolicy": {"enabled": "yes"}}, "at '/admissionPolicy/enabled'"),
        ({"hostDirectories": {"socket": "run"}}, "at '/hostDirectories/socket'"),
        ({"podMonitor": {"interval": "often"}}, "at '/podMonitor/interval'"),
        ({"config": {"moode": "act"}}, "at '/config': additional properties 'moode' not allowed"),
        ({"config": {"mode": "obsrve"}}, "at '/config/mode'"),
        ({"config": {"notices": {"aws": {"poll_seconds": "1s"}}}}, "/config/notices/aws/poll_seco"),
        (
            {"config": {"node_name": "a"}},
            "config.node_name cannot be set: each agent takes its own",
        ),
        (
            {"config": {"state_dir": "/x"}},
            "config.state_dir cannot be set: set hostDirectories.sta",
        ),
        (
            {"config": {"socket": {"path": "/x"}}},
            "config.socket.path cannot be set: set hostDirect",
        ),
        (
            {"config": {"http": {"listen": ""}}},
            "config.http.listen cannot be set: set http.address",
        ),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name must be given"),
        ({**LOCAL, "hostNetwork": False}, "http.address is 127.0.0.1, which the kubelet's probes"),
        ({**LOCAL, "podMonitor": {"enabled": True}}, "which Prometheus cannot reach"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(values, said):
    assert said in refusal(values)


def test_two_monitors_of_the_same_agents_are_refused():
    both = {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}
    assert "every agent would be scraped twice" in refusal(both)


def test_a_cluster_without_the_mark_of_a_disruption_is_refused():
    assert "chart requires kubeVersion: >=1.26.0-0" in refusal({}, kubernetes="1.25.16")


@pytest.mark.parametrize("version", ["1.26.0", "1.31.4-gke.1183000", "v1.36.2-eks-bf2e4f7"])
def test_versions_as_providers_write_them_are_taken(version):
    assert render(kubernetes=version).all("DaemonSet")


def test_who_installs_it_is_told_how_to_verify():
    said = notes({})

    assert "kubectl --namespace lastcall rollout status daemonset/lastcall\n" in said
    assert "helm test lastcall --namespace lastcall\n" in said
    assert "exec daemonset/lastcall -- lastcall check\n" in said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"admissionPolicy": {"enabled": False}}, "an agent may change every node"),
        ({"hostNetwork": False}, "on AWS hears nothing"),
        ({"hostDirectories": {"socket": ""}}, "no training pod can reach the agent"),
    ],
)
def test_what_a_value_costs_is_said_only_where_it_is_set(values, said):
    assert said in notes(values)
    assert said not in notes({})


@pytest.mark.parametrize("path", sorted(CHART.glob("examples/*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_taken(path):
    rendered = render(files=[path])
    assert (
        f'provider = "{ {"eks": "aws", "gke": "gcp", "aks": "azure"}[path.stem] }"' in rendered.toml
    )
