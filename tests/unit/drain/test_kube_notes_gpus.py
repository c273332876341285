"""What Events say of GPUs, and how often, on loop time."""

from __future__ import annotations

import asyncio

import pytest

from lastcall.core.facts import GpuHealth, NoticeSeen
from lastcall.core.gpu.model import Health, Recovery
from lastcall.core.model import Kind
from lastcall.drain.kubernetes.notes_gpus import EACH_SECONDS, QUIET_SECONDS
from support.kube_notes import NODE, StandInApi, ended, notice, running, told, writer_of

pytestmark = pytest.mark.looptime

FAULTY, DEGRADED, HEALTHY, UNKNOWN = (
    Health.FAULTY,
    Health.DEGRADED,
    Health.HEALTHY,
    Health.UNKNOWN,
)


@pytest.fixture
def api():
    return StandInApi()


def judged(health=FAULTY, before=HEALTHY, reasons=("xid_79",), gpu="GPU-1", **changes):
    fields = {"index": 1, "recovery": Recovery.REBOOT, "detail": "fallen off the bus", **changes}
    reasons = () if health is HEALTHY else reasons
    return GpuHealth(gpu=gpu, health=health, before=before, reasons=reasons, **fields)


def of_gpus(**changes):
    return told(8, kind=Kind.GPU_FAULT, source="gpu", sources=("gpu",), **changes)


async def heard(api, *facts, apart_seconds=0.0):
    """Let a writer hear facts, some time apart, and give it time to write."""
    async with running(writer := writer_of(api)):
        for fact in facts:
            writer.note(fact)
            await asyncio.sleep(apart_seconds)
        await asyncio.sleep(5.0)
    return [(reason, message) for _, reason, message in api.said]


async def reasons(api, *facts, apart_seconds=0.0):
    return [reason for reason, _ in await heard(api, *facts, apart_seconds=apart_seconds)]


async def test_a_faulty_gpu_is_named_on_the_node_with_reasons_and_what_helps(api):
    await heard(api, judged(reasons=("xid_79", "row_remap_pending")))

    ((at, about, text),) = api.calls
    assert (at, about, text.reason, text.is_warning) == (1.0, NODE, "GPUFault", True)
    assert text.message == (
        "GPU 1 (GPU-1) is faulty: xid_79, row_remap_pending (fallen off the bus); "
        "recommended: reboot the machine"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpu": "", "index": -1}, "The GPUs are, taken together, faulty: gpu_missing"),
        ({"gpu": "GPU-9", "index": -1}, "A GPU (GPU-9) is faulty: gpu_missing"),
    ],
)
async def test_what_has_no_number_is_named_otherwise(api, changes, message):
    fact = judged(reasons=("gpu_missing",), recovery=Recovery.NONE, detail="", **changes)

    assert await heard(api, fact) == [("GPUFault", message)]


async def test_what_speaks_against_it_is_not_said_twice_where_nothing_more_is_known(api):
    ((_, message),) = await heard(api, judged(reasons=("a", "b"), detail="a; b"))

    assert message == "GPU 1 (GPU-1) is faulty: a, b; recommended: reboot the machine"


async def test_a_degraded_gpu_is_a_warning_with_a_reason_of_its_own(api):
    fact = judged(DEGRADED, reasons=("row_remap_pending",), recovery=Recovery.RESET_WHEN_IDLE)
    await heard(api, fact)

    ((_, _, text),) = api.calls
    assert (text.reason, text.is_warning) == ("GPUDegraded", True)
    assert text.message.endswith("; recommended: reset the GPU when it is idle")


async def test_a_gpu_that_is_well_again_after_a_fault_is_said_to_be(api):
    said = await heard(api, judged(), judged(HEALTHY, FAULTY), apart_seconds=20.0)

    assert said[1:] == [("GPURecovered", "GPU 1 (GPU-1) is healthy again")]
    assert api.calls[1][2].is_warning is False


async def test_so_is_one_whose_fault_was_said_before_a_restart(api):
    assert await reasons(api, judged(HEALTHY, FAULTY)) == ["GPURecovered"]


async def test_so_is_one_that_was_degraded_or_unknown_in_between(api):
    between = (judged(DEGRADED, FAULTY), judged(UNKNOWN, DEGRADED))
    said = await reasons(api, judged(), *between, judged(HEALTHY, UNKNOWN), apart_seconds=5.0)

    assert said == ["GPUFault", "GPUDegraded", "GPURecovered"]


@pytest.mark.parametrize("before", [UNKNOWN, DEGRADED])
async def test_a_gpu_that_was_never_faulty_is_not_said_to_be_well(api, before):
    assert await reasons(api, judged(HEALTHY, before), judged(UNKNOWN, HEALTHY)) == []


