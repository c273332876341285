"""What a line of the kernel's says of an XID beyond its number."""

from __future__ import annotations

import pytest

from lastcall.core.gpu.xid_lines import new_action, severity

RESET = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
RETURNED = "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x08)", "nonfatal"),
        ("145, RLW_SRC_TRACK Non-fatal XC1 i0 Link 12 (0x040988e2 0x08)", "nonfatal"),
        ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x0)", "fatal"),
        ("149, NETIR Fatal XC0 i0 Link -1 (0x000fe406", "fatal"),
        ("145, pid=1, name=A Fatal XC0, RLW_REMAP Nonfatal XC1 i0 Link 1", "nonfatal"),
        ("145, RLW_REMAP", ""),
        ("", ""),
    ],
)
def test_a_line_of_nvlink_5_says_whether_it_is_fatal(text: str, said: str) -> None:
    assert severity(f"NVRM: Xid (PCI:0000:1b:00): {text}") == said


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (f"154, {RESET}", 1),
        (f"154, pid=1, name=up to 9, {RETURNED}", 0),
        ("154, GPU recovery action changed from 0x0 (None) to 4", 4),
        ("154, changed to 010", 10),
        ("154 (", None),
        ("154) (to", None),
        ("154, changed to 0x", None),
        ("154, changed to 0x" + "f" * 400, None),
        ("154", None),
    ],
)
def test_a_new_recovery_action_is_read_where_it_is_said(text: str, action: int | None) -> None:
    assert new_action(f"NVRM: Xid (PCI:0000:1b:00): {text}") == action
