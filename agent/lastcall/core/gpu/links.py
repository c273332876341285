"""What a GPU's links to the host and to other GPUs should be like."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_REPLAYS_A_LANE = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
"""By PCIe generation: replays a minute and lane that are still well (DCGM's health watch)."""

_LINKED_AS_BUILT = ("pcie", "nvl", "geforce", "quadro", "rtx")
"""Words in the names of cards, on which bridges between them are the builder's choice (NVSentinel
pull request 1481, azurehpc-health-checks issue 162)."""

_FULLY_LINKED = re.compile(r"\ba100-sxm|\bh100 (sxm|\d+gb hbm3\b)|\b(h200|g?b200|g?b300)\b")
"""Names of GPUs on boards that link each of them with all its NVLinks: NVIDIA's HGX and NVL72 from
the A100 on. On the generations before, a link leads to one other GPU, which a virtual machine may
not have (azhpc-diagnostics issue 73)."""

_HAS_FABRIC = (1, 2, 3)
"""States of the NVLink fabric that a GPU without one does not have (``nvml.h``,
``NVML_GPU_FABRIC_STATE_…``): not started, in progress, completed."""

# Shifts and values are those of nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_…: most are two bits wide, of
# which 1 is trouble and 2 is none; the configuration's four bits are the other way round, 1 is
# right. A missing partition (4) is how an idle node may be, and so are the two fields left out,
# partition and global fabric manager (aicr issue 2641).
_MASK_FIELDS = (
    (0, "less bandwidth"),
    (2, "a route is being recovered"),
    (4, "a route is not healthy"),
    (6, "recovering from a time-out"),
)
_CONFIGURATION_SHIFT = 8
_CONFIGURATION_RIGHT = (0, 1, 4)
_SUMMARIES = {2: "unhealthy", 3: "limited capacity"}


def replays_a_minute(known: Mapping[str, float]) -> float | None:
    """Return how many PCIe replays a minute are still well; ``None`` where the link is unknown.

    The generation is the fastest that the link has: at rest it is slower, to save power.
    """
    generation = known.get("pcie_generation_max", known.get("pcie_generation"))
    width = known.get("pcie_width", known.get("pcie_width_max"))
    if generation is None or width is None:
        return None
    a_lane = _REPLAYS_A_LANE.get(int(generation))
    return None if a_lane is None else math.ceil(a_lane * width)


def expected_links(name: str, gpus: int, known: Mapping[str, float]) -> float:
    """Return how many NVLinks should be active; 0 where none need be.

    Args:
        name: the GPU's model.
        gpus: how many GPUs the node has; one alone has nothing to be linked to.
        known: figures of the GPU.
    """
    words = name.lower()
    if gpus < 2 or known.get("mig") or any(word in words for word in _LINKED_AS_BUILT):
        return 0
    if not _FULLY_LINKED.search(words) and known.get("fabric_state") not in _HAS_FABRIC:
        return 0
    return known.get("nvlink_present", 0)


def fabric_troubles(mask: int, summary: int) -> tuple[str, ...]:
    """Return what is wrong with the NVLink fabric, as a GPU sees it."""
    troubles = [words for shift, words in _MASK_FIELDS if mask >> shift & 0x3 == 1]
    if mask >> _CONFIGURATION_SHIFT & 0xF not in _CONFIGURATION_RIGHT:
        troubles.append("wrongly configured")
    if summary in _SUMMARIES:
        troubles.append(_SUMMARIES[summary])
    return tuple(troubles)
