"""What is read of a pod object, and how a drain treats each kind of pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastcall.drain.kubernetes.pods import PodClass, class_of, pod_uids, read_pod
from support.kube_api.objects import pod

UID = "1c4f2b6e-7a10-4d58-9c3b-0f6e5d4c3b2a"
UID_ = UID.replace("-", "_")
STATIC_UID = "0f6e5d4c3b2a1c4f2b6e7a104d589c3b"
OTHER_UID = "99999999-7a10-4d58-9c3b-0f6e5d4c3b2a"

NOW = 500.0
UNIX_NOW = 1_790_000_000.0
"""2026-09-21T14:13:20Z."""


def read(content, known=None, now=NOW):
    return read_pod(content, now=now, unix_now=UNIX_NOW, known=known)


def with_resources(content, resources, kind="containers"):
    content["spec"].setdefault(kind, [{"name": "x"}])[0]["resources"] = resources
    return content


def ending(content, deletion, grace):
    content["metadata"] |= {"deletionTimestamp": deletion, "deletionGracePeriodSeconds": grace}
    return content


# --- which class -----------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed", "Unknown"])
def test_a_daemonsets_pod_is_known_by_its_owner_whatever_its_phase(phase):
    found = read(pod("ds-1", owner="DaemonSet", phase=phase))

    assert class_of(found, (), "") is PodClass.DAEMON


@pytest.mark.parametrize(
    "more",
    [
        {"annotations": {"kubernetes.io/config.mirror": "hash"}},
        {"owner": "Node"},
        {"ownerReferences": [{"kind": "Node", "name": "node-a", "uid": "u"}]},
    ],
)
def test_a_static_pods_mirror_is_known_by_its_annotation_or_its_owner(more):
    assert class_of(read(pod("etcd", **more)), (), "") is PodClass.MIRROR


def test_the_agents_own_pod_is_known_by_its_uid_even_if_it_were_told_to_flush():
    found = read(pod("lastcall-x", uid=UID))

    assert class_of(found, {UID}, UID) is PodClass.OWN
    assert class_of(found, (), OTHER_UID) is PodClass.ORDINARY


@pytest.mark.parametrize(
    ("value", "expected"),
    [("false", PodClass.OPTED_OUT), ("true", PodClass.ORDINARY), ("", PodClass.ORDINARY)],
)
def test_a_pod_opts_out_by_its_annotation(value, expected):
    found = read(pod("db", annotations={"lastcall.dev/drain": value}))

    assert class_of(found, (), "") is expected


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_runs_no_more_is_finished(phase):
    assert class_of(read(pod("job", phase=phase)), (), "") is PodClass.FINISHED


def test_a_pod_whose_process_was_told_to_flush_is_training():
    found = read(pod("train", uid=UID))

    assert class_of(found, {UID}, "") is PodClass.TRAINING
    assert class_of(found, {OTHER_UID}, "") is PodClass.ORDINARY


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "aliyun.com/gpu-mem",
        "example.com/gpu",
        "habana.ai/gaudi",
        "google.com/tpu",
        "aws.amazon.com/neuroncore",
        "huawei.com/Ascend910",
    ],
)
@pytest.mark.parametrize("bound", ["limits", "requests"])
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_pod_that_asks_for_an_accelerator_is_training(resource, bound, kind):
    content = with_resources(pod("train"), {bound: {"cpu": "1", resource: "1"}}, kind)

    assert class_of(read(content), (), "") is PodClass.TRAINING


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"cpu": "4", "memory": "1Gi", "hugepages-2Mi": "2Mi"}},
        {"limits": {"nvidia.com/gpu": "0"}},
        {"limits": {"nvidia.com/gpu": 0}},
        {"limits": {"nvidia.com/hostdev": "1"}},
        {"limits": {"example.com/fpga": "1", "rdma/hca": "1", "smarter-devices/fuse": "1"}},
        {"limits": None},
        None,
    ],
)
def test_other_resources_make_no_training_pod(resources):
    assert class_of(read(with_resources(pod("web"), resources)), (), "") is PodClass.ORDINARY


def test_a_pod_with_a_resource_claim_is_taken_for_training():
    content = pod("train")
    content["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "one"}]

    assert class_of(read(content), (), "") is PodClass.TRAINING


def test_local_disks_missing_owners_and_tolerations_are_no_reason_to_stay():
    content = pod("bare")
    content["spec"] |= {
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
    }
    found = read(content)

    assert class_of(found, (), "") is PodClass.ORDINARY
    assert found.owner == ""


# --- what is read ----------------------------------------------------------------------------


def test_what_matters_is_read():
    content = pod("web-1", grace_seconds=45, owner="ReplicaSet", finalizers=["a/b"])
    content["metadata"] |= {"uid": UID, "resourceVersion": "417"}

    found = read(content)

    assert (found.full_name, found.uid, found.node) == ("training/web-1", UID, "node-a")
    assert (found.version, found.owner, found.grace_seconds) == (417, "ReplicaSet", 45)
    assert found.finalizers == ("a/b",)
    assert (found.ends_at, found.disruption) == (None, None)


@pytest.mark.parametrize(
    ("grace", "expected"), [(None, 30), (0, 0), (-5, 1), (True, 30), ("9", 30)]
)
def test_a_pods_time_to_end_has_the_servers_default(grace, expected):
    content = pod("p")
    content["spec"]["terminationGracePeriodSeconds"] = grace

    assert read(content).grace_seconds == expected


def test_a_controller_is_told_from_other_owners():
    references = [
        {"kind": "ConfigMap", "name": "c"},
        {"kind": "Job", "name": "j", "controller": True},
    ]

    assert read(pod("p", ownerReferences=references)).owner == "Job"
    assert read(pod("p", ownerReferences=references[:1])).owner == ""


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["metadata", "spec", "status", "uid", "name", "namespace", "conditions", "type"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_the_server_sends_is_a_pod_or_none(content):
    if isinstance(content, dict):
        read(content)
        content = pod("p") | content
        read(content)


# --- its end ---------------------------------------------------------------------------------


def test_an_end_that_is_seen_to_begin_is_measured_on_the_own_clock():
    before = read(pod("p", uid=UID))
    after = ending(pod("p", uid=UID), "2031-01-01T00:00:00Z", 30)

    assert read(after, known=before).ends_at == NOW + 30


def test_an_end_goes_on_as_it_began():
    content = ending(pod("p", uid=UID), "2026-09-21T14:13:50Z", 30)
    first = read(content, known=read(pod("p", uid=UID)))

    assert read(content, known=first, now=NOW + 20).ends_at == NOW + 30


def test_an_end_that_is_shortened_is_measured_from_then():
    first = read(ending(pod("p", uid=UID), "2026-09-21T14:14:20Z", 60))
    shorter = ending(pod("p", uid=UID), "2026-09-21T14:13:25Z", 5)

    assert read(shorter, known=first, now=NOW + 20).ends_at == NOW + 25


@pytest.mark.parametrize(
    ("deletion", "expected"),
    [
        ("2026-09-21T14:13:40Z", NOW + 20),
        ("2026-09-21T14:03:20Z", NOW - 600),
        ("2031-01-01T00:00:00Z", NOW + 30),
        ("garbage", NOW + 30),
    ],
)
def test_an_end_that_began_unseen_is_measured_on_the_servers_clock(deletion, expected):
    assert read(ending(pod("p"), deletion, 30)).ends_at == expected


# --- its mark --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ("2026-09-21T14:12:20Z", NOW - 60),
        ("2031-01-01T00:00:00Z", NOW),
        (None, NOW),
    ],
)
def test_a_mark_is_read_with_its_age(since, expected):
    content = pod("p")
    content["status"]["conditions"].append(
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "LastcallNotice",
            "lastTransitionTime": since,
        }
    )
    found = read(content)

    assert found.marked_by_us
    assert found.disruption.since == expected


def test_a_mark_that_was_taken_back_is_none():
    content = pod("p")
    content["status"]["conditions"].append({"type": "DisruptionTarget", "status": "False"})

    assert read(content).disruption is None


def test_anothers_mark_is_told_from_ours():
    content = pod("p")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    content["status"]["conditions"].append(condition)
    found = read(content)

    assert found.disruption is not None
    assert not found.marked_by_us


# --- control groups --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cgroup",
    [
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice"
            "/cri-containerd-7fe2.scope"
        ),
        f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-7fe2.scope/container",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID_}.slice",
        f"/kubepods/besteffort/pod{UID}/7fe2",
        f"/kubepods/pod{UID}/7fe2",
        f"/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-7fe2.scope",
        f"/../../pod{UID}/7fe2",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice/x.scope",
        f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:7fe2",
    ],
)
def test_a_control_group_names_its_pod(cgroup):
    assert pod_uids(cgroup) == (UID,)


@pytest.mark.parametrize(
    "cgroup",
    [
        f"/kubepods.slice/kubepods-burstable-pod{STATIC_UID}.slice/cri-containerd-7fe2.scope",
        f"/kubepods/burstable/pod{STATIC_UID}/7fe2",
    ],
)
def test_a_static_pods_control_group_names_its_hash(cgroup):
    assert pod_uids(cgroup) == (STATIC_UID,)
    mirror = pod(
        "etcd",
        annotations={
            "kubernetes.io/config.mirror": STATIC_UID,
            "kubernetes.io/config.hash": STATIC_UID,
        },
    )
    assert read(mirror).static_uid == STATIC_UID


@pytest.mark.parametrize(
    "cgroup",
    [
        "",
        "/",
        "/user.slice/user-1000.slice/session-3.scope",
        "/system.slice/podman.service",
        f"/kubepods/tripod{UID}/7fe2",
        f"/kubepods/pod{UID}0/7fe2",
        "/kubepods/pod1c4f2b6e/7fe2",
    ],
)
def test_a_control_group_of_no_pod_names_none(cgroup):
    assert pod_uids(cgroup) == ()


def test_a_group_within_anothers_names_the_outermost_first():
    nested = f"/kubepods/pod{UID}/7fe2/kubepods/pod{OTHER_UID}/1a2b"

    assert pod_uids(nested) == (UID, OTHER_UID)