async def test_a_fault_is_said_once_until_it_is_another(api):
    same = judged(UNKNOWN, FAULTY), judged(FAULTY, UNKNOWN)
    other = judged(FAULTY, FAULTY, reasons=("xid_95", "xid_79"))
    said = await heard(api, judged(), *same, other, apart_seconds=5.0)

    assert [message[:32] for _, message in said] == [
        "GPU 1 (GPU-1) is faulty: xid_79 ",
        "GPU 1 (GPU-1) is faulty: xid_95,",
    ]


async def test_a_gpu_is_said_to_be_degraded_once_in_ten_minutes(api):
    facts = [judged(DEGRADED), judged(HEALTHY, DEGRADED)] * 20
    said = await reasons(api, *facts, apart_seconds=QUIET_SECONDS / 20)

    assert said == ["GPUDegraded"] * 2


async def test_each_gpu_is_told_of_for_itself(api):
    assert await reasons(api, *(judged(gpu=f"GPU-{n}") for n in range(8))) == ["GPUFault"] * 8
    assert len({text.name for _, _, text in api.calls}) == 8


@pytest.mark.parametrize("apart_seconds", [2.0, 45.0, 400.0])
async def test_a_gpu_that_is_well_and_ill_by_turns_is_told_of_twelve_times_an_hour(
    api, apart_seconds
):
    turns = int(5400 / apart_seconds / 2)
    facts = [judged(), judged(HEALTHY, FAULTY)] * turns
    said = await reasons(api, *facts, apart_seconds=apart_seconds)

    times = [at for at, _, _ in api.calls]
    most = max(sum(0 <= at - first < 3600 for at in times) for first in times)
    assert said[:3] == ["GPUFault", "GPURecovered", "GPUFault"]
    assert len(said) > most - 1 > 6
    assert most <= 12
    # Each has a name of its own: the server would take one for the other.
    assert len({text.name for _, _, text in api.calls}) == len(api.calls)


@pytest.mark.parametrize(
    ("between", "also"),
    [((), []), ((judged(DEGRADED, HEALTHY),), ["GPUDegraded"])],
    ids=["well", "degraded"],
)
async def test_the_fault_of_a_gpu_that_was_said_to_be_well_is_said_whatever_came_before(
    api, between, also
):
    turns = [judged(), judged(HEALTHY, FAULTY), *between, judged(reasons=("xid_95",))]
    said = await reasons(api, *turns, apart_seconds=2.0)

    assert said == ["GPUFault", "GPURecovered", *also, "GPUFault"]


async def test_a_fault_is_said_again_though_its_end_was_not(api):
    flaps = [judged(), judged(HEALTHY, FAULTY)] * 4
    async with running(writer := writer_of(api)):
        for fact in flaps:
            writer.note(fact)
            await asyncio.sleep(2.0)
        before = [reason for _, reason, _ in api.said]
        await asyncio.sleep(4 * EACH_SECONDS)
        writer.note(judged())
        await asyncio.sleep(5.0)

    assert before == ["GPUFault", "GPURecovered", "GPUFault"]
    assert [reason for _, reason, _ in api.said] == [*before, "GPUFault"]


async def test_what_is_said_again_after_a_restart_has_the_same_name(api):
    await heard(api, judged())
    await heard(api, judged(FAULTY, UNKNOWN))

    assert len({text.name for _, _, text in api.calls}) == 1


# --- beside a notice --------------------------------------------------------------------------


async def test_a_fault_that_is_a_notice_is_said_once_with_both_parts(api):
    seen = NoticeSeen(of_gpus().notice, 30.0)
    ((reason, message),) = await heard(api, judged(), seen, of_gpus())

    assert reason == "GPUFault"
    assert message.startswith("a GPU of this node is ")
    assert "8 training processes are told to save and stop; GPU 1 (GPU-1) is faulty" in message
    assert message.endswith("recommended: reboot the machine")


async def test_an_advice_for_a_degraded_gpu_has_that_reason(api):
    assert await reasons(api, judged(DEGRADED), of_gpus()) == ["GPUDegraded"]


async def test_the_fault_of_another_gpu_while_the_notice_stands_is_said(api):
    said = await heard(api, judged(), of_gpus(), judged(gpu="GPU-2"), apart_seconds=0.5)

    assert [reason for reason, _ in said] == ["GPUFault", "GPUFault"]
    assert "GPU-2" in said[1][1]


@pytest.mark.parametrize("other", [told(8), of_gpus(drill=True)], ids=["provider", "drill"])
async def test_a_notice_of_something_else_leaves_it_as_it_is(api, other):
    said = await heard(api, judged(), other)

    assert len(said) == 2
    assert said[1][1].startswith("GPU 1 (GPU-1) is faulty")


async def test_a_notice_takes_no_recovery_in(api):
    said = await reasons(api, judged(HEALTHY, FAULTY), of_gpus(), ended("withdrawn"))

    assert "GPURecovered" in said


async def test_what_is_held_is_written_when_the_agent_ends(api):
    writer = writer_of(api)
    writer.note(judged())
    await writer.close()

    assert [text.reason for _, _, text in api.calls] == ["GPUFault"]
    assert notice().id not in api.calls[0][2].name
