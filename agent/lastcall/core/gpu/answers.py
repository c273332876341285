"""What the driver's own word makes of a GPU, as data: return codes of calls, and recovery actions.

The actions' numbers are those of NVIDIA's header ``nvml.h`` (``nvmlDeviceGpuRecoveryAction_t``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lastcall.core.gpu import codes
from lastcall.core.gpu.model import Health, Recovery


class Answer(NamedTuple):
    """What an answer of the driver makes of a GPU.

    Attributes:
        reason: its name.
        health: how the GPU is.
        recovery: what helps.
        words: for people.
        in_a_row: how many looks must have it, one after the other.
        lost: nothing can be saved from this GPU any more.
    """

    reason: str
    health: Health
    recovery: Recovery
    words: str
    in_a_row: int = 1
    lost: bool = False


# A GPU with an unclear answer is degraded and not faulty: the code does not say that the GPU is at
# fault, nor what would help. To be wrong costs one checkpoint this way; the other way, a node.
_UNKNOWN_ERROR = Answer("unknown_error", Health.DEGRADED, Recovery.NONE, "it cannot be read", 3)

CODES: Mapping[int, Answer] = {
    # A matter of rights, such as MIG's in a container, which says nothing of the GPU.
    codes.NO_PERMISSION: Answer(
        "no_permission", Health.UNKNOWN, Recovery.NONE, "the agent may not read this GPU"
    ),
    codes.IRQ_ISSUE: Answer(
        "irq_issue", Health.FAULTY, Recovery.REBOOT, "its interrupts do not arrive"
    ),
    codes.GPU_IS_LOST: Answer("gpu_lost", Health.FAULTY, Recovery.REBOOT, "it is lost", lost=True),
    codes.RESET_REQUIRED: Answer(
        "reset_required", Health.FAULTY, Recovery.RESET, "it needs a reset"
    ),
    codes.OPERATING_SYSTEM: _UNKNOWN_ERROR,
    codes.GPU_NOT_FOUND: Answer(
        "gpu_not_found", Health.DEGRADED, Recovery.NONE, "it is not found any more", 3
    ),
    codes.UNKNOWN: _UNKNOWN_ERROR,
}

UNCLEAR_REASONS = frozenset(answer.reason for answer in CODES.values() if answer.in_a_row > 1)
"""What says little where all GPUs have it at once."""

_REASON = "recovery_action"

ACTIONS: Mapping[int, Answer] = {
    1: Answer(_REASON, Health.FAULTY, Recovery.RESET, "the driver wants a reset of the GPU"),
    2: Answer(_REASON, Health.FAULTY, Recovery.REBOOT, "the driver wants a reboot of the node"),
    3: Answer(
        _REASON,
        Health.DEGRADED,
        Recovery.RESET_WHEN_IDLE,
        "the driver wants programs that use several GPUs to leave",
    ),
    4: Answer(
        _REASON,
        Health.FAULTY,
        Recovery.RESET,
        "the driver wants programs to leave, then a reset of the GPU",
    ),
    5: Answer(
        _REASON, Health.DEGRADED, Recovery.NONE, "the driver wants the IMEX domain recovered"
    ),
    6: Answer(_REASON, Health.FAULTY, Recovery.RESET, "the driver wants a reset of the PCIe bus"),
    7: Answer(_REASON, Health.FAULTY, Recovery.REBOOT, "the driver wants a reboot of the system"),
}
"""By recovery action; 0 is none."""

UNKNOWN_ACTION = Answer(
    "unknown_action",
    Health.FAULTY,
    Recovery.REBOOT,
    "the driver wants a recovery that is not known here",
)
"""A driver that is newer than this table wants something, and something is not nothing."""


def action_answer(action: int) -> Answer | None:
    """Return what a recovery action says; ``None`` where no recovery is needed."""
    return ACTIONS.get(action, UNKNOWN_ACTION) if action else None
