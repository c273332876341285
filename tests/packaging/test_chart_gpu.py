"""How the agent's pod gets at the GPUs: not at all, unless it is told how."""

from __future__ import annotations

import pytest

from support.helm import refusal, render

GKE = {"hostLibraries": "/home/kubernetes/bin/nvidia", "privileged": True}


def plain_env(rendered):
    return {one["name"]: one["value"] for one in rendered.agent["env"] if "value" in one}


def of(name, found):
    return [one for one in found if one["name"] == name]


def with_gpu(**values):
    return render({"gpu": values})


def test_without_being_told_the_pod_has_nothing_of_gpus():
    rendered = render()

    assert plain_env(rendered) == {}
    assert "runtimeClassName" not in rendered.pod
    assert "privileged" not in rendered.agent["securityContext"]
    assert {one["name"] for one in rendered.pod["volumes"]} == {"run", "state", "config"}


@pytest.mark.parametrize("values", [{}, {"visible": True}, GKE], ids=["none", "visible", "gke"])
def test_no_gpu_is_taken_from_training(values):
    resources = with_gpu(**values).agent["resources"]

    assert set(resources) == {"requests", "limits"}
    assert not any("nvidia" in name for part in resources.values() for name in part)


def test_the_container_toolkit_is_asked_for_all_gpus_and_for_nvml_alone():
    rendered = with_gpu(visible=True, runtimeClassName="nvidia")

    assert plain_env(rendered) == {
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "utility",
    }
    assert rendered.pod["runtimeClassName"] == "nvidia"
    assert rendered.agent["securityContext"] == render().agent["securityContext"]


def test_what_is_set_by_hand_comes_after_it_and_wins():
    one = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility,compute"}
    rendered = render({"gpu": {"visible": True}, "extraEnv": [one]})

    assert rendered.agent["env"][-1] == one


def test_the_machine_s_libraries_are_mounted_where_they_are_looked_for():
    rendered = with_gpu(**GKE)

    (volume,) = of("nvidia", rendered.pod["volumes"])
    (mount,) = of("nvidia", rendered.agent["volumeMounts"])
    assert volume["hostPath"]["path"] == "/home/kubernetes/bin/nvidia"
    assert (mount["readOnly"], mount["mountPropagation"]) == (True, "HostToContainer")
    library_path = plain_env(rendered)["LD_LIBRARY_PATH"]
    assert library_path == mount["mountPath"] + "/lib64"


def test_a_privileged_container_keeps_what_else_was_given():
    context = with_gpu(**GKE).agent["securityContext"]

    # The API server takes no privileged container that may not gain privileges.
    assert (context["privileged"], context["allowPrivilegeEscalation"]) == (True, True)
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_the_kernel_s_log_is_mounted_with_the_capability_that_it_takes():
    rendered = with_gpu(privileged=True, kernelLog=True)

    (volume,) = of("kmsg", rendered.pod["volumes"])
    (mount,) = of("kmsg", rendered.agent["volumeMounts"])
    assert volume["hostPath"] == {"path": "/dev/kmsg", "type": "CharDevice"}
    assert (mount["mountPath"], mount["readOnly"]) == ("/dev/kmsg", True)
    capabilities = rendered.agent["securityContext"]["capabilities"]
    assert capabilities == {"drop": ["ALL"], "add": ["SYSLOG"]}


def test_that_capability_is_added_to_others():
    context = {"capabilities": {"drop": ["ALL"], "add": ["KILL"]}}
    rendered = render({"securityContext": context, "gpu": {"privileged": True, "kernelLog": True}})

    assert rendered.agent["securityContext"]["capabilities"]["add"] == ["KILL", "SYSLOG"]


def test_only_the_agent_s_own_container_is_privileged():
    rendered = render({"gpu": GKE, "runAs": {"user": 65532}})

    (init,) = rendered.pod["initContainers"]
    assert "privileged" not in init["securityContext"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"kernelLog": True}, "gpu.kernelLog needs gpu.privileged"),
        ({"hostLibraries": "/lib"}, "gpu.hostLibraries needs gpu.privileged"),
        ({"runtimeClassName": "nvidia"}, "gpu.runtimeClassName needs gpu.visible"),
        ({"hostLibraries": "lib"}, "at '/gpu/hostLibraries'"),
        ({"visible": "all"}, "at '/gpu/visible': got string, want boolean"),
        ({"access": "auto"}, "additional properties 'access' not allowed"),
    ],
)
def test_what_cannot_work_is_refused_by_name(values, said):
    assert said in refusal({"gpu": values})
