"""What the chart makes is valid for every Kubernetes that it says it can be installed on."""

from __future__ import annotations

import importlib

import pytest

from support.helm import render
from support.needs import leave_out

VERSIONS = ["1.26", "1.30", "1.33", "1.36", "1.37"]
# Of the Prometheus Operator, whose schemas are not Kubernetes'.
FOREIGN = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}

EVERYTHING = {
    "image": {"digest": "sha256:" + "0" * 64, "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "config": {"mode": "observe"},
    "dnsPolicy": "Default",
    "http": {"port": 19855},
    "runAs": {"user": 65532, "group": 65532},
    "securityContext": {"seLinuxOptions": {"type": "spc_t"}},
    "gpu": {
        "visible": True,
        "runtimeClassName": "nvidia",
        "hostLibraries": "/home/kubernetes/bin/nvidia",
        "privileged": True,
        "kernelLog": True,
    },
    "serviceAccount": {"name": "own", "annotations": {"a/b": "c"}},
    "rbac": {"strict": True},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
            }
        }
    },
    "podAnnotations": {"a/b": "c"},
    "podLabels": {"a": "b"},
    "extraEnv": [{"name": "A", "value": "b"}],
    "extraEnvFrom": [{"secretRef": {"name": "hooks"}}],
    "extraVolumes": [{"name": "more", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    "extraInitContainers": [{"name": "first", "image": "x"}],
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "dashboard": {"enabled": True, "annotations": {"a/b": "c"}},
}
NOTHING = {
    "hostPID": False,
    "hostNetwork": False,
    "hostDirectories": {"socket": "", "state": ""},
    "config": {"drain": {"backend": "none"}},
    "serviceAccount": {"create": False, "name": "default"},
    "priorityClassName": "",
    "tolerations": [],
    "nodeSelector": {"kubernetes.io/os": None},
    "resources": None,
    "tests": {"enabled": False},
}
LOCAL = {"http": {"address": "127.0.0.1"}, "serviceMonitor": {"enabled": False}}


@pytest.fixture(scope="module")
def validate():
    try:
        return importlib.import_module("kubernetes_validate").validate
    except ImportError:
        leave_out("needs the schemas of Kubernetes: pip install kubernetes-validate")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, NOTHING, LOCAL], ids=["default", "everything", "nothing", "local"]
)
def test_every_object_is_valid_and_has_no_field_unknown_to_kubernetes(validate, values, version):
    rendered = render(values, kubernetes=f"{version}.0")
    known = [one for one in rendered.objects if one["kind"] not in FOREIGN]

    assert known
    for one in known:
        validate(one, version, strict=True)


def test_the_validation_finds_a_field_that_does_not_exist(validate):
    daemonset = render().one("DaemonSet")
    daemonset["spec"]["template"]["spec"]["hostPid"] = True

    with pytest.raises(Exception, match="hostPid"):
        validate(daemonset, "1.36", strict=True)


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_no_two_objects_have_one_name(values):
    rendered = render(values)
    names = [(one["kind"], one["metadata"]["name"]) for one in rendered.objects]

    assert sorted(names) == sorted(set(names))
