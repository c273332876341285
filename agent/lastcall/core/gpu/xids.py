"""How each XID error is taken, as data.

Numbers and remedies are those of NVIDIA's catalog ("Analyzing Xid Errors with the Xid Catalog",
docs.nvidia.com/deploy/xid-errors); the meanings are in our own words. Others who watch GPUs
disagree about at least a dozen of them: 13, 31, 43, 45, 63, 74, 92, 94, 109, 121 and 143 among
them are a fault to one and none to the next (NVIDIA's Kubernetes device plugin, the EKS node
monitoring agent, DCGM 4.6, Azure's NHC and health agent, gpud). So a number is the weaker witness
wherever the driver itself can be asked, and a site can override each line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Respond(StrEnum):
    """What an XID says.

    ``ignore``: nothing. ``app``: a program's fault, which is counted alone. ``watch``: the GPU is
    degraded. ``reset``, ``reboot``: it is faulty until then, unless the driver's recovery action
    says that it is not. ``ask``: the number has harmless and fatal forms.
    """

    IGNORE = "ignore"
    APP = "app"
    WATCH = "watch"
    RESET = "reset"
    REBOOT = "reboot"
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRule:
    """How one XID error is taken.

    Attributes:
        meaning: what it is, for people.
        respond: what it says.
        alone: it decides at once; the driver is not asked, since it may hang by then.
        repeats: how many of it, in ``within_seconds``, say ``then`` instead.
        within_seconds: the time in which repeats are counted.
        then: what that many say; ``None``: no more than one does.
        tells_action: it says which recovery action the driver wants from now on.
        lost: a process on that GPU cannot be saved any more.
        firm: what the driver says afterwards does not end it: the site itself calls it a fault.
    """

    meaning: str
    respond: Respond
    alone: bool = False
    repeats: int = 1
    within_seconds: float = 600.0
    then: Respond | None = None
    tells_action: bool = False
    lost: bool = False
    firm: bool = False

    def after(self, count: int) -> Respond:
        """Return what ``count`` of it in the time of repeats say."""
        return self.then if self.then is not None and count >= self.repeats else self.respond


UNLISTED = XidRule(meaning="an error that the table does not list", respond=Respond.WATCH)


def _all(numbers: Iterable[int], meaning: str, respond: Respond) -> dict[int, XidRule]:
    return {number: XidRule(meaning=meaning, respond=respond) for number in numbers}


def _reset(
    meaning: str, *, alone: bool = False, lost: bool = False, reboot: bool = False
) -> XidRule:
    respond = Respond.REBOOT if reboot else Respond.RESET
    return XidRule(meaning=meaning, respond=respond, alone=alone, lost=lost)


XIDS: Mapping[int, XidRule] = {
    **_all((8,), "the GPU stopped working on a program's commands", Respond.APP),
    **_all((11, 25, 32, 80), "a program sent broken commands or data", Respond.APP),
    **_all((13,), "a program's exception in the graphics engine", Respond.APP),
    **_all((31,), "a program touched memory that is not its own", Respond.APP),
    **_all((37, 38, 44, 66, 67), "the driver's firmware, or an illegal access", Respond.WATCH),
    **_all(
        (*range(39, 42), *range(70, 73), *range(75, 78), 85, *range(126, 136)),
        "an exception in a copy engine",
        Respond.APP,
    ),
    # Three of it on one GPU within ten minutes are more than a program's fault (EKS node
    # monitoring agent, issue 272).
    43: XidRule(
        meaning="a program's channel was reset",
        respond=Respond.APP,
        repeats=3,
        then=Respond.WATCH,
    ),
    **_all((45,), "a program's work was cleared away after another error", Respond.APP),
    46: _reset("the GPU timed out"),
    48: _reset("a memory error that could not be corrected"),
    54: _reset("a power connector is not attached", reboot=True),
    62: _reset("the GPU's own controller halted"),
    **_all((63,), "a memory row is to be replaced by a spare one", Respond.WATCH),
    64: _reset("a memory row could not be replaced", reboot=True),
    **_all(
        (68, 69, 82, 83, 84, 86, 88, 89, *range(96, 106), 139),
        "an exception in a video, image or compute engine",
        Respond.APP,
    ),
    74: _reset("an NVLink error"),
    79: _reset("the GPU is not on the bus any more", alone=True, lost=True, reboot=True),
    **_all((92,), "many corrected memory errors", Respond.WATCH),
    **_all((93,), "the GPU's configuration memory is worn", Respond.WATCH),
    # Contained: what was hit has ended, and the rest is sound (gpu-operator issue 1065).
    **_all((94,), "a memory error that hit one program alone", Respond.APP),
    95: _reset("a memory error that may have hit any program", lost=True),
    **_all((106, 107), "a test message", Respond.IGNORE),
    **_all((108,), "NVLink could not translate an address", Respond.WATCH),
    109: _reset("the GPU could not switch between programs"),
    110: _reset("a security fault"),
    119: _reset("the GPU's system processor does not answer", alone=True),
    120: _reset("an error in the GPU's system processor", alone=True),
    **_all((121,), "an error on the link between GPU and CPU", Respond.WATCH),
    **_all(range(122, 126), "the GPU's configuration memory", Respond.WATCH),
    136: _reset("an NVLink did not come up"),
    **_all((137,), "a program touched another GPU's memory that is not its own", Respond.APP),
    140: _reset("a memory error that was not recovered from", lost=True),
    **_all((141, 152, 153, 160, 161), "a unit of the GPU was disabled or failed", Respond.WATCH),
    **_all((142,), "an error in a video encoder", Respond.WATCH),
    143: XidRule(
        meaning="the GPU could not be initialised",
        respond=Respond.RESET,
        repeats=2,
        within_seconds=3600.0,
        then=Respond.REBOOT,
    ),
    # One number for the harmless and the fatal (NVSentinel issue 1357).
    **_all(range(144, 151), "an error in a unit of NVLink 5", Respond.ASK),
    151: _reset("the keys for confidential computing could not be changed", reboot=True),
    # Speaks of another error and may say that nothing is needed any more; the action itself is
    # read and judged.
    154: XidRule(
        meaning="the driver's recovery action changed",
        respond=Respond.ASK,
        tells_action=True,
    ),
    155: _reset("an NVLink error that software defines"),
    156: _reset("a part of the GPU is to be retired"),
    **_all((157,), "a part of the GPU could not be retired", Respond.WATCH),
    158: _reset("the GPU timed out for good", lost=True),
    **_all((159,), "an error on the interconnect with the CPU", Respond.WATCH),
    **_all(range(162, 166), "power smoothing changed its state", Respond.WATCH),
    **_all((166, 170), "NVLink's confidential computing", Respond.WATCH),
    167: _reset("PCIe timed out for good", lost=True, reboot=True),
    **_all((168,), "the GPU has less memory than it should", Respond.WATCH),
    169: _reset("the GPU's security processor halted"),
    **_all((171, 172), "says where the memory error of an XID 48 was", Respond.IGNORE),
}
"""By number; what is not in it is :data:`UNLISTED`."""


def key(gpu: str, xid: int) -> str:
    """Return under what it is kept when an XID was last seen on a GPU.

    Args:
        gpu: its UUID; empty where it is not known.
        xid: the number.
    """
    return f"{gpu}/{xid}"


COUNTED = frozenset(
    {13, 31, 43, 45, 63, 92, 94}
    | {
        number
        for number, rule in XIDS.items()
        if rule.respond in (Respond.RESET, Respond.REBOOT, Respond.ASK)
    }
)
"""The XIDs that have series of their own in the metrics."""

OTHER = "other"
"""What all others are called there."""

NOISE = frozenset({43, 45})
"""What processes leave behind that a flush or a drain has ended."""
